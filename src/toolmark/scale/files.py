"""Scoring of files that are too large for one list of cases: part by part, in several processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from toolmark._internal.text import printable
from toolmark.analysis.field_paths import value_at
from toolmark.cases import LLMTestCase
from toolmark.errors import ConfigurationError
from toolmark.evaluation.run import checked_metrics
from toolmark.evaluation.session import waits
from toolmark.metrics import MetricLike
from toolmark.scale.engines.local_pool import check_picklable, done
from toolmark.scale.engines.ray import done_on_ray
from toolmark.scale.engines.spark import done_on_spark
from toolmark.scale.part_store import Folder
from toolmark.scale.partition import PART_BYTES, check_files
from toolmark.scale.run import Engine, Progress, Run
from toolmark.scale.score_part import Options
from toolmark.scale.totals import Totals

EngineName: TypeAlias = Literal["local", "ray", "spark"]
"""Who works on the parts."""

_ENGINES: Mapping[EngineName, Engine] = {"local": done, "ray": done_on_ray, "spark": done_on_spark}


def score_files(
    files: Sequence[str | os.PathLike[str]],
    metrics: Sequence[MetricLike],
    *,
    results: str | os.PathLike[str] | None = None,
    resume: bool = False,
    processes: int | None = None,
    contents: bool = True,
    cluster: str | None = None,
    allow_nan: bool = False,
    tolerant_arguments: bool = False,
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
    engine: EngineName = "local",
) -> Totals:
    """Return what the results of the cases of files add up to, in memory that does not grow with their number.

    Files are JSON Lines, plain or packed (gzip, zstd), one JSON array, or Parquet; docs/scale.md says more. Where a
    line is no case, nothing is scored, as with `read_cases`; a torn last line is left out with a `TornLineWarning`.

    Args:
        files: Paths, in the order of the results.
        metrics: At least one metric; none that waits for a judge.
        results: A file that does not exist yet, for the results of every case, as `evaluate(results=...)` writes it. It
            appears whole or not at all, the same however many processes there are and however often it was resumed.
        resume: Go on with a run that was killed, whose parts stand beside `results`; everything must be the same.
        processes: How many work at the same time; by default one for each core.
        contents: Write the cases with their results, without secrets; otherwise their ids and names alone.
        cluster: Where in a case its cluster stands, such as `metadata.task`, for the intervals; by default each case is
            one of its own. Memory grows with the number of clusters.
        allow_nan: See `toolmark.read_cases`.
        tolerant_arguments: See `toolmark.read_cases`.
        part_bytes: Size of the parts of plain files; that of a run that is resumed stays.
        progress: Is told how many parts are done, and of how many.
        engine: `local` for processes of this machine; `ray` for Ray, on the cluster that `RAY_ADDRESS` names or here;
            `spark` for Spark, on the session that is active, by Spark's own settings, or here.

    Raises:
        ConfigurationError: An option is wrong, `results` is there already, or what is resumed is another run.
        DataFileError: Lines that cannot be read, of all files; `problems` has the first thousand.
        MissingPackageError: zstd, Parquet, Ray or Spark needs a package of an extra that is not installed.
        WorkerDiedError: A process was killed; what is done is kept for `resume`.
        OSError: A file cannot be read or written.
    """
    paths = check_files(files)
    _check(processes, part_bytes, engine, cluster)
    options = Options(scorable(metrics), cluster, contents, allow_nan, tolerant_arguments)
    workers = (os.cpu_count() or 1) if processes is None else processes
    if workers > 1:
        check_picklable(options)
    run = Run(paths, options, workers, progress or _quiet, done=_ENGINES[engine])
    return _in_folder(run, None if results is None else Path(results), part_bytes, resume=resume)


def _in_folder(run: Run, target: Path | None, part_bytes: int, *, resume: bool) -> Totals:
    """Run, and keep the parts in a folder beside the results that are wanted."""
    if target is None:
        if resume:
            raise ConfigurationError("resume goes on with a file of results; give results, too")
        return run.totals(part_bytes)
    if os.path.realpath(target) in map(os.path.realpath, run.paths):
        raise ConfigurationError(f"{printable(str(target))} is one of the files that are scored")
    with (folder := Folder(target)).opened(resume=resume):
        totals = replace(run, folder=folder).totals(part_bytes)
        folder.remove()
    return totals


def scorable(metrics: object) -> tuple[MetricLike, ...]:
    """Return what are metrics, of which none asks a judge.

    Raises:
        ConfigurationError: One does, or is no metric.
    """
    found = checked_metrics(metrics)
    for metric in found:
        if waits(metric):
            remedy = "draw a sample (toolmark sample), and judge that, such as in batches (toolmark batch)"
            raise ConfigurationError(f"{metric.label} asks a judge, which files are not scored with; {remedy}")
    return tuple(found)


def _check(processes: object, part_bytes: object, engine: object, cluster: str | None) -> None:
    """Raise where an option is out of range.

    Raises:
        ConfigurationError: One is.
    """
    for name, value in (("processes", 1 if processes is None else processes), ("part_bytes", part_bytes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{name} must be a whole number of at least 1, got {value!r}")
    if engine not in _ENGINES:
        raise ConfigurationError(f"engine must be one of {', '.join(_ENGINES)}, got {engine!r}")
    check_cluster(cluster)


def check_cluster(cluster: str | None) -> None:
    """Raise unless this says where in a case something stands, or nothing.

    Raises:
        ConfigurationError: It does not.
    """
    if cluster is not None:
        value_at(LLMTestCase(), cluster, "cluster")


def _quiet(_done: int, _of: int) -> None:
    """Tell nobody."""
