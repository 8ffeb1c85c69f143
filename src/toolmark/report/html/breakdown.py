"""Tables of the tools that are called wrongly and of their wrong arguments, over the findings of all metrics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolmark.cases import ConversationalTestCase
from toolmark.matching.json_compare import ABSENT
from toolmark.report.html.texts import LONGEST_NAME
from toolmark.report.report import Report
from toolmark.report.text.phrases import one_line, value_text
from toolmark.result import Finding, FindingKind

_MOST_LINES = 50
_LONGEST_EXAMPLE = 48

_POSITION = re.compile(r"\[\d+\]", re.ASCII)
_GROUPS: dict[str, tuple[FindingKind, ...]] = {
    "missing": ("missing", "missing_call"),
    "unexpected": ("unexpected", "wrong_tool", "unknown_tool", "redundant"),
    "wrong arguments": (
        *("wrong_argument", "missing_argument", "extra_argument"),
        *("wrong_arguments", "schema_violation", "forbidden_argument"),
    ),
    "wrong output": ("wrong_output",),
    "wrong type": ("wrong_type",),
    "out of order": ("out_of_order", "not_parallel", "too_early"),
    "not allowed": ("forbidden", "not_approved"),
    "failed": ("failed_call", "abandoned", "repeated"),
    "too much": ("loop", "over_budget"),
    "other": (),
    "not checked": ("not_compared", "not_judged", "unknown_effect", "invalid_schema"),
}
_GROUP_OF = {kind: group for group, kinds in _GROUPS.items() for kind in kinds}
_ARGUMENT_GROUPS: dict[FindingKind, str] = {
    "wrong_argument": "wrong",
    "missing_argument": "missing",
    "extra_argument": "extra",
    "schema_violation": "schema",
    "forbidden_argument": "not allowed",
}


@dataclass
class _Tally:
    """The findings about one tool or argument: their number by column, their cases, and the first of them."""

    columns: Counter[str] = field(default_factory=Counter[str])
    cases: set[int] = field(default_factory=set[int])
    first: Finding | None = None

    def add(self, case: int, column: str, finding: Finding) -> None:
        self.columns[column] += 1
        self.cases.add(case)
        self.first = self.first or finding


def breakdowns(report: Report) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables of tools and of their arguments, the worst first.

    A table has its `columns` (without empty ones), at most 50 `lines`, and the number of lines that are `hidden`. What
    several metrics find at the same place of a case counts once.
    """
    tools: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)
    arguments: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)
    for case, finding in _distinct(report):
        if finding.tool:
            tools[finding.tool, ""].add(case, _GROUP_OF.get(finding.kind, "other"), finding)
        place = _argument(finding)
        if place:
            arguments[finding.tool, place].add(case, _ARGUMENT_GROUPS[finding.kind], finding)
    called = Counter(_called_names(report))
    for name in called:
        _ = tools[name, ""]  # tools that are called well are listed too
    return _table(tuple(_GROUPS), tools, called), _table(tuple(_ARGUMENT_GROUPS.values()), arguments, called)


def _distinct(report: Report) -> Iterator[tuple[int, Finding]]:
    for case in report.cases:
        findings: dict[tuple[object, ...], Finding] = {}
        for result in case.own_results:
            for one in result.findings:
                findings.setdefault((one.kind, one.tool, one.expected, one.called, one.turn, one.path), one)
        for finding in findings.values():
            yield case.index, finding


def _argument(finding: Finding) -> str:
    """Return the place of a finding in the arguments, without positions in lists; empty if it has none."""
    if finding.kind not in _ARGUMENT_GROUPS or finding.path is None:
        return ""
    place = finding.path.removeprefix("$").removeprefix(".").removeprefix("input_parameters").removeprefix(".")
    return _POSITION.sub("[]", place)


def _called_names(report: Report) -> Iterator[str]:
    for entry in report.cases:
        case = entry.case
        for part in case.turns if isinstance(case, ConversationalTestCase) else (case,):
            for call in getattr(part, "tools_called", None) or ():
                yield call.name


def _table(
    columns: Sequence[str], tallies: Mapping[tuple[str, str], _Tally], called: Mapping[str, int]
) -> dict[str, Any]:
    totals = sum((tally.columns for tally in tallies.values()), Counter[str]())
    columns = [column for column in columns if totals[column]]
    ranked = sorted(
        tallies.items(), key=lambda entry: (-len(entry[1].cases), -sum(entry[1].columns.values()), entry[0])
    )
    lines = [
        {
            "tool": one_line(tool, LONGEST_NAME),
            "argument": one_line(argument, LONGEST_NAME),
            "cases": len(tally.cases),
            "calls": called.get(tool, 0),
            "amounts": [tally.columns[column] for column in columns],
            "expected": _side(tally.first.expected_value if tally.first else ABSENT),
            "called": _side(tally.first.called_value if tally.first else ABSENT),
        }
        for (tool, argument), tally in ranked[:_MOST_LINES]
    ]
    return {"columns": columns, "lines": lines, "hidden": len(tallies) - len(lines)}


def _side(value: Any) -> str:  # noqa: ANN401 - a JSON value, a matcher or ABSENT
    return "" if value is ABSENT else value_text(value, _LONGEST_EXAMPLE)
