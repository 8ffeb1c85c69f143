"""Options of several commands, and options in sections of the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from toolmark.cli.path_types import Source, Target
from toolmark.stats.bootstrap import RESAMPLES

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]


class _SectionOption(click.Option):
    """An option that belongs to a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.section = section


def options_in(section: str) -> Callable[..., Decorator]:
    """Return `click.option` for the options of one section."""
    return partial(click.option, cls=_SectionOption, section=section)


def bundle(options: tuple[Decorator, ...], collect: Callable[[dict[str, Any]], dict[str, Any]]) -> Decorator:
    """Return a decorator that adds several options, in the order of the help, and passes them on as fewer arguments.

    `collect` turns all arguments that click has parsed into those that the command takes.
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


def grouped(name: str, parameters: Sequence[str], *options: Decorator) -> Decorator:
    """Return a decorator that adds several options and passes them on as one argument of this name, a dictionary.

    Its keys are `parameters`, the names that click has for the options.
    """

    def collect(arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: {parameter: arguments.pop(parameter) for parameter in parameters}, **arguments}

    return bundle(options, collect)


def is_given(name: str) -> bool:
    """Return whether the command line has the option of this parameter, rather than a default or a setting."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def clear_settings(arguments: dict[str, Any], *names: str) -> None:
    """Clear those of some options that cannot be combined which are settings, if another is on the command line."""
    if any(map(is_given, names)):
        for name in names:
            if not is_given(name):
                arguments[name] = False if isinstance(arguments[name], bool) else None


def json_option(help: str) -> Decorator:
    """Return the option `--json`."""
    return click.option("--json", "json_path", type=Target(allow_dash=True), metavar="FILE", help=help)


def seed_option(subject: str) -> Decorator:
    """Return the option `--seed`."""
    return click.option("--seed", type=int, default=0, show_default=True, help=f"Seed of the {subject}.")


source_argument = click.argument("file", type=Source(allow_dash=True))
resamples_option = click.option(
    "--resamples", type=click.IntRange(1), default=RESAMPLES, show_default=True, help="Resamples for the intervals."
)
samples_option = click.option(
    "--samples",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Ask each question to the judge N times; the majority counts.",
)
allow_nan_option = click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")

tolerant_option = click.option(
    "--tolerant-arguments",
    is_flag=True,
    help="Also parse arguments that are Python literals, doubly encoded, fenced or have trailing commas; each is "
    "reported.",
)

reading_options = grouped("reading", ("allow_nan", "tolerant_arguments"), allow_nan_option, tolerant_option)
"""Options of how cases are read; the command gets them as `reading`, arguments of `read_cases`."""
