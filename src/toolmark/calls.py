"""A call of a tool: what it is, what became of it, and what a tool is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, PlainValidator

from toolmark._internal.json import JsonObject, parse_json, short_repr, to_json_value
from toolmark._internal.model import Model, snake_or_camel
from toolmark.errors import InvalidDataError


class ToolCallParams(str, Enum):
    """What of a call is compared. The name always is: `TOOL` says so and adds nothing."""

    TOOL = "tool"
    INPUT_PARAMETERS = "input_parameters"
    OUTPUT = "output"


class ToolCallType(str, Enum):
    """Who runs the tool, and how it takes its input. MCP wins over HOSTED where both are true."""

    FUNCTION = "function"
    """The agent's own code, called with an argument object."""
    MCP = "mcp"
    """A tool of a Model Context Protocol server."""
    HOSTED = "hosted"
    """Run by the model's provider, such as web search."""
    CUSTOM = "custom"
    """Takes free text instead of an argument object."""


class CallStatus(str, Enum):
    """What became of a recorded call."""

    OK = "ok"
    """It ran, or was answered, without an error that anybody saw."""
    ERROR = "error"
    """The tool failed, or rejected well-formed arguments."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """The model's argument text is no JSON object; the raw text is in `requested_parameters`."""
    UNKNOWN_TOOL = "unknown_tool"
    """The name was not among the tools offered."""
    REJECTED = "rejected"
    """A person, a policy or a limit refused it."""
    PENDING = "pending"
    """It waits for a person or an external system."""
    CANCELLED = "cancelled"
    """It was begun and then given up."""
    NOT_EXECUTED = "not_executed"
    """It was asked for, and neither run nor answered before the run ended."""


class ToolEffect(str, Enum):
    """What calls of a tool do to the world outside of the conversation."""

    READ = "read"
    """They change nothing: they look something up, or compute it."""
    WRITE = "write"
    """They change something, or may."""


class CallOrigin(str, Enum):
    """Who asked for the call."""

    MODEL = "model"
    CODE = "code"
    """A program called the tool without the model asking."""


def _arguments(value: object) -> JsonObject | None:
    """Read an argument object: a mapping, a model or dataclass, or the JSON text of an object."""
    if value is None:
        return None
    plain = parse_json(value) if isinstance(value, str) else value
    plain = to_json_value(plain)
    if not isinstance(plain, dict):
        message = f"expected an object of arguments or its JSON text, got {type(value).__name__} {short_repr(value)}"
        raise InvalidDataError(message)
    return plain


def _case_insensitive(value: object) -> object:
    return value.lower() if isinstance(value, str) and not isinstance(value, Enum) else value


def _any_json(value: object) -> Any:  # noqa: ANN401 - a JSON value, whatever it is
    """Keep any value as a JSON value; the validator of one argument that pydantic wants."""
    return to_json_value(value)


AnyJson = Annotated[Any, PlainValidator(_any_json)]
"""Any value; kept as a JSON value (see `toolmark._internal.json`)."""

Arguments = Annotated[JsonObject | None, PlainValidator(_arguments)]
"""Arguments of a call; `None` reads as `{}` wherever they are compared."""


class Execution(Model):
    """What is known of how a recorded call went. An expected call has none."""

    status: CallStatus = CallStatus.OK
    executed: bool = False
    """The tool itself was seen to run. A recording that has only messages cannot see it."""
    error: str | None = None
    """`"TypeName: text"`, or the text alone where no exception was seen."""
    attempts: Annotated[int, Field(ge=0)] = 1
    """How often the tool was seen to run for this one request; 1 where it was not seen."""
    requested_parameters: AnyJson = None
    """What the model asked for, where that differs from `input_parameters`; raw text where it was no JSON object."""
    model_output: AnyJson = None
    """What the model was shown, where that differs from the call's `output`."""
    artifact: AnyJson = None
    """What the tool returned beside its output, not shown to the model."""
    agent: str | None = None
    server: str | None = None
    """Name of the MCP server, or of the namespace or set of tools, that the tool belongs to."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Counts from 0 the model messages that asked for calls, within their scope; equal steps were asked in parallel."""
    origin: CallOrigin = CallOrigin.MODEL
    started_at: datetime | None = None
    duration: Annotated[float, Field(ge=0)] | None = None
    """Seconds."""
    children: list[ToolCall] = Field(default_factory=list)
    """Calls made inside this one, by the tool or by a sub-agent."""
    not_captured: list[str] = Field(default_factory=list)
    """Names of the call's fields that the recording did not keep; they are left out of every comparison."""
    source: str | None = None
    """Where the call was read from, e.g. a file and line or a span id."""


class ToolCall(Model):
    """A call of a tool, made or expected.

    In an *expected* call a field that was never set is not specified and matches anything. `input_parameters=None`
    equals `{}`, `type=None` is unset, an explicit `output=None` is a value. In a *called* one, unset or `None`
    arguments read as `{}`, and an unset output as `None`.

    Values become JSON values once, at construction (`toolmark._internal.json.to_json_value` says how). JSON accepts
    `input_parameters`, `inputParameters`, `args` and `arguments`, as an object or as the JSON text of one.

    Two calls are the same call when they stand at the same place of the same list, never because they are equal.
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
    execution: Execution | None = None

    def __hash__(self) -> int:
        """Hash by name: equal calls have equal names, and arguments may hold lists."""
        return hash(self.name)

    @property
    def arguments(self) -> JsonObject:
        """The arguments, `{}` where none were given."""
        return self.input_parameters or {}

    def captured(self, field: str) -> bool:
        """Return whether the recording kept this field; true of every call without an `execution`."""
        return self.execution is None or field not in self.execution.not_captured


class ToolSpec(Model):
    """A tool that an agent could call."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    input_schema: Arguments = Field(
        default=None,
        validation_alias=AliasChoices("input_schema", "inputSchema", "parameters"),
    )
    """JSON Schema of the arguments."""
    type: Annotated[ToolCallType | None, BeforeValidator(_case_insensitive)] = None
    effect: Annotated[ToolEffect | None, BeforeValidator(_case_insensitive)] = None
    """Whether its calls change something; `None` where nobody says."""


def read_tool_spec(value: object) -> ToolSpec:
    """Return a tool described in any of the usual forms.

    Args:
        value: A `ToolSpec`, a `ToolCall`, or an object in the form of OpenAI (`{"type": "function", "function": {...}}`
            or flat with `parameters`), Anthropic (`input_schema`), MCP (`inputSchema`), or
            `{name, description, parameters}`; or an object with such attributes, a schema among them, as
            `mcp.types.Tool` is one. Keys that say nothing about the call itself are left out. The `readOnlyHint` of
            MCP's `annotations` is read as the `effect`, unless the tool states one: true as `read`, false as `write`.

    Raises:
        InvalidDataError: It is none of these.
    """
    if isinstance(value, ToolSpec):
        return value
    if isinstance(value, ToolCall):
        known = {name: getattr(value, name) for name in ("description", "type") if getattr(value, name) is not None}
        return ToolSpec(name=value.name, **known)
    fields = value if isinstance(value, Mapping) else _attributes(value)
    if fields is not None:
        return _spec_from_mapping(fields)
    message = (
        f"an available tool is a ToolSpec, a ToolCall or an object with a name, got {type(value).__name__} "
        f"{short_repr(value)}"
    )
    raise InvalidDataError(message)


_SPEC_KEYS = ("name", "description", "input_schema", "inputSchema", "parameters", "effect")
_SCHEMA_KEYS = ("input_schema", "inputSchema", "parameters")
_READ_ONLY = ("readOnlyHint", "read_only_hint")


def _spec_from_mapping(value: Mapping[str, Any]) -> ToolSpec:
    function = value.get("function")
    body = function if isinstance(function, Mapping) else value
    fields = {key: body[key] for key in _SPEC_KEYS if body.get(key) is not None}
    given = value.get("type")
    kind = str(given.value if isinstance(given, Enum) else given or "").lower()
    if kind in {member.value for member in ToolCallType}:
        fields["type"] = kind
    elif kind and "name" not in fields:  # a provider's own tool, e.g. {"type": "web_search"}
        fields["name"], fields["type"] = kind, ToolCallType.HOSTED
    read_only = _read_only(value.get("annotations"))
    if read_only is not None:
        fields.setdefault("effect", ToolEffect.READ if read_only else ToolEffect.WRITE)
    return ToolSpec.model_validate(fields)


def _attributes(value: object) -> dict[str, Any] | None:
    """Return what an object says of a tool; `None` of one without a name or a schema."""
    if isinstance(value, (Model, type)) or not isinstance(getattr(value, "name", None), str):
        return None
    if not any(isinstance(getattr(value, key, None), Mapping) for key in _SCHEMA_KEYS):
        return None
    return {key: getattr(value, key, None) for key in (*_SPEC_KEYS, "annotations")}


def _read_only(annotations: object) -> bool | None:
    """Return MCP's hint whether a tool only reads; `None` where it says nothing, or nothing that is a truth value."""
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
    "AnyJson",
    "Arguments",
    "AvailableTools",
    "CallOrigin",
    "CallStatus",
    "Execution",
    "ToolCall",
    "ToolCallParams",
    "ToolCallType",
    "ToolEffect",
    "ToolSpec",
    "read_tool_spec",
    "snake_or_camel",
]
