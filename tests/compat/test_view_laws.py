"""The laws of the views of other libraries, and slow, obvious answers to what they answer.

The oracles list all pairings and ask each library's documentation of them; equality of values is that of `oracles`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from itertools import combinations, groupby, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import equal
from peer_inputs import Calls, case
from strategies import NAN, few
from toolgrade import Execution, MetricResult, ToolCall
from toolgrade.compat import adk, agentevals, pydantic_evals, ragas
from toolgrade.compat._matching_presets import PresetMetric

Agrees = Callable[[ToolCall, ToolCall], bool]

_arguments = st.dictionaries(
    st.sampled_from("xy"), st.sampled_from((1, 1.0, True, "1", NAN, None, {"p": 1})), max_size=2
)
_expected = st.fixed_dictionaries(
    {"name": st.sampled_from("aab"), "input_parameters": _arguments},
    optional={"execution": st.integers(0, 1).map(lambda step: Execution(step=step))},
).map(lambda fields: ToolCall(**fields))
_any_arguments = st.sampled_from("ab").map(lambda name: ToolCall(name=name))
_lists = st.lists(_expected | _any_arguments, max_size=4)


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[Calls, Calls]:
    """Expected calls, and called ones that are often nearly the same."""
    expected = draw(_lists)
    if draw(st.booleans()):
        return expected, draw(_lists)
    called = draw(st.permutations(expected))[: draw(st.integers(0, 4))] + draw(st.lists(_expected, max_size=1))
    return expected, [call.model_copy() for call in called]


def _never_less(called: dict[str, Any], expected: dict[str, Any]) -> bool:
    """A function that is not symmetric."""
    return len(called) >= len(expected)


_modes = st.sampled_from(("exact", "ignore", "subset", "superset"))
_options = st.fixed_dictionaries(
    {"tool_args_match_mode": _modes},
    optional={
        "tool_args_match_overrides": st.dictionaries(st.just("a"), _modes | st.sampled_from((["x"], _never_less)))
    },
)


def measured(view: PresetMetric, expected: Calls, called: Calls) -> MetricResult:
    """The result of one case."""
    return view.measure(case(expected, called))


def score(view: PresetMetric, expected: Calls, called: Calls) -> float | None:
    """The score of one case."""
    return measured(view, expected, called).score


VIEWS: list[PresetMetric] = [
    *(agentevals.TrajectoryMatch(mode) for mode in ("strict", "unordered", "subset", "superset")),
    *(adk.TrajectoryMatch(mode) for mode in ("EXACT", "IN_ORDER", "ANY_ORDER")),
    *(pydantic_evals.TrajectoryMatch(order) for order in ("exact", "in_order", "any_order")),
    *(pydantic_evals.ToolCorrectness(allow_extra=extra) for extra in (False, True)),
    *(pydantic_evals.ArgumentCorrectness("a", mode) for mode in ("subset", "exact")),
    *(ragas.ToolCallAccuracy(strict_order=strict) for strict in (True, False)),
    ragas.ToolCallF1(),
]
_view = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.label)


@_view
@few
@given(two_lists())
def test_laws_of_all(view: PresetMetric, calls: tuple[Calls, Calls]) -> None:
    """Bounded, deterministic and explained: a score below 1 has a finding, and each finding is in the reason."""
    result = measured(view, *calls)

    assert repr(result) == repr(measured(view, *calls))
    if result.score is not None:
        assert 0 <= result.score <= 1
        assert result.findings or result.score == 1
        assert all(finding.message in str(result.reason) for finding in result.findings)
        strict = type(view)(**{**_options_of(view), "strict_mode": True})
        assert score(strict, *calls) == float(result.score == 1)


def _options_of(view: PresetMetric) -> dict[str, Any]:
    return {entry.name: getattr(view, entry.name) for entry in fields(view) if entry.init}


@_view
@few
@given(_lists)
def test_expected_run_scores_1(view: PresetMetric, calls: Calls) -> None:
    """A run with exactly the expected calls scores 1 if the metric applies."""
    assert score(view, calls, calls) in {1, None}


_BLIND = [
    view
    for view in VIEWS
    if any(
        word in view.label for word in ("unordered", "subset", "superset", "ANY_", "any_", "=False", "f1", "tool_corr")
    )
    and not isinstance(view, pydantic_evals.ArgumentCorrectness)
]


@pytest.mark.parametrize("view", _BLIND, ids=lambda view: view.label)
@few
@given(two_lists(), st.integers(0, 99))
def test_the_order_plays_no_part_where_it_should_not(view: PresetMetric, calls: tuple[Calls, Calls], seed: int) -> None:
    """Neither that of the expected nor that of the called calls changes the score, to the last bit."""
    expected, called = (random.Random(seed).sample(side, len(side)) for side in calls)

    assert score(view, expected, called) == score(view, *calls)


def test_the_order_plays_a_part_elsewhere() -> None:
    """The views that are not listed as blind to it change with it."""
    left = [ToolCall(name="a", input_parameters={"x": n}) for n in (1, 2)] + [ToolCall(name="b")]
    changed = [view for view in VIEWS if score(view, left, left) != score(view, left, left[::-1])]

    assert {id(view) for view in changed} == {id(view) for view in VIEWS if view not in _BLIND}
    assert len(_BLIND) == 9


# agentevals


def matches(options: dict[str, Any], expected: ToolCall, called: ToolCall) -> bool:
    """Whether two calls are the same for agentevals, by its documentation."""
    if expected.name != called.name:
        return False
    if "input_parameters" not in expected.model_fields_set:
        return True
    left, right = expected.arguments, called.arguments
    how = options.get("tool_args_match_overrides", {}).get(called.name, options["tool_args_match_mode"])
    if callable(how):
        return bool(how(right, left))
    if isinstance(how, list):
        return all((key in left) == (key in right) and equal(left.get(key), right.get(key)) for key in how)
    within = all(key in left and equal(left[key], value) for key, value in right.items())
    around = all(key in right and equal(right[key], value) for key, value in left.items())
    return {"ignore": True, "exact": within and around, "subset": within, "superset": around}[how]


def covers(left: Sequence[ToolCall], right: Sequence[ToolCall], agrees: Agrees) -> bool:
    """Whether all of `ours` can be matched to distinct elements of `theirs`."""
    return any(all(map(agrees, left, some)) for some in permutations(right, len(left)))


def by_steps(calls: Calls) -> list[list[int]]:
    """Positions of the calls, those of one step together; a call without a step is alone."""
    keys = [(-1 - place) if call.execution is None else call.execution.step for place, call in enumerate(calls)]
    return [[place for place, _ in group] for _, group in groupby(enumerate(keys), key=lambda entry: entry[1])]


def strictly(expected: Calls, called: Calls, agrees: Agrees) -> bool:
    """Whether the calls are the same, step by step."""
    if len(expected) != len(called):
        return False
    has_steps = all(call.execution is not None for call in (*expected, *called))
    if has_steps and by_steps(expected) != by_steps(called):
        return False
    return all(covers([expected[i] for i in step], [called[i] for i in step], agrees) for step in by_steps(called))


@given(two_lists(), _options)
def test_agentevals_equals_a_search_over_pairings(calls: tuple[Calls, Calls], options: dict[str, Any]) -> None:
    """In each mode the score is 1 if and only if a valid pairing exists."""
    expected, called = calls
    agrees = partial(matches, options)
    superset = covers(expected, called, agrees)
    subset = covers(called, expected, lambda right, left: agrees(left, right))
    expected_values = {
        "superset": superset,
        "subset": subset,
        "unordered": len(expected) == len(called) and superset,
        "strict": strictly(expected, called, agrees),
    }

    actual = {mode: score(agentevals.TrajectoryMatch(mode, **options), *calls) for mode in expected_values}  # type: ignore[arg-type]

    assert actual == expected_values
    assert actual["strict"] <= actual["unordered"]  # type: ignore[operator]
    assert actual["unordered"] == (actual["subset"] and actual["superset"])


@given(two_lists())
def test_looser_arguments_never_lower_the_score(calls: tuple[Calls, Calls]) -> None:
    """Exact arguments are a subset and a superset, and either of them is something to ignore."""
    for mode in ("strict", "unordered", "subset", "superset"):
        exact, subset, superset, ignore = (
            score(agentevals.TrajectoryMatch(mode, args), *calls)  # type: ignore[arg-type]
            for args in ("exact", "subset", "superset", "ignore")
        )
        assert exact <= min(subset, superset) <= max(subset, superset) <= ignore  # type: ignore[operator, type-var]


# ADK


@given(two_lists(), st.booleans())
def test_adk_equals_a_search_over_subsequences(calls: tuple[Calls, Calls], ignore: bool) -> None:
    """EXACT: equal lists; IN_ORDER: a subsequence; ANY_ORDER: a selection."""
    expected, called = calls
    agrees = partial(matches, {"tool_args_match_mode": "ignore" if ignore else "exact"})
    size = len(expected)
    expected_values = {
        "EXACT": size == len(called) and all(map(agrees, expected, called)),
        "IN_ORDER": any(all(map(agrees, expected, some)) for some in combinations(called, size)),
        "ANY_ORDER": covers(expected, called, agrees),
    }

    actual = {mode: score(adk.TrajectoryMatch(mode, ignore), *calls) for mode in expected_values}  # type: ignore[arg-type]

    assert actual == expected_values
    assert [*actual.values()] == sorted(actual.values())  # type: ignore[type-var]


# pydantic-evals


def common(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence, by trying all of the first list."""
    subsequences = {some for size in range(len(right) + 1) for some in combinations(right, size)}
    return max(size for size in range(len(left) + 1) for some in combinations(left, size) if some in subsequences)


@given(two_lists(), st.lists(st.booleans(), min_size=8, max_size=8))
def test_pydantic_evals_equals_counting_names(calls: tuple[Calls, Calls], failed: list[bool]) -> None:
    """F1 of the longest common subsequence and of common names, without failed calls."""
    expected, called = calls
    left, right = [call.name for call in expected], [call.name for call in called]
    overlap = (Counter(left) & Counter(right)).total()
    total = len(left) + len(right)
    expected_values = [
        float(left == right),
        2 * common(left, right) / total if total else 1,
        2 * overlap / total if total else 1,
        float(Counter(left) == Counter(right)),
        float(Counter(left) <= Counter(right)),
    ]
    noisy: Calls = []
    for call, fails in zip([*called, None], failed, strict=False):
        noisy += [ToolCall(name="a", execution=Execution(status="error"))] if fails else []
        noisy += [call] if call is not None else []
    views = VIEWS[7:12]

    assert [score(view, *calls) for view in views] == pytest.approx(expected_values)
    assert [score(view, expected, noisy) for view in views] == pytest.approx(expected_values)


# ragas


def accuracy(expected: ToolCall, called: ToolCall) -> float:
    """The share of expected arguments that were called."""
    if "input_parameters" not in expected.model_fields_set:
        return 1
    left, right = expected.arguments, called.arguments
    if not left:
        return float(not right)
    return sum(key in right and equal(value, right[key]) for key, value in left.items()) / len(left)


@given(two_lists())
def test_ragas_equals_a_search_over_pairings(calls: tuple[Calls, Calls]) -> None:
    """Accuracy is the mean of the pairs one by one or best paired, of equal lengths; F1 counts equal pairs."""
    expected, called = calls
    shorter, longer = sorted((len(expected), len(called)))

    def mean(pairs: Sequence[tuple[ToolCall, ToolCall]]) -> float:
        aligned = all(left.name == right.name for left, right in pairs)
        return sum(accuracy(*pair) for pair in pairs) / len(pairs) if aligned else 0

    pairings = [
        [(expected[i], called[j]) for i, j in zip(some, others, strict=True)]
        for some in combinations(range(len(expected)), shorter)
        for others in permutations(range(len(called)), shorter)
    ]
    agrees = partial(matches, {"tool_args_match_mode": "exact"})
    equal_pairs = max(sum(agrees(*pair) for pair in pairs) for pairs in pairings)
    expected_values = [
        mean([*zip(expected, called, strict=True)]) if shorter == longer > 0 else float(not longer),
        max(map(mean, pairings)) if shorter == longer > 0 else float(not longer),
        2 * equal_pairs / (shorter + longer) if shorter else float(not longer),
    ]

    assert [score(view, *calls) for view in VIEWS[-3:]] == pytest.approx(expected_values)
