from deepeval.tracing import observe


class Outage(RuntimeError):
    pass


@observe(type="tool")
def flaky_service(n):
    if n % 2:
        raise Outage(f"call {n}")
    return n


@observe(type="agent")
def retrying(n):
    try:
        return flaky_service(n)
    except Outage:
        return flaky_service(n + 1)


@observe()
def outer(n):
    return flaky_service(n)


assert retrying(2) == 2
assert retrying(3) == 4
try:
    outer(5)
except Outage as error:
    assert str(error) == "call 5"
else:
    raise AssertionError("the error of the tool must reach the caller")
assert outer(6) == 6
print("OK")
