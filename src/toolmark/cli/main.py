"""The `toolmark` command, whose subcommands are loaded when they are called.

Exit codes: 0 success, 1 the scores are not good enough, 2 the command line or the input is wrong, 70 an error in
toolmark itself (`EX_SOFTWARE`), 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

WRONG_OUTPUT = 2
"""Exit code if standard output cannot be written."""

EX_SOFTWARE = 70
"""Exit code of an error in toolmark itself, as in `sysexits.h`."""

# Module and summary of each command. The summary is the first sentence of the command's own help; `toolmark --help`
# prints it without importing the module.
_COMMANDS = {
    "approve": ("approve", "Turn recorded cases or runs into goldens that expect the calls they made."),
    "batch": ("batch", "Judge cases with OpenAI's Batch API, at half the price and within a day."),
    "compare": ("compare", "Compare two reports of the same cases and show what changed from A to B."),
    "convert": ("convert", "Convert recorded messages or traces to test cases."),
    "extrapolate": ("sample", "Estimate full-population scores from the RESULTS of a sample."),
    "feedback": ("feedback", "Export scores to the tracing tools that the cases came from."),
    "lint": ("lint", "Check the expectations of cases or goldens without scoring them."),
    "report": ("report", "Show results that were written to a file."),
    "sample": ("sample", "Draw a random sample of cases, without replacement."),
    "score": ("score", "Score the cases of FILE."),
    "validate": ("validate", "Measure how well scores separate good runs from bad ones, by a label in the cases."),
}


class _LazyCommand(click.Command):
    """Placeholder for a command that is not imported yet."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module = module

    def load(self) -> click.Command:
        """Import the command."""
        command: click.Command = getattr(import_module(f"toolmark.cli.{self.module}"), str(self.name))
        return command


class _LazyGroup(click.Group):
    """A group that imports a command when it is called, and none to list them."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command; an error that nobody expected becomes one line and the exit code 70."""
        with _one_line_errors():
            try:
                return super().main(*args, **options)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # a full disk is noticed here, not when the interpreter ends

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the imported command, or `None` if there is no such name."""
        command = super().get_command(ctx, cmd_name)
        return command.load() if isinstance(command, _LazyCommand) else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries."""
        # A plain group finds the placeholders; `get_command` of this one would import every command.
        click.Group(commands=self.commands).format_commands(ctx, formatter)


@contextmanager
def _one_line_errors() -> Generator[None, None, None]:
    """Print one line for an exception that no command handles, and exit."""
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
        from toolmark._internal.text import printable  # noqa: PLC0415 - not loaded for --help
        from toolmark._internal.version import installed_version  # noqa: PLC0415

        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"this is an error in toolmark {installed_version()}: {type(error).__name__}: {error}"
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
    commands={name: _LazyCommand(name, *place) for name, place in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="toolmark", prog_name="toolmark")
def main() -> None:
    """Measure how well LLM agents call their tools."""
    # A character that the encoding of a pipe lacks must not end the program.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
