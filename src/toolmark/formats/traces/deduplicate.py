"""Which models, and which whole traces, show nothing but what others show as well?

Where a framework and the client of a model's API are both instrumented, and the one does not tell the other, each
request to a model is a trace of its own beside the trace of the agent. Its calls are the agent's, and count once. Some
clients write spans of their own that keep no content, and some tracers tell the end of a stream by a span of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from toolmark.formats.traces.span_tree import Span, Tree

_Talk: TypeAlias = "tuple[str, tuple[tuple[str, str | None], ...], str]"
"""The user's last words, the names and ids of the calls that the model asked for, and its words."""


def fold(trees: Sequence[Tree]) -> None:
    """Leave out models whose answer nobody kept, if another span of the trace tells of the same answer.

    It does if it names the same response; or if it is a moment, was asked the same, and is the next that was.
    """
    for tree in trees:
        models = tree.of_kind("model")
        for silent, span in _silent_twins(models):
            span.usage = span.usage or silent.usage
            span.wants_tools = silent.wants_tools if span.wants_tools is None else span.wants_tools
            silent.kind = "other"
        for span in models:
            if span.around is not None and span.around.kind == "other" and span.said is None:
                span.kind = "other"


def echoes(trees: Sequence[Tree]) -> list[Tree]:
    """Return the traces of nothing but models, each of which repeats a model of another trace.

    One that speaks repeats a model of the trace of an agent or chain that lies around it in time, is asked the same,
    and says the same. What asks for calls without ids repeats nothing. Traces of models alone repeat no others: they
    may be requests made at the same time. One whose answer nobody kept repeats one of the same response; see `fold`.
    """
    spoken: dict[_Talk, list[Span]] = defaultdict(list)
    bare: list[Tree] = []
    every: list[Span] = []
    for tree in trees:
        models = tree.of_kind("model")
        every += models
        if len(models) == len(tree.spans):
            bare.append(tree)
            continue
        for span in models:
            talk = _talk_of(span)
            if talk is not None:
                spoken[talk].append(span)
    twins = {id(silent) for silent, _ in _silent_twins(every)}
    return [tree for tree in bare if all(_is_repeated(span, spoken, twins) for span in tree.spans)]


def _is_repeated(span: Span, spoken: dict[_Talk, list[Span]], twins: set[int]) -> bool:
    if id(span) in twins or (span.said is None and id(span.around) in twins):
        return True
    talk = _talk_of(span)
    return talk is not None and any(_lies_in(span, around) for around in spoken.get(talk, ()))


def _silent_twins(models: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Return the models whose answer nobody kept, each with one that tells of the same answer."""
    named: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(models, key=lambda span: (span.said is None, span.order)):  # those that speak come first
        if span.response is not None:
            named[span.response].append(span)
    found: list[tuple[Span, Span]] = []
    for first, *others in named.values():
        found += [(span, first) for span in others if span.said is None and _meet(span, first)]
    moments = {id(span) for span in models if span.said is not None and span.asked and _is_moment(span)}
    if not moments:
        return found
    waiting: list[Span] = []
    for span in sorted(models, key=lambda span: span.order):
        if span.said is None and span.asked:
            waiting.append(span)
        elif id(span) in moments:
            twin = next((silent for silent in waiting if _same_question(silent, span)), None)
            if twin is not None:
                waiting.remove(twin)
                found.append((twin, span))
    return found


def _is_moment(span: Span) -> bool:
    return span.started_at is not None and span.started_at == span.ended_at


def _same_question(one: Span, other: Span) -> bool:
    return _question(one) == _question(other)


def _question(span: Span) -> list[object]:
    """Return what a model was asked, without the places where that stands."""
    return [
        (said.who, said.text, [(request.name, request.id) for request in said.requests], said.answer)
        for said in span.asked
    ]


def _meet(one: Span, other: Span) -> bool:
    """Return whether two spans share a moment."""
    if one.started_at is None or one.ended_at is None or other.started_at is None or other.ended_at is None:
        return False
    return one.started_at <= other.ended_at and other.started_at <= one.ended_at


def _talk_of(span: Span) -> _Talk | None:
    said = span.said or ()
    calls = tuple((request.name, request.id) for one in said for request in one.requests)
    words = "".join(one.text or "" for one in said).strip()
    if not (calls or words) or any(call_id is None for _, call_id in calls):
        return None
    asked = next((one.text for one in reversed(span.asked) if one.who == "user" and one.text), "")
    return asked, calls, words


def _lies_in(span: Span, around: Span) -> bool:
    """Return whether a span lies in another in time, which is longer."""
    if span.started_at is None or span.ended_at is None or around.started_at is None or around.ended_at is None:
        return False
    inside = around.started_at <= span.started_at and span.ended_at <= around.ended_at
    return inside and (around.started_at, around.ended_at) != (span.started_at, span.ended_at)
