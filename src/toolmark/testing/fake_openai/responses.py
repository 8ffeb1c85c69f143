"""Replies in the form of OpenAI's Responses API, whole and streamed."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

from toolmark._internal.json import JsonObject, json_text
from toolmark.errors import ConfigurationError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import Reply, count_tokens, new_id
from toolmark.testing.scripted_model import in_pieces

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}

_DEFAULTS: JsonObject = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_ECHOED = (*_DEFAULTS, "instructions", "metadata", "previous_response_id", "store", "temperature", "text", "top_p")
"""Options that the API echoes."""

_TEXTS = {
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "function_call": ("arguments", "function_call_arguments"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
}
"""Items whose text is streamed: field of the text, and name of the events."""

_BLANKS: dict[str, JsonObject] = {"message": {"content": []}, **{kind: {key: ""} for kind, (key, _) in _TEXTS.items()}}
"""Fields of an item before its text is streamed."""


def body(reply: Reply, request: ReceivedRequest) -> JsonObject:
    """Return the body of an answer that is not streamed."""
    output = _output(reply)
    reason = _INCOMPLETE_REASONS.get(reply.finish or "")
    prompt, answer = reply.usage or (count_tokens(request.text), count_tokens(json_text(output)))
    whole: JsonObject = {
        **_DEFAULTS,
        **{key: value for key, value in request.body.items() if key in _ECHOED and value is not None},
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": output,
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + answer,
        },
    }
    if reason:
        whole |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    if reply.failure is not None:
        error = {"code": "server_error", "message": reply.failure}
        whole |= {"status": "failed", "error": error, "incomplete_details": None, "usage": None}
    return whole


def events(reply: Reply, request: ReceivedRequest) -> Iterator[JsonObject]:
    """Yield the events of a streamed answer, numbered from 0."""
    for number, event in enumerate(_events(body(reply, request))):
        yield {"type": f"response.{event.pop('type')}", "sequence_number": number, **event}


def _events(finished: JsonObject) -> Iterator[JsonObject]:
    unknown: JsonObject = {"error": None, "incomplete_details": None, "output": [], "usage": None}
    begun = {**finished, "status": "in_progress", **unknown}
    yield {"type": "created", "response": begun}
    yield {"type": "in_progress", "response": begun}
    for index, item in enumerate(finished["output"]):
        kind = item.get("type", "")
        begun_item = {**item, "status": "in_progress", **_BLANKS.get(kind, {})}
        yield {"type": "output_item.added", "output_index": index, "item": begun_item}
        stream = _message_events if kind == "message" else _text_events
        for event in stream(item):
            yield {"item_id": item.get("id", ""), "output_index": index, **event}
        yield {"type": "output_item.done", "output_index": index, "item": item}
    yield {"type": finished["status"], "response": finished}


def _message_events(item: JsonObject) -> Iterator[JsonObject]:
    for number, part in enumerate(item.get("content") or []):
        for event in _part_events(part):
            yield {"content_index": number, **event}


def _text_events(item: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of an item with a single text, if it has one."""
    kind = item.get("type")
    if kind not in _TEXTS:
        return
    key, name = _TEXTS[kind]
    text = str(item.get(key) or "")
    for piece in in_pieces(text):
        yield {"type": f"{name}.delta", "delta": piece}
    # Of these events the API declares a name for functions only; clients ignore it elsewhere.
    yield {"type": f"{name}.done", key: text, "name": item.get("name", "")}


def _part_events(part: JsonObject) -> Iterator[JsonObject]:
    kind = part.get("type", "output_text")
    key = "refusal" if kind == "refusal" else "text"
    text = part.get(key) or ""
    yield {"type": "content_part.added", "part": {**part, key: ""}}
    for piece in in_pieces(text):
        yield {"type": f"{kind}.delta", "delta": piece, "logprobs": []}
    yield {"type": f"{kind}.done", key: text, "logprobs": []}
    yield {"type": "content_part.done", "part": part}


def _output(reply: Reply) -> list[JsonObject]:
    if reply.output is not None:
        return copy.deepcopy(list(reply.output))
    if reply.message is not None:
        message = "the reply has a `message`, which /v1/chat/completions plays; give it `output` for /v1/responses"
        raise ConfigurationError(message)
    content = _content(reply)
    items: list[JsonObject] = []
    if content:
        items.append({"type": "message", "id": new_id("msg"), "role": "assistant", "content": content})
    for name, arguments, call_id in reply.function_calls():
        call = {"type": "function_call", "id": new_id("fc"), "call_id": call_id, "name": name, "arguments": arguments}
        items.append(call)
    for item in items:
        item["status"] = "completed"
    if items and reply.finish in _INCOMPLETE_REASONS:
        items[-1]["status"] = "incomplete"  # only the last item is truncated
    return items


def _content(reply: Reply) -> list[JsonObject]:
    content: list[JsonObject] = []
    if reply.text is not None:
        content.append({"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []})
    if reply.refusal is not None:
        content.append({"type": "refusal", "refusal": reply.refusal})
    return content
