"""Alignment of expected and called tools, and checks of JSON values; it knows no model of toolgrade."""

from toolgrade.matching.align_calls import align
from toolgrade.matching.alignment import Alignment, Pair

__all__ = ["Alignment", "Pair", "align"]
