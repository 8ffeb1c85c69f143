"""Engine that scores parts in Spark tasks, one for each part, on a cluster or on this machine.

The parts are given out in groups, each a job of Spark whose rows are one part each, and which `mapInArrow` works on.
Two groups are under way at a time: while the last tasks of one are awaited, those of the next take the cores that are
free. What a part is, when it is done, and how parts are joined is the same as without Spark, and so are the results,
byte by byte. All machines see the files, and the folder of the parts, under the same paths.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pickle import dumps, loads
from typing import IO, Any, TypeVar

from toolmark._internal.lazy_imports import import_extra
from toolmark._internal.text import printable
from toolmark.errors import ConfigurationError, WorkerDiedError
from toolmark.scale.engines.local_pool import attempted, received

J = TypeVar("J")
T = TypeVar("T")

_AT_ONCE = 2
"""Groups that are under way at the same time."""

_ATTEMPTS = 4
"""How often a part is tried on this machine if its process is killed; Spark's own number for clusters."""

_CANCEL_SECONDS = 0.2
"""Seconds after which jobs are cancelled again, because Spark may have started some in the meantime."""

_TOLD_LINES = 12

_SCHEMA = "place long, made binary"


def done_on_spark(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with what `work` makes of it, in any order, as `done` does.

    Spark is the session that is active; otherwise one is started as Spark's usual settings say (`SPARK_REMOTE`,
    `spark-submit`, `spark-defaults.conf`), which is on this machine where they name no master.

    Args:
        work: Is called once for each job, in another process.
        jobs: The jobs.
        processes: How many cores are used, where Spark is started on this machine; a cluster uses what it has.

    Raises:
        MissingPackageError: PySpark is not installed.
        ConfigurationError: Spark does not start, or there is no Java.
        WorkerDiedError: Spark gave a part up.
    """
    if not jobs:
        return
    sql = import_extra("pyspark.sql", "spark", "--engine spark")
    with _session(sql, processes) as spark:
        yield from _done(spark, work, jobs)


def _done(spark: Any, work: Callable[[J], T], jobs: Sequence[J]) -> Generator[tuple[J, T], None, None]:  # noqa: ANN401 - a module without types
    """Have groups computed in threads; this one only waits, since Ctrl-C in a call to Spark leaves a mess."""
    groups = _Groups(spark, work, iter(jobs))
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toolmark-spark")
    under_way = {threads.submit(groups.next) for _ in range(_AT_ONCE)}
    try:
        while under_way:
            for finished in wait(under_way, return_when=FIRST_COMPLETED).done:
                under_way.remove(finished)
                group, rows = _computed(finished)
                if group:
                    under_way.add(threads.submit(groups.next))
                for row in rows:
                    answer = received(loads(bytes(row["made"])))  # noqa: S301 - our own process wrote it
                    yield group[row["place"]], answer
    finally:
        _cancel(spark, groups.tag, under_way)
        threads.shutdown()


def _computed(finished: Future[tuple[list[J], list[Any]]]) -> tuple[list[J], list[Any]]:
    try:
        return finished.result()
    except Exception as error:  # what a part raises is an answer, so this is of Spark itself
        raise WorkerDiedError(f"Spark gave parts up: {_gist(str(error))}") from error


class _Groups:
    """Jobs, as many at a time as Spark has cores; each group is a job of Spark, and all have one tag."""

    def __init__(self, spark: Any, work: Callable[[Any], Any], jobs: Iterator[Any]) -> None:  # noqa: ANN401 - as above
        self.tag = f"toolmark-{os.urandom(8).hex()}"
        self._spark, self._work, self._jobs = spark, work, jobs
        self._turn = threading.Lock()

    def next(self) -> tuple[list[Any], list[Any]]:
        """Return the next group, empty at the end, and a row for each of its jobs: its place, and the answer."""
        context = _context(self._spark)
        with self._turn:
            group = list(islice(self._jobs, _cores(self._spark)))
            if not group:
                return [], []
            with _quiet():
                numbers = self._spark.range(0, len(group), 1, len(group))
                table = numbers.mapInArrow(_Task(self._work, group).batches, _SCHEMA)
        if context is None:
            self._spark.addTag(self.tag)
        else:
            context.addJobTag(self.tag)
            context.setInterruptOnCancel(True)  # otherwise parts that nobody waits for are scored to their end
        return group, table.collect()


def _cancel(spark: Any, tag: str, under_way: Iterable[Future[Any]]) -> None:  # noqa: ANN401 - as above
    """End the jobs of a tag; what a session is asked by one thread, it does not do to the jobs of another."""
    context = _context(spark)
    left = {future for future in under_way if not future.cancel()}
    while left:
        try:
            (spark.interruptTag if context is None else context.cancelJobsWithTag)(tag)
        except Exception:  # noqa: BLE001 - Spark is gone, and its jobs with it
            return
        left = wait(left, timeout=_CANCEL_SECONDS).not_done


def _cores(spark: Any) -> int:  # noqa: ANN401 - as above
    """Return how many tasks Spark runs at the same time; it may become more while it works."""
    context = _context(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    return max(1, int(spark.range(1 << 16).selectExpr("spark_partition_id()").distinct().count()))


def _context(spark: Any) -> Any:  # noqa: ANN401 - as above
    """Return Spark's context, which a session of Spark Connect does not have."""
    return None if "connect" in type(spark).__module__ else spark.sparkContext


@dataclass(frozen=True)
class _Task:
    """Work of a Spark task on its rows, each of which has the position of a job in the group."""

    work: Callable[[Any], Any]
    jobs: Sequence[Any]

    def batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield a row for each, as soon as it is done."""
        arrow = import_extra("pyarrow", "spark", "--engine spark")
        for batch in batches:
            for place in batch.column(0).to_pylist():
                answer = dumps(attempted(self.work, self.jobs[place]))
                columns = [arrow.array([place], arrow.int64()), arrow.array([answer], arrow.binary())]
                yield arrow.RecordBatch.from_arrays(columns, names=["place", "made"])


@contextmanager
def _session(sql: Any, processes: int) -> Generator[Any, None, None]:  # noqa: ANN401 - as above
    """Give the session that there is, or one that lasts as long as this."""
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    interrupted = signal.getsignal(signal.SIGINT)
    with _quiet(), _python_of_workers():
        spark = _connected(sql) if os.environ.get("SPARK_REMOTE") else _started(sql, processes)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)  # Spark puts its own there, and leaves it
    try:
        yield spark
    finally:
        spark.stop()


def _connected(sql: Any) -> Any:  # noqa: ANN401 - as above
    try:
        return sql.SparkSession.builder.getOrCreate()
    except Exception as error:
        where = printable(os.environ["SPARK_REMOTE"])
        raise ConfigurationError(f"Spark cannot be reached at SPARK_REMOTE={where}: {_gist(str(error))}") from error


def _started(sql: Any, processes: int) -> Any:  # noqa: ANN401 - as above
    """Start Spark as its settings say; what it logs is shown if that fails."""
    pyspark = import_extra("pyspark", "spark", "--engine spark")
    gateways = import_extra("pyspark.java_gateway", "spark", "--engine spark")
    with tempfile.TemporaryFile() as log:
        try:
            gateway = pyspark.SparkContext._gateway or gateways.launch_gateway(  # noqa: SLF001 - one is left of a session before
                popen_kwargs={"stderr": log}
            )
            settings = _settings(pyspark.SparkConf(_jvm=gateway.jvm), processes)
            pyspark.SparkContext(conf=settings, gateway=gateway)
            return sql.SparkSession.builder.getOrCreate()
        except Exception as error:
            gist = _gist(f"{_tail(log)}\n{error}")
            remedy = "Spark 4 needs Java 17 or newer: install it, and let JAVA_HOME name its folder"
            raise ConfigurationError(f"Spark did not start: {gist}\n{remedy}") from error


def _settings(conf: Any, processes: int) -> Any:  # noqa: ANN401 - as above
    """Return Spark's settings, with our own where there are none; without a master, Spark takes all cores of here."""
    if conf.get("spark.master", "local[*]") == "local[*]":
        conf.setMaster(f"local[{processes},{_ATTEMPTS}]")
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    if conf.get("spark.master").startswith("local"):
        conf.setIfMissing("spark.driver.host", "127.0.0.1").setIfMissing("spark.ui.enabled", "false")
    return conf


@contextmanager
def _python_of_workers() -> Generator[None, None, None]:
    """Let Spark's processes run this Python, unless settings say another; Spark asks when it starts."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Tell nobody of warnings between Spark and the packages it uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")


def _gist(text: str) -> str:
    """Return what an error of Spark says, without the stack of the machine below."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return "\n".join(map(printable, lines[:_TOLD_LINES]))
