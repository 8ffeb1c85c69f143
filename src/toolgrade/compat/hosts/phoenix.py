"""toolgrade's metrics as evaluators for the experiments of Arize Phoenix; its package is not needed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolgrade._internal.model import drop_none
from toolgrade.cases import AnyCase
from toolgrade.compat.hosts._evaluators import Feedback, HostMetrics, case_of_item, host_metrics
from toolgrade.evaluation.measuring import waits
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["evaluator"]

_LABELS = {True: "pass", False: "fail"}


@dataclass(frozen=True)
class PhoenixEvaluator:
    """An evaluator of Phoenix's protocol, sync and async."""

    _host: HostMetrics

    @property
    def name(self) -> str:
        """Name of the evaluator; each entry that it returns has the name of its metric."""
        return ", ".join(self._host.names)

    @property
    def kind(self) -> str:
        """What measures: `LLM` if a judge does, else `CODE`."""
        return "LLM" if any(map(waits, self._host.metrics)) else "CODE"

    def evaluate(self, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever a dataset holds
        """Return an entry for each metric."""
        return list(map(_entry, self._host.feedback(*_parts(fields))))

    async def async_evaluate(self, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
        """Return an entry for each metric, inside a running event loop."""
        return list(map(_entry, await self._host.feedback_async(*_parts(fields))))


def evaluator(
    *metrics: MetricLike, to_case: Callable[[Any, Any, Any, Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> PhoenixEvaluator:
    """Return an evaluator for `client.experiments.run_experiment(..., evaluators=[...])` of Phoenix's clients.

    It returns an entry per metric: `name`, `score` in [0, 1], `label` (`pass` or `fail`) and `explanation`, the reason.
    If a metric was skipped or failed, or no case could be read, there is no score, the label is `skipped` or `not
    measured`, and the explanation says why.

    Args:
        metrics: The metrics.
        to_case: Builds a case from `input`, `output`, `expected` and `metadata`. By default the output of the task
            contains the called tools, under `tools_called`, `messages` or `agent_trajectory`; and the output of the
            example, or its metadata, contains the expected ones, under `expected_tools`; docs/extend.md lists all
            keys.
        redactor: Redacts secrets in explanations.

    Raises:
        ConfigurationError: There is no metric, or one of them is not a metric.

    Example:
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.phoenix import evaluator
        >>> tools = evaluator(ToolCorrectnessMetric())
        >>> expected = {"expected_tools": [{"name": "add"}]}
        >>> [entry] = tools.evaluate(input={}, output={"tools_called": [{"name": "add"}]}, expected=expected)
        >>> entry["score"], entry["label"]
        (1.0, 'pass')
    """
    return PhoenixEvaluator(host_metrics(metrics, case_of_item if to_case is None else to_case, redactor))


def _parts(fields: dict[str, Any]) -> list[Any]:
    return [fields.get(name) for name in ("input", "output", "expected", "metadata")]


def _entry(feedback: Feedback) -> dict[str, Any]:
    """Return feedback in Phoenix's form."""
    entry: dict[str, Any] = {"name": feedback.name, "score": feedback.score, "explanation": feedback.comment}
    if feedback.passed is None:
        entry["label"] = "not measured" if feedback.failed else "skipped"
    else:
        entry["label"] = _LABELS[feedback.passed]
    return drop_none(entry)
