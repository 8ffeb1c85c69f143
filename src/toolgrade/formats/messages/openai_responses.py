"""Reader of the items of OpenAI's Responses API.

An item is one entry of `Response.output`, or of the `input` that a program sends back. `read_responses_call` and
`read_responses_answer` read one of them; both take a plain object or the SDK's own.

Source: OpenAI API reference, "Responses", "Create a model response", `input` (the types of items) and "The response
object", `output`; OpenAI guides, "MCP and Connectors" (approvals) and "Programmatic tool calling" (callers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from toolgrade._internal.json import json_text, short_repr, to_json_value
from toolgrade._internal.message_content import Fields, first_of, is_tool_search, object_of, text_of, text_or_empty
from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import Request
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.field_readers import (
    Notes,
    arguments_of,
    output_of,
    output_or_absent,
    plain,
    present_keys,
    read_content,
    read_list,
    read_name,
    read_objects,
    read_role,
    reasoning_in,
)
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    Instructions,
    ModelMessage,
    NeutralMessage,
    OfferedTools,
    read_user_input,
)
from toolgrade.formats.messages.offered_tools import offered_tools
from toolgrade.matching.json_compare import ABSENT

_ROLES = ("user", "assistant", "system", "developer")

_UNFINISHED = frozenset({"queued", "in_progress", "searching", "interpreting", "generating", "calling"})
_FAILED = frozenset({"failed", "incomplete", "cancelled"})

_SILENT = frozenset({"configuration_update", "agent_message"})
_REFERENCES = frozenset({"item_reference", "compaction", "compaction_trigger"})
_TOOL_LISTS = frozenset({"mcp_list_tools", "additional_tools"})
_OF_MODEL = frozenset({"reasoning", "tool_search_call"})
"""Silent items of the model: a response with nothing else is a message without text."""

_OUTPUT_KEYS = ("output", "outputs", "result", "results")
_KEYS_OF_ANY_CALL = frozenset(
    {"type", "id", "call_id", "name", "status", "arguments", "caller", "created_by", "error", *_OUTPUT_KEYS}
)


def read_responses_call(item: object) -> Request | None:
    """Return the call that an item requests or reports, `None` if it is not a call.

    Names: functions, custom tools and MCP tools have their own; the provider's tools are `web_search`, `file_search`,
    `code_interpreter`, `image_generation`, `computer_use_preview`, `local_shell`, `shell`, `apply_patch` and `program`.
    What the model does about agents that the provider runs (`multi_agent_call`) has the name of the action, such as
    `spawn_agent`. Any other type that ends in `_call` is a call of the name before that, with the item's own fields as
    arguments. A search for tools (`tool_search_call`) is not a call. A namespace goes to `server`, unless it is the
    name of the tool itself.

    A call that the provider ran has its `result` or `failure` at once. A status of `failed`, `incomplete` or
    `cancelled` is a failure, whatever else the item holds; an unfinished call has neither.

    Args:
        item: The item; anything that is not an object, or has no type, is not a call.

    Example:
        >>> from toolgrade.formats import read_responses_call
        >>> item = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
        >>> request = read_responses_call(item)
        >>> print(request.name, request.arguments)
        get_weather {'city': 'Paris'}
    """
    kind = _type_of(item)
    read = _CALL_READERS.get(kind)
    if read is None and kind.endswith("_call") and not is_tool_search(kind):
        read = _unknown_call
    if read is None:
        return None
    fields = object_of(item)
    request = read(fields)
    request.caller = text_of(object_of(fields.get("caller")).get("caller_id"))
    return request


def read_responses_answer(item: object) -> Answer | None:
    """Return the answer of an item to a call, `None` if it is not an answer.

    These are the types that end in `_call_output`, `program_output`, and `mcp_approval_response`. Tools that the
    provider runs answer in the item of the call, which `read_responses_call` reads.

    Args:
        item: The item; anything that is not an object, or has no type, is not an answer.

    Example:
        >>> from toolgrade.formats import read_responses_answer
        >>> read_responses_answer({"type": "function_call_output", "call_id": "c1", "output": "sunny"}).content
        'sunny'
        >>> read_responses_answer({"type": "message", "role": "assistant", "content": []}) is None
        True
    """
    kind = _type_of(item)
    read = _ANSWER_READERS.get(kind)
    if read is None and kind.endswith("_call_output"):
        read = _call_output
    return None if read is None else read(object_of(item))


def _type_of(item: object) -> str:
    """Return the type of an item, an empty text without one."""
    # Most items are of another type than the caller looks for, and all fields of an SDK object take long to read.
    kind = getattr(item, "type", None) if isinstance(item, BaseModel) else object_of(item).get("type")
    return text_or_empty(kind)


def _call_output(fields: Fields) -> Answer:
    return _answer(fields, text_of(fields.get("call_id")), fields.get("output"))


def _answer(fields: Fields, call_id: str | None, output: object) -> Answer:
    content = output_or_absent(output)
    failed = text_of(fields.get("status")) in _FAILED
    error = error_text(content, fields) if failed else None
    return Answer(call_id, text_of(fields.get("name")), content, failed=failed, error=error)


def _approval(fields: Fields) -> Answer:
    approved = fields.get("approve") is True
    content = text_of(fields.get("reason")) or ABSENT
    return Answer(text_of(fields.get("approval_request_id")), None, content, failed=not approved, approved=approved)


def read_items(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`.

    Adjacent items of the model are one message: a list does not show where a response ends.
    """
    parts: list[str | Request] = []
    reasoning: str | None = None
    provider_calls: set[str | None] = set()  # ids of all calls whose tools the provider runs
    for path, fields in read_objects(entries, notes, "an item (an object with a role or a type)"):
        message = _read_item(fields, path, notes)
        if fields.get("type") == "reasoning":  # it precedes all calls up to the next
            reasoning = reasoning_in(fields) or None
        if isinstance(message, str):
            parts.append(message)
        elif isinstance(message, Request):
            parts.append(replace(message, reasoning=reasoning))
            if message.type is ToolCallType.HOSTED:
                provider_calls.add(message.id)
        elif isinstance(message, (OfferedTools, Instructions)):
            yield path, message
        elif message is not None:
            if parts:
                yield path, ModelMessage(parts)
                parts, reasoning = [], None
            if isinstance(message, Answer):
                message.ran = message.call_id in provider_calls
            yield path, message
    if parts:
        yield "$", ModelMessage(parts)


def _read_item(fields: Fields, path: str, notes: Notes) -> str | Request | NeutralMessage | None:
    """Return a text or a call of the model, another message, or `None` for an item that has neither."""
    kind = None if fields.get("type") is None else str(fields["type"])
    request, answer = read_responses_call(fields), read_responses_answer(fields)
    if request is not None:
        _check_call(request, fields, path, notes)
        return replace(request, source=path)
    if answer is not None:
        return answer
    if fields.get("role") is not None and kind in (None, "message"):
        return _read_message(fields, path, notes)
    if kind in _TOOL_LISTS:
        return OfferedTools(_tools_of(fields, path, notes), all_known=False)
    if kind in _OF_MODEL:
        return ""
    if kind not in _SILENT and not is_tool_search(kind):
        notes.warn(path, _reason_left_out(kind))
    return None


def _check_call(request: Request, fields: Fields, path: str, notes: Notes) -> None:
    """Note a problem if a call has no name, and a warning if its type is newer than this reader."""
    if not request.name:
        read_name(fields, path, notes)
    kind = str(fields["type"])
    if kind not in _CALL_READERS:
        notes.warn(path, f"the type {kind!r} is unknown; it was read as a call of {request.name!r}")


def _reason_left_out(kind: str | None) -> str:
    if kind in _REFERENCES:
        return f"{kind!r} refers to items that are not in the data; calls among them are missing"
    reason = "it has neither a role nor a type" if kind is None else f"the type {short_repr(kind)} is unknown"
    return f"{reason}; the item was left out"


def _read_message(fields: Fields, path: str, notes: Notes) -> str | NeutralMessage | None:
    role = read_role(fields, _ROLES, path, notes)
    if role == "assistant":
        return read_content(fields, path, notes) or ""
    if role == "user":
        return read_user_input(fields.get("content"), path, notes)
    return None if role is None else Instructions(read_content(fields, path, notes) or "")


def _tools_of(fields: Fields, path: str, notes: Notes) -> list[ToolSpec]:
    tools = read_list(fields.get("tools"), f"{path}.tools", notes, "a list of tools")
    specs, _ = offered_tools("openai-responses", tools)
    if text_of(fields.get("server_label")) is None:
        return specs
    return [spec.model_copy(update={"type": ToolCallType.MCP}) for spec in specs]


def _named_call(
    fields: Fields, arguments: object, *, id: object, type: ToolCallType | None = None, server: object = None
) -> Request:
    """Return a call of a tool with its own name; the arguments are an object or the text of one."""
    name, group = text_or_empty(fields.get("name")), text_of(server or fields.get("namespace"))
    if group == name and server is None:  # a tool that is loaded late is its own namespace
        group = None
    reason = None
    with suppress(InvalidDataError):  # too deeply nested: `RunBuilder` warns, and keeps the call
        arguments, reason = arguments_of(arguments)
    return Request(name, arguments, text_of(id), type, group, error=reason)


def _computer_call(fields: Fields) -> Request:
    arguments = _some(fields, "actions") or _without_nulls(fields.get("action"))
    return Request("computer_use_preview", arguments, text_of(fields.get("call_id")), ToolCallType.FUNCTION)


def _local_shell_id(fields: Fields) -> str | None:
    return text_of(fields.get("call_id")) or text_of(fields.get("id"))


def _shell_call(fields: Fields) -> Request:
    is_local = _without_nulls(fields.get("environment")).get("type", "local") == "local"
    kind = ToolCallType.FUNCTION if is_local else ToolCallType.HOSTED
    return Request("shell", _without_nulls(fields.get("action")), text_of(fields.get("call_id")), kind)


def _web_search_call(fields: Fields) -> Request:
    action = _without_nulls(fields.get("action"))
    sources = action.pop("sources", None)
    return _hosted("web_search", action, sources, fields)


def _image_generation_call(fields: Fields) -> Request:
    arguments = _some(fields, "action", "revised_prompt", "background", "output_format", "quality", "size")
    result = fields.get("result")
    if isinstance(result, str):
        # The item has the bytes alone, which nobody recognizes as an image without their type.
        mime_type = f"image/{text_of(fields.get('output_format')) or 'png'}"
        result = {"type": "image", "mime_type": mime_type, "data": result}
    return _hosted("image_generation", arguments, result, fields)


def _hosted(name: str, arguments: dict[str, Any], result: object, fields: Fields) -> Request:
    request = Request(name, arguments, text_of(fields.get("id")), ToolCallType.HOSTED)
    return _with_outcome(request, result, fields)


def _mcp_call(fields: Fields) -> Request:
    request = replace(_mcp_request(fields), replaces=text_of(fields.get("approval_request_id")))
    return _with_outcome(request, output_of(fields.get("output")), fields)


def _mcp_request(fields: Fields) -> Request:
    arguments, server = fields.get("arguments"), fields.get("server_label")
    return _named_call(fields, arguments, id=fields.get("id"), type=ToolCallType.MCP, server=server)


def _unknown_call(fields: Fields) -> Request:
    """Read a call of a type that is newer than this reader, without losing anything of it."""
    named = {"name": text_of(fields.get("name")) or str(fields["type"]).removesuffix("_call")}
    arguments = fields.get("arguments")
    if arguments is None:
        arguments = {key: value for key, value in fields.items() if key not in _KEYS_OF_ANY_CALL}
    call_id = text_of(fields.get("call_id"))
    if call_id:
        return _named_call(named, arguments, id=call_id)
    request = _named_call(named, arguments, id=fields.get("id"), type=ToolCallType.HOSTED)
    return _with_outcome(request, first_of(fields, *_OUTPUT_KEYS), fields)


def _with_outcome(request: Request, result: object, fields: Fields) -> Request:
    """Return the call of a provider-run tool with its result or its error."""
    content = ABSENT if result is None else plain(result)
    status = text_of(fields.get("status"))
    if status in _FAILED or fields.get("error"):
        return replace(request, ran=True, failure=error_text(content, fields))
    if status in _UNFINISHED:
        return request
    return replace(request, ran=True, result=content)


def error_text(content: object, fields: Fields) -> str:
    """Return the error of a call that failed: its own, else what it printed, else its status."""
    error = fields.get("error")
    details = object_of(error)
    error = text_of(details.get("message")) or output_of(details.get("content")) or error
    if error:
        return error if isinstance(error, str) else json_text(to_json_value(plain(error), []))
    return text_of(_printed(content)) or f"status: {fields.get('status')}"


def _printed(content: object) -> object:
    """Return the text that the commands of a shell printed; the content of any other tool as it is."""
    if not isinstance(content, list):
        return content
    chunks = map(object_of, content)
    return "\n".join(str(chunk[key]) for chunk in chunks for key in ("stdout", "stderr") if chunk.get(key))


def _without_nulls(value: object) -> dict[str, Any]:
    """Return an object without its nulls, which SDK objects have for every field that was not set."""
    fields = object_of(value)
    return _some(fields, *fields)


def _some(fields: Fields, *keys: str) -> dict[str, Any]:
    """Return the values under these keys that are not `None`."""
    return {key: plain(fields[key]) for key in present_keys(fields, keys)}


_FUNCTION, _CUSTOM, _HOSTED = ToolCallType.FUNCTION, ToolCallType.CUSTOM, ToolCallType.HOSTED

_CALL_READERS: dict[str, Callable[[Fields], Request]] = {
    "function_call": lambda item: _named_call(item, item.get("arguments"), id=item.get("call_id"), type=_FUNCTION),
    "custom_tool_call": lambda item: _named_call(item, _some(item, "input"), id=item.get("call_id"), type=_CUSTOM),
    "computer_call": _computer_call,
    "local_shell_call": lambda item: Request(
        "local_shell", _without_nulls(item.get("action")), _local_shell_id(item), _FUNCTION
    ),
    "shell_call": _shell_call,
    "apply_patch_call": lambda item: Request(
        "apply_patch", _without_nulls(item.get("operation")), text_of(item.get("call_id")), _FUNCTION
    ),
    "program": lambda item: Request("program", _some(item, "code"), text_of(item.get("call_id")), _HOSTED),
    # An agent that the provider runs starts, asks or stops another one: each action is a tool of the provider.
    "multi_agent_call": lambda item: _named_call(
        {"name": item.get("action")}, item.get("arguments"), id=item.get("call_id"), type=_HOSTED
    ),
    "web_search_call": _web_search_call,
    "file_search_call": lambda item: _hosted("file_search", _some(item, "queries"), item.get("results"), item),
    "code_interpreter_call": lambda item: _hosted("code_interpreter", _some(item, "code"), item.get("outputs"), item),
    "image_generation_call": _image_generation_call,
    "mcp_call": _mcp_call,
    "mcp_approval_request": lambda item: replace(_mcp_request(item), needs_approval=True),
}
"""Readers of calls, by the type of the item."""

_ANSWER_READERS: dict[str, Callable[[Fields], Answer]] = {
    "local_shell_call_output": lambda item: _answer(item, _local_shell_id(item), item.get("output")),
    "program_output": lambda item: _answer(item, text_of(item.get("call_id")), item.get("result")),
    "mcp_approval_response": _approval,
}
"""Readers of answers, by the type of the item; all others are of the kind of `_call_output`."""
