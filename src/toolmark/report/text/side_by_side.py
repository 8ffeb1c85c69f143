"""Expected and called calls side by side: the rows that every way of showing a result is drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, Literal, NamedTuple

from toolmark._internal.text import number_text, printable, shorten
from toolmark.cases import AnyCase, LLMTestCase, MLLMTestCase
from toolmark.expect import expected_names
from toolmark.matching.alignment import Alignment, Pair
from toolmark.matching.argument_pattern import Wanted, fits
from toolmark.matching.json_compare import ABSENT, Difference
from toolmark.redact import DEFAULT, Redactor
from toolmark.result import MetricResult, display_value

Mark = Literal["same", "differs", "moved", "missing", "unexpected", "detail"]
"""What a row shows; `detail` is one value of the row above it."""

_LONGEST = 120
"""Characters of a name that are shown."""

_MOST_PLACES = 30
"""Places inside of one value at which two sides are compared; beyond that the values are shown as a whole."""


class Row(NamedTuple):
    """One line of the comparison.

    Attributes:
        mark: What it shows.
        expected_at: Position of the expected call, from 1; empty where there is none, and in details.
        expected: Text of the left side.
        called_at: Position of the called one, likewise.
        called: Text of the right side.
        place: Of a detail: where in the call, such as `options.seats`, `stops[2]` or `output`; else empty.
    """

    mark: Mark
    expected_at: str
    expected: str
    called_at: str
    called: str
    place: str = ""

    @property
    def values(self) -> tuple[str, str]:
        """Both sides of a detail without the place; empty where a side has no value."""
        return self._alone(self.expected), self._alone(self.called)

    def _alone(self, side: str) -> str:
        return "" if side == self.place else side.removeprefix(f"{self.place}: ")


class _Style(NamedTuple):
    """How values are shown."""

    redactor: Redactor
    nested: bool
    longest: int


def rows(
    result: MetricResult,
    case: AnyCase,
    *,
    redactor: Redactor = DEFAULT,
    nested: bool = False,
    longest: int = 80,
) -> list[Row]:
    """Return the comparison line by line: expected calls in their order, then calls that nothing expected.

    Empty where the result has no alignment.

    Args:
        result: The result.
        case: Its case.
        redactor: Takes secrets out of the values.
        nested: Compare lists, and the objects in outputs, place by place. Scores take them as a whole.
        longest: Characters of a value that are shown.
    """
    alignment = result.alignment
    if alignment is None or not isinstance(case, (LLMTestCase, MLLMTestCase)):
        return []
    style = _Style(redactor, nested, longest)
    names = {(side, getattr(one, side)): one.tool for one in result.findings for side in ("expected", "called")}
    expected = _Names(alignment.wanted or expected_names(case.expected_tools), "expected", names)
    called = _Names([call.name for call in case.tools_called or []], "called", names)
    found: list[Row] = []
    for index, entry in sorted(_by_expected(alignment).items()):
        if entry is None:
            found.append(Row("missing", str(index + 1), expected[index], "", "(not called)"))
            continue
        pair, moved = entry
        right = called[pair.called]
        if pair.similarity < 1:
            right += f" ({number_text(pair.similarity)})"
        mark: Mark = "moved" if moved else "differs" if pair.similarity < 1 else "same"
        if moved:
            right += f" ({pair.breaks[1]})" if pair.breaks else " (out of order)"
        found.append(Row(mark, str(index + 1), expected[index], str(pair.called + 1), right))
        found.extend(_details(pair, style))
    forbidden = dict(alignment.forbidden)
    found.extend(
        Row("unexpected", "", "(forbidden)" if index in forbidden else "(not expected)", str(index + 1), called[index])
        for index in alignment.unexpected
    )
    return found


class _Names:
    """How calls are called; of a case that was read without its content, as far as findings tell."""

    def __init__(self, known: Sequence[str], side: str, told: Mapping[tuple[str, int | None], str]) -> None:
        self._known = known
        self._side = side
        self._told = told

    def __getitem__(self, index: int) -> str:
        if index < len(self._known):
            return _name(self._known[index])
        return _name(self._told.get((self._side, index)) or "(a call)")


def _by_expected(alignment: Alignment) -> dict[int, tuple[Pair, bool] | None]:
    return {
        **{pair.expected: (pair, False) for pair in alignment.pairs},
        **{pair.expected: (pair, True) for pair in alignment.out_of_order},
        **dict.fromkeys(alignment.missing),
    }


def _details(pair: Pair, style: _Style) -> Iterator[Row]:
    for difference in pair.differences:
        yield from _of_difference(difference, style)
    for part in pair.not_compared:
        place = _name(part)
        yield Row("detail", "", place, "", f"{place}: not recorded", place)


def _of_difference(difference: Difference, style: _Style) -> Iterator[Row]:
    """Yield one row, or one for each place inside of two values at which they differ."""
    name = _place(difference)
    sides = [(difference.expected, difference.called, name)]
    if style.nested and not isinstance(difference.expected, Wanted):
        inside = list(islice(_inside(difference.expected, difference.called, name), _MOST_PLACES + 1))
        sides = inside if 0 < len(inside) <= _MOST_PLACES else sides
    for expected, called, place in sides:
        yield Row("detail", "", _value(expected, place, style), "", _value(called, place, style), place)


def _inside(expected: Any, called: Any, place: str) -> Iterator[tuple[Any, Any, str]]:  # noqa: ANN401 - JSON values
    """Yield both sides of every innermost place at which two values differ; items of lists by their position."""
    if isinstance(expected, list) and isinstance(called, list):
        pairs = zip_longest(expected, called, fillvalue=ABSENT)
        for index, (left, right) in enumerate(pairs):
            yield from _inside(left, right, f"{place}[{index}]")
    elif isinstance(expected, dict) and isinstance(called, dict):
        for key in {**expected, **called}:
            yield from _inside(expected.get(key, ABSENT), called.get(key, ABSENT), f"{place}.{_name(key)}")
    elif not fits(expected, called):
        yield expected, called, place


def _name(name: str) -> str:
    return shorten(printable(name), _LONGEST)


def _place(difference: Difference) -> str:
    if difference.kind == "wrong_output":
        return "output"
    if difference.kind == "wrong_type":
        return "type"
    return _name(".".join(map(str, difference.path)))


def _value(value: object, place: str, style: _Style) -> str:
    return f"{place}: {'(none)' if value is ABSENT else display_value(value, place, style.redactor, style.longest)}"
