"""Reader of the contents of Google's Gemini API.

A content has a role and parts: `functionCall` in the model's, `functionResponse` in those that answer (role `user`,
`function` or `tool`), `executableCode` with its `codeExecutionResult`, and `toolCall` with its `toolResponse`, for
tools that Google runs. Ids are optional. Keys are in camelCase (REST) or snake_case (dumps of google-genai). Adjacent
contents of the model are pieces of one message, as a chat history of streamed replies has them.

Source: Gemini API reference, "Content", "Part", "GenerateContentResponse"; `google.genai.types`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.message_content import Fields, object_of, parts_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.field_readers import Notes, read_arguments, read_id, read_name, read_object, read_role
from toolgrade.formats.messages.field_readers import read_text as read_text_parts
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    ModelMessage,
    NeutralMessage,
    append_text,
    read_user_input,
)
from toolgrade.matching.json_compare import ABSENT

_ROLES = ("user", "model", "function", "tool", "system")
_CODE = "code_execution"
_SILENT_PARTS = frozenset({"thoughtSignature", "thought", "videoMetadata", "partMetadata", "mediaResolution"})
"""Keys of parts that are not content by themselves."""

_Pieces: TypeAlias = "list[str | Request]"


def camel_keys(value: object) -> JsonObject:
    """Return the fields of an object that are not `None`, with their keys in camelCase."""
    fields = object_of(value).items()
    return {to_camel(key) if "_" in key else key: entry for key, entry in fields if entry is not None}


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    model: list[tuple[str, JsonObject]] = []
    model_path = ""
    for path, entry in entries:
        content = _content_of(entry, path, notes)
        role = "" if content is None else read_role(content, _ROLES, path, notes)
        parts = _parts_in(content or {}, path)
        if role == "model":
            model_path = model_path or path
            model += parts
            continue
        if model_path:
            yield from _read_model(model, model_path, notes)
            model, model_path = [], ""
        if role != "system":
            yield from _read_user(parts, path, notes)
    if model_path:
        yield from _read_model(model, model_path, notes)


def _content_of(entry: object, path: str, notes: Notes) -> Fields | None:
    """Return a content with its role; texts and single parts are of the user, as in `contents` of google-genai."""
    if isinstance(entry, str):
        return {"role": "user", "parts": [entry]}
    fields = read_object(entry, path, notes, "a content (an object with parts)")
    if fields is None:
        return None
    if "role" not in fields and "parts" not in fields:
        return {"role": "user", "parts": [fields]}
    role = {None: "user", "assistant": "model"}.get(fields.get("role"), fields.get("role"))
    return {**fields, "role": role}


def _parts_in(content: Fields, path: str) -> list[tuple[str, JsonObject]]:
    """Return the parts with their paths, without thoughts; a text in place of a part is one."""
    key = "content" if "content" in content else "parts"
    parts = [{"text": part} if isinstance(part, str) else camel_keys(part) for part in parts_of(content.get(key))]
    return [(f"{path}.{key}[{index}]", part) for index, part in enumerate(parts) if not part.get("thought")]


def _read_model(
    parts: Sequence[tuple[str, JsonObject]], path: str, notes: Notes
) -> Iterator[tuple[str, NeutralMessage]]:
    pieces: _Pieces = []
    answers: list[tuple[str, Answer]] = []
    for place, part in parts:
        call, answer = _call_in(part, place, notes), _answer_in(part)
        if call is not None:
            pieces.append(call)
        elif answer is not None:
            answers.append((place, answer))
            pieces.append("")  # so that a text after the result does not continue the one before it
        else:
            append_text(pieces, read_text_parts(_common_parts([part]), place, notes) or "")
    yield path, ModelMessage(pieces)
    yield from answers


def _read_user(
    parts: Sequence[tuple[str, JsonObject]], path: str, notes: Notes
) -> Iterator[tuple[str, NeutralMessage]]:
    others: list[JsonObject] = []
    for place, part in parts:
        answer = _answer_in(part)
        if answer is not None:
            yield place, answer
        elif "functionCall" in part:
            notes.problem(place, "a content of the user has a call; only one of role 'model' can have one")
        else:
            others.append(part)
    user = read_user_input(_common_parts(others), path, notes)
    if user is not None:
        yield path, user


def _call_in(part: Fields, path: str, notes: Notes) -> Request | None:
    """Return the call in a part, if it is one."""
    if "functionCall" in part:
        call = camel_keys(part["functionCall"])
        if call.get("partialArgs") or call.get("willContinue"):
            notes.problem(path, "holds a piece of the arguments of a call; log the response without streamed arguments")
        name = read_name(call, f"{path}.functionCall", notes)
        arguments, error = read_arguments(call.get("args"), path, notes)
        return Request(
            name, arguments, read_id(call, "id", path, notes), ToolCallType.FUNCTION, error=error, source=path
        )
    for key, name_key in (("executableCode", ""), ("toolCall", "toolType")):
        if key in part:
            call = camel_keys(part[key])
            call_id, name = read_id(call, "id", path, notes), str(to_json_value(call.get(name_key, _CODE))).lower()
            arguments = (
                call.get("args") if name_key else {name: call[name] for name in ("code", "language") if name in call}
            )
            return Request(name, arguments, call_id, ToolCallType.HOSTED, source=path)
    return None


def _answer_in(part: Fields) -> Answer | None:
    """Return the answer in a part, if it is one.

    `error` in the response of a function is documented as its failure (`FunctionResponse`, `response`).
    """
    for key in ("functionResponse", "codeExecutionResult", "toolResponse"):
        if key not in part:
            continue
        answer = camel_keys(part[key])
        call_id, content = text_of(answer.get("id")), answer.get("response", ABSENT)
        if key == "codeExecutionResult":
            failed = str(to_json_value(answer.get("outcome"))) not in ("OUTCOME_OK", "None")
            return Answer(call_id, _CODE, answer.get("output", ""), failed, ran=True)
        if key == "toolResponse":
            return Answer(call_id, None, content, ran=True)
        error = object_of(content).get("error") if len(object_of(content)) == 1 else None
        return Answer(call_id, text_of(answer.get("name")), content, failed=error is not None, error=text_of(error))
    return None


def _common_parts(parts: Iterable[Fields]) -> list[JsonObject]:
    """Return texts and media in the form of the other formats; what has no such form has its key as its type."""
    common: list[JsonObject] = []
    for part in parts:
        media = camel_keys(part.get("inlineData") or part.get("fileData"))
        kinds = [key for key in part if key not in _SILENT_PARTS]
        if "text" in part:
            common.append({"type": "text", "text": part["text"]})
        elif str(media.get("mimeType")).startswith("image/"):
            source = {"data": media.get("data"), "url": media.get("fileUri"), "mime_type": media["mimeType"]}
            common.append({"type": "image", **source})
        elif kinds:
            common.append({"type": kinds[0]})
    return common


def assemble(chunks: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the chunks of one stream; the last counts of tokens are those of all."""
    response, candidate = JsonObject(), JsonObject()
    parts: list[object] = []
    ids: set[object] = set()
    for _, chunk in chunks:
        response |= camel_keys(chunk)
        ids.add(response.get("responseId"))
        for one in parts_of(response.pop("candidates", None)):
            candidate |= camel_keys(one)
            parts += parts_of(object_of(candidate.get("content")).get("parts"))
    notes.check_stream(path, is_several=len(ids) > 1, has_end="finishReason" in candidate)
    return {**response, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}
