"""Files scored in parts: the same results as all cases at once, for any parts and processes."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tracemalloc
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scale_files import after_parts, body, metrics, without_start, write_lines
from toolgrade import ConfigurationError, DataFileError, ToolCorrectnessMetric, ToolUseMetric, evaluate, read_cases
from toolgrade.errors import MissingPackageError, BadLineWarning
from toolgrade.evaluation import read_results
from toolgrade.scale import score_files
from toolgrade.scale.partition import divide_files, number_lines, survey_part

CASE = b'{"id": "a", "tools_called": [], "expected_tools": []}'


def test_results_and_totals_are_those_of_evaluate(tmp_path: Path) -> None:
    """Results file, report and totals equal those of evaluating all cases at once."""
    files = [write_lines(tmp_path / name, number, seed) for seed, (name, number) in enumerate([("a", 50), ("b", 1)])]
    cases = [one for file in files for one in read_cases(file)]
    report = evaluate(cases, metrics(), results=tmp_path / "whole", show_progress=False)

    totals = score_files(files, metrics(), results=tmp_path / "parts", processes=1, part_bytes=500)

    assert body(tmp_path / "parts") == body(tmp_path / "whole")
    in_parts, at_once = (read_results(tmp_path / name) for name in ("parts", "whole"))
    assert in_parts == at_once
    assert totals.cases == 51
    for one, other in zip(totals.summaries, report.summaries, strict=True):
        assert str(one) == str(other)
        assert one.mean == other.mean
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "parts", "whole"]


@pytest.mark.parametrize(("processes", "part_bytes"), [(1, 1), (1, 300), (3, 700), (2, 10**6)])
def test_results_do_not_depend_on_parts_and_processes(tmp_path: Path, processes: int, part_bytes: int) -> None:
    """The bytes of the results are the same, but for when they were begun."""
    files = [write_lines(tmp_path / "a", 30, 1), write_lines(tmp_path / "b", 20, 2)]
    alone = score_files(files, metrics(), results=tmp_path / "alone", processes=1)

    totals = score_files(files, metrics(), results=tmp_path / "r", processes=processes, part_bytes=part_bytes)

    assert without_start(tmp_path / "r") == without_start(tmp_path / "alone")
    assert totals == alone == score_files(files, metrics(), processes=1, part_bytes=part_bytes)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b" \n", CASE + b"\n", CASE + b"\r\n", CASE * 2 + b"\n"]), max_size=9),
    st.sampled_from([b"", CASE, b"\xef\xbb\xbf"]),
    st.sampled_from([b"", CASE, b" "]),
    st.integers(1, 120),
)
def test_every_byte_is_in_one_part(
    tmp_path: Path, lines: list[bytes], begin: bytes, end: bytes, part_bytes: int
) -> None:
    """The parts of a file follow each other without a gap, end at ends of lines, and know the number of their lines."""
    data = begin + b"".join(lines) + end
    path = tmp_path / "file"
    path.write_bytes(data)

    parts = number_lines([survey_part([str(path)], True, part) for part in divide_files([str(path)], part_bytes)])

    pieces = [data[part.start : part.end] for part in parts]
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert [part.lines for part in parts] == [len(io.BytesIO(piece).readlines()) for piece in pieces]
    before = [len(io.BytesIO(data[: part.start]).readlines()) for part in parts]
    assert [part.first for part in parts] == [number + 1 for number in before]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [CASE + b"\n", b"\n", b"{}\r\n", b"[1]\n", b'{"idd": 1}\n', b"\xff\n", CASE[:20] + b"\x18\n", b"x\n"]
        ),
        max_size=6,
    ),
    st.sampled_from([b"", CASE, CASE[:20], b"\xef\xbb\xbf"]),
    st.sampled_from([b"", CASE, CASE[:20], b"nul"]),
    st.integers(1, 150),
)
def test_every_file_is_read_as_read_cases_reads_it(
    tmp_path: Path, lines: list[bytes], begin: bytes, end: bytes, part_bytes: int
) -> None:
    """Errors, torn-line warnings and results are the same for any content and any cut."""
    path = tmp_path / "file"
    path.write_bytes(begin + b"".join(lines) + end)

    def outcome(score: bool) -> tuple[str, list[str], int]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if score:
                    number = score_files([path], metrics(), processes=1, part_bytes=part_bytes).cases
                else:
                    number = len(read_cases(path))
            except DataFileError as error:
                return str(error), [], len(error.problems)
        return "", [str(one.message) for one in caught if one.category is BadLineWarning], number

    assert outcome(score=True) == outcome(score=False)


@pytest.mark.parametrize("name", ["a.gz", "a.zst", "array"])
def test_packed_files_and_arrays_are_read_as_a_whole(tmp_path: Path, name: str) -> None:
    """A file that cannot be split is one part, with the same results except for generated names."""
    plain = write_lines(tmp_path / "plain", 20, 3)
    data = plain.read_bytes()
    if name == "a.zst":
        data = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    elif name == "array":
        data = b"\n [" + b",\n".join(line for line in data.splitlines() if line.strip()) + b"]"
    else:
        data = gzip.compress(data)
    (tmp_path / name).write_bytes(data)

    score_files([plain], metrics(), results=tmp_path / "one", processes=1)
    score_files([tmp_path / name], metrics(), results=tmp_path / "two", processes=1, part_bytes=100)

    packed, unpacked = (read_results(tmp_path / result) for result in ("one", "two"))
    assert [case.results for case in packed.cases] == [case.results for case in unpacked.cases]
    assert name == "array" or packed == unpacked


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    """In order of files and lines; nothing is written or left behind."""
    (tmp_path / "a").write_bytes(CASE + b"\n\n" + b'{"idd": 7}\n' + CASE + b"\nnonsense\n")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(gzip.compress(CASE + b"\n[]\n"))
    (tmp_path / "d").write_bytes(b"\n \n")
    files = [tmp_path / name for name in "abcd"]

    with pytest.raises(DataFileError) as caught:
        score_files(files, metrics(), results=tmp_path / "r", processes=1, part_bytes=20)

    places = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in str(caught.value).splitlines()]
    assert places == ["a:3", "a:5", "b:1", "c:2", "d:1"]
    assert [problem.line for problem in caught.value.problems] == [3, 5, 1, 2, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "d"]


def test_number_of_reported_problems_is_limited(tmp_path: Path) -> None:
    """Ten are in the message and a thousand are listed; further ones are counted or not read."""
    (tmp_path / "a").write_bytes(b"7\n" * 1500)
    (tmp_path / "b").write_bytes(b"7\n" * 700 + CASE)
    (tmp_path / "c").write_bytes(b"7\n" * 700 + CASE)

    with pytest.raises(DataFileError) as whole:
        score_files([tmp_path / "a"], metrics(), processes=1)
    with pytest.raises(DataFileError) as several:
        score_files([tmp_path / "b", tmp_path / "c"], metrics(), processes=1, part_bytes=200)

    for caught in (whole, several):
        assert len(caught.value.problems) == 1000
        assert len(str(caught.value).splitlines()) == 11
    assert str(whole.value).splitlines()[-1] == "... and 1490 more"
    assert [problem.line for problem in several.value.problems[:3]] == [1, 2, 3]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """Only the last line of a file may be torn, and it is reported."""
    (tmp_path / "a").write_bytes(CASE + b"\n" + CASE[:25])
    (tmp_path / "b").write_bytes(CASE)

    with pytest.warns(BadLineWarning, match="a:2: left out a torn line"):
        totals = score_files([tmp_path / "a", tmp_path / "b"], metrics(), processes=1, part_bytes=10)

    assert totals.cases == 2


def test_warnings_come_once(tmp_path: Path) -> None:
    """Each warning is reported once for any number of cases and processes."""
    path = tmp_path / "a"
    odd = {"query": "q", "tools_called": [{"name": "a", "arguments": "{'x': 1}"}], "expected_tools": []}
    path.write_text("".join(json.dumps(odd) + "\n" for _ in range(30)))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        score_files([path], metrics(), processes=2, part_bytes=400)

    assert len({str(one.message) for one in caught}) == len(caught)


def test_contents_can_be_left_out(tmp_path: Path) -> None:
    """Results without contents have the ids and names of the cases, and are a third as long."""
    path = write_lines(tmp_path / "a", 20)

    for name, contents in (("with", True), ("without", False)):
        score_files([path], metrics(), results=tmp_path / name, processes=1, contents=contents)

    full, bare = (read_results(tmp_path / name) for name in ("with", "without"))
    assert [one.name for one in full.cases] == [one.name for one in bare.cases]
    assert full.summaries == bare.summaries
    assert b"sk-0123" not in (tmp_path / "with").read_bytes()
    assert "content" not in body(tmp_path / "without")[0]


def test_clusters_make_intervals_wider(tmp_path: Path) -> None:
    """Repetitions of one task are not independent; a cluster that no case has is an error."""
    path = tmp_path / "a"
    lines = [
        {"tools_called": [{"name": "a"}], "expected_tools": [{"name": "ab"[task % 2]}], "metadata": {"task": task}}
        for task in range(4)
        for _ in range(10)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    alone, together = (
        score_files([path], metrics(), processes=1, part_bytes=300, cluster=cluster).metrics[0]
        for cluster in (None, "metadata.task")
    )

    assert set(together.clusters) == {"0", "1", "2", "3"}
    assert alone.mean == together.mean == 0.5
    narrow, wide = alone.mean_interval(), together.mean_interval()
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])
    with pytest.raises(ConfigurationError, match=r"no case has 'metadata\.taks', the cluster"):
        score_files([path], metrics(), processes=1, cluster="metadata.taks", results=tmp_path / "r")
    assert not (tmp_path / "r.parts").exists()


WRONG = [
    ({"files": []}, "at least one path"),
    ({"files": "a"}, "must be a list"),
    ({"files": ["-"]}, "standard input can be read only once"),
    ({"files": ["a", "./a"]}, "are one file; its cases would count twice"),
    ({"results": "a"}, "is one of the files"),
    ({"resume": True}, "set results"),
    ({"processes": 0}, "processes must be a whole number of at least 1, got 0"),
    ({"part_bytes": True}, "part_bytes must be"),
    ({"metrics": []}, "metrics must be a list of at least one"),
    ({"metrics": [ToolUseMetric(judge=lambda _prompt: "")]}, "asks a judge"),
    ({"cluster": ""}, "cluster must be a path"),
    ({"results": "there"}, "there exists; use another file"),
    ({"results": "there", "resume": True}, "there exists and is complete"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    """What cannot be meant is an error before anything is read."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a", 3)
    (tmp_path / "there").write_text("x")
    settings = {"files": ["a"], "metrics": metrics(), **options}

    with pytest.raises(ConfigurationError, match=message):
        score_files(**settings)  # type: ignore[arg-type]

    assert sorted(path.name for path in Path().iterdir()) == ["a", "there"]
    assert (tmp_path / "there").read_text() == "x"


def test_metrics_that_cannot_travel_are_refused(tmp_path: Path) -> None:
    """A metric that cannot be pickled gives an error with a remedy; it works in one process."""

    class Local(ToolCorrectnessMetric):
        """Defined where no other process finds it."""

    path = write_lines(tmp_path / "a", 3)

    with pytest.raises(ConfigurationError, match=r"cannot be handed to other processes.*processes=1"):
        score_files([path], [Local()], processes=2)
    assert score_files([path], [Local()], processes=1).cases == 3


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    """The error names the file, and nothing is left behind."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        score_files([tmp_path / "nowhere"], metrics(), results=tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Input that can be read only once gives an error rather than an empty file."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigurationError, match=r"pipe is not a regular file and can be read only once"):
        score_files([tmp_path / "pipe"], metrics(), processes=1)
    with pytest.raises(IsADirectoryError):
        score_files([tmp_path], metrics(), processes=1)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    """Results are of one state of a file, or there are none."""
    path = write_lines(tmp_path / "a", 20)

    def append() -> None:
        with path.open("ab") as file:
            file.write(CASE + b"\n")

    progress = after_parts(1, append)
    with pytest.raises(DataFileError, match="changed while it was scored"):
        score_files([path], metrics(), results=tmp_path / "r", processes=1, part_bytes=500, progress=progress)
    assert not (tmp_path / "r").exists()


def test_missing_zstd_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a").write_bytes(b"\x28\xb5\x2f\xfd\x00")

    with pytest.raises(MissingPackageError, match=r"pip install zstandard"):
        read_cases(tmp_path / "a")


def test_zstd_frames_are_read_to_the_end() -> None:
    """Several frames are one file; one that is cut off, or followed by something else, is broken and never short."""
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor().compress((CASE + b"\n") * 5000)

    assert len(read_cases(io.BytesIO(frame + frame))) == 10000
    for data in (frame[:-1], frame[: len(frame) // 2], frame + frame[:7], frame + b"more"):
        with pytest.raises(DataFileError, match="broken zstd data"):
            read_cases(io.BytesIO(data))


def test_memory_does_not_grow_with_the_cases(tmp_path: Path) -> None:
    """No case is retained: peak memory while scoring a part does not depend on the number of cases."""

    def peak(number: int) -> int:
        path = write_lines(tmp_path / f"{number}", number)
        results = tmp_path / f"{number}.results"
        score_files([write_lines(tmp_path / "warm", 5)], metrics(), processes=1)
        tracemalloc.start()
        score_files([path], metrics(), processes=1, results=results)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(100), peak(1000)

    assert many < 1.5 * few + 500_000
