"""Similarity and differences of two calls of equal name.

Calls are gated by type and output (all or nothing) and weighed by their arguments (partial credit). A redacted value is
not known, so it is left out on both sides; a field that either side does not have is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from math import gcd
from typing import Any, NamedTuple

from toolmark.matching.alignment import Item, Pair
from toolmark.matching.argument_pattern import ONE, ZERO, Ratio, Template, ValuePattern, fits
from toolmark.matching.json_compare import (
    ABSENT,
    Absent,
    Difference,
    Path,
    argument_differences,
    json_forms,
    outputs_equal,
    similarity,
)
from toolmark.matching.redacted_values import has_mark, may_hold_mark, place, without_marks
from toolmark.matching.shared_leaves import common, leaves_of

Matrix = list[list[Ratio]]

_MUTABLE = (dict, list, ValuePattern)

_TOGETHER_FROM = 16
"""Pairs from which looking at all arguments together costs less than comparing each with each."""


class ExactValues(NamedTuple):
    """The compared fields of the calls of two groups; calls are equal where these are.

    Attributes:
        expected: One list for each expected call; `None` where it is equal to no other.
        called: One for each called tool.
        exact: Whether calls of unequal values have a similarity below 1: no text equals a value, for example.
    """

    expected: list[list[Any] | None]
    called: list[list[Any] | None]
    exact: bool = True

    @property
    def complete(self) -> bool:
        """Whether every call has values, so that equal calls may be paired first."""
        return self.exact and None not in self.expected and None not in self.called


class Comparison:
    """The two sides of a case, and which fields of them are compared."""

    def __init__(
        self,
        expected: Sequence[Item],
        called: Sequence[Item],
        *,
        arguments: bool,
        output: bool,
    ) -> None:
        self.expected = expected
        self.called = called
        self.arguments = arguments
        self.output = output
        self.marked: frozenset[int] = self._marked() if arguments or output else frozenset()

    def _marked(self) -> frozenset[int]:
        """Return the `id` of each argument object and output that holds a redaction mark.

        Every value is searched once here, so that a comparison need not search it for each pair.
        """
        items = [*self.expected, *self.called]
        # Arguments that are not compared may hold marks without any effect.
        values: list[object] = [_tree(item.arguments) for item in items] if self.arguments else []
        if self.output and any(item.output is not ABSENT for item in self.expected):
            values += [item.output for item in items]
        return frozenset([id(value) for value in values if has_mark(value)]) if may_hold_mark(values) else frozenset()

    def _holds_mark(self, *values: object) -> bool:
        return bool(self.marked) and any(id(_tree(value)) in self.marked for value in values)

    # Similarity

    def ratio(self, e: Item, c: Item) -> Ratio:
        """Return the similarity of two calls of equal name."""
        if self._types_differ(e, c) or self._outputs_differ(e, c):
            return ZERO
        if not self.arguments or isinstance(e.arguments, Absent) or not isinstance(c.arguments, dict):
            return ONE
        if isinstance(e.arguments, Template):
            return e.arguments.ratio(c.arguments)
        ratio = similarity(e.arguments, c.arguments)
        if ratio != ONE and self._holds_mark(e.arguments, c.arguments):  # equal ones stay equal without them
            left, right, _ = without_marks(e.arguments, c.arguments)
            return similarity(left, right)
        return ratio

    def matrix(self, left: Sequence[int], right: Sequence[int]) -> Matrix:
        """Return the similarities of all pairs of two groups of one name; equal ratios share one tuple."""
        expected, called = [self.expected[e] for e in left], [self.called[c] for c in right]
        if not self.arguments or len(left) * len(right) < _TOGETHER_FROM:
            return [[self.ratio(e, c) for c in called] for e in expected]
        # Objects with matchers or redacted values have no fixed leaves, so they are compared pair by pair.
        rows, columns = self._plain_objects(expected), self._plain_objects(called)
        shared = _shared_ratios([rows[i] for i in rows], [columns[j] for j in columns])
        row_of = dict(zip(rows, shared, strict=True))
        place_of = list(columns)
        others = [j for j in range(len(called)) if j not in columns]
        matrix: Matrix = []
        for i, e in enumerate(expected):
            if i not in row_of:
                matrix.append([self.ratio(e, c) for c in called])
                continue
            row = [ZERO] * len(called)
            # A wrong type or output makes the whole pair 0, whatever the arguments share.
            gated = self.output or e.type is not None
            for column, ratio in row_of[i].items():
                c = called[place_of[column]]
                if not gated or not (self._types_differ(e, c) or self._outputs_differ(e, c)):
                    row[place_of[column]] = ratio
            for j in others:
                row[j] = self.ratio(e, called[j])
            matrix.append(row)
        return matrix

    def _plain_objects(self, items: Sequence[Item]) -> dict[int, dict[str, Any]]:
        """Return, by position, the argument objects without matchers and redacted values."""
        return {
            index: item.arguments
            for index, item in enumerate(items)
            if isinstance(item.arguments, dict) and id(item.arguments) not in self.marked
        }

    def _types_differ(self, e: Item, c: Item) -> bool:
        return e.type is not None and c.type != e.type and not isinstance(c.type, Absent)

    def _outputs_differ(self, e: Item, c: Item) -> bool:
        """Return whether outputs are compared, are known on both sides, and differ."""
        if not self.output or isinstance(e.output, Absent) or isinstance(c.output, Absent):
            return False
        if isinstance(e.output, ValuePattern):
            return not self._holds_mark(c.output) and not any(fits(e.output, form) for form in json_forms(c.output))
        return not outputs_equal(e.output, c.output) and not self._holds_mark(e.output, c.output)

    # Differences

    def pair(self, e: int, c: int, ratio: Ratio) -> Pair:
        """Return the pair with its differences, and with what could not be compared."""
        expected, called = self.expected[e], self.called[c]
        not_compared: list[str] = []
        if self.arguments and called.arguments is ABSENT and expected.arguments is not ABSENT:
            not_compared.append("input_parameters")
        if self.output and called.output is ABSENT and expected.output is not ABSENT:
            not_compared.append("output")
        if called.type is ABSENT and expected.type is not None:
            not_compared.append("type")
        if ratio == ONE and not self.marked:
            return Pair(e, c, 1.0, (), tuple(not_compared))
        differences, redacted = self._differences(expected, called)
        copies = () if ratio == ONE else tuple(map(_copied, differences))
        return Pair(e, c, ratio[0] / ratio[1], copies, (*not_compared, *redacted), tuple(redacted))

    def _differences(self, e: Item, c: Item) -> tuple[list[Difference], list[str]]:
        """Return every difference of two calls of equal name, and the places that a redacted value hides."""
        differences: list[Difference] = []
        hidden: list[Path] = []
        if self._types_differ(e, c):
            differences.append(Difference("wrong_type", (), e.type, c.type))
        if self.arguments and isinstance(c.arguments, dict):
            if isinstance(e.arguments, Template):
                mismatches = e.arguments.mismatches(c.arguments)
                differences += mismatches.differences
                hidden = mismatches.hidden
            elif isinstance(e.arguments, dict):
                left, right = e.arguments, c.arguments
                if self._holds_mark(left, right):
                    left, right, hidden = without_marks(left, right)
                differences += argument_differences(left, right)
        if self._outputs_differ(e, c):
            differences.append(Difference("wrong_output", (), e.output, c.output))
        redacted = [place("input_parameters", path) for path in hidden]
        outputs_known = not isinstance(e.output, Absent) and not isinstance(c.output, Absent)
        if self.output and outputs_known and self._holds_mark(e.output, c.output):
            redacted.append("output")
        return differences, redacted

    # Equality

    def exact_values(self, left: Sequence[int], right: Sequence[int]) -> ExactValues:
        """Return the values by which equal calls of two groups of one name are recognized.

        A field is compared if any expected call of the group sets it. A call has no values where a compared field is
        not set, not captured or redacted, or holds a matcher: such a call is equal to no other.
        """
        expected, called = [self.expected[e] for e in left], [self.called[c] for c in right]
        types = any(item.type is not None for item in expected)
        arguments = self.arguments and any(item.arguments is not ABSENT for item in expected)
        output = self.output and any(item.output is not ABSENT for item in expected)

        def values(item: Item) -> list[Any] | None:
            fields: list[Any] = []
            if types:
                if not isinstance(item.type, str):
                    return None
                fields.append(item.type)
            if arguments:
                exact_arguments = _exact_arguments(item.arguments)
                if exact_arguments is None or self._holds_mark(item.arguments):
                    return None
                fields.append(exact_arguments)
            if output:
                if isinstance(item.output, (Absent, ValuePattern)) or self._holds_mark(item.output):
                    return None
                fields.append(item.output)
            return fields

        # A tool's text may be the JSON of another call's value; then unequal values are not surely unequal.
        exact = not output or _of_one_form([item.output for item in (*expected, *called)])
        return ExactValues([values(item) for item in expected], [values(item) for item in called], exact)


def _shared_ratios(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[int, Ratio]]:
    """Return, for each argument object of one side, its similarity above 0 with those of the other, by position."""
    rows, unit = common(left, right, list(map(leaves_of, left)), list(map(leaves_of, right)))
    reduced: dict[int, Ratio] = {}
    for weight in {weight for row in rows for weight in row.values()}:
        divisor = gcd(weight, unit)
        reduced[weight] = weight // divisor, unit // divisor
    return [{column: reduced[weight] for column, weight in row.items()} for row in rows]


def _tree(value: object) -> object:
    """Return the object inside a template, and any other value as it is."""
    return value if type(value) is dict or not isinstance(value, Template) else value.tree


def _exact_arguments(arguments: object) -> dict[str, Any] | None:
    """Return the argument object that only an equal one matches, or `None` if there is a matcher or nothing is set."""
    if type(arguments) is dict:
        return arguments
    only = arguments.only_object() if isinstance(arguments, Template) else None
    return None if only is None else dict(only)


def _of_one_form(outputs: list[object]) -> bool:
    """Return whether no text among the outputs can be the JSON form of another output."""
    texts = [output for output in outputs if type(output) is str]
    if len(texts) != len(outputs):
        return not texts
    return not any(text.lstrip().startswith('"') for text in texts)


def _copied(difference: Difference) -> Difference:
    """Return a difference that no later change of the case can reach."""
    if not isinstance(difference.expected, _MUTABLE) and not isinstance(difference.called, _MUTABLE):
        return difference
    return replace(difference, expected=deepcopy(difference.expected), called=deepcopy(difference.called))
