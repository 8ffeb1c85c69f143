"""Conversations in every view: a case each, with its turns, their scores and the call that fails."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from processes import assert_golden
from toolgrade import (
    ConversationalTestCase,
    Report,
    Run,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    Turn,
    evaluate,
)
from toolgrade.cli.annotations import print_annotations
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report

SECRET = "sk-live0123456789abcdefghijklmnop"
FIND = ToolCall(name="find", input_parameters={"to": "Lisbon"})
METRICS = [
    ToolCorrectnessMetric(threshold=1, evaluation_params=["input_parameters"]),
    TaskSuccessMetric(effects={"find": "read", "book": "write", "pay": "write"}),
]


def book(seats: int) -> ToolCall:
    """A call that writes."""
    return ToolCall(name="book", input_parameters={"seats": seats}, execution={"status": "ok", "executed": True})


def conversation(seats: int, text: str = "Booked TP531.", **fields: object) -> ConversationalTestCase:
    """Turn 1 states nothing; turn 2 expects two seats and a text; turn 3 expects no call."""
    turns = [
        Turn(role="user", content=f"Find a flight to Lisbon. My key is {SECRET}."),
        Turn(role="assistant", content="TP531 at 9:00.", tools_called=[FIND]),
        Turn(
            role="user",
            content="Book the cheapest for two.",
            expected_tools=[ToolCall(name="book", input_parameters={"seats": 2})],
            required_texts=["TP531"],
        ),
        Turn(role="assistant", content=text, tools_called=[book(seats)]),
        Turn(role="user", content="Thanks.", expected_tools=[]),
        Turn(role="assistant", content="Bye.", tools_called=[]),
    ]
    return ConversationalTestCase.model_validate({"turns": turns, **fields})


@pytest.fixture(scope="module")
def report() -> Report:
    """A conversation that fails in turn 2, one that passes, and one that its user spoilt."""
    cases = [
        conversation(1, "Done."),
        conversation(2, id="good"),
        conversation(2, id="spoilt", user_error="in turn 2, the user said another order: 4712"),
    ]
    return evaluate(cases, METRICS, show_progress=False)


def test_terminal(report: Report) -> None:
    """A conversation without an id is called by its first question; each turn has its score and its calls."""
    file = io.StringIO()
    console = Console(file=file, width=80, markup=False, highlight=False, emoji=False)
    print_report(report, title="talks.jsonl", console=console, full=True)

    assert_golden("terminal-conversations.txt", file.getvalue())


def test_every_view_names_the_turn_with_the_call(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    """And no view has a secret of what was said."""
    print_annotations(report, [])
    annotations = capsys.readouterr().out
    views = [render_markdown(report, title="t"), render_junit(report, title="t"), render_html(report, title="t")]
    views += [annotations, report.to_json()]

    for view in views:
        assert "turn 2" in view.lower()
        assert "book" in view
        assert "the user said another order: 4712" in view
        assert SECRET not in view
    (failed, passed, spoilt) = ET.fromstring(views[1]).iter("testcase")  # noqa: S314 - our own
    failure, error = failed.find("failure"), spoilt.find("error")
    assert failure is not None
    assert error is not None
    assert failure.get("message") == "turn 2 c2 book: args.seats 1, expected 2"
    assert "turn 2  FAILED 0\n   user: Book the cheapest for two." in (failure.text or "")
    assert "the user said another order" in (error.get("message") or "")
    assert passed.find("failure") is None
    assert 'turn 2 <span class="badge failed">' in views[2]
    assert "turn 2 c2 book: args.seats 1, expected 2" in annotations


def test_no_view_has_the_system_prompt() -> None:
    """Neither that of a run nor that of a conversation: it may be long, and says nothing of the case."""
    run = Run(input="Go.", actual_output="Done.", instructions="PROMPT-7")
    cases = [run.to_test_case(expected_tools=[]), conversation(1, instructions="PROMPT-7")]
    report = evaluate(cases, METRICS, show_progress=False)
    page = render_html(report, title="t")

    assert "Done." in page
    for view in (page, render_markdown(report, title="t"), render_junit(report, title="t"), report.to_json()):
        assert "PROMPT-7" not in view


def test_a_comparison_names_the_turn(report: Report) -> None:
    """Conversations are paired by id, or else by what the user said."""
    before = evaluate([conversation(2), conversation(2, id="good")], METRICS, show_progress=False)
    text = render_markdown(report, title="t", earlier=[before])

    assert "turn 2 c2 book: args.seats 1, expected 2" in text
