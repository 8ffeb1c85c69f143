"""Trajectories in OpenAI's chat format: every call is read, in the model's order, with its own answer."""

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.read import run_from_messages
from toolgrade.formats.records import case_from_record
from toolgrade.metrics import RunHealthMetric

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("TOOLGRADE_SHARED", ROOT.parent / "shared"))
AIRLINE = SHARED / "data" / "tau-airline" / "runs.jsonl"

Message = dict[str, Any]


def call(name: str = "add", arguments: object = "{}", call_id: str | None = "c1") -> Message:
    """Return one entry of `tool_calls`; without an id if it is `None`."""
    entry: Message = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return entry if call_id is None else {"id": call_id, **entry}


def asks(*calls: Message, content: str | None = None) -> Message:
    """An assistant's message that asks for calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answers(content: object, call_id: str | None = "c1", **more: object) -> Message:
    """A tool's message; without an id if it is `None`."""
    message = {"role": "tool", "content": content, **more}
    return message if call_id is None else {"tool_call_id": call_id, **message}


def outputs(run: Run) -> list[object]:
    """The output of each call, `"-"` where it is not set."""
    return [entry.output if "output" in entry.model_fields_set else "-" for entry in run.calls]


def execution(entry: ToolCall) -> Any:
    """The execution of a recorded call, which every call from messages has."""
    assert entry.execution is not None
    return entry.execution


def problems(messages: object) -> list[str]:
    """The paths of the problems that keep the messages from being read."""
    with pytest.raises(InvalidDataError) as raised:
        run_from_messages(messages)
    return [problem.path for problem in raised.value.problems]


def test_a_plain_run_is_read_whole() -> None:
    """A call has id, type, arguments, output and place; the run has the system prompt, question and final answer."""
    run = run_from_messages(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Very."},
            {"role": "user", "content": "1 + 2?"},
            asks(call("add", '{"a": 1, "b": 2}')),
            answers("3"),
            {"role": "assistant", "content": "It is 3."},
        ]
    )

    assert run.to_dict() == {
        "input": "1 + 2?",
        "actual_output": "It is 3.",
        "calls": [
            {
                "name": "add",
                "type": "function",
                "input_parameters": {"a": 1, "b": 2},
                "output": "3",
                "id": "c1",
                "execution": {"status": "ok", "executed": False, "step": 0, "source": "messages[3].tool_calls[0]"},
            }
        ],
        "instructions": "Be brief.\n\nVery.",
    }


@pytest.mark.parametrize("arguments", [None, "", "  ", "{}", {}])
def test_no_arguments_read_as_an_empty_object(arguments: object) -> None:
    """Providers write a call without arguments in several ways; none is an error."""
    run = run_from_messages([asks(call(arguments=arguments)), answers("ok")])

    assert run.calls[0].input_parameters == {}
    assert execution(run.calls[0]).status is CallStatus.OK
    assert run.warnings == []


@pytest.mark.parametrize(
    "arguments", ["{oops", "[1]", "3", "null", '{"a": NaN}', [1], 7, '{"a":' * 300 + "1" + "}" * 300]
)
def test_invalid_arguments_stay_raw(arguments: object) -> None:
    """Raw text, empty arguments, the answer as model output, and a warning."""
    run = run_from_messages([asks(call(arguments=arguments)), answers("bad arguments")], path="$.agent_trajectory")
    entry = run.calls[0]

    assert entry.input_parameters == {}
    assert execution(entry).status is CallStatus.INVALID_ARGUMENTS
    assert execution(entry).requested_parameters == arguments
    assert execution(entry).model_output == "bad arguments"
    assert outputs(run) == ["-"]
    assert [text.partition(": ")[0] for text in run.warnings] == ["$.agent_trajectory[0].tool_calls[0]"]


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("3", "3"),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        (["a", "b"], "ab"),
        ([{"type": "image_url", "image_url": {"url": "x"}}], [{"type": "image_url", "image_url": {"url": "x"}}]),
        ({"sum": 3}, {"sum": 3}),
        ([], []),
        (3, 3),
    ],
)
def test_outputs_are_text_or_unchanged(content: object, output: object) -> None:
    """Parts that are all text are joined; other outputs stay unchanged."""
    run = run_from_messages([asks(call()), answers(content)])

    assert outputs(run) == [output]
    assert run.warnings == []


def test_a_tool_message_without_content_is_not_captured() -> None:
    """The call was answered, but the content was not recorded."""
    run = run_from_messages([asks(call()), answers(None)])

    assert execution(run.calls[0]).status is CallStatus.OK
    assert execution(run.calls[0]).not_captured == ["output"]
    assert outputs(run) == ["-"]
    assert run.warnings == ["$.messages[1]: the tool message has no content; the output of 'add' was not captured"]


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_are_none(calls: object) -> None:
    """An assistant that called nothing called nothing; there is nothing to warn of."""
    run = run_from_messages(
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "tool_calls": calls}]
    )

    assert (run.calls, run.warnings, run.actual_output) == ([], [], "Hello")


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": "Hi"}]])
def test_a_trajectory_without_the_assistant_says_so(messages: list[Message]) -> None:
    """Where no message is the assistant's, an empty list of calls deserves a warning."""
    run = run_from_messages(messages)

    assert run.calls == []
    assert "no message of the assistant" in run.warnings[0]


def test_objects_with_model_dump_are_read() -> None:
    """SDK objects are messages, entries and functions as well as dicts are."""

    class Function(BaseModel):
        name: str = "add"
        arguments: str = '{"a": 1}'

    class Entry(BaseModel):
        id: str = "c1"
        type: str = "function"
        function: Function = Function()

    class AssistantMessage(BaseModel):
        role: str = "assistant"
        content: str | None = None
        function_call: None = None
        tool_calls: list[Entry] = [Entry()]

    for message in (AssistantMessage(), {"role": "assistant", "tool_calls": [Entry()]}):
        run = run_from_messages([message, answers("1")])
        assert [(entry.name, entry.input_parameters, entry.output) for entry in run.calls] == [("add", {"a": 1}, "1")]


def test_a_flattened_call_is_read() -> None:
    """A name next to the id, without a type, is unambiguous."""
    entries = [
        {"id": "a", "name": "add", "args": {"a": 1}},
        {"id": "b", "function": {"name": "sub", "arguments": "{}"}},
    ]

    run = run_from_messages([asks(*entries)])

    assert [(entry.name, entry.input_parameters) for entry in run.calls] == [("add", {"a": 1}), ("sub", {})]


def test_names_come_before_order_where_ids_are_missing() -> None:
    """An answer that names its tool goes to a call of that tool; one that names another is left out."""
    run = run_from_messages(
        [
            asks(call("add", call_id=None), call("sub", call_id=None)),
            answers("S", None, name="sub"),
            answers("A", None, tool_name="add"),
            answers("M", None, name="mul"),
        ]
    )

    assert outputs(run) == ["A", "S"]
    assert any("name 'mul'" in text for text in run.warnings)


def test_ids_that_are_numbers_are_text() -> None:
    """A number is an id as well; a list is not."""
    entry = {"id": 7, "function": {"name": "add"}}

    assert run_from_messages([asks(entry), answers("3", tool_call_id="7")]).calls[0].id == "7"
    assert problems([asks({**entry, "id": ["a"]})]) == ["$.messages[0].tool_calls[0].id"]


def test_legacy_function_calls_are_paired_by_name_and_order() -> None:
    """The form from before ids is read, with one warning."""
    run = run_from_messages(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"n": 1}'}},
            {"role": "function", "name": "add", "content": "1"},
            {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"n": 2}'}},
            {"role": "function", "name": "sub", "content": "other"},
            {"role": "function", "name": "add", "content": "2"},
        ]
    )

    assert [entry.input_parameters for entry in run.calls] == [{"n": 1}, {"n": 2}]
    assert outputs(run) == ["1", "2"]
    assert ["function_call" in text for text in run.warnings] == [True, False]
    assert run.warnings[1].startswith("$.messages[3]: ")


def test_a_function_call_that_repeats_a_tool_call_counts_once() -> None:
    """Some servers send a call in both forms; a different one is a separate call."""
    both = {**asks(call("add")), "function_call": {"name": "add", "arguments": "{}"}}
    other = {**asks(call("add")), "function_call": {"name": "sub", "arguments": "{}"}}

    assert [entry.name for entry in run_from_messages([both]).calls] == ["add"]
    assert "counts once" in run_from_messages([both]).warnings[0]
    assert [entry.name for entry in run_from_messages([other]).calls] == ["add", "sub"]


@pytest.mark.parametrize("content", ["", None])
def test_an_empty_answer_after_calls_is_an_answer(content: str | None) -> None:
    """It says nothing, so a log that ends with it does not look healthy; a log without it may be of one request."""
    called = [{"role": "user", "content": "Book it."}, asks(call("book")), answers("booked")]
    open_run, silent = map(run_from_messages, (called, [*called, {"role": "assistant", "content": content}]))

    later = [{"role": "assistant", "content": "Booked."}, {"role": "user", "content": "And the hotel?"}]
    second = run_from_messages([*called, *later, {"role": "assistant", "content": content}])

    assert (open_run.actual_output, silent.actual_output, second.actual_output) == (None, "", "")
    results = [RunHealthMetric().measure(run.to_test_case()) for run in (open_run, silent, second)]
    assert [result.parts.get("answered") for result in results] == [None, 0, 0]


def test_input_and_output_are_the_first_question_and_last_answer() -> None:
    """Parts are joined; other content is reported; thinking is not an answer."""
    run = run_from_messages(
        [
            {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image_url"}, " this?"]},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "A cat."}],
            },
            {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "You are welcome."},
            {"role": "assistant", "content": ""},
        ]
    )

    assert (run.input, run.actual_output, run.status) == ("What is this?", "You are welcome.", RunStatus.OK)
    assert run.warnings == ["$.messages[0].content: holds more than text ('image_url'); only the text was kept"]


@pytest.mark.parametrize(("content", "kind"), [({"a": 1}, "dict"), ([3], "int"), ([{"type": "file"}], "file")])
def test_content_that_is_not_text_is_reported(content: object, kind: str) -> None:
    """Any other content of a question is named."""
    run = run_from_messages([{"role": "user", "content": content}, {"role": "assistant", "blocks": [{}]}])

    assert run.input is None
    assert run.warnings == [f"$.messages[0].content: holds more than text ({kind!r}); only the text was kept"]


@pytest.mark.parametrize("mark", ["<tool_call>", "<|tool_call_begin|>", "[TOOL_CALLS]", "<|python_tag|>"])
def test_calls_written_into_text_are_reported(mark: str) -> None:
    """A server that does not parse its model's calls leaves them in the text; they are not dropped silently."""
    run = run_from_messages([{"role": "assistant", "content": f'{mark}{{"name": "add"}}'}])

    assert run.calls == []
    assert mark in run.warnings[0]


@pytest.mark.parametrize("messages", [None, "[]", {"role": "user"}, 3])
def test_messages_are_a_list(messages: object) -> None:
    """Anything else is an error at the path of the whole."""
    assert problems(messages) == ["$.messages"]


def test_all_problems_are_reported_at_once() -> None:
    """Each has its own path; readable calls do not hide them."""
    messages = [
        "hello",
        {"role": "oracle", "content": "x"},
        {"content": "x"},
        {"role": "assistant", "tool_calls": "add"},
        asks(call(), "add", {"id": "x", "function": {"arguments": "{}"}}, {"id": "y", "name": ""}),  # type: ignore[arg-type]
        {"role": "assistant", "function_call": {"arguments": "{}"}},
        {"role": "user", "tool_calls": [call()]},
    ]

    assert problems(messages) == [
        "$.messages[0]",
        "$.messages[1].role",
        "$.messages[2].role",
        "$.messages[3].tool_calls",
        "$.messages[4].tool_calls[1]",
        "$.messages[4].tool_calls[2].function.name",
        "$.messages[4].tool_calls[3].name",
        "$.messages[5].function_call.name",
        "$.messages[6]",
    ]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "add", "input": {}}]}, "Anthropic"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}, "Anthropic"),
        ({"role": "assistant", "content": [{"type": "mcp_tool_use", "id": "a", "name": "add"}]}, "Anthropic"),
        ({"role": "assistant", "content": [{"toolUse": {"name": "add"}}]}, "Bedrock"),
        ({"role": "assistant", "content": [{"type": "tool-call", "toolName": "add"}]}, "Vercel"),
        ({"role": "assistant", "content": [{"type": "tool_call", "name": "add"}]}, "another format"),
        ({"role": "assistant", "toolCalls": [{"name": "add"}]}, "toolCalls"),
        ({"role": "assistant", "content": "Done.", "toolInvocations": [{"toolName": "add"}]}, "toolInvocations"),
        ({"role": "assistant", "content": "Done.", "parts": [{"type": "tool-invocation"}]}, "Vercel"),
        ({"role": "assistant", "content": "Done.", "function_calls": [{"name": "add"}]}, "function_calls"),
        ({"role": "model", "parts": [{"functionCall": {"name": "add"}}]}, "Gemini"),
        ({"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [{}]}}, "LlamaIndex"),
        ({"role": "assistant", "content": "", "blocks": [{"block_type": "tool_call"}]}, "LlamaIndex"),
        ({"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"}, "Responses"),
        ({"type": "function_call_output", "call_id": "a", "output": "3"}, "Responses"),
        ({"type": "ai", "content": "", "tool_calls": [{"name": "add", "args": {}, "id": "a"}]}, "LangChain"),
        ({"kind": "response", "parts": []}, "Pydantic AI"),
        ({"choices": [{"message": {}}]}, "choices[0].message"),
        ({"messages": []}, "'messages'"),
    ],
)
def test_calls_in_another_format_are_an_error_that_names_it(message: Message, names: str) -> None:
    """They are never read as a trajectory without calls."""
    with pytest.raises(InvalidDataError, match="looks like") as raised:
        run_from_messages([{"role": "user", "content": "Hi"}, message])

    assert names in str(raised.value)
    assert raised.value.problems[0].path == "$.messages[1]"


def test_blocks_of_converted_calls_are_not_an_error() -> None:
    """Some converters leave the provider's blocks in the content; the calls are also present."""
    message = {**asks(call("add")), "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}]}

    assert [entry.name for entry in run_from_messages([message]).calls] == ["add"]


@given(data=st.data())
def test_nothing_is_ever_lost(data: st.DataObject) -> None:
    """Whatever the ids: each call in the messages is a call of the run, each answer an output or a warning."""
    ids = st.sampled_from([None, "a", "b"])
    names = st.sampled_from(["add", "sub"])
    messages: list[Message] = [{"role": "assistant", "content": "Hi"}]
    requested = 0
    texts: dict[str, int] = {}
    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()):
            group = [call(data.draw(names), "{}", data.draw(ids)) for _ in range(data.draw(st.integers(1, 3)))]
            messages.append(asks(*group))
            requested += len(group)
        else:
            text = f"answer {len(texts)}"
            texts[text] = len(messages)
            named = data.draw(st.none() | names)
            messages.append(answers(text, data.draw(ids), **({} if named is None else {"name": named})))

    run = run_from_messages(messages)

    assert len(run.calls) == requested
    outputs_read = [entry.output for entry in run.calls if entry.output is not None]
    assert len(set(outputs_read)) == len(outputs_read)
    for text, index in texts.items():
        left_out = any(warning.startswith(f"$.messages[{index}]: answers no open call") for warning in run.warnings)
        assert (text in outputs_read) != left_out


@pytest.mark.skipif(not AIRLINE.exists(), reason=f"recorded runs are not at {AIRLINE}; set TOOLGRADE_SHARED")
def test_recorded_airline_runs_are_read_whole() -> None:
    """A hundred real runs: as many calls, expectations and answers as a plain count of the JSON finds."""
    records = [json.loads(line) for line in AIRLINE.read_text(encoding="utf-8").splitlines()]
    calls_read = expected = 0
    for record in records:
        case = case_from_record(record)
        entries = [entry for message in record["agent_trajectory"] for entry in message.get("tool_calls") or ()]
        replies = [message["content"] for message in record["agent_trajectory"] if message["role"] == "tool"]
        assert case.tools_called is not None
        assert case.expected_tools is not None
        assert [(c.name, c.input_parameters) for c in case.tools_called] == [
            (entry["function"]["name"], json.loads(entry["function"]["arguments"])) for entry in entries
        ]
        # In these runs each call is answered before the next one, so order alone gives the pairs.
        assert [c.output for c in case.tools_called] == replies
        assert [(c.name, c.input_parameters) for c in case.expected_tools] == [
            (tool["name"], tool["args"]) for tool in record["expected_tools"]
        ]
        assert (case.id, case.input, case.metadata) == (record["id"], record["query"], record["metadata"])
        calls_read += len(entries)
        expected += len(record["expected_tools"])

    assert (len(records), calls_read, expected) == (100, 621, 200)


def test_reading_leaves_no_cycles() -> None:
    """A run that nobody holds is freed at once: a large file needs no collection of garbage."""
    calls = [{"id": f"c{number}", "type": "function", "function": {"name": "f"}} for number in range(3)]
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    messages = [{"role": "user", "content": "Go"}, {"role": "assistant", "tool_calls": calls}, *answers]
    run_from_messages(messages)  # what is computed once and stored may have cycles
    gc.collect()
    gc.disable()
    try:
        run = run_from_messages(messages)
        assert [call.output for call in run.calls] == ["ok", "ok", "ok"]
        del run
        assert gc.collect() == 0
    finally:
        gc.enable()
