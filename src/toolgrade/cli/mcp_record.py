"""`toolgrade mcp-record`."""

from __future__ import annotations

import sys

import click

from toolgrade.cli.help import SectionedCommand
from toolgrade.cli.io import reason_of, stop


@click.command(
    "mcp-record",
    cls=SectionedCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    examples=(
        "toolgrade mcp-record --output calls.jsonl -- python server.py",
        "toolgrade score calls.jsonl --metric tool-success-rate",
    ),
)
@click.option("--output", "output", required=True, metavar="FILE", help="File to add the recorded calls to.")
@click.argument("command", nargs=-1, required=True, metavar="SERVER [ARGS]...", type=click.UNPROCESSED)
def mcp_record(*, output: str, command: tuple[str, ...]) -> None:
    """Stand between an MCP client and a server, and record the calls.

    A client starts this command in the place of SERVER, over stdio. All bytes pass through unchanged. FILE receives
    each call with its arguments, result or error and times, and the offered tools, without secrets, as lines of
    OpenTelemetry spans that `toolgrade score` and `toolgrade convert` read: a run for each session with a call.

    The exit code is that of SERVER; 2 if the command line is wrong, FILE cannot be opened, or SERVER cannot be started.
    """
    from toolgrade.live.mcp_proxy import run_proxy  # noqa: PLC0415 - not loaded for --help

    try:
        code = run_proxy(command, output)
    except OSError as error:
        stop(f"{error.filename or output}: {reason_of(error)}; the server was not started")
    sys.exit(code)
