"""One evaluation of cases, agents or an app while it runs: where its cases come from, and how they are measured.

A key identifies a case, or a golden in one trial with one agent. Its rows (the case and, for an app, its components)
are measured as soon as they exist and stored at once. So everything that was completed survives an interruption.

An app is a function that calls functions decorated with `@observe`. Its answers to goldens become cases, and each call
of a component with metrics is a case too, named `golden > component`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.sync_bridge import PerLoop, call_in_thread, is_async, run_interruptible
from toolgrade._internal.text import unique_labels
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.asking import Limits, run_conversation, run_golden
from toolgrade.capture.observation.spans import Observable, ObserveRecorder, join_pieces
from toolgrade.cases import AnyCase, Run, RunStatus
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.builder import ReportBuilder
from toolgrade.evaluation.measuring import (
    NO_EXPECTATION,
    checked_result,
    is_batched,
    measure_in_thread,
    unmeasured,
    waits,
)
from toolgrade.evaluation.result_json import encode_case
from toolgrade.evaluation.results_file import hash_of, head_of, rest_of
from toolgrade.evaluation.rows import CaseKey, Row
from toolgrade.metrics import Metric, MetricLike
from toolgrade.metrics.called_tools import refuse_spoilt
from toolgrade.report import Report
from toolgrade.report.report import label_of_question
from toolgrade.result import MetricResult, errored_result

if TYPE_CHECKING:
    from toolgrade.evaluation.files import FileCase
    from toolgrade.judge.judge import Judge
    from toolgrade.report.terminal.progress import ProgressBar


@dataclass(frozen=True)
class Source:
    """Where the cases come from."""

    items: Mapping[int, Any] | Sequence[Any]
    """The cases or goldens."""
    prepare: Callable[[CaseKey, Callable[[], None]], Awaitable[Sequence[Pending]]]
    """Returns what to measure for a key; for a golden it runs the agent, and calls its second argument after each
    turn."""
    agents: Sequence[str | None] = (None,)
    """The names of the agents; `None` for the agent of `agent=`."""
    existing: Mapping[CaseKey, Pending] | None = None
    """The cases that exist already, in order."""
    recorded: Mapping[CaseKey, tuple[int | None, FileCase]] | None = None
    """The cases of files, with the place of the first case of their golden or cluster."""

    def keys(self, trials: int | None) -> list[CaseKey]:
        """Return what is measured: the first trial of all goldens, agent by agent, then the second, and so on."""
        if self.existing is not None:
            return [*self.existing]
        numbers: Iterable[int | None] = [None] if trials is None else range(1, trials + 1)
        places = range(len(self.items))
        return [CaseKey(place, trial, agent) for trial, agent, place in product(numbers, self.agents, places)]


def existing_source(
    existing: Mapping[CaseKey, Pending], recorded: Mapping[CaseKey, tuple[int | None, FileCase]] | None = None
) -> Source:
    """Return the source of cases that exist already."""

    async def prepare(key: CaseKey, _on_turn: Callable[[], None]) -> Sequence[Pending]:
        return [existing[key]]

    return Source({key.place: one.case for key, one in existing.items()}, prepare, (None,), existing, recorded)


def agent_source(
    goldens: Sequence[Golden],
    metrics: Sequence[MetricLike],
    agents: Mapping[str | None, AgentCallable],
    limits: Limits,
    user_model: Judge | None,
) -> Source:
    """Return the source of goldens that agents answer."""

    async def prepare(key: CaseKey, on_turn: Callable[[], None]) -> Sequence[Pending]:
        golden, agent = goldens[key.place], agents[key.agent]
        case: AnyCase
        if golden.is_conversation:
            case = await run_conversation(golden, agent, limits, user_model, on_turn)
        else:
            case = await run_golden(golden, agent, limits.of_question)
        return [Pending(case, metrics, no_golden=NO_EXPECTATION)]

    return Source(goldens, prepare, agents=list(agents))


def app_source(goldens: Sequence[Golden], metrics: Sequence[MetricLike], app: ObservedApp, limits: Limits) -> Source:
    """Return the source of goldens that an app of observed functions answers; its components are measured too."""

    async def prepare(key: CaseKey, _on_turn: Callable[[], None]) -> Sequence[Pending]:
        return await app.ask(goldens[key.place], key.place, metrics, limits.of_question)

    return Source(goldens, prepare)


@dataclass
class Session:
    """One evaluation while it runs.

    `limit` is the number of keys in progress at the same time. If `is_async`, metrics measure with `a_measure` only.
    `bar` is set after the session has loaded what is stored.
    """

    source: Source
    metrics: Sequence[MetricLike]
    builder: ReportBuilder
    limit: int
    is_async: bool
    bar: ProgressBar | None = None
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        """Load what the file of results already has."""
        source = self.source
        self.keys = source.keys(self.builder.trials)
        self._hashes: dict[int, str] = {}
        if self.builder.file is not None and source.recorded is not None:
            self._hashes = {key.place: hash_of(item.encoded()) for key, (_, item) in source.recorded.items()}
            self._reuse_recorded(source.recorded)
        elif self.builder.file is not None:
            self._hashes = {key.place: hash_of(encode_case(source.items[key.place])) for key in self.keys}
            self.builder.reuse_unchanged({key: self._hashes[key.place] for key in self.keys})
        self.remaining = [key for key in self.keys if key not in self.builder]
        self._metric_lock = asyncio.Lock()

    def _reuse_recorded(self, recorded: Mapping[CaseKey, tuple[int | None, FileCase]]) -> None:
        """Take over stored results; a line is written again where the stored one differs."""
        reused: list[CaseKey] = []
        lines: list[bytes] = []
        for key, (golden, item) in recorded.items():
            row = Row.of(item.case, key.place, key.trial, golden=golden)
            stored = self.builder.with_stored_results(row, self._hashes[key.place])
            if stored is not None:
                row, is_current = stored
                self.builder.store(key, [row])
                if is_current:
                    reused.append(key)
                else:
                    lines.append(self._line(key, [row]))
        if self.builder.file is not None:
            self.builder.file.begin(reused, b"".join(lines), len(recorded))

    def run_here(self) -> None:
        """Run and measure everything in this thread; in a new event loop if agents run or a metric waits."""
        existing = self.source.existing
        if existing is None or any(map(waits, self.metrics)):
            run_interruptible(self.run())
            return
        for key in self.remaining:
            pending = existing[key]
            results = [measure_in_thread(metric, pending.case, pending.no_golden) for metric in self.metrics]
            self._store(key, [self._row(key, pending, results)])

    async def run(self) -> None:
        """Run the agents for the remaining keys and measure them, at most `limit` at the same time.

        A judge that asks in batches has no such limit.

        Cancelling this also cancels the agents, and drops answers that they give afterwards.
        """
        remaining = self.remaining
        queue = iter(remaining)  # all workers share it
        # A batch should hold the questions about all cases: every case is prepared before the first is measured.
        all_at_once = any(map(is_batched, self.metrics))
        slots, ready, prepared = asyncio.Semaphore(self.limit), asyncio.Event(), 0

        async def work() -> None:
            nonlocal prepared
            for key in queue:
                try:
                    async with slots:
                        cases = await self.source.prepare(key, self._show_turn)
                finally:  # the others must not wait for a case that was cancelled
                    prepared += 1
                    if prepared == len(remaining):
                        ready.set()
                self._raise_if_stopped()
                if all_at_once:
                    await ready.wait()
                rows = [await self._measure(key, pending) for pending in cases]
                self._raise_if_stopped()
                self._store(key, rows)

        # As many tasks as may be in progress, and not one for each key: there may be a million.
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

    async def _measure(self, key: CaseKey, pending: Pending) -> Row:
        error = pending.error
        if error is None:
            results = [await self._result(metric, pending) for metric in pending.metrics]
        else:
            results = [errored_result(metric.label, metric.threshold, error) for metric in pending.metrics]
        return self._row(key, pending, results)

    async def _result(self, metric: MetricLike, pending: Pending) -> MetricResult:
        case, no_golden = pending.case, pending.no_golden
        if self.is_async or waits(metric):
            return await _measure_async(metric, case, no_golden)
        if isinstance(metric, Metric):
            return measure_in_thread(metric, case, no_golden)
        # A user's metric may run its own event loop, which fails in a thread where a loop runs.
        async with self._metric_lock:
            return await asyncio.to_thread(measure_in_thread, metric, case, no_golden)

    def _row(self, key: CaseKey, pending: Pending, results: Sequence[MetricResult]) -> Row:
        component = pending.component
        names = self.builder.names if component is None else unique_labels([one.label for one in pending.metrics])
        renamed = tuple(result.renamed(name) for result, name in zip(results, names, strict=True))
        golden, _ = (self.source.recorded or {}).get(key, (None, None))
        source = ""
        if component is not None:
            thresholds = ", ".join(f"{result.metric} {result.threshold:g}" for result in renamed)
            source = f"{component.source} ({thresholds})"
        return Row.of(
            pending.case,
            key.place,
            key.trial,
            component=None if component is None else component.name,
            source=source,
            results=renamed,
            agent=key.agent,
            golden=golden,
        )

    def _store(self, key: CaseKey, rows: list[Row]) -> None:
        self.builder.store(key, rows, self._line(key, rows))
        if self.bar is not None:
            self.bar.step()

    def _show_turn(self) -> None:
        if self.bar is not None:
            self.bar.turn()

    def _line(self, key: CaseKey, rows: list[Row]) -> bytes:
        """Return the line of a case in the file of results; empty if there is no file."""
        if not self._hashes:
            return b""
        digest, contents = self._hashes[key.place], self.builder.contents
        if self.source.recorded is None:
            return head_of(key) + rest_of(rows, digest, contents=contents)
        golden, item = self.source.recorded[key]
        return head_of(key, golden) + item.rest(rows[0], digest, item.encoded(), contents=contents)

    def report(self, *, interrupted: bool = False) -> Report:
        """Return the report, complete or of what is done."""
        if self.source.recorded is None:
            return self.builder.report(interrupted=interrupted)
        return self.builder.report_of_files(self.builder.rows, interrupted=interrupted)

    @property
    def progress(self) -> tuple[int, int]:
        """Number of keys that are done, and of all keys."""
        return len(self.builder), len(self.keys)


async def _measure_async(metric: MetricLike, case: AnyCase, no_golden: str | None) -> MetricResult:
    try:
        refuse_spoilt(case)  # also for metrics of users
        return checked_result(await asyncio.create_task(metric.a_measure(case)))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return unmeasured(metric, error, no_golden)


App: TypeAlias = "Callable[[str], object] | Callable[[str], Awaitable[object]]"
"""A function of one text, sync or async, or a generator function that yields its answer in pieces."""


class Pending(NamedTuple):
    """A case to measure; `component` is the function that it is about, `None` for a case or a whole answer.

    `error` says why there is no case that could be measured. With `no_golden`, the reason why a golden is needed, a
    missing expectation makes the result errored instead of skipped.
    """

    case: AnyCase
    metrics: Sequence[MetricLike]
    component: Observable | None = None
    error: Exception | None = None
    no_golden: str | None = None


class ObservedApp:
    """An app as an agent, with a recorder for each of its runs."""

    def __init__(self, app: App) -> None:
        if not callable(app):
            message = (
                f"observed_callback must be a function of the golden's input, got {type(app).__name__} {app!r:.60}"
            )
            raise ConfigurationError(message)
        self._app = app
        self._recorders: dict[str | None, ObserveRecorder] = {}
        self._one_at_a_time = PerLoop(asyncio.Lock)

    async def answer(self, question: str, conversation: Conversation) -> Run:
        """Ask one question; the run has the exception if the app raises one."""
        recorder = ObserveRecorder(conversation=conversation.id)
        with recorder.listening():
            try:
                with recorder.run(question, app=self._app) as going:
                    answer, error = await self._called(question)
                    if error is not None:
                        # Raised here because a coroutine turns a StopIteration into a RuntimeError.
                        raise error  # noqa: TRY301
                    going.answer(answer)
            except Exception:  # noqa: BLE001, S110 - the run has it
                pass
            finally:
                run = conversation.unfinished = recorder.last_run
                self._recorders[run.run_id] = recorder
        return run

    async def ask(
        self, golden: Golden, place: int, metrics: Sequence[MetricLike], limit: float | None
    ) -> list[Pending]:
        """Ask the golden at position `place`; return the case of its whole answer, then those of its components.

        `metrics` are those of the whole answer. Without any, it is left out where there are components and the run
        ended well. The time that a sync app waits for its turn is not part of `limit`.
        """
        async with nullcontext() if is_async(self._app) else self._one_at_a_time.get():
            case = await run_golden(golden, self.answer, limit)
        run = case.run
        recorder = None if run is None else self._recorders.pop(run.run_id, None)
        if run is None or recorder is None:
            return [Pending(case, metrics, no_golden=NO_EXPECTATION)]
        expectations = expectations_of(golden)
        pending = list(component_cases(recorder, expectations, label_of_question(golden.id, golden.question, place)))
        error = recorder.lost()
        if error is not None and not metrics:  # then those of the components have it
            pending = [part._replace(error=error) for part in pending]
        if metrics or not pending or run.status is not RunStatus.OK:
            whole = recorder.test_case_with(case, expectations)
            pending.insert(0, Pending(whole, metrics, error=error, no_golden=NO_EXPECTATION))
        return pending

    async def _called(self, question: str) -> tuple[object, Exception | None]:
        """Return the answer and `None`, or `None` and the exception of a sync app; an async app raises it."""
        if is_async(self._app):
            answer: object = self._app(question)
        else:
            answer, error = await call_in_thread(_call, self._app, question)
            if isinstance(error, Exception):
                return None, error
        if inspect.isasyncgen(answer):
            answer = join_pieces([piece async for piece in answer])
        if inspect.isawaitable(answer):
            answer = await answer
        return answer, None


def expectations_of(golden: Golden) -> dict[str, Any]:
    """Return the fields of a golden that are set and that its cases have, too."""
    names = ("input", "expected_tools", "expected_output", "required_texts", "ends", "available_tools")
    return drop_none({name: value for name, value in set_fields(golden).items() if name in names})


def component_cases(recorder: ObserveRecorder, expectations: dict[str, Any], golden_id: str) -> Iterator[Pending]:
    """Yield the case of each call of a component with metrics."""
    parts = recorder.components_with(expectations)
    for part, label in zip(parts, unique_labels([part.name for part in parts]), strict=True):
        component = part.case.model_copy(update={"id": f"{golden_id} > {label}"})
        # `@observe` has checked that these are metrics.
        yield Pending(component, cast("tuple[MetricLike, ...]", part.of.metrics), part.of)


def _call(app: Callable[[str], object], question: str) -> object:
    """Call an app, and join the pieces of a generator in the same thread."""
    answer = app(question)
    return join_pieces(list(answer)) if inspect.isgenerator(answer) else answer
