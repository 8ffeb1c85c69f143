"""What providers write: the tools they were offered, and the tools that they ran themselves."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from lc_agents import add, called, scripted, summaries
from pydantic import BaseModel, Field

from toolgrade_langchain import ToolCallRecorder, run_from_messages

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def offered(*tools: Any, **parameters: Any) -> list[tuple[str, Any, Any]]:
    """Name, type and schema of the tools that a run saw, when the model was asked with these."""
    recorder = ToolCallRecorder()
    model = scripted("final").bind(tools=list(tools), **parameters) if tools else scripted("final").bind(**parameters)
    model.invoke([HumanMessage("hi")], {"callbacks": [recorder]})
    assert not recorder.warnings
    assert not recorder.run.warnings
    return [
        (tool.name, None if tool.type is None else tool.type.value, tool.input_schema)
        for tool in recorder.run.available_tools or ()
    ]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param(
            {"type": "function", "function": {"name": "weather", "description": "w", "parameters": SCHEMA}},
            [("weather", "function", SCHEMA)],
            id="openai",
        ),
        pytest.param(
            {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True},
            [("weather", "function", SCHEMA)],
            id="openai-responses",
        ),
        pytest.param(
            {"name": "weather", "description": "w", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
            [("weather", None, SCHEMA)],
            id="anthropic",
        ),
        pytest.param(
            {"type": "custom", "name": "weather", "input_schema": SCHEMA}, [("weather", "custom", SCHEMA)], id="custom"
        ),
        pytest.param(
            {"toolSpec": {"name": "weather", "description": "w", "inputSchema": {"json": SCHEMA}}},
            [("weather", None, SCHEMA)],
            id="bedrock",
        ),
        pytest.param(
            {"function_declarations": [{"name": "weather", "parameters": SCHEMA}]},
            [("weather", None, SCHEMA)],
            id="gemini",
        ),
        pytest.param(
            {"google_search": {}, "code_execution": None, "function_declarations": None},
            [("google_search", "hosted", None)],
            id="gemini-hosted",
        ),
        pytest.param({"type": "web_search"}, [("web_search", "hosted", None)], id="openai-hosted"),
        pytest.param(
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            [("web_search", "hosted", None)],
            id="anthropic-hosted",
        ),
        pytest.param(
            {"type": "bash_20250124", "name": "bash"}, [("bash", None, None)], id="anthropic-run-by-the-client"
        ),
        pytest.param(
            {"type": "mcp", "server_label": "deepwiki", "allowed_tools": ["ask", "read"]},
            [("ask", "mcp", None), ("read", "mcp", None)],
            id="mcp-with-names",
        ),
        pytest.param({"type": "mcp", "server_label": "deepwiki"}, [("deepwiki", "mcp", None)], id="mcp"),
        pytest.param(
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "inner"}]},
            [("inner", "function", None)],
            id="namespace",
        ),
    ],
)
def test_every_providers_way_of_offering_a_tool(tool: Any, expected: Any) -> None:
    """Offered tools are recognized in the format of each provider."""
    assert offered(tool) == expected


def test_functions_of_the_older_kind() -> None:
    """OpenAI's older `functions` are tools."""
    assert offered(functions=[{"name": "weather", "parameters": SCHEMA}]) == [("weather", None, SCHEMA)]


class Weather(BaseModel):
    """The weather."""

    city: str = Field()


def test_tools_that_are_not_plain_objects() -> None:
    """A model that takes LangChain tools or classes offers them by name."""
    assert [name for name, _, _ in offered(add, Weather)] == ["add", "Weather"]


def hosted(content: Any, **more: Any) -> list[dict[str, Any]]:
    """The calls that a recorder sees in a message with this content."""
    recorder = ToolCallRecorder()
    scripted(AIMessage(content=content, **more)).invoke([HumanMessage("hi")], {"callbacks": [recorder]})
    assert not recorder.warnings
    return summaries(recorder.run.calls)


RESULTS = [{"url": "https://example.org"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": RESULTS},
            ],
            called("web_search", {"query": "cats"}, "s1", RESULTS, type="hosted"),
            id="anthropic",
        ),
        pytest.param(
            [
                {"type": "mcp_tool_use", "id": "m1", "name": "ask", "server_name": "wiki", "input": {"q": "x"}},
                {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": "fine"},
            ],
            called("ask", {"q": "x"}, "m1", "fine", type="mcp"),
            id="anthropic-mcp",
        ),
        pytest.param(
            [
                {"type": "mcp_tool_use", "id": "m1", "name": "ask", "server_name": "wiki", "input": {"q": "x"}},
                {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": "down"},
            ],
            called("ask", {"q": "x"}, "m1", type="mcp", status="error", error="down"),
            id="anthropic-mcp-failed",
        ),
        pytest.param(
            [{"type": "web_search_call", "id": "w1", "action": {"type": "search", "query": "cats"}}],
            called("web_search", {"query": "cats"}, "w1", type="hosted"),
            id="openai-web-search",
        ),
        pytest.param(
            [{"type": "code_interpreter_call", "id": "i1", "code": "1+1", "outputs": [{"logs": "2"}]}],
            called("code_interpreter", {"code": "1+1"}, "i1", [{"logs": "2"}], type="hosted"),
            id="openai-code-interpreter",
        ),
        pytest.param(
            [
                {
                    "type": "mcp_call",
                    "id": "m1",
                    "name": "ask",
                    "server_label": "w",
                    "arguments": '{"q": 1}',
                    "output": "y",
                }
            ],
            called("ask", {"q": 1}, "m1", "y", type="mcp"),
            id="openai-mcp",
        ),
        pytest.param(
            [
                {"type": "executable_code", "executable_code": "1+1", "language": "PYTHON"},
                {"type": "code_execution_result", "code_execution_result": "2"},
            ],
            called("code_execution", {"code": "1+1", "language": "PYTHON"}, None, "2", type="hosted"),
            id="google",
        ),
        pytest.param(
            [
                {"type": "server_tool_call", "id": "t1", "name": "web_search", "args": {"query": "cats"}},
                {"type": "server_tool_result", "tool_call_id": "t1", "status": "success", "output": RESULTS},
            ],
            called("web_search", {"query": "cats"}, "t1", RESULTS, type="hosted"),
            id="standard",
        ),
        pytest.param(
            [
                {
                    "type": "server_tool_call",
                    "id": "t1",
                    "name": "remote_mcp",
                    "args": {},
                    "extras": {"tool_name": "ask", "server_label": "w"},
                },
                {"type": "server_tool_result", "tool_call_id": "t1", "status": "error", "output": "down"},
            ],
            called("ask", {}, "t1", type="mcp", status="error", error="down"),
            id="standard-mcp",
        ),
        pytest.param(
            [
                {"type": "non_standard", "value": {"type": "server_tool_use", "id": "s1", "name": "s", "input": {}}},
                {"type": "non_standard", "value": {"type": "s_tool_result", "tool_use_id": "s1", "content": "x"}},
            ],
            called("s", {}, "s1", "x", type="hosted"),
            id="wrapped",
        ),
    ],
)
def test_every_providers_way_of_running_a_tool(content: Any, expected: Any) -> None:
    """A tool that the provider ran is a call with its result, in the form of each provider."""
    assert hosted(content) == [expected]


def test_calls_in_the_order_of_the_content() -> None:
    """Calls that the provider ran and calls of the client are in the order in which the model wrote them."""
    content = [
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 2}},
    ]

    calls = hosted(content, tool_calls=[{"name": "add", "args": {"a": a}, "id": f"c{a}"} for a in (1, 2)])

    assert [call["id"] for call in calls] == ["c1", "s1", "c2"]


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            },
            "max_uses_exceeded",
        ),
        ({"type": "web_search_call", "id": "s1", "status": "failed", "action": {}}, "failed"),
        ({"type": "code_interpreter_call", "id": "s1", "status": "failed", "code": "1/0"}, "failed"),
    ],
)
def test_hosted_calls_that_failed(block: Any, error: str) -> None:
    """A hosted call whose result is an error, or whose status is failed, failed."""
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}

    (call,) = hosted([use, block] if "tool_use_id" in block else [block])

    assert (call["status"], call["error"], call["output"]) == ("error", error, None)


def test_result_after_a_paused_turn() -> None:
    """The result of a call, which the provider returns in the next message after a pause, is not lost."""
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}}
    first = AIMessage(content=[use], response_metadata={"stop_reason": "pause_turn"})
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": RESULTS}
    second = AIMessage(content=[result, {"type": "text", "text": "Cats."}])
    question = HumanMessage("hi")
    recorder = ToolCallRecorder()
    model = scripted(first, second)

    with recorder.single_run():
        answer = model.invoke([question], {"callbacks": [recorder]})
        model.invoke([question, answer], {"callbacks": [recorder]})

    expected = [called("web_search", {"query": "cats"}, "s1", RESULTS, type="hosted")]
    assert summaries(recorder.run.calls) == expected
    assert summaries(run_from_messages([question, first, second]).calls) == expected


def test_hosted_calls_precede_client_calls() -> None:
    """Calls that the provider ran come first where the content does not show the others."""
    content = [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]

    calls = hosted(content, tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}])

    assert [call["name"] for call in calls] == ["web_search", "add"]


def test_client_requests_are_not_hosted_calls() -> None:
    """Blocks that list tools or repeat requests to the client are not calls."""
    content = [
        {"type": "text", "text": "hi"},
        {"type": "mcp_list_tools", "server_label": "w", "tools": [{"name": "ask"}]},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
    ]

    assert hosted(content) == []


def test_results_in_the_older_place() -> None:
    """OpenAI's items are also read from `additional_kwargs`, where older versions put them."""
    items = [{"type": "file_search_call", "id": "f1", "queries": ["cats"], "results": RESULTS}]

    calls = hosted("text", additional_kwargs={"tool_outputs": items})

    assert calls == [called("file_search", {"queries": ["cats"]}, "f1", RESULTS, type="hosted")]
