"""Protection of input files and of other outputs from being overwritten."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.cli.main import main

CASE = LLMTestCase(id="1", input="Look.", tools_called=[ToolCall(name="look")], expected_tools=[ToolCall(name="look")])
CALLS = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]

READ_AND_WRITTEN = [
    "score cases --html cases",
    "score cases --md cases",
    "score cases --junit cases",
    "score --json cases cases",
    "score cases --results cases",
    "score cases --resume --results cases",
    "score other cases --json ./cases",
    "score cases --html link",
    "report results --html results",
    "report results --json link-to-results",
    "compare results new-results --json results",
    "compare results new-results --json new-results",
    "convert messages --to messages",
    "approve cases --out cases",
    "lint cases --json cases",
    "lint cases --tools tools --json tools",
    "validate cases --label ok --json cases",
    "validate cases --label ok --metric tool-use --judge m --cache cases",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of every kind that a command reads, and links to two of them."""
    lines = CASE.to_json() + "\n"
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": CALLS}]
    results = evaluate([CASE], [ToolCorrectnessMetric()], show_progress=False).to_json()
    texts = {"cases": lines, "other": lines, "messages": json.dumps(messages), "tools": json.dumps([{"name": "look"}])}
    for name, text in {**texts, "results": results, "new-results": results}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "link").symlink_to("cases")
    os.link(tmp_path / "results", tmp_path / "link-to-results")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> Result:
    """Run a command in the current folder."""
    return RUNNER.invoke(main, line.split())


@pytest.mark.parametrize("line", READ_AND_WRITTEN)
def test_inputs_are_not_overwritten(folder: Path, line: str) -> None:
    """The program ends before it reads or writes anything, and names the file."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = run(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is also an input and would be overwritten; name another file" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_no_file_is_written_twice(folder: Path) -> None:
    """Two reports in one file would be one; a device takes both."""
    for second in ("a.html", "./a.html", str(folder / "a.html")):
        done = run(f"score cases --html a.html --md {second}")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"error: {second} would be written twice; name another file\n"
    assert not (folder / "a.html").exists()
    assert run(f"score cases --html {os.devnull} --md {os.devnull}").exit_code == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("line", ["approve cases --out", "convert messages --to", "lint cases --json"])
def test_pipes_are_written_in_place(folder: Path, line: str) -> None:
    """They are not replaced by a file, as devices are not."""
    os.mkfifo(folder / "pipe")
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit((folder / "pipe").read_bytes)
        assert run(f"{line} pipe").exit_code == 0
        assert json.loads(content.result(60))
    assert (folder / "pipe").is_fifo()


def test_one_file_may_be_read_twice(folder: Path) -> None:
    """Two that are only read may be one."""
    assert run("compare results link-to-results --json new").exit_code == 0
    assert (folder / "new").exists()


def test_dash_is_a_file_name_without_streams(folder: Path) -> None:
    """`approve` writes no goldens to standard output."""
    (folder / "-").write_text(CASE.to_json() + "\n", encoding="utf-8")
    assert run("approve ./- --out -").exit_code == 2
    assert run("lint ./- --json -").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_missing_input_is_reported_when_opened() -> None:
    """The message is about reading, not about overwriting."""
    done = run("lint missing --json cases")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: cannot read missing: ")


@pytest.mark.parametrize("option", ["score cases --html", "convert messages --to", "lint cases --json"])
def test_invalid_target_is_reported_first(folder: Path, option: str) -> None:
    """Before anything is read: a folder, or a file in a missing folder."""
    (folder / "cases").write_text("no case", encoding="utf-8")
    for target, says in (("folder", "it is a folder"), ("none/x", "there is no folder none")):
        done = run(f"{option} {target}")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"error: cannot write {target}: {says}\n"
