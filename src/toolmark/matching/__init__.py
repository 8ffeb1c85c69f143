"""Optimal alignment of expected and called tools; it knows JSON values and positions, not toolmark's models."""

from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Denominator, Pair

__all__ = ["Alignment", "Denominator", "Pair", "align"]
