"""Tracers: one file each, which translates what the tracer writes to the GenAI conventions of OpenTelemetry.

A span may have the names of several tracers; those of the conventions come first, then the tracers in this order.
"""

from __future__ import annotations

from toolgrade._internal.message_content import Fields
from toolgrade.formats.traces.messages import Speaker
from toolgrade.formats.traces.span_tree import SpanKind
from toolgrade.formats.traces.tracers.google_adk import GOOGLE_ADK
from toolgrade.formats.traces.tracers.haystack import HAYSTACK
from toolgrade.formats.traces.tracers.langfuse import LANGFUSE
from toolgrade.formats.traces.tracers.langsmith import LANGSMITH
from toolgrade.formats.traces.tracers.litellm import LITELLM
from toolgrade.formats.traces.tracers.llama_index import LLAMA_INDEX
from toolgrade.formats.traces.tracers.logfire import LOGFIRE
from toolgrade.formats.traces.tracers.mlflow import MLFLOW
from toolgrade.formats.traces.tracers.openinference import OPENINFERENCE
from toolgrade.formats.traces.tracers.openllmetry import OPENLLMETRY
from toolgrade.formats.traces.tracers.tracer import Attributes
from toolgrade.formats.traces.tracers.vercel import VERCEL

TRACERS = (
    *(LITELLM, LOGFIRE, VERCEL, GOOGLE_ADK, OPENINFERENCE, LANGFUSE, OPENLLMETRY, LANGSMITH, MLFLOW, HAYSTACK),
    LLAMA_INDEX,
)


def attributes_beside(fields: Fields) -> Attributes:
    """Return the attributes that a span, or an object around spans, has under keys other than `attributes`.

    Phoenix has the kind of a span in its `span_kind`, MLflow the session of a trace in the `info` around its spans.
    """
    attributes: Attributes = {}
    for tracer in TRACERS:
        attributes |= tracer.beside(fields)
    return attributes


def names_of(name: str, *others: str) -> tuple[str, ...]:
    """Return a name of the conventions, other names that mean the same, and those of all tracers."""
    return (name, *others, *(own for tracer in TRACERS for own in tracer.names.get(name, ())))


def lists_of(speaker: Speaker) -> tuple[str, ...]:
    """Return the prefixes of attributes that hold one message each."""
    return tuple(prefix for tracer in TRACERS for prefix in tracer.lists.get(speaker, ()))


def marks_of(kind: SpanKind) -> tuple[str, ...]:
    """Return the attributes and events that only spans of one kind have."""
    return tuple(mark for tracer in TRACERS for mark in tracer.marks.get(kind, ()))
