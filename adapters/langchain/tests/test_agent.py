"""Agents of LangChain and LangGraph as an evaluation asks them."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from lc_agents import ScriptedModel, add, asks, boom, make_agent, memory, react_agent, scripted
from lc_versions import FEATURES

from recorder_blocks import ask
from toolgrade import Approve, ConfigurationError, Golden, Reject, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade_langchain import as_agent, record

SCRIPT = {"1+2?": [asks(("add", {"a": 1}, "c1")), "three"], "really?": ["still three"], "other": ["what?"]}


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


# Runs that wait for a person

PAY_TWICE = [asks(("pay", {"x": 1}, "c1"), ("pay", {"x": 2}, "c2")), "done"]


@tool
def pay(x: int) -> str:
    """Pay."""
    return f"paid {x}"


@tool
def pay_if_allowed(x: int) -> str:
    """Pay, if a person allows it."""
    return f"paid {x}: {interrupt({'amount': x})}"


def plain_agent() -> Any:
    """An agent whose tools ask by themselves."""
    asked = pay_if_allowed.model_copy(update={"name": "pay"})
    return react_agent(scripted(*PAY_TWICE), ToolNode([asked]), checkpointer=memory())


def breakpoint_agent() -> Any:
    """An agent that stops before its tools."""
    return react_agent(scripted(*PAY_TWICE), ToolNode([pay]), checkpointer=memory(), interrupt_before=["tools"])


def approving_agent(**options: Any) -> Any:
    """An agent whose middleware asks."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    middleware = HumanInTheLoopMiddleware(interrupt_on={"pay": True}, **options)
    return make_agent(scripted(*PAY_TWICE), [pay], middleware=[middleware], checkpointer=memory())


ANSWERS: dict[str, tuple[Any, Any, list[Any]]] = {
    "plain-approved": (plain_agent, Approve(), ["paid 1: True", "paid 2: True"]),
    "plain-rejected": (plain_agent, Reject("why"), ["paid 1: False", "paid 2: False"]),
    "plain-text": (plain_agent, "maybe", ["paid 1: maybe", "paid 2: maybe"]),
    "breakpoint": (breakpoint_agent, Approve(), ["paid 1", "paid 2"]),
}
MIDDLEWARE = {
    "batched-approved": ({}, Approve(), ["paid 1", "paid 2"]),
    "batched-rejected": ({}, Reject("too much"), [None, None]),
    "per-call-approved": ({"interrupt_mode": "per_call"}, Approve(), ["paid 1", "paid 2"]),
    "per-call-rejected": ({"interrupt_mode": "per_call"}, Reject(), [None, None]),
}


@pytest.mark.parametrize(("make", "answer", "outputs"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_a_person(make: Any, answer: Any, outputs: list[Any]) -> None:
    """Each call that waits gets the answer, in the run that waited."""
    check_answered(as_agent(make()), answer, outputs)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="async code cannot interrupt on Python 3.10")
@pytest.mark.parametrize(("options", "answer", "outputs"), MIDDLEWARE.values(), ids=MIDDLEWARE)
def test_a_decision_for_the_middleware(options: Any, answer: Any, outputs: list[Any]) -> None:
    """One decision for each call, in both modes of the middleware; a rejected call is rejected."""
    if not FEATURES["middleware"].is_due() or (options and not FEATURES["per_call"].is_due()):
        pytest.skip("the middleware, or its mode, is newer")
    runs = check_answered(as_agent(approving_agent(**options)), answer, outputs)
    statuses = {call.execution.status.value for call in runs[1].calls if call.execution}
    assert statuses == {"ok" if isinstance(answer, Approve) else "rejected"}


@pytest.mark.parametrize("keeps", [True, False], ids=["checkpointer", "none"])
@pytest.mark.parametrize(("answer", "status"), [(Approve(), "ok"), (Reject("why"), "rejected")])
def test_an_approval_that_a_provider_asks_for(answer: Any, status: str, *, keeps: bool) -> None:
    """It is sent in the form of OpenAI, with the reason, and the run goes on."""
    call = {"name": "pay", "server_label": "bank", "arguments": "{}"}
    wants = {**call, "type": "mcp_approval_request", "id": "a1"}
    paid = {**call, "type": "mcp_call", "id": "m1", "approval_request_id": "a1", "output": "paid"}
    sent: list[Any] = []

    def script(content: Any) -> list[AIMessage]:
        if content == "hi":
            return [AIMessage([wants])]
        sent.extend(content)
        return [AIMessage([paid, "done"] if content[0]["approve"] else "done")]

    agent = react_agent(ScriptedModel(script=script), [add], checkpointer=memory() if keeps else None)
    runs = ask(as_agent(agent), "hi", answer)

    assert [run.status.value for run in runs] == ["interrupted", "ok"]
    assert [(call.name, call.execution and call.execution.status.value) for call in runs[1].calls] == [("pay", status)]
    assert (runs[1].input, runs[1].actual_output, runs[1].warnings) == ("hi", "done", [])
    reason = {"reason": "why"} if status == "rejected" else {}
    approval = {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": status == "ok"}
    assert sent == [approval | reason]


def check_answered(agent: Any, answer: Any, outputs: list[Any]) -> list[Run]:
    """Check that a run waits with its calls, and has their outputs after the answer."""
    runs = ask(agent, "hi", answer)
    assert [run.status.value for run in runs] == ["interrupted", "ok"]
    assert [(call.id, call.output) for call in runs[1].calls] == list(zip(("c1", "c2"), outputs, strict=True))
    assert (runs[1].input, runs[1].actual_output, runs[1].warnings) == ("hi", "done", [])
    return runs


def test_a_value_to_resume_with() -> None:
    """`to_resume` makes it of the answer and the value of each interrupt."""
    agent = as_agent(plain_agent(), to_resume=lambda answer, value: f"{type(answer).__name__} {value['amount']}")

    check_answered(agent, Approve(), ["paid 1: Approve 1", "paid 2: Approve 2"])


@pytest.mark.parametrize(
    ("make", "answer", "remedy"),
    [
        (breakpoint_agent, Reject("no"), "Approve() at a breakpoint"),
        (breakpoint_agent, "no", "Approve() at a breakpoint"),
        (plain_agent, None, "give a text"),
    ],
    ids=["rejected-breakpoint", "text-at-a-breakpoint", "nothing-waits"],
)
def test_an_answer_that_does_not_fit(make: Any, answer: Any, remedy: str) -> None:
    """The error says what to do, and the run still waits."""
    agent, conversation = as_agent(make()), Conversation("one")
    if answer is None:
        with pytest.raises(ConfigurationError, match=re.escape(remedy)):
            asyncio.run(agent(Approve(), conversation))
        return

    async def go() -> Run:
        await agent("hi", conversation)
        with pytest.raises(ConfigurationError, match=re.escape(remedy)):
            await agent(answer, conversation)
        return await agent(Approve(), conversation)

    assert asyncio.run(go()).status.value == "ok"


# Agents that do not end well


@tool
def leave(x: int) -> str:
    """End the program."""
    sys.exit(x)


@tool
def ask_a_person(x: int) -> str:
    """Ask a person."""
    return str(interrupt(x))


class RaisesAround:
    """What runs an agent and fails when it has ended."""

    async def ainvoke(self, inputs: Any, config: Any) -> Any:
        """Run the agent, and fail."""
        await make_agent(scripted(ADD, "done"), [add]).ainvoke(inputs, config)
        raise LookupError("no such field")


class NotRecorded:
    """What nothing can be recorded of."""

    async def ainvoke(self, inputs: Any, config: Any) -> Any:  # noqa: ARG002 - it only answers
        """Answer."""
        return {"messages": [HumanMessage("fine")]}


async def leaves_its_stream(question: str, _conversation: Conversation) -> Run:
    """Read the first event only."""
    with record() as recorder:
        async for _ in make_agent(scripted(ADD, "done"), [add]).astream({"messages": [("user", question)]}):
            break
    return recorder.last_run


def calling(name: str, *tools: Any, **options: Any) -> Any:
    """An agent that adds, calls this tool and is done."""
    model = scripted(ADD, asks((name, {"x": 1}, "c2")), "done")
    return react_agent(model, ToolNode([add, *tools], handle_tool_errors=False), **options)


ADD = asks(("add", {"a": 1}, "c1"))
ENDLESS = [asks(("add", {"a": number}, f"c{number}")) for number in range(9)]
LIMIT = "GraphRecursionError: Recursion limit of 4 reached|Sorry, need more steps"
ENDS = {
    "tool-crashes": (lambda: calling("boom", boom), "error", "ValueError: boom 1", ["add", "boom"]),
    "tool-exits": (lambda: calling("leave", leave), "error", "SystemExit: 1", ["add", "leave"]),
    "limit": (lambda: make_agent(scripted(*ENDLESS), [add]), "stopped", LIMIT, ["add", "add"]),
    "interrupted": (
        lambda: calling("ask_a_person", ask_a_person, checkpointer=memory()),
        *("interrupted", None, ["add", "ask_a_person"]),
    ),
    "raises-around-the-run": (RaisesAround, "error", "LookupError: no such field", ["add"]),
    "not-recorded": (NotRecorded, "error", "NothingRecordedError: nothing was recorded", None),
    "no-agent": (object, "error", "AttributeError: 'object' object has no attribute 'ainvoke'", None),
}


@pytest.mark.parametrize(("make", "status", "error", "calls"), ENDS.values(), ids=ENDS)
def test_an_agent_that_does_not_end_well(make: Any, status: str, error: str | None, calls: list[str] | None) -> None:
    """Its run says so in the words of the exception, and has the calls until then."""
    agent = as_agent(make(), config={"recursion_limit": 4} if error == LIMIT else None)
    check_end(agent, status, error, calls)


def test_a_stream_that_is_left() -> None:
    """The run does not look like one that ended."""
    check_end(leaves_its_stream, "stopped", "the run had not ended when it was read", ["add"])


def check_end(agent: Any, status: str, error: str | None, calls: list[str] | None) -> None:
    """Check the run that an evaluation gets of an agent."""
    golden = Golden(input="hi", expected_tools=[])
    (case,) = evaluate(goldens=[golden], agent=agent, metrics=[ToolCorrectnessMetric(threshold=1)]).cases

    case = case.case
    assert (case.run.status.value, case.run.actual_output) == (status, None)
    assert re.match(error, case.run.error) if error else case.run.error is None
    assert (None if case.tools_called is None else [call.name for call in case.tools_called]) == calls
