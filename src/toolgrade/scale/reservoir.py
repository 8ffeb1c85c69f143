"""Random sample of cases in one pass: the cases with the smallest keys, which are hashes.

The key of a case is a hash (BLAKE2b) of the seed, the case, and its place. The hash acts as
a random number, so the n cases with the smallest keys are a simple random sample without replacement ("bottom-k
sampling", Cohen and Kaplan, PODC 2007; sequential order sampling with equal probabilities, Rosén, 1997). The sample
does not depend on the order of the cases, and the n smallest keys of two drafts are those of their union: one pass
suffices, with memory for the sample alone. The place is part of the key so that equal cases are drawn independently.

In a stratified sample each stratum gets the same number of cases, or all it has if that is fewer: for stratum sizes
N_h, the level is the largest c for which the sum of min(c, N_h) is at most the sample size. The level can only fall
while cases arrive, so the cases that a stratum needs at the end are always among those stored for it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from toolgrade._internal.json import canonical_json
from toolgrade.errors import ConfigurationError

FEWEST = 2
"""Fewest cases of a stratum from which a variance can be estimated."""

_KEY_BYTES = 16


class Drawn(NamedTuple):
    """A case of the sample, or a candidate for it.

    Attributes:
        key: Its key, negated: the top of a heap is its smallest entry, and the largest key must leave first.
        file: Name of its file.
        number: Its line, row or item, from 1.
        text: The case as JSON text.
    """

    key: int
    file: str
    number: int
    text: str


def key_of(seed: int, file: str, number: int, value: object) -> int:
    """Return the key of a case, at least 0 and below 2**128.

    Args:
        seed: Seed of the sample.
        file: Name of its file.
        number: Its line, row or item in the file.
        value: The case as JSON values; their formatting in the file has no effect.
    """
    text = f"{canonical_json([seed, file, number])}\n{canonical_json(value)}"
    return int.from_bytes(blake2b(text.encode("ascii"), digest_size=_KEY_BYTES).digest(), "big")


def level(sizes: Mapping[str, int], size: int) -> int:
    """Return the largest number of cases per stratum for which a sample has at most `size` cases."""
    left, groups = size, len(sizes)
    for cases in sorted(sizes.values()):
        if cases * groups > left:
            return left // groups
        left -= cases
        groups -= 1
    return max(sizes.values(), default=0)


def allot(sizes: Mapping[str, int], size: int) -> dict[str, int]:
    """Return the number of cases to draw from each stratum; the remainder goes to the first strata by name.

    Raises:
        ConfigurationError: A stratum gets fewer than two cases although it has more.
    """
    limit = level(sizes, size)
    shares = {name: min(limit, cases) for name, cases in sizes.items()}
    if any(shares[name] < min(FEWEST, cases) for name, cases in sizes.items()):
        raise too_many(size)
    left = size - sum(shares.values())
    larger = sorted(name for name, cases in sizes.items() if cases > limit)
    return {**shares, **dict.fromkeys(larger[:left], limit + 1)}


def too_many(size: int) -> ConfigurationError:
    """Return the error for a sample that is too small for its strata."""
    message = f"a sample of {size} has fewer than two cases for each stratum"
    return ConfigurationError(f"{message}; make it larger, or use a path with fewer values")


@dataclass
class Draft:
    """Candidates for a sample. Memory grows with the size of the sample, not with the number of cases.

    Attributes:
        size: Size of the sample.
        sizes: Number of cases of each stratum, by name; the only stratum of a simple sample has an empty name.
        heaps: Candidates of each stratum, as heaps.
        limit: Most candidates that a stratum needs.
        stored: Number of all candidates.
    """

    size: int
    sizes: Counter[str] = field(default_factory=Counter[str])
    heaps: dict[str, list[Drawn]] = field(default_factory=dict[str, "list[Drawn]"])
    limit: int = 0
    stored: int = 0

    def __post_init__(self) -> None:
        """Allow a whole sample from one stratum."""
        self.limit = self.size

    def add(self, stratum: str, key: int, file: str, number: int, text: Callable[[], str]) -> None:
        """Add a case; `text` is called only if the case is a candidate.

        Raises:
            ConfigurationError: There are more strata than cases in the sample.
        """
        self.sizes[stratum] += 1
        heap = self.heaps.setdefault(stratum, [])
        if len(self.sizes) > self.size:
            raise too_many(self.size)
        if len(heap) < self.limit:
            heapq.heappush(heap, Drawn(-key, file, number, text()))
            self.stored += 1
            self._trim()
        elif -heap[0].key > key:
            heapq.heapreplace(heap, Drawn(-key, file, number, text()))

    def merge(self, other: Draft) -> None:
        """Add the candidates of a draft of the same sample from different cases.

        Raises:
            ConfigurationError: There are more strata than cases in the sample.
        """
        self.sizes.update(other.sizes)
        if len(self.sizes) > self.size:
            raise too_many(self.size)
        for stratum, heap in other.heaps.items():
            merged = self.heaps.setdefault(stratum, [])
            merged.extend(heap)
            heapq.heapify(merged)
        self.stored += other.stored
        self._trim()

    def _trim(self) -> None:
        """Remove cases that can no longer be drawn, once the draft is twice as large as the sample."""
        if self.stored <= 2 * self.size + len(self.sizes):
            return
        self.limit = min(self.limit, level(self.sizes, self.size) + 1)
        for heap in self.heaps.values():
            while len(heap) > self.limit:
                heapq.heappop(heap)
        self.stored = sum(map(len, self.heaps.values()))

    def drawn(self) -> dict[str, list[Drawn]]:
        """Return the sample by stratum, each in the order of the keys.

        Raises:
            ConfigurationError: The sample is too small for its strata.
        """
        shares = allot(self.sizes, self.size)
        return {name: sorted(heap, reverse=True)[: shares[name]] for name, heap in sorted(self.heaps.items())}
