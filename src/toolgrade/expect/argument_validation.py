"""Validation of call arguments against the JSON Schemas of tools.

By draft 2020-12, or by the draft that a schema names in `$schema`. A `$ref` that leads out of the schema is never
fetched; such a schema, and an invalid one, decides nothing. Every value is decided, however large or deep it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from toolgrade._internal.json import JsonObject, json_path, short_repr
from toolgrade.calls import CallStatus, ToolCall, ToolCallType, ToolSpec
from toolgrade.expect.json_schema import TOO_DEEP, BrokenRule, BrokenSchemaError, Validator, build_validator
from toolgrade.matching.redacted_values import has_mark

MOST_VIOLATIONS = 10
"""Violations of one call that are reported."""

Fit: TypeAlias = Literal[
    "valid", "invalid", "unknown_tool", "provided", "not_captured", "redacted", "no_schema", "unusable"
]
"""Result of validating the arguments of a call, see `Validation`."""


class Violation(NamedTuple):
    """One argument that does not fit its schema.

    `message` does not contain the value, which may be long or secret. `keys` lead from the argument object to the
    place.
    """

    path: str
    message: str
    keys: tuple[str | int, ...] = ()


class Validation(NamedTuple):
    """Result of validating the arguments of one call; `note` says why a schema is unusable.

    `fit` is `valid`, `invalid` (also for text that is not a JSON object), or why the arguments cannot be validated:
    there is no such tool (`unknown_tool`), the provider runs it under a name of its own (`provided`), the arguments
    were not recorded (`not_captured`) or are partly hidden (`redacted`), the tool has no schema (`no_schema`) or a
    broken one (`unusable`).
    """

    fit: Fit
    violations: tuple[Violation, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Schemas:
    """Schemas of the available tools; of several tools with one name, a call must fit one.

    With `formats` the keyword `format` is validated too, as far as `FORMATS` goes.
    """

    tools: Sequence[ToolSpec]
    formats: bool = False
    _validators: dict[int, Validator | str] = field(default_factory=dict[int, Validator | str], init=False, repr=False)

    def offers(self, call: ToolCall) -> bool:
        """Return whether the called tool was available, or the provider runs it under a name of its own."""
        return any(tool.name == call.name for tool in self.tools) or _provided(call)

    def check(self, call: ToolCall) -> Validation:
        """Validate the arguments of a call.

        Raises:
            LimitError: Checking the calls of this case needs more steps or time than it may take.
        """
        if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
            return Validation("invalid", (Violation("$.input_parameters", "the arguments are not a JSON object"),))
        specs = [(index, tool) for index, tool in enumerate(self.tools) if tool.name == call.name]
        if not specs:
            return Validation("provided" if _provided(call) else "unknown_tool")
        if not call.captured("input_parameters"):
            return Validation("not_captured")
        # The mark in place of a hidden value fits no schema, whatever the value was.
        return Validation("redacted") if has_mark(call.arguments) else self._best(specs, call.arguments)

    def _best(self, specs: Sequence[tuple[int, ToolSpec]], arguments: JsonObject) -> Validation:
        # Of several tools of one name, that fits whose schema does.
        results = [self._validate(index, tool.input_schema, arguments) for index, tool in specs]
        return next((result for result in results if result.fit != "invalid"), results[0])

    def _validate(self, index: int, schema: JsonObject | None, arguments: JsonObject) -> Validation:
        if schema is None:
            return Validation("no_schema")
        if index not in self._validators:
            self._validators[index] = build_validator(schema, formats=self.formats)
        validator = self._validators[index]
        if isinstance(validator, str):
            return Validation("unusable", note=validator)
        try:
            broken = sorted(validator.broken_rules(arguments), key=lambda rule: list(map(str, rule.keys)))
        except BrokenSchemaError as error:
            return Validation("unusable", note=f"its input_schema cannot be used: {error}")
        if not broken:
            return Validation("valid")
        return Validation("invalid", tuple(map(_violation, broken[:MOST_VIOLATIONS])))


def _provided(call: ToolCall) -> bool:
    """Return whether a call is of a provider's or a server's tool, which may be offered under another name or none.

    A call that the recording marks as of an unknown tool is not.
    """
    unknown = call.execution is not None and call.execution.status is CallStatus.UNKNOWN_TOOL
    return call.type in {ToolCallType.HOSTED, ToolCallType.MCP} and not unknown


def _violation(broken: BrokenRule) -> Violation:
    return Violation(json_path(("input_parameters", *broken.keys)), violation_text(broken), broken.keys)


def violation_text(broken: BrokenRule) -> str:
    """Return the text of a broken rule, without the value, which may be long or secret."""
    if broken.rule == "required":
        return f"lacks {', '.join(repr(name) for name in broken.limit if name not in broken.value)}"
    if broken.rule == "additionalProperties" and broken.limit is False:
        return f"has arguments that the tool does not take: {', '.join(map(short_repr, broken.other_names()))}"
    if broken.rule == TOO_DEEP:
        return f"is deeper than {broken.limit} levels of lists and objects"
    if broken.rule is None:
        return "is not allowed: its schema is false"
    return f"does not fit {broken.rule} {short_repr(broken.limit)}"
