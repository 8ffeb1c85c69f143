"""The alignment of expected and called tools: the data that every score and every sentence of a reason is read off."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from toolmark.matching._values import Absent, Difference

Denominator: TypeAlias = Literal["expected", "called", "longest", "f1"]
"""What the matched weight is divided by: the number of expected calls (recall), of called ones (precision), the larger
of the two, or their mean (F1)."""


class Item(NamedTuple):
    """A call as the algorithms see it.

    Attributes:
        name: Only calls of equal name can be paired.
        type: Compared where the expected call has one; `None` if unset, `ABSENT` if the recording did not keep it.
        arguments: The argument object; `ABSENT` if not specified (expected) or not captured (called).
        output: The output; `ABSENT` as above.
    """

    name: str
    type: str | Absent | None
    arguments: dict[str, Any] | Absent
    output: Any


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected call and the call that was made for it.

    Attributes:
        expected: Position of the expected call, from 0.
        called: Position of the called one, from 0.
        similarity: In [0, 1].
        differences: Where the two differ; empty when similarity is 1.
        not_compared: What was to be compared and could not: a field that the recording did not keep (`type`, `output`,
            `input_parameters`), and what is in `redacted`.
        redacted: What is redacted on either side: `output`, or an argument, such as `input_parameters.api_key`.
    """

    expected: int
    called: int
    similarity: float
    differences: tuple[Difference, ...] = ()
    not_compared: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which called tool stands for which expected one, and what is left on either side.

    Every position of either side is in exactly one of `pairs`, `out_of_order` and `missing` or `unexpected`.

    Attributes:
        expected_count: Number of expected calls, m.
        called_count: Number of called tools, n.
        ordered: Whether pairs had to keep the order of both sides.
        matched: Sum of the pairs' similarities, w, exact.
        pairs: Ascending by expected position; in an ordered alignment they do not cross.
        out_of_order: Ordered only: expected and called by the same name, but not in order; they add nothing to w.
        missing: Expected positions without a call.
        unexpected: Called positions that nothing expected.
    """

    expected_count: int
    called_count: int
    ordered: bool
    matched: Fraction
    pairs: tuple[Pair, ...]
    out_of_order: tuple[Pair, ...]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]

    def score(self, denominator: Denominator = "expected") -> float:
        """Return w divided by the denominator, in [0, 1]; 1 when both sides are empty, 0 when exactly one is."""
        m, n = self.expected_count, self.called_count
        if not m or not n:
            return float(m == n)
        totals: dict[Denominator, int | Fraction] = {
            "expected": m,
            "called": n,
            "longest": max(m, n),
            "f1": Fraction(m + n, 2),
        }
        return float(self.matched / totals[denominator])

    @property
    def recall(self) -> float:
        """Matched weight over expected calls, w / m."""
        return self.score("expected")

    @property
    def precision(self) -> float:
        """Matched weight over called tools, w / n."""
        return self.score("called")

    @property
    def f1(self) -> float:
        """2w / (m + n), the harmonic mean of precision and recall."""
        return self.score("f1")

    @property
    def exact(self) -> bool:
        """Whether the two sides are the same call by call: m = n and every position is paired with similarity 1.

        Meaningful on an ordered alignment, in which m pairs that do not cross can only be those of equal position.
        """
        return self.expected_count == self.called_count == self.matched

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values: counts, `matched` as a number, pairs by position (without their values)."""
        return {
            "expected_count": self.expected_count,
            "called_count": self.called_count,
            "ordered": self.ordered,
            "matched": float(self.matched),
            "pairs": [_pair_dict(pair) for pair in self.pairs],
            "out_of_order": [_pair_dict(pair) for pair in self.out_of_order],
            "missing": list(self.missing),
            "unexpected": list(self.unexpected),
        }


def _pair_dict(pair: Pair) -> dict[str, Any]:
    return {"expected": pair.expected, "called": pair.called, "similarity": pair.similarity}
