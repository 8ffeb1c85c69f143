"""The table of disagreements: where the sources differ, and what toolgrade does."""

from __future__ import annotations

from typing import Any

import pytest

from judging import RuleJudge
from toolgrade import (
    ConversationalTestCase,
    LLMTestCase,
    MissingFieldError,
    ToolCall,
    ToolCallParams,
    ToolCorrectnessMetric,
    ToolUseMetric,
    Turn,
    case_from_record,
)
from toolgrade.formats.names import strip_suffix


def tools(*names: str) -> list[ToolCall]:
    """Calls with nothing but a name."""
    return [ToolCall(name=name) for name in names]


def case(expected: list[ToolCall], called: list[ToolCall]) -> LLMTestCase:
    """A case with these sides."""
    return LLMTestCase(tools_called=called, expected_tools=expected)


@pytest.mark.parametrize(
    ("denominator", "score"),
    [
        pytest.param(None, 0.5, id="denominator: expected by default"),
        pytest.param("expected", 0.5, id="denominator: expected"),
        pytest.param("called", 0.25, id="denominator: called"),
        pytest.param("longest", 0.25, id="denominator: longest"),
        pytest.param("f1", 1 / 3, id="denominator: f1"),
    ],
)
def test_denominator(denominator: Any, score: float) -> None:
    """The default divides by the expected calls; other denominators are options."""
    options = {} if denominator is None else {"denominator": denominator}
    result = ToolCorrectnessMetric(**options).measure(case(tools("a", "b"), tools("a", "x", "y", "z")))
    assert result.score == score
    assert dict(result.parts) == {"calling": score, "precision": 0.25, "recall": 0.5, "f1": 1 / 3}
    strict = ToolCorrectnessMetric(**options, strict_mode=True).measure(
        case(tools("a", "b"), tools("a", "x", "y", "z"))
    )
    assert (strict.score, strict.parts) == (0, result.parts)


@pytest.mark.parametrize("params", [None, (), [], [ToolCallParams.TOOL]], ids=["unset", "()", "[]", "[TOOL]"])
def test_evaluation_params_default(params: Any) -> None:
    """Only names are compared by default; an empty list means the same."""
    built = ToolCorrectnessMetric() if params is None else ToolCorrectnessMetric(evaluation_params=params)
    assert built.evaluation_params == (ToolCallParams.TOOL,)
    wrong = case([ToolCall(name="a", input_parameters={"x": 1}, output=1)], [ToolCall(name="a", output=2)])
    assert built.measure(wrong).score == 1


@pytest.mark.parametrize(
    ("name", "names", "bare"),
    [
        pytest.param("search_agent_xg7c", (), "search_agent", id="letters and digits"),
        pytest.param("search_agent_nxle", (), "search_agent_nxle", id="letters alone, unknown"),
        pytest.param("search_agent_nxle", ("search_agent",), "search_agent", id="letters alone, known without"),
        pytest.param("parse_ipv4", ("parse_ipv4", "parse"), "parse_ipv4", id="a known name"),
        pytest.param("read_data", (), "read_data", id="a word"),
    ],
)
def test_random_name_suffixes(name: str, names: tuple[str, ...], bare: str) -> None:
    """A suffix goes if it has letters and digits, or if the bare name is a known tool and the full one is not."""
    assert strip_suffix(name, names) == bare


def test_name_suffixes_stay_by_default() -> None:
    """Names change only with `normalize_names`, with a warning for each."""
    record = {"query": "q", "tools_called": [{"name": "parse_ipv4"}], "expected_tools": []}
    assert [call.name for call in case_from_record(record).tools_called or ()] == ["parse_ipv4"]
    rewritten = case_from_record(record, normalize_names=True)
    assert [call.name for call in rewritten.tools_called or ()] == ["parse"]
    assert rewritten.run is not None
    assert rewritten.run.warnings == ["renamed 'parse_ipv4' to 'parse'"]


def test_available_tools_of_tool_use() -> None:
    """They may come from the case; without any the error says so."""
    turns = [Turn(role="user", content="Hello!"), Turn(role="assistant", content="Hello.")]
    metric = ToolUseMetric(judge=RuleJudge("yes"))
    assert metric.measure(ConversationalTestCase(turns=turns, available_tools=[{"name": "a"}])).score == 1
    with pytest.raises(MissingFieldError, match="needs available_tools"):
        metric.measure(ConversationalTestCase(turns=turns))
