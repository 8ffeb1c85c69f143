"""Evaluation of recorded files: the same results for any parts, processes and mixture of lines."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judging import RuleJudge
from scale_files import body, metrics, without_start, write_lines
from toolgrade import (
    ConfigurationError,
    DataFileError,
    Golden,
    Report,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
    evaluate_async,
)
from toolgrade.dataset import BadLines
from toolgrade.evaluation import files, partial_report, read_results
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.evaluation.files import divide
from toolgrade.inputs import Reading, collect_cases, read_entries
from toolgrade.report.report import CaseResult

CASE = b'{"id": "a", "tools_called": [], "expected_tools": []}'
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"to": "Z\u00fcrich"}'}}
MESSAGES = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
TURNS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two", "tools_called": [{"name": "look"}]},
]


def run_line(status: str) -> bytes:
    """The line of a run that may be interrupted, under one id."""
    run = {"run_id": "r", "status": status, "calls": []}
    return json.dumps({"tools_called": [], "expected_tools": [{"name": status}], "run": run}).encode()


GOOD = [
    CASE,
    b'{"tools_called": [{"name": "look"}], "expected_tools": [{"name": "look"}]}',
    '{"name": "caf\u00e9", "tools_called": [{"name": "caf\u00e9"}], "expected_tools": []}'.encode(),
    b'{"query": "q", "tools_called": [{"name": "a", "arguments": "{\'x\': 1}"}], "expected_tools": []}',
    json.dumps({"messages": MESSAGES, "expected_tools": [{"name": "look"}]}).encode(),
    json.dumps(MESSAGES).encode(),
    json.dumps({"turns": TURNS * 2, "id": "talk"}).encode(),
    json.dumps({"turns": TURNS}).encode(),
]
"""Lines with a case; the last three have no expectations, so that a metric cannot score them."""
RUNS = [run_line("interrupted"), run_line("ok")]
BAD = [b"nonsense", b'{"idd": 1}', b"[1]", b"7", b"{}", b'"\xff"', CASE[:20] + b"\x18", CASE * 2, b'{"turns": []}']


class Outcome(NamedTuple):
    """Everything that an evaluation of files says."""

    report: Report | None
    error: str
    warnings: list[tuple[type[Warning], str]]
    results: bytes


def outcome(paths: Sequence[Path], part_bytes: int, processes: int, folder: Path, **options: Any) -> Outcome:
    """Evaluate files in parts of this size."""
    target = folder / "results.jsonl"
    target.unlink(missing_ok=True)
    report, error = None, ""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(files, "PART_BYTES", part_bytes)
        patch.setattr(files, "WORTH_A_PROCESS", 1)
        try:
            report = evaluate([*paths], metrics(), results=target, processes=processes, **options)
        except (ConfigurationError, DataFileError) as raised:
            error = f"{type(raised).__name__}: {raised}"
    written = without_start(target) if target.exists() else b""
    return Outcome(report, error, [(one.category, str(one.message)) for one in caught], written)


def check_read_back(result: Outcome, folder: Path, *, contents: bool = True) -> None:
    """Check that the file of results is the report, but for the contents if they are left out."""
    if result.report is not None:
        restored = read_results(folder / "results.jsonl")
        plain, expected = ([_plain(case, contents) for case in report.cases] for report in (restored, result.report))
        assert plain == expected
        assert (restored.metrics, restored.trials) == (result.report.metrics, result.report.trials)
        assert not restored.interrupted


def _plain(case: CaseResult, contents: bool) -> dict[str, Any]:
    fields = case.to_dict() | {"label": case.label, "id": case.case.id, "name": case.case.name}
    return fields if contents else {key: fields[key] for key in fields.keys() - {"key", "run_id", "tools", "agreement"}}


_lines = st.lists(
    st.tuples(st.sampled_from([*GOOD, *RUNS, *RUNS, *BAD, b"", b" "]), st.sampled_from([b"\n", b"\n", b"\r\n"])),
    max_size=8,
).map(lambda lines: b"".join(line + end for line, end in lines))
_texts = st.tuples(
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    _lines,
    st.sampled_from([b"", b"", GOOD[1], CASE[:20], b"nul", b"\n\n"]),
).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(_texts, min_size=1, max_size=3), st.integers(1, 300), st.booleans())
def test_parts_make_no_difference(tmp_path: Path, texts: list[bytes], part_bytes: int, contents: bool) -> None:
    """The report, the warnings, the error and the file of results, which reads as the report."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)

    whole = outcome(paths, 1 << 30, 1, tmp_path, contents=contents)
    check_read_back(whole, tmp_path, contents=contents)
    parts = outcome(paths, part_bytes, 1, tmp_path, contents=contents)

    assert parts == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from([*GOOD, *RUNS, b""]), min_size=1, max_size=8), st.integers(1, 300))
def test_good_lines_are_measured_as_their_cases(tmp_path: Path, lines: list[bytes], part_bytes: int) -> None:
    """A file is its cases and conversations, but those of one id are trials of one golden."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(b"\n".join([*lines, GOOD[0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = evaluate(collect_cases(read_entries(path, Reading(unit="any")), path, BadLines()), metrics())

    report = outcome([path], part_bytes, 1, tmp_path).report

    assert report is not None
    assert replace(report, trials=None, cases=tuple(map(_alone, report.cases))) == expected
    ids = [entry.case.id for entry in expected.cases]
    counted = [None if one is None else (ids.index(one), ids[: place + 1].count(one)) for place, one in enumerate(ids)]
    most = max((number for _, number in filter(None, counted)), default=1)
    assert report.trials == (most if most > 1 else None)
    assert [(entry.golden, entry.trial) for entry in report.cases] == [
        (None, None) if one is None or most == 1 else one for one in counted
    ]


def _alone(case: CaseResult) -> CaseResult:
    return replace(case, golden=None, trial=None)


_some_lines = st.lists(st.sampled_from([*GOOD, *RUNS, *BAD, b""]), min_size=30, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=4)
@given(texts=st.lists(_some_lines.map(b"\n".join), min_size=1, max_size=2), part_bytes=st.integers(200, 2000))
def test_processes_make_no_difference(tmp_path: Path, texts: list[bytes], part_bytes: int) -> None:
    """Nor does the order in which they finish."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(CASE + b"\n" + text)

    alone = outcome(paths, 1 << 30, 1, tmp_path)

    assert outcome(paths, part_bytes, 2, tmp_path) == alone


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_texts, st.integers(1, 120))
def test_every_byte_is_in_one_part(tmp_path: Path, text: bytes, part_bytes: int) -> None:
    """The parts of a file follow each other without a gap, end at ends of lines, and know the number of their lines."""
    path = tmp_path / "file"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", part_bytes)
        patch.setattr(files, "WORTH_A_PROCESS", 1)
        parts = list(divide([str(path)]))

    pieces = [text if part.data is None else part.data for part in parts]
    assert b"".join(pieces) == text
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert [part.size for part in parts] == list(map(len, pieces))
    ends = accumulate(piece.count(b"\n") for piece in pieces)
    assert [part.first or 1 for part in parts[1:]] == [1 + end for end in ends][:-1]


@pytest.mark.parametrize("name", ["a.gz", "a.json", "pipe"])
def test_packed_files_lists_and_pipes_give_the_same(tmp_path: Path, name: str) -> None:
    """But for the names of cases by their place in a list."""
    plain = write_lines(tmp_path / "plain", 20, 3)
    data = plain.read_bytes()
    if name == "a.json":
        data = b"\n [" + b",\n".join(line for line in data.splitlines() if line.strip()) + b"]"
    elif name == "a.gz":
        data = gzip.compress(data)
    if name == "pipe":
        os.mkfifo(tmp_path / name)
        threading.Thread(target=(tmp_path / name).write_bytes, args=(data,), daemon=True).start()
    else:
        (tmp_path / name).write_bytes(data)

    one = outcome([plain], 1 << 30, 1, tmp_path).report
    two = outcome([tmp_path / name], 100, 2, tmp_path).report

    assert one is not None
    assert two is not None
    assert [case.results for case in one.cases] == [case.results for case in two.cases]
    assert name == "a.json" or one == two


def test_runs_of_one_golden_are_its_trials(tmp_path: Path) -> None:
    """Over parts, processes and files; the file of results has them, too."""
    goldens = [Golden(id=key, input=key, expected_tools=[ToolCall(name=key)]) for key in ("look", "pay", "unused")]
    (tmp_path / "goldens.jsonl").write_text("".join(golden.to_json() + "\n" for golden in goldens))
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for number, path in enumerate(paths):
        keys = ["look", "pay", "other"] * 4
        lines = [
            {"tools_called": [{"name": ("look", "pay")[(place + number) % 2]}], "input": "?", "metadata": {"task": key}}
            for place, key in enumerate(keys)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = {"goldens": str(tmp_path / "goldens.jsonl"), "golden_id": "metadata.task"}

    whole = outcome(paths, 1 << 30, 1, tmp_path, **options)
    check_read_back(whole, tmp_path)
    parts = outcome(paths, 200, 2, tmp_path, **options)

    assert parts == whole
    assert whole.report is not None
    assert whole.report.trials == 8
    assert [case.trial for case in whole.report.cases if case.golden == 0] == list(range(1, 9))
    assert any("8 cases without a golden" in text for _, text in whole.warnings)
    assert any("unused" in text for _, text in whole.warnings)


def test_clusters_make_intervals_wider(tmp_path: Path) -> None:
    """Repetitions of one task are not independent; a cluster that no case has is an error."""
    path = tmp_path / "a"
    lines = [
        {"tools_called": [{"name": "a"}], "expected_tools": [{"name": "ab"[task % 2]}], "metadata": {"task": task}}
        for task in range(4)
        for _ in range(10)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    alone, together = (outcome([path], 300, 1, tmp_path, cluster=one) for one in (None, "metadata.task"))
    check_read_back(together, tmp_path)

    assert alone.report is not None
    assert together.report is not None
    assert together.report.trials == 10
    narrow, wide = (one.summaries[0].mean_interval for one in (alone.report, together.report))
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])
    wrong = outcome([path], 300, 1, tmp_path, cluster="metadata.taks")
    assert "no case has 'metadata.taks', the cluster" in wrong.error
    assert not (tmp_path / "results.jsonl").exists()


def test_a_judged_metric_gives_the_same_rows(tmp_path: Path) -> None:
    """Names, places, trials, bad lines and warnings are those of the metrics that do not wait."""
    path = tmp_path / "a.jsonl"
    good = [line for line in GOOD if b'"turns"' not in line]  # of these a judge is asked about each question
    path.write_bytes(b"\n".join([*good, *RUNS, *BAD, *RUNS[:1], *good[:2]]))
    judged = ToolCorrectnessMetric(judge=RuleJudge("yes"), available_tools=[{"name": "look"}])

    def run(chosen: list[Any], name: str, **options: Any) -> tuple[Report, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = evaluate(path, chosen, results=tmp_path / name, **options)
        return report, [str(one.message) for one in caught]

    for number, options in enumerate([{}, {"cluster": "id"}]):
        plain, plain_texts = run(metrics(), f"plain-{number}", **options)
        both, both_texts = run([*metrics(), judged], f"both-{number}", **options)

        assert [case.results[:2] for case in both.cases] == [case.results for case in plain.cases]
        assert [(one.case, one.trial, one.golden) for one in both.cases] == [
            (one.case, one.trial, one.golden) for one in plain.cases
        ]
        assert plain_texts == both_texts
        assert read_results(tmp_path / f"both-{number}") == both
        assert any(case.results[2].score is not None for case in both.cases)
        lines = [
            sorted(body(tmp_path / f"{name}-{number}"), key=lambda line: line["case"]) for name in ("plain", "both")
        ]
        for line, other in zip(*lines, strict=True):
            assert line.pop("results") == other.pop("results")[:2]
            assert line == other


def test_all_bad_lines_are_named(tmp_path: Path) -> None:
    """In order of files and lines; refused if told, or if there is nothing else, and then nothing is left behind."""
    (tmp_path / "a").write_bytes(CASE + b"\n\n" + b'{"idd": 7}\n' + CASE + b"\nnonsense\n")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(gzip.compress(CASE + b"\n[]\n"))
    paths = [tmp_path / name for name in "abc"]

    counted = outcome(paths, 20, 1, tmp_path)
    places = [text.removeprefix(f"{tmp_path}/").split(": ")[0] for _, text in counted.warnings]
    (tmp_path / "results.jsonl").unlink()
    refused = outcome(paths, 20, 1, tmp_path, reject_bad_lines=True)
    nothing = outcome([tmp_path / "b"], 20, 1, tmp_path)

    assert counted.report is not None
    assert places[:-1] == ["a:3", "a:5", "b:1", "c:2"]
    assert counted.warnings[-1][1] == "4 lines cannot be read; each counts as a case that was not measured"
    assert counted.report.summaries[0].errored == 4
    assert refused.error.startswith(f"DataFileError: {tmp_path}/a:3: ")
    assert "b:1: $: the file is empty" in nothing.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_line_that_is_too_large_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    """The lines after it are read and keep their numbers."""
    monkeypatch.setenv("TOOLGRADE_MAX_RECORD_MIB", "1")
    (tmp_path / "a").write_bytes(pack(CASE + b'\n"%b"\n' % (b"x" * (5 << 19)) + CASE + b"\nnonsense\n"))

    result = outcome([tmp_path / "a"], 100, 1, tmp_path)

    assert [text.split(": ")[0].rpartition("/")[2] for _, text in result.warnings[:2]] == ["a:2", "a:4"]
    assert "a record must have at most 1 MiB" in result.warnings[0][1]
    assert result.report is not None
    assert [case.case.id for case in result.report.cases] == ["a", None, "a", None]


def test_warnings_come_once(tmp_path: Path) -> None:
    """For any number of cases and processes."""
    path = tmp_path / "a"
    path.write_bytes((GOOD[3] + b"\n") * 30)

    caught = outcome([path], 400, 2, tmp_path).warnings

    assert len(set(caught)) == len(caught)


def test_contents_can_be_left_out(tmp_path: Path) -> None:
    """Results without contents have the ids and names of the cases; no secret is in either."""
    path = write_lines(tmp_path / "a", 20)

    full = outcome([path], 300, 1, tmp_path)
    bare = outcome([path], 300, 1, tmp_path, contents=False)

    assert b"sk-0123" not in full.results
    assert b'"api_key"' in full.results
    assert b'"content"' not in bare.results
    check_read_back(bare, tmp_path, contents=False)
    assert bare.report == full.report


WRONG = [
    ({"test_cases": ["a", "./a"]}, "are one file; its cases would count twice"),
    ({"results": "a"}, "a is one of the files"),
    ({"resume": True}, "resume needs results"),
    ({"resume": "all", "results": "r"}, "resume must be one of missing, errored, failed, got 'all'"),
    ({"processes": 0}, "processes must be a whole number of at least 1, got 0"),
    ({"metrics": []}, "metrics must be a list of at least one"),
    ({"cluster": ""}, "cluster must be a path"),
    ({"results": "there"}, "there already exists"),
    ({"golden_id": "metadata.task"}, "golden_id needs goldens"),
    ({"trials": 2}, "trials needs goldens and an agent"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    """What cannot be meant is an error before anything is read."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a", 3)
    (tmp_path / "there").write_text("x")
    chosen: dict[str, Any] = {"test_cases": ["a"], "metrics": metrics()}

    with pytest.raises(ConfigurationError, match=message):
        evaluate(**(chosen | options))

    assert sorted(path.name for path in Path().iterdir()) == ["a", "there"]
    assert (tmp_path / "there").read_text() == "x"


def test_metrics_that_cannot_travel_are_refused(tmp_path: Path) -> None:
    """A metric that cannot be pickled gives an error with a remedy; it works in one process."""

    class Local(ToolCorrectnessMetric):
        """Defined where no other process finds it."""

    path = write_lines(tmp_path / "a", 30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", 200)
        patch.setattr(files, "WORTH_A_PROCESS", 1)
        with pytest.raises(ConfigurationError, match=r"cannot be handed to other processes.*processes=1"):
            evaluate(path, [Local()], processes=2)
        assert len(evaluate(path, [Local()], processes=1).cases) == 30


def test_missing_files_and_folders_are_os_errors(tmp_path: Path) -> None:
    """The error names the file, and nothing is left behind."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        evaluate(tmp_path / "nowhere", metrics(), results=tmp_path / "r")
    with pytest.raises(IsADirectoryError):
        evaluate(tmp_path, metrics())
    assert list(tmp_path.iterdir()) == []


def test_zstd_data_is_named(tmp_path: Path) -> None:
    """The error says what to do."""
    (tmp_path / "a").write_bytes(b"\x28\xb5\x2f\xfd\x00")

    with pytest.raises(DataFileError, match="is zstd data, which cannot be read here; unpack it"):
        evaluate(tmp_path / "a", metrics())


def test_memory_does_not_grow_with_the_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the worst cases are whole; the others are outlines, of some hundred bytes."""
    monkeypatch.setattr(files, "PART_BYTES", 20_000)
    monkeypatch.setattr(files, "WORTH_A_PROCESS", 1)

    def peak(number: int) -> int:
        path = tmp_path / f"{number}"
        path.write_bytes(write_lines(tmp_path / "some", 100).read_bytes() * (number // 100))
        options: dict[str, Any] = {"metrics": metrics(), "processes": 1, "full": 5}
        run_evaluation(EvaluationOptions(test_cases=write_lines(tmp_path / "warm", 5), **options))
        tracemalloc.start()
        run_evaluation(EvaluationOptions(test_cases=path, results=tmp_path / f"{number}.results", **options))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(200), peak(500)

    assert many - few < 300 * 3000


# in a running event loop


def large_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of some hundred parts."""
    monkeypatch.setattr(files, "PART_BYTES", 300)
    monkeypatch.setattr(files, "WORTH_A_PROCESS", 1)
    return write_lines(path, 400)


def test_other_tasks_run_while_files_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is that of `evaluate`."""
    path = large_file(tmp_path / "a", monkeypatch)

    async def go() -> tuple[Report, int]:
        evaluation = asyncio.ensure_future(evaluate_async(path, metrics(), processes=1))
        steps = 0
        while not evaluation.done():
            await asyncio.sleep(0)
            steps += 1
        return await evaluation, steps

    report, steps = asyncio.run(go())

    assert report == evaluate(path, metrics(), processes=1)
    assert steps > 100


@pytest.mark.parametrize("processes", [1, 2])
def test_evaluation_of_files_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    """Between two parts, with the report so far; the file of results can be resumed."""
    path, results = large_file(tmp_path / "a", monkeypatch), tmp_path / "r"

    async def go() -> BaseException:
        evaluation = evaluate_async(path, metrics(), results=results, processes=processes)
        task = asyncio.ensure_future(evaluation)
        while not results.exists() or results.read_bytes().count(b"\n") < 3:  # noqa: ASYNC110 - it waits for a file
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    report = partial_report(asyncio.run(go()))
    written = results.read_bytes()

    assert report is not None
    assert report.interrupted
    assert 0 < len(report.cases) < 400
    assert [case.results for case in read_results(results).cases] == [case.results for case in report.cases]
    whole = evaluate(path, metrics(), results=results, resume=True, processes=1)
    assert whole == evaluate(path, metrics(), processes=1)
    assert results.read_bytes().startswith(written)
    assert len(body(results)) == 400
