# decorated functions behave as before when nothing is evaluated
import asyncio

from deepeval.tracing import observe, update_current_span, update_current_trace, update_llm_span, update_retriever_span


@observe
def bare(x):
    return x * 2


@observe()
def called(x, *more, key=None, **rest):
    """doc of called"""
    return (x, more, key, rest)


@observe(type="tool", name="tool name", description="adds numbers")
def tool(a: int, b: int = 3) -> int:
    return a + b


@observe(type="llm", model="tiny-1", cost_per_input_token=0.001, cost_per_output_token=0.002)
def llm(prompt):
    update_llm_span(input_token_count=12, output_token_count=3, cost_per_input_token=0.1, model="tiny-2")
    return "text"


@observe(type="retriever", embedder="mini")
def retrieve(query):
    update_retriever_span(embedder="mini-2", top_k=3, chunk_size=128)
    update_current_span(input=query, retrieval_context=["a", "b"], metadata={"k": 1}, name="other name")
    return ["a", "b"]


@observe(type="agent", available_tools=["tool name"], agent_handoffs=["second"])
def agent(question):
    update_current_trace(name="run", tags=["x"], metadata={"m": 2}, user_id="u", thread_id="t", input=question)
    return f"{llm(question)} {tool(1)} {retrieve(question)}"


@observe(type="my own type", metric_collection="collection")
def custom():
    return None


@observe(type="tool")
async def async_tool(n):
    await asyncio.sleep(0)
    return n + 1


class Service:
    @observe(type="tool")
    def method(self, value):
        return value

    @observe()
    async def async_method(self):
        return await async_tool(1)


assert bare(2) == 4
assert called(1, 2, key=3, z=4) == (1, (2,), 3, {"z": 4})
assert called.__name__ == "called" and called.__doc__ == "doc of called"
assert tool(1) == 4 and tool(1, b=1) == 2
assert agent("q") == "text 4 ['a', 'b']"
assert custom() is None
assert asyncio.run(async_tool(1)) == 2
assert Service().method(7) == 7
assert asyncio.run(Service().async_method()) == 2

# outside of any observed function the updates do nothing
assert update_current_span(input="x", output="y") is None
assert update_current_trace(tags=["t"]) is None
assert update_llm_span(input_token_count=1) is None
assert update_retriever_span(top_k=1) is None
print("OK")
