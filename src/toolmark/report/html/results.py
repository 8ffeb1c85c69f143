"""What is shown of a result: its sum, both sides, what was found, and who judged what on which evidence?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from toolmark._internal.text import number_text, plural, printable, shorten
from toolmark.cases import AnyCase
from toolmark.redact import Redactor
from toolmark.report.html.texts import LONGEST_LINE, Clip, clip
from toolmark.report.text.first_problem import first_problem
from toolmark.report.text.side_by_side import Row, rows
from toolmark.result import FindingKind, MetricResult, QuestionResult, ResultStatus, UnitResult

Verdict: TypeAlias = Literal["error", "failed", "passed", "skipped"]
"""What became of a result, or of a case."""

MOST_ROWS = 300
"""Lines of one comparison that are shown."""
MOST_FINDINGS = 50
"""Findings of one result, warnings, and units that are shown."""
MOST_QUESTIONS = 300
"""Questions of one unit that are shown."""

_LONGEST_SIDE = 400
_LONGEST_ID = 40

_EVIDENCE = re.compile(r"[cmt]\d{1,6}", re.ASCII)
_SIDE_BY_SIDE = frozenset[FindingKind](
    {
        *("missing", "unexpected", "out_of_order", "not_parallel", "forbidden", "not_compared"),
        *("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type"),
    }
)
_DECISIONS = {"yes": "yes", "no": "no", "cannot_tell": "cannot tell"}
_CRITERIA = {
    "tool_selection": "right tool?",
    "arguments": "right arguments?",
    "missing_calls": "all needed calls made?",
}


class Mention(NamedTuple):
    """Something that a judge rests a verdict on.

    Attributes:
        text: What the judge calls it, such as `c2`.
        anchor: Where it stands on the page; empty where it does not.
    """

    text: str
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the parts of a case stand on the page.

    Attributes:
        anchors: By what a judge calls them: `c2`, `m1`, `t3`.
        calls: By turn (`None` in a case without turns) and position in its `tools_called`, both from 0: `c2`.
    """

    anchors: Mapping[str, str]
    calls: Mapping[tuple[int | None, int], str]

    def mention(self, text: str) -> Mention:
        """Return a mention of what a judge calls so; what it made up stands nowhere."""
        return Mention(text, self.anchors.get(text, "") if _EVIDENCE.fullmatch(text) else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """One question about a case, and how it was decided; see `toolmark.result.Judged`.

    Attributes:
        criterion: What was asked.
        call: The call it is about; `None` of a whole unit.
        tool: The name of its tool; empty of a whole unit.
        decision: In words.
        good: Whether it speaks for the agent; `None` where nothing was decided.
        by: Who decided, and how sure that is.
        words: The rationale, or why there is no decision.
        evidence: What it rests on.
    """

    criterion: str
    call: Mention | None
    tool: str
    decision: str
    good: bool | None
    by: str
    words: Clip
    evidence: tuple[Mention, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitView:
    """What was judged of one unit: its scores in words, and its questions."""

    title: str
    scores: str
    questions: tuple[QuestionView, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What one metric says of one case.

    Attributes:
        metric: Its name.
        verdict: What became of it.
        score: In words; `-` where there is none.
        threshold: In words.
        reason: The arithmetic and the findings, or why there is no score.
        error: Of a failed result; else `None`.
        rows: Both sides, line by line.
        findings: What stands in neither.
        warnings: What makes the score less sure.
        notes: What is not shown.
        parts: Named numbers beside the score.
        judge: Who judged, with tokens and cost; empty where nobody did.
        units: What was judged.
    """

    metric: str
    verdict: Verdict
    score: str
    threshold: str
    reason: Clip | None
    error: Clip | None
    rows: tuple[Row, ...]
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    judge: str
    units: tuple[UnitView, ...]


def verdict_of(result: MetricResult) -> Verdict:
    """Return what became of a result in one word."""
    if result.passed is not None:
        return "passed" if result.passed else "failed"
    return "skipped" if result.status is ResultStatus.SKIPPED else "error"


def score_text(result: MetricResult) -> str:
    """Return the score in words; `-` where there is none."""
    return "-" if result.score is None else number_text(result.score)


def first_finding(result: MetricResult, redactor: Redactor) -> str:
    """Return where a result first goes wrong, else the first line of the reason; empty where nothing is wrong."""
    text = first_problem(result)
    if not text and not result.passed:
        text = shorten(printable((result.reason or "").split("\n", 1)[0]), LONGEST_LINE)
    return _safe(text, redactor)


def result_view(result: MetricResult, case: AnyCase, redactor: Redactor, places: Places) -> ResultView:
    """Return what is shown of a result.

    Args:
        result: The result.
        case: Its case, as it was measured.
        redactor: Takes secrets out of what is shown.
        places: Where the parts of the case stand on the page.
    """
    lines = rows(result, case, redactor=redactor, nested=True, longest=_LONGEST_SIDE)
    # What the lines show side by side is not told again in words, and what the reason tells not again as a finding.
    told = {f"Note: {printable(text).rstrip('.')}." for text in result.warnings}
    if lines:
        told |= {one.message for one in result.findings if one.kind in _SIDE_BY_SIDE}
    reason = _reason(result, told)
    findings = [] if lines else [one for one in result.findings if one.message not in (reason or "")]
    return ResultView(
        metric=_safe(result.metric, redactor),
        verdict=verdict_of(result),
        score=score_text(result),
        threshold=number_text(result.threshold),
        reason=clip(_safe(reason, redactor)) if reason else None,
        error=None if result.error is None else clip(_safe(result.error, redactor)),
        rows=tuple(lines[:MOST_ROWS]),
        findings=tuple(shorten(_safe(one.message, redactor), LONGEST_LINE * 2) for one in findings[:MOST_FINDINGS]),
        warnings=tuple(shorten(_safe(text, redactor), LONGEST_LINE * 2) for text in result.warnings[:MOST_FINDINGS]),
        notes=tuple(
            f"{plural(amount, f'more {noun}')} not shown here"
            for amount, noun in (
                (len(lines) - MOST_ROWS, "line"),
                (len(findings) - MOST_FINDINGS, "finding"),
                (len(result.warnings) - MOST_FINDINGS, "warning"),
                (len(result.units) - MOST_FINDINGS, "judged unit"),
            )
            if amount > 0
        ),
        parts=tuple((_safe(name, redactor), number_text(value)) for name, value in result.parts.items()),
        judge=_safe(", ".join(_judge(result)), redactor),
        units=tuple(_unit(one, redactor, places) for one in result.units[:MOST_FINDINGS]),
    )


def _reason(result: MetricResult, told: Collection[str]) -> str | None:
    """Return the reason without lines that are told elsewhere; `None` where the error says the same."""
    if result.reason is None or (result.error and result.reason == f"Not measured: {result.error.partition(': ')[2]}"):
        return None
    return "\n".join(line for line in result.reason.split("\n") if line not in told)


def _safe(text: str, redactor: Redactor) -> str:
    return str(redactor(text))


def _judge(result: MetricResult) -> Iterator[str]:
    if result.judge is None:
        return
    for name, value in result.judge.items():
        yield f"{name} {value}"
    yield from usage_words(result.usage, result.cost)


def usage_words(usage: Mapping[str, int], cost: float | None) -> Iterator[str]:
    """Yield what judging took; nothing where it took nothing."""
    for name, amount in usage.items():
        yield f"{amount:,} {name.replace('_', ' ')}"
    if cost is not None:
        yield f"cost {number_text(cost)}"
    elif any(usage.values()):
        yield "cost not known"


def _unit(unit: UnitResult, redactor: Redactor, places: Places) -> UnitView:
    turns = [str(turn + 1) for turn in unit.turns]
    where = f", turns {turns[0]} to {turns[-1]}" if len(turns) > 1 else f", turn {turns[0]}" if turns else ""
    scores = (("selection", unit.selection), ("arguments", unit.arguments))
    more = len(unit.questions) - MOST_QUESTIONS
    return UnitView(
        title=f"Unit {unit.index + 1}{where}",
        scores=", ".join(f"{name} {number_text(value)}" for name, value in scores if value is not None),
        questions=tuple(_question(one, redactor, places) for one in unit.questions[:MOST_QUESTIONS]),
        note=f"{plural(more, 'more question')} not shown here" if more > 0 else "",
    )


def _question(judged: QuestionResult, redactor: Redactor, places: Places) -> QuestionView:
    label = None if judged.called is None else places.calls.get((judged.turn, judged.called))
    words = judged.rationale if judged.rationale is not None else judged.problem or ""
    return QuestionView(
        criterion=_CRITERIA[judged.criterion],
        call=None if label is None else places.mention(label),
        tool=shorten(judged.tool or "", LONGEST_LINE),
        decision=_decision(judged),
        good=_good(judged),
        by=", ".join(_by(judged)),
        words=clip(_safe(words, redactor)),
        evidence=tuple(places.mention(shorten(text, _LONGEST_ID)) for text in judged.evidence[:MOST_FINDINGS]),
    )


def _decision(judged: QuestionResult) -> str:
    if judged.decision is None:
        return judged.outcome.replace("_", " ")
    missing = f", {judged.missing} missing" if judged.missing else ""
    return _DECISIONS[judged.decision] + missing


def _good(judged: QuestionResult) -> bool | None:
    return {"yes": True, "no": False}.get(judged.decision or "")


def _by(judged: QuestionResult) -> Iterator[str]:
    yield judged.decided_by
    if judged.probability is not None:
        yield f"probability {number_text(judged.probability)}"
    if judged.flip_rate is not None:
        yield f"flips {number_text(judged.flip_rate)}"
