"""The JSON form of expectations: accepted input, and errors with paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from processes import assert_golden
from toolgrade import Golden, LLMTestCase, ToolCall, ToolCorrectnessMetric, case_from_record
from toolgrade._internal.text import shorten
from toolgrade.errors import InvalidDataError
from toolgrade.expect import (
    Alternatives,
    AnyOf,
    Approx,
    Expect,
    Forbid,
    Glob,
    Ignore,
    OneOf,
    Optional,
    Parallel,
    Plan,
    Predicate,
    Regex,
    expectation_json,
    read_expectation,
)
from toolgrade.expect.fields import is_list_of_calls
from toolgrade.expect.json_form import is_expectation

#: An expectation that uses everything, and its JSON form.
PLAN = Plan(
    [
        Expect(Glob("search_*"), label="searched", times=(1, None)),
        Parallel(ToolCall(name="user"), Expect("flights", {"day": Ignore()}), label="known", after=["searched"]),
        OneOf(
            Expect("book", {"price": Approx(100, rel=0.01), "seats": [AnyOf(1, 2)]}, extra_arguments=True),
            [ToolCall(name="hold", input_parameters={"x": {"$is": "ignore"}}), Expect("confirm", optional=True)],
            [],
            label="done",
            after=["known"],
        ),
        Expect("mail", {"to": "a"}, type="mcp", output=Regex("ok.*"), at={"to": Optional()}, after=["done"]),
        Forbid(Regex("delete_.*"), {"all": True}),
        Expect("log", None, times=2, turn=3),
    ],
    allow_extra=False,
    tools={"book": {"note": Ignore()}},
    name="by air",
)
FORM: dict[str, Any] = {
    "plan": [
        {"expect": {"$is": "glob", "pattern": "search_*"}, "times": [1, None], "label": "searched"},
        {
            "parallel": [{"name": "user"}, {"expect": "flights", "input_parameters": {"day": {"$is": "ignore"}}}],
            "label": "known",
            "after": ["searched"],
        },
        {
            "one_of": [
                {
                    "expect": "book",
                    "input_parameters": {
                        "price": {"$is": "approx", "value": 100, "rel": 0.01},
                        "seats": [{"$is": "any_of", "values": [1, 2]}],
                    },
                    "extra_arguments": True,
                },
                [
                    {"name": "hold", "input_parameters": {"x": {"$is": "ignore"}}},
                    {"expect": "confirm", "optional": True},
                ],
                [],
            ],
            "label": "done",
            "after": ["known"],
        },
        {
            "expect": "mail",
            "input_parameters": {"to": "a"},
            "output": {"$is": "regex", "pattern": "ok.*"},
            "type": "mcp",
            "after": ["done"],
            "at": {"to": {"$is": "optional"}},
        },
        {"forbid": {"$is": "regex", "pattern": "delete_.*"}, "input_parameters": {"all": True}},
        {"expect": "log", "input_parameters": {}, "turn": 3, "times": [2, 2]},
    ],
    "allow_extra": False,
    "tools": {"book": {"note": {"$is": "ignore"}}},
    "name": "by air",
}


def test_the_form_of_everything() -> None:
    """Python writes the form, reading it gives the plan, and both survive text."""
    assert expectation_json(PLAN) == FORM
    assert read_expectation(FORM) == PLAN
    assert read_expectation(json.loads(json.dumps(FORM))) == PLAN
    several = Alternatives([PLAN, [ToolCall(name="none")]])
    assert read_expectation(expectation_json(several)) == several
    assert several.plans[1] == Plan([ToolCall(name="none")])


def test_camel_case_and_other_names_of_arguments() -> None:
    """Keys are read in camelCase, and arguments under each of their names, as everywhere."""
    form = [
        {"expect": "a", "inputParameters": {"x": 1}, "extraArguments": True},
        {"oneOf": [{"expect": "b", "args": {}}]},
    ]
    plan = Plan([Expect("a", {"x": 1}, extra_arguments=True), OneOf(Expect("b", {}))])
    assert read_expectation(form) == plan
    assert read_expectation({"plan": form, "allowExtra": True}) == Plan(plan.calls, allow_extra=True)


@pytest.mark.parametrize("make", [LLMTestCase, Golden], ids=lambda make: make.__name__)
def test_a_case_takes_an_expectation_in_each_form(make: Any) -> None:
    """As a plan, as a list with one of its items in it, as JSON; a list of calls stays one."""
    plan = Plan([ToolCall(name="a"), Expect("b", optional=True)])
    for expectation in (plan, list(plan.calls), expectation_json(plan), expectation_json(plan)["plan"]):
        case = make(input="i", expected_tools=expectation)
        assert case.expected_tools == plan
        assert make.from_json(case.to_json()) == case
    assert make(input="i", expected_tools=[{"name": "a"}]).expected_tools == [ToolCall(name="a")]
    assert make(input="i", expected_tools=[]).expected_tools == []


def test_a_record_takes_an_expectation() -> None:
    """`expected_tools` of a record may be one; its problems have the record's path."""
    record = {"query": "q", "tools_called": [{"name": "b", "args": {"x": 1.5}}]}
    expected = [{"expect": "b", "args": {"x": {"$is": "approx", "value": 1, "abs": 1}}}]
    case = case_from_record({**record, "expected_tools": expected})
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
    assert metric.measure(case).score == 1
    with pytest.raises(InvalidDataError) as caught:
        case_from_record({**record, "expectedTools": [{"expect": "b", "tmes": 2}]})
    assert [problem.path for problem in caught.value.problems] == ["$.expectedTools[0].tmes"]


@pytest.mark.parametrize(
    ("value", "does"),
    [
        (PLAN, True),
        (FORM, True),
        ([Forbid("a")], True),
        ([{"forbid": "a"}], True),
        ([{"name": "a"}, {"oneOf": []}], True),
        ({"alternatives": []}, True),
        ([{"name": "a", "optional": True}], True),
        ([{"name": "a", "args": {"expect": 1}}], False),
        ([ToolCall(name="a")], False),
        ([], False),
        ("plan", False),
        (None, False),
        ({"name": "a"}, False),
    ],
)
def test_detection_of_expectations(value: object, does: bool) -> None:
    """A list of plain calls is not an expectation, whatever its arguments contain."""
    assert is_expectation(value) == does
    assert not (does and is_list_of_calls(value))


#: The golden file has the problem of each.
BAD: list[Any] = [
    [
        {
            "expect": "a",
            "input_parameters": {"x": {"$is": "aprox", "value": 1}, "y": [{"$is": "regex", "pattern": "("}]},
        },
        {"expect": "b", "after": ["nobody"], "optinal": True},
        {"one_of": [{"expect": ""}, {"forbidden": 1}]},
        {"parallel": {"expect": "a"}},
        7,
    ],
    [{"expect": "a", "forbid": "b"}],
    [{"name": "a", "optional": True}],
    [{"expect": "a", "input_parameters": {"x": {"$is": "approx", "val": 1}}}],
    [{"expect": "a", "input_parameters": {"x": {"$is": "glob"}}}],
    [{"expect": "a", "input_parameters": {"x": {"$is": "predicate", "name": "f"}}}],
    [{"expect": "a", "at": {"x": 1}}],
    [{"expect": "a", "at": {"x[": {"$is": "ignore"}}}],
    [{"expect": "a", "times": [3, 1]}],
    [{"expect": "a", "times": 0}],
    [{"expect": "a", "times": 2, "optional": True}],
    [{"expect": "a", "optional": "yes"}],
    [{"expect": "a", "type": "magic"}],
    [{"expect": "a", "args": 1, "input_parameters": {}}],
    {"plan": [], "allow_extra": "no"},
    {"plan": [], "tools": []},
    {"alternatives": []},
    {"alternatives": [[{"expect": 3}]]},
    [{"expect": "a", "label": "p", "after": ["q"]}, {"expect": "b", "label": "q", "after": ["p"]}],
    [{"one_of": [[{"expect": "a"}, {"expect": "b"}], []]}] * 10,
]


def test_all_problems_are_reported_at_once() -> None:
    """With their paths; in a case, below the field's path."""
    lines: list[str] = []
    for value in BAD:
        with pytest.raises(InvalidDataError) as caught:
            read_expectation(value)
        with pytest.raises(InvalidDataError) as in_case:
            LLMTestCase(expected_tools=value)
        inside = [problem.path for problem in in_case.value.problems]
        assert inside == [problem.path.replace("$", "$.expected_tools", 1) for problem in caught.value.problems]
        lines += [shorten(json.dumps(value), 150), *(f"  {problem}" for problem in caught.value.problems), ""]
    assert_golden("expectation-problems.txt", "\n".join(lines))


def test_a_plan_with_a_function_is_written_and_not_read() -> None:
    """Reports can show it, but no file can hold it."""
    case = LLMTestCase(expected_tools=Plan([Expect("a", {"x": Predicate(str.isupper)})]))
    with pytest.raises(InvalidDataError, match="a predicate is a function"):
        LLMTestCase.from_json(case.to_json())
