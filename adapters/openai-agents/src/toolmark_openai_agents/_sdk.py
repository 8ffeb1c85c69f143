"""What differs between releases of the SDK, and what its objects say: found by looking, not by their version."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final

from agents import Agent
from agents.exceptions import MaxTurnsExceeded, OutputGuardrailTripwireTriggered
from agents.tracing import get_current_span
from pydantic import BaseModel

from toolmark import ToolCallType, ToolSpec
from toolmark.calls import read_tool_spec

_PROVIDER_TOOLS: Final = {
    "WebSearchTool": "web_search",
    "FileSearchTool": "file_search",
    "CodeInterpreterTool": "code_interpreter",
    "ImageGenerationTool": "image_generation",
}
_LOCAL_TOOLS: Final = {
    "ComputerTool": "computer_use_preview",
    "ShellTool": "shell",
    "LocalShellTool": "local_shell",
    "ApplyPatchTool": "apply_patch",
}
_NO_TOOLS: Final = frozenset({"HostedMCPTool", "ToolSearchTool", "ProgrammaticToolCallingTool"})
"""Stand for tools that have names of their own, or that are no tools of the agent."""


WHOLE: Final = (MaxTurnsExceeded, OutputGuardrailTripwireTriggered)
"""Exceptions whose `run_data` has all that happened."""


def raw(item: Any) -> Any:  # noqa: ANN401 - an item of the SDK
    """Return the provider's item in an item of a run; the item itself, if it is one already."""
    return getattr(item, "raw_item", item)


def field(item: Any, name: str) -> Any:  # noqa: ANN401 - a field of a dict or an object
    """Return a field of an item, which may be a dict or an object."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def tool_name(tool: Any) -> str:  # noqa: ANN401 - a tool of any class
    """Return the name under which a tool's calls are read."""
    kind = type(tool).__name__
    known = _LOCAL_TOOLS.get(kind) or _PROVIDER_TOOLS.get(kind)
    return known or str(getattr(tool, "name", "") or "")


def is_custom(tool: Any) -> bool:  # noqa: ANN401 - a tool of any class
    """Return whether a tool takes free text."""
    return type(tool).__name__ == "CustomTool"


def has_object_arguments(tool: Any) -> bool:  # noqa: ANN401 - a tool of any class
    """Return whether a tool is handed a JSON object in the model's own words."""
    return type(tool).__name__ not in _LOCAL_TOOLS


def is_told_by_item(tool: Any) -> bool:  # noqa: ANN401 - a tool of any class
    """Return whether the item of a tool's result says more than the hook does, which gets a text made of it."""
    return type(tool).__name__ in ("ShellTool", "ComputerTool")


def mcp_server(agent: Any, tool: Any) -> str | None:  # noqa: ANN401 - objects of the SDK
    """Return the name of the MCP server that a tool of an agent comes from; `None` if it does not come from one."""
    origin = getattr(tool, "_tool_origin", None)
    if origin is not None:
        name = getattr(origin, "mcp_server_name", None)
        return name if isinstance(name, str) else None
    servers = getattr(agent, "mcp_servers", None) or ()
    own = any(tool is known for known in getattr(agent, "tools", ()))
    if not servers or own or type(tool).__name__ != "FunctionTool":
        return None
    bound = getattr(getattr(tool, "on_invoke_tool", None), "args", ())  # a partial of (server, tool) in older releases
    named = getattr(bound[0] if bound else None, "name", None)
    return named if isinstance(named, str) else str(getattr(servers[0], "name", "mcp"))


def spec_of(agent: Any, tool: Any) -> ToolSpec | None:  # noqa: ANN401 - objects of the SDK
    """Return what a model was told of a tool; `None` for what stands for tools that are listed elsewhere."""
    kind = type(tool).__name__
    name = tool_name(tool)
    if kind in _NO_TOOLS or not name:
        return None
    about: dict[str, Any] = {"name": name}
    description = getattr(tool, "description", None)
    if isinstance(description, str) and description:
        about["description"] = description
    schema = getattr(tool, "params_json_schema", None)
    if isinstance(schema, Mapping):
        about["input_schema"] = dict(schema)
    if kind in _PROVIDER_TOOLS:
        about["type"] = ToolCallType.HOSTED
    elif is_custom(tool):
        about["type"] = ToolCallType.CUSTOM
    elif mcp_server(agent, tool) is not None:
        about["type"] = ToolCallType.MCP
    hints = getattr(tool, "mcp_annotations", None)  # since 0.24
    return read_tool_spec({**about, "annotations": hints})


def handoff_names(agent: Any) -> dict[str, str]:  # noqa: ANN401 - an agent of the SDK
    """Return the agents that an agent can hand over to, by the names of the tools that do it."""
    names: dict[str, str] = {}
    for handoff in getattr(agent, "handoffs", None) or ():
        if isinstance(handoff, Agent):
            names[_default_name(handoff)] = handoff.name
        else:
            names[str(handoff.tool_name)] = str(handoff.agent_name)
    return names


def ways_to(agent: Any) -> dict[str, str]:  # noqa: ANN401 - an agent of the SDK
    """Return the tools that hand over from an agent, and to it under its usual name, with the agents they lead to."""
    return {**handoff_names(agent), _default_name(agent): agent.name} if isinstance(agent, Agent) else {}


def _default_name(agent: Any) -> str:  # noqa: ANN401 - an agent of the SDK
    from agents.handoffs import Handoff  # noqa: PLC0415 - a package or a module, by release

    return str(Handoff.default_tool_name(agent))


def model_name(agent: Any, run_config: Any) -> str | None:  # noqa: ANN401 - objects of the SDK
    """Return the name of the model that an agent runs on, where it says so."""
    for holder in (run_config, agent):
        model = field(holder, "model") if holder is not None else None
        name = model if isinstance(model, str) else getattr(model, "model", None)
        if model is not None:
            return name if isinstance(name, str) else None
    return None


def usage_of(response: Any) -> dict[str, int]:  # noqa: ANN401 - a response of the SDK
    """Return the token counts of one model response, those of requests that were not charged left out."""
    usage = getattr(response, "usage", None)
    counts: dict[str, int] = {}
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        amount = getattr(usage, name, 0)
        if isinstance(amount, int) and amount:
            counts[name] = amount
    for direction, detail in (("input", "cached_tokens"), ("output", "reasoning_tokens")):
        amount = getattr(getattr(usage, f"{direction}_tokens_details", None), detail, 0)
        if isinstance(amount, int) and amount:
            counts[f"{direction}_{detail}"] = amount
    return counts


def current_span() -> Any:  # noqa: ANN401 - a span of any provider
    """Return the span in which the caller runs; there is one without tracing, too."""
    return get_current_span()


# What a tool returned


def plain_output(output: object, shown: object) -> object:
    """Return what a tool returned as a value that can be kept: text parts as text, anything unusual as it was shown.

    Args:
        output: What the tool returned.
        shown: What the model is shown of it, if that is known.
    """
    part = _part(output)
    if part is not None:
        return part
    if isinstance(output, (list, tuple)):
        parts = [_part(item) for item in output]
        if output and all(isinstance(item, str) for item in parts):
            return "".join(str(item) for item in parts)
        return [item if item is not None else output[index] for index, item in enumerate(parts)]
    if isinstance(output, (set, frozenset, bytes, bytearray, BaseException)) or not _is_plain(output):
        return shown if isinstance(shown, str) else str(output)
    return output


def _is_plain(value: object) -> bool:
    """Return whether a value is data, and not an object whose text is all that is known of it."""
    return (
        value is None
        or isinstance(value, (str, int, float, Mapping, BaseModel))
        or (dataclasses.is_dataclass(value) and not isinstance(value, type))
    )


def _part(value: object) -> object:
    """Return the text of a text part, the fields of an image or a file; `None` for anything else."""
    fields = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
    if not isinstance(fields, Mapping):
        return None
    kind = fields.get("type")
    if kind in ("text", "input_text") and isinstance(fields.get("text"), str):
        return fields["text"]
    return dict(fields) if kind in ("image", "file", "input_image", "input_file") else None


def final_text(output: object) -> str | None:
    """Return the final answer as text: that of a model or of a value is its JSON form."""
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, BaseModel):
        return output.model_dump_json()
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = dataclasses.asdict(output)
    try:
        return json.dumps(output, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(output)


# What the user said


def question_in(given: object) -> str | None:
    """Return the text of the user in the input of a run: of a list, that of the user messages at its end."""
    if isinstance(given, str):
        return given
    texts: list[str] = []
    for item in reversed(given if isinstance(given, (list, tuple)) else ()):
        if field(item, "role") != "user":
            break
        texts.append(_message_text(field(item, "content")))
    said = [text for text in reversed(texts) if text]
    return "\n".join(said) if said else None


def _message_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content if isinstance(content, (list, tuple)) else ()
    return "".join(str(field(part, "text") or "") for part in parts if field(part, "type") in ("input_text", "text"))


# How a run is configured


def with_formatter(run_config: Any, formatter: Any) -> Any:  # noqa: ANN401 - a config of the SDK, or a dict of one
    """Return a copy of a run's configuration in which tools' errors pass this formatter; the same where none can be.

    Without a configuration it is a dict: given one of its own class, the SDK would no longer close what it opens.
    """
    if run_config is None:
        return {"tool_error_formatter": formatter}
    if isinstance(run_config, Mapping):
        return {**run_config, "tool_error_formatter": formatter}
    changed = copy.copy(run_config)
    changed.tool_error_formatter = formatter
    return changed


@functools.cache
def tells_exceptions() -> bool:
    """Return whether this release gives a formatter of tool errors the exception of a tool."""
    try:
        from agents.run_config import ToolErrorFormatterArgs  # noqa: PLC0415 - tools had no formatter before
    except ImportError:
        return False
    return "error" in {field.name for field in dataclasses.fields(ToolErrorFormatterArgs)}


@functools.cache
def runs_repeated_calls_once() -> bool:
    """Return whether this release runs a call once that a provider repeats under the same id, with the same words."""
    return find_spec("agents._tool_invocation") is not None


# A run that goes on with an interrupted one


def is_state(given: Any) -> bool:  # noqa: ANN401 - an input of a run
    """Return whether the input of a run is the state of an interrupted one."""
    return not isinstance(given, (str, list)) and hasattr(given, "get_interruptions")


def items_in(state: Any) -> list[Any]:  # noqa: ANN401 - a state of the SDK
    """Return the items of the run so far."""
    return list(getattr(state, "_generated_items", None) or ())


def responses_in(state: Any) -> list[Any]:  # noqa: ANN401 - a state of the SDK
    """Return the model's responses so far."""
    return list(getattr(state, "_model_responses", None) or ())


def input_in(state: Any) -> Any:  # noqa: ANN401 - a state of the SDK
    """Return the input that the run began with."""
    return getattr(state, "_original_input", None)


def waiting_ids(state: Any) -> set[str]:  # noqa: ANN401 - a state of the SDK
    """Return the ids of the calls that wait for a person."""
    items = [raw(item) for item in state.get_interruptions()]
    return {call_id for item in items if isinstance(call_id := field(item, "call_id") or field(item, "id"), str)}


def conversation_in(options: Mapping[str, Any]) -> str | None:
    """Return the conversation that a run belongs to, as its options say: that of its session, or named by them."""
    named = getattr(options.get("session"), "session_id", None) or options.get("conversation_id")
    run_config = options.get("run_config")
    named = named or (field(run_config, "group_id") if run_config is not None else None)
    return named if isinstance(named, str) else None


# Streamed runs


@dataclasses.dataclass
class Answered:
    """Stands in for the result of a stream that nobody holds any more."""

    final_output: Any


def task_of(result: Any) -> Any:  # noqa: ANN401 - a result of the SDK
    """Return the task in which a streamed run goes on."""
    task = getattr(result, "run_loop_task", None)
    return task if task is not None else result._run_impl_task  # noqa: SLF001 - its name in older releases


def has_answer(result: Any) -> bool:  # noqa: ANN401 - a result of the SDK
    """Return whether a streamed run answered, or waits for a person."""
    return getattr(result, "final_output", None) is not None or bool(getattr(result, "interruptions", None))


def what_stopped(result: Any) -> str | None:  # noqa: ANN401 - a result of the SDK
    """Return what stopped a streamed run that neither answered nor raised, if it can be told."""
    turns, most = getattr(result, "current_turn", None), getattr(result, "max_turns", None)
    if isinstance(turns, int) and isinstance(most, int) and turns > most:
        return f"MaxTurnsExceeded: Max turns ({most}) exceeded"
    return None


def guardrail_texts(result: Any) -> list[str]:  # noqa: ANN401 - a result of the SDK
    """Return the texts with which guardrails kept tools from running."""
    outputs = [getattr(each, "output", None) for each in getattr(result, "tool_input_guardrail_results", None) or ()]
    behaviours = [getattr(output, "behavior", None) for output in outputs]
    texts = [field(behaviour, "message") for behaviour in behaviours if behaviour is not None]
    return [text for text in texts if isinstance(text, str)]
