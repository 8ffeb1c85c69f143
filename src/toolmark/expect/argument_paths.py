"""Paths in arguments, such as `to.city`, `flights[0].date`, `items[*].price` or `["a.b"]`, and matchers at them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from toolmark.errors import ConfigurationError
from toolmark.expect.matcher import Matcher
from toolmark.expect.presence_matchers import Absent, Ignore, Optional
from toolmark.matching.json_compare import ABSENT

ArgumentPath: TypeAlias = "tuple[str | int, ...]"
"""Keys and positions; `*` is every key or position that the expected arguments have at that level."""

_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\[("(?:[^"\\]|\\.)*")\]""")

EVERY = "*"


def parse_argument_path(text: object) -> ArgumentPath:
    """Return the keys and positions of a path.

    Raises:
        ConfigurationError: The text is not a path.
    """
    steps: list[str | int] = []
    at = 0
    while isinstance(text, str) and at < len(text):
        match = _STEP.match(text, at)
        if match is None or (text[at] == "." and not at):
            break
        key, index, quoted = match.groups()
        if key is not None:
            steps.append(key)
        elif quoted:
            steps.append(str(json.loads(quoted)))
        else:
            steps.append(EVERY if index == EVERY else int(index))
        at = match.end()
    if not isinstance(text, str) or not text or at < len(text):
        message = f"an argument path must be like to.city, flights[0].date or items[*].price, got {text!r}"
        raise ConfigurationError(message)
    return tuple(steps)


def with_matchers(tree: Mapping[str, Any], *layers: Mapping[ArgumentPath, Matcher]) -> dict[str, Any]:
    """Return expected arguments with matchers at some places.

    A matcher without a value takes the value at its place; without a value there, it does nothing. A complete matcher
    replaces the value, or is added if the value is missing. A matcher that is already in the arguments is not replaced.
    If two matchers have the same place, the earlier layer wins; within a layer, an exact place wins over one with `*`,
    and then the later one wins.
    """
    result: Any = dict(tree)
    for matchers in layers:
        later = list(matchers.items())[::-1]
        for place, matcher in sorted(later, key=lambda entry: EVERY in entry[0]):
            result = _put(result, place, matcher)
    arguments: dict[str, Any] = _with_optional_objects(result)
    return arguments


class _Implied(dict[str, Any]):
    """An object that exists only because the path of a matcher leads through it."""


def _put(node: Any, place: ArgumentPath, matcher: Matcher) -> Any:
    if not place:
        if isinstance(node, Matcher):
            return node
        if node is ABSENT:
            return matcher if matcher.complete else ABSENT
        return matcher.bind(node)
    key, rest = place[0], place[1:]
    if isinstance(node, Matcher):
        return node
    if isinstance(node, list):
        reached = range(len(node)) if key == EVERY else [key] if type(key) is int and key < len(node) else []
        return [_put(item, rest, matcher) if index in reached else item for index, item in enumerate(node)]
    if node is ABSENT and matcher.complete and key != EVERY and type(key) is str:
        return _Implied({key: _put(ABSENT, rest, matcher)})
    if not isinstance(node, dict):
        return node
    keys: Sequence[str] = list(node) if key == EVERY else [str(key)]
    changed = type(node)(node)
    for name in keys:
        value = _put(node.get(name, ABSENT), rest, matcher)
        if value is not ABSENT:
            changed[name] = value
    return changed


def _with_optional_objects(node: Any) -> Any:
    """Return a tree whose implied objects are optional if all matchers inside accept a missing value."""
    if isinstance(node, list):
        return list(map(_with_optional_objects, node))
    if not isinstance(node, dict):
        return node
    plain = {key: _with_optional_objects(item) for key, item in node.items()}
    if isinstance(node, _Implied) and all(isinstance(item, (Absent, Ignore, Optional)) for item in plain.values()):
        return Optional(plain)
    return plain
