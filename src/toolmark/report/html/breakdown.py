"""Tables of the tools that are called wrongly and of their wrong arguments, over the findings of all metrics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from toolmark.matching.json_compare import ABSENT
from toolmark.report.html.calls import messages_of
from toolmark.report.html.texts import LONGEST_NAME
from toolmark.report.report import Report
from toolmark.report.text.phrases import one_line, value_text
from toolmark.result import Finding, FindingKind

_MOST_LINES = 50
_LONGEST_EXAMPLE = 48

_INPUT = re.compile(r"^\$?\.?(?:input_parameters)?\.?")
_POSITION = re.compile(r"\[\d+\]", re.ASCII)
_NO_FINDING = Finding("not_compared", "", "")
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


_Tally: TypeAlias = list[tuple[int, str, Finding]]
"""The findings about one tool or argument, each with its case and its column."""


def breakdowns(report: Report) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables of tools and of their arguments, the worst first.

    A table has its `columns` (without empty ones), at most 50 `lines`, and the number of lines that are `hidden`. What
    several metrics find at the same place of a case counts once.
    """
    called = Counter(call.name for entry in report.cases for one in messages_of(entry.case) for call in one.calls)
    tools: defaultdict[tuple[str, str], _Tally] = defaultdict(list, {(name, ""): [] for name in called})
    arguments: defaultdict[tuple[str, str], _Tally] = defaultdict(list)
    for case_index, finding in _distinct_findings(report):
        if finding.tool:
            tools[finding.tool, ""].append((case_index, _GROUP_OF.get(finding.kind, "other"), finding))
        place = _POSITION.sub("[]", _INPUT.sub("", finding.path or ""))
        if place and finding.kind in _ARGUMENT_GROUPS:
            arguments[finding.tool, place].append((case_index, _ARGUMENT_GROUPS[finding.kind], finding))
    return _table(tuple(_GROUPS), tools, called), _table(tuple(_ARGUMENT_GROUPS.values()), arguments, called)


def _distinct_findings(report: Report) -> Iterable[tuple[int, Finding]]:
    """Return the findings with their cases, once for each place of a case."""
    findings: dict[tuple[object, ...], tuple[int, Finding]] = {}
    for case, result in report.results():
        for one in result.findings:
            key = (case.index, one.kind, one.tool, one.expected, one.called, one.turn, one.path)
            findings.setdefault(key, (case.index, one))
    return findings.values()


def _table(
    columns: Sequence[str], tallies: Mapping[tuple[str, str], _Tally], called: Mapping[str, int]
) -> dict[str, Any]:
    used = {column for tally in tallies.values() for _, column, _ in tally}
    columns = [column for column in columns if column in used]
    worst = sorted(tallies.items(), key=_severity)[:_MOST_LINES]
    lines = [{**_line(*one, columns), "calls": called.get(one[0][0], 0)} for one in worst]
    return {"columns": columns, "lines": lines, "hidden": len(tallies) - len(lines)}


def _severity(entry: tuple[tuple[str, str], _Tally]) -> tuple[int, int, tuple[str, str]]:
    """Return a sort key for lines: most cases, then most findings, then the name."""
    key, tally = entry
    return -_case_count(tally), -len(tally), key


def _case_count(tally: _Tally) -> int:
    return len({case for case, _, _ in tally})


def _line(key: tuple[str, str], tally: _Tally, columns: Sequence[str]) -> dict[str, Any]:
    amounts = Counter(column for _, column, _ in tally)
    first = tally[0][2] if tally else _NO_FINDING
    return {
        "tool": one_line(key[0], LONGEST_NAME),
        "argument": one_line(key[1], LONGEST_NAME),
        "cases": _case_count(tally),
        "amounts": [amounts[column] for column in columns],
        "expected": _side(first.expected_value),
        "called": _side(first.called_value),
    }


def _side(value: Any) -> str:  # noqa: ANN401 - a JSON value, a matcher or ABSENT
    return "" if value is ABSENT else value_text(value, _LONGEST_EXAMPLE)
