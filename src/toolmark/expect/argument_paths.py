"""Places in arguments, such as `to.city`, `flights[0].date`, `items[*].price` or `["a.b"]`; and matchers put there."""

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
"""Keys and positions; `*` is every key or position that the expected arguments have there."""

_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\[("(?:[^"\\]|\\.)*")\]""")

EVERY = "*"


def parse_argument_path(text: object) -> ArgumentPath:
    """Return the place that a text names.

    Raises:
        ConfigurationError: It names none.
    """
    steps: list[str | int] = []
    at = 0
    while isinstance(text, str) and at < len(text):
        found = _STEP.match(text, at)
        if found is None or (text[at] == "." and not at):
            break
        key, index, quoted = found.groups()
        if key is not None:
            steps.append(key)
        elif quoted:
            steps.append(str(json.loads(quoted)))
        else:
            steps.append(EVERY if index == EVERY else int(index))
        at = found.end()
    if not isinstance(text, str) or not text or at < len(text):
        message = f"{text!r} is no place in arguments; write it like to.city, flights[0].date, items[*].price"
        raise ConfigurationError(message)
    return tuple(steps)


def with_matchers(tree: Mapping[str, Any], *layers: Mapping[ArgumentPath, Matcher]) -> dict[str, Any]:
    """Return expected arguments with matchers at some places.

    A matcher that lacks a value takes the one that stands at its place; where none stands, it does nothing. One that
    has all it needs takes the place of a value, or is put where none stands. A matcher that stands in the arguments
    already stays. Of two for one place, the one of the earlier layer is taken; in a layer, an exact place goes before
    one with `*`, and then the later one.
    """
    found: Any = dict(tree)
    for matchers in layers:
        later = list(matchers.items())[::-1]
        for place, matcher in sorted(later, key=lambda entry: EVERY in entry[0]):
            found = _put(found, place, matcher)
    settled: dict[str, Any] = _settled(found)
    return settled


class _Made(dict[str, Any]):
    """An object that stands there only because a place leads through it."""


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
        return _Made({key: _put(ABSENT, rest, matcher)})
    if not isinstance(node, dict):
        return node
    keys: Sequence[str] = list(node) if key == EVERY else [str(key)]
    changed = type(node)(node)
    for name in keys:
        value = _put(node.get(name, ABSENT), rest, matcher)
        if value is not ABSENT:
            changed[name] = value
    return changed


def _settled(node: Any) -> Any:
    """Return a tree in which an object that was made for matchers which do without a value need not be there itself."""
    if isinstance(node, list):
        return list(map(_settled, node))
    if not isinstance(node, dict):
        return node
    plain = {key: _settled(item) for key, item in node.items()}
    if isinstance(node, _Made) and all(isinstance(item, (Absent, Ignore, Optional)) for item in plain.values()):
        return Optional(plain)
    return plain
