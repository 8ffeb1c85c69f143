"""The matcher `From`: arguments that come from an earlier call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgrade import ConfigurationError, LLMTestCase, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Alternatives, AnyOf, Expect, Forbid, From, OneOf, Optional, Plan, read_expectation
from toolgrade.expect.json_form import expectation_json

METRICS = (TaskSuccessMetric(), ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1))


def call(name: str, arguments: dict[str, Any] | None = None, output: Any = None, step: int | None = None) -> ToolCall:
    """A call that succeeded, in a step."""
    execution: Any = {"status": "ok", "step": step}
    return ToolCall(name=name, input_parameters=arguments or {}, output=output, execution=execution)


def passes(expected: Any, *calls: ToolCall) -> bool:
    """Whether both metrics say so of a run."""
    case = LLMTestCase(tools_called=list(calls), expected_tools=expected)
    outcomes = {metric.measure(case).passed for metric in METRICS}
    assert len(outcomes) == 1
    return outcomes == {True}


ORDERS = {"orders": [{"id": "A-17", "total": 40}, {"id": "B-18", "total": 12}], "page": {"next": 2}}
ROWS: list[tuple[str, Any, Any, bool]] = [
    ("$.orders[0].id", ORDERS, "A-17", True),
    ("$.orders[0].id", ORDERS, "a-17", True),
    ("$.orders[0].id", ORDERS, "B-18", False),
    ("$.orders[*].id", ORDERS, "B-18", True),
    ("$.orders[*].id", ORDERS, "40", False),
    ("$.orders[*].total", ORDERS, "40", True),
    ("$", ORDERS, "B-18", True),
    ("$", ORDERS, "orders", False),
    ("$", {"A-17": {"total": 40}}, "A-17", True),
    ("$.id", [{"type": "text", "text": '{"id": "A-17"}'}], "A-17", True),
    ("$.id", {"id": None}, None, False),
    ("$", {"open": True, "note": "", "rows": []}, True, False),
    ("$", {"open": True, "note": "", "rows": []}, "", False),
    ("$", {"open": True, "note": "", "rows": []}, [], False),
    ("$", "Created order A-17-B for 12.50 EUR, -250 EUR", "A-17", False),
    ("$", "Created order A-17 for 12.50 EUR, 1,250.00 EUR", "50", False),
    ("$", "Created order A-17 for 12.50 EUR, 1,250.00 EUR", 250, False),
    ("$", "Error: order A-17 exists", "A-17", False),
    ("$", ORDERS, "A-1", False),
    ("$", ORDERS, {"next": 2}, True),
    ("$.page", ORDERS, {"next": 3}, False),
    ("$.missing", ORDERS, "A-17", False),
    ("$.orders[0].id", json.dumps(ORDERS), "A-17", True),
    ("$[0].text.orders[1].id", [{"type": "text", "text": json.dumps(ORDERS)}], "B-18", True),
    ("$", "Created order A-17.", "A-17", True),
    ("$", "Created order A-17.", "A-1", False),
    ("$", "Created order A-17.", "", False),
    ("$", None, "A-17", False),
    ("$.q", None, "shoes", False),
    ("$.input_parameters.q", {"q": "boots"}, "shoes", True),
    ("$.input_parameters.q", {"q": "boots"}, "boots", False),
]


@pytest.mark.parametrize(("path", "output", "value", "fits"), ROWS)
def test_the_value_at_the_path_is_accepted(path: str, output: Any, value: Any, fits: bool) -> None:
    """Of any earlier call of the tool, also if it was called twice."""
    expected = Plan([Expect("search", optional=True), Expect("pay", {"order": From("search", path)})], allow_extra=True)
    search, pay = call("search", {"q": "shoes"}, output), call("pay", {"order": value})

    assert passes(expected, search, pay) is fits
    assert passes(expected, call("search", {}, {"id": "other"}), pay) is False


def test_only_earlier_calls_of_the_tool_count() -> None:
    """Neither later ones, nor those of the same step, nor other tools."""
    expected = Plan([Expect("search"), Expect("pay", {"order": From("search", "$.id")})])
    found, pay = call("search", {}, {"id": "A-17"}), call("pay", {"order": "A-17"})

    assert passes(expected, found, pay)
    assert not passes(expected, pay, found)
    assert not passes(expected, call("search", {}, {"id": "A-17"}, step=1), call("pay", {"order": "A-17"}, step=1))
    assert passes(expected, call("search", {}, {"id": "A-17"}, step=1), call("pay", {"order": "A-17"}, step=2))
    assert not passes(Plan([Expect("search"), Expect("pay", {"order": From("look_*", "$.id")})]), found, pay)
    assert passes(Plan([Expect("search"), Expect("pay", {"order": From("sea*", "$.id")})]), found, pay)


def test_anywhere_in_an_expectation() -> None:
    """Inside of matchers and lists, by place, for all calls of a tool, in alternatives, and as what is forbidden."""
    found, pay = call("search", {}, {"id": "A-17"}), call("pay", {"to": {"order": ["A-17"]}})
    other = call("pay", {"to": {"order": ["A-18"]}})
    origin = From("search", "$.id")
    search, plain = Expect("search"), {"to": {"order": ["?"]}}
    plans = [
        Plan([search, Expect("pay", {"to": {"order": [origin]}})]),
        Plan([search, Expect("pay", {"to": {"order": [AnyOf("x", Optional(origin))]}})]),
        Plan([search, Expect("pay", plain, at={"to.order[0]": origin})]),
        Plan([search, Expect("pay", plain)], tools={"pay": {"to.order[*]": origin}}),
        Plan([search, OneOf(Expect("send"), Expect("pay", {"to": {"order": [origin]}}))]),
        Alternatives([Plan([Expect("x")]), Plan([search, Expect("pay", {"to": {"order": [origin]}})])]),
    ]
    for plan in plans:
        assert passes(plan, found, pay)
        assert not passes(plan, found, other)
        assert passes(read_expectation(expectation_json(plan)), found, pay)
    forbidden = Plan([search, Forbid("pay", {"to": {"order": [origin]}})], allow_extra=True)
    assert not passes(forbidden, found, pay)
    assert passes(forbidden, found, other)


def test_json_and_words() -> None:
    """It is written and read, and named in findings."""
    plan = Plan([Expect("pay", {"order": From("search", "$.id")})])
    case = LLMTestCase(tools_called=[call("pay", {"order": "A-17"})], expected_tools=plan)

    assert expectation_json(plan)["plan"][0]["input_parameters"]["order"] == {
        "$is": "from",
        "call": "search",
        "path": "$.id",
    }
    assert LLMTestCase.from_json(case.to_json()) == case
    message = TaskSuccessMetric().measure(case).findings[0].message
    assert (
        message
        == "'pay' (expected #1, called #1): $.input_parameters.order expected from search $.id, called with \"A-17\"."
    )


@pytest.mark.parametrize("options", [("",), (1,), ("search", "id"), ("search", "$.[0"), ("search", 3)], ids=repr)
def test_wrong_options(options: tuple[Any, ...]) -> None:
    """They are refused."""
    with pytest.raises(ConfigurationError):
        From(*options)
