"""The `toolgrade` command, whose subcommands are loaded when they are called.

Exit codes: 0 success, 1 the scores are not good enough, 2 the command line or the input is wrong, 70 an error in
toolgrade itself (`EX_SOFTWARE`), 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from toolgrade.cli.help import write_commands, write_examples

WRONG_OUTPUT = 2
"""Exit code if standard output cannot be written."""

EX_SOFTWARE = 70
"""Exit code of an error in toolgrade itself, as in `sysexits.h`."""

# Summary of each command, by purpose. It is the first sentence of the command's own help; `toolgrade --help` prints it
# without importing the command.
_SECTIONS = {
    "Start": {
        "init": "Write a gate for pytest, two goldens, a tape and a CI workflow that run at once, offline.",
        "convert": "Convert recorded messages or traces to test cases.",
        "mcp-record": "Stand between an MCP client and a server, and record the calls.",
        "mcp-replay": "Be an MCP server that offers recorded tools, and answers from the recording.",
        "approve": "Turn recorded cases or runs into goldens that expect the calls they made.",
        "lint": "Check the expectations of cases or goldens without scoring them.",
    },
    "Score and look": {
        "score": "Score the cases of FILE.",
        "report": "Show results that were written to a file, and what changed since earlier ones.",
        "compare": "Compare two reports of the same cases and show what changed from A to B.",
    },
    "Check the metrics": {
        "validate": "Measure how well scores separate good runs from bad ones, by a label in the cases.",
    },
}
_EXAMPLES = (
    "toolgrade score runs.jsonl                       score test cases, logs or traces",
    "toolgrade score runs.jsonl --html report.html    write a page for a browser",
    "toolgrade compare before.jsonl after.jsonl       show what changed",
    "toolgrade score --help                           list the metrics and options",
)


def _load_command(name: str) -> click.Command:
    """Import a command, and add a note to its help if pyproject.toml may set its options."""
    function = name.replace("-", "_")
    command: click.Command = getattr(import_module(f"toolgrade.cli.{function}"), function)
    from toolgrade.cli.settings import COMMANDS  # noqa: PLC0415 - not loaded for --help

    if name in COMMANDS:
        command.epilog = f"Defaults of options may be set in pyproject.toml, under [tool.toolgrade.{name}]."
    return command


class _LazyGroup(click.Group):
    """A group that imports a command when it is called, and none to list them."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command; an error that nobody expected becomes one line and the exit code 70."""
        try:
            # Cases are many small objects without cycles, so the usual threshold of 700 costs a tenth of the time.
            gc.set_threshold(50_000, *gc.get_threshold()[1:])
            with _one_line_errors():
                try:
                    return super().main(*args, **options)
                finally:
                    if sys.stdout is not None:
                        sys.stdout.flush()  # a full disk is noticed here, not when the interpreter ends
        except KeyboardInterrupt:  # outside of click, which handles its own
            from toolgrade.cli.io import INTERRUPTED  # noqa: PLC0415 - not loaded for --help

            sys.exit(INTERRUPTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own
        """Return the imported command, or `None` if there is no such name."""
        return _load_command(cmd_name) if cmd_name in self.commands else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; the settings of the project become its defaults."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and name is not None and not (ctx.params.get("no_settings") or ctx.resilient_parsing):
            from toolgrade.cli.settings import settings_for  # noqa: PLC0415 - not loaded for --help

            ctx.default_map = {name: settings_for(name, _load_command)}
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        """List the commands by purpose, and examples."""
        for title, summaries in _SECTIONS.items():
            write_commands(formatter, title, [self.commands[name] for name in summaries])
        write_examples(formatter, _EXAMPLES)


@contextmanager
def _one_line_errors() -> Generator[None, None, None]:
    """Print one line for an exception that no command handles, and exit.

    Commands report what goes wrong with the files that they read and write (`cli.io.exit_on_error`), so an `OSError`
    that arrives here is about standard output.
    """
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise  # only without click's standalone mode
    except OSError as error:
        _discard_output()
        if error.errno == errno.EPIPE:
            sys.exit(1)  # the reader of a pipe has ended, as `head` does: click's own exit code
        click.echo(f"error: cannot write standard output: {error.strerror or error}", err=True)
        sys.exit(WRONG_OUTPUT)
    except Exception as error:  # noqa: BLE001 - whatever it is, a user should not have to read a traceback
        from toolgrade._internal.lazy_imports import installed_version  # noqa: PLC0415
        from toolgrade._internal.text import printable  # noqa: PLC0415 - not loaded for --help

        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"this is an error in toolgrade {installed_version()}: {type(error).__name__}: {error}"
        place = f"{Path(last.filename).name}, line {last.lineno}"
        click.echo(printable(f"{text} ({place}); please report it, with this line and the command"), err=True)
        sys.exit(EX_SOFTWARE)


def _discard_output() -> None:
    """Discard what is left of standard output, which Python would try to write once more at the end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is not a file of the system
        return


@click.group(
    cls=_LazyGroup,
    commands=[click.Command(name, help=text) for texts in _SECTIONS.values() for name, text in texts.items()],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="toolgrade", prog_name="toolgrade")
@click.option("--no-settings", is_flag=True, help="Ignore the settings in pyproject.toml.")
def main(*, no_settings: bool) -> None:  # noqa: ARG001 - read by `resolve_command`
    """Measure how well LLM agents call their tools.

    A project sets defaults of options in [tool.toolgrade] of its pyproject.toml; the command line wins over them.
    """
    # A character that the encoding of a pipe lacks must not end the program.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def run() -> None:
    """Run the command of the command line, and end the process."""
    try:
        main()
    finally:
        # All output is written: while the interpreter ends, Ctrl-C would only add a traceback or change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
