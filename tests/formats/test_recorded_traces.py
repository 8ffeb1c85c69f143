"""Traces exported by real tools: each is read, and no call is lost or counted twice.

Calls are counted a second time by a walk over the plain JSON that shares nothing with the readers: every object that
looks like a call in a message, and every span of a tool. The recordings stand beside the repository (`TOOLGRADE_SHARED`
says where else); without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import ROOT
from toolgrade import read_cases
from toolgrade.calls import ToolCall
from toolgrade.formats import read_traces

FOLDER = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared") / "data" / "recorded"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded traces are not here; set TOOLGRADE_SHARED to the folder of shared data"
)

LANGFUSE = sorted(FOLDER.glob("langfuse/*.trace.json"))
ANY_AGENT = sorted(FOLDER.glob("any-agent/*.json"))
VERCEL = sorted(FOLDER.rglob("v6-spans/*.json"))


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a value, also inside of JSON texts, inner ones first."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            value = json.loads(value)
        except ValueError:
            return
        if isinstance(value, str) and value.lstrip()[:1] not in ("{", "["):
            return
        yield from walk(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)
    if isinstance(value, dict):
        yield value


def ids_of_calls(value: Any) -> dict[str, str]:
    """The name of each call in the messages of a trace, by its id."""
    names: dict[str, str] = {}
    for entry in walk(value):
        body = entry["function"] if isinstance(entry.get("function"), dict) else entry
        call_id = entry.get("id") or entry.get("toolCallId")
        name = body.get("name") or body.get("toolName")
        asks = entry.get("type") in ("tool_call", "tool_use") or "toolCallId" in entry or body is not entry
        if asks and isinstance(call_id, str) and isinstance(name, str):
            names[call_id] = name
    return names


def every(calls: list[ToolCall]) -> Iterator[ToolCall]:
    """The calls of a run, and those inside of them."""
    for call in calls:
        yield call
        yield from every(call.execution.children if call.execution else [])


def read_file(path: Path) -> list[ToolCall]:
    """The calls of a file, as `toolgrade convert` reads it."""
    return [call for case in read_cases(path) for call in every(getattr(case, "tools_called", None) or [])]


@pytest.mark.parametrize("path", LANGFUSE, ids=lambda path: path.stem)
def test_no_call_in_an_export_of_langfuse_is_lost(path: Path) -> None:
    """Each call id in the messages is one call of the run, and there are no other calls."""
    value = json.loads(path.read_text(encoding="utf-8"))

    calls = read_file(path)

    assert Counter((call.id, call.name) for call in calls) == Counter(ids_of_calls(value).items())


@pytest.mark.parametrize("path", LANGFUSE, ids=lambda path: path.stem)
def test_calls_match_langfuses_own_reader(path: Path) -> None:
    """Langfuse stored next to each trace the messages that its own reader extracted."""
    own_messages = json.loads(path.with_name(path.name.replace(".trace.", ".chatml.")).read_text(encoding="utf-8"))

    calls = read_file(path)

    assert ids_of_calls(own_messages).items() <= {call.id: call.name for call in calls}.items()


@pytest.mark.parametrize("path", [*LANGFUSE, *ANY_AGENT], ids=lambda path: path.stem)
def test_every_tool_span_is_an_execution(path: Path) -> None:
    """Number, arguments and outputs match the tool spans."""
    value = json.loads(path.read_text(encoding="utf-8"))
    spans = [entry for entry in value.get("observations", ()) if entry["type"] == "TOOL"]
    spans += [
        span for span in value.get("spans", ()) if span["attributes"].get("gen_ai.operation.name") == "execute_tool"
    ]

    ran = [call for call in read_file(path) if call.execution is not None and call.execution.executed]

    assert len(ran) >= len(spans)
    assert len(ran) == len(spans) or "koog" in path.name or "langgraph" in path.name  # theirs are plain spans
    for call in ran:
        assert call.execution is not None
        assert call.input_parameters is not None
        assert not call.execution.not_captured
        assert call.execution.origin.value == "model"


@pytest.mark.parametrize("path", ANY_AGENT, ids=lambda path: path.stem)
def test_one_task_in_many_frameworks_has_the_same_calls(path: Path) -> None:
    """What any-agent recorded of the same task: the same two tools, then at most one that answers."""
    (run,) = read_traces(json.loads(path.read_text(encoding="utf-8"))).runs

    calls = run.tools_called
    assert [call.name for call in calls[:2]] == ["get_current_time", "write_file"]
    assert [call.name.startswith("final") for call in calls[2:]] == [True] * (len(calls) - 2)
    assert calls[0].input_parameters == {"timezone": "America/New_York"}
    assert [call.execution.step for call in calls if call.execution] == list(range(len(calls)))
    assert run.input is not None
    assert "what year it is" in run.input


@pytest.mark.parametrize("path", VERCEL, ids=lambda path: path.stem)
def test_spans_of_the_vercel_sdk_are_read(path: Path) -> None:
    """They contain no call; an embedding span shows no agent and is not a run without calls."""
    value = json.loads(path.read_text(encoding="utf-8"))
    traces = {span["spanContext"]["traceId"] for span in value if "embed" not in span["name"]}
    if not traces:
        return

    result = read_traces(value)

    assert {run.run_id for run in result.runs} == traces
    assert all(run.calls == [] and run.actual_output for run in result.runs)


def test_recordings_exist() -> None:
    """So that none of the tests above is empty."""
    assert LANGFUSE
    assert ANY_AGENT
    assert VERCEL
