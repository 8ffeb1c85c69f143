"""Model spans, and whole traces, that repeat what other spans record.

Where a framework and the client of a model's API are both instrumented and do not share a context, each request to the
model is a trace beside the trace of the agent. Its calls are the agent's, and must count once. Some clients also write
spans without content, and some tracers mark the end of a stream by a span of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import filterfalse
from operator import attrgetter
from typing import TypeAlias

from toolgrade.formats.traces.messages import call_names, last_text
from toolgrade.formats.traces.span_tree import ModelCall, Span, Tree

_MOST_AT_ONCE = 100
"""Requests to models at one time, of which one may be the one that a client records once more."""

_Exchange: TypeAlias = "tuple[str | None, tuple[tuple[str, str | None], ...], str]"
"""The user's last text, the names and ids of the calls that the model asked for, and its own text."""


def drop_copies_without_reply(trees: Sequence[Tree]) -> None:
    """Drop each model span without a reply if another span of its trace records the same response.

    See `_copies_without_reply`. A dropped span becomes one of kind `other`.
    """
    for tree in trees:
        models = tree.of_kind("model")
        for copy, span in _copies_without_reply(models):
            _complete(span.model_call, copy.model_call)
            copy.kind = "other"
        for span in models:
            # A model without a reply that lies in a dropped one is a copy as well.
            if span.reply is None and span.around is not None and span.around.kind == "other":
                span.kind = "other"
        _drop_spans_of_clients(tree.of_kind("model"))


def _drop_spans_of_clients(models: Sequence[Span]) -> None:
    """Drop each span without content that is the only model in one with a reply: Anthropic's client writes such ones.

    An instrumentation of the client, or of a framework, writes the outer span; it may be the parent, or last longer.
    """
    amounts = Counter(span.around for span in models)
    with_reply = _with_reply(models)
    for span in filter(_lacks_content, models):
        outer = span.around or _longer_span(span, with_reply)
        if outer is not None and outer.reply is not None and amounts[outer] <= 1:
            _complete(outer.model_call, span.model_call)
            span.kind = "other"


def _lacks_content(span: Span) -> bool:
    return span.reply is None and not span.prompt


def _with_reply(models: Iterable[Span]) -> list[Span]:
    """Return the models whose reply was captured, by their start."""
    return sorted((span for span in models if span.reply is not None), key=_start_of)


def _start_of(span: Span) -> datetime:
    return span.interval[0]


def _longer_span(span: Span, models: Sequence[Span]) -> Span | None:
    """Return the newest of these models, which are in the order of their start, that lasts longer than a span."""
    begun = bisect_right(models, _start_of(span), key=_start_of)
    near = models[max(begun - _MOST_AT_ONCE, 0) : begun]  # to compare all with all takes long
    return next((outer for outer in reversed(near) if _lies_within(span, outer)), None)


def _complete(call: ModelCall, copy: ModelCall) -> None:
    """Complete a model call: the copy without content may have the counts of tokens that the other one lacks."""
    call.usage = call.usage or copy.usage
    if call.stopped_for_tools is None:
        call.stopped_for_tools = copy.stopped_for_tools


def repeated_traces(trees: Sequence[Tree]) -> list[Tree]:
    """Return the traces that have model spans only and whose spans all repeat a model span of another trace.

    A span with a reply repeats one that lasts longer, in the trace of an agent or chain, with the same last user
    message and the same reply. A reply with calls that have no ids repeats nothing: equal requests are common. Nor do
    traces of models alone repeat each other: they may be requests made at the same time. A span without a reply repeats
    one of the same response, see `_copies_without_reply`, or, if it lacks a prompt, too, one that lasts longer.
    """
    copies = {copy for copy, _ in _copies_without_reply(_models_of(trees))}
    spans_of: dict[_Exchange | None, list[Span]] = defaultdict(list)
    outer_models = _models_of(filterfalse(_has_models_only, trees))
    with_reply = _with_reply(outer_models)
    for span in outer_models:
        spans_of[_exchange(span)].append(span)
    spans_of.pop(None, None)

    def is_repeated(span: Span) -> bool:
        if span in copies or (span.reply is None and span.around in copies):
            return True
        if _lacks_content(span):
            return _longer_span(span, with_reply) is not None
        return any(_lies_within(span, outer) for outer in spans_of.get(_exchange(span), ()))

    return [tree for tree in filter(_has_models_only, trees) if all(map(is_repeated, tree.spans))]


def _models_of(trees: Iterable[Tree]) -> list[Span]:
    return [span for tree in trees for span in tree.of_kind("model")]


def _has_models_only(tree: Tree) -> bool:
    """Return whether a trace may be a client's copy: that of an agent has spans of other kinds."""
    return all(span.kind == "model" for span in tree.spans)


def _copies_without_reply(models: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the model spans without a reply, each with a span that records the same response.

    That span names the same response and overlaps in time; or it has no duration, has the same prompt, and is the next
    one that has. Some tracers mark the end of a stream by such a span.
    """
    models = sorted(models, key=attrgetter("order"))
    yield from _copies_of_responses(models)
    yield from _starts_of_streams([span for span in models if span.prompt])


def _copies_of_responses(models: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    firsts: dict[str | Span, Span] = {}
    for span in sorted(models, key=lambda span: span.reply is None):  # spans with a reply first
        first = firsts.setdefault(span.model_call.response_id or span, span)
        if first is not span and span.reply is None and _overlap(span, first):
            yield span, first


def _starts_of_streams(models: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    waiting: list[Span] = []
    for span in models:
        if span.reply is None:
            waiting.append(span)
        elif span.interval[0] == span.interval[1]:
            key = _prompt_key(span)
            start = next((begun for begun in waiting if _prompt_key(begun) == key), None)
            if start is not None:
                waiting.remove(start)
                yield start, span


def _prompt_key(span: Span) -> list[object]:
    """Return the prompt of a model without the paths in it."""
    return [(message.speaker, message.text, call_names([message]), message.answer) for message in span.prompt]


def _overlap(one: Span, other: Span) -> bool:
    """Return whether two spans overlap in time."""
    return one.interval[0] <= other.interval[1] and other.interval[0] <= one.interval[1]


def _lies_within(span: Span, outer: Span) -> bool:
    """Return whether the time of a span lies within that of another, which lasts longer."""
    (start, end), (outer_start, outer_end) = span.interval, outer.interval
    is_inside = outer_start <= start and end <= outer_end
    return is_inside and _overlap(span, outer) and outer.interval != span.interval


def _exchange(span: Span) -> _Exchange | None:
    """Return what identifies the exchange with a model; `None` where it identifies nothing."""
    reply = span.reply_messages
    calls = call_names(reply)
    text = "".join(filter(None, map(attrgetter("text"), reply))).strip()
    if not (calls or text) or None in {call_id for _, call_id in calls}:
        return None
    return last_text(span.prompt, "user"), tuple(calls), text
