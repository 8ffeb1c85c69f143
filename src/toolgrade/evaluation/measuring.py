"""Measuring of one case in the thread of the caller, and checks of metrics and of what they return.

It is apart from evaluations because these load an event loop, which scoring of files does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import copy_context
from math import isfinite
from typing import TYPE_CHECKING, Final

from toolgrade._internal.options import require
from toolgrade.cases import AnyCase
from toolgrade.errors import ConfigurationError, MissingExpectationError
from toolgrade.metrics import MetricLike
from toolgrade.metrics.called_tools import refuse_spoilt
from toolgrade.result import MetricResult, ResultStatus, errored_result

if TYPE_CHECKING:
    from toolgrade.dataset import Golden
    from toolgrade.inputs import Unit


NO_EXPECTATION: Final = "its golden does not state it"
"""What a case lacks that a metric needs."""


def no_golden_of(golden: int | None, *, has_goldens: bool) -> str | None:
    """Return what a case of a file with this golden lacks if it states no expectation; `None` without goldens."""
    if not has_goldens:
        return None
    return "no golden" if golden is None else NO_EXPECTATION


def checked_metrics(metrics: object, method: str = "measure") -> list[MetricLike]:
    """Return at least one metric.

    Raises:
        ConfigurationError: There is none, or one has no label, threshold or `method`.
    """
    listed = list(metrics) if isinstance(metrics, Iterable) else []
    require(listed, "metrics must be a list of at least one metric", metrics)
    for metric in listed:
        if isinstance(metric, type):
            raise ConfigurationError(f"{metric!r} is a class, not a metric; did you mean {metric.__name__}()?")
        missing = [name for name in ("label", "threshold", method) if not hasattr(metric, name)]
        if missing:
            wrap = (
                "; wrap it: toolgrade.compat.deepeval.from_deepeval(metric)" if hasattr(metric, "is_successful") else ""
            )
            raise ConfigurationError(f"{metric!r} is not a metric: missing attribute(s) {', '.join(missing)}{wrap}")
    return listed


def measure_in_thread(metric: MetricLike, case: AnyCase, no_golden: str | None = None) -> MetricResult:
    """Measure a case in this thread; an exception becomes an errored result; `no_golden` as in `unmeasured`."""
    try:
        refuse_spoilt(case)  # also for metrics of users
        # In a copy of the context, so that `metric.score` of the caller does not change.
        return checked_result(copy_context().run(metric.measure, case))
    except Exception as error:  # noqa: BLE001 - one bad case must not lose the others
        return unmeasured(metric, error, no_golden)


def unmeasured(metric: MetricLike, error: Exception, no_golden: str | None = None) -> MetricResult:
    """Return the result of a metric that an error kept from measuring.

    A case that states no expectation is skipped, unless goldens should have given it one: `no_golden` says what lacks.
    """
    if isinstance(error, MissingExpectationError):
        if no_golden is None:
            reason = f"Skipped: {error}"
            return MetricResult(
                metric=metric.label, status=ResultStatus.SKIPPED, threshold=metric.threshold, reason=reason
            )
        error = MissingExpectationError(f"{no_golden}: {error}")
    return errored_result(metric.label, metric.threshold, error)


def waits(metric: MetricLike) -> bool:
    """Return whether a metric waits for something outside, such as a judge, by its attribute `waits`."""
    return getattr(metric, "waits", False) is True


def unit_of(metrics: Sequence[MetricLike], goldens: Sequence[Golden] | None = None) -> Unit:
    """Return what files are read as: conversations for a golden or a metric that is about them.

    Otherwise a conversation gives a case for each question if each has its own golden, or a judge is asked about it.
    """
    whole = any(getattr(metric, "measures_conversations", False) is True for metric in metrics)
    if whole or any(golden.is_conversation for golden in goldens or ()):
        return "conversations"
    return "cases" if goldens is not None or any(map(waits, metrics)) else "any"


def is_batched(metric: MetricLike) -> bool:
    """Return whether a metric's judge asks in batches, so that all cases must wait for it at the same time."""
    return getattr(getattr(metric, "judge", None), "is_batched", False) is True


def checked_result(value: object) -> MetricResult:
    """Return the result of a metric, which may be a user's, if it is valid; a score may have it as `result`."""
    value = getattr(value, "result", value)
    if not isinstance(value, MetricResult):
        raise ConfigurationError(f"a metric must return a MetricResult, got {type(value).__name__} {value!r:.60}")
    is_scored = value.status is ResultStatus.SCORED
    has_score, has_verdict = value.score is not None, value.passed is not None
    if has_score != is_scored or has_verdict != is_scored:
        message = f"the metric returned a {value.status.value} result with score={value.score}, passed={value.passed}"
        raise ConfigurationError(f"{message}; a scored result must have both, any other result neither")
    if not isfinite(value.score or 0):
        raise ConfigurationError(f"the metric returned the score {value.score}, which must be a number from 0 to 1")
    return value
