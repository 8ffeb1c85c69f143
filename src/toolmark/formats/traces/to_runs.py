"""Runs of agents from the spans of any tracer.

A `CallLedger` finds the calls of each trace. They are passed to a `RunBuilder` as any recorder would do it: requests in
the order of the models' messages, the tool runs for each, and the answers that the models received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from toolmark.calls import ToolCallType
from toolmark.capture import Request, RunBuilder
from toolmark.cases import Run, RunStatus
from toolmark.formats.messages.field_readers import Notes
from toolmark.formats.messages.lenient_arguments import repair_arguments
from toolmark.formats.messages.offered_tools import offered_tools
from toolmark.formats.traces.call_ledger import Call, CallBatch, CallLedger
from toolmark.formats.traces.deduplicate import drop_silent_copies, repeated_traces
from toolmark.formats.traces.span_tree import MAX_TOOL_DEPTH, Span, Tree, tree_of
from toolmark.formats.traces.trace_messages import Message, final_text, last_text, requests_in, texts_of
from toolmark.matching.json_compare import ABSENT


@dataclass
class _Trace:
    """One trace with its calls and its session."""

    tree: Tree
    models: list[Span]
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
    trees = [tree_of(group) for group in groups.values()]
    notes = Notes()
    idle = [tree for tree in trees if not _has_agent(tree)]
    if idle:
        message = f"{len(idle)} of the traces show no model, agent or tool; left out"
        notes.warn(idle[0].spans[0].path, message)
    trees = [tree for tree in trees if _has_agent(tree)]
    drop_silent_copies(trees)
    repeated = repeated_traces(trees)
    if repeated:
        message = f"{len(repeated)} of the traces repeat requests to models of other traces; left out"
        notes.warn(repeated[0].spans[0].path, message)
    left_out = set(map(id, repeated))
    trees = [tree for tree in trees if id(tree) not in left_out]
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
    return any(requests_in([*span.prompt, *(span.reply or ())]) for span in tree.spans)


def _read_trace(tree: Tree, earlier: dict[tuple[str | None, str | None], list[Call]]) -> _Trace:
    """Return a trace with its calls, which are also added to the earlier ones of its conversation."""
    models = _innermost_models(tree)
    session = next((span.session for span in tree.spans if span.session), None)
    first_text = None
    if session is None:  # then the user's first words identify the conversation
        histories = [span.prompt for span in (*models, *tree.spans)]
        histories += [span.reply or [] for span in tree.of_kind("agent")]
        first_text = next(iter(_user_texts(histories)), None)
    conversation = earlier[session, first_text]
    # Where no words were captured, every trace has the same key. A call of a history is then an earlier trace's only
    # if no model here can have made it.
    is_identified = session is not None or first_text is not None
    if not is_identified:
        is_identified = all(model.reply is not None or model.model_call.stopped_for_tools is False for model in models)
    ledger = CallLedger(conversation if is_identified else (), same_session=session is not None)
    _fill_ledger(ledger, tree, models)
    conversation += ledger.calls
    return _Trace(tree, models, ledger, session)


def _fill_ledger(ledger: CallLedger, tree: Tree, models: list[Span]) -> None:
    """Add the calls of a trace: replies of models first, since every other record only repeats or completes them."""
    for span in models:
        ledger.add_reply(span)
    for span in models:
        ledger.add_history(span, span.prompt)
    has_replies = any(span.reply is not None for span in models)
    innermost = set(models)
    for span in tree.spans:
        if span in innermost or (has_replies and span.kind not in ("agent", "model")):
            continue
        if span.kind == "model" and has_replies:
            # The reply of an outer model repeats those of the models inside of it, maybe not the last one.
            ledger.add_history(span, span.prompt)
            ledger.add_history(span, span.reply or ())
        elif span.kind != "tool":
            for history in _histories_around(span):
                ledger.add_history(span, history)
    for span in tree.of_kind("tool"):
        ledger.add_run(span)
    ledger.settle()
    ledger.infer_requests(models)
    for span in tree.of_kind("handoff"):
        ledger.add_handoff(span)


def _histories_around(span: Span) -> list[list[Message]]:
    """Return the input and output of an agent or chain as one history; as two if the output repeats the input."""
    reply = span.reply or []
    if any(message.speaker == "user" for message in reply):
        return [span.prompt, reply]
    return [[*span.prompt, *reply]]


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
        call.request = _with_valid_fields(call.request, notes, is_handoff=is_handoff)
    builder = RunBuilder(run_id=tree.spans[0].trace or None, conversation_id=trace.session)
    _record_warnings(trace, builder)
    offered = _record_models(trace, builder)
    entries: dict[int, list[CallBatch | Span]] = defaultdict(list)
    for batch in ledger.batches:
        if batch.calls:
            entries[id(batch.span.scope)].append(batch)
    for span in ledger.runs_without_request:
        entries[id(span.scope)].append(span)
    # The builder must know a tool run before the calls inside of it.
    scopes: list[Span | None] = [None]
    while scopes:
        scope = scopes.pop(0)
        for entry in sorted(entries[id(scope)], key=_order):
            if isinstance(entry, Span):
                _record_tool(entry, builder)
                scopes.append(entry)
            else:
                _record_batch(entry, builder, offered if scope is None else frozenset())
                scopes += [span for call in entry.calls for span in call.runs]
    for warning in notes.warnings:
        builder.warn(warning)
    _record_end(trace, builder)
    return builder.build()


def _with_valid_fields(request: Request, notes: Notes, *, is_handoff: bool) -> Request:
    """Return a request with a name, and with arguments that are repaired if that was asked for, or else invalid."""
    arguments, path = request.arguments, request.source or "$"
    if not request.name:
        notes.warn(path, "a call needs the name of its tool; it is recorded as '(unnamed)'")
    request = replace(request, name=request.name or "(unnamed)", handoff=is_handoff)
    if not isinstance(arguments, str):
        return request
    repaired_arguments = repair_arguments(arguments, request.name, path, notes)
    if repaired_arguments is not None:
        return replace(request, arguments=repaired_arguments, raw=arguments, error=None)
    message = f"the arguments of {request.name!r} are not a JSON object ({request.error}); they count as {{}}"
    notes.warn(path, message)
    return request


def _order(entry: CallBatch | Span) -> tuple[datetime, int, int]:
    return entry.order if isinstance(entry, CallBatch) else (*entry.order, 0)


def _scope_id(span: Span) -> str | None:
    return None if span.scope is None else span.scope.id


def _record_batch(batch: CallBatch, builder: RunBuilder, offered: frozenset[str]) -> None:
    """Record a message of a model with the runs and answers of its calls.

    `offered` has the names of all tools that the model could choose from; it is empty if they are not known.
    """
    scope = _scope_id(batch.span)
    builder.model_asked([call.request for call in batch.calls], scope=scope, agent=batch.span.agent_name)
    for call in batch.calls:
        for span in call.runs:
            _record_tool(span, builder, call)
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
            unknown_tool=bool(offered) and _is_unknown(call.request, offered),
            scope=scope,
            reformatted=bool(call.runs) and call.runs[-1].tool_run.result is not ABSENT,
            ran=answer.ran,
            read=True,
            request=call.source,
        )


def _is_unknown(request: Request, offered: frozenset[str]) -> bool:
    """Return whether no tool of this name was offered. The answer to such a call can only say so."""
    is_provided = request.type in (ToolCallType.HOSTED, ToolCallType.MCP)
    return request.name not in offered and not request.handoff and not is_provided


def _record_tool(span: Span, builder: RunBuilder, call: Call | None = None) -> None:
    """Record a tool run, for a call of a model or, without one, for the program itself."""
    run = span.tool_run
    builder.tool_started(
        span.id,
        run.tool,
        run.arguments if isinstance(run.arguments, dict) else None,
        call_id=(call.request.id if call else None) or run.call_id,
        scope=_scope_id(call.batch.span if call else span),
        agent=span.agent_name,
        type=run.type,
        server=run.server,
        at=span.started_at,
        request=call.source if call else None,
        source=span.ref,
    )
    if span.error is not None:
        builder.tool_failed(span.id, span.error, at=span.ended_at)
        return
    error = None
    if run.failed:
        error = run.result if isinstance(run.result, str) and run.result else "failed"
    builder.tool_ended(span.id, run.result, error=error, at=span.ended_at)


def _record_models(trace: _Trace, builder: RunBuilder) -> frozenset[str]:
    """Record models, usage and offered tools; return the names of the tools if all of them are known."""
    for span in trace.models:
        builder.model_used(span.model_call.model, span.model_call.usage)
    models = [span for span in trace.models if span.scope is None]
    # If one model has no list of tools, it may have been offered others than these.
    is_complete = bool(models) and all(span.offered or (span.within and span.within.offered) for span in models)
    names: set[str] = set()
    for span in trace.tree.of_kind("model", "agent"):
        if span.offered and span.scope is None:
            specs, all_known = offered_tools("openai-chat", span.offered)
            builder.offered(specs, all_known=all_known and is_complete)
            names |= {spec.name for spec in specs}
            is_complete = is_complete and all_known
    return frozenset(names) if is_complete else frozenset()


def _record_warnings(trace: _Trace, builder: RunBuilder) -> None:
    tree, ledger, notes = trace.tree, trace.ledger, Notes()
    for span in tree.spans:
        for doubt in span.doubts:
            builder.warn(doubt)
    notes.warn_once(tree.orphans, "the parent span is missing; the trace may be incomplete")
    history_calls = [call.source for call in ledger.history_calls]
    notes.warn_once(history_calls, "the call is only in a model's history, before the user's last message")
    notes.warn_once(ledger.lost_answers, "answers a call that the trace does not show; left out")
    _warn_of_missing_calls(trace, notes)
    _warn_of_missing_replies(trace, notes)
    if tree.too_deep:
        builder.warn(f"tools are nested more than {MAX_TOOL_DEPTH} deep; deeper ones are recorded at that depth")
    for warning in notes.warnings:
        builder.warn(warning)


def _warn_of_missing_calls(trace: _Trace, notes: Notes) -> None:
    """Warn of calls that must have been requested, and are not in the trace."""
    batches = [batch for batch in trace.ledger.batches if batch.calls]
    stopped = [span for span in trace.models if span.model_call.stopped_for_tools]
    # Calls of a model may be inferred under another span, so only a lack of batches shows that some are missing.
    if len(stopped) > len(batches):
        spans = {id(batch.span) for batch in batches}
        places = [span.path for span in stopped if id(span) not in spans]
        notes.warn_once(places, "the model stopped to call tools, but the trace does not show the calls")
    agents = trace.tree.of_kind("agent")
    if trace.ledger.calls or trace.tree.of_kind("model", "tool", "handoff"):
        return
    if not any({"user", "model"} <= {message.speaker for message in span.reply or ()} for span in agents):
        places = [span.path for span in agents]
        notes.warn_once(places, "the agent has no spans of models or tools; calls may be missing")


def _warn_of_missing_replies(trace: _Trace, notes: Notes) -> None:
    """Warn of models without a reply, unless a later model received the history, or tools are traced anyway."""
    if trace.tree.of_kind("tool", "agent", "handoff"):  # a tracer of agents traces their tools too
        return
    last_prompt = max((span.order for span in trace.models if span.prompt), default=None)
    places: list[str] = []
    for span in trace.models:
        is_silent = span.reply is None and span.model_call.stopped_for_tools is None and span.error is None
        if is_silent and (last_prompt is None or last_prompt <= span.order):
            places.append(span.path)
    notes.warn_once(places, "the reply of the model was not captured; calls in it may be missing")


def _record_end(trace: _Trace, builder: RunBuilder) -> None:
    """Record the input and the output of the run, and how it ended."""
    tree = trace.tree
    builder.started(_input(trace), at=tree.spans[0].started_at)
    builder.labelled(metadata={"span_id": tree.roots[0].id})
    for span in tree.spans:
        builder.labelled(tags=span.tags)
    end = max((span.ended_at for span in tree.spans if span.ended_at is not None), default=None)
    error = next((span.error for span in tree.roots if span.error is not None), None)
    output = _output(trace)
    if error is not None:
        builder.ended(None, status=RunStatus.ERROR, error=error, at=end)
    elif output is None and _has_open_calls(trace.ledger):
        builder.ended(None, status=RunStatus.STOPPED, at=end)
    else:
        builder.ended(output, at=end)


def _input(trace: _Trace) -> str | None:
    """Return the user's last words in the first history, else the input of the outermost span."""
    for model in trace.models:
        text = last_text(model.prompt, "user") if model.scope is None else None
        if text:
            return text
    return next((span.input_text for span in _outermost(trace.tree) if span.input_text), None)


def _output(trace: _Trace) -> str | None:
    """Return the final text of the last model, else the output of the outermost span."""
    models = [span for span in trace.models if span.scope is None]
    text = None
    if models:
        text = final_text(models[-1].reply or []) or _text_after_tools(models[-1], trace.ledger)
    return text or next((span.output_text for span in _outermost(trace.tree) if span.output_text), None)


def _outermost(tree: Tree) -> list[Span]:
    return [*tree.roots, *tree.of_kind("agent")]


def _has_open_calls(ledger: CallLedger) -> bool:
    """Return whether no call of the last message of a model ran, was answered or handed over."""
    if not ledger.batches:
        return False
    last = max(ledger.batches, key=lambda batch: batch.order)
    return not any(call.runs or call.answer or call.handoff_to for call in last.calls)


def _text_after_tools(model: Span, ledger: CallLedger) -> str | None:
    """Return the text of a model span that its tools ran in: the one reply has both the calls and the final text."""
    calls = [call for batch in ledger.batches if batch.span is model for call in batch.calls]
    if not calls or not all(any(run.around is model for run in call.runs) for call in calls):
        return None
    return last_text(model.reply or (), "model")


def _user_texts(histories: Iterable[Sequence[Message]]) -> list[str]:
    """Return the texts of the user in the first history that has any."""
    for history in histories:
        texts = texts_of(history, "user")
        if texts:
            return texts
    return []
