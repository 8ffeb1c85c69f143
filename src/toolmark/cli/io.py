"""What commands share: cases are read, warnings and errors told, and results written."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

import click

from toolmark._internal import atomic_files
from toolmark._internal.text import plural, printable
from toolmark.cases import TestCase
from toolmark.dataset import read_cases
from toolmark.errors import DataFileError, ToolmarkError, TornLineWarning

T = TypeVar("T")

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""

tolerant_option = click.option(
    "--tolerant-arguments",
    is_flag=True,
    help="Read argument texts that are Python literals, doubly encoded, fenced or have trailing commas; each is told.",
)


class _Writable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...

    def to_json(self, *, indent: int | None = None) -> str: ...


def measured(
    file: str, measure: Callable[[list[TestCase]], T], *, allow_nan: bool, tolerant_arguments: bool
) -> tuple[T, bool]:
    """Return what `measure` makes of the cases of a file, and whether the end of the file is torn; see `guarded`."""

    def make() -> T:
        return measure(read_cases(file, allow_nan=allow_nan, tolerant_arguments=tolerant_arguments))

    return guarded(file, make, otherwise="nothing was scored")


def gone_through(
    files: Sequence[str], make: Callable[..., T], *, target: str | None, otherwise: str, kept: str
) -> tuple[T, bool]:
    """Return what is made of files of any size, and whether the end of one is torn, with a bar on a terminal.

    Errors end the program with code 2, and Ctrl-C with 130.

    Args:
        files: Paths.
        make: Goes through them; on a terminal it is given `progress`.
        target: The file that it writes, for errors that name none.
        otherwise: See `guarded`.
        kept: What is there after Ctrl-C, and how to go on.
    """
    bar: AbstractContextManager[object] = nullcontext()
    options: dict[str, Any] = {}
    if sys.stderr is not None and sys.stderr.isatty():
        from toolmark.report.terminal.progress import CaseProgress  # noqa: PLC0415 - loaded when there is somebody to watch

        bar = shown = CaseProgress(0)
        options["progress"] = shown.show

    def made() -> T:
        try:
            return make(**options)
        except OSError as error:
            stop(f"{printable(str(error.filename or target))}: {error.strerror or error}")

    try:
        with bar:
            return guarded(", ".join(files), made, otherwise=otherwise)
    except KeyboardInterrupt:
        click.echo(f"interrupted; {kept}", err=True)
        sys.exit(INTERRUPTED)


def guarded(file: str, make: Callable[[], T], *, otherwise: str) -> tuple[T, bool]:
    """Return what is made of a file, and whether the end of the file is torn.

    Warnings are told on standard error; what cannot be read or made ends the program with code 2.

    Args:
        file: What is read.
        make: Reads it and makes something of it.
        otherwise: What did not happen where the file cannot be read.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = make()
        except DataFileError as error:
            found = plural(len(error.problems), "problem")
            stop(f"{visible_lines(str(error))}\n{found}; {otherwise}")
        except OSError as error:
            stop(f"cannot read {printable(file)}: {error.strerror or error}")
        except ToolmarkError as error:
            stop(visible_lines(str(error)))
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"warning: {printable(text)}", err=True)
    return made, any(issubclass(warning.category, TornLineWarning) for warning in caught)


def write_result(result: _Writable, json_path: str | None) -> bool:
    """Write a result as JSON where asked, and return whether that was standard output, so that no table follows."""
    if json_path is None:
        return False
    # A file comes first, since the reader of the table may have seen enough and closed the pipe.
    write_text(json_path, json_of(result, json_path))
    return json_path == "-"


def json_of(result: _Writable, target: str) -> str:
    """Return a result as JSON text for a file, or for standard output, which is `-`."""
    if target == "-":
        # Nothing but ASCII: no terminal obeys it, and no encoding of a pipe lacks it.
        return json.dumps(result.to_dict(), indent=2).replace("\x7f", "\\u007f") + "\n"
    return result.to_json(indent=2) + "\n"


def write_text(target: str, text: str) -> None:
    """Write a text to a file, whole or not at all, or to standard output, which is `-`; an error ends the program."""
    if target == "-":
        click.echo(text.encode(), nl=False)  # the bytes of the file, whatever the encoding of the pipe is
        return
    try:
        atomic_files.write_text(Path(target), text)
    except OSError as error:
        stop(f"cannot write {printable(target)}: {error.strerror or error}")


def title_of(file: str) -> str:
    """Return how a table calls a file."""
    return "standard input" if file == "-" else file


def visible_lines(text: str) -> str:
    """Return text line by line with nothing in it that a terminal would obey."""
    return "\n".join(printable(line) for line in text.split("\n"))


def stop(message: str) -> NoReturn:
    """End the program with code 2 and this message."""
    click.echo(f"error: {message}", err=True)
    sys.exit(2)
