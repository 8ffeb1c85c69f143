"""Pass rates of parts of the cases: by tag, by agent, or by a value of the case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toolgrade._internal.text import short_json
from toolgrade.errors import ConfigurationError
from toolgrade.report.field_paths import values_at
from toolgrade.report.report import CaseResult, Report
from toolgrade.stats import rate_interval
from toolgrade.verdict import OUTCOMES, Outcome

MOST_SLICES = 50
"""Slices that a view shows."""


class Slice(NamedTuple):
    """Some cases: how many there are, how many by outcome, and the share that passed of those that were measured."""

    name: str
    cases: int
    counts: Mapping[Outcome, int]
    rate: float | None
    interval: tuple[float, float] | None

    @property
    def measured(self) -> int:
        """Cases that passed or failed."""
        return self.counts["passed"] + self.counts["failed"]


def rate_text(part: Slice) -> str:
    """Return the pass rate of cases with its 95 % interval: `86 % (81 % to 89 %)`; `-` if none was measured."""
    if part.rate is None or part.interval is None:
        return "-"
    return f"{whole_percent(part.rate)} ({whole_percent(part.interval[0])} to {whole_percent(part.interval[1])})"


def whole_percent(share: float) -> str:
    """Return a share as a whole percentage; only exactly 0 and 1 are 0 % and 100 %."""
    return f"{round(share * 100) if share in {0, 1} else min(max(round(share * 100), 1), 99)} %"


SLICE_COLUMNS = ("", "cases", "passed", "failed", "not measured", "agent errors")
"""Heads of `slice_cells`, after the name of a slice."""


def slice_cells(part: Slice) -> list[str]:
    """Return the figures of a slice: its cases, its pass rate with its interval, and the cases of other outcomes."""
    others = [f"{part.counts[outcome]:,}" for outcome in ("failed", "not_measured", "agent_error")]
    return [f"{part.cases:,}", rate_text(part), *others]


def slices_of(report: Report, by: str) -> list[Slice]:
    """Return the cases of a report by `"tag"`, `"agent"`, or a path such as `metadata.team`, the lowest rate first.

    A case with several tags is in several slices; cases without a value are in the last one, without a name.

    Raises:
        ConfigurationError: No case has a value at the path.
    """
    groups: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for case, names in zip(report.cases, _names(report, by), strict=True):
        for name in dict.fromkeys(names):
            groups[name].append(case)
    parts = [slice_of(name, cases) for name, cases in groups.items()]
    return sorted(
        parts, key=lambda part: (not part.name, 1.0 if part.rate is None else part.rate, -part.cases, part.name)
    )


def _names(report: Report, by: str) -> list[Sequence[str]]:
    """Return the names of the slices that each case is in."""
    if by in {"tag", "tags"}:
        tags: list[Sequence[str]] = [getattr(case.case, "tags", None) or [""] for case in report.cases]
        if not any(map(any, tags)):
            raise ConfigurationError("no case has a tag, by which cases are grouped; results as JSON have none")
        return tags
    if by == "agent":
        return [[case.agent or ""] for case in report.cases]
    values = values_at([case.case for case in report.cases], by, "field of --by")
    return [[value if isinstance(value, str) else "" if value is None else short_json(value)] for value in values]


def slice_of(name: str, cases: Sequence[CaseResult]) -> Slice:
    """Return the counts and the pass rate of some cases; rows of one golden are not independent of each other."""
    outcomes = [case.outcome for case in cases]
    measured = [
        (case, outcome) for case, outcome in zip(cases, outcomes, strict=True) if outcome in {"passed", "failed"}
    ]
    passed = [outcome == "passed" for _, outcome in measured]
    interval = rate_interval(passed, [case.cluster for case, _ in measured])
    rate = sum(passed) / len(passed) if passed else None
    return Slice(name, len(cases), {one: outcomes.count(one) for one in OUTCOMES}, rate, interval)
