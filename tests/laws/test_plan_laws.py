"""Laws of plans.

Against an oracle that lists every way of a plan and every alignment: the score, whatever the denominator. And
equivalences: a plan of calls is the list of them, an optional call that is made is a required one, one alternative is
no choice, so many times is as many calls, a chain of `after` costs what order costs where every call has a name of its
own.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plan_oracle
from plan_drawing import called, plain_calls, plans
from toolgrade import LLMTestCase, MetricResult, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Alternatives, Expect, Forbid, OneOf, Plan
from toolgrade.expect.json_form import expectation_json, read_expectation
from toolgrade.matching.alignment import Denominator

DENOMINATORS: tuple[Denominator, ...] = get_args(Denominator)


def measured(expected: Any, tools: list[ToolCall], **options: Any) -> MetricResult:
    """What the metric says, arguments compared."""
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], **options)
    return metric.measure(LLMTestCase(tools_called=tools, expected_tools=expected))


def scored(expected: Any, tools: list[ToolCall], **options: Any) -> float:
    """The score."""
    return float(measured(expected, tools, **options))


@pytest.mark.parametrize("denominator", DENOMINATORS)
@given(plans(), called())
def test_plan_score_equals_an_exhaustive_search(denominator: Denominator, plan: Plan, tools: list[ToolCall]) -> None:
    """Unordered: the best alignment of the best choice."""
    best = max(plan_oracle.score(one, denominator) for one in plan_oracle.totals(plan, tools, ordered=False))
    assert scored(plan, tools, denominator=denominator) == pytest.approx(float(best), abs=1e-12)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@given(plans(ordering=False), called())
def test_ordered_plan_score_equals_an_exhaustive_search(
    denominator: Denominator, plan: Plan, tools: list[ToolCall]
) -> None:
    """Ordered: only alignments in order; a group is one step without inner order."""
    best = max(plan_oracle.score(one, denominator) for one in plan_oracle.totals(plan, tools, ordered=True))
    result = scored(plan, tools, denominator=denominator, should_consider_ordering=True)
    assert result == pytest.approx(float(best), abs=1e-12)


modes = st.fixed_dictionaries(
    {"denominator": st.sampled_from(DENOMINATORS)},
    optional={"should_consider_ordering": st.booleans(), "should_exact_match": st.booleans()},
)


@given(st.lists(plain_calls, max_size=4), called(), modes)
def test_a_plan_of_calls_is_the_list_of_them(
    expected: list[ToolCall], tools: list[ToolCall], mode: dict[str, Any]
) -> None:
    """Score, reason, findings and alignment are those of the list, and so they are when each call is an `Expect`."""
    listed = measured(expected, tools, **mode)
    assert measured(Plan(expected), tools, **mode) == listed
    planned = measured(Plan([Expect(call.name, call.input_parameters) for call in expected]), tools, **mode)
    assert (planned.score, planned.findings) == (listed.score, listed.findings)
    assert planned.alignment is not None
    assert listed.alignment is not None
    assert planned.alignment.pairs == listed.alignment.pairs


@given(plans(), called(), modes)
def test_every_position_of_plan_and_run_is_placed_once(plan: Plan, tools: list[ToolCall], mode: dict[str, Any]) -> None:
    """Each position has exactly one place in the alignment; the score is in [0, 1]."""
    result = measured(plan, tools, **mode)
    alignment = result.alignment
    assert alignment is not None
    assert 0 <= float(result) <= 1
    pairs = (*alignment.pairs, *alignment.out_of_order)
    left = sorted([*(pair.expected for pair in pairs), *alignment.missing, *alignment.unused])
    right = sorted([*(pair.called for pair in pairs), *alignment.unexpected])
    assert left == list(range(len(alignment.labels) or alignment.expected_count))
    assert right == list(range(len(tools)))
    assert alignment.matched <= alignment.expected_count


@given(plans(size=2), plans(size=2), called(), modes)
def test_alternatives_give_the_best_score(one: Plan, other: Plan, tools: list[ToolCall], mode: dict[str, Any]) -> None:
    """`OneOf(a)` and `Alternatives([a])` equal a; two plans give the better score in any order."""
    alone = scored(one, tools, **mode)
    assert scored(Alternatives([one]), tools, **mode) == alone
    assert scored(Plan([OneOf(list(one.calls))]), tools, **mode) == alone
    best = max(alone, scored(other, tools, **mode))
    assert scored(Alternatives([one, other]), tools, **mode) == best
    assert scored(Alternatives([other, one]), tools, **mode) == best


@given(plain_calls, st.lists(plain_calls, max_size=2), called(), modes)
def test_so_many_times_is_as_many_calls(
    call: ToolCall, others: list[ToolCall], tools: list[ToolCall], mode: dict[str, Any]
) -> None:
    """`times=2` is the call twice, `times=(0, 1)` is `optional`, and `times=1` says nothing."""

    def with_times(**options: Any) -> float:
        return scored(Plan([Expect(call.name, call.input_parameters, **options), *others]), tools, **mode)

    assert with_times(times=2) == scored(Plan([call, call, *others]), tools, **mode)
    assert with_times(times=(0, 1)) == with_times(optional=True)
    assert with_times(times=1) == scored(Plan([call, *others]), tools, **mode)


@given(plans(), called(), modes)
def test_a_forbidden_call_makes_every_score_zero(plan: Plan, tools: list[ToolCall], mode: dict[str, Any]) -> None:
    """A finding names it; without a forbidden call the score is unchanged."""
    before = measured(plan, tools, **mode)
    hit = Plan([*plan.calls, Forbid("zz")])
    result = measured(hit, [*tools, ToolCall(name="zz")], **mode)
    assert result.score == 0
    assert ("forbidden", len(tools)) in {(finding.kind, finding.called) for finding in result.findings}
    if any(plan.expected_calls()):
        assert scored(hit, tools, **mode) == float(before)


@given(plans())
def test_the_json_form_is_the_plan(plan: Plan) -> None:
    """What is written is read as an equal plan, alone and inside of a case, and written the same again."""
    written = expectation_json(plan)
    assert read_expectation(written) == plan
    case = LLMTestCase(tools_called=[], expected_tools=plan)
    again = LLMTestCase.from_json(case.to_json())
    assert again == case
    assert again.to_json() == case.to_json()


WORSE_TO_BETTER = [{"x": 2, "y": 2}, {"x": 1, "y": 2}, {"x": 1, "y": 1}]
"""Arguments, of which each is more similar to the last than the one before it."""


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "in order"])
@given(data=st.data(), denominator=st.sampled_from(DENOMINATORS), exact=st.booleans())
def test_better_arguments_never_lower_a_score(
    data: st.DataObject, denominator: Denominator, *, ordered: bool, exact: bool
) -> None:
    """Whatever is optional, repeated, grouped, or must come after something: how many calls count depends on names."""
    plan = data.draw(plans(ordering=not ordered, values=st.just(WORSE_TO_BETTER[-1])))
    worse = data.draw(called(values=st.sampled_from(WORSE_TO_BETTER)))
    at = {index: WORSE_TO_BETTER.index(call.arguments) for index, call in enumerate(worse)}
    improvable = [index for index, level in at.items() if level + 1 < len(WORSE_TO_BETTER)]
    if not improvable:
        return
    index = data.draw(st.sampled_from(improvable))
    better = list(worse)
    better[index] = worse[index].model_copy(update={"input_parameters": WORSE_TO_BETTER[at[index] + 1]})
    options = {"denominator": denominator, "should_consider_ordering": ordered, "should_exact_match": exact}
    assert scored(plan, better, **options) >= scored(plan, worse, **options) - 1e-12


@given(st.integers(1, 9), st.integers(0, 12), st.integers(0, 9))
def test_counts_decide_how_many_calls_are_expected(least: int, amount: int, more: int) -> None:
    """M is the least number, and each call beyond it, also beyond the greatest number of a range."""
    plan = Plan([Expect("a", times=(least, least + more))])
    result = measured(plan, [ToolCall(name="a")] * amount, denominator="f1")
    counted = min(amount, least + more)
    m = max(least, amount if more else counted)
    assert result.score == pytest.approx(2 * counted / (m + amount) if amount else 0)
