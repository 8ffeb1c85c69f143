"""`toolgrade score` of recorded messages and traces, of folders, and with goldens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade.cli.main import main
from tracing import Script, ScriptedCall, Step, otlp

SCRIPT = Script("Q1", [Step("boss", [ScriptedCall("add", "c1", {"a": 1}, "3")]), Step("boss", [], "Done.")])


def chat(question: str, tool: str = "add", **fields: Any) -> dict[str, Any]:
    """A recorded conversation with one call."""
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "Done."},
    ]
    return {"messages": messages, **fields}


def lines(*values: Any) -> bytes:
    """A file of JSON Lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def golden(number: int, tool: str = "add", **fields: Any) -> dict[str, Any]:
    """A golden of the question Q1, Q2 and so on."""
    return {"input": f"Q{number}", "expected_tools": [{"name": tool}], **fields}


GOLDENS = [golden(1, id="g1"), golden(2, "sub", id="g2")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file of goldens."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "goldens.jsonl").write_bytes(lines(*GOLDENS))
    return tmp_path


def score(*arguments: str, data: bytes | None = None) -> tuple[Result, list[tuple[str | None, float | None]]]:
    """The outcome of `toolgrade score`, and the id or the name and the score of each case."""
    report = Path("report.json")
    report.unlink(missing_ok=True)
    outcome = RUNNER.invoke(main, ["score", *arguments, "--json", "report.json"], input=data)
    cases = json.loads(report.read_text())["cases"] if report.exists() else []
    return outcome, [(case.get("id") or case.get("name"), case["results"][0].get("score")) for case in cases]


EXPECTING = {"expected_tools": [{"name": "add"}]}
TWO = [chat("Q1", **EXPECTING, id="a"), chat("Q2", "sub", **EXPECTING, id="b")]


@pytest.mark.parametrize(
    "data", [lines(*TWO), json.dumps(TWO).encode(), gzip.compress(lines(*TWO))], ids=["lines", "list", "packed"]
)
@pytest.mark.parametrize("source", ["file", "-"])
def test_logs_are_scored_by_the_expectations_of_their_lines(data: bytes, source: str) -> None:
    """From a file and from standard input, as if they had been converted."""
    Path("file").write_bytes(data)
    outcome, cases = score(source, data=data)

    assert (outcome.exit_code, cases) == (1, [("a", 1), ("b", 0)])


def test_goldens_are_joined_by_id_name_and_input() -> None:
    """The case keeps an id of its own and gets that of the golden otherwise, as a case of a trace does."""
    Path("by-id").write_bytes(lines(chat("other", id="g1"), chat("other", name="g2")))
    Path("by-input").write_bytes(lines(chat("Q1"), chat("Q2", id="mine")))
    Path("trace").write_text(json.dumps(otlp(SCRIPT)))

    assert score("by-id", "--goldens", "goldens.jsonl")[1] == [("g1", 1), ("g2", 0)]
    assert score("by-input", "--goldens", "goldens.jsonl")[1] == [("g1", 1), ("mine", 0)]
    outcome, cases = score("trace", "--goldens", "goldens.jsonl")
    assert cases == [("g1", 1)]
    assert "warning: 1 golden of goldens.jsonl without a case: g2" in outcome.stderr


def test_goldens_are_joined_by_a_field() -> None:
    """Of the metadata, for example; the input does not count then."""
    Path("log").write_bytes(lines(chat("Q1", metadata={"task": "g2"}), chat("Q1", id="x")))
    outcome, cases = score("log", "--goldens", "goldens.jsonl", "--golden-id", "metadata.task")

    assert cases == [("g2", 0), ("x", None)]
    assert "warning: 1 case without a golden in goldens.jsonl: x" in outcome.stderr
    assert score("log", "--golden-id", "metadata.task")[0].exit_code == 2


def test_an_ambiguous_input_is_an_error() -> None:
    """Two goldens of one input are told apart by their ids alone; the error names them."""
    Path("two.jsonl").write_bytes(lines(golden(1, id="a"), golden(1, "sub", id="b")))
    Path("log").write_bytes(lines(chat("Q1", id="b"), chat("Q1")))
    outcome, cases = score("log", "--goldens", "two.jsonl")

    assert cases == [("b", 0), ("line 2", None)]
    assert "case line 2: its golden is ambiguous: 'a', 'b' of two.jsonl have its input; give the case" in outcome.stderr


@pytest.mark.parametrize(
    ("goldens", "message"),
    [
        (lines(golden(1, output="3")), "$.output: unknown field 'output'"),
        (lines(golden(7)), "no case has a golden in two.jsonl, by id, name or input; name the field"),
        (lines(golden(7, id="")), "no case has a golden in two.jsonl, by id, name or input; name the field"),
        (lines(golden(1, id="a"), golden(2, id="a")), "two.jsonl has several goldens with one id: 'a'"),
        (lines({"id": "a"}), "two.jsonl:1: $: a golden must have exactly one of input, turns, user"),
    ],
)
def test_goldens_that_cannot_be_joined_stop_the_command(goldens: bytes, message: str) -> None:
    """Before anything is scored."""
    Path("two.jsonl").write_bytes(goldens)
    Path("log").write_bytes(lines(chat("Q1")))
    outcome, cases = score("log", "--goldens", "two.jsonl")

    assert (outcome.exit_code, cases) == (2, [])
    assert message in outcome.stderr


def test_several_files_and_folders_are_one_report(folder: Path) -> None:
    """Cases and logs together; a case without a name has that of its file."""
    (folder / "logs" / "deep").mkdir(parents=True)
    (folder / "logs" / ".hidden").mkdir()
    (folder / "logs" / "a.jsonl").write_bytes(lines(chat("Q1", **EXPECTING), chat("Q2", **EXPECTING, id="b")))
    (folder / "logs" / "deep" / "b.json.gz").write_bytes(gzip.compress(json.dumps(chat("Q3", **EXPECTING)).encode()))
    (folder / "logs" / "notes.txt").write_text("not read")
    (folder / "logs" / ".hidden" / "c.jsonl").write_text("not read")
    (folder / "cases").write_bytes(lines({"tools_called": [], "expected_tools": []}))
    outcome, cases = score("logs", "cases")

    assert outcome.exit_code == 0
    first, third = str(Path("logs/a.jsonl")), str(Path("logs/deep/b.json.gz"))
    assert cases == [(f"{first} line 1", 1), ("b", 1), (f"{third} line 1", 1), ("cases line 1", 1)]
    assert "3 files: 4 cases" in outcome.stdout


def test_a_file_that_cannot_be_unpacked_is_not_left_out(folder: Path) -> None:
    """Its cases are not known, so the folder is not green."""
    (folder / "logs").mkdir()
    (folder / "logs" / "a.jsonl").write_bytes(lines(chat("Q1", **EXPECTING)))
    (folder / "logs" / "b.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    outcome, _ = score("logs")

    assert outcome.exit_code == 1
    assert "b.jsonl.zst is zstd data, which cannot be read here" in outcome.stderr


def test_missing_expectations_name_the_option() -> None:
    """The last line says how to give them."""
    Path("log").write_bytes(lines(chat("Q1")))
    outcome, _ = score("log")

    assert outcome.exit_code == 1
    assert outcome.stderr.rstrip().endswith("give expectations with --goldens FILE")
