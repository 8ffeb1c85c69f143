import asyncio

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import BaseConversationalMetric
from deepeval.test_case import ConversationalTestCase, ToolCall, Turn


class ToolsBeforeAnswer(BaseConversationalMetric):
    """The share of assistant turns that used a tool."""

    def __init__(self, threshold: float = 0.5, evaluation_model: str = "none", include_reason: bool = True, strict_mode: bool = False, async_mode: bool = True):
        self.threshold = threshold
        self.evaluation_model = evaluation_model
        self.include_reason = include_reason
        self.strict_mode = strict_mode
        self.async_mode = async_mode

    def measure(self, test_case: ConversationalTestCase) -> float:
        turns = [turn for turn in test_case.turns if turn.role == "assistant"]
        used = [turn for turn in turns if turn.tools_called]
        self.score = len(used) / len(turns)
        self.reason = f"{len(used)} of {len(turns)}"
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: ConversationalTestCase) -> float:
        return self.measure(test_case)

    def is_successful(self) -> bool:
        return self.success

    @property
    def __name__(self):
        return "Tools Before Answer"


def talk(flags, **kwargs):
    turns = []
    for flag in flags:
        turns.append(Turn(role="user", content="and now?"))
        turns.append(Turn(role="assistant", content="so.", tools_called=[ToolCall(name="look")] if flag else None))
    return ConversationalTestCase(turns=turns, **kwargs)


all_used = talk([1, 1], name="all", scenario="s", expected_outcome="o", user_description="d", chatbot_role="r", context=["c"])
some_used = talk([1, 0, 0], name="some")
assert all_used.chatbot_role == "r" and all_used.user_description == "d"

metric = ToolsBeforeAnswer()
assert metric.measure(all_used) == 1.0 and metric.is_successful()
assert round(asyncio.run(metric.a_measure(some_used)), 3) == 0.333
assert not metric.is_successful()

for run_async in (True, False):
    result = evaluate(test_cases=[all_used, some_used], metrics=[ToolsBeforeAnswer()], async_config=AsyncConfig(run_async=run_async))
    by_name = {r.name: r for r in result.test_results}
    assert by_name["all"].success is True and by_name["some"].success is False
    assert by_name["all"].conversational is True
    assert by_name["some"].metrics_data[0].reason == "1 of 3"
    assert by_name["some"].metrics_data[0].name == "Tools Before Answer"
    assert len(by_name["some"].turns) == 6
    assert by_name["some"].turns[0].role == "user"
    assert by_name["some"].input is None
print("OK")
