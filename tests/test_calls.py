"""Calls: what they accept, what they keep, how they are written, and what they refuse."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import fields_set
from strategies import call_fields, calls
from toolgrade import CallStatus, Execution, InvalidDataError, LLMTestCase, ToolCall, ToolCallType, ToolSpec
from toolgrade._internal.json import to_json_value
from toolgrade._internal.model import set_fields
from toolgrade.calls import ToolEffect, read_tool_spec
from toolgrade.expect import AnyOf, Approx


def deep(levels: int, key: str | None = None) -> Any:
    """Return a value with this many levels."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


# JSON in and out


@given(call=calls)
def test_a_call_of_valid_values_is_the_call(call: ToolCall) -> None:
    """Values that a reader has validated give the same call without a second validation."""
    twin = ToolCall.from_valid(set_fields(call))
    assert twin == call
    assert (repr(twin), twin.to_dict()) == (repr(call), call.to_dict())
    assert fields_set(twin) == fields_set(call)
    assert pickle.loads(pickle.dumps(twin)) == call  # noqa: S301 - our own bytes


@given(call=calls)
def test_json_gives_back_the_call(call: ToolCall) -> None:
    """`from_json` reads what `to_json` wrote as an equal call with the same fields set."""
    for text in (call.to_json(), call.to_json(indent=2), call.to_json().encode()):
        back = ToolCall.from_json(text)
        assert back == call
        assert fields_set(back) == fields_set(call)
        assert back.to_json() == call.to_json()


@given(fields=call_fields())
def test_only_set_fields_are_written(fields: dict[str, Any]) -> None:
    """Including those set to None, also by pydantic's dumps, which are read back."""
    call = ToolCall(**fields)
    assert call.to_dict().keys() == json.loads(call.model_dump_json()).keys() == fields.keys()
    assert ToolCall.model_validate(call.model_dump()) == call
    assert ToolCall.model_validate_json(call.model_dump_json()) == call


@pytest.mark.parametrize("form", [{"q": 1}, '{"q": 1}'], ids=["object", "JSON text"])
@pytest.mark.parametrize("name", ["input_parameters", "inputParameters", "args", "arguments"])
def test_every_name_and_form_of_the_arguments(name: str, form: object) -> None:
    """Arguments are read under four names, as an object or as the JSON text of one, in JSON and in Python."""
    expected = ToolCall(name="search", input_parameters={"q": 1})
    assert ToolCall.model_validate({"name": "search", name: form}) == expected
    assert ToolCall.from_json(json.dumps({"name": "search", name: form})) == expected
    assert ToolCall(**{"name": "search", name: form}).model_fields_set == {"name", "input_parameters"}  # type: ignore[arg-type]


# Unset, None and null


@pytest.mark.parametrize("field", ["type", "description", "input_parameters", "output", "id", "execution"])
def test_null_is_set_and_unset_is_not(field: str) -> None:
    """A field given as null is set, and stays null when written; one that was never given is not written."""
    assert ToolCall(name="a").to_dict() == {"name": "a"}
    call = ToolCall.from_json(f'{{"name": "a", "{field}": null}}')
    assert call.model_fields_set == {"name", field}
    assert call.to_dict() == {"name": "a", field: None}


@pytest.mark.parametrize("given_arguments", [{}, {"input_parameters": None}, {"input_parameters": {}}])
def test_no_arguments_read_as_an_empty_object(given_arguments: dict[str, Any]) -> None:
    """Unset, None and {} all read as {} through `arguments`."""
    assert ToolCall(name="a", **given_arguments).arguments == {}


@pytest.mark.parametrize("field", ["input_parameters", "output", "type"])
def test_uncaptured_fields(field: str) -> None:
    """A field is captured unless the execution names it; without an execution all fields are."""
    assert ToolCall(name="a").captured(field)
    assert ToolCall(name="a", execution=Execution()).captured(field)
    call = ToolCall(name="a", execution=Execution(not_captured=[field]))
    assert [name for name in ("input_parameters", "output", "type") if not call.captured(name)] == [field]


# A call is a value


def test_calls_are_frozen_and_hashable() -> None:
    """A call cannot be changed, equal calls hash alike, and calls can be kept in sets."""
    call = ToolCall(name="a", input_parameters={"x": [1]})
    with pytest.raises(Exception, match="frozen"):
        call.name = "b"  # type: ignore[misc]
    assert len({call, ToolCall(name="a", args={"x": [1]}), ToolCall(name="a")}) == 2  # type: ignore[call-arg]


@pytest.mark.parametrize("key", [None, "k"], ids=["lists", "objects"])
def test_200_levels_work_everywhere(key: str | None) -> None:
    """A value of 200 levels can be kept in every field, compared, copied, shown, written and read, also in children."""
    value = deep(200, key)
    execution = Execution(requested_parameters=value, model_output=value, artifact=value)
    child = ToolCall(name="inner", input_parameters={"k": deep(199, key)}, output=value, execution=execution)
    call = ToolCall(name="outer", output=value, execution=Execution(children=[child]))
    assert ToolCall.from_json(call.to_json()) == call
    assert ToolCall.model_validate_json(call.model_dump_json()) == call
    assert copy.deepcopy(call) == pickle.loads(pickle.dumps(call)) == call  # noqa: S301 - our own bytes
    assert "inner" in repr(call)


def test_201_levels_are_refused_with_the_name_of_the_field() -> None:
    """One level more than 200 is an error that names the field, for arguments and outputs."""
    with pytest.raises(InvalidDataError, match=r"ToolCall: \$\.output: deeper than 200 levels"):
        ToolCall(name="a", output=deep(201))
    with pytest.raises(InvalidDataError, match=r"ToolCall: \$\.input_parameters: deeper than 200 levels"):
        ToolCall(name="a", input_parameters={"k": deep(200)})
    with pytest.raises(InvalidDataError, match="deeper than 200 levels"):
        ToolCall.from_json(json.dumps({"name": "a", "output": deep(201)}))


@pytest.mark.parametrize("levels", [80, 150])
def test_many_calls_inside_calls(levels: int) -> None:
    """A chain of sub-agents of any reasonable length can be written and read; a longer one is an error of ours."""
    call = ToolCall(name="innermost", input_parameters={"q": {"deep": [1]}})
    for _ in range(levels):
        call = ToolCall(name="agent", execution=Execution(children=[call]))
    try:
        text = call.to_json()
    except InvalidDataError:
        assert levels > 100
        return
    assert ToolCall.from_json(text) == call


# Errors


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        pytest.param({}, "$.name", "is required", id="no name"),
        pytest.param({"name": ""}, "$.name", "at least 1 character", id="empty name"),
        pytest.param({"name": 3}, "$.name", "expected a string, got 3", id="name that is no text"),
        pytest.param({"name": "a", "args": [1]}, "$.args", "expected an object of arguments", id="list of arguments"),
        pytest.param({"name": "a", "args": "[1]"}, "$.args", "expected an object of arguments", id="text of a list"),
        pytest.param({"name": "a", "args": "oops"}, "$.args", "not JSON", id="text that is no JSON"),
        pytest.param({"name": "a", "args": '{"x": NaN}'}, "$.args.x", "bare NaN", id="text with NaN"),
        pytest.param({"name": "a", "type": "web"}, "$.type", "'function', 'mcp', 'hosted' or 'custom'", id="type"),
        pytest.param({"name": "a", "inputs": {}}, "$.inputs", "unknown field 'inputs'", id="unknown field"),
        pytest.param({"name": "a", "outputs": {}}, "$.outputs", "did you mean 'output'?", id="nearly a field"),
        pytest.param({"name": "a", "args": {}, "arguments": {}}, "$.arguments", "repeats", id="two names of one field"),
        pytest.param(
            {"name": "a", "execution": {"attempts": -1}}, "$.execution.attempts", "got -1", id="negative attempts"
        ),
        pytest.param(
            {"name": "a", "execution": {"children": [{}]}},
            "$.execution.children[0].name",
            "is required",
            id="in a child",
        ),
    ],
)
def test_invalid_calls_are_refused(fields: dict[str, Any], path: str, message: str) -> None:
    """With JSON path, actual value, and accepted values."""
    for read in (lambda: ToolCall.model_validate(fields), lambda: ToolCall.from_json(json.dumps(fields))):
        with pytest.raises(InvalidDataError) as caught:
            read()
        assert [problem.path for problem in caught.value.problems] == [path]
        assert message in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    """Each with its path."""
    with pytest.raises(InvalidDataError) as caught:
        ToolCall.model_validate({"name": 1, "type": "x", "execution": {"step": -1, "status": "fine"}})
    paths = ["$.name", "$.type", "$.execution.status", "$.execution.step"]
    assert [problem.path for problem in caught.value.problems] == paths


def test_errors_are_short_and_never_fail_themselves() -> None:
    """A message shows a wrong value in part, however large, deep or strange it is."""
    for value in ("x" * 10**6, deep(5000), 10**5000):
        with pytest.raises(InvalidDataError) as caught:
            ToolCall(name="a", input_parameters=value)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 400
        with pytest.raises(InvalidDataError) as caught:
            ToolCall(name=value if not isinstance(value, str) else "", description=3)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 400


# Enumerations and times


@pytest.mark.parametrize("value", ["mcp", "MCP", "Mcp", ToolCallType.MCP])
def test_types_are_read_in_any_case(value: Any) -> None:
    """A type is read in upper and lower case, and written in lower case."""
    assert ToolCall(name="a", type=value).type is ToolCallType.MCP
    assert ToolCall(name="a", type=value).to_dict()["type"] == "mcp"


@given(status=st.sampled_from(CallStatus), moment=st.datetimes().map(lambda moment: moment.replace(fold=0)))
def test_executions_round_trip(status: CallStatus, moment: datetime.datetime) -> None:
    """Status and time are read back to the microsecond, with or without a time zone."""
    for started_at in (moment, moment.replace(tzinfo=datetime.timezone.utc)):
        execution = Execution(status=status, started_at=started_at, duration=0.1)
        assert Execution.from_json(execution.to_json()) == execution


# Tools


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(ToolSpec(name="f", description="d", input_schema={"type": "object"}), id="ToolSpec"),
        pytest.param(
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
            id="OpenAI, nested",
        ),
        pytest.param(
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
            id="OpenAI, flat",
        ),
        pytest.param({"name": "f", "description": "d", "input_schema": {"type": "object"}}, id="Anthropic"),
        pytest.param({"name": "f", "description": "d", "inputSchema": {"type": "object"}, "title": "F"}, id="MCP"),
        pytest.param({"name": "f", "description": "d", "parameters": {"type": "object"}}, id="plain"),
    ],
)
def test_every_form_of_a_tool(form: object) -> None:
    """Tools are read in the forms of OpenAI, Anthropic and MCP, as plain objects, and as `ToolSpec`."""
    spec = read_tool_spec(form)
    assert (spec.name, spec.description, spec.input_schema) == ("f", "d", {"type": "object"})


def test_a_call_describes_a_tool() -> None:
    """A call as an available tool provides name, description and type; its arguments are not a schema."""
    call = ToolCall(name="f", description="d", type=ToolCallType.MCP, input_parameters={"x": 1})
    assert read_tool_spec(call) == ToolSpec(name="f", description="d", type=ToolCallType.MCP)


@pytest.mark.parametrize("kind", ["mcp", "MCP", ToolCallType.MCP])
def test_type_of_a_tool_is_read(kind: object) -> None:
    """As text in any case, and as an enum value."""
    assert read_tool_spec({"name": "f", "type": kind}).type is ToolCallType.MCP


def test_a_providers_own_tool_is_hosted() -> None:
    """A tool that has only a type is one that the provider runs."""
    assert read_tool_spec({"type": "web_search"}) == ToolSpec(name="web_search", type=ToolCallType.HOSTED)


class Hints(NamedTuple):
    """Annotations as an object, in the names of one version of a package or of another."""

    readOnlyHint: bool | None = None  # noqa: N815 - the standard's spelling
    read_only_hint: bool | None = None


class Described(NamedTuple):
    """A tool as an object."""

    name: str
    inputSchema: dict[str, object]  # noqa: N815 - as above
    annotations: Hints | dict[str, object] | None = None
    description: str | None = None


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        ({"readOnlyHint": True}, ToolEffect.READ),
        ({"readOnlyHint": False, "destructiveHint": False}, ToolEffect.WRITE),
        ({"destructiveHint": True}, None),
        ({"readOnlyHint": None}, None),
        ({"readOnlyHint": "yes"}, None),
        (None, None),
        (Hints(readOnlyHint=True), ToolEffect.READ),
        (Hints(read_only_hint=False), ToolEffect.WRITE),
        (Hints(), None),
    ],
)
def test_the_read_only_hint_of_mcp_is_the_effect(annotations: Any, effect: ToolEffect | None) -> None:
    """True is read, false is write, and a missing or invalid hint is unknown."""
    plain = {"name": "f", "inputSchema": {}, "annotations": annotations}

    assert read_tool_spec(plain).effect is effect
    assert read_tool_spec(Described("f", {}, annotations)) == read_tool_spec(plain)


def test_a_stated_effect_wins_over_the_hint() -> None:
    """The effect is read in any case and overrides a hint; an unknown effect is refused."""
    spec = read_tool_spec({"name": "f", "effect": "Write", "annotations": {"readOnlyHint": True}})

    assert spec.effect is ToolEffect.WRITE
    assert ToolSpec.from_json(spec.to_json()) == spec
    with pytest.raises(InvalidDataError, match=r"\$\.effect"):
        read_tool_spec({"name": "f", "effect": "perhaps"})


def test_the_tools_of_a_server_are_read_as_its_package_gives_them() -> None:
    """`mcp.types.Tool` is read with its schema and its hint."""
    types = pytest.importorskip("mcp.types")
    schema = {"type": "object", "properties": {}}
    tool = types.Tool(name="f", description="d", inputSchema=schema, annotations={"readOnlyHint": True})

    assert read_tool_spec(tool) == ToolSpec(name="f", description="d", input_schema=schema, effect="read")


@pytest.mark.parametrize(
    "form", [3, None, LLMTestCase(name="f"), Described, "search", {}, {"description": "d"}, {"name": ""}]
)
def test_invalid_tools_are_refused(form: object) -> None:
    """A value that does not describe a tool."""
    with pytest.raises(InvalidDataError):
        read_tool_spec(form)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"input_parameters": {"amount": Approx(100, abs=0.5)}}, "$.input_parameters.amount"),
        ({"args": {"rows": [{"to": (1, AnyOf(["a"]))}]}}, "$.args.rows[0].to[1]"),
        ({"output": Approx(2)}, "$.output"),
    ],
    ids=["argument", "nested", "output"],
)
def test_a_matcher_is_not_a_value_of_a_call(fields: dict[str, Any], path: str) -> None:
    """As a value it would equal nothing, so the error names the class that takes it."""
    with pytest.raises(InvalidDataError, match=r"is a matcher, and a ToolCall has values only; use .*Expect") as raised:
        ToolCall(name="pay", **fields)

    assert [problem.path for problem in raised.value.problems] == [path]


def test_recorders_store_a_matcher_as_an_object() -> None:
    """A recorder never raises into the agent, whatever it calls its tools with."""
    assert to_json_value({"amount": Approx(100)}, []) == {"amount": {"value": 100, "rel": None, "abs": None}}
