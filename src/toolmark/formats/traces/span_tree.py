"""What happened, and inside of what? Spans of any tracer as a tree that knows tools, agents and models.

Readers of each form fill in a `Span` with what it says; nothing here knows where it came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

from toolmark.calls import ToolCallType
from toolmark.formats.traces.trace_messages import Said
from toolmark.matching.json_compare import ABSENT, json_equal

SpanKind: TypeAlias = Literal["model", "tool", "agent", "handoff", "other"]
"""What a span is of; `other` is whatever lies around these."""

DEEPEST = 40
"""Levels of tools inside of tools that are kept; what lies deeper is kept at the last of them."""

_LONG_AGO = datetime(1, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True, eq=False)
class Span:
    """One span, and where it lies.

    Attributes:
        id: Its id, unique in its trace.
        trace: The trace.
        path: JSON path of the span in what it was read from.
        parent: The id of the span around it, `None` of a root.
        error: Why it failed; `None` if it did not.
        agent: Of an agent, its name; else the name of the agent that the span itself gives.
        session: The conversation that it says it belongs to.
        asked: What the model, or the agent, was given.
        said: What it answered; `None` where that was not captured.
        arguments: What a tool was handed; `ABSENT` where that was not captured.
        result: What it returned; `ABSENT` where that was not captured.
        parameters: Names of the tool's parameters, in their order, where the span gives them.
        wrapped: The arguments may stand under `input`, as LangSmith hands them over.
        handoff_to: The agent that control passed to.
        response: The id that the API gave to the answer of a model.
        wants_tools: Whether a model stopped to have tools called; `None` where it does not say why it stopped.
        given, gave: The words that went in and came out, of any span.
        doubts: What was not understood, each with its path.
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
    agent: str | None = None
    session: str | None = None
    asked: list[Said] = field(default_factory=list)
    said: list[Said] | None = None
    offered: list[Any] = field(default_factory=list)
    model: str | None = None
    response: str | None = None
    wants_tools: bool | None = None
    usage: dict[str, int] = field(default_factory=dict)
    tool: str = ""
    call_id: str | None = None
    arguments: Any = ABSENT
    result: Any = ABSENT
    result_failed: bool = False
    parameters: tuple[str, ...] = ()
    wrapped: bool = False
    type: ToolCallType | None = None
    server: str | None = None
    handoff_to: str | None = None
    given: str | None = None
    gave: str | None = None
    tags: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    # Where it lies; a `Tree` fills these in.
    scope: Span | None = None
    """The tool inside which it happened."""
    within: Span | None = None
    """The agent inside which it happened, in that tool."""
    around: Span | None = None
    """Of a model, the model that it is the inner side of."""
    depth: int = 0
    """How many tools lie around it."""
    thinks: bool = False
    """A model was asked inside it."""
    order: tuple[datetime, int] = (_LONG_AGO, 0)

    @property
    def ref(self) -> str:
        """The reference that calls keep: trace, span and path."""
        return f"{self.trace}/{self.id}#{self.path.removeprefix('$').removeprefix('.')}"

    @property
    def agent_name(self) -> str | None:
        """The agent that did this."""
        if self.kind != "agent" and self.agent:
            return self.agent
        inside = self if self.kind == "agent" else self.within
        return None if inside is None else inside.agent or inside.name or None


@dataclass
class Tree:
    """The spans of one trace, each in its place.

    Attributes:
        spans: In the order in which they began; those without a time as they stand, after what lies around them.
        lost: Paths of spans whose parent is not there.
        roots: The spans that lie in no other, in their order.
        too_deep: Whether tools lie deeper than `DEEPEST`.
    """

    spans: list[Span]
    lost: list[str] = field(default_factory=list)
    roots: list[Span] = field(default_factory=list)
    too_deep: bool = False

    def of_kind(self, *kinds: SpanKind) -> list[Span]:
        """Return the spans of these kinds, in their order."""
        return [span for span in self.spans if span.kind in kinds]


def tree_of(spans: Iterable[Span]) -> Tree:
    """Return the spans of one trace as a tree; a span told twice is one, and the fuller telling counts."""
    by_id: dict[str, Span] = {}
    for span in spans:
        before = by_id.get(span.id)
        if before is None or _fullness(span) >= _fullness(before):
            by_id[span.id] = span
    listed = list(by_id.values())
    inside: dict[str, list[Span]] = {}
    tree = Tree(listed)
    for span in listed:
        if span.parent is not None and span.parent in by_id and span.parent != span.id:
            inside.setdefault(span.parent, []).append(span)
        else:
            tree.roots.append(span)
            tree.lost += [span.path] if span.parent is not None else []
    for span in listed:
        outer = by_id.get(span.parent or "") if span.kind == "model" else None
        while outer is not None and not outer.thinks:
            outer.thinks = True
            outer = by_id.get(outer.parent or "")
    placed = {span.id for span in tree.roots}
    place = {span.id: index for index, span in enumerate(listed)}
    _place(tree, tree.roots, inside, placed, place)
    for span in listed:  # spans that are, in the end, their own parents
        if span.id not in placed:
            placed.add(span.id)
            tree.roots.append(span)
            tree.lost.append(span.path)
            _place(tree, [span], inside, placed, place)
    tree.spans = sorted(listed, key=lambda span: span.order)
    tree.roots.sort(key=lambda span: span.order)
    return tree


def _place(
    tree: Tree, roots: list[Span], inside: dict[str, list[Span]], placed: set[str], index: dict[str, int]
) -> None:
    """Tell every span below these roots where it lies, from the top down."""
    for root in roots:
        root.order = (root.started_at or _LONG_AGO, index[root.id])
    waiting = deque(roots)
    while waiting:
        outer = waiting.popleft()
        for span in inside.get(outer.id, ()):
            if span.id in placed:
                continue
            placed.add(span.id)
            span.order = (span.started_at or outer.order[0], index[span.id])
            span.scope, span.within, span.around, span.depth = outer.scope, outer.within, outer.around, outer.depth
            if outer.kind == "tool":
                span.scope, span.within, span.around, span.depth = outer, None, None, outer.depth + 1
                if span.depth > DEEPEST:
                    tree.too_deep = True
                    span.scope, span.depth = outer.scope, outer.depth
            elif outer.kind == "agent":
                span.within, span.around = outer, None
            elif outer.kind == "model":
                span.around = outer
            if span.kind == "tool" and _same_call(span, span.scope):
                _absorb(span, span.scope)
            waiting.append(span)


def _same_call(inner: Span, outer: Span | None) -> bool:
    """Return whether a tool inside a tool is the same call seen twice, as by a framework and by what it builds on.

    It is if no agent or model is at work inside, and id, or name and arguments, are the same where both have them.
    """
    if outer is None or outer.thinks or inner.within is not None:
        return False
    if inner.call_id is not None and outer.call_id is not None:
        return inner.call_id == outer.call_id and inner.tool == outer.tool
    if inner.tool != outer.tool:
        return False
    return ABSENT in (inner.arguments, outer.arguments) or json_equal(inner.arguments, outer.arguments)


def _absorb(inner: Span, outer: Span | None) -> None:
    """Let the outer of two tellings of one call say what only the inner one does."""
    if outer is None:
        return
    for name in ("arguments", "result"):
        if getattr(outer, name) is ABSENT:
            setattr(outer, name, getattr(inner, name))
    outer.call_id = outer.call_id or inner.call_id
    outer.type, outer.server = outer.type or inner.type, outer.server or inner.server
    outer.error = outer.error or inner.error
    inner.kind = "other"


def _fullness(span: Span) -> tuple[bool, int]:
    """Return what tells a finished span from one that was written while it ran."""
    told = (span.asked, span.said, span.error, span.model, span.given, span.gave, span.call_id)
    known = sum(bool(value) for value in told) + (span.arguments is not ABSENT) + (span.result is not ABSENT)
    return span.ended_at is not None, known
