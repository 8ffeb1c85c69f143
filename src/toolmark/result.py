"""What a metric says of a case: a score, or why there is none; and the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from toolmark.errors import NotMeasuredError
from toolmark.matching import ABSENT, Alignment
from toolmark.redact import DEFAULT, Redactor

TOLERANCE = 1e-9
"""Scores within this of the threshold pass: 0.1 + 0.2 is not less than 0.3."""

FindingKind: TypeAlias = Literal[
    "missing",
    "unexpected",
    "out_of_order",
    "wrong_argument",
    "missing_argument",
    "extra_argument",
    "wrong_output",
    "wrong_type",
    "not_compared",
]
"""What can be found: see `Finding`."""


class ResultStatus(str, Enum):
    """Whether there is a score. What was not measured is not zero."""

    SCORED = "scored"
    SKIPPED = "skipped"
    """The question does not apply to this case."""
    FAILED = "failed"
    """An error kept it from being measured; `error` says which."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that cost score, or (`not_compared`) that could not be looked at.

    Attributes:
        kind: `missing` (expected, not called), `unexpected` (called, not expected), `out_of_order` (both, but not in
            order), `wrong_argument`, `missing_argument`, `extra_argument`, `wrong_output`, `wrong_type`, and
            `not_compared` (the recording did not keep the field).
        message: One sentence for people; positions in it count from 1.
        tool: Name of the tool.
        expected: Position of the expected call, from 0; `None` where there is none.
        called: Position of the called one, from 0; `None` where there is none.
        path: JSON path within the call, e.g. `$.input_parameters.city`; `None` for a whole call.
        expected_value: The value expected there, or `ABSENT`.
        called_value: The value found there, or `ABSENT`.
    """

    kind: FindingKind
    message: str
    tool: str
    expected: int | None = None
    called: int | None = None
    path: str | None = None
    expected_value: Any = ABSENT
    called_value: Any = ABSENT

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as JSON values, without secrets; what is not there is left out."""
        names = ("kind", "message", "tool", "expected", "called", "path")
        plain = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for name in ("expected_value", "called_value"):
            if getattr(self, name) is not ABSENT:
                plain[name] = hidden(getattr(self, name), self.path, redactor)
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """What one metric says of one case.

    Attributes:
        metric: Name of the metric, with the options that differ from its defaults.
        status: Whether there is a score.
        score: In [0, 1]; `None` unless scored.
        threshold: The score from which on it passes.
        passed: Whether `score >= threshold` (within 1e-9); `None` unless scored.
        reason: The arithmetic and the findings in words; why there is no score; `None` if reasons were switched off.
        findings: What cost score, by position.
        parts: Named numbers the score is made of, or that stand beside it, e.g. `precision`, `recall`, `f1`.
        alignment: Which called tool stands for which expected one.
        warnings: What makes the score less sure: an incomplete recording, a part that was not judged.
        error: `"TypeName: text"` of a failed result.
    """

    metric: str
    status: ResultStatus
    threshold: float
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    alignment: Alignment | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None

    def __post_init__(self) -> None:
        """Make the parts read-only."""
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __reduce__(self) -> tuple[Callable[..., MetricResult], tuple[dict[str, Any]]]:
        """Cross process boundaries, which a read-only mapping cannot do by itself."""
        state = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return _restored, ({**state, "parts": dict(self.parts)},)

    def __float__(self) -> float:
        """Return the score.

        Raises:
            NotMeasuredError: There is none; the message says why.
        """
        if self.score is None:
            message = f"{self.metric} has no score: it was {self.status.value} ({self.reason or self.error})"
            raise NotMeasuredError(message)
        return self.score

    def renamed(self, metric: str) -> MetricResult:
        """Return the same result under another metric name."""
        return self if metric == self.metric else replace(self, metric=metric)

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as JSON values, without secrets; what is not there is left out."""
        plain: dict[str, Any] = {"metric": self.metric, "status": self.status.value, "threshold": self.threshold}
        for name in ("score", "passed", "reason", "error"):
            if getattr(self, name) is not None:
                plain[name] = redactor(getattr(self, name))
        if self.parts:
            plain["parts"] = dict(self.parts)
        if self.findings:
            plain["findings"] = [finding.to_dict(redactor) for finding in self.findings]
        if self.warnings:
            plain["warnings"] = [redactor(text) for text in self.warnings]
        if self.alignment is not None:
            plain["alignment"] = self.alignment.to_dict()
        return plain


def hidden(value: Any, path: str | None, redactor: Redactor = DEFAULT) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value that stands at a JSON path as it may leave the process: any key of the path may be secret."""
    names = re.findall(r"[^.\[\]\"]+", path or "")
    wrapped = value
    for name in reversed(names):
        wrapped = {name: wrapped}
    safe: Any = redactor(wrapped)
    for name in names:
        if not isinstance(safe, dict):
            break
        safe = safe[name]
    return safe


def _restored(state: dict[str, Any]) -> MetricResult:
    return MetricResult(**state)


def failed(metric: str, threshold: float, error: BaseException) -> MetricResult:
    """Return the result of a metric that an error kept from measuring."""
    text = f"{type(error).__name__}: {error}"
    return MetricResult(
        metric=metric, status=ResultStatus.FAILED, threshold=threshold, reason=f"Not measured: {error}", error=text
    )
