"""The system prompt of recorded messages and traces: what each vendor calls it, and where a run has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spans import agent, chat, run_of, span, spans, tool
from toolgrade import ConversationalTestCase, Run, case_from_record
from toolgrade.cases import WholeConversation
from toolgrade.formats import Instructions, ModelMessage, UserInput, read, transcript_of
from toolgrade.verdict import run_end

Plain = dict[str, Any]

SYSTEM = {"role": "system", "content": "A1"}
CHAT = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Done."}]
CALL: Plain = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "add"}}]}
ITEM = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": {}}]}
CONTENTS = [{"role": "user", "parts": [{"text": "Go."}]}, {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}]
CONVERSE = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "add", "input": {}}}]}
OLLAMA = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {}}}]}
RESPONSE = {"object": "response", "status": "completed", "output": [ITEM]}

VENDORS: dict[str, tuple[str, Any, str | None]] = {
    "chat": ("openai-chat", [SYSTEM, CALL], "A1"),
    "chat, of the developer, in parts": (
        "openai-chat",
        [{"role": "developer", "content": [{"type": "text", "text": "A1"}]}, CALL],
        "A1",
    ),
    "chat, in its request": ("openai-chat", {"messages": [SYSTEM, CHAT[0]], "choices": [{"message": CALL}]}, "A1"),
    "chat, empty": ("openai-chat", [{"role": "system", "content": ""}, CALL], None),
    "items": ("openai-responses", [{"role": "developer", "content": "A1"}, ITEM], "A1"),
    "a response that repeats its request": (
        "openai-responses",
        {"request": {"input": "Go.", "instructions": "A1"}, "response": {**RESPONSE, "instructions": "A1"}},
        "A1",
    ),
    "a response without": ("openai-responses", {**RESPONSE, "instructions": None}, None),
    "anthropic": ("anthropic", {"system": "A1", "messages": [CHAT[0], USE]}, "A1"),
    "anthropic, in blocks": (
        "anthropic",
        {"system": [{"type": "text", "text": "A1"}, {"type": "text", "text": "B2"}], "messages": [CHAT[0], USE]},
        "A1\n\nB2",
    ),
    "anthropic, in the messages": ("anthropic", [SYSTEM, CHAT[0], USE], "A1"),
    "gemini, as REST": ("gemini", {"contents": CONTENTS, "systemInstruction": {"parts": [{"text": "A1"}]}}, "A1"),
    "gemini, as the SDK": ("gemini", {"contents": CONTENTS, "config": {"system_instruction": "A1"}}, "A1"),
    "bedrock": ("bedrock", {"system": [{"text": "A1"}, {"cachePoint": {}}], "messages": [CHAT[0], CONVERSE]}, "A1"),
    "ollama": ("ollama", [SYSTEM, CHAT[0], OLLAMA, {"role": "tool", "tool_name": "add", "content": "3"}], "A1"),
    "langchain": ("langchain", [{"type": "system", "content": "A1"}, {"type": "ai", "content": "Done."}], "A1"),
    "several texts, one of them twice": (
        "openai-chat",
        [SYSTEM, CALL, {"role": "system", "content": "B2"}, SYSTEM],
        "A1\n\nB2",
    ),
}


@pytest.mark.parametrize(("format", "value", "expected"), VENDORS.values(), ids=VENDORS)
def test_each_vendor(format: str, value: Any, expected: str | None) -> None:
    """The text is in the run, once, and is no turn and no text of the agent; there is no warning of it."""
    transcript = read(value, format=format)  # type: ignore[arg-type]

    assert transcript.run.instructions == expected
    assert len(transcript.turns) == len(transcript.conversation.exchanges) == 1
    assert not [text for text in transcript.run.warnings if "order" not in text]


def test_an_item_of_the_developer_does_not_divide_a_message_of_the_model() -> None:
    """The calls around it are of one step, as without it."""
    items = [ITEM, {"role": "developer", "content": "A1"}, {**ITEM, "call_id": "c2"}]

    assert [call.execution and call.execution.step for call in read(items).run.calls] == [0, 0]


_texts = st.text(max_size=3)
_messages = st.lists(
    st.one_of(*(st.builds(kind, _texts) for kind in (UserInput, ModelMessage, Instructions))), max_size=6
)


@given(_messages)
def test_system_prompts_change_nothing_else(messages: list[Any]) -> None:
    """Runs, turns and conversations are those of the messages without them, and all have the whole prompt."""
    prompts = [one.text for one in messages if isinstance(one, Instructions) and one.text]
    expected = "\n\n".join(dict.fromkeys(prompts)) or None
    whole = transcript_of([("$", one) for one in messages])
    bare = transcript_of([("$", one) for one in messages if not isinstance(one, Instructions)])

    update = {"instructions": expected} if expected else {}
    assert whole.run.model_dump() == bare.run.model_copy(update=update).model_dump()
    assert [run.instructions for run in whole.turns] == [expected] * len(bare.turns)
    assert whole.conversation.model_dump() == bare.conversation.model_copy(update=update).model_dump()
    assert Run.from_json(whole.run.to_json()) == whole.run
    again = ConversationalTestCase.from_json(whole.conversation.to_json())
    for case in [*again.to_test_cases(), *([again.to_test_case()] if expected else [])]:
        assert (case.run and case.run.instructions) == expected


def test_a_prompt_says_nothing_of_the_end() -> None:
    """A conversation whose prompt alone is known has an unknown end; with a status it has that."""
    transcript = read([SYSTEM, *CHAT, *CHAT])
    (case, _), whole = transcript.conversation.to_test_cases(), transcript.conversation.to_test_case()

    assert isinstance(whole, WholeConversation)
    assert case.run == whole.run == Run(calls=[], instructions="A1")
    assert run_end(case) == (None, "")
    turn = transcript.conversation.turns[1].model_copy(update={"metadata": {"status": "stopped"}})
    stopped = transcript.conversation.model_copy(update={"turns": [transcript.conversation.turns[0], turn]})
    (case,) = stopped.to_test_cases()
    assert (run_end(case)[0], case.run and case.run.instructions) == ("stopped", "A1")


RECORDS: dict[str, tuple[Plain, str | None]] = {
    "of its own": ({"query": "Go.", "tools_called": [], "instructions": "A1"}, "A1"),
    "in parts": ({"query": "Go.", "tools_called": [], "instructions": [{"type": "text", "text": "A1"}]}, "A1"),
    "of the trajectory": ({"agent_trajectory": [SYSTEM, *CHAT]}, "A1"),
    "of both": ({"agent_trajectory": [SYSTEM, *CHAT], "instructions": "B2"}, "B2"),
    "of the expected trajectory": ({"query": "Go.", "expected_agent_trajectory": [SYSTEM, *CHAT]}, None),
}


@pytest.mark.parametrize(("record", "expected"), RECORDS.values(), ids=RECORDS)
def test_records(record: Plain, expected: str | None) -> None:
    """A record has it under a key or in the trajectory; alone it says nothing of the end, and is no metadata."""
    case = case_from_record(record)

    assert (case.run and case.run.instructions, case.metadata) == (expected, {})
    assert run_end(case)[0] == ("ok" if "agent_trajectory" in record else None)


PROMPT = json.dumps([{"type": "text", "content": "A1"}, {"type": "text", "content": "B2"}])
HISTORY = json.dumps([{"role": "system", "parts": [{"type": "text", "content": "A1"}]}])
DETAILS = {"name": "gen_ai.client.inference.operation.details", "attributes": []}
TRACES: dict[str, tuple[list[Plain], str | None]] = {
    "an attribute": ([chat(1, **{"gen_ai.system_instructions": PROMPT})], "A1\n\nB2"),
    "a text": ([chat(1, **{"gen_ai.system_instructions": "A1"})], "A1"),
    "a message": ([chat(1, **{"gen_ai.input.messages": HISTORY})], "A1"),
    "indexed": ([chat(1, **{"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "A1"})], "A1"),
    "of the agent": (
        [span(1, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.system_instructions": PROMPT}), chat(2, 1)],
        "A1\n\nB2",
    ),
    "twice": ([agent(1), *(chat(n, 1, **{"gen_ai.system_instructions": "A1"}) for n in (2, 3))], "A1"),
    "of an agent inside a tool": (
        [chat(1, None, {"id": "c", "name": "add"}), tool(2), chat(3, 2, **{"gen_ai.system_instructions": "A1"})],
        None,
    ),
    "not captured": ([chat(1, **{"gen_ai.system_instructions": "<redacted>"})], None),
    "an event": (
        [
            chat(
                1,
                events=[
                    {**DETAILS, "attributes": [{"key": "gen_ai.system_instructions", "value": {"stringValue": PROMPT}}]}
                ],
            )
        ],
        "A1\n\nB2",
    ),
}


@pytest.mark.parametrize(("listed", "expected"), TRACES.values(), ids=TRACES)
def test_traces(listed: list[Plain], expected: str | None) -> None:
    """By the GenAI conventions, or as the message of the system; the prompt of an agent in a tool is not the run's."""
    assert run_of(spans(*listed)).instructions == expected
