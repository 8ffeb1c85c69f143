"""Replies in the forms of Chat Completions and Responses, whole and streamed; a stream is made of the whole reply."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

from toolgrade._internal.json import JsonObject, json_text
from toolgrade.errors import ConfigurationError
from toolgrade.testing.fake_openai.http import ReceivedRequest
from toolgrade.testing.fake_openai.replies import Reply, count_tokens, new_id
from toolgrade.testing.scripted_model import in_pieces

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}

_DEFAULTS: JsonObject = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_ECHOED = (*_DEFAULTS, "instructions", "metadata", "previous_response_id", "store", "temperature", "text", "top_p")
"""Options that the Responses API echoes."""

_TEXTS = {
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "function_call": ("arguments", "function_call_arguments"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
}
"""Items of Responses whose text is streamed: field of the text, and name of the events."""

_BLANKS: dict[str, JsonObject] = {"message": {"content": []}, **{kind: {key: ""} for kind, (key, _) in _TEXTS.items()}}
"""Fields of an item before its text is streamed."""


def chat_body(reply: Reply, request: ReceivedRequest) -> JsonObject:
    """Return the body of a chat that is not streamed; it has one choice for any `n`."""
    if reply.failure is not None:  # some endpoints send an error with status 200
        return {"error": {"message": reply.failure, "type": "server_error", "param": None, "code": None}}
    message = _chat_message(reply)
    finish = reply.finish or ("tool_calls" if "tool_calls" in message else "stop")
    prompt, answer = _tokens(reply, request, message)
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**_chat_head("chat.completion", request), "choices": [choice], "usage": usage}


def chat_events(reply: Reply, request: ReceivedRequest) -> Iterator[JsonObject]:
    """Yield the events of a streamed chat, without the closing `[DONE]`."""
    head = _chat_head("chat.completion.chunk", request)
    with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    if with_usage:
        head["usage"] = None

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    whole = chat_body(reply, request)
    if reply.failure is not None:
        yield chunk({"role": "assistant", "content": ""})
        yield whole
        return
    (choice,) = whole["choices"]
    message = choice["message"]
    content = None if message["content"] is None else ""
    yield chunk({"role": "assistant", "content": content, "refusal": None})
    yield from map(chunk, _chat_deltas(message))
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield {**head, "choices": [], "usage": whole["usage"]}


def _chat_head(kind: str, request: ReceivedRequest) -> JsonObject:
    return {"id": new_id("chatcmpl"), "object": kind, "created": int(time.time()), "model": request.model}


def _tokens(reply: Reply, request: ReceivedRequest, answer: object) -> tuple[int, int]:
    return reply.usage or (count_tokens(request.text), count_tokens(json_text(answer)))


def _chat_message(reply: Reply) -> JsonObject:
    if reply.output is not None:
        raise ConfigurationError("the reply has `output`, which only /v1/responses plays")
    fields: JsonObject = {"role": "assistant", "content": reply.text, "refusal": reply.refusal, "annotations": []}
    for name, arguments, call_id in reply.function_calls():
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        fields.setdefault("tool_calls", []).append(call)
    return fields


def _chat_deltas(message: JsonObject) -> Iterator[JsonObject]:
    for key in ("content", "refusal"):
        yield from ({key: piece} for piece in in_pieces(message[key] or ""))
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for piece in in_pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def responses_body(reply: Reply, request: ReceivedRequest) -> JsonObject:
    """Return the body of an answer of Responses that is not streamed."""
    output = _output(reply)
    prompt, answer = _tokens(reply, request, output)
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
    reason = _INCOMPLETE_REASONS.get(reply.finish or "")
    if reason:
        whole |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    if reply.failure is not None:
        error = {"code": "server_error", "message": reply.failure}
        whole |= {"status": "failed", "error": error, "incomplete_details": None, "usage": None}
    return whole


def responses_events(reply: Reply, request: ReceivedRequest) -> Iterator[JsonObject]:
    """Yield the events of a streamed answer of Responses, numbered from 0."""
    for number, event in enumerate(_events(responses_body(reply, request))):
        yield {"type": f"response.{event.pop('type')}", "sequence_number": number, **event}


def _events(finished: JsonObject) -> Iterator[JsonObject]:
    unknown: JsonObject = {"error": None, "incomplete_details": None, "output": [], "usage": None}
    begun = {**finished, "status": "in_progress", **unknown}
    yield {"type": "created", "response": begun}
    yield {"type": "in_progress", "response": begun}
    for index, item in enumerate(finished["output"]):
        begun_item = {**item, "status": "in_progress", **_BLANKS.get(item.get("type", ""), {})}
        yield {"type": "output_item.added", "output_index": index, "item": begun_item}
        for event in _item_events(item):
            yield {"item_id": item.get("id", ""), "output_index": index, **event}
        yield {"type": "output_item.done", "output_index": index, "item": item}
    yield {"type": finished["status"], "response": finished}


def _item_events(item: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of the texts of an item, if it has any."""
    kind = item.get("type")
    if kind == "message":
        for number, part in enumerate(item.get("content") or []):
            yield from ({"content_index": number, **event} for event in _part_events(part))
    elif kind in _TEXTS:
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
    content: list[JsonObject] = []
    if reply.text is not None:
        content.append({"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []})
    if reply.refusal is not None:
        content.append({"type": "refusal", "refusal": reply.refusal})
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
