"""Reading of files: gzip is detected by its first bytes and decompressed on the way.

A small file may unpack to any size, so what must be in memory at once is limited: a record, which is a line, and a file
that is read as a whole. Files with short lines may have any length. A file that is neither JSON Lines nor a JSON array
is recognized by how it begins.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from toolgrade.errors import ConfigurationError

_GZIP: Final = b"\x1f\x8b"
_PIECE = 1 << 20

MAX_RECORD_SETTING: Final = "TOOLGRADE_MAX_RECORD_MIB"
"""Environment variable with the size that a record may have."""
_MAX_RECORD_MIB = 256
_MOST_BLANK_LINES = 1_000_000
_RECORDS_IN_MEMORY = 4
"""A file that is read as a whole, such as a JSON array, may be as large as so many records."""


class TooLargeError(Exception):
    """A record, or a file that must be read as a whole, is larger than memory should hold."""


CORRUPTION_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, TooLargeError)
"""Exceptions that reading corrupt compressed data raises, or data that is too large."""


def max_record_bytes() -> int:
    """Return the bytes that a record may have: 256 MiB, or what `TOOLGRADE_MAX_RECORD_MIB` says.

    Raises:
        ConfigurationError: The variable is not a number from 1.
    """
    text = os.environ.get(MAX_RECORD_SETTING, "").strip()
    if text and not re.fullmatch("[1-9][0-9]{0,8}", text):
        message = f"{MAX_RECORD_SETTING} must be a number of MiB from 1 to 999999999, got {text[:60]!r}; correct it"
        raise ConfigurationError(message)
    return (int(text) if text else _MAX_RECORD_MIB) << 20


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; none may be larger than a record.

    Raises:
        TooLargeError: A line is larger, or more than a million lines in a row are blank: 1 MB of gzip has a billion.
        ConfigurationError: See `max_record_bytes`.
    """
    limit = max_record_bytes()
    blank = 0
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise _too_large("a record", limit)
        blank = blank + 1 if line.isspace() else 0
        if blank > _MOST_BLANK_LINES:
            raise TooLargeError(f"more than {_MOST_BLANK_LINES:,} lines in a row are blank; remove them")
        yield line


def read_whole(file: BinaryIO) -> bytes:
    """Return the rest of a file, at most four times as large as a record may be.

    Raises:
        TooLargeError: It is larger.
        ConfigurationError: See `max_record_bytes`.
    """
    limit = _RECORDS_IN_MEMORY * max_record_bytes()
    pieces: list[bytes] = []
    size = 0
    while piece := file.read(min(_PIECE, limit + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large("a file that is read as a whole", limit)
    return b"".join(pieces)


def _too_large(what: str, limit: int) -> TooLargeError:
    mebibytes = limit >> 20
    message = f"{what} must have at most {mebibytes} MiB unpacked; split it, or set {MAX_RECORD_SETTING} higher"
    return TooLargeError(message)


def corruption_message(error: BaseException) -> str:
    """Return a message for one of `CORRUPTION_ERRORS`."""
    return str(error) if isinstance(error, TooLargeError) else f"broken gzip data: {error}"


def decompress(file: BinaryIO) -> BinaryIO:
    """Return the file, decompressed while it is read if its first bytes are those of gzip."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_RawReader(file))
    if buffered.peek(len(_GZIP)).startswith(_GZIP):  # does not consume them
        return cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    return cast("BinaryIO", buffered)


class _RawReader(io.RawIOBase):
    """An object with `read(size)` as a raw stream, which can be buffered."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PARQUET: Final = b"PAR1"
"""First bytes of files that cannot be read."""

_HEAD = 1000
"""Bytes that decide whether data is text, and in which encoding."""


def unreadable_kind(line: bytes, following: bytes = b"") -> str | None:
    """Return what kind of file this is, whose first line with content is not JSON, and what to do about it.

    `None` if that is unknown. `following` is what comes after this line, or some of it.
    """
    kind = _binary_kind(line[:_HEAD])
    if kind is not None:
        return kind
    if line.startswith((b"data:", b"event:")):
        return "is a raw stream of server-sent events; log the response that the client assembles"
    begin = line.lstrip()[:1]
    if begin not in b"{[" and any(separator in line for separator in (b",", b";", b"\t")):
        return "looks like CSV; write each row as a JSON object on a line of its own"
    has_json = following.lstrip().startswith((b"{", b"[")) or b"\n{" in following
    if begin not in b"{[" and not has_json:
        return "is text without JSON; give JSON Lines, with a JSON object on each line, or a JSON array"
    return None


def _binary_kind(head: bytes) -> str | None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _has_zeros_between(head):
        return "is UTF-16 text; save it as UTF-8"
    if head.startswith(_ZSTD):
        return "is zstd data, which cannot be read here; unpack it, or pack it with gzip"
    if head.startswith(_PARQUET):
        return "is Parquet, which cannot be read here; give JSON Lines or a JSON array"
    if b"\0" in head or _is_hardly_utf8(head):
        return "is binary, or text that is not UTF-8; give JSON Lines or a JSON array in UTF-8"
    return None


def _has_zeros_between(head: bytes) -> bool:
    """Return whether every second byte is zero and no other: UTF-16 without a byte order mark, in Latin letters."""
    even, odd = head[::2], head[1::2]
    return len(odd) > 1 and ((not any(even) and all(odd)) or (not any(odd) and all(even)))


def _is_hardly_utf8(head: bytes) -> bool:
    """Return whether more than a tenth of the characters cannot be UTF-8.

    Text in Latin-1 has fewer; Cyrillic or Japanese text in an encoding of its own has more, too.
    """
    return head.decode("utf-8", "replace").count("\ufffd") > len(head) / 10
