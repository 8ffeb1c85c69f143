# the shortest metric: threshold, measure, a_measure, __name__
from deepeval import evaluate
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, ToolCall


class CallBudget(BaseMetric):
    def __init__(self, threshold=0.5, budget=3):
        self.threshold = threshold
        self.budget = budget

    def measure(self, test_case: LLMTestCase, *args, **kwargs):
        used = len(test_case.tools_called or [])
        self.score = max(0.0, 1 - used / (2 * self.budget))
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *args, **kwargs):
        return self.measure(test_case, *args, **kwargs)

    @property
    def __name__(self):
        return "Call Budget"


def case(number):
    return LLMTestCase(input=f"{number} calls", actual_output="o", tools_called=[ToolCall(name="t")] * number)


metric = CallBudget()
metric.measure(case(2))
assert abs(metric.score - 2 / 3) < 1e-9
assert metric.is_successful() is True
metric.measure(case(6))
assert metric.score == 0.0
assert metric.is_successful() is False

result = evaluate([case(1), case(5)], [CallBudget(threshold=0.4), CallBudget(threshold=0.1, budget=5)])
by_input = {r.input: r for r in result.test_results}
assert by_input["1 calls"].success is True
assert by_input["5 calls"].success is False
assert [d.success for d in by_input["5 calls"].metrics_data] == [False, True]
assert [round(d.score, 3) for d in by_input["5 calls"].metrics_data] == [round(1 - 5 / 6, 3), 0.5]
print("OK")
