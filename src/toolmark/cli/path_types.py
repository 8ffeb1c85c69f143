"""Paths on a command line: what is read is never what is written, whatever it is called.

Both types remember what they were given in the context, so no command has to look for itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import click

from toolmark._internal.text import printable

_GIVEN = "toolmark.paths"


class Source(click.Path):
    """A file to read, or `-` for standard input where it is allowed."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, unless it is also to be written."""
        path = os.fspath(value)
        if not (self.allow_dash and path == "-"):
            _remember(path, ctx, is_written=False)
        return super().convert(value, param, ctx)


class Target(click.Path):
    """A file to write, or `-` for standard output where it is allowed."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, unless it is also read or written twice, or cannot be written.

        Better now than when everything was measured.
        """
        path = os.fspath(value)
        if not (self.allow_dash and path == "-"):
            if Path(path).is_dir():
                raise _Refused(f"cannot write {printable(path)}: it is a folder")
            if not Path(path).absolute().parent.is_dir():
                raise _Refused(
                    f"cannot write {printable(path)}: there is no folder {printable(str(Path(path).parent))}"
                )
            _remember(path, ctx, is_written=True)
        return super().convert(value, param, ctx)


class _Refused(click.ClickException):
    """Ends the program with code 2, as everything does that is wrong with the command line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Say what is wrong as all commands do."""
        click.echo(f"error: {self.message}", file=file, err=file is None)


def _remember(path: str, ctx: click.Context | None, *, is_written: bool) -> None:
    """Keep what was given.

    Raises:
        _Refused: A file would be written that is given a second time.
    """
    if ctx is None or ctx.resilient_parsing:
        return
    given: list[tuple[str, bool]] = ctx.meta.setdefault(_GIVEN, [])
    for other, was_written in given:
        if (is_written or was_written) and _is_same(path, other):
            target = printable(path if is_written else other)
            if is_written and was_written:
                raise _Refused(f"{target} would be written twice; name another file")
            raise _Refused(f"{target} is the file that is read, and would be overwritten; name another one")
    given.append((path, is_written))


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths name one file; devices, such as a terminal, may be named as often as one likes."""
    if not Path(path).exists():
        return os.path.realpath(path) == os.path.realpath(other)
    try:
        return Path(path).is_file() and Path(path).samefile(other)
    except OSError:  # one of them cannot be looked at, which whoever opens it will tell
        return False
