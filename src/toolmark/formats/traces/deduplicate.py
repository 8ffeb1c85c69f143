"""Model spans, and whole traces, that repeat what other spans record.

Where a framework and the client of a model's API are both instrumented and do not share a context, each request to the
model is a trace beside the trace of the agent. Its calls are the agent's, and must count once. Some clients also write
spans without content, and some tracers mark the end of a stream by a span of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TypeAlias

from toolmark.formats.traces.span_tree import Span, Tree
from toolmark.formats.traces.trace_messages import requests_in, texts_of

_Exchange: TypeAlias = "tuple[str, tuple[tuple[str, str | None], ...], str]"
"""The user's last text, the names and ids of the calls that the model asked for, and its own text."""


def drop_silent_copies(trees: Sequence[Tree]) -> None:
    """Drop each model span without a reply if another span of its trace records the same response.

    See `_silent_copies`. A dropped span becomes one of kind `other`.
    """
    for tree in trees:
        models = tree.of_kind("model")
        for silent, span in _silent_copies(models):
            # The copy without content may have the counts of tokens that the other span lacks.
            call, copy = span.model_call, silent.model_call
            call.usage = call.usage or copy.usage
            if call.stopped_for_tools is None:
                call.stopped_for_tools = copy.stopped_for_tools
            silent.kind = "other"
        for span in models:
            if span.around is not None and span.around.kind == "other" and span.reply is None:
                span.kind = "other"


def repeated_traces(trees: Sequence[Tree]) -> list[Tree]:
    """Return the traces that have model spans only and whose spans all repeat a model span of another trace.

    A span with a reply repeats one that lasts longer, in the trace of an agent or chain, with the same last user
    message and the same reply. A reply with calls that have no ids repeats nothing: equal requests are common. Nor do
    traces of models alone repeat each other: they may be requests made at the same time. A span without a reply repeats
    one of the same response, see `_silent_copies`.
    """
    spans_of: dict[_Exchange | None, list[Span]] = defaultdict(list)
    bare: list[Tree] = []
    models: list[Span] = []
    for tree in trees:
        in_tree = tree.of_kind("model")
        models += in_tree
        # The trace of an agent has spans of other kinds; only one without them can be a client's copy.
        if len(in_tree) == len(tree.spans):
            bare.append(tree)
            continue
        for span in in_tree:
            spans_of[_exchange(span)].append(span)
    copies: set[Span | None] = {silent for silent, _ in _silent_copies(models)}

    def is_repeated(span: Span) -> bool:
        if span in copies or (span.reply is None and span.around in copies):
            return True
        exchange = _exchange(span)
        return exchange is not None and any(_lies_within(span, outer) for outer in spans_of[exchange])

    return [tree for tree in bare if all(map(is_repeated, tree.spans))]


def _silent_copies(models: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the model spans without a reply, each with a span that records the same response.

    That span names the same response and overlaps in time; or it has no duration, has the same prompt, and is the next
    one that has. Logfire marks the end of a stream by such a span.
    """
    firsts: dict[str | Span, Span] = {}
    for span in sorted(models, key=lambda span: (span.reply is None, span.order)):  # spans with a reply first
        first = firsts.setdefault(span.model_call.response_id or span, span)
        if first is not span and span.reply is None and _overlap(span, first):
            yield span, first
    waiting: list[Span] = []
    for span in sorted(models, key=attrgetter("order")):
        if not span.prompt:
            continue
        if span.reply is None:
            waiting.append(span)
        elif span.started_at is not None and span.started_at == span.ended_at:
            silent = next((silent for silent in waiting if _prompt_key(silent) == _prompt_key(span)), None)
            if silent is not None:
                waiting.remove(silent)
                yield silent, span


def _prompt_key(span: Span) -> list[object]:
    """Return the prompt of a model without the paths in it."""
    return [
        (message.speaker, message.text, [(call.name, call.id) for call in message.requests], message.answer)
        for message in span.prompt
    ]


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
    calls = tuple((request.name, request.id) for request in requests_in(reply))
    text = "".join(message.text or "" for message in reply).strip()
    if not (calls or text) or any(call_id is None for _, call_id in calls):
        return None
    return next(iter(texts_of(reversed(span.prompt), "user")), ""), calls, text
