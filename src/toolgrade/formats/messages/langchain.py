"""Reader of LangChain's messages: the objects themselves, and their dumps in every form that LangChain writes.

Forms: `dumps` (`{"lc": 1, "type": "constructor", ...}`), `messages_to_dict` (`{"type": "ai", "data": {...}}`),
`model_dump` (`{"type": "ai", "content": ...}`), and the message objects. Calls stand under `tool_calls`, those with
unreadable arguments under `invalid_tool_calls`, those that the provider ran in the content blocks.

Source: LangChain reference, `langchain_core.messages` (`AIMessage`, `ToolMessage`, `messages_to_dict`) and
`langchain_core.load.dumps`; LangChain documentation, "Messages", section "Standard content blocks".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, first_of, object_of, parts_of, text_of
from toolgrade.capture import Request
from toolgrade.formats.messages.content_blocks import ContentBlocks, read_content_blocks
from toolgrade.formats.messages.content_parts import call_of
from toolgrade.formats.messages.field_readers import Notes, list_of, output_or_absent, read_content, read_id, sum_of
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    Instructions,
    ModelMessage,
    NeutralMessage,
    read_user_input,
)
from toolgrade.formats.messages.openai_responses import read_responses_answer

_CLASS_NAME = re.compile(r"^(AI|Human|Tool|Function|System|Chat)Message(?:Chunk)?$")
_TYPES = frozenset({"ai", "human", "tool", "function", "system", "chat", "remove", "developer"})
_KIND_OF_ROLE = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
_REFUSAL = re.compile(
    r"""(?:Error:\s)?(?:The\s)?(?:
        (?:user|human|person|operator|reviewer|policy|admin\w*)\b[^\n]{0,40}\b(?:reject|den(?:y|ied)|declin|refus)
        | tool\scall\b[^\n]{0,100}\b(?:rejected|denied|declined|refused|blocked|not\sapproved|limit\sexceeded)\b
        | execution\sstopped\sbefore\sthis\stool\scall\scould\srun
    ) | .*\bthe\stool\s(?:call\s)?was\snot\s(?:executed|run)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""How middleware says that somebody refused a call: who did, or that the call was refused, or that nothing ran.

So do `HumanInTheLoopMiddleware` ("User rejected the tool call for ..."), `ToolCallLimitMiddleware` ("Tool call limit
exceeded."), `AutoModeMiddleware` ("The tool call ... was blocked"), and others like them.
"""
_USAGE = ("input_tokens", "output_tokens", "total_tokens")


def message_fields(value: object) -> Fields | None:
    """Return the fields of a message of LangChain, with its `type` (`ai`, `human`, ...); `None` for anything else."""
    fields = object_of(value)
    if "role" in fields:
        return None
    name, inner = _kind_and_fields(fields)
    kind = "".join(_CLASS_NAME.findall(name)).lower() or name
    if not _is_message(kind, inner):
        return None
    if kind == "chat":
        kind = _KIND_OF_ROLE.get(str(inner.get("role")), "system")
    return {**inner, "type": kind}


def _kind_and_fields(fields: Fields) -> tuple[str, Fields]:
    """Return the type of a message, or the name of its class, and the object with its fields."""
    kind = str(fields.get("type"))
    if fields.get("lc") is not None and kind == "constructor":
        return str(["", *list_of(fields.get("id"))][-1]), object_of(fields.get("kwargs"))
    if "data" in fields:
        return kind, object_of(fields["data"])
    return kind, fields


def _is_message(kind: str, fields: Fields) -> bool:
    return kind in _TYPES and (kind == "remove" or "content" in fields or "tool_calls" in fields)


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    for path, message in _joined_chunks(entries):
        fields = message_fields(message)
        if fields is None:
            notes.problem(path, f"expected a message of LangChain, got {short_repr(message)}")
        elif fields["type"] == "ai":
            yield from _read_model(fields, path, notes)
        elif fields["type"] in ("tool", "function"):
            yield path, result_of(fields, path, notes)
        elif fields["type"] == "human":
            yield from _read_user(fields, path, notes)
        elif fields["type"] in ("system", "developer"):
            yield path, Instructions(read_content(fields, path, notes) or "")


def _read_user(fields: Fields, path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the results in a message of the user, and what else there is as the input."""
    blocks = parts_of(fields.get("content"))
    others = [block for block in blocks if not read_content_blocks([block]).answers]
    yield from ((path, answer) for answer in read_content_blocks(blocks).answers)
    user = read_user_input(fields.get("content") if len(others) == len(blocks) else others, path, notes)
    if user is not None:
        yield path, user


def _joined_chunks(entries: Iterable[Entry]) -> list[Entry]:
    """Return the messages, in which the chunks of a streamed one are joined: those of one id, or adjacent ones without.

    A whole message with the id of chunks repeats them, and takes their place.
    """
    joined: list[Entry] = []
    positions: dict[object, int] = {}
    for path, message in entries:
        name, fields = _kind_and_fields(object_of(message))
        is_chunk, key = name == "AIMessageChunk", fields.get("id")
        if not is_chunk:
            positions.pop(None, None)
        position = positions.get(key)
        if position is None:
            if is_chunk:
                positions[key] = len(joined)
            joined.append((path, message))
        else:
            place, before = joined[position]
            joined[position] = place, _sum_of(_kind_and_fields(object_of(before))[1], fields) if is_chunk else message
    return joined


def _sum_of(first: Fields, second: Fields) -> Fields:
    """Return the message that two chunks add up to; its calls are read from the pieces of their argument text."""
    total = {"content": "", **sum_of(first, second), "type": "AIMessageChunk"}
    calls = list_of(total.get("tool_call_chunks"))
    return {**total, "tool_calls": calls, "invalid_tool_calls": []} if calls else total


def _read_model(fields: Fields, path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    parts, answers = content_of(fields, path, notes)
    model = text_of(object_of(fields.get("response_metadata")).get("model_name"))
    counts = _token_counts(object_of(fields.get("usage_metadata")))
    yield from ((path, replace(answer, ran=True)) for answer in answers)
    yield path, ModelMessage(parts, model=model, usage=counts)


def _token_counts(usage: Fields) -> dict[str, int]:
    return {name: usage[name] for name in _USAGE if isinstance(usage.get(name), int)}


def content_of(fields: Fields, path: str, notes: Notes) -> ContentBlocks:
    """Return the texts and calls of a message of the model, and results of calls that the provider ran earlier.

    A call without a name is a problem.
    """
    listed = list(_listed_calls(fields, "tool_calls", path, notes))
    listed += _listed_calls(fields, "invalid_tool_calls", path, notes)
    provider = text_of(object_of(fields.get("response_metadata")).get("model_provider"))
    additional = object_of(fields.get("additional_kwargs"))
    listed = listed or _provider_calls(fields, path)
    content, place = fields.get("content"), f"{path}.content"
    return read_content_blocks(content, listed, additional=additional, provider=provider, path=place)


def _listed_calls(fields: Fields, key: str, path: str, notes: Notes) -> Iterator[Request]:
    """Yield the calls of one list of a message; one without a name is a problem."""
    for index, entry in enumerate(parts_of(fields.get(key))):
        place, call = f"{path}.{key}[{index}]", object_of(entry)
        request = call_of(call, path=place, empty={})
        if request is None:
            notes.problem(f"{place}.name", f"a call needs the name of its tool, got {short_repr(call.get('name'))}")
        elif key == "invalid_tool_calls":
            # The arguments are invalid even if they are empty: LangChain says so by the key.
            raw = str(first_of(call, "args", "arguments") or "")
            yield replace(request, arguments=raw, error=text_of(call.get("error")) or request.error)
        else:
            yield request


def _provider_calls(fields: Fields, path: str) -> list[Request]:
    """Return the calls that a message has only in the provider's own form."""
    place = f"{path}.additional_kwargs.tool_calls"
    entries = parts_of(object_of(fields.get("additional_kwargs")).get("tool_calls"))
    requests = [call_of(object_of(entry), path=f"{place}[{index}]", empty={}) for index, entry in enumerate(entries)]
    return [request for request in requests if request is not None]


def result_of(fields: Fields, path: str, notes: Notes) -> Answer:
    """Return the answer in a message of a tool."""
    call_id, content = read_id(fields, "tool_call_id", path, notes), fields.get("content")
    item = read_responses_answer(content[0]) if isinstance(content, list) and len(content) == 1 else None
    content = output_or_absent(content) if item is None else item.content
    failed = fields.get("status") == "error"
    approved = False if failed and is_refusal(content) else None
    return Answer(call_id, text_of(fields.get("name")), content, failed=failed, approved=approved)


def is_refusal(content: object) -> bool:
    """Return whether the content of a failed `ToolMessage` is a text that a person or a limit refused the call.

    Custom reasons of a person, which older versions of LangChain show alone, are not recognized.

    Example:
        >>> from toolgrade.formats import is_refusal
        >>> is_refusal("User rejected the tool call for `pay`. The tool was not executed."), is_refusal("no such file")
        (True, False)
    """
    return isinstance(content, str) and _REFUSAL.match(content) is not None
