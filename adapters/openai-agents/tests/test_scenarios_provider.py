"""Scenarios 18-20: tools that the provider runs, and MCP servers that it calls."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from agents import HostedMCPTool
from oa_agents import LIVE, Played, called, make_agent, play, scenario, summaries
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFileSearchToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
)
from openai.types.responses.response_output_item import ImageGenerationCall, McpApprovalRequest, McpCall, McpListTools

from toolgrade import MLLMImage, Run
from toolgrade.testing.tool_doubles import PICTURE_BYTES

WEB = {"type": "search", "query": "weather", "queries": ["weather"], "sources": [{"type": "url", "url": "https://a"}]}

PNG = base64.b64encode(PICTURE_BYTES).decode()
_URL = f"data:image/png;base64,{PNG}"


def _hosted_items() -> list[Any]:
    code = {"container_id": "k", "type": "code_interpreter_call"}
    return [
        ResponseFunctionWebSearch(id="ws_1", status="completed", type="web_search_call", action=WEB),
        ResponseFileSearchToolCall(
            id="fs_1",
            status="completed",
            type="file_search_call",
            queries=["q"],
            results=[{"file_id": "f", "text": "t"}],
        ),
        ResponseCodeInterpreterToolCall(
            id="ci_1", status="completed", code="1+1", outputs=[{"type": "logs", "logs": "2"}], **code
        ),
        ResponseCodeInterpreterToolCall(id="ci_2", status="failed", code="1/0", outputs=None, **code),
        ImageGenerationCall(id="ig_1", status="completed", type="image_generation_call", result=PNG),
        "done",
    ]


@scenario("18")
def test_tools_of_the_provider(mode: str) -> None:
    """Each hosted tool gives a call with name, arguments and result; a failed one is an error."""
    run = play(mode, make_agent(_hosted_items())).run

    hosted = {"type": "hosted"}
    assert summaries(run.tools_called) == [
        called(
            "web_search",
            {"type": "search", "query": "weather", "queries": ["weather"]},
            "ws_1",
            [{"type": "url", "url": "https://a"}],
            **hosted,
        ),
        called("file_search", {"queries": ["q"]}, "fs_1", [{"file_id": "f", "text": "t"}], **hosted),
        called("code_interpreter", {"code": "1+1"}, "ci_1", [{"type": "logs", "logs": "2"}], **hosted),
        called("code_interpreter", {"code": "1/0"}, "ci_2", status="error", error="status: failed", **hosted),
        called("image_generation", {}, "ig_1", {"type": "image", "mime_type": "image/png", "data": PNG}, **hosted),
    ]
    assert run.actual_output == "done"


@scenario("18d")
def test_agents_of_the_provider(mode: str) -> None:
    """What the model does about agents that the provider runs is a hosted call."""
    how: dict[str, Any] = {"call_id": "m1", "action": "spawn_agent"}
    text = [{"type": "output_text", "text": "started", "annotations": []}]
    items = [
        # OpenAI's client builds an item of a newer type like this, as one of the first type that it knows.
        ResponseOutputMessage.model_construct(id="i1", type="multi_agent_call", arguments='{"task": "count"}', **how),
        ResponseOutputMessage.model_construct(id="i2", type="multi_agent_call_output", output=text, **how),
        "done",
    ]

    run = play(mode, make_agent(items)).run

    assert summaries(run.calls) == [called("spawn_agent", {"task": "count"}, "m1", "started", type="hosted")]


@scenario("18b")
def test_images_of_the_user(mode: str) -> None:
    """Images of the user's last messages are in the input, addresses as they are, and those before are not."""
    address = "https://example.com/a.png"
    earlier = {"role": "user", "content": [{"type": "input_image", "image_url": address, "detail": "auto"}]}
    reply = {"role": "assistant", "content": "I see."}
    images = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in (address, _URL)]
    user_input = {"role": "user", "content": [{"type": "input_text", "text": "And this?"}, *images]}

    run = play(mode, make_agent("done"), [earlier, reply, user_input, {"role": "user", "content": "Well?"}]).run

    assert run.input == "And this?\nWell?"
    expected = ["And this?", MLLMImage(url=address), MLLMImage(data=PNG, mime_type="image/png"), "Well?"]
    assert run.input_parts == expected


@scenario("18c", LIVE)
def test_files_of_the_user_are_not_images(mode: str) -> None:
    """An input without images has no parts."""
    file = {"type": "input_file", "file_id": "f_1"}
    user_input = [{"role": "user", "content": [{"type": "input_text", "text": "Read."}, file]}]

    run = play(mode, make_agent("done"), user_input).run

    assert (run.input, run.input_parts) == ("Read.", None)


def _mcp_call(number: int, arguments: str, **more: Any) -> McpCall:
    fields = {"id": f"mc_{number}", "name": "search", "server_label": "git", "type": "mcp_call", "arguments": arguments}
    return McpCall.model_construct(**fields, **more)


@pytest.mark.parametrize(
    "error",
    ["boom", {"type": "http_error", "code": 500, "message": "boom"}],
    ids=["text", "object"],
)
@scenario("19")
def test_mcp_servers_of_the_provider(mode: str, error: Any) -> None:
    """A call has its server; its error counts in the shape of each release of the provider's client."""
    listed = McpListTools.model_construct(
        id="l1",
        server_label="git",
        type="mcp_list_tools",
        tools=[
            {
                "name": "search",
                "description": "Search.",
                "input_schema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
            }
        ],
    )
    items = [listed, _mcp_call(1, '{"q": "x"}', output="RES"), _mcp_call(2, '{"q": "y"}', error=error), "done"]

    run = play(mode, make_agent(items)).run

    about = {"type": "mcp", "server": "git"}
    assert summaries(run.tools_called) == [
        called("search", {"q": "x"}, "mc_1", "RES", **about),
        called("search", {"q": "y"}, "mc_2", status="error", error="boom", **about),
    ]
    assert [(tool.name, tool.description, tool.effect) for tool in run.available_tools or ()] == [
        ("search", "Search.", "read")
    ]


def _approval(number: int, query: str) -> McpApprovalRequest:
    return McpApprovalRequest(
        id=f"mar_{number}",
        name="search",
        server_label="git",
        type="mcp_approval_request",
        arguments=f'{{"q": "{query}"}}',
    )


def _asking(mode: str, callback: Any, *requests: Any) -> Played:
    config = {"type": "mcp", "server_label": "git", "server_url": "http://localhost:1", "require_approval": "always"}
    tool = HostedMCPTool(tool_config=config, on_approval_request=callback)  # type: ignore[arg-type]
    carried_out = _mcp_call(1, '{"q": "x"}', output="RES", approval_request_id="mar_1")
    return play(mode, make_agent(list(requests), [carried_out, "done"], tools=[tool]))


ABOUT = {"type": "mcp", "server": "git"}


@scenario("20")
def test_approval_of_calls_of_mcp_servers(mode: str) -> None:
    """An approved call that ran is one call; a denied one is rejected."""

    def decide(request: Any) -> Any:
        return {"approve": request.data.id == "mar_1"}

    run = _asking(mode, decide, _approval(1, "x"), _approval(2, "zz")).run

    assert summaries(run.tools_called) == [
        called("search", {"q": "zz"}, "mar_2", status="rejected", **ABOUT),
        called("search", {"q": "x"}, "mc_1", "RES", **ABOUT),
    ]


@scenario("20b")
def test_approval_without_an_answer(mode: str) -> None:
    """Without an answer, the call waits."""
    run: Run = _asking(mode, None, _approval(1, "x")).run

    assert summaries(run.tools_called) == [called("search", {"q": "x"}, "mar_1", status="pending", **ABOUT)]
    assert run.status.value == "interrupted"
