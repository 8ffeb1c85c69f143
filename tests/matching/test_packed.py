"""Packed rows: numbers as lanes of one integer, and the assignment of large groups on them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from strategies import argument_items, full_items, sides
from toolgrade.matching import align, name_group
from toolgrade.matching.alignment import Alignment, Item
from toolgrade.matching.json_compare import ABSENT
from toolgrade.matching.packed_assignment import PackedAssignment, greatest_price
from toolgrade.matching.packed_rows import Lanes

numbers = st.sampled_from((1, 100, 200, 40_000, 1 << 20, 1 << 40, 1 << 80)).flatmap(
    lambda most: st.lists(st.integers(0, most), min_size=1, max_size=9)
)


@given(numbers)
def test_lanes_hold_their_values(values: list[int]) -> None:
    """Also numbers that no machine integer holds."""
    lanes = Lanes(len(values), max(values))
    assert list(lanes.values(lanes.packed(values))) == values


@given(numbers)
def test_lanes_add_up(values: list[int]) -> None:
    """The sum of rows is the row of sums, and rows of ones have the columns of their masks."""
    lanes = Lanes(len(values), 2 * max(values) + 1)
    total = lanes.packed(values) + lanes.packed(values[::-1]) + lanes.ones
    assert list(lanes.values(total)) == [a + b + 1 for a, b in zip(values, values[::-1], strict=True)]


@given(st.sets(st.integers(0, 20)), st.sampled_from((1, 1000, 1 << 30)), st.sampled_from((1, 1000, 1 << 70)))
def test_masks_are_converted(columns: set[int], most: int, other_most: int) -> None:
    """A mask in lanes of any width has the same columns."""
    lanes, others = Lanes(21, most), Lanes(21, other_most)
    mask = lanes.ones_at(sorted(columns)) << (lanes.bits - 1)
    assert lanes.columns(mask) == sorted(columns)
    assert others.columns(lanes.converted(mask, others)) == sorted(columns)


def optimum(weights: list[list[int]], allowed: list[list[int]]) -> int:
    """Return the greatest sum of an assignment of all rows to allowed columns."""
    table = np.full((len(weights), len(weights)), -(10**9))
    for i, columns in enumerate(allowed):
        table[i, columns] = np.array(weights[i])[columns]
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


@pytest.mark.parametrize("most", [1, 5, 100, 5000])
@pytest.mark.parametrize("size", [1, 2, 5, 9, 30])
def test_each_aim_leaves_the_optimal_assignments(size: int, most: int) -> None:
    """Those pairs stay with which the greatest sum can be reached, and no assignment of them has less."""
    draw = random.Random(f"{size} {most}")
    for _ in range(4):
        pairs = PackedAssignment(Lanes(size, greatest_price(most)))
        allowed = [list(range(size))] * size
        for limit in (most, most, 3):
            weights = [[draw.choice((0, draw.randint(0, limit))) for _ in range(size)] for _ in range(size)]
            pairs.use(Lanes(size, greatest_price(limit, size)))
            pairs.maximize(list(map(pairs.lanes.packed, weights)), limit)
            best = optimum(weights, allowed)
            optimal = list(map(pairs.lanes.columns, pairs.allowed))
            assert sum(weights[i][j] for i, j in enumerate(pairs.column_of)) == best
            assert sorted(pairs.column_of) == list(range(size))
            assert -optimum([[-weight for weight in row] for row in weights], optimal) == best
            if size < 9:
                for i, columns in enumerate(allowed):
                    for j in columns:
                        with_pair = [[j] if row == i else others for row, others in enumerate(allowed)]
                        assert optimum(weights, with_pair) < best or j in optimal[i]
            allowed = optimal


@pytest.fixture(params=[0, 1 << 30], ids=["distances packed", "distances sparse"])
def packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes packed rows for groups of every size."""
    monkeypatch.setattr(name_group, "_PACKED_FROM", 1)
    monkeypatch.setattr(name_group, "_DENSE", request.param)


def unpacked(expected: list[Item], called: list[Item], *, ordered: bool, output: bool) -> Alignment:
    """Return the alignment without packed rows."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr(name_group, "_PACKED_FROM", 1 << 30)
        return align(expected, called, ordered=ordered, arguments=True, output=output)


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
@given(both=sides(full_items, full_items, 6) | sides(argument_items, argument_items, 6), output=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_alignments_are_the_same(*, ordered: bool, both: tuple[list[Item], list[Item]], output: bool) -> None:
    """Pairs, similarities, and unmatched calls of both sides."""
    alignment = align(*both, ordered=ordered, arguments=True, output=output)
    assert alignment == unpacked(*both, ordered=ordered, output=output)


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("types", [False, True], ids=["arguments", "types too"])
@pytest.mark.parametrize(("rows", "columns"), [(60, 60), (40, 70), (70, 40)])
def test_alignments_of_middle_size_are_the_same(rows: int, columns: int, types: bool) -> None:
    """Where there are many ways to the same sum, and some calls leave a field open."""
    draw = random.Random(rows + columns)

    def item() -> Item:
        arguments = {"x": draw.randrange(5), "y": draw.randrange(7), "key": draw.random()}
        kind = draw.choice(("function", "mcp", None)) if types else None
        return Item("a", kind, {key: arguments[key] for key in arguments if draw.random() < 0.9}, ABSENT)

    expected, called = ([item()] * 3 + [item() for _ in range(size - 3)] for size in (rows, columns))
    alignment = align(expected, called, arguments=True)
    assert alignment == unpacked(expected, called, ordered=False, output=False)
