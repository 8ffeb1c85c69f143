"""Execution of an evaluation: from the arguments of `evaluate` to its report."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from toolgrade._internal.options import require
from toolgrade._internal.text import plural, printable, unique_labels
from toolgrade.agents import DEFAULT_CONCURRENCY, AgentCallable, Goldens, check_agents, check_goldens
from toolgrade.cases import AnyCase, LLMTestCase, own_case
from toolgrade.dataset import Golden, read_goldens, source_name
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError
from toolgrade.evaluation.builder import ReportBuilder, session_facts
from toolgrade.evaluation.measuring import checked_metrics, no_golden_of, unit_of, waits
from toolgrade.evaluation.rows import CaseKey
from toolgrade.failed_calls import ErrorTexts, applied_error_texts
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.report.field_paths import value_at
from toolgrade.stats import check_positive
from toolgrade.user_turns import SimulatedUser
from toolgrade.verdict import Gate

if TYPE_CHECKING:
    from toolgrade.evaluation.files import FileCase, FileEvaluation, FileSetup
    from toolgrade.evaluation.results_file import Resume
    from toolgrade.evaluation.session import App, Session, Source
    from toolgrade.judge.judge import Judge, JudgeLike
    from toolgrade.report.terminal.progress import ProgressBar

Target: TypeAlias = "str | os.PathLike[str]"
"""The path of a file that is written."""

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
"""A file of recorded runs, or several."""

PARTIAL = "_toolgrade_report"
"""Attribute of an exception that stopped an evaluation: the report of what was done."""

_RESUME = ("missing", "errored", "failed")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The arguments of `evaluate`.

    `full` is the number of worst cases by each metric that stay whole, 0 for all. `no_golden` says what is
    missing from cases that state no expectation, such as "no golden"; `None` if they need none. See `unmeasured`.
    """

    test_cases: Iterable[AnyCase] | Files | None = None
    metrics: Sequence[MetricLike] = ()
    goldens: Goldens | None = None
    golden_id: str | None = None
    agent: AgentCallable | None = None
    agents: Mapping[str, AgentCallable] | None = None
    observed_callback: App | None = None
    user_model: JudgeLike | None = None
    trials: int | None = None
    timeout: float | None = None
    golden_timeout: float | None = None
    cluster: str | None = None
    error_texts: str | None = "default"
    text_tools: Sequence[str] = ()
    results: Target | None = None
    resume: bool | Resume = False
    contents: bool = True
    reject_bad_lines: bool = False
    allow_nan: bool = False
    processes: int | None = None
    max_concurrency: int = DEFAULT_CONCURRENCY
    gate: Gate | None = None
    about: Mapping[str, Any] | None = None
    show_progress: bool | None = None
    full: int = 0
    no_golden: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are evaluated; empty if cases or agents are."""
        cases = self.test_cases
        if isinstance(cases, (str, os.PathLike)):
            return (os.fspath(cases),)
        paths: list[str] = []
        for one in cases if isinstance(cases, Sequence) else ():
            if not isinstance(one, (str, os.PathLike)):
                return ()
            paths.append(os.fspath(one))
        return tuple(paths)

    def check(self) -> None:
        """Check which arguments are combined.

        Raises:
            ConfigurationError: Some cannot be combined, or one has a wrong value.
        """
        self._check_agents()
        self._check_fields_of_files()
        if self.resume not in (False, True, *_RESUME):
            raise ConfigurationError(f"resume must be one of {', '.join(_RESUME)}, got {self.resume!r}")
        if not isinstance(self.gate, Gate | None):
            raise ConfigurationError(f"gate must be a Gate, got {self.gate!r:.60}; such as Gate(pass_rate=0.95)")
        if not isinstance(self.about, Mapping | None):
            raise ConfigurationError(f"about must map names to values, got {self.about!r:.60}")
        if self.resume and self.results is None:
            raise ConfigurationError("resume needs results, the file to resume")

    def _names_of_set(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _check_agents(self) -> None:
        if self.observed_callback is not None:
            for name in self._names_of_set("agent", "agents", "test_cases"):
                message = f"observed_callback and {name} cannot be combined; pass goldens with one of them"
                raise ConfigurationError(message)
        askers = self._names_of_set("agent", "agents", "observed_callback")
        if askers == ["agent", "agents"]:
            raise ConfigurationError("agent and agents cannot be combined; pass all agents as agents")
        if askers and self.goldens is None:
            raise ConfigurationError(f"{askers[0]} needs goldens, its questions")
        self._check_goldens(has_agent=bool(askers))
        for name in self._names_of_set("timeout", "golden_timeout"):
            seconds = getattr(self, name)
            is_valid = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < math.inf
            require(is_valid, f"{name} must be a positive number of seconds", seconds)
            if not askers:
                raise ConfigurationError(f"{name} needs goldens and an agent: test_cases are answers already")

    def _check_fields_of_files(self) -> None:
        for name in self._names_of_set("golden_id", "cluster"):
            if not self.files:
                raise ConfigurationError(f"{name} is a path in the cases of files; pass files as test_cases")
        if self.golden_id is not None and self.goldens is None:
            raise ConfigurationError("golden_id needs goldens, the file that has them")

    def _check_goldens(self, *, has_agent: bool) -> None:
        if self.test_cases is not None and (has_agent or (self.goldens is not None and not self.files)):
            raise ConfigurationError("test_cases and goldens cannot be combined; evaluate them separately")
        if self.goldens is not None and not has_agent and self.test_cases is None:
            raise ConfigurationError("goldens need an agent to ask, such as as_agent(agent)")
        if not has_agent and self.trials is not None:
            raise ConfigurationError("trials needs goldens and an agent: test_cases are answers already")
        if not has_agent and self.user_model is not None:
            raise ConfigurationError("user_model needs goldens and an agent: test_cases have said what they say")


def run_evaluation(options: EvaluationOptions) -> Report:
    """Do what `evaluate` does."""
    running: Session | FileEvaluation | None = None
    try:
        with _open_evaluation(options, is_async=False) as running:
            running.run_here()
            return running.report()
    except KeyboardInterrupt as stopped:
        if running is not None:
            report = running.report(interrupted=True)
            setattr(stopped, PARTIAL, report)
            _print_interrupted(report, running.progress, options.results)
        raise


async def run_evaluation_async(options: EvaluationOptions) -> Report:
    """Do what `evaluate_async` does."""
    import asyncio  # noqa: PLC0415 - evaluation of files needs no event loop

    from toolgrade._internal.sync_bridge import require_asyncio  # noqa: PLC0415 - likewise

    require_asyncio("evaluate_async")
    with _open_evaluation(options, is_async=True) as running:
        try:
            await running.run()
            return running.report()
        except (asyncio.CancelledError, KeyboardInterrupt) as stopped:
            setattr(stopped, PARTIAL, running.report(interrupted=True))
            raise


@contextmanager
def _open_evaluation(options: EvaluationOptions, *, is_async: bool) -> Generator[Session | FileEvaluation, None, None]:
    """Begin an evaluation, and close its files at the end."""
    options.check()
    check_positive(options.max_concurrency, "max_concurrency")
    if options.trials is not None:
        check_positive(options.trials, "trials")
    is_optional = options.observed_callback is not None and isinstance(options.metrics, Sequence)
    metrics: Sequence[MetricLike] = ()
    if options.metrics or not is_optional:  # the components of an app may have some
        metrics = checked_metrics(options.metrics, "a_measure" if is_async else "measure")
    opened: AbstractContextManager[Session | FileEvaluation] = (
        _open_files(options, metrics)
        if options.files and not any(map(waits, metrics))
        else _open_session(options, metrics, is_async=is_async)
    )
    texts = ErrorTexts(options.error_texts, options.text_tools)
    texts = applied_error_texts() if texts == ErrorTexts() else texts
    with texts.applied(), opened as running:
        yield running


@contextmanager
def _open_files(options: EvaluationOptions, metrics: Sequence[MetricLike]) -> Generator[FileEvaluation, None, None]:
    from toolgrade.evaluation.files import FileEvaluation  # noqa: PLC0415 - most evaluations have no files

    setup = _file_setup(options, metrics)
    with (
        _builder(options, setup.names, metrics) as builder,
        _progress_bar(options.show_progress, of_bytes=True) as bar,
    ):
        if builder.file is not None:
            setup = replace(setup, hashes=builder.file.hashes)
        processes = options.processes or os.cpu_count() or 1
        try:
            yield FileEvaluation(setup, builder, processes, bar)
        except (ConfigurationError, DataFileError):  # the input is refused: a new file of results must not stay
            if builder.file is not None and builder.file.is_new:
                Path(builder.file.path).unlink(missing_ok=True)
            raise


@contextmanager
def _open_session(
    options: EvaluationOptions, metrics: Sequence[MetricLike], *, is_async: bool
) -> Generator[Session, None, None]:
    from toolgrade.evaluation.session import Session  # noqa: PLC0415 - loads an event loop

    source = _source(options, metrics)
    names = unique_labels([metric.label for metric in metrics])
    counts: dict[str, Any] = {}
    if source.recorded is None:
        kind = "goldens" if source.existing is None else "cases"
        counts = {"kind": kind, "cases": len(source.items), "trials": options.trials}
        counts |= {} if options.agents is None else {"agents": list(options.agents)}
    with _builder(options, names, metrics, **counts) as builder:
        limit = options.max_concurrency
        if source.existing is not None and is_async and not any(map(waits, metrics)):
            limit = 1  # nothing waits, so tasks side by side would only keep more cases in memory
        session = Session(source, metrics, builder, limit, is_async)
        with _progress_bar(options.show_progress) as bar:
            if bar is not None:
                bar.show(len(builder), len(session.keys))
                session.bar = bar
            yield session


@contextmanager
def _builder(
    options: EvaluationOptions,
    names: Sequence[str],
    metrics: Sequence[MetricLike],
    **counts: Any,  # noqa: ANN401 - fields of the header
) -> Generator[ReportBuilder, None, None]:
    """Open the file of results, if there is one."""
    agents = list(options.agents or ())
    facts = session_facts(options.about or {})
    if options.results is None:
        yield ReportBuilder(facts, names, options.trials, agents=agents, gate=options.gate)
        return
    from toolgrade.evaluation.results_file import Header, ResultsFile  # noqa: PLC0415 - most evaluations have none

    if any(os.path.realpath(options.results) == os.path.realpath(file) for file in options.files):
        raise ConfigurationError(f"{printable(os.fspath(options.results))} is one of the files that are evaluated")
    resume: Resume | None = "missing" if options.resume is True else options.resume or None
    header = Header.new(names, metrics, facts=facts, gate=(options.gate or Gate()).to_dict(), **counts)
    with closing(ResultsFile(options.results, header, resume)) as file:
        yield ReportBuilder(
            facts, names, options.trials, file, agents=agents, contents=options.contents, gate=options.gate
        )


def _file_setup(options: EvaluationOptions, metrics: Sequence[MetricLike]) -> FileSetup:
    """Return how files are evaluated.

    Raises:
        ConfigurationError: An option is invalid, or a file is there twice.
        DataFileError: The goldens cannot be read.
    """
    from toolgrade.evaluation.files import (  # noqa: PLC0415 - most evaluations have no files
        FileSetup,
        GoldenSet,
        check_files,
    )
    from toolgrade.inputs import Reading  # noqa: PLC0415 - as above

    if options.processes is not None:
        check_positive(options.processes, "processes")
    if options.cluster is not None:
        value_at(LLMTestCase(), options.cluster, "cluster")  # it must be a path
    goldens = None
    if isinstance(options.goldens, (str, os.PathLike)):
        read = read_goldens(options.goldens, allow_nan=options.allow_nan)
        goldens = GoldenSet(read, source_name(options.goldens), options.golden_id)
    elif options.goldens is not None:
        goldens = GoldenSet(check_goldens(options.goldens), "goldens", options.golden_id)
    return FileSetup(
        paths=check_files(options.files),
        metrics=tuple(metrics),
        names=unique_labels([metric.label for metric in metrics]),
        reading=Reading(
            unit=unit_of(metrics, None if goldens is None else goldens.goldens), allow_nan=options.allow_nan
        ),
        goldens=goldens,
        cluster=options.cluster,
        full=options.full,
        contents=options.contents,
        error_texts=applied_error_texts(),
        reject_bad_lines=options.reject_bad_lines,
    )


def _source(options: EvaluationOptions, metrics: Sequence[MetricLike]) -> Source:
    """Return where the cases come from."""
    from toolgrade.evaluation import session  # noqa: PLC0415 - loads an event loop

    if options.files:
        recorded = {key: (golden, item) for key, golden, item in _read_files(options, metrics)}
        pending = {
            key: session.Pending(
                item.case,
                metrics,
                error=item.tag.error,
                no_golden=no_golden_of(item.tag.golden, has_goldens=options.goldens is not None),
            )
            for key, (_, item) in recorded.items()
        }
        return session.existing_source(pending, recorded)
    if options.goldens is not None:
        return _asking_source(options, metrics)
    cases = listed_cases(options.test_cases)
    if not cases:
        raise ConfigurationError("test_cases must have at least one case, got none")
    pending = {
        CaseKey(place): session.Pending(case, metrics, no_golden=options.no_golden) for place, case in enumerate(cases)
    }
    return session.existing_source(pending)


def _asking_source(options: EvaluationOptions, metrics: Sequence[MetricLike]) -> Source:
    """Return the source of goldens that agents or an app answer."""
    from toolgrade.asking import Limits  # noqa: PLC0415 - loads an event loop
    from toolgrade.evaluation import session  # noqa: PLC0415 - as above

    goldens = check_goldens(options.goldens)
    limits = Limits(options.timeout, options.golden_timeout)
    if options.observed_callback is not None:
        callback: object = options.observed_callback
        is_recorded = isinstance(callback, session.ObservedApp)
        app = callback if isinstance(callback, session.ObservedApp) else session.ObservedApp(options.observed_callback)
        conversation = next((place for place, golden in enumerate(goldens) if golden.is_conversation), None)
        if conversation is not None:
            subject = f"{_golden_name(goldens, conversation)} is a conversation"
            raise ConfigurationError(f"{subject}, and observed_callback answers single questions; pass an agent")
        if not is_recorded:  # a recorded app may have stated what it expects
            _check_stated(goldens, metrics)
        return session.app_source(goldens, metrics, app, limits)
    agents = check_agents({None: options.agent} if options.agents is None else options.agents)
    _check_stated(goldens, metrics)
    return session.agent_source(goldens, metrics, agents, limits, _user_model(options.user_model, goldens))


def _golden_name(goldens: Sequence[Golden], place: int) -> str:
    name = goldens[place].id
    return f"goldens[{place}]" if name is None else f"the golden {name!r}"


def _check_stated(goldens: Sequence[Golden], metrics: Sequence[MetricLike]) -> None:
    """Raise `ConfigurationError` if a golden states nothing that a metric needs, or what cannot be measured."""
    comparing = next((metric.label for metric in metrics if getattr(metric, "needs_expectation", False) is True), None)
    empty = next((place for place, golden in enumerate(goldens) if golden.states_nothing), None)
    if comparing is not None and empty is not None:
        message = f"{_golden_name(goldens, empty)} states nothing of what the agent should do, which {comparing} needs"
        raise ConfigurationError(f"{message}; give it expected_tools, such as [] for no calls")
    for place, golden in enumerate(goldens):
        try:
            golden.check_turns()
        except InvalidDataError as error:
            raise ConfigurationError(f"{_golden_name(goldens, place)} cannot be measured: {error}") from None


def _user_model(model: JudgeLike | None, goldens: Sequence[Golden]) -> Judge | None:
    """Return the model that plays simulated users, if a golden has one."""
    played = next((place for place, golden in enumerate(goldens) if isinstance(golden.user, SimulatedUser)), None)
    if played is None:
        return None
    if model is None:
        message = f"{_golden_name(goldens, played)} has a SimulatedUser; pass user_model=, the model that plays it"
        raise ConfigurationError(f"{message}, such as 'gpt-4o-mini'")
    from toolgrade.judge.judge import Judge  # noqa: PLC0415 - few evaluations have one

    judge = Judge.of(model)
    if judge.is_batched:
        raise ConfigurationError("user_model must answer at once, got a Judge that asks in batches; leave batch out")
    return judge


def _read_files(
    options: EvaluationOptions, metrics: Sequence[MetricLike]
) -> list[tuple[CaseKey, int | None, FileCase]]:
    """Return the cases of files, which are all in memory while a judge is asked about them."""
    from toolgrade.evaluation.files import FileCase, Intake, divide, items_of  # noqa: PLC0415 - as above

    setup = _file_setup(options, metrics)
    intake = Intake[FileCase](setup, lambda item: item)
    items = (item for part in divide(setup.paths) for item in items_of(part, setup))
    accepted = [one for item in items for one in intake.take(item.tag, item, item)]
    accepted += intake.rest()
    if options.reject_bad_lines and intake.bad.count:
        raise intake.bad.error()
    intake.check()
    return accepted


def listed_cases(test_cases: object) -> list[AnyCase]:
    """Return the cases of an iterable; the metrics check what they are.

    Raises:
        ConfigurationError: It is not an iterable of cases.
    """
    # A single case is a model, which is iterable by its fields.
    if isinstance(test_cases, (BaseModel, str, bytes, Mapping)) or not isinstance(test_cases, Iterable):
        kind = type(test_cases).__name__
        message = f"test_cases must be a list of cases, or files, got {kind}; or pass goldens and an agent"
        raise ConfigurationError(message)
    return [own_case(case) for case in test_cases]


def _print_interrupted(report: Report, progress: tuple[int, int | None], results: Target | None) -> None:
    """Print the report of the completed cases on standard error, and how to resume."""
    if sys.stderr is None:
        return
    from toolgrade.report.terminal import print_report  # noqa: PLC0415 - the terminal is loaded when used
    from toolgrade.report.terminal.console import make_console  # noqa: PLC0415 - the terminal is loaded when used

    done, total = progress
    noun = "case" if report.trials is None else "trial"
    amount = plural(done, noun) if total is None else f"{done} of {plural(total, noun)}"
    remedy = "to be able to resume, name a file of results"
    if results is not None:
        remedy = f"resume {printable(os.fspath(results))} to complete it"
    with suppress(OSError, ValueError):  # standard error is closed
        sys.stderr.write("\n")
        if done:
            print_report(report, title="completed before the interrupt", console=make_console(sys.stderr))
        sys.stderr.write(f"\ninterrupted: {amount} done; {remedy}\n")
        sys.stderr.flush()


@contextmanager
def _progress_bar(show_progress: bool | None, *, of_bytes: bool = False) -> Generator[ProgressBar | None, None, None]:
    """Show a progress bar if requested; by default only on a terminal, which a program without a console lacks."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (is_terminal if show_progress is None else show_progress):
        yield None
        return
    from toolgrade.report.terminal.progress import ProgressBar  # noqa: PLC0415 - loaded only for a terminal

    with ProgressBar("scoring", of_bytes=of_bytes) as bar:
        yield bar
