"""Workflows of users that send the library's `ToolCall` events and answer them with events of their own."""

# ruff: noqa: ARG002 - steps need not use the events that start them

import asyncio
import contextlib
from typing import Any

import pytest
from li_agents import add, asks, boom, llm, summaries
from li_versions import WORKFLOWS_2
from llama_index.core.agent.workflow.workflow_events import ToolCall, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, MessageRole
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from pydantic import BaseModel

from toolgrade.cases import Run
from toolgrade_llama_index import record


async def danger(ctx: Context, target: str) -> str:
    """Ask a person first."""
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=target))
    return f"{target}: {answer.response}"


class Done(Event):
    """The user's own result of a call."""

    text: str


class Own(Workflow):
    """Asks a model, sends its calls as `ToolCall` events, and collects results of its own class."""

    def __init__(self, model: Any, way: str = "own") -> None:
        super().__init__(timeout=10)
        self.model = model
        self.way = way
        self.failures = 1
        tools = [add, boom, self.flaky, danger]
        self.tools = {function.__name__: FunctionTool.from_defaults(function) for function in tools}

    def flaky(self, x: str) -> str:
        """Fail once."""
        self.failures -= 1
        if self.failures >= 0:
            raise ValueError("not yet")
        return f"now {x}"

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> ToolCall | None:
        """Ask."""
        response = await self.model.achat_with_tools(list(self.tools.values()), user_msg="go")
        selections = self.model.get_tool_calls_from_response(response)
        self.count = len(selections)
        for call in selections:
            ctx.send_event(ToolCall(tool_name=call.tool_name, tool_kwargs=call.tool_kwargs, tool_id=call.tool_id))
        return None

    @step(num_workers=4)
    async def call(self, ctx: Context, ev: ToolCall) -> Done | ToolCallResult:
        """Run one call."""
        tool = self.tools[ev.tool_name]
        arguments = {**ev.tool_kwargs, "ctx": ctx} if ev.tool_name == "danger" else ev.tool_kwargs
        for _ in range(2 if self.way == "again" else 1):
            try:
                output = await tool.acall(**arguments)
                break
            except ValueError as error:
                output = ToolOutput(
                    content=f"own text: {error}", tool_name=ev.tool_name, raw_input={}, raw_output=None, is_error=True
                )
        if self.way == "library":
            return ToolCallResult(
                tool_name=ev.tool_name,
                tool_kwargs=ev.tool_kwargs,
                tool_id=ev.tool_id,
                tool_output=output,
                return_direct=False,
            )
        return Done(text=output.content)

    @step
    async def join(self, ctx: Context, ev: Done | ToolCallResult) -> StopEvent | None:
        """Answer when all have ended."""
        kind = type(ev)
        return None if ctx.collect_events(ev, [kind] * self.count) is None else StopEvent(result="done")


def run(*steps: Any, way: str = "own", human: bool = True) -> Run:
    """Record one run."""

    async def go() -> Run:
        with record() as rec:
            handler = Own(llm(*steps), way).run(query="q")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    await asyncio.sleep(0.05)
                    if not human:
                        await handler.cancel_run()
                        break
                    handler.ctx.send_event(HumanResponseEvent(response="yes"))
            with contextlib.suppress(Exception):
                await handler
        assert not rec.warnings
        return rec.last_run

    return asyncio.run(go())


@pytest.mark.parametrize("way", ["own", "library"])
def test_results_of_another_class(way: str) -> None:
    """Output and error of each call are recorded, and equal ids stay apart."""
    recorded = run(
        asks(("add", {"a": 1, "b": 2}, "c1"), ("boom", {"x": "q"}, "c1"), ("add", {"a": 3, "b": 4}, "c1")), way=way
    )

    error = "ValueError: kaboom q"
    assert summaries(recorded.calls) == [
        ("add", {"a": 1, "b": 2}, "c1", 3),
        ("boom", {"x": "q"}, "c1", f"! {error}"),
        ("add", {"a": 3, "b": 4}, "c1", 7),
    ]
    assert {call.execution.origin.value for call in recorded.calls if call.execution} == {"model"}
    assert (recorded.status.value, recorded.actual_output) == ("ok", "done")
    assert not recorded.warnings


def test_a_step_that_runs_its_tool_again() -> None:
    """A second execution after a failure, in the same step, is another attempt."""
    recorded = run(asks(("flaky", {"x": "a"}, "c1")), way="again")

    assert summaries(recorded.calls) == [("flaky", {"x": "a"}, "c1", "now a")]
    assert recorded.calls[0].execution is not None
    assert recorded.calls[0].execution.attempts == 2
    assert recorded.calls[0].execution.children == []


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
@pytest.mark.parametrize("human", [True, False])
def test_a_call_that_waits(human: bool) -> None:
    """A call whose tool waits for a person is pending until the answer comes."""
    recorded = run(asks(("danger", {"target": "db"}, "c1"), ("add", {"a": 1, "b": 2}, "c1")), human=human)

    assert summaries(recorded.calls) == [
        ("danger", {"target": "db"}, "c1", "db: yes" if human else "pending"),
        ("add", {"a": 1, "b": 2}, "c1", 3),
    ]
    attempts = [call.execution.attempts for call in recorded.calls if call.execution]
    assert attempts == [2 if human else 1, 1]
    assert recorded.status.value == ("ok" if human else "interrupted")


class Echo(Workflow):
    """A workflow that returns what it is told to."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Return."""
        return StopEvent(result=ev.get("result", default="done"))


ASKED, ANSWERED = ChatMessage(content="q1"), ChatMessage(role=MessageRole.ASSISTANT, content="a1")
HISTORIES: dict[str, tuple[dict[str, Any], str | None]] = {
    "a text beside it": ({"input": "q2", "chat_history": [ASKED, ANSWERED]}, "q2"),
    "a message beside it": ({"query": ChatMessage(content="q2"), "chat_history": [ASKED, ANSWERED]}, "q2"),
    "a text of another name": ({"topic": "q2", "history": [ASKED, ANSWERED]}, "q2"),
    "the question at its end": ({"chat_history": [ASKED, ANSWERED, ChatMessage(content="q2")], "thread": "t"}, "q2"),
    "under another name": ({"messages": [ANSWERED, ChatMessage(content="q2")]}, "q2"),
    "as plain objects": ({"messages": [{"role": "user", "content": "q2"}, {"role": "assistant"}]}, "q2"),
    "as plain objects with parts": ({"messages": [{"role": "user", "content": [{"text": "q2"}]}]}, None),
    "without a message of the user": ({"chat_history": [ANSWERED], "thread": "t", "user": "u"}, None),
}


@pytest.mark.parametrize("scenario_id", HISTORIES)
def test_input_with_a_history(scenario_id: str) -> None:
    """The input is what the user says in this turn, not in an earlier one."""
    options, question = HISTORIES[scenario_id]

    assert recorded(Echo(), **options).input == question


class Sum(BaseModel):
    """A structured answer."""

    total: int


class Report(BaseModel):
    """A structured answer with another one."""

    title: str
    sums: list[Sum]


RESULTS: dict[str, tuple[Any, str]] = {
    "a model": (Report(title="t", sums=[Sum(total=3)]), '{"title": "t", "sums": [{"total": 3}]}'),
    "a dict with a model": ({"sum": Sum(total=3)}, '{"sum": {"total": 3}}'),
    "a message": (ChatMessage(role=MessageRole.ASSISTANT, content="three"), "three"),
    "an answer of the library": (CompletionResponse(text="three"), "three"),
}


@pytest.mark.parametrize("scenario_id", RESULTS)
def test_answer_of_a_workflow(scenario_id: str) -> None:
    """A model of the user's own is an answer in JSON, an object of LlamaIndex its text."""
    result, answer = RESULTS[scenario_id]

    assert recorded(Echo(), input="q", result=result).actual_output == answer


def recorded(workflow: Workflow, **options: Any) -> Run:
    """The run of a workflow that is started with these options."""

    async def go() -> Run:
        with record() as rec:
            await workflow.run(**options)
        return rec.last_run

    return asyncio.run(go())
