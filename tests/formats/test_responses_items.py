"""Single items of OpenAI's Responses API as `openai_responses` reads them: calls and answers."""

from typing import Any

import pytest

from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.openai_responses import Answer, read_responses_answer, read_responses_call
from toolgrade.matching.json_compare import ABSENT

Item = dict[str, Any]

SEARCH = {"type": "search", "query": "weather", "queries": ["weather"]}
HOSTED = ToolCallType.HOSTED
MCP = ToolCallType.MCP
FUNCTION = ToolCallType.FUNCTION
LOGS = [{"type": "logs", "logs": "3"}]
PNG = {"type": "image", "mime_type": "image/png", "data": "aGk="}
WEBP = {"type": "image", "mime_type": "image/webp", "data": "aGk="}

CALLS: dict[str, tuple[Item, Request]] = {
    "function": (
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
        Request("add", {"a": 1}, "c1", FUNCTION),
    ),
    "function, no arguments": (
        {"type": "function_call", "call_id": "c1", "name": "now", "arguments": ""},
        Request("now", {}, "c1", FUNCTION),
    ),
    "function, no call id": (
        {"type": "function_call", "id": "__fake_id__", "call_id": None, "name": "now", "arguments": "{}"},
        Request("now", {}, None, FUNCTION),
    ),
    "function of a namespace": (
        {"type": "function_call", "call_id": "c1", "name": "lookup", "namespace": "crm", "arguments": "{}"},
        Request("lookup", {}, "c1", FUNCTION, "crm"),
    ),
    "function that was loaded late": (
        {"type": "function_call", "call_id": "c1", "name": "lookup", "namespace": "lookup", "arguments": "{}"},
        Request("lookup", {}, "c1", FUNCTION),
    ),
    "function called by a program": (
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "add",
            "arguments": "{}",
            "caller": {"type": "program", "caller_id": "p1"},
        },
        Request("add", {}, "c1", FUNCTION, caller="p1"),
    ),
    "function called by the model itself": (
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}", "caller": {"type": "direct"}},
        Request("add", {}, "c1", FUNCTION),
    ),
    "custom": (
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
        Request("sql", {"input": "SELECT 1"}, "c1", ToolCallType.CUSTOM),
    ),
    "agent of the provider": (
        {
            "type": "multi_agent_call",
            "id": "ma_1",
            "call_id": "c1",
            "action": "spawn_agent",
            "arguments": '{"task": "count"}',
            "agent": {"agent_name": "/root"},
        },
        Request("spawn_agent", {"task": "count"}, "c1", HOSTED),
    ),
    "computer": (
        {"type": "computer_call", "id": "x", "call_id": "c1", "action": {"type": "click", "x": 1, "keys": None}},
        Request("computer_use_preview", {"type": "click", "x": 1}, "c1", FUNCTION),
    ),
    "computer, several actions": (
        {"type": "computer_call", "call_id": "c1", "action": None, "actions": [{"type": "wait"}]},
        Request("computer_use_preview", {"actions": [{"type": "wait"}]}, "c1", FUNCTION),
    ),
    "local shell": (
        {"type": "local_shell_call", "id": "c1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        Request("local_shell", {"type": "exec", "command": ["ls"], "env": {}}, "c1", FUNCTION),
    ),
    "shell": (
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"], "timeout_ms": None}},
        Request("shell", {"commands": ["ls"]}, "c1", FUNCTION),
    ),
    "shell in a container": (
        {
            "type": "shell_call",
            "call_id": "c1",
            "action": {"commands": ["ls"]},
            "environment": {"type": "container_reference", "container_id": "x"},
        },
        Request("shell", {"commands": ["ls"]}, "c1", HOSTED),
    ),
    "patch": (
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}},
        Request("apply_patch", {"type": "delete_file", "path": "a"}, "c1", FUNCTION),
    ),
    "program": (
        {"type": "program", "id": "x", "call_id": "p1", "code": "add()", "fingerprint": "f"},
        Request("program", {"code": "add()"}, "p1", HOSTED),
    ),
    "web search": (
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {**SEARCH, "sources": [{"type": "url", "url": "https://a"}]},
        },
        Request("web_search", SEARCH, "ws_1", HOSTED, result=[{"type": "url", "url": "https://a"}], ran=True),
    ),
    "web search, sources not asked for": (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": SEARCH},
        Request("web_search", SEARCH, "ws_1", HOSTED, ran=True),
    ),
    "web search under way": (
        {"type": "web_search_call", "id": "ws_1", "status": "searching", "action": SEARCH},
        Request("web_search", SEARCH, "ws_1", HOSTED),
    ),
    "file search": (
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": []},
        Request("file_search", {"queries": ["a"]}, "fs_1", HOSTED, result=[], ran=True),
    ),
    "code interpreter": (
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1+2",
            "container_id": "x",
            "outputs": LOGS,
        },
        Request("code_interpreter", {"code": "1+2"}, "ci_1", HOSTED, result=LOGS, ran=True),
    ),
    "code interpreter, failed with output": (
        {"type": "code_interpreter_call", "id": "ci_1", "status": "failed", "code": "1/0", "outputs": LOGS},
        Request("code_interpreter", {"code": "1/0"}, "ci_1", HOSTED, failure="status: failed", ran=True),
    ),
    "image": (
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk=", "size": "1x1"},
        Request("image_generation", {"size": "1x1"}, "ig_1", HOSTED, result=PNG, ran=True),
    ),
    "image in another format": (
        {"type": "image_generation_call", "id": "ig_1", "output_format": "webp", "result": "aGk="},
        Request("image_generation", {"output_format": "webp"}, "ig_1", HOSTED, result=WEBP, ran=True),
    ),
    "image that was blocked": (
        {"type": "image_generation_call", "id": "ig_1", "status": "failed", "error": {"type": "m", "message": "no"}},
        Request("image_generation", {}, "ig_1", HOSTED, failure="no", ran=True),
    ),
    "mcp": (
        {
            "type": "mcp_call",
            "id": "mc_1",
            "server_label": "git",
            "name": "search",
            "arguments": '{"q": "x"}',
            "output": "RES",
            "error": None,
            "approval_request_id": "mar_1",
        },
        Request("search", {"q": "x"}, "mc_1", MCP, "git", result="RES", ran=True, replaces="mar_1"),
    ),
    "mcp, error as text": (
        {"type": "mcp_call", "id": "mc_1", "server_label": "git", "name": "search", "error": "boom"},
        Request("search", {}, "mc_1", MCP, "git", failure="boom", ran=True),
    ),
    "mcp, error of the protocol": (
        {
            "type": "mcp_call",
            "id": "mc_1",
            "server_label": "git",
            "name": "search",
            "error": {"type": "mcp_protocol_error", "code": -1, "message": "boom"},
        },
        Request("search", {}, "mc_1", MCP, "git", failure="boom", ran=True),
    ),
    "mcp, error of the tool": (
        {
            "type": "mcp_call",
            "id": "mc_1",
            "server_label": "git",
            "name": "search",
            "output": "not this",
            "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "boom"}]},
        },
        Request("search", {}, "mc_1", MCP, "git", failure="boom", ran=True),
    ),
    "mcp, failed without a word": (
        {"type": "mcp_call", "id": "mc_1", "server_label": "git", "name": "search", "status": "failed"},
        Request("search", {}, "mc_1", MCP, "git", failure="status: failed", ran=True),
    ),
    "mcp, under way": (
        {"type": "mcp_call", "id": "mc_1", "server_label": "git", "name": "search", "status": "calling"},
        Request("search", {}, "mc_1", MCP, "git"),
    ),
    "mcp request for approval": (
        {"type": "mcp_approval_request", "id": "mar_1", "server_label": "git", "name": "search", "arguments": "{}"},
        Request("search", {}, "mar_1", MCP, "git", needs_approval=True),
    ),
    "of a later type, run by the provider": (
        {"type": "teleport_call", "id": "t1", "status": "completed", "where": "Rome", "result": "there"},
        Request("teleport", {"where": "Rome"}, "t1", HOSTED, result="there", ran=True),
    ),
    "of a later type, failed": (
        {"type": "teleport_call", "id": "t1", "status": "failed", "where": "Rome"},
        Request("teleport", {"where": "Rome"}, "t1", HOSTED, failure="status: failed", ran=True),
    ),
    "of a later type, to be answered": (
        {"type": "teleport_call", "id": "x", "call_id": "c1", "name": "beam", "arguments": '{"to": "Rome"}'},
        Request("beam", {"to": "Rome"}, "c1"),
    ),
}


class Sdk:
    """An SDK object: attributes, and a dump with null for unset fields."""

    def __init__(self, fields: Item) -> None:
        self.fields = fields

    def model_dump(self) -> Item:
        """The fields."""
        return self.fields


@pytest.mark.parametrize("wrap", [dict, Sdk])
@pytest.mark.parametrize(("item", "request_"), CALLS.values(), ids=CALLS)
def test_an_item_is_a_call(item: Item, request_: Request, wrap: Any) -> None:
    """Every type of call has its name, arguments, id, type, server and outcome; objects read as plain items do."""
    assert read_responses_call(wrap(item)) == request_
    assert read_responses_answer(wrap(item)) is None


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", "null", [1], 7])
def test_invalid_arguments_stay_raw(arguments: object) -> None:
    """The model's text replaces the arguments, with the reason."""
    request = read_responses_call({"type": "function_call", "call_id": "c1", "name": "add", "arguments": arguments})

    assert request is not None
    assert request.arguments == arguments
    assert request.error


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "assistant", "content": "hi"},
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "summary": []},
        {"type": "mcp_list_tools", "tools": []},
        {"type": "tool_search_call", "arguments": {}},
        {"type": "tool_search_output", "tools": []},
        {"type": "item_reference", "id": "x"},
        {"type": "compaction"},
        {"type": 3},
        {},
        "function_call",
        None,
    ],
)
def test_other_items_are_neither(item: object) -> None:
    """An item that is neither a call nor an answer gives nothing and raises nothing."""
    assert read_responses_call(item) is None
    assert read_responses_answer(item) is None


IMAGE = {"type": "input_image", "image_url": "data:"}
SHELL = [{"stdout": "start", "stderr": "ls boom", "outcome": {"type": "exit", "exit_code": 1}}]

ANSWERS: dict[str, tuple[Item, Answer]] = {
    "text": ({"type": "function_call_output", "call_id": "c1", "output": "3"}, Answer("c1", content="3")),
    "by name": (
        {"type": "function_call_output", "name": "add", "output": "3"},
        Answer(None, "add", content="3"),
    ),
    "nothing": ({"type": "function_call_output", "call_id": "c1"}, Answer("c1")),
    "texts": (
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        Answer("c1", content="ab"),
    ),
    "text and image": (
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "t"}, IMAGE]},
        Answer("c1", content=["t", IMAGE]),
    ),
    "incomplete": (
        {"type": "function_call_output", "call_id": "c1", "output": "half", "status": "incomplete"},
        Answer("c1", content="half", failed=True, error="half"),
    ),
    "screenshot": (
        {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
        Answer("c1", content={"type": "computer_screenshot"}),
    ),
    "local shell": ({"type": "local_shell_call_output", "id": "c1", "output": "a"}, Answer("c1", content="a")),
    "shell, failed": (
        {"type": "shell_call_output", "call_id": "c1", "output": SHELL, "status": "failed"},
        Answer("c1", content=SHELL, failed=True, error="start\nls boom"),
    ),
    "patch, failed": (
        {"type": "apply_patch_call_output", "call_id": "c1", "output": "bad patch", "status": "failed"},
        Answer("c1", content="bad patch", failed=True, error="bad patch"),
    ),
    "patch, failed without a word": (
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed"},
        Answer("c1", failed=True, error="status: failed"),
    ),
    "program": ({"type": "program_output", "call_id": "p1", "result": "3"}, Answer("p1", content="3")),
    "approved": (
        {"type": "mcp_approval_response", "approval_request_id": "mar_1", "approve": True},
        Answer("mar_1", approved=True),
    ),
    "refused": (
        {"type": "mcp_approval_response", "approval_request_id": "mar_1", "approve": False, "reason": "no"},
        Answer("mar_1", content="no", failed=True, approved=False),
    ),
    "of a later type": (
        {"type": "teleport_call_output", "call_id": "c1", "output": "there"},
        Answer("c1", None, "there"),
    ),
}


@pytest.mark.parametrize("wrap", [dict, Sdk])
@pytest.mark.parametrize(("item", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_an_item_is_an_answer(item: Item, answer: Answer, wrap: Any) -> None:
    """Every type of answer has its call, its content, and whether it says that the call failed."""
    assert read_responses_answer(wrap(item)) == answer
    assert read_responses_call(wrap(item)) is None


def test_absent_is_not_null() -> None:
    """An answer without content says nothing about the output; one that is null does not either."""
    answer = read_responses_answer({"type": "function_call_output", "call_id": "c1", "output": None})

    assert answer is not None
    assert answer.content is ABSENT
