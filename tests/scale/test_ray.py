"""Files scored by Ray, started here: the same bytes as without it, also when the program is killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import environment, toolmark_score
from scale_files import metrics, without_start, write_lines
from toolmark.errors import DataFileError, MissingPackageError, WorkerDiedError
from toolmark.results import read_results
from toolmark.scale import score_files
from toolmark.scale._ray import done_on_ray

PROGRAM = """
import sys
from scale_files import metrics
from toolmark.scale import score_files
score_files(["a", "b"], metrics(), results="r", processes=2, part_bytes=2000, engine="ray", resume=True)
"""


def test_ray_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the line that installs it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    write_lines(tmp_path / "a", 3)

    with pytest.raises(MissingPackageError, match=r"toolmark\[ray\]"):
        score_files([tmp_path / "a"], metrics(), engine="ray")


@pytest.fixture(scope="module")
def _ray() -> Iterator[None]:
    """Ray, started once for these tests; its processes find what the tests import."""
    ray = pytest.importorskip("ray", reason="ray, of the extra `ray`, is not installed here")
    paths = environment()["PYTHONPATH"] + os.pathsep + str(Path(__file__).parents[1])
    runtime = {"env_vars": {"PYTHONPATH": paths}}
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env=runtime,
    )
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_ray")
def test_results_are_those_of_the_local_engine(tmp_path: Path) -> None:
    """Results and totals do not depend on who scores the parts, and nor do errors."""
    files = [write_lines(tmp_path / "a", 60, 1), write_lines(tmp_path / "b", 30, 2)]

    totals = score_files(files, metrics(), results=tmp_path / "r", part_bytes=2000, engine="ray")

    assert totals == score_files(files, metrics(), results=tmp_path / "s", processes=1)
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")
    (tmp_path / "c").write_text("no\n")
    with pytest.raises(DataFileError, match="c:1: "):
        score_files([*files, tmp_path / "c"], metrics(), results=tmp_path / "t", engine="ray")
    assert not (tmp_path / "t.parts").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_ray")
def test_what_a_task_raises_is_raised_here() -> None:
    """An error of a part is raised as it is; a task whose process dies is given up in the end."""
    from scale_workers import double, fail

    found = dict(done_on_ray(double, range(20), 2))
    assert {job: value for job, (value, _) in found.items()} == {number: 2 * number for number in range(20)}
    with pytest.raises(ValueError, match="three"):
        list(done_on_ray(fail, range(10), 2))
    assert issubclass(WorkerDiedError, RuntimeError)


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as POSIX does")
def test_a_killed_driver_is_resumed(tmp_path: Path) -> None:
    """Killed while Ray is at work, and resumed, a run scores every case once."""
    pytest.importorskip("ray", reason="ray, of the extra `ray`, is not installed here")
    files = [write_lines(tmp_path / "a", 200, 1), write_lines(tmp_path / "b", 100, 2)]
    score_files(files, metrics(), results=tmp_path / "s", processes=1)
    paths = environment()["PYTHONPATH"] + os.pathsep + str(Path(__file__).parents[1])
    command = [sys.executable, "-c", PROGRAM]
    child = subprocess.Popen(command, cwd=tmp_path, env=environment(PYTHONPATH=paths), stderr=subprocess.PIPE)
    end = time.monotonic() + 100
    while not list(tmp_path.glob("r.parts/000003.json")) and child.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "r").exists()

    done = toolmark_score("a", "b", "--results", "r", "--resume", *METRICS, folder=tmp_path)

    assert done.code in {0, 1}, done.err
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")
    assert len(read_results(tmp_path / "r").cases) == 300


METRICS = ["--metric", "tool-correctness", "--metric", "tool-efficiency", "--params", "input", "--max-calls", "2"]
