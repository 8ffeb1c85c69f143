"""pass@k and pass^k: estimates from several trials of a case."""

from __future__ import annotations

import math

from toolgrade.errors import InvalidDataError
from toolgrade.stats.number_checks import check_count, check_positive


def pass_at_k(trials: int, passes: int, k: int) -> float | None:
    """Return the probability that at least one of k trials passes, 1 - C(n - c, k) / C(n, k), unbiased, in [0, 1].

    `None` with fewer than k trials.

    Args:
        trials: Trials of one case, n.
        passes: Those that passed, c.
        k: Number of trials; at least 1.

    Raises:
        InvalidDataError: `trials` or `passes` is not a whole number of at least 0, or `passes` exceeds `trials`.
        ConfigurationError: `k` is not a whole number of at least 1.

    Example:
        >>> from toolgrade.stats.trials import pass_at_k
        >>> pass_at_k(trials=4, passes=1, k=2)
        0.5
    """
    ways = _ways(trials, passes, k)
    return (ways - math.comb(trials - passes, k)) / ways if ways else None


def pass_hat_k(trials: int, passes: int, k: int) -> float | None:
    """Return the probability that all of k trials pass (pass^k), C(c, k) / C(n, k), unbiased, in [0, 1].

    `None` with fewer than k trials. Arguments and errors are those of `pass_at_k`.

    Example:
        >>> from toolgrade.stats.trials import pass_hat_k
        >>> pass_hat_k(trials=4, passes=3, k=2)
        0.5
    """
    ways = _ways(trials, passes, k)
    return math.comb(passes, k) / ways if ways else None


def _ways(trials: int, passes: int, k: int) -> int:
    """Return the number of ways to choose k trials."""
    check_count(trials, "trials")
    check_count(passes, "passes")
    if passes > trials:
        raise InvalidDataError(f"there are {passes} passes of {trials} trials; there cannot be more passes than trials")
    check_positive(k, "k")
    return math.comb(trials, k)
