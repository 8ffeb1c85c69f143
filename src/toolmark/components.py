"""An app of observed functions is asked goldens: its runs become cases, its components rows of their own.

Every time that a component with metrics runs is a row of the report beside those of the goldens, named
`golden > component`. Its metrics are columns of their own, named `component: metric`. Where a column is not about a
row, the result is skipped; where the app failed before it came to a component, the golden's row has a failed one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast
from weakref import WeakKeyDictionary

from toolmark._text import distinct
from toolmark.agents import DEFAULT_CONCURRENCY, Conversation, listed_goldens, run_goldens
from toolmark.capture import Observable, ObserveRecorder, joined_pieces
from toolmark.cases import AnyCase, Golden, LLMTestCase, Run, RunStatus
from toolmark.errors import ConfigurationError
from toolmark.metrics import MetricLike
from toolmark.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus

App: TypeAlias = "Callable[[str], object] | Callable[[str], Awaitable[object]]"
"""What is asked: a function of one text, sync or async, or a generator function that yields its answer in pieces."""


@dataclass(frozen=True, eq=False)
class Row:
    """A row of the report to be.

    Attributes:
        case: Its case.
        golden: Position of the golden.
        of: The component; `None` for the golden itself.
        error: What ended the run, if an exception did.
    """

    case: LLMTestCase
    golden: int
    of: Observable | None = None
    error: str | None = None


@dataclass(frozen=True)
class Part:
    """The rows that have the same metrics."""

    of: Observable | None
    metrics: tuple[MetricLike, ...]
    rows: tuple[Row, ...]

    @property
    def cases(self) -> list[AnyCase]:
        """What the metrics measure."""
        return [row.case for row in self.rows]


@dataclass(frozen=True)
class Asked:
    """What came of asking an app.

    Attributes:
        rows: All rows, each golden's before those of its components.
        parts: Which of them are measured by which metrics.
    """

    rows: tuple[Row, ...]
    parts: tuple[Part, ...]

    def report(self, reports: Sequence[Report]) -> Report:
        """Return one report of those of the parts, in their order."""
        labels = iter(distinct([part.of.name for part in self.parts if part.of is not None]))
        names: list[str] = []
        results: dict[Row, list[MetricResult]] = {row: [] for row in self.rows}
        apart: dict[Row, set[int]] = {row: set() for row in self.rows}
        for part, report in zip(self.parts, reports, strict=True):
            prefix = "" if part.of is None else f"{next(labels)}: "
            measured = dict(zip(part.rows, report.cases, strict=True))
            reached = {row.golden for row in part.rows}
            for place, summary in enumerate(report.summaries):
                name = prefix + summary.metric
                for row in self.rows:
                    if row in measured:
                        result = measured[row].results[place].renamed(name)
                    else:
                        result = _left_out(row, part, name, summary.threshold, was_reached=row.golden in reached)
                        if row.of is not None or row.golden in reached:
                            apart[row].add(len(names))
                    results[row].append(result)
                names.append(name)
        lines = [
            CaseResult(index, row.case, tuple(results[row]), frozenset(apart[row]))
            for index, row in enumerate(self.rows)
        ]
        return Report(tuple(names), tuple(lines))


def _left_out(row: Row, part: Part, name: str, threshold: float, *, was_reached: bool) -> MetricResult:
    """Return the result of a row that a metric did not measure."""
    component = "whole answers" if part.of is None else repr(part.of.name)
    status, error = ResultStatus.SKIPPED, None
    reason = f"Skipped: this metric is about {component}."
    if part.of is not None and row.of is None and not was_reached:
        reason = f"Skipped: {component} did not run."
        if row.error is not None:
            status, error = ResultStatus.FAILED, row.error
            reason = f"Not measured: the app failed before it came to {component}: {row.error}"
    return MetricResult(metric=name, status=status, threshold=threshold, reason=reason, error=error)


async def ask_app(
    goldens: Iterable[Golden] | None,
    app: App,
    metrics: Sequence[MetricLike],
    *,
    max_concurrency: int = DEFAULT_CONCURRENCY,
) -> Asked:
    """Ask an app each golden's question, and return what is to be measured.

    Args:
        goldens: The questions, with what is expected.
        app: Is called with the input of each. An async function is asked several at the same time; a sync one, which
            may not be safe in threads, one after the other, each in a thread of its own.
        metrics: What scores the whole answers; none, where only components are scored.
        max_concurrency: How many questions an async app is asked at the same time.

    Raises:
        ConfigurationError: The app is no function; or there is nothing that could score anything.
    """
    asked = listed_goldens(goldens)
    observed = _ObservedApp(app)
    cases = await run_goldens(asked, observed.answer, max_concurrency=max_concurrency)
    rows: list[Row] = []
    for index, (golden, case) in enumerate(zip(asked, cases, strict=True)):
        rows += observed.rows(golden, case, index, is_scored=bool(metrics))
    parts = [Part(None, tuple(metrics), tuple(row for row in rows if row.of is None))] if metrics else []
    for of in dict.fromkeys(row.of for row in rows if row.of is not None):
        # `observe` has made sure that these are metrics.
        scores = cast("tuple[MetricLike, ...]", of.metrics)
        parts.append(Part(of, scores, tuple(row for row in rows if row.of is of)))
    if not parts:
        first = next((f"; the first run failed: {row.error}" for row in rows if row.error), "")
        message = (
            f"there is nothing to score: no metrics were given, and no function with @observe(metrics=...) ran{first}"
        )
        raise ConfigurationError(message)
    return Asked(tuple(rows), tuple(parts))


class _ObservedApp:
    """An app as an agent that is asked questions, with what was seen of it."""

    def __init__(self, app: App) -> None:
        if not callable(app):
            message = (
                f"observed_callback must be a function of the golden's input, got {type(app).__name__} {app!r:.60}"
            )
            raise ConfigurationError(message)
        self._app = app
        self._recorders: dict[str | None, ObserveRecorder] = {}
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def answer(self, question: str, conversation: Conversation) -> Run:
        """Ask one question; whatever the app raises is in the run."""
        recorder = ObserveRecorder(conversation=conversation.id)
        with recorder.listening():
            try:
                with recorder.run(question, app=self._app) as going:
                    answer, error = await self._called(question)
                    if error is not None:
                        # Here, and not in a coroutine of its own, which lets no StopIteration out.
                        raise error  # noqa: TRY301
                    going.answer(answer)
            except Exception:  # noqa: BLE001, S110 - the run has it
                pass
        self._recorders[recorder.last_run.run_id] = recorder
        return recorder.last_run

    async def _called(self, question: str) -> tuple[object, Exception | None]:
        if _is_async(self._app):
            answer = self._app(question)
        else:
            async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                answer, error = await asyncio.to_thread(_call, self._app, question)
            if error is not None:
                return None, error
        if inspect.isasyncgen(answer):
            answer = joined_pieces([piece async for piece in answer])
        return await answer if inspect.isawaitable(answer) else answer, None

    def rows(self, golden: Golden, case: LLMTestCase, index: int, *, is_scored: bool) -> list[Row]:
        """Return the rows of one golden."""
        run = case.run
        recorder = None if run is None else self._recorders.get(run.run_id)
        if run is None or recorder is None:
            return [Row(case, index)]
        given = ("input", "expected_tools", "expected_output", "available_tools")
        wanted = {name: getattr(golden, name) for name in given if getattr(golden, name) is not None}
        error = run.error if run.status is RunStatus.ERROR else None
        parts = recorder.components_with(wanted)
        whole = Row(recorder.test_case_with(case, wanted), index, error=error)
        names = distinct([part.name for part in parts])
        inner = [
            Row(part.case.model_copy(update={"id": f"{case.id} > {name}"}), index, part.of)
            for part, name in zip(parts, names, strict=True)
        ]
        return [whole, *inner] if is_scored or error is not None or not inner else inner


def _is_async(app: Callable[..., object]) -> bool:
    """Return whether calling it only prepares something that is then awaited."""
    plain = inspect.isroutine(app) or isinstance(app, partial)
    called: object = app if plain else type(app).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


def _call(app: Callable[[str], object], question: str) -> tuple[object, Exception | None]:
    """Call an app in a thread; an exception is handed over as a value, since a future cannot hold every one."""
    try:
        answer = app(question)
        return (joined_pieces(list(answer)) if inspect.isgenerator(answer) else answer), None
    except Exception as error:  # noqa: BLE001 - raised where it is awaited
        return None, error
