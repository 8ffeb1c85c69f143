"""Every command reads every kind of file, from a file, gzipped, from standard input and from a pipe.

Each file has one run, in which the agent was asked Q1 and called `add` once. None of them may read as "no calls".
"""

from __future__ import annotations

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade import LLMTestCase, ToolEfficiencyMetric, evaluate
from toolgrade.cli.main import main
from tracing import (
    FORMS,
    Script,
    ScriptedCall,
    Step,
    langfuse,
    langsmith,
    new_genai,
    openai_agents,
    otlp,
    otlp_spans,
)

SCRIPT = Script("Q1", [Step("boss", [ScriptedCall("add", "c1", {"a": 1}, "3")]), Step("boss", [], "Done.")])
SPANS = [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in otlp_spans(SCRIPT, new_genai)]

CALLED = {"name": "add", "args": {"a": 1}}
CASE = {"input": "Q1", "tools_called": [CALLED]}
TURNS = {"turns": [{"role": "user", "content": "Q1"}, {"role": "assistant", "content": "x", "tools_called": [CALLED]}]}

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CHAT = [{"role": "user", "content": "Q1"}, ASKS, {"role": "tool", "tool_call_id": "c1", "content": "3"}]
ITEMS = [{"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}]
ITEMS += [{"type": "function_call_output", "call_id": "c1", "output": "3"}]
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Q1"}]}
USES = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}]}
LANGCHAIN = [
    {"type": "human", "content": "Q1"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "add", "args": {}, "id": "c1"}]},
]
DUMPS = [
    {"lc": 1, "type": "constructor", "id": ["langchain", kind], "kwargs": {**message, "type": "x"}}
    for kind, message in zip(("HumanMessage", "AIMessage"), LANGCHAIN, strict=True)
]


def lines(*values: Any) -> bytes:
    """JSON Lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def pretty(value: Any) -> bytes:
    """One JSON value on several lines."""
    return json.dumps(value, indent=2).encode()


ANSWERS = {
    "items": lines(ITEMS),
    "items, pretty": pretty(ITEMS),
    "items, one a line": lines(*ITEMS),
    "response of Responses": lines({"object": "response", "output": ITEMS[:1]}),
    "response of Responses, pretty": pretty({"object": "response", "output": ITEMS[:1]}),
    "response of Chat": lines({"object": "chat.completion", "choices": [{"message": ASKS}]}),
    "response of Anthropic": lines({"type": "message", "stop_reason": "tool_use", **USES}),
    "responses of Anthropic": pretty([{"type": "message", "stop_reason": "tool_use", **USES}]),
}
"""Files that have no question, since the model's answer says nothing of it."""

RECORDINGS = {
    "case": lines(CASE),
    "case, pretty": pretty(CASE),
    "cases, list": pretty([CASE]),
    "conversation": lines(TURNS),
    "conversations, list": pretty([TURNS]),
    "record": lines({"query": "Q1", "agent_trajectory": CHAT}),
    "record, pretty": pretty({"query": "Q1", "agent_trajectory": CHAT}),
    "messages": lines(CHAT),
    "messages, pretty": pretty(CHAT),
    "messages, one a line": lines(*CHAT),
    "messages, object": lines({"messages": CHAT}),
    "messages, lists": pretty([CHAT]),
    "messages of Anthropic": lines([CHAT[0], USES]),
    "messages of Anthropic, one a line": lines(CHAT[0], USES),
    "messages of LangChain": lines(LANGCHAIN),
    "messages of LangChain, one a line": lines(*LANGCHAIN),
    "messages of LangChain, lists": pretty([LANGCHAIN]),
    "dumps of LangChain": lines(DUMPS),
    "dumps of LangChain, one a line": lines(*DUMPS),
    "items after a question": pretty([QUESTION, *ITEMS]),
    "items after a question, one a line": lines(QUESTION, *ITEMS),
    "request and response": lines({"request": {"messages": CHAT[:1]}, "response": {"choices": [{"message": ASKS}]}}),
    "input and output": pretty({"input": "Q1", "output": ITEMS}),
    "trace of OTLP": lines(otlp(SCRIPT)),
    "trace of OTLP, pretty": pretty(otlp(SCRIPT)),
    "spans of OTLP, one a line": lines(*SPANS),
    "runs of LangSmith": pretty(langsmith(SCRIPT)),
    "runs of LangSmith, one a line": lines(*langsmith(SCRIPT)),
    "spans of the Agents SDK, one a line": lines(*openai_agents(SCRIPT)),
    "export of Langfuse": pretty(langfuse(SCRIPT)),
    "trace of Jaeger": pretty(FORMS["jaeger"](SCRIPT)),
    "spans of Phoenix": pretty(FORMS["phoenix"](SCRIPT)),
}

REPORT = evaluate([LLMTestCase(**CASE)], [ToolEfficiencyMetric()], show_progress=False)
GOLDEN = lines({"input": "Q1", "expected_tools": [{"name": "add"}]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with files that are right."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case").write_bytes(lines(CASE))
    (tmp_path / "golden").write_bytes(GOLDEN)
    return tmp_path


def run(line: str, data: bytes | None = None) -> Result:
    """Run a command in the working folder."""
    outcome = RUNNER.invoke(main, line.split(), input=data)
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    return outcome


def scores(outcome: Result) -> list[float]:
    """The scores of a report in JSON on standard output."""
    assert outcome.exit_code == 0, outcome.stderr
    return [case["results"][0]["score"] for case in json.loads(outcome.stdout)["cases"]]


@pytest.mark.parametrize(("kind", "data"), [*RECORDINGS.items(), *ANSWERS.items()], ids=[*RECORDINGS, *ANSWERS])
def test_every_command_reads_every_recording(folder: Path, kind: str, data: bytes) -> None:
    """The same run in each; a golden cannot be made, or found, without the question."""
    (folder / "file").write_bytes(data)
    (folder / "file.gz").write_bytes(gzip.compress(data))

    for source in ("file", "file.gz", "-") if kind.endswith("one a line") else ("file",):
        assert scores(run(f"score {source} --metric tool-efficiency --json -", data)) == [1]
    converted = run("convert file --to -")
    assert (converted.exit_code, "wrote 1 case with 1 call to" in converted.stderr) == (0, True)
    assert "in 1 case" in run("lint file").stderr
    assert "error: no case has 'x', the label" in run("validate file --label x").stderr
    refused = {"score case --goldens file": "file has calls that were made, not goldens; `toolgrade approve file"}
    refused |= {"lint golden --tools file": "file: no case says which tools were available; give a JSON list of them"}
    refused |= {"report file": "expected a report", "compare file file": "expected a report"}
    joined, approved = run("score file --goldens golden --json -"), run("approve file --out new")
    if kind in ANSWERS:
        assert "no case has a golden in golden" in joined.stderr
        assert "the input of the case must be text, which a golden needs" in approved.stderr
    else:
        assert scores(joined) == [1]
        assert approved.exit_code == 0
        assert scores(run("score case --goldens new --json -")) == [1]
    for line, message in refused.items():
        outcome = run(line)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert message in outcome.stderr


@pytest.mark.parametrize("kind", ["lines", "report"])
def test_results_are_shown_and_compared_only(folder: Path, kind: str) -> None:
    """Other commands say so."""
    if kind == "lines":
        run("score case --metric tool-efficiency --results file")
    else:
        (folder / "file").write_text(REPORT.to_json())
    data = (folder / "file").read_bytes()

    assert run("report file").exit_code == run("report -", gzip.compress(data)).exit_code == 0
    assert run("compare file -", data).exit_code == 0
    for line in ("score file", "convert file --to -", "approve file --out new", "validate file --label x"):
        outcome = run(line)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "has results that are scored already; show them with `toolgrade report`" in outcome.stderr
    assert "has results that are scored already" in run("lint file").stdout
    assert "has results that are scored already" in run("lint golden --tools file").stderr
    assert "file has results, not goldens; name the file that says" in run("score case --goldens file").stderr


@pytest.mark.parametrize("data", [GOLDEN, pretty(json.loads(GOLDEN)), pretty([json.loads(GOLDEN)]), GOLDEN * 50])
def test_goldens_are_expectations_and_no_runs(folder: Path, data: bytes) -> None:
    """They are checked and joined, and cannot be scored or approved, however many there are."""
    (folder / "file").write_bytes(data)

    assert run("lint file").exit_code == 0
    assert "file has goldens, which have expected calls and no calls that were made" in run("score file").stderr
    assert "the case has no tools_called" in run("approve file --out new").stderr
    if data != GOLDEN * 50:
        assert scores(run("score case --goldens file --json -")) == [1]


@pytest.mark.parametrize(
    "data",
    [
        pretty([{"name": "add", "parameters": {}}]),
        pretty([{"name": "add"}]),
        pretty({"tools": [{"type": "function", "function": {"name": "add"}}]}),
        lines({**CASE, "available_tools": [{"name": "add"}]}, CASE),
        lines({"query": "x", "available_tools": [{"name": "add"}]}),
        lines({"messages": CHAT, "tools": [{"type": "function", "function": {"name": "add"}}]}),
    ],
    ids=["tools", "names", "object", "cases", "records", "messages"],
)
def test_tools_are_those_of_a_list_or_of_cases(folder: Path, data: bytes) -> None:
    """Of the first case that has each."""
    (folder / "file").write_bytes(data)
    (folder / "wrong").write_bytes(lines({"input": "Q1", "expected_tools": [{"name": "sub"}]}))

    assert run("lint golden --tools file").exit_code == run("lint golden --tools -", data).exit_code == 0
    assert "which is not available; there are 'add'" in run("lint wrong --tools file").stdout


@pytest.mark.parametrize("data", [lines({"input": "Q1", "output": "x"}), lines({"prompt": "Q1", "response": "x"})])
def test_texts_alone_are_not_an_answer_without_calls(folder: Path, data: bytes) -> None:
    """A row of a data set says nothing about calls."""
    (folder / "file").write_bytes(data)

    assert "unknown field" in run("score file --metric tool-success-rate").stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    ("line", "data"),
    [
        ("score pipe --goldens golden", lines(CHAT)),
        ("score case --goldens pipe", GOLDEN),
        ("convert pipe --to new", lines(CHAT)),
        ("approve pipe --out new", lines(CHAT)),
        ("lint pipe", GOLDEN),
        ("lint golden --tools pipe", pretty([{"name": "add"}])),
        ("lint golden --tools pipe", lines({**CASE, "available_tools": [{"name": "add"}]})),
        ("report pipe", REPORT.to_json().encode()),
    ],
)
def test_pipes_are_read_once(folder: Path, line: str, data: bytes) -> None:
    """As the shell makes them for `<(command)`."""
    os.mkfifo(folder / "pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((folder / "pipe").write_bytes, data)
        assert run(line).exit_code == 0
