"""`TaskSuccessMetric`: all that a case states about the task in one score."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    ConfigurationError,
    LLMTestCase,
    MetricResult,
    MissingFieldError,
    MLLMImage,
    MLLMTestCase,
    ResultStatus,
    Run,
    RunStatus,
    TaskSuccessMetric,
    ToolCall,
    evaluate,
    read_cases,
    run_from_messages,
)
from toolgrade.expect import AnyOf, Approx, Contains, ContainsAll, Expect, Forbid, IgnoreCase, OneOf, Plan, Regex
from toolgrade.failed_calls import ErrorTexts
from toolgrade.redact import REDACTED
from toolgrade.stats import auc

EFFECTS = {"look": "read", "find": "read", "*": "write"}
DONE = {"status": "ok", "executed": True}


def called(name: str, turn: int | None = None, **arguments: Any) -> ToolCall:
    """A call that succeeded."""
    fields = {} if turn is None else {"turn": turn}
    return ToolCall(name=name, input_parameters=arguments, execution=DONE, **fields)


def expected(name: str, turn: int | None = None, **arguments: Any) -> ToolCall:
    """An expected call."""
    fields = {} if turn is None else {"turn": turn}
    return ToolCall(name=name, input_parameters=arguments, **fields)


def measured(options: dict[str, Any] | None = None, **fields: Any) -> MetricResult:
    """The result of a case with these fields."""
    return TaskSuccessMetric(**{"effects": EFFECTS, **(options or {})}).measure(LLMTestCase(**fields))


def kinds(result: MetricResult) -> list[str]:
    """The kinds of the findings."""
    return [finding.kind for finding in result.findings]


# The formula

CALLS = {"expected_tools": [expected("book", day=1)], "tools_called": [called("book", day=1)]}


@pytest.mark.parametrize(
    ("fields", "score", "parts"),
    [
        pytest.param({"expected_tools": [], "tools_called": []}, 1, {}, id="no call expected and none made"),
        pytest.param(
            {"expected_tools": [], "tools_called": [called("book")]}, 0, {"effects": 0, "arguments": 0}, id="a write"
        ),
        pytest.param({"expected_tools": [], "tools_called": [called("look")]}, 1, {}, id="a read that nobody expected"),
        pytest.param(CALLS, 1, {"effects": 1, "arguments": 1}, id="the right write"),
        pytest.param(
            {**CALLS, "tools_called": [called("book", day=2)]},
            0.5, {"effects": 1, "arguments": 0}, id="the right tool, all arguments wrong",
        ),
        pytest.param(
            {**CALLS, "tools_called": [called("book", day=1), called("pay")]},
            2 / 3, {"effects": 2 / 3, "arguments": 2 / 3}, id="a write too many",
        ),
        pytest.param(
            {**CALLS, "expected_tools": [expected("book", day=1), expected("look"), expected("find")],
             "tools_called": [called("look"), called("book", day=1)]},
            0.99, {"effects": 1, "arguments": 1, "reads": 0.5}, id="one of two reads",
        ),
        pytest.param(
            {**CALLS, "required_texts": ["one", "two"], "agent_texts": ["One"]},
            0.75, {"effects": 1, "arguments": 1, "required_texts": 0.5}, id="one of two texts",
        ),
        pytest.param(
            {**CALLS, "ends": "ok", "ended": False}, 0.5, {"effects": 1, "arguments": 1, "ended": 0}, id="no end"
        ),
        pytest.param(
            {**CALLS, "ends": "ok", "ended": True}, 1, {"effects": 1, "arguments": 1, "ended": 1}, id="an end"
        ),
        pytest.param({**CALLS, "ended": False}, 1, {"effects": 1, "arguments": 1}, id="an end that nobody expects"),
        pytest.param(
            {**CALLS, "expected_output": "It costs Ann 12 EUR", "actual_output": "12 EUR."},
            0.75, {"effects": 1, "arguments": 1, "answer": 0.5}, id="half of the values",
        ),
        pytest.param(
            {"expected_tools": [expected("book", 1), expected("pay", 2)],
             "tools_called": [called("pay", 1), called("book", 1)]},
            0.5, {"effects": 0.5, "arguments": 0.5}, id="a call in a turn too early",
        ),
        pytest.param(
            {"expected_tools": [expected("book"), expected("pay")], "tools_called": [called("pay"), called("book")]},
            1, {"effects": 1, "arguments": 1, "order": 0.5}, id="order costs nothing",
        ),
        pytest.param(
            {"expected_output": "yes", "actual_output": "no", "required_texts": ["x"], "agent_texts": ["x"]},
            0.5, {"answer": 0, "required_texts": 1}, id="calls are not stated",
        ),
        pytest.param(
            {**CALLS, "tools_called": [called("book", day=2)], "required_texts": ["x"], "agent_texts": [],
             "ends": "ok", "ended": False, "expected_output": "x", "actual_output": ""},
            1 / 16, {"effects": 1, "arguments": 0, "required_texts": 0, "ended": 0, "answer": 0}, id="all wrong",
        ),
    ],
)  # fmt: skip
def test_total_and_parts(fields: dict[str, Any], score: float, parts: dict[str, float]) -> None:
    """Each stated part that is not met at all halves the score; parts that are not stated are left out."""
    result = measured(**fields)

    assert result.score == pytest.approx(score)
    assert dict(result.parts) == pytest.approx({"total": score, **parts})


def test_the_reason_shows_the_arithmetic_and_what_counted_as_equal() -> None:
    """One line for each part, then the findings and the notes."""
    result = measured(
        expected_tools=[
            expected("look"),
            expected("book", 1, city="New York", seats=["A1", "B2"], note="x"),
            expected("pay", 1, sum=12.5),
        ],
        tools_called=[
            called("find", 1),
            called("book", 1, city="new  york", seats=["B2", "A1"], note="y"),
            called("pay", 1, sum="12.50"),
        ],
        required_texts=["120", "aisle"],
        agent_texts=["It costs $1,120 or $120.00."],
        ends="ok",
        ended=False,
        expected_output=Contains("booked"),
        actual_output="Sorry.",
    )

    pair = "Turn 1: 'book' (expected #2, called #2): $.input_parameters"
    assert str(result.reason).split("\n") == [
        (
            "total: (effects 1 + arguments 0.8333) / 2 x (0.98 + 0.02 x reads 0) x "
            "(1 + required_texts 0.5) / 2 x (1 + ended 0) / 2 x (1 + answer 0) / 2 = 0.1684 (failed at 0.98)."
        ),
        "Effects: 2 x 2 matched / (2 expected + 2 called) = 1.",
        "Arguments: 2 x 1.6667 matched / (2 expected + 2 called) = 0.8333.",
        "Reads: 0 of 1 expected = 0.",
        "Order: 1.6667 of 1.6667 matched in order = 1.",
        "Required texts: 1 of 2 said = 0.5.",
        "Ended: no = 0.",
        'Answer: compared with contains "booked" = 0.',
        f'{pair}.note expected "x", called with "y".',
        f'{pair}.city expected "New York", called with "new  york": equal by meaning.',
        f'{pair}.seats expected ["A1", "B2"], called with ["B2", "A1"]: equal by meaning.',
        f'{pair}.sum expected 12.5, called with "12.50": equal by meaning.'.replace("book", "pay").replace("#2", "#3"),
        "Missing read: expected #1 'look' was not called.",
        'Not said: "aisle".',
        "The run did not come to its own end.",
        'The answer does not fit: expected contains "booked".',
    ]


def test_results_are_written_and_read() -> None:
    """The findings keep their values, those of matchers too."""
    case = LLMTestCase(id="1", expected_output=ContainsAll("a", "b"), actual_output="a", required_texts=["x"])
    plain = evaluate([case], [TaskSuccessMetric()], show_progress=False).to_dict()
    findings = plain["cases"][0]["results"][0]["findings"]

    assert [(one["kind"], one["expected_value"]) for one in findings] == [
        ("missing_text", "x"),
        ("wrong_answer", {"$is": "contains_all", "values": ["a", "b"]}),
    ]
    assert LLMTestCase.from_json(case.to_json()) == case


# Calls


@pytest.mark.parametrize(
    ("expected_value", "value", "arguments"),
    [
        ("New York", " new  YORK ", 1),
        (12.5, "12.50", 1),
        ("12", 12, 1),
        ("007", 7, 0),
        (True, "true", 0),
        (["a", "b", "b"], ["B", "A", "B"], 1),
        (["a", "b", "b"], ["b", "a"], 2 / 3),
        (["a"], [], 0),
        ([], [], 1),
        ([{"n": "Ann"}, {"n": "Bo"}], [{"n": "ann"}, {"n": "Bob"}], 1 / 2),
        ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], 0),
        ({"to": {"city": "Rome"}}, {"to": {"city": "rome"}}, 1),
        (None, "null", 0),
    ],
)
def test_arguments_are_compared_by_meaning(expected_value: Any, value: Any, arguments: float) -> None:
    """A list of plain values is one leaf of partial credit; objects and lists of objects have their own leaves."""
    fields = {"expected_tools": [expected("book", x=expected_value)], "tools_called": [called("book", x=value)]}
    result = measured(**fields)
    exact = measured({"compare": "exact"}, **fields)

    assert result.parts["arguments"] == pytest.approx(arguments)
    assert result.parts["arguments"] >= exact.parts["arguments"]
    plan = Plan(fields["expected_tools"], allow_extra=False)
    planned = measured(expected_tools=plan, tools_called=fields["tools_called"])
    assert (planned.score, kinds(planned)) == (result.score, kinds(result))
    if arguments == 1:
        assert kinds(result) == (["equal_by_meaning"] if exact.parts["arguments"] < 1 else [])


def test_matchers_keep_their_own_comparison() -> None:
    """Only plain values are compared by meaning."""
    plan = Plan([Expect("book", {"a": IgnoreCase("X"), "b": "X", "c": Regex("X")})])
    result = measured(expected_tools=plan, tools_called=[called("book", a="x", b="x", c="x")])

    assert result.parts["arguments"] == pytest.approx(2 / 3)
    assert [finding.path for finding in result.findings] == ["$.input_parameters.c", "$.input_parameters.b"]


def test_effects_are_guessed_and_failures_looked_for_by_default() -> None:
    """Each result says what was guessed, and what is not known."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name="cancel_order")],
        tools_called=[
            ToolCall(name="cancel_order", output="Error: no such order", execution={"status": "ok"}),
            ToolCall(name="get_order"),
            ToolCall(name="cancel_order", output="done", execution={"status": "ok"}),
            ToolCall(name="frobnicate"),
        ],
    )
    result = TaskSuccessMetric().measure(case)

    assert result.score == 1
    assert kinds(result) == ["error_text", "unknown_effect"]
    assert result.warnings == (
        "1 call left out that did nothing: called #1 'cancel_order'",
        "1 call recorded by the answer alone: a failure in words of its own is not detected",
        "2 calls without a recorded status: taken as successful",
        "effects guessed from the names of tools: read: 'get_order'; write: 'cancel_order'",
        "1 call not scored, since the effect of the tool is unknown: 'frobnicate'",
        "if those calls changed something, the score is 0.6667",
    )
    with ErrorTexts(None).applied():
        assert TaskSuccessMetric().measure(case).score == pytest.approx(2 / 3)


def test_a_case_that_expects_only_reads_asks_for_little() -> None:
    """A warning says what a run without calls scores, unless the case states what the agent must say."""
    fields: dict[str, Any] = {"expected_tools": [expected("look")], "tools_called": [], "ended": True, "ends": "ok"}
    advice = "only reads are expected, so a run without calls scores 0.98; state required_texts or expected_output"

    assert measured(**fields).score == 0.98
    assert measured(**fields).warnings[0].startswith(advice)
    assert not measured(**fields, required_texts=["x"], agent_texts=["x"]).warnings
    assert not measured(expected_tools=[], tools_called=[]).warnings


def test_forbidden_calls() -> None:
    """By the option or by a plan; a case that does not state the calls is checked too."""
    calls = [called("book", day=1), called("drop")]

    assert measured({"forbidden": ["dr*"]}, **{**CALLS, "tools_called": calls}).parts["forbidden"] == 0
    assert measured({"forbidden": ["dr*"]}, **CALLS).parts["forbidden"] == 1
    plan = Plan([expected("book", day=1), Forbid("drop")])
    assert measured(expected_tools=plan, tools_called=calls).score == 0
    only_answer = {"expected_output": "x", "actual_output": "x", "tools_called": calls}
    assert measured(**only_answer).score == 1
    forbidden = measured({"forbidden": ["drop"]}, **only_answer)
    assert (forbidden.score, forbidden.parts["forbidden"], kinds(forbidden)) == (0, 0, ["forbidden"])
    failed = [ToolCall(name="drop", execution={"status": "error"})]
    assert measured({"forbidden": ["drop"]}, **{**only_answer, "tools_called": failed}).score == 1


def test_a_type_that_differs_is_not_the_right_tool() -> None:
    """A call of another type has no similarity."""
    result = measured(
        expected_tools=[ToolCall(name="book", type="mcp")], tools_called=[ToolCall(name="book", type="function")]
    )

    assert (result.score, result.parts["effects"]) == (0, 0)


# Turns


@pytest.mark.parametrize(
    ("plan", "score"),
    [
        ([expected("book", 1, n=1), expected("book", 2, n=2)], 1),
        ([expected("book", 2, n=1), expected("book", 1, n=2)], 0.5),
        ([expected("book", 1, n=1), expected("book", n=2)], 1),
        ([expected("look", 1), expected("book", 1, n=1), expected("book", 2, n=2)], 1),
        ([expected("look", 2), expected("book", 1, n=1), expected("book", 2, n=2)], 0.98),
        ([Expect("book", {"n": 1}, turn=1, label="a"), Expect("book", {"n": 2}, turn=2, after=["a"])], 1),
        ([expected("book", 1, n=1), OneOf(Expect("book", {"n": 2}, turn=2), expected("book", 3, n=2))], 1),
        ([Expect("book", turn=1, times=(0, 3)), expected("book", n=2)], 1),
        ([Expect("book", {"n": 1}, turn=1), expected("book", n=2), Expect("pay", turn=1, optional=True)], 1),
    ],
)  # fmt: skip
def test_calls_in_their_turns(plan: list[Any], score: float) -> None:
    """Reads and writes are compared within their turn, in lists and in plans."""
    calls = [called("look", 1), called("book", 1, n=1), called("book", 2, n=2)]
    for form in (plan, Plan(plan)) if all(isinstance(item, ToolCall) for item in plan) else (Plan(plan),):
        result = measured(expected_tools=form, tools_called=calls)

        assert result.score == pytest.approx(score)


def test_turns_of_recorded_messages() -> None:
    """Turns count the messages of the user; a run with one of them has one turn, and so has a run of a recorder."""
    ask = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "book", "arguments": "{}"}}]}
    answer = {"role": "tool", "tool_call_id": "1", "content": "ok"}
    first = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    long = run_from_messages(
        [*first, {"role": "user", "content": "c"}, ask, answer, {"role": "assistant", "content": "d"}]
    )
    short = run_from_messages([*first[:1], ask, answer, {"role": "assistant", "content": "d"}])

    assert [call.turn for call in long.calls] == [2]
    assert long.agent_texts == ["b", "d"]
    for run, turn in ((long, 2), (short, 1), (Run(input="a", calls=[called("book")]), 1)):
        metric = TaskSuccessMetric(effects=EFFECTS)
        assert metric.measure(run.to_test_case(expected_tools=[expected("book", turn)])).score == 1
        assert metric.measure(run.to_test_case(expected_tools=[expected("book", 3)])).score == 0


# What the agent said, and how the run ended


@pytest.mark.parametrize(
    ("required", "text", "is_said"),
    [
        ("120", "It costs $120.00", True),
        ("1120", "It costs 1,120 EUR", True),
        ("20", "It costs 120", False),
        ("481.5", "481.50", True),
        ("5", "from 5-10", True),
        ("10", "from 5-10", True),
        ("-5", "it is -5 degrees", True),
        ("-5", "it is 5 degrees", False),
        ("New York", "to new\nyork.", True),
        ("Paris", "to Rome", False),
        ("Café", "Cafe\u0301", True),
    ],
)
def test_required_texts(required: str, text: str, is_said: bool) -> None:
    """Texts are found in any case and spacing, numbers as numbers."""
    result = measured(required_texts=[required], agent_texts=["first", text, "last"], tools_called=[])

    assert result.parts["required_texts"] == is_said
    assert kinds(result) == ([] if is_said else ["missing_text"])


def test_required_texts_of_a_case_that_has_only_its_answer() -> None:
    """They are looked for in the answer, with a warning."""
    result = measured(required_texts=["x"], actual_output="x")

    assert result.score == 1
    assert "required texts were looked for in the final answer alone, since no other texts were recorded" in (
        result.warnings
    )
    assert measured(required_texts=["x"], actual_output="y", agent_texts=["x", "y"]).score == 1


@pytest.mark.parametrize(
    ("expected_output", "answer", "credit"),
    [
        ("The total is 12.50 EUR", "Total: 12.5 eur", 1),
        ("The total is 12.50 EUR", "The total is 12.51 EUR", 0),
        ("the aisle seat", "the window seat", 2 / 3),
        ("Paris", "PARIS!", 1),
        ("", "anything", 1),
        ("!?", "what!?", 1),
        ("!?", "what", 0),
        ("1,200", "1200.0", 1),
        (ContainsAll("a b", "c"), "A  b", 1 / 2),
        (ContainsAll("x", Approx(3, abs=0.5)), "x 3.4", 1),
        (Contains("12"), "120", 0),
        (Contains(Approx(12)), "12.0", 1),
        (Approx(100, rel=0.01), "about 99.5 percent", 1),
        (Approx(100, rel=0.01), "about 1,100", 0),
        (AnyOf("yes", "of course"), "Of course!", 1),
        (AnyOf("yes", Approx(7)), "It is 7", 1),
        (AnyOf("yes", 7), "It is 7", 1),
        (AnyOf("yes", 7), "It is 8", 0),
        (Regex("[a-z]+"), "abc", 1),
        (Regex("[a-z]+"), "abc.", 0),
        (IgnoreCase("abc"), "ABC", 1),
    ],
)
def test_answers(expected_output: Any, answer: str, credit: float) -> None:
    """A text gives the share of its values, or words; matchers look for texts and numbers in the answer."""
    result = measured(expected_output=expected_output, actual_output=answer)

    assert result.parts["answer"] == pytest.approx(credit)
    assert result.score == pytest.approx((1 + credit) / 2)
    assert kinds(result) == ([] if credit == 1 else ["wrong_answer"])


def test_the_reason_names_what_the_answer_lacks() -> None:
    """The first five values, as the expected text spells them; none of a secret."""
    few = measured(expected_output="Zoë Smith, pay 1,060 Euro on May 3", actual_output="Ann Smith on 3 May")
    many = measured(expected_output=f"It is {' or '.join(map(str, range(25)))}", actual_output=" or ".join("012345678"))
    secret = measured(expected_output="Its password=Hunter22 opens door twenty-one", actual_output="")

    assert str(few.reason).split("\n")[:4] == [
        "total: (1 + answer 0.5) / 2 = 0.75 (failed at 0.98).",
        "Answer: 2 of 4 numbers, ids and names of the expected answer = 0.5.",
        'The answer does not say "Zoë".',
        'The answer does not say "1,060 Euro".',
    ]
    assert [one.message for one in many.findings] == [f'The answer does not say "{one}".' for one in range(9, 14)]
    assert [one.message for one in secret.findings] == [f'The answer does not say "{REDACTED}".'] * 2
    assert "unter22" not in json.dumps(secret.to_dict())


def test_an_answer_that_lacks_one_of_many_values_fails() -> None:
    """However many it has."""
    values = [f"A{number}" for number in range(99)]
    result = measured(expected_output=" and ".join(values), actual_output=" and ".join(values[1:]))

    assert result.parts["answer"] == 0.9
    assert not result.passed


def test_answer_without_actual_output() -> None:
    """The last text is the answer; a run that ended without one has an empty answer."""
    assert measured(expected_output="b", agent_texts=["a", "b"]).score == 1
    assert measured(expected_output="b", agent_texts=[]).score == 0.5
    answered = Run(input="q", actual_output="b")
    assert TaskSuccessMetric().measure(answered.to_test_case(expected_output="b")).score == 1
    stopped = Run(input="q", status=RunStatus.STOPPED)
    assert TaskSuccessMetric().measure(stopped.to_test_case(expected_output="b")).score == 0.5


def test_images_are_left_out() -> None:
    """Only texts of a multimodal case are compared."""
    image = MLLMImage(url="u")
    case = MLLMTestCase(expected_output=["a", image], actual_output=["b a", image], required_texts=["b"])

    assert TaskSuccessMetric().measure(case).score == 1
    assert MLLMTestCase(expected_output=Contains("a")).to_dict() == {
        "expected_output": {"$is": "contains", "value": "a"}
    }


@pytest.mark.parametrize(
    ("run", "has_ended"),
    [
        (Run(input="q", actual_output="a"), True),
        (Run(input="q", status=RunStatus.STOPPED), False),
        (Run(input="q", status=RunStatus.ERROR, error="x"), False),
        (Run(input="q", status=RunStatus.INTERRUPTED), False),
        (Run(input="q", status=RunStatus.STOPPED, calls=[called("transfer_to_human_agent")]), True),
        (Run(input="q", status=RunStatus.STOPPED, error="limit", calls=[called("transfer_to_human_agent")]), False),
        (Run(input="q", status=RunStatus.STOPPED, calls=[called("book")]), False),
        (
            Run(
                input="q",
                status=RunStatus.STOPPED,
                calls=[ToolCall(name="transfer_to_human_agent", execution={"status": "error"})],
            ),
            False,
        ),
    ],
)
def test_the_end_of_a_recorded_run(run: Run, has_ended: bool) -> None:
    """Its status says it; after a hand-over to a person the run is over, which is a guess with a warning."""
    result = TaskSuccessMetric(effects={"*": "read"}).measure(run.to_test_case(expected_tools=[], ends="ok"))

    assert result.parts["ended"] == has_ended
    assert any("seems to hand the conversation over" in text for text in result.warnings) is (
        has_ended and bool(run.calls)
    )
    case = run.to_test_case(ends="ok").model_copy(update={"ended": not has_ended})
    assert TaskSuccessMetric().measure(case).parts["ended"] == (not has_ended)


# What is missing


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"expected_tools": []}, "tools_called"),
        ({"ends": "ok"}, "ended"),
        ({"required_texts": ["x"]}, "agent_texts or actual_output"),
        ({"expected_output": "x"}, "actual_output"),
        ({"expected_tools": [expected("book", 1)], "tools_called": [called("book")]}, "the turn of the tools_called"),
        ({"ends": "ok", "run": Run(calls=[], warnings=["a note on the record"])}, "ended"),
    ],
)
def test_a_stated_part_that_cannot_be_compared_is_an_error(fields: dict[str, Any], field: str) -> None:
    """Otherwise a case could score 1 although it was not compared as a whole."""
    with pytest.raises(MissingFieldError, match=f"TaskSuccessMetric needs {field}") as caught:
        measured(id="c7", **fields)
    assert "of case 'c7'" in str(caught.value)
    (result,) = evaluate([LLMTestCase(**fields)], [TaskSuccessMetric()], show_progress=False).cases[0].own_results
    assert result.status is ResultStatus.ERRORED


def test_options() -> None:
    """They are checked and shown in the label."""
    assert TaskSuccessMetric().label == "task_success"
    label = TaskSuccessMetric(
        calls_only=True,
        compare="exact",
        guess_effects=False,
        ignore_failed=False,
        read_weight=0.1,
        forbidden=["x"],
        strict_mode=True,
    ).label
    parts = "calls only, not guessed, with failed calls, exact arguments, forbidden, read_weight=0.1, strict"
    assert label == f"task_success({parts})"
    for options in ({"compare": "loosely"}, {"read_weight": 2}, {"threshold": -1}, {"effects": {"a": "x"}}):
        with pytest.raises(ConfigurationError):
            TaskSuccessMetric(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="MLLMTestCase"):
        TaskSuccessMetric().measure("case")


# Recorded runs with a real outcome: docs/validity.md has all figures; these are the floors.

SHARED = Path(os.environ.get("TOOLGRADE_SHARED", "../shared")) / "data"


def recorded(path: Path) -> list[tuple[LLMTestCase, bool]]:
    """The runs of a file of SOURCE.md in tests' own form, with their outcome."""
    runs: list[tuple[LLMTestCase, bool]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        calls = [
            ToolCall(
                name=call["name"],
                input_parameters=call["args"],
                execution={"status": "error" if call["failed"] else "ok", "executed": True},
            )
            for call in run["called"]
        ]
        case = LLMTestCase(
            expected_tools=[expected(call["name"], **call["args"]) for call in run["expected"]],
            tools_called=calls,
            agent_texts=run["said"],
            required_texts=run["required_texts"],
            ended=run["ended"],
            ends="ok",
        )
        runs.append((case, run["reward"] >= 1))
    return runs


@pytest.mark.parametrize(("name", "least"), [("tau-retail", 0.97), ("tau-retail-subtasks", 0.96)])
def test_recorded_runs(name: str, least: float) -> None:
    """The score separates solved from unsolved runs."""
    path = SHARED / "validity" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the recorded runs are not here")
    runs = recorded(path)
    scores = [float(TaskSuccessMetric().measure(case)) for case, _ in runs]

    assert (auc(scores, [is_solved for _, is_solved in runs]) or 0) >= least


def test_recorded_airline_runs_read_as_messages() -> None:
    """All that the metric needs is in the messages: texts, failures, and how each run ended."""
    path = SHARED / "tau-airline" / "runs.jsonl"
    if not path.exists():
        pytest.skip("the recorded runs are not here")
    cases = [
        case.model_copy(update={"required_texts": case.metadata["required_texts"], "ends": "ok"})
        for case in read_cases(path)
    ]
    scores = [float(TaskSuccessMetric().measure(case)) for case in cases]

    assert (auc(scores, [case.metadata["reward"] >= 1 for case in cases]) or 0) >= 0.99
