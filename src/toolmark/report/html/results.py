"""A result on the page: its reason, both sides, and what a judge decided."""

from __future__ import annotations

from typing import Any

from toolmark._internal.text import number_text, printable
from toolmark.cases import AnyCase
from toolmark.report.text.phrases import usage_facts
from toolmark.report.text.side_by_side import rows
from toolmark.result import FindingKind, MetricResult, QuestionResult

_LONGEST_SIDE = 400

_SIDE_BY_SIDE = frozenset[FindingKind](
    {
        *("missing", "unexpected", "out_of_order", "not_parallel", "forbidden", "not_compared"),
        *("wrong_argument", "missing_argument", "extra_argument", "wrong_output", "wrong_type"),
    }
)


def result_view(result: MetricResult, case: AnyCase) -> dict[str, Any]:
    """Return the template data of a redacted result."""
    lines = rows(result, case, nested=True, longest=_LONGEST_SIDE)
    # The reason does not repeat warnings, nor what the rows show; findings do not repeat the rows or the reason.
    repeated = {f"Note: {printable(text).rstrip('.')}." for text in result.warnings}
    if lines:
        repeated |= {one.message for one in result.findings if one.kind in _SIDE_BY_SIDE}
    reason = result.reason or ""
    if reason == f"Not measured: {str(result.error).partition(': ')[2]}":
        reason = ""  # the error says the same
    reason = "\n".join(line for line in reason.split("\n") if line not in repeated)
    findings = [] if lines else [one.message for one in result.findings if one.message not in reason]
    return {"result": result, "reason": reason, "rows": lines, "findings": findings}


def judge_facts(result: MetricResult) -> list[str]:
    """Return the judge of a result and what judging used and cost."""
    if result.judge is None:
        return []
    return [*(f"{name} {value}" for name, value in result.judge.items()), *usage_facts(result.usage, result.cost)]


def decision_text(judged: QuestionResult) -> str:
    """Return the decision on a question, or why there is none."""
    missing = f", {judged.missing} missing" if judged.missing else ""
    return (judged.decision or judged.outcome).replace("_", " ") + missing


def decided_by(judged: QuestionResult) -> str:
    """Return who decided a question, and how sure that is."""
    facts: list[str] = [judged.decided_by]
    if judged.probability is not None:
        facts.append(f"probability {number_text(judged.probability)}")
    if judged.flip_rate is not None:
        facts.append(f"flips {number_text(judged.flip_rate)}")
    return ", ".join(facts)
