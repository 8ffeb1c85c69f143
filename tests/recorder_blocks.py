"""The rules of `record()`: what its recorder stores, and which runs a block records, in every framework."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pytest

from toolgrade import NothingRecordedError, ToolCall, ToolCorrectnessMetric
from toolgrade.agents import Conversation
from toolgrade.capture import RunRecorder
from toolgrade.cases import Run
from toolgrade.testing import AskFor, Scene, ToolDouble
from toolgrade.testing.tool_doubles import ADD


class ListSink:
    """A sink that stores its runs in a list."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def write(self, run: Run) -> None:
        """Store a run."""
        self.runs.append(run)


class FullSink:
    """A sink that cannot write."""

    def write(self, run: Run) -> None:
        """Fail."""
        raise OSError(f"disk full before {run.input}")


def questions(runs: Sequence[Run]) -> list[str]:
    """Return what the users of the runs said, and check that each run is complete."""
    for run in runs:
        assert [(call.name, call.id, call.arguments) for call in run.calls] == [("add", "c1", {"a": 1})]
        assert (run.actual_output, run.status.value) == (f"answer to {run.input}", "ok")
    return [str(run.input) for run in runs]


def ask(agent: Any, *questions: Any, name: str = "one") -> list[Run]:
    """Return the runs of questions in one conversation."""

    async def go() -> list[Run]:
        conversation = Conversation(name)
        return [await agent(question, conversation) for question in questions]

    return asyncio.run(go())


def in_thread(work: Callable[[], object], context: contextvars.Context | None = None) -> None:
    """Do something in a thread, by default with an empty context."""
    thread = threading.Thread(target=(context or contextvars.Context()).run, args=(work,))
    thread.start()
    thread.join()


def awaited(coroutine: Callable[..., Coroutine[Any, Any, Any]], **arguments: str) -> ToolDouble:
    """Return a tool that is only called in event loops."""

    @functools.wraps(coroutine)
    def function(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError

    return ToolDouble.of(function, coroutine, **arguments)


class RecorderBlocks:
    """The tests. A subclass says what `record` is, and how to run an agent."""

    hint: ClassVar[str] = "process_wide=True"
    """What the error says if only threads without the block's context ran an agent."""

    def block(self, **options: Any) -> AbstractContextManager[RunRecorder[Any]]:
        """Return `record(**options)`."""
        raise NotImplementedError

    async def play(self, scene: Scene) -> object:
        """Run an agent, with no word of a recorder; return what it says."""
        raise NotImplementedError

    async def ask(self, question: str) -> None:
        """Run an agent that calls one tool."""
        answer = f"answer to {question}"
        assert str(await self.play(Scene([[AskFor("add", {"a": 1}, "c1")], answer], [ADD], question))) == answer

    def ask_all(self, *questions: str) -> None:
        """Run agents one after the other."""
        for question in questions:
            asyncio.run(self.ask(question))

    def test_stored_runs(self) -> None:
        """The newest runs are stored up to the limit, the newest is a case, and `pop` returns each run once."""
        with self.block(limit=2) as recorder:
            self.ask_all("1", "2", "3")

        assert len(recorder.warnings) == 1
        assert "more than 2 runs" in recorder.warnings[0]
        case = recorder.test_case(expected_tools=[ToolCall(name="add")], id="newest")
        assert (case.id, case.input, case.actual_output) == ("newest", "3", "answer to 3")
        assert ToolCorrectnessMetric().measure(case).score == 1
        assert questions(recorder.pop()) == ["2", "3"]
        assert recorder.runs == recorder.pop() == []
        with pytest.raises(NothingRecordedError, match="nothing was recorded"):
            _ = recorder.last_run

    def test_runs_beyond_the_memory(self) -> None:
        """Beyond the memory limit the oldest runs go; the newest stays, whatever its size."""
        with self.block(limit_bytes=1) as recorder:
            self.ask_all("1", "2", "3")

        assert len(recorder.warnings) == 1
        assert questions(recorder.runs) == ["3"]

    def test_sink(self) -> None:
        """A sink takes each run when it ends, and the recorder drops it."""
        sink = ListSink()
        with self.block(sink=sink) as recorder:
            self.ask_all("1", "2")
            assert questions(sink.runs) == ["1", "2"]

        assert recorder.runs == []

    def test_sink_that_fails(self) -> None:
        """Runs that a sink does not take are stored up to the limit, with a warning; the agent answers."""
        with self.block(sink=FullSink(), limit=2) as recorder:
            self.ask_all("1", "2", "3")

        assert questions(recorder.runs) == ["2", "3"]
        for run in recorder.runs:
            assert any("disk full" in warning for warning in [*run.warnings, *recorder.warnings])

    def test_conversations(self) -> None:
        """Runs of a label are one conversation; others belong to that of the block, or stand alone."""
        with self.block(conversation="all") as recorder:
            self.ask_all("1")
            with recorder.conversation("support"):
                self.ask_all("2", "3")
            self.ask_all("4")
        with self.block() as other:
            self.ask_all("5", "6")

        turns = {case.id: [turn.content for turn in case.turns] for case in recorder.conversations()}
        assert turns == {
            "all": ["1", "answer to 1", "4", "answer to 4"],
            "support": ["2", "answer to 2", "3", "answer to 3"],
        }
        assert [case.id for case in other.conversations()] == [None, None]

    def test_nested_blocks(self) -> None:
        """Of nested blocks the innermost records; nothing is recorded before and after them."""
        self.ask_all("before")
        with self.block() as outer:
            self.ask_all("first")
            with self.block() as inner:
                self.ask_all("second")
            self.ask_all("third")
        self.ask_all("after")

        assert questions(outer.runs) == ["first", "third"]
        assert questions(inner.runs) == ["second"]

    def test_threads(self) -> None:
        """A block reaches a thread with a copy of its context, and no other."""
        with self.block() as recorder:
            in_thread(lambda: self.ask_all("without"))
            in_thread(lambda: self.ask_all("with"), contextvars.copy_context())

        assert questions(recorder.runs) == ["with"]

    def test_blocks_at_once(self) -> None:
        """Blocks of tasks that run at the same time have their own runs."""

        async def one(name: str) -> list[str]:
            with self.block() as recorder:
                await self.ask(name)
                await asyncio.gather(self.ask(name), self.ask(name))
            return questions(recorder.runs)

        async def all_at_once() -> list[list[str]]:
            return await asyncio.gather(one("a"), one("b"), one("c"))

        assert asyncio.run(all_at_once()) == [["a"] * 3, ["b"] * 3, ["c"] * 3]

    def test_process_wide(self) -> None:
        """The newest block of the process records all threads, unless another block is active there, until it ends."""
        inner: list[RunRecorder[Any]] = []

        def work() -> None:
            with self.block() as recorder:
                self.ask_all("inner")
            inner.append(recorder)
            self.ask_all("thread")

        with self.block(process_wide=True) as first:
            with self.block(process_wide=True) as second:
                in_thread(work)
            in_thread(lambda: self.ask_all("older"))
            self.ask_all("here")
        in_thread(lambda: self.ask_all("after"))
        self.ask_all("after")

        assert questions(inner[0].runs) == ["inner"]
        assert questions(second.runs) == ["thread"]
        assert questions(first.runs) == ["older", "here"]
        assert not [*first.warnings, *second.warnings]

    def test_server(self) -> None:
        """A process-wide block that a server's startup enters records its requests, in tasks and in threads."""

        async def serve(**options: Any) -> RunRecorder[Any]:
            recorders: list[RunRecorder[Any]] = []
            entered, done = asyncio.Event(), asyncio.Event()

            async def lifespan() -> None:
                with self.block(**options) as recorder:
                    recorders.append(recorder)
                    entered.set()
                    await done.wait()

            async def requests() -> None:
                await entered.wait()
                await asyncio.gather(*(self.ask(f"task {n}") for n in range(3)))
                await asyncio.gather(
                    *(asyncio.to_thread(in_thread, lambda n=n: self.ask_all(f"thread {n}")) for n in range(3))
                )
                done.set()

            await asyncio.gather(asyncio.create_task(lifespan()), asyncio.create_task(requests()))
            return recorders[0]

        recorder = asyncio.run(serve(process_wide=True))
        assert sorted(questions(recorder.runs)) == [f"{where} {n}" for where in ("task", "thread") for n in range(3)]
        assert not recorder.warnings
        unaware = asyncio.run(serve())
        assert unaware.runs == []
        with pytest.raises(NothingRecordedError, match=self.hint):
            _ = unaware.last_run

    def test_agents_in_the_background(self) -> None:
        """An agent that works on after the tool that began it has returned is inside this tool."""
        tasks: list[asyncio.Task[Any]] = []

        async def begin(n: int) -> str:
            """Ask an agent, and do not wait for it."""

            async def later() -> None:
                await asyncio.sleep(0.02)
                await self.play(Scene([[AskFor("add", {"a": n}, "i1")], "sub"], [ADD], agent=f"sub{n}"))

            tasks.append(asyncio.create_task(later()))
            return "begun"

        async def join() -> str:
            """Wait for the agents."""
            await asyncio.gather(*tasks)
            return "joined"

        requests = [AskFor("begin", {"n": n}, f"c{n}") for n in range(2)]
        tools = [awaited(begin, n="integer"), awaited(join)]
        with self.block() as recorder:
            asyncio.run(self.play(Scene([requests, [AskFor("join", {}, "c2")], "end"], tools)))

        (run,) = recorder.runs
        assert [call.output for call in run.calls] == ["begun", "begun", "joined"]
        children = [call.execution.children for call in run.calls if call.execution]
        assert [[(child.arguments, str(child.output)) for child in inside] for inside in children] == [
            [({"a": 0}, "2")],
            [({"a": 1}, "3")],
            [],
        ]

    def test_agent_in_the_background_of_a_sink(self) -> None:
        """What it does after the run was passed on is not recorded, and a warning says so."""
        sink = ListSink()
        tasks: list[asyncio.Task[Any]] = []

        has_begun, has_ended = asyncio.Event(), asyncio.Event()

        async def wait() -> str:
            """Wait until the run around it has ended."""
            has_begun.set()
            await has_ended.wait()
            return "waited"

        async def begin() -> str:
            """Ask an agent, and do not wait for it."""
            inner = Scene([[AskFor("wait", {}, "i1")], "sub"], [awaited(wait)], agent="sub")
            tasks.append(asyncio.create_task(self.play(inner)))  # type: ignore[arg-type]
            await has_begun.wait()
            return "begun"

        async def go() -> None:
            with self.block(sink=sink):
                await self.play(Scene([[AskFor("begin", {}, "c1")], "end"], [awaited(begin)]))
                has_ended.set()
                await asyncio.gather(*tasks)

        asyncio.run(go())

        (run,) = sink.runs
        assert [call.name for call in run.calls] == ["begin"]
        assert ["left in the background" in text for text in run.warnings] == [True]
