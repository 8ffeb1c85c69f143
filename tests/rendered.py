"""One agent history in the API format of each provider, with the expected reading."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Plain = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call; its output is `None` if it was not answered."""

    name: str
    arguments: Plain
    output: str | None


@dataclass(frozen=True)
class Turn:
    """The user's text, groups of parallel calls, and the answer."""

    question: str
    steps: list[list[Call]]
    answer: str | None


@dataclass
class Rendered:
    """Messages with the ranges whose answers may be reordered."""

    messages: list[Any] = field(default_factory=list)
    count: int = 0

    def next_id(self) -> str:
        """An id that no other call has."""
        self.count += 1
        return f"call_{self.count}"


texts = st.text("abc xyz", min_size=1, max_size=5)
values = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.integers(0, 3), max_size=2)
arguments = st.dictionaries(st.text("abc", min_size=1, max_size=3), values, max_size=3)
calls = st.builds(Call, st.sampled_from(["add", "sub", "mul"]), arguments, st.none() | st.text(max_size=4))
turns = st.builds(Turn, texts, st.lists(st.lists(calls, min_size=1, max_size=3), max_size=3), st.none() | texts)
histories = st.lists(turns, min_size=1, max_size=3)


def expected(history: list[Turn]) -> list[tuple[Any, ...]]:
    """Name, arguments, output, status, id and step of each call."""
    rows: list[tuple[Any, ...]] = []
    step = 0
    for turn in history:
        for group in turn.steps:
            for call in group:
                status = "not_executed" if call.output is None else "ok"
                rows.append((call.name, call.arguments, call.output, status, f"call_{len(rows) + 1}", step))
            step += 1
    return rows


def chat(history: list[Turn], shuffle: Any) -> list[Plain]:
    """Messages of Chat Completions; answers in an order that `shuffle` chooses."""
    out = Rendered()
    for turn in history:
        out.messages.append({"role": "user", "content": turn.question})
        for group in turn.steps:
            ids = [out.next_id() for _ in group]
            entries = [
                {"id": i, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
                for i, c in zip(ids, group, strict=True)
            ]
            out.messages.append({"role": "assistant", "content": None, "tool_calls": entries})
            answers = [(i, c.output) for i, c in zip(ids, group, strict=True) if c.output is not None]
            out.messages += [{"role": "tool", "tool_call_id": i, "content": text} for i, text in shuffle(answers)]
        if turn.answer is not None:
            out.messages.append({"role": "assistant", "content": turn.answer})
    return out.messages


def responses(history: list[Turn], shuffle: Any) -> list[Plain]:
    """Items of the Responses API."""
    out = Rendered()
    for turn in history:
        out.messages.append({"role": "user", "content": [{"type": "input_text", "text": turn.question}]})
        for group in turn.steps:
            ids = [out.next_id() for _ in group]
            out.messages.append({"type": "reasoning", "id": "rs", "summary": []})
            out.messages += [
                {"type": "function_call", "call_id": i, "name": c.name, "arguments": json.dumps(c.arguments)}
                for i, c in zip(ids, group, strict=True)
            ]
            answers = [(i, c.output) for i, c in zip(ids, group, strict=True) if c.output is not None]
            out.messages += [{"type": "function_call_output", "call_id": i, "output": o} for i, o in shuffle(answers)]
            if not answers:  # a list of items does not show where a response ends, unless something stands between
                out.messages.append({"type": "function_call_output", "call_id": "none", "output": ""})
        if turn.answer is not None:
            parts = [{"type": "output_text", "text": turn.answer, "annotations": []}]
            out.messages.append({"type": "message", "role": "assistant", "content": parts})
    return out.messages


def anthropic(history: list[Turn], shuffle: Any) -> list[Plain]:
    """Messages of Anthropic, whose results and next words of the user share a message."""
    out = Rendered()
    results: list[Plain] = []
    for turn in history:
        out.messages.append({"role": "user", "content": [*results, {"type": "text", "text": turn.question}]})
        results = []
        for group in turn.steps:
            if results:
                out.messages.append({"role": "user", "content": results})
            ids = [out.next_id() for _ in group]
            blocks = [
                {"type": "tool_use", "id": i, "name": c.name, "input": c.arguments}
                for i, c in zip(ids, group, strict=True)
            ]
            out.messages.append({"role": "assistant", "content": [{"type": "text", "text": "Well."}, *blocks]})
            answers = [(i, c.output) for i, c in zip(ids, group, strict=True) if c.output is not None]
            results = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in shuffle(answers)]
        if turn.answer is not None:
            if results:
                out.messages.append({"role": "user", "content": results})
            results = []
            out.messages.append({"role": "assistant", "content": turn.answer})
    if results:
        out.messages.append({"role": "user", "content": results})
    return out.messages


RENDER = {"openai-chat": chat, "openai-responses": responses, "anthropic": anthropic}
