"""`toolgrade report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from toolgrade._internal.text import printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import exit_on_error, warn
from toolgrade.cli.options import InputPath, OutputPath
from toolgrade.cli.report_options import ReportOptions, exit_by, gate_options, option, report_options
from toolgrade.evaluation import read_results

_PAGE = "toolgrade-report.html"


@command(
    "toolgrade report results.jsonl",
    "toolgrade report results.jsonl --open",
    "toolgrade report results.jsonl --html report.html --baseline before.jsonl",
    "toolgrade report results.jsonl --github --lines-of goldens.jsonl",
)
@click.argument("results", type=InputPath(allow_dash=True))
@gate_options("; by default, the gate that RESULTS were measured with")
@click.option(
    "--lines-of",
    multiple=True,
    type=InputPath(exists=True),
    metavar="FILE",
    help="File or folder of the goldens or cases, whose lines --github annotates; may be repeated.",
)
@report_options
@option("--open", "opens", is_flag=True, help=f"Open the HTML page in a browser; it is {_PAGE} without --html.")
def report(
    *, results: str, gate: Mapping[str, float], lines_of: tuple[str, ...], display: ReportOptions, opens: bool
) -> None:
    """Show results that were written to a file.

    RESULTS is a file of `toolgrade score --results` or --json, or of `toolgrade.evaluate`; "-" is standard input. The
    report is printed unless it is written to files.

    Exit code 0 if the gate holds, 1 if it does not, with the reason on standard error, 2 if the command line or RESULTS
    is wrong.
    """
    if opens:
        display = _with_page(display)
    with exit_on_error(results, "nothing was shown"):
        evaluation = read_results(results)
    evaluation = replace(evaluation, gate=replace(evaluation.gate, **gate))
    display.show(evaluation, results, lines_of=expand(lines_of, "nothing was shown"), always=False)
    if opens:
        _open_page(display.targets["html"])
    exit_by(evaluation)


def _with_page(display: ReportOptions) -> ReportOptions:
    """Return the options with a file for the page."""
    path = display.targets.get("html")
    if path == "-":
        raise click.UsageError("--open needs a file; name one with --html")
    if path is None:
        path = str(OutputPath().convert(_PAGE, None, click.get_current_context()))
    return replace(display, targets={**display.targets, "html": path})


def _open_page(path: str) -> None:
    import webbrowser  # noqa: PLC0415 - loaded only with --open

    if not webbrowser.open(Path(path).resolve().as_uri()):
        warn(f"no browser could be started; open {printable(path)} yourself")
