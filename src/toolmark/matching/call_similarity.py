"""What two calls of equal name are worth to each other, and where they differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from math import gcd
from typing import Any, NamedTuple

from toolmark.matching.alignment import Item, Pair
from toolmark.matching.argument_pattern import ONE, ZERO, Ratio, Template, Wanted, fits
from toolmark.matching.json_compare import (
    Absent,
    Difference,
    argument_differences,
    frozen,
    json_forms,
    outputs_equal,
    similarity,
)
from toolmark.matching.redacted_values import has_mark, place, without_marks
from toolmark.matching.shared_leaves import common, leaves_of

Matrix = list[list[Ratio]]


class Keys(NamedTuple):
    """Keys of the calls of two groups; equal keys mean equal calls.

    Attributes:
        expected: One for each expected call; `None` where it is equal to no other.
        called: One for each called tool.
        exact: Whether calls of unequal keys have a similarity below 1: no text equals a value, for example.
    """

    expected: list[Hashable]
    called: list[Hashable]
    exact: bool = True

    @property
    def complete(self) -> bool:
        """Whether every call has a key, so that equal calls may be paired first."""
        return self.exact and None not in self.expected and None not in self.called


_TOGETHER_FROM = 16
"""Pairs from which looking at all arguments together costs less than comparing each with each."""


class Comparison:
    """The two sides, and which fields of them are compared."""

    def __init__(
        self,
        expected: Sequence[Item],
        called: Sequence[Item],
        *,
        arguments: bool,
        output: bool,
        any_name: bool = False,
    ) -> None:
        """Keep both sides.

        Args:
            expected: One side.
            called: The other.
            arguments: Compare them, beside name and type.
            output: Compare it.
            any_name: Calls may be paired whose names differ.
        """
        self.expected = expected
        self.called = called
        self.arguments = arguments
        self.output = output
        self.any_name = any_name
        self.marked = self._marked() if arguments or output else frozenset()

    def _marked(self) -> frozenset[int]:
        """Return the `id` of each argument object and output that holds a mark, among calls that may be paired."""
        names = {item.name for item in self.expected}
        made = [item for item in self.called if self.any_name or item.name in names]
        items = [*self.expected, *made]
        values: list[object] = [_body(item.arguments) for item in items] if self.arguments else []
        if self.output and any(not isinstance(item.output, Absent) for item in self.expected):
            values += [item.output for item in items]
        return frozenset([id(value) for value in values if has_mark(value)])

    def _holds(self, *values: object) -> bool:
        """Return whether one of the values holds a mark."""
        return bool(self.marked) and any(id(_body(value)) in self.marked for value in values)

    def ratio(self, e: Item, c: Item) -> Ratio:
        """Return the similarity of two calls of equal name."""
        if self._ruled_out(e, c):
            return ZERO
        wanted, made = e.arguments, c.arguments
        if not self.arguments or isinstance(wanted, Absent) or not isinstance(made, dict):
            return ONE
        if isinstance(wanted, Template):
            return wanted.ratio(made)
        ratio = similarity(wanted, made)
        if ratio != ONE and self._holds(wanted, made):  # equal ones stay equal without them
            left, right, _ = without_marks(wanted, made)
            return similarity(left, right)
        return ratio

    def matrix(self, left: Sequence[int], right: Sequence[int]) -> Matrix:
        """Return the similarities of all pairs of two groups of one name; equal ratios share one tuple."""
        if not self.arguments or len(left) * len(right) < _TOGETHER_FROM:
            return [[self.ratio(self.expected[e], self.called[c]) for c in right] for e in left]
        ours, theirs = self._together(self.expected, left), self._together(self.called, right)
        apart = [number for number in range(len(right)) if number not in theirs]
        found = iter(_common(list(ours.values()), theirs))
        rows: Matrix = []
        for number, e in enumerate(left):
            item = self.expected[e]
            if number not in ours:
                rows.append([self.ratio(item, self.called[c]) for c in right])
                continue
            row = [ZERO] * len(right)
            gated = self.output or item.type is not None
            for other, ratio in next(found):
                if not (gated and self._ruled_out(item, self.called[right[other]])):
                    row[other] = ratio
            for other in apart:
                row[other] = self.ratio(item, self.called[right[other]])
            rows.append(row)
        return rows

    def _together(self, side: Sequence[Item], group: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the arguments that can be compared all at once, by their place in the group."""
        found: dict[int, dict[str, Any]] = {}
        for number, index in enumerate(group):
            arguments = side[index].arguments
            if isinstance(arguments, dict) and id(arguments) not in self.marked:
                found[number] = arguments
        return found

    def _ruled_out(self, e: Item, c: Item) -> bool:
        """Return whether type or output make two calls worth nothing to each other."""
        if e.type is not None and c.type != e.type and not isinstance(c.type, Absent):
            return True
        return self.output and self._outputs_differ(e, c)

    def _outputs_differ(self, e: Item, c: Item) -> bool:
        """Return whether both outputs are known, and differ."""
        if isinstance(e.output, Absent) or isinstance(c.output, Absent):
            return False
        if isinstance(e.output, Wanted):
            return not self._holds(c.output) and not any(fits(e.output, form) for form in json_forms(c.output))
        return not outputs_equal(e.output, c.output) and not self._holds(e.output, c.output)

    def pair(self, e: int, c: int, ratio: Ratio) -> Pair:
        """Return the pair with its differences, and with what could not be compared."""
        wanted, made = self.expected[e], self.called[c]
        not_compared = []
        if self.arguments and isinstance(made.arguments, Absent) and not isinstance(wanted.arguments, Absent):
            not_compared.append("input_parameters")
        if self.output and isinstance(made.output, Absent) and not isinstance(wanted.output, Absent):
            not_compared.append("output")
        if isinstance(made.type, Absent) and wanted.type is not None:
            not_compared.append("type")
        redacted = self._redacted(wanted, made) if self.marked else ()
        differences = () if ratio[0] == ratio[1] else tuple(map(_copied, self.differences(wanted, made)))
        return Pair(e, c, ratio[0] / ratio[1], differences, (*not_compared, *redacted), redacted)

    def _redacted(self, e: Item, c: Item) -> tuple[str, ...]:
        """Return the places of two calls that are not compared because they are redacted on either side."""
        found: list[str] = []
        wanted, made = e.arguments, c.arguments
        if self.arguments and self._holds(wanted, made) and not isinstance(wanted, Absent) and isinstance(made, dict):
            hidden = wanted.seen(made).hidden if isinstance(wanted, Template) else without_marks(wanted, made)[2]
            found.extend(place("input_parameters", path) for path in hidden)
        output = self.output and self._holds(e.output, c.output)
        if output and not isinstance(e.output, Absent) and not isinstance(c.output, Absent):
            found.append("output")
        return tuple(found)

    def differences(self, e: Item, c: Item) -> list[Difference]:
        """Return every difference of two calls of equal name."""
        found: list[Difference] = []
        if e.type is not None and c.type != e.type and not isinstance(c.type, Absent):
            found.append(Difference("wrong_type", (), e.type, c.type))
        wanted, made = e.arguments, c.arguments
        if self.arguments and not isinstance(wanted, Absent) and isinstance(made, dict):
            if isinstance(wanted, Template):
                found.extend(wanted.seen(made).differences)
            elif self._holds(wanted, made):
                found.extend(argument_differences(*without_marks(wanted, made)[:2]))
            else:
                found.extend(argument_differences(wanted, made))
        if self.output and self._outputs_differ(e, c):
            found.append(Difference("wrong_output", (), e.output, c.output))
        return found

    def keys(self, left: Sequence[int], right: Sequence[int]) -> Keys:
        """Return the keys by which equal calls of two groups of one name are recognized.

        A field is compared if any expected call of the group sets it. The key of a call is `None` where a compared
        field is not set, not captured or redacted, or holds a matcher: such a call is equal to no other.
        """
        expected, called = [self.expected[e] for e in left], [self.called[c] for c in right]
        types = any(item.type is not None for item in expected)
        arguments = self.arguments and any(not isinstance(item.arguments, Absent) for item in expected)
        output = self.output and any(not isinstance(item.output, Absent) for item in expected)

        def key(item: Item) -> Hashable:
            parts: list[Hashable] = []
            if types:
                parts.append(item.type if isinstance(item.type, str) else None)
            if arguments:
                values = _exact_arguments(item.arguments)
                parts.append(None if values is None or self._holds(item.arguments) else frozen(values))
            if output:
                is_open = isinstance(item.output, (Absent, Wanted)) or self._holds(item.output)
                parts.append(None if is_open else ("output", frozen(item.output)))  # an output may be null
            return None if None in parts else tuple(parts)

        keys = Keys([key(item) for item in expected], [key(item) for item in called])
        if output and not _of_one_form([item.output for item in (*expected, *called)]):
            return keys._replace(exact=False)
        return keys


def _common(ours: Sequence[dict[str, Any]], theirs: Mapping[int, dict[str, Any]]) -> Iterator[list[tuple[int, Ratio]]]:
    """Yield for each of our arguments the places of theirs that have something in common with it, with how much."""
    places, others = list(theirs), list(theirs.values())
    rows, unit = common(ours, others, list(map(leaves_of, ours)), list(map(leaves_of, others)))
    ratios: dict[int, Ratio] = {}
    for row in rows:
        for worth in set(row.values()).difference(ratios):
            shared = gcd(worth, unit)
            ratios[worth] = worth // shared, unit // shared
        yield [(places[column], ratios[worth]) for column, worth in row.items()]


def _body(value: object) -> object:
    """Return what may hold a mark: of a template its tree."""
    return value.tree if isinstance(value, Template) else value


def _exact_arguments(arguments: object) -> dict[str, Any] | None:
    """Return the argument object that only an equal one matches, or `None` if there is a matcher or nothing is set."""
    if type(arguments) is Template and not arguments.extras and not _holds_matcher(arguments.tree):
        return dict(arguments.tree)
    return arguments if isinstance(arguments, dict) else None


def _holds_matcher(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_matcher, value.values()))
    if isinstance(value, list):
        return any(map(_holds_matcher, value))
    return isinstance(value, Wanted)


def _of_one_form(outputs: list[object]) -> bool:
    """Return whether no text among the outputs can be the JSON form of another output."""
    texts = [output for output in outputs if type(output) is str]
    if len(texts) != len(outputs):
        return not texts
    return not any(text.lstrip().startswith('"') for text in texts)


def _copied(difference: Difference) -> Difference:
    """Return a difference that no later change of the case can reach."""
    return replace(difference, expected=deepcopy(difference.expected), called=deepcopy(difference.called))
