"""Help of commands: options in sections, examples, and commands with their whole summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

_LAST = "Other options"
_LONGEST_SUMMARY = 1_000


class SectionedCommand(click.Command):
    """A command whose help has examples, and lists its options by section."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - click's own
        """Add command lines that the help shows."""
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help, and the examples below it."""
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list for each section, and last the options that belong to none."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", _LAST), []).append(record)
        for title in sorted(sections, key=lambda title: title == _LAST):
            with formatter.section("Options" if len(sections) == 1 else title):
                formatter.write_dl(sections[title])


def command(*examples: str) -> Callable[[Callable[..., None]], SectionedCommand]:
    """Return the decorator of a command whose help shows these command lines."""
    return click.command(cls=SectionedCommand, examples=examples)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write command lines below the title `Examples`; nothing if there are none."""
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def write_commands(formatter: click.HelpFormatter, title: str, commands: Iterable[click.Command]) -> None:
    """Write a list of commands, each with its whole summary."""
    with formatter.section(title):
        formatter.write_dl([(str(command.name), command.get_short_help_str(_LONGEST_SUMMARY)) for command in commands])
