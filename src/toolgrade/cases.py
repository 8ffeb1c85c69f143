"""Test cases and conversations, and the recorded runs that they may come from."""

# No `from __future__ import annotations` here: pydantic would compile the text of each annotation at every start.

import base64
import binascii
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from importlib import import_module
from itertools import chain, groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from toolgrade._internal.json import MARK, JsonObject, short_repr, to_json_value
from toolgrade._internal.model import Model, drop_none, new_list, set_fields
from toolgrade._internal.options import with_arguments_of
from toolgrade.calls import AvailableTools, CallOrigin, ToolCall
from toolgrade.errors import InvalidDataError, Problem, ToolgradeWarning
from toolgrade.expect.fields import ExpectedOutput, ExpectedTools, is_silence, read_matcher
from toolgrade.matching.argument_pattern import is_pattern

if TYPE_CHECKING:
    from typing_extensions import Self

    from toolgrade.expect.matcher import Matcher

__all__ = [
    "ConversationalTestCase",
    "Handoff",
    "LLMTestCase",
    "MLLMImage",
    "MLLMTestCase",
    "Run",
    "RunStatus",
    "Turn",
]


_M = TypeVar("_M", bound=Model)


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

Metadata = Annotated[
    JsonObject,
    PlainValidator(_object),
    Field(validation_alias=AliasChoices("metadata", "additional_metadata", "additionalMetadata")),
]
"""Any JSON object; never scored. `additional_metadata` is DeepEval's older name of it."""

_announced: set[str] = set()
"""Fields of `_StoredOnly` that were mentioned in this process."""


def _announce(value: object, info: ValidationInfo) -> object:
    """Warn, once for each field, that no metric reads it."""
    name = info.field_name or ""
    if value is not None and name not in _announced:
        _announced.add(name)
        warnings.warn(f"{name} is stored with its case, but no metric of toolgrade reads it", ToolgradeWarning, 3)
    return value


_StoredOnly = BeforeValidator(_announce)
"""Marks a field that DeepEval's cases have and no metric of toolgrade reads; it is stored and written."""

StoredText = Annotated[str | None, _StoredOnly]
StoredTexts = Annotated[list[str] | None, _StoredOnly]
StoredNumber = Annotated[float | None, _StoredOnly]
StoredObject = Annotated[JsonObject | None, PlainValidator(_object), _StoredOnly]


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
    """An image, by reference or as bytes: exactly one of `url`, `path`, `data`. Nothing is read or fetched here.

    Raises:
        InvalidDataError: It has none of these, or several.

    Example:
        >>> from toolgrade import MLLMImage
        >>> print(MLLMImage(url="https://example.com/paris.png").to_json())
        {"url": "https://example.com/paris.png"}
        >>> MLLMImage(data=b"GIF89a", mime_type="image/gif").data
        'R0lGODlh'
    """

    url: str | None = None
    """`https:`, `http:` or `data:`."""
    path: str | None = None
    data: Annotated[str | None, PlainValidator(_base64)] = None
    """The image itself as base64 text; bytes are encoded."""
    mime_type: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "Self":
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


def _plain_parts(value: str | list[str | MLLMImage] | None) -> Any:  # noqa: ANN401 - pydantic builds a validator of it
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


def _expected_parts(value: object) -> "str | Matcher | list[str | MLLMImage] | None":
    is_matcher = is_pattern(value) or (isinstance(value, dict) and MARK in value)
    return read_matcher(value) if is_matcher else _text_or_images(value)


def _plain_expected(value: "str | Matcher | list[str | MLLMImage] | None") -> Any:  # noqa: ANN401 - as above
    return _plain_parts(value) if value is None or isinstance(value, (str, list)) else value.to_json()


if TYPE_CHECKING:
    ExpectedTextOrImages: TypeAlias = str | Matcher | list[str | MLLMImage] | None
else:
    ExpectedTextOrImages = Annotated[Any, PlainValidator(_expected_parts), PlainSerializer(_plain_expected)]
"""Text, texts and images in their order, or a matcher of the answer."""


class RunStatus(str, Enum):
    """How a recorded run ended.

    Example:
        >>> from toolgrade import Run, RunStatus
        >>> run = Run(input="Book a flight to Paris.", status="stopped", error="limit of 10 steps reached")
        >>> run.status is RunStatus.STOPPED
        True
        >>> run.notes
        ['the run was stopped: limit of 10 steps reached']
    """

    OK = "ok"
    """It answered."""
    ERROR = "error"
    """An exception ended it."""
    INTERRUPTED = "interrupted"
    """It waits for a person."""
    STOPPED = "stopped"
    """A limit, guardrail, timeout, cancellation or abandoned stream ended it."""


RunEnd: TypeAlias = Literal["ok", "interrupted", "stopped", "error", "any"]
"""How a run should end: as in `RunStatus`, or in any way."""


class Handoff(Model):
    """Control passed from one agent to another.

    Example:
        >>> from toolgrade import Handoff, Run, ToolCall
        >>> calls = [ToolCall(name="get_weather"), ToolCall(name="transfer_to_booking")]
        >>> run = Run(calls=calls, handoffs=[Handoff(call=1, from_agent="travel", to_agent="booking")])
        >>> [call.name for call in run.tools_called]
        ['get_weather']
    """

    call: Annotated[int, Field(ge=0)] | None = None
    """Position of the call in the run's `calls`; `None` if no call was observed."""
    from_agent: str | None = None
    to_agent: str | None = None


class Turn(Model):
    """One message of a conversation: called tools are those of the assistant, a turn of the user has expected ones.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value, or a turn of the assistant states an expectation;
            `problems` has every path.

    Example:
        >>> from toolgrade import ToolCall, Turn
        >>> question = Turn(role="user", content="What is the weather in Paris?")
        >>> answer = Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="get_weather")])
        >>> print(f"{question.content} -> {answer.tools_called[0].name}")
        What is the weather in Paris? -> get_weather
    """

    role: Literal["user", "assistant"]
    content: str
    tools_called: list[ToolCall] | None = None
    expected_tools: ExpectedTools | None = None
    """What the agent should call in answer to this text of the user: `[]` for nothing, `None` if it is not scored."""
    required_texts: list[str] = Field(default_factory=new_list)
    """Texts that the agent must say in answer to this text of the user."""
    metadata: Metadata = Field(default_factory=dict)
    retrieval_context: StoredTexts = None

    @model_validator(mode="after")
    def _stated_by_users(self) -> "Self":
        if self.role == "assistant":
            for name, is_stated in (
                ("expected_tools", self.expected_tools is not None),
                ("required_texts", self.required_texts),
            ):
                if is_stated:
                    message = f"must be of a turn of the user; state {name} with the text that the agent answers"
                    raise InvalidDataError(message, [Problem(f"$.{name}", message)])
        return self


NOT_ASKED: Final = Turn(role="assistant", content="", tools_called=[])
"""Stands for the answer to a text that the user did not come to say: no call was made."""


class Run(Model):
    """One recorded run of an agent.

    `calls` has every call at the top level of the run, whether it succeeded or not, including calls that hand over to
    another agent; `tools_called` is the part of it that is scored.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Run, ToolCall
        >>> call = ToolCall(name="get_weather", input_parameters={"city": "Paris"}, output="sunny")
        >>> run = Run(input="What is the weather in Paris?", actual_output="It is sunny in Paris.", calls=[call])
        >>> case = run.to_test_case(expected_tools=[ToolCall(name="get_weather")])
        >>> print(case.input, [call.name for call in case.tools_called])
        What is the weather in Paris? ['get_weather']
        >>> print(run)
        user: What is the weather in Paris?
          get_weather {"city": "Paris"} -> sunny
        assistant: It is sunny in Paris.
    """

    input: str | None = None
    input_parts: InputParts = None
    """The user's input with its images, texts and images in order; `None` if it has no image."""
    actual_output: str | None = None
    """The final answer; `None` if the run ended without one."""
    agent_texts: list[str] | None = None
    """All texts of the agent to the user, in their order; `None` if only the answer was recorded."""
    dialogue: list[Turn] = Field(default_factory=new_list)
    """What the user and the agent said, if the user spoke more than once, without the calls: their `turn` says to which
    message of the user they belong."""
    calls: list[ToolCall] = Field(default_factory=new_list)
    handoffs: list[Handoff] = Field(default_factory=new_list)
    failed_handoffs: list[Annotated[int, Field(ge=0)]] = Field(default_factory=new_list)
    """Positions, in `calls`, of requests to hand over that were refused or that the run ended before."""
    instructions: str | None = None
    """The system prompt, its texts joined by a blank line; `None` if it was not recorded."""
    available_tools: AvailableTools | None = None
    status: RunStatus = RunStatus.OK
    error: str | None = None
    """`"TypeName: text"` of the exception that ended it, or the text of what stopped it."""
    models: list[str] = Field(default_factory=new_list)
    usage: dict[str, int] | None = None
    """Tokens by name, e.g. `input_tokens`, `output_tokens`."""
    conversation_id: str | None = None
    run_id: str | None = None
    tags: list[str] = Field(default_factory=new_list)
    metadata: Metadata = Field(default_factory=dict)
    started_at: datetime | None = None
    duration: Annotated[float, Field(ge=0)] | None = None
    """Seconds."""
    warnings: list[str] = Field(default_factory=new_list)
    """What the recording did not understand or does not contain; every result of this run repeats it."""

    def __str__(self) -> str:
        """Return what was said and called, for people, without secrets; `repr` has every field."""
        return _transcript(self)

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
        if code and not executed_only:
            return calls
        return [call for call in calls if _counts(call, executed_only=executed_only, code=code)]

    def to_test_case(
        self,
        *,
        expected_tools: ExpectedTools | None = None,
        expected_output: ExpectedOutput | None = None,
        required_texts: list[str] | None = None,
        ends: RunEnd | None = None,
        id: str | None = None,
        name: str | None = None,
        nested: bool = False,
        handoffs: bool = False,
        executed_only: bool = False,
        code: bool = True,
    ) -> "LLMTestCase":
        """Return the run as a test case.

        Args:
            expected_tools: The expected calls; most metrics need them.
            expected_output: The expected answer.
            required_texts: Texts that the agent must say at any time.
            ends: How the run must end; see `LLMTestCase.ends`.
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
            "required_texts": required_texts,
            "ends": ends,
            "expected_tools": expected_tools,
            "available_tools": self.available_tools,
            "tags": self.tags or None,
            "metadata": self.metadata or None,
        }
        called = self.select_calls(nested=nested, handoffs=handoffs, executed_only=executed_only, code=code)
        return LLMTestCase(tools_called=called, run=self, **drop_none(fields))

    @with_arguments_of(to_test_case)
    def to_mllm_test_case(self, **arguments: Any) -> "MLLMTestCase":  # noqa: ANN401 - checked by `to_test_case`
        """Return the run as a multimodal test case, whose input is `input_parts`, or `input` without images.

        The arguments are those of `to_test_case`. Images in outputs of tools stay in `tools_called[i].output`.
        """
        case = self.to_test_case(**arguments)
        fields = set_fields(case)
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
    out is unknown, and a metric that needs it cannot score the case. `expected_tools` may be a `Plan` instead of a
    list, and `expected_output` a matcher of the answer (see `toolgrade.expect`).

    The fields from `context` on are those of DeepEval's cases; they are stored and written, and no metric reads them.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     input="What is the weather in Paris?",
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> ToolCorrectnessMetric().measure(case).score
        0.5
    """

    id: Identifier | None = None
    name: str | None = None
    input: str | None = None
    actual_output: str | None = None
    agent_texts: list[str] | None = None
    """All texts of the agent to the user, in their order; `None` for those of the run."""
    ended: bool | None = None
    """Whether the run came to its own end; `None` if only the status of the run says so."""
    expected_output: ExpectedOutput | None = None
    required_texts: list[str] = Field(default_factory=new_list)
    """Texts that the agent must say at any time."""
    ends: RunEnd | None = None
    """How the run must end; `None` means `"ok"`, but was not stated. A run with another end does not pass."""
    tools_called: list[ToolCall] | None = None
    expected_tools: ExpectedTools | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=new_list)
    metadata: Metadata = Field(default_factory=dict)
    run: Run | None = None
    """The recorded run; every result repeats its warnings."""
    context: StoredTexts = None
    retrieval_context: StoredTexts = None
    hyperparameters: StoredObject = None
    token_cost: StoredNumber = None
    completion_time: StoredNumber = None
    comments: StoredText = None


class MLLMTestCase(Model):
    """An `LLMTestCase` whose input and outputs may hold images.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import MLLMImage, MLLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> case = MLLMTestCase(
        ...     input=["What is the weather in this city?", MLLMImage(url="https://example.com/paris.png")],
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ...     expected_tools=[ToolCall(name="get_weather")],
        ... )
        >>> ToolCorrectnessMetric().measure(case).score
        1.0
    """

    id: Identifier | None = None
    name: str | None = None
    input: TextOrImages = None
    actual_output: TextOrImages = None
    agent_texts: list[str] | None = None
    ended: bool | None = None
    expected_output: ExpectedTextOrImages = None
    required_texts: list[str] = Field(default_factory=new_list)
    ends: RunEnd | None = None
    tools_called: list[ToolCall] | None = None
    expected_tools: ExpectedTools | None = None
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=new_list)
    metadata: Metadata = Field(default_factory=dict)
    run: Run | None = None
    context: StoredTexts = None
    retrieval_context: StoredTexts = None
    token_cost: StoredNumber = None
    completion_time: StoredNumber = None
    comments: StoredText = None


def input_with_images(case: LLMTestCase | MLLMTestCase) -> str | list[str | MLLMImage] | None:
    """Return the input of a case, with the images of its run if the run has the same input."""
    run = case.run
    if isinstance(case.input, list) or run is None or not run.input_parts or run.input != case.input:
        return case.input
    return run.input_parts


class ConversationalTestCase(Model):
    """A conversation of several turns. A *turn* is a text of the user with all that the agent did in answer to it.

    Turns count from 1. What the assistant says before the first text of the user belongs to turn 1, and texts of the
    user that follow each other are one.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import ConversationalTestCase, ToolCall, Turn
        >>> turns = [
        ...     Turn(role="user", content="What is the weather in Paris?"),
        ...     Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="get_weather")]),
        ... ]
        >>> case = ConversationalTestCase(id="paris", turns=turns).to_test_cases()[0]
        >>> print(f"{case.id}: {case.input} -> {case.tools_called[0].name}")
        paris, turn 1: What is the weather in Paris? -> get_weather
    """

    turns: list[Turn]
    id: Identifier | None = None
    name: str | None = None
    expected_tools: ExpectedTools | None = None
    """The calls that should be made in any turn, or in the turn that a call names; those of one turn of the user alone
    stand in `Turn.expected_tools`."""
    expected_output: ExpectedOutput | None = None
    """The expected last answer."""
    required_texts: list[str] = Field(default_factory=new_list)
    """Texts that the agent must say in any turn."""
    ends: RunEnd | None = None
    """How the last run must end; see `LLMTestCase.ends`."""
    user_error: str | None = None
    """What the simulated user did wrong; no metric measures such a conversation."""
    instructions: str | None = None
    """The system prompts of its runs, each text once; `None` if none was recorded."""
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=new_list)
    metadata: Metadata = Field(default_factory=dict)
    scenario: StoredText = None
    expected_outcome: StoredText = None
    user_description: StoredText = None
    chatbot_role: StoredText = None
    context: StoredTexts = None
    comments: StoredText = None

    def __str__(self) -> str:
        """Return what was said and called, for people, without secrets; `repr` has every field."""
        return _transcript(self)

    @property
    def exchanges(self) -> "list[Exchange]":
        """The turns of the user, each with the texts of the assistant that answer it."""
        groups = [list(group) for _, group in groupby(self.turns, key=lambda turn: turn.role)]
        before = groups.pop(0) if groups and groups[0][0].role == "assistant" else []
        pairs = [(group, groups[at + 1] if at + 1 < len(groups) else []) for at, group in enumerate(groups)][::2]
        if before:
            questions, answers = pairs[0] if pairs else ([], [])
            pairs[:1] = [(questions, before + answers)]
        return [Exchange(number, *pair) for number, pair in enumerate(pairs, start=1)]

    def to_test_cases(self) -> list[LLMTestCase]:
        """Return a test case for each turn that was answered, for metrics that measure one question.

        Id and name are those of the conversation with `, turn 1` and so on. The calls are those of all texts of the
        assistant, `None` if none of these has `tools_called`; the answer is the last text. The `run` of a case has what
        the metadata of its turns say of their run (see `toolgrade.capture.conversation`), and the `warnings` in the
        metadata of the conversation.
        """
        return [self._test_case(exchange) for exchange in self.exchanges if exchange.answers]

    @property
    def stating_turns(self) -> list[tuple[int, LLMTestCase]]:
        """The numbers of the turns that state what the agent should do, each with its case."""
        stating = [one for one in self.exchanges if one.expected_tools is not None or one.required_texts]
        return [(one.number, self._test_case(one)) for one in stating]

    def _test_case(self, exchange: "Exchange") -> LLMTestCase:
        calls = exchange.calls
        fields: JsonObject = {
            "id": _turn_label(self.id, exchange.number),
            "name": _turn_label(self.name, exchange.number),
            "input": exchange.question,
            "actual_output": exchange.answer,
            "tools_called": calls,
            "expected_tools": exchange.expected_tools,
            "required_texts": exchange.required_texts or None,
            "available_tools": self.available_tools,
            "tags": self.tags or None,
            "metadata": self.metadata or None,
            "run": self._run([exchange], calls),
        }
        return LLMTestCase(**drop_none(fields))

    def to_test_case(self) -> "WholeConversation":
        """Return the whole conversation as one case, as metrics measure it: each call has its turn.

        The expected calls are those of the conversation and those of its turns, which must be called in their turn. The
        question is the first text of the user, the answer the last one of the assistant.

        Raises:
            InvalidDataError: The expectations of the turns cannot be joined; see `toolgrade.expect.turns`.
        """
        exchanges = self.exchanges
        calls = list(chain.from_iterable(one.calls_in_turn for one in exchanges))
        agent_texts = list(chain.from_iterable(one.agent_texts for one in exchanges))
        texts = [*self.required_texts, *(exchanges[0].required_texts if len(exchanges) == 1 else ())]
        same = {"id", "name", "expected_output", "ends", "available_tools", "tags", "metadata"} & self.model_fields_set
        fields: JsonObject = {
            "input": exchanges[0].question if exchanges else None,
            "actual_output": next(filter(None, (one.answer for one in reversed(exchanges))), None),
            "agent_texts": agent_texts if any(one.answers for one in exchanges) else None,
            "tools_called": calls if all(one.has_calls for one in exchanges) else None,
            "expected_tools": self._expected_tools(exchanges),
            "required_texts": texts or None,
            "run": self._run(exchanges, calls),
            "conversation": self,
        }
        return WholeConversation(**{name: getattr(self, name) for name in same}, **drop_none(fields))

    def _expected_tools(self, exchanges: "list[Exchange]") -> ExpectedTools | None:
        """Return the expected calls of the conversation and of its turns, pinned to these if there are several."""
        stated = [(one.number, one.expected_tools) for one in exchanges if one.expected_tools is not None]
        if not stated:
            return self.expected_tools
        if len(exchanges) == 1 and self.expected_tools is None:
            return stated[0][1]
        from toolgrade.expect.turns import joined  # noqa: PLC0415 - loaded with the first conversation

        return joined(self.expected_tools, stated)

    def _run(self, exchanges: "list[Exchange]", calls: list[ToolCall] | None) -> Run | None:
        """Return what the metadata say of the runs of these turns; `None` if they say nothing."""
        turns = [[turn.metadata for turn in one.answers] for one in exchanges if one.was_asked]
        fields, prompt = _run_fields(self.metadata, turns), drop_none({"instructions": self.instructions})
        if not fields or not exchanges:
            return Run(calls=calls or [], **prompt) if prompt else None
        texts = {"input": exchanges[0].question, "actual_output": exchanges[-1].answer, "conversation_id": self.id}
        return Run(calls=calls or [], **fields, **prompt, **drop_none(texts))


def _transcript(case: "Run | ConversationalTestCase") -> str:
    # By name: views, which are loaded when something is printed, stand on this module.
    return str(import_module("toolgrade.report.text.transcript").transcript_text(case))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn: what the user said, and what the assistant did in answer to it."""

    number: int
    """From 1."""
    questions: list[Turn]
    answers: list[Turn]

    @property
    def question(self) -> str | None:
        """The texts of the user."""
        return "\n\n".join(turn.content for turn in self.questions) if self.questions else None

    @property
    def answer(self) -> str | None:
        """The last text of the assistant."""
        return next((turn.content for turn in reversed(self.answers) if turn.content), None)

    @property
    def agent_texts(self) -> list[str]:
        """All texts of the assistant; those before its last text are known of recorded runs."""
        texts: list[str] = []
        for turn in self.answers:
            recorded = texts_in(turn.metadata.get("agent_texts"))
            texts += recorded or ([turn.content] if turn.content else [])
        return texts

    @property
    def calls(self) -> list[ToolCall] | None:
        """The calls of all texts of the assistant; `None` if none of them has `tools_called`."""
        recorded = [turn.tools_called for turn in self.answers if turn.tools_called is not None]
        return list(chain.from_iterable(recorded)) if recorded else None

    @property
    def calls_in_turn(self) -> list[ToolCall]:
        """The known calls, each with the number of the turn."""
        return [call.model_copy(update={"turn": self.number}) for call in self.calls or ()]

    @property
    def expected_tools(self) -> ExpectedTools | None:
        """What the texts of the user expect."""
        stated = [one.expected_tools for one in self.questions if one.expected_tools is not None]
        if len(stated) < 2:  # noqa: PLR2004 - nearly always
            return stated[0] if stated else None
        from toolgrade.expect.turns import in_one_turn  # noqa: PLC0415 - not loaded for one text

        return in_one_turn(stated)

    @property
    def was_asked(self) -> bool:
        """Whether the user came to say it: `NOT_ASKED` is no answer."""
        return any(turn.content or turn.tools_called or turn.metadata for turn in self.answers)

    @property
    def has_calls(self) -> bool:
        """Whether its calls are known, or need not be: it was not answered, and states none."""
        return self.calls is not None or not (self.answers or self.expected_tools is not None)

    @property
    def required_texts(self) -> list[str]:
        """Those of all texts of the user."""
        return [text for turn in self.questions for text in turn.required_texts]


class WholeConversation(LLMTestCase):
    """A conversation as one case; see `ConversationalTestCase.to_test_case`."""

    conversation: ConversationalTestCase

    @property
    def scored_turns(self) -> frozenset[int] | None:
        """The turns whose calls are compared with the expected ones; `None` for all.

        Those that state nothing are not, unless the conversation as a whole states its calls.
        """
        exchanges = self.conversation.exchanges
        stating = frozenset(one.number for one in exchanges if one.expected_tools is not None)
        return None if self.conversation.expected_tools is not None or not stating else stating

    @property
    def turns_with_texts(self) -> list[Exchange]:
        """The turns that state texts for themselves, if there are several turns."""
        exchanges = self.conversation.exchanges
        return [one for one in exchanges if one.required_texts] if len(exchanges) > 1 else []

    @property
    def silent_turns(self) -> frozenset[int]:
        """The turns that state that nothing should be called."""
        exchanges = self.conversation.exchanges
        return frozenset(one.number for one in exchanges if is_silence(one.expected_tools))


def joined_instructions(texts: Iterable[str | None]) -> str | None:
    """Return system prompts as one, each text once; `None` without any."""
    return "\n\n".join(dict.fromkeys(filter(None, texts))) or None


def _turn_label(label: str | None, number: int) -> str | None:
    return None if label is None else f"{label}, turn {number}"


_RUN_STATUSES = frozenset(status.value for status in RunStatus)
_BROKEN = frozenset({"error", "stopped"})
_OF_ANY = ("status", "error", "run_id", "span_id", "warnings")
"""Metadata of a conversation that are about its run."""


def _run_fields(conversation: JsonObject, turns: list[list[JsonObject]]) -> JsonObject:
    """Return what metadata say of the runs of these turns: the end of the first that broke, else of the last one.

    Usage and duration are those of all turns, and unknown if one turn lacks them.
    """
    runs = [_known(records) for records in turns]
    parts = [_known([{name: conversation[name] for name in _OF_ANY if name in conversation}]), *runs]
    end = next((one for one in parts if one.get("status") in _BROKEN), parts[-1])
    fields: JsonObject = {name: one[name] for one in parts for name in ("run_id", "metadata") if name in one}
    fields |= drop_none({"status": end.get("status"), "error": end.get("error")})
    fields |= {name: texts for name in ("models", "warnings") if (texts := _texts_of(parts, name))}
    return fields | _sums_of(runs)


def _texts_of(parts: list[JsonObject], name: str) -> list[str]:
    return [*dict.fromkeys(text for one in parts for text in one[name])]


def _sums_of(runs: list[JsonObject]) -> JsonObject:
    """Return the usage and the duration of these runs together, unless one of them lacks it."""
    sums: JsonObject = {}
    if runs and all("usage" in one for one in runs):
        usage = Counter[str]()  # its sum would leave out names that count 0
        for one in runs:
            usage.update(one["usage"])
        sums["usage"] = dict(usage)
    if runs and all("duration" in one for one in runs):
        sums["duration"] = sum(one["duration"] for one in runs)
    return sums


def _known(records: list[JsonObject]) -> JsonObject:
    """Return what the metadata of the messages of a turn say of its run; they may have keys of the user, too."""
    fields: JsonObject = {"models": [], "warnings": []}
    for record in records:
        fields |= {name: record[name] for name in ("run_id", "error") if isinstance(record.get(name), str)}
        if record.get("status") in _RUN_STATUSES:
            fields["status"] = record["status"]
        if isinstance(record.get("span_id"), str):
            fields["metadata"] = {"span_id": record["span_id"]}
        if isinstance(record.get("duration"), (int, float)):
            fields["duration"] = float(record["duration"])
        if isinstance(record.get("usage"), dict):
            fields["usage"] = {name: count for name, count in record["usage"].items() if type(count) is int}
        for name in ("models", "warnings"):
            fields[name] += texts_in(record.get(name))
    return fields


def texts_in(value: object) -> list[str]:
    """Return the texts of a list that somebody else wrote; none of any other value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_CLASSES = (ToolCall, Turn, MLLMImage, LLMTestCase, MLLMTestCase, ConversationalTestCase)


def own_copy(value: Any) -> Any:  # noqa: ANN401 - a case, or a part of one
    """Return a copy of a case of a subclass as one of its class here, parts included, with the fields that it has.

    Later changes of the case do not reach the copy.

    Raises:
        InvalidDataError: A field has a wrong value, which may be if objects of the subclass can be changed.
    """
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    kind = next((kind for kind in _CLASSES if isinstance(value, kind)), None)
    if kind is None:
        return deepcopy(value)
    fields = {name: own_copy(field) for name, field in set_fields(value).items() if name in kind.model_fields}
    return made_quietly(kind, fields)


def made_quietly(kind: type[_M], fields: JsonObject) -> _M:
    """Return an object of a class with these fields, without a word on those that no metric of toolgrade reads."""
    unread = {name for name in fields if _StoredOnly in kind.model_fields[name].metadata}
    read = kind(**{name: field for name, field in fields.items() if name not in unread})
    return read.model_copy(update={name: to_json_value(fields[name]) for name in unread})


TestCase: TypeAlias = LLMTestCase | MLLMTestCase
"""A case with called and expected tools."""

AnyCase: TypeAlias = TestCase | ConversationalTestCase
"""Any case that a metric can score."""


def own_case(case: AnyCase) -> AnyCase:
    """Return a case as it is, but a copy if it is of a subclass: such a case may change, and files do not hold it."""
    is_own = type(case) in _CLASSES or isinstance(case, WholeConversation)
    return case if is_own or not isinstance(case, AnyCase) else own_copy(case)
