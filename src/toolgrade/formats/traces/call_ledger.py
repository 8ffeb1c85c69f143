"""Ledger of the tool calls in one trace: the one place that pairs calls with answers and tool spans.

A trace shows a call up to four times: in the reply of a model, in the histories that later models receive, in the
answer there, and as the span of its tool. Replies come first, and each of their requests is a call. Any other record
belongs to the first of these calls, and completes it:

- A request in a history: a call of its name and id; if one of the two has no id, a call of its name whose arguments may
  be equal. Two requests of one history are two calls. If there is none, the request is a call that only the history
  shows.
- A tool span: a call of its id; if one of the two has no id, a call of its name that was requested before it inside
  the same tool span, and that has not run yet. Equal arguments come first. If there is none, a model whose reply was
  not captured requested it, or a program called the tool.
- An answer: a call of its id; without an id, the next call in its history that waits for one, of its name if it has
  one.

Calls of this trace come before those of earlier traces of the conversation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TypeVar

from toolgrade._internal.json import json_text
from toolgrade.capture import Request
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.traces.call_ids import call_id_of, with_equal_ids
from toolgrade.formats.traces.genai import received_arguments
from toolgrade.formats.traces.messages import TraceMessage, is_nameless, requests_in
from toolgrade.formats.traces.span_tree import Span, may_be_equal, relative_path
from toolgrade.matching.json_compare import ABSENT, json_equal

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class LedgerCall:
    """One call: the request, the tool spans that ran for it, and the answer that the model received.

    `source` is its unique place: trace, span and path. `waits` says that it waits for a person at the end of its trace.
    """

    request: Request
    batch: CallBatch
    source: str
    runs: list[Span] = field(default_factory=list)
    answer: Answer | None = None
    handoff_to: str | None = None
    waits: bool = False

    @property
    def is_suspended(self) -> bool:
        """Whether its last run waits for a person, and nothing answers it."""
        return bool(self.runs) and self.runs[-1].waits and self.answer is None

    @property
    def is_open(self) -> bool:
        """Whether nothing came of the call: no run, no answer and no hand-off."""
        return not (self.runs or self.answer or self.handoff_to)

    @property
    def needs_approval(self) -> bool:
        """Whether the provider waits for a person's approval before it runs the tool."""
        return self.is_open and self.request.needs_approval

    @property
    def lacks_only_id(self) -> bool:
        """Whether the arguments were captured, and the id was not."""
        return self.request.id is None and self.request.arguments is not ABSENT

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
    calls: list[LedgerCall] = field(default_factory=list)
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
        """Return whether a span may have begun after the message."""
        return self.in_history or self.order[:2] <= span.order

    def is_near_before(self, span: Span) -> bool:
        """Return whether the batch came before another span inside the same tool span and agent."""
        return self.span is not span and self.span.is_near(span) and self.came_before(span)

    def put_first(self, calls: Iterable[LedgerCall]) -> None:
        """Move those of these calls that are in the batch to its start."""
        own = [call for call in calls if call.batch is self]
        self.calls = list(dict.fromkeys([*own, *self.calls]))


@dataclass(slots=True)
class _History:
    """Calls that have come up so far in one history.

    Attributes:
        span: The span that has the history.
        used: Calls that a request of this history was matched with.
        waiting: Calls without an answer, in their order.
        answered: Calls with an answer, which may come before their request.
        new_calls: Calls that only this history shows, since the user's last message.
    """

    span: Span
    used: set[LedgerCall] = field(default_factory=set)
    waiting: dict[LedgerCall, None] = field(default_factory=dict)
    answered: set[LedgerCall] = field(default_factory=set)
    new_calls: list[LedgerCall] = field(default_factory=list)

    def add_request(self, call: LedgerCall) -> None:
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

    def __init__(self, earlier: Iterable[LedgerCall] = (), *, same_session: bool = True) -> None:
        self.batches: list[CallBatch] = []
        self.calls: list[LedgerCall] = []
        self.runs_without_request: list[Span] = []
        self.history_calls: list[str] = []
        """Places of calls that are only in a history, before the user's last message."""
        self.lost_answers: list[str] = []
        """Places of answers to calls that nothing shows."""
        self._early_answers: list[tuple[Answer, str]] = []
        """Answers to ids that no request has, with their places; a tool span may have the id."""
        self._nameless_answers: dict[Span, list[tuple[Answer, str]]] = defaultdict(list)
        """Answers without an id and a name that follow no request, with their places, by the span of the history."""
        self._by_name: dict[str, list[LedgerCall]] = defaultdict(list)
        self._by_id: dict[str | None, list[LedgerCall]] = defaultdict(list)
        self._by_content: dict[tuple[str, str], list[LedgerCall]] = defaultdict(list)
        """Calls by name and id, or by name and arguments. Without it long histories take quadratic time."""
        self._without_id: Counter[str] = Counter()
        self._earlier: dict[str, list[LedgerCall]] = defaultdict(list)
        for call in earlier:
            self._earlier[call.request.name].append(call)
        self._same_session = same_session
        self._sources: set[str] = set()

    # Replies

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
                    self._drop_approved(request)
                    history.add_request(self._add(request, batch, span))

    def _drop_approved(self, request: Request) -> None:
        """Leave out the earlier request for approval that a call replaces; the two are one call."""
        for call in self._by_id.pop(request.replaces, []) if request.replaces else []:
            self.calls.remove(call)
            self._by_name[call.request.name].remove(call)
            call.batch.calls.remove(call)
            if not call.batch.calls:
                self.batches.remove(call.batch)

    def _new_batch(self, span: Span, *, in_history: bool = False) -> CallBatch:
        # A message of a history came before the reply to that history.
        batch = CallBatch(span, (*span.order, not in_history, len(self.batches)), in_history=in_history)
        self.batches.append(batch)
        return batch

    def _add(self, request: Request, batch: CallBatch, span: Span) -> LedgerCall:
        """Return a new call that `span` shows."""
        source = f"{span.trace}/{span.id}#{relative_path(request.source or '')}"
        while source in self._sources:
            source += "+"
        self._sources.add(source)
        call = LedgerCall(replace(request, source=source), batch, source)
        batch.calls.append(call)
        self.calls.append(call)
        self._by_name[request.name].append(call)
        self._without_id[request.name] += call_id_of(request) is None
        self._index(call)
        return call

    def _index(self, call: LedgerCall) -> None:
        self._by_content[_content_key(call.request)].append(call)
        if call.request.id is not None:
            self._by_id[call.request.id].append(call)

    # Histories

    def add_history(self, span: Span, messages: Sequence[TraceMessage]) -> None:
        """Add the calls and answers of a history that are new; the others complete what the ledger has."""
        history = _History(span)
        for message in with_equal_ids(messages):
            if message.speaker == "user":
                self.history_calls += [call.source for call in history.new_calls]
                history.new_calls = []
            if message.answer is not None:
                self._add_answer(message.answer, message.path, history)
            elif message.requests:
                self._add_requests(message.requests, history)

    def _add_requests(self, requests: Sequence[Request], history: _History) -> None:
        """Add the requests of a message of a history that repeat no call."""
        repeated = [self._repeated_call(request, history) for request in requests]
        calls = [call for call in repeated if call is not None]
        if len(calls) < len(requests):
            # If others of the message are in this trace, its reply was captured in part: the new calls belong to it.
            reply = next((call.batch for call in calls if call.batch.span.trace == history.span.trace), None)
            batch = reply or self._new_batch(history.span, in_history=True)
            pairs = zip(requests, repeated, strict=True)
            calls = [call or self._add(request, batch, batch.span) for request, call in pairs]
            if reply is None:
                history.new_calls += calls
            batch.put_first(calls)
        for call in calls:
            history.add_request(call)

    def _repeated_call(self, request: Request, history: _History) -> LedgerCall | None:
        """Return the call that a request in a history repeats, completed by it; `None` for a new one."""
        for call in self._candidates(request, history.span):
            if call not in history.used:
                self._complete(call, request)
                history.used.add(call)
                return call
        return None

    def _candidates(self, request: Request, span: Span) -> Iterator[LedgerCall]:
        """Yield the calls that a request in the history of a span may repeat, the best first.

        These are calls with its name and id, of this trace, then of earlier ones; then calls of its name whose
        arguments may be equal: of this trace, of earlier traces, and last of the reply to this very history.
        """
        earlier = self._earlier[request.name]
        if request.id is not None:
            yield from (call for call in self._by_id[request.id] if call.request.name == request.name)
            yield from _with_id(request.id, earlier)
        alike = list(_alike(request, self._similar(request)))
        yield from (call for call in alike if call.batch.span is not span)
        if not self._same_session:
            # Some tracers keep ids in histories only, so the reply of an earlier trace may lack the id.
            earlier = [call for call in earlier if request.id and call.lacks_only_id]
        yield from _alike(request, earlier)
        yield from (call for call in alike if call.batch.span is span)

    def _similar(self, request: Request) -> Iterator[LedgerCall]:
        """Yield the calls of this trace that may equal a request, likely ones first."""
        yield from self._by_content.get(_content_key(request), ())
        if call_id_of(request) is None or self._without_id[request.name]:
            yield from self._by_name[request.name]

    def _complete(self, call: LedgerCall, other: Request) -> None:
        """Complete a call with the id and the arguments of another record of it."""
        arguments, other_id = call.request.arguments, call_id_of(other)
        # Some tracers write `{}` for streamed arguments; a history with the same id has the real ones.
        is_empty = arguments is ABSENT or (arguments == {} and bool(other.arguments))
        if is_empty and other.arguments is not ABSENT:
            call.request = replace(call.request, arguments=other.arguments, error=other.error)
        if other_id is not None and call_id_of(call.request) is None:
            call.request = replace(call.request, id=other_id)
            self._index(call)

    # Answers

    def _add_answer(self, answer: Answer, path: str, history: _History) -> None:
        call = next(self._answerable(answer, history), None)
        if call is not None:
            history.answered.add(call)
            history.waiting.pop(call, None)
            call.add_answer(answer)
        elif is_nameless(answer):
            self._nameless_answers[history.span].append((answer, path))
        else:
            self._early_answers.append((answer, path))

    def _answerable(self, answer: Answer, history: _History) -> Iterator[LedgerCall]:
        """Yield the calls that an answer may belong to, the best first."""
        if answer.call_id is None:
            yield from (call for call in history.waiting if answer.name in (None, call.request.name))
            return
        yield from _with_id(answer.call_id, history.waiting)
        yield from sorted(self._by_id[answer.call_id], key=lambda call: call.answer is not None)
        yield from (call for call in _with_id(None, history.waiting) if call.request.name == answer.name)
        yield from _with_id(answer.call_id, chain(*self._earlier.values()))

    # Tool spans

    def add_run(self, span: Span) -> None:
        """Add the run of a tool to the request that it answers, if there is one."""
        run, call = span.tool_run, self._requested_call(span) or self._resumed_call(span)
        if call is None:
            self.runs_without_request.append(span)
            run.arguments = received_arguments(span)
            return
        run.arguments = received_arguments(span, call.request.arguments)
        call.runs.append(span)
        self._complete(call, replace(call.request, id=run.call_id))

    def _requested_call(self, span: Span) -> LedgerCall | None:
        """Return the call that a tool ran for; calls inside the same tool span, else in the same agent, come first."""
        run = span.tool_run
        calls = _prefer(self._by_id[run.call_id], lambda call: call.request.name == run.tool)
        calls = _prefer(calls, lambda call: call.batch.span.scope is span.scope)
        if not calls:
            calls = [call for call in self._by_name[run.tool] if _may_start(call, span)]
            calls = _prefer(calls, lambda call: call.batch.span.is_near(span))
            # A second run of a call is a retry, of a failed run only, or the run that a person allowed.
            calls = [call for call in calls if not call.runs or call.runs[-1].error is not None or call.is_suspended]
        return _best_request(calls, span) if calls else None

    def _resumed_call(self, span: Span) -> LedgerCall | None:
        """Return a call for a run that an earlier trace of the conversation waits for; its answer moves here."""
        run_id = None if span.tool_run.has_own_id else span.tool_run.call_id
        calls = [call for call in self._earlier[span.tool_run.tool] if call.waits]
        calls = [call for call in calls if run_id is None or call_id_of(call.request) in (None, run_id)]
        if not calls or span.scope is not None:
            return None
        waiting = _best_request(calls, span)
        call = self._add(waiting.request, self._new_batch(span), span)
        call.answer, waiting.answer, waiting.waits = waiting.answer, None, False
        return call

    # What is left

    def finish(self, models: Sequence[Span]) -> None:
        """Complete the ledger, once all replies, histories and runs are added."""
        for batch in self.batches:
            if batch.in_history:  # it came before the runs of its calls, however late the history was recorded
                batch.order = (*min([batch.order[:2], *(run.order for run in batch.runs)]), *batch.order[2:])
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
        """Pair the answers of a history that name neither a call nor a tool.

        If there is one for each call before the history, they are in the order of the calls. Otherwise an answer
        belongs to the only call that waits. If no call waits, it repeats an answer; if several do, it is lost.
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
        unclear = list(filter(_may_hide_calls, models))
        scopes_with_replies = {model.scope for model in models if model.reply is not None}
        batches: dict[Span, CallBatch] = {}
        code_runs: list[Span] = []
        for span in self.runs_without_request:
            suspended = [call for call in self._by_name[span.tool_run.tool] if call.is_suspended]
            if suspended:
                _best_request(suspended, span).runs.append(span)
                continue
            owner = _requester_of(span, unclear, scopes_with_replies)
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
        """Add a hand-off to the latest request for it, else to a new request, since its own was not captured.

        Its tool is named `transfer_to_<agent>`, with underscores for spaces (OpenAI Agents SDK documentation,
        "Handoffs", section "Customizing handoffs").
        """
        name = f"transfer_to_{(span.handoff_to or 'agent').lower().replace(' ', '_')}"
        call = next((call for call in reversed(self.calls) if _may_hand_off(call, span)), None)
        if call is None:
            call = self._add(Request(name, ABSENT, source=span.path), self._new_batch(span), span)
        call.handoff_to = span.handoff_to or name


def _with_id(call_id: str | None, calls: Iterable[LedgerCall]) -> Iterator[LedgerCall]:
    return (call for call in calls if call.request.id == call_id)


def _alike(request: Request, calls: Iterable[LedgerCall]) -> Iterator[LedgerCall]:
    """Yield those calls of its name that may be a request: equal ids, or arguments that may be equal without an id."""
    for call in calls:
        lacks_id = None in (call_id_of(call.request), call_id_of(request))
        has_id = request.id is not None and request.id == call.request.id
        if has_id or (lacks_id and may_be_equal(call.request.arguments, request.arguments)):
            yield call


def _may_start(call: LedgerCall, span: Span) -> bool:
    """Return whether a tool may have run for a call of its name, as far as ids, tools around and times show."""
    run = span.tool_run
    lacks_id = run.has_own_id or None in (run.call_id, call_id_of(call.request))
    return lacks_id and call.batch.span.scope is span.scope and call.batch.came_before(span)


def _best_request(calls: list[LedgerCall], span: Span) -> LedgerCall:
    """Return the call that a run belongs to: equal arguments first, then one without a run, then the oldest."""
    requested = [(call, call.request.arguments) for call in calls]
    equal = {call for call, arguments in requested if json_equal(received_arguments(span, arguments), arguments)}
    waiting = [call for call in calls if not call.runs]
    if waiting:
        return min(waiting, key=lambda call: (call not in equal, not call.batch.came_before(span)))
    return _prefer(calls, equal.__contains__)[-1]


def _requester_of(run: Span, unclear: list[Span], scopes_with_replies: Container[Span | None]) -> Span | None:
    """Return the span that must have requested a tool run; `None` where a program called the tool.

    That is the model before it whose reply was not captured, or the agent. Where the replies were captured and show no
    such call, a program called the tool.
    """
    # A client that runs tools itself traces them inside of the request, and keeps only the last reply. Its calls are
    # inferred one by one.
    if run.around is not None and run.around.reply is not None:
        return run
    before = [model for model in unclear if _is_before(model, run)]
    if before:
        return _prefer(before, run.is_near)[-1]
    return None if run.within is None or run.scope in scopes_with_replies else run


def _may_hand_off(call: LedgerCall, span: Span) -> bool:
    """Return whether a call may have led to a hand-off: it is earlier, and named for the agent."""
    if call.runs or call.handoff_to or not _is_before(call.batch.span, span):
        return False
    letters = _letters(span.handoff_to or "")
    return letters != "" and _letters(call.request.name).endswith(letters)


def _is_before(span: Span, other: Span) -> bool:
    """Return whether a span precedes another one inside the same tool span."""
    return span.scope is other.scope and span.order <= other.order


def _prefer(items: list[_T], is_better: Callable[[_T], bool]) -> list[_T]:
    """Return the better ones of these calls or spans; all of them where none is."""
    return list(filter(is_better, items)) or items


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
