"""Lenient readers of the parts of a message: texts, calls and answers in the form of any provider or framework.

Traces repeat messages as the model's provider or the framework writes them, so these readers take every form in use and
refuse nothing: what is not a text, a call or an answer is `None`. Missing arguments count as not captured; only in
forms that leave empty arguments out (Google's) do they count as `{}`.

Sources: besides those of the other readers, Gemini API reference, "Content" and "Part" (`functionCall`,
`functionResponse`); Amazon Bedrock API reference, "ContentBlock" (`toolUse`, `toolResult`); AI SDK reference,
"ModelMessage"; Haystack documentation, "ChatMessage"; OpenTelemetry, "Semantic conventions for generative client AI
spans", JSON schemas of `gen_ai.input.messages` and `gen_ai.output.messages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from toolgrade._internal.message_content import Fields, as_object, first_of, is_tool_search, object_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages import gemini
from toolgrade.formats.messages.field_readers import arguments_of, decoded, id_of, output_of, output_or_absent
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.messages.openai_responses import read_responses_call
from toolgrade.matching.json_compare import ABSENT

Piece: TypeAlias = "str | Request | Answer"
"""The content of one part: text, a call, or an answer."""

_FUNCTION: Final = ToolCallType.FUNCTION  # Python 3.11 takes long to look up a member of an enumeration

_ARGUMENT_KEYS = ("arguments", "args", "input", "tool.args", "tool_kwargs", "input_parameters")
_ID_KEYS = ("id", "tool_call_id", "toolCallId", "call_id", "toolUseId")
_NAME_KEYS = ("name", "toolName", "tool_name", "tool.name")
_CONTENT_KEYS = ("response", "result", "output", "content")
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
_ANSWER_TYPES = ("tool_result", "tool_call_response", "call_output", "function_result")
_CALL_TYPES = ("tool_use", "tool_call", "function_call")
_RUN_BY_AGENT = re.compile("^(tool_result|tool_call_response)$|mcp|function")
"""Types of answers of tools that the provider does not run."""

_RUNNERS = {"mcp_tool_use": ToolCallType.MCP, "server_tool_use": ToolCallType.HOSTED}
_FAILED = frozenset({"error", "failed"})
_MARKS_OF_MESSAGES = ('"role"', '"parts"', '"tool', '"function')


def cut_off(value: object) -> bool:
    """Return whether a value looks like the JSON text of messages or calls whose end is missing."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return False
    return decoded(value) is value and any(mark in value for mark in _MARKS_OF_MESSAGES)


def call_body(fields: Fields) -> tuple[Fields, ToolCallType]:
    """Return the object that has the name and the arguments of a call, and the call's type.

    That is the value of OpenAI's `function` or `custom`, or the object itself if a framework has flattened it.
    """
    function = as_object(fields.get("function"))
    if function is None and "custom" in fields:
        custom = as_object(fields["custom"])
        if custom is not None:
            return custom, ToolCallType.CUSTOM
    return function or fields, _FUNCTION


def call_of(
    fields: Fields, *, path: str, type: ToolCallType | None = None, empty: object = ABSENT, sure: bool = False
) -> Request | None:
    """Return the call that an object describes, `None` if it has no name.

    The name, the arguments and the id stand under any of their usual keys, or in OpenAI's `function`. Missing arguments
    count as `empty`. If it is `sure` that the object is a call, one without a name is a call with an empty name.
    """
    body, kind = call_body(fields)
    name = text_of(first_of(body, *_NAME_KEYS))
    if name is None and not sure:
        return None
    request = Request(name or "", empty, id_of(first_of(fields, *_ID_KEYS)), type or kind, source=path)
    arguments = first_of(body, *_ARGUMENT_KEYS)
    return request if arguments is None else with_arguments(request, arguments)


def with_arguments(request: Request, arguments: object) -> Request:
    """Return a call with these arguments; a text that is not an object makes it an invalid call."""
    if request.type is ToolCallType.CUSTOM and isinstance(arguments, str):
        return replace(request, arguments={"input": arguments})
    try:
        arguments, reason = arguments_of(_raw_arguments(arguments))
    except InvalidDataError as error:
        return replace(request, arguments=ABSENT, error=str(error))
    return replace(request, arguments=arguments, error=reason)


def _raw_arguments(arguments: object) -> object:
    """Return the text in `{"_raw": text}`, which instrumentations write for a text that is not JSON; else the value."""
    wrapper = decoded(arguments) if isinstance(arguments, str) and '"_raw"' in arguments else arguments
    return wrapper["_raw"] if isinstance(wrapper, dict) and wrapper.keys() == {"_raw"} else arguments


def answer_of(fields: Fields, *, call_id: object = None, name: object = None) -> Answer:
    """Return the answer that an object describes, with its content under any of the usual keys."""
    if call_id is None:
        call_id = first_of(fields, "tool_call_id", "toolCallId", "tool_use_id", "id")
    if name is None:
        name = first_of(fields, *_NAME_KEYS)
    content = output_or_absent(first_of(fields, *_CONTENT_KEYS))
    failed = any(fields.get(key) is True for key in ("is_error", "isError")) or str(fields.get("status")) in _FAILED
    return Answer(id_of(call_id), text_of(name), content, failed)


def piece_of(part: object, path: str) -> Piece | None:
    """Return the text, the call or the answer in one part of a message's content; `None` for reasoning and media.

    The part is a text, or an object in the form of OpenAI, Anthropic, Google, Amazon Bedrock, the Vercel AI SDK,
    LangChain, LlamaIndex or OpenTelemetry.
    """
    if isinstance(part, str):
        return part
    fields = object_of(part)
    kind = _kind_of(fields)
    if kind in _TEXT_TYPES:
        text = first_of(fields, "text", "content", "refusal")
        return text if isinstance(text, str) else None
    if kind.endswith(_ANSWER_TYPES) and not is_tool_search(kind):
        return _typed_answer(fields, kind)
    if kind.endswith(_CALL_TYPES):
        return _typed_call(fields, kind, path)
    if kind.endswith("_call"):  # an item of OpenAI's Responses API
        item = read_responses_call(fields)
        return item and replace(item, source=path)
    return _untyped_piece(fields, path)


def _kind_of(fields: Fields) -> str:
    """Return the type of a part in snake_case; `text` if it has only a text."""
    kind = fields.get("type") or fields.get("block_type")
    if not kind:
        return "text" if "text" in fields and fields.get("thought") is not True else ""
    return str(kind).replace("-", "_")


def _untyped_piece(fields: Fields, path: str) -> Piece | None:
    """Return the call or the answer that stands under its own key in a part."""
    block = gemini.hosted_block(fields)
    if block:
        return piece_of(block, path)
    for key, read in _UNTYPED_READERS.items():
        body = as_object(fields.get(key))
        if body is not None:
            return read(body, path)
    return None


def _typed_call(fields: Fields, kind: str, path: str) -> Request | None:
    """Return the call of a part with the type of a call."""
    if kind == "server_tool_call":
        return _server_call(fields, path)
    if kind in _RUNNERS:
        if kind == "server_tool_use" and is_tool_search(fields.get("name")):
            return None
        if not fields.get("input") and "partial_json" in fields:  # as LangChain keeps streamed arguments
            fields = {**fields, "input": fields["partial_json"]}
        return call_of(fields, path=path, type=_RUNNERS[kind], sure=True)
    body = {**fields, **object_of(fields.get(kind))}
    if body.get("builtin") is True:
        return _builtin_call(body, path)
    # OpenAI's items have an id of their own beside that of the call.
    return call_of({**body, "id": first_of(body, "call_id", *_ID_KEYS)}, path=path, sure=True)


def _builtin_call(fields: Fields, path: str) -> Request | None:
    """Return a call that the provider runs, as Pydantic AI writes it; one of a server is wrapped once more."""
    server, inner = text_of(fields.get("name")) or "", object_of(decoded(fields.get("arguments")))
    if not server.startswith("mcp_server:"):
        return call_of(fields, path=path, type=ToolCallType.HOSTED, sure=True)
    if inner.get("action") != "call_tool":  # a list of its tools
        return None
    call = {"name": inner.get("tool_name"), "id": fields.get("id"), "arguments": inner.get("tool_args")}
    request = call_of(call, path=path, type=ToolCallType.MCP, sure=True)
    return request and replace(request, server=server.removeprefix("mcp_server:"))


def _server_call(fields: Fields, path: str) -> Request | None:
    """Return a call that the provider runs, in the form of OpenTelemetry (`ServerToolCallPart`) or LangChain."""
    details, extras = dict(object_of(fields.get("server_tool_call"))), object_of(fields.get("extras"))
    kind = details.pop("type", None)
    name = extras.get("tool_name") or fields.get("name") or kind  # LangChain names all tools of servers `remote_mcp`
    if is_tool_search(name):
        return None
    arguments = first_of({"details": details or None, **fields}, "arguments", "args", "details")
    runner = ToolCallType.MCP if "server_label" in extras else ToolCallType.HOSTED
    call = call_of({"name": name, "id": fields.get("id"), "arguments": arguments}, path=path, type=runner, sure=True)
    return call and replace(call, server=text_of(extras.get("server_label")))


def _typed_answer(fields: Fields, kind: str) -> Answer:
    """Return the answer of a part with the type of an answer."""
    if kind == "server_tool_call_response":
        return _server_answer(fields)
    answer = answer_of(fields, call_id=fields.get("call_id"))
    output = object_of(answer.content)
    if kind == "tool_result" and "toolCallId" in fields and "value" in output:  # Vercel's
        failed = str(output.get("type", "")).startswith("error")
        return replace(answer, content=output["value"], failed=answer.failed or failed)
    return replace(answer, ran=_RUN_BY_AGENT.search(kind) is None)


def _server_answer(fields: Fields) -> Answer:
    """Return the answer of a tool that the provider ran, in OpenTelemetry's form (`ServerToolCallResponsePart`)."""
    response = as_object(fields.get("server_tool_call_response"))
    return Answer(text_of(fields.get("id")), None, ABSENT if response is None else dict(response), ran=True)


def _answer_with_origin(body: Fields, _path: str) -> Answer:
    """Return the answer in a `ToolCallResult`, a data class that has the call itself as its origin."""
    origin = object_of(body.get("origin"))
    answer = answer_of({"result": body.get("result")}, call_id=origin.get("id"), name=origin.get("tool_name"))
    return replace(answer, failed=body.get("error") is True)


def _google_answer(body: Fields, _path: str) -> Answer:
    """Return the answer in a `FunctionResponse` of Google; under `error` alone are the details of a failure."""
    answer = answer_of(body)
    output = object_of(answer.content)
    is_error = len(output) == 1 and output.get("error") is not None
    return replace(answer, content=output["error"], failed=True) if is_error else answer


def bedrock_answer(body: Fields, _path: str) -> Answer:
    """Return the answer in a `ToolResultBlock` of Amazon Bedrock."""
    content = body.get("content")
    if isinstance(content, list):
        values = [_bedrock_value(item) for item in content]
        content = values[0] if len(values) == 1 else output_of(values)
    # Only the result of a tool that Bedrock ran has a type.
    return Answer(text_of(body.get("toolUseId")), None, content, body.get("status") == "error", ran="type" in body)


_UNTYPED_READERS: dict[str, Callable[[Fields, str], Piece | None]] = {
    "functionCall": lambda body, path: call_of(body, path=path, empty={}),
    "function_call": lambda body, path: call_of(body, path=path, empty={}),
    "functionResponse": _google_answer,
    "function_response": _google_answer,
    "tool_call": lambda body, path: call_of(body, path=path),
    "tool_call_result": _answer_with_origin,
    "toolUse": lambda body, path: call_of(body, path=path, empty={}, type=_RUNNERS.get(str(body.get("type")))),
    "toolResult": bedrock_answer,
}
"""Readers of parts without a type, by the key of the call or answer in them: those of Google's, Amazon Bedrock's and
other APIs, and of frameworks."""


def content_of(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return content in Amazon Bedrock's form as a plain value; any other value as it is, JSON text decoded."""
    content = decoded(value)
    if isinstance(content, list) and len(content) == 1 and object_of(content[0]).keys() & {"text", "json"}:
        return _bedrock_value(content[0])
    return content


def _bedrock_value(item: object) -> Any:  # noqa: ANN401 - a JSON value
    fields = object_of(item)
    return next((fields[key] for key in ("json", "text") if key in fields), item)
