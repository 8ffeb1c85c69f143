"""Estimates for all cases from the results of a random sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from toolmark._internal.json import canonical_json, json_path
from toolmark._internal.model import Model
from toolmark._internal.text import number_text, plural
from toolmark.errors import InvalidDataError, Problem
from toolmark.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus
from toolmark.scale.sample import SAMPLED
from toolmark.stats import Stratum, population_mean, population_mean_interval, population_rate_interval

_PATH = json_path(("metadata", SAMPLED))


class _Stratum(Model):
    """Stratum of a drawn case."""

    by: str
    value: JsonValue
    population: int
    drawn: int


class _Origin(Model):
    """Origin of a drawn case, from its metadata."""

    file: str
    line: int
    seed: int
    population: int
    drawn: int
    stratum: _Stratum | None = None

    @property
    def group(self) -> tuple[str, int, int]:
        """Stratum of the case: its name, the number of its cases, and how many were drawn."""
        one = self.stratum
        return ("", self.population, self.drawn) if one is None else (_name(one), one.population, one.drawn)


@dataclass(frozen=True)
class Extrapolation:
    """Estimates of one metric for all cases, from a sample.

    Attributes:
        metric: Name of the metric.
        threshold: Lowest score that passes.
        population: Number of all cases.
        drawn: Number of cases in the sample.
        scored: Drawn cases with a score; the mean and the rate are those of all cases that would have one.
        skipped: Drawn cases that the metric does not apply to.
        errored: Drawn cases that could not be measured; the estimates are biased if these score differently.
        mean: Mean score of all cases; `None` if no case is scored or a score is outside [0, 1].
        mean_interval: Its confidence interval, see `toolmark.stats.population_mean_interval`.
        rate: Share of cases that pass, in [0, 1]; `None` if no case is scored.
        rate_interval: Its confidence interval, see `toolmark.stats.population_rate_interval`.
        confidence: Level of the intervals, in (0, 1).
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
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

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
    r"""Estimate the mean score and the pass rate of all cases from the results of a sample, for each metric.

    Cases are weighted by the inverse sampling rate of their stratum, so each stratum counts by its size. Mean and rate
    are over the cases that have a score; skipped cases and cases that could not be measured are not counted as 0.

    Args:
        report: The results of all cases of a sample from `sample_files`, with their contents.
        confidence: Level of the intervals, in (0, 1).

    Raises:
        InvalidDataError: A case has no origin, is there twice, or is from another sample; or cases of the sample are
            missing.
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from toolmark import ToolCorrectnessMetric, evaluate
        >>> from toolmark.scale import extrapolate, sample_files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "cases.jsonl")
        ...     calls = [[], [{"name": "refund"}]]
        ...     lines = [json.dumps({"tools_called": calls[n % 2], "expected_tools": calls[1]}) for n in range(400)]
        ...     _ = file.write_text("\n".join(lines))
        ...     sample = sample_files([file], 100, seed=1)
        >>> (estimate,) = extrapolate(evaluate(sample.cases, [ToolCorrectnessMetric()]))
        >>> estimate.population, estimate.drawn, estimate.rate_interval[0] < 0.5 < estimate.rate_interval[1]
        (400, 100, True)
    """
    groups = _groups(report.cases)
    return tuple(_extrapolated(groups, place, name, confidence) for place, name in enumerate(report.metrics))


_Groups = Mapping[tuple[str, int, int], Sequence[CaseResult]]


def _extrapolated(groups: _Groups, place: int, metric: str, confidence: float) -> Extrapolation:
    results = {group: [case.results[place] for case in cases] for group, cases in groups.items()}
    every = [result for several in results.values() for result in several]
    scores = [result.score for result in every if result.score is not None]
    in_range = all(0 <= score <= 1 for score in scores)  # a user's metric may have another range
    scored, passed = _strata(results, scores=True) if in_range else [], _strata(results, scores=False)
    return Extrapolation(
        metric=metric,
        threshold=every[0].threshold,
        population=sum(population for _, population, _ in groups),
        drawn=len(every),
        scored=len(scores),
        skipped=sum(result.status is ResultStatus.SKIPPED for result in every),
        errored=sum(result.status is ResultStatus.FAILED for result in every),
        mean=population_mean(scored),
        mean_interval=population_mean_interval(scored, confidence=confidence),
        rate=population_mean(passed),
        rate_interval=population_rate_interval(passed, confidence=confidence),
        confidence=confidence,
    )


def _strata(results: Mapping[tuple[str, int, int], Sequence[MetricResult]], *, scores: bool) -> list[Stratum]:
    """Return the strata with their scores, or with 1 for each case that passed and 0 for each other."""
    strata: list[Stratum] = []
    for (_, population, drawn), several in results.items():
        values = [
            result.score if scores else float(result.passed is True) for result in several if result.score is not None
        ]
        strata.append(Stratum(population, drawn, values))
    return strata


def _groups(cases: Sequence[CaseResult]) -> _Groups:
    """Return the cases of each stratum.

    Raises:
        InvalidDataError: See `extrapolate`.
    """
    groups: dict[tuple[str, int, int], list[CaseResult]] = defaultdict(list)
    samples: set[tuple[int, int, int, str | None]] = set()
    places: set[tuple[str, int]] = set()
    for case in cases:
        origin = _origin(case)
        place = (origin.file, origin.line)
        if place in places:
            raise _wrong(case, f"the case of {origin.file!r}, line {origin.line}, is there twice")
        places.add(place)
        by = None if origin.stratum is None else origin.stratum.by
        samples.add((origin.seed, origin.population, origin.drawn, by))
        if len(samples) > 1:
            raise _wrong(case, "it is from another sample than the cases before it; use the results of one sample")
        groups[origin.group].append(case)
    _check_whole(groups, samples)
    return groups


def _check_whole(groups: _Groups, samples: set[tuple[int, int, int, str | None]]) -> None:
    """Check that no drawn case is missing, because the weights of the others would be wrong.

    Raises:
        InvalidDataError: A case is missing, or the numbers in the cases contradict each other.
    """
    there, drawn = sum(map(len, groups.values())), sum(drawn for _, _, drawn, _ in samples)
    if not there:
        raise InvalidDataError("the report has no cases")
    if there != drawn:
        remedy = "score all cases of the sample"
        raise InvalidDataError(f"the report has {there} of the {drawn} cases of the sample; {remedy}")
    for (name, _, expected), cases in groups.items():
        if len(cases) != expected:
            raise InvalidDataError(f"the stratum {name} has {len(cases)} of its {expected} drawn cases")
    whole, in_strata = sum(one for _, one, _, _ in samples), sum(one for _, one, _ in groups)
    if whole != in_strata:
        raise InvalidDataError(f"the strata have {in_strata} cases in total, but the sample was drawn from {whole}")


def _origin(case: CaseResult) -> _Origin:
    origin: object = case.case.metadata.get(SAMPLED)
    if origin is None:
        remedy = "draw cases with sample_files, and write results with contents"
        raise _wrong(case, f"the case has no origin; {remedy}")
    try:
        return _Origin.model_validate(origin)
    except InvalidDataError as error:
        raise _wrong(case, f"{error}") from None


def _wrong(case: CaseResult, message: str) -> InvalidDataError:
    return InvalidDataError(f"{case.label}: {_PATH}: {message}", [Problem(_PATH, message)])


def _name(stratum: _Stratum) -> str:
    return canonical_json(stratum.value)


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" ({number_text(interval[0])} to {number_text(interval[1])})"
