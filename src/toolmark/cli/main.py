"""The command line: a thin shell over the library, of which each command loads only what it needs itself.

Exit codes: 0 all is well, 1 the scores are not good enough, 2 the command line or the input is wrong.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click

_COMMANDS = {
    "approve": (
        "approve",
        (
            "Make goldens of the cases or runs of FILE: "
            "what each was asked, and the tools that it called as expected ones."
        ),
    ),
    "batch": ("batch", "Judge over OpenAI's Batch API: at half the price, within a day."),
    "compare": (
        "compare",
        "Show what changed from A to B, two reports of the same cases as `toolmark score --json` writes them.",
    ),
    "convert": (
        "convert",
        (
            "Make cases of the recorded messages or traces in FILE "
            '(JSON or JSON Lines, "-" for standard input, gzip is fine).'
        ),
    ),
    "extrapolate": (
        "sample",
        "Say what the RESULTS of a sample tell of all the cases that `toolmark sample` drew it from.",
    ),
    "feedback": (
        "feedback",
        "Write the scores in RESULTS as JSON for the tools that the traces came from.",
    ),
    "lint": (
        "lint",
        "Show all that is wrong with what the cases or goldens of FILE expect, a line for each finding.",
    ),
    "report": (
        "report",
        "Show the results in RESULTS: a results file of `toolmark.evaluate`, or what `toolmark score --json` wrote.",
    ),
    "sample": (
        "sample",
        "Draw cases of FILEs at random, without replacement: every set of N cases has the same chance.",
    ),
    "score": (
        "score",
        'Score the cases of FILE (JSON Lines of test cases or records, "-" for standard input, gzip is fine).',
    ),
    "validate": (
        "validate",
        "Show how well the scores of FILE tell good runs from bad ones, by a label in its cases.",
    ),
}
"""The modules of the commands, each with the first sentence of its help, which `toolmark --help` shows unloaded."""


class _Later(click.Command):
    """Stands for a command that is not loaded: it has its name and the first sentence of its help."""

    def __init__(self, name: str, module: str, about: str) -> None:
        super().__init__(name, help=about)
        self.module = module

    def load(self) -> click.Command:
        """Return the command itself."""
        command: click.Command = getattr(import_module(f"toolmark.cli.{self.module}"), str(self.name))
        return command


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name; one is loaded when it is asked for, and none when they are listed."""

    def __init__(self) -> None:
        self.listed: dict[str, click.Command] = {name: _Later(name, *place) for name, place in _COMMANDS.items()}

    def __getitem__(self, name: str) -> click.Command:
        command = self.listed[name]
        return command.load() if isinstance(command, _Later) else command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self.listed[name] = command

    def __delitem__(self, name: str) -> None:
        del self.listed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)


class _Main(click.Group):
    """A group whose help loads none of its commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands as any group does, with the texts that are known here."""
        listed = self.commands.listed if isinstance(self.commands, _Commands) else self.commands
        click.Group(commands=listed).format_commands(ctx, formatter)


@click.group(cls=_Main, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolmark", prog_name="toolmark")
def main() -> None:
    """Measure how well LLM agents call their tools."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the encoding of a pipe lacks must not end the program
        sys.stdout.reconfigure(errors="backslashreplace")
