"""Messages of a case with their calls, for every view."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from toolgrade.calls import ToolCall
from toolgrade.cases import (
    ConversationalTestCase,
    LLMTestCase,
    MLLMImage,
    MLLMTestCase,
    TestCase,
    Turn,
    input_with_images,
)

Content: TypeAlias = "str | list[str | MLLMImage] | None"


class MessageView(NamedTuple):
    """A message with its calls; `turn` is its position, `None` in a case without turns.

    `first` is the position of its first call among the calls of the case, or of its turn.
    """

    turn: int | None
    role: str
    content: Content
    calls: Sequence[ToolCall] = ()
    metadata: Mapping[str, Any] | None = None
    first: int = 0


def messages_of(case: object) -> list[MessageView]:
    """Return the messages of a case; those of a case without turns are its input, and its answer with all calls."""
    if isinstance(case, ConversationalTestCase):
        return [
            MessageView(index, turn.role, turn.content, turn.tools_called or (), turn.metadata)
            for index, turn in enumerate(case.turns)
        ]
    if isinstance(case, (LLMTestCase, MLLMTestCase)):
        if case.run is not None and case.run.dialogue:
            return _dialogue(case, case.run.dialogue)
        answer = MessageView(None, "assistant", case.actual_output, case.tools_called or ())
        return [MessageView(None, "user", input_with_images(case)), answer]
    return []


def _dialogue(case: TestCase, dialogue: Sequence[Turn]) -> list[MessageView]:
    """Return the messages of a run in which the user spoke several times, with the calls of the case in their order.

    The calls that answer a message of the user stand before the last text of the agent that follows it.
    """
    calls = case.tools_called or []
    numbers = list(accumulate((call.turn or 0 for call in calls), max))
    exchanges = _exchanges(dialogue)
    messages: list[MessageView] = []
    first = 0
    for number, turns in enumerate(exchanges, start=int(dialogue[0].role == "user")):
        end = len(calls) if turns is exchanges[-1] else max(bisect_right(numbers, number), first)
        messages += [MessageView(None, turn.role, turn.content) for turn in turns]
        if end > first:
            answer = messages.pop() if turns[-1].role == "assistant" else MessageView(None, "assistant", None)
            messages.append(answer._replace(calls=calls[first:end], first=first))
        first = end
    return messages


def _exchanges(dialogue: Sequence[Turn]) -> list[list[Turn]]:
    """Return the turns of a dialogue in groups, each of which begins with the user, but for the first one perhaps."""
    exchanges: list[list[Turn]] = []
    for turn in dialogue:
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(turn)
    return exchanges
