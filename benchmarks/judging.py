"""Time of a judged evaluation, against the time that the endpoint alone needs.

    python benchmarks/judging.py [--cases 200] [--units 3] [--latency 0.05] [--concurrency 4 8 16]

Conversations are judged by `ToolUseMetric` over HTTP. The endpoint is `toolgrade.testing.FakeOpenAI` in a process
of its own, which answers each request after the latency. The ideal time is requests x latency / concurrency: what it
takes if nothing but waiting takes time. Needs `toolgrade[openai]`.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from toolgrade import ConversationalTestCase, ToolCall, ToolUseMetric, Turn, evaluate
from toolgrade.judge import Judge
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import FakeOpenAI, ReceivedRequest, Reply

TOOLS: Any = [
    {
        "name": "weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"name": "news", "description": "The news of a day."},
]


class Timed(NamedTuple):
    """One run: seconds, ideal seconds, and requests."""

    seconds: float
    ideal: float
    requests: int

    @property
    def ratio(self) -> float:
        """How many times the ideal it took."""
        return self.seconds / self.ideal


def conversation(number: int, units: int) -> ConversationalTestCase:
    """A conversation with one call in each unit; no two are alike, so that no verdict is in the cache."""
    turns: list[Turn] = []
    for unit in range(units):
        city = f"City {number}.{unit}"
        call = ToolCall(name="weather", input_parameters={"city": city}, output={"sky": "rain"})
        turns += [
            Turn(role="user", content=f"What is the weather in {city}?"),
            Turn(role="assistant", content="It rains.", tools_called=[call]),
        ]
    return ConversationalTestCase(turns=turns, available_tools=TOOLS)


def serve(latency: float) -> None:
    """Answer yes to every question, after the latency, until standard input ends."""

    def yes(request: ReceivedRequest) -> Reply:
        properties = request.body["response_format"]["json_schema"]["schema"]["properties"]
        reply = {"evidence": [], "reasoning": "it fits", "verdict": "yes", "missing": []}
        return Reply(json.dumps({name: reply[name] for name in properties}), delay=latency)

    with FakeOpenAI(answer=yes) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def endpoint(latency: float) -> Generator[str, None, None]:
    """Run the endpoint in a separate process and yield its address."""
    with subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, __file__, "--serve", f"{latency}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the endpoint has no pipes")
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def measure(address: str, cases: int, units: int, latency: float, concurrency: int) -> Timed:
    """Judge that many conversations; each must score 1."""
    judge = OpenAIJudge("any", base_url=address, max_concurrency=concurrency)
    conversations = [conversation(number, units) for number in range(cases)]
    evaluate(conversations[:1], [ToolUseMetric(judge=Judge(judge))])  # warm up imports and caches
    started = time.perf_counter()
    report = evaluate(
        conversations, [ToolUseMetric(judge=Judge(judge))], max_concurrency=concurrency, show_progress=False
    )
    seconds = time.perf_counter() - started
    results = [result for case in report.cases for result in case.results]
    for result in results:
        if result.score != 1:
            raise RuntimeError(f"a case did not score 1: {result}")
    requests = sum(result.usage["requests"] for result in results)
    return Timed(seconds, requests * latency / concurrency, requests)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    print(f"Python {platform.python_version()}, {options.cases} conversations of {options.units} units")
    print(f"latency {options.latency * 1000:g} ms\n\nat once  requests  ideal s  took s  ratio")
    with endpoint(options.latency) as address:
        for concurrency in options.concurrency:
            timed = measure(address, options.cases, options.units, options.latency, concurrency)
            print(
                f"{concurrency:7}  {timed.requests:8}  {timed.ideal:7.2f}  {timed.seconds:6.2f}  {timed.ratio:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
