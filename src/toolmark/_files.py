"""How does a file appear? Whole or not at all: it is written beside its place, and then moved there."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_DEVICES = frozenset({Path("/dev"), Path("/proc")})


@contextmanager
def replacing(target: Path) -> Generator[Path, None, None]:
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
    with replacing(place) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
