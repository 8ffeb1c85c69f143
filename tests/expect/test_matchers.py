"""What each matcher accepts, alone and inside of arguments; that its JSON form is it; and what it refuses to be."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Callable
from dataclasses import fields
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import equal, object_similarity
from strategies import AWKWARD, nested_objects, twins
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
from toolgrade.errors import ConfigurationError, InvalidDataError, ToolgradeError
from toolgrade.expect import (
    Absent,
    AllOf,
    AnyOf,
    Approx,
    Contains,
    ContainsAll,
    DateEqual,
    Exact,
    Expect,
    Forbid,
    From,
    Glob,
    Ignore,
    IgnoreCase,
    Matcher,
    Normalized,
    Not,
    Optional,
    Plan,
    Predicate,
    Present,
    Regex,
    SameMeaning,
    Schema,
    Similar,
    Subset,
    Superset,
    Unordered,
    expectation_json,
    read_expectation,
)
from toolgrade.expect.matcher import MATCHERS

Date = DateEqual
TEN = datetime.datetime(2026, 5, 20, 10)  # noqa: DTZ001 - a time without an offset

#: A matcher, values that it accepts, and values that it does not.
TABLE: list[tuple[Matcher, list[Any], list[Any]]] = [
    (Exact(1), [1, 1.0], [True, "1", None, 2]),
    (Exact({"$is": "ignore"}), [{"$is": "ignore"}], [{}, 1]),
    (Approx(100, rel=0.01), [100, 99, 101.0], [98.9, 101.1, "100", None, True, [100], 10**400, -(10**400)]),
    (Approx(10**400), [10**400, 10**400 + 1], [100, 10**401, 1e308]),
    (Approx(0, abs=0.5), [0.5, -0.5, 0], [0.51, False]),
    (Approx(-200, rel=0.01, abs=1), [-198, -202], [-197.9, 200]),
    (Approx(1), [1, 1 + 1e-7], [1 + 1e-5]),
    (Approx(5, abs=0), [5, 5.0], [5.000001]),
    (Approx(nan), [nan], [0, inf]),
    (Approx(inf), [inf], [-inf, 1e308]),
    (Approx([1, {"a": 2.5}, "x"], abs=0.1), [[1.05, {"a": 2.45}, "x"]], [[1, {"a": 2.7}, "x"], [1], [1, 2, "y"]]),
    (Approx({"lat": 1.0}, abs=0.1), [{"lat": 1.1}], [{"lat": 1.1, "x": 1}, {}, 1.0]),
    (Regex(r"\d+"), ["12"], ["12a", "", 12, None]),
    (Regex(r"\d+", search=True), ["a12b"], ["ab"]),
    (Regex("ab", ignore_case=True), ["AB"], ["ABC"]),
    (Contains("par"), ["paris", "par"], ["Paris", 3, {"par": 1}, ["paris"]]),
    (Contains("PAR", ignore_case=True), ["paris", ["Par", "x"]], ["pais", ["paris"]]),
    (Contains(IgnoreCase("refund")), ["Refund policy", ["REFUND"]], ["funds", ["Refund policy"], 1]),
    (Contains(AllOf(Regex("a+"), Not("b"))), ["xa", ["aa"]], ["ab", ["b"], "x"]),
    (Contains(1), [[1], [2, 1.0]], [[True], "1", []]),
    (Contains(Approx(1, abs=0.5)), [[5, 1.2]], [[2], []]),
    (ContainsAll("par", "is"), ["paris", "is par"], ["par", "Paris", 3, ["par", "paris"]]),
    (ContainsAll(1, Approx(5, abs=1)), [[4, 1], [1, 5, 9]], [[1], [5], "1 5"]),
    (AnyOf(1, "x", None), [1, "x", None], ["y", False]),
    (AnyOf(Regex("a+"), Approx(5, abs=1)), ["aaa", 4], ["b", 7]),
    (AnyOf([1, Ignore()]), [[1, 2]], [[2, 1], [1]]),
    (AllOf(Contains("a"), Not("ab")), ["a", "abc"], ["ab", "b", 1]),
    (Not("x"), ["y", None, 1], ["x"]),
    (Not(AnyOf(1, Regex("a+"))), [2, "b"], [1, "aa"]),
    (Similar("kitten sat", at_least=0.9), ["kitten sat", "sitten sat", "kitten satt"], ["sitting sat", "kitten", None]),
    (Similar("", at_least=1), [""], ["a"]),
    (IgnoreCase("Paris"), ["paris", "PARIS"], ["pari", None]),
    (IgnoreCase("straße"), ["STRASSE"], []),
    (IgnoreCase(["A", {"k": "B"}, 1]), [["a", {"k": "b"}, 1.0]], [["a", {"K": "b"}, 1]]),
    (Normalized(" New  York "), ["new york", "NEW\tYORK"], ["newyork"]),
    (Normalized("ﬁve"), ["FIVE"], []),
    (Normalized("São Paulo"), ["Sa\u0303o paulo"], ["Sao Paulo"]),
    (Normalized("New-York, NY", drop=" ,-"), ["newyorkny", "New\nYork\u00a0NY"], ["newyork"]),
    (Normalized("A.B", drop="B "), ["a .\t"], ["ab"]),
    (Normalized(5), [5], ["5"]),
    (Date("2026-05-20"), ["2026-05-20", "20260520", "2026-05-20T10:00:00Z", " 2026-05-20 "], ["2026-05-21", 20260520]),
    (Date("2026-05-20"), [], ["20.5.2026", "2026-05", "2026-05-20T25:00"]),
    (Date("20.05.2026", formats=["%d.%m.%Y"]), ["2026-05-20", "20.05.2026"], ["05/20/2026"]),
    (Date("2026-05-20T10:00:00+02:00"), ["2026-05-20T08:00Z", "2026-05-20 10:00+0200", "2026-05-20T08:00:00.0+00"], []),
    (Date("2026-05-20T10:00:00+02:00"), [], ["2026-05-20T10:00:00", "2026-05-20", "2026-05-20T10:00:00Z"]),
    (Date(TEN), ["2026-05-20T10:00", "2026-05-20 10:00:00"], ["2026-05-20T10:00Z", "2026-05-20T10:01"]),
    (Date(datetime.date(2026, 5, 20)), ["2026-05-20"], ["2026-02-30", ""]),
    (SameMeaning(" New  York "), ["new york", "NEW\tYORK"], ["newyork", None]),
    (SameMeaning("12.50"), [12.5, "12.5", " 12.50 ", "+12.5"], ["12,5", 12, "12.5 USD", True]),
    (SameMeaning(7), [7, 7.0, "7", "7.0", " 7"], ["07", True, [7], "seven"]),
    (SameMeaning("007"), ["007"], [7, "7", "07"]),
    (SameMeaning(1), [1, "1"], [True, "true"]),
    (SameMeaning(None), [None], ["null", "", 0, {}]),
    (SameMeaning({"a": ["X", 1]}), [{"a": ["1", "x"]}], [{"A": ["X", 1]}, {"a": ["X"]}, {"a": ["X", 1], "b": 1}]),
    (SameMeaning([{"a": "X"}, "b"]), [[{"a": "x"}, "B"]], [["b", {"a": "X"}], [{"a": "X"}]]),
    (SameMeaning("9" * 301), ["9" * 301], ["9" * 300]),
    (Unordered([1, 2, 2]), [[2, 1, 2], [2, 2.0, 1]], [[1, 2], [1, 1, 2], [1, 2, 2, 2], "122"]),
    (Unordered([Approx(1, abs=1), 1]), [[1, 2], [2, 1]], [[3, 1], [2, 2]]),
    (Subset([1, 2, 2]), [[], [2], [2, 2, 1]], [[3], [1, 1], {}]),
    (Subset({"a": 1, "b": Ignore()}), [{}, {"a": 1}, {"b": 9}], [{"a": 2}, {"c": 1}, []]),
    (Superset([1, 2]), [[2, 1], [1, 2, 3]], [[1], [1, 1], {}]),
    (Superset({"a": 1, "b": Optional(2)}), [{"a": 1}, {"a": 1, "b": 2, "c": 3}], [{"b": 2}, {"a": 1, "b": 3}]),
    (Ignore(), [1, None, {}], []),
    (Present(), [1, None, {}], []),
    (Absent(), [], [1, None]),
    (Optional(1), [1], [2, None]),
    (Optional(Regex("a")), ["a"], ["b"]),
    (Schema({"type": "integer", "minimum": 3}), [3, 4.0], [2, "3"]),
    (Schema({"format": "date"}), ["2026-05-20"], ["x"]),
    (Schema({"format": "date"}, formats=False), ["x"], []),
    (Predicate(str.isupper), ["A"], ["a"]),
    (Glob("s?arch_*"), ["search_", "s-arch_x"], ["Search_x", "search", 1]),
]  # fmt: skip
every_row = pytest.mark.parametrize(
    ("matcher", "good", "bad"), TABLE, ids=[f"{m.kind}-{i}" for i, (m, _, _) in enumerate(TABLE)]
)

#: Matchers that do without a value, and what one counts if there is one: all of a key, or the key is left out.
NEEDS_NONE = (Ignore, Absent, Optional)


def scored(expected: Any, called: dict[str, Any], **options: Any) -> float:
    """The similarity of arguments."""
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
    plan = Plan([Expect("t", expected, **options)])
    return float(
        metric.measure(LLMTestCase(tools_called=[ToolCall(name="t", input_parameters=called)], expected_tools=plan))
    )


@every_row
def test_the_table(matcher: Matcher, good: list[Any], bad: list[Any]) -> None:
    """An argument is worth all or nothing of its key, half next to another one, everything in a list."""
    for value in good:
        assert scored({"x": matcher}, {"x": value}) == 1
        assert scored({"x": [matcher, 1]}, {"x": [value, 1]}) == 1
        assert scored({"x": {"y": matcher}, "z": 1}, {"x": {"y": value}, "z": 1}) == 1
    for value in bad:
        assert scored({"x": matcher}, {"x": value}) == 0
        assert scored({"x": matcher, "y": 1}, {"x": value, "y": 1}) == 0.5
        assert scored({"x": [matcher]}, {"x": [value]}) == 0


def test_every_matcher_is_in_the_table() -> None:
    """So that one that is added is tested; `From` needs a run."""
    assert {type(matcher) for matcher, _, _ in TABLE} == set(MATCHERS.values()) - {From}
    assert {kind.kind for kind in MATCHERS.values()} == set(MATCHERS)


@every_row
def test_missing_arguments(matcher: Matcher, good: list[Any], bad: list[Any]) -> None:
    """Only an optional matcher is satisfied; its key then neither adds nor costs."""
    del good, bad
    satisfied = isinstance(matcher, NEEDS_NONE)
    assert scored({"x": matcher}, {}) == (1 if satisfied else 0)
    assert scored({"x": matcher, "y": 1}, {"y": 2}) == 0
    assert scored({"x": matcher, "y": 1, "z": 1}, {"y": 1, "z": 2}) == pytest.approx(1 / 2 if satisfied else 1 / 3)


@every_row
def test_its_json_form_is_it(matcher: Matcher, good: list[Any], bad: list[Any]) -> None:
    """It is read back equal, also from text, and accepts the same; it has a repr and can be pickled."""
    if isinstance(matcher, Predicate):
        return
    plan = Plan([Expect("t", {"x": matcher, "deep": [{"y": matcher}]}, at={"z": matcher})])
    again = read_expectation(expectation_json(plan))
    case = LLMTestCase(expected_tools=plan)
    if getattr(matcher, "value", None) not in (nan, inf):  # which are texts in JSON
        assert again == plan
        assert LLMTestCase.from_json(case.to_json()) == case
    copy = pickle.loads(pickle.dumps(matcher))  # noqa: S301 - made here
    for value in (*good, *bad):
        assert copy.credit(value) == matcher.credit(value)
    assert matcher.describe().isprintable() or "ﬁ" in matcher.describe()


@given(nested_objects, nested_objects)
def test_without_matchers_a_template_is_an_object(expected: dict[str, Any], called: dict[str, Any]) -> None:
    """Arguments of an `Expect` count like those of a `ToolCall`, also with `Exact` around values."""
    worth = object_similarity(expected, called)
    assert scored(expected, called) == pytest.approx(float(worth))
    assert scored({key: Exact(value) for key, value in expected.items()}, called) == pytest.approx(float(worth))
    assert scored({key: AnyOf(value) for key, value in expected.items()}, called) == pytest.approx(float(worth))


@given(twins, twins)
def test_laws_of_single_values(expected: Any, value: Any) -> None:
    """What equals is accepted by every matcher that is looser than equality, and `AnyOf` of one value is that value."""
    same = equal(expected, value)
    accepts = {
        kind: scored({"x": kind(expected)}, {"x": value}) == 1 for kind in (Exact, IgnoreCase, Normalized, Approx)
    }
    assert accepts[Exact] == same
    assert all(accepts.values()) or not same
    assert (scored({"x": AnyOf(expected, 9)}, {"x": value}) == 1) == (same or equal(value, 9))
    assert (scored({"x": Optional(expected)}, {"x": value}) == 1) == same


@given(st.lists(st.sampled_from([0, 1, 2]), max_size=4), st.lists(st.sampled_from([0, 1, 2]), max_size=4))
def test_lists_as_multisets(expected: list[int], values: list[int]) -> None:
    """`Unordered` is equality of sorted lists; `Subset` and `Superset` count, and both together are `Unordered`."""

    def accepts(kind: type[Matcher]) -> bool:
        return scored({"x": kind(expected)}, {"x": values}) == 1  # type: ignore[call-arg]

    assert accepts(Unordered) == (sorted(expected) == sorted(values))
    assert accepts(Subset) == all(values.count(item) <= expected.count(item) for item in values)
    assert accepts(Superset) == all(expected.count(item) <= values.count(item) for item in expected)
    assert accepts(Unordered) == (accepts(Subset) and accepts(Superset))


def test_any_of_gives_the_credit_of_the_best() -> None:
    """An object that partly equals one of several values gets partial credit."""
    assert scored({"x": AnyOf({"a": 1, "b": 2}, {"a": 2})}, {"x": {"a": 1, "b": 3}}) == 0.5
    assert scored({"x": Optional({"a": 1, "b": 2})}, {"x": {"a": 1, "b": 3}}) == 0.5
    assert scored({"x": AnyOf("c", Absent())}, {}) == 1
    assert scored({"x": AnyOf("c", Absent())}, {"x": "d"}) == 0


def test_credits_of_combinations() -> None:
    """`AllOf` gives the worst credit, `Similar` its ratio on demand, and `Not` all or nothing."""
    half = {"a": 1, "b": 2}
    assert scored({"x": AllOf(half, Not({"c": 1}))}, {"x": {"a": 1, "b": 3}}) == 0.5
    assert scored({"x": AllOf(Ignore(), Optional(1))}, {}) == 1
    assert scored({"x": AllOf(Optional("a"), Present())}, {}) == 0
    assert scored({"x": Not(half)}, {"x": {"a": 1, "b": 3}}) == 1
    assert scored({"x": Similar("abcd", partial=True)}, {"x": "abcx"}) == 0.75
    assert scored({"x": Similar("abcd", partial=True)}, {"x": 1}) == 0


#: Something that each kind of matcher can hold: a text, or the only value that makes sense.
ALONE: list[Any] = [
    *(kind("ab") for kind in (Exact, IgnoreCase, Normalized, SameMeaning, Contains, Not, Optional, Similar)),
    *(
        ContainsAll("a", "b"),
        AnyOf("ab", "c"),
        AllOf("ab"),
        Approx(1),
        Regex("ab"),
        Glob("a*"),
        DateEqual("2026-05-20"),
    ),
    *(Ignore(), Present(), Absent(), Schema({"type": "string"}), Predicate(lambda value: value == "ab")),
    *(Unordered(["ab"]), Subset(["ab"]), Superset(["ab"])),
]
VALUES: list[Any] = ["ab", "AB", "xaby", "c", "", 1, None, "2026-05-20", ["ab"], ["x", "ab"], ["AB"], [], [["ab"]], [1]]

#: How each matcher is made of another one, and when it then accepts a value, by what the other one accepts.
PARTS: dict[type[Matcher], Callable[[Callable[[Any], bool], Any], bool]] = {
    Contains: lambda fits, value: type(value) is list and any(map(fits, value)),
    AnyOf: lambda fits, value: fits(value),
    Optional: lambda fits, value: fits(value),
    Not: lambda fits, value: not fits(value),
    Unordered: lambda fits, value: type(value) is list and len(value) == 1 and fits(value[0]),
    Subset: lambda fits, value: type(value) is list and len(value) <= 1 and all(map(fits, value)),
    Superset: lambda fits, value: type(value) is list and any(map(fits, value)),
}
PARTS |= {ContainsAll: PARTS[Contains], AllOf: PARTS[AnyOf]}
SEARCHED = (
    Exact,
    IgnoreCase,
    Normalized,
    SameMeaning,
    Regex,
    Glob,
    Contains,
    ContainsAll,
    AnyOf,
    AllOf,
    Optional,
    Ignore,
    Present,
)


@pytest.mark.parametrize("inner", ALONE, ids=lambda inner: inner.kind)
@pytest.mark.parametrize("outer", MATCHERS.values(), ids=lambda outer: outer.kind)
def test_every_pair_of_matchers_composes_or_is_refused(outer: Any, inner: Matcher) -> None:
    """A matcher in another one is looked at as documented, also from JSON; or it is an error when it is built."""
    try:
        matcher = outer([inner] if outer in (Unordered, Subset, Superset) else inner)
    except (ConfigurationError, TypeError):  # those without a value take none
        assert outer not in (AnyOf, AllOf, Optional)
        assert outer not in PARTS or isinstance(inner, (Ignore, Present, Absent, Optional, Not))
        return
    assert outer in PARTS
    if not isinstance(inner, Predicate):
        assert read_expectation(expectation_json(Plan([Expect("t", {"x": matcher})]))) == Plan(
            [Expect("t", {"x": matcher})]
        )

    def fits(value: Any) -> bool:
        return scored({"x": inner}, {"x": value}) == 1

    for value in VALUES:
        accepted = PARTS[outer](fits, value)
        if outer in (Contains, ContainsAll) and isinstance(value, str):
            ends = [(start, end) for end in range(len(value) + 1) for start in range(end + 1)]
            accepted = isinstance(inner, SEARCHED) and any(fits(value[start:end]) for start, end in ends)
        assert (scored({"x": matcher}, {"x": value}) == 1) == accepted, value


@pytest.mark.parametrize(
    ("at", "expected", "called", "worth"),
    [
        ({"x": Approx(abs=1)}, {"x": 5}, {"x": 6}, 1),
        ({"x": Approx(abs=1)}, {"x": 5}, {"x": 7}, 0),
        ({"to.city": IgnoreCase()}, {"to": {"city": "Paris", "zip": 1}}, {"to": {"city": "paris", "zip": 2}}, 0.5),
        ({"flights[0].day": Ignore()}, {"flights": [{"day": 1}]}, {"flights": [{"day": 2}]}, 1),
        ({"flights[*].day": Ignore()}, {"flights": [{"day": 1}, {"day": 2}]}, {"flights": [{"day": 3}, {}]}, 1),
        ({"flights[1].day": Ignore()}, {"flights": [{"day": 1}, {"day": 2}]}, {"flights": [{"day": 3}, {}]}, 0),
        ({"*": IgnoreCase()}, {"x": "A", "y": "B"}, {"x": "a", "y": "b"}, 1),
        ({"*": IgnoreCase(), "y": Exact()}, {"x": "A", "y": "B"}, {"x": "a", "y": "b"}, 0.5),
        ({"y": Exact(), "*": IgnoreCase()}, {"x": "A", "y": "B"}, {"x": "a", "y": "b"}, 0.5),
        ({'["a.b"].c': Ignore()}, {"a.b": {"c": 1}}, {"a.b": {"c": 2}}, 1),
        ({"note": Ignore()}, {"x": 1}, {"x": 1, "note": "n"}, 1),
        ({"deep.note": Ignore()}, {"x": 1}, {"x": 1, "deep": {"note": "n"}}, 1),
        ({"deep.note": Ignore()}, {"x": 1}, {"x": 1}, 1),
        ({"deep.note": Present()}, {"x": 1}, {"x": 1}, 0.5),
        ({"x": Approx(rel=1)}, {}, {"x": 1}, 0),
        ({"x": Ignore()}, {"x": Exact(1)}, {"x": 2}, 0),
        ({"tags": Unordered()}, {"tags": [1, 2]}, {"tags": [2, 1]}, 1),
        ({"x": Optional()}, {"x": 1, "y": 1}, {"y": 1}, 1),
        ({"x": Optional(Approx(abs=1))}, {"x": 1, "y": 1}, {"x": 1.5, "y": 1}, 1),
        ({"x": AnyOf(Approx(abs=1), None)}, {"x": 1}, {"x": None}, 1),
        ({"x": Contains(IgnoreCase())}, {"x": "a"}, {"x": "bAb"}, 1),
        ({"x": AllOf(IgnoreCase(), Not("a"))}, {"x": "a"}, {"x": "A"}, 1),
    ],
)  # fmt: skip
def test_matchers_by_place(at: dict[str, Matcher], expected: Any, called: Any, worth: float) -> None:
    """A matcher without a value takes that of its place; inline matchers stay."""
    assert scored(expected, called, at=at) == worth


def test_unspecified_arguments_are_not_compared() -> None:
    """Without arguments any match, with `at` only these places count, and extras can be allowed."""
    plan = [Expect("t", at={"x": Regex("a+")})]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])

    def score(arguments: dict[str, Any], expected: Any) -> Any:
        case = LLMTestCase(tools_called=[ToolCall(name="t", input_parameters=arguments)], expected_tools=Plan(expected))
        return metric.measure(case).score

    assert score({"x": "a", "y": 2}, plan) == 1
    assert score({"y": 2}, plan) == 0
    assert score({"y": 2}, [Expect("t")]) == 1
    assert score({"y": 2}, [Expect("t", None)]) == 0
    assert score({"x": 1, "y": 2}, [Expect("t", {"x": 1}, extra_arguments=True)]) == 1
    assert score({"x": 1, "y": 2}, [Expect("t", {"x": 1})]) == 0.5


def test_defaults_of_a_tool() -> None:
    """They apply to every call of the tool, plain ones too; exact names precede patterns, calls precede both."""
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
    tools = {"pay": {"amount": Approx(abs=1)}, "p*": {"amount": Exact(), "note": Ignore()}}
    called = [ToolCall(name="pay", input_parameters={"amount": 5.5, "note": "n"})]

    def score(expected: Any) -> Any:
        return metric.measure(LLMTestCase(tools_called=called, expected_tools=Plan(expected, tools=tools))).score

    assert score([ToolCall(name="pay", input_parameters={"amount": 5})]) == 1
    assert score([Expect("pay", {"amount": 5})]) == 1
    assert score([Expect("pay", {"amount": 5}, at={"amount": Exact()})]) == 0
    assert score([Expect("pay", {"amount": Exact(5)})]) == 0
    assert score([Expect("pay")]) == 1


@pytest.mark.parametrize(
    ("expected", "fitting", "other"),
    [
        (Superset({"ok": True}), {"ok": True, "n": 1}, {"ok": False}),
        ({"k": AnyOf(Unordered([1, 2]))}, {"k": [2, 1]}, {"k": [2, 3]}),
        ([AnyOf(1, 2), {"x": [Approx(0.5)]}], [2, {"x": [0.5]}], [3, {"x": [0.5]}]),
        (AnyOf({"k": Unordered([1, 2])}), {"k": [2, 1]}, {"k": [1, 2], "x": 1}),
    ],
    ids=["matcher", "in an object", "in a list", "in a matcher"],
)
def test_outputs_may_be_matched(expected: Any, fitting: Any, other: Any) -> None:
    """An output matcher, also inside a container, sees the value, and the value that a text is the JSON form of."""
    metric = ToolCorrectnessMetric(evaluation_params=["output"])
    for output, worth in ((fitting, 1), (json.dumps(fitting), 1), (other, 0), ("no", 0)):
        called = [ToolCall(name="t", output=other), ToolCall(name="t", output=output)]
        case = LLMTestCase(tools_called=called, expected_tools=Plan([Expect("t", output=expected)]))
        result = metric.measure(case)
        assert result.score == worth
        assert [finding.kind for finding in result.findings] == ["unexpected", *["wrong_output"] * (1 - worth)][::-1]


def test_redacted_values_are_left_out() -> None:
    """A matcher that must look at a value cannot; one that asks only whether there is one can."""
    hidden = "[redacted by toolgrade]"
    assert scored({"key": Regex("a"), "x": 1}, {"key": hidden, "x": 1}) == 1
    assert scored({"key": Regex("a"), "x": 1}, {"key": hidden, "x": 2}) == 0
    assert scored({"key": Present(), "x": 1}, {"key": hidden, "x": 2}) == 0.5
    assert scored({"key": Absent(), "x": 1}, {"key": hidden, "x": 1}) == 0.5
    assert scored({"x": Exact(1)}, {"x": 1, "key": hidden}) == 1
    assert scored({"x": Exact(1), "y": 1}, {"x": 2, "y": 1, "key": hidden}) == 0.5


def test_call_is_forbidden_only_if_its_arguments_are_visible() -> None:
    """They are checked for every score; hidden or uncaptured ones forbid nothing."""
    plan = Plan([ToolCall(name="pay"), Forbid("pay", {"to": Regex("evil.*")})])

    def score(**more: Any) -> Any:
        return (
            ToolCorrectnessMetric()
            .measure(LLMTestCase(tools_called=[ToolCall(name="pay", **more)], expected_tools=plan))
            .score
        )

    assert score(input_parameters={"to": "evil inc", "amount": 5}) == 0
    assert score(input_parameters={"to": "good inc"}) == 1
    assert score(input_parameters={"to": "[redacted by toolgrade]"}) == 1
    assert score(input_parameters={}) == 1
    assert score(execution={"not_captured": ["input_parameters"]}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Approx(1, rel=-1), "rel of Approx must be a finite number from 0"),
        (lambda: Approx(1, abs="x"), "abs of Approx must be a finite number from 0"),  # type: ignore[arg-type]
        (AnyOf, "AnyOf needs at least one value"),
        (lambda: Regex("("), "is not a regular expression"),
        (lambda: IgnoreCase(Regex("a")), "IgnoreCase must not contain matchers; combine matchers by AllOf or AnyOf"),
        (lambda: Contains(Not("a")), "Contains must not contain Not; use Contains inside of it"),
        (lambda: Contains(Regex("a"), ignore_case=True), "IgnoreCase must not contain matchers"),
        (lambda: ContainsAll("a", Absent()), "ContainsAll must not contain Absent"),
        (lambda: Unordered([Approx()]), "each matcher in a list or an object of Unordered must have a value"),
        (lambda: Not(Absent()), "Not needs a value or a matcher of values"),
        (lambda: Similar(3), "Similar needs a text, got 3"),
        (lambda: Similar("a", at_least=0), "at_least of Similar must be a number above 0 and up to 1"),
        (lambda: Unordered({"a": 1}), "Unordered needs a list, got"),
        (lambda: Subset(3), "Subset needs a list or an object, got 3"),
        (lambda: DateEqual("tomorrow"), "DateEqual needs a date or a time"),
        (lambda: Predicate("x"), "Predicate needs a function"),  # type: ignore[arg-type]
        (lambda: Schema({"type": "nonsense"}), "Schema needs a valid JSON Schema"),
        (lambda: Schema(json.loads('{"not":' * 300 + "{}" + "}" * 300)), "Schema must have at most 200 levels"),
        (lambda: Schema(3), "Schema needs a valid JSON Schema"),  # type: ignore[arg-type]
        (lambda: Expect("t", optional="no"), "optional must be True or False, got 'no'"),  # type: ignore[arg-type]
        (lambda: Plan([], allow_extra="no"), "allow_extra must be True, False or None"),  # type: ignore[arg-type]
        (lambda: Plan([], name=5), "the name of a Plan must be text, got 5"),  # type: ignore[arg-type]
        (lambda: Plan([], tools={5: {}}), "the tools in tools must be names, got 5"),  # type: ignore[dict-item]
        (lambda: Expect("t", {"x": Approx(rel=0.1)}), "Approx at $.x has no value"),
        (lambda: Expect("t", at={"": Ignore()}), "an argument path must be"),
        (lambda: Expect("t", at={"a..b": Ignore()}), "an argument path must be"),
        (lambda: Expect("t", at={".a": Ignore()}), "an argument path must be"),
        (lambda: Expect("t", at={"a": 1}), "must be a matcher"),  # type: ignore[dict-item]
    ],
)
def test_invalid_matchers_are_refused(make: Any, message: str) -> None:
    """The error names the problem and a remedy."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert message in str(caught.value)


def test_predicate_that_raises_fails_the_result() -> None:
    """The error names it, as for a schema with an external reference."""
    with pytest.raises(ToolgradeError, match="the predicate 'bad' raised ZeroDivisionError on 1"):
        scored({"x": Predicate(lambda value: value / 0, name="bad")}, {"x": 1})
    with pytest.raises(ToolgradeError, match="cannot be used"):
        scored({"x": Schema({"$ref": "http://example.com/schema"})}, {"x": 1})


def test_values_too_deep_are_refused() -> None:
    """As everywhere: two hundred levels work, and more is an error."""
    deep: Any = 1
    for _ in range(190):
        deep = [deep]
    assert scored({"x": deep}, {"x": deep}) == 1
    for _ in range(20):
        deep = [deep]
    with pytest.raises(InvalidDataError, match="deeper than 200 levels"):
        Expect("t", {"x": deep})


@pytest.mark.parametrize("value", AWKWARD, ids=repr)
def test_awkward_values_equal_themselves(value: Any) -> None:
    """Every value is accepted by the matchers that hold it."""
    for kind in (Exact, AnyOf, IgnoreCase, Normalized, Approx, Optional):
        assert scored({"x": kind(value)}, {"x": value}) == 1


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (kind, entry.name)
        for kind in MATCHERS.values()
        for entry in fields(kind)  # type: ignore[arg-type]
        if entry.init and entry.type in ("bool", "str")
    ],
)
@pytest.mark.parametrize("wrong", [None, 1, 2.5, [1, 2], {"a": 1}])
def test_options_of_a_wrong_type_are_refused_when_they_are_read(kind: type[Matcher], option: str, wrong: Any) -> None:
    """They cannot make a check an error later, nor mean something else, such as "false" that is true."""
    form = {"$is": kind.kind, "value": "x", "pattern": "x", "schema": {}, "call": "x", option: wrong}
    plain = {key: form[key] for key in form if key == "$is" or key in kind.__dataclass_fields__}  # type: ignore[attr-defined]

    with pytest.raises(InvalidDataError, match=r"must be|predicate is a function"):
        read_expectation([{"expect": "t", "input_parameters": {"x": plain}}])
