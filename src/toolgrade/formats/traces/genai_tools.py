"""Tool runs in the attributes and events of a span, and what a run received and returned.

Sources: OpenTelemetry, "Semantic conventions for generative client AI spans", section "Execute tool span";
"Semantic conventions for Model Context Protocol (MCP)". A span may hold the argument object of a tool, its JSON text or
`repr`, the call of the Python function behind the tool, or an object of the framework around any of these; what the
model requested decides between two readings. Results have such wrappers, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import content_of, with_arguments
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.messages.transcript import Answer
from toolgrade.formats.traces.messages import langchain_answer
from toolgrade.formats.traces.span_tree import Event, Span, ToolRun
from toolgrade.formats.traces.tracers import TRACERS, names_of
from toolgrade.formats.traces.tracers.tracer import CALL_STATUS, INPUT, MCP_SERVER, OUTPUT
from toolgrade.formats.traces.values import is_hidden, json_object, object_under, read_literal
from toolgrade.matching.json_compare import ABSENT, json_equal

_NAMES = (*names_of("gen_ai.tool.name"), "tool_name")
_CALL_IDS = (*names_of("gen_ai.tool.call.id"), "tool_call_id")
_NO_IDS = (None, "", "<not specified>", "unknown")
"""Placeholders for an id that the tracer does not know."""
# The conventions' own name is exact. Names for any input and output, of a tool or not, come last.
_ARGUMENTS = (*names_of("gen_ai.tool.call.arguments", "gen_ai.tool.args"), *names_of(INPUT))
_RESULTS = (*names_of("gen_ai.tool.call.result"), "gen_ai.output", *names_of(OUTPUT))
_FUNCTION_RESPONSE = frozenset({"id", "name", "response"})
"""Keys of Google's part around the result of a tool (Gemini API reference, `FunctionResponse`)."""
_NAME_IN_SPAN = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")
_PYTHON_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""Keys that instrumentations of Python functions write; the last one is an argument of a framework's own wrapper."""


def name_in(span_name: str) -> str:
    """Return the name of a tool or an agent in the name of its span; empty where there is none."""
    return "".join(_NAME_IN_SPAN.findall(span_name))


def read_tool_run(span: Span) -> None:
    """Set the run of a tool that a span records in its attributes and events."""
    attributes = span.attributes
    is_mcp = attributes.get("mcp.method.name") is not None or attributes.get("gen_ai.tool.type") == "mcp"
    call_id = first_of(attributes, *_CALL_IDS)
    run = span.tool_run = ToolRun(
        text_of(first_of(attributes, *_NAMES)) or name_in(span.name) or span.name.removesuffix(".__call__"),
        None if call_id in _NO_IDS else str(call_id),
        _first_captured(attributes, _ARGUMENTS),
        decoded(_first_captured(attributes, _RESULTS)),
        parameters=_parameter_names(attributes),
        type=ToolCallType.MCP if is_mcp else None,
        server=text_of(attributes.get(MCP_SERVER)),
        status=text_of(attributes.get(CALL_STATUS)),
    )
    for event in span.events:
        if run.arguments is ABSENT:
            run.arguments = _arguments_in(event)
        if run.result is ABSENT:
            run.result = _result_in(event)
    for tracer in TRACERS:
        if tracer.complete_tool is not None:
            tracer.complete_tool(span)
    unwrap_result(run)


def _parameter_names(attributes: Fields) -> tuple[str, ...]:
    """Return the names of the tool's parameters, from its JSON Schema or from an object with a key for each."""
    schema = object_under(attributes, "tool.parameters")
    properties = object_under(schema, "properties") or schema
    return tuple(dict.fromkeys(name.partition(".")[0] for name in properties))


def _arguments_in(event: Event) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.tool.message" and event.fields.get("content") is not None:
        return event.fields["content"]
    return _first_captured(event.attributes, _ARGUMENTS[:1])


def _result_in(event: Event) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.choice" and event.fields.get("message") is not None:
        return content_of(event.fields["message"])
    return _first_captured(event.attributes, _RESULTS[:1])


def _first_captured(attributes: Fields, keys: Iterable[str]) -> Any:  # noqa: ANN401 - a JSON value
    """Return the first of these attributes that has a value; `ABSENT` where there is none, or where it was hidden."""
    value = first_of(attributes, *keys)
    return ABSENT if value is None or is_hidden(value) else value


def unwrap_result(run: ToolRun) -> None:
    """Replace the object that a framework returns for a tool with the result inside of it.

    The object may also have the id of the call, and whether the tool failed.
    """
    wrapper = json_object(run.result)
    if set(wrapper) == {"output"}:
        wrapper = as_object(wrapper["output"]) or wrapper
    answer = _answer_in(wrapper, run.tool)
    if answer is not None:
        run.result, run.failed = answer.content, run.failed or answer.failed
        run.call_id = run.call_id or answer.call_id


def _answer_in(wrapper: Fields, tool: str) -> Answer | None:
    """Return the answer of the tool in an object of a framework; `None` in any other object."""
    keys = wrapper.keys()
    if {"name", "response"} <= keys <= _FUNCTION_RESPONSE and wrapper["name"] == tool:
        return Answer(None, tool, wrapper["response"])
    if isinstance(wrapper.get("content"), list) and "isError" in keys:  # MCP's CallToolResult
        return Answer(None, tool, content_of(wrapper["content"]), wrapper["isError"] is True)
    answers = (tracer.unwrap(wrapper, tool) for tracer in TRACERS if tracer.unwrap is not None)
    return next(filter(None, answers), None) or langchain_answer(wrapper)


def received_arguments(span: Span, requested: object = ABSENT) -> object:
    """Return the arguments that a tool received; `ABSENT`, and maybe a warning, where the span does not show them.

    An object that equals the requested arguments is not unwrapped, since a model may call a tool whose parameters are
    named `input`, or `args` and `kwargs`.
    """
    value = span.tool_run.arguments
    if value is ABSENT:
        return ABSENT
    fields = _object_in(value)
    if fields is None:
        return _argument_of_text(span, requested)
    if json_equal(fields, requested):
        return fields
    is_python_call = isinstance(fields.get("kwargs"), dict) and isinstance(fields.get("args", []), list)
    if is_python_call and fields.keys() <= _PYTHON_CALL:  # {"args": [1], "kwargs": {"b": 2}}
        return _arguments_by_name(fields, span, requested)
    if isinstance(value, dict) and fields.keys() == {"input"}:
        return _argument_of_input(fields, requested, is_wrapped=span.tool_run.input_wrapped)
    return fields


def _argument_of_input(fields: Fields, requested: object, *, is_wrapped: bool) -> object:
    """Return the arguments of `{"input": ...}`: a framework's object around them, or the arguments themselves."""
    inner = _object_in(fields["input"])
    if inner is None:
        return ABSENT if is_wrapped and requested is not ABSENT else fields
    return inner if is_wrapped or json_equal(inner, requested) else fields


def _argument_of_text(span: Span, requested: object) -> object:
    """Return the arguments of a tool whose span holds a value that is not an object."""
    value = span.tool_run.arguments
    text = str(value).strip()
    if requested is not ABSENT:
        return ABSENT  # the requested object is more exact than a summary of it
    if text.startswith("{"):
        tool = span.tool_run.tool
        span.doubt(span.path, f"the JSON text of the arguments of {tool!r} is cut off; they count as not captured")
        return ABSENT
    # A LangChain tool with one parameter is traced with that argument alone, as a text.
    return {} if value is None or not text else {"input": value}


def _arguments_by_name(fields: Fields, span: Span, requested: object) -> object:
    """Return the arguments of a Python call by their names; positional ones need the parameters of the tool."""
    positional, names = fields.get("args") or [], span.tool_run.parameters
    if len(positional) <= len(names):
        return {**dict(zip(names, positional, strict=False)), **fields["kwargs"]}
    if requested is ABSENT:
        message = f"the arguments of {span.tool_run.tool!r} are positional and their names are unknown"
        span.doubt(span.path, f"{message}; they count as not captured")
    return ABSENT


def _object_in(value: object) -> dict[str, Any] | None:
    """Return the object that a value is, or that its text means as JSON or as a Python literal."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.strip():
        return None
    arguments = with_arguments(Request("_"), value).arguments
    return arguments if isinstance(arguments, dict) else read_literal(value)
