"""Validation of call arguments against the JSON Schemas of tools.

The package jsonschema validates: by draft 2020-12, or by the draft that a schema names in `$schema`. A `$ref` that
leads out of the schema is never fetched; such a schema, and an invalid one, decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from toolmark._internal.json import JsonObject, json_path, short_repr
from toolmark._internal.json_schema import build_validator
from toolmark.calls import CallStatus, ToolCall, ToolCallType, ToolSpec
from toolmark.matching.redacted_values import has_mark

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
    _validators: dict[int, Any] = field(default_factory=dict[int, Any], init=False, repr=False)

    def offers(self, call: ToolCall) -> bool:
        """Return whether the called tool was available, or the provider runs it under a name of its own."""
        return any(tool.name == call.name for tool in self.tools) or _provided(call)

    def check(self, call: ToolCall) -> Validation:
        """Validate the arguments of a call.

        Raises:
            MissingPackageError: The tool has a schema, and jsonschema is not installed.
        """
        if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
            return Validation("invalid", (Violation("$.input_parameters", "the arguments are not a JSON object"),))
        specs = [(index, tool) for index, tool in enumerate(self.tools) if tool.name == call.name]
        if not specs:
            return Validation("provided" if _provided(call) else "unknown_tool")
        if not call.captured("input_parameters"):
            return Validation("not_captured")
        if has_mark(call.arguments):  # the mark in place of a hidden value fits no schema, whatever the value was
            return Validation("redacted")
        failures: list[Validation] = []
        for index, tool in specs:
            result = self._validate(index, tool.input_schema, call.arguments)
            if result.fit != "invalid":
                return result
            failures.append(result)
        return failures[0]

    def _validate(self, index: int, schema: JsonObject | None, arguments: JsonObject) -> Validation:
        if schema is None:
            return Validation("no_schema")
        if index not in self._validators:
            self._validators[index] = build_validator(schema, formats=self.formats)
        validator = self._validators[index]
        if isinstance(validator, str):
            return Validation("unusable", note=validator)
        try:
            errors = sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
        except Exception as error:  # noqa: BLE001 - a $ref that leads nowhere, an invalid pattern
            return Validation("unusable", note=f"its input_schema cannot be used ({type(error).__name__}: {error})")
        if not errors:
            return Validation("valid")
        return Validation("invalid", tuple(map(_violation, errors[:MOST_VIOLATIONS])))


def _provided(call: ToolCall) -> bool:
    """Return whether a call is of a provider's or a server's tool, which may be offered under another name or none.

    A call that the recording marks as of an unknown tool is not.
    """
    unknown = call.execution is not None and call.execution.status is CallStatus.UNKNOWN_TOOL
    return call.type in {ToolCallType.HOSTED, ToolCallType.MCP} and not unknown


def _violation(error: Any) -> Violation:  # noqa: ANN401 - an error of jsonschema, which has no types
    keys = tuple(error.absolute_path)
    return Violation(json_path(("input_parameters", *keys)), violation_text(error), keys)


def violation_text(error: Any) -> str:  # noqa: ANN401 - as above
    """Return the text of an error of jsonschema, without the value, which may be long or secret."""
    rule = str(error.validator)
    if rule == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"lacks {', '.join(map(repr, missing))}"
    if rule == "additionalProperties" and error.validator_value is False:
        return f"has arguments that the tool does not take: {', '.join(map(short_repr, not_taken(error)))}"
    return f"does not fit {rule} {short_repr(error.validator_value)}"


def not_taken(error: Any) -> list[str]:  # noqa: ANN401 - as above
    """Return the arguments that a schema with `"additionalProperties": false` does not take."""
    schema: Mapping[str, Any] = error.schema
    patterns = schema.get("patternProperties", {})
    others = [name for name in error.instance if name not in schema.get("properties", {})]
    return [name for name in others if not any(re.search(pattern, name) for pattern in patterns)]
