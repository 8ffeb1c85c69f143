"""Recording of a whole process, as in a server: `record(process_wide=True)`."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from lc_agents import ScriptedModel, add, asks, called, make_agent, memory, summaries

from toolgrade.capture import JsonlSink
from toolgrade.cases import LLMTestCase
from toolgrade.dataset import read_cases
from toolgrade_langchain import ToolCallRecorder, record
from toolgrade_langchain._active import _Attached

AGENT = make_agent(ScriptedModel(script=lambda text: [asks(("add", {"a": int(text)}, "c1")), f"final {text}"]), [add])


def question(number: int) -> dict[str, Any]:
    """Return the input of the agent, which adds 2 to the number."""
    return {"messages": [("user", str(number))]}


def in_plain_thread(work: Any) -> None:
    """Run something in a thread without the context of the caller."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def assert_all(runs: Any, amount: int) -> None:
    """Each run has its own call and answer."""
    calls = {run.input: (summaries(run.calls), run.actual_output) for run in runs}
    assert len(runs) == amount
    assert calls == {
        str(number): ([called("add", {"a": number}, "c1", str(number + 2))], f"final {number}")
        for number in range(amount)
    }


def test_recorder_entered_in_another_task() -> None:
    """A recorder that one task enters and leaves, as the startup of a server does, records tasks and threads."""

    async def serve() -> ToolCallRecorder:
        entered, done = asyncio.Event(), asyncio.Event()
        recorders: list[ToolCallRecorder] = []

        async def lifespan() -> None:
            with record(process_wide=True) as recorder:
                recorders.append(recorder)
                entered.set()
                await done.wait()

        async def requests() -> None:
            await entered.wait()
            await asyncio.gather(*(AGENT.ainvoke(question(number)) for number in range(4)))
            await asyncio.gather(
                *(asyncio.to_thread(in_plain_thread, lambda n=n: AGENT.invoke(question(n))) for n in range(4, 8))
            )
            done.set()

        await asyncio.gather(asyncio.create_task(lifespan()), asyncio.create_task(requests()))
        return recorders[0]

    recorder = asyncio.run(serve())

    assert_all(recorder.runs, 8)
    assert not recorder.warnings


def test_server(tmp_path: Any) -> None:
    """The requests of a real server are recorded, those that await and those that run in its threads."""
    applications = pytest.importorskip("starlette.applications", reason="starlette is not installed")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    path = str(tmp_path / "runs.jsonl")

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with record(process_wide=True, sink=JsonlSink(path)):
            yield

    async def awaited(request: Any) -> Any:
        state = await AGENT.ainvoke(question(int(request.path_params["number"])))
        return PlainTextResponse(state["messages"][-1].content)

    def threaded(request: Any) -> Any:
        state = AGENT.invoke(question(int(request.path_params["number"])))
        return PlainTextResponse(state["messages"][-1].content)

    routes = [Route("/awaited/{number}", awaited), Route("/threaded/{number}", threaded)]
    app = applications.Starlette(routes=routes, lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        for number in range(4):
            way = "awaited" if number % 2 else "threaded"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{way}/{number}", timeout=30) as answer:
                assert answer.read().decode() == f"final {number}"
    finally:
        server.should_exit = True
        thread.join()

    assert_all([case.run for case in read_cases(path) if isinstance(case, LLMTestCase)], 4)


def test_without_process_wide() -> None:
    """A plain recorder does not see other threads."""
    with record() as recorder:
        in_plain_thread(lambda: AGENT.invoke(question(0)))

    assert recorder.runs == []


def test_block_inside_a_recorded_process() -> None:
    """Where another block is active, that one records; a recorder in the configuration records as well."""
    other = ToolCallRecorder()
    inner: list[ToolCallRecorder] = []

    def work() -> None:
        with record() as recorder:
            inner.append(recorder)
            AGENT.invoke(question(0))
        AGENT.invoke(question(1), {"callbacks": [other]})

    with record(process_wide=True) as outer:
        in_plain_thread(work)

    assert [run.input for run in inner[0].runs] == ["0"]
    assert [run.input for run in outer.runs] == [run.input for run in other.runs] == ["1"]


def test_newest_recorder_of_the_process() -> None:
    """Of several recorders of the process, the newest records, and the others again when it has left."""
    with record(process_wide=True) as first:
        with record(process_wide=True) as second:
            in_plain_thread(lambda: AGENT.invoke(question(0)))
        in_plain_thread(lambda: AGENT.invoke(question(1)))

    assert [run.input for run in second.runs] == ["0"]
    assert [run.input for run in first.runs] == ["1"]


def test_after_the_block() -> None:
    """Runs that begin after the block are not recorded, and their agents are not disturbed."""
    with record(process_wide=True) as recorder:
        pass

    in_plain_thread(lambda: AGENT.invoke(question(0)))
    AGENT.invoke(question(0))
    asyncio.run(AGENT.ainvoke(question(0)))

    assert recorder.runs == []


def test_run_that_outlives_the_block() -> None:
    """A run that began inside is recorded to its end."""
    with record(process_wide=True) as recorder:
        stream = AGENT.stream(question(0), stream_mode="updates")
        next(stream)
    list(stream)

    assert_all(recorder.runs, 1)


def test_end_between_two_looks_at_the_recorder() -> None:
    """LangChain asks twice for the recorder of a run; if the block ends in between, the second answer is a handler."""
    with record(process_wide=True) as recorder:
        assert _Attached().get() is recorder

    second_answer = _Attached().get()
    assert second_answer is not None
    RunnableLambda(lambda text: text).invoke("hi", {"callbacks": [second_answer]})
    AGENT.invoke(question(0), {"callbacks": [second_answer]})


def test_block_left_in_another_context() -> None:
    """A block that is left in another context than it was entered in, as in fixtures of tests, ends like any other."""
    block = record(process_wide=True)
    entered: list[ToolCallRecorder] = []
    in_plain_thread(lambda: entered.append(block.__enter__()))
    in_plain_thread(lambda: AGENT.invoke(question(0)))

    block.__exit__(None, None, None)
    in_plain_thread(lambda: AGENT.invoke(question(1)))

    assert_all(entered[0].runs, 1)


def test_conversations_of_a_process() -> None:
    """Requests of one thread of LangGraph are one conversation."""
    agent = make_agent(
        ScriptedModel(script=lambda text: [f"answer to {text}"]), [add], name="agent", checkpointer=memory()
    )

    with record(process_wide=True) as recorder:
        for number in range(4):
            config = {"configurable": {"thread_id": f"T{number % 2}"}}
            in_plain_thread(lambda n=number, c=config: agent.invoke(question(n), c))

    turns = {case.id: [turn.content for turn in case.turns] for case in recorder.conversations()}
    assert turns == {
        "T0": ["0", "answer to 0", "2", "answer to 2"],
        "T1": ["1", "answer to 1", "3", "answer to 3"],
    }
