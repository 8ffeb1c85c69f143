"""How do runs come to be watched? A runner that stands in for the SDK's own, and tells the recorder of its context.

The SDK has one default runner, which `Runner.run`, `run_sync` and `run_streamed` ask, also those inside tools and for
agents that are tools. While anybody records, it is one that passes everything on to the runner it found there. It looks
only at runs begun in a context that records; all others it merely passes on. When nobody records any more and no
watched run goes on, everything is as it was.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agents.agent import AgentBase
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

if TYPE_CHECKING:
    from toolmark_openai_agents._recorder import Recorder
    from toolmark_openai_agents._watch import Watch


class Watched(NamedTuple):
    """The run that goes on in a context, and who records it."""

    recorder: Recorder
    watch: Watch


_active: Final[ContextVar[Recorder | None]] = ContextVar("toolmark_openai_agents_recorder", default=None)
_current: Final[ContextVar[Watched | None]] = ContextVar("toolmark_openai_agents_run", default=None)


def current() -> Watched | None:
    """Return the run that the caller is part of, if one is watched."""
    return _current.get()


@contextmanager
def attached(recorder: Recorder) -> Iterator[None]:
    """Record the runs that are begun inside, in this context."""
    _stand_in.take()
    token = _active.set(recorder)
    try:
        yield
    finally:
        try:
            _active.reset(token)
        except ValueError:  # left in another context than entered, as asynchronous test fixtures are
            _active.set(None)
        _stand_in.give_back()


class RecordingRunner(AgentRunner):
    """Passes runs on to the runner that it stands in for, and tells the recorder of the context of each."""

    def __init__(self, runner: AgentRunner) -> None:
        """Keep the runner to pass on to."""
        super().__init__()
        self.runner = runner

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
        """Run an agent."""
        with _begun(starting_agent, input, options) as (recorder, watch, changed):
            result = await self.runner.run(starting_agent, input, **changed)
            if recorder is not None:
                recorder.finished(watch, result)
        return result

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
        """Run an agent, and wait."""
        with _begun(starting_agent, input, options) as (recorder, watch, changed):
            result = self.runner.run_sync(starting_agent, input, **changed)
            if recorder is not None:
                recorder.finished(watch, result)
        return result

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
        """Begin to run an agent, and return its stream."""
        with _begun(starting_agent, input, options) as (recorder, watch, changed):
            result = self.runner.run_streamed(starting_agent, input, **changed)
            if recorder is not None:
                recorder.follow(watch, result)
        return result


@contextmanager
def _begun(agent: Any, given: Any, options: dict[str, Any]) -> Iterator[tuple[Any, Any, dict[str, Any]]]:  # noqa: ANN401
    """Begin to watch a run, and say where it raised; nothing, where nobody records."""
    recorder = _active.get()
    begun = None if recorder is None else recorder.begin(agent, given, options)
    if recorder is None or begun is None:
        yield None, None, options
        return
    token = _current.set(Watched(recorder, begun.watch))
    try:
        yield recorder, begun.watch, begun.options
    except BaseException as error:
        recorder.failed(begun.watch, error)
        raise
    finally:
        _current.reset(token)


class _StandIn:
    """Puts the recording runner in place for as long as anybody needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._undo: list[Callable[[], None]] = []

    def take(self) -> None:
        """Say that it is needed."""
        with self._lock:
            self._users += 1
            runner = get_default_agent_runner()
            if not isinstance(runner, RecordingRunner):  # also where somebody installed another one since
                recording = RecordingRunner(runner)
                set_default_agent_runner(recording)
                self._undo.append(functools.partial(_put_back_runner, recording))
            if not hasattr(AgentBase.get_all_tools, "toolmark_original"):
                watched = _watched_tools(AgentBase.get_all_tools)
                AgentBase.get_all_tools = watched  # type: ignore[method-assign]
                self._undo.append(functools.partial(_put_back_tools, watched))

    def give_back(self) -> None:
        """Say that it is no longer needed by one who took it."""
        with self._lock:
            self._users -= 1
            while not self._users and self._undo:
                self._undo.pop()()


_stand_in: Final = _StandIn()


def begin_watching() -> None:
    """Keep the runner in place while a run goes on, also after the block in which it was begun."""
    _stand_in.take()


def end_watching() -> None:
    """Say that a run which was watched has ended."""
    _stand_in.give_back()


def _put_back_runner(recording: RecordingRunner) -> None:
    if get_default_agent_runner() is recording:
        set_default_agent_runner(recording.runner)


def _put_back_tools(watched: Any) -> None:  # noqa: ANN401 - a method
    original = watched.toolmark_original
    if AgentBase.get_all_tools is watched:
        AgentBase.get_all_tools = original  # type: ignore[method-assign]


def _watched_tools(original: Any) -> Any:  # noqa: ANN401 - a method
    """Return the method that collects an agent's tools, telling what it found; to ask again would ask its servers."""

    @functools.wraps(original)
    async def get_all_tools(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
        tools = await original(self, *args, **kwargs)
        watched = _current.get()
        if watched is not None:
            watched.recorder.offered(watched.watch, self, tools)
        return tools

    get_all_tools.toolmark_original = original  # type: ignore[attr-defined]
    return get_all_tools
