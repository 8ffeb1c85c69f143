"""The matching algorithms. They know JSON values and positions, not toolmark's models, and need nothing else."""

from toolmark.matching._contained import contained
from toolmark.matching._kinds import Kinds, kinds_of
from toolmark.matching._weight import Calls, weight
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Denominator, Item, Pair, quotient
from toolmark.matching.argument_pattern import ONE, ZERO, Ratio, Template, Wanted, credit_of, fits, json_of
from toolmark.matching.json_compare import (
    ABSENT,
    Absent,
    Difference,
    Path,
    argument_differences,
    json_equal,
    outputs_equal,
    similarity,
)
from toolmark.matching.plan import Entry, Layout, align_layout, forbidden_calls, places_of
from toolmark.matching.plan_slots import Want
from toolmark.matching.redacted_values import has_mark

__all__ = [
    "ABSENT",
    "ONE",
    "ZERO",
    "Absent",
    "Alignment",
    "Calls",
    "Denominator",
    "Difference",
    "Entry",
    "Item",
    "Kinds",
    "Layout",
    "Pair",
    "Path",
    "Ratio",
    "Template",
    "Want",
    "Wanted",
    "align",
    "align_layout",
    "argument_differences",
    "contained",
    "credit_of",
    "fits",
    "forbidden_calls",
    "has_mark",
    "json_equal",
    "json_of",
    "kinds_of",
    "outputs_equal",
    "places_of",
    "quotient",
    "similarity",
    "weight",
]
