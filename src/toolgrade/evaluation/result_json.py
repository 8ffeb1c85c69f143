"""JSON form of results: models that validate it and convert it to `MetricResult`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from toolgrade._internal.json import json_path
from toolgrade._internal.model import Model
from toolgrade.errors import ConfigurationError, Problem
from toolgrade.expect.argument_paths import parse_argument_path
from toolgrade.expect.json_form import read_value
from toolgrade.matching.alignment import Alignment, Pair
from toolgrade.matching.json_compare import ABSENT, Difference
from toolgrade.result import Finding, MetricResult, QuestionResult, ResultStatus, UnitResult


def _parse_nonfinite(value: object) -> object:
    return float(value) if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"} else value


Number = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_parse_nonfinite)]
"""A number; NaN and infinities are written as texts."""

Position = Annotated[int, Field(ge=0)]
"""A position, from 0."""

_DIFFERENCES: Final = ("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type")
"""Kinds of findings that describe a difference between the two calls of a pair."""

_MAX_DENOMINATOR = 10**6
_NO_VALUE: Any = ABSENT


class Written(Model):
    """Base of the JSON forms. Unknown keys, which newer versions may write, are ignored; no value is coerced."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # most programs only write results, so validators are built at the first read
    )

    def values(self, **replaced: object) -> dict[str, Any]:
        """Return the fields as arguments of a result class: lists as tuples, and some fields replaced."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return {**values, **lists, **replaced}


class WrittenFinding(Written):
    """One thing that cost score."""

    message: str
    kind: str = "not_compared"
    tool: str = ""
    expected: int | None = None
    called: int | None = None
    turn: int | None = None
    path: str | None = None
    expected_value: JsonValue = _NO_VALUE
    called_value: JsonValue = _NO_VALUE

    def to_finding(self) -> Finding:
        """Convert to a `Finding`; the expected value may be a matcher."""
        return Finding(**self.values(expected_value=read_value(self.expected_value)))


class WrittenPair(Written):
    """An expected call and the called tool it is paired with."""

    expected: Position
    called: Position
    similarity: float
    not_compared: list[str] = Field(default_factory=list[str])
    redacted: list[str] = Field(default_factory=list[str])
    breaks: Literal["after", "parallel"] | None = None
    why: str = ""

    def to_pair(self, findings: Sequence[Finding]) -> Pair:
        """Convert to a `Pair`; its differences are written as findings."""
        place = (self.expected, self.called)
        own = [one for one in findings if (one.expected, one.called) == place and one.kind in _DIFFERENCES]
        values = self.values(
            differences=tuple(map(_difference, own)),
            breaks=None if self.breaks is None else (self.breaks, self.why),
        )
        del values["why"]
        return Pair(**values)


class WrittenForbidden(Written):
    """A called tool that a plan forbids."""

    called: Position
    by: str


class WrittenAlignment(Written):
    """The pairs of expected and called tools."""

    expected_count: Position
    called_count: Position
    ordered: bool
    matched: float
    pairs: list[WrittenPair]
    out_of_order: list[WrittenPair]
    missing: list[Position]
    unexpected: list[Position]
    unused: list[Position] = Field(default_factory=list[int])
    labels: list[str] = Field(default_factory=list[str])
    choices: list[str] = Field(default_factory=list[str])
    forbidden: list[WrittenForbidden] = Field(default_factory=list[WrittenForbidden])
    extras: bool | None = None
    gap: float = 0.0
    excess: list[Position] = Field(default_factory=list[int])

    def to_alignment(self, findings: Sequence[Finding]) -> Alignment:
        """Convert to an `Alignment`."""
        return Alignment(
            **self.values(
                matched=_fraction(self.matched),
                pairs=tuple(pair.to_pair(findings) for pair in self.pairs),
                out_of_order=tuple(pair.to_pair(findings) for pair in self.out_of_order),
                forbidden=tuple((call.called, call.by) for call in self.forbidden),
            )
        )


class WrittenQuestion(Written):
    """One question about a case."""

    decided_by: str
    criterion: str = "tool_selection"
    outcome: str = "ok"
    decision: str | None = None
    missing: int = 0
    tool: str | None = None
    called: int | None = None
    turn: int | None = None
    probability: float | None = None
    rationale: str | None = None
    evidence: list[str] = Field(default_factory=list[str])
    flip_rate: float | None = None
    problem: str | None = None


class WrittenUnit(Written):
    """The judgement of one interaction."""

    index: int = 0
    turns: list[int] = Field(default_factory=list[int])
    selection: float | None = None
    arguments: float | None = None
    questions: list[WrittenQuestion] = Field(default_factory=list[WrittenQuestion])

    def to_unit(self) -> UnitResult:
        """Convert to a `UnitResult`."""
        questions = tuple(QuestionResult(**question.values()) for question in self.questions)
        return UnitResult(**self.values(questions=questions))


class WrittenResult(Written):
    """The result of one metric for one case."""

    metric: str
    status: Literal["scored", "skipped", "errored"]
    threshold: float
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    error: str | None = None
    findings: list[WrittenFinding] = Field(default_factory=list[WrittenFinding])
    parts: dict[str, Number] = Field(default_factory=dict[str, float])
    alignment: WrittenAlignment | None = None
    warnings: list[str] = Field(default_factory=list[str])
    judge: dict[str, str] | None = None
    units: list[WrittenUnit] = Field(default_factory=list[WrittenUnit])
    usage: dict[str, int] = Field(default_factory=dict[str, int])
    cost: float | None = None

    def contradictions(self, *path: str | int) -> Iterator[Problem]:
        """Yield the fields that contradict the status of this result, which is at `path` in the file."""
        is_scored = self.status == "scored"
        for name in ("score", "passed"):
            if (getattr(self, name) is not None) != is_scored:
                rule = "is required" if is_scored else "must be absent"
                yield Problem(json_path((*path, name)), f"{rule} with the status {self.status!r}")

    def to_result(self) -> MetricResult:
        """Convert to a `MetricResult`."""
        findings = tuple(finding.to_finding() for finding in self.findings)
        return MetricResult(
            **self.values(
                status=ResultStatus(self.status),
                findings=findings,
                alignment=None if self.alignment is None else self.alignment.to_alignment(findings),
                units=tuple(unit.to_unit() for unit in self.units),
            )
        )


def _difference(finding: Finding) -> Difference:
    """Return the difference of a pair that a finding describes."""
    text = (finding.path or "").removeprefix("$").removeprefix(".")
    try:
        root, *inner = parse_argument_path(text)
    except ConfigurationError:
        place: tuple[str | int, ...] = (text,)
    else:
        # Places are relative to the arguments; a finding about the output has none.
        place = tuple(inner) if root == "input_parameters" else ()
    kind = cast('Literal["wrong_argument"]', finding.kind)
    return Difference(kind, place, finding.expected_value, finding.called_value)


def _fraction(value: float) -> Fraction:
    """Return a sum of similarities that was written as a float."""
    if not math.isfinite(value):
        return Fraction(0)
    # The sum is a fraction with a small denominator: take it only if it has exactly this float.
    near = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    return near if float(near) == value else Fraction(value)


def results_contradictions(
    results: Sequence[WrittenResult], metrics: Sequence[str], *path: str | int, is_complete: bool
) -> Iterator[Problem]:
    """Yield what is wrong with the results of a case, which `path` leads to, and within each of them."""
    if not is_complete:
        actual = ", ".join(result.metric for result in results)
        message = f"expected one result of each metric ({', '.join(metrics)}), got {actual or 'none'}"
        yield Problem(json_path(path), message)
    for number, result in enumerate(results):
        yield from result.contradictions(*path, number)
