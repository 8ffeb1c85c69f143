"""The names of `deepeval.test_case`: cases that can be changed, as DeepEval's can.

They are toolgrade's cases, so that everything else takes them, too. Metrics and `evaluate` of this package measure a
copy, so a result keeps what it compared when its case changes later. Fields that only DeepEval has are kept.
"""

# No `from __future__ import annotations` here: pydantic would compile the text of each annotation at every start.

import re
from collections.abc import Mapping
from copy import deepcopy
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, model_validator

from toolgrade import calls as core_calls
from toolgrade import cases as core
from toolgrade._internal.model import Model, set_fields, to_invalid_data_error
from toolgrade.calls import ToolCallParams, ToolCallType
from toolgrade.cases import AnyCase
from toolgrade.compat.deepeval import _absent

__all__ = [
    "ConversationalTestCase",
    "LLMTestCase",
    "LLMTestCaseParams",
    "MLLMImage",
    "MLLMTestCase",
    "MultiTurnParams",
    "SingleTurnParams",
    "ToolCall",
    "ToolCallParams",
    "ToolCallType",
    "Turn",
    "TurnParams",
]


class Changeable(Model):
    """An object whose fields can be set, and which keeps fields that toolgrade does not know."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=False, validate_assignment=True, extra="allow")

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            """Set a field; raises `InvalidDataError` for a wrong value."""
            try:
                super().__setattr__(name, value)
            except ValidationError as error:
                raise to_invalid_data_error(type(self), error) from None

    @property
    def additional_metadata(self) -> Any:  # noqa: ANN401 - as `metadata`
        """Older name of `metadata`."""
        return getattr(self, "metadata")  # noqa: B009 - not all of these have it

    @additional_metadata.setter
    def additional_metadata(self, value: object) -> None:
        setattr(self, "metadata", value)  # noqa: B010 - as above


class ToolCall(core_calls.ToolCall, Changeable):
    """A call that can be changed; calls with equal names, arguments and outputs are equal.

    Example:
        >>> from toolgrade.compat.deepeval.test_case import ToolCall
        >>> call = ToolCall(name="get_weather", inputParameters={"city": "Paris"})
        >>> call.output = "sunny"
        >>> call == ToolCall(name="get_weather", input_parameters={"city": "Paris"}, output="sunny")
        True
    """

    def __eq__(self, other: object) -> bool:
        """Return whether the names, arguments and outputs are equal."""
        return isinstance(other, core_calls.ToolCall) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        """Return the hash of the call."""
        return super().__hash__()


def _compared(call: core_calls.ToolCall) -> tuple[object, ...]:
    return call.name, call.input_parameters, call.output


_IMAGE = re.compile(r"\[DEEPEVAL:(?:IMAGE|PDF):(.*?)\]")
"""How DeepEval writes an image into a text; here with its address, path or data."""


class MLLMImage(core.MLLMImage, Changeable):
    """An image by address, path or data. In an f-string it stands for itself, and `LLMTestCase` reads it back.

    Example:
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, MLLMImage
        >>> photo = MLLMImage(url="./shoes.png", local=True)
        >>> case = LLMTestCase(input=f"What is in this image? {photo}")
        >>> print(photo.path, case.multimodal)
        ./shoes.png True
    """

    @model_validator(mode="before")
    @classmethod
    def _of_deepeval(cls, data: Any) -> Any:  # noqa: ANN401 - as pydantic gives it
        if not isinstance(data, Mapping):
            return data
        fields = {name: value for name, value in data.items() if name not in ("local", "filename")}
        if "dataBase64" in fields:
            fields["data"] = fields.pop("dataBase64")
        url = fields.get("url")
        if isinstance(url, str) and not url.startswith(("http://", "https://", "data:")):
            fields["path"] = fields.pop("url").removeprefix("file://")
        return fields

    @property
    def local(self) -> bool:
        """Whether it is a file."""
        return self.path is not None

    @property
    def dataBase64(self) -> str | None:  # noqa: N802 - DeepEval's name
        """The image as base64 text."""
        return self.data

    @property
    def mimeType(self) -> str | None:  # noqa: N802 - DeepEval's name
        """Its type."""
        return self.mime_type

    def __str__(self) -> str:
        """Return the mark that stands for the image in a text."""
        data = None if self.data is None else f"data:{self.mime_type or 'image/png'};base64,{self.data}"
        return f"[DEEPEVAL:IMAGE:{data or self.url or self.path}]"

    def __format__(self, spec: str) -> str:
        """Return the mark."""
        return str(self)


def _read_calls(value: object) -> object:
    """Read calls that are plain objects as ones that can be changed."""
    if not isinstance(value, list | tuple):
        return value
    return [ToolCall.model_validate(one) if isinstance(one, Mapping) else one for one in value]


Calls = Annotated[list[core_calls.ToolCall] | None, BeforeValidator(_read_calls)]


class LLMTestCase(core.LLMTestCase, Changeable):
    """A case of one question that can be changed.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> case = LLMTestCase(
        ...     input="Weather in Paris?", tools_called=[], expected_tools=[ToolCall(name="get_weather")]
        ... )
        >>> case.tools_called.append(ToolCall(name="get_weather"))
        >>> case.actual_output = "It is sunny."
        >>> ToolCorrectnessMetric().measure(case)
        1.0
    """

    tools_called: Calls = None
    context: list[Any] | None = None
    retrieval_context: list[Any] | None = None
    hyperparameters: dict[str, Any] | None = None
    token_cost: float | None = None
    completion_time: float | None = None
    comments: str | None = None
    input_token_count: int | None = None
    output_token_count: int | None = None
    custom_column_key_values: dict[str, str] | None = None
    flaky: bool = False

    @property
    def multimodal(self) -> bool:
        """Whether a text of it has an image."""
        return any(_has_image(text) for text in (self.input, self.actual_output))


class MLLMTestCase(core.MLLMTestCase, Changeable):
    """A case whose input and answers may be lists of texts and images, and can be changed.

    Example:
        >>> from toolgrade.compat.deepeval.test_case import MLLMImage, MLLMTestCase
        >>> case = MLLMTestCase(input=["What is this?", MLLMImage(url="https://example.com/paris.png")])
        >>> case.actual_output = "Paris."
        >>> case.input[1].url
        'https://example.com/paris.png'
    """

    tools_called: Calls = None
    context: list[Any] | None = None
    retrieval_context: list[Any] | None = None
    multimodal: ClassVar[bool] = True


class Turn(core.Turn, Changeable):
    """A message of a conversation that can be changed.

    Example:
        >>> from toolgrade.compat.deepeval.test_case import ToolCall, Turn
        >>> turn = Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="get_weather")])
        >>> turn.content = "It is sunny."
        >>> turn.tools_called[0].name
        'get_weather'
    """

    tools_called: Calls = None
    retrieval_context: list[Any] | None = None


def _read_turns(value: object) -> object:
    """Read turns that are plain objects as ones that can be changed."""
    if not isinstance(value, list | tuple):
        return value
    return [Turn.model_validate(one) if isinstance(one, Mapping) else deepcopy(one) for one in value]


class ConversationalTestCase(core.ConversationalTestCase, Changeable):
    """A conversation that can be changed; its turns are copies of those that it is given.

    Example:
        >>> from toolgrade.compat.deepeval.test_case import ConversationalTestCase, Turn
        >>> case = ConversationalTestCase(turns=[Turn(role="user", content="Weather in Paris?")])
        >>> case.turns.append(Turn(role="assistant", content="Sunny."))
        >>> len(case.turns)
        2
    """

    turns: Annotated[list[core.Turn], BeforeValidator(_read_turns)]
    scenario: str | None = None
    expected_outcome: str | None = None
    user_description: str | None = None
    chatbot_role: str | None = None
    context: list[Any] | None = None
    comments: str | None = None
    flaky: bool = False
    multimodal: ClassVar[bool] = False


def _params(name: str, fields: str) -> Any:  # noqa: ANN401 - a class
    return Enum(name, {field.upper(): field for field in fields.split()}, type=str, module=__name__)


SingleTurnParams: Any = _params(
    "SingleTurnParams",
    "input actual_output expected_output context retrieval_context metadata tags tools_called expected_tools "
    "mcp_servers mcp_tools_called mcp_resources_called mcp_prompts_called",
)
"""The fields of an `LLMTestCase` that a metric needs or reads."""
MultiTurnParams: Any = _params(
    "MultiTurnParams",
    "role content metadata tags scenario expected_outcome context user_description retrieval_context chatbot_role "
    "tools_called",
)
"""The fields of a conversation and its turns that a metric needs or reads."""
LLMTestCaseParams = SingleTurnParams
"""Older name of `SingleTurnParams`."""
TurnParams = MultiTurnParams
"""Older name of `MultiTurnParams`."""


def measured_case(case: Any) -> AnyCase:  # noqa: ANN401 - metrics say what it must be
    """Return a case as toolgrade's own, which later changes do not reach; a text with images becomes a list of both.

    Raises:
        InvalidDataError: What was put into one of its lists is not a call or a turn.
    """
    own = core.own_case(case)
    if not isinstance(case, LLMTestCase) or not case.multimodal:
        return own
    fields: dict[str, Any] = set_fields(own)
    for name in ("input", "actual_output"):
        if _has_image(fields.get(name)):
            fields[name] = _parts(fields[name])
    return core.MLLMTestCase(**fields)


def changeable_case(case: AnyCase) -> AnyCase:
    """Return a case of toolgrade as one of this module, for a metric of a suite to read and to change."""
    fields: dict[str, Any] = {name: deepcopy(field) for name, field in set_fields(case).items()}
    if isinstance(case, core.ConversationalTestCase):
        fields["turns"] = [Turn(**set_fields(turn)) for turn in case.turns]
        return ConversationalTestCase(**fields)
    kind = MLLMTestCase if isinstance(case, core.MLLMTestCase) else LLMTestCase
    return kind(**fields)


def _has_image(text: object) -> bool:
    return isinstance(text, str) and _IMAGE.search(text) is not None


def _parts(text: str) -> list[str | core.MLLMImage]:
    """Return a text as texts and images."""
    parts = _IMAGE.split(text)  # texts and what marks contain, in turn
    return [core.own_copy(MLLMImage(url=part)) if index % 2 else part for index, part in enumerate(parts) if part]


__getattr__: _absent.Getter = _absent.getter(__name__, "get_available_mcp_tool_names normalize_mcp_servers")
