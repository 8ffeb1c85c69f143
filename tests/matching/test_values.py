"""Equality, similarity and differences of JSON values, by example."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from toolgrade.matching.json_compare import (
    ABSENT,
    Difference,
    argument_differences,
    json_equal,
    outputs_equal,
    similarity,
)

NAN = float("nan")


def nested(levels: int, inside: Any, key: str | None = None) -> Any:
    """Return a value inside this many lists, or objects if a key is passed."""
    for _ in range(levels):
        inside = [inside] if key is None else {key: inside}
    return inside


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        pytest.param(1, 1.0, True, id="an integer and the float of its value"),
        pytest.param(True, 1, False, id="true and 1"),
        pytest.param(False, 0, False, id="false and 0"),
        pytest.param(True, 1.0, False, id="true and 1.0"),
        pytest.param(1, "1", False, id="a number and its text"),
        pytest.param(None, False, False, id="null and false"),
        pytest.param(None, "null", False, id="null and its text"),
        pytest.param(NAN, float("nan"), True, id="NaN and NaN"),
        pytest.param(NAN, "NaN", False, id="NaN and its text"),
        pytest.param(float("inf"), float("inf"), True, id="infinity and infinity"),
        pytest.param(0.0, -0.0, True, id="0 and -0"),
        pytest.param(0.1 + 0.2, 0.3, False, id="floats are not rounded"),
        pytest.param(2**53 + 1, float(2**53), False, id="large integers are exact"),
        pytest.param("Paris", "paris", False, id="case of text"),
        pytest.param("é", "e\u0301", False, id="text is not normalised"),
        pytest.param([1, 2], [2, 1], False, id="order of a list"),
        pytest.param([1, 2], [1, 2, 3], False, id="length of a list"),
        pytest.param([1, [True]], [1.0, [True]], True, id="lists inside lists"),
        pytest.param([True], [1], False, id="true and 1 in a list"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order of keys"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, False, id="null and no key"),
        pytest.param({"a": {"b": NAN}}, {"a": {"b": NAN}}, True, id="NaN deep inside"),
        pytest.param({"a": {"b": True}}, {"a": {"b": 1}}, False, id="true and 1 deep inside"),
        pytest.param([], {}, False, id="empty list and empty object"),
    ],
)
def test_equality(a: Any, b: Any, *, same: bool) -> None:
    """1 == 1.0, True != 1, 1 != "1", NaN equals NaN, strings exact, lists ordered and all or nothing."""
    assert json_equal(a, b) is json_equal(b, a) is same


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        pytest.param({"temp": 21}, '{"temp": 21}', True, id="an object and its text"),
        pytest.param({"temp": 21}, '{ "temp":21.0 }', True, id="an object and its text written otherwise"),
        pytest.param([1, 2], "[1, 2]", True, id="a list and its text"),
        pytest.param(21, "21", True, id="a number and its text"),
        pytest.param(True, "true", True, id="true and its text"),
        pytest.param(None, "null", True, id="null and its text"),
        pytest.param("sunny", '"sunny"', True, id="a text and its JSON form"),
        pytest.param("sunny", "sunny", True, id="two texts"),
        pytest.param("sunny", "sunny ", False, id="two texts that differ by a space"),
        pytest.param('{"a": 1, "b": 2}', '{"b":2,"a":1.0}', True, id="two texts that are forms of one value"),
        pytest.param('{"a": 1}', '{"a": "1"}', False, id="two texts that are forms of two values"),
        pytest.param('"a"', '"a" ', True, id="two texts that are forms of one text"),
        pytest.param("a", "a ", False, id="two texts that are not JSON"),
        pytest.param(" NaN", "NaN", True, id="two texts of NaN"),
        pytest.param(True, "1", False, id="true and the text of 1"),
        pytest.param(None, "", False, id="null and no text"),
        pytest.param({"a": 1}, "{'a': 1}", False, id="the text that Python writes is no JSON"),
        pytest.param(1, "1 apple", False, id="a text that only begins as JSON"),
        pytest.param([], "[" * 100_000, False, id="a text too deep to be read"),
        pytest.param(7, "7" * 5000, False, id="a text of a number too long to be read"),
    ],
)
def test_outputs(a: Any, b: Any, *, same: bool) -> None:
    """Outputs are equal as values, or when the JSON values of one text or both are equal."""
    assert outputs_equal(a, b) is outputs_equal(b, a) is same


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param({}, {}, (1, 1), id="both empty"),
        pytest.param({"a": 1}, {}, (0, 1), id="one empty"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, (1, 1), id="equal"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, (1, 2), id="one of two wrong"),
        pytest.param({"a": 1}, {"a": 1, "b": 3}, (1, 2), id="one too many"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, (1, 2), id="one missing"),
        pytest.param({"a": 1}, {"b": 1}, (0, 2), id="no key in common"),
        pytest.param({"q": {"x": 1, "y": 2}}, {"q": {"x": 1, "y": 3}}, (1, 2), id="one of two leaves of an object"),
        pytest.param({"q": {"x": 1, "y": 2}, "k": 5}, {"q": {"x": 1, "y": 3}, "k": 5}, (3, 4), id="object and number"),
        pytest.param({"q": {}}, {"q": {}}, (1, 1), id="two empty objects inside"),
        pytest.param({"q": {}}, {"q": {"x": 1}}, (0, 1), id="empty against filled object inside"),
        pytest.param({"q": {"x": 1}}, {"q": [1]}, (0, 1), id="object against list"),
        pytest.param({"q": [1, 2, 3]}, {"q": [1, 2, 4]}, (0, 1), id="lists are all or nothing"),
        pytest.param({"q": [{"x": 1, "y": 2}]}, {"q": [{"x": 1, "y": 3}]}, (0, 1), id="objects inside lists"),
        pytest.param({"n": 1, "t": True}, {"n": 1.0, "t": 1}, (1, 2), id="1.0 is 1, 1 is not true"),
        pytest.param({"q": None}, {}, (0, 1), id="null is not no argument"),
    ],
)
def test_similarity(a: dict[str, Any], b: dict[str, Any], expected: tuple[int, int]) -> None:
    """The share of keys that agree, of all keys that either side names; objects in part, lists not."""
    assert similarity(a, b) == similarity(b, a) == expected


def test_differences_keep_their_written_order() -> None:
    """Expected keys first, in their order, then extra ones; paths enter objects but not lists."""
    expected = {"city": "Paris", "when": {"day": 1, "hour": 9}, "tags": [1, 2], "unit": "C"}
    called = {"extra": None, "tags": [1, 3], "when": {"day": 2, "minute": 0}, "city": "Paris"}
    assert argument_differences(expected, called) == [
        Difference("wrong_argument", ("when", "day"), 1, 2),
        Difference("missing_argument", ("when", "hour"), 9, ABSENT),
        Difference("extra_argument", ("when", "minute"), ABSENT, 0),
        Difference("wrong_argument", ("tags",), [1, 2], [1, 3]),
        Difference("missing_argument", ("unit",), "C", ABSENT),
        Difference("extra_argument", ("extra",), ABSENT, None),
    ]


@pytest.mark.parametrize("key", [None, "k"], ids=["lists", "objects"])
def test_values_of_200_levels_are_compared(key: str | None) -> None:
    """Values of the maximal depth are compared, and differ at the innermost place."""
    a, b, c = ({"k": nested(199, leaf, key)} for leaf in (1, 1.0, 2))
    assert json_equal(a, b)
    assert not json_equal(a, c)
    assert similarity(a, b) == (1, 1)
    assert similarity(a, c) == (0, 1)
    assert len(argument_differences(a, c)) == 1


def test_large_values_are_compared() -> None:
    """An object of 20,000 entries and a text of a million letters are values like any other."""
    rows = {f"key {i}": [i, {"v": i}] for i in range(20_000)}
    assert similarity(rows, copy.deepcopy(rows)) == (1, 1)
    assert similarity(rows, {**rows, "key 7": None}) == (19_999, 20_000)
    assert json_equal("x" * 10**6, "x" * 10**6)


def test_absent_is_one_object() -> None:
    """`ABSENT` stays itself when copied and when it crosses a process boundary, and shows its name."""
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT  # noqa: S301 - our own bytes
    assert copy.copy(ABSENT) is copy.deepcopy(ABSENT) is ABSENT
    assert repr(ABSENT) == "ABSENT"
