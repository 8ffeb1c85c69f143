"""Each construct of a plan by example: its effect on the score, and its wording in the reason."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrade import LLMTestCase, MetricResult, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.calls import ToolEffect
from toolgrade.expect import Alternatives, Approx, Expect, Forbid, Glob, Ignore, OneOf, Parallel, Plan, Regex

EXACT = {"should_exact_match": True}
ORDERED = {"should_consider_ordering": True}
F1 = {"denominator": "f1"}
FORBIDS = [Forbid(Glob("delete_*"))]
AB = [ToolCall(name="a"), ToolCall(name="b")]
A_THEN_B = [Expect("a", label="p"), Expect("b", after=["p"])]


def measured(expected: Any, called: str | list[ToolCall], **options: Any) -> MetricResult:
    """Return the result for calls named in sequence."""
    tools = [ToolCall(name=name) for name in called.split()] if isinstance(called, str) else called
    return ToolCorrectnessMetric(**options).measure(LLMTestCase(tools_called=tools, expected_tools=expected))


@pytest.mark.parametrize(
    ("expected", "called", "options", "score", "reason"),
    [
        # optional and times
        (Plan([Expect("a"), Expect("b", optional=True)]), "a", {}, 1, "1 matched / 1 expected = 1"),
        (Plan([Expect("a"), Expect("b", optional=True)]), "a b", {}, 1, "2 matched / 2 expected = 1"),
        (Plan([Expect("a"), Expect("b", optional=True)]), "b", {}, 1 / 2, "1 matched / 2 expected = 0.5"),
        (Plan([Expect("b", optional=True)]), "", {}, 1, "nothing was expected and nothing was called = 1"),
        (Plan([Expect("b", optional=True)]), "c", {}, 0, "no call expected, 1 made = 0"),
        (Plan([Expect("a", times=3)]), "a a", {}, 2 / 3, "2 matched / 3 expected"),
        (Plan([Expect("a", times=(1, 2))]), "a a a", F1, 2 / 3, "(3 expected (1 more often than the plan allows)"),
        (Plan([Expect("a", times=(0, 1))]), "a a", {}, 1 / 2, "called #2 'a', more often than the plan allows."),
        (Plan([Expect("a", times=2)]), "a a a", {}, 1, "Unexpected: called #3 'a'."),
        (Plan([Expect("a", times=(0, None))]), "a a a", F1, 1, "2 x 3 matched / (3 expected + 3 called)"),
        # alternatives
        (Plan([OneOf(AB[0], AB[1])]), "b", EXACT, 1, "1 expected and 1 called"),
        (Plan([OneOf(AB[0], AB[1])]), "a b", EXACT, 0, "1 expected and 2 called"),
        (Plan([OneOf(AB, [Expect("c")])]), "c", {}, 1, "alternative #2 of 2 of choice #1"),
        (Plan([OneOf(AB, [Expect("c")])]), "a", {}, 1 / 2, "alternative #1 of 2 of choice #1"),
        (Plan([OneOf(AB, [])]), "", {}, 1, "alternative #2 of 2 of choice #1"),
        (Alternatives([AB, Plan([Expect("c")], name="short")]), "c", {}, 1, "plan #2 of 2 'short'"),
        (Alternatives([AB]), "a b", {}, 1, "2 matched / 2 expected = 1"),
        # order
        (Plan(A_THEN_B), "a b", {}, 1, "2 matched"),
        (Plan(A_THEN_B), "b a", {}, 1 / 2, "Out of order: expected #2 'b' was called as #1, not after 'p'."),
        (Plan(A_THEN_B), "b", {}, 1 / 2, "Missing: expected #1 'a' was not called."),
        (Plan(A_THEN_B), "b a b", {}, 1, "Unexpected: called #1 'b'."),
        (Plan([Expect("a", label="p", times=2), Expect("b", after=["p"])]), "a b a", {}, 2 / 3, "not after 'p'"),
        (Plan([Expect("a", label="p", times=(1, 2)), Expect("b", after=["p"])]), "a b a", {}, 1, "3 matched"),
        (Plan([OneOf(*AB, label="p"), Expect("c", after=["p"])]), "c b", {}, 1 / 2, "not after 'p'"),
        (Plan([Parallel(*AB, label="p"), Expect("c", after=["p"])]), "a c b", {}, 2 / 3, "not after 'p'"),
        (Plan([Parallel(*AB), Expect("c")]), "b a c", EXACT, 1, "the same call by call"),
        (Plan([Parallel(*AB), Expect("c")]), "b c a", ORDERED, 2 / 3, "Out of order"),
        # forbidden and other calls
        (Plan([*AB, *FORBIDS]), "a b delete_x", {}, 0, "1 forbidden call = 0"),
        (Plan([*AB, *FORBIDS]), "a b", {}, 1, "2 matched"),
        (Plan(FORBIDS), "a b", {}, 1, "nothing was expected; the plan allows the 2 other calls = 1"),
        (Plan([OneOf(FORBIDS)]), "a b", {}, 1, "the plan allows the 2 other calls = 1"),
        (Plan([*FORBIDS, Expect("c", optional=True)]), "a b", {}, 0, "no call expected, 2 made = 0"),
        (Alternatives([AB, list(reversed(AB))]), "a b", {}, 1, "plan #1 of 2"),
        (Plan(FORBIDS, allow_extra=False), "a b", {}, 0, "no call expected, 2 made = 0"),
        (Plan(FORBIDS), "delete_x", {}, 0, "Forbidden: called #1 'delete_x', by 'delete_*'."),
        (Plan([]), "a", {}, 0, "no call expected, 1 made = 0"),
        (Plan([], allow_extra=True), "a", F1, 1, "the plan allows the 1 other call = 1"),
        (Plan(AB), "a b c", EXACT, 0, "2 expected and 3 called"),
        (Plan(AB, allow_extra=False), "a b c", EXACT, 0, "2 expected and 3 called"),
        (Plan(AB, allow_extra=True), "a c b", EXACT, 1, "2 expected and 3 called"),
        (Plan(AB, allow_extra=True), "b c a", EXACT, 0, "Out of order"),
        (Plan(AB, allow_extra=True), "a c", EXACT, 0, "Missing: expected #2 'b'"),
        (Plan([*AB, *FORBIDS], allow_extra=True), "a b delete_x", EXACT, 0, "1 forbidden call = 0"),
        (Plan(AB, allow_extra=False), "a b c", {}, 1, "Unexpected: called #3 'c'."),
        (Plan(AB, allow_extra=True), "a b c", F1, 4 / 5, "2 x 2 matched / (2 expected + 3 called)"),
        # names
        (Plan([Expect(Glob("get_*"))]), "get_user", {}, 1, "1 matched"),
        (Plan([Expect(Regex("(get|find)_user"))]), "find_user", {}, 1, "1 matched"),
        (Plan([Expect(Glob("get_*")), Expect("get_a")]), "get_a get_b", {}, 1, "2 matched"),
        (Plan([Expect(Glob("get_*"))]), "set_user", {}, 0, "Missing: expected #1 'get_*' was not called."),
    ],
)  # fmt: skip
def test_the_table(expected: Any, called: str, options: dict[str, Any], score: float, reason: str) -> None:
    """As docs/expectations.md has it."""
    result = measured(expected, called, **options)
    assert result.score == pytest.approx(score)
    assert reason in str(result.reason)


def test_unused_matchers_are_reported() -> None:
    """By default only names are compared; a plan with matchers gets a warning."""
    called = [ToolCall(name="pay", input_parameters={"amount": 7, "to": {"iban": "DE1"}})]
    for plan in (
        Plan([Expect("pay", {"amount": Approx(5)})]),
        Plan([Expect("pay", at={"amount": Approx(5)})]),
        Plan([ToolCall(name="pay")], tools={"pay": {"amount": Approx(5)}}),
    ):
        result = measured(plan, called)
        assert result.score == 1
        assert "evaluation_params does not contain INPUT_PARAMETERS" in str(result.warnings)
    assert measured(Plan([Expect("pay", {"amount": 5})]), called).warnings == ()


def test_a_warning_about_the_plan_keeps_those_of_the_run() -> None:
    """Warnings about the recording and about unused matchers stand beside each other."""
    run = Run(calls=[ToolCall(name="pay", input_parameters={"amount": 7})], warnings=["one message was cut off"])
    case = run.to_test_case(expected_tools=Plan([Expect("pay", {"amount": Approx(5)})]))
    warnings = ToolCorrectnessMetric().measure(case).warnings
    assert [text.split(":")[0] for text in warnings] == ["one message was cut off", "argument matchers were not used"]


def test_the_output_of_a_call_in_a_plan_counts_if_outputs_are_compared() -> None:
    """It is compared with OUTPUT among the parameters alone."""
    plan, called = Plan([ToolCall(name="a", output="yes")]), [ToolCall(name="a", output="no")]
    assert measured(plan, called).score == 1
    assert measured(plan, called, evaluation_params=["output"]).score == 0


def test_later_patterns_of_default_matchers_win() -> None:
    """Of the matchers that a plan has for a tool, those of its exact name are the strongest, then later patterns."""
    tools = {"p*": {"to": Ignore(), "amount": Approx(5)}, "pa*": {"amount": Approx(7)}}
    plan = Plan([ToolCall(name="pay", input_parameters={"amount": 0, "to": "x"})], tools=tools)
    called = [ToolCall(name="pay", input_parameters={"amount": 7, "to": "y"})]
    assert measured(plan, called, evaluation_params=["input_parameters"]).score == 1
    exact = Plan(plan.calls, tools={"pay": {"amount": Approx(5)}, **tools})
    assert measured(exact, called, evaluation_params=["input_parameters"]).score == 0


def test_findings_describe_matchers_in_text_and_json() -> None:
    """The reason has text, the result JSON; secret values are hidden in both."""
    called = [ToolCall(name="pay", input_parameters={"amount": 7, "items": [1], "password": "b"})]
    plan = Plan([Expect("pay", {"amount": Approx(5, abs=1), "items": [Ignore(), 2], "password": Regex("a+")})])
    result = measured(plan, called, evaluation_params=["input_parameters"])
    assert "$.input_parameters.amount expected about 5 (abs 1), called with 7" in str(result.reason)
    assert "$.input_parameters.items expected [anything, 2], called with [1]" in str(result.reason)
    assert "a+" not in str(result.reason)
    findings = {finding["path"]: finding for finding in result.to_dict()["findings"]}
    assert findings["$.input_parameters.amount"]["expected_value"] == {"$is": "approx", "value": 5, "abs": 1}
    assert "a+" not in str(result.to_dict())


def test_a_plan_in_a_report() -> None:
    """It is evaluated, written and read like any case; the report names its places."""
    case = LLMTestCase(id="1", tools_called=[], expected_tools=Plan([Expect(Glob("get_*")), *FORBIDS]))
    report = evaluate(
        [case], [ToolCorrectnessMetric(), ToolCorrectnessMetric(denominator="called")], show_progress=False
    )
    written = report.to_dict()
    assert [result["score"] for result in written["cases"][0]["results"]] == [0, 0]
    assert written["cases"][0]["results"][0]["alignment"]["labels"] == ["get_*"]


def test_effects_of_a_plan() -> None:
    """Only writes are compared; a plan that names only reads expects nothing then."""
    plan = Plan([Expect("look", optional=True), Expect("book", times=(1, 2)), Forbid("drop")])
    effects = {"look": ToolEffect.READ, "*": ToolEffect.WRITE}
    options: dict[str, Any] = {"only": "write", "effects": effects, "denominator": "f1"}
    assert measured(plan, "look look book", **options).score == 1
    assert measured(plan, "look book pay", **options).score == pytest.approx(2 / 3)
    assert measured(plan, "book drop", **options).score == 0
    assert measured(Plan([Expect("look")]), "look", **options).score == 1
