"""`toolgrade mcp-replay`."""

from __future__ import annotations

import sys

import click

from toolgrade.cli.help import command
from toolgrade.cli.io import exit_on_error


@command("toolgrade mcp-replay runs.jsonl")
@click.argument("file")
def mcp_replay(*, file: str) -> None:
    """Be an MCP server that offers recorded tools, and answers from the recording.

    An MCP client starts this command in the place of a server, over stdio. FILE is a file of runs, as recorders,
    `evaluate` or `toolgrade.replay` write it. A call takes the first recorded call of its tool with equal arguments
    that no earlier call took; a call that is not recorded gets an error, which says how the closest one differs.

    At the end, the number of calls is printed on standard error. Exit code 1 if a call was not in the recording, 2 if
    the command line or FILE is wrong, or the package `mcp` is missing.
    """
    from toolgrade.replay import Tape  # noqa: PLC0415 - not loaded for --help
    from toolgrade.replay.mcp_server import serve  # noqa: PLC0415 - as above

    with exit_on_error(file, "nothing was served"):
        tape = Tape.load(file)
    with exit_on_error("mcp-replay", "nothing was served"):
        serve(tape)
    if sys.stdout.closed:  # as `mcp` 1 leaves it
        sys.stdout = sys.stderr
    click.echo(str(tape), err=True)
    raise SystemExit(int(tape.left > 0))
