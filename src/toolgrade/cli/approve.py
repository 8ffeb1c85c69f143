"""`toolgrade approve`."""

from __future__ import annotations

import sys

import click

from toolgrade._internal.text import plural, printable
from toolgrade._pytest.approval import approved_calls
from toolgrade.cases import AnyCase, ConversationalTestCase
from toolgrade.cli.help import command
from toolgrade.cli.inputs import read_input
from toolgrade.cli.io import exit_on_error, has_bad_lines, stop
from toolgrade.cli.options import OutputPath, allow_nan_option, reject_option, source_argument
from toolgrade.dataset import Golden, write_cases
from toolgrade.errors import InvalidDataError, MissingFieldError
from toolgrade.inputs import Reading
from toolgrade.redact import DEFAULT


@command("toolgrade approve runs.jsonl --out goldens.jsonl")
@source_argument
@click.option("--out", "target", required=True, type=OutputPath(), metavar="FILE", help="File of the goldens.")
@reject_option
@allow_nan_option
def approve(*, file: str, target: str, reject_bad_lines: bool, allow_nan: bool) -> None:
    """Turn recorded cases or runs into goldens that expect the calls they made.

    FILE is a file that `toolgrade score` reads; its expectations are ignored. Secrets are removed, and match any value
    later. A case is left out if its run ended with an error, or if it lacks its input or its calls.

    Exit code 0 if every case became a golden, 1 if some were left out, 2 if the command line or FILE is wrong or no
    golden is left; nothing is written then.
    """
    with exit_on_error(file, "nothing was written") as caught:
        cases = read_input(file, Reading(allow_nan=allow_nan), reject_bad_lines=reject_bad_lines)
    goldens: list[Golden] = []
    for index, case in enumerate(cases, 1):
        try:
            goldens.append(_golden(case))
        except (InvalidDataError, MissingFieldError) as error:
            name = case.id or case.name or f"#{index}"
            click.echo(f"left out {printable(name)}: {printable(str(error))}", err=True)
    if not goldens:
        stop("no case can be approved; nothing was written")
    with exit_on_error(target, action="write"):
        write_cases(target, goldens)
    click.echo(f"{plural(len(goldens), 'golden')} written to {printable(target)}", err=True)
    sys.exit(int(has_bad_lines(caught) or len(goldens) < len(cases)))


def _golden(case: AnyCase) -> Golden:
    """Return the golden that expects the calls of a case, without secrets."""
    if isinstance(case, ConversationalTestCase) or not isinstance(case.input, str):
        raise MissingFieldError("the input of the case must be text, which a golden needs")
    names = ("id", "available_tools", "tags", "metadata")
    fields = {name: getattr(case, name) for name in names if getattr(case, name)}
    return DEFAULT.model(Golden(input=case.input, expected_tools=approved_calls(case), **fields))
