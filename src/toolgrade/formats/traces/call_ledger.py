"""Deduplicated ledger of the tool calls in one trace: the one place that pairs calls with answers and tool runs.

A trace shows a call up to three times: in the reply of a model, in the histories that later models receive, and as the
span of its tool. The reply counts; a history adds only the calls that no reply shows; the span of a tool belongs to the
request of its id, else to one of its name nearby, equal arguments first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from toolgrade._internal.json import json_text
from toolgrade.capture import Request
from toolgrade.formats.messages.transcript import Answer
from toolgrade.formats.traces.call_ids import call_id_of, with_equal_ids
from toolgrade.formats.traces.genai_tools import received_arguments
from toolgrade.formats.traces.messages import Message, is_nameless, requests_in
from toolgrade.formats.traces.span_tree import Span, may_be_equal, relative_path
from toolgrade.matching.json_compare import ABSENT, json_equal

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Call:
    """One call: the request, the tool spans that ran for it, and the answer that the model received.

    `source` is its unique place: trace, span and path.
    """

    request: Request
    batch: CallBatch
    source: str
    runs: list[Span] = field(default_factory=list)
    answer: Answer | None = None
    handoff_to: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing came of the call: no run, no answer and no hand-off."""
        return not (self.runs or self.answer or self.handoff_to)

    def has_id_of(self, request: Request) -> bool:
        """Return whether a request from another place has the name and the id of this call."""
        return request.id is not None and (request.name, request.id) == (self.request.name, self.request.id)

    def lacks_id_of(self, request: Request) -> bool:
        """Return whether only the id of a request is missing here."""
        return request.id is not None and self.request.id is None and self.request.arguments is not ABSENT

    def may_be(self, request: Request) -> bool:
        """Return whether a request of this name from another place may be this call: equal ids, else arguments."""
        lacks_id = None in (call_id_of(self.request), call_id_of(request))
        return self.has_id_of(request) or (lacks_id and may_be_equal(self.request.arguments, request.arguments))

    def may_start(self, span: Span) -> bool:
        """Return whether a tool may have run for this call, as far as scope, time and ids show."""
        # A call with another id is another call.
        run = span.tool_run
        lacks_id = run.has_own_id or None in (call_id_of(self.request), run.call_id)
        return lacks_id and self.batch.span.scope is span.scope and self.batch.came_before(span)

    def ran_inside(self, model: Span) -> bool:
        """Return whether a tool ran for the call inside of the span of a model."""
        return any(run.around is model for run in self.runs)

    def may_hand_off(self, span: Span) -> bool:
        """Return whether the call may have led to this hand-off: it is earlier, and named for the agent."""
        if self.runs or self.handoff_to or not _is_before(self.batch.span, span):
            return False
        # The SDK names the tool `transfer_to_<agent>`, with underscores for spaces.
        letters = _letters(span.handoff_to or "")
        return letters != "" and _letters(self.request.name).endswith(letters)

    def add_answer(self, answer: Answer) -> None:
        """Add an answer; the first one counts, but any may show a failure."""
        first = self.answer = self.answer or answer
        # Only some records of an answer say that the tool failed.
        if answer.failed and not first.failed and answer.call_id is not None:
            self.answer = replace(first, failed=True, error=first.error or answer.error)


@dataclass(slots=True, eq=False)
class CallBatch:
    """The calls that one message of a model asks for.

    Attributes:
        span: The span whose reply, or whose history, has the message.
        order: Start of the span, position of the span, whether the message is its reply, position among the batches.
        calls: The calls in their order.
        in_history: The message is in a history only, so that its own time is unknown.
    """

    span: Span
    order: tuple[datetime, int, bool, int]
    calls: list[Call] = field(default_factory=list)
    in_history: bool = False

    @property
    def scope_id(self) -> str | None:
        """Id of the tool span around the model; `None` where there is none."""
        return None if self.span.scope is None else self.span.scope.id

    @property
    def runs(self) -> list[Span]:
        """The tool spans that ran for the calls."""
        return [span for call in self.calls for span in call.runs]

    def came_before(self, span: Span) -> bool:
        """Return whether a tool span may have run for a call of this batch."""
        return self.in_history or self.order[:2] <= span.order

    def is_near_before(self, span: Span) -> bool:
        """Return whether the batch came before another span of the same tool and agent."""
        return self.span is not span and self.span.is_near(span) and self.came_before(span)

    def move_before_runs(self) -> None:
        """Order a batch of a history before the runs of its calls, however late the history was recorded."""
        starts = [span.order for span in self.runs]
        self.order = (*min([self.order[:2], *starts]), *self.order[2:])

    def put_first(self, calls: Iterable[Call]) -> None:
        """Move those of these calls that are in the batch to its start."""
        own = [call for call in calls if call.batch is self]
        self.calls = list(dict.fromkeys([*own, *self.calls]))


@dataclass(slots=True)
class _History:
    """Calls that have come up so far in one history."""

    span: Span
    waiting: dict[Call, None] = field(default_factory=dict)
    """Calls without an answer, in their order."""
    used: set[Call] = field(default_factory=set)
    """Calls that a request of this history was matched with."""
    answered: set[Call] = field(default_factory=set)
    """Calls with an answer, which may come before their request."""
    new_calls: list[Call] = field(default_factory=list)
    """Calls that only this history shows, since the user's last message."""

    def add_request(self, call: Call) -> None:
        self.used.add(call)
        if call not in self.answered:
            self.waiting[call] = None

    def add_answer(self, call: Call, answer: Answer) -> None:
        self.answered.add(call)
        self.waiting.pop(call, None)
        call.add_answer(answer)

    def equal_calls(self, calls: Iterable[Call], request: Request) -> Iterator[Call]:
        """Yield the calls that a request of this name may repeat, without those that an earlier request repeats."""
        return (call for call in calls if call not in self.used and call.may_be(request))


class CallLedger:
    """The calls of one trace.

    Args:
        earlier: Calls of earlier traces of the same conversation, which histories repeat.
        same_session: The traces name the same session. Otherwise they only begin with the same words, and calls are
            equal only by id, or by arguments where the earlier reply has no id.
    """

    def __init__(self, earlier: Iterable[Call] = (), *, same_session: bool = True) -> None:
        self.batches: list[CallBatch] = []
        self.calls: list[Call] = []
        self.runs_without_request: list[Span] = []
        self.history_calls: list[str] = []
        """Places of calls that are only in a history, before the user's last message."""
        self.lost_answers: list[str] = []
        """Places of answers to calls that nothing shows."""
        self._early_answers: list[tuple[Answer, str]] = []
        """Answers to ids that no request has, with their places; a tool span may have the id."""
        self._nameless_answers: dict[Span, list[tuple[Answer, str]]] = defaultdict(list)
        """Answers without an id and a name that follow no request, with their places, by the span of the history."""
        self._by_name: dict[str, list[Call]] = defaultdict(list)
        self._by_id: dict[str | None, list[Call]] = defaultdict(list)
        self._by_content: dict[tuple[str, str], list[Call]] = defaultdict(list)
        """Calls by name and id, or by name and arguments. Without it long histories take quadratic time."""
        self._without_id: Counter[str] = Counter()
        self._earlier: dict[str, list[Call]] = defaultdict(list)
        for call in earlier:
            self._earlier[call.request.name].append(call)
        self._same_session = same_session
        self._sources: set[str] = set()

    def add_reply(self, span: Span) -> None:
        """Add the calls in the reply of a model. They are one batch, unless answers come in between."""
        batch: CallBatch | None = None
        history = _History(span)
        for message in span.reply_messages:
            if message.answer is not None:
                batch = None
                self._add_answer(message.answer, message.path, history)
            elif message.requests:
                batch = batch or self._new_batch(span)
                for request in message.requests:
                    history.add_request(self._add(request, batch, span))

    def add_history(self, span: Span, messages: Sequence[Message]) -> None:
        """Add the calls and answers of a history that are new; the others complete what the ledger has."""
        history = _History(span)
        for message in with_equal_ids(messages):
            if message.speaker == "user":
                self.history_calls += map(attrgetter("source"), history.new_calls)
                history.new_calls = []
            if message.answer is not None:
                self._add_answer(message.answer, message.path, history)
                continue
            for call in self._calls_in_history(message.requests, history):
                history.add_request(call)

    def _calls_in_history(self, requests: Sequence[Request], history: _History) -> list[Call]:
        """Return the calls of a message of a history, with those added that are not in the ledger yet."""
        repeated = [self._repeated_call(request, history) for request in requests]
        present = list(filter(None, repeated))
        if len(present) == len(requests):
            return present
        # If others of the message are in this trace, the reply was captured in part, and the new calls belong to it.
        reply = next((call.batch for call in present if call.batch.span.trace == history.span.trace), None)
        batch = reply or self._new_batch(history.span, in_history=True)
        pairs = zip(requests, repeated, strict=True)
        calls = [call or self._add(request, batch, batch.span) for request, call in pairs]
        if reply is None:
            history.new_calls += batch.calls
        batch.put_first(calls)
        return calls

    def add_run(self, span: Span) -> None:
        """Add the run of a tool to the request that it answers, if there is one."""
        run, call = span.tool_run, self._find_request(span)
        if call is None:
            self.runs_without_request.append(span)
            run.arguments = received_arguments(span)
            return
        run.arguments = received_arguments(span, call.request.arguments)
        call.runs.append(span)
        self._complete(call, replace(call.request, id=run.call_id))

    def settle(self, models: Sequence[Span]) -> None:
        """Complete the ledger, once all replies, histories and runs are added.

        Batches of histories get their time, tool runs without a request get one if a model or an agent asked for them,
        and answers that name no call of a message get the call that they belong to.
        """
        for batch in self.batches:
            if batch.in_history:
                batch.move_before_runs()
        for span, answers in self._nameless_answers.items():
            self._pair_nameless(span, answers)
        self._infer_requests(models)
        for answer, path in self._early_answers:  # to ids that only the span of a tool has
            calls = self._by_id[answer.call_id]
            if calls:
                calls[0].add_answer(answer)
            else:
                self.lost_answers.append(path)

    def _pair_nameless(self, span: Span, answers: list[tuple[Answer, str]]) -> None:
        """Pair answers that name neither a call nor a tool, as those of OpenInference for Haystack.

        If the history has one such answer for each call before it, they are in the order of the calls. Otherwise an
        answer belongs to the only call that waits. If no call waits, it repeats an answer; if several do, it is lost.
        """
        calls = [call for call in self.calls if call.batch.is_near_before(span)]
        waiting = [call for call in calls if call.is_open]
        if len(answers) == len(calls):
            for call, (answer, _) in zip(calls, answers, strict=True):
                call.add_answer(answer)
        elif len(waiting) == 1:
            waiting[0].add_answer(answers[0][0])
        elif waiting or not calls:
            self.lost_answers += [path for _, path in answers]

    def _infer_requests(self, models: Sequence[Span]) -> None:
        """Give tool runs without a request to the model or the agent that must have asked for them."""
        silent = list(filter(_may_hide_calls, models))
        scopes_with_replies = {model.scope for model in models if model.reply is not None}
        batches: dict[Span, CallBatch] = {}
        code_runs: list[Span] = []
        for span in self.runs_without_request:
            owner = _requester_of(span, silent, scopes_with_replies)
            if owner is None:
                code_runs.append(span)
                continue
            if owner not in batches:
                batches[owner] = self._new_batch(owner)
            run = span.tool_run
            request = Request(run.tool, run.arguments, run.call_id, run.type, source=span.path)
            self._add(request, batches[owner], span).runs.append(span)
        self.runs_without_request = code_runs

    def add_handoff(self, span: Span) -> None:
        """Add a hand-off to the latest request for it, else to a new request, since its own was not captured."""
        name = f"transfer_to_{(span.handoff_to or 'agent').lower().replace(' ', '_')}"
        call = next((call for call in reversed(self.calls) if call.may_hand_off(span)), None)
        if call is None:
            call = self._add(Request(name, ABSENT, source=span.path), self._new_batch(span), span)
        call.handoff_to = span.handoff_to or name

    def _new_batch(self, span: Span, *, in_history: bool = False) -> CallBatch:
        # A message of a history came before the reply to that history.
        batch = CallBatch(span, (*span.order, not in_history, len(self.batches)), in_history=in_history)
        self.batches.append(batch)
        return batch

    def _add(self, request: Request, batch: CallBatch, span: Span) -> Call:
        """Return a new call that `span` shows."""
        source = f"{span.trace}/{span.id}#{relative_path(request.source or '')}"
        while source in self._sources:
            source += "+"
        self._sources.add(source)
        call = Call(replace(request, source=source), batch, source)
        batch.calls.append(call)
        self.calls.append(call)
        self._by_name[request.name].append(call)
        self._without_id[request.name] += call_id_of(request) is None
        self._index(call)
        return call

    def _index(self, call: Call) -> None:
        request = call.request
        self._by_content[_content_key(request)].append(call)
        if request.id is not None:
            self._by_id[request.id].append(call)

    def _complete(self, call: Call, other: Request) -> None:
        """Complete a call with the id and the arguments of another record of it."""
        other_id = call_id_of(other)
        if _lacks_arguments_of(call.request, other):
            call.request = replace(call.request, arguments=other.arguments, error=other.error)
        if other_id is not None and call_id_of(call.request) is None:
            call.request = replace(call.request, id=other_id)
            self._index(call)

    def _repeated_call(self, request: Request, history: _History) -> Call | None:
        """Return the call that a request in a history repeats, completed by it; `None` for a new one."""
        candidates = self._candidates(request, history)
        call = next((call for call in candidates if call not in history.used), None)
        if call is not None:
            self._complete(call, request)
            history.used.add(call)
        return call

    def _candidates(self, request: Request, history: _History) -> Iterator[Call]:
        """Yield the calls that a request may repeat: one of its id, else an equal one, those of this trace first."""
        earlier = self._earlier[request.name]
        yield from (call for call in chain(self._by_id[request.id], earlier) if call.has_id_of(request))
        own_replies: list[Call] = []
        for call in history.equal_calls(self._similar(request), request):
            # The reply to this very history is hardly in it, so a call of that reply is the last choice.
            if call.batch.span is history.span:
                own_replies.append(call)
            else:
                yield call
        if not self._same_session:
            # Some tracers keep ids in histories only, so an earlier reply may lack the id.
            earlier = [call for call in earlier if call.lacks_id_of(request)]
        yield from history.equal_calls(earlier, request)
        yield from own_replies

    def _similar(self, request: Request) -> Iterator[Call]:
        """Yield the calls of this trace that may equal a request, likely ones first."""
        yield from self._by_content.get(_content_key(request), ())
        if call_id_of(request) is None or self._without_id[request.name]:
            yield from self._by_name[request.name]

    def _add_answer(self, answer: Answer, path: str, history: _History) -> None:
        call = next(self._answerable(answer, history), None)
        if call is not None:
            history.add_answer(call, answer)
        elif is_nameless(answer):
            self._nameless_answers[history.span].append((answer, path))
        else:
            self._early_answers.append((answer, path))

    def _answerable(self, answer: Answer, history: _History) -> Iterator[Call]:
        """Yield the calls that an answer may belong to, the best first."""
        if answer.call_id is None:
            yield from (call for call in history.waiting if answer.name in (None, call.request.name))
            return
        yield from _with_id(answer.call_id, history.waiting)
        yield from sorted(self._by_id[answer.call_id], key=lambda call: call.answer is not None)
        yield from (call for call in _with_id(None, history.waiting) if call.request.name == answer.name)
        yield from _with_id(answer.call_id, chain(*self._earlier.values()))

    def _find_request(self, span: Span) -> Call | None:
        """Return the call that a tool ran for: one of its id, else one of its name that waits for a run.

        Calls in the same tool, and for names in the same agent, come before others.
        """
        run = span.tool_run
        calls = _prefer(self._by_id[run.call_id], lambda call: call.request.name == run.tool)
        calls = _prefer(calls, lambda call: call.batch.span.scope is span.scope)
        if not calls:
            calls = [call for call in self._by_name[run.tool] if call.may_start(span)]
            calls = _prefer(calls, lambda call: call.batch.span.is_near(span))
            # A second run of a call is a retry, of a failed run only.
            calls = [call for call in calls if not call.runs or call.runs[-1].error is not None]
        return _best_request(calls, span) if calls else None


def _with_id(call_id: str | None, calls: Iterable[Call]) -> Iterator[Call]:
    return (call for call in calls if call.request.id == call_id)


def _lacks_arguments_of(request: Request, other: Request) -> bool:
    """Return whether another record of a request has arguments that this one lacks."""
    if other.arguments is ABSENT:
        return False
    # OpenLLMetry writes `{}` for streamed arguments; a history with the same id has the real ones.
    return request.arguments is ABSENT or (request.arguments == {} and bool(other.arguments))


def _prefer(items: list[_T], is_better: Callable[[_T], bool]) -> list[_T]:
    """Return the better ones of these calls or spans; all of them where none is."""
    return list(filter(is_better, items)) or items


def _best_request(calls: list[Call], span: Span) -> Call:
    """Return the call that a run belongs to: equal arguments first, then one without a run, then the oldest."""
    requested = [(call, call.request.arguments) for call in calls]
    equal = {call for call, arguments in requested if json_equal(received_arguments(span, arguments), arguments)}
    waiting = [call for call in calls if not call.runs]
    if waiting:
        return min(waiting, key=lambda call: (call not in equal, not call.batch.came_before(span)))
    return _prefer(calls, equal.__contains__)[-1]


def _is_before(span: Span, other: Span) -> bool:
    """Return whether a span precedes another one in the same tool."""
    return span.scope is other.scope and span.order <= other.order


def _requester_of(run: Span, silent: list[Span], scopes_with_replies: Container[Span | None]) -> Span | None:
    """Return the span that must have requested a tool run; `None` where a program called the tool.

    That is the model before it whose reply was not captured, or the agent. Where the replies were captured and show no
    such call, a program called the tool.
    """
    # A client that runs tools itself (Google GenAI) traces them inside of the request, and keeps only the last reply.
    # Its calls are inferred one by one.
    if run.around is not None and run.around.reply is not None:
        return run
    before = [model for model in silent if _is_before(model, run)]
    if before:
        return _prefer(before, run.is_near)[-1]
    return None if run.within is None or run.scope in scopes_with_replies else run


def _may_hide_calls(model: Span) -> bool:
    """Return whether a model may have asked for calls that were not captured: it says nothing, or stopped for tools."""
    if requests_in(model.reply_messages):
        return False
    return model.model_call.stopped_for_tools is True or not any(message.text for message in model.reply_messages)


def _content_key(request: Request) -> tuple[str, str]:
    """Return a key that equal requests share; requests with different keys may still be one call."""
    if request.id is not None:
        return request.name, f"#{request.id}"
    return request.name, "" if request.arguments is ABSENT else json_text(request.arguments)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
