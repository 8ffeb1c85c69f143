"""Rows and columns of the report of an evaluation.

A row is a case that was measured, and a column is a metric. If the components of an app are scored beside its answers,
each component has columns of its own, named `component: metric`. Where a column does not apply to a row, the result is
skipped; if the app failed before it reached a component, the row of the golden has a failed result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolmark._internal.text import unique_labels
from toolmark.cases import AnyCase, RunStatus
from toolmark.report import CaseResult
from toolmark.result import MetricResult, ResultStatus


@dataclass(frozen=True, eq=False)
class Row:
    """A case that was measured, with a result for each metric that applies to it.

    `place` is the position of the case or golden in the evaluation, from 0, and `trial` counts from 1. `component` is
    the name of a component, `None` for a whole answer; `source` tells components of equal names apart.
    """

    case: AnyCase
    place: int
    trial: int | None = None
    component: str | None = None
    source: str = ""
    results: tuple[MetricResult, ...] = ()

    @property
    def unit(self) -> tuple[int, int]:
        """Place and trial, by which rows are sorted."""
        return self.place, self.trial or 0

    @property
    def error(self) -> str | None:
        """The exception that ended the run, if one did."""
        run = getattr(self.case, "run", None)
        return run.error if run is not None and run.status is RunStatus.ERROR else None


def report_table(
    rows: Sequence[Row], metrics: Sequence[str], trials: int | None
) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    """Return the names of the columns and the rows of a report.

    `metrics` are the different names of the metrics of whole answers; the rows of one unit are in their order.
    """
    ordered = sorted(rows, key=lambda row: row.unit)
    if any(row.component is not None for row in ordered):
        return _table_with_components(ordered)
    cases = tuple(
        CaseResult(
            index=row.place * (trials or 1) + (row.trial or 1) - 1,
            case=row.case,
            results=tuple(result.renamed(name) for result, name in zip(row.results, metrics, strict=True)),
            trial=row.trial,
            golden=None if row.trial is None else row.place,
        )
        for row in ordered
    )
    return tuple(metrics), cases


def _table_with_components(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    # Columns of whole answers come first; without metrics of their own, their rows have no results and add no column.
    groups: dict[tuple[str | None, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.component is not None):
        groups.setdefault((row.component, row.source), []).append(row)
    labels = iter(unique_labels([component for component, _ in groups if component is not None]))
    names: list[str] = []
    results: dict[Row, list[MetricResult]] = {row: [] for row in rows}
    apart: dict[Row, set[int]] = {row: set() for row in rows}
    for group, members in groups.items():
        prefix = "" if group[0] is None else f"{next(labels)}: "
        units = {row.unit for row in members}
        for place, sample in enumerate(members[0].results):
            name = prefix + sample.metric
            for row in rows:
                if (row.component, row.source) == group:
                    results[row].append(row.results[place].renamed(name))
                    continue
                has_run = row.unit in units
                results[row].append(_inapplicable(row, group[0], name, sample.threshold, has_run=has_run))
                if row.component is not None or has_run:
                    apart[row].add(len(names))
            names.append(name)
    return tuple(names), tuple(
        CaseResult(index, row.case, tuple(results[row]), frozenset(apart[row]), row.trial, row.place)
        for index, row in enumerate(rows)
    )


def _inapplicable(row: Row, component: str | None, name: str, threshold: float, *, has_run: bool) -> MetricResult:
    """Return the result of a metric that does not apply to a row, or whose component did not run."""
    subject = "whole answers" if component is None else repr(component)
    status, error, reason = ResultStatus.SKIPPED, None, f"Skipped: this metric is about {subject}."
    if component is not None and row.component is None and not has_run:
        reason = f"Skipped: {subject} did not run."
        if row.error is not None:
            status, error = ResultStatus.FAILED, row.error
            reason = f"Not measured: the app failed before it reached {subject}: {row.error}"
    return MetricResult(metric=name, status=status, threshold=threshold, reason=reason, error=error)
