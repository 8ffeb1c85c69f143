"""The recorder: stored runs, sinks and cleanup, however the runs end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import Any

import pytest
from li_agents import add, agent, asks, boom, llm, play, played, search, slow, summaries
from li_versions import WORKFLOWS_2
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.selectors import PydanticSingleSelector
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel

from toolgrade.testing import AskFor
from toolgrade_llama_index import ToolCallRecorder, record

ADDED = asks(("add", {"a": 1, "b": 2}, "c1"))
ONE_CALL = [("add", {"a": 1, "b": 2}, "c1", 3)]


def adder(*, steps: Any = (ADDED, "3")) -> Any:
    """An agent that adds once."""
    return agent(*steps, tools=[add, slow, boom])


def is_empty(rec: ToolCallRecorder) -> bool:
    """Whether a recorder has no span left."""
    return not rec._watcher.tree.spans


# Where runs are recorded


def test_a_recorder_may_be_entered_again() -> None:
    """Runs of all blocks are stored; a nested recorder stays attached until the outer block ends."""

    async def go() -> ToolCallRecorder:
        rec = record()
        with rec:
            with rec:
                await adder().run(user_msg="one")
            await adder().run(user_msg="two")
        with rec:
            await adder().run(user_msg="three")
        return rec

    rec = asyncio.run(go())

    assert [run.input for run in rec.runs] == ["one", "two", "three"]


# What is left


def test_runs_that_are_not_awaited_end_with_the_block() -> None:
    """A run that is active when the block ends is recorded up to then, with a warning; no state is left."""

    async def go() -> ToolCallRecorder:
        workflow = agent(asks(("slow", {"ms": 300}, "c1")), "done", tools=[slow])
        with record() as rec:
            handler = workflow.run(user_msg="hi")
            while rec.is_idle() or not rec.last_run.select_calls(executed_only=True):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        await handler
        return rec

    rec = asyncio.run(go())

    (run,) = rec.runs
    assert run.status.value == "stopped"
    assert summaries(run.calls) == [("slow", {"ms": 300}, "c1", "cancelled")]
    assert "closed before the run ended" in run.warnings[0]
    assert is_empty(rec)


def test_failure_after_the_stream() -> None:
    """A failed run has its error, also if its stream was read to the end and the block is left at once."""

    async def go() -> ToolCallRecorder:
        with record() as rec, contextlib.suppress(Exception):
            handler = adder(steps=(ADDED, RuntimeError("rate limit"))).run(user_msg="hi")
            async for _ in handler.stream_events():
                pass
            await handler
        return rec

    run = asyncio.run(go()).last_run

    assert (run.status.value, run.error) == ("error", "RuntimeError: rate limit")
    assert not run.warnings


@pytest.mark.parametrize("way", ["well", "failed", "cancelled", "time"])
def test_no_state_is_left_when_a_run_has_ended(way: str) -> None:
    """However a run ends, its spans are removed while the recorder stays active."""

    async def go(rec: ToolCallRecorder) -> bool:
        steps: Any = {"well": (ADDED, "3"), "failed": (ADDED, RuntimeError("x"))}
        workflow = agent(*steps.get(way, (asks(("slow", {"ms": 300}, "c1")), "3")), tools=[add, slow], timeout=5)
        handler = workflow.run(user_msg="hi")
        if way == "cancelled":
            await asyncio.sleep(0.15)
            await handler.cancel_run()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await (asyncio.wait_for(handler, 0.15) if way == "time" else handler)
        await asyncio.sleep(0.5)
        return is_empty(rec)

    with record() as rec:
        empty = asyncio.run(go(rec))

    assert empty
    assert len(rec.runs) == 1
    assert not rec.runs[0].warnings


def test_agents_are_released() -> None:
    """The record of a run holds no reference to agents, models or tools."""

    async def go() -> tuple[ToolCallRecorder, Any]:
        with record() as rec:
            workflow = adder()
            await workflow.run(user_msg="hi")
        return rec, weakref.ref(workflow.llm.script)

    rec, script = asyncio.run(go())
    gc.collect()

    assert rec.runs
    assert script() is None


def test_the_id_of_the_run() -> None:
    """The run id is the framework's own if it provides one."""

    async def go() -> tuple[ToolCallRecorder, Any]:
        with record() as rec:
            handler = adder().run(user_msg="hi")
            await handler
        return rec, handler

    rec, handler = asyncio.run(go())

    assert rec.last_run.run_id
    if WORKFLOWS_2:
        assert rec.last_run.run_id == handler.run_id


# Programs of the user's own


def test_a_loop_written_by_hand() -> None:
    """Without a workflow, the steps inside `single_run` are one run; its answer is the model's last text."""

    async def go() -> ToolCallRecorder:
        model, tool = llm(ADDED, "three"), FunctionTool.from_defaults(add)
        with record() as rec, rec.single_run("1+2?"):
            messages = [ChatMessage(role="user", content="1+2?")]
            response = await model.achat_with_tools([tool], chat_history=messages)
            for selection in model.get_tool_calls_from_response(response):
                await tool.acall(**selection.tool_kwargs)
            await model.achat(messages)
        return rec

    rec = asyncio.run(go())

    (run,) = rec.runs
    assert (run.input, run.actual_output, run.status.value) == ("1+2?", "three", "ok")
    assert summaries(run.tools_called) == ONE_CALL
    assert [spec.name for spec in run.available_tools or ()] == ["add"]
    assert is_empty(rec)


def test_a_loop_that_fails() -> None:
    """The error is the run's, and the caller's as before."""
    with record() as rec, pytest.raises(ZeroDivisionError), rec.single_run("q"):
        _ = 1 / 0

    assert (rec.last_run.status.value, rec.last_run.error) == ("error", "ZeroDivisionError: division by zero")


def test_a_loop_round_which_nothing_listens() -> None:
    """A recorder that was not entered has a warning."""
    rec = record()

    with rec.single_run("q"):
        FunctionTool.from_defaults(add)(a=1, b=2)

    assert "was not entered" in rec.last_run.warnings[0]


def test_a_tool_outside_any_run() -> None:
    """A tool that runs outside a workflow is not recorded, with a warning."""
    with record() as rec:
        FunctionTool.from_defaults(add)(a=1, b=2)

    assert rec.runs == []
    assert "'add' ran outside any workflow" in rec.warnings[0]


class Outer(Workflow):
    """A program that runs an agent in one of its steps, and a tool by itself."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Run an agent, and a tool."""
        result = await agent(ADDED, "3", tools=[add], name="inner").run(user_msg="inner question")
        FunctionTool.from_defaults(search)(q="x")
        return StopEvent(result={"answer": str(result), "to": ev.get("topic")})


def test_an_agent_in_a_step() -> None:
    """An agent inside a workflow step is part of its run: its calls are top-level, and those by code are marked."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            await Outer().run(topic="sums")
        return rec

    (run,) = asyncio.run(go()).runs

    assert summaries(run.tools_called) == [*ONE_CALL, ("search", {"q": "x"}, None, "found x")]
    assert [call.execution.origin.value for call in run.calls if call.execution] == ["model", "code"]
    assert [call.name for call in run.select_calls(code=False)] == ["add"]
    assert (run.input, run.actual_output) == ("sums", '{"answer": "3", "to": "sums"}')


class Sum(BaseModel):
    """The form of an answer."""

    total: int


def test_a_program_for_structured_output() -> None:
    """The pseudo-tool of a LlamaIndex program for structured output is not a call, wherever it runs."""

    def total(text: str) -> int:
        """Read a sum."""
        program: Any = FunctionCallingProgram.from_defaults(
            output_cls=Sum, prompt_template_str="{text}", llm=llm([AskFor("Sum", {"total": 3}, "s1")])
        )
        return int(program(text=text).total)

    workflow = agent(asks(("total", {"text": "1+2"}, "c1")), "3", tools=[total])
    run = asyncio.run(play(workflow)).run("C")

    assert summaries(run.calls) == [("total", {"text": "1+2"}, "c1", 3)]
    assert run.calls[0].execution is not None
    assert not run.calls[0].execution.children


class Structured(Workflow):
    """A program that reads structured answers, and runs a tool."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Ask for a structured answer, then for a call."""
        usage = [{"prompt_tokens": 5, "completion_tokens": 2}]
        if self.way == "router":
            choice = [{"index": 0, "reason": "r"}]
            selector = PydanticSingleSelector.from_defaults(
                llm=llm([AskFor("SingleSelection", choice[0], "s1")], usage=usage)
            )
            result: Any = (await selector.aselect([ToolMetadata(description="sums", name="sums")], ev.get("query"))).ind
        elif self.way == "model":
            model = llm([AskFor("Sum", {"total": 3}, "s1")], usage=usage).as_structured_llm(Sum)
            result = (await model.achat([ChatMessage(role="user", content="1+2")])).raw.total
        else:
            program: Any = FunctionCallingProgram.from_defaults(
                output_cls=Sum,
                prompt_template_str="{text}",
                llm=llm([AskFor("Sum", {"total": 3}, "s1")], usage=usage),
            )
            result = (await program.acall(text="1+2")).total
        model, tool = llm(ADDED), FunctionTool.from_defaults(add)
        response = await model.achat_with_tools([tool], user_msg="1+2?")
        for selection in model.get_tool_calls_from_response(response):
            await tool.acall(**selection.tool_kwargs)
        return StopEvent(result=result)


@pytest.mark.parametrize("way", ["program", "router", "model"])
def test_structured_answers_are_not_calls(way: str) -> None:
    """Async programs, routers and structured models request pseudo-tools, which are no calls; their tokens count."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            await Structured(way).run(query="q")
        return rec

    run = asyncio.run(go()).last_run

    assert summaries(run.calls) == ONE_CALL
    assert [spec.name for spec in run.available_tools or ()] == ["add"]
    assert run.usage == {"input_tokens": 5, "output_tokens": 2}


def total_of(messages: list[ChatMessage]) -> dict[str, Any]:
    """Make a structured answer of the text of the last message."""
    return {"total": int(messages[-1].content or 0)}


FORMS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a class": ([[AskFor("Sum", {"total": 3}, "s1")]], {"output_cls": Sum}),
    "a function": ([], {"structured_output_fn": total_of}),
    "a workflow of agents": ([[AskFor("Sum", {"total": 3}, "s1")]], {"output_cls": Sum}),
}


@pytest.mark.parametrize("mode", ["C", "E"])
@pytest.mark.parametrize("form", FORMS)
def test_the_structured_answer_of_an_agent(form: str, mode: str) -> None:
    """It is the answer of the run, as JSON, and what carries it is not a call."""
    script, options = FORMS[form]

    def build() -> Any:
        if form != "a workflow of agents":
            return agent(ADDED, "3", *script, tools=[add], **options)
        members = [agent(ADDED, "3", *script, tools=[add])]
        return AgentWorkflow(agents=members, root_agent="A", **options)

    run = played(build).run(mode)

    assert (summaries(run.calls), run.actual_output) == (ONE_CALL, '{"total":3}')
    assert run.metadata == {"structured_response": {"total": 3}}
