r"""The same scoring over files of any size: part by part, in several processes, resumed after it was killed.

Example:
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from toolmark import ToolCorrectnessMetric
    >>> from toolmark.scale import score_files
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

from toolmark.scale.arrow import ArrowScorer
from toolmark.scale.detect import is_begun, is_parquet
from toolmark.scale.extrapolation import Extrapolation, extrapolate
from toolmark.scale.files import EngineName, score_files
from toolmark.scale.sample import Sample, SampledStratum, sample_files
from toolmark.scale.totals import ClusterSum, MetricTotals, Totals

__all__ = [
    "ArrowScorer",
    "ClusterSum",
    "EngineName",
    "Extrapolation",
    "MetricTotals",
    "Sample",
    "SampledStratum",
    "Totals",
    "extrapolate",
    "is_begun",
    "is_parquet",
    "sample_files",
    "score_files",
]
