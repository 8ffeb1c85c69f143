"""Pairing of neutral messages, which the readers of all formats yield: which answer belongs to which call, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import Request
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.message import Answer, ModelMessage, NeutralMessage, OfferedTools, UserInput
from toolgrade.formats.messages.pairing import OpenCalls, RecordedCall, Scope
from toolgrade.formats.messages.transcript import transcript_of
from toolgrade.matching.json_compare import ABSENT

Step: TypeAlias = "Request | str | NeutralMessage"
HOSTED, MCP = ToolCallType.HOSTED, ToolCallType.MCP


def add(call_id: str | None, **more: Any) -> Request:
    """A request; each has an object of its own, as readers make them."""
    return Request("add", {}, call_id, **more)


def run_of(*steps: Step, **how: Any) -> Run:
    """The run of these messages, numbered from 0; a request is a message of its own, a text is the user's."""
    messages: list[tuple[str, NeutralMessage]] = []
    for index, step in enumerate(steps):
        message: Any = step
        if isinstance(step, Request):
            message = ModelMessage([replace(step, source=f"$[{index}].call")])
        elif isinstance(step, ModelMessage):
            parts = [part if isinstance(part, str) else replace(part, source=f"$[{index}].call") for part in step.parts]
            message = replace(step, parts=parts)
        elif isinstance(step, str):
            message = UserInput(step)
        messages.append((f"$[{index}]", replace(message)))
    return transcript_of(messages, **how).run


def rows(run: Run) -> list[tuple[object, ...]]:
    """Status, output and error of each call, with the calls of its program."""
    return [
        (
            how.status.value,
            call.output if "output" in call.model_fields_set else "-",
            how.error,
            *(rows(Run(calls=how.children)) if how.children else ()),
        )
        for call in run.calls
        if (how := call.execution) is not None
    ]


OPEN = ("not_executed", "-", None)


def ok(output: object, *inner: object) -> tuple[object, ...]:
    """A call with this output."""
    return ("ok", output, None, *inner)


LEFT_OUT = "$[2]: answers no open call before it (id 'c'); it was left out"
ONE_ID = "$[{}].call: id 'c' has 2 calls; answers with it were paired in order"
_BY_ORDER = "answers were paired with calls by name, where given, and order"
NO_ID = "$[{}].call: the call has no id; " + _BY_ORDER
NO_ID_OF_CALL = "$[{}]: the tool message has no id of a call; " + _BY_ORDER


@pytest.mark.parametrize(
    ("steps", "calls", "warnings"),
    [
        # Repeated ids, by round
        ([add("c"), add("c"), Answer("c", content=1), Answer("c", content=2)], [ok(1), ok(2)], [ONE_ID.format(1)]),
        ([add("c"), Answer("c", content=1), add("c"), Answer("c", content=2)], [ok(1), ok(2)], [ONE_ID.format(2)]),
        ([add("c"), "again", add("c"), Answer("c", content=2)], [OPEN, ok(2)], [ONE_ID.format(2)]),
        (
            [add("c"), "again", add("c"), Answer("c", content=2), Answer("c", content=1)],
            [ok(1), ok(2)],
            [ONE_ID.format(2)],
        ),
        ([add("c"), Answer("c", content=1), Answer("c", content=2)], [ok(1)], [LEFT_OUT]),
        # Answers and calls without ids
        (
            [add(None), add("c"), Answer(None, content=1), Answer("c", content=2)],
            [ok(1), ok(2)],
            [NO_ID.format(0), NO_ID_OF_CALL.format(2)],
        ),
        ([add(None), add("c"), Answer("c", content=2), Answer("x", content=1)], [ok(1), ok(2)], [NO_ID.format(0)]),
        ([add("c"), Answer(None, content=1)], [ok(1)], [NO_ID_OF_CALL.format(1)]),
        (
            [Answer("c", content=1), add("c")],
            [OPEN],
            ["$[0]: answers no open call before it (id 'c'); it was left out"],
        ),
        # Names decide where ids do not
        (
            [add(None), Request("sub", {}), Answer(None, "sub", 1), Answer(None, "div", 2)],
            [OPEN, ok(1)],
            [
                f"$[0].call (and 1 more): the call has no id; {_BY_ORDER}",
                f"$[2] (and 1 more): the tool message has no id of a call; {_BY_ORDER}",
                "$[3]: answers no open call before it (name 'div'); it was left out",
            ],
        ),
        (
            [add(None), Answer("x", "div", 1)],
            [OPEN],
            [NO_ID.format(0), "$[1]: answers no open call before it (id 'x', name 'div'); it was left out"],
        ),
        (
            [add("c"), Answer("c", "div", 1)],
            [ok(1)],
            ["$[1]: has the id of the call of 'add' but the name 'div'; the id won"],
        ),
        # Content and failures
        (
            [add("c"), Answer("c"), add("d"), Answer("d", content=None)],
            [("ok", "-", None), ok(None)],
            ["$[1]: the tool message has no content; the output of 'add' was not captured"],
        ),
        ([add("c"), Answer("c", content="no", failed=True)], [("error", "-", "no")], []),
        ([add("c"), Answer("c", content=[1], failed=True, error="why")], [("error", "-", "why")], []),
        ([add("c"), Answer("c", content=[1], failed=True)], [("error", "-", "[1]")], []),
        ([add("c"), Answer("c", failed=True)], [("error", "-", "failed")], []),
        ([add("c"), Answer("c", failed=True, ran=True)], [("error", "-", "failed")], []),
        ([add("c"), Answer("c", content="no", failed=True, approved=False)], [("rejected", "-", "no")], []),
        # Tools that the provider runs
        (
            [add("c", ran=True, result=1), Answer("c", content=2)],
            [ok(1)],
            ["$[1]: answers no open call before it (id 'c'); it was left out"],
        ),
        ([add("c", ran=True)], [("ok", "-", None)], []),
        ([add("c", ran=True, failure="down")], [("error", "-", "down")], []),
        ([add("c", type=HOSTED), Answer("c", content=1, ran=True)], [ok(1)], []),
        # A list of all tools makes others unknown, unless the provider or its servers run them
        ([OfferedTools([ToolSpec(name="sub")], all_known=True), add("c")], [("unknown_tool", "-", None)], []),
        ([OfferedTools([ToolSpec(name="sub")], all_known=True), add("c", type=MCP)], [OPEN], []),
        ([OfferedTools([ToolSpec(name="sub")], all_known=False), add("c")], [OPEN], []),
        # Calls of programs
        (
            [Request("program", {}, "p"), add("c", caller="p"), Answer("c", content=1), Answer("p", content=2)],
            [ok(2, ok(1))],
            [],
        ),
        (
            [add("c", caller="p")],
            [OPEN],
            ["$[0].call: 'add' was called inside 'p', an unknown call; it was recorded outside of it"],
        ),
        # A call that replaces its request for approval
        ([add("a", type=MCP), add("c", type=MCP, replaces="a", ran=True, result=1)], [ok(1)], []),
        (
            [add("a"), Answer("a", content=1), add("c", replaces="a"), add("d", replaces="x")],
            [OPEN, OPEN],
            [],
        ),
    ],
)
def test_answers_are_paired(steps: list[Step], calls: list[object], warnings: list[str]) -> None:
    """By id, round, name and order; what belongs to no call is a warning."""
    run = run_of(*steps)

    assert rows(run) == calls
    assert [text for text in run.warnings if "no message of the assistant" not in text] == warnings


@pytest.mark.parametrize(
    ("answers", "status", "calls"),
    [
        ([], RunStatus.INTERRUPTED, ["pending"]),
        ([Answer("a", approved=True)], RunStatus.STOPPED, ["not_executed"]),
        ([Answer("a", failed=True, approved=False)], RunStatus.STOPPED, ["rejected"]),
    ],
)
def test_a_request_for_approval_waits_until_it_is_decided(
    answers: list[Answer], status: RunStatus, calls: list[str]
) -> None:
    """A run whose last message waits for a person is interrupted, and its call is pending."""
    run = run_of("go", ModelMessage([add("a", needs_approval=True)]), *answers)

    assert run.status is status
    assert [row[0] for row in rows(run)] == calls


def test_hand_offs_are_calls_that_are_not_scored() -> None:
    """They are known by their names; one that was refused is an error, and still a hand-off."""
    run = run_of(add("c"), Request("go_to_b", {}, "d"), Answer("c", content=ABSENT), handoff_names=["go_to_b"])

    assert [call.name for call in run.tools_called] == ["add"]
    assert [handoff.call for handoff in run.handoffs] == [1]
    assert rows(run)[1] == ("ok", "-", None)


def test_the_messages_stay_as_they_are() -> None:
    """They are the caller's: a second reading gives the same."""
    call = add("c", handoff=True)
    answer = Answer("c", content=1, artifact={1: 2}, type=MCP)
    messages: list[tuple[str, NeutralMessage]] = [("$[0]", ModelMessage([call])), ("$[1]", answer)]

    first, second = transcript_of(messages).run, transcript_of(messages).run

    assert first == second
    assert (call.source, call.type, answer.artifact) == (None, None, {1: 2})
    assert [(one.execution.source, one.type) for one in first.calls if one.execution] == [("$[0]", MCP)]
    assert [handoff.call for handoff in first.handoffs] == [0]


def test_a_message_may_be_one_text() -> None:
    """It is not read as its letters."""
    assert transcript_of([("$[0]", UserInput("?")), ("$[1]", ModelMessage("hello"))]).run.actual_output == "hello"


def test_a_result_of_a_provider_is_no_answer_to_a_call_of_the_agent() -> None:
    """Also if that has no id."""
    run = run_of(Request("add", {}, type=ToolCallType.FUNCTION), Answer("w", content="late", failed=True, ran=True))

    assert rows(run) == [OPEN]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("hi", "expected a UserInput, Instructions, a ModelMessage or an Answer, got 'hi'"),
        (ModelMessage([Request("add", {}, 5)]), "id of Request must be text, got 5"),  # type: ignore[arg-type]
        (ModelMessage("hi", model=5), "model of ModelMessage must be text, got 5"),  # type: ignore[arg-type]
        (Answer(5), "call_id of Answer must be text, got 5"),  # type: ignore[arg-type]
    ],
)
def test_other_objects_are_an_error_with_their_place(message: Any, text: str) -> None:
    """A reader of somebody else may yield anything."""
    with pytest.raises(InvalidDataError) as raised:
        transcript_of([("$[0]", UserInput("?")), ("$[1]", message)])

    assert str(raised.value) == f"$[1]: {text}"


def test_steps_count_the_messages_with_calls() -> None:
    """Calls of one message are parallel; each call has its place."""
    run = run_of(ModelMessage([add("a"), add("b")]), ModelMessage(["hm"]), add("c"))

    assert [(call.execution.step, call.execution.source) for call in run.calls if call.execution] == [
        (0, "$[0].call"),
        (0, "$[0].call"),
        (1, "$[2].call"),
    ]


_ids = st.sampled_from((None, "", "a", "b"))
_names = st.sampled_from(("look", "book"))


def _call(call_id: str | None, name: str, number: int) -> RecordedCall:
    return RecordedCall(Request(name, {}, call_id), {}, number, number, Scope())


def _slow_search(calls: list[RecordedCall], call_id: str | None, name: str | None) -> RecordedCall | None:
    """The rule of `OpenCalls.call_of`, word by word."""
    matches = [call for call in calls if call_id and call.request.id == call_id]
    if not matches:
        same_name = [call for call in calls if name in (None, call.request.name)]
        matches = [call for call in same_name if not call.request.id] or ([] if call_id else same_name)
    newest = max((call.round for call in matches), default=0)
    matches = [call for call in matches if call.round == newest]
    matches = [call for call in matches if call.request.name == name] or matches
    return matches[0] if matches else None


@given(
    calls=st.lists(st.tuples(_ids, _names), max_size=8),
    rounds=st.lists(st.integers(0, 3), min_size=8, max_size=8).map(sorted),
    results=st.lists(st.tuples(_ids, st.none() | _names, st.booleans()), max_size=10),
)
def test_a_result_finds_the_call_that_a_search_through_all_finds(
    calls: list[tuple[str | None, str]], rounds: list[int], results: list[tuple[str | None, str | None, bool]]
) -> None:
    """Also where ids repeat or are missing, and where a call was answered in another way meanwhile."""
    records = [_call(*call, number) for call, number in zip(calls, rounds, strict=False)]
    open_calls = OpenCalls()
    for record in records:
        open_calls.add(record)
    for call_id, name, answer_another in results:
        unanswered = [record for record in records if record.is_open]
        if answer_another and unanswered:
            unanswered.pop().answer = Answer(None)
        call = open_calls.call_of(call_id, name)
        assert call is _slow_search(unanswered, call_id or None, name)
        if call is not None:
            call.answer = Answer(None)
