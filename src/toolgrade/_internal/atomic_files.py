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
    """Yield a draft path, and move the draft to `target` at the end; on an error `target` stays unchanged.

    A pipe or a device, which must not be replaced, is yielded itself.
    """
    refuse_foreign_link(target)
    path = target.resolve()  # the file that a symbolic link names, so that the link stays
    if (path.exists() and not path.is_file()) or not _DEVICES.isdisjoint(target.absolute().parents):
        yield target
        return
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    draft.touch(exist_ok=False)  # exclusively, so that it follows no link that somebody put there
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file; see `atomic_write`."""
    with atomic_write(target) as draft:
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
