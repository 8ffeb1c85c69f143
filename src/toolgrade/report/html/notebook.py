"""A report as an HTML fragment for notebooks: the totals, and the worst cases. It holds no script and loads nothing."""

from __future__ import annotations

from html import escape

from toolgrade._internal.text import number_text, plural
from toolgrade.report.redaction import redact, redact_entry
from toolgrade.report.report import Report
from toolgrade.report.text.agent_table import agent_table
from toolgrade.report.text.first_problem import first_problem
from toolgrade.report.text.ordering import entries_of, is_bad, worst_first

_MOST_CASES = 10
"""Cases that are listed."""


def report_fragment(report: Report) -> str:
    """Return the totals by metric and the worst cases as two tables; all text of the cases is redacted and escaped.

    Several agents stand side by side.
    """
    bad = sorted((entry for entry in entries_of(report) if is_bad(entry[1])), key=worst_first)
    listed = map(redact_entry, bad[:_MOST_CASES])  # notebooks save what they show
    cases = [[case.label, result.metric, _number(result.score), first_problem(result)] for case, result in listed]
    parts = [_totals(report)]
    if cases:
        parts.append(_table(["case", "metric", "score", "first problem"], cases))
    if len(bad) > _MOST_CASES:
        parts.append(f"<p>and {plural(len(bad) - _MOST_CASES, 'other result')} that did not pass</p>")
    return "\n".join(parts)


def _totals(report: Report) -> str:
    agents = agent_table(report)
    if agents is not None:
        rows = [[row.title, *map("; ".join, row.cells)] for row in agents.metrics]
        return f"{_table(['metric', *map(redact, agents.agents)], rows)}\n<p>{escape(agents.legend)}</p>"
    totals = [
        [one.metric, _number(one.mean), *map(str, (one.passed, one.failed, one.skipped, one.errored))]
        for one in report.summaries
    ]
    return _table(["metric", "mean", "passed", "failed", "skipped", "errors"], totals)


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([f"<table><thead><tr>{titles}</tr></thead><tbody>", *lines, "</tbody></table>"])
