"""Chunks of LangChain's streamed messages, as programs log them, read as the messages that they add up to."""

from __future__ import annotations

import copy
from functools import reduce
from operator import add
from typing import Any

import pytest

from toolgrade.formats import read

pytest.importorskip("langchain_core")

from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage, messages_to_dict

Plain = dict[str, Any]

TOKENS = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def as_model_dumps(messages: list[Any]) -> list[Plain]:
    """Return the messages in the form of `model_dump`."""
    return [message.model_dump() for message in messages]


def as_dumps(messages: list[Any]) -> list[Plain]:
    """Return the messages in the form of `dumpd`."""
    return [dumpd(message) for message in messages]


def chunks(*pieces: Plain, id: str | None = "r1") -> list[AIMessageChunk]:
    """Chunks of one streamed message."""
    return [AIMessageChunk(**{"content": "", "id": id, **piece}) for piece in pieces]


def call_piece(args: str | None, index: int = 0, **more: Any) -> Plain:
    """A chunk with a piece of a call."""
    return {"tool_call_chunks": [{"name": None, "id": None, **more, "args": args, "index": index}]}


STREAMED: dict[str, list[Plain]] = {
    "a text": [{"content": "Let me "}, {"content": "look."}],
    "arguments in pieces": [call_piece("", name="add", id="c1"), call_piece('{"a":'), call_piece(" 1}")],
    "a whole call": [{"content": "Hm."}, call_piece('{"a": 1}', name="add", id="c1")],
    "parallel calls in turns": [
        *(call_piece("", name="add", id="c1"), call_piece("", 1, name="sub", id="c2")),
        *(call_piece('{"a": 1'), call_piece('{"b": 2', 1), call_piece("}"), call_piece("}", 1)),
    ],
    "a call without arguments": [call_piece("", name="add", id="c1"), {"usage_metadata": TOKENS}],
    "blocks": [{"content": [{"type": "text", "text": text, "index": 0}]} for text in ("It ", "is.")],
}


@pytest.mark.parametrize("form", [list, as_model_dumps, messages_to_dict, as_dumps])
@pytest.mark.parametrize("pieces", STREAMED.values(), ids=STREAMED)
@pytest.mark.parametrize("id", ["r1", None])
def test_chunks_read_as_their_sum(form: Any, pieces: list[Plain], id: str | None) -> None:
    """What `stream_mode="messages"` yields: chunks of one id, or adjacent ones without an id."""
    streamed, after = (
        chunks(*pieces, id=id),
        [ToolMessage("3", tool_call_id="c1"), *chunks({"content": "Done."}, id=id and "r2")],
    )
    run, expected = read(form([*streamed, *after])).run, read([reduce(add, streamed), *after]).run

    assert [(call.name, call.arguments, call.id) for call in run.calls] == [
        (call.name, call.arguments, call.id) for call in expected.calls
    ]
    assert (run.agent_texts, run.actual_output, run.usage) == (expected.agent_texts, "Done.", expected.usage)
    assert len(run.warnings) == len(expected.warnings)


def test_half_of_the_arguments_are_invalid() -> None:
    """The stream was cut off."""
    (call,) = read(chunks(*STREAMED["arguments in pieces"][:2])).run.calls

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.requested_parameters) == ("invalid_arguments", '{"a":')


def test_pieces_of_the_call_of_a_server_tool() -> None:
    """Anthropic's arguments are in `partial_json`; nothing that was recorded changes."""
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}, "index": 0}
    deltas = [{"type": "input_json_delta", "partial_json": text, "index": 0} for text in ('{"query":', ' "Paris"}')]
    recorded = as_model_dumps(chunks(*({"content": [one]} for one in (block, *deltas))))
    before = copy.deepcopy(recorded)

    assert [(call.name, call.arguments) for call in read(recorded).run.calls] == [("web_search", {"query": "Paris"})]
    assert recorded == before


def test_a_whole_message_replaces_its_chunks() -> None:
    """Programs that log both modes of a stream have it twice."""
    pieces = chunks(*STREAMED["arguments in pieces"])
    whole = AIMessage("", id="r1", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}])

    assert len(read([*pieces, whole]).run.calls) == 1
