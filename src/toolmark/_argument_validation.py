"""Do the arguments of a call fit the JSON Schema of its tool?

Schemas are checked by the package jsonschema: draft 2020-12, and whatever other draft a schema names in `$schema`. A
`$ref` that leads out of the schema is never fetched; such a schema, and one that is invalid, decides nothing.
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
"""Violations of one call that are told."""

Fit: TypeAlias = Literal[
    "valid", "invalid", "unknown_tool", "provided", "not_captured", "redacted", "no_schema", "unusable"
]
"""What can be said of a call's arguments: see `Checked`."""


class Violation(NamedTuple):
    """One argument that does not fit.

    Attributes:
        path: JSON path within the call.
        message: What is wrong there, without the value: that may be long, or a secret.
        keys: The keys and positions that lead from the argument object to the place.
    """

    path: str
    message: str
    keys: tuple[str | int, ...] = ()


class Checked(NamedTuple):
    """What a schema says of the arguments of a call.

    Attributes:
        fit: `valid`; `invalid` (also text that is no JSON object); or why nothing can be said: there is no such tool
            (`unknown_tool`), it is the provider's, under a name of its own (`provided`), the arguments were not
            recorded (`not_captured`) or are hidden in part (`redacted`), the tool has no schema (`no_schema`) or one
            that is broken (`unusable`).
        violations: What is wrong, at most ten.
        note: Why the schema cannot be used.
    """

    fit: Fit
    violations: tuple[Violation, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Schemas:
    """Checks calls against the schemas of the tools that were available.

    Attributes:
        tools: The tools. Of several with one name, a call must fit one.
        formats: Check `format` too, as far as `FORMATS` goes.
    """

    tools: Sequence[ToolSpec]
    formats: bool = False
    _made: dict[int, Any] = field(default_factory=dict[int, Any], init=False, repr=False)

    def known(self, call: ToolCall) -> bool:
        """Return whether a tool of this name was available, or is one that the provider has under a name of its own."""
        return any(tool.name == call.name for tool in self.tools) or _provided(call)

    def check(self, call: ToolCall) -> Checked:
        """Return what can be said of a call's arguments.

        Raises:
            MissingPackageError: The tool has a schema, and jsonschema is not installed.
        """
        if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
            return Checked("invalid", (Violation("$.input_parameters", "what was written is no JSON object"),))
        specs = [(index, tool) for index, tool in enumerate(self.tools) if tool.name == call.name]
        if not specs:
            return Checked("provided" if _provided(call) else "unknown_tool")
        if not call.captured("input_parameters"):
            return Checked("not_captured")
        if has_mark(call.arguments):  # a hidden value fits no schema, whatever it was
            return Checked("redacted")
        found: list[Checked] = []
        for index, tool in specs:
            if tool.input_schema is None:
                return Checked("no_schema")
            checked = self._against(index, tool.input_schema, call.arguments)
            if checked.fit != "invalid":
                return checked
            found.append(checked)
        return found[0]

    def _against(self, index: int, schema: JsonObject, arguments: JsonObject) -> Checked:
        if index not in self._made:
            self._made[index] = build_validator(schema, formats=self.formats)
        validator = self._made[index]
        if isinstance(validator, str):
            return Checked("unusable", note=validator)
        try:
            errors = sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
        except Exception as error:  # noqa: BLE001 - a $ref that leads nowhere, a pattern that is none
            return Checked("unusable", note=f"its input_schema cannot be used ({type(error).__name__}: {error})")
        if not errors:
            return Checked("valid")
        return Checked("invalid", tuple(map(_violation, errors[:MOST_VIOLATIONS])))


def _provided(call: ToolCall) -> bool:
    """Return whether a call is of a tool of the provider or of a server, which are offered under other names, or none.

    One whose recording says that there is no such tool is none.
    """
    unknown = call.execution is not None and call.execution.status is CallStatus.UNKNOWN_TOOL
    return call.type in {ToolCallType.HOSTED, ToolCallType.MCP} and not unknown


def _violation(error: Any) -> Violation:  # noqa: ANN401 - an error of jsonschema, which has no types
    keys = tuple(error.absolute_path)
    return Violation(json_path(("input_parameters", *keys)), violation_text(error), keys)


def violation_text(error: Any) -> str:  # noqa: ANN401 - as above
    """Return what an error of jsonschema says, without the value: that may be long, or a secret."""
    rule = str(error.validator)
    if rule == "required":
        lacking = [name for name in error.validator_value if name not in error.instance]
        return f"lacks {', '.join(map(repr, lacking))}"
    if rule == "additionalProperties" and error.validator_value is False:
        return f"has arguments that the tool does not take: {', '.join(map(short_repr, not_taken(error)))}"
    return f"does not fit {rule} {short_repr(error.validator_value)}"


def not_taken(error: Any) -> list[str]:  # noqa: ANN401 - as above
    """Return the arguments that a schema with `"additionalProperties": false` does not take."""
    schema: Mapping[str, Any] = error.schema
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name for name in error.instance if name not in known and not any(re.search(text, name) for text in patterns)
    ]
