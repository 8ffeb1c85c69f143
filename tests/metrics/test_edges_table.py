"""= n = 0 scores 1 and one of them 0 scores 0 for any denominator, without a warning."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from toolgrade import (
    ConfigurationError,
    Golden,
    LLMTestCase,
    MissingFieldError,
    MLLMTestCase,
    ResultStatus,
    Run,
    ToolCall,
    ToolCallParams,
    ToolCallType,
    ToolCorrectnessMetric,
    evaluate,
)
from toolgrade.agents import Conversation
from toolgrade.matching.alignment import Denominator

MODES: dict[str, dict[str, Any]] = {
    "unordered": {},
    "ordered": {"should_consider_ordering": True},
    "exact": {"should_exact_match": True},
}
BY_ARGUMENTS = [ToolCallParams.INPUT_PARAMETERS]
BY_OUTPUT = [ToolCallParams.OUTPUT]


def tools(names: str) -> list[ToolCall]:
    """Calls of tools named by one letter each."""
    return [ToolCall(name=name) for name in names]


def score(expected: list[ToolCall], called: list[ToolCall], **options: Any) -> float:
    """The score of one case."""
    return float(ToolCorrectnessMetric(**options).measure(LLMTestCase(tools_called=called, expected_tools=expected)))


def row(name: str, expected: Any, called: Any, unordered: float, ordered: float, exact: float) -> list[Any]:
    """Return a row with a test for each mode."""
    scores = {"unordered": unordered, "ordered": ordered, "exact": exact}
    return [pytest.param(expected, called, mode, scores[mode], id=f"{name}: {mode}") for mode in MODES]


@pytest.mark.parametrize(
    ("expected", "called", "mode", "value"),
    [
        *row("both empty", "", "", 1, 1, 1),
        *row("nothing expected, one called", "", "a", 0, 0, 0),
        *row("one expected, nothing called", "a", "", 0, 0, 0),
        *row("one too many", "a", "ab", 1, 1, 0),
        *row("swapped", "ab", "ba", 1, 0.5, 0),
        *row("identical calls, twice each", "aa", "aa", 1, 1, 1),
        *row("called twice, expected once", "a", "aa", 1, 1, 0),
        *row("expected twice, called once", "aa", "a", 0.5, 0.5, 0),
    ],
)
def test_names(expected: str, called: str, mode: str, value: float) -> None:
    """Both empty score 1, one empty 0; extras are free except in exact mode; repeats count separately."""
    assert score(tools(expected), tools(called), **MODES[mode]) == value


@pytest.mark.parametrize(
    ("expected", "called", "mode", "value"),
    [
        *row("1 and 1.0", {"x": 1}, {"x": 1.0}, 1, 1, 1),
        *row('1 and "1"', {"x": 1}, {"x": "1"}, 0, 0, 0),
        *row("true and 1", {"x": True}, {"x": 1}, 0, 0, 0),
        *row("case of text", {"x": "Paris"}, {"x": "paris"}, 0, 0, 0),
        *row("no arguments and {}", None, {}, 1, 1, 1),
        *row("{} and no arguments", {}, None, 1, 1, 1),
        *row("one argument too many", {"x": 1}, {"x": 1, "y": 2}, 0.5, 0.5, 0),
        *row("one argument missing", {"x": 1, "y": 2}, {"x": 1}, 0.5, 0.5, 0),
        *row("one of two leaves inside", {"q": {"x": 1, "y": 2}}, {"q": {"x": 1, "y": 3}}, 0.5, 0.5, 0),
        *row("order of keys inside", {"q": {"x": 1, "y": 2}}, {"q": {"y": 2, "x": 1}}, 1, 1, 1),
        *row("list reordered", {"x": [1, 2]}, {"x": [2, 1]}, 0, 0, 0),
        *row("NaN and NaN", {"x": float("nan")}, {"x": float("nan")}, 1, 1, 1),
        *row("null and no argument", {"x": None}, {}, 0, 0, 0),
    ],
)
def test_arguments(expected: Any, called: Any, mode: str, value: float) -> None:
    """Arguments count by the share of keys that agree; numbers by value; objects in part, lists all or nothing."""
    sides = [ToolCall(name="a", input_parameters=expected)], [ToolCall(name="a", input_parameters=called)]
    assert score(*sides, evaluation_params=BY_ARGUMENTS, **MODES[mode]) == value


def fields_row(name: str, expected: Any, called: Any, value: float) -> Any:
    """Return a row with a single call on each side."""
    return pytest.param(ToolCall(name="a", **expected), ToolCall(name="a", **called), value, id=name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("expected", "called", "value"),
    [
        fields_row("arguments never set match anything", {}, {"input_parameters": {"x": 1}}, 1),
        fields_row("output never set matches anything", {}, {"output": "sunny"}, 1),
        fields_row("expected None arguments equal {}", {"input_parameters": None}, {}, 1),
        fields_row(
            "expected None arguments are not any", {"input_parameters": None}, {"input_parameters": {"x": 1}}, 0
        ),
        fields_row("expected None output is a value", {"output": None}, {"output": "sunny"}, 0),
        fields_row("expected None output equals no output", {"output": None}, {}, 1),
        fields_row("expected None type is no type", {"type": None}, {"type": ToolCallType.MCP}, 1),
        fields_row("expected type", {"type": ToolCallType.MCP}, {"type": ToolCallType.MCP}, 1),
        fields_row("other type", {"type": ToolCallType.MCP}, {"type": ToolCallType.FUNCTION}, 0),
        fields_row("no type where one is expected", {"type": ToolCallType.MCP}, {}, 0),
        fields_row("output as text", {"output": {"t": 21}}, {"output": '{"t": 21.0}'}, 1),
        fields_row("text as output", {"output": "[1, 2]"}, {"output": [1, 2]}, 1),
        fields_row("output in part", {"output": {"t": 21, "u": 1}}, {"output": {"t": 21, "u": 2}}, 0),
        fields_row("description and reasoning never count", {"description": "x", "reasoning": "y", "id": "z"}, {}, 1),
        fields_row(
            "arguments in part and output equal",
            {"input_parameters": {"x": 1, "y": 2}, "output": 3},
            {"input_parameters": {"x": 1, "y": 3}, "output": 3},
            0.5,
        ),
        fields_row(
            "arguments equal and output not",
            {"input_parameters": {}, "output": 3},
            {"input_parameters": {}, "output": 4},
            0,
        ),
    ],
)
def test_fields(expected: ToolCall, called: ToolCall, value: float, mode: str) -> None:
    """Unset matches anything, None arguments are {}, None type is unset, None output is a value."""
    params = [*BY_ARGUMENTS, *BY_OUTPUT]
    exact = float(value == 1) if mode == "exact" else value
    assert score([expected], [called], evaluation_params=params, **MODES[mode]) == exact


@pytest.mark.parametrize("denominator", get_args(Denominator))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("expected", "called", "value"), [("", "", 1), ("a", "", 0), ("", "a", 0)], ids=["both", "called", "expected"]
)
def test_empty_sides_by_any_denominator(
    expected: str, called: str, value: float, mode: str, denominator: Denominator
) -> None:
    """M = n = 0 scores 1 and exactly one of them 0 scores 0, whatever the sum is divided by, without a warning."""
    case = LLMTestCase(tools_called=tools(called), expected_tools=tools(expected))
    result = ToolCorrectnessMetric(denominator=denominator, **MODES[mode]).measure(case)
    assert (result.score, result.warnings) == (value, ())
    assert set(result.parts.values()) == {value}


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        pytest.param({"expected_tools": []}, "tools_called", id="tools_called not given"),
        pytest.param({"expected_tools": [], "tools_called": None}, "tools_called", id="tools_called is None"),
    ],
)
@pytest.mark.parametrize("kind", [LLMTestCase, MLLMTestCase])
def test_missing_side_is_an_error(kind: Any, fields: dict[str, Any], missing: str) -> None:
    """`measure` names the field; `evaluate` makes it a failed result."""
    case = kind(id="case 7", **fields)
    metric = ToolCorrectnessMetric()
    with pytest.raises(MissingFieldError, match=rf"needs {missing} of case 'case 7'; give the calls, or \[\] for none"):
        metric.measure(case)
    good = LLMTestCase(tools_called=[], expected_tools=[])
    results = [entry.results[0] for entry in evaluate([case, good], [metric], show_progress=False).cases]
    assert [result.status for result in results] == [ResultStatus.ERRORED, ResultStatus.SCORED]
    assert results[0].score is None
    assert missing in str(results[0].error)


@pytest.mark.parametrize("case", [None, 3, "case", {}, [LLMTestCase()]])
def test_value_that_is_not_a_case_is_refused(case: Any) -> None:
    """Its type is named."""
    with pytest.raises(ConfigurationError, match=f"LLMTestCase or MLLMTestCase, got {type(case).__name__}"):
        ToolCorrectnessMetric().measure(case)


@pytest.mark.parametrize(
    ("called", "expected", "threshold", "passed"),
    [
        pytest.param(1, 3, 1 / 3, True, id="a third"),
        pytest.param(3, 10, 0.1 + 0.2, True, id="0.3 against 0.1 + 0.2"),
        pytest.param(3, 10, 0.3 + 9e-10, True, id="within 1e-9"),
        pytest.param(3, 10, 0.3 + 2e-9, False, id="beyond 1e-9"),
        pytest.param(0, 1, 0.0, True, id="everything passes at 0"),
        pytest.param(9, 10, 1.0, False, id="only perfection passes at 1"),
    ],
)
def test_threshold_within_its_tolerance(called: int, expected: int, threshold: float, *, passed: bool) -> None:
    """A case passes when score >= threshold - 1e-9."""
    case = LLMTestCase(tools_called=tools("a" * called), expected_tools=tools("a" * expected))
    assert ToolCorrectnessMetric(threshold=threshold).measure(case).passed is passed


def test_an_expectation_that_is_missing_skips_the_metric() -> None:
    """`measure` names the field; `evaluate` skips the metric, unless goldens were to state it."""
    case = LLMTestCase(id="case 7", tools_called=[])
    with pytest.raises(
        MissingFieldError, match=r"needs expected_tools of case 'case 7'; give the calls, or \[\] for none"
    ):
        ToolCorrectnessMetric().measure(case)
    (result,) = evaluate([case], [ToolCorrectnessMetric()], show_progress=False).cases[0].results
    assert result.status is ResultStatus.SKIPPED
    assert "needs expected_tools" in str(result.reason)


async def _silent(question: str, conversation: Conversation) -> Run:
    return Run(input=question, conversation_id=conversation.id)


def test_a_golden_without_an_expectation_is_not_measured() -> None:
    """It was given to be compared with."""
    report = evaluate(
        goldens=[Golden(input="x", required_texts=["a"])], agent=_silent, metrics=[ToolCorrectnessMetric()]
    )
    (result,) = report.cases[0].results
    assert result.status is ResultStatus.ERRORED
    assert "its golden does not state it" in str(result.error)
