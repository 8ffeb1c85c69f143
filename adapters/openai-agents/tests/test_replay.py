"""Replay: a table of scenes, each recorded and played again with tools that must not run, and what else may happen."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import dataclasses
import enum
import functools
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import agents
import pytest
from agents import FunctionTool, RunConfig, RunContextWrapper, Runner, function_tool
from agents.mcp import MCPServerStdio
from oa_agents import LIVE, Played, make_agent, model_output, play, played, summary
from oa_models import Scripted, asks, own_loop
from oa_versions import FEATURES, HANDLES_MCP_EXCEPTIONS, VERSION
from openai.types.responses import ResponseComputerToolCall, ResponseCustomToolCall
from openai.types.responses.response_output_item import LocalShellCall
from pydantic import BaseModel
from test_scenarios_local import Server, _patch_item, _shell_item
from test_scenarios_provider import _hosted_items

from toolgrade import Run, ToolCall, ToolSpec
from toolgrade.calls import Execution, ToolEffect
from toolgrade.replay import Fault, ReplayError, replay
from toolgrade.testing import AskFor, HandOff
from toolgrade_openai_agents import record


class Forecast(BaseModel):
    """What a tool returns."""

    city: str
    degrees: int


class Colour(enum.Enum):
    """What another tool returns."""

    RED = "red"


@dataclasses.dataclass
class Point:
    """What a third tool returns."""

    x: int


class Ran(list[str]):
    """The names of the tools that ran."""

    def tool(self, function: Callable[..., Any], **options: Any) -> Any:
        """Return a tool of a function that notes that it ran; the function may be asynchronous."""

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            self.append(function.__name__)
            return function(*args, **kwargs)

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            self.append(function.__name__)
            return await function(*args, **kwargs)

        return function_tool(strict_mode=False, **options)(awaited if asyncio.iscoroutinefunction(function) else plain)

    def returning(self, value: Any, **options: Any) -> Any:
        """Return a tool that returns a value."""

        def get() -> Any:
            """Get it."""
            return value

        return self.tool(get, **options)


GET = [AskFor("get", {}, "c1")]
Make = Callable[[Ran], Any]
SCENES: dict[str, Make] = {}


def scene(name: str, needs: str | None = None) -> Callable[[Make], Make]:
    """Add a scene: a function that makes an agent, or an agent and options of its run."""

    def add_scene(make: Make) -> Make:
        if needs is None or FEATURES[needs].is_due():
            SCENES[name] = make
        return make

    return add_scene


def returned(name: str, make: Callable[[], Any], needs: str | None = None, **options: Any) -> None:
    """Add a scene in which a tool returns a value."""
    scene(name, needs)(lambda ran: make_agent(GET, "done", tools=[ran.returning(make(), **options)]))


returned("text", lambda: "sunny")
returned("text that is JSON", lambda: '{"a": 1}')
returned("no text", lambda: "")
returned("nothing", lambda: None)
returned("truth", lambda: True)
returned("number", lambda: 1.5)
returned("object", lambda: {"a": {"b": [1, None]}})
returned("list", lambda: ["a", "b"])
returned("empty list", list)
returned("model", lambda: Forecast(city="Rome", degrees=20))
returned("models", lambda: [Forecast(city="Rome", degrees=20)])
returned("dataclass", lambda: Point(1))
returned("moment", lambda: datetime(2026, 1, 2, 3, 4))  # noqa: DTZ001 - of no time zone
returned("member", lambda: Colour.RED)
returned("set", lambda: {1})
returned("bytes", lambda: b"abc")
returned("any object", type("Thing", (), {"__str__": lambda _: "a thing"}))
returned("exception", lambda: ValueError("returned"))
IMAGE = "data:image/png;base64,aGVsbG8="
returned("image", lambda: agents.ToolOutputImage(image_url=IMAGE), "images")
returned("image as object", lambda: {"type": "image", "image_url": IMAGE}, "images")
returned("file", lambda: agents.ToolOutputFileContent(file_data="aGVsbG8=", filename="a.txt"), "images")
returned(
    "text and image",
    lambda: [agents.ToolOutputText(text="see"), agents.ToolOutputImage(image_url=IMAGE)],
    "images",
)
returned("texts", lambda: [agents.ToolOutputText(text="a"), agents.ToolOutputText(text="b")], "images")
if FEATURES["formatter"].is_due():
    returned("typed model", lambda: Forecast(city="Rome", degrees=20), output_type=Forecast)
    returned("typed object", lambda: {"city": "Rome"}, output_json_schema={"type": "object"})


@scene("asynchronous function, of a context, with defaults")
def _(ran: Ran) -> Any:
    async def pay(context: RunContextWrapper[Any], amount: int, currency: str = "EUR") -> str:
        """Pay."""
        return f"{context.context}: {amount} {currency}"

    agent = make_agent([AskFor("pay", {"amount": 5}, "c1")], "done", tools=[ran.tool(pay)])
    return agent, {"context": "shop"}


@scene("parallel equal calls")
def _(ran: Ran) -> Any:
    async def draw(seconds: float) -> str:
        """Draw a number."""
        await asyncio.sleep(seconds * len(ran) % 3)
        return f"number {len(ran)}"

    calls = [AskFor("draw", {"seconds": 0.01}, f"c{n}") for n in range(4)]
    return make_agent(calls, [AskFor("draw", {"seconds": 0.01}, "c9")], "done", tools=[ran.tool(draw)])


def by_hand(invoke: Any, kind: type = FunctionTool) -> Any:
    """A tool that is not made of a function."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    return kind("raw", "Raw.", schema, invoke, strict_json_schema=False)


RAW = [AskFor("raw", {"x": 1}, "c1"), AskFor("raw", {"x": 2}, "c2")]


@scene("tool made by hand")
def _(ran: Ran) -> Any:
    async def invoke(_context: Any, text: str) -> str:
        ran.append("raw")
        return f"raw {text}"

    return make_agent(RAW, "done", tools=[by_hand(invoke)])


@scene("tool made by hand, of a plain context")
def _(ran: Ran) -> Any:
    async def invoke(_context: RunContextWrapper[Any], text: str) -> str:
        ran.append("raw")
        return f"raw {text}"

    return make_agent(RAW, "done", tools=[by_hand(invoke)])


@scene("tool made by hand, of an object")
def _(ran: Ran) -> Any:
    class Invoke:
        async def __call__(self, _context: Any, text: str) -> str:
            ran.append("raw")
            return f"raw {text}"

    return make_agent(RAW, "done", tools=[by_hand(functools.partial(Invoke()))])


@scene("tool of a class of its own")
def _(ran: Ran) -> Any:
    class Raw(FunctionTool):
        async def invoke(self, _context: Any, text: str) -> str:
            ran.append(self.name)
            return f"raw {text}"

    tool = by_hand(None, Raw)
    tool.on_invoke_tool = tool.invoke
    return make_agent(RAW, "done", tools=[tool])


@scene("tool of a class with a default")
def _(ran: Ran) -> Any:
    async def invoke(_context: Any, text: str) -> str:
        ran.append("raw")
        return f"raw {text}"

    class Raw(FunctionTool):
        on_invoke_tool: Any = invoke

    return make_agent(RAW, "done", tools=[by_hand(invoke, dataclasses.dataclass(Raw))])


@scene("tool made by hand that raises")
def _(ran: Ran) -> Any:
    async def invoke(_context: Any, text: str) -> str:
        ran.append("raw")
        raise ValueError(text)

    return make_agent(RAW[:1], tools=[by_hand(invoke)])


PAY = [AskFor("pay", {"amount": 5}, "c1")]


def pay_tool(ran: Ran, **options: Any) -> Any:
    """A tool that pays."""

    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return ran.tool(pay, **options)


if FEATURES["approvals"].is_due():

    @scene("approval by a rule")
    def _(ran: Ran) -> Any:
        async def rule(_context: Any, arguments: dict[str, Any], _call_id: str) -> bool:
            return bool(arguments["amount"] != 5)

        return make_agent(PAY, "done", tools=[pay_tool(ran, needs_approval=rule)])


@scene("function with a name of the SDK's")
def _(ran: Ran) -> Any:
    class Agent:
        def as_tool(self) -> Any:
            def run_agent(amount: int) -> str:
                """Pay."""
                return f"paid {amount}"

            run_agent.__qualname__ = "Agent.as_tool.<locals>.run_agent"  # as if the class stood in a module
            return ran.tool(run_agent, name_override="pay")

    return make_agent(PAY, "done", tools=[Agent().as_tool()])


def failing(ran: Ran, **options: Any) -> Any:
    """A tool that fails."""

    async def pay(amount: int) -> str:
        """Pay."""
        raise ValueError(f"no funds for {amount}")

    return ran.tool(pay, **options)


@scene("failure")
def _(ran: Ran) -> Any:
    return make_agent(PAY, "done", tools=[failing(ran)])


@scene("failure that ends the run")
def _(ran: Ran) -> Any:
    return make_agent(PAY, tools=[failing(ran, failure_error_function=None)])


@scene("failure in other words")
def _(ran: Ran) -> Any:
    def word(_context: Any, error: Exception) -> str:
        return f"It failed: {error}"

    return make_agent(PAY, "done", tools=[failing(ran, failure_error_function=word)])


@scene("failure in words that are awaited")
def _(ran: Ran) -> Any:
    async def word(_context: Any, error: Exception) -> str:
        await asyncio.sleep(0)
        return f"It failed: {error}"

    return make_agent(PAY, "done", tools=[failing(ran, failure_error_function=word)])


@scene("failure without a text")
def _(ran: Ran) -> Any:
    def pay(amount: int) -> str:
        """Pay."""
        raise KeyError(amount)

    return make_agent(PAY, "done", tools=[ran.tool(pay)])


def late(ran: Ran, **options: Any) -> Any:
    """An agent whose tool is late."""

    async def pay(amount: int) -> str:
        """Pay."""
        await asyncio.sleep(5)
        return f"paid {amount}"

    return make_agent(PAY, "done", tools=[ran.tool(pay, timeout=0.01, **options)])


scene("late", "timeout")(late)
scene("late, in other words", "timeout")(
    lambda ran: late(ran, timeout_error_function=lambda _context, _error: "It was late.")
)
scene("late, which ends the run", "timeout")(lambda ran: late(ran, timeout_behavior="raise_exception"))


@scene("refused arguments, then better ones")
def _(ran: Ran) -> Any:
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    steps = [[AskFor("pay", arguments, f"c{n}")] for n, arguments in enumerate(({"amount": "x"}, "{", {"amount": 5}))]
    return make_agent(*steps, "done", tools=[ran.tool(pay)])


@scene("guardrail that refuses a call")
def _(ran: Ran) -> Any:
    @agents.tool_input_guardrail
    def guard(data: Any) -> Any:
        output = agents.ToolGuardrailFunctionOutput
        return output.reject_content("blocked") if "13" in data.context.tool_arguments else output.allow()

    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    tool = ran.tool(pay)
    tool.tool_input_guardrails = [guard]
    return make_agent([*PAY, AskFor("pay", {"amount": 13}, "c2")], "done", tools=[tool])


@scene("guardrail that replaces an output")
def _(ran: Ran) -> Any:
    @agents.tool_output_guardrail
    def guard(data: Any) -> Any:
        output = agents.ToolGuardrailFunctionOutput
        return output.reject_content("hidden") if "secret" in str(data.output) else output.allow()

    tool = ran.returning("a secret")
    tool.tool_output_guardrails = [guard]
    return make_agent(GET, "done", tools=[tool])


@scene("first tool that stops the run")
def _(ran: Ran) -> Any:
    return make_agent(GET, tools=[ran.returning({"k": 1})], tool_use_behavior="stop_on_first_tool")


@scene("behaviour that reads the results")
def _(ran: Ran) -> Any:
    def behave(_context: Any, results: Any) -> Any:
        return agents.ToolsToFinalOutputResult(is_final_output=True, final_output=f"got {results[0].output['k']}")

    return make_agent(GET, tools=[ran.returning({"k": 1})], tool_use_behavior=behave)


@scene("structured answer")
def _(ran: Ran) -> Any:
    answer = '{"city": "Rome", "degrees": 20}'
    return make_agent(GET, answer, tools=[ran.returning("20 degrees")], output_type=Forecast)


@scene("structured answer in the form of a call")
def _(ran: Ran) -> Any:
    answer = AskFor("json_tool_call", {"city": "Rome", "degrees": 20}, "c2")
    options: Any = {"tool_use_behavior": {"stop_at_tool_names": ["json_tool_call"]}, "output_type": Forecast}
    return make_agent(GET, [answer], tools=[ran.returning("20 degrees")], **options)


@scene("hand-over")
def _(ran: Ran) -> Any:
    bob = make_agent([AskFor("get", {}, "c2")], "done", tools=[ran.returning(2)], name="bob")
    return make_agent(GET, [HandOff("bob", "h1")], tools=[ran.returning(1)], handoffs=[bob])


@scene("agent as a tool")
def _(ran: Ran) -> Any:
    inner = make_agent([AskFor("get", {}, "i1")], "inner done", tools=[ran.returning(1)], name="inner")
    tool = inner.as_tool("ask", "Ask.")
    calls = [AskFor("ask", {"input": "hi"}, "c1"), AskFor("ask", {"wrong": 1}, "c2")]
    return make_agent(calls, "done", tools=[tool])


@scene("agents inside agents, at once")
def _(ran: Ran) -> Any:
    def ask(name: str, tools: Sequence[Any], *steps: Any) -> Any:
        return make_agent(*steps, tools=tools, name=name).as_tool(name, "Ask.")

    lower = [ask(f"low{n}", [ran.returning(n)], [AskFor("get", {}, f"i{n}")], f"low {n}") for n in range(2)]
    middle = ask(
        "middle", lower, [AskFor("low0", {"input": "a"}, "m0"), AskFor("low1", {"input": "b"}, "m1")], "middle"
    )
    other = ask("other", [ran.returning(5)], [AskFor("get", {}, "o1")], "other")
    calls = [AskFor("middle", {"input": "hi"}, "c1"), AskFor("other", {"input": "hi"}, "c2")]
    return make_agent(calls, "done", tools=[middle, other])


@scene("agent that a tool runs")
def _(ran: Ran) -> Any:
    async def delegate(n: int) -> str:
        """Ask another agent."""
        inner = make_agent([AskFor("get", {}, "i1")], f"inner {n}", tools=[ran.returning(1)], name="inner")
        return str((await Runner.run(inner, "hi")).final_output)

    return make_agent([AskFor("delegate", {"n": 1}, "c1")], "done", tools=[ran.tool(delegate)])


class Noting(Server):
    """An MCP server that notes its calls."""

    def __init__(self, ran: Ran) -> None:
        """Store where."""
        super().__init__()
        self.ran = ran

    async def call_tool(self, tool_name: str, arguments: Any, *args: Any, **kwargs: Any) -> Any:
        """Note the call; an error may look like an exception."""
        self.ran.append(tool_name)
        result = await super().call_tool("search", arguments, *args, **kwargs)
        if (arguments or {}).get("q") == "bad":
            result.content[0].text = "NotFound: it failed"
        return result


class Other(Noting):
    """Another server, with another tool."""

    name = "hub"

    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        """Return one tool."""
        return [tool.model_copy(update={"name": "find"}) for tool in await super().list_tools(*args, **kwargs)]


@scene("MCP server")
def _(ran: Ran) -> Any:
    steps = [[AskFor("search", {"q": q}, f"c{n}")] for n, q in enumerate(("tea", "bad"))]
    return make_agent(*steps, "done", mcp_servers=[Noting(ran)])


@scene("two MCP servers")
def _(ran: Ran) -> Any:
    calls = [AskFor("find", {"q": "tea"}, "c1"), AskFor("search", {"q": "tea"}, "c2")]
    return make_agent(calls, "done", mcp_servers=[Noting(ran), Other(ran)])


@scene("MCP server that raises")
def _(ran: Ran) -> Any:
    answers = ["done"] if HANDLES_MCP_EXCEPTIONS else []
    return make_agent([AskFor("search", {"q": "boom"}, "c1")], *answers, mcp_servers=[Noting(ran)])


@scene("MCP server that is asked no object")
def _(ran: Ran) -> Any:
    steps = [[AskFor("search", {"q": "tea"}, "c1")], [AskFor("search", "{", "c2")]]
    return make_agent(*steps, *(["done"] if HANDLES_MCP_EXCEPTIONS else []), mcp_servers=[Noting(ran)])


@scene("custom tool", "custom")
def _(ran: Ran) -> Any:
    def invoke(_context: Any, text: str) -> Any:
        ran.append("sql")
        if "bad" in text:
            raise ValueError(text)
        return {"rows": text}

    class Sql(agents.CustomTool):
        """As the tools of sandboxes are."""

    tool = Sql(name="sql", description="SQL.", on_invoke_tool=invoke)
    items = [
        ResponseCustomToolCall(id=f"ct_{n}", call_id=f"c{n}", name="sql", input=text, type="custom_tool_call")
        for n, text in enumerate(("SELECT 1", "bad"))
    ]
    return make_agent(items, "done", tools=[tool])


@scene("shell", "shell")
def _(ran: Ran) -> Any:
    def execute(_request: Any) -> Any:
        ran.append("shell")
        if len(ran) % 3 == 0:
            raise RuntimeError("ls boom")
        if len(ran) % 3 == 2:
            return "text"
        outcomes = [agents.ShellCallOutcome(type="exit", exit_code=2), agents.ShellCallOutcome(type="timeout")]
        outputs = [agents.ShellCommandOutput(stdout="a", stderr="b", outcome=one) for one in outcomes]
        return agents.ShellResult(output=outputs)

    steps = [[_shell_item(f"c{n}")] for n in range(3)]
    return make_agent(*steps, "done", tools=[agents.ShellTool(executor=execute)])


@scene("patches", "shell")
def _(ran: Ran) -> Any:
    class Editor:
        def create_file(self, _operation: Any) -> Any:
            ran.append("create")
            return agents.ApplyPatchResult(status="completed", output="created")

        async def update_file(self, operation: Any) -> Any:
            ran.append("update")
            if operation.path == "b":
                return agents.ApplyPatchResult(status="failed", output="not found")
            raise RuntimeError("bad patch")

        def delete_file(self, _operation: Any) -> Any:
            ran.append("delete")
            return "deleted"

    operations = [
        {"type": "create_file", "path": "a", "diff": "+a"},
        {"type": "update_file", "path": "b", "diff": "@@"},
        {"type": "update_file", "path": "c", "diff": "@@"},
        {"type": "delete_file", "path": "d"},
    ]
    items = [_patch_item(f"c{n}", operation) for n, operation in enumerate(operations)]
    return make_agent(items, "done", tools=[agents.ApplyPatchTool(editor=Editor())])


def local_shell(call_id: str) -> Any:
    """A request of a local shell."""
    action = {"type": "exec", "command": ["ls"], "env": {}}
    item = {"id": call_id, "call_id": call_id, "type": "local_shell_call", "status": "completed", "action": action}
    return LocalShellCall.model_validate(item)


if VERSION >= (0, 6):  # older releases end the run at such a call

    @scene("local shell")
    def _(ran: Ran) -> Any:
        async def execute(_request: Any) -> str:
            ran.append("local_shell")
            return "a.txt"

        return make_agent([local_shell("c1")], "done", tools=[agents.LocalShellTool(executor=execute)])

    @scene("local shell that raises")
    def _(ran: Ran) -> Any:
        def execute(_request: Any) -> str:
            ran.append("local_shell")
            raise RuntimeError("ls boom")

        return make_agent([local_shell("c1")], tools=[agents.LocalShellTool(executor=execute)])


def computer(ran: Ran, kind: Any) -> Any:
    """A computer of a kind that notes what is done to it."""

    def note(*_args: Any, **_options: Any) -> str:
        ran.append("computer")
        return "aGVsbG8="

    async def anote(*_args: Any, **_options: Any) -> str:
        return note()

    names = kind.__abstractmethods__ - {"environment", "dimensions"}
    methods = dict.fromkeys(names, anote if kind is agents.AsyncComputer else note)
    return type("Fake", (kind,), {**methods, "environment": "browser", "dimensions": (10, 10)})()


def click(call_id: str) -> Any:
    """A request to click."""
    action = {"type": "click", "button": "left", "x": 1, "y": 2}
    item = {"id": call_id, "call_id": call_id, "type": "computer_call", "status": "completed", "action": action}
    return ResponseComputerToolCall.model_validate({**item, "pending_safety_checks": []})


for _kind in (agents.Computer, agents.AsyncComputer):

    @scene(f"computer of the class {_kind.__name__}")
    def _(ran: Ran, kind: Any = _kind) -> Any:
        return make_agent([click("c1")], "done", tools=[agents.ComputerTool(computer=computer(ran, kind))])


# Playing


def made(make: Make, ran: Ran, mode: str = "") -> tuple[Any, dict[str, Any]]:
    """The agent and the options of a scene; without tracing, spans say nothing."""
    one = make(ran)
    agent, options = one if isinstance(one, tuple) else (one, {})
    return agent, {**options, "run_config": RunConfig(tracing_disabled=True)} if mode == "untraced" else options


def shown(agent: Any) -> list[Any]:
    """What the model was shown of its calls at last; several texts as one."""
    items = [item for item in agent.model.inputs[-1] if isinstance(item, dict)]
    outputs = [item.get("output") for item in items if str(item.get("type")).endswith("_output")]
    return [
        "".join(part["text"] for part in one)
        if isinstance(one, list) and one and all(part.get("type") == "input_text" for part in one)
        else one
        for one in outputs
    ]


def essence(call: ToolCall) -> dict[str, Any]:
    """What a replay must repeat of a call."""
    assert call.execution
    how = call.execution
    return {
        **summary(call),
        "shown": how.model_output,
        "executed": how.executed,
        "inside": list(map(essence, how.children)),
    }


def check_replayed(calls: Sequence[ToolCall]) -> None:
    """Check that each call is marked whose tool would have run; agents run, on calls that are marked."""
    for call in calls:
        how = call.execution
        assert how
        is_refused = "Invalid JSON input" in str(how.error)  # as the SDK says about arguments
        ran = how.executed and how.status.value in ("ok", "error") and not is_refused
        assert how.replayed or how.children or not ran, call
        check_replayed(how.children)


TOOLS = ("FunctionTool", "CustomTool", "ShellTool", "LocalShellTool", "ApplyPatchTool", "ComputerTool")


@contextmanager
def leaves_no_trace(agent: Any = None) -> Iterator[None]:
    """Check that afterwards the SDK and the tools of an agent are as before."""

    def state() -> list[dict[str, Any]]:
        kinds = [getattr(agents, name) for name in TOOLS if hasattr(agents, name)]
        modules = [sys.modules.get(name) for name in ("agents.run_internal.tool_actions", "agents._run_impl")]
        kinds += [module.ComputerAction for module in modules if module is not None]
        holders = [*kinds, *(() if agent is None else agent.tools)]
        # `copy` keeps a note on each class.
        return [{name: value for name, value in vars(one).items() if name != "__slotnames__"} for one in holders]

    before = state()
    yield
    assert [one.keys() for one in before] == [one.keys() for one in state()]
    assert all(now[name] is value for old, now in zip(before, state(), strict=True) for name, value in old.items())


def check_same(original: Played, again: Played) -> None:
    """Check that a run was the same once more."""
    assert list(map(essence, again.run.calls)) == list(map(essence, original.run.calls))
    assert (again.run.status, again.run.error, again.run.actual_output) == (
        original.run.status,
        original.run.error,
        original.run.actual_output,
    )
    assert repr(again.error) == repr(original.error)
    assert getattr(again.result, "final_output", None) == getattr(original.result, "final_output", None)


@pytest.mark.parametrize("mode", [*LIVE, "untraced"])
@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str, mode: str) -> None:
    """A recorded run is the same once more, to its caller and to its model, without a run of any tool."""
    ran = Ran()
    agent, options = made(SCENES[name], ran, mode)
    original = play(mode, agent, **options)
    assert ran
    ran.clear()
    again, options = made(SCENES[name], ran, mode)

    with leaves_no_trace(again), replay([original.run]) as tape:
        replayed = play(mode, again, **options)

    assert not ran
    assert tape.left == 0
    check_same(original, replayed)
    check_replayed(replayed.run.calls)
    assert shown(again) == shown(agent)
    with_tools, options = made(SCENES[name], ran, mode)
    play(mode, with_tools, **options)
    assert ran


@pytest.mark.parametrize("name", SCENES)
def test_scene_on_a_recorded_tape(name: str) -> None:
    """A tape that the tools themselves were recorded on is played like a recorded run."""
    ran = Ran()
    agent, options = made(SCENES[name], ran)
    with replay([], record_mode="all") as tape:
        original = play("record", agent, **options)
    assert ran
    ran.clear()
    again, options = made(SCENES[name], ran)

    with replay(tape) as tape:
        replayed = play("record", again, **options)

    assert not ran
    assert tape.left == 0
    if name == "agent that a tool runs":  # what such a tool calls is a part of it
        original.run.calls[0].execution.children.clear()
    if name == "late":  # the recorder sees only its text
        assert replayed.run.calls[0].execution.error == f"ToolTimeoutError: {E_LATE}"
    else:
        check_same(original, replayed)
    check_replayed(replayed.run.calls)
    assert shown(again) == shown(agent)


E_LATE = "Tool 'pay' timed out after 0.01 seconds."


# Tools


PAID = ToolCall(name="pay", input_parameters={"amount": 5}, output="paid 5")
TAPE = [Run(input="hi", calls=[PAID])]


def context_of(tool: Any, text: str) -> Any:
    """The context of a call."""
    from agents.tool_context import ToolContext

    return ToolContext(context=None, tool_name=tool.name, tool_call_id="c1", tool_arguments=text)


async def call(tool: Any, text: str = '{"amount": 5}') -> Any:
    """Call a tool without a run."""
    return await tool.on_invoke_tool(context_of(tool, text), text)


def test_tool_without_a_run() -> None:
    """A tool that a program calls itself is answered, also if it was made or changed meanwhile."""
    ran = Ran()
    tool = pay_tool(ran)
    with leaves_no_trace(make_agent(tools=[tool])), replay([Run(calls=[PAID] * 4)]):
        copies = [tool, pay_tool(ran), copy.copy(tool), dataclasses.replace(tool, description="Pay now.")]
        assert [asyncio.run(call(one)) for one in copies] == ["paid 5"] * 4
        assert "left the recording" in asyncio.run(call(copies[-1]))
        read = tool.on_invoke_tool

    assert not ran
    assert [asyncio.run(call(one)) for one in copies] == ["paid 5"] * 4
    assert ran == ["pay"] * 4
    for one in copies:
        assert vars(one)["on_invoke_tool"] is one.on_invoke_tool
        assert not hasattr(one.on_invoke_tool, "toolgrade_original")
    assert asyncio.run(read(context_of(tool, "{}"), '{"amount": 5}')) == "paid 5"
    assert len(ran) == 5


def test_double_of_a_tool() -> None:
    """What stands in place of a tool's code is of the same kind, and it is one as long as somebody holds it."""

    async def invoke(context: RunContextWrapper[Any], text: str) -> str:
        raise AssertionError(f"{context} {text}")

    tools = [pay_tool(Ran()), by_hand(invoke), by_hand(functools.partial(invoke))]
    before = [tool.on_invoke_tool for tool in tools]
    with replay(TAPE):
        for tool, original in zip(tools, before, strict=True):
            double = tool.on_invoke_tool
            assert double is not original
            assert double is tool.on_invoke_tool
            assert isinstance(double, type(original)) or isinstance(original, functools.partial)
            assert inspect.signature(double) == inspect.signature(original)
            if not isinstance(original, functools.partial):
                assert vars(original).items() <= vars(double).items() or hasattr(original, "_invoke_tool_impl")
            assert getattr(tool, "__wrapped__", None) is not double
            tool.on_invoke_tool = double
            assert vars(tool)["on_invoke_tool"] is original
            tool.on_invoke_tool = invoke
            assert tool.on_invoke_tool.toolgrade_original is invoke
            tool.on_invoke_tool = double
        assert get_type_hints(tools[1].on_invoke_tool)["context"] == RunContextWrapper[Any]
        with pytest.raises(AttributeError):
            _ = tools[0].no_such_attribute
        assert "on_invoke_tool" not in vars(FunctionTool)


def test_cloned_agent() -> None:
    """A clone has the same tools."""
    ran = Ran()
    agent = make_agent(PAY, "done", tools=[pay_tool(ran)]).clone(name="clone")
    with replay(TAPE) as tape:
        one = play("record", agent.clone(name="another"))

    assert (one.calls[0].output, ran, str(tape)) == ("paid 5", [], "1 replayed, 0 faults, 0 outside the recording")


def test_run_that_is_not_recorded() -> None:
    """Without a recorder a run is answered, too; `run_sync` as well."""
    ran = Ran()
    agent = make_agent(PAY, "paid", PAY, "again", tools=[pay_tool(ran)])
    with replay([Run(calls=[PAID] * 2)]) as tape, own_loop():
        first = asyncio.run(Runner.run(agent, "hi"))
        asyncio.set_event_loop(asyncio.new_event_loop())
        second = Runner.run_sync(agent, "hi")
        asyncio.get_event_loop().close()

    assert (first.final_output, second.final_output, ran, tape.left) == ("paid", "again", [], 0)


# Answers


@pytest.mark.skipif(not FEATURES["formatter"].is_due(), reason=FEATURES["formatter"].why)
def test_call_by_a_program() -> None:
    """A program of the model gets JSON, and not the text that a model would get."""
    from openai.types.responses.response_output_item import Program

    def go(ran: Ran) -> tuple[Run, list[Any]]:
        caller = {"type": "program", "caller_id": "p1"}
        call = type(asks(GET[0])).model_validate({**asks(GET[0]).model_dump(), "caller": caller})
        program = Program(id="p", call_id="p1", code="get()", fingerprint="f", type="program")
        tool = ran.returning({"city": "Rome"}, allowed_callers=["programmatic"])
        agent = make_agent([program, call], "done", tools=[tool, agents.ProgrammaticToolCallingTool()])
        with record() as recorder:
            asyncio.run(Runner.run(agent, "hi"))
        return recorder.last_run, shown(agent)

    ran = Ran()
    original, first = go(ran)
    assert (ran, first) == (["get"], ['{"city":"Rome"}'])
    with replay([original]) as tape:
        again, second = go(ran)

    assert (ran, second, tape.left) == (["get"], first, 0)
    assert list(map(essence, again.calls)) == list(map(essence, original.calls))


def test_agent_whose_calls_are_not_recorded() -> None:
    """An agent that is a tool gives its recorded answer if nothing inside is recorded."""
    ran = Ran()
    inner = make_agent(PAY, "inner done", tools=[pay_tool(ran)], name="inner")
    asking = [AskFor("ask", {"input": "hi"}, "c1")]
    recorded = ToolCall(name="ask", input_parameters={"input": "hi"}, output="recorded")
    with replay([Run(calls=[recorded])]) as tape:
        one = play("record", make_agent(asking, "done", tools=[inner.as_tool("ask", "Ask.")]))

    assert (one.calls[0].output, ran, tape.left, len(inner.model.inputs)) == ("recorded", [], 0, 0)


def test_agent_that_is_asked_something_else() -> None:
    """An agent that is a tool runs, and takes what is recorded inside its next call; what is not there, it is told."""
    ran = Ran()
    steps = [*PAY, AskFor("pay", {"amount": 6}, "c2")]
    inner = make_agent(steps, "inner done", tools=[pay_tool(ran)], name="inner").as_tool("ask", "Ask.")
    recorded = ToolCall(name="ask", input_parameters={"input": "hi"}, execution=Execution(children=[PAID]))
    with replay([Run(calls=[recorded])]) as tape:
        one = play("record", make_agent([AskFor("ask", {"input": "hello"}, "c0")], "done", tools=[inner]))

    [asked] = one.calls
    assert asked.execution
    assert (asked.output, asked.execution.replayed, ran, tape.left) == ("inner done", False, [], 1)
    first, second = [child.execution for child in asked.execution.children]
    assert first
    assert first.replayed
    assert second
    assert "left the recording at call 2: pay" in str(second.left_recording)


def test_agent_that_refuses_its_arguments() -> None:
    """A call that the SDK refuses takes nothing of the recording."""
    ran = Ran()
    inner = make_agent(PAY, "inner done", tools=[pay_tool(ran)], name="inner").as_tool("ask", "Ask.")
    calls = [[AskFor("ask", {"wrong": 1}, "c0")], [AskFor("ask", {"input": "hello"}, "c1")]]
    recorded = ToolCall(name="ask", input_parameters={"input": "hi"}, execution=Execution(children=[PAID]))
    with replay([Run(calls=[recorded])]) as tape:
        one = play("record", make_agent(*calls, "done", tools=[inner]))

    assert ([call.output for call in one.calls], ran, tape.left) == ([None, "inner done"], [], 0)


LEFT = "ReplayError: left the recording at call 1: "


def _outside(name: str) -> tuple[Any, Ran]:
    """An agent that calls a tool as nobody recorded it."""
    ran = Ran()
    if name == "custom":
        tool = agents.CustomTool(name="sql", description="SQL.", on_invoke_tool=lambda *_: ran.append("sql"))
        item = ResponseCustomToolCall(id="ct_1", call_id="c1", name="sql", input="x", type="custom_tool_call")
        return make_agent([item], "done", tools=[tool]), ran
    if name == "shell":
        return make_agent([_shell_item("c1")], "done", tools=[agents.ShellTool(executor=ran.append)]), ran
    if name == "patch":
        tool = agents.ApplyPatchTool(editor=SimpleNamespace(delete_file=ran.append))
        return make_agent([_patch_item("c1", {"type": "delete_file", "path": "a"})], "done", tools=[tool]), ran
    if name == "local shell":
        return make_agent([local_shell("c1")], "done", tools=[agents.LocalShellTool(executor=ran.append)]), ran
    if name == "computer":
        tool = agents.ComputerTool(computer=computer(ran, agents.AsyncComputer))
        return make_agent([click("c1")], "done", tools=[tool]), ran
    if name == "server":
        return make_agent([AskFor("search", {"q": "tea"}, "c1")], "done", mcp_servers=[Noting(ran)]), ran
    if name == "by hand":
        return make_agent(RAW[:1], "done", tools=[by_hand(ran.append)]), ran
    options: dict[str, Any] = {"function": {}, "failing": {"failure_error_function": None}, "typed": {}}[name]
    if name == "typed":
        options = {"output_type": Forecast}
    return make_agent(PAY, "done", tools=[pay_tool(ran, **options)]), ran


OUTSIDE = {
    **dict.fromkeys(("function", "failing", "server", "by hand"), ""),
    "computer": "",
    "custom": "custom",
    "shell": "shell",
    "patch": "shell",
    "typed": "formatter",
    **({"local shell": ""} if VERSION >= (0, 6) else {}),
}


@pytest.mark.parametrize("name", [name for name, needs in OUTSIDE.items() if not needs or FEATURES[needs].is_due()])
def test_call_outside_the_recording(name: str) -> None:
    """A call that nobody recorded runs nothing, and the run goes on, except after a screen that nobody can show."""
    agent, ran = _outside(name)
    with leaves_no_trace(agent), replay([]) as tape:
        one = play("record", agent)

    [asked] = one.run.calls
    assert asked.execution
    how = asked.execution
    assert (ran, tape.left, how.status.value, how.executed, how.replayed) == ([], 1, "error", False, False)
    assert str(how.error).startswith(LEFT)
    assert str(how.left_recording) == str(how.error).removeprefix("ReplayError: ")
    if name == "computer":
        assert isinstance(one.error, ReplayError)
        return
    assert (one.error, one.run.actual_output) == (None, "done")
    if name != "typed":  # a text is no answer of such a tool
        assert LEFT in str(shown(agent)[0])


def test_recovery() -> None:
    """A tool that fails by a fault is asked again, and then has its recorded answer; the handler words the failure."""
    ran = Ran()
    errors: list[Exception] = []

    def word(_context: Any, error: Exception) -> str:
        errors.append(error)
        return f"Try again: {error}"

    steps = [PAY, [AskFor("pay", {"amount": 5}, "c2")]]
    agent = make_agent(*steps, "done", tools=[pay_tool(ran, failure_error_function=word)])
    with replay(TAPE, faults=[Fault("pay", error=ConnectionError("no network"), times=1)]) as tape:
        one = play("record", agent)

    first, second = one.calls
    assert first.execution
    assert (first.execution.error, model_output(first)) == ("ConnectionError: no network", "Try again: no network")
    assert (second.output, ran, shown(agent)) == ("paid 5", [], ["Try again: no network", "paid 5"])
    assert ([type(error) for error in errors], str(tape)[:21]) == ([ConnectionError], "1 replayed, 1 fault, ")


def test_planted_output_and_delay() -> None:
    """A fault answers something else, of any type, later."""
    ran = Ran()
    agent = make_agent(PAY, "done", tools=[pay_tool(ran)])
    with replay(TAPE, faults=[Fault("pay", output=["a", {"b": 1}], delay=0.01)]):
        one = play("record", agent)

    [asked] = one.calls
    assert asked.execution
    assert asked.execution.duration
    assert (asked.output, ran, asked.execution.duration >= 0.01) == (["a", {"b": 1}], [], True)
    assert shown(agent) == ["['a', {'b': 1}]"]


@pytest.mark.skipif(not FEATURES["timeout"].is_due(), reason=FEATURES["timeout"].why)
def test_fault_that_is_late() -> None:
    """A delay that is longer than a tool may take is a timeout."""
    agent = late(Ran())
    with replay(TAPE, faults=[Fault("pay", delay=5)]):
        one = play("record", agent)

    [asked] = one.calls
    assert asked.execution
    assert (asked.execution.status.value, shown(agent)) == ("error", [E_LATE])


def test_fault_of_a_server() -> None:
    """A fault of a tool of an MCP server fails like its server."""
    ran = Ran()
    agent = make_agent([AskFor("search", {"q": "tea"}, "c1")], "done", mcp_servers=[Noting(ran)])
    with replay([], faults=[Fault("search", error="TimeoutError: no answer")]):
        one = play("record", agent)

    [asked] = one.run.calls
    assert asked.execution
    assert (asked.execution.error, ran) == ("TimeoutError: no answer", [])
    assert (one.error is None) == HANDLES_MCP_EXCEPTIONS


def test_new_episodes() -> None:
    """What is not recorded runs and is recorded, if it only reads; an error of a server is noted as such."""
    ran = Ran()
    specs = [ToolSpec(name="search", effect=ToolEffect.READ)]
    steps = [[AskFor("search", {"q": q}, q)] for q in ("tea", "bad")]
    agent = make_agent(*steps, [*PAY], "done", tools=[pay_tool(ran)], mcp_servers=[Noting(ran)])
    with replay([Run(available_tools=specs)], record_mode="new_episodes") as tape:
        one = play("record", agent)

    assert (ran, tape.left) == (["search", "search"], 1)
    tea, bad = tape.runs[-1].calls
    assert bad.execution
    assert (tea.output, bad.execution.error) == (one.calls[0].output, "NotFound: it failed")


# People


def approve(ran: Ran) -> Any:
    """A tool that needs approval."""
    return pay_tool(ran, needs_approval=True)


@pytest.mark.skipif(not FEATURES["approvals"].is_due(), reason=FEATURES["approvals"].why)
@pytest.mark.parametrize("stored", [False, True])
def test_approval(stored: bool) -> None:
    """A call that a person approves is answered, and one that is rejected runs nothing, and takes no answer."""

    async def go(agent: Any) -> Run:
        with record() as recorder:
            state = (await Runner.run(agent, "hi")).to_state()
            if stored:
                state = await agents.RunState.from_json(agent, state.to_json())
            for item in state.get_interruptions():
                (state.approve if item.raw_item.call_id == "c2" else state.reject)(item)
            await Runner.run(agent, state)
        return recorder.last_run

    def agent_of(ran: Ran) -> Any:
        return make_agent([*PAY, AskFor("pay", {"amount": 5}, "c2")], "done", tools=[approve(ran)])

    ran = Ran()
    original = asyncio.run(go(agent_of(ran)))
    assert ran == ["pay"]
    with replay([original]) as tape:
        again = asyncio.run(go(agent_of(ran)))

    assert (ran, tape.left) == (["pay"], 0)
    assert [one.execution.status.value for one in again.calls if one.execution] == ["rejected", "ok"]
    assert list(map(essence, again.calls)) == list(map(essence, original.calls))
    check_replayed(again.calls)


@pytest.mark.skipif(not FEATURES["approvals"].is_due(), reason=FEATURES["approvals"].why)
@pytest.mark.parametrize("recorded", ["run", "tape"])
def test_approval_inside_an_agent(recorded: str) -> None:
    """An agent that is a tool goes on in its place of the recording after a person has approved a call inside."""

    async def go(agent: Any) -> Run:
        with record() as recorder:
            state = (await Runner.run(agent, "hi")).to_state()
            for item in state.get_interruptions():
                state.approve(item)
            await Runner.run(agent, state)
        return recorder.last_run

    def agent_of(ran: Ran) -> Any:
        calls = [AskFor("get", {}, "g1"), *PAY]
        inner = make_agent(calls, "inner", tools=[approve(ran), ran.returning(7)], name="inner")
        return make_agent([AskFor("ask", {"input": "hi"}, "a1")], "done", tools=[inner.as_tool("ask", "Ask.")])

    ran = Ran()
    with replay([], record_mode="all") as tape:
        original = asyncio.run(go(agent_of(ran)))
    assert sorted(ran) == ["get", "pay"]
    ran.clear()
    with replay([original] if recorded == "run" else tape) as tape:
        again = asyncio.run(go(agent_of(ran)))

    assert (ran, tape.left) == ([], 0)
    assert list(map(essence, again.calls)) == list(map(essence, original.calls))
    check_replayed(again.calls)


# Places


def test_threads() -> None:
    """A thread with a copied context is answered, in a loop of its own; a plain one is refused, and runs nothing."""
    ran = Ran()
    results: list[Any] = []

    def run() -> None:
        agent = make_agent(PAY, "done", tools=[pay_tool(ran)])
        asyncio.run(Runner.run(agent, "hi"))
        results.extend(shown(agent))

    with replay(TAPE):
        for target in (functools.partial(contextvars.copy_context().run, run), run):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    assert (results[0], ran) == ("paid 5", [])
    assert results[1].startswith("An error occurred while running the tool.")


def test_hosted_tools() -> None:
    """What the provider of the model runs is not replayed, which the run says, once."""
    call = _hosted_items()[0]
    with replay([]), record() as recorder:
        asyncio.run(Runner.run(make_agent([call], GET, "done", tools=[Ran().returning(1)]), "hi"))
        run = recorder.last_run
    assert run.warnings == ["web_search is run by the provider of the model, and not replayed"]


def test_process_wide_recorder() -> None:
    """A recorder of the whole process marks what is answered."""
    ran = Ran()
    with replay(TAPE), record(process_wide=True) as recorder:
        asyncio.run(Runner.run(make_agent(PAY, "done", tools=[pay_tool(ran)]), "hi"))

    check_replayed(recorder.last_run.calls)
    assert not ran


@pytest.mark.skipif(not FEATURES["realtime"].is_due(), reason=FEATURES["realtime"].why)
def test_realtime_session() -> None:
    """Calls of a session are answered, each as the one that it is."""
    from agents.realtime import RealtimeAgent
    from oa_realtime import play as play_session

    ran = Ran()

    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"waited {seconds}"

    def agent_of() -> Any:
        return RealtimeAgent("A", tools=[ran.tool(wait), failing(ran)])

    steps = [
        ("types", "hi"),
        ("replies", AskFor("wait", {"seconds": 0.02}, "c1"), AskFor("wait", {"seconds": 0.0}, "c2"), *_paying("c3")),
        ("replies", "Done."),
    ]
    original = play_session(agent_of(), steps).last_run
    assert sorted(ran) == ["pay", "wait", "wait"]
    ran.clear()
    # All calls have one span.
    with replay([original]) as tape, agents.trace("all"), agents.custom_span("around"):
        again = play_session(agent_of(), steps).last_run

    assert (ran, tape.left) == ([], 0)
    assert list(map(essence, again.calls)) == list(map(essence, original.calls))
    check_replayed(again.calls)


def _paying(call_id: str) -> list[AskFor]:
    return [AskFor("pay", {"amount": 5}, call_id)]


@pytest.mark.skipif(not FEATURES["sandbox"].is_due(), reason=FEATURES["sandbox"].why)
def test_sandbox(tmp_path: Path) -> None:
    """A command in a sandbox is answered and does not run; what the tool refuses, it refuses again."""
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    trace = tmp_path / "ran"
    asks = [AskFor("exec_command", {"comand": "true"}, "c1")] if VERSION >= (0, 24) else []
    asks += [AskFor("exec_command", {"cmd": f"echo 7 | tee -a {trace}"}, "c2")]
    config = RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))

    def agent_of(*more: AskFor) -> Any:
        return SandboxAgent("A", model=Scripted([*asks, *more], "done"))

    original = play("record", agent_of(), run_config=config)
    assert "7" in str(original.calls[-1].output)
    before = trace.read_text() if trace.exists() else None
    with replay([original.run]) as tape:
        again = play("record", agent_of(), run_config=config)

    assert tape.left == 0
    assert (trace.read_text() if trace.exists() else None) == before
    check_same(original, again)
    check_replayed(again.run.calls)
    if VERSION >= (0, 24):
        with replay([original.run]) as tape:
            play("record", agent_of(AskFor("exec_command", {"command": "true"}, "c3")), run_config=config)
        assert tape.left == 0


SERVER = """
import sys
from mcp.server.{module} import {kind}
server = {kind}("shop")

@server.tool()
def pay(amount: int) -> str:
    with open(sys.argv[1], "a") as file:
        file.write("paid ")
    if amount == 13:
        raise ValueError("no funds")
    return f"paid {{amount}}"

server.run(transport="stdio")
"""


def test_mcp_server_over_stdio(tmp_path: Path) -> None:
    """Tools of a real server are answered without a call of the server."""
    is_new = importlib.util.find_spec("mcp.server.mcpserver") is not None
    names = {"module": "mcpserver", "kind": "MCPServer"} if is_new else {"module": "fastmcp", "kind": "FastMCP"}
    program, trace = tmp_path / "server.py", tmp_path / "trace"
    program.write_text(SERVER.format(**names))

    async def go() -> Played:
        params: Any = {"command": sys.executable, "args": [str(program), str(trace)]}
        async with MCPServerStdio(params, client_session_timeout_seconds=30) as server:
            steps = [[AskFor("pay", {"amount": amount}, f"c{amount}")] for amount in (5, 13)]
            return await played("record", make_agent(*steps, "done", mcp_servers=[server]))

    original = asyncio.run(go())
    assert trace.read_text() == "paid paid "
    with replay([original.run]) as tape:
        again = asyncio.run(go())

    assert (trace.read_text(), tape.left) == ("paid paid ", 0)
    check_same(original, again)
    check_replayed(again.run.calls)
