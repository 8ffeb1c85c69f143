"""Scenarios 9, 21-24, 26: guardrails, local MCP servers, shells, patches, custom tools, and conversations."""

from __future__ import annotations

import asyncio
from typing import Any

import agents
import pytest
from agents import GuardrailFunctionOutput, RunConfig, SQLiteSession, function_tool, input_guardrail
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from mcp.types import Tool as MCPTool
from oa_agents import (
    LIVE,
    add,
    called,
    make_agent,
    model_output,
    play,
    run_or_stream,
    scenario,
    slow,
    summaries,
    summary,
)
from oa_models import Scripted
from oa_versions import HANDLES_MCP_EXCEPTIONS, KEEPS_MCP_HINTS, VERSION
from openai.types.responses import ResponseCustomToolCall
from openai.types.responses.response_output_item import LocalShellCall

from toolgrade import ConversationalTestCase, Run
from toolgrade.capture import conversation
from toolgrade.testing import AskFor
from toolgrade_openai_agents import available_tools, record, run_from_result


@scenario("09", LIVE)
def test_guardrail_that_trips_while_a_tool_runs(mode: str) -> None:
    """The run was stopped; the tool is not to blame, and in a stream it comes to its end."""
    begun = asyncio.Event()

    @function_tool(strict_mode=False)
    async def slow(d: float) -> str:
        """Sleep for the number of seconds."""
        begun.set()
        await asyncio.sleep(d)
        return f"slept {d}"

    @input_guardrail
    async def trip(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        await begun.wait()
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = make_agent([AskFor("slow", {"d": 0.2}, "c1")], "done", tools=[slow], input_guardrails=[trip])

    async def go() -> Run:
        with record() as recorder:
            with pytest.raises(agents.InputGuardrailTripwireTriggered):
                await run_or_stream(mode, agent, "hi")
            await asyncio.sleep(0.25)
        return recorder.last_run

    run = asyncio.run(go())

    assert (run.status.value, run.actual_output) == ("stopped", None)
    (call,) = run.calls
    if mode == "streamed" or VERSION < (0, 8):  # where the SDK lets it run on, in a stream and in the oldest release
        assert summary(call) == called("slow", {"d": 0.2}, "c1", "slept 0.2")
    else:
        assert summary(call) == called("slow", {"d": 0.2}, "c1", status="cancelled")


READ_ONLY = ToolAnnotations(
    **{"read_only_hint" if "read_only_hint" in ToolAnnotations.model_fields else "readOnlyHint": True}
)


class Server(MCPServer):
    """An MCP server in this process."""

    name = "git"

    def __init__(self) -> None:
        """As the SDK's own servers."""
        super().__init__(use_structured_content=False)
        self.listed = 0

    async def connect(self) -> None:
        """Nothing to do."""

    async def cleanup(self) -> None:
        """Nothing to do."""

    async def list_tools(self, *_args: Any, **_kwargs: Any) -> list[MCPTool]:
        """Return one tool."""
        self.listed += 1
        key = "input_schema" if "input_schema" in MCPTool.model_fields else "inputSchema"
        schema: dict[str, Any] = {key: {"type": "object", "properties": {}}}
        return [MCPTool(name="search", description="Search.", annotations=READ_ONLY, **schema)]

    async def call_tool(self, tool_name: str, arguments: Any, *_args: Any, **_kwargs: Any) -> CallToolResult:
        """Fail politely, or answer."""
        assert tool_name == "search"
        if (arguments or {}).get("q") == "boom":
            raise RuntimeError("server boom")
        failed = (arguments or {}).get("q") == "bad"
        key = "is_error" if "is_error" in CallToolResult.model_fields else "isError"
        content = [TextContent(type="text", text="it failed" if failed else "found")]
        return CallToolResult(content=content, **{key: failed})

    async def list_prompts(self) -> Any:
        """No prompts."""

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        """No prompt."""


@scenario("21")
def test_local_mcp_server(mode: str) -> None:
    """A result that says that it is an error is one, although the SDK shows it as any other."""
    server = Server()
    requests = [AskFor("search", {"q": "bad"}, "c1"), AskFor("search", {"q": "x"}, "c2")]
    agent = make_agent(requests, "done", mcp_servers=[server])

    run = play(mode, agent).run

    about = {"type": "mcp", "server": "git"}
    if mode == "result":  # a documented limit: nothing in a result says that it failed
        assert "an MCP server" in run.warnings[0]
        assert run.calls[0].execution is not None
        assert run.calls[0].execution.status.value == "ok"
        return
    assert summaries(run.tools_called) == [
        called("search", {"q": "bad"}, "c1", status="error", error="it failed", **about),
        called("search", {"q": "x"}, "c2", run.calls[1].output, **about),
    ]
    assert "found" in str(run.calls[1].output)
    assert "it failed" in str(model_output(run.calls[0]))
    assert [(tool.name, tool.type and tool.type.value) for tool in run.available_tools or ()] == [("search", "mcp")]
    assert [tool.effect for tool in run.available_tools or ()] == ["read" if KEEPS_MCP_HINTS else None]
    assert "call_tool" not in vars(server)
    assert server.listed == 2


@pytest.mark.parametrize("traced", [True, False], ids=["traced", "untraced"])
@scenario("21c", LIVE)
def test_local_mcp_server_that_raises(mode: str, traced: bool) -> None:
    """The call has the server's exception; a later call of the server succeeds."""
    config = agents.RunConfig(tracing_disabled=not traced)
    steps = [[AskFor("search", {"q": "boom"}, "c1")], [AskFor("search", {"q": "x"}, "c2")]]
    one = play(mode, make_agent(*steps, "done", mcp_servers=[Server()]), run_config=config)

    about = {"type": "mcp", "server": "git"}
    failed = called("search", {"q": "boom"}, "c1", status="error", error="RuntimeError: server boom", **about)
    if not HANDLES_MCP_EXCEPTIONS:
        assert summaries(one.calls) == [failed]
        assert one.run.status.value == "error"
        return
    assert summaries(one.calls) == [failed, called("search", {"q": "x"}, "c2", one.calls[1].output, **about)]


@scenario("21b", ())
def test_tools_of_an_agent(mode: str) -> None:  # noqa: ARG001
    """`available_tools` lists what the models of an agent, and of those it hands over to, can choose from."""
    other = make_agent("x", tools=[slow], name="B")
    off = function_tool(lambda: "x", name_override="off", is_enabled=False)
    agent = make_agent("x", tools=[add, off], mcp_servers=[Server()], handoffs=[other])

    tools = asyncio.run(available_tools(agent))

    assert sorted(tool.name for tool in tools) == ["add", "search", "slow"]
    assert next(tool for tool in tools if tool.name == "add").input_schema is not None
    own = asyncio.run(available_tools(agent, handoffs=False))
    assert sorted(tool.name for tool in own) == ["add", "search"]


def _shell_call(call_id: str) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": call_id, "id": f"sh_{call_id}", "action": {"commands": ["ls"]}}


def _shell(executor: Any) -> Any:
    return agents.ShellTool(executor=executor)


@scenario("22", needs="shell")
def test_shell(mode: str) -> None:
    """A local shell call has its commands as arguments and the printed text as output."""

    async def execute(_request: Any) -> Any:
        outcome = agents.ShellCallOutcome(type="exit", exit_code=0)
        return agents.ShellResult(output=[agents.ShellCommandOutput(stdout="a.txt", stderr="", outcome=outcome)])

    (call,) = play(mode, make_agent([_shell_item("c1")], "done", tools=[_shell(execute)])).calls

    assert (call.name, call.arguments, call.id) == ("shell", {"commands": ["ls"]}, "c1")
    assert call.execution is not None
    assert call.execution.status.value == "ok"
    (chunk,) = call.output
    assert (chunk["stdout"], chunk["outcome"]) == ("a.txt", {"type": "exit", "exit_code": 0})


@scenario("22b", needs="shell")
def test_shell_that_raises(mode: str) -> None:
    """An executor that raises is an error."""

    async def execute(_request: Any) -> Any:
        raise RuntimeError("ls boom")

    (call,) = play(mode, make_agent([_shell_item("c1")], "done", tools=[_shell(execute)])).calls

    assert call.execution is not None
    assert call.execution.status.value == "error"
    assert "ls boom" in str(call.execution.error)
    assert "output" not in call.model_fields_set


def _shell_item(call_id: str) -> Any:
    try:
        from openai.types.responses import ResponseFunctionShellToolCall as Shell
    except ImportError:
        return _shell_call(call_id)
    return Shell.model_validate({**_shell_call(call_id), "status": "completed", "environment": None})


@scenario("22c", needs="shell")
def test_patches(mode: str) -> None:
    """A patch has its operation as arguments; one that an editor refuses is an error."""

    class Editor:
        def create_file(self, _operation: Any) -> Any:
            return agents.ApplyPatchResult(status="completed", output="created")

        def update_file(self, _operation: Any) -> Any:
            raise RuntimeError("bad patch")

        def delete_file(self, _operation: Any) -> Any:
            raise NotImplementedError

    created = {"type": "create_file", "path": "a.txt", "diff": "+a"}
    updated = {"type": "update_file", "path": "a.txt", "diff": "@@"}
    items = [_patch_item("c1", created), _patch_item("c2", updated)]

    first, second = play(mode, make_agent(items, "done", tools=[agents.ApplyPatchTool(editor=Editor())])).calls

    assert summary(first) == called("apply_patch", created, "c1", "created")
    assert second.execution is not None
    assert (second.name, second.arguments, second.execution.status.value) == ("apply_patch", updated, "error")
    assert "bad patch" in str(second.execution.error)


def _patch_item(call_id: str, operation: dict[str, Any]) -> Any:
    item = {"type": "apply_patch_call", "call_id": call_id, "id": call_id, "status": "completed"}
    from openai.types.responses import ResponseApplyPatchToolCall as Patch

    return Patch.model_validate({**item, "operation": operation})


@scenario("22d", LIVE)
def test_local_shell_that_raises(mode: str) -> None:
    """The exception that ends the run carries no data; the call is recorded anyway."""

    async def execute(_request: Any) -> str:
        raise RuntimeError("ls boom")

    action = {"type": "exec", "command": ["ls"], "env": {}}
    item = LocalShellCall.model_validate(
        {"id": "ls_1", "call_id": "c1", "type": "local_shell_call", "status": "completed", "action": action}
    )

    one = play(mode, make_agent([item], "done", tools=[agents.LocalShellTool(executor=execute)]))

    if VERSION < (0, 6):  # this release ends the run at a message with only this call
        assert summaries(one.calls) == [called("local_shell", action, "c1", status="not_executed")]
        return
    assert summaries(one.calls) == [
        called("local_shell", action, "c1", status="error", error="RuntimeError: ls boom"),
    ]
    assert one.run.error == "RuntimeError: ls boom"


@scenario("23", needs="custom")
def test_custom_tool(mode: str) -> None:
    """A tool of free text has that as its one argument."""

    async def invoke(_context: Any, _text: str) -> str:
        raise ValueError("custom boom")

    tool = agents.CustomTool(name="sql", description="SQL.", on_invoke_tool=invoke)
    item = ResponseCustomToolCall(id="ct_1", call_id="c1", name="sql", input="SELECT 1", type="custom_tool_call")

    (call,) = play(mode, make_agent([item], "done", tools=[tool])).calls

    assert call.execution is not None
    assert (call.name, call.arguments) == ("sql", {"input": "SELECT 1"})
    assert call.type is not None
    assert call.type.value == "custom"
    if mode == "result":  # a documented limit: its words for the failure look like any result
        assert call.execution.status.value == "ok"
        return
    assert call.execution.status.value == "error"
    assert "custom boom" in str(call.execution.error)


def _guarded(where: str, how: str) -> Any:
    output = agents.ToolGuardrailFunctionOutput
    result = output.reject_content("blocked") if how == "reject" else output.raise_exception()
    make = agents.tool_input_guardrail if where == "input" else agents.tool_output_guardrail

    @make
    def guard(_data: Any) -> Any:
        return result

    @function_tool(strict_mode=False)
    async def secret(x: int) -> str:
        """Tell a secret."""
        return f"secret {x}"

    setattr(secret, f"tool_{where}_guardrails", [guard])
    return secret


@scenario("23b", LIVE, needs="sandbox")
def test_tools_of_a_sandbox_that_refuse_their_arguments(mode: str) -> None:
    """Nothing ran in the sandbox for arguments that its tool does not take, or that are no JSON."""
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    asks = [
        AskFor("exec_command", {"comand": "true"}, "c1"),
        AskFor("exec_command", '{"cmd": ', "c2"),
        AskFor("exec_command", {"cmd": "true", "yield_time_ms": "soon"}, "c3"),
    ]
    asks = asks[:1] if VERSION < (0, 24) else asks  # older releases let the tool raise, which ends the run
    agent = SandboxAgent("A", model=Scripted(asks, [AskFor("exec_command", {"cmd": "echo 7"}, "c4")], "done"))
    config = RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))

    calls = play(mode, agent, run_config=config).calls

    ended = [(call.id, call.execution.status.value, call.execution.executed) for call in calls if call.execution]
    refused = [("c1", "error", False), ("c2", "invalid_arguments", False), ("c3", "error", False)]
    if VERSION < (0, 24):
        assert ended == refused[:1]
        return
    assert ended == [*refused, ("c4", "ok", True)]
    assert "7" in str(calls[-1].output)


@scenario("24")
def test_guardrail_that_refuses_a_call(mode: str) -> None:
    """The call was rejected without running the tool; its model output is the guardrail's message."""
    (call,) = play(
        mode, make_agent([AskFor("secret", {"x": 1}, "c1")], "done", tools=[_guarded("input", "reject")])
    ).calls

    assert summary(call) == called("secret", {"x": 1}, "c1", status="rejected", error="blocked")
    assert model_output(call) == "blocked"


@scenario("24b", LIVE)
def test_guardrail_that_refuses_a_call_and_ends_the_run(mode: str) -> None:
    """The call was rejected, and the run was stopped."""
    one = play(mode, make_agent([AskFor("secret", {"x": 1}, "c1")], tools=[_guarded("input", "raise")]))

    (call,) = one.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.execution.executed) == ("rejected", False)
    assert "output" not in call.model_fields_set
    assert one.run.status.value == "stopped"


@scenario("24c")
def test_guardrail_that_replaces_an_output(mode: str) -> None:
    """The tool ran; its output is the guardrail's replacement."""
    (call,) = play(
        mode, make_agent([AskFor("secret", {"x": 1}, "c1")], "done", tools=[_guarded("output", "reject")])
    ).calls

    assert summary(call) == called("secret", {"x": 1}, "c1", "blocked")


@scenario("24d", LIVE)
def test_guardrail_that_raises_on_an_output(mode: str) -> None:
    """The tool ran, and the call is an error."""
    one = play(mode, make_agent([AskFor("secret", {"x": 1}, "c1")], tools=[_guarded("output", "raise")]))

    (call,) = one.calls
    assert call.execution is not None
    assert (call.execution.status.value, call.execution.executed) == ("error", True)
    assert one.run.status.value == "stopped"


def _agents() -> list[Any]:
    return [make_agent([AskFor("add", {"a": n, "b": n}, f"c{n}")], f"a{n}", tools=[add]) for n in (1, 2)]


def _check(case: ConversationalTestCase) -> None:
    turns = [(turn.role, turn.content) for turn in case.turns]
    assert turns == [("user", "q1"), ("assistant", "a1"), ("user", "q2"), ("assistant", "a2")]
    called_tools = [summaries(turn.tools_called or []) for turn in case.turns]
    assert called_tools[1::2] == [[called("add", {"a": n, "b": n}, f"c{n}", {"sum": 2 * n})] for n in (1, 2)]


@scenario("26", ("streamed", "result"))
def test_conversation_of_a_session(mode: str) -> None:
    """Each run gives a user turn and an assistant turn; earlier items of the session are not counted again."""

    async def go() -> tuple[list[Run], list[ConversationalTestCase]]:
        session = SQLiteSession("one")
        runs: list[Run] = []
        with record() as recorder:
            for agent, question in zip(_agents(), ("q1", "q2"), strict=True):
                result = await run_or_stream(mode, agent, question, session=session)
                runs.append(run_from_result(result, conversation_id="one"))
        session.close()
        if mode == "result":
            return runs, [conversation(runs)]
        return recorder.runs, recorder.conversations()

    runs, conversations = asyncio.run(go())

    (case,) = conversations
    _check(case)
    assert case.id == "one"
    assert (runs[1].input, len(runs[1].calls)) == ("q2", 1)
