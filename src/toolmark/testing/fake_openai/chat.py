"""Replies in the form of OpenAI's Chat Completions API, whole and streamed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from toolmark._internal.json import JsonObject, json_text
from toolmark.errors import ConfigurationError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import Ids, Reply, count_tokens
from toolmark.testing.scripted_model import in_pieces


def completion(reply: Reply, request: ReceivedRequest, ids: Ids) -> JsonObject:
    """Return the body of an answer that is not streamed; it has one choice for any `n`."""
    if reply.failure is not None:  # some endpoints send an error with status 200
        return _failure(reply.failure)
    message = _message(reply, ids)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply, message)}
    head = _head("chat.completion", request, ids)
    return {**head, "choices": [choice], "usage": _usage(reply, request, message)}


def chunks(reply: Reply, request: ReceivedRequest, ids: Ids) -> Iterator[JsonObject]:
    """Yield the events of a streamed answer, without the closing `[DONE]`."""
    head = _head("chat.completion.chunk", request, ids)
    with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    if with_usage:
        head["usage"] = None

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    if reply.failure is not None:
        yield chunk({"role": "assistant", "content": ""})
        yield _failure(reply.failure)
        return
    message = _message(reply, ids)
    content = None if message.get("content") is None else ""
    yield chunk({"role": message.get("role", "assistant"), "content": content, "refusal": None})
    for delta in _deltas(message):
        yield chunk(delta)
    yield chunk({}, _finish(reply, message))
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(reply, request, message)}


def _head(kind: str, request: ReceivedRequest, ids: Ids) -> JsonObject:
    return {"id": ids.new("chatcmpl"), "object": kind, "created": ids.now(), "model": request.model}


def _failure(text: str) -> JsonObject:
    return {"error": {"message": text, "type": "server_error", "param": None, "code": None}}


def _message(reply: Reply, ids: Ids) -> JsonObject:
    if reply.message is not None:
        return copy.deepcopy(reply.message)
    if reply.output is not None:
        raise ConfigurationError(
            "the reply has `output`, which /v1/responses plays; give it a `message` for /v1/chat/completions"
        )
    message: JsonObject = {"role": "assistant", "content": reply.text, "refusal": reply.refusal, "annotations": []}
    calls = [
        {
            "id": ids.new("call") if id is None else id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name, arguments, id in reply.function_calls()  # noqa: A001 - as the field is called
    ]
    return {**message, "tool_calls": calls} if calls else message


def _finish(reply: Reply, message: JsonObject) -> str:
    if reply.finish is not None:
        return reply.finish
    if message.get("tool_calls"):
        return "tool_calls"
    return "function_call" if message.get("function_call") else "stop"


def _usage(reply: Reply, request: ReceivedRequest, message: JsonObject) -> JsonObject:
    prompt, answer = reply.usage or (count_tokens(request.text), count_tokens(json_text(message)))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _deltas(message: JsonObject) -> Iterator[JsonObject]:
    for key, value in message.items():
        if key == "role" or value is None or value == []:
            continue
        if key == "tool_calls" and isinstance(value, list):
            for index, call in enumerate(value):
                for part in _call_deltas(call, "custom" if call.get("type") == "custom" else "function"):
                    yield {"tool_calls": [{"index": index, **part}]}
        elif key == "function_call":
            yield from _call_deltas({key: value}, key)
        elif isinstance(value, str):
            yield from ({key: piece} for piece in in_pieces(value))
        else:
            yield {key: value}


def _call_deltas(call: JsonObject, kind: str) -> Iterator[JsonObject]:
    """Yield a call whose arguments come in pieces; a call of any other shape as it is."""
    inner = call.get(kind)
    key = "input" if kind == "custom" else "arguments"
    if not isinstance(inner, dict) or not isinstance(inner.get(key), str):
        yield call
        return
    yield {**call, kind: {**inner, key: ""}}
    for piece in in_pieces(inner[key]):
        yield {kind: {key: piece}}
