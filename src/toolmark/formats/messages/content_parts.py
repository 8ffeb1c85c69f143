"""What does one part of a message say: a text, a call, or the answer to one? In whoever's form.

Traces repeat messages as the model's provider or the framework writes them. So these readers take every form that is in
use, and refuse nothing: what is no text, call or answer is `None`. Arguments that are not there were not captured; only
where a form leaves empty arguments out (Google's) do they count as `{}`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from toolmark.calls import ToolCallType
from toolmark.capture import Request
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.field_readers import (
    Fields,
    arguments_of,
    as_object,
    decoded,
    first_of,
    output_of,
    text_of,
)
from toolmark.formats.messages.openai_chat import call_body
from toolmark.formats.messages.transcript import Answer
from toolmark.matching.json_compare import ABSENT

Piece: TypeAlias = "str | Request | Answer"
"""What a part says: words, a call, or an answer."""

_ARGUMENTS = ("arguments", "args", "input", "tool.args", "tool_kwargs", "input_parameters")
_IDS = ("id", "tool_call_id", "toolCallId", "call_id", "toolUseId")
_NAMES = ("name", "toolName", "tool_name", "tool.name")
_CONTENTS = ("response", "result", "output", "content")
_TEXTS = frozenset({"text", "input_text", "output_text"})
_FAILED = frozenset({"error", "failed"})


def cut_off(value: object) -> bool:
    """Return whether a value looks like the JSON text of messages or calls of which the end is missing."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return False
    return decoded(value) is value and any(mark in value for mark in ('"role"', '"parts"', '"tool', '"function'))


def call_of(
    fields: Fields, *, path: str, type: ToolCallType | None = None, empty: object = ABSENT, sure: bool = False
) -> Request | None:
    """Return the call that an object describes, `None` if it has no name.

    Args:
        fields: `name`, arguments and id under any of their usual keys, or OpenAI's `function` with these.
        path: Where it stands.
        type: Who runs the tool, if the form says so.
        empty: What missing arguments mean: by default, that they were not captured.
        sure: It stands where only calls do, so that one without a name is a call too, whose name is empty.
    """
    body, kind = call_body(fields)
    name = text_of(first_of(body, *_NAMES)) or ("" if sure else None)
    if name is None:
        return None
    call_id = first_of(fields, *_IDS)
    given = next((body[key] for key in _ARGUMENTS if body.get(key) is not None), ABSENT)
    request = Request(name, id=None if call_id in (None, "") else str(call_id), type=type or kind, source=path)
    return with_arguments(request, given, empty=empty)


def with_arguments(request: Request, given: object, *, empty: object = ABSENT) -> Request:
    """Return a call with the arguments that a value holds; a text that is no object makes it an invalid call."""
    if given is ABSENT:
        return replace(request, arguments=empty)
    if request.type is ToolCallType.CUSTOM and isinstance(given, str):
        return replace(request, arguments={"input": given})
    plain = decoded(given) if isinstance(given, str) and '"_raw"' in given else given
    if isinstance(plain, dict) and plain.keys() == {"_raw"}:  # what OpenLLMetry makes of a text that is no JSON
        given = plain["_raw"]
    try:
        arguments, reason = arguments_of(given)
    except InvalidDataError as error:
        return replace(request, arguments=ABSENT, error=str(error))
    return replace(request, arguments=arguments if reason is None else given, error=reason)


def answer_of(fields: Fields, *, call_id: object = None, name: object = None) -> Answer:
    """Return the answer that an object holds, with its content under any of the usual keys."""
    known = call_id if call_id is not None else first_of(fields, "tool_call_id", "toolCallId", "tool_use_id", "id")
    content = next((fields[key] for key in _CONTENTS if fields.get(key) is not None), ABSENT)
    named = name if name is not None else first_of(fields, *_NAMES)
    failed = fields.get("is_error") is True or fields.get("isError") is True or str(fields.get("status")) in _FAILED
    return Answer(
        None if known in (None, "") else str(known),
        text_of(named),
        content if content is ABSENT else output_of(content),
        failed,
    )


def piece_of(part: object, path: str) -> Piece | None:
    """Return what one part of a message's content says; `None` for reasoning, media and what is not known.

    Args:
        part: A text, or an object in the form of OpenAI, Anthropic, Google, Amazon Bedrock, the Vercel AI SDK,
            LangChain, LlamaIndex or OpenTelemetry.
        path: Where it stands.
    """
    if isinstance(part, str):
        return part
    fields = as_object(part)
    if fields is None:
        return None
    kind = str(fields.get("type") or fields.get("block_type") or "").replace("-", "_")
    if kind in _TEXTS or (not kind and "text" in fields):
        return first_of(fields, "text", "content") if isinstance(first_of(fields, "text", "content"), str) else None
    if kind.endswith(("tool_result", "tool_call_response", "call_output", "function_result", "server_tool_result")):
        return _answered(fields, kind)
    if kind.endswith(("tool_use", "tool_call", "function_call")):
        return _asked(fields, kind, path)
    return _other(fields, path)


def _asked(fields: Fields, kind: str, path: str) -> Request | None:
    """Return the call of a part whose type says that it is one."""
    if kind == "server_tool_call":
        told = as_object(fields.get("server_tool_call")) or {}
        given = {key: value for key, value in told.items() if key != "type"}
        named = fields.get("name") or told.get("type")
        body = {"name": named, "id": fields.get("id"), "arguments": fields.get("arguments", given or None)}
        return call_of(body, path=path, type=ToolCallType.HOSTED, sure=True)
    if kind == "mcp_tool_use":
        found = call_of(fields, path=path, type=ToolCallType.MCP, sure=True)
    elif kind == "server_tool_use":
        found = call_of(fields, path=path, type=ToolCallType.HOSTED, sure=True)
    else:
        inner = as_object(fields.get(kind))
        found = call_of({**fields, **(inner or {})} if inner else fields, path=path, sure=True)
    return found


def _answered(fields: Fields, kind: str) -> Answer:
    if kind == "server_tool_call_response":
        told = as_object(fields.get("server_tool_call_response"))
        return Answer(text_of(fields.get("id")), None, ABSENT if told is None else dict(told), ran=True)
    answer = answer_of(fields, call_id=first_of(fields, "call_id"))
    output = as_object(answer.content)
    if kind == "tool_result" and output is not None and "toolCallId" in fields and "value" in output:
        failed = str(output.get("type", "")).startswith("error")
        return Answer(answer.call_id, answer.name, output["value"], answer.failed or failed)
    ran = kind not in ("tool_result", "tool_call_response") and "mcp" not in kind and "function" not in kind
    return Answer(answer.call_id, answer.name, answer.content, answer.failed, ran=ran)


def _other(fields: Fields, path: str) -> Piece | None:
    """Return what a part says that has no type: those of Google, of Haystack and of Amazon Bedrock."""
    called = as_object(first_of(fields, "functionCall", "function_call"))
    if called is not None:
        return call_of(called, path=path, empty={})
    replied = as_object(first_of(fields, "functionResponse", "function_response"))
    if replied is not None:
        return answer_of(replied)
    asked = as_object(fields.get("tool_call"))
    if asked is not None:
        return call_of(asked, path=path)
    told = as_object(fields.get("tool_call_result"))
    if told is not None:
        origin = as_object(told.get("origin")) or {}
        failed = told.get("error") is True
        return replace(
            answer_of({"result": told.get("result")}, call_id=origin.get("id"), name=origin.get("tool_name")),
            failed=failed,
        )
    used = as_object(fields.get("toolUse"))
    if used is not None:
        return call_of(used, path=path, empty={})
    returned = as_object(fields.get("toolResult"))
    if returned is not None:
        content = returned.get("content")
        values = [_bedrock(item) for item in content] if isinstance(content, list) else [content]
        status = returned.get("status") == "error"
        return Answer(text_of(returned.get("toolUseId")), None, values[0] if len(values) == 1 else values, status)
    return None


def content_of(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what content is in Amazon Bedrock's form; any other value as it is."""
    plain = decoded(value)
    if not isinstance(plain, list) or len(plain) != 1 or not {"text", "json"} & (as_object(plain[0]) or {}).keys():
        return plain
    return _bedrock(plain[0])


def _bedrock(item: object) -> Any:  # noqa: ANN401 - a JSON value
    fields = as_object(item) or {}
    return next((fields[key] for key in ("json", "text") if key in fields), item)
