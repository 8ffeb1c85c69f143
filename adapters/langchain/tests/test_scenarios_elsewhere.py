"""Threads that go on under another recorder, from an earlier checkpoint, or after somebody changed their state."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt
from lc_agents import ScriptedModel, add, asks, called, make_agent, memory, react_agent, scripted, summaries, thread
from lc_versions import FEATURES

from toolgrade import RunStatus
from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder

GO = {"messages": [("user", "go")]}
T = thread("T")
IS_NEW_AGENT = FEATURES["middleware"].is_due()
WITH_MIDDLEWARE = [*(["batched"] if IS_NEW_AGENT else []), *(["per_call"] if FEATURES["per_call"].is_due() else [])]
needs_middleware = pytest.mark.skipif(not IS_NEW_AGENT, reason="middleware came with langchain 1.0")
ROUNDS = [
    asks(("look", {"x": 1}, "a"), ("pay", {"x": 2}, "b")),
    asks(("look", {"x": 3}, "a"), ("pay", {"x": 4}, "b")),  # the ids of the first round again
    asks(("pay", {"x": 5}, "a"), ("look", {"x": 6}, "b")),
    "done",
]


@tool
def look(x: int) -> str:
    """Look."""
    return f"look {x}"


@tool
def pay(x: int) -> str:
    """Pay."""
    return f"pay {x}"


@tool("pay")
def pay_if_allowed(x: int) -> str:
    """Pay, when a person allows it."""
    return f"pay {x}{interrupt(x)}"


def agent(kind: str = "before", rounds: Any = ROUNDS, **options: Any) -> Any:
    """Return an agent that waits in each round: before its tools, after its model, in a tool or in a middleware."""
    if kind == "before":
        options["interrupt_before"] = ["tools"]
    elif kind == "after":
        options["interrupt_after"] = ["agent"]
    elif kind in ("batched", "per_call"):
        from langchain.agents.middleware import HumanInTheLoopMiddleware

        mode = {"interrupt_mode": kind} if kind == "per_call" else {}
        options["middleware"] = [HumanInTheLoopMiddleware(interrupt_on={"pay": True}, **mode)]
    make = make_agent if "middleware" in options else react_agent
    return make(
        scripted(*rounds), [look, pay_if_allowed if kind == "tool" else pay], **{"checkpointer": memory(), **options}
    )


def answers(graph: Any, kind: str, amount: int = 9) -> Any:
    """Return what the graph is to go on with: an approval of so many of its interruptions."""
    if kind in ("before", "after"):
        return None
    approval = {"type": "approve"}
    value = {"batched": {"decisions": [approval]}, "per_call": approval}.get(kind, "")
    waits = [one for task in graph.get_state(T).tasks for one in task.interrupts if not task.result]
    return Command(resume={getattr(one, "id", None) or one.interrupt_id: value for one in waits[:amount]})


def play(graph: Any, mode: str, inputs: Any, recorder: ToolCallRecorder) -> None:
    """Run a graph in its thread."""
    if mode == "async" and sys.version_info < (3, 11):
        pytest.skip("LangGraph has no context before Python 3.11 in which asynchronous code could wait")
    if mode == "async":
        asyncio.run(graph.ainvoke(inputs, thread("T", recorder)))
    elif mode == "stream":
        list(graph.stream(inputs, thread("T", recorder)))
    else:
        graph.invoke(inputs, thread("T", recorder))


def state_of(run: Run) -> tuple[Any, ...]:
    """Return the calls of a run, with what became of each and its step, and how the run ended."""
    calls = [(call.arguments["x"], call.execution.status.value, call.execution.step) for call in run.calls]  # type: ignore[union-attr]
    assert run.warnings == []
    assert {call.execution.origin.value for call in run.calls if call.execution} <= {"model"}
    return calls, run.status.value, run.input, run.actual_output


@pytest.mark.parametrize("mode", ["sync", "async", "stream"])
@pytest.mark.parametrize("kind", ["before", "after", "tool", *WITH_MIDDLEWARE])
def test_thread_that_waits_three_times(kind: str, mode: str) -> None:
    """The second recorder begins at the second wait: one run, with the rounds before it, in the model's order."""
    graph, first, second = agent(kind), ToolCallRecorder(), ToolCallRecorder()
    play(graph, mode, GO, first)
    play(graph, mode, answers(graph, kind), first)
    play(graph, mode, answers(graph, kind), second)
    waiting = second.run
    play(graph, mode, answers(graph, kind), second)

    assert (len(first.runs), len(second.runs)) == (1, 1)
    done = [(1, "ok", 0), (2, "ok", 0), (3, "ok", 1), (4, "ok", 1)]
    other = "ok" if kind in ("tool", "per_call") else "pending"
    assert state_of(waiting) == ([*done, (5, "pending", 2), (6, other, 2)], "interrupted", "go", None)
    assert state_of(second.run) == ([*done, (5, "ok", 2), (6, "ok", 2)], "ok", "go", "done")
    assert [call.output for call in second.run.calls] == [
        *("look 1", "pay 2", "look 3", "pay 4", "pay 5", "look 6"),
    ]
    assert all(call.execution.executed for call in second.run.calls[3:] if call.execution)


@pytest.mark.parametrize("kind", ["tool", *WITH_MIDDLEWARE])
def test_agent_in_a_tool_that_waits(kind: str) -> None:
    """An agent in a tool waits twice: its rounds that were recorded elsewhere are inside the tool."""
    inner = agent(kind, [*ROUNDS[:2], "inner"], checkpointer=None)

    @tool
    def ask(x: str) -> str:
        """Ask an agent."""
        return str(inner.invoke({"messages": [("user", x)]})["messages"][-1].content)

    outer = make_agent(scripted(asks(("ask", {"x": "?"}, "a")), "done"), [ask], checkpointer=memory())
    outer.invoke(GO, thread("T", ToolCallRecorder()))
    outer.invoke(answers(outer, kind), thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    outer.invoke(answers(outer, kind), thread("T", recorder))

    assert state_of(recorder.run) == ([("?", "ok", 0)], "ok", "go", "done")
    (call,) = recorder.run.calls
    assert [(child.output, child.execution.step) for child in call.execution.children if child.execution] == [  # type: ignore[union-attr]
        *(("look 1", 0), ("pay 2", 0), ("look 3", 1), ("pay 4", 1)),
    ]


@pytest.mark.parametrize("place", ["top", "tool"])
def test_parallel_calls_that_were_answered_elsewhere(place: str) -> None:
    """Of three calls that wait, one goes on under each recorder; what has run and what still waits is known."""
    calls = [("pay", {"x": x}, f"c{x}") for x in (1, 2, 3)]
    graph = agent("tool", [asks(*calls), "done"])
    if place == "tool":
        if not IS_NEW_AGENT:
            pytest.skip("LangGraph before 1.0 runs the calls of a nested graph again that ran before")
        inner = agent("tool", [asks(*calls), "inner"], checkpointer=None)

        @tool
        def ask(x: str) -> str:
            """Ask an agent."""
            return str(inner.invoke({"messages": [("user", x)]})["messages"][-1].content)

        graph = react_agent(scripted(asks(("ask", {"x": "?"}, "a")), "done"), [ask], checkpointer=memory())
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    statuses = []
    for _ in calls:
        recorder = ToolCallRecorder()
        graph.invoke(answers(graph, "tool", 1), thread("T", recorder))
        top = recorder.run.calls
        nested = top if place == "top" else top[0].execution.children  # type: ignore[union-attr]
        statuses.append(sorted(call.execution.status.value for call in nested if call.execution))

    assert statuses == [["ok", "pending", "pending"], ["ok", "ok", "pending"], ["ok", "ok", "ok"]]
    assert (recorder.run.status, recorder.run.warnings) == (RunStatus.OK, [])


@needs_middleware
def test_what_became_of_calls_elsewhere() -> None:
    """A call that was rejected, one of a tool that failed and one of a missing tool keep their statuses."""

    @tool
    def fail(x: int) -> str:
        """Fail."""
        raise ValueError(x)

    from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call

    @wrap_tool_call
    def answer(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError:
            return ToolMessage("failed", tool_call_id=request.tool_call["id"], status="error")

    rounds = [asks(("pay", {"x": 1}, "a"), ("fail", {"x": 2}, "b"), ("nope", {"x": 3}, "c")), ROUNDS[0], "done"]
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"pay": True}), answer]
    graph = make_agent(scripted(*rounds), [look, pay, fail], middleware=middleware, checkpointer=memory())
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    graph.invoke(Command(resume={"decisions": [{"type": "reject"}]}), thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(answers(graph, "batched"), thread("T", recorder))

    calls, status, *_ = state_of(recorder.run)
    statuses = {x: status for x, status, step in calls if step == 0}
    assert (statuses, status) == ({1: "rejected", 2: "error", 3: "unknown_tool"}, "ok")


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("place", ["same", "other", "same, waits"])
def test_fork(place: str, *, edited: bool) -> None:
    """A run from an earlier checkpoint has its own calls, after those that it continues; the earlier run stays."""
    recorder = ToolCallRecorder()
    rounds = [asks(("look", {"x": x}, f"c{x}")) for x in (1, 2, 3)]
    graph = agent("before", [*rounds, "done"])
    for inputs in (GO, None, None, *([] if "waits" in place else [None])):
        graph.invoke(inputs, thread("T", recorder))
    earlier = recorder.runs
    recorder = recorder if "same" in place else ToolCallRecorder()
    states = [state for state in graph.get_state_history(T) if state.next == ("tools",)]
    start = next(state for state in states if state.values["messages"][-1].tool_calls[0]["id"] == "c2")
    config = start.config
    if edited:
        message = start.values["messages"][-1].model_copy(deep=True)
        message.tool_calls[0]["args"] = {"x": 20}
        config = graph.update_state(config, {"messages": [message]}, as_node="agent")
        if not graph.get_state(config).next:
            pytest.skip("LangGraph 1.0.0 takes the old results into a changed checkpoint")
    graph.invoke(None, {**config, "callbacks": [recorder]})

    assert recorder.runs[:-1] == (earlier if "same" in place else [])
    calls = [(1, "ok", 0), (20 if edited else 2, "ok", 1), (3, "pending", 2)]
    assert state_of(recorder.run) == (calls, "interrupted", "go", None)


CHANGES = {
    "ends": ("agent", lambda message: [RemoveMessage(id=message.id), AIMessage("stop")], []),
    "asks again": ("tools", lambda message: [RemoveMessage(id=message.id)], [(2, "ok", 2)]),
    "answers": ("tools", lambda _: [ToolMessage("by hand", tool_call_id="c2")], []),
    "shortens": (
        "agent",
        lambda message: [message.model_copy(update={"tool_calls": message.tool_calls[1:]})],
        [],
    ),
    "replaces": (
        "agent",
        lambda message: [asks(("look", {"x": 4}, "c4")).model_copy(update={"id": message.id})],
        [(4, "ok", 2)],
    ),
}


@pytest.mark.parametrize("kind", ["before", "tool"])
@pytest.mark.parametrize("change", CHANGES)
def test_state_that_somebody_changed(change: str, kind: str) -> None:
    """A waiting call that is removed or answered waits no more, and the run goes on in place."""
    name = "pay" if kind == "tool" else "look"
    rounds = [asks(("look", {"x": 1}, "c1")), asks((name, {"x": 2}, "c2"), (name, {"x": 3}, "c3")), "done"]
    if change in ("asks again", "answers"):
        rounds[1] = asks((name, {"x": 2}, "c2"))
    graph, recorder = agent(kind, rounds), ToolCallRecorder()
    for inputs in (GO, None) if kind == "before" else (GO,):
        graph.invoke(inputs, thread("T", recorder))
    node, messages, new = CHANGES[change]
    message = next(item for item in reversed(graph.get_state(T).values["messages"]) if isinstance(item, AIMessage))
    graph.update_state(T, {"messages": messages(message)}, as_node=node)
    graph.invoke(None, thread("T", recorder))
    while graph.get_state(T).next:
        graph.invoke(answers(graph, kind), thread("T", recorder))

    assert len(recorder.runs) == 1
    calls, status, _, answer = state_of(recorder.run)
    assert (status, answer) == ("ok", "stop" if change == "ends" else "done")
    assert calls[0] == (1, "ok", 0)
    second = {"answers": "ok"}.get(change, "not_executed" if kind == "before" else "cancelled")
    assert calls[1] == (2, second, 1)
    assert [call for call in calls if call[2] == 2] == new


def test_calls_that_a_person_answers_with_a_message() -> None:
    """Somebody answers a call that waits, and adds a message: under the next recorder, the call is still there."""
    model = ScriptedModel(script={"go": [asks(("look", {"x": 1}, "a"))], "Be brief.": ["done"]})
    graph = react_agent(model, [look], checkpointer=memory(), interrupt_before=["tools"])
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    messages = [ToolMessage("by hand", tool_call_id="a"), HumanMessage("Be brief.")]
    graph.update_state(T, {"messages": messages}, as_node="tools")
    recorder = ToolCallRecorder()
    graph.invoke(None, thread("T", recorder))

    assert [(call.output, call.execution.executed) for call in recorder.run.calls if call.execution] == [
        ("by hand", False)
    ]
    assert recorder.run.warnings == []


@needs_middleware
def test_one_of_two_waiting_calls_is_removed() -> None:
    """Of two calls that wait inside their tools, one is removed; the run waits for the other one only."""
    graph, recorder = agent("tool", [asks(("pay", {"x": 1}, "a"), ("pay", {"x": 2}, "b")), "done"]), ToolCallRecorder()
    graph.invoke(GO, thread("T", recorder))
    message = graph.get_state(T).values["messages"][-1]
    shorter = asks(("pay", {"x": 2}, "b")).model_copy(update={"id": message.id})
    graph.update_state(T, {"messages": [shorter]}, as_node="agent")
    graph.invoke(None, thread("T", recorder))

    assert state_of(recorder.run)[:2] == ([(1, "cancelled", 0), (2, "pending", 0)], "interrupted")


def test_waiting_call_is_edited_after_one_of_the_same_id() -> None:
    """A call that waits in its tool is edited; one with its id ran under another recorder, and is not run again."""
    model = scripted(asks(("pay", {"x": 1}, "a")), asks(("pay", {"x": 2}, "a")), "done")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([pay_if_allowed]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", lambda state: [Send("tools", state["messages"][-1].tool_calls)], ["tools"])
    graph.add_edge("tools", "agent")
    graph = graph.compile(checkpointer=memory())
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    graph.invoke(answers(graph, "tool"), thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(None, thread("T", recorder))
    message = graph.get_state(T).values["messages"][-1].model_copy(deep=True)
    message.tool_calls[0]["args"] = {"x": 20}
    graph.update_state(T, {"messages": [message]}, as_node="agent")
    graph.invoke(None, thread("T", recorder))

    assert state_of(recorder.run)[:2] == ([(1, "ok", 0), (20, "pending", 1)], "interrupted")


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"interrupt_after": ["tools"]}, "sync"),
        ({"interrupt_after": ["tools"]}, "async"),
        ({"interrupt_before": ["agent"]}, "sync"),
    ],
    ids=str,
)
def test_breakpoint_where_no_call_waits(options: dict[str, Any], mode: str) -> None:
    """A graph that stops between its tools and its model waits, and goes on as the same run."""
    recorder, statuses = ToolCallRecorder(), []
    graph = agent("", [asks(("look", {"x": 1}, "a")), asks(("look", {"x": 2}, "a")), "done"], **options)
    inputs: Any = GO
    while inputs or graph.get_state(T).next:
        play(graph, mode, inputs, recorder)
        statuses.append(recorder.run.status)
        inputs = None

    assert set(statuses[:-1]) == {RunStatus.INTERRUPTED}
    assert [state_of(run) for run in recorder.runs] == [([(1, "ok", 0), (2, "ok", 1)], "ok", "go", "done")]


def test_one_of_two_branches_goes_on() -> None:
    """Of two agents in one graph that wait, one goes on: the other one still waits."""
    graph: Any = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, agent("tool", [asks(("pay", {"x": 1}, name)), "done"], checkpointer=None, name=name))
        graph.add_edge(START, name)
    graph, recorder = graph.compile(checkpointer=memory()), ToolCallRecorder()
    graph.invoke(GO, thread("T", recorder))
    graph.invoke(answers(graph, "tool", 1), thread("T", recorder))

    (run,) = recorder.runs
    statuses = {call.id: call.execution.status.value for call in run.calls if call.execution}
    assert (statuses, run.status.value) == ({"first": "ok", "second": "pending"}, "interrupted")


def test_agents_that_were_asked_other_things() -> None:
    """Of three agents that wait, each with a question of its own, one is done: the question is still the user's."""
    scripts: Any = {str(x): [asks(("pay", {"x": x}, "a")), f"paid {x}"] for x in (1, 2, 3)}
    worker = react_agent(ScriptedModel(script=scripts), [pay_if_allowed])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("plan", lambda _: {"messages": [asks(("look", {"x": 7}, "p")), ToolMessage("7", tool_call_id="p")]})
    graph.add_node("worker", worker)
    graph.add_edge(START, "plan")
    sends = [Send("worker", {"messages": [("user", x)]}) for x in scripts]
    graph.add_conditional_edges("plan", lambda _: sends, ["worker"])
    graph = graph.compile(checkpointer=memory())
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    graph.invoke(answers(graph, "tool", 1), thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(answers(graph, "tool"), thread("T", recorder))

    calls, status, question, _ = state_of(recorder.run)
    assert (sorted(x for x, _, _ in calls), status, question) == ([1, 2, 3, 7], "ok", "go")


def test_branches_that_go_on_with_equal_messages() -> None:
    """Two branches wait for equal calls, in messages of a provider, which receive ids only in the state."""
    call = {"id": "a", "type": "function", "function": {"name": "pay", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    graph: Any = StateGraph(MessagesState)
    for name in ("first", "second"):
        branch: Any = StateGraph(MessagesState)
        branch.add_node("model", lambda _: {"messages": [message]})
        branch.add_node("tools", ToolNode([pay_if_allowed]))
        branch.add_edge(START, "model")
        branch.add_edge("model", "tools")
        graph.add_node(name, branch.compile())
        graph.add_edge(START, name)
    graph, recorder = graph.compile(checkpointer=memory()), ToolCallRecorder()
    graph.invoke(GO, thread("T", recorder))
    graph.invoke(answers(graph, "tool", 1), thread("T", recorder))
    statuses = [call.execution.status.value for call in recorder.run.calls if call.execution]
    graph.invoke(answers(graph, "tool"), thread("T", recorder))

    assert sorted(statuses) == ["ok", "pending"]
    assert [call.execution.status.value for call in recorder.run.calls if call.execution] == ["ok", "ok"]


def nesting(kind: str) -> Any:
    """Return a graph that waits before or in a nested graph, in which messages of the graph around it are shown."""
    inner: Any = StateGraph(MessagesState)
    if kind == "executes":
        inner.add_node("only", ToolNode([look]))
    else:
        inner.add_node("only", lambda _: interrupt("?") and {})
    inner.add_edge(START, "only")
    nested = inner.compile(checkpointer=True if kind == "own memory" else None)
    if kind == "agent":
        nested = react_agent(scripted("", asks(("look", {"x": 2}, "a")), "inner"), [look])
    model = scripted(asks(("look", {"x": 1}, "a")), "", "", "done")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([look]))
    graph.add_node("nested", (lambda state: nested.invoke(state) and {}) if kind == "called" else nested)
    first, second = {"agent": ("tools", "nested"), "executes": ("nested", END)}.get(kind, ("nested", "tools"))
    graph.add_edge(START, "model")
    graph.add_edge("model", first)
    if second != END:
        graph.add_edge(first, second)
    graph.add_edge(second if second != END else first, END)
    return graph.compile(checkpointer=memory(), interrupt_before=["nested"] if kind in ("agent", "executes") else [])


@pytest.mark.parametrize("mode", ["sync", "async", "fork"])
@pytest.mark.parametrize("kind", ["waits", "own memory", "called", "executes", "agent"])
def test_nested_graph_that_goes_on(kind: str, mode: str) -> None:
    """A call that a nested graph is shown is one call, that of the graph around it."""
    graph, recorder, is_fork = nesting(kind), ToolCallRecorder(), mode == "fork"
    goes_on = None if kind in ("agent", "executes") else Command(resume="yes")
    play(graph, mode, GO, recorder)
    if is_fork:
        start = graph.get_state(T)
        play(graph, mode, goes_on, recorder)
        graph.invoke(goes_on, {**start.config, "callbacks": [recorder]})
    else:
        recorder = ToolCallRecorder()
        play(graph, mode, goes_on, recorder)

    calls = [(1, "ok", 0), (2, "ok", 1)] if kind == "agent" else [(1, "ok", 0)]
    assert len(recorder.runs) == 1 + is_fork
    assert state_of(recorder.run)[0] == calls


@pytest.mark.skipif(not FEATURES["marked_agents"].is_due(), reason=FEATURES["marked_agents"].why)
@pytest.mark.parametrize("has_history", [False, True])
def test_guard_that_waits(*, has_history: bool) -> None:
    """An agent of a middleware waits: its call is one under the next recorder, and those that it was given are none."""
    from langchain.agents.middleware import wrap_tool_call

    history = [asks(("look", {"x": 7}, "a")), ToolMessage("look 7", tool_call_id="a")] if has_history else []
    script = [*[""] * bool(has_history), asks(("pay", {"x": 2}, "a")), "fine"]
    guard = react_agent(scripted(*script), [pay_if_allowed])

    @wrap_tool_call
    def check(request: Any, handler: Any) -> Any:
        guard.invoke({"messages": [("user", "check"), *history]})
        return handler(request)

    graph = make_agent(
        scripted(asks(("look", {"x": 1}, "a")), "done"), [look], middleware=[check], checkpointer=memory()
    )
    graph.invoke(GO, thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(Command(resume=""), thread("T", recorder))

    (inner,) = recorder.inner_runs
    assert state_of(inner)[:3] == ([(2, "ok", 0)], "ok", "check")
    assert state_of(recorder.run)[:2] == ([(1, "ok", 0)], "ok")


@pytest.mark.parametrize(("kind", "is_async"), [("before", False), ("tool", False), ("tool", True)])
def test_stream_that_is_left_when_it_waits(kind: str, *, is_async: bool) -> None:
    """A stream that is left at the chunk that says that the graph waits is a run that waits, and goes on."""
    if is_async and sys.version_info < (3, 11):
        pytest.skip("LangGraph has no context before Python 3.11 in which asynchronous code could wait")
    graph, recorder = agent(kind, [asks(("pay", {"x": 1}, "a")), "done"]), ToolCallRecorder()

    async def leave() -> None:
        stream = graph.astream(GO, thread("T", recorder))
        async for chunk in stream:
            if "__interrupt__" in chunk:
                break
        await stream.aclose()

    if is_async:
        asyncio.run(leave())
    else:
        stream = graph.stream(GO, thread("T", recorder))
        next(chunk for chunk in stream if "__interrupt__" in chunk)
        stream.close()
    waiting = recorder.run
    graph.invoke(answers(graph, kind), thread("T", recorder))

    assert state_of(waiting)[:2] == ([(1, "pending", 0)], "interrupted")
    assert [state_of(run)[:2] for run in recorder.runs] == [([(1, "ok", 0)], "ok")]


@pytest.mark.parametrize("recorders", ["aaa", "abb", "aab", "abc"])
def test_functions_that_wait(recorders: str) -> None:
    """What functions with `@task` returned under another recorder shows which calls the model requested."""
    model = scripted(*ROUNDS[:2], "done")

    @task
    def ask(messages: list[Any]) -> AIMessage:
        return model.invoke(messages)

    @task
    def run(call: Any) -> ToolMessage:
        return {"look": look, "pay": pay}[call["name"]].invoke(call)

    @entrypoint(checkpointer=memory())
    def agent_of_functions(messages: list[Any]) -> str:
        answer = ask(messages).result()
        while answer.tool_calls:
            interrupt("?")
            messages = [*messages, answer, *[run(call).result() for call in answer.tool_calls]]
            answer = ask(messages).result()
        return str(answer.content)

    by_name = {name: ToolCallRecorder() for name in recorders}
    for name, inputs in zip(recorders, ([HumanMessage("go")], Command(resume="a"), Command(resume="b")), strict=True):
        agent_of_functions.invoke(inputs, thread("T", by_name[name]))

    calls = [(1, "ok", 0), (2, "ok", 0), (3, "ok", 1), (4, "ok", 1)]
    (last,) = by_name[recorders[-1]].runs
    assert state_of(last) == (calls, "ok", "go", "done")


class Plan(TypedDict):
    """A state without messages."""

    calls: list[Any]


def test_state_without_messages() -> None:
    """Where the state does not show what a run goes on with, one warning says that its beginning is missing."""
    graph: Any = StateGraph(Plan)
    graph.add_node("plan", lambda _: {"calls": [{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]})
    graph.add_node("tools", ToolNode([add]) | (lambda _: {}))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda state: [Send("tools", [call]) for call in state["calls"]], ["tools"])
    graph.add_edge("tools", END)
    graph = graph.compile(checkpointer=memory(), interrupt_before=["tools"])
    graph.invoke({"calls": []}, thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(None, thread("T", recorder))

    (run,) = recorder.runs
    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", "3")]
    assert run.warnings == ["this run continues an earlier one that this recorder does not have"]
