"""Files of conversations, logs and runs, measured with goldens of conversations."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgrade import (
    Approve,
    BudgetMetric,
    ConversationalTestCase,
    Golden,
    Report,
    Run,
    SimulatedUser,
    ToolCall,
    ToolCorrectnessMetric,
    Turn,
    UserTurn,
    evaluate,
    write_cases,
)
from toolgrade.dataset import ANSWERS
from toolgrade.errors import BadLineWarning, ToolgradeWarning

TEXTS = ["Find a flight.", "Book it.", "Thanks."]
CALLS: list[list[str]] = [["find"], ["book", "pay"], []]
METRICS = [ToolCorrectnessMetric(threshold=1)]
GOLDEN = Golden(
    id="trip",
    turns=[
        UserTurn(text, expected_tools=[ToolCall(name=name) for name in names])
        for text, names in zip(TEXTS, CALLS, strict=True)
    ],
)


def conversation(calls: list[list[str]], **fields: Any) -> ConversationalTestCase:
    """The texts, each answered by these calls."""
    turns: list[Turn] = []
    for text, names in zip(TEXTS, calls, strict=False):
        turns.append(Turn(role="user", content=text))
        turns.append(Turn(role="assistant", content="ok", tools_called=[ToolCall(name=name) for name in names]))
    return ConversationalTestCase(turns=turns, **fields)


def log(calls: list[list[str]]) -> dict[str, Any]:
    """The same as messages."""
    messages: list[dict[str, Any]] = []
    for text, names in zip(TEXTS, calls, strict=False):
        messages.append({"role": "user", "content": text})
        for place, name in enumerate(names):
            call = {"id": f"{len(messages)}-{place}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "assistant", "content": "ok"})
    return {"messages": messages}


def runs(calls: list[list[str]], conversation_id: str = "c") -> list[dict[str, Any]]:
    """The same as runs of one conversation."""
    cases: list[dict[str, Any]] = []
    for number, (text, names) in enumerate(zip(TEXTS, calls, strict=False)):
        run = Run(
            input=text,
            calls=[ToolCall(name=name) for name in names],
            actual_output="ok",
            conversation_id=conversation_id,
            started_at=datetime(2026, 5, 3, 9, number, tzinfo=timezone.utc),
        )
        cases.append(run.to_test_case().to_dict())
    return cases


def score(folder: Path, lines: list[Any], goldens: list[Golden] | None, **options: Any) -> Report:
    """The report of a file with these lines."""
    path = folder / "file.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return evaluate(path, options.pop("metrics", METRICS), goldens=goldens, show_progress=False, **options)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.lists(st.sampled_from(["find", "book", "pay"]), max_size=3), min_size=3, max_size=3), st.booleans())
def test_every_form_of_a_conversation_has_one_score(tmp_path: Path, calls: list[list[str]], has_ids: bool) -> None:
    """Messages, a conversation, and runs in any order, some of them in a file of results, found by id or by texts."""
    golden = GOLDEN if has_ids else GOLDEN.model_copy(update={"id": None})
    expected = METRICS[0].measure(
        conversation(calls).model_copy(
            update={
                "turns": [
                    turn.model_copy(update={"expected_tools": [ToolCall(name=name) for name in CALLS[place // 2]]})
                    if turn.role == "user"
                    else turn
                    for place, turn in enumerate(conversation(calls).turns)
                ]
            }
        )
    )
    target = tmp_path / "results.jsonl"
    target.unlink(missing_ok=True)
    forms = [[log(calls)], [conversation(calls).to_dict()], runs(calls), runs(calls)[::-1]]
    for lines in forms:
        report = score(tmp_path, lines, [golden], results=target, resume=target.exists())
        (case,) = report.cases
        assert (case.results[0].score, case.results[0].findings) == (expected.score, expected.findings)
        assert case.golden == 0 or report.trials is None
    if has_ids:
        (named,) = score(tmp_path, [conversation(calls, id="trip").to_dict()], [golden]).cases
        assert named.results[0].score == expected.score


@pytest.mark.parametrize("length", [1, 2, 4])
def test_another_number_of_turns(tmp_path: Path, length: int) -> None:
    """Missing turns lack their calls, and further ones are not scored; both are said."""
    case = conversation([["find"], ["book", "pay"], []][:length])
    if length > 3:
        more = [
            Turn(role="user", content="And?"),
            Turn(role="assistant", content="x", tools_called=[ToolCall(name="y")]),
        ]
        case = case.model_copy(update={"turns": [*case.turns, *more]})
    report = score(tmp_path, [case.to_dict()], [GOLDEN])
    (entry,) = report.cases

    if length == 1:
        assert entry.outcome == "failed"
        assert [(one.kind, one.tool, one.turn) for one in entry.results[0].findings] == [
            ("missing", "book", 2),
            ("missing", "pay", 2),
        ]
        note = "its golden has 3 turns, and the conversation 1: turns 2 to 3 were not recorded"
        assert entry.results[0].warnings == (note,)
    elif length == 2:  # nothing is expected in the turn that is missing, so that it would pass unseen
        assert entry.outcome == "not_measured"
        assert "its golden has 3 turns, and the conversation 2: turn 3 was not recorded" in (
            entry.results[0].error or ""
        )
    else:
        assert entry.outcome == "passed"
        assert entry.results[0].warnings == ("its golden has 3 turns, and the conversation 4: turn 4 was not scored",)


def test_goldens_of_both_kinds(tmp_path: Path) -> None:
    """One of a single question meets a conversation of one turn; one text belongs to the golden with all texts."""
    single = Golden(id="one", input="Weather?", expected_tools=[ToolCall(name="weather")])
    other = GOLDEN.model_copy(update={"id": "other", "turns": GOLDEN.turns[:2] if GOLDEN.turns else None})
    asked = {"input": "Weather?", "tools_called": [{"name": "weather"}]}
    cases = score(tmp_path, [asked, log(CALLS), log(CALLS[:2])], [single, GOLDEN, other]).cases

    assert [case.case.id for case in cases] == ["one", "trip", "other"]
    assert {case.outcome for case in cases} == {"passed"}


def test_an_answer_to_a_run_that_waits_belongs_to_its_turn(tmp_path: Path) -> None:
    """What a golden states of a text that answers is added to what it states of the turn."""
    first, second = ([ToolCall(name=name)] for name in ("delete", "log"))
    golden = Golden(
        turns=[UserTurn("Delete it.", expected_tools=first), UserTurn("Yes.", expected_tools=second), Approve(), "Bye."]
    )
    turns = [
        Turn(role="user", content="Delete it.", metadata={ANSWERS: ["Yes.", {"approve": True}]}),
        Turn(role="assistant", content="Done.", tools_called=[*first, *second]),
        Turn(role="user", content="Bye."),
        Turn(role="assistant", content="Bye.", tools_called=[]),
    ]
    (case,) = score(tmp_path, [ConversationalTestCase(turns=turns).to_dict()], [golden]).cases

    assert (case.outcome, case.results[0].error) == ("passed", None)


def test_a_golden_of_a_user_is_found_by_id(tmp_path: Path) -> None:
    """Its calls may be in any turn."""
    golden = Golden(id="trip", user=SimulatedUser(goal="fly"), expected_tools=[ToolCall(name="pay")])
    with pytest.warns(ToolgradeWarning, match="1 case without a golden"):
        cases = score(tmp_path, [conversation(CALLS, id="trip").to_dict(), log(CALLS)], [golden]).cases

    assert [case.outcome for case in cases] == ["passed", "not_measured"]


def test_conversations_without_goldens_are_whole(tmp_path: Path) -> None:
    """For metrics that need no expectation, or those that the file states; a golden is no recorded conversation."""
    lines = [conversation(CALLS, id="a", expected_tools=[ToolCall(name="pay")]).to_dict()]
    report = score(tmp_path, lines, None, metrics=[*METRICS, BudgetMetric(max_calls=3)])

    assert [case.name for case in report.cases] == ["a"]
    assert [result.score for result in report.cases[0].results] == [1, 1]
    write_cases(tmp_path / "goldens.jsonl", [GOLDEN])
    golden = json.loads((tmp_path / "goldens.jsonl").read_text())
    with pytest.warns(BadLineWarning) as caught:
        assert not score(tmp_path, [golden, *lines], None).passed
    assert "is a golden of a conversation; score recorded runs" in str(caught[0].message)


def test_a_user_that_spoilt_the_conversation_is_the_reason(tmp_path: Path) -> None:
    """It is not measured by any metric."""
    spoilt = conversation(CALLS, id="trip", user_error="in turn 2, the user invented an order number")
    (case,) = score(tmp_path, [spoilt.to_dict()], [GOLDEN]).cases

    assert case.outcome == "not_measured"
    assert "in turn 2, the user invented an order number" in (case.results[0].reason or "")


def test_a_run_that_waited_and_went_on_elsewhere_is_one_turn(tmp_path: Path) -> None:
    """In another file, by another process, each call once; whatever the order of the files."""
    waiting = ToolCall(name="pay", id="c1", execution={"status": "pending"})
    paid = ToolCall(name="pay", id="c1", execution={"status": "ok"}, output="paid")
    start = datetime(2026, 5, 3, 9, 0, tzinfo=timezone.utc)
    first = Run(input="Pay.", calls=[waiting], status="interrupted", conversation_id="c", run_id="1", started_at=start)
    then = Run(calls=[paid], actual_output="Paid.", conversation_id="c", run_id="2", started_at=start.replace(minute=1))
    golden = Golden(turns=[UserTurn("Pay.", expected_tools=[ToolCall(name="pay")]), Approve()])
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for path, run in zip(paths, (then, first), strict=True):
        write_cases(path, [run.to_test_case()])
    for files in (paths, paths[::-1]):
        (case,) = evaluate(files, METRICS, goldens=[golden], show_progress=False).cases
        assert (case.outcome, case.wrong_end, case.results[0].score) == ("passed", None, 1)
