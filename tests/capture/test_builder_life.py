"""How a recorded run lives: it waits, is resumed, retried, cancelled, ends late, and is read at any time."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from observations import builder_of, call, calls, ran, slow, unrun
from toolgrade import read_cases
from toolgrade.calls import CallStatus
from toolgrade.capture import JsonlSink, Outcome, Request, RunBuilder, RunRecorder
from toolgrade.cases import Handoff, LLMTestCase, Run, RunStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def state(builder: RunBuilder) -> tuple[RunStatus, list[str]]:
    """How the run ended, and what became of its calls."""
    run = builder.build()
    return run.status, [entry.execution.status.value for entry in run.calls if entry.execution is not None]


# Waiting and going on


def test_unanswered_calls_of_the_last_message_wait() -> None:
    """A framework that suspends runs by ending them: what the last message asked for waits, and nothing is answered."""
    builder = builder_of(slow(1, "c1"))
    ran(builder, "t1", "slow", {"x": 1}, "slow 1", call_id="c1")
    builder.model_asked([slow(2, "c2"), Request("add", {}, "c3")])
    builder.result_shown("done", call_id="c3")

    builder.ended("half an answer", may_wait=True)

    assert state(builder) == (RunStatus.INTERRUPTED, ["ok", "pending", "ok"])
    assert builder.build().actual_output is None


def test_an_interrupted_run_may_be_declared() -> None:
    """A framework that says itself that it waits is believed, and its open calls are pending."""
    builder = builder_of(slow(1, "c1"))

    builder.ended(status=RunStatus.INTERRUPTED)

    assert state(builder) == (RunStatus.INTERRUPTED, ["pending"])


def test_a_run_that_may_not_wait_did_not_execute_its_open_calls() -> None:
    """If the run cannot be waiting, unanswered calls were not executed, and the answer is used."""
    builder = builder_of(slow(1, "c1"))

    builder.ended("final")

    assert state(builder) == (RunStatus.OK, ["not_executed"])
    assert builder.build().actual_output == "final"


def test_an_interrupted_tool_that_is_resumed_is_a_second_attempt() -> None:
    """A tool that waits for a person is pending; on resumption it runs again as the same call."""
    builder = builder_of(Request("ask", {"q": "?"}, "c1"), Request("add", {"a": 1}, "c2"))
    builder.tool_started("t1", "ask", {"q": "?"}, call_id="c1")
    builder.tool_failed("t1", None, outcome=Outcome.SUSPENDED)
    ran(builder, "t2", "add", {"a": 1}, 3, call_id="c2")
    builder.ended(may_wait=True)
    before = state(builder)

    builder.resumed()
    ran(builder, "t3", "ask", {"q": "?"}, "blue", call_id="c1")
    builder.ended("final", may_wait=True)

    assert before == (RunStatus.INTERRUPTED, ["pending", "ok"])
    assert calls(builder) == [
        call("ask", {"q": "?"}, "c1", output="blue", attempts=2),
        call("add", {"a": 1}, "c2", output=3),
    ]
    assert (builder.build().status, builder.build().actual_output) == (RunStatus.OK, "final")


@pytest.mark.parametrize("change", ["withdrawn", "answered"])
def test_calls_that_wait_no_more(change: str) -> None:
    """Requests that somebody takes back, or answers in place of the tools, wait no more; the other one does."""
    requests = [Request("ask", {"q": "?"}, "c1"), slow(1, "c2"), slow(2, "c3")]
    builder = builder_of(*requests)
    builder.tool_started("t1", "ask", {"q": "?"}, call_id="c1")
    builder.tool_failed("t1", None, outcome=Outcome.SUSPENDED)
    builder.ended(may_wait=True)
    builder.resumed()
    if change == "withdrawn":
        builder.withdrawn([*requests[:2], Request("other")])
    for request in requests[:2] if change == "answered" else ():
        builder.result_shown("by hand", request=request)
    builder.ended(may_wait=True)

    gone = ["cancelled", "not_executed"] if change == "withdrawn" else ["ok", "ok"]
    assert state(builder) == (RunStatus.INTERRUPTED, [*gone, "pending"])


@pytest.mark.parametrize("left_over", [Outcome.SUSPENDED, Outcome.CANCELLED, None])
@pytest.mark.parametrize("end", [RunStatus.OK, RunStatus.STOPPED, None])
def test_left_over_attempt(left_over: Outcome | None, end: RunStatus | None) -> None:
    """A step that began twice at once: in a run that succeeded, and in no other, the pass that succeeded decides."""
    builder = builder_of(Request("ask", {}, "c1"))
    builder.tool_started("t1", "ask", {}, call_id="c1")
    builder.tool_started("t2", "ask", {}, call_id="c1")
    builder.tool_ended("t1", "blue")
    if left_over is not None:
        builder.tool_failed("t2", None, outcome=left_over)
    if end is not None:
        builder.ended("final", status=end)

    succeeded = calls(builder) == [call("ask", {}, "c1", output="blue", attempts=2)]
    assert succeeded == (end is RunStatus.OK)


def test_resuming_forgets_how_the_run_had_ended() -> None:
    """A resumed run is open: neither the answer, nor the status, nor the error of its first end is its own."""
    builder = builder_of()
    builder.ended("waiting...", status=RunStatus.INTERRUPTED, error="GraphInterrupt: ?")

    builder.resumed()

    run = builder.build()
    assert (builder.is_open, run.status, run.actual_output, run.error) == (True, RunStatus.OK, None, None)


def test_interrupted_sub_agent_resumes_its_call() -> None:
    """The second attempt of the outer tool runs the inner call requested in the first: one inner call."""
    builder = builder_of(Request("ask", {}, "c1"))
    builder.tool_started("outer 1", "ask", {}, call_id="c1")
    builder.model_asked([slow(1, "c1")], scope="outer 1")
    builder.tool_started("inner 1", "slow", {"x": 1}, call_id="c1", scope="outer 1")
    builder.tool_failed("inner 1", None, outcome=Outcome.SUSPENDED)
    builder.tool_failed("outer 1", None, outcome=Outcome.SUSPENDED)
    builder.ended(may_wait=True)
    before = state(builder)

    builder.resumed()
    builder.tool_started("outer 2", "ask", {}, call_id="c1")
    ran(builder, "inner 2", "slow", {"x": 1}, "slow 1", call_id="c1", scope="outer 2")
    builder.tool_ended("outer 2", "done")
    builder.ended("final", may_wait=True)

    inner = call("slow", {"x": 1}, output="slow 1", attempts=2)
    assert before == (RunStatus.INTERRUPTED, ["pending"])
    assert calls(builder) == [call("ask", output="done", attempts=2, children=[inner])]
    assert builder.build().status is RunStatus.OK


@pytest.mark.parametrize("asks_again", [True, False])
def test_restarted_sub_agent_drops_its_waiting_call(asks_again: bool) -> None:
    """A sub-agent without memory starts again: the old inner call is cancelled and blocks nothing."""
    builder = builder_of(Request("ask", {}, "c1"))
    builder.tool_started("outer 1", "ask", {}, call_id="c1")
    builder.model_asked([slow(1, "c1"), slow(2, "c2")], scope="outer 1")
    builder.tool_started("inner 1", "slow", {"x": 1}, call_id="c1", scope="outer 1")
    builder.tool_failed("inner 1", None, outcome=Outcome.SUSPENDED)
    builder.tool_failed("outer 1", None, outcome=Outcome.SUSPENDED)
    builder.ended(may_wait=True)

    builder.resumed()
    builder.tool_started("outer 2", "ask", {}, call_id="c1")
    if asks_again:
        builder.model_asked([slow(1, "c1")], scope="outer 2")
        ran(builder, "inner 2", "slow", {"x": 1}, "slow 1", call_id="c1", scope="outer 2")
    builder.tool_ended("outer 2", "done")
    builder.ended("final", may_wait=True)

    given_up = [call("slow", {"x": 1}, "c1", status="cancelled"), unrun("slow", "not_executed", {"x": 2}, "c2")]
    again = [call("slow", {"x": 1}, "c1", output="slow 1", step=1)] if asks_again else []
    assert calls(builder) == [call("ask", output="done", attempts=2, children=[*given_up, *again])]
    assert (builder.build().status, builder.build().actual_output) == (RunStatus.OK, "final")


# Ending


def test_a_cancelled_call_is_upgraded_by_its_late_end() -> None:
    """A tool that the run did not wait for is cancelled until its end arrives."""
    builder = builder_of(slow(1, "c1"), slow(2, "c2"))
    builder.tool_started("t1", "slow", {"x": 1}, call_id="c1")
    builder.tool_started("t2", "slow", {"x": 2}, call_id="c2")
    builder.tool_failed("t2", "CancelledError: ", outcome=Outcome.CANCELLED)
    builder.ended(status=RunStatus.STOPPED, error="TimeoutError: ")
    before = calls(builder)

    builder.tool_ended("t1", "slow 1")
    builder.tool_ended("t2", "slow 2")

    assert before == [
        call("slow", {"x": 1}, "c1", status="cancelled"),
        call("slow", {"x": 2}, "c2", status="cancelled", error="CancelledError: "),
    ]
    assert calls(builder) == [
        call("slow", {"x": 1}, "c1", output="slow 1"),
        call("slow", {"x": 2}, "c2", output="slow 2"),
    ]


@pytest.mark.parametrize(("failed", "status"), [(False, "ok"), (True, "error")])
def test_model_output_replaces_a_missing_end(failed: bool, status: str) -> None:
    """A started tool without an end has the result that the model received."""
    builder = builder_of(slow(1, "c1"))
    builder.tool_started("t1", "slow", {"x": 1}, call_id="c1")

    builder.result_shown("slow 1", call_id="c1", failed=failed)

    builder.ended("final", may_wait=True)
    more: dict[str, Any] = {"error": "slow 1", "model_output": "slow 1"} if failed else {"output": "slow 1"}
    assert calls(builder) == [call("slow", {"x": 1}, status=status, **more)]
    assert builder.build().status is RunStatus.OK


def test_rerun_after_success_is_another_attempt() -> None:
    """The same id shows a rerun of the same request, as a resumed run may do."""
    builder = builder_of(slow(1, "c1"))
    ran(builder, "t1", "slow", {"x": 1}, "first", call_id="c1")

    ran(builder, "t2", "slow", {"x": 9}, "second", call_id="c1")

    expected = call("slow", {"x": 9}, output="second", attempts=2, requested_parameters={"x": 1})
    assert calls(builder) == [expected]


def test_times_span_all_attempts() -> None:
    """A call starts with its first attempt and lasts to the end of its last."""
    builder = builder_of(slow(1, "c1"), slow(2, "c2"))
    for key, start, end in (("t1", 0, 1), ("t2", 2, 5)):
        builder.tool_started(key, "slow", {"x": 1}, call_id="c1", at=NOON + timedelta(seconds=start))
        builder.tool_failed(key, "E: e", at=NOON + timedelta(seconds=end))

    first, _ = (entry.execution for entry in builder.build().calls)
    assert first is not None
    assert (first.started_at, first.duration) == (NOON, 5.0)
    assert first.status is CallStatus.ERROR


@pytest.mark.parametrize("end", [NOON.replace(tzinfo=None), NOON - timedelta(seconds=1)], ids=["no zone", "went back"])
def test_a_duration_that_cannot_be_is_not_known(end: datetime) -> None:
    """A time without a zone cannot be compared, and a clock that went back measures nothing."""
    builder = builder_of(slow(1, "c1"))
    builder.started(at=NOON)
    builder.tool_started("t1", "slow", {"x": 1}, call_id="c1", at=NOON)
    builder.tool_ended("t1", "ok", at=end)
    builder.ended("done", at=end)

    run = builder.build()
    how = run.calls[0].execution
    assert how is not None
    assert (run.started_at, run.duration, how.started_at, how.duration) == (NOON, None, NOON, None)


# Reading


def test_run_has_its_metadata() -> None:
    """Input, answer, tools, models, tokens, times: first start, each tool once, summed tokens."""
    builder = RunBuilder(run_id="r1", conversation_id="talk")
    builder.labelled(tags=["nightly"], metadata={"seed": 7})
    builder.labelled(tags=["nightly"])
    builder.started("hi", at=NOON)
    builder.started(at=NOON + timedelta(seconds=1))
    builder.offered([{"name": "add", "parameters": {}}, {"name": "add"}])
    builder.model_used("m1", {"input_tokens": 10, "output_tokens": 2})
    builder.model_used("m2", {"input_tokens": 5})
    builder.model_used("m1")

    builder.ended("final", at=NOON + timedelta(seconds=3))

    assert builder.build().to_dict() == {
        "input": "hi",
        "actual_output": "final",
        "calls": [],
        "handoffs": [],
        "status": "ok",
        "warnings": [],
        "available_tools": [{"name": "add", "input_schema": {}}],
        "models": ["m1", "m2"],
        "usage": {"input_tokens": 15, "output_tokens": 2},
        "conversation_id": "talk",
        "run_id": "r1",
        "tags": ["nightly"],
        "metadata": {"seed": 7},
        "started_at": "2026-01-01T12:00:00Z",
        "duration": 3.0,
    }


# What should not happen


def test_inconsistent_observations_warn_once() -> None:
    """Nothing is raised or lost; each problem is one warning of the run."""
    builder = builder_of(slow(1, "c1"))
    for _ in range(2):
        builder.tool_ended("never", "x")
        builder.tool_failed("never", "E: e")
        builder.model_asked([slow(2, "c2")], scope="never")
        builder.tool_started("twice", "slow", {"x": 3}, scope="never")
        builder.handed_off(to="bob", call_id="never")
        builder.offered([3])

    run = builder.build()

    not_a_tool = "an available tool must be a ToolSpec, a ToolCall or an object with a name, got int 3"
    assert run.warnings == [
        "a tool ended that never started; it is not in the record",
        "a tool failed that never started; it is not in the record",
        "an observation inside an unknown tool execution was recorded at the top level",
        "a hand-off to 'bob' belongs to no recorded call",
        f"an offered tool was not understood: {not_a_tool}",
        "two executions have the key 'twice'; later observations of the first go to the second",
    ]
    assert [entry.id for entry in run.calls] == ["c1", "c2", "c2"]
    assert run.handoffs == [Handoff(to_agent="bob"), Handoff(to_agent="bob")]


def test_a_result_that_answers_nothing_is_refused() -> None:
    """The caller learns that no call matches and decides what to report; calls by code are not answered."""
    builder = builder_of(slow(1, "c1"))
    builder.tool_started("t1", "add", {"a": 1})

    accepted = [
        builder.result_shown("x", call_id="other"),
        builder.result_shown("x", name="add"),
        builder.result_shown("x", name="slow"),
    ]

    assert accepted == [False, False, False]
    assert builder.build().warnings == []


def test_value_that_cannot_be_stored_is_marked() -> None:
    """A value that is too deep is left out; the call marks it, and the run has a warning."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    builder = builder_of(Request("slow", {"x": deep}, "c1"), slow(2, "c2"))
    builder.tool_started("t1", "slow", None, call_id="c1")
    builder.tool_ended("t1", deep, artifact=deep, model_output=deep)

    builder.result_shown(deep, call_id="c2", failed=True)

    run = builder.build()
    assert [entry.execution.not_captured for entry in run.calls if entry.execution] == [
        ["input_parameters", "output", "model_output", "artifact"],
        ["model_output"],
    ]
    assert len(run.warnings) == 4
    assert all("could not be stored" in warning for warning in run.warnings)


def test_repeated_result_is_not_another_result() -> None:
    """With equal ids, a result repeated in a history is not assigned to the next call."""
    builder = builder_of(slow(1, "dup"), slow(2, "dup"))
    for x in (1, 2):
        ran(builder, f"t{x}", "slow", {"x": x}, f"slow {x}", call_id="dup")

    builder.result_shown("one", call_id="dup", artifact=[7])
    for content in ("one", "two", "one"):
        builder.result_shown(content, call_id="dup")

    assert calls(builder) == [
        call("slow", {"x": 1}, "dup", output="slow 1", model_output="one", artifact=[7]),
        call("slow", {"x": 2}, "dup", output="slow 2", model_output="two"),
    ]


def test_different_result_replaces_the_earlier_one() -> None:
    """A rewritten result is the final model output; a copy in another form is not."""
    builder = builder_of(slow(1, "c1"))

    builder.result_shown("draft", call_id="c1", failed=True)
    builder.result_shown("final", call_id="c1")
    builder.result_shown(["a copy"], call_id="c1", reformatted=True)

    assert calls(builder) == [unrun("slow", "ok", {"x": 1}, output="final")]


def test_without_ids_a_program_may_repeat_a_rejected_call() -> None:
    """An execution without an id matches an answered request only by its arguments."""
    builder = builder_of(slow(1, None))
    builder.result_shown("no!", name="slow", failed=True)

    ran(builder, "t1", "slow", {"x": 7}, "slow 7")

    assert calls(builder) == [
        unrun("slow", "rejected", {"x": 1}, None, error="no!", model_output="no!"),
        call("slow", {"x": 7}, None, output="slow 7", origin="code"),
    ]


def test_without_ids_a_lost_end_does_not_hide_a_retry() -> None:
    """An equal execution is another attempt of one whose end was not seen; once it succeeded, a program called it."""
    builder = builder_of(slow(1, None))
    builder.tool_started("t1", "slow", {"x": 1})

    ran(builder, "t2", "slow", {"x": 1}, "slow 1")
    ran(builder, "t3", "slow", {"x": 1}, "again")

    assert calls(builder) == [
        call("slow", {"x": 1}, None, output="slow 1", attempts=2),
        call("slow", {"x": 1}, None, output="again", origin="code"),
    ]


def test_recorder_warnings_are_on_the_run() -> None:
    """Repeated warnings are listed once."""
    builder = builder_of()

    builder.warn("something was lost")
    builder.warn("something was lost")

    assert builder.build().warnings == ["something was lost"]


# Values that cannot be stored as they are


def test_a_name_that_is_not_unicode_is_stored_with_escapes(tmp_path: Path) -> None:
    """UTF-8 cannot hold lone surrogates, as a model that was cut in the middle of a character writes them."""
    builder = builder_of(Request("get_\ud800", {"k\ud801": ["\ud802"]}, "c1"))
    ran(builder, "t1", "get_\ud800", {"k\ud801": ["\ud802"]}, {"\ud803": {"\ud804": 1}}, call_id="c1")
    builder.ended("done")
    run = builder.build()

    with JsonlSink(tmp_path / "runs.jsonl") as sink:
        sink.write(run)

    [case] = read_cases(tmp_path / "runs.jsonl")
    assert isinstance(case, LLMTestCase)
    assert case.run == run
    assert [(call.name, call.output) for call in run.calls] == [("get_\\ud800", {"\ud803": {"\ud804": 1}})]
    assert run.warnings == ["the name of a tool must be Unicode text, got 'get_\\ud800'; it is stored with escapes"]


def test_a_run_that_cannot_be_built_costs_no_other() -> None:
    """It is a run with an error, in a list, for the sink, and when it is taken out."""

    class WrongRecorder(RunRecorder[Any]):
        def add(self, question: str, tags: list[Any]) -> None:
            builder = RunBuilder(run_id=question)
            builder.tags = tags
            builder.started(question)
            builder.ended()
            recording = SimpleNamespace(builder=builder, run=builder.build)
            self._add(recording)
            self._deliver([recording])

    written: list[Run] = []
    for recorder in (WrongRecorder(), WrongRecorder(sink=SimpleNamespace(write=written.append))):
        for question, tags in (("first", []), ("second", [3]), ("third", [])):
            recorder.add(question, tags)
        for runs in (recorder.runs, recorder.pop()) if not written else (written,):
            assert [(run.run_id, run.input) for run in runs] == [
                ("first", "first"),
                ("second", None),
                ("third", "third"),
            ]
            assert runs[1].status is RunStatus.ERROR
            assert runs[1].warnings == [
                "the run could not be built: InvalidDataError: Run: $.tags[0]: expected a string, got 3"
            ]
