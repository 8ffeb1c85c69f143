"""The alignment of expected and called tools: its input (calls and slots), and the data that scores are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import nextafter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolgrade.matching.argument_pattern import ONE, Ratio, Template, ValuePattern
from toolgrade.matching.json_compare import AbsentType, Difference

Denominator: TypeAlias = Literal["expected", "called", "longest", "f1"]
"""What the matched weight is divided by: the number of expected calls (recall), of called ones (precision), the larger
of the two, or their mean (F1)."""


class CallItem(NamedTuple):
    """A call as the matching algorithms compare it.

    Attributes:
        name: Only calls of equal name can be paired.
        type: The type, compared if the expected call has one; `None` if unset, `ABSENT` if not captured.
        arguments: The argument object; `ABSENT` if not specified (expected) or not captured (called). An expected one
            may be a `Template`. Text is what a model wrote that is not a JSON object.
        output: The output; `ABSENT` if not specified or not captured. An expected one may be a `ValuePattern`.
        turn: The turn of the user, compared if the expected call has one.
    """

    name: str
    type: str | AbsentType | None
    arguments: dict[str, Any] | Template | str | AbsentType
    output: Any
    turn: int | None = None


_BELOW_ONE: Final = nextafter(1.0, 0.0)


def quotient(numerator: int, denominator: int) -> float:
    """Return a share as a float, rounded once; a share below 1 never rounds up to 1."""
    share = numerator / denominator
    is_rounded_up = share >= 1 and numerator != denominator
    return _BELOW_ONE if is_rounded_up else share


class Pair(NamedTuple):
    """An expected call and the called tool that it is paired with.

    Attributes:
        expected: Position of the expected call, from 0.
        called: Position of the called tool, from 0.
        similarity: In [0, 1].
        differences: Where the two differ; empty when similarity is 1.
        not_compared: What an expectation compares but the recording lacks: fields that were not captured (`type`,
            `output`, `input_parameters`), and what is in `redacted`.
        redacted: What is redacted on either side: `output`, or an argument, such as `input_parameters.api_key`.
        respelled: Where a called argument is another spelling of the expected one, and counts as equal.
        breaks: The rule of a plan that the pair breaks (`after`, `parallel`) and an explanation of it; such a pair adds
            nothing to the score. `None` if it breaks no rule.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Paris", "days": 1})],
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris", "days": 3})],
        ... )
        >>> pair = ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).alignment.pairs[0]
        >>> print(pair.expected, pair.called, pair.similarity, pair.differences[0].path)
        0 0 0.5 ('days',)
    """

    expected: int
    called: int
    similarity: float
    differences: tuple[Difference, ...] = ()
    not_compared: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    respelled: tuple[Difference, ...] = ()
    breaks: Breaks | None = None


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which called tool is paired with which expected call, and what remains on either side.

    Each expected position is in exactly one of `pairs`, `out_of_order`, `missing` and `unused`; each called position is
    in exactly one of `pairs`, `out_of_order` and `unexpected`.

    Attributes:
        expected_count: Number of expected calls that count, m: the required ones, optional ones that were made, and
            the calls of `excess`.
        called_count: Number of called tools, n.
        ordered: Whether pairs had to keep the order of both sides.
        matched: The matched weight, w: the sum of the similarities of the pairs, as an exact fraction.
        pairs: Ascending by expected position; in an ordered alignment they do not cross.
        out_of_order: Pairs of the same name whose order or step differs from the expected one; they add nothing to w.
        missing: Expected positions without a call.
        unexpected: Called positions that nothing expected, `excess` included.
        unused: Expected positions of optional calls that were not made; they do not count.
        labels: The text for each expected position of a plan; empty for a list.
        choices: The alternatives of a plan that were chosen, in words.
        forbidden: Called positions that the plan forbids, each with its rule in words; any makes every score 0.
        extras: Whether the plan allows calls that it does not name, so that they break no exact match; `None` if it
            does not say.
        gap: How much greater w can be at most; 0 unless the search for the best order of a plan stopped early.
        excess: Called positions beyond the greatest number of `times`; each counts as one expected call.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="search_hotels"), ToolCall(name="get_weather")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> alignment = ToolCorrectnessMetric().measure(case).alignment
        >>> [(pair.expected, pair.called) for pair in alignment.pairs]
        [(0, 1)]
        >>> print(alignment.missing, alignment.unexpected, alignment.f1)
        (1,) (0,) 0.5
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
    excess: tuple[int, ...] = ()

    @property
    def is_fully_matched(self) -> bool:
        """Whether each expected call is paired with similarity 1: w = m."""
        return self.matched == self.expected_count

    def score(self, denominator: Denominator = "expected") -> float:
        """Return w divided by the denominator, in [0, 1].

        It is 0 if a forbidden call was made. If nothing is expected, it is 1 without calls, and also if the plan
        allows other calls. In all other cases with an empty side, it is 0.
        """
        m, n = self.expected_count, self.called_count
        if self.forbidden:
            return 0.0
        if not m or not n:
            calls_are_allowed = not n or self.extras is True
            return float(not m and calls_are_allowed)
        numerator, unit = self.matched.as_integer_ratio()
        if denominator == "f1":
            return quotient(2 * numerator, unit * (m + n))
        calls = m if denominator == "expected" else n if denominator == "called" else max(m, n)
        return quotient(numerator, unit * calls)

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

        This is meaningful for an ordered alignment: its pairs do not cross, so if all positions are paired, each is
        paired with its equal. A plan with `extras` allows other calls; a forbidden call is never exact.
        """
        if self.forbidden:
            return False
        if self.extras is True:  # w = m only if each expected call is paired with similarity 1
            return self.is_fully_matched
        return self.expected_count == self.called_count and self.is_fully_matched

    def placed(self, expected: Sequence[int], called: Sequence[int]) -> Alignment:
        """Return this alignment of a selection of calls with the positions of the calls in the case.

        Args:
            expected: The position in the case of each aligned expected call.
            called: The position in the case of each aligned called tool.
        """

        def in_case(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
            return tuple(
                [pair._replace(expected=expected[pair.expected], called=called[pair.called]) for pair in pairs]
            )

        return replace(
            self,
            pairs=in_case(self.pairs),
            out_of_order=in_case(self.out_of_order),
            missing=tuple([expected[index] for index in self.missing]),
            unexpected=tuple([called[index] for index in self.unexpected]),
            unused=tuple([expected[index] for index in self.unused]),
            forbidden=tuple([(called[index], text) for index, text in self.forbidden]),
            excess=tuple([called[index] for index in self.excess]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values: counts, `matched` as a number, pairs by position, without arguments."""
        plain: dict[str, Any] = {
            "expected_count": self.expected_count,
            "called_count": self.called_count,
            "ordered": self.ordered,
            "matched": float(self.matched),
            "pairs": list(map(_pair_dict, self.pairs)),
            "out_of_order": list(map(_pair_dict, self.out_of_order)),
            "missing": list(self.missing),
            "unexpected": list(self.unexpected),
        }
        return plain | self._plan_dict()

    def _plan_dict(self) -> dict[str, Any]:
        """Return what the alignment of a plan has beside the fields of all alignments."""
        plain: dict[str, Any] = {}
        if self.labels or self.forbidden or self.choices:
            plain["labels"] = list(self.labels)
            plain["unused"] = list(self.unused)
            plain["choices"] = list(self.choices)
            plain["forbidden"] = [{"called": called, "by": text} for called, text in self.forbidden]
        if self.extras is not None:
            plain["extras"] = self.extras
        if self.gap:
            plain["gap"] = self.gap
        if self.excess:
            plain["excess"] = list(self.excess)
        return plain


class PairDetails(NamedTuple):
    """What a pair shows; see `Pair`."""

    differences: tuple[Difference, ...] = ()
    not_compared: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    respelled: tuple[Difference, ...] = ()


Breaks: TypeAlias = "tuple[Literal['after', 'parallel'], str]"
"""The rule of a plan that a pair breaks, and an explanation of it."""


Partners: TypeAlias = "dict[int, tuple[int, Ratio]]"
"""The call that each expected position has, with its similarity."""


def _pair_dict(pair: Pair) -> dict[str, Any]:
    plain: dict[str, Any] = {"expected": pair.expected, "called": pair.called, "similarity": pair.similarity}
    for name in ("not_compared", "redacted"):
        if getattr(pair, name):
            plain[name] = list(getattr(pair, name))
    if pair.breaks is not None:
        plain["breaks"], plain["why"] = pair.breaks
    return plain


class CallPattern(NamedTuple):
    """A call that a slot accepts.

    Attributes:
        item: The call; its name is exact unless there is a pattern.
        pattern: A pattern of names, where any of several names is accepted.
    """

    item: CallItem
    pattern: ValuePattern | None = None

    def named(self, name: str) -> bool:
        """Return whether it accepts calls of a name."""
        return self.item.name == name if self.pattern is None else self.pattern.credit(name) == ONE

    def takes(self, call: CallItem) -> bool:
        """Return whether it accepts a call by its name and, if it states one, its turn."""
        return self.item.turn in (None, call.turn) and self.named(call.name)


class Slot(NamedTuple):
    """A place that one call can take.

    Attributes:
        patterns: The calls that it accepts; the most similar one counts.
        text: Its name for people.
        family: Slots of one expected call with a number of `times` share it.
        required: Whether it counts although it is empty. An optional slot counts once a call takes it.
        is_limited: Whether `times` has a greatest number, beyond which a call counts and adds no weight.
        least: How many slots of the family are required.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Slots of one group must be called in one step; `None` for none.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    family: int
    required: bool = True
    is_limited: bool = False
    least: int = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None
