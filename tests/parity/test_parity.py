"""Equal test cases from one scenario in three frameworks, except for documented differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import libraries
from parity.differences import DIFFERENCES, is_documented, table
from parity.players import FRAMEWORKS, Converse, converse, converse_in_processes, is_complete, play, player
from parity.records import assert_stored, fields_of, flat, is_equal, summary_of
from parity.scenarios import CONVERSATIONS, PROGRAMS, SCENARIOS
from processes import assert_section
from toolgrade.cases import Run

PAGE = Path(__file__).with_name("README.md")

with_frameworks = pytest.mark.skipif(not is_complete(), reason="the core is tested alone, without the frameworks")


def played(framework: str, scenario: str) -> Run:
    """The run of a scene or of a program."""
    if scenario in PROGRAMS:
        return PROGRAMS[scenario](player(framework))
    return play(framework, SCENARIOS[scenario]()).run


@with_frameworks
@pytest.mark.parametrize("scenario", [*SCENARIOS, *PROGRAMS])
def test_a_scenario_is_the_same_everywhere(scenario: str) -> None:
    """Name, arguments, output, status, step, order, agent, nesting, hand-overs, images, and how the run ended."""
    runs = {framework: fields_of(played(framework, scenario)) for framework in FRAMEWORKS}
    differences = {(one.framework, one.field): one for one in DIFFERENCES if one.scenario == scenario}
    for (framework, field), difference in differences.items():
        assert is_documented(difference, runs[framework][field]), f"{framework}: {field} is {runs[framework][field]!r}"

    common: dict[str, Any] = {}
    for path in sorted({path for fields in runs.values() for path in fields}):
        # A call that a framework has not, has no fields either; the numbers of calls are compared as `length`.
        same = {
            name: fields[path] for name, fields in runs.items() if path in fields and (name, path) not in differences
        }
        values = list(same.values())
        assert all(is_equal(path, values[0], value) for value in values[1:]), f"{path}: {same}"
        if values:
            common[path] = values[-1]
    if scenario in SCENARIOS:
        assert_stored(scenario, common)


@with_frameworks
@pytest.mark.parametrize("play", [converse, converse_in_processes])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_the_same_everywhere(name: str, play: Converse) -> None:
    """Turns are split alike, and each has its own calls, also if each turn is recorded by another process."""
    turns_by_framework = {}
    for framework in FRAMEWORKS:
        case = play(framework, [make() for make in CONVERSATIONS[name]])
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


def test_the_page_has_the_table() -> None:
    """The documented differences are those that occur."""
    assert_section(PAGE, table(len(SCENARIOS) + len(PROGRAMS)))


def test_the_page_has_the_table_of_libraries() -> None:
    """It shows the differences that the tests of the libraries wrote, with a reason for each field."""
    assert_section(PAGE, libraries.table(), "libraries, ")


def test_each_difference_of_a_library_has_a_reason() -> None:
    """There is no reason for what does not differ."""
    assert libraries.differing_fields() == {name: set(reasons) for name, reasons in libraries.REASONS.items()}
