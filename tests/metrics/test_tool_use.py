"""`ToolUseMetric`: units, means, the lower score, options, and display."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest

from judging import RuleJudge
from toolgrade import (
    ConfigurationError,
    ConversationalTestCase,
    Execution,
    LLMTestCase,
    MissingFieldError,
    ToolCall,
    ToolUseMetric,
    Turn,
    evaluate,
    evaluate_async,
)
from toolgrade.judge import Judge

TOOLS = [
    {"name": "find", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}},
    {"name": "book"},
]


def conversation(*units: list[ToolCall], **fields: Any) -> ConversationalTestCase:
    """A conversation of units with these calls."""
    turns = [
        turn
        for number, calls in enumerate(units)
        for turn in (
            Turn(role="user", content=f"question {number}"),
            Turn(role="assistant", content=f"answer {number}", tools_called=calls),
        )
    ]
    return ConversationalTestCase(turns=turns, **fields)


def find(q: object = "x") -> ToolCall:
    """A call whose arguments fit if `q` is a text."""
    return ToolCall(name="find", input_parameters={"q": q})


def book() -> ToolCall:
    """A call without arguments."""
    return ToolCall(name="book")


def rule(criterion: str, document: dict[str, Any]) -> Any:
    """Booking is the wrong tool; arguments with the letter w are wrong; the last question lacked a call."""
    if criterion == "missing_calls":
        return ["t2"] if "question 2" in str(document["request"]) else "yes"
    call = document["call"]
    if criterion == "tool_selection":
        return "no" if call["name"] == "book" else "yes"
    return "no" if "w" in str(call["arguments"]) else "yes"


def test_the_lower_of_two_means() -> None:
    """Selection over all units, arguments over those with calls; the reason shows both sums."""
    case = conversation([find(), book()], [find("w"), find("v"), find(3)], [])
    result = ToolUseMetric(TOOLS, judge=RuleJudge(rule)).measure(case)

    assert [(unit.selection, unit.arguments) for unit in result.units] == [(0.5, 1), (1, 1 / 3), (0, None)]
    assert (result.parts["selection"], result.parts["arguments"]) == (0.5, pytest.approx(2 / 3))
    assert (result.score, result.passed) == (0.5, True)
    assert str(result.reason).split("\n") == [
        "min(selection 0.5, arguments 0.6667) = 0.5 (passed at 0.5).",
        "Selection: mean of 3 units (0.5, 1, 0) = 0.5.",
        "Arguments: mean of 2 units (1, 0.3333) = 0.6667.",
        "Wrong tool: turn 1, called #2 'book': I say no.",
        "Wrong arguments: turn 2, called #3 'find': I say no.",
        "turn 2, called #5 'find': $.input_parameters.q does not fit type 'string'.",
        "Missing: turn 3, a call of 'book' was needed: I say no.",
    ]
    assert [finding.kind for finding in result.findings] == [
        "wrong_tool",
        "wrong_arguments",
        "schema_violation",
        "missing_call",
    ]


def test_questions_of_a_conversation() -> None:
    """One for each call and criterion and one for each unit, without decisions by code."""
    judge = RuleJudge("yes")
    ToolUseMetric(TOOLS, judge=judge).measure(conversation([find(), find(3), ToolCall(name="gone")], []))

    assert judge.criteria == [
        *["arguments"] * 1,
        *["missing_calls"] * 2,
        *["tool_selection"] * 2,
    ]


def test_arguments_of_an_unknown_tool_are_not_judged() -> None:
    """There is no schema to compare; the call already costs selection."""
    result = ToolUseMetric(TOOLS, judge=RuleJudge("yes")).measure(conversation([ToolCall(name="gone")]))

    assert (result.parts["selection"], "arguments" in result.parts, result.score) == (0, False, 0)


def test_units_without_calls() -> None:
    """1 where the judge says that no call was needed, else 0."""
    right = ToolUseMetric(TOOLS, judge=RuleJudge("yes")).measure(conversation([]))
    wrong = ToolUseMetric(TOOLS, judge=RuleJudge({"missing_calls": ["t1", "t2"]})).measure(conversation([]))
    nothing = ToolUseMetric([], judge=RuleJudge(lambda *_: pytest.fail("asked"))).measure(conversation([]))

    assert (right.score, wrong.score, nothing.score) == (1, 0, 1)
    assert "no call was made, and none was needed = 1" in str(right.reason)
    assert [finding.tool for finding in wrong.findings] == ["find", "book"]


def test_a_part_the_judge_did_not_answer_fails_the_result() -> None:
    """Without an answer about arguments the selection score alone would be too high."""
    judge = RuleJudge(lambda criterion, _: ValueError("boom") if criterion == "arguments" else "yes")
    result = ToolUseMetric(TOOLS, judge=judge).measure(conversation([find()]))

    assert (result.status.value, result.score) == ("errored", None)
    assert "arguments: the judge decided none of 1 question (1 transient): ValueError: boom" in str(result.error)
    assert result.units[0].selection == 1


def test_arguments_that_were_not_recorded_are_open() -> None:
    """They are open and counted in the coverage."""
    lost = ToolCall(name="find", execution=Execution(not_captured=["input_parameters"]))
    result = ToolUseMetric(TOOLS, judge=RuleJudge("yes")).measure(conversation([find(), lost]))

    assert (result.score, result.parts["arguments_low"], result.parts["coverage"]) == (1, 0.5, 0.8)


def test_strict_mode() -> None:
    """Threshold 1, and a score below 1 becomes 0."""
    metric = ToolUseMetric(TOOLS, judge=RuleJudge(rule), strict_mode=True)
    result = metric.measure(conversation([find(), book()]))

    assert (result.score, result.threshold, result.passed, metric.label) == (0, 1, False, "tool_use(strict)")
    assert ", strict: 0 (failed at 1)" in str(result.reason)
    assert metric.measure(conversation([find()])).score == 1


def test_options() -> None:
    """`model` is another name of `judge`; reasons can be switched off; the defaults are those of the page."""
    metric = ToolUseMetric(TOOLS, model=RuleJudge("yes"), include_reason=False)
    result = metric.measure(conversation([find()]))

    assert (result.score, result.reason) == (1, None)
    assert metric.threshold == 0.5
    with pytest.raises(ConfigurationError, match="two names of one option"):
        ToolUseMetric(judge=RuleJudge(), model=RuleJudge())
    with pytest.raises(ConfigurationError, match="threshold"):
        ToolUseMetric(threshold=2)


def test_async_mode() -> None:
    """Without it, questions about a case are sent sequentially."""
    most = {True: 0, False: 0}
    for mode in (True, False):
        running = 0

        async def judge(messages: Any, mode: bool = mode) -> str:
            nonlocal running
            running += 1
            most[mode] = max(most[mode], running)
            await asyncio.sleep(0.001)
            running -= 1
            return RuleJudge("yes")(messages)

        ToolUseMetric(TOOLS, judge=judge, async_mode=mode).measure(conversation([find()] * 4))
    assert most[False] == 1
    assert most[True] > 1


def test_verbose_mode(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the result."""
    ToolUseMetric(TOOLS, judge=RuleJudge("yes"), verbose_mode=True).measure(conversation([find()], id="talk"))
    assert "min(selection 1, arguments 1) = 1" in capsys.readouterr().out


def test_other_cases_and_missing_tools() -> None:
    """A case of one question is a conversation of one turn; the tools must be defined, if only as empty."""
    metric = ToolUseMetric(judge=RuleJudge())
    with pytest.raises(MissingFieldError, match="ToolUseMetric needs tools_called"):
        metric.measure(LLMTestCase(input="?"))
    with pytest.raises(MissingFieldError, match="needs available_tools of case 'a'"):
        metric.measure(conversation([], id="a"))
    assert evaluate([conversation([])], [metric]).cases[0].results[0].status.value == "errored"


def test_a_conversation_without_units_is_skipped() -> None:
    """There is nothing to judge, and the judge is not called."""
    case = ConversationalTestCase(turns=[Turn(role="assistant", content="Welcome!")])
    result = ToolUseMetric(TOOLS, judge=RuleJudge(lambda *_: pytest.fail("asked"))).measure(case)

    assert (result.status.value, result.score) == ("skipped", None)
    assert "not judged" in str(result.reason)


def test_results_are_data() -> None:
    """A result goes through pickle, and through JSON with units, questions, judge, usage and cost."""
    metric = ToolUseMetric(TOOLS, judge=RuleJudge(rule))
    result = metric.measure(conversation([find(), book()]))

    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - our own
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["judge"] == {"model": "RuleJudge", "prompts": "2", "samples": "1"}
    assert plain["units"][0]["selection"] == 0.5
    assert plain["units"][0]["questions"][0]["decision"] == "yes"
    assert plain["usage"] == {"requests": 5}


def test_evaluate_and_its_async_twin_agree() -> None:
    """The same results in the same order."""
    cases = [conversation([find()] * (i % 3), [book()] * (i % 2), id=str(i)) for i in range(8)]
    metric = ToolUseMetric(TOOLS, judge=RuleJudge(rule))

    one = evaluate(cases, [metric], max_concurrency=3)
    other = asyncio.run(evaluate_async(cases, [metric], max_concurrency=3))
    assert [(entry.label, result.score) for entry, result in one.results()] == [
        (entry.label, result.score) for entry, result in other.results()
    ]
    assert [entry.label for entry, _ in one.results()] == [str(i) for i in range(8)]


def test_prompts_can_be_listed() -> None:
    """The prompts without sending them, for use elsewhere."""
    judge = Judge(RuleJudge(rule))
    metric = ToolUseMetric(TOOLS, judge=judge)
    case = conversation([find(), book()])
    prompts = metric.prompts(case)

    assert [prompt.name for prompt in prompts] == [
        "tool_selection",
        "arguments",
        "tool_selection",
        "arguments",
        "missing_calls",
    ]
    metric.measure(case)
    assert all(judge.cached(prompt) is not None for prompt in prompts)
