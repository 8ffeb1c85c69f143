"""Outside shapes of recorded runs, read into toolmark's own: one file per shape."""

from __future__ import annotations

from toolmark.formats.names import strip_suffix
from toolmark.formats.records import case_from_record, looks_like_record
from toolmark.formats.trajectory import run_from_messages

__all__ = ["case_from_record", "looks_like_record", "run_from_messages", "strip_suffix"]
