"""Agents of the SDK as an evaluation asks them."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent
from oa_agents import add, called, make_agent, summaries
from oa_models import Scripted

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.testing import AskFor
from toolgrade_openai_agents import as_agent


def ask(agent: Any, *questions: str) -> list[Run]:
    """The runs of questions in one conversation."""

    async def go() -> list[Run]:
        conversation = Conversation("one")
        return [await agent(question, conversation) for question in questions]

    return asyncio.run(go())


def test_turns_of_a_conversation_remember() -> None:
    """The second turn receives the items of the first and has its own question and calls."""
    model = Scripted([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", "still three")

    first, second = ask(as_agent(Agent(name="A", model=model, tools=[add])), "1+2?", "really?")

    assert summaries(first.calls) == [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert (second.input, second.actual_output, second.calls) == ("really?", "still three", [])
    assert (first.conversation_id, second.conversation_id) == ("one", "one")
    prompts = [item.get("content") for item in model.inputs[-1] if item.get("role") == "user"]
    assert prompts == ["1+2?", "really?"]


def test_conversation_continues_with_the_last_agent() -> None:
    """After a hand-off, the next turn goes to the other agent."""
    other = make_agent("I am B", "still B", name="B")
    agent = make_agent([AskFor("transfer_to_b", {}, "h1")], handoffs=[other])

    runs = ask(as_agent(agent), "hi", "who?")

    assert [run.actual_output for run in runs] == ["I am B", "still B"]


def test_conversations_are_separate() -> None:
    """A conversation sees nothing of an earlier one."""
    model = Scripted("one", "two")
    agent = as_agent(Agent(name="A", model=model))

    ask(agent, "hi")
    ask(agent, "ho")

    assert [[item["content"] for item in messages] for messages in model.inputs] == [["hi"], ["ho"]]


def test_failed_agent_is_scored_on_its_calls() -> None:
    """The call before the failure is scored; the error is reported with the score."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], RuntimeError("503"), tools=[add])
    golden = Golden(input="1+2?", expected_tools=[ToolCall(name="add")])

    (case,) = evaluate(goldens=[golden], agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).cases

    assert case.results[0].score == 1
    assert case.results[0].warnings == ("the run ended with an error: RuntimeError: 503",)


def test_options_are_those_of_the_runner() -> None:
    """A limit of turns is heeded."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", tools=[add])

    (run,) = ask(as_agent(agent, max_turns=1), "1+2?")

    assert (run.status.value, len(run.calls)) == ("stopped", 1)
