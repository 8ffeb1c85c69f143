"""With the tool's schema, `null` of an optional argument, its default and its absence are the same call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import LLMTestCase, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Absent, AnyOf, Approx, Expect, Not, Optional, Plan, Present, Unordered

TEXT, NULLABLE = {"type": "string"}, {"type": ["string", "null"]}
METRICS: list[Any] = [
    TaskSuccessMetric(),
    TaskSuccessMetric(calls_only=True),
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], compare="meaning", threshold=1),
]


def tool(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    """A tool with these arguments."""
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"name": "book_seat", "parameters": schema}


def case_of(expected_tools: Any, tools_called: Any, available_tools: Any) -> LLMTestCase:
    """A case of these fields."""
    return LLMTestCase(expected_tools=expected_tools, tools_called=tools_called, available_tools=available_tools)


def scores(
    expected: Any, called: dict[str, Any], spec: dict[str, Any] | None, *, plan: bool = False
) -> set[float | None]:
    """The scores that the metrics have for one call."""
    call = Expect("book_seat", expected) if plan else ToolCall(name="book_seat", input_parameters=expected)
    case = case_of(
        expected_tools=Plan([call]) if plan else [call],
        tools_called=[ToolCall(name="book_seat", input_parameters=called)],
        available_tools=None if spec is None else [spec],
    )
    return {metric.measure(case).score for metric in METRICS}


BAGS: dict[str, Any] = {"type": "integer", "default": 0}
BY_REFERENCE = tool(options={"$ref": "#/$defs/Options"})
BY_REFERENCE["parameters"]["$defs"] = {"Options": {"properties": {"bags": BAGS, "meal": NULLABLE}}}
IN_LIST = tool(seats={"type": "array", "items": {"properties": {"bags": BAGS}}})
STRICT = tool(["seat", "meal"], seat=TEXT, meal={"anyOf": [TEXT, {"type": "null"}]})

SAME: dict[str, Any] = {
    "absent and null": ({"seat": "1"}, {"seat": "1", "meal": None}, tool(meal=NULLABLE)),
    "null where the schema has none": ({}, {"meal": None}, tool(meal=TEXT)),
    "absent and the default": ({}, {"bags": 0}, tool(bags=BAGS)),
    "the default in another spelling": ({}, {"bags": "0"}, tool(bags=BAGS)),
    "null and the default": ({"bags": None}, {"bags": 0}, tool(bags=BAGS)),
    "default and absent": ({"bags": 0}, {}, tool(bags=BAGS)),
    "required, but with a default": ({}, {"bags": 0}, tool(["bags"], bags=BAGS)),
    "strict: required, and may be null": ({"seat": "1"}, {"seat": "1", "meal": None}, STRICT),
    "nested": ({"o": {"a": 1}}, {"o": {"a": 1, "b": None}}, tool(o={"properties": {"b": TEXT}})),
    "by reference": ({"options": {}}, {"options": {"bags": 0, "meal": None}}, BY_REFERENCE),
    "in a list": ({"seats": [{"id": 1}]}, {"seats": [{"id": 1, "bags": 0}]}, IN_LIST),
    "a list as default": ({}, {"tags": []}, tool(tags={"type": "array", "default": []})),
    "an object as default": ({}, {"o": {"a": 1}}, tool(o={"default": {"a": 1}})),
}
DIFFERENT: dict[str, Any] = {
    "another value": ({}, {"bags": 1}, tool(bags=BAGS)),
    "another value than null": ({"meal": None}, {"meal": "vegan"}, tool(meal=NULLABLE)),
    "absent instead of a value": ({"meal": "vegan"}, {}, tool(meal=NULLABLE)),
    "null instead of a value": ({"meal": "vegan"}, {"meal": None}, tool(meal=NULLABLE)),
    "a required argument": ({"seat": "1"}, {"seat": None}, tool(["seat"], seat=TEXT)),
    "required and absent": ({"seat": None}, {}, tool(["seat"], seat=TEXT)),
    "null is a value beside another default": ({}, {"n": None}, tool(n={"type": ["integer", "null"], "default": 9})),
    "an unknown argument": ({}, {"wifi": None}, tool(bags=BAGS)),
    "the default of another key": ({}, {"bags": 0}, tool(meal=NULLABLE)),
    "false is no number": ({}, {"bags": False}, tool(bags=BAGS)),
    "no schema": ({"seat": "1"}, {"seat": "1", "meal": None}, None),
    "one of two kinds of object": ({}, {"o": None, "b": 0}, tool(["o"], o={"oneOf": [TEXT, {"properties": {}}]})),
}


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_same_call(name: str, plan: bool) -> None:
    """Whichever of the two is expected."""
    expected, called, spec = SAME[name]

    assert scores(expected, called, spec, plan=plan) == {1.0}
    assert scores(called, expected, spec, plan=plan) == {1.0}


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("name", DIFFERENT)
def test_another_call(name: str, plan: bool) -> None:
    """No wrong green."""
    assert all(score is not None and score < 1 for score in scores(*DIFFERENT[name], plan=plan))


MATCHERS: dict[str, Any] = {
    "optional, null": (Optional("vegan"), {"meal": None}, True),
    "absent, null": (Absent(), {"meal": None}, True),
    "absent, a value": (Absent(), {"meal": "vegan"}, False),
    "present, null": (Present(), {"meal": None}, True),
    "present, absent": (Present(), {}, False),
    "any of, absent": (AnyOf(None, "vegan"), {}, True),
    "not, absent": (Not(None), {}, False),
    "not, null": (Not(None), {"meal": None}, False),
    "not another, absent": (Not("vegan"), {}, True),
    "any of, null": (AnyOf("kosher", "vegan"), {"meal": None}, False),
    "a matcher inside of an object, absent": ({"with": [Unordered([1])]}, {}, False),
}


@pytest.mark.parametrize("name", MATCHERS)
def test_matchers(name: str) -> None:
    """A matcher accepts an omission if it accepts what means the same; `Present` and `Absent` look at the call."""
    matcher, called, fits = MATCHERS[name]

    assert (scores({"meal": matcher}, called, tool(meal=NULLABLE), plan=True) == {1.0}) is fits


def test_a_matcher_of_a_number_reads_the_default_of_a_missing_argument() -> None:
    """The tool takes the default."""
    assert scores({"bags": Approx(0, abs=0.1)}, {}, tool(bags=BAGS), plan=True) == {1.0}


@pytest.mark.parametrize("called", [{}, {"a": "x"}, {"a": None}])
def test_a_matcher_that_excludes_the_default_excludes_it(called: dict[str, Any]) -> None:
    """Also where the argument is missing, as the tool then takes it; `null` is passed on as it is."""
    spec = tool(a={"type": "string", "default": "x"})
    expected = {"a": Not(AnyOf("x", None))}
    assert all(score is not None and score < 1 for score in scores(expected, called, spec, plan=True))
    assert scores({"a": AnyOf(None, "y")}, {"a": "x"}, spec, plan=True) != {1.0}


def test_a_plan_that_allows_further_arguments_allows_all_values_of_them() -> None:
    """Also of those in the schema."""
    case = case_of(
        expected_tools=Plan([Expect("book_seat", {"seat": "1"}, extra_arguments=True)]),
        tools_called=[{"name": "book_seat", "args": {"seat": "1", "bags": 7}}],
        available_tools=[tool(bags=BAGS)],
    )
    assert {metric.measure(case).score for metric in METRICS} == {1.0}


def test_findings_say_what_counted_as_equal_and_what_was_extra() -> None:
    """As for other values."""
    case = case_of(
        expected_tools=[{"name": "book_seat", "args": {}}],
        tools_called=[{"name": "book_seat", "args": {"bags": 2, "meal": None}}],
        available_tools=[tool(bags=BAGS, meal=NULLABLE)],
    )

    findings = TaskSuccessMetric().measure(case).findings

    assert [(finding.kind, finding.path) for finding in findings] == [
        ("extra_argument", "$.input_parameters.bags"),
        ("equal_by_meaning", "$.input_parameters.meal"),
    ]
    assert findings[1].message.endswith("$.input_parameters.meal expected nothing, called with null: equal by meaning.")
    assert findings[1].to_dict()["expected_value"] == {"$is": "absent"}


VALUES: st.SearchStrategy[Any] = st.sampled_from([0, 1, "x", "", None, [], {"a": 1}, True])


@given(st.data())
def test_only_omitted_arguments_do_not_count(data: st.DataObject) -> None:
    """The oracle: two calls are the same if they are after each argument that is null or its default is removed."""
    names = ["a", "b", "c"]
    defaults = data.draw(st.dictionaries(st.sampled_from(names), VALUES.filter(lambda value: value is not None)))
    spec = tool([], **{name: {"default": defaults[name]} if name in defaults else {} for name in names})
    expected, called = (data.draw(st.dictionaries(st.sampled_from(names), VALUES)) for _ in range(2))

    def rest(arguments: dict[str, Any]) -> list[tuple[str, str]]:
        left = {name: value for name, value in arguments.items() if value is not None}
        return sorted((name, repr(value)) for name, value in left.items() if repr(value) != repr(defaults.get(name)))

    assert (scores(expected, called, spec) == {1.0}) is (rest(expected) == rest(called))


def test_a_schema_of_any_form_breaks_nothing() -> None:
    """Schemas come from strangers."""
    loop = {"$ref": "#/properties/a"}
    parts: list[Any] = [loop, {"$ref": 3}, {"$ref": "#/x/y"}, {"anyOf": 1}, {"type": {}}, [], "x", {"default": {}}]
    for part in parts:
        assert scores({"b": 1}, {"b": 1}, tool(a=part)) == {1.0}
    schemas: list[Any] = [{"properties": []}, {"properties": {"a": 1}, "required": 7}, {"allOf": [1, {"items": 2}]}]
    for schema in schemas:
        assert scores({"b": [{}]}, {"b": [{}]}, {"name": "book_seat", "parameters": schema}) == {1.0}


@given(st.data())
def test_all_spellings_of_a_call_have_one_score(data: st.DataObject) -> None:
    """Also where the calls differ in other arguments."""
    spec = tool(["seat"], seat=TEXT, bags=BAGS, meal=NULLABLE, tags={"default": []})
    spellings: list[tuple[str, list[Any]]] = [("bags", [0, None]), ("meal", [None]), ("tags", [[], None])]

    def spelling(arguments: dict[str, Any]) -> dict[str, Any]:
        extra = {name: data.draw(st.sampled_from(values)) for name, values in spellings if data.draw(st.booleans())}
        return {**extra, **arguments}

    calls = st.fixed_dictionaries({"seat": st.sampled_from("12")}, optional={"bags": st.just(1), "meal": st.just("v")})
    expected, called = data.draw(calls), data.draw(calls)

    assert scores(spelling(expected), spelling(called), spec) == scores(expected, called, spec)
