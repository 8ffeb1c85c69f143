"""Slow, obvious answers to what plans score: every way of a plan, and every alignment of each way, are listed.

A way is a list of places. An alignment gives some places a call each. It must leave no call over that an empty place
would take at a similarity above 0. A pair counts unless it comes too early, or in another step than most of its group.
The best alignment has the greatest weight, and then the fewest optional places that count; the best way has the best
score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from oracles import object_similarity
from toolgrade import ToolCall
from toolgrade.expect import Expect, Forbid, Glob, OneOf, Parallel, Plan


class Place(NamedTuple):
    """One required or optional occurrence of an expected call."""

    call: Any
    required: bool
    family: int
    is_limited: bool
    least: int
    labels: frozenset[str]
    after: frozenset[str]
    group: int | None


class Way(NamedTuple):
    """Expected calls in order, each with inherited rules, and forbidden calls."""

    calls: tuple[tuple[Any, frozenset[str], frozenset[str], int | None], ...]
    forbidden: tuple[Forbid, ...]


class Totals(NamedTuple):
    """The numbers that determine a score."""

    weight: Fraction
    expected: int
    called: int
    forbidden: bool
    silent: bool


def ways(
    items: Sequence[Any], labels: frozenset[str] = frozenset(), after: frozenset[str] = frozenset(), group: Any = None
) -> Iterator[Way]:
    """Every way to make the choices of a plan."""
    options: list[list[Way]] = []
    for number, item in enumerate(items):
        own = labels | ({item.label} if getattr(item, "label", None) else frozenset())
        before = after | frozenset(getattr(item, "after", ()))
        if isinstance(item, Forbid):
            options.append([Way((), (item,))])
        elif isinstance(item, OneOf):
            options.append([way for one in item.alternatives for way in ways(one, own, before, group)])
        elif isinstance(item, Parallel):
            options.append(list(ways(item.calls, own, before, (group, number, id(item)))))
        else:
            options.append([Way(((item, own, before, group),), ())])
    for chosen in product(*options):
        yield Way(
            tuple(call for way in chosen for call in way.calls), tuple(one for way in chosen for one in way.forbidden)
        )


def places(way: Way, count: int) -> list[Place]:
    """A place for each time that a call is expected, and for each further time that it may be made."""
    slots: list[Place] = []
    for family, (call, labels, after, group) in enumerate(way.calls):
        least, most = (call.least, call.most) if isinstance(call, Expect) else (1, 1)
        amount = max(least, count) if most is None else most
        is_limited = most is not None and least < most
        slots += [Place(call, at < least, family, is_limited, least, labels, after, group) for at in range(amount)]
    return slots


def named(name: Any, call: ToolCall) -> bool:
    """Whether a call has an expected name."""
    return call.name.startswith(name.pattern.rstrip("*")) if isinstance(name, Glob) else call.name == name


def similarity(expected: Any, call: ToolCall) -> Fraction:
    """What a call is worth to an expected one of its name."""
    if isinstance(expected, ToolCall):
        reference = expected.arguments if "input_parameters" in expected.model_fields_set else None
    else:
        reference = expected.input_parameters if isinstance(expected.input_parameters, dict) else None
    return Fraction(1) if reference is None else object_similarity(reference, call.arguments)


def step_of(call: ToolCall) -> int | None:
    """The step of a call, if it is known."""
    return None if call.execution is None else call.execution.step


def alignments(slots: Sequence[Place], called: Sequence[ToolCall]) -> Iterator[dict[int, int]]:
    """Every way to give places calls of their name, whatever their arguments."""

    def fill(at: int, pairs: dict[int, int]) -> Iterator[dict[int, int]]:
        if at == len(slots):
            yield dict(pairs)
            return
        yield from fill(at + 1, pairs)
        for call, actual in enumerate(called):
            if call not in pairs.values() and named(slots[at].call.name, actual):
                pairs[at] = call
                yield from fill(at + 1, pairs)
                del pairs[at]

    yield from fill(0, {})


def leaves_nothing_over(slots: Sequence[Place], called: Sequence[ToolCall], pairs: dict[int, int]) -> bool:
    """Whether no empty place would take a call that is left over."""
    return not any(
        named(slot.call.name, actual)
        for at, slot in enumerate(slots)
        if at not in pairs
        for call, actual in enumerate(called)
        if call not in pairs.values()
    )


def counting(slots: Sequence[Place], called: Sequence[ToolCall], pairs: dict[int, int]) -> dict[int, int]:
    """The pairs that break no rule."""

    def before(one: int, other: int) -> bool:
        step = step_of(called[one])
        return one < other and (step is None or step != step_of(called[other]))

    def in_time(at: int) -> bool:
        for label in slots[at].after:
            families = {slot.family for slot in slots if label in slot.labels and slot.family != slots[at].family}
            for family in families:
                partners = [call for other, call in pairs.items() if slots[other].family == family]
                least = next(slot.least for slot in slots if slot.family == family)
                if sum(before(call, pairs[at]) for call in partners) < min(len(partners), max(1, least)):
                    return False
        return True

    counted = {at: call for at, call in pairs.items() if in_time(at)}
    for group in {slots[at].group for at in counted} - {None}:
        members = [at for at in counted if slots[at].group == group]
        steps = sorted({step for at in members if (step := step_of(called[counted[at]])) is not None})
        if steps:
            weight = {
                s: sum(
                    similarity(slots[at].call, called[counted[at]])
                    for at in members
                    if step_of(called[counted[at]]) == s
                )
                for s in steps
            }
            own = max(steps, key=lambda step: (weight[step], -step))
            for at in members:
                if step_of(called[counted[at]]) not in (None, own):
                    del counted[at]
    return counted


def keeps_order(slots: Sequence[Place], called: Sequence[ToolCall], pairs: dict[int, int]) -> bool:
    """Whether pairs keep the order of both sides; a group has no order inside, and one step."""
    for one, call in pairs.items():
        for other, later in pairs.items():
            if one >= other:
                continue
            together = slots[one].group is not None and slots[one].group == slots[other].group
            if together and None not in (step_of(called[call]), step_of(called[later])):
                if step_of(called[call]) != step_of(called[later]):
                    return False
            elif not together and call > later:
                return False
    return True


def forbidden(way: Way, called: Sequence[ToolCall]) -> bool:
    """Whether a forbidden call was made."""
    return any(named(one.name, call) for one in way.forbidden for call in called)


def totals(plan: Plan, called: Sequence[ToolCall], *, ordered: bool) -> list[Totals]:
    """Return the numbers of each choice."""
    rows: list[Totals] = []
    for way in ways(plan.calls):
        weight, expected = matched(way, called, ordered=ordered)
        rows.append(Totals(weight, expected, len(called), forbidden(way, called), silent(plan)))
    return rows


def silent(plan: Plan) -> bool:
    """Whether a plan does nothing but forbid."""
    return "Forbid(" in repr(plan) and "ToolCall(" not in repr(plan) and "Expect(" not in repr(plan)


def matched(way: Way, called: Sequence[ToolCall], *, ordered: bool) -> tuple[Fraction, int]:
    """The weight of the best alignment of a way, and how many expected calls count, which names alone decide."""
    slots = places(way, len(called))
    leveled = leveled_slots(slots, called)
    limited = {
        call
        for call, actual in enumerate(called)
        if any(slot.is_limited and named(slot.call.name, actual) for slot in slots)
    }

    def counts(pairs: dict[int, int]) -> tuple[int, int, int]:
        own = {at: call for at, call in pairs.items() if at in leveled}
        required = sum(slots[at].required for at in own)
        return required, len(own) - required, len(limited.intersection(own.values()))

    every = list(alignments(slots, called))
    most = max(map(counts, every))
    weights: list[Fraction] = []
    for pairs in every:
        if ordered:
            if not keeps_order(slots, called, pairs):
                continue
            counted = pairs
        elif counts(pairs) == most and leaves_nothing_over(slots, called, pairs):
            counted = counting(slots, called, pairs)
        else:
            continue
        weights.append(sum((similarity(slots[at].call, called[call]) for at, call in counted.items()), Fraction(0)))
    return max(weights), sum(slot.required for slot in slots) + most[1] + len(limited) - most[2]


def leveled_slots(slots: Sequence[Place], called: Sequence[ToolCall]) -> set[int]:
    """The slots that compete for calls, directly or over others, with an optional one."""
    leveled = {at for at, slot in enumerate(slots) if not slot.required}
    while True:
        names = {call.name for call in called if any(named(slots[at].call.name, call) for at in leveled)}
        more = {
            at for at, slot in enumerate(slots) if any(named(slot.call.name, ToolCall(name=name)) for name in names)
        }
        if more <= leveled:
            return leveled
        leveled |= more


def score(parts: Totals, denominator: str) -> Fraction:
    """The score of a way."""
    weight, m, n = parts.weight, parts.expected, parts.called
    if parts.forbidden:
        return Fraction(0)
    if not m or not n:
        return Fraction(m == n or (not m and parts.silent))
    return (
        weight
        / {"expected": Fraction(m), "called": Fraction(n), "longest": Fraction(max(m, n)), "f1": Fraction(m + n, 2)}[
            denominator
        ]
    )
