"""Results of judged metrics: the judge's scores, findings and doubts beside what the metric measured itself.

Metrics load this module only when they have a judge, since it imports most of the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from toolgrade._internal.text import join_first, number_text, plural, printable, shorten
from toolgrade.errors import JudgeOutcome
from toolgrade.judge.questions import Judgement, JudgeQuestion, PartScore, Replies, judgement_of
from toolgrade.metrics.base import Measurement, Metric, result_of
from toolgrade.result import TOLERANCE, Finding, FindingKind, MetricResult, QuestionResult
from toolgrade.stats import mean_of

_LONGEST_RATIONALE = 300
_MOST_UNIT_SCORES = 10

_CALL_QUESTIONS: dict[str, tuple[FindingKind, str, str]] = {
    "tool_selection": ("wrong_tool", "Wrong tool", "whether it was the right tool"),
    "arguments": ("wrong_arguments", "Wrong arguments", "whether its arguments are right"),
}
"""For each criterion about a call: the kind and title of its finding, and the question in words."""


def judged_result(metric: Metric, measurement: Measurement, replies: Replies) -> MetricResult:
    """Return the result of a judged case: the lowest of the metric's and the judge's scores.

    The case was not measured if the answers to the questions on which the judge failed could turn the verdict, or if it
    failed on all questions of a score, unless the other scores fail the case: a judge that fails must not give a better
    score than one that answers.
    """
    judgement = judgement_of(replies)
    parts = judgement.parts
    scores = dict(measurement.scores)
    arithmetic: dict[str, str] = {}
    for name, part in parts.items():
        if part.score is not None:
            scores[name] = part.score
            arithmetic[name] = _arithmetic(name, part.score, judgement)
    failure = _failure(metric, measurement.scores, judgement)
    doubts = () if failure else _doubts(judgement, parts, measurement.scores, metric.threshold, has_score=bool(scores))
    own = measurement.details()
    details = own._replace(
        arithmetic={**own.arithmetic, **arithmetic},
        parts={**own.parts, **_judge_numbers(judgement, parts)},
        findings=(*own.findings, *_judge_findings(judgement.questions)),
        warnings=(*own.warnings, *judgement.notes, *doubts),
    )
    whole = measurement._replace(scores=scores, explanation=details, skip_reason="nothing was decided", failure=failure)
    result = result_of(metric, whole)
    return replace(result, units=judgement.units, judge=judgement.judge, usage=judgement.usage, cost=judgement.cost)


def _failure(metric: Metric, other_scores: Mapping[str, float], judgement: Judgement) -> str:
    """Return why there is no verdict; empty if the questions on which the judge failed cannot turn it."""
    failed = [one for one in _questions(judgement) if one.outcome != JudgeOutcome.OK.value]
    if not failed:
        return ""
    low, high = (
        min({**other_scores, **judged}.values(), default=0.0)
        for judged in (judgement.if_failed_no, judgement.if_failed_yes)
    )
    if high < metric.threshold - TOLERANCE:
        return ""
    if judgement.failures:
        return "; ".join(f"{name}: {reason}" for name, reason in judgement.failures.items())
    if low >= metric.threshold - TOLERANCE:
        return ""
    kinds = ", ".join(f"{amount} {kind}" for kind, amount in sorted(Counter(one.outcome for one in failed).items()))
    first = min(failed, key=lambda one: one.outcome == JudgeOutcome.ABORTED.value)  # which follows from another failure
    bounds = f"which leaves the score between {number_text(low)} and {number_text(high)}"
    verdict = f"so it is open whether it passes at {metric.threshold:g}"
    return f"the judge failed on {plural(len(failed), 'question')} ({kinds}), {bounds}, {verdict}: {first.problem}"


def _questions(judgement: Judgement) -> list[QuestionResult]:
    return [question for unit in judgement.units for question in unit.questions]


def _arithmetic(name: str, score: float, judgement: Judgement) -> str:
    """Return the arithmetic of a judged score, such as `mean of 2 units (1, 0.5) = 0.75`."""
    scores = [value for unit in judgement.units if (value := getattr(unit, name)) is not None]
    if len(scores) == 1 and len(judgement.units) == 1:
        return f"{_unit_arithmetic(name, judgement.units[0].questions)} = {number_text(score)}"
    listed = join_first([*map(number_text, scores)], _MOST_UNIT_SCORES)
    return f"mean of {plural(len(scores), 'unit')} ({listed}) = {number_text(score)}"


def _unit_arithmetic(name: str, questions: Sequence[QuestionResult]) -> str:
    if name == "arguments":
        return _quotient("arguments", questions)
    missing = sum(entry.missing for entry in questions)
    if not any(entry.criterion == "tool_selection" for entry in questions):
        return f"no call was made, and {'one' if missing else 'none'} was needed"
    return _quotient("tool_selection", questions, f" + {missing} missing" if missing else "")


def _quotient(criterion: str, questions: Sequence[QuestionResult], more: str = "") -> str:
    """Return `3 yes / (3 yes + 1 no)` for the questions of a criterion."""
    decisions = Counter(entry.decision for entry in questions if entry.criterion == criterion)
    return f"{decisions['yes']} yes / ({decisions['yes']} yes + {decisions['no']} no{more})"


def _judge_numbers(judgement: Judgement, parts: Mapping[str, PartScore]) -> dict[str, float]:
    """Return the bounds of the judged scores, the coverage, and how often samples differed."""
    numbers: dict[str, float] = {}
    for name, part in parts.items():
        numbers[f"{name}_low"], numbers[f"{name}_high"] = part.low, part.high
    # There is always a question: whether a call is missing.
    numbers["coverage"] = sum(part.decided for part in parts.values()) / sum(part.total for part in parts.values())
    flip_rate = mean_of([entry.flip_rate for entry in _questions(judgement) if entry.flip_rate is not None])
    return numbers if flip_rate is None else {**numbers, "flip_rate": flip_rate}


def _doubts(
    judgement: Judgement,
    parts: Mapping[str, PartScore],
    other_scores: Mapping[str, float],
    threshold: float,
    *,
    has_score: bool,
) -> Iterator[str]:
    """Yield the warning that some questions have no decision, with the bounds that they leave for the score."""
    open_kinds = Counter(
        entry.decision or entry.outcome for entry in _questions(judgement) if entry.decision in {None, "cannot_tell"}
    )
    if not open_kinds:
        return
    total = sum(part.total for part in parts.values())
    kind_counts = ", ".join(f"{amount} {kind}" for kind, amount in sorted(open_kinds.items()))
    questions = f"{plural(total, 'question')} to the judge and to code"
    bounds = _bounds_text(parts.values(), other_scores.values(), threshold) if has_score else ""
    yield f"{open_kinds.total()} of {questions} have no yes or no ({kind_counts}){bounds}"


def _bounds_text(parts: Collection[PartScore], other_scores: Iterable[float], threshold: float) -> str:
    """Return between which bounds the score lies, and whether the threshold is between them."""
    others = [1.0, *other_scores]
    low, high = min(*others, *(part.low for part in parts)), min(*others, *(part.high for part in parts))
    text = f"; with them the score lies between {number_text(low)} and {number_text(high)}"
    is_uncertain = low < threshold - TOLERANCE <= high
    return f"{text}, so it is not certain whether it passes" if is_uncertain else text


def _judge_findings(answered: Sequence[JudgeQuestion]) -> Iterator[Finding]:
    for entry in answered:
        if entry.judged.decision == "yes":
            continue
        if entry.judged.criterion == "missing_calls":
            yield from _missing_call_findings(entry)
        else:
            yield from _call_findings(entry)


def _call_findings(entry: JudgeQuestion) -> Iterator[Finding]:
    judged, tool = entry.judged, entry.judged.tool or ""
    kind, title, question = _CALL_QUESTIONS[judged.criterion]
    where = f"{_turn_text(judged)}called #{(judged.called or 0) + 1} {printable(tool)!r}"
    finding = partial(Finding, tool=tool, called=judged.called, turn=judged.turn)
    if judged.decision != "no":
        yield finding("not_judged", f"Not judged: {where}, {question}{_explanation(judged)}.")
    elif judged.decided_by == "judge":
        yield finding(kind, f"{title}: {where}{_explanation(judged)}.")
    elif judged.criterion == "tool_selection":
        yield finding("unknown_tool", f"Unknown tool: {where} was not available.")
    for violation in entry.violations:
        text = f"{where}: {printable(violation.path)} {printable(violation.message)}."
        yield finding("schema_violation", text, path=violation.path)


def _missing_call_findings(entry: JudgeQuestion) -> Iterator[Finding]:
    judged, where, why = entry.judged, _turn_text(entry.judged), _explanation(entry.judged)
    if judged.decision != "no":
        yield Finding("not_judged", f"Not judged: {where}whether a call is missing{why}.", "", turn=judged.turn)
        return
    for tool in entry.missing:
        text = f"Missing: {where}a call of {printable(tool)!r} was needed{why}."
        yield Finding("missing_call", text, tool, turn=judged.turn)


def _turn_text(judged: QuestionResult) -> str:
    return "" if judged.turn is None else f"turn {judged.turn}, "


def _explanation(judged: QuestionResult) -> str:
    text = _explanation_text(judged)
    return f": {shorten(printable(text), _LONGEST_RATIONALE).rstrip('.')}" if text else ""


def _explanation_text(judged: QuestionResult) -> str:
    """Return why a question has its decision, or none; empty if that is not known."""
    text = judged.problem or judged.rationale
    if judged.decision == "cannot_tell" and judged.decided_by == "judge":
        return f"the judge cannot tell: {text}" if text else "the judge cannot tell"
    return text or ""
