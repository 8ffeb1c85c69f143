"""Values from strangers: each check passes or fails them, whatever they are, and stays within its limits."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile import nested
from hostile_values import HOSTILE, KEYWORDS
from hostile_values import MATCHERS as HOSTILE_MATCHERS
from strategies import json_values
from toolgrade import ArgumentSchemaMetric, LLMTestCase, ToolCall, ToolCorrectnessMetric
from toolgrade._internal.budget import CaseBudget
from toolgrade.errors import ConfigurationError, InvalidDataError, LimitError
from toolgrade.expect import (
    AnyOf,
    Approx,
    Contains,
    DateEqual,
    Exact,
    Expect,
    Forbid,
    Glob,
    IgnoreCase,
    Matcher,
    Normalized,
    OneOf,
    Optional,
    Parallel,
    Plan,
    Present,
    Regex,
    Schema,
    Subset,
    Superset,
    Unordered,
    expectation_json,
    read_expectation,
)
from toolgrade.expect.json_schema import Validator, build_validator
from toolgrade.expect.matcher import MATCHERS

hostile_values = st.sampled_from(HOSTILE) | json_values()


@settings(max_examples=20)
@given(hostile_values, st.sampled_from(KEYWORDS), st.sampled_from(KEYWORDS))
def test_a_schema_decides_every_value(value: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    """Both keywords are valid or invalid for any value; no value makes the schema look broken."""
    with CaseBudget():
        assert isinstance(Schema({"allOf": [one, other]}).accepts(value), bool)


@pytest.mark.parametrize("schema", KEYWORDS, ids=json.dumps)
def test_each_keyword_decides_each_hostile_value(schema: dict[str, Any]) -> None:
    """As above, all of them."""
    for value in HOSTILE:
        with CaseBudget():
            assert Schema(schema).accepts(value) in (True, False)


@pytest.mark.parametrize("matcher", HOSTILE_MATCHERS, ids=Matcher.describe)
def test_each_matcher_decides_each_hostile_value(matcher: Matcher) -> None:
    """A matcher accepts a value or does not, and its credit says the same."""
    for value in HOSTILE:
        with CaseBudget():
            assert matcher.accepts(value) in (True, False)
            assert matcher.credit(value) in (None, (0, 1), (1, 1))


def test_every_matcher_is_tried() -> None:
    """A new matcher must be added to the list above; a predicate is the user's function."""
    assert {matcher.kind for matcher in HOSTILE_MATCHERS} == MATCHERS.keys() - {"predicate"}


@pytest.mark.parametrize(
    ("value", "limit", "fits"),
    [(1e400, 0.01, False), (float("nan"), 1, False), (10**400, 0.01, True), (19.99, 0.01, True), (0.35, 0.1, False)],
)
def test_a_number_cannot_take_its_call_out_of_the_score(value: float, limit: float, fits: bool) -> None:
    """Multiples are decided as the numbers are written; what is not a number of JSON is a multiple of nothing."""
    tool = {"name": "t", "parameters": {"properties": {"n": {"multipleOf": limit}}}}
    case = LLMTestCase(tools_called=[ToolCall(name="t", input_parameters={"n": value})], available_tools=[tool])
    assert ArgumentSchemaMetric().measure(case).score == fits


@given(json_values((None, True, 0, 1, 1.5, "a", "b"), max_leaves=5), st.data())
def test_verdicts_equal_those_of_jsonschema(value: Any, data: st.DataObject) -> None:
    """For values of JSON, the broken rules are those that jsonschema reports, at the same places."""
    parts = st.sampled_from([part for part in KEYWORDS if "multipleOf" not in part and "format" not in part])
    schema = {
        "allOf": data.draw(st.lists(parts, min_size=1, max_size=3)),
        **data.draw(parts),
        "properties": {"a": data.draw(parts)},
    }
    validator = build_validator(schema, formats=False)
    assert isinstance(validator, Validator)
    expected = {(tuple(error.absolute_path), error.validator) for error in _errors(schema, value)}
    assert {(broken.keys, broken.rule) for broken in validator.broken_rules(value)} == expected


def _errors(schema: dict[str, Any], value: Any) -> list[Any]:
    return list(jsonschema.Draft202012Validator(schema).iter_errors(value))


UNEVALUATED: list[tuple[dict[str, Any], Any, bool]] = [
    ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, True),
    ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1, "b": 1}, False),
    (
        {"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"a": True}}}, "unevaluatedProperties": False},
        {"a": 1},
        True,
    ),
    ({"prefixItems": [True], "unevaluatedItems": {"type": "string"}}, [1, "x"], True),
    ({"prefixItems": [True], "unevaluatedItems": {"type": "string"}}, [1, 2], False),
]


@pytest.mark.parametrize(("schema", "value", "fits"), UNEVALUATED)
def test_unevaluated_entries(schema: dict[str, Any], value: Any, fits: bool) -> None:
    """They are decided as jsonschema does, but not beside patterns, which it searches without a limit of time."""
    assert Schema(schema).accepts(value) is fits
    if "unevaluatedProperties" in schema:
        with pytest.raises(ConfigurationError, match="together with unevaluatedProperties is not supported"):
            Schema({**schema, "patternProperties": {"^(a|aa)+$": True}})


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"]
)
def test_a_draft_named_inside_changes_no_limits(draft: str) -> None:
    """The draft of the whole schema counts everywhere, also where a `$ref` leads back to it."""
    schema = {"$schema": draft, "properties": {"x": {"$schema": draft, "pattern": "^(a|aa)+$"}, "y": {"$ref": "#"}}}
    for value in ({"x": "a" * 60 + "b"}, {"y": {"x": "a" * 60 + "b"}}):
        with CaseBudget() as budget:
            budget.seconds = 0.1
            with pytest.raises(LimitError, match="2 s of one case"):
                Schema(schema).accepts(value)


def test_errors_hold_no_text_of_the_value() -> None:
    """The package jsonschema writes the value into each error; here a long one in 400 errors takes no memory."""
    schema = Schema({"allOf": [{"type": "integer"}, {"enum": ["y"]}, {"const": {"a": 1}}, {"not": {}}] * 100})
    tracemalloc.start()
    try:
        for value in ("x" * 1_000_000, ["x" * 1_000_000], 10**5_000):
            assert not schema.accepts(value)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """A schema of a kilobyte that is applied 2 ** levels times."""
    defs: dict[str, Any] = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    return {"$defs": {**defs, f"d{levels}": {}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_steps_of_a_schema_are_limited(keyword: str) -> None:
    """A schema that doubles with each reference reaches the limit; a shallow one does not."""
    with CaseBudget() as budget:
        assert budget.steps == 1_000_000
        budget.steps = 20_000  # all of them take seconds; the next test has them
        assert Schema(doubling("allOf", 8)).accepts({})
        with pytest.raises(LimitError, match="1,000,000 steps"):
            Schema(doubling(keyword, 40)).accepts({})


def test_the_limit_is_that_of_the_case() -> None:
    """Many calls that each take many steps reach it together."""
    tool = {"name": "t", "parameters": {"properties": {"x": {"items": {"type": "integer"}}}}}
    call = ToolCall(name="t", input_parameters={"x": [1] * 20_000})
    assert ArgumentSchemaMetric([tool]).measure(LLMTestCase(tools_called=[call])).score == 1
    with pytest.raises(LimitError):
        ArgumentSchemaMetric([tool]).measure(LLMTestCase(tools_called=[call] * 20))


@pytest.mark.parametrize("place", ["additionalProperties", "propertyNames"])
def test_patterns_have_the_time_of_the_case(place: str) -> None:
    """Also where names are searched."""
    slow = "^(a|aa)+$"
    schema = {"patternProperties": {slow: {}}, place: {"pattern": slow} if place == "propertyNames" else False}
    with CaseBudget() as budget:
        assert budget.seconds == 2
        budget.seconds = 0.1
        with pytest.raises(LimitError, match="2 s of one case"):
            Schema(schema).accepts({"a" * 60 + "b": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/missing"},
        {"$ref": "#/missing", "const": 10**5000},
        {"$ref": "http://x/"},
    ],
    ids=["itself", "itself in a list", "missing", "missing beside a long number", "elsewhere"],
)
def test_references_that_lead_nowhere_are_broken_schemas(schema: dict[str, Any]) -> None:
    """They are the schema's fault, whatever the value; a reference at a deeper value is not a circle."""
    case = LLMTestCase(tools_called=[ToolCall(name="t")], available_tools=[{"name": "t", "parameters": schema}])
    assert "cannot be used" in str(ArgumentSchemaMetric().measure(case).reason)
    assert Schema({"items": {"$ref": "#"}}).accepts(nested(60, in_objects=False))


def test_lists_are_paired_without_recursion() -> None:
    """Plain lists are counted; chains of alternatives are followed; too many comparisons are an error."""
    assert Superset(list(range(5_000))).accepts(list(range(6_000))[::-1])
    assert not Superset([1, 1]).accepts([1, 2])
    assert Unordered([AnyOf(number, number + 1) for number in range(200)]).accepts(list(range(1, 201)))
    assert not Unordered([AnyOf(number, number + 1) for number in range(200)]).accepts([0, 0, *range(1, 199)])
    with pytest.raises(LimitError, match="matcher of lists"):
        Superset([Present()] * 2_000).accepts([1] * 2_000)


def test_sizes_of_plans_are_limited() -> None:
    """A plan that requires too many calls is refused when it is read, also across its items."""
    for calls in ([Expect("a", times=(1_000_000, None))], [Expect("a", times=6_000), Expect("b", times=6_000)]):
        with pytest.raises(InvalidDataError, match="more than the limit of 10,000"):
            Plan(calls)
    choice = OneOf([Expect("a")] * 2, [Expect("b")] * 2)
    with pytest.raises(InvalidDataError, match="more than a billion combinations"):
        Plan([choice] * 2_000)
    assert Plan([Expect("a", times=9_000)])


def test_ways_of_an_ordered_group_are_limited() -> None:
    """Groups whose step is not known have many stretches; small ones are exact."""
    groups = [Parallel(*[ToolCall(name="a", input_parameters={"x": [i, j]}) for j in range(3)]) for i in range(40)]
    called = [ToolCall(name="a", input_parameters={"x": [39 - i // 3, i % 3]}) for i in range(120)]
    metric = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters"])
    with pytest.raises(LimitError, match="a plan with these calls"):
        metric.measure(LLMTestCase(tools_called=called, expected_tools=Plan(groups)))
    assert metric.measure(LLMTestCase(tools_called=called[:6], expected_tools=Plan(groups[38:]))).score == 0.5


def test_matchers_are_checked_when_they_are_made() -> None:
    """And describe themselves without a value."""
    for make in (lambda: Glob(3), lambda: Approx(1, rel=float("inf")), lambda: DateEqual(formats=[3])):  # type: ignore[arg-type, list-item]
        with pytest.raises(ConfigurationError):
            make()
    for kind in (Exact, Approx, Contains, IgnoreCase, Normalized, DateEqual, Optional, Unordered, Subset, Superset):
        assert "the value at its place" in kind().describe()


# The JSON form

marked = st.recursive(
    st.sampled_from([1, "x", None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["$is", "a"]), inner, max_size=2),
    max_leaves=5,
)
any_matcher = st.one_of(
    st.sampled_from([sample for sample in HOSTILE_MATCHERS if "nan" not in repr(sample)]),
    st.builds(Exact, marked),
    st.builds(IgnoreCase, marked),
    st.builds(Approx, marked),
    st.builds(Optional, marked),
    st.builds(lambda value: Contains([value]), marked),
    st.builds(lambda one, other: AnyOf(one, [other]), marked, marked),
    st.builds(lambda value: Schema({"const": value}), marked),
    st.builds(lambda value: Unordered([value, Present()]), marked),
)
marked_calls = st.builds(
    Expect,
    st.sampled_from(["a", Glob("a*"), Regex("a", ignore_case=True)]),
    st.dictionaries(st.sampled_from(["$is", "x"]), marked)
    | st.dictionaries(st.sampled_from("xy"), marked | any_matcher),
    output=marked | any_matcher,
    type=st.sampled_from([None, "mcp"]),
    times=st.sampled_from([None, 1, 2, (0, 3), (1, None)]),
    extra_arguments=st.booleans(),
    at=st.dictionaries(st.sampled_from(["x", '["a.b"]', "y[*].z"]), any_matcher | st.just(Approx(rel=0.1)), max_size=2),
)
marked_items = st.recursive(
    marked_calls | st.builds(Forbid, st.just("z"), st.dictionaries(st.just("x"), marked | any_matcher)),
    lambda inner: st.lists(st.lists(inner, max_size=2), min_size=1, max_size=2).map(lambda ways: OneOf(*ways)),
    max_leaves=3,
)


@given(st.lists(marked_items | st.builds(Parallel, marked_calls, label=st.just("p")), max_size=2), st.booleans())
def test_a_plan_is_read_as_it_was_written(items: list[Any], extra: bool) -> None:
    """Whatever it has, also objects that look like matchers, and in any of their places."""
    labels = [item.label for item in items if isinstance(item, Parallel)]
    if len(labels) > 1:
        items = items[:1]
    plan = Plan(items, allow_extra=extra, tools={"b*": {"x": IgnoreCase()}}, name="n")
    assert read_expectation(json.loads(json.dumps(expectation_json(plan)))) == plan
    case = LLMTestCase(expected_tools=plan)
    assert LLMTestCase.from_json(case.to_json()).expected_tools == plan


def test_matchers_cannot_be_inside_objects_that_look_like_matchers() -> None:
    """Such an expectation could not be written."""
    with pytest.raises(InvalidDataError, match="must not contain matchers; use another key"):
        Expect("a", {"x": {"$is": 1, "b": Present()}})
    with pytest.raises(InvalidDataError, match="the value of 'approx' must not contain matchers"):
        read_expectation([{"expect": "a", "args": {"x": {"$is": "approx", "value": {"$is": "present"}}}}])
