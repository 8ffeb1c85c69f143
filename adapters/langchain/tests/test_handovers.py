"""Hand-overs that take place, and hand-overs that do not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, Send
from lc_agents import ScriptedModel, add, asks, called, memory, react_agent, summaries, thread

from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}


class Steps(ScriptedModel):
    """Answers with one step after the other, whatever it is shown."""

    def answer(self, messages: Sequence[Any]) -> AIMessage:  # noqa: ARG002 - it needs none
        """Return the next step."""
        step = self.script.pop(0)
        return AIMessage(step) if isinstance(step, str) else step


def transfer(to: str, *, by_send: bool = False, marked: bool = False, error: Exception | None = None) -> Any:
    """Return a tool that hands over; marked as the packages of LangGraph for teams mark theirs."""

    @tool(f"transfer_to_{to}")
    def hand_over(state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        if error is not None:
            raise error
        # Models refuse a history with calls that nothing answers.
        others = [one["id"] for one in state["messages"][-1].tool_calls if one["id"] != call]
        results = [ToolMessage("transferred", tool_call_id=call, name=f"transfer_to_{to}")]
        results += [ToolMessage("not transferred", tool_call_id=other) for other in others]
        messages = [*state["messages"], *results]
        if by_send:
            return Command(goto=[Send(to, {"messages": messages})], graph=Command.PARENT)
        return Command(goto=to, graph=Command.PARENT, update={"messages": messages})

    if marked:
        hand_over.metadata = {"__handoff_destination": to}
    return hand_over


def agent(name: str, *steps: Any, tools: Sequence[Any] = (), version: Any = "v2") -> Any:
    """Return an agent with these answers."""
    return react_agent(
        Steps(script=list(steps)), ToolNode([add, *tools], handle_tool_errors=True), name=name, version=version
    )


def team(first: Any, *others: Any, **options: Any) -> Any:
    """Return a graph of agents that begins with the first."""
    graph = StateGraph(MessagesState)
    for one in (first, *others):
        graph.add_node(one.name, one)
    graph.add_edge(START, first.name)
    return graph.compile(**options)


def recorded(played: Any, inputs: Any = HI, *, is_async: bool = False) -> Run:
    """Return the only run."""
    recorder = ToolCallRecorder()
    if is_async:
        asyncio.run(played.ainvoke(inputs, {"callbacks": [recorder]}))
    else:
        played.invoke(inputs, {"callbacks": [recorder]})
    (run,) = recorder.runs
    assert not run.warnings
    assert not recorder.warnings
    return run


def handed(run: Run) -> tuple[list[Any], list[Any], list[str]]:
    """Return the hand-overs as ids of calls and agents, the ids of those that failed, and the names of the tools."""
    ids = [call.id for call in run.calls]
    took_place = [(None if one.call is None else ids[one.call], one.to_agent) for one in run.handoffs]
    return took_place, [ids[index] for index in run.failed_handoffs or ()], [call.name for call in run.tools_called]


BOB = ("bob", asks(("add", {"a": 4}, "b1")), "bob done")
CAROL = ("carol", asks(("add", {"a": 5}, "c1")), "carol done")


@pytest.mark.parametrize("is_async", [False, True])
def test_unknown_agent(*, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A hand-over to an agent that the graph does not have fails."""
    caplog.set_level(logging.ERROR)  # LangGraph warns of it
    alice = agent("alice", asks(("transfer_to_nobody", {}, "h1")), tools=[transfer("nobody")])

    run = recorded(team(alice), is_async=is_async)

    assert handed(run) == ([], ["h1"], [])


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_two_agents_in_one_message(*, version: str, is_async: bool) -> None:
    """Of two hand-overs in one message, the one that LangGraph carried out took place, and the other failed."""
    calls = asks(("transfer_to_bob", {}, "h1"), ("transfer_to_carol", {}, "h2"))
    alice = agent("alice", calls, tools=[transfer("bob"), transfer("carol")], version=version)

    run = recorded(team(alice, agent(*BOB), agent(*CAROL)), is_async=is_async)

    took_place, failed, called_tools = handed(run)
    expected = {"bob done": ([("h1", "bob")], ["h2"]), "carol done": ([("h2", "carol")], ["h1"])}
    assert (took_place, failed) == expected[run.actual_output or ""]
    assert called_tools == ["add"]


def test_one_agent_twice_in_one_message() -> None:
    """Of two hand-overs to one agent in one message, one took place."""
    calls = asks(("transfer_to_bob", {}, "h1"), ("transfer_to_bob", {}, "h2"))

    run = recorded(team(agent("alice", calls, tools=[transfer("bob")]), agent(*BOB)))

    took_place, failed, called_tools = handed(run)
    assert sorted([call for call, _ in took_place] + failed) == ["h1", "h2"]
    assert len(took_place) == 1
    assert called_tools == ["add"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_agents_that_work_in_parallel(version: str) -> None:
    """Where one node runs all tools, hand-overs by `Send` all take place, as `langgraph-supervisor` does it."""
    calls = asks(("transfer_to_bob", {}, "h1"), ("transfer_to_carol", {}, "h2"))
    tools = [transfer("bob", by_send=True), transfer("carol", by_send=True)]

    run = recorded(team(agent("alice", calls, tools=tools, version=version), agent(*BOB), agent(*CAROL)))

    took_place, failed, called_tools = handed(run)
    if version == "v1":
        assert (took_place, failed) == ([("h1", "bob"), ("h2", "carol")], [])
        assert sorted(called_tools) == ["add", "add"]
    else:
        assert len(took_place) == len(failed) == len(called_tools) == 1


def test_tool_of_a_hand_over_that_raises() -> None:
    """A tool that the framework marks as one for hand-overs, and that raises, is a hand-over that failed."""
    broken = transfer("bob", marked=True, error=ValueError("busy"))
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), "alice done", tools=[broken])

    run = recorded(team(alice, agent(*BOB)))

    assert handed(run) == ([], ["h1"], [])
    (call,) = run.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.execution.error) == ("error", "ValueError: busy")


def test_unmarked_tool_that_raises() -> None:
    """A tool that raises, and that nothing marks, is a tool that failed, whatever its name."""
    broken = transfer("bob", error=ValueError("busy"))
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), "alice done", tools=[broken])

    assert handed(recorded(team(alice, agent(*BOB)))) == ([], [], ["transfer_to_bob"])


def test_unknown_tool_with_the_name_of_a_hand_over() -> None:
    """A call of a tool that does not exist is a call of an unknown tool."""
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), "alice done")

    run = recorded(team(alice, agent(*BOB)))

    assert handed(run) == ([], [], ["transfer_to_bob"])
    assert run.calls[0].execution is not None
    assert run.calls[0].execution.status.value == "unknown_tool"


def test_hand_over_after_one_that_raised() -> None:
    """A hand-over that is requested again after it failed took place."""
    failures = [ValueError("busy")]

    @tool
    def transfer_to_bob(state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        if failures:
            raise failures.pop()
        done = ToolMessage("transferred", tool_call_id=call, name="transfer_to_bob")
        return Command(goto="bob", graph=Command.PARENT, update={"messages": [*state["messages"], done]})

    transfer_to_bob.metadata = {"__handoff_destination": "bob"}
    calls = [asks(("transfer_to_bob", {}, call_id)) for call_id in ("h1", "h2")]

    run = recorded(team(agent("alice", *calls, tools=[transfer_to_bob]), agent(*BOB)))

    assert handed(run) == ([("h2", "bob")], ["h1"], ["add"])


def test_agent_without_a_graph_around_it() -> None:
    """An agent that runs alone cannot hand over."""
    recorder = ToolCallRecorder()
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), tools=[transfer("bob")])

    with pytest.raises(Exception, match="bob"):
        alice.invoke(HI, {"callbacks": [recorder]})

    assert handed(recorder.run) == ([], ["h1"], [])
    assert recorder.run.status.value == "error"


def test_recorder_on_one_agent_of_a_graph() -> None:
    """A recorder that observes one agent of a graph takes a hand-over that leaves it for one that took place."""
    recorder = ToolCallRecorder()
    calls = asks(("transfer_to_bob", {}, "h1"), ("transfer_to_carol", {}, "h2"))
    alice = agent("alice", calls, tools=[transfer("bob"), transfer("carol")], version="v1")
    graph = StateGraph(MessagesState)
    graph.add_node("alice", lambda state: alice.invoke(state, {"callbacks": [recorder]}), destinations=("bob",))
    graph.add_node("bob", agent(*BOB))
    graph.add_edge(START, "alice")

    graph.compile().invoke(HI, {"callbacks": [ToolCallRecorder()]})

    assert handed(recorder.run) == ([("h1", "bob")], ["h2"], [])
    assert recorder.run.status.value == "ok"


def test_teams_in_teams() -> None:
    """Agents of a team that is a node of a larger graph hand over within it; other nodes may have equal names."""
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), tools=[transfer("bob")])
    graph = StateGraph(MessagesState)
    graph.add_node("team", team(alice, agent(*BOB)))
    graph.add_node("bob", agent("bob", "other bob done"))
    graph.add_edge(START, "team")
    graph.add_edge("team", "bob")

    run = recorded(graph.compile())

    assert handed(run) == ([("h1", "bob")], [], ["add"])
    assert run.actual_output == "other bob done"


def test_agents_that_hand_over_to_each_other() -> None:
    """Each hand-over took place, also if agents and ids repeat."""
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), "alice done", tools=[transfer("bob")])
    bob = agent("bob", asks(("transfer_to_alice", {}, "h1")), tools=[transfer("alice")])

    run = recorded(team(alice, bob))

    assert handed(run) == ([("h1", "bob"), ("h1", "alice")], [], [])
    assert [one.from_agent for one in run.handoffs] == ["alice", "bob"]


def test_overtaken_agent_that_an_edge_reaches() -> None:
    """A hand-over that was overtaken failed, also if its agent runs later for another reason."""
    calls = asks(("transfer_to_bob", {}, "h1"), ("transfer_to_carol", {}, "h2"))
    alice = agent("alice", calls, tools=[transfer("bob"), transfer("carol")], version="v1")
    graph = StateGraph(MessagesState)
    for one in (alice, agent("bob", "bob done"), agent("carol", "carol done")):
        graph.add_node(one.name, one)
    graph.add_node("last", lambda _: {})
    graph.add_edge(START, "alice")
    graph.add_edge("bob", "last")
    graph.add_edge("last", "carol")

    run = recorded(graph.compile())

    assert handed(run) == ([("h1", "bob")], ["h2"], [])
    assert run.actual_output == "carol done"


def test_hand_over_that_waits_for_a_person() -> None:
    """A hand-over to an agent that is interrupted before it begins takes place when the run is resumed."""
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), tools=[transfer("bob")])
    played = team(alice, agent(*BOB), checkpointer=memory(), interrupt_before=["bob"])
    recorder = ToolCallRecorder()

    played.invoke(HI, thread("T", recorder))
    played.invoke(None, thread("T", recorder))

    (run,) = recorder.runs
    assert handed(run) == ([("h1", "bob")], [], ["add"])


def test_command_that_ends_the_graph_around() -> None:
    """A tool that ends the graph around its agent, as one that forwards an answer does, is a called tool."""

    @tool
    def forward(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Forward the answer."""
        done = ToolMessage("forwarded", tool_call_id=call, name="forward")
        return Command(goto="__end__", graph=Command.PARENT, update={"messages": [done, AIMessage("forwarded")]})

    run = recorded(team(agent("alice", asks(("forward", {}, "f1")), tools=[forward])))

    assert summaries(run.tools_called) == [
        called("forward", {}, "f1", "forwarded", artifact={"langgraph_command": None})
    ]
    assert handed(run)[:2] == ([], [])


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("by_send", [False, True])
def test_one_call_to_two_agents(*, by_send: bool, is_async: bool) -> None:
    """A command that starts two agents hands over to both."""

    @tool
    def split(state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over to two agents."""
        messages = [*state["messages"], ToolMessage("split", tool_call_id=call, name="split")]
        targets = [Send(name, {"messages": messages}) if by_send else name for name in ("bob", "carol")]
        return Command(goto=targets, graph=Command.PARENT, update={} if by_send else {"messages": messages})

    alice = agent("alice", asks(("split", {}, "h1")), tools=[split])

    run = recorded(team(alice, agent(*BOB), agent(*CAROL)), is_async=is_async)

    took_place, failed, called_tools = handed(run)
    assert (sorted(took_place), failed, called_tools) == ([("h1", "bob"), ("h1", "carol")], [], ["add", "add"])


def test_one_call_to_two_agents_of_a_graph_that_is_not_recorded() -> None:
    """A recorder of the agent alone has both hand-overs that left it."""

    @tool
    def split(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over to two agents."""
        result = ToolMessage("split", tool_call_id=call, name="split")
        return Command(goto=["bob", "carol"], graph=Command.PARENT, update={"messages": [result]})

    recorder, alice = ToolCallRecorder(), agent("alice", asks(("split", {}, "h1")), tools=[split])
    graph = StateGraph(MessagesState)
    graph.add_node("alice", lambda state: alice.invoke(state, {"callbacks": [recorder]}))
    for name in ("bob", "carol"):
        graph.add_node(name, lambda _: {})
    graph.add_edge(START, "alice")
    graph.compile().invoke(HI)

    assert handed(recorder.run) == ([("h1", "bob"), ("h1", "carol")], [], [])


@pytest.mark.parametrize("place", ["other", "fork"])
@pytest.mark.parametrize("waits_before", ["bob", "carol"])
def test_hand_over_that_was_recorded_elsewhere(waits_before: str, place: str) -> None:
    """A run waits before an agent: its hand-overs have taken place, also where it goes on under another recorder."""
    alice = agent("alice", asks(("transfer_to_bob", {}, "h1")), tools=[transfer("bob")])
    steps = asks(("add", {"a": 4}, "b1")), asks(("transfer_to_carol", {}, "h2"))
    bob = agent("bob", *steps, *steps, tools=[transfer("carol")])
    carol = agent(*CAROL, *CAROL[1:])
    graph = team(alice, bob, carol, checkpointer=memory(), interrupt_before=[waits_before])
    recorder = ToolCallRecorder()
    graph.invoke(HI, thread("T", recorder))
    waiting = recorder.run
    start = graph.get_state(thread("T"))
    if place == "fork":
        graph.invoke(None, thread("T", recorder))
    recorder = recorder if place == "fork" else ToolCallRecorder()
    graph.invoke(None, {**start.config, "callbacks": [recorder]})

    if not recorder.run.calls[-1].execution.executed:
        pytest.skip("LangGraph 1.0.0 takes the old results of an agent into a fork")
    took_place = [("h1", "bob"), ("h2", "carol")]
    is_second = waits_before == "carol"
    assert (waiting.status.value, handed(waiting)) == (
        "interrupted",
        (took_place[: 1 + is_second], [], ["add"] * is_second),
    )
    assert handed(recorder.run) == (took_place, [], ["add", "add"])
