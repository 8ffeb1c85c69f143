"""What an answer of a tool says, by example: which call it is of, its output, and whether the call failed."""

from __future__ import annotations

from typing import Any

from toolgrade.calls import CallStatus
from toolgrade.formats import read


def langchain(kind: str, **data: Any) -> dict[str, Any]:
    """Return a message as LangChain's `messages_to_dict` writes it."""
    return {"type": kind, "data": {"type": kind, **data}}


def test_the_output_in_a_dump_of_langchain() -> None:
    """A tool's message has the output of its call; one without content answers without output."""
    request = {"name": "f", "args": {}}
    messages = [
        langchain("ai", content="", tool_calls=[{**request, "id": "c1"}, {**request, "id": "c2"}]),
        langchain("tool", content="two", tool_call_id="c2", name="f"),
        langchain("tool", content=None, tool_call_id="c1", name="f"),
    ]
    assert [call.output for call in read(messages).run.calls] == [None, "two"]


def test_a_failed_shell_call_has_what_it_printed_as_its_error() -> None:
    """Both streams of each command, in their order."""
    output = [{"stdout": "start", "stderr": "not allowed", "outcome": {"type": "exit", "exit_code": 1}}]
    items = [
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["rm x"]}, "status": "completed"},
        {"type": "shell_call_output", "call_id": "c1", "output": output, "status": "failed"},
    ]
    (call,) = read(items).run.calls
    assert call.execution is not None
    assert call.execution.status is CallStatus.ERROR
    assert call.execution.error == "start\nnot allowed"


def test_the_message_of_an_error_in_a_stream_is_in_the_warning() -> None:
    """Anthropic nests it under `error`, Responses has it in the event itself."""
    begun = {"type": "response.created", "response": {"id": "r1", "object": "response", "output": []}}
    broken = {"type": "error", "code": "rate_limit", "message": "slow down"}
    item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    added = {"type": "response.output_item.done", "output_index": 0, "item": item}
    warnings = read([begun, added, broken]).run.warnings
    assert any("the stream broke off with an error: 'slow down'" in text for text in warnings)
