"""Division of files into parts, each of which one process reads, scores and writes.

Plain JSON Lines are cut at ends of lines: a line belongs to the part in which it begins. What is packed, or one JSON
array, is one part, since nobody can begin to read it in the middle. Of a Parquet file each row group is one.

How the files are divided depends on the files alone, not on how many processes there are; and it says of each part what
its bytes are, so that a run that is resumed finds out whether they are still the same.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from toolmark._internal.compression import GZIP, ZSTD
from toolmark._internal.model import Model
from toolmark._internal.text import printable
from toolmark.errors import ConfigurationError
from toolmark.scale.detect import PARQUET
from toolmark.scale.parquet import row_groups

PART_BYTES = 64 << 20
"""Bytes of a part unless told otherwise: seconds of work, so that little is lost with a process that is killed."""

_PIECE = 1 << 20
_DIGITS = 32
BOM: Final = b"\xef\xbb\xbf"

Kind: TypeAlias = Literal["lines", "whole", "rows"]
"""What a part is: some lines of a plain file, all of a file, or rows of a Parquet file."""


class Part(Model):
    """A part of the input."""

    number: int
    """Its place among all parts, from 0."""
    file: int
    """Position of its file, from 0."""
    kind: Kind
    start: int
    """Its first byte; of rows, the position of the row group."""
    end: int
    """The byte after its last."""
    first: int = 1
    """Number of its first line or row, from 1."""
    lines: int = 0
    """Lines that begin in it; 0 where it is not divided by lines."""
    digest: str = ""
    """Of its bytes; of rows, those of the whole file, and only of the first of them."""


class Stamp(Model):
    """What shows at a glance that a file has changed."""

    size: int
    """Bytes."""
    changed: int
    """When it was changed last, in nanoseconds."""

    @classmethod
    def of(cls, path: str) -> Stamp:
        """Return the stamp of a file.

        Raises:
            OSError: There is none.
            ConfigurationError: It is a pipe or a device, which cannot be read twice.
        """
        found = Path(path).stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise ConfigurationError(
                f"{printable(path)} is no file on a disk, and can be read only once; write it to one"
            )
        return cls(size=found.st_size, changed=found.st_mtime_ns)


def check_files(files: object) -> list[str]:
    """Return the paths of files that are scored together.

    Raises:
        ConfigurationError: There is none, one is given twice, or is standard input, which cannot be read twice.
    """
    if isinstance(files, (str, bytes, os.PathLike)) or not isinstance(files, Sequence) or not files:
        raise ConfigurationError(f"files must be a list of at least one path, got {files!r}")
    paths = [os.fspath(file) for file in files]
    if "-" in paths:
        raise ConfigurationError("standard input can be read only once, so it is no part of this; write it to a file")
    known: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in known:
            raise ConfigurationError(
                f"{printable(path)} and {printable(known[real])} are one file; its cases would count twice"
            )
        known[real] = path
    return paths


def divided(paths: Sequence[str], part_bytes: int) -> Iterator[Part]:
    """Yield the parts of all files, without the digests and numbers of lines; empty files have one part, too.

    Raises:
        OSError: A file cannot be opened or read.
        DataFileError: A Parquet file cannot be read.
        MissingPackageError: There is a Parquet file, and pyarrow is not installed.
    """
    number = 0
    for place, path in enumerate(paths):
        for kind, start, end, first in _pieces(path, part_bytes):
            yield Part(number=number, file=place, kind=kind, start=start, end=end, first=first)
            number += 1


def _pieces(path: str, part_bytes: int) -> Iterator[tuple[Kind, int, int, int]]:
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = file.read(len(PARQUET))
        if begin == PARQUET:
            for place, first in enumerate(row_groups(path)):
                yield "rows", place, place + 1, first
            return
        if begin.startswith((GZIP, ZSTD)) or _is_array(path):
            yield "whole", 0, size, 1
            return
        start = 0
        while start < size:
            file.seek(min(start + part_bytes, size) - 1)
            file.readline()
            yield "lines", start, file.tell(), 1
            start = file.tell()
    if not size:
        yield "lines", 0, 0, 1


def _is_array(path: str) -> bool:
    """Return whether the first line that is not blank begins an array."""
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file):
            line = (raw if number else raw.removeprefix(BOM)).strip()
            if line:
                return line.startswith(b"[")
    return False


def surveyed(part: Part, path: str) -> Part:
    """Return a part with the digest of its bytes, and how many lines begin in it."""
    if part.kind == "rows" and part.start:
        return part
    hashed, lines, last = hashlib.sha256(), 0, b""
    start, end = (part.start, part.end) if part.kind == "lines" else (0, Path(path).stat().st_size)
    with Path(path).open("rb") as file:
        file.seek(start)
        left = end - start
        while left and (piece := file.read(min(_PIECE, left))):
            hashed.update(piece)
            lines += piece.count(b"\n")
            left -= len(piece)
            last = piece[-1:]
    lines += last not in {b"", b"\n"}
    digest = hashed.hexdigest()[:_DIGITS]
    return part.model_copy(update={"digest": digest, "lines": lines if part.kind == "lines" else 0})


def numbered(parts: Sequence[Part]) -> list[Part]:
    """Return surveyed parts with the number of the first line of each."""
    found: list[Part] = []
    for part in parts:
        before = found[-1] if found else None
        follows = part.kind == "lines" and before is not None and before.file == part.file
        first = before.first + before.lines if follows and before is not None else part.first
        found.append(part.model_copy(update={"first": first}))
    return found
