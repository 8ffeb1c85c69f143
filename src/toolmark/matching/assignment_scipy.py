"""The same assignment for thousands of calls of one tool, by numpy and scipy where they are installed.

scipy finds a cheapest assignment in a fraction of the time; which of several is shown must not depend on who found it.
So prices are worked out for what scipy found, and from there on it goes the common way: which pairs are tight, and the
lexicographically smallest assignment over those (see `_assign`). Any prices that prove an assignment cheapest have the
same cheapest assignments, so the answer is the one that plain Python gives.

scipy counts in floating point, and costs are large integers. So what it found is only taken when the prices, which are
integers, prove it cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from toolmark.matching.argument_pattern import ZERO, Ratio
from toolmark.matching.assignment import smallest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

PAIRS_FROM: Final = 500_000
"""Pairs of one group from which loading the packages takes less time than it saves."""

_INT64: Final = 1 << 62


def best_partners(
    ratios: Sequence[Sequence[Ratio]], cost: Mapping[Ratio, int], left: Sequence[int], right: Sequence[int]
) -> list[int] | None:
    """Return, for each row, its column in the lexicographically smallest cheapest assignment, or -1.

    Args:
        ratios: The similarity of each pair.
        cost: What a pair of this similarity costs, beside the distance of the two positions.
        left: The position of each row.
        right: The position of each column.

    Returns:
        `None` where the packages are missing, the numbers are too large for them, or nothing is proven.
    """
    largest = max(map(abs, cost.values())) + max(left[-1], right[-1]) + 1
    # A way through the pairs comes to each column once at most, and prices are no longer than a way.
    if 4 * (len(left) + len(right)) * largest >= _INT64 or find_spec("numpy") is None or find_spec("scipy") is None:
        return None
    costs = _costs(ratios, cost, left, right)
    priced = _priced(costs if len(left) <= len(right) else costs.T)
    if priced is None:
        return None
    row_price, column_price, partner = priced
    if len(left) > len(right):
        row_price, column_price = column_price, row_price
        turned = [-1] * len(left)
        for column, row in enumerate(partner):
            turned[row] = column
        partner = turned
    return _smallest(costs, partner, row_price, column_price)


def _costs(
    ratios: Sequence[Sequence[Ratio]], cost: Mapping[Ratio, int], left: Sequence[int], right: Sequence[int]
) -> Numbers:
    """Return the matrix of costs."""
    import numpy as np  # noqa: PLC0415 - only where it pays

    costs: Numbers = np.abs(np.subtract.outer(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)))
    costs += cost.get(ZERO, 0)
    for line, row in zip(costs, ratios, strict=True):
        places = [place for place, ratio in enumerate(row) if ratio is not ZERO]
        line[places] += np.array([cost[row[place]] for place in places], dtype=np.int64) - cost.get(ZERO, 0)
    return costs


def _priced(costs: Numbers) -> tuple[Numbers, Numbers, list[int]] | None:
    """Return the prices of rows and columns that prove an assignment cheapest, and the column of each row.

    No pair costs less than its two prices add up to, those that are assigned cost just that, and columns that are left
    over have the price 0.

    The price of a column is the length of the shortest way to it from any column, at most 0: from the column of a row
    to another one it is as far as that one is dearer for this row (Bellman & Ford).

    Args:
        costs: No more rows than columns.
    """
    import numpy as np  # noqa: PLC0415 - as above
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    assignment: Any = linear_sum_assignment(costs)
    columns: Numbers = np.asarray(assignment[1], dtype=np.int64)
    own: Numbers = costs[np.arange(len(columns)), columns]
    price: Numbers = np.zeros(costs.shape[1], dtype=np.int64)
    changed: Any = np.arange(len(columns))
    for _ in range(len(columns) + 1):  # where ways never end, a cheaper assignment lies on them
        reached = (costs[changed] + (price[columns[changed]] - own[changed])[:, None]).min(axis=0)
        lower = reached < price
        price[lower] = reached[lower]
        changed = np.flatnonzero(lower[columns])
        if not len(changed):
            break
    left_over = np.ones(costs.shape[1], dtype=bool)
    left_over[columns] = False
    if len(changed) or price[left_over].any():
        return None
    return own - price[columns], price, columns.tolist()


def _smallest(costs: Numbers, partner: list[int], row_price: Numbers, column_price: Numbers) -> list[int]:
    """Return the lexicographically smallest of all cheapest assignments."""
    import numpy as np  # noqa: PLC0415 - as above

    height, width = costs.shape
    tight: list[list[int]] = [
        np.flatnonzero(line == column_price + price).tolist() for line, price in zip(costs, row_price, strict=True)
    ]
    return smallest(
        partner,
        tight,
        may_free_left=set(np.flatnonzero(row_price == 0).tolist()) if height > width else set(),
        may_free_right=set(np.flatnonzero(column_price == 0).tolist()) if width > height else set(),
        right_size=width,
    )
