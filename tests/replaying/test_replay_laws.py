"""Laws of replay, against slow and obvious oracles."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strategies import finite_json_values
from toolgrade import Run, ToolCall, observe
from toolgrade.capture.doubles import Answer, exception_of
from toolgrade.matching.json_compare import ABSENT, json_equal
from toolgrade.replay import ReplayError, Tape, replay
from toolgrade.replay.cursor import TapeCursor

NAMES = st.sampled_from(["search", "pay"])
ARGUMENTS = st.dictionaries(st.sampled_from(["q", "n"]), st.sampled_from([1, 1.0, "1", True, None, [1], {"a": 1}]))
ANSWERS = st.one_of(
    st.builds(lambda value: {"output": value}, finite_json_values()),
    st.just({"execution": {"status": "error", "error": "TimeoutError: no answer"}}),
    st.just({"execution": {"status": "cancelled"}}),
)
RECORDED = st.lists(
    st.builds(
        lambda name, arguments, answer: ToolCall(name=name, input_parameters=arguments, **answer),
        NAMES,
        ARGUMENTS,
        ANSWERS,
    ),
    max_size=6,
)
ASKED = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=8)


def ask(cursor: TapeCursor, name: str, arguments: dict[str, Any]) -> Answer:
    """Return the answer of a tape on which nothing runs."""
    answer = cursor.ask(name, arguments)
    assert isinstance(answer, Answer)
    return answer


def expected_answers(recorded: list[ToolCall], asked: list[tuple[str, dict[str, Any]]]) -> list[ToolCall | None]:
    """Return which recorded call answers each call: of the equal ones that were answered, the k-th for the k-th."""
    answers: list[ToolCall | None] = []
    for place, (name, arguments) in enumerate(asked):
        before = sum(other == name and json_equal(more, arguments) for other, more in asked[:place])
        equal = [
            call
            for call in recorded
            if call.name == name
            and json_equal(call.arguments, arguments)
            and (call.execution is None or call.execution.status.value in {"ok", "error"})
        ]
        answers.append(equal[before] if before < len(equal) else None)
    return answers


@given(RECORDED, ASKED)
def test_the_kth_equal_call_gets_the_kth_answer(
    recorded: list[ToolCall], asked: list[tuple[str, dict[str, Any]]]
) -> None:
    """Equality is that of metrics, and calls without an end answer nothing."""
    cursor = Tape([Run(calls=recorded)]).whole()
    for (name, arguments), call in zip(asked, expected_answers(recorded, asked), strict=True):
        answer = ask(cursor, name, arguments)
        if call is None:
            assert answer.left is not None
            assert f"{name} " in answer.left
        elif call.execution is not None:
            assert (answer.left, answer.error, answer.output) == (None, "TimeoutError: no answer", ABSENT)
        else:
            assert (answer.left, answer.error) == (None, None)
            assert json_equal(answer.output, call.output)


@given(st.lists(RECORDED, max_size=3), ASKED)
def test_a_written_tape_answers_as_before(runs: list[list[ToolCall]], asked: list[tuple[str, dict[str, Any]]]) -> None:
    """Writing and reading change no answer, and no question."""
    tape = Tape([Run(input=f"question {n}", calls=calls) for n, calls in enumerate(runs)])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tape.json"
        tape.save(path)
        again = Tape.load(path)
        written = json.loads(path.read_text(encoding="utf-8"))
    assert len(written) == len(runs)
    for n in range(len(runs)):
        with tape.run(f"question {n}") as one, again.run(f"question {n}") as other:
            for name, arguments in asked:
                first, second = ask(one, name, arguments), ask(other, name, arguments)
                assert (first.left, first.error, first.artifact) == (second.left, second.error, second.artifact)
                assert first.output is second.output is ABSENT or json_equal(first.output, second.output)


@given(RECORDED)
def test_what_was_recorded_is_replayed(recorded: list[ToolCall]) -> None:
    """A program that makes the recorded calls again gets the same outputs, and none of its tools runs."""
    with replay([], record_mode="all") as tape:
        outputs = [_run_once(call, call.output) for call in recorded]
    with replay(tape) as again:
        for call, output in zip(recorded, outputs, strict=True):
            assert json_equal(_run_once(call, "it ran"), output)
    assert again.left == 0


def _run_once(call: ToolCall, output: object) -> Any:
    """Call a tool that returns `output` with the arguments of a call."""
    return observe(tool=True, name=call.name)(lambda **_: output)(**call.arguments)


@given(
    st.sampled_from(["TimeoutError", "ValueError", "KeyError", "OSError", "PaymentDeclined", "UnicodeDecodeError"]),
    st.text(),
)
def test_an_exception_shows_its_text(name: str, text: str) -> None:
    """Of whichever type it is, it is named and reads as recorded."""
    error = exception_of(f"{name}: {text}")
    assert type(error).__name__ == name
    assert str(error) == text
    if name in {"PaymentDeclined", "UnicodeDecodeError"}:
        assert isinstance(error, ReplayError)
