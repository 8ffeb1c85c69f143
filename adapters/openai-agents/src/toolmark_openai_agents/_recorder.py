"""The recorder of agents' runs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from agents import Runner
from agents.lifecycle import RunHooksBase

from toolmark.capture import RunRecorder, Sink
from toolmark.cases import Run
from toolmark_openai_agents import _mcp, _messages, _states
from toolmark_openai_agents._errors import error_text
from toolmark_openai_agents._hooks import ErrorFormatter, RecordingHooks, formatter_sees_exceptions, with_formatter
from toolmark_openai_agents._observed_run import ObservedRun, current_run
from toolmark_openai_agents._run_tree import Recording
from toolmark_openai_agents._runner import attached, replacement
from toolmark_openai_agents._tools import field_of
from toolmark_openai_agents._watcher import Watcher

if TYPE_CHECKING:
    import asyncio


class Recorder(RunRecorder[Recording]):
    """Records runs of OpenAI Agents: those inside `with record()`, and those begun by its own `run` methods.

    One recorder may observe any number of runs at once, in threads and tasks. It never disturbs a run: an error inside
    the recorder becomes a warning on the run, or in `warnings` if there is no run yet.
    """

    how_to_attach: ClassVar[str] = (
        "begin the run inside `with record()`, or by `recorder.run(agent, input)`; a new thread does not inherit the "
        "block it was started in"
    )

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Begin without runs.

        Args:
            sink: Takes each run when it ends, see `RunRecorder`.
            limit: The most runs to keep.
            conversation: The conversation of every run; by default that of its session, else its `conversation_id`,
                else the `group_id` of its configuration.
        """
        super().__init__(sink=sink, limit=limit, conversation=conversation)
        self._inner: list[Recording] = []
        self._paused: list[Watcher] = []

    @property
    def inner_runs(self) -> list[Run]:
        """Runs that another run began outside of its tools, such as in a guardrail or a hook.

        They are not among `runs`. Runs that a tool began are the `children` of its call.
        """
        with self._lock:
            return [recording.run() for recording in self._inner]

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

    def observe(self, watcher: Watcher | None, where: str, note: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method that notes something, and return its result; an error in it becomes a warning."""
        try:
            with self._lock:
                return note(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._fault(watcher, where, error)
            return None

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""
        watcher = self.observe(None, "the beginning of a run", self._watcher_for, input, options)
        if not isinstance(watcher, Watcher):
            return None
        replacement.acquire()
        self.observe(watcher, "the beginning of a run", self._describe, watcher, agent, input, options)
        changed = self.observe(watcher, "the beginning of a run", self._with_hooks, watcher, options)
        return ObservedRun(self, watcher, options if changed is None else changed)

    def offered(self, watcher: Watcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected, and wrap its MCP servers."""
        self.observe(watcher, "the tools of an agent", watcher.offered, agent, tools)
        self.observe(watcher, "the MCP servers of an agent", self._wrap_servers, watcher, agent)

    def finished(self, watcher: Watcher, result: Any) -> None:
        """Note the result of a run, which ended or waits for a person."""
        self.observe(watcher, "the end of a run", watcher.finished, result)
        self._release(watcher)

    def failed(self, watcher: Watcher, error: BaseException) -> None:
        """Note the exception that ended a run."""
        self.observe(watcher, "the end of a run", watcher.failed, error)
        self._release(watcher)

    def follow(self, watcher: Watcher, result: Any) -> None:
        """Observe a streamed run, which goes on in a task of its own."""
        if self.observe(watcher, "a stream", self._follow, watcher, result) is None:
            self._release(watcher)

    # Inside

    def _watcher_for(self, input: Any, options: dict[str, Any]) -> Watcher:
        """Return the watcher of a run that begins: of a tool's run, of the paused run it goes on with, or a new one."""
        outer = current_run.get()
        inner = outer is not None and outer.recorder is self
        if outer is not None and inner:
            key = outer.watcher.enclosing(options.get("context"))
            if key is not None:
                return outer.watcher.watch_inside(key)
        elif _states.is_state(input) and (paused := self._paused_run(input)) is not None:
            return paused
        recording = Recording.begin(self._label() or _states.conversation_of(options), inner=inner)
        if inner:
            self._inner.append(recording)
            del self._inner[: -self._limit]
        else:
            self._keep(recording)
        return Watcher(recording)

    def _paused_run(self, state: Any) -> Watcher | None:
        """Return the newest paused run that a state continues, by identity of its items, else by the waiting calls."""
        items = _states.state_items(state)
        same = [watcher for watcher in self._paused if watcher.ended_with(items)]
        if not same:
            # A state that was saved and loaded has other objects.
            ids, question = _states.waiting_ids(state), _messages.question_of(_states.state_input(state))
            same = [
                watcher
                for watcher in self._paused
                if _messages.question_of(watcher.input) == question and ids and ids <= watcher.waiting_ids
            ]
        return same[-1] if same else None

    def _describe(self, watcher: Watcher, agent: Any, input: Any, options: dict[str, Any]) -> None:
        if not _states.is_state(input):
            watcher.began(input, agent, options.get("run_config"))
        elif watcher.paused:
            if watcher in self._paused:
                self._paused.remove(watcher)
            watcher.resumed()
        else:
            watcher.began(_states.state_input(input), agent, options.get("run_config"))
            watcher.continues(_states.state_items(input), _states.state_responses(input))

    def _with_hooks(self, watcher: Watcher, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a run with hooks and a formatter that report to the watcher."""
        hooks = options.get("hooks")
        if hooks is not None and not isinstance(hooks, RunHooksBase):
            # The SDK may refuse them; whether it does must not depend on the recorder.
            watcher.has_no_hooks = True
            watcher.builder.warn(
                f"the hooks are of {type(hooks).__name__!r}, which is not a RunHooks: only what the finished result "
                "holds was recorded"
            )
            return options
        changed = {**options, "hooks": RecordingHooks(self.observe, watcher, hooks)}
        if formatter_sees_exceptions():
            run_config = options.get("run_config")
            formatter = ErrorFormatter(self.observe, watcher, field_of(run_config, "tool_error_formatter"))
            changed["run_config"] = with_formatter(run_config, formatter)
        return changed

    def _wrap_servers(self, watcher: Watcher, agent: Any) -> None:
        for server in getattr(agent, "mcp_servers", None) or ():
            if not any(server is other for other in watcher.servers) and _mcp.wrap(server, _report_mcp_error):
                watcher.servers.append(server)

    def _follow(self, watcher: Watcher, result: Any) -> bool:
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
            # Created at once, since from here on only the generator references the result.
            return observed(events(reference()))

        result.stream_events = stream_events
        task = _states.task_of(result)
        task.add_done_callback(functools.partial(self._stream_ended, watcher, reference))
        return True

    def _stream_ended(self, watcher: Watcher, reference: weakref.ref[Any], task: asyncio.Task[Any]) -> None:
        self.observe(watcher, "the end of a stream", watcher.stream_ended, reference(), task)
        self._release(watcher)

    def _release(self, watcher: Watcher) -> None:
        """Restore what was replaced for a run, and deliver its recording."""
        replacement.release()
        self.observe(watcher, "the MCP servers of an agent", _mcp.unwrap, watcher.servers)
        watcher.servers = []
        if watcher.scope is not None:
            return
        if watcher.paused and not watcher.recording.inner:
            self._paused.append(watcher)
            del self._paused[: -self._limit]
        try:
            self._deliver([watcher.recording])  # without the lock, since a sink may be slow
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._fault(watcher, "a sink", error)

    def _drop(self, recording: Recording) -> bool:
        self._paused = [watcher for watcher in self._paused if watcher.recording is not recording]
        return super()._drop(recording)

    def _fault(self, watcher: Watcher | None, where: str, error: Exception) -> None:
        """Warn that the recorder failed, on the run if there is one."""
        try:
            text = f"the recorder failed at {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if watcher is None:
                    self._say(text)
                else:
                    watcher.builder.warn(text)
        except Exception:  # noqa: BLE001, S110 - nothing is left to report to
            pass


def _report_mcp_error(text: str) -> None:
    """Report an error of an MCP server to the run of this context, which the wrapped server cannot know."""
    observed = current_run.get()
    if isinstance(observed, ObservedRun) and isinstance(observed.recorder, Recorder):
        observed.recorder.observe(observed.watcher, "a result of an MCP server", observed.watcher.mcp_failed, text)


class record:  # noqa: N801 - used like a function
    """Record every run that begins inside: `with record() as recorder:`, or `async with`.

    ```python
    with record() as recorder:
        await Runner.run(agent, "What is the weather in Paris?")
    case = recorder.test_case(expected_tools=[ToolCall(name="weather")])
    ```

    Tasks started inside are recorded, new threads are not; use `recorder.run_sync` there. Of nested blocks, the
    innermost records. The arguments are those of `Recorder`.
    """

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Create the recorder; it records nothing before the block begins."""
        self._recorder = Recorder(sink=sink, limit=limit, conversation=conversation)
        self._block = ExitStack()

    def __enter__(self) -> Recorder:
        """Begin to record."""
        self._block.enter_context(attached(self._recorder))
        return self._recorder

    def __exit__(self, *raised: object) -> None:
        """Record no further runs; streams that go on are recorded to their end."""
        self._block.close()

    async def __aenter__(self) -> Recorder:
        """Begin to record."""
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        """Record no further runs."""
        self._block.close()
