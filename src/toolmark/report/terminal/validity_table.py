"""Validity in a terminal: one line per metric, and what its columns mean."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import hundredths_text, plural, printable, shorten
from toolmark.report.terminal.console import make_console, print_trimmed
from toolmark.report.validity import MetricValidity, Validity

_COIN = 0.5
_FEW = 10
_REASONS = 2
_LONGEST = 200


def print_validity(validity: Validity, *, title: str, console: Console | None = None) -> None:
    """Print how well metrics tell good runs from bad ones.

    Args:
        validity: What to print.
        title: What was measured, such as a file name.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    heading = (
        f"{printable(title)}: {plural(validity.cases, 'case')}; by {printable(validity.label)} {validity.good} good "
        f"(from {validity.positive_from:g}), {validity.bad} bad"
    )
    print_trimmed(console, Text(heading, style="bold"))
    print_trimmed(console, _table(validity))
    console.print()
    for line in _explained(validity):
        print_trimmed(console, Padding(Text(line, style="dim"), (0, 0, 0, 1)))
    for line in _left_out(validity):
        print_trimmed(console, Padding(Text(line), (0, 0, 0, 1)))


def _table(validity: Validity) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("metric", overflow="fold", ratio=1)
    for name in ("scored", "AUC", f"{validity.confidence * 100:g} % interval", "balanced", "good", "bad"):
        table.add_column(name, justify="right", no_wrap=True)
    for metric in validity.metrics:
        scored = Text(str(metric.scored), style="" if not metric.failed and not metric.skipped else "yellow")
        numbers = (metric.balanced_accuracy, metric.mean_good, metric.mean_bad)
        title = Text(f"{printable(metric.metric)} (threshold={metric.threshold:g})")
        table.add_row(title, scored, _short(metric.auc), _within(metric), *map(_short, numbers))
    return table


def _within(metric: MetricValidity) -> Text:
    """Return the interval; one that holds what a coin reaches is no proof of anything, and dim."""
    interval = metric.interval
    if interval is None:
        return Text("-")
    holds_a_coin = interval.low <= _COIN <= interval.high
    return Text(
        f"{hundredths_text(interval.low)} - {hundredths_text(interval.high)}", style="dim" if holds_a_coin else ""
    )


def _short(value: float | None) -> Text:
    return Text("-" if value is None else hundredths_text(value))


def _explained(validity: Validity) -> Iterator[str]:
    yield "AUC: how often a good run scores higher than a bad one, ties counting half: 0.5 is a coin, 1 is always."
    if validity.cluster is None:
        kept = "single cases; if some belong together, such as runs of one task, say so, or it is too narrow"
    else:
        kept = f"whole clusters ({_clusters(validity)}), by {printable(validity.cluster)}"
    yield f"interval: of {validity.resamples} resamples of {kept}."
    yield "balanced: mean of the share of good runs that pass and of bad runs that fail. good, bad: mean scores."


def _clusters(validity: Validity) -> int:
    return max((metric.interval.clusters for metric in validity.metrics if metric.interval is not None), default=0)


def _left_out(validity: Validity) -> Iterator[str]:
    if len({metric.unscored for metric in validity.metrics}) > 1:
        yield "Metrics that did not score the same cases are not to be compared with each other."
    if 0 < _clusters(validity) < _FEW:
        yield f"{plural(_clusters(validity), 'cluster')}: with so few, the interval is a rough guess."
    for metric in validity.metrics:
        name = printable(metric.metric)
        for reason, cases in metric.unscored[:_REASONS]:
            yield f"{name}: {plural(cases, 'case')} without a score: {shorten(printable(reason), _LONGEST)}"
        if len(metric.unscored) > _REASONS:
            more = sum(cases for _, cases in metric.unscored[_REASONS:])
            yield f"{name}: {more} more without a score (all reasons are in the JSON)"
        if metric.interval is not None and metric.interval.left_out:
            share = f"{metric.interval.left_out} of {validity.resamples} resamples"
            yield f"{name}: {share} were left out, since all their runs are good or all are bad"
        if metric.auc is None and metric.scored:
            yield f"{name}: no AUC, since all scored runs are {'good' if metric.good else 'bad'}"
        elif metric.auc is not None and metric.interval is None:
            yield f"{name}: no interval, since all scored runs are one cluster, or no resample had both kinds"
    warned = max((metric.warned for metric in validity.metrics), default=0)
    if warned:
        yield f"Up to {plural(warned, 'result')} of a metric have warnings; `toolmark score` shows them."
    for note in validity.notes:
        yield printable(note)
