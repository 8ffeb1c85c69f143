"""The events of a stream read as the response that they add up to."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import read_cases
from toolgrade.errors import InvalidDataError
from toolgrade.formats import read

Plain = dict[str, Any]


def chunk(delta: Plain, reason: str | None = None, index: int = 0, **more: Any) -> Plain:
    """A chunk of Chat Completions."""
    choice = {"index": index, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def piece(arguments: Any, **more: Any) -> Plain:
    """A piece of a call in such a chunk; its name comes with `name`."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{**more, "function": {**name, "arguments": arguments}}]}


def pieces(*deltas: Plain) -> list[Plain]:
    """The chunks of one whole stream with these deltas."""
    return [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, "tool_calls")]


def calls_of(events: list[Plain]) -> list[tuple[Any, ...]]:
    """Name, arguments and id of each call."""
    return [(call.name, call.arguments, call.id) for call in read(events).run.calls]


texts = st.text('ab"\\{}é', min_size=1, max_size=6)
argument_objects = st.dictionaries(texts, texts, max_size=3)


def cut(data: st.DataObject, text: str) -> list[str]:
    """The text in pieces."""
    places = sorted(data.draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


# Chat Completions


@given(requests=st.lists(argument_objects, min_size=1, max_size=3), data=st.data())
def test_chunks_add_up_wherever_they_were_cut(requests: list[Plain], data: st.DataObject) -> None:
    """Calls in pieces are joined by their indexes, without a warning."""
    deltas: list[Plain] = []
    for index, arguments in enumerate(requests):
        first, *rest = cut(data, json.dumps(arguments))
        deltas.append(piece(first, index=index, id=f"c{index}", type="function", name="add"))
        deltas += [piece(part, index=index) for part in rest]
    events = pieces(*deltas)

    assert calls_of(events) == [("add", arguments, f"c{index}") for index, arguments in enumerate(requests)]
    assert read(events).run.warnings == []


ONE = {"index": 0}


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        (
            [piece("{}", id="a", name="add"), piece('{"x": ', id="b", name="sub"), piece("1}")],
            [("add", {}, "a"), ("sub", {"x": 1}, "b")],
        ),
        (
            [piece("", **ONE, id="a", name="f"), piece("{}", **ONE, id=""), piece("{}", **ONE, id="b", name="f")],
            [("f", {}, "a"), ("f", {}, "b")],
        ),
        (
            [
                piece('{"x"', **ONE, id="a", name="add"),
                piece('{"y"', **ONE, id="b", name="sub"),
                piece(": 1}", **ONE, id="a"),
                piece(": 2}", **ONE, id="b"),
            ],
            [("add", {"x": 1}, "a"), ("sub", {"y": 2}, "b")],
        ),
        (
            [
                piece("", index=0, id="a", name="f"),
                piece("", index=1, id="b", name="g"),
                piece('{"a"', index=0),
                piece('{"b"', index=1),
                piece(": 1}", index=0),
                piece(": 2}", index=1),
            ],
            [("f", {"a": 1}, "a"), ("g", {"b": 2}, "b")],
        ),
        ([piece("", index=0, id="a", name="f"), piece("{}", index=1, id="a")], [("f", {}, "a")]),
        (
            [piece("", **ONE, id="a", name="w"), piece('{"x": ', **ONE), piece("1}", **ONE, id="a", name="w")],
            [("w", {"x": 1}, "a")],
        ),
        ([piece(text, **ONE, name="w") for text in ("{", '"x": 1', "}", "\n", "")], [("w", {"x": 1}, None)]),
        (
            [piece('{"x": 1}', **ONE, id="", name=name) for name in ("f", "f", "g")],
            [("f", {"x": 1}, None), ("f", {"x": 1}, None), ("g", {"x": 1}, None)],
        ),
        (
            [piece("", **ONE, id="a", name="get_"), piece("", **ONE, name="weather"), piece("{}", **ONE)],
            [("get_weather", {}, "a")],
        ),
        (
            [piece("", **ONE, id="a", name=name) for name in ("get_", "get_weather")],
            [("get_weather", {}, "a")],
        ),
        (
            [{"tool_calls": [{**ONE, "function": {"name": name, "arguments": ""}} for name in ("f", "f", "g")]}],
            [("f", {}, None), ("f", {}, None), ("g", {}, None)],
        ),
        ([piece("", **ONE, name="f"), piece("{}", **ONE, name="g")], [("f", {}, None), ("g", {}, None)]),
        ([piece(None, **ONE, id="a", name="w"), piece("{}", **ONE)], [("w", {}, "a")]),
        ([piece({"x": 1}, **ONE, id="a", name="w")], [("w", {"x": 1}, "a")]),
        ([piece("{", index=1, id="a", name="w"), piece("}", index=1)], [("w", {}, "a")]),
        (
            [{"function_call": {"name": "f", "arguments": "{"}}, {"function_call": {"arguments": "}"}}],
            [("f", {}, None)],
        ),
        (
            [{"tool_calls": [{**ONE, "id": "a", "custom": {"name": "sql", "input": text}}]} for text in ("SEL", "ECT")],
            [("sql", {"input": "SELECT"}, "a")],
        ),
        ([piece(text, **ONE, id="a", name="w") for text in ('{"x"', '{"x": 1', '{"x": 1}')], [("w", {"x": 1}, "a")]),
        ([piece('{"x": 1}', index=index, id="a", name="w") for index in (0, 1)], [("w", {"x": 1}, "a")]),
        ([piece("{}", **ONE, id="a", name="w"), piece('{"x": 1}', **ONE)], [("w", {"x": 1}, "a")]),
        ([piece("{}", **ONE, id="a", name="w"), piece("\n", **ONE)], [("w", {}, "a")]),
    ],
    ids=[
        *("no index", "one index", "one index in turns", "two indexes in turns", "an index that changes"),
        *("a name repeated at the end", "a name in each piece", "whole calls without ids", "a name in pieces"),
        *("a name that grows", "calls without arguments in one delta", "a call without arguments and id"),
        *("null", "an object", "an index from 1", "the old form", "a custom tool"),
        *("all so far in each piece", "a call repeated under another index", "a placeholder for the arguments"),
        "white space after the arguments",
    ],
)
def test_pieces_of_calls_are_joined_however_servers_number_them(deltas: list[Plain], calls: list[Any]) -> None:
    """By id, then index; no call is lost, split or mixed up."""
    assert calls_of(pieces(*deltas)) == calls


@pytest.mark.parametrize(
    "deltas",
    [
        [piece('{"x": 1}', **ONE, name="w"), piece("\n", **ONE, name="w")],
        [{"function_call": {"name": "f", "arguments": "{}"}}],
    ],
    ids=["no id", "the old form"],
)
def test_a_call_without_an_id_and_an_answer_is_no_warning(deltas: list[Plain]) -> None:
    """Nothing was paired by order."""
    assert read(pieces(*deltas)).run.warnings == []


AZURE = {"id": "", "object": "", "choices": [], "prompt_filter_results": []}
BLOCK = {"type": "tool_use", "id": "a", "name": "w", "input": {}}
WHOLE = {"object": "response", "output": [{"type": "function_call", "call_id": "a", "name": "w", "arguments": "{}"}]}


@pytest.mark.parametrize("each_line", [False, True], ids=["a list", "a line for each event"])
@pytest.mark.parametrize(
    "events",
    [
        [AZURE, *pieces(piece("{}", **ONE, id="a", name="w"))],
        pieces(piece("{}", **ONE, id="a", name="w")),
        [
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            *({"type": "ping"}, {"type": "content_block_start", "index": 0, "content_block": BLOCK}),
            *({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}),
        ],
        [{"type": "response.created", "response": {}}, {"type": "response.completed", "response": WHOLE}],
    ],
    ids=["azure", "chat", "anthropic", "responses"],
)
def test_a_file_with_the_events_of_one_stream_is_one_case(tmp_path: Path, events: list[Plain], each_line: bool) -> None:
    """In one list, or as they came; without a warning."""
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, events)) if each_line else json.dumps(events), "utf-8")
    (case,) = read_cases(file)

    assert [call.id for call in case.tools_called or ()] == ["a"]
    assert case.run is None or case.run.warnings == []


def test_lines_that_are_whole_responses_are_cases_of_their_own(tmp_path: Path) -> None:
    """The last event of the Responses API and the last line of Ollama have all of a response."""
    file = tmp_path / "log.jsonl"
    reply = {"message": {"role": "assistant", "content": "Hi"}, "done": True}
    for event in ({"type": "response.completed", "response": WHOLE}, reply):
        file.write_text(f"{json.dumps(event)}\n{json.dumps(event)}", "utf-8")

        assert len(read_cases(file)) == 2


def test_tokens_in_the_last_chunk_are_an_end() -> None:
    """Some servers send them in place of a reason; tokens in each chunk show nothing."""
    last = chunk({"content": ""}, usage={"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4})
    text = chunk({"role": "assistant", "content": "Hi"})

    assert read([text, last]).run.warnings == []
    assert "has no end" in read([last, text, last]).run.warnings[0]


def test_chunks_with_the_results_of_a_filter_are_ignored() -> None:
    """Azure sends them before, between and after those of the answer, with the object `""`."""
    first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []}
    late = {"id": "", "object": "", "choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}
    run = read([first, *pieces(piece("{}", **ONE, id="a", name="w")), late]).run

    assert ([call.name for call in run.calls], run.warnings) == (["w"], [])


@pytest.mark.parametrize("choices", [None, []])
def test_an_empty_key_of_another_stream_changes_nothing(choices: Any) -> None:
    """Gateways that speak several dialects write the keys of all."""
    events: list[Plain] = [{**event, "choices": choices} for event in ANTHROPIC]

    assert calls_of(events) == [("add", {"a": 1}, "t1")]


def test_content_that_is_a_list_first_and_a_text_later() -> None:
    """Mistral streams thoughts and texts as lists of parts, and the rest as text: no piece of the answer is lost."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": [thought]}),
        chunk({"content": [{"type": "text", "text": "It "}]}),
        chunk({"content": "is "}),
        chunk({"content": [{"type": "text", "text": "s"}]}),
        chunk({"content": "unny"}, "stop"),
    ]
    run = read(events).run

    assert (run.actual_output, run.warnings) == ("It is sunny", [])


def test_the_text_of_chunks_is_the_answer() -> None:
    """Text grows, and the tokens of the last chunk are the run's."""
    events: list[Plain] = [chunk({"content": "He"}), chunk({"content": "llo"}, "stop")]
    events.append({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 2}})
    run = read([*events, "[DONE]"]).run

    assert (run.actual_output, run.usage, run.models) == ("Hello", {"input_tokens": 2}, ["m"])
    assert read([chunk({"refusal": "I "}), chunk({"refusal": "won't"}, "stop")]).run.actual_output == "I won't"


def test_a_stream_that_broke_off_says_so() -> None:
    """The received part is read, and the missing part is reported; half a call has invalid arguments."""
    events = [chunk(piece('{"a": ', index=0, id="a", name="add")), {"error": {"message": "overloaded"}}]
    run = read(events).run

    assert [call.execution and call.execution.status.value for call in run.calls] == ["invalid_arguments"]
    assert ["overloaded" in run.warnings[0], "has no end" in run.warnings[1]] == [True, True]


def test_several_choices_are_refused_in_a_stream_too() -> None:
    """Choices are alternatives, so more than one is refused."""
    with pytest.raises(InvalidDataError, match="2 choices"):
        read([chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "stop", index=1)])


# Anthropic, Responses

ANTHROPIC: list[Plain] = [
    {
        "type": "message_start",
        "message": {"role": "assistant", "content": [], "model": "m", "usage": {"input_tokens": 3}},
    },
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Well."}},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
RESPONSE: list[Plain] = [
    {"type": "response.created", "response": {"object": "response", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a": 1}'},
    {"type": "response.output_item.done", "output_index": 0, "item": CALL},
    {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": [CALL]}},
]


def test_blocks_of_anthropic_add_up() -> None:
    """Text and the JSON of inputs grow by their index; the last tokens and the reason to stop are the message's."""
    transcript = read(ANTHROPIC)

    assert calls_of(ANTHROPIC) == [("add", {"a": 1}, "t1")]
    assert (transcript.format, transcript.run.models) == ("anthropic", ["m"])
    assert transcript.run.usage == {"input_tokens": 3, "output_tokens": 5}
    assert transcript.conversation.turns[0].content == "Well."
    assert transcript.run.warnings == []


def test_half_a_block_has_invalid_arguments() -> None:
    """A stream that was cut off has no other sign of it in the call."""
    run = read(ANTHROPIC[:8]).run

    assert [call.execution and call.execution.status.value for call in run.calls] == ["invalid_arguments"]
    assert "has no end" in run.warnings[0]


def test_the_last_event_of_responses_holds_the_response() -> None:
    """The events before it are not needed."""
    for events in (RESPONSE, RESPONSE[-1:]):
        assert (calls_of(events), read(events).format) == ([("add", {"a": 1}, "c1")], "openai-responses")
        assert read(events).run.warnings == []


# What is not read

CHUNKS = [
    chunk({"role": "assistant", "content": "x"}, id="s1"),
    chunk(piece('{"a": ', index=0, id="c1", type="function", name="add"), id="s1"),
    chunk(piece("1}", index=0, id="c1"), id="s1"),
    chunk({}, "tool_calls", id="s1"),
]
SEVERAL = "holds several streams; log each response by itself"
FINAL = {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": []}}


@pytest.mark.parametrize(
    ("events", "error"),
    [
        (CHUNKS + [{**event, "id": "s2"} for event in CHUNKS], SEVERAL),
        ([{**event, "id": name} for event in CHUNKS for name in ("s1", "s2")], SEVERAL),
        (pieces(piece("{}", **ONE, name="f")) + pieces(piece("{}", **ONE, name="g")), SEVERAL),
        (ANTHROPIC * 2, SEVERAL),
        (RESPONSE * 2, SEVERAL),
        (RESPONSE[:-1], "has no 'response.completed', of which the response is read; log the items"),
        ([*RESPONSE[:-1], {"type": "error", "message": "slow down"}], "broke off with an error: 'slow down'"),
        ([*RESPONSE[:-1], FINAL], "the response at the end has 0 of the 1 items of the stream; log the items"),
        ([*CHUNKS, *ANTHROPIC], "is not an event of the stream of \\$\\[0\\]; log a list of messages"),
        ([*CHUNKS, {"role": "user", "content": "x"}], "is not an event of the stream of"),
        (ANTHROPIC[:5] + ANTHROPIC[6:], "is a piece of a block of type 'tool_use' whose beginning is missing"),
        (ANTHROPIC[:2] + ANTHROPIC[3:], "is a piece of a block of type 'text' whose beginning is missing"),
        (CHUNKS[2:], "a call needs the name of its tool"),
        (
            [*CHUNKS[:2], {"object": "chat.completion.chunk", "choices": [{"message": {"role": "assistant"}}]}],
            "holds a message in place of a delta; log the messages",
        ),
        ([chunk({"tool_calls": "abc"})], "expected a list of pieces of calls, got 'abc'"),
        ([chunk({"tool_calls": [7]})], "expected a piece of a call, got 7"),
    ],
    ids=[
        *("two streams", "two streams in turns", "two streams without ids", "two messages", "two responses"),
        *(
            "no last event",
            "an error at the end",
            "a last event without items",
            "two APIs",
            "a message",
            "no block",
            "no text block",
        ),
        *("no name", "a whole message", "a text of calls", "a number as a call"),
    ],
)
def test_other_lists_of_events_are_an_error_that_says_what_to_log(events: list[Plain], error: str) -> None:
    """No call is lost, and none has the arguments of another."""
    with pytest.raises(InvalidDataError, match=error):
        read(events)


WRONG: list[Any] = [None, 1, True, "x", [], ["x"], [[1]], {}, {"a": 1}, [{"type": "text", "text": "t"}], {"type": [1]}]


def _places(value: Any) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *place) for key, item in inside for place in _places(item))]


@pytest.mark.parametrize("events", [CHUNKS, ANTHROPIC, RESPONSE], ids=["chat", "anthropic", "responses"])
def test_values_of_wrong_types_are_errors_or_warnings(events: list[Plain]) -> None:
    """Whatever type any value has, the stream is read, or an error of toolgrade says what is wrong."""
    for place in _places(events):
        for wrong in WRONG if place else ():
            mutated = json.loads(json.dumps(events))
            holder = mutated
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = wrong
            with suppress(InvalidDataError):
                read(mutated)


# Responses, streamed or not


def test_stream_may_replace_a_response() -> None:
    """Programs log a stream next to the request."""
    pair = {
        "request": {"messages": [{"role": "user", "content": "Go."}]},
        "response": [chunk({"content": "Hi"}, "stop")],
    }

    assert (read(pair).run.input, read(pair).run.actual_output) == ("Go.", "Hi")


@pytest.mark.parametrize(
    "value",
    [
        [chunk({}, "tool_calls")],
        {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "tool_calls"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}], "stop_reason": "tool_use"},
    ],
    ids=["stream", "chat", "anthropic"],
)
def test_response_that_ended_for_a_call_without_one_is_a_warning(value: Any) -> None:
    """The reason to stop says that there was a call, so an empty list of calls is not a choice of the model."""
    (warning,) = read(value).run.warnings

    assert "has no call; at least one call is missing" in warning


@pytest.mark.parametrize("reason", ["TOOL_CALLS", "tool_call", "tool-use", "toolUse", "MALFORMED_FUNCTION_CALL"])
def test_every_spelling_of_the_reason_is_understood(reason: str) -> None:
    """Servers of the same API write it in their own ways."""
    response = {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": reason}]}
    (warning,) = read(response).run.warnings

    assert warning.endswith(f"the response ended with {reason!r} and has no call; at least one call is missing")


@pytest.mark.parametrize("choices", ["abc", "", '[{"message": {"role": "assistant"}}]'])
def test_choices_that_are_a_text_are_refused(choices: str) -> None:
    """They are not the answer of a model without calls."""
    with pytest.raises(InvalidDataError, match=r"\$\.choices: expected one choice, got "):
        read({"object": "chat.completion", "choices": choices})
