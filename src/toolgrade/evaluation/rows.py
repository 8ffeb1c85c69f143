"""Rows and columns of the report of an evaluation.

A row is a case that was measured, and a column is a metric. If the components of an app are scored beside its answers,
each component has its own columns, named `component: metric`. One run of the app then gives several rows: one for the
whole answer, and one each time a component ran. These rows have the same key. If a column does not apply to a row, the
result is skipped; if the app failed before it reached a component, the row of the whole answer has an errored result.

Of many cases, only the worst stay whole; the others become outlines without content and reasons.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Final, NamedTuple

from toolgrade._internal.text import unique_labels
from toolgrade.cases import AnyCase, LLMTestCase
from toolgrade.report import CaseResult
from toolgrade.report.report import error_of
from toolgrade.report.text.phrases import severity
from toolgrade.result import Finding, MetricResult, ResultStatus
from toolgrade.verdict import WrongEnd, wrong_end

NO_AGENTS: Final[Sequence[str | None]] = (None,)
"""The agents of an evaluation without several."""


class CaseKey(NamedTuple):
    """What identifies a case, or a golden in one trial with one agent; see `Row`.

    `CaseKey(2, 1, "gpt")` is the third golden in its first trial with the agent `gpt`.
    """

    place: int
    trial: int | None = None
    agent: str | None = None


class Row(NamedTuple):
    """A case that was measured, with a result for each metric that applies to it.

    `place` is the position of the case or golden in the evaluation, from 0, and `trial` counts from 1; `agent` is the
    name of the agent if there are several. `component` is the name of a component, `None` for a whole answer; `source`
    distinguishes components of equal names. `golden` is the place of the first case of the same golden, if a file has
    several runs of one. `wrong_end` says why the run did not end as its golden says. An outline has no content, reasons
    and alignments, see `WorstRows`.
    """

    case: AnyCase
    place: int
    trial: int | None = None
    component: str | None = None
    source: str = ""
    results: tuple[MetricResult, ...] = ()
    agent: str | None = None
    golden: int | None = None
    wrong_end: WrongEnd | None = None
    is_outline: bool = False

    @classmethod
    def of(cls, case: AnyCase, place: int, trial: int | None = None, **fields: Any) -> Row:  # noqa: ANN401 - fields
        """Return the row of a case as it was read or answered."""
        return cls(case, place, trial, wrong_end=wrong_end(case), **fields)

    @property
    def key(self) -> CaseKey:
        """What all rows of one run of the app share."""
        return CaseKey(self.place, self.trial, self.agent)

    @property
    def error(self) -> str | None:
        """Why the agent broke, if it did."""
        end = self.wrong_end
        return end.why if end is not None and end.outcome == "agent_error" else None


def report_table(
    rows: Sequence[Row],
    metrics: Sequence[str],
    trials: int | None,
    *,
    agents: Sequence[str] = (),
    by_position: bool = False,
) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    """Return the names of the columns and the rows of a report, in the order of `agents`, if there are several.

    `metrics` are the unique names of the metrics of whole answers; the rows of one key are already in order. The
    index of a case is its position among the rows if `by_position` is true. Otherwise its key determines the index, so
    that a case has the same one if others are missing, as after an interruption.
    """
    order = [*(agents or NO_AGENTS)]
    # In a file, trials are numbers of runs; elsewhere a place has several.
    ordered = sorted(rows, key=lambda row: (order.index(row.agent), row.place, row.trial or 0))
    if any(row.component is not None for row in ordered):
        return _component_table(ordered)
    places = 1 + max(map(attrgetter("place"), ordered), default=0)
    cases: list[CaseResult] = []
    for position, row in enumerate(ordered):
        index = (order.index(row.agent) * places + row.place) * (trials or 1) + (row.trial or 1) - 1
        cases.append(_case_result(position if by_position else index, row, metrics))
    if len(cases) < 2 or any(row.is_outline for row in ordered):  # noqa: PLR2004 - nothing to agree with
        return tuple(metrics), tuple(cases)
    from toolgrade.evaluation.agreement import with_agreement  # noqa: PLC0415 - not loaded for a single case

    return tuple(metrics), with_agreement(cases)


def _component_table(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[CaseResult, ...]]:
    """Return the table of an evaluation with components."""
    columns = _columns(rows)
    names = tuple(column.name for column in columns)
    return names, tuple(_component_result(index, row, columns) for index, row in enumerate(rows))


def _case_result(index: int, row: Row, metrics: Sequence[str]) -> CaseResult:
    """Return the results of a row of an evaluation without components."""
    has_several = row.trial is not None or row.agent is not None
    return CaseResult(
        index=index,
        case=row.case,
        results=tuple(result.renamed(name) for result, name in zip(row.results, metrics, strict=True)),
        trial=row.trial,
        golden=row.place if has_several and row.golden is None else row.golden,
        agent=row.agent,
        wrong_end=row.wrong_end,
    )


def _component_result(index: int, row: Row, columns: Sequence[_Column]) -> CaseResult:
    """Return the results of a row of an evaluation with components; `index` is its position among the sorted rows."""
    return CaseResult(
        index=index,
        case=row.case,
        results=tuple(column.result(row) for column in columns),
        apart=frozenset(number for number, column in enumerate(columns) if column.is_apart(row)),
        trial=row.trial,
        golden=row.place,
        agent=row.agent,
        wrong_end=row.wrong_end,
    )


@dataclass(frozen=True)
class _Column:
    """A metric of whole answers (`component` is `None`) or of one component.

    `position` is that of the metric among the results of its rows; `keys` are those that have such rows.
    """

    component: str | None
    source: str
    position: int
    name: str
    threshold: float
    keys: frozenset[CaseKey]

    def applies(self, row: Row) -> bool:
        """Return whether the metric measures a row."""
        return (row.component, row.source) == (self.component, self.source)

    def is_apart(self, row: Row) -> bool:
        """Return whether the metric measures only other rows than this one, so that its result must not count here.

        The row of a whole answer stands in for a component that has no row of the same key because it did not run.
        """
        return not self.applies(row) and (row.component is not None or row.key in self.keys)

    def result(self, row: Row) -> MetricResult:
        """Return the result of a row, skipped if the metric does not apply or its component did not run."""
        if self.applies(row):
            return row.results[self.position].renamed(self.name)
        if self.component is None or self.is_apart(row):
            subject = "whole answers" if self.component is None else repr(self.component)
            return self._no_score(ResultStatus.SKIPPED, f"Skipped: this metric is about {subject}.")
        if row.error is None:
            return self._no_score(ResultStatus.SKIPPED, f"Skipped: {self.component!r} did not run.")
        reason = f"Not measured: the app failed before it reached {self.component!r}: {row.error}"
        return self._no_score(ResultStatus.ERRORED, reason, row.error)

    def _no_score(self, status: ResultStatus, reason: str, error: str | None = None) -> MetricResult:
        return MetricResult(metric=self.name, status=status, threshold=self.threshold, reason=reason, error=error)


def _columns(rows: Sequence[Row]) -> list[_Column]:
    """Return the columns of whole answers, then those of each component."""
    groups: dict[tuple[str | None, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.component is not None):  # whole answers first
        groups.setdefault((row.component, row.source), []).append(row)
    labels = iter(unique_labels([component for component, _ in groups if component is not None]))
    columns: list[_Column] = []
    for (component, source), members in groups.items():
        prefix = "" if component is None else f"{next(labels)}: "
        keys = frozenset(row.key for row in members)
        # All members have results of the same metrics. Whole answers without metrics add no column.
        for position, sample in enumerate(members[0].results):
            name = prefix + sample.metric
            columns.append(_Column(component, source, position, name, sample.threshold, keys))
    return columns


_ROOM: Final = 500
"""Whole rows in memory, beside the worst, before the others become outlines."""

_COUNTED: Final = ("kind", "tool", "expected", "called", "turn", "path")
"""Fields of a finding by which it is counted."""
_values_of: Final = attrgetter(*_COUNTED)


class WorstRows:
    """Rows in the order in which they were added, of which the `full` worst by each metric are whole; 0 for all.

    A report that shows at most `full` cases by each metric looks the same but for the agreement of runs, which it does
    not have, and needs a fraction of the memory.
    """

    def __init__(self, full: int) -> None:
        self.rows: list[Row] = []
        self._full = full
        self._whole: list[int] = []
        # Many rows have equal outlines, which are stored once.
        self._outlines: dict[Hashable, tuple[MetricResult, ...]] = {}
        self._reported: set[str] = set()
        self._tagged: dict[tuple[str, ...], LLMTestCase] = {}

    def add(self, row: Row) -> None:
        """Add a row; one that is an outline already is one of a part, with which it shares its results."""
        if row.is_outline:
            row = row._replace(results=self._shared(row.results))
        elif self._full and row.results:
            self._whole.append(len(self.rows))
        self.rows.append(row)
        if len(self._whole) > _ROOM + 4 * self._full * len(row.results):
            self.trim()

    def trim(self) -> None:
        """Replace the rows that are not among the worst by their outlines."""
        worst = self._worst()
        for place in self._whole:
            if place not in worst:
                self.rows[place] = self._outline(self.rows[place])
        self._whole = sorted(worst)

    def _worst(self) -> set[int]:
        """Return the positions of the worst rows by each metric, of the worst ones with findings, and of the error."""
        worst: set[int] = set()
        results = {place: self.rows[place].results for place in self._whole}
        for metric in range(max(map(len, results.values()), default=0)):
            # Results without a score come first among the worst, but only results with findings are shown side by side.
            for group in (self._whole, [place for place in self._whole if results[place][metric].findings]):
                worst.update(nsmallest(self._full, group, key=lambda place: self._rank(place, metric)))
            errors = [(text, place) for place in self._whole if (text := error_of(results[place][metric]))]
            worst.update(place for _, place in nsmallest(1, errors))  # the one that a summary shows
        return worst

    def _rank(self, place: int, metric: int) -> tuple[bool, int, float]:
        """Return a sort key of a result, in the order in which a report lists cases: broken runs, then by result."""
        row = self.rows[place]
        is_alone = all(result.status is ResultStatus.SKIPPED for result in row.results)  # then it is not measured
        rank, score = (0, 0.0) if is_alone else severity(row.results[metric])
        return row.wrong_end is None, rank, score

    def _outline(self, row: Row) -> Row:
        """Return a row without what makes it large; its tags stay, by which pass rates are shown.

        The case of the first row with a warning keeps its id and name, since a report names it.
        """
        texts = {text for result in row.results for text in result.warnings}
        tags = tuple(getattr(row.case, "tags", None) or ())
        case = self._tagged.setdefault(tags, LLMTestCase(tags=list(tags)) if tags else LLMTestCase())
        if not texts <= self._reported:
            case = case.model_copy(update={"id": row.case.id, "name": row.case.name})
            self._reported |= texts
        return row._replace(case=case, results=self._shared(row.results), is_outline=True)

    def _shared(self, results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
        """Return outlines of results. Of findings their kinds, tools and places stay, which are counted."""
        places = tuple(tuple(map(_values_of, one.findings)) for one in results)
        key = (places, tuple((one.status, one.score, one.passed, one.warnings) for one in results))
        if key not in self._outlines:
            self._outlines[key] = tuple(map(_outline, results, places))
        return self._outlines[key]


def _outline(result: MetricResult, places: Sequence[Sequence[Any]]) -> MetricResult:
    dropped: dict[str, Any] = {"reason": None, "error": None, "parts": {}, "alignment": None}
    findings = tuple(Finding(message="", **dict(zip(_COUNTED, values, strict=True))) for values in places)
    return replace(result, findings=findings, **dropped)
