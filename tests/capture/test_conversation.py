"""Conversations built from runs: a user turn and an assistant turn with the calls for each run."""

import ast
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.capture import conversation, conversations
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
