"""Cost of recording a LangChain agent in time and memory.

    python benchmarks/langchain_overhead.py [--runs 300] [--memory-runs 10000]

The same agent runs under a scripted model with nothing attached, with `ToolCallRecorder`, inside `record()`, and with
LangChain's own `collect_runs` and its handler; the kinds take turns within each round, so that a slow moment of the
machine hits all of them. Figures are medians over rounds. Needs `toolmark-langchain` with `langchain` and `langgraph`.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolmark_langchain import ToolCallRecorder, record

try:
    from langchain.agents import create_agent
except ImportError:
    from langgraph.prebuilt import create_react_agent as create_agent


class Scripted(BaseChatModel):
    """Asks for a number of calls of `add` in one message, then answers."""

    calls: int = 1

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401 - the framework's signature
        """Offer the tools as OpenAI's models do."""
        return self.bind(tools=[convert_to_openai_tool(item) for item in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Any = None,  # noqa: ANN401, ARG002 - the framework's signature
        run_manager: Any = None,  # noqa: ANN401, ARG002
        **_: Any,  # noqa: ANN401
    ) -> ChatResult:
        if isinstance(messages[-1], HumanMessage) and self.calls:
            calls = [{"name": "add", "args": {"a": number, "b": 2}, "id": f"c{number}"} for number in range(self.calls)]
            message = AIMessage("", tool_calls=calls)
        else:
            message = AIMessage("final")
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def make(calls: int) -> Any:  # noqa: ANN401 - the framework's class
    """Build an agent whose run makes this many calls."""
    return create_agent(Scripted(calls=calls), [add])


def question(history: int) -> dict[str, Any]:
    """Build an input with this many messages of history before the question."""
    past = [HumanMessage("q") if number % 2 == 0 else AIMessage("a") for number in range(history)]
    return {"messages": [*past, HumanMessage("hi")]}


def plain(agent: Any, inputs: Any, runs: int) -> None:  # noqa: ANN401
    """Run without any callback."""
    for _ in range(runs):
        agent.invoke(inputs)


def with_recorder(agent: Any, inputs: Any, runs: int) -> None:  # noqa: ANN401
    """Run with the recorder in the configuration, and build every run."""
    recorder = ToolCallRecorder()
    config = {"callbacks": [recorder]}
    for _ in range(runs):
        agent.invoke(inputs, config)
    assert len(recorder.pop()) == runs  # noqa: S101 - it must have done its work


def in_record(agent: Any, inputs: Any, runs: int) -> None:  # noqa: ANN401
    """Run inside `record()`, and build every run."""
    with record() as recorder:
        for _ in range(runs):
            agent.invoke(inputs)
    assert len(recorder.pop()) == runs  # noqa: S101


def with_collector(agent: Any, inputs: Any, runs: int) -> None:  # noqa: ANN401
    """Run with the handler of `collect_runs` in the configuration; it keeps LangChain's own tree of runs."""
    collector = RunCollectorCallbackHandler()
    config = {"callbacks": [collector]}
    for _ in range(runs):
        agent.invoke(inputs, config)
    assert len(collector.traced_runs) == runs  # noqa: S101


def in_collect_runs(agent: Any, inputs: Any, runs: int) -> None:  # noqa: ANN401
    """Run inside `collect_runs()`, which is not handed down to models and tools."""
    with collect_runs():
        for _ in range(runs):
            agent.invoke(inputs)


KINDS: dict[str, Callable[[Any, Any, int], None]] = {
    "no callbacks": plain,
    "ToolCallRecorder": with_recorder,
    "record()": in_record,
    "RunCollector handler": with_collector,
    "collect_runs()": in_collect_runs,
}


def milliseconds(agent: Any, inputs: Any, runs: int, rounds: int = 10) -> dict[str, float]:  # noqa: ANN401
    """Measure each kind: the median over rounds of the time of one run."""
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    for kind in KINDS.values():
        kind(agent, inputs, 3)
    for _ in range(rounds):
        for name, kind in KINDS.items():
            gc.collect()
            start = time.perf_counter()
            kind(agent, inputs, runs // rounds)
            times[name].append((time.perf_counter() - start) / (runs // rounds) * 1000)
    return {name: statistics.median(samples) for name, samples in times.items()}


def show(title: str, medians: dict[str, float]) -> None:
    """Print the figures of one agent."""
    base = medians["no callbacks"]
    print(f"\n{title}")
    for name, value in medians.items():
        print(f"  {name:<22} {value:7.3f} ms a run   +{value - base:6.3f} ms")


def memory(runs: int) -> None:
    """Measure the memory after many runs of a hand-written loop whose recordings are popped regularly."""
    model, recorder = Scripted().bind_tools([add]), ToolCallRecorder()

    def body(text: str) -> str:
        messages: list[Any] = [HumanMessage(text)]
        answer = model.invoke(messages)
        messages += [answer, *(add.invoke(call) for call in answer.tool_calls)]
        return str(model.invoke(messages).content)

    agent, config = RunnableLambda(body), {"callbacks": [recorder]}

    def some(number: int) -> None:
        for _ in range(number):
            agent.invoke("hi", config)
        assert len(recorder.pop()) == number  # noqa: S101

    batches = max(runs // 5 // 200, 1)
    some(200)
    tracemalloc.start()
    print("\nMemory with pop() every 200 runs")
    for part in range(5):
        for _ in range(batches):
            some(200)
        gc.collect()
        print(f"  after {batches * 200 * (part + 1):>6} runs: {tracemalloc.get_traced_memory()[0] / 1024:9.1f} KiB")
    tracemalloc.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--memory-runs", type=int, default=10_000)
    options = parser.parse_args()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("langchain-core", "langgraph"))
    print(f"Python {platform.python_version()}, {versions}; {options.runs} runs of each kind")
    one = milliseconds(make(1), question(0), options.runs)
    show("one tool call a run", one)
    many = milliseconds(make(20), question(0), options.runs)
    show("twenty tool calls a run", many)
    for name in ("ToolCallRecorder", "RunCollector handler"):
        each = ((many[name] - many["no callbacks"]) - (one[name] - one["no callbacks"])) / 19
        print(f"  {name}: +{each:.3f} ms a tool call")
    show("one tool call, 400 messages of history", milliseconds(make(1), question(400), options.runs))
    memory(options.memory_runs)


if __name__ == "__main__":
    main()
