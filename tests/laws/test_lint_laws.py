"""Laws of lint: valid calls give no findings, each violation gives one, and findings are certain."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolgrade import Golden, ToolCall
from toolgrade.expect import (
    Absent,
    AnyOf,
    Approx,
    Exact,
    Expect,
    Ignore,
    IgnoreCase,
    Matcher,
    Normalized,
    Optional,
    Plan,
    Present,
    Unordered,
)
from toolgrade.linting import lint
from toolgrade.matching.argument_pattern import holds_matcher

NAMES = ["a", "b", "c"]
LEAVES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "x y"),
    ({"enum": ["Up", "down"]}, "Up"),
    ({"type": "integer"}, 3),
    ({"type": "number", "minimum": 0}, 2.5),
    ({"type": "boolean"}, True),
    ({"type": ["string", "null"]}, None),
    ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    ({}, {"free": [1, "a"]}),
]
WRONG: Any = {"of": "another type"}


@st.composite
def described(draw: st.DrawFn, levels: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a closed object schema and a matching object; each of its keys is required or optional."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    inner = st.sampled_from(LEAVES)
    parts = {name: draw(inner | described(levels=levels - 1) if levels else inner) for name in names}
    required = draw(st.lists(st.sampled_from(names), unique=True))
    schema = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in parts.items()},
        "required": required,
        "additionalProperties": False,
    }
    return schema, {name: value for name, (_, value) in parts.items() if name in required or draw(st.booleans())}


def accepting(value: Any, *, required: bool) -> st.SearchStrategy[Any]:
    """The value, or a matcher that accepts it and nothing that the schema would not take."""
    options: list[Any] = [value, Exact(value), AnyOf(value), IgnoreCase(value), Normalized(value), Present(), Ignore()]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        options.append(Approx(value, abs=0.1))
    if isinstance(value, list):
        options.append(Unordered(value))
    if not required:
        options += [Optional(value), Optional(AnyOf(value, value)), Absent()]
    return st.sampled_from(options)


@st.composite
def expectation_tree(draw: st.DrawFn, schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Expected arguments that an object fits, with matchers at random places."""
    tree: dict[str, Any] = {}
    for name, item in value.items():
        inner = schema["properties"][name]
        if "properties" in inner and draw(st.booleans()):
            tree[name] = draw(expectation_tree(inner, item))
        else:
            tree[name] = draw(accepting(item, required=name in schema["required"]))
    return tree


def findings(schema: dict[str, Any], tree: dict[str, Any]) -> list[Any]:
    """What lint finds in an expected call with these arguments."""
    plan = Plan([Expect("f", tree)])
    return list(lint([Golden(input="x", expected_tools=plan)], [{"name": "f", "parameters": schema}]))


@given(st.data(), described())
def test_valid_call_has_no_findings(data: st.DataObject, pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """With any matchers that accept only its values."""
    schema, value = pair
    Draft202012Validator(schema).validate(value)

    assert findings(schema, data.draw(expectation_tree(schema, value))) == []
    plain = [ToolCall(name="f", input_parameters=value)]
    assert not lint([Golden(input="x", expected_tools=plain)], [{"name": "f", "parameters": schema}])


@given(st.data(), described())
def test_every_violation_is_a_finding(data: st.DataObject, pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A value of another type; an unknown argument; a missing required one."""
    schema, value = pair
    tree = data.draw(expectation_tree(schema, value))
    typed = [name for name in value if schema["properties"][name].get("type") not in (None, "object")]

    broken = {"unknown": {**tree, "zzz": data.draw(st.sampled_from([1, Ignore(), Optional(1)]))}}
    for name in schema["required"]:
        broken[f"lacks {name}"] = {key: item for key, item in tree.items() if key != name}
        broken[f"must lack {name}"] = {**tree, name: Absent()}
    for name in typed:
        wrong = data.draw(st.sampled_from([WRONG, Exact(WRONG)]))
        broken[f"wrong {name}"] = {**tree, name: wrong}

    assert [how for how, arguments in broken.items() if not findings(schema, arguments)] == []


def accepted(node: Any) -> Iterator[Any]:
    """Return all accepted values by brute force; `...` if there is none."""
    if isinstance(node, AnyOf):
        for value in node.values:
            yield from accepted(value)
    elif isinstance(node, Optional):
        yield from accepted(node.value)
        yield ...
    elif isinstance(node, Absent):
        yield ...
    elif isinstance(node, Exact):
        yield node.value
    elif isinstance(node, dict):
        for values in itertools.product(*map(accepted, node.values())):
            yield {key: value for key, value in zip(node, values, strict=True) if value is not ...}
    else:
        assert not isinstance(node, Matcher)
        yield node


VALUES = st.sampled_from([1, 2.5, "x", None, True, [1], ["x"], {"a": 1}, {"b": "x"}, {}])
CHOICES = st.recursive(
    VALUES,
    lambda inner: (
        st.builds(AnyOf, inner, inner)
        | st.builds(Optional, inner)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=4,
) | st.just(Absent())
RULES = st.sampled_from(
    [
        {},
        {"dependentRequired": {"a": ["b"]}},
        {"if": {"properties": {"a": {"type": "integer"}}}, "then": {"required": ["b"]}},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"not": {"required": ["a", "b"]}},
        {"minProperties": 1},
    ]
)


@given(described(), RULES, st.dictionaries(st.sampled_from([*NAMES, "d"]), CHOICES, max_size=3))
def test_findings_are_certain(
    pair: tuple[dict[str, Any], dict[str, Any]], rules: dict[str, Any], tree: dict[str, Any]
) -> None:
    """A finding implies that no accepted call fits, or that one has an unknown argument; for one call, always."""
    schema = {**pair[0], **rules}
    every = list(itertools.islice(accepted(tree), 2000))
    unfit = [value for value in every if not Draft202012Validator(schema).is_valid(value)]
    reported = findings(schema, tree)

    assert unfit or not reported
    if any("does not take" not in finding.message for finding in reported):  # an unknown argument may be optional
        assert len(unfit) == len(every)
    if not holds_matcher(tree):
        assert bool(reported) == bool(unfit)
