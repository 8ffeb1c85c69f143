# a service tests itself: measure and evaluate from asynchronous code
import asyncio

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


async def handle(question):
    called = [ToolCall(name="a")]
    await asyncio.sleep(0)
    if "b" in question:
        called.append(ToolCall(name="b"))
    case = LLMTestCase(input=question, actual_output="o", tools_called=called, expected_tools=[ToolCall(name="a"), ToolCall(name="b")])
    names, order = ToolCorrectnessMetric(), ToolCorrectnessMetric(should_consider_ordering=True, async_mode=False)
    await names.a_measure(case)
    order.measure(case)  # a blocking call inside of the loop
    return names.score, order.score


async def main():
    return await asyncio.gather(handle("a and b"), handle("only a"))


assert asyncio.run(main()) == [(1.0, 1.0), (0.5, 0.5)]
print("OK")
