"""Expected and called calls side by side: the rows that every way of showing a result is drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from toolmark._text import number, shorten, visible
from toolmark.cases import AnyCase, ConversationalTestCase
from toolmark.expect import wanted_names
from toolmark.matching import ABSENT, Alignment, Difference, Pair
from toolmark.result import MetricResult, told

Mark = Literal["same", "differs", "moved", "missing", "unexpected", "detail"]
"""What a row shows; `detail` is one value of the row above it."""

_LONGEST = 120
"""Characters of a name that are shown."""


class Row(NamedTuple):
    """One line of the comparison.

    Attributes:
        mark: What it shows.
        expected_at: Position of the expected call, from 1; empty where there is none, and in details.
        expected: Text of the left side.
        called_at: Position of the called one, likewise.
        called: Text of the right side.
    """

    mark: Mark
    expected_at: str
    expected: str
    called_at: str
    called: str


def rows(result: MetricResult, case: AnyCase) -> list[Row]:
    """Return the comparison line by line: expected calls in their order, then calls that nothing expected.

    Empty where the result has no alignment.
    """
    alignment = result.alignment
    if alignment is None or isinstance(case, ConversationalTestCase):
        return []
    expected = list(map(_name, alignment.wanted or wanted_names(case.expected_tools)))
    called = [_name(call.name) for call in case.tools_called or []]
    found: list[Row] = []
    for index, entry in sorted(_by_expected(alignment).items()):
        if entry is None:
            found.append(Row("missing", str(index + 1), expected[index], "", "(not called)"))
            continue
        pair, moved = entry
        right = called[pair.called]
        if pair.similarity < 1:
            right += f" ({number(pair.similarity)})"
        mark: Mark = "moved" if moved else "differs" if pair.similarity < 1 else "same"
        if moved:
            right += f" ({pair.breaks[1]})" if pair.breaks else " (out of order)"
        found.append(Row(mark, str(index + 1), expected[index], str(pair.called + 1), right))
        found.extend(_details(pair))
    forbidden = dict(alignment.forbidden)
    found.extend(
        Row("unexpected", "", "(forbidden)" if index in forbidden else "(not expected)", str(index + 1), called[index])
        for index in alignment.unexpected
    )
    return found


def _by_expected(alignment: Alignment) -> dict[int, tuple[Pair, bool] | None]:
    return {
        **{pair.expected: (pair, False) for pair in alignment.pairs},
        **{pair.expected: (pair, True) for pair in alignment.out_of_order},
        **dict.fromkeys(alignment.missing),
    }


def _details(pair: Pair) -> Iterator[Row]:
    for difference in pair.differences:
        name = _place(difference)
        yield Row("detail", "", _value(name, difference.expected), "", _value(name, difference.called))
    for part in pair.not_compared:
        yield Row("detail", "", part, "", f"{part}: not recorded")


def _name(name: str) -> str:
    return shorten(visible(name), _LONGEST)


def _place(difference: Difference) -> str:
    if difference.kind == "wrong_output":
        return "output"
    if difference.kind == "wrong_type":
        return "type"
    return _name(".".join(map(str, difference.path)))


def _value(name: str, value: object) -> str:
    return f"{name}: (none)" if value is ABSENT else f"{name}: {told(value, name)}"
