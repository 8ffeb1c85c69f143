"""Spark in particular: a session that is there already, a server, settings, and no Spark or Java at all."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from engines import PATHS, need
from processes import COMMAND, run_python
from scale_files import metrics, without_start, write_lines
from toolgrade.errors import MissingPackageError
from toolgrade.scale import score_files

CHOSEN = ["--metric", "tool-correctness", "--metric", "tool-efficiency", "--params", "input", "--max-calls", "2"]

#: A program that scores without its own session and then with one, and prints the state afterwards.
PROGRAM = """
import os, signal, sys
from pyspark.sql import SparkSession
from scale_files import metrics
from toolgrade.scale import score_files
before = signal.getsignal(signal.SIGINT)
score_files(["a"], metrics(), results="r", engine="spark", part_bytes=2000)
print(signal.getsignal(signal.SIGINT) is before, "PYSPARK_PYTHON" in os.environ)
print(SparkSession.getActiveSession())
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1").getOrCreate()
score_files(["a"], metrics(), results="t", engine="spark", part_bytes=2000)
print(spark.range(3).count(), spark.sparkContext.master)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of cases, and its results in `s`."""
    write_lines(tmp_path / "a", 60, 1)
    score_files([tmp_path / "a"], metrics(), results=tmp_path / "s", processes=1)
    return tmp_path


def test_missing_spark_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    write_lines(tmp_path / "a", 3)

    with pytest.raises(MissingPackageError, match=r"'pyspark'.*toolgrade\[spark\]"):
        score_files([tmp_path / "a"], metrics(), engine="spark")


@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark, of the extra `spark`, is not installed here")
def test_missing_java_is_reported(folder: Path) -> None:
    """The message has Spark's error and a remedy."""
    (folder / "bin").mkdir()
    for name in ("bash", "dirname", "env", "sh", "uname", "ps", "find", "sed", "cut", "tr"):
        java = next((Path(place, name) for place in os.get_exec_path() if Path(place, name).exists()), None)
        if java is not None:
            (folder / "bin" / name).symlink_to(java)
    settings = {"PATH": str(folder / "bin"), "JAVA_HOME": ""}

    done = run_python(["-W", "ignore", *COMMAND, "score", "a", "--engine", "spark", *CHOSEN], folder, settings=settings)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: Spark did not start: JAVA_HOME is not set\n")
    assert done.err.endswith("Spark 4 needs Java 17 or newer: install it, and let JAVA_HOME name its folder\n")


def test_spark_is_started_and_ended_or_used_and_left(folder: Path) -> None:
    """Toolgrade stops a session that it started, without leftover settings or handlers; an existing one continues."""
    need("spark")

    done = run_python(["-W", "ignore", "-c", PROGRAM], folder, settings={"PYTHONPATH": PATHS})

    assert (done.code, done.out) == (0, "True False\nNone\n3 local[1]\n"), done.err
    for name in ("r", "t"):
        assert without_start(folder / name) == without_start(folder / "s")
    assert {path.name for path in folder.iterdir()} == {"a", "r", "s", "t"}


def test_a_server_of_spark_connect_is_used(folder: Path) -> None:
    """`SPARK_REMOTE` is enough."""
    need("spark")
    need("spark", "grpc_status")
    settings = {"PYTHONPATH": PATHS, "SPARK_REMOTE": "local[2]"}
    arguments = ["score", "a", "--results", "r", "--engine", "spark", *CHOSEN]

    done = run_python(["-W", "ignore", *COMMAND, *arguments], folder, settings=settings)

    assert done.code == 1, done.err
    assert without_start(folder / "r") == without_start(folder / "s")
