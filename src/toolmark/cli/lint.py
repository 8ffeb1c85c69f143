"""`toolmark lint`: does a file of cases ask for what can be done? A thin shell over `toolmark.linting`."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from toolmark import linting
from toolmark._internal.text import plural, printable
from toolmark.cli.io import stop, visible_lines, write_result
from toolmark.cli.path_types import Source, Target
from toolmark.errors import DataFileError, ToolmarkError


@click.command()
@click.argument("file", type=Source(allow_dash=True))
@click.option(
    "--tools",
    "tools_path",
    type=Source(allow_dash=True),
    help="A JSON file with the available tools; by default those of each case.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice([kind.value for kind in linting.LintKind]),
    help="Leave out findings of this kind.",
)
@click.option("--json", "json_path", type=Target(allow_dash=True), help="Write the findings there.")
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
def lint(
    *, file: str, tools_path: str | None, ignored: tuple[str, ...], json_path: str | None, allow_nan: bool
) -> None:
    """Show all that is wrong with what the cases or goldens of FILE expect, a line for each finding.

    FILE is what `toolmark score` reads; what was called does not matter.

    Exit code 0 if nothing was found, 1 if something was, 2 if the command line is wrong or FILE or the tools cannot be
    read.
    """
    if file == tools_path == "-":
        stop("standard input can be the cases or the tools, not both")
    at = tools_path
    try:
        tools = None if tools_path is None else linting.read_tools(tools_path)
        at = file
        report = linting.lint(file, tools, allow_nan=allow_nan)
    except DataFileError as error:
        stop(f"{visible_lines(str(error))}\n{plural(len(error.problems), 'problem')}; nothing was checked")
    except OSError as error:
        stop(f"cannot read {printable(str(at))}: {error.strerror or error}")
    except ToolmarkError as error:
        stop(visible_lines(str(error)))
    report = replace(report, findings=tuple(one for one in report.findings if one.kind.value not in ignored))
    if not write_result(report, json_path):
        for line in report.lines():
            click.echo(line)
        click.echo(report.summary(), err=True)
    sys.exit(int(bool(report)) if report.cases else 2)
