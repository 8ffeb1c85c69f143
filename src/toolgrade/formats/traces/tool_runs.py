"""Tool runs and hand-offs that OpenTelemetry spans record, and what a run received and returned.

A span may hold the argument object of a tool, its JSON text or `repr`, the call of the Python function behind the tool,
or an object of the framework around any of these; what the model requested decides between two readings. Results have
such wrappers, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import content_of, with_arguments
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.messages.transcript import Answer
from toolgrade.formats.traces.python_literal import read_literal
from toolgrade.formats.traces.span_messages import INPUTS, OUTPUTS, is_hidden
from toolgrade.formats.traces.span_tree import Event, Span, ToolRun
from toolgrade.formats.traces.trace_messages import answers_in, messages_in
from toolgrade.formats.traces.values import first_key, json_object, object_under
from toolgrade.matching.json_compare import ABSENT, json_equal

_TOOL_NAMES = (
    *("gen_ai.tool.name", "tool.name", "ai.toolCall.name"),
    # OpenLLMetry puts the name of any entity here, so names that only tools have come first.
    "traceloop.entity.name",
    *("tool_name", "tool_call.function.name", "haystack.tool.name"),
)
_CALL_IDS = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id", "tool_call_id")
_NO_IDS = (None, "", "<not specified>", "unknown")
"""Placeholders for an id that the tracer does not know; the last two are Google ADK's and Agent Framework's."""
_ARGUMENTS = (
    # The conventions' own name is exact. `input.value` and those below it hold any input, of a tool or not.
    *("gen_ai.tool.call.arguments", "gen_ai.tool.args", "tool_arguments", "ai.toolCall.args"),
    *("gcp.vertex.agent.tool_call_args", "tool_call.function.arguments", "tool.arguments"),
    *INPUTS,
    "haystack.agent.step.tool.input",
)
_RESULTS = (
    *("gen_ai.tool.call.result", "tool_response", "ai.toolCall.result"),
    *("gcp.vertex.agent.tool_response", "gen_ai.output"),
    *OUTPUTS,
    "haystack.agent.step.tool.output",
)
_FUNCTION_RESPONSE = frozenset({"id", "name", "response"})
"""Keys of Google's part around the result of a tool, which OpenInference keeps whole."""
MCP_SERVER = "toolgrade.mcp.server"
CALL_STATUS = "toolgrade.call.status"
"""Attributes of toolgrade's own recorder of MCP sessions: what the conventions have no name for."""
_HANDOFF_PREFIX = "handoff to "
_NAME_IN_SPAN = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")
_PYTHON_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""Keys that instrumentations of Python functions write; the last one is an argument of smolagents' own wrapper."""
_INVALID_JSON = {"INVALID_JSON"}
"""The key under which Pydantic AI's tool spans keep a text that is not JSON; the tool received nothing."""


def name_in(span_name: str) -> str:
    """Return the name of a tool or an agent in the name of its span; empty where there is none."""
    return "".join(_NAME_IN_SPAN.findall(span_name))


def handoff_target(span: Span) -> str | None:
    """Return the agent that a hand-off names; OpenInference and Logfire write hand-offs as tool spans."""
    attributes, name = span.attributes, span.name
    if first_key(attributes, *_TOOL_NAMES):
        return None
    if str(attributes.get("logfire.msg_template")).startswith("Handoff: "):
        return text_of(attributes.get("to_agent"))
    return name.removeprefix(_HANDOFF_PREFIX) if name.startswith(_HANDOFF_PREFIX) else None


def tool_run_of(span: Span) -> ToolRun:
    """Return the run of a tool that a span records in its attributes and events."""
    attributes, name = span.attributes, span.name
    is_mcp = attributes.get("mcp.method.name") is not None or attributes.get("gen_ai.tool.type") == "mcp"
    call_id = first_of(attributes, *_CALL_IDS)
    run = ToolRun(
        text_of(first_of(attributes, *_TOOL_NAMES)) or name_in(name) or name.removesuffix(".__call__"),
        None if call_id in _NO_IDS else str(call_id),
        _unwrap(_first_captured(attributes, _ARGUMENTS), "inputs", marker="input_str"),
        _unwrap(decoded(_first_captured(attributes, _RESULTS)), "output", marker="kwargs"),
        parameters=_parameter_names(attributes),
        input_wrapped=any(key.startswith("langsmith.") for key in attributes),
        type=ToolCallType.MCP if is_mcp else None,
        server=text_of(attributes.get(MCP_SERVER)),
        status=text_of(attributes.get(CALL_STATUS)),
    )
    _unwrap_mcp(run)
    _complete_from_events(run, span.events)
    if attributes.get("haystack.tool.error") is True:
        run.result, run.failed = json_object(run.result).get("error", run.result), True
    unwrap_result(run)
    return run


def _parameter_names(attributes: Fields) -> tuple[str, ...]:
    """Return the names of the tool's parameters, from its JSON Schema or from an object with a key for each."""
    schema = object_under(attributes, "tool.parameters")
    properties = object_under(schema, "properties") or schema
    return tuple(dict.fromkeys(name.partition(".")[0] for name in properties))


def _complete_from_events(run: ToolRun, events: Iterable[Event]) -> None:
    """Complete a run with events: Strands, and the conventions of 2024, keep arguments and results there."""
    for event in events:
        if run.arguments is ABSENT:
            run.arguments = _arguments_in(event)
        if run.result is ABSENT:
            run.result = _result_in(event)


def _arguments_in(event: Event) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.tool.message" and event.fields.get("content") is not None:
        return event.fields["content"]
    return _first_captured(event.attributes, _ARGUMENTS[:1])


def _result_in(event: Event) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.choice" and event.fields.get("message") is not None:
        return content_of(event.fields["message"])
    return _first_captured(event.attributes, _RESULTS[:1])


def _unwrap_mcp(run: ToolRun) -> None:
    """Unwrap an MCP call of OpenLLMetry: the arguments come with the name of the tool, the result in an object."""
    arguments = json_object(run.arguments)
    if set(arguments) != {"tool_name", "arguments"} or arguments["tool_name"] != run.tool:
        return
    run.arguments = arguments["arguments"]
    result = object_of(run.result)
    if "result" in result and result.keys() <= {"result", "is_error"}:
        run.result = result["result"]


def _unwrap(value: object, key: str, *, marker: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value under `key` of an object of OpenLLMetry, which `marker` identifies; any other value as it is."""
    wrapper = json_object(value)
    return wrapper[key] if marker in wrapper and wrapper.get(key) is not None else value


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
    if {"tool_id", "tool_output"} <= wrapper.keys():  # LlamaIndex's agent workflows
        run.call_id, wrapper = run.call_id or text_of(wrapper["tool_id"]), object_of(wrapper["tool_output"])
    answer = _answer_in(wrapper, run.tool)
    if answer is not None:
        run.result, run.failed = answer.content, run.failed or answer.failed
        run.call_id = run.call_id or answer.call_id


def _answer_in(wrapper: Fields, tool: str) -> Answer | None:
    """Return the answer of the tool in an object of a framework; `None` in any other object."""
    keys = wrapper.keys()
    if {"raw_output", "tool_name", "is_error"} <= keys:  # LlamaIndex's ToolOutput
        return Answer(None, tool, wrapper["raw_output"], wrapper["is_error"] is True)
    if {"name", "response"} <= keys <= _FUNCTION_RESPONSE and wrapper["name"] == tool:
        return Answer(None, tool, wrapper["response"])
    if isinstance(wrapper.get("content"), list) and "isError" in keys:  # MCP's CallToolResult
        return Answer(None, tool, content_of(wrapper["content"]), wrapper["isError"] is True)
    return langchain_answer(wrapper)


def langchain_answer(fields: Fields) -> Answer | None:
    """Return the answer in LangChain's message of a tool; `None` in any other object."""
    if "lc" not in fields and fields.get("type") not in ("tool", "ToolMessage"):
        return None
    answers = answers_in(messages_in(fields, "$", "tool"))
    return answers[0] if len(answers) == 1 else None


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
    if fields.keys() == _INVALID_JSON:
        return ABSENT
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
