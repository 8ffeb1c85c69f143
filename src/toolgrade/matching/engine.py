"""The alignment of called tools with the slots of an expectation, optimal in any order and in order.

An alignment is a set of pairs (slot, call), one-to-one, in which each slot accepts the name of its call. In any order
it is an assignment of the greatest weight; in order, a common subsequence of the greatest weight (`in_order`). These
aims decide, in this order:

1. where some slots count only once a call takes them: the most required slots, then the most optional ones, then the
   most calls in excess. That depends on names and types alone, so no argument can change how many calls are expected;
2. the greatest sum of similarities;
3. the most *equal pairs*: the k-th of several equal expected calls with the k-th of the equal called ones, where equal
   means that every compared field is set on both sides and equal as a JSON value;
4. the most pairs (a pair of similarity 0 explains more than one missing and one unexpected call);
5. the smallest sum of distances between the positions of a pair; of two pairs that may be exchanged at equal weight,
   those that do not cross.

Similarities are exact fractions. Over their common denominator the aims are one integer for each pair, so the searches
work without rounding, and a tie is a tie. Equal calls are paired first where that loses nothing (`call_similarity`).

Cost: near-linear if names differ or calls are equal; O(k^3) at worst for k unequal calls of one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Final, TypeAlias

from toolgrade.errors import LimitError
from toolgrade.matching.alignment import Alignment, Breaks, Item, Match, Matching
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio
from toolgrade.matching.assignment import cheapest
from toolgrade.matching.slots import Board, CallPattern, Slot

Partners: TypeAlias = "dict[int, tuple[int, Ratio]]"
"""The call that each slot has taken, with its similarity."""

MOST_PAIRS: Final = 1_000_000
"""Pairs of unequal calls of one tool that are compared; a thousand with a thousand take some seconds."""


def align(
    expected: Sequence[Item],
    called: Sequence[Item],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Alignment:
    """Return the best alignment of the called tools with a list of expected ones.

    Args:
        expected: What should have been called, as `toolgrade.matching.alignment.Item`.
        called: What was called, likewise.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.

    Raises:
        LimitError: There are more than 1,000,000 pairs of unequal calls of one tool.

    Example:
        >>> from toolgrade.matching import align
        >>> from toolgrade.matching.alignment import Item
        >>> weather = Item("get_weather", type=None, arguments={"city": "Paris"}, output=None)
        >>> flight = Item("book_flight", type=None, arguments={"to": "Paris"}, output=None)
        >>> align([weather, flight], [flight, weather]).recall
        1.0
        >>> align([weather, flight], [flight, weather], ordered=True).recall
        0.5
    """
    return align_list(expected, called, ordered=ordered, arguments=arguments, output=output).alignment()


def align_list(
    expected: Sequence[Item], called: Sequence[Item], *, ordered: bool, arguments: bool, output: bool
) -> Matching:
    """Return what `align` returns, in compact form."""
    slots = [Slot((CallPattern(item),), item.name, index) for index, item in enumerate(expected)]
    return align_slots(slots, called, ordered=ordered, arguments=arguments, output=output)


def align_slots(
    slots: Sequence[Slot],
    called: Sequence[Item],
    steps: Sequence[int | None] = (),
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Matching:
    """Return the best alignment of the called tools with slots; those of calls in excess come last.

    Args:
        slots: The places that one call each can take.
        called: What was called.
        steps: The step of each call; `None` where it is not known. Calls of unknown steps break no rule about steps.
        ordered: As for `align`.
        arguments: As for `align`.
        output: As for `align`.

    Raises:
        LimitError: As for `align`.
    """
    board = Board(slots, called, steps, arguments=arguments, output=output)
    every_slot, every_call = range(len(slots)), range(len(called))
    # The counts of the first aim are those of any order, whatever the order and the rules.
    partners = {} if ordered and not board.leveled else in_any_order(board, every_slot, every_call)
    counted = len(slots)
    if board.leveled:
        counted = sum(slot.required or index in partners for index, slot in enumerate(slots))
    gap = 0.0
    broken: dict[int, Breaks] = {}
    if ordered:
        from toolgrade.matching.in_order import in_order  # noqa: PLC0415 - most metrics compare in any order

        partners = in_order(board)
    if not board.listed:
        from toolgrade.matching.ordering_rules import Rules  # noqa: PLC0415 - a list has no rules

        rules = Rules(board)
        if not ordered:
            partners, gap = rules.kept_by(partners)
        partners, broken = rules.settled(partners)
    displaced: Partners = {}
    if ordered:
        # A call in the wrong place explains an empty slot and an unexpected call, and adds nothing to the score.
        displaced = in_any_order(board, _free(every_slot, partners), _free(every_call, _calls(partners)))
    excess: list[int] = []
    if board.leveled:
        excess = sorted([call for slot, (call, _) in (partners | displaced).items() if slots[slot].is_excess])
        partners, displaced = _without_excess(board, partners), _without_excess(board, displaced)
    every = partners | displaced
    empty = [slot for slot, own in enumerate(slots) if slot not in every and not own.is_excess]
    out_of_order = displaced | {slot: partners.pop(slot) for slot in broken}
    return Matching(
        expected_count=counted,
        called_count=len(called),
        ordered=ordered,
        weight=total([ratio for _, ratio in partners.values()]),
        pairs=[_match(board, slot, *partners[slot]) for slot in sorted(partners)],
        out_of_order=[_match(board, slot, *out_of_order[slot], broken.get(slot)) for slot in sorted(out_of_order)],
        missing=[slot for slot in empty if slots[slot].required],
        unexpected=_free(every_call, _calls(every)),
        unused=[slot for slot in empty if not slots[slot].required] if board.leveled else (),
        gap=gap,
        excess=excess,
    )


def _without_excess(board: Board, partners: Partners) -> Partners:
    return {slot: pair for slot, pair in partners.items() if not board.slots[slot].is_excess}


def _match(board: Board, slot: int, call: int, ratio: Ratio, breaks: Breaks | None = None) -> Match:
    pattern = slot if board.listed else board.best_pattern(slot, call)[0]
    return Match(slot, call, ratio, board.sides.evidence(pattern, call, ratio), breaks)


def _free(positions: Iterable[int], occupied: Iterable[int]) -> list[int]:
    """Return the positions that are not occupied."""
    taken = set(occupied)
    return [position for position in positions if position not in taken]


def _calls(partners: Partners) -> list[int]:
    return [call for call, _ in partners.values()]


def total(ratios: Iterable[Ratio]) -> Ratio:
    """Return the exact sum of similarities, as numerator and denominator."""
    # One fraction at the end: adding fractions one by one reduces each sum.
    total, unit = 0, 1
    for numerator, denominator in ratios:
        if unit % denominator:
            common = lcm(unit, denominator)
            total, unit = total * (common // unit), common
        total += numerator * (unit // denominator)
    return total, unit


def in_any_order(board: Board, slots: Sequence[int], calls: Sequence[int]) -> Partners:
    """Return the best pairs of these slots and calls, whatever their order: an optimal assignment of each part."""
    partners: Partners = {}
    for members, reached in board.parts(slots, calls):
        slot, call = members[0], reached[0]
        if len(members) == 1 == len(reached) and board.listed:
            partners[slot] = call, ONE if board.sides.surely_equal(slot, call) else board.ratio(slot, call)
        elif not board.listed and len({board.slots[member].family for member in members}) == 1:
            partners.update(_one_family(board, members, reached))
        else:
            partners.update(_equal_first(board, members, reached))
    return partners


def _one_family(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of interchangeable slots: the best calls in their order, then those in excess."""
    # An optional slot takes no call of another type, and a required one only if there is no better one.
    usable = [call for call in reached if board.fits(members[0], call)]
    others = [call for call in reached if call not in set(usable)]
    ratios = {call: board.best_pattern(members[0], call)[1] for call in reached}
    usable.sort(key=lambda call: (-Fraction(*ratios[call]), call))
    real = [slot for slot in members if not board.slots[slot].is_excess]
    required = sum(board.slots[slot].required for slot in members)
    chosen = [*usable[: len(real)], *others[: max(required - len(usable), 0)]]
    partners: Partners = {slot: (call, ratios[call]) for slot, call in zip(real, sorted(chosen), strict=False)}
    excess = [slot for slot in members if board.slots[slot].is_excess]
    partners.update({slot: (call, ZERO) for slot, call in zip(excess, sorted(usable[len(real) :]), strict=False)})
    return partners


def _equal_first(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of one part; equal calls are paired first where that loses nothing."""
    equal: dict[int, int] = {}
    is_complete = False
    if board.listed:
        equal, is_complete = board.sides.equal_pairs(members, reached)
    partners: Partners = {}
    if is_complete:
        partners = {slot: (call, ONE) for slot, call in equal.items()}
        if len(equal) == min(len(members), len(reached)):
            return partners
        members, reached, equal = _free(members, equal), _free(reached, equal.values()), {}
    partners.update(assigned(PairWeights(board, [(members, reached)], equal, leveled=True), members, reached))
    return partners


def assigned(weights: PairWeights, slots: Sequence[int], calls: Sequence[int]) -> Partners:
    """Return the optimal assignment of slots to calls."""
    costs = [[-weight for weight in weights.row(slot, calls)] for slot in slots]
    partners: Partners = {}
    for slot, row, column in zip(slots, costs, cheapest(costs), strict=True):
        if column >= 0 and row[column]:
            partners[slot] = calls[column], weights.ratio(slot, calls[column])
    return partners


def check_size(board: Board, members: Sequence[int], reached: Sequence[int]) -> None:
    """Raise `LimitError` if there are too many pairs of one part."""
    if len(members) * len(reached) > MOST_PAIRS:
        name = board.slots[members[0]].text
        raise LimitError(
            f"{len(members):,} expected and {len(reached):,} called calls of {name!r} are unequal: at most "
            f"{MOST_PAIRS:,} pairs are compared; split the case"
        )


class PairWeights:
    """The aims of the pairs of some parts as one integer for each pair; 0 where a slot cannot take a call.

    With k pairs at most and positions below `size`, distances add up to less than `per_pair`, pairs to less than
    `per_equal`, equal pairs to less than the smallest difference between two sums of similarities, and all that to less
    than the smallest level.

    Args:
        board: The slots and calls.
        parts: The parts; there is at least one.
        equal: The partners of equal calls.
        leveled: Whether slots that count only once a call takes them come before similarity.
    """

    def __init__(
        self, board: Board, parts: Sequence[tuple[list[int], list[int]]], equal: Mapping[int, int], *, leveled: bool
    ) -> None:
        self.board = board
        self.equal = equal
        self.calls = {slot: reached for members, reached in parts for slot in members}
        self.ratios: dict[int, Sequence[Ratio | None]] = {}
        for members, reached in parts:
            check_size(board, members, reached)
            self.ratios.update(_ratios(board, members, reached))
        pairs = sum(min(len(members), len(reached)) for members, reached in parts) + 1
        size = max(max(members[-1], reached[-1]) for members, reached in parts) + 1
        unit = lcm(*{ratio[1] for row in self.ratios.values() for ratio in row if ratio is not None})
        self.per_pair = pairs * size
        self.per_equal = self.per_pair * pairs
        self.whole = unit * self.per_equal * pairs
        self.levels: dict[int, int] = {}
        if leveled and board.leveled:
            lowest = 2 * self.whole * pairs
            by_kind = lowest, lowest * pairs, lowest * pairs * pairs
            self.levels = {slot: by_kind[_level(board.slots[slot])] for slot in self.calls}

    def ratio(self, slot: int, call: int) -> Ratio:
        """Return the similarity of a pair."""
        return self.ratios[slot][self.calls[slot].index(call)] or ZERO

    def row(self, slot: int, calls: Sequence[int] | None = None) -> list[int]:
        """Return the weights of a slot with these calls, by default with those of its part."""
        own_calls = self.calls[slot]
        per_pair, whole = self.per_pair, self.whole
        weights = [
            0 if ratio is None else ratio[0] * (whole // ratio[1]) + per_pair - abs(slot - call)
            for ratio, call in zip(self.ratios[slot], own_calls, strict=True)
        ]
        # Only the k-th with the k-th counts as equal; other equal calls are ordinary pairs of similarity 1.
        partner = self.equal.get(slot)
        if partner is not None and partner in own_calls:
            weights[own_calls.index(partner)] += self.per_equal
        if self.levels:
            weights = [
                weight + self.levels[slot] if weight and self.board.fits(slot, call) else weight
                for weight, call in zip(weights, own_calls, strict=True)
            ]
        if calls is None or calls is own_calls:
            return weights
        by_call = dict(zip(own_calls, weights, strict=True))
        return [by_call.get(call, 0) for call in calls]


def _level(slot: Slot) -> int:
    return 2 if slot.required else int(not slot.is_excess)


def _ratios(board: Board, slots: Sequence[int], calls: Sequence[int]) -> dict[int, Sequence[Ratio | None]]:
    """Return, for each slot of one part, the similarity of each call; `None` where the slot cannot take it."""
    if board.listed:
        return {slot: [board.sides.ratio(slot, call) for call in calls] for slot in slots}
    ratios: dict[int, Sequence[Ratio | None]] = {}
    rows: dict[tuple[int, bool, bool], list[Ratio | None]] = {}
    for slot in slots:
        own = board.slots[slot]
        key = own.family, own.required, own.is_excess  # alike slots have one row
        if key not in rows:
            rows[key] = [board.ratio(slot, call) if board.can_take(slot, call) else None for call in calls]
        ratios[slot] = rows[key]
    return ratios
