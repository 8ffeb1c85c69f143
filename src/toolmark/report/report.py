"""The report of an evaluation: every result, and what they sum up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import number_text, plural
from toolmark.cases import AnyCase
from toolmark.redact import DEFAULT, Redactor
from toolmark.result import MetricResult, ResultStatus
from toolmark.stats import mean_interval, pass_at_k, pass_hat_k, rate_interval


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The results of one case.

    Attributes:
        index: Position of the case in what was evaluated, from 0.
        case: The case.
        results: One per metric, in the order of the metrics.
        apart: Places of metrics that are about other cases altogether, such as those of a component; their results
            are skipped here, and neither listed nor counted.
        trial: Number of the trial, from 1, where every question was asked several times; otherwise `None`.
        golden: Position of the golden among the questions, from 0, where it may have several rows: trials were made,
            or its components are scored, too; otherwise `None`.
    """

    index: int
    case: AnyCase
    results: tuple[MetricResult, ...]
    apart: frozenset[int] = frozenset()
    trial: int | None = None
    golden: int | None = None

    @property
    def name(self) -> str:
        """The case's id, else its name, else its position from 1 as `#3`; trials of one golden have the same."""
        place = self.index if self.golden is None else self.golden
        return self._named("id") or self._named("name") or f"#{place + 1}"

    @property
    def label(self) -> str:
        """The name, with the number of the trial where there are several: `refund (trial 2)`."""
        return self.name if self.trial is None else f"{self.name} (trial {self.trial})"

    @property
    def cluster(self) -> int:
        """What results that are not independent of each other share: the golden, or the case itself."""
        return self.index if self.golden is None else self.golden

    @property
    def own_results(self) -> tuple[MetricResult, ...]:
        """The results of the metrics that are about this case."""
        return tuple(result for place, result in enumerate(self.results) if place not in self.apart)

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as JSON values, without secrets, with the case's id and name but not its content."""
        plain: dict[str, Any] = {"index": self.index}
        for name in ("id", "name"):
            if self._named(name) is not None:
                plain[name] = self._named(name)
        for name in ("trial", "golden"):
            if getattr(self, name) is not None:
                plain[name] = getattr(self, name)
        if self.apart:
            plain["apart"] = [self.results[place].metric for place in sorted(self.apart)]
        return {**plain, "results": [result.to_dict(redactor) for result in self.own_results]}

    def _named(self, field: str) -> str | None:
        """Return the id or name; what was evaluated may be something that has neither, and failed for it."""
        value = getattr(self.case, field, None)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """What one metric says of all cases.

    Attributes:
        metric: Name of the metric.
        threshold: The score from which on a case passes.
        passed: Scored cases at or above the threshold.
        failed: Scored cases below it.
        skipped: Cases the question does not apply to.
        errored: Cases that could not be measured.
        mean: Mean over the scored cases; `None` where there is none.
        mean_interval: Between what the mean lies, at 95 %, trials of one golden taken as one cluster (see
            `toolmark.stats.mean_interval`); `None` where the results do not tell: there are fewer than two goldens, or
            nothing varies between them.
        rate_interval: Likewise of the share of scored cases that passed (see `toolmark.stats.rate_interval`); also told
            where all or none did, and `None` only where nothing was scored.
        coverage: Share of the questions to the judge that have a yes or no, in [0, 1]; `None` where it was asked none.
        usage: Tokens and requests that judging took, by name.
        cost: What that cost; `None` where no price is known, or some of it is not known.
    """

    metric: str
    threshold: float
    passed: int
    failed: int
    skipped: int
    errored: int
    mean: float | None
    mean_interval: tuple[float, float] | None = None
    rate_interval: tuple[float, float] | None = None
    coverage: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None

    @classmethod
    def of(
        cls, metric: str, results: Sequence[MetricResult], clusters: Sequence[Hashable] | None = None
    ) -> MetricSummary:
        """Return what the results of one metric sum up to; the threshold is that of the first.

        Args:
            metric: Name of the metric.
            results: Its results.
            clusters: What each one belongs to; those of one cluster are not independent of each other. By default all
                are.
        """
        keys = range(len(results)) if clusters is None else clusters
        scored = [(one.score, one.passed is True, key) for one, key in zip(results, keys, strict=True) if _scored(one)]
        scores = [score for score, _, _ in scored if score is not None]
        mine = [key for _, _, key in scored]
        in_range = all(0 <= score <= 1 for score in scores)  # a metric may be anybody's code
        return cls(
            metric=metric,
            threshold=results[0].threshold if results else 0.0,
            passed=sum(result.passed is True for result in results),
            failed=sum(result.passed is False for result in results),
            skipped=sum(result.status is ResultStatus.SKIPPED for result in results),
            errored=sum(result.status is ResultStatus.FAILED for result in results),
            mean=fsum(scores) / len(scores) if scores else None,
            mean_interval=mean_interval(scores, mine) if in_range else None,
            rate_interval=rate_interval([passed for _, passed, _ in scored], mine),
            coverage=_coverage(results),
            usage=_usage(results),
            cost=_cost(results),
        )

    @property
    def scored(self) -> int:
        """Cases that have a score."""
        return self.passed + self.failed

    @property
    def rate(self) -> float | None:
        """Share of the scored cases that passed; `None` where there is none."""
        return self.passed / self.scored if self.scored else None

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; `mean`, `rate` and their intervals are null where there is none.

        `coverage`, `usage` and `cost` are there where something was judged.
        """
        names = ("metric", "threshold", "mean", "mean_interval", "rate", "rate_interval")
        plain = {name: _plain(getattr(self, name)) for name in (*names, "passed", "failed", "skipped", "errored")}
        if self.coverage is not None or self.usage:
            plain |= {"coverage": self.coverage, "usage": dict(self.usage), "cost": self.cost}
        return plain

    def __str__(self) -> str:
        """Return the mean and the counts on one line."""
        mean = "no score" if self.mean is None else f"mean {number_text(self.mean)}"
        return (
            f"{self.metric}: {mean} over {plural(self.scored, 'case')}; {self.passed} passed, "
            f"{self.failed} failed (at {self.threshold:g}), {self.skipped} skipped, {self.errored} errored"
        )


def _scored(result: MetricResult) -> bool:
    return result.score is not None


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _coverage(results: Sequence[MetricResult]) -> float | None:
    asked = [one for result in results for unit in result.units for one in unit.questions if one.decided_by == "judge"]
    return sum(one.decision in {"yes", "no"} for one in asked) / len(asked) if asked else None


def _usage(results: Sequence[MetricResult]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.usage)
    return dict(total)


def _cost(results: Sequence[MetricResult]) -> float | None:
    """Return the sum of what is known; `None` where something was used of which no price is known."""
    costs = [result.cost for result in results if result.cost is not None]
    if not costs or any(result.cost is None and any(result.usage.values()) for result in results):
        return None
    return fsum(costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """A golden of which some trials passed and some did not.

    Attributes:
        name: Its id, else its position as `#3`.
        passed: Trials that passed.
        scored: Trials that have a score.
    """

    name: str
    passed: int
    scored: int

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return {"name": self.name, "passed": self.passed, "scored": self.scored}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """What several trials of each golden say of one metric.

    A trial that was skipped or could not be measured is no trial that failed: it is not counted.

    Attributes:
        metric: Name of the metric.
        goldens: How many goldens it is about, those without a scored trial among them.
        trials: Trials that were asked for, of each.
        pass_at: By k, from 1 to `trials`: the chance that at least one of k trials passes, the mean over the goldens
            with at least k scored trials, unbiased; `None` where there is no such golden.
        pass_hat: Likewise that all of k trials pass (pass^k).
        counted: By k, over how many goldens these are.
        flaky: Goldens of which some trials passed and some did not, in their order.
    """

    metric: str
    goldens: int
    trials: int
    pass_at: Mapping[int, float | None]
    pass_hat: Mapping[int, float | None]
    counted: Mapping[int, int]
    flaky: tuple[Flaky, ...]

    @classmethod
    def of(cls, metric: str, trials: int, results: Sequence[tuple[CaseResult, MetricResult]]) -> TrialSummary:
        """Return what the results of one metric say.

        Where a component ran several times in one trial, the trial has a score if all of them have, and passed if all
        did.

        Args:
            metric: Name of the metric.
            trials: How often each golden was to be asked.
            results: Its results, each with its case.
        """
        names: dict[int, str] = {}
        made: dict[int, dict[int | None, list[bool | None]]] = {}
        for case, result in results:
            names.setdefault(case.cluster, case.name)
            made.setdefault(case.cluster, {}).setdefault(case.trial, []).append(result.passed)
        tallies: dict[int, tuple[int, int]] = {}
        for golden, by_trial in made.items():
            known = [all(passes) for passes in by_trial.values() if None not in passes]
            tallies[golden] = len(known), sum(known)
        ks = range(1, trials + 1)
        return cls(
            metric=metric,
            goldens=len(made),
            trials=trials,
            pass_at={k: _mean_of(pass_at_k(scored, passed, k) for scored, passed in tallies.values()) for k in ks},
            pass_hat={k: _mean_of(pass_hat_k(scored, passed, k) for scored, passed in tallies.values()) for k in ks},
            counted={k: sum(scored >= k for scored, _ in tallies.values()) for k in ks},
            flaky=tuple(
                Flaky(name=names[golden], passed=passed, scored=scored)
                for golden, (scored, passed) in tallies.items()
                if 0 < passed < scored
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; the keys of the objects by k are texts."""
        by_k = ("pass_at", "pass_hat", "counted")
        return {
            **{name: getattr(self, name) for name in ("metric", "goldens", "trials")},
            **{name: {str(k): value for k, value in getattr(self, name).items()} for name in by_k},
            "flaky": [one.to_dict() for one in self.flaky],
        }


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


@dataclass(frozen=True)
class Report:
    """All results of an evaluation.

    Attributes:
        metrics: Names of the metrics, in their order; no two are equal.
        cases: One entry per case, in the order given.
        trials: How often each golden was to be asked; `None` where cases were given, or each was asked once.
        interrupted: Whether it was stopped before all cases were measured.
        about: What is known of the evaluation, as JSON values: `toolmark` (version), `python`, `started_at` (ISO 8601),
            `seconds`, and what else its maker says. Reports that differ in nothing else are equal.
    """

    metrics: tuple[str, ...]
    cases: tuple[CaseResult, ...]
    trials: int | None = None
    interrupted: bool = False
    about: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @property
    def trial_summaries(self) -> tuple[TrialSummary, ...]:
        """One summary per metric where there are trials; otherwise none."""
        if self.trials is None:
            return ()
        return tuple(
            TrialSummary.of(name, self.trials, [(case, case.results[place]) for case in self._about(place)])
            for place, name in enumerate(self.metrics)
        )

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """One summary per metric. Not measured is not zero: means run over scored results only."""
        return tuple(
            MetricSummary.of(
                name,
                [case.results[place] for case in self._about(place)],
                [case.cluster for case in self._about(place)],
            )
            for place, name in enumerate(self.metrics)
        )

    def _about(self, place: int) -> list[CaseResult]:
        """Return the cases that a metric is about."""
        return [case for case in self.cases if place not in case.apart]

    def results(self) -> Iterator[tuple[CaseResult, MetricResult]]:
        """Yield every result with its case; without those of metrics that are about other cases."""
        for case in self.cases:
            for result in case.own_results:
                yield case, result

    @property
    def passed(self) -> bool:
        """Whether every scored result passed and every result could be measured."""
        return all(result.passed or result.status is ResultStatus.SKIPPED for _, result in self.results())

    def to_dict(self, redactor: Redactor = DEFAULT) -> dict[str, Any]:
        """Return this as JSON values: `metrics` (one summary each) and `cases` (one entry each).

        Where there are trials, also `trials` and `trial_summaries`; where it was stopped before its end, `interrupted`;
        and what is known `about` it.

        Args:
            redactor: Takes secrets out of the values shown; `toolmark.redact.OFF` leaves them. Reasons never hold any.
        """
        plain: dict[str, Any] = {
            "metrics": [summary.to_dict() for summary in self.summaries],
            "cases": [case.to_dict(redactor) for case in self.cases],
        }
        if self.trials is not None:
            plain["trials"] = self.trials
            plain["trial_summaries"] = [summary.to_dict() for summary in self.trial_summaries]
        if self.interrupted:
            plain["interrupted"] = True
        if self.about:
            plain["about"] = redactor(dict(self.about))
        written: dict[str, Any] = replace_nonfinite(plain)
        return written

    def to_json(self, *, indent: int | None = None, redactor: Redactor = DEFAULT) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(redactor), indent=indent)

    def __str__(self) -> str:
        """Return one line per metric: mean and counts."""
        return "\n".join(map(str, self.summaries))
