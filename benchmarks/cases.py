"""The measured cases, `{"expected": [[name, arguments], ...], "called": [...]}`: recorded ones, and random ones."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]
Case = dict[str, list[Call]]

TOOLS = 12
WORDS = ("alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow")
CITIES = ("Bandung", "Kyiv", "Lima", "Oslo", "Turin", "Yaoundé")


def all_cases(repository: Path) -> dict[str, list[Case]]:
    """Return the cases of each column of the table; those of recorded runs are left out if their file is not there."""
    folder = Path(os.environ.get("TOOLGRADE_SHARED") or repository.parent / "shared")
    recorded = folder / "data" / "tau-airline" / "runs.jsonl"
    lines = recorded.read_text(encoding="utf-8").splitlines() if recorded.is_file() else []
    airline = {"airline": [_recorded_case(json.loads(line)) for line in lines]} if lines else {}
    return {**airline, "5 calls": _synthetic(5, 100), "20 calls": _synthetic(20, 20), "100 calls": _synthetic(100, 4)}


def _recorded_case(record: dict[str, Any]) -> Case:
    functions = [call["function"] for message in record["agent_trajectory"] for call in message.get("tool_calls") or []]
    return {
        "expected": [(tool["name"], tool["args"]) for tool in record["expected_tools"]],
        "called": [(function["name"], json.loads(function["arguments"])) for function in functions],
    }


def _synthetic(size: int, count: int) -> list[Case]:
    """Return cases of `size` expected calls: of the calls, a tenth dropped, added or swapped, a fifth changed."""
    rng = random.Random(f"toolgrade/mixed/{size}")
    cases: list[Case] = []
    for _ in range(count):
        expected = [_call(rng) for _ in range(size)]
        called = [_changed(rng, call) if rng.random() < 0.2 else call for call in expected if rng.random() >= 0.1]
        for _ in range(round(size * 0.1)):
            called.insert(rng.randint(0, len(called)), _call(rng))
        for place in range(len(called) - 1):
            if rng.random() < 0.1:
                called[place], called[place + 1] = called[place + 1], called[place]
        cases.append({"expected": expected, "called": called})
    return cases


def _call(rng: random.Random) -> Call:
    return f"tool_{rng.randrange(TOOLS):02d}", _arguments(rng)


def _changed(rng: random.Random, call: Call) -> Call:
    name, arguments = call
    key = rng.choice(sorted(arguments))
    return name, {**arguments, key: _arguments(rng)[key]}


def _arguments(rng: random.Random) -> dict[str, Any]:
    return {
        "query": f"{rng.choice(WORDS)} {rng.choice(WORDS)}",
        "limit": rng.randint(1, 10),
        "ratio": rng.randint(1, 20) / 20,
        "days": rng.sample(range(7), 3),
        "place": {"city": rng.choice(CITIES), "zone": rng.randint(1, 9)},
    }
