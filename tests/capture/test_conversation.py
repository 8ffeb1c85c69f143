"""Conversations built from runs: a user turn and an assistant turn with the calls for each run."""

import ast
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.capture import conversation, conversations
from toolgrade.capture.conversations import LACKS_BEGINNING, joined
from toolgrade.cases import ConversationalTestCase, Handoff, MLLMImage, Run, RunStatus, Turn
from toolgrade.inputs import read_cases


def run(text: str | None = "1+2?", answer: str | None = "three", **more: Any) -> Run:
    """A run that called `add` once."""
    fields: dict[str, Any] = {"calls": [ToolCall(name="add", id="c1")], "actual_output": answer, **more}
    return Run(**(fields if text is None else {**fields, "input": text}))


def roles(case: ConversationalTestCase) -> list[tuple[str, str]]:
    """Who spoke, and what."""
    return [(turn.role, turn.content) for turn in case.turns]


def test_each_run_is_a_pair_of_turns() -> None:
    """The user's text, then the answer with only the calls of this run, even with repeated ids."""
    first, second = run(), run("3+2?", "five", calls=[])

    case = conversation([first, second], name="sums")

    assert case == ConversationalTestCase(
        name="sums",
        turns=[
            Turn(role="user", content="1+2?"),
            Turn(role="assistant", content="three", tools_called=first.calls),
            Turn(role="user", content="3+2?"),
            Turn(role="assistant", content="five", tools_called=[]),
        ],
    )


def test_a_run_without_text_has_no_user_turn() -> None:
    """A run without an input has only an assistant turn; one without an answer has an empty turn."""
    case = conversation([run(None), run("", None)])

    assert roles(case) == [("assistant", "three"), ("user", ""), ("assistant", "")]


def test_assistant_turn_has_the_status_of_the_run() -> None:
    """A run that did not end normally has its status, error and warnings on its turn."""
    warned = run(answer=None, status=RunStatus.STOPPED, error="timeout", warnings=["lost one"], run_id="r1")

    plain, troubled = (case.turns[1] for case in (conversation([run()]), conversation([warned])))

    assert plain.metadata == {}
    assert troubled.metadata == {"run_id": "r1", "status": "stopped", "error": "timeout", "warnings": ["lost one"]}


def test_the_turns_show_the_calls_that_were_selected() -> None:
    """The switches of `Run.select_calls` hold for every turn."""
    inner = ToolCall(name="inner", execution=Execution(executed=True))
    asks = ToolCall(name="ask", execution=Execution(executed=True, children=[inner]))
    by_code = ToolCall(name="helper", execution=Execution(origin="code"))  # type: ignore[arg-type]
    one = run(calls=[asks, ToolCall(name="to_bob"), by_code], handoffs=[Handoff(call=1)])

    def called(**how: bool) -> list[str]:
        return [entry.name for entry in conversation([one], **how).turns[1].tools_called or ()]  # type: ignore[arg-type]

    assert called() == ["ask", "helper"]
    assert called(nested=True) == ["ask", "inner", "helper"]
    assert called(handoffs=True) == ["ask", "to_bob", "helper"]
    assert called(executed_only=True) == ["ask"]
    assert called(code=False) == ["ask"]


def test_the_conversation_knows_all_tools_and_a_shared_id() -> None:
    """Each tool is listed once with its first description; an id is used only if all runs share it."""
    add, add_again, slow = ToolSpec(name="add", description="adds"), ToolSpec(name="add"), ToolSpec(name="slow")
    runs = [
        run(available_tools=[add], conversation_id="t"),
        run(available_tools=[add_again, slow], conversation_id="t"),
    ]

    case = conversation(runs)

    assert (case.id, case.available_tools) == ("t", [add, slow])
    assert conversation([*runs, run(conversation_id="u")]).id is None
    assert conversation([*runs, run()]).id is None
    assert conversation([*runs, run()], id="mine").id == "mine"
    assert "available_tools" not in conversation([run()]).model_fields_set


def test_the_conversation_has_the_system_prompts_of_its_runs() -> None:
    """Each once; a run that waited and the one that went on with it are one run with those of both."""
    case = conversation([run(instructions="A1"), run(instructions="A1"), run(), run(instructions="B2")])
    waiting = run("go", None, calls=[made("pay", "c2", 0, "pending")], status="interrupted", instructions="A1")
    both = joined(waiting, run(None, calls=[made("pay", "c2", 0)], instructions="B2"))

    assert case.instructions == "A1\n\nB2"
    assert {part.run and part.run.instructions for part in case.to_test_cases()} == {"A1\n\nB2"}
    assert both is not None
    assert both.instructions == "A1\n\nB2"
    assert "instructions" not in conversation([run()]).model_fields_set


def test_no_runs_are_an_empty_conversation() -> None:
    """No runs give an empty conversation without an error."""
    assert conversation([]) == ConversationalTestCase(turns=[])


def test_runs_are_grouped_by_conversation() -> None:
    """One conversation for each id, in order of the first runs; a run without an id is separate."""
    runs = [
        run("a1", conversation_id="a"),
        run("alone"),
        run("b1", conversation_id="b"),
        run("a2", conversation_id="a"),
        run("alone too"),
    ]

    cases = conversations(runs)

    prompts = [[text for role, text in roles(case) if role == "user"] for case in cases]
    assert prompts == [["a1", "a2"], ["alone"], ["b1"], ["alone too"]]
    assert [case.id for case in cases] == ["a", None, "b", None]


# Order and images


def at(second: int) -> datetime:
    """A time."""
    return datetime(2024, 1, 1, 12, 0, second, tzinfo=timezone.utc)


def texts(cases: list[ConversationalTestCase]) -> list[list[str]]:
    """What users said, by conversation."""
    return [[turn.content for turn in case.turns if turn.role == "user"] for case in cases]


def test_runs_are_ordered_by_their_start() -> None:
    """A file has runs in the order of their ends; conversations are in the order in which they began."""
    runs = [
        run("b2", conversation_id="b", started_at=at(4)),
        run("a2", conversation_id="a", started_at=at(3)),
        run("b1", conversation_id="b", started_at=at(2)),
        run("a1", conversation_id="a", started_at=at(1)),
    ]
    assert texts(conversations(runs)) == [["a1", "a2"], ["b1", "b2"]]


def test_runs_without_a_start_stay_in_their_order() -> None:
    """Only conversations of which all runs have a start are ordered, and times must be comparable."""
    runs = [
        run("b2", conversation_id="b", started_at=at(4)),
        run("b1", conversation_id="b", started_at=at(2)),
        run("a2", conversation_id="a", started_at=at(3)),
        run("a1", conversation_id="a"),
        run("c2", conversation_id="c", started_at=at(3).replace(tzinfo=None)),
        run("c1", conversation_id="c", started_at=at(1)),
    ]
    assert texts(conversations(runs)) == [["b1", "b2"], ["a2", "a1"], ["c2", "c1"]]


def test_images_of_the_input_are_left_out_with_a_warning() -> None:
    """A turn has text only; a run whose input is an image alone still has a turn of the user."""
    image = MLLMImage(url="https://example.com/a.png")
    case = conversation([run("What?", input_parts=["What?", image]), run(None, input_parts=[image])])

    assert roles(case) == [("user", "What?"), ("assistant", "three"), ("user", ""), ("assistant", "three")]
    warning = "the images of the input were left out; a turn has text only"
    assert [turn.metadata for turn in case.turns if turn.role == "assistant"] == [{"warnings": [warning]}] * 2


# Runs that waited and went on elsewhere


def made(name: str, call_id: str | None, step: int, status: str = "ok", argument: int = 0) -> ToolCall:
    """A call of a run."""
    execution = Execution(status=status, step=step, executed=status == "ok")  # type: ignore[arg-type]
    return ToolCall(name=name, id=call_id, input_parameters={"x": argument}, execution=execution)


@st.composite
def cut_runs(draw: st.DrawFn) -> tuple[list[ToolCall], list[ToolCall], list[ToolCall]]:
    """The calls of a whole run, those until it waited, and those of the run that went on, which may have them all."""
    has_ids, is_whole = draw(st.booleans()), draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    cut = draw(st.integers(0, len(sizes) - 1))
    names = st.sampled_from(["look", "pay"])
    answers = st.sampled_from(["ok", "rejected"])
    whole: list[ToolCall] = []
    for step, size in enumerate(sizes):
        for _ in range(size):
            number = len(whole)
            call_id, status = f"c{number}" if has_ids else None, draw(answers)
            whole.append(made(draw(names), call_id, step, status, 0 if has_ids else number))
    steps = [step for step, size in enumerate(sizes) for _ in range(size)]
    waits = [step == cut and (draw(st.booleans()) or steps.index(step) == place) for place, step in enumerate(steps)]
    before = [
        made(one.name, one.id, step, "pending", one.arguments["x"]) if wait else one
        for one, wait, step in zip(whole, waits, steps, strict=True)
        if step <= cut
    ]
    if is_whole:
        return whole, before, whole
    rest = [one for one, wait, step in zip(whole, waits, steps, strict=True) if wait or step > cut]
    later = [made(one.name, one.id, 0, one.execution.status.value, one.arguments["x"]) for one in rest if one.execution]
    numbers = [one.execution.step - cut for one in rest if one.execution and one.execution.step is not None]
    moved = [
        one.model_copy(update={"execution": one.execution.model_copy(update={"step": number})})
        for one, number in zip(later, numbers, strict=True)
        if one.execution
    ]
    return whole, before, moved


@given(cut_runs())
def test_a_run_that_went_on_elsewhere_is_one_run(cut: tuple[list[ToolCall], list[ToolCall], list[ToolCall]]) -> None:
    """Wherever it was cut, and whether the later record has all calls or the rest, no call is lost or twice."""
    whole, before, after = cut
    earlier = run("go", None, calls=before, status="interrupted", usage={"input_tokens": 2, "cached": 0}, duration=1.0)
    later = run(None, "done", calls=after, usage={"input_tokens": 3}, duration=2.0, warnings=[LACKS_BEGINNING, "w"])

    both = joined(earlier, later)

    assert both is not None
    assert both.calls == whole
    assert (both.input, both.actual_output, both.status, both.warnings) == ("go", "done", RunStatus.OK, ["w"])
    assert (both.usage, both.duration) == ({"input_tokens": 5, "cached": 0}, 3.0)

    for lacks in ({"usage": None}, {"duration": None}):
        for pair in ((earlier.model_copy(update=lacks), later), (earlier, later.model_copy(update=lacks))):
            part = joined(*pair)
            assert part is not None
            assert [getattr(part, name) for name in lacks] == [None]


WAITING = run("go", None, calls=[made("look", "c1", 0), made("pay", "c2", 1, "pending")], status="interrupted")
ASKED = run("go", None, calls=[], status="interrupted")
PAIRS: dict[str, tuple[Run, Run, bool]] = {
    "answered": (WAITING, run(None, calls=[made("pay", "c2", 0)]), True),
    "arguments-changed": (WAITING, run(None, calls=[made("pay", "c2", 0, argument=5)]), True),
    "answer-as-input": (WAITING, run("yes", calls=[made("pay", "c2", 0)]), True),
    "failed-at-once": (WAITING, run(None, None, calls=[], status="error", error="ValueError: no"), True),
    "other-calls": (WAITING, run("go", calls=[made("pay", "c9", 0)]), False),
    "new-text": (WAITING, run("something else", calls=[]), False),
    "no-call-waits": (ASKED, run(None, calls=[made("pay", "c2", 0)]), True),
    "no-call-waits-and-new-text": (ASKED, run("something else"), False),
    "nothing-waits": (run("go", calls=[made("pay", "c2", 0)]), run(None, calls=[made("pay", "c2", 0)]), False),
}


@pytest.mark.parametrize(("earlier", "later", "is_one"), PAIRS.values(), ids=PAIRS)
def test_which_runs_are_one(earlier: Run, later: Run, is_one: bool) -> None:
    """A run goes on with one that waits if it has its call, or says nothing new where no call tells."""
    assert (joined(earlier, later) is not None) == is_one
    assert len([turn for turn in conversation([earlier, later]).turns if turn.role == "assistant"]) == 2 - is_one


def test_a_call_that_repeats_an_id_is_another_call() -> None:
    """After the answer, a model may use an id again; only the call that waited is the same."""
    earlier = run("go", None, calls=[made("look", "c0", 0), made("pay", "c0", 1, "pending")], status="interrupted")
    rest = [made("pay", "c0", 0), made("look", "c0", 1, argument=7)]

    both = joined(earlier, run(None, calls=rest))

    assert both is not None
    assert both.calls == [made("look", "c0", 0), made("pay", "c0", 1), made("look", "c0", 2, argument=7)]


def test_what_belongs_to_calls_is_moved_with_them() -> None:
    """Handoffs name the calls of the whole turn, a nested call that waited is answered, and tools are listed once."""
    inner = made("pay", "i1", 0, "pending")
    asks = made("ask", "c1", 0, "pending")
    asks = asks.model_copy(update={"execution": Execution(status="pending", step=0, children=[inner])})  # type: ignore[arg-type]
    answered = asks.model_copy(update={"execution": Execution(executed=True, step=0, children=[made("pay", "i1", 0)])})
    tool = ToolSpec(name="ask")
    earlier = run("go", None, calls=[made("look", "c0", 0), asks], status="interrupted", available_tools=[tool])
    later = run(None, calls=[answered, made("to_bob", "h1", 1)], handoffs=[Handoff(call=1)], available_tools=[tool])

    both = joined(earlier, later)

    assert both is not None
    assert (both.handoffs, both.available_tools) == ([Handoff(call=2)], [tool])
    assert [one.name for one in both.select_calls(nested=True)] == ["look", "ask", "pay"]
    assert {one.execution.status.value for one in both.select_calls(nested=True) if one.execution} == {"ok"}


def test_a_run_written_twice_is_the_later_record() -> None:
    """A sink has a run when it waits, and complete under the same id when it was resumed."""
    complete = run("go", "done", calls=[made("look", "c1", 0), made("pay", "c2", 1)], run_id="r1")

    (case,) = conversations([WAITING.model_copy(update={"run_id": "r1"}), complete])

    assert case == conversation([complete])


WRITER = """
import sys
from datetime import datetime, timedelta, timezone
from toolgrade import ToolCall
from toolgrade.capture import JsonlSink, RunBuilder, conversations

path, name = sys.argv[1:]
noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
builders = []
for turn in range(3):
    builder = RunBuilder(run_id=f"{name}-{turn}", conversation_id=name)
    builder.started(f"{name} asks {turn}", at=noon + timedelta(seconds=2 * turn + (name == "b")))
    builders.append(builder)
with JsonlSink(path) as sink:
    for builder in reversed(builders):
        builder.ended("Done.")
        sink.write(builder.build())
print([case.to_json() for case in conversations(builder.build() for builder in builders)])
"""


def test_two_processes_write_the_conversations_of_one_file(tmp_path: Path) -> None:
    """Runs that are read back give the conversations that the programs had."""
    path = tmp_path / "runs.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    outputs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]

    cases = conversations(case.run for case in read_cases(path) if case.run is not None)

    recorded = [text for output in outputs for text in ast.literal_eval(output)]
    assert [case.to_json() for case in cases] == recorded
    assert texts(cases) == [[f"{name} asks {turn}" for turn in range(3)] for name in ("a", "b")]
