"""`toolgrade mcp-record`."""

from __future__ import annotations

import sys

import click

from toolgrade._internal.text import printable
from toolgrade.cli.help import SectionedCommand
from toolgrade.cli.io import reason_of, stop
from toolgrade.errors import ConfigurationError

_BOTH = "SERVER and --url cannot be combined; give one of them."


@click.command(
    "mcp-record",
    cls=SectionedCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    examples=(
        "toolgrade mcp-record --output calls.jsonl -- python server.py",
        "toolgrade mcp-record --output calls.jsonl --url http://127.0.0.1:8000/mcp --listen 8001",
        "toolgrade score calls.jsonl --goldens goldens.jsonl",
    ),
)
@click.option("--output", "output", required=True, metavar="FILE", help="File to add the recorded calls to.")
@click.option("--url", "url", metavar="URL", help="Address of a server over Streamable HTTP, in place of SERVER.")
@click.option(
    "--listen",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port for the clients of --url; by default a free one.",
)
@click.argument("command", nargs=-1, metavar="SERVER [ARGS]...", type=click.UNPROCESSED)
def mcp_record(*, output: str, url: str | None, listen: int, command: tuple[str, ...]) -> None:
    """Stand between an MCP client and a server, and record the calls.

    A client starts this command in the place of SERVER, over stdio, or opens the printed address in the place of URL.
    All bytes pass through unchanged. FILE receives each call with its arguments, result or error and times, and the
    offered tools, without secrets, as lines of OpenTelemetry spans that `toolgrade score` and `toolgrade convert` read:
    a run for each session with a call.

    The exit code is that of SERVER, and 0 after Ctrl-C with --url; 2 if the command line is wrong, FILE cannot be
    opened, SERVER cannot be started, or PORT is taken.
    """
    if bool(command) == (url is not None):
        raise click.UsageError("Missing argument 'SERVER [ARGS]...', or --url." if url is None else _BOTH)
    if url is not None:
        _record_http(url, output, listen)
        return
    from toolgrade.live.mcp_proxy import run_proxy  # noqa: PLC0415 - not loaded for --help

    try:
        code = run_proxy(command, output)
    except OSError as error:
        stop(f"{error.filename or output}: {reason_of(error)}; the server was not started")
    sys.exit(code)


def _record_http(url: str, output: str, listen: int) -> None:
    """Record the server at an address until it is stopped."""
    from toolgrade.live.mcp_http import run_http_proxy  # noqa: PLC0415 - not loaded for --help

    def ready(address: str) -> None:
        click.echo(f"{address} records {printable(url)} (Ctrl-C ends it)", err=True)

    try:
        run_http_proxy(url, output, listen=listen, ready=ready)
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="'--url'") from error
    except OSError as error:
        if error.filename is not None:
            stop(f"{error.filename}: {error.strerror}; nothing was started")
        stop(f"cannot listen on port {listen}: {error.strerror}; choose another --listen")
