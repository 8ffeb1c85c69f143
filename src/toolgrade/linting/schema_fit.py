"""Checks of expected arguments against the JSON Schema of their tool.

A matcher may accept any value, so it has no problem. Only proven problems are reported: those that no value in the
place of a matcher avoids, and arguments that the tool does not take, also if they may be left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolgrade._internal.json import canonical_json, json_path
from toolgrade._internal.text import join_first, short_json
from toolgrade.calls import ToolSpec
from toolgrade.errors import LimitError
from toolgrade.expect import Absent, Exact, Matcher
from toolgrade.expect.json_schema import BrokenRule, BrokenSchemaError, Validator, build_validator, violation_text
from toolgrade.result import redact_at_path

Steps: TypeAlias = "tuple[str | int, ...]"

_SHALLOW_RULES = frozenset({"type", "required", "additionalProperties", "minItems", "maxItems"})
"""Rules that depend on the type, the keys or the length of an object or list, but not on the values inside."""

_MOST_NAMES = 50
"""Names that a suggestion compares, or lists."""

_CONDITIONS = frozenset({"then", "else", "dependentSchemas", "dependencies", "propertyNames"})
"""Parts of a schema that apply depending on other values."""


@dataclass(frozen=True)
class Misfit:
    """A problem at the place that the keys lead to; if `broken` is true, the schema itself cannot be used."""

    keys: Steps
    message: str
    broken: bool = False


@dataclass(frozen=True)
class Tools:
    """The available tools (`None` if they are unknown), and the validators of their schemas."""

    specs: Sequence[ToolSpec] | None
    validators: dict[str, Validator | str] = field(default_factory=dict[str, Validator | str], repr=False)

    def of(self, specs: Sequence[ToolSpec] | None) -> Tools:
        """Return other tools that share the validators, so that each is built once."""
        return Tools(specs, self.validators)

    def named(self, accepts: Callable[[str], bool]) -> list[ToolSpec]:
        """Return the tools whose names are accepted."""
        return [spec for spec in self.specs or () if accepts(spec.name)]

    def misfits(self, specs: Sequence[ToolSpec], arguments: Mapping[str, Any], *, extras: bool) -> list[Misfit]:
        """Return the problems of expected arguments with the first tool, or none if they fit any of the tools.

        With `extras`, a call may also have arguments that are not expected.
        """
        by_tool: list[list[Misfit]] = []
        for spec in specs:
            by_tool.append(list(dict.fromkeys(self._misfits_with_tool(spec, arguments, extras=extras))))
            if not by_tool[-1]:
                return []
        return by_tool[0] if by_tool else []

    def _misfits_with_tool(self, spec: ToolSpec, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
        if spec.input_schema is None:
            return
        try:
            yield from _proven_misfits(self._validator(spec.input_schema), arguments, extras=extras)
        except (BrokenSchemaError, LimitError) as fault:
            yield Misfit((), f"the tool {spec.name!r} cannot be checked against: {fault}", broken=True)

    def _validator(self, schema: dict[str, Any]) -> Validator:
        key = canonical_json(schema)
        if key not in self.validators:
            self.validators[key] = build_validator(schema, formats=False)
        validator = self.validators[key]
        if isinstance(validator, str):  # `build_validator` returns the reason why a schema is invalid
            raise BrokenSchemaError(validator)
        return validator


def _proven_misfits(validator: Validator, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
    """Yield the problems that expected arguments have whatever a call has where matchers are, or beside them."""
    matchers: set[Steps] = set()
    value = _without_matchers(dict(arguments), (), matchers)
    has_choices = extras or bool(matchers)
    for error in validator.broken_rules(value):
        is_of_matcher = any(error.keys[:length] in matchers for length in range(len(error.keys) + 1))
        if not is_of_matcher and (not has_choices or _depends_on_one_value(error)):
            yield from _misfits_of_error(error, arguments, extras=extras)


def _without_matchers(node: Any, steps: Steps, matchers: set[Steps]) -> Any:
    """Return expected arguments with null in the place of each matcher, and add these places to `matchers`."""
    if isinstance(node, Exact):
        return node.value
    if isinstance(node, Matcher):
        matchers.add(steps)
        return None
    if isinstance(node, dict):
        items = [(key, item) for key, item in node.items() if not isinstance(item, Absent)]
        return {key: _without_matchers(item, (*steps, key), matchers) for key, item in items}
    if isinstance(node, list):
        return [_without_matchers(item, (*steps, index), matchers) for index, item in enumerate(node)]
    return node


def _misfits_of_error(error: BrokenRule, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
    """Yield the problems in one error of the validator: one for each argument that is missing or not accepted."""
    keys = error.keys
    if error.rule == "required":
        for name in error.limit:
            # At the top level, a call with further arguments may have the one that is missing here.
            may_be_extra = extras and not keys and name not in arguments
            if name not in error.value and not may_be_extra:
                yield Misfit((*keys, name), f"lacks {name!r}, which the tool requires")
    elif error.rule == "additionalProperties" and error.limit is False:
        properties = list(error.schema.get("properties", {}))
        for name in error.other_names():
            yield Misfit((*keys, name), f"the tool does not take {name!r}; {suggestion(name, properties, 'it takes')}")
    else:
        value = short_json(redact_at_path(error.value, json_path(keys)))
        yield Misfit(keys, f"{value} {violation_text(error)}")


def suggestion(name: str, names: Sequence[str], verb: str) -> str:
    """Return `did you mean 'x'?` with the nearest of these names, or all of them after the verb."""
    # Comparing names letter by letter is slow: of many names, only those that begin alike are compared.
    close = names if len(names) <= _MOST_NAMES else [one for one in names if one[:2] == name[:2]][:_MOST_NAMES]
    near = difflib.get_close_matches(name, close, n=1)
    listed = join_first(list(map(repr, names[: _MOST_NAMES + 1])), _MOST_NAMES)
    return f"did you mean {near[0]!r}?" if near else f"{verb} {listed or 'none'}"


def _depends_on_one_value(error: BrokenRule) -> bool:
    """Return whether an error depends on one value alone, so that no choice for another value avoids it.

    An error under a condition depends on the values that the condition tests. An error of an object or list depends on
    all values inside, unless the rule is a shallow one.
    """
    if not _CONDITIONS.isdisjoint(map(str, error.schema_keys)):
        return False
    return not isinstance(error.value, (dict, list)) or error.rule in _SHALLOW_RULES
