"""What does a written result say? The JSON form of results, held against its shape and turned into objects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from toolmark._internal.json import json_path
from toolmark._internal.model import Model
from toolmark.errors import ConfigurationError, Problem
from toolmark.expect import read_place, read_value
from toolmark.matching.alignment import Alignment, Pair
from toolmark.matching.json_compare import ABSENT, Difference
from toolmark.result import Finding, FindingKind, MetricResult, QuestionResult, ResultStatus, UnitResult

_NUMBERS = ("NaN", "Infinity", "-Infinity")


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) and value in _NUMBERS else value


Number = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_number)]
"""A number; JSON has those that are not finite as texts."""

Position = Annotated[int, Field(ge=0)]
"""Counted from 0."""

_DIFFERENCES: Final = ("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type")
"""Findings that stand for a difference between the two calls of a pair."""

_MOST_EXACT = 10**6


class Written(Model):
    """What newer versions write besides is passed over; numbers and texts are what they say they are."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # most programs write results and read none: validators are built for the first that is read
    )


class WrittenFinding(Written):
    """One thing that cost score."""

    message: str
    kind: str = "not_compared"
    tool: str = ""
    expected: int | None = None
    called: int | None = None
    turn: int | None = None
    path: str | None = None
    expected_value: JsonValue = None
    called_value: JsonValue = None

    def finding(self) -> Finding:
        """Return it as an object; an expected value may be a matcher."""
        given = self.model_fields_set
        return Finding(
            kind=cast("FindingKind", self.kind),
            message=self.message,
            tool=self.tool,
            expected=self.expected,
            called=self.called,
            path=self.path,
            expected_value=read_value(self.expected_value) if "expected_value" in given else ABSENT,
            called_value=self.called_value if "called_value" in given else ABSENT,
            turn=self.turn,
        )


class WrittenPair(Written):
    """An expected call and the one that was made for it."""

    expected: Position
    called: Position
    similarity: float
    not_compared: list[str] = Field(default_factory=list[str])
    redacted: list[str] = Field(default_factory=list[str])
    breaks: Literal["after", "parallel"] | None = None
    why: str = ""

    def pair(self, findings: Sequence[Finding]) -> Pair:
        """Return it as an object; where the two calls differ is said by the findings."""
        mine = [one for one in findings if (one.expected, one.called) == (self.expected, self.called)]
        return Pair(
            expected=self.expected,
            called=self.called,
            similarity=self.similarity,
            differences=tuple(_difference(one) for one in mine if one.kind in _DIFFERENCES),
            not_compared=tuple(self.not_compared),
            redacted=tuple(self.redacted),
            breaks=None if self.breaks is None else (self.breaks, self.why),
        )


class WrittenForbidden(Written):
    """A called tool that a plan forbids."""

    called: Position
    by: str


class WrittenAlignment(Written):
    """Which called tool stands for which expected one."""

    expected_count: Position
    called_count: Position
    ordered: bool
    matched: float
    pairs: list[WrittenPair]
    out_of_order: list[WrittenPair]
    missing: list[Position]
    unexpected: list[Position]
    unused: list[Position] = Field(default_factory=list[int])
    wanted: list[str] = Field(default_factory=list[str])
    choices: list[str] = Field(default_factory=list[str])
    forbidden: list[WrittenForbidden] = Field(default_factory=list[WrittenForbidden])
    extras: bool | None = None
    gap: float = 0.0

    def alignment(self, findings: Sequence[Finding]) -> Alignment:
        """Return it as an object."""
        return Alignment(
            expected_count=self.expected_count,
            called_count=self.called_count,
            ordered=self.ordered,
            matched=_fraction(self.matched),
            pairs=tuple(pair.pair(findings) for pair in self.pairs),
            out_of_order=tuple(pair.pair(findings) for pair in self.out_of_order),
            missing=tuple(self.missing),
            unexpected=tuple(self.unexpected),
            unused=tuple(self.unused),
            wanted=tuple(self.wanted),
            choices=tuple(self.choices),
            forbidden=tuple((one.called, one.by) for one in self.forbidden),
            extras=self.extras,
            gap=self.gap,
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

    def judged(self) -> QuestionResult:
        """Return it as an object."""
        given: dict[str, Any] = {name: getattr(self, name) for name in WrittenQuestion.model_fields}
        given["evidence"] = tuple(self.evidence)
        return QuestionResult(**given)


class WrittenUnit(Written):
    """What was judged of one unit."""

    index: int = 0
    turns: list[int] = Field(default_factory=list[int])
    selection: float | None = None
    arguments: float | None = None
    questions: list[WrittenQuestion] = Field(default_factory=list[WrittenQuestion])

    def unit(self) -> UnitResult:
        """Return it as an object."""
        questions = tuple(question.judged() for question in self.questions)
        return UnitResult(
            index=self.index,
            turns=tuple(self.turns),
            selection=self.selection,
            arguments=self.arguments,
            questions=questions,
        )


class WrittenResult(Written):
    """What one metric says of one case."""

    metric: str
    status: Literal["scored", "skipped", "failed"]
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

    def contradictions(self, *place: str | int) -> Iterator[Problem]:
        """Yield what it says of itself that is not so; it stands at this place."""
        scored = self.status == "scored"
        for field in ("score", "passed"):
            if (getattr(self, field) is not None) != scored:
                said = "is required" if scored else "cannot be there"
                yield Problem(json_path((*place, field)), f"{said}, since the status is {self.status!r}")

    def result(self) -> MetricResult:
        """Return it as an object."""
        findings = tuple(finding.finding() for finding in self.findings)
        return MetricResult(
            metric=self.metric,
            status=ResultStatus(self.status),
            threshold=self.threshold,
            score=self.score,
            passed=self.passed,
            reason=self.reason,
            findings=findings,
            parts=self.parts,
            alignment=None if self.alignment is None else self.alignment.alignment(findings),
            warnings=tuple(self.warnings),
            error=self.error,
            units=tuple(unit.unit() for unit in self.units),
            judge=self.judge,
            usage=self.usage,
            cost=self.cost,
        )


def _difference(finding: Finding) -> Difference:
    kind = cast('Literal["wrong_argument"]', finding.kind)
    return Difference(kind, _place(finding), finding.expected_value, finding.called_value)


def _place(finding: Finding) -> tuple[str | int, ...]:
    """Return where a finding stands inside of the arguments, or of the output."""
    text = (finding.path or "").removeprefix("$").removeprefix(".")
    try:
        first, *inner = read_place(text)
    except ConfigurationError:
        return (text,)
    return tuple(inner) if first == "input_parameters" else ()


def _fraction(value: float) -> Fraction:
    """Return the sum of similarities that was written as a float; they are rationals of small denominators."""
    if not math.isfinite(value):
        return Fraction(0)
    near = Fraction(value).limit_denominator(_MOST_EXACT)
    return near if float(near) == value else Fraction(value)
