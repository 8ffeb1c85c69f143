"""With numpy and scipy the alignment is the same, to the last pair: it only comes sooner."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import argument_items, full_items, sides
from toolmark.matching import align
from toolmark.matching import align_calls as plain
from toolmark.matching import assignment_scipy as compiled
from toolmark.matching.alignment import Item
from toolmark.matching.json_compare import ABSENT

ratios_of = st.sampled_from(((0, 1), (0, 3), (1, 3), (1, 2), (1, 1)))


def matrices(ratios: st.SearchStrategy[Any] = ratios_of) -> st.SearchStrategy[list[list[Any]]]:
    """Similarities of some pairs."""
    return st.integers(1, 5).flatmap(
        lambda width: st.lists(st.lists(ratios, min_size=width, max_size=width), min_size=1, max_size=5)
    )


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Takes the compiled way for every size; whether it came to an answer, each time."""
    answered: list[bool] = []
    original = compiled.best_partners

    def counted(*arguments: Any) -> list[int] | None:
        partners = original(*arguments)
        answered.append(partners is not None)
        return partners

    monkeypatch.setattr(compiled, "PAIRS_FROM", 0)
    monkeypatch.setattr(compiled, "best_partners", counted)
    return answered


def assigned(ratios: Sequence[Sequence[Any]], places: random.Random) -> tuple[Any, Callable[[], Any]]:
    """Return the compiled assignment of a group at these positions, and a function for the plain Python one."""
    left = sorted(places.sample(range(20), len(ratios)))
    right = sorted(places.sample(range(20), len(ratios[0])))
    rows = [list(row) for row in ratios]
    return plain._assigned(rows, left, right, {}), lambda: plain._assigned(rows, left, right, {})


@given(ratios=matrices(), places=st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_are_assigned_the_same(ratios: list[list[Any]], places: random.Random, always: list[bool]) -> None:
    """More rows than columns, fewer, and many that are as good as each other."""
    plain, again = assigned(ratios, places)
    assert always[-1]
    with pytest.MonkeyPatch.context() as without:
        without.setattr(compiled, "PAIRS_FROM", 1 << 60)
        assert again() == plain


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
@given(both=sides(full_items, full_items, 6) | sides(argument_items, argument_items, 6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_alignments_are_the_same(*, ordered: bool, both: tuple[list[Item], list[Item]], always: list[bool]) -> None:
    """Pairs, similarities, and unmatched calls of both sides."""
    plain = align(*both, ordered=ordered, arguments=True, output=True)
    assert all(always)
    with pytest.MonkeyPatch.context() as without:
        without.setattr(compiled, "PAIRS_FROM", 1 << 60)
        assert align(*both, ordered=ordered, arguments=True, output=True) == plain


@pytest.mark.parametrize(("rows", "columns"), [(60, 60), (40, 70), (70, 40)])
def test_alignments_of_middle_size_are_the_same(rows: int, columns: int, always: list[bool]) -> None:
    """Where there are many ways to the same sum."""
    draw = random.Random(rows + columns)

    def side(size: int) -> list[Item]:
        return [Item("a", None, {"x": draw.randrange(5), "y": draw.randrange(7), "key": draw.random()}, ABSENT)] * 2 + [
            Item("a", None, {"x": draw.randrange(5), "y": draw.randrange(7), "key": draw.random()}, ABSENT)
            for _ in range(size - 2)
        ]

    both = side(rows), side(columns)
    plain = align(*both, arguments=True)
    assert always == [True]
    with pytest.MonkeyPatch.context() as without:
        without.setattr(compiled, "PAIRS_FROM", 1 << 60)
        assert align(*both, arguments=True) == plain


@pytest.mark.parametrize("missing", ["numpy", "scipy"])
def test_without_the_packages_plain_python_does_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is an extra."""
    monkeypatch.setattr(compiled, "find_spec", lambda name: None if name == missing else name)
    assert compiled.best_partners([[(0, 1)]], {(0, 1): 0}, [0], [0]) is None


def test_numbers_that_do_not_fit_are_left_to_plain_python() -> None:
    """Machine integers end somewhere, Python's do not."""
    assert compiled.best_partners([[(0, 1)]], {(0, 1): 1 << 60}, [0], [0]) is None
    assert compiled.best_partners([[(0, 1)]], {(0, 1): 1 << 50}, [0], [0]) == [0]


@pytest.mark.parametrize(("rows", "columns", "assignment"), [(2, 2, (1, 0)), (2, 3, (0, 2)), (2, 3, (1, 0))])
def test_unproven_assignment_is_rejected(
    rows: int, columns: int, assignment: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong answer of scipy, by rounding or otherwise, is not used."""
    monkeypatch.setattr(scipy.optimize, "linear_sum_assignment", lambda _costs: (np.arange(rows), np.array(assignment)))
    ratios = [[(1, 1) if row == column else (0, 1) for column in range(columns)] for row in range(rows)]
    cost = {(1, 1): -100, (0, 1): 0}
    assert compiled.best_partners(ratios, cost, range(rows), range(columns)) is None


def test_small_groups_load_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages are loaded only for groups that benefit from them."""

    def never(_name: str) -> None:
        raise AssertionError

    monkeypatch.setattr(compiled, "find_spec", never)
    items = [Item("a", None, {"x": number}, ABSENT) for number in range(60)]
    align(items, [*items[::-1], Item("a", None, {"x": -1}, ABSENT)], arguments=True)
