"""Exports of LangSmith: its runs in a list, one a line, or nested in each other, which are read as spans.

A tool run has its arguments under `input`, often as the `repr` of an object, and returns LangChain's tool message,
which has the id of the call. Source: LangSmith documentation, "Run (span) data format".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade._internal.model import drop_none
from toolgrade.formats.messages.field_readers import Notes, id_of, list_of
from toolgrade.formats.traces.messages import last_text, speakers_of
from toolgrade.formats.traces.span_tree import Span, Tree
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT, Attributes, Tracer
from toolgrade.formats.traces.values import all_entries, first_text, string_of, time_of, token_counts
from toolgrade.matching.json_compare import ABSENT

_NAME = "langsmith"
_SESSIONS = ("session_id", "thread_id", "conversation_id")
_USAGE = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}


def is_langsmith(fields: Fields) -> bool:
    """Return whether `spans_in` reads an object."""
    return _is_run(fields) or (isinstance(fields.get("runs"), list) and all_entries(fields["runs"], is_langsmith))


def spans_in(entries: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of a file.

    Args:
        entries: The values in the file, each with its path.
        notes: Receives a problem for everything that cannot be read.
    """
    return list(_spans(entries, notes))


def _is_run(fields: Fields) -> bool:
    return isinstance(fields.get("run_type"), str) and "id" in fields


def _spans(entries: list[tuple[str, Any]], notes: Notes) -> Iterator[Span]:
    # A stack in the place of recursion: child runs may be nested deeper than Python recurses.
    stack: list[tuple[object, str, str, str]] = [(value, path, "", "") for path, value in reversed(entries)]
    while stack:
        entry, place, trace, parent = stack.pop()
        fields = object_of(entry)
        if isinstance(entry, list):
            stack += [(inner, f"{place}[{index}]", trace, parent) for index, inner in enumerate(entry)][::-1]
        elif _is_run(fields):
            span = _span(fields, place, trace, parent)
            yield span
            stack.append((fields.get("child_runs") or [], f"{place}.child_runs", span.trace, span.id))
        elif isinstance(fields.get("runs"), list):
            stack.append((fields["runs"], f"{place}.runs", trace, parent))
        else:
            notes.problem(place, f"expected a LangSmith run (id, run_type), got {short_repr(entry)}")


def _span(fields: Fields, path: str, trace: str, parent: str) -> Span:
    """Return the span of a run; a nested run may leave out the ids of its trace and its parent."""
    run_id = str(fields["id"])
    extra = object_of(fields.get("extra"))
    metadata = {**object_of(fields.get("metadata")), **object_of(extra.get("metadata"))}
    is_tool = str(fields["run_type"]).lower() == "tool"
    attributes = _tool_attributes(fields, extra) if is_tool else _model_attributes(fields, extra, metadata)
    attributes |= {"langsmith.span.kind": fields["run_type"], "gen_ai.agent.name": metadata.get("lc_agent_name")}
    span = Span(
        run_id,
        str(fields.get("trace_id") or trace or run_id),
        path,
        id_of(fields.get("parent_run_id") or parent),
        string_of(fields.get("name")),
        started_at=time_of(fields.get("start_time"), unit="ms"),
        ended_at=time_of(fields.get("end_time"), unit="ms"),
        attributes=drop_none(attributes),
        places={INPUT: f"{path}.inputs", OUTPUT: f"{path}.outputs"},
        session=id_of(first_of(metadata, *_SESSIONS)),
        error=_error_of(fields),
        exporter=_NAME,
    )
    if span.parent is None:
        span.tags = list(map(str, list_of(fields.get("tags"))))
    return span


def _error_of(fields: Fields) -> str | None:
    """Return the error of a run without its traceback, or the first line of one that is only a traceback."""
    error = text_of(fields.get("error"))
    if error is None:
        return None
    return error.partition("Traceback (most recent call last)")[0].strip() or error.splitlines()[0]


def _tool_attributes(fields: Fields, extra: Fields) -> Attributes:
    outputs = object_of(fields.get("outputs"))
    has_result = set(outputs) == {"output"} and outputs["output"] is not None
    return {
        "gen_ai.tool.name": fields.get("name"),
        "gen_ai.tool.call.id": text_of(extra.get("tool_call_id")),
        "gen_ai.tool.call.arguments": fields.get("inputs"),
        "gen_ai.tool.call.result": outputs["output"] if has_result else fields.get("outputs"),
    }


def _model_attributes(fields: Fields, extra: Fields, metadata: Fields) -> Attributes:
    inputs, outputs = as_object(fields.get("inputs")), object_of(fields.get("outputs"))
    parameters = object_of(extra.get("invocation_params"))
    usage: dict[str, int] = {}
    details = object_of(outputs.get("llm_output")).get("token_usage")
    # Later sources win: the counts of the run itself are more reliable than those that integrations leave in outputs.
    for counts in (outputs.get("usage"), details, outputs.get("usage_metadata"), fields):
        usage |= token_counts(object_of(counts), _USAGE)
    return {
        INPUT: inputs,
        OUTPUT: fields.get("outputs") or None,
        "gen_ai.tool.definitions": first_of(parameters, "tools", "functions") or (inputs or {}).get("tools"),
        "gen_ai.request.model": first_text(first_of(parameters, "model", "model_name"), metadata.get("ls_model_name")),
        **{f"gen_ai.usage.{name}": count for name, count in usage.items()},
    }


def _complete_tool(span: Span) -> None:
    run = span.tool_run
    run.input_wrapped |= any(key.startswith("langsmith.") for key in span.attributes)
    if span.exporter == _NAME and run.result == {"output": None}:  # the tool returned nothing
        run.result = None


def _complete(span: Span) -> None:
    if span.exporter != _NAME:
        return
    # Exports often have the root runs alone, without their models; such a run answers like a model.
    if span.kind == "other" and span.parent is None and "model" in speakers_of(span.reply_messages):
        span.kind, span.agent = "agent", span.agent or span.name
    span.input_text, span.output_text = last_text(span.prompt, "user"), last_text(span.reply_messages, "model")


def _drop_hidden_values(tree: Tree) -> None:
    """Mark the arguments and results of tools as not captured where the client hid them.

    The client writes `{}` for hidden values, and `{}` is also a valid value. Models show which of the two it is:
    a model always receives messages, so an empty prompt or reply means that this side of the trace is hidden.
    """
    models = [span for span in tree.of_kind("model") if span.exporter == _NAME]
    hides_inputs = any(not span.prompt for span in models)
    hides_outputs = any(span.reply is None and span.error is None for span in models)
    for run in (span.tool_run for span in tree.of_kind("tool")):
        run.arguments = ABSENT if hides_inputs and run.arguments == {} else run.arguments
        run.result = ABSENT if hides_outputs and run.result == {} else run.result


LANGSMITH = Tracer(
    names={"gen_ai.operation.name": ("langsmith.span.kind",)},
    complete=_complete,
    complete_tool=_complete_tool,
    clean=_drop_hidden_values,
)
