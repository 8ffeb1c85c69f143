"""The `toolmark` command, whose subcommands are loaded when they are called.

Exit codes: 0 success, 1 the scores are not good enough, 2 the command line or the input is wrong.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click

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

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the imported command, or `None` if there is no such name."""
        command = super().get_command(ctx, cmd_name)
        return command.load() if isinstance(command, _LazyCommand) else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries."""
        # A plain group finds the placeholders; `get_command` of this one would import every command.
        click.Group(commands=self.commands).format_commands(ctx, formatter)


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
