"""Optimal assignment, and the choice among several optimal ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from oracles import cheapest_assignment
from toolgrade.matching import assignment
from toolgrade.matching.assignment import smallest


def matrices(rows: int, columns: int, values: int) -> st.SearchStrategy[list[list[int]]]:
    """Draw cost matrices up to this size with few distinct values, so that ties are common."""
    return st.tuples(st.integers(1, rows), st.integers(1, columns)).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(-values, values), min_size=size[1], max_size=size[1]),
            min_size=size[0],
            max_size=size[0],
        )
    )


def assign(costs: list[list[int]]) -> tuple[list[int], list[int], list[int]]:
    """Assign complete rows of costs."""
    return assignment.assign([list(enumerate(row)) for row in costs], len(costs[0]))


def best_partners(costs: list[list[int]]) -> list[int]:
    """Return the column of each row, or -1, whichever side is the longer one."""
    width = len(costs[0])
    is_turned = len(costs) > width
    rows: list[Any] = list(zip(*costs, strict=True)) if is_turned else costs
    edges = [list(enumerate(row)) for row in rows]
    return assignment.best_partners(edges, max(len(costs), width), is_turned=is_turned)


def wide(costs: list[list[int]]) -> list[list[int]]:
    """The matrix with no more rows than columns."""
    return costs if len(costs) <= len(costs[0]) else [list(column) for column in zip(*costs, strict=True)]


@given(costs=matrices(12, 12, 3).map(wide) | matrices(8, 16, 10**6).map(wide))
def test_assignment_has_scipys_cost(costs: list[list[int]]) -> None:
    """Each row gets its own column, at minimal total cost."""
    column_of, _, _ = assign(costs)
    rows, columns = linear_sum_assignment(np.array(costs))
    assert len(set(column_of)) == len(costs)
    assert sum(costs[i][j] for i, j in enumerate(column_of)) == int(np.array(costs)[rows, columns].sum())


@pytest.mark.parametrize(("rows", "columns", "values"), [(60, 60, 5), (60, 60, 10**9), (40, 90, 3), (1, 50, 2)])
def test_larger_assignments_have_scipys_cost(rows: int, columns: int, values: int) -> None:
    """Larger matrices, with many ties and with few."""
    draw = random.Random(f"{rows} {columns} {values}")
    for _ in range(5):
        costs = [[draw.randint(-values, values) for _ in range(columns)] for _ in range(rows)]
        column_of, _, _ = assign(costs)
        rows_of, columns_of = linear_sum_assignment(np.array(costs))
        assert sum(costs[i][j] for i, j in enumerate(column_of)) == int(np.array(costs)[rows_of, columns_of].sum())


@given(costs=matrices(10, 10, 4).map(wide))
def test_prices_prove_that_the_assignment_is_optimal(costs: list[list[int]]) -> None:
    """No pair costs less than its two prices, assigned pairs cost exactly that, and free columns are priced 0."""
    column_of, row_price, column_price = assign(costs)
    for i, row in enumerate(costs):
        assert all(cost >= row_price[i] + column_price[j] for j, cost in enumerate(row))
        assert row[column_of[i]] == row_price[i] + column_price[column_of[i]]
    assert all(price <= 0 for price in column_price)
    assert all(price == 0 for j, price in enumerate(column_price) if j not in column_of)


def test_costs_beyond_machine_integers_are_exact() -> None:
    """Costs are integers of any size, so that two sums that differ by 1 in 10^40 differ."""
    huge = 10**40
    assert assign([[huge, huge + 1], [huge + 1, huge + 1]])[0] == [0, 1]
    assert assign([[huge + 1, huge], [huge, huge]])[0] == [1, 0]


@given(costs=matrices(5, 5, 1) | matrices(4, 6, 2) | matrices(6, 4, 2))
def test_smallest_of_the_cheapest_assignments_is_returned(costs: list[list[int]]) -> None:
    """Among equally cheap assignments, the lexicographically smallest list of pairs."""
    partner = best_partners(costs)
    assert tuple((i, j) for i, j in enumerate(partner) if j >= 0) == cheapest_assignment(costs)


@pytest.mark.parametrize("seed", range(4))
def test_smallest_assignment_with_many_free_lines(seed: int) -> None:
    """Several rows or columns stay free and are interchangeable."""
    draw = random.Random(seed)
    for _ in range(100):
        columns = draw.randint(1, 4)
        tall = [[draw.randint(0, 2) for _ in range(columns)] for _ in range(columns + draw.randint(1, 3))]
        for costs in (tall, [list(column) for column in zip(*tall, strict=True)]):
            partner = best_partners(costs)
            assert tuple((i, j) for i, j in enumerate(partner) if j >= 0) == cheapest_assignment(costs)


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (4, 4), (3, 6), (6, 3)], ids=["one", "square", "columns to spare", "rows to spare"]
)
def test_equal_costs_give_the_first_pairs(rows: int, columns: int) -> None:
    """If every pair costs the same, the first rows take the first columns in order."""
    partner = best_partners([[7] * columns for _ in range(rows)])
    assert partner == [i if i < columns else -1 for i in range(rows)]


def test_smallest_walks_from_any_optimal_assignment_to_the_first() -> None:
    """From whichever optimal assignment the walk starts, it ends at the smallest one."""
    tight = [[0, 1, 2], [0, 1], [0, 2]]
    ends = {
        tuple(smallest(list(start), tight, may_free_left=set(), may_free_right=set(), right_size=3))
        for start in ([2, 1, 0], [1, 0, 2], [0, 1, 2])
    }
    assert ends == {(0, 1, 2)}


def test_smallest_may_leave_another_node_free() -> None:
    """An assigned node may become free, if some optimal assignment leaves it free, so that an earlier one gets in."""
    walked = smallest([-1, 0, 1], [[0], [0], [1]], may_free_left={0, 1}, may_free_right=set(), right_size=2)
    assert walked == [0, -1, 1]
    stays = smallest([-1, 0, 1], [[0], [0], [1]], may_free_left={0}, may_free_right=set(), right_size=2)
    assert stays == [-1, 0, 1]


@given(costs=matrices(9, 9, 3).map(wide), draw=st.randoms(use_true_random=False))
def test_sparse_assignment_uses_only_its_edges(costs: list[list[int]], draw: random.Random) -> None:
    """A missing edge is as an edge that costs too much."""
    width, too_much = len(costs[0]), 10_000
    edges = [
        [(j, cost) for j, cost in enumerate(row) if j == column or draw.random() < 0.4]
        for row, column in zip(costs, draw.sample(range(width), len(costs)), strict=False)
    ]
    complete = [[dict(row).get(j, too_much) for j in range(width)] for row in edges]
    column_of, _, _ = assignment.assign(edges, width)
    rows, best = linear_sum_assignment(np.array(complete))
    assert sum(dict(edges[i])[j] for i, j in enumerate(column_of)) == int(np.array(complete)[rows, best].sum())
