"""Cost of recording agents, in processor time and in memory: `python benchmarks/recording.py`.

Real agents of each framework run under scripted models, which answer at once, with and without `record()` around them.
The two take turns, and the median of the ratios of neighbours counts, so that a slow moment of the machine changes
nothing. Agents are built before the clock starts; what is recorded is read before it stops. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from timing import settle
from validity.table import write_section

from toolgrade.testing import ADD, AskFor, Scene

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "speed.md"
BEGIN = "<!-- written by benchmarks/recording.py -->\n"

Start: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
"""Starts an agent that was built before."""

Build: TypeAlias = Callable[[int], list[Start]]
"""Builds as many agents as asked for."""

Play: TypeAlias = Callable[[Sequence[Start]], Coroutine[Any, Any, None]]
"""Runs agents."""

Record: TypeAlias = Callable[[], Any]
"""The `record` of an adapter."""


# The frameworks, played as by the tests of the adapters


def langchain(tests: ModuleType, scene: Scene) -> Start:
    """Build an agent of LangChain."""
    agent, inputs = tests.agent(scene), tests.inputs(scene)
    return lambda: agent.ainvoke(inputs)


def llama_index(tests: ModuleType, scene: Scene) -> Start:
    """Build an agent of LlamaIndex."""
    agent, question = tests.workflow(scene), tests.question(scene)

    async def run() -> None:
        await agent.run(user_msg=question)

    return run


def openai_agents(tests: ModuleType, scene: Scene) -> Start:
    """Build an agent of OpenAI Agents."""
    agent, question = tests.agent(scene), tests.question(scene)
    return lambda: tests.Runner.run(agent, question)


FRAMEWORKS: dict[str, tuple[str, str, Callable[[ModuleType, Scene], Start]]] = {
    "LangChain": ("langchain", "langgraph", langchain),
    "LlamaIndex": ("llama-index", "llama-index-core", llama_index),
    "OpenAI Agents": ("openai-agents", "openai-agents", openai_agents),
}
"""The folder of the adapter, the package whose version is printed, and what builds an agent."""


def builder_of(framework: str) -> tuple[Build, Record]:
    """Return what builds as many agents as asked for, and the adapter's `record`."""
    folder, _, make = FRAMEWORKS[framework]
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "adapters"), str(ROOT / "adapters" / folder / "tests")]
    import test_contract as tests  # noqa: PLC0415 - each adapter's tests have one; this process loads one adapter

    if folder == "openai-agents":
        from agents import set_trace_processors  # noqa: PLC0415 - see above

        set_trace_processors([])  # do not export traces

    def build(amount: int) -> list[Start]:
        steps = [[AskFor("add", {"a": 1}, "c1")], "It is 3."]
        return [make(tests, Scene(steps, [ADD], "1 + 2?")) for _ in range(amount)]

    return build, tests.record


# Measurements


class Cost(NamedTuple):
    """Medians over the rounds: milliseconds of a run without and with a recorder, and the ratio of the two."""

    plain: float
    recorded: float
    ratio: float


def alternate(build: Build, record: Record, play: Play, amount: int, rounds: int) -> Cost:
    """Play so many agents in each round, without and with a recorder."""

    def seconds(*, is_recorded: bool) -> float:
        starts = build(amount)
        settle()
        began = time.process_time()
        if is_recorded:
            with record() as recorder:
                asyncio.run(play(starts))
            runs = recorder.pop()
            took = time.process_time() - began
            assert [len(run.calls) for run in runs] == [1] * amount  # noqa: S101 - it must have done its work
            return took
        asyncio.run(play(starts))
        return time.process_time() - began

    for is_recorded in (False, True):  # imports and caches
        seconds(is_recorded=is_recorded)
    plain, recorded = [], []
    for number in range(rounds):
        for is_recorded in (False, True) if number % 2 else (True, False):
            (recorded if is_recorded else plain).append(seconds(is_recorded=is_recorded) / amount * 1000)
    ratios = [one / other for one, other in zip(recorded, plain, strict=True)]
    return Cost(statistics.median(plain), statistics.median(recorded), statistics.median(ratios))


async def one_by_one(starts: Sequence[Start]) -> None:
    """Run agents one after another."""
    for start in starts:
        await start()


async def at_once(starts: Sequence[Start]) -> None:
    """Run agents at the same time."""
    await asyncio.gather(*(start() for start in starts))


def memory(build: Build, record: Record | None, runs: int) -> float:
    """Return the bytes by which Python's objects grow with each run, after a quarter of so many runs to warm up.

    Recorded runs are popped by fifties.
    """

    async def play() -> float:
        batch = min(50, runs // 4)
        with nullcontext() if record is None else record() as recorder:
            for part in range(5):
                for _ in range(runs // 4 // batch):
                    await one_by_one(build(batch))
                    assert recorder is None or len(recorder.pop()) == batch  # noqa: S101
                if part == 0:
                    gc.collect()
                    tracemalloc.start()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return grown / runs

    return asyncio.run(play())


# Output


def measure(framework: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one framework."""
    build, record = builder_of(framework)
    one = alternate(build, record, one_by_one, 30, options.rounds)
    many = alternate(build, record, at_once, options.at_once, max(options.rounds // 3, 1))
    grown = [memory(build, None, options.memory_runs), memory(build, record, options.memory_runs)]
    return {"one": one, "many": many, "grown": grown, "version": metadata.version(FRAMEWORKS[framework][1])}


def table(results: dict[str, dict[str, Any]], options: argparse.Namespace) -> str:
    """Return the results as Markdown."""
    amount = f"{options.at_once:,} at once"
    heads = ["framework", "one run", "recorded", "ratio", amount, "recorded", "ratio", "memory a run", "recorded"]
    lines = [heads, ["---", *["--:"] * 8]]
    for framework, result in results.items():
        costs = [f"{cost[0]:.2f} ms | {cost[1]:.2f} ms | {cost[2]:.2f}" for cost in (result["one"], result["many"])]
        grown = [f"{size:.0f} B" for size in result["grown"]]
        lines.append([f"{framework} ({result['version']})", *costs, *grown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure each framework in a process of its own, print the table, and write it into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=FRAMEWORKS, nargs="+", default=list(FRAMEWORKS), help="default: all")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="rounds of 30 runs (default: 30)")
    parser.add_argument("--at-once", type=int, default=1000, metavar="N", help="simultaneous runs (default: 1,000)")
    parser.add_argument(
        "--memory-runs", type=int, default=10_000, metavar="N", help="runs for the memory (default: 10,000)"
    )
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/speed.md")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options.only[0], options)))
        return
    load = os.getloadavg()[0]
    counts = [f"--rounds={options.rounds}", f"--at-once={options.at_once}", f"--memory-runs={options.memory_runs}"]
    results = {}
    for framework in options.only:
        command = [sys.executable, "-W", "ignore", __file__, "--json", "--only", framework, *counts]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very file
        results[framework] = json.loads(done.stdout)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    text = (
        f"{machine}; load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it.\n\n{table(results, options)}\n"
    )
    print(text)
    if options.write:
        write_section(PAGE, f"\n{text}\n", BEGIN)


if __name__ == "__main__":
    main()
