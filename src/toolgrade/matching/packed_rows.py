"""Rows of numbers, each packed into one Python integer.

A packed row has one *lane* of equal width for each column. One addition, subtraction or comparison of integers then
handles all columns of a row, in plain Python nearly as fast as in a compiled library.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

_FORMATS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""How `struct` names numbers of so many bytes."""
_HIGHEST_BIT: Final = 0x80


class Lanes:
    """The form of packed rows.

    Attributes:
        count: The number of lanes.
        size: The bytes of a lane.
        bits: The bits of a lane. Values leave the highest one free for carries; a *mask* of columns has only such bits.
        ones: The row of ones.
        all: The mask of all columns.
    """

    def __init__(self, count: int, most: int) -> None:
        """Prepare rows of `count` values up to `most`."""
        self.count: int = count
        needed = most.bit_length() // 8 + 1
        self.size: int = min((size for size in _FORMATS if size >= needed), default=needed)
        self.bits: int = 8 * self.size
        self.ones: int = self.ones_at(range(count))
        self.all: int = self.ones << (self.bits - 1)

    def ones_at(self, columns: Sequence[int]) -> int:
        """Return the row with ones at these columns, and zeros elsewhere."""
        data = bytearray(self.count * self.size)
        for column in columns:
            data[column * self.size] = 1
        return int.from_bytes(data, "little")

    def filled_at(self, columns: Sequence[int]) -> int:
        """Return the row with all bits set at these columns, and zeros elsewhere."""
        return self.ones_at(columns) * ((1 << self.bits) - 1) if columns else 0

    def packed(self, values: Sequence[int]) -> int:
        """Return a row of these values."""
        if self.size in _FORMATS:
            data = pack(f"<{len(values)}{_FORMATS[self.size]}", *values)
        else:
            data = b"".join([value.to_bytes(self.size, "little") for value in values])
        return int.from_bytes(data, "little")

    def values(self, row: int) -> Sequence[int]:
        """Return the values of a row."""
        data = row.to_bytes(self.count * self.size, "little")
        if self.size in _FORMATS:
            return unpack(f"<{self.count}{_FORMATS[self.size]}", data)
        return [int.from_bytes(data[at : at + self.size], "little") for at in range(0, len(data), self.size)]

    def columns(self, mask: int) -> list[int]:
        """Return the columns of a mask, ascending."""
        highest_bytes = mask.to_bytes(self.count * self.size, "little")[self.size - 1 :: self.size]
        columns: list[int] = []
        column = highest_bytes.find(_HIGHEST_BIT)
        while column >= 0:
            columns.append(column)
            column = highest_bytes.find(_HIGHEST_BIT, column + 1)
        return columns

    def converted(self, mask: int, lanes: Lanes) -> int:
        """Return a mask of these lanes as one of other lanes."""
        data = bytearray(lanes.count * lanes.size)
        data[lanes.size - 1 :: lanes.size] = mask.to_bytes(self.count * self.size, "little")[self.size - 1 :: self.size]
        return int.from_bytes(data, "little")
