"""What is scored: recorded runs of an airline agent, and synthetic cases of fixed seeds.

A case is plain here, `{"expected": [[name, arguments], ...], "called": [...]}`, and each library makes of it what it
needs.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Call = tuple[str, dict[str, Any]]
Family = Literal["airline", "mixed", "unique names", "identical", "one tool"]

TOOLS = 12
WORDS = ("alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow")
CITIES = ("Bandung", "Kyiv", "Lima", "Oslo", "Turin", "Yaoundé")


@dataclass(frozen=True)
class Workload:
    """Cases of one kind and size."""

    name: str
    family: Family
    size: int
    """Expected calls per case; 0 where the cases differ."""
    cases: list[dict[str, list[Call]]]
    lines: list[str] = field(repr=False)
    """The same cases as JSONL: what toolgrade parses."""
    record: bool = False
    """The lines are recorded messages (`case_from_record`), not toolgrade's own cases (`LLMTestCase`)."""
    records: list[str] = field(default_factory=list, repr=False)
    """The same cases as recorded messages, one JSON text each: what libraries score that read messages."""
    shared: bool = True
    """The peers are measured on it too."""


def all_workloads(airline: Path | None) -> list[Workload]:
    """Return every workload, ordered by family and size; the airline runs only if their file is passed."""
    return [
        *(airline_workloads(airline) if airline else []),
        *(_synthetic("mixed", size, count, _mixed) for size, count in _SIZES),
        *(_synthetic("unique names", size, count, _unique) for size, count in _SIZES[2:]),
        *(_synthetic("identical", size, count, _identical) for size, count in _SIZES[2:]),
        _synthetic("one tool", 500, 2, _one_tool),
        _synthetic("one tool", 2000, 1, _one_tool),
    ]


_SIZES = ((5, 400), (20, 200), (100, 60), (500, 12), (2000, 4))
"""Expected calls per case, and how many cases."""


def find_airline(path: Path | None, repository: Path) -> Path | None:
    """Return the file of recorded airline runs, or `None` where there is none."""
    if path:
        return path
    folder = Path(os.environ.get("TOOLGRADE_SHARED") or repository.parent / "shared")
    path = folder / "data" / "tau-airline" / "runs.jsonl"
    return path if path.is_file() else None


def airline_workloads(path: Path) -> list[Workload]:
    """Read the runs twice: as the recorded messages, and as the cases that toolgrade makes of them."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    cases = [_from_record(json.loads(line)) for line in lines]
    return [
        Workload("airline", "airline", 0, cases, _case_lines(cases), records=lines),
        Workload("airline, whole recordings", "airline", 0, cases, lines, record=True, shared=False),
    ]


def _from_record(record: dict[str, Any]) -> dict[str, list[Call]]:
    functions = [call["function"] for message in record["agent_trajectory"] for call in message.get("tool_calls") or []]
    return {
        "expected": [(tool["name"], tool["args"]) for tool in record["expected_tools"]],
        "called": [(function["name"], json.loads(function["arguments"])) for function in functions],
    }


def _synthetic(
    family: Family, size: int, count: int, make: Callable[[random.Random, int], tuple[list[Call], list[Call]]]
) -> Workload:
    rng = random.Random(f"toolgrade/{family}/{size}")
    cases = []
    for _ in range(count):
        expected, called = make(rng, size)
        cases.append({"expected": expected, "called": called})
    return Workload(f"{family}, {size:,} calls", family, size, cases, _case_lines(cases))


def _case_lines(cases: list[dict[str, list[Call]]]) -> list[str]:
    """Write the cases as toolgrade's own JSONL."""
    lines = []
    for number, case in enumerate(cases):
        tools = {
            key: [{"name": name, "input_parameters": arguments} for name, arguments in case[kind]]
            for key, kind in (("tools_called", "called"), ("expected_tools", "expected"))
        }
        lines.append(json.dumps({"id": str(number), "input": "synthetic", **tools}, ensure_ascii=False))
    return lines


def _arguments(rng: random.Random) -> dict[str, Any]:
    return {
        "query": f"{rng.choice(WORDS)} {rng.choice(WORDS)}",
        "limit": rng.randint(1, 10),
        "ratio": rng.randint(1, 20) / 20,
        "days": rng.sample(range(7), 3),
        "place": {"city": rng.choice(CITIES), "zone": rng.randint(1, 9)},
    }


def _changed(rng: random.Random, call: Call) -> Call:
    name, arguments = call
    key = rng.choice(sorted(arguments))
    return name, {**arguments, key: _arguments(rng)[key]}


def _damaged(rng: random.Random, expected: list[Call], extra: Callable[[], Call]) -> list[Call]:
    """Drop a tenth of the calls, change an argument of a fifth, add a tenth, swap a tenth with their neighbours."""
    called = [_changed(rng, call) if rng.random() < 0.2 else call for call in expected if rng.random() >= 0.1]
    for _ in range(round(len(expected) * 0.1)):
        called.insert(rng.randint(0, len(called)), extra())
    for place in range(len(called) - 1):
        if rng.random() < 0.1:
            called[place], called[place + 1] = called[place + 1], called[place]
    return called


def _mixed(rng: random.Random, size: int) -> tuple[list[Call], list[Call]]:
    def call() -> Call:
        return f"tool_{rng.randrange(TOOLS):02d}", _arguments(rng)

    expected = [call() for _ in range(size)]
    return expected, _damaged(rng, expected, call)


def _unique(rng: random.Random, size: int) -> tuple[list[Call], list[Call]]:
    """Every call has its own name; damaged like the others, and shuffled."""
    expected = [(f"tool_{number:05d}", _arguments(rng)) for number in range(size)]
    called = _damaged(rng, expected, lambda: (f"other_{rng.randrange(10**6):06d}", _arguments(rng)))
    rng.shuffle(called)
    return expected, called


def _identical(rng: random.Random, size: int) -> tuple[list[Call], list[Call]]:
    """One call, expected and made `size` times."""
    call = ("tool_00", _arguments(rng))
    return [call] * size, [call] * size


def _one_tool(rng: random.Random, size: int) -> tuple[list[Call], list[Call]]:
    """Different calls of one tool: no pair is fixed in advance, so each must be compared."""

    def calls(first: int) -> list[Call]:
        return [("tool_00", {**_arguments(rng), "key": first + number}) for number in range(size)]

    return calls(0), calls(size)
