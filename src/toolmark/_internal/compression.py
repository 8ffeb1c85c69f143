"""Reading of compressed files: gzip and zstd are detected by their first bytes and decompressed on the way."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, BinaryIO, Final, cast

from toolmark._internal.lazy_imports import import_extra

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 14
"""Bytes that are decompressed at once; data of the best ratio makes half a gigabyte of them."""


class CorruptZstdError(Exception):
    """Data with the first bytes of zstd is not zstd data, or ends too early."""


CORRUPTION_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, CorruptZstdError)
"""Exceptions that reading corrupt compressed data raises."""


def corruption_message(error: BaseException) -> str:
    """Return a message for one of `CORRUPTION_ERRORS`."""
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
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _ZstdReader(io.RawIOBase):
    """The decompressed frames of a zstd file, one after the other.

    The package's own reader accepts a file that ends within a frame, so truncated data would be lost without an error.
    """

    def __init__(self, file: BinaryIO) -> None:
        zstandard = import_extra("zstandard", "zst", "reading zstd data")
        self._file = file
        self._error: type[Exception] = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._compressed = b""
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # A chunk may hold only a header and give no data, which is not the end of the file.
        while not self._plain and self._read_chunk():
            pass
        data, self._plain = self._plain[: len(buffer)], self._plain[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

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
