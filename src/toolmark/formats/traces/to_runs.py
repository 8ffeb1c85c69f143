"""Runs of agents from the spans of any tracer.

A `CallLedger` finds the calls of each trace. They are passed to a `RunBuilder` as any recorder would do it: requests in
the order of the models' messages, the tool runs for each, and the answers that the models received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from toolmark.calls import ToolCallType
from toolmark.capture import Request, RunBuilder
from toolmark.cases import Run, RunStatus
from toolmark.formats.messages.field_readers import Notes, text_of
from toolmark.formats.messages.lenient_arguments import repair_arguments
from toolmark.formats.messages.offered_tools import offered_tools
from toolmark.formats.traces.call_ledger import Call, CallBatch, CallLedger
from toolmark.formats.traces.deduplicate import drop_silent_copies, repeated_traces
from toolmark.formats.traces.span_tree import MAX_TOOL_DEPTH, Span, SpanKind, Tree, tree_of
from toolmark.formats.traces.trace_messages import final_text, last_text, requests_in, texts_of
from toolmark.matching.json_compare import ABSENT


@dataclass
class _Trace:
    """One trace with its models, its calls and its session; `outer_models` do not work for a tool."""

    tree: Tree
    models: list[Span]
    outer_models: list[Span]
    ledger: CallLedger
    session: str | None


def runs_of(
    spans: Iterable[Span], handoff_names: frozenset[str] = frozenset(), *, tolerant: bool = False
) -> tuple[list[Run], list[str]]:
    """Return a run for each trace with a model, an agent or a tool, in the order of their start.

    Args:
        spans: The spans of all traces, in any order.
        handoff_names: Names of tools that hand over to another agent.
        tolerant: Read arguments that are not a JSON object leniently, see `lenient_arguments`.

    Returns:
        The runs, and warnings about the traces that were left out.
    """
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        groups[span.trace].append(span)
    notes, trees = Notes(), list(map(tree_of, groups.values()))
    idle = [tree for tree in trees if not _has_agent(tree)]
    trees = _leave_out(idle, trees, "show no model, agent or tool", notes)
    drop_silent_copies(trees)
    trees = _leave_out(repeated_traces(trees), trees, "repeat requests to models of other traces", notes)
    trees.sort(key=lambda tree: tree.spans[0].order[0])
    earlier: dict[tuple[str | None, str | None], list[Call]] = defaultdict(list)
    traces = [_read_trace(tree, earlier) for tree in trees]
    # All traces are read before the first run is built: a later trace may hold the answer to an earlier call.
    runs = [_build_run(trace, handoff_names, Notes(tolerant=tolerant)) for trace in traces]
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


def _read_trace(tree: Tree, earlier: dict[tuple[str | None, str | None], list[Call]]) -> _Trace:
    """Return a trace with its calls, which are also added to the earlier ones of its conversation."""
    models = _innermost_models(tree)
    session = next(filter(None, (span.session for span in tree.spans)), None)
    first_text = None
    if session is None:  # then the user's first words identify the conversation
        histories = [span.prompt for span in (*models, *tree.spans)]
        histories += [span.reply_messages for span in tree.of_kind("agent")]
        first_text = next(iter(texts_of(chain(*histories), "user")), None)
    conversation = earlier[session, first_text]
    # Where no words were captured, every trace has the same key. A call of a history is then an earlier trace's only
    # if no model here can have made it.
    is_complete = all(model.reply is not None or model.model_call.stopped_for_tools is False for model in models)
    is_identified = session or first_text or is_complete
    ledger = CallLedger(conversation if is_identified else (), same_session=session is not None)
    _fill_ledger(ledger, tree, models)
    conversation += ledger.calls
    return _Trace(tree, models, [span for span in models if span.scope is None], ledger, session)


def _fill_ledger(ledger: CallLedger, tree: Tree, models: list[Span]) -> None:
    """Add the calls of a trace: replies of models first, since every other record only repeats or completes them."""
    for span in models:
        ledger.add_reply(span)
    for span in models:
        ledger.add_history(span, span.prompt)
    has_replies, innermost = any(span.reply is not None for span in models), set(models)
    kinds: tuple[SpanKind, ...] = ("agent", "model") if has_replies else ("agent", "model", "handoff", "other")
    for span in tree.of_kind(*kinds):
        if span in innermost:
            continue
        reply = span.reply_messages
        # The reply of an outer model repeats those of the models inside of it, maybe not the last one. The output of an
        # agent or chain may repeat its input; otherwise the two are one history.
        repeats = span.kind == "model" and has_replies
        if repeats or any(message.speaker == "user" for message in reply):
            ledger.add_history(span, span.prompt)
            ledger.add_history(span, reply)
        else:
            ledger.add_history(span, [*span.prompt, *reply])
    for span in tree.of_kind("tool"):
        ledger.add_run(span)
    ledger.settle()
    ledger.infer_requests(models)
    for span in tree.of_kind("handoff"):
        ledger.add_handoff(span)


def _innermost_models(tree: Tree) -> list[Span]:
    """Return the models of a trace without those that only wrap another one, such as a framework around a client.

    A wrapper with a reply counts itself, if the model inside has none.
    """
    models = tree.of_kind("model")
    wrappers: set[Span] = set()
    for span in models:
        outer = span.around
        while outer is not None and outer not in wrappers:
            if span.reply is not None or outer.reply is None:
                wrappers.add(outer)
            outer = outer.around
    return [span for span in models if span not in wrappers]


def _build_run(trace: _Trace, handoff_names: frozenset[str], notes: Notes) -> Run:
    tree, ledger = trace.tree, trace.ledger
    for call in ledger.calls:
        is_handoff = call.handoff_to is not None or call.request.name in handoff_names
        call.request = _with_valid_fields(replace(call.request, handoff=is_handoff), notes)
    builder = RunBuilder(run_id=tree.spans[0].trace or None, conversation_id=trace.session)
    for warning in _warnings(trace):
        builder.warn(warning)
    offered = _record_models(trace, builder)
    entries: dict[Span | None, list[CallBatch]] = defaultdict(list)
    code_runs = [CallBatch(span, (*span.order, 0)) for span in ledger.runs_without_request]
    for batch in (*ledger.batches, *code_runs):
        entries[batch.span.scope].append(batch)
    # The builder must know a tool run before the calls inside of it.
    scopes: list[Span | None] = [None]
    while scopes:
        scope = scopes.pop(0)
        for batch in sorted(entries[scope], key=attrgetter("order")):
            scopes += _record_batch(batch, builder, () if scope else offered)
    for warning in notes.warnings:
        builder.warn(warning)
    _record_end(trace, builder)
    return builder.build()


def _with_valid_fields(request: Request, notes: Notes) -> Request:
    """Return a request with a name, and with arguments that are repaired if that was asked for, or else invalid."""
    arguments, path = request.arguments, request.source or "$"
    if not request.name:
        notes.warn(path, "a call needs the name of its tool; it is recorded as '(unnamed)'")
        request = replace(request, name="(unnamed)")
    if not isinstance(arguments, str):
        return request
    repaired_arguments = repair_arguments(arguments, request.name, path, notes)
    if repaired_arguments is not None:
        return replace(request, arguments=repaired_arguments, raw=arguments, error=None)
    message = f"the arguments of {request.name!r} are not a JSON object ({request.error}); they count as {{}}"
    notes.warn(path, message)
    return request


def _record_batch(batch: CallBatch, builder: RunBuilder, offered: Collection[str]) -> list[Span]:
    """Record a message of a model with the runs and answers of its calls; return the runs.

    A batch without calls is a tool run that the program started itself. `offered` has the names of all tools that the
    model could choose from; it is empty if they are not known.
    """
    scope = batch.span.scope.id if batch.span.scope else None
    if not batch.calls:
        _record_tool(batch.span, builder, scope)
        return [batch.span]
    builder.model_asked([call.request for call in batch.calls], scope=scope, agent=batch.span.agent_name)
    for call in batch.calls:
        for span in call.runs:
            _record_tool(span, builder, scope, call.request.id, call.source)
        if call.handoff_to is not None:
            builder.handed_off(to=call.handoff_to, request=call.source)
        answer = call.answer
        if answer is None or (answer.content is ABSENT and call.runs):
            continue
        builder.result_shown(
            answer.content,
            call_id=call.request.id,
            name=call.request.name,
            failed=answer.failed,
            error=answer.error,
            unknown_tool=_is_unknown(call.request, offered),
            scope=scope,
            reformatted=bool(call.runs) and call.runs[-1].tool_run.result is not ABSENT,
            ran=answer.ran,
            read=True,
            request=call.source,
        )
    return [span for call in batch.calls for span in call.runs]


def _is_unknown(request: Request, offered: Collection[str]) -> bool:
    """Return whether no tool of this name was offered. The answer to such a call can only say so."""
    if not offered or request.name in offered:
        return False
    return not request.handoff and request.type not in (ToolCallType.HOSTED, ToolCallType.MCP)


def _record_tool(
    span: Span, builder: RunBuilder, scope: str | None, call_id: str | None = None, request: str | None = None
) -> None:
    """Record a tool run, for the call of a model at `request` or, without one, for the program itself."""
    run = span.tool_run
    builder.tool_started(
        span.id,
        run.tool,
        run.arguments if isinstance(run.arguments, dict) else None,
        call_id=call_id or run.call_id,
        scope=scope,
        agent=span.agent_name,
        type=run.type,
        server=run.server,
        at=span.started_at,
        request=request,
        source=span.ref,
    )
    if span.error is not None:
        builder.tool_failed(span.id, span.error, at=span.ended_at)
        return
    error = text_of(run.result) or "failed"
    builder.tool_ended(span.id, run.result, error=error if run.failed else None, at=span.ended_at)


def _record_models(trace: _Trace, builder: RunBuilder) -> set[str]:
    """Record models, usage and offered tools; return the names of the tools if all of them are known."""
    for span in trace.models:
        builder.model_used(span.model_call.model, span.model_call.usage)
    models = trace.outer_models
    # If one model has no list of tools, it may have been offered others than these.
    is_complete = bool(models) and all(span.offered or (span.within and span.within.offered) for span in models)
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
    _warn_of_missing_calls(trace, notes)
    if not tree.of_kind("tool", "agent", "handoff"):  # a tracer of agents traces their tools too
        _warn_of_missing_replies(trace, notes)
    if tree.too_deep:
        deepest = f"tools are nested more than {MAX_TOOL_DEPTH} deep; deeper ones are recorded at that depth"
        notes.warnings.append(deepest)
    return notes.warnings


def _warn_of_missing_calls(trace: _Trace, notes: Notes) -> None:
    """Warn of calls that must have been requested, and are not in the trace."""
    tree, batches = trace.tree, trace.ledger.batches
    stopped = [span for span in trace.models if span.model_call.stopped_for_tools]
    # Calls of a model may be inferred under another span, so only a lack of batches shows that some are missing.
    if len(stopped) > len(batches):
        spans = {batch.span for batch in batches}
        places = [span.path for span in stopped if span not in spans]
        notes.warn_once(places, "the model stopped to call tools, but the trace does not show the calls")
    if batches or tree.of_kind("model", "tool", "handoff"):
        return
    agents = tree.of_kind("agent")
    if not any({"user", "model"} <= {message.speaker for message in span.reply_messages} for span in agents):
        places = [span.path for span in agents]
        notes.warn_once(places, "the agent has no spans of models or tools; calls may be missing")


def _warn_of_missing_replies(trace: _Trace, notes: Notes) -> None:
    """Warn of models without a reply, unless a later model received the history."""
    places: list[str] = []
    for span in reversed(trace.models):
        if span.reply is None and span.model_call.stopped_for_tools is None and span.error is None:
            places.append(span.path)
        if span.prompt:
            break
    notes.warn_once(places[::-1], "the reply of the model was not captured; calls in it may be missing")


def _record_end(trace: _Trace, builder: RunBuilder) -> None:
    """Record the input and the output of the run, and how it ended."""
    tree = trace.tree
    outermost = [*tree.roots, *tree.of_kind("agent")]
    # The user's last words in the first history, else the input of the outermost span.
    inputs = chain(
        (last_text(model.prompt, "user") for model in trace.outer_models), (span.input_text for span in outermost)
    )
    # The final text of the last model, else the output of the outermost span.
    outputs = chain(
        (_final_text(model, trace.ledger) for model in trace.outer_models[-1:]),
        (span.output_text for span in outermost),
    )
    builder.started(next(filter(None, inputs), None), at=tree.spans[0].started_at)
    builder.labelled(metadata={"span_id": tree.roots[0].id})
    for span in tree.spans:
        builder.labelled(tags=span.tags)
    end = max(filter(None, (span.ended_at for span in tree.spans)), default=None)
    error = next((span.error for span in tree.roots if span.error is not None), None)
    output = next(filter(None, outputs), None)
    status = RunStatus.OK
    if error is not None:
        output, status = None, RunStatus.ERROR
    elif output is None and _has_open_calls(trace.ledger):
        status = RunStatus.STOPPED
    builder.ended(output, status=status, error=error, at=end)


def _has_open_calls(ledger: CallLedger) -> bool:
    """Return whether no call of the last message of a model ran, was answered or handed over."""
    if not ledger.batches:
        return False
    last = max(ledger.batches, key=attrgetter("order"))
    return not any(call.runs or call.answer or call.handoff_to for call in last.calls)


def _final_text(model: Span, ledger: CallLedger) -> str | None:
    """Return the final text of a model, also where its one reply has both the calls and that text.

    The tools of such a reply ran inside of the model's span.
    """
    runs = [call.runs for call in ledger.calls if call.batch.span is model]
    if runs and all(any(run.around is model for run in of_call) for of_call in runs):
        return final_text(model.reply_messages) or last_text(model.reply_messages, "model")
    return final_text(model.reply_messages)
