"""Rules for the values of arguments: the places of a call that they apply to, and the values that break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolmark._internal.json import json_path, short_repr, to_json_value
from toolmark._internal.text import printable, short_json
from toolmark.calls import ToolCall
from toolmark.errors import ConfigurationError
from toolmark.matching.json_compare import json_equal
from toolmark.matching.redacted_values import has_mark
from toolmark.metrics.base import call_finding
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding, redact_at_path

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

    def check(self, call: ToolCall, index: int) -> tuple[list[Finding], bool]:
        """Return findings for the broken places, and whether a value was not recorded or is redacted."""
        if not call.captured("input_parameters"):
            return [], True
        findings: list[Finding] = []
        is_hidden = False
        for place, value in _values_at(call.arguments, self.keys):
            if has_mark(value):
                is_hidden = True
                continue
            if _is_one_of(value, self.denied):
                problem = "denied"
            elif self.allowed is not None and not _is_one_of(value, self.allowed):
                problem = "not allowed"
            else:
                continue
            path = json_path(("input_parameters", *place))
            text = f"{printable(path)} is {short_json(redact_at_path(value, path))}, which is {problem}"
            detail = f", {text}, by the rule for {printable(self.tool)!r}"
            findings.append(
                call_finding(
                    "forbidden_argument", "Forbidden argument", call, index, detail, path=path, called_value=value
                )
            )
        return findings, is_hidden


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
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inside:
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
        expected = "must contain 'allowed' or 'denied' with a list of values"
        raise ConfigurationError(f"{where} {expected}, got {short_repr(rule)}")
    return {kind: tuple(map(to_json_value, each)) for kind, each in values.items()}


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    expected = "must be a mapping, as in {'tool': {'place': {'denied': [...]}}}"
    raise ConfigurationError(f"{where} {expected}, got {short_repr(value)}")


def _read_keys(path: object, where: str) -> tuple[str | int, ...]:
    keys = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(keys, tuple) or not keys or not all(isinstance(key, (str, int)) and key != "" for key in keys):
        raise ConfigurationError(f"{where}: a place must be keys joined by dots, or a tuple of keys, got {path!r}")
    return keys
