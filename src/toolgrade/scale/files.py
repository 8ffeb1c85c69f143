"""Scoring of files that are too large for one list of cases: part by part, in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from toolgrade._internal.text import printable
from toolgrade.analysis.field_paths import value_at
from toolgrade.cases import LLMTestCase
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.measuring import checked_metrics, waits
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.scale.local_pool import check_picklable
from toolgrade.scale.part_store import Folder
from toolgrade.scale.partition import PART_BYTES, check_files, small_parts
from toolgrade.scale.run import Progress, Run, quiet
from toolgrade.scale.score_part import Options
from toolgrade.scale.totals import Totals
from toolgrade.stats.number_checks import check_positive

T = TypeVar("T")


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
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
) -> Totals:
    """Score the cases of files of any size, and return the totals of the results in constant memory.

    Files are JSON Lines, plain or compressed (gzip, zstd), or one JSON array; see docs/scale.md. If a line is not a
    case, nothing is scored, as with `read_cases`; an incomplete last line is skipped with a `TornLineWarning`.

    Args:
        files: Paths, in the order of the results.
        metrics: At least one metric; metrics that ask a judge are not supported.
        results: A file that does not exist yet, for the results of every case, as `evaluate(results=...)` writes it. It
            appears complete or not at all, and does not depend on `processes` or on how often the run was resumed.
        resume: Resume a killed run, whose parts are next to `results`; files and options must be the same.
        processes: Number of processes; by default one per core.
        contents: Write the cases with their results, with secrets redacted; otherwise only ids and names.
        cluster: Path of the cluster in a case, such as `metadata.task`, for the intervals; by default cases are
            independent. Memory grows with the number of clusters.
        allow_nan: See `toolgrade.read_cases`.
        part_bytes: Size of the parts of plain files; a resumed run keeps its own.
        progress: Called with the number of finished bytes, and of all.

    Raises:
        ConfigurationError: An option is invalid, `results` exists, or the run to resume is a different one.
        DataFileError: Lines of the files cannot be read; `problems` has the first thousand.
        MissingPackageError: zstd needs a package that is not installed.
        WorkerDiedError: A process was killed; finished parts are stored for `resume`.
        OSError: A file cannot be read or written.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, write_cases
        >>> from toolgrade.scale import score_files
        >>> weather = [ToolCall(name="get_weather")]
        >>> cases = [LLMTestCase(tools_called=called, expected_tools=weather) for called in [weather, []] * 20]
        >>> write_cases("cases.jsonl", cases)
        >>> print(score_files(["cases.jsonl"], [ToolCorrectnessMetric()], results="results.jsonl", processes=1))
        tool_correctness: mean 0.5 over 40 cases; 20 passed, 20 failed (at 0.5), 0 skipped, 0 errored
    """
    check_positive(1 if processes is None else processes, "processes")
    check_positive(part_bytes, "part_bytes")
    check_cluster(cluster)
    options = Options(scorable(metrics), cluster, contents, allow_nan)
    run = _run(files, options, processes, progress)
    return _in_folder(run, results, lambda run: run.totals(part_bytes), resume=resume)


def report_file(
    file: str,
    metrics: Sequence[MetricLike],
    *,
    full: int,
    results: str | None = None,
    resume: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    part_bytes: int | None = None,
    allow_nan: bool = False,
) -> Report:
    """Score the cases of one large file with `score_files`, and return the report that `evaluate` would return.

    Args:
        file: Its path.
        metrics: See `score_files`.
        full: Number of worst results by each metric that are in the report with their case and reason; 0 for all.
        results: See `score_files`.
        resume: See `score_files`.
        processes: See `score_files`.
        progress: See `score_files`.
        part_bytes: Size of the parts; by default such that all cores are busy to the end.
        allow_nan: See `toolgrade.read_cases`.

    Raises:
        ToolgradeError: See `score_files`.
        OSError: The file cannot be read, or the results cannot be written.
    """
    run = _run([file], Options(scorable(metrics), allow_nan=allow_nan), processes, progress, full=full)
    return _in_folder(run, results, lambda run: run.report(part_bytes or small_parts(file)), resume=resume)


def _run(
    files: Sequence[str | os.PathLike[str]],
    options: Options,
    processes: int | None,
    progress: Progress | None,
    *,
    full: int | None = None,
) -> Run:
    workers = (os.cpu_count() or 1) if processes is None else processes
    if workers > 1:
        check_picklable(options)
    return Run(check_files(files), options, workers, progress or quiet, full=full)


def _in_folder(run: Run, results: str | os.PathLike[str] | None, score: Callable[[Run], T], *, resume: bool) -> T:
    """Score the files, with the parts in a folder next to the results."""
    if results is None:
        if resume:
            raise ConfigurationError("resume needs the file of results to resume; set results")
        return score(run)
    target = Path(results)
    if os.path.realpath(target) in map(os.path.realpath, run.paths):
        raise ConfigurationError(f"{printable(str(target))} is one of the files that are scored")
    with (folder := Folder(target)).locked(resume=resume):
        totals = score(replace(run, folder=folder))
        folder.remove()
    return totals


def scorable(metrics: object) -> tuple[MetricLike, ...]:
    """Return metrics that can score files.

    Raises:
        ConfigurationError: One asks a judge or is not a metric.
    """
    listed = checked_metrics(metrics)
    for metric in listed:
        if waits(metric):
            remedy = "read the cases with read_cases and call evaluate"
            raise ConfigurationError(f"{metric.label} asks a judge, which scoring of files does not support; {remedy}")
    return tuple(listed)


def check_cluster(cluster: str | None) -> None:
    """Check that the cluster is a path or `None`.

    Raises:
        ConfigurationError: It is neither.
    """
    if cluster is not None:
        value_at(LLMTestCase(), cluster, "cluster")
