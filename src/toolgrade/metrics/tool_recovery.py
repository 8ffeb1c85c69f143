"""Tool recovery: a metric of what the agent did after calls had failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.text import plural
from toolgrade.calls import CallStatus, ToolCall, in_same_step
from toolgrade.cases import TestCase
from toolgrade.failed_calls import has_succeeded, is_unrecorded, looks_failed
from toolgrade.metrics.base import CallMetric, Measurement, share_of_calls
from toolgrade.metrics.called_tools import (
    call_finding,
    error_text,
    identity_key,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)
from toolgrade.result import Finding


@dataclass(frozen=True, eq=False)
class ToolRecoveryMetric(CallMetric):
    """Scores what followed each failure: `error`, `invalid_arguments`, `unknown_tool`, or an answer that is an error.

    The failures of one tool until it succeeds are one episode; calls of other tools in between do not end it. The agent
    recovers if a later call of the same tool succeeds; after `unknown_tool`, if a later call of any tool does, since a
    tool that does not exist cannot succeed. A call in the same step as the last failure is not a reaction to it.
    Other episodes are repeated (several calls, all with the same arguments) or abandoned. An episode whose retry is
    `pending` is left out with a warning.

    The score is recovered episodes / episodes. A case without failures is skipped. See docs/metrics.md.

    Args:
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolRecoveryMetric
        >>> calls = [
        ...     {"name": "book_flight", "args": {"day": 31}, "execution": {"status": "error", "error": "no such day"}},
        ...     {"name": "book_flight", "args": {"day": 30}, "execution": {"status": "ok"}},
        ... ]
        >>> ToolRecoveryMetric().measure(LLMTestCase(tools_called=calls)).score
        1.0
    """

    _name: ClassVar[str] = "tool_recovery"

    threshold: float = 0.5
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def _score_calls(self, calls: Sequence[ToolCall], _: TestCase, /) -> Measurement:
        episodes = sorted(failure_episodes(calls))  # by the position of the first failure
        outcomes = Counter(episode.outcome for episode in episodes)
        unrecorded = sum(map(is_unrecorded, calls))
        if unrecorded == len(calls):
            skip_reason = "the outcome of the calls was not recorded"
        elif outcomes["pending"]:
            skip_reason = "the only retries are pending"
        else:
            skip_reason = "no call failed"
        return share_of_calls(
            calls,
            "recovered",
            outcomes["recovered"],
            len(episodes) - outcomes["pending"],
            "failure",
            findings=[episode_finding(calls, episode) for episode in episodes if episode.outcome in UNRECOVERED],
            warnings=[
                *omission_warnings(outcomes["pending"], "a call that tries again is pending", "failure"),
                *omission_warnings(unrecorded, "their outcome was not recorded"),
                *inferred_success_warnings(calls),
            ],
            skip_reason=skip_reason,
        )


_Outcome: TypeAlias = Literal["recovered", "pending", "repeated", "abandoned"]

UNRECOVERED: Final = frozenset[_Outcome]({"repeated", "abandoned"})


class _Episode(NamedTuple):
    """The positions of the failures of one tool until it succeeds, and what followed them."""

    failures: list[int]
    outcome: _Outcome


def failure_episodes(calls: Sequence[ToolCall]) -> Iterator[_Episode]:
    """Yield the episodes: the recovered ones when the tool succeeds, the others at the end."""
    unrecovered: dict[str, list[int]] = {}  # the failures of each tool since its last success
    pending: dict[str, list[int]] = {}  # the pending calls of each tool
    last_success = -1  # of any tool
    for index, call in enumerate(calls):
        if looks_failed(call):
            unrecovered.setdefault(call.name, []).append(index)
        elif status_of(call) is CallStatus.PENDING:
            pending.setdefault(call.name, []).append(index)
        elif has_succeeded(call) and not is_unrecorded(call):
            last_success = index
            if call.name in unrecovered and _follows(calls, index, unrecovered[call.name]):
                yield _Episode(unrecovered.pop(call.name), "recovered")
    for name, failures in unrecovered.items():
        yield _Episode(failures, _outcome_without_success(calls, failures, pending.get(name, ()), last_success))


def _outcome_without_success(
    calls: Sequence[ToolCall], failures: Sequence[int], pending: Sequence[int], last_success: int
) -> _Outcome:
    """Return what followed failures of a tool that did not succeed afterwards.

    Args:
        calls: All calls.
        failures: The positions of the failures.
        pending: The positions of the pending calls of the tool.
        last_success: The position of the last success of any tool.
    """
    # A tool that does not exist cannot succeed, so the success of any tool is a recovery.
    is_unknown_tool = status_of(calls[failures[-1]]) is CallStatus.UNKNOWN_TOOL
    if is_unknown_tool and _follows(calls, last_success, failures):
        return "recovered"
    if any(_follows(calls, index, failures) for index in pending):
        return "pending"
    return "repeated" if _are_identical(calls, failures) else "abandoned"


def _are_identical(calls: Sequence[ToolCall], failures: Sequence[int]) -> bool:
    """Return whether several calls failed and all had the same arguments; unknown ones are never the same."""
    keys = {identity_key(calls[index]) for index in failures}
    return len(failures) > 1 and len(keys) == 1 and None not in keys


def _follows(calls: Sequence[ToolCall], index: int, failures: Sequence[int]) -> bool:
    """Return whether the model requested a call in a later step than the last failure."""
    last = failures[-1]
    return index > last and not in_same_step(calls[index], calls[last])


def episode_finding(calls: Sequence[ToolCall], episode: _Episode) -> Finding:
    """Return the finding of an episode that did not end in a recovery."""
    count, last = len(episode.failures), episode.failures[-1]
    call = calls[last]
    if episode.outcome == "repeated":
        detail = f" is the last of {count} identical calls that failed ({error_text(call)})"
        return call_finding("repeated", "Repeated", call, last, detail)
    prefix = f"after {plural(count, 'failure')}, the last " if count > 1 else ""
    return call_finding("abandoned", "Abandoned", call, last, f", {prefix}{error_text(call)}")
