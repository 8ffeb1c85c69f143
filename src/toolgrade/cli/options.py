"""Options that several commands share, types of paths, and tools to define and combine options.

Both types of paths record each path in click's context, and refuse a command line that would overwrite a file it reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import IO, Any, TypeAlias

import click
from click.core import ParameterSource

from toolgrade._internal.text import printable

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]

_PATHS = "toolgrade.paths"
"""Key of the recorded paths in click's context."""


class _RecordedPath(click.Path):
    """A file, or `-` where it is allowed; the path is recorded unless it is `-`."""

    is_target: bool
    """Whether the file is written."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, unless another option makes it wrong to read or write it."""
        path = os.fspath(value)
        if not (self.allow_dash and path == "-"):
            self.check(path)
            if ctx is not None and not ctx.resilient_parsing:
                _record(path, ctx.meta.setdefault(_PATHS, []), is_target=self.is_target)
        return super().convert(value, param, ctx)

    def check(self, path: str) -> None:
        """Raise if the file cannot be used."""


class InputPath(_RecordedPath):
    """A file to read, or `-` for standard input where it is allowed.

    It is not checked here: the command opens it at once, and reports what is wrong with it.
    """

    is_target = False


class OutputPath(_RecordedPath):
    """A file to write, or `-` for standard output where it is allowed."""

    is_target = True

    def check(self, path: str) -> None:
        """Raise if the file cannot be written: scoring can take hours, and the file is written at its end."""
        if Path(path).is_dir():
            raise _RefusedPath(f"cannot write {printable(path)}: it is a folder")
        if not Path(path).absolute().parent.is_dir():
            folder = printable(str(Path(path).parent))
            raise _RefusedPath(f"cannot write {printable(path)}: there is no folder {folder}")


class _RefusedPath(click.ClickException):
    """An error of the command line, printed like all errors of toolgrade."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(f"error: {self.message}", file=file, err=file is None)


def _record(path: str, paths: list[tuple[str, bool]], *, is_target: bool) -> None:
    """Record a path; raise if it names a file that was recorded before, and one of both is written."""
    for other, other_is_target in paths:
        if not (is_target or other_is_target) or not _is_same_file(path, other):
            continue
        target = printable(path if is_target else other)
        if is_target and other_is_target:
            raise _RefusedPath(f"{target} would be written twice; name another file")
        raise _RefusedPath(f"{target} is also an input and would be overwritten; name another file")
    paths.append((path, is_target))


def _is_same_file(a: str, b: str) -> bool:
    """Return whether two paths name one file; a device, such as a terminal, may be named twice."""
    if not Path(a).exists():  # then the same file is not there under `b` either, but may be written under both
        return os.path.realpath(a) == os.path.realpath(b)
    try:
        return Path(a).is_file() and Path(a).samefile(b)
    except OSError:  # `b` is not there, or opening a file will report what is wrong with it
        return False


class _SectionOption(click.Option):
    """An option that the help lists under the heading of a section."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.section = section


def options_in(section: str) -> Callable[..., Decorator]:
    """Return `click.option` for the options of one section."""
    return partial(click.option, cls=_SectionOption, section=section)


def bundle(options: tuple[Decorator, ...], collect: Callable[[dict[str, Any]], dict[str, Any]]) -> Decorator:
    """Return a decorator that adds several options and combines their values before the command is called.

    Args:
        options: The options, in the order in which the help lists them.
        collect: Returns the arguments of the command for all arguments that click has parsed. The options of a report
            are combined to one: `{"file": "runs.jsonl", "html_path": "page.html"}` becomes `{"file": "runs.jsonl",
            "display": ReportOptions(targets={"html": "page.html"})}`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def collected(**arguments: Any) -> None:  # noqa: ANN401 - as click parsed them
            command(**collect(arguments))

        decorated: Callable[..., None] = collected
        for option in reversed(options):  # click lists the option that is applied last first
            decorated = option(decorated)
        return decorated

    return decorate


def on_command_line(name: str) -> bool:
    """Return whether the option of this parameter is on the command line; defaults and settings do not count."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def is_default(name: str) -> bool:
    """Return whether the option of this parameter is neither on the command line nor a setting."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT


def clear_settings(arguments: dict[str, Any], *names: str) -> None:
    """Let an option on the command line override settings that it cannot be combined with.

    With `quiet = true` in pyproject.toml and `--verbose` on the command line, `clear_settings(arguments, "quiet",
    "verbose")` sets `quiet` to False.

    Args:
        arguments: The arguments that click has parsed, changed in place.
        names: The options that exclude each other. If one of them is on the command line, the others are cleared unless
            they are on it too.
    """
    if not any(map(on_command_line, names)):
        return
    for name in names:
        if not on_command_line(name):
            arguments[name] = False if isinstance(arguments[name], bool) else None


def json_option(help: str) -> Decorator:
    """Return the option `--json`."""
    return click.option("--json", "json_path", type=OutputPath(allow_dash=True), metavar="FILE", help=help)


source_argument = click.argument("file", type=InputPath(allow_dash=True))
reject_option = click.option(
    "--reject-bad-lines", is_flag=True, help="Refuse a file with a line that cannot be read, and do nothing."
)
allow_nan_option = click.option("--allow-nan", is_flag=True, help="Accept bare NaN and Infinity in the file.")
