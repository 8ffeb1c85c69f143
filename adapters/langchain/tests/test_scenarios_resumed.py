"""Runs that go on: after an interruption or a failure, from an earlier state, and late parts of runs that ended."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from lc_agents import (
    ScriptedModel,
    add,
    asks,
    called,
    make_agent,
    memory,
    scripted,
    summaries,
    thread,
)
from lc_versions import FEATURES

from toolgrade import RunStatus
from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}

IS_NEW_AGENT = FEATURES["middleware"].is_due()
MODEL_NODE = "model" if IS_NEW_AGENT else "agent"

raises_errors_of_tools = pytest.mark.skipif(
    not IS_NEW_AGENT, reason="the agents before langchain 1.0 answer with the error of a tool"
)


def asking(name: str, question: str = "?", *, before_tools: bool = False) -> Any:
    """Return an agent whose tool asks a person, with its own checkpointer."""

    @tool
    def ask(q: str) -> str:
        """Ask a person."""
        return f"{name}: {q if before_tools else interrupt(q)}"

    options = {"interrupt_before": ["tools"]} if before_tools else {}
    return make_agent(scripted(asks(("ask", {"q": question}, "c1")), name), [ask], checkpointer=memory(), **options)


@pytest.mark.parametrize("before_tools", [False, True])
def test_two_graphs_with_one_thread_id(*, before_tools: bool) -> None:
    """Of two graphs that wait under one thread id, with equal questions, each goes on with its own run."""
    recorder = ToolCallRecorder()
    # Before its tools, LangGraph shows nothing of the state but the calls to run.
    texts = ("?1", "?2") if before_tools else ("?", "?")
    first, second = (asking(name, text, before_tools=before_tools) for name, text in zip("AB", texts, strict=True))
    for graph in (first, second):
        graph.invoke(HI, thread("T", recorder))
    for graph in (first, second):
        graph.invoke(None if before_tools else Command(resume="yes"), thread("T", recorder))

    outputs = ["A: ?1", "B: ?2"] if before_tools else ["A: yes", "B: yes"]
    assert [summaries(run.calls)[0]["output"] for run in recorder.runs] == outputs
    assert [(run.actual_output, run.status.value, run.warnings) for run in recorder.runs] == [
        ("A", "ok", []),
        ("B", "ok", []),
    ]


def test_two_graphs_that_wait_for_equal_calls() -> None:
    """Two graphs that wait for equal calls under one thread id: where nothing tells them apart, a warning says so."""
    recorder = ToolCallRecorder()
    graphs = [asking("A", before_tools=True), asking("B", before_tools=True)]
    for graph in graphs:
        graph.invoke(HI, thread("T", recorder))
    graphs[0].invoke(None, thread("T", recorder))

    first, second = recorder.runs
    if first.status is RunStatus.OK:  # some versions show the state of the resumed graph
        assert (second.status, second.warnings) == (RunStatus.INTERRUPTED, [])
        return
    assert [first.status, second.status] == [RunStatus.INTERRUPTED, RunStatus.OK]
    text = "2 runs of conversation 'T' waited when it was resumed; the newest of them was continued"
    assert [first.warnings, second.warnings] == [[text], [text]]


def test_new_question_in_a_command() -> None:
    """A command that adds a message of the user begins a new run."""
    recorder = ToolCallRecorder()
    script = {"one": [asks(("add", {"a": 1}, "c1")), "first"], "two": [asks(("add", {"a": 3}, "c1")), "second"]}
    agent = make_agent(ScriptedModel(script=script), [add], checkpointer=memory())
    agent.invoke({"messages": [HumanMessage("one")]}, thread("T", recorder))
    agent.invoke(Command(update={"messages": [HumanMessage("two")]}, goto=MODEL_NODE), thread("T", recorder))

    assert [(run.input, run.actual_output, summaries(run.calls)) for run in recorder.runs] == [
        ("one", "first", [called("add", {"a": 1}, "c1", "3")]),
        ("two", "second", [called("add", {"a": 3}, "c1", "5")]),
    ]


@pytest.mark.parametrize("waits", [False, True])
def test_earlier_state(*, waits: bool) -> None:
    """A run from an earlier state of the thread is a run of its own; the recorded one stays."""
    recorder = ToolCallRecorder()
    agent = asking("A")
    agent.invoke(HI, thread("T", recorder))
    if not waits:
        agent.invoke(Command(resume="yes"), thread("T", recorder))
    before = recorder.run
    history = list(agent.get_state_history(thread("T")))
    start = next(state for state in history if state.next == (MODEL_NODE,) and len(state.values["messages"]) == 1)
    agent.invoke(None, {**start.config, "callbacks": [recorder]})

    first, second = recorder.runs
    assert first == before
    assert [call.id for call in second.calls] == ["c1"]
    assert (second.input, second.status.value) == ("hi", "interrupted")


@raises_errors_of_tools
def test_failed_run_goes_on() -> None:
    """A run that failed goes on in place; one that answered does not, and nothing happens to it."""
    failures = [ValueError("down")]

    @tool
    def flaky(x: int) -> str:
        """Fail once."""
        if failures:
            raise failures.pop()
        return f"ok {x}"

    recorder = ToolCallRecorder()
    agent = make_agent(scripted(asks(("flaky", {"x": 1}, "c1")), "final"), [flaky], checkpointer=memory())
    with pytest.raises(ValueError, match="down"):
        agent.invoke(HI, thread("T", recorder))
    for _ in range(2):
        agent.invoke(None, thread("T", recorder))

    (run,) = recorder.runs
    assert summaries(run.calls) == [called("flaky", {"x": 1}, "c1", "ok 1", attempts=2)]
    assert (run.status.value, run.actual_output, run.warnings) == ("ok", "final", [])


@raises_errors_of_tools
def test_tool_that_starts_after_the_run_failed() -> None:
    """A tool that waited for a thread while its sibling failed belongs to the run, and `last_run` is that run."""

    @tool
    def waits(x: int) -> str:
        """Occupy the only thread."""
        time.sleep(0.15)
        return f"waited {x}"

    @tool
    async def fails(x: int) -> str:
        """Fail while the others wait."""
        await asyncio.sleep(0.05)
        raise ValueError(x)

    recorder = ToolCallRecorder()
    model = scripted(asks(("waits", {"x": 1}, "c1"), ("waits", {"x": 2}, "c2"), ("fails", {"x": 3}, "c3")), "final")
    agent = make_agent(model, [waits, fails])

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        with pytest.raises(ValueError, match="3"):
            await agent.ainvoke(HI, {"callbacks": [recorder]})
        await asyncio.sleep(0.5)

    asyncio.run(run())

    (only,) = recorder.runs
    assert only is recorder.last_run
    assert [call.id for call in only.calls] == ["c1", "c2", "c3"]
    assert only.status.value == "error"


def runtime_type() -> Any:
    """Return the class of the runtime that tools receive, `None` if there is none."""
    try:
        from langchain.tools import ToolRuntime
    except ImportError:
        return None
    return ToolRuntime


ToolRuntime = runtime_type()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("amount", [1, 2])
def test_calls_inside_a_tool_with_the_configuration_of_its_node(*, asynchronous: bool, amount: int) -> None:
    """What a tool runs with the configuration of its node is inside the tool, also next to other calls."""
    if ToolRuntime is None:
        return
    model = scripted(asks(("other", {"a": 7}, "c1")), "x").bind_tools([add])

    @tool
    def outer(x: int, runtime: ToolRuntime) -> str:  # type: ignore[valid-type]
        """Call a tool and a chain with a configuration of its own choice."""
        RunnableLambda(lambda text: model.invoke(f"{text}!")).invoke("hi", runtime.config)  # type: ignore[attr-defined]
        return str(add.invoke({"a": x}, runtime.config))  # type: ignore[attr-defined]

    recorder = ToolCallRecorder()
    script = [asks(*(("outer", {"x": 3 + number}, f"c{number}") for number in range(amount))), "final"]
    agent = make_agent(scripted(*script), [outer])
    if asynchronous:
        asyncio.run(agent.ainvoke(HI, {"callbacks": [recorder]}))
    else:
        agent.invoke(HI, {"callbacks": [recorder]})

    (run,) = recorder.runs
    assert [(call.name, call.id, call.output) for call in run.calls] == [
        ("outer", f"c{number}", str(5 + number)) for number in range(amount)
    ]
    for number, call in enumerate(run.calls):
        assert [(child.name, child.output) for child in call.execution.children] == [
            ("other", None),
            ("add", 5 + number),
        ]  # type: ignore[union-attr]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asynchronous code has no context before Python 3.11")
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("amount", [1, 2])
def test_agents_in_threads_of_a_tool(*, asynchronous: bool, amount: int) -> None:
    """Agents that a tool runs in threads without a context, with the configuration it received, are inside the tool.

    Where one node runs several tools at the same time, nothing tells which of them a thread belongs to.
    """
    inner = make_agent(scripted(asks(("add", {"a": 1}, "c1")), "inner"), [add])
    barrier = threading.Barrier(amount)

    @tool
    def ask(q: str, config: RunnableConfig) -> str:
        """Ask two agents at the same time."""
        barrier.wait()
        with ThreadPoolExecutor(2) as pool:
            states = list(pool.map(lambda _: inner.invoke({"messages": [("user", q)]}, config), range(2)))
        barrier.wait()
        return " ".join(state["messages"][-1].content for state in states)

    requests = asks(*(("ask", {"q": "?"}, f"c{number}") for number in range(amount)))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [scripted(requests, "final").invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([ask]))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    recorder = ToolCallRecorder()
    if asynchronous:
        asyncio.run(graph.compile().ainvoke(HI, {"callbacks": [recorder]}))
    else:
        graph.compile().invoke(HI, {"callbacks": [recorder]})

    (run,) = recorder.runs
    addition = called("add", {"a": 1}, "c1", "3")
    if amount == 1:
        assert summaries(run.calls) == [called("ask", {"q": "?"}, "c0", "inner inner", children=[addition] * 2)]
        assert run.warnings == []
    else:
        assert len(run.calls) == 2 + 4
        assert [text.partition(",")[0] for text in run.warnings] == [
            "threads of tools that ran at the same time began other runs"
        ]


def test_chain_without_input_in_a_conversation() -> None:
    """A chain that takes no input is not a graph that goes on, whatever its conversation."""
    model = scripted(asks(("add", {"a": 1}, "c1")), "x")
    recorder = ToolCallRecorder(conversation="C")
    for _ in range(2):
        config = {"callbacks": [recorder], "metadata": {"session_id": "S"}}
        RunnableLambda(lambda _: model.invoke("hi").content).invoke(None, config)  # type: ignore[arg-type]
        RunnableLambda(lambda _: "text").invoke(None, config)  # type: ignore[arg-type]

    assert [len(run.calls) for run in recorder.runs] == [1, 0, 1, 0]
