"""`Tracer`: how one tracer writes what the GenAI conventions have names for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolgrade.formats.messages.message import Answer
from toolgrade.formats.traces.messages import Speaker, TraceMessage
from toolgrade.formats.traces.span_tree import Span, SpanKind, Tree

Attributes: TypeAlias = "dict[str, Any]"

INPUT, OUTPUT = "toolgrade.input", "toolgrade.output"
"""Names for what went into a span of any kind, and what came out; the conventions have names for models and tools."""
CONVERSATION = "toolgrade.conversation"
"""Name for a whole conversation, prompts and replies."""
HANDOFF = "toolgrade.handoff.agent"
"""Name for the agent that a tool span hands over to."""
MCP_SERVER = "toolgrade.mcp.server"
CALL_STATUS = "toolgrade.call.status"
"""Attributes of toolgrade's own recorder of MCP sessions: what the conventions have no name for."""
NO_OUTPUT = "no_output"
"""Status of a tool of the OpenAI Agents SDK that returned nothing, or that was not run because it needs approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracer:
    """How one tracer writes what the GenAI conventions have names for.

    Attributes:
        names: The tracer's own names of an attribute of the conventions, best first.
        lists: Prefixes of attributes that hold one message each, by the side of the model call.
        marks: Attributes and events that only spans of one kind have, for spans that do not name their kind.
        beside: Returns attributes that a span, or an object around spans, has under keys other than `attributes`.
        translate: Returns attributes with names of the conventions added, given the name of the span.
        offered: Yields the tools that a model or an agent could choose from, in any form of a definition.
        messages: Returns one side of a model call if no attribute of `names` and `lists` has it.
        complete: Completes a span that was read, e.g. from the record that it was exported in.
        complete_tool: Completes the run of a tool before its result is unwrapped.
        unwrap: Returns the result inside of an object of the framework, given that and the name of the tool.
        clean: Changes the tree of a trace.
    """

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    lists: Mapping[Speaker, tuple[str, ...]] = field(default_factory=dict[Speaker, "tuple[str, ...]"])
    marks: Mapping[SpanKind, tuple[str, ...]] = field(default_factory=dict[SpanKind, "tuple[str, ...]"])
    beside: Callable[[Mapping[str, Any]], Attributes] = lambda _: {}
    translate: Callable[[Attributes, str], Attributes] = lambda attributes, _: attributes
    offered: Callable[[Span], Iterable[Any]] = lambda _: ()
    messages: Callable[[Span, Speaker], list[TraceMessage]] = lambda _, __: []
    complete: Callable[[Span], None] = lambda _: None
    complete_tool: Callable[[Span], None] = lambda _: None
    unwrap: Callable[[Mapping[str, Any], str], Answer | None] = lambda _, __: None
    clean: Callable[[Tree], None] = lambda _: None
