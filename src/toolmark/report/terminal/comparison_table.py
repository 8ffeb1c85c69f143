"""A comparison in a terminal: one line per metric, the cases that changed, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import hundredths_text, number_text, plural, printable, shorten
from toolmark.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolmark.report.terminal.console import make_console, print_trimmed

_LABEL = 24
_FEW = 10
_NAMED = 3
_LONGEST = 200


def print_comparison(
    comparison: Comparison, *, title_a: str, title_b: str, limit: int = 20, console: Console | None = None
) -> None:
    """Print how two evaluations differ.

    Args:
        comparison: What to print.
        title_a: What was before, such as a file name.
        title_b: What came after.
        limit: Regressions, and improvements, listed at most for each metric; 0 for all.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    for name, title, cases in (("A", title_a, comparison.cases_a), ("B", title_b, comparison.cases_b)):
        print_trimmed(console, Text(f"{name}  {printable(title)}: {plural(cases, 'case')}", style="bold"))
    print_trimmed(console, Text(f"{plural(comparison.in_both, 'case')} in both"))
    print_trimmed(console, _table(comparison))
    for metric in comparison.metrics:
        several = len(comparison.metrics) > 1
        _print_changes(console, metric, metric.regressions, worse=True, several=several, limit=limit)
        _print_changes(console, metric, metric.improvements, worse=False, several=several, limit=limit)
    console.print()
    for line in _explained(comparison):
        print_trimmed(console, Padding(Text(line, style="dim"), (0, 0, 0, 1)))
    for line in (*_left_out(comparison), *map(printable, comparison.notes)):
        print_trimmed(console, Padding(Text(line), (0, 0, 0, 1)))


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
            Text("-" if metric.difference is None else _signed(metric.difference)),
            _within(metric),
            Text(str(worse), style="bold red" if worse else ""),
            Text(str(better), style="green" if better else ""),
            Text("-" if metric.corrected is None else _p(metric.corrected)),
        )
    return table


def _within(metric: MetricComparison) -> Text:
    """Return the interval; one that holds 0 is no proof of a difference, and dim."""
    interval = metric.interval
    if interval is None:
        return Text("-")
    holds_none = interval.low <= 0 <= interval.high
    return Text(f"{_signed(interval.low)} to {_signed(interval.high)}", style="dim" if holds_none else "")


def _short(value: float | None) -> Text:
    return Text("-" if value is None else hundredths_text(value))


def _signed(value: float) -> str:
    return "0.00" if value == 0 else f"{'-' if value < 0 else '+'}{hundredths_text(abs(value))}"


def _p(value: float) -> str:
    least = 0.001
    return f"<{least:g}" if value < least else f"{value:.3f}"


def _print_changes(
    console: Console,
    metric: MetricComparison,
    changes: Sequence[CaseChange],
    *,
    worse: bool,
    several: bool,
    limit: int,
) -> None:
    """Print the cases that changed one way, with both scores and what was found first where it failed."""
    if not changes:
        return
    name = f"{printable(metric.metric)}: " if several else ""
    what = "passed in A, failed in B" if worse else "failed in A, passed in B"
    print_trimmed(
        console, Text(f"\n{name}{plural(len(changes), 'case')} {what}", style="bold red" if worse else "bold green")
    )
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("case", no_wrap=True, overflow="ellipsis", max_width=_LABEL)
    for side in ("A", "B"):
        table.add_column(side, justify="right", no_wrap=True)
    table.add_column(f"first finding in {'B' if worse else 'A'}", overflow="fold", ratio=1)
    listed = changes[: limit or None]
    for change in listed:
        finding = shorten(printable(change.finding or ""), _LONGEST)
        scores = (Text(number_text(change.score_a)), Text(number_text(change.score_b)))
        table.add_row(Text(shorten(printable(change.label), _LABEL)), *scores, Text(finding))
    print_trimmed(console, table)
    if len(listed) < len(changes):
        more = len(changes) - len(listed)
        print_trimmed(console, Text(f" ... and {more} more (--limit 0 lists all)", style="dim"))


def _explained(comparison: Comparison) -> Iterator[str]:
    kept = "ids, each with all its cases" if comparison.repeated else "single cases"
    yield f"A, B: mean scores of the pairs. interval: of B - A, by {comparison.resamples} resamples of {kept}."
    test = "exact test by flipped signs, over ids," if comparison.repeated else "McNemar's exact test"
    tests = sum(metric.p_value is not None for metric in comparison.metrics)
    holm = f", corrected for {tests} metrics (Holm)" if tests > 1 else ""
    yield f"p: {test} of worse against better, two-sided{holm}."


def _left_out(comparison: Comparison) -> Iterator[str]:
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            verb = "is" if len(only) == 1 else "are"
            yield f"{plural(len(only), 'case')} ({_few(only)}) {verb} only in {side}, and not compared"
    for side, metrics in (("A", comparison.metrics_only_a), ("B", comparison.metrics_only_b)):
        if metrics:
            verb = "is" if len(metrics) == 1 else "are"
            yield f"{', '.join(map(printable, metrics))} {verb} only in {side}, and not compared"
    for metric in comparison.metrics:
        name = printable(metric.metric)
        for what, gaps in _grouped(metric.unscored):
            reason = shorten(printable(gaps[0].reason or ""), _LONGEST)
            told = f": {reason}" if reason else ""
            yield f"{name}: {plural(len(gaps), 'case')} {what} ({_few([gap.label for gap in gaps])}){told}"
        if not metric.paired:
            yield f"{name}: no case has a score in both"
        elif metric.interval is None:
            yield f"{name}: no interval, since all pairs are of one id"
        elif metric.interval.low == metric.interval.high:
            yield f"{name}: all pairs differ by the same; that says nothing of cases that were not run"
        elif metric.interval.clusters < _FEW:
            yield f"{name}: {metric.interval.clusters} ids: with so few, the interval is a rough guess"
        if metric.warned_a or metric.warned_b:
            warned = f"{metric.warned_a} results of A and {metric.warned_b} of B"
            yield f"{name}: {warned} have warnings; `toolmark score` shows them."


def _grouped(gaps: Sequence[CaseGap]) -> list[tuple[str, list[CaseGap]]]:
    """Return cases without a score by what became of them, those that B lost first."""
    grouped: dict[str, list[CaseGap]] = {}
    for gap in sorted(gaps, key=lambda gap: not gap.lost):
        before = {True: "passed", False: "failed", None: _unscored(gap.status_a.value)}[gap.passed_a]
        after = {True: "passed", False: "failed", None: _unscored(gap.status_b.value)}[gap.passed_b]
        grouped.setdefault(f"{before} in A, {after} in B", []).append(gap)
    return list(grouped.items())


def _unscored(status: str) -> str:
    """Return a status in a word that nobody takes for a case below the threshold."""
    return "not measured" if status == "failed" else status


def _few(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMED else ""
    return f"{', '.join(shorten(printable(name), 2 * _LABEL) for name in names[:_NAMED])}{more}"
