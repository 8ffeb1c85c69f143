"""Tool recovery: what did the agent do after a call had failed?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from toolmark._internal.text import number_text, plural
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.metrics.call_metric import (
    CallMetric,
    Found,
    failed,
    identity,
    left_out,
    one,
    seen_by_answers,
    status_of,
    together,
    why,
)
from toolmark.result import Finding


@dataclass(frozen=True, eq=False)
class ToolRecoveryMetric(CallMetric):
    """Looks at what followed each failure: `error`, `invalid_arguments`, `unknown_tool`.

    Failures of one tool, one after the other among its calls, are one episode. It is recovered from if a later call of
    the same tool succeeded; after `unknown_tool` a later call of any tool, since a name that does not exist cannot
    succeed. A call that the model asked for at the same time as the last failure is no answer to it. Otherwise it was
    repeated (several calls, all with the same arguments) or abandoned. One that waits (`pending`) is left out, with a
    warning.

    The score is recovered episodes / episodes. No failure: skipped. See docs/metrics.md.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall, ToolRecoveryMetric
        >>> calls = [
        ...     {"name": "book", "args": {"day": 31}, "execution": {"status": "error", "error": "no such day"}},
        ...     {"name": "book", "args": {"day": 30}, "execution": {"status": "ok"}},
        ... ]
        >>> ToolRecoveryMetric().measure(LLMTestCase(tools_called=calls)).score
        1.0
    """

    threshold: float = 0.5
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        self._set_threshold()

    @property
    def _name(self) -> str:
        return "tool_recovery"

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        del case
        if not calls:
            return Found()
        episodes = sorted(_episodes(calls), key=lambda episode: episode.failures[0])
        waiting = sum(episode.end == "pending" for episode in episodes)
        decided = [episode for episode in episodes if episode.end != "pending"]
        recovered = sum(episode.end == "recovered" for episode in decided)
        warnings = [f"{plural(waiting, 'failure')} left out: a call that tries again still waits"] if waiting else []
        warnings += left_out(sum(call.execution is None for call in calls), "what became of them was not recorded")
        warnings += seen_by_answers(calls)
        if not decided:
            known = any(call.execution is not None for call in calls)
            why_not = "no failure was followed by a decision" if waiting else "no call failed"
            return Found(warnings=warnings, skipped=why_not if known else "what became of the calls was not recorded")
        score = recovered / len(decided)
        return Found(
            scores={"recovered": score},
            sums={"recovered": f"{recovered} / {plural(len(decided), 'failure')} = {number_text(score)}"},
            findings=[_finding(calls, episode) for episode in decided if episode.end != "recovered"],
            warnings=warnings,
        )


class _Episode(NamedTuple):
    """Failures of one tool, one after the other among its calls, and how they ended."""

    failures: list[int]
    end: Literal["recovered", "pending", "repeated", "abandoned"]


def _episodes(calls: Sequence[ToolCall]) -> Iterator[_Episode]:
    by_name: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        by_name.setdefault(call.name, []).append(index)
    last_well = max((index for index, call in enumerate(calls) if status_of(call) is CallStatus.OK), default=-1)
    for places in by_name.values():
        failures: list[int] = []
        for index in places:
            if failed(calls[index]):
                failures.append(index)
            elif failures and status_of(calls[index]) is CallStatus.OK and _answers(calls, index, failures):
                yield _Episode(failures, "recovered")
                failures = []
        if failures:
            yield _Episode(failures, _end(calls, places, last_well, failures))


def _end(
    calls: Sequence[ToolCall], places: Sequence[int], last_well: int, failures: Sequence[int]
) -> Literal["recovered", "pending", "repeated", "abandoned"]:
    """Return how failures ended after which no call of the tool succeeded."""
    unknown = status_of(calls[failures[-1]]) is CallStatus.UNKNOWN_TOOL
    if unknown and _answers(calls, last_well, failures):
        return "recovered"
    waits = (index for index in places if status_of(calls[index]) is CallStatus.PENDING)
    if any(_answers(calls, index, failures) for index in waits):
        return "pending"
    keys = {identity(calls[index]) for index in failures}
    return "repeated" if len(failures) > 1 and len(keys) == 1 and None not in keys else "abandoned"


def _answers(calls: Sequence[ToolCall], index: int, failures: Sequence[int]) -> bool:
    last = failures[-1]
    return index > last and not together(calls[index], calls[last])


def _finding(calls: Sequence[ToolCall], episode: _Episode) -> Finding:
    last = episode.failures[-1]
    call = calls[last]
    if episode.end == "repeated":
        times = len(episode.failures)
        text = f"Repeated: {one(call, last)} is the last of {times} identical calls that failed ({why(call)})."
        return Finding("repeated", text, call.name, called=last)
    tried = f"after {plural(len(episode.failures), 'failure')}, the last " if len(episode.failures) > 1 else ""
    return Finding("abandoned", f"Abandoned: {one(call, last)}, {tried}{why(call)}.", call.name, called=last)
