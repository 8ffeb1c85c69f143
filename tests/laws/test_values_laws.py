"""Laws of values: equality, similarity, and conversion of Python values.

Equality is an equivalence, and `frozen` keys agree with it. Similarity is symmetric, bounded, 1 exactly where values
are equal, and its complement is a distance. A converted value is JSON, stays as it is when converted again, shares
nothing with what it was made from, and leaves that unchanged.
"""

from __future__ import annotations

import copy
import json
import warnings
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import equal, object_similarity
from oracles import outputs_equal as obviously_equal_outputs
from strategies import AWKWARD, finite_json_values, flat_objects, json_values, nested_objects, python_values, twins
from toolgrade import ToolCall, ToolgradeWarning
from toolgrade._internal.json import json_text, parse_json, to_json_value
from toolgrade.matching.json_compare import ABSENT, argument_differences, frozen, json_equal, outputs_equal, similarity

JSON_TYPES = (type(None), bool, int, float, str, list, dict)
flat_or_nested = pytest.mark.parametrize(
    "objects", [pytest.param(flat_objects, id="flat"), pytest.param(nested_objects, id="nested")]
)


def ratio(a: dict[str, Any], b: dict[str, Any]) -> Fraction:
    """Similarity as a number."""
    return Fraction(*similarity(a, b))


# Equality


@given(a=twins, b=twins)
def test_equality_follows_the_rules(a: Any, b: Any) -> None:
    """1 == 1.0, True != 1, 1 != "1", NaN equals NaN, strings exact, lists ordered."""
    assert json_equal(a, b) == equal(a, b)


@pytest.mark.parametrize("a", AWKWARD, ids=ascii)
def test_equality_of_awkward_values(a: Any) -> None:
    """For values that Python and JSON treat differently, bare and inside lists and objects."""
    for b in AWKWARD:
        assert json_equal(a, b) == json_equal([a], [b]) == json_equal({"k": a}, {"k": b}) == equal(a, b)
        assert (frozen(a) == frozen(b)) == equal(a, b)


@given(a=json_values() | twins, b=json_values() | twins)
def test_frozen_keys_are_equal_exactly_where_values_are(a: Any, b: Any) -> None:
    """A frozen key is equal for two values exactly when the values are equal, and then hashes alike."""
    assert (frozen(a) == frozen(b)) == json_equal(a, b)
    assert frozen(a) == frozen(copy.deepcopy(a))
    if json_equal(a, b):
        assert hash(frozen(a)) == hash(frozen(b))


# Outputs


@given(a=twins | twins.map(json_text), b=twins | twins.map(json_text))
def test_outputs_are_equal_as_values_or_as_the_text_of_one(a: Any, b: Any) -> None:
    """Outputs are equal as JSON values, or when one text or both are the JSON form of equal ones; on either side."""
    assert outputs_equal(a, b) == outputs_equal(b, a) == obviously_equal_outputs(a, b)


@given(value=finite_json_values(), indent=st.sampled_from((None, 0, 2)))
def test_an_output_equals_its_own_json_form(value: Any, indent: int | None) -> None:
    """Whether a framework kept the value or the text that the model was shown makes no difference."""
    text = json.dumps(value, indent=indent)
    assert outputs_equal(value, text)
    assert outputs_equal(text, value)


# Similarity


@flat_or_nested
@given(data=st.data())
def test_similarity_follows_the_rules(objects: st.SearchStrategy[dict[str, Any]], data: st.DataObject) -> None:
    """Over the union of keys: equal 1, objects recurse, otherwise 0; divided by its size."""
    a, b = data.draw(objects), data.draw(objects)
    assert ratio(a, b) == object_similarity(a, b)


@flat_or_nested
@given(data=st.data())
def test_similarity_is_symmetric_and_bounded(objects: st.SearchStrategy[dict[str, Any]], data: st.DataObject) -> None:
    """s(a, b) = s(b, a), in [0, 1], and 1 exactly where a equals b; in lowest form where it is 1."""
    a, b = data.draw(objects), data.draw(objects)
    assert ratio(a, b) == ratio(b, a)
    assert 0 <= ratio(a, b) <= 1
    assert (similarity(a, b) == (1, 1)) == (ratio(a, b) == 1) == json_equal(a, b)


@given(a=st.dictionaries(st.text(max_size=2), json_values()), b=st.dictionaries(st.text(max_size=2), json_values()))
def test_similarity_of_any_values_is_that_of_the_rule(a: dict[str, Any], b: dict[str, Any]) -> None:
    """For objects with any values."""
    assert ratio(a, b) == object_similarity(a, b)


# Differences


@given(a=nested_objects, b=nested_objects)
def test_differences_are_exactly_the_places_that_differ(a: dict[str, Any], b: dict[str, Any]) -> None:
    """There is a difference exactly where similarity is below 1; each names a place, and what stands there."""
    differences = argument_differences(a, b)
    assert (not differences) == json_equal(a, b)
    assert len({difference.path for difference in differences}) == len(differences)
    for difference in differences:
        assert difference.expected is at(a, difference.path)
        assert difference.called is at(b, difference.path)
        assert (difference.kind == "missing_argument") == (difference.called is ABSENT)
        assert (difference.kind == "extra_argument") == (difference.expected is ABSENT)


@given(a=nested_objects, b=nested_objects)
def test_mending_every_difference_makes_the_call_right(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Putting the expected value at every place named as different makes the called arguments the expected ones."""
    mended = copy.deepcopy(b)
    for difference in argument_differences(a, b):
        *way, last = difference.path
        place = mended
        for key in way:
            place = place[key]
        if difference.expected is ABSENT:
            del place[last]
        else:
            place[last] = difference.expected
    assert json_equal(mended, a)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path, or `ABSENT`."""
    for key in path:
        if key not in value:
            return ABSENT
        value = value[key]
    return value


# Python values on their way into a call


def converted(value: Any) -> Any:
    """The JSON value, without the warnings about keys that have the same text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolgradeWarning)
        return to_json_value(value)


def places(value: Any) -> list[Any]:
    """The value and everything inside it."""
    inside = value.values() if type(value) is dict else value if type(value) is list else ()
    return [value, *(place for item in inside for place in places(item))]


def spoil(value: Any) -> None:
    """Change every list and object inside a value, as a tool may do with its arguments."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        spoil(item)
    if isinstance(value, list):
        value.append("spoilt")
    elif isinstance(value, dict):
        value["spoilt"] = True


@given(value=python_values)
def test_a_converted_value_is_json(value: Any) -> None:
    """Lists, objects with text keys, and scalars, of exactly these types, which every JSON writer can write."""
    for place in places(converted(value)):
        assert type(place) in JSON_TYPES
        assert type(place) is not dict or all(type(key) is str for key in place)
    assert type(json_text(converted(value))) is str


@given(value=python_values)
def test_converting_twice_changes_nothing(value: Any) -> None:
    """A JSON value is its own JSON value, down to the order of its keys."""
    once = converted(value)
    assert repr(to_json_value(once)) == repr(once)


@given(value=json_values())
def test_json_values_stay_as_they_are(value: Any) -> None:
    """A value that is JSON already comes out equal, with numbers of the same kind and keys in the same order."""
    assert repr(to_json_value(value)) == repr(value)


@given(value=python_values)
def test_argument_is_copied(value: Any) -> None:
    """Construction does not change it, and later changes do not affect the call."""
    before = repr(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolgradeWarning)
        call = ToolCall(name="look_up", input_parameters={"value": value}, output=value)
    assert repr(value) == before
    snapshot = repr(call)
    spoil(value)
    assert repr(call) == snapshot


@given(value=json_values())
def test_two_fields_never_share_a_value(value: Any) -> None:
    """One object passed twice becomes two independent values."""
    call = ToolCall(name="look_up", input_parameters={"value": value}, output=value)
    snapshot = repr(call.output)
    spoil(call.arguments)
    assert repr(call.output) == snapshot


# Text


@given(value=finite_json_values())
def test_json_text_reads_back(value: Any) -> None:
    """What is written as JSON text is read back as the same value, on one line and indented."""
    assert repr(parse_json(json_text(value))) == repr(value)
    assert repr(parse_json(json_text(value, indent=2).encode())) == repr(value)


@given(value=json_values())
def test_json_text_is_strict_json(value: Any) -> None:
    """Whatever the value holds, the text is UTF-8 and JSON as the standard has it: no bare NaN, no infinities."""
    text = json_text(value)
    assert "\n" not in text
    read = parse_json(text.encode("utf-8"))
    assert [repr(as_text(place)) for place in places(value)] == [repr(as_text(place)) for place in places(read)]


def as_text(place: Any) -> Any:
    """Return NaN and infinities as their texts in files."""
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if type(place) is float:
        return names.get(repr(place), place)
    return None if type(place) in (list, dict) else place
