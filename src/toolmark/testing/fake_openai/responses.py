"""Replies in the form of OpenAI's Responses API, whole and streamed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from toolmark._internal.json import JsonObject, json_text
from toolmark.errors import ConfigurationError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import Ids, Reply, count_tokens
from toolmark.testing.scripted_model import in_pieces

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}

# Defaults that the API echoes for options that the request leaves out.
_DEFAULTS: JsonObject = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}

# Events between the first and the last event of an item that the provider runs.
_STAGES = {
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed"),
    "mcp_list_tools": ("in_progress", "completed"),
    "web_search_call": ("in_progress", "searching", "completed"),
}

# Items whose text is streamed: field of the text, and name of the events.
_TEXTS = {
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "function_call": ("arguments", "function_call_arguments"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
}


def response(reply: Reply, request: ReceivedRequest, ids: Ids) -> JsonObject:
    """Return the body of an answer that is not streamed."""
    output = _output(reply, ids)
    return _finished(reply, request, output, _begun(request, ids))


def events(reply: Reply, request: ReceivedRequest, ids: Ids) -> Iterator[JsonObject]:
    """Yield the events of a streamed answer, numbered from 0."""
    output = _output(reply, ids)
    for number, event in enumerate(_events(reply, request, output, _begun(request, ids))):
        yield {"type": event.pop("type"), "sequence_number": number, **event}


def _events(
    reply: Reply, request: ReceivedRequest, output: list[JsonObject], begun: JsonObject
) -> Iterator[JsonObject]:
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(output):
        yield {"type": "response.output_item.added", "output_index": index, "item": _item_begun(item)}
        place = {"item_id": item.get("id", ""), "output_index": index}
        for event in _item_events(item):
            yield {**event, **place}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    finished = _finished(reply, request, output, begun)
    yield {"type": f"response.{finished['status']}", "response": finished}


def _output(reply: Reply, ids: Ids) -> list[JsonObject]:
    if reply.output is not None:
        return copy.deepcopy(list(reply.output))
    if reply.message is not None:
        raise ConfigurationError(
            "the reply has a `message`, which /v1/chat/completions plays; give it `output` for /v1/responses"
        )
    status = "incomplete" if reply.finish in _INCOMPLETE_REASONS else "completed"
    content: list[JsonObject] = []
    if reply.text is not None:
        content.append({"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []})
    if reply.refusal is not None:
        content.append({"type": "refusal", "refusal": reply.refusal})
    items: list[JsonObject] = []
    if content:
        items.append({"type": "message", "id": ids.new("msg"), "role": "assistant", "content": content})
    for name, arguments, id in reply.function_calls():  # noqa: A001 - as the field is called
        call_id = ids.new("call") if id is None else id
        call = {"type": "function_call", "id": ids.new("fc"), "call_id": call_id, "name": name, "arguments": arguments}
        items.append(call)
    # Only the last item is truncated.
    return [{**item, "status": status if item is items[-1] else "completed"} for item in items]


def _begun(request: ReceivedRequest, ids: Ids) -> JsonObject:
    options = {key: request.body[key] for key in _DEFAULTS if request.body.get(key) is not None}
    return {
        "id": ids.new("resp"),
        "object": "response",
        "created_at": ids.now(),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "usage": None,
        "user": None,
        **copy.deepcopy({**_DEFAULTS, **options}),
    }


def _finished(reply: Reply, request: ReceivedRequest, output: list[JsonObject], begun: JsonObject) -> JsonObject:
    reason = _INCOMPLETE_REASONS.get(reply.finish or "")
    status = "incomplete" if reason else "completed"
    if reply.failure is not None:
        status = "failed"
    prompt, answer = reply.usage or (count_tokens(request.text), count_tokens(json_text(output)))
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + answer,
    }
    return {
        **begun,
        "status": status,
        "error": None if reply.failure is None else {"code": "server_error", "message": reply.failure},
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "output": output,
        "usage": None if status == "failed" else usage,
    }


def _item_begun(item: JsonObject) -> JsonObject:
    """Return an item as its first event has it: without its text."""
    kind = item.get("type")
    empty: JsonObject = {"status": "in_progress"} if "status" in item else {}
    if kind == "message":
        empty["content"] = []
    elif kind == "reasoning" and "summary" in item:
        empty["summary"] = []
    elif kind in _TEXTS:
        empty[_TEXTS[kind][0]] = ""
    return {**item, **empty}


def _item_events(item: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of an item between its first and its last event."""
    kind = item.get("type", "")
    if kind == "message":
        for index, part in enumerate(item.get("content") or []):
            yield from ({**event, "content_index": index} for event in _part_events(part))
    elif kind == "reasoning":
        for index, part in enumerate(item.get("summary") or []):
            yield from ({**event, "summary_index": index} for event in _summary_events(part))
    *stages, last = _STAGES.get(kind, ("",))
    yield from ({"type": f"response.{kind}.{stage}"} for stage in stages)
    if kind in _TEXTS:
        key, name = _TEXTS[kind]
        text = str(item.get(key) or "")
        yield from ({"type": f"response.{name}.delta", "delta": piece} for piece in in_pieces(text))
        # Only events of functions have the name of the tool.
        name_field = {"name": item.get("name", "")} if kind == "function_call" else {}
        yield {"type": f"response.{name}.done", key: text, **name_field}
    if last and not item.get("error") and item.get("status", last) == last:
        yield {"type": f"response.{kind}.{last}"}
    elif last and kind.startswith("mcp_"):
        yield {"type": f"response.{kind}.failed"}


def _part_events(part: JsonObject) -> Iterator[JsonObject]:
    kind = part.get("type", "output_text")
    key = "refusal" if kind == "refusal" else "text"
    extra: JsonObject = {"logprobs": []} if kind == "output_text" else {}
    yield {"type": "response.content_part.added", "part": {**part, key: ""}}
    for piece in in_pieces(part.get(key) or ""):
        yield {"type": f"response.{kind}.delta", "delta": piece, **extra}
    yield {"type": f"response.{kind}.done", key: part.get(key) or "", **extra}
    yield {"type": "response.content_part.done", "part": part}


def _summary_events(part: JsonObject) -> Iterator[JsonObject]:
    text = part.get("text") or ""
    yield {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}}
    for piece in in_pieces(text):
        yield {"type": "response.reasoning_summary_text.delta", "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", "text": text}
    yield {"type": "response.reasoning_summary_part.done", "part": part}
