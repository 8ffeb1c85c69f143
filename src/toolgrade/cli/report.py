"""`toolgrade report`."""

from __future__ import annotations

import sys

import click

from toolgrade.cli.help import command
from toolgrade.cli.io import exit_on_error
from toolgrade.cli.path_types import Source
from toolgrade.cli.report_options import ReportOptions, fail_under_option, is_below, report_options
from toolgrade.results import read_results


@command("toolgrade report results.jsonl", "toolgrade report results.jsonl --html report.html --baseline before.jsonl")
@click.argument("results", type=Source(allow_dash=True))
@fail_under_option("Exit with 1 if the mean of a metric is below X, or not every case was measured.")
@report_options
def report(*, results: str, fail_under: float | None, display: ReportOptions) -> None:
    """Show results that were written to a file.

    RESULTS is a file of `toolgrade score --results` or --json, or of `toolgrade.evaluate`; "-" is standard input. The
    report is printed unless it is written to files.

    Exit code 0 whatever the scores are, 1 only with --fail-under, 2 if the command line or RESULTS is wrong.
    """
    with exit_on_error(results, "nothing was shown"):
        evaluation = read_results(results)
    display.show(evaluation, results, always=False)
    sys.exit(int(fail_under is not None and (evaluation.interrupted or is_below(evaluation.summaries, fail_under))))
