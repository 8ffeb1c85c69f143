"""Branches of a program that run at the same time, and the requests that wait for a tool in each of them.

Outside of agents, LlamaIndex does not report to which request of a model a tool belongs, and ids of requests repeat.
But a tool runs where its request was read: in the same task or thread, in one that was started there, or in a step
that received what an earlier step returned.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from llama_index.core.workflow import Event

from toolgrade.capture import Outcome, Request, json_equal

_State: TypeAlias = Literal["open", "running", "failed"]

_AMBIGUOUS_MESSAGE: Final = (
    "a tool {name!r} received arguments that no model requested, and several answers of models have open requests for "
    "it; it counts as the newest of them"
)
_AMBIGUOUS_BRANCH: Final = (
    "a tool {name!r} received arguments that no model requested, and several branches of the program have open "
    "requests for it; it counts as a call by code"
)

_numbers: Final = count(1)


class ProgramBranch:
    """One task, one thread, or one execution of a workflow's step.

    Attributes:
        key: Identifies it, as the key of a `Branch`; equal for all passes of a step.
        parent: The branch that started it.
        step: The pass of a step that it belongs to; `None` outside of workflows.
        calls: The tools that code has run in this step, in all its passes.
        repeated: Those that this pass, from its beginning, has not run again yet.
    """

    def __init__(self, parent: ProgramBranch | None, *, is_step: bool = False) -> None:
        """Begin a branch in the current task or thread."""
        self.key = f"branch {next(_numbers)}"
        self.parent = parent
        self.step: ProgramBranch | None = self if is_step else None if parent is None else parent.step
        self.calls: list[_CodeCall] = []
        self.repeated: list[_CodeCall] = []
        self._place = weakref.ref(_current_place())

    def next_pass(self) -> ProgramBranch:
        """Return the same step, started again from its beginning in the current task or thread."""
        branch = ProgramBranch(self.parent, is_step=True)
        branch.key, branch.calls, branch.repeated = self.key, self.calls, list(self.calls)
        return branch

    @property
    def is_here(self) -> bool:
        """Whether the current task or thread belongs to it, and was not started by it."""
        return self._place() is _current_place()

    def lineage(self) -> list[str]:
        """Return the keys of the branch and of those that started it, the nearest first."""
        keys: list[str] = []
        branch: ProgramBranch | None = self
        while branch is not None:
            keys.append(branch.key)
            branch = branch.parent
        return keys


def equal_values(first: object, second: object) -> bool:
    """Return whether two values, which may be of any kind, are equal as JSON values."""
    try:
        return json_equal(first, second)
    except Exception:  # noqa: BLE001 - comparisons of users' values may raise
        return False


_branch: ContextVar[ProgramBranch | None] = ContextVar("toolgrade_llama_index_branch", default=None)


def _current_place() -> asyncio.Task[Any] | threading.Thread:
    """Return the current task, outside of event loops the current thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.current_thread() if task is None else task


def current_branch() -> ProgramBranch:
    """Return the branch of the current task or thread."""
    branch = _branch.get()
    if branch is None or not branch.is_here:
        # Tasks and threads begin with a copy of the context in which they were started.
        branch = ProgramBranch(branch)
        _branch.set(branch)
    return branch


class EventFlow:
    """Which step of a workflow sent an event, and which received it: the receiver is a branch that the sender started.

    Example: the step `plan` returns an event `Planned`, and the step `work` receives it. A tool that `work` runs may
    carry out a request that a model made in `plan`.
    """

    def __init__(self) -> None:
        """Begin without events."""
        self._senders: dict[int, tuple[weakref.ref[Event], ProgramBranch]] = {}
        self._receivers: dict[tuple[int, str], tuple[weakref.ref[Event], ProgramBranch]] = {}

    def received(self, method: str, event: Event) -> None:
        """Make the step that received an event, the method of this name, the current branch."""
        earlier = self._receivers.get((id(event), method))
        if earlier is not None and earlier[0]() is event:
            # A step that waits for a person is run again from its beginning, with the same event.
            branch = earlier[1].next_pass()
        else:
            sender = self._senders.get(id(event))
            is_known = sender is not None and sender[0]() is event
            branch = ProgramBranch(sender[1] if sender is not None and is_known else _branch.get(), is_step=True)
        self._receivers[id(event), method] = weakref.ref(event), branch
        _branch.set(branch)

    def sent(self, event: Event) -> None:
        """Note that the current branch sent an event."""
        self._senders[id(event)] = weakref.ref(event), current_branch()


@dataclass(slots=True, eq=False)
class _CodeCall:
    """A tool that code ran in a step of a workflow, and runs again whenever the step begins again."""

    request: Request
    """The handle of the call: the request of a model, or one that no model made."""
    name: str
    arguments: dict[str, Any]
    is_nested: bool
    """It ran inside another tool."""
    is_suspended: bool = False


@dataclass(slots=True, eq=False)
class _OpenRequest:
    """A request of which no execution has succeeded."""

    request: Request
    order: tuple[int, int]
    """Number of the model's message, negated, and position in it: the newest message comes first."""
    scope: str | None
    branch: ProgramBranch
    arguments: Any
    """A copy: the tool may change what it receives."""
    state: _State = "open"

    def fit(self, arguments: dict[str, Any]) -> int | None:
        """Return how well an execution with these arguments fits, 0 being the best; `None` if they differ.

        The program may have added arguments. An execution after a failure is another attempt.
        """
        if not isinstance(self.arguments, dict):
            return None
        repeated = 0 if self.state == "open" else 2
        if equal_values(self.arguments, arguments):
            return repeated
        shared = {name: arguments[name] for name in self.arguments if name in arguments}
        return 1 + repeated if equal_values(self.arguments, shared) else None

    def may_start(self, name: str, scope: str | None, call_id: str | None) -> bool:
        """Return whether an execution of this tool, or of this id, may begin here."""
        if (self.request.name, self.scope) != (name, scope) or self.state == "running":
            return False
        return not call_id or self.request.id == call_id


class OpenRequests:
    """The requests of models outside of agents that may still be executed."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """Begin without requests; `warn` adds a warning to the run."""
        self._warn = warn
        self._requests: list[_OpenRequest] = []
        self._running: dict[str, _OpenRequest] = {}
        self._step_calls: dict[str, tuple[_CodeCall, ProgramBranch | None]] = {}
        """What runs in steps, by the execution."""
        self._waiting_steps: dict[str, ProgramBranch] = {}
        """Steps with a call that waits for a person."""
        self._left: list[_CodeCall] = []
        """What such steps ran when the run was left; a resumed run begins them again."""
        self._messages = 0

    def add(self, requests: Sequence[Request], scope: str | None) -> None:
        """Add the requests of a message that was read in the current branch."""
        self._messages += 1
        branch = current_branch()
        for index, request in enumerate(requests):
            order = -self._messages, index
            self._requests.append(_OpenRequest(request, order, scope, branch, copy.deepcopy(request.arguments)))

    def started(
        self,
        execution: str,
        name: str,
        arguments: dict[str, Any],
        scope: str | None,
        call_id: str | None = None,
        assumed: Request | None = None,
    ) -> Request | None:
        """Return the request that a tool carries out; `None` if it is not known."""
        candidates = [request for request in self._requests if request.may_start(name, scope, call_id)]
        here = current_branch()
        repeated = self._repeated(here, candidates, name, arguments, is_nested=scope is not None)
        request = repeated.request if repeated else assumed or self._choose(here, candidates, execution, arguments)
        if here.step is not None:
            request = request or Request(name, id=call_id)
            repeated = repeated or _CodeCall(request, name, _copy(arguments), scope is not None)
            self._step_calls[execution] = repeated, here.step
            if repeated not in here.step.calls:
                here.step.calls.append(repeated)
        return request

    def _choose(
        self, here: ProgramBranch, candidates: list[_OpenRequest], execution: str, arguments: dict[str, Any]
    ) -> Request | None:
        """Return the one of these requests that an execution carries out, `None` if none is likely."""
        distances = {key: distance for distance, key in enumerate(here.lineage())}
        own: list[tuple[int, _OpenRequest]] = []
        inner: list[tuple[int, _OpenRequest]] = []
        other: list[tuple[int, _OpenRequest]] = []
        for request in candidates:
            if request.branch.key in distances:
                own.append((distances[request.branch.key], request))
            elif here.key in request.branch.lineage():
                inner.append((len(distances), request))
            else:
                other.append((0, request))
        chosen = _best([*own, *inner], arguments) or self._newest(own)
        chosen = chosen or _best(other, arguments) or _only([*inner, *other])
        if chosen is not None:
            chosen.state = "running"
            self._running[execution] = chosen
            return chosen.request
        if any(request.state == "open" for request in candidates):
            self._warn(_AMBIGUOUS_BRANCH.format(name=candidates[0].request.name))
        return None

    def _newest(self, requests: list[tuple[int, _OpenRequest]]) -> _OpenRequest | None:
        """Return the newest of the nearest open requests, with a warning if another message has some, too.

        Its arguments differ from those of the execution, so a program or a person has edited them.
        """
        waiting = [(rank, request) for rank, request in requests if request.state == "open"]
        nearest = min((rank for rank, _ in waiting), default=0)
        equally_near = sorted((request for rank, request in waiting if rank == nearest), key=lambda each: each.order)
        if equally_near and equally_near[-1].order[0] != equally_near[0].order[0]:
            self._warn(_AMBIGUOUS_MESSAGE.format(name=equally_near[0].request.name))
        return equally_near[0] if equally_near else None

    def _repeated(
        self,
        here: ProgramBranch,
        candidates: list[_OpenRequest],
        name: str,
        arguments: dict[str, Any],
        *,
        is_nested: bool,
    ) -> _CodeCall | None:
        """Return the call that an earlier pass of the same step began, `None` if this one is new."""
        step = here.step
        repeated = [] if step is None else step.repeated
        # The model may have been asked again, too.
        new = (request for request in candidates if request.state == "open" and request.branch.step is step)
        if step is not None and any(request.fit(arguments) == 0 for request in new):
            return None
        for calls in (repeated, self._left):
            for call in calls:
                if (call.name, call.is_nested) == (name, is_nested) and equal_values(call.arguments, arguments):
                    calls.remove(call)
                    return call
        return None

    def ended(self, execution: str, outcome: Outcome) -> None:
        """Note the end of an execution; after a success, a further one is a call by code."""
        call, step = self._step_calls.pop(execution, (None, None))
        if call is not None:
            call.is_suspended = outcome is Outcome.SUSPENDED
            if call.is_suspended and step is not None:
                self._waiting_steps[step.key] = step
        request = self._running.pop(execution, None)
        if request is not None:
            # In a step, a call that waits runs again with the step.
            request.state = "failed"
            if outcome is Outcome.OK or (call is not None and call.is_suspended):
                self._requests.remove(request)

    def resumed(self) -> None:
        """Note that a run goes on from a saved state, in which its steps receive other objects than before."""
        steps = [step for step in self._waiting_steps.values() if any(call.is_suspended for call in step.calls)]
        self._left = [call for step in steps for call in step.calls]
        self._waiting_steps.clear()


def _copy(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of arguments, which a tool may change; those that cannot be copied as they are."""
    try:
        return copy.deepcopy(arguments)
    except Exception:  # noqa: BLE001 - values of any kind
        return arguments


def _best(requests: Iterable[tuple[int, _OpenRequest]], arguments: dict[str, Any]) -> _OpenRequest | None:
    """Return the nearest request with these arguments, and of equally near ones the one that fits best."""
    fitting = [(rank, fit, request) for rank, request in requests if (fit := request.fit(arguments)) is not None]
    return min(fitting, key=lambda item: (item[0], item[1], item[2].order))[2] if fitting else None


def _only(requests: list[tuple[int, _OpenRequest]]) -> _OpenRequest | None:
    """Return the open request if there is exactly one; of several that are far away, none is more likely."""
    waiting = [request for _, request in requests if request.state == "open"]
    return waiting[0] if len(waiting) == 1 else None
