"""OpenLLMetry by Traceloop (its documentation, "GenAI Semantic Conventions": prompts, completions and functions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrade._internal.message_content import object_of
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT, Tracer
from toolgrade.formats.traces.values import indexed, json_object

_ASSOCIATION = "traceloop.association.properties"


def _offered(span: Span) -> Iterator[Any]:
    for entry in indexed(span.attributes, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def _complete_tool(span: Span) -> None:
    """Unwrap arguments and result, which LangChain's and MCP's tools have in objects."""
    run = span.tool_run
    run.arguments = _unwrap(run.arguments, "inputs", marker="input_str")
    run.result = _unwrap(run.result, "output", marker="kwargs")
    arguments = json_object(run.arguments)
    if set(arguments) == {"tool_name", "arguments"} and arguments["tool_name"] == run.tool:
        run.arguments = arguments["arguments"]
        result = object_of(run.result)
        if "result" in result and result.keys() <= {"result", "is_error"}:
            run.result = result["result"]


def _unwrap(value: object, key: str, *, marker: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value under `key` of an object that `marker` identifies; any other value as it is."""
    wrapper = json_object(value)
    return wrapper[key] if marker in wrapper and wrapper.get(key) is not None else value


OPENLLMETRY = Tracer(
    names={
        "gen_ai.operation.name": ("traceloop.span.kind",),
        "gen_ai.conversation.id": (f"{_ASSOCIATION}.thread_id", f"{_ASSOCIATION}.session_id"),
        "gen_ai.response.finish_reasons": ("anthropic.message.stop_reason",),
        "gen_ai.usage.total_tokens": ("llm.usage.total_tokens",),
        "gen_ai.tool.name": ("traceloop.entity.name",),  # the name of any entity
        "gen_ai.tool.call.arguments": ("tool.arguments",),
        INPUT: ("traceloop.entity.input",),
        OUTPUT: ("traceloop.entity.output",),
    },
    lists={"user": ("gen_ai.prompt.", "llm.prompts."), "model": ("gen_ai.completion.", "llm.completions.")},
    marks={"model": ("llm.request.type",), "tool": ("tool.arguments",)},
    offered=_offered,
    complete_tool=_complete_tool,
)
