"""`toolgrade lint`: what it reads, what it shows, and the exit code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, ROOT, assert_golden, run_python
from toolgrade import Golden, write_cases
from toolgrade.cli.main import main
from toolgrade.linting import lint

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
SHARED = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared") / "data"

TOOLS = [
    {
        "name": "book",
        "parameters": {
            "properties": {"city": {"type": "string"}, "seats": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    {"name": "look_up"},
]
LINES: list[Any] = [
    {"id": "a", "input": "x", "expected_tools": [{"name": "look_up"}]},
    {"id": "a", "input": "x", "expected_tools": [{"name": "lookup"}, {"name": "book", "args": {"seats": "two"}}]},
    {"id": "b", "input": "x", "expected_tools": {"plan": [{"expect": "book", "optionl": True}, {"forbd": "x"}]}},
    {
        "id": "c",
        "input": "x",
        "expectedTools": [
            {"expect": "book", "input_parameters": {"city": {"$is": "any_of", "values": ["Rome", 5]}}},
            {"forbid": {"$is": "glob", "pattern": "b*"}},
        ],
    },
    {"input": "x", "expected_tools": [{"name": "look_up", "args": {"city": {"$is": "ignore"}}}]},
    {"input": "x", "expected_tools": [{"expect": "look_up", "optional": True}]},
    {"input": "x"},
]


def folder_of(folder: Path, *lines: Any, tools: Any = TOOLS) -> Path:
    """A folder with a file of cases and one of tools."""
    (folder / "goldens.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    return folder


def run(folder: Path, *options: str, stdin: bytes | None = None) -> Result:
    """The outcome of the command inside this process."""
    file = "-" if stdin is not None else str(folder / "goldens.jsonl")
    return RUNNER.invoke(main, ["lint", file, *options], input=stdin)


def test_table_of_findings(tmp_path: Path) -> None:
    """A line for each finding in file order, and the number of checked goldens."""
    folder_of(tmp_path, *LINES)
    done = run_python([*COMMAND, "lint", "goldens.jsonl", "--tools", "tools.json"], tmp_path)

    assert done.code == 1
    assert_golden("cli-lint.txt", done.out)
    assert done.err == "10 findings in 7 cases; 1 without expected_tools\n"


def test_the_command_is_the_function(tmp_path: Path) -> None:
    """JSON is the report of the library; standard input is read."""
    folder_of(tmp_path, *LINES)
    tools = f"--tools={tmp_path / 'tools.json'}"
    done = run(tmp_path, tools, "--json=-")
    piped = run(tmp_path, tools, stdin=(tmp_path / "goldens.jsonl").read_bytes())
    report = lint(tmp_path / "goldens.jsonl", TOOLS)

    assert json.loads(done.stdout) == report.to_dict()
    assert piped.stdout == "\n".join(report.lines()).replace(str(tmp_path / "goldens.jsonl"), "<stdin>") + "\n"


@pytest.mark.parametrize(
    ("lines", "options", "code", "message"),
    [
        (LINES[:1], [], 0, "0 findings in 1 case; 1 without available tools"),
        (LINES[:2], [], 1, "1 finding in 2 cases"),
        ([], [], 2, ""),
        (LINES, ["--tools", "{folder}/none.json"], 2, "cannot read"),
        (LINES, ["--tools", "{folder}/goldens.jsonl"], 2, "nothing was checked"),
    ],
)
def test_exit_codes(tmp_path: Path, lines: list[Any], options: list[str], code: int, message: str) -> None:
    """0 if nothing was found, 1 if something was, 2 if there is nothing to read or the command line is wrong."""
    folder_of(tmp_path, *lines)
    done = run(tmp_path, *(option.replace("{folder}", str(tmp_path)) for option in options))

    assert done.exit_code == code, done.output
    assert message in done.stderr


def test_missing_files_are_named(tmp_path: Path) -> None:
    """Standard input can be used for only one of the two."""
    assert "goldens.jsonl: No such file" in run(tmp_path).stderr
    assert run(tmp_path).exit_code == 2
    assert "not both" in run(tmp_path, "--tools=-", stdin=b"").stderr


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    """Names of tools, arguments and labels are third-party text."""
    hostile = "\x1b[31m\x07\u202e\nx"
    case = {"id": hostile, "input": "x", "expected_tools": [{"name": hostile}, {"name": "book", "args": {hostile: 1}}]}
    done = run(folder_of(tmp_path, case, case), f"--tools={tmp_path / 'tools.json'}")

    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 7
    assert not FORBIDDEN.search(done.stdout)


@pytest.mark.any_version
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here; set TOOLGRADE_SHARED to their folder")
def test_the_shared_data() -> None:
    """Recorded runs of an airline's agent have one finding: a flight that none of the runs of its task came across."""
    assert [finding.kind.value for finding in lint(SHARED / "tau-airline" / "runs.jsonl")] == ["untraced"]


def test_goldens_that_were_written_are_clean(tmp_path: Path) -> None:
    """What the library writes, it reads."""
    golden = Golden(input="x", expected_tools=[{"name": "look_up"}], available_tools=TOOLS)  # type: ignore[list-item]
    write_cases(tmp_path / "goldens.jsonl", [golden])

    assert run(tmp_path).exit_code == 0


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    """The finding is about the whole file, at no place in it."""
    path = tmp_path / "goldens.csv"
    path.write_bytes(b"id,input\n1,2\n")
    done = RUNNER.invoke(main, ["lint", str(path)])

    assert done.exit_code == 2
    assert done.stdout == f"{path} looks like CSV; write each row as a JSON object on a line of its own [unreadable]\n"
