"""Evaluation: cases times metrics gives a report.

Metrics that wait for something outside, such as a judge, are measured on several cases at the same time, by one event
loop; the others one after the other, in the thread of the caller. Results stand in the order of the cases in any case.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel

from toolmark._text import distinct
from toolmark._waiting import wait_for
from toolmark.agents import DEFAULT_CONCURRENCY, AgentCallable, check_concurrency, run_goldens
from toolmark.calls import ToolCallParams
from toolmark.cases import AnyCase, Golden
from toolmark.components import App, ask_app
from toolmark.errors import ConfigurationError, InvalidDataError, MetricAssertionError
from toolmark.matching import Denominator
from toolmark.metrics import MetricLike, ToolCorrectnessMetric
from toolmark.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus, failed

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


def evaluate(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Iterable[Golden] | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Measure every case with every metric.

    A case that cannot be measured becomes a failed result with its error, and the rest go on. Nothing is printed; a
    progress bar is shown on standard error while it runs.

    Args:
        test_cases: At least one case; or leave it out, and give `goldens` and an `agent`.
        metrics: At least one metric.
        goldens: Questions that the agent is asked, each in a conversation of its own; see `toolmark.agents`.
        agent: `async (input, conversation) -> Run`, such as an adapter's `as_agent(agent)`. One that fails stops
            nothing: its case is scored as far as its run came, or failed with its error.
        observed_callback: In place of an agent, a function of a golden's input whose pieces are decorated with
            `@observe`; see `toolmark.components`. Components with metrics are scored, too, as rows of their own, so
            that `metrics` may be left out. A sync function is called for one golden after the other.
        max_concurrency: How many questions the agent is asked, and how many cases are judged, at the same time.
        show_progress: Show the bar; by default only where standard error is a terminal.

    Raises:
        ConfigurationError: There is no case or no metric, or one of the metrics is none; or both cases and goldens are
            given, or goldens without an agent.
    """
    if observed_callback is not None:
        scores = _to_observe(test_cases, agent, metrics, "measure")
        asked = wait_for(ask_app(goldens, observed_callback, scores, max_concurrency=max_concurrency))
        return asked.report(
            [
                evaluate(part.cases, part.metrics, max_concurrency=max_concurrency, show_progress=show_progress)
                for part in asked.parts
            ]
        )
    checked = _checked(metrics, "measure")
    if _asks(test_cases, goldens, agent):
        test_cases = wait_for(run_goldens(goldens or (), agent, max_concurrency=max_concurrency))  # type: ignore[arg-type]
    sheet, bar = _prepared(test_cases, checked, show_progress)
    limit = check_concurrency(max_concurrency)
    with bar:
        slow = [place for place, metric in enumerate(checked) if _waits(metric)]
        for index, case in enumerate(sheet.cases):
            for place, metric in enumerate(checked):
                if place not in slow:
                    sheet.enter(index, place, _measured(metric, case))
        if slow:
            wait_for(_fill(sheet, slow, limit))
        return sheet.report()


async def evaluate_async(
    test_cases: Iterable[AnyCase] | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Iterable[Golden] | None = None,
    agent: AgentCallable | None = None,
    observed_callback: App | None = None,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Report:
    """Do what `evaluate` does, inside a running event loop."""
    if observed_callback is not None:
        scores = _to_observe(test_cases, agent, metrics, "a_measure")
        asked = await ask_app(goldens, observed_callback, scores, max_concurrency=max_concurrency)
        return asked.report(
            [
                await evaluate_async(
                    part.cases, part.metrics, max_concurrency=max_concurrency, show_progress=show_progress
                )
                for part in asked.parts
            ]
        )
    checked = _checked(metrics, "a_measure")
    if _asks(test_cases, goldens, agent):
        test_cases = await run_goldens(goldens or (), agent, max_concurrency=max_concurrency)  # type: ignore[arg-type]
    sheet, bar = _prepared(test_cases, checked, show_progress)
    limit = check_concurrency(max_concurrency)
    with bar:
        await _fill(sheet, range(len(checked)), limit if any(map(_waits, checked)) else 1)
        return sheet.report()


class _Sheet:
    """The results of an evaluation, entered in any order."""

    def __init__(self, cases: list[AnyCase], metrics: Sequence[MetricLike], advance: Callable[[], None]) -> None:
        self.cases = cases
        self.metrics = metrics
        self._names = distinct([metric.label for metric in metrics])
        self._results: list[dict[int, MetricResult]] = [{} for _ in cases]
        self._advance = advance

    def enter(self, index: int, place: int, result: MetricResult) -> None:
        """Enter what a metric says of a case."""
        self._results[index][place] = result.renamed(self._names[place])
        if len(self._results[index]) == len(self.metrics):
            self._advance()

    def report(self) -> Report:
        """Return all results, in the order of cases and metrics."""
        places = range(len(self.metrics))
        done = [
            CaseResult(index, case, tuple(results[place] for place in places))
            for index, (case, results) in enumerate(zip(self.cases, self._results, strict=True))
        ]
        return Report(tuple(self._names), tuple(done))


async def _fill(sheet: _Sheet, places: Sequence[int], limit: int) -> None:
    """Measure every case with the metrics at these places, so many cases at the same time."""
    waiting = iter(range(len(sheet.cases)))

    async def work() -> None:
        for index in waiting:
            for place in places:
                sheet.enter(index, place, await _a_measured(sheet.metrics[place], sheet.cases[index]))

    # As many tasks as places, and not one for each case: there may be a million.
    workers = [asyncio.ensure_future(work()) for _ in range(min(limit, len(sheet.cases)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()


def _measured(metric: MetricLike, case: AnyCase) -> MetricResult:
    try:
        # In a context of its own: what the metrics remember is not the caller's last result.
        return _result(copy_context().run(metric.measure, case))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return failed(metric.label, metric.threshold, error)


async def _a_measured(metric: MetricLike, case: AnyCase) -> MetricResult:
    try:
        return _result(await asyncio.create_task(metric.a_measure(case)))
    except Exception as error:  # noqa: BLE001 - as above
        return failed(metric.label, metric.threshold, error)


def _waits(metric: MetricLike) -> bool:
    """Return whether measuring waits for something outside; a metric of anybody may say so in `waits`."""
    return getattr(metric, "waits", False) is True


def _to_observe(test_cases: object, agent: object, metrics: object, method: str) -> list[MetricLike]:
    """Return the metrics of an evaluation of an app; there may be none, where its components have some."""
    if test_cases is not None or agent is not None:
        other = "test_cases" if agent is None else "agent"
        raise ConfigurationError(f"observed_callback and {other} cannot be evaluated together; give goldens beside one")
    return _checked(metrics, method) if metrics or not isinstance(metrics, Sequence) else []


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


def _prepared(
    test_cases: Iterable[AnyCase] | None, metrics: Sequence[MetricLike], show_progress: bool | None
) -> tuple[_Sheet, AbstractContextManager[object]]:
    cases = listed_cases(test_cases)
    if not cases:
        message = "there is no test case to evaluate: test_cases is empty"
        raise ConfigurationError(message)
    if not (_on_a_terminal() if show_progress is None else show_progress):
        return _Sheet(cases, metrics, lambda: None), nullcontext()
    from toolmark.report.terminal import CaseProgress  # noqa: PLC0415 - the terminal is loaded when used

    progress = CaseProgress(len(cases))
    return _Sheet(cases, metrics, progress.advance_one), progress


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


def _result(value: object) -> MetricResult:
    """Return what a metric returned, which may be anybody's code."""
    if not isinstance(value, MetricResult):
        message = f"the metric returned {type(value).__name__} {value!r:.60}, where a MetricResult is needed"
        raise ConfigurationError(message)
    return value


def _checked(metrics: object, method: str) -> list[MetricLike]:
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
        self._metrics.extend(_checked([metric], "measure"))
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
