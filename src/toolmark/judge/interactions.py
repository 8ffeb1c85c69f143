"""Which parts of a case are judged? Unit interactions: what a user asked, and all that the agent did about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolmark.calls import ToolCall
from toolmark.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn

Content: TypeAlias = "str | list[str | MLLMImage]"


@dataclass(frozen=True, slots=True)
class MadeCall:
    """One call of a case.

    Attributes:
        number: Its place among all calls of the case, from 1; its id is `c<number>`.
        call: The call.
        turn: Position of its turn, from 0; `None` in a case without turns.
        position: Position in the `tools_called` that it stands in, from 0.
    """

    number: int
    call: ToolCall
    turn: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a case.

    Attributes:
        number: Its place in the case, from 1; its id is `m<number>`.
        role: Who said it.
        content: What was said.
        calls: What the message called, in order.
    """

    number: int
    role: str
    content: Content
    calls: tuple[MadeCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit interaction.

    Attributes:
        index: Its place in the case, from 0.
        earlier: All messages before it.
        asked: The user's messages; empty where the agent began to call by itself.
        answered: The agent's messages.
        of_turns: Its messages are turns of a conversation.
    """

    index: int
    earlier: tuple[Said, ...]
    asked: tuple[Said, ...]
    answered: tuple[Said, ...]
    of_turns: bool = True

    @property
    def calls(self) -> tuple[MadeCall, ...]:
        """Its calls, in order."""
        return tuple(call for said in self.answered for call in said.calls)

    @property
    def messages(self) -> tuple[Said, ...]:
        """All its messages."""
        return (*self.asked, *self.answered)


def unit_of(case: LLMTestCase | MLLMTestCase) -> Unit:
    """Return a case of one question as one unit; its `tools_called` and `input` must be given."""
    calls = tuple(MadeCall(index + 1, call, None, index) for index, call in enumerate(case.tools_called or ()))
    asked = Said(1, "user", case.input if case.input is not None else "")
    answered = Said(2, "assistant", case.actual_output if case.actual_output is not None else "", calls)
    return Unit(0, (), (asked,), (answered,), of_turns=False)


def units_of(case: ConversationalTestCase) -> tuple[tuple[Unit, ...], list[str]]:
    """Return the units of a conversation, and what of it is in none.

    A unit is a run of user turns with the assistant turns up to the next user turn. Assistant turns before the first
    user turn are a unit of their own if they call tools, else only context; user turns after the last assistant turn
    were not answered, and are no unit.
    """
    said = _said(case.turns)
    units: list[Unit] = []
    notes: list[str] = []
    begin = 0
    while begin < len(said):
        middle = _end(said, begin, "user")
        end = _end(said, middle, "assistant")
        asked, answered = tuple(said[begin:middle]), tuple(said[middle:end])
        opening = not asked
        if not answered:
            notes.append(f"{_turns(asked)} at the end: not answered, so not judged")
        elif opening and not any(message.calls for message in answered):
            notes.append(f"{_turns(answered)} before the first user turn: not judged, for nothing was asked or called")
        else:
            if opening:
                notes.append(f"{_turns(answered)} before the first user turn: judged as calls that nobody asked for")
            units.append(Unit(len(units), tuple(said[:begin]), asked, answered))
        begin = end
    return tuple(units), notes


def _said(turns: Sequence[Turn]) -> list[Said]:
    said: list[Said] = []
    number = 0
    for index, turn in enumerate(turns):
        calls: list[MadeCall] = []
        for position, call in enumerate(turn.tools_called or ()):
            number += 1
            calls.append(MadeCall(number, call, index, position))
        said.append(Said(index + 1, turn.role, turn.content, tuple(calls)))
    return said


def _end(said: Sequence[Said], begin: int, role: str) -> int:
    end = begin
    while end < len(said) and said[end].role == role:
        end += 1
    return end


def _turns(said: Sequence[Said]) -> str:
    first, last = said[0].number, said[-1].number
    role = said[0].role
    return f"{role} turn #{first}" if first == last else f"{role} turns #{first} to #{last}"
