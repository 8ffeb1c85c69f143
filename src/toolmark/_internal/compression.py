"""How is a file packed? gzip and zstd are recognised by their first bytes, and read as if they were plain."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, BinaryIO, Final, cast

from toolmark._internal.lazy_imports import import_extra

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 14
"""Bytes that are unpacked at once; of what packs best, they make half a gigabyte."""


class CorruptZstdError(Exception):
    """Data that begins as zstd does is none, or ends too early."""


CORRUPTION_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, CorruptZstdError)
"""What reading broken packed data raises."""


def corruption_message(error: BaseException) -> str:
    """Return what is wrong with packed data in words."""
    return f"broken {'zstd' if isinstance(error, CorruptZstdError) else 'gzip'} data: {error}"


def decompress(file: BinaryIO) -> BinaryIO:
    """Return the file, through gzip or zstd where its first bytes say so; they are looked at, not taken.

    Raises:
        MissingPackageError: It is zstd data, and zstandard is not installed.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_Raw(file))
    begin = buffered.peek(len(ZSTD))
    if begin.startswith(GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    return cast("BinaryIO", io.BufferedReader(_Zstd(buffered)) if begin.startswith(ZSTD) else buffered)


class _Raw(io.RawIOBase):
    """Any object with `read(size)`, as something that can be buffered."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Zstd(io.RawIOBase):
    """The frames of a zstd file, one after the other.

    The package's own reader takes the end of the file for the end of the data, also within a frame; what was cut off
    would be missing without a word.
    """

    def __init__(self, file: BinaryIO) -> None:
        zstandard = import_extra("zstandard", "zst", "reading zstd data")
        self._file = file
        self._error: type[Exception] = zstandard.ZstdError
        self._unpacker = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._packed = b""
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._plain and self._more():
            pass
        data, self._plain = self._plain[: len(buffer)], self._plain[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _more(self) -> bool:
        """Unpack a piece, and return whether there was one."""
        piece = self._packed or self._file.read(_PIECE)
        if not piece:
            if self._frame is not None:
                raise CorruptZstdError("it ended before the end of its last frame")
            return False
        if self._frame is None:
            self._frame = self._unpacker.decompressobj()
        try:
            self._plain, self._packed = memoryview(self._frame.decompress(piece)), b""
        except self._error as error:
            raise CorruptZstdError(str(error)) from None
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None
        return True
