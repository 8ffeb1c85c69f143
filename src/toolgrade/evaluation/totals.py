"""Exact totals of results, which can be added in any order.

Scores are floats, and a sum of floats depends on their order. Here it is a `Fraction`, which does not round, so the
mean is the same to the last bit, whichever machine scored which part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist

from toolgrade.errors import InvalidDataError
from toolgrade.redact import DEFAULT
from toolgrade.report import Report
from toolgrade.report.report import MetricSummary
from toolgrade.stats import SAME, effective, student_t, wilson

_ZERO = Fraction(0)
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Totals:
    """Totals of the results of many cases; two of the same metrics can be added, in any order.

    `toolgrade.evaluation.arrow.totals_of` makes them, and `report()` shows them.

    Attributes:
        metrics: The totals of each metric, in the order of the metrics.

    Example:
        >>> import pyarrow as pa
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.evaluation.arrow import score_batch, totals_of
        >>> metrics = [ToolCorrectnessMetric()]
        >>> good, bad = '{"tools_called": [], "expected_tools": []}', "not a case"
        >>> monday, tuesday = (score_batch(pa.record_batch({"case": [case]}), metrics) for case in (good, bad))
        >>> report = (totals_of([monday], metrics) + totals_of([tuesday], metrics)).report()
        >>> report.passed, report.case_count, report.summaries[0].mean
        (False, 2, 1.0)
    """

    metrics: tuple[MetricTotals, ...] = ()

    def __add__(self, other: Totals) -> Totals:
        """Return the sum of both; `Totals()` adds nothing.

        Raises:
            InvalidDataError: They are of different metrics.
        """
        if not self.metrics or not other.metrics:
            return Totals(self.metrics or other.metrics)
        names, other_names = (", ".join(map(str, one.metrics)) for one in (self, other))
        if names != other_names:
            raise InvalidDataError(f"totals must be of the same metrics to be added, got {names} and {other_names}")
        return Totals(tuple(one.plus(another) for one, another in zip(self.metrics, other.metrics, strict=True)))

    def report(self) -> Report:
        """Return a report without single cases.

        Its counts and means equal those of `evaluate` on all cases exactly, its intervals up to rounding.

        Raises:
            InvalidDataError: There is no result, or the metrics have different numbers of results, so that some are
                missing.
        """
        summaries = tuple(metric.summary() for metric in self.metrics)
        amounts = {summary.metric: summary.total for summary in summaries}
        if not any(amounts.values()):
            raise InvalidDataError("totals must have at least one result to be reported, got none")
        if len(set(amounts.values())) > 1:
            raise InvalidDataError(f"each metric must have a result of each case, got {amounts}; add what is missing")
        return Report(tuple(amounts), (), totals=summaries)


@dataclass
class MetricTotals:
    """The results of one metric so far.

    `counts` has the numbers of results by verdict, `total` the sum of the scores, `squares` that of their squares for
    cases without a cluster, and `clusters` the number of scored cases of each cluster, of those that passed, and the
    sum of their scores. A case without a cluster is independent of all others, and is not in there.
    """

    metric: str
    threshold: float
    counts: Counter[str] = field(default_factory=Counter[str])
    total: Fraction = _ZERO
    squares: Fraction = _ZERO
    clusters: dict[str, tuple[int, int, Fraction]] = field(default_factory=dict[str, tuple[int, int, Fraction]])
    error: str | None = None
    in_range: bool = True

    def __str__(self) -> str:
        """Return the name and the threshold, of which both identify a metric here."""
        return f"{self.metric!r} (threshold {self.threshold:g})"

    def add(self, score: float, passed: bool, cluster: str | None, times: int) -> None:
        """Add equal scores.

        Raises:
            InvalidDataError: The score is not a finite number.
        """
        if not math.isfinite(score):
            raise InvalidDataError(f"the score of {self.metric} must be a finite number, got {score!r}")
        self.counts["passed" if passed else "failed"] += times
        self.total += Fraction(score) * times
        self.in_range &= 0 <= score <= 1
        if cluster is None:
            self.squares += Fraction(score) ** 2 * times
        else:
            self._add_cluster(cluster, (times, times * passed, Fraction(score) * times))

    def add_unscored(self, verdict: str, error: str | None, times: int) -> None:
        """Add equal results without a score: `skipped` or `errored`."""
        self.counts[verdict] += times
        # The first in the alphabet, so that it does not depend on the order.
        self.error = min(filter(None, (self.error, error)), default=None)

    def _add_cluster(self, key: str, more: tuple[int, int, Fraction]) -> None:
        scored, passed, total = self.clusters.get(key, (0, 0, _ZERO))
        self.clusters[key] = (scored + more[0], passed + more[1], total + more[2])

    def plus(self, other: MetricTotals) -> MetricTotals:
        """Return the sum of both, which are of the same metric."""
        result = MetricTotals(
            metric=self.metric,
            threshold=self.threshold,
            counts=self.counts + other.counts,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            clusters=dict(self.clusters),
            error=min(filter(None, (self.error, other.error)), default=None),
            in_range=self.in_range and other.in_range,
        )
        for key, cluster in other.clusters.items():
            result._add_cluster(key, cluster)
        return result

    def summary(self) -> MetricSummary:
        """Return the line of this metric in a report."""
        scored = self._scored
        return MetricSummary(
            metric=self.metric,
            threshold=self.threshold,
            passed=self.counts["passed"],
            failed=self.counts["failed"],
            skipped=self.counts["skipped"],
            errored=self.counts["errored"],
            mean=float(self.total) / scored if scored else None,
            mean_interval=self._mean_interval() if self.in_range else None,
            rate_interval=self._rate_interval() if scored else None,
            error=None if self.error is None else str(DEFAULT(self.error)),
        )

    @property
    def _scored(self) -> int:
        return self.counts["passed"] + self.counts["failed"]

    @property
    def _independent(self) -> int:
        """Number of clusters; each case without one counts as its own."""
        return self._scored - sum(scored for scored, _, _ in self.clusters.values()) + len(self.clusters)

    def _mean_interval(self) -> tuple[float, float] | None:
        """Return the interval of the mean as `toolgrade.stats.mean_interval` does from single scores."""
        error = self._error(self.total, self.squares, [(scored, total) for scored, _, total in self.clusters.values()])
        if error is None or error < SAME:
            return None
        mean = float(self.total) / self._scored
        reach = student_t(self._independent - 1, (1 + _CONFIDENCE) / 2) * error
        return max(0.0, mean - reach), min(1.0, mean + reach)

    def _rate_interval(self) -> tuple[float, float]:
        """Return the interval of the share that passed, as `toolgrade.stats.rate_interval` does."""
        scored, independent = self._scored, self._independent
        rate, number = self.counts["passed"] / scored, float(scored)
        quantile = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
        if independent < scored:
            passes = Fraction(self.counts["passed"])
            lone = passes - sum(passed for _, passed, _ in self.clusters.values())
            error = self._error(passes, lone, [(one, Fraction(passed)) for one, passed, _ in self.clusters.values()])
            number = effective(rate, error, independent, scored)
            if 0 < rate < 1 and independent > 1:
                quantile = student_t(independent - 1, (1 + _CONFIDENCE) / 2)
        return wilson(rate, number, quantile)

    def _error(self, total: Fraction, squares: Fraction, clusters: Sequence[tuple[int, Fraction]]) -> float | None:
        """Return the standard error of a mean, or `None` for fewer than two clusters.

        `squares` sums only the values outside clusters; `clusters` has the count and the sum of each cluster.
        """
        number = self._independent
        if number < 2:  # noqa: PLR2004 - a single cluster cannot vary
            return None
        mean = total / self._scored
        lone = self._scored - sum(scored for scored, _ in clusters)
        alone = total - sum((cluster_total for _, cluster_total in clusters), _ZERO)
        deviation = squares - 2 * mean * alone + mean * mean * lone
        deviation += sum(((cluster_total - mean * scored) ** 2 for scored, cluster_total in clusters), _ZERO)
        return math.sqrt(Fraction(number, number - 1) * deviation) / self._scored
