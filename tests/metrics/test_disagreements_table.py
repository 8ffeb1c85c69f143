"""The table of disagreements: where the sources differ, and what toolgrade does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judging import RuleJudge
from processes import toolgrade_score
from toolgrade import (
    ConversationalTestCase,
    LLMTestCase,
    MissingFieldError,
    MLLMImage,
    MLLMTestCase,
    ToolCall,
    ToolCallParams,
    ToolCorrectnessMetric,
    ToolUseMetric,
    Turn,
    case_from_record,
)
from toolgrade.compat.gllm_evals import DeepEvalToolCorrectnessMetric
from toolgrade.formats.names import strip_suffix
from toolgrade.judge import BatchOptions


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


def test_ordering_example() -> None:
    """Ordered, E=[W,Q,W] and C=[W,W,Q] score 2/3: passed at 0.5, with a finding for the order."""
    metric = ToolCorrectnessMetric(should_consider_ordering=True)
    result = metric.measure(
        case(tools("WebSearch", "ToolQuery", "WebSearch"), tools("WebSearch", "WebSearch", "ToolQuery"))
    )
    assert (result.score, result.passed) == (2 / 3, True)
    assert [(finding.kind, finding.expected, finding.called) for finding in result.findings] == [("out_of_order", 2, 1)]
    assert "Out of order: expected #3 'WebSearch' was called as #2." in str(result.reason)


@pytest.mark.parametrize("params", [None, (), [], [ToolCallParams.TOOL]], ids=["unset", "()", "[]", "[TOOL]"])
def test_evaluation_params_default(params: Any) -> None:
    """Only names are compared by default; an empty list means the same."""
    built = ToolCorrectnessMetric() if params is None else ToolCorrectnessMetric(evaluation_params=params)
    assert built.evaluation_params == (ToolCallParams.TOOL,)
    wrong = case([ToolCall(name="a", input_parameters={"x": 1}, output=1)], [ToolCall(name="a", output=2)])
    assert built.measure(wrong).score == 1


def test_evaluation_params_default_of_the_command_line(tmp_path: Path) -> None:
    """`toolgrade score` compares only names, too."""
    wrong = case([ToolCall(name="a", input_parameters={"x": 1})], tools("a"))
    (tmp_path / "cases.jsonl").write_text(wrong.to_json() + "\n", encoding="utf-8")
    assert toolgrade_score("cases.jsonl", folder=tmp_path).code == 0
    assert toolgrade_score("cases.jsonl", "--params", "input", folder=tmp_path).code == 1


def test_evaluation_params_default_of_gllm_evals() -> None:
    """Only the gllm-evals layer compares arguments and outputs by default."""
    core = DeepEvalToolCorrectnessMetric()._core
    assert core.evaluation_params == tuple(ToolCallParams)


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("options", [{}, {"should_consider_ordering": True}], ids=["unordered", "ordered"])
def test_identical_repeated_calls(options: dict[str, Any], count: int) -> None:
    """Calls are matched by position: n identical calls for n expected ones score 1."""
    calls = [ToolCall(name="a", input_parameters={"x": 1}, output=2)] * count
    metric = ToolCorrectnessMetric(evaluation_params=list(ToolCallParams), **options)
    assert metric.measure(case(calls, calls)).score == 1


def test_greedy_pairing() -> None:
    """Where taking the best partner for one call after the other gives 1/4, the optimum is 3/4, however listed."""
    expected = [ToolCall(name="a", input_parameters={"x": 1, "y": y}) for y in (1, 2)]
    called = [ToolCall(name="a", input_parameters=values) for values in ({"x": 1, "y": 2}, {"x": 9, "y": 1})]
    metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    scores = {
        metric.measure(case(one, other)).score for one in (expected, expected[::-1]) for other in (called, called[::-1])
    }
    assert scores == {0.75}


@pytest.mark.parametrize("kind", [LLMTestCase, MLLMTestCase])
def test_available_tools_without_a_judge(kind: Any) -> None:
    """With `available_tools` but no judge the result has a warning, also for multimodal cases."""
    images = {"input": ["What is this?", MLLMImage(url="https://example.com/a.png")]} if kind is MLLMTestCase else {}
    metric = ToolCorrectnessMetric(available_tools=[{"name": "a"}])
    result = metric.measure(kind(tools_called=tools("a"), expected_tools=tools("a"), **images))
    assert result.score == 1
    assert result.warnings == ("tool selection was not judged: available_tools was given without a judge",)
    assert "Note: tool selection was not judged" in str(result.reason)


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


def test_batch_polling() -> None:
    """The layer for gllm-evals keeps 30 seconds and 120 checks as its defaults; a `Judge` has no limit."""
    metric = DeepEvalToolCorrectnessMetric()
    assert (metric.batch_status_check_interval, metric.batch_max_iterations) == (30, 120)
    assert BatchOptions() == BatchOptions(status_check_interval=30, max_iterations=None)


def test_tool_use_with_no_tool_call_anywhere() -> None:
    """The argument part is left out, not counted as 0: the score is that of the selection."""
    turns = [Turn(role="user", content="Hello!"), Turn(role="assistant", content="Hello.")]
    result = ToolUseMetric([{"name": "a"}], judge=RuleJudge("yes")).measure(ConversationalTestCase(turns=turns))
    assert (result.score, "arguments" in result.parts) == (1, False)


def test_available_tools_of_tool_use() -> None:
    """They may come from the case; without any the error says so."""
    turns = [Turn(role="user", content="Hello!"), Turn(role="assistant", content="Hello.")]
    metric = ToolUseMetric(judge=RuleJudge("yes"))
    assert metric.measure(ConversationalTestCase(turns=turns, available_tools=[{"name": "a"}])).score == 1
    with pytest.raises(MissingFieldError, match="needs available_tools"):
        metric.measure(ConversationalTestCase(turns=turns))
