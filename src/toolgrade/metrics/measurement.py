"""The measurement of a case, and the `MetricResult` that the options of a metric make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from toolgrade._internal.text import number_text, plural
from toolgrade.calls import ToolCall
from toolgrade.matching.alignment import Alignment
from toolgrade.metrics.wording import reason_text
from toolgrade.result import TOLERANCE, Finding, LateFields, MetricResult, ResultStatus, deferred_result

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


class Explanation(Protocol):
    """Makes the details of a measurement when its result is first read.

    By then the case may have changed, so it holds what was compared, and neither the case nor the metric.
    """

    def details(self) -> Details:
        """Return the details; they are the same whenever that is."""
        ...


class Details(NamedTuple):
    """What explains the scores of a case."""

    sums: Mapping[str, str] = _EMPTY
    """By name of the score, its arithmetic as text."""
    steps: Sequence[str] = ()
    """Lines of the reason that explain the terms of the arithmetic."""
    parts: Mapping[str, float] = _EMPTY
    """Further numbers of the result, which do not decide the score."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    alignment: Alignment | None = None

    def details(self) -> Details:
        """Return itself: an explanation that is made already."""
        return self


class Measurement(NamedTuple):
    """The scores of one case before the threshold is applied, and how to explain them."""

    scores: Mapping[str, float] = _EMPTY
    """By name, in [0, 1]; the lowest one is the score of the case. Empty if the metric does not apply to the case."""
    explanation: Explanation = Details()
    notes: Sequence[str] = ()
    """Warnings about the recording, which come before those of the details."""
    skip_reason: str = NO_CALLS
    """Why there is no score, if `scores` is empty."""
    failure: str = ""
    """Why the judge could not decide a score; such a case fails."""
    has_reason: bool = True
    """Whether a score has a reason; a missing one always has."""

    def late_fields(self, result: MetricResult, /) -> LateFields:
        """Return what explains the result of this measurement."""
        details = self.explanation.details()
        findings, warnings = tuple(details.findings), (*self.notes, *details.warnings)
        is_explained = self.has_reason or result.score is None
        return LateFields(
            reason=reason_text(self._head(details, result), findings, warnings) if is_explained else None,
            findings=findings,
            parts=MappingProxyType({**self.scores, **details.parts}),
            alignment=details.alignment,
            warnings=warnings,
        )

    def _head(self, details: Details, result: MetricResult) -> str:
        """Return the arithmetic with its steps, or why there is no score."""
        if self.failure:
            return f"Not measured: {self.failure.rstrip('.')}."
        if result.score is None:
            return f"Skipped: {self.skip_reason}."
        strict_note = "" if result.score == min(self.scores.values()) else ", strict: 0"
        verdict = f"{strict_note} ({'passed' if result.passed else 'failed'} at {result.threshold:g})."
        return "\n".join([*_arithmetic_lines(self.scores, details.sums, verdict), *details.steps])


def result_of(metric: ResultOptions, measured: Measurement) -> MetricResult:
    """Return the result of a measurement: failed, skipped, or the lowest score against the threshold."""
    score, passed, error = None, None, None
    status = ResultStatus.SCORED
    if measured.failure:
        status, error = ResultStatus.ERRORED, f"JudgeError: {measured.failure}"
    elif not measured.scores:
        status = ResultStatus.SKIPPED
    else:
        lowest = min(measured.scores.values())
        score = float(lowest >= 1) if metric.strict_mode else lowest
        passed = score >= metric.threshold - TOLERANCE
    return deferred_result(
        measured if metric.include_reason else measured._replace(has_reason=False),
        metric=metric.label,
        status=status,
        threshold=metric.threshold,
        score=score,
        passed=passed,
        error=error,
    )


def _arithmetic_lines(scores: Mapping[str, float], sums: Mapping[str, str], verdict: str) -> list[str]:
    """Return the arithmetic of the score with the verdict; of several scores, first the minimum, then each of them."""
    if len(scores) == 1:
        ((name, text),) = sums.items()
        return [f"{text if name == 'calling' else f'{name}: {text}'}{verdict}"]
    terms = ", ".join(f"{name} {number_text(score)}" for name, score in scores.items())
    total = f"min({terms}) = {number_text(min(scores.values()))}{verdict}"
    return [total, *(f"{name.capitalize()}: {sums[name]}." for name in scores)]


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
    explanation = _ShareOfCalls(name, good, total, noun, tuple(findings), tuple(warnings))
    scores = {name: good / total} if total else _EMPTY
    return Measurement(scores, explanation, skip_reason=skip_reason if calls else NO_CALLS)


class _ShareOfCalls(NamedTuple):
    """The explanation of a share of calls."""

    name: str
    good: int
    total: int
    noun: str
    findings: Sequence[Finding]
    warnings: Sequence[str]

    def details(self) -> Details:
        """Return the arithmetic and the findings."""
        sums: dict[str, str] = {}
        if self.total:
            share = number_text(self.good / self.total)
            sums[self.name] = f"{self.good} / {plural(self.total, self.noun)} = {share}"
        return Details(sums, findings=self.findings, warnings=self.warnings)
