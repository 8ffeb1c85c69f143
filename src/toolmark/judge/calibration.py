"""How far can a judge be trusted? Its verdicts against those of people, criterion by criterion.

Fifty to a hundred labels for each criterion, drawn from the cases that are judged, give an idea; fewer give an interval
that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any, Literal

from toolmark._internal.json import short_repr
from toolmark._internal.model import Model
from toolmark.errors import ConfigurationError
from toolmark.judge.protocol import Decision


class Label(Model):
    """What a person, and the judge, say of one question."""

    criterion: str
    """What was asked, such as `tool_selection`, `arguments` or `missing_calls`."""
    human: Literal["yes", "no"]
    judge: Decision
    """`cannot_tell` is counted, and plays no part in the rates."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with an interval.

    Attributes:
        value: The number.
        low: Lower end of the interval.
        high: Upper end.
        count: Labels it rests on.
    """

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a judge agrees with people about one criterion. *Right* is what people say.

    Attributes:
        criterion: The criterion.
        yes_yes: People say yes, the judge yes.
        yes_no: People say yes, the judge no.
        no_yes: People say no, the judge yes.
        no_no: People say no, the judge no.
        undecided: The judge cannot tell.
        kappa: Cohen's kappa, in [-1, 1]: agreement beyond chance; `None` where chance alone would agree always. The
            interval is that of its standard error for large samples.
        sensitivity: The share of what people call yes that the judge calls yes, with Wilson's interval; `None` without
            such labels.
        specificity: The share of what people call no that the judge calls no, likewise.
        confidence: Of the intervals, in (0, 1).
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

    def corrected(self, yes: int, total: int) -> Estimate:
        """Return the share of yes that people would give, from the share that this judge gave.

        With p = yes / total, q1 the sensitivity and q0 the specificity, it is (p + q0 - 1) / (q0 + q1 - 1), held to
        [0, 1] (Rogan and Gladen, 1978). The interval is by the delta method, and counts what is uncertain in p, q0 and
        q1; each share is adjusted as in Agresti and Coull's interval, so that none is certain.

        Args:
            yes: Questions of the evaluation to which the judge said yes.
            total: Questions to which it said yes or no; at least 1.

        Raises:
            ConfigurationError: There are no labels of one kind, or q0 + q1 <= 1: the judge is no better than chance,
                and nothing can be concluded from what it says.
        """
        if not 0 <= yes <= total or total < 1:
            message = f"yes must be from 0 to total, and total at least 1; got {yes!r} of {total!r}"
            raise ConfigurationError(message)
        if self.sensitivity is None or self.specificity is None:
            message = f"{self.criterion}: correction needs labels of both kinds, yes and no"
            raise ConfigurationError(message)
        q1, q0 = self.sensitivity.value, self.specificity.value
        if q0 + q1 <= 1:
            message = (
                f"{self.criterion}: sensitivity {q1:.3f} + specificity {q0:.3f} is not above 1, so this judge says "
                "nothing about the criterion; use another judge or another wording"
            )
            raise ConfigurationError(message)
        value = _held((yes / total + q0 - 1) / (q0 + q1 - 1))
        low, high = self._interval(yes, total)
        return Estimate(value, _held(min(value, low)), _held(max(value, high)), total)

    def _interval(self, yes: int, total: int) -> tuple[float, float]:
        z = _z(self.confidence)
        rated_yes, rated_no = self.yes_yes + self.yes_no, self.no_yes + self.no_no
        p, n = (yes + z * z / 2) / (total + z * z), total + z * z
        q1, m1 = (self.yes_yes + 1) / (rated_yes + 2), rated_yes + 2
        q0, m0 = (self.no_no + 1) / (rated_no + 2), rated_no + 2
        gain = q0 + q1 - 1
        if gain <= 0:  # too few labels to exclude that the judge is no better than chance
            return 0.0, 1.0
        centre = _held((p + q0 - 1) / gain)
        variance = p * (1 - p) / n + (1 - centre) ** 2 * q0 * (1 - q0) / m0 + centre**2 * q1 * (1 - q1) / m1
        half = z * sqrt(variance) / gain
        return centre - half, centre + half


def calibrate(labels: Iterable[Label | Mapping[str, Any]], *, confidence: float = 0.95) -> dict[str, Agreement]:
    """Return how a judge agrees with people, by criterion.

    Args:
        labels: What people and the judge say: `Label`, or an object with `criterion`, `human` and `judge`.
        confidence: Of the intervals, in (0, 1).

    Raises:
        ConfigurationError: There is no label, or `confidence` is out of range.
        InvalidDataError: Something among them is no label.

    Example:
        >>> from toolmark.judge import calibrate
        >>> labels = [{"criterion": "arguments", "human": "yes", "judge": "yes"}] * 9
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "no"}] * 8
        >>> labels += [{"criterion": "arguments", "human": "no", "judge": "yes"}] * 2
        >>> agreement = calibrate(labels)["arguments"]
        >>> agreement.specificity.value, round(agreement.corrected(70, 100).value, 3)
        (0.8, 0.625)
    """
    if not 0 < confidence < 1:
        message = f"confidence must be a number between 0 and 1, got {confidence!r}"
        raise ConfigurationError(message)
    found: dict[str, Counter[tuple[str, str]]] = {}
    for given in labels:
        if not isinstance(given, (Label, Mapping)):
            message = f"a label is a Label or an object with criterion, human and judge, got {short_repr(given)}"
            raise ConfigurationError(message)
        label = given if isinstance(given, Label) else Label.model_validate(dict(given))
        found.setdefault(label.criterion, Counter())[label.human, label.judge.value] += 1
    if not found:
        message = "there is no label to calibrate with"
        raise ConfigurationError(message)
    return {criterion: _agreement(criterion, counts, confidence) for criterion, counts in sorted(found.items())}


def _agreement(criterion: str, counts: Counter[tuple[str, str]], confidence: float) -> Agreement:
    yes_yes, yes_no = counts["yes", "yes"], counts["yes", "no"]
    no_yes, no_no = counts["no", "yes"], counts["no", "no"]
    return Agreement(
        criterion,
        yes_yes,
        yes_no,
        no_yes,
        no_no,
        counts["yes", "cannot_tell"] + counts["no", "cannot_tell"],
        _kappa(yes_yes, yes_no, no_yes, no_no, confidence),
        wilson(yes_yes, yes_yes + yes_no, confidence),
        wilson(no_no, no_yes + no_no, confidence),
        confidence,
    )


def _kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int, confidence: float) -> Estimate | None:
    total = yes_yes + yes_no + no_yes + no_no
    if not total:
        return None
    observed = (yes_yes + no_no) / total
    by_chance = ((yes_yes + yes_no) * (yes_yes + no_yes) + (no_yes + no_no) * (yes_no + no_no)) / total**2
    if by_chance == 1:
        return None
    value = (observed - by_chance) / (1 - by_chance)
    half = _z(confidence) * sqrt(observed * (1 - observed) / total) / (1 - by_chance)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), total)


def wilson(successes: int, total: int, confidence: float) -> Estimate | None:
    """Return a share with Wilson's score interval (1927), without continuity correction; `None` of nothing."""
    if not total:
        return None
    z = _z(confidence)
    share = successes / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    # At the ends the bound is the share itself; rounding must not put it beside.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == total else centre + half
    return Estimate(share, low, high, total)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _held(share: float) -> float:
    return min(1.0, max(0.0, share))
