"""Cheapest assignment, against scipy's."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from toolgrade.matching.assignment import cheapest


def matrices(rows: int, columns: int, values: int) -> st.SearchStrategy[list[list[int]]]:
    """Draw cost matrices up to this size; with few distinct values ties are common."""
    return st.tuples(st.integers(1, rows), st.integers(1, columns)).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(-values, values), min_size=size[1], max_size=size[1]),
            min_size=size[0],
            max_size=size[0],
        )
    )


def check(costs: Sequence[Sequence[int]]) -> None:
    """The shorter side is assigned, one-to-one, at the cost of scipy's assignment; no free exchange is left."""
    columns = cheapest(costs, range(len(costs)), range(len(costs[0])))
    pairs = [(row, column) for row, column in enumerate(columns) if column >= 0]
    assert len({column for _, column in pairs}) == len(pairs) == min(len(costs), len(costs[0]))
    rows_of, columns_of = linear_sum_assignment(np.array(costs))
    assert sum(costs[row][column] for row, column in pairs) == int(np.array(costs)[rows_of, columns_of].sum())


@given(costs=matrices(12, 12, 3) | matrices(8, 16, 10**6) | matrices(5, 5, 1))
def test_assignment_has_scipys_cost(costs: list[list[int]]) -> None:
    """Each row or each column gets its own partner, at minimal total cost."""
    check(costs)


@pytest.mark.parametrize(("rows", "columns", "values"), [(60, 60, 5), (60, 60, 10**9), (40, 90, 3), (90, 40, 2)])
def test_larger_assignments_have_scipys_cost(rows: int, columns: int, values: int) -> None:
    """Larger matrices, with many ties and with few."""
    draw = random.Random(f"{rows} {columns} {values}")
    for _ in range(5):
        check([[draw.randint(-values, values) for _ in range(columns)] for _ in range(rows)])


def test_costs_beyond_machine_integers_are_exact() -> None:
    """Costs are integers of any size, so that two sums that differ by 1 in 10^40 differ."""
    huge = 10**40
    assert cheapest([[huge, huge + 1], [huge + 1, huge + 1]], [0, 1], [0, 1]) == [0, 1]
    assert cheapest([[huge + 1, huge], [huge, huge]], [0, 1], [0, 1]) == [1, 0]


@given(costs=matrices(9, 9, 2) | matrices(4, 12, 1), shift=st.integers(0, 20))
def test_of_the_cheapest_assignments_the_nearest_is_taken(costs: list[list[int]], shift: int) -> None:
    """As when both aims are one number for each pair."""
    left, right = range(len(costs)), range(shift, shift + len(costs[0]))
    both = np.array(
        [
            [cost * 10_000 + (abs(i - j) if cost else 0) for j, cost in zip(right, row, strict=True)]
            for i, row in enumerate(costs)
        ]
    )
    rows, columns = linear_sum_assignment(both)
    pairs = [(row, column) for row, column in enumerate(cheapest(costs, left, right)) if column >= 0]
    assert sum(int(both[row, column]) for row, column in pairs) == int(both[rows, columns].sum())


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (4, 4), (3, 6), (6, 3)], ids=["one", "square", "columns to spare", "rows to spare"]
)
def test_equal_costs_give_pairs_that_do_not_cross(rows: int, columns: int) -> None:
    """If every pair costs the same, partners are in the order of the rows."""
    costs = [[7] * columns for _ in range(rows)]
    partners = [column for column in cheapest(costs, range(rows), range(columns)) if column >= 0]
    assert partners == sorted(partners)
