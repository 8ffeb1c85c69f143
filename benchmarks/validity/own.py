"""toolgrade's metrics, as the table of validity lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgrade import TaskSuccessMetric, ToolCorrectnessMetric
from toolgrade.metrics import Metric

ARGUMENTS = ("input_parameters",)


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
        Row("TaskSuccess(calls_only), effects unknown", _calls_only(guess_effects=False), CALLS_ONLY),
        Row("TaskSuccess(calls_only), effects guessed", _calls_only(guess_effects=True), CALLS_ONLY),
        Row("TaskSuccess of the calls, failures unknown", TaskSuccessMetric(), CALLS_WITHOUT_FAILURES),
        Row("TaskSuccess of the calls", TaskSuccessMetric(), CALLS_ONLY),
        Row("TaskSuccess", TaskSuccessMetric()),
    ]


def _calls_only(*, guess_effects: bool) -> Metric:
    """Return the metric of calls alone that compares JSON values ."""
    return TaskSuccessMetric(calls_only=True, guess_effects=guess_effects, read_weight=0.1, compare="exact")
