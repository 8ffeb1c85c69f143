"""Tool calls, how they were executed, and tool specifications."""

# No `from __future__ import annotations` here: pydantic would compile the text of each annotation at every start.

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, PlainValidator

from toolgrade._internal.json import JsonObject, parse_json_value, short_repr, to_json_value
from toolgrade._internal.model import Model, drop_none, new_list
from toolgrade.errors import InvalidDataError


class ToolCallParams(str, Enum):
    """Fields of a call that are compared. The name is always compared, so `TOOL` adds nothing.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Rome"})],
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ... )
        >>> metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
        >>> metric.measure(case).score
        0.0
    """

    TOOL = "tool"
    INPUT_PARAMETERS = "input_parameters"
    OUTPUT = "output"


class ToolCallType(str, Enum):
    """Who runs the tool, and how it takes its input. MCP wins over HOSTED if both are true.

    Example:
        >>> from toolgrade import ToolCall, ToolCallType
        >>> ToolCall(name="web_search", type="hosted").type
        <ToolCallType.HOSTED: 'hosted'>
    """

    FUNCTION = "function"
    """The agent's own code, called with an argument object."""
    MCP = "mcp"
    """A tool of a Model Context Protocol server."""
    HOSTED = "hosted"
    """Run by the model's provider, such as web search."""
    CUSTOM = "custom"
    """Takes free text instead of an argument object."""


class CallStatus(str, Enum):
    """Outcome of a recorded call.

    Example:
        >>> from toolgrade import CallStatus, ToolCall
        >>> call = ToolCall(name="get_weather", execution={"status": "error", "error": "TimeoutError: no answer"})
        >>> call.execution.status
        <CallStatus.ERROR: 'error'>
        >>> call.execution.status is CallStatus.ERROR
        True
    """

    OK = "ok"
    """It ran, or was answered, without an observed error."""
    ERROR = "error"
    """The tool failed, or rejected well-formed arguments."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """The model's argument text is not a JSON object; the raw text is in `requested_parameters`."""
    UNKNOWN_TOOL = "unknown_tool"
    """The name was not among the tools offered."""
    REJECTED = "rejected"
    """A person, a policy or a limit refused it."""
    PENDING = "pending"
    """It waits for a person or an external system."""
    CANCELLED = "cancelled"
    """It started and was then cancelled."""
    NOT_EXECUTED = "not_executed"
    """It was requested, and neither run nor answered before the run ended."""


class ToolEffect(str, Enum):
    """Effect of a tool's calls on the world outside of the conversation."""

    READ = "read"
    """They only look something up or compute it."""
    WRITE = "write"
    """They change something, or may."""


class CallOrigin(str, Enum):
    """Who requested the call."""

    MODEL = "model"
    CODE = "code"
    """A program called the tool without a request of the model."""


def _arguments(value: object) -> JsonObject | None:
    """Read an argument object: a mapping, a model or dataclass, or the JSON text of an object."""
    if type(value) is dict:  # nearly always
        return to_json_value(value)  # type: ignore[no-any-return]
    if value is None:
        return None
    plain = parse_json_value(value) if isinstance(value, str) else to_json_value(value)
    if not isinstance(plain, dict):
        message = f"expected an object of arguments or its JSON text, got {type(value).__name__} {short_repr(value)}"
        raise InvalidDataError(message)
    return plain


def _case_insensitive(value: object) -> object:
    return value.lower() if isinstance(value, str) and not isinstance(value, Enum) else value


def _any_json(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Convert any value; a validator has one argument, so pydantic cannot use `to_json_value` directly."""
    return to_json_value(value)


AnyJson = Annotated[Any, PlainValidator(_any_json)]
"""Any value, converted to a JSON value."""

Arguments = Annotated[JsonObject | None, PlainValidator(_arguments)]
"""Arguments of a call; comparisons read `None` as `{}`."""


class Execution(Model):
    """How a recorded call was executed. An expected call has none.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Execution, ToolCall
        >>> call = ToolCall(
        ...     name="get_weather",
        ...     input_parameters={"city": "Paris"},
        ...     execution=Execution(status="error", executed=True, error="TimeoutError: no answer", duration=30.0),
        ... )
        >>> print(call.execution.status.value, call.execution.error, call.execution.duration)
        error TimeoutError: no answer 30.0
    """

    status: CallStatus = CallStatus.OK
    executed: bool = False
    """An execution of the tool was observed. A recording of messages alone cannot observe it."""
    error: str | None = None
    """`"TypeName: text"`, or the text alone if no exception was observed."""
    attempts: Annotated[int, Field(ge=0)] = 1
    """Observed executions for this request; 1 if none was observed."""
    requested_parameters: AnyJson = None
    """The requested arguments, if they differ from `input_parameters`; raw text if they are not a JSON object."""
    model_output: AnyJson = None
    """What the model received, if that differs from the call's `output`."""
    artifact: AnyJson = None
    """What the tool returned in addition to its output, not sent to the model."""
    agent: str | None = None
    server: str | None = None
    """Name of the tool's MCP server, namespace or tool set."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Number, from 0, of the model message among those of its scope with calls; equal steps are parallel calls."""
    origin: CallOrigin = CallOrigin.MODEL
    started_at: datetime | None = None
    duration: Annotated[float, Field(ge=0)] | None = None
    """Seconds."""
    replayed: bool = False
    """A recording answered it, or a fault that was planted there; the tool did not run."""
    left_recording: str | None = None
    """Why the recording that was replayed has no answer; the tool did not run, and the case does not pass."""
    children: list["ToolCall"] = Field(default_factory=new_list)
    """Calls made inside this one, by the tool or by a sub-agent."""
    not_captured: list[str] = Field(default_factory=new_list)
    """Fields of the call that the recording does not contain; they are left out of every comparison."""
    source: str | None = None
    """Place that the call was read from, e.g. a file and line or a span id."""


class ToolCall(Model):
    """A recorded or expected call of a tool.

    In an *expected* call a field that was never set matches anything. `input_parameters=None`
    equals `{}`, `type=None` is unset, an explicit `output=None` is a value. In a *called* one, unset or `None`
    arguments read as `{}`, and an unset output as `None`.

    Values are converted to JSON values at construction. JSON accepts
    `input_parameters`, `inputParameters`, `args` and `arguments`, as an object or as the JSON text of one.

    The identity of a call is its position in its list; two equal calls are still two calls.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import ToolCall
        >>> call = ToolCall(name="get_weather", input_parameters={"city": "Paris"}, output="sunny")
        >>> call.arguments["city"]
        'Paris'
        >>> print(call.to_json())
        {"name": "get_weather", "input_parameters": {"city": "Paris"}, "output": "sunny"}
        >>> ToolCall.from_json('{"name": "get_weather", "args": {"city": "Paris"}}').arguments
        {'city': 'Paris'}
    """

    name: Annotated[str, Field(min_length=1)]
    type: Annotated[ToolCallType | None, BeforeValidator(_case_insensitive)] = None
    description: str | None = None
    reasoning: str | None = None
    input_parameters: Arguments = Field(
        default=None,
        validation_alias=AliasChoices("input_parameters", "inputParameters", "args", "arguments"),
    )
    output: AnyJson = None
    id: str | None = None
    turn: Annotated[int, Field(ge=1)] | None = None
    """Turn of the user that the call answers, from 1. Of an expected call, the turn in which it must be made."""
    execution: Execution | None = None

    def __hash__(self) -> int:
        """Hash by name: equal calls have equal names, and arguments may hold lists."""
        return hash(self.name)

    @property
    def arguments(self) -> JsonObject:
        """The arguments, `{}` if there are none."""
        return self.input_parameters or {}

    def captured(self, field: str) -> bool:
        """Return whether the recording contains this field; true for every call without an `execution`."""
        return self.execution is None or field not in self.execution.not_captured


def is_pending(call: ToolCall) -> bool:
    """Return whether a call waits for a person or an external system."""
    return call.execution is not None and call.execution.status is CallStatus.PENDING


def step_of(call: ToolCall) -> int | None:
    """Return the step in which the model asked for a call; `None` if it was not recorded."""
    return None if call.execution is None else call.execution.step


def in_same_step(call: ToolCall, other: ToolCall) -> bool:
    """Return whether the model asked for two calls at the same time, so that neither can react to the other.

    The turns of a conversation may be runs of which each counts its steps.
    """
    return step_of(call) is not None and step_of(call) == step_of(other) and call.turn == other.turn


def first_of_step(calls: Sequence[ToolCall], index: int) -> int:
    """Return the position of the first call of the step of a call: those before it had answers that the model saw."""
    first = index
    while first and in_same_step(calls[first - 1], calls[index]):
        first -= 1
    return first


class ToolSpec(Model):
    """A tool that an agent could call.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import ToolSpec
        >>> schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        >>> tool = ToolSpec(name="get_weather", description="Weather of a city", input_schema=schema, effect="read")
        >>> tool.input_schema["required"]
        ['city']
    """

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    input_schema: Arguments = Field(
        default=None,
        validation_alias=AliasChoices("input_schema", "inputSchema", "parameters"),
    )
    """JSON Schema of the arguments."""
    type: Annotated[ToolCallType | None, BeforeValidator(_case_insensitive)] = None
    effect: Annotated[ToolEffect | None, BeforeValidator(_case_insensitive)] = None
    """Whether its calls change something; `None` if unknown."""
    server: str | None = None
    """The MCP server, or another group of tools that it belongs to."""


def read_tool_spec(value: object) -> ToolSpec:
    """Return a tool specification from any of the usual forms.

    Args:
        value: A `ToolSpec`, a `ToolCall`, or an object in the form of OpenAI (`{"type": "function", "function": {...}}`
            or flat with `parameters`), Anthropic (`input_schema`), MCP (`inputSchema`), or
            `{name, description, parameters}`; or an object with such attributes and a schema, such as
            `mcp.types.Tool`. Other keys are ignored. The `readOnlyHint` of MCP's `annotations` becomes the `effect`,
            unless the tool has one: true is `read`, false is `write`.

    Raises:
        InvalidDataError: It has none of these forms.

    Example:
        >>> from toolgrade.calls import read_tool_spec
        >>> openai_tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
        >>> read_tool_spec(openai_tool).name
        'get_weather'
        >>> mcp_tool = {"name": "get_weather", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        >>> read_tool_spec(mcp_tool).effect
        <ToolEffect.READ: 'read'>
    """
    if isinstance(value, ToolSpec):
        return value
    if isinstance(value, ToolCall):
        return ToolSpec(name=value.name, **drop_none({"description": value.description, "type": value.type}))
    fields = value if isinstance(value, Mapping) else _attributes(value)
    if fields is not None:
        return _spec_from_mapping(fields)
    message = (
        f"an available tool must be a ToolSpec, a ToolCall or an object with a name, got {type(value).__name__} "
        f"{short_repr(value)}"
    )
    raise InvalidDataError(message)


_SPEC_KEYS = ("name", "description", "input_schema", "inputSchema", "parameters", "effect")
_SCHEMA_KEYS = ("input_schema", "inputSchema", "parameters")
_READ_ONLY = ("readOnlyHint", "read_only_hint")
_CALL_TYPES = frozenset(member.value for member in ToolCallType)


def _spec_from_mapping(value: Mapping[str, Any]) -> ToolSpec:
    function = value.get("function")
    body = function if isinstance(function, Mapping) else value
    fields = {key: body[key] for key in _SPEC_KEYS if body.get(key) is not None}
    if isinstance(body.get("server"), str):
        fields["server"] = body["server"]
    declared = value.get("type")
    kind = str(declared.value if isinstance(declared, Enum) else declared or "").lower()
    if kind in _CALL_TYPES:
        fields["type"] = kind
    elif kind and "name" not in fields:  # a provider's own tool, e.g. {"type": "web_search"}
        fields["name"], fields["type"] = kind, ToolCallType.HOSTED
    read_only = _read_only(value.get("annotations"))
    if read_only is not None:
        fields.setdefault("effect", ToolEffect.READ if read_only else ToolEffect.WRITE)
    return ToolSpec(**fields)


def _attributes(value: object) -> dict[str, Any] | None:
    """Return the attributes of an object that describes a tool; `None` if it has no name or no schema."""
    if isinstance(value, (Model, type)) or not isinstance(getattr(value, "name", None), str):
        return None
    if not any(isinstance(getattr(value, key, None), Mapping) for key in _SCHEMA_KEYS):
        return None
    return {key: getattr(value, key, None) for key in (*_SPEC_KEYS, "server", "annotations")}


def _read_only(annotations: object) -> bool | None:
    """Return MCP's `readOnlyHint`; `None` if it is missing or not a boolean."""
    for name in _READ_ONLY:
        hint = annotations.get(name) if isinstance(annotations, Mapping) else getattr(annotations, name, None)
        if isinstance(hint, bool):
            return hint
    return None


def _specs(value: object) -> object:
    if not isinstance(value, (list, tuple)):
        return value
    specs: list[ToolSpec] = []
    for index, item in enumerate(value):
        try:
            specs.append(read_tool_spec(item))
        except InvalidDataError as error:
            message = f"item {index}: {error}"
            raise InvalidDataError(message) from None
    return specs


AvailableTools = Annotated[list[ToolSpec], BeforeValidator(_specs)]
"""A list of tools in any form that `read_tool_spec` takes."""


Execution.model_rebuild()

__all__ = [
    "CallStatus",
    "Execution",
    "ToolCall",
    "ToolCallParams",
    "ToolCallType",
    "ToolSpec",
    "read_tool_spec",
]
