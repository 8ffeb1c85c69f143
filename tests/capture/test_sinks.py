"""Sinks of recorded runs; `test_torn_lines` has writers that are stopped."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolgrade import ToolCall, ToolCallParams, ToolCorrectnessMetric, ToolgradeWarning
from toolgrade.capture import JsonlSink, Sink
from toolgrade.cases import Run
from toolgrade.cli.main import main
from toolgrade.inputs import read_cases
from toolgrade.redact import OFF, REDACTED

SECRET = "hunter2"


def run_of(number: object, **fields: Any) -> Run:
    """A run with a call that holds a secret."""
    call = ToolCall(name="log_in", input_parameters={"user": "ann", "password": SECRET}, output={"ok": True})
    return Run(run_id=f"run-{number}", input="hi", calls=[call], **fields)


def ids(path: Path) -> list[str | None]:
    """The ids of all cases that a file holds; warnings are errors here."""
    return [case.id for case in read_cases(path)]


def in_threads(amount: int, work: Any) -> None:
    """Call `work` with 0, 1, 2, ... at the same time."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(amount)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_file_appears_with_the_first_run(tmp_path: Path) -> None:
    """Without a run there is no file; closing is always allowed."""
    path = tmp_path / "runs.jsonl"
    sink: Sink = JsonlSink(path)
    with JsonlSink(path) as other:
        other.close()
    assert not path.exists()

    sink.write(run_of(1))

    assert ids(path) == ["run-1"]


def test_a_line_is_the_run_as_a_case_without_its_secrets(tmp_path: Path) -> None:
    """Only set fields, fully redacted, and the run itself."""
    run = run_of(1, metadata={"token": SECRET, "n": float("nan")})
    with JsonlSink(tmp_path / "a.jsonl") as redacted, JsonlSink(tmp_path / "b.jsonl", redactor=OFF) as plain:
        redacted.write(run)
        plain.write(run)
    (case,), (original,) = read_cases(tmp_path / "a.jsonl"), read_cases(tmp_path / "b.jsonl")

    assert SECRET not in (tmp_path / "a.jsonl").read_text()
    assert case.run is not None
    assert case.tools_called == case.run.calls
    assert case.tools_called[0].arguments == {"user": "ann", "password": REDACTED}
    assert case.model_fields_set == {"id", "input", "tools_called", "metadata", "run"}
    assert original.tools_called == run.calls
    assert run.calls[0].arguments["password"] == SECRET


def test_run_with_hidden_arguments_can_be_scored(tmp_path: Path) -> None:
    """A hidden argument is not compared, and the result reports the omission."""
    with JsonlSink(tmp_path / "runs.jsonl") as sink:
        sink.write(run_of(1))
    (case,) = read_cases(tmp_path / "runs.jsonl")
    expected = ToolCall(name="log_in", input_parameters={"user": "ann", "password": "another"})
    metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])

    result = metric.measure(case.model_copy(update={"expected_tools": [expected]}))

    assert result.score == 1
    assert "$.input_parameters.password is redacted" in str(result.reason)


def test_the_command_line_reads_the_file(tmp_path: Path) -> None:
    """Recorded runs expect nothing, which is reported for each; a torn line is a warning."""
    path = tmp_path / "runs.jsonl"
    with JsonlSink(path) as sink:
        sink.write(run_of(1))
    with path.open("ab") as file:
        file.write(b'{"id": "x", "inp')

    done = CliRunner().invoke(main, ["score", str(path), "--json", "-"])

    assert "runs.jsonl:2: $: a torn line" in done.output
    assert "needs expected_tools" in done.output


def test_odd_text_stays_on_its_line(tmp_path: Path) -> None:
    """Line ends, lone surrogates and other characters that lines or UTF-8 may stumble over."""
    text = "a\nb\r\nc\u2028d\x85e\ud800f\0g\x18"
    with JsonlSink(tmp_path / "runs.jsonl") as sink:
        sink.write(run_of(1, actual_output=text))
        sink.write(run_of(2))

    assert [case.actual_output for case in read_cases(tmp_path / "runs.jsonl")] == [text, None]


def test_closing_is_not_the_end(tmp_path: Path) -> None:
    """A sink that is closed opens its file again, and appends."""
    path = tmp_path / "runs.jsonl"
    with JsonlSink(path) as sink:
        sink.write(run_of(1))
    sink.close()
    sink.write(run_of(2))
    sink.close()

    assert ids(path) == ["run-1", "run-2"]


def test_a_sink_that_is_forgotten_closes_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left behind, and none is closed twice."""
    closed: list[int] = []
    close = os.close
    monkeypatch.setattr(os, "close", lambda file: (closed.append(file), close(file)))
    sink = JsonlSink(tmp_path / "runs.jsonl")
    sink.write(run_of(1))
    del sink
    gc.collect()

    assert len(closed) == 1


def test_every_line_can_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opt-in, since it takes time."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with JsonlSink(tmp_path / "a.jsonl", fsync=True) as careful, JsonlSink(tmp_path / "b.jsonl") as quick:
        for number in range(3):
            careful.write(run_of(number))
            quick.write(run_of(number))

    assert len(synced) == 3


def test_errors_of_writing_are_raised(tmp_path: Path) -> None:
    """The recorder shields the agent from them; the sink continues if it can."""
    sink = JsonlSink(tmp_path / "missing" / "runs.jsonl")
    with pytest.raises(FileNotFoundError):
        sink.write(run_of(1))
    (tmp_path / "missing").mkdir()
    sink.write(run_of(2))

    assert ids(tmp_path / "missing" / "runs.jsonl") == ["run-2"]


def test_a_line_is_one_call_and_a_short_one_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk takes a part of a line; the next line is whole again."""
    sink, write = JsonlSink(tmp_path / "runs.jsonl"), os.write
    sink.write(run_of(1))
    calls: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda file, data: calls.append(data) or write(file, data[:40]))  # type: ignore[func-returns-value]
    with pytest.raises(OSError, match="only 40 of"):
        sink.write(run_of(2))
    monkeypatch.undo()
    sink.write(run_of(3))

    assert len(calls) == 1
    assert calls[0].endswith(b"\n")
    with pytest.warns(ToolgradeWarning, match=r"runs\.jsonl:2: left out a torn line"):
        assert ids(tmp_path / "runs.jsonl") == ["run-1", "run-3"]


def test_threads_share_a_file(tmp_path: Path) -> None:
    """Every line is whole, and every run is there."""
    with JsonlSink(tmp_path / "runs.jsonl") as sink:
        in_threads(8, lambda number: [sink.write(run_of(f"{number}-{n}")) for n in range(20)])

    assert sorted(map(str, ids(tmp_path / "runs.jsonl"))) == sorted(f"run-{a}-{b}" for a in range(8) for b in range(20))
