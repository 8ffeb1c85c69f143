"""`toolgrade view`."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolgrade._internal.text import printable
from toolgrade.cli.help import command
from toolgrade.cli.io import exit_on_error, reason_of, stop, warn
from toolgrade.cli.path_types import Source

if TYPE_CHECKING:
    from toolgrade.view.pages import Pages

_MOST_FILES = 2


@command("toolgrade view results.jsonl", "toolgrade view before.jsonl after.jsonl --no-open")
@click.argument("results", nargs=-1, required=True, type=Source(), metavar="[BEFORE] RESULTS")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option("--no-open", is_flag=True, help="Print the address, and do not open a browser.")
def view(*, results: tuple[str, ...], host: str, port: int, no_open: bool) -> None:
    """Browse results of any size in a browser.

    RESULTS is a file of `toolgrade score --results` or --json, or of `toolgrade.evaluate`. With BEFORE, an earlier file
    of the same cases, both are shown side by side, cases that became worse first. The pages are served by this machine,
    and to this machine only unless --host says otherwise. Ctrl-C ends the server.

    Exit code 0, or 2 if the command line or a file is wrong.
    """
    if len(results) > _MOST_FILES:
        stop("at most two files can be shown: BEFORE and RESULTS")
    from toolgrade.view.build import build_index  # noqa: PLC0415 - not loaded for --help
    from toolgrade.view.pages import Pages  # noqa: PLC0415 - likewise
    from toolgrade.view.results_file import ResultsFile  # noqa: PLC0415 - likewise

    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))  # removes the temporary files
    with tempfile.TemporaryDirectory(prefix="toolgrade-view-") as folder:
        begin = time.perf_counter()
        with exit_on_error(str(Path(results[0])), "nothing is shown"):
            # The later file first.
            files = [ResultsFile(Path(path), Path(folder)) for path in reversed(results)]
            before = files[1] if len(files) > 1 else None
            index, evaluation = build_index(Path(folder) / "index.sqlite", files[0], before)
        warn(*evaluation.warnings)
        pages = Pages(index, evaluation, files)
        names = " and ".join(file.name for file in files)
        click.echo(f"read {index.total:,} cases of {names} in {time.perf_counter() - begin:.1f} s", err=True)
        serve(pages, host, port, opens=not no_open)


def serve(pages: Pages, host: str, port: int, *, opens: bool) -> None:
    """Serve pages until Ctrl-C."""
    from toolgrade.view.server import PageServer  # noqa: PLC0415 - not loaded for --help

    try:
        server = PageServer(host, port, pages)
    except OSError as error:
        where = f"{printable(host)}, port {port}"
        stop(f"cannot listen on {where}: {reason_of(error)}; choose another --port or --host")
    with server:
        if not server.is_local:
            warn(f"everyone who reaches {printable(host)} can read these results")
        click.echo(f"{server.address} (Ctrl-C ends it)")
        if opens:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo(err=True)
