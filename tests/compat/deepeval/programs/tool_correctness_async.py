import asyncio

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


def make_case(number, called):
    return LLMTestCase(
        input=f"job {number}",
        actual_output="ok",
        tools_called=[ToolCall(name=n) for n in called],
        expected_tools=[ToolCall(name="fetch"), ToolCall(name="store")],
    )


async def one(case):
    metric = ToolCorrectnessMetric(threshold=0.9)
    returned = await metric.a_measure(case)
    assert returned == metric.score
    return metric


async def main():
    cases = [make_case(0, ["fetch", "store"]), make_case(1, ["fetch"]), make_case(2, [])]
    return await asyncio.gather(*(one(case) for case in cases))


metrics = asyncio.run(main())
assert [m.score for m in metrics] == [1.0, 0.5, 0.0]
assert [m.is_successful() for m in metrics] == [True, False, False]


async def sequence():
    metric = ToolCorrectnessMetric()
    scores = []
    for called in (["fetch"], ["store", "fetch"]):
        await metric.a_measure(make_case(9, called))
        scores.append(metric.score)
    return scores


assert asyncio.run(sequence()) == [0.5, 1.0]
print("OK")
