"""Unit interactions, the parts of a case that are judged: a user's request and everything the agent did about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import TypeAlias

from toolgrade.calls import ToolCall
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn, input_with_images

Content: TypeAlias = "str | list[str | MLLMImage]"


@dataclass(frozen=True, slots=True)
class CaseCall:
    """One call of a case.

    `number` counts all calls of the case from 1, and its id in the evidence is `c<number>`. `turn` is the position of
    its turn from 0, `None` in a case without turns; `position` is its place in that `tools_called`, from 0.
    """

    number: int
    call: ToolCall
    turn: int | None
    position: int


@dataclass(frozen=True, slots=True)
class CaseMessage:
    """One message of a case with its calls; `number` counts from 1, and its id in the evidence is `m<number>`."""

    number: int
    role: str
    content: Content
    calls: tuple[CaseCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit interaction; `index` counts from 0, `earlier` holds all messages before it.

    `request` holds the user's messages, none where the agent began on its own; `response` the agent's. `has_turns` says
    that its messages are turns of a conversation, `is_multimodal` that the judge is sent the images of the case.
    """

    index: int
    earlier: tuple[CaseMessage, ...]
    request: tuple[CaseMessage, ...]
    response: tuple[CaseMessage, ...]
    has_turns: bool = True
    is_multimodal: bool = False

    @property
    def calls(self) -> tuple[CaseCall, ...]:
        """Its calls, in order."""
        return tuple(call for message in self.response for call in message.calls)

    @property
    def turns(self) -> tuple[int, ...]:
        """Positions of its turns, from 0; empty in a case without turns."""
        return tuple(message.number - 1 for message in (*self.request, *self.response)) if self.has_turns else ()


def unit_of(case: LLMTestCase | MLLMTestCase) -> Unit:
    """Return a case of one question as one unit; the case must have `tools_called` and `input`."""
    calls = tuple(CaseCall(index + 1, call, None, index) for index, call in enumerate(case.tools_called or ()))
    request = CaseMessage(1, "user", input_with_images(case) or "")
    response = CaseMessage(2, "assistant", case.actual_output or "", calls)
    return Unit(0, (), (request,), (response,), has_turns=False, is_multimodal=isinstance(case, MLLMTestCase))


def units_of(case: ConversationalTestCase) -> tuple[tuple[Unit, ...], list[str]]:
    """Return the units of a conversation, and notes about the turns that are in none.

    A unit is a run of user turns with the assistant turns up to the next user turn. Assistant turns before the first
    user turn are a unit of their own if they call tools, else only context; user turns after the last assistant turn
    are not answered, and not a unit.
    """
    messages = _messages_of(case.turns)
    units: list[Unit] = []
    notes: list[str] = []
    request: tuple[CaseMessage, ...] = ()
    # A user may need several turns to say one thing, and an agent several to answer: runs of one role are not split.
    for role, group in groupby(messages, key=lambda message: message.role):
        run = tuple(group)
        if role == "user":
            request = run
            continue
        # A greeting is not judged, but an agent that acts before it is asked is.
        if request or any(message.calls for message in run):
            begin = (*request, *run)[0].number - 1
            units.append(Unit(len(units), tuple(messages[:begin]), request, run))
        if not request:
            fate = "judged as calls without a request" if units else "not judged, since it calls no tool"
            notes.append(f"{_turns_text(run)} before the first user turn: {fate}")
        request = ()
    if request:
        notes.append(f"{_turns_text(request)} at the end: not answered, so not judged")
    return tuple(units), notes


def _messages_of(turns: Sequence[Turn]) -> list[CaseMessage]:
    messages: list[CaseMessage] = []
    numbers = count(1)
    for index, turn in enumerate(turns):
        calls = [CaseCall(next(numbers), call, index, place) for place, call in enumerate(turn.tools_called or ())]
        messages.append(CaseMessage(index + 1, turn.role, turn.content, tuple(calls)))
    return messages


def _turns_text(messages: Sequence[CaseMessage]) -> str:
    first, last, role = messages[0].number, messages[-1].number, messages[0].role
    return f"{role} turn #{first}" if first == last else f"{role} turns #{first} to #{last}"
