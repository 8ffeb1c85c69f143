"""Which tools are called wrongly, and which of their arguments? Counted over the findings of all metrics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from toolmark._internal.text import printable, shorten
from toolmark.calls import ToolCall
from toolmark.cases import ConversationalTestCase
from toolmark.matching.json_compare import ABSENT
from toolmark.redact import Redactor
from toolmark.report.html.texts import LONGEST_NAME
from toolmark.report.report import Report
from toolmark.result import Finding, FindingKind, display_value

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
    "not looked at": ("not_compared", "not_judged", "unknown_effect", "invalid_schema"),
}
_GROUP_OF = {kind: group for group, kinds in _GROUPS.items() for kind in kinds}
_OF_ARGUMENTS: dict[FindingKind, str] = {
    "wrong_argument": "wrong",
    "missing_argument": "missing",
    "extra_argument": "extra",
    "schema_violation": "schema",
    "forbidden_argument": "not allowed",
}


class Line(NamedTuple):
    """One tool, or one argument of it.

    Attributes:
        tool: Its name.
        argument: Where in its arguments; empty of a tool as a whole.
        cases: Cases in which something was found there.
        calls: How often it was called, in all cases; 0 of an argument.
        amounts: How often what was found, by column.
        example: Both sides of what was found first; empty of a tool.
    """

    tool: str
    argument: str
    cases: int
    calls: int
    amounts: tuple[int, ...]
    example: tuple[str, str] = ("", "")


class Breakdown(NamedTuple):
    """A table of lines, the worst first.

    Attributes:
        columns: What was found; only what was found at all.
        lines: At most 50.
        more: How many lines are left out.
    """

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    more: int


class _Tally:
    """What was found of one tool or argument."""

    def __init__(self) -> None:
        self.found = Counter[str]()
        self.cases: set[int] = set()
        self.first: Finding | None = None

    def add(self, case: int, column: str, finding: Finding) -> None:
        self.found[column] += 1
        self.cases.add(case)
        self.first = self.first or finding


def breakdowns(report: Report, redactor: Redactor) -> tuple[Breakdown, Breakdown]:
    """Return what was found of tools, and of their arguments.

    What several metrics find at the same place of a case counts once.
    """
    tools: defaultdict[str, _Tally] = defaultdict(_Tally)
    arguments: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)
    for case, finding in _distinct(report):
        if finding.tool:
            tools[finding.tool].add(case, _GROUP_OF.get(finding.kind, "other"), finding)
        place = _argument(finding)
        if place:
            arguments[finding.tool, place].add(case, _OF_ARGUMENTS[finding.kind], finding)
    called = Counter(call.name for call in _all_calls(report))
    for name in called:
        tools[name]
    return (
        _table(
            tuple(_GROUPS),
            {(name, ""): tally for name, tally in tools.items()},
            called,
            redactor,
        ),
        _table(tuple(_OF_ARGUMENTS.values()), arguments, Counter(), redactor),
    )


def _distinct(report: Report) -> Iterator[tuple[int, Finding]]:
    for case in report.cases:
        seen: set[tuple[object, ...]] = set()
        for result in case.own_results:
            for one in result.findings:
                key = (one.kind, one.tool, one.expected, one.called, one.turn, one.path)
                if key not in seen:
                    seen.add(key)
                    yield case.index, one


def _argument(finding: Finding) -> str:
    """Return where in the arguments something was found, without the positions in lists; empty where it was not."""
    if finding.kind not in _OF_ARGUMENTS or finding.path is None:
        return ""
    place = finding.path.removeprefix("$").removeprefix(".").removeprefix("input_parameters").removeprefix(".")
    return _POSITION.sub("[]", place)


def _all_calls(report: Report) -> Iterator[ToolCall]:
    for entry in report.cases:
        case = entry.case
        for part in case.turns if isinstance(case, ConversationalTestCase) else (case,):
            yield from getattr(part, "tools_called", None) or ()


def _table(
    columns: tuple[str, ...], tallies: dict[tuple[str, str], _Tally], called: Counter[str], redactor: Redactor
) -> Breakdown:
    found = sum((tally.found for tally in tallies.values()), Counter[str]())
    kept = tuple(column for column in columns if found[column])
    lines = [
        Line(
            tool=shorten(printable(tool), LONGEST_NAME),
            argument=shorten(printable(argument), LONGEST_NAME),
            cases=len(tally.cases),
            calls=called[tool],
            amounts=tuple(tally.found[column] for column in kept),
            example=_example(tally.first, redactor) if argument else ("", ""),
        )
        for (tool, argument), tally in sorted(
            tallies.items(), key=lambda entry: (-len(entry[1].cases), -sum(entry[1].found.values()), entry[0])
        )
    ]
    return Breakdown(kept, tuple(lines[:_MOST_LINES]), max(len(lines) - _MOST_LINES, 0))


def _example(finding: Finding | None, redactor: Redactor) -> tuple[str, str]:
    if finding is None:
        return "", ""
    sides = (finding.expected_value, finding.called_value)
    left, right = (
        "" if side is ABSENT else display_value(side, finding.path, redactor, _LONGEST_EXAMPLE) for side in sides
    )
    return left, right
