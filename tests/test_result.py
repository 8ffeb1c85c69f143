"""Results and findings: immutable, comparable, written without absent fields."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import pytest

from toolgrade import (
    ConfigurationError,
    DataFileError,
    Finding,
    InvalidDataError,
    LLMTestCase,
    MetricAssertionError,
    MetricResult,
    MissingFieldError,
    NotMeasuredError,
    Problem,
    ResultStatus,
    ToolCall,
    ToolCallParams,
    ToolCorrectnessMetric,
    ToolgradeError,
    ToolgradeWarning,
)
from toolgrade.matching.json_compare import ABSENT
from toolgrade.result import errored_result


def result(**options: Any) -> MetricResult:
    """The result of a case with a wrong argument, a missing and an unexpected call."""
    case = LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": 1}), ToolCall(name="c")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": 2, "y": [3]}), ToolCall(name="b")],
    )
    return ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS], **options).measure(case)


def test_results_are_frozen() -> None:
    """A result, its parts, its findings and its alignment cannot be changed."""
    one = result()
    for item, name in ((one, "score"), (one.findings[0], "kind"), (one.alignment, "matched")):
        with pytest.raises(AttributeError):
            setattr(item, name, 1)
    with pytest.raises(TypeError):
        one.parts["calling"] = 1.0  # type: ignore[index]


def pickled(one: Any) -> Any:
    """What comes out of a pickle."""
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("options", [{}, {"include_reason": False}], ids=["with a reason", "without"])
def test_results_survive_copying_and_pickling(make: Any, options: dict[str, Any]) -> None:
    """A copy, a deep copy and a pickle of a result are equal to it, so results can cross process boundaries."""
    one = result(**options)
    twin = make(one)
    assert twin == one
    assert twin.to_dict() == one.to_dict()
    assert twin.findings[1].called_value is ABSENT


def test_only_present_fields_are_written() -> None:
    """`to_dict` has JSON values only; absent fields are omitted, null is written."""
    plain = result().to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["status"] == "scored"
    assert plain["parts"] == {"calling": 0.0, "precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert plain["alignment"]["missing"] == [1]
    assert [finding["kind"] for finding in plain["findings"]] == [
        "wrong_argument",
        "missing_argument",
        "missing",
        "unexpected",
    ]
    assert plain["findings"][1] == {
        "kind": "missing_argument",
        "message": "'a' (expected #1, called #1): $.input_parameters.y is missing, expected [3].",
        "tool": "a",
        "expected": 0,
        "called": 0,
        "path": "$.input_parameters.y",
        "expected_value": [3],
    }
    assert Finding("wrong_output", "m", "a", called_value=None).to_dict()["called_value"] is None


def test_an_errored_result() -> None:
    """An errored result has an error and no score, and float() says why."""
    one = errored_result("tool_correctness", 0.5, MissingFieldError("needs tools_called"))
    assert one.to_dict() == {
        "metric": "tool_correctness",
        "status": "errored",
        "threshold": 0.5,
        "reason": "Not measured: needs tools_called",
        "error": "MissingFieldError: needs tools_called",
    }
    assert (one.status, one.score, one.passed) == (ResultStatus.ERRORED, None, None)
    with pytest.raises(NotMeasuredError, match="has no score: it was errored"):
        float(one)


def test_renamed() -> None:
    """A result under another name is equal but for the name; under its own name it is itself."""
    one = result()
    assert one.renamed(one.metric) is one
    assert one.renamed("other").metric == "other"
    assert one.renamed("other").renamed(one.metric) == one


HALF, WHOLE = (
    LLMTestCase(tools_called=[ToolCall(name="a")], expected_tools=expected)
    for expected in ([ToolCall(name="a"), ToolCall(name="b")], [ToolCall(name="a")])
)


def test_a_result_is_compared_with_numbers_as_its_score() -> None:
    """On either side, and also inside containers and with `approx`."""
    half, whole = ToolCorrectnessMetric().measure(HALF), ToolCorrectnessMetric().measure(WHOLE)

    assert half == 0.5 == half
    assert half != 0.4
    assert half == pytest.approx(0.5 + 1e-9)
    assert whole in {1.0, 2}
    assert 0.4 < half < 0.6
    assert 0.5 >= half <= 0.5
    assert not half > 0.5
    assert [whole, half] == sorted([half, whole], reverse=True)
    assert max(half, whole) is whole
    assert half != "0.5"
    with pytest.raises(TypeError):
        assert half < "1"  # type: ignore[operator]


def test_a_result_is_rounded_and_formatted_as_its_score() -> None:
    """Without a format specification it is the text of the result."""
    one = dataclasses.replace(ToolCorrectnessMetric().measure(HALF), score=2 / 3)

    assert (round(one, 2), f"{one:.0%}", f"{one}") == (0.67, "67%", str(one))
    assert round(one) == 1


def test_a_result_is_true_if_it_passed() -> None:
    """So that `assert metric.measure(case)` fails for a score of 0."""
    assert ToolCorrectnessMetric().measure(HALF)
    assert not ToolCorrectnessMetric(threshold=0.6).measure(HALF)
    assert not ToolCorrectnessMetric().measure(LLMTestCase(tools_called=[], expected_tools=[ToolCall(name="a")]))
    assert ToolCorrectnessMetric(threshold=0).measure(LLMTestCase(tools_called=[], expected_tools=[ToolCall(name="a")]))


def test_equal_results_have_equal_fields_and_hashes() -> None:
    """A result of the same score with another field is another result."""
    one, other = ToolCorrectnessMetric().measure(HALF), ToolCorrectnessMetric().measure(HALF)

    assert one == other
    assert hash(one) == hash(other) == hash(0.5)
    assert one != one.renamed("x")
    assert {one, other} == {one}


def test_a_result_without_a_score_is_no_number() -> None:
    """It is false, equals no number, and raises where a number is needed."""
    one = errored_result("m", 0.5, ValueError("x"))

    assert not one
    assert one not in (0, 0.0, 1, None, False, float("nan"))
    assert one == errored_result("m", 0.5, ValueError("x"))
    for use in (
        lambda: one < 1,
        lambda: one >= 0,
        lambda: round(one),
        lambda: f"{one:.2f}",
        lambda: sorted([one, one]),
    ):
        with pytest.raises(NotMeasuredError, match="m has no score"):
            use()
    assert "ValueError" in f"{one}"


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (InvalidDataError, ValueError),
        (DataFileError, InvalidDataError),
        (ConfigurationError, ValueError),
        (MissingFieldError, ToolgradeError),
        (NotMeasuredError, ToolgradeError),
        (MetricAssertionError, AssertionError),
    ],
)
def test_the_tree_of_errors(error: type[Exception], also: type[Exception]) -> None:
    """Every error derives from `ToolgradeError` and from the built-in kind that it is; the warning from UserWarning."""
    assert issubclass(error, ToolgradeError)
    assert issubclass(error, also)
    assert issubclass(ToolgradeWarning, UserWarning)


@pytest.mark.parametrize(
    "error",
    [
        InvalidDataError("a", [Problem("$", "m")]),
        DataFileError("f:1: $: m", [Problem("$", "m", 1)]),
        ConfigurationError("b"),
        MissingFieldError("c"),
        NotMeasuredError("d"),
        MetricAssertionError("e"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_copying_and_pickling(error: ToolgradeError) -> None:
    """Every error keeps its message, and its problems if it has any, when copied and pickled."""
    for twin in (copy.copy(error), copy.deepcopy(error), pickled(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert getattr(twin, "problems", None) == getattr(error, "problems", None)
