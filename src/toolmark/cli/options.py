"""Help in sections, and the options of several commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias

import click

from toolmark.cli.path_types import Source, Target
from toolmark.stats.bootstrap import RESAMPLES

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]

_LAST = "Other options"


class SectionedCommand(click.Command):
    """A command whose help lists its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list for each section, and last the options that belong to none."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", _LAST), []).append(record)
        for title in sorted(sections, key=lambda title: title == _LAST):
            with formatter.section(title):
                formatter.write_dl(sections[title])


class _SectionOption(click.Option):
    """An option that belongs to a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.section = section


def options_in(section: str) -> Callable[..., Decorator]:
    """Return `click.option` for the options of one section."""
    return partial(click.option, cls=_SectionOption, section=section)


def bundle(options: tuple[Decorator, ...], collect: Callable[[dict[str, Any]], dict[str, Any]]) -> Decorator:
    """Return a decorator that adds several options to a command and passes them on as fewer arguments.

    Args:
        options: The options, in the order of the help.
        collect: Turns all arguments that click has parsed into those that the command takes.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def collected(**arguments: Any) -> None:  # noqa: ANN401 - as click parsed them
            command(**collect(arguments))

        decorated: Callable[..., None] = collected
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def json_option(help: str) -> Decorator:
    """Return the option `--json`."""
    return click.option("--json", "json_path", type=Target(allow_dash=True), metavar="FILE", help=help)


def seed_option(subject: str) -> Decorator:
    """Return the option `--seed`."""
    return click.option("--seed", type=int, default=0, show_default=True, help=f"Seed of the {subject}.")


def _collect_reading(arguments: dict[str, Any]) -> dict[str, Any]:
    reading = {name: arguments.pop(name) for name in ("allow_nan", "tolerant_arguments")}
    return {**arguments, "reading": reading}


source_argument = click.argument("file", type=Source(allow_dash=True))
resamples_option = click.option(
    "--resamples", type=click.IntRange(1), default=RESAMPLES, show_default=True, help="Resamples for the intervals."
)
allow_nan_option = click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")

tolerant_option = click.option(
    "--tolerant-arguments",
    is_flag=True,
    help="Also parse arguments that are Python literals, doubly encoded, fenced or have trailing commas; each is "
    "reported.",
)

reading_options = bundle((allow_nan_option, tolerant_option), _collect_reading)
"""Options of how cases are read; the command gets them as `reading`, arguments of `read_cases`."""
