"""Tool correctness of writes or reads alone, and without calls that did nothing: lists and plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shorthand import calls_from
from strategies import few
from toolgrade import LLMTestCase, MetricResult, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Alternatives, Expect, Forbid, Glob, OneOf, Plan
from toolgrade.report.text.side_by_side import rows

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write"}


def measured(expected: Any, called: str, **options: Any) -> MetricResult:
    """Return the result of calls in shorthand; expected calls may also be objects."""
    expected = calls_from(expected) if isinstance(expected, str) else expected
    case = LLMTestCase(expected_tools=expected, tools_called=calls_from(called))
    return ToolCorrectnessMetric(**{"effects": EFFECTS, **options}).measure(case)


@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({}, 2 / 5),
        ({"only": "write"}, 1 / 2),
        ({"only": "read"}, 1 / 3),
        ({"ignore_failed": True}, 1 / 4),
        ({"only": "write", "ignore_failed": True}, 0),
    ],
)
def test_dropped_calls_leave_both_sides(options: dict[str, Any], score: float) -> None:
    """Before counting, so the denominators shrink as well."""
    result = measured("look book", "find book:error look find pay", denominator="called", **options)

    assert result.score == pytest.approx(score)


def test_places_are_those_of_the_case() -> None:
    """In findings, in the alignment, and in the table for people."""
    case = LLMTestCase(
        expected_tools=calls_from("look book(1) pay"), tools_called=calls_from("find book:error look book(2) mail")
    )
    metric = ToolCorrectnessMetric(
        only="write", ignore_failed=True, effects={**EFFECTS, "mail": "write"}, evaluation_params=["input_parameters"]
    )
    result = metric.measure(case)

    assert [(finding.kind, finding.expected, finding.called) for finding in result.findings] == [
        ("wrong_argument", 1, 3),
        ("missing", 2, None),
        ("unexpected", None, 4),
    ]
    assert [(row.expected_at, row.called_at) for row in rows(result, case)] == [
        ("2", "4"),
        ("", ""),
        ("3", ""),
        ("", "5"),
    ]
    assert metric.align(case) == result.alignment


def test_label_has_the_filter() -> None:
    """So that results of one case are distinguishable."""
    metric = ToolCorrectnessMetric(only="write", ignore_failed=True)

    assert metric.label == "tool_correctness(only=write, without failed calls)"


def test_available_tools_with_effects_need_no_judge() -> None:
    """Without `only` they are meant for a judge, and a result warns about its absence."""
    tools = [{"name": "a", "effect": "read"}, {"name": "b", "effect": "write"}]
    result = measured("b", "a b", only="write", effects={}, available_tools=tools, denominator="called")

    assert (result.score, result.warnings) == (1, ())


# Plans


@pytest.mark.parametrize(
    ("plan", "called", "score"),
    [
        pytest.param([Expect("look", times=(2, 3)), ToolCall(name="book")], "book", 1, id="a read that is missing"),
        pytest.param([Expect("book", times=2)], "look book", 1 / 2, id="a write that is missing once"),
        pytest.param([OneOf(ToolCall(name="look"), ToolCall(name="book"))], "find", 1, id="a read would have done"),
        pytest.param([OneOf(ToolCall(name="pay"), ToolCall(name="book"))], "find", 0, id="a write had to be"),
        pytest.param(
            [OneOf([ToolCall(name="look"), ToolCall(name="pay")], [ToolCall(name="book")])], "book", 1, id="ways"
        ),
        pytest.param(
            [Expect("look", label="seen"), Expect("book", after=["seen"])], "book look", 1, id="order of reads"
        ),
        pytest.param([Expect("pay", label="paid"), Expect("book", after=["paid"])], "book pay", 1 / 2, id="order"),
        pytest.param([Expect(Glob("*ook"))], "look", 0, id="a pattern that a write fits too"),
        pytest.param([Expect(Glob("loo*"))], "look", 1, id="a pattern that only reads fit"),
        pytest.param([Expect(Glob("fro*"))], "frobnicate", 1, id="a pattern of unknown tools"),
    ],
)
def test_plans(plan: list[Any], called: str, score: float) -> None:
    """Calls of the other kind are dropped as if the plan did not name them."""
    tools = [{"name": name} for name in EFFECTS]
    case = LLMTestCase(expected_tools=Plan(plan), tools_called=calls_from(called), available_tools=tools)
    result = ToolCorrectnessMetric(only="write", effects=EFFECTS).measure(case)

    assert result.score == pytest.approx(score)


def test_places_of_calls_in_plans() -> None:
    """Called ones have their places in the case, including forbidden ones."""
    plan = Plan([ToolCall(name="look"), Expect("book", {"n": "1"}), Forbid("pay")])
    result = measured(plan, "find book:error look book(2) pay", only="write", ignore_failed=True, denominator="f1",
                      evaluation_params=["input_parameters"])  # fmt: skip

    assert [(finding.kind, finding.called) for finding in result.findings] == [("forbidden", 4), ("wrong_argument", 3)]


def test_failed_calls_and_alternatives() -> None:
    """The alternative counts that scores best without them."""
    either = Alternatives([Plan([ToolCall(name="book")]), Plan([ToolCall(name="pay")])])

    assert measured(either, "book:error pay", ignore_failed=True, denominator="f1").score == 1
    assert measured(either, "book:error pay", denominator="f1").score == pytest.approx(2 / 3)


_names = st.lists(st.sampled_from((*EFFECTS, "frob", "jiggle")), max_size=4)


@few
@given(expected=_names, called=_names, only=st.sampled_from(["read", "write", None]))
def test_a_plan_that_says_no_more_than_a_list_scores_like_it(
    expected: list[str], called: list[str], only: str | None
) -> None:
    """Whatever is left out."""
    plain = measured(" ".join(expected), " ".join(called), only=only, denominator="f1")
    plan = measured(
        Plan([Expect(name) for name in expected], allow_extra=None), " ".join(called), only=only, denominator="f1"
    )

    assert plain.score == plan.score


@few
@given(expected=_names, called=_names)
def test_reads_and_writes_together_are_everything(expected: list[str], called: list[str]) -> None:
    """Where every effect is known, each call is compared in exactly one of the two."""
    effects = {**EFFECTS, "frob": "write", "jiggle": "read"}
    results = [
        measured(" ".join(expected), " ".join(called), only=only, effects=effects).alignment
        for only in (None, "read", "write")
    ]
    sums = [(alignment.expected_count, alignment.called_count, alignment.matched) for alignment in results if alignment]

    assert sums[0] == tuple(read + write for read, write in zip(sums[1], sums[2], strict=True))
