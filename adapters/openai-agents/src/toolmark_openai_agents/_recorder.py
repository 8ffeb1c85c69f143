"""What is recorded of the runs of agents, and what is given back of it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agents import Runner

from toolmark.capture import Run, RunRecorder, Sink
from toolmark_openai_agents import _mcp, _sdk
from toolmark_openai_agents._errors import error_text
from toolmark_openai_agents._hooks import Formatter, RecordingHooks
from toolmark_openai_agents._recording import Recording
from toolmark_openai_agents._runner import attached, begin_watching, current, end_watching
from toolmark_openai_agents._watch import Watch

if TYPE_CHECKING:
    import asyncio


class Begun(NamedTuple):
    """A run that is watched, and the options with which the SDK is to be called for it."""

    watch: Watch
    options: dict[str, Any]


class Recorder(RunRecorder[Recording]):
    """Records runs of OpenAI Agents: those inside `with record()`, and those begun by its own `run` methods.

    One recorder may watch any number of runs at once, in threads and tasks. Nothing it does reaches the run: an error
    inside it becomes a warning on the run concerned, or in `warnings` where there is none.
    """

    how_to_attach: ClassVar[str] = (
        "begin the run inside `with record()`, or by `recorder.run(agent, input)`; a new thread does not see the block "
        "it was started in"
    )

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Begin with nothing recorded.

        Args:
            sink: See `RunRecorder`, as for the rest.
            limit: How many runs are kept.
            conversation: The conversation that every run belongs to; by default that of its session, else its
                `conversation_id`, else the `group_id` of its configuration.
        """
        super().__init__(sink=sink, limit=limit, conversation=conversation)
        self._inner: list[Recording] = []
        self._paused: list[Watch] = []

    @property
    def inner_runs(self) -> list[Run]:
        """Runs that were begun by another run, and not by a tool of it: in a guardrail, say, or in a hook.

        They are not among `runs`. Those begun by a tool are the `children` of its call.
        """
        with self._lock:
            return [recording.run() for recording in self._inner]

    def pop(self) -> list[Run]:
        """Return the runs that have ended and forget them, inner runs too; those that go on stay."""
        with self._lock:
            self._inner = [recording for recording in self._inner if recording.builder.is_open]
            return super().pop()

    # Runs that are begun here

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as `Runner.run`
        """Run an agent as `Runner.run` does, and record it, also where `record()` cannot be seen."""
        with attached(self):
            return await Runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as `Runner.run_sync`
        """Run an agent as `Runner.run_sync` does, and record it, in any thread."""
        with attached(self):
            return Runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as the SDK's
        """Run an agent as `Runner.run_streamed` does, and record it; the run goes on after this has returned."""
        with attached(self):
            return Runner.run_streamed(starting_agent, input, **options)

    # For the runner and the hooks: none of these raises

    def note(self, watch: Watch | None, where: str, tell: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Tell something to a watch, and return what that returns; an error in it becomes a warning."""
        try:
            with self._lock:
                return tell(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._fault(watch, where, error)
            return None

    def begin(self, agent: Any, given: Any, options: dict[str, Any]) -> Begun | None:  # noqa: ANN401 - as the SDK has them
        """Begin to watch a run; `None` where that failed."""
        watch = self.note(None, "the beginning of a run", self._watch_for, given, options)
        if not isinstance(watch, Watch):
            return None
        begin_watching()
        self.note(watch, "the beginning of a run", self._describe, watch, agent, given, options)
        changed = self.note(watch, "the beginning of a run", self._changed, watch, options)
        return Begun(watch, options if changed is None else changed)

    def offered(self, watch: Watch, agent: Any, tools: Any) -> None:  # noqa: ANN401 - objects of the SDK
        """An agent collected its tools."""
        self.note(watch, "the tools of an agent", watch.offered, agent, tools)
        self.note(watch, "the MCP servers of an agent", self._watch_servers, watch, agent)

    def finished(self, watch: Watch, result: Any) -> None:  # noqa: ANN401 - a result of the SDK
        """A run came to its end, or waits for a person."""
        self.note(watch, "the end of a run", watch.finished, result)
        self._over(watch)

    def failed(self, watch: Watch, error: BaseException) -> None:
        """A run raised."""
        self.note(watch, "the end of a run", watch.failed, error)
        self._over(watch)

    def follow(self, watch: Watch, result: Any) -> None:  # noqa: ANN401 - a result of the SDK
        """A run was begun that goes on in a task of its own."""
        if self.note(watch, "a stream", self._follow, watch, result) is None:
            self._over(watch)

    # Inside

    def _watch_for(self, given: Any, options: dict[str, Any]) -> Watch:  # noqa: ANN401 - an input of the SDK
        outer = current()
        if outer is not None and outer.recorder is self:
            key = outer.watch.enclosing(options.get("context"))
            if key is not None:
                return outer.watch.watch_inside(key)
        elif _sdk.is_state(given) and (waiting := self._waiting(given)) is not None:
            return waiting
        inner = outer is not None and outer.recorder is self
        recording = Recording.begin(self._label() or _sdk.conversation_in(options), inner=inner)
        if inner:
            self._inner.append(recording)
            del self._inner[: -self._limit]
        else:
            self._keep(recording)
        return Watch(recording)

    def _waiting(self, state: Any) -> Watch | None:  # noqa: ANN401 - a state of the SDK
        """Return the run that a state goes on with: one that ended with the same items, else with the same waiting."""
        items = _sdk.items_in(state)
        same = [watch for watch in self._paused if watch.ended_with(items)]
        if not same:
            ids = _sdk.waiting_ids(state)
            question = _sdk.question_in(_sdk.input_in(state))
            alike = [watch for watch in self._paused if _sdk.question_in(watch.question) == question]
            same = [watch for watch in alike if ids and ids <= watch.waiting_ids]
        return same[-1] if same else None

    def _describe(self, watch: Watch, agent: Any, given: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
        if not _sdk.is_state(given):
            watch.began(given, agent, options.get("run_config"))
        elif watch.paused:
            if watch in self._paused:
                self._paused.remove(watch)
            watch.resumed()
        else:
            watch.began(_sdk.input_in(given), agent, options.get("run_config"))
            watch.came_so_far(_sdk.items_in(given), _sdk.responses_in(given))

    def _changed(self, watch: Watch, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options with which the SDK tells of the run."""
        hooks = options.get("hooks")
        if not RecordingHooks.fit(hooks):
            watch.blind = True
            watch.builder.warn(
                f"the hooks are of {type(hooks).__name__!r}, which is no RunHooks: only what the finished result holds "
                "was recorded"
            )
            return options
        changed = {**options, "hooks": RecordingHooks(self, watch, hooks)}
        if _sdk.tells_exceptions():
            run_config = options.get("run_config")
            own = _sdk.field(run_config, "tool_error_formatter") if run_config is not None else None
            changed["run_config"] = _sdk.with_formatter(run_config, Formatter(self, watch, own))
        return changed

    def _watch_servers(self, watch: Watch, agent: Any) -> None:  # noqa: ANN401 - an agent of the SDK
        for server in getattr(agent, "mcp_servers", None) or ():
            if not any(server is known for known in watch.servers) and _mcp.watch(server, _said_it_failed):
                watch.servers.append(server)

    def _follow(self, watch: Watch, result: Any) -> bool:  # noqa: ANN401 - a result of the SDK
        kept = weakref.ref(result)
        events = type(result).stream_events

        async def told(stream: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - a generator of the SDK
            try:
                async for event in stream:
                    yield event
                self.note(watch, "the end of a stream", watch.stream_read, kept())
            except Exception as error:
                watch.told = True
                self.note(watch, "the end of a stream", watch.failed, error)
                raise
            finally:
                await stream.aclose()

        def stream_events() -> AsyncIterator[Any]:
            return told(events(kept()))  # made at once, since from now on only the generator holds the result

        result.stream_events = stream_events
        task = _sdk.task_of(result)
        task.add_done_callback(functools.partial(self._stream_ended, watch, kept))
        return True

    def _stream_ended(self, watch: Watch, kept: weakref.ref[Any], task: asyncio.Task[Any]) -> None:
        self.note(watch, "the end of a stream", watch.stream_ended, kept(), task)
        self._over(watch)

    def _over(self, watch: Watch) -> None:
        """Put back what was changed for a run, and hand it over."""
        end_watching()
        self.note(watch, "the MCP servers of an agent", _mcp.unwatch, watch.servers)
        watch.servers = []
        if watch.scope is not None:
            return
        if watch.paused and not watch.recording.inner:
            self._paused.append(watch)
            del self._paused[: -self._limit]
        try:
            self._deliver([watch.recording])  # without the lock, since a sink may take its time
        except Exception as error:  # noqa: BLE001 - as in `note`
            self._fault(watch, "a sink", error)

    def _drop(self, recording: Recording) -> bool:
        self._paused = [watch for watch in self._paused if watch.recording is not recording]
        return super()._drop(recording)

    def _fault(self, watch: Watch | None, where: str, error: Exception) -> None:
        """Say that the recorder failed, on the run concerned if it is known."""
        try:
            text = f"the recorder failed at {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if watch is None:
                    self._say(text)
                else:
                    watch.builder.warn(text)
        except Exception:  # noqa: BLE001, S110 - nothing is left that could be said
            pass


def _said_it_failed(text: str) -> None:
    """Tell the run of this context that the tool which runs here was said to have failed."""
    watched = current()
    if watched is not None:
        watched.recorder.note(watched.watch, "a result of an MCP server", watched.watch.said_it_failed, text)


class record:  # noqa: N801 - used like a function
    """Record every run that begins inside: `with record() as recorder:`, or `async with`.

    ```python
    with record() as recorder:
        await Runner.run(agent, "What is the weather in Paris?")
    case = recorder.test_case(expected_tools=[ToolCall(name="weather")])
    ```

    It is seen in this context: also in tasks started inside, not in new threads; there, use `recorder.run_sync`. Of
    several inside each other, the innermost records. The arguments are those of `Recorder`.
    """

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Make the recorder; nothing is recorded before the block begins."""
        self._recorder = Recorder(sink=sink, limit=limit, conversation=conversation)
        self._block = ExitStack()

    def __enter__(self) -> Recorder:
        """Begin to record."""
        self._block.enter_context(attached(self._recorder))
        return self._recorder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record nothing that begins from here on; streams that go on are recorded to their end."""
        self._block.close()

    async def __aenter__(self) -> Recorder:
        """Begin to record."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record nothing that begins from here on."""
        self.__exit__(kind, error, traceback)
