"""Large or constrained plans: exact results, and reported approximations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from toolgrade import LLMTestCase, MetricResult, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Expect, OneOf, Parallel, Plan
from toolgrade.matching import ordering_rules as _precedence


def call(name: str, value: int | None = None, step: int | None = None) -> ToolCall:
    """A called tool."""
    more: dict[str, Any] = {} if step is None else {"execution": {"step": step}}
    return ToolCall(name=name, input_parameters=None if value is None else {"i": value}, **more)


def measured(plan: Sequence[Any], called: list[ToolCall], **options: Any) -> MetricResult:
    """What the metric says."""
    case = LLMTestCase(tools_called=called, expected_tools=Plan(plan))
    result = ToolCorrectnessMetric(evaluation_params=["input_parameters"], **options).measure(case)
    assert result.alignment is not None
    return result


def test_a_long_chain_in_the_wrong_order_is_exact() -> None:
    """Only the first of a chain counts when it was called backwards, and nothing was given up."""
    names = [f"t{index}" for index in range(200)]
    chain = [Expect(name, label=name, after=names[max(at - 1, 0) : at]) for at, name in enumerate(names)]
    result = measured(chain, [call(name) for name in reversed(names)])
    assert (result.score, result.warnings) == (1 / 200, ())


def test_reads_that_all_come_late_are_exact() -> None:
    """Twelve writes before twelve reads that look like each other: no order of pairs could save one."""
    plan = [
        expect
        for at in range(12)
        for expect in (Expect("r", {"i": at % 3}, label=f"r{at}"), Expect("w", {"i": at % 3}, after=[f"r{at}"]))
    ]
    result = measured(plan, [*(call("w", at % 3) for at in range(12)), *(call("r", at % 3) for at in range(12))])
    assert (result.score, result.warnings) == (0.5, ())


def test_approximation_reports_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight is attainable, and the optimum lies within the gap."""
    plan = [
        expect
        for at in range(4)
        for expect in (Expect("r", label=f"r{at}"), Expect("w", {"i": at % 2}, after=[f"r{at}"]))
    ]
    called = [call("w", 1), *(call("rw"[at % 2], at % 3 % 2) for at in range(7))]
    exact = measured(plan, called)
    monkeypatch.setattr(_precedence, "MOST_NODES", 3)
    hasty = measured(plan, called)
    assert exact.alignment is not None
    assert hasty.alignment is not None
    assert exact.alignment.gap == 0
    assert hasty.alignment.gap > 0
    assert hasty.alignment.matched <= exact.alignment.matched <= float(hasty.alignment.matched) + hasty.alignment.gap
    assert "the search for the best order was given up: the matched weight may be up to" in str(hasty.reason)
    assert "given up" not in str(exact.reason)


def test_a_chain_too_long_to_be_searched_is_bounded() -> None:
    """Hundreds of calls that come after each other are not searched, and still nothing could be better."""
    names = [f"t{index}" for index in range(400)]
    chain = [Expect(name, label=name, after=names[max(at - 1, 0) : at]) for at, name in enumerate(names)]
    assert measured(chain, [call(name) for name in names]).score == 1
    backwards = measured(chain, [call(name) for name in reversed(names)])
    assert backwards.score == 1 / 400
    assert backwards.alignment is not None
    assert backwards.alignment.gap == 0


def test_any_number_of_times_among_many_calls() -> None:
    """A plan with an unlimited repeat against a thousand calls of one tool."""
    result = measured([Expect("a", {"i": 1}, times=(0, None))], [call("a", at % 2) for at in range(1000)])
    assert result.alignment is not None
    assert (result.alignment.matched, result.alignment.expected_count, result.alignment.called_count) == (
        500,
        1000,
        1000,
    )


def test_many_choices() -> None:
    """729 ways of a plan."""
    plan = [OneOf([Expect(f"a{at}"), Expect("z")], [Expect(f"b{at}")], [Expect(f"c{at}")]) for at in range(6)]
    assert measured(plan, [call(f"c{at}") for at in range(6)]).score == 1


def test_groups_take_the_step_that_fits_best() -> None:
    """Of two steps the one with more of the group is its own; in order, groups follow each other."""
    group = Parallel(Expect("a", {"i": 1}), Expect("a", {"i": 2}), Expect("b"))
    called = [call("a", 1, 0), call("a", 1, 1), call("a", 2, 1), call("b", None, 2)]
    result = measured([group], called)
    assert result.score == pytest.approx(2 / 3)
    assert [(finding.kind, finding.called) for finding in result.findings] == [("not_parallel", 3), ("unexpected", 0)]
    two = [Parallel(Expect("a"), Expect("b")), Parallel(Expect("b"), Expect("a"))]
    steps = [call("b", None, 0), call("a", None, 0), call("a", None, 1), call("b", None, 1)]
    assert measured(two, steps, should_exact_match=True).score == 1
    assert measured(two, [steps[2], steps[0], steps[1], steps[3]], should_exact_match=True).score == 0


def test_an_optional_call_in_another_step_than_its_group_costs() -> None:
    """It was made, so it counts; in its step it earns what it counts."""
    group = Parallel(Expect("a"), Expect("b", optional=True))
    for steps in ((0, 1), (1, 0)):
        called = [call(name, None, step) for step, name in sorted(zip(steps, "ab", strict=True))]
        assert measured([group], called).score == 0.5
    assert measured([group], [call("a", None, 0), call("b", None, 0)], denominator="f1").score == 1


def test_an_order_is_one_of_names() -> None:
    """A call that is in no pair breaks no order; one with other arguments does, however wrong they are."""
    group = Parallel(Expect("b", after=["p"]), ToolCall(name="c"))
    first = Expect("a", {"i": 1}, label="p")
    called = [call("b", None, 0), call("b", None, 0), call("c", None, 1)]
    assert measured([ToolCall(name="b"), first, group], called, denominator="called").score == pytest.approx(2 / 3)
    assert measured([first, Expect("b", after=["p"])], [call("b"), call("a", 2)]).score == 0
    assert measured([first, Expect("b", after=["p"])], [call("a", 2), call("b")]).score == 0.5


def test_required_one_of_equal_calls_counts() -> None:
    """In a group, with one call in its step and one outside, the first takes the required slot."""
    group = Parallel(Expect("a", {"i": 1}, times=(1, None)))
    called = [ToolCall(name="a", input_parameters={"i": 1, "j": 1}, execution={"step": 0}), call("a", 1, 1)]
    result = measured([group], called, denominator="f1")
    assert result.score == 0.5
    assert result.alignment is not None
    assert (result.alignment.missing, result.alignment.expected_count) == ((), 2)
    assert [(pair.expected, pair.called) for pair in result.alignment.pairs] == [(0, 1)]


def test_calls_of_one_step_are_not_before_each_other() -> None:
    """What the model asks for at the same time it asks for unseen; an unknown step breaks nothing."""
    plan = [Expect("a", label="p"), Expect("b", after=["p"])]
    assert measured(plan, [call("a", None, 0), call("b", None, 0)]).score == 0.5
    assert measured(plan, [call("a", None, 0), call("b", None, 1)]).score == 1
    assert measured(plan, [call("a"), call("b", None, 0)]).score == 1
    assert measured(plan, [call("a"), call("b")]).score == 1


def test_no_call_is_left_out_so_that_others_come_in_time() -> None:
    """Two calls before the one that they should come after are both too early: that one was made, and too late."""
    plan = [Expect("a", label="p"), Expect("b", after=["p"]), Expect("c", after=["p"])]
    result = measured(plan, [call("b"), call("c"), call("a")])
    assert result.score == pytest.approx(1 / 3)
    assert [(finding.kind, finding.called) for finding in result.findings] == [("out_of_order", 0), ("out_of_order", 1)]
    spare = [Expect("a", label="p"), Expect("a"), Expect("b", after=["p"]), Expect("b", after=["p"])]
    assert measured(spare, [call("b"), call("b"), call("a"), call("a")]).score == 0.5
    alike = [Expect("a", {"i": 1}, label="p"), Expect("a", {"i": 1}, label="q"), Expect("b", after=["p", "q"])]
    assert measured(alike, [call("a", 1), call("b"), call("a", 1)]).score == pytest.approx(2 / 3)


def test_unmade_optional_call_is_listed() -> None:
    """It has a place in the plan, counts nowhere, and is not a finding."""
    result = measured([Expect("a"), Expect("b", optional=True)], [call("a")])
    assert result.alignment is not None
    assert (result.alignment.labels, result.alignment.unused) == (("a", "b"), (1,))
    assert (result.alignment.expected_count, result.findings) == (1, ())


def test_json_form_of_an_alignment_has_every_part() -> None:
    """Optional calls that were not made, calls of which others come too early, and forbidden ones, as JSON values."""
    plan = [Expect("a", label="p"), Expect("b", after=["p"]), Expect("c", optional=True)]
    result = measured(plan, [call("b"), call("a")])
    assert result.alignment is not None
    plain = result.alignment.to_dict()
    assert (plain["labels"], plain["unused"], plain["forbidden"]) == (["a", "b", "c"], [2], [])
    assert [pair.keys() for pair in plain["out_of_order"]] == [{"expected", "called", "similarity", "breaks", "why"}]
    assert plain["pairs"] == [{"expected": 0, "called": 1, "similarity": 1.0}]
