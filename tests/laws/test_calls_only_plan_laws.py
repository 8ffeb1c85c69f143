"""Laws of the task success of the calls of plans, against an oracle that lists all choices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import plan_oracle
from plan_drawing import called as calls_made
from plan_drawing import plans
from shorthand import calls_only
from strategies import NAN
from toolgrade import LLMTestCase, MetricResult, ToolCall
from toolgrade.expect import Alternatives, Exact, Expect, OneOf, Plan
from toolgrade.expect.plan import expected_names
from toolgrade.matching.json_compare import ABSENT
from toolgrade.redact import REDACTED

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write", "zap": "write"}

_values = st.recursive(
    st.sampled_from((0, 1, 1.0, True, "1", None, NAN, REDACTED)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
_calls = st.fixed_dictionaries(
    {"name": st.sampled_from(("look", "find", "book", "book", "pay", "frob"))},
    optional={"input_parameters": st.dictionaries(st.sampled_from("abc"), _values, max_size=3)},
).map(lambda fields: ToolCall(**fields))
lists = st.lists(_calls, max_size=4)


def measured(expected: Any, called: list[ToolCall], **options: Any) -> MetricResult:
    """The result of one case."""
    case = LLMTestCase(expected_tools=expected, tools_called=called)
    return calls_only(**{"effects": EFFECTS, **options}).measure(case)


def score(expected: Any, called: list[ToolCall], **options: Any) -> float:
    """The score of one case."""
    return float(measured(expected, called, **options))


def as_expectation(call: ToolCall, *, exact: bool = False) -> Expect:
    """Return the call as an expectation."""
    arguments = call.arguments if "input_parameters" in call.model_fields_set else ABSENT
    if exact and isinstance(arguments, dict):
        arguments = {key: Exact(value) for key, value in arguments.items()}
    return Expect(call.name, arguments)


# Two calls are as similar, one of them because a value is redacted: the equal one is the pair.
_BOOK = ToolCall(name="book", input_parameters={"a": 0, "b": 0})
_REDACTED_BOOK = ToolCall(name="book", input_parameters={"a": 0, "b": REDACTED})


@given(expected=lists, called=lists, exact=st.booleans())
@example(expected=[_BOOK], called=[_REDACTED_BOOK, _BOOK], exact=False)
@example(expected=[_BOOK], called=[_REDACTED_BOOK, _BOOK], exact=True)
def test_an_expectation_of_plain_values_is_the_call(
    expected: list[ToolCall], called: list[ToolCall], exact: bool
) -> None:
    """Leaf by leaf, also where values are redacted: parts, findings and pairs."""
    one, other = (
        measured(expected, called),
        measured(Plan([as_expectation(call, exact=exact) for call in expected]), called),
    )

    assert one.parts == other.parts
    assert [finding.message for finding in one.findings] == [finding.message for finding in other.findings]
    assert one.alignment is not None
    assert other.alignment is not None
    assert repr(one.alignment.pairs) == repr(other.alignment.pairs)  # NaN, which differs from itself, reads alike


@given(expected=lists, called=lists)
def test_one_alternative_is_equivalent_to_its_plan(expected: list[ToolCall], called: list[ToolCall]) -> None:
    """As is one trajectory, or a choice between equal plans."""
    one = score(expected, called)

    assert score(Alternatives([expected]), called) == one
    assert score(Plan([OneOf(call) for call in expected]), called) == one
    assert score(Plan([OneOf(call, call) for call in expected]), called) == one
    assert score(Plan([OneOf(expected, expected)]), called) == one


@given(plans=st.lists(lists, min_size=1, max_size=3), called=lists)
def test_alternatives_are_the_maximum(plans: list[list[ToolCall]], called: list[ToolCall]) -> None:
    """Whether they are trajectories, or sub-plans."""
    # `frob` is a write only if it is expected, so it would be one next to a plan without it.
    effects = {**EFFECTS, "frob": "write"}
    best = max(score(plan, called, effects=effects) for plan in plans)

    assert score(Alternatives(plans), called, effects=effects) == best
    assert score(Plan([OneOf(*plans)]), called, effects=effects) == best


# Against every way and every alignment


def effect(name: Any, called: list[ToolCall], effects: dict[str, str]) -> str:
    """What an expected call does: a pattern reads if all that it fits does, and it fits something."""
    names = [name] if isinstance(name, str) else [call.name for call in called if plan_oracle.named(name, call)]
    return "read" if {effects[one] for one in names} == {"read"} else "write"


def by_name(call: Any) -> Any:
    """An expected call without its arguments."""
    return ToolCall(name=call.name) if isinstance(call, ToolCall) else replace(call, input_parameters=ABSENT)


def total(way: plan_oracle.Way, plan: Plan, called: list[ToolCall], effects: dict[str, str]) -> Fraction:
    """Arguments x (0.9 + 0.1 x recall of the reads), of one way."""
    if plan_oracle.forbidden(way, called):
        return Fraction(0)
    shares: dict[str, Fraction] = {}
    for kind, denominator in (("write", "f1"), ("read", "expected")):
        of_kind = [call for call in called if effects[call.name] == kind]
        required = tuple(
            (one if kind == "write" else by_name(one), *rest)
            for one, *rest in way.calls
            if effect(one.name, called, effects) == kind
        )
        weight, size = plan_oracle.matched(plan_oracle.Way(required, ()), of_kind, ordered=False)
        totals = plan_oracle.Totals(weight, size, len(of_kind), forbidden=False, silent=plan_oracle.silent(plan))
        shares[kind] = plan_oracle.score(totals, denominator) if size or kind == "write" else Fraction(1)
    return shares["write"] * (Fraction(9, 10) + shares["read"] / 10)


kinds = st.sampled_from(["read", "write"])


@given(plan=plans(), called=calls_made(), effects=st.fixed_dictionaries({"a": kinds, "b": kinds, "ab": kinds}))
def test_the_total_is_that_of_the_best_way(plan: Plan, called: list[ToolCall], effects: dict[str, str]) -> None:
    """Choices are made once, for writes and reads together; rules hold among the writes, and among the reads."""
    best = max(total(way, plan, called, effects) for way in plan_oracle.ways(plan.calls))

    assert score(plan, called, effects=effects) == pytest.approx(float(best), abs=1e-12)


@given(plan=plans(), called=calls_made(), place=st.integers(0, 4))
def test_a_read_that_no_plan_names_changes_nothing(plan: Plan, called: list[ToolCall], place: int) -> None:
    """Wherever it stands; no pattern fits it either."""
    effects = {"a": "write", "b": "read", "ab": "write", "look": "read"}
    more = [*called[:place], ToolCall(name="look"), *called[place:]]

    assert measured(plan, called, effects=effects).parts == measured(plan, more, effects=effects).parts


@given(plan=plans(), called=calls_made(), effects=st.fixed_dictionaries({"a": kinds, "b": kinds, "ab": kinds}))
def test_bounds_and_explanations(plan: Plan, called: list[ToolCall], effects: dict[str, str]) -> None:
    """Scores and parts are in [0, 1]; a lower score has a finding; places are those of the plan, and of the case."""
    result = measured(plan, called, effects=effects)

    assert result.score is not None
    assert all(0 <= part <= 1 for part in result.parts.values())
    assert result.findings or result.score == 1
    assert result.alignment is not None
    names = result.alignment.labels or expected_names(plan)
    for finding in result.findings:
        assert finding.message in str(result.reason)
        assert finding.called is None or finding.expected is not None or called[finding.called].name == finding.tool
        assert finding.expected is None or names[finding.expected] == finding.tool
    for pair in result.alignment.pairs:
        assert effects[called[pair.called].name] == "write"
