"""`toolmark score`: a thin shell over `evaluation`, and over `scale` where files are many or large."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from toolmark._internal.text import printable
from toolmark.cases import TestCase
from toolmark.cli.io import INTERRUPTED, measured, stop, tolerant_option
from toolmark.cli.metric_options import metric_options
from toolmark.cli.path_types import Source, Target
from toolmark.cli.report_options import Showing, fail_under_option, report_options, too_low
from toolmark.cli.score_files import Many, many_options
from toolmark.evaluation.run import evaluate
from toolmark.metrics import MetricLike
from toolmark.report import MetricSummary, Report


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Source(allow_dash=True))
@metric_options
@many_options
@fail_under_option("Exit with 1 if the mean of a metric is below X or a case could not be scored, not if a case fails.")
@click.option(
    "--results",
    type=Target(dir_okay=False),
    help="Write each case with its results there as soon as it is scored, as JSON Lines without secrets.",
)
@click.option("--resume", is_flag=True, help="Go on with the file of --results, if it is there.")
@report_options
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
@tolerant_option
def score(
    *,
    files: tuple[str, ...],
    metrics: list[MetricLike],
    many: Many,
    fail_under: float | None,
    results: str | None,
    resume: bool,
    showing: Showing,
    allow_nan: bool,
    tolerant_arguments: bool,
) -> None:
    """Score the cases of FILE (JSON Lines of test cases or records, "-" for standard input, gzip is fine).

    Several files, Parquet, and what is given with --processes are scored part by part, and only sums are shown.

    Exit code 1 if a scored case is below its threshold (see --fail-under), 2 if the command line or FILE is wrong, or
    the file of --results; 130 if it was interrupted.
    """
    reading = {"allow_nan": allow_nan, "tolerant_arguments": tolerant_arguments}
    if many.wanted(files, results):
        totals, torn = many.run(files, metrics, results, showing.sums_target(), resume=resume, **reading)
        sys.exit(_exit_code(totals.summaries, fail_under, torn=torn))
    (file,) = files

    def scored(cases: list[TestCase]) -> Report:
        try:
            return evaluate(cases, metrics, results=results, resume=resume)
        except OSError as error:
            stop(f"cannot write {printable(results or '')}: {error.strerror or error}")

    try:
        found, torn = measured(file, scored, **reading)
    except KeyboardInterrupt:  # `evaluate` has told what is done
        sys.exit(INTERRUPTED)
    showing.show(found, file, always=True)
    sys.exit(_exit_code(found.summaries, fail_under, torn=torn))


def _exit_code(summaries: Sequence[MetricSummary], fail_under: float | None, *, torn: bool) -> int:
    if fail_under is None:
        return int(any(summary.failed for summary in summaries))
    return int(too_low(summaries, fail_under) or torn)
