"""Calls in the form that the matching algorithms compare."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from toolgrade._internal.images import hash_images
from toolgrade._internal.json import json_text
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.matching.alignment import CallItem
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.json_compare import ABSENT, AbsentType

Compare: TypeAlias = Literal["exact", "meaning"]
"""How arguments without matchers are compared: as JSON values, or by meaning (`toolgrade.expect.SameMeaning`)."""


def expected_item(call: ToolCall, *, output: bool = False) -> CallItem:
    """Return an expected call for comparison; unset fields are absent. With `output`, images compare by content."""
    fields = call.__pydantic_fields_set__  # `model_fields_set` is a property, and this runs for each call
    kind = call.type
    return CallItem(
        call.name,
        kind if kind is None else kind.value,
        _comparable_arguments(call) if "input_parameters" in fields else ABSENT,
        _comparable_output(call, output=output) if "output" in fields else ABSENT,
    )


def called_item(call: ToolCall, *, output: bool = False) -> CallItem:
    """Return a called tool for comparison; fields that were not recorded are absent."""
    kind = None if call.type is None else call.type.value
    missing = () if call.execution is None else call.execution.not_captured
    return CallItem(
        call.name,
        ABSENT if "type" in missing else kind,
        ABSENT if "input_parameters" in missing else _comparable_arguments(call),
        ABSENT if "output" in missing else _comparable_output(call, output=output),
    )


def name_alone(call: ToolCall) -> CallItem:
    """Return a call for comparison that has no partner."""
    return CallItem(call.name, None, ABSENT, ABSENT)


def _comparable_arguments(call: ToolCall) -> dict[str, Any] | str:
    """Return the argument object, or the text that a model wrote instead, which equals no object."""
    if call.execution is None or call.execution.status is not CallStatus.INVALID_ARGUMENTS:
        return call.input_parameters or {}
    text = call.execution.requested_parameters
    return text if isinstance(text, str) else json_text(text)


def _comparable_output(call: ToolCall, *, output: bool) -> Any:  # noqa: ANN401 - a JSON value
    return hash_images(call.output) if output else call.output


def item_by_meaning(item: CallItem) -> CallItem:
    """Return an expected call whose arguments are compared by meaning, except where they are matchers."""
    arguments = item.arguments
    if isinstance(arguments, (AbsentType, str)):
        return item
    from toolgrade.expect.meaning import by_meaning  # noqa: PLC0415 - most metrics compare exact values

    template = Template.of(arguments)
    return item._replace(arguments=Template(by_meaning(dict(template.tree)), template.extras, by_meaning=True))
