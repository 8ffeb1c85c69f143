"""Rules for the values of arguments: the places of a call that they apply to, and the values that break them."""

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
"""A place in the arguments: keys joined by dots, or a tuple of them; `*` is every item."""

_KINDS = ("allowed", "denied")


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """One rule for one place in the arguments of the tools that match a name or pattern."""

    tool: str
    keys: tuple[str | int, ...]
    allowed: tuple[Any, ...] | None
    """The values that may be there; `None` for any value."""
    denied: tuple[Any, ...]

    def is_undecided(self, call: ToolCall) -> bool:
        """Return whether a value at the place was not recorded or is redacted."""
        if not call.captured("input_parameters"):
            return True
        return has_mark(call.arguments) and any(has_mark(value) for _, value in _values_at(call.arguments, self.keys))

    def violations(self, call: ToolCall) -> Iterator[tuple[str, str, Any]]:
        """Yield the JSON path, the problem and the value of each place of a call that breaks the rule."""
        if not call.captured("input_parameters"):
            return
        for place, value in _values_at(call.arguments, self.keys):
            if has_mark(value):
                continue
            if _is_one_of(value, self.denied):
                problem = "denied"
            elif self.allowed is not None and not _is_one_of(value, self.allowed):
                problem = "not allowed"
            else:
                continue
            path = json_path(("input_parameters", *place))
            yield path, f"is {short_json(redact_at_path(value, path))}, which is {problem}", value


def _is_one_of(value: Any, options: Sequence[Any]) -> bool:  # noqa: ANN401 - JSON values
    """Return whether a value equals an option; texts may also match an option as a pattern."""
    for option in options:
        both_texts = isinstance(value, str) and isinstance(option, str)
        if matches(value, [option]) if both_texts else json_equal(value, option):
            return True
    return False


def _values_at(
    value: Any,  # noqa: ANN401 - a JSON value
    keys: Sequence[str | int],
    path: tuple[str | int, ...] = (),
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every place that the keys lead to, with its value; a redacted text on the way hides what is inside it."""
    if not keys or (isinstance(value, str) and has_mark(value)):
        yield path, value
        return
    key, *rest = keys
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for step, item in items:
        if key == "*" or str(key) == str(step):
            yield from _values_at(item, rest, (*path, step))


def read_argument_rules(option: object) -> tuple[ArgumentRule, ...]:
    """Return the rules of an option.

    Raises:
        ConfigurationError: The option does not map tools to places to allowed or denied values.
    """
    rules: list[ArgumentRule] = []
    for tool, places in _mapping(option, "argument_rules").items():
        read_patterns([tool], "argument_rules")
        for path, rule in _mapping(places, f"argument_rules[{tool!r}]").items():
            where = f"argument_rules[{tool!r}][{path!r}]"
            values = _read_values(rule, where)
            rules.append(ArgumentRule(tool, _read_keys(path, where), values.get("allowed"), values.get("denied", ())))
    return tuple(rules)


def _read_values(rule: object, where: str) -> dict[str, tuple[Any, ...]]:
    values = _mapping(rule, where)
    if not values or set(values) - set(_KINDS) or not all(isinstance(each, (list, tuple)) for each in values.values()):
        message = f"{where} must contain 'allowed' or 'denied' with a list of values, got {short_repr(rule)}"
        raise ConfigurationError(message)
    return {kind: tuple(map(to_json_value, each)) for kind, each in values.items()}


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    message = f"{where} must be a mapping, as in {{'tool': {{'place': {{'denied': [...]}}}}}}, got {short_repr(value)}"
    raise ConfigurationError(message)


def _read_keys(path: object, where: str) -> tuple[str | int, ...]:
    keys = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(keys, tuple) or not keys or not all(isinstance(key, (str, int)) and key != "" for key in keys):
        message = f"{where}: a place must be keys joined by dots, or a tuple of keys, got {path!r}"
        raise ConfigurationError(message)
    return keys
