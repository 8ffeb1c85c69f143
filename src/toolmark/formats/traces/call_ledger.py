"""Which calls does a trace show, each once? What models asked for, joined with what histories repeat and tools ran.

A call is seen up to three times: in what a model answered, in what later models are given, and as the span of its
tool. The answer of the model counts; a history adds only what no answer shows; a tool's span belongs to the request of
its id, else to one of its name in the same place, equal arguments first. Nothing here is told to a `RunBuilder` yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from toolmark._internal.json import json_text
from toolmark.capture import Request
from toolmark.formats.messages.content_parts import with_arguments
from toolmark.formats.messages.lenient_arguments import read_tolerantly
from toolmark.formats.messages.transcript import Answer
from toolmark.formats.traces.call_ids import call_id_of, with_common_ids
from toolmark.formats.traces.span_tree import Span
from toolmark.formats.traces.trace_messages import Said
from toolmark.matching.json_compare import ABSENT, json_equal

_MANY = 1_000_000_000
_PYTHON_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""What instrumentations keep that wrap a Python function: what it was called with, and how smolagents calls it."""
_NO_JSON = {"INVALID_JSON"}
"""What stands, in Pydantic AI's spans of tools, around a text that is no JSON; the tool was handed nothing."""


@dataclass(slots=True, eq=False)
class Call:
    """One call: what was asked for, the spans of the tool that ran for it, and what the model was shown."""

    request: Request
    message: Message
    runs: list[Span] = field(default_factory=list)
    shown: Answer | None = None
    handoff_to: str | None = None

    @property
    def source(self) -> str:
        """Where it stands; no other call stands there."""
        return self.request.source or ""

    def is_like(self, request: Request) -> bool:
        """Return whether a request that was seen elsewhere may be this one: by id, else by name and arguments."""
        mine = self.request
        if mine.name != request.name:
            return False
        if mine.id == request.id and mine.id is not None:
            return True
        if call_id_of(mine) is not None and call_id_of(request) is not None:
            return False
        return ABSENT in (mine.arguments, request.arguments) or json_equal(mine.arguments, request.arguments)


@dataclass(slots=True, eq=False)
class Message:
    """One message of a model that asked for calls.

    Attributes:
        span: Whose answer it is, or in whose history it was found.
        order: When; of equal times, which first.
        in_history: It was found in a history.
    """

    span: Span
    order: tuple[datetime, int, int]
    calls: list[Call] = field(default_factory=list)
    in_history: bool = False

    def came_before(self, span: Span) -> bool:
        """Return whether a tool that ran may have been asked for here; what a history shows has no time of its own."""
        return self.in_history or self.order[:2] <= span.order


@dataclass(slots=True)
class _Walk:
    """What has been met on the way through one history.

    Attributes:
        span: Whose history it is.
        waiting: The calls that no answer was given to yet, in their order.
        used: Ids of the calls that requests of this history were taken for.
        answered: Ids of the calls that were answered, perhaps ahead of their request.
    """

    span: Span
    waiting: dict[int, Call] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)

    def asked(self, call: Call) -> None:
        """A call was asked for."""
        if id(call) not in self.answered:
            self.waiting[id(call)] = call

    def gave(self, call: Call) -> None:
        """A call was answered."""
        self.answered.add(id(call))
        self.waiting.pop(id(call), None)


class Book:
    """The calls of one trace.

    Args:
        earlier: Calls of earlier traces of the same conversation, which histories repeat.
        sure: The traces say themselves that they are of one conversation; if not, only equal ids make calls the same,
            or, where an earlier answer has none, equal arguments.
    """

    def __init__(self, earlier: Sequence[Call] = (), *, sure: bool = True) -> None:
        self.messages: list[Message] = []
        self.calls: list[Call] = []
        self.loose: list[Span] = []
        """Tools that ran without a request of a model that was seen."""
        self.from_history: list[Call] = []
        """Calls that stand only in what a model was given, before the user's last words."""
        self.lost_answers: list[str] = []
        """Places of answers to calls that nothing shows."""
        self._early: list[tuple[Answer, str]] = []
        """Answers to calls that nothing shows yet; tools may, whose model's answer was not kept."""
        self._nameless: list[tuple[Answer, str, Span]] = []
        """Answers that name neither a call nor a tool, and stand behind no request that was read."""
        self._by_name: dict[str, list[Call]] = defaultdict(list)
        self._by_id: dict[str, list[Call]] = defaultdict(list)
        self._alike: dict[tuple[str, str], list[Call]] = defaultdict(list)
        """Calls by name and id, or by name and arguments: where equal ones are found at once."""
        self._earlier: dict[str, list[Call]] = defaultdict(list)
        for call in earlier:
            if sure or call.request.id is not None or call.request.arguments is not ABSENT:
                self._earlier[call.request.name].append(call)
        self._without_id: dict[str, int] = defaultdict(int)
        self._sure = sure
        self._sources: set[str] = set()

    def answered(self, span: Span) -> None:
        """A model answered: what it asked for are calls, all of one message unless answers come between."""
        message: Message | None = None
        walk = _Walk(span)
        for said in span.said or ():
            if said.answer is not None:
                message = None
                self._answer(said.answer, said.path, walk)
            elif said.requests:
                message = message or self._message(span)
                for request in said.requests:
                    walk.asked(self._add(request, message))

    def repeated(self, span: Span, history: Sequence[Said]) -> None:
        """A history was seen, in what a model was given or in what lies around it: only what is new in it counts."""
        words = max((index for index, said in enumerate(history) if said.who == "user"), default=-1)
        walk = _Walk(span)
        history = with_common_ids(history)
        for index, said in enumerate(history):
            if said.answer is not None:
                self._answer(said.answer, said.path, walk)
                continue
            calls: list[Call | None] = []
            for request in said.requests:
                call = self._known(request, walk)
                if call is not None:
                    self._learn(call, request)
                    walk.used.add(id(call))
                calls.append(call)
            if None in calls:
                self._add_unknown(said.requests, calls, span, doubtful=index < words)
            for call in filter(None, calls):
                walk.used.add(id(call))
                walk.asked(call)

    def _add_unknown(
        self, requests: Sequence[Request], calls: list[Call | None], span: Span, *, doubtful: bool
    ) -> None:
        """Add the requests of a message of a history that are no known call; `calls` is filled up.

        Where others of the message are known, its answer was kept in part, and the new ones stand among these.
        """
        home = next((call.message for call in calls if call and call.message.span.trace == span.trace), None)
        message = home or self._message(span, in_history=True)
        for place, request in enumerate(requests):
            if calls[place] is None:
                new = calls[place] = self._add(request, message)
                self.from_history += [new] if doubtful and home is None else []
        here = [call for call in calls if call is not None and call.message is message]
        message.calls = [*here, *(call for call in message.calls if call not in here)]

    def ran(self, span: Span) -> None:
        """A tool ran: it belongs to the request that it answers, if one was seen."""
        call = self._asked_for(span)
        if call is None:
            self.loose.append(span)
            span.arguments = _handed(span, None)
            return
        span.arguments = _handed(span, call.request)
        call.runs.append(span)
        if span.call_id is not None:
            self._learn(call, replace(call.request, id=span.call_id))

    def settle(self) -> None:
        """Put messages of histories before what ran for them, and give answers that name nothing to their calls.

        A history with one such answer for each call made before it answers them in their order; any other belongs to
        the only call that waits. Where every call ran or was answered, it repeats what is known; where there is no
        call, or more than one waits, it is lost.
        """
        for message in self.messages:
            ran = [span.order for call in message.calls for span in call.runs] if message.in_history else []
            if ran and min(ran) < message.order[:2]:  # it was asked for before it ran, wherever that was found
                message.order = (*min(ran), message.order[2])
        told: dict[int, list[Answer]] = defaultdict(list)
        for answer, _, span in self._nameless:
            told[id(span)].append(answer)
        for answer, path, span in self._nameless:
            made = [call for call in self.calls if call.message.span.within is span.within]
            made = [call for call in made if call.message.span.scope is span.scope and call.message.came_before(span)]
            made = [call for call in made if call.message.span is not span]
            if len(told[id(span)]) == len(made):
                for call, known in zip(made, told[id(span)], strict=True):
                    call.shown = call.shown or known
            waiting = [call for call in made if not call.runs and call.shown is None]
            if len(waiting) == 1:
                waiting[0].shown = answer
            elif waiting or not made:
                self.lost_answers.append(path)

    def infer(self, models: Iterable[Span]) -> None:
        """Give tools without a request to the model before them whose answer nobody kept, or to their agent.

        Where what the models said was kept, and a tool's call is not in it, a program called the tool.
        """
        silent, speaking = list[Span](), set[int]()
        for model in models:
            silent += [model] if _hides_calls(model) else []
            speaking |= {id(model.scope)} if model.said is not None else set()
        made: dict[int, Message] = {}
        left: list[Span] = []
        for span in self.loose:
            # Where a client runs the tools itself, they lie inside of the request, and only its last answer is kept.
            inside = span.around is not None and span.around.said is not None
            before = [one for one in silent if one.scope is span.scope and one.order <= span.order and not inside]
            near = [one for one in before if one.within is span.within] or before
            asking = near[-1] if near else None
            if asking is None and not inside and (span.within is None or id(span.scope) in speaking):
                left.append(span)
                continue
            owner = asking or span
            message = made.get(id(owner))
            if message is None:
                message = made[id(owner)] = self._message(owner)
            span.arguments = _handed(span, None)
            call = self._add(
                Request(span.tool, span.arguments, span.call_id, span.type, source=span.path), message, at=span
            )
            call.runs.append(span)
        self.loose = left
        for answer, path in self._early:
            named = self._by_id.get(answer.call_id or "", [])
            self.lost_answers += [] if named else [path]
            for call in named[:1]:
                call.shown = call.shown or answer

    def handed_over(self, span: Span) -> None:
        """Control passed to another agent: by the newest request for that, else by one that nobody kept."""
        wanted = _plain(span.handoff_to)
        found = [
            call
            for call in self.calls
            if call.message.span.scope is span.scope
            and not call.runs
            and call.handoff_to is None
            and call.message.span.order <= span.order
            and wanted
            and _plain(call.request.name).endswith(wanted)
        ]
        if found:
            found[-1].handoff_to = span.handoff_to
            return
        name = f"transfer_to_{(span.handoff_to or 'agent').lower().replace(' ', '_')}"
        request = Request(name, ABSENT, source=span.path)
        self._add(request, self._message(span), at=span).handoff_to = span.handoff_to or name

    # Inside

    def _message(self, span: Span, *, in_history: bool = False) -> Message:
        # What stands in a history came before what is answered to it.
        number = len(self.messages) - (_MANY if in_history else 0)
        message = Message(span, (*span.order, number), in_history=in_history)
        self.messages.append(message)
        return message

    def _add(self, request: Request, message: Message, *, at: Span | None = None) -> Call:
        span = at or message.span
        path = (request.source or span.path).removeprefix("$").removeprefix(".")
        source = f"{span.trace}/{span.id}#{path}"
        while source in self._sources:
            source += "+"
        self._sources.add(source)
        call = Call(replace(request, source=source), message)
        message.calls.append(call)
        self.calls.append(call)
        self._by_name[request.name].append(call)
        self._alike[_likeness(request)].append(call)
        if request.id is not None:
            self._by_id[request.id].append(call)
        self._without_id[request.name] += call_id_of(request) is None
        return call

    def _learn(self, call: Call, told: Request) -> None:
        """Let a call say what only another telling of it does: its id, its arguments."""
        known = call.request
        # OpenLLMetry writes `{}` where the arguments were streamed; a history that has the same id knows better.
        empty = known.arguments == {} and bool(told.arguments) and known.id is not None and known.id == told.id
        if (known.arguments is ABSENT or empty) and told.arguments is not ABSENT:
            known = replace(known, arguments=told.arguments, error=told.error)
        if call_id_of(known) is None and told.id is not None and call_id_of(told) is not None:
            known = replace(known, id=told.id)
            self._by_id[told.id].append(call)
            self._alike[_likeness(known)].append(call)
        call.request = known

    def _known(self, request: Request, walk: _Walk) -> Call | None:
        """Return the call that a history repeats: one of its id, else one like it, of this trace first; else `None`.

        What the model answered to this history comes last: it is hardly in it, unless the tracer wrote it there.
        """
        earlier = self._earlier.get(request.name, ()) if self._sure or request.id is not None else ()
        if request.id is not None:
            for call in chain(self._by_id.get(request.id, ()), earlier):
                if id(call) not in walk.used and (call.request.name, call.request.id) == (request.name, request.id):
                    return call
        own: Call | None = None
        for calls in (self._alike.get(_likeness(request), ()), self._by_name[request.name]):
            for call in calls:
                if id(call) not in walk.used and call.is_like(request):
                    if call.message.span is not walk.span:
                        return call
                    own = own or call
            if call_id_of(request) is not None and not self._without_id[request.name]:
                break
        alike = (call for call in earlier if id(call) not in walk.used and call.is_like(request))
        # Some tracers keep ids in histories only.
        return next((call for call in alike if self._sure or call.request.id is None), own)

    def _answer(self, answer: Answer, path: str, walk: _Walk) -> None:
        """Give an answer to its call: one of its id before it, else one of its name, else the first that waits."""
        open_calls = walk.waiting.values()
        if answer.call_id is None:
            found = [call for call in open_calls if answer.name in (None, call.request.name)]
        else:
            found = [call for call in open_calls if call.request.id == answer.call_id]
            found = found or sorted(self._by_id.get(answer.call_id, ()), key=lambda call: call.shown is not None)
            found = found or [
                call for call in open_calls if call.request.id is None and answer.name == call.request.name
            ]
            found = found or [call for call in self._all_earlier() if call.request.id == answer.call_id]
        if not found and answer.call_id is None and answer.name is None:
            self._nameless.append((answer, path, walk.span))
            return
        if not found:
            self._early.append((answer, path))
            return
        walk.gave(found[0])
        shown = found[0].shown = found[0].shown or answer
        if answer.failed and not shown.failed and answer.call_id is not None:  # some tellings do not say so
            found[0].shown = replace(shown, failed=True, error=shown.error or answer.error)

    def _all_earlier(self) -> Iterator[Call]:
        return (call for calls in self._earlier.values() for call in calls)

    def _asked_for(self, span: Span) -> Call | None:
        """Return the request that a tool ran for."""
        if span.call_id is not None:
            asked = [call for call in self._by_id.get(span.call_id, ()) if call.request.name == span.tool]
            asked = asked or list(self._by_id.get(span.call_id, ()))
            here = [call for call in asked if call.message.span.scope is span.scope] or asked
            if here:
                return _best(here, span)
        asked = [
            call
            for call in self._by_name[span.tool]
            if call.message.span.scope is span.scope and (span.call_id is None or call_id_of(call.request) is None)
        ]
        before = [call for call in asked if call.message.came_before(span)]
        near = [call for call in before if call.message.span.within is span.within] or before
        free = [call for call in near if not call.runs or _failed(call.runs[-1])]
        return _best(free, span) if free else None


def _best(calls: list[Call], span: Span) -> Call:
    """Return the call that a run belongs to: equal arguments first, then one that has not run, then the oldest such."""
    alike = [call for call in calls if json_equal(_handed(span, call.request), call.request.arguments)]
    for some in (alike, calls):
        waiting = [call for call in some if not call.runs]
        before = [call for call in waiting if call.message.came_before(span)]
        if before or waiting:
            return (before or waiting)[0]
    return (alike or calls)[-1]


def _handed(span: Span, request: Request | None) -> object:
    """Return the arguments that a tool was handed; `ABSENT` where that cannot be told.

    LangSmith's runs have them under `input`, often as the `repr` of an object; where a Python function is watched, they
    stand under `args` and `kwargs`.
    """
    given = span.arguments
    if given is ABSENT:
        return ABSENT
    plain = _object(given)
    if plain is not None and plain.keys() == _NO_JSON:
        return ABSENT
    if plain is not None and _is_python_call(plain) and (request is None or not json_equal(plain, request.arguments)):
        return _called_with(plain, span, request)
    if isinstance(given, dict):
        if set(given) == {"input"} and (request is None or not json_equal(given, request.arguments)):
            inner = _object(given["input"])
            if inner is not None and (span.wrapped or (request is not None and json_equal(inner, request.arguments))):
                return inner
            if inner is None and span.wrapped and request is not None and request.arguments is not ABSENT:
                return ABSENT
        return given
    if plain is not None:
        return plain
    if request is not None and request.arguments is not ABSENT:
        return ABSENT
    if isinstance(given, str) and given.lstrip().startswith("{"):
        doubt = f"{span.path}: the arguments of {span.tool!r} are no JSON text, as if cut off; they were not captured"
        span.doubts += [] if doubt in span.doubts else [doubt]
        return ABSENT
    return {} if given is None or (isinstance(given, str) and not given.strip()) else {"input": given}


def _is_python_call(given: dict[str, object]) -> bool:
    """Return whether an object is how a Python function was called: `{"args": [1], "kwargs": {"b": 2}}`."""
    named = isinstance(given.get("kwargs"), dict) and isinstance(given.get("args", []), list)
    return named and given.keys() <= _PYTHON_CALL


def _called_with(given: dict[str, Any], span: Span, request: Request | None) -> object:
    """Return the arguments by their names, those by position too where the tool's parameters are known."""
    positional, names = given.get("args") or [], span.parameters
    if len(positional) <= len(names):
        return {**dict(zip(names, positional, strict=False)), **given["kwargs"]}
    if request is None or request.arguments is ABSENT:
        doubt = f"{span.path}: arguments of {span.tool!r} were given by position, and nothing says their names"
        span.doubts += [] if doubt in span.doubts else [doubt]
    return ABSENT


def _object(value: object) -> dict[str, object] | None:
    """Return the object that a value is, or that its text means as JSON or as a Python literal."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and value.strip():
        read = with_arguments(Request("_"), value).arguments
        if isinstance(read, dict):
            return read
        meant = read_tolerantly(value)
        return None if meant is None else meant[0]
    return None


def _hides_calls(model: Span) -> bool:
    """Return whether a model may have asked for calls that nobody kept: it says nothing, or stopped for tools."""
    if any(said.requests for said in model.said or ()):
        return False
    return bool(model.wants_tools) or not any(said.text for said in model.said or ())


def _likeness(request: Request) -> tuple[str, str]:
    """Return what equal requests have in common; requests that are alike in other ways may differ in it."""
    if request.id is not None:
        return request.name, f"#{request.id}"
    return request.name, "" if request.arguments is ABSENT else json_text(request.arguments)


def _failed(span: Span) -> bool:
    return span.error is not None


def _plain(name: str | None) -> str:
    return "".join(letter for letter in (name or "").lower() if letter.isalnum())
