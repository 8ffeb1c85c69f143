"""Scenarios 24, 26-29, 31, 32, 34, 35, 40, 41: kinds of agents, several of them, agents in tools, own workflows."""

import asyncio
from typing import Any

import pytest
from li_agents import add, agent, asks, boom, llm, outcome, play, played, search, status_of, summaries, write
from li_versions import scenario
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool, ToolSelection
from llama_index.core.tools.calling import acall_tool_with_selection
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel

from toolgrade.testing import AskFor, HandOff
from toolgrade_llama_index import record, track


class Weather(BaseModel):
    """The form of an answer."""

    city: str
    degrees: int


def react(*steps: str, **options: Any) -> ReActAgent:
    """A ReAct agent, which writes its calls as text."""
    return ReActAgent(
        name="A", description="reacts", tools=[FunctionTool.from_defaults(add)], llm=llm(*steps), **options
    )


def without_ids(calls: Any) -> list[Any]:
    """Calls without their ids, which such agents make up."""
    assert all(call.id for call in calls)
    return [(name, arguments, outcome) for name, arguments, _, outcome in summaries(calls)]


GOOD = 'Thought: I add.\nAction: add\nAction Input: {"a": 1, "b": 2}\n'


@scenario("26-C", "26-E", needs="empty_answers")
def test_react_agent_that_is_prompted_again(mode: str) -> None:
    """Unparsable or empty text is not a call, a user turn or an answer."""
    run = played(lambda: react("Thought: I add.\nAction: add", "", GOOD, "Thought: ok\nAnswer: 3")).run(mode)

    assert without_ids(run.tools_called) == [("add", {"a": 1, "b": 2}, 3)]
    assert (run.input, *status_of(run)) == ("hi", "ok", "3")
    assert not run.warnings


@scenario("27-C", "27-E")
def test_a_react_agent_that_writes_bad_json(mode: str) -> None:
    """LlamaIndex passes `{}` on; the call has invalid arguments and their raw text."""
    written = 'Thought: t\nAction: add\nAction Input: {"a": 1 "b" 2}\n'
    run = played(lambda: react(written, "Thought: ok\nAnswer: x")).run(mode)

    (call,) = run.tools_called
    assert call.execution is not None
    assert (call.arguments, call.execution.status.value) == ({}, "invalid_arguments")
    assert call.execution.requested_parameters == '{"a": 1 "b" 2}'
    assert "missing 2 required positional arguments" in (call.execution.error or "")


@scenario("28-C", "28-E")
def test_a_react_agent_that_makes_up_an_observation(mode: str) -> None:
    """The real tool runs, and its output counts."""
    made_up = 'Thought: t\nAction: add\nAction Input: {"a": 4, "b": 4}\nObservation: 99\nThought: ok\nAnswer: 99'
    run = played(lambda: react(made_up, "Thought: ok\nAnswer: 8")).run(mode)

    assert without_ids(run.tools_called) == [("add", {"a": 4, "b": 4}, 8)]
    assert status_of(run) == ("ok", "8")


def executor(functions: dict[str, Any]) -> Any:
    """What runs the code of a CodeAct agent."""

    def execute(code: str) -> str:
        """Run code, and return what it printed."""
        printed: list[str] = []
        exec(code, {**functions, "print": lambda value: printed.append(f"{value}\n")})  # noqa: S102 - that is what such agents do
        return "".join(printed)

    return execute


def code_act(*steps: str, function: Any = add) -> CodeActAgent:
    """An agent that writes code."""
    return CodeActAgent(
        name="code_act_agent", tools=[function], llm=llm(*steps), code_execute_fn=executor({"add": function})
    )


CODE = "<execute>print(add(1, 2))</execute>"


@scenario("29-C", "29-E")
def test_an_agent_that_writes_code(mode: str) -> None:
    """The call is the execution of the code."""
    run = played(lambda: code_act(CODE, "3")).run(mode)

    assert without_ids(run.tools_called) == [("execute", {"code": "print(add(1, 2))"}, "3\n")]
    assert run.calls[0].execution is not None
    assert run.calls[0].execution.agent == "code_act_agent"
    assert run.actual_output == "3"


@scenario("29-tracked", needs="context_in_threads")
def test_functions_that_code_calls() -> None:
    """Calls made by an agent's code are recorded where the function is tracked, as children of the execution."""
    run = played(lambda: code_act(CODE, "3", function=track(add))).run("C")

    (call,) = run.calls
    assert call.execution is not None
    (child,) = call.execution.children
    assert (child.name, child.arguments, child.output) == ("add", {"a": 1, "b": 2}, 3)
    assert child.execution is not None
    assert child.execution.origin.value == "code"
    assert [each.name for each in run.select_calls(nested=True, code=False)] == ["execute"]


def team(first: Any, second: Any) -> AgentWorkflow:
    """Two agents that hand over to each other."""
    return AgentWorkflow(
        agents=[agent(*first, tools=[search], name="R"), agent(*second, tools=[write], name="W")], root_agent="R"
    )


def agents_of(run: Any) -> list[Any]:
    """The agents of the calls."""
    return [call.execution.agent for call in run.tools_called]


@scenario("31-C", "31-E")
def test_hand_off_next_to_a_call(mode: str) -> None:
    """A hand-off can be included; it then keeps the model's order."""
    run = played(lambda: team([[AskFor("search", {"q": "x"}, "c1"), HandOff("W", "h1")]], ["done"])).run(mode)

    counted = run.select_calls(handoffs=True)
    assert [(call.name, call.id) for call in counted] == [("search", "c1"), ("handoff", "h1")]
    assert counted[1].arguments == {"to_agent": "W", "reason": "r"}
    assert [call.name for call in run.tools_called] == ["search"]


@scenario("32-C", "32-E")
def test_a_hand_over_that_is_refused(mode: str) -> None:
    """A hand-off to an unknown agent is not a tool call; the refusal is its error, although LlamaIndex sees success."""
    run = played(lambda: team([[HandOff("ghost", "h1")], "me"], [])).run(mode)

    assert run.tools_called == []
    assert (run.handoffs, run.failed_handoffs) == ([], [0])
    (call,) = run.calls
    assert call.execution is not None
    assert call.execution.status.value == "error"
    assert "ghost not found" in (call.execution.error or "")
    assert status_of(run) == ("ok", "me")


@pytest.mark.parametrize("mode", ["C", "E"])
def test_handoff_to_oneself_that_is_refused(mode: str) -> None:
    """The same agent goes on after the refusal, so only LlamaIndex's text says that control did not pass."""
    factory = lambda: AgentWorkflow(  # noqa: E731 - made inside the event loop
        agents=[
            agent([HandOff("R", "h1")], "me", tools=[search], name="R", can_handoff_to=["W"]),
            agent(tools=[write], name="W"),
        ],
        root_agent="R",
    )
    run = played(factory).run(mode)

    assert (run.tools_called, run.handoffs, run.failed_handoffs) == ([], [], [0])
    assert "cannot hand off" in outcome(run.calls[0])


@pytest.mark.parametrize("mode", ["C", "E"])
@pytest.mark.parametrize("target", ["W", "X"])
def test_two_handoffs_in_one_message(target: str, mode: str) -> None:
    """Control passes to one agent; the other handoff failed, also if both name the same agent."""
    factory = lambda: AgentWorkflow(  # noqa: E731 - made inside the event loop
        agents=[
            agent([HandOff("W", "h1"), HandOff(target, "h2")], tools=[search], name="R"),
            *(agent(asks(("write", {"text": "t"}, "c1")), "done", tools=[write], name=name) for name in ("W", "X")),
        ],
        root_agent="R",
    )
    run = played(factory).run(mode)

    (handoff,), (failed,) = run.handoffs, run.failed_handoffs
    assert {handoff.call, failed} == {0, 1}
    assert handoff.to_agent == run.calls[2].execution.agent  # type: ignore[union-attr]
    assert summaries(run.tools_called) == [("write", {"text": "t"}, "c1", "wrote t")]
    assert outcome(run.calls[failed]) == "! another handoff of the same message was carried out"


@pytest.mark.parametrize("target", [None, 3, "w", ""])
@pytest.mark.parametrize("mode", ["C", "E"])
def test_handoff_to_nobody(target: Any, mode: str) -> None:
    """Any value that is not the name of an agent is refused."""
    run = played(lambda: team([asks(("handoff", {"to_agent": target, "reason": "r"}, "h1")), "me"], [])).run(mode)

    assert (run.tools_called, run.handoffs, run.failed_handoffs) == ([], [], [0])
    assert outcome(run.calls[0]).startswith(f"! Agent {target} not found")


@pytest.mark.parametrize("mode", ["C", "E"])
def test_handoff_whose_tool_raises(mode: str) -> None:
    """A handoff without the name of an agent is a failed handoff with the exception of its tool."""
    run = played(lambda: team([asks(("handoff", {"reason": "r"}, "h1")), "me"], [])).run(mode)

    assert (run.tools_called, run.handoffs, run.failed_handoffs) == ([], [], [0])
    assert "handoff() missing" in outcome(run.calls[0])
    assert status_of(run) == ("ok", "me")


@pytest.mark.parametrize("mode", ["C", "E"])
def test_handoff_at_the_limit_of_steps(mode: str) -> None:
    """A handoff that the run did not come to is a failed handoff that was not executed."""
    run = played(lambda: team([[HandOff("W", "h1")]], []), max_iterations=1).run(mode)

    assert (run.tools_called, run.handoffs, run.failed_handoffs) == ([], [], [0])
    assert outcome(run.calls[0]) == "not_executed"


@pytest.mark.parametrize("mode", ["C", "E"])
@pytest.mark.parametrize("alone", [True, False])
def test_agent_without_the_handoff_tool(alone: bool, mode: str) -> None:
    """Where no agent can be reached there is no such tool, so the call is one of an unknown tool."""
    steps = [HandOff("W", "h1")], "me"
    if alone:
        run = played(lambda: agent(*steps, tools=[search], name="R")).run(mode)
    else:
        members = [(steps, "R"), ((), "W")]
        run = played(
            lambda: AgentWorkflow(
                agents=[agent(*script, tools=[search], name=name, can_handoff_to=[]) for script, name in members],
                root_agent="R",
            )
        ).run(mode)

    assert (run.handoffs, run.failed_handoffs) == ([], [])
    assert outcome(run.tools_called[0]).startswith("unknown_tool")


def asks_another(*, forward: bool) -> Any:
    """An agent with another one for a tool, which may pass the other's events on."""
    inner = agent(asks(("search", {"q": "z"}, "i1")), "sub says", tools=[search], name="sub")

    async def ask_sub(ctx: Context, q: str) -> str:
        """Ask."""
        handler = inner.run(user_msg=q)
        if forward:
            async for event in handler.stream_events():
                if not isinstance(event, StopEvent):
                    ctx.write_event_to_stream(event)
        return str(await handler)

    return agent(asks(("ask_sub", {"q": "hey"}, "o1")), "done", tools=[ask_sub])


@scenario("35-C", "35-E")
def test_an_agent_in_a_tool_whose_events_are_passed_on(mode: str) -> None:
    """Events of the inner agent come unlabelled between those of the outer one; they are inside the running call."""
    run = played(lambda: asks_another(forward=True)).run(mode)

    assert summaries(run.tools_called) == [("ask_sub", {"q": "hey"}, "o1", "sub says")]
    assert [call.name for call in run.select_calls(nested=True)] == ["ask_sub", "search"]
    assert agents_of(run) == ["A"]
    assert run.actual_output == "done"
    assert not run.warnings


class ByHand(Workflow):
    """An agent written by hand."""

    def __init__(self, model: Any, way: str) -> None:
        """Take a model, and how tools are called."""
        super().__init__()
        self.model = model
        self.way = way
        self.tools = [FunctionTool.from_defaults(add), FunctionTool.from_defaults(boom)]

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Ask the model, and call what it asks for."""
        messages = [ChatMessage(role="user", content=ev.get("query"))]
        response = await self.model.achat_with_tools(self.tools, chat_history=messages)
        for selection in self.model.get_tool_calls_from_response(response):
            await self.call(selection)
        answer = await self.model.achat(messages)
        return StopEvent(result=answer.message.content)

    async def call(self, selection: ToolSelection) -> None:
        """Call a tool."""
        (tool,) = [tool for tool in self.tools if tool.metadata.name == selection.tool_name]
        try:
            if self.way == "acall":
                await tool.acall(**selection.tool_kwargs)
            elif self.way == "call":
                tool(**selection.tool_kwargs)
            else:
                await acall_tool_with_selection(selection, self.tools)
        except ValueError:
            pass


@scenario("40-acall", "40-call", "40-selection")
def test_a_workflow_written_by_hand(mode: str) -> None:
    """Calls that a model asked for and a step ran are those of the model, with its ids, however they were run."""

    async def go() -> Any:
        model = llm(asks(("add", {"a": 1, "b": 2}, "c1"), ("boom", {"x": "q"}, "c2")), "done")
        with record() as rec:
            result = await ByHand(model, mode).run(query="what?")
        assert result == "done"
        return rec

    rec = asyncio.run(go())
    (run,) = rec.runs

    assert summaries(run.tools_called) == [
        ("add", {"a": 1, "b": 2}, "c1", 3),
        ("boom", {"x": "q"}, "c2", "! ValueError: kaboom q"),
    ]
    assert [call.execution.origin.value for call in run.calls if call.execution] == ["model", "model"]
    assert agents_of(run) == [None, None]
    assert (run.input, *status_of(run)) == ("what?", "ok", "done")
    assert not rec.warnings
    assert not run.warnings


@scenario("41")
def test_a_tool_that_calls_a_tool() -> None:
    """The inner call is the outer one's child."""
    inner = FunctionTool.from_defaults(add, name="inner_add")

    async def outer(n: int) -> int:
        """Add to itself."""
        return int((await inner.acall(a=n, b=n)).raw_output)

    run = asyncio.run(play(agent(asks(("outer", {"n": 2}, "c1")), "4", tools=[outer]))).run("C")

    assert summaries(run.tools_called) == [("outer", {"n": 2}, "c1", 4)]
    nested = run.select_calls(nested=True)
    assert [(call.name, call.arguments) for call in nested] == [("outer", {"n": 2}), ("inner_add", {"a": 2, "b": 2})]


class Side(Workflow):
    """A program that runs two agents concurrently."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Run them."""
        agents = [
            agent(
                asks(("search", {"q": f"{n}"}, "same")),
                [AskFor("nope", {}, "u1")],
                f"{n}",
                tools=[search],
                name=f"a{n}",
            )
            for n in (1, 2)
        ]
        await asyncio.gather(*(one.run(user_msg=f"{n}") for n, one in enumerate(agents)))
        return StopEvent(result=ev.get("query"))
