"""Evaluation of cases, agents and observed apps with metrics.

Metrics that wait for something outside, such as a judge, measure several cases at the same time in one event loop; the
others run one after the other: in the thread of the caller, or in a thread of their own beside metrics that wait.
Results are in the order of the cases either way.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from toolgrade._internal.options import with_arguments_of
from toolgrade.agents import DEFAULT_CONCURRENCY, AgentCallable, Goldens
from toolgrade.cases import AnyCase
from toolgrade.errors import MetricAssertionError
from toolgrade.evaluation.execute import PARTIAL, EvaluationOptions, Files, Target, run_evaluation, run_evaluation_async
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import OUTCOME_WORDS, Gate

if TYPE_CHECKING:
    from toolgrade.evaluation.results_file import Resume
    from toolgrade.evaluation.session import App
    from toolgrade.judge.judge import JudgeLike

T = TypeVar("T")


def evaluate(
    test_cases: Iterable[AnyCase] | Files | None = None,
    metrics: Sequence[MetricLike] = (),
    *,
    goldens: Goldens | None = None,
    golden_id: str | None = None,
    agent: AgentCallable | None = None,
    agents: Mapping[str, AgentCallable] | None = None,
    observed_callback: App | None = None,
    user_model: JudgeLike | None = None,
    trials: int | None = None,
    timeout: float | None = None,
    golden_timeout: float | None = None,
    cluster: str | None = None,
    error_texts: str | None = "default",
    text_tools: Sequence[str] = (),
    results: Target | None = None,
    resume: bool | Resume = False,
    contents: bool = True,
    reject_bad_lines: bool = False,
    allow_nan: bool = False,
    processes: int | None = None,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    gate: Gate | None = None,
    about: Mapping[str, Any] | None = None,
    show_progress: bool | None = None,
) -> Report:
    """Measure every case with every metric.

    A case that cannot be measured gets an errored result, and the others are measured. Nothing is printed, except for a
    progress bar on standard error.

    Ctrl-C cancels the agents, prints the report of the completed cases on standard error and raises
    `KeyboardInterrupt`, from which `partial_report` extracts that report. A second Ctrl-C stops at once.

    Args:
        test_cases: At least one case, or a file of recorded runs or several, of any kind that `read_cases` reads; `"-"`
            is standard input. A line that cannot be read is named in a warning and is a case that was not measured.
            Large files are divided among processes; see docs/guide.md.
        metrics: At least one metric.
        goldens: Questions for the agent, each in a separate conversation, or the path of their file (`Golden.load`);
            see `toolgrade.agents`. With files as `test_cases`: the path of the goldens whose expectations the cases
            get, by id, name or input. Runs of one golden are its trials.
        golden_id: Path of the field of a recorded case that has the id of its golden, such as `metadata.task`.
        agent: `async (input, conversation) -> Run`, such as an adapter's `as_agent(agent)`; a function that is not
            async runs in a thread. If it fails, the run of the case has the error, and the calls as far as recorded.
        agents: In place of one agent, several by their names; each answers all goldens, and the report compares them.
        observed_callback: In place of an agent, a function of a golden's input that calls functions decorated with
            `@observe`; see docs/live.md. Components with metrics are scored in rows of their own, so `metrics` may
            be left out. A sync function is called for one golden after the other.
        user_model: The model that plays the users of goldens with a `SimulatedUser`: any value that `judge=` accepts,
            with a budget of its own. What it used stands in the metadata of each conversation, and in the report.
        trials: Number of times each golden is asked. `Report.trial_summaries` then shows how reliable the agent is, and
            intervals treat the trials of a golden as one cluster.
        timeout: Seconds for each call of an agent. It is then cancelled, and its run is `stopped`, with the calls as
            far as recorded. A thread cannot be cancelled: it is left behind.
        golden_timeout: Seconds for the whole of a golden, all its turns.
        cluster: Path of the field of a recorded case that says which cases are repetitions of one another, such as
            `metadata.task`.
        error_texts: Which answers of tools count as failures, for all metrics, where the status does not say that the
            call failed: `"default"` for texts and objects that are errors by convention (`Error: ...`, a traceback,
            `{"error": ...}`); a regular expression that is searched in each answer in their place; `None` for none.
        text_tools: Names or patterns of tools that return documents, whose text is never a failure.
        results: File to which each case (of files, each part) is written with its results, without secrets: JSON
            Lines for `toolgrade.evaluation.read_results`. It must not exist yet, unless it is resumed.
        resume: Resume that file if it exists: `True` or `"missing"` measures the cases that have no results in it, or
            whose golden or content has changed; `"errored"` also those that could not be measured or whose agent broke;
            `"failed"` also those below a threshold. The metrics and their options must be the same.
        contents: Write the content of the cases to `results`; otherwise only ids, names and results.
        reject_bad_lines: Refuse files with a line that cannot be read.
        allow_nan: Accept bare NaN and infinities in files; see `read_cases`.
        processes: Number of processes that evaluate large files; by default one per core. Metrics that ask a judge are
            measured in this one.
        max_concurrency: Number of questions, and of cases that are judged, at the same time.
        gate: How much is enough for `Report.passed`; by default every case must pass.
        about: Facts for `Report.about` and every view, such as `{"name": "release 7", "model": "gpt-4.1"}`; in CI the
            commit is there already.
        show_progress: Show the progress bar; by default only on a terminal.

    Raises:
        ConfigurationError: There is no case or no metric; a metric is invalid; arguments cannot be combined; the file
            of results exists, or has results of other metrics.
        DataFileError: Nothing in a file can be read, or a line cannot be and bad lines are rejected; the file to resume
            is not a file of results.
        WorkerDiedError: A process was killed; what is in `results` can be resumed.
        OSError: A file cannot be opened or written; complete lines of `results` can be resumed.

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
    return run_evaluation(EvaluationOptions(**locals()))  # they have the same names


_ARGUMENTS = inspect.signature(evaluate)


@with_arguments_of(evaluate)
async def evaluate_async(*cases: Any, **options: Any) -> Report:  # noqa: ANN401 - the arguments of `evaluate`
    """Do what `evaluate` does, inside a running event loop of asyncio; files are evaluated in a thread.

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
    return await run_evaluation_async(EvaluationOptions(**_ARGUMENTS.bind(*cases, **options).arguments))


def partial_report(stopped: BaseException) -> Report | None:
    """Return the report of the cases that were completed before an evaluation was stopped.

    Args:
        stopped: The `KeyboardInterrupt` that `evaluate` raised, the `CancelledError` of `evaluate_async`, or an
            exception that was raised in its place, as `asyncio.run` does.

    Returns:
        The report, whose `interrupted` is true; `None` for any other exception.

    Example:
        >>> import asyncio
        >>> from toolgrade import Golden, Run, ToolSuccessRate, evaluate_async
        >>> from toolgrade.evaluation import partial_report
        >>> async def agent(question, conversation):
        ...     if question == "Weather in Rome?":
        ...         evaluating.cancel()  # as a timeout around the evaluation does; Ctrl-C raises KeyboardInterrupt
        ...     return Run(input=question, actual_output="Sunny.")
        >>> goldens = [Golden(id=city, input=f"Weather in {city}?") for city in ("Paris", "Rome")]
        >>> async def main():
        ...     global evaluating
        ...     evaluation = evaluate_async(
        ...         goldens=goldens, agent=agent, metrics=[ToolSuccessRate()], max_concurrency=1
        ...     )
        ...     evaluating = asyncio.create_task(evaluation)
        ...     try:
        ...         return await evaluating
        ...     except asyncio.CancelledError as stopped:
        ...         return partial_report(stopped)
        >>> report = asyncio.run(main())
        >>> print(report.interrupted, [case.name for case in report.cases])
        True ['Paris']
    """
    visited: set[int] = set()  # the causes of an exception can form a circle
    error: BaseException | None = stopped
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        report = getattr(error, PARTIAL, None)
        if isinstance(report, Report):
            return report
        error = error.__cause__ or error.__context__
    return None


def assert_test(
    test_case: AnyCase,
    metrics: Sequence[MetricLike],
    *,
    error_texts: str | None = "default",
    text_tools: Sequence[str] = (),
) -> tuple[MetricResult, ...]:
    """Measure one case, and raise an error unless its outcome is `passed`.

    `error_texts` and `text_tools` are those of `evaluate`.

    Returns:
        The results, in the order of the metrics.

    Raises:
        MetricAssertionError: A score is below its threshold or could not be measured, no metric applies, or the run of
            the case did not end as it must; the message has every reason. Test runners report it as a failed test,
            since it is an `AssertionError`.
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
    # Not in a list: a list of texts names files.
    case = iter([test_case])
    return passed_results(evaluate(case, metrics, error_texts=error_texts, text_tools=text_tools, show_progress=False))


def passed_results(report: Report, remedy: str = "") -> tuple[MetricResult, ...]:
    """Return the results of a report of one case, or raise an error that ends with `remedy`.

    Raises:
        MetricAssertionError: The outcome of the case is not `passed`.
    """
    __tracebackhide__ = True
    case = report.cases[0]
    if case.outcome == "passed":
        return case.results
    lines = [] if case.wrong_end is None else [f"{OUTCOME_WORDS[case.wrong_end.outcome]}: {case.wrong_end.why}"]
    applies = any(result.status is not ResultStatus.SKIPPED for result in case.results)
    for result in case.results:
        if not result.passed and not (applies and result.status is ResultStatus.SKIPPED):
            below = f"score {result.score or 0:.4g} is below the threshold {result.threshold:g}"
            lines.append(f"{result.metric}: {result.reason or result.error or below}")
    raise MetricAssertionError("\n".join([*lines, remedy]).rstrip("\n"), report)
