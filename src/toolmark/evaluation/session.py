"""What is measured in an evaluation, in which order, and what came of it so far?

A unit is what is asked, or given, once: a case, or a golden in one trial. Its rows (the case; of an app also its
components) are measured as soon as they are there, and kept at once: in memory, and in a file where there is one. So
whatever ends an evaluation, what was done is there.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import isfinite
from typing import Any, NamedTuple, Protocol, cast

from toolmark._internal.text import unique_labels
from toolmark._internal.version import installed_version
from toolmark.agents import AgentCallable, run_golden
from toolmark.capture import Observable
from toolmark.cases import AnyCase, Golden
from toolmark.errors import ConfigurationError
from toolmark.evaluation.observed_app import ObservedApp
from toolmark.metrics import Metric, MetricLike
from toolmark.report import Report
from toolmark.result import MetricResult, ResultStatus, failed_result
from toolmark.results import Evaluated, ResultsFile, Row, laid_out


class Pending(NamedTuple):
    """A case that is to be measured.

    Attributes:
        case: The case.
        metrics: What measures it.
        of: The component that it is about; `None` for a case, or a whole answer.
    """

    case: AnyCase
    metrics: Sequence[MetricLike]
    of: Observable | None = None


class Source(Protocol):
    """Where the cases come from."""

    @property
    def kind(self) -> str:
        """`cases` or `goldens`."""
        ...

    @property
    def items(self) -> Sequence[object]:
        """The cases or goldens."""
        ...

    async def pending(self, place: int) -> Sequence[Pending]:
        """Return what is to be measured of the one at this position, having asked it."""
        ...


@dataclass(frozen=True)
class Given:
    """Cases that are there."""

    items: Sequence[AnyCase]
    metrics: Sequence[MetricLike]
    kind: str = "cases"

    async def pending(self, place: int) -> Sequence[Pending]:
        """Return the case."""
        return [self.at(place)]

    def at(self, place: int) -> Pending:
        """Return the case, which nobody has to be asked for."""
        return Pending(self.items[place], self.metrics)


@dataclass(frozen=True)
class AskedAgent:
    """Goldens that an agent is asked."""

    items: Sequence[Golden]
    metrics: Sequence[MetricLike]
    agent: AgentCallable
    kind: str = "goldens"

    async def pending(self, place: int) -> Sequence[Pending]:
        """Ask, and return the case."""
        return [Pending(await run_golden(self.items[place], self.agent, place), self.metrics)]


@dataclass(frozen=True)
class AskedApp:
    """Goldens that an app of observed functions is asked."""

    items: Sequence[Golden]
    metrics: Sequence[MetricLike]
    app: ObservedApp
    kind: str = "goldens"

    async def pending(self, place: int) -> Sequence[Pending]:
        """Ask, and return the whole answer and its components."""
        seen = await self.app.ask(self.items[place], place, is_scored=bool(self.metrics))
        return [
            # `observe` has made sure that these are metrics.
            Pending(case, self.metrics if of is None else cast("tuple[MetricLike, ...]", of.metrics), of)
            for case, of in seen
        ]


class Unit(NamedTuple):
    """What is asked, or given, once."""

    place: int
    trial: int | None


@dataclass
class Session:
    """One evaluation under way.

    Attributes:
        source: Where the cases come from.
        metrics: What measures cases, or whole answers.
        trials: How often each golden is asked; `None` for once.
        limit: How much goes on at the same time.
        is_async: Measure with `a_measure` alone, as `evaluate_async` does.
        file: Where the results go, besides.
        advance: Is called for each unit that is done.
    """

    source: Source
    metrics: Sequence[MetricLike]
    trials: int | None
    limit: int
    is_async: bool
    file: ResultsFile | None = None
    advance: Callable[[], None] = lambda: None
    _done: dict[Unit, list[Row]] = field(default_factory=dict[Unit, "list[Row]"])
    _known: dict[Unit, dict[int, MetricResult]] = field(default_factory=dict[Unit, "dict[int, MetricResult]"])
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        """Take over what a file has already."""
        self.names = unique_labels([metric.label for metric in self.metrics])
        self._about: dict[str, Any] = {
            "toolmark": installed_version(),
            "python": platform.python_version(),
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": 0.0,
        }
        self._before, self._began = 0.0, time.monotonic()
        if self.file is not None:
            found = self.file.found
            self._about, self._before = found.about, found.seconds
            for (place, trial), rows in found.units.items():
                self._done[Unit(place, trial or None)] = rows
                self.advance()
        self._turn = asyncio.Lock()

    @property
    def units(self) -> list[Unit]:
        """All of them: the first trial of each golden, then the second of each, and so on."""
        places = range(len(self.source.items))
        trials = [None] if self.trials is None else range(1, self.trials + 1)
        return [Unit(place, trial) for trial in trials for place in places]

    @property
    def left(self) -> list[Unit]:
        """Those that are not done."""
        return [unit for unit in self.units if unit not in self._done]

    @property
    def asks(self) -> bool:
        """Whether somebody has to be asked for the cases."""
        return not isinstance(self.source, Given)

    def measure_here(self) -> bool:
        """Measure what waits for nothing, in this thread; return whether something is left, which is for `run`."""
        if not isinstance(self.source, Given):
            return True
        quick = [place for place, metric in enumerate(self.metrics) if not waits(metric)]
        is_all = len(quick) == len(self.metrics)
        for unit in self.left:
            pending = self.source.at(unit.place)
            results = {place: measured_here(self.metrics[place], pending.case) for place in quick}
            if is_all:
                self._enter(unit, [self._row(unit, pending, results)])
            else:
                self._known[unit] = results
        return not is_all

    async def run(self) -> None:
        """Ask and measure whatever is left, so much at the same time as the limit says.

        Whoever cancels it stops the agents, too; nothing is kept of what they say then.
        """
        left = self.left
        waiting = iter(left)

        async def work() -> None:
            for unit in waiting:
                rows = [await self._measured(unit, pending) for pending in await self._asked(unit)]
                self._check_going()
                self._enter(unit, rows)

        # As many tasks as places, and not one for each case: there may be a million.
        workers = [asyncio.ensure_future(work()) for _ in range(min(self.limit, len(left)))]
        if not workers:
            return
        try:
            # Not `gather`, which would cancel the workers before anything could be said here.
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._is_stopped = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        for worker in done:
            worker.result()

    async def _asked(self, unit: Unit) -> Sequence[Pending]:
        found = await self.source.pending(unit.place)
        self._check_going()
        return found

    def _check_going(self) -> None:
        """End a worker after its agent was told to stop, and answered instead: that is no answer to the question."""
        if self._is_stopped:
            raise asyncio.CancelledError

    async def _measured(self, unit: Unit, pending: Pending) -> Row:
        known = self._known.pop(unit, {})
        for place, metric in enumerate(pending.metrics):
            if place not in known:
                known[place] = await self._result(metric, pending.case)
        return self._row(unit, pending, known)

    async def _result(self, metric: MetricLike, case: AnyCase) -> MetricResult:
        if self.is_async or waits(metric):
            return await _a_measured(metric, case)
        if isinstance(metric, Metric):
            return measured_here(metric, case)
        # Anybody's code may run a loop of its own, which it cannot in the thread of this one.
        async with self._turn:
            return await asyncio.to_thread(measured_here, metric, case)

    def _row(self, unit: Unit, pending: Pending, results: Mapping[int, MetricResult]) -> Row:
        names = self.names if pending.of is None else unique_labels([metric.label for metric in pending.metrics])
        named = tuple(results[place].renamed(name) for place, name in enumerate(names))
        if pending.of is None:
            return Row(pending.case, unit.place, unit.trial, results=named)
        told = ", ".join(f"{result.metric} {result.threshold:g}" for result in named)
        return Row(pending.case, unit.place, unit.trial, pending.of.name, f"{pending.of.source} ({told})", named)

    def _enter(self, unit: Unit, rows: list[Row]) -> None:
        """Keep what came of a unit."""
        seconds = round(time.monotonic() - self._began, 3)
        if self.file is not None:
            self.file.write(rows, seconds)
        self._about["seconds"] = self._before + seconds
        self._done[unit] = rows
        self.advance()

    def report(self, *, interrupted: bool = False) -> Report:
        """Return the report of what is done, in the order of cases and metrics.

        Raises:
            ConfigurationError: There are neither metrics nor components that have some.
        """
        rows = [row for kept in self._done.values() for row in kept]
        if not interrupted and not self.metrics and not any(row.component for row in rows):
            raise ConfigurationError(_nothing_to_score(rows))
        names, cases = laid_out(rows, self.names, self.trials)
        return Report(names, cases, self.trials, interrupted, self._about)

    @property
    def progress(self) -> tuple[int, int]:
        """How many units are done, and of how many."""
        return len(self._done), len(self.source.items) * (self.trials or 1)


def evaluated(source: Source, metrics: Sequence[MetricLike], trials: int | None) -> Evaluated:
    """Return what is evaluated, as a file of results says it."""
    names = unique_labels([metric.label for metric in metrics])
    told = [(name, metric, metric.threshold) for name, metric in zip(names, metrics, strict=True)]
    return Evaluated.of(source.kind, source.items, told, trials)


def _nothing_to_score(rows: Sequence[Row]) -> str:
    ordered: Iterator[Row] = iter(sorted(rows, key=lambda row: row.unit))
    first = next((f"; the first run failed: {row.error}" for row in ordered if row.error), "")
    return f"there is nothing to score: no metrics were given, and no function with @observe(metrics=...) ran{first}"


def measured_here(metric: MetricLike, case: AnyCase) -> MetricResult:
    """Return what a metric says of a case, measured in this thread; an exception makes a failed result."""
    try:
        # In a context of its own: what the metrics remember is not the caller's last result.
        return _checked(copy_context().run(metric.measure, case))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return failed_result(metric.label, metric.threshold, error)


async def _a_measured(metric: MetricLike, case: AnyCase) -> MetricResult:
    try:
        return _checked(await asyncio.create_task(metric.a_measure(case)))
    except Exception as error:  # noqa: BLE001 - as above
        return failed_result(metric.label, metric.threshold, error)


def waits(metric: MetricLike) -> bool:
    """Return whether measuring waits for something outside; a metric of anybody may say so in `waits`."""
    return getattr(metric, "waits", False) is True


def _checked(value: object) -> MetricResult:
    """Return what a metric returned, which may be anybody's code."""
    if not isinstance(value, MetricResult):
        message = f"the metric returned {type(value).__name__} {value!r:.60}, where a MetricResult is needed"
        raise ConfigurationError(message)
    is_scored = value.status is ResultStatus.SCORED
    if (value.score is not None) != is_scored or (value.passed is not None) != is_scored:
        message = f"the metric returned a {value.status.value} result with score={value.score}, passed={value.passed}"
        raise ConfigurationError(f"{message}; a scored one has both, and any other neither")
    if value.score is not None and not isfinite(value.score):
        raise ConfigurationError(f"the metric returned the score {value.score}, which is no number from 0 to 1")
    return value
