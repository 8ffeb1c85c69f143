"""The events of a stream read as the response that they add up to."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import InvalidDataError
from toolgrade.formats import read

Plain = dict[str, Any]


def chunk(delta: Plain, reason: str | None = None, index: int = 0) -> Plain:
    """A chunk of Chat Completions."""
    choice = {"index": index, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def piece(arguments: str, **more: Any) -> Plain:
    """A piece of a call in such a chunk; its name comes with `name`."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{**more, "function": {**name, "arguments": arguments}}]}


def calls_of(events: list[Plain]) -> list[tuple[Any, ...]]:
    """Name, arguments and id of each call."""
    return [(call.name, call.arguments, call.id) for call in read(events).run.calls]


texts = st.text('ab"\\{}é', min_size=1, max_size=6)
given_arguments = st.dictionaries(texts, texts, max_size=3)


def cut(data: st.DataObject, text: str) -> list[str]:
    """The text in pieces."""
    places = sorted(data.draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(requests=st.lists(given_arguments, min_size=1, max_size=3), data=st.data())
def test_chunks_add_up_wherever_they_were_cut(requests: list[Plain], data: st.DataObject) -> None:
    """Calls in pieces are joined by their indexes."""
    events = [chunk({"role": "assistant", "content": ""})]
    for index, arguments in enumerate(requests):
        first, *rest = cut(data, json.dumps(arguments))
        events.append(chunk(piece(first, index=index, id=f"c{index}", type="function", name="add")))
        events += [chunk(piece(part, index=index)) for part in rest]
    events.append(chunk({}, "tool_calls"))

    assert calls_of(events) == [("add", arguments, f"c{index}") for index, arguments in enumerate(requests)]
    assert read(events).run.warnings == []


def test_servers_that_count_badly_are_understood() -> None:
    """No index at all, the same one for all calls, empty names in later pieces: no call is lost or mixed up."""
    no_index = [
        chunk(piece("{}", id="a", name="add")),
        chunk(piece('{"x": ', id="b", name="sub")),
        chunk(piece("1}"), "stop"),
    ]
    same = [chunk(piece("{}", index=0, id="a", name="add")), chunk(piece("{}", index=0, id="b", name="sub"), "stop")]
    empty = [chunk(piece('{"x"', index=0, id="a", name="add")), chunk(piece(": 1}", index=0, id="", name=""), "stop")]

    assert calls_of(no_index) == [("add", {}, "a"), ("sub", {"x": 1}, "b")]
    assert calls_of(same) == [("add", {}, "a"), ("sub", {}, "b")]
    assert calls_of(empty) == [("add", {"x": 1}, "a")]


@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["no index", "one index"])
def test_pieces_that_take_turns_are_joined_by_id(index: Plain) -> None:
    """Also where all calls have the same index, or none."""
    events = [
        chunk(piece('{"x"', id="a", name="add", **index)),
        chunk(piece('{"y"', id="b", name="sub", **index)),
        chunk(piece(": 1}", id="a", **index)),
        chunk(piece(": 2}", id="b", **index), "stop"),
    ]

    assert calls_of(events) == [("add", {"x": 1}, "a"), ("sub", {"y": 2}, "b")]


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


TEXT_BLOCK = {"type": "text", "text": ""}
ANTHROPIC: list[Plain] = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": TEXT_BLOCK},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "a"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
CHUNKS = [
    chunk({"role": "assistant", "content": "x"}),
    chunk(piece('{"a": ', index=0, id="c1", type="function", name="add")),
    chunk(piece("1}", index=0, id="c1")),
    chunk({}, "tool_calls"),
]
CALL = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
RESPONSE: list[Plain] = [
    {"type": "response.created", "response": {"output": [], "status": "in_progress"}},
    {"type": "response.output_item.done", "output_index": 0, "item": CALL},
    {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": [CALL]}},
]
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


def test_pieces_that_cannot_be_joined_are_a_warning() -> None:
    """Arguments that came as an object and then as text: the text counts, and the run warns."""
    calls = [{"index": 0, "id": "c", "function": {"name": "add", "arguments": {"a": 1}}}]
    run = read([chunk({"tool_calls": calls}), chunk(piece('{"b": 2}', index=0), "tool_calls")]).run

    assert [call.arguments for call in run.calls] == [{"b": 2}]
    assert run.warnings == ["$: the pieces of 'arguments' have different types; the last was read"]


def test_the_text_of_chunks_is_the_answer() -> None:
    """Text grows, and the tokens of the last chunk are the run's."""
    events: list[Plain] = [chunk({"content": "He"}), chunk({"content": "llo"}, "stop")]
    events.append({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 2}})
    run = read(events).run

    assert (run.actual_output, run.usage, run.models) == ("Hello", {"input_tokens": 2}, ["m"])


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


CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}


def responses(last: str | None, **body: Any) -> list[Plain]:
    """Events of the Responses API."""
    events: list[Plain] = [
        {"type": "response.created", "response": {"object": "response", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a": 1}'},
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
    ]
    return events if last is None else [*events, {"type": last, "response": {"object": "response", **body}}]


def test_the_last_event_of_responses_holds_the_response() -> None:
    """If it lacks the items, or is missing, the items of earlier events are read."""
    whole = responses("response.completed", status="completed", output=[CALL], model="m")
    bare = responses("response.completed", status="completed", output=[])
    broken = responses(None)

    for events in (whole, bare, broken):
        assert calls_of(events) == [("add", {"a": 1}, "c1")]
        assert read(events).format == "openai-responses"
    assert [len(read(events).run.warnings) for events in (whole, bare, broken)] == [0, 0, 1]


def test_arguments_of_another_id_after_a_call_of_responses_are_counted() -> None:
    """A call whose beginning was cut off is not taken for the finished call with its index."""
    finished = {**CALL, "id": "fc_0"}
    events: list[Plain] = [
        {"type": "response.output_item.done", "output_index": 0, "item": finished},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_3", "delta": '{"b": 2}'},
        {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": []}},
    ]

    run = read(events).run
    assert [(call.name, call.arguments) for call in run.calls] == [("add", {"a": 1})]
    assert any("could not be read" in warning for warning in run.warnings)


def test_blocks_of_anthropic_add_up() -> None:
    """Text and the JSON of inputs grow by their index; the last tokens and the reason to stop are the message's."""
    events: list[Plain] = [
        {
            "type": "message_start",
            "message": {"role": "assistant", "content": [], "model": "m", "usage": {"input_tokens": 3}},
        },
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
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
    transcript = read(events)

    assert calls_of(events) == [("add", {"a": 1}, "t1")]
    assert (transcript.format, transcript.run.models) == ("anthropic", ["m"])
    assert transcript.run.usage == {"input_tokens": 3, "output_tokens": 5}
    assert transcript.conversation.turns[0].content == "Well."
    assert transcript.run.warnings == []
    assert "has no end" in read(events[:-1]).run.warnings[0]


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


def test_whole_messages_in_the_chunks_lose_no_call() -> None:
    """Some servers send a message in place of a delta; the first is read, a later one is a warning."""
    call = {"id": "a", "function": {"name": "add", "arguments": "{}"}}
    message = {"role": "assistant", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = {"object": "chat.completion.chunk", "choices": [choice]}

    assert [call.name for call in read([whole]).run.calls] == ["add"]
    run = read([chunk(piece("{}", index=0, id="b", name="sub")), whole]).run
    assert [call.name for call in run.calls] == ["sub"]
    assert run.warnings == ["$: holds a whole message after pieces of one; the message was left out"]


def test_a_second_call_in_the_old_form_is_a_warning() -> None:
    """`function_call` has room for one."""
    events = [chunk({"function_call": {"name": name, "arguments": '{"a": 1}'}}) for name in ("add", "sub")]

    assert "$: 'function_call' names another call; at least one call is missing" in read(events).run.warnings


def test_a_repeated_stream_of_anthropic_counts_once() -> None:
    """As a repeated response of the other APIs does."""
    block = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}
    events = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "id": "m1"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    run = read(events * 2).run

    assert [call.name for call in run.calls] == ["add"]
    assert "$[5]: repeats $[0]; it counts once" in run.warnings

    other = [{**events[0], "message": {**events[0]["message"], "id": "m2"}}, *events[1:]]
    assert [call.name for call in read([*events, *other]).run.calls] == ["add", "add"]


def test_parts_of_a_stream_with_wrong_types_are_counted() -> None:
    """Choices, calls and deltas that cannot be read, and values that are not events, are warnings."""
    events: list[Any] = [
        chunk(piece("{}", index=0, id="a", name="add")),
        {"object": "chat.completion.chunk", "choices": "abc"},
        chunk({"tool_calls": "abc"}),
        chunk({"tool_calls": [7]}),
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "sub", "arguments": "{}"}}]},
        "text",
        "[DONE]",
        chunk({}, "tool_calls"),
    ]
    run = read(events).run

    assert [call.name for call in run.calls] == ["add"]
    assert run.warnings == [
        "$[4] (and 1 more): is not an event of a stream; it was left out",
        "$: 'choices' must be a list, got 'abc'; it was left out",
        "$: 'tool_calls' must be a list, got 'abc'; it was left out",
        "$: 'tool_calls' must hold objects, got 7; it was left out",
    ]


def test_items_that_the_last_response_lacks_are_added() -> None:
    """The events hold a call more than the response at the end."""
    other = {"type": "function_call", "call_id": "c2", "name": "sub", "arguments": "{}"}
    events = responses(None)
    events.append({"type": "response.output_item.done", "output_index": 1, "item": other})
    events.append({"type": "response.completed", "response": {"status": "completed", "output": [CALL]}})
    run = read(events).run

    assert [call.name for call in run.calls] == ["add", "sub"]
    assert run.warnings == ["$: the last form of the response lacks 1 item of the stream; 1 item added"]
