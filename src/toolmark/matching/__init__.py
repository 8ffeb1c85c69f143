"""The matching algorithms. They know JSON values and positions, not toolmark's models, and need nothing else."""

from toolmark.matching._align import align
from toolmark.matching._alignment import Alignment, Denominator, Item, Pair
from toolmark.matching._redacted import has_mark
from toolmark.matching._values import (
    ABSENT,
    Absent,
    Difference,
    Path,
    argument_differences,
    json_equal,
    outputs_equal,
    similarity,
)

__all__ = [
    "ABSENT",
    "Absent",
    "Alignment",
    "Denominator",
    "Difference",
    "Item",
    "Pair",
    "Path",
    "align",
    "argument_differences",
    "has_mark",
    "json_equal",
    "outputs_equal",
    "similarity",
]
