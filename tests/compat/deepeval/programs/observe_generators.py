import asyncio

from deepeval.tracing import observe, update_current_span


@observe(type="llm", model="streaming")
def stream(text):
    for word in text.split():
        yield word
    return "end"


@observe(type="agent")
def shout(text):
    return " ".join(word.upper() for word in stream(text))


@observe(type="llm")
async def astream(text):
    for word in text.split():
        await asyncio.sleep(0)
        yield word
    update_current_span(output=text)


@observe(type="agent")
async def collect(text):
    return [word async for word in astream(text)]


@observe()
def delegating(text):
    result = yield from stream(text)
    yield result


assert list(stream("one two three")) == ["one", "two", "three"]
assert shout("a b") == "A B"
assert asyncio.run(collect("x y z")) == ["x", "y", "z"]
assert list(delegating("p q"))[:2] == ["p", "q"]

half = stream("one two three")
assert next(half) == "one"
half.close()
print("OK")
