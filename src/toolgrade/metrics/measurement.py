"""The measurement of a case, and the `MetricResult` that the options of a metric make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from toolgrade._internal.text import number_text, plural
from toolgrade.calls import ToolCall
from toolgrade.matching.alignment import Alignment
from toolgrade.metrics.wording import reason_text
from toolgrade.result import TOLERANCE, Finding, MetricResult, ResultStatus

NO_CALLS: Final = "no call was made"

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class ResultOptions(Protocol):
    """The options of a metric that turn a measurement into a result."""

    @property
    def label(self) -> str:
        """The name under which results are reported."""
        ...

    @property
    def threshold(self) -> float:
        """The lowest score that passes."""
        ...

    @property
    def strict_mode(self) -> bool:
        """Whether any score below 1 becomes 0."""
        ...

    @property
    def include_reason(self) -> bool:
        """Whether results have a reason."""
        ...


class Measurement(NamedTuple):
    """The scores of one case with their evidence, before the threshold is applied."""

    scores: Mapping[str, float] = _EMPTY
    """By name, in [0, 1]; the lowest one is the score of the case. Empty if the metric does not apply to the case."""
    sums: Mapping[str, str] = _EMPTY
    """By name of the score, its arithmetic as text."""
    steps: Sequence[str] = ()
    """Lines of the reason that explain the terms of the arithmetic."""
    parts: Mapping[str, float] = _EMPTY
    """Further numbers of the result, which do not decide the score."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    alignment: Alignment | None = None
    skip_reason: str = NO_CALLS
    """Why there is no score, if `scores` is empty."""
    failure: str = ""
    """Why the judge could not decide a score; such a case fails."""


def result_of(metric: ResultOptions, measured: Measurement) -> MetricResult:
    """Return the result of a measurement: failed, skipped, or the lowest score against the threshold."""
    findings, warnings = tuple(measured.findings), tuple(measured.warnings)
    score, passed, reason, error = None, None, None, None
    status = ResultStatus.SCORED
    if measured.failure:
        status, error = ResultStatus.ERRORED, f"JudgeError: {measured.failure}"
        reason = reason_text(f"Not measured: {measured.failure.rstrip('.')}.", findings, warnings)
    elif not measured.scores:
        status = ResultStatus.SKIPPED
        reason = reason_text(f"Skipped: {measured.skip_reason}.", findings, warnings)
    else:
        lowest = min(measured.scores.values())
        score = float(lowest >= 1) if metric.strict_mode else lowest
        passed = score >= metric.threshold - TOLERANCE
        if metric.include_reason:
            strict_note = "" if score == lowest else ", strict: 0"
            verdict = f"{strict_note} ({'passed' if passed else 'failed'} at {metric.threshold:g})."
            lines = [*_arithmetic_lines(measured, verdict), *measured.steps]
            reason = reason_text("\n".join(lines), findings, warnings)
    return MetricResult(
        metric=metric.label,
        status=status,
        score=score,
        threshold=metric.threshold,
        passed=passed,
        reason=reason,
        findings=findings,
        parts={**measured.scores, **measured.parts},
        alignment=measured.alignment,
        warnings=warnings,
        error=error,
    )


def _arithmetic_lines(measured: Measurement, verdict: str) -> list[str]:
    """Return the arithmetic of the score with the verdict; of several scores, first the minimum, then each of them."""
    if len(measured.scores) == 1:
        ((name, text),) = measured.sums.items()
        return [f"{text if name == 'calling' else f'{name}: {text}'}{verdict}"]
    terms = ", ".join(f"{name} {number_text(score)}" for name, score in measured.scores.items())
    total = f"min({terms}) = {number_text(min(measured.scores.values()))}{verdict}"
    return [total, *(f"{name.capitalize()}: {measured.sums[name]}." for name in measured.scores)]


def share_of_calls(
    calls: Sequence[ToolCall],
    name: str,
    good: int,
    total: int,
    noun: str,
    *,
    findings: Sequence[Finding] = (),
    warnings: Sequence[str] = (),
    skip_reason: str = "no call could be checked",
) -> Measurement:
    """Return the measurement whose only score is `good / total`; if `total` is 0, the case is skipped."""
    evidence = Measurement(findings=findings, warnings=warnings, skip_reason=skip_reason if calls else NO_CALLS)
    if not total:
        return evidence
    score = good / total
    text = f"{good} / {plural(total, noun)} = {number_text(score)}"
    return evidence._replace(scores={name: score}, sums={name: text})
