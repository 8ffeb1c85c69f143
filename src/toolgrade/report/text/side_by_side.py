"""Expected and called calls side by side: rows that the terminal and the HTML page draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Literal, NamedTuple

from toolgrade._internal.text import number_text
from toolgrade.cases import AnyCase
from toolgrade.expect.plan import expected_names
from toolgrade.matching.alignment import Alignment, Pair
from toolgrade.matching.argument_pattern import ValuePattern, fits
from toolgrade.matching.json_compare import ABSENT, Difference, has_mark
from toolgrade.matching.value_text import pair_text, value_text
from toolgrade.report.report import one_case
from toolgrade.report.text.phrases import one_line
from toolgrade.result import MetricResult

Mark = Literal["same", "differs", "moved", "missing", "unexpected", "detail"]
"""Kind of a row; `detail` is one value of the row above it."""

_MAX_NAME = 120
_MAX_PLACES = 30
"""Most places inside a value at which two sides are compared; with more of them the values are shown whole."""


class CallRow(NamedTuple):
    """One line of the comparison.

    Attributes:
        mark: Its kind.
        expected_at: Position of the expected call, from 1; empty if there is none, and in details.
        expected: Text of the left side.
        called_at: Position of the called one, likewise.
        called: Text of the right side.
        place: Of a detail: where in the call, such as `options.seats`, `stops[2]` or `output`; else empty.
        turn: The turn of the user in a conversation, from 1.
    """

    mark: Mark
    expected_at: str
    expected: str
    called_at: str
    called: str
    place: str = ""
    turn: int | None = None

    @property
    def values(self) -> tuple[str, str]:
        """Both sides of a detail without the place; empty if a side has no value."""
        left, right = (
            "" if side == self.place else side.removeprefix(f"{self.place}: ") for side in (self.expected, self.called)
        )
        return left, right


def rows(result: MetricResult, case: AnyCase, *, nested: bool = False, longest: int = 80) -> list[CallRow]:
    """Return the comparison line by line: expected calls in their order, then calls that nothing expected.

    Empty if the result has no alignment. With `nested`, lists and objects in outputs are compared place by place,
    although scores take them whole; values are cut to `longest` characters.
    """
    alignment = result.alignment
    if alignment is None:
        return []
    compared = one_case(case)
    if compared is None:
        return []
    calls = compared.tools_called or []
    turns = dict(enumerate(call.turn for call in calls))
    expected_turns = {one.expected: one.turn for one in result.findings}
    expected = _names(result, "expected", alignment.labels or expected_names(compared.expected_tools))
    called = _names(result, "called", [call.name for call in calls])
    groups = {
        index: [CallRow("missing", str(index + 1), expected[index], "", "(not called)", turn=expected_turns.get(index))]
        for index in alignment.missing
    }
    moved = {pair.expected for pair in alignment.out_of_order}
    for pair in (*alignment.pairs, *alignment.out_of_order):
        mark, notes = _mark(pair, is_moved=pair.expected in moved)
        left, right = expected[pair.expected], called[pair.called] + notes
        turn = turns.get(pair.called)
        row = CallRow(mark, str(pair.expected + 1), left, str(pair.called + 1), right, turn=turn)
        groups[pair.expected] = [row, *_details(pair, turn, nested=nested, longest=longest)]
    return [*chain(*(groups[index] for index in sorted(groups))), *_unexpected_rows(alignment, called, turns)]


def _unexpected_rows(
    alignment: Alignment, called: Mapping[int, str], turns: Mapping[int, int | None]
) -> Iterator[CallRow]:
    forbidden = dict(alignment.forbidden)
    for index in alignment.unexpected:
        left = "(forbidden)" if index in forbidden else "(not expected)"
        yield CallRow("unexpected", "", left, str(index + 1), called[index], turn=turns.get(index))


def _mark(pair: Pair, *, is_moved: bool) -> tuple[Mark, str]:
    """Return the mark of a pair and notes about it."""
    notes = f" ({number_text(pair.similarity)})" if pair.similarity < 1 else ""
    if is_moved:
        return "moved", f"{notes} ({pair.breaks[1] if pair.breaks else 'out of order'})"
    return ("differs" if notes else "same"), notes


def _names(result: MetricResult, side: Literal["expected", "called"], names: Sequence[str]) -> defaultdict[int, str]:
    """Return the names of calls by position. A case that was read without its content has only those of findings."""
    by_position = {getattr(finding, side): finding.tool for finding in result.findings if finding.tool}
    by_position |= dict(enumerate(names))
    printed = {position: one_line(name, _MAX_NAME) for position, name in by_position.items()}
    return defaultdict(lambda: "(a call)", printed)


def _details(pair: Pair, turn: int | None, *, nested: bool, longest: int) -> Iterator[CallRow]:
    for difference in pair.differences:
        place = {"wrong_output": "output", "wrong_type": "type"}.get(difference.kind)
        place = place or one_line(".".join(map(str, difference.path)), _MAX_NAME)
        for expected, called, name in _places(difference, place, nested=nested):
            left, right = _sides(expected, called, longest)
            yield CallRow("detail", "", f"{name}: {left}", "", f"{name}: {right}", name, turn)
    for part in pair.not_compared:
        name = one_line(part, _MAX_NAME)
        yield CallRow("detail", "", name, "", f"{name}: not recorded", name, turn)


def _places(difference: Difference, place: str, *, nested: bool) -> list[tuple[Any, Any, str]]:
    """Return both values whole; with `nested` the places inside them that differ, unless there are too many."""
    if nested:
        inside = list(islice(_inside(difference.expected, difference.called, place), _MAX_PLACES + 1))
        if 0 < len(inside) <= _MAX_PLACES:
            return inside
    return [(difference.expected, difference.called, place)]


def _inside(expected: Any, called: Any, place: str) -> Iterator[tuple[Any, Any, str]]:  # noqa: ANN401 - JSON values
    """Yield both sides of every innermost place at which two values differ; items of lists by their position."""
    if isinstance(expected, list) and isinstance(called, list):
        for index, (left, right) in enumerate(zip_longest(expected, called, fillvalue=ABSENT)):
            yield from _inside(left, right, f"{place}[{index}]")
    elif isinstance(expected, dict) and isinstance(called, dict):
        for key in {**expected, **called}:
            yield from _inside(
                expected.get(key, ABSENT), called.get(key, ABSENT), f"{place}.{one_line(key, _MAX_NAME)}"
            )
    elif _differ(expected, called):
        yield expected, called, place


def _differ(expected: Any, called: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether two values differ; a matcher cannot look at a redacted value, so that does not count."""
    return not fits(expected, called) and not (isinstance(expected, ValuePattern) and has_mark(called))


def _sides(expected: Any, called: Any, longest: int) -> tuple[str, str]:  # noqa: ANN401 - JSON values, matchers, ABSENT
    """Return both sides of a detail, with a note if they look alike."""
    if expected is ABSENT or called is ABSENT:
        left, right = ("(none)" if value is ABSENT else value_text(value, longest) for value in (expected, called))
        return left, right
    pair = pair_text(expected, called, longest)
    return pair.expected, pair.called + pair.note
