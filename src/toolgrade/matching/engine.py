"""The alignment of called tools with the slots of an expectation, optimal in any order and in order.

An alignment is a set of pairs (slot, call), one-to-one, in which each slot accepts the name of its call. In any order
it is an assignment of the greatest weight; in order, a common subsequence of the greatest weight (`in_order`). These
aims decide, in this order:

1. in parts with optional slots, which count only once a call takes them: the most required slots, then the most
   optional ones, then the fewest calls beyond a greatest number of times, which count, too. That depends on names and
   types alone, so no argument can change how many calls are expected;
2. the greatest sum of similarities;
3. the most *equal pairs*: the k-th of several equal expected calls with the k-th of the equal called ones, where equal
   means that every compared field is set on both sides and equal as a JSON value;
4. the most pairs (a pair of similarity 0 explains more than one missing and one unexpected call);
5. the smallest sum of distances between the positions of a pair; of two pairs that may be exchanged at equal weight,
   those that do not cross.

Cost: near-linear if names differ or calls are equal; O(k^3) at worst for k unequal calls of one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolgrade.matching.alignment import NOTHING, Breaks, CallItem, Evidence, Matching, Partners
from toolgrade.matching.any_order import Board, in_any_order, positions_left, total
from toolgrade.matching.argument_pattern import ONE

if TYPE_CHECKING:
    from toolgrade.matching.alignment import Slot


def align_list(
    expected: Sequence[CallItem],
    called: Sequence[CallItem],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Matching:
    """Return the best alignment of the called tools with a list of expected ones.

    Args:
        expected: What should have been called.
        called: What was called.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.

    Raises:
        LimitError: There are more than 1,000,000 pairs of unequal calls of one tool.
    """
    return _aligned(Board(expected, called, arguments=arguments, output=output), ordered=ordered)


def align_slots(
    slots: Sequence[Slot],
    called: Sequence[CallItem],
    steps: Sequence[int | None],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Matching:
    """Return the best alignment of the called tools with the slots of a plan.

    Args:
        slots: The places that one call each can take.
        called: What was called.
        steps: The step of each call; `None` where it is not known. Calls of unknown steps break no rule about steps.
        ordered: As for `align_list`.
        arguments: As for `align_list`.
        output: As for `align_list`.

    Raises:
        LimitError: As for `align_list`.
    """
    patterns = [pattern.item for slot in slots for pattern in slot.patterns]
    if all(map(_is_listed, slots)):
        slots = ()
    return _aligned(Board(patterns, called, slots, steps, arguments=arguments, output=output), ordered=ordered)


def _is_listed(slot: Slot) -> bool:
    """Return whether a slot is one required call with an exact name and no rules, as in a list."""
    has_one_name = len(slot.patterns) == 1 and slot.patterns[0].pattern is None
    return slot.required and has_one_name and not slot.after and slot.group is None


def _aligned(board: Board, *, ordered: bool) -> Matching:
    """Return the best alignment of a board."""
    slots, every_slot, every_call = board.slots, range(board.size), range(len(board.called))
    # The counts of the first aim are those of any order, whatever the order and the rules.
    partners = {} if ordered and not board.leveled else in_any_order(board, every_slot, every_call)
    counted = board.size
    if slots:
        counted = sum(slot.required or index in partners for index, slot in enumerate(slots))
        counted += len(board.limited.difference(_calls(partners)))
    gap = 0.0
    breaks: dict[int, Breaks] = {}
    if ordered:
        from toolgrade.matching.in_order import in_order  # noqa: PLC0415 - most metrics compare in any order

        partners = in_order(board)
    if slots:
        from toolgrade.matching.ordering_rules import Rules  # noqa: PLC0415 - a list has no rules

        rules = Rules(board)
        if not ordered:
            partners, gap = rules.within_rules(partners)
        partners, breaks = rules.required_first(partners)
    displaced: Partners = {}
    if ordered:
        # A call in the wrong place explains an empty slot and an unexpected call, and adds nothing to the score.
        displaced = in_any_order(
            board, positions_left(every_slot, partners), positions_left(every_call, _calls(partners))
        )
    every = partners | displaced
    for slot in breaks:
        displaced[slot] = partners.pop(slot)
    empty = [slot for slot in every_slot if slot not in every]
    return Matching(
        expected_count=counted,
        called_count=len(board.called),
        ordered=ordered,
        weight=total([ratio for _, ratio in partners.values()]),
        pairs={slot: call for slot, (call, _) in partners.items()},
        out_of_order={slot: call for slot, (call, _) in displaced.items()} or NOTHING,
        ratios={slot: ratio for slot, (_, ratio) in every.items() if ratio != ONE} or NOTHING,
        evidence=_evidence(board, every) or NOTHING,
        breaks=breaks or NOTHING,
        missing=tuple([slot for slot in empty if not slots or slots[slot].required]),
        unexpected=tuple(positions_left(every_call, _calls(every))),
        unused=tuple([slot for slot in empty if slots and not slots[slot].required]),
        gap=gap,
        excess=tuple(sorted(board.limited.difference(_calls(every)))),
    )


def _evidence(board: Board, partners: Partners) -> dict[int, Evidence]:
    """Return what the pairs show that are not equal, or not sure to be equal in all that matters."""
    if board.sides.plain:
        partners = {slot: pair for slot, pair in partners.items() if pair[1] != ONE}
    evidence: dict[int, Evidence] = {}
    for slot, (call, ratio) in partners.items():
        detail = board.sides.evidence(board.best_pattern(slot, call)[0] if board.slots else slot, call, ratio)
        if detail is not None:
            evidence[slot] = detail
    return evidence


def _calls(partners: Partners) -> list[int]:
    return [call for call, _ in partners.values()]
