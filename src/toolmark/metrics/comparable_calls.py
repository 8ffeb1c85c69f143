"""Calls as the matching algorithms see them, and what could not be compared of them."""

from __future__ import annotations

from typing import Any

from toolmark._internal.images import hash_images
from toolmark.calls import ToolCall
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.json_compare import ABSENT


def compared_in_part(alignment: Alignment) -> list[str]:
    """Return what makes the score less sure: calls that were compared only in part."""
    pairs = (*alignment.pairs, *alignment.out_of_order)
    notes: list[str] = []
    if any(len(pair.not_compared) > len(pair.redacted) for pair in pairs):
        notes.append("some calls were compared without fields that the recording did not keep")
    if any(pair.redacted for pair in pairs):
        notes.append("some calls were compared without values that are redacted")
    return notes


def expected_item(call: ToolCall, *, output: bool = False) -> Item:
    """Return an expected call as it is compared: what it does not specify is absent."""
    given = call.model_fields_set
    return Item(
        call.name,
        None if call.type is None else call.type.value,
        call.arguments if "input_parameters" in given else ABSENT,
        _output(call, output=output) if "output" in given else ABSENT,
    )


def called_item(call: ToolCall, *, output: bool = False) -> Item:
    """Return a called tool as it is compared: what the recording did not keep is absent."""
    kind = None if call.type is None else call.type.value
    return Item(
        call.name,
        kind if call.captured("type") else ABSENT,
        call.arguments if call.captured("input_parameters") else ABSENT,
        _output(call, output=output) if call.captured("output") else ABSENT,
    )


def _output(call: ToolCall, *, output: bool) -> Any:  # noqa: ANN401 - a JSON value
    """Return the output of a call as it is compared, if it is: images by their content, in whatever form they came."""
    return hash_images(call.output) if output else call.output
