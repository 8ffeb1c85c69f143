"""Input, output and errors shared by the commands."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from toolgrade._internal import atomic_files
from toolgrade._internal.json import json_text, replace_nonfinite
from toolgrade._internal.text import printable, printable_lines
from toolgrade.errors import BadLineWarning, DataFileError, ToolgradeError

WRONG_INPUT = 2
"""Exit code if the command line or a file is wrong."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of the signal, as in shells."""


def stop(message: str, code: int = WRONG_INPUT) -> NoReturn:
    """Print an error and exit."""
    click.echo(f"error: {printable_lines(message)}", err=True)
    sys.exit(code)


def warn(*messages: str) -> None:
    """Print warnings."""
    for message in messages:
        click.echo(f"warning: {printable(message)}", err=True)


def reason_of(error: OSError) -> str:
    """Return why the system refused something, without the path."""
    return error.strerror or str(error)


@contextmanager
def exit_on_error(
    path: str, consequence: str = "", *, action: str = "read"
) -> Generator[Sequence[warnings.WarningMessage], None, None]:
    """Exit with a message and code 2 if the library raises one of its errors or a file cannot be opened.

    Yields the list of warnings, which grows while the block runs; they are printed at the end.

    Args:
        path: The file to name in the message of an `OSError` that does not name one.
        consequence: What the program did not do, such as "nothing was scored".
        action: What is done to the file, for the message of an `OSError`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield caught
        except DataFileError as error:
            text = str(error)
            separator = "\n" if "\n" in text else "; "
            stop(f"{text}{separator}{consequence}")
        except ToolgradeError as error:
            stop(str(error))
        except OSError as error:
            stop(f"cannot {action} {printable(str(error.filename or path))}: {reason_of(error)}")
    warn(*dict.fromkeys(str(warning.message) for warning in caught))


def has_bad_lines(caught: Sequence[warnings.WarningMessage]) -> bool:
    """Return whether a line of a file could not be read."""
    return any(issubclass(warning.category, BadLineWarning) for warning in caught)


def json_document(plain: Mapping[str, Any], target: str) -> str:
    """Return JSON text for a file, or for standard output if the target is `-`."""
    if target == "-":
        # Printable ASCII only: it has no escape sequences for a terminal, and any encoding of standard output has it.
        text = json.dumps(replace_nonfinite(plain), indent=2)
        text = text.replace("\x7f", "\\u007f")  # the only control character that `json.dumps` does not escape
        text = text.replace("##", "#\\u0023")  # `##[` begins a command in the log of a CI service
        return text + "\n"
    return json_text(plain, indent=2) + "\n"


def write_json(plain: Mapping[str, Any], target: str | None) -> bool:
    """Write a JSON document if a target is given.

    Returns:
        Whether it went to standard output; the caller must not print a table after it.
    """
    if target is not None:
        write_text(target, json_document(plain, target))
    return target == "-"


def write_text(target: str, text: str) -> None:
    """Write a text to a file, completely or not at all, or to standard output if the target is `-`."""
    if target == "-":
        click.echo(text.encode(), nl=False)  # UTF-8, as in a file, whatever the encoding of standard output is
        return
    with exit_on_error(target, action="write"):
        atomic_files.write_text(Path(target), text)


def title_of(file: str) -> str:
    """Return the title of a table about a file."""
    return "standard input" if file == "-" else file
