"""The fields of a run that must be the same everywhere, and their stored values for agents of other libraries."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from parity.scenarios import SCENARIOS
from processes import ROOT
from toolgrade._internal.message_content import hash_images
from toolgrade.cases import MLLMImage, Run
from toolgrade.matching.json_compare import outputs_equal

RECORDS = ROOT / "tests" / "golden" / "parity.json"
"""The fields of each scenario that the frameworks of the three adapters have in common."""


def fields_of(run: Run) -> dict[str, Any]:
    """The fields of a run that must be the same in all frameworks."""
    case = run.to_test_case()
    fields: dict[str, Any] = {
        "input": case.input,
        "actual_output": case.actual_output,
        "status": run.status.value,
        "error": run.error,
        "available_tools": sorted(tool.name for tool in case.available_tools or ()),
        "handoffs": [[handoff.call, handoff.from_agent, handoff.to_agent] for handoff in run.handoffs],
        "failed_handoffs": run.failed_handoffs,
        "images": [part.data for part in run.input_parts or () if isinstance(part, MLLMImage)],
        "warnings": run.warnings,
    }
    return fields | flat([summary_of(call) for call in case.tools_called or ()], "calls")


def summary_of(call: Any) -> dict[str, Any]:
    """The fields of a call that must be the same in all frameworks."""
    how = call.execution
    fields: dict[str, Any] = {"name": call.name, "type": call.type, "id": call.id, "input_parameters": call.arguments}
    fields |= {"status": how.status.value, "step": how.step, "origin": how.origin.value, "attempts": how.attempts}
    fields |= {"agent": how.agent, "error": how.error, "executed": how.executed}
    fields["output"] = call.output if "output" in call.model_fields_set else "(none)"
    fields["children"] = [summary_of(child) for child in how.children]
    return fields


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested calls, by their paths."""
    if isinstance(value, dict) and path.endswith("]"):
        return {key: leaf for name, item in value.items() for key, leaf in flat(item, f"{path}.{name}").items()}
    if isinstance(value, list) and path.rpartition(".")[2] in ("calls", "children"):
        leaves = {f"{path}.length": len(value)}
        for index, item in enumerate(value):
            leaves |= flat(item, f"{path}[{index}]")
        return leaves
    return {path: value}


def is_equal(path: str, one: Any, other: Any) -> bool:
    """Whether a field is the same; outputs by the rule by which they are scored."""
    if path.endswith(".output") and "(none)" not in (one, other):
        # Each framework has its own form of an image, and may want a text beside it; the bytes must be equal.
        images = _images_in(hash_images(one))
        return _images_in(hash_images(other)) == images if images else outputs_equal(one, other)
    return bool(one == other)


def assert_stored(scenario: str, fields: Mapping[str, Any]) -> None:
    """Compares fields with those that are stored for a scenario."""
    stored: dict[str, dict[str, Any]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    if os.environ.get("TOOLGRADE_UPDATE_GOLDEN") == "1":
        stored[scenario] = dict(fields)
        text = json.dumps({name: stored[name] for name in SCENARIOS if name in stored}, indent=1, ensure_ascii=False)
        RECORDS.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert stored[scenario].keys() == fields.keys()
    assert all(is_equal(path, stored[scenario][path], value) for path, value in fields.items())


def _images_in(value: Any) -> list[Any]:
    """Return the hashed images of an output, in their order."""
    if isinstance(value, dict) and "sha256" in value:
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [image for part in parts for image in _images_in(part)]
