"""What did the agent of each trace do? From spans of any tracer to runs.

The calls of a trace are found by a `Book`, and told to a `RunBuilder` as any recorder would tell them: requests in the
order of the models' messages, what ran for each, and what the model was shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from toolmark.calls import ToolCallType
from toolmark.capture import Request, RunBuilder
from toolmark.cases import Run, RunStatus
from toolmark.formats.messages.field_readers import Notes
from toolmark.formats.messages.lenient_arguments import repair_arguments
from toolmark.formats.messages.offered_tools import offered_tools
from toolmark.formats.traces.call_ledger import Book, Call, Message
from toolmark.formats.traces.deduplicate import echoes, fold
from toolmark.formats.traces.span_tree import DEEPEST, Span, Tree, tree_of
from toolmark.formats.traces.trace_messages import Said, final_text
from toolmark.matching.json_compare import ABSENT


@dataclass
class _Trace:
    """One trace, its calls, and the conversation that it says it belongs to."""

    tree: Tree
    book: Book
    session: str | None


def runs_of(
    spans: Iterable[Span], handoff_names: frozenset[str] = frozenset(), *, tolerant: bool = False
) -> tuple[list[Run], list[str]]:
    """Return a run for each trace in which a model, an agent or a tool was at work, in the order of their beginnings.

    Args:
        spans: The spans of all traces, in any order.
        handoff_names: Names of tools that hand over to another agent.
        tolerant: Arguments that are not a JSON object may be read in other ways; see `_tolerant`.

    Returns:
        The runs, and what is to be said of the rest.
    """
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        groups[span.trace].append(span)
    trees = [tree_of(group) for group in groups.values()]
    idle = [tree for tree in trees if not _at_work(tree)]
    said = (
        [f"{idle[0].spans[0].path}: {len(idle)} of the traces show no model, agent or tool; left out"] if idle else []
    )
    working = [tree for tree in trees if _at_work(tree)]
    fold(working)
    repeating = echoes(working)
    if repeating:
        place = repeating[0].spans[0].path
        said.append(f"{place}: {len(repeating)} of the traces repeat requests to models of other traces; left out")
        left_out = set(map(id, repeating))
        working = [tree for tree in working if id(tree) not in left_out]
    earlier: dict[tuple[str | None, str | None], list[Call]] = defaultdict(list)
    traces: list[_Trace] = []
    for tree in sorted(working, key=lambda tree: tree.spans[0].order[0]):
        session = next((span.session for span in tree.spans if span.session), None)
        # What traces of one conversation have in common: the session; without one, the user's first words.
        histories = [span.asked for span in (*_asked_models(tree), *tree.spans)]
        histories += [span.said or [] for span in tree.of_kind("agent")]
        common = (session, None if session is not None else _first_words(histories, 0))
        known = earlier[common]
        # Where no words were kept, a call in a history is an earlier trace's only if no model here can have made it.
        told = [span.said is not None or span.wants_tools is False for span in _asked_models(tree)]
        heard = common != (None, None) or all(told)
        book = _book_of(tree, Book(tuple(known) if heard else (), sure=session is not None))
        known += book.calls
        traces.append(_Trace(tree, book, session))
    # Only now: what a later trace repeats may hold the answer to a call of an earlier one.
    return [_run_of(trace, handoff_names, Notes(tolerant=tolerant)) for trace in traces], said


def _at_work(tree: Tree) -> bool:
    """Return whether a trace shows an agent, by its spans or by calls in the messages of whatever lies around."""
    spoken = (said for span in tree.spans for said in (*span.asked, *(span.said or ())))
    return bool(tree.of_kind("model", "agent", "tool")) or any(said.requests for said in spoken)


def _book_of(tree: Tree, book: Book) -> Book:
    """Return a book with the calls of a trace: first what models answered, then what the rest adds."""
    inner = _asked_models(tree)
    outer = [span for span in tree.of_kind("model") if span not in inner]
    for span in inner:
        book.answered(span)
    for span in inner:
        book.repeated(span, span.asked)
    captured = any(span.said is not None for span in inner)
    around = [*tree.of_kind("agent"), *outer] if captured else [span for span in tree.spans if span not in inner]
    for span in sorted(around, key=lambda span: span.order):
        if span.kind == "model" and captured:  # what it answered is what a model inside of it did, maybe an earlier one
            book.repeated(span, span.asked)
            book.repeated(span, span.said or ())
        elif span.kind != "tool":
            for history in _histories_around(span):
                book.repeated(span, history)
    for span in tree.of_kind("tool"):
        book.ran(span)
    book.settle()
    book.infer(inner)
    for span in tree.of_kind("handoff"):
        book.handed_over(span)
    return book


def _histories_around(span: Span) -> list[list[Said]]:
    """Return what went in and came out as one history; as two, if what came out begins anew with the user's words."""
    said = span.said or []
    return [span.asked, said] if any(one.who == "user" for one in said) else [[*span.asked, *said]]


def _asked_models(tree: Tree) -> list[Span]:
    """Return the models of a trace without the outer sides of others."""
    models = tree.of_kind("model")
    outer = _outer_sides(models)
    return [span for span in models if span not in outer]


def _outer_sides(models: list[Span]) -> set[Span]:
    """Return the models that are the outer side of another that tells as much: a wrapper of the call of the API."""
    outer: set[Span] = set()
    for span in models:
        around = span.around
        while around is not None and around not in outer:
            if span.said is not None or around.said is None:
                outer.add(around)
            around = around.around
    return outer


def _run_of(trace: _Trace, handoff_names: frozenset[str], notes: Notes) -> Run:
    """Return the run that a trace shows; what is doubtful goes into its warnings."""
    tree, book = trace.tree, trace.book
    for call in book.calls:
        handoff = bool(call.handoff_to) or call.request.name in handoff_names
        call.request = _readable(call.request, notes, handoff=handoff)
    builder = RunBuilder(run_id=tree.spans[0].trace or None, conversation_id=trace.session)
    _tell_warnings(trace, builder)
    offered = _tell_models(tree, builder)
    by_scope: dict[int, list[Message | Span]] = defaultdict(list)
    for message in book.messages:
        if message.calls:
            by_scope[id(message.span.scope)].append(message)
    for span in book.loose:
        by_scope[id(span.scope)].append(span)
    waiting: list[Span | None] = [None]
    while waiting:
        scope = waiting.pop(0)
        entries = sorted(by_scope.get(id(scope), ()), key=_order)
        for entry in entries:
            if isinstance(entry, Span):
                waiting += _tell_code(entry, builder, scope)
            else:
                waiting += _tell(entry, builder, scope, offered if scope is None else frozenset())
    for text in notes.warnings:
        builder.warn(text)
    _tell_end(trace, builder)
    return builder.build()


def _readable(request: Request, notes: Notes, *, handoff: bool) -> Request:
    """Return a request as it is told: arguments that are no object are repaired, if that is asked for, or invalid."""
    raw, path = request.arguments, request.source or "$"
    if not request.name:
        notes.warn(path, "a call needs the name of its tool; it is kept as '(unnamed)'")
    request = replace(request, name=request.name or "(unnamed)", handoff=handoff)
    if not isinstance(raw, str):
        return request
    meant = repair_arguments(raw, request.name, path, notes)
    if meant is not None:
        return replace(request, arguments=meant, raw=raw, error=None)
    notes.warn(path, f"the arguments of {request.name!r} are not a JSON object ({request.error}); they count as {{}}")
    return request


def _order(entry: Message | Span) -> tuple[datetime, int, int]:
    return entry.order if isinstance(entry, Message) else (*entry.order, 0)


def _key(scope: Span | None) -> str | None:
    return None if scope is None else scope.id


def _tell(message: Message, builder: RunBuilder, scope: Span | None, offered: frozenset[str]) -> list[Span]:
    """Tell a message with what became of its calls; return the tools that ran.

    Args:
        message: The message.
        builder: Is told.
        scope: The tool inside of which it was said.
        offered: Names of the tools that models could choose from there; empty if not known.
    """
    builder.model_asked([call.request for call in message.calls], scope=_key(scope), agent=message.span.agent_name)
    ran: list[Span] = []
    for call in message.calls:
        for span in call.runs:
            _tell_tool(span, builder, scope, call=call)
            ran.append(span)
        if call.handoff_to is not None:
            builder.handed_off(to=call.handoff_to, request=call.source)
        shown = call.shown
        if shown is not None and (shown.content is not ABSENT or not call.runs):
            builder.result_shown(
                shown.content,
                call_id=call.request.id,
                name=call.request.name,
                failed=shown.failed,
                error=shown.error,
                unknown_tool=bool(offered) and _is_unknown(call.request, offered),
                scope=_key(scope),
                reformatted=bool(call.runs) and call.runs[-1].result is not ABSENT,
                ran=shown.ran,
                read=True,
                request=call.source,
            )
    return ran


def _is_unknown(request: Request, offered: frozenset[str]) -> bool:
    """Return whether no tool of this name was offered, so that what the model was shown can only say so."""
    provided = request.type in (ToolCallType.HOSTED, ToolCallType.MCP)
    return request.name not in offered and not request.handoff and not provided


def _tell_code(span: Span, builder: RunBuilder, scope: Span | None) -> list[Span]:
    _tell_tool(span, builder, scope)
    return [span]


def _tell_tool(span: Span, builder: RunBuilder, scope: Span | None, *, call: Call | None = None) -> None:
    arguments = span.arguments
    builder.tool_started(
        span.id,
        span.tool,
        arguments if isinstance(arguments, dict) else None,
        call_id=span.call_id if call is None else call.request.id or span.call_id,
        scope=_key(scope),
        agent=span.agent_name,
        type=span.type,
        server=span.server,
        at=span.started_at,
        request=None if call is None else call.source,
        source=span.ref,
    )
    if span.error is not None:
        builder.tool_failed(span.id, span.error, at=span.ended_at)
    else:
        builder.tool_ended(span.id, span.result, error=_failure(span) if span.result_failed else None, at=span.ended_at)


def _failure(span: Span) -> str:
    return span.result if isinstance(span.result, str) and span.result else "failed"


def _tell_models(tree: Tree, builder: RunBuilder) -> frozenset[str]:
    """Tell which models answered at which price, and which tools they could choose from; return the names of all."""
    models = _asked_models(tree)
    for span in models:
        builder.model_used(span.model, span.usage)
    asked = [span for span in models if span.scope is None]
    # Where the tools of some are not known, others than these may have been offered.
    every = bool(asked) and all(span.offered or (span.within and span.within.offered) for span in asked)
    names: set[str] = set()
    for span in tree.of_kind("model", "agent"):
        if span.offered and span.scope is None:
            specs, all_known = offered_tools("openai-chat", span.offered)
            builder.offered(specs, all_known=all_known and every)
            names |= {spec.name for spec in specs}
            every = every and all_known
    return frozenset(names) if every else frozenset()


def _tell_warnings(trace: _Trace, builder: RunBuilder) -> None:
    tree, book, notes = trace.tree, trace.book, Notes()
    notes.warn_once(tree.lost, "the span around it is not here, so the trace may not be whole")
    for span in tree.spans:
        for doubt in span.doubts:
            builder.warn(doubt)
    seen_before = [call.source for call in book.from_history]
    notes.warn_once(seen_before, "the call stands only in what a model was given, before the user's last words")
    notes.warn_once(book.lost_answers, "answers a call that nothing in the trace shows; it was left out")
    _tell_silence(trace, notes)
    if tree.too_deep:
        builder.warn(f"tools lie more than {DEEPEST} deep inside each other; what lies deeper is kept at that depth")
    for text in notes.warnings:
        builder.warn(text)


def _tell_silence(trace: _Trace, notes: Notes) -> None:
    """Tell of models that may have asked for calls which nothing shows."""
    tree, models = trace.tree, _asked_models(trace.tree)
    wanting = [span for span in models if span.wants_tools]
    shown = [message for message in trace.book.messages if message.calls]
    if len(wanting) > len(shown):
        told = {id(message.span) for message in shown}
        places = [span.path for span in wanting if id(span) not in told]
        notes.warn_once(
            places, "the model asked for tools, but nothing in the trace shows which; these calls are missing"
        )
    agents = tree.of_kind("agent")
    talks = any({"user", "model"} <= {said.who for said in span.said or ()} for span in agents)
    if agents and not talks and not trace.book.calls and not tree.of_kind("model", "tool", "handoff"):
        places = [span.path for span in agents]
        notes.warn_once(places, "nothing shows what the models of the agent said, or its tools; calls may be missing")
    if tree.of_kind("tool", "agent", "handoff"):  # whoever traces agents traces their tools too
        return
    heard = [span for span in models if span.asked]
    silent = [span for span in models if span.said is None and span.wants_tools is None and span.error is None]
    places = [span.path for span in silent if not any(later.order > span.order for later in heard)]
    notes.warn_once(places, "nobody kept what the model answered; calls that it asked for may be missing")


def _tell_end(trace: _Trace, builder: RunBuilder) -> None:
    """Tell what the run was asked and answered, and how it ended."""
    tree, book = trace.tree, trace.book
    models = [span for span in _asked_models(tree) if span.scope is None]
    asked = _first_words([span.asked for span in models], -1)
    outside = [*tree.roots, *tree.of_kind("agent")]
    given = asked or next((span.given for span in outside if span.given), None)
    answers = [text for span in models[-1:] if (text := final_text(span.said or []) or _words_after_tools(span, book))]
    gave = next(iter(answers), None) or next((span.gave for span in outside if span.gave), None)
    builder.started(given, at=tree.spans[0].started_at)
    builder.labelled(metadata={"span_id": tree.roots[0].id})
    for span in tree.spans:
        builder.labelled(tags=span.tags)
    ends = [span.ended_at for span in tree.spans if span.ended_at is not None]
    error = next((span.error for span in tree.roots if span.error is not None), None)
    open_calls = book.messages and not any(
        call.runs or call.shown or call.handoff_to for call in max(book.messages, key=lambda one: one.order).calls
    )
    if error is not None:
        builder.ended(None, status=RunStatus.ERROR, error=error, at=max(ends, default=None))
    elif gave is None and open_calls:
        builder.ended(None, status=RunStatus.STOPPED, at=max(ends, default=None))
    else:
        builder.ended(gave, at=max(ends, default=None))


def _words_after_tools(model: Span, book: Book) -> str | None:
    """Return the words of a model inside of which its tools ran, so that they are told with the calls and come last."""
    calls = [call for message in book.messages if message.span is model for call in message.calls]
    if not calls or not all(any(run.around is model for run in call.runs) for call in calls):
        return None
    return next((said.text for said in reversed(model.said or []) if said.who == "model" and said.text), None)


def _first_words(histories: list[list[Said]], which: int) -> str | None:
    """Return the user's words in the first history that has any: the first of them, or (`which` -1) the last."""
    for history in histories:
        words = [said.text for said in history if said.who == "user" and said.text]
        if words:
            return words[which]
    return None
