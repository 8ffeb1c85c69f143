"""Agents of LangChain and LangGraph as an evaluation asks them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from lc_agents import add, asks, make_agent, memory, scripted

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade_langchain import as_agent

SCRIPT = {"1+2?": [asks(("add", {"a": 1}, "c1")), "three"], "really?": ["still three"], "other": ["what?"]}


def ask(agent: Any, *questions: str, name: str = "one") -> list[Run]:
    """The runs of questions in one conversation."""

    async def go() -> list[Run]:
        conversation = Conversation(name)
        return [await agent(question, conversation) for question in questions]

    return asyncio.run(go())


@pytest.mark.parametrize("keeps", [True, False], ids=["checkpointer", "none"])
def test_turns_of_a_conversation_remember(keeps: bool) -> None:
    """With a checkpointer or without one, the second turn knows the first, and has its own question and calls."""
    lengths: list[int] = []

    def script(text: str) -> Any:
        return SCRIPT[text]

    agent = make_agent(scripted_for(script, lengths), [add], **({"checkpointer": memory()} if keeps else {}))

    first, second = ask(as_agent(agent), "1+2?", "really?")

    assert [call.name for call in first.calls] == ["add"]
    assert (second.input, second.actual_output, second.calls) == ("really?", "still three", [])
    assert (first.conversation_id, second.conversation_id) == ("one", "one")
    assert lengths[-1] == 5  # the four messages of the first turn, and the new question


def scripted_for(script: Any, lengths: list[int]) -> Any:
    """Return a model that records how many messages it receives."""
    from lc_agents import ScriptedModel

    class Counting(ScriptedModel):
        def answer(self, messages: Any) -> Any:
            lengths.append(len(messages))
            return super().answer(messages)

    return Counting(script=script)


def test_conversations_are_separate() -> None:
    """A conversation sees nothing of an earlier one."""
    lengths: list[int] = []
    agent = as_agent(make_agent(scripted_for(SCRIPT, lengths), [add]))

    ask(agent, "other", name="one")
    ask(agent, "other", name="two")

    assert lengths == [1, 1]


def test_failed_agent_is_scored_on_its_calls() -> None:
    """The call before the failure is scored; the error is reported with the score."""
    agent = make_agent(scripted(asks(("add", {"a": 1}, "c1")), asks(("add", {"a": 2}, "c2")), "never"), [add])
    golden = Golden(input="hi", expected_tools=[ToolCall(name="add")])
    limited = as_agent(agent, config={"recursion_limit": 3})

    (case,) = evaluate(goldens=[golden], agent=limited, metrics=[ToolCorrectnessMetric()]).cases

    run = case.case.run
    assert run is not None
    assert len(run.calls) >= 1
    assert case.results[0].score == 1


def test_an_input_of_another_form() -> None:
    """`to_input` makes what the agent takes of the text of the user."""
    inner = scripted("done")
    agent = RunnableLambda(lambda question: inner.invoke([HumanMessage(question["question"])]))

    (run,) = ask(as_agent(agent, to_input=lambda text: {"question": text}), "hi")

    assert run.actual_output == "done"
