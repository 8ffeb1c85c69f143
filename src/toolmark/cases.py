"""What is scored: cases, conversations, goldens, and the recorded run that a case may come from."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, PlainValidator, model_validator

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark._internal.model import Model
from toolmark.calls import AvailableTools, CallOrigin, ToolCall
from toolmark.errors import InvalidDataError
from toolmark.expect import ExpectedTools

if TYPE_CHECKING:
    from typing_extensions import Self


def _identifier(value: object) -> object:
    """Read a number as text: many files number their cases."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _object(value: object) -> JsonObject:
    plain = to_json_value(value)
    if not isinstance(plain, dict):
        message = f"expected an object, got {type(value).__name__} {short_repr(value)}"
        raise InvalidDataError(message)
    return plain


Identifier = Annotated[str, BeforeValidator(_identifier)]
"""Text; a whole number is read as its text."""

Metadata = Annotated[JsonObject, PlainValidator(_object)]
"""Any JSON object; never scored."""


class RunStatus(str, Enum):
    """How a recorded run ended."""

    OK = "ok"
    """It answered."""
    ERROR = "error"
    """An exception ended it."""
    INTERRUPTED = "interrupted"
    """It waits for a person."""
    STOPPED = "stopped"
    """A limit, guardrail, timeout, cancellation or abandoned stream ended it."""


class Handoff(Model):
    """Control passed from one agent to another."""

    call: Annotated[int, Field(ge=0)] | None = None
    """Position in the run's `calls` of the call that did it; `None` where no call was seen."""
    from_agent: str | None = None
    to_agent: str | None = None


class Run(Model):
    """One recorded run of an agent.

    `calls` holds every call at the top level of the run, whatever became of it, calls that hand over to another agent
    among them; `tools_called` is the view of it that is scored.
    """

    input: str | None = None
    actual_output: str | None = None
    """The final answer; `None` where the run ended without one."""
    calls: list[ToolCall] = Field(default_factory=list)
    handoffs: list[Handoff] = Field(default_factory=list)
    available_tools: AvailableTools | None = None
    status: RunStatus = RunStatus.OK
    error: str | None = None
    """`"TypeName: text"` of the exception that ended it, or the text that says what stopped it."""
    models: list[str] = Field(default_factory=list)
    usage: dict[str, int] | None = None
    """Tokens by name, e.g. `input_tokens`, `output_tokens`."""
    conversation_id: str | None = None
    run_id: str | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    started_at: datetime | None = None
    duration: Annotated[float, Field(ge=0)] | None = None
    """Seconds."""
    warnings: list[str] = Field(default_factory=list)
    """What the recording could not understand or did not keep; every result of this run repeats it."""

    @property
    def notes(self) -> list[str]:
        """What every result of this run repeats: its warnings, and the error that ended it, if one did."""
        if self.error is None:
            return list(self.warnings)
        how = "ended with an error" if self.status is RunStatus.ERROR else "was stopped"
        return [f"the run {how}: {self.error}", *self.warnings]

    @property
    def tools_called(self) -> list[ToolCall]:
        """The calls that count: `select_calls()` with its defaults."""
        return self.select_calls()

    def select_calls(
        self, *, nested: bool = False, handoffs: bool = False, executed_only: bool = False, code: bool = True
    ) -> list[ToolCall]:
        """Return the calls of this run that count as called tools, in the model's order.

        By default these are all calls that the model asked for at the top level, whatever became of them: failed,
        unknown, invalid, rejected, pending and never-executed calls are choices the agent made.

        Args:
            nested: Also calls made inside a tool or a sub-agent, each after the call it was made in.
            handoffs: Also calls that hand over to another agent.
            executed_only: Only calls whose tool was seen to run.
            code: Also calls that a program made without the model asking.
        """
        left_out = set() if handoffs else {handoff.call for handoff in self.handoffs}
        calls = [call for index, call in enumerate(self.calls) if index not in left_out]
        if nested:
            calls = [inner for call in calls for inner in _with_children(call)]
        return [call for call in calls if _counts(call, executed_only=executed_only, code=code)]

    def to_test_case(
        self,
        *,
        expected_tools: ExpectedTools | None = None,
        expected_output: str | None = None,
        id: str | None = None,
        name: str | None = None,
        nested: bool = False,
        handoffs: bool = False,
        executed_only: bool = False,
        code: bool = True,
    ) -> LLMTestCase:
        """Return the run as a case that can be scored.

        Args:
            expected_tools: What should have been called; without it the case cannot be scored yet.
            expected_output: What should have been answered.
            id: Id of the case; the run's id by default.
            name: Name of the case.
            nested: See `select_calls`, as for the rest.
            handoffs: See `select_calls`.
            executed_only: See `select_calls`.
            code: See `select_calls`.
        """
        given: dict[str, Any] = {
            "id": id or self.run_id,
            "name": name,
            "input": self.input,
            "actual_output": self.actual_output,
            "expected_output": expected_output,
            "expected_tools": expected_tools,
            "available_tools": self.available_tools,
            "tags": self.tags or None,
            "metadata": self.metadata or None,
        }
        called = self.select_calls(nested=nested, handoffs=handoffs, executed_only=executed_only, code=code)
        return LLMTestCase(
            tools_called=called, run=self, **{key: value for key, value in given.items() if value is not None}
        )


def _with_children(call: ToolCall) -> Iterator[ToolCall]:
    yield call
    for child in call.execution.children if call.execution is not None else ():
        yield from _with_children(child)


def _counts(call: ToolCall, *, executed_only: bool, code: bool) -> bool:
    execution = call.execution
    if execution is None:
        return not executed_only
    return (execution.executed or not executed_only) and (code or execution.origin is not CallOrigin.CODE)


class LLMTestCase(Model):
    """One question to an agent, what it did, and what it should have done.

    `tools_called=[]` says that nothing was called, `expected_tools=[]` that nothing should be; leaving one out says
    that it is not known, and a metric that needs it cannot score the case. `expected_tools` may be a `Plan`, which says
    more than a list does (see `toolmark.expect`).
    """

    id: Identifier | None = None
    name: str | None = None
    input: str | None = None
    actual_output: str | None = None
    expected_output: str | None = None
    tools_called: list[ToolCall] | None = None
    expected_tools: ExpectedTools | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    run: Run | None = None
    """The recording it was made from; its warnings stand in every result."""


def _base64(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if not isinstance(value, str):
        message = f"image data must be bytes or base64 text, got {type(value).__name__}"
        raise InvalidDataError(message)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        message = f"image data must be bytes or base64 text: {error}"
        raise InvalidDataError(message) from None
    return value


class MLLMImage(Model):
    """An image, by reference or as bytes: exactly one of `url`, `path`, `data`. Nothing is read or fetched here."""

    url: str | None = None
    """`https:`, `http:` or `data:`."""
    path: str | None = None
    data: Annotated[str | None, PlainValidator(_base64)] = None
    """The image itself as base64 text; bytes are encoded."""
    mime_type: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("url", "path", "data") if getattr(self, name) is not None]
        if len(given) != 1:
            message = f"an image needs exactly one of url, path, data; given: {', '.join(given) or 'none'}"
            raise InvalidDataError(message)
        return self


def _text_or_images(value: object) -> str | list[str | MLLMImage] | None:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)):
        message = f"expected text, or a list of texts and images, got {type(value).__name__}"
        raise InvalidDataError(message)
    parts: list[str | MLLMImage] = []
    for index, part in enumerate(value):
        if isinstance(part, (str, MLLMImage)):
            parts.append(part)
        elif isinstance(part, dict):
            parts.append(MLLMImage.model_validate(part))
        else:
            message = f"part {index} must be text or an MLLMImage, got {type(part).__name__}"
            raise InvalidDataError(message)
    return parts


def _plain_parts(value: str | list[str | MLLMImage] | None) -> JsonValue:
    if isinstance(value, list):
        return [part.to_dict() if isinstance(part, MLLMImage) else part for part in value]
    return value


TextOrImages: TypeAlias = Annotated[
    str | list[str | MLLMImage] | None, PlainValidator(_text_or_images), PlainSerializer(_plain_parts)
]
"""Text, or texts and images in their order."""


class MLLMTestCase(Model):
    """An `LLMTestCase` whose input and outputs may hold images."""

    id: Identifier | None = None
    name: str | None = None
    input: TextOrImages = None
    actual_output: TextOrImages = None
    expected_output: TextOrImages = None
    tools_called: list[ToolCall] | None = None
    expected_tools: ExpectedTools | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    run: Run | None = None


class Turn(Model):
    """One message of a conversation; the calls of a turn are the assistant's."""

    role: Literal["user", "assistant"]
    content: str
    tools_called: list[ToolCall] | None = None
    metadata: Metadata = Field(default_factory=dict)


class ConversationalTestCase(Model):
    """A conversation of several turns."""

    turns: list[Turn]
    id: Identifier | None = None
    name: str | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)


class Golden(Model):
    """A question with what is expected of any agent that is asked it; running an agent makes a case of it."""

    input: str
    id: Identifier | None = None
    expected_tools: ExpectedTools | None = None
    expected_output: str | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)


TestCase: TypeAlias = LLMTestCase | MLLMTestCase
"""A case with called and expected tools."""

AnyCase: TypeAlias = TestCase | ConversationalTestCase
"""Whatever can be measured."""
