"""Small valid data for every reader, to be mutated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate

MESSAGES: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Add."}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "assistant", "content": "It is 1."},
]
STREAM: list[Any] = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "add"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
PLAN = [
    {"expect": "add", "input_parameters": {"a": {"$is": "regex", "pattern": "a+"}}, "times": [1, 2]},
    {"one_of": [{"name": "b"}, [{"expect": "c", "at": {"x[0]": {"$is": "approx", "value": 1}}}]]},
    {"forbid": {"$is": "glob", "pattern": "z*"}},
]
RECORD: dict[str, Any] = {
    "query": "Add.",
    "tools_called": [{"name": "add", "args": {"a": 1}, "output": "1"}],
    "expected_tools": PLAN,
    "agent_trajectory": MESSAGES,
    "available_tools": [{"name": "add", "parameters": {"type": "object"}}],
    "metadata": {"reward": 1},
}
CALL: dict[str, Any] = {
    "name": "add",
    "type": "function",
    "description": "d",
    "reasoning": "r",
    "id": "c1",
    "input_parameters": {"a": 1},
    "output": {"x": 1},
    "execution": {
        "status": "ok",
        "executed": True,
        "attempts": 2,
        "replayed": True,
        "requested_parameters": {"a": "1"},
        "agent": "a",
        "step": 0,
        "origin": "model",
        "started_at": "2024-01-01T00:00:00Z",
        "duration": 1.5,
        "children": [{"name": "b"}],
        "not_captured": ["output"],
        "source": "t/s#p",
    },
}
CASE: dict[str, Any] = {
    "id": "i",
    "name": "n",
    "input": "q",
    "actual_output": "a",
    "expected_output": "e",
    "tools_called": [CALL],
    "expected_tools": [CALL],
    "available_tools": [{"name": "add"}],
    "tags": ["t"],
    "metadata": {"a": 1},
    "run": {
        "input": "q",
        "actual_output": "x",
        "calls": [CALL],
        "handoffs": [{"to_agent": "b", "call": 0}],
        "status": "ok",
        "usage": {"input_tokens": 1},
        "models": ["m"],
        "conversation_id": "c",
        "run_id": "r",
        "tags": ["t"],
        "started_at": "2024-01-01T00:00:00Z",
        "duration": 2.0,
        "warnings": ["w"],
    },
}
CONVERSATION: dict[str, Any] = {
    "turns": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tools_called": [CALL]}],
    "id": "i",
    "available_tools": [{"name": "add"}],
    "tags": ["a"],
    "metadata": {"a": 1},
}
GOLDEN: dict[str, Any] = {"input": "q", "id": "g", "expected_tools": [CALL], "tags": ["t"], "metadata": {"a": 1}}
STEPS: list[Any] = [
    {"name": "add", "args": {"a": 1}, "output": "1", "tool_call_id": "x"},
    {"name": "add_xg7c", "args": '{"a": 1}', "tool_call_id": "x"},
]
TOOLS: list[Any] = [
    {"name": "add", "parameters": {"type": "object"}},
    {"type": "function", "function": {"name": "b", "parameters": {}}},
    {"name": "c", "inputSchema": {}},
    {"name": "d", "input_schema": {"type": "object"}},
]
EMITTED = Path(__file__).parent / "formats" / "emitted"
TRACES: list[Any] = [
    document
    for name in ("otel-openai-spans", "langsmith-langchain", "langfuse-observe", "agents-handoff")
    for document in json.loads((EMITTED / f"{name}.json").read_text(encoding="utf-8"))["documents"]
]


def lines(*values: Any) -> bytes:
    """A file with a value on each line."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def results_of(cases: list[LLMTestCase], path: Path) -> bytes:
    """The file of results of an evaluation."""
    evaluate(cases, [ToolCorrectnessMetric()], results=path, show_progress=False)
    return path.read_bytes()


CASES = [LLMTestCase(id=f"c{number}", tools_called=[ToolCall(name="a")], expected_tools=[]) for number in range(2)]
