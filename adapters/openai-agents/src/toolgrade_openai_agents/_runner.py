"""A runner that replaces the SDK's default one and reports the runs of its context to a recorder.

`Runner.run`, `run_sync` and `run_streamed` all use the SDK's one default runner, also inside tools and for agents that
serve as tools. While a recorder is attached, a `RecordingRunner` takes its place. It passes every run on to the runner
that it replaced and observes only those that begin in a recording context. The original runner returns when no recorder
is attached and no observed run goes on.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import agents
from agents.agent import AgentBase
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from toolgrade.capture import ForkSafeLock
from toolgrade_openai_agents._observed_run import (
    Attachment,
    ObservedRun,
    RunObserver,
    beside_tools,
    current_run,
    open_recorders,
    recorder_here,
)


def attach(recorder: RunObserver, *, is_process_wide: bool = False) -> Attachment:
    """Record the runs that begin from now on, in this context or in the whole process, until `detach`."""
    replacement.acquire()
    return Attachment.open(recorder, is_process_wide=is_process_wide)


def detach(attachment: Attachment) -> None:
    """Undo one `attach`."""
    attachment.close()
    replacement.release()


@contextmanager
def attached(recorder: RunObserver) -> Iterator[None]:
    """Record the runs that begin inside, in this context."""
    attachment = attach(recorder)
    try:
        yield
    finally:
        detach(attachment)


class RecordingRunner(AgentRunner):
    """Passes runs on to the runner that it replaces, and observes those of a recording context."""

    def __init__(self, runner: AgentRunner) -> None:
        """Store the runner to pass on to."""
        super().__init__()
        self.runner = runner

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent."""
        with _observed(starting_agent, input, options) as (observed, changed):
            result = await self.runner.run(starting_agent, input, **changed)
            if observed is not None:
                observed.recorder.finished(observed.watcher, result)
        return result

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent and wait for it."""
        with _observed(starting_agent, input, options) as (observed, changed):
            result = self.runner.run_sync(starting_agent, input, **changed)
            if observed is not None:
                observed.recorder.finished(observed.watcher, result)
        return result

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Start an agent and return its stream."""
        with _observed(starting_agent, input, options) as (observed, changed):
            result = self.runner.run_streamed(starting_agent, input, **changed)
            if observed is not None:
                observed.recorder.follow(observed.watcher, result)
        return result


@contextmanager
def _observed(agent: Any, input: Any, options: dict[str, Any]) -> Iterator[tuple[ObservedRun | None, dict[str, Any]]]:
    """Observe a run, and report what it raises; yield the options to run it with, changed if a recorder is active."""
    recorder = _recorder_of(agent)
    observed = None if recorder is None else recorder.begin(agent, input, options)
    if observed is None:
        yield None, options
        return
    token = current_run.set(observed)
    try:
        yield observed, observed.options
    except BaseException as error:
        observed.recorder.failed(observed.watcher, error)
        raise
    finally:
        current_run.reset(token)


def _recorder_of(agent: Any) -> RunObserver | None:
    """Return the recorder of an agent that begins here; without one, those that are active elsewhere are told."""
    recorder = recorder_here()
    if recorder is None:
        for other in open_recorders():
            other.missed(agent)
    return recorder


_FAILURE_FUNCTION: Final = "maybe_invoke_function_tool_failure_error_function"
"""Words a tool's exception for the model, since 0.14. No public function receives all of them."""

_FAILURE_MODULES: Final = ("agents.tool", "agents.run_internal.tool_execution")
"""The modules that call it, each by a name of its own."""


class _RunnerReplacement:
    """Replaces the SDK's runner and the functions to be observed while a recorder or a run uses them."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._users = 0
        self._undo: list[Callable[[], None]] = []

    def acquire(self) -> None:
        """Install the replacements unless they are in place."""
        with self._lock:
            self._users += 1
            runner = get_default_agent_runner()
            if not isinstance(runner, RecordingRunner):  # also if another library installed its own runner meanwhile
                recording = RecordingRunner(runner)
                set_default_agent_runner(recording)
                self._undo.append(functools.partial(_restore_runner, recording))
            self._replace(AgentBase, "get_all_tools", _reporting)
            for module in filter(None, map(_imported, _FAILURE_MODULES)):
                self._replace(module, _FAILURE_FUNCTION, _reporting_failures)
            realtime = _imported("agents.realtime")  # it needs a package that older releases leave out
            self._replace(getattr(realtime, "RealtimeSession", None), "__aenter__", _watching)
            for name in ("ToolInputGuardrail", "ToolOutputGuardrail"):
                self._replace(getattr(agents, name, None), "run", beside_tools)

    def _replace(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by what `make` makes of it, unless it is in place, or the release lacks the function."""
        original = getattr(holder, name, None)
        if original is not None and not hasattr(original, "toolgrade_original"):
            reporting = make(original)
            reporting.toolgrade_original = original
            setattr(holder, name, reporting)
            self._undo.append(functools.partial(_restore, holder, name, reporting, original))

    def release(self) -> None:
        """Undo one `acquire`; the last one restores what was replaced."""
        with self._lock:
            self._users -= 1
            while not self._users and self._undo:
                self._undo.pop()()


replacement: Final = _RunnerReplacement()
"""Acquired by each attached recorder and each observed run, since a run may outlast the block that it began in."""


def _restore_runner(recording: RecordingRunner) -> None:
    # Another library may have installed its own runner on top; that one stays.
    if get_default_agent_runner() is recording:
        set_default_agent_runner(recording.runner)


def _restore(holder: Any, name: str, reporting: Any, original: Any) -> None:
    """Put an original back, unless another library has replaced it meanwhile."""
    if getattr(holder, name) is reporting:
        setattr(holder, name, original)


@functools.cache
def _imported(name: str) -> Any:
    """Return a module of the SDK; `None` where the installed release lacks it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _watching(original: Any) -> Any:
    """Return the beginning of a realtime session, which the recorder of its context then observes."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        recorder = _recorder_of(getattr(self, "_current_agent", None))
        watcher = None if recorder is None else recorder.watch(self)
        if watcher is None:
            return await original(self)
        try:
            with watcher.inside(watcher.home):
                return await original(self)
        except BaseException:
            watcher.close()
            raise

    return enter


def _reporting_failures(original: Any) -> Any:
    """Return the function that words exceptions, with a report of each exception."""

    @functools.wraps(original)
    async def failure(*args: Any, **kwargs: Any) -> Any:
        observed = current_run.get()
        if observed is not None:
            observed.recorder.tool_raised(observed.watcher, kwargs.get("context"), kwargs.get("error"))
        return await original(*args, **kwargs)

    return failure


def _reporting(original: Any) -> Any:
    """Return `get_all_tools` with a report of its result; calling it once more would query MCP servers twice."""

    @functools.wraps(original)
    async def get_all_tools(self: Any, *args: Any, **kwargs: Any) -> Any:
        tools = await original(self, *args, **kwargs)
        observed = current_run.get()
        if observed is not None:
            observed.recorder.offered(observed.watcher, self, tools)
        return tools

    return get_all_tools
