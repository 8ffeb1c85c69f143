"""The reader of all formats: edge cases of each format, format detection, and refused values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from toolgrade.calls import ToolCall
from toolgrade.cases import MLLMImage, Run, RunStatus
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.formats import Transcript, read

Plain = dict[str, Any]


def user(content: Any = "Go.") -> Plain:
    """The user's words."""
    return {"role": "user", "content": content}


def agent(content: Any, **more: Any) -> Plain:
    """A message of the agent."""
    return {"role": "assistant", "content": content, **more}


def text(words: str) -> Plain:
    """A part or block of text."""
    return {"type": "text", "text": words}


def brief(call: ToolCall) -> tuple[Any, ...]:
    """Name, arguments, status, and output or error."""
    how = call.execution
    assert how is not None
    return call.name, call.arguments, how.status.value, how.error if how.error is not None else call.output


def briefs(run: Run) -> list[tuple[Any, ...]]:
    """Return name, arguments, status and output of the top-level calls."""
    return [brief(call) for call in run.calls]


def problems(value: object, **options: Any) -> list[str]:
    """The problems that keep a value from being read."""
    with pytest.raises(InvalidDataError) as raised:
        read(value, **options)
    return [str(problem) for problem in raised.value.problems]


# Chat Completions


def asks(*calls: tuple[str, Any, str | None], **more: Any) -> Plain:
    """A chat message that asks for calls: name, arguments, id."""
    entries = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for n, a, i in calls]
    return agent(None, tool_calls=entries, **more)


def tool(content: Any, call_id: str | None = "c1", **more: Any) -> Plain:
    """A chat message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


CHAT: dict[str, tuple[list[Plain], list[tuple[Any, ...]], list[str]]] = {
    "answered": ([asks(("add", "{}", "c1")), tool("3")], [("add", {}, "ok", "3")], []),
    "no ids": (
        [asks(("add", {}, None), ("sub", {}, "")), tool("S", None, name="sub"), tool("A", "")],
        [("add", {}, "ok", "A"), ("sub", {}, "ok", "S")],
        ["the call has no id", "the tool message has no id of a call"],
    ),
    "arguments broken off": (
        [asks(("add", '{"a": 1', "c1")), tool("bad")],
        [("add", {}, "invalid_arguments", "not JSON")],
        ["the arguments of 'add' are not a JSON object"],
    ),
    "null arguments": ([asks(("add", None, "c1")), tool("3")], [("add", {}, "ok", "3")], []),
    "custom": (
        [agent(None, tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "x"}}]), tool("y")],
        [("sql", {"input": "x"}, "ok", "y")],
        [],
    ),
    "legacy": (
        [
            agent(None, function_call={"name": "add", "arguments": "{}"}),
            {"role": "function", "name": "add", "content": "3"},
        ],
        [("add", {}, "ok", "3")],
        ["'function_call' is the old form without ids"],
    ),
    "legacy that a server filled in": ([agent("Hi", function_call={"name": "", "arguments": ""})], [], []),
    "parts with an image": (
        [asks(("look", "{}", "c1")), tool([text("t"), {"type": "image_url", "image_url": {"url": "u"}}])],
        [("look", {}, "ok", ["t", {"type": "image_url", "image_url": {"url": "u"}}])],
        [],
    ),
}


@pytest.mark.parametrize(("messages", "calls", "warnings"), CHAT.values(), ids=CHAT)
def test_chat_completions(messages: list[Plain], calls: list[tuple[Any, ...]], warnings: list[str]) -> None:
    """Every call appears once with its result; guesses are reported."""
    check(read([user(), *messages], format="openai-chat"), calls, warnings)


def check(transcript: Transcript, calls: list[tuple[Any, ...]], warnings: list[str]) -> None:
    """Compare a transcript; an error is compared by its beginning."""
    actual = briefs(transcript.run)
    expected = [
        (*call[:3], got[3]) if call[2] == "invalid_arguments" and str(got[3]).startswith(call[3]) else call
        for call, got in zip(calls, actual, strict=False)
    ]
    assert actual == expected
    assert len(actual) == len(calls)
    assert len(transcript.run.warnings) == len(warnings)
    assert all(part in warning for part, warning in zip(warnings, transcript.run.warnings, strict=True))


# Responses


def function_call(name: str, call_id: str | None = "c1", arguments: str = "{}", **more: Any) -> Plain:
    """A function call as an item."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(content: Any, call_id: str | None = "c1", **more: Any) -> Plain:
    """The output of a function as an item."""
    return {"type": "function_call_output", "call_id": call_id, "output": content, **more}


def approval(name: str, query: str) -> Plain:
    """A request for approval."""
    return {
        "type": "mcp_approval_request",
        "id": name,
        "name": "search",
        "server_label": "git",
        "arguments": json.dumps({"q": query}),
    }


def decided(name: str, *, approve: bool) -> Plain:
    """The answer to one."""
    return {"type": "mcp_approval_response", "approval_request_id": name, "approve": approve}


WEB = {"type": "search", "query": "weather"}
CARRIED_OUT = {
    "type": "mcp_call",
    "id": "mc_1",
    "approval_request_id": "mar_1",
    "name": "search",
    "server_label": "git",
    "arguments": '{"q": "x"}',
    "output": "RES",
}

RESPONSES: dict[str, tuple[list[Plain], list[tuple[Any, ...]], list[str]]] = {
    "answered": ([function_call("add"), output("3")], [("add", {}, "ok", "3")], []),
    "the id of the item says nothing": (
        [
            function_call("add", "a", id="__fake_id__"),
            function_call("sub", "b", id="__fake_id__"),
            output("S", "b"),
            output("A", "a"),
        ],
        [("add", {}, "ok", "A"), ("sub", {}, "ok", "S")],
        [],
    ),
    "an output that says it failed": (
        [function_call("add"), output("x", status="incomplete")],
        [("add", {}, "error", "x")],
        [],
    ),
    "arguments broken off": (
        [function_call("add", arguments='{"a": 1'), output("bad")],
        [("add", {}, "invalid_arguments", "not JSON")],
        ["the arguments of 'add' are not a JSON object"],
    ),
    "hosted shell, whose output is an item": (
        [
            {
                "type": "shell_call",
                "call_id": "c1",
                "action": {"commands": ["ls"]},
                "environment": {"type": "container_reference"},
            },
            {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}], "status": "completed"},
        ],
        [("shell", {"commands": ["ls"]}, "ok", [{"stdout": "a"}])],
        [],
    ),
    "approved and refused": (
        [
            approval("mar_1", "x"),
            approval("mar_2", "zz"),
            decided("mar_1", approve=True),
            decided("mar_2", approve=False),
            CARRIED_OUT,
        ],
        [("search", {"q": "zz"}, "rejected", "failed"), ("search", {"q": "x"}, "ok", "RES")],
        [],
    ),
    "not decided": ([approval("mar_1", "x")], [("search", {"q": "x"}, "pending", None)], []),
    "decided, and not carried out": (
        [approval("mar_1", "x"), decided("mar_1", approve=True)],
        [("search", {"q": "x"}, "not_executed", None)],
        [],
    ),
    "no calls": (
        [{"type": "reasoning", "summary": []}, {"type": "tool_search_call", "arguments": {}}, agent("Hi")],
        [],
        [],
    ),
    "a later type of call": (
        [{"type": "teleport_call", "id": "t", "status": "completed", "to": "Rome"}],
        [("teleport", {"to": "Rome"}, "ok", None)],
        ["the type 'teleport_call' is unknown; it was read as a call of 'teleport'"],
    ),
    "a later type of item": ([agent("Hi"), {"type": "hologram"}], [], ["the type 'hologram' is unknown"]),
    "what stands elsewhere": (
        [agent("Hi"), {"type": "item_reference", "id": "x"}],
        [],
        ["refers to items that are not"],
    ),
}


@pytest.mark.parametrize(("items", "calls", "warnings"), RESPONSES.values(), ids=RESPONSES)
def test_responses(items: list[Plain], calls: list[tuple[Any, ...]], warnings: list[str]) -> None:
    """Every item that is a call is one, once, with what became of it."""
    check(read([user(), *items], format="openai-responses"), calls, warnings)


def test_calls_of_a_program_are_nested() -> None:
    """They are children of the program, however they ended; by default only the program counts."""
    caller = {"type": "program", "caller_id": "p1"}
    run = read(
        [
            {"type": "program", "call_id": "p1", "code": "add()", "id": "x", "fingerprint": "f"},
            function_call("add", "c1", caller=caller),
            output("3", "c1"),
            function_call("sub", "c2", caller=caller),
            {"type": "program_output", "call_id": "p1", "result": "done", "status": "completed"},
        ]
    ).run

    assert briefs(run) == [("program", {"code": "add()"}, "ok", "done")]
    assert [brief(call) for call in run.select_calls(nested=True)[1:]] == [
        ("add", {}, "ok", "3"),
        ("sub", {}, "not_executed", None),
    ]


def test_a_pending_approval_interrupts_the_run() -> None:
    """The run waits for a person, and so does its last turn."""
    transcript = read([user(), approval("mar_1", "x")])

    assert [run.status for run in (transcript.run, *transcript.turns)] == [RunStatus.INTERRUPTED] * 2
    assert read([user(), approval("mar_1", "x"), user("Well?")]).run.status is RunStatus.INTERRUPTED
    assert read([user(), approval("mar_1", "x"), user("Well?"), agent("No.")]).run.status is RunStatus.OK


def test_adjacent_items_are_one_step() -> None:
    """Calls requested without another item between them are parallel."""
    run = read(
        [
            user(),
            function_call("a", "1"),
            function_call("b", "2"),
            output("x", "1"),
            output("y", "2"),
            function_call("c", "3"),
        ]
    ).run

    assert [call.execution and call.execution.step for call in run.calls] == [0, 0, 1]
    assert run.calls[2].execution is not None
    assert run.calls[2].execution.source == "$[5]"


# Anthropic


def use(name: str = "add", call_id: str = "t1", kind: str = "tool_use", **more: Any) -> Plain:
    """A block that is a call."""
    return {"type": kind, "id": call_id, "name": name, "input": {}, **more}


def result(content: Any = ..., call_id: str = "t1", kind: str = "tool_result", **more: Any) -> Plain:
    """A block that answers one."""
    fields = {} if content is ... else {"content": content}
    return {"type": kind, "tool_use_id": call_id, **fields, **more}


SEARCHED = [{"type": "web_search_result", "url": "https://a", "title": "A"}]
FAILED = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
RAN = {"type": "code_execution_result", "stdout": "3", "stderr": "", "return_code": 0, "content": []}

ANTHROPIC: dict[str, tuple[list[Plain], list[tuple[Any, ...]], list[str]]] = {
    "answered": ([agent([use()]), user([result("3")])], [("add", {}, "ok", "3")], []),
    "answered with blocks": (
        [agent([use()]), user([result([text("a"), text("b")])])],
        [("add", {}, "ok", "ab")],
        [],
    ),
    "answered with nothing": ([agent([use()]), user([result()])], [("add", {}, "ok", "")], []),
    "failed": ([agent([use()]), user([result("no", is_error=True)])], [("add", {}, "error", "no")], []),
    "failed without a word": ([agent([use()]), user([result(is_error=True)])], [("add", {}, "error", "failed")], []),
    "input as JSON text": ([agent([use(input='{"a": 1}')])], [("add", {"a": 1}, "not_executed", None)], []),
    "no input": ([agent([use(input=None)])], [("add", {}, "not_executed", None)], []),
    "input broken off": (
        [agent([use(input='{"a": ')])],
        [("add", {}, "invalid_arguments", "not JSON")],
        ["the arguments of 'add' are not a JSON object"],
    ),
    "server tool": (
        [
            agent(
                [
                    use("web_search", "s1", "server_tool_use"),
                    result(SEARCHED, "s1", "web_search_tool_result"),
                    text("A."),
                ]
            )
        ],
        [("web_search", {}, "ok", SEARCHED)],
        [],
    ),
    "server tool, failed": (
        [agent([use("web_search", "s1", "server_tool_use"), result(FAILED, "s1", "web_search_tool_result")])],
        [("web_search", {}, "error", "max_uses_exceeded")],
        [],
    ),
    "code that ran": (
        [agent([use("code_execution", "s1", "server_tool_use"), result(RAN, "s1", "code_execution_tool_result")])],
        [("code_execution", {}, "ok", RAN)],
        [],
    ),
    "search for tools": (
        [
            agent(
                [
                    use("tool_search_tool_regex", "s1", "server_tool_use"),
                    result({"tool_references": []}, "s1", "tool_search_tool_result"),
                    use(),
                ]
            ),
            user([result("3")]),
        ],
        [("add", {}, "ok", "3")],
        [],
    ),
    "paused": (
        [
            agent([use("web_search", "s1", "server_tool_use")]),
            agent([result(SEARCHED, "s1", "web_search_tool_result"), text("A.")]),
        ],
        [("web_search", {}, "ok", SEARCHED)],
        [],
    ),
    "mcp": (
        [
            agent([use("find", "m1", "mcp_tool_use", server_name="git"), result([text("R")], "m1", "mcp_tool_result")]),
            agent([use("find", "m2", "mcp_tool_use"), result([text("no")], "m2", "mcp_tool_result", is_error=True)]),
        ],
        [("find", {}, "ok", "R"), ("find", {}, "error", "no")],
        [],
    ),
    "a later type of call": (
        [agent([use("beam", "x1", "teleport_tool_use"), result("there", "x1", "teleport_tool_result")])],
        [("beam", {}, "ok", "there")],
        ["the type 'teleport_tool_use' is unknown"],
    ),
    "an empty message": ([agent(None), agent([])], [], []),
    "a file made in a container": ([agent([{"type": "container_upload", "file_id": "f"}, text("Hi")])], [], []),
    "thoughts": ([agent([{"type": "thinking", "thinking": "Hm"}, text("Hi")])], [], []),
}


@pytest.mark.parametrize(("messages", "calls", "warnings"), ANTHROPIC.values(), ids=ANTHROPIC)
def test_anthropic(messages: list[Plain], calls: list[tuple[Any, ...]], warnings: list[str]) -> None:
    """Every block that is a call is one, once, with what became of it."""
    check(read([user(), *messages], format="anthropic"), calls, warnings)


def test_types_and_servers_are_read() -> None:
    """All formats report who runs a tool in the same way; hosted calls count as executed."""
    hosted = agent([use("web_search", "s1", "server_tool_use"), result(SEARCHED, "s1", "web_search_tool_result")])
    served = agent([use("find", "m1", "mcp_tool_use", server_name="git"), result("R", "m1", "mcp_tool_result")])
    runs = [
        read([hosted, served, agent([use()])]).run,
        read([{"type": "web_search_call", "id": "w", "action": WEB}, CARRIED_OUT, function_call("add")]).run,
    ]

    for run in runs:
        rows = [(call.type, how.server, how.executed) for call in run.calls if (how := call.execution) is not None]
        assert rows == [("hosted", None, True), ("mcp", "git", True), ("function", None, False)]


def test_calls_by_code_are_nested() -> None:
    """A call whose caller is a code execution is a child of that call; its result comes later."""
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    run = read(
        [
            user(),
            agent([use("code_execution", "s1", "server_tool_use"), use("add", "t1", caller=caller)]),
            user([result("3")]),
            agent([result(RAN, "s1", "code_execution_tool_result"), text("3")]),
        ]
    ).run

    assert briefs(run) == [("code_execution", {}, "ok", RAN)]
    assert [brief(call) for call in run.select_calls(nested=True)[1:]] == [("add", {}, "ok", "3")]
    assert (run.actual_output, run.status) == ("3", RunStatus.OK)


@pytest.mark.parametrize(
    "messages",
    [
        [agent([use()]), agent([{"type": "thinking", "thinking": "Hm."}, use(), text("x"), use()])],
        [
            function_call("add"),
            {"type": "function_call_output", "call_id": "c1", "output": "3"},
            {"type": "reasoning", "summary": [{"text": "Hm."}]},
            function_call("add"),
            function_call("add"),
        ],
    ],
)
def test_reasoning_stands_in_the_calls_after_it(messages: list[Plain]) -> None:
    """All of its message, up to the next thought; a call before it has none."""
    assert [call.reasoning for call in read(messages).run.calls] == [None, "Hm.", "Hm."]


def test_answer_follows_hosted_calls() -> None:
    """Text before a call is not an answer, text after a hosted call is; adjacent blocks are joined."""
    blocks = [
        text("Let me."),
        use("web_search", "s1", "server_tool_use"),
        result(SEARCHED, "s1", "web_search_tool_result"),
    ]

    assert read([user(), agent([*blocks, text("It "), text("rains.")])]).run.actual_output == "It rains."
    assert read([user(), agent(blocks)]).run.actual_output is None
    assert read([user(), agent([*blocks, text("So."), use()])]).run.actual_output is None
    assert read([user(), agent([use(), text("So.")])]).run.actual_output is None
    assert read([user(), function_call("add"), agent("So.")]).run.actual_output is None


# Turns


def test_results_alone_are_not_a_turn() -> None:
    """Results belong to the calls before; text next to them begins the next turn."""
    transcript = read(
        [
            user("1"),
            agent([use()]),
            user([result("3")]),
            agent([use("sub", "t2")]),
            user([result("4", "t2"), text("2")]),
            agent("Bye"),
        ]
    )

    assert [(run.input, briefs(run), run.actual_output) for run in transcript.turns] == [
        ("1", [("add", {}, "ok", "3"), ("sub", {}, "ok", "4")], None),
        ("2", [], "Bye"),
    ]
    assert [(turn.role, turn.content) for turn in transcript.conversation.turns] == [
        ("user", "1"),
        ("assistant", ""),
        ("user", "2"),
        ("assistant", "Bye"),
    ]


def test_words_without_an_answer_and_the_next_ones_are_one_turn() -> None:
    """Adjacent user messages are joined; instructions between them change nothing; empty ones do not count."""
    transcript = read(
        [
            {"role": "system", "content": "Be brief."},
            agent("Hello."),
            user("a"),
            {"role": "developer", "content": "x"},
            user("b"),
            user(""),
            agent("One."),
            asks(("add", "{}", "c1")),
            tool("3"),
            agent(""),
            user("c"),
        ]
    )

    assert [(run.input, len(run.calls), run.status.value) for run in transcript.turns] == [
        (None, 0, "ok"),
        ("a\nb", 1, "stopped"),
        ("c", 0, "stopped"),
    ]
    assert [(turn.role, turn.content) for turn in transcript.conversation.turns] == [
        ("assistant", "Hello."),
        ("user", "a\nb"),
        ("assistant", "One."),
        ("user", "c"),
    ]


def test_an_image_alone_is_a_turn() -> None:
    """The user sent an image; a warning of the conversation reports that it was left out."""
    transcript = read([user([{"type": "image_url", "image_url": {"url": "u"}}]), agent("A cat.")])

    assert [turn.content for turn in transcript.conversation.turns] == ["", "A cat."]
    assert transcript.run.input is None
    assert transcript.run.input_parts == [MLLMImage(url="u")]
    assert transcript.conversation.metadata["warnings"] == ["turn 1: its images were left out; a turn has text only"]


def test_audio_and_refusals_are_answers() -> None:
    """If a message has no text, its refusal or audio transcript is used."""
    assert read([user(), agent(None, audio={"id": "a", "transcript": "Hello."})]).run.actual_output == "Hello."
    assert read([user(), agent(None, refusal="No.")]).run.actual_output == "No."
    assert read([user(), agent([{"type": "refusal", "refusal": "No."}])]).run.actual_output == "No."


def test_late_answer_belongs_to_the_turn_of_its_call() -> None:
    """If a program answers after the next user message, the call stays in its own turn."""
    transcript = read([user("1"), function_call("add"), user("2"), output("3"), agent("Done.")])

    assert [briefs(run) for run in transcript.turns] == [[("add", {}, "ok", "3")], []]
    assert transcript.turns[1].actual_output == "Done."


@pytest.mark.parametrize(
    "messages", [[user(), asks(("to_b", "{}", "h1")), tool("B", "h1")], [user(), function_call("to_b", "h1")]]
)
def test_hand_offs_are_recognized_by_name(messages: list[Plain]) -> None:
    """A message does not mark hand-offs, so such a call counts unless its name is passed."""
    transcript = read(messages, handoff_names=["to_b"])

    assert transcript.run.tools_called == transcript.turns[0].tools_called == []
    assert [handoff.call for handoff in (*transcript.run.handoffs, *transcript.turns[0].handoffs)] == [0, 0]
    assert [call.name for call in read(messages).run.tools_called] == ["to_b"]


# Images of the user

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = MLLMImage(data=PNG, mime_type="image/png")
PICTURES: dict[str, tuple[list[Plain], MLLMImage]] = {
    "openai-chat": (
        [
            user(
                [
                    {"type": "text", "text": "Where?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                ]
            ),
            agent("Here."),
        ],
        MLLMImage(data=PNG, mime_type="image/png"),
    ),
    "openai-responses": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Where?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                ],
            },
            {"role": "assistant", "type": "message", "content": [{"type": "output_text", "text": "Here."}]},
        ],
        MLLMImage(data=PNG, mime_type="image/png"),
    ),
    "anthropic": (
        [
            user(
                [
                    {"type": "text", "text": "Where?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ]
            ),
            agent([{"type": "text", "text": "Here."}]),
        ],
        PICTURE,
    ),
    "langchain": (
        [
            {
                "type": "human",
                "content": [
                    {"type": "text", "text": "Where?"},
                    {"type": "image", "base64": PNG, "mime_type": "image/png"},
                ],
            },
            {"type": "ai", "content": "Here."},
        ],
        PICTURE,
    ),
}


@pytest.mark.parametrize("form", PICTURES)
def test_images_of_the_user_are_read(form: Any) -> None:
    """The run and the turn have the texts and images; the conversation has the text and a warning."""
    messages, image = PICTURES[form]
    transcript = read(messages, format=form)

    for run in (transcript.run, *transcript.turns):
        assert (run.input, run.input_parts, run.warnings) == ("Where?", ["Where?", image], [])
    assert transcript.conversation.turns[0].content == "Where?"
    assert transcript.conversation.metadata["warnings"] == ["turn 1: its images were left out; a turn has text only"]


def test_images_before_the_first_text_belong_to_the_input_of_the_run() -> None:
    """The input is the first text of the user; its images are those up to this text."""
    picture = {"type": "image_url", "image_url": "https://example.com/a.png"}
    image = MLLMImage(url="https://example.com/a.png")
    messages = [user([picture]), user("Where?"), agent("Here."), user([picture]), agent("There.")]
    transcript = read(messages, format="openai-chat")

    assert (transcript.run.input, transcript.run.input_parts) == ("Where?", [image, "Where?"])
    assert [turn.input_parts for turn in transcript.turns] == [[image, "Where?"], [image]]


def test_other_content_of_the_user_is_left_out_with_a_warning() -> None:
    """Sound is named, and so is an image that the provider stores; the readable image stays."""
    sound = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
    picture = {"type": "image_url", "image_url": "https://example.com/a.png"}
    transcript = read([user(["Where?", sound, picture]), agent("Here.")], format="openai-chat")

    assert transcript.run.input_parts == ["Where?", MLLMImage(url="https://example.com/a.png")]
    assert transcript.run.warnings == [
        "$[0].content: holds more than text ('input_audio'); only the text and the images were kept"
    ]


# What holds the messages

ANSWER = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": "{}"}}],
}
COMPLETION = {
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": ANSWER}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
RESPONSE = {
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [function_call("add")],
    "usage": {"input_tokens": 3},
}
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "content": [use()],
    "usage": {"input_tokens": 3},
}
SPEC = {"name": "add", "description": "Adds."}

HOLDERS: dict[str, tuple[object, str, str | None]] = {
    "chat response": (COMPLETION, "openai-chat", None),
    "chat request": ({"model": "m", "messages": [user(), ANSWER]}, "openai-chat", "Go."),
    "chat, both in one": ({"messages": [user()], "response": COMPLETION}, "openai-chat", "Go."),
    "chat, merged": ({"messages": [user()], **COMPLETION}, "openai-chat", "Go."),
    "chat, under request and response": (
        {
            "id": 7,
            "request": {"messages": [user()], "tools": [{"type": "function", "function": SPEC}]},
            "response": COMPLETION,
        },
        "openai-chat",
        "Go.",
    ),
    "chat, a line of a batch": (
        {"custom_id": "x", "response": {"status_code": 200, "body": COMPLETION}},
        "openai-chat",
        None,
    ),
    "input and output": ({"input": [user()], "output": ANSWER}, "openai-chat", "Go."),
    "responses response": (RESPONSE, "openai-responses", None),
    "responses, both": ({"input": "Go.", **RESPONSE}, "openai-responses", "Go."),
    "responses, items": ({"input": [user()], "output": [function_call("add")]}, "openai-responses", "Go."),
    "responses, one item": (function_call("add"), "openai-responses", None),
    "anthropic response": (MESSAGE, "anthropic", None),
    "anthropic request": ({"system": "x", "max_tokens": 9, "messages": [user(), MESSAGE]}, "anthropic", "Go."),
    "anthropic, both": ({"messages": [user()], "tools": [SPEC], "response": MESSAGE}, "anthropic", "Go."),
}


@pytest.mark.parametrize(("value", "name", "question"), HOLDERS.values(), ids=HOLDERS)
def test_envelopes_are_opened(value: object, name: str, question: str | None) -> None:
    """Requests, responses and both together, in the usual log forms; the format is reported."""
    transcript = read(value)

    assert transcript.format == name
    assert [call.name for call in transcript.run.calls] == ["add"]
    assert transcript.run.input == question


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [user(), ANSWER], "response": COMPLETION},
        {"request": {"messages": [user(), {**ANSWER, "content": ""}]}, "response": COMPLETION},
        {"messages": [user(), agent([use()])], "response": MESSAGE},
        {"input": [user(), function_call("add")], "output": [function_call("add", status="completed")]},
    ],
)
def test_a_response_that_was_added_to_its_request_counts_once(value: Plain) -> None:
    """Programs log the same list again after adding to it; the repetition is reported."""
    run = read(value).run

    assert [call.name for call in run.calls] == ["add"]
    assert ["it counts once" in text for text in run.warnings] == [True]


def test_repeated_call_counts_again() -> None:
    """After the first call was answered, the same call with the same id is another call."""
    searches = [{"type": "file_search_call", "id": "f", "status": "completed", "queries": [query]} for query in "ab"]
    runs = [
        read({"messages": [user(), ANSWER, tool("3")], "response": COMPLETION}).run,
        read({"input": [user(), searches[0]], "output": [searches[1]]}).run,
    ]

    assert [[call.name for call in run.calls] for run in runs] == [["add", "add"], ["file_search", "file_search"]]


def test_response_metadata_is_read() -> None:
    """Model, token usage under common names, offered tools, and truncation."""
    run = read({"messages": [user()], "tools": [{"type": "function", "function": SPEC}], "response": COMPLETION}).run
    cut = read({**COMPLETION, "choices": [{"message": agent("Once upon"), "finish_reason": "length"}]}).run
    failed = read({**RESPONSE, "status": "failed", "error": {"code": "x", "message": "no"}}).run
    short = read({**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}).run

    assert (run.models, run.usage) == (["m"], {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5})
    assert [tool.name for tool in run.available_tools or ()] == ["add"]
    assert (cut.status.value, cut.error, cut.actual_output) == ("stopped", "length", "Once upon")
    assert (failed.status.value, failed.error) == ("error", "no")
    assert (short.status.value, short.error) == ("stopped", "max_output_tokens")


@pytest.mark.parametrize(
    ("tools", "value", "status"),
    [
        ([{"type": "function", "function": SPEC}], ANSWER, "not_executed"),
        ([{"type": "function", "function": {"name": "sub"}}], ANSWER, "unknown_tool"),
        ([{"type": "function", "function": {"name": "sub"}}, {"type": "web_search"}], ANSWER, "not_executed"),
        ([{"type": "custom", "custom": {"name": "add"}}], ANSWER, "not_executed"),
        ([{"type": "function", "name": "sub"}], function_call("add"), "unknown_tool"),
        (
            [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "add"}]}],
            function_call("add"),
            "not_executed",
        ),
        ([{"type": "mcp", "server_label": "git"}], function_call("add"), "not_executed"),
        ([{"type": "computer"}], {"type": "computer_call", "call_id": "c", "action": {}}, "not_executed"),
        ([{"name": "sub", "input_schema": {}}], agent([use()]), "unknown_tool"),
        ([{"name": "sub", "type": "custom"}, {"type": "mcp_toolset"}], agent([use()]), "not_executed"),
        ([{"type": "function", "name": "sub"}, {"type": "function", "name": 3}], function_call("add"), "not_executed"),
    ],
)
def test_tool_is_unknown_only_if_all_are_listed(tools: list[Plain], value: Plain, status: str) -> None:
    """A server, a search or a toolset may provide tools that the list does not name."""
    run = read({"messages": [value], "tools": tools}).run

    assert [call.execution and call.execution.status.value for call in run.calls] == [status]


def test_offered_tools_have_the_names_of_their_calls() -> None:
    """Dates and previews in the types of hosted tools are not part of the name."""
    openai = [
        {"type": kind} for kind in ("web_search_preview_2025_03_11", "computer_use_preview", "file_search", "shell")
    ]
    claude = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "bash_20250124", "name": "bash"}]

    specs = [read({"messages": [agent("Hi")], "tools": openai}).run.available_tools or []]
    specs.append(read({"messages": [agent("Hi")], "tools": claude}, format="anthropic").run.available_tools or [])
    assert [[(spec.name, spec.type) for spec in offered] for offered in specs] == [
        [
            ("web_search", "hosted"),
            ("computer_use_preview", "function"),
            ("file_search", "hosted"),
            ("shell", "function"),
        ],
        [("web_search", "hosted"), ("bash", "function")],
    ]


# Refusals

REFUSED: dict[str, tuple[object, str]] = {
    "nothing": ([], "$: holds no message"),
    "no object": (3, "$: expected a list of messages, or an object that holds one, got 3"),
    "an object that holds none": ({"a": 1}, "$: expected a list of messages or items, a request"),
    "an error": ({"error": {"message": "no"}}, "$: is an error, not a response"),
    "several choices": (
        {"choices": [{"message": agent("a")}, {"message": agent("b")}]},
        "$.choices: expected one choice",
    ),
    "no choice": ({"choices": []}, "$.choices: expected one choice, got 0 choices"),
    "two lists": ({"messages": [user()], "input": [user()]}, "$: has 'messages' and 'input'"),
    "two formats": ([asks(("add", "{}", "c1")), user([result("3")])], "$[1]: looks like Anthropic messages"),
    "two others": ([function_call("add"), tool("3")], "$[1]: looks like OpenAI chat messages (role 'tool')"),
    "calls of the user": ([user([use()])], "$[0].content[0]: a message of role 'user' has a call"),
    "a call without a name": ([function_call("")], "$[0].name: a call needs the name of its tool, got ''"),
    "another without one": ([agent([use("")])], "$[0].content[0].name: a call needs the name of its tool"),
    "Pydantic AI": (
        [{"kind": "response", "parts": []}],
        "$[0]: expected messages of OpenAI, Anthropic, Gemini, Bedrock, Ollama, LangChain, Claude Code or Google ADK",
    ),
    "responses in a list": (
        [RESPONSE],
        (
            "$[0]: expected messages of OpenAI, Anthropic, Gemini, Bedrock, Ollama, LangChain, Claude Code or Google "
            "ADK; this looks like a whole"
        ),
    ),
    "an unknown role": ([{"role": "oracle", "content": "x"}], "$[0].role: expected one of user"),
    "an unknown role among items": (
        [function_call("add"), {"role": "oracle", "content": "x"}],
        "$[1].role: expected one of user",
    ),
    "a choice without a message": ({"choices": [{"text": "a"}]}, "$.choices[0]: expected a choice with a message"),
    "a piece of a stream": (
        {"choices": [{"delta": {}}]},
        "$.choices[0]: expected a choice with a message, got {'delta': {}}; it is a piece of a stream",
    ),
    "tools that are no list": ({"messages": [user()], "tools": 3}, "$.tools: expected a list of tools, got 3"),
    "listed tools that are none": (
        [function_call("add"), {"type": "mcp_list_tools"}],
        "$[1].tools: expected a list of tools",
    ),
    "items that are no objects": (
        [function_call("add"), 3],
        "$[1]: expected an item (an object with a role or a type), got 3",
    ),
    "messages that are no list": ({"messages": 3}, "$.messages: expected a list of messages"),
    "blocks of an unknown role": ([agent([use()]), {"role": "oracle"}], "$[1].role: expected one of user, assistant"),
    "blocks that are no message": ([agent([use()]), 3], "$[1]: expected a message (an object with a role), got 3"),
    "an id that is a list": ([agent([use(call_id=["a"])])], "$[0].content[0].id: expected an id as text"),
    "entries that are no objects": (["hello"], "$[0]: expected a message (an object with a role), got 'hello'"),
}


@pytest.mark.parametrize(("value", "problem"), REFUSED.values(), ids=REFUSED)
def test_invalid_values_are_refused_with_the_reason(value: object, problem: str) -> None:
    """No invalid value becomes an empty list of calls."""
    assert problems(value)[0].startswith(problem)


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
def test_requested_format_is_enforced(name: Any) -> None:
    """A message of another format is a problem of its own and is not read as if it had no calls."""
    values = {"openai-chat": [ANSWER], "openai-responses": [function_call("add")], "anthropic": [agent([use()])]}

    assert [call.name for call in read(values.pop(name), format=name).run.calls] == ["add"]
    for other in values.values():
        assert "this looks like" in problems(other, format=name)[0]


def test_arguments_that_are_too_deep_are_never_lost_silently() -> None:
    """As an object they are a problem of the call, or a call whose arguments were not captured."""
    deep: Plain = {}
    for _ in range(300):
        deep = {"a": deep}

    assert problems([agent([use(input=deep)])])[0].startswith("$[0].content[0]: deeper than 200 levels")
    (call,) = read([function_call("add", arguments=deep)]).run.calls  # type: ignore[arg-type]
    assert call.execution is not None
    assert call.execution.not_captured == ["input_parameters"]


def test_dataclasses_are_objects() -> None:
    """Some clients use them; fields that are none were not given."""

    @dataclass
    class Message:
        role: str
        content: str
        tool_calls: list[Any] | None = None

    assert read([Message("user", "Go."), Message("assistant", "Done.")]).run.actual_output == "Done."


@pytest.mark.parametrize("item", [{"type": "tool_search_call", "arguments": {}}, {"type": "reasoning", "summary": []}])
def test_a_response_with_a_silent_item_alone_is_a_message_of_the_model(item: Plain) -> None:
    """It has no text and no call, and nothing is missing."""
    run = read({"object": "response", "status": "completed", "output": [item]}).run

    assert (run.calls, run.actual_output, run.warnings) == ([], None, [])


def test_a_format_has_a_name() -> None:
    """Any other is a mistake of the program."""
    with pytest.raises(ConfigurationError, match="'openai-chat'"):
        read([user()], format="vercel")  # type: ignore[arg-type]


def test_paths_begin_where_the_caller_says() -> None:
    """Paths of problems and warnings start at the prefix of the caller."""
    assert problems([{"role": "x"}], path="$.log[3]")[0].startswith("$.log[3][0].role")
    assert read([tool("3"), agent("Hi")], path="$.log").run.warnings[0].startswith("$.log[0]: ")


def test_a_transcript_makes_a_case() -> None:
    """The run becomes a case, with expectations, as any run does."""
    case = read([user(), asks(("add", '{"a": 1}', "c1")), tool("3"), agent("3")]).run.to_test_case(
        expected_tools=[ToolCall(name="add")]
    )

    assert (case.input, case.actual_output) == ("Go.", "3")
    assert [call.name for call in case.tools_called or ()] == ["add"]
