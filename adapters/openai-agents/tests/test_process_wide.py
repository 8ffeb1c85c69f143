"""Recorders of a whole process: servers, threads, blocks entered in several tasks, and runs that no recorder sees."""

from __future__ import annotations

import asyncio
import json
import threading
from contextvars import Context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents import OpenAIConversationsSession, Runner, function_tool
from oa_agents import add, called, make_agent, summaries
from openai import AsyncOpenAI

from toolgrade.testing import AskFor
from toolgrade_openai_agents import Recorder, record

ADDED = [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]


async def ask(question: str = "hi", **options: Any) -> str:
    """Run an agent that adds."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", tools=[add])
    return str((await Runner.run(agent, question, **options)).final_output)


def in_thread(work: Any) -> None:
    """Do something in a thread with an empty context."""
    thread = threading.Thread(target=Context().run, args=(work,))
    thread.start()
    thread.join()


def inputs(recorder: Recorder) -> list[str]:
    """The questions of the recorded runs."""
    return sorted(run.input or "" for run in recorder.runs)


def test_agents_inside_a_run_of_the_process() -> None:
    """A run belongs to the recorder that it began with, also where a newer one of the process is entered meanwhile."""

    @function_tool
    async def delegate() -> str:
        """Enter a recorder in another context, and ask another agent."""
        in_thread(newer.__enter__)
        return await ask("inner")

    newer = record(process_wide=True)
    with record(process_wide=True) as recorder:
        agent = make_agent([AskFor("delegate", {}, "o1")], "done", tools=[delegate])
        in_thread(lambda: asyncio.run(Runner.run(agent, "hi")))  # type: ignore[arg-type]
        newer.__exit__()

    assert [call.name for call in recorder.last_run.select_calls(nested=True)] == ["delegate", "add"]


def test_block_entered_in_several_tasks() -> None:
    """Each task leaves its own entry of a block, in any order."""

    async def go() -> tuple[Recorder, Recorder]:
        block = record()
        entered, left = asyncio.Event(), asyncio.Event()

        async def early() -> None:
            with block:
                await entered.wait()
            left.set()

        async def late() -> Recorder:
            with record() as outer:
                with block as recorder:
                    entered.set()
                    await left.wait()
                    await ask("inside")
                await ask("outside")
            return recorder, outer

        _, recorders = await asyncio.gather(early(), late())
        return recorders

    recorder, outer = asyncio.run(go())

    assert (inputs(recorder), inputs(outer)) == (["inside"], ["outside"])


def test_task_that_outlives_its_block() -> None:
    """A run that begins after the block is recorded by no recorder, or by the one of the process."""

    async def go() -> tuple[Recorder, Recorder]:
        is_over = asyncio.Event()

        async def later() -> None:
            await is_over.wait()
            await ask("later")

        with record() as recorder:
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        with record(process_wide=True) as other:
            is_over.set()
            await task
        return recorder, other

    recorder, other = asyncio.run(go())

    assert (inputs(recorder), inputs(other)) == ([], ["later"])


def test_stream_of_another_recorder_in_a_block() -> None:
    """A stream that another recorder began in a block is that recorder's, with the agents inside its tools."""
    inner = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "inner", tools=[add])
    agent = make_agent([AskFor("ask", {"input": "q"}, "o1")], "done", tools=[inner.as_tool("ask", "Ask.")])

    async def go() -> tuple[Recorder, Recorder]:
        recorder = Recorder()
        with record() as block:
            async for _ in recorder.run_streamed(agent, "hi").stream_events():
                pass
        return recorder, block

    recorder, block = asyncio.run(go())

    assert [call.name for call in recorder.last_run.select_calls(nested=True)] == ["ask", "add"]
    assert (inputs(recorder), inputs(block)) == (["hi"], [])


def test_worker_that_a_run_leaves_behind() -> None:
    """Runs of a task that a tool started are runs of their own once the run of the tool has ended."""

    async def go() -> Recorder:
        questions: asyncio.Queue[str] = asyncio.Queue()
        workers: list[asyncio.Task[str]] = []

        async def work() -> str:
            return await ask(await questions.get())

        @function_tool
        async def start() -> str:
            """Start a worker."""
            workers.append(asyncio.create_task(work()))
            return "started"

        with record(process_wide=True) as recorder:
            await Runner.run(make_agent([AskFor("start", {}, "c1")], "done", tools=[start]), "first")
            questions.put_nowait("second")
            await asyncio.gather(*workers)
        return recorder

    recorder = asyncio.run(go())

    assert (inputs(recorder), recorder.inner_runs) == (["first", "second"], [])
    assert summaries(recorder.last_run.calls) == ADDED


class Conversations(BaseHTTPRequestHandler):
    """An endpoint with one conversation of the provider, which has no items."""

    def do_GET(self) -> None:
        """List the items of the conversation."""
        self._reply({"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None})

    def do_POST(self) -> None:
        """Create the conversation, or add items to it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/items"):
            self.do_GET()
        else:
            self._reply({"id": "conv_1", "object": "conversation", "created_at": 0, "metadata": {}})

    def _reply(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def test_conversation_of_the_provider() -> None:
    """A conversation whose id comes with its first request is that of its runs, the first one included."""

    async def go(address: str) -> Recorder:
        async with AsyncOpenAI(base_url=address, api_key="sk-made-up", max_retries=0) as client:
            session = OpenAIConversationsSession(openai_client=client)
            with record() as recorder:
                for question in ("one", "two"):
                    await ask(question, session=session)
            return recorder

    with ThreadingHTTPServer(("127.0.0.1", 0), Conversations) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            recorder = asyncio.run(go(f"http://127.0.0.1:{server.server_port}/v1"))
        finally:
            server.shutdown()

    assert [run.conversation_id for run in recorder.runs] == ["conv_1", "conv_1"]
    assert len(recorder.conversations()) == 1
    assert not recorder.warnings
