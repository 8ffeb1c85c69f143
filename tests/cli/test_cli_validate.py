"""`toolgrade validate`: what it reads, what it shows, and the exit code."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, assert_golden, run_python
from toolgrade import ToolCorrectnessMetric, read_cases, validate
from toolgrade.cli.main import main

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
HOSTILE = "[red]x[/red] \x1b[31m\x07\u202e"


def case(number: int, called: str, reward: Any, **more: Any) -> dict[str, Any]:
    """Return a case that expects `look` and `book`, as in a file."""
    tools = [{"name": name} for name in called.split()]
    expected = [{"name": "look"}, {"name": "book"}]
    metadata = {"reward": reward, "task": number // 2}
    return {"id": f"run {number}", "tools_called": tools, "expected_tools": expected, "metadata": metadata, **more}


def lines(*cases: Any) -> bytes:
    """A file of cases."""
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in cases)


CASES = [
    case(0, "look book", 1),
    case(1, "look book", 1),
    case(2, "look", 0),
    case(3, "look look", 0),
    case(4, "look book", 0),
    case(5, "look", 1),
    case(6, "", 0),
    case(7, "look book book", 1),
]
LACKING = [
    case(8, "look", None),
    {**case(9, "look", 1), "tools_called": None},
    {**case(10, "look", 0), "metadata": {"reward": 0}},
]


def run(data: bytes, *options: str) -> Result:
    """The outcome of the command on standard input, inside this process."""
    return RUNNER.invoke(main, ["validate", "-", *options], input=data)


def test_table_of_a_validation(tmp_path: Path) -> None:
    """A line for each metric, and all omissions."""
    (tmp_path / "runs.jsonl").write_bytes(lines(*CASES, *LACKING))
    options = "--label metadata.reward --cluster metadata.task --metric tool-correctness --metric tool-efficiency"
    done = run_python([*COMMAND, "validate", "runs.jsonl", *options.split()], tmp_path)

    assert done.err == ""
    assert done.code == 0
    assert_golden("cli-validate.txt", done.out)


def test_table_without_clusters(tmp_path: Path) -> None:
    """One-sided labels give no AUC."""
    (tmp_path / "runs.jsonl").write_bytes(lines(*CASES[:2], *LACKING[1:2]))
    done = run_python([*COMMAND, "validate", "runs.jsonl", "--label=metadata.reward"], tmp_path)

    assert (done.code, done.err) == (1, "")
    assert_golden("cli-validate-one-kind.txt", done.out)


def test_the_command_is_the_function() -> None:
    """All options of the command line reach the library, those of the metrics among them."""
    options = "--label=metadata.reward --threshold-label=0.5 --cluster=metadata.task"
    metrics = "--metric=tool-correctness --params=input --denominator=f1 --threshold=0.6 --strict"
    done = run(lines(*CASES), *options.split(), *metrics.split(), "--json=-")
    metric = ToolCorrectnessMetric(
        evaluation_params=["input_parameters"], denominator="f1", threshold=0.6, strict_mode=True
    )
    expected = validate(
        read_cases(io.BytesIO(lines(*CASES))),
        [metric],
        label="metadata.reward",
        positive_from=0.5,
        cluster="metadata.task",
    )

    assert done.exit_code == 0
    assert json.loads(done.stdout) == expected.to_dict()


@pytest.mark.parametrize(
    ("data", "options", "code", "message"),
    [
        (lines(*CASES), ["--label", "metadata.reward"], 0, ""),
        (lines(*CASES[:2]), ["--label", "metadata.reward"], 1, ""),
        (lines(*CASES), ["--label", "metadata.reward", "--metric", "tool-recovery"], 1, ""),
        (lines(*CASES), [], 2, "Missing option '--label'"),
        (lines(*CASES), ["--label", "reward"], 2, "did you mean 'metadata.reward'?"),
        (lines(*CASES), ["--label", "id"], 2, "run 0: id: expected a number, true or false, got 'run 0'"),
        (lines(*CASES), ["--label", "metadata.reward", "--cluster", "task"], 2, "did you mean 'metadata.task'?"),
        (lines(*CASES), ["--label", "metadata.reward", "--threshold-label", "nan"], 2, "nan is not a finite number"),
        (lines(*CASES), ["--label", "metadata.reward", "--threshold-label", "1e999"], 2, "inf is not a finite number"),
        (lines(*CASES), ["--label", "metadata.reward", "--threshold-label", "1e300"], 1, ""),
        (lines(*CASES), ["--label", "metadata.reward", "--ordered", "--exact"], 2, "cannot be combined"),
        (b"{\n[", ["--label", "metadata.reward"], 2, "error: <stdin>: $: not JSON"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes(data: bytes, options: list[str], code: int, message: str) -> None:
    """0 if every metric has an area, 1 if one has none, 2 if the command line or the file is wrong."""
    done = run(data, *options)

    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert (done.stderr == "") == (code != 2)


def test_bad_lines_are_named() -> None:
    """They are left out, and the exit code says so."""
    done = run(lines(*CASES) + b'{"id": "to', "--label", "metadata.reward")

    assert done.stderr.splitlines() == [
        "warning: <stdin>:9: $: a torn line: its writer stopped before its end",
        "warning: 1 line cannot be read; each was left out",
    ]
    assert (done.exit_code, "8 cases" in done.stdout) == (1, True)


def test_hostile_names_are_escaped() -> None:
    """Of cases, paths, metrics, and reasons."""
    cases = [
        {**entry, "id": f"{HOSTILE} {number}", "metadata": {HOSTILE: entry["metadata"]["reward"]}}
        for number, entry in enumerate([*CASES, *LACKING[:2]])
    ]
    refused = run(lines(*cases), f"--label={HOSTILE}s")
    accepted = run(lines(*cases), f"--label=metadata.{HOSTILE}", f"--cluster=metadata.{HOSTILE}")

    assert (refused.exit_code, accepted.exit_code) == (2, 0)
    assert not FORBIDDEN.search(refused.output + accepted.output)
    assert "10 cases by metadata.[red]x[/red] \\x1b[31m" in accepted.output
