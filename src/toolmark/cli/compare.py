"""`toolmark compare`: is one version better than another? A thin shell over `toolmark.analysis.comparison`."""

from __future__ import annotations

import sys
from typing import get_args

import click

from toolmark._internal.text import count, visible
from toolmark.analysis.comparison import Difference
from toolmark.analysis.comparison import compare as compared
from toolmark.cli.io import stop, title_of, visible_lines, write_result
from toolmark.cli.path_types import Source, Target
from toolmark.errors import DataFileError, ToolmarkError
from toolmark.stats import RESAMPLES


@click.command()
@click.argument("a", type=Source(allow_dash=True))
@click.argument("b", type=Source(allow_dash=True))
@click.option(
    "--allow-different",
    multiple=True,
    type=click.Choice(get_args(Difference)),
    help="Compare although the two differ in this; may be given several times.",
)
@click.option(
    "--fail-on-regression",
    is_flag=True,
    help="Exit with 1 if a case that passed in A failed in B, could not be measured there, or is not there.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="X",
    help="With --fail-on-regression: failed cases count only if significantly more turned worse than better, p <= X.",
)
@click.option("--allow-missing", is_flag=True, help="With --fail-on-regression: cases that B does not have are fine.")
@click.option(
    "--resamples", type=click.IntRange(1), default=RESAMPLES, show_default=True, help="Resamples for the intervals."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random numbers of the resamples.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Changed cases listed; 0 for all.")
@click.option("--json", "json_path", type=Target(allow_dash=True), help="Write all numbers and cases there.")
def compare(
    *,
    a: str,
    b: str,
    allow_different: tuple[Difference, ...],
    fail_on_regression: bool,
    alpha: float | None,
    allow_missing: bool,
    resamples: int,
    seed: int,
    limit: int,
    json_path: str | None,
) -> None:
    """Show what changed from A to B, two reports of the same cases as `toolmark score --json` writes them.

    Cases are paired by their ids. Reports of different judges, prompts, thresholds or options of a metric are not
    compared unless --allow-different says so.

    Exit code 0, whatever changed; 1 with --fail-on-regression, if B is worse or no case has a score in both; 2 if the
    command line is wrong, or A and B cannot be read or compared.
    """
    if a == b == "-":
        stop("standard input can be A or B, not both")
    if not fail_on_regression and (alpha is not None or allow_missing):
        stop("--alpha and --allow-missing say when --fail-on-regression fails; give it too")
    try:
        found = compared(a, b, allow_different=allow_different, resamples=resamples, seed=seed)
    except DataFileError as error:
        stop(f"{visible_lines(str(error))}\n{count(len(error.problems), 'problem')}; nothing was compared")
    except OSError as error:
        stop(f"cannot read {visible(str(error.filename))}: {error.strerror or error}")
    except ToolmarkError as error:
        stop(visible_lines(str(error)))
    if not write_result(found, json_path):
        from toolmark.report.terminal import print_comparison  # noqa: PLC0415 - `toolmark --help` stays quick

        print_comparison(found, title_a=title_of(a), title_b=title_of(b), limit=limit)
    failures = found.failures(alpha=alpha, allow_missing=allow_missing) if fail_on_regression else ()
    for text in failures:
        click.echo(f"failed: {visible(text)}", err=True)
    sys.exit(int(bool(failures)))
