"""`ToolCorrectnessMetric` in use: documented examples, options, findings, and refused input."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
from typing import Any, get_args

import pytest

from toolgrade import (
    ConfigurationError,
    Execution,
    LLMTestCase,
    ResultStatus,
    ToolCall,
    ToolCallParams,
    ToolCallType,
    ToolCorrectnessMetric,
    ToolSpec,
)
from toolgrade._internal.json import json_text
from toolgrade.expect import Expect, Optional, Plan
from toolgrade.matching.alignment import Denominator
from toolgrade.matching.json_compare import ABSENT


def measured(expected: Any, called: list[ToolCall], **options: Any) -> Any:
    """The result of one case."""
    return ToolCorrectnessMetric(**options).measure(LLMTestCase(tools_called=called, expected_tools=expected))


# The result


def test_metric_shows_its_last_result() -> None:
    """`measure` returns the result; `score`, `reason` and `success` then show it."""
    metric = ToolCorrectnessMetric()
    case = LLMTestCase(tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a"), ToolCall(name="b")])
    result = metric.measure(case)
    assert metric.result is result
    assert (metric.score, metric.reason, metric.success) == (result.score, result.reason, result.passed)
    assert (float(result), result.status) == (0.5, ResultStatus.SCORED)
    assert asyncio.run(ToolCorrectnessMetric().a_measure(case)) == result


def test_exact_wins_over_ordering_and_over_the_denominator() -> None:
    """With `should_exact_match` the other two have no effect: the score is 1 or 0."""
    expected, called = [ToolCall(name=name) for name in "ab"], [ToolCall(name=name) for name in "ba"]
    for denominator in get_args(Denominator):
        options = {"should_exact_match": True, "should_consider_ordering": True, "denominator": denominator}
        assert measured(expected, called, **options).score == 0
        assert measured(expected, expected, **options).score == 1


def test_findings_name_everything_that_cost_score() -> None:
    """Kind, both positions, path and both values, in order of the expected calls."""
    expected = [
        ToolCall(name="book", input_parameters={"city": "Paris", "nights": 2, "guest": {"age": 30}}, output="ok"),
        ToolCall(name="pay", type=ToolCallType.MCP),
        ToolCall(name="mail"),
        ToolCall(name="log"),
    ]
    called = [
        ToolCall(name="mail"),
        ToolCall(name="book", input_parameters={"city": "Rome", "guest": {"age": 30}, "view": "sea"}, output="failed"),
        ToolCall(name="pay", type=ToolCallType.FUNCTION),
        ToolCall(name="search"),
    ]
    result = measured(expected, called, evaluation_params=list(ToolCallParams))
    findings = [
        (finding.kind, finding.tool, finding.expected, finding.called, finding.path) for finding in result.findings
    ]
    assert findings == [
        ("wrong_argument", "book", 0, 1, "$.input_parameters.city"),
        ("missing_argument", "book", 0, 1, "$.input_parameters.nights"),
        ("extra_argument", "book", 0, 1, "$.input_parameters.view"),
        ("wrong_output", "book", 0, 1, "$.output"),
        ("wrong_type", "pay", 1, 2, "$.type"),
        ("missing", "log", 3, None, None),
        ("unexpected", "search", None, 3, None),
    ]
    values = {finding.kind: (finding.expected_value, finding.called_value) for finding in result.findings}
    assert values["wrong_argument"] == ("Paris", "Rome")
    assert values["missing_argument"] == (2, ABSENT)
    assert values["extra_argument"] == (ABSENT, "sea")
    assert values["wrong_output"] == ("ok", "failed")
    assert values["wrong_type"] == ("mcp", "function")


def test_a_field_that_the_recording_did_not_keep() -> None:
    """The pair counts by name without the field, with a finding and a warning."""
    execution = Execution(not_captured=["input_parameters", "output", "type"])
    called = [ToolCall(name="a", execution=execution)]
    expected = [ToolCall(name="a", input_parameters={"x": 1}, output=2, type=ToolCallType.MCP)]
    result = measured(expected, called, evaluation_params=list(ToolCallParams))
    assert result.score == 1
    assert [(finding.kind, finding.path) for finding in result.findings] == [
        ("not_compared", "$.input_parameters"),
        ("not_compared", "$.output"),
        ("not_compared", "$.type"),
    ]
    assert result.warnings == ("some calls were compared without fields that were not recorded",)
    assert measured(expected[:1], called).findings[0].path == "$.type"
    assert measured([ToolCall(name="a")], called, evaluation_params=list(ToolCallParams)).findings == ()


BROKEN = {"status": "invalid_arguments", "requested_parameters": "{a: "}


@pytest.mark.parametrize("expectation", [ToolCall, Expect])
@pytest.mark.parametrize("options", [{}, {"only": "write", "effects": {"f": "write"}}])
def test_broken_argument_text_equals_only_itself(expectation: Any, options: dict[str, Any]) -> None:
    """It is neither `{}` nor what a matcher accepts in `{}`; a call without expected arguments accepts it."""
    called = [ToolCall(name="f", input_parameters={}, execution=BROKEN)]
    arguments: list[Any] = [{}, {"a": 1}, *([{"a": Optional(1)}] if expectation is Expect else [])]
    for expected in arguments:
        result = measured(
            Plan([expectation(name="f", input_parameters=expected)]),
            called,
            evaluation_params=["input_parameters"],
            **options,
        )
        assert result.score == 0
        assert [(one.kind, one.path, one.called_value) for one in result.findings] == [
            ("wrong_argument", "$.input_parameters", "{a: ")
        ]
    assert measured([ToolCall(name="f")], called, evaluation_params=["input_parameters"], **options).score == 1
    assert measured(called, called, evaluation_params=["input_parameters"], **options).score == 1
    assert measured([ToolCall(name="f", input_parameters={})], called, **options).score == 1


def test_texts_that_look_alike_are_explained() -> None:
    """Values, argument names and tool names whose letters differ only in their code points."""
    one, two = "caf\u00e9", "cafe\u0301"
    note = "(they look alike: U+00E9 is expected, U+0065 U+0301 called)"
    expected = ToolCall(name="f", input_parameters={"x": [one], one: 1, "y": "plain"})
    called = ToolCall(name="f", input_parameters={"x": [two], two: 1, "y": two})
    result = measured(
        [expected, ToolCall(name=one)], [called, ToolCall(name=two)], evaluation_params=["input_parameters"]
    )

    lines = str(result.reason).splitlines()[1:]
    assert [line.endswith(f"{note}.") for line in lines] == [True, True, False, False, True, False]


def test_large_and_strange_values_are_scored_and_explained() -> None:
    """Deep values, long texts, huge integers and lone surrogates score, and the reason stays short."""
    deep: Any = 1
    for _ in range(199):
        deep = {"k": deep}
    for value in (deep, "x" * 10**6, 10**5000, "\ud800", float("nan"), b"\0" * 10**5, list(range(10**5))):
        for options in ({}, {"should_consider_ordering": True}, {"should_exact_match": True}):
            params = {"evaluation_params": list(ToolCallParams), **options}
            call = ToolCall(name="a", input_parameters={"v": value}, output=value)
            other = ToolCall(name="a", input_parameters={"v": 1}, output=2)
            assert measured([call], [call], **params).score == 1
            result = measured([call], [other], **params)
            assert result.score == 0
            assert len(str(result.reason)) < 1_500


def test_thousands_of_calls() -> None:
    """A run of 5,000 calls is scored, and the reason lists the first findings and counts the others."""
    called = [ToolCall(name=f"tool {i % 50}", input_parameters={"i": i}) for i in range(5_000)]
    result = measured(called[::-1], called, evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    assert result.score == 1
    result = measured(called, called[:100], evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    assert (result.score, len(result.findings)) == (0.02, 4_900)
    assert str(result.reason).endswith("And 4,880 further findings.")


# The options


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "tool_correctness"),
        ({"evaluation_params": ["output", "tool", "input_parameters"]}, "tool_correctness(input_parameters, output)"),
        ({"should_consider_ordering": True}, "tool_correctness(ordered)"),
        ({"should_exact_match": True, "should_consider_ordering": True}, "tool_correctness(exact)"),
        ({"denominator": "f1"}, "tool_correctness(denominator=f1)"),
        ({"denominator": "f1", "should_exact_match": True}, "tool_correctness(exact)"),
        ({"strict_mode": True}, "tool_correctness(strict)"),
        ({"threshold": 0.9, "include_reason": False}, "tool_correctness"),
    ],
)
def test_label(options: dict[str, Any], label: str) -> None:
    """The label has the options that change the measurement."""
    assert ToolCorrectnessMetric(**options).label == label
    assert ToolCorrectnessMetric(**options).measure(LLMTestCase(tools_called=[], expected_tools=[])).metric == label


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"threshold": 1.5}, "threshold must be a number from 0 to 1, got 1.5", id="threshold above 1"),
        pytest.param({"threshold": float("nan")}, "got nan", id="threshold NaN"),
        pytest.param({"threshold": "0.5"}, "got '0.5'", id="threshold as text"),
        pytest.param({"threshold": True}, "got True", id="threshold as truth"),
        pytest.param({"denominator": "recall"}, "one of expected, called, longest, f1, got 'recall'", id="denominator"),
        pytest.param({"evaluation_params": ["args"]}, "must contain only ToolCallParams.TOOL", id="param"),
        pytest.param({"evaluation_params": ToolCallParams.OUTPUT}, "must be a list of ToolCallParams", id="no list"),
        pytest.param({"evaluation_params": 3}, "must be a list of ToolCallParams, got 3", id="a number"),
        pytest.param({"judge": 3}, "a judge must be the name of a model", id="judge"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    """They are refused when the metric is created, with the accepted values."""
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        ToolCorrectnessMetric(**options)


def test_params_are_read_as_text_and_in_any_order() -> None:
    """Params may be given as text in any case, in any order and twice; TOOL is always among them."""
    metric = ToolCorrectnessMetric(evaluation_params=("OUTPUT", ToolCallParams.INPUT_PARAMETERS, "output"))
    assert metric.evaluation_params == tuple(ToolCallParams)


def test_available_tools_are_read_in_any_form() -> None:
    """Available tools are accepted in every form that ToolSpec reads."""
    metric = ToolCorrectnessMetric(available_tools=[ToolSpec(name="a"), ToolCall(name="b"), {"name": "c"}])
    assert metric.available_tools == (ToolSpec(name="a"), ToolSpec(name="b"), ToolSpec(name="c"))


def test_metrics_are_frozen_and_can_be_varied() -> None:
    """A metric cannot be changed; `dataclasses.replace` and pickling give another with the same options."""
    metric = ToolCorrectnessMetric(threshold=0.7, evaluation_params=["output"], strict_mode=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric.threshold = 0.1  # type: ignore[misc]
    assert dataclasses.replace(metric, threshold=0.8).threshold == 0.8
    assert repr(pickle.loads(pickle.dumps(metric))) == repr(metric)  # noqa: S301


def test_the_result_can_be_written() -> None:
    """`to_dict` gives JSON values, which can be written as any others are."""
    call, other = (ToolCall(name="a", output=value) for value in (float("nan"), float("inf")))
    result = measured([call], [other], evaluation_params=["output"])
    assert json.loads(json_text(result.to_dict()))["findings"][0]["expected_value"] == "NaN"


def test_strict_is_all_or_nothing_however_little_is_missing() -> None:
    """One wrong value inside three large objects fails a strict metric, although the loss is tiny."""

    def arguments(value: int) -> dict[str, Any]:
        tree: dict[str, Any] = {"key": value}
        for _ in range(3):
            tree = {**dict.fromkeys(map(str, range(2000)), 0), "inner": tree}
        return tree

    case = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters=arguments(1))],
        expected_tools=[ToolCall(name="a", input_parameters=arguments(2))],
    )
    partial = ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score
    assert partial is not None
    assert 1 - 1e-9 < partial < 1
    assert ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=True).measure(case).score == 0
