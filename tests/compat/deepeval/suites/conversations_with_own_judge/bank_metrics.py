from deepeval.metrics import BaseConversationalMetric
from deepeval.test_case import ConversationalTestCase


class BankMetric(BaseConversationalMetric):
    title = "Bank"

    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def grade(self, test_case):
        raise NotImplementedError

    def measure(self, test_case: ConversationalTestCase, *args, **kwargs) -> float:
        try:
            self.score, self.reason = self.grade(test_case)
            self.success = self.score >= self.threshold
        except Exception as error:
            self.error = str(error)
            raise
        return self.score

    async def a_measure(self, test_case: ConversationalTestCase, *args, **kwargs) -> float:
        return self.measure(test_case, *args, **kwargs)

    def is_successful(self) -> bool:
        if self.error is not None:
            self.success = False
        return self.success

    @property
    def __name__(self):
        return self.title


class ToolOrder(BankMetric):
    title = "Tool Order"

    def __init__(self, first: str = "identify", threshold: float = 0.5):
        super().__init__(threshold)
        self.first = first

    def grade(self, test_case):
        names = [call.name for turn in test_case.turns for call in turn.tools_called or []]
        return (1.0 if names[:1] == [self.first] else 0.0), f"first: {names[0] if names else None}"


class ConfirmsBeforePaying(BankMetric):
    title = "Confirms Before Paying"

    def grade(self, test_case):
        users = 0
        for turn in test_case.turns:
            if turn.role == "user":
                users += 1
            if any(call.name == "pay" for call in turn.tools_called or []):
                return (1.0 if users > 1 else 0.0), f"{users} user turns before"
        return 1.0, "nothing was paid"


class TurnsWithTools(BankMetric):
    title = "Turns With Tools"

    def grade(self, test_case):
        turns = [turn for turn in test_case.turns if turn.role == "assistant"]
        share = sum(bool(turn.tools_called) for turn in turns) / len(turns)
        return share, f"{share:.2f}"
