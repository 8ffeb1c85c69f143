"""Paths in arguments, such as `to.city`, `flights[0].date`, `items[*].price` or `["a.b"]`, and matchers at them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from toolgrade._internal.options import require
from toolgrade.expect.matcher import Matcher
from toolgrade.expect.value_matchers import Absent, Ignore, Optional
from toolgrade.matching.json_compare import ABSENT

ArgumentPath: TypeAlias = "tuple[str | int, ...]"
"""Keys and positions; `*` is every key or position that the expected arguments have at that level."""

_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\[("(?:[^"\\]|\\.)*")\]""")

EVERY = "*"


def parse_argument_path(text: object) -> ArgumentPath:
    """Return the keys and positions of a path.

    Raises:
        ConfigurationError: The text is not a path.
    """
    path = text if isinstance(text, str) else ""
    steps = list(_STEP.finditer(path))
    is_valid = path and "".join(step[0] for step in steps) == path and not path.startswith(".")
    require(is_valid, "an argument path must be like to.city, flights[0].date or items[*].price", text)
    return tuple(map(_read_step, steps))


def _read_step(match: re.Match[str]) -> str | int:
    key, index, quoted = match.groups("")
    if quoted:
        return str(json.loads(quoted))
    if index.isdigit():
        return int(index)
    return key or EVERY  # an index that is not a number is `*`


def with_matchers(tree: Mapping[str, Any], *layers: Mapping[ArgumentPath, Matcher]) -> dict[str, Any]:
    """Return expected arguments with matchers at some places; each layer maps places to their matchers.

    A matcher without a value takes the value at its place; without a value there, it does nothing. A complete matcher
    replaces the value, or is added if the value is missing. A matcher that is already in the arguments is not replaced.
    If two matchers have the same place, the earlier layer wins; within a layer, an exact place wins over one with `*`,
    and then the later one wins.
    """
    result: Any = dict(tree)
    for matchers in layers:
        # The first matcher at a place stays: later ones go first, and the stable sort moves places with `*` to the end.
        last_first = list(matchers.items())[::-1]
        for place, matcher in sorted(last_first, key=lambda entry: EVERY in entry[0]):
            result = _put(result, place, matcher)
    arguments: dict[str, Any] = _with_optional_objects(result)
    return arguments


class _ImpliedObject(dict[str, Any]):
    """An object that exists only because the path of a matcher leads through it."""


def _put(node: Any, place: ArgumentPath, matcher: Matcher) -> Any:
    """Return a value with the matcher at a place in it."""
    if isinstance(node, Matcher):
        return node
    if node is ABSENT:
        return _build_implied(place, matcher)
    if not place:
        return matcher.bind(node)
    key, rest = place[0], place[1:]
    if isinstance(node, list):
        return [_put(item, rest, matcher) if key in (EVERY, index) else item for index, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    changed = type(node)(node)  # an `_ImpliedObject` stays one
    for name in node if key == EVERY else [str(key)]:
        value = _put(node.get(name, ABSENT), rest, matcher)
        if value is not ABSENT:
            changed[name] = value
    return changed


def _build_implied(place: ArgumentPath, matcher: Matcher) -> Any:
    """Return a complete matcher within the objects that lead to it, where the expected arguments have no value."""
    if not matcher.complete or any(key == EVERY or isinstance(key, int) for key in place):
        return ABSENT
    value: Any = matcher
    for key in reversed(place):
        value = _ImpliedObject({str(key): value})
    return value


def _with_optional_objects(node: Any) -> Any:
    """Return a tree whose implied objects are optional if all matchers inside accept a missing value."""
    if isinstance(node, list):
        return list(map(_with_optional_objects, node))
    if not isinstance(node, dict):
        return node
    plain = {key: _with_optional_objects(item) for key, item in node.items()}
    accepts_missing = all(isinstance(item, (Absent, Ignore, Optional)) for item in plain.values())
    return Optional(plain) if isinstance(node, _ImpliedObject) and accepts_missing else plain
