"""Totals of results, which are exact and can be added in any order.

Scores are floats, and a sum of floats depends on their order. Here it is a `Fraction`, which does not round: whatever
machine scored which part, the mean is the one that all cases together have, to the last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.report import MetricSummary
from toolmark.result import MetricResult, ResultStatus
from toolmark.stats import student_t
from toolmark.stats.intervals import SAME, effective, wilson
from toolmark.stats.number_checks import check_confidence

if TYPE_CHECKING:
    from typing_extensions import Self

_COUNTS = ("passed", "failed", "skipped", "errored")


class ClusterSum(NamedTuple):
    """What the scored cases of one cluster add up to.

    Attributes:
        scored: How many there are.
        passed: How many of them passed.
        total: Sum of their scores.
    """

    scored: int = 0
    passed: int = 0
    total: Fraction = Fraction(0)

    def __add__(self, other: ClusterSum) -> ClusterSum:  # type: ignore[override]
        """Return both together."""
        return ClusterSum(self.scored + other.scored, self.passed + other.passed, self.total + other.total)


@dataclass(frozen=True)
class MetricTotals:
    """What the results of one metric add up to.

    Attributes:
        metric: Name of the metric.
        threshold: The score from which on a case passes.
        passed: Scored cases at or above the threshold.
        failed: Scored cases below it.
        skipped: Cases the question does not apply to.
        errored: Cases that could not be measured.
        total: Sum of the scores.
        squares: Sum of the squares of the scores that belong to no cluster.
        clusters: What the cases of each cluster add up to, by its key; those that belong to none are clusters of their
            own, and not in here.
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

    @property
    def scored(self) -> int:
        """Cases that have a score."""
        return self.passed + self.failed

    @property
    def mean(self) -> float | None:
        """Mean over the scored cases, the one that `Report.summaries` gives; `None` where there is none."""
        return float(self.total) / self.scored if self.scored else None

    def mean_interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of the mean, as `toolmark.stats.mean_interval` gives it of the single scores.

        Returns:
            Both ends, in [0, 1]; `None` where there are fewer than two clusters, or nothing varies between them.

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
        """Return the interval of the share that passed, as `toolmark.stats.rate_interval` gives it of the single ones.

        Returns:
            Both ends, in [0, 1]; `None` where nothing was scored.

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
        """How many clusters there are, each case that belongs to none being one."""
        return self.scored - sum(one.scored for one in self.clusters.values()) + len(self.clusters)

    def _error(self, total: Fraction, squares: Fraction, clusters: Sequence[tuple[int, Fraction]]) -> float | None:
        """Return the standard error of a mean, or `None` for fewer than two clusters.

        `squares` sums only the values outside clusters; `clusters` has the count and the sum of each cluster.
        """
        number = self._independent
        if number < 2:  # noqa: PLR2004 - two are the fewest that can vary
            return None
        mean = total / self.scored
        lone = self.scored - sum(scored for scored, _ in clusters)
        alone = total - sum((cluster_total for _, cluster_total in clusters), Fraction(0))
        deviation = squares - 2 * mean * alone + mean * mean * lone
        deviation += sum(((cluster_total - mean * scored) ** 2 for scored, cluster_total in clusters), Fraction(0))
        return math.sqrt(Fraction(number, number - 1) * deviation) / self.scored

    @property
    def summary(self) -> MetricSummary:
        """The line of a report."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return MetricSummary(
            metric=self.metric,
            threshold=self.threshold,
            mean=self.mean,
            mean_interval=self.mean_interval(),
            rate_interval=self.rate_interval(),
            **counts,
        )

    def __add__(self, other: MetricTotals) -> MetricTotals:
        """Return both together.

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
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return what `to_dict` gave."""
        exact = {name: Fraction(plain[name]) for name in ("total", "squares")}
        clusters = {
            key: ClusterSum(scored, passed, Fraction(total))
            for key, (scored, passed, total) in plain["clusters"].items()
        }
        fields: dict[str, Any] = {**plain, **exact, "clusters": clusters}
        return cls(**fields)


@dataclass(frozen=True)
class Totals:
    """What the results of many cases add up to, metric by metric; two of them can be added.

    Attributes:
        cases: How many cases there are.
        metrics: One for each metric, in their order.

    Example:
        >>> from toolmark import LLMTestCase, ToolCorrectnessMetric, evaluate
        >>> from toolmark.scale import Totals
        >>> case = LLMTestCase(tools_called=[], expected_tools=[])
        >>> results = evaluate([case], [ToolCorrectnessMetric()]).cases[0].results
        >>> one = Totals.of([results])
        >>> print(one + one)
        tool_correctness: mean 1 over 2 cases; 2 passed, 0 failed (at 0.5), 0 skipped, 0 errored
    """

    cases: int = 0
    metrics: tuple[MetricTotals, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Sequence[MetricResult]], clusters: Iterable[str | None] | None = None) -> Self:
        """Return what the results of cases add up to.

        Args:
            results: Of each case, one result for each metric, always in the same order.
            clusters: The key of the cluster of each case; `None` where it belongs to none.
        """
        adding = Adding()
        keys = None if clusters is None else iter(clusters)
        for row in results:
            adding.add(row, None if keys is None else next(keys))
        return cls(adding.cases, adding.totals().metrics)

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """One summary for each metric, as a report of all cases would have it."""
        return tuple(metric.summary for metric in self.metrics)

    @property
    def passed(self) -> bool:
        """Whether every scored result passed and every result could be measured."""
        return all(not metric.failed and not metric.errored for metric in self.metrics)

    def __add__(self, other: Totals) -> Totals:
        """Return both together; what has no case adds nothing.

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
        """Return what `to_dict` gave.

        Raises:
            InvalidDataError: It did not.
        """
        try:
            return cls(plain["cases"], tuple(map(MetricTotals.from_dict, plain["metrics"])))
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise InvalidDataError(f"this is not the output of Totals.to_dict: {error!r}") from error

    def __str__(self) -> str:
        """Return one line for each metric: mean and counts."""
        return "\n".join(map(str, self.summaries))


class Column:
    """The results of one metric so far."""

    def __init__(self, metric: str, threshold: float) -> None:
        """Begin with none."""
        self.metric, self.threshold = metric, threshold
        self.counts: Counter[str] = Counter()
        self.scores: Counter[float] = Counter()
        self.lone: Counter[float] = Counter()
        self.clusters: dict[str, ClusterSum] = {}

    def add(self, result: MetricResult, cluster: str | None) -> None:
        """Add a result of this metric.

        Raises:
            InvalidDataError: Its score is not a finite number.
        """
        if result.score is None:
            self.counts["skipped" if result.status is ResultStatus.SKIPPED else "errored"] += 1
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
        """Return what was added so far."""
        return MetricTotals(
            metric=self.metric,
            threshold=self.threshold,
            total=sum((Fraction(score) * times for score, times in self.scores.items()), Fraction(0)),
            squares=sum((Fraction(score) ** 2 * times for score, times in self.lone.items()), Fraction(0)),
            clusters=self.clusters,
            **{name: self.counts[name] for name in _COUNTS},
        )


class Adding:
    """Adds results up, case by case. Equal scores are counted, and turned into fractions once."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.cases = 0
        self._columns: list[Column] = []

    def add(self, results: Sequence[MetricResult], cluster: str | None = None) -> None:
        """Add the results of one case.

        Raises:
            ConfigurationError: There are more or fewer than of the case before.
        """
        if not self.cases:
            self._columns = [Column(result.metric, result.threshold) for result in results]
        if len(results) != len(self._columns):
            raise ConfigurationError(f"a case has {len(results)} results, and one before had {len(self._columns)}")
        self.cases += 1
        for column, result in zip(self._columns, results, strict=True):
            column.add(result, cluster)

    def totals(self) -> Totals:
        """Return what was added so far."""
        return Totals(self.cases, tuple(column.totals() for column in self._columns))
