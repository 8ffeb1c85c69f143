"""Messages of a case with their calls and values, and the timeline of its calls.

The timeline has a bar for each call: on a scale of time if all times are known, otherwise in one column per step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from toolgrade._internal.json import json_text, replace_nonfinite
from toolgrade._internal.message_content import hash_images, parts_of
from toolgrade._internal.text import number_text, shorten
from toolgrade.calls import CallStatus, Execution, ToolCall
from toolgrade.cases import Handoff, MLLMImage
from toolgrade.expect import Matcher

MOST_CALLS = 200
"""Calls of one message, or inside one call, that are shown."""
DEEPEST = 8
"""Levels of calls inside each other that are shown."""

_WIDTH = 1000
"""Width of the timeline; positions and widths of bars are on this scale."""
_THINNEST = 6.0
"""Width of a bar that would be narrower."""
_STEP_SHARE = 0.94
"""Share of the column of a step that its bars fill."""
_FEWEST = 2
"""Calls below which there is no timeline."""

LONGEST_LINE = 300
"""Characters of a text on one line."""
_ONE_LINE = 72


def problem_text(execution: Execution) -> str:
    """Return the status of a call in words, and whether a recording answered it; empty if it is ok and ran."""
    if execution.left_recording is not None:
        return "left the recording"
    words = "" if execution.status is CallStatus.OK else execution.status.value.replace("_", " ")
    return ", ".join(filter(None, [words, "replayed" if execution.replayed else ""]))


def is_failure(execution: Execution) -> bool:
    """Return whether a call failed; one that is pending or was not executed did not."""
    return execution.status not in {CallStatus.OK, CallStatus.PENDING, CallStatus.NOT_EXECUTED}


def count_calls(calls: Sequence[ToolCall]) -> int:
    """Return the number of calls at all levels; without recursion, since they may be nested deeply."""
    queue = list(calls)
    for call in queue:
        if call.execution is not None:
            queue += call.execution.children
    return len(queue)


def handoff_text(handoff: Handoff) -> str:
    """Return the agents between which control passed."""
    return f"{handoff.from_agent or '?'} to {handoff.to_agent or '?'}"


_Step: TypeAlias = "tuple[int, str | None, int]"
"""Turn, agent and step: calls that were requested at once have it in common."""


class _Placed(NamedTuple):
    """A call with its label (empty inside another call), the number of calls around it, and its step."""

    name: str
    execution: Execution
    label: str
    level: int
    step: _Step


class _Bar(NamedTuple):
    """A bar of a call: its start and width on the scale of `_WIDTH`, and the words beside it."""

    call: _Placed
    at: float
    width: float
    words: str


def timeline(turns: Sequence[Sequence[ToolCall]]) -> dict[str, Any] | None:
    """Return the template data of a timeline of the calls of each turn; `None` with fewer than two calls.

    `timed` tells a scale of time from one of steps; `bars` are in the order of the calls, with the calls inside a call
    behind it; `hidden` is the number of calls left out.
    """
    placed = list(_place_calls(turns))
    if len(placed) < _FEWEST:
        return None
    drawn = placed[:MOST_CALLS]
    starts = _starts(drawn)
    bars: list[_Bar] = []
    for bar in _bars_by_time(drawn, starts) if starts else _bars_by_step(drawn):
        at = min(bar.at, _WIDTH - _THINNEST)
        bars.append(bar._replace(at=round(at, 1), width=round(min(bar.width, _WIDTH - at), 1)))
    return {"timed": bool(starts), "bars": bars, "hidden": len(placed) - len(drawn)}


def _place_calls(turns: Sequence[Sequence[ToolCall]]) -> Iterator[_Placed]:
    number = 0
    for turn, calls in enumerate(turns):
        for position, call in enumerate(calls):
            number += 1
            # A call without a step is alone: no recorded step is negative.
            step: _Step = (turn, None, -1 - position)
            if call.execution is not None and call.execution.step is not None:
                step = (turn, call.execution.agent, call.execution.step)
            yield from _place_call(call, f"c{number}", 0, step)


def _place_call(call: ToolCall, label: str, level: int, step: _Step) -> Iterator[_Placed]:
    """Yield a call, and the calls inside it, which share its step."""
    execution = call.execution or Execution()
    yield _Placed(call.name, execution, label, level, step)
    if level < DEEPEST:
        for child in execution.children:
            yield from _place_call(child, "", level + 1, step)


def _starts(placed: Sequence[_Placed]) -> list[float]:
    """Return when each call began, in seconds after the first; empty unless all are known."""
    starts: list[Any] = [one.execution.started_at for one in placed]
    try:
        first = min(starts)
        return [(start - first).total_seconds() for start in starts]
    except TypeError:  # a time is unknown, or only some have a time zone, so that they cannot be compared
        return []


def _bars_by_time(placed: Sequence[_Placed], starts: Sequence[float]) -> Iterator[_Bar]:
    timed = [(one, start, one.execution.duration or 0.0) for one, start in zip(placed, starts, strict=True)]
    total = max(start + duration for _, start, duration in timed) or 1.0
    for one, start, duration in timed:
        took = "" if one.execution.duration is None else f", {_seconds(duration)}"
        width = max(duration / total * _WIDTH, _THINNEST)
        yield _Bar(one, start / total * _WIDTH, width, f"+{_seconds(start)}{took}")


def _bars_by_step(placed: Sequence[_Placed]) -> Iterator[_Bar]:
    steps = list(dict.fromkeys(one.step for one in placed))
    at_once = Counter(one.step for one in placed if not one.level)
    width = _WIDTH / len(steps)
    for one in placed:
        index = steps.index(one.step)
        together = f", {at_once[one.step]} at once" if at_once[one.step] > 1 else ""
        inside = ", inside" if one.level else ""
        yield _Bar(one, index * width, width * _STEP_SHARE, f"step {index + 1}{together}{inside}")


def _seconds(value: float) -> str:
    """Return a time in seconds, or in milliseconds if it is shorter than one."""
    return f"{value * 1000:.3g} ms" if 0 < value < 1 else f"{number_text(round(value, 2))} s"


def value_text(value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return a JSON value as text, on several lines if it is long; an image inside it as its type and hash."""
    plain = hash_images(value)
    if isinstance(plain, str) and plain.lstrip()[:1] not in {"[", "{"} and "\n" in plain:
        return plain
    text = json_text(plain)
    if len(text) > _ONE_LINE:
        return json.dumps(replace_nonfinite(plain), ensure_ascii=False, indent=2)
    return text


def message_parts(content: str | Matcher | list[str | MLLMImage] | None) -> list[str]:
    """Return the texts of a message, in which an image has its address; a matcher is described."""
    if isinstance(content, Matcher):
        content = content.describe()
    return [part if isinstance(part, str) else _image_text(part) for part in parts_of(content)]


def _image_text(image: MLLMImage) -> str:
    address = image.path if image.url is None or image.url.startswith("data:") else image.url
    return f"[image {shorten(address, LONGEST_LINE)}]" if address else "[image]"
