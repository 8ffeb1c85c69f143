"""When was each call made? One bar a call, on a scale of time where times are known, else step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolmark._internal.text import number_text, plural, shorten
from toolmark.calls import Execution, ToolCall
from toolmark.report.html.calls import DEEPEST, MOST_CALLS, is_failure, status_text
from toolmark.report.html.texts import LONGEST_NAME

_WIDTH = 1000
_THINNEST = 6.0
_SHORTEST = 2


class Bar(NamedTuple):
    """One call on the scale.

    Attributes:
        label: `c2` for the second call of the case; empty of a call inside of another.
        name: Name of the tool.
        level: How many calls it lies inside of, at most `DEEPEST`.
        problem: What became of it, if not all was well; else empty.
        failed: Whether that is a failure.
        at: Where the bar begins, of 1000.
        width: How wide it is, likewise.
        words: When it began and how long it took, or in which step it was asked for.
    """

    label: str
    name: str
    level: int
    problem: str
    failed: bool
    at: float
    width: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The calls of a case.

    Attributes:
        timed: Whether the scale is one of time; else each step of the agent is as wide as any other.
        bars: In the order of the calls, those inside of a call behind it.
        note: What is not shown; empty where all is.
    """

    timed: bool
    bars: tuple[Bar, ...]
    note: str = ""


class _Placed(NamedTuple):
    """A call with its level, its label, and the step that it belongs to."""

    call: ToolCall
    label: str
    level: int
    step: tuple[int, str | None, int]

    @property
    def execution(self) -> Execution:
        return self.call.execution or Execution()


def timeline(turns: Sequence[Sequence[ToolCall]]) -> Timeline | None:
    """Return the calls of the turns of a case; `None` where there is nothing to see: fewer than two calls."""
    placed = list(_placed(turns))
    if len(placed) < _SHORTEST:
        return None
    shown = placed[:MOST_CALLS]
    spans = _spans(shown)
    bars = _by_step(shown) if spans is None else _by_time(shown, spans)
    more = len(placed) - len(shown)
    note = f"{plural(more, 'more call')} not shown" if more else ""
    return Timeline(timed=spans is not None, bars=tuple(bars), note=note)


def _placed(turns: Sequence[Sequence[ToolCall]]) -> Iterator[_Placed]:
    made = 0
    for turn, calls in enumerate(turns):
        for position, call in enumerate(calls):
            made += 1
            yield from _with_inside(call, f"c{made}", 0, _step(call, turn, position))


def _step(call: ToolCall, turn: int, position: int) -> tuple[int, str | None, int]:
    """Return what calls that were asked for at once have in common; without a step a call is alone."""
    execution = call.execution
    if execution is None or execution.step is None:
        return turn, None, -1 - position
    return turn, execution.agent, execution.step


def _with_inside(call: ToolCall, label: str, level: int, step: tuple[int, str | None, int]) -> Iterator[_Placed]:
    yield _Placed(call, label, level, step)
    if call.execution is not None and level < DEEPEST:
        for child in call.execution.children:
            yield from _with_inside(child, "", level + 1, step)


def _spans(placed: Sequence[_Placed]) -> list[tuple[float, float | None]] | None:
    """Return when each call began, in seconds after the first, and how long it took; `None` unless all are known.

    Times with and without a zone cannot be compared, so a mixture of them is not known either.
    """
    begins = [one.execution.started_at for one in placed]
    known = [begin for begin in begins if begin is not None]
    if len(known) < len(begins) or len({begin.utcoffset() is None for begin in known}) != 1:
        return None
    first = min(known)
    return [((begin - first).total_seconds(), one.execution.duration) for begin, one in zip(known, placed, strict=True)]


def _by_time(placed: Sequence[_Placed], spans: Sequence[tuple[float, float | None]]) -> Iterator[Bar]:
    total = max(begin + (duration or 0.0) for begin, duration in spans) or 1.0
    for one, (begin, duration) in zip(placed, spans, strict=True):
        width = max((duration or 0.0) / total * _WIDTH, _THINNEST)
        took = "" if duration is None else f", {_seconds(duration)}"
        yield _bar(one, begin / total * _WIDTH, width, f"+{_seconds(begin)}{took}")


def _by_step(placed: Sequence[_Placed]) -> Iterator[Bar]:
    steps = {step: index for index, step in enumerate(dict.fromkeys(one.step for one in placed))}
    together = Counter(one.step for one in placed if not one.level)
    width = _WIDTH / len(steps)
    for one in placed:
        index = steps[one.step]
        words = f"step {index + 1}"
        if together[one.step] > 1:
            words += f", {together[one.step]} at once"
        if one.level:
            words += ", inside"
        yield _bar(one, index * width, width * 0.94, words)


def _bar(one: _Placed, at: float, width: float, words: str) -> Bar:
    at = min(at, _WIDTH - _THINNEST)
    execution = one.execution
    return Bar(
        label=one.label,
        name=shorten(one.call.name, LONGEST_NAME),
        level=one.level,
        problem=status_text(execution),
        failed=is_failure(execution),
        at=round(at, 1),
        width=round(min(width, _WIDTH - at), 1),
        words=words,
    )


def _seconds(value: float) -> str:
    """Return a time in seconds, or in milliseconds where it is shorter than one."""
    return f"{value * 1000:.3g} ms" if 0 < value < 1 else f"{number_text(round(value, 2))} s"
