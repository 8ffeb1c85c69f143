"""Deduplicated ledger of the tool calls in one trace: the one place that pairs calls with answers and tool runs.

A trace shows a call up to three times: in the reply of a model, in the histories that later models receive, and as the
span of its tool. The reply counts; a history adds only the calls that no reply shows; the span of a tool belongs to the
request of its id, else to one of its name nearby, equal arguments first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TypeVar

from toolmark._internal.json import json_text
from toolmark.capture import Request
from toolmark.formats.messages.transcript import Answer
from toolmark.formats.traces.received_arguments import received_arguments
from toolmark.formats.traces.span_tree import Span, may_be_equal, relative_path
from toolmark.formats.traces.trace_messages import Message, requests_in
from toolmark.matching.json_compare import ABSENT, json_equal

_T = TypeVar("_T")
_BEFORE_ALL_REPLIES = -1_000_000_000
_ITEM_PREFIXES = ("fc_", "ctc_")
"""Prefixes of the ids of output items of OpenAI's Responses API. No answer refers to an item."""


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

    def may_be(self, request: Request) -> bool:
        """Return whether a request of this name from another place may be this call: equal ids, else arguments."""
        own = self.request
        if own.id is not None and own.id == request.id:
            return True
        if None not in (_call_id_of(own), _call_id_of(request)):
            return False
        return may_be_equal(own.arguments, request.arguments)


@dataclass(slots=True, eq=False)
class CallBatch:
    """The calls that one message of a model asks for.

    Attributes:
        span: The span whose reply, or whose history, has the message.
        order: Start of the span, position of the span, position among the batches.
        calls: The calls in their order.
        in_history: The message is in a history only, so that its own time is unknown.
    """

    span: Span
    order: tuple[datetime, int, int]
    calls: list[Call] = field(default_factory=list)
    in_history: bool = False

    def came_before(self, span: Span) -> bool:
        """Return whether a tool span may have run for a call of this batch."""
        return self.in_history or self.order[:2] <= span.order


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

    def add_request(self, call: Call) -> None:
        self.used.add(call)
        if call not in self.answered:
            self.waiting[call] = None


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
        self._by_id: dict[str, list[Call]] = defaultdict(list)
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
        last_user = max([-1, *(index for index, message in enumerate(messages) if message.speaker == "user")])
        history = _History(span)
        # Neither repair of ids changes a history whose ids agree, which is nearly every history.
        for index, message in enumerate(_with_request_ids(_with_answer_ids(messages))):
            if message.answer is not None:
                self._add_answer(message.answer, message.path, history)
                continue
            repeated = [self._repeated_call(request, history) for request in message.requests]
            for call in self._with_new_calls(message.requests, repeated, span, is_old=index < last_user):
                history.add_request(call)

    def _with_new_calls(
        self, requests: Sequence[Request], repeated: list[Call | None], span: Span, *, is_old: bool
    ) -> list[Call]:
        """Return the calls of a message of a history, with those added that are not in the ledger yet."""
        present = [call for call in repeated if call is not None]
        if len(present) == len(requests):
            return present
        # If others of the message are in this trace, the reply was captured in part, and the new calls belong to it.
        reply = next((call.batch for call in present if call.batch.span.trace == span.trace), None)
        batch = reply or self._new_batch(span, in_history=True)
        pairs = zip(requests, repeated, strict=True)
        calls = [call or self._add(request, batch, batch.span) for request, call in pairs]
        if is_old and reply is None:
            self.history_calls += [call.source for call in calls if call not in present]
        batch.calls = list(dict.fromkeys([*(call for call in calls if call.batch is batch), *batch.calls]))
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

    def settle(self) -> None:
        """Order the batches of histories, and pair answers that name no call; all spans must be added before."""
        for batch in self.batches:
            if batch.in_history:
                # A call of a history was requested before its tool ran, however late the history was recorded.
                starts = [span.order for call in batch.calls for span in call.runs]
                batch.order = (*min([batch.order[:2], *starts]), batch.order[2])
        for span, answers in self._nameless_answers.items():
            self._pair_nameless(span, answers)

    def _pair_nameless(self, span: Span, answers: list[tuple[Answer, str]]) -> None:
        """Pair answers that name neither a call nor a tool, as those of OpenInference for Haystack.

        If the history has one such answer for each call before it, they are in the order of the calls. Otherwise an
        answer belongs to the only call that waits. If no call waits, it repeats an answer; if several do, it is lost.
        """
        near = [call for call in self.calls if call.batch.span is not span and call.batch.span.is_near(span)]
        calls = [call for call in near if call.batch.came_before(span)]
        if len(answers) == len(calls):
            for call, (answer, _) in zip(calls, answers, strict=True):
                call.answer = call.answer or answer
        for answer, path in answers:
            waiting = [call for call in calls if not (call.runs or call.answer)]
            if len(waiting) == 1:
                waiting[0].answer = answer
            elif waiting or not calls:
                self.lost_answers.append(path)

    def infer_requests(self, models: Sequence[Span]) -> None:
        """Give tool runs without a request to the model before them whose reply was not captured, or to their agent.

        Where the replies were captured and show no such call, a program called the tool.
        """
        silent = [model for model in models if _may_hide_calls(model)]
        scopes_with_replies = {model.scope for model in models if model.reply is not None}
        batches: dict[Span, CallBatch] = {}
        code_runs: list[Span] = []
        for span in self.runs_without_request:
            # A client that runs tools itself (Google GenAI) traces them inside of the request, and keeps only the
            # last reply. Its calls are inferred one by one.
            in_request = span.around is not None and span.around.reply is not None
            owner = span if in_request else _model_before(span, silent)
            if owner is None and (span.within is None or span.scope in scopes_with_replies):
                code_runs.append(span)
                continue
            owner = owner or span
            if owner not in batches:
                batches[owner] = self._new_batch(owner)
            run = span.tool_run
            run.arguments = received_arguments(span)
            request = Request(run.tool, run.arguments, run.call_id, run.type, source=span.path)
            self._add(request, batches[owner], span).runs.append(span)
        self.runs_without_request = code_runs
        for answer, path in self._early_answers:
            calls = self._by_id[answer.call_id or ""]
            if calls:
                calls[0].answer = calls[0].answer or answer
            else:
                self.lost_answers.append(path)

    def add_handoff(self, span: Span) -> None:
        """Add a hand-off to the latest request for it, else to a new request, since its own was not captured."""
        target, letters = span.handoff_to, _letters(span.handoff_to or "")
        for call in reversed(self.calls):
            # The SDK names the tool `transfer_to_<agent>`, with underscores for spaces.
            is_named = letters and _letters(call.request.name).endswith(letters)
            is_earlier = call.batch.span.scope is span.scope and call.batch.span.order <= span.order
            if is_named and is_earlier and not (call.runs or call.handoff_to):
                call.handoff_to = target
                return
        name = f"transfer_to_{(target or 'agent').lower().replace(' ', '_')}"
        call = self._add(Request(name, ABSENT, source=span.path), self._new_batch(span), span)
        call.handoff_to = target or name

    def _new_batch(self, span: Span, *, in_history: bool = False) -> CallBatch:
        number = len(self.batches)
        if in_history:  # a message of a history came before the reply to that history
            number += _BEFORE_ALL_REPLIES
        batch = CallBatch(span, (*span.order, number), in_history=in_history)
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
        self._without_id[request.name] += _call_id_of(request) is None
        self._index(call)
        return call

    def _index(self, call: Call) -> None:
        request = call.request
        self._by_content[_content_key(request)].append(call)
        if request.id is not None:
            self._by_id[request.id].append(call)

    def _complete(self, call: Call, other: Request) -> None:
        """Complete a call with the id and the arguments of another record of it."""
        arguments, other_id = call.request.arguments, _call_id_of(other)
        # OpenLLMetry writes `{}` for streamed arguments; a history with the same id has the real ones.
        is_incomplete = arguments is ABSENT or (arguments == {} and other.arguments)
        if is_incomplete and other.arguments is not ABSENT:
            call.request = replace(call.request, arguments=other.arguments, error=other.error)
        if other_id is not None and _call_id_of(call.request) is None:
            call.request = replace(call.request, id=other_id)
            self._index(call)

    def _repeated_call(self, request: Request, history: _History) -> Call | None:
        """Return the call that a request in a history repeats, completed by it; `None` for a new one."""
        call = next(self._candidates(request, history), None)
        if call is not None:
            self._complete(call, request)
            history.used.add(call)
        return call

    def _candidates(self, request: Request, history: _History) -> Iterator[Call]:
        """Yield the calls that a request may repeat: one of its id, else an equal one, those of this trace first."""

        def unused(calls: Iterable[Call]) -> Iterator[Call]:
            return (call for call in calls if call not in history.used)

        earlier = self._earlier[request.name]
        if request.id is not None:
            for call in unused(chain(self._by_id[request.id], earlier)):
                if (call.request.name, call.request.id) == (request.name, request.id):
                    yield call
        own_replies: list[Call] = []
        for call in unused(self._similar(request)):
            if call.may_be(request):
                # The reply to this very history is hardly in it, so a call of that reply is the last choice.
                if call.batch.span is history.span:
                    own_replies.append(call)
                else:
                    yield call
        for call in unused(earlier):
            # Some tracers keep ids in histories only, so an earlier reply may lack the id.
            lacks_id = request.id is not None and call.request.id is None and call.request.arguments is not ABSENT
            if (self._same_session or lacks_id) and call.may_be(request):
                yield call
        yield from own_replies

    def _similar(self, request: Request) -> Iterator[Call]:
        """Yield the calls of this trace that may equal a request, likely ones first."""
        yield from self._by_content.get(_content_key(request), ())
        if _call_id_of(request) is None or self._without_id[request.name]:
            yield from self._by_name[request.name]

    def _add_answer(self, answer: Answer, path: str, history: _History) -> None:
        call = next(self._answerable(answer, history), None)
        if call is not None:
            history.answered.add(call)
            history.waiting.pop(call, None)
            first = call.answer = call.answer or answer
            # Only some records of an answer say that the tool failed.
            if answer.failed and not first.failed and answer.call_id is not None:
                call.answer = replace(first, failed=True, error=first.error or answer.error)
        elif answer.call_id is None and answer.name is None:
            self._nameless_answers[history.span].append((answer, path))
        else:
            self._early_answers.append((answer, path))

    def _answerable(self, answer: Answer, history: _History) -> Iterator[Call]:
        """Yield the calls that an answer may belong to, the best first."""
        waiting = list(history.waiting)
        if answer.call_id is None:
            yield from (call for call in waiting if answer.name in (None, call.request.name))
            return
        yield from (call for call in waiting if call.request.id == answer.call_id)
        yield from sorted(self._by_id[answer.call_id], key=lambda call: call.answer is not None)
        yield from (call for call in waiting if (call.request.id, call.request.name) == (None, answer.name))
        yield from (call for call in chain(*self._earlier.values()) if call.request.id == answer.call_id)

    def _find_request(self, span: Span) -> Call | None:
        """Return the call that a tool ran for."""
        run = span.tool_run
        if run.call_id is not None:
            calls = _prefer(self._by_id[run.call_id], lambda call: call.request.name == run.tool)
            calls = _prefer(calls, lambda call: call.batch.span.scope is span.scope)
            if calls:
                return _best_request(calls, span)
        named = [call for call in self._by_name[run.tool] if call.batch.span.scope is span.scope]
        calls = [call for call in named if call.batch.came_before(span)]
        if run.call_id is not None:  # a call with another id is another call
            calls = [call for call in calls if _call_id_of(call.request) is None]
        calls = _prefer(calls, lambda call: call.batch.span.is_near(span))
        # A second run of a call is a retry, and only a failed run is retried.
        calls = [call for call in calls if not call.runs or call.runs[-1].error is not None]
        return _best_request(calls, span) if calls else None


def _prefer(items: list[_T], is_better: Callable[[_T], bool]) -> list[_T]:
    """Return the better ones of these calls or spans; all of them where none is."""
    return list(filter(is_better, items)) or items


def _best_request(calls: list[Call], span: Span) -> Call:
    """Return the call that a run belongs to: equal arguments first, then one without a run, then the oldest."""
    received = [received_arguments(span, call.request.arguments) for call in calls]
    equal = {call for call, value in zip(calls, received, strict=True) if json_equal(value, call.request.arguments)}
    waiting = [call for call in calls if not call.runs]
    if waiting:
        return min(waiting, key=lambda call: (call not in equal, not call.batch.came_before(span)))
    return _prefer(calls, equal.__contains__)[-1]


def _model_before(span: Span, models: list[Span]) -> Span | None:
    """Return the last of these models before a span, in the same agent if there is one."""
    before = [model for model in models if model.scope is span.scope and model.order <= span.order]
    return next(reversed(_prefer(before, span.is_near)), None)


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


def _call_id_of(request: Request) -> str | None:
    """Return the id by which answers refer to a call; `None` where the tracer kept the id of an item."""
    return None if request.id is None or request.id.startswith(_ITEM_PREFIXES) else request.id


def _with_answer_ids(history: Sequence[Message]) -> Sequence[Message]:
    """Replace the ids of items by the ids that the answers after them have, in their order."""
    requests = requests_in(history)
    ids = {None, *(request.id for request in requests)}
    item_ids = ids - {None, *map(_call_id_of, requests)}
    if not item_ids:
        return history
    waiting: list[str | None] = []
    new_ids: dict[str | None, str | None] = {}
    for message in history:
        # Answers come in the order of their calls, so the order identifies them.
        waiting += [request.id for request in message.requests if request.id in item_ids]
        if waiting and message.answered_id not in ids:
            new_ids[waiting.pop(0)] = message.answered_id
    return [_with_new_ids(message, new_ids) for message in history]


def _with_new_ids(message: Message, new_ids: dict[str | None, str | None]) -> Message:
    requests = [replace(request, id=new_ids.get(request.id, request.id)) for request in message.requests]
    return replace(message, requests=tuple(requests))


def _with_request_ids(history: Sequence[Message]) -> Sequence[Message]:
    """Replace the ids of answers that no request has by those of the requests before them, in their order.

    Only where a message of the model is followed by as many such answers as it has calls without an answer.
    """
    ids = {request.id for request in requests_in(history)} | {None}
    answered = {message.answer.call_id for message in history if message.answer is not None}
    if answered <= ids:
        return history
    messages = list(history)
    waiting: list[str | None] = []
    strangers: list[tuple[int, Answer]] = []
    for index, message in enumerate([*history, Message("model", "")]):  # the last one closes the history
        if message.speaker == "model":
            # Any other number leaves open which answer is whose; a wrong pair is worse than a lost answer.
            if len(waiting) == len(strangers) and None not in waiting:
                for (place, answer), call_id in zip(strangers, waiting, strict=True):
                    messages[place] = replace(messages[place], answer=replace(answer, call_id=call_id))
            waiting, strangers = [request.id for request in message.requests if request.id not in answered], []
        elif message.answer is not None and message.answer.call_id not in ids:
            strangers.append((index, message.answer))
    return messages
