"""Rules about the values of arguments: which places of a call they are about, and which values break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolmark._internal.json import json_path, short_repr, to_json_value
from toolmark._internal.text import short_json
from toolmark.calls import ToolCall
from toolmark.errors import ConfigurationError
from toolmark.matching.json_compare import json_equal
from toolmark.matching.redacted_values import has_mark
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import redact_at_path

Path: TypeAlias = "str | tuple[str | int, ...]"
"""Where in the arguments: keys joined by dots, or a tuple of them; `*` is every item."""

_KINDS = ("allowed", "denied")


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """One rule about one place in the arguments of some tools.

    Attributes:
        tool: Name or pattern.
        keys: The way to the place.
        allowed: The values that may stand there; `None` for any.
        denied: Those that may not.
    """

    tool: str
    keys: tuple[str | int, ...]
    allowed: tuple[Any, ...] | None
    denied: tuple[Any, ...]

    def hidden(self, call: ToolCall) -> bool:
        """Return whether a value that the rule is about is not known."""
        if not call.captured("input_parameters"):
            return True
        return has_mark(call.arguments) and any(has_mark(value) for _, value in _values(call.arguments, self.keys))

    def broken(self, call: ToolCall) -> Iterator[tuple[str, str, Any]]:
        """Yield the JSON path, what is wrong, and the value, of each place of a call that breaks the rule."""
        if not call.captured("input_parameters"):
            return
        for place, value in _values(call.arguments, self.keys):
            if has_mark(value):
                continue
            path = json_path(("input_parameters", *place))
            told = short_json(redact_at_path(value, path))
            if any(_fits(value, wanted) for wanted in self.denied):
                yield path, f"is {told}, which is denied", value
            elif self.allowed is not None and not any(_fits(value, wanted) for wanted in self.allowed):
                yield path, f"is {told}, which is not allowed", value


def _fits(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(value, str) and isinstance(wanted, str):
        return matches(value, [wanted])
    return json_equal(value, wanted)


def _values(
    value: Any,  # noqa: ANN401 - a JSON value
    keys: Sequence[str | int],
    way: tuple[str | int, ...] = (),
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every place that the keys lead to, with its value; what hides on the way hides all that is behind it."""
    if not keys or (isinstance(value, str) and has_mark(value)):
        yield way, value
        return
    key, *rest = keys
    inside: Mapping[str | int, Any] = {}
    if isinstance(value, dict):
        inside = value if key == "*" else {key: value[str(key)]} if str(key) in value else {}
    elif isinstance(value, list):
        inside = {place: item for place, item in enumerate(value) if key == "*" or str(key) == str(place)}
    for step, item in inside.items():
        yield from _values(item, rest, (*way, step))


def read_argument_rules(given: object) -> tuple[ArgumentRule, ...]:
    """Return the rules that an option holds.

    Raises:
        ConfigurationError: It does not map tools to places to allowed or denied values.
    """
    rules: list[ArgumentRule] = []
    for tool, places in _mapping(given, "argument_rules").items():
        where = f"argument_rules[{tool!r}]"
        read_patterns([tool], "argument_rules")
        for path, values in _mapping(places, where).items():
            here = f"{where}[{path!r}]"
            wanted = _mapping(values, here)
            if (
                not wanted
                or set(wanted) - set(_KINDS)
                or not all(isinstance(each, (list, tuple)) for each in wanted.values())
            ):
                message = f"{here} must hold 'allowed' or 'denied' with a list of values, got {short_repr(values)}"
                raise ConfigurationError(message)
            allowed, denied = (
                None if kind not in wanted else tuple(map(to_json_value, wanted[kind])) for kind in _KINDS
            )
            rules.append(ArgumentRule(tool, _keys(path, here), allowed, denied or ()))
    return tuple(rules)


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    message = f"{where} must be a mapping, as in {{'tool': {{'place': {{'denied': [...]}}}}}}, got {short_repr(value)}"
    raise ConfigurationError(message)


def _keys(path: object, where: str) -> tuple[str | int, ...]:
    keys = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(keys, tuple) or not keys or not all(isinstance(key, (str, int)) and key != "" for key in keys):
        message = f"{where}: a place is keys joined by dots, or a tuple of keys, got {path!r}"
        raise ConfigurationError(message)
    return keys
