"""A report as an HTML fragment for notebooks: the totals, and the worst cases. It holds no script and loads nothing."""

from __future__ import annotations

from html import escape

from toolmark._internal.text import number_text, plural
from toolmark.report.report import Report
from toolmark.report.text.first_problem import first_problem
from toolmark.report.text.ordering import is_bad, worst_first

_MOST_CASES = 10
"""Cases that are listed."""


def report_fragment(report: Report) -> str:
    """Return the totals by metric and the worst cases as two tables; all text of the cases is escaped."""
    totals = [
        [
            summary.metric,
            "" if summary.mean is None else number_text(summary.mean),
            *map(str, (summary.passed, summary.failed, summary.skipped, summary.errored)),
        ]
        for summary in report.summaries
    ]
    bad = sorted((entry for entry in report.results() if is_bad(entry[1])), key=worst_first)
    cases = [
        [
            case.label,
            result.metric,
            "" if result.score is None else number_text(result.score),
            first_problem(result),
        ]
        for case, result in bad[:_MOST_CASES]
    ]
    parts = [_table(["metric", "mean", "passed", "failed", "skipped", "errors"], totals)]
    if cases:
        parts.append(_table(["case", "metric", "score", "first problem"], cases))
    if len(bad) > _MOST_CASES:
        parts.append(f"<p>and {plural(len(bad) - _MOST_CASES, 'other result')} that did not pass</p>")
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([f"<table><thead><tr>{titles}</tr></thead><tbody>", *lines, "</tbody></table>"])
