"""Replayed tools of LlamaIndex: every way in which a tool is called, with equal calls and without a run of the tool."""

# ruff: noqa: A006, ARG001, ARG002, ARG005 - tools and steps need not use all that they are given

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from li_agents import agent, asks, llm
from li_versions import FEATURES, WORKFLOWS_2
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, ReActAgent
from llama_index.core.agent.workflow.workflow_events import ToolCall as RequestedCall
from llama_index.core.agent.workflow.workflow_events import ToolCallResult
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import AudioBlock, ImageBlock, TextBlock
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation import NullSpanHandler, get_dispatcher
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import (
    AsyncBaseTool,
    BaseTool,
    FunctionTool,
    QueryEngineTool,
    RetrieverTool,
    ToolMetadata,
    ToolOutput,
)
from llama_index.core.tools.calling import acall_tool, call_tool
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
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

from toolgrade import ToolCall
from toolgrade.calls import CallStatus, Execution
from toolgrade.capture.doubles import is_replaying
from toolgrade.cases import Run
from toolgrade.replay import Fault, ReplayError, replay
from toolgrade.testing import HandOff
from toolgrade_llama_index import ToolCallRecorder, record, track


@dataclass
class World:
    """What the tools of a program do, and its recorder."""

    rec: ToolCallRecorder = field(default_factory=record)
    ran: list[str] = field(default_factory=list)
    """What ran of the tools, in order."""
    shown: list[Any] = field(default_factory=list)
    """What the program received."""

    def tool(self, function: Callable[..., Any] | None = None, **options: Any) -> FunctionTool:
        """A tool that notes that it ran, `add` by default."""

        def add(a: int, b: int) -> int:
            """Add."""
            self.ran.append("add")
            return a + b

        return FunctionTool.from_defaults(function or add, **options)


Program = Callable[[World], Awaitable[Any]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """A program of the table."""
    PROGRAMS[function.__name__] = function
    return function


ADD = asks(("add", {"a": 1, "b": 2}, "c1"))


# Agents


@program
async def function_agent(world: World) -> Any:
    """The usual agent."""
    return await agent(ADD, "3", tools=[world.tool()]).run(user_msg="1+2?")


@program
async def react_agent(world: World) -> Any:
    """An agent that writes its calls as text, with ids that LlamaIndex makes up."""
    text = 'Thought: I add.\nAction: add\nAction Input: {"a": 1, "b": 2}\n'
    model = llm(text, "Thought: I can answer.\nAnswer: 3")
    return await ReActAgent(name="A", description="reacts", tools=[world.tool()], llm=model).run(user_msg="1+2?")


@program
async def code_act_agent(world: World) -> Any:
    """The execution of the code is answered, so what the code calls does not run."""

    @track
    def pay(amount: int) -> str:
        world.ran.append("pay")
        return f"paid {amount}"

    def execute(code: str) -> str:
        """Run code."""
        world.ran.append("execute")
        printed: list[str] = []
        exec(code, {"pay": pay, "print": printed.append})  # noqa: S102 - that is what such agents do
        return "".join(printed)

    steps = ("<execute>print(pay(5))</execute>", "done")
    return await CodeActAgent(name="A", tools=[pay], llm=llm(*steps), code_execute_fn=execute).run(user_msg="pay")


@program
async def handoff(world: World) -> Any:
    """LlamaIndex's own tool hands over as ever; the tools before and after it are answered."""
    alice = agent(ADD, [HandOff("bob", "h1")], tools=[world.tool()], name="alice")
    bob = agent(asks(("add", {"a": 3, "b": 4}, "b1")), "7", tools=[world.tool()], name="bob")
    return await AgentWorkflow(agents=[alice, bob], root_agent="alice").run(user_msg="add")


@program
async def refused_handoff(world: World) -> Any:
    """A handoff to an agent that does not exist is refused as ever."""
    alice = agent([HandOff("ghost", "h1")], ADD, "me", tools=[world.tool()], name="alice")
    bob = agent("never", name="bob")
    return await AgentWorkflow(agents=[alice, bob], root_agent="alice").run(user_msg="add")


@program
async def parallel_calls(world: World) -> Any:
    """Equal calls at the same time each take an answer, and others end in another order than they began."""

    async def wait(number: int) -> str:
        world.ran.append(f"wait {number}")
        turn = world.ran.count(f"wait {number}")
        await asyncio.sleep(0.01 / number)
        return f"waited {number}, turn {turn}"

    calls = asks(*(("wait", {"number": number}, f"c{index}") for index, number in enumerate((1, 2, 2, 2, 3, 1))))
    return await agent(calls, "done", tools=[world.tool(wait)]).run(user_msg="wait")


@program
async def return_direct(world: World) -> Any:
    """The recorded answer of the tool is the answer of the run."""
    return await agent(ADD, "never", tools=[world.tool(return_direct=True)]).run(user_msg="1+2?")


@program
async def shown_error(world: World) -> Any:
    """An exception is shown to the model, which asks again."""

    def flaky(x: int) -> str:
        world.ran.append("flaky")
        if len(world.ran) == 1:
            raise KeyError("not yet")
        return "now"

    calls = [asks(("flaky", {"x": 1}, f"c{n}")) for n in range(2)]
    return await agent(*calls, "done", tools=[world.tool(flaky)]).run(user_msg="go")


@program
async def returned_error(world: World) -> Any:
    """An output that says it failed is one again, though no exception was raised."""

    def quota() -> ToolOutput:
        world.ran.append("quota")
        return ToolOutput(content="quota", tool_name="quota", raw_input={}, raw_output=None, is_error=True)

    return await agent(asks(("quota", {}, "c1")), "done", tools=[world.tool(quota)]).run(user_msg="go")


@program
async def mcp_results(world: World) -> Any:
    """Results of an MCP server, with and without its error flag, are shown to the model as LlamaIndex shows them."""

    def remote(fail: bool) -> Any:
        world.ran.append("remote")
        text = TextContent(type="text", text="Error: server said no" if fail else "fine")
        flag = "is_error" if "is_error" in CallToolResult.model_fields else "isError"
        return CallToolResult.model_validate({"content": [text], flag: fail})

    remote.__module__ = "llama_index.tools.mcp.base"
    calls = asks(("remote", {"fail": True}, "c1"), ("remote", {"fail": False}, "c2"))
    return await agent(calls, "done", tools=[world.tool(remote)]).run(user_msg="go")


@program
async def invalid_call(world: World) -> Any:
    """Arguments that the tool rejects are an exception of the tool."""
    return await agent(asks(("add", {"a": 1}, "c1")), ADD, "done", tools=[world.tool()]).run(user_msg="go")


@program
async def arguments_that_are_no_object(world: World) -> Any:
    """LlamaIndex runs a tool with none instead, and shows the model what it returns."""

    def free(a: int = 1) -> int:
        world.ran.append("free")
        return a

    def strict(a: int) -> int:
        world.ran.append("strict")
        return a

    calls = asks(("free", "not json", "c1"), ("strict", "not json", "c2"))
    return await agent(calls, "done", tools=[world.tool(free), world.tool(strict)]).run(user_msg="go")


async def _answered(handler: Any) -> Any:
    """The result of a run in which a person says yes."""
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
    return await handler


@program
async def sub_agent(world: World) -> Any:
    """An agent inside a tool does not run again; its calls are those that were recorded."""

    async def ask_math(question: str) -> str:
        world.ran.append("ask_math")
        return str(await agent(ADD, "three", tools=[world.tool()], name="math").run(user_msg=question))

    return await agent(asks(("ask_math", {"question": "1+2"}, "o1")), "3", tools=[world.tool(ask_math)]).run(
        user_msg="1+2?"
    )


class Weather(BaseModel):
    """The form of an answer."""

    city: str
    degrees: int


@program
async def structured_answer(world: World) -> Any:
    """The tool that carries the answer runs as ever."""
    paris = asks(("Weather", {"city": "Paris", "degrees": 3}, "s1"))
    return await agent(ADD, "Paris 3", paris, tools=[world.tool()], output_cls=Weather).run(user_msg="hot?")


# Tools


class Engine(CustomQueryEngine):
    """Answers with sources."""

    world: Any

    def custom_query(self, query_str: str) -> Response:
        """Answer."""
        self.world.ran.append("engine")
        node = NodeWithScore(node=TextNode(id_="n1", text="a source"), score=0.5)
        return Response(response=f"answer for {query_str}", source_nodes=[node])


class Finder(BaseRetriever):
    """Finds two nodes."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.world.ran.append("finder")
        return [NodeWithScore(node=TextNode(id_=name, text=f"text of {name}"), score=None) for name in ("n1", "n2")]


@program
async def query_engine_tool(world: World) -> Any:
    """The sources are there again, for recorders and for programs."""
    tool = QueryEngineTool.from_defaults(Engine(world=world), name="qe", description="answers")
    answer = await agent(asks(("qe", {"input": "hello"}, "c1")), "done", tools=[tool]).run(user_msg="go")
    with world.rec.single_run():
        output = await tool.acall("hello")
    world.shown += [output.raw_input, output.content, output.raw_output.source_nodes[0].node.get_content()]
    return answer


@program
async def retriever_tool(world: World) -> Any:
    """The nodes are there again."""
    tool = RetrieverTool.from_defaults(Finder(world), name="find", description="finds")
    answer = await agent(asks(("find", {"input": "x"}, "c1")), "done", tools=[tool]).run(user_msg="go")
    with world.rec.single_run():
        output = await tool.acall(input="x")
    world.shown += [(node.node_id, node.get_content()) for node in output.raw_output]
    return answer


@program
async def tool_with_context(world: World) -> Any:
    """The context is no argument, also not in the output that the program sees."""

    async def note(ctx: Context, text: str) -> str:
        world.ran.append("note")
        await ctx.store.set("text", text)
        return "noted"

    handler = agent(asks(("note", {"text": "n"}, "c1")), "done", tools=[note]).run(user_msg="go")
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            world.shown.append(event.tool_output.raw_input)
    return await handler


@program
async def callbacks(world: World) -> Any:
    """The recorded output is the final one; no callback runs, sync or async."""

    def changed(output: Any) -> str:
        world.ran.append("changed")
        return f"it is {output}"

    async def replaced(output: Any) -> ToolOutput:
        world.ran.append("replaced")
        return ToolOutput(content="other", tool_name="more", raw_input={}, raw_output={"other": output})

    tools = [world.tool(callback=changed), world.tool(name="more", async_callback=replaced)]
    more = asks(("more", {"a": 1, "b": 2}, "c2"))
    return await agent(ADD, more, "done", tools=tools).run(user_msg="go")


@program
async def images(world: World) -> Any:
    """An image is a block of the output again, between its texts."""

    def picture() -> list[Any]:
        world.ran.append("picture")
        return [TextBlock(text="see"), ImageBlock(image=b"\x89PNG" + bytes(9), image_mimetype="image/png")]

    tool = world.tool(picture)
    with world.rec.single_run():
        output = await tool.acall()
    world.shown += [type(block).__name__ for block in output.blocks] + [output.blocks[1].image]
    return await agent(asks(("picture", {}, "c1")), "done", tools=[tool]).run(user_msg="go")


OPAQUE = object()


@program
async def kinds_of_outputs(world: World) -> Any:
    """Outputs are shown to the model as they were: `None`, objects, nothing, a model, an opaque object, an address."""
    outputs: list[Any] = [
        *(None, {"a": [1, 2]}, [], "", Weather(city="Paris", degrees=3), OPAQUE, "at 0x7f"),
        [{"type": "text", "text": "no block"}],
        *(
            TextNode(text="a node"),
            [TextBlock(text="one"), TextBlock(text="two")],
            ImageBlock(url="http://a.test/b.png"),
        ),
    ]

    def give(index: int) -> Any:
        world.ran.append("give")
        return outputs[index]

    calls = asks(*(("give", {"index": index}, f"c{index}") for index in range(len(outputs))))
    return await agent(calls, "done", tools=[world.tool(give)]).run(user_msg="go")


@program
async def partial_parameters(world: World) -> Any:
    """They are no arguments, and the program sees them in the input of the output."""
    tool = world.tool(partial_params={"b": 41})
    answer = await agent(asks(("add", {"a": 1}, "c1")), "42", tools=[tool]).run(user_msg="go")
    with world.rec.single_run():
        world.shown.append((await tool.acall(a=1)).raw_input)
    return answer


class Custom(AsyncBaseTool):
    """A tool of the user's own."""

    def __init__(self, world: World, name: str = "custom") -> None:
        self.world = world
        self.name = name

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's metadata."""
        return ToolMetadata(name=self.name, description="custom")

    def call(self, input: str) -> ToolOutput:
        """Run."""
        self.world.ran.append(self.name)
        if input == "fail":
            raise RuntimeError(f"failed {len(self.world.ran)} times")
        return ToolOutput(content=f"got {input}", tool_name=self.name, raw_input={"input": input}, raw_output=input)

    async def acall(self, input: str) -> ToolOutput:
        """Run by the other method."""
        return self.call(input)


class SyncOnly(BaseTool):
    """A tool that LlamaIndex wraps for agents, with a method that has no span."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's metadata."""
        return ToolMetadata(name="sync", description="sync")

    def __call__(self, input: str) -> ToolOutput:
        """Run."""
        self.world.ran.append("sync")
        return ToolOutput(content=input, tool_name="sync", raw_input={"input": input}, raw_output=input)


class Methods:
    """Methods of tools, without their spans."""

    world: World

    def call(self, input: str) -> ToolOutput:
        """Run."""
        self.world.ran.append("mixed")
        return ToolOutput(content=input, tool_name="mixed", raw_input={}, raw_output=input)

    def acall(self, input: str) -> Awaitable[ToolOutput]:
        """Run in a task."""

        async def run() -> ToolOutput:
            await asyncio.sleep(0)
            return self.call(input)

        return run()


class Mixed(Methods, AsyncBaseTool):
    """A tool with methods of another class."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's metadata."""
        return ToolMetadata(name="mixed", description="mixed")


class Future(Mixed):
    """A tool whose method returns a future, in which LlamaIndex's span ends."""

    def acall(self, input: str) -> Awaitable[ToolOutput]:
        """Run in a task."""
        return asyncio.ensure_future(super().acall(input))


def of_class(kind: Callable[[World], BaseTool]) -> Program:
    """A program with a tool of this class, whose calls an agent makes."""

    async def run(world: World) -> Any:
        tool = kind(world)
        calls = asks((tool.metadata.get_name(), {"input": "x"}, "c1"))
        return await agent(calls, "done", tools=[tool]).run(user_msg="go")

    return run


PROGRAMS |= {f"class_{kind.__name__}": of_class(kind) for kind in (Custom, SyncOnly, Mixed, Future)}


@program
async def class_made_inside(world: World) -> Any:
    """A class that is defined while the tape is open is replaced, too."""

    class Late(Custom):
        async def acall(self, input: str) -> ToolOutput:
            world.ran.append("late")
            return await super().acall(input)

    return await of_class(Late)(world)


# Code that calls tools


@program
async def direct_calls(world: World) -> Any:
    """Each method of a tool, called by code, by position and by name."""
    add, custom = world.tool(), Custom(world)
    with world.rec.single_run("q"):
        outputs = [add(1, b=2), add.call(3, 4), await add.acall(a=5, b=6)]
        outputs += [custom("x"), custom.call(input="y"), await custom.acall("z"), SyncOnly(world)("s")]
    world.shown += [(output.content, output.raw_output, output.raw_input, output.is_error) for output in outputs]


@program
async def helpers(world: World) -> Any:
    """LlamaIndex's functions that call a tool, which try one argument by position, then by name."""
    add, custom, sync = world.tool(), Custom(world), SyncOnly(world)
    twice = world.tool(lambda number: world.ran.append("twice") or 2 * number, name="twice")
    with world.rec.single_run("q"):
        for tool, arguments in ((add, {"a": 1, "b": 2}), (twice, {"number": 4}), (custom, {"input": "x"})):
            world.shown += [call_tool(tool, arguments).content, (await acall_tool(tool, arguments)).content]
        world.shown.append((await acall_tool(sync, {"input": "s"})).content)


@program
async def raised_errors(world: World) -> Any:
    """An exception reaches code with its type and its text."""

    def boom(x: int) -> str:
        world.ran.append("boom")
        raise ZeroDivisionError(f"by {x}")

    tool = world.tool(boom)
    with world.rec.single_run("q"):
        for call in (tool, tool.call):
            with pytest.raises(ZeroDivisionError, match="by 1"):
                call(x=1)
        with pytest.raises(ZeroDivisionError, match="by 2"):
            await tool.acall(x=2)
        world.shown.append(call_tool(tool, {"x": 3}).content)


@program
async def nested_tools(world: World) -> Any:
    """A tool that calls tools is answered as a whole."""
    inner = world.tool()

    async def outer(n: int) -> int:
        world.ran.append("outer")
        return int((await inner.acall(a=n, b=n)).raw_output)

    with world.rec.single_run("q"):
        world.shown.append((await world.tool(outer).acall(n=2)).raw_output)


@program
async def tracked_functions(world: World) -> Any:
    """Tracked functions are answered, sync and async, and raise what they raised."""

    @track
    def pay(amount: int) -> dict[str, int]:
        world.ran.append("pay")
        if amount < 0:
            raise ValueError("negative")
        return {"paid": amount}

    @track
    async def wait(seconds: float) -> str:
        world.ran.append("wait")
        return f"waited {seconds}"

    with world.rec.single_run("q"):
        world.shown += [pay(5), await wait(seconds=0.5)]
        with pytest.raises(ValueError, match="negative"):
            pay(-1)
        world.shown.append(await world.tool(pay, name="pay_tool").acall(amount=6))


class Done(Event):
    """The user's own result of a call."""

    text: str


class Own(Workflow):
    """Asks a model, sends its calls as events, and runs them in a step with several workers."""

    def __init__(self, world: World, call: Callable[[Any, dict[str, Any]], Awaitable[ToolOutput]]) -> None:
        super().__init__(timeout=10)
        self.world = world
        self.run_tool = call
        self.tools: dict[str, Any] = {"add": world.tool(), "custom": Custom(world)}

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> RequestedCall | None:
        """Ask."""
        calls = asks(("add", {"a": 1, "b": 2}, "c1"), ("custom", {"input": "x"}, "c2"), ("add", {"a": 1, "b": 2}, "c3"))
        model = llm(calls)
        response = await model.achat_with_tools(list(self.tools.values()), user_msg="go")
        for call in model.get_tool_calls_from_response(response):
            ctx.send_event(RequestedCall(tool_name=call.tool_name, tool_kwargs=call.tool_kwargs, tool_id=call.tool_id))
        return None

    @step(num_workers=4)
    async def call(self, ctx: Context, ev: RequestedCall) -> Done:
        """Run one call."""
        output = await self.run_tool(self.tools[ev.tool_name], ev.tool_kwargs)
        return Done(text=output.content)

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Answer when all have ended."""
        done = ctx.collect_events(ev, [Done] * 3)
        return None if done is None else StopEvent(result=" ".join(sorted(one.text for one in done)))


def in_steps(call: Callable[[Any, dict[str, Any]], Awaitable[ToolOutput]]) -> Program:
    """A program whose steps call tools in this way."""
    return lambda world: Own(world, call).run(query="q")


async def _sync(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
    return tool(**arguments)  # type: ignore[no-any-return]


async def _in_a_thread(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
    return await asyncio.to_thread(tool.call, **arguments)


async def _in_another_loop(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
    return await asyncio.to_thread(lambda: asyncio.run(tool.acall(**arguments)))


async def _with_a_further_argument(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
    return await tool.acall(**arguments, tenant="t1")  # type: ignore[no-any-return]


PROGRAMS |= {
    "steps_acall": in_steps(lambda tool, arguments: tool.acall(**arguments)),
    "steps_call": in_steps(_sync),
    "steps_helper": in_steps(acall_tool),
    "steps_thread": in_steps(_in_a_thread),
    "steps_loop": in_steps(_in_another_loop),
}


@program
async def steps_that_add_arguments(world: World) -> Any:
    """A recorder notes the arguments of the call that a step runs, so these are compared."""
    own = Own(world, _with_a_further_argument)

    def add(a: int, b: int, tenant: str) -> str:
        world.ran.append("add")
        return f"{a + b} for {tenant}"

    own.tools = {
        "add": world.tool(add),
        "custom": world.tool(lambda input, tenant: world.ran.append("custom") or input),
    }
    return await own.run(query="q")


@program
async def step_that_waits(world: World) -> Any:
    """A step that waits for a person is run again from its beginning, and with it its calls."""

    class Waits(Workflow):
        @step
        async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
            total = await world.tool().acall(a=1, b=2)
            answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="?"))
            return StopEvent(result=f"{total} {await Custom(world).acall(answer.response)}")

    return await _answered(Waits(timeout=10).run(query="q"))


@program
async def helper_that_tries_twice(world: World) -> Any:
    """LlamaIndex's helper runs a tool that failed with an argument by position again, with it by name."""

    async def failing(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
        return await acall_tool(tool, {"input": "fail"} if "input" in arguments else arguments)

    return await Own(world, failing).run(query="q")


@program
async def step_that_handles_failures(world: World) -> Any:
    """A step that shows an exception in its own words meets the exception again."""

    async def shown(tool: Any, arguments: dict[str, Any]) -> ToolOutput:
        try:
            return await tool.acall(**{**arguments, "input": "fail"} if "input" in arguments else arguments)  # type: ignore[no-any-return]
        except RuntimeError as error:
            world.shown.append(repr(error))
            return ToolOutput(content=f"own text: {error}", tool_name="", raw_input={}, raw_output=None, is_error=True)

    return await Own(world, shown).run(query="q")


# Playing


@dataclass
class Played:
    """What a program did."""

    world: World
    runs: list[Run]
    answer: str


def play(name: str) -> Played:
    """Run a program of the table under a recorder."""
    world = World()

    async def go() -> str:
        with world.rec:
            return str(await PROGRAMS[name](world))

    answer = asyncio.run(go())
    assert world.rec.warnings == []
    return Played(world, world.rec.runs, answer)


def essence(call: ToolCall) -> tuple[Any, ...]:
    """What a replay repeats of a call."""
    how = call.execution or Execution()
    inside = [essence(child) for child in how.children]
    return (
        call.name,
        call.arguments,
        call.type,
        call.output,
        how.status,
        how.error,
        how.model_output,
        how.artifact,
        inside,
    )


def essences(played: Played, *, inside: bool = True) -> list[tuple[Any, ...]]:
    """The calls of a program, in order; the id of a call may be made up."""
    return [essence(call) if inside else essence(call)[:-1] for run in played.runs for call in run.calls]


def methods() -> dict[tuple[type, str], Any]:
    """The methods of all tools that a replay replaces."""
    kinds: list[type] = [BaseTool]
    for kind in kinds:
        kinds += kind.__subclasses__()
    names = ("__call__", "call", "acall", "__init_subclass__")
    return {(kind, name): vars(kind).get(name) for kind in kinds for name in names}


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Check that everything is as it was before."""
    before = methods()
    yield
    after = methods()
    assert [key for key, method in before.items() if after[key] is not method] == []
    assert not is_replaying()


def check_equal(first: Played, again: Played, *, inside: bool = True) -> None:
    """Check that a replay has the calls and answers of what it repeats, and that no tool ran."""
    assert first.world.ran
    assert again.world.ran == []
    assert essences(again, inside=inside) == essences(first, inside=inside)
    assert (again.answer, again.world.shown) == (first.answer, first.world.shown)
    assert [(run.status, run.actual_output, run.handoffs) for run in again.runs] == [
        (run.status, run.actual_output, run.handoffs) for run in first.runs
    ]
    assert [run.warnings for run in again.runs] == [run.warnings for run in first.runs]
    calls = [call for run in again.runs for call in run.calls if call.name != "handoff"]
    assert [call.name for call in calls if not (call.execution and call.execution.replayed)] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_replayed_program(name: str) -> None:
    """A recorded program is replayed from its runs: equal calls, marked, and nothing of the user's tools runs."""
    first = play(name)
    with unchanged(), replay(first.runs) as tape:
        again = play(name)

    check_equal(first, again)
    assert tape.left == 0
    assert sorted(play(name).world.ran) == sorted(first.world.ran)


IN_THREADS = {"code_act_agent", "tracked_functions"}
"""Programs in which a function that is not async calls a tool."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_replayed_from_a_recorded_tape(name: str) -> None:
    """A tape that is recorded while the tools run replays like recorded runs, and recording it changes nothing."""
    if name in IN_THREADS and not FEATURES["context_in_threads"].is_due():
        pytest.skip(FEATURES["context_in_threads"].why)
    plain = play(name)
    with unchanged(), replay([], record_mode="all") as tape:
        first = play(name)
    assert sorted(first.world.ran) == sorted(plain.world.ran)  # threads may begin in any order
    assert essences(first) == essences(plain)
    with replay(tape):
        check_equal(first, play(name), inside=False)


# What only a replay has


def test_a_tool_that_asks_a_person_answers_at_once() -> None:
    """A person who was asked inside a tool is not asked again; a tape that is recorded has the end of such a call."""
    if not WORKFLOWS_2:
        pytest.skip("before workflows 2, a tool that waits is not suspended")

    async def danger(ctx: Context, target: str) -> str:
        began.append(target)
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=target))
        return f"{target}: {answer.response}"

    began: list[str] = []

    def ask() -> tuple[Run, list[str]]:
        began.clear()

        async def go() -> Run:
            with record() as rec:
                calls = asks(("danger", {"target": "db"}, "c1"))
                await _answered(agent(calls, "done", tools=[danger]).run(user_msg="go"))
            return rec.last_run

        return asyncio.run(go()), began.copy()

    first, ran = ask()
    assert ran == ["db", "db"]
    with replay([], record_mode="all") as tape:
        recorded, ran = ask()
    assert (ran, essence(recorded.calls[0])) == (["db", "db"], essence(first.calls[0]))
    for source in ([first], tape):
        with replay(source) as again:
            run, ran = ask()
        assert (ran, again.left, essence(run.calls[0])) == ([], 0, essence(first.calls[0]))


ADDED = Run(calls=[ToolCall(name="add", input_parameters={"a": 1, "b": 2}, output=3)])
PAID = ToolCall(name="pay", input_parameters={"amount": 5}, output="paid 5")


def test_a_call_that_is_not_recorded() -> None:
    """Agents and code receive an output that is an error; a tracked function raises; the run goes on."""
    world = World()
    custom = Custom(world)

    @track
    def pay(amount: int) -> str:
        world.ran.append("pay")
        return "paid"

    async def go() -> tuple[str, list[ToolOutput]]:
        calls = asks(("add", {"a": 1, "b": 7}, "c1"), ("custom", {"input": "x"}, "c2"))
        with world.rec:
            answer = str(await agent(calls, "done", tools=[world.tool(), custom]).run(user_msg="go"))
            with world.rec.single_run():
                outputs = [
                    world.tool()(a=1),
                    custom.call("y"),
                    await custom.acall("z"),
                    call_tool(custom, {"input": "w"}),
                ]
                with pytest.raises(ReplayError, match="left the recording at call 7: pay"):
                    pay(5)
        return answer, outputs

    with replay([ADDED]) as tape:
        answer, outputs = asyncio.run(go())

    assert (answer, world.ran, tape.left) == ("done", [], 7)
    assert all(output.is_error and "ReplayError: left the recording" in output.content for output in outputs)
    calls = [call.execution for run in world.rec.runs for call in run.calls]
    assert [(how and how.status, how and how.executed) for how in calls] == [(CallStatus.ERROR, False)] * 7
    assert all(how and how.left_recording in (how.error or "") and how.left_recording for how in calls)


def test_planted_faults() -> None:
    """Code meets the exception itself, another output in LlamaIndex's form, and late answers."""
    world = World()
    error = ConnectionError("down")

    async def go() -> list[ToolOutput]:
        add, pay = world.tool(), world.tool(lambda amount: world.ran.append("pay"), name="pay")
        with world.rec, world.rec.single_run():
            with pytest.raises(ConnectionError) as raised:
                await add.acall(a=1, b=2)
            assert raised.value is error
            return [add(a=1, b=2), await add.acall(a=1, b=2), pay(amount=5), await pay.acall(amount=5)]

    faults = [Fault("add", error=error, delay=0.05, times=1), Fault("add", output={"sum": 4}, at=2)]
    faults += [Fault("pay", delay=0.05, times=1), Fault("pay", output=[{"type": "a", "data": 1}], at=2)]
    begin = time.monotonic()
    with replay([Run(calls=[*ADDED.calls, PAID])], faults=faults):
        outputs = asyncio.run(go())
    assert time.monotonic() - begin >= 0.1
    shown = [(output.raw_output, output.content, output.is_error) for output in outputs]
    assert shown == [
        ({"sum": 4}, "{'sum': 4}", False),
        (3, "3", False),
        ("paid 5", "paid 5", False),
        ([{"type": "a", "data": 1}], "[{'type': 'a', 'data': 1}]", False),
    ]
    assert world.ran == []
    statuses = [call.execution and call.execution.status for call in world.rec.last_run.calls]
    assert statuses == [CallStatus.ERROR, *[CallStatus.OK] * 4]


def test_threads() -> None:
    """A thread with a copy of the context sees the tape; in a plain one, no tool runs, called in whichever way."""
    world = World()
    seen: list[Any] = []

    def work() -> None:
        tool, custom = world.tool(), Custom(world)
        for call in (
            *(lambda: tool(a=1, b=2).content, lambda: call_tool(tool, {"a": 1, "b": 2}).content),
            *(lambda: call_tool(custom, {"input": "x"}).content, lambda: asyncio.run(custom.acall("x")).content),
            lambda: track(world.ran.append)("tracked"),
        ):
            try:
                seen.append(call())
            except ReplayError as error:
                seen.append(str(error))

    tracked = ToolCall(name="append", input_parameters={"object": "tracked"}, output="noted")
    custom = ToolCall(name="custom", input_parameters={"input": "x"}, output="got x")
    with replay([Run(calls=[*ADDED.calls, *ADDED.calls, custom, custom, tracked])]) as tape:
        for target in (contextvars.copy_context().run, lambda function: function()):
            thread = threading.Thread(target=target, args=(work,))
            thread.start()
            thread.join()
    assert (world.ran, tape.left >= len(seen[5:])) == ([], True)
    assert seen[:5] == ["3", "3", "got x", "got x", "noted"]
    assert all("was called where no tape is visible" in one for one in seen[5:])
    assert len(seen) == 10


def test_nested_tapes_and_tools_made_before_and_inside() -> None:
    """The inner tape answers; classes are as before once the outer one is closed, also those made meanwhile."""
    world = World()
    before = world.tool()
    other = Run(calls=[ToolCall(name="add", input_parameters={"a": 1, "b": 2}, output=33)])
    with unchanged(), replay([ADDED]):
        with replay([other]):

            class Late(Custom):
                def call(self, input: str) -> ToolOutput:
                    world.ran.append("late")
                    return super().call(input)

            outputs = [before(a=1, b=2).content]
        outputs.append(world.tool()(a=1, b=2).content)
        late = Late(world)
        assert late.call("x").is_error
    assert (outputs, world.ran) == (["33", "3"], [])
    assert (before(a=1, b=2).content, late("x").content, world.ran) == ("3", "got x", ["add", "late", "custom"])
    assert vars(Late)["call"].__wrapped__.__code__.co_filename == __file__


def test_data_that_was_not_recorded() -> None:
    """Of sound, recorders keep the size only, so that it cannot be shown to the model again."""

    def speak() -> AudioBlock:
        return AudioBlock(audio=b"RIFF" + bytes(40), format="wav")

    async def go() -> Run:
        with record() as rec:
            await agent(asks(("speak", {}, "c1")), "done", tools=[speak]).run(user_msg="go")
        return rec.last_run

    first = asyncio.run(go())
    with replay([first]):
        again = asyncio.run(go())
    left = again.calls[0].execution and again.calls[0].execution.left_recording
    assert left is not None
    assert left.startswith("cannot replay call 1: the recorded output has audio without its data")


@pytest.mark.parametrize("name", ["function_agent", "handoff", "structured_answer", "direct_calls", "helpers"])
def test_spans_are_those_of_the_tools(name: str) -> None:
    """What else listens to LlamaIndex sees the same spans of tools that run under a tape; of others, the outer ones."""

    def seen() -> tuple[Played, list[str]]:
        spans: list[str] = []

        class Handler(NullSpanHandler):
            def span_enter(self, id_: str, bound_args: Any, instance: Any = None, *_: Any, **__: Any) -> None:
                if isinstance(instance, BaseTool):
                    spans.append(id_[:-37])

        root = get_dispatcher()
        handlers = root.span_handlers.copy()
        root.add_span_handler(Handler())
        try:
            return play(name), spans
        finally:
            root.span_handlers = handlers

    plain, spans = seen()
    with replay([], record_mode="all"):
        assert seen()[1] == spans
    with replay(plain.runs):
        answered = seen()[1]
    left = iter(spans)
    assert answered
    assert all(span in left for span in answered)  # in this order
