"""Reader of traces in all supported forms, which detects the form.

`read_traces` takes OpenTelemetry spans (OTLP as JSON, Jaeger, Tempo, Phoenix, dumps of SDKs), Langfuse exports,
LangSmith runs, and traces of the OpenAI Agents SDK. Each trace becomes a run; runs of one session are a conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from toolgrade._internal.json import within_limits
from toolgrade._internal.message_content import Fields
from toolgrade.capture.conversations import by_conversation, conversation, whole_runs_of_sessions
from toolgrade.cases import ConversationalTestCase, Run
from toolgrade.errors import ConfigurationError, InvalidDataError, Problem
from toolgrade.formats.messages.field_readers import Notes, plain
from toolgrade.formats.traces import otel
from toolgrade.formats.traces.genai import interpret
from toolgrade.formats.traces.messages import remember_messages
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.to_runs import runs_of
from toolgrade.formats.traces.tracers import langfuse, langsmith, openai_agents
from toolgrade.formats.traces.values import all_entries, entries_of

TraceFormat: TypeAlias = Literal["otel", "langfuse", "langsmith", "openai-agents"]
"""The trace formats that `read_traces` reads."""

TRACE_FORMATS: tuple[TraceFormat, ...] = get_args(TraceFormat)
"""The names of all trace formats."""

_Form: TypeAlias = "tuple[Callable[[Fields], bool], Callable[[list[tuple[str, Any]], Notes], list[Span]]]"

# In the order of detection: almost any object may hold OpenTelemetry spans, so that format is last.
_FORMS: dict[TraceFormat, _Form] = {
    "openai-agents": (openai_agents.is_openai_agents, openai_agents.spans_in),
    "langsmith": (langsmith.is_langsmith, langsmith.spans_in),
    "langfuse": (langfuse.is_langfuse, langfuse.spans_in),
    "otel": (otel.is_otel, otel.spans_in),
}


@dataclass(frozen=True)
class Traces:
    """The result of reading traces.

    Attributes:
        format: The format that they were read as.
        runs: A run for each trace with a model, an agent or a tool, in the order of their start. A trace that waited
            for a person and those of its session that went on with it are one run. The `run_id` is the id of the first
            trace, the `conversation_id` is the session.
        warnings: Warnings about the file as a whole; those about one trace are on its run.

    Example:
        >>> from toolgrade.formats import read_traces
        >>> span = {"id": "r1", "trace_id": "r1", "run_type": "tool", "start_time": "2026-01-02T10:00:00"}
        >>> traces = read_traces([span | {"name": "get_weather", "inputs": {"city": "Paris"}}])
        >>> print(traces.format, [call.name for run in traces.runs for call in run.calls])
        langsmith ['get_weather']
    """

    format: TraceFormat
    runs: list[Run]
    warnings: list[str] = field(default_factory=list)

    @property
    def sessions(self) -> list[list[Run]]:
        """The runs of each session, sessions in the order of their first run; a run without one is its own session."""
        return by_conversation(self.runs)

    @property
    def conversations(self) -> list[ConversationalTestCase]:
        """A conversation for each session; one trace without a session has its own id."""
        return list(map(session_conversation, self.sessions))


def session_conversation(runs: list[Run]) -> ConversationalTestCase:
    """Return the runs of a session as a conversation; without a session, it has the id of its trace."""
    return conversation(runs, id=runs[0].conversation_id or runs[0].run_id)


@within_limits
def trace_format_of(value: object) -> TraceFormat | None:
    """Return the trace format of a JSON value, `None` if it is not a trace."""
    return next((name for name, (is_export, _) in _FORMS.items() if all_entries(value, is_export)), None)


@within_limits
def read_traces(
    value: object,
    *,
    format: TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    path: str = "$",
) -> Traces:
    """Return a run for each trace.

    A call that a trace records twice, in a message and as the span of its tool, is one call. Arguments and outputs that
    were not captured are unset and named in `execution.not_captured`. `execution.source` is the place of a call:
    `trace/span#path`.

    Args:
        value: Traces of OpenTelemetry, Langfuse, LangSmith or the OpenAI Agents SDK, as JSON values.
        format: The format of the value; detected by default, and then named in the `format` of the result.
        handoff_names: Names of tools that hand over to another agent. Their calls are hand-offs of the run and not
            among its called tools.
        path: JSON path of the value in its file; every warning and every problem begins with it.

    Raises:
        InvalidDataError: The value is not a trace, or shows no model, agent or tool; `problems` lists every wrong
            place.
        ConfigurationError: `format` is not the name of a trace format.

    Example:
        >>> from toolgrade.formats import read_traces
        >>> tool = {"id": "r2", "trace_id": "r1", "parent_run_id": "r1", "run_type": "tool", "name": "get_weather"}
        >>> tool |= {"start_time": "2026-01-02T10:00:01", "inputs": {"city": "Paris"}, "outputs": {"output": "sunny"}}
        >>> root = {"id": "r1", "trace_id": "r1", "run_type": "chain", "start_time": "2026-01-02T10:00:00"}
        >>> run = read_traces([root, tool]).runs[0]
        >>> print(run.run_id, [(call.name, call.arguments, call.output) for call in run.calls])
        r1 [('get_weather', {'city': 'Paris'}, 'sunny')]
    """
    return read_trace_documents([(path, plain(value))], format=format, handoff_names=handoff_names)


@within_limits
def read_trace_documents(
    documents: Iterable[tuple[str, Any]],
    *,
    format: TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
) -> Traces:
    """Return a run for each trace in several values, such as the lines of a file; see `read_traces`.

    The spans of one trace may be in any of the values.

    Args:
        documents: The values, each with the path that begins its warnings and problems.
        format: See `read_traces`, as for the other arguments.
        handoff_names: Names of tools that hand over to another agent.

    Raises:
        InvalidDataError: See `read_traces`; also if the values have different formats.
        ConfigurationError: See `read_traces`.
    """
    if format not in ("auto", *TRACE_FORMATS):
        names = ", ".join(map(repr, TRACE_FORMATS))
        raise ConfigurationError(f"format must be 'auto' or one of {names}; got {format!r}")
    notes, documents = Notes(), list(documents)
    first_path, _ = next(iter(documents), ("$", None))
    detected, documents = _detect(documents, notes) if format == "auto" else (format, documents)
    with remember_messages():
        _, spans_in = _FORMS[detected]
        entries = [entry for path, value in documents for entry in entries_of(value, path)]
        spans = list(map(interpret, spans_in(entries, notes)))
    notes.raise_problems()
    runs, warnings = runs_of(spans, frozenset(handoff_names))
    runs = whole_runs_of_sessions(runs)
    if not runs:
        message = "shows no model, agent or tool at work" if spans else "holds no span"
        raise InvalidDataError(message, [Problem(first_path, message)])
    return Traces(detected, runs, warnings)


def _detect(documents: list[tuple[str, Any]], notes: Notes) -> tuple[TraceFormat, list[tuple[str, Any]]]:
    """Return the format of the first trace and the values in that format; any other value is a problem."""
    first: TraceFormat | None = None
    matching: list[tuple[str, Any]] = []
    for path, value in documents:
        detected = trace_format_of(value)
        first = first or detected
        if detected is None:
            names = "OpenTelemetry, Langfuse, LangSmith or the OpenAI Agents SDK"
            notes.problem(path, f"expected traces of {names}; the value looks like none of them")
        elif detected == first:
            matching.append((path, value))
        else:
            message = f"looks like {detected}, but earlier values look like {first}; split the file by format"
            notes.problem(path, message)
    return first or "otel", matching
