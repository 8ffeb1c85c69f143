"""Redacted values in a comparison: they say that something is not known, so they neither cost nor earn.

The rule, once more and slowly: a key is left out of both objects if its value is marked on either side, unless both are
objects, which are gone into; a list with a mark anywhere is marked; a marked output is not compared.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from shorthand import align
from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall, ToolCallParams, ToolCorrectnessMetric
from toolgrade._internal.json import REDACTED
from toolgrade.expect import AnyOf, Contains, Expect, IgnoreCase, Optional, Plan, SameMeaning
from toolgrade.matching.alignment import CallItem
from toolgrade.matching.json_compare import ABSENT

METRICS = [
    ToolCorrectnessMetric(evaluation_params=["input_parameters"]),
    TaskSuccessMetric(effects={"pay": "write"}, calls_only=True, compare="exact"),
]
M = REDACTED
BOTH = [ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT]


def marked(value: Any) -> bool:
    """Whether the mark is anywhere in a value."""
    return value is not ABSENT and REDACTED in json.dumps(value)


def object_similarity(a: dict[str, Any], b: dict[str, Any]) -> Fraction:
    """The mean over the keys that can be compared; 1 if there is none."""
    shares = []
    for key in a.keys() | b.keys():
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            shares.append(object_similarity(x, y))
        elif not any(marked(value) and not isinstance(value, dict) for value in (x, y)):
            shares.append(Fraction(key in a and key in b and oracles.equal(x, y)))
    return sum(shares, Fraction()) / len(shares) if shares else Fraction(1)


def call_similarity(e: CallItem, c: CallItem, *, arguments: bool, output: bool) -> Fraction:
    """As the oracle of unmarked calls, with the two rules of marked ones."""
    outputs = output and not marked(e.output) and not marked(c.output)
    worth = plain_similarity(e, c, arguments=False, output=outputs)
    if arguments and worth and e.arguments is not ABSENT and c.arguments is not ABSENT:
        worth *= object_similarity(e.arguments, c.arguments)  # type: ignore[arg-type]
    return worth


plain_similarity = oracles.call_similarity

_scalars = st.sampled_from((1, 1, 2, M, f"Bearer {M}"))
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("a", "b")), inner, max_size=2),
    max_leaves=4,
)
_arguments = st.dictionaries(st.sampled_from(("a", "b", "c")), _values, max_size=3)
_outputs = st.sampled_from((1, "1", M, [1], [M], {"a": M}, f'{{"a": "{M}"}}'))


def items(called: bool) -> st.SearchStrategy[CallItem]:
    """Calls of two tools, some with redacted arguments and outputs."""
    return st.builds(
        CallItem,
        st.sampled_from(("look_up", "look_up", "book")),
        st.sampled_from((None, ABSENT, "mcp") if called else (None, None, "mcp")),
        _arguments | st.just(ABSENT),
        _outputs | st.just(ABSENT),
        st.none(),
    )


_sides = st.tuples(st.lists(items(called=False), max_size=4), st.lists(items(called=True), max_size=4))
_setting = st.fixed_dictionaries({"ordered": st.booleans(), "arguments": st.booleans(), "output": st.booleans()})


@given(_sides, _setting)
def test_the_alignment_is_the_best_one_under_the_rule(
    sides: tuple[list[CallItem], list[CallItem]], setting: Any
) -> None:
    """Shortcuts and prepared arguments give what listing all alignments gives."""
    expected, called = sides
    positions = range(len(expected)), range(len(called))
    with mock.patch.object(oracles, "call_similarity", call_similarity):
        ordered, *compared = setting["ordered"], setting["arguments"], setting["output"]
        best = oracles.ranks(
            expected, called, *positions, crossing=not ordered, arguments=compared[0], output=compared[1]
        )

    alignment = align(*sides, **setting)

    assert best[tuple((pair.expected, pair.called) for pair in alignment.pairs)] == max(best.values())
    assert alignment.matched == max(best.values())[0]


@given(_arguments, _arguments)
def test_pair_is_scored_on_its_visible_values(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Differences are listed exactly if the similarity is not 1."""
    (pair,) = align([CallItem("t", None, a, ABSENT)], [CallItem("t", None, b, ABSENT)], arguments=True).pairs

    assert pair.similarity == float(object_similarity(a, b))
    assert bool(pair.differences) == (pair.similarity < 1)


@given(_arguments, _arguments)
def test_every_value_left_out_is_named(a: dict[str, Any], b: dict[str, Any]) -> None:
    """A pair lists a value as not compared if and only if a redaction mark is at a comparable place."""
    (pair,) = align([CallItem("t", None, a, ABSENT)], [CallItem("t", None, b, ABSENT)], arguments=True).pairs

    def places(x: dict[str, Any], y: dict[str, Any], path: str) -> set[str]:
        paths: set[str] = set()
        for key in x.keys() | y.keys():
            v, w = x.get(key), y.get(key)
            if isinstance(v, dict) and isinstance(w, dict):
                paths |= places(v, w, f"{path}.{key}")
            elif any(marked(value) and not isinstance(value, dict) for value in (v, w)):
                paths.add(f"{path}.{key}")
        return paths

    assert set(pair.not_compared) == set(pair.redacted) == places(a, b, "input_parameters")


@pytest.mark.parametrize(
    ("expected", "called", "similarity", "left_out"),
    [
        ({"key": "real", "q": 1}, {"key": M, "q": 1}, 1, ["key"]),
        ({"key": M, "q": 1}, {"key": "real", "q": 2}, 0, ["key"]),
        ({"q": 1}, {"key": M, "q": 1}, 1, ["key"]),
        ({"key": M, "q": 1, "n": 2}, {"q": 1, "n": 3}, 0.5, ["key"]),
        ({"key": "real"}, {"key": M}, 1, ["key"]),
        ({"a": {"key": "x", "q": 1}}, {"a": {"key": M, "q": 2}}, 0, ["a.key"]),
        ({"a": {"key": M}, "q": 1}, {"a": 5, "q": 1}, 0.5, []),
        ({"a": [1, {"key": M}], "q": 1}, {"a": [1, {"key": "x"}], "q": 2}, 0, ["a"]),
        ({"url": "https://u:p@h"}, {"url": f"https://u:{M}@h"}, 1, ["url"]),
    ],
)
def test_a_redacted_argument_neither_costs_nor_earns(
    expected: dict[str, Any], called: dict[str, Any], similarity: float, left_out: list[str]
) -> None:
    """It is removed from the union of keys, on either side and at every level."""
    alignment = align([CallItem("t", None, expected, ABSENT)], [CallItem("t", None, called, ABSENT)], arguments=True)
    (pair,) = alignment.pairs

    assert pair.similarity == similarity
    assert list(pair.redacted) == [f"input_parameters.{name}" for name in left_out]
    assert alignment.to_dict()["pairs"][0].get("redacted", []) == list(pair.redacted)


@pytest.mark.parametrize("output", [M, f"Bearer {M}", {"token": M}, [[M]], f'{{"token": "{M}"}}'])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_redacted_output_is_not_compared(output: Any, swapped: bool) -> None:
    """A mark anywhere in it, on either side, leaves the output out as a whole."""
    sides = [CallItem("t", None, {}, "real")], [CallItem("t", None, {}, output)]

    (pair,) = align(*(reversed(sides) if swapped else sides), output=True).pairs

    assert (pair.similarity, pair.not_compared, pair.differences) == (1, ("output",), ())


def test_marks_in_unused_fields_are_ignored() -> None:
    """Marks in fields that the metric does not compare are not listed."""
    call = CallItem("t", None, {"key": M}, M)

    (pair,) = align([call], [call]).pairs

    assert pair.not_compared == ()


def test_result_lists_redacted_values() -> None:
    """A finding for each value, and one warning for the case; unsafe names are escaped."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name="t", input_parameters={"api_key": "k", "odd\x1b key": 1, "q": 1}, output="o")],
        tools_called=[ToolCall(name="t", input_parameters={"api_key": M, "odd\x1b key": M, "q": 1}, output=M)],
    )

    result = ToolCorrectnessMetric(evaluation_params=BOTH).measure(case)

    assert result.score == 1
    assert [finding.path for finding in result.findings] == [
        "$.input_parameters.api_key",
        '$.input_parameters["odd\\u001b key"]',
        "$.output",
    ]
    assert {finding.kind for finding in result.findings} == {"not_compared"}
    assert "$.input_parameters.api_key is redacted, so it was left out of the comparison." in str(result.reason)
    places = ("$.input_parameters.api_key", '$.input_parameters["odd\\u001b key"]', "$.output")
    listed = ", ".join(f"{path} of called #1 't'" for path in places)
    assert result.warnings == (f"left out of the comparison, since it is redacted: {listed}",)


def test_uncaptured_and_redacted_values_are_distinguished() -> None:
    """A missing output and a hidden argument give separate notes."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name="t", input_parameters={"api_key": "k"}, output="o")],
        tools_called=[ToolCall(name="t", input_parameters={"api_key": M}, execution={"not_captured": ["output"]})],
    )

    result = ToolCorrectnessMetric(evaluation_params=BOTH).measure(case)

    assert [finding.path for finding in result.findings] == ["$.output", "$.input_parameters.api_key"]
    assert result.warnings == (
        "some calls were compared without fields that were not recorded",
        "left out of the comparison, since it is redacted: $.input_parameters.api_key of called #1 't'",
    )


def test_an_exact_match_may_hold_redacted_values() -> None:
    """What is left out cannot break an exact match, and the equal beginning and end of a sequence stay equal."""
    expected = [ToolCall(name="t", input_parameters={"token": f"real{n}", "n": n}) for n in range(4)]
    called = [ToolCall(name="t", input_parameters={"token": M, "n": n}) for n in range(4)]
    metric = ToolCorrectnessMetric(evaluation_params=BOTH, should_exact_match=True)

    assert metric.measure(LLMTestCase(expected_tools=expected, tools_called=called)).score == 1
    assert metric.measure(LLMTestCase(expected_tools=expected, tools_called=called[::-1])).score == 0


HIDDEN = [
    M,
    f"Bearer {M}",
    IgnoreCase(M),
    SameMeaning({"t": M}),
    Contains(M),
    AnyOf(M, "q"),
    Optional(M),
    [IgnoreCase(M)],
]


@pytest.mark.parametrize("hidden", HIDDEN, ids=repr)
@pytest.mark.parametrize("metric", [*METRICS, *(replace(metric, compare="meaning") for metric in METRICS)], ids=repr)
def test_a_mark_counts_on_neither_side_whatever_compares(hidden: Any, metric: Any) -> None:
    """In expected values, also inside of matchers and by meaning; the warning names the call and the place."""
    called = ToolCall(name="pay", input_parameters={"to": "Ann", "key": ["x"] if isinstance(hidden, list) else "x"})
    scores: list[float | None] = []
    for to in ("Ann", "Bob"):
        expected = Plan([Expect("pay", {"key": hidden, "to": to})])
        result = metric.measure(LLMTestCase(expected_tools=expected, tools_called=[called]))
        scores.append(result.score)
        assert any("redacted: $.input_parameters.key" in text and "called #1 'pay'" in text for text in result.warnings)
    assert scores == [1, 0]
