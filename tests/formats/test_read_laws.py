"""Laws of reading: rendered histories are read back in every format and with any order of answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rendered import RENDER, Turn, expected, histories
from toolgrade.cases import Run
from toolgrade.formats import Transcript, read


def call_rows(run: Run) -> list[tuple[Any, ...]]:
    """Return the calls of a run in the form of `expected`."""
    return [
        (call.name, call.input_parameters, call.output, how.status.value, call.id, how.step)
        for call in run.calls
        if (how := call.execution) is not None
    ]


class Sdk(SimpleNamespace):
    """An unvalidated object as clients build it, with parts of the same kind."""

    def model_dump(self, **_: object) -> dict[str, Any]:
        """Dump only the outer fields; nested parts stay objects."""
        return vars(self)


def as_objects(value: Any, *, top: bool = True) -> Any:
    """Messages as objects all the way down; the model's own arguments stay what they are."""
    if isinstance(value, list):
        return [as_objects(item, top=top) for item in value]
    if not isinstance(value, dict):
        return value
    return Sdk(**{key: item if key == "input" else as_objects(item) for key, item in value.items()})


def same(shuffled: list[Any]) -> list[Any]:
    """The answers in the order of the calls."""
    return shuffled


def of(history: list[Turn], name: str, shuffle: Any = same) -> Transcript:
    """The history, rendered and read."""
    return read(RENDER[name](history, shuffle))


@pytest.mark.parametrize("name", RENDER)
@given(history=histories, data=st.data())
def test_rendered_history_is_read_back(name: str, history: list[Turn], data: st.DataObject) -> None:
    """Each call has its name, arguments, id, step and answer, in any order of answers."""
    run = of(history, name, lambda answers: data.draw(st.permutations(answers))).run

    assert call_rows(run) == expected(history)
    assert run.input == history[0].question


@pytest.mark.parametrize("name", RENDER)
@given(history=histories)
def test_objects_read_as_their_fields_do(name: str, history: list[Turn]) -> None:
    """An SDK's objects give the same run as plain ones, warnings included."""
    messages = RENDER[name](history, same)

    assert read(as_objects(messages)).run.to_dict() == read(messages).run.to_dict()


@given(history=histories)
def test_formats_are_not_confused(history: list[Turn]) -> None:
    """A format is detected if anything of it is present; plain text reads the same in all formats."""
    for name in RENDER:
        transcript = of(history, name)
        if transcript.run.calls or name == "openai-responses":
            assert transcript.format == name


@given(history=histories)
def test_turns_are_the_users(history: list[Turn]) -> None:
    """Each user message begins a turn with the calls made for it, the same in all formats."""
    for name in RENDER:
        transcript = of(history, name)
        runs, turns = transcript.turns, transcript.conversation.turns
        # A user message without a reaction is joined with the next one.
        joined: list[tuple[str, list[str], bool]] = []
        for turn in history:
            calls = [call.name for group in turn.steps for call in group]
            question = turn.question
            if joined and not joined[-1][2]:
                question = f"{joined.pop()[0]}\n{question}"
            joined.append((question, calls, bool(turn.steps) or turn.answer is not None))
        assert [(run.input, [call.name for call in run.calls]) for run in runs] == [(t, c) for t, c, _ in joined]
        assert [turn.content for turn in turns if turn.role == "user"] == [text for text, _, _ in joined]
        assert [call for run in runs for call in run.calls] == transcript.run.calls
        assert sum(len(turn.tools_called or ()) for turn in turns) == len(transcript.run.calls)


@given(history=histories)
def test_the_formats_agree(history: list[Turn]) -> None:
    """All three give the same answer of the run, and of each turn."""
    answers = [[(run.actual_output, run.status) for run in (t.run, *t.turns)] for t in (of(history, n) for n in RENDER)]

    assert answers[0] == answers[2]
    if all(call.output is not None for turn in history for group in turn.steps for call in group):
        assert answers[0] == answers[1]
