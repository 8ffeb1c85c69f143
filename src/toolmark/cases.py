"""Test cases, conversations and goldens, and the recorded runs that cases may come from."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum

# pydantic 2.10 looks up `Any` in this module to complete the models.
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar  # pyright: ignore[reportUnusedImport]

from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, PlainValidator, model_validator

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark._internal.model import Model, drop_none
from toolmark.calls import AvailableTools, CallOrigin, ToolCall
from toolmark.errors import InvalidDataError
from toolmark.expect import ExpectedTools

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AnyCase",
    "ConversationalTestCase",
    "Golden",
    "Handoff",
    "LLMTestCase",
    "MLLMImage",
    "MLLMTestCase",
    "Run",
    "RunStatus",
    "TestCase",
    "Turn",
]


_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def _identifier(value: object) -> object:
    """Read a number as text, because many files number their cases."""
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
        fields = [name for name in ("url", "path", "data") if getattr(self, name) is not None]
        if len(fields) != 1:
            message = f"an image must have exactly one of url, path, data, got {', '.join(fields) or 'none'}"
            raise InvalidDataError(message)
        return self


def _text_or_images(value: object) -> str | list[str | MLLMImage] | None:
    return value if isinstance(value, str) else _parts_or_none(value, expected="text, or a list")


def _parts_or_none(value: object, *, expected: str = "a list") -> list[str | MLLMImage] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        message = f"expected {expected} of texts and images, got {type(value).__name__}"
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


InputParts: TypeAlias = Annotated[
    list[str | MLLMImage] | None, PlainValidator(_parts_or_none), PlainSerializer(_plain_parts)
]
"""Texts and images in their order."""

TextOrImages: TypeAlias = Annotated[
    str | list[str | MLLMImage] | None, PlainValidator(_text_or_images), PlainSerializer(_plain_parts)
]
"""Text, or texts and images in their order."""


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


def _with_arguments_of(
    model: Callable[_Arguments, object],
) -> Callable[[Callable[..., _Returned]], Callable[_Arguments, _Returned]]:
    """Give a method the signature of another one, which has the same arguments, so that they are written once."""

    def decorate(method: Callable[..., _Returned]) -> Callable[_Arguments, _Returned]:
        signature = inspect.signature(model)
        returned = inspect.signature(method).return_annotation
        method.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return method

    return decorate


class Handoff(Model):
    """Control passed from one agent to another."""

    call: Annotated[int, Field(ge=0)] | None = None
    """Position of the call in the run's `calls`; `None` if no call was observed."""
    from_agent: str | None = None
    to_agent: str | None = None


class Run(Model):
    """One recorded run of an agent.

    `calls` has every call at the top level of the run, whether it succeeded or not, including calls that hand over to
    another agent; `tools_called` is the part of it that is scored.
    """

    input: str | None = None
    input_parts: InputParts = None
    """The user's input with its images, texts and images in order; `None` if it has no image."""
    actual_output: str | None = None
    """The final answer; `None` if the run ended without one."""
    calls: list[ToolCall] = Field(default_factory=list)
    handoffs: list[Handoff] = Field(default_factory=list)
    failed_handoffs: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)
    """Positions, in `calls`, of requests to hand over that were refused or that the run ended before."""
    available_tools: AvailableTools | None = None
    status: RunStatus = RunStatus.OK
    error: str | None = None
    """`"TypeName: text"` of the exception that ended it, or the text of what stopped it."""
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
    """What the recording did not understand or does not contain; every result of this run repeats it."""

    @property
    def notes(self) -> list[str]:
        """The warnings and the error of the run, which every result of it repeats."""
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

        By default these are all calls at the top level. Failed, unknown, invalid, rejected, pending and never-executed
        calls are among them, because the agent chose them.

        Args:
            nested: Include calls inside a tool or a sub-agent, each after its parent call.
            handoffs: Include calls that hand over to another agent, or should have.
            executed_only: Only calls with an observed execution.
            code: Include calls that a program made without a request of the model.
        """
        left_out = set() if handoffs else {*self.failed_handoffs, *(handoff.call for handoff in self.handoffs)}
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
        """Return the run as a test case.

        Args:
            expected_tools: The expected calls; most metrics need them.
            expected_output: The expected answer.
            id: Id of the case. Without an id and a name, reports identify the case by its input and expectations; the
                id of the run is new in each run, and stays in `run.run_id`.
            name: Name of the case.
            nested: See `select_calls`.
            handoffs: See `select_calls`.
            executed_only: See `select_calls`.
            code: See `select_calls`.
        """
        fields = {
            "id": id,
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
        return LLMTestCase(tools_called=called, run=self, **drop_none(fields))

    @_with_arguments_of(to_test_case)
    def to_mllm_test_case(self, **arguments: Any) -> MLLMTestCase:  # noqa: ANN401 - checked by `to_test_case`
        """Return the run as a multimodal test case, whose input is `input_parts`, or `input` without images.

        The arguments are those of `to_test_case`. Images in outputs of tools stay in `tools_called[i].output`.
        """
        case = self.to_test_case(**arguments)
        fields = {name: getattr(case, name) for name in case.model_fields_set}
        if self.input_parts:
            fields["input"] = self.input_parts
        return MLLMTestCase(**fields)


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
    """One question to an agent, its actual calls and answer, and the expected ones.

    `tools_called=[]` means that nothing was called, `expected_tools=[]` that nothing should be. A field that is left
    out is unknown, and a metric that needs it cannot score the case. `expected_tools` may be a `Plan` instead of a list
    (see `toolmark.expect`).
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
    """The recorded run; every result repeats its warnings."""


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


def input_with_images(case: LLMTestCase | MLLMTestCase) -> str | list[str | MLLMImage] | None:
    """Return the input of a case, with the images of its run if the run has the same input."""
    run = case.run
    if isinstance(case.input, list) or run is None or not run.input_parts or run.input != case.input:
        return case.input
    return run.input_parts


class Turn(Model):
    """One message of a conversation; only turns of the assistant have calls."""

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
    """A question and the expected result; running an agent on it gives a test case."""

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
"""Any case that a metric can score."""
