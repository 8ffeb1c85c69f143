"""Atomic writing of files: a file is written as a draft under another name, then moved to its place.

`atomic_write` and `write_text` protect against errors of the program. `write_bytes` and `replace_durably` also protect
against a crash of the machine, but wait for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from toolgrade.errors import ConfigurationError

LOCK_NAME: Final = "lock.sqlite"
"""Name of the file that locks a folder."""

_DEVICES = frozenset({Path("/dev"), Path("/proc")})


@contextmanager
def atomic_write(target: Path) -> Generator[Path, None, None]:
    """Yield a draft path, and move the draft to `target` at the end; on an error `target` stays unchanged."""
    draft = target.with_name(f".{target.name}.{os.urandom(8).hex()}.part")
    draft.touch(exist_ok=False)  # exclusively, so that it follows no link that somebody put there
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file atomically; a pipe or a device, which cannot be replaced, is written in place."""
    refuse_foreign_link(target)
    path = target.resolve()  # write the file that a symbolic link names, so that the link stays
    if (path.exists() and not path.is_file()) or not _DEVICES.isdisjoint(target.absolute().parents):
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def refuse_foreign_link(path: Path) -> None:
    """Refuse a symbolic link that belongs to neither this user nor the owner of its folder.

    In a folder that others can write to, such a link would choose which file of this user is overwritten.

    Raises:
        ConfigurationError: It is such a link.
    """
    if os.name != "posix" or not path.is_symlink():
        return
    owner = path.lstat().st_uid
    if owner not in (os.geteuid(), path.absolute().parent.stat().st_uid):
        raise ConfigurationError(f"{path.name!r} must not be a symbolic link of another user; choose another path")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that after a crash at any moment it has its old content or the new one."""
    draft = draft_path(path)
    draft.touch(exist_ok=False)
    draft.write_bytes(content)
    replace_durably(draft, path)


def draft_path(path: Path) -> Path:
    """Return a random path next to `path`, so that no other process, on any machine, writes it; it ends in `.new`."""
    return path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")


def replace_durably(draft: Path, target: Path) -> None:
    """Move a draft to its place; on return both its content and the move are on the disk."""
    sync_file(draft)
    draft.replace(target)
    if os.name == "posix":  # Windows cannot open a folder, and writes the move with the file
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def folder_lock(folder: Path, description: str) -> Generator[None, None, None]:
    """Lock an existing folder, described in the error by `description`; the lock of a process that dies is released.

    The lock is a SQLite transaction on the file `LOCK_NAME`, which works on every system and stays in the folder.

    Raises:
        ConfigurationError: Another process, or another object of this one, holds the lock.
    """
    import sqlite3  # noqa: PLC0415 - slow to import, and needed only here

    with closing(sqlite3.connect(folder / LOCK_NAME, timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise ConfigurationError(f"another process works on {description}; wait until it has ended") from error
        yield
