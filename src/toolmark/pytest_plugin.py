"""The pytest plugin: fixtures `toolmark` and `toolmark_golden`, options and a summary; see docs/pytest.md.

pytest loads this module in every run of every project that has toolmark installed. So its top imports nothing but what
pytest imports itself; a run that uses neither fixture loads no other module of toolmark.
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

__all__ = ["Checks", "GoldenChecks"]

_FOLDER = "__toolmark__"
_FIXTURES = {"toolmark", "toolmark_golden"}
_NOTES = pytest.StashKey["list[Note]"]()


def __getattr__(name: str) -> object:
    """Load the classes of the fixtures, for annotations, when they are first used."""
    if name in __all__:
        from toolmark._pytest import fixtures

        return getattr(fixtures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("toolmark", "tool calls of agents (toolmark)")
    group.addoption(
        "--toolmark-update", action="store_true", help="Rewrite goldens that differ, and show the differences."
    )
    group.addoption("--toolmark-report", metavar="FILE", help="Write all results of the toolmark fixtures as JSON.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the summary; under pytest-xdist only the controller has a summary."""
    config.addinivalue_line(
        "markers", "toolmark: the test measures tool calls; set on every test that uses a toolmark fixture."
    )
    target = config.getoption("--toolmark-report")
    if target is not None and not Path(target).absolute().parent.is_dir():
        raise pytest.UsageError(f"--toolmark-report: there is no folder {str(Path(target).absolute().parent)!r}")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(config), "toolmark-summary")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a fixture, before `-m` selects tests."""
    for item in items:
        if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("toolmark")


@pytest.fixture
def toolmark(request: pytest.FixtureRequest) -> Checks:
    """Measure cases: `toolmark(case, metrics)` is `assert_test`, and adds the results to the summary of the run."""
    from toolmark._pytest.fixtures import Checks

    return Checks(_note_taker(request.node))


@pytest.fixture
def toolmark_golden(request: pytest.FixtureRequest, toolmark: Checks) -> GoldenChecks:
    """Compare calls with the golden of the test, a file next to it that the first run records."""
    from toolmark._pytest.fixtures import GoldenChecks, GoldenPlace, file_name

    item: pytest.Item = request.node
    names = [node.name for node in item.listchain() if isinstance(node, (pytest.Class, pytest.Item))]
    folder = item.path.parent / _FOLDER
    root = item.config.rootpath
    place = GoldenPlace(
        folder=folder,
        stem=file_name(".".join([item.path.stem, *names])),
        label=(folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix(),
        update=bool(item.config.getoption("--toolmark-update")),
        must_exist=os.environ.get("CI", "").lower() not in {"", "0", "false"},
    )
    return GoldenChecks(toolmark, _note_taker(item), place)


def _note_taker(item: pytest.Item) -> Callable[[Note], None]:
    from toolmark._pytest.summary import properties

    notes = item.stash.setdefault(_NOTES, [])

    def add(note: Note) -> None:
        notes.append(note)
        item.user_properties.extend(properties(note))

    return add


@pytest.hookimpl(hookwrapper=True)  # the older form, which every pytest from 7.0 on loads
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Attach the results to the report of a test, and show failed ones side by side."""
    report: pytest.TestReport = (yield).get_result()
    notes = item.stash.get(_NOTES, None)
    if notes:
        from toolmark._internal.json import json_text

        # Text, because pytest-xdist sends the report to another process.
        vars(report)["toolmark_notes"] = json_text(notes)
        notes.clear()
    add_section = getattr(report.longrepr, "addsection", None)
    if call.excinfo is not None and add_section is not None:
        for failed in _failed_reports(call.excinfo.value):
            from toolmark._pytest.fixtures import difference_text

            add_section("toolmark", difference_text(failed))


def _failed_reports(error: BaseException) -> Iterator[Report]:
    """Yield the reports of an error, or of the errors in an exception group."""
    if "toolmark.report" not in sys.modules:  # toolmark cannot have raised the error
        return
    from toolmark.errors import MetricAssertionError
    from toolmark.report import Report

    if isinstance(error, MetricAssertionError) and isinstance(error.report, Report):
        yield error.report
    for inner in getattr(error, "exceptions", ()):
        yield from _failed_reports(inner)


class _Summary:
    """Collects the results of all tests, in whichever process they ran, and shows them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._unsorted: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the results of a test, unless it is run again."""
        text = getattr(report, "toolmark_notes", None)
        if text is not None and str(report.outcome) != "rerun":
            self._unsorted.extend({"test": report.nodeid, **note} for note in json.loads(text))

    @property
    def _notes(self) -> list[dict[str, Any]]:
        """The results by test, in an order that does not depend on the speed of processes."""
        return sorted(self._unsorted, key=lambda note: note["test"])

    def pytest_sessionfinish(self) -> None:
        """Write the report, if requested."""
        target = self._config.getoption("--toolmark-report")
        if target is not None:
            from toolmark._pytest.summary import report_json

            Path(target).write_text(report_json(self._notes), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show totals and failed results, unless -q, and always the goldens that were written."""
        if not self._unsorted:
            return
        from toolmark._pytest.summary import golden_lines, score_lines

        quiet = self._config.option.verbose < 0
        lines = [*(() if quiet else score_lines(self._notes)), *golden_lines(self._notes)]
        if lines:
            terminalreporter.write_sep("=", "toolmark")
        for line in lines:
            terminalreporter.write_line(line)
