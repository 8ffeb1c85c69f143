"""Rules between the calls of a plan: order of calls, and calls of one step.

A pair that breaks a rule weighs nothing. Which pairs do depends on all pairs, so finding the alignment of the greatest
remaining weight is not an assignment problem. The goal: among the alignments that leave no call unpaired that
an empty slot would take at a similarity above 0, the one with the greatest weight of pairs that break no rule; of these
the one that takes the fewest optional slots.

Method: the best alignment without the rules is tried first. If it breaks none, nothing can be better. Otherwise the
slots that rules speak of, and those that compete with them for calls, are filled one by one, depth first, those first
that others must come after, the best call first; a branch is left when it could not become better than the best
alignment so far. What an open slot can still add is bounded by its best call that may come in time. After
`MOST_NODES` steps the search stops, and the alignment states how much weight it may have missed: the same bound, of all
slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from math import inf
from typing import Literal, NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.matching.plan_slots import Board, Partners

Rule = Literal["after", "parallel"]

MOST_NODES = 20_000
"""Nodes after which the search is given up; about a second. All searches of a case have `MOST_SEARCH_NODES`."""
_DEEPEST = 300
"""Slots that are searched; Python's stack bounds how many can be."""


class Broken(NamedTuple):
    """A rule that a pair breaks, and that in words."""

    rule: Rule
    text: str


class Rules:
    """The rules of the slots of a board."""

    def __init__(self, board: Board) -> None:
        """Collect the slots that rules refer to."""
        self.board = board
        slots = board.slots
        self._depths: dict[int, int] = {}
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

    def broken(self, partners: Mapping[int, int]) -> dict[int, Broken]:
        """Return the slots whose pairs break a rule. Pairs of similarity 0 break none, and nothing comes after them."""
        pairs = {slot: call for slot, call in partners.items() if self.board.ratios[slot][call][0]}
        broken = {slot: broken for slot, call in pairs.items() if (broken := self.too_early(slot, call, pairs))}
        in_time = pairs.keys() - broken.keys()
        for members in self.groups.values():
            apart = self._apart({slot: pairs[slot] for slot in members & in_time})
            broken.update(dict.fromkeys(apart, Broken("parallel", "in another step than its group")))
        return broken

    def too_early(self, slot: int, call: int, pairs: Mapping[int, int]) -> Broken | None:
        """Return the rule that a pair breaks by coming before what it should come after."""
        for label, members in self._earlier(slot):
            earlier = [pairs[member] for member in members if member in pairs]
            needed = min(self.least(members), len(earlier))
            if sum(self.before(one, call) for one in earlier) < needed:
                return Broken("after", f"not after {label!r}")
        return None

    def before(self, one: int, other: int) -> bool:
        """Return whether a call was made before another: calls of one step are asked for without seeing each other."""
        steps = self.board.steps
        return one < other and (steps[one] is None or steps[one] != steps[other])

    def _apart(self, pairs: Mapping[int, int]) -> list[int]:
        """Return the slots of the pairs of a group that are not in its step.

        That is the step of the greatest weight; of equal ones that of the fewest optional calls, and then the first.
        """
        steps = {slot: self.board.steps[call] for slot, call in pairs.items()}

        def loss(step: int) -> tuple[Fraction, int, int]:
            together = {slot: call for slot, call in pairs.items() if steps[slot] in (None, step)}
            return -self.board.weight(together), self._optional(together), step

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
        return Fraction(*self.board.ratios[slot][call])

    def value(self, partners: Mapping[int, int]) -> tuple[Fraction, int]:
        """Return the weight that breaks no rule, and minus the number of optional calls."""
        scoring = self.scoring_pairs(partners)
        return self.board.weight(scoring), -self._optional(scoring)

    def _optional(self, slots: Collection[int]) -> int:
        """Return how many of these slots are beyond the least number of their family."""
        families = [self.board.slots[slot] for slot in slots]
        least = Counter({slot.family: slot.least for slot in families})
        # The difference of two counters has no negative amounts.
        return (Counter(slot.family for slot in families) - least).total()

    def scoring_pairs(self, partners: Mapping[int, int]) -> Partners:
        """Return the pairs that add weight: those of a similarity above 0 that break no rule."""
        broken = self.broken(partners)
        return {
            slot: call for slot, call in partners.items() if slot not in broken and self.board.ratios[slot][call][0]
        }

    def settled(self, partners: Mapping[int, int]) -> Partners:
        """Return an alignment in which, of slots that are all alike, the required ones have the pairs that count."""
        scoring = self.scoring_pairs(partners)
        families: dict[int, list[int]] = {}
        for slot in partners:
            families.setdefault(self.board.slots[slot].family, []).append(slot)
        settled: Partners = {}
        for index, own in enumerate(self.board.slots):  # required ones come first
            siblings = families.get(own.family)
            if siblings:
                best = min(siblings, key=lambda one: (one not in scoring, partners[one]))
                siblings.remove(best)
                settled[index] = partners[best]
        return settled


def keeping_rules(rules: Rules, start: Partners) -> tuple[Partners, Fraction]:
    """Return the best alignment that the rules leave, and how much more weight another one might have.

    Args:
        rules: The rules.
        start: The best alignment without them.
    """
    if not rules.bound or not rules.broken(start):
        return start, Fraction(0)
    return _Search(rules, start).run()


class _Search:
    """The state of the search: who has taken which call, and the best alignment so far.

    Slots are filled in an order in which those come first that others must come after, so that it is known at once
    whether a pair comes too early.
    """

    def __init__(self, rules: Rules, start: Partners) -> None:
        """Find the slots to search, and bound what each can add."""
        self.rules = rules
        board = rules.board
        parts = board.in_parts(range(len(board.slots)), range(len(board.called)))
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
        self.nodes = 0
        self.budget = current_budget()

    def _choices(self, slot: int) -> list[int]:
        """Return the calls that a slot would take at a similarity above 0, the best and then the nearest first."""
        ratios = self.rules.board.ratios[slot]
        good = [call for call, ratio in ratios.items() if ratio[0]]
        return sorted(good, key=lambda call: (-self.rules.weight(slot, call), abs(call - slot), call))

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

    def run(self) -> tuple[Partners, Fraction]:
        """Search, and return the best alignment and the bound of what was missed."""
        others = self.rules.board.weight(self.fixed)
        finished = self.small and self._fill(0, {}, set(), others)
        return self.best, Fraction(0) if finished else others + self.rest[0] - self.best_value[0]

    def _fill(self, place: int, pairs: dict[int, int], used: set[int], weight: Fraction) -> bool:
        """Fill the slots from a place on; return whether everything was looked at."""
        if not self._count_node():
            return False
        if (weight + self.rest[place], 0) <= self.best_value:
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

    def _consider(self, pairs: Mapping[int, int], used: set[int]) -> None:
        empty = set(self.slots).difference(pairs)
        if not used.issuperset(chain.from_iterable(self.choices[slot] for slot in empty)):
            return  # a call that could have been paired is left over
        partners = {**self.fixed, **pairs}
        value = self.rules.value(partners)
        if value > self.best_value:
            self.best, self.best_value = partners, value
