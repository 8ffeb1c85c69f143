"""Parts of the HTML report: both sides place by place, and the timeline."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given

from pages import BEGAN, timed
from strategies import few, json_values
from toolgrade import LLMTestCase, MetricResult, Report, ResultStatus, ToolCall, ToolCorrectnessMetric
from toolgrade._internal.text import printable_lines
from toolgrade.expect import Approx, Expect, Ignore, Plan
from toolgrade.matching.json_compare import json_equal
from toolgrade.report import CaseResult
from toolgrade.report.html.messages import problem_text, timeline, value_text
from toolgrade.report.html.page import page_template
from toolgrade.report.html.totals import segments
from toolgrade.report.redaction import redact
from toolgrade.report.text.side_by_side import CallRow, rows

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"])


def compared(expected: ToolCall, called: ToolCall, **options: Any) -> list[CallRow]:
    """The lines of one pair of calls."""
    case = LLMTestCase(tools_called=[called], expected_tools=[expected])
    return rows(METRIC.measure(case), case, **options)


def redacted(expected: ToolCall, called: ToolCall) -> str:
    """The lines of one pair of calls, place by place, after redaction."""
    case = LLMTestCase(tools_called=[called], expected_tools=[expected])
    return str(rows(redact(METRIC.measure(case)), case, nested=True))


def tool(arguments: dict[str, Any], **more: Any) -> ToolCall:
    """A call."""
    return ToolCall(name="a", input_parameters=arguments, **more)


# Both sides


def test_lists_and_outputs_are_compared_place_by_place() -> None:
    """Where a score takes a list or an output as a whole, the lines name the places at which the sides differ."""
    expected = tool({"stops": ["FRA", {"via": "MUC", "wait": 1}]}, output={"ok": True, "seats": [1, 2]})
    called = tool({"stops": ["FRA", {"via": "ZRH", "wait": 1}, "LIS"]}, output={"ok": True, "seats": [1]})
    details = [(row.place, *row.values) for row in compared(expected, called, nested=True) if row.mark == "detail"]

    assert details == [
        ("stops[1].via", '"MUC"', '"ZRH"'),
        ("stops[2]", "(none)", '"LIS"'),
        ("output.seats[1]", "2", "(none)"),
    ]


def test_values_are_compared_as_in_the_score_by_default() -> None:
    """The terminal shows a list as a whole, with its path."""
    (_, detail) = compared(tool({"stops": [1, 2]}), tool({"stops": [1, 3]}))

    assert detail == CallRow("detail", "", "stops: [1, 2]", "", "stops: [1, 3]", "stops")
    assert detail.values == ("[1, 2]", "[1, 3]")


def test_many_differences_are_shown_as_a_whole() -> None:
    """Two long different lists do not fill the page."""
    expected, called = list(range(100)), [-value - 1 for value in range(100)]
    (_, detail) = compared(tool({"a": expected}), tool({"a": called}), nested=True)

    assert detail.place == "a"


def test_matchers_are_described() -> None:
    """Inside a list that is compared item by item, only the failing ones."""
    plan = Plan([Expect("a", {"sums": [Approx(1, abs=0.1), Approx(5, abs=0.1), Ignore()]})])
    case = LLMTestCase(tools_called=[tool({"sums": [1.05, 7, "x"]})], expected_tools=plan)
    details = [row for row in rows(METRIC.measure(case), case, nested=True) if row.mark == "detail"]

    assert [row.place for row in details] == ["sums[1]"]
    assert "5" in details[0].values[0]


def test_secrets_stay_hidden_place_by_place() -> None:
    """A secret key on the path hides the value; without redaction it is shown."""
    expected, called = tool({"auth": [{"password": "one-1"}]}), tool({"auth": [{"password": "two-2"}]})

    assert "one-1" not in redacted(expected, called)
    assert "one-1" in str(compared(expected, called, nested=True))


@few
@given(json_values(), json_values())
def test_differences_are_complete(expected: Any, called: Any) -> None:
    """Two values have lines if and only if they are not equal."""
    details = compared(tool({"a": expected}), tool({"a": called}), nested=True)[1:]

    assert bool(details) is not json_equal(expected, called)


# The timeline


def test_times_give_a_scale_of_time() -> None:
    """Bars begin and end where the calls did; calls inside of others stand behind them, one level deeper."""
    inner = timed("inner", {}, 1, 1)
    line = timeline([[timed("a", {}, 0, 5, children=[inner]), timed("b", {}, 5, 5, status="error")]])

    assert line is not None
    assert line["timed"]
    assert [(bar.call.label, bar.call.name, bar.call.level, bar.at, bar.width) for bar in line["bars"]] == [
        ("c1", "a", 0, 0, 500),
        ("", "inner", 1, 100, 100),
        ("c2", "b", 0, 500, 500),
    ]
    assert [problem_text(bar.call.execution) for bar in line["bars"]] == ["", "", "error"]
    assert [bar.words for bar in line["bars"]] == ["+0 s, 5 s", "+1 s, 1 s", "+5 s, 5 s"]


def stepped(*steps: int | None, agent: str | None = None) -> list[ToolCall]:
    """Calls without times, of these steps."""
    return [ToolCall(name="a", execution={"step": step, "agent": agent}) for step in steps]


def test_without_times_calls_of_one_step_are_parallel() -> None:
    """A call without a step is separate."""
    line = timeline([[*stepped(0, 0, 1), ToolCall(name="b"), ToolCall(name="c")]])

    assert line is not None
    assert not line["timed"]
    assert [bar.at for bar in line["bars"]] == [0, 0, 250, 500, 750]
    assert [bar.words for bar in line["bars"]] == [
        "step 1, 2 at once",
        "step 1, 2 at once",
        "step 2",
        "step 3",
        "step 4",
    ]


def test_steps_of_other_turns_and_agents_are_other_steps() -> None:
    """Steps count within their scope."""
    turns = timeline([stepped(0), stepped(0)])
    agents = timeline([[*stepped(0, agent="a"), *stepped(0, agent="b")]])

    assert [bar.at for bar in turns["bars"]] == [0, 500] if turns else False
    assert [bar.at for bar in agents["bars"]] == [0, 500] if agents else False


@pytest.mark.parametrize(
    "other",
    [
        ToolCall(name="b"),
        ToolCall(name="b", execution={"started_at": BEGAN.replace(tzinfo=None), "duration": 1}),
    ],
    ids=["not known", "without a zone"],
)
def test_incomplete_or_incomparable_times_are_ignored(other: ToolCall) -> None:
    """A time scale with guesses would be wrong."""
    line = timeline([[timed("a", {}, 0, 1), other]])

    assert line is not None
    assert not line["timed"]


def test_one_call_has_no_timeline() -> None:
    """There is nothing to compare it with; nor is there of none."""
    assert timeline([[timed("a", {}, 0, 1)]]) is None
    assert timeline([[], []]) is None


def test_bars_stay_on_the_scale() -> None:
    """Also those without a duration, at its very end; and a scale of no length has one."""
    instant = ToolCall(name="b", execution={"started_at": datetime(2026, 1, 1)})  # noqa: DTZ001 - no zone on purpose
    line = timeline([[instant, instant]])
    late = timeline([[timed("a", {}, 0, 3), timed("b", {}, 3, 0)]])

    for bars in (line, late):
        assert bars is not None
        assert all(bar.width > 0 and bar.at >= 0 and bar.at + bar.width <= 1000 for bar in bars["bars"])


def test_calls_nested_without_end_have_one_here() -> None:
    """Eight levels are shown, and at most 200 calls."""
    call = ToolCall(name="leaf")
    for _ in range(60):
        call = ToolCall(name="a", execution={"children": [call]})
    deep, wide = timeline([[call, call]]), timeline([[ToolCall(name="a")] * 250])

    assert deep is not None
    assert max(bar.call.level for bar in deep["bars"]) == 8
    assert wide is not None
    assert (len(wide["bars"]), wide["hidden"]) == (200, 50)


# Sums


def scored(*scores: float | None, threshold: float = 0.5) -> Report:
    """A report of one metric with these scores; `None` could not be measured."""
    results = [
        MetricResult(metric="m", status=ResultStatus.ERRORED, threshold=threshold, reason="broken")
        if score is None
        else MetricResult(
            metric="m", status=ResultStatus.SCORED, threshold=threshold, score=score, passed=score >= threshold
        )
        for score in scores
    ]
    cases = (CaseResult(index, LLMTestCase(), (result,)) for index, result in enumerate(results))
    return Report(("m",), tuple(cases))


def test_the_bar_of_all_cases_is_full() -> None:
    """Its parts lie side by side and make the whole."""
    parts = segments(scored(1, 1, 0, None))

    assert [(part["outcome"], part["amount"], part["at"], part["width"]) for part in parts] == [
        ("passed", 2, 0, 500),
        ("failed", 1, 500, 250),
        ("not_measured", 1, 750, 250),
        ("agent_error", 0, 1000, 0),
    ]


# Texts


def test_line_breaks_stay_and_control_characters_are_visible() -> None:
    """Line ends and tabs are layout; escape sequences and invisible characters are shown."""
    assert printable_lines("a\tb\r\nc\n\x1b[1m\u202e\r") == "a   b\nc\n\\x1b[1m\\u202e\\r"


def test_texts_are_cut_with_a_note() -> None:
    """A text at the limit has no note."""
    clipped = page_template("case.html.jinja").make_module({"trials": {}, "addresses": {}}).clipped  # type: ignore[attr-defined]
    assert clipped("x" * 10, 10) == "x" * 10
    assert clipped("x" * 11, 10) == f'{"x" * 10}<small class="cut">shortened: the first 10 of 11 characters</small>'


def test_values_are_json_or_lines() -> None:
    """Short values on one line, long ones on several; multi-line texts keep lines; images are described."""
    assert value_text({"a": 1}) == '{"a": 1}'
    assert value_text({"a": "x" * 80}) == '{\n  "a": "' + "x" * 80 + '"\n}'
    assert value_text("one\ntwo") == "one\ntwo"
    assert value_text("one") == '"one"'
    assert value_text(float("nan")) == '"NaN"'
    assert "sha256" in value_text({"type": "bytes", "data": "iVBORw0KGgoAAAANSUhEUgAA"})
