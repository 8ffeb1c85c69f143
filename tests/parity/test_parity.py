"""Equal test cases from one scenario in three frameworks, except for documented differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import libraries
from parity.differences import DIFFERENCES, is_documented, table
from parity.players import FRAMEWORKS, is_complete, play
from parity.records import assert_stored, fields_of, is_equal
from parity.scenarios import SCENARIOS
from processes import assert_section

PAGE = Path(__file__).with_name("README.md")

with_frameworks = pytest.mark.skipif(not is_complete(), reason="the core is tested alone, without the frameworks")


@with_frameworks
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_is_the_same_everywhere(scenario: str) -> None:
    """Name, arguments, output, status, step, order, agent, nesting, hand-overs, images, and how the run ended."""
    runs = {framework: fields_of(play(framework, SCENARIOS[scenario]()).run) for framework in FRAMEWORKS}
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
    assert_stored(scenario, common)


def test_scenarios_of_the_table_exist() -> None:
    """The table has only existing scenarios and frameworks."""
    assert len(SCENARIOS) >= 25
    assert {one.scenario for one in DIFFERENCES} <= {*SCENARIOS}
    assert {one.framework for one in DIFFERENCES} == set(FRAMEWORKS)


def test_the_page_has_the_table() -> None:
    """The documented differences are those that occur."""
    assert_section(PAGE, table(len(SCENARIOS)))


def test_the_page_has_the_table_of_libraries() -> None:
    """It shows the differences that the tests of the libraries wrote, with a reason for each field."""
    assert_section(PAGE, libraries.table(), "libraries, ")


def test_each_difference_of_a_library_has_a_reason() -> None:
    """There is no reason for what does not differ."""
    assert libraries.differing_fields() == {name: set(reasons) for name, reasons in libraries.REASONS.items()}
