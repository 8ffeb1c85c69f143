"""`TaskSuccessMetric(calls_only=True)` with plans as expectations."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from, calls_only
from toolgrade import ConfigurationError, LLMTestCase, MetricResult, ToolCall
from toolgrade.expect import (
    Absent,
    Alternatives,
    AnyOf,
    Approx,
    Expect,
    Forbid,
    Glob,
    Ignore,
    IgnoreCase,
    OneOf,
    Optional,
    Parallel,
    Plan,
    Unordered,
)
from toolgrade.redact import REDACTED
from toolgrade.report.text.side_by_side import rows

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write", "mail": "write"}
LOOK, FIND, BOOK, PAY = (ToolCall(name=name) for name in ("look", "find", "book", "pay"))


def case_of(expected: Any, called: str | list[ToolCall]) -> LLMTestCase:
    """A case with the items of a plan, or a plan, and with calls in shorthand."""
    expected = Plan(expected) if isinstance(expected, list) else expected
    return LLMTestCase(expected_tools=expected, tools_called=calls_from(called) if isinstance(called, str) else called)


def measured(expected: Any, called: str | list[ToolCall], **options: Any) -> MetricResult:
    """The result of one case."""
    return calls_only(**{"effects": EFFECTS, **options}).measure(case_of(expected, called))


def of_arguments(expected: Any, called: Any, **options: Any) -> MetricResult:
    """The result of one expected write and one that was made."""
    call = ToolCall(name="book", input_parameters=called)
    return measured(Plan([Expect("book", expected, **options)]), [call])


# Choices


@pytest.mark.parametrize(
    ("plan", "called", "score"),
    [
        pytest.param([Expect("book", optional=True)], "book", 1, id="and one that was"),
        pytest.param([Expect("book", times=2)], "look book", 2 / 3, id="a write once of twice"),
        pytest.param([Expect("book", times=(1, None))], "book book book", 1, id="a write as often as you like"),
        pytest.param([OneOf(BOOK, PAY)], "book pay", 2 / 3, id="both of two alternatives"),
        pytest.param([OneOf(LOOK, BOOK)], "book", 1, id="a read or a write: the write"),
        pytest.param([OneOf([LOOK, BOOK], [FIND, PAY])], "look pay", 0.9, id="no read of one way, write of the other"),
        pytest.param([Expect(Glob("*oo?"))], "look", 0, id="a pattern that writes fit too"),
        pytest.param([Expect(Glob("loo*"))], "look", 1, id="a pattern of reads"),
        pytest.param([Expect("pay", label="p"), Expect("book", after=["p"])], "book pay", 1 / 2, id="too early"),
        pytest.param([Expect("look", label="l"), Expect("find", after=["l"])], "find look", 0.95, id="an early read"),
        pytest.param([Parallel(BOOK, PAY)], "book@1 pay@2", 1 / 2, id="not in one step"),
        pytest.param([Forbid("mail")], "book", 1, id="nothing but forbidden: others may be"),
    ],
)  # fmt: skip
def test_totals(plan: list[Any], called: str, score: float) -> None:
    """By hand."""
    tools = [{"name": name} for name in EFFECTS]
    case = LLMTestCase(expected_tools=Plan(plan), tools_called=calls_from(called), available_tools=tools)

    assert calls_only(effects=EFFECTS).measure(case).score == pytest.approx(score)


def test_selected_choice_is_reported() -> None:
    """By place and name, and whether a place is a write or a read."""
    either = Alternatives([Plan([BOOK], name="flight"), Plan([PAY, LOOK], name="voucher")])

    result = measured(either, "pay look")
    assert result.score == 1
    assert "Best of the alternatives: plan #2 of 2 'voucher'." in str(result.reason)
    result = measured([OneOf(LOOK, BOOK)], "book")
    assert "Best of the alternatives: 'book' of 'look or book'." in str(result.reason)


def test_too_many_choices_between_writes_and_reads() -> None:
    """Each doubles the number of choices; the message has a remedy."""
    assert measured([OneOf(LOOK, BOOK)] * 9, "book " * 9).score == 1
    with pytest.raises(ConfigurationError, match=r"1024 combinations or more, since .* limit is 1000"):
        measured([OneOf(LOOK, BOOK)] * 10, "")


def test_rules_between_writes_and_reads_are_ignored_with_a_warning() -> None:
    """Writes and reads are compared separately; rules among writes apply."""
    plan = [Expect("look", label="seen"), Expect("book", after=["seen"]), Parallel(FIND, PAY)]
    result = measured(plan, "book@1 look@2 find@3 pay@4")

    assert result.score == 1
    warning = "not checked, since writes and reads are compared separately: 'book after seen', 'find, pay in one step'"
    assert warning in result.warnings
    assert not measured([Expect("pay", label="paid"), Expect("book", after=["paid"])], "pay:ok book:ok").warnings


# Arguments


@pytest.mark.parametrize(
    ("expected", "called", "score"),
    [
        ({"p": [{"n": IgnoreCase("x"), "m": 1}, {"n": "y"}]}, {"p": [{"n": "X", "m": 1}, {"n": "z"}]}, 2 / 3),
        ({"a": Approx(100, abs=1), "b": 2}, {"a": 100.5, "b": 3}, 1 / 2),
        ({"p": Unordered([1, 2, 3]), "b": 2}, {"p": [3, 2, 1], "b": 2}, 1),
        ({"p": Unordered([1, 2, 3]), "b": 2}, {"p": [3, 2, 2], "b": 2}, 1 / 2),
        ({"a": AnyOf({"x": 1, "y": 2}, 5), "b": 2}, {"a": {"x": 1, "y": 3}, "b": 2}, 3 / 4),
        ({"a": {"b": Ignore(), "c": 1}}, {"a": {"b": {"x": [1, 2]}, "c": 1}}, 1),
        ({"a": {"b": Ignore()}}, {}, 1),
        ({"a": {"b": Ignore()}}, {"a": {}}, 1),
        ({"a": {"b": Ignore(), "c": 1}}, {"a": {}}, 0),
        ({"a": {"b": Ignore(), "c": {"d": Optional(1)}}}, {"a": {"c": {}}}, 1),
        ({"a": {"b": Ignore()}}, {"a": 5}, 0),
        ({"p": [1, Ignore()]}, {"p": [1, 7]}, 1),
        ({"p": [Ignore()]}, {"p": []}, 0),
        ({"a": Absent(), "b": 2}, {"a": {"x": 1, "y": 2}, "b": 2}, 1 / 2),
        ({"a": Ignore()}, {}, 1),
    ],
)  # fmt: skip
def test_matchers_are_leaves(expected: Any, called: Any, score: float) -> None:
    """Whatever values they accept, as are the actual values."""
    assert of_arguments(expected, called).score == pytest.approx(score)


def test_other_arguments() -> None:
    """With `extra_arguments`, others at the top are left out, those inside of an object are not."""
    assert of_arguments({"a": 1}, {"a": 1, "b": {"c": 2}}).score == pytest.approx(1 / 2)
    assert of_arguments({"a": 1}, {"a": 1, "b": {"c": 2}}, extra_arguments=True).score == 1
    assert of_arguments({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, extra_arguments=True).score == pytest.approx(1 / 2)


def test_matchers_by_place_and_by_tool() -> None:
    """Those of the plan apply to plain calls, too."""
    call = ToolCall(name="book", args={"to": [{"n": "Ann", "x": 1}]})
    plan = Plan([call], tools={"book": {"to[*].n": IgnoreCase()}})

    assert measured(plan, [ToolCall(name="book", args={"to": [{"n": "ANN", "x": 2}]})]).score == pytest.approx(1 / 2)
    assert (
        of_arguments({"p": [{"n": "Ann", "x": 1}]}, {"p": [{"n": "ANN", "x": 1}]}, at={"p[*].n": IgnoreCase()}).score
        == 1
    )


def test_findings_name_places_in_the_call() -> None:
    """Paths are those of the arguments, and expected values are matchers."""
    matcher = IgnoreCase("ann")
    result = of_arguments({"p": [{"n": matcher}], "q": 1}, {"p": [{"n": "bob"}], "r": [1]})

    findings = [(finding.kind, finding.path, finding.expected_value) for finding in result.findings]
    assert findings[:2] == [
        ("wrong_argument", "$.input_parameters.p[0].n", matcher),
        ("missing_argument", "$.input_parameters.q", 1),
    ]
    assert [(finding.kind, finding.path) for finding in result.findings[2:]] == [
        ("extra_argument", "$.input_parameters.r[0]")
    ]


def test_redacted_values() -> None:
    """What is hidden is left out, and named by its place, also below a matcher."""
    result = of_arguments({"card": {"pin": Approx(1), "n": 1}}, {"card": {"pin": REDACTED, "n": 1}})

    assert result.score == 1
    assert [(finding.kind, finding.path) for finding in result.findings] == [
        ("not_compared", "$.input_parameters.card.pin")
    ]
    assert any("it is redacted: $.input_parameters.card.pin of called #1 'book'" in text for text in result.warnings)


# Forbidden calls


@pytest.mark.parametrize("called", ["book mail", "book mail@1"])
def test_a_forbidden_call_makes_the_total_0(called: str) -> None:
    """The other parts stay."""
    result = measured([BOOK, Forbid(Glob("ma*"))], called)

    assert (result.score, result.parts["forbidden"]) == (0, 0)
    assert result.findings[0].message == "Forbidden: called #2 'mail', by 'ma*'."
    assert str(result.reason).startswith("total: a forbidden call was made = 0")
    assert measured([BOOK, Forbid("mail")], "pay:error book mail").findings[0].called == 2


def test_forbidden_calls() -> None:
    """Including reads, unknown effects and arguments, but not failed calls."""
    assert measured([BOOK, Forbid("look")], "book look").score == 0
    assert measured([BOOK, Forbid("jiggle")], "book jiggle").score == 0
    assert measured([BOOK, Forbid("look", {"n": "1"})], "book look(2)").parts["forbidden"] == 1
    assert measured([BOOK, Forbid("look", {"n": "1"})], "book look(1)").parts["forbidden"] == 0
    assert measured([BOOK, Forbid("mail")], "book mail:error").score == 1
    assert measured([BOOK, Forbid("mail")], "book mail:error", ignore_failed=False).score == 0


def test_forbidden_option_applies_to_all_choices() -> None:
    """A call forbidden by both is reported once."""
    either = Alternatives([[BOOK, Forbid("mail")], [BOOK]])

    assert measured(either, "book mail").score == pytest.approx(2 / 3)
    result = measured([BOOK, Forbid("mail")], "book mail", forbidden=["mail"])
    assert [finding.kind for finding in result.findings] == ["forbidden"]


# What is counted


def test_other_calls() -> None:
    """A write that the plan does not name costs, unless no write is expected and the plan says that others may be."""
    assert measured(Plan([BOOK], allow_extra=True), "book pay").score == pytest.approx(2 / 3)
    assert measured(Plan([LOOK], allow_extra=True), "look pay").score == 1
    assert measured(Plan([Expect("look")]), "look pay").score == 0


def test_failed_calls_and_unknown_effects_are_reported_once() -> None:
    """For all calls of the case, whatever choice is selected."""
    either = Alternatives([[Expect("frob")], [Expect("frob"), LOOK]])
    result = measured(either, "jiggle book:error frob")

    assert result.score == 1
    assert [(finding.kind, finding.called) for finding in result.findings] == [("unknown_effect", 0)]
    assert [warning.split(";")[0] for warning in result.warnings] == [
        "1 call left out that did nothing: called #2 'book'",
        "2 calls without a recorded status: taken as successful",
        "1 expected call of unknown effect counted as writes ('frob')",
        "1 call not scored, since the effect of the tool is unknown: 'jiggle'",
        "if those calls changed something, the score is 0.6667",
    ]


def test_the_bound_of_unknown_calls_is_that_of_the_best_way() -> None:
    """With them, another way may be the best: 0.9 x 4 / 7 here, not 2 / 4; but none with a forbidden call."""
    mail = ToolCall(name="mail")
    either = measured(Alternatives([Plan([BOOK]), Plan([BOOK, PAY, mail, mail, LOOK])]), "jiggle book pay")
    forbidding = measured(Alternatives([Plan([BOOK, PAY]), Plan([BOOK, Forbid("book")])]), "jiggle book")

    assert either.score == pytest.approx(2 / 3)
    assert "if those calls changed something, the score is 0.5143" in either.warnings
    assert forbidding.score == pytest.approx(2 / 3)
    assert "if those calls changed something, the score is 0.5" in forbidding.warnings


def test_places_are_those_of_the_plan() -> None:
    """Writes and reads are numbered together, each repetition separately; called ones as in the case."""
    plan = Plan([Expect("look", times=2), Expect("book", {"n": "1"}, times=(1, 2)), OneOf(PAY, ToolCall(name="mail"))])
    case = case_of(plan, "find look pay:error book(2) book(1) find")
    result = calls_only(effects=EFFECTS).measure(case)

    assert [(finding.kind, finding.expected, finding.called, finding.tool) for finding in result.findings] == [
        ("wrong_argument", 2, 3, "book"),
        ("missing", 4, None, "pay or mail"),
        ("missing", 1, None, "look"),
    ]
    assert [(row.expected_at, row.expected, row.called_at) for row in rows(result, case)] == [
        ("3", "book", "4"),
        ("", 'n: "1"', ""),
        ("4", "book", "5"),
        ("5", "pay or mail", ""),
    ]


def test_order() -> None:
    """Order itself costs nothing; a violated rule does and is reported only as such."""
    result = measured([Expect("book"), Expect("pay"), Expect("mail")], "mail book pay")
    assert (result.score, result.parts["order"]) == (1, pytest.approx(2 / 3))
    assert [finding.message for finding in result.findings] == [
        "Out of order: expected #3 'mail' was called as #1; it costs nothing."
    ]

    result = measured([Expect("book", label="b"), Expect("pay", after=["b"]), Expect("mail")], "pay book mail")
    assert result.score == pytest.approx(2 / 3)
    assert [finding.message for finding in result.findings] == [
        "Out of order: expected #2 'pay' was called as #1, not after 'b'.",
    ]

    result = measured([Parallel(BOOK, PAY)], "book@1 pay@2")
    assert [finding.kind for finding in result.findings] == ["not_parallel"]


def test_the_reason_shows_the_sum() -> None:
    """As for lists."""
    result = measured([Expect("look", times=2), Expect("book", {"a": 1, "b": Ignore()})], "look book(1)")

    assert str(result.reason).split("\n")[:3] == [
        "total: arguments 0 x (0.9 + 0.1 x reads 0.5) = 0 (failed at 0.9).",
        "Arguments: 2 x 0 matched / (1 expected + 1 called) = 0.",
        "Reads: 1 of 2 expected = 0.5.",
    ]
