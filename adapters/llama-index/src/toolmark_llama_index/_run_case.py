"""How is one question asked and the answer scored? `run_case` runs an agent, whatever becomes of it, as a test case."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from llama_index.core.workflow import Event

from toolmark.capture import Run, RunBuilder, RunStatus
from toolmark.cases import LLMTestCase
from toolmark.expect import ExpectedTools
from toolmark_llama_index._assembler import is_stopped
from toolmark_llama_index._recorder import record
from toolmark_llama_index._results import error_text

_PATIENCE: Final = 0.5
"""Seconds that are waited for what should come at once."""


async def run_case(
    agent: Any,
    question: str,
    *,
    expected_tools: ExpectedTools | None = None,
    expected_output: str | None = None,
    id: str | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_event: Callable[[Event], object] | None = None,
    **options: Any,
) -> LLMTestCase:
    """Ask an agent a question and return what it did as a case that can be scored.

    A failure of the agent is no exception here: the case's `run` says how it ended (`status`, `error`), and holds every
    call until then. Only a cancellation of the caller is passed on.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent or `AgentWorkflow`.
        question: Handed over as `user_msg`.
        expected_tools: What should be called.
        expected_output: What should be answered.
        id: Id of the case; the run's id by default.
        name: Name of the case.
        timeout: Seconds after which the run is cancelled; by default the agent's own limit.
        on_event: Is called with each event of the run's stream, and awaited if it can be; an error in it is the
            caller's, and is raised when the run has ended.
        options: Further arguments of `agent.run`, such as `ctx`, `chat_history`, `memory` or `max_iterations`.
    """
    failure: BaseException | None = None
    with record() as rec:
        try:
            handler = agent.run(user_msg=question, **options)
            failure = await _outcome(handler, timeout, on_event)
        except _CallbackError as error:
            raise error.error from None
        except Exception as error:  # noqa: BLE001 - a run that does not even begin has failed too
            failure = error
    run = next(iter(rec.runs), None) or _nothing(question)
    if failure is not None and (run.status is RunStatus.OK or isinstance(failure, _TimeUpError)):
        stopped = isinstance(failure, _TimeUpError) or is_stopped(failure)
        status = RunStatus.STOPPED if stopped else RunStatus.ERROR
        told = str(failure) if isinstance(failure, _TimeUpError) else error_text(failure)
        run = run.model_copy(update={"status": status, "error": told, "actual_output": None})
    return run.to_test_case(expected_tools=expected_tools, expected_output=expected_output, id=id, name=name)


class _CallbackError(Exception):
    """What `on_event` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _TimeUpError(Exception):
    """The time was up."""


class _Listener:
    """Reads the stream of a run, and hands its events on."""

    def __init__(self, on_event: Callable[[Event], object]) -> None:
        self._on_event = on_event
        self._seen = 0
        self._busy = False

    async def read(self, handler: Any) -> None:
        """Read to the end, which never comes where a tool raised a `BaseException`."""
        async for event in handler.stream_events():
            self._seen += 1
            self._busy = True
            try:
                outcome = self._on_event(event)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:
                raise _CallbackError(error) from error
            self._busy = False

    async def finish(self, reading: asyncio.Task[None]) -> None:
        """Wait for what is still in the stream of a run that has ended, as long as something comes."""
        seen = -1
        while not reading.done() and (self._busy or self._seen > seen):
            seen = self._seen
            await asyncio.wait({reading}, timeout=_PATIENCE)


async def _outcome(
    handler: Any,
    timeout: float | None,
    on_event: Callable[[Event], object] | None,
) -> BaseException | None:
    """Wait until a run has ended, and return what it raised."""
    listener = None if on_event is None else _Listener(on_event)
    running = asyncio.ensure_future(_result(handler))
    reading = None if listener is None else asyncio.ensure_future(listener.read(handler))
    try:
        done = await _first_end(running, reading, timeout)
        if not done:
            return _TimeUpError(f"not finished within {timeout:g} seconds")
        if listener is not None and reading is not None:
            await listener.finish(reading)
            if reading.done() and isinstance(reading.exception(), _CallbackError):
                reading.result()
        return running.result()
    finally:
        if reading is not None:
            reading.cancel()
        if not running.done():
            await _cancel(handler, running)


async def _first_end(
    running: asyncio.Task[BaseException | None], reading: asyncio.Task[None] | None, timeout: float | None
) -> bool:
    """Return whether the run ended in time; a callback that raises ends it, the end of its stream does not."""
    deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
    pending: set[asyncio.Task[Any]] = {running} if reading is None else {running, reading}
    while not running.done():
        left = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0)
        done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return False
        if reading in done and isinstance(error := reading.exception(), _CallbackError):
            raise error
    return True


async def _result(handler: Any) -> BaseException | None:
    try:
        await handler
    except asyncio.CancelledError as error:
        return error
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - tools may raise any
        return error
    return None


async def _cancel(handler: Any, running: asyncio.Task[BaseException | None]) -> None:
    """Cancel a run, and give it a moment to say so."""
    with contextlib.suppress(Exception):
        await handler.cancel_run()
    await asyncio.wait({running}, timeout=_PATIENCE)
    running.cancel()
    await asyncio.wait({running}, timeout=_PATIENCE)


def _nothing(question: str) -> Run:
    """Return the run of an agent that did not even begin."""
    builder = RunBuilder()
    builder.started(question)
    builder.ended()
    return builder.build()
