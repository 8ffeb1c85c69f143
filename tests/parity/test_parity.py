"""Equal test cases from one scenario in three frameworks, except for documented differences."""

from __future__ import annotations

from typing import Any

import pytest

from parity.differences import DIFFERENCES, is_documented, table
from parity.players import FRAMEWORKS, converse, is_complete, play, player, summary_of
from parity.scenarios import CONVERSATIONS, PROGRAMS, SCENARIOS
from processes import ROOT, assert_section
from toolmark._internal.images import hash_images
from toolmark.cases import MLLMImage, Run
from toolmark.matching.json_compare import outputs_equal

pytestmark = pytest.mark.skipif(not is_complete(), reason="the core is tested alone, without the frameworks")


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


def fields_of(run: Any) -> dict[str, Any]:
    """What of a run must be the same in all frameworks."""
    case = run.to_test_case()
    fields: dict[str, Any] = {
        "input": case.input,
        "actual_output": case.actual_output,
        "status": run.status.value,
        "error": run.error,
        "available_tools": sorted(tool.name for tool in case.available_tools or ()),
        "handoffs": [(handoff.call, handoff.from_agent, handoff.to_agent) for handoff in run.handoffs],
        "failed_handoffs": run.failed_handoffs,
        "images": [part.data for part in run.input_parts or () if isinstance(part, MLLMImage)],
        "warnings": run.warnings,
    }
    return fields | flat([summary_of(call) for call in case.tools_called], "calls")


def is_equal(path: str, one: Any, other: Any) -> bool:
    """Whether a field is the same; outputs by the rule by which they are scored."""
    if path.endswith(".output") and "(none)" not in (one, other):
        # Each framework has its own form of an image, and may want a text beside it; the bytes must be equal.
        images = images_in(hash_images(one))
        return images_in(hash_images(other)) == images if images else outputs_equal(one, other)
    return bool(one == other)


def played(framework: str, scenario: str) -> Run:
    """The run of a scene or of a program."""
    if scenario in PROGRAMS:
        return PROGRAMS[scenario](player(framework))
    return play(framework, SCENARIOS[scenario]()).run


def images_in(value: Any) -> list[Any]:
    """Return the hashed images of an output, in their order."""
    if isinstance(value, dict) and "sha256" in value:
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [image for part in parts for image in images_in(part)]


@pytest.mark.parametrize("scenario", [*SCENARIOS, *PROGRAMS])
def test_a_scenario_is_the_same_everywhere(scenario: str) -> None:
    """Name, arguments, output, status, step, order, agent, nesting, hand-overs, images, and how the run ended."""
    runs = {framework: fields_of(played(framework, scenario)) for framework in FRAMEWORKS}
    differences = {(one.framework, one.field): one for one in DIFFERENCES if one.scenario == scenario}
    for (framework, field), difference in differences.items():
        assert is_documented(difference, runs[framework][field]), f"{framework}: {field} is {runs[framework][field]!r}"

    for path in sorted({path for fields in runs.values() for path in fields}):
        # A call that a framework has not, has no fields either; the numbers of calls are compared as `length`.
        same = {
            name: fields[path] for name, fields in runs.items() if path in fields and (name, path) not in differences
        }
        values = list(same.values())
        assert all(is_equal(path, values[0], value) for value in values[1:]), f"{path}: {same}"


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_the_same_everywhere(name: str) -> None:
    """Turns are split alike, and each has its own calls."""
    turns_by_framework = {}
    for framework in FRAMEWORKS:
        case = converse(framework, [make() for make in CONVERSATIONS[name]])
        turns = [
            (turn.role, turn.content, flat([summary_of(call) for call in turn.tools_called or ()], "calls"))
            for turn in case.turns
        ]
        turns_by_framework[framework] = turns

    first, *others = turns_by_framework.values()
    for other in others:
        assert [turn[:2] for turn in other] == [turn[:2] for turn in first]
        for (_, _, left), (_, _, right) in zip(first, other, strict=True):
            assert left.keys() == right.keys()
            assert all(is_equal(path, left[path], right[path]) for path in left if not path.endswith(".error"))
    assert [role for role, _, _ in first] == ["user", "assistant"] * len(CONVERSATIONS[name])


def test_scenarios_of_the_table_exist() -> None:
    """The table has only existing scenarios and frameworks."""
    assert len(SCENARIOS) >= 25
    assert {one.scenario for one in DIFFERENCES} <= {*SCENARIOS, *PROGRAMS}
    assert {one.framework for one in DIFFERENCES} == set(FRAMEWORKS)


def test_the_documentation_has_the_table() -> None:
    """The documented differences are those that occur."""
    assert_section(ROOT / "docs" / "parity.md", table(len(SCENARIOS) + len(PROGRAMS)))
