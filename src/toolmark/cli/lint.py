"""`toolmark lint`."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from toolmark import linting
from toolmark.calls import ToolSpec
from toolmark.cases import LLMTestCase
from toolmark.cli.help import command
from toolmark.cli.inputs import kind_of_file, read_input
from toolmark.cli.io import WRONG_INPUT, exit_on_error, stop, write_json
from toolmark.cli.options import allow_nan_option, json_option, source_argument
from toolmark.cli.path_types import Source


@command("toolmark lint goldens.jsonl", "toolmark lint goldens.jsonl --tools tools.json --ignore placeholder")
@source_argument
@click.option(
    "--tools",
    "tools_path",
    type=Source(allow_dash=True),
    metavar="FILE",
    help="JSON file with the available tools, or recorded messages or traces with them.  [default: those of each case]",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice([kind.value for kind in linting.LintKind]),
    metavar="KIND",
    help=f"Leave out findings of this kind: {', '.join(kind.value for kind in linting.LintKind)}; may be repeated.",
)
@json_option("Write the findings as JSON.")
@allow_nan_option
def lint(
    *, file: str, tools_path: str | None, ignored: tuple[str, ...], json_path: str | None, allow_nan: bool
) -> None:
    """Check the expectations of cases or goldens without scoring them.

    FILE is a file that `toolmark score` reads, or goldens; recorded calls are ignored. Each finding is one line.

    Exit code 0 without findings, 1 with findings, 2 if the command line is wrong or FILE or the tools cannot be read.
    """
    if file == tools_path == "-":
        stop("FILE and --tools cannot both be standard input")
    with exit_on_error(file, "nothing was checked"):
        tools = None if tools_path is None else _tools_in(tools_path)
        if kind_of_file(file) == "log":
            report = linting.lint(read_input(file, {"allow_nan": allow_nan}), tools)
        else:
            report = linting.lint(file, tools, allow_nan=allow_nan)
    report = replace(report, findings=tuple(one for one in report.findings if one.kind.value not in ignored))
    if not write_json(report.to_dict(), json_path):
        for line in report.lines():
            click.echo(line)
        click.echo(report.summary(), err=True)
    sys.exit(int(bool(report)) if report.cases else WRONG_INPUT)


def _tools_in(path: str) -> list[ToolSpec]:
    """Return the tools of a file of tools, or those that were offered in recorded messages or traces."""
    if kind_of_file(path) != "log":
        return linting.read_tools(path)
    tools: dict[str, ToolSpec] = {}
    for case in read_input(path, {}):
        for tool in (case.available_tools if isinstance(case, LLMTestCase) else None) or []:
            tools.setdefault(tool.name, tool)
    return list(tools.values())
