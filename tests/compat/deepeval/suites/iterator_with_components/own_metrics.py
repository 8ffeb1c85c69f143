from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class NoRepeatedCalls(BaseMetric):
    history = {}

    def __init__(self, threshold: float = 1.0):
        self.threshold = threshold

    def measure(self, test_case: LLMTestCase, *args, **kwargs) -> float:
        seen = [(call.name, str(call.input_parameters)) for call in test_case.tools_called or []]
        repeated = len(seen) - len(set(seen))
        self.score = 0.0 if repeated else 1.0
        self.reason = f"{repeated} repeated calls"
        self.success = self.score >= self.threshold
        self.history[test_case.input] = self.score
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *args, **kwargs) -> float:
        return self.measure(test_case, *args, **kwargs)

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self):
        return "No Repeated Calls"
