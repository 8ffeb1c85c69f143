"""One evaluation while it runs: where its cases come from, how they are measured, and their results so far.

A unit is a case, or a golden in one trial. Its rows (the case and, for an app, its components) are measured as soon as
they exist and stored at once, in memory and in the file of results. So all completed units survive an interruption.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import isfinite
from typing import Any, Literal, NamedTuple

from toolmark._internal.text import unique_labels
from toolmark._internal.version import installed_version
from toolmark.agents import AgentCallable, run_golden
from toolmark.cases import AnyCase, Golden
from toolmark.errors import ConfigurationError
from toolmark.evaluation.observed_app import ObservedApp, Pending
from toolmark.metrics import Metric, MetricLike
from toolmark.report import Report
from toolmark.result import MetricResult, ResultStatus, failed_result
from toolmark.results.jsonl import Header
from toolmark.results.layout import Row, report_table
from toolmark.results.writer import ResultsFile, new_header


@dataclass(frozen=True)
class Source:
    """Where the cases come from.

    `items` are the cases or goldens; `pending` returns what to measure for the item at a position, and asks a golden
    first.
    """

    kind: Literal["cases", "goldens"]
    items: Sequence[Any]
    pending: Callable[[int], Awaitable[Sequence[Pending]]]


def case_source(cases: Sequence[AnyCase], metrics: Sequence[MetricLike]) -> Source:
    """Return the source of cases that exist already."""

    async def pending(place: int) -> Sequence[Pending]:
        return [Pending(cases[place], metrics)]

    return Source("cases", cases, pending)


def agent_source(goldens: Sequence[Golden], metrics: Sequence[MetricLike], agent: AgentCallable) -> Source:
    """Return the source of goldens that an agent is asked."""

    async def pending(place: int) -> Sequence[Pending]:
        return [Pending(await run_golden(goldens[place], agent, place), metrics)]

    return Source("goldens", goldens, pending)


def app_source(goldens: Sequence[Golden], metrics: Sequence[MetricLike], app: ObservedApp) -> Source:
    """Return the source of goldens that an app of observed functions is asked, with its components."""

    async def pending(place: int) -> Sequence[Pending]:
        return await app.ask(goldens[place], place, metrics)

    return Source("goldens", goldens, pending)


class Unit(NamedTuple):
    """A case, or a golden in one trial."""

    place: int
    trial: int | None


@dataclass
class Session:
    """One evaluation while it runs.

    `limit` is the number of units in progress at the same time, `is_async` measures with `a_measure` only, and
    `advance` is called for each unit that is done now.
    """

    source: Source
    metrics: Sequence[MetricLike]
    trials: int | None
    limit: int
    is_async: bool
    file: ResultsFile | None = None
    advance: Callable[[], None] = lambda: None
    _rows: dict[Unit, list[Row]] = field(default_factory=dict[Unit, "list[Row]"])
    _early_results: dict[Unit, dict[int, MetricResult]] = field(default_factory=dict[Unit, "dict[int, MetricResult]"])
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        """Load the units that the file of results already has."""
        self.names = unique_labels([metric.label for metric in self.metrics])
        self._about: dict[str, Any] = {
            "toolmark": installed_version(),
            "python": platform.python_version(),
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": 0.0,
        }
        self._seconds_before, self._began = 0.0, time.monotonic()
        if self.file is not None:
            content = self.file.content
            self._about, self._seconds_before = content.about, content.seconds
            for (place, trial), rows in content.units.items():
                self._rows[Unit(place, trial or None)] = rows
        self._metric_lock = asyncio.Lock()

    @property
    def remaining(self) -> list[Unit]:
        """The units that are not done: the first trial of each golden, then the second of each, and so on."""
        trials = [None] if self.trials is None else range(1, self.trials + 1)
        units = [Unit(place, trial) for trial in trials for place in range(len(self.source.items))]
        return [unit for unit in units if unit not in self._rows]

    def measure_here(self) -> bool:
        """Measure existing cases with the metrics that wait for nothing, in this thread.

        Returns:
            Whether `run` has work left.
        """
        if self.source.kind != "cases":
            return True
        quick = [place for place, metric in enumerate(self.metrics) if not waits(metric)]
        is_complete = len(quick) == len(self.metrics)
        for unit in self.remaining:
            pending = Pending(self.source.items[unit.place], self.metrics)
            results = {place: measure_in_thread(self.metrics[place], pending.case) for place in quick}
            if is_complete:
                self._store(unit, [self._row(unit, pending, results)])
            else:
                self._early_results[unit] = results
        return not is_complete

    async def run(self) -> None:
        """Ask and measure the remaining units, at most `limit` at the same time.

        Cancelling this also cancels the agents, and drops answers that they give afterwards.
        """
        remaining = self.remaining
        queue = iter(remaining)

        async def work() -> None:
            for unit in queue:
                pending = await self.source.pending(unit.place)
                self._raise_if_stopped()
                rows = [await self._measure(unit, case) for case in pending]
                self._raise_if_stopped()
                self._store(unit, rows)

        # As many tasks as may be in progress, and not one for each unit: there may be a million.
        workers = [asyncio.ensure_future(work()) for _ in range(min(self.limit, len(remaining)))]
        if not workers:
            return
        try:
            # `gather` would cancel the workers before `_is_stopped` is set.
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._is_stopped = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        for worker in done:
            worker.result()

    def _raise_if_stopped(self) -> None:
        """End a worker whose agent answered its cancellation: that is not an answer to the question."""
        if self._is_stopped:
            raise asyncio.CancelledError

    async def _measure(self, unit: Unit, pending: Pending) -> Row:
        results = self._early_results.pop(unit, {})
        for place, metric in enumerate(pending.metrics):
            if place not in results:
                results[place] = await self._result(metric, pending.case)
        return self._row(unit, pending, results)

    async def _result(self, metric: MetricLike, case: AnyCase) -> MetricResult:
        if self.is_async or waits(metric):
            return await _measure_async(metric, case)
        if isinstance(metric, Metric):
            return measure_in_thread(metric, case)
        # A user's metric may run an event loop, which is impossible in the thread of this one.
        async with self._metric_lock:
            return await asyncio.to_thread(measure_in_thread, metric, case)

    def _row(self, unit: Unit, pending: Pending, results: Mapping[int, MetricResult]) -> Row:
        component = pending.component
        names = self.names if component is None else unique_labels([metric.label for metric in pending.metrics])
        renamed = tuple(results[place].renamed(name) for place, name in enumerate(names))
        if component is None:
            return Row(pending.case, unit.place, unit.trial, results=renamed)
        metrics = ", ".join(f"{result.metric} {result.threshold:g}" for result in renamed)
        return Row(pending.case, unit.place, unit.trial, component.name, f"{component.source} ({metrics})", renamed)

    def _store(self, unit: Unit, rows: list[Row]) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        if self.file is not None:
            self.file.write(rows, seconds)
        self._about["seconds"] = self._seconds_before + seconds
        self._rows[unit] = rows
        self.advance()

    def report(self, *, interrupted: bool = False) -> Report:
        """Return the report of the units that are done, in the order of cases and metrics.

        Raises:
            ConfigurationError: There are neither metrics nor components with metrics.
        """
        rows = [row for unit in self._rows.values() for row in unit]
        if not interrupted and not self.metrics and not any(row.component for row in rows):
            errors = [row.error for row in sorted(rows, key=lambda row: row.unit) if row.error]
            failure = f"; the first run failed: {errors[0]}" if errors else ""
            message = "nothing to score: metrics is empty, and no function with @observe(metrics=...) ran"
            raise ConfigurationError(message + failure)
        names, cases = report_table(rows, self.names, self.trials)
        return Report(names, cases, self.trials, interrupted, self._about)

    @property
    def progress(self) -> tuple[int, int]:
        """Number of units that are done, and of all units."""
        return len(self._rows), len(self.source.items) * (self.trials or 1)


def evaluation_header(
    source: Source, metrics: Sequence[MetricLike], trials: int | None
) -> tuple[Header, tuple[str, ...]]:
    """Return the header of the file of results, and the fingerprints of its cases or goldens."""
    names = unique_labels([metric.label for metric in metrics])
    entries = [(name, metric, metric.threshold) for name, metric in zip(names, metrics, strict=True)]
    return new_header(source.kind, source.items, entries, trials)


def measure_in_thread(metric: MetricLike, case: AnyCase) -> MetricResult:
    """Measure a case in this thread; an exception becomes a failed result."""
    try:
        # In a context of its own, so that the caller's last result stays the one that the metric shows.
        return _checked(copy_context().run(metric.measure, case))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return failed_result(metric.label, metric.threshold, error)


async def _measure_async(metric: MetricLike, case: AnyCase) -> MetricResult:
    try:
        return _checked(await asyncio.create_task(metric.a_measure(case)))
    except Exception as error:  # noqa: BLE001 - as above
        return failed_result(metric.label, metric.threshold, error)


def waits(metric: MetricLike) -> bool:
    """Return whether a metric waits for something outside, such as a judge, by its attribute `waits`."""
    return getattr(metric, "waits", False) is True


def _checked(value: object) -> MetricResult:
    """Return the result of a metric, which may be a user's, if it is valid."""
    if not isinstance(value, MetricResult):
        raise ConfigurationError(f"a metric must return a MetricResult, got {type(value).__name__} {value!r:.60}")
    is_scored = value.status is ResultStatus.SCORED
    if {value.score is not None, value.passed is not None} != {is_scored}:
        message = f"the metric returned a {value.status.value} result with score={value.score}, passed={value.passed}"
        raise ConfigurationError(f"{message}; only a scored one has both, and it needs them")
    if not isfinite(value.score or 0):
        raise ConfigurationError(f"the metric returned the score {value.score}, which must be a number from 0 to 1")
    return value
