"""Which traces show nothing but what another trace shows as well?

Where a framework and the client of a model's API are both instrumented, and the one does not tell the other, each
request to a model is a trace of its own beside the trace of the agent. Its calls are the agent's, and count once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from toolmark.formats._spans import Span, Tree

_Talk: TypeAlias = "tuple[str, tuple[tuple[str, str | None], ...], str]"
"""The user's last words, the names and ids of the calls that the model asked for, and its words."""


def echoes(trees: Sequence[Tree]) -> list[Tree]:
    """Return the traces of nothing but models, each of which repeats a model of the trace of an agent or chain.

    It repeats what lies around it in time, is asked the same, and says the same. What says nothing, or asks for calls
    without ids, repeats nothing. Traces of models alone repeat no others: they may be requests made at the same time.
    """
    spoken: dict[_Talk, list[Span]] = defaultdict(list)
    bare: list[Tree] = []
    for tree in trees:
        models = tree.of_kind("model")
        if len(models) == len(tree.spans):
            bare.append(tree)
            continue
        for span in models:
            talk = _talk_of(span)
            if talk is not None:
                spoken[talk].append(span)
    return [tree for tree in bare if all(_is_repeated(span, spoken) for span in tree.spans)]


def _is_repeated(span: Span, spoken: dict[_Talk, list[Span]]) -> bool:
    talk = _talk_of(span)
    return talk is not None and any(_lies_in(span, around) for around in spoken.get(talk, ()))


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
