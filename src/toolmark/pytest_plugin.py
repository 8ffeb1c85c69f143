"""The pytest plugin: fixtures `toolmark` and `toolmark_golden`, options, a summary; see docs/pytest.md.

pytest loads this module in every run of everybody who has toolmark installed. So it imports nothing of toolmark at its
top, and nothing else that pytest does not import itself; a run that uses no fixture of it pays for this file alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from toolmark._pytest.fixtures import Checks, GoldenChecks, Note
    from toolmark.report import Report

_FOLDER = "__toolmark__"
_FIXTURES = {"toolmark", "toolmark_golden"}
_NOTES = pytest.StashKey["list[Note]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("toolmark", "tool calls of agents (toolmark)")
    group.addoption(
        "--toolmark-update", action="store_true", help="Write goldens that differ anew, and show the difference."
    )
    group.addoption(
        "--toolmark-report", metavar="FILE", help="Write every result that the toolmark fixtures measured, as JSON."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and what listens to the results; under pytest-xdist only the controller listens."""
    config.addinivalue_line(
        "markers", "toolmark: the test measures tool calls; set wherever a toolmark fixture is used."
    )
    target = config.getoption("--toolmark-report")
    if target is not None and not Path(target).absolute().parent.is_dir():
        raise pytest.UsageError(f"--toolmark-report: there is no folder {str(Path(target).absolute().parent)!r}")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(config), "toolmark-summary")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a fixture, before `-m` looks."""
    for item in items:
        if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("toolmark")


@pytest.fixture
def toolmark(request: pytest.FixtureRequest) -> Checks:
    """Measure cases: `toolmark(case, metrics)` is `assert_test`; results stand in the summary of the run."""
    from toolmark._pytest.fixtures import Checks

    return Checks(_noting(request.node))


@pytest.fixture
def toolmark_golden(request: pytest.FixtureRequest, toolmark: Checks) -> GoldenChecks:
    """Compare what was called with the golden of the test, a file beside it, which the first run records."""
    from toolmark._pytest.fixtures import GoldenChecks, GoldenPlace, file_name

    item: pytest.Item = request.node
    names = [node.name for node in item.listchain() if isinstance(node, (pytest.Class, pytest.Item))]
    folder = item.path.parent / _FOLDER
    root = item.config.rootpath
    place = GoldenPlace(
        folder=folder,
        stem=file_name(".".join([item.path.stem, *names])),
        shown=(folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix(),
        update=bool(item.config.getoption("--toolmark-update")),
        must_exist=os.environ.get("CI", "").lower() not in {"", "0", "false"},
    )
    return GoldenChecks(toolmark, _noting(item), place)


def _noting(item: pytest.Item) -> Callable[[Note], None]:
    from toolmark._pytest.summary import properties

    notes = item.stash.setdefault(_NOTES, [])

    def note(what: Note) -> None:
        notes.append(what)
        item.user_properties.extend(properties(what))

    return note


@pytest.hookimpl(hookwrapper=True)  # the older form, which every pytest from 7.0 on loads
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Give the report of a test what was measured, and show what failed side by side."""
    report: pytest.TestReport = (yield).get_result()
    notes = item.stash.get(_NOTES, None)
    if notes:
        from toolmark._internal.json import json_text

        # A text, which crosses to another process whatever it holds.
        vars(report)["toolmark_notes"] = json_text(notes)
        notes.clear()
    add_section = getattr(report.longrepr, "addsection", None)
    if call.excinfo is not None and add_section is not None:
        for failed in _failed_reports(call.excinfo.value):
            from toolmark._pytest.fixtures import difference_text

            add_section("toolmark", difference_text(failed))


def _failed_reports(error: BaseException) -> Iterator[Report]:
    """Yield the reports that an error, or those in a group of errors, are about."""
    if "toolmark.report" not in sys.modules:  # then nothing of toolmark can have raised it
        return
    from toolmark.errors import MetricAssertionError
    from toolmark.report import Report

    if isinstance(error, MetricAssertionError) and isinstance(error.report, Report):
        yield error.report
    for inner in getattr(error, "exceptions", ()):
        yield from _failed_reports(inner)


class _Summary:
    """Listens to the reports of all tests, wherever they ran, and tells at the end what they measured."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test measured; a test that is going to be run again is asked then."""
        text = getattr(report, "toolmark_notes", None)
        if text is not None and str(report.outcome) != "rerun":
            self._found.extend({"test": report.nodeid, **note} for note in json.loads(text))

    @property
    def _notes(self) -> list[dict[str, Any]]:
        """What was measured, test by test, in an order that does not depend on which process was quicker."""
        return sorted(self._found, key=lambda note: note["test"])

    def pytest_sessionfinish(self) -> None:
        """Write the report that was asked for."""
        target = self._config.getoption("--toolmark-report")
        if target is not None:
            from toolmark._pytest.summary import report_json

            Path(target).write_text(report_json(self._notes), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the sums and what failed, unless -q; and always which goldens were written."""
        if not self._found:
            return
        from toolmark._pytest.summary import golden_lines, score_lines

        quiet = self._config.option.verbose < 0
        lines = [*(() if quiet else score_lines(self._notes)), *golden_lines(self._notes)]
        if lines:
            terminalreporter.write_sep("=", "toolmark")
        for line in lines:
            terminalreporter.write_line(line)
