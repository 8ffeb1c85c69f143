"""Conversion of Python values for calls, and reading and writing of JSON."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import math
import types
import uuid
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel, Field, RootModel

from toolgrade import InvalidDataError, Problem, ToolCall, ToolgradeWarning
from toolgrade._internal.json import (
    MAX_DEPTH,
    canonical_json,
    json_path,
    json_text,
    parse_json,
    parse_json_value,
    replace_nonfinite,
    to_json_value,
)

NAN = float("nan")


class Colour(enum.Enum):
    """An enum of texts."""

    RED = "red"


class Level(enum.IntEnum):
    """An enum of numbers."""

    HIGH = 3


class Key(str, enum.Enum):
    """An enum whose members are texts, as keys often are."""

    CITY = "city"


class Text(str):
    """A subclass of `str`."""

    __slots__ = ()


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


@dataclasses.dataclass
class Place:
    """A dataclass with something inside."""

    city: str
    at: datetime.date
    near: list[Point]


class Query(BaseModel):
    """A pydantic model."""

    text: str
    limit: int = 10
    colour: Colour = Field(default=Colour.RED)


class Broken:
    """An object whose `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def nested(levels: int, key: str | None = None) -> Any:
    """Return a value with this many levels of lists, or of objects if a key is passed."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


# What becomes JSON


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param((1, (2,)), [1, [2]], id="tuple"),
        pytest.param(Point(1, 2), [1, 2], id="named tuple"),
        pytest.param({"b", "a"}, ["a", "b"], id="set of texts"),
        pytest.param({10, 9, 2}, [2, 9, 10], id="set of numbers"),
        pytest.param(frozenset({1.5, 1}), [1, 1.5], id="set of numbers of two kinds"),
        pytest.param({(2, 1), (1, 2)}, [[1, 2], [2, 1]], id="set of tuples"),
        pytest.param(datetime.date(2024, 2, 29), "2024-02-29", id="date"),
        pytest.param(datetime.time(9, 30), "09:30:00", id="time"),
        pytest.param(
            datetime.datetime(2024, 2, 29, 9, 30, tzinfo=datetime.timezone.utc),
            "2024-02-29T09:30:00+00:00",
            id="moment",
        ),
        pytest.param(Colour.RED, "red", id="enum"),
        pytest.param(Level.HIGH, 3, id="enum of numbers"),
        pytest.param(Key.CITY, "city", id="enum of texts"),
        pytest.param(Text("plain"), "plain", id="text with a class of its own"),
        pytest.param(
            Place("Paris", datetime.date(2024, 1, 1), [Point(1, 2)]),
            {"city": "Paris", "at": "2024-01-01", "near": [[1, 2]]},
            id="dataclass",
        ),
        pytest.param(Query(text="x"), {"text": "x", "limit": 10, "colour": "red"}, id="model"),
        pytest.param(b"\x00\xff", {"type": "bytes", "encoding": "base64", "size": 2, "data": "AP8="}, id="bytes"),
        pytest.param(
            bytearray(b"a"), {"type": "bytes", "encoding": "base64", "size": 1, "data": "YQ=="}, id="bytearray"
        ),
        pytest.param(types.MappingProxyType({"a": (1,)}), {"a": [1]}, id="mapping"),
        pytest.param(collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}, id="ordered mapping"),
        pytest.param(Fraction(1, 2), 0.5, id="fraction"),
        pytest.param(np.int64(3), 3, id="numpy integer"),
        pytest.param(np.float32(0.5), 0.5, id="numpy float"),
        pytest.param(np.bool_(True), True, id="numpy truth"),
    ],
)
def test_conversion(value: Any, expected: Any) -> None:
    """Tuples and sets are lists, dates ISO text, enums their value, models objects, bytes a descriptor, silently."""
    result = to_json_value(value)
    assert repr(result) == repr(expected)
    assert repr(to_json_value([{"k": value}])) == repr([{"k": expected}])


def test_equal_sets_give_equal_lists() -> None:
    """Equal sets become the same list, independent of their history and number types."""
    assert to_json_value({2, 10.0}) == to_json_value({10, 2.0})
    assert to_json_value(set(range(100))) == to_json_value(set(range(99, -1, -1)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}, id="numbers"),
        pytest.param({None: 1, True: 2}, {"null": 1, "true": 2}, id="null and truth"),
        pytest.param({(1, 2): 3}, {"[1, 2]": 3}, id="tuple"),
        pytest.param({datetime.date(2024, 1, 1): 1}, {"2024-01-01": 1}, id="date"),
        pytest.param({Colour.RED: 1}, {"red": 1}, id="enum"),
        pytest.param({Key.CITY: "Paris"}, {"city": "Paris"}, id="enum of texts"),
        pytest.param({Text("city"): "Paris"}, {"city": "Paris"}, id="text with a class of its own"),
        pytest.param({Level.HIGH: 1}, {"3": 1}, id="enum of numbers"),
    ],
)
def test_keys_become_text(value: dict[Any, Any], expected: dict[str, Any]) -> None:
    """A key that is not text becomes its JSON text."""
    result = to_json_value(value)
    assert result == expected
    assert all(type(key) is str for key in result)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({1: "n", "1": "t"}, {"1 (int)": "n", "1": "t"}, id="number first"),
        pytest.param({"1": "t", 1: "n"}, {"1": "t", "1 (int)": "n"}, id="text first"),
        pytest.param({"1 (int)": "x", "1": "t", 1: "n"}, {"1 (int)": "x", "1": "t", "1 (int) 2": "n"}, id="twice"),
    ],
)
def test_two_keys_with_one_text_are_both_stored(value: dict[Any, Any], expected: dict[str, Any]) -> None:
    """The key that is not text is extended by its type, with a warning."""
    with pytest.warns(ToolgradeWarning, match=r"two keys have the same text; one was stored as '1 \(int\)"):
        assert to_json_value(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Decimal("1e4000"), "Decimal('1E+4000')", id="decimal beyond every number"),
        pytest.param(Decimal("sNaN"), "Decimal('sNaN')", id="signalling NaN"),
        pytest.param(1j, "1j", id="complex number"),
        pytest.param(Point, f"<class '{__name__}.Point'>", id="class"),
        pytest.param(Broken(), "<Broken whose repr raised RuntimeError>", id="object whose repr fails"),
    ],
)
def test_anything_else_becomes_its_repr_with_a_warning(value: Any, expected: str) -> None:
    """A value with no JSON form becomes its repr, and a warning names the place and the type."""
    with pytest.warns(ToolgradeWarning, match=rf"\$\.a\[1\]: a {type(value).__name__} is not a JSON value"):
        assert to_json_value({"a": [0, value]}) == {"a": [0, expected]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1.50"), 1.5),
        (Decimal("0.1"), 0.1),
        (Decimal("12.00"), 12),
        (Decimal("-0"), 0),
        (Decimal(2**70), 2**70),
        (Decimal("1e400"), 10**400),
        (Decimal("-Infinity"), -math.inf),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/data/a.csv"), "/data/a.csv"),
        (PureWindowsPath("C:/data"), "C:\\data"),
        (timedelta(minutes=1, milliseconds=500), 60.5),
        ({Decimal("1.5"): timedelta(days=-1)}, {"1.5": -86400.0}),
    ],
)
def test_values_that_stand_for_a_number_or_a_text_become_it(value: Any, expected: Any) -> None:
    """As the program that serializes them would write them, and without a warning."""
    converted = to_json_value({"a": [value]})["a"][0]

    assert converted == expected
    assert isinstance(converted, (int, float, str, dict))


def test_numbers_too_large_for_a_float_are_stored() -> None:
    """A real number beyond the floats does not lose the call."""
    huge = Fraction(10**400 + 1, 3)
    with pytest.warns(ToolgradeWarning, match="Fraction"):
        assert to_json_value(huge) == repr(huge)


def test_recorders_collect_the_warnings_as_notes() -> None:
    """With a list for notes, warnings are appended to it instead of being raised."""
    notes: list[str] = []
    assert to_json_value({"a": 1j, 1: 2, "1": 3}, notes) == {"a": "1j", "1 (int)": 2, "1": 3}
    assert [note.partition(":")[0] for note in notes] == ["$.a", "$"]


# Depth


@pytest.mark.parametrize("key", [None, "k"], ids=["lists", "objects"])
@pytest.mark.parametrize("mixed", [list, tuple], ids=["as they are", "inside a tuple"])
def test_200_levels_are_accepted_and_201_refused(key: str | None, mixed: type) -> None:
    """One more nested list or object is a clear error."""
    assert MAX_DEPTH == 200
    assert to_json_value(mixed([nested(199, key)])) == [nested(199, key)]
    with pytest.raises(InvalidDataError, match=r"deeper than 200 levels of lists and objects.*; flatten it first"):
        to_json_value(mixed([nested(200, key)]))


@pytest.mark.parametrize("levels", [10**3, 10**5])
def test_far_too_deep_is_the_same_clear_error(levels: int) -> None:
    """However deep the value is, the error is ours, not a recursion error."""
    with pytest.raises(InvalidDataError, match="deeper than 200 levels"):
        to_json_value(nested(levels))


def test_a_value_that_contains_itself_is_refused() -> None:
    """A cyclic list or object is refused with an explanation."""
    circle: list[Any] = []
    circle.append(circle)
    ring: dict[str, Any] = {"a": {}}
    ring["a"]["b"] = ring
    for value in (circle, ring):
        with pytest.raises(InvalidDataError, match="or containing itself"):
            to_json_value(value)


# Reading and writing text


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("NaN", ["$: bare NaN"], id="alone"),
        pytest.param('{"a": [1, NaN]}', ["$.a[1]: bare NaN"], id="inside"),
        pytest.param('{"a b": -Infinity}', ['$["a b"]: bare -Infinity'], id="key that is no identifier"),
        pytest.param("[NaN, Infinity]", ["$[0]: bare NaN", "$[1]: bare Infinity"], id="every one of them"),
    ],
)
def test_bare_nan_is_refused_with_its_path(text: str, problems: list[str]) -> None:
    """Bare NaN and infinities are refused by default, each with its path."""
    with pytest.raises(InvalidDataError) as caught:
        parse_json(text)
    assert [str(problem).partition(" is not JSON")[0] for problem in caught.value.problems] == problems
    assert repr(parse_json(text, allow_nan=True)) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the text is empty"),
        ('{"a": ', "the text ends too early, at character 7"),
        ('{"a": "b', "the string that begins at character 7 has no end"),
        ('{"a": 1} {', "there is more text after the value, at character 10: '{'"),
        ("hello", "unexpected 'h' at character 1"),
        ('{"a" 1}', "unexpected '1' at character 6"),
        ('{\n"a": b\n}', "unexpected 'b' at line 2, character 6"),
        (b"\xff\xff", "not UTF-8 text"),
    ],
)
def test_what_is_wrong_with_a_text_is_in_our_words(text: str | bytes, problem: str) -> None:
    """No message of Python's parser reaches a person; these change with its version."""
    with pytest.raises(InvalidDataError) as raised:
        parse_json(text)

    assert str(raised.value) == f"not JSON: {problem}"


def test_json_too_deep_for_the_reader_is_an_error_of_ours() -> None:
    """A text of 100,000 brackets is refused, not a recursion error."""
    with pytest.raises(InvalidDataError, match="too deep"):
        parse_json("[" * 100_000 + "]" * 100_000)


def test_nan_is_written_as_text() -> None:
    """Written files hold NaN and the infinities as the texts "NaN", "Infinity", "-Infinity"."""
    value = {"a": [NAN, float("inf")], "b": -float("inf"), "c": "NaN", "d": 0.5}
    assert json_text(value) == '{"a": ["NaN", "Infinity"], "b": "-Infinity", "c": "NaN", "d": 0.5}'
    assert replace_nonfinite(value) == {"a": ["NaN", "Infinity"], "b": "-Infinity", "c": "NaN", "d": 0.5}
    call = ToolCall(name="a", output=NAN)
    assert ToolCall.from_json(call.to_json()) == ToolCall(name="a", output="NaN")


def test_text_stays_readable_and_always_writable() -> None:
    """Letters are written unescaped; a lone surrogate is escaped and restored."""
    assert json_text({"Ort": "Zürich 東京"}) == '{"Ort": "Zürich 東京"}'
    assert json_text(["\ud800"]) == '["\\ud800"]'
    assert parse_json(json_text({"a": "\ud800", "b": NAN})) == {"a": "\ud800", "b": "NaN"}


def test_integers_of_any_size_can_be_written() -> None:
    """An integer of 5,000 digits, which Python does not turn into text by default, keeps no call from being saved."""
    call = ToolCall(name="a", input_parameters={"n": 10**5000})
    assert '"n": ' in call.to_json()


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ((), "$"),
        (("tools_called", 0, "name"), "$.tools_called[0].name"),
        (("a b", "é", ""), '$["a b"].é[""]'),
        (('say "hi"',), '$["say \\"hi\\""]'),
    ],
)
def test_json_path(parts: tuple[str | int, ...], path: str) -> None:
    """Paths look like `$.tools_called[0].name`; keys that are not identifiers are quoted."""
    assert json_path(parts) == path


def test_a_problem_reads_as_path_and_message() -> None:
    """A problem shows where it is, then what it is."""
    assert str(Problem("$.a", "is required", line=3)) == "$.a: is required"


def test_canonical_text() -> None:
    """Equal values have equal ASCII text in any key order; values outside JSON are text."""
    one = canonical_json({"b": [1, "é\u202e"], "a": float("nan"), "n": 10**5000})
    other = canonical_json({"n": 10**5000, "a": float("nan"), "b": [1, "é\u202e"]})

    assert one == other
    assert one.isascii()
    assert one.startswith('{"a":"NaN","b":[1,"\\u00e9\\u202e"],"n":"0x')
    assert canonical_json({"b": 1, "a": None}) == '{"a":null,"b":1}'


def test_a_text_of_many_brackets_is_read_unless_it_is_deep() -> None:
    """Only the levels count, not the brackets of texts and of flat lists."""
    flat = json.dumps([[]] * 300 + ["[" * 300])
    assert parse_json_value(flat) == json.loads(flat)
    assert parse_json_value(flat.encode()) == json.loads(flat)
    assert parse_json_value("[" * 200 + "]" * 200)
    with pytest.raises(InvalidDataError, match="deeper than 200 levels"):
        parse_json_value("[" * 201 + "]" * 201)


def test_a_model_of_a_root_value_is_converted_to_the_end() -> None:
    """A model may stand for a tuple or a date, which are not JSON either."""
    pair, day = RootModel[tuple[int, int]]((1, 2)), RootModel[datetime.date](datetime.date(2020, 1, 1))
    assert to_json_value({"pair": pair, "list": [1, pair], "day": day}) == {
        "pair": [1, 2],
        "list": [1, [1, 2]],
        "day": "2020-01-01",
    }
