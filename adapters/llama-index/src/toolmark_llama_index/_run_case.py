"""One question to an agent, run as a test case."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from llama_index.core.workflow import Event

from toolmark.capture import RunBuilder
from toolmark.cases import LLMTestCase, RunStatus
from toolmark.expect import ExpectedTools
from toolmark_llama_index._errors import error_text, status_of
from toolmark_llama_index._recorder import record

_PATIENCE: Final = 0.5
"""Seconds to wait for what should come at once."""


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
    """Ask an agent a question and return the run as a test case.

    A failure of the agent does not raise: the `run` of the case has its `status` and `error`, and every call up to it.
    Only a cancellation of the caller is passed on.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent or `AgentWorkflow`.
        question: Passed as `user_msg`.
        expected_tools: The expected calls.
        expected_output: The expected answer.
        id: Id of the case; the run's id by default.
        name: Name of the case.
        timeout: Seconds after which the run is cancelled; by default the agent's own limit.
        on_event: Called with each event of the run's stream, and awaited if it is async; an error in it is raised when
            the run has ended.
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
    run = next(iter(rec.runs), None)
    if run is None:  # the run did not even begin
        builder = RunBuilder()
        builder.started(question)
        builder.ended()
        run = builder.build()
    if isinstance(failure, _TimeoutError):
        run = run.model_copy(update={"status": RunStatus.STOPPED, "error": str(failure), "actual_output": None})
    elif failure is not None and run.status is RunStatus.OK:
        run = run.model_copy(update={"status": status_of(failure), "error": error_text(failure), "actual_output": None})
    return run.to_test_case(expected_tools=expected_tools, expected_output=expected_output, id=id, name=name)


class _CallbackError(Exception):
    """Carries the exception of `on_event` through the tasks."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _TimeoutError(Exception):
    """The `timeout` of `run_case` passed."""


class _Listener:
    """Reads the stream of a run, and passes its events on."""

    def __init__(self, on_event: Callable[[Event], object]) -> None:
        self._on_event = on_event
        self._count = 0
        self._busy = False

    async def read(self, handler: Any) -> None:
        """Read to the end, which never comes if a tool raised a `BaseException`."""
        async for event in handler.stream_events():
            self._count += 1
            self._busy = True
            try:
                awaitable = self._on_event(event)
                if inspect.isawaitable(awaitable):
                    await awaitable
            except Exception as error:
                raise _CallbackError(error) from error
            self._busy = False

    async def finish(self, reading: asyncio.Task[None]) -> None:
        """Wait for the remaining events of a run that has ended, as long as some come."""
        count = -1
        while not reading.done() and (self._busy or self._count > count):
            count = self._count
            await asyncio.wait({reading}, timeout=_PATIENCE)


async def _outcome(
    handler: Any,
    timeout: float | None,
    on_event: Callable[[Event], object] | None,
) -> BaseException | None:
    """Wait until a run has ended, and return its exception."""
    listener = None if on_event is None else _Listener(on_event)
    running = asyncio.ensure_future(_result(handler))
    reading = None if listener is None else asyncio.ensure_future(listener.read(handler))
    try:
        done = await _first_end(running, reading, timeout)
        if not done:
            return _TimeoutError(f"not finished within {timeout:g} seconds")
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
    """Return whether the run ended in time; a callback that raises ends the wait, the end of the stream does not."""
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
    """Cancel a run, and give it a moment to end."""
    with contextlib.suppress(Exception):
        await handler.cancel_run()
    await asyncio.wait({running}, timeout=_PATIENCE)
    running.cancel()
    await asyncio.wait({running}, timeout=_PATIENCE)
