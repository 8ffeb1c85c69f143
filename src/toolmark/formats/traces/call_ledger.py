"""Deduplicated ledger of the tool calls in one trace: the one place that pairs calls with answers and tool runs.

A trace shows a call up to three times: in the reply of a model, in the histories that later models receive, and as the
span of its tool. The reply counts; a history adds only the calls that no reply shows; the span of a tool belongs to the
request of its id, else to one of its name nearby, equal arguments first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from toolmark._internal.json import json_text
from toolmark.capture import Request
from toolmark.formats.messages.transcript import Answer
from toolmark.formats.traces.call_ids import call_id_of, with_common_ids
from toolmark.formats.traces.received_arguments import received_arguments
from toolmark.formats.traces.span_tree import Span, relative_path
from toolmark.formats.traces.trace_messages import Message, requests_in
from toolmark.matching.json_compare import ABSENT, json_equal

_BEFORE_ALL_REPLIES = -1_000_000_000


@dataclass(slots=True, eq=False)
class Call:
    """One call: the request, the tool spans that ran for it, and the answer that the model received."""

    request: Request
    batch: CallBatch
    runs: list[Span] = field(default_factory=list)
    answer: Answer | None = None
    handoff_to: str | None = None

    @property
    def source(self) -> str:
        """The unique place of the call: trace, span and path."""
        return self.request.source or ""

    def may_be(self, request: Request) -> bool:
        """Return whether a request from another place may be this call: equal ids, else equal arguments."""
        own = self.request
        if own.name != request.name:
            return False
        if own.id == request.id and own.id is not None:
            return True
        if call_id_of(own) is not None and call_id_of(request) is not None:
            return False
        return ABSENT in (own.arguments, request.arguments) or json_equal(own.arguments, request.arguments)


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

    def is_near(self, span: Span) -> bool:
        """Return whether a span lies in the same tool and the same agent."""
        return self.span.scope is span.scope and self.span.within is span.within


@dataclass(slots=True)
class _HistoryState:
    """Calls that have come up so far in one history; calls are identified by `id(call)`."""

    span: Span
    waiting: dict[int, Call] = field(default_factory=dict)
    """Calls without an answer, in their order."""
    used: set[int] = field(default_factory=set)
    """Calls that a request of this history was matched with."""
    answered: set[int] = field(default_factory=set)
    """Calls with an answer, which may come before their request."""

    def add_request(self, call: Call) -> None:
        if id(call) not in self.answered:
            self.waiting[id(call)] = call

    def add_answer(self, call: Call) -> None:
        self.answered.add(id(call))
        self.waiting.pop(id(call), None)


@dataclass(frozen=True, slots=True)
class _UnpairedAnswer:
    answer: Answer
    path: str
    span: Span


class CallLedger:
    """The calls of one trace.

    Args:
        earlier: Calls of earlier traces of the same conversation, which histories repeat.
        same_session: The traces name the same session. Otherwise they only begin with the same words, and calls are
            equal only by id, or by arguments where the earlier reply has no id.
    """

    def __init__(self, earlier: Sequence[Call] = (), *, same_session: bool = True) -> None:
        self.batches: list[CallBatch] = []
        self.calls: list[Call] = []
        self.runs_without_request: list[Span] = []
        self.history_calls: list[Call] = []
        """Calls that are only in a history, before the user's last message."""
        self.lost_answers: list[str] = []
        """Paths of answers to calls that nothing shows."""
        self._early_answers: list[_UnpairedAnswer] = []
        """Answers to ids that no request has; a tool span may have the id."""
        self._nameless_answers: list[_UnpairedAnswer] = []
        """Answers without an id and a name that follow no request."""
        self._by_name: dict[str, list[Call]] = defaultdict(list)
        self._by_id: dict[str, list[Call]] = defaultdict(list)
        self._by_content: dict[tuple[str, str], list[Call]] = defaultdict(list)
        """Calls by name and id, or by name and arguments. Without it long histories take quadratic time."""
        self._without_id: Counter[str] = Counter()
        self._earlier: dict[str, list[Call]] = defaultdict(list)
        for call in earlier:
            if same_session or call.request.id is not None or call.request.arguments is not ABSENT:
                self._earlier[call.request.name].append(call)
        self._same_session = same_session
        self._sources: set[str] = set()

    def add_reply(self, span: Span) -> None:
        """Add the calls in the reply of a model. They are one batch, unless answers come in between."""
        batch: CallBatch | None = None
        state = _HistoryState(span)
        for message in span.reply or ():
            if message.answer is not None:
                batch = None
                self._add_answer(message.answer, message.path, state)
            elif message.requests:
                batch = batch or self._new_batch(span)
                for request in message.requests:
                    state.add_request(self._add(request, batch))

    def add_history(self, span: Span, history: Sequence[Message]) -> None:
        """Add the calls and answers of a history that are new; the others complete what is known."""
        last_user = max((index for index, message in enumerate(history) if message.speaker == "user"), default=-1)
        state = _HistoryState(span)
        for index, message in enumerate(with_common_ids(history)):
            if message.answer is not None:
                self._add_answer(message.answer, message.path, state)
                continue
            calls: list[Call | None] = []
            for request in message.requests:
                call = self._find_repeated(request, state)
                if call is not None:
                    self._complete(call, request)
                    state.used.add(id(call))
                calls.append(call)
            for call in self._with_new_calls(message.requests, calls, span, is_old=index < last_user):
                state.used.add(id(call))
                state.add_request(call)

    def _with_new_calls(
        self, requests: Sequence[Request], calls: list[Call | None], span: Span, *, is_old: bool
    ) -> list[Call]:
        """Return the calls of a message of a history, with those added that are not in the ledger yet.

        If others of the message are in the ledger, the reply was captured in part, and the new calls belong to it.
        """
        present = [call for call in calls if call is not None]
        if len(present) == len(calls):
            return present
        batch = next((call.batch for call in present if call.batch.span.trace == span.trace), None)
        is_orphan = batch is None
        batch = batch or self._new_batch(span, in_history=True)
        complete: list[Call] = []
        for request, repeated in zip(requests, calls, strict=True):
            call = repeated or self._add(request, batch)
            if repeated is None and is_old and is_orphan:
                self.history_calls.append(call)
            complete.append(call)
        own = [call for call in complete if call.batch is batch]
        batch.calls = own + [call for call in batch.calls if call not in own]
        return complete

    def add_run(self, span: Span) -> None:
        """Add the run of a tool to the request that it answers, if there is one."""
        run, call = span.tool_run, self._find_request(span)
        if call is None:
            self.runs_without_request.append(span)
            run.arguments = received_arguments(span)
            return
        run.arguments = received_arguments(span, call.request.arguments)
        call.runs.append(span)
        if run.call_id is not None:
            self._complete(call, replace(call.request, id=run.call_id))

    def settle(self) -> None:
        """Order the batches of histories, and pair answers that name no call; all spans must be added before."""
        for batch in self.batches:
            starts = [span.order for call in batch.calls for span in call.runs]
            # A call of a history was requested before its tool ran, however late the history was recorded.
            if batch.in_history and starts and min(starts) < batch.order[:2]:
                batch.order = (*min(starts), batch.order[2])
        answers_of: dict[int, list[Answer]] = defaultdict(list)
        for unpaired in self._nameless_answers:
            answers_of[id(unpaired.span)].append(unpaired.answer)
        for unpaired in self._nameless_answers:
            self._pair_nameless(unpaired, answers_of[id(unpaired.span)])

    def _pair_nameless(self, unpaired: _UnpairedAnswer, answers: list[Answer]) -> None:
        """Pair an answer that names neither a call nor a tool, as those of OpenInference for Haystack.

        If the history has one such answer for each call before it, they are in the order of the calls. Otherwise the
        answer belongs to the only call that waits. If no call waits, it repeats an answer; if several do, it is lost.
        """
        span = unpaired.span
        calls = [
            call
            for call in self.calls
            if call.batch.span is not span and call.batch.is_near(span) and call.batch.came_before(span)
        ]
        if len(answers) == len(calls):
            for call, answer in zip(calls, answers, strict=True):
                call.answer = call.answer or answer
        waiting = [call for call in calls if not call.runs and call.answer is None]
        if len(waiting) == 1:
            waiting[0].answer = unpaired.answer
        elif waiting or not calls:
            self.lost_answers.append(unpaired.path)

    def infer_requests(self, models: Iterable[Span]) -> None:
        """Give tool runs without a request to the model before them whose reply was not captured, or to their agent.

        Where the replies were captured and show no such call, a program called the tool.
        """
        models = list(models)
        silent = [model for model in models if _may_hide_calls(model)]
        scopes_with_replies = {id(model.scope) for model in models if model.reply is not None}
        batches: dict[int, CallBatch] = {}
        code_runs: list[Span] = []
        for span in self.runs_without_request:
            # A client that runs tools itself (Google GenAI) traces them inside of the request, and keeps only the
            # last reply. Its calls are inferred one by one.
            in_request = span.around is not None and span.around.reply is not None
            owner = span if in_request else _model_before(span, silent)
            if owner is None and span.within is not None and id(span.scope) not in scopes_with_replies:
                owner = span
            if owner is None:
                code_runs.append(span)
                continue
            if id(owner) not in batches:
                batches[id(owner)] = self._new_batch(owner)
            run = span.tool_run
            run.arguments = received_arguments(span)
            request = Request(run.tool, run.arguments, run.call_id, run.type, source=span.path)
            self._add(request, batches[id(owner)], at=span).runs.append(span)
        self.runs_without_request = code_runs
        for unpaired in self._early_answers:
            calls = self._by_id.get(unpaired.answer.call_id or "")
            if calls:
                calls[0].answer = calls[0].answer or unpaired.answer
            else:
                self.lost_answers.append(unpaired.path)

    def add_handoff(self, span: Span) -> None:
        """Add a hand-off to the latest request for it, else to a new request, since its own was not captured."""
        target = span.handoff.to
        letters = _letters(target or "")
        for call in reversed(self.calls):
            is_earlier = call.batch.span.scope is span.scope and call.batch.span.order <= span.order
            # The SDK names the tool `transfer_to_<agent>`, with underscores for spaces.
            is_named = bool(letters) and _letters(call.request.name).endswith(letters)
            if is_named and is_earlier and not call.runs and call.handoff_to is None:
                call.handoff_to = target
                return
        name = f"transfer_to_{(target or 'agent').lower().replace(' ', '_')}"
        call = self._add(Request(name, ABSENT, source=span.path), self._new_batch(span), at=span)
        call.handoff_to = target or name

    def _new_batch(self, span: Span, *, in_history: bool = False) -> CallBatch:
        number = len(self.batches)
        if in_history:  # a message of a history came before the reply to that history
            number += _BEFORE_ALL_REPLIES
        batch = CallBatch(span, (*span.order, number), in_history=in_history)
        self.batches.append(batch)
        return batch

    def _add(self, request: Request, batch: CallBatch, *, at: Span | None = None) -> Call:
        span = at or batch.span
        source = f"{span.trace}/{span.id}#{relative_path(request.source or span.path)}"
        while source in self._sources:
            source += "+"
        self._sources.add(source)
        call = Call(replace(request, source=source), batch)
        batch.calls.append(call)
        self.calls.append(call)
        self._by_name[request.name].append(call)
        self._by_content[_content_key(request)].append(call)
        if request.id is not None:
            self._by_id[request.id].append(call)
        if call_id_of(request) is None:
            self._without_id[request.name] += 1
        return call

    def _complete(self, call: Call, other: Request) -> None:
        """Complete a call with the id and the arguments of another record of it."""
        request = call.request
        # OpenLLMetry writes `{}` for streamed arguments; a history with the same id has the real ones.
        is_placeholder = request.arguments == {} and request.id is not None and request.id == other.id
        is_incomplete = request.arguments is ABSENT or (is_placeholder and bool(other.arguments))
        if is_incomplete and other.arguments is not ABSENT:
            request = replace(request, arguments=other.arguments, error=other.error)
        if other.id is not None and call_id_of(request) is None and call_id_of(other) is not None:
            request = replace(request, id=other.id)
            self._by_id[other.id].append(call)
            self._by_content[_content_key(request)].append(call)
        call.request = request

    def _find_repeated(self, request: Request, state: _HistoryState) -> Call | None:
        """Return the call that a request in a history repeats: one of its id, else an equal one of this trace first."""
        earlier = self._earlier.get(request.name, []) if self._same_session or request.id is not None else []
        if request.id is not None:
            for call in chain(self._by_id.get(request.id, ()), earlier):
                if id(call) not in state.used and (call.request.name, call.request.id) == (request.name, request.id):
                    return call
        own_reply: Call | None = None
        for call in self._similar(request):
            if id(call) not in state.used and call.may_be(request):
                # The reply to this very history is hardly in it, so a call of that reply is the last choice.
                if call.batch.span is not state.span:
                    return call
                own_reply = own_reply or call
        for call in earlier:
            # Some tracers keep ids in histories only, so an earlier reply may lack the id.
            is_allowed = self._same_session or call.request.id is None
            if is_allowed and id(call) not in state.used and call.may_be(request):
                return call
        return own_reply

    def _similar(self, request: Request) -> Iterator[Call]:
        """Yield the calls of this trace that may equal a request, likely ones first."""
        yield from self._by_content.get(_content_key(request), ())
        if call_id_of(request) is None or self._without_id[request.name]:
            yield from self._by_name[request.name]

    def _add_answer(self, answer: Answer, path: str, state: _HistoryState) -> None:
        call = next(iter(self._answerable(answer, state)), None)
        if call is not None:
            state.add_answer(call)
            first = call.answer = call.answer or answer
            # Only some records of an answer say that the tool failed.
            if answer.failed and not first.failed and answer.call_id is not None:
                call.answer = replace(first, failed=True, error=first.error or answer.error)
        elif answer.call_id is None and answer.name is None:
            self._nameless_answers.append(_UnpairedAnswer(answer, path, state.span))
        else:
            self._early_answers.append(_UnpairedAnswer(answer, path, state.span))

    def _answerable(self, answer: Answer, state: _HistoryState) -> list[Call]:
        """Return the calls that an answer may belong to, the best first."""
        waiting = list(state.waiting.values())
        if answer.call_id is None:
            return [call for call in waiting if answer.name in (None, call.request.name)]
        return (
            [call for call in waiting if call.request.id == answer.call_id]
            or sorted(self._by_id.get(answer.call_id, ()), key=lambda call: call.answer is not None)
            or [call for call in waiting if call.request.id is None and call.request.name == answer.name]
            or [call for calls in self._earlier.values() for call in calls if call.request.id == answer.call_id]
        )

    def _find_request(self, span: Span) -> Call | None:
        """Return the call that a tool ran for."""
        run = span.tool_run
        if run.call_id is not None:
            same_id = self._by_id.get(run.call_id, [])
            calls = [call for call in same_id if call.request.name == run.tool] or same_id
            calls = [call for call in calls if call.batch.span.scope is span.scope] or calls
            if calls:
                return _best_request(calls, span)
        calls = [
            call
            for call in self._by_name[run.tool]
            if call.batch.span.scope is span.scope and call.batch.came_before(span)
        ]
        if run.call_id is not None:  # a call with another id is another call
            calls = [call for call in calls if call_id_of(call.request) is None]
        calls = [call for call in calls if call.batch.is_near(span)] or calls
        # A second run of a call is a retry, and only a failed run is retried.
        calls = [call for call in calls if not call.runs or call.runs[-1].error is not None]
        return _best_request(calls, span) if calls else None


def _best_request(calls: list[Call], span: Span) -> Call:
    """Return the call that a run belongs to: equal arguments first, then one without a run, then the oldest."""
    equal = [
        call for call in calls if json_equal(received_arguments(span, call.request.arguments), call.request.arguments)
    ]
    for group in (equal, calls):
        waiting = [call for call in group if not call.runs]
        if waiting:
            return next((call for call in waiting if call.batch.came_before(span)), waiting[0])
    return (equal or calls)[-1]


def _model_before(span: Span, models: list[Span]) -> Span | None:
    """Return the last of these models before a span, in the same agent if there is one."""
    before = [model for model in models if model.scope is span.scope and model.order <= span.order]
    near = [model for model in before if model.within is span.within] or before
    return near[-1] if near else None


def _may_hide_calls(model: Span) -> bool:
    """Return whether a model may have asked for calls that were not captured: it says nothing, or stopped for tools."""
    reply = model.reply or []
    if requests_in(reply):
        return False
    return bool(model.model_call.stopped_for_tools) or not any(message.text for message in reply)


def _content_key(request: Request) -> tuple[str, str]:
    """Return a key that equal requests share; requests with different keys may still be one call."""
    if request.id is not None:
        return request.name, f"#{request.id}"
    return request.name, "" if request.arguments is ABSENT else json_text(request.arguments)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
