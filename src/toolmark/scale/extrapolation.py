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
    """The group that a case was drawn from."""

    by: str
    value: JsonValue
    population: int
    drawn: int


class _Origin(Model):
    """What a drawn case says of itself."""

    file: str
    line: int
    seed: int
    population: int
    drawn: int
    stratum: _Stratum | None = None

    @property
    def group(self) -> tuple[str, int, int]:
        """The group it was drawn from: its name, how many cases it has, and how many were drawn."""
        one = self.stratum
        return ("", self.population, self.drawn) if one is None else (_name(one), one.population, one.drawn)


@dataclass(frozen=True)
class Extrapolation:
    """What a sample says of one metric over all cases.

    Attributes:
        metric: Name of the metric.
        threshold: The score from which on a case passes.
        population: How many cases there are in all.
        drawn: How many of them were drawn.
        scored: Of these, the ones that have a score; the mean and the share are those of all cases that would have one.
        skipped: Of these, the ones that the question does not apply to.
        errored: Of these, the ones that could not be measured; were they worse or better than others, nobody would see.
        mean: Of the scores of all cases; `None` where none is scored, or scores are not from 0 to 1.
        mean_interval: Between what it lies, see `toolmark.stats.population_mean_interval`.
        rate: Share that passes; `None` where none is scored.
        rate_interval: Between what it lies, see `toolmark.stats.population_rate_interval`.
        confidence: Of the intervals.
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
        told = f"of {plural(self.population, 'case')}, estimated from {self.drawn}"
        if self.rate is None:
            return f"{self.metric}: no score {told}"
        shares = [f"{number_text(self.rate)} pass{_between(self.rate_interval)}"]
        if self.mean is not None:
            shares.insert(0, f"mean {number_text(self.mean)}{_between(self.mean_interval)}")
        counts = f"{self.scored} scored, {self.skipped} skipped, {self.errored} errored"
        return f"{self.metric}: {', '.join(shares)}, {told}; {counts}"


def extrapolate(report: Report, *, confidence: float = 0.95) -> tuple[Extrapolation, ...]:
    r"""Return what the results of a sample say of all the cases that it was drawn from, metric by metric.

    Each case stands for as many as the sample drew it from, so that small strata, of which relatively many were drawn,
    count no more than they are. Skipped cases are left out of mean and share, and so are those like them among the
    cases that were not drawn.

    Args:
        report: The results of all cases of a sample that `sample_files` or `toolmark sample` drew, with their contents.
        confidence: Of the intervals, in (0, 1).

    Raises:
        InvalidDataError: A case does not say where it was drawn, stands there twice, or is of another sample; or not
            all that were drawn are there.
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
        >>> (found,) = extrapolate(evaluate(sample.cases, [ToolCorrectnessMetric()]))
        >>> found.population, found.drawn, found.rate_interval[0] < 0.5 < found.rate_interval[1]
        (400, 100, True)
    """
    groups = _groups(report.cases)
    return tuple(_extrapolated(groups, place, name, confidence) for place, name in enumerate(report.metrics))


_Groups = Mapping[tuple[str, int, int], Sequence[CaseResult]]


def _extrapolated(groups: _Groups, place: int, metric: str, confidence: float) -> Extrapolation:
    results = {group: [case.results[place] for case in cases] for group, cases in groups.items()}
    every = [result for found in results.values() for result in found]
    scores = [result.score for result in every if result.score is not None]
    in_range = all(0 <= score <= 1 for score in scores)  # a metric may be anybody's code
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
    """Return the scores of each group, or whether each case passed."""
    found: list[Stratum] = []
    for (_, population, drawn), several in results.items():
        values = [
            result.score if scores else float(result.passed is True) for result in several if result.score is not None
        ]
        found.append(Stratum(population, drawn, values))
    return found


def _groups(cases: Sequence[CaseResult]) -> _Groups:
    """Return the cases of each group that something was drawn from.

    Raises:
        InvalidDataError: See `extrapolate`.
    """
    found: dict[tuple[str, int, int], list[CaseResult]] = defaultdict(list)
    samples: set[tuple[int, int, int, str | None]] = set()
    places: set[tuple[str, int]] = set()
    for case in cases:
        origin = _origin(case)
        place = (origin.file, origin.line)
        if place in places:
            raise _wrong(case, f"the case of {origin.file!r}, line {origin.line}, stands there twice")
        places.add(place)
        by = None if origin.stratum is None else origin.stratum.by
        samples.add((origin.seed, origin.population, origin.drawn, by))
        if len(samples) > 1:
            raise _wrong(case, "it was drawn in another sample than those before; give the results of one sample")
        found[origin.group].append(case)
    _check_whole(found, samples)
    return found


def _check_whole(groups: _Groups, samples: set[tuple[int, int, int, str | None]]) -> None:
    """Raise where some that were drawn are missing: those that are there would stand for too few, or for too many.

    Raises:
        InvalidDataError: Some are.
    """
    there, drawn = sum(map(len, groups.values())), sum(drawn for _, _, drawn, _ in samples)
    if not there:
        raise InvalidDataError("there is no case, so there is nothing to be said of others")
    if there != drawn:
        remedy = "score all cases of the sample"
        raise InvalidDataError(f"there are results of {there} of the {drawn} cases that were drawn; {remedy}")
    for (name, _, expected), cases in groups.items():
        if len(cases) != expected:
            raise InvalidDataError(f"of the stratum {name} there are {len(cases)} cases, and {expected} were drawn")
    whole, in_strata = sum(one for _, one, _, _ in samples), sum(one for _, one, _ in groups)
    if whole != in_strata:
        raise InvalidDataError(f"the strata have {in_strata} cases in all, and the sample was drawn from {whole}")


def _origin(case: CaseResult) -> _Origin:
    origin: object = case.case.metadata.get(SAMPLED)
    if origin is None:
        remedy = "draw cases with `toolmark sample`, and write results with their contents"
        raise _wrong(case, f"it does not say where it was drawn; {remedy}")
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
