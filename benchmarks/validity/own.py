"""toolgrade's metrics, as the table of validity lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgrade import TaskEffectMetric, TaskSuccessMetric, ToolCorrectnessMetric
from toolgrade.metrics import Metric

ARGUMENTS = ("input_parameters",)

FULL = "TaskSuccess"
COMPARED = ("TaskSuccess, calls only", FULL)
"""Rows that are compared with the best other library."""


@dataclass(frozen=True)
class Row:
    """A metric under the name by which the table shows it, and what it gets of a run."""

    name: str
    metric: Metric
    options: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Options of `case_of`."""


CALLS_ONLY = {"texts": False}
CALLS_WITHOUT_FAILURES = {"texts": False, "failures": False}


def rows() -> list[Row]:
    """Return the rows, in the order of the table."""
    arguments: dict[str, Any] = {"evaluation_params": ARGUMENTS}
    return [
        Row("ToolCorrectness, names", ToolCorrectnessMetric(), CALLS_ONLY),
        Row("ToolCorrectness, arguments", ToolCorrectnessMetric(**arguments), CALLS_ONLY),
        Row(
            "ToolCorrectness, arguments, ordered",
            ToolCorrectnessMetric(**arguments, should_consider_ordering=True),
            CALLS_ONLY,
        ),
        Row("ToolCorrectness, exact", ToolCorrectnessMetric(**arguments, should_exact_match=True), CALLS_ONLY),
        Row("TaskEffect, defaults, failures unknown", TaskEffectMetric(), CALLS_WITHOUT_FAILURES),
        Row("TaskEffect, defaults", TaskEffectMetric(), CALLS_ONLY),
        Row("TaskEffect, guessed effects", TaskEffectMetric(guess_effects=True), CALLS_ONLY),
        Row("TaskSuccess, calls only, failures unknown", TaskSuccessMetric(), CALLS_WITHOUT_FAILURES),
        Row("TaskSuccess, calls only", TaskSuccessMetric(), CALLS_ONLY),
        Row(FULL, TaskSuccessMetric()),
    ]
