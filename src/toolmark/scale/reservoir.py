"""Random sample of cases in one pass: the cases with the smallest keys, which are hashes.

The key of a case is a hash (BLAKE2b) of the seed, the case, and its place. Such a hash behaves as a random number that
belongs to the case, so the n cases with the smallest keys are a simple random sample without replacement ("bottom-k
sampling", Cohen and Kaplan, PODC 2007; the order is that of Rosén, 1997, with equal chances). They are the same in
whatever order the cases come, and of two drafts that were made apart, the n smallest of both are those of the union:
one pass, and memory for the sample alone. The place is part of the key so that equal cases have chances of their own.

In a stratified sample each group gets as many as the others, or all that it has where that is less: of sizes N_h, the
level is the largest c for which the sum of min(c, N_h) is not more than the sample. It can only fall while cases come,
so what a group needs in the end is among what is kept, at any time, of the group.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from toolmark._internal.json import canonical_json
from toolmark.errors import ConfigurationError

FEWEST = 2
"""Cases of a group without which nothing tells how much its cases differ."""

_KEY_BYTES = 16


class Drawn(NamedTuple):
    """A case that was drawn, or may be.

    Attributes:
        key: Its key, negative: a heap has the smallest first, and the largest key is the first to go.
        file: Its file.
        number: Its line, row or item, from 1.
        text: The case.
    """

    key: int
    file: str
    number: int
    text: str


def key_of(seed: int, file: str, number: int, value: object) -> int:
    """Return the key of a case, at least 0 and below 2**128.

    Args:
        seed: Other seeds draw other samples.
        file: What its file is called.
        number: Its line, row or item in it.
        value: The case as JSON values; how they are written plays no part.
    """
    text = f"{canonical_json([seed, file, number])}\n{canonical_json(value)}"
    return int.from_bytes(blake2b(text.encode("ascii"), digest_size=_KEY_BYTES).digest(), "big")


def level(sizes: Mapping[str, int], size: int) -> int:
    """Return how many each group may have, at most, so that all together are not more than `size`.

    Args:
        sizes: Of the groups, how many cases each has.
        size: Of the sample.
    """
    left, groups = size, len(sizes)
    for cases in sorted(sizes.values()):
        if cases * groups > left:
            return left // groups
        left -= cases
        groups -= 1
    return max(sizes.values(), default=0)


def allotted(sizes: Mapping[str, int], size: int) -> dict[str, int]:
    """Return how many of each group are drawn; what the level leaves over goes to the first ones by name.

    Args:
        sizes: Of the groups, how many cases each has.
        size: Of the sample.

    Raises:
        ConfigurationError: A group gets too few for anything to be said of it.
    """
    most = level(sizes, size)
    found = {name: min(most, cases) for name, cases in sizes.items()}
    if any(found[name] < min(FEWEST, cases) for name, cases in sizes.items()):
        raise too_many(size)
    left = size - sum(found.values())
    larger = sorted(name for name, cases in sizes.items() if cases > most)
    return {**found, **dict.fromkeys(larger[:left], most + 1)}


def too_many(size: int) -> ConfigurationError:
    """Return the error of a sample that is too small for its groups."""
    told = f"a sample of {size} has less than two cases for each of its strata"
    return ConfigurationError(f"{told}; make it larger, or name another path that has fewer values")


@dataclass
class Draft:
    """What may be drawn so far. Memory grows with the size of the sample, not with the number of cases.

    Attributes:
        size: Of the sample.
        sizes: How many cases each stratum has, by its name; there is one without a name where nothing else was said.
        kept: Of each stratum, as heaps, all that may be drawn in the end.
    """

    size: int
    sizes: Counter[str] = field(default_factory=Counter[str])
    kept: dict[str, list[Drawn]] = field(default_factory=dict[str, "list[Drawn]"])
    most: int = 0
    held: int = 0

    def __post_init__(self) -> None:
        """Begin with room for a whole sample of one stratum."""
        self.most = self.size

    def add(self, stratum: str, key: int, file: str, number: int, text: Callable[[], str]) -> None:
        """Add a case.

        Args:
            stratum: The stratum it belongs to.
            key: See `key_of`.
            file: See `Drawn`.
            number: See `Drawn`.
            text: Makes the text of the case, if it may be drawn.

        Raises:
            ConfigurationError: There are more strata than cases to be drawn.
        """
        self.sizes[stratum] += 1
        heap = self.kept.setdefault(stratum, [])
        if len(self.sizes) > self.size:
            raise too_many(self.size)
        if len(heap) < self.most:
            heapq.heappush(heap, Drawn(-key, file, number, text()))
            self.held += 1
            self._trim()
        elif -heap[0].key > key:
            heapq.heapreplace(heap, Drawn(-key, file, number, text()))

    def merge(self, other: Draft) -> None:
        """Add what another draft of the same sample has; its cases are other ones.

        Raises:
            ConfigurationError: There are more strata than cases to be drawn.
        """
        self.sizes.update(other.sizes)
        if len(self.sizes) > self.size:
            raise too_many(self.size)
        for stratum, heap in other.kept.items():
            merged = self.kept.setdefault(stratum, [])
            merged.extend(heap)
            heapq.heapify(merged)
        self.held += other.held
        self._trim()

    def _trim(self) -> None:
        """Let go of what cannot be drawn any more, once there is much of it."""
        if self.held <= 2 * self.size + len(self.sizes):
            return
        self.most = min(self.most, level(self.sizes, self.size) + 1)
        for heap in self.kept.values():
            while len(heap) > self.most:
                heapq.heappop(heap)
        self.held = sum(map(len, self.kept.values()))

    def drawn(self) -> dict[str, list[Drawn]]:
        """Return the sample, stratum by stratum, each in the order of the keys.

        Raises:
            ConfigurationError: It is too small for its strata.
        """
        shares = allotted(self.sizes, self.size)
        return {name: sorted(heap, reverse=True)[: shares[name]] for name, heap in sorted(self.kept.items())}
