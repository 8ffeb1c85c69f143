"""The type of each call: who runs the tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import StructuredTool, ToolException
from lc_agents import add, asks, called, make_agent, scripted, summaries

from toolgrade import ToolCall, ToolCorrectnessMetric
from toolgrade_langchain import ToolCallRecorder, run_from_messages

HI = {"messages": [("user", "hi")]}


def test_function_calls() -> None:
    """Calls of the agent's own tools are functions, whatever becomes of them, live and in messages."""
    recorder = ToolCallRecorder()
    calls = [("add", {"a": 1}, "c1"), ("nope", {}, "c2")]
    agent = make_agent(scripted(asks(*calls, invalid=[("add", "{", "c3", "bad")]), "final"), [add])

    state = agent.invoke(HI, {"callbacks": [recorder]})

    for run in (recorder.run, run_from_messages(state["messages"])):
        assert [call.type and call.type.value for call in run.calls] == ["function"] * 3
    case = recorder.test_case(expected_tools=[ToolCall(name="add", type="function"), ToolCall(name="nope")])
    assert ToolCorrectnessMetric().measure(case).score == 1


def mcp_tool(name: str, *blocks: dict[str, Any], structured: Any = None, fails: bool = False) -> Any:
    """Return a tool in the form of `langchain-mcp-adapters`."""
    blocks = tuple({**block, "id": f"lc_{index}"} for index, block in enumerate(blocks))

    async def call_tool(**_: Any) -> tuple[Any, Any]:
        if fails:
            raise ToolException(list(blocks))
        return list(blocks), structured and {"structured_content": structured}

    return StructuredTool(
        name=name,
        description="Run on a server.",
        args_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
        coroutine=call_tool,
        response_format="content_and_artifact",
        handle_tool_error=lambda error: error.args[0],
    )


@pytest.mark.parametrize("structured", [None, {"result": 3}])
def test_mcp_calls(structured: Any) -> None:
    """Calls of MCP tools have their type, and one text block is that text; random ids of blocks are left out."""
    text, image = {"type": "text", "text": "3"}, {"type": "image", "url": "https://example.org/x.png"}
    tools = [
        mcp_tool("one", text, structured=structured),
        mcp_tool("two", text, image),
        mcp_tool("bad", text, fails=True),
        add,
    ]
    recorder = ToolCallRecorder()
    requests = [(tool.name, {"a": 1}, f"c{index}") for index, tool in enumerate(tools)]
    agent = make_agent(scripted(asks(*requests), "final"), tools)

    state = asyncio.run(agent.ainvoke(HI, {"callbacks": [recorder]}))

    more = {"artifact": {"structured_content": structured}} if structured else {}
    assert summaries(recorder.run.calls) == [
        called("one", {"a": 1}, "c0", "3", type="mcp", **more),
        called("two", {"a": 1}, "c1", [text, image], type="mcp"),
        called("bad", {"a": 1}, "c2", status="error", error="3", model_output="3", type="mcp"),
        called("add", {"a": 1}, "c3", "3"),
    ]
    read = run_from_messages(state["messages"]).calls
    assert [call.output for call in read] == ["3", [text, image], None, "3"]
    assert [call.type and call.type.value for call in read] == ["mcp", "mcp", "mcp", "function"]
