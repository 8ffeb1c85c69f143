"""What reports the runs of a context to a recorder: a runner in the place of the SDK's default one, and hooks.

`Runner.run`, `run_sync` and `run_streamed` all use the SDK's one default runner, also inside tools and for agents that
serve as tools. While a recorder is attached, a `RecordingRunner` takes its place. It passes every run on to the runner
that it replaced and observes only those that begin in a recording context. The original runner returns when no recorder
is attached and no observed run goes on.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import agents
from agents import RunHooks
from agents.agent import AgentBase
from agents.lifecycle import RunHooksBase
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from toolgrade.capture import ForkSafeLock
from toolgrade_openai_agents._run_tree import RunnerRecording
from toolgrade_openai_agents._watcher import RunWatcher


class RunObserver(Protocol):
    """The part of the recorder that the runner and the tools of agents report to; none of these raises."""

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""

    def offered(self, watcher: RunWatcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected."""

    def tool_raised(self, watcher: RunWatcher, context: Any, error: Any) -> None:
        """Note the exception of a tool, which the SDK is about to replace by a text."""

    def finished(self, watcher: RunWatcher, result: Any) -> None:
        """Note the result of a run."""

    def failed(self, watcher: RunWatcher, error: BaseException) -> None:
        """Note the exception that ended a run."""

    def follow(self, watcher: RunWatcher, result: Any) -> None:
        """Observe a streamed run until its task ends."""

    def missed(self, agent: Any) -> None:
        """Note that an agent ran where no recorder is active."""

    def watch(self, session: Any) -> Any:
        """Return the watcher of a realtime session that begins; `None` if that fails."""

    def observe(
        self, watcher: RunWatcher | None, where: str, note: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a method that notes something, and return its result."""

    def store(self, recording: RunnerRecording) -> None:
        """Store the recording of a turn that begins."""

    def deliver(self, watcher: RunWatcher) -> None:
        """Deliver a run that ended or waits for a person."""

    def restore(self, watcher: RunWatcher) -> None:
        """Restore what was replaced for a run or a session."""


class ObservedRun(NamedTuple):
    """A run that a recorder observes, and the options with which the SDK is to run it."""

    recorder: RunObserver
    watcher: RunWatcher
    options: dict[str, Any]
    beside_tools: bool = False
    """The context is that of a hook or guardrail: it may be called inside a tool's span, and is no part of the tool."""


current_run: Final[ContextVar[ObservedRun | None]] = ContextVar("toolgrade_openai_agents_run", default=None)
"""The observed run that this context is part of."""


def beside_tools(original: Any) -> Any:
    """Return an asynchronous function of the user, such as a hook, whose runs are not those of a tool around it."""

    @functools.wraps(original)
    async def called(*args: Any, **kwargs: Any) -> Any:
        observed = current_run.get()
        token = current_run.set(None if observed is None else observed._replace(beside_tools=True))
        try:
            return await original(*args, **kwargs)
        finally:
            current_run.reset(token)

    return called


@dataclass(eq=False)
class Attachment:
    """One block in which a recorder is active.

    Attributes:
        recorder: The recorder.
        is_process_wide: It is also active wherever no other recorder is: in all tasks and threads of the process.
        outer: The attachment around it in its context.
        token: Restores the outer one; `None` once the block was left.
    """

    recorder: RunObserver
    is_process_wide: bool
    outer: Attachment | None
    token: Token[Attachment | None] | None = None

    def close(self) -> None:
        """Leave the block, in whichever context."""
        token, self.token = self.token, None
        with _lock:
            _attachments.remove(self)
        # Asynchronous test fixtures leave the block in another context than the one that they entered it in.
        with suppress(ValueError):
            if token is not None:
                _attachment.reset(token)
        replacement.release()

    @property
    def is_here(self) -> bool:
        """Whether it is one of the attachments of the current context."""
        attachment = _attachment.get()
        while attachment is not None and attachment is not self:
            attachment = attachment.outer
        return attachment is self


_attachment: Final[ContextVar[Attachment | None]] = ContextVar("toolgrade_openai_agents_recorder", default=None)
_attachments: Final[list[Attachment]] = []
"""The open attachments of the process, in the order in which they were opened."""
_lock: Final = ForkSafeLock()


def _innermost() -> Attachment | None:
    """Return the innermost attachment of the context that is open, or whose recorder observes the current run."""
    run, attachment = current_run.get(), _attachment.get()
    # A stream goes on after the block that it began in, and so do the runs inside it.
    while (
        attachment is not None and attachment.token is None and (run is None or attachment.recorder is not run.recorder)
    ):
        attachment = attachment.outer
    return attachment


def recorder_here() -> RunObserver | None:
    """Return the recorder of a run that begins here.

    It is the innermost one of the context, else that of the run that the context is part of, else the newest one of
    the whole process.
    """
    attachment, run = _innermost(), current_run.get()
    if attachment is not None:
        return attachment.recorder
    if run is not None:
        return run.recorder
    with _lock:
        process_wide = [attachment for attachment in _attachments if attachment.is_process_wide]
    return process_wide[-1].recorder if process_wide else None


def attach(recorder: RunObserver, *, is_process_wide: bool = False) -> Attachment:
    """Record the runs that begin from now on, in this context and its tasks or in the whole process, until `close`."""
    replacement.acquire()
    attachment = Attachment(recorder, is_process_wide, _innermost())
    attachment.token = _attachment.set(attachment)
    with _lock:
        _attachments.append(attachment)
    return attachment


@contextmanager
def attached(recorder: RunObserver) -> Iterator[None]:
    """Record the runs that begin inside, in this context."""
    attachment = attach(recorder)
    try:
        yield
    finally:
        attachment.close()


HOOK_NAMES: Final = tuple(name for name in dir(RunHooksBase) if name.startswith("on_"))
"""The hooks that the installed SDK has; a later release may have more."""


class RecordingHooks(RunHooks[Any]):
    """Reports each hook to a watcher, and then calls the user's hooks with the same arguments."""

    def __init__(self, observe: Callable[..., Any], watcher: RunWatcher, hooks: Any) -> None:
        """Store the recorder's `observe`, which makes an observation without raising, the watcher, and the hooks."""
        self._observe = observe
        self._watcher = watcher
        self._hooks = hooks


def _hook(name: str) -> Callable[..., Awaitable[None]]:
    async def hook(self: RecordingHooks, *args: Any, **kwargs: Any) -> None:
        observation = getattr(self._watcher, name, None)
        if observation is not None:
            self._observe(self._watcher, name, observation, *args, **kwargs)
        if self._hooks is not None:
            await beside_tools(getattr(self._hooks, name))(*args, **kwargs)

    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = f"Report `{name}`."
    return hook


for _name in HOOK_NAMES:
    setattr(RecordingHooks, _name, _hook(_name))


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
        with _lock:
            others = {id(attachment.recorder): attachment.recorder for attachment in _attachments}
        for other in others.values():
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
