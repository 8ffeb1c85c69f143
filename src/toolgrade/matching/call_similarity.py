"""Similarity, differences and equality of expected and called calls.

Calls are gated by type, turn and output (all or nothing) and weighed by their arguments (partial credit). A redacted
value is not known, so it is left out on both sides; a field that either side does not have is not compared.

Expected arguments are an object, a `Template` (an object with matchers of `toolgrade.expect` inside), or a text that is
not JSON. Positions in the two lists are `e` and `c`, those of a group `left` (expected) and `right` (called).

Equal calls may be paired before all others where every call has values to be recognized by. The distance
d = 1 - similarity then keeps the triangle inequality: for an equal pair (e, c) and any calls x and y,
d(x, y) <= d(x, c) + d(e, y), so that (e, c) and (x, y) weigh no less than (x, c) and (e, y). A field left open, a
matcher or a text output that may equal a value breaks the inequality.
"""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Callable, Container, Hashable, KeysView, Sequence
from copy import deepcopy
from operator import eq
from typing import Any, Final

from toolgrade._internal.json import REDACTED
from toolgrade.matching.alignment import CallItem, PairDetails
from toolgrade.matching.argument_pattern import ONE, ZERO, Mismatches, Ratio, Template, fits, holds_matcher, is_pattern
from toolgrade.matching.json_compare import (
    ABSENT,
    AbsentType,
    Difference,
    argument_differences,
    forms_equal,
    frozen,
    has_mark,
    json_equal,
    json_forms,
    place,
    similarity,
)

_IMMUTABLE: Final = frozenset({str, int, float, bool, type(None), AbsentType})
_NO_DETAILS: Final = PairDetails()
_MANY_PAIRS: Final = 64
"""Pairs from which it pays to bring all values into one order of keys."""
_FEW_PAIRS: Final = 2048
"""Pairs up to which comparing values with each other costs less than making a key of each."""


class CallScores:
    """The two sides of a case, and which fields of them are compared.

    Args:
        expected: The expected calls.
        called: The called ones.
        names: The names of calls that may be compared; values of others are not looked at.
        arguments: Whether arguments are compared.
        output: Whether outputs are compared.

    Attributes:
        marked: The `id` of each argument object and output that holds a redaction mark.
        plain: Whether only arguments are compared, all of them known, without matchers and redacted values.
    """

    def __init__(
        self,
        expected: Sequence[CallItem],
        called: Sequence[CallItem],
        names: Container[str],
        *,
        arguments: bool,
        output: bool,
    ) -> None:
        self.expected = expected
        self.called = called
        self.arguments = arguments
        self.output = output
        compared = [*expected, *(item for item in called if item.name in names)]
        has_outputs = output and _have_outputs(expected)
        self._with_matchers = _outputs_with_matchers(expected) if has_outputs else set()
        values = self._values_of(compared, outputs=has_outputs)
        is_plain = arguments and not has_outputs and set(map(type, values)) <= {dict}
        self._by_meaning = not is_plain and _compare_by_meaning(values)
        if not is_plain:
            values = _captured(values)
        self.marked, self._may_hold_nan = _search(values)
        self.plain: bool = is_plain and not (_have_types(expected) or self.marked)
        self._text_forms: dict[str, Sequence[object]] = {}

    def _values_of(self, items: Sequence[CallItem], *, outputs: bool) -> list[Any]:
        """Return the compared values of calls; others may hold marks without any effect."""
        values: list[Any] = [item.arguments for item in items] if self.arguments else []
        return values + [item.output for item in items] if outputs else values

    def _holds_mark(self, *values: object) -> bool:
        return bool(self.marked) and any(id(_tree(value)) in self.marked for value in values)

    # Similarity

    def ratio(self, e: int, c: int) -> Ratio:
        """Return the similarity of two calls of equal name."""
        if self.plain:
            return similarity(self.expected[e].arguments, self.called[c].arguments)  # type: ignore[arg-type] # dicts
        expected, called = self.expected[e], self.called[c]
        if self._differs_elsewhere(expected, called):
            return ZERO
        if not self.arguments or isinstance(expected.arguments, AbsentType) or isinstance(called.arguments, AbsentType):
            return ONE
        return self._argument_ratio(expected.arguments, called.arguments)

    def ratios(self, left: Sequence[int], right: Sequence[int]) -> list[list[Ratio]]:
        """Return the similarities of all pairs of two groups of one name."""
        if self.plain and len(left) * len(right) >= _MANY_PAIRS:
            ratios = _ratios_of_same_keys(
                [self.expected[e].arguments for e in left], [self.called[c].arguments for c in right]
            )
            if ratios is not None:
                return ratios
        return [[self.ratio(e, c) for c in right] for e in left]

    def _argument_ratio(self, expected: dict[str, Any] | Template | str, called: object) -> Ratio:
        """Return the similarity of two argument objects, without redacted values; other texts equal only themselves."""
        if isinstance(expected, str) or not isinstance(called, dict):
            return ONE if expected == called else ZERO
        if isinstance(expected, Template) or self._holds_mark(expected, called):
            return Template.of(expected).ratio(called)
        return similarity(expected, called)

    def _differs_elsewhere(self, e: CallItem, c: CallItem) -> bool:
        """Return whether types, turns or outputs differ: the pair is then 0, whatever the arguments share."""
        return self.are_apart(e, c) or self._outputs_differ(e, c)

    @staticmethod
    def are_apart(e: CallItem, c: CallItem) -> bool:
        """Return whether the types of two calls differ, if the expected one has one."""
        return e.type is not None and c.type != e.type and not isinstance(c.type, AbsentType)

    def _outputs_differ(self, e: CallItem, c: CallItem) -> bool:
        """Return whether outputs are compared, are known on both sides, and differ."""
        if not self.output or isinstance(e.output, AbsentType) or isinstance(c.output, AbsentType):
            return False
        if self._holds_mark(e.output, c.output):
            return False
        if id(e.output) in self._with_matchers:
            return not any(fits(e.output, form) for form in self._forms(c.output))
        return not json_equal(e.output, c.output) and not forms_equal(self._forms(e.output), self._forms(c.output))

    def _forms(self, output: object) -> Sequence[object]:
        """Return what an output may mean, itself and as JSON; each text is read once, and not once for each pair."""
        if type(output) is not str:
            return (output,)
        forms = self._text_forms.get(output)
        if forms is None:
            forms = self._text_forms[output] = json_forms(output)
        return forms

    # Differences

    def details(self, e: int, c: int, ratio: Ratio) -> PairDetails:
        """Return what a pair of this similarity shows, in a form that no later change of the case can reach."""
        if self.plain and ratio == ONE:
            return _NO_DETAILS
        expected, called = self.expected[e], self.called[c]
        not_compared = self._uncaptured(expected, called)
        if ratio == ONE and not self.marked and not self._by_meaning:
            return PairDetails((), not_compared)
        differences, redacted, respelled = self._differences(expected, called)
        return PairDetails(
            () if ratio == ONE else _copied(differences),
            (*not_compared, *redacted),
            tuple(redacted),
            _copied(respelled),
        )

    def _uncaptured(self, e: CallItem, c: CallItem) -> tuple[str, ...]:
        """Return the fields that the expected call compares and the recording lacks."""
        fields = {
            "input_parameters": self.arguments and c.arguments is ABSENT and e.arguments is not ABSENT,
            "output": self.output and c.output is ABSENT and e.output is not ABSENT,
            "type": c.type is ABSENT and e.type is not None,
        }
        return tuple(field for field, is_uncaptured in fields.items() if is_uncaptured)

    def _differences(self, e: CallItem, c: CallItem) -> tuple[list[Difference], list[str], list[Difference]]:
        """Return the differences of two calls, the redacted places, and other spellings of equal values."""
        arguments = self._mismatches(e.arguments, c.arguments)
        differences = arguments.differences
        if self.are_apart(e, c):
            differences = [Difference("wrong_type", (), e.type, c.type), *differences]
        if self._outputs_differ(e, c):
            differences.append(Difference("wrong_output", (), e.output, c.output))
        redacted = [place("input_parameters", path) for path in arguments.hidden]
        if self.output and ABSENT is not e.output and ABSENT is not c.output and self._holds_mark(e.output, c.output):
            redacted.append("output")
        return differences, redacted, arguments.respelled

    def _mismatches(self, expected: dict[str, Any] | Template | str | AbsentType, called: object) -> Mismatches:
        """Return what speaks against called arguments, and what of them is redacted."""
        if not self.arguments or isinstance(expected, AbsentType) or isinstance(called, AbsentType):
            return Mismatches()
        if isinstance(expected, str) or not isinstance(called, dict):
            is_equal = expected == called
            return Mismatches([] if is_equal else [Difference("wrong_argument", (), _tree(expected), called)])
        if isinstance(expected, Template) or self._holds_mark(expected, called):
            return Template.of(expected).mismatches(called)
        return Mismatches(argument_differences(expected, called))

    # Equality

    def equal_pairs(self, left: Sequence[int], right: Sequence[int]) -> tuple[dict[int, int], bool]:
        """Return the partners of equal calls of one name, and whether they may be paired before all others.

        The k-th of several equal expected calls gets the k-th called one.
        """
        expected, called, is_complete = self._exact_values(left, right)
        partners = None
        if len(left) * len(right) <= _FEW_PAIRS and not self._may_hold_nan:
            partners = _equal_in_python(left, right, expected, called)
        return _equal_by_key(left, right, expected, called) if partners is None else partners, is_complete

    def _exact_values(self, left: Sequence[int], right: Sequence[int]) -> tuple[list[Any], list[Any], bool]:
        """Return the values by which equal calls of two groups of one name are recognized, `None` where there are none.

        A field is compared if any expected call of the group sets it. A call has no values where a compared field is
        not set, not captured or redacted, or holds a matcher: such a call is equal to no other. The last value says
        whether equal calls may be paired first: every call has values, and calls of unequal values have a similarity
        below 1. A text may equal an object or a number once it is read as JSON.
        """
        expected, called = [self.expected[e] for e in left], [self.called[c] for c in right]
        if self.plain:
            return [item.arguments for item in expected], [item.arguments for item in called], True
        readers = self._readers(expected)

        def values(item: CallItem) -> list[Any] | None:
            fields = [read(item) for read in readers]
            return None if ABSENT in fields else fields

        expected_values, called_values = list(map(values, expected)), list(map(values, called))
        is_complete = None not in expected_values and None not in called_values
        if is_complete and self._exact_output in readers:
            is_complete = self._of_one_form([item.output for item in (*expected, *called)])
        return expected_values, called_values, is_complete

    def _readers(self, expected: Sequence[CallItem]) -> list[Callable[[CallItem], Any]]:
        """Return the functions that read the compared fields of a call."""
        readers: list[Callable[[CallItem], Any]] = []
        if _have_types(expected):
            readers.append(_exact_type)
        if self.arguments and any(item.arguments is not ABSENT for item in expected):
            readers.append(self._exact_arguments)
        if self.output and _have_outputs(expected):
            readers.append(self._exact_output)
        return readers

    def _exact_arguments(self, item: CallItem) -> dict[str, Any] | str | AbsentType:
        """Return the argument object that only an equal one matches; `ABSENT` if there is none."""
        if self._holds_mark(item.arguments):
            return ABSENT
        if not isinstance(item.arguments, Template):
            return item.arguments
        only = item.arguments.only_object()
        return ABSENT if only is None else dict(only)

    def _of_one_form(self, outputs: list[object]) -> bool:
        """Return whether no text among the outputs equals another output only when it is read as JSON."""
        texts = {output for output in outputs if type(output) is str}
        if not texts:
            return True
        if any(type(output) is not str for output in outputs):
            return False
        forms = [form for text in texts for form in {*map(frozen, self._forms(text))}]
        return len(forms) == len(set(forms))

    def _exact_output(self, item: CallItem) -> Any:  # noqa: ANN401 - a JSON value
        """Return the output that only an equal one matches; `ABSENT` if there is none."""
        return ABSENT if id(item.output) in self._with_matchers or self._holds_mark(item.output) else item.output


def _have_types(items: Sequence[CallItem]) -> bool:
    return any(item.type is not None for item in items)


def _have_outputs(items: Sequence[CallItem]) -> bool:
    return any(item.output is not ABSENT for item in items)


def _outputs_with_matchers(items: Sequence[CallItem]) -> set[int]:
    """Return the `id` of each output that holds a matcher."""
    return {id(item.output) for item in items if holds_matcher(item.output)}


def _compare_by_meaning(values: Sequence[object]) -> bool:
    return any(isinstance(value, Template) and value.by_meaning for value in values)


def _captured(values: Sequence[object]) -> list[Any]:
    """Return the values that are there; of templates the objects inside them."""
    return [_tree(value) for value in values if value is not ABSENT]


def _search(values: list[Any]) -> tuple[frozenset[int], bool]:
    """Return the `id` of each value that holds a mark, and whether any may hold NaN; hardly any does."""
    # Marshal writes texts as they are, and one search of the bytes is several times as fast as a look at each value.
    try:
        data = marshal.dumps(values)
    except ValueError:  # a matcher, or a value that is nested more deeply than marshal goes
        data = None
    if data is not None and REDACTED.encode() not in data:
        return frozenset(), b"\x7f" in data or b"\xff" in data  # one of these ends each NaN
    return frozenset([id(value) for value in values if has_mark(value)]), True


def _equal_in_python(
    left: Sequence[int], right: Sequence[int], expected: Sequence[Any], called: Sequence[Any]
) -> dict[int, int] | None:
    """Return the partners of calls with equal values; `None` if Python's equality is not that of JSON values.

    It is, but for NaN, which must not be there, and for booleans that equal numbers.
    """
    partners: dict[int, int] = {}
    positions, values = list(right), list(called)
    for e, value in zip(left, expected, strict=True):
        if value is None or value not in values:
            continue
        index = values.index(value)
        if not json_equal(value, values.pop(index)):
            return None
        partners[e] = positions.pop(index)
    return partners


def _equal_by_key(
    left: Sequence[int], right: Sequence[int], expected: Sequence[Any], called: Sequence[Any]
) -> dict[int, int]:
    """Return the partners of calls with equal values."""
    waiting: dict[Hashable, deque[int]] = {}
    for c, value in zip(right, called, strict=True):
        if value is not None:
            waiting.setdefault(frozen(value), deque()).append(c)
    partners: dict[int, int] = {}
    for e, value in zip(left, expected, strict=True):
        queue = None if value is None else waiting.get(frozen(value))
        if queue:
            partners[e] = queue.popleft()
    return partners


def _ratios_of_same_keys(expected: Sequence[Any], called: Sequence[Any]) -> list[list[Ratio]] | None:
    """Return the similarities of flat argument objects that all have the same keys; `None` for others.

    Most calls of one tool are such: then equal values are counted without looking for keys.
    """
    keys = expected[0].keys()
    if not keys or not all(map(_is_flat(keys), (*expected, *called))):
        return None
    rows = [[frozen(value[key]) for key in keys] for value in expected]
    columns = [[frozen(value[key]) for key in keys] for value in called]
    by_count = [*((count, len(keys)) for count in range(len(keys))), ONE]
    return [[by_count[sum(map(eq, row, column))] for column in columns] for row in rows]


def _is_flat(keys: KeysView[str]) -> Callable[[Any], bool]:
    """Return a function that tells whether an object has these keys, and no object among its values."""
    return lambda value: value.keys() == keys and dict not in map(type, value.values())


def _exact_type(item: CallItem) -> str | AbsentType:
    return item.type if isinstance(item.type, str) else ABSENT


def _tree(value: object) -> object:
    """Return the object inside a template, and any other value as it is."""
    return value if type(value) is dict or not isinstance(value, Template) else value.tree


def _copied(differences: list[Difference]) -> tuple[Difference, ...]:
    """Return differences that no later change of the case can reach."""
    copies: list[Difference] = []
    for one in differences:
        kind, path, expected, called = one
        if type(expected) in _IMMUTABLE and type(called) in _IMMUTABLE:
            copies.append(one)
        else:
            copies.append(Difference(kind, path, _copied_value(expected), _copied_value(called)))
    return tuple(copies)


def _copied_value(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a deep copy of a JSON value, which may hold matchers."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return list(map(_copied_value, value))
    if kind is dict:
        return {key: _copied_value(item) for key, item in value.items()}
    return deepcopy(value) if is_pattern(value) else value
