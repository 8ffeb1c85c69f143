"""Files scored by an engine: the same bytes as without one, despite kills and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from engines import PATHS, need, started
from processes import HEEDS_INTERRUPTS, environment, run_python
from scale_files import StoppedError, after_parts, metrics, stop, without_start, write_lines
from scale_workers import die, die_once, double, fail, fail_badly, is_alive, linger_from
from toolgrade.errors import DataFileError, WorkerDiedError
from toolgrade.results import read_results
from toolgrade.scale import ArrowScorer, score_files
from toolgrade.scale.engines.ray import run_on_ray
from toolgrade.scale.engines.spark import run_on_spark

ENGINES: dict[str, Callable[..., Generator[Any, None, None]]] = {"ray": run_on_ray, "spark": run_on_spark}

#: `toolgrade`, interrupted from outside when its third part is done.
INTERRUPTED = f"""
{HEEDS_INTERRUPTS}
import os, threading, time
from pathlib import Path
from toolgrade.cli.main import main

def interrupt():
    while len(list(Path("r.parts").glob("??????.json"))) < 3:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
main()
"""

#: Scores two files by an engine, and is killed when three parts are done.
KILLED = """
import os, signal, sys
from scale_files import after_parts, metrics
from toolgrade.scale import score_files

kill = after_parts(3, lambda: os.kill(os.getpid(), signal.SIGKILL))
score_files(["a", "b"], metrics(), results="r", processes=2, part_bytes=2000, engine=sys.argv[1], progress=kill)
"""

METRICS = ["--metric", "tool-correctness", "--metric", "tool-efficiency", "--params", "input", "--max-calls", "2"]

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(os.name != "posix", reason="processes are killed as POSIX does"),
]


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an engine that runs while these tests do, and finds what they import."""
    name: str = request.param
    with started(name):
        yield name


def test_results_are_those_of_the_local_engine(tmp_path: Path, engine: str) -> None:
    """Results, totals and errors do not depend on the engine."""
    files = [write_lines(tmp_path / "a", 60, 1), write_lines(tmp_path / "b", 30, 2)]

    totals = score_files(files, metrics(), results=tmp_path / "r", part_bytes=2000, engine=engine)  # type: ignore[arg-type]

    assert totals == score_files(files, metrics(), results=tmp_path / "s", processes=1)
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")
    (tmp_path / "c").write_text('{"tools_called": 3}\n')
    with pytest.raises(DataFileError, match="c:1: ") as caught:
        score_files([*files, tmp_path / "c"], metrics(), results=tmp_path / "t", engine=engine)  # type: ignore[arg-type]
    assert [problem.line for problem in caught.value.problems] == [1]
    assert not list((tmp_path / "t.parts").glob("*"))


def test_engine_resumes_the_run_of_another(tmp_path: Path, engine: str) -> None:
    """Finished parts are not scored again."""
    file = write_lines(tmp_path / "a", 60, 1)
    score_files([file], metrics(), results=tmp_path / "s", processes=1)

    halt = after_parts(2, stop)
    with pytest.raises(StoppedError):
        score_files([file], metrics(), results=tmp_path / "r", part_bytes=2000, processes=1, progress=halt)
    counts: list[int] = []
    score_files(
        [file],
        metrics(),
        results=tmp_path / "r",
        resume=True,
        progress=lambda done, _: counts.append(done),
        engine=engine,  # type: ignore[arg-type]
    )

    assert counts[0] > 2 * 2000
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")


def test_every_job_is_done_once(engine: str) -> None:
    """Each job returns with its result from another process."""
    results = list(ENGINES[engine](double, range(20), 2))

    assert sorted(results) == [(number, (2 * number, who)) for number, (_, who) in sorted(results)]
    assert os.getpid() not in {who for _, (_, who) in results}
    assert list(ENGINES[engine](double, [], 2)) == []


def test_errors_of_a_part_are_raised(engine: str) -> None:
    """The original exception, or its text if it cannot be pickled."""
    with pytest.raises(ValueError, match=r"^three$"):
        list(ENGINES[engine](fail, range(10), 2))
    with pytest.raises(RuntimeError, match="UnsendableError: odd"):
        list(ENGINES[engine](fail_badly, range(2), 2))


def test_part_of_a_killed_process_is_retried(tmp_path: Path, engine: str) -> None:
    """No part is lost; one that kills each process is given up in the end."""
    results = list(ENGINES[engine](partial(die_once, str(tmp_path)), range(8), 2))

    assert sorted(results) == [(number, number) for number in range(8)]
    assert (tmp_path / "died").exists()
    with pytest.raises(WorkerDiedError, match=r"gave up (a part|parts): "):
        list(ENGINES[engine](die, [3], 2))


def test_abandoned_results_stop_the_work(tmp_path: Path, engine: str) -> None:
    """The engine interrupts or ends what is under way, and is free for others."""
    with closing(ENGINES[engine](partial(linger_from, str(tmp_path), 2), range(6), 2)) as results:
        next(results)
        end = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < end:
            time.sleep(0.05)
        assert list(tmp_path.iterdir())

    end = time.monotonic() + 30
    while (left := [path.name for path in tmp_path.iterdir() if is_alive(path.name)]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
    assert len(list(ENGINES[engine](double, range(4), 2))) == 4


def test_tables_of_an_engine_are_scored_where_they_are(tmp_path: Path, engine: str) -> None:
    """The results of a table add up to what the same cases in a file do, exactly; bad rows do not end the job."""
    arrow = import_module("pyarrow")
    write_lines(tmp_path / "a", 300, 1)
    lines = [line.decode() for line in (tmp_path / "a").read_bytes().splitlines() if line.strip()]
    scorer = ArrowScorer(metrics(), cluster="metadata.task")

    rows = scored_by(engine, scorer, [*lines, "no case"])

    assert [row["status"] for row in rows].count("unreadable") == 1
    rest = arrow.Table.from_pylist([row for row in rows if row["status"] != "unreadable"], schema=scorer.schema)
    assert scorer.totals([rest]) == score_files([tmp_path / "a"], metrics(), processes=1, cluster="metadata.task")


def scored_by(engine: str, scorer: ArrowScorer, lines: list[str]) -> list[dict[str, Any]]:
    """The results of cases in a table of an engine, of several blocks."""
    if engine == "ray":
        table = import_module("pyarrow").table({"case": lines})
        data = import_module("ray.data").from_arrow(table).repartition(3)
        rows: list[dict[str, Any]] = data.map_batches(scorer.table, batch_format="pyarrow", batch_size=50).take_all()
        return rows
    session = import_module("pyspark.sql").SparkSession.getActiveSession()
    frame = session.createDataFrame([(line,) for line in lines], "case string").repartition(3)
    return [row.asDict() for row in frame.mapInArrow(scorer.batches, scorer.spark_schema).collect()]


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_killed_program_is_resumed(tmp_path: Path, name: str) -> None:
    """Killed while an engine is at work, and resumed without it, a run does nothing twice, and loses nothing."""
    need(name)
    files = [write_lines(tmp_path / "a", 400, 1), write_lines(tmp_path / "b", 200, 2)]
    score_files(files, metrics(), results=tmp_path / "s", processes=1)
    command = [sys.executable, "-c", KILLED, name]

    child = subprocess.run(command, cwd=tmp_path, env=environment(PYTHONPATH=PATHS), check=False, timeout=100)

    assert child.returncode == -signal.SIGKILL
    before = settled(tmp_path)
    assert len(before) >= 3
    assert not (tmp_path / "r").exists()
    progress_calls: list[tuple[int, int]] = []
    score_files(
        files,
        metrics(),
        results=tmp_path / "r",
        resume=True,
        processes=1,
        progress=lambda *done: progress_calls.append(done),
    )

    assert len(before) * 2000 <= progress_calls[0][0] < progress_calls[0][1]
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")
    assert [case.index for case in read_results(tmp_path / "r").cases] == list(range(600))


@pytest.mark.parametrize("name", list(ENGINES))
def test_ctrl_c_keeps_finished_parts(tmp_path: Path, name: str) -> None:
    """An interrupted command prints only how to resume, and the finished parts are not scored again."""
    need(name)
    write_lines(tmp_path / "a", 600, 1)
    score_files([tmp_path / "a"], metrics(), results=tmp_path / "s", processes=1)
    paths = {"PYTHONPATH": PATHS}
    small = "import toolgrade.scale.files as scoring; scoring.score_files.__kwdefaults__['part_bytes'] = 2000\n"
    arguments = ["score", "a", "--results", "r", "--processes", "2", "--engine", name, *METRICS]

    first = run_python(["-W", "ignore", "-c", small + INTERRUPTED, *arguments], tmp_path, settings=paths)

    assert (first.code, first.out, first.err) == (130, "", "interrupted; resume with --resume\n")
    assert len(notes(tmp_path)) >= 3
    score_files([tmp_path / "a"], metrics(), results=tmp_path / "r", resume=True, processes=1)
    assert without_start(tmp_path / "r") == without_start(tmp_path / "s")


def notes(folder: Path) -> list[Path]:
    """The notes of the parts that are done."""
    return list((folder / "r.parts").glob("??????.json"))


def settled(folder: Path) -> list[Path]:
    """Return the notes after writing has stopped and the engine has ended with its program."""
    lines, end = notes(folder), time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(2)
        if len(lines) == len(notes(folder)):
            break
        lines = notes(folder)
    return lines
