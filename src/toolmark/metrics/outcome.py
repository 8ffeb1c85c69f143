"""From scores to a result: the lowest one counts, what could not be judged is said, and the reason shows the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import TYPE_CHECKING

from toolmark._internal.text import number_text, plural, printable, shorten
from toolmark.matching.alignment import Alignment
from toolmark.metrics.wording import reason_of
from toolmark.result import TOLERANCE, Finding, FindingKind, MetricResult, QuestionResult, ResultStatus

if TYPE_CHECKING:
    from toolmark.judge.flow import Judgement, JudgeQuestion
    from toolmark.judge.scoring import Part

_LONGEST_RATIONALE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a result is made of.

    Attributes:
        metric: Label of the metric.
        threshold: Of the metric.
        strict: A score below 1 becomes 0.
        include_reason: Put it into words.
        judged: Names of the scores that the judge gives; `selection`, `arguments`.
        judgement: What was judged; `None` where nothing was.
        scores: Scores beside those of the judge.
        sums: How each of them came about.
        steps: Lines for the reason that show how a sum's own terms came about.
        parts: Numbers that stand beside the scores.
        findings: What cost score, beside what was judged.
        warnings: What makes the score less sure.
        alignment: Of the calls.
    """

    metric: str
    threshold: float
    strict: bool
    include_reason: bool
    judged: tuple[str, ...]
    judgement: Judgement | None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    sums: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    alignment: Alignment | None = None

    @property
    def judged_parts(self) -> dict[str, Part]:
        """The scores that the judge gave, those in which nothing was decided among them."""
        found = {name: getattr(self.judgement, name, None) for name in self.judged}
        return {name: part for name, part in found.items() if part is not None}


def outcome(made: Outcome) -> MetricResult:
    """Return the result: the lowest score, or why there is none.

    A score that does not apply, or in which nothing was decided, is left out of the minimum. One of which the judge
    decided nothing because it failed fails the result: what remains would be a better score for a worse judge.
    """
    judgement = made.judgement
    lost = (
        [f"{name}: {judgement.failures[name]}" for name in made.judged if name in judgement.failures]
        if judgement
        else []
    )
    scores = dict(made.scores)
    sums = dict(made.sums)
    for name, part in made.judged_parts.items():
        if part.score is not None:
            scores[name] = part.score
            sums[name] = _sum(name, part, judgement)
    doubts = () if lost else _doubts(made, scores)
    warnings = (*made.warnings, *(judgement.notes if judgement else ()), *doubts)
    findings = (*made.findings, *(_findings(judgement.questions) if judgement else ()))
    if lost:
        error = f"JudgeError: {'; '.join(lost)}"
        reason = reason_of(f"Not measured: {'; '.join(lost).rstrip('.')}.", findings, warnings)
        return _result(made, ResultStatus.FAILED, scores, findings, warnings, reason=reason, error=error)
    if not scores:
        reason = reason_of("Skipped: nothing was decided.", findings, warnings)
        return _result(made, ResultStatus.SKIPPED, scores, findings, warnings, reason=reason)
    lowest = min(scores.values())
    score = float(lowest >= 1) if made.strict else lowest
    passed = score >= made.threshold - TOLERANCE
    explained: str | None = None
    if made.include_reason:
        strict = ", strict: 0" if made.strict and lowest != score else ""
        verdict = f"{strict} ({'passed' if passed else 'failed'} at {made.threshold:g})."
        head = f"{_head(scores, sums)}{verdict}"
        if len(scores) > 1:
            head = "\n".join([head, *(f"{name.capitalize()}: {sums[name]}." for name in scores)])
        explained = reason_of("\n".join([head, *made.steps]), findings, warnings)
    return _result(made, ResultStatus.SCORED, scores, findings, warnings, reason=explained, score=score, passed=passed)


def _result(
    made: Outcome,
    status: ResultStatus,
    scores: Mapping[str, float],
    findings: tuple[Finding, ...],
    warnings: tuple[str, ...],
    *,
    reason: str | None,
    error: str | None = None,
    score: float | None = None,
    passed: bool | None = None,
) -> MetricResult:
    judgement = made.judgement
    return MetricResult(
        metric=made.metric,
        status=status,
        score=score,
        threshold=made.threshold,
        passed=passed,
        reason=reason,
        findings=findings,
        parts={**scores, **made.parts, **_numbers(made)},
        alignment=made.alignment,
        warnings=warnings,
        error=error,
        units=judgement.units if judgement else (),
        judge=judgement.judge if judgement else None,
        usage=judgement.usage if judgement else {},
        cost=judgement.cost if judgement else None,
    )


def _head(scores: Mapping[str, float], sums: Mapping[str, str]) -> str:
    if len(scores) == 1:
        ((name, text),) = sums.items()
        return text if name == "calling" else f"{name}: {text}"
    terms = ", ".join(f"{name} {number_text(score)}" for name, score in scores.items())
    return f"min({terms}) = {number_text(min(scores.values()))}"


def _sum(name: str, part: Part, judgement: Judgement | None) -> str:
    """Return the sum behind a judged score, such as `mean of 2 units (1, 0.5) = 0.75`."""
    units = judgement.units if judgement else ()
    scores = [score for unit in units if (score := getattr(unit, name)) is not None]
    total = number_text(part.score or 0.0)
    if len(scores) == 1 and len(units) == 1:
        return f"{_of_unit(name, units[0].questions)} = {total}"
    shown = ", ".join(map(number_text, scores[:10])) + (", ..." if len(scores) > 10 else "")  # noqa: PLR2004 - ten are shown
    return f"mean of {plural(len(scores), 'unit')} ({shown}) = {total}"


def _of_unit(name: str, questions: Sequence[QuestionResult]) -> str:
    criterion = {"selection": "tool_selection"}.get(name, name)
    calls = Counter(entry.decision for entry in questions if entry.criterion == criterion)
    missing = sum(entry.missing for entry in questions if entry.criterion == "missing_calls")
    if name == "selection" and not any(entry.criterion == criterion for entry in questions):
        return "no call was made, and one was needed" if missing else "no call was made, and none was needed"
    no = calls["no"] + (missing if name == "selection" else 0)
    told = f"{calls['no']} no + {missing} missing" if name == "selection" and missing else f"{no} no"
    return f"{calls['yes']} yes / ({calls['yes']} yes + {told})"


def _numbers(made: Outcome) -> dict[str, float]:
    """Return the bounds of the judged scores, the coverage, and how often samples differed."""
    found: dict[str, float] = {}
    parts = made.judged_parts
    for name, part in parts.items():
        found[f"{name}_low"], found[f"{name}_high"] = part.low, part.high
    asked = sum(part.total for part in parts.values())
    if asked:
        found["coverage"] = sum(part.decided for part in parts.values()) / asked
    flips = [entry.flip_rate for entry in _questions(made) if entry.flip_rate is not None]
    if flips:
        found["flip_rate"] = fsum(flips) / len(flips)
    return found


def _questions(made: Outcome) -> Iterator[QuestionResult]:
    for unit in made.judgement.units if made.judgement else ():
        yield from unit.questions


def _doubts(made: Outcome, scores: Mapping[str, float]) -> Iterator[str]:
    """Yield what questions without a decision mean for the score."""
    open_ones = [entry for entry in _questions(made) if entry.decision in {None, "cannot_tell"}]
    if not open_ones:
        return
    total = sum(part.total for part in made.judged_parts.values())
    kinds = Counter(entry.decision or entry.outcome for entry in open_ones)
    told = ", ".join(f"{amount} {kind}" for kind, amount in sorted(kinds.items()))
    text = f"{len(open_ones)} of {plural(total, 'question')} to the judge and to code have no yes or no ({told})"
    if scores:
        low = min([*made.scores.values(), *(part.low for part in made.judged_parts.values())])
        high = min([*made.scores.values(), *(part.high for part in made.judged_parts.values())])
        text += f"; with them the score lies between {number_text(low)} and {number_text(high)}"
        passes = [bound >= made.threshold - TOLERANCE for bound in (low, high)]
        if passes[0] != passes[1]:
            text += ", so it is not sure whether it passes"
    yield text


_TOLD: dict[str, tuple[FindingKind, str, str]] = {
    "tool_selection": ("wrong_tool", "Wrong tool", "whether it was the right tool"),
    "arguments": ("wrong_arguments", "Wrong arguments", "whether its arguments are right"),
}


def _findings(settled: Sequence[JudgeQuestion]) -> Iterator[Finding]:
    for entry in settled:
        judged = entry.judged
        if judged.decision == "yes":
            continue
        if judged.criterion == "missing_calls":
            yield from _of_missing(entry)
        else:
            yield from _of_call(entry)


def _of_call(entry: JudgeQuestion) -> Iterator[Finding]:
    judged, name = entry.judged, printable(entry.judged.tool or "")
    kind, title, question = _TOLD[judged.criterion]
    at = f"called #{(judged.called or 0) + 1} {name!r}"
    where = at if judged.turn is None else f"turn #{judged.turn + 1}, {at}"
    finding = partial(Finding, tool=judged.tool or "", called=judged.called, turn=judged.turn)
    if judged.decision != "no":
        yield finding("not_judged", f"Not judged: {where}, {question}{_why(judged)}.")
    elif judged.decided_by == "judge":
        yield finding(kind, f"{title}: {where}{_why(judged)}.")
    elif judged.criterion == "tool_selection":
        yield finding("unknown_tool", f"Unknown tool: {where} was not available.")
    for violation in entry.violations:
        text = f"{where}: {printable(violation.path)} {printable(violation.message)}."
        yield finding("schema_violation", text, path=violation.path)


def _of_missing(entry: JudgeQuestion) -> Iterator[Finding]:
    judged = entry.judged
    where = "" if judged.turn is None else f"turn #{judged.turn + 1}, "
    if judged.decision != "no":
        text = f"Not judged: {where}whether a call is missing{_why(judged)}."
        yield Finding("not_judged", text, "", turn=judged.turn)
        return
    for place in range(judged.missing):
        tool = entry.missing[place] if place < len(entry.missing) else ""
        named = f"a call of {printable(tool)!r}" if tool else "a call"
        yield Finding("missing_call", f"Missing: {where}{named} was needed{_why(judged)}.", tool, turn=judged.turn)


def _why(judged: QuestionResult) -> str:
    text = judged.problem or judged.rationale
    if judged.decision == "cannot_tell" and judged.decided_by == "judge":
        text = f"the judge cannot tell: {text}" if text else "the judge cannot tell"
    elif text is None and judged.probability is not None:
        text = f"the judge says so, with probability {number_text(judged.probability)}"
    return f": {shorten(printable(text), _LONGEST_RATIONALE).rstrip('.')}" if text else ""
