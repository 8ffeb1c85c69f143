"""EvalSharp's example in Python's spelling, and its chat client as a judge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from judging import RuleJudge
from toolgrade import ToolCall, ToolCorrectnessMetric
from toolgrade.compat.evalsharp import Evaluator, EvaluatorTestData, ToolCallParamsEnum
from toolgrade.errors import ConfigurationError

LOOKUP = ToolCall(name="product_lookup", input_parameters={"product_id": 101})
ADD = ToolCall(name="add_to_cart", input_parameters={"product_id": 101, "quantity": 1})
ROWS = [{"called": [LOOKUP, ADD], "expected": [LOOKUP, ADD]}, {"called": [ADD, LOOKUP], "expected": [LOOKUP, ADD]}]


class ChatClient:
    """The method of a chat client of Microsoft's Agent Framework, over a judge of the tests."""

    model = "chatty"

    def __init__(self, verdict: str) -> None:
        self.judge = RuleJudge(verdict)

    async def get_response(self, messages: str) -> SimpleNamespace:
        """Return the reply of the judge as the text of an object."""
        text = self.judge([{"role": "system", "content": messages}, {"role": "user", "content": messages}])
        return SimpleNamespace(text=text)


def to_case(row: dict[str, Any]) -> EvaluatorTestData:
    """The case of a row, with the tools that the agent had."""
    return EvaluatorTestData(
        input="Look up product 101 and add it to my cart.",
        tools_called=row["called"],
        expected_tools=row["expected"],
        available_tools=row.get("tools"),
    )


def test_example() -> None:
    """Ordered, with arguments: the second row has one call of two in order."""
    evaluator = Evaluator.from_data(None, ROWS, to_case)
    evaluator.add_tool_correctness(
        should_consider_ordering=True,
        evaluation_params=[ToolCallParamsEnum.INPUT_PARAMETERS, ToolCallParamsEnum.TOOL],
    )
    report = evaluator.run()

    assert [result.score for item in report.cases for result in item.results] == [1, 0.5]


@pytest.mark.parametrize(("verdict", "score"), [("yes", 1.0), ("no", 0.0)])
def test_chat_client_judges_the_selection(verdict: str, score: float) -> None:
    """Of cases with available tools, in every metric that has no judge of its own."""
    row = {"called": [LOOKUP], "expected": [LOOKUP], "tools": [{"name": "product_lookup", "description": "Looks up."}]}
    own = ToolCorrectnessMetric(judge=RuleJudge("yes"))
    report = Evaluator.from_data(ChatClient(verdict), [row], to_case).add_tool_correctness().add(own).run()

    (item,) = report.cases
    assert [result.score for result in item.results] == [score, 1.0]
    assert item.results[0].judge is not None
    assert item.results[0].judge["model"] == "chatty"


def test_object_that_cannot_judge_is_refused() -> None:
    """When the evaluator is made, and not when it runs."""
    with pytest.raises(ConfigurationError, match="a judge must be"):
        Evaluator.from_data(object(), ROWS, to_case)
