"""Spans of Haystack's own tracer (Haystack documentation, "Tracing", section "Content Tracing")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrade.formats.traces.messages import tools_beside_messages
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT, Attributes, Tracer
from toolgrade.formats.traces.values import json_object

_OPERATIONS = {
    "haystack.agent.run": "invoke_agent",
    "haystack.agent.step.llm": "chat",
    "haystack.agent.step.tool": "execute_tool",
}
"""Operations by the names of spans, which have no attribute for their kind."""
_PROMPTS = ("haystack.agent.step.llm.input", "haystack.component.input")


def _translate(attributes: Attributes, span_name: str) -> Attributes:
    operation = _OPERATIONS.get(span_name)
    if operation is None and str(attributes.get("haystack.component.type")).endswith("Generator"):
        operation = "chat"
    return attributes if operation is None else {"gen_ai.operation.name": operation, **attributes}


def _offered(span: Span) -> Iterator[Any]:
    for key in _PROMPTS:
        yield from tools_beside_messages(span.attributes.get(key))


def _complete_tool(span: Span) -> None:
    if span.attributes.get("haystack.tool.error") is True:
        run = span.tool_run
        run.result, run.failed = json_object(run.result).get("error", run.result), True


HAYSTACK = Tracer(
    names={
        "gen_ai.tool.name": ("haystack.tool.name",),
        INPUT: (
            *("haystack.agent.step.llm.input", "haystack.agent.input", "haystack.component.input"),
            "haystack.agent.step.tool.input",
        ),
        OUTPUT: (
            *("haystack.agent.step.llm.output", "haystack.agent.output", "haystack.component.output"),
            "haystack.agent.step.tool.output",
        ),
    },
    translate=_translate,
    offered=_offered,
    complete_tool=_complete_tool,
)
