"""The alignment of expected and called tools: the data that every score and every sentence of a reason is read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import nextafter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolmark.matching.argument_pattern import Template
from toolmark.matching.json_compare import Absent, Difference

Denominator: TypeAlias = Literal["expected", "called", "longest", "f1"]
"""What the matched weight is divided by: the number of expected calls (recall), of called ones (precision), the larger
of the two, or their mean (F1)."""


class Item(NamedTuple):
    """A call as the algorithms see it.

    Attributes:
        name: Only calls of equal name can be paired.
        type: Compared where the expected call has one; `None` if unset, `ABSENT` if the recording did not keep it.
        arguments: The argument object; `ABSENT` if not specified (expected) or not captured (called). An expected one
            may be a `Template`.
        output: The output; `ABSENT` as above. An expected one may be a `ValuePattern`.
    """

    name: str
    type: str | Absent | None
    arguments: dict[str, Any] | Template | Absent
    output: Any


_BELOW_ONE: Final = nextafter(1.0, 0.0)


def quotient(top: int, bottom: int) -> float:
    """Return a share as a number, rounded once; it is 1 only where all is there, however little is not."""
    share = top / bottom
    return share if share < 1 or top == bottom else _BELOW_ONE


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
        breaks: Why the pair adds nothing although it stands where it does: which rule of a plan it breaks (`after`,
            `parallel`), and that in words.
    """

    expected: int
    called: int
    similarity: float
    differences: tuple[Difference, ...] = ()
    not_compared: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    breaks: tuple[Literal["after", "parallel"], str] | None = None


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which called tool stands for which expected one, and what is left on either side.

    Every position of either side is in exactly one of `pairs`, `out_of_order`, `missing` and `unused`, or `unexpected`.

    Attributes:
        expected_count: Number of expected calls that count, m: the required ones, and optional ones that were made.
        called_count: Number of called tools, n.
        ordered: Whether pairs had to keep the order of both sides.
        matched: Sum of the pairs' similarities, w, exact.
        pairs: Ascending by expected position; in an ordered alignment they do not cross.
        out_of_order: Expected and called by the same name, but not in the order, or not in the step, that was asked
            for; they add nothing to w.
        missing: Expected positions without a call.
        unexpected: Called positions that nothing expected.
        unused: Expected positions of optional calls that were not made; they do not count.
        labels: The text for each expected position of a plan; empty for a list.
        choices: Which of several ways of a plan was taken, in words.
        forbidden: Called positions that the plan forbids, with its words for what; any of them makes every score 0.
        extras: Whether the plan allows calls that it does not name, so that they break no exact match; `None` if it
            does not say.
        gap: How much greater w might be: 0 unless the search for the best order of a plan was given up.
    """

    expected_count: int
    called_count: int
    ordered: bool
    matched: Fraction
    pairs: tuple[Pair, ...]
    out_of_order: tuple[Pair, ...]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]
    unused: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    forbidden: tuple[tuple[int, str], ...] = ()
    extras: bool | None = None
    gap: float = 0.0

    def score(self, denominator: Denominator = "expected") -> float:
        """Return w divided by the denominator, in [0, 1].

        It is 1 when both sides are empty and 0 when exactly one is, unless nothing was expected of a plan that allows
        other calls: then it is 1. It is 0 when a forbidden call was made.
        """
        m, n = self.expected_count, self.called_count
        if self.forbidden:
            return 0.0
        if not m or not n:
            return float(m == n or (not m and self.extras is True))
        # Twice the number of calls, so that the denominator of F1 is whole too.
        doubled: dict[Denominator, int] = {"expected": 2 * m, "called": 2 * n, "longest": 2 * max(m, n), "f1": m + n}
        return quotient(2 * self.matched.numerator, self.matched.denominator * doubled[denominator])

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

        Meaningful on an ordered alignment, in which m pairs that do not cross can only be those of equal position. A
        plan may allow other calls, and no plan allows a forbidden one.
        """
        if self.forbidden:
            return False
        if self.extras is True:
            return self.expected_count == self.matched
        return self.expected_count == self.called_count == self.matched

    def placed(self, expected: Sequence[int], called: Sequence[int]) -> Alignment:
        """Return the alignment of some of a case's calls with the positions that they have in the case.

        The `labels` of a plan do not change.

        Args:
            expected: Where each of the expected calls that were aligned stands in the case.
            called: Where each of the called ones does.
        """

        def moved(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
            return tuple(replace(pair, expected=expected[pair.expected], called=called[pair.called]) for pair in pairs)

        return replace(
            self,
            pairs=moved(self.pairs),
            out_of_order=moved(self.out_of_order),
            missing=tuple(expected[index] for index in self.missing),
            unexpected=tuple(called[index] for index in self.unexpected),
            unused=tuple(expected[index] for index in self.unused),
            forbidden=tuple((called[index], text) for index, text in self.forbidden),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values: counts, `matched` as a number, pairs by position (without their values)."""
        plain: dict[str, Any] = {
            "expected_count": self.expected_count,
            "called_count": self.called_count,
            "ordered": self.ordered,
            "matched": float(self.matched),
            "pairs": [_pair_dict(pair) for pair in self.pairs],
            "out_of_order": [_pair_dict(pair) for pair in self.out_of_order],
            "missing": list(self.missing),
            "unexpected": list(self.unexpected),
        }
        if self.labels or self.forbidden or self.choices:
            plain["labels"] = list(self.labels)
            plain["unused"] = list(self.unused)
            plain["choices"] = list(self.choices)
            plain["forbidden"] = [{"called": called, "by": text} for called, text in self.forbidden]
        if self.extras is not None:
            plain["extras"] = self.extras
        if self.gap:
            plain["gap"] = self.gap
        return plain


def _pair_dict(pair: Pair) -> dict[str, Any]:
    plain: dict[str, Any] = {"expected": pair.expected, "called": pair.called, "similarity": pair.similarity}
    for name in ("not_compared", "redacted"):
        if getattr(pair, name):
            plain[name] = list(getattr(pair, name))
    if pair.breaks is not None:
        plain["breaks"], plain["why"] = pair.breaks
    return plain
