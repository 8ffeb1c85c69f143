"""`toolgrade feedback`: from traces to scores and back to the traces, by commands alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.cli.main import main
from toolgrade.compat.pydantic_evals import ArgumentCorrectness
from toolgrade.formats import read_traces
from toolgrade.report import Report
from toolgrade.report.feedback import (
    evaluation_events,
    evaluation_spans,
    langfuse_scores,
    langsmith_feedback,
    phoenix_annotations,
)
from tracing import Script, ScriptedCall, Step, langsmith, otlp

SCRIPT = Script(
    "Go.", [Step("boss", [ScriptedCall("add", "c1", {"a": 1}, "3")]), Step("boss", [], "Done \x7f \u2028 é.")]
)
FORMS = {
    "otel-events": evaluation_events,
    "openinference": evaluation_spans,
    "langsmith": langsmith_feedback,
    "langfuse": langfuse_scores,
    "phoenix": phoenix_annotations,
}


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """What `toolgrade` does, inside this process."""
    return RUNNER.invoke(main, [str(argument) for argument in arguments], input=stdin)


def scored(path: Path, run_id: str = SCRIPT.trace) -> Report:
    """A file of results of the case of a trace: one score, one skipped."""
    (run_read,) = read_traces(otlp(SCRIPT)).runs
    case = run_read.model_copy(update={"run_id": run_id}).to_test_case(expected_tools=[ToolCall(name="pay\x7fé")])
    return evaluate([case], [ToolCorrectnessMetric(), ArgumentCorrectness("x")], results=path, show_progress=False)


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    scored(path)
    return path


def timeless(value: Any) -> Any:
    """JSON without the moment of its making."""
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if not key.endswith("UnixNano")}
    return value


@pytest.mark.parametrize("form", FORMS)
def test_commands_and_library_write_the_same(tmp_path: Path, results: Path, form: str) -> None:
    """In a file or on standard output, in ASCII; from a file or standard input, compressed or not."""
    expected = timeless(FORMS[form](scored(tmp_path / "again.jsonl")))
    target = tmp_path / "out.json"
    done = run("feedback", results, "--as", form, "--out", target)
    piped = run("feedback", "-", "--as", form, "--out", "-", stdin=gzip.compress(results.read_bytes()))

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"wrote {target}: 1 score; 1 skipped, left out\n"
    assert timeless(json.loads(target.read_text(encoding="utf-8"))) == expected
    assert (piped.exit_code, piped.stderr) == (0, "")
    assert timeless(json.loads(piped.stdout)) == expected
    assert piped.stdout.isascii()
    assert "\x7f" not in piped.stdout


def test_from_traces_to_feedback_by_commands(tmp_path: Path) -> None:
    """Convert, add expectations, score, send feedback: the trace's span is preserved."""
    trace, cases, results, out = (tmp_path / name for name in ("t.json", "cases.jsonl", "r.jsonl", "f.json"))
    trace.write_text(json.dumps(langsmith(SCRIPT)), encoding="utf-8")
    assert run("convert", trace, "--to", cases).exit_code == 0
    (line,) = cases.read_bytes().splitlines()
    cases.write_text(json.dumps({**json.loads(line), "expected_tools": [{"name": "add"}]}), encoding="utf-8")
    assert run("score", cases, "--results", results).exit_code == 0

    assert run("feedback", results, "--as", "langsmith", "--out", out).exit_code == 0

    (case,) = json.loads(out.read_text(encoding="utf-8"))
    (one,) = read_traces(langsmith(SCRIPT)).runs
    assert (case["run_id"], case["trace_id"]) == (one.metadata["span_id"], one.run_id)
    assert (case["score"], case["value"]) == (1.0, "pass")


def test_trace_names_are_escaped(tmp_path: Path) -> None:
    """Names of traces come from third-party files."""
    named = "trace\x7f\x1b[2Jé"
    scored(tmp_path / "r.jsonl", named)
    done = run("feedback", tmp_path / "r.jsonl", "--as", "langfuse", "--out", "-")

    assert json.loads(done.stdout)[0]["traceId"] == named
    assert done.stdout.isascii()
    assert not {"\x7f", "\x1b"} & set(done.stdout)


def test_unmeasured_cases_are_reported(tmp_path: Path) -> None:
    """As an error in events, and left out elsewhere; never as a score of 0."""
    results = tmp_path / "r.jsonl"
    (read_run,) = read_traces(otlp(SCRIPT)).runs
    evaluate([read_run.to_test_case()], [ToolCorrectnessMetric()], results=results, show_progress=False)
    out = tmp_path / "f.json"

    messages = {form: run("feedback", results, "--as", form, "--out", out).stderr for form in FORMS}

    assert messages.pop("otel-events") == f"wrote {out}: 0 scores; 1 not measured, as errors\n"
    assert set(messages.values()) == {f"wrote {out}: 0 scores; 1 not measured, left out\n"}
    assert json.loads(out.read_text(encoding="utf-8")) == {"data": []}


def test_incomplete_evaluation_is_reported(tmp_path: Path, results: Path) -> None:
    """Its scores are written."""
    header, *_ = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(header)
    done = run("feedback", results, "--as", "langfuse", "--out", tmp_path / "f.json")
    assert done.stderr.endswith("0 scores; the evaluation is incomplete\n")


def test_invalid_input_exits_with_2_and_writes_nothing(tmp_path: Path, results: Path) -> None:
    """A case without a trace, invalid ids, no results, an unknown form, an invalid path."""
    out = tmp_path / "f.json"
    out.write_text("before", encoding="utf-8")
    plain, other = tmp_path / "plain.json", tmp_path / "other.jsonl"
    plain.write_text(scored(tmp_path / "x.jsonl").to_json(), encoding="utf-8")
    scored(other, "trace_of_another_kind")
    rows = [
        (plain, "langsmith", "names no trace"),
        (other, "otel-events", "whose ids are not OpenTelemetry ids"),
        (tmp_path / "none.jsonl", "langfuse", "cannot read"),
        (results, "mail", "Invalid value for '--as'"),
    ]
    for source, form, says in rows:
        done = run("feedback", source, "--as", form, "--out", out)
        assert (done.exit_code, done.stdout) == (2, "")
        assert says in done.stderr
        assert out.read_text(encoding="utf-8") == "before"
    assert run("feedback", results, "--as", "langfuse", "--out", tmp_path / "no" / "f.json").exit_code == 2
    assert run("feedback", results, "--as", "langfuse").exit_code == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_results_are_not_overwritten(tmp_path: Path, results: Path) -> None:
    """Under any name of the file."""
    link, before = tmp_path / "link.jsonl", results.read_bytes()
    link.symlink_to(results)
    for target in (results, link, tmp_path / "." / results.name):
        done = run("feedback", results, "--as", "langfuse", "--out", target)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "is also an input and would be overwritten; name another file" in done.stderr
    assert results.read_bytes() == before


def test_files_named_like_standard_streams_are_files(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if their names equal the stream names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("mine", encoding="utf-8")

    done = run("feedback", "-", "--as", "langfuse", "--out", "-", stdin=results.read_bytes())

    assert (done.exit_code, done.stderr) == (0, "")
    assert (tmp_path / "-").read_text(encoding="utf-8") == "mine"


def test_a_command_line_that_contradicts_itself_ends_with_2(tmp_path: Path, results: Path) -> None:
    """Only one target is allowed, and only OpenTelemetry forms are sent."""
    out = tmp_path / "f.json"
    rows = [
        (["--as", "otel-events"], "Missing option '--out' or '--send'"),
        (["--as", "otel-events", "--send", "--out", out], "--send and --out cannot be combined"),
        (["--as", "langfuse", "--send"], "--send takes --as otel-events or openinference; write langfuse with --out"),
    ]
    for options, says in rows:
        done = run("feedback", results, *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert says in done.stderr
    assert not out.exists()
