"""Programs that tests stop by force, and what a stopped program may leave running."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

EVALUATION = """
import asyncio, signal
from pathlib import Path
from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background ignores it

async def agent(question, conversation):
    with open("asked.txt", "a") as file:
        file.write(question + "\\n")
    await asyncio.sleep(0.02)
    return Run(input=question, calls=[ToolCall(name="a")] * (int(question) % 3), actual_output=question)

goldens = [Golden(input=str(number), expected_tools=[ToolCall(name="a")]) for number in range(10)]
report = evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], trials=2, max_concurrency=3,
                  results="r.jsonl", resume=True)
plain = report.to_dict()
del plain["about"]
Path("report.json").write_text(__import__("json").dumps(plain, sort_keys=True))
"""
"""Evaluates ten goldens in two trials, three at a time, and resumes `r.jsonl`; `asked.txt` has each asked question."""

SINK_WRITER = """
import sys
from toolgrade import ToolCall
from toolgrade.capture.sinks import JsonlSink
from toolgrade.cases import Run

path, name, amount, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sink = JsonlSink(path)
for number in range(amount):
    call = ToolCall(name="log_in", input_parameters={"password": "hunter2"}, output="é" * size)
    sink.write(Run(run_id=f"{name}-{number}", calls=[call]))
    print(number, flush=True)
"""
"""Appends runs of a size to a file, and prints the number of each run that is written."""


def times_written(results: Path) -> Counter[tuple[int, int]]:
    """How often each case (or golden and trial) stands in a file of results, without a torn last line."""
    times: Counter[tuple[int, int]] = Counter()
    for line in results.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n") and "case" in (entry := json.loads(line)):
            times[entry["case"], entry.get("trial", 0)] += 1
    return times


def processes_with(setting: str) -> list[str]:
    """The ids of processes with this setting in their environment, which children inherit."""
    ids: list[str] = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if setting.encode() in place.read_bytes():
                ids.append(place.parent.name)
        except OSError:
            continue
    return ids


SCORE = """
import sys
from toolgrade.evaluation import files
files.PART_BYTES = 4000
from toolgrade.cli.main import run
run()
"""
"""The command line, for which files are large."""
