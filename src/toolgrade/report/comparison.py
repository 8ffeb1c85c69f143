"""Differences between two evaluations, by case and by metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from toolgrade._internal.json import json_text, replace_nonfinite, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import difference_text, number_text, plural
from toolgrade.result import FindingKind, ResultStatus
from toolgrade.stats import Interval
from toolgrade.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _CaseInBoth:
    """A case that is in both evaluations."""

    case: str
    occurrence: int
    index_a: int
    index_b: int

    @property
    def label(self) -> str:
        """The case, with its occurrence if it is not the first."""
        return case_label(self.case, self.occurrence)

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        return dict(to_json_value(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange(_CaseInBoth):
    """A case that one of two evaluations passed and the other failed.

    Attributes:
        case: Its id, else its name, else the question, else its position from 1 as `#3`.
        occurrence: Number of the case among those with the same id, from 1.
        index_a: Its position in A, from 0.
        index_b: Its position in B, from 0.
        score_a: Its score in A.
        score_b: Its score in B.
        finding: The first finding of the result that failed; `None` if there is none.
        tool: The tool that this finding is about; `None` if it is about none.
        kind: The kind of this finding; `None` if there is none.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> a = evaluate([LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])], metrics)
        >>> b = evaluate([LLMTestCase(id="weather", tools_called=[], expected_tools=[weather])], metrics)
        >>> change = compare(a, b).metrics[0].regressions[0]
        >>> print(change.case, change.score_a, change.score_b, change.finding)
        weather 1.0 0.0 Missing: expected #1 'get_weather' was not called.
    """

    score_a: float
    score_b: float
    finding: str | None
    tool: str | None = None
    kind: FindingKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGap(_CaseInBoth):
    """A case that is in both evaluations and lacks a score in at least one.

    Attributes:
        case: Its id, else its name, else the question, else its position from 1 as `#3`.
        occurrence: Number of the case among those with the same id, from 1.
        index_a: Its position in A, from 0.
        index_b: Its position in B, from 0.
        status_a: Its status in A.
        status_b: Its status in B.
        passed_a: Whether it passed in A; `None` without a score.
        passed_b: Whether it passed in B; `None` without a score.
        reason: Why there is no score, in B if it has none there, else in A; `None` if no reason was recorded.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> a = evaluate([LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])], metrics)
        >>> b = evaluate([LLMTestCase(id="weather", expected_tools=[weather])], metrics)
        >>> gap = compare(a, b).metrics[0].unscored[0]
        >>> print(gap.case, gap.status_a.value, gap.status_b.value)
        weather scored failed
    """

    status_a: ResultStatus
    status_b: ResultStatus
    passed_a: bool | None
    passed_b: bool | None
    reason: str | None

    @property
    def lost(self) -> bool:
        """Whether it passed in A and could not be measured in B."""
        return self.passed_a is True and self.status_b is ResultStatus.ERRORED


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLoss(_CaseInBoth):
    """A case that passed in A and has no verdict of its scores in B: its agent broke, or it could not be measured.

    Attributes:
        case: Its id, else its name, else the question, else its position from 1 as `#3`.
        occurrence: Number of the case among those with the same id, from 1.
        index_a: Its position in A, from 0.
        index_b: Its position in B, from 0.
        outcome_b: Its outcome in B.
        reason: Why, in one sentence; empty if nothing was recorded.

    Example:
        >>> from toolgrade import LLMTestCase, Run, ToolCorrectnessMetric, compare, evaluate
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[])
        >>> broken = case.model_copy(update={"run": Run(status="error", error="RuntimeError: 401 invalid key")})
        >>> a, b = (evaluate([one], [ToolCorrectnessMetric()]) for one in (case, broken))
        >>> print(compare(a, b).losses[0].outcome_b, compare(a, b).losses[0].reason)
        agent_error RuntimeError: 401 invalid key
    """

    outcome_b: Outcome
    reason: str


class OutcomeChanges(NamedTuple):
    """How many cases passed in one of two evaluations and failed in the other, over those with a verdict in both.

    Attributes:
        both: Cases that passed or failed in both evaluations.
        passed_a: How many of them passed in A.
        passed_b: How many of them passed in B.
        worse: How many passed in A and failed in B.
        better: How many failed in A and passed in B.
        p_value: Of the exact test of worse against better, two-sided; `None` without cases.
    """

    both: int
    passed_a: int
    passed_b: int
    worse: int
    better: int
    p_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """Differences of the results of one metric. All numbers are over the pairs: cases that have a score in both.

    Attributes:
        metric: Its name in A.
        metric_b: Its name in B; it differs only if that was allowed.
        threshold_a: The lowest score that passes in A.
        threshold_b: The lowest score that passes in B.
        both_passed: Pairs that passed in both.
        both_failed: Pairs that failed in both.
        regressions: Pairs that passed in A and failed in B, in the order of A.
        improvements: Pairs that failed in A and passed in B.
        mean_a: Mean score of the pairs in A; `None` without pairs.
        mean_b: Mean score of the pairs in B; `None` without pairs.
        difference: Mean of B minus A; `None` without pairs.
        interval: Interval of `difference`; `None` with fewer than two ids.
        p_value: Of the exact test over pass and fail, two-sided; `None` without pairs.
        corrected: `p_value` after Holm's correction for the number of metrics.
        unscored: Cases in both without a score in at least one.
        missing: Cases that passed in A and are not in B.
        warned_a: Pairs whose result in A has warnings, such as of an incomplete recording.
        warned_b: Pairs whose result in B has warnings.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> a = evaluate([LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])], metrics)
        >>> b = evaluate([LLMTestCase(id="weather", tools_called=[], expected_tools=[weather])], metrics)
        >>> difference = compare(a, b).metrics[0]
        >>> print(difference.mean_a, difference.mean_b, [change.case for change in difference.regressions])
        1.0 0.0 ['weather']
    """

    metric: str
    metric_b: str
    threshold_a: float
    threshold_b: float
    both_passed: int
    both_failed: int
    regressions: tuple[CaseChange, ...]
    improvements: tuple[CaseChange, ...]
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    interval: Interval | None
    p_value: float | None
    corrected: float | None
    unscored: tuple[CaseGap, ...]
    missing: tuple[str, ...]
    warned_a: int
    warned_b: int

    @property
    def paired(self) -> int:
        """Cases that have a score in both."""
        return self.both_passed + self.both_failed + len(self.regressions) + len(self.improvements)

    @property
    def lost(self) -> tuple[CaseGap, ...]:
        """Cases that passed in A and could not be measured in B."""
        return tuple(gap for gap in self.unscored if gap.lost)

    def worse(self, alpha: float | None = None) -> bool:
        """Return whether a case regressed; with `alpha`, whether significantly more became worse than better.

        Significant is a corrected p-value of at most alpha.
        """
        if alpha is None:
            return bool(self.regressions)
        more = len(self.regressions) > len(self.improvements)
        return more and self.corrected is not None and self.corrected <= alpha

    def failures(self, alpha: float | None, *, allow_missing: bool) -> Iterator[str]:
        """Yield why B must not replace A; see `Comparison.failures`."""
        if self.worse(alpha):
            text = f"{self.metric}: {plural(len(self.regressions), 'case')} passed in A and failed in B"
            if alpha is not None:
                better = len(self.improvements)
                text += f", {better} the other way round (corrected p {number_text(self.corrected or 0.0)})"
            yield text
        if self.lost:
            yield f"{self.metric}: {plural(len(self.lost), 'case')} passed in A and could not be measured in B"
        if self.missing and not allow_missing:
            are = "is" if len(self.missing) == 1 else "are"
            yield f"{self.metric}: {plural(len(self.missing), 'case')} passed in A and {are} not in B"

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; a number that is not known is null."""
        return {"metric": self.metric, "metric_b": self.metric_b, "paired": self.paired, **to_json_value(self)}

    def __str__(self) -> str:
        """Return the difference, its interval and the changes on one line."""
        if self.difference is None:
            return f"{self.metric}: no case has a score in both"
        ends = self.interval
        within = "" if ends is None else f" ({difference_text(ends.low)} to {difference_text(ends.high)})"
        return (
            f"{self.metric}: {difference_text(self.difference)}{within} over {plural(self.paired, 'case')}; "
            f"{len(self.regressions)} worse, {len(self.improvements)} better, p {number_text(self.corrected or 0.0)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Differences of evaluation B from evaluation A, over the cases that both have.

    Attributes:
        cases_a: Cases of A.
        cases_b: Cases of B.
        in_both: Cases that are in both.
        verdict_a: Whether the gate of A holds.
        verdict_b: Whether the gate of B holds.
        about_a: Facts about A, such as its name and when it began; see `Report.about`.
        about_b: Facts about B.
        interrupted_b: Whether B was stopped before all its cases were measured.
        outcomes: How many cases became worse and better by their outcome, over all metrics.
        losses: Cases that passed in A, and whose agent broke in B, or that could not be measured there.
        only_a: Cases that only A has.
        only_b: Cases that only B has.
        metrics: One entry for each metric that both have, in the order of A.
        metrics_only_a: Metrics that only A has; they are not compared.
        metrics_only_b: Metrics that only B has.
        repeated: Whether an id occurs several times, as with trials. Its cases form one cluster: they are resampled
            together, and the test over pass and fail is Fisher's randomization test over ids, not McNemar's over cases.
        allowed: Kinds of differences that were allowed.
        confidence: Confidence level of the intervals.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
        notes: Caveats, such as differences that were allowed.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> a = evaluate([LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])], metrics)
        >>> b = evaluate([LLMTestCase(id="weather", tools_called=[], expected_tools=[weather])], metrics)
        >>> comparison = compare(a, b)
        >>> print(comparison)
        tool_correctness: -1 over 1 case; 1 worse, 0 better, p 1
    """

    cases_a: int
    cases_b: int
    in_both: int
    verdict_a: Verdict
    verdict_b: Verdict
    about_a: Mapping[str, Any]
    about_b: Mapping[str, Any]
    interrupted_b: bool
    outcomes: OutcomeChanges
    losses: tuple[CaseLoss, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    metrics: tuple[MetricComparison, ...]
    metrics_only_a: tuple[str, ...]
    metrics_only_b: tuple[str, ...]
    repeated: bool
    allowed: tuple[str, ...]
    confidence: float
    resamples: int
    seed: int
    notes: tuple[str, ...]

    def failures(self, *, alpha: float | None = None, allow_missing: bool = False) -> tuple[str, ...]:
        """Return why B must not replace A, one sentence each; empty if nothing speaks against it.

        A metric speaks against it if a case that passed in A failed in B (with `alpha`: if significantly more became
        worse than better, see `MetricComparison.worse`), could not be measured in B, or is not in B. So do a case that
        passed in A and whose agent broke in B, an interrupted B, and no case with a score in both. Cases that a metric
        skips in B, and metrics that B does not have, do not count.

        Args:
            alpha: Count regressions only if they are significant at this level, in (0, 1).
            allow_missing: Do not count cases that B does not have.

        Raises:
            ConfigurationError: `alpha` is out of range.
        """
        valid = alpha is None or (not isinstance(alpha, bool) and 0 < alpha < 1)
        require(valid, "alpha must be a number between 0 and 1", alpha)
        failures: list[str] = []
        for metric in self.metrics:
            failures += metric.failures(alpha, allow_missing=allow_missing)
        failures += self._lost(any(metric.lost for metric in self.metrics))
        if self.interrupted_b:
            failures.append(f"B is not complete: {self.verdict_b.sentence}")
        if not any(metric.paired for metric in self.metrics):
            failures.append("no case has a score in both")
        return tuple(failures)

    def _lost(self, are_named: bool) -> Iterator[str]:
        """Yield how many cases passed in A and have no verdict in B; metrics may have named those not measured."""
        for outcome, words in _LOSSES.items():
            lost = [loss for loss in self.losses if loss.outcome_b == outcome]
            if lost and not (are_named and outcome == "not_measured"):
                reason = f" ({lost[0].label}: {lost[0].reason})" if lost[0].reason else ""
                yield f"{plural(len(lost), 'case')} passed in A and {words} in B{reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        plain = {**to_json_value(self), "metrics": [metric.to_dict() for metric in self.metrics]}
        plain["outcomes"] = self.outcomes._asdict()
        return dict(replace_nonfinite(plain))

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """Return one line per metric."""
        return "\n".join(map(str, self.metrics))


_LOSSES: Final[Mapping[Outcome, str]] = {
    "agent_error": "broke the agent",
    "failed": "did not end as it must",
    "not_measured": "could not be measured",
}


def case_label(case: str, occurrence: int) -> str:
    """Return the label of a case: `refund`, and `refund (2)` if the id occurs for the second time."""
    return case if occurrence == 1 else f"{case} ({occurrence})"
