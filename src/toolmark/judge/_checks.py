"""What code can decide about a call, so that no judge is asked: is there such a tool, do the arguments fit its schema?

Schemas are checked by the package jsonschema: draft 2020-12, and whatever other draft a schema names in `$schema`. A
`$ref` that leads out of the schema is never fetched; such a schema, and one that is invalid, decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, NamedTuple

from toolmark._json import JsonObject, json_path, short_repr
from toolmark.calls import CallStatus, ToolCall, ToolSpec
from toolmark.errors import MissingPackageError
from toolmark.matching import has_mark

MOST_VIOLATIONS = 10
"""Violations of one call that are told."""


class Violation(NamedTuple):
    """One argument that does not fit.

    Attributes:
        path: JSON path within the call.
        message: What is wrong there.
    """

    path: str
    message: str


class Checked(NamedTuple):
    """What code says of the arguments of a call.

    Attributes:
        state: `invalid` (they are wrong), `open` (a judge must be asked), `unknown` (nobody can tell: they were not
            recorded, or there is no such tool).
        violations: What is wrong.
        note: Why a schema could not be used.
    """

    state: Literal["invalid", "open", "unknown"]
    violations: tuple[Violation, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Checks:
    """Checks calls against the tools that were available.

    Attributes:
        tools: The tools. Of several with one name, a call must fit one.
    """

    tools: Sequence[ToolSpec]
    _made: dict[int, Any] = field(default_factory=dict[int, Any], init=False, repr=False)

    def known(self, call: ToolCall) -> bool:
        """Return whether a tool of this name was available."""
        return any(tool.name == call.name for tool in self.tools)

    def arguments(self, call: ToolCall) -> Checked:
        """Return what code can say of a call's arguments.

        Raises:
            MissingPackageError: The tool has a schema, and jsonschema is not installed.
        """
        if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
            return Checked("invalid", (Violation("$.input_parameters", "what was written is no JSON object"),))
        specs = [(index, tool) for index, tool in enumerate(self.tools) if tool.name == call.name]
        if not specs or not call.captured("input_parameters"):
            return Checked("unknown")
        if has_mark(call.arguments):  # a hidden value fits no schema, whatever it was
            return Checked("open")
        found: list[Checked] = []
        for index, tool in specs:
            if tool.input_schema is None:
                return Checked("open")
            checked = self._against(index, tool.input_schema, call.arguments)
            if checked.state == "open":
                return checked
            found.append(checked)
        return found[0]

    def _against(self, index: int, schema: JsonObject, arguments: JsonObject) -> Checked:
        if index not in self._made:
            self._made[index] = _validator(schema)
        validator = self._made[index]
        if isinstance(validator, str):
            return Checked("open", note=validator)
        try:
            errors = sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
        except Exception as error:  # noqa: BLE001 - a $ref that leads nowhere, a pattern that is none
            return Checked("open", note=f"its input_schema cannot be used ({type(error).__name__}: {error})")
        if not errors:
            return Checked("open")
        return Checked(
            "invalid",
            tuple(
                Violation(json_path(("input_parameters", *error.absolute_path)), _sentence(error))
                for error in errors[:MOST_VIOLATIONS]
            ),
        )


def _sentence(error: Any) -> str:  # noqa: ANN401 - an error of jsonschema, which has no types
    """Return what is wrong, without the value: that may be long, or a secret."""
    rule = str(error.validator)
    if rule == "required":
        lacking = [name for name in error.validator_value if name not in error.instance]
        return f"lacks {', '.join(map(repr, lacking))}"
    if rule == "additionalProperties":
        return "has arguments that the tool does not take"
    return f"does not fit {rule} {short_repr(error.validator_value)}"


def _validator(schema: JsonObject) -> Any:  # noqa: ANN401 - of jsonschema, which has no types; or why there is none
    try:
        jsonschema = import_module("jsonschema")
        referencing = import_module("referencing")
    except ImportError as error:
        purpose = "judging the arguments of a tool that has an input_schema"
        raise MissingPackageError.of("jsonschema", "judge", purpose) from error
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a schema, it is no reason to fail
        return f"its input_schema is invalid ({str(error).splitlines()[0]})"
    return kind(schema, registry=referencing.Registry())  # an empty one: the default would fetch
