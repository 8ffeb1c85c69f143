"""`toolgrade compare`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import get_args

import click

from toolgrade._internal.text import printable
from toolgrade.analysis.comparison import compare as compare_reports
from toolgrade.cli.help import command
from toolgrade.cli.io import exit_on_error, stop, title_of, write_json
from toolgrade.cli.options import InputPath, json_option, on_command_line, options_in
from toolgrade.report.pairing import Difference

_gate_option = options_in("When B is worse")


@command(
    "toolgrade compare before.jsonl after.jsonl",
    "toolgrade compare main.jsonl branch.jsonl --fail-on-regression --alpha 0.05",
)
@click.argument("a", type=InputPath(allow_dash=True))
@click.argument("b", type=InputPath(allow_dash=True))
@_gate_option(
    "--fail-on-regression",
    is_flag=True,
    help="Exit with 1 if a case that passed in A failed in B, could not be measured there, or is missing.",
)
@_gate_option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="X",
    help="With --fail-on-regression: fail only if significantly more cases became worse than better (p <= X).",
)
@_gate_option("--allow-missing", is_flag=True, help="With --fail-on-regression: accept cases that B does not have.")
@click.option(
    "--allow-different",
    multiple=True,
    type=click.Choice(get_args(Difference)),
    help="Compare even if the evaluations differ in this; may be repeated.",
)
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Changed cases listed; 0 for all.")
@json_option("Write all numbers and cases as JSON.")
def compare(
    *,
    a: str,
    b: str,
    allow_different: tuple[Difference, ...],
    fail_on_regression: bool,
    alpha: float | None,
    allow_missing: bool,
    limit: int,
    json_path: str | None,
) -> None:
    """Compare two reports of the same cases and show what changed from A to B.

    A and B are files that `toolgrade score` wrote with --json or --results. Cases are paired by their ids. Evaluations
    with different judges, prompts, thresholds or metric options are compared only with --allow-different.

    Exit code 0 whatever changed, 1 with --fail-on-regression if B is worse or no case has a score in both, 2 if the
    command line is wrong or A and B cannot be read or compared.
    """
    if a == b == "-":
        stop("A and B cannot both be standard input")
    if not fail_on_regression and (on_command_line("alpha") or on_command_line("allow_missing")):
        stop("--alpha and --allow-missing need --fail-on-regression")
    with exit_on_error(a, "nothing was compared"):
        comparison = compare_reports(a, b, allow_different=allow_different)
    if not write_json(comparison.to_dict(), json_path):
        from toolgrade.report.terminal.tables import print_comparison  # noqa: PLC0415 - not loaded for --help

        about_a, about_b = {"name": title_of(a), **comparison.about_a}, {"name": title_of(b), **comparison.about_b}
        print_comparison(replace(comparison, about_a=about_a, about_b=about_b), limit=limit)
    if fail_on_regression:
        failures = comparison.failures(alpha=alpha, allow_missing=allow_missing)
        for failure in failures:
            click.echo(f"failed: {printable(failure)}", err=True)
        sys.exit(int(bool(failures)))
