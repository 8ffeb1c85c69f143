"""Engine that scores parts in Spark tasks, one for each part, on a cluster or on this machine.

Parts are sent in groups: a group is one Spark job, and `mapInArrow` scores one part for each row of it. Two groups run
at a time, so that tasks of the next take the cores that the last tasks of one leave free. Parts are divided, stored and
joined as without Spark, so the results are the same, byte by byte. All machines must see the files, and the folder of
the parts, under the same paths.
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

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import printable
from toolgrade.errors import ConfigurationError, WorkerDiedError
from toolgrade.scale.engines.local_pool import attempt, result_of

J = TypeVar("J")
T = TypeVar("T")

_AT_ONCE = 2
"""Number of groups that run at the same time."""

_ATTEMPTS = 4
"""Number of attempts at a part on this machine if its process is killed; the default of Spark for clusters."""

_CANCEL_SECONDS = 0.2
"""Seconds after which jobs are cancelled again, because Spark may have started some in the meantime."""

_MAX_ERROR_LINES = 12

_SCHEMA = "place long, answer binary"


def run_on_spark(work: Callable[[J], T], jobs: Sequence[J], processes: int) -> Generator[tuple[J, T], None, None]:
    """Yield each job with the result of `work`, in any order; see `run_jobs`.

    The active session is used. Without one, a session is started by the usual settings of Spark (`SPARK_REMOTE`,
    `spark-submit`, `spark-defaults.conf`); if they name no master, it runs on this machine.

    Args:
        work: Called once for each job, in another process.
        jobs: The jobs.
        processes: Number of cores, if Spark is started on this machine; a cluster uses all it has.

    Raises:
        MissingPackageError: PySpark is not installed.
        ConfigurationError: Spark does not start, or there is no Java.
        WorkerDiedError: Spark gave up a part.
    """
    if not jobs:
        return
    sql = import_extra("pyspark.sql", "spark", "--engine spark")
    with _session(sql, processes) as spark:
        yield from _run_groups(spark, work, jobs)


def _run_groups(spark: Any, work: Callable[[J], T], jobs: Sequence[J]) -> Generator[tuple[J, T], None, None]:  # noqa: ANN401 - a module without types
    """Run the groups in threads; this thread only waits, because Ctrl-C in a call of Spark would leave jobs running."""
    groups = _Groups(spark, work, iter(jobs))
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toolgrade-spark")
    under_way = {threads.submit(groups.next) for _ in range(_AT_ONCE)}
    try:
        while under_way:
            for finished in wait(under_way, return_when=FIRST_COMPLETED).done:
                under_way.remove(finished)
                group, rows = _group_result(finished)
                if group:
                    under_way.add(threads.submit(groups.next))
                for row in rows:
                    answer = result_of(loads(bytes(row["answer"])))  # noqa: S301 - our own process wrote it
                    yield group[row["place"]], answer
    finally:
        _cancel(spark, groups.tag, under_way)
        threads.shutdown()


def _group_result(finished: Future[tuple[list[J], list[Any]]]) -> tuple[list[J], list[Any]]:
    try:
        return finished.result()
    except Exception as error:  # an error of a part is in its answer, so this one is of Spark itself
        raise WorkerDiedError(f"Spark gave up parts: {_first_lines(str(error))}") from error


class _Groups:
    """Groups of as many jobs as Spark has cores. Each group is one Spark job, and all of these have the same tag."""

    def __init__(self, spark: Any, work: Callable[[Any], Any], jobs: Iterator[Any]) -> None:  # noqa: ANN401 - as above
        self.tag = f"toolgrade-{os.urandom(8).hex()}"
        self._spark, self._work, self._jobs = spark, work, jobs
        self._turn = threading.Lock()

    def next(self) -> tuple[list[Any], list[Any]]:
        """Run the next group; return it, empty at the end, and a row with position and answer for each of its jobs."""
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
            context.setInterruptOnCancel(True)  # otherwise cancelled parts are still scored to the end
        return group, table.collect()


def _cancel(spark: Any, tag: str, under_way: Iterable[Future[Any]]) -> None:  # noqa: ANN401 - as above
    """Cancel the Spark jobs with a tag; without the tag, a thread can only cancel its own jobs."""
    context = _context(spark)
    left = {future for future in under_way if not future.cancel()}
    while left:
        try:
            (spark.interruptTag if context is None else context.cancelJobsWithTag)(tag)
        except Exception:  # noqa: BLE001 - Spark has stopped, and its jobs with it
            return
        left = wait(left, timeout=_CANCEL_SECONDS).not_done


def _cores(spark: Any) -> int:  # noqa: ANN401 - as above
    """Return the number of tasks that Spark runs at the same time; it may grow while Spark works."""
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
        """Yield a row for each job as soon as it is done."""
        arrow = import_extra("pyarrow", "spark", "--engine spark")
        for batch in batches:
            for place in batch.column(0).to_pylist():
                answer = dumps(attempt(self.work, self.jobs[place]))
                columns = [arrow.array([place], arrow.int64()), arrow.array([answer], arrow.binary())]
                yield arrow.RecordBatch.from_arrays(columns, names=["place", "answer"])


@contextmanager
def _session(sql: Any, processes: int) -> Generator[Any, None, None]:  # noqa: ANN401 - as above
    """Yield the active session, or a new one that is stopped at the end."""
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    interrupted = signal.getsignal(signal.SIGINT)
    with _quiet(), _python_of_workers():
        spark = _connect(sql) if os.environ.get("SPARK_REMOTE") else _start(sql, processes)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)  # Spark installs its own handler and never removes it
    try:
        yield spark
    finally:
        spark.stop()


def _connect(sql: Any) -> Any:  # noqa: ANN401 - as above
    try:
        return sql.SparkSession.builder.getOrCreate()
    except Exception as error:
        where = printable(os.environ["SPARK_REMOTE"])
        raise ConfigurationError(
            f"Spark cannot be reached at SPARK_REMOTE={where}: {_first_lines(str(error))}"
        ) from error


def _start(sql: Any, processes: int) -> Any:  # noqa: ANN401 - as above
    """Start Spark by its settings; if that fails, the error has what it logged."""
    pyspark = import_extra("pyspark", "spark", "--engine spark")
    gateways = import_extra("pyspark.java_gateway", "spark", "--engine spark")
    with tempfile.TemporaryFile() as log:
        try:
            gateway = pyspark.SparkContext._gateway or gateways.launch_gateway(  # noqa: SLF001 - an earlier session may have left one
                popen_kwargs={"stderr": log}
            )
            settings = _settings(pyspark.SparkConf(_jvm=gateway.jvm), processes)
            pyspark.SparkContext(conf=settings, gateway=gateway)
            return sql.SparkSession.builder.getOrCreate()
        except Exception as error:
            message = _first_lines(f"{_tail(log)}\n{error}")
            remedy = "Spark 4 needs Java 17 or newer: install it, and let JAVA_HOME name its folder"
            raise ConfigurationError(f"Spark did not start: {message}\n{remedy}") from error


def _settings(conf: Any, processes: int) -> Any:  # noqa: ANN401 - as above
    """Return the settings of Spark, with our defaults; by default Spark would use all cores of this machine."""
    if conf.get("spark.master", "local[*]") == "local[*]":
        conf.setMaster(f"local[{processes},{_ATTEMPTS}]")
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    if conf.get("spark.master").startswith("local"):
        conf.setIfMissing("spark.driver.host", "127.0.0.1").setIfMissing("spark.ui.enabled", "false")
    return conf


@contextmanager
def _python_of_workers() -> Generator[None, None, None]:
    """Let the processes of Spark run this Python unless the environment names another; Spark reads it at its start."""
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
    """Hide warnings of Spark about the packages it uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")


def _first_lines(text: str) -> str:
    """Return the first lines of an error of Spark without those of the Java stack."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return "\n".join(map(printable, lines[:_MAX_ERROR_LINES]))
