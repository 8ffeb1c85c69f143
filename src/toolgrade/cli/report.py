"""`toolgrade report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from toolgrade._internal.text import plural, printable
from toolgrade.cli.help import command
from toolgrade.cli.inputs import expand
from toolgrade.cli.io import exit_on_error, warn
from toolgrade.cli.options import InputPath, OutputPath
from toolgrade.cli.report_options import ReportOptions, exit_by, gate_options, option, report_options, with_name
from toolgrade.report import Report

_PAGE = "toolgrade-report.html"


@command(
    "toolgrade report results.jsonl",
    "toolgrade report results.jsonl --open",
    "toolgrade report monday.jsonl tuesday.jsonl --html report.html --by tag",
    "toolgrade report results.jsonl --name 'release 7' --meta model=gpt-4.1 --md summary.md",
    "toolgrade report results.jsonl --github --lines-of goldens.jsonl",
)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=InputPath(allow_dash=True))
@gate_options("; by default, the gate that RESULTS were measured with")
@click.option(
    "--lines-of",
    multiple=True,
    type=InputPath(exists=True),
    metavar="FILE",
    help="File or folder of the goldens or cases, whose lines --github annotates; may be repeated.",
)
@report_options
@option("--comment", is_flag=True, help="Also post the report on the pull request of this run of GitHub Actions.")
@option("--open", "opens", is_flag=True, help=f"Open the HTML page in a browser; it is {_PAGE} without --html.")
def report(
    *,
    results: tuple[str, ...],
    gate: Mapping[str, float],
    lines_of: tuple[str, ...],
    display: ReportOptions,
    opens: bool,
    comment: bool,
) -> None:
    """Show results that were written to a file, and what changed since earlier ones.

    RESULTS is a file of `toolgrade score --results` or --json, or of `toolgrade.evaluate`; "-" is standard input. Of
    several files, the earliest first, the last one is shown: it is compared with the one before, and the pass rates of
    all of them are a trend. --name is then repeated in their order. The report is printed unless it is written to
    files.

    Exit code 0 if the gate holds, 1 if it does not, with the reason on standard error, 2 if the command line or RESULTS
    is wrong. With several files it is the gate of the last one.
    """
    if opens:
        display = _with_page(display)
    reports = _read(results, display)
    evaluation = reports[-1] = replace(reports[-1], gate=replace(reports[-1].gate, **gate))
    display.show(reports, results, lines_of=expand(lines_of, "nothing was shown"), always=False)
    if comment:
        from toolgrade.cli.pull_request import post_comment  # noqa: PLC0415 - loaded only with --comment

        post_comment([with_name(one, path) for one, path in zip(reports, results, strict=True)], display.by)
    if opens:
        _open_page(display.targets["html"])
    exit_by(evaluation)


def _read(paths: Sequence[str], display: ReportOptions) -> list[Report]:
    """Return the reports of these files with their names; the facts of the command line are about the last one."""
    if len(display.names) not in {0, len(paths)}:
        amount = f"{plural(len(paths), 'file')} and {plural(len(display.names), 'name')}"
        raise click.UsageError(f"--name must be there once for each file, in their order; got {amount}")
    if paths.count("-") > 1:
        raise click.UsageError("only one of RESULTS can be standard input")
    names = [{"name": name} for name in display.names] or [{} for _ in paths]
    from toolgrade.evaluation import read_results  # noqa: PLC0415 - not loaded for --help

    reports: list[Report] = []
    for path, facts in zip(paths, [*names[:-1], display.about], strict=True):
        with exit_on_error(path, "nothing was shown"):
            report = read_results(path)
        reports.append(replace(report, about={**report.about, **facts}))
    return reports


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
