"""Reading of files: gzip and zstd are detected by their first bytes and decompressed on the way.

A small file may unpack to any size, so what must be in memory at once is limited: a record, which is a line, and a file
that is read as a whole. Files with short lines may have any length. A file that is neither JSON Lines nor a JSON array
is recognized by how it begins.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, cast

from toolgrade._internal.lazy_imports import import_extra
from toolgrade.errors import ConfigurationError

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_CHUNK = 1 << 10
"""Bytes of zstd data that are decompressed at once; data of the best ratio makes 32 MiB of them."""

MAX_RECORD_SETTING: Final = "TOOLGRADE_MAX_RECORD_MIB"
"""Environment variable with the size that a record may have."""
_MAX_RECORD_MIB = 256
_MOST_BLANK_LINES = 1_000_000
_RECORDS_IN_MEMORY = 4
"""A file that is read as a whole, such as a JSON array, may be as large as so many records."""


class TooLargeError(Exception):
    """A record, or a file that must be read as a whole, is larger than memory should hold."""


class CorruptZstdError(Exception):
    """Data with the first bytes of zstd is not zstd data, or ends too early."""


CORRUPTION_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, CorruptZstdError, TooLargeError)
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


def lines_of(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Yield the lines of the next `size` bytes of a file with their ends; none may be larger than a record.

    Raises:
        TooLargeError: A line is larger, or more than a million lines in a row are blank: 1 MB of gzip has a billion.
        ConfigurationError: See `max_record_bytes`.
    """
    limit = max_record_bytes()
    readline = file.readline
    left, blank = sys.maxsize if size is None else size, 0
    while left > 0 and (line := readline(min(limit + 1, left))):
        if len(line) > limit:
            raise _too_large("a record", limit)
        left -= len(line)
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
    if isinstance(error, TooLargeError):
        return str(error)
    return f"broken {'zstd' if isinstance(error, CorruptZstdError) else 'gzip'} data: {error}"


def decompress(file: BinaryIO) -> BinaryIO:
    """Return the file, decompressed while it is read if its first bytes are those of gzip or zstd.

    Raises:
        MissingPackageError: It is zstd data, and zstandard is not installed.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_RawReader(file))
    start = buffered.peek(len(ZSTD))  # does not consume them
    if start.startswith(GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    if start.startswith(ZSTD):
        return cast("BinaryIO", io.BufferedReader(_ZstdReader(buffered)))
    return cast("BinaryIO", buffered)


class _RawReader(io.RawIOBase):
    """An object with `read(size)` as a raw stream, which can be buffered."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes | memoryview:
        """Return the next bytes, at most `size`; none at the end."""
        return self._file.read(size)


class _ZstdReader(_RawReader):
    """The decompressed frames of a zstd file, one after the other.

    The package's own reader accepts a file that ends within a frame, so truncated data would be lost without an error.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        zstandard = import_extra("zstandard", "zstandard", "reading zstd data")
        self._error: type[Exception] = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._compressed = b""
        self._plain = memoryview(b"")

    def _next(self, size: int) -> bytes | memoryview:
        # A chunk may hold only a header and give no data, which is not the end of the file.
        while not self._plain and self._read_chunk():
            pass
        data, self._plain = self._plain[:size], self._plain[size:]
        return data

    def _read_chunk(self) -> bool:
        """Decompress one chunk; return false at the end of the file."""
        chunk = self._compressed or self._file.read(_CHUNK)
        if not chunk:
            if self._frame is not None:
                raise CorruptZstdError("it ended before the end of its last frame")
            return False
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        try:
            self._plain, self._compressed = memoryview(self._frame.decompress(chunk)), b""
        except self._error as error:
            raise CorruptZstdError(str(error)) from None
        if self._frame.eof:
            self._compressed, self._frame = self._frame.unused_data, None
        return True


_PARQUET: Final = b"PAR1"
"""First bytes of a Parquet file."""

_HEAD = 1000
"""Bytes that decide whether data is text, and in which encoding."""


def unreadable_kind(line: bytes, following: bytes = b"") -> str | None:
    """Return what a file is whose first line with content is not JSON, and what to do; `None` if that is unknown.

    `following` is what comes after this line, or some of it.
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
    if head.startswith(_PARQUET):
        return "is Parquet, which cannot be read here; give JSON Lines or a JSON array"
    if b"\0" in head or _is_mostly_binary(head):
        return "is a binary file; give JSON Lines or a JSON array"
    return None


def _has_zeros_between(head: bytes) -> bool:
    """Return whether every second byte is zero and no other: UTF-16 without a byte order mark, in Latin letters."""
    even, odd = head[::2], head[1::2]
    return len(odd) > 1 and ((not any(even) and all(odd)) or (not any(odd) and all(even)))


def _is_mostly_binary(head: bytes) -> bool:
    """Return whether more than a tenth of the characters cannot be UTF-8; other encodings of text have fewer."""
    return head.decode("utf-8", "replace").count("\ufffd") > len(head) / 10
