"""Scenarios 38, 39, 43, 47, 49, 50: several runs, conversations, tokens, and what a recorder leaves behind."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

import pytest
from li_agents import add, agent, asks, play, played, search, session_memory, summaries
from li_versions import scenario
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.workflow import Context, JsonSerializer

from toolgrade_llama_index import available_tools, record, runs_from_events

MemoryOf: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]


def named_key(name: str) -> AbstractAsyncContextManager[Any]:
    """A memory with a key in a store of several chats."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000, chat_store=SimpleChatStore(), chat_store_key=name)
    return nullcontext(memory)


def nameless(_: str) -> AbstractAsyncContextManager[Any]:
    """A memory that only the program knows."""
    return nullcontext(ChatMemoryBuffer.from_defaults(token_limit=10_000))


@pytest.mark.parametrize("memory_of", [session_memory, named_key, nameless])
def test_conversations_by_memory(memory_of: MemoryOf) -> None:
    """Runs that share a memory are one conversation, with its name; each turn has only the calls of its own run."""

    async def go() -> Any:
        async with memory_of("ann") as ann, memory_of("bob") as bob:
            return await talk({"ann": ann, "bob": bob})

    async def talk(memories: dict[str, Any]) -> Any:
        workflow = agent("hi A", "hi B", asks(("add", {"a": 1, "b": 2}, "c1")), "3", "bye", tools=[add])
        with record() as rec:
            for question, name in (("ann", "ann"), ("bob", "bob"), ("1+2?", "ann"), ("bye", "bob")):
                await workflow.run(user_msg=question, memory=memories[name])
            await agent("alone").run(user_msg="alone")
            with rec.conversation("label"):
                await agent("labelled").run(user_msg="labelled", memory=memories["ann"])
        return rec

    rec = asyncio.run(go())

    cases = rec.conversations()
    texts = [[turn.content for turn in case.turns] for case in cases]
    assert texts == [["ann", "hi A", "1+2?", "3"], ["bob", "hi B", "bye", "bye"], ["alone"] * 2, ["labelled"] * 2]
    calls = [[summaries(turn.tools_called or []) for turn in case.turns if turn.role == "assistant"] for case in cases]
    assert calls == [[[], [("add", {"a": 1, "b": 2}, "c1", 3)]], [[], []], [[]], [[]]]
    ids = [case.id for case in cases]
    assert ids[2:] == [None, "label"]
    assert ids[:2] == ["ann", "bob"] if memory_of is not nameless else len({None, *ids[:2]}) == 3


@scenario("38-C", "38-E")
def test_a_context_after_a_failure(mode: str) -> None:
    """LlamaIndex hands the calls of a failed run to the next one of the same context; the record does not."""

    async def go() -> Any:
        workflow = agent(asks(("add", {"a": 1, "b": 2}, "c1")), RuntimeError("rate limit"), "again", tools=[add])
        context = Context(workflow)
        first = await play(workflow, "one", ctx=context)
        second = await play(workflow, "two", ctx=context)
        return first.run(mode), second.run(mode)

    first, second = asyncio.run(go())

    assert summaries(first.tools_called) == [("add", {"a": 1, "b": 2}, "c1", 3)]
    assert first.status.value == "error"
    assert second.tools_called == []
    assert (second.status.value, second.actual_output) == ("ok", "again")


@scenario("39")
def test_the_state_of_an_agent() -> None:
    """The recorded input is the user's text, although LlamaIndex adds the state to the model's prompt."""
    run = played(lambda: AgentWorkflow(agents=[agent("ok")], initial_state={"k": 1}), "hello").run("C")

    assert run.input == "hello"
    assert run.tools_called == []


@scenario("43-event", "43-text", "43-object", "43-dump", "43-dump_text")
def test_events_that_were_saved(mode: str) -> None:
    """Events that went through LlamaIndex's JSON give the same run; the recap in the last answer is not a request."""
    serializer = JsonSerializer()
    outcome = played(lambda: agent(asks(("add", {"a": 1, "b": 2}, "c1")), "3", tools=[add]))
    texts = [serializer.serialize(event) for event in outcome.events]
    read: dict[str, list[Any]] = {
        "event": [serializer.deserialize(text) for text in texts],
        "text": texts,
        "object": [json.loads(text) for text in texts],
        "dump": [event.model_dump() for event in outcome.events],
        "dump_text": [event.model_dump_json() for event in outcome.events],
    }

    (run,) = runs_from_events(read[mode])

    assert summaries(run.calls) == [("add", {"a": 1, "b": 2}, "c1", 3)]
    assert (run.input, run.status.value, run.actual_output) == ("hi", "ok", "3")
    assert not run.warnings


@scenario("47-C", "47-E")
def test_tokens(mode: str) -> None:
    """The tokens of all answers are summed, each once."""
    usage = [{"prompt_tokens": 11, "completion_tokens": 3}, {"prompt_tokens": 21, "completion_tokens": 4}]
    run = played(lambda: agent(asks(("add", {"a": 1, "b": 2}, "c1")), "3", tools=[add], usage=usage)).run(mode)

    assert run.usage == {"input_tokens": 32, "output_tokens": 7}


@scenario("49")
def test_the_stream_is_the_users() -> None:
    """A user who reads the stream inside `record()` receives all events; afterwards no handler is left."""
    root = get_dispatcher()
    before = list(root.span_handlers), list(root.event_handlers)

    outcome = played(lambda: agent(asks(("add", {"a": 1, "b": 2}, "c1")), "3", tools=[add]))

    assert [type(event).__name__ for event in outcome.events] == [
        *("AgentInput", "AgentStream", "AgentOutput", "ToolCall", "ToolCallResult", "AgentInput", "AgentStream"),
        *("AgentOutput", "StopEvent"),
    ]
    assert (root.span_handlers, root.event_handlers) == before


@scenario("50")
def test_the_tools_of_an_agent() -> None:
    """Name, description and JSON Schema of each offered tool, also on the run."""
    workflow = agent("hi", tools=[add, search])

    specs = asyncio.run(available_tools(workflow))
    run = asyncio.run(play(workflow)).run("C")

    assert [(spec.name, sorted((spec.input_schema or {})["properties"])) for spec in specs] == [
        ("add", ["a", "b"]),
        ("search", ["q"]),
    ]
    assert run.available_tools == specs
