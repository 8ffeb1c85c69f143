"""What the docs say of large files and of data engines; `.ci/engines` runs the programs of the engines."""

from __future__ import annotations

import json
import re

import pytest

from processes import ROOT
from toolgrade import ToolCorrectnessMetric
from toolgrade.evaluation.arrow import result_schema, score_batch
from toolgrade.evaluation.files import PART_BYTES
from toolgrade.result import ResultStatus

ENGINES = (
    (ROOT / "docs" / "extend.md").read_text(encoding="utf-8").partition("## Data engines\n")[2].partition("\n## ")[0]
)
RESULTS = ENGINES.partition("### Results\n")[2]
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")


def test_the_table_of_results_has_their_columns() -> None:
    """In their order, and each status."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed here")
    cells = re.findall(r"^\| (`.*?) \|(.*)\|$", RESULTS, re.MULTILINE)
    (statuses,) = [text for names, text in cells if names == "`status`"]

    assert re.findall(r"`(\w+)`", " ".join(names for names, _ in cells)) == result_schema().names
    assert re.findall(r"`(\w+)`", statuses) == [one.value for one in ResultStatus]


def test_limits_are_as_said() -> None:
    """The size of a part; a run that was resumed counts twice in rows; what `{}` and null arguments are."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed here")
    run = {"input": "?", "status": "interrupted", "run_id": "r1"}
    rows = [
        {"tools_called": [], "expected_tools": [], "run": run},
        {"tools_called": [], "expected_tools": [], "run": {"input": "?", "run_id": "r1"}},
        {
            "tools_called": [{"name": "a", "input_parameters": {}}],
            "expected_tools": [{"name": "a", "input_parameters": {"to": None}}],
        },
    ]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
    results = score_batch(pa.table({"case": list(map(json.dumps, rows))}), [metric]).to_pylist()

    assert [row["score"] for row in results] == [1, 1, 0]
    assert f"parts of {PART_BYTES >> 20} MiB" in GUIDE
