"""The alignment of called tools with a list or a plan, as slots: optimal in any order and in order.

An alignment is a set of pairs (slot, call), one-to-one, in which each slot accepts the name of its call. In any order
it is an assignment of the greatest weight; in order, a common subsequence of the greatest weight (`in_order`). These
aims decide, in this order:

1. In parts with optional slots, how many calls are expected: the most required slots with a call, then the most
   optional ones, then the fewest calls beyond a greatest number of times. (`search` twice at most, called three times:
   the third call counts as one more expected call.) That depends on names, types and turns alone, so no argument can
   change how many calls are expected.
2. The greatest sum of similarities.
3. The most *equal pairs*: the k-th of several equal expected calls with the k-th of the equal called ones, where equal
   means that every compared field is set on both sides and equal as a JSON value.
4. The most pairs (a pair of similarity 0 explains more than one missing and one unexpected call).
5. The smallest sum of distances between the positions of a pair; of two pairs that may be exchanged at equal weight,
   those that do not cross.

Cost: near-linear if names differ or calls are equal; O(k^3) at worst for k unequal calls of one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.matching.alignment import Alignment, Breaks, CallItem, CallPattern, Pair, Partners, Slot
from toolgrade.matching.any_order import Board, in_any_order, positions_left, total
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.json_compare import AbsentType

_STEPS = 4
"""Steps of one comparison of an expected call with a called one."""


class LayoutEntry(NamedTuple):
    """An expected call of a layout, and how often it is expected.

    Attributes:
        patterns: The calls that it accepts; any of them will do.
        text: Its name for people.
        least: How often it must be called.
        most: How often it may be called; `None` for any number of times.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Entries of one group must be called in one step; `None` for none.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    least: int = 1
    most: int | None = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to follow a plan: its alternatives are chosen.

    Attributes:
        entries: The expected calls, in their order.
        forbidden: Calls that must not be made, each with the rule in words.
        extras: Whether other calls break no exact match; `None` if the plan does not say.
        choices: The choices that led to it, in words.
    """

    entries: tuple[LayoutEntry, ...]
    forbidden: tuple[tuple[CallPattern, str], ...] = ()
    extras: bool | None = None
    choices: tuple[str, ...] = ()


def align_list(
    expected: Sequence[CallItem],
    called: Sequence[CallItem],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Alignment:
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
    slots: list[Slot] = []
    if not _state_turns_alike(expected):
        slots = [Slot((CallPattern(item),), item.name, place) for place, item in enumerate(expected)]
    board = Board(expected, called, slots, [None] * len(called), arguments=arguments, output=output)
    return _aligned(board, ordered=ordered)


def align_layout(
    layout: Layout,
    called: Sequence[CallItem],
    steps: Sequence[int | None],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Alignment:
    """Return the best alignment of the called tools with one way to follow a plan.

    Args:
        layout: That way.
        called: What was called.
        steps: The step of each call; `None` where it is not known. Calls of unknown steps break no rule about steps.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.
    """
    slots = list(_slots(layout, called))
    compared = sum(_fitting(entry, called) * len(entry.patterns) for entry in layout.entries)
    current_budget().spend(len(slots) + len(called) + _STEPS * compared, "a plan with these calls")
    patterns = [pattern.item for slot in slots for pattern in slot.patterns]
    is_list = all(map(_is_listed, slots)) and bool(patterns) and _state_turns_alike(patterns)
    board = Board(patterns, called, () if is_list else slots, steps, arguments=arguments, output=output)
    return replace(
        _aligned(board, ordered=ordered),
        labels=tuple([slot.text for slot in slots]),
        choices=layout.choices,
        forbidden=tuple(forbidden_calls(layout, called)),
        extras=layout.extras,
    )


def _state_turns_alike(expected: Sequence[CallItem]) -> bool:
    """Return whether all or none of the expected calls state their turn; else a call may fit several slots."""
    return len({item.turn is None for item in expected}) < 2  # noqa: PLR2004 - none, or one of two values


def _is_listed(slot: Slot) -> bool:
    """Return whether a slot is one required call with an exact name and no rules, as in a list."""
    has_one_name = len(slot.patterns) == 1 and slot.patterns[0].pattern is None
    return slot.required and has_one_name and not slot.after and slot.group is None


class _Pairing(NamedTuple):
    """The pairs that count and those that do not, with the rules that some of these break.

    `gap` is how much more weight another alignment might have: 0 unless the search was stopped early.
    """

    partners: Partners
    out_of_order: Partners
    breaks: dict[int, Breaks]
    gap: float = 0.0


def _aligned(board: Board, *, ordered: bool) -> Alignment:
    """Return the best alignment of a board."""
    # How many calls are expected is taken from the alignment in any order, also if the order or rules matter.
    best = (
        {}
        if ordered and not board.in_optional_parts
        else in_any_order(board, range(board.size), range(len(board.called)))
    )
    pairing = _in_order(board) if ordered else _in_any_order(board, best)
    return _alignment(board, pairing, _expected_count(board, best), ordered=ordered)


def _expected_count(board: Board, best: Partners) -> int:
    """Return how many calls are expected: of optional slots those that a call takes in any order."""
    if not board.slots:
        return board.size
    taken = sum(slot.required or index in best for index, slot in enumerate(board.slots))
    return taken + len(board.with_limit.difference(_calls(best)))


def _in_any_order(board: Board, best: Partners) -> _Pairing:
    if not board.slots:
        return _Pairing(best, {}, {})
    from toolgrade.matching.ordering_rules import Rules  # noqa: PLC0415 - a list has no rules

    rules = Rules(board)
    partners, gap = rules.within_rules(best)
    partners, breaks = rules.required_first(partners)
    out_of_order = {slot: partners.pop(slot) for slot in breaks}
    return _Pairing(partners, out_of_order, breaks, gap)


def _in_order(board: Board) -> _Pairing:
    from toolgrade.matching.in_order import in_order  # noqa: PLC0415 - most metrics compare in any order

    partners: Partners = in_order(board)
    breaks: dict[int, Breaks] = {}
    if board.slots:
        from toolgrade.matching.ordering_rules import Rules  # noqa: PLC0415 - as above

        partners, breaks = Rules(board).required_first(partners)
    # A call in the wrong place explains an empty slot and an unexpected call, and adds nothing to the score.
    slots = positions_left(range(board.size), partners)
    out_of_order = in_any_order(board, slots, positions_left(range(len(board.called)), _calls(partners)))
    out_of_order.update({slot: partners.pop(slot) for slot in breaks})
    return _Pairing(partners, out_of_order, breaks)


def _alignment(board: Board, pairing: _Pairing, expected_count: int, *, ordered: bool) -> Alignment:
    partners, out_of_order, breaks, gap = pairing
    all_pairs = partners | out_of_order
    missing, unused = _empty_slots(board, all_pairs)
    return Alignment(
        expected_count=expected_count,
        called_count=len(board.called),
        ordered=ordered,
        matched=Fraction(*total([ratio for _, ratio in partners.values()])),
        pairs=_pairs(board, partners, breaks),
        out_of_order=_pairs(board, out_of_order, breaks),
        missing=missing,
        unexpected=tuple(positions_left(range(len(board.called)), _calls(all_pairs))),
        unused=unused,
        gap=gap,
        excess=tuple(sorted(board.with_limit.difference(_calls(all_pairs)))),
    )


def _pairs(board: Board, partners: Partners, breaks: Mapping[int, Breaks]) -> tuple[Pair, ...]:
    """Return pairs with their differences, ascending by expected position."""
    pairs: list[Pair] = []
    for slot, (call, ratio) in sorted(partners.items()):
        pattern = board.best_pattern(slot, call)[0] if board.slots else slot
        details = board.sides.details(pattern, call, ratio)
        pairs.append(Pair(slot, call, ratio[0] / ratio[1], *details, breaks.get(slot)))
    return tuple(pairs)


def _empty_slots(board: Board, all_pairs: Partners) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the required and the optional slots that no call takes."""
    empty = positions_left(range(board.size), all_pairs)
    if not board.slots:
        return tuple(empty), ()
    required = [slot for slot in empty if board.slots[slot].required]
    return tuple(required), tuple(positions_left(empty, required))


def _calls(partners: Partners) -> list[int]:
    return [call for call, _ in partners.values()]


def places_of(layout: Layout, called: Sequence[CallItem]) -> list[int]:
    """Return how many expected positions of an alignment with these calls each entry of a layout takes, in order.

    That is one for each time that it is expected, and for each further time that it can be called.
    """
    places: list[int] = []
    for entry in layout.entries:
        fitting = _fitting(entry, called)
        most = fitting if entry.most is None else min(entry.most, fitting)
        places.append(max(entry.least, most, 1))  # an optional call that nothing fits is shown, too
    return places


def _fitting(entry: LayoutEntry, called: Sequence[CallItem]) -> int:
    """Return the number of calls that an entry accepts by name and turn."""
    return sum(any(pattern.takes(item) for pattern in entry.patterns) for item in called)


def _slots(layout: Layout, called: Sequence[CallItem]) -> Iterator[Slot]:
    """Yield the slots of each entry."""
    for family, (entry, places) in enumerate(zip(layout.entries, places_of(layout, called), strict=True)):
        slot = Slot(
            entry.patterns,
            entry.text,
            family,
            is_limited=entry.most is not None and entry.least < entry.most,
            least=entry.least,
            labels=entry.labels,
            after=entry.after,
            group=entry.group,
        )
        for number in range(places):
            yield slot._replace(required=number < entry.least)


def forbidden_calls(layout: Layout, called: Sequence[CallItem]) -> Iterator[tuple[int, str]]:
    """Yield the positions of the calls that a layout forbids, with the rule in words.

    If a rule forbids certain arguments, a call whose arguments are not known does not break it.
    """
    for call, item in enumerate(called):
        for pattern, text in layout.forbidden:
            if pattern.takes(item) and _accepts(pattern.item, item):
                yield call, text
                break


def _accepts(expected: CallItem, call: CallItem) -> bool:
    if isinstance(expected.arguments, AbsentType):
        return True
    template, arguments = expected.arguments, call.arguments
    return isinstance(template, Template) and isinstance(arguments, dict) and template.surely_fits(arguments)
