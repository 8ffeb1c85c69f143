"""Reports and single results in a terminal: 80 columns are enough, and pipes get plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolgrade._internal.text import join_first, plural, printable
from toolgrade.cases import AnyCase
from toolgrade.redact import DEFAULT
from toolgrade.report.overview import overview
from toolgrade.report.redaction import redact, redact_entry
from toolgrade.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolgrade.report.terminal.console import FIRST_COLUMN, WORD_STYLES, Name, Screen, alarm, make_table
from toolgrade.report.terminal.tables import print_agents, print_comparison, print_slices, print_tools, print_trend
from toolgrade.report.text import phrases
from toolgrade.report.text.agent_table import agent_table
from toolgrade.report.text.breakdown import warning_kinds
from toolgrade.report.text.first_problem import case_problem, entry_problem
from toolgrade.report.text.headline import facts_line, title_of
from toolgrade.report.text.phrases import (
    WORD_TEXTS,
    Entry,
    entries_of,
    entry_word,
    number_or_dash,
    one_line,
    worst_first,
)
from toolgrade.report.text.side_by_side import CallRow, Mark, rows
from toolgrade.report.text.transcript import TurnView, turns_of
from toolgrade.result import NOTHING_WRONG, MetricResult
from toolgrade.verdict import outcome_reason

# The most characters of a text on one line, by what it is.
_LABEL = 72
_REASON = 1000
_TEXT = 300
# The most that is listed of each kind.
_ROWS = 60
_TURNS = 20
_NAMED = 10
_FINDINGS = 10
_WARNINGS = 5
_MAX_FLAKY = 20

_STYLES = {True: "bold green", False: "bold red"}

_MARKS: dict[Mark, tuple[str, str]] = {
    "same": ("=", "dim"),
    "differs": ("~", "yellow"),
    "moved": ("<", "yellow"),
    "missing": ("-", "red"),
    "unexpected": ("+", "green"),
    "detail": ("", ""),
}
_KEYS = (
    "= same  ~ differs  < out of order  - not called  + not expected",
    "c2: the second call made  e2: the second expected",
)


def print_report(
    report: Report,
    *,
    title: str | None = None,
    earlier: Sequence[Report] = (),
    by: Sequence[str] = (),
    limit: int = 20,
    details: int = 3,
    quiet: bool = False,
    full: bool = False,
    console: Console | None = None,
) -> None:
    """Print a report: what happened in a few sentences; one line per case, worst first; the worst ones side by side.

    Then follow the findings by tool, the totals, pass rates of slices, and what changed. With several agents,
    the totals stand side by side, and below them which agent passed which golden.

    Secrets are redacted with the default rules.

    Args:
        report: The report.
        title: A heading; by default the name in `report.about`, else "Evaluation".
        earlier: Earlier evaluations, the earliest first; the report is compared with the last of them.
        by: Fields whose values have pass rates of their own: `"tag"`, `"agent"`, or a path such as `metadata.team`; by
            default `"tag"`, if there are tags.
        limit: Maximum number of cases listed; 0 for all.
        details: Maximum number of cases shown side by side; only cases that lost score are.
        quiet: Print only the totals.
        full: List all cases, and show every result side by side and in full, those that passed too.
        console: Where to print; standard output by default.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.terminal import print_report
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> print_report(evaluate([case], [ToolCorrectnessMetric()]), title="Weather agent", quiet=True)
        ... # doctest: +ELLIPSIS
        Weather agent: 1 case
         Failed: 1 of 1 case failed.
         Most often wrong: 'get_weather' in 1 of 1 failed case (1 missing).
         date ...
        <BLANKLINE>
         FAILED: 0 passed, 1 failed, 0 not measured, 0 agent errors
         metric                                   mean  passed  failed  skipped  errors
         tool_correctness (threshold=0.5)            0       0       1        0       0
        <BLANKLINE>
         mean 0, pass rate 0 (0.00 to 0.79)
         In parentheses: 95 % intervals.
    """
    screen = Screen(console)
    quiet = quiet or bool(report.totals)
    report = replace(report, about=redact(report.about))
    view = overview(report, earlier, by, DEFAULT)
    interrupted = " (interrupted)" if report.interrupted else ""
    heading = f"{printable(title_of(report, title))}: {phrases.cases_text(report)}{interrupted}"
    screen.line(heading, "bold")
    screen.lines(view.sentences)
    screen.lines(filter(None, [facts_line(view.facts)]), "dim")
    screen.blank()
    if not quiet:
        entries = sorted(report.results(), key=worst_first)
        _print_broken(screen, report, 0 if full else limit)
        _print_lists(screen, report.metrics, entries, 0 if full else limit)
        _print_details(screen, entries if full else _worst_per_case(entries)[:details], full=full)
        print_tools(screen, report)
        screen.blank()
    _print_summary(screen, report, quiet=quiet, limit=0 if full else limit)
    for field, parts in view.slices:
        print_slices(screen, field, parts)
    print_trend(screen, view.trend)
    if view.comparison is not None:
        screen.blank()
        print_comparison(view.comparison, limit=0 if full else limit, console=console)


def print_result(result: MetricResult, case: AnyCase, console: Console | None = None) -> None:
    """Print one result: its reason, and expected and called calls side by side.

    Secrets are redacted with the default rules.

    Args:
        result: The result.
        case: The case it was measured on.
        console: Where to print; standard output by default.
    """
    entry, result = redact_entry((CaseResult(0, case, ()), result))
    _print_result(Screen(console), result, case, entry.case.id or entry.case.name or "case")


def result_text(result: MetricResult, case: AnyCase, label: str) -> str:
    """Return a redacted result as `print_result` prints it, at 80 columns and without colours."""
    file = StringIO()
    console = Console(  # without colours, also where FORCE_COLOR is set
        file=file, width=80, force_terminal=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    _print_result(Screen(console), result, case, label)
    return file.getvalue().rstrip("\n")


def _print_result(screen: Screen, result: MetricResult, case: AnyCase, label: str) -> None:
    _print_entry(screen, label, (CaseResult(0, case, ()), result))
    screen.lines(f"note: {one_line(text, _REASON)}" for text in result.warnings)


def _worst_per_case(entries: Sequence[Entry]) -> list[Entry]:
    """Return the worst result of each case that lost score, in their order."""
    worst: dict[int, Entry] = {}
    for case, result in entries:
        if result.score not in (None, 1) and result.findings:
            worst.setdefault(case.index, (case, result))
    return list(worst.values())


def _print_broken(screen: Screen, report: Report, limit: int) -> None:
    """Print the cases that no metric measured because their runs broke."""
    broken = [redact(case) for case in report.cases if case.wrong_end is not None and not case.own_results]
    listed = broken[: limit or None]
    for case in listed:
        text = WORD_TEXTS[case.outcome].upper()
        screen.print(Text.assemble((text, WORD_STYLES[case.outcome]), "  ", one_line(case.label, _LABEL)), indent=1)
        screen.line(case_problem(case), indent=3)
    screen.more(len(broken) - len(listed), "(--limit 0 lists all)")


def _print_lists(screen: Screen, metrics: Sequence[str], entries: Sequence[Entry], limit: int) -> None:
    """Print the cases of each metric, below its name if there are several."""
    for metric in metrics:
        if len(metrics) > 1:
            screen.line(f"\n{printable(metric)}", "bold")
        _print_cases(screen, [entry for entry in entries if entry[1].metric == metric], limit)


def _print_cases(screen: Screen, entries: Sequence[Entry], limit: int) -> None:
    """Print a line for each result of one metric."""
    table = make_table("score", "", first="case", last="first problem")
    listed = entries[: limit or None]
    reason = _common_reason(entries)
    if reason:
        case, _ = redact_entry(entries[0])
        screen.line(f"{plural(len(entries), 'case')} without a score, such as {one_line(case.label, _LABEL)}: {reason}")
        return
    for entry in map(redact_entry, listed):
        case, result = entry
        label, score, problem = one_line(case.label, _LABEL), number_or_dash(result.score), entry_problem(case, result)
        table.add_row(Name(label), score, _word(entry), Text(problem))
    screen.print(table)
    screen.more(len(entries) - len(listed), "(--limit 0 lists all)")


def _common_reason(entries: Sequence[Entry]) -> str:
    """Return why several cases have no score, if all of them have none for one reason, apart from their names."""
    if len(entries) <= 1 or any(result.score is not None or case.wrong_end is not None for case, result in entries):
        return ""
    reasons = {outcome_reason([result], None).replace(repr(case.name), "") for case, result in entries}
    if len(reasons - {""}) > 1:  # outlines have none
        return ""
    return one_line(redact(outcome_reason([entries[0][1]], None)))


def _word(entry: Entry) -> Text:
    word = entry_word(entry)
    text = WORD_TEXTS[word]
    return Text(text if word in {"passed", "skipped"} else text.upper(), style=WORD_STYLES[word], justify="left")


def _print_details(screen: Screen, entries: Sequence[Entry], *, full: bool) -> None:
    for case, result in map(redact_entry, entries):
        screen.blank()
        _print_entry(screen, case.label, (case, result), full=full)
    if any(result.alignment is not None for _, result in entries):
        screen.blank()
        screen.lines(_KEYS, "dim")


def _print_entry(screen: Screen, label: str, entry: Entry, *, full: bool = False) -> None:
    """Print a redacted result: its outcome, its reason, and both sides, or its findings if it has no alignment."""
    case, result = entry
    name = (one_line(label, _LABEL), "bold")
    screen.print(Text.assemble(name, "  ", printable(result.metric), "  ", _word(entry)))
    reason = result.reason or phrases.score_text(result)
    screen.line(one_line(reason.split("\n", 1)[0], _REASON), indent=1)
    most_turns, most_rows, most_findings = (None, None, None) if full else (_TURNS, _ROWS, _FINDINGS)
    lines = rows(result, case.case)
    turns = turns_of(result, case.case, lines)
    if turns:
        for turn in turns[:most_turns]:
            _print_turn(screen, turn)
        screen.more(len(turns[most_turns:]) if most_turns else 0, "turns (the HTML report has all)")
        return
    listed = lines[:most_rows]
    if listed:
        screen.print(_call_table(listed), indent=1)
    screen.more(len(lines) - len(listed), "lines (all calls are in the JSON report)")
    if result.alignment is None:
        problems = [finding for finding in result.findings if full or finding.kind not in NOTHING_WRONG]
        findings = problems[:most_findings]
        screen.lines(one_line(finding.message) for finding in findings)
        screen.more(len(problems) - len(findings), "(all of them are in the JSON report)")


def _print_turn(screen: Screen, turn: TurnView) -> None:
    """Print what the user said, the score of the turn with its calls and findings, and what the agent said."""
    name = "in any turn" if turn.number is None else f"turn {turn.number}"
    verdict = Text("" if turn.number is None else "not scored", style="dim")
    if turn.word is not None:
        text = WORD_TEXTS[turn.word]
        text = text if turn.word == "passed" else text.upper()
        verdict = Text(f"{text} {number_or_dash(turn.score)}", style=WORD_STYLES[turn.word])
    screen.print(Text.assemble((name, "bold"), "  ", verdict), indent=1)
    if turn.question:
        screen.line(f"user: {one_line(redact(turn.question), _TEXT)}", indent=3)
    if turn.rows:
        screen.print(_call_table(turn.rows), indent=3)
    elif turn.called:
        screen.line(f"called: {one_line(join_first(turn.called, _NAMED), _TEXT)}", indent=3)
    screen.lines((one_line(text) for text in turn.findings), indent=3)
    if turn.answer:
        screen.line(f"agent: {one_line(redact(turn.answer), _TEXT)}", indent=3)


def _call_table(lines: Sequence[CallRow]) -> Table:
    digits = max(max(len(row.expected_at), len(row.called_at)) for row in lines)
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim", expand=True)
    table.add_column("", no_wrap=True, width=1)
    for side in ("expected", "called"):
        table.add_column("", no_wrap=True, width=digits + 1, justify="right")
        table.add_column(side, overflow="fold", ratio=1)
    for row in lines:
        mark, style = _MARKS[row.mark]
        cells = (mark, row.expected_at, row.expected, row.called_at, row.called)
        table.add_row(*(Text(cell, style) for cell in cells))
    return table


def _print_summary(screen: Screen, report: Report, *, quiet: bool, limit: int) -> None:
    """Print the totals over all results or by agent, why cases could not be measured, trials, and warnings."""
    summaries = report.summaries
    verdict = report.verdict
    screen.line(f"{'PASSED' if verdict.passed else 'FAILED'}: {verdict.counts_text}", _STYLES[verdict.passed], indent=1)
    if report.interrupted:
        screen.line(phrases.INTERRUPTED, "bold red", indent=1)
    if report.totals:
        screen.line(phrases.TOTALS_ONLY, indent=1)
    agents = agent_table(report)
    if agents is None:
        _print_totals(screen, summaries)
    else:
        print_agents(screen, agents, quiet=quiet, limit=limit)
    for one in summaries:
        if one.error is not None:
            screen.line(f"{plural(one.errored, 'error')} of {printable(one.metric)}{one.why}", indent=1)
    screen.lines(phrases.hints(report), "yellow")
    _print_estimates(screen, summaries, judging_only=agents is not None)
    screen.lines(filter(None, [phrases.users_text(report)]))
    _print_trials(screen, report.trial_summaries)
    screen.lines(map(redact, phrases.agreement_lines(report)))
    _print_warnings(screen, report)


def _print_totals(screen: Screen, summaries: Sequence[MetricSummary]) -> None:
    """Print the mean and the counts of each metric."""
    table = make_table("mean", "passed", "failed", "skipped", "errors", first="metric")
    for one in summaries:
        title = f"{printable(one.metric)} (threshold={one.threshold:g})"
        mean, failed, errored = number_or_dash(one.mean), alarm(one.failed), alarm(one.errored)
        table.add_row(Name(title), mean, f"{one.passed:,}", failed, f"{one.skipped:,}", errored)
    screen.print(table)


def _print_estimates(screen: Screen, summaries: Sequence[MetricSummary], *, judging_only: bool) -> None:
    """Print intervals and the cost of judging, for the metrics that have them."""
    estimates = ["" if judging_only else phrases.estimates_text(summary) for summary in summaries]
    judging = list(map(phrases.judging_text, summaries))
    if any((*estimates, *judging)):
        screen.blank()
    for summary, *texts in zip(summaries, estimates, judging, strict=True):
        _print_block(screen, summary.metric if len(summaries) > 1 else "", texts)
    if any(estimates):
        screen.line(phrases.INTERVALS, "dim", indent=1)


def _print_block(screen: Screen, metric: str, texts: Sequence[str]) -> None:
    """Print texts below the name of their metric; the name is empty if there is only one metric."""
    if any(texts):
        screen.line(printable(metric), indent=1)
    screen.lines(texts, indent=3 if metric else 1)


def _print_trials(screen: Screen, summaries: Sequence[TrialSummary]) -> None:
    """Print the chances that one or all of k trials pass, and the flaky goldens."""
    for trials in summaries:
        screen.blank()
        amount = f"{plural(trials.trials, 'trial')} of each of {plural(trials.goldens, 'golden')}"
        _print_block(screen, trials.metric if len(summaries) > 1 else "", [amount])
        table = make_table("k", "pass@k", "pass^k", "goldens")
        for row in phrases.pass_at_k_rows(trials):
            table.add_row(*row)
        screen.print(table)
        if trials.flaky:
            names = join_first([redact(phrases.flaky_text(one)) for one in trials.flaky], _MAX_FLAKY, count_rest=True)
            screen.line(f"{len(trials.flaky)} flaky: {names}", "yellow", indent=1)
    if summaries:
        screen.line(phrases.PASS_AT_K_LEGEND, "dim", indent=1)
        screen.blank()


def _print_warnings(screen: Screen, report: Report) -> None:
    kinds = warning_kinds(report)
    if not kinds:
        return
    amount = sum(bool(result.warnings) for _, result in entries_of(report))
    heading = f"{plural(amount, 'result')} with warnings (incomplete recordings or parts not judged):"
    screen.line(heading, indent=1)
    for kind in kinds[:_WARNINGS]:
        label = one_line(redact(kind.cases[0].label), FIRST_COLUMN)
        others = "more" if kind.texts == 1 else "similar"
        more = f" and {len(kind.cases) - 1:,} {others}" if len(kind.cases) > 1 else ""
        screen.line(f"- {one_line(redact(kind.text))} ({label}{more})", indent=2)
    screen.more(len(kinds) - _WARNINGS, "kinds (the HTML and JSON reports have all)", indent=2)
