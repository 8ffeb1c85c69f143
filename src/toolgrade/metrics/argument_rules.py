"""Rules for the values of arguments: the places of a call that they apply to, and the values that break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolgrade._internal.json import json_items, json_path, short_repr, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import printable, short_json
from toolgrade.calls import ToolCall
from toolgrade.errors import ConfigurationError
from toolgrade.matching.json_compare import has_mark, json_equal
from toolgrade.metrics.called_tools import call_finding, matches, read_patterns
from toolgrade.result import Finding, redact_at_path

Path: TypeAlias = "str | tuple[str | int, ...]"
"""A place in the arguments: keys joined by dots, or a tuple of them; `*` is every item."""

_KINDS = frozenset({"allowed", "denied"})


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """One rule for one place in the arguments of the tools that match a name or pattern."""

    tool: str
    keys: tuple[str | int, ...]
    allowed: tuple[Any, ...] | None
    """The values that may be there; `None` for any value."""
    denied: tuple[Any, ...]

    def check(self, call: ToolCall, index: int) -> tuple[list[Finding], bool]:
        """Return findings for the broken places, and whether a value was not recorded or is redacted."""
        if not matches(call.name, [self.tool]):
            return [], False
        if not call.captured("input_parameters"):
            return [], True
        values = list(_values_at(call.arguments, self.keys))
        findings = [self._finding(call, index, path, value) for path, value in values if self._problem(value)]
        return findings, any(has_mark(value) for _, value in values)

    def _problem(self, value: Any) -> str:  # noqa: ANN401 - a JSON value
        """Return how a value breaks the rule; empty if it does not, or if it is redacted."""
        if has_mark(value):
            return ""
        if _is_one_of(value, self.denied):
            return "denied"
        return "" if self.allowed is None or _is_one_of(value, self.allowed) else "not allowed"

    def _finding(self, call: ToolCall, index: int, place: tuple[str | int, ...], value: object) -> Finding:
        path = json_path(("input_parameters", *place))
        text = f"{printable(path)} is {short_json(redact_at_path(value, path))}, which is {self._problem(value)}"
        detail = f", {text}, by the rule for {printable(self.tool)!r}"
        value = to_json_value(value)  # a copy: the case may change
        return call_finding(
            "forbidden_argument", "Forbidden argument", call, index, detail, path=path, called_value=value
        )


def _is_one_of(value: Any, options: Sequence[Any]) -> bool:  # noqa: ANN401 - JSON values
    """Return whether a value equals an option; texts may also match an option as a pattern."""
    if isinstance(value, str):
        return matches(value, [option for option in options if isinstance(option, str)])
    return any(json_equal(value, option) for option in options)


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
    for step, item in json_items(value):
        if str(key) in ("*", str(step)):
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
    are_lists = all(isinstance(each, (list, tuple)) for each in values.values())
    is_valid = values and _KINDS.issuperset(values) and are_lists
    require(is_valid, f"{where} must contain 'allowed' or 'denied' with a list of values", rule)
    return {kind: tuple(map(to_json_value, each)) for kind, each in values.items()}


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    expected = "must be a mapping, as in {'tool': {'place': {'denied': [...]}}}"
    raise ConfigurationError(f"{where} {expected}, got {short_repr(value)}")


def _read_keys(path: object, where: str) -> tuple[str | int, ...]:
    keys = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(keys, tuple) or not keys or not all(map(_is_key, keys)):
        raise ConfigurationError(f"{where}: a place must be keys joined by dots, or a tuple of keys, got {path!r}")
    return keys


def _is_key(key: object) -> bool:
    return isinstance(key, (str, int)) and key != ""
