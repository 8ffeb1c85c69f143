"""toolgrade's metrics as an assertion of promptfoo; `with_promptfoo.py` runs the real tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgrade import LLMTestCase, ToolCorrectnessMetric, ToolSuccessRate
from toolgrade.compat.hosts.promptfoo import _case_of, assertion

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
MESSAGE = {"role": "assistant", "content": "Adding.", "tool_calls": [CALL]}
ITEM = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'}
BLOCK = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}

OUTPUTS = {
    "chat": [CALL],
    "chat, with a text": MESSAGE,
    "chat, old form": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
    "chat, as text": json.dumps([CALL]),
    "responses": f"Adding.\n{json.dumps(ITEM)}",
    "anthropic": f"I will add.\nSoon.\n\n{json.dumps(BLOCK)}",
    "messages": {"messages": [{"role": "user", "content": "Go."}, MESSAGE]},
    "a list of messages": [{"role": "user", "content": "Go."}, MESSAGE],
    "messages, as text": json.dumps({"messages": [MESSAGE]}),
    "tools_called": {"tools_called": [{"name": "add", "args": {"a": 1, "b": 2}}]},
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_outputs_of_providers_are_read(output: Any) -> None:
    """Each form has the same call."""
    result = assertion(METRIC)(output, {"config": EXPECTED})
    other = {"expected_tools": [{"name": "add", "args": {"a": 2}}]}

    assert result.pop("reason").startswith("1 matched / 1 expected = 1 (passed at 0.5).")
    assert result == {"pass": True, "score": 1.0, "namedScores": {METRIC.label: 1.0}}
    assert assertion(METRIC)(output, {"config": other})["score"] == 0


@pytest.mark.parametrize("output", ["It is 3.", "{}", "[]", '["a", 1]', "3", {"answer": 3}, [], None])
def test_an_output_without_calls_has_none(output: Any) -> None:
    """Whatever a provider returns."""
    case = _case_of(output, {"config": EXPECTED})

    assert isinstance(case, LLMTestCase)
    assert case.tools_called == []


def test_an_answer_is_the_output() -> None:
    """If the model calls nothing; texts beside calls are texts of the agent."""
    assert _case_of("It\nis 3.", {}).actual_output == "It\nis 3."  # type: ignore[union-attr]
    assert _case_of(OUTPUTS["anthropic"], {}).run.agent_texts == ["I will add.\nSoon."]  # type: ignore[union-attr]


def test_the_config_counts_before_the_metadata() -> None:
    """Expected tools stand in either; the input is a variable, or the prompt."""
    tools = {"available_tools": [{"name": "add"}], "expected_tools": [{"name": "sub"}]}
    context = {"prompt": "Go: 1 + 2", "vars": {"topic": "x"}, "test": {"metadata": tools}, "config": EXPECTED}
    case = _case_of([CALL], context)

    assert isinstance(case, LLMTestCase)
    assert case.input == "Go: 1 + 2"
    assert [tool.name for tool in case.available_tools or []] == ["add"]
    assert [tool.name for tool in case.expected_tools or []] == ["add"]  # type: ignore[union-attr]
    assert _case_of([CALL], {**context, "vars": {"question": "1 + 2?"}}).input == "1 + 2?"  # type: ignore[union-attr]


def test_several_metrics_are_components() -> None:
    """All must pass; what was skipped beside a score has no named score, and plays no part in the mean."""
    result = assertion(METRIC, ToolSuccessRate())("It is 3.", {"config": EXPECTED})

    assert (result["pass"], result["score"]) == (False, 0)
    assert [(part["pass"], part["score"]) for part in result["componentResults"]] == [(False, 0.0), (True, 1.0)]
    assert result["namedScores"] == {METRIC.label: 0.0}
    assert result["reason"].startswith(f"{METRIC.label}: 1 call expected, none made = 0")


def test_what_was_not_measured_fails() -> None:
    """With the error as its reason."""
    result = assertion(METRIC)([CALL], {})

    assert (result["pass"], result["score"], result["namedScores"]) == (False, 0, {})
    assert result["reason"].startswith("Not measured: MissingExpectationError")
    assert "the reference does not state it" in result["reason"]
    unread = assertion(METRIC)({"messages": 3}, {"config": EXPECTED})
    assert unread["reason"].startswith("Not measured: InvalidDataError")


def test_what_was_only_skipped_fails() -> None:
    """As a case that no metric applies to has not passed; beside a metric that was measured it does no harm."""
    result = assertion(ToolSuccessRate())("It is 3.", {"config": EXPECTED})
    assert (result["pass"], result["score"], result["namedScores"]) == (False, 0, {})
    assert result["reason"].startswith("Skipped: ")

    beside = assertion(METRIC, ToolSuccessRate())("It is 3.", {"config": {"expected_tools": []}})
    assert (beside["pass"], beside["score"], beside["namedScores"]) == (True, 1, {METRIC.label: 1.0})


def test_reasons_may_be_off() -> None:
    """The tool needs a text all the same."""
    metric = ToolCorrectnessMetric(include_reason=False)

    assert assertion(metric)([CALL], {"config": EXPECTED})["reason"] == ""


def test_a_case_of_ones_own() -> None:
    """`to_case` receives the output and the context."""

    def to_case(output: Any, context: dict[str, Any]) -> LLMTestCase:
        return LLMTestCase(tools_called=[{"name": output}], expected_tools=[{"name": context["vars"]["tool"]}])

    assert assertion(METRIC, to_case=to_case)("add", {"vars": {"tool": "add"}})["score"] == 1
