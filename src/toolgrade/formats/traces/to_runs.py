"""Runs of agents from the spans of any tracer.

A `CallLedger` finds the calls of each trace. They are passed to a `RunBuilder` as any recorder would do it: requests in
the order of the models' messages, the tool runs for each, and the answers that the models received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, filterfalse
from operator import attrgetter

from toolgrade._internal.message_content import text_of
from toolgrade.calls import ToolSpec
from toolgrade.capture import Outcome, Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.message import RUN_BY_PROVIDER, Answer
from toolgrade.formats.messages.offered_tools import offered_tools
from toolgrade.formats.traces.call_ledger import CallBatch, CallLedger, LedgerCall
from toolgrade.formats.traces.deduplicate import drop_copies_without_reply, repeated_traces
from toolgrade.formats.traces.messages import (
    TraceMessage,
    final_text,
    last_input,
    last_text,
    requests_in,
    speakers_of,
    texts_of,
)
from toolgrade.formats.traces.span_tree import MAX_TOOL_DEPTH, Span, SpanKind, Tree, tree_of
from toolgrade.formats.traces.tracers import TRACERS
from toolgrade.formats.traces.tracers.tracer import NO_OUTPUT
from toolgrade.matching.json_compare import ABSENT


@dataclass
class _Trace:
    """One trace with its models, its calls and its session; it may end with a wait for a person."""

    tree: Tree
    models: list[Span]
    ledger: CallLedger
    session: str | None
    waits: bool = False

    @property
    def outer_models(self) -> list[Span]:
        """The models that do not work for a tool."""
        return [span for span in self.models if span.scope is None]

    @property
    def outermost(self) -> list[Span]:
        """The roots, and all agents."""
        return [*self.tree.roots, *self.tree.of_kind("agent")]


def _first(texts: Iterable[str | None]) -> str | None:
    """Return the first text that is not empty."""
    return next(filter(None, texts), None)


def runs_of(spans: Iterable[Span], handoff_names: frozenset[str] = frozenset()) -> tuple[list[Run], list[str]]:
    """Return a run for each trace with a model, an agent or a tool, in the order of their start.

    Args:
        spans: The spans of all traces, in any order.
        handoff_names: Names of tools that hand over to another agent.

    Returns:
        The runs, and warnings about the traces that were left out.
    """
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        groups[span.trace].append(span)
    notes, trees = Notes(), list(map(tree_of, groups.values()))
    for tracer in TRACERS:
        for tree in trees:
            tracer.clean(tree)
    idle = list(filterfalse(_has_agent, trees))
    trees = _leave_out(idle, trees, "show no model, agent or tool", notes)
    drop_copies_without_reply(trees)
    trees = _leave_out(repeated_traces(trees), trees, "repeat requests to models of other traces", notes)
    trees.sort(key=lambda tree: tree.spans[0].order[0])
    earlier: dict[tuple[str | None, str | None], list[LedgerCall]] = defaultdict(list)
    traces = [_read_trace(tree, earlier) for tree in trees]
    # All traces are read before the first run is built: a later trace may hold the answer to an earlier call.
    runs = [_build_run(trace, handoff_names, Notes()) for trace in traces]
    return runs, notes.warnings


def _has_agent(tree: Tree) -> bool:
    """Return whether a trace shows an agent: by the kinds of its spans, or by calls in any messages."""
    if tree.of_kind("model", "agent", "tool"):
        return True
    return any(requests_in([*span.prompt, *span.reply_messages]) for span in tree.spans)


def _leave_out(trees: list[Tree], all_trees: list[Tree], reason: str, notes: Notes) -> list[Tree]:
    """Return the other trees, with one warning about those that are left out."""
    if trees:
        notes.warn(trees[0].spans[0].path, f"{len(trees)} of the traces {reason}; left out")
    left_out = set(trees)
    return [tree for tree in all_trees if tree not in left_out]


def _read_trace(tree: Tree, earlier: dict[tuple[str | None, str | None], list[LedgerCall]]) -> _Trace:
    """Return a trace with its calls, which are also added to the earlier ones of its conversation."""
    models = _innermost_models(tree)
    _mark_waits(tree)
    session, first_text = _conversation_of(tree, models)
    conversation = earlier[session, first_text]
    # Where no words were captured, every trace has the same key. A call of a history is then an earlier trace's only
    # if no model here can have made it.
    shows_all = all(model.reply is not None or model.model_call.stopped_for_tools is False for model in models)
    is_identified = session or first_text or shows_all
    ledger = CallLedger(conversation if is_identified else (), same_session=session is not None)
    _fill_ledger(ledger, tree, models)
    conversation += ledger.calls
    trace = _Trace(tree, models, ledger, session)
    trace.waits = _waits(trace)
    for call in ledger.calls:
        call.waits = trace.waits and (call.is_open or call.is_suspended)
    return trace


def _waits(trace: _Trace) -> bool:
    """Return whether a trace ends with a wait for a person: of a tool, or of a graph after which no model began."""
    # A provider asks for approval in its reply, to which the next request has the answer.
    last = max(trace.ledger.batches, key=attrgetter("order"), default=None)
    if last is not None and last.span in trace.outer_models[-1:] and any(call.needs_approval for call in last.calls):
        return True
    tools = {call.runs[-1] for call in trace.ledger.calls if call.is_suspended} | {*trace.ledger.runs_without_request}
    waiting = [span for span in trace.tree.spans if span.waits and span.scope is None]
    return any(span in tools if span.kind == "tool" else _is_last(span, trace) for span in waiting)


def _is_last(graph: Span, trace: _Trace) -> bool:
    """Return whether no model began after a graph."""
    end = graph.ended_at
    return trace.tree.roots == [graph] or end is None or all(span.order[0] <= end for span in trace.outer_models)


def _mark_waits(tree: Tree) -> None:
    """Mark tools of the OpenAI Agents SDK that wait for approval: without output, the last step of their agent."""
    last_steps = {span.within: span.order for span in tree.of_kind("model", "handoff")}
    for span in tree.of_kind("tool"):
        if span.tool_run.status == NO_OUTPUT and span.within is not None and not (span.error or span.within.error):
            span.interrupted = last_steps.get(span.within, span.order) <= span.order


def conversation_key(spans: Iterable[Span]) -> tuple[str | None, str | None]:
    """Return what the traces of one conversation share, given the spans of one trace: a session, or first words."""
    tree = tree_of(spans)
    return _conversation_of(tree, _innermost_models(tree))


def _conversation_of(tree: Tree, models: list[Span]) -> tuple[str | None, str | None]:
    session = _first(span.session for span in tree.spans)
    return session, None if session else _first_words(tree, models)


def _fill_ledger(ledger: CallLedger, tree: Tree, models: list[Span]) -> None:
    """Add the calls of a trace: replies of models first, since every other record only repeats or completes them."""
    for span in models:
        ledger.add_reply(span)
    for span in models:
        ledger.add_history(span, span.prompt)
    for span, messages in _outer_histories(tree, models):
        ledger.add_history(span, messages)
    for span in tree.of_kind("tool"):
        ledger.add_run(span)
    ledger.finish(models)
    for span in tree.of_kind("handoff"):
        ledger.add_handoff(span)


def _first_words(tree: Tree, models: list[Span]) -> str | None:
    """Return the user's first words, which identify the conversation of a trace without a session."""
    histories = [span.prompt for span in (*models, *tree.spans)]
    histories += [span.reply_messages for span in tree.of_kind("agent")]
    return _first(texts_of(chain(*histories), "user"))


def _outer_histories(tree: Tree, models: list[Span]) -> Iterator[tuple[Span, list[TraceMessage]]]:
    """Yield the histories of spans around these models, each with its span."""
    has_replies = any(span.reply is not None for span in models)
    kinds: tuple[SpanKind, ...] = ("agent", "model") if has_replies else ("agent", "model", "handoff", "other")
    innermost = set(models)
    for span in filterfalse(innermost.__contains__, tree.of_kind(*kinds)):
        reply = span.reply_messages
        # The reply of an outer model repeats those of the models inside of it, maybe not the last one. The output of an
        # agent or chain may repeat its input; otherwise the two are one history.
        if span.kind == "model" or "user" in speakers_of(reply):
            yield span, span.prompt
            yield span, reply
        else:
            yield span, [*span.prompt, *reply]


def _innermost_models(tree: Tree) -> list[Span]:
    """Return the models of a trace without those that only wrap another one, such as a framework around a client.

    A wrapper with a reply counts itself, if the model inside has none.
    """
    models = tree.of_kind("model")
    wrappers = _models_around(span for span in models if span.reply is not None)
    wrappers.update(span for span in _models_around(models) if span.reply is None)
    return list(filterfalse(wrappers.__contains__, models))


def _models_around(models: Iterable[Span]) -> set[Span]:
    """Return all models around these."""
    outer_models: set[Span] = set()
    for span in models:
        outer = span.around
        while outer is not None and outer not in outer_models:
            outer_models.add(outer)
            outer = outer.around
    return outer_models


def _build_run(trace: _Trace, handoff_names: frozenset[str], notes: Notes) -> Run:
    _validate_requests(trace.ledger, handoff_names, notes)
    builder = RunBuilder(run_id=trace.tree.spans[0].trace or None, conversation_id=trace.session)
    for warning in _warnings(trace):
        builder.warn(warning)
    for span in trace.models:
        builder.model_used(span.model_call.model, span.model_call.usage)
    _record_batches(trace.ledger, builder, _record_offered_tools(trace, builder))
    for warning in notes.warnings:
        builder.warn(warning)
    for span in trace.tree.of_kind("model", "agent"):
        messages = () if span.scope else [*span.instructions, *span.prompt, *span.reply_messages]
        for text in texts_of(messages, "system"):
            builder.instructed(text)
    _record_input(trace, builder)
    builder.labelled(metadata={"span_id": trace.tree.roots[0].id})
    for span in trace.tree.spans:
        builder.labelled(tags=span.tags)
    _record_end(trace, builder)
    return builder.build()


def _validate_requests(ledger: CallLedger, handoff_names: frozenset[str], notes: Notes) -> None:
    """Complete the request of each call, with a warning where it has no name, or arguments that are not an object."""
    for call in ledger.calls:
        request = call.request
        if not request.name:
            notes.warn(call.source, "a call needs the name of its tool; it is recorded as '(unnamed)'")
        name = request.name or "(unnamed)"
        if isinstance(request.arguments, str):
            reason = f"({request.error}); they count as {{}}"
            notes.warn(call.source, f"the arguments of {name!r} are not a JSON object {reason}")
        is_handoff = request.handoff or call.handoff_to is not None or name in handoff_names
        call.request = replace(request, name=name, handoff=is_handoff)


def _record_batches(ledger: CallLedger, builder: RunBuilder, offered: Collection[str]) -> None:
    """Record all messages of models with the runs and answers of their calls, and the runs that a program started.

    `offered` has the names of all tools that the outer models could choose from; it is empty if they are not known.
    """
    # A tool run that a program started is a batch without calls.
    code_runs = [CallBatch(span, (*span.order, True, 0)) for span in ledger.runs_without_request]
    batches: dict[Span | None, list[CallBatch]] = defaultdict(list)
    for batch in sorted([*ledger.batches, *code_runs], key=attrgetter("order")):
        batches[batch.span.scope].append(batch)
    # The builder must know a tool run before the calls inside of it.
    queue = batches.pop(None, [])
    for batch in queue:
        if batch.calls:
            _record_message(batch, builder, () if batch.span.scope else offered)
        else:
            _record_tool(batch.span, builder, batch.scope_id)
        for run in batch.runs or [batch.span]:
            queue += batches.pop(run, [])


def _record_message(batch: CallBatch, builder: RunBuilder, offered: Collection[str]) -> None:
    """Record a message of a model, and what came of its calls: runs, hand-offs and answers."""
    requests = [call.request for call in batch.calls]
    builder.model_asked(requests, scope=batch.scope_id, agent=batch.span.agent_name)
    for call in batch.calls:
        # A later history may hold the answer to a run that was not traced to its end.
        for span in [run for run in call.runs if call.answer is None or not run.waits]:
            _record_tool(span, builder, batch.scope_id, call.request)
        if call.handoff_to is not None:
            builder.handed_off(to=call.handoff_to, request=call.request)
        if call.answer is not None:
            _record_answer(call, call.answer, builder, offered)


def _record_answer(call: LedgerCall, answer: Answer, builder: RunBuilder, offered: Collection[str]) -> None:
    """Record the answer to a call, unless it only repeats that the tool ran."""
    if answer.content is ABSENT and call.runs:
        return
    builder.result_shown(
        answer.content,
        failed=answer.failed,
        error=answer.error,
        unknown_tool=_is_unknown(call.request, offered),
        reformatted=any(run.tool_run.result is not ABSENT for run in call.runs[-1:]),
        ran=answer.ran,
        read=True,
        request=call.request,
    )


def _is_unknown(request: Request, offered: Collection[str]) -> bool:
    """Return whether no tool of this name was offered. The answer to such a call can only say so."""
    if not offered or request.name in offered:
        return False
    return not request.handoff and request.type not in RUN_BY_PROVIDER


def _record_tool(span: Span, builder: RunBuilder, scope: str | None, request: Request | None = None) -> None:
    """Record a tool run, for a request of a model or, without one, for the program itself."""
    run = span.tool_run
    if request is not None and run.status == "unknown_tool":  # it is only a result
        builder.result_shown(run.result, failed=True, error=span.error, unknown_tool=True, request=request)
        return
    request = request or Request(run.tool, id=run.call_id, source=span.ref)
    if not request.name:
        builder.warn("a call without the name of a tool was recorded as '(unnamed)'")
    builder.tool_started(
        span.id,
        ToolSpec(name=request.name or "(unnamed)", type=run.type, server=run.server),
        run.arguments if isinstance(run.arguments, dict) else None,
        request=request,
        call_id=run.call_id,
        scope=scope,
        agent=span.agent_name,
        at=span.started_at,
    )
    if run.status == "cancelled":
        builder.tool_failed(span.id, span.error, outcome=Outcome.CANCELLED, at=span.ended_at)
    elif span.waits:
        builder.tool_failed(span.id, None, outcome=Outcome.SUSPENDED, at=span.ended_at)
    elif span.error is not None:
        builder.tool_failed(span.id, span.error, at=span.ended_at)
    else:
        failure = (text_of(run.result) or "failed") if run.failed else None
        builder.tool_ended(span.id, run.result, error=failure, at=span.ended_at)


def _record_offered_tools(trace: _Trace, builder: RunBuilder) -> set[str]:
    """Record the offered tools; return their names if all of them are known."""
    models = trace.outer_models
    # If neither a model nor the agent around it has a list of tools, it may have been offered others than these.
    is_complete = models != [] and all(model.offered or (model.within and model.within.offered) for model in models)
    names: set[str] = set()
    for span in trace.tree.of_kind("model", "agent"):
        if span.scope is None:
            specs, all_known = offered_tools("openai-chat", span.offered)
            is_complete &= all_known
            builder.offered(specs, all_known=is_complete)
            names.update(spec.name for spec in specs)
    return names if is_complete else set()


def _warnings(trace: _Trace) -> list[str]:
    tree, ledger, notes = trace.tree, trace.ledger, Notes()
    notes.warnings += chain(*(span.doubts for span in tree.spans))
    notes.warn_once(tree.orphans, "the parent span is missing; the trace may be incomplete")
    notes.warn_once(ledger.history_calls, "the call is only in a model's history, before the user's last message")
    notes.warn_once(ledger.lost_answers, "answers a call that the trace does not show; left out")
    message = "the model stopped to call tools, but the trace does not show the calls"
    notes.warn_once(_models_without_calls(trace), message)
    notes.warn_once(_agents_without_spans(trace), "the agent has no spans of models or tools; calls may be missing")
    if not tree.of_kind("tool", "agent", "handoff"):  # a tracer of agents traces their tools too
        places = _places_without_reply(trace.models)
        notes.warn_once(places, "the reply of the model was not captured; calls in it may be missing")
    if tree.too_deep:
        deepest = f"tools are nested more than {MAX_TOOL_DEPTH} deep; deeper ones are recorded at that depth"
        notes.warnings.append(deepest)
    return notes.warnings


def _models_without_calls(trace: _Trace) -> list[str]:
    """Return the models that stopped to have tools called, if the trace lacks calls of some of them."""
    stopped = [span for span in trace.models if span.model_call.stopped_for_tools]
    batches = trace.ledger.batches
    # Calls of a model may be inferred under another span, so only a lack of batches shows that some are missing.
    if len(stopped) <= len(batches):
        return []
    spans = {batch.span for batch in batches}
    return [span.path for span in stopped if span not in spans]


def _agents_without_spans(trace: _Trace) -> list[str]:
    """Return the agents of a trace that shows none of their calls and models."""
    agents = trace.tree.of_kind("agent")
    # The reply of an agent may be a whole conversation.
    has_conversation = any({"user", "model"} <= speakers_of(span.reply_messages) for span in agents)
    if has_conversation or trace.ledger.batches or trace.tree.of_kind("model", "tool", "handoff"):
        return []
    return [span.path for span in agents]


def _places_without_reply(models: list[Span]) -> list[str]:
    """Return the models of which nothing shows how they replied, unless a later model received the history."""
    places: list[str] = []
    for span in reversed(models):
        if span.reply is None and span.model_call.stopped_for_tools is None and span.error is None:
            places.append(span.path)
        if span.prompt:
            break
    return places[::-1]


def _record_input(trace: _Trace, builder: RunBuilder) -> None:
    """Record the user's last words in the first history, else the input of the outermost span."""
    at = trace.tree.spans[0].started_at
    messages = (last_input(span.prompt) for span in [*trace.outer_models, *trace.outermost])
    message = next(filter(None, messages), None)
    if message is not None and message.parts is not None:
        builder.started(message.text, parts=message.parts, at=at)
        return
    texts = _first(last_text(model.prompt, "user") for model in trace.outer_models)
    builder.started(texts or _first(map(attrgetter("input_text"), trace.outermost)), at=at)


def _record_end(trace: _Trace, builder: RunBuilder) -> None:
    """Record the output of the run, and how it ended."""
    tree = trace.tree
    end = max(filter(None, map(attrgetter("ended_at"), tree.spans)), default=None)
    text = _final_text(trace.outer_models[-1], trace.ledger) if trace.outer_models else None
    output = text or _first(map(attrgetter("output_text"), trace.outermost))
    # Some tracers mark the request or the agent that failed, and not the workflow around them.
    failed = [*tree.roots, *([] if output else [*trace.outer_models[-1:], *tree.of_kind("agent")])]
    error = _first(span.error for span in failed if span.scope is None and not span.waits)
    if error is not None or trace.waits:
        status = RunStatus.INTERRUPTED if error is None else RunStatus.ERROR
        builder.ended(None, status=status, error=error, at=end)
        return
    is_stopped = output is None and _has_open_calls(trace.ledger)
    builder.ended(output, status=RunStatus.STOPPED if is_stopped else RunStatus.OK, at=end)


def _has_open_calls(ledger: CallLedger) -> bool:
    """Return whether no call of the last message of a model ran, was answered or handed over."""
    last = max(ledger.batches, key=attrgetter("order"), default=None)
    return last is not None and all(call.is_open for call in last.calls)


def _final_text(model: Span, ledger: CallLedger) -> str | None:
    """Return the final text of a model, also where its one reply has both the calls and that text."""
    text = final_text(model.reply_messages)
    calls = [call for call in ledger.calls if call.batch.span is model]
    # The tools of such a reply ran inside of the model's span.
    if not text and calls and all(any(run.around is model for run in call.runs) for call in calls):
        return last_text(model.reply_messages, "model")
    return text
