"""Killed runs over files: resumed, they end as if uninterrupted, or report why they cannot."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import environment, run_python
from scale_files import StoppedError, after_parts, metrics, stop, without_start, write_lines
from toolgrade import ConfigurationError, ToolCorrectnessMetric
from toolgrade._internal.atomic_files import LOCK_NAME, folder_lock
from toolgrade.evaluation import read_results
from toolgrade.scale import Totals, score_files
from toolgrade.scale import run as runs
from victims import processes_with

WORKER = Path(__file__).with_name("killed_worker.py")

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed and copied as POSIX does")


def score(folder: Path, name: str, **options: object) -> Totals:
    """Score the two files of a folder."""
    settings = {"results": folder / name, "processes": 1, "part_bytes": 900, **options}
    return score_files([folder / "a", folder / "b"], metrics(), **settings)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files, and their results in `whole`."""
    write_lines(tmp_path / "a", 8, 5)
    write_lines(tmp_path / "b", 5, 6)
    score(tmp_path, "whole")
    return tmp_path


def begun(folder: Path, name: str, parts: int, **options: object) -> None:
    """Start a run that stops after this many parts."""
    with pytest.raises(StoppedError):
        score(folder, name, progress=after_parts(parts, stop), **options)


@posix
def test_killed_before_any_step(folder: Path) -> None:
    """Killed before any disk operation, a resumed run gives the same bytes and leaves no other files."""
    settings = {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(WORKER.parents[1])])}
    done = run_python([str(WORKER), str(folder)], folder, settings=settings)
    assert done.err == ""
    steps, code = map(int, done.out.split())
    assert code == 0
    assert steps > 40

    expected = without_start(folder / "whole")
    was_there = 0
    for step in range(1, steps + 1):
        name = f"results-{step}."
        was_there += (folder / name).exists()
        left = {path.name for path in (folder / f"{name}.parts").glob("*")}
        assert "joined.json" not in left or "manifest.json" in left, step
        if (folder / name).exists():
            assert "joined.json" in left or "000000.jsonl" not in left, step
            assert without_start(folder / name) == expected, step
        if not (folder / name).exists() or (folder / f"{name}.parts" / "joined.json").exists():
            totals = score(folder, name, resume=True)
            assert totals.cases == 13
        assert without_start(folder / name) == expected, step
        assert not list((folder / f"{name}.parts").glob("*")) or (folder / name).exists()
    assert 3 < was_there < steps / 2  # killed while it cleaned up


@posix
def test_killed_again_and_again(tmp_path: Path) -> None:
    """Several processes, killed at any time and resumed, score every case once; no process lives on."""
    write_lines(tmp_path / "a", 300, 5)
    write_lines(tmp_path / "b", 200, 6)
    score(tmp_path, "whole")
    paths = os.pathsep.join([environment()["PYTHONPATH"], str(WORKER.parents[1])])
    settings = environment(PYTHONPATH=paths, KILLED_IN=str(tmp_path))
    rng = random.Random(3)
    for kill in range(4):
        begun_with = _done_parts(tmp_path)
        child = subprocess.Popen([sys.executable, str(WORKER), str(tmp_path), "r", "2"], env=settings)
        target = begun_with + rng.randint(1, 10)
        while kill < 3 and _done_parts(tmp_path) < target:
            assert child.poll() is None  # there are many more parts
            time.sleep(0.001)
        if kill < 3:
            child.send_signal(signal.SIGKILL)
        assert child.wait(120) == (-signal.SIGKILL if kill < 3 else 0)

    assert without_start(tmp_path / "r") == without_start(tmp_path / "whole")
    assert [case.index for case in read_results(tmp_path / "r").cases] == list(range(500))
    end = time.monotonic() + 30
    while (left := processes_with(f"KILLED_IN={tmp_path}")) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []


def _done_parts(folder: Path) -> int:
    return len(list((folder / "r.parts").glob("*.jsonl")))


def test_parts_that_are_done_are_not_scored_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resuming scores the missing parts and reports progress."""
    begun(folder, "r", 2)
    scored: list[int] = []
    inner = runs.score_part
    monkeypatch.setattr(runs, "score_part", lambda part, *rest: (scored.append(part.number), inner(part, *rest))[1])
    reports: list[tuple[int, int]] = []

    score(folder, "r", resume=True, progress=lambda done, of: reports.append((done, of)))

    assert 0 < reports[0][0] < reports[0][1]
    assert len(reports) == len(scored) + 1
    assert reports[-1][0] == reports[-1][1] == sum((folder / file).stat().st_size for file in "ab")
    assert without_start(folder / "r") == without_start(folder / "whole")


def test_worker_marks_its_part_as_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark holds even if the parent process is gone before it has the outcome."""
    with monkeypatch.context() as patch:
        patch.setattr(runs.CombinedOutcome, "add", lambda *_: stop())
        with pytest.raises(StoppedError):
            score(folder, "r")
    counts: list[int] = []

    score(folder, "r", resume=True, progress=lambda done, _of: counts.append(done))

    assert counts[0] >= 900
    assert without_start(folder / "r") == without_start(folder / "whole")


def test_a_part_that_is_lost_or_cut_is_scored_again(folder: Path) -> None:
    """A part is done only if its lines are complete."""
    begun(folder, "r", 3)
    parts = folder / "r.parts"
    (parts / "000000.jsonl").unlink()
    with (parts / "000001.jsonl").open("rb+") as file:
        file.truncate(10)

    score(folder, "r", resume=True)

    assert without_start(folder / "r") == without_start(folder / "whole")


def test_changed_part_is_reported_and_scored_again(folder: Path) -> None:
    """One changed byte fails the run; resuming repairs it."""
    begun(folder, "r", 2)
    path = folder / "r.parts" / "000001.jsonl"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)

    with pytest.raises(ConfigurationError, match=r"000001\.jsonl has changed since it was written; resume the run"):
        score(folder, "r", resume=True)
    assert not (folder / "r").exists()

    score(folder, "r", resume=True)
    assert without_start(folder / "r") == without_start(folder / "whole")


DIFFERENT = [
    ({"metrics": [ToolCorrectnessMetric()]}, "metrics: .*before, .*now"),
    ({"metrics": [*metrics()[:1], type(metrics()[1])(max_calls=3)]}, "metrics: |options of the metrics: "),
    ({"contents": False}, "options: .*contents.*before"),
    ({"allow_nan": True}, "options: .*allow_nan"),
    ({"cluster": "metadata.task"}, "options: .*cluster"),
    ({"files": ["a"]}, "2 files before, 1 now"),
    ({"files": ["b", "a"]}, r"file 1: b \(a before\) has different content now"),
]


@pytest.mark.parametrize(("options", "message"), DIFFERENT)
def test_run_with_other_settings_is_not_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    """Other metrics, options or files are refused and named; existing results stay."""
    monkeypatch.chdir(folder)
    begun(Path(), "r", 2)
    settings = {"files": ["a", "b"], "metrics": metrics(), "results": "r", "resume": True, "processes": 1, **options}

    with pytest.raises(ConfigurationError, match=message):
        score_files(**settings)  # type: ignore[arg-type]

    score(Path(), "r", resume=True)
    assert without_start(Path("r")) == without_start(Path("whole"))


def test_a_file_that_has_changed_is_refused(folder: Path) -> None:
    """One byte is enough, even with equal size and time; a renamed file with equal bytes is unchanged."""
    begun(folder, "r", 2)
    path, stat = folder / "b", (folder / "b").stat()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"look", b"took", 1))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    with pytest.raises(ConfigurationError, match=r"file 2: .*b has different content now"):
        score(folder, "r", resume=True)

    path.rename(folder / "elsewhere")
    (folder / "c").write_bytes(data)
    options = {"results": folder / "r", "resume": True, "processes": 1}
    score_files([folder / "a", folder / "c"], metrics(), **options)  # type: ignore[arg-type]
    assert without_start(folder / "r") == without_start(folder / "whole")


def test_a_begun_run_is_not_begun_anew(folder: Path) -> None:
    """Without `resume`, finished parts are neither overwritten nor reused."""
    begun(folder, "r", 1)

    with pytest.raises(ConfigurationError, match=r"r has an unfinished run; resume it with resume=True, or remove"):
        score(folder, "r")


def test_parts_are_locked(folder: Path) -> None:
    """While one process works, another is refused."""
    begun(folder, "r", 1)

    with (
        folder_lock(folder / "r.parts", "the parts"),
        pytest.raises(ConfigurationError, match=r"another process works on the parts of .*r"),
    ):
        score(folder, "r", resume=True)
    assert (folder / "r.parts" / LOCK_NAME).exists()


@pytest.mark.parametrize(("text", "message"), [("{", "is not a manifest"), ('{"version": 2}', "another version")])
def test_unreadable_manifest_is_reported(folder: Path, text: str, message: str) -> None:
    """The message says how to start again."""
    begun(folder, "r", 1)
    (folder / "r.parts" / "manifest.json").write_text(text)

    with pytest.raises(ConfigurationError, match=f"{message}.*remove .*r.parts to start again"):
        score(folder, "r", resume=True)


def test_resume_without_a_run_starts_one(folder: Path) -> None:
    """A script may always pass `resume`."""
    shutil.rmtree(folder / "r.parts", ignore_errors=True)

    assert score(folder, "r", resume=True).cases == 13
    assert json.loads((folder / "r").read_bytes().splitlines()[0])["count"] == 13
