"""Calibration of a judge: agreement of its verdicts with those of people, criterion by criterion.

Label fifty to a hundred questions of each criterion, sampled from the cases that are judged; fewer give wide intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any, Literal

from toolgrade._internal.model import Model
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError
from toolgrade.judge.protocol import Decision
from toolgrade.stats import check_confidence, wilson


class Label(Model):
    """The answers of a person and of the judge to one question.

    Example:
        >>> from toolgrade.judge import Label, calibrate
        >>> labels = [Label(criterion="arguments", human="no", judge="yes")]
        >>> labels += [Label(criterion="arguments", human="yes", judge="yes") for _ in range(9)]
        >>> agreement = calibrate(labels)["arguments"]
        >>> agreement.yes_yes, agreement.no_yes
        (9, 1)
    """

    criterion: str
    """Such as `tool_selection`, `arguments` or `missing_calls`."""
    human: Literal["yes", "no"]
    judge: Decision
    """`cannot_tell` is counted, but not used in the rates."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with an interval.

    Attributes:
        value: The number.
        low: Lower end of the interval.
        high: Upper end.
        count: Number of labels behind it.
    """

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a judge with people about one criterion; people are taken to be right.

    Attributes:
        criterion: The criterion.
        yes_yes: Labels where people say yes and the judge yes.
        yes_no: People yes, the judge no.
        no_yes: People no, the judge yes.
        no_no: People no, the judge no.
        undecided: Labels where the judge cannot tell.
        kappa: Cohen's kappa, in [-1, 1]: agreement beyond chance, with the interval of its standard error for large
            samples; `None` where chance alone always agrees.
        sensitivity: Share of people's yes that the judge answers yes, with Wilson's interval; `None` without such
            labels.
        specificity: Share of people's no that the judge answers no, likewise.
        confidence: Confidence of the intervals, in (0, 1).

    Example:
        >>> from toolgrade.judge import calibrate
        >>> labels = [{"criterion": "arguments", "human": "yes", "judge": "yes"}] * 9
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "no"}] * 8
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "yes"}] * 2
        >>> agreement = calibrate(labels)["arguments"]
        >>> agreement.sensitivity.value, agreement.specificity.value, round(agreement.kappa.value, 2)
        (1.0, 0.8, 0.79)
    """

    criterion: str
    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int
    undecided: int
    kappa: Estimate | None
    sensitivity: Estimate | None
    specificity: Estimate | None
    confidence: float


def calibrate(labels: Iterable[Label | Mapping[str, Any]], *, confidence: float = 0.95) -> dict[str, Agreement]:
    """Return the agreement of a judge with people, by criterion.

    Args:
        labels: Each a `Label`, or an object with `criterion`, `human` and `judge`.
        confidence: Confidence of the intervals, in (0, 1).

    Raises:
        ConfigurationError: There is no label, or `confidence` is out of range.
        InvalidDataError: One of them is not a label.

    Example:
        >>> from toolgrade.judge import calibrate
        >>> labels = [{"criterion": "arguments", "human": "yes", "judge": "yes"}] * 9
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "no"}] * 8
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "yes"}] * 2
        >>> agreement = calibrate(labels)["arguments"]
        >>> agreement.sensitivity.value, agreement.specificity.value
        (1.0, 0.8)
    """
    check_confidence(confidence)
    tables: dict[str, Counter[tuple[str, str]]] = {}
    for label in labels:
        requirement = "a label must be a Label or an object with criterion, human and judge"
        require(isinstance(label, (Label, Mapping)), requirement, label)
        one = label if isinstance(label, Label) else Label.model_validate(dict(label))
        tables.setdefault(one.criterion, Counter())[one.human, one.judge.value] += 1
    if not tables:
        raise ConfigurationError("labels must not be empty: there is nothing to calibrate with")
    agreements: dict[str, Agreement] = {}
    for criterion, table in sorted(tables.items()):
        yes_yes, yes_no = table["yes", "yes"], table["yes", "no"]
        no_yes, no_no = table["no", "yes"], table["no", "no"]
        agreements[criterion] = Agreement(
            *(criterion, yes_yes, yes_no, no_yes, no_no),
            undecided=table["yes", "cannot_tell"] + table["no", "cannot_tell"],
            kappa=_kappa(yes_yes, yes_no, no_yes, no_no, confidence),
            sensitivity=_share(yes_yes, yes_yes + yes_no, confidence),
            specificity=_share(no_no, no_yes + no_no, confidence),
            confidence=confidence,
        )
    return agreements


def _kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int, confidence: float) -> Estimate | None:
    total = yes_yes + yes_no + no_yes + no_no
    if not total:
        return None
    observed = (yes_yes + no_no) / total
    by_chance = ((yes_yes + yes_no) * (yes_yes + no_yes) + (no_yes + no_no) * (yes_no + no_no)) / total**2
    # Where both always give the same single answer, agreement beyond chance is undefined, not 0 and not 1.
    if by_chance == 1:
        return None
    value = (observed - by_chance) / (1 - by_chance)
    half = _z(confidence) * sqrt(observed * (1 - observed) / total) / (1 - by_chance)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), total)


def _share(successes: int, total: int, confidence: float) -> Estimate | None:
    """Return a share with Wilson's score interval (1927), without continuity correction; `None` if `total` is 0."""
    if not total:
        return None
    share = successes / total
    return Estimate(share, *wilson(share, total, _z(confidence)), total)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
