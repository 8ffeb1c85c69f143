"""Readers of recorded messages: one file per vendor format, and what they share."""
