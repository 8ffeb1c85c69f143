"""Atomic writing of files: a file is written as a draft under another name, then moved to its place."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolgrade.errors import ConfigurationError

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
