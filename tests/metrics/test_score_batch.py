"""Scores of many cases, and results that no later change of a case can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from toolgrade import InvalidDataError, LLMTestCase, ToolCall, ToolCorrectnessMetric

ARGUMENTS = ToolCorrectnessMetric(evaluation_params=["input_parameters"])


def a_case() -> LLMTestCase:
    """Return a case with a wrong argument, a missing argument and an unexpected call."""
    return LLMTestCase(
        tools_called=[ToolCall(name="a", input_parameters={"x": {"y": [1]}}), ToolCall(name="b")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": 2, "y": 3})],
    )


@pytest.mark.parametrize("cases", [[], [a_case()], [a_case(), LLMTestCase(tools_called=[], expected_tools=[])]])
def test_scores_are_those_of_measure(cases: Sequence[LLMTestCase]) -> None:
    """Models and the objects that they are written as have the scores that `measure` gives, in their order."""
    scores = [ARGUMENTS.measure(case).score for case in cases]
    assert ARGUMENTS.score_batch(cases) == scores
    assert ARGUMENTS.score_batch(case.model_dump(mode="json", exclude_unset=True) for case in cases) == scores


def test_an_object_that_is_not_a_case_is_an_error() -> None:
    """The error names the path."""
    with pytest.raises(InvalidDataError, match=r"tools_called"):
        ARGUMENTS.score_batch([{"tools_called": 3, "expected_tools": []}])


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
    partial = ARGUMENTS.measure(case).score
    assert partial is not None
    assert 1 - 1e-9 < partial < 1
    assert ToolCorrectnessMetric(evaluation_params=["input_parameters"], strict_mode=True).measure(case).score == 0
