"""Spans of tracers that have their own names for what others say, or their own writing of it.

They are given the names of the conventions (see `_conventions`), and are read as any other span from there on.
"""

from __future__ import annotations

from typing import Any

from toolmark._internal.json import parse_json
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.field_readers import as_object, decoded
from toolmark.formats.messages.lenient_arguments import read_tolerantly

_OF_MLFLOW = "mlflow.spanType"
"""Every value of a span that has this attribute is written as JSON."""
_LITELLM = "raw_gen_ai_request"
"""The span in which LiteLLM keeps a request as it was sent; where it lies in a span of the app, only that tells all."""
_LOGFIRE: dict[str, dict[str, str]] = {
    "Agent run: ": {"name": "gen_ai.agent.name"},
    "Function: ": {
        "name": "gen_ai.tool.name",
        "input": "gen_ai.tool.call.arguments",
        "output": "gen_ai.tool.call.result",
    },
    "Handoff: ": {"to_agent": "to_agent"},
    "Chat completion with ": {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"},
    "OpenAI Agents trace: ": {"group_id": "gen_ai.conversation.id"},
}
"""How messages of Logfire's spans of the OpenAI Agents SDK begin, and how others call what it calls otherwise there."""
_LOGFIRE_OPERATIONS = {
    "Agent run: ": "invoke_agent",
    "Function: ": "execute_tool",
    "Handoff: ": "execute_tool",
    "Chat completion with ": "chat",
    "OpenAI Agents trace: ": "invoke_workflow",
}


def renamed(said: dict[str, Any], span: str) -> dict[str, Any]:
    """Return the attributes of a span, also under the names that others have for what they say.

    Args:
        said: The attributes.
        span: Name of the span.
    """
    if _OF_MLFLOW in said:
        return {key: _plain_value(value) for key, value in said.items()}
    if span == _LITELLM:
        return {**_raw_request(said), **said}
    template = str(said.get("logfire.msg_template") or "")
    return _of_logfire(said, template) if template else said


def _of_logfire(said: dict[str, Any], template: str) -> dict[str, Any]:
    """Return what Logfire tells of the OpenAI Agents SDK, and of MCP, under the names of others."""
    request = as_object(decoded(said.get("request"))) or {}
    if request.get("method") == "tools/call":
        asked = as_object(request.get("params")) or {}
        told = {"gen_ai.tool.name": asked.get("name"), "gen_ai.tool.call.arguments": asked.get("arguments")}
        told |= {"gen_ai.tool.call.result": said.get("response"), "mcp.method.name": "tools/call"}
        return {"gen_ai.operation.name": "execute_tool", **told, **said}
    start = next((start for start in _LOGFIRE if template.startswith(start)), None)
    if start is None or ("agent_trace_id" if "trace" in start else "gen_ai.system") not in said:
        return said
    names = {new: said[old] for old, new in _LOGFIRE[start].items() if said.get(old) not in (None, "null")}
    return {"gen_ai.operation.name": _LOGFIRE_OPERATIONS[start], **names, **said}


def _raw_request(said: dict[str, Any]) -> dict[str, Any]:
    """Return what LiteLLM keeps of a request in the form of OpenAI or Anthropic, as `repr` wrote it."""
    for key in said:
        provider, dot, name = key.removeprefix("llm.").rpartition(".")
        if not dot or name not in ("choices", "content"):
            continue
        read = [read_tolerantly(f"{{'_': {said.get(f'llm.{provider}.{at}')}}}") for at in (name, "messages")]
        answer, asked = (None if meant is None else meant[0].get("_") for meant in read)
        if isinstance(answer, list) and isinstance(asked, list):
            told = {"choices": answer} if name == "choices" else {"role": "assistant", "content": answer}
            return {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": asked,
                "gen_ai.output.messages": told,
                "gen_ai.response.id": said.get(f"llm.{provider}.id"),
            }
    return {}


def _plain_value(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what the JSON text of an attribute of MLflow stands for, also a number; any other value as it is."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except InvalidDataError:
        return value
