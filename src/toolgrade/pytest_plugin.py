"""The pytest plugin: fixtures `toolgrade` and `toolgrade_golden`, options and a summary; see docs/pytest.md.

pytest loads this module in every run of every project that has toolgrade installed. So its top imports nothing but what
pytest imports itself; a run that uses neither fixture loads no other module of toolgrade.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.junitxml import xml_key

if TYPE_CHECKING:
    from toolgrade._pytest.fixtures import Checks, GoldenChecks, Note
    from toolgrade._pytest.replayed import ReplayedTest
    from toolgrade.dataset import Golden
    from toolgrade.report import Report

__all__ = ["Checks", "GoldenChecks"]

_FOLDER = "__toolgrade__"
_FIXTURES = {"toolgrade", "toolgrade_golden"}
_PROPERTY = "toolgrade."
_TAPE = pytest.StashKey["ReplayedTest"]()
_NOTES = pytest.StashKey["list[Note]"]()
_MEASURED = pytest.StashKey[bool]()
"""Whether the test has measured a case."""


def __getattr__(name: str) -> object:
    """Load the classes of the fixtures, for annotations, when they are first used."""
    if name in __all__:
        from toolgrade._pytest import fixtures

        return getattr(fixtures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("toolgrade", "tool calls of agents (toolgrade)")
    group.addoption(
        "--toolgrade-update", action="store_true", help="Rewrite goldens that differ, and show the differences."
    )
    group.addoption(
        "--toolgrade-record",
        metavar="MODE",
        choices=["none", "new_episodes", "once", "all"],
        default="none",
        help="What tests with toolgrade_replay run and record: none, new_episodes, once or all.  [default: none]",
    )
    group.addoption("--toolgrade-report", metavar="FILE", help="Write all results of the toolgrade fixtures as JSON.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the summary; under pytest-xdist only the controller has a summary."""
    config.addinivalue_line(
        "markers", "toolgrade: the test measures tool calls; set on every test that uses a toolgrade fixture."
    )
    config.addinivalue_line(
        "markers",
        "toolgrade_goldens(path): run the test once for each golden of a file, as its argument `golden`; the path is "
        "relative to the file of the test.",
    )
    config.addinivalue_line(
        "markers",
        "toolgrade_replay(path, ignore=, faults=, writes=, allow_outside=): answer the tools that the test calls from "
        "a tape, see toolgrade.replay; the path is relative to the file of the test.",
    )
    if config.getoption("--toolgrade-record") != "none" and _has_workers(config):
        raise pytest.UsageError("--toolgrade-record must run without pytest-xdist, whose workers would write one file")
    target = _report_target(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(config, target), "toolgrade-summary")


def _has_workers(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput") or bool(getattr(config.option, "numprocesses", None))


def _report_target(config: pytest.Config) -> Path | None:
    """Return the file of the report."""
    option = config.getoption("--toolgrade-report")
    if option is None:
        return None
    target = Path(option).absolute()
    if not target.parent.is_dir():
        raise pytest.UsageError(f"--toolgrade-report: there is no folder {str(target.parent)!r}")
    return target


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each golden of the file that the marker `toolgrade_goldens` names."""
    marker = metafunc.definition.get_closest_marker("toolgrade_goldens")
    if marker is None:
        return
    name = metafunc.definition.nodeid
    if marker.kwargs or [isinstance(argument, (str, os.PathLike)) for argument in marker.args] != [True]:
        raise pytest.UsageError(f"{name}: toolgrade_goldens must have one argument, the path of a file")
    if "golden" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{name}: a test with toolgrade_goldens must have the argument 'golden'")
    from toolgrade.dataset import Golden
    from toolgrade.errors import ToolgradeError

    path = metafunc.definition.path.parent / marker.args[0]
    try:
        goldens = Golden.load(path)
    except (OSError, ToolgradeError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None
    ids = [golden.id or f"golden{number}" for number, golden in enumerate(goldens, 1)]
    metafunc.parametrize("golden", goldens, ids=ids)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a fixture, before `-m` selects tests."""
    for item in items:
        if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("toolgrade")


@pytest.hookimpl(hookwrapper=True)  # as below
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    """Record the test for `assert_test(golden=...)` of DeepEval's form, if its module imports DeepEval's names."""
    traces = sys.modules.get("toolgrade.compat.deepeval._traces")
    module = getattr(item, "module", None)
    if traces is None or module is None or not any(map(traces.is_ours, vars(module).values())):
        yield
        return
    with traces.tracing_test():
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Open the tape of a test with `toolgrade_replay`, before its fixtures run."""
    marker = item.get_closest_marker("toolgrade_replay")
    if marker is None:
        return
    if [isinstance(argument, (str, os.PathLike)) for argument in marker.args] != [True]:
        message = "toolgrade_replay must have one argument by position, the path of a tape"
        raise pytest.UsageError(f"{item.nodeid}: {message}")
    from toolgrade._pytest.replayed import ReplayedTest
    from toolgrade.errors import ReplayError

    function: Any = item
    mode: Any = item.config.getoption("--toolgrade-record")
    try:
        tape = ReplayedTest(item.path.parent / marker.args[0], mode, marker.kwargs, _golden_of(item))
    except ReplayError as error:
        pytest.fail(str(error), pytrace=False)
    item.stash[_TAPE] = tape
    function.obj = tape.around(function.obj)


@pytest.hookimpl(hookwrapper=True)  # as below
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, None]:
    """Close the tape of a test, after its fixtures have ended."""
    outcome = yield
    tape: ReplayedTest | None = item.stash.get(_TAPE, None)
    if tape is None:
        return
    del item.stash[_TAPE]
    vars(item)["_obj"] = None  # a test that is run again gets an object of its own
    try:
        tape.close(failed=outcome.excinfo is not None)
    except Exception as error:  # noqa: BLE001 - pytest reports it
        outcome.force_exception(error)


@pytest.fixture
def toolgrade(request: pytest.FixtureRequest) -> Checks:
    """Measure cases: `toolgrade(case, metrics)` is `assert_test`, and adds the results to the summary of the run."""
    from toolgrade._pytest.fixtures import Checks

    return Checks(_note_taker(request.node))


@pytest.fixture
def toolgrade_golden(request: pytest.FixtureRequest, toolgrade: Checks) -> GoldenChecks:
    """Compare calls with the golden of the test, a file next to it that the first run records."""
    from toolgrade._pytest.fixtures import GoldenChecks, GoldenPlace, file_name

    item: pytest.Item = request.node
    names = [node.name for node in item.listchain() if isinstance(node, (pytest.Class, pytest.Item))]
    folder = item.path.parent / _FOLDER
    root = item.config.rootpath
    place = GoldenPlace(
        folder=folder,
        stem=file_name(".".join([item.path.stem, *names])),
        label=(folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix(),
        update=bool(item.config.getoption("--toolgrade-update")),
        must_exist=os.environ.get("CI", "").lower() not in {"", "0", "false"},
    )
    return GoldenChecks(toolgrade, _note_taker(item), place)


def _note_taker(item: pytest.Item) -> Callable[[Note], None]:
    from toolgrade._pytest.summary import properties

    notes = item.stash.setdefault(_NOTES, [])
    # Only the last attempt of a test that is run again counts.
    item.user_properties[:] = [one for one in item.user_properties if not one[0].startswith(_PROPERTY)]

    def add(note: Note) -> None:
        notes.append(note)
        item.user_properties.extend(properties(note))

    return add


@pytest.hookimpl(hookwrapper=True)  # the older form, which every pytest from 7.0 on loads
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Attach the results to the report of a test, and show failed ones side by side."""
    report: pytest.TestReport = (yield).get_result()
    notes = item.stash.setdefault(_NOTES, [])
    if report.when == "setup":
        item.stash[_MEASURED] = False  # also before the test is run again
    has_measured = item.stash[_MEASURED] or any("case" in note for note in notes)
    why = _why_broken(item, report, call, has_measured=has_measured)
    if why:
        from toolgrade._pytest.summary import broken_note

        notes.append(broken_note(item.name, _golden_of(item), why, call.excinfo and call.excinfo.value))
        has_measured = True
    item.stash[_MEASURED] = has_measured
    if notes:
        from toolgrade._internal.json import json_text

        # Text, because pytest-xdist sends the report to another process.
        vars(report)["toolgrade_notes"] = json_text(notes)
        notes.clear()
    add_section = getattr(report.longrepr, "addsection", None)
    if call.excinfo is not None and add_section is not None:
        for failed in _failed_reports(call.excinfo.value):
            from toolgrade._pytest.fixtures import difference_text

            add_section("toolgrade", difference_text(failed))
        _shorten_summary(report, call.excinfo.value)


def _why_broken(
    item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None], *, has_measured: bool
) -> str:
    """Return why a test is a case of the report beside what it measured: no results say that it is broken.

    A test of a golden that measured nothing fails for it.
    """
    if "toolgrade" not in getattr(item, "fixturenames", ()):
        return ""
    if report.failed and call.excinfo is not None:
        if has_measured and next(_failed_reports(call.excinfo.value), None) is not None:
            return ""  # the results say it
        return f"the test ended {'after' if has_measured else 'before'} it measured"
    is_golden = item.get_closest_marker("toolgrade_goldens") is not None
    if report.when != "call" or not report.passed or not is_golden or has_measured or item.stash[_NOTES]:
        return ""
    report.outcome = "failed"
    report.longrepr = f"{item.nodeid}: the test of a golden measured nothing; call toolgrade(case, metrics)"
    return "the test measured nothing; call toolgrade(case, metrics)"


def _golden_of(item: pytest.Item) -> Golden | None:
    """Return the golden of a test with `toolgrade_goldens`."""
    callspec: Any = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("golden")


def _shorten_summary(report: pytest.TestReport, error: BaseException) -> None:
    """Let the short summary say what is wrong in place of the name of the error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    failed = getattr(error, "report", None)
    if crash is not None and failed is not None and failed in _failed_reports(error):
        from toolgrade._pytest.fixtures import failure_text

        crash.message = failure_text(failed)


def _failed_reports(error: BaseException) -> Iterator[Report]:
    """Yield the reports of an error, or of the errors in an exception group."""
    if "toolgrade.report" not in sys.modules:  # toolgrade cannot have raised the error
        return
    from toolgrade.errors import MetricAssertionError
    from toolgrade.report import Report

    if isinstance(error, MetricAssertionError) and isinstance(error.report, Report):
        yield error.report
    for inner in getattr(error, "exceptions", ()):
        yield from _failed_reports(inner)


class _Summary:
    """Collects the results of all tests, in whichever process they ran, and shows them at the end."""

    def __init__(self, config: pytest.Config, target: Path | None) -> None:
        self._config = config
        self._target = target
        self._unsorted: list[dict[str, Any]] = []
        self._repeated: list[Any] = []
        self._is_incomplete = False
        self._about: dict[str, Any] = {}

    def pytest_sessionstart(self) -> None:
        """Write a report that is not complete, in place of that of an earlier run, in case that this process dies."""
        if self._target is not None:
            from toolgrade.evaluation.builder import session_facts

            self._about = session_facts({})
            self._write(is_complete=False)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that tests could not be collected, so that the report lacks them."""
        self._is_incomplete |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the results of a test, unless it is run again."""
        self._is_incomplete |= report.failed and report.when not in {"setup", "call", "teardown"}  # a worker died
        text = getattr(report, "toolgrade_notes", None)
        if text is None:
            return
        xml = self._config.stash.get(xml_key, None)
        if str(report.outcome) == "rerun":
            self._repeated += [] if xml is None else [xml.node_reporter(report)]
        else:
            self._unsorted.extend({"test": report.nodeid, **note} for note in json.loads(text))

    @property
    def _notes(self) -> list[dict[str, Any]]:
        """The results by test, in an order that does not depend on the speed of processes."""
        return sorted(self._unsorted, key=lambda note: note["test"])

    @pytest.hookimpl(tryfirst=True)  # before the file of JUnit XML is written
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the report, if requested; take attempts before the last out of JUnit XML: they look passed."""
        xml = self._config.stash.get(xml_key, None)
        if xml is not None:
            xml.node_reporters_ordered[:] = [one for one in xml.node_reporters_ordered if one not in self._repeated]
        complete = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
        self._write(is_complete=exitstatus in complete and not self._is_incomplete)

    def _write(self, *, is_complete: bool) -> None:
        if self._target is not None:
            from toolgrade._pytest.summary import report_json

            self._target.write_text(report_json(self._notes, self._about, is_complete=is_complete), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show totals and failed results, unless -q, and always the goldens that were written."""
        if not self._unsorted:
            return
        from toolgrade._pytest.summary import golden_lines, score_lines

        quiet = self._config.option.verbose < 0
        lines = [*(() if quiet else score_lines(self._notes)), *golden_lines(self._notes)]
        if lines:
            terminalreporter.write_sep("=", "toolgrade")
        for line in lines:
            terminalreporter.write_line(line)
