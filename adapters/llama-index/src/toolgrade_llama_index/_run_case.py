"""One question to an agent, run as a test case."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from llama_index.core.workflow import Event, HumanResponseEvent, InputRequiredEvent, JsonPickleSerializer

from toolgrade.cases import LLMTestCase, Run, RunStatus
from toolgrade.expect import ExpectedTools
from toolgrade_llama_index._answers import waiters_in
from toolgrade_llama_index._errors import error_text, status_of
from toolgrade_llama_index._recorder import ToolCallRecorder, record

_PATIENCE: Final = 0.5
"""Seconds to wait for what should come at once."""
_IDLE_SECONDS: Final = 0.02
_IDLE_CHECKS: Final = 3
"""Between two steps of a workflow, it is idle for a moment."""
_UNMATCHED: Final = (
    "the run still waits for a person after all answers of human=, so it was left; an answer must be of the class of "
    "the event that the run waits for, and fulfil its requirements"
)


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
    human: Callable[[InputRequiredEvent], object] | None = None,
    input_key: str | None = None,
    **options: Any,
) -> LLMTestCase:
    """Ask an agent a question and return the run as a test case.

    A failure of the agent does not raise: the `run` of the case has its `status` and `error`, and every call up to it.
    A run that asks a person is left when nothing else goes on in it, as `interrupted`, unless `human` answers; with a
    warning, if its answer is not what the run waits for. Only a cancellation of the caller is passed on.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent, `AgentWorkflow`, or a workflow of your own.
        question: The text of the user.
        expected_tools: The expected calls.
        expected_output: The expected answer.
        id: Id of the case.
        name: Name of the case.
        timeout: Seconds after which the run is cancelled; by default the agent's own limit.
        on_event: Called with each event of the run's stream, and awaited if it is async; an error in it is raised when
            the run has ended.
        human: Called with each question to a person, and awaited if it is async; returns the answer as a text or as a
            `HumanResponseEvent`, or `None` to leave the run waiting.
        input_key: The name under which `agent.run` takes the question: by default the only text that the start event of
            a workflow requires, else `user_msg`.
        options: Further arguments of `agent.run`, such as `ctx`, `chat_history`, `memory` or `max_iterations`.

    Example:
        >>> import asyncio
        >>> from llama_index.core.tools import FunctionTool
        >>> from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
        >>> from toolgrade import ToolCall, ToolCorrectnessMetric
        >>> from toolgrade_llama_index import run_case
        >>> get_weather = FunctionTool.from_defaults(lambda city: f"sunny in {city}", name="get_weather")
        >>> class WeatherAgent(Workflow):
        ...     @step
        ...     async def answer(self, event: StartEvent) -> StopEvent:
        ...         return StopEvent(result=str(await get_weather.acall(city="Paris")))
        >>> expected = [ToolCall(name="get_weather", input_parameters={"city": "Paris"})]
        >>> case = asyncio.run(run_case(WeatherAgent(), "What is the weather in Paris?", expected_tools=expected))
        >>> ToolCorrectnessMetric().measure(case).reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """
    run = await recorded_run(
        record(), agent, question, timeout=timeout, on_event=on_event, human=human, input_key=input_key, **options
    )
    return run.to_test_case(expected_tools=expected_tools, expected_output=expected_output, id=id, name=name)


async def recorded_run(
    recorder: ToolCallRecorder,
    agent: Any,
    question: str,
    *,
    timeout: float | None = None,
    on_event: Callable[[Event], object] | None = None,
    human: Callable[[InputRequiredEvent], object] | None = None,
    input_key: str | None = None,
    on_leave: Callable[[Any, list[InputRequiredEvent]], object] | None = None,
    resumed: tuple[Any, Sequence[Event]] | None = None,
    **options: Any,
) -> Run:
    """Return the run of a question to an agent, as `run_case` asks it; the recorder is entered here.

    Args:
        recorder: Records the run.
        agent: As for `run_case`, as are the other arguments that are not listed.
        question: As for `run_case`.
        timeout: As for `run_case`.
        on_event: As for `run_case`.
        human: As for `run_case`.
        input_key: As for `run_case`.
        on_leave: Called before the run is left, with its context and the questions that nobody answered.
        resumed: The context of a run that was left, and the events that answer it, instead of the question.
        options: As for `run_case`.
    """
    failure: BaseException | None = None
    is_left = is_unmatched = False
    with recorder:
        try:
            if resumed is None:
                handler = agent.run(**{input_key or _input_key(agent): question}, **options)
            else:
                handler = agent.run(ctx=resumed[0])
            listener = _Listener(handler, on_event, human, recorder.is_idle, on_leave)
            listener.answers = () if resumed is None else resumed[1]
            failure = await _outcome(handler, timeout, listener)
            is_left, is_unmatched = listener.is_left, listener.is_unmatched
        except _CallbackError as error:
            raise error.error from None
        except Exception as error:  # noqa: BLE001 - a run that does not even begin has failed too
            failure = error
    runs = recorder.runs
    run = runs[0 if resumed is None else -1] if runs else None
    if run is None and failure is None:
        return recorder.last_run  # raises why there is none
    if run is None:  # the run did not even begin
        run = Run(input=question, calls=[])
    if is_unmatched:
        run = run.model_copy(update={"warnings": [*run.warnings, _UNMATCHED]})
    return _with_end(run, failure, is_left=is_left)


def _with_end(run: Run, failure: BaseException | None, *, is_left: bool) -> Run:
    """Return a run with the end that only its caller knows."""
    if is_left and run.status is RunStatus.STOPPED:  # the recorder knows questions of tools, but not those of steps
        return run.model_copy(update={"status": RunStatus.INTERRUPTED, "error": None})
    if isinstance(failure, _TimeoutError):
        return run.model_copy(update={"status": RunStatus.STOPPED, "error": str(failure), "actual_output": None})
    if failure is not None and run.status is RunStatus.OK:
        changes = {"status": status_of(failure), "error": error_text(failure), "actual_output": None}
        return run.model_copy(update=changes)
    return run


class _CallbackError(Exception):
    """Carries the exception of a callback through the tasks."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _TimeoutError(Exception):
    """The `timeout` of `run_case` passed."""


def _input_key(agent: object) -> str:
    """Return the name of the only text that the start event of a workflow requires, else `user_msg`."""
    start = getattr(agent, "start_event_class", None)
    fields: dict[str, Any] = getattr(start, "model_fields", {})
    if "user_msg" in fields:
        return "user_msg"
    texts = [name for name, field in fields.items() if field.is_required() and field.annotation is str]
    return texts[0] if len(texts) == 1 else "user_msg"


class _Listener:
    """Reads the stream of a run, passes its events on, and answers questions to a person."""

    def __init__(
        self,
        handler: Any,
        on_event: Callable[[Event], object] | None,
        human: Callable[[InputRequiredEvent], object] | None,
        is_idle: Callable[[], bool],
        on_leave: Callable[[Any, list[InputRequiredEvent]], object] | None,
    ) -> None:
        self.is_left = False
        self.is_unmatched = False
        self.answers: Sequence[Event] = ()
        self._questions: list[InputRequiredEvent] = []
        self._answered: list[InputRequiredEvent] = []
        self._on_leave = on_leave
        self._handler = handler
        self._on_event = on_event
        self._human = human
        self._is_idle = is_idle
        self._count = 0
        self._busy = False

    async def read(self) -> None:
        """Read to the end, which never comes if a tool raised a `BaseException`, or until a person does not answer."""
        waiting: asyncio.Task[None] | None = None
        answering = asyncio.ensure_future(self._answer())
        try:
            async for event in self._handler.stream_events():
                self._count += 1
                self._busy = True
                if self._on_event is not None:
                    await _called(self._on_event, event)
                if isinstance(event, InputRequiredEvent):
                    answer = None if self._human is None else await _called(self._human, event)
                    if isinstance(answer, str):
                        answer = HumanResponseEvent(response=answer)  # type: ignore[call-arg]  # any field
                    if answer is not None:
                        self._handler.ctx.send_event(answer)
                    (self._questions if answer is None else self._answered).append(event)
                    waiting = waiting or asyncio.ensure_future(self._leave())
                self._busy = False
        finally:
            answering.cancel()
            if waiting is not None:
                waiting.cancel()

    async def _idle(self) -> None:
        """Wait until nothing goes on in the run."""
        idle = 0
        while idle < _IDLE_CHECKS:
            await asyncio.sleep(_IDLE_SECONDS)
            idle = idle + 1 if self._is_idle() and not self._busy else 0

    async def _answer(self) -> None:
        """Answer a run that was resumed, as soon as its steps wait again: they state then which events they want."""
        if self.answers:
            await self._idle()
        for answer in self.answers:
            self._handler.ctx.send_event(answer)

    async def _leave(self) -> None:
        """Cancel the run as soon as nothing goes on in it but a question without an answer that fits."""
        await self._idle()
        while not self._questions:
            if self._waits():
                self.is_unmatched, self._questions = True, self._answered
            else:
                await self._idle()
        self.is_left = True
        if self._on_leave is not None:
            self._on_leave(self._handler.ctx, self._questions)
        await self._handler.cancel_run()

    def _waits(self) -> bool:
        """Return whether a step or a tool waits for an event; not if the context cannot be read."""
        try:
            return bool(waiters_in(self._handler.ctx.to_dict(serializer=JsonPickleSerializer())))
        except Exception:  # noqa: BLE001 - values of any kind are in a context
            return False

    async def finish(self, reading: asyncio.Task[None]) -> None:
        """Wait for the remaining events of a run that has ended, as long as some come."""
        count = -1
        while not reading.done() and (self._busy or self._count > count):
            count = self._count
            await asyncio.wait({reading}, timeout=_PATIENCE)


async def _called(callback: Callable[[Any], object], event: Event) -> object:
    """Return what a callback of the caller returns, awaited if it is async."""
    try:
        result = callback(event)
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        raise _CallbackError(error) from error


async def _outcome(handler: Any, timeout: float | None, listener: _Listener) -> BaseException | None:
    """Wait until a run has ended, and return its exception."""
    running = asyncio.ensure_future(_result(handler))
    reading = asyncio.ensure_future(listener.read())
    try:
        done = await _first_end(running, reading, timeout)
        if not done:
            return _TimeoutError(f"not finished within {timeout:g} seconds")
        await listener.finish(reading)
        if reading.done() and isinstance(reading.exception(), _CallbackError):
            reading.result()
        return running.result()
    finally:
        reading.cancel()
        if not running.done():
            await _cancel(handler, running)


async def _first_end(
    running: asyncio.Task[BaseException | None], reading: asyncio.Task[None], timeout: float | None
) -> bool:
    """Return whether the run ended in time; a callback that raises ends the wait, the end of the stream does not."""
    deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
    pending: set[asyncio.Task[Any]] = {running, reading}
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
