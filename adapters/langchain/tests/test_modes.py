"""However an agent is run, and however the recorder came to it, the record is the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from lc_agents import PARALLEL, add, make_agent, parallel_script, scripted, slow, summaries
from lc_versions import FEATURES

from toolgrade_langchain import ToolCallRecorder, record

HI = {"messages": [("user", "hi")]}


def agent(*, streaming: bool = False) -> Any:
    """An agent with three parallel calls."""
    return make_agent(scripted(*parallel_script(), streaming=streaming), [slow, add])


def invoke(config: Any) -> None:
    """Sync."""
    agent().invoke(HI, config)


def ainvoke(config: Any) -> None:
    """Async."""
    asyncio.run(agent().ainvoke(HI, config))


def stream(config: Any) -> None:
    """Streamed in all stream modes at the same time."""
    for _ in agent(streaming=True).stream(HI, config, stream_mode=["values", "updates", "messages", "debug"]):
        pass


def astream(config: Any) -> None:
    """Streamed in a task."""

    async def consume() -> None:
        async for _ in agent(streaming=True).astream(HI, config, stream_mode=["values", "messages"]):
            pass

    asyncio.run(consume())


def events(version: str) -> Callable[[Any], None]:
    """As events."""

    def run(config: Any) -> None:
        async def consume() -> None:
            stream = agent(streaming=True).astream_events(HI, config, version=version)
            async for _ in await stream if asyncio.iscoroutine(stream) else stream:
                pass

        asyncio.run(consume())

    return run


def batch(config: Any) -> None:
    """As a batch of one."""
    agent().batch([HI], config)


def abatch(config: Any) -> None:
    """As a batch of one, async."""
    asyncio.run(agent().abatch([HI], config))


MODES = {
    "invoke": invoke,
    "ainvoke": ainvoke,
    "stream": stream,
    "astream": astream,
    "events-v1": events("v1"),
    "events-v2": events("v2"),
    "batch": batch,
    "abatch": abatch,
}
if FEATURES["events_v3"].is_due():
    MODES["events-v3"] = events("v3")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_record(mode: str) -> None:
    """All modes give one run with the same calls and the same answer."""
    recorder = ToolCallRecorder()

    MODES[mode]({"callbacks": [recorder]})

    (run,) = recorder.runs
    assert summaries(run.calls) == PARALLEL
    assert (run.input, run.actual_output, run.status.value) == ("hi", "final", "ok")
    assert not run.warnings
    assert not recorder.warnings


@pytest.mark.parametrize("mode", MODES)
def test_record_attaches_by_itself(mode: str) -> None:
    """Inside `record()`, every mode is recorded without a word to the agent."""
    with record() as recorder:
        MODES[mode]({})
    MODES["invoke"]({})

    (run,) = recorder.runs
    assert summaries(run.calls) == PARALLEL
    assert [tool.name for tool in run.available_tools or ()] == ["slow", "add"]
    assert run.usage == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    assert run.models == ["scripted-1"]


def test_two_recorders_both_record() -> None:
    """Recorders compare by identity, so the framework does not drop one of two as a duplicate."""
    first, second = ToolCallRecorder(), ToolCallRecorder()

    invoke({"callbacks": [first, second]})

    assert first != second
    assert summaries(first.run.calls) == summaries(second.run.calls) == PARALLEL
