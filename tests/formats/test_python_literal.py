"""Python objects that a tracer printed: only plain data with one meaning is read, and no code runs."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values
from toolgrade.formats.traces.values import LONGEST, read_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': None, 'b': True}", {"a": None, "b": True}),
        (" {'a': (1, 2.5, -3), 'b': {'c': []}}\n", {"a": [1, 2.5, -3], "b": {"c": []}}),
        ("{'a': 'it\\'s', 'b': \"x\"}", {"a": "it's", "b": "x"}),
        ("{'path': 'C:\\d'}", {"path": "C:\\d"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("{'a': [Call(name='add', at=times.Span(end=2))]}", {"a": [{"name": "add", "at": {"end": 2}}]}),
    ],
)
def test_literals_and_json_are_read(text: str, value: Any) -> None:
    """A key that occurs twice has its last value; an object of a class has its fields."""
    assert read_literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "null", "[1]", "3", '"x"', "{", "{'a'", "{'a': }", "{'a': x}", "{'a': f()}", "{**{}}"),
        *('{"a": 1} {"b": 2}', '{"a": 1', '{"a": NaN}', '"{}"', "```{}```"),
        *("{1: 2}", "{'a': b'x'}", "{'a': {1, 2}}", "{'a': 1j}", "{'a': ...}", "{'a', 'b'}", "{'a': 1 + 1}"),
        *("{'a': Call(1)}", "{'a': Call(b=f())}", "{'a': Call(**{'b': 1})}", "Call(a=1)"),
        *('{"a": __import__("os")}', "{'a': 'x' 3}"),
        *("{'a': " + "[" * 300 + "]" * 300 + "}", "{'a': " + "-" * 50_000 + "1}", "{'a': '" + "x" * LONGEST + "'}"),
        *(None, 3, ["{}"], {"a": 1}),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_anything_else_is_not_an_object(text: object) -> None:
    """Nothing is guessed or run, and nothing hangs or overflows."""
    assert read_literal(text) is None


@given(value=st.dictionaries(st.text(max_size=3), json_values([1, -2.5, True, None, "x", ",}", "é'\""]), max_size=3))
def test_every_object_is_read_as_it_was_printed(value: dict[str, Any]) -> None:
    """By `repr` or as JSON."""
    assert read_literal(repr(value)) == read_literal(json.dumps(value)) == value


@given(text=st.text(alphabet="{}[]'\",:`\\ \n1a", max_size=12))
def test_any_text_is_read_or_left(text: str) -> None:
    """Any text is handled without an error or a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = read_literal(text)

    assert value is None or isinstance(value, dict)
