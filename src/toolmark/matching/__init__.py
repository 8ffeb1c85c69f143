"""Alignment of expected and called tools, and checks of JSON values; it knows no model of toolmark."""

from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Denominator, Pair

__all__ = ["Alignment", "Denominator", "Pair", "align"]
