"""Evaluation of cases, agents and observed apps with metrics.

Metrics that wait for something outside, such as a judge, measure several cases at the same time in one event loop; the
others run one after the other in the thread of the caller. Results are in the order of the cases either way.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from toolgrade._internal.sync_bridge import run_interruptible
from toolgrade._internal.text import plural, printable
from toolgrade.agents import (
    DEFAULT_CONCURRENCY,
    AgentCallable,
    Goldens,
    check_agent,
    check_concurrency,
    check_goldens,
    check_trials,
)
from toolgrade.calls import ToolCallParams
from toolgrade.cases import AnyCase
from toolgrade.errors import ConfigurationError, InvalidDataError, MetricAssertionError
from toolgrade.evaluation.measuring import checked_metrics, waits
from toolgrade.evaluation.observed_app import App, ObservedApp
from toolgrade.evaluation.session import Session, Source, agent_source, app_source, case_source, evaluation_header
from toolgrade.matching.alignment import Denominator
from toolgrade.metrics import MetricLike, ToolCorrectnessMetric
from toolgrade.report import Report
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.results.writer import ResultsFile

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

Target: TypeAlias = "str | os.PathLike[str]"
"""The path of a file that is written."""

_PARTIAL = "_toolgrade_report"


def evaluate(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Goldens | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    trials: int | None = None,
    results: Target | None = None,
    resume: bool = False,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Measure every case with every metric.

    A case that cannot be measured gets a failed result with its error, and the others are measured. Nothing is
    printed, except for a progress bar on standard error.

    Ctrl-C cancels the agents, prints the report of the completed cases on standard error and raises
    `KeyboardInterrupt`, from which `partial_report` extracts that report. A second Ctrl-C stops at once.

    Args:
        test_cases: At least one case, unless `goldens` are asked.
        metrics: At least one metric.
        goldens: Questions for the agent, each in a separate conversation, or the path of their file (`Golden.load`);
            see `toolgrade.agents`.
        agent: `async (input, conversation) -> Run`, such as an adapter's `as_agent(agent)`. If it fails, the case is
            scored as far as its run was recorded, or gets a failed result.
        observed_callback: In place of an agent, a function of a golden's input that calls functions decorated with
            `@observe`; see docs/observe.md. Components with metrics are scored in rows of their own, so `metrics` may
            be left out. A sync function is called for one golden after the other.
        trials: Number of times each golden is asked. `Report.trial_summaries` then shows how reliable the agent is, and
            intervals treat the trials of a golden as one cluster.
        results: File to which each case is written with its results as soon as it is measured, without secrets: JSON
            Lines for `toolgrade.results.read_results`. It must not exist yet.
        resume: Resume that file if it exists: its cases are neither asked nor measured again. The metrics, their
            options, the trials and the goldens or cases must be the same; new ones may be added at the end.
        max_concurrency: Number of questions, and of cases that are judged, at the same time.
        show_progress: Show the progress bar; by default only on a terminal.

    Raises:
        ConfigurationError: There is no case or no metric; a metric is invalid; cases and goldens, or goldens without an
            agent, or trials of cases are passed; the file of results exists or belongs to a different evaluation.
        DataFileError: The file to resume is not a file of results, or broken.
        OSError: The file cannot be opened or written; its complete lines can be resumed.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> weather, flight = ToolCall(name="get_weather"), ToolCall(name="book_flight")
        >>> cases = [
        ...     LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather]),
        ...     LLMTestCase(id="trip", tools_called=[weather], expected_tools=[weather, flight]),
        ... ]
        >>> report = evaluate(cases, [ToolCorrectnessMetric(threshold=0.8)])
        >>> print(report.passed, report.summaries[0].mean)
        False 0.75
    """
    source, chosen = _source(test_cases, metrics, goldens, agent, observed_callback, "measure")
    session: Session | None = None
    try:
        with _session(source, chosen, trials, results, resume, max_concurrency, show_progress) as session:
            if session.measure_immediate():
                run_interruptible(session.run())
            return session.report()
    except KeyboardInterrupt as stopped:
        if session is not None:
            setattr(stopped, _PARTIAL, session.report(interrupted=True))
            _print_interrupted(session, results)
        raise


async def evaluate_async(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Goldens | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    trials: int | None = None,
    results: Target | None = None,
    resume: bool = False,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Do what `evaluate` does, inside a running event loop.

    Cancelling it prints nothing; `partial_report` extracts the report of the completed cases from the `CancelledError`.

    Example:
        >>> import asyncio
        >>> from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate_async
        >>> async def agent(question, conversation):
        ...     return Run(input=question, calls=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})])
        >>> goldens = [Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        >>> report = asyncio.run(evaluate_async(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()]))
        >>> report.summaries[0].mean
        1.0
    """
    source, chosen = _source(test_cases, metrics, goldens, agent, observed_callback, "a_measure")
    with _session(source, chosen, trials, results, resume, max_concurrency, show_progress, is_async=True) as session:
        try:
            await session.run()
            return session.report()
        except (asyncio.CancelledError, KeyboardInterrupt) as stopped:
            setattr(stopped, _PARTIAL, session.report(interrupted=True))
            raise


def partial_report(stopped: BaseException) -> Report | None:
    """Return the report of the cases that were completed before an evaluation was stopped.

    Args:
        stopped: The `KeyboardInterrupt` that `evaluate` raised, the `CancelledError` of `evaluate_async`, or an
            exception that was raised in its place, as `asyncio.run` does.

    Returns:
        The report, whose `interrupted` is true; `None` for any other exception.

    Example:
        >>> import asyncio
        >>> from toolgrade import Golden, Run, ToolErrorRate, evaluate_async
        >>> from toolgrade.evaluation import partial_report
        >>> async def agent(question, conversation):
        ...     if question == "Weather in Rome?":
        ...         raise asyncio.CancelledError  # as a timeout does; Ctrl-C raises KeyboardInterrupt
        ...     return Run(input=question, actual_output="Sunny.")
        >>> goldens = [Golden(id=city, input=f"Weather in {city}?") for city in ("Paris", "Rome")]
        >>> try:
        ...     report = asyncio.run(evaluate_async(goldens=goldens, agent=agent, metrics=[ToolErrorRate()]))
        ... except asyncio.CancelledError as stopped:
        ...     report = partial_report(stopped)
        >>> print(report.interrupted, [case.name for case in report.cases])
        True ['Paris']
    """
    visited: set[int] = set()  # the causes of an exception can form a circle
    error: BaseException | None = stopped
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        report = getattr(error, _PARTIAL, None)
        if isinstance(report, Report):
            return report
        error = error.__cause__ or error.__context__
    return None


def _print_interrupted(session: Session, results: Target | None) -> None:
    """Print the report of the completed cases on standard error, and how to resume."""
    if sys.stderr is None:
        return
    from toolgrade.report.terminal import print_report  # noqa: PLC0415 - the terminal is loaded when used
    from toolgrade.report.terminal.console import make_console  # noqa: PLC0415 - the terminal is loaded when used

    done, total = session.progress
    noun = "case" if session.trials is None else "trial"
    remedy = "to be able to resume, name a file of results"
    if results is not None:
        remedy = f"resume {printable(os.fspath(results))} to complete it"
    with suppress(OSError, ValueError):  # standard error is closed
        sys.stderr.write("\n")
        if done:
            report = session.report(interrupted=True)
            print_report(report, title="completed before the interrupt", console=make_console(sys.stderr))
        sys.stderr.write(f"\ninterrupted: {done} of {plural(total, noun)} done; {remedy}\n")
        sys.stderr.flush()


def _source(
    test_cases: Iterable[AnyCase] | None,
    metrics: Sequence[MetricLike],
    goldens: Goldens | None,
    agent: AgentCallable | None,
    app: App | None,
    method: str,
) -> tuple[Source, list[MetricLike]]:
    """Return where the cases come from, and the metrics."""
    if app is not None:
        _refuse_beside_app(agent=agent, test_cases=test_cases)
        # Metrics are optional here: the components of the app may have some.
        checked = checked_metrics(metrics, method) if metrics or not isinstance(metrics, Sequence) else []
        return app_source(check_goldens(goldens), checked, ObservedApp(app)), checked
    checked = checked_metrics(metrics, method)
    if goldens is None and agent is None:
        cases = listed_cases(test_cases)
        if not cases:
            raise ConfigurationError("test_cases must have at least one case, got none")
        return case_source(cases, checked), checked
    if test_cases is not None:
        raise ConfigurationError("test_cases and goldens cannot be combined; evaluate them separately")
    return _agent_source(goldens, checked, agent), checked


def _agent_source(goldens: Goldens | None, metrics: list[MetricLike], agent: AgentCallable | None) -> Source:
    """Return the answers of an agent to goldens.

    Raises:
        ConfigurationError: One of the two is missing or invalid.
    """
    if goldens is None:
        raise ConfigurationError("agent needs goldens, its questions")
    if agent is None:
        raise ConfigurationError("goldens need an agent to ask, such as as_agent(agent)")
    check_agent(agent)
    return agent_source(check_goldens(goldens), metrics, agent)


def _refuse_beside_app(**others: object) -> None:
    for name, other in others.items():
        if other is not None:
            raise ConfigurationError(f"observed_callback and {name} cannot be combined; pass goldens with one of them")


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
    """Begin an evaluation, and close its files at the end."""
    times, limit = check_trials(trials), check_concurrency(max_concurrency)
    if source.kind == "cases" and times is not None:
        raise ConfigurationError("trials needs goldens and an agent: test_cases are answers already")
    if source.kind == "cases" and is_async and not any(map(waits, metrics)):
        limit = 1  # nothing waits, so tasks side by side would only keep more cases in memory
    with ExitStack() as stack:
        file = None
        if results is not None:
            header, fingerprints = evaluation_header(source, metrics, times)
            file = stack.enter_context(ResultsFile.open(results, header, fingerprints, resume=resume))
        elif resume:
            raise ConfigurationError("resume needs results, the file to resume")
        done = 0 if file is None else len(file.content.units)
        advance = stack.enter_context(_bar(len(source.items) * (times or 1), done, show_progress))
        yield Session(source, metrics, times, limit, is_async, file, advance)


@contextmanager
def _bar(total: int, done: int, show_progress: bool | None) -> Generator[Callable[[], None], None, None]:
    """Show a progress bar if requested, and yield the function that moves it by one."""
    if show_progress is None:
        show_progress = sys.stderr is not None and sys.stderr.isatty()  # a program without a console has no stderr
    if not show_progress:
        yield lambda: None
        return
    from toolgrade.report.terminal.progress import ProgressBar  # noqa: PLC0415 - loaded only for a terminal

    with ProgressBar("scoring") as progress:
        progress.show(done, total)
        yield lambda: progress.advance(progress.task_ids[0])


def listed_cases(test_cases: object) -> list[AnyCase]:
    """Return the cases of an iterable; the metrics check what they are.

    Raises:
        ConfigurationError: It is not an iterable of cases.
    """
    # A single case is a model, which is iterable by its fields.
    if isinstance(test_cases, (BaseModel, str, bytes, Mapping)) or not isinstance(test_cases, Iterable):
        message = f"test_cases must be a list of cases, got {type(test_cases).__name__}; or pass goldens and an agent"
        raise ConfigurationError(message)
    return list(test_cases)


def assert_test(test_case: AnyCase, metrics: Sequence[MetricLike]) -> tuple[MetricResult, ...]:
    """Measure one case, and raise an error unless it passes every metric that applies.

    Returns:
        The results, in the order of the metrics.

    Raises:
        MetricAssertionError: A score is below its threshold, or could not be measured; the message has every reason.
            Test runners report it as a failed test, since it is an `AssertionError`.
        ConfigurationError: There is no metric.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, assert_test
        >>> def test_weather() -> None:
        ...     call = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        ...     case = LLMTestCase(tools_called=[call], expected_tools=[ToolCall(name="get_weather")])
        ...     results = assert_test(case, [ToolCorrectnessMetric()])
        ...     print(results[0].reason)
        >>> test_weather()
        1 matched / 1 expected = 1 (passed at 0.5).
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    return passed_results(evaluate([test_case], metrics, show_progress=False))


def passed_results(report: Report, remedy: str = "") -> tuple[MetricResult, ...]:
    """Return the results of a report of one case, or raise an error that ends with `remedy`.

    Raises:
        MetricAssertionError: At least one metric that applies did not pass.
    """
    __tracebackhide__ = True
    results = report.cases[0].results
    lines: list[str] = []
    for result in results:
        if not result.passed and result.status is not ResultStatus.SKIPPED:
            below = f"score {result.score or 0:.4g} is below the threshold {result.threshold:g}"
            lines.append(f"{result.metric}: {result.reason or result.error or below}")
    if lines:
        raise MetricAssertionError("\n".join([*lines, remedy]).rstrip("\n"), report)
    return results


class Evaluator(Generic[T]):
    """Fluent evaluation: data of any shape, metrics added one by one, then `run()` or `await run_async()`.

    Example:
        >>> from toolgrade import Evaluator, LLMTestCase, ToolCall
        >>> rows = [{"called": ["get_weather"], "expected": ["get_weather", "book_flight"]}]
        >>> evaluator = Evaluator.from_data(
        ...     rows,
        ...     lambda row: LLMTestCase(
        ...         tools_called=[ToolCall(name=name) for name in row["called"]],
        ...         expected_tools=[ToolCall(name=name) for name in row["expected"]],
        ...     ),
        ... )
        >>> print(evaluator.add_tool_correctness(should_consider_ordering=True).run())
        tool_correctness(ordered): mean 0.5 over 1 case; 1 passed, 0 failed (at 0.5), 0 skipped, 0 errored
    """

    def __init__(self, data: Iterable[T], to_case: Callable[[T], AnyCase]) -> None:
        """See `from_data`."""
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
        should_consider_ordering: bool | MetricLike = False,
        threshold: float = 0.5,
        evaluation_params: Sequence[ToolCallParams | str] | None = None,
        *,
        should_exact_match: bool = False,
        denominator: Denominator = "expected",
        include_reason: bool = True,
        strict_mode: bool = False,
    ) -> Self:
        """Add a `ToolCorrectnessMetric` with these options, or a metric given as the only argument.

        Returns:
            This evaluator.

        Raises:
            ConfigurationError: An option is invalid, or there are options beside a metric.
        """
        if not isinstance(should_consider_ordering, bool) and hasattr(should_consider_ordering, "measure"):
            options = (threshold, evaluation_params, should_exact_match, denominator, include_reason, strict_mode)
            if options != (0.5, None, False, "expected", True, False):
                raise ConfigurationError("a metric must be the only argument; pass the options to the metric itself")
            return self.add(should_consider_ordering)
        return self.add(
            ToolCorrectnessMetric(
                threshold=threshold,
                evaluation_params=(ToolCallParams.TOOL,) if evaluation_params is None else evaluation_params,
                should_exact_match=should_exact_match,
                should_consider_ordering=cast("bool", should_consider_ordering),  # the metric checks it
                denominator=denominator,
                strict_mode=strict_mode,
                include_reason=include_reason,
            )
        )

    def add_tool_correctness_exact_match(
        self, threshold: float = 0.5, evaluation_params: Sequence[ToolCallParams | str] | None = None
    ) -> Self:
        """Add a `ToolCorrectnessMetric` that scores 1 only if the calls equal the expected ones by position."""
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
