"""Messages and calls of a case, as the page and its timeline show them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from toolmark.calls import CallStatus, Execution, ToolCall
from toolmark.cases import (
    ConversationalTestCase,
    Handoff,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    TestCase,
    Turn,
    input_with_images,
)

MOST_CALLS = 200
"""Calls of one message, or inside one call, that are shown."""
DEEPEST = 8
"""Levels of calls inside each other that are shown."""

Content: TypeAlias = "str | list[str | MLLMImage] | None"


class Message(NamedTuple):
    """A message with its calls; `turn` is its position, `None` in a case without turns.

    `first` is the position of its first call among the calls of the case, or of its turn.
    """

    turn: int | None
    role: str
    content: Content
    calls: Sequence[ToolCall] = ()
    metadata: Mapping[str, Any] | None = None
    first: int = 0


def messages_of(case: object) -> list[Message]:
    """Return the messages of a case; those of a case without turns are its input, and its answer with all calls."""
    if isinstance(case, ConversationalTestCase):
        return [
            Message(index, turn.role, turn.content, turn.tools_called or (), turn.metadata)
            for index, turn in enumerate(case.turns)
        ]
    if isinstance(case, (LLMTestCase, MLLMTestCase)):
        if case.run is not None and case.run.dialogue:
            return _dialogue(case, case.run.dialogue)
        answer = Message(None, "assistant", case.actual_output, case.tools_called or ())
        return [Message(None, "user", input_with_images(case)), answer]
    return []


def _dialogue(case: TestCase, dialogue: Sequence[Turn]) -> list[Message]:
    """Return the messages of a run in which the user spoke several times, with the calls of the case in their order.

    The calls that answer a message of the user stand before the last text of the agent that follows it.
    """
    calls = case.tools_called or []
    numbers = list(accumulate((call.turn or 0 for call in calls), max))
    exchanges: list[list[Turn]] = []
    for turn in dialogue:
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(turn)
    messages: list[Message] = []
    first = 0
    for number, turns in enumerate(exchanges, start=int(dialogue[0].role == "user")):
        end = len(calls) if turns is exchanges[-1] else max(bisect_right(numbers, number), first)
        messages += [Message(None, turn.role, turn.content) for turn in turns]
        if end > first:
            answer = messages.pop() if turns[-1].role == "assistant" else Message(None, "assistant", None)
            messages.append(answer._replace(calls=calls[first:end], first=first))
        first = end
    return messages


def problem_text(execution: Execution) -> str:
    """Return the status of a call in words; empty if it is ok."""
    return "" if execution.status is CallStatus.OK else execution.status.value.replace("_", " ")


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
