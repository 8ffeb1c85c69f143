"""Evaluation of an app of functions decorated with `@observe`.

The answers of the app to goldens become cases. Each call of a component with metrics is a case too, named
`golden > component`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary

from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.text import unique_labels
from toolgrade.agents import Conversation, run_golden
from toolgrade.capture.observation.spans import Observable, ObserveRecorder, join_pieces
from toolgrade.cases import AnyCase, Run, RunStatus
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError
from toolgrade.metrics import MetricLike

App: TypeAlias = "Callable[[str], object] | Callable[[str], Awaitable[object]]"
"""A function of one text, sync or async, or a generator function that yields its answer in pieces."""


class Pending(NamedTuple):
    """A case to measure; `component` is the function that it is about, `None` for a case or a whole answer.

    `error` says why there is no case that could be measured.
    """

    case: AnyCase
    metrics: Sequence[MetricLike]
    component: Observable | None = None
    error: Exception | None = None


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
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

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
        self._recorders[recorder.last_run.run_id] = recorder
        return recorder.last_run

    async def ask(self, golden: Golden, place: int, metrics: Sequence[MetricLike]) -> list[Pending]:
        """Ask the golden at position `place`; return the case of its whole answer, then those of its components.

        `metrics` are those of the whole answer. Without any, it is left out where there are components and no error.
        """
        case = await run_golden(golden, self.answer)
        run = case.run
        recorder = None if run is None else self._recorders.pop(run.run_id, None)
        if run is None or recorder is None:
            return [Pending(case, metrics)]
        expectations = _expectations(golden)
        pending = list(_component_cases(recorder, expectations, golden.id or f"#{place + 1}"))
        if metrics or not pending or run.status is RunStatus.ERROR:
            pending.insert(0, Pending(recorder.test_case_with(case, expectations), metrics))
        return pending

    async def _called(self, question: str) -> tuple[object, Exception | None]:
        if _is_async(self._app):
            answer = self._app(question)
        else:
            async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                answer, error = await asyncio.to_thread(_call, self._app, question)
            if error is not None:
                return None, error
        if inspect.isasyncgen(answer):
            answer = join_pieces([piece async for piece in answer])
        return await answer if inspect.isawaitable(answer) else answer, None


def _expectations(golden: Golden) -> dict[str, Any]:
    """Return the fields of a golden that are set and that its cases have, too."""
    names = ("input", "expected_tools", "expected_output", "required_texts", "must_end", "available_tools")
    return drop_none({name: value for name, value in set_fields(golden).items() if name in names})


def _component_cases(recorder: ObserveRecorder, expectations: dict[str, Any], golden_id: str) -> Iterator[Pending]:
    """Yield the case of each call of a component with metrics."""
    parts = recorder.components_with(expectations)
    for part, label in zip(parts, unique_labels([part.name for part in parts]), strict=True):
        component = part.case.model_copy(update={"id": f"{golden_id} > {label}"})
        # `@observe` has checked that these are metrics.
        yield Pending(component, cast("tuple[MetricLike, ...]", part.of.metrics), part.of)


def _is_async(app: Callable[..., object]) -> bool:
    """Return whether calling the app returns an awaitable or an async generator."""
    plain = inspect.isroutine(app) or isinstance(app, partial)
    called: object = app if plain else type(app).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


def _call(app: Callable[[str], object], question: str) -> tuple[object, Exception | None]:
    """Call an app in a thread; an exception is returned, since a future cannot hold a StopIteration."""
    try:
        answer = app(question)
        return (join_pieces(list(answer)) if inspect.isgenerator(answer) else answer), None
    except Exception as error:  # noqa: BLE001 - raised where it is awaited
        return None, error
