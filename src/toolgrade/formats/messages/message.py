"""Neutral messages: what the reader of each vendor's format yields, and `transcript` makes a run of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import Request, image_parts
from toolgrade.cases import MLLMImage, RunStatus
from toolgrade.formats.messages.field_readers import Notes, read_list, read_text
from toolgrade.matching.json_compare import ABSENT

Entry: TypeAlias = tuple[str, object]
"""One message or item as it was recorded, with its path."""


@dataclass(slots=True)
class UserInput:
    """A message of the user.

    `text` is empty if it has none. `parts` are its texts and images in their order, `None` if it has no image.

    Example:
        >>> from toolgrade.formats import UserInput
        >>> UserInput("What is the weather in Paris?").text
        'What is the weather in Paris?'
    """

    text: str
    parts: list[str | MLLMImage] | None = None


@dataclass(slots=True)
class Instructions:
    """A system prompt, or a part of one: a message of the system or the developer; empty if it has no text.

    Example:
        >>> from toolgrade.formats import Instructions, ModelMessage, transcript_of
        >>> messages = [("$[0]", Instructions("Answer in French.")), ("$[1]", ModelMessage("Bonjour."))]
        >>> transcript_of(messages).run.instructions
        'Answer in French.'
    """

    text: str


@dataclass(slots=True)
class ModelMessage:
    """A message of the model: its texts and calls, in their order.

    Attributes:
        parts: The texts and calls, or one text. Each call has its path as `source`, by default that of the message.
        agent: Name of the agent.
        model: Name of the model.
        usage: Token counts by name.
        without_ids: It has the old form of OpenAI's chat, with a `function_call`.

    Example:
        >>> from toolgrade.capture import Request
        >>> from toolgrade.formats import ModelMessage
        >>> call = Request("get_weather", {"city": "Paris"}, "c1", source="$[1].calls[0]")
        >>> ModelMessage(["Let me look.", call]).parts[0]
        'Let me look.'
    """

    parts: str | Sequence[str | Request]
    agent: str | None = None
    model: str | None = None
    usage: Mapping[str, int] | None = None
    without_ids: bool = False

    @property
    def texts(self) -> list[str]:
        """The texts among its parts that are not empty."""
        parts = [self.parts] if isinstance(self.parts, str) else self.parts
        return [part for part in parts if part and isinstance(part, str)]

    @property
    def calls(self) -> list[Request]:
        """The calls among its parts."""
        return [part for part in self.parts if isinstance(part, Request)]


@dataclass(slots=True)
class Answer:
    """The answer of one message or item to a call that another one requested.

    Attributes:
        call_id: The id of that call (for an approval, the id of the request); `None` if the answer names none.
        name: The tool it names, if it names one.
        content: What the model sees: text, also where it came as a list of texts; else a list of the texts and parts,
            or another value; `ABSENT` if there is nothing.
        failed: The call failed, or was refused.
        error: The error of a failed call, if it differs from the content.
        approved: The decision of a person or a limit on the call; `None` for any other answer. An approval is not a
            result: that comes later, in an item of its own.
        ran: The provider ran the tool itself.
        unknown_tool: It says that the tool does not exist.
        artifact: What the tool returned in addition.
        type: Who ran the tool, if the answer shows that.
        without_ids: It has the old form of OpenAI's chat, a message of role `function`.
        cancelled: The call was stopped before its end, by a person or with the run.

    Example:
        >>> from toolgrade.formats import read_responses_answer
        >>> answer = read_responses_answer({"type": "function_call_output", "call_id": "c1", "output": "sunny"})
        >>> print(answer.call_id, answer.content, answer.failed)
        c1 sunny False
    """

    call_id: str | None
    name: str | None = None
    content: Any = ABSENT
    failed: bool = False
    error: str | None = None
    approved: bool | None = None
    ran: bool = False
    unknown_tool: bool = False
    artifact: Any = None
    type: ToolCallType | None = None
    without_ids: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class OfferedTools:
    """Tools that the model could choose from; `all_known` if there are no others."""

    specs: Sequence[ToolSpec]
    all_known: bool


@dataclass(slots=True)
class ModelUse:
    """The model of one response, its token counts by name, and how it ended, if that is known."""

    model: str | None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    end: tuple[RunStatus, str | None] | None = None


RUN_BY_PROVIDER: Final = frozenset({ToolCallType.HOSTED, ToolCallType.MCP})
"""Types of the tools that the provider may run itself."""

NeutralMessage: TypeAlias = "UserInput | Instructions | ModelMessage | Answer | OfferedTools | ModelUse"


def read_user_input(content: object, path: str, notes: Notes) -> UserInput | None:
    """Return the texts and images of the message of the user at `path`, `None` if its content is empty."""
    if isinstance(content, str):
        return UserInput(content) if content else None
    text, parts = read_text(content, f"{path}.content", notes, keeps_images=True), image_parts(content)
    return None if text is None and parts is None else UserInput(text or "", parts)


def append_part(parts: list[str | Request], part: str | Request) -> None:
    """Add a part to those of a message; a text continues a text before it."""
    if parts and isinstance(part, str) and isinstance(parts[-1], str):
        parts[-1] += part
    else:
        parts.append(part)


def entries_of(value: object, path: str, notes: Notes) -> list[Entry]:
    """Return the messages or items of a list with their paths; anything else is a problem."""
    messages = read_list(value, path, notes, "a list of messages")
    if messages and all(isinstance(message, (list, tuple)) for message in messages):
        notes.problem(path, "holds lists in place of messages; of a stream of LangGraph, give the message of each pair")
        return []
    return [(f"{path}[{index}]", message) for index, message in enumerate(messages)]
