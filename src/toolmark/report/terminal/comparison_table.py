"""A comparison in a terminal: one line per metric, the cases that changed, and a key to the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import hundredths_text, number_text, plural, printable
from toolmark.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolmark.report.terminal.console import make_console, print_line, print_trimmed
from toolmark.report.text.phrases import one_line
from toolmark.result import ResultStatus

_LABEL = 24
_FEW = 10
_NAMED = 3
_TEXT = 200
_LEAST_P = 0.001


def print_comparison(
    comparison: Comparison, *, title_a: str, title_b: str, limit: int = 20, console: Console | None = None
) -> None:
    """Print how two evaluations differ.

    Args:
        comparison: The comparison.
        title_a: A heading for the earlier evaluation, such as a file name.
        title_b: A heading for the later one.
        limit: Maximum number of regressions, and of improvements, listed for each metric; 0 for all.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    for name, title, cases in (("A", title_a, comparison.cases_a), ("B", title_b, comparison.cases_b)):
        print_line(console, f"{name}  {printable(title)}: {plural(cases, 'case')}", "bold")
    print_line(console, f"{plural(comparison.in_both, 'case')} in both")
    print_trimmed(console, _table(comparison))
    for metric in comparison.metrics:
        name = f"{printable(metric.metric)}: " if len(comparison.metrics) > 1 else ""
        worse, better = len(metric.regressions), len(metric.improvements)
        if worse:
            print_line(console, f"\n{name}{plural(worse, 'case')} passed in A, failed in B", "bold red")
            _print_changes(console, metric.regressions, "first finding in B", limit)
        if better:
            print_line(console, f"\n{name}{plural(better, 'case')} failed in A, passed in B", "bold green")
            _print_changes(console, metric.improvements, "first finding in A", limit)
    console.print()
    for line in _column_key(comparison):
        print_line(console, line, "dim", indent=1)
    for line in (*_caveats(comparison), *map(printable, comparison.notes)):
        print_line(console, line, indent=1)


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 1), show_edge=False, header_style="bold", expand=True)
    table.add_column("metric", overflow="fold", ratio=1)
    interval = f"{comparison.confidence * 100:g} % interval"
    for name in ("pairs", "A", "B", "B - A", interval, "worse", "better", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for metric in comparison.metrics:
        title = printable(metric.metric)
        if metric.metric_b != metric.metric:
            title = f"{title} -> {printable(metric.metric_b)}"
        worse, better = len(metric.regressions), len(metric.improvements)
        table.add_row(
            Text(title),
            Text(str(metric.paired), style="yellow" if metric.unscored else ""),
            _short(metric.mean_a),
            _short(metric.mean_b),
            "-" if metric.difference is None else _signed(metric.difference),
            _interval(metric),
            Text(str(worse), style="bold red" if worse else ""),
            Text(str(better), style="green" if better else ""),
            _p_value(metric.corrected),
        )
    return table


def _interval(metric: MetricComparison) -> Text:
    """Return the interval, dim if it includes 0 and so shows no difference."""
    interval = metric.interval
    if interval is None:
        return Text("-")
    text = f"{_signed(interval.low)} to {_signed(interval.high)}"
    return Text(text, style="dim" if interval.low <= 0 <= interval.high else "")


def _short(value: float | None) -> str:
    return "-" if value is None else hundredths_text(value)


def _signed(value: float) -> str:
    return "0.00" if value == 0 else f"{'-' if value < 0 else '+'}{hundredths_text(abs(value))}"


def _p_value(value: float | None) -> str:
    if value is None:
        return "-"
    return f"<{_LEAST_P:g}" if value < _LEAST_P else f"{value:.3f}"


def _print_changes(console: Console, changes: Sequence[CaseChange], finding_title: str, limit: int) -> None:
    """Print the cases that changed one way, with both scores and the first finding."""
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("case", no_wrap=True, overflow="ellipsis", max_width=_LABEL)
    for side in ("A", "B"):
        table.add_column(side, justify="right", no_wrap=True)
    table.add_column(finding_title, overflow="fold", ratio=1)
    listed = changes[: limit or None]
    for change in listed:
        label, finding = Text(one_line(change.label, _LABEL)), Text(one_line(change.finding or "", _TEXT))
        table.add_row(label, number_text(change.score_a), number_text(change.score_b), finding)
    print_trimmed(console, table)
    if len(listed) < len(changes):
        print_line(console, f" ... and {len(changes) - len(listed)} more (--limit 0 lists all)", "dim")


def _column_key(comparison: Comparison) -> Iterator[str]:
    unit, test = "single cases", "McNemar's exact test"
    if comparison.repeated:
        unit, test = "ids, each with all its cases", "exact sign-flip test, over ids,"
    yield f"A, B: mean scores of the pairs. interval: of B - A, by {comparison.resamples} resamples of {unit}."
    tests = sum(metric.p_value is not None for metric in comparison.metrics)
    holm = f", corrected for {tests} metrics (Holm)" if tests > 1 else ""
    yield f"p: {test} of worse against better, two-sided{holm}."


def _caveats(comparison: Comparison) -> Iterator[str]:
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            yield f"{plural(len(only), 'case')} ({_few(only)}) {_are(only)} only in {side}, and not compared"
    for side, metrics in (("A", comparison.metrics_only_a), ("B", comparison.metrics_only_b)):
        if metrics:
            yield f"{', '.join(map(printable, metrics))} {_are(metrics)} only in {side}, and not compared"
    for metric in comparison.metrics:
        for text in _metric_caveats(metric):
            yield f"{printable(metric.metric)}: {text}"


def _metric_caveats(metric: MetricComparison) -> Iterator[str]:
    for what, gaps in _group_gaps(metric.unscored).items():
        reason = f": {one_line(gaps[0].reason, _TEXT)}" if gaps[0].reason else ""
        yield f"{plural(len(gaps), 'case')} {what} ({_few([gap.label for gap in gaps])}){reason}"
    if not metric.paired:
        yield "no case has a score in both"
    elif metric.interval is None:
        yield "no interval, since all pairs are of one id"
    elif metric.interval.low == metric.interval.high:
        yield "all pairs differ by the same amount, which tells nothing about cases that were not run"
    elif metric.interval.clusters < _FEW:
        yield f"{metric.interval.clusters} ids: with so few, the interval is a rough guess"
    if metric.warned_a or metric.warned_b:
        warned = f"{metric.warned_a} results of A and {metric.warned_b} of B"
        yield f"{warned} have warnings; `toolmark score` shows them."


def _group_gaps(gaps: Sequence[CaseGap]) -> dict[str, list[CaseGap]]:
    """Return cases without a score by their outcomes, those that B lost first."""
    groups: dict[str, list[CaseGap]] = {}
    for gap in sorted(gaps, key=lambda gap: not gap.lost):
        before, after = _outcome(gap.passed_a, gap.status_a), _outcome(gap.passed_b, gap.status_b)
        groups.setdefault(f"{before} in A, {after} in B", []).append(gap)
    return groups


def _outcome(passed: bool | None, status: ResultStatus) -> str:
    if passed is not None:
        return "passed" if passed else "failed"
    return "not measured" if status is ResultStatus.FAILED else status.value


def _are(things: Sequence[str]) -> str:
    return "is" if len(things) == 1 else "are"


def _few(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMED else ""
    return f"{', '.join(one_line(name, 2 * _LABEL) for name in names[:_NAMED])}{more}"
