"""What providers write: the tools they were offered, and the tools that they ran themselves."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import Tool
from lc_agents import ScriptedModel, add, asks, called, make_agent, memory, react_agent, scripted, summaries, thread
from pydantic import BaseModel, Field

from toolgrade.cases import RunStatus
from toolgrade_langchain import ToolCallRecorder, run_from_messages, run_from_state

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
        pytest.param({"type": "tool_search"}, [], id="openai-tool-search"),
        pytest.param({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}, [], id="search"),
        pytest.param({"type": "computer"}, [("computer_use_preview", None, None)], id="openai-computer"),
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
            called("web_search", {"type": "search", "query": "cats"}, "w1", type="hosted"),
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
                {"type": "server_tool_call", "id": "t1", "name": "file_search", "args": {"queries": ["cats"]}},
                {
                    "type": "server_tool_result",
                    "tool_call_id": "t1",
                    "status": "success",
                    "output": [{"file_id": "f1", "score": 0.8, "text": "Cats sleep."}],
                },
            ],
            called(
                "file_search",
                {"queries": ["cats"]},
                "t1",
                [{"file_id": "f1", "score": 0.8, "text": "Cats sleep."}],
                type="hosted",
            ),
            id="standard-results-with-texts",
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
        ({"type": "code_tool_result", "tool_use_id": "s1", "is_error": True, "content": [{"text": "down"}]}, "down"),
        ({"type": "server_tool_result", "tool_call_id": "s1", "status": "error"}, "status: failed"),
        (
            {"type": "server_tool_result", "tool_call_id": "s1", "status": "error", "extras": {"error": "down"}},
            "down",
        ),
        (
            {"type": "server_tool_result", "tool_call_id": "s1", "extras": {"status": "incomplete"}},
            "status: incomplete",
        ),
        ({"type": "web_search_call", "id": "s1", "status": "failed", "action": {}}, "status: failed"),
        ({"type": "code_interpreter_call", "id": "s1", "status": "failed", "code": "1/0"}, "status: failed"),
    ],
)
def test_hosted_calls_that_failed(block: Any, error: str) -> None:
    """A hosted call whose result is an error, or whose status is failed, failed."""
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}

    (call,) = hosted([block] if "id" in block else [use, block])

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


# What the classes of LangChain's packages for OpenAI and Anthropic make of the provider's answers, in each of their
# versions of the output, and streamed.

PATCH = {"type": "apply_patch_call", "id": "ap_1", "call_id": "c1", "status": "completed"}
PATCH["operation"] = {"type": "delete_file", "path": "a.txt"}  # type: ignore[assignment]
CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed"}
CLICK["action"] = {"type": "click", "x": 3, "y": 4}  # type: ignore[assignment]
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "bank", "name": "pay"}
APPROVAL["arguments"] = '{"euros": 5}'
IMAGE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
FREE = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "run", "input": "1+1"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}


def image_block(item: dict[str, Any]) -> dict[str, Any]:
    """The block that version 1 makes of a generated image."""
    return {"type": "image", "base64": item["result"], "id": item["id"], "extras": {"status": "completed"}}


def version(name: str, item: dict[str, Any]) -> AIMessage:
    """The message that `ChatOpenAI` makes of reasoning and an item in a version of its output."""
    calls = [{"name": "run", "args": {"__arg1": "1+1"}, "id": "c1"}] if item is FREE else []
    content: list[Any] = []
    more: dict[str, Any] = {}
    if name == "v0":
        content, more = ([item], {}) if item is FREE else ([], {"tool_outputs": [item]})
        more["reasoning"] = THOUGHT
    elif name == "responses/v1":
        content = [THOUGHT, {**item, "index": 1}]
    else:
        block = image_block(item) if item is IMAGE else {"type": "non_standard", "value": item}
        content = [{"type": "reasoning", "reasoning": "Hm."}, block]
    return AIMessage(content=content, additional_kwargs=more, tool_calls=calls)


@pytest.mark.parametrize("name", ["v0", "responses/v1", "v1"])
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(CLICK, ("computer_use_preview", "function", CLICK["action"], "c1", "not_executed"), id="computer"),
        pytest.param(PATCH, ("apply_patch", "function", PATCH["operation"], "c1", "not_executed"), id="patch"),
        pytest.param(APPROVAL, ("pay", "mcp", {"euros": 5}, "mcpr_1", "pending"), id="approval"),
        pytest.param(IMAGE, ("image_generation", "hosted", {}, "ig_1", "ok"), id="image"),
        pytest.param(FREE, ("run", "custom", {"input": "1+1"}, "c1", "not_executed"), id="custom"),
    ],
)
def test_items_of_openai(name: str, item: dict[str, Any], expected: Any) -> None:
    """An item is the same call in every version of the output, with the reasoning before it, recorded or read."""
    message, recorder = version(name, item), ToolCallRecorder()
    with recorder.single_run():
        scripted(message).invoke([HumanMessage("hi")], {"callbacks": [recorder]})

    for run in (recorder.run, run_from_messages([HumanMessage("hi"), message])):
        (call,) = run.calls
        assert (call.name, call.type, call.arguments, call.id, call.execution.status.value) == expected  # type: ignore[union-attr]
        assert call.reasoning == "Hm."
        assert (run.status is RunStatus.INTERRUPTED) is (item is APPROVAL)


@pytest.mark.parametrize("name", ["v0", "responses/v1", "v1"])
def test_tool_of_free_text(name: str) -> None:
    """It receives a text, and what it returns as an item of OpenAI is its output."""
    run = Tool("run", lambda text: [{"type": "custom_tool_call_output", "output": f"{text} = 2"}], "Runs.")
    recorder = ToolCallRecorder()

    state = make_agent(scripted(version(name, FREE), "2"), [run]).invoke({"messages": "hi"}, {"callbacks": [recorder]})

    content = state["messages"][-2].content  # the first releases show the model the text of the item
    output = content if isinstance(content, str) else "1+1 = 2"
    expected = called("run", {"input": "1+1"}, "c1", output, type="custom")
    assert summaries(recorder.run.calls) == [expected]
    assert summaries(run_from_state(state).calls) == [expected | {"executed": False}]
    assert not recorder.run.warnings


@pytest.mark.parametrize("server", [None, "wiki"])
def test_streamed_arguments_of_anthropic(server: str | None) -> None:
    """They stand in `partial_json`, next to the empty input with which the block began."""
    kind = "server_tool_use" if server is None else "mcp_tool_use"
    use = {"type": kind, "id": "s1", "name": "look", "input": {}, "index": 0, "partial_json": '{"q": "cats"}'}
    result = {"type": "look_tool_result", "tool_use_id": "s1", "content": "Cats.", "index": 1}
    more = {} if server is None else {"server_name": server}

    calls = hosted(["", {**use, **more}, result])

    assert calls == [called("look", {"q": "cats"}, "s1", "Cats.", type="hosted" if server is None else "mcp")]


SEARCHES = {
    "anthropic": [
        {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_regex", "input": {"pattern": "a.*"}},
        {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {"tool_references": []}},
    ],
    "anthropic-v1": [
        {"type": "server_tool_call", "id": "s1", "name": "tool_search_tool_bm25", "args": {"query": "add"}},
        {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": {"tool_references": []}},
    ],
    "openai": [
        {"type": "tool_search_call", "id": "t1", "arguments": {"paths": ["add"]}, "execution": "server"},
        {"type": "tool_search_output", "id": "t2", "tools": [], "execution": "server"},
    ],
    "openai-v1": [
        {"type": "server_tool_call", "id": "t1", "name": "tool_search", "args": {"paths": ["add"]}},
        {
            "type": "server_tool_result",
            "tool_call_id": "t2",
            "output": {"tools": []},
            "extras": {"name": "tool_search"},
        },
    ],
    "openai-list-of-a-server": [
        {"type": "server_tool_call", "id": "l1", "name": "mcp_list_tools", "args": {}, "extras": {"server_label": "w"}},
        {"type": "server_tool_result", "tool_call_id": "l1", "status": "success", "output": [{"name": "ask"}]},
    ],
}


@pytest.mark.parametrize("blocks", SEARCHES.values(), ids=SEARCHES)
def test_search_for_tools_is_no_call(blocks: list[Any]) -> None:
    """Only the call of the tool that the search brought is one."""
    request = AIMessage(content=blocks, tool_calls=asks(("add", {"a": 1}, "c1")).tool_calls)
    recorder = ToolCallRecorder()

    state = make_agent(scripted(request, "3"), [add]).invoke({"messages": "hi"}, {"callbacks": [recorder]})

    for run in (recorder.run, run_from_state(state)):
        assert ([call.name for call in run.calls], run.warnings) == (["add"], [])


@pytest.mark.parametrize("name", ["v0", "v1"])
def test_calls_of_a_program(name: str) -> None:
    """Calls that code of the model made are inside the call of the code, which ran once although it paused for them."""
    caller = {"caller": {"type": "code_execution_20250825", "tool_id": "s1"}}
    if name == "v0":
        program = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "..."}}
        result = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "8"}}
        uses = [{"type": "tool_use", "id": f"c{a}", "name": "add", "input": {}, **caller} for a in (1, 2, 3)]
    else:
        program = {"type": "server_tool_call", "id": "s1", "name": "code_interpreter", "args": {"code": "..."}}
        result = {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": {"stdout": "8"}}
        uses = [{"type": "tool_call", "id": f"c{a}", "name": "add", "args": {}, "extras": caller} for a in (1, 2, 3)]
    calls = asks(*(("add", {"a": a}, f"c{a}") for a in (1, 2, 3))).tool_calls
    provider = {"response_metadata": {"model_provider": "anthropic"}}
    script = [
        AIMessage(content=[program, *uses[:2]], tool_calls=calls[:2], **provider),
        AIMessage(content=uses[2:], tool_calls=calls[2:], **provider),
        AIMessage(content=[result, {"type": "text", "text": "Done."}], **provider),
    ]
    recorder = ToolCallRecorder()

    state = make_agent(scripted(*script), [add]).invoke({"messages": "hi"}, {"callbacks": [recorder]})

    for run in (recorder.run, run_from_state(state)):
        (call,) = run.calls
        assert call.execution is not None
        assert (call.name, call.output, call.execution.attempts) == ("code_execution", {"stdout": "8"}, 1)
        assert [(one.id, one.output) for one in call.execution.children] == [("c1", "3"), ("c2", "4"), ("c3", "5")]
        assert run.warnings == []


@pytest.mark.parametrize("form", ["message", "object"])
@pytest.mark.parametrize(("approve", "status"), [(True, "ok"), (False, "rejected")])
def test_approval_of_a_call(form: str, *, approve: bool, status: str) -> None:
    """A run that waits for an approval goes on with the answer to it, and the call that is allowed is the same call."""
    call = {"type": "mcp_call", "id": "mcp_1", "server_label": "bank", "name": "pay", "arguments": '{"euros": 5}'}
    call |= {"approval_request_id": "mcpr_1", "output": "paid"}
    script = [AIMessage(content=[APPROVAL]), AIMessage(content=[*([call] if approve else []), "Done."])]
    model, recorder = ScriptedModel(script=lambda content: script[content != "hi" :]), ToolCallRecorder()
    agent = react_agent(model, [add], checkpointer=memory())
    response = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve}

    agent.invoke({"messages": "hi"}, thread("T", recorder))
    waiting = run_from_state(agent.get_state(thread("T")))
    assert [(run.status, [call.id for call in run.calls]) for run in (recorder.run, waiting)] == [
        (RunStatus.INTERRUPTED, ["mcpr_1"])
    ] * 2
    answer = HumanMessage([response]) if form == "message" else {"role": "user", "content": [response]}
    agent.invoke({"messages": [answer]}, thread("T", recorder))

    (run,) = recorder.runs
    assert not recorder.warnings
    for one in (run, run_from_state(agent.get_state(thread("T")))):
        assert (one.status, one.input, one.actual_output, one.warnings) == (RunStatus.OK, "hi", "Done.", [])
        assert [(call.name, call.execution.status.value) for call in one.calls] == [("pay", status)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("item", "answer", "output"),
    [
        (CLICK, ToolMessage([{"type": "input_image", "image_url": "a"}], tool_call_id="c1"), None),
        (
            CLICK,
            ToolMessage([{"type": "computer_call_output", "call_id": "c1", "output": "a"}], tool_call_id="c1"),
            "a",
        ),
        (PATCH, HumanMessage([{"type": "apply_patch_call_output", "call_id": "c1", "output": "a"}]), "a"),
    ],
)
def test_answers_of_the_client(item: dict[str, Any], answer: Any, output: Any) -> None:
    """What the client ran is answered by a message, which is no question of the user even if it is of this type."""
    script, recorder = [AIMessage(content=[item]), AIMessage("Done.")], ToolCallRecorder()
    question = HumanMessage("hi")
    with recorder.single_run():
        scripted(script[0]).invoke([question], {"callbacks": [recorder]})
        scripted(script[1]).invoke([question, script[0], answer], {"callbacks": [recorder]})

    for run in (recorder.run, run_from_messages([question, script[0], answer, script[1]])):
        (call,) = run.calls
        assert call.execution is not None
        assert (call.execution.status, call.output) == ("ok", output or answer.content)
        assert run.input == "hi"


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
