"""Reader of the contents of Google's Gemini API, and assembly of its streamed responses.

A content has a role and parts: `functionCall` in the model's, `functionResponse` in those that answer it, and
`executableCode` with `codeExecutionResult`, or `toolCall` with `toolResponse`, for what Google runs. Keys are in
camelCase (REST) or snake_case (dumps of google-genai). A part becomes a block of Anthropic's, which says the same.

Source: Gemini API reference, "Content", "Part", "GenerateContentResponse"; `google.genai.types`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, parts_of
from toolgrade.capture import Request
from toolgrade.formats.messages import anthropic
from toolgrade.formats.messages.field_readers import Notes, sum_of
from toolgrade.formats.messages.message import Entry, ModelMessage, NeutralMessage, append_part

_ROLES = {"model": "assistant", "function": "user", "tool": "user"}
_CODE = "code_execution"
"""The tool that runs code of the model at Google's; calls and results of it name none."""


def camel_keys(value: object) -> JsonObject:
    """Return the fields of an object that are not `None`, with their keys in camelCase."""
    fields = object_of(value).items()
    return {to_camel(key) if "_" in key else key: entry for key, entry in fields if entry is not None}


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`.

    Adjacent contents of the model are one message: the history of a chat has one for each chunk of a streamed reply.
    """
    parts: list[str | Request] = []
    begin = ""
    for path, message in anthropic.read_messages(((path, _message(entry)) for path, entry in entries), notes, "parts"):
        if isinstance(message, ModelMessage):
            begin = begin or path
            for part in message.parts:
                append_part(parts, part)
            continue
        if begin:
            yield begin, ModelMessage(parts)
            parts, begin = [], ""
        yield path, message
    if begin:
        yield begin, ModelMessage(parts)


def _message(entry: object) -> object:
    """Return a content as a message of Anthropic; texts and parts alone are the user's, as google-genai takes them."""
    fields = as_object(entry)
    if fields is None and not isinstance(entry, str):
        return entry
    if fields is None or fields.keys().isdisjoint(("role", "parts")):
        fields = {"parts": [entry]}
    role, parts = fields.get("role") or "user", parts_of(first_of(fields, "parts", "content"))
    return {"role": _ROLES.get(str(role), role), "parts": [_block(part) for part in parts]}


def _block(part: object) -> object:
    """Return a part as a block of Anthropic; what has no such form has its key as its type."""
    if as_object(part) is None:
        return part
    fields = camel_keys(part)
    if fields.get("thought"):
        return {"type": "thinking"}
    kind = next((kind for kind in _BLOCKS if kind in fields), None)
    if kind is not None:
        return _BLOCKS[kind](camel_keys(fields[kind]))
    media = camel_keys(first_of(fields, "inlineData", "fileData"))
    if str(media.get("mimeType")).startswith("image/"):
        return {"type": "image", "data": media.get("data"), "url": media.get("fileUri"), "mime_type": media["mimeType"]}
    is_text = not fields or "text" in fields or "thoughtSignature" in fields
    return {"type": "text", "text": fields.get("text", "")} if is_text else {"type": next(iter(fields), None)}


def hosted_block(part: Fields) -> object:
    """Return a part with a call that Google ran, or with its result, as a block of Anthropic; `None` for any other."""
    fields = camel_keys(part)
    # Frameworks have the key `tool_call`, too.
    is_tool = any("toolType" in camel_keys(fields.get(key)) for key in ("toolCall", "toolResponse"))
    is_code = not fields.keys().isdisjoint(("executableCode", "codeExecutionResult"))
    return _block(part) if is_tool or is_code else None


def _answer(answer: Fields) -> JsonObject:
    response = answer.get("response")
    error = object_of(response).get("error") if len(object_of(response)) == 1 else None
    failure = {} if error is None else {"is_error": True}  # `FunctionResponse.response`: "error" has the details
    id_and_name = {"tool_use_id": answer.get("id"), "name": answer.get("name")}
    return {"type": "tool_result", **id_and_name, "output": response if error is None else error, **failure}


def _code_result(result: Fields) -> JsonObject:
    is_error = to_json_value(result.get("outcome")) not in ("OUTCOME_OK", None)
    name_and_output = {"name": _CODE, "output": result.get("output", "")}
    return {"type": "code_tool_result", "tool_use_id": result.get("id"), "is_error": is_error, **name_and_output}


_BLOCKS: dict[str, Callable[[Fields], JsonObject]] = {
    # Streamed arguments are not joined: they read as invalid, and not as none.
    "functionCall": lambda call: {**call, "type": "tool_use", "input": first_of(call, "args", "partialArgs")},
    "functionResponse": _answer,
    "executableCode": lambda code: {"type": "server_tool_use", "name": _CODE, "id": code.get("id"), "input": code},
    "codeExecutionResult": _code_result,
    "toolCall": lambda call: {
        "type": "server_tool_use",
        "id": call.get("id"),
        "input": call.get("args"),
        "name": str(to_json_value(call.get("toolType"))).lower(),
    },
    "toolResponse": lambda answer: {**_answer(answer), "type": "server_tool_result"},
}


def assemble(chunks: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the chunks of one stream; the last counts of tokens are those of all."""
    responses = [camel_keys(chunk) for _, chunk in chunks]
    candidates = [camel_keys(one) for response in responses for one in parts_of(response.pop("candidates", None))]
    calls = [camel_keys(part.get("functionCall")) for one in candidates for part in _parts(one)]
    if any("willContinue" in call for call in calls):
        notes.problem(path, "streams the arguments of calls in pieces, which are not joined; log whole calls")
    candidate = reduce(sum_of, candidates, JsonObject())
    is_several = len({str(response.get("responseId")) for response in responses}) > 1 or _goes_on(candidates)
    notes.check_stream(path, is_several=is_several, has_end="finishReason" in candidate)
    return {**{key: value for response in responses for key, value in response.items()}, "candidates": [candidate]}


def _goes_on(candidates: Iterable[Fields]) -> bool:
    """Return whether something follows the chunk with the reason for which a response ended."""
    has_ended = False
    for candidate in candidates:
        contents = [
            part for part in _parts(candidate) if part.get("text") or part.keys() - {"text", "thoughtSignature"}
        ]
        if has_ended and contents:
            return True
        has_ended |= "finishReason" in candidate
    return False


def _parts(candidate: Fields) -> list[JsonObject]:
    return list(map(camel_keys, parts_of(object_of(candidate.get("content")).get("parts"))))
