r"""Scoring of files of any size: part by part, in several processes, resumable.

Example:
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from toolgrade import ToolCorrectnessMetric
    >>> from toolgrade.scale import score_files
    >>> call = {"name": "refund"}
    >>> case = {"id": "late parcel", "tools_called": [call], "expected_tools": [call]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     monday, tuesday = Path(folder, "monday.jsonl"), Path(folder, "tuesday.jsonl")
    ...     for file in (monday, tuesday):
    ...         _ = file.write_text(json.dumps(case) + "\n")
    ...     totals = score_files([monday, tuesday], [ToolCorrectnessMetric()])
    >>> totals.cases, totals.metrics[0].mean
    (2, 1.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolgrade.scale.arrow import ArrowScorer
    from toolgrade.scale.files import score_files
    from toolgrade.scale.totals import MetricTotals, Totals

_HOME = {
    "ArrowScorer": "arrow",
    "MetricTotals": "totals",
    "Totals": "totals",
    "score_files": "files",
}

__all__ = [
    "ArrowScorer",
    "MetricTotals",
    "Totals",
    "score_files",
]

# `toolgrade score` imports `toolgrade.scale.detect`, and must not load the rest of this package.
_load = lazy_getattr(__name__, _HOME)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
