"""Types of path options, which refuse a command line that would overwrite a file it reads.

Both types record the paths in click's context, so that no command has to compare them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import click

from toolgrade._internal.text import printable

_PATHS = "toolgrade.paths"


class InputPath(click.Path):
    """A file to read, or `-` for standard input where it is allowed."""

    is_target = False

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
        """Raise if the file cannot be used; one to read is opened soon enough."""


class OutputPath(InputPath):
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
    """Record a path, unless a file would be written that is named twice."""
    for other, other_is_target in paths:
        if (is_target or other_is_target) and _is_same_file(path, other):
            target = printable(path if is_target else other)
            if is_target and other_is_target:
                raise _RefusedPath(f"{target} would be written twice; name another file")
            raise _RefusedPath(f"{target} is also an input and would be overwritten; name another file")
    paths.append((path, is_target))


def _is_same_file(path: str, other: str) -> bool:
    """Return whether two paths name one file; a device, such as a terminal, may be named twice."""
    if not Path(path).exists():
        return os.path.realpath(path) == os.path.realpath(other)
    try:
        return Path(path).is_file() and Path(path).samefile(other)
    except OSError:  # opening the file will report it
        return False
