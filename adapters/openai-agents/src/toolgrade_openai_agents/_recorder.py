"""The recorder of agents' runs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from agents import Runner
from agents.lifecycle import RunHooksBase

from toolgrade.capture import RunRecorder, Sink
from toolgrade.cases import Run
from toolgrade.errors import NothingRecordedError
from toolgrade_openai_agents import _mcp, _messages, _states, _wrapping
from toolgrade_openai_agents._errors import error_text
from toolgrade_openai_agents._realtime import SessionWatcher
from toolgrade_openai_agents._run_tree import RunnerRecording
from toolgrade_openai_agents._runner import (
    Attachment,
    ObservedRun,
    RecordingHooks,
    attach,
    attached,
    beside_tools,
    current_run,
    replacement,
)
from toolgrade_openai_agents._watcher import RunWatcher, paused_run

if TYPE_CHECKING:
    import asyncio


_MISSED: Final = (
    "agent {agent!r} ran outside of the tasks that were started inside the recorder, and was not recorded; to record "
    "the whole process, such as the requests of a server, use record(process_wide=True)"
)


class Recorder(RunRecorder[RunnerRecording]):
    """Records runs of OpenAI Agents: those inside `with record()`, and those begun by its own `run` methods.

    One recorder may observe any number of runs at once, in threads and tasks. It never disturbs a run: an error inside
    the recorder becomes a warning on the run, or in `warnings` if there is no run yet.

    Example:
        >>> import asyncio
        >>> from agents import Agent, OpenAIChatCompletionsModel, RunConfig, function_tool
        >>> from openai import AsyncOpenAI
        >>> from toolgrade.testing import AskFor, FakeOpenAI
        >>> from toolgrade_openai_agents import Recorder
        >>> get_weather = function_tool(lambda city: f"sunny in {city}", name_override="get_weather")
        >>> recorder = Recorder()
        >>> async def main() -> None:
        ...     with FakeOpenAI([AskFor("get_weather", {"city": "Paris"}, "c1")], "It is sunny.") as server:
        ...         async with AsyncOpenAI(base_url=server.base_url, api_key="any") as client:
        ...             agent = Agent("Weather", model=OpenAIChatCompletionsModel("any", client), tools=[get_weather])
        ...             options = {"run_config": RunConfig(tracing_disabled=True)}
        ...             await recorder.run(agent, "What is the weather in Paris?", **options)
        >>> asyncio.run(main())
        >>> [(call.name, call.arguments, call.output) for call in recorder.last_run.calls]
        [('get_weather', {'city': 'Paris'}, 'sunny in Paris')]
    """

    how_to_attach: ClassVar[str] = (
        "begin the run inside `with record()`, or by `recorder.run(agent, input)`; new threads and the requests of a "
        "server are not inside the block, and need record(process_wide=True)"
    )

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = 10_000,
        limit_bytes: int = 256 * 2**20,
        conversation: str | None = None,
    ) -> None:
        """Begin without runs.

        Args:
            sink: Takes each run when it ends, see `RunRecorder`.
            limit: The most runs to keep.
            limit_bytes: The most memory of the texts and values of runs to keep, in bytes.
            conversation: The conversation of every run; by default that of its session, else its `conversation_id`,
                else the `group_id` of its configuration.

        Raises:
            ConfigurationError: A limit is not a whole number of at least 1.
        """
        super().__init__(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
        self._inner: list[RunnerRecording] = []
        """The runs that other runs began outside of their tools."""
        self._paused: list[RunWatcher] = []
        """The watchers of the runs that wait for a person."""
        self._by_result: dict[int, tuple[weakref.ref[Any], weakref.ref[RunnerRecording]]] = {}
        """Results, each with its run, by the identity of the result."""
        self._by_response: dict[str, tuple[str, weakref.ref[RunnerRecording]]] = {}
        """The run that received a response of the model, and the conversation of runs that go on from it, by its id."""

    @property
    def inner_runs(self) -> list[Run]:
        """Runs that another run began outside of its tools, such as in a guardrail or a hook.

        They are not among `runs`. Runs that a tool began are the `children` of its call.
        """
        with self._lock:
            return [self._so_far(recording) for recording in self._inner]

    def run_for(self, result: Any) -> Run:
        """Return the recorded run of a result of `Runner.run`, `run_sync` or `run_streamed`, or of the SDK's exception.

        Raises:
            NothingRecordedError: The result is of no run that this recorder holds: of one that it did not record, that
                another run began, or that it passed on.
        """
        with self._lock:
            reference, run_reference = self._by_result.get(id(result), (None, None))
            recording = None if run_reference is None else run_reference()
            is_same = reference is not None and reference() is result
            if not is_same or recording is None or id(recording) not in self._recordings:
                raise NothingRecordedError(
                    f"this recorder holds no run of the given {type(result).__name__}: {self.how_to_attach}; runs that "
                    "it passed to a sink or returned from pop() are no longer there"
                )
            return self._so_far(recording)

    def pop(self) -> list[Run]:
        """Return the runs that have ended and forget them and their inner runs; open runs stay."""
        with self._lock:
            self._inner = [recording for recording in self._inner if recording.builder.is_open]
            return super().pop()

    # Runs that are begun here

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent as `Runner.run` does, and record it, also where `record()` cannot be seen."""
        with attached(self):
            return await Runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent as `Runner.run_sync` does, and record it, in any thread."""
        with attached(self):
            return Runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent as `Runner.run_streamed` does, and record it; the run goes on after this has returned."""
        with attached(self):
            return Runner.run_streamed(starting_agent, input, **options)

    # For the runner and the hooks: none of these raises

    def observe(
        self, watcher: RunWatcher | None, where: str, note: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a method that notes something, and return its result; an error in it becomes a warning."""
        try:
            with self._lock:
                return note(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._warn_of_failure(watcher, where, error)
            return None

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""
        watcher = self.observe(None, "the beginning of a run", self._watcher_for, input, options)
        if not isinstance(watcher, RunWatcher):
            return None
        replacement.acquire()
        self.observe(watcher, "the beginning of a run", self._describe, watcher, agent, input, options)
        changed = self.observe(watcher, "the beginning of a run", self._with_hooks, watcher, options)
        return ObservedRun(self, watcher, options if changed is None else changed)

    def offered(self, watcher: RunWatcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected, and wrap what reports no failure on its own."""
        self.observe(watcher, "the tools of an agent", watcher.offered, agent, tools)
        self.observe(watcher, "the tools of an agent", self._wrap, watcher, agent, tools)

    def tool_raised(self, watcher: RunWatcher, context: Any, error: Any) -> None:
        """Note the exception of a tool, which the SDK is about to replace by a text."""
        if isinstance(error, BaseException):
            call_id = getattr(context, "tool_call_id", "")
            self.observe(watcher, "a tool's error", watcher.tool_raised, context, call_id, error)

    def finished(self, watcher: RunWatcher, result: Any) -> None:
        """Note the result of a run, which ended or waits for a person."""
        self.observe(watcher, "the end of a run", watcher.finished, result)
        self.observe(watcher, "the end of a run", self._remember, watcher, result)
        self._release(watcher)

    def failed(self, watcher: RunWatcher, error: BaseException) -> None:
        """Note the exception that ended a run."""
        self.observe(watcher, "the end of a run", watcher.failed, error)
        self.observe(watcher, "the end of a run", self._remember, watcher, error)
        self._release(watcher)

    def follow(self, watcher: RunWatcher, result: Any) -> None:
        """Observe a streamed run, which goes on in a task of its own."""
        self.observe(watcher, "a stream", self._remember, watcher, result)
        if self.observe(watcher, "a stream", self._observe_stream, watcher, result) is None:
            self._release(watcher)

    def missed(self, agent: Any) -> None:
        """Note that an agent ran where no recorder is active."""
        text = _MISSED.format(agent=_messages.agent_name(agent))
        self.observe(None, "a run that was missed", self._say, text)

    def watch(self, session: Any) -> Any:
        """Return the watcher of a realtime session that begins; `None` if that fails."""
        home = RunWatcher(RunnerRecording.begin(self._label() or str(uuid4()), inner=False))
        replacement.acquire()
        watcher = self.observe(None, "the beginning of a session", SessionWatcher, self, session, home)
        if watcher is None:
            self.restore(home)
        return watcher

    def store(self, recording: RunnerRecording) -> None:
        """Store the recording of a turn that begins."""
        self._add(recording)

    def restore(self, watcher: RunWatcher) -> None:
        """Restore what was replaced for a run or a session."""
        replacement.release()
        self.observe(watcher, "what was wrapped for a run", _wrapping.unwrap, watcher.wrapped)
        watcher.wrapped = []

    def deliver(self, watcher: RunWatcher) -> None:
        """Deliver a run that ended or waits for a person."""
        self.observe(watcher, "the conversation of a run", self._note_conversation, watcher)
        if watcher.paused and not watcher.recording.inner:
            self._paused.append(watcher)
            del self._paused[: -self._limit]
        try:
            self._deliver([watcher.recording])  # without the lock, since a sink may be slow
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._warn_of_failure(watcher, "a sink", error)

    # The beginning of a run

    def _watcher_for(self, input: Any, options: dict[str, Any]) -> RunWatcher:
        """Return the watcher of a run that begins: one inside a tool, of a paused run that it resumes, or new."""
        outer = current_run.get()
        inner = False
        if outer is not None and outer.recorder is self:
            key = None if outer.beside_tools else outer.watcher.enclosing(options.get("context"))
            if key is not None:
                outer.watcher.recording.open_inside += 1
                return outer.watcher.watch_inside(key, input)
            # A run that has ended may leave a task behind, such as a worker of a server: its runs are no inner runs.
            inner = outer.watcher.builder.is_open
        conversation = self._label() or _states.conversation_of(input, options) or self._continued_conversation(options)
        if not inner and _states.is_state(input):
            paused = paused_run(self._paused, input, conversation)
            if paused is not None:
                return paused
        recording = RunnerRecording.begin(conversation, inner=inner)
        if inner:
            self._inner.append(recording)
            del self._inner[: -self._limit]
        else:
            self._add(recording)
        return RunWatcher(recording)

    def _continued_conversation(self, options: dict[str, Any]) -> str | None:
        """Return the conversation of the run whose response a new run continues, by its `previous_response_id`."""
        response_id = options.get("previous_response_id")
        if not isinstance(response_id, str) or not response_id:
            return None
        conversation, reference = self._by_response.get(response_id, (response_id, None))
        recording = None if reference is None else reference()
        if recording is not None and recording.builder.conversation_id is None:
            recording.builder.conversation_id = conversation
        return conversation

    def _remember(self, watcher: RunWatcher, result: Any) -> None:
        """Remember which run a result or an exception is of, for as long as the program has it."""
        if watcher.scope is None and not watcher.recording.inner:
            key = id(result)
            forget = functools.partial(_forget, self._by_result, key)
            with suppress(TypeError):  # exceptions of Python itself take no weak references
                self._by_result[key] = weakref.ref(result, forget), weakref.ref(watcher.recording)

    def _describe(self, watcher: RunWatcher, agent: Any, input: Any, options: dict[str, Any]) -> None:
        """Note with what a run begins: an input, or the state of a run, which was recorded or not."""
        watcher.session = options.get("session")
        if not _states.is_state(input):
            watcher.began(input, agent, options.get("run_config"))
        elif watcher.paused:
            if watcher in self._paused:
                self._paused.remove(watcher)
            watcher.resumed()
        else:
            watcher.began(_states.state_input(input), agent, options.get("run_config"))
            watcher.continues(_states.state_items(input), _states.state_responses(input))

    def _with_hooks(self, watcher: RunWatcher, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a run with hooks that report to the watcher."""
        hooks = options.get("hooks")
        if hooks is not None and not isinstance(hooks, RunHooksBase):
            # The SDK may refuse such hooks; whether it does must not depend on the recorder.
            watcher.has_no_hooks = True
            watcher.builder.warn(
                f"the hooks are of {type(hooks).__name__!r}, which is not a RunHooks: only what the finished result "
                "holds was recorded"
            )
            return options
        return {**options, "hooks": RecordingHooks(self.observe, watcher, hooks)}

    def _wrap(self, watcher: RunWatcher, agent: Any, tools: Any) -> None:
        """Wrap what the SDK's hooks do not show: timeouts of tools, runs of an agent's own hooks, errors of servers."""
        for tool in tools:
            if getattr(tool, "timeout_error_function", None) is not None:
                watcher.wrap(tool, "timeout_error_function", _reporting_timeouts)
        for name in ("on_tool_start", "on_tool_end") if getattr(agent, "hooks", None) is not None else ():
            watcher.wrap(agent.hooks, name, beside_tools)
        for server in getattr(agent, "mcp_servers", None) or ():
            watcher.wrap(server, "call_tool", functools.partial(_mcp.reporting_call_tool, report=_report_mcp_error))

    # The end of a run

    def _observe_stream(self, watcher: RunWatcher, result: Any) -> bool:
        """Observe the events of a streamed run and the end of its task; `True`, since a failure gives `None`."""
        # A weak reference, so that recording does not keep a result alive that the program has dropped.
        reference = weakref.ref(result)
        events = type(result).stream_events

        async def observed(stream: Any) -> AsyncIterator[Any]:
            try:
                async for event in stream:
                    yield event
                self.observe(watcher, "the end of a stream", watcher.stream_read, reference())
            except Exception as error:
                watcher.end_noted = True
                self.observe(watcher, "the end of a stream", watcher.failed, error)
                raise
            finally:
                await stream.aclose()

        def stream_events() -> AsyncIterator[Any]:
            # The generator is created here and now, since from here on only it keeps the result alive.
            return observed(events(reference()))

        result.stream_events = stream_events
        task = _states.task_of(result)
        task.add_done_callback(functools.partial(self._stream_ended, watcher, reference))
        return True

    def _stream_ended(self, watcher: RunWatcher, reference: weakref.ref[Any], task: asyncio.Task[Any]) -> None:
        self.observe(watcher, "the end of a stream", watcher.stream_ended, reference(), task)
        self._release(watcher)

    def _release(self, watcher: RunWatcher) -> None:
        """Restore what was replaced for a run, and deliver its recording."""
        self.restore(watcher)
        if watcher.scope is not None:
            watcher.recording.open_inside -= 1
        else:
            self.deliver(watcher)

    def _note_conversation(self, watcher: RunWatcher) -> None:
        """Note the conversation of a run that ended, and its responses, from which later runs may go on."""
        # Some sessions have no id before their first request.
        watcher.builder.conversation_id = watcher.builder.conversation_id or _states.session_id(watcher.session)
        for response_id in watcher.response_ids:
            conversation = watcher.builder.conversation_id or watcher.response_ids[0]
            self._by_response[response_id] = conversation, weakref.ref(watcher.recording)
        while len(self._by_response) > self._limit:
            del self._by_response[next(iter(self._by_response))]

    def _goes_on(self, recording: RunnerRecording) -> bool:
        return recording.open_inside > 0

    def _drop(self, recording: RunnerRecording) -> bool:
        self._paused = [watcher for watcher in self._paused if watcher.recording is not recording]
        return super()._drop(recording)

    def _warn_of_failure(self, watcher: RunWatcher | None, where: str, error: Exception) -> None:
        """Add a warning that the recorder failed, to the run if there is one."""
        try:
            text = f"the recorder failed at {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if watcher is None:
                    self._say(text)
                else:
                    watcher.builder.warn(text)
        except Exception:  # noqa: BLE001, S110 - nothing is left to report to
            pass


def _forget(results: dict[int, Any], key: int, reference: weakref.ref[Any]) -> None:
    """Forget a result that is gone; its id may be that of another one by now."""
    if key in results and results[key][0] is reference:
        del results[key]


def _report_mcp_error(text: str | None) -> None:
    """Report how a call of an MCP server ended to the run of this context, which the wrapped server cannot know."""
    observed = current_run.get()
    if observed is not None:
        observed.recorder.observe(observed.watcher, "a result of an MCP server", observed.watcher.mcp_failed, text)


def _reporting_timeouts(timeout_error_function: Any) -> Any:
    """Return a tool's function that words its timeout, with a report of the timeout to the run of the context."""

    def reporting(context: Any, error: Any) -> Any:
        observed = current_run.get()
        if observed is not None:
            observed.recorder.tool_raised(observed.watcher, context, error)
        return timeout_error_function(context, error)

    return reporting


class record:  # noqa: N801 - used like a function
    """Record every run that begins inside: `with record() as recorder:`, or `async with`.

    Tasks started inside are recorded; other tasks, such as the requests of a server, and new threads only with
    `process_wide=True`, or by `recorder.run_sync`. Of nested blocks, the innermost records. A block may be entered
    again, and then is left as often.

    Example:
        >>> import asyncio
        >>> from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
        >>> from openai import AsyncOpenAI
        >>> from toolgrade.testing import AskFor, FakeOpenAI
        >>> from toolgrade_openai_agents import record
        >>> get_weather = function_tool(lambda city: f"sunny in {city}", name_override="get_weather")
        >>> async def main() -> list:
        ...     with FakeOpenAI([AskFor("get_weather", {"city": "Paris"}, "c1")], "It is sunny.") as server:
        ...         async with AsyncOpenAI(base_url=server.base_url, api_key="any") as client:
        ...             agent = Agent("Weather", model=OpenAIChatCompletionsModel("any", client), tools=[get_weather])
        ...             with record() as recorder:
        ...                 options = {"run_config": RunConfig(tracing_disabled=True)}
        ...                 await Runner.run(agent, "What is the weather in Paris?", **options)
        ...     return recorder.last_run.calls
        >>> [(call.name, call.arguments, call.output) for call in asyncio.run(main())]
        [('get_weather', {'city': 'Paris'}, 'sunny in Paris')]
    """

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = 10_000,
        limit_bytes: int = 256 * 2**20,
        conversation: str | None = None,
        process_wide: bool = False,
    ) -> None:
        """Create the recorder; it records nothing before the block begins.

        Args:
            sink: As for `Recorder`.
            limit: As for `Recorder`.
            limit_bytes: As for `Recorder`.
            conversation: As for `Recorder`.
            process_wide: While it is entered, also record the runs that begin in any other task or thread of the
                process, where no recorder is active: for servers, whose requests do not run in the context of their
                startup.

        Raises:
            ConfigurationError: A limit is not a whole number of at least 1.
        """
        self._recorder = Recorder(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
        self._process_wide = process_wide
        self._attachments: list[Attachment] = []

    def __enter__(self) -> Recorder:
        """Begin to record."""
        self._attachments.append(attach(self._recorder, is_process_wide=self._process_wide))
        return self._recorder

    def __exit__(self, *raised: object) -> None:
        """Record no further runs; streams that go on are recorded to their end."""
        # Several tasks may be in the block at once, and each leaves its own.
        here = [attachment for attachment in self._attachments if attachment.is_here]
        attachment = (here or self._attachments)[-1]
        self._attachments.remove(attachment)
        attachment.close()

    async def __aenter__(self) -> Recorder:
        """Begin to record."""
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        """Record no further runs."""
        self.__exit__(*raised)
