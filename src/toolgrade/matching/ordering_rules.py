"""Rules between the calls of a plan: order of calls, and calls of one step.

A pair that breaks a rule weighs nothing. Which pairs do depends on all pairs, so finding the alignment of the greatest
remaining weight is not an assignment problem. The goal: among the alignments that leave no call unpaired that an empty
slot would take, the one with the greatest weight of pairs that break no rule. Neither the rules nor the choice of these
alignments look at arguments, so better arguments never lower the weight.

Method: the best alignment without the rules is tried first. If it breaks none, nothing can be better. Otherwise the
slots that rules speak of, and those that compete with them for calls, are filled one by one, depth first, those first
that others must come after, the best call first; a branch is left when it could not become better than the best
alignment so far. What an open slot can still add is bounded by its best call that may come in time. After
`MOST_NODES` steps the search stops, and the alignment states how much weight it may have missed: the same bound, of all
slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from math import inf
from typing import TypeAlias

from toolgrade._internal.budget import current_budget
from toolgrade.matching.alignment import Breaks, Partners
from toolgrade.matching.any_order import Board, in_any_order, total

Pairs: TypeAlias = "dict[int, int]"
"""The call of each slot."""

MOST_NODES = 20_000
"""Nodes after which the search is given up; about a second. All searches of a case have `MOST_SEARCH_NODES`."""
_DEEPEST = 300
"""Slots that are searched; Python's stack bounds how many can be."""


class Rules:
    """The rules of the slots of a board."""

    def __init__(self, board: Board) -> None:
        """Collect the slots that rules refer to."""
        self.board = board
        slots = board.slots
        self._depths: dict[int, int] = {}
        self._weights: dict[tuple[int, int], Fraction] = {}
        self.labelled: dict[str, dict[int, list[int]]] = {}
        self.groups: dict[int, set[int]] = {}
        for index, slot in enumerate(slots):
            for label in slot.labels:
                self.labelled.setdefault(label, {}).setdefault(slot.family, []).append(index)
            if slot.group is not None:
                self.groups.setdefault(slot.group, set()).add(index)
        self._referenced = frozenset[str]().union(*(slot.after for slot in slots)).intersection(self.labelled)
        self.bound = set(filter(self._is_bound, range(len(slots))))

    def _is_bound(self, index: int) -> bool:
        """Return whether a rule speaks of a slot."""
        slot = self.board.slots[index]
        has_order = not self._referenced.isdisjoint(slot.after | slot.labels)
        return has_order or (slot.group is not None and len(self.groups[slot.group]) > 1)

    def _earlier(self, slot: int) -> Iterator[tuple[str, list[int]]]:
        """Yield the slots that must come before a slot, all of a family together, with their label."""
        own = self.board.slots[slot]
        for label in sorted(own.after):
            for family, members in self.labelled.get(label, {}).items():
                if family != own.family:
                    yield label, members

    def earlier(self, slot: int) -> list[list[int]]:
        """Return the slots that must come before a slot, all of a family together."""
        return [members for _, members in self._earlier(slot)]

    def least(self, members: Sequence[int]) -> int:
        """Return how many of a family must come before what comes after it."""
        return max(1, self.board.slots[members[0]].least)

    def broken(self, pairs: Mapping[int, int]) -> dict[int, Breaks]:
        """Return the slots whose pairs break a rule."""
        broken = {slot: breaks for slot, call in pairs.items() if (breaks := self.too_early(slot, call, pairs))}
        in_time = pairs.keys() - broken.keys()
        for members in self.groups.values():
            apart = self._apart({slot: pairs[slot] for slot in members & in_time})
            broken.update(dict.fromkeys(apart, ("parallel", "in another step than its group")))
        return broken

    def too_early(self, slot: int, call: int, pairs: Mapping[int, int]) -> Breaks | None:
        """Return the rule that a pair breaks by coming before what it should come after."""
        for label, members in self._earlier(slot):
            earlier = [pairs[member] for member in members if member in pairs]
            needed = min(self.least(members), len(earlier))
            if sum(self.before(one, call) for one in earlier) < needed:
                return "after", f"not after {label!r}"
        return None

    def before(self, one: int, other: int) -> bool:
        """Return whether a call was made before another: calls of one step are asked for without seeing each other."""
        steps = self.board.steps
        return one < other and (steps[one] is None or steps[one] != steps[other])

    def _apart(self, pairs: Mapping[int, int]) -> list[int]:
        """Return the slots of the pairs of a group that are not in its step.

        That is the step of the greatest weight; of equal ones the first.
        """
        steps = {slot: self.board.steps[call] for slot, call in pairs.items()}

        def loss(step: int) -> tuple[Fraction, int]:
            together = {slot: call for slot, call in pairs.items() if steps[slot] in (None, step)}
            return -self._sum(together), step

        own = min({step for step in steps.values() if step is not None}, key=loss, default=None)
        return [slot for slot, step in steps.items() if step not in (None, own)]

    def depth(self, slot: int) -> int:
        """Return how long the longest chain of slots is that must come before a slot. Labels never come in circles."""
        if slot not in self._depths:
            # All of a family have the same labels.
            self._depths[slot] = 1 + max([self.depth(members[0]) for members in self.earlier(slot)], default=-1)
        return self._depths[slot]

    def weight(self, slot: int, call: int) -> Fraction:
        """Return the similarity of a pair."""
        if (slot, call) not in self._weights:
            self._weights[slot, call] = Fraction(*self.board.ratio(slot, call))
        return self._weights[slot, call]

    def _sum(self, pairs: Mapping[int, int]) -> Fraction:
        return Fraction(*total(self.weight(slot, call).as_integer_ratio() for slot, call in pairs.items()))

    def value(self, pairs: Mapping[int, int]) -> Fraction:
        """Return the weight of the pairs that break no rule."""
        broken = self.broken(pairs)
        return self._sum({slot: call for slot, call in pairs.items() if slot not in broken})

    def within_rules(self, start: Partners) -> tuple[Partners, float]:
        """Return the best alignment that the rules leave, and how much more weight another one might have.

        Args:
            start: The best alignment without them.
        """
        pairs = {slot: call for slot, (call, _) in start.items()}
        if not self.bound or not self.broken(pairs):
            return start, 0.0
        best, gap = _Search(self, pairs).run()
        partners: Partners = {slot: (call, self.weight(slot, call).as_integer_ratio()) for slot, call in best.items()}
        slots, calls = range(len(self.board.slots)), range(len(self.board.called))
        rest = [slot for slot in slots if slot not in best], sorted(set(calls).difference(best.values()))
        return partners | in_any_order(self.board, *rest), float(gap)

    def required_first(self, partners: Partners) -> tuple[Partners, dict[int, Breaks]]:
        """Return the alignment in which, of slots that are all alike, the required ones have the pairs that count.

        Returns also the rules that pairs break, by slot.
        """
        broken = self.broken({slot: call for slot, (call, _) in partners.items()})
        families: dict[int, list[int]] = {}
        for index, slot in enumerate(self.board.slots):
            families.setdefault(slot.family, []).append(index)
        chosen: Partners = {}
        moved: dict[int, Breaks] = {}
        for members in families.values():  # required ones come first
            paired = sorted(partners.keys() & set(members), key=lambda one: (one in broken, partners[one][0]))
            for own, before in zip(members, paired, strict=False):
                chosen[own] = partners[before]
                if before in broken:
                    moved[own] = broken[before]
        return chosen, moved


class _Search:
    """The state of the search: the call of each slot, and the best alignment so far.

    Slots are filled in an order in which those come first that others must come after, so that it is known at once
    whether a pair comes too early.
    """

    def __init__(self, rules: Rules, start: Pairs) -> None:
        """Find the slots to search, and bound what each can add."""
        self.rules = rules
        board = rules.board
        parts = board.parts(range(board.size), range(len(board.called)))
        searched = [slot for members, _ in parts if rules.bound.intersection(members) for slot in members]
        self.small = len(searched) <= _DEEPEST
        self.slots = searched
        if self.small:  # else nothing is searched
            self.slots.sort(key=lambda slot: (rules.depth(slot), not board.slots[slot].required, slot))
        self.choices = {slot: self._choices(slot) for slot in self.slots}
        # From each place on, what the slots can add at most, and the calls that they can take.
        most = map(self._most, reversed(self.slots))
        choices = (frozenset(self.choices[slot]) for slot in reversed(self.slots))
        self.rest = list(accumulate(most, initial=Fraction(0)))[::-1]
        self.later = list(accumulate(choices, frozenset.union, initial=frozenset[int]()))[::-1]
        self.fixed = {slot: call for slot, call in start.items() if slot not in self.choices}
        self.best, self.best_value = start, rules.value(start)
        self.counts = self._counts(start)
        self.nodes = 0
        self.budget = current_budget()

    def _choices(self, slot: int) -> list[int]:
        """Return the calls that fit a slot, the best and then the nearest first."""
        board = self.rules.board
        fitting = [call for call in range(len(board.called)) if board.fits(slot, call)]
        return sorted(fitting, key=lambda call: (-self.rules.weight(slot, call), abs(call - slot), call))

    def _must_be_taken(self, slot: int) -> bool:
        """Return whether a slot is never empty: fewer others than it has calls would take one of these."""
        calls = set(self.choices.get(slot, ()))
        return bool(calls) and sum(not calls.isdisjoint(others) for others in self.choices.values()) - 1 < len(calls)

    def _most(self, slot: int) -> Fraction:
        """Return the most that a slot can add: the similarity of its best call that can come late enough."""
        earlier = self.rules.earlier(slot)
        for call in self.choices[slot]:  # the best first
            if not any(self._too_early_for_sure(members, call) for members in earlier):
                return self.rules.weight(slot, call)
        return Fraction(0)

    def _too_early_for_sure(self, members: Sequence[int], call: int) -> bool:
        surely = sum(map(self._must_be_taken, members))
        before = sum(any(self.rules.before(one, call) for one in self.choices.get(member, ())) for member in members)
        return before < min(self.rules.least(members), surely)

    def run(self) -> tuple[Pairs, Fraction]:
        """Search, and return the best alignment and the bound of what was missed."""
        others = self.rules.value(self.fixed)
        finished = self.small and self._fill(0, {}, set(), others)
        return self.best, Fraction(0) if finished else others + self.rest[0] - self.best_value

    def _fill(self, place: int, pairs: dict[int, int], used: set[int], weight: Fraction) -> bool:
        """Fill the slots from a place on; return whether everything was looked at."""
        if not self._count_node():
            return False
        if weight + self.rest[place] <= self.best_value:
            return True
        if place == len(self.slots):
            self._consider(pairs, used)
            return True
        slot = self.slots[place]
        for call in self._open(place, pairs, used):
            if call is None:
                if not self._fill(place + 1, pairs, used, weight):
                    return False
                continue
            pairs[slot] = call
            used.add(call)
            more = Fraction(0) if self.rules.too_early(slot, call, pairs) else self.rules.weight(slot, call)
            finished = self._fill(place + 1, pairs, used, weight + more)
            used.discard(call)
            del pairs[slot]
            if not finished:
                return False
        return True

    def _count_node(self) -> bool:
        """Count a node; return whether the search may go on."""
        self.nodes += 1
        self.budget.search_nodes -= 1
        return self.nodes <= MOST_NODES and self.budget.search_nodes >= 0

    def _open(self, place: int, pairs: Mapping[int, int], used: set[int]) -> Iterator[int | None]:
        """Yield the calls that a slot may take; slots of one family take theirs in order, for they are all alike."""
        slot = self.slots[place]
        slots = self.rules.board.slots
        siblings = [other for other in self.slots[:place] if slots[other].family == slots[slot].family]
        floor = pairs.get(siblings[-1], inf) if siblings else -1  # after an empty slot, the others stay empty
        free = [call for call in self.choices[slot] if call not in used]
        yield from (call for call in free if call > floor)
        if self.later[place + 1].issuperset(free):  # else one would be left over
            yield None

    def _counts(self, pairs: Pairs) -> tuple[int, int, int]:
        """Return, of the pairs in parts with optional slots, how many slots are required and how many calls limited."""
        board = self.rules.board
        calls = {slot: call for slot, call in pairs.items() if slot in board.in_optional_parts}
        required = sum(board.slots[slot].required for slot in calls)
        return len(calls), required, len(board.with_limit.intersection(calls.values()))

    def _consider(self, pairs: Mapping[int, int], used: set[int]) -> None:
        empty = set(self.slots).difference(pairs)
        if not used.issuperset(chain.from_iterable(self.choices[slot] for slot in empty)):
            return  # a call that could have been paired is left over
        partners = {**self.fixed, **pairs}
        if self._counts(partners) != self.counts:
            return  # the number of expected calls depends on names alone
        value = self.rules.value(partners)
        if value > self.best_value:
            self.best, self.best_value = partners, value
