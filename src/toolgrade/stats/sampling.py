"""Estimates of the mean and the share of a population from a random sample, with their intervals.

The sample is drawn at random without replacement, all at once or from each stratum separately. A value of a stratum of
N_h cases, of which n_h were drawn, stands for N_h / n_h cases. Its variance has the finite population correction
1 - n_h / N_h: a stratum that was drawn as a whole adds no variance (Cochran, "Sampling Techniques", 3rd edition, 1977,
sections 2.6, 5.3 and 5A.14). Drawn cases without a value are allowed: the question may not apply to a case. The mean is
then over the cases of the population that have one, a ratio of two estimates, and its variance that of the residuals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from toolgrade.errors import InvalidDataError
from toolgrade.stats.intervals import SAME, student_t, wilson
from toolgrade.stats.number_checks import check_confidence, check_count, check_shares

_NOTHING = SAME * SAME
"""A sum of squares below this is rounding error of a sum of floats, and counts as 0."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """A random sample, without replacement, of one group of a population.

    Attributes:
        population: Number of cases of the group.
        drawn: Number of cases drawn; at least 1, at most all.
        values: Values of the drawn cases that have one: in [0, 1] for scores, 0 or 1 for a share.

    Raises:
        InvalidDataError: The numbers contradict each other, or a value is out of range.

    Example:
        >>> from toolgrade.stats import Stratum, population_mean
        >>> weather = Stratum(population=900, drawn=4, values=[1, 1, 1, 0.5])
        >>> flights = Stratum(population=100, drawn=4, values=[0.5, 0, 0.5, 0])
        >>> population_mean([weather, flights])
        0.8125
    """

    population: int
    drawn: int
    values: Sequence[float]

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count(self.population, "population")
        check_count(self.drawn, "drawn")
        if not 1 <= self.drawn <= self.population:
            raise InvalidDataError(f"drawn must be from 1 to {self.population}, the population, got {self.drawn}")
        if len(self.values) > self.drawn:
            raise InvalidDataError(f"values has {len(self.values)} entries, more than the {self.drawn} drawn cases")
        check_shares(self.values)

    @property
    def weight(self) -> float:
        """Number of cases of the population for each drawn one."""
        return self.population / self.drawn

    @property
    def unseen(self) -> float:
        """The finite population correction: the share that was not drawn."""
        return 1 - self.drawn / self.population


def population_mean(strata: Sequence[Stratum]) -> float | None:
    """Return the mean over the cases of the population that have a value, as the sample estimates it.

    Where every case has a value, it is unbiased: the mean of the means of the strata, each as heavy as its population.

    Args:
        strata: The strata; one, if the sample is a simple one.

    Returns:
        In [0, 1]; `None` if no drawn case has a value.

    Example:
        >>> from toolgrade.stats import Stratum, population_mean
        >>> population_mean([Stratum(900, 2, [1, 1]), Stratum(100, 2, [1, 0])])
        0.95
    """
    cases = _cases_with_value(strata)
    if not cases:
        return None
    return min(1.0, math.fsum(one.weight * math.fsum(one.values) for one in strata) / cases)


def population_mean_interval(strata: Sequence[Stratum], *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of `population_mean`, by Student's t.

    The degrees of freedom are the drawn cases minus the strata.

    If nothing varies in one of several strata, it counts as if one more case had been drawn there, as far off as
    possible: a constant sample does not prove a constant stratum.

    Args:
        strata: See `population_mean`.
        confidence: In (0, 1).

    Returns:
        Both ends, in [0, 1]; both the mean where all was drawn. `None` where nothing has a value, one case was drawn of
        a stratum of several, or nothing varies in any stratum.

    Raises:
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> from toolgrade.stats import Stratum, population_mean_interval
        >>> weather = Stratum(population=900, drawn=4, values=[1, 1, 1, 0.5])
        >>> flights = Stratum(population=100, drawn=4, values=[0.5, 0, 0.5, 0])
        >>> low, high = population_mean_interval([weather, flights])
        >>> round(low, 2), round(high, 2)
        (0.54, 1.0)
    """
    check_confidence(confidence)
    mean, partly = population_mean(strata), [one for one in strata if one.drawn < one.population]
    if mean is None:
        return None
    if not partly:
        return mean, mean
    squares = [_squares(one, mean) for one in partly]
    if max(squares) < _NOTHING or any(one.drawn == 1 for one in partly):
        return None
    total = math.fsum(map(_variance_share, partly, squares))
    quantile = student_t(sum(one.drawn - 1 for one in partly), (1 + confidence) / 2)
    reach = quantile * math.sqrt(total) / _cases_with_value(strata)
    return max(0.0, mean - reach), min(1.0, mean + reach)


def _variance_share(stratum: Stratum, squares: float) -> float:
    """Return what a stratum adds to the variance of the sum; `squares` are those of its deviations."""
    deviations = squares if squares >= _NOTHING else _unseen_squares(stratum)
    return stratum.weight**2 * stratum.unseen * stratum.drawn * deviations / (stratum.drawn - 1)


def population_rate_interval(strata: Sequence[Stratum], *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of the share of the population that passes, from Wilson's interval of each stratum.

    Of the n values of a simple sample, it is Wilson's of n / (1 - drawn / population) independent ones, and so that of
    `rate_interval` where the population is large. The reaches of several strata are added as squares, each as heavy as
    its stratum (Yan and Su, "Stratified Wilson and Newcombe confidence intervals for multiple binomial proportions",
    Statistics in Biopharmaceutical Research 2, 2010), with what the weights themselves vary where not every case that
    was drawn has a value.

    Args:
        strata: See `population_mean`; the values are 1 for what passed and 0 for what did not.
        confidence: In (0, 1).

    Returns:
        Both ends, in [0, 1]; both the share where all was drawn. `None` where nothing has a value.

    Raises:
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> from toolgrade.stats import Stratum, population_rate_interval
        >>> low, high = population_rate_interval([Stratum(10**12, 1000, [1] * 500 + [0] * 500)])
        >>> round(low, 4), round(high, 4)
        (0.4691, 0.5309)
    """
    check_confidence(confidence)
    rate, cases = population_mean(strata), _cases_with_value(strata)
    if rate is None:
        return None
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    below, above = list[float](), list[float]()
    for one in strata:
        if not one.values or one.drawn == one.population:
            continue
        number, share = len(one.values), math.fsum(one.values) / len(one.values)
        heavy = one.weight * number / cases
        low, high = wilson(share, number / one.unseen, quantile)
        apart = (quantile * one.weight * (share - rate) / cases) ** 2
        moving = apart * one.unseen * number * (1 - number / one.drawn)
        below.append((heavy * (share - low)) ** 2 + moving)
        above.append((heavy * (high - share)) ** 2 + moving)
    return max(0.0, rate - math.sqrt(math.fsum(below))), min(1.0, rate + math.sqrt(math.fsum(above)))


def _cases_with_value(strata: Sequence[Stratum]) -> float:
    """Return how many cases of the population have a value, as the sample estimates it."""
    return math.fsum(one.weight * len(one.values) for one in strata)


def _squares(one: Stratum, mean: float) -> float:
    """Return the sum of squares of the residuals of a stratum about their mean; that of a case without a value is 0."""
    apart = [value - mean for value in one.values]
    middle = math.fsum(apart) / one.drawn
    return math.fsum((value - middle) ** 2 for value in apart) + (one.drawn - len(apart)) * middle**2


def _unseen_squares(one: Stratum) -> float:
    """Return the sum of squares of a stratum in which nothing varies, and one more value, as far off as can be."""
    if not one.values:
        return 0.0
    far = max(one.values[0], 1 - one.values[0])
    return far * far * one.drawn / (one.drawn + 1)
