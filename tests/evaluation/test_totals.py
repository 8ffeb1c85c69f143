"""Exact sums of results, independent of the order of addition."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import InvalidDataError
from toolgrade.report import MetricSummary
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.evaluation import Totals

SCORES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1 / 3, 0.1]), st.floats(0, 1, allow_subnormal=True))


def result(score: float | None, *, is_skipped: bool = False) -> MetricResult:
    """A result of one metric."""
    if score is None:
        status = ResultStatus.SKIPPED if is_skipped else ResultStatus.ERRORED
        return MetricResult(metric="m", status=status, threshold=0.5)
    return MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=score, passed=score >= 0.5)


ROWS = st.lists(
    st.tuples(
        st.one_of(SCORES.map(result), st.booleans().map(lambda skipped: result(None, is_skipped=skipped))),
        st.one_of(st.none(), st.sampled_from("abc")),
    ),
    min_size=1,
    max_size=30,
)


def totals(rows: list[tuple[MetricResult, str | None]]) -> Totals:
    """What rows add up to."""
    return Totals.of([(one,) for one, _ in rows], [key for _, key in rows])


def summary(rows: list[tuple[MetricResult, str | None]]) -> MetricSummary:
    """Summarize rows as a report does; a row without a cluster is its own cluster."""
    clusters = [(key, place) if key is None else (key, None) for place, (_, key) in enumerate(rows)]
    return MetricSummary.of("m", [one for one, _ in rows], clusters)


@given(ROWS, st.integers(0, 99))
def test_any_split_and_any_order_give_the_same(rows: list[tuple[MetricResult, str | None]], seed: int) -> None:
    """However rows are dealt out and merged, the totals are equal, to the last bit."""
    rng = random.Random(seed)
    parts: list[list[tuple[MetricResult, str | None]]] = [[] for _ in range(4)]
    for row in rows:
        rng.choice(parts).append(row)
    rng.shuffle(parts)

    merged = sum((totals(part) for part in parts), Totals())

    assert merged == totals(rows)
    assert merged.to_dict() == totals(rows).to_dict()


@given(ROWS)
def test_totals_equal_those_of_a_report(rows: list[tuple[MetricResult, str | None]]) -> None:
    """Counts and mean exactly, intervals up to rounding."""
    actual, expected = totals(rows).summaries[0], summary(rows)

    counts = ("metric", "threshold", "passed", "failed", "skipped", "errored", "mean")
    assert [getattr(actual, name) for name in counts] == [getattr(expected, name) for name in counts]
    for name in ("mean_interval", "rate_interval"):
        left, right = getattr(actual, name), getattr(expected, name)
        assert (left is None) == (right is None), name
        assert left is None or left == pytest.approx(right, abs=1e-7)


@given(ROWS)
def test_totals_are_read_back(rows: list[tuple[MetricResult, str | None]]) -> None:
    """A JSON round trip keeps the values."""
    original = totals(rows)

    assert Totals.from_dict(json.loads(json.dumps(original.to_dict()))) == original


def test_sums_are_exact() -> None:
    """A sum of floats does not depend on their order, and large numbers of cases lose nothing."""
    sums = totals([(result(0.1), None)] * 10)

    assert sums.metrics[0].total == 10 * Fraction(0.1)
    assert sums.metrics[0].squares == 10 * Fraction(0.1) ** 2
    assert sums.metrics[0].clusters == {}


def test_clusters_are_summed_separately() -> None:
    """For each cluster the number scored, the number passed, and the sum."""
    sums = totals([(result(1.0), "a"), (result(0.25), "a"), (result(None), "a"), (result(0.5), None)])

    assert sums.metrics[0].clusters == {"a": (2, 1, Fraction(5, 4))}
    assert sums.metrics[0].squares == Fraction(1, 4)


def test_different_metrics_are_not_added() -> None:
    """Sums of different metrics, thresholds or numbers of metrics are an error."""
    one = totals([(result(1.0), None)])
    two = Totals.of([(result(1.0), result(1.0))])
    other = Totals.of([(MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.9),)])

    with pytest.raises(InvalidDataError, match=r"'m' \(threshold 0.5\) and 'm' \(threshold 0.9\)"):
        one + other
    with pytest.raises(InvalidDataError, match="1 and 2 metrics"):
        one + two
    assert Totals() + one == one == one + Totals()


@pytest.mark.parametrize("plain", [{}, {"cases": 1, "metrics": [{}]}, {"cases": 1, "metrics": [{"total": "1/0"}]}, []])
def test_invalid_totals_are_refused(plain: object) -> None:
    """Any other value is a clear error."""
    with pytest.raises(InvalidDataError, match="not the output of Totals"):
        Totals.from_dict(plain)  # type: ignore[arg-type]


def test_passed_means_all_passed() -> None:
    """One failed or unmeasured result is enough; skipped ones do not count."""
    assert totals([(result(1.0), None), (result(None, is_skipped=True), None)]).passed
    assert not totals([(result(1.0), None), (result(0.0), None)]).passed
    assert not totals([(result(1.0), None), (result(None), None)]).passed
