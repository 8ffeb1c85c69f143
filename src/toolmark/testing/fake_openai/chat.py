"""Replies in the form of OpenAI's Chat Completions API, whole and streamed."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

from toolmark._internal.json import JsonObject, json_text
from toolmark.errors import ConfigurationError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import Reply, count_tokens, new_id
from toolmark.testing.scripted_model import in_pieces


def body(reply: Reply, request: ReceivedRequest) -> JsonObject:
    """Return the body of an answer that is not streamed; it has one choice for any `n`."""
    if reply.failure is not None:  # some endpoints send an error with status 200
        return _failure(reply.failure)
    message = _message(reply)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply, message)}
    return {**_head("chat.completion", request), "choices": [choice], "usage": _usage(reply, request, message)}


def events(reply: Reply, request: ReceivedRequest) -> Iterator[JsonObject]:
    """Yield the events of a streamed answer, without the closing `[DONE]`."""
    head = _head("chat.completion.chunk", request)
    with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    if with_usage:
        head["usage"] = None

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    if reply.failure is not None:
        yield chunk({"role": "assistant", "content": ""})
        yield _failure(reply.failure)
        return
    message = _message(reply)
    content = None if message.get("content") is None else ""
    yield chunk({"role": message.get("role", "assistant"), "content": content, "refusal": None})
    for delta in _deltas(message):
        yield chunk(delta)
    yield chunk({}, _finish(reply, message))
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(reply, request, message)}


def _head(kind: str, request: ReceivedRequest) -> JsonObject:
    return {"id": new_id("chatcmpl"), "object": kind, "created": int(time.time()), "model": request.model}


def _failure(text: str) -> JsonObject:
    return {"error": {"message": text, "type": "server_error", "param": None, "code": None}}


def _message(reply: Reply) -> JsonObject:
    if reply.message is not None:
        return copy.deepcopy(reply.message)
    if reply.output is not None:
        message = "the reply has `output`, which /v1/responses plays; give it a `message` for /v1/chat/completions"
        raise ConfigurationError(message)
    fields: JsonObject = {"role": "assistant", "content": reply.text, "refusal": reply.refusal, "annotations": []}
    for name, arguments, call_id in reply.function_calls():
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        fields.setdefault("tool_calls", []).append(call)
    return fields


def _finish(reply: Reply, message: JsonObject) -> str:
    if reply.finish is not None:
        return reply.finish
    return next((kind for kind in ("tool_calls", "function_call") if message.get(kind)), "stop")


def _usage(reply: Reply, request: ReceivedRequest, message: JsonObject) -> JsonObject:
    prompt, answer = reply.usage or (count_tokens(request.text), count_tokens(json_text(message)))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _deltas(message: JsonObject) -> Iterator[JsonObject]:
    for key, value in message.items():
        if key == "role":
            continue
        if key == "tool_calls":
            for index, call in enumerate(value):
                yield from ({"tool_calls": [{"index": index, **part}]} for part in _call_deltas(call))
        elif isinstance(value, str):
            yield from ({key: piece} for piece in in_pieces(value))
        elif value:
            yield {key: value}


def _call_deltas(call: JsonObject) -> Iterator[JsonObject]:
    """Yield a call whose arguments come in pieces; a call of any other shape as it is."""
    function = call.get("function") or {}
    if not isinstance(function.get("arguments"), str):
        yield call
        return
    yield {**call, "function": {**function, "arguments": ""}}
    for piece in in_pieces(function["arguments"]):
        yield {"function": {"arguments": piece}}
