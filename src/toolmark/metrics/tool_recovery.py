"""Tool recovery: a metric of what the agent did after calls had failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from toolmark._internal.text import number_text, plural
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.metrics.base import (
    CallMetric,
    Measurement,
    call_text,
    error_text,
    has_failed,
    identity_key,
    in_same_step,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)
from toolmark.result import Finding


@dataclass(frozen=True, eq=False)
class ToolRecoveryMetric(CallMetric):
    """Scores what followed each failure: `error`, `invalid_arguments`, `unknown_tool`.

    Consecutive failures of one tool are one episode. The agent recovers from it if a later call of the same tool
    succeeds; after `unknown_tool`, if a later call of any tool does, since a tool that does not exist cannot succeed. A
    call in the same step as the last failure is not a reaction to it. Other episodes are repeated (several calls, all
    with the same arguments) or abandoned. An episode whose retry is `pending` is left out with a warning.

    The score is recovered episodes / episodes. A case without failures is skipped. See docs/metrics.md.

    Args:
        threshold: The lowest score that passes, in [0, 1].
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

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        del case
        if not calls:
            return Measurement()
        episodes = sorted(_episodes(calls), key=lambda episode: episode.failures[0])
        decided = [episode for episode in episodes if episode.end != "pending"]
        pending = len(episodes) - len(decided)
        unrecorded = sum(call.execution is None for call in calls)
        warnings = [f"{plural(pending, 'failure')} left out: a call that tries again is pending"] if pending else []
        warnings += omission_warnings(unrecorded, "their outcome was not recorded")
        warnings += inferred_success_warnings(calls)
        if not decided:
            reason = "the only retries are pending" if pending else "no call failed"
            if unrecorded == len(calls):
                reason = "the outcome of the calls was not recorded"
            return Measurement(warnings=warnings, skip_reason=reason)
        recovered = sum(episode.end == "recovered" for episode in decided)
        score = recovered / len(decided)
        return Measurement(
            scores={"recovered": score},
            sums={"recovered": f"{recovered} / {plural(len(decided), 'failure')} = {number_text(score)}"},
            findings=[_finding(calls, episode) for episode in decided if episode.end != "recovered"],
            warnings=warnings,
        )


_End: TypeAlias = Literal["recovered", "pending", "repeated", "abandoned"]


class _Episode(NamedTuple):
    """Consecutive failures of one tool, by position, and how they ended."""

    failures: list[int]
    end: _End


def _episodes(calls: Sequence[ToolCall]) -> Iterator[_Episode]:
    by_name: dict[str, list[int]] = {}
    last_success = -1
    for index, call in enumerate(calls):
        by_name.setdefault(call.name, []).append(index)
        if status_of(call) is CallStatus.OK:
            last_success = index
    for places in by_name.values():
        failures: list[int] = []
        for index in places:
            if has_failed(calls[index]):
                failures.append(index)
            elif failures and status_of(calls[index]) is CallStatus.OK and _follows(calls, index, failures):
                yield _Episode(failures, "recovered")
                failures = []
        if failures:
            yield _Episode(failures, _end_without_success(calls, places, last_success, failures))


def _end_without_success(
    calls: Sequence[ToolCall], places: Sequence[int], last_success: int, failures: Sequence[int]
) -> _End:
    """Return how failures ended that no successful call of the same tool follows."""
    # A tool that does not exist cannot succeed, so the success of any other tool is a recovery.
    unknown_tool = status_of(calls[failures[-1]]) is CallStatus.UNKNOWN_TOOL
    if unknown_tool and _follows(calls, last_success, failures):
        return "recovered"
    for index in places:
        if status_of(calls[index]) is CallStatus.PENDING and _follows(calls, index, failures):
            return "pending"
    keys = {identity_key(calls[index]) for index in failures}
    return "repeated" if len(failures) > 1 and len(keys) == 1 and None not in keys else "abandoned"


def _follows(calls: Sequence[ToolCall], index: int, failures: Sequence[int]) -> bool:
    """Return whether the model asked for a call after it had seen the last failure."""
    last = failures[-1]
    return index > last and not in_same_step(calls[index], calls[last])


def _finding(calls: Sequence[ToolCall], episode: _Episode) -> Finding:
    times, last = len(episode.failures), episode.failures[-1]
    call = calls[last]
    if episode.end == "repeated":
        detail = f"is the last of {times} identical calls that failed ({error_text(call)})"
        return Finding("repeated", f"Repeated: {call_text(call, last)} {detail}.", call.name, called=last)
    attempts = f"after {plural(times, 'failure')}, the last " if times > 1 else ""
    text = f"Abandoned: {call_text(call, last)}, {attempts}{error_text(call)}."
    return Finding("abandoned", text, call.name, called=last)
