"""Conversations and traces whose number of calls the generator knows."""

from __future__ import annotations

import json
import random
from typing import Any

from hostile import TEXTS, VALUES
from toolgrade.errors import ToolgradeError
from toolgrade.formats import read


def write(chance: random.Random) -> bytes:
    """Return a conversation in one of the formats, with the ids of its calls."""
    name = chance.choice(list(_FORMATS))
    messages: list[Any] = [_user(name, chance)]
    ids: list[str] = []
    for _ in range(chance.randint(1, 4)):
        calls = [(f"c{len(ids) + number}", _arguments(chance)) for number in range(chance.randint(0, 4))]
        ids += [call_id for call_id, _ in calls]
        answered = [call_id for call_id, _ in calls if chance.random() < 0.8]
        chance.shuffle(answered)
        messages += _FORMATS[name](calls, [(call_id, _text(chance)) for call_id in answered], _text(chance))
        if chance.random() < 0.3:
            messages.append(_user(name, chance))
    for message in messages:
        if chance.random() < 0.2:
            message["x_unknown"] = chance.choice(("x", None, [1], {"type": "tool_use"}))
    return json.dumps({"format": name, "ids": ids, "messages": messages}).encode()


def check(data: bytes) -> None:
    """Check that each call is read once, or that a warning tells."""
    value = json.loads(data)
    try:
        run = read(value["messages"], format=value["format"]).run
    except ToolgradeError as error:
        raise AssertionError(f"a valid conversation is refused: {error}") from error
    ids = [call.id for call in run.calls]
    assert ids == value["ids"] or run.warnings, f"expected the calls {value['ids']}, got {ids}"
    assert set(ids) >= set(value["ids"]), f"the calls {sorted(set(value['ids']) - set(ids))} are lost"


def shuffled_spans(value: Any, chance: random.Random) -> Any:
    """Return JSON with the spans of each list in another order, and one of them now and then twice."""
    if isinstance(value, dict):
        return {key: shuffled_spans(item, chance) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [shuffled_spans(item, chance) for item in value]
    if items and all(isinstance(item, dict) and _has_start(item) for item in items):
        if chance.random() < 0.3:
            items.append(chance.choice(items))
        chance.shuffle(items)
    return items


def _has_start(item: dict[str, Any]) -> bool:
    return any(key.lower().startswith("start") for key in item)


def _user(name: str, chance: random.Random) -> dict[str, Any]:
    return {
        "type" if name == "langchain" else "role": "human" if name == "langchain" else "user",
        "content": _text(chance),
    }


def _text(chance: random.Random) -> str:
    return str(chance.choice((*TEXTS, "x", "", '{"a": 1}', "[]", "null")))


def _arguments(chance: random.Random) -> dict[str, Any]:
    values = [value for value in VALUES if not isinstance(value, (int, float)) or abs(value) < 10**9]
    return {chance.choice(("a", "b", "", "$is")): chance.choice(values) for _ in range(chance.randint(0, 3))}


_Calls = list[tuple[str, dict[str, Any]]]
_Answers = list[tuple[str, str]]


def _chat(calls: _Calls, answers: _Answers, text: str) -> list[Any]:
    functions = [(call_id, {"name": "add", "arguments": json.dumps(arguments)}) for call_id, arguments in calls]
    requests = [{"id": call_id, "type": "function", "function": function} for call_id, function in functions]
    message = {"role": "assistant", "content": text, **({"tool_calls": requests} if requests else {})}
    return [message, *({"role": "tool", "tool_call_id": one, "content": content} for one, content in answers)]


def _anthropic(calls: _Calls, answers: _Answers, text: str) -> list[Any]:
    blocks: list[Any] = [{"type": "text", "text": text}]
    blocks += [{"type": "tool_use", "id": call_id, "name": "add", "input": arguments} for call_id, arguments in calls]
    results = [{"type": "tool_result", "tool_use_id": one, "content": content} for one, content in answers]
    return [{"role": "assistant", "content": blocks}, *([{"role": "user", "content": results}] if results else [])]


def _responses(calls: _Calls, answers: _Answers, text: str) -> list[Any]:
    requests = [
        {"type": "function_call", "call_id": call_id, "name": "add", "arguments": json.dumps(arguments)}
        for call_id, arguments in calls
    ]
    results = [{"type": "function_call_output", "call_id": one, "output": content} for one, content in answers]
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return [*requests, *results, message]


def _langchain(calls: _Calls, answers: _Answers, text: str) -> list[Any]:
    requests = [{"name": "add", "args": arguments, "id": call_id, "type": "tool_call"} for call_id, arguments in calls]
    results = [{"type": "tool", "tool_call_id": one, "content": content} for one, content in answers]
    return [{"type": "ai", "content": text, "tool_calls": requests}, *results]


_FORMATS = {"openai-chat": _chat, "anthropic": _anthropic, "openai-responses": _responses, "langchain": _langchain}
