"""Messages of Gemini, Bedrock and Ollama, as google-genai 2.34, boto3 1.44 and ollama 0.6 sent and received them.

The clients talked to a server on this machine; `logged/` has what a program logs of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgrade import read_cases
from toolgrade.cases import RunStatus
from toolgrade.errors import DataFileError, InvalidDataError
from toolgrade.formats import read, run_from_messages
from toolgrade.formats.messages.transcript import FormatName

Plain = dict[str, Any]

FOLDER = Path(__file__).parent / "logged"
LOGGED: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.iterdir()}

BOTH = [({"item": "bolt"}, "not_executed"), ({"item": "nut"}, "not_executed")]
ANSWERED = [({"item": "bolt"}, "ok"), ({"item": "nut"}, "error")]
KNOWN = "7 bolts; nuts are unknown."

CASES: list[tuple[FormatName, str, str | None, list[tuple[Plain, str]]]] = [
    ("gemini", "contents", KNOWN, ANSWERED),
    ("gemini", "sdk-pair", KNOWN, ANSWERED),
    ("gemini", "rest-pair", KNOWN, ANSWERED),
    ("gemini", "stream", None, BOTH),
    ("gemini", "automatic", "7 bolts.", [({"item": "bolt"}, "ok")]),
    ("gemini", "chat-history", "All is well.", []),
    ("gemini", "code", "It is 42.", [({"code": "print(6*7)", "language": "PYTHON"}, "ok")]),
    ("gemini", "blocked", None, []),
    ("bedrock", "messages", KNOWN, ANSWERED),
    ("bedrock", "pair", None, BOTH),
    ("bedrock", "stream", None, BOTH[:1]),
    ("ollama", "messages", "7 bolts, no nuts.", [({"item": "bolt"}, "ok"), ({"item": "nut"}, "ok")]),
    ("ollama", "pair", None, BOTH),
    ("ollama", "stream", None, BOTH),
]

each_case = pytest.mark.parametrize(
    ("format", "name", "output", "calls"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)


@each_case
def test_what_clients_log_is_read_without_a_warning(
    format: FormatName, name: str, output: str | None, calls: list[tuple[Plain, str]]
) -> None:
    """The format is detected, and each call has its arguments and its answer, by id or by name and order."""
    transcript = read(LOGGED[format][name])

    assert transcript.format == format
    assert transcript.run.actual_output == output
    assert [(call.arguments, call.execution and call.execution.status.value) for call in transcript.run.calls] == calls
    assert transcript.run.warnings == []
    assert read(LOGGED[format][name], format=format).run == transcript.run


@each_case
def test_a_file_of_it_is_one_case(
    tmp_path: Path, format: FormatName, name: str, output: str | None, calls: list[tuple[Plain, str]]
) -> None:
    """As a document, as a line among others, and a list with a message, or a piece of a stream, on each line."""
    value, file = LOGGED[format][name], tmp_path / "log.jsonl"
    texts = [json.dumps(value, indent=1), json.dumps({"id": "a", **value} if isinstance(value, dict) else value)]
    texts += ["\n".join(map(json.dumps, value))] if isinstance(value, list) else [f"{texts[1]}\n{texts[1]}"]
    for text in texts:
        file.write_text(text, "utf-8")
        cases = read_cases(file)

        assert len(cases) == (2 if isinstance(value, dict) and text == texts[2] else 1)
        assert {case.actual_output for case in cases} == {output}
        assert [call.arguments for call in cases[-1].tools_called or ()] == [arguments for arguments, _ in calls]


@pytest.mark.parametrize(
    ("format", "name", "key", "expected"),
    [
        ("gemini", "contents", "output", {"output": 7}),
        ("gemini", "automatic", "output", {"result": 7}),
        ("gemini", "code", "output", "42\n"),
        ("bedrock", "messages", "output", {"count": 7}),
        ("ollama", "messages", "output", "7"),
        ("gemini", "code", "name", "code_execution"),
        ("gemini", "automatic", "id", "id1"),
        ("bedrock", "messages", "id", "t1"),
        ("ollama", "messages", "id", None),
    ],
)
def test_first_call(format: str, name: str, key: str, expected: object) -> None:
    """Its answer is what the model received; ids are those of the recording."""
    assert getattr(read(LOGGED[format][name]).run.calls[0], key) == expected


@pytest.mark.parametrize(
    ("format", "name", "tokens"),
    [("gemini", "stream", (20, 8, 28)), ("bedrock", "stream", (11, 6, 17)), ("ollama", "stream", (12, 4, None))],
)
def test_tokens_of_a_stream(format: str, name: str, tokens: tuple[int | None, ...]) -> None:
    """They come with its last event, and count once; those of thoughts are of the output."""
    usage = read(LOGGED[format][name]).run.usage or {}

    assert tuple(map(usage.get, ("input_tokens", "output_tokens", "total_tokens"))) == tokens


@pytest.mark.parametrize(
    ("format", "name", "required"),
    [("gemini", "sdk-pair", ["item"]), ("gemini", "rest-pair", ["item"]), ("bedrock", "pair", ["item"])],
)
def test_offered_tools_have_json_schemas(format: str, name: str, required: list[str]) -> None:
    """Gemini's own schemas have other names of types."""
    (tool,) = read(LOGGED[format][name]).run.available_tools
    schema = tool.input_schema or {}

    assert (tool.name, schema["type"], schema["required"]) == ("stock", "object", required)
    assert schema["properties"]["item"] == {"type": "string"}
    assert schema["properties"].get("warehouse") in (None, {"type": ["integer", "null"]})


def candidate(reason: str, *parts: Plain, **more: Any) -> Plain:
    """A response of Gemini."""
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": reason, **more}]}


def stop(reason: str) -> Plain:
    """A response of Bedrock with a text."""
    return {"output": {"message": {"role": "assistant", "content": [{"text": "Hm"}]}}, "stopReason": reason}


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            candidate("MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: f("),
            "Malformed function call: f(",
        ),
        (candidate("UNEXPECTED_TOOL_CALL"), "UNEXPECTED_TOOL_CALL"),
        (LOGGED["gemini"]["malformed"], "MALFORMED_FUNCTION_CALL"),
        (stop("malformed_tool_use"), "malformed_tool_use"),
    ],
)
def test_a_call_that_the_api_could_not_read_is_an_invalid_call(response: Plain, text: str) -> None:
    """The model asked for it: an expectation of no call does not pass."""
    run = read(response).run
    (call,) = run.calls

    assert call.execution is not None
    assert (call.execution.status.value, call.execution.requested_parameters) == ("invalid_arguments", text)
    assert run.status is RunStatus.STOPPED
    assert sum("not a JSON object" in warning for warning in run.warnings) == 1


@pytest.mark.parametrize(
    "response",
    [
        candidate("MAX_TOKENS", {"text": "Hm"}),
        candidate("SAFETY", {"text": "Hm"}),
        candidate("TOO_MANY_TOOL_CALLS", {"text": "Hm"}),
        stop("max_tokens"),
        stop("guardrail_intervened"),
        {"model": "m", "message": {"role": "assistant", "content": "Hm"}, "done": True, "done_reason": "length"},
    ],
)
def test_an_early_end_stops_the_run(response: Plain) -> None:
    """It is no answer of the agent, and no warning."""
    run = read(response).run

    assert (run.status, run.warnings) == (RunStatus.STOPPED, [])


@pytest.mark.parametrize(("format", "last"), [("gemini", 1), ("bedrock", 4), ("ollama", 1)])
def test_a_stream_that_was_cut_off(format: str, last: int) -> None:
    """What came before is read, with a warning; half of the arguments are invalid."""
    run = read(LOGGED[format]["stream"][:-last]).run

    assert any("the stream has no end" in warning for warning in run.warnings)
    assert [call.execution and call.execution.status.value for call in run.calls] == (
        ["invalid_arguments"] if format == "bedrock" else ["not_executed"] * len(run.calls)
    )


@pytest.mark.parametrize("format", ["bedrock", "ollama"])
def test_several_streams_are_refused(format: str) -> None:
    """Nothing shows what belongs together."""
    stream = LOGGED[format]["stream"]
    for events in (stream * 2, stream + stream[:2]):
        with pytest.raises(InvalidDataError, match="several streams"):
            read(events)


@pytest.mark.parametrize("ids", [{}, {"responseId": "r1"}], ids=["no ids", "one id"])
def test_several_streams_of_gemini_with_one_id(ids: Plain) -> None:
    """Only an end before further parts shows them; an empty part after it belongs to the stream."""
    chunk = {"candidates": [{"content": {"role": "model", "parts": [{"text": "One"}]}}], **ids}
    whole, last = candidate("STOP", {"text": "."}) | ids, candidate("STOP", {"text": ""}, {"thoughtSignature": "x"})
    run = read([chunk, whole, last | ids]).run
    assert (run.actual_output, run.warnings) == ("One.", [])
    for value in ([chunk, whole, whole], [whole, chunk]):
        with pytest.raises(InvalidDataError, match=r"^\$: holds several streams"):
            read(value)


def test_pieces_of_ollama(tmp_path: Path) -> None:
    """A piece alone has no end; on the lines after a whole response it is an error."""
    whole = {"model": "m", "message": {"role": "assistant", "content": "Hm"}, "done": True}
    piece = {**whole, "done": False}
    for value in (piece, [piece]):
        assert read(value).run.warnings == ["$: the stream has no end; the part before was read"]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, [whole, piece, whole])), "utf-8")
    with pytest.raises(DataFileError, match="2: \\$: is a piece of a streamed response among others"):
        read_cases(path)


@pytest.mark.parametrize("contents", ["How many bolts?", [{"role": "user", "parts": [{"text": "How many bolts?"}]}]])
def test_the_history_of_automatic_calls_repeats_the_request(contents: object) -> None:
    """It counts once, next to the request or below it."""
    response = LOGGED["gemini"]["automatic"]
    for value in (
        {"contents": contents, "response": response},
        {"request": {"contents": contents}, "response": response},
    ):
        transcript = read(value)

        assert [run.input for run in transcript.turns] == ["How many bolts?"]
        assert (len(transcript.run.calls), transcript.run.warnings) == (1, [])


def test_parallel_calls_of_one_tool_without_ids_keep_their_order() -> None:
    """Answers name the tool alone; those that do name an id belong to it."""
    calls = [{"functionCall": {"name": name, "args": {"n": n}}} for name, n in (("f", 1), ("g", 2), ("f", 3))]
    answers = [
        {"functionResponse": {"name": name, "response": {"is": n}}} for name, n in (("f", 1), ("f", 3), ("g", 2))
    ]
    run = read(
        [{"parts": [{"text": "Go"}]}, {"role": "model", "parts": calls}, {"role": "function", "parts": answers}]
    ).run

    assert [(call.arguments["n"], call.output) for call in run.calls] == [(n, {"is": n}) for n in (1, 2, 3)]
    assert (run.input, run.warnings) == ("Go", [])


def test_images_of_the_user_are_kept() -> None:
    """In the form of each API."""
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    gemini = {"role": "user", "parts": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": data}}]}
    source = {"image": {"format": "png", "source": {"bytes": data}}}
    bedrock = [
        {"role": "user", "content": [{"text": "What?"}, source]},
        {"role": "assistant", "content": [{"text": "!"}]},
    ]
    ollama = [{"role": "user", "content": "What?", "images": [data]}, {"role": "assistant", "content": "!"}]
    for value, name in (([gemini], "gemini"), (bedrock, "bedrock"), (ollama, "ollama")):
        transcript = read(value)
        text, image = transcript.run.input_parts or (None, None)

        assert (transcript.format, text, getattr(image, "data", None)) == (name, "What?", data)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"text": "What?"}, {"image": "https://example.com/a.png"}]},
        {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image", "image": {"url": "a.png"}}]},
        {"role": "assistant", "content": "!", "images": [{"type": "image_url", "image_url": {"url": "a.png"}}]},
    ],
)
def test_images_in_other_forms_of_a_chat(message: Plain) -> None:
    """The keys alone do not make a message one of Bedrock or Ollama."""
    assert read([message]).format == "openai-chat"


def test_the_model_in_a_request_of_bedrock() -> None:
    """The response does not name it; the tokens count once."""
    messages = [{"role": "user", "content": [{"text": "Hi"}]}]
    response = {**stop("end_turn"), "usage": {"inputTokens": 3, "outputTokens": 1}}
    for value in (
        {"request": {"modelId": "m", "messages": messages}, "response": response},
        {"modelId": "m", "messages": messages, "response": response},
    ):
        run = read(value).run
        assert (run.models, run.usage) == (["m"], {"input_tokens": 3, "output_tokens": 1})


def test_a_trajectory_of_ollama_needs_no_ids() -> None:
    """Its messages are in the form of a chat."""
    assert run_from_messages(LOGGED["ollama"]["messages"]).warnings == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{"role": "model", "parts": [{"functionCall": {"args": {}}}]}], "a call needs the name of its tool"),
        ([{"role": "user", "parts": [{"functionCall": {"name": "f"}}]}], "only an assistant's message"),
        ([{"role": "ROLE_AGENT", "parts": [{"text": "Hi"}]}], "expected one of user, assistant, system"),
        ([{"role": "user", "parts": [{"text": "Hi"}]}, 3], "expected a message"),
        ([{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}], "OpenTelemetry"),
        (
            [{"parts": [{"text": "Hi"}]}, candidate("STOP")],
            r"^\$\[0\]: is not an event of the stream of \$\[1\]; [^\n]*$",
        ),
        (
            [stop("end_turn")],
            r"^\$\[0\]: expected .* looks like a whole response of Amazon Bedrock's Converse API; [^\n]*$",
        ),
        ([[{"role": "user"}, {}], [{"role": "user"}, {}]], r"^\$: holds lists in place of messages; [^\n]*$"),
        (
            [candidate("STOP", {"functionCall": {"name": "f", "willContinue": True}}, {"functionCall": {}})],
            r"^\$: streams the arguments of calls in pieces, [^\n]*$",
        ),
        ({"candidates": []}, "expected one choice, got 0 choices"),
        ([{"role": "user", "content": [{"toolUse": {"name": "f"}}]}], "only an assistant's message"),
    ],
)
def test_refused(value: object, text: str) -> None:
    """With the reason; nothing reads as an answer without calls."""
    with pytest.raises(InvalidDataError, match=text):
        read(value)


def test_a_stream_of_langgraph_is_one_error_of_its_file(tmp_path: Path) -> None:
    """Its pairs are no conversations."""
    path = tmp_path / "log.json"
    pair = [{"type": "AIMessageChunk", "content": "Hi"}, {"langgraph_node": "agent"}]
    path.write_text(json.dumps([pair, pair]), "utf-8")
    with pytest.raises(DataFileError, match=r": \$: holds lists in place of messages; [^\n]*$"):
        read_cases(path)
