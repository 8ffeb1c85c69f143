"""Reports in GitHub-flavoured Markdown, for the summary of a CI step or a comment: failures first, folded, and capped.

All data of the cases is printed as code, so that none of it becomes markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import filterfalse
from typing import TypeAlias

from toolgrade._internal.options import require
from toolgrade._internal.text import join_first, number_text, plural, printable
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.comparison import CaseChange, Comparison
from toolgrade.report.overview import Overview, TrendPoint, overview
from toolgrade.report.redaction import redact
from toolgrade.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolgrade.report.terminal.results import result_text
from toolgrade.report.text import phrases
from toolgrade.report.text.agent_table import MOST_GOLDENS, AgentOutcome, AgentTable, agent_table
from toolgrade.report.text.breakdown import changes_by_tool, problem_rows
from toolgrade.report.text.first_problem import case_problem, entry_problem, first_problem
from toolgrade.report.text.headline import facts_line, title_of, title_with_date
from toolgrade.report.text.phrases import (
    WORD_TEXTS,
    Entry,
    Word,
    entries_of,
    entry_word,
    is_bad,
    number_or_dash,
    one_line,
    result_word,
    worst_first,
)
from toolgrade.report.text.slices import SLICE_COLUMNS, Slice, rate_text, slice_cells

__all__ = ["render_markdown"]

MAX_BYTES = 1_000_000
"""Size that fits the summary of a step on GitHub, which may have 1 MiB; a comment may have 65,536 characters."""

RESERVED = 1_000
"""Bytes reserved for the note that lists what was left out."""

_MIN_BYTES = 4_000
_MAX_NAME = 200
_MOST_EXAMPLES = 3
_MIN_TREND_POINTS = 3
"""Two evaluations are compared already."""
_BLOCKS_ABOVE_NOTE = 2
"""The title and the verdict stand above the note that lists what was left out."""
_Rows: TypeAlias = Iterable[Sequence[str]]
_SIGNS: Mapping[Word, str] = {
    "agent_error": "❌",
    "failed": "❌",
    "not_measured": "⚠️",
    "skipped": "⚪",
    "passed": "✅",
}


class Page:
    """Markdown that grows block by block up to a size in bytes of UTF-8, and counts what did not fit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes - RESERVED
        self._blocks: list[str] = []
        self._missing: dict[str, int] = {}

    def add(self, block: str, *, what: str = "paragraph") -> None:
        """Add a block if there is room; otherwise count it as left out, under the singular `what`."""
        size = _size(block)
        if size > self._left:
            self.leave_out(what, 1)
            return
        self._left -= size
        self._blocks.append(block)

    def add_table(
        self, header: Sequence[str], align: str, rows: _Rows, *, what: str, title: str = "", summary: str = ""
    ) -> None:
        """Add a table below a title, with as many of its rows as fit; nothing if none fits.

        `align` has a letter for each column, `l` or `r`; `what` names a row in the singular. With a summary the table
        is folded below it.
        """
        rule = table_line("--:" if letter == "r" else "---" for letter in align)
        top = f"{table_line(header)}\n{rule}\n"
        self._add_lines(title, top, list(map(table_line, rows)), what, summary)

    def add_list(self, lines: Sequence[str], *, what: str, title: str = "") -> None:
        """Add a list below a title, with as many of its lines as fit; nothing if none fits."""
        self._add_lines(title, "", lines, what)

    def _add_lines(self, title: str, top: str, lines: Sequence[str], what: str, summary: str = "") -> None:
        """Add lines below a title and a top, such as the header of a table; only lines may be left out."""
        heading = f"{title}\n\n" if title else ""
        fitting = self.fitting(heading + folded(summary, top), lines)
        if fitting:
            self.add(heading + folded(summary, top + "\n".join(lines[:fitting])))
        self.leave_out(what, len(lines) - fitting)

    def fitting(self, top: str, lines: Sequence[str]) -> int:
        """Return how many of these lines fit below a top, from the first on; 0 if the top itself does not fit."""
        room = self._left - _size(top)
        for count, line in enumerate(lines):
            room -= _size(line)
            if room < 0:
                return count
        return len(lines)

    def room_beside(self, blocks: Iterable[str]) -> int:
        """Return how many bytes are left after these blocks."""
        return self._left - sum(map(_size, blocks))

    def leave_out(self, what: str, amount: int) -> None:
        """Count what did not fit."""
        if amount > 0:
            self._missing[what] = self._missing.get(what, 0) + amount

    def text(self) -> str:
        """Return the page; if anything was left out, a note below the title and the verdict says so."""
        blocks = list(self._blocks)
        if self._missing:
            missing = ", ".join(plural(amount, what) for what, amount in self._missing.items())
            note = f"> **Cut** to {self._max_bytes} bytes, without {missing}. The JSON report has all."
            blocks.insert(_BLOCKS_ABOVE_NOTE, note)
        return "\n\n".join(blocks) + "\n"


def render_markdown(
    report: Report,
    *,
    title: str | None = None,
    earlier: Sequence[Report] = (),
    by: Sequence[str] = (),
    limit: int = 100,
    max_bytes: int = MAX_BYTES,
    redactor: Redactor = DEFAULT,
) -> str:
    """Return a report as Markdown.

    It has the verdict, the difference to the evaluation before and where it goes wrong, in a sentence each; the totals
    (of several agents side by side, with the goldens that each passed), pass rates of slices, what changed, the
    findings by tool, every failure with its first divergence, and then the rest.

    Args:
        report: The report.
        title: A heading; by default the name in `report.about`, else "Evaluation".
        earlier: Earlier evaluations, the earliest first; the report is compared with the last of them.
        by: Fields whose values have pass rates of their own: `"tag"`, `"agent"`, or a path such as `metadata.team`; by
            default `"tag"`, if there are tags.
        limit: Maximum number of failures whose calls are shown side by side, folded; 0 for all.
        max_bytes: Maximum size in bytes of UTF-8, at least 4,000. Whatever does not fit is left out as a whole and
            counted at the top: the calls of failures first, then the end of the page.
        redactor: Redacts values and texts.

    Raises:
        ConfigurationError: `max_bytes` or `limit` is too small, or no case has a value at a path of `by`.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.markdown import render_markdown
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> page = render_markdown(evaluate([case], [ToolCorrectnessMetric()]), title="Weather agent")
        >>> [line for line in page.splitlines() if line.startswith("#")]
        ['# `Weather agent`', '## Findings by tool', '## 1 failure']
    """
    require(max_bytes >= _MIN_BYTES, f"max_bytes must be {_MIN_BYTES} or more", max_bytes)
    require(limit >= 0, "limit must be 0 or more", limit)
    report = redact(report, redactor)
    page = Page(max_bytes)
    view = overview(report, earlier, by, redactor)
    page.add(f"# {_name(redact(title_of(report, title), redactor)) or 'toolgrade'}")
    _add_verdict(page, report, view)
    agents = agent_table(report)
    if agents is None:
        _add_totals(page, report.summaries)
    else:
        _add_agents(page, agents)
    _add_judging(page, report.summaries)
    _add_trials(page, report.trial_summaries)
    for line in phrases.agreement_lines(report):
        page.add(code(line))
    for field, parts in view.slices:
        _add_slices(page, f"## Pass rate by {_name(field)}", parts)
    _add_trend(page, view.trend)
    if view.comparison is not None:
        _add_comparison(page, view.comparison)
    entries = sorted(entries_of(report), key=worst_first)
    tools = [(_name(tool), f"{cases:,}", problems) for tool, cases, problems in problem_rows(report)]
    if tools:
        header = ["tool", "cases", "findings of all metrics"]
        page.add_table(header, "lrl", tools, what="tool", title="## Findings by tool")
    broken = [case for case in report.cases if case.wrong_end is not None and not case.own_results]
    page.add_list(list(map(_broken_line, broken)), what="broken case", title="## Without results")
    _add_failures(page, list(filter(is_bad, entries)), limit)
    _add_rest(page, filterfalse(is_bad, entries))
    return page.text()


def _add_verdict(page: Page, report: Report, view: Overview) -> None:
    """Add the first sentences, what was measured, and what limits it."""
    verdict = report.verdict
    word: Word = "passed" if verdict.passed else "failed"
    first, *others = view.sentences
    start, _, why = first.partition(": ")  # such as "Failed: 1 of 2 cases failed."
    page.add(f"{_SIGNS[word]} **{start}**: {code(why)}")
    for sentence in others:
        page.add(code(sentence))
    page.add(f"{verdict.counts_text}, of {phrases.cases_text(report)}.")
    if view.facts:
        page.add(code(facts_line(view.facts)))
    for hint in phrases.hints(report):
        page.add(f"> {code(hint)}")
    if report.interrupted:
        page.add(f"> **{phrases.INTERRUPTED}**")
    if report.totals:
        page.add(phrases.TOTALS_ONLY)


def _add_totals(page: Page, summaries: Sequence[MetricSummary]) -> None:
    header = ["metric", "passes from", "mean", "pass rate", "passed", "failed", "not measured", "skipped"]
    rows = [
        (
            _name(summary.metric),
            f"{summary.threshold:g}",
            phrases.with_interval(summary.mean, summary.mean_interval),
            phrases.with_interval(summary.rate, summary.rate_interval),
            *(f"{amount:,}" for amount in (summary.passed, summary.failed, summary.errored, summary.skipped)),
        )
        for summary in summaries
    ]
    page.add_table(header, "lrrrrrrr", rows, what="metric")
    if any(map(phrases.estimates_text, summaries)):
        page.add(phrases.INTERVALS)


def _add_agents(page: Page, table: AgentTable) -> None:
    agents = list(map(_name, table.agents))
    align = "l" * len(agents)
    metrics = [(_name(row.title), f"{row.threshold:g}", *map("<br>".join, row.cells)) for row in table.metrics]
    page.add_table(["metric", "passes from", *agents], f"lr{align}", metrics, what="metric", title="## Agents")
    if table.legend:
        page.add(table.legend)
    listed = table.goldens[:MOST_GOLDENS]
    goldens = [(_name(row.name), *(_outcome(cell) for cell in row.cells)) for row in listed]
    page.add_table(["golden", *agents], f"l{align}", goldens, what="golden", title=f"### {table.golden_title}")
    if len(listed) < len(table.goldens):
        page.add(f"The JSON report has the other {plural(len(table.goldens) - len(listed), 'golden')}.")


def _outcome(cell: AgentOutcome) -> str:
    return f"{_SIGNS[cell.word]} {cell.text}" if cell.word else cell.text


def _add_slices(page: Page, title: str, parts: Sequence[Slice]) -> None:
    rows = [(_name(part.name) or "-", *slice_cells(part)) for part in parts]
    page.add_table(SLICE_COLUMNS, "lrrrrr", rows, what="slice", title=title)


def _gate(point: TrendPoint) -> str:
    return f"{_SIGNS['passed']} passed" if point.passed else f"{_SIGNS['failed']} failed"


def _add_trend(page: Page, points: Sequence[TrendPoint]) -> None:
    if len(points) >= _MIN_TREND_POINTS:
        rows = [
            (_name(one.name), one.date, _gate(one), rate_text(one.cases), f"{one.cases.cases:,}", code(one.change))
            for one in points
        ]
        header = ["evaluation", "date", "gate", "passed", "cases", "since the one before"]
        page.add_table(header, "lrlrrl", rows, what="evaluation", title="## Trend")


def _add_judging(page: Page, summaries: Sequence[MetricSummary]) -> None:
    judged = [f"- {_name(summary.metric)}: {text}" for summary in summaries if (text := phrases.judging_text(summary))]
    page.add_list(judged, what="judge line")


def _add_trials(page: Page, summaries: Sequence[TrialSummary]) -> None:
    if not summaries:
        return
    rows = [(_name(summary.metric), *row) for summary in summaries for row in phrases.pass_at_k_rows(summary)]
    header = ["metric", "k", "pass@k", "pass^k", "goldens"]
    page.add_table(header, "lrrrr", rows, what="trial row", title="## Trials")
    page.add(phrases.PASS_AT_K_LEGEND)
    flaky = [
        f"- {_name(summary.metric)}: {code(phrases.flaky_text(golden))}"
        for summary in summaries
        for golden in summary.flaky
    ]
    page.add_list(flaky, what="flaky golden", title="### Flaky: some trials passed, some did not")


def _add_comparison(page: Page, comparison: Comparison) -> None:
    page.add(
        f"## Compared with {code(title_with_date(comparison.about_a))}\n\n{plural(comparison.in_both, 'case')} in both."
    )
    header = ["metric", "pairs", "before", "now", "difference", "95 % interval", "worse", "better", "p"]
    rows = [(_name(metric.metric), *phrases.comparison_cells(metric)) for metric in comparison.metrics]
    page.add_table(header, "lrrrrrrrr", rows, what="compared metric")
    note = phrases.broken_runs_note(comparison)
    if note:
        page.add(note)
    _add_regressed_tools(page, comparison)
    for metric in comparison.metrics:
        for listed, title, what in (
            (metric.regressions, "❌ Regressions: passed before, fail now", "regression"),
            (metric.improvements, "✅ Improvements: failed before, pass now", "improvement"),
        ):
            page.add_list(list(map(_change_line, listed)), what=what, title=f"### {title}\n\n{_name(metric.metric)}")
    losses = [
        f"- {_name(loss.label)} {WORD_TEXTS[loss.outcome_b]}: {code(one_line(loss.reason))}"
        for loss in comparison.losses
    ]
    page.add_list(losses, what="lost case", title="### ❌ Passed before, and no verdict now")
    gone = [f"- {_name(name)}" for name in comparison.only_a]
    page.add_list(gone, what="gone case", title="### Measured before, and not now")
    page.add_list([f"- {code(note)}" for note in comparison.notes], what="note", title="### Notes")


def _add_regressed_tools(page: Page, comparison: Comparison) -> None:
    changes = changes_by_tool(change for metric in comparison.metrics for change in metric.regressions)
    tools: list[tuple[str, ...]] = []
    for tool, kind, cases in changes:
        examples = join_first([_name(change.label) for change in cases], _MOST_EXAMPLES)
        tools.append((_name(tool), kind or "no finding", f"{len(cases):,}", examples))
    if tools:
        header, title = ["tool", "first finding", "cases", "such as"], "### ❌ Regressions by tool"
        page.add_table(header, "llrl", tools, what="tool that became worse", title=title)


def _change_line(change: CaseChange) -> str:
    finding = f": {code(one_line(change.finding))}" if change.finding else ""
    return f"- {_name(change.label)} {number_text(change.score_a)} → {number_text(change.score_b)}{finding}"


def _add_failures(page: Page, bad: Sequence[Entry], limit: int) -> None:
    """Add a line for each failure; the first ones unfold to their calls side by side, as long as there is room.

    Lines come before calls: if the page is short, it is better to list every failure than to show the calls of a few.
    """
    if not bad:
        return
    title = f"## {plural(len(bad), 'failure')}"
    if 0 < limit < len(bad):
        title += f"\n\nThe first {limit} can be unfolded."
    lines = [f"<p>{_failure_line(entry)}</p>" for entry in bad]
    lines = lines[: page.fitting(title, lines)]
    page.leave_out("failure", len(bad) - len(lines))
    room = page.room_beside([title, *lines])
    unfolded = bad[: min(limit or len(lines), len(lines))]
    for place, (case, result) in enumerate(unfolded):
        calls = fenced(result_text(result, case.case, case.label))
        block = folded(_failure_line((case, result)), calls)
        room -= len(block.encode()) - len(lines[place].encode())
        if room < 0:
            page.leave_out("side-by-side view", len(unfolded) - place)
            break
        lines[place] = block
    if lines:
        for block in (title, *lines):
            page.add(block)


def _broken_line(case: CaseResult) -> str:
    return f"- {_SIGNS[case.outcome]} {_name(case.label)} {code(case_problem(case))}"


def _failure_line(entry: Entry) -> str:
    case, result = entry
    names = " ".join(html_code(one_line(name, _MAX_NAME)) for name in (case.label, result.metric))
    sign = _SIGNS[entry_word(entry)]
    return f"{sign} {names} {number_or_dash(result.score)} {html_code(entry_problem(case, result))}"


def _add_rest(page: Page, rest: Iterable[Entry]) -> None:
    """Add a folded table of the results that did not fail."""
    rows: list[tuple[str, ...]] = []
    for case, result in rest:
        word = result_word(result)
        names = (_name(case.label), _name(result.metric))
        rows.append(
            (*names, number_or_dash(result.score), f"{_SIGNS[word]} {WORD_TEXTS[word]}", code(first_problem(result)))
        )
    if rows:
        header = ["case", "metric", "score", "", "first problem"]
        page.add_table(header, "llrll", rows, what="other result", summary=plural(len(rows), "other result"))


def _name(name: str) -> str:
    return code(one_line(name, _MAX_NAME))


def code(text: str) -> str:
    """Return data as a code span, on one line; empty for an empty text."""
    plain = printable(text)
    if not plain:
        return ""
    fence = "`" * (_longest_run(plain) + 1)
    # Renderers strip one blank on either side, unless the text is all blanks.
    pad = " " if plain.strip(" ") and plain.strip("` ") != plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def html_code(text: str) -> str:
    """Return data as the HTML element `code`, for places inside HTML, where Markdown is not parsed."""
    return f"<code>{escape(printable(text))}</code>" if text else ""


def fenced(text: str) -> str:
    """Return lines of data as a block between fences longer than any run of backticks in it."""
    lines = "\n".join(map(printable, text.split("\n")))
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}"


def folded(summary: str, body: str) -> str:
    """Return Markdown that unfolds when its summary, which is HTML, is clicked; without a summary the body itself."""
    if not summary:
        return body
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table; every pipe is escaped, since a table is split into cells before code is parsed."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _size(block: str) -> int:
    return len(block.encode("utf-8", "backslashreplace")) + 2
