"""`toolmark score`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from toolmark._internal.text import number_text, plural, printable
from toolmark.cli.io import INTERRUPTED, exit_on_error, is_torn, part_progress, write_json
from toolmark.cli.metric_options import metric_options
from toolmark.cli.options import SectionedCommand, allow_nan_option, options_in, tolerant_option
from toolmark.cli.path_types import Source, Target
from toolmark.cli.report_options import ReportOptions, fail_under_option, is_below, report_options
from toolmark.dataset import read_cases
from toolmark.evaluation.run import evaluate
from toolmark.metrics import MetricLike
from toolmark.report import MetricSummary
from toolmark.scale.detect import is_begun, is_parquet

if TYPE_CHECKING:
    from toolmark.scale import EngineName, Totals

_part_option = options_in("Many or large files")


@click.command(cls=SectionedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source(allow_dash=True))
@metric_options
@_part_option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Score the files part by part in N processes, in constant memory, and show totals only; see docs/scale.md.",
)
@_part_option(
    "--engine",
    type=click.Choice(["local", "ray", "spark"]),
    help="Score the parts in processes of this machine, or with Ray or Spark (extras of these names).",
)
@_part_option("--cluster", metavar="PATH", help="Field of a case that says which cases are repetitions of one another.")
@_part_option("--no-contents", is_flag=True, help="Write only ids and names of the cases to --results.")
@fail_under_option("Exit with 1 if the mean of a metric is below X or a case could not be scored, not if a case fails.")
@click.option(
    "--results",
    type=Target(dir_okay=False),
    help="Write each case with its results as soon as it is scored, as JSON Lines without secrets.",
)
@click.option("--resume", is_flag=True, help="Resume the file of --results if it exists.")
@report_options
@allow_nan_option
@tolerant_option
def score(
    *,
    files: tuple[str, ...],
    metrics: list[MetricLike],
    processes: int | None,
    engine: EngineName | None,
    cluster: str | None,
    no_contents: bool,
    fail_under: float | None,
    results: str | None,
    resume: bool,
    display: ReportOptions,
    allow_nan: bool,
    tolerant_arguments: bool,
) -> None:
    """Score the cases of FILE.

    FILE holds JSON Lines of test cases or records, or Parquet; "-" is standard input, and gzip is detected. Several
    files, Parquet files, and all files if an option of "Many or large files" is given are scored part by part; the
    report then has totals only.

    Exit code 1 if a scored case is below its threshold (see --fail-under), 2 if the command line, FILE or the file of
    --results is wrong, 130 if interrupted.
    """
    reading = {"allow_nan": allow_nan, "tolerant_arguments": tolerant_arguments}
    by_parts = (processes, engine, cluster) != (None, None, None) or no_contents or len(files) > 1
    summaries: Sequence[MetricSummary]
    first = next(iter(files))  # click requires at least one
    if by_parts or is_parquet(first) or (results is not None and is_begun(results)):
        json_path = display.totals_target()
        options: dict[str, Any] = {
            "results": results,
            "resume": resume,
            "processes": processes,
            "engine": engine or "local",
            "cluster": cluster,
            "contents": not no_contents,
            **reading,
        }
        totals, torn = _score_by_parts(files, metrics, options)
        summaries = totals.summaries
        _show_totals(totals, files, json_path)
    else:
        file = first
        try:
            with exit_on_error(file, "nothing was scored") as caught:
                cases = read_cases(file, **reading)
            with exit_on_error(results or file, "nothing was scored", action="write"):
                report = evaluate(cases, metrics, results=results, resume=resume)
        except KeyboardInterrupt:  # `evaluate` has printed what is done
            sys.exit(INTERRUPTED)
        torn, summaries = is_torn(caught), report.summaries
        display.show(report, file, always=True)
    if fail_under is None:
        sys.exit(int(any(summary.failed for summary in summaries)))
    sys.exit(int(torn or is_below(summaries, fail_under)))


def _score_by_parts(files: Sequence[str], metrics: list[MetricLike], options: dict[str, Any]) -> tuple[Totals, bool]:
    """Return the totals of files, and whether one of them ends in an incomplete line."""
    from toolmark.scale import score_files  # noqa: PLC0415 - most runs score one file

    results = options["results"]
    try:
        with (
            exit_on_error(results or files[0], "nothing was scored", action="read or write") as caught,
            part_progress() as progress,
        ):
            totals = score_files(files, metrics, progress=progress, **options)
    except KeyboardInterrupt:
        remedy = "resume with --resume" if results else "use --results FILE to be able to resume"
        click.echo(f"interrupted; {remedy}", err=True)
        sys.exit(INTERRUPTED)
    return totals, is_torn(caught)


def _show_totals(totals: Totals, files: Sequence[str], json_path: str | None) -> None:
    metrics = [summary.to_dict() for summary in totals.summaries]
    if write_json({"files": list(files), "cases": totals.cases, "metrics": metrics}, json_path):
        return
    click.echo(f"{plural(totals.cases, 'case')} of {plural(len(files), 'file')}")
    for summary in totals.summaries:
        interval = ""
        if summary.mean_interval is not None:
            low, high = map(number_text, summary.mean_interval)
            interval = f"; 95 % interval of the mean: {low} to {high}"
        click.echo(printable(f"{summary}{interval}"))
