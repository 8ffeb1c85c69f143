"""Validity in a terminal: one line per metric, and a key to its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolgrade._internal.text import difference_text, hundredths_text, plural, printable
from toolgrade.report.terminal.console import Name, Screen, interval_cell, make_table
from toolgrade.report.text.phrases import ends_text, number_or_dash, one_line
from toolgrade.report.validity import MetricValidity, MisrankedCase, Validity

_CHANCE = 0.5
_FEW = 10
_PAIRS = 15
_REASONS = 2
_REASON = 200


def print_validity(validity: Validity, *, title: str, console: Console | None = None) -> None:
    """Print how well metrics separate good runs from bad ones.

    Args:
        validity: The figures.
        title: A heading, such as a file name.
        console: Where to print; standard output by default.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> from toolgrade.report.terminal import print_validity
        >>> weather = ToolCall(name="get_weather")
        >>> good = LLMTestCase(tools_called=[weather], expected_tools=[weather], metadata={"ok": True})
        >>> bad = LLMTestCase(tools_called=[], expected_tools=[weather], metadata={"ok": False})
        >>> validity = validate([good, bad], [ToolCorrectnessMetric()], label="metadata.ok", min_runs=2, resamples=100)
        >>> print_validity(validity, title="weather")
        weather: 2 cases; by metadata.ok 1 good (from 1), 1 bad
         metric                       scored   AUC  95 % interval  balanced  good   bad
         tool_correctness                  2  1.00   1.00 to 1.00      1.00  1.00  0.00
         (threshold=0.5)
        ...
    """
    screen = Screen(console)
    runs = f"{validity.good} good (from {validity.positive_from:g}), {validity.bad} bad"
    screen.line(f"{printable(title)}: {plural(validity.cases, 'case')}; by {printable(validity.label)} {runs}", "bold")
    screen.print(_table(validity))
    screen.blank()
    if validity.differences:
        screen.print(_pair_table(validity))
        screen.more(len(validity.differences) - _PAIRS, "pairs (all are in the JSON)")
        screen.blank()
    clusters = max((metric.interval.clusters for metric in validity.metrics if metric.interval), default=0)
    screen.lines(_column_key(validity, clusters), "dim")
    screen.lines(_caveats(validity, clusters))


def _table(validity: Validity) -> Table:
    means = {"within": "auc_within", "balanced": "balanced_accuracy", "good": "mean_good", "bad": "mean_bad"}
    if validity.cluster is None:
        del means["within"]
    table = make_table("scored", "AUC", f"{validity.confidence * 100:g} % interval", *means, first="metric")
    for metric in validity.metrics:
        table.add_row(
            Name(f"{printable(metric.metric)} (threshold={metric.threshold:g})"),
            Text(str(metric.scored), style="yellow" if metric.failed or metric.skipped else ""),
            number_or_dash(metric.auc, hundredths_text),
            interval_cell(ends_text(metric.interval, hundredths_text), metric.interval, neutral=_CHANCE),
            *(number_or_dash(getattr(metric, name), hundredths_text) for name in means.values()),
        )
    return table


def _pair_table(validity: Validity) -> Table:
    table = make_table("cases", "difference", f"{validity.confidence * 100:g} % interval", first="AUC of one minus AUC")
    for pair in validity.differences[:_PAIRS]:
        table.add_row(
            Name(f"{printable(pair.metric)} minus {printable(pair.other)}"),
            str(pair.cases),
            number_or_dash(pair.difference, difference_text),
            interval_cell(ends_text(pair.interval, difference_text), pair.interval, neutral=0),
        )
    return table


def _column_key(validity: Validity, clusters: int) -> Iterator[str]:
    yield "AUC: how often a good run scores higher than a bad one, ties counting half: 0.5 is chance, 1 is always."
    if validity.cluster is None:
        unit = "single cases; name a cluster if some belong together, such as runs of one task, or it is too narrow"
    else:
        unit = f"whole clusters ({clusters}), by {printable(validity.cluster)}"
    yield f"interval: of {validity.resamples} resamples of {unit}."
    if validity.cluster is not None:
        yield "within: AUC over pairs of runs of one cluster only, which knowing the easy clusters does not raise."
    if validity.differences:
        yield "difference: on the cases that both score; an interval that includes 0 does not separate the two."
    yield "balanced: mean of the share of good runs that pass and of bad runs that fail. good, bad: mean scores."


def _caveats(validity: Validity, clusters: int) -> Iterator[str]:
    if len({metric.unscored for metric in validity.metrics}) > 1:
        yield "The metrics did not score the same cases; only the differences compare them on the same ones."
    if 0 < clusters < _FEW:
        yield f"{plural(clusters, 'cluster')}: with so few, the interval is a rough guess."
    if validity.hardest_good is not None:
        yield _hardest_line(validity.hardest_good, "good run that every metric ranks too low", "bad runs score higher")
    if validity.hardest_bad is not None:
        yield _hardest_line(validity.hardest_bad, "bad run that every metric ranks too high", "good runs score lower")
    for metric in validity.metrics:
        yield from _named(metric, _metric_caveats(metric, validity.resamples))
    for metric in validity.dropped:
        yield from _named(metric, [validity.dropped_text(metric), *_unscored_texts(metric)])
    warned = max((metric.warned for metric in validity.metrics), default=0)
    if warned:
        yield f"Up to {plural(warned, 'result')} of a metric have warnings; `toolgrade score` shows them."
    yield from map(printable, validity.notes)


def _hardest_line(case: MisrankedCase, title: str, wrong: str) -> str:
    """Return one such case with its scores; ties count one half."""
    scores = ", ".join(map(hundredths_text, case.scores))
    share = f"{case.misranked * 100:.3g} %"
    return f"{title}: {one_line(case.case)} (scores {scores}; at least {share} of the {wrong}, ties counting half)"


def _named(metric: MetricValidity, texts: Iterable[str]) -> Iterator[str]:
    return (f"{printable(metric.metric)}: {text}" for text in texts)


def _metric_caveats(metric: MetricValidity, resamples: int) -> list[str]:
    """Return the caveats of a metric that has a row."""
    texts = _unscored_texts(metric)
    interval = metric.interval
    if interval is not None and interval.left_out:
        left_out = f"{interval.left_out} of {resamples} resamples were left out"
        texts.append(f"{left_out}, since all their runs are good or all are bad")
    elif interval is None and metric.auc is not None:
        texts.append("no interval, since all scored runs are one cluster, or no resample had both kinds")
    elif metric.auc is None and metric.scored:
        texts.append(f"no AUC, since all scored runs are {'good' if metric.good else 'bad'}")
    return texts


def _unscored_texts(metric: MetricValidity) -> list[str]:
    """Return why cases have no score."""
    texts: list[str] = []
    for reason, cases in metric.unscored[:_REASONS]:
        texts.append(f"{plural(cases, 'case')} without a score: {one_line(reason, _REASON)}")
    more = sum(cases for _, cases in metric.unscored[_REASONS:])
    if more:
        texts.append(f"{more} more without a score (all reasons are in the JSON)")
    return texts
