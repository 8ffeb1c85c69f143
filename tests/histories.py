"""Random legal runs as partial orders of observations, with the calls that every order must give.

A history is drawn together with its truth: which execution answers which request is known here, because it was made up
here. What a recorder may see in any order is left open; what has an order is tied down: a start after its request, an
end after its start, a result after its end, the model's messages one after the other. So is what nothing could tell
apart: two requests with equal ids and equal arguments run in their order, and an id is used again only when what it
named before has started and been shown.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from toolgrade.capture import Outcome, Request, RunBuilder
from toolgrade.matching.json_compare import ABSENT

OFFERED = ("slow", "add", "search")
HOSTED = "search"
HANDOFF = "to_bob"
Keys = list[tuple[str | None, tuple[int, ...]]]


@dataclass(eq=False)
class Truth:
    """One call, or the run itself if `name` is empty.

    Attributes:
        message: Number of the model message that asked for it; `None` where a program made the call.
        arguments: What was asked for; text that is no object.
        attempts: How often it ran; `outcome` is that of the last time, `None` where no end was seen.
        messages: How many model messages there are inside it.
    """

    name: str = ""
    id: str | None = None
    message: int | None = None
    arguments: dict[str, Any] | str | None = None
    attempts: int = 0
    outcome: Outcome | None = None
    output: str | None = None
    model_output: str | None = None
    failed: bool = False
    is_handoff: bool = False
    messages: int = 0
    inside: list[Truth] = field(default_factory=list)


@dataclass(eq=False)
class History:
    """Observations, what each must come after, and the run that they are."""

    tells: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    after: list[frozenset[int]] = field(default_factory=list)
    run: Truth = field(default_factory=Truth)
    may_wait: bool = False

    def tell(self, method: str, *args: Any, after: Iterable[int] = (), **kwargs: Any) -> int:
        """Note an observation, and return its number."""
        self.tells.append((method, args, kwargs))
        self.after.append(frozenset(after))
        return len(self.tells) - 1

    def replay(
        self, seed: int, *, after_each: Callable[[RunBuilder], object] = id, own_copies: bool = True
    ) -> RunBuilder:
        """Tell a builder everything, in a random order that is legal.

        Args:
            seed: Decides the order.
            after_each: Is called after each observation.
            own_copies: Hand over copies, so that replays share nothing.
        """
        chance, builder, reported = random.Random(seed), RunBuilder(), set[int]()
        while len(reported) < len(self.tells):
            ready = [index for index, after in enumerate(self.after) if index not in reported and after <= reported]
            index = chance.choice(ready)
            tell = self.tells[index]
            method, args, kwargs = copy.deepcopy(tell) if own_copies else tell
            getattr(builder, method)(*args, **kwargs)
            after_each(builder)
            reported.add(index)
        return builder

    def expected(self) -> list[Any]:
        """The calls that must come out, each with its inner calls; `call_rows` gives the same of a run."""
        waiting = self.may_wait and self._waits(self.run)
        return self._calls(self.run, waiting=waiting)

    def _waits(self, scope: Truth) -> bool:
        return any(
            _suspended(call, scope)
            or (scope is self.run and _open(call) and call.message == scope.messages)
            or self._waits(call)
            for call in scope.inside
        )

    def _calls(self, scope: Truth, *, waiting: bool) -> list[Any]:
        entries = scope.inside
        messages = sorted({call.message for call in entries if call.message is not None})
        return [
            (
                *(call.name, call.id, None if call.message is None else messages.index(call.message)),
                *(_status(call, scope, waiting=waiting), call.attempts > 0, max(call.attempts, 1)),
                _output(call, _status(call, scope, waiting=waiting)),
                self._calls(call, waiting=waiting),
            )
            for call in entries
        ]


def call_rows(calls: Iterable[Any]) -> list[Any]:
    """What of recorded calls `History.expected` foretells."""
    return [
        (
            *(call.name, call.id, call.execution.step),
            *(call.execution.status.value, call.execution.executed, call.execution.attempts),
            call.output,
            call_rows(call.execution.children),
        )
        for call in calls
    ]


def _open(call: Truth) -> bool:
    """Whether a request has neither run nor been answered."""
    untouched = call.message is not None and call.attempts == 0 and call.model_output is None
    return untouched and not isinstance(call.arguments, str) and not call.is_handoff


def _suspended(call: Truth, scope: Truth) -> bool:
    outer_goes_on = scope.outcome in (None, Outcome.SUSPENDED)
    return call.outcome is Outcome.SUSPENDED and outer_goes_on and call.message in (None, scope.messages)


def _status(call: Truth, scope: Truth, *, waiting: bool) -> str:
    if isinstance(call.arguments, str):
        return "invalid_arguments"
    if call.outcome is Outcome.SUSPENDED:
        return "pending" if _suspended(call, scope) else "cancelled"
    if call.outcome is not None:
        return f"{call.outcome.value}"
    if call.attempts:
        return "cancelled" if call.model_output is None else "error" if call.failed else "ok"
    if call.name not in (*OFFERED, HANDOFF) and (call.model_output is None or call.failed):
        return "unknown_tool"
    if call.model_output is not None:
        return "rejected" if call.failed else "ok"
    if call.is_handoff:
        return "ok"
    return "pending" if waiting and call.message == scope.messages else "not_executed"


def _output(call: Truth, status: str) -> str | None:
    if status != "ok":
        return None
    return call.output if call.outcome is Outcome.OK else call.model_output


# Drawing


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A random legal run."""
    history = History(may_wait=draw(st.booleans()))
    history.tell("started", "hi")
    history.tell("model_used", "m1", {"tokens": 3})
    history.tell("model_used", "m1", {"tokens": 4})
    _Scope(draw, history, history.run, [(None, ())]).fill()
    history.tell("ended", "final", may_wait=history.may_wait)
    return history


class _Scope:
    """Draws what happens inside one call, or at the top level of the run."""

    def __init__(self, draw: st.DrawFn, history: History, truth: Truth, keys: Keys, depth: int = 0) -> None:
        """Draw which ids a recorder can see here.

        Args:
            draw: Draws.
            history: Takes what is told.
            truth: The call, or the run.
            keys: The executions of the call, with the observations that they began.
            depth: How many calls enclose it.
        """
        self.draw, self.history, self.truth, self.keys, self.depth = draw, history, truth, keys, depth
        self.ids = draw(st.sampled_from(["unique", "repeated", "none"]))
        self.tools_know_ids = self.ids != "none" and draw(st.booleans())  # tools know their call ids
        self.named = self.ids == "none" or draw(st.booleans())  # a result names its tool
        self.touched: dict[Hashable, list[int]] = defaultdict(list)
        self.last: tuple[int, ...] = ()

    def fill(self) -> None:
        """Tell of a few model messages, and of calls that a program makes between them."""
        key, begun = self.keys[0]
        self.history.tell("offered", [{"name": name} for name in OFFERED], scope=key, after=begun)
        for _ in range(self.draw(st.integers(0 if self.depth else 1, 3))):
            if self.draw(st.sampled_from([True, True, False])):
                self.message()
            else:
                call = Truth("helper", self.draw(st.sampled_from([None, "z"])), arguments={})
                self.truth.inside.append(call)
                self.last = self.execute(call, self.last, attempts=1, call_id=call.id)[:1]

    def message(self) -> None:
        """Add a model message and the events of its calls."""
        self.truth.messages += 1
        calls = [self.request(position) for position in range(self.draw(st.integers(0, 4)))]
        self.truth.inside += calls
        key, begun = self.draw(st.sampled_from(self.keys))
        earlier = [event for call in calls for kind in self.kinds(call) for event in self.touched[kind]]
        requests = [Request(call.name, call.arguments, call.id, result=_result(call)) for call in calls]
        request_event = self.history.tell("model_asked", requests, scope=key, after=[*begun, *self.last, *earlier])
        self.last = (request_event,)
        together = Counter(kind for call in calls for kind in self.kinds(call))
        all_shown = {kind: self.draw(st.booleans()) for kind in together}
        for call in calls:
            run_kind, shown_kind = self.kinds(call)
            is_alone = together[shown_kind] == 1
            is_shown = self.draw(st.booleans()) if is_alone else all_shown[shown_kind]
            others = [other for other in calls if other is not call and self.kinds(other)[0] == run_kind]
            is_twin = any(other.arguments == call.arguments for other in others)
            if call.is_handoff:
                self.history.tell("handed_off", to="bob", call_id=call.id, scope=key, after=[request_event])
            elif call.name != HOSTED:
                events: tuple[int, ...] = (request_event,)
                if call.name != "nope" and (is_twin or self.draw(st.sampled_from([True, True, False]))):
                    events = self.attempt(call, request_event, is_shown=is_shown, is_twin=is_twin, is_alone=not others)
                if is_shown:
                    self.show(call, events[-1], is_alone=is_alone)

    def request(self, position: int) -> Truth:
        """A call that the model asks for."""
        name = self.draw(st.sampled_from(["slow", "slow", "slow", "add", "add", "nope", HOSTED, HANDOFF]))
        number = f"{self.truth.messages}.{position}"
        if name == HOSTED:
            return Truth(name, f"h{number}", self.truth.messages, {}, 1, Outcome.OK, "found")
        if name == HANDOFF:
            return Truth(name, f"h{number}", self.truth.messages, {}, is_handoff=True)
        ids: dict[str, list[str | None]] = {"unique": [f"c{number}"], "repeated": ["dup", "c0"], "none": [None]}
        arguments: Any = self.draw(st.sampled_from([{"x": 1}, {"x": 1, "y": [2]}, {}, {"x": 2}, "{x: "]))
        return Truth(name, self.draw(st.sampled_from(ids[self.ids])), self.truth.messages, arguments)

    def kinds(self, call: Truth) -> tuple[Hashable, Hashable]:
        """Return the keys by which an execution and a result are matched, besides arguments and order."""
        runs = (call.name, call.id) if self.tools_know_ids else (call.name,)
        return ("runs", *runs), ("shown", call.id, call.name if self.named else None)

    def attempt(
        self, call: Truth, request_event: int, *, is_shown: bool, is_twin: bool, is_alone: bool
    ) -> tuple[int, ...]:
        """Run the tool of a request, possibly several times or with other arguments."""
        kind = self.kinds(call)[0]
        handed: Any = call.arguments if isinstance(call.arguments, dict) else {}
        may_differ = is_alone and self.tools_know_ids
        if may_differ:
            handed = self.draw(st.sampled_from([handed, None, {"x": 7}]))
        elif not is_alone and isinstance(call.arguments, str):
            return (request_event,)  # the execution could belong to either call
        certain = may_differ or (not is_twin and handed == call.arguments)
        attempts = self.draw(st.integers(1, 3)) if certain else 1
        after = (request_event, *(self.touched[kind] if is_twin else ()))
        events = self.execute(
            call,
            after,
            attempts=attempts,
            handed=handed,
            call_id=call.id if self.tools_know_ids else None,
            must_end=is_shown,
        )
        self.touched[kind] += events
        return events

    def execute(
        self,
        call: Truth,
        after: tuple[int, ...],
        *,
        attempts: int,
        handed: Any = ABSENT,
        call_id: str | None,
        must_end: bool = False,
    ) -> tuple[int, ...]:
        """Run a tool this often, with success only at the last attempt; return the observations in order."""
        call.attempts = attempts
        events: list[int] = []
        keys: Keys = []
        for attempt in range(attempts):
            key = f"t{len(self.history.tells)}"
            outer, begun = self.draw(st.sampled_from(self.keys))
            arguments = call.arguments if handed is ABSENT else handed
            started = self.history.tell(
                "tool_started",
                key,
                call.name,
                arguments,
                call_id=call_id,
                scope=outer,
                after=[*after, *events[-1:], *begun],
            )
            events.append(started)
            keys.append((key, (started,)))
            ends = [Outcome.ERROR, Outcome.CANCELLED, Outcome.SUSPENDED]
            if attempt == attempts - 1:
                ends = [Outcome.OK, Outcome.OK, *ends[: 2 if must_end else 3]]
                call.outcome = self.draw(st.sampled_from([*ends, None]))
            outcome = call.outcome if attempt == attempts - 1 else self.draw(st.sampled_from(ends))
            if outcome is Outcome.OK:
                call.output = f"returned {key}"
                events.append(self.history.tell("tool_ended", key, call.output, after=[started]))
            elif outcome is not None:
                events.append(self.history.tell("tool_failed", key, "E: e", outcome=outcome, after=[started]))
        if self.depth < 2 and self.draw(st.sampled_from([True, False, False])):
            _Scope(self.draw, self.history, call, keys, self.depth + 1).fill()
        return tuple(events)

    def show(self, call: Truth, end: int, *, is_alone: bool) -> None:
        """Show the model a result, once or twice."""
        kind = self.kinds(call)[1]
        if call.outcome is Outcome.OK:
            call.model_output, call.failed = (
                self.draw(st.sampled_from([call.output, f"instead of {call.output}"])),
                False,
            )
        else:
            call.model_output, call.failed = f"shown after {end}", call.outcome is not None or self.draw(st.booleans())
        name = call.name if self.named else None
        for _ in range(self.draw(st.integers(1, 2)) if is_alone else 1):
            events = [end, *self.touched[kind]]
            scope = self.draw(st.sampled_from(self.keys))
            event = self.history.tell(
                "result_shown",
                call.model_output,
                call_id=call.id,
                name=name,
                failed=call.failed,
                scope=scope[0],
                after=[*events, *scope[1]],
            )
            self.touched[kind].append(event)


def _result(call: Truth) -> object:
    return call.output if call.name == HOSTED else ABSENT
