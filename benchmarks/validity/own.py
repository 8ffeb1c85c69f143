"""toolgrade's metrics, as the table of validity lists them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from validity.runs import Run, case_of

from toolgrade import RunHealthMetric, TaskSuccessMetric, ToolCorrectnessMetric, ToolSuccessRate
from toolgrade.evaluation.agreement import RunContent, agreements
from toolgrade.metrics import Metric

ARGUMENTS = ("input_parameters",)


@dataclass(frozen=True)
class Row:
    """A metric under the name by which the table shows it, and what it gets of a run."""

    name: str
    metric: Metric
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
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
        Row("ToolSuccessRate", ToolSuccessRate()),
        Row("RunHealth", RunHealthMetric()),
        Row("TaskSuccess, tools with a shared prefix", TaskSuccessMetric(), {"prefix": "acme_"}),
    ]


def _calls_only(*, guess_effects: bool) -> Metric:
    """Return the metric of calls alone that compares JSON values ."""
    return TaskSuccessMetric(calls_only=True, guess_effects=guess_effects, read_weight=0.1, compare="exact")


AGREEMENT, GROUNDING = "agreement of runs", "ToolGrounding of writes"


@dataclass(frozen=True)
class Gate:
    """A row of the table, and from which score on a run passes."""

    row: str
    threshold: float

    @property
    def name(self) -> str:
        """The row and the threshold."""
        return f"{self.row}, at {self.threshold:g}"


GATES = (
    Gate("TaskSuccess", 0.98),
    Gate("TaskSuccess of the calls", 0.98),
    Gate("ToolCorrectness, names", 0.5),
    Gate("ToolCorrectness, names", 1),
    Gate("ToolCorrectness, arguments, ordered", 1),
    Gate(GROUNDING, 1),
    Gate("RunHealth", 1),
    Gate("RunHealth", 0.75),
)


def agreement_of_runs(runs: Sequence[Run]) -> list[float | None]:
    """Return how far the writes of each run agree with those of the other runs of its task; no golden is used."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        places[str(run["task"])].append(place)
    scores: dict[int, float | None] = {}
    for of_task in places.values():
        contents = [RunContent.of(case_of(runs[place], **CALLS_ONLY)) for place in of_task]
        scores |= {place: writes for place, (writes, _) in zip(of_task, agreements(contents), strict=True)}
    return [scores[place] for place in range(len(runs))]
