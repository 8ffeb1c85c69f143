"""Spans of any tracer, and the tree that they form in their trace.

The reader of each export form makes a `Span`: the raw span, the messages that went in and came out, and one interpreted
event (a model call, a tool run or a hand-off). What comes after the readers does not depend on where a span came from.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from toolgrade._internal.message_content import object_of
from toolgrade.calls import ToolCallType
from toolgrade.formats.messages.content_parts import cut_off
from toolgrade.formats.traces.messages import TraceMessage
from toolgrade.formats.traces.values import json_object
from toolgrade.matching.json_compare import ABSENT, json_equal

SpanKind: TypeAlias = Literal["model", "tool", "agent", "handoff", "other"]
"""The subject of a span; `other` is a chain, a workflow or anything else around these."""

MAX_TOOL_DEPTH = 40
"""Levels of tools inside of tools. Deeper tools are recorded at the last of these levels."""

_WAIT = re.compile(
    r"^\W*(?:[\w.]+\.)?(?:GraphInterrupt|NodeInterrupt|GraphBubbleUp|WaitingForEvent|CallDeferred|InterruptException"
    r"|NodeInterruptedError|\w*(?:Approval|Confirmation|UserInput|Human\w*)(?:Required|Pending)(?:Error|Exception)?)\b"
    r"|^\W*Interrupt\(value=",
    re.MULTILINE,
)
"""Exceptions by which frameworks suspend a run, and the text of LangGraph's own without its class."""

_INTERRUPT = "__interrupt__"
"""Key of what LangGraph asks a person, in the output of a graph that waits."""

_LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)
_NEVER = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(slots=True)
class SpanEvent:
    """An event of an OpenTelemetry span, or a log record that names one."""

    name: str
    attributes: Mapping[str, Any]
    body: Any = None
    path: str = "$"

    @property
    def fields(self) -> dict[str, Any]:
        """The attributes, and the body where it is an object."""
        return {**self.attributes, **json_object(self.body)}


@dataclass(slots=True)
class ModelCall:
    """The event of a model span.

    Attributes:
        model: Name of the model.
        response_id: Id that the API gave to the response.
        stopped_for_tools: Whether the model stopped to have tools called; `None` where the span gives no reason.
        usage: Counts of tokens.
    """

    model: str | None = None
    response_id: str | None = None
    stopped_for_tools: bool | None = None
    usage: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ToolRecord:
    """The event of a tool span.

    Attributes:
        tool: Name of the tool.
        call_id: Id of the call that it answers.
        arguments: The arguments that it received; `ABSENT` where they were not captured.
        result: The value that it returned; `ABSENT` where it was not captured.
        failed: The result says that the tool failed.
        parameters: Names of the tool's parameters, in their order, where the span has them.
        input_wrapped: The arguments may be under `input`.
        has_own_id: The tracer made up the id for this run, so that no request has it.
        type: Who runs the tool.
        server: The MCP server of the tool.
        status: Why the tool did not run to its end, `"cancelled"`, `"unknown_tool"` or `"no_output"`, where the span
            says so.
    """

    tool: str = ""
    call_id: str | None = None
    arguments: Any = ABSENT
    result: Any = ABSENT
    failed: bool = False
    parameters: tuple[str, ...] = ()
    input_wrapped: bool = False
    has_own_id: bool = False
    type: ToolCallType | None = None
    server: str | None = None
    status: str | None = None


@dataclass(slots=True, eq=False)
class Span:
    """One span, and its position in the tree of its trace.

    Attributes:
        id: Id of the span, unique in its trace.
        trace: Id of the trace.
        path: JSON path of the span in its document.
        parent: Id of the parent span, `None` for a root.
        error: Why the span failed; `None` if it did not.
        attributes, events: Those of an OpenTelemetry span; empty for other tracers.
        places: JSON paths of attributes that were not exported as such.
        exporter, record: The tracer that exported the span in a form of its own, and that form; empty for others.
        session: Id of the conversation.
        agent: Of an agent span, its name; of any other, the agent that the span names.
        instructions: The system prompt of a model, or an agent, that stands beside the messages.
        prompt: Messages that a model, or an agent, received.
        reply: Messages that it answered; `None` where they were not captured.
        offered: Definitions of the tools that a model, or an agent, could choose from.
        input_text, output_text: The text that went in and came out.
        model_call: What a model span records; empty for any other span.
        tool_run: What a tool span records; empty for any other span.
        handoff_to: The agent that a hand-off passes control to.
        interrupted: Its output says that it waits for a person.
        doubts: Warnings about the span, each with its path.
        scope: The tool span around it; `tree_of` sets this field and those below.
        within: The agent span around it, inside of that tool.
        around: Of a model, the model span around it.
        depth: Number of tools around it.
        has_model: A model span lies inside of it.
        order: Position among all spans of the trace.
    """

    id: str
    trace: str
    path: str
    parent: str | None = None
    name: str = ""
    kind: SpanKind = "other"
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    exporter: str = ""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: str | None = None
    agent: str | None = None
    instructions: list[TraceMessage] = field(default_factory=list)
    prompt: list[TraceMessage] = field(default_factory=list)
    reply: list[TraceMessage] | None = None
    offered: list[Any] = field(default_factory=list)
    input_text: str | None = None
    output_text: str | None = None
    model_call: ModelCall = field(default_factory=ModelCall)
    tool_run: ToolRecord = field(default_factory=ToolRecord)
    handoff_to: str | None = None
    interrupted: bool = False
    tags: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    scope: Span | None = None
    within: Span | None = None
    around: Span | None = None
    depth: int = 0
    has_model: bool = False
    order: tuple[datetime, int] = (_LONG_AGO, 0)

    @property
    def reply_messages(self) -> list[TraceMessage]:
        """The reply; empty also where it was not captured."""
        return self.reply or []

    @property
    def interval(self) -> tuple[datetime, datetime]:
        """Start and end; a span without them overlaps no other."""
        return self.started_at or _NEVER, self.ended_at or _LONG_AGO

    @property
    def ref(self) -> str:
        """The reference that calls keep: trace, span and path."""
        return f"{self.trace}/{self.id}#{relative_path(self.path)}"

    @property
    def agent_name(self) -> str | None:
        """Name of the agent that did this."""
        named = self if self.agent or self.kind == "agent" else self.within
        return None if named is None else named.agent or named.name or None

    @property
    def waits(self) -> bool:
        """Whether it ended by waiting for a person, as its output or its error says."""
        return self.interrupted or is_wait(self.error)

    def events_named(self, *names: str) -> list[SpanEvent]:
        """Return the events with one of these names."""
        return [event for event in self.events if event.name in names]

    def place_of(self, key: str) -> str:
        """Return the JSON path of an attribute."""
        return self.places.get(key) or f"{self.path}.attributes['{key}']"

    def uncut(self, value: object, path: str) -> Any:  # noqa: ANN401 - a JSON value
        """Return a value; `None`, with a warning, for messages whose end is missing: SDKs may limit attributes."""
        if not cut_off(value):
            return value
        self.doubt(path, "the JSON text is cut off; its messages, and any calls in them, were not read")
        return None

    def is_near(self, span: Span) -> bool:
        """Return whether both spans lie in the same tool and the same agent."""
        return self.scope is span.scope and self.within is span.within

    def doubt(self, path: str, message: str) -> None:
        """Record a warning about this span, once."""
        warning = f"{path}: {message}"
        if warning not in self.doubts:
            self.doubts.append(warning)


def has_interrupt(output: object) -> bool:
    """Return whether the output of a graph, or one object inside of it, says that it waits for a person."""
    if isinstance(output, str) and _INTERRUPT not in output:
        return False
    fields = json_object(output)
    return any(inner.get(_INTERRUPT) for inner in (fields, *map(object_of, fields.values())))


def is_wait(error: str | None) -> bool:
    """Return whether an error only suspends the run until a person answers."""
    return error is not None and _WAIT.search(error) is not None


def relative_path(path: str) -> str:
    """Return a JSON path without the `$` at its start."""
    return path.removeprefix("$").removeprefix(".")


@dataclass(eq=False)
class Tree:
    """The spans of one trace.

    Attributes:
        spans: All spans in the order of their start; one without a time comes after its parent, in file order.
        orphans: Paths of spans whose parent is missing.
        roots: Spans without a parent, in their order.
        too_deep: Tools are nested deeper than `MAX_TOOL_DEPTH`.
    """

    spans: list[Span]
    orphans: list[str] = field(default_factory=list)
    roots: list[Span] = field(default_factory=list)
    too_deep: bool = False

    def of_kind(self, *kinds: SpanKind) -> list[Span]:
        """Return the spans of these kinds, in their order."""
        return [span for span in self.spans if span.kind in kinds]


def tree_of(spans: Iterable[Span]) -> Tree:
    """Return the spans of one trace as a tree; of a span that was exported twice, the more complete copy counts."""
    by_id = _most_complete(spans)
    tree = Tree(list(by_id.values()))
    children: dict[str | None, list[Span]] = defaultdict(list)
    for index, span in enumerate(tree.spans):
        span.order = (span.started_at or _LONG_AGO, index)
        children[span.parent].append(span)
    for model in tree.of_kind("model"):
        _mark_ancestors(model, by_id)
    _place_all(tree, by_id, children)
    tree.orphans = [root.path for root in tree.roots if root.parent is not None]
    tree.spans.sort(key=attrgetter("order"))
    tree.roots.sort(key=attrgetter("order"))
    return tree


def _place_all(tree: Tree, by_id: dict[str | None, Span], children: dict[str | None, list[Span]]) -> None:
    """Find the roots, and set the position of every span."""
    # A missing parent may have been sampled away, or be in another file.
    roots = [span for span in tree.spans if span.parent not in by_id or span.parent == span.id]
    placed: set[Span] = set()
    # A span that no root leads to is, over some steps, its own ancestor.
    for root in [*roots, *tree.spans]:
        if root not in placed:
            tree.roots.append(root)
            _place_below(root, children, placed, tree)


def _most_complete(spans: Iterable[Span]) -> dict[str | None, Span]:
    """Return the spans by their ids; a span may be exported while it runs, and once more when it ends."""
    by_id: dict[str | None, Span] = {}
    for span in spans:
        other = by_id.get(span.id)
        if other is None or _completeness(span) >= _completeness(other):
            by_id[span.id] = span
        if other is not None and _differs(span, other):
            message = f"the id {span.id!r} is that of another span, too; the more complete one counts"
            by_id[span.id].doubt(span.path, message)
    return by_id


def _differs(span: Span, other: Span) -> bool:
    """Return whether two spans with one id are not copies of the same span."""
    run, other_run = span.tool_run, other.tool_run
    if (span.name, span.kind, run.tool) != (other.name, other.kind, other_run.tool):
        return True
    if span.ended_at is None or other.ended_at is None:  # one was exported while it ran
        return False
    return span.interval != other.interval or not may_be_equal(run.arguments, other_run.arguments)


def _mark_ancestors(model: Span, by_id: dict[str | None, Span]) -> None:
    outer = by_id.get(model.parent)
    while outer is not None and not outer.has_model:
        outer.has_model = True
        outer = by_id.get(outer.parent)


def _place_below(root: Span, children: dict[str | None, list[Span]], placed: set[Span], tree: Tree) -> None:
    """Set the position of every span below a root, from the top down."""
    placed.add(root)
    queue = [root]
    for outer in queue:
        inner = [span for span in children[outer.id] if span not in placed]
        placed.update(inner)
        queue += inner
        for span in inner:
            span.order = (span.started_at or outer.order[0], span.order[1])
            _place_inside(span, outer, tree)
            if span.kind == "tool" and span.scope is not None:
                _merge_same_call(span.scope, span)


def _place_inside(span: Span, outer: Span, tree: Tree) -> None:
    span.scope, span.within, span.around, span.depth = outer.scope, outer.within, outer.around, outer.depth
    if outer.kind == "tool" and outer.depth >= MAX_TOOL_DEPTH:
        tree.too_deep = True
        span.within = span.around = None
    elif outer.kind == "tool":
        # The calls inside of a tool are the tool's own, not those of the agent and the model around it.
        span.scope, span.within, span.around, span.depth = outer, None, None, outer.depth + 1
    elif outer.kind == "agent":
        span.within, span.around = outer, None
    elif outer.kind == "model":
        span.around = outer


def _same_call(inner: Span, outer: Span) -> bool:
    """Return whether a tool inside a tool is a second record of the same call.

    Both a framework and the library below it may trace a tool. The two spans are one call if no agent or model works in
    between, and their ids, or names and arguments, agree where both have them.
    """
    run, outer_run = inner.tool_run, outer.tool_run
    if outer.has_model or inner.within is not None or run.tool != outer_run.tool:
        return False
    if run.call_id is not None and outer_run.call_id is not None:
        return run.call_id == outer_run.call_id
    return may_be_equal(run.arguments, outer_run.arguments)


def may_be_equal(arguments: object, others: object) -> bool:
    """Return whether two records may have the same arguments: they are equal, or not captured in one of them."""
    return ABSENT in (arguments, others) or json_equal(arguments, others)


def _merge_same_call(outer: Span, inner: Span) -> None:
    """Complete the outer record of a call with the inner one, which counts no more; not if that is another call."""
    if not _same_call(inner, outer):
        return
    # The outer record may lack content that the inner one has: frameworks and libraries differ in what they keep.
    for name, unset in (("arguments", ABSENT), ("result", ABSENT), ("call_id", None), ("type", None), ("server", None)):
        if getattr(outer.tool_run, name) is unset:
            setattr(outer.tool_run, name, getattr(inner.tool_run, name))
    outer.error = outer.error or inner.error
    inner.kind = "other"


def _completeness(span: Span) -> tuple[bool, int]:
    """Return a key that is greater for a finished span than for one that was exported while it ran."""
    run = span.tool_run
    fields = (span.prompt, span.reply, span.error, span.input_text, span.output_text, span.model_call.model)
    captured = (run.call_id, run.arguments is not ABSENT, run.result is not ABSENT)
    return span.ended_at is not None, sum(map(bool, (*fields, *captured)))
