"""The first problem of a result: selection and one-line wording."""

import dataclasses
import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    Finding,
    LLMTestCase,
    MetricResult,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
)
from toolgrade.expect import Approx, Expect, Forbid, Glob, Plan
from toolgrade.report.text.first_problem import brief, first_divergence, first_problem
from toolgrade.result import FindingKind

ORDERED = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters"])
HOSTILE = "[red]x \x1b[31m\u202e\r\n|`<b>\x00\u2028"


def tool(name: str, arguments: dict[str, Any] | None = None) -> ToolCall:
    """A call."""
    return ToolCall(name=name, **({} if arguments is None else {"input_parameters": arguments}))


def result(expected: Any, called: list[ToolCall]) -> MetricResult:
    """The ordered result of these calls."""
    return ORDERED.measure(LLMTestCase(expected_tools=expected, tools_called=called))


def calls(names: str) -> list[ToolCall]:
    """A call for each letter."""
    return [tool(name) for name in names]


# Wording


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (Finding("missing", "", "refund", expected=1), "e2 refund: not called"),
        (Finding("unexpected", "", "book", called=2), "c3 book: not expected"),
        (Finding("out_of_order", "", "mail", 3, 0), "c1 mail: out of order"),
        (Finding("not_parallel", "", "mail", 3, 0), "c1 mail: not in parallel"),
        (
            Finding("wrong_argument", "", "weather", 0, 1, "$.input_parameters.city", "London", "Paris"),
            'c2 weather: args.city "Paris", expected "London"',
        ),
        (
            Finding("missing_argument", "", "mail", 0, 0, "$.input_parameters.cc", expected_value=["x"]),
            'c1 mail: args.cc missing, expected ["x"]',
        ),
        (Finding("missing_argument", "", "mail", 0, 0, "$.input_parameters.cc"), "c1 mail: args.cc missing"),
        (
            Finding("extra_argument", "", "mail", 0, 0, '$.input_parameters["a b"][2].c', called_value=None),
            'c1 mail: args["a b"][2].c null, not expected',
        ),
        (
            Finding("wrong_argument", "", "pay", 0, 0, "$.input_parameters", {"a": 1}, {}),
            'c1 pay: args {}, expected {"a":1}',
        ),
        (
            Finding("wrong_argument", "", "pay", 0, 0, "$.input_parameters.sum", Approx(5), 7),
            f"c1 pay: args.sum 7, expected {Approx(5).describe()}",
        ),
        (Finding("wrong_output", "", "pay", 0, 0, "$.output", None, {"ok": True}), None),
        (Finding("wrong_type", "", "pay", 0, 0, "$.type", "mcp", "function"), None),
        (Finding("not_compared", "", "pay", 0, 0, "$.output"), "c1 pay: output not recorded"),
        (Finding("over_budget", "", ""), "all calls: over budget"),
        (Finding("missing_text", "", "", expected_value="12A"), 'the agent: did not say "12A"'),
        (Finding("wrong_answer", "", "", expected_value=Approx(3)), f"the answer: does not fit {Approx(3).describe()}"),
        (Finding("not_ended", "", ""), "the run: did not come to its own end"),
        (Finding("no_answer", "", ""), "the run: has no answer"),
        (Finding("admits_failure", "", ""), "the answer: admits a failure"),
        (Finding("missing_call", "", "", turn=4), "turn 4 a call: needed, not called"),
        (Finding("wrong_tool", "", "look", called=0, turn=4), "turn 4 c1 look: not the right tool"),
        (Finding("schema_violation", "", "look", called=0, path="$.input_parameters"), None),
    ],
    ids=lambda value: value.kind if isinstance(value, Finding) else "",
)
def test_a_finding_in_a_few_words(finding: Finding, line: str | None) -> None:
    """Place, tool and problem; `c` numbers called ones, `e` expected ones, from 1."""
    special = {
        "wrong_output": 'c1 pay: output {"ok":true}, expected null',
        "wrong_type": 'c1 pay: type "function", expected "mcp"',
        "schema_violation": "c1 look: args does not fit the schema",
    }

    assert brief(finding).replace('": ', '":') == (line or special[finding.kind]).replace('": ', '":')


@pytest.mark.parametrize("kind", get_args(FindingKind))
@pytest.mark.parametrize("path", [None, "$.input_parameters.x", "$.output"])
def test_every_kind_has_words(kind: FindingKind, path: str | None) -> None:
    """Also where next to nothing is known, in one line without the names that only code has."""
    for finding in (Finding(kind, "m", "look", path=path), Finding(kind, "m", "", 1, 2, path, 3, 4, 5)):
        text = brief(finding)

        assert re.fullmatch(r"(turn 6 c3 )?\S[^:]*: \S.*\S", text)
        assert not re.search(r"ABSENT|Absent|_|\$|None", text.replace("look", ""))


def test_nothing_in_it_is_obeyed_or_long() -> None:
    """Names, keys and values are escaped and shortened on one line."""
    finding = Finding("wrong_argument", "", HOSTILE * 50, 0, 0, f"$.input_parameters.{HOSTILE * 50}", HOSTILE * 50, 1)
    text = first_problem(
        MetricResult(metric="m", status=ResultStatus.SCORED, threshold=1, score=0, findings=(finding,))
    )

    assert text.isprintable()
    assert len(text) <= 200
    assert text.startswith("c1 [red]x \\x1b[31m\\u202e")


def test_values_are_shortened() -> None:
    """Values and matchers alike, so that both sides and the tool stay on the line."""
    long = Glob("x" * 90 + "*")
    finding = Finding("wrong_argument", "", "pay", 0, 0, "$.input_parameters.to", long, "y" * 90)

    assert re.fullmatch(r'c1 pay: args.to "y{24}\.\.\.y{11}", expected .{25}\.\.\..{12}', brief(finding))


# Which comes first


@pytest.mark.parametrize(
    ("expected", "called", "line"),
    [
        ("abc", "abc", None),
        ("abc", "ab", "e3 c: not called"),
        ("abc", "bc", "e1 a: not called"),
        ("abc", "xabc", "c1 x: not expected"),
        ("abc", "axbc", "c2 x: not expected"),
        ("abc", "axb", "e3 c: not called"),  # a further call costs no score
        ("abcd", "acxd", "e2 b: not called"),
        ("abcd", "bxcd", "e1 a: not called"),
        ("a", "b", "e1 a: not called"),
        ("", "b", "c1 b: not expected"),
        ("WQW", "WWQ", "c2 W: out of order"),
    ],
)
def test_the_earliest_comes_first(expected: str, called: str, line: str | None) -> None:
    """A missing call stands behind the call made for the one expected before it; at one place it comes first."""
    first = first_divergence(result(calls(expected), calls(called)))

    assert (first and brief(first)) == line


names = st.text("abc", max_size=6)


@given(names, names)
def test_calls_before_the_first_problem_match(expected: str, called: str) -> None:
    """Each matches in order, or is a further call, which costs no score; without findings there is no problem."""
    measured = result(calls(expected), calls(called))
    first = first_divergence(measured)
    alignment = measured.alignment
    assert alignment is not None
    right = {pair.called: pair.expected for pair in alignment.pairs if pair.similarity == 1}
    further = {finding.called for finding in measured.findings if finding.kind == "unexpected"}

    if first is None:
        assert expected == called
    elif first.kind == "unexpected":
        assert len(further) == len(measured.findings)  # nothing that costs score is left
        assert first.called == min(position for position in range(len(called)) if position not in right)
    elif first.called is not None:
        assert first.called not in right
        assert all(position in right or position in further for position in range(first.called))
        for gap in alignment.missing:  # each stands behind a right call that was made later
            assert any(at > first.called for at, place in right.items() if place < gap)
    else:
        before = {at for at, place in right.items() if place < (first.expected or 0)}
        assert all(at in before or at in further for at in range(max(before, default=-1)))


def test_a_forbidden_call_comes_before_all() -> None:
    """Since it alone makes the score 0, wherever it stands."""
    measured = result(
        Plan([Expect("look"), Expect("pay"), Forbid("wipe")]), [*calls("x"), *map(tool, ["look", "wipe"])]
    )

    assert first_problem(measured).startswith("c3 wipe: forbidden (+")


def test_harmless_findings_come_last() -> None:
    """An incomplete recording is named only without other findings, and the others are counted."""
    blind = ToolCall(name="look", execution={"not_captured": ["input_parameters"]})
    expected = [tool("look", {"n": 1}), tool("pay")]

    assert first_problem(result(expected[:1], [blind])) == "c1 look: args not recorded"
    assert first_problem(result(expected, [blind])) == "e2 pay: not called (+1)"


def test_turns_decide_before_positions() -> None:
    """In a conversation the second call of the first turn comes before the first of the second."""
    findings = (Finding("wrong_tool", "", "b", called=0, turn=2), Finding("wrong_tool", "", "a", called=1, turn=1))
    measured = MetricResult(metric="m", status=ResultStatus.SCORED, threshold=1, score=0, findings=findings)

    assert first_problem(measured) == "turn 1 c2 a: not the right tool (+1)"


def test_findings_without_a_position_come_last() -> None:
    """A budget concerns all calls."""
    findings = (Finding("over_budget", "", ""), Finding("redundant", "", "look", called=7))
    measured = MetricResult(metric="m", status=ResultStatus.SCORED, threshold=1, score=0, findings=findings)

    assert first_problem(measured) == "c8 look: redundant call (+1)"


def test_values_that_count_as_equal_are_not_problems() -> None:
    """They are neither shown nor counted."""
    equal = Finding("equal_by_meaning", "", "look", 0, 0, "$.input_parameters.x", "A", "a")
    others = (equal, Finding("unexpected", "", "pay", called=1), equal)
    measured = MetricResult(metric="m", status=ResultStatus.SCORED, threshold=1, score=0, findings=others)

    assert first_problem(measured) == "c2 pay: not expected"
    assert first_problem(dataclasses.replace(measured, findings=(equal,))) == ""


# The line of a result


@pytest.mark.parametrize(
    ("status", "reason", "error", "line"),
    [
        (ResultStatus.ERRORED, "Not measured: torn", "ValueError: torn", "torn"),
        (ResultStatus.ERRORED, None, "ValueError: torn\napart", "ValueError: torn\\napart"),
        (ResultStatus.ERRORED, None, None, ""),
        (ResultStatus.SKIPPED, "no call\nNote: more", None, "no call"),
        (ResultStatus.SCORED, "1 / 1", None, ""),
    ],
)
def test_results_without_findings(status: ResultStatus, reason: str | None, error: str | None, line: str) -> None:
    """The reason for a missing score on one line; nothing for a score without findings."""
    measured = MetricResult(metric="m", status=status, threshold=1, reason=reason, error=error)

    assert first_problem(measured) == line
