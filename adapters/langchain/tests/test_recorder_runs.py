"""What is one run, and which runs are one conversation: under concurrency, crashes, labels and hand-written loops."""

# ruff: noqa: ARG001 - tools, models and sinks need not use all that they are given

import time
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from lc_agents import add, asks, called, make_agent, memory, react_agent, scripted, summaries, thread

from toolgrade_langchain import ToolCallRecorder, record

HI = {"messages": [("user", "hi")]}
SCRIPT = [asks(("add", {"a": 1}, "c1")), "final"]
ADDITION = called("add", {"a": 1}, "c1", "3")


def agent(**options: Any) -> Any:
    """An agent with one call."""
    return make_agent(scripted(*SCRIPT), [add], **options)


# Labels and groups


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
def test_conversations_by_metadata(key: str) -> None:
    """A plain chain names its conversation in its metadata."""
    recorder = ToolCallRecorder()

    for question in ("one", "two"):
        scripted("final").invoke([HumanMessage(question)], {"callbacks": [recorder], "metadata": {key: "s1"}})

    (conversation,) = recorder.conversations()
    assert conversation.id == "s1"
    assert [turn.content for turn in conversation.turns] == ["one", "final", "two", "final"]


def test_runs_that_overlap_in_a_thread() -> None:
    """Two overlapping runs of one thread keep the order of their starts, and the second has a warning."""
    recorder = ToolCallRecorder()
    shared = agent(checkpointer=memory())
    first = shared.stream(HI, thread("T", recorder), stream_mode="values")
    next(first)

    shared.invoke({"messages": [("user", "second")]}, thread("T", recorder))
    first.close()

    assert [run.input for run in recorder.runs] == ["hi", "second"]
    assert "still open" in recorder.runs[1].warnings[0]


def test_a_resumption_without_its_beginning() -> None:
    """A run that resumes one that was popped has what the state of the thread shows of its beginning."""
    recorder = ToolCallRecorder()
    waiting = react_agent(scripted(*SCRIPT), [add], checkpointer=memory(), interrupt_before=["tools"])
    waiting.invoke(HI, thread("T", recorder))
    recorder.pop()

    waiting.invoke(None, thread("T", recorder))

    (run,) = recorder.runs
    assert summaries(run.calls) == [ADDITION]
    assert (run.input, run.warnings) == ("hi", [])


def test_a_loop_of_separate_steps_as_one_run() -> None:
    """Steps that are roots of their own become one run inside `single_run`."""
    recorder = ToolCallRecorder()
    config = {"callbacks": [recorder]}
    model = scripted(*SCRIPT).bind_tools([add])
    messages: list[Any] = [HumanMessage("1+2?")]

    with recorder.single_run():
        answer = model.invoke(messages, config)
        (call,) = answer.tool_calls
        messages += [answer, ToolMessage(str(add.invoke(call["args"], config)), tool_call_id=call["id"])]
        model.invoke(messages, config)

    (run,) = recorder.runs
    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", 3, model_output="3")]
    assert (run.input, run.actual_output, run.status.value) == ("1+2?", "final", "ok")
    assert not run.warnings


def test_a_loop_that_raises() -> None:
    """An exception that leaves `single_run` ends the run as an error, and passes."""
    recorder = ToolCallRecorder()

    def loop() -> None:
        with recorder.single_run("q"):
            step()
            raise KeyError("x")

    def step() -> None:
        scripted(*SCRIPT).invoke([HumanMessage("q")], {"callbacks": [recorder]})

    with pytest.raises(KeyError):
        loop()

    (run,) = recorder.runs
    assert (run.input, run.status.value, run.error) == ("q", "error", "KeyError: 'x'")
    assert [call.execution.status.value for call in run.calls] == ["not_executed"]


# Chains that are not agent runs


def test_prompts_and_parsers_are_not_runs() -> None:
    """Formatting a prompt inside `record()` does not create a run."""
    with record() as recorder:
        ChatPromptTemplate.from_messages([("user", "{q}")]).invoke({"q": "hi"})

    assert recorder.runs == []


def test_a_chain_is_a_run() -> None:
    """A chain of prompt, model and a function is one run, with the model's question where its input has none."""
    chain = (
        ChatPromptTemplate.from_messages([("user", "say {a} and {b}")])
        | scripted("final")
        | RunnableLambda(lambda message: {"answer": message.content})
    )

    with record() as recorder:
        chain.invoke({"a": "x", "b": "y"})

    (run,) = recorder.runs
    assert (run.input, run.actual_output) == ("say x and y", "final")


def test_times() -> None:
    """A run and its calls have start times and durations."""

    @tool
    def nap(x: int) -> str:
        """Sleep a little."""
        time.sleep(0.02)
        return "awake"

    recorder = ToolCallRecorder()
    make_agent(scripted(asks(("nap", {"x": 1}, "c1")), "final"), [nap]).invoke(HI, {"callbacks": [recorder]})

    execution = recorder.run.calls[0].execution
    assert execution is not None
    assert execution.duration is not None
    assert recorder.run.duration is not None
    assert 0.02 <= execution.duration <= recorder.run.duration
    assert recorder.run.started_at is not None
    assert recorder.run.started_at <= execution.started_at  # type: ignore[operator]


@pytest.mark.parametrize(("text", "arguments"), [('{"a": 5}', {"a": 5}), ("5", {"input": "5"})])
def test_a_tool_that_is_handed_a_text(text: str, arguments: dict[str, Any]) -> None:
    """A text that is a JSON object is the arguments, any other text is the argument `input`."""

    @tool
    def echo(value: str) -> str:
        """Return it."""
        return value

    recorder = ToolCallRecorder()
    echo.invoke(text, {"callbacks": [recorder]})

    assert recorder.run.calls[0].input_parameters == arguments
