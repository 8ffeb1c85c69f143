"""Readers of traces: one file per export form, and the way from spans to runs."""

from toolmark.formats.traces.read import (
    TRACE_FORMATS,
    TraceFormat,
    Traces,
    read_trace_documents,
    read_traces,
    trace_format_of,
)

__all__ = ["TRACE_FORMATS", "TraceFormat", "Traces", "read_trace_documents", "read_traces", "trace_format_of"]
