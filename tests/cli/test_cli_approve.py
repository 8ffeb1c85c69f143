"""`toolgrade approve`: which cases become goldens, without secrets, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import Result

from command_runner import RUNNER
from toolgrade import Golden, LLMTestCase, Run, ToolCall, ToolCorrectnessMetric, evaluate, write_cases
from toolgrade.cases import RunStatus
from toolgrade.cli.main import main

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
GOOD = Run(
    input=f"Log in with {SECRET}.",
    run_id="r1",
    calls=[
        ToolCall(name="login", input_parameters={"password": "hunter2", "user": "ann"}, output={"ok": True}, id="c1"),
        ToolCall(name="read"),
    ],
    tags=["smoke"],
)


def approve(folder: Path, *cases: LLMTestCase) -> tuple[Result, list[dict[str, Any]] | None]:
    """Return the command's output for these cases and the goldens it wrote."""
    write_cases(folder / "runs.jsonl", cases)
    out = folder / "goldens.jsonl"
    done = RUNNER.invoke(main, ["approve", str(folder / "runs.jsonl"), "--out", str(out)])
    return done, [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else None


def test_called_tools_become_expected_tools(tmp_path: Path) -> None:
    """Names and arguments, without answers, ids and secrets; earlier expectations are ignored."""
    done, goldens = approve(tmp_path, GOOD.to_test_case(id="r1", expected_tools=[ToolCall(name="other")]))

    assert done.exit_code == 0
    assert "1 golden written" in done.stderr
    assert goldens == [
        {
            "input": "Log in with [redacted by toolgrade].",
            "id": "r1",
            "expected_tools": [
                {"name": "login", "input_parameters": {"password": "[redacted by toolgrade]", "user": "ann"}},
                {"name": "read", "input_parameters": {}},
            ],
            "tags": ["smoke"],
        }
    ]


def test_broken_arguments_are_left_out(tmp_path: Path) -> None:
    """A golden cannot expect text that is not a JSON object, so any arguments will do."""
    execution = {"status": "invalid_arguments", "requested_parameters": "{a: "}
    _, goldens = approve(tmp_path, LLMTestCase(input="x", tools_called=[ToolCall(name="f", execution=execution)]))

    assert [golden["expected_tools"] for golden in goldens or []] == [[{"name": "f"}]]


def test_the_run_itself_passes_its_golden(tmp_path: Path) -> None:
    """And another argument does not."""
    _, goldens = approve(tmp_path, GOOD.to_test_case(id="r1"))
    golden = Golden.model_validate((goldens or [])[0])
    other = GOOD.model_copy(update={"calls": [ToolCall(name="login", input_parameters={"user": "bob"}), GOOD.calls[1]]})
    report = evaluate(
        [run.to_test_case(expected_tools=golden.expected_tools) for run in (GOOD, other)],
        [ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_exact_match=True)],
    )

    assert [result.score for _, result in report.results()] == [1, 0]


def test_unusable_cases_are_left_out_and_reported(tmp_path: Path) -> None:
    """Broken runs and cases without input or calls are named, with an exit code."""
    broken = GOOD.model_copy(update={"status": RunStatus.ERROR, "error": "ValueError: lost", "run_id": "r2"})
    done, goldens = approve(
        tmp_path,
        GOOD.to_test_case(id="r1"),
        broken.to_test_case(id="r2"),
        LLMTestCase(tools_called=[]),
        LLMTestCase(name="silent", input="x"),
        LLMTestCase(id="none", input="x", tools_called=[]),
    )

    assert done.exit_code == 1
    assert [golden["id"] for golden in goldens or []] == ["r1", "none"]
    assert (goldens or [])[1]["expected_tools"] == []
    assert done.stderr.splitlines() == [
        "left out r2: the run ended with an error, and is not approved (ValueError: lost)",
        "left out line 3: the input of the case must be text, which a golden needs",
        "left out silent: the case has no tools_called; set [] if nothing was called",
        f"2 goldens written to {tmp_path / 'goldens.jsonl'}",
    ]


def test_without_a_golden_nothing_is_written(tmp_path: Path) -> None:
    """An existing file stays unchanged."""
    (tmp_path / "goldens.jsonl").write_text('{"input": "kept"}\n', encoding="utf-8")
    done, goldens = approve(tmp_path, LLMTestCase(name="silent", input="x"))

    assert done.exit_code == 2
    assert "no case can be approved; nothing was written" in done.stderr
    assert goldens == [{"input": "kept"}]


def test_unwritable_file_is_reported(tmp_path: Path) -> None:
    """In one line, with its name."""
    write_cases(tmp_path / "runs.jsonl", [GOOD.to_test_case(id="r1")])
    done = RUNNER.invoke(main, ["approve", str(tmp_path / "runs.jsonl"), "--out", str(tmp_path / "no" / "x.jsonl")])

    assert done.exit_code == 2
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
