"""`toolmark approve`: what recorded runs called becomes what is expected."""

from __future__ import annotations

import sys

import click

from toolmark._internal.text import plural, printable
from toolmark._pytest.approval import approved_calls
from toolmark.cases import Golden, TestCase
from toolmark.cli.io import measured, stop, tolerant_option
from toolmark.cli.path_types import Source, Target
from toolmark.dataset import write_cases
from toolmark.errors import InvalidDataError, MissingFieldError
from toolmark.redact import DEFAULT


@click.command()
@click.argument("file", type=Source(allow_dash=True))
@click.option("--out", "target", required=True, type=Target(), help="Write the goldens there.")
@click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
@tolerant_option
def approve(*, file: str, target: str, allow_nan: bool, tolerant_arguments: bool) -> None:
    """Make goldens of the cases or runs of FILE: what each was asked, and the tools that it called as expected ones.

    FILE is what `toolmark score` reads; what it expects is not looked at. Secrets are taken out, and match anything
    later. A run that ended with an error, or that does not say what it was asked or what it called, is left out.

    Exit code 0 if every case became a golden, 1 if some were left out, 2 if the command line or FILE is wrong, or no
    golden is left; nothing is written then.
    """
    cases, torn = measured(file, list, allow_nan=allow_nan, tolerant_arguments=tolerant_arguments)
    goldens: list[Golden] = []
    for index, case in enumerate(cases):
        try:
            goldens.append(_golden(case))
        except (InvalidDataError, MissingFieldError) as error:
            click.echo(
                f"left out {printable(case.id or case.name or f'#{index + 1}')}: {printable(str(error))}", err=True
            )
    if not goldens:
        stop("no case can be approved; nothing was written")
    try:
        write_cases(target, goldens)
    except OSError as error:
        stop(f"cannot write {printable(target)}: {error.strerror or error}")
    click.echo(f"{plural(len(goldens), 'golden')} written to {printable(target)}", err=True)
    sys.exit(int(torn or len(goldens) < len(cases)))


def _golden(case: TestCase) -> Golden:
    if not isinstance(case.input, str):
        raise MissingFieldError("the case has no input in words, which a golden needs")
    kept = {name: getattr(case, name) for name in ("id", "available_tools", "tags", "metadata") if getattr(case, name)}
    return DEFAULT.model(Golden(input=case.input, expected_tools=approved_calls(case), **kept))
