"""Recorded runs answer in the place of LangChain's tools, however these are made, called, and fail."""

# ruff: noqa: ARG001, ARG002, ARG005 - tools need not use all that they are given

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    create_retriever_tool,
    tool,
)
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState as GraphState  # in langchain 1.0.0, `create_agent` knows another class
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from lc_agents import InjectedState, asks, make_agent, memory, react_agent, scripted, summaries, thread
from lc_versions import FEATURES
from pydantic import BaseModel

from toolgrade.calls import ToolSpec
from toolgrade.cases import Run
from toolgrade.errors import ReplayError
from toolgrade.replay import Fault, Tape, replay
from toolgrade_langchain import ToolCallRecorder

try:
    from langgraph.prebuilt import ToolRuntime
except ImportError:
    ToolRuntime = None
try:
    from langchain.agents import AgentExecutor, create_tool_calling_agent
except ImportError:
    AgentExecutor = None
try:
    from langchain_core.messages.content import create_text_block
except ImportError:
    create_text_block = None

HI = {"messages": [("user", "hi")]}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

Note = Callable[..., Any]
"""What the body of a tool calls, with its name and what it returns."""
Play = Callable[[Note, ToolCallRecorder], Any]
PLAYS: dict[str, Play] = {}


def scene(function: Play) -> Play:
    """Add a scene: a function that makes tools and an agent, runs it with a recorder, and returns its answer."""
    PLAYS[function.__name__.replace("_", "-")] = function
    return function


def since(*, due: object) -> Callable[[Play], Play]:
    """Add a scene of what not all versions have."""
    return scene if due else lambda function: function


def pay_tool(note: Note) -> BaseTool:
    """A tool with a default."""

    @tool
    def pay(amount: int, currency: str = "EUR") -> str:
        """Pay."""
        return note("pay", f"paid {amount} {currency}")

    return pay


def agent_of(*tools: BaseTool, calls: Any, **options: Any) -> Any:
    """An agent that makes these calls, of which each list is one message, and then says `done`."""
    steps = [asks(*([step] if isinstance(step, tuple) else step)) for step in calls]
    return make_agent(scripted(*steps, "done"), list(tools), **options)


def ask(agent: Any, recorder: ToolCallRecorder, inputs: Any = HI, **config: Any) -> list[tuple[str, Any]]:
    """Run an agent, and return what its messages say."""
    return said(agent.invoke(inputs, {"callbacks": [recorder], **config}))


def said(state: Any) -> list[tuple[str, Any]]:
    """The types and contents of messages; ids of blocks are random."""
    return [(message.type, _without_ids(message.content)) for message in state["messages"]]


def _without_ids(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [{key: value for key, value in block.items() if key != "id"} for block in content]


# Calls of a tool itself


def direct(call: Callable[[BaseTool, Any], Any]) -> Play:
    """A scene in which code calls a tool twice."""

    def play(note: Note, recorder: ToolCallRecorder) -> Any:
        pay, config = pay_tool(note), {"callbacks": [recorder]}
        with recorder.single_run("hi"):
            return [call(partial_of(pay, amount), config) for amount in (5, 6)]

    return play


class partial_of:  # noqa: N801 - reads as a function
    """A tool, and what it is called with."""

    def __init__(self, pay: BaseTool, amount: int) -> None:
        """Store them."""
        self.tool, self.args = pay, {"amount": amount}
        self.call = {"type": "tool_call", "name": "pay", "args": self.args, "id": f"c{amount}"}


def _content(output: Any) -> Any:
    return output.content if isinstance(output, ToolMessage) else output


DIRECT: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda one, config: one.tool.invoke(one.args, config),
    "invoke-call": lambda one, config: one.tool.invoke(one.call, config).content,
    "ainvoke": lambda one, config: asyncio.run(one.tool.ainvoke(one.args, config)),
    "ainvoke-call": lambda one, config: asyncio.run(one.tool.ainvoke(one.call, config)).content,
    "run": lambda one, config: one.tool.run(one.args, **config),
    "run-call": lambda one, config: one.tool.run(one.args, tool_call_id="c1", **config).content,
    "arun": lambda one, config: asyncio.run(one.tool.arun(one.args, **config)),
    "batch": lambda one, config: one.tool.batch([one.args, one.args], config),
    "abatch": lambda one, config: asyncio.run(one.tool.abatch([one.args, one.args], config)),
    "stream": lambda one, config: list(one.tool.stream(one.args, config)),
    "in-a-chain": lambda one, config: (RunnableLambda(lambda args: args) | one.tool).invoke(one.args, config),
    "with-retry": lambda one, config: one.tool.with_retry().invoke(one.args, config),
    "with-fallbacks": lambda one, config: one.tool.with_fallbacks([one.tool]).invoke(one.args, config),
}
PLAYS |= {f"direct-{name}": direct(call) for name, call in DIRECT.items()}


@scene
def fallback(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool that fails, and one in its place."""

    @tool
    def broken(amount: int) -> str:
        """Fail."""
        raise note("broken", TimeoutError("no answer"))

    with recorder.single_run("hi"):
        return broken.with_fallbacks([pay_tool(note)]).invoke({"amount": 1}, {"callbacks": [recorder]})


@scene
def text_tool(note: Note, recorder: ToolCallRecorder) -> Any:
    """`Tool`, called with a text, and by a model."""
    search = Tool("search", lambda text: note("search", f"found {text}"), "Search.")
    with recorder.single_run("hi"):
        alone = search.invoke("a text", {"callbacks": [recorder]})
        return alone, ask(agent_of(search, calls=[("search", {"__arg1": "x"}, "c1")]), recorder)


@scene
def custom_tool(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool of OpenAI that takes any text."""
    block = {"type": "custom_tool_call", "name": "code", "input": "1+1", "call_id": "c1", "id": "x1"}
    call = {"name": "code", "args": {"__arg1": "1+1"}, "id": "c1"}
    request = AIMessage([block], tool_calls=[call], response_metadata={"model_provider": "openai"})
    code = StructuredTool.from_function(
        lambda **kwargs: note("code", f"ran {kwargs}"),
        name="code",
        description="Run code.",
        args_schema={"type": "object", "properties": {"__arg1": {"type": "string"}}},
        metadata={"type": "custom_tool"},
    )
    return ask(react_agent(scripted(request, "done"), ToolNode([code])), recorder)


# Agents and graphs


@scene
def agent(note: Note, recorder: ToolCallRecorder) -> Any:
    """Two calls, one after the other."""
    calls = [("pay", {"amount": 5}, "c1"), ("pay", {"amount": 6, "currency": "USD"}, "c2")]
    return ask(agent_of(pay_tool(note), calls=calls), recorder)


@scene
def async_agent(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool that only has a coroutine."""

    async def pay(amount: int) -> str:
        """Pay."""
        return note("pay", f"paid {amount}")

    playing = agent_of(StructuredTool.from_function(coroutine=pay), calls=[("pay", {"amount": 5}, "c1")])
    return said(asyncio.run(playing.ainvoke(HI, {"callbacks": [recorder]})))


@scene
def async_agent_of_plain_tools(note: Note, recorder: ToolCallRecorder) -> Any:
    """Tools without a coroutine, which LangChain runs in threads."""
    playing = agent_of(pay_tool(note), calls=[[("pay", {"amount": one}, f"c{one}") for one in range(4)]])
    return said(asyncio.run(playing.ainvoke(HI, {"callbacks": [recorder]})))


def tool_graph(*tools: Any) -> Any:
    """A graph of a node that runs tools."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "tools")
    return graph.compile()


@scene
def node_of_tools(note: Note, recorder: ToolCallRecorder) -> Any:
    """A graph written by hand."""
    inputs = {"messages": [HumanMessage("hi"), asks(("pay", {"amount": 1}, "c1"), ("pay", {"amount": 2}, "c2"))]}
    return ask(tool_graph(pay_tool(note)), recorder, inputs)


@scene
def parallel_equal_calls(note: Note, recorder: ToolCallRecorder) -> Any:
    """Equal calls of one message, with different answers."""

    @tool
    def ticket() -> str:
        """Draw a number."""
        note("ticket")
        return "a number"

    return ask(agent_of(ticket, calls=[[("ticket", {}, f"c{one}") for one in range(4)]]), recorder)


@scene
def injected_arguments(note: Note, recorder: ToolCallRecorder) -> Any:
    """State and id of the call are no arguments that a model gave."""

    @tool
    def look(
        x: int,
        state: Annotated[dict, InjectedState],
        messages: Annotated[list, InjectedState("messages")],
        call: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Look."""
        return note("look", f"{x} {len(messages)} {len(state['messages'])} {call}")

    return ask(agent_of(look, calls=[("look", {"x": 1}, "c1")]), recorder)


@since(due=hasattr(BaseTool, "_filter_injected_args"))  # before, callbacks have the store, and the recorder warns of it
def injected_store(note: Note, recorder: ToolCallRecorder) -> Any:
    """The store is no argument that a model gave."""

    @tool
    def look(x: int, store: Annotated[Any, InjectedStore()]) -> str:
        """Look."""
        return note("look", f"{x} {store is not None}")

    return ask(agent_of(look, calls=[("look", {"x": 1}, "c1")], store=InMemoryStore()), recorder)


@since(due=ToolRuntime)
def injected_runtime(note: Note, recorder: ToolCallRecorder) -> Any:
    """The runtime is no argument that a model gave."""

    def look(x: int, runtime: ToolRuntime) -> str:
        """Look."""
        return note("look", f"{x} {len(runtime.state['messages'])} {runtime.tool_call_id}")

    look.__annotations__["runtime"] = ToolRuntime
    return ask(agent_of(tool(look), calls=[("look", {"x": 1}, "c1")]), recorder)


@scene
def return_direct(note: Note, recorder: ToolCallRecorder) -> Any:
    """The result of the tool is the answer."""
    pay = pay_tool(note)
    pay.return_direct = True
    return ask(agent_of(pay, calls=[("pay", {"amount": 5}, "c1")]), recorder)


@scene
def approved_by_a_person(note: Note, recorder: ToolCallRecorder) -> Any:
    """A graph that waits before its tools does so again."""
    playing = react_agent(
        scripted(asks(("pay", {"amount": 5}, "c1")), "done"),
        ToolNode([pay_tool(note)]),
        checkpointer=memory(),
        interrupt_before=["tools"],
    )
    config = thread("T", recorder)
    playing.invoke(HI, config)
    assert len(playing.get_state(config).next) == 1
    return said(playing.invoke(None, config))


@since(due=FEATURES["middleware"].is_due())
def approved_by_middleware(note: Note, recorder: ToolCallRecorder) -> Any:
    """Middleware that asks a person does so again; the person edits the call."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    calls = [("pay", {"amount": 5}, "c1")]
    playing = agent_of(pay_tool(note), calls=calls, middleware=[asking], checkpointer=memory())
    config = thread("T", recorder)
    assert "__interrupt__" in playing.invoke(HI, config)
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 4}}}
    return said(playing.invoke(Command(resume={"decisions": [edit]}), config))


@scene
def agent_in_a_tool(note: Note, recorder: ToolCallRecorder) -> Any:
    """An agent in a tool is answered as a whole, with the calls that it made."""

    @tool
    def ask_banker(question: str) -> str:
        """Ask."""
        note("ask_banker")
        inner = agent_of(pay_tool(note), calls=[("pay", {"amount": 5}, "b1")])
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].content)

    return ask(agent_of(ask_banker, calls=[("ask_banker", {"question": "pay"}, "c1")]), recorder)


if AgentExecutor is not None:

    @scene
    def classic_agent(note: Note, recorder: ToolCallRecorder) -> Any:
        """The executor of langchain 0.3 gives its tools no ids; what it runs for an unknown tool is no tool."""
        from langchain_core.prompts import ChatPromptTemplate

        prompt = ChatPromptTemplate.from_messages([("user", "{input}"), ("placeholder", "{agent_scratchpad}")])
        steps = [asks(("nope", {}, "c1")), asks(("pay", {"amount": 5}, "c2")), "done"]
        tools = [pay_tool(note)]
        executor = AgentExecutor(agent=create_tool_calling_agent(scripted(*steps), tools, prompt), tools=tools)
        return executor.invoke({"input": "hi"}, {"callbacks": [recorder]})["output"]


# What tools return


@scene
def artifact(note: Note, recorder: ToolCallRecorder) -> Any:
    """What a tool returns besides its content."""

    @tool(response_format="content_and_artifact")
    def chart(x: int) -> tuple[str, Any]:
        """Draw."""
        return note("chart", (f"chart {x}", {"points": [1, 2]}))

    state = agent_of(chart, calls=[("chart", {"x": 1}, "c1")]).invoke(HI, {"callbacks": [recorder]})
    return said(state), [message.artifact for message in state["messages"] if message.type == "tool"]


@scene
def message_with_artifact(note: Note, recorder: ToolCallRecorder) -> Any:
    """A message that the tool itself made."""

    @tool
    def chart(x: int, call: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Draw."""
        return note("chart", ToolMessage("a chart", tool_call_id=call, artifact={"points": [1]}))

    state = agent_of(chart, calls=[("chart", {"x": 1}, "c1")]).invoke(HI, {"callbacks": [recorder]})
    return said(state), [message.artifact for message in state["messages"] if message.type == "tool"]


@scene
def picture(note: Note, recorder: ToolCallRecorder) -> Any:
    """Blocks of content, with an image in LangChain's own form."""

    @tool
    def draw() -> Any:
        """Draw."""
        image = {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PICTURE}
        url = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        return note("draw", [{"type": "text", "text": "here"}, image, url])

    return ask(agent_of(draw, calls=[("draw", {}, "c1")]), recorder)


@scene
def value(note: Note, recorder: ToolCallRecorder) -> Any:
    """A value that is no text."""

    @tool
    def weather(city: str) -> Any:
        """Return the weather."""
        return note("weather", {"city": city, "degrees": [20, 21.5]})

    return ask(agent_of(weather, calls=[("weather", {"city": "Paris"}, "c1")]), recorder)


@scene
def value_alone(note: Note, recorder: ToolCallRecorder) -> Any:
    """A value that code receives."""

    @tool
    def weather(city: str) -> Any:
        """Return the weather."""
        return note("weather", {"city": city, "degrees": [20, 21.5]})

    with recorder.single_run("hi"):
        return weather.invoke({"city": "Paris"}, {"callbacks": [recorder]})


class Todos(MessagesState):
    """A state with more than messages."""

    todos: Annotated[list, operator.add]
    remaining_steps: int


@scene
def command(note: Note, recorder: ToolCallRecorder) -> Any:
    """A command that changes the state by JSON does so again."""

    @tool
    def add_todo(text: str, call: Annotated[str, InjectedToolCallId]) -> Command:
        """Add."""
        message = ToolMessage("added", tool_call_id=call, artifact={"n": 1})
        return note("add_todo", Command(update={"todos": [{"text": text}], "messages": [message]}))

    steps = [asks(("add_todo", {"text": one}, f"c{one}")) for one in "ab"]
    state = react_agent(scripted(*steps, "done"), ToolNode([add_todo]), state_schema=Todos).invoke(
        HI, {"callbacks": [recorder]}
    )
    assert state["todos"] == [{"text": "a"}, {"text": "b"}]
    return said(state), [message.artifact for message in state["messages"] if message.type == "tool"]


@scene
def command_of_a_failure(note: Note, recorder: ToolCallRecorder) -> Any:
    """A command that changes the state, and shows the model that the tool failed."""

    @tool
    def add_todo(text: str, call: Annotated[str, InjectedToolCallId]) -> Command:
        """Add."""
        message = ToolMessage("too long", tool_call_id=call, status="error")
        return note("add_todo", Command(update={"todos": [text], "messages": [message]}))

    agent = react_agent(
        scripted(asks(("add_todo", {"text": "a"}, "c1")), "done"), ToolNode([add_todo]), state_schema=Todos
    )
    state = agent.invoke(HI, {"callbacks": [recorder]})
    return said(state), state["todos"]


@scene
def command_with_a_message(note: Note, recorder: ToolCallRecorder) -> Any:
    """A command that only shows the model a message."""

    @tool
    def look(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Look."""
        return note("look", Command(update={"messages": [ToolMessage("seen", tool_call_id=call)]}))

    return ask(agent_of(look, calls=[("look", {}, "c1")]), recorder)


@scene
def command_that_goes_on_elsewhere(note: Note, recorder: ToolCallRecorder) -> Any:
    """A command that names the next node of its own graph."""

    @tool
    def leave(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Leave."""
        return note("leave", Command(goto="last", update={"messages": [ToolMessage("left", tool_call_id=call)]}))

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([leave]), destinations=("last",))
    graph.add_node("last", lambda _: {"messages": [AIMessage("at the end")]})
    graph.add_edge(START, "tools")
    return ask(graph.compile(), recorder, {"messages": [HumanMessage("hi"), asks(("leave", {}, "c1"))]})


class Notes(BaseRetriever):
    """A retriever."""

    note: Any

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return self.note("retriever", [Document(f"about {query}", metadata={"page": 1})])


@scene
def retriever_tool(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool that searches documents."""
    search = create_retriever_tool(Notes(note=note), "search", "Search.", response_format="content_and_artifact")
    return ask(agent_of(search, calls=[("search", {"query": "x"}, "c1")]), recorder)


def mcp_scene(*, has_blocks: bool) -> Play:
    """A scene with a tool in the form of `langchain-mcp-adapters`: blocks with random ids, or texts."""

    def play(note: Note, recorder: ToolCallRecorder) -> Any:
        code = """
async def call_tool(a):
    if a == 2:
        raise ToolException(content("no"))
    return note("read", (content(f"got {a}"), {"structured_content": {"a": a}}))
"""
        module: dict[str, Any] = {"__name__": "langchain_mcp_adapters.tools", "note": note}
        module |= {"ToolException": ToolException, "content": str}
        if has_blocks:
            module |= {"create_text_block": create_text_block, "content": lambda text: [create_text_block(text)]}
        exec(code, module)  # noqa: S102 - a function of that module
        read = StructuredTool(
            name="read",
            description="Read.",
            args_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
            coroutine=module["call_tool"],
            response_format="content_and_artifact",
            handle_tool_error=lambda error: error.args[0],
        )
        playing = agent_of(read, calls=[("read", {"a": one}, f"c{one}") for one in (1, 2, 3)])
        return said(asyncio.run(playing.ainvoke(HI, {"callbacks": [recorder]})))

    return play


PLAYS["mcp-tool-with-texts"] = mcp_scene(has_blocks=False)
if create_text_block is not None:
    PLAYS["mcp-tool-with-blocks"] = mcp_scene(has_blocks=True)


# Failures


@scene
def failure_that_the_model_is_shown(note: Note, recorder: ToolCallRecorder) -> Any:
    """What a tool raises goes to the node that words it for the model."""

    @tool
    def broken(x: int) -> str:
        """Fail."""
        raise note("broken", KeyError("no such key"))

    node = ToolNode([broken], handle_tool_errors=lambda error: f"sorry: {error!r}")
    return ask(react_agent(scripted(asks(("broken", {"x": 1}, "c1")), "done"), node), recorder)


def declining(note: Note, **options: Any) -> BaseTool:
    """A tool that fails by the exception that LangChain has for that."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        raise note("pay", ToolException("Error: no funds"))

    for name, value in options.items():
        setattr(pay, name, value)
    return pay


@scene
def failure_that_the_tool_shows(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool that shows its own failure; the recording has its text alone."""
    pay = declining(note, handle_tool_error=True)
    return ask(agent_of(pay, calls=[("pay", {"amount": 5}, "c1")]), recorder)


@scene
def failure_that_the_tool_words(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool with a handler, called by code, which receives the text."""
    pay = declining(note, handle_tool_error=lambda error: f"declined: {error}")
    with recorder.single_run("hi"):
        return pay.invoke({"amount": 5}, {"callbacks": [recorder]})


@scene
def failure_that_is_raised(note: Note, recorder: ToolCallRecorder) -> Any:
    """A tool without a handler, called by code, which receives the exception."""
    with recorder.single_run("hi"), pytest.raises(ToolException) as caught:
        declining(note).invoke({"amount": 5}, {"callbacks": [recorder]})
    return type(caught.value), str(caught.value)


@scene
def wrong_arguments(note: Note, recorder: ToolCallRecorder) -> Any:
    """Arguments that the schema refuses are refused again, and the recorded failure is taken."""
    calls = [("pay", {"amount": "much"}, "c1"), ("pay", {"amount": 5}, "c2")]
    node = ToolNode([pay_tool(note)], handle_tool_errors=True)
    return ask(react_agent(scripted(*(asks(call) for call in calls), "done"), node), recorder)


@scene
def wrong_arguments_that_the_tool_handles(note: Note, recorder: ToolCallRecorder) -> Any:
    """The handler of a tool for arguments that its schema refuses."""
    pay = pay_tool(note)
    pay.handle_validation_error = "no"
    calls = [("pay", {"amount": "much"}, "c1"), ("pay", {"amount": 5}, "c2")]
    return ask(agent_of(pay, calls=calls), recorder)


# Classes of tools


class Amount(BaseModel):
    """The arguments of the tools below."""

    amount: int


def tool_class(note: Note, **methods: Any) -> BaseTool:
    """A tool of a class that is made now, with these methods of its own."""

    class Pay(BaseTool):
        name: str = "pay"
        description: str = "Pay."
        args_schema: type = Amount

        def _run(self, amount: int, run_manager: Any = None) -> str:
            assert run_manager is not None
            return note("pay", f"paid {amount}")

    kind = type("OwnPay", (Pay,), {"__module__": __name__, **methods})
    return kind()  # type: ignore[no-any-return]


@scene
def class_with_run_alone(note: Note, recorder: ToolCallRecorder) -> Any:
    """A class that only has `_run`."""
    return ask(agent_of(tool_class(note), calls=[("pay", {"amount": 5}, "c1")]), recorder)


@scene
def class_without_a_schema(note: Note, recorder: ToolCallRecorder) -> Any:
    """A class whose arguments LangChain reads from `_run`, also while that has a double."""

    class Pay(BaseTool):
        name: str = "pay"
        description: str = "Pay."

        def _run(self, amount: int, purpose: Amount | None = None) -> str:
            return note("pay", f"paid {amount}")

    pay = Pay()
    return pay.args, ask(agent_of(pay, calls=[("pay", {"amount": 5}, "c1")]), recorder)


@scene
def class_with_run_alone_in_async_code(note: Note, recorder: ToolCallRecorder) -> Any:
    """A class without `_arun`, which LangChain runs in a thread."""
    playing = agent_of(tool_class(note), calls=[("pay", {"amount": 5}, "c1")])
    return said(asyncio.run(playing.ainvoke(HI, {"callbacks": [recorder]})))


@scene
def class_with_arun(note: Note, recorder: ToolCallRecorder) -> Any:
    """A class with both."""

    async def _arun(self: BaseTool, amount: int) -> str:
        return note("pay", f"paid {amount} later")

    playing = agent_of(tool_class(note, _arun=_arun), calls=[("pay", {"amount": 5}, "c1")])
    return said(asyncio.run(playing.ainvoke(HI, {"callbacks": [recorder]})))


@scene
def class_with_an_invoke_of_its_own(note: Note, recorder: ToolCallRecorder) -> Any:
    """What a class does around its calls is part of the tool."""

    def invoke(self: BaseTool, input: Any, config: Any = None, **kwargs: Any) -> Any:
        note("invoke")
        return super(type(self), self).invoke(input, config, **kwargs)

    async def ainvoke(self: BaseTool, input: Any, config: Any = None, **kwargs: Any) -> Any:
        note("ainvoke")
        return await super(type(self), self).ainvoke(input, config, **kwargs)

    pay = tool_class(note, invoke=invoke, ainvoke=ainvoke)
    with recorder.single_run("hi"):
        first = ask(agent_of(pay, calls=[("pay", {"amount": 5}, "c1")]), recorder)
        later = agent_of(pay, calls=[("pay", {"amount": 6}, "c1")]).ainvoke(HI, {"callbacks": [recorder]})
        return first, said(asyncio.run(later))


@scene
def class_with_a_run_of_its_own(note: Note, recorder: ToolCallRecorder) -> Any:
    """What a class does around its runs is part of the tool."""

    def run(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        note("run")
        return super(type(self), self).run(tool_input, *args, **kwargs)

    async def arun(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        note("arun")
        return await super(type(self), self).arun(tool_input, *args, **kwargs)

    pay = tool_class(note, run=run, arun=arun)
    with recorder.single_run("hi"):
        first = ask(agent_of(pay, calls=[("pay", {"amount": 5}, "c1")]), recorder)
        later = agent_of(pay, calls=[("pay", {"amount": 6}, "c1")]).ainvoke(HI, {"callbacks": [recorder]})
        return first, said(asyncio.run(later))


# The checks of all scenes


class Ran(list[str]):
    """The names of the tools that ran."""

    def __call__(self, name: str, value: Any = None) -> Any:
        """Note that a tool ran, and return its value."""
        self.append(name)
        return value


def played(play: Play, ran: Ran) -> tuple[Any, Run]:
    """Play a scene; return its answer and its run."""
    recorder = ToolCallRecorder()
    answer = play(ran, recorder)
    (run,) = recorder.runs
    assert (recorder.warnings, run.warnings) == ([], [])
    return answer, run


def check_replayed(recorded: tuple[Any, Run], again: tuple[Any, Run]) -> None:
    """Check that a run has the recorded calls and answers, as replayed ones."""
    assert again[0] == recorded[0]
    assert summaries(again[1].calls) == summaries(recorded[1].calls)
    assert (again[1].status, again[1].actual_output) == (recorded[1].status, recorded[1].actual_output)
    assert again[1].calls
    for call in again[1].select_calls(nested=True):
        assert call.execution is not None
        assert call.execution.replayed or not call.execution.executed, call.name


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_replayed_run(play: Play) -> None:
    """A recorded run answers, nothing of the tools runs, and afterwards they run as before."""
    before, first, during, after = dict(vars(BaseTool)), Ran(), Ran(), Ran()
    recorded = played(play, first)
    assert first

    with replay([recorded[1]]) as tape:
        again = played(play, during)

    assert during == []
    assert tape.left == 0
    check_replayed(recorded, again)
    assert dict(vars(BaseTool)) == before
    played(play, after)
    assert sorted(after) == sorted(first)


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_replayed_tape(play: Play, tmp_path: Any) -> None:
    """With the mode `once` the tools run as always, and the file that this leaves answers like a recorded run."""
    path, ran, expected, during = tmp_path / "tape.json", Ran(), Ran(), Ran()
    unseen = played(play, expected)
    with replay(path, record_mode="once"):
        recorded = played(play, ran)
    assert sorted(ran) == sorted(expected)
    assert recorded[0] == unseen[0]
    assert summaries(recorded[1].calls) == summaries(unseen[1].calls)

    with replay(path, record_mode="once") as tape:
        again = played(play, during)

    assert during == []
    assert tape.left == 0
    # The calls inside a tool that ran are part of it, so a tape does not have them.
    if play is not agent_in_a_tool:
        check_replayed(recorded, again)


# Calls that the recording does not answer


def pay_run(note: Note | None = None, amount: int = 5) -> Run:
    """The run of an agent that pays."""
    recorder = ToolCallRecorder()
    ask(agent_of(pay_tool(note or Ran()), calls=[("pay", {"amount": amount}, "c1")]), recorder)
    return recorder.run


@pytest.mark.parametrize("is_async", [False, True])
def test_call_outside_the_recording(*, is_async: bool) -> None:
    """The model is told what differs, also by a tool with an artifact, and the run goes on."""
    ran, recorder = Ran(), ToolCallRecorder()

    @tool(response_format="content_and_artifact")
    def chart(x: int) -> tuple[str, Any]:
        """Draw."""
        return ran("chart", ("chart", {}))

    playing = agent_of(pay_tool(ran), chart, calls=[("pay", {"amount": 7}, "c1"), ("chart", {"x": 1}, "c2")])
    with replay([pay_run()]) as tape:
        config: Any = {"callbacks": [recorder]}
        state = asyncio.run(playing.ainvoke(HI, config)) if is_async else playing.invoke(HI, config)

    assert (ran, tape.left) == ([], 2)
    results = [message for message in state["messages"] if message.type == "tool"]
    assert [(message.status, message.tool_call_id) for message in results] == [("error", "c1"), ("error", "c2")]
    assert str(results[0].content).startswith("ReplayError: left the recording at call 1: pay")
    assert state["messages"][-1].content == "done"
    for call, message in zip(recorder.run.calls, results, strict=True):
        assert call.execution is not None
        assert (call.execution.status.value, call.execution.executed) == ("error", False)
        assert f"ReplayError: {call.execution.left_recording}" == call.execution.error == message.content


def test_call_by_code_outside_the_recording() -> None:
    """Code that calls a tool receives an exception: a text would pass for a result."""
    ran = Ran()
    with replay([]), pytest.raises(ReplayError, match="left the recording at call 1: pay"):
        pay_tool(ran).invoke({"amount": 7})
    assert ran == []


def _documents(note: Note) -> BaseTool:
    @tool
    def find(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Find."""
        update = {"todos": [Document("x")], "messages": [ToolMessage("found", tool_call_id=call)]}
        return note("find", Command(update=update))

    return find


def _history(note: Note) -> BaseTool:
    @tool
    def forget(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Forget."""
        messages = [ToolMessage("forgotten", tool_call_id=call), AIMessage("I forgot")]
        return note("forget", Command(update={"messages": messages}))

    return forget


def _results_of_others(note: Note) -> BaseTool:
    @tool
    def answer(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Answer for another call, too."""
        messages = [ToolMessage("mine", tool_call_id=call), ToolMessage("theirs", tool_call_id="c2")]
        return note("answer", Command(update={"messages": messages}))

    return answer


@dataclass
class _Update:
    todos: list[Any]
    messages: list[Any]


def _object(note: Note) -> BaseTool:
    @tool
    def add_todo(call: Annotated[str, InjectedToolCallId]) -> Command:
        """Add."""
        return note("add_todo", Command(update=_Update(["a"], [ToolMessage("added", tool_call_id=call)])))

    return add_todo


@pytest.mark.parametrize("make", [_documents, _history, _results_of_others, _object])
def test_command_that_is_no_json(make: Callable[[Note], BaseTool]) -> None:
    """A command that cannot be repeated is refused; it is not taken for a result alone."""
    ran, first, second = Ran(), ToolCallRecorder(), ToolCallRecorder()

    def play(recorder: ToolCallRecorder) -> Any:
        node = ToolNode([find := make(ran)])
        model = scripted(asks((find.name, {}, "c1")), "done")
        return react_agent(model, node, state_schema=Todos).invoke(HI, {"callbacks": [recorder]})

    play(first)
    with replay([first.run]) as tape:
        play(second)

    assert len(ran) == 1
    assert (tape.left, str(tape)) == (1, "0 replayed, 0 faults, 1 outside the recording")
    left = str(second.run.calls[0].execution and second.run.calls[0].execution.left_recording)
    assert left.startswith(f"cannot replay call 1: {ran[0]} returned a Command with more than JSON")


# Hand-overs


def team(transfer: BaseTool, note: Note) -> Any:
    """Two agents, of which the second pays; each goes on in the script where the messages are."""
    steps = [asks((transfer.name, {}, "h1")), "alice done"]
    graph = StateGraph(MessagesState)
    graph.add_node("alice", react_agent(scripted(*steps), ToolNode([transfer]), name="alice"), destinations=("bob",))
    inner = ["what alice said", asks(("pay", {"amount": 5}, "b1")), "bob done"]
    graph.add_node("bob", react_agent(scripted(*inner), ToolNode([pay_tool(note)]), name="bob"))
    graph.add_edge(START, "alice")
    return graph.compile()


def transfer_tool(note: Note, name: str, *, is_marked: bool = False) -> BaseTool:
    """A tool that hands over to `bob`, with the state of its agent."""

    @tool(name)
    def hand_over(state: Annotated[dict, GraphState], call: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        messages = [*state["messages"], ToolMessage("over", tool_call_id=call, name=name)]
        return note(name, Command(goto="bob", graph=Command.PARENT, update={"messages": messages}))

    hand_over.metadata = {"__handoff_destination": "bob"} if is_marked else None
    return hand_over


@pytest.mark.parametrize("source", ["run", "tape"])
@pytest.mark.parametrize(("name", "is_marked"), [("transfer_to_support", False), ("go_to_bob", False), ("bob", True)])
def test_hand_over(name: str, source: str, *, is_marked: bool) -> None:
    """What only hands over does so again, and the tools of the agent that takes over are answered."""
    ran, first, second = Ran(), ToolCallRecorder(), ToolCallRecorder()

    def play(recorder: ToolCallRecorder) -> Any:
        return ask(team(transfer_tool(ran, name, is_marked=is_marked), ran), recorder)

    if source == "tape":
        with replay([], record_mode="all") as recorded:
            answer = play(first)
    else:
        answer = play(first)
        recorded = Tape([first.run])
    with replay(recorded) as tape:
        again = play(second)

    assert ran == [name, "pay", name]
    assert (again, tape.left) == (answer, 0)
    assert summaries(second.run.calls) == summaries(first.run.calls)
    assert [one.to_agent for one in second.run.handoffs] == ["bob"]
    assert [call.execution and call.execution.replayed for call in second.run.calls] == [False, True]


def test_hand_over_by_a_tool_that_may_do_more() -> None:
    """A tool that handed over, and whose name says something else, does not run."""
    ran, first, second = Ran(), ToolCallRecorder(), ToolCallRecorder()
    ask(team(transfer_tool(ran, "open_ticket"), ran), first)
    with replay([first.run]):
        state = team(transfer_tool(ran, "open_ticket"), ran).invoke(HI, {"callbacks": [second]})

    assert ran == ["open_ticket", "pay"]
    refused = str(next(message.content for message in state["messages"] if message.type == "tool"))
    assert refused.startswith("ReplayError: cannot replay call 1: open_ticket handed over to bob, and may do more")
    assert "metadata={'__handoff_destination': 'bob'}" in refused


def test_tool_inside_one_that_hands_over() -> None:
    """A tool that is called by one that runs as always is answered."""
    ran = Ran()
    pay = pay_tool(ran)

    @tool
    def hand_over() -> str:
        """Pay, and hand over."""
        return ran("hand_over", pay.invoke({"amount": 5}))

    hand_over.metadata = {"__handoff_destination": "bob"}
    with replay([pay_run()]):
        assert hand_over.invoke({}) == "paid 5 EUR"
    assert ran == ["hand_over"]


# People


def test_tool_that_asks_a_person() -> None:
    """A tool that waits in its body is recorded once, and is answered at once when it is replayed."""
    ran, first, second = Ran(), ToolCallRecorder(), ToolCallRecorder()

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran("pay")
        return f"paid: {interrupt('may I?')}"

    def agent() -> Any:
        model = scripted(asks(("pay", {"amount": 5}, "c1")), "done")
        return react_agent(model, ToolNode([pay]), checkpointer=memory())

    with replay([], record_mode="all") as tape:
        waiting = agent()
        waiting.invoke(HI, thread("T", first))
        state = waiting.invoke(Command(resume="yes"), thread("T", first))
    assert said(state)[2] == ("tool", "paid: yes")
    assert ran == ["pay", "pay"]

    for recorded in (tape, Tape(first.runs)):
        second = ToolCallRecorder()
        with replay(recorded):
            again = agent().invoke(HI, thread("T", second))
        assert said(again) == said(state)
        assert (ran, second.run.calls[0].output) == (["pay", "pay"], "paid: yes")


# Where a tape is visible


def test_tool_made_before() -> None:
    """Tools and agents that exist when a tape is opened are answered, too."""
    ran, recorded = Ran(), pay_run()
    playing = agent_of(pay_tool(ran), calls=[("pay", {"amount": 5}, "c1")])
    with replay([recorded]):
        state = playing.invoke(HI)
    assert (ran, said(state)[2]) == ([], ("tool", "paid 5 EUR"))
    playing.invoke(HI)
    assert ran == ["pay"]


def test_method_that_was_kept() -> None:
    """A method that was looked up before a tape was opened does not let its tool run, either."""
    ran = Ran()
    pay, recorded = pay_tool(ran), pay_run()
    recorded.calls[0].arguments["currency"] = "EUR"  # what the body of a tool receives has the defaults
    kept = [pay.run, pay.invoke, lambda args: asyncio.run(later(args)), RunnableLambda(pay.run).invoke]
    later = pay.arun
    before = len(kept)
    unbound = [lambda args: BaseTool.run(pay, args), lambda args: pay._run(**args, config={})]
    with replay([recorded] * (before + len(unbound))) as tape:
        args = {"amount": 5, "currency": "EUR"}
        assert [call(args) for call in kept + unbound] == ["paid 5 EUR"] * (before + len(unbound))
        for call in kept + unbound:
            with pytest.raises(ReplayError):
                call({"amount": 5, "currency": "USD"})
    assert (ran, tape.left) == ([], before + len(unbound))
    with replay([], record_mode="all") as tape:
        assert [call(args) for call in kept] == ["paid 5 EUR"] * before
    assert len(ran) == before
    with replay(tape):
        assert [call(args) for call in kept] == ["paid 5 EUR"] * before
    assert len(ran) == before


def test_plain_thread() -> None:
    """A tool that is called where no tape is visible raises before anything of it begins."""
    ran, errors = Ran(), list[Exception]()
    pay = pay_tool(ran)

    def call(run: Callable[[], Any]) -> None:
        try:
            run()
        except ReplayError as error:
            errors.append(error)

    calls = [
        lambda: pay.invoke({"amount": 5}),
        lambda: pay.run({"amount": 5}),
        lambda: asyncio.run(pay.ainvoke({"amount": 5})),
        lambda: asyncio.run(pay.arun({"amount": 5})),
    ]
    with replay([pay_run()]) as tape:
        for one in calls:
            worker = threading.Thread(target=call, args=(one,))
            worker.start()
            worker.join()
    assert (ran, len(errors), tape.left) == ([], len(calls), len(calls))


def test_nested_tapes() -> None:
    """The innermost tape answers, and closing it does not let tools run."""
    ran, runs = Ran(), [pay_run(), pay_run(amount=6)]
    pay = pay_tool(ran)
    with replay(runs[:1]) as outer:
        with replay(runs[1:]) as inner:
            assert pay.invoke({"amount": 6}) == "paid 6 EUR"
        assert pay.invoke({"amount": 5}) == "paid 5 EUR"
        with pytest.raises(ReplayError):
            pay.invoke({"amount": 6})
    assert (ran, outer.left, inner.left) == ([], 1, 0)
    assert "__getattribute__" not in vars(BaseTool)


# Faults


@pytest.mark.skipif(not FEATURES["retry"].is_due(), reason="the middleware is newer")
@pytest.mark.parametrize("is_async", [False, True])
def test_fault_and_a_retry(*, is_async: bool) -> None:
    """Middleware retries a call that a fault fails, and then it is answered."""
    from langchain.agents.middleware import ToolRetryMiddleware

    ran, recorder = Ran(), ToolCallRecorder()
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    playing = agent_of(pay_tool(ran), calls=[("pay", {"amount": 5}, "c1")], middleware=[retry])
    with replay([pay_run()], faults=[Fault("pay", error="TimeoutError: no answer", times=2)]) as tape:
        config: Any = {"callbacks": [recorder]}
        state = asyncio.run(playing.ainvoke(HI, config)) if is_async else playing.invoke(HI, config)

    assert (ran, str(tape)) == ([], "1 replayed, 2 faults, 0 outside the recording")
    (call,) = recorder.run.calls
    assert call.execution is not None
    assert (call.output, call.execution.attempts, call.execution.replayed) == ("paid 5 EUR", 3, True)
    assert said(state)[-1] == ("ai", "done")


@pytest.mark.parametrize(
    ("error", "shown"),
    [(ToolException("no funds"), "no funds"), ("ToolException: no funds", "no funds"), ("ValueError: odd", None)],
)
def test_fault_and_a_handler(error: Any, shown: str | None) -> None:
    """A fault is an exception inside the tool, which the tool's own handler words if it is of its kind."""
    ran = Ran()
    pay = pay_tool(ran)
    pay.handle_tool_error = True
    with replay([pay_run()], faults=[Fault("pay", error=error)]):
        if shown is None:
            with pytest.raises(ValueError, match="odd"):
                pay.invoke({"amount": 5})
        else:
            assert pay.invoke({"amount": 5}) == shown
    assert ran == []


def test_planted_output_and_delay() -> None:
    """A fault gives another output, and a late one, in both kinds of code."""
    ran = Ran()
    pay = pay_tool(ran)
    with replay([pay_run()], faults=[Fault("pay", output={"late": True}, delay=0.01)]):
        for call in (pay.invoke, lambda args: asyncio.run(pay.arun(args))):
            begin = time.monotonic()
            assert call({"amount": 5}) == {"late": True}
            assert time.monotonic() - begin >= 0.01
    assert ran == []


# Details


def test_artifact_for_code() -> None:
    """Code that calls a tool without an id receives what the model was shown, since there is no message."""
    _, run = played(message_with_artifact, Ran())
    ran = Ran()
    chart = StructuredTool.from_function(lambda x: ran("chart"), name="chart", description="Draw.")
    with replay([run]):
        assert chart.invoke({"x": 1}) == "a chart"
    assert ran == []


def test_arguments_of_a_custom_tool() -> None:
    """The only text of a custom tool of a provider has the name under which it is recorded."""
    _, run = played(custom_tool, Ran())
    assert [call.input_parameters for call in run.calls] == [{"input": "1+1"}]


def test_callbacks() -> None:
    """Callbacks of an answered call are those of any call, with the id that its caller chose."""
    from uuid import UUID

    seen: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **_: Any) -> None:
            seen.append((serialized["name"], run_id))

        def on_tool_end(self, output: Any, **_: Any) -> None:
            seen.append(output)

    chosen, ran = UUID(int=7), Ran()
    pay = pay_tool(ran)
    with replay([pay_run(), pay_run()]):
        pay.invoke({"amount": 5}, {"callbacks": [Handler()], "run_id": chosen})
        pay.run({"amount": 5}, callbacks=[Handler()], run_id=chosen)
    assert (ran, seen) == ([], [("pay", chosen), "paid 5 EUR"] * 2)


def test_declared_tool_that_may_run() -> None:
    """With `new_episodes`, a tool that only reads runs in code of both kinds, and the tape then has its answers."""
    ran = Ran()
    pay = pay_tool(ran)
    spec = ToolSpec(name="pay", effect="read")
    with replay([Run(input="hi", available_tools=[spec])], record_mode="new_episodes") as tape:
        outputs = [pay.invoke({"amount": 5}), asyncio.run(pay.ainvoke({"amount": 6}))]
    assert (ran, outputs) == (["pay", "pay"], ["paid 5 EUR", "paid 6 EUR"])
    with replay(tape):
        assert [pay.invoke({"amount": one}) for one in (6, 5)] == outputs[::-1]
    assert len(ran) == 2
