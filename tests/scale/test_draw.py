"""Drawing cases by their keys: against a slow and obvious way, by symmetry, and by what many seeds draw."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import ConfigurationError
from toolgrade.scale.reservoir import Draft, Drawn, allot, key_of, level

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 12), max_size=8)
CASES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 10**6)), min_size=1, max_size=60, unique_by=lambda p: p[1]
)


def slow_level(sizes: Mapping[str, int], size: int) -> int:
    """Level by level, as long as all together are not too many."""
    most = 0
    while most < max(sizes.values(), default=0) and sum(min(most + 1, one) for one in sizes.values()) <= size:
        most += 1
    return most


def drafted(cases: Sequence[tuple[str, int]], size: int) -> Draft:
    """A draft of cases that are named by their keys."""
    draft = Draft(size)
    for stratum, key in cases:
        draft.add(stratum, key, "file", key, lambda key=key: f"{key}")
        assert draft.stored == sum(map(len, draft.heaps.values())) <= 2 * size + len(draft.sizes)
    return draft


def keys(drawn: Mapping[str, Sequence[Drawn]]) -> dict[str, list[int]]:
    """The keys that were drawn of each stratum."""
    assert all(case.text == f"{case.number}" == f"{-case.key}" for members in drawn.values() for case in members)
    return {name: [-case.key for case in members] for name, members in drawn.items()}


@given(SIZES, st.integers(1, 60))
def test_the_level_is_the_largest(sizes: dict[str, int], size: int) -> None:
    """The largest number that each group may have at most, so that all together are not more than the sample."""
    assert level(sizes, size) == slow_level(sizes, size)


@given(SIZES, st.integers(1, 60))
def test_strata_get_the_same_number(sizes: dict[str, int], size: int) -> None:
    """As many as there are to be drawn, of none more than it has, and of one that has more one less at most."""
    try:
        shares = allot(sizes, size)
    except ConfigurationError:
        assert slow_level(sizes, size) < 2
        assert max(sizes.values()) > slow_level(sizes, size)
        return

    assert shares.keys() == sizes.keys()
    assert sum(shares.values()) == min(size, sum(sizes.values()))
    for name, drawn in shares.items():
        assert min(2, sizes[name]) <= drawn <= sizes[name]
        assert drawn == sizes[name] or drawn >= max(shares.values()) - 1


@given(CASES, st.integers(1, 40), st.randoms())
def test_the_smallest_keys_are_drawn(cases: list[tuple[str, int]], size: int, order: random.Random) -> None:
    """The smallest keys of each stratum, in any order of cases."""
    members = {name: sorted(key for other, key in cases if other == name) for name in {name for name, _ in cases}}
    shuffled = list(cases)
    order.shuffle(shuffled)
    try:
        shares = allot({name: len(entries) for name, entries in members.items()}, size)
    except ConfigurationError:
        with pytest.raises(ConfigurationError, match="fewer than two cases"):
            drafted(shuffled, size).drawn()
        return

    expected = {name: entries[: shares[name]] for name, entries in members.items()}

    assert keys(drafted(cases, size).drawn()) == expected
    assert keys(drafted(shuffled, size).drawn()) == expected


@given(CASES, st.integers(6, 40), st.lists(st.integers(0, 60), max_size=4), st.randoms())
def test_the_sample_of_the_union_is_that_of_the_samples(
    cases: list[tuple[str, int]], size: int, cuts: list[int], order: random.Random
) -> None:
    """Merged drafts of parts, in any order, equal one draft of all, also if they continue afterwards."""
    bounds = sorted({0, len(cases), *(min(cut, len(cases)) for cut in cuts)})
    parts = [drafted(cases[low:high], size) for low, high in itertools.pairwise(bounds)]
    order.shuffle(parts)
    more = [("a", key) for key in range(10**6 + 1, 10**6 + 30)]

    merged = Draft(size)
    for part in parts:
        merged.merge(part)

    assert keys(merged.drawn()) == keys(drafted(cases, size).drawn())
    for stratum, key in more:
        merged.add(stratum, key, "file", key, lambda key=key: f"{key}")
    assert keys(merged.drawn()) == keys(drafted([*cases, *more], size).drawn())


@pytest.mark.parametrize("size", range(6, 14))
def test_discarded_cases_are_never_needed(size: int) -> None:
    """With many more cases than drawn and uneven strata, in one draft and in merged ones."""
    rng = random.Random(size)
    cases = [(rng.choice("aaaaaaabbc"), key) for key in rng.sample(range(10**6), 600)]
    members = {name: sorted(key for other, key in cases if other == name) for name in "abc"}
    shares = allot({name: len(entries) for name, entries in members.items()}, size)
    expected = {name: entries[: shares[name]] for name, entries in members.items()}

    merged = drafted(cases[:200], size)
    merged.merge(drafted(cases[200:400], size))
    for stratum, key in cases[400:]:
        merged.add(stratum, key, "file", key, lambda key=key: f"{key}")
        assert merged.stored == sum(map(len, merged.heaps.values())) <= 2 * size + 3

    assert keys(merged.drawn()) == expected
    assert keys(drafted(cases, size).drawn()) == expected


def test_every_set_is_drawn_as_often_by_symmetry() -> None:
    """Over all assignments of six keys to six cases, each set of three is drawn equally often."""
    drawn: Counter[frozenset[int]] = Counter()
    for order in itertools.permutations(range(6)):
        draft = Draft(3)
        for case, key in enumerate(order):
            draft.add("", key, "file", case, str)
        drawn[frozenset(case.number for case in draft.drawn()[""])] += 1

    assert set(drawn.values()) == {math.factorial(6) // math.comb(6, 3)}
    assert len(drawn) == math.comb(6, 3)


def test_every_case_has_the_same_chance() -> None:
    """Over 4,000 seeds each of twenty cases is drawn about as often, and equal ones do not go together."""
    values = [{"id": f"{number}"} if number < 10 else {"id": "same"} for number in range(20)]
    seeds, size = 4000, 5
    single: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for seed in range(seeds):
        draft = Draft(size)
        for number, value in enumerate(values):
            draft.add("", key_of(seed, "file", number, value), "file", number, str)
        drawn = sorted(case.number for case in draft.drawn()[""])
        single.update(drawn)
        pairs.update(itertools.combinations(drawn, 2))

    for counts, chance, amount in ((single, 5 / 20, 20), (pairs, 5 * 4 / (20 * 19), 190)):
        reach = 5 * math.sqrt(seeds * chance * (1 - chance))
        assert len(counts) == amount
        assert all(abs(count - seeds * chance) < reach for count in counts.values())


def test_the_key_depends_on_seed_place_and_case() -> None:
    """Each of them matters; the formatting of the case does not."""
    first = key_of(1, "monday", 7, {"id": "a", "name": "é"})

    assert first == key_of(1, "monday", 7, {"name": "é", "id": "a"})
    assert 0 <= first < 2**128
    others = [
        key_of(2, "monday", 7, {"id": "a", "name": "é"}),
        key_of(1, "tuesday", 7, {"id": "a", "name": "é"}),
        key_of(1, "monday", 8, {"id": "a", "name": "é"}),
        key_of(1, "monday", 7, {"id": "b", "name": "é"}),
    ]
    assert len({first, *others}) == 5


def test_more_strata_than_cases_are_refused_at_once() -> None:
    """Memory would grow with them otherwise."""
    draft, other = Draft(3), Draft(3)
    for stratum in "abc":
        draft.add(stratum, 1, "file", 1, str)
    other.add("d", 1, "file", 1, str)

    with pytest.raises(ConfigurationError, match="a sample of 3 has fewer than two cases for each stratum; make it"):
        draft.add("d", 1, "file", 1, str)
    with pytest.raises(ConfigurationError, match="a sample of 3"):
        other.merge(draft)
