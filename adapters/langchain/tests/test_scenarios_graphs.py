"""Graphs of several agents: structured answers, messages of the input, rewritten messages, and parallel branches."""

# ruff: noqa: ARG005 - edges and nodes need not use the state

from __future__ import annotations

import json
import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt
from lc_agents import (
    ScriptedModel,
    add,
    asks,
    called,
    make_agent,
    memory,
    react_agent,
    scripted,
    slow,
    summaries,
    thread,
)
from lc_versions import scenario
from pydantic import BaseModel
from typing_extensions import TypedDict

from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}
ADDITION = called("add", {"a": 1}, "c1", "3")


class Ans(BaseModel):
    """A structured answer."""

    value: int


class Report(BaseModel):
    """Another structured answer."""

    text: str


def recorded(agent: Any, inputs: Any = HI, config: Any = None) -> Run:
    """Return the only run."""
    recorder = ToolCallRecorder()
    agent.invoke(inputs, {**(config or {}), "callbacks": [recorder]})
    assert not recorder.warnings
    (run,) = recorder.runs
    assert not run.warnings
    return run


def around(*agents: Any) -> Any:
    """Return a graph that runs agents one after the other, each as a node."""
    graph = StateGraph(MessagesState)
    previous = START
    for index, agent in enumerate(agents):
        graph.add_node(f"agent{index}", agent)
        graph.add_edge(previous, f"agent{index}")
        previous = f"agent{index}"
    graph.add_edge(previous, END)
    return graph.compile()


def names(run: Run) -> list[str]:
    """Return the names of the offered tools."""
    return [offered.name for offered in run.available_tools or ()]


# Structured answers


@scenario("N1", needs="tool_strategy")
def test_provider_strategy_inside_a_graph() -> None:
    """The real calls of an agent whose answer is structured by the provider stay, where it is a node."""
    from langchain.agents.structured_output import ProviderStrategy

    model = scripted(asks(("add", {"a": 1}, "c1")), '{"value": 3}')
    agent = make_agent(model, [add], response_format=ProviderStrategy(Ans))

    run = recorded(around(agent))

    assert summaries(run.calls) == [ADDITION]
    assert names(run) == ["add"]


@scenario("N2")
def test_prebuilt_structured_answer_inside_a_graph() -> None:
    """The real calls of a prebuilt agent with a structured answer stay, where it is a node."""
    model = scripted(asks(("add", {"a": 1}, "c1")), "text", asks(("Ans", {"value": 3}, "c2")))

    run = recorded(around(react_agent(model, [add], response_format=Ans)))

    assert summaries(run.calls) == [ADDITION]


def strategist(answer: type[BaseModel], args: dict[str, Any], first: str, second: str) -> Any:
    """Return an agent that adds, then answers through a pseudo-tool; the first time it fails to."""
    from langchain.agents.structured_output import ToolStrategy

    steps = [
        asks(("add", {"a": 1}, first)),
        asks((answer.__name__, {}, f"{second}-")),
        asks((answer.__name__, args, second)),
    ]
    state = iter(steps)

    class Model(ScriptedModel):
        def answer(self, messages: Any) -> AIMessage:  # noqa: ARG002
            return next(state)

    return make_agent(Model(), [add], response_format=ToolStrategy(answer))


@scenario("N3", needs="tool_strategy")
def test_two_structured_answers() -> None:
    """Of two agents that answer through pseudo-tools, neither answer is a call or a tool, nor are failed attempts."""
    run = recorded(around(strategist(Ans, {"value": 3}, "c1", "c2"), strategist(Report, {"text": "x"}, "c3", "c4")))

    assert summaries(run.calls) == [ADDITION, called("add", {"a": 1}, "c3", "3")]
    assert names(run) == ["add"]


@scenario("N4", needs="tool_strategy")
def test_structured_answers_of_agent_and_sub_agent() -> None:
    """A sub-agent and its main agent both answer through pseudo-tools."""
    from langchain.agents.structured_output import ToolStrategy

    inner = strategist(Report, {"text": "x"}, "c1", "c2")

    @tool
    def ask(q: str) -> str:
        """Ask an agent."""
        return inner.invoke({"messages": [("user", q)]})["structured_response"].text

    model = scripted(asks(("ask", {"q": "?"}, "c1")), asks(("Ans", {"value": 3}, "c2")))

    run = recorded(make_agent(model, [ask], response_format=ToolStrategy(Ans)))

    assert summaries(run.calls) == [called("ask", {"q": "?"}, "c1", "x", children=[ADDITION])]
    assert names(run) == ["ask"]
    assert run.actual_output == '{"value":3}'


@scenario("N5", needs="tool_strategy")
def test_tool_named_like_the_structured_answer_of_another_agent() -> None:
    """A tool that ran is a call, although another agent of the graph has a structured answer of its name."""
    from langchain.agents.structured_output import ToolStrategy

    @tool("Ans")
    def real(value: int) -> str:
        """Run."""
        return str(value)

    first = make_agent(scripted(asks(("Ans", {"value": 1}, "c1")), "done"), [real])
    second = make_agent(
        ScriptedModel(script=[None, None, asks(("Ans", {"value": 3}, "c2"))]), [], response_format=ToolStrategy(Ans)
    )

    run = recorded(around(first, second))

    assert summaries(run.calls) == [called("Ans", {"value": 1}, "c1", "1")]
    assert names(run) == ["Ans"]


@scenario("N8", needs="tool_strategy")
def test_unknown_tool_before_a_structured_answer() -> None:
    """A call of a tool that does not exist stays, where another agent of the graph has a structured answer."""
    first = make_agent(scripted(asks(("nope", {"x": 1}, "c0")), "done"), [add])

    run = recorded(around(first, strategist(Ans, {"value": 3}, "c1", "c2")))

    assert [(call.name, call.execution.status.value) for call in run.calls if call.execution] == [
        ("nope", "unknown_tool"),
        ("add", "ok"),
    ]


# Messages of the input


HISTORY = [HumanMessage("hi"), asks(("add", {"a": 5}, "c0")), ToolMessage("7", tool_call_id="c0", name="add")]


@pytest.mark.parametrize("form", ["objects", "dicts", "ids"])
def test_calls_of_the_input(form: str) -> None:
    """Calls that were made before the run, and came with its input, are not part of it."""
    history: list[Any] = [message.model_copy() for message in HISTORY]
    if form == "ids":
        history = [message.model_copy(update={"id": f"m{index}"}) for index, message in enumerate(history)]
    if form == "dicts":
        calls = [{"id": "c0", "type": "function", "function": {"name": "add", "arguments": '{"a": 5}'}}]
        history = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "7", "tool_call_id": "c0"},
        ]
    script = [None, asks(("add", {"a": 1}, "c1")), "final"]

    run = recorded(make_agent(scripted(*script), [add]), {"messages": history})

    assert summaries(run.calls) == [ADDITION]
    assert (run.input, run.actual_output) == ("hi", "final")


@pytest.mark.parametrize("checkpointer", [False, True])
@pytest.mark.parametrize("recorders", [1, 3])
def test_tools_on_the_client(*, checkpointer: bool, recorders: int) -> None:
    """Of an agent whose client runs the tools, each round has the calls that it requested."""
    script = [asks(("add", {"a": 1}, "c1")), asks(("add", {"a": 2}, "c2")), "final"]

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [scripted(*script).bind_tools([add]).invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_edge(START, "model")
    agent = graph.compile(checkpointer=memory() if checkpointer else None)
    listeners = [ToolCallRecorder() for _ in range(recorders)] * (4 - recorders)
    sent: list[Any] = [HumanMessage("hi")]
    for number in range(3):
        state = agent.invoke({"messages": sent}, thread("T", listeners[number]))["messages"]
        answer = ToolMessage(str(number), tool_call_id=f"c{number + 1}", name="add")
        sent = [answer] if checkpointer else [*state, answer]

    runs = listeners[0].runs if recorders == 1 else [listener.run for listener in listeners]
    assert [[call.id for call in run.calls] for run in runs] == [["c1"], ["c2"], []]


# Messages that nodes return or rewrite


def raw_loop(script: list[dict[str, Any]], *, checkpointer: bool = False) -> Any:
    """Return a graph whose node asks a provider itself, and returns the provider's messages."""
    graph = StateGraph(MessagesState)
    steps = iter(script)
    graph.add_node("model", lambda state: {"messages": [next(steps)]})
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=memory() if checkpointer else None)


def raw(*calls: tuple[str, str]) -> dict[str, Any]:
    """Return a message in the form of OpenAI."""
    calls = [{"id": i, "type": "function", "function": {"name": "add", "arguments": text}} for i, text in calls]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def test_messages_in_the_form_of_the_provider() -> None:
    """Calls in messages that a node returns as dicts are recorded once."""
    script = [raw(("c1", '{"a": 1}')), raw(("c2", '{"a": 2}')), {"role": "assistant", "content": "final"}]

    run = recorded(raw_loop(script))

    assert summaries(run.calls) == [ADDITION, called("add", {"a": 2}, "c2", "4")]
    assert run.actual_output == "final"


def test_messages_in_the_form_of_the_provider_with_equal_ids() -> None:
    """They are recorded once for each message that requested them."""
    script = [raw(("c1", '{"a": 1}')), raw(("c1", '{"a": 2}')), {"role": "assistant", "content": "final"}]

    run = recorded(raw_loop(script))

    assert summaries(run.calls) == [ADDITION, called("add", {"a": 2}, "c1", "4")]


@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"a": 2}'])
def test_state_without_reducer_in_the_form_of_the_provider(arguments: str) -> None:
    """Nodes that return the whole list of the provider's messages, with what is new, request each call once."""

    class State(TypedDict):
        messages: list[Any]

    steps = iter([raw(("c1", '{"a": 1}')), raw(("c1", arguments)), {"role": "assistant", "content": "final"}])

    def tools(state: State) -> dict[str, Any]:
        calls = state["messages"][-1]["tool_calls"]
        results = [str(add.invoke(json.loads(call["function"]["arguments"]))) for call in calls]
        answers = [{"role": "tool", "tool_call_id": "c1", "content": text} for text in results]
        return {"messages": [*state["messages"], *answers]}

    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [*state["messages"], next(steps)]})
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].get("tool_calls") else END)
    graph.add_edge("tools", "model")

    run = recorded(graph.compile(), {"messages": [{"role": "user", "content": "hi"}]})

    assert [(call.input_parameters, call.id, call.output) for call in run.calls] == [
        ({"a": 1}, "c1", 3),
        (json.loads(arguments), "c1", add.invoke(json.loads(arguments))),
    ]
    assert (run.input, run.actual_output) == ("hi", "final")


def test_run_that_ends_with_a_request_in_the_form_of_the_provider() -> None:
    """A client runs the tools, and sends the whole list of messages each time: each run has the call that it made."""

    class State(TypedDict):
        messages: list[Any]

    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [*state["messages"], raw(("c1", '{"a": 1}'))]})
    graph.add_edge(START, "model")
    agent, recorder = graph.compile(), ToolCallRecorder()
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    for _ in range(3):
        messages = agent.invoke({"messages": messages}, {"callbacks": [recorder]})["messages"]
        messages = [*messages, {"role": "tool", "tool_call_id": "c1", "content": "3"}]

    assert [[call.id for call in run.calls] for run in recorder.runs] == [["c1"], ["c1"], ["c1"]]


@pytest.mark.parametrize("checkpointer", [False, True])
def test_request_in_the_form_of_the_provider_that_equals_one_of_the_input(*, checkpointer: bool) -> None:
    """A request that a node receives is new, although an equal one came with the input or an earlier turn."""
    script = [raw(("c1", '{"a": 1}')), {"role": "assistant", "content": "final"}] * 2
    agent = raw_loop(script, checkpointer=checkpointer)
    sent: list[Any] = [
        {"role": "user", "content": "hi"},
        raw(("c1", '{"a": 1}')),
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "user", "content": "again"},
    ]
    recorder = ToolCallRecorder()
    for turn in range(2):
        agent.invoke({"messages": sent[-1:] if checkpointer and turn else sent}, thread("T", recorder))

    assert [summaries(run.calls) for run in recorder.runs] == [[ADDITION], [ADDITION]]


@scenario("N6-same", "N6-fewer", "N6-other arguments", needs="middleware")
def test_message_replaced_under_a_new_id(variant: str) -> None:
    """Calls of a model message that middleware replaces are not doubled."""
    from langchain.agents.middleware import AgentMiddleware

    class Rewriting(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:  # noqa: ARG002
            last = state["messages"][-1]
            if not last.tool_calls:
                return None
            calls = last.tool_calls[:1] if variant == "fewer" else last.tool_calls
            if variant == "other arguments":
                calls = [{**call, "args": {"a": 5}} for call in calls]
            copy = AIMessage("", tool_calls=calls, id="rewritten", usage_metadata=last.usage_metadata)
            return {"messages": [RemoveMessage(id=last.id), copy]}

    requests = [("add", {"a": 1}, "c1"), ("slow", {"x": 2}, "c2")][: 2 if variant == "fewer" else 1]
    agent = make_agent(scripted(asks(*requests), "final"), [add, slow], middleware=[Rewriting()])

    run = recorded(agent)

    first, *others = summaries(run.calls)
    if variant == "other arguments":
        assert first == called("add", {"a": 5}, "c1", "7", requested={"a": 1})
    else:
        assert first == ADDITION
    dropped = [called("slow", {"x": 2}, "c2", status="not_executed", executed=False)]
    assert others == (dropped if variant == "fewer" else [])
    assert run.usage == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}


def test_history_copied_by_a_node() -> None:
    """Copies without ids of messages that were recorded request nothing new."""
    from langgraph.graph.message import REMOVE_ALL_MESSAGES

    def copy(state: MessagesState) -> dict[str, Any]:
        copies = [message.model_copy(update={"id": None}) for message in state["messages"]]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *copies]}

    agent = make_agent(scripted(asks(("add", {"a": 1}, "c1")), "final"), [add])

    run = recorded(around(agent, copy))

    assert summaries(run.calls) == [ADDITION]


# Parallel branches


class Work(TypedDict):
    """The state of a graph that fans out."""

    done: Annotated[list[str], operator.add]
    number: int


@tool
def work(of: int) -> str:
    """Work, the first branch slower than the others."""
    return slow.func(1 if of == 0 else 2) + f" of {of}"  # type: ignore[attr-defined]


def worker(number: int, kind: str) -> Any:
    """Return what one branch does: asks a model, runs its call, and asks again. All branches use the same id."""
    script = [asks(("work", {"of": number}, "c1")), asks(("work", {"of": number + 10}, "c1")), f"done {number}"]
    if kind == "agent":
        return make_agent(scripted(*script), [work])
    model = scripted(*script)

    def by_hand(inputs: dict[str, Any]) -> dict[str, Any]:
        messages: list[Any] = [*inputs["messages"]]
        while True:
            answer = model.invoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                return {"messages": messages}
            messages += [work.invoke({**call, "type": "tool_call"}) for call in answer.tool_calls]

    return RunnableLambda(by_hand)


def expected(amount: int) -> list[dict[str, Any]]:
    """Return the calls of all branches, by branch."""
    return [
        called("work", {"of": of}, "c1", f"slow {1 if of == 0 else 2} of {of}")
        for number in range(amount)
        for of in (number, number + 10)
    ]


def by_branch(run: Run) -> list[dict[str, Any]]:
    """Return the calls of a run, by branch."""
    return sorted(summaries(run.calls), key=lambda call: (call["args"]["of"] % 10, call["args"]["of"]))


@pytest.mark.parametrize("kind", ["agent", "by hand"])
@pytest.mark.parametrize("way", ["send", "branches", "parallel"])
def test_fan_out(kind: str, way: str) -> None:
    """Parallel branches that ask a model and run its call, all with one id, keep their own results."""
    amount = 4

    def branch(state: Work) -> dict[str, Any]:
        inner = worker(state["number"], kind)
        return {"done": [inner.invoke({"messages": [HumanMessage("go")]})["messages"][-1].content]}

    def fixed(number: int) -> Any:
        return lambda state: branch({**state, "number": number})

    if way == "parallel":
        graph: Any = RunnableParallel(**{f"b{number}": worker(number, kind) for number in range(amount)})
        run = recorded(graph, {"messages": [HumanMessage("go")]})
        assert by_branch(run) == expected(amount)
        return
    builder = StateGraph(Work)
    builder.add_node("plan", lambda state: {})
    builder.add_edge(START, "plan")
    if way == "send":
        builder.add_node("branch", branch)
        builder.add_conditional_edges(
            "plan",
            lambda state: [Send("branch", {"number": number, "done": []}) for number in range(amount)],
            ["branch"],
        )
    else:
        for number in range(amount):
            builder.add_node(f"branch{number}", fixed(number))
            builder.add_edge("plan", f"branch{number}")

    run = recorded(builder.compile(), {"number": 0, "done": []})

    assert by_branch(run) == expected(amount)


@pytest.mark.parametrize("observed", [True, False])
def test_branches_with_nodes_of_their_own(*, observed: bool) -> None:
    """Branches of one graph, each a node for the model and one for the tools, keep their own results.

    Where the model is not observed, its messages in the state show what it requested.
    """

    class Two(TypedDict):
        one: Annotated[list[Any], add_messages]
        two: Annotated[list[Any], add_messages]

    builder = StateGraph(Two)
    for number, key in enumerate(("one", "two")):
        script = [asks(("work", {"of": number}, "c1")), asks(("work", {"of": number + 10}, "c1")), "done"]

        def model(state: Any, key: str = key, script: Any = script) -> dict[str, Any]:
            chosen = scripted(*script)
            return {key: [chosen.invoke(state[key]) if observed else chosen.answer(state[key])]}

        def route(state: Any, key: str = key) -> str:
            return f"tools {key}" if state[key][-1].tool_calls else END

        builder.add_node(f"model {key}", model)
        builder.add_node(f"tools {key}", ToolNode([work], messages_key=key))
        builder.add_edge(START, f"model {key}")
        builder.add_conditional_edges(f"model {key}", route, [f"tools {key}", END])
        builder.add_edge(f"tools {key}", f"model {key}")

    run = recorded(builder.compile(), {"one": [HumanMessage("go")], "two": [HumanMessage("go")]})

    assert by_branch(run) == expected(2)


def test_failures_in_parallel_branches() -> None:
    """Results of calls of which no execution was observed reach their own branch."""

    def branch(state: Work) -> dict[str, Any]:
        number = state["number"]
        messages: list[Any] = [HumanMessage("go")]
        model = scripted(asks(("work", {"of": number}, "c1")), f"done {number}").bind_tools([work])
        messages.append(model.invoke(messages))
        messages.append(ToolMessage(f"failed {number}", tool_call_id="c1", status="error"))
        return {"done": [model.invoke(messages).content]}

    builder = StateGraph(Work)
    builder.add_node("branch", branch)
    builder.add_conditional_edges(
        START, lambda state: [Send("branch", {"number": n, "done": []}) for n in range(3)], ["branch"]
    )

    run = recorded(builder.compile(), {"number": 0, "done": []})

    failures = {
        call.arguments["of"]: (call.execution.status.value, call.execution.error)
        for call in run.calls
        if call.execution
    }
    assert failures == {number: ("error", f"failed {number}") for number in range(3)}


def _id_of(pause: Any) -> str:
    """Return the id by which an interruption is answered; older versions of LangGraph name it otherwise."""
    return str(pause.id if hasattr(pause, "id") else pause.interrupt_id)


def test_interrupted_branches() -> None:
    """Branches that wait for a person, with equal ids, go on with their own calls when the run is resumed."""

    @tool
    def ask(of: int) -> str:
        """Ask a person."""
        return f"{interrupt(of)} for {of}"

    def branch(state: Work) -> dict[str, Any]:
        script = [asks(("ask", {"of": state["number"]}, "c1")), f"done {state['number']}"]
        agent = make_agent(scripted(*script), [ask])
        return {"done": [agent.invoke({"messages": [HumanMessage("go")]})["messages"][-1].content]}

    builder = StateGraph(Work)
    builder.add_node("branch", branch)
    builder.add_conditional_edges(
        START, lambda state: [Send("branch", {"number": n, "done": []}) for n in range(3)], ["branch"]
    )
    graph = builder.compile(checkpointer=memory())
    recorder = ToolCallRecorder()
    state = graph.invoke({"number": 0, "done": []}, thread("T", recorder))
    before = recorder.run
    answers = {_id_of(pause): f"yes {pause.value}" for pause in state["__interrupt__"]}
    graph.invoke(Command(resume=answers), thread("T", recorder))

    assert sorted((c.arguments["of"], c.execution.status.value) for c in before.calls if c.execution) == [
        (number, "pending") for number in range(3)
    ]
    (run,) = recorder.runs
    assert sorted(summaries(run.calls), key=lambda call: call["args"]["of"]) == [
        called("ask", {"of": n}, "c1", f"yes {n} for {n}", attempts=2) for n in range(3)
    ]
    assert run.status.value == "ok"
