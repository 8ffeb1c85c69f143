"""Laws of the task success of calls alone, and a slow, obvious answer to compare its own with."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles import equal as same
from shorthand import calls_only
from strategies import NAN, few
from toolgrade import CallStatus, LLMTestCase, MetricResult, ToolCall

Calls = list[ToolCall]

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write"}
FAILED = ("error", "invalid_arguments", "unknown_tool", "rejected", "cancelled", "not_executed")

_values = st.recursive(
    st.sampled_from((0, 1, 1.0, True, "1", None, NAN)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
_fields = st.fixed_dictionaries(
    {"name": st.sampled_from(("look", "find", "book", "book", "pay", "frob"))},
    optional={"input_parameters": st.dictionaries(st.sampled_from("abc"), _values, max_size=3)},
)
_status = st.sampled_from((None, "ok", "pending", *FAILED))


def _recorded(fields: dict[str, Any], status: str | None) -> ToolCall:
    return ToolCall(**fields) if status is None else ToolCall(**fields, execution={"status": status})


expected_drawn = st.lists(_fields.map(lambda fields: ToolCall(**fields)), max_size=4)
called_drawn = st.lists(st.builds(_recorded, _fields, _status), max_size=5)


def measured(expected: Calls, called: Calls, **options: Any) -> MetricResult:
    """The result of one case."""
    case = LLMTestCase(expected_tools=expected, tools_called=called)
    return calls_only(**{"effects": EFFECTS, **options}).measure(case)


def score(expected: Calls, called: Calls, **options: Any) -> float:
    """The score of one case."""
    return float(measured(expected, called, **options))


@given(expected=expected_drawn, called=called_drawn)
def test_bounds_and_explanations(expected: Calls, called: Calls) -> None:
    """Scores and parts are in [0, 1]; a lower score has a finding; the reason has each with place and name."""
    result = measured(expected, called)

    assert result.score is not None
    assert 0 <= result.score <= 1
    assert all(0 <= part <= 1 for part in result.parts.values())
    assert result.parts["total"] == result.score
    assert result.findings or result.score == 1
    assert all(finding.message in str(result.reason) for finding in result.findings)
    for finding in result.findings:
        assert finding.expected is None or expected[finding.expected].name == finding.tool
        assert finding.called is None or called[finding.called].name == finding.tool
    assert repr(result) == repr(measured(expected, called))


@given(expected=expected_drawn)
def test_expected_run_scores_1(expected: Calls) -> None:
    """For any expectation and weight of reads."""
    assert score(expected, expected) == 1
    assert score(expected, expected, read_weight=0.7) == 1
    assert all(value == 1 for value in measured(expected, expected).parts.values())


@given(expected=expected_drawn, called=called_drawn, seed=st.integers(0, 99))
def test_order_plays_no_part(expected: Calls, called: Calls, seed: int) -> None:
    """The total is the same to the last bit in any order of calls."""
    draw = random.Random(seed)
    shuffled = [draw.sample(side, len(side)) for side in (expected, called)]

    assert score(expected, called) == score(*shuffled)


@given(expected=expected_drawn, called=called_drawn, place=st.integers(0, 5), status=st.sampled_from(FAILED))
def test_a_failed_call_changes_nothing(expected: Calls, called: Calls, place: int, status: str) -> None:
    """At any place and with any arguments, so a retry costs nothing."""
    for name in ("book", "look", "frob"):
        more = [*called[:place], ToolCall(name=name, execution={"status": status}), *called[place:]]

        assert measured(expected, called).parts == measured(expected, more).parts


@given(expected=expected_drawn, called=called_drawn)
def test_a_forbidden_call_is_0_and_without_one_nothing_changes(expected: Calls, called: Calls) -> None:
    """Exactly a call that was not left out."""
    effective = [call for call in called if did(call)]
    result = measured(expected, called, forbidden=["p?y"])

    if any(call.name == "pay" for call in effective):
        assert (result.score, result.parts["forbidden"]) == (0, 0)
    else:
        assert (result.score, result.parts["forbidden"]) == (score(expected, called), 1)


@few
@given(expected=expected_drawn, called=called_drawn, more=expected_drawn)
def test_weights_of_reads_lie_between_their_ends(expected: Calls, called: Calls, more: Calls) -> None:
    """The total falls with the weight, from arguments to F1 x recall of the reads."""
    called = [*called, *more]
    scores = [score(expected, called, read_weight=weight) for weight in (0, 0.1, 0.5, 1)]
    parts = measured(expected, called).parts

    assert scores == sorted(scores, reverse=True)
    assert scores[0] == parts.get("arguments", 1)
    assert abs(scores[-1] - scores[0] * parts.get("reads", 1)) < 1e-12


# The same answer, slowly


def did(call: ToolCall) -> bool:
    """Whether a call is not known to have done nothing."""
    return call.execution is None or call.execution.status in {CallStatus.OK, CallStatus.PENDING}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Every leaf with its path; a key is not a position, even where they look alike."""
    if isinstance(value, dict) and (value or not path):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, ("key", key)))]
    if isinstance(value, list) and value:
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, ("at", index)))]
    return [(path, value)]


def credit(reference: ToolCall, actual: ToolCall) -> Fraction:
    """Equal leaves / leaves of either side."""
    if reference.name != actual.name:
        return Fraction(0)
    if "input_parameters" not in reference.model_fields_set:
        return Fraction(1)
    left, right = dict(leaves(reference.arguments)), dict(leaves(actual.arguments))
    both = {*left, *right}
    if not both:
        return Fraction(1)
    return Fraction(sum(path in left and path in right and same(left[path], right[path]) for path in both), len(both))


def greatest(expected: Calls, called: Calls) -> Fraction:
    """The greatest sum of credits over all ways to pair calls."""
    few_calls, many = sorted((expected, called), key=len)
    swap = few_calls is called and few_calls is not expected
    return max(
        (
            sum(((credit(b, a) if swap else credit(a, b)) for a, b in zip(few_calls, way, strict=True)), Fraction(0))
            for way in permutations(many, len(few_calls))
        ),
        default=Fraction(0),
    )


@given(expected=expected_drawn, called=called_drawn)
def test_the_score_against_all_ways_to_pair(expected: Calls, called: Calls) -> None:
    """F1 of the best pairing of writes x (0.9 + 0.1 x share of expected reads made), counted by hand."""
    names = {call.name for call in expected if call.name not in {"look", "find"}}
    effective = [call for call in called if did(call)]
    writes = (
        [call for call in expected if call.name in names],
        [call for call in effective if call.name in {"book", "pay", *names}],
    )
    reads = [[call.name for call in side if call.name in {"look", "find"}] for side in (expected, effective)]
    total = len(writes[0]) + len(writes[1])
    f1 = float(2 * greatest(*writes) / total) if total else 1.0
    paired = sum(min(reads[0].count(name), reads[1].count(name)) for name in {*reads[0]})
    recall = paired / len(reads[0]) if reads[0] else 1.0

    assert abs(score(expected, called) - f1 * (0.9 + 0.1 * recall)) < 1e-12


@given(expected=expected_drawn, called=called_drawn)
def test_order_against_all_subsequences(expected: Calls, called: Calls) -> None:
    """The part is the maximal credit in order over that in any order; it is omitted for one pair."""
    names = {call.name for call in expected if call.name not in {"look", "find"}}
    reference = [call for call in expected if call.name in names]
    effective = [call for call in called if did(call) and call.name in {"book", "pay", *names}]
    result = measured(expected, called)
    free = greatest(reference, effective)
    pairs = len(result.alignment.pairs) if result.alignment else 0
    order = result.parts.get("order")

    assert (order is not None) == (pairs > 1 and free > 0)
    assert order is None or abs(order - float(in_order(reference, effective) / free)) < 1e-12


def in_order(expected: Calls, called: Calls) -> Fraction:
    """The greatest sum of credits of pairs that do not cross."""
    if not expected or not called:
        return Fraction(0)
    paired = credit(expected[0], called[0]) + in_order(expected[1:], called[1:])
    return max(paired, in_order(expected[1:], called), in_order(expected, called[1:]))
