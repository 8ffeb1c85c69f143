"""Alignment of calls with a plan: numbers of times, alternatives, an order, groups, and forbidden calls.

A plan leaves choices (one of several calls or sub-plans, one of several trajectories). Each way to make them is a
`Layout`; `align_layout` finds its best alignment, and whoever knows the score picks the layout that scores best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.matching.align_calls import align
from toolgrade.matching.alignment import Alignment, Item, Pair
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.json_compare import Absent
from toolgrade.matching.ordering_rules import Broken, Rules, keeping_rules
from toolgrade.matching.plan_slots import Board, CallPattern, Partners, Slot, in_any_order, in_order


class Entry(NamedTuple):
    """An expected call of a layout, and how often it is expected.

    Attributes:
        patterns: The calls that it accepts; any of them will do.
        text: What it is called for people.
        least: How often it must be called.
        most: How often it may be; `None` for any number of times.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Entries of one group must be called in one step; `None` for none.
        turn: The turn of the user in which it must be called; `None` for any. Alignments do not look at it.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    least: int = 1
    most: int | None = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which a plan can be followed.

    Attributes:
        entries: The expected calls, in their order.
        forbidden: Calls that must not be made, with their words for it.
        extras: Whether other calls break no exact match; `None` if the plan does not say.
        choices: The choices that led to it, in words.
    """

    entries: tuple[Entry, ...]
    forbidden: tuple[tuple[CallPattern, str], ...] = ()
    extras: bool | None = None
    choices: tuple[str, ...] = ()


def align_layout(
    layout: Layout,
    called: Sequence[Item],
    steps: Sequence[int | None],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Alignment:
    """Return the best alignment of the called tools with one way of a plan.

    Args:
        layout: The way.
        called: What was called.
        steps: The step of each call; `None` where it is not known. Calls of unknown steps break no rule about steps.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.
    """
    slots = list(_slots(layout, called))
    current_budget().spend(len(slots) + len(called), "a plan with these calls")
    if all(map(_plain, slots)):
        items = [slot.patterns[0].item for slot in slots]
        alignment = align(items, called, ordered=ordered, arguments=arguments, output=output)
    else:
        board = Board(slots, called, steps, arguments=arguments, output=output)
        alignment = _aligned(board, ordered=ordered)
    return replace(
        alignment,
        labels=tuple(slot.text for slot in slots),
        choices=layout.choices,
        forbidden=tuple(forbidden_calls(layout, called)),
        extras=layout.extras,
    )


def places_of(layout: Layout, called: Sequence[Item]) -> list[int]:
    """Return how many expected positions of an alignment with these calls each entry of a layout takes, in order.

    That is one for each time that it is expected, and for each further time that it can be called.
    """
    places: list[int] = []
    for entry in layout.entries:
        fitting = sum(any(want.named(item.name) for want in entry.patterns) for item in called)
        most = fitting if entry.most is None else min(entry.most, fitting)
        places.append(max(entry.least, most, 1))  # an optional call that nothing fits is shown, too
    return places


def _slots(layout: Layout, called: Sequence[Item]) -> Iterator[Slot]:
    for family, (entry, places) in enumerate(zip(layout.entries, places_of(layout, called), strict=True)):
        for number in range(places):
            yield Slot(
                entry.patterns,
                entry.text,
                required=number < entry.least,
                family=family,
                least=entry.least,
                labels=entry.labels,
                after=entry.after,
                group=entry.group,
            )


def _plain(slot: Slot) -> bool:
    """Return whether a slot stands for one required call, as in a list."""
    alone = len(slot.patterns) == 1 and slot.patterns[0].pattern is None
    return alone and slot.required and not slot.after and slot.group is None


def _aligned(board: Board, *, ordered: bool) -> Alignment:
    """Return the best alignment of calls with slots that rules speak of."""
    rules = Rules(board)
    partners, gap = (in_order(board), 0.0) if ordered else _by_rules(board, rules)
    partners = rules.settled(partners)
    broken = rules.broken(partners)
    valid = {slot: call for slot, call in partners.items() if slot not in broken}
    # In order, calls that are left may still explain an empty slot, as out of order.
    every = {**partners, **_among_rest(board, partners)} if ordered else partners
    return replace(_alignment_of(board, every, valid, broken, ordered=ordered), gap=gap)


def _alignment_of(
    board: Board, every: Partners, valid: Partners, broken: Mapping[int, Broken], *, ordered: bool
) -> Alignment:
    """Return the alignment of all pairs, of which the valid ones count; `broken` are the rules that others break."""
    displaced = {slot: every[slot] for slot in sorted(every.keys() - valid.keys())}
    empty = _free(board.slots, every)
    return Alignment(
        expected_count=_counted(board.slots, valid),
        called_count=len(board.called),
        ordered=ordered,
        matched=board.weight(valid),
        pairs=tuple(_pair(board, slot, call) for slot, call in sorted(valid.items())),
        out_of_order=tuple(_pair(board, slot, call, broken.get(slot)) for slot, call in displaced.items()),
        missing=tuple(index for index in empty if board.slots[index].required),
        unexpected=tuple(_free(board.called, every.values())),
        unused=tuple(index for index in empty if not board.slots[index].required),
    )


def _by_rules(board: Board, rules: Rules) -> tuple[Partners, float]:
    """Return the best pairs in any order that the rules leave, and how much more weight others might have."""
    best = in_any_order(board, range(len(board.slots)), range(len(board.called)))
    partners, missed = keeping_rules(rules, best)
    unrelated = {slot: call for slot, call in _among_rest(board, partners).items() if not board.ratios[slot][call][0]}
    return {**partners, **unrelated}, float(missed)


def _among_rest(board: Board, partners: Partners) -> Partners:
    """Return the best pairs of the calls and slots that are left: they explain, and add no weight."""
    return in_any_order(board, _free(board.slots, partners), _free(board.called, partners.values()))


def _free(items: Sequence[object], occupied: Iterable[int]) -> list[int]:
    """Return the positions that are not occupied."""
    return sorted(set(range(len(items))).difference(occupied))


def _counted(slots: Sequence[Slot], valid: Partners) -> int:
    """Return how many slots count: an optional one only once it was called, so that leaving it out costs nothing."""
    return sum(slot.required or index in valid for index, slot in enumerate(slots))


def _pair(board: Board, slot: int, call: int, broken: Broken | None = None) -> Pair:
    pair = board.sides.pair(board.pattern_at(slot, call), call, board.ratios[slot][call])
    return pair._replace(expected=slot, breaks=None if broken is None else (broken.rule, broken.text))


def forbidden_calls(layout: Layout, called: Sequence[Item]) -> Iterator[tuple[int, str]]:
    """Yield the positions of the calls that a layout forbids, with its words for what.

    One whose arguments are not known is not forbidden, if these are what matters.
    """
    for call, item in enumerate(called):
        for want, text in layout.forbidden:
            if want.named(item.name) and _accepts(want.item, item):
                yield call, text
                break


def _accepts(want: Item, call: Item) -> bool:
    if isinstance(want.arguments, Absent):
        return True
    template, arguments = want.arguments, call.arguments
    return isinstance(template, Template) and isinstance(arguments, dict) and template.surely_fits(arguments)
