"""How does a file appear? Whole or not at all: it is written beside its place, and then moved there."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from toolmark.errors import ConfigurationError

LOCK_NAME: Final = "lock.sqlite"
"""Name of the file that locks a folder."""

_DEVICES = frozenset({Path("/dev"), Path("/proc")})


@contextmanager
def atomic_write(target: Path) -> Generator[Path, None, None]:
    """Give the path of a draft beside a file, and move it there at the end; whatever fails, the file stays as it is."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file, whole or not at all; a pipe or a device, which cannot be replaced, is written to as it is.

    Raises:
        OSError: It cannot be written.
    """
    place = target.resolve()  # a link stays one
    if (place.exists() and not place.is_file()) or not _DEVICES.isdisjoint(target.absolute().parents):
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    with atomic_write(place) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file as a whole: after a crash at any moment it is the old one or the new one."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content)
    replace_durably(draft, path)


def draft_path(path: Path) -> Path:
    """Return where nobody else writes a file, on no other machine either; the name ends in `.new`."""
    return path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")


def replace_durably(draft: Path, target: Path) -> None:
    """Move a draft to its place; on return both its content and the move are on the disk."""
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    draft.replace(target)
    if os.name == "posix":  # elsewhere a folder cannot be opened, and is written with the file
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def folder_lock(folder: Path, what: str) -> Generator[None, None, None]:
    """Let nobody else work in a folder that is there; a process that dies gives it free.

    Args:
        folder: The folder; a file `LOCK` stands in it from now on.
        what: What others would work on, for the message.

    Raises:
        ConfigurationError: Another process, or another object, is at work in it.
    """
    import sqlite3  # noqa: PLC0415 - nobody waits for it who locks nothing

    with closing(sqlite3.connect(folder / LOCK_NAME, timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise ConfigurationError(f"another process works on {what}; wait until it has ended") from error
        yield
