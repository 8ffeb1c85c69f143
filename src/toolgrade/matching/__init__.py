"""Alignment of expected and called tools; it knows no model of toolgrade."""
