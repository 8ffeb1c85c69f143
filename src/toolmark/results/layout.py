"""Which rows and columns make the report of an evaluation?

A row is a case that was measured, a column a metric. Where the components of an app are scored beside its whole
answers, each component has columns of its own, named `component: metric`. Where a column is not about a row, the result
is skipped; where the app failed before it came to a component, the row of the golden has a failed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toolmark._internal.text import unique_labels
from toolmark.cases import AnyCase, RunStatus
from toolmark.report import CaseResult
from toolmark.result import MetricResult, ResultStatus


@dataclass(frozen=True, eq=False)
class Row:
    """A case that was measured.

    Attributes:
        case: The case.
        place: Position of the golden, or of the case, in what was evaluated, from 0.
        trial: Number of the trial, from 1; `None` where each is asked once.
        component: Name of the component that it is about; `None` for a case, or a whole answer.
        source: Tells components of one name apart: where in the program each one stands.
        results: One for each metric that is about it.
    """

    case: AnyCase
    place: int
    trial: int | None = None
    component: str | None = None
    source: str = ""
    results: tuple[MetricResult, ...] = ()

    @property
    def unit(self) -> tuple[int, int]:
        """What was asked once: the golden, and the trial; sorts rows into their order."""
        return self.place, self.trial or 0

    @property
    def error(self) -> str | None:
        """What ended the run, if an exception did."""
        run = getattr(self.case, "run", None)
        return run.error if run is not None and run.status is RunStatus.ERROR else None


@dataclass(frozen=True)
class Part:
    """The rows that have the same metrics."""

    component: str | None
    rows: list[Row] = field(default_factory=list[Row])


def laid_out(
    rows: Sequence[Row], metrics: Sequence[str], trials: int | None
) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    """Return the names of all columns, and the rows of a report.

    Args:
        rows: All rows, those of one unit in their order.
        metrics: Names of the metrics of the cases, or of whole answers, no two of which are equal; maybe none.
        trials: How often each golden is asked; `None` for once.
    """
    ordered = sorted(rows, key=lambda row: row.unit)
    if all(row.component is None for row in ordered):
        times = trials or 1
        return tuple(metrics), tuple(
            CaseResult(
                index=row.place * times + (row.trial or 1) - 1,
                case=row.case,
                results=tuple(one.renamed(name) for one, name in zip(row.results, metrics, strict=True)),
                trial=row.trial,
                golden=None if row.trial is None else row.place,
            )
            for row in ordered
        )
    return _with_components(ordered, bool(metrics))


def _with_components(rows: Sequence[Row], is_scored: bool) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    names: list[str] = []
    results: dict[Row, list[MetricResult]] = {row: [] for row in rows}
    apart: dict[Row, set[int]] = {row: set() for row in rows}
    for prefix, part in _parts(rows, is_scored):
        mine, reached = set(part.rows), {row.unit for row in part.rows}
        for place, sample in enumerate(part.rows[0].results):
            name = prefix + sample.metric
            for row in rows:
                if row in mine:
                    result = row.results[place].renamed(name)
                else:
                    was_reached = row.unit in reached
                    result = _left_out(row, part, name, sample.threshold, was_reached=was_reached)
                    if row.component is not None or was_reached:
                        apart[row].add(len(names))
                results[row].append(result)
            names.append(name)
    return tuple(names), tuple(
        CaseResult(index, row.case, tuple(results[row]), frozenset(apart[row]), row.trial, row.place)
        for index, row in enumerate(rows)
    )


def _parts(rows: Sequence[Row], is_scored: bool) -> Iterator[tuple[str, Part]]:
    """Yield the rows that have columns of their own, each with what the names of these begin with."""
    if is_scored:
        yield "", Part(None, [row for row in rows if row.component is None])
    parts: dict[tuple[str, str], Part] = {}
    for row in rows:
        if row.component is not None:
            parts.setdefault((row.component, row.source), Part(row.component)).rows.append(row)
    labels = unique_labels([part.component or "" for part in parts.values()])
    for label, part in zip(labels, parts.values(), strict=True):
        yield f"{label}: ", part


def _left_out(row: Row, part: Part, name: str, threshold: float, *, was_reached: bool) -> MetricResult:
    """Return the result of a row that a metric did not measure."""
    component = "whole answers" if part.component is None else repr(part.component)
    status, error = ResultStatus.SKIPPED, None
    reason = f"Skipped: this metric is about {component}."
    if part.component is not None and row.component is None and not was_reached:
        reason = f"Skipped: {component} did not run."
        if row.error is not None:
            status, error = ResultStatus.FAILED, row.error
            reason = f"Not measured: the app failed before it came to {component}: {row.error}"
    return MetricResult(metric=name, status=status, threshold=threshold, reason=reason, error=error)
