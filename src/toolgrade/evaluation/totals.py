"""Exact totals of results, which can be added in any order.

Scores are floats, and a sum of floats depends on their order. Here it is a `Fraction`, which does not round, so the
mean is the same to the last bit, whichever machine scored which part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.report.report import MetricSummary, error_of
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.stats.intervals import SAME, effective, student_t, wilson
from toolgrade.stats.number_checks import check_confidence

if TYPE_CHECKING:
    from typing_extensions import Self

_COUNTS = ("passed", "failed", "skipped", "errored")


class ClusterSum(NamedTuple):
    """Totals of the scored cases of one cluster.

    Attributes:
        scored: Number of the cases.
        passed: Number of those that passed.
        total: Sum of their scores.
    """

    scored: int = 0
    passed: int = 0
    total: Fraction = Fraction(0)

    def __add__(self, other: ClusterSum) -> ClusterSum:  # type: ignore[override]
        """Return the sum of both."""
        return ClusterSum(self.scored + other.scored, self.passed + other.passed, self.total + other.total)


@dataclass(frozen=True)
class MetricTotals:
    """Totals of the results of one metric.

    Attributes:
        metric: Name of the metric.
        threshold: The lowest score that passes.
        passed: Scored cases at or above the threshold.
        failed: Scored cases below it.
        skipped: Cases to which the metric does not apply.
        errored: Cases that could not be measured.
        total: Sum of the scores.
        squares: Sum of the squares of the scores of cases without a cluster.
        clusters: Totals of each cluster by its key; a case without a cluster counts as its own and is not in here.
        error: See `toolgrade.report.MetricSummary`.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.evaluation import Totals
        >>> weather = [ToolCall(name="get_weather")]
        >>> cases = [LLMTestCase(tools_called=called, expected_tools=weather) for called in (weather, [], weather)]
        >>> report = evaluate(cases, [ToolCorrectnessMetric()])
        >>> [totals] = Totals.of(case.results for case in report.cases).metrics
        >>> totals.metric, totals.passed, totals.failed, round(totals.mean, 2)
        ('tool_correctness', 2, 1, 0.67)
    """

    metric: str
    threshold: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errored: int = 0
    total: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    clusters: Mapping[str, ClusterSum] = field(default_factory=dict[str, ClusterSum])
    error: str | None = None

    @property
    def scored(self) -> int:
        """Cases that have a score."""
        return self.passed + self.failed

    @property
    def mean(self) -> float | None:
        """Mean over the scored cases, as in `Report.summaries`; `None` if no case is scored."""
        return float(self.total) / self.scored if self.scored else None

    def mean_interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of the mean, equal to that of the single scores.

        Returns:
            Both ends, in [0, 1]; `None` if there are fewer than two clusters, or nothing varies between them.

        Raises:
            ConfigurationError: `confidence` is not between 0 and 1.
        """
        check_confidence(confidence)
        error = self._error(self.total, self.squares, [(one.scored, one.total) for one in self.clusters.values()])
        if error is None or error < SAME:
            return None
        mean = float(self.total) / self.scored
        reach = student_t(self._independent - 1, (1 + confidence) / 2) * error
        return max(0.0, mean - reach), min(1.0, mean + reach)

    def rate_interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of the share that passed.

        Returns:
            Both ends, in [0, 1]; `None` if no case is scored.

        Raises:
            ConfigurationError: `confidence` is not between 0 and 1.
        """
        check_confidence(confidence)
        if not self.scored:
            return None
        rate, number, independent = self.passed / self.scored, float(self.scored), self._independent
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        if independent < self.scored:
            passes = Fraction(self.passed)
            lone = passes - sum(one.passed for one in self.clusters.values())
            error = self._error(passes, lone, [(one.scored, Fraction(one.passed)) for one in self.clusters.values()])
            number = effective(rate, error, independent, self.scored)
            if 0 < rate < 1 and independent > 1:
                quantile = student_t(independent - 1, (1 + confidence) / 2)
        return wilson(rate, number, quantile)

    @property
    def _independent(self) -> int:
        """Number of clusters; each case without one counts as its own."""
        return self.scored - sum(one.scored for one in self.clusters.values()) + len(self.clusters)

    def _error(self, total: Fraction, squares: Fraction, clusters: Sequence[tuple[int, Fraction]]) -> float | None:
        """Return the standard error of a mean, or `None` for fewer than two clusters.

        `squares` sums only the values outside clusters; `clusters` has the count and the sum of each cluster.
        """
        number = self._independent
        if number < 2:  # noqa: PLR2004 - a single cluster cannot vary
            return None
        mean = total / self.scored
        lone = self.scored - sum(scored for scored, _ in clusters)
        alone = total - sum((cluster_total for _, cluster_total in clusters), Fraction(0))
        deviation = squares - 2 * mean * alone + mean * mean * lone
        deviation += sum(((cluster_total - mean * scored) ** 2 for scored, cluster_total in clusters), Fraction(0))
        return math.sqrt(Fraction(number, number - 1) * deviation) / self.scored

    @property
    def summary(self) -> MetricSummary:
        """The line of this metric in a report."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return MetricSummary(
            metric=self.metric,
            threshold=self.threshold,
            mean=self.mean,
            mean_interval=self.mean_interval(),
            rate_interval=self.rate_interval(),
            error=self.error,
            **counts,
        )

    def __add__(self, other: MetricTotals) -> MetricTotals:
        """Return the sum of both.

        Raises:
            InvalidDataError: They are of different metrics.
        """
        if (self.metric, self.threshold) != (other.metric, other.threshold):
            first, second = (f"{one.metric!r} (threshold {one.threshold:g})" for one in (self, other))
            raise InvalidDataError(f"sums of different metrics cannot be added: {first} and {second}")
        clusters = dict(self.clusters)
        for key, cluster in other.clusters.items():
            clusters[key] = clusters.get(key, ClusterSum()) + cluster
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return MetricTotals(
            metric=self.metric,
            threshold=self.threshold,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            clusters=clusters,
            error=_first(self.error, other.error),
            **counts,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; sums are exact, as texts such as `"7/4"`."""
        return {
            "metric": self.metric,
            "threshold": self.threshold,
            **{name: getattr(self, name) for name in _COUNTS},
            "total": str(self.total),
            "squares": str(self.squares),
            "clusters": {key: [one.scored, one.passed, str(one.total)] for key, one in sorted(self.clusters.items())},
            **({} if self.error is None else {"error": self.error}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the totals from which `to_dict` made these values."""
        exact = {name: Fraction(plain[name]) for name in ("total", "squares")}
        clusters = {
            key: ClusterSum(scored, passed, Fraction(total))
            for key, (scored, passed, total) in plain["clusters"].items()
        }
        fields: dict[str, Any] = {**plain, **exact, "clusters": clusters}
        return cls(**fields)


@dataclass(frozen=True)
class Totals:
    """Totals of the results of many cases, by metric; two of them can be added.

    Attributes:
        cases: Number of the cases.
        metrics: The totals of each metric, in the order of the metrics.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.evaluation import Totals
        >>> weather = [ToolCall(name="get_weather")]
        >>> cases = [LLMTestCase(tools_called=called, expected_tools=weather) for called in (weather, [])]
        >>> first, second = [Totals.of([case.results]) for case in evaluate(cases, [ToolCorrectnessMetric()]).cases]
        >>> print(first + second)
        tool_correctness: mean 0.5 over 2 cases; 1 passed, 1 failed (at 0.5), 0 skipped, 0 errored
    """

    cases: int = 0
    metrics: tuple[MetricTotals, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Sequence[MetricResult]], clusters: Iterable[str | None] | None = None) -> Self:
        """Return the totals of the results of cases.

        Args:
            results: For each case, one result of each metric, always in the same order.
            clusters: For each case, the key of its cluster; `None` for a case without one. By default no case has one.
        """
        builder = TotalsBuilder()
        keys = None if clusters is None else iter(clusters)
        for row in results:
            builder.add(row, None if keys is None else next(keys))
        return cls(builder.cases, builder.totals().metrics)

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """One summary for each metric, as a report of all cases would have it."""
        return tuple(metric.summary for metric in self.metrics)

    @property
    def passed(self) -> bool:
        """Whether every scored result passed and every result could be measured."""
        return all(not metric.failed and not metric.errored for metric in self.metrics)

    def __add__(self, other: Totals) -> Totals:
        """Return the sum of both; totals without a case add nothing.

        Raises:
            InvalidDataError: They are of different metrics.
        """
        if not self.metrics or not other.metrics:
            return Totals(self.cases + other.cases, self.metrics or other.metrics)
        if len(self.metrics) != len(other.metrics):
            raise InvalidDataError(f"sums of {len(self.metrics)} and {len(other.metrics)} metrics cannot be added")
        pairs = zip(self.metrics, other.metrics, strict=True)
        return Totals(self.cases + other.cases, tuple(metric + other_metric for metric, other_metric in pairs))

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values, exactly, so that totals of other machines can be added to it."""
        return {"cases": self.cases, "metrics": [metric.to_dict() for metric in self.metrics]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the totals from which `to_dict` made these values.

        Raises:
            InvalidDataError: The values are not the output of `to_dict`.
        """
        try:
            return cls(plain["cases"], tuple(map(MetricTotals.from_dict, plain["metrics"])))
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise InvalidDataError(f"this is not the output of Totals.to_dict: {error!r}") from error

    def __str__(self) -> str:
        """Return one line for each metric: mean and counts."""
        return "\n".join(map(str, self.summaries))


def _first(one: str | None, other: str | None) -> str | None:
    """Return the first of two errors in the alphabet, so that sums do not depend on an order."""
    return min(filter(None, (one, other)), default=None)


class Column:
    """The results of one metric so far."""

    def __init__(self, metric: str, threshold: float) -> None:
        """Start without results."""
        self.metric, self.threshold = metric, threshold
        self.counts: Counter[str] = Counter()
        self.scores: Counter[float] = Counter()
        self.lone: Counter[float] = Counter()
        self.clusters: dict[str, ClusterSum] = {}
        self.error: str | None = None

    def add(self, result: MetricResult, cluster: str | None) -> None:
        """Add a result of this metric.

        Raises:
            InvalidDataError: Its score is not a finite number.
        """
        if result.score is None:
            self.counts["skipped" if result.status is ResultStatus.SKIPPED else "errored"] += 1
            self.error = _first(self.error, error_of(result))
            return
        if not math.isfinite(result.score):
            raise InvalidDataError(f"{result.metric} gave the score {result.score!r}, which is not a finite number")
        self.counts["passed" if result.passed else "failed"] += 1
        self.scores[result.score] += 1
        if cluster is None:
            self.lone[result.score] += 1
        else:
            one = ClusterSum(1, int(result.passed is True), Fraction(result.score))
            self.clusters[cluster] = self.clusters.get(cluster, ClusterSum()) + one

    def totals(self) -> MetricTotals:
        """Return the totals of the results so far."""
        return MetricTotals(
            metric=self.metric,
            threshold=self.threshold,
            total=sum((Fraction(score) * times for score, times in self.scores.items()), Fraction(0)),
            squares=sum((Fraction(score) ** 2 * times for score, times in self.lone.items()), Fraction(0)),
            clusters=self.clusters,
            error=self.error,
            **{name: self.counts[name] for name in _COUNTS},
        )


class TotalsBuilder:
    """Adds results case by case. Equal scores are counted, because adding a fraction for each case would be slow."""

    def __init__(self) -> None:
        """Start without results."""
        self.cases = 0
        self._columns: list[Column] = []

    def add(self, results: Sequence[MetricResult], cluster: str | None = None) -> None:
        """Add the results of one case.

        Raises:
            ConfigurationError: The number of results differs from that of the earlier cases.
        """
        if not self.cases:
            self._columns = [Column(result.metric, result.threshold) for result in results]
        if len(results) != len(self._columns):
            raise ConfigurationError(f"a case has {len(results)} results, and one before had {len(self._columns)}")
        self.cases += 1
        for column, result in zip(self._columns, results, strict=True):
            column.add(result, cluster)

    def totals(self) -> Totals:
        """Return the totals of the results so far."""
        return Totals(self.cases, tuple(column.totals() for column in self._columns))
