"""Totals of results and the reports that they make: exact, in any order, and never green by mistake."""

from __future__ import annotations

import random
from collections import Counter
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from toolgrade import compare
from toolgrade.errors import InvalidDataError
from toolgrade.evaluation import read_results
from toolgrade.evaluation.arrow import MetricTotals, Totals
from toolgrade.report import MetricSummary, Report
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import OUTCOMES, Gate, outcome_of

SCORES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1 / 3, 0.1]), st.floats(0, 1, allow_subnormal=True))
OTHER_SCORES = st.sampled_from([-1.0, 1.5])


def result(score: float | None, *, is_skipped: bool = False, error: str | None = None) -> MetricResult:
    """A result of one metric."""
    if score is None:
        status = ResultStatus.SKIPPED if is_skipped else ResultStatus.ERRORED
        return MetricResult(metric="m", status=status, threshold=0.5, error=error)
    return MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=score, passed=score >= 0.5)


Rows = list[tuple[MetricResult, str | None]]
RESULTS = st.one_of(
    SCORES.map(result),
    OTHER_SCORES.map(result),
    st.just(result(None, is_skipped=True)),
    st.sampled_from([None, "ValueError: a", "ValueError: b"]).map(lambda error: result(None, error=error)),
)
ROWS = st.lists(st.tuples(RESULTS, st.one_of(st.none(), st.sampled_from("abc"))), min_size=1, max_size=30)


def totals(rows: Rows) -> Totals:
    """What rows add up to."""
    metric = MetricTotals("m", 0.5)
    for one, cluster in rows:
        if one.score is None:
            metric.add_unscored(one.status.value, one.error, 1)
        else:
            metric.add(one.score, one.passed is True, cluster, 1)
        metric.outcomes[outcome_of([one], None)] += 1
    return Totals((metric,))


def summary(rows: Rows) -> MetricSummary:
    """Summarize rows as a report of cases does; a row without a cluster is its own cluster."""
    clusters = [(key, place) if key is None else (key, None) for place, (_, key) in enumerate(rows)]
    return MetricSummary.of("m", [one for one, _ in rows], clusters)


@given(ROWS, st.lists(st.integers(0, 30), max_size=3), st.randoms(use_true_random=False))
def test_any_split_and_any_order_give_the_same(rows: Rows, cuts: list[int], rng: random.Random) -> None:
    """However rows are divided and added, the totals and the report are equal, to the last bit."""
    shuffled = rng.sample(rows, len(rows))
    bounds = [0, *sorted(cuts), len(rows)]

    merged = sum((totals(shuffled[start:end]) for start, end in pairwise(bounds)), Totals())

    assert merged == totals(rows)
    assert merged.report() == totals(rows).report()


@given(ROWS)
def test_a_report_of_totals_equals_that_of_the_cases(rows: Rows) -> None:
    """Counts, mean, error and verdict exactly, intervals up to rounding."""
    report, expected = totals(rows).report(), summary(rows)
    (actual,) = report.summaries

    same = ("metric", "threshold", "passed", "failed", "skipped", "errored", "mean", "error")
    assert [getattr(actual, name) for name in same] == [getattr(expected, name) for name in same]
    for name in ("mean_interval", "rate_interval"):
        left, right = getattr(actual, name), getattr(expected, name)
        assert (left is None) == (right is None), name
        assert left is None or left == pytest.approx(right, abs=1e-7)
    assert report.case_count == len(rows)
    assert report.passed == all(one.passed for one, _ in rows)
    outcomes = [outcome_of([one], None) for one, _ in rows]
    assert report.verdict.counts == {outcome: outcomes.count(outcome) for outcome in OUTCOMES}


def test_equal_scores_may_be_added_at_once() -> None:
    """Which is how they are counted in tables."""
    one, other = MetricTotals("m", 0.5), MetricTotals("m", 0.5)
    one.add(0.1, False, "a", 10)
    for _ in range(10):
        other.add(0.1, False, "a", 1)

    assert one == other


def test_different_metrics_are_not_added() -> None:
    """Totals of different metrics, thresholds or numbers of metrics are an error."""
    one, other = Totals((MetricTotals("m", 0.5),)), Totals((MetricTotals("m", 0.9),))

    with pytest.raises(InvalidDataError, match=r"'m' \(threshold 0.5\) and 'm' \(threshold 0.9\)"):
        one + other
    with pytest.raises(InvalidDataError, match="must be of the same metrics"):
        one + Totals(one.metrics * 2)


def test_nothing_and_missing_results_make_no_report() -> None:
    """A report of no result, or of fewer results of one metric, would pass by mistake."""
    full, empty = totals([(result(1.0), None)]).metrics[0], MetricTotals("other", 0.5)

    for nothing in (Totals(), Totals((empty,))):
        with pytest.raises(InvalidDataError, match="at least one result"):
            nothing.report()
    with pytest.raises(InvalidDataError, match=r"a result of each case, got \{'m': 1, 'other': 0\}"):
        Totals((full, empty)).report()
    with pytest.raises(InvalidDataError, match="finite number, got nan"):
        empty.add(float("nan"), False, None, 1)
    for outcome in ("unheard of", "failed"):  # in place of the outcome, and besides it
        wrong = totals([(result(1.0), None)])
        wrong.metrics[0].outcomes = Counter({"passed": int(outcome == "failed"), outcome: 1})  # type: ignore[dict-item]
        with pytest.raises(InvalidDataError, match="the outcomes of all cases"):
            wrong.report()
    other = totals([(result(0.0), None)]).metrics[0]
    other.metric = "other"
    with pytest.raises(InvalidDataError, match="the outcomes of all cases"):
        Totals((full, other)).report()


def test_a_report_of_totals_has_no_single_results() -> None:
    """Whoever looks at them gets an error, not a report without failures."""
    report = totals([(result(0.0), None)]).report()

    assert isinstance(report, Report)
    for read in (lambda: list(report.results()), report.to_rows):
        with pytest.raises(InvalidDataError, match="no single results"):
            read()


def test_every_view_shows_the_numbers_and_the_verdict() -> None:
    """Of all cases, whose number each view has; none says that there are no cases."""
    passing = totals([(result(1.0), None)] * 1233 + [(result(None, is_skipped=True), None)]).report(
        Gate(not_measured=0.01)
    )
    failing = totals(
        [(result(1.0), None)] * 1232 + [(result(None, error="ValueError: sk-0123456789abcdefghij0123"), None)]
    )

    for report, verdict in ((passing, "Passed"), (failing.report(), "Failed")):
        console = Console(file=StringIO(), width=100)
        print_report(report, title="t", console=console)
        terminal = console.file.getvalue()  # type: ignore[attr-defined]
        page, html = render_markdown(report, title="t"), render_html(report, title="t")

        assert f"**{verdict}**" in page
        assert str(report).split("\n")[-1] == str(report.summaries[0])
        for text in (terminal, page, html):
            assert "no cases" not in text.lower()
            assert "0 cases" not in text.replace(f"{report.case_count:,} cases", "")
            assert "sk-0123456789" not in text
        for text in (terminal, page, html):
            assert f"{report.case_count:,}" in text
            assert "results of single cases are not in this report" in " ".join(text.split())
        plain = report.to_dict()
        assert plain.pop("gate", {}) == report.gate.to_dict()
        assert plain.pop("verdict")["passed"] is (verdict == "Passed")
        assert plain == {"metrics": [report.summaries[0].to_dict()], "case_count": report.case_count}
    assert "1,233 of 1,234 cases passed, and the gate allows the rest" in render_html(passing)
    assert "1 of 1,233 cases could not be measured" in render_html(failing.report())


def test_what_needs_single_cases_refuses_a_report_of_totals(tmp_path: Path) -> None:
    """JUnit, comparisons and readers of reports would else see no failure."""
    report = totals([(result(0.0), None)]).report()
    (tmp_path / "report.json").write_text(report.to_json(), encoding="utf-8")

    for use in (
        lambda: render_junit(report, title="t"),
        lambda: compare(report, report),
        lambda: read_results(tmp_path / "report.json"),
    ):
        with pytest.raises(InvalidDataError):
            use()
