"""What code decides about a call: its tool, and its arguments against the tool's JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from judging import RuleJudge
from toolgrade import CallStatus, Execution, LLMTestCase, ToolCall, ToolCorrectnessMetric, ToolSpec
from toolgrade.expect.json_schema import Schemas, Validation
from toolgrade.redact import REDACTED

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def checked(schema: dict[str, Any] | None, arguments: dict[str, Any] | None, **fields: Any) -> Validation:
    """The result of validating the arguments of one call."""
    spec = ToolSpec(name="a", **({} if schema is None else {"input_schema": schema}))
    return Schemas([spec]).check(ToolCall(name="a", input_parameters=arguments, **fields))


@pytest.mark.parametrize(
    ("schema", "arguments", "fit"),
    [
        pytest.param(CITY, {"city": "Oslo"}, "valid", id="valid: a judge is asked"),
        pytest.param(None, {"city": 3}, "no_schema", id="no schema"),
        pytest.param({}, {"city": 3}, "valid", id="a schema that allows anything"),
        pytest.param(
            {"properties": {"x": {"prefixItems": [{"type": "string"}]}}},
            {"x": [1]},
            "invalid",
            id="draft 2020-12 by default",
        ),
        pytest.param(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"x": {"items": [{"type": "string"}]}},
            },
            {"x": [1]},
            "invalid",
            id="draft-07",
        ),
        pytest.param(
            {"$defs": {"c": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/c"}}},
            {"x": 1},
            "invalid",
            id="a reference within the schema",
        ),
    ],
)
def test_arguments_against_a_schema(schema: dict[str, Any] | None, arguments: dict[str, Any], fit: str) -> None:
    """Arguments that do not fit are wrong; those that fit are for a judge."""
    actual = checked(schema, arguments)

    assert (actual.fit, actual.note) == (fit, None)
    assert bool(actual.violations) == (fit == "invalid")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        pytest.param({"$ref": "https://example.com/schema.json"}, "cannot be used", id="a remote reference"),
        pytest.param(
            {"properties": {"city": {"$ref": "http://127.0.0.1:9/x"}}}, "cannot be used", id="a local address"
        ),
        pytest.param({"$ref": "file:///etc/passwd"}, "cannot be used", id="a file"),
        pytest.param({"$ref": "#/nowhere"}, "cannot be used", id="a reference that leads nowhere"),
        pytest.param({"type": "strng"}, "is invalid", id="no schema"),
        pytest.param({"properties": {"city": {"pattern": "("}}}, "", id="a pattern that is none"),
    ],
)
def test_a_schema_that_cannot_be_used_decides_nothing(schema: dict[str, Any], message: str) -> None:
    """Nothing is fetched, the judge is called, and the result reports the schema."""
    actual = checked(schema, {"city": "Oslo"})

    assert actual.fit == "unusable"
    assert message in str(actual.note)


def test_uncaptured_arguments_are_not_wrong() -> None:
    """They are unknown; hidden ones are left to the judge."""
    assert checked(CITY, None, execution=Execution(not_captured=["input_parameters"])).fit == "not_captured"
    assert checked(CITY, {"city": REDACTED, "n": 1}).fit == "redacted"
    assert checked({"properties": {"city": {"enum": ["Oslo"]}}}, {"city": REDACTED}).fit == "redacted"


def test_argument_text_that_is_not_an_object_is_wrong() -> None:
    """Without validation against the schema; the text is not repeated."""
    actual = checked(None, None, execution=Execution(status="invalid_arguments", requested_parameters="{oops secret"))

    assert actual.fit == "invalid"
    assert "secret" not in str(actual)


def test_of_two_tools_with_one_name_a_call_must_fit_one() -> None:
    """Where a name stands twice, code finds only what fits neither."""
    tools = [ToolSpec(name="a", input_schema=CITY), ToolSpec(name="a", input_schema={"required": ["n"]})]
    checks = Schemas(tools)

    assert checks.check(ToolCall(name="a", input_parameters={"n": 1})).fit == "valid"
    assert checks.check(ToolCall(name="a", input_parameters={"x": 1})).fit == "invalid"


def test_violations_do_not_repeat_values() -> None:
    """A finding says where and which rule, not the value, which may be long or a secret."""
    actual = checked({"properties": {"pin": {"type": "string"}, "n": {"maximum": 1}}}, {"pin": 123456, "n": 7})

    assert [violation.path for violation in actual.violations] == ["$.input_parameters.n", "$.input_parameters.pin"]
    assert "123456" not in str(actual)


def test_code_decisions_need_no_question() -> None:
    """An unknown tool is a no without a question."""
    judge = RuleJudge("yes")
    case = LLMTestCase(input="?", tools_called=[ToolCall(name="b"), ToolCall(name="a")], expected_tools=[])
    result = ToolCorrectnessMetric(available_tools=[{"name": "a"}], judge=judge).measure(case)

    assert judge.criteria == ["missing_calls", "tool_selection"]
    assert result.parts["selection"] == 0.5
    assert [finding.kind for finding in result.findings if finding.kind == "unknown_tool"] == ["unknown_tool"]


@pytest.mark.parametrize("kind", ["hosted", "mcp"])
def test_hosted_tools_have_their_own_names(kind: str) -> None:
    """A hosted call is not one of an unknown tool, unless the recording says so."""
    checks = Schemas([ToolSpec(name="weather")])
    ran = ToolCall(name="web_search", type=kind, input_parameters={"q": "x"})  # type: ignore[arg-type]
    unknown = ran.model_copy(update={"execution": Execution(status=CallStatus.UNKNOWN_TOOL)})

    assert checks.offers(ran)
    assert checks.check(ran).fit == "provided"
    assert not checks.offers(unknown)
    assert not checks.offers(ToolCall(name="web_search"))
