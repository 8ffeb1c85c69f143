"""Evaluation: cases times metrics gives a report.

Metrics that wait for something outside, such as a judge, are measured on several cases at the same time, by one event
loop; the others one after the other, in the thread of the caller. Results stand in the order of the cases in any case.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from toolmark._internal.sync_bridge import run_interruptible
from toolmark._internal.text import plural, printable
from toolmark.agents import (
    DEFAULT_CONCURRENCY,
    AgentCallable,
    check_agent,
    check_concurrency,
    check_goldens,
    check_trials,
)
from toolmark.calls import ToolCallParams
from toolmark.cases import AnyCase, Golden
from toolmark.errors import ConfigurationError, InvalidDataError, MetricAssertionError
from toolmark.evaluation.observed_app import App, ObservedApp
from toolmark.evaluation.session import AskedAgent, AskedApp, Given, Session, Source, evaluated
from toolmark.matching.alignment import Denominator
from toolmark.metrics import MetricLike, ToolCorrectnessMetric
from toolmark.report import Report
from toolmark.result import MetricResult, ResultStatus
from toolmark.results import ResultsFile

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

Target: TypeAlias = "str | os.PathLike[str]"
"""The path of a file that is written."""

_PARTIAL = "_toolmark_report"


def evaluate(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Iterable[Golden] | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    trials: int | None = None,
    results: Target | None = None,
    resume: bool = False,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Measure every case with every metric.

    A case that cannot be measured becomes a failed result with its error, and the rest go on. Nothing is printed; a
    progress bar is shown on standard error while it runs. Each case is measured as soon as it is there.

    Ctrl-C stops it: agents are cancelled, the report of what is done is printed on standard error, and
    `KeyboardInterrupt` goes on to the caller, where `partial_report` gets the report out of it. A second Ctrl-C waits
    for nothing.

    Args:
        test_cases: At least one case; or leave it out, and give `goldens` and an `agent`.
        metrics: At least one metric.
        goldens: Questions that the agent is asked, each in a conversation of its own; see `toolmark.agents`.
        agent: `async (input, conversation) -> Run`, such as an adapter's `as_agent(agent)`. One that fails stops
            nothing: its case is scored as far as its run came, or failed with its error.
        observed_callback: In place of an agent, a function of a golden's input whose pieces are decorated with
            `@observe`; see docs/observe.md. Components with metrics are scored, too, as rows of their own, so
            that `metrics` may be left out. A sync function is called for one golden after the other.
        trials: How often each golden is asked; then `Report.trial_summaries` tells how sure the agent is, and intervals
            take the trials of a golden as one cluster.
        results: A file, to which each case is written with its results as soon as it is done, without secrets: JSON
            Lines, which `toolmark.results.read_results` reads. It must not be there yet.
        resume: Go on with that file, if it is there: what is in it is neither asked nor measured again. The metrics,
            their options, the trials and the goldens or cases must be the same; some may be added at the end.
        max_concurrency: How many questions the agent is asked, and how many cases are judged, at the same time.
        show_progress: Show the bar; by default only where standard error is a terminal.

    Raises:
        ConfigurationError: There is no case or no metric, or one of the metrics is none; or both cases and goldens are
            given, or goldens without an agent, or trials of cases that are made already; or the file of results is
            there already, or of another evaluation.
        DataFileError: What is to be resumed is no file of results, or broken.
        OSError: The file cannot be opened or written; what was written to its end can be resumed.
    """
    source, chosen = _source(test_cases, metrics, goldens, agent, observed_callback, trials, "measure")
    session: Session | None = None
    try:
        with _session(source, chosen, trials, results, resume, max_concurrency, show_progress) as session:
            if session.measure_here():
                run_interruptible(session.run())
            return session.report()
    except KeyboardInterrupt as stopped:
        if session is not None:
            _keep(stopped, session)
            _tell(session, results)
        raise


async def evaluate_async(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Iterable[Golden] | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    trials: int | None = None,
    results: Target | None = None,
    resume: bool = False,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Do what `evaluate` does, inside a running event loop.

    Nothing is printed where it is cancelled: `partial_report` gets the report of what is done out of the
    `CancelledError`.
    """
    source, chosen = _source(test_cases, metrics, goldens, agent, observed_callback, trials, "a_measure")
    with _session(source, chosen, trials, results, resume, max_concurrency, show_progress, is_async=True) as session:
        try:
            await session.run()
            return session.report()
        except (asyncio.CancelledError, KeyboardInterrupt) as stopped:
            _keep(stopped, session)
            raise


def partial_report(stopped: BaseException) -> Report | None:
    """Return the report of what was done before an evaluation was stopped.

    Args:
        stopped: The `KeyboardInterrupt` that came out of `evaluate`, or the `CancelledError` out of `evaluate_async`;
            or what was raised in its place, as `asyncio.run` does.

    Returns:
        The report, whose `interrupted` is true; `None` of any other exception.
    """
    seen: set[int] = set()
    error: BaseException | None = stopped
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        report = getattr(error, _PARTIAL, None)
        if isinstance(report, Report):
            return report
        error = error.__cause__ or error.__context__
    return None


def _keep(stopped: BaseException, session: Session) -> None:
    """Give an exception the report of what was done."""
    setattr(stopped, _PARTIAL, session.report(interrupted=True))


def _tell(session: Session, results: Target | None) -> None:
    """Print what was done on standard error, and how to go on."""
    if sys.stderr is None:
        return
    from toolmark.report.terminal import make_console, print_report  # noqa: PLC0415 - the terminal is loaded when used

    done, total = session.progress
    noun = "case" if session.trials is None else "trial"
    kept = "give results=FILE to keep what is done, and resume=True to go on with it"
    if results is not None:
        kept = f"what is done is in {printable(os.fspath(results))}; resume=True (--resume) goes on with it"
    with suppress(OSError, ValueError):  # nobody reads any more
        sys.stderr.write("\n")
        if done:
            report = session.report(interrupted=True)
            print_report(report, title="what was done before the interrupt", console=make_console(sys.stderr))
        sys.stderr.write(f"\ninterrupted: {done} of {plural(total, noun)} done; {kept}\n")
        sys.stderr.flush()


def _source(
    test_cases: Iterable[AnyCase] | None,
    metrics: Sequence[MetricLike],
    goldens: Iterable[Golden] | None,
    agent: AgentCallable | None,
    app: App | None,
    trials: object,
    method: str,
) -> tuple[Source, list[MetricLike]]:
    """Return where the cases come from, and what measures them."""
    if app is not None:
        chosen = _to_observe(test_cases, agent, metrics, method)
        return AskedApp(check_goldens(goldens), chosen, ObservedApp(app)), chosen
    chosen = checked_metrics(metrics, method)
    if _asks(test_cases, goldens, agent):
        check_agent(agent)
        return AskedAgent(check_goldens(goldens), chosen, cast("AgentCallable", agent)), chosen
    if trials is not None:
        message = "trials says how often an agent is asked, and test_cases are answers already"
        raise ConfigurationError(f"{message}; give goldens= and agent=, or leave trials out")
    cases = listed_cases(test_cases)
    if not cases:
        message = "there is no test case to evaluate: test_cases is empty"
        raise ConfigurationError(message)
    return Given(cases, chosen), chosen


@contextmanager
def _session(
    source: Source,
    metrics: Sequence[MetricLike],
    trials: object,
    results: Target | None,
    resume: bool,
    max_concurrency: object,
    show_progress: bool | None,
    *,
    is_async: bool = False,
) -> Generator[Session, None, None]:
    """Begin an evaluation, and close what it opened."""
    times, limit = check_trials(trials), check_concurrency(max_concurrency)
    if isinstance(source, Given) and is_async and not any(getattr(one, "waits", False) is True for one in metrics):
        limit = 1
    if results is None and resume:
        raise ConfigurationError("resume=True goes on with a file of results; say which with results=FILE")
    file = None
    if results is not None:
        file = ResultsFile.open(results, evaluated(source, metrics, times), resume=resume)
    with nullcontext() if file is None else file, _bar(len(source.items) * (times or 1), show_progress) as advance:
        yield Session(source, metrics, times, limit, is_async, file, advance)


@contextmanager
def _bar(total: int, show_progress: bool | None) -> Generator[Callable[[], None], None, None]:
    """Show a bar where asked, and give what moves it by one."""
    if not (_on_a_terminal() if show_progress is None else show_progress):
        yield lambda: None
        return
    from toolmark.report.terminal.progress import CaseProgress  # noqa: PLC0415 - loaded when there is somebody to watch

    with CaseProgress(total) as progress:
        yield progress.advance_one


def _to_observe(test_cases: object, agent: object, metrics: object, method: str) -> list[MetricLike]:
    """Return the metrics of an evaluation of an app; there may be none, where its components have some."""
    if test_cases is not None or agent is not None:
        other = "test_cases" if agent is None else "agent"
        raise ConfigurationError(f"observed_callback and {other} cannot be evaluated together; give goldens beside one")
    return checked_metrics(metrics, method) if metrics or not isinstance(metrics, Sequence) else []


def _asks(test_cases: object, goldens: object, agent: object) -> bool:
    """Return whether an agent is to be asked for the cases."""
    if goldens is None and agent is None:
        return False
    if test_cases is not None:
        raise ConfigurationError("test_cases and goldens cannot be evaluated together; evaluate them one by one")
    if goldens is None or agent is None:
        lacking = "goldens, its questions" if goldens is None else "an agent to ask them, such as as_agent(agent)"
        raise ConfigurationError(f"{'agent' if goldens is None else 'goldens'} was given without {lacking}")
    return True


def _on_a_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # a program without a console has no standard error


def listed_cases(test_cases: object) -> list[AnyCase]:
    """Return the cases; what they are is for the metrics to say. A single case is iterable, by its fields.

    Raises:
        ConfigurationError: It is no list of anything.
    """
    if isinstance(test_cases, (BaseModel, str, bytes, Mapping)) or not isinstance(test_cases, Iterable):
        message = f"test_cases must be a list of cases, got {type(test_cases).__name__}; or give goldens and an agent"
        raise ConfigurationError(message)
    return list(test_cases)


def checked_metrics(metrics: object, method: str = "measure") -> list[MetricLike]:
    """Return what are metrics, and at least one.

    Raises:
        ConfigurationError: There is none, or one of them has no such method, no label or no threshold.
    """
    found = list(metrics) if isinstance(metrics, Iterable) else []
    if not found:
        message = f"metrics must be a list of at least one metric, got {metrics!r}"
        raise ConfigurationError(message)
    for metric in found:
        if isinstance(metric, type):
            message = f"{metric!r} is a class, not a metric; did you mean {metric.__name__}()?"
            raise ConfigurationError(message)
        lacking = [name for name in ("label", "threshold", method) if not hasattr(metric, name)]
        if lacking:
            message = f"{metric!r} is no metric: it has no {', no '.join(lacking)}"
            raise ConfigurationError(message)
    return found


def assert_test(test_case: AnyCase, metrics: Sequence[MetricLike]) -> tuple[MetricResult, ...]:
    """Measure one case, and raise unless every metric that applies passes.

    Returns:
        The results, in the order of the metrics.

    Raises:
        MetricAssertionError: A score is below its threshold, or could not be measured; the message holds each reason.
            It is an `AssertionError`, so test runners report it as a failed test.
        ConfigurationError: There is no metric.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    return passed_results(evaluate([test_case], metrics, show_progress=False))


def passed_results(report: Report, remedy: str = "") -> tuple[MetricResult, ...]:
    """Return the results of a report of one case; where they did not pass, raise as `assert_test` does.

    Args:
        report: Of one case.
        remedy: Ends the message: what can be done.

    Raises:
        MetricAssertionError: At least one metric that applies did not pass.
    """
    __tracebackhide__ = True
    results = report.cases[0].results
    bad = [result for result in results if not result.passed and result.status is not ResultStatus.SKIPPED]
    if bad:
        raise MetricAssertionError("\n".join([*map(_failure, bad), *filter(None, [remedy])]), report)
    return results


def _failure(result: MetricResult) -> str:
    if result.score is None:
        return f"{result.metric}: {result.reason or result.error}"
    text = result.reason or f"score {result.score:.4g} is below the threshold {result.threshold:g}"
    return f"{result.metric}: {text}"


class Evaluator(Generic[T]):
    """The fluent form: data in any shape, metrics added one by one, then `run()` or `await run_async()`.

    Example:
        >>> from toolmark import Evaluator, LLMTestCase, ToolCall
        >>> rows = [{"made": ["lookup"], "wanted": ["lookup"]}]
        >>> evaluator = Evaluator.from_data(
        ...     rows,
        ...     lambda row: LLMTestCase(
        ...         tools_called=[ToolCall(name=name) for name in row["made"]],
        ...         expected_tools=[ToolCall(name=name) for name in row["wanted"]],
        ...     ),
        ... )
        >>> evaluator.add_tool_correctness(should_consider_ordering=True).run().passed
        True
    """

    def __init__(self, data: Iterable[T], to_case: Callable[[T], AnyCase]) -> None:
        """Keep the data and how each item becomes a case; see `from_data`."""
        self._data = data
        self._to_case = to_case
        self._metrics: list[MetricLike] = []

    @classmethod
    def from_data(cls, data: Iterable[T], to_case: Callable[[T], AnyCase]) -> Self:
        """Return an evaluator of `data`, each item of which `to_case` turns into a case."""
        return cls(data, to_case)

    def add(self, metric: MetricLike) -> Self:
        """Add a metric, and return this evaluator."""
        self._metrics.extend(checked_metrics([metric], "measure"))
        return self

    def add_tool_correctness(
        self,
        should_consider_ordering: bool = False,
        threshold: float = 0.5,
        evaluation_params: Sequence[ToolCallParams | str] | None = None,
        *,
        should_exact_match: bool = False,
        denominator: Denominator = "expected",
        include_reason: bool = True,
        strict_mode: bool = False,
    ) -> Self:
        """Add a `ToolCorrectnessMetric` with these options, and return this evaluator."""
        return self.add(
            ToolCorrectnessMetric(
                threshold=threshold,
                evaluation_params=(ToolCallParams.TOOL,) if evaluation_params is None else evaluation_params,
                should_exact_match=should_exact_match,
                should_consider_ordering=should_consider_ordering,
                denominator=denominator,
                strict_mode=strict_mode,
                include_reason=include_reason,
            )
        )

    def add_tool_correctness_exact_match(
        self, threshold: float = 0.5, evaluation_params: Sequence[ToolCallParams | str] | None = None
    ) -> Self:
        """Add a `ToolCorrectnessMetric` that scores 1 only if expected and called are the same call by call."""
        return self.add_tool_correctness(False, threshold, evaluation_params, should_exact_match=True)

    def run(self) -> Report:
        """Evaluate.

        Raises:
            ConfigurationError: There is no data, or no metric was added.
            InvalidDataError: `to_case` raised; the message names the item.
        """
        return evaluate(self._cases(), self._metrics)

    async def run_async(self) -> Report:
        """Do what `run` does, inside a running event loop."""
        return await evaluate_async(self._cases(), self._metrics)

    def _cases(self) -> list[AnyCase]:
        cases: list[AnyCase] = []
        for index, item in enumerate(self._data):
            try:
                cases.append(self._to_case(item))
            except Exception as error:
                message = f"to_case raised {type(error).__name__} on item {index} of the data: {error}"
                raise InvalidDataError(message) from error
        return cases
