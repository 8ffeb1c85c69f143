"""Realtime sessions: each turn of the user is a run, with the calls, hand-overs and texts that answer it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from agents import (
    GuardrailFunctionOutput,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    output_guardrail,
    tool_input_guardrail,
)
from oa_agents import add, boom, called, hard, make_agent, scenario, slow, summaries
from oa_versions import FEATURES

from toolgrade import Run
from toolgrade.testing import AskFor
from toolgrade_openai_agents import Recorder, available_tools, record

HAS_REALTIME = FEATURES["realtime"].is_due()

if HAS_REALTIME:
    from agents.realtime import RealtimeAgent, RealtimeRunner
    from agents.realtime.model_events import RealtimeModelTurnEndedEvent
    from oa_realtime import Transport, play, session_of


def _danger() -> Any:
    @function_tool(needs_approval=True)
    async def danger(n: int) -> str:
        return f"danger{n}"

    return danger


def _blocked() -> Any:
    @tool_input_guardrail
    def refuse(_data: Any) -> Any:
        return ToolGuardrailFunctionOutput.reject_content("not that one")

    @function_tool(tool_input_guardrails=[refuse])
    async def blocked(n: int) -> str:
        return f"blocked{n}"

    return blocked


def _nested() -> Any:
    @function_tool
    async def delegate(n: int) -> str:
        asks = [AskFor("add", {"a": n, "b": n}, "in1")]
        result = await Runner.run(make_agent(asks, "sub done", tools=[add], name="Sub"), "inside")
        return str(result.final_output)

    return delegate


ADD, ADD2 = AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("add", {"a": 3, "b": 4}, "c2")
TO_B = AskFor("transfer_to_b", {}, "h1")
DANGER, DANGER2 = AskFor("danger", {"n": 1}, "d1"), AskFor("danger", {"n": 2}, "d2")
GUARDS = {"debounce_text_length": 3}
IMAGE = "data:image/png;base64,aGk="
UNANSWERED = "the turn ended without an answer"
NOT_APPROVED = "Tool execution was not approved."

SCENES: dict[str, tuple[list[tuple[Any, ...]], list[dict[str, Any]]]] = {
    "typed, two calls at once": (
        [("types", "add up"), ("replies", "One moment.", ADD, ADD2), ("replies", "Three and seven.")],
        [
            {
                "input": "add up",
                "output": "Three and seven.",
                "calls": [
                    called("add", ADD.arguments, "c1", {"sum": 3}),
                    called("add", ADD2.arguments, "c2", {"sum": 7}),
                ],
                "steps": [0, 0],
            }
        ],
    ),
    "calls one after the other": (
        [("types", "add up"), ("replies", ADD), ("replies", ADD2), ("replies", "Done.")],
        [
            {
                "input": "add up",
                "output": "Done.",
                "calls": [
                    called("add", ADD.arguments, "c1", {"sum": 3}),
                    called("add", ADD2.arguments, "c2", {"sum": 7}),
                ],
                "steps": [0, 1],
            }
        ],
    ),
    "two turns": (
        [("types", "hi"), ("replies", "Hello."), ("types", "add up"), ("replies", ADD), ("replies", "Three.")],
        [
            {"input": "hi", "output": "Hello."},
            {"input": "add up", "output": "Three.", "calls": [called("add", ADD.arguments, "c1", {"sum": 3})]},
        ],
    ),
    "two messages before the reply": (
        [("types", "hi"), ("types", "there"), ("replies", "Hello.")],
        [{"input": "hi\nthere", "output": "Hello."}],
    ),
    "the agent speaks first": (
        [("replies", "Welcome."), ("types", "hi"), ("replies", "Hello.")],
        [{"input": None, "output": "Welcome."}, {"input": "hi", "output": "Hello."}],
    ),
    "spoken, transcribed while the model replies": (
        [("speaks", "u1"), ("replies", ADD), ("hears", "u1", "add up"), ("replies", "Three.")],
        [{"input": "add up", "output": "Three.", "calls": [called("add", ADD.arguments, "c1", {"sum": 3})]}],
    ),
    "spoken, transcribed after the reply": (
        [("speaks", "u1"), ("replies", "Hello."), ("hears", "u1", "hi"), ("speaks", "u2", "bye"), ("replies", "Bye.")],
        [{"input": "hi", "output": "Hello."}, {"input": "bye", "output": "Bye."}],
    ),
    "spoken, transcribed after the next turn": (
        [("speaks", "u1"), ("replies", "Hello."), ("types", "bye"), ("replies", "Bye."), ("hears", "u1", "hi")],
        [{"input": "hi", "output": "Hello."}, {"input": "bye", "output": "Bye."}],
    ),
    "spoken, transcribed only": (
        [("hears", "u1", "hi"), ("replies", "Hello.")],
        [{"input": "hi", "output": "Hello."}],
    ),
    "interrupted": (
        [
            ("types", "tell me all"),
            ("begins", "It begins with"),
            ("interrupts",),
            ("speaks", "u2", "stop"),
            ("replies", "Fine."),
        ],
        [{"input": "tell me all", "output": "It begins with"}, {"input": "stop", "output": "Fine."}],
    ),
    "typed into the reply": (
        [("types", "tell me all"), ("begins", "It begins with"), ("types", "stop"), ("replies", "Fine.")],
        [{"input": "tell me all", "output": "It begins with"}, {"input": "stop", "output": "Fine."}],
    ),
    "interrupted, and nothing follows": (
        [("types", "tell me all"), ("begins", "It begins with"), ("interrupts",)],
        [{"input": "tell me all", "output": "It begins with"}],
    ),
    "interrupted before anything was said": (
        [("speaks", "u1", "I want"), ("begins",), ("speaks", "u2", "to add up"), ("replies", "Three.")],
        [{"input": "I want\nto add up", "output": "Three."}],
    ),
    "a text after a call, and no reply to its output": (
        [("types", "add up"), ("replies", ADD, "One moment.")],
        [
            {
                "input": "add up",
                "status": "stopped",
                "error": UNANSWERED,
                "calls": [called("add", ADD.arguments, "c1", {"sum": 3})],
            }
        ],
    ),
    "failing, unknown, invalid and refused": (
        [
            ("types", "try"),
            (
                "replies",
                AskFor("boom", {"x": 1}, "c1"),
                AskFor("nope", {"x": 2}, "c2"),
                AskFor("add", '{"a": ', "c3"),
                AskFor("blocked", {"n": 4}, "c4"),
            ),
            ("replies", "Nothing worked."),
        ],
        [
            {
                "input": "try",
                "output": "Nothing worked.",
                "calls": [
                    called("boom", {"x": 1}, "c1", status="error", error="ValueError: bad 1"),
                    called("nope", {"x": 2}, "c2", status="unknown_tool", error="Tool nope not found"),
                    called("add", {}, "c3", status="invalid_arguments", error=...),
                    called("blocked", {"n": 4}, "c4", status="rejected", error="not that one"),
                ],
            }
        ],
    ),
    "handed over": (
        [("types", "B, please"), ("replies", TO_B), ("replies", DANGER), ("approves", "d1"), ("replies", "B did it.")],
        [
            {
                "input": "B, please",
                "output": "B did it.",
                "calls": [called("danger", {"n": 1}, "d1", "danger1", agent="B")],
                "handoffs": [("A", "B")],
            }
        ],
    ),
    "approved and rejected": (
        [
            ("types", "go"),
            ("replies", DANGER, DANGER2),
            ("approves", "d1"),
            ("rejects", "d2"),
            ("replies", "One of two."),
        ],
        [
            {
                "input": "go",
                "output": "One of two.",
                "calls": [
                    called("danger", {"n": 1}, "d1", "danger1"),
                    called("danger", {"n": 2}, "d2", status="rejected", error=NOT_APPROVED),
                ],
                "steps": [0, 0],
            }
        ],
    ),
    "approved, and no reply": (
        [("types", "go"), ("replies", DANGER), ("approves", "d1")],
        [
            {
                "input": "go",
                "status": "stopped",
                "error": UNANSWERED,
                "calls": [called("danger", {"n": 1}, "d1", "danger1")],
            }
        ],
    ),
    "waiting, while others run and the model talks": (
        [("types", "go"), ("replies", DANGER, ADD), ("replies", "I need your approval.")],
        [
            {
                "input": "go",
                "status": "interrupted",
                "calls": [
                    called("danger", {"n": 1}, "d1", status="pending"),
                    called("add", ADD.arguments, "c1", {"sum": 3}),
                ],
            }
        ],
    ),
    "an agent inside a tool": (
        [("types", "delegate"), ("replies", AskFor("delegate", {"n": 2}, "c1")), ("replies", "Delegated.")],
        [
            {
                "input": "delegate",
                "output": "Delegated.",
                "calls": [called("delegate", {"n": 2}, "c1", "sub done")],
                "children": [called("add", {"a": 2, "b": 2}, "in1", {"sum": 4}, agent="Sub")],
            }
        ],
    ),
    "a tool that ends the session": (
        [("types", "try"), ("replies", AskFor("hard", {"x": 1}, "c1"))],
        [
            {
                "input": "try",
                "status": "error",
                "error": "ValueError: hard 1",
                "calls": [called("hard", {"x": 1}, "c1", status="error", error="ValueError: hard 1")],
            }
        ],
    ),
    "closed before the reply": (
        [("types", "add up"), ("replies", ADD)],
        [
            {
                "input": "add up",
                "status": "stopped",
                "error": UNANSWERED,
                "calls": [called("add", ADD.arguments, "c1", {"sum": 3})],
            }
        ],
    ),
    "error of the model, and no reply": (
        [("types", "hi"), ("fails", "rate limit")],
        [{"input": "hi", "status": "error", "error": "rate limit"}],
    ),
    "error of the model, and the user tries again": (
        [("types", "hi"), ("fails", "rate limit"), ("types", "hi?"), ("replies", "Hello.")],
        [{"input": "hi", "status": "error", "error": "rate limit"}, {"input": "hi?", "output": "Hello."}],
    ),
    "error of the model, and a reply": (
        [("types", "hi"), ("fails", "no active response"), ("replies", "Hello.")],
        [{"input": "hi", "output": "Hello."}],
    ),
    "the connection breaks": (
        [("types", "hi"), ("fails", OSError("gone"))],
        [{"input": "hi", "status": "error", "error": "OSError: gone"}],
    ),
}


def _agent(**more: Any) -> Any:
    b = RealtimeAgent(name="B", tools=[_danger(), function_tool(lambda: "b", name_override="only_b")])
    return RealtimeAgent(
        name="A", tools=[add, boom, hard, slow, _danger(), _blocked(), _nested()], handoffs=[b], **more
    )


def _view(run: Run, expected: dict[str, Any]) -> dict[str, Any]:
    """What a run shows of the fields that are expected; an error in an SDK's words is any."""
    calls, how = run.tools_called, [call.execution for call in run.tools_called]
    view: dict[str, Any] = {
        "input": run.input,
        "output": run.actual_output,
        "status": run.status.value,
        "error": run.error,
        "calls": summaries(calls),
        "handoffs": [(handoff.from_agent, handoff.to_agent) for handoff in run.handoffs],
    }
    for one, wanted in zip(view["calls"], expected.get("calls", []), strict=True):
        if wanted.get("error") is ...:
            assert one.pop("error")
    if "steps" in expected:
        view["steps"] = [one.step for one in how if one]
    if "children" in expected:
        view["children"] = summaries([child for one in how if one for child in one.children])
    return view


USUAL = {"output": None, "status": "ok", "error": None, "calls": [], "handoffs": []}


@pytest.mark.parametrize("repeats", [True, False], ids=["repeats", "silent"])
@pytest.mark.parametrize(("steps", "expected"), SCENES.values(), ids=SCENES)
@scenario("33", (), needs="realtime")
def test_turns_of_a_session(
    mode: str,  # noqa: ARG001
    steps: list[tuple[Any, ...]],
    expected: list[dict[str, Any]],
    repeats: bool,
) -> None:
    """Each turn is a run of one conversation, whether or not the transport repeats what the program sends."""
    recorder = play(_agent(), steps, repeats=repeats)

    views = [_view(run, one) for run, one in zip(recorder.runs, expected, strict=True)]
    expected = [USUAL | one for one in expected]
    for one in expected:
        one["calls"] = [{k: v for k, v in call.items() if v is not ...} for call in one["calls"]]
    assert views == expected
    assert not recorder.warnings
    assert not any(run.warnings for run in recorder.runs)
    assert recorder.inner_runs == []
    [conversation] = recorder.conversations()
    assert [turn.content for turn in conversation.turns if turn.role == "user"] == [
        one["input"] for one in expected if one["input"]
    ]


@scenario("33b", (), needs="realtime")
def test_what_a_session_shows_of_a_turn(mode: str) -> None:  # noqa: ARG001
    """A turn has its usage, model and tools, those of an agent that got control included, and images of the user."""
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]}
    message["content"].append({"type": "input_image", "image_url": IMAGE})
    recorder = play(
        _agent(), [("types", message), ("replies", TO_B), ("replies", "Here."), ("types", "hi"), ("replies", "Hi.")]
    )

    first, second = recorder.runs
    assert (first.usage, first.models) == ({"input_tokens": 12, "output_tokens": 8, "total_tokens": 20}, ["realtime-1"])
    assert [{tool.name for tool in run.available_tools or ()} >= {"add", "only_b"} for run in (first, second)] == [
        True,
        True,
    ]
    assert (first.input, [type(part).__name__ for part in first.input_parts or ()]) == ("look", ["str", "MLLMImage"])
    assert asyncio.run(available_tools(RealtimeAgent(name="C", handoffs=[_agent()])))[0].name == "add"


@pytest.mark.parametrize(
    ("reply", "ended"),
    [
        pytest.param(["Hello."], ("Hello.", "ok", None), id="corrected"),
        pytest.param(None, (None, "stopped", "OutputGuardrailTripwireTriggered: polite"), id="not corrected"),
        pytest.param([], (None, "stopped", UNANSWERED), id="no text"),
    ],
)
@scenario("33c", (), needs="realtime")
def test_guardrails_of_a_session(mode: str, reply: list[str] | None, ended: tuple[str, ...]) -> None:  # noqa: ARG001
    """What a guardrail stops is no answer, what it tells the model is no turn, and a run that it begins is inner."""

    @output_guardrail(name="polite")
    async def check(_context: Any, _agent: Any, text: str) -> GuardrailFunctionOutput:
        await Runner.run(make_agent("fine"), "is this fine?")
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="fool" in text)

    async def go() -> Recorder:
        with record() as recorder:
            async with session_of(_agent(output_guardrails=[check]), {"guardrails_settings": GUARDS}) as scene:
                await scene.types("hi")
                await scene.begins("You fool")
                await scene.until("guardrail_tripped")
                await scene.until("history_added")  # what the model is told
                await scene.transport.emit(RealtimeModelTurnEndedEvent())
                if reply is not None:
                    await scene.replies(*reply)
        return recorder

    recorder = asyncio.run(go())

    [run] = recorder.runs
    assert (run.actual_output, run.status.value, run.error) == ended
    assert run.input == "hi"
    assert run.metadata == {"guardrails_tripped": "polite"}
    assert {str(inner.input) for inner in recorder.inner_runs} == {"is this fine?"}


@scenario("33d", (), needs="realtime")
def test_speech_that_is_not_transcribed(mode: str) -> None:  # noqa: ARG001
    """The run says that its input is missing, once."""
    recorder = play(_agent(), [("speaks", "u1"), ("replies", "Pardon?"), ("speaks", "u2", "hi"), ("replies", "Hi.")])

    warnings = ["the speech of the user was not transcribed, so the input is missing"]
    assert [(run.input, run.actual_output, run.warnings) for run in recorder.runs] == [
        (None, "Pardon?", warnings),
        ("hi", "Hi.", []),
    ]


@scenario("33e", (), needs="realtime")
def test_a_session_that_closes_while_a_tool_runs(mode: str) -> None:  # noqa: ARG001
    """The call is cancelled, and a turn is delivered as soon as it is over."""

    class Sink:
        runs: ClassVar[list[Run]] = []

        def write(self, run: Run) -> None:
            self.runs.append(run)

    async def go() -> None:
        async with record(sink=Sink()), session_of(_agent()) as scene:
            await scene.types("hi")
            await scene.replies("Hello.")
            assert not Sink.runs
            await scene.types("sleep")
            assert [run.actual_output for run in Sink.runs] == ["Hello."]
            await scene.begins(AskFor("slow", {"d": 60}, "c1"))
            await scene.until("tool_start")

    asyncio.run(go())

    assert summaries(Sink.runs[1].calls) == [called("slow", {"d": 60}, "c1", status="cancelled")]
    assert (Sink.runs[1].status.value, Sink.runs[1].error) == ("stopped", UNANSWERED)


@scenario("33f", (), needs="realtime")
def test_sessions_are_not_disturbed(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """An error of the recorder is a warning, and after the block nothing is left."""
    from agents.realtime import RealtimeSession

    enter = RealtimeSession.__aenter__

    def fail(*_args: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("toolgrade_openai_agents._realtime.SessionWatcher.see_usage", fail)
    recorder = play(_agent(), [("types", "hi"), ("replies", ADD), ("replies", "Three.")])

    [run] = recorder.runs
    assert (run.actual_output, [call.output for call in run.calls]) == ("Three.", [{"sum": 3}])
    assert run.warnings == [
        "the recorder failed at an event of a session, so something may be missing: ZeroDivisionError: oops"
    ]
    assert RealtimeSession.__aenter__ is enter


@scenario("33g", (), needs="realtime")
def test_sessions_that_are_not_recorded(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """One that begins outside of the block is a warning, and one that could not begin is recorded when it does."""
    from agents.realtime import RealtimeSession

    enter = RealtimeSession.__aenter__
    begin, recording = asyncio.Event(), record()

    async def other() -> None:
        await begin.wait()
        async with session_of(_agent()) as scene:
            await scene.types("hi")

    async def fail(*_args: Any) -> None:
        raise OSError("no connection")

    async def go() -> Recorder:
        task = asyncio.create_task(other())  # before the block, so that it is outside of it
        with recording as recorder:
            begin.set()
            await task
            session = await RealtimeRunner(_agent(), model=Transport(answer="Hello.")).run()
            with monkeypatch.context() as patch:
                patch.setattr("oa_realtime.Transport.connect", fail)
                with pytest.raises(OSError, match="no connection"):
                    await session.enter()
            async with session:
                await session.send_message("hi")
        return recorder

    recorder = asyncio.run(go())

    assert [(run.input, run.actual_output) for run in recorder.runs] == [("hi", "Hello.")]
    assert [warning[:16] for warning in recorder.warnings] == ["agent 'A' ran ou"]
    assert RealtimeSession.__aenter__ is enter
