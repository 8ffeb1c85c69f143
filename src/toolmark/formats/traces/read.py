"""What did agents do in these traces? The one reader of all their forms, which finds out which it is.

`read_traces` takes spans of OpenTelemetry (OTLP as JSON, Jaeger, Tempo, Phoenix, dumps of SDKs), exports of Langfuse,
runs of LangSmith, and traces of the OpenAI Agents SDK. A trace becomes a run; those of one session are a conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from toolmark.capture import conversation
from toolmark.cases import ConversationalTestCase, Run
from toolmark.errors import ConfigurationError, InvalidDataError, Problem
from toolmark.formats.messages.field_readers import Notes, plain
from toolmark.formats.traces import langfuse, langsmith, openai_agents, otel
from toolmark.formats.traces.span_tree import Span
from toolmark.formats.traces.to_runs import runs_of
from toolmark.formats.traces.trace_messages import remembering

TraceFormat: TypeAlias = Literal["otel", "langfuse", "langsmith", "openai-agents"]
"""The forms of traces that are read."""

TRACE_FORMATS: tuple[TraceFormat, ...] = get_args(TraceFormat)
"""The forms of traces that `read_traces` knows."""


class _Reader(NamedTuple):
    fits: Callable[[object], bool]
    spans_in: Callable[[list[tuple[str, Any]], Notes], list[Span]]


_READERS: dict[TraceFormat, _Reader] = {
    "openai-agents": _Reader(openai_agents.looks_like_openai_agents, openai_agents.spans_in),
    "langsmith": _Reader(langsmith.looks_like_langsmith, langsmith.spans_in),
    "langfuse": _Reader(langfuse.looks_like_langfuse, langfuse.spans_in),
    "otel": _Reader(otel.looks_like_spans, otel.spans_in),
}


@dataclass(frozen=True)
class Traces:
    """Traces, read.

    Attributes:
        format: What they were read as.
        runs: A run for each trace in which a model, an agent or a tool was at work, in the order of their beginnings.
            Its `run_id` is the id of the trace, its `conversation_id` the session.
        warnings: What is to be said of the file as a whole; what is to be said of a trace stands on its run.
    """

    format: TraceFormat
    runs: list[Run]
    warnings: list[str] = field(default_factory=list)

    @property
    def sessions(self) -> list[list[Run]]:
        """The runs of each session, in the order of the first of each; a run without one is a session of its own."""
        groups: dict[object, list[Run]] = {}
        for index, run in enumerate(self.runs):
            groups.setdefault(index if run.conversation_id is None else run.conversation_id, []).append(run)
        return list(groups.values())

    @property
    def conversations(self) -> list[ConversationalTestCase]:
        """A conversation for each session."""
        return [conversation(runs) for runs in self.sessions]


def trace_format_of(value: object) -> TraceFormat | None:
    """Return the form of traces that a JSON value has, `None` if it is no trace."""
    return next((name for name, reader in _READERS.items() if reader.fits(value)), None)


def read_traces(
    value: object,
    *,
    format: TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    path: str = "$",
    tolerant_arguments: bool = False,
) -> Traces:
    """Return what the agents of traces did.

    One call that is seen twice, as part of a message and as the span of its tool, is one call. Arguments and outputs
    that a trace did not keep are not set, and named in `execution.not_captured`. Every call has its place in
    `execution.source`: `trace/span#path`.

    Args:
        value: Traces, as JSON: of OpenTelemetry, Langfuse, LangSmith or the OpenAI Agents SDK.
        format: What it is; by default, what it looks like, which stands in the `format` of the result.
        handoff_names: Names of tools that hand over to another agent; their calls are hand-offs of the run, and not
            among its called tools.
        path: JSON path of the value in what it was read from; it begins every warning and every problem.
        tolerant_arguments: See `run_from_messages`.

    Raises:
        InvalidDataError: It is none of these, or shows no model, agent or tool; `problems` has every wrong place.
        ConfigurationError: `format` is no form of traces.
    """
    return read_trace_documents(
        [(path, plain(value))],
        format=format,
        handoff_names=handoff_names,
        tolerant_arguments=tolerant_arguments,
    )


def read_trace_documents(
    documents: Iterable[tuple[str, Any]],
    *,
    format: TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    tolerant_arguments: bool = False,
) -> Traces:
    """Return what the agents did in the traces of several values, such as the lines of a file, as `read_traces` does.

    Spans of one trace may stand in any of them.

    Args:
        documents: The values, each with the path that begins its warnings and problems.
        format: See `read_traces`, as for the rest.
        handoff_names: Names of tools that hand over to another agent.
        tolerant_arguments: Read argument texts that are no JSON object as what they can only mean.

    Raises:
        InvalidDataError: See `read_traces`; also where they are of several forms.
        ConfigurationError: See `read_traces`.
    """
    if format != "auto" and format not in TRACE_FORMATS:
        raise ConfigurationError(
            f"format must be 'auto' or one of {', '.join(map(repr, TRACE_FORMATS))}; got {format!r}"
        )
    notes, listed = Notes(), list(documents)
    found, fitting = _detected(listed, notes) if format == "auto" else (format, listed)
    with remembering():
        spans = _READERS[found].spans_in(fitting, notes)
    notes.raise_problems()
    runs, warnings = runs_of(spans, frozenset(handoff_names), tolerant=tolerant_arguments)
    if not runs:
        message = "shows no model, agent or tool at work" if spans else "holds no span"
        raise InvalidDataError(message, [Problem(listed[0][0] if listed else "$", message)])
    return Traces(found, runs, warnings)


def _detected(documents: list[tuple[str, Any]], notes: Notes) -> tuple[TraceFormat, list[tuple[str, Any]]]:
    """Return the form of the first trace, and the values that have it; any other is a problem."""
    found: TraceFormat | None = None
    fitting: list[tuple[str, Any]] = []
    for path, value in documents:
        name = trace_format_of(value)
        if name is None:
            known = "OpenTelemetry, Langfuse, LangSmith or the OpenAI Agents SDK"
            notes.problem(path, f"expected traces of {known}; this looks like none of them")
        elif found is not None and name != found:
            notes.problem(path, f"looks like {name}, but what stands before like {found}; one file has one form")
        else:
            found = name
            fitting.append((path, value))
    return found or "otel", fitting
