"""Plans: numbers of times, alternatives, an order, groups, and forbidden calls.

A plan leaves choices (one of several calls or sub-plans, one of several trajectories). Each way to make them is a
`Layout`; `align_layout` returns its best alignment, and whoever knows the score picks the layout that scores best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.matching.alignment import CallItem, CallPattern, Matching, Slot
from toolgrade.matching.argument_pattern import Template
from toolgrade.matching.engine import align_slots
from toolgrade.matching.json_compare import AbsentType

_STEPS = 4
"""Steps of one comparison of an expected call with a called one."""


class LayoutEntry(NamedTuple):
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

    entries: tuple[LayoutEntry, ...]
    forbidden: tuple[tuple[CallPattern, str], ...] = ()
    extras: bool | None = None
    choices: tuple[str, ...] = ()


def align_layout(
    layout: Layout,
    called: Sequence[CallItem],
    steps: Sequence[int | None],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Matching:
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
    compared = sum(_fitting(entry, called) * len(entry.patterns) for entry in layout.entries)
    current_budget().spend(len(slots) + len(called) + _STEPS * compared, "a plan with these calls")
    matching = align_slots(slots, called, steps, ordered=ordered, arguments=arguments, output=output)
    matching.labels = [slot.text for slot in slots]
    matching.choices = layout.choices
    matching.forbidden = tuple(forbidden_calls(layout, called))
    matching.extras = layout.extras
    return matching


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
    """Return the number of calls whose name an entry accepts."""
    return sum(any(pattern.named(item.name) for pattern in entry.patterns) for item in called)


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
    """Yield the positions of the calls that a layout forbids, with its words for what.

    One whose arguments are not known is not forbidden, if these are what matters.
    """
    for call, item in enumerate(called):
        for pattern, text in layout.forbidden:
            if pattern.named(item.name) and _accepts(pattern.item, item):
                yield call, text
                break


def _accepts(expected: CallItem, call: CallItem) -> bool:
    if isinstance(expected.arguments, AbsentType):
        return True
    template, arguments = expected.arguments, call.arguments
    return isinstance(template, Template) and isinstance(arguments, dict) and template.surely_fits(arguments)
