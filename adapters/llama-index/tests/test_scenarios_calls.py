"""Scenarios 1, 17-23, 25, 42, 45: which calls, with which arguments, outputs and errors."""

import base64
from datetime import date
from fractions import Fraction
from typing import Any

from li_agents import add, agent, asks, llm, outcome, played, summaries
from li_versions import scenario
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import BaseTool, FunctionTool, QueryEngineTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context
from mcp.types import CallToolResult, TextContent

from toolgrade import ToolCall, ToolCallType, ToolCorrectnessMetric


async def ctxtool(ctx: Context, note: str) -> str:
    """Take a context."""
    assert isinstance(ctx, Context)
    return "noted " + note


@scenario("18-C", "18-E")
def test_a_tool_that_takes_a_context(mode: str) -> None:
    """A context that LlamaIndex injects is not an argument."""
    run = played(lambda: agent(asks(("ctxtool", {"note": "n"}, "c1")), "d", tools=[ctxtool])).run(mode)

    assert summaries(run.tools_called) == [("ctxtool", {"note": "n"}, "c1", "noted n")]
    assert not run.warnings


def none() -> None:
    """Return nothing."""


def errdict() -> dict:  # type: ignore[type-arg]
    """Return an error as data."""
    return {"error": "not found"}


@scenario("19-C", "19-E")
def test_nothing_and_an_error_as_data(mode: str) -> None:
    """`None` is an output, and so is an object with a key "error": only the tool can say that it failed."""
    request = asks(("none", {}, "c1"), ("errdict", {}, "c2"))
    run = played(lambda: agent(request, "d", tools=[none, errdict])).run(mode)

    assert summaries(run.tools_called) == [("none", {}, "c1", None), ("errdict", {}, "c2", {"error": "not found"})]
    outputs = [call.execution.model_output for call in run.tools_called if call.execution]
    assert outputs == ["None", "{'error': 'not found'}"]


def picture() -> Any:
    """Return a text and a picture."""
    return [
        TextBlock(text="see"),
        ImageBlock(image=base64.b64encode(b"\x89PNG\r\n\x1a\nabc"), image_mimetype="image/png"),
    ]


@scenario("20-C", "20-E")
def test_blocks(mode: str) -> None:
    """Content that is more than text is a list of blocks, in which an image has its data."""
    run = played(lambda: agent(asks(("picture", {}, "c1")), "d", tools=[picture])).run(mode)

    data = base64.b64encode(b"\x89PNG\r\n\x1a\nabc").decode()
    blocks = [{"type": "text", "text": "see"}, {"type": "image", "mime_type": "image/png", "data": data}]
    assert summaries(run.tools_called) == [("picture", {}, "c1", blocks)]


def innererr() -> ToolOutput:
    """Say that it failed."""
    return ToolOutput(tool_name="innererr", content="quota", raw_input={}, raw_output="quota", is_error=True)


@scenario("21-C", "21-E")
def test_an_output_that_is_an_error(mode: str) -> None:
    """A tool that returns a `ToolOutput` which is an error has failed, although LlamaIndex says otherwise."""
    run = played(lambda: agent(asks(("innererr", {}, "c1")), "d", tools=[innererr])).run(mode)

    assert summaries(run.tools_called) == [("innererr", {}, "c1", "! quota")]


class Engine(CustomQueryEngine):
    """Answers without an index."""

    def custom_query(self, query_str: str) -> str:
        """Answer."""
        return f"answer for {query_str}"


@scenario("22-C", "22-E")
def test_a_query_engine(mode: str) -> None:
    """The output of a query engine is its text; it is one call, however many spans LlamaIndex makes of it."""
    tool = QueryEngineTool.from_defaults(Engine(), name="qe", description="answers")
    run = played(lambda: agent(asks(("qe", {"input": "hello"}, "c1")), "d", tools=[tool])).run(mode)

    assert summaries(run.calls) == [("qe", {"input": "hello"}, "c1", "answer for hello")]
    assert not run.warnings


class Bare(BaseTool):
    """A tool that is neither a function nor async."""

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's metadata."""
        return ToolMetadata(name="bare", description="bare")

    def __call__(self, input: Any) -> ToolOutput:
        """Give back."""
        return ToolOutput(tool_name="bare", content=str(input), raw_input={"input": input}, raw_output=input)


@scenario("23-C", "23-E")
def test_a_plain_tool(mode: str) -> None:
    """A plain `BaseTool`, which LlamaIndex wraps twice, is one call and not three."""
    run = played(lambda: agent(asks(("bare", {"input": "i"}, "c1")), "d", tools=[Bare()])).run(mode)

    assert summaries(run.calls) == [("bare", {"input": "i"}, "c1", "i")]
    assert run.calls[0].execution is not None
    assert not run.calls[0].execution.children


@scenario("25-C", "25-E")
def test_calls_that_stream_in_pieces(mode: str) -> None:
    """Partial arguments in a stream are not a call."""
    model = llm(asks(("add", {"a": 1, "b": 2}, "c1")), "ok", chunks=["", '{"a": 1'])
    run = played(lambda: agent(llm=model, tools=[add])).run(mode)

    assert summaries(run.tools_called) == [("add", {"a": 1, "b": 2}, "c1", 3)]


def mcp_fail() -> Any:
    """Return what an MCP server answers where it failed."""
    flag = "isError" if "isError" in CallToolResult.model_fields else "is_error"
    return CallToolResult(content=[TextContent(type="text", text="server said no")], **{flag: True})


def mcp_ok() -> Any:
    """Return what an MCP server answers."""
    return CallToolResult(content=[TextContent(type="text", text="fine")])


@scenario("42-C", "42-E")
def test_results_of_mcp(mode: str) -> None:
    """An MCP result that says it failed is an error, though LlamaIndex sees none; else its text is the output."""
    request = asks(("mcp_fail", {}, "c1"), ("mcp_ok", {}, "c2"))
    run = played(lambda: agent(request, "d", tools=[mcp_fail, mcp_ok])).run(mode)

    assert summaries(run.tools_called) == [("mcp_fail", {}, "c1", "! server said no"), ("mcp_ok", {}, "c2", "fine")]


@scenario("45-C", "45-E")
def test_partial_arguments(mode: str) -> None:
    """Arguments that were given to the tool beforehand, often secrets, are none of the call's."""
    tool = FunctionTool.from_defaults(add, partial_params={"b": 41})
    run = played(lambda: agent(asks(("add", {"a": 1}, "c1")), "d", tools=[tool])).run(mode)

    assert summaries(run.tools_called) == [("add", {"a": 1}, "c1", 42)]


class Opaque:
    """Says nothing but where it lies in memory."""


def opaque() -> Any:
    """Return an object."""
    return Opaque()


def numbers() -> Any:
    """Return values that JSON has, in types that it has not."""
    return {"a": (1, 2), "b": Fraction(1, 2), "c": date(2026, 5, 3)}


def answer() -> Any:
    """Return an answer with its sources."""
    node = NodeWithScore(node=TextNode(id_="n1", text="a source"), score=0.5)
    return Response(response="an answer", source_nodes=[node])


@scenario("11s-C", "11s-E")
def test_objects(mode: str) -> None:
    """Data is stored as data; other objects as text without addresses; answers include their sources."""
    request = asks(("opaque", {}, "c1"), ("numbers", {}, "c2"), ("answer", {}, "c3"))
    run = played(lambda: agent(request, "d", tools=[opaque, numbers, answer])).run(mode)

    first, second, third = run.tools_called
    assert "Opaque object" in str(first.output)
    assert "0x" not in str(first.output)
    assert first.execution is not None
    assert "0x" in str(first.execution.model_output)
    assert second.output == {"a": [1, 2], "b": 0.5, "c": "2026-05-03"}
    assert third.output == "an answer"
    assert third.execution is not None
    assert third.execution.artifact == [{"id": "n1", "score": 0.5, "text": "a source"}]
    assert not run.warnings


def test_expected_type_of_a_call() -> None:
    """Calls have the type `function`, whatever became of them, so that an expected type matches."""
    message = asks(("add", {"a": 1, "b": 2}, "c1"), ("nope", {}, "c2"))
    run = played(lambda: agent(message, asks(("add", {"a": 3, "b": 4}, "c3")), tools=[add]), max_iterations=2).run("C")

    assert [call.type for call in run.calls] == [ToolCallType.FUNCTION] * 3
    expected = [
        ToolCall(name="add", type=ToolCallType.FUNCTION),
        ToolCall(name="nope", type=ToolCallType.FUNCTION),
        ToolCall(name="add", type=ToolCallType.FUNCTION),
    ]
    assert ToolCorrectnessMetric().measure(run.to_test_case(expected_tools=expected)).score == 1


def test_type_of_an_mcp_call() -> None:
    """A call of a tool of an MCP server has the type `mcp`, also if it did not run."""

    def remote() -> str:
        """Run on a server."""
        return "r"

    remote.__module__ = "llama_index.tools.mcp.base"
    message = asks(("remote", {}, "c1"))
    run = played(lambda: agent(message, message, tools=[remote, add]), max_iterations=2).run("C")

    assert [outcome(call) for call in run.calls] == ["r", "not_executed"]
    assert [call.type for call in run.calls] == [ToolCallType.MCP] * 2
