"""Recorded responses of the providers: each is read, and no call is lost.

Calls are counted a second time by a walk over the plain JSON that shares nothing with the readers. The recordings stand
beside the repository (`TOOLGRADE_SHARED` says where else); without them these tests are skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import ROOT
from recorded_exchanges import ENDS, Exchange, exchanges_in
from toolgrade.calls import ToolCallType
from toolgrade.cases import Run
from toolgrade.errors import InvalidDataError
from toolgrade.formats import read

pytest.importorskip("yaml")

FOLDER = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared") / "data" / "recorded"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded responses are not here; set TOOLGRADE_SHARED to the folder of shared data"
)


@pytest.fixture(scope="module")
def exchanges() -> list[Exchange]:
    """Every recorded exchange of the three APIs."""
    return exchanges_in(FOLDER)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a value, itself among them."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def is_call_of_anthropic(block: dict[str, Any]) -> bool:
    """Whether a block is a call; a search for tools is none."""
    is_use = str(block.get("type")).endswith("tool_use")
    return is_use and not (block["type"] == "server_tool_use" and block["name"].startswith("tool_search"))


def counted(name: str, body: Any) -> Counter[str]:
    """The names of the calls in a request or response, counted without the readers."""
    names: Counter[str] = Counter()
    if not isinstance(body, dict):
        return names
    for entry in walk({key: body.get(key) for key in ("messages", "input", "choices", "output", "content")}):
        kind = entry.get("type")
        if name == "openai-chat" and entry.get("role") == "assistant":
            names.update(call["function"]["name"] for call in entry.get("tool_calls") or ())
            names.update([legacy["name"]] if (legacy := entry.get("function_call")) and legacy["name"] else [])
        elif name == "anthropic" and is_call_of_anthropic(entry):
            names[entry["name"]] += 1
        elif (
            name == "openai-responses"
            and isinstance(kind, str)
            and kind.endswith("_call")
            and "tool_search" not in kind
        ):
            names[entry.get("name") or kind[:-5]] += 1
        elif kind == "program" and "code" in entry:
            names["program"] += 1
    return names


def counted_stream(name: str, events: list[Any]) -> Counter[str]:
    """The names of the calls that a stream begins."""
    names: Counter[str] = Counter()
    for event in events:
        if name == "openai-chat":
            for entry in walk(event.get("choices") or []):
                called = entry.get("function") or entry.get("function_call")
                names.update([called["name"]] if isinstance(called, dict) and called.get("name") else [])
        elif name == "anthropic":
            block = event.get("content_block") or {}
            names.update([block["name"]] if is_call_of_anthropic(block) else [])
        elif event.get("type") == "response.output_item.done":
            names += counted(name, {"output": [event["item"]]})
    return names


def called(run: Run) -> Counter[str]:
    """The names of all calls of a run, at every depth."""
    return Counter(call.name for call in run.select_calls(nested=True, handoffs=True))


def test_every_response_is_read_without_loss(exchanges: list[Exchange]) -> None:
    """As many calls of each name as the JSON holds, streamed or not; the format is the one of the API that answered."""
    counts: Counter[tuple[str, bool]] = Counter()
    calls: Counter[str] = Counter()
    for entry in exchanges:
        if not entry.response or (
            isinstance(entry.response, dict) and set(entry.response) <= {"error", "type", "status_code"}
        ):
            continue
        transcript = read(entry.response)
        count = counted_stream if entry.streamed else counted
        expected = count(entry.format, entry.response)
        assert called(transcript.run) == expected, entry.where
        assert transcript.format == entry.format, entry.where
        counts[entry.format, entry.streamed] += 1
        calls[entry.format] += sum(expected.values())

    assert all(counts[name, streamed] for name in ENDS.values() for streamed in (False, True))
    assert all(calls[name] > 40 for name in ENDS.values())


def test_every_exchange_is_read_without_loss(exchanges: list[Exchange]) -> None:
    """Request and response together hold the calls of both, and each result that a request holds reached its call."""
    for entry in exchanges:
        if (
            entry.request is None
            or not entry.response
            or (
                isinstance(entry.response, dict)
                and "error" in set(entry.response) - {"output"}
                and entry.response["error"]
            )
        ):
            continue
        count = counted_stream if entry.streamed else counted
        run = read({"request": entry.request, "response": entry.response}).run
        assert called(run) == counted(entry.format, entry.request) + count(entry.format, entry.response), entry.where
        orphans = [text for text in run.warnings if "answers no open call" in text]
        assert not orphans or entry.request.get("previous_response_id"), entry.where


def test_provider_error_is_not_a_response(exchanges: list[Exchange]) -> None:
    """It is refused with its message."""
    errors = [
        e.response
        for e in exchanges
        if isinstance(e.response, dict) and set(e.response) <= {"error", "type", "status_code"}
    ]

    assert errors
    for body in errors:
        with pytest.raises(InvalidDataError, match="is an error, not a response"):
            read(body)


def test_the_providers_own_objects_read_as_their_json_does(exchanges: list[Exchange]) -> None:
    """What the clients of the newest versions make of a response gives the same calls and warnings."""
    anthropic, openai_types = pytest.importorskip("anthropic.types.beta"), pytest.importorskip("openai.types")
    from openai.types.responses import Response

    models = {
        "openai-chat": openai_types.chat.ChatCompletion,
        "openai-responses": Response,
        "anthropic": anthropic.BetaMessage,
    }
    compared = 0
    for entry in exchanges:
        if (
            entry.streamed
            or not isinstance(entry.response, dict)
            or not {"choices", "output", "content"} & set(entry.response)
        ):
            continue
        built = models[entry.format].construct(**entry.response)
        from_object, from_json = read(built).run, read(entry.response).run
        assert briefs(from_object) == briefs(from_json), entry.where
        assert from_object.warnings == from_json.warnings, entry.where
        compared += len(from_json.calls)

    assert compared > 100


def briefs(run: Run) -> list[tuple[Any, ...]]:
    """What a call is and what became of it."""
    return [
        (call.name, call.arguments, call.id, call.type, how.status, how.error, how.server, how.executed)
        for call in run.select_calls(nested=True)
        if (how := call.execution) is not None
    ]


OTHERS = {
    ":generateContent": ("gemini", "functionCall"),
    ":streamGenerateContent": ("gemini", "functionCall"),
    "/converse": ("bedrock", "toolUse"),
    "/api/chat": ("ollama", "tool_calls"),
}


def test_responses_of_other_apis_are_read_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Gemini, Bedrock and Ollama, with the requests before them; correct recordings give no warning."""
    monkeypatch.setattr("recorded_exchanges.ENDS", {end: name for end, (name, _) in OTHERS.items()})
    keys = dict(OTHERS.values())
    formats: Counter[str] = Counter()
    for entry in exchanges_in(FOLDER):
        if entry.format not in keys or not entry.response or "error" in entry.response:
            continue
        for value in (entry.response, {"request": entry.request, "response": entry.response}):
            transcript = read(value)
            calls = [one[keys[entry.format]] for one in walk(value) if one.get(keys[entry.format])]
            names = [one["name"] if "name" in one else one[0]["function"]["name"] for one in calls]
            run_by_agent = [call.name for call in transcript.run.calls if call.type is ToolCallType.FUNCTION]
            assert sorted(run_by_agent) == sorted(names), entry.where
            assert transcript.format == entry.format, entry.where
            assert [text for text in transcript.run.warnings if "more than text" not in text] == [], entry.where
            formats[entry.format] += len(names)

    assert formats["gemini"] > 40
    assert formats["bedrock"] > 20
