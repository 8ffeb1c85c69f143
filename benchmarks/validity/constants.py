"""The mean AUC of `TaskSuccessMetric` with each of its constants halved and doubled.

The score is computed anew from the parts of the results, by the formula of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from validity.runs import Run, case_of

from toolgrade import TaskSuccessMetric, ToolgradeError
from toolgrade.stats import auc

Parts = Mapping[str, float]

CONSTANTS = {"tool": 1.0, "reads": 0.02, "required_texts": 0.5, "ended": 0.5, "answer": 0.5}
"""Credit of a write for the right tool over that for its arguments, and the weight of each other part."""

WORDS = {
    "tool": "credit for the right tool, over that for its arguments",
    "reads": "weight of the expected reads",
    "required_texts": "weight of the required texts",
    "ended": "weight of the end of the run",
    "answer": "weight of the answer",
}


def score_of(parts: Parts, constants: Mapping[str, float]) -> float:
    """Return the score of a result with these parts; a part that the case does not state changes nothing.

    A forbidden call makes the score 0; none of these cases forbids one.
    """
    ratio = constants["tool"]
    score = (ratio * parts.get("effects", 1.0) + parts.get("arguments", 1.0)) / (1 + ratio)
    for name, weight in constants.items():
        if name != "tool":
            score *= 1 - weight * (1 - parts.get(name, 1.0))
    return score


def figures(data: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Return the mean AUC over the data sets, and with each constant that matters here halved and doubled.

    Runs that the metric cannot score are left out.

    Raises:
        AssertionError: The formula here is not that of the metric.
    """
    metric = TaskSuccessMetric()
    sets: list[tuple[list[Parts], list[bool]]] = []
    for runs in data.values():
        parts: list[Parts] = []
        good: list[bool] = []
        for run in runs:
            try:
                result = metric.measure(case_of(run))
            except ToolgradeError:
                continue
            if result.score is None:
                continue
            if not math.isclose(result.score, score_of(result.parts, CONSTANTS), abs_tol=1e-9):
                message = f"the formula of validity/constants.py is not that of the metric: {result.reason}"
                raise AssertionError(message)
            parts.append(result.parts)
            good.append(run["reward"] >= 1)
        sets.append((parts, good))

    def mean(constants: Mapping[str, float]) -> float:
        areas = [auc([score_of(one, constants) for one in parts], good) for parts, good in sets]
        return round(fmean(0.5 if area is None else area for area in areas), 4)

    stated = {name for parts, _ in sets for one in parts for name in one}
    moved = {
        WORDS[name]: [value, *(mean({**CONSTANTS, name: value * factor}) for factor in (0.5, 2))]
        for name, value in CONSTANTS.items()
        if name == "tool" or name in stated
    }
    return {"constants mean": mean(CONSTANTS), "constants": moved}
