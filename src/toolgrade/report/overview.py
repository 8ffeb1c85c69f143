"""What every view shows before single results: first sentences, facts, slices, and earlier evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from toolgrade.redact import Redactor
from toolgrade.report.comparison import Comparison
from toolgrade.report.pairing import compare_with
from toolgrade.report.redaction import redact
from toolgrade.report.report import Report
from toolgrade.report.text.headline import changes_text, date_of, facts_of, headline
from toolgrade.report.text.phrases import one_line
from toolgrade.report.text.slices import Slice, slice_of, slices_of


class TrendPoint(NamedTuple):
    """One of several evaluations: its cases by outcome, whether its gate holds, and what changed before it."""

    name: str
    date: str
    passed: bool
    cases: Slice
    change: str
    facts: dict[str, str]


class Overview(NamedTuple):
    """What a view shows before single results; all texts are redacted.

    Attributes:
        sentences: The verdict, the difference to the evaluation before, and where it goes wrong.
        facts: What was measured, by name: models, commit, date, tokens and time.
        slices: The pass rates by tag and by other fields of the cases, each with the name of the field.
        trend: The earlier evaluations and this one, the earliest first; empty without earlier ones.
        comparison: The difference to the evaluation before; `None` without one, or if both cannot be compared.
    """

    sentences: list[str]
    facts: dict[str, str]
    slices: list[tuple[str, list[Slice]]]
    trend: list[TrendPoint]
    comparison: Comparison | None


def overview(report: Report, earlier: Sequence[Report], by: Sequence[str], redactor: Redactor) -> Overview:
    """Return the overview of a redacted report after earlier ones, which need not be redacted.

    Slices are by tag, if there are tags and `by` is empty.

    Raises:
        ConfigurationError: No case has a value at a path of `by`.
    """
    earlier = [_named(one, place) for place, one in enumerate(earlier)]
    comparison = redact(compare_with(earlier[-1], report), redactor) if earlier else None
    return Overview(
        headline(report, comparison),
        _facts(report, redactor),
        _slices(report, by, redactor),
        _trend([*earlier, report], comparison, redactor),
        None if isinstance(comparison, str) else comparison,
    )


def _facts(report: Report, redactor: Redactor) -> dict[str, str]:
    return {_plain(name, redactor): _plain(text, redactor) for name, text in facts_of(report).items()}


def _slices(report: Report, by: Sequence[str], redactor: Redactor) -> list[tuple[str, list[Slice]]]:
    """Return the slices by each field; without fields those by tag, unless all cases have the same tags."""
    tables = [(field, slices_of(report, field)) for field in dict.fromkeys(by)]
    if not by and any(any(getattr(case.case, "tags", None) or ()) for case in report.cases):
        tags = slices_of(report, "tag")
        tables += [("tag", tags)] if any(0 < part.cases < report.case_count for part in tags) else []
    return [(field, [one._replace(name=_plain(one.name, redactor)) for one in parts]) for field, parts in tables]


def _named(report: Report, place: int) -> Report:
    """Return an earlier report with a name that says whether it was interrupted."""
    name = f"{report.about.get('name') or f'#{place + 1}'}{' (interrupted)' * report.interrupted}"
    return replace(report, about={**report.about, "name": name})


def _plain(text: str, redactor: Redactor) -> str:
    return one_line(redact(text, redactor))


def _trend(reports: Sequence[Report], last: Comparison | str | None, redactor: Redactor) -> list[TrendPoint]:
    """Return a point for each of several reports; `last` is how the last one differs from the one before."""
    points: list[TrendPoint] = []
    for place, report in enumerate(reports if len(reports) > 1 else ()):
        name = _plain(str(report.about.get("name") or f"#{place + 1}"), redactor)
        change = ""
        if place:
            is_last = place == len(reports) - 1
            compared = last if is_last and last else compare_with(reports[place - 1], report, resamples=0)
            change = compared if isinstance(compared, str) else changes_text(compared.outcomes)
        cases, date, facts = slice_of(name, report.cases), date_of(report.about), _facts(report, redactor)
        points.append(TrendPoint(name, date, report.verdict.passed, cases, _plain(change, redactor), facts))
    return points
