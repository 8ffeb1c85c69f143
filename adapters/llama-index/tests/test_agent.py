"""Agents of LlamaIndex as an evaluation asks them."""

import asyncio
import re
import sys
from typing import Any

import pytest
from li_agents import ScriptedLLM, asks
from li_versions import WORKFLOWS_2
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from pydantic import Field

from recorder_blocks import ask
from toolgrade import Approve, ConfigurationError, Golden, Reject, Run, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.testing import ScriptedModel
from toolgrade_llama_index import as_agent, record


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


# Runs that wait for a person


class Question(InputRequiredEvent):
    """Asks about an order."""

    order: int


class Decision(HumanResponseEvent):
    """Says yes or no, and to which order."""

    order: int
    allowed: bool


class Form(HumanResponseEvent):
    """What no answer fills."""

    amount: int
    account: str


class Watched(ScriptedLLM):
    """A model that keeps what it was shown."""

    shown: list[Any] = Field(default_factory=list)

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        """Answer."""
        self.shown.append(list(messages))
        return await super().astream_chat(messages, **kwargs)


def pays(kind: Any = HumanResponseEvent, **requirements: Any) -> FunctionAgent:
    """An agent that asks about two orders at once; its tool waits for an event of this class."""

    async def pay(ctx: Context, order: int) -> str:
        """Pay, if a person allows it."""
        asked = Question(order=order) if kind is not HumanResponseEvent else InputRequiredEvent(order=order, prefix="?")  # type: ignore[call-arg]
        needs = {"order": order} if requirements else None
        answer = await ctx.wait_for_event(kind, waiter_id=f"{order}", waiter_event=asked, requirements=needs)
        return f"{order}: {answer.get('response', getattr(answer, 'allowed', None))} {answer.get('reason', '')}".strip()

    steps = [asks(("pay", {"order": 1}, "c1"), ("pay", {"order": 2}, "c2")), "done", "bye"]
    return FunctionAgent(name="A", description="pays", tools=[pay], llm=Watched(script=ScriptedModel(*steps)))


class Steps(Workflow):
    """A workflow of one's own that asks in one step and is answered in another."""

    @step
    async def begin(self, ev: StartEvent) -> Question:  # noqa: ARG002 - it only begins
        """Ask."""
        return Question(order=7)

    @step
    async def end(self, ev: Decision) -> StopEvent:
        """Answer."""
        return StopEvent(result=f"{ev.order}: {ev.allowed}")


ANSWERED: dict[str, tuple[Any, Any, list[str]]] = {
    "approved": (pays, Approve(), ["1: yes", "2: yes"]),
    "rejected": (pays, Reject("why"), ["1: no why", "2: no why"]),
    "text": (pays, "maybe", ["1: maybe", "2: maybe"]),
    "requirements": (lambda: pays(order=True), Approve(), ["1: yes", "2: yes"]),
    "own-class": (lambda: pays(Decision, order=True), Reject(), ["1: False", "2: False"]),
    "own-steps": (Steps, Approve(), []),
}


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
@pytest.mark.parametrize(("make", "answer", "outputs"), ANSWERED.values(), ids=ANSWERED)
def test_an_answer_of_a_person(make: Any, answer: Any, outputs: list[str]) -> None:
    """Each call that waits gets the answer, and is made once, in the run that waited."""
    waiting, run = ask(as_agent(make()), "hi", answer)

    assert (waiting.status.value, run.status.value, run.input) == ("interrupted", "ok", "hi")
    assert [call.output for call in run.calls] == outputs
    assert run.actual_output == ("done" if outputs else "7: True")
    assert run.warnings == []


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
def test_the_turn_after_an_answer_remembers() -> None:
    """Its memory has each message of the turn that waited once, also with a context of the caller's own."""
    for options in ({}, {"ctx": lambda agent: lambda _name: Context(agent)}):
        agent = pays()
        asked = as_agent(agent, **{name: make(agent) for name, make in options.items()})

        *_, last = ask(asked, "hi", Approve(), "more")

        assert last.actual_output == "bye"
        llm: Any = agent.llm
        shown = [str(message.content) for message in llm.shown[-1]]
        assert [text for text in shown if text != "None"] == ["hi", "1: yes", "2: yes", "done", "more"]


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
@pytest.mark.parametrize(
    ("kind", "answer", "remedy"),
    [(Decision, "maybe", "must be Approve() or Reject()"), (Form, Approve(), "as_agent(agent, human=...)")],
    ids=["text-for-a-bool", "other-fields"],
)
def test_an_answer_that_does_not_fit(kind: Any, answer: Any, remedy: str) -> None:
    """The error says what to do."""
    with pytest.raises(ConfigurationError, match=re.escape(remedy)):
        ask(as_agent(pays(kind)), "hi", answer)


def test_a_context_names_the_conversation() -> None:
    """Runs that are passed one context are one conversation, named by the memory of the first one if it has a name."""

    async def go() -> list[str | None]:
        agent = make_agent("1", "2", "3", "4", "5")
        unnamed, named = Context(agent), Context(agent)
        with record() as recorder:
            for options in (
                *({"ctx": unnamed}, {"ctx": unnamed}),
                *({"ctx": named, "memory": ChatMemoryBuffer.from_defaults(chat_store_key="m")}, {"ctx": named}, {}),
            ):
                await agent.run(user_msg="hi", **options)
        return [run.conversation_id for run in recorder.runs]

    first, second, *others = asyncio.run(go())

    assert first == second is not None
    assert others == ["m", "m", None]


# Agents that do not end well


class FatalError(BaseException):
    """What no agent handles."""


def fatal() -> str:
    """End everything."""
    raise FatalError("fatal!")


def leave() -> str:
    """End the program."""
    sys.exit(1)


async def wait() -> str:
    """Take long."""
    await asyncio.sleep(600)
    return "late"


async def ask_a_person(ctx: Context) -> str:
    """Ask a person."""
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="sure?"))
    return str(answer.response)


class Failing(Workflow):
    """A workflow of one's own that fails after a call."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:  # noqa: ARG002 - it only begins
        """Add, and fail."""
        await FunctionTool.from_defaults(add).acall(a=1)
        raise PermissionError("401 invalid api key")


class NotRecorded:
    """What nothing can be recorded of."""

    def run(self, **_options: Any) -> Any:
        """Answer."""
        return asyncio.ensure_future(asyncio.sleep(0))


def calling(function: Any, **options: Any) -> FunctionAgent:
    """An agent that adds, calls this tool and is done."""
    script = ScriptedModel(ADD, asks((function.__name__, {}, "c2")), "done")
    return FunctionAgent(name="A", description="adds", tools=[add, function], llm=ScriptedLLM(script=script), **options)


ADD = asks(("add", {"a": 1}, "c1"))
ENDLESS = [asks(("add", {"a": number}, f"c{number}")) for number in range(5)]
TIMED_OUT = "WorkflowTimeoutError: Operation timed out|.*time limit"
ENDS: dict[str, tuple[Any, str, str | None, list[str] | None]] = {
    "tool-crashes": (lambda: as_agent(calling(fatal)), "error", "FatalError: fatal!", ["add", "fatal"]),
    "tool-exits": (lambda: as_agent(calling(leave)), "error", "SystemExit: 1", ["add", "leave"]),
    "limit": (
        lambda: as_agent(make_agent(*ENDLESS), max_iterations=2),
        *("stopped", "WorkflowRuntimeError: Max iterations of 2 reached", ["add", "add"]),
    ),
    "workflow-timeout": (lambda: as_agent(calling(wait, timeout=0.5)), "stopped", TIMED_OUT, ["add", "wait"]),
    "interrupted": (lambda: as_agent(calling(ask_a_person)), "interrupted", None, ["add", "ask_a_person"]),
    "own-workflow": (lambda: as_agent(Failing()), "error", "PermissionError: 401 invalid api key", ["add"]),
    "not-recorded": (lambda: as_agent(NotRecorded()), "error", "NothingRecordedError: nothing was recorded", None),
    "no-agent": (lambda: as_agent(object()), "error", "AttributeError: 'object' object has no attribute 'run'", []),
    "stream-left": (lambda: leaves_its_stream, "stopped", "not finished when the recorder was closed", None),
    "stream-cancelled": (
        lambda: cancels_its_stream,
        "stopped",
        "[cC]ancelled|WorkflowCancelledByUser|not finished when",
        None,
    ),
}


@pytest.mark.parametrize(("make", "status", "error", "calls"), ENDS.values(), ids=ENDS)
def test_an_agent_that_does_not_end_well(make: Any, status: str, error: str | None, calls: list[str] | None) -> None:
    """Its run says so in the words of the exception, and has the calls until then, where they do not depend on time."""
    if not WORKFLOWS_2 and (status == "interrupted" or (error or "").startswith(("FatalError", "SystemExit"))):
        pytest.skip("before workflows 2, a run in which a tool waits or raises a BaseException never ends")
    golden = Golden(input="hi", expected_tools=[])
    (case,) = evaluate(goldens=[golden], agent=make(), metrics=[ToolCorrectnessMetric(threshold=1)]).cases

    run = case.case.run
    assert (run.status.value, run.actual_output) == (status, None)
    assert re.match(error, run.error) if error else run.error is None
    assert calls is None or [call.name for call in run.calls] == calls


async def leaves_its_stream(question: str, _conversation: Conversation) -> Run:
    """Read the first event only."""
    with record() as recorder:
        async for _ in make_agent(ADD, "done").run(user_msg=question).stream_events():
            break
    return recorder.last_run


async def cancels_its_stream(question: str, _conversation: Conversation) -> Run:
    """Cancel the run at the first event."""
    with record() as recorder:
        handler = make_agent(ADD, "done").run(user_msg=question)
        async for _ in handler.stream_events():
            await handler.cancel_run()
            break
    return recorder.last_run
