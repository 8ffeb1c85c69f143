"""toolmark's metrics, as the table of validity lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

from toolmark import (
    LLMTestCase,
    MetricResult,
    ResultStatus,
    TaskEffectMetric,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolErrorRate,
    ToolRecoveryMetric,
)
from toolmark.compat import adk, agentevals, pydantic_evals, ragas
from toolmark.matching import Denominator
from toolmark.metrics import Metric, MetricLike

PARAMS = ((), ("input_parameters",))
"""Names alone, and names with arguments. Outputs are not compared, since the expected ones are unknown."""

FAILED = "^Error"
"""How these tools report that nothing was done; the recordings show it in no other way."""

EFFECTS = {
    "get_*": "read",
    "list_*": "read",
    "search_*": "read",
    "calculate": "read",
    "think": "read",
    "transfer_to_human_agents": "read",
    "*": "write",
}
"""What an expert would declare: a transfer to a person changes nothing in the database."""


@dataclass(frozen=True)
class Named:
    """A metric under the name by which the table shows it, or one part of its results in place of the score."""

    label: str
    metric: Metric
    part: str | None = None

    @property
    def threshold(self) -> float:
        """The metric's."""
        return self.metric.threshold

    def measure(self, case: LLMTestCase, /) -> MetricResult:
        """Return the metric's result, or that of the part; skipped where the part does not apply."""
        result = self.metric.measure(case)
        if self.part is None or result.score is None:
            return replace(result, metric=self.label)
        score = result.parts.get(self.part)
        if score is None:
            return replace(result, status=ResultStatus.SKIPPED, score=None, passed=None, reason="does not apply")
        return replace(result, score=score, passed=score >= self.threshold)

    async def a_measure(self, case: LLMTestCase, /) -> MetricResult:
        """Do what `measure` does."""
        return self.measure(case)


def groups() -> dict[str, list[MetricLike]]:
    """Return the metrics by the heading under which they stand."""
    return {
        "toolmark, TaskEffectMetric": _effects(),
        "toolmark, parts of the first of these": _parts(),
        "toolmark, ToolCorrectnessMetric of a part of the calls, guessed effects": _prepared(),
        "toolmark, ToolCorrectnessMetric": _classic(),
        "toolmark, calls alone": [ToolEfficiencyMetric(), ToolErrorRate(), ToolRecoveryMetric()],
        "toolmark, views of other libraries": _views(),
    }


def _effects() -> list[MetricLike]:
    option_sets: tuple[Mapping[str, Any], ...] = (
        {"guess_effects": True, "error_pattern": FAILED},
        {"effects": EFFECTS, "error_pattern": FAILED},
        {"guess_effects": True, "error_pattern": FAILED, "read_weight": 0},
        {"guess_effects": True},
        {"guess_effects": True, "ignore_failed": False},
        {"error_pattern": FAILED},
        {},
    )
    return [Named(_label(options), TaskEffectMetric(**options)) for options in option_sets]


def _label(options: Mapping[str, Any]) -> str:
    """Return the options as the table shows them."""
    words = {"effects": "declared effects", "guess_effects": "guessed effects", "ignore_failed": "failed calls count"}
    words_of_options = [words.get(name) or f"{name}={value}" for name, value in options.items()]
    return ", ".join(words_of_options) or "nothing declared, nothing guessed"


def _parts() -> list[MetricLike]:
    metric = TaskEffectMetric(guess_effects=True, error_pattern=FAILED)
    names = ("write_f1", "write_recall", "write_precision", "write_order", "read_recall")
    return [Named(name, metric, name) for name in names]


def _prepared() -> list[MetricLike]:
    """Return the classic score of a part of the calls: what each step of the preparation is worth."""
    done: dict[str, Any] = {"ignore_failed": True, "error_pattern": FAILED}
    writes: dict[str, Any] = {"only": "write", "guess_effects": True}
    arguments: dict[str, Any] = {"evaluation_params": PARAMS[1]}
    option_sets: dict[str, dict[str, Any]] = {
        **{
            f"writes that succeeded, with arguments, denominator={denominator}": {
                **(done | writes | arguments),
                "denominator": denominator,
            }
            for denominator in get_args(Denominator)
        },
        "writes that succeeded, with arguments, exact": {**(done | writes | arguments), "should_exact_match": True},
        "writes that succeeded, names": done | writes,
        "writes, also those that failed, with arguments, denominator=f1": {**(writes | arguments), "denominator": "f1"},
        "all that succeeded, with arguments, denominator=f1": {**(done | arguments), "denominator": "f1"},
        "reads that succeeded, with arguments": {**(done | writes | arguments), "only": "read"},
    }
    return [Named(name, ToolCorrectnessMetric(**options)) for name, options in option_sets.items()]


def _classic() -> list[MetricLike]:
    graded = [
        ToolCorrectnessMetric(evaluation_params=params, should_consider_ordering=ordered, denominator=denominator)
        for ordered, params, denominator in product((False, True), PARAMS, get_args(Denominator))
    ]
    return [*graded, *(ToolCorrectnessMetric(evaluation_params=params, should_exact_match=True) for params in PARAMS)]


def _views() -> list[MetricLike]:
    return [
        *(
            agentevals.TrajectoryMatch(trajectory_match_mode=mode, tool_args_match_mode=arguments)
            for arguments, mode in product(("exact", "ignore"), get_args(agentevals.TrajectoryMatchMode))
        ),
        *(
            adk.TrajectoryMatch(match_type=kind, ignore_args=ignored)
            for ignored, kind in product((False, True), get_args(adk.MatchType))
        ),
        pydantic_evals.ToolCorrectness(),
        pydantic_evals.ToolCorrectness(allow_extra=True),
        *(pydantic_evals.TrajectoryMatch(order=order) for order in get_args(pydantic_evals.TrajectoryOrder)),
        ragas.ToolCallAccuracy(),
        ragas.ToolCallAccuracy(strict_order=False),
        ragas.ToolCallF1(),
    ]
