"""Recording of a whole process, as in a server: `record(process_wide=True)`."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableLambda
from lc_agents import ScriptedModel, add, asks, make_agent

from recorder_blocks import in_thread
from toolgrade_langchain import ToolCallRecorder, record
from toolgrade_langchain._active import ActiveRecorder

AGENT = make_agent(ScriptedModel(script=lambda text: [asks(("add", {"a": int(text)}, "c1")), f"final {text}"]), [add])


def question(number: int) -> dict[str, Any]:
    """Return the input of the agent, which adds 2 to the number."""
    return {"messages": [("user", str(number))]}


def test_run_that_outlives_the_block() -> None:
    """A run that began inside is recorded to its end."""
    with record(process_wide=True) as recorder:
        stream = AGENT.stream(question(0), stream_mode="updates")
        next(stream)
    list(stream)

    assert [(run.input, run.actual_output) for run in recorder.runs] == [("0", "final 0")]


def test_end_between_two_looks_at_the_recorder() -> None:
    """LangChain asks twice for the recorder of a run; if the block ends in between, the second answer is a handler."""
    with record(process_wide=True) as recorder:
        assert ActiveRecorder().get() is recorder

    second_answer = ActiveRecorder().get()
    assert second_answer is not None
    RunnableLambda(lambda text: text).invoke("hi", {"callbacks": [second_answer]})
    AGENT.invoke(question(0), {"callbacks": [second_answer]})


def test_block_left_in_another_context() -> None:
    """A block that is left in another context than it was entered in, as in fixtures of tests, ends like any other."""
    block = record(process_wide=True)
    entered: list[ToolCallRecorder] = []
    in_thread(lambda: entered.append(block.__enter__()))
    in_thread(lambda: AGENT.invoke(question(0)))

    block.__exit__(None, None, None)
    in_thread(lambda: AGENT.invoke(question(1)))

    assert [run.input for run in entered[0].runs] == ["0"]
