"""`toolgrade lint`."""

from __future__ import annotations

import sys

import click

from toolgrade import linting
from toolgrade.cli.help import command
from toolgrade.cli.inputs import tools_in, tools_option
from toolgrade.cli.io import WRONG_INPUT, exit_on_error, write_json
from toolgrade.cli.options import allow_nan_option, json_option, source_argument


@command("toolgrade lint goldens.jsonl", "toolgrade lint goldens.jsonl --tools tools.json")
@source_argument
@tools_option
@json_option("Write the findings as JSON.")
@allow_nan_option
def lint(*, file: str, tools_path: str | None, json_path: str | None, allow_nan: bool) -> None:
    """Check the expectations of cases or goldens without scoring them.

    FILE is a file that `toolgrade score` reads, or goldens; recorded calls are ignored. Each finding is one line.

    Exit code 0 without findings, 1 with findings, 2 if the command line is wrong or FILE or the tools cannot be read.
    """
    with exit_on_error(file, "nothing was checked"):
        tools = tools_in(tools_path, file)
        report = linting.lint(file, tools, allow_nan=allow_nan)
    if not write_json(report.to_dict(), json_path):
        for line in report.lines():
            click.echo(line)
        click.echo(report.summary(), err=True)
    sys.exit(int(bool(report)) if report.cases else WRONG_INPUT)
