"""Dumps of LangChain's messages, in every form that LangChain writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from toolgrade import InvalidDataError
from toolgrade.formats import read, read_traces
from tracing import Script, calls_of, histories, langchain_message, read_calls

Plain = dict[str, Any]


def conversation(script: Script) -> list[Plain]:
    """The messages of a history, as `dumps` writes them."""
    entries: list[Any] = [script.words]
    for step in script.steps:
        entries += [step, *step.calls]
    return [langchain_message(entry) for entry in entries]


def kind_and_fields(message: Plain) -> tuple[str, Plain]:
    """A message as its short type, and its fields."""
    kinds = {"HumanMessage": "human", "AIMessage": "ai", "ToolMessage": "tool", "AIMessageChunk": "AIMessageChunk"}
    return kinds[message["id"][-1]], message["kwargs"]


def as_dicts(messages: list[Plain]) -> list[Plain]:
    """Return the messages in the form of `messages_to_dict`."""
    return [{"type": kind, "data": {**fields, "type": kind}} for kind, fields in map(kind_and_fields, messages)]


def as_dumps(messages: list[Plain]) -> list[Plain]:
    """Return the messages in the form of `model_dump`."""
    return [{**fields, "type": kind} for kind, fields in map(kind_and_fields, messages)]


@pytest.mark.parametrize("form", [list, as_dicts, as_dumps])
@given(script=histories(nested=False))
def test_every_form_of_a_dump_has_the_same_calls(form: Any, script: Script) -> None:
    """Names, ids, arguments and success are equal; format, answer and input are detected too."""
    transcript = read(form(conversation(script)))

    assert transcript.format == "langchain"
    assert read_calls(transcript.run.calls) == calls_of(script)
    assert (transcript.run.input, transcript.run.actual_output) == (script.words, "Done.")
    assert not transcript.run.warnings


def test_calls_that_langchain_could_not_read_are_invalid() -> None:
    """LangChain stores them separately as text; the reason is LangChain's if it gives one."""
    bad = {"name": "add", "args": "{oops", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
    good = {"name": "add", "args": {}, "id": "c1"}
    run = read([{"type": "ai", "content": "", "tool_calls": [good], "invalid_tool_calls": [bad]}]).run

    assert [(call.id, call.execution and call.execution.status.value) for call in run.calls] == [
        ("c1", "not_executed"),
        ("c2", "invalid_arguments"),
    ]
    assert run.calls[1].execution is not None
    assert (run.calls[1].execution.requested_parameters, run.calls[1].execution.error) == ("{oops", "no JSON")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("User rejected the tool call for `add` with reason: no", "rejected"),
        ("Error: The reviewer denied this.", "rejected"),
        ("Skipped. The tool was not executed.", "rejected"),
        ("Tool call limit exceeded. Do not call 'add' again.", "rejected"),
        ("access denied for user bob", "error"),
        ("the limit of rows is exceeded", "error"),
    ],
)
def test_refusals_are_told_by_their_text(text: str, status: str) -> None:
    """A failed result says who refused the call, or that it did not run; any other one is a failure."""
    request = {"type": "ai", "content": "", "tool_calls": [{"name": "add", "args": {}, "id": "c1"}]}
    result = {"type": "tool", "content": text, "tool_call_id": "c1", "status": "error"}
    failed, succeeded = read([request, result]).run, read([request, {**result, "status": "success"}]).run

    assert [run.calls[0].execution.status.value for run in (failed, succeeded) if run.calls[0].execution] == [
        status,
        "ok",
    ]


def test_blocks_that_repeat_calls_do_not_count_and_those_of_the_provider_do() -> None:
    """Anthropic's blocks repeat the calls made from them; calls that Anthropic ran are only there."""
    content = [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "text", "text": "found"}]},
    ]
    run = read([{"type": "ai", "content": content, "tool_calls": [{"name": "add", "args": {}, "id": "c1"}]}]).run

    assert [(call.name, call.type, call.output) for call in run.calls] == [
        ("add", "function", None),
        ("web_search", "hosted", "found"),
    ]


def ai(content: Any, **fields: Any) -> Plain:
    """A message of the model."""
    return {"type": "ai", "content": content, **fields}


LOOK = {"type": "server_tool_use", "id": "s1", "name": "look", "input": {}, "partial_json": '{"q": "x"}'}
PATCH = {"type": "apply_patch_call", "call_id": "c1", "operation": {"path": "a"}}
PATCHED = [{"type": "apply_patch_call_output", "call_id": "c1", "output": "done"}]
SEARCH = {"type": "server_tool_call", "id": "s1", "name": "tool_search_tool_bm25", "args": {"query": "x"}}
FREE = [{"type": "custom_tool_call", "call_id": "c1", "name": "run", "input": "1+1"}]
PRINTED = [{"type": "custom_tool_call_output", "output": "2"}]
CODE = {"type": "executable_code", "executable_code": "1/0", "language": "PYTHON"}

BLOCKS: dict[str, tuple[list[Plain], list[object]]] = {
    "streamed arguments, and the result in the next message": (
        [ai([LOOK]), ai([{"type": "look_tool_result", "tool_use_id": "s1", "content": "found"}])],
        [("look", {"q": "x"}, "ok", "found")],
    ),
    "an item that the client answers as a person": (
        [ai([{"type": "non_standard", "value": PATCH}]), {"type": "human", "content": PATCHED}, ai("Done.")],
        [("apply_patch", {"path": "a"}, "ok", "done")],
    ),
    "items beside the content": (
        [
            ai(
                "Look.",
                additional_kwargs={"tool_outputs": [{"type": "web_search_call", "id": "w1", "action": {"q": 1}}]},
            )
        ],
        [("web_search", {"q": 1}, "ok", None)],
    ),
    "free text": (
        [
            ai(FREE, tool_calls=[{"name": "run", "args": {"__arg1": "1+1"}, "id": "c1"}]),
            {"type": "tool", "content": PRINTED, "tool_call_id": "c1"},
        ],
        [("run", {"input": "1+1"}, "ok", "2")],
    ),
    "a search for tools": (
        [ai([SEARCH, {"type": "server_tool_result", "tool_call_id": "s1", "output": {"tool_references": []}}])],
        [],
    ),
    "unreadable arguments": (
        [
            ai(
                [{"type": "invalid_tool_call", "name": "add", "args": "{", "id": "c1"}],
                invalid_tool_calls=[{"name": "add", "args": "{", "id": "c1", "error": "no JSON"}],
            )
        ],
        [("add", {}, "invalid_arguments", None)],
    ),
    "code without ids": (
        [ai([CODE, {"type": "code_execution_result", "code_execution_result": "ZeroDivisionError", "outcome": 2}])],
        [("code_execution", {"code": "1/0", "language": "PYTHON"}, "error", None)],
    ),
}


@pytest.mark.parametrize(("messages", "calls"), BLOCKS.values(), ids=BLOCKS)
def test_calls_in_blocks_of_content(messages: list[Plain], calls: list[object]) -> None:
    """They are read in the form of each provider, and nothing is missing after them."""
    transcript = read([{"type": "human", "content": "Go."}, *messages])
    run = transcript.run

    assert [
        (call.name, call.arguments, call.execution and call.execution.status.value, call.output) for call in run.calls
    ] == calls
    assert len(transcript.turns) == 1
    assert [text for text in run.warnings if "not a JSON object" not in text] == []


USE = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}

THOUGHTS: dict[str, tuple[Any, Plain]] = {
    "anthropic": ([{"type": "thinking", "thinking": "A\nB"}, USE], {}),
    "standard, in two blocks": ([{"type": "reasoning", "reasoning": "A"}, {"type": "reasoning", "reasoning": "B"}], {}),
    "streamed into the text": ([{"type": "text", "text": "", "reasoning": "A\nB"}, USE], {}),
    "bedrock": ([{"type": "reasoning_content", "reasoning_content": {"text": "A\nB", "signature": "s"}}, USE], {}),
    "beside the content": ("Adding.", {"reasoning_content": "A\nB"}),
    "item beside the content": ([], {"reasoning": {"type": "reasoning", "summary": [{"text": "A"}, {"text": "B"}]}}),
}


@pytest.mark.parametrize(("content", "additional"), THOUGHTS.values(), ids=THOUGHTS)
def test_reasoning_before_a_call_is_read(content: Any, additional: Plain) -> None:
    """In the form of each provider."""
    call = {"name": "add", "args": {}, "id": "c1"}
    (read_call,) = read([ai(content, additional_kwargs=additional, tool_calls=[call])]).run.calls

    assert read_call.reasoning == "A\nB"


def test_calls_only_in_additional_kwargs_are_read() -> None:
    """Old versions wrote them there."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    run = read([{"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [call]}}]).run

    assert [(call.name, call.input_parameters) for call in run.calls] == [("add", {"a": 1})]


def test_model_and_tokens_are_those_of_the_messages() -> None:
    """Summed over them."""
    usage = {"usage_metadata": {"input_tokens": 3, "output_tokens": 1}, "response_metadata": {"model_name": "m-1"}}
    run = read([{"type": "ai", "content": "Hi", **usage}, {"type": "ai", "content": "Ho", **usage}]).run

    assert (run.models, run.usage) == (["m-1"], {"input_tokens": 6, "output_tokens": 2})


REFUSED: dict[str, tuple[object, str]] = {
    "a call without a name": ([{"type": "ai", "content": "", "tool_calls": [{"args": {}}]}], "$[0].tool_calls[0].name"),
    "another format beside it": ([{"type": "human", "content": "Hi"}, {"role": "tool", "content": "3"}], "$[1]: looks"),
    "what is no message": ([{"type": "human", "content": "Hi"}, 3], "$[1]: expected a message of LangChain, got 3"),
}


@pytest.mark.parametrize(("value", "problem"), REFUSED.values(), ids=REFUSED)
def test_invalid_values_are_refused_with_the_reason(value: object, problem: str) -> None:
    """Nothing is dropped silently."""
    with pytest.raises(InvalidDataError) as raised:
        read(value)

    assert str(raised.value.problems[0]).startswith(problem)


def test_messages_and_dumps_of_the_package_itself_are_read() -> None:
    """The objects, and what the functions of the package write of them."""
    messages = pytest.importorskip("langchain_core.messages")
    load = pytest.importorskip("langchain_core.load")
    objects = [
        messages.HumanMessage("Go."),
        messages.AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}]),
        messages.ToolMessage("3", tool_call_id="c1"),
        messages.AIMessage("Done."),
    ]

    for value in (
        objects,
        messages.messages_to_dict(objects),
        load.dumpd(objects),
        [one.model_dump() for one in objects],
    ):
        run = read(value).run
        assert read_calls(run.calls) == [("add", "c1", {"a": 1}, True, [])]
        assert (run.calls[0].output, run.actual_output) == ("3", "Done.")


def test_runs_of_a_real_agent_are_read() -> None:
    """What LangChain hands to LangSmith: an agent with a tool that fails to exist, and an agent inside a tool."""
    pytest.importorskip("langchain.agents")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self.bind(tools=[{"type": "function", "function": {"name": tool.name}} for tool in tools])

    def asks(*calls: tuple[str, Plain, str]) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": n, "args": a, "id": i} for n, a, i in calls])

    def add(a: int) -> int:
        """Add."""
        return a + 1

    tool = StructuredTool.from_function(add)
    inner = create_agent(Scripted(messages=iter([asks(("add", {"a": 5}, "i1")), AIMessage("six")])), [tool], name="in")

    def ask(question: str) -> str:
        """Ask."""
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].content)

    script = [
        asks(("add", {"a": 1}, "c1"), ("ask", {"question": "?"}, "c2")),
        asks(("nope", {}, "c3")),
        AIMessage("Ok."),
    ]
    outer = create_agent(Scripted(messages=iter(script)), [tool, StructuredTool.from_function(ask)], name="out")
    collector = RunCollectorCallbackHandler()

    outer.invoke({"messages": [("user", "Go.")]}, {"callbacks": [collector], "metadata": {"thread_id": "t1"}})

    def plain(run: Any) -> Plain:
        return {**run.model_dump(mode="json"), "child_runs": [plain(child) for child in run.child_runs]}

    (run,) = read_traces(plain(collector.traced_runs[0])).runs
    assert read_calls(run.calls) == [
        ("add", "c1", {"a": 1}, True, []),
        ("ask", "c2", {"question": "?"}, True, [("add", "i1", {"a": 5}, True, [])]),
        ("nope", "c3", {}, False, []),
    ]
    assert (run.input, run.actual_output, run.conversation_id) == ("Go.", "Ok.", "t1")
    assert [call.execution and call.execution.status.value for call in run.calls] == ["ok", "ok", "unknown_tool"]
    assert [call.execution and call.execution.agent for call in run.calls] == ["out", "out", "out"]
    assert not run.warnings
