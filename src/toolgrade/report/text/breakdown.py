"""Tables of the tools that are called wrongly, of their wrong arguments, and of tools called in place of others.

Warnings are grouped by their kind: texts that differ only in names, numbers and places are one kind.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMTestCase
from toolgrade.expect.plan import expected_names
from toolgrade.matching.alignment import Alignment
from toolgrade.matching.json_compare import ABSENT
from toolgrade.matching.value_text import pair_text, value_text
from toolgrade.report.comparison import CaseChange
from toolgrade.report.report import CaseResult, Report, one_case
from toolgrade.report.text.phrases import entries_of, one_line
from toolgrade.result import NOTHING_WRONG, Finding, FindingKind

_LONGEST_NAME = 120
_LONGEST_EXAMPLE = 60
_MOST_TOOLS = 20
"""Tools on one side of the matrix."""

_INPUT = re.compile(r"^\$?\.?(?:input_parameters)?\.?")
_PLACE = re.compile(r"\$[\w.\[\]-]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'(?:, '(?:[^'\\]|\\.)*')*|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_NUMBER = re.compile(r"\b\d[\d.,]*\b", re.ASCII)
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
    "not allowed": ("forbidden", "not_approved", "wrong_source"),
    "from nowhere": ("ungrounded",),
    "failed": ("failed_call", "error_text", "abandoned", "repeated"),
    "too much": ("loop", "over_budget"),
    "other": ("missing_text", "wrong_answer", "not_ended", "no_answer", "admits_failure", "equal_by_meaning", "traced"),
    "not checked": ("not_compared", "not_judged", "unknown_effect", "invalid_schema"),
}
_GROUPS_OF_CALL = ("not allowed", "failed", "unexpected")
"""What can be wrong with a call as a whole; a call counts once, in the first of these."""
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


class ToolLine(NamedTuple):
    """One line of a table.

    Attributes:
        tool: Name of the tool.
        argument: Place of the argument in its calls; empty in the table of tools.
        calls: How often the tool was called; `None` if the calls of some case were not read.
        cases: Positions of the cases with a finding, ascending.
        amounts: Number of findings in each column of the table.
        expected: The expected value of the first finding; empty without one.
        called: The value that was passed instead; likewise.
    """

    tool: str
    argument: str
    calls: int | None
    cases: tuple[int, ...]
    amounts: tuple[int, ...]
    expected: str
    called: str


class ToolTable(NamedTuple):
    """Lines, those with most cases first, and the names of the columns that are not empty."""

    columns: tuple[str, ...]
    lines: tuple[ToolLine, ...]


class Matrix(NamedTuple):
    """Calls by the tool that was expected and the tool that was called.

    Attributes:
        called: Titles of the columns: tools, and last the empty text for calls that were not made.
        rows: Title of each row, a tool or the empty text for calls that nothing expected, and its cells. A cell has
            the position of the case of each of its calls.
        hidden: Number of tools that are left out.
    """

    called: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    hidden: int


def breakdowns(report: Report) -> tuple[ToolTable, ToolTable, ToolTable]:
    """Return the tables of tools, of their arguments, and of the turns of conversations.

    Tools that were called and have no finding are listed too. What several metrics find at the same place of a case
    counts once, and so does a call that is wrong as a whole, such as one that failed and was not expected.
    """
    called = _called_tools(report)
    tools: defaultdict[tuple[str, str], _Tally] = defaultdict(list, {(name, ""): [] for name in called or ()})
    arguments: defaultdict[tuple[str, str], _Tally] = defaultdict(list)
    turns: defaultdict[tuple[str, str], _Tally] = defaultdict(list)
    counted: set[tuple[object, ...]] = set()
    findings = [(case, one) for case, result in entries_of(report) for one in result.findings]
    findings.sort(key=lambda entry: _rank_of_call(entry[1]))  # stable
    for case, one in findings:
        key: tuple[object, ...] = (case.index, one.kind, one.tool, one.expected, one.called, one.turn, one.path)
        if _rank_of_call(one) < len(_GROUPS_OF_CALL):
            key = (case.index, one.called, one.turn)
        if key in counted:
            continue
        counted.add(key)
        if one.kind not in NOTHING_WRONG:
            entry = (case.index, _group_of(one.kind), one)
            if one.tool:
                tools[one.tool, ""].append(entry)
            if one.turn is not None:
                turns[f"turn {one.turn}", ""].append(entry)
        place = _argument_of(one)
        if place:
            arguments[one.tool, place].append((case.index, _ARGUMENT_GROUPS[one.kind], one))
    groups = tuple(_GROUPS)
    argument_groups = tuple(_ARGUMENT_GROUPS.values())
    return _table(groups, tools, called), _table(argument_groups, arguments, called), _table(groups, turns, None)


def _rank_of_call(finding: Finding) -> int:
    """Return the place of a finding about a whole call among `_GROUPS_OF_CALL`; their number for any other finding."""
    group = _group_of(finding.kind)
    is_of_call = finding.called is not None and finding.path is None and group in _GROUPS_OF_CALL
    return _GROUPS_OF_CALL.index(group) if is_of_call else len(_GROUPS_OF_CALL)


def problem_rows(report: Report) -> list[tuple[str, int, str]]:
    """Return each tool with findings, its number of cases, and its findings: `30 missing, 3 with wrong arguments`."""
    table, *_ = breakdowns(report)
    rows: list[tuple[str, int, str]] = []
    for line in table.lines:
        if line.cases:
            amounts = [pair for pair in zip(line.amounts, table.columns, strict=True) if pair[0]]
            texts = (f"{amount:,} {'with ' * column.startswith('wrong')}{column}" for amount, column in amounts)
            problems = ", ".join(texts)
            rows.append((line.tool, len(line.cases), problems))
    return rows


def _called_tools(report: Report) -> Counter[str] | None:
    """Return how often each tool was called; `None` if the calls of some case were not read."""
    names: Counter[str] = Counter()
    for entry in report.cases:
        case = entry.case
        if isinstance(case, ConversationalTestCase):
            for turn in case.turns:
                names.update(call.name for call in turn.tools_called or ())
        elif isinstance(case, (LLMTestCase, MLLMTestCase)):
            if case.tools_called is None and any(result.alignment for result in entry.own_results):
                return None
            names.update(call.name for call in case.tools_called or ())
    return names


def _table(
    groups: Sequence[str], tallies: Mapping[tuple[str, str], _Tally], called: Mapping[str, int] | None
) -> ToolTable:
    used = {column for tally in tallies.values() for _, column, _ in tally}
    columns = tuple(group for group in groups if group in used)
    lines: list[ToolLine] = []
    for (tool, argument), tally in tallies.items():
        amounts = Counter(column for _, column, _ in tally)
        expected, passed = _example(tally[0][2]) if tally else ("", "")
        line = ToolLine(
            tool=one_line(tool, _LONGEST_NAME),
            argument=one_line(argument, _LONGEST_NAME),
            calls=None if called is None else called.get(tool, 0),
            cases=tuple(sorted({case for case, _, _ in tally})),
            amounts=tuple(amounts[column] for column in columns),
            expected=expected,
            called=passed,
        )
        lines.append(line)
    lines.sort(key=lambda line: (-len(line.cases), -sum(line.amounts), line.tool, line.argument))
    return ToolTable(columns, tuple(lines))


def _example(finding: Finding) -> tuple[str, str]:
    """Return the expected value of a finding and the one passed, such that their difference is visible."""
    expected, called = finding.expected_value, finding.called_value
    if expected is not ABSENT and called is not ABSENT:
        left, right, note = pair_text(expected, called, _LONGEST_EXAMPLE)
        return left, right + note
    left, right = ("" if one is ABSENT else value_text(one, _LONGEST_EXAMPLE) for one in (expected, called))
    return left, right


def _group_of(kind: FindingKind) -> str:
    """Return the column of a finding, such as `wrong arguments`."""
    return _GROUP_OF.get(kind, "other")


def _argument_of(finding: Finding) -> str:
    """Return the place of the argument that a finding is about, such as `stops[]`; empty if it is about none."""
    return _POSITION.sub("[]", _INPUT.sub("", finding.path or "")) if finding.kind in _ARGUMENT_GROUPS else ""


def changes_by_tool(changes: Iterable[CaseChange]) -> list[tuple[str, str, tuple[CaseChange, ...]]]:
    """Return cases that changed by the tool and the group of their first finding: both, and the cases.

    Most cases come first; a case that several metrics list counts once for each tool and group. Both texts are empty
    for cases without a finding.
    """
    groups: defaultdict[tuple[str, str], dict[str, CaseChange]] = defaultdict(dict)
    for change in changes:
        group = "" if change.kind is None else _group_of(change.kind)
        groups[change.tool or "", group].setdefault(change.label, change)
    ordered = sorted(groups.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [(one_line(tool, _LONGEST_NAME), group, tuple(cases.values())) for (tool, group), cases in ordered]


def tool_matrix(report: Report) -> Matrix | None:
    """Return which tool was called where which was expected; `None` if every expected call was made, and no other.

    A call that nothing expected stands for a missing call between the same two matched calls. Of several metrics on a
    case, the one that compared most calls counts. Tools that are always called as expected have no row, and only the
    20 with most such calls are shown on either side.
    """
    cells: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    wrong: Counter[str] = Counter()
    for case in report.cases:
        for pair in _tool_pairs(case):
            cells[pair].append(case.index)
            if pair[0] != pair[1]:
                wrong.update(pair)
    if not wrong:
        return None
    names = sorted(filter(None, wrong), key=lambda name: (-wrong[name], name))
    sides = names[:_MOST_TOOLS]
    hidden = len(names) - len(sides)
    if "" in wrong:
        sides.append("")
    rows: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
    for expected in sides:
        row = tuple(tuple(cells[expected, called]) for called in sides)
        if any(row):
            rows.append((expected, row))
    return Matrix(tuple(sides), tuple(rows), hidden)


def _tool_pairs(case: CaseResult) -> Iterator[tuple[str, str]]:
    """Yield the names of the expected and the called tool of each call of a case; empty where there is none."""
    alignments = [result.alignment for result in case.own_results if result.alignment is not None]
    compared = one_case(case.case)
    if not alignments or compared is None:
        return
    alignment = max(alignments, key=lambda one: one.expected_count + one.called_count)
    names = alignment.labels or expected_names(compared.expected_tools)
    is_complete = names or alignment.called_count == len(alignment.unexpected)
    if is_complete and compared.tools_called is not None:  # else the case was read without its content
        yield from _aligned_names(alignment, names, [call.name for call in compared.tools_called])


def _aligned_names(
    alignment: Alignment, names: Sequence[str], called_names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for pair in (*alignment.pairs, *alignment.out_of_order):
        yield _name_at(called_names, pair.called), _name_at(called_names, pair.called)
    instead = _calls_instead(alignment)
    for expected in alignment.missing:
        yield _name_at(names, expected), _name_at(called_names, instead.get(expected, -1))
    for called in sorted({*alignment.unexpected} - {*instead.values()}):
        yield "", _name_at(called_names, called)


def _name_at(names: Sequence[str], place: int) -> str:
    """Return the name at a position; empty if there is none, as in a results file that somebody edited."""
    return names[place] if 0 <= place < len(names) else ""


def _calls_instead(alignment: Alignment) -> dict[int, int]:
    """Return the unexpected call for each missing one, if both are between the same two matched calls."""
    pairs = [(pair.expected, pair.called) for pair in alignment.pairs]
    by_expected, by_called = sorted(pairs), sorted((called, expected) for expected, called in pairs)
    start = (-1, -1)
    free: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for called in alignment.unexpected:
        place = bisect_left(by_called, (called, -1))
        called_before, expected_before = by_called[place - 1] if place else start
        free[expected_before, called_before].append(called)
    instead: dict[int, int] = {}
    for expected in alignment.missing:
        place = bisect_left(by_expected, (expected, -1))
        candidates = free[by_expected[place - 1] if place else start]
        if candidates:
            instead[expected] = candidates.pop(0)
    return instead


class WarningKind(NamedTuple):
    """Warnings of one kind.

    Attributes:
        text: The first of them.
        texts: How many different ones there are.
        cases: The cases that have any of them, in their order.
    """

    text: str
    texts: int
    cases: list[CaseResult]


def warning_kinds(report: Report) -> list[WarningKind]:
    """Return the warnings of all results by kind, the one that most cases have first."""
    by_kind: dict[str, dict[str, dict[int, CaseResult]]] = {}
    for case, result in entries_of(report):
        for text in result.warnings:
            by_kind.setdefault(_kind(text), {}).setdefault(text, {})[case.index] = case
    kinds: list[WarningKind] = []
    for texts in by_kind.values():
        cases = {index: case for members in texts.values() for index, case in members.items()}
        kinds.append(WarningKind(next(iter(texts)), len(texts), [cases[index] for index in sorted(cases)]))
    return sorted(kinds, key=lambda kind: -len(kind.cases))


@lru_cache(maxsize=1000)
def _kind(text: str) -> str:
    """Return a text without names, numbers and places."""
    without_names = _QUOTED.sub("'...'", _PLACE.sub("...", text))
    return _NUMBER.sub("N", without_names).removeprefix("...: ")
