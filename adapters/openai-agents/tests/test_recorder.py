"""The recorder: scope, stored runs, sinks and cleanup."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from agents import Agent, RunConfig, RunHooks, Runner, SQLiteSession, function_tool
from agents.agent import AgentBase
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from oa_agents import add, called, make_agent, play, run_or_stream, summaries
from oa_models import Scripted, own_loop
from pydantic import BaseModel

from toolgrade import InvalidDataError, Run
from toolgrade.capture import conversation
from toolgrade.testing import AskFor
from toolgrade_openai_agents import Recorder, record, run_from_result

ADDED = [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]


class Place(BaseModel):
    """What an agent may answer."""

    city: str


def adding(answer: str = "three", **more: Any) -> Agent[Any]:
    """An agent that adds and answers."""
    return make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], answer, tools=[add], **more)


def in_loop(recorder: Recorder, agent: Agent[Any]) -> None:
    """Run an agent with the recorder in a new event loop."""
    asyncio.run(recorder.run(agent, "hi"))


def test_nothing_is_left_after_the_block() -> None:
    """Outside the block, runner and agents are as before, also after an exception."""
    before = get_default_agent_runner(), AgentBase.get_all_tools

    async def go() -> None:
        with record():
            assert get_default_agent_runner() is not before[0]
            await Runner.run(make_agent(RuntimeError("503")), "hi")

    with pytest.raises(RuntimeError, match="503"):
        asyncio.run(go())

    assert (get_default_agent_runner(), AgentBase.get_all_tools) == before


def test_own_methods() -> None:
    """`run`, `run_sync` and `run_streamed` of a recorder are those of the SDK, recorded once each."""
    recorder = Recorder()

    async def go() -> None:
        assert (await recorder.run(adding(), "one")).final_output == "three"
        async for _ in recorder.run_streamed(adding(), "two").stream_events():
            pass

    asyncio.run(go())
    with own_loop():
        assert recorder.run_sync(adding(), "three").final_output == "three"

    assert [run.input for run in recorder.runs] == ["one", "two", "three"]
    assert [summaries(run.calls) for run in recorder.runs] == [ADDED] * 3


def test_third_party_runner_stays_installed() -> None:
    """The recorder passes runs on to the installed runner and leaves it in place."""

    class Own(AgentRunner):
        count = 0

        async def run(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await super().run(*args, **kwargs)

    before, own = get_default_agent_runner(), Own()
    set_default_agent_runner(own)
    try:
        recorder = Recorder()
        in_loop(recorder, adding())
        assert get_default_agent_runner() is own
    finally:
        set_default_agent_runner(before)

    assert own.count == 1
    assert summaries(recorder.last_run.calls) == ADDED


def test_stream_that_is_read_after_the_block() -> None:
    """A stream that starts in a block is recorded to its end, including agents inside its tools."""
    sub = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "sub", tools=[add], name="Sub")
    agent = make_agent([AskFor("ask", {"input": "q"}, "o1")], "done", tools=[sub.as_tool("ask", "Ask.")])
    before = get_default_agent_runner()

    async def go() -> Recorder:
        with record() as recorder:
            result = Runner.run_streamed(agent, "hi")
        assert recorder.last_run.status.value == "stopped"  # so far
        assert recorder.last_run.actual_output is None
        async for _ in result.stream_events():
            pass
        return recorder

    run = asyncio.run(go()).last_run

    assert run.actual_output == "done"
    assert [call.name for call in run.select_calls(nested=True)] == ["ask", "add"]
    assert get_default_agent_runner() is before


async def until_ended(recorder: Recorder) -> None:
    """Wait until no recorded run is open, at most ten seconds."""
    for _ in range(1000):
        if not any(recording.builder.is_open for recording in recorder._recordings.values()):
            return
        await asyncio.sleep(0.01)


def test_abandoned_stream_is_recorded() -> None:
    """A stream that is abandoned or never read continues and is recorded to its end."""

    async def go() -> list[Run]:
        with record() as recorder:
            result = Runner.run_streamed(adding("one"), "hi")
            async for _ in result.stream_events():
                break
            second = Runner.run_streamed(adding("two"), "hi")
            await until_ended(recorder)
            assert second is not None
        return recorder.runs

    runs = asyncio.run(go())

    assert [summaries(run.calls) for run in runs] == [ADDED, ADDED]
    assert runs[1].actual_output == "two"


def test_stream_results_are_released() -> None:
    """A recorder holds no reference to a result."""

    async def go() -> Any:
        with record():
            result = Runner.run_streamed(adding(), "hi")
            async for _ in result.stream_events():
                pass
            return weakref.ref(result)

    reference = asyncio.run(go())
    gc.collect()

    assert reference() is None


def test_a_sink_does_not_hold_up_others() -> None:
    """While a sink is busy, other threads can use the recorder."""
    counts: list[int] = []

    class Busy:
        def write(self, run: Run) -> None:  # noqa: ARG002
            other = threading.Thread(target=lambda: counts.append(len(recorder.runs)))
            other.start()
            other.join(2)

    recorder = Recorder(sink=Busy())
    in_loop(recorder, adding())

    assert counts == [1]


def test_streams_that_cannot_be_followed() -> None:
    """A stream of a custom runner works unchanged for the user, and no state is left."""

    class Odd(AgentRunner):
        def run_streamed(self, *_args: Any, **_kwargs: Any) -> Any:
            return "a stream"

    before = get_default_agent_runner()
    set_default_agent_runner(Odd())
    try:
        with record() as recorder:
            assert Runner.run_streamed(adding(), "hi") == "a stream"
        assert isinstance(get_default_agent_runner(), Odd)
    finally:
        set_default_agent_runner(before)

    assert "the recorder failed at a stream" in recorder.last_run.warnings[0]


@pytest.mark.parametrize("mode", ["record", "streamed", "result"])
def test_answers_that_are_nothing(mode: str) -> None:
    """A final answer of None is an answer."""
    message = '{"response": null}'
    one = play(mode, make_agent(message, output_type=Place | None))

    assert (one.run.status.value, one.run.actual_output) == ("ok", None)
    assert one.error is None


def test_conversations() -> None:
    """Runs belong to the conversation of a label, of their session, or of their group."""

    async def go() -> list[str | None]:
        session = SQLiteSession("session")
        with record() as recorder:
            await Runner.run(adding(), "1", session=session)
            await Runner.run(adding(), "2", run_config=RunConfig(group_id="group"))
            with recorder.conversation("label"):
                await Runner.run(adding(), "3", session=session)
            await Runner.run(adding(), "4")
        session.close()
        return [run.conversation_id for run in recorder.runs]

    assert asyncio.run(go()) == ["session", "group", "label", None]


def _call(call_id: str) -> list[dict[str, Any]]:
    """Items of a call and its result."""
    return [
        {"type": "function_call", "call_id": call_id, "name": "add", "arguments": '{"a": 1, "b": 2}'},
        {"type": "function_call_output", "call_id": call_id, "output": "3"},
    ]


ANN, BOB = ({"role": "user", "content": text} for text in ("add up", "and now?"))
ANSWER = {"role": "assistant", "content": "three"}
RULE = {"role": "developer", "content": "answer briefly"}


@pytest.mark.parametrize(
    ("items", "question"),
    [
        pytest.param([ANN, RULE], "add up", id="developer"),
        pytest.param([ANN, ANSWER, BOB, {"role": "system", "content": "x"}], "and now?", id="system"),
        pytest.param([ANN, *_call("c1")], "add up", id="results"),
        pytest.param([ANN, ANSWER, *_call("c1"), RULE], "add up", id="text before a call"),
        pytest.param([RULE, ANN], "add up", id="developer first"),
        pytest.param([ANN, BOB], "add up\nand now?", id="two messages"),
        pytest.param([ANN, ANSWER], None, id="answered"),
        pytest.param([ANN, ANSWER, RULE], None, id="answered, then developer"),
        pytest.param([RULE], None, id="nobody asked"),
    ],
)
def test_question_of_an_input(items: list[Any], question: str | None) -> None:
    """The question is the user's last text that nobody answered; messages of others are among the instructions."""
    with record() as recorder:
        asyncio.run(Runner.run(make_agent("done", instructions="be kind"), items))

    assert recorder.last_run.input == question
    others = [item["content"] for item in items if item.get("role") in ("developer", "system")]
    assert recorder.last_run.instructions == "\n\n".join(["be kind", *others])
    turns = [(turn.role, turn.content) for turn in recorder.conversations()[0].turns]
    assert turns == [*([("user", question)] if question else []), ("assistant", "done")]


def test_hooks_of_another_kind() -> None:
    """What the SDK itself refuses as hooks it still refuses; an older release takes it, and the result is read."""

    class Other:
        def __getattr__(self, name: str) -> Any:
            async def hook(*_args: Any, **_kwargs: Any) -> None:
                pass

            return hook

    recorder = Recorder()
    try:
        asyncio.run(recorder.run(adding(), "hi", hooks=Other()))
    except TypeError:
        assert recorder.last_run.status.value == "error"
    else:
        assert summaries(recorder.last_run.calls) == ADDED
    assert "not a RunHooks" in recorder.last_run.warnings[0]


def test_hooks_of_the_agent_are_called() -> None:
    """Hooks of an agent are called as without a recorder."""
    from agents import AgentHooks

    class Own(AgentHooks[Any]):
        ended = 0

        async def on_end(self, *_args: Any) -> None:
            self.ended += 1

    hooks = Own()
    in_loop(Recorder(), adding(hooks=hooks))

    assert hooks.ended == 1


def test_future_hooks_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hook that the SDK has is passed on to the user's hooks."""
    from toolgrade_openai_agents._runner import HOOK_NAMES, RecordingHooks

    calls: list[str] = []

    class Own(RunHooks[Any]):
        pass

    for name in HOOK_NAMES:

        async def hook(self: Any, *args: Any, _name: str = name, **kwargs: Any) -> None:  # noqa: ARG001
            calls.append(_name)

        monkeypatch.setattr(Own, name, hook, raising=False)

    def ignore(*_args: Any, **_kwargs: Any) -> None:
        pass

    async def go() -> None:
        hooks = RecordingHooks(ignore, object(), Own())  # type: ignore[arg-type]
        for name in HOOK_NAMES:
            await getattr(hooks, name)()

    asyncio.run(go())

    assert calls == list(HOOK_NAMES)
    assert set(HOOK_NAMES) >= {"on_llm_end", "on_tool_start", "on_tool_end", "on_handoff"}


def test_the_configuration_of_the_user_is_not_changed() -> None:
    """The user's `RunConfig` is applied and not changed."""
    config = RunConfig(workflow_name="mine", trace_metadata={"team": "x"})
    own = vars(config).copy()
    recorder = Recorder()

    asyncio.run(recorder.run(adding(), "hi", run_config=config))

    assert vars(config) == own
    metadata = recorder.last_run.metadata
    assert (metadata["team"], metadata["workflow_name"]) == ("x", "mine")


def test_results_of_another_kind() -> None:
    """A value that is not a result of the SDK is refused; the error names the accepted types."""
    with pytest.raises(InvalidDataError, match=r"Runner\.run.*got dict"):
        run_from_result({"calls": []})


def test_results_of_streams_that_go_on() -> None:
    """A stream that was not read to its end is refused."""

    async def go() -> None:
        result = Runner.run_streamed(adding(), "hi")
        with pytest.raises(InvalidDataError, match="goes on"):
            run_from_result(result)
        async for _ in result.stream_events():
            pass
        assert summaries(run_from_result(result).calls) == ADDED

    asyncio.run(go())


def test_exceptions_that_hold_nothing() -> None:
    """After a third-party exception, the run has only that exception, with a warning."""
    run = run_from_result(RuntimeError("503"), input="hi")

    assert (run.input, run.calls, run.status.value, run.error) == ("hi", [], "error", "RuntimeError: 503")
    assert "are missing" in run.warnings[0]


def test_conversation_from_results() -> None:
    """Results of several runs make a conversation."""

    async def go() -> list[Run]:
        return [run_from_result(await run_or_stream("record", adding(f"{n}"), f"q{n}")) for n in range(2)]

    turns = conversation(asyncio.run(go())).turns

    assert [turn.content for turn in turns] == ["q0", "0", "q1", "1"]


def test_tools_in_threads() -> None:
    """A synchronous tool, which the SDK may run in a thread, and an agent that it runs there, are recorded."""
    used: list[str] = []

    @function_tool(strict_mode=False)
    def delegate() -> str:
        """Ask another agent, synchronously."""
        used.append(threading.current_thread().name)
        sub = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "sub", tools=[add], name="Sub")
        if threading.current_thread() is threading.main_thread():
            return "not in a thread"
        with own_loop():
            return str(Runner.run_sync(sub, "q").final_output)

    recorder = Recorder()
    in_loop(recorder, make_agent([AskFor("delegate", {}, "o1")], "done", tools=[delegate]))

    inside = recorder.last_run.select_calls(nested=True)[1:]
    assert [call.name for call in inside] == ([] if used == ["MainThread"] else ["add"])


def test_models_without_a_name() -> None:
    """A model that has no name is none of the run's models."""

    class Nameless(Scripted):
        model = None  # type: ignore[assignment]

    recorder = Recorder()
    in_loop(recorder, Agent(name="A", model=Nameless("done")))

    assert recorder.last_run.models == []
