"""Alignment of expected and called tools; it knows no model of toolgrade."""

from toolgrade.matching.alignment import Alignment, Pair
from toolgrade.matching.engine import align

__all__ = ["Alignment", "Pair", "align"]
