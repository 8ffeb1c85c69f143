"""`toolmark report`: results that were written down, shown to people and to machines. A thin shell over `report`."""

from __future__ import annotations

import sys

import click

from toolmark.cli.io import guarded
from toolmark.cli.path_types import Source
from toolmark.cli.report_options import Showing, fail_under_option, report_options, too_low
from toolmark.results import read_results


@click.command()
@click.argument("results", type=Source(allow_dash=True))
@fail_under_option("Exit with 1 if the mean of a metric is below X, or not every case was measured.")
@report_options
def report(*, results: str, fail_under: float | None, showing: Showing) -> None:
    """Show the results in RESULTS: a results file of `toolmark.evaluate`, or what `toolmark score --json` wrote.

    Prints them, unless files are asked for; several may be, and "-" is standard output.

    Exit code 0, whatever the scores are; 1 only with --fail-under; 2 if the command line or RESULTS is wrong.
    """
    found, _ = guarded(results, lambda: read_results(results), otherwise="nothing was shown")
    showing.show(found, results, always=False)
    sys.exit(int(fail_under is not None and (found.interrupted or too_low(found.summaries, fail_under))))
