"""Division of files into parts; one process reads, scores and writes a part.

Plain JSON Lines are cut at line ends; a line belongs to the part that has its first byte. A compressed file or a JSON
array is one part, because reading cannot start in its middle.

The parts depend on the files alone, not on the number of processes. Each part has a digest of its bytes, by which a
resumed run notices a changed file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from toolgrade._internal.compression import GZIP, ZSTD, TooLargeError, lines_of
from toolgrade._internal.model import Model
from toolgrade._internal.resumed_runs import INTERRUPTED
from toolgrade._internal.text import printable
from toolgrade.dataset import file_error, replaced_numbers
from toolgrade.errors import ConfigurationError, Problem
from toolgrade.scale.detect import BOM

PART_BYTES = 64 << 20
"""Default bytes of a part: seconds of work, so that a killed process loses little."""
_MIN_BYTES = 1 << 20
_PARTS = 32

_PIECE = 1 << 20
_DIGITS = 32

Kind: TypeAlias = Literal["lines", "whole"]
"""Content of a part: some lines of a plain file, or a whole file."""


class Part(Model):
    """Part of the input."""

    number: int
    """Position among all parts, from 0."""
    file: int
    """Position of the file, from 0."""
    kind: Kind
    start: int
    """First byte."""
    end: int
    """First byte after the part."""
    first: int = 1
    """Number of the first line, from 1."""
    lines: int = 0
    """Number of lines that begin in the part; 0 unless `kind` is `lines`."""
    place: int = 0
    """Position of the first case among those of all files, if each line before it is one case."""
    digest: str = ""
    """Hash of the bytes, if the run can be resumed."""
    replaced: tuple[int, ...] | None = None
    """Lines with an interrupted run that a later line has again, resumed; `None` if this was not determined."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.end - self.start


class Stamp(Model):
    """Size and time of a file, a cheap test of whether it has changed."""

    size: int
    """Bytes."""
    changed: int
    """Time of the last change, in nanoseconds."""

    @classmethod
    def of(cls, path: str) -> Stamp:
        """Return the stamp of a file.

        Raises:
            OSError: The file does not exist.
            ConfigurationError: It is a pipe or a device, which cannot be read twice.
        """
        status = Path(path).stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise ConfigurationError(
                f"{printable(path)} is not a regular file and can be read only once; write it to a file"
            )
        return cls(size=status.st_size, changed=status.st_mtime_ns)

    def check(self, path: str, message: str) -> None:
        """Check that a file still has this stamp.

        Raises:
            DataFileError: It has changed, which `message` says.
            OSError: The file does not exist.
        """
        if Stamp.of(path) != self:
            raise file_error(path, [Problem("$", message)])


def check_files(files: object) -> list[str]:
    """Return the paths of files that are scored together.

    Raises:
        ConfigurationError: The list is empty, has a file twice, or has standard input, which cannot be read twice.
    """
    if isinstance(files, (str, bytes, os.PathLike)) or not isinstance(files, Sequence) or not files:
        raise ConfigurationError(f"files must be a list of at least one path, got {files!r}")
    paths = [os.fspath(file) for file in files]
    if "-" in paths:
        raise ConfigurationError("standard input can be read only once; write it to a file")
    path_by_target: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in path_by_target:
            raise ConfigurationError(
                f"{printable(path)} and {printable(path_by_target[real])} are one file; its cases would count twice"
            )
        path_by_target[real] = path
    return paths


def small_parts(path: str) -> int:
    """Return the bytes of a part with which tens of parts keep all cores busy to the end and show the progress."""
    return min(max(Path(path).stat().st_size // _PARTS, _MIN_BYTES), PART_BYTES)


def divide_files(paths: Sequence[str], part_bytes: int) -> Iterator[Part]:
    """Yield the parts of all files, without digests and numbers of lines; an empty file has one part.

    Raises:
        OSError: A file cannot be opened or read.
    """
    number = 0
    for place, path in enumerate(paths):
        for kind, start, end in _pieces(path, part_bytes):
            yield Part(number=number, file=place, kind=kind, start=start, end=end)
            number += 1


def _pieces(path: str, part_bytes: int) -> Iterator[tuple[Kind, int, int]]:
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(ZSTD)).startswith((GZIP, ZSTD)) or _is_array(path):
            yield "whole", 0, size
            return
        start = 0
        while start < size:
            file.seek(min(start + part_bytes, size) - 1)
            file.readline()
            yield "lines", start, file.tell()
            start = file.tell()
    if not size:
        yield "lines", 0, 0


def _is_array(path: str) -> bool:
    """Return whether the first line that is not blank starts a JSON array."""
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file):
            line = (raw if number else raw.removeprefix(BOM)).strip()
            if line:
                return line.startswith(b"[")
    return False


def _bytes_between(path: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file between two positions, in pieces."""
    with Path(path).open("rb") as file:
        file.seek(start)
        left = end - start
        while left and (piece := file.read(min(_PIECE, left))):
            left -= len(piece)
            yield piece


def survey_part(paths: Sequence[str], with_digest: bool, part: Part) -> Part:
    """Return a part of these files with its number of lines, and with the digest of its bytes.

    `replaced` is empty if an interrupted run may be among the lines, so that it must be determined.
    """
    if part.kind == "whole" and not with_digest:
        return part
    path = paths[part.file]
    hashed, lines, end_of_last = hashlib.sha256(), 0, b""
    interrupted = False
    for piece in _bytes_between(path, part.start, part.end):
        if with_digest:
            hashed.update(piece)
        lines += piece.count(b"\n")
        # The status may begin in one piece and end in the next.
        edge = end_of_last + piece[: len(INTERRUPTED)]
        interrupted = interrupted or INTERRUPTED in piece or INTERRUPTED in edge
        end_of_last = piece[-len(INTERRUPTED) :]
    digest = hashed.hexdigest()[:_DIGITS] if with_digest else ""
    if part.kind == "whole":
        return part.model_copy(update={"digest": digest})
    lines += end_of_last[-1:] not in {b"", b"\n"}
    return part.model_copy(update={"digest": digest, "lines": lines, **({"replaced": ()} if interrupted else {})})


def part_lines(part: Part, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a part with their numbers.

    Raises:
        DataFileError: A line is larger than a record may be.
    """
    number = part.first
    with Path(path).open("rb", buffering=_PIECE) as file:
        file.seek(part.start)
        try:
            for raw in lines_of(file, part.end - part.start):
                yield number, raw if part.start or number > 1 else raw.removeprefix(BOM)
                number += 1
        except TooLargeError as error:
            raise file_error(path, [Problem("$", str(error), number)]) from None


def number_lines(parts: Sequence[Part]) -> list[Part]:
    """Return surveyed parts, each with the number of its first line and the position of its first case."""
    with_numbers: list[Part] = []
    next_lines: dict[int, int] = {}  # by file
    place = 0
    for part in parts:
        first = next_lines.get(part.file, part.first)
        next_lines[part.file] = first + part.lines
        with_numbers.append(part.model_copy(update={"first": first, "place": place}))
        place += part.lines
    return with_numbers


def with_replaced_lines(parts: Sequence[Part], paths: Sequence[str]) -> list[Part]:
    """Return numbered parts with their replaced lines; only files that may have an interrupted run are read for it."""
    by_file = {part.file: set[int]() for part in parts if part.replaced is not None}
    for file in by_file:
        by_file[file] = replaced_numbers(paths[file])
    complete: list[Part] = []
    for part in parts:
        if part.replaced is None:
            complete.append(part)
            continue
        numbers = by_file[part.file].intersection(range(part.first, part.first + part.lines))
        complete.append(part.model_copy(update={"replaced": tuple(sorted(numbers))}))
    return complete
