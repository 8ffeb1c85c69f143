"""Agents of LlamaIndex as an evaluation asks them."""

from __future__ import annotations

import asyncio
from typing import Any

from li_agents import ScriptedLLM, asks
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.testing import ScriptedModel
from toolgrade_llama_index import as_agent


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def make_agent(*steps: Any, lengths: list[int] | None = None) -> FunctionAgent:
    """An agent that adds."""

    class Counting(ScriptedLLM):
        async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
            if lengths is not None:
                lengths.append(len(messages))
            return await super().astream_chat(messages, **kwargs)

    return FunctionAgent(
        name="A",
        description="adds",
        tools=[FunctionTool.from_defaults(add)],
        llm=Counting(script=ScriptedModel(*steps)),
    )


def ask(agent: Any, *questions: str) -> list[Run]:
    """The runs of questions in one conversation."""

    async def go() -> list[Run]:
        conversation = Conversation("one")
        return [await agent(question, conversation) for question in questions]

    return asyncio.run(go())


def test_turns_of_a_conversation_remember() -> None:
    """The second turn knows the first, and has its own question and calls."""
    lengths: list[int] = []
    agent = make_agent(asks(("add", {"a": 1}, "c1")), "three", "still three", lengths=lengths)

    first, second = ask(as_agent(agent), "1+2?", "really?")

    assert [call.name for call in first.calls] == ["add"]
    assert (second.input, second.actual_output, second.calls) == ("really?", "still three", [])
    assert (first.conversation_id, second.conversation_id) == ("one", "one")
    assert lengths[-1] > lengths[0] + 1


def test_conversations_are_separate() -> None:
    """A conversation sees nothing of an earlier one."""
    lengths: list[int] = []
    agent = as_agent(make_agent("one", "two", lengths=lengths))

    ask(agent, "hi")
    ask(agent, "ho")

    assert lengths[0] == lengths[1]


def test_failed_agent_is_scored_on_its_calls() -> None:
    """The call before the failure is scored; the error is reported with the score."""
    agent = make_agent(asks(("add", {"a": 1}, "c1")), RuntimeError("503"))
    golden = Golden(input="1+2?", expected_tools=[ToolCall(name="add")])

    (case,) = evaluate(goldens=[golden], agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).cases

    assert case.results[0].score == 1
    assert "503" in case.results[0].warnings[0]


def test_options_are_those_of_run_case() -> None:
    """A limit of time is heeded."""

    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(5)
        return "late"

    agent = FunctionAgent(
        name="A",
        description="waits",
        tools=[FunctionTool.from_defaults(async_fn=slow)],
        llm=ScriptedLLM(script=ScriptedModel(asks(("slow", {}, "c1")), "never")),
    )

    (run,) = ask(as_agent(agent, timeout=0.2), "hi")

    assert (run.status.value, [call.name for call in run.calls]) == ("stopped", ["slow"])
