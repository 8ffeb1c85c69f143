"""One evaluation while it runs: where its cases come from, how they are measured, and their results so far.

A unit is a case, or a golden in one trial. Its rows (the case and, for an app, its components) are measured as soon as
they exist and stored at once, in memory and in the file of results. So all completed units survive an interruption.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple

from toolgrade._internal.text import unique_labels
from toolgrade._internal.version import installed_version
from toolgrade.agents import AgentCallable, run_golden
from toolgrade.cases import AnyCase
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.measuring import checked_result, is_batched, measure_in_thread, waits
from toolgrade.evaluation.observed_app import ObservedApp, Pending
from toolgrade.metrics import Metric, MetricLike
from toolgrade.report import Report
from toolgrade.result import MetricResult, failed_result
from toolgrade.results.jsonl import Header
from toolgrade.results.layout import Row, report_table
from toolgrade.results.writer import ResultsFile, new_header


@dataclass(frozen=True)
class Source:
    """Where the cases come from.

    `items` are the cases or goldens. `prepare` returns what to measure for the item at a position; for a golden, it
    runs the agent first.
    """

    kind: Literal["cases", "goldens"]
    items: Sequence[Any]
    prepare: Callable[[int], Awaitable[Sequence[Pending]]]


def case_source(cases: Sequence[AnyCase], metrics: Sequence[MetricLike]) -> Source:
    """Return the source of cases that exist already."""

    async def prepare(place: int) -> Sequence[Pending]:
        return [Pending(cases[place], metrics)]

    return Source("cases", cases, prepare)


def agent_source(goldens: Sequence[Golden], metrics: Sequence[MetricLike], agent: AgentCallable) -> Source:
    """Return the source of goldens that an agent answers."""

    async def prepare(place: int) -> Sequence[Pending]:
        return [Pending(await run_golden(goldens[place], agent), metrics)]

    return Source("goldens", goldens, prepare)


def app_source(goldens: Sequence[Golden], metrics: Sequence[MetricLike], app: ObservedApp) -> Source:
    """Return the source of goldens that an app of observed functions answers; its components are measured too."""

    async def prepare(place: int) -> Sequence[Pending]:
        return await app.ask(goldens[place], place, metrics)

    return Source("goldens", goldens, prepare)


class Unit(NamedTuple):
    """A case, or a golden in one trial."""

    place: int
    trial: int | None


@dataclass
class Session:
    """One evaluation while it runs.

    `limit` is the number of units in progress at the same time. If `is_async`, metrics measure with `a_measure` only.
    `advance` is called after each unit, and `_early_results` has the results of `measure_immediate`.
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
            "toolgrade": installed_version(),
            "python": platform.python_version(),
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": 0.0,
        }
        self._seconds_before, self._began = 0.0, time.monotonic()
        if self.file is not None:
            content = self.file.content
            self._about, self._seconds_before = content.about, content.seconds
            for (place, trial), rows in content.units.items():
                self._rows[Unit(place, trial or None)] = rows  # the file has 0 for a unit without trials
        self._metric_lock = asyncio.Lock()

    @property
    def remaining(self) -> list[Unit]:
        """The units that are not done: the first trial of each golden, then the second of each, and so on."""
        trials = [None] if self.trials is None else range(1, self.trials + 1)
        units = [Unit(place, trial) for trial in trials for place in range(len(self.source.items))]
        return [unit for unit in units if unit not in self._rows]

    def measure_immediate(self) -> bool:
        """Measure existing cases in this thread, with the metrics that do not wait.

        Returns:
            Whether `run` has work left.
        """
        if self.source.kind != "cases":
            return True
        immediate = [index for index, metric in enumerate(self.metrics) if not waits(metric)]
        is_complete = len(immediate) == len(self.metrics)
        for unit in self.remaining:
            pending = Pending(self.source.items[unit.place], self.metrics)
            results = {index: measure_in_thread(self.metrics[index], pending.case) for index in immediate}
            if is_complete:
                self._store(unit, [self._row(unit, pending, results)])
            else:
                self._early_results[unit] = results
        return not is_complete

    async def run(self) -> None:
        """Run the agent for the remaining units and measure them, at most `limit` at the same time.

        A judge that asks in batches has no such limit.

        Cancelling this also cancels the agents, and drops answers that they give afterwards.
        """
        remaining = self.remaining
        queue = iter(remaining)  # all workers share it
        # A batch should hold the questions about all units: every unit is prepared before the first is measured.
        all_at_once = any(map(is_batched, self.metrics))
        turns, ready, prepared = asyncio.Semaphore(self.limit), asyncio.Event(), 0

        async def work() -> None:
            nonlocal prepared
            for unit in queue:
                try:
                    async with turns:
                        cases = await self.source.prepare(unit.place)
                finally:  # the others must not wait for a unit that was cancelled
                    prepared += 1
                    if prepared == len(remaining):
                        ready.set()
                self._raise_if_stopped()
                if all_at_once:
                    await ready.wait()
                rows = [await self._measure(unit, pending) for pending in cases]
                self._raise_if_stopped()
                self._store(unit, rows)

        # As many tasks as may be in progress, and not one for each unit: there may be a million.
        number = len(remaining) if all_at_once else min(self.limit, len(remaining))
        workers = [asyncio.ensure_future(work()) for _ in range(number)]
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
        """End a worker whose agent suppresses the cancellation: what it returns then is not an answer."""
        if self._is_stopped:
            raise asyncio.CancelledError

    async def _measure(self, unit: Unit, pending: Pending) -> Row:
        results = self._early_results.pop(unit, {})
        for index, metric in enumerate(pending.metrics):
            if index not in results:
                results[index] = await self._result(metric, pending.case)
        return self._row(unit, pending, results)

    async def _result(self, metric: MetricLike, case: AnyCase) -> MetricResult:
        if self.is_async or waits(metric):
            return await _measure_async(metric, case)
        if isinstance(metric, Metric):
            return measure_in_thread(metric, case)
        # A user's metric may run its own event loop, which fails in a thread where a loop runs.
        async with self._metric_lock:
            return await asyncio.to_thread(measure_in_thread, metric, case)

    def _row(self, unit: Unit, pending: Pending, results: Mapping[int, MetricResult]) -> Row:
        component = pending.component
        names = self.names if component is None else unique_labels([metric.label for metric in pending.metrics])
        renamed = tuple(results[index].renamed(name) for index, name in enumerate(names))
        if component is None:
            return Row(pending.case, unit.place, unit.trial, results=renamed)
        thresholds = ", ".join(f"{result.metric} {result.threshold:g}" for result in renamed)
        return Row(pending.case, unit.place, unit.trial, component.name, f"{component.source} ({thresholds})", renamed)

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
            raise _nothing_to_score(rows)
        names, cases = report_table(rows, self.names, self.trials)
        return Report(names, cases, self.trials, interrupted, self._about)

    @property
    def progress(self) -> tuple[int, int]:
        """Number of units that are done, and of all units."""
        return len(self._rows), len(self.source.items) * (self.trials or 1)


def _nothing_to_score(rows: Sequence[Row]) -> ConfigurationError:
    errors = [row.error for row in sorted(rows, key=lambda row: row.unit) if row.error]
    failure = f"; the first run failed: {errors[0]}" if errors else ""
    message = "nothing to score: metrics is empty, and no function with @observe(metrics=...) ran"
    return ConfigurationError(message + failure)


def evaluation_header(
    source: Source, metrics: Sequence[MetricLike], trials: int | None
) -> tuple[Header, tuple[str, ...]]:
    """Return the header of the file of results, and the fingerprints of its cases or goldens."""
    names = unique_labels([metric.label for metric in metrics])
    entries = [(name, metric, metric.threshold) for name, metric in zip(names, metrics, strict=True)]
    return new_header(source.kind, source.items, entries, trials)


async def _measure_async(metric: MetricLike, case: AnyCase) -> MetricResult:
    try:
        return checked_result(await asyncio.create_task(metric.a_measure(case)))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return failed_result(metric.label, metric.threshold, error)
