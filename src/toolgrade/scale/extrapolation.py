"""Estimates for all cases from the results of a random sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pydantic import JsonValue

from toolgrade._internal.json import canonical_json, json_path, to_json_value
from toolgrade._internal.model import Model
from toolgrade._internal.text import number_text, plural
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.report import CaseResult, Report
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.scale.sample import SAMPLED
from toolgrade.stats import Stratum, population_mean, population_mean_interval, population_rate_interval

_PATH = json_path(("metadata", SAMPLED))


class _Stratum(Model):
    """Stratum of a drawn case."""

    by: str
    value: JsonValue
    population: int
    drawn: int


class _Group(NamedTuple):
    """Stratum of a sample: its name, the number of its cases, and how many of them were drawn.

    A simple sample has one stratum without a name.
    """

    name: str
    population: int
    drawn: int


_CasesByGroup: TypeAlias = Mapping[_Group, Sequence[CaseResult]]


class _Source(NamedTuple):
    """The sample of a case; equal for all cases of one sample."""

    seed: int
    population: int
    drawn: int
    by: str | None


class _Origin(Model):
    """Origin of a drawn case, from its metadata."""

    file: str
    line: int
    seed: int
    population: int
    drawn: int
    stratum: _Stratum | None = None

    @property
    def group(self) -> _Group:
        """Stratum of the case."""
        if self.stratum is None:
            return _Group("", self.population, self.drawn)
        return _Group(canonical_json(self.stratum.value), self.stratum.population, self.stratum.drawn)

    @property
    def source(self) -> _Source:
        """The sample of the case."""
        return _Source(self.seed, self.population, self.drawn, None if self.stratum is None else self.stratum.by)


@dataclass(frozen=True)
class Extrapolation:
    """Estimates of one metric for all cases, from a sample.

    Attributes:
        metric: Name of the metric.
        threshold: Lowest score that passes.
        population: Number of all cases.
        drawn: Number of cases in the sample.
        scored: Drawn cases with a score. The mean and the rate are estimates for all cases that the metric can score.
        skipped: Drawn cases that the metric does not apply to.
        errored: Drawn cases that could not be measured; the estimates are biased if these score differently.
        mean: Mean score of all cases; `None` if no case is scored or a score is outside [0, 1].
        mean_interval: Its confidence interval, see `toolgrade.stats.population_mean_interval`.
        rate: Share of cases that pass, in [0, 1]; `None` if no case is scored.
        rate_interval: Its confidence interval, see `toolgrade.stats.population_rate_interval`.
        confidence: Level of the intervals, in (0, 1).

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate, write_cases
        >>> from toolgrade.scale import extrapolate, sample_files
        >>> weather = [ToolCall(name="get_weather")]
        >>> cases = [LLMTestCase(tools_called=called, expected_tools=weather) for called in [weather, []] * 100]
        >>> write_cases("cases.jsonl", cases)
        >>> sample = sample_files(["cases.jsonl"], 60, processes=1)
        >>> [estimate] = extrapolate(evaluate(sample.cases, [ToolCorrectnessMetric()]))
        >>> print(estimate)
        tool_correctness: mean 0.4667 (0.3579 to 0.5754), 0.4667 pass (0.3648 to 0.5714), of 200 cases,
        estimated from 60; 60 scored, 0 skipped, 0 errored
    """

    metric: str
    threshold: float
    population: int
    drawn: int
    scored: int
    skipped: int
    errored: int
    mean: float | None
    mean_interval: tuple[float, float] | None
    rate: float | None
    rate_interval: tuple[float, float] | None
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        fields: dict[str, Any] = to_json_value(self)
        return fields

    def __str__(self) -> str:
        """Return the estimates with their intervals on one line."""
        basis = f"of {plural(self.population, 'case')}, estimated from {self.drawn}"
        if self.rate is None:
            return f"{self.metric}: no score {basis}"
        shares = [f"{number_text(self.rate)} pass{_between(self.rate_interval)}"]
        if self.mean is not None:
            shares.insert(0, f"mean {number_text(self.mean)}{_between(self.mean_interval)}")
        counts = f"{self.scored} scored, {self.skipped} skipped, {self.errored} errored"
        return f"{self.metric}: {', '.join(shares)}, {basis}; {counts}"


def extrapolate(report: Report, *, confidence: float = 0.95) -> tuple[Extrapolation, ...]:
    """Estimate the mean score and the pass rate of all cases from the results of a sample, for each metric.

    Cases are weighted by the inverse sampling rate of their stratum, so each stratum counts by its size. Mean and rate
    are over the cases that have a score; skipped cases and cases that could not be measured are not counted as 0.

    Args:
        report: The results of all cases of a sample from `sample_files`, with the cases themselves: their metadata has
            the origins.
        confidence: Level of the intervals, in (0, 1).

    Raises:
        InvalidDataError: A case has no origin, occurs twice, or is from another sample; or cases of the sample are
            missing.
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate, write_cases
        >>> from toolgrade.scale import extrapolate, sample_files
        >>> weather = [ToolCall(name="get_weather")]
        >>> cases = [LLMTestCase(tools_called=called, expected_tools=weather) for called in [weather, []] * 100]
        >>> write_cases("cases.jsonl", cases)
        >>> sample = sample_files(["cases.jsonl"], 60, processes=1)
        >>> [estimate] = extrapolate(evaluate(sample.cases, [ToolCorrectnessMetric()]))
        >>> round(estimate.rate, 2), [round(end, 2) for end in estimate.rate_interval]
        (0.47, [0.36, 0.57])
    """
    cases = _by_group(report.cases)
    return tuple(_extrapolate_metric(cases, index, name, confidence) for index, name in enumerate(report.metrics))


def _extrapolate_metric(cases: _CasesByGroup, index: int, metric: str, confidence: float) -> Extrapolation:
    by_group = {group: [case.results[index] for case in members] for group, members in cases.items()}
    results = [result for members in by_group.values() for result in members]
    scores = [result.score for result in results if result.score is not None]
    statuses = Counter(result.status for result in results)
    in_range = all(0 <= score <= 1 for score in scores)  # a user's metric may have another range
    scored = _strata(by_group, scores=True) if in_range else []
    passed = _strata(by_group, scores=False)
    return Extrapolation(
        metric=metric,
        threshold=results[0].threshold,
        population=sum(group.population for group in by_group),
        drawn=len(results),
        scored=len(scores),
        skipped=statuses[ResultStatus.SKIPPED],
        # This status means that an error prevented the measurement, not that a case did not pass.
        errored=statuses[ResultStatus.FAILED],
        mean=population_mean(scored),
        mean_interval=population_mean_interval(scored, confidence=confidence),
        rate=population_mean(passed),
        rate_interval=population_rate_interval(passed, confidence=confidence),
        confidence=confidence,
    )


def _strata(by_group: Mapping[_Group, Sequence[MetricResult]], *, scores: bool) -> list[Stratum]:
    """Return the strata with their scores, or else with 1 for each scored case that passed and 0 for each other."""
    strata: list[Stratum] = []
    for group, results in by_group.items():
        if scores:
            values = [result.score for result in results if result.score is not None]
        else:
            values = [float(result.passed is True) for result in results if result.score is not None]
        strata.append(Stratum(group.population, group.drawn, values))
    return strata


def _by_group(cases: Sequence[CaseResult]) -> _CasesByGroup:
    """Return the cases of each stratum.

    Raises:
        InvalidDataError: See `extrapolate`.
    """
    by_group: dict[_Group, list[CaseResult]] = defaultdict(list)
    sources: set[_Source] = set()
    lines: set[tuple[str, int]] = set()
    for case in cases:
        origin = _origin(case)
        line = (origin.file, origin.line)
        if line in lines:
            raise _origin_error(case, f"the case of {origin.file!r}, line {origin.line}, is there twice")
        lines.add(line)
        sources.add(origin.source)
        if len(sources) > 1:
            raise _origin_error(
                case, "it is from another sample than the cases before it; use the results of one sample"
            )
        by_group[origin.group].append(case)
    if not sources:
        raise InvalidDataError("the report has no cases")
    _check_complete(by_group, sources.pop())
    return by_group


def _check_complete(by_group: _CasesByGroup, source: _Source) -> None:
    """Check that no drawn case is missing, because the weights of the others would be wrong.

    Raises:
        InvalidDataError: A case is missing, or the numbers in the cases contradict each other.
    """
    present = sum(map(len, by_group.values()))
    if present != source.drawn:
        remedy = "score all cases of the sample"
        raise InvalidDataError(f"the report has {present} of the {source.drawn} cases of the sample; {remedy}")
    for group, cases in by_group.items():
        if len(cases) != group.drawn:
            raise InvalidDataError(f"the stratum {group.name} has {len(cases)} of its {group.drawn} drawn cases")
    in_strata = sum(group.population for group in by_group)
    if in_strata != source.population:
        message = f"the strata have {in_strata} cases in total, but the sample was drawn from {source.population}"
        raise InvalidDataError(message)


def _origin(case: CaseResult) -> _Origin:
    origin: object = case.case.metadata.get(SAMPLED)
    if origin is None:
        remedy = "draw cases with sample_files, and write results with contents"
        raise _origin_error(case, f"the case has no origin; {remedy}")
    try:
        return _Origin.model_validate(origin)
    except InvalidDataError as error:
        raise _origin_error(case, f"{error}") from None


def _origin_error(case: CaseResult, message: str) -> InvalidDataError:
    return InvalidDataError(f"{case.label}: {_PATH}: {message}", [Problem(_PATH, message)])


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" ({number_text(interval[0])} to {number_text(interval[1])})"
