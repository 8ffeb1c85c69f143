"""Files of recorded cases for tests, and what their files of results hold."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from toolgrade import BudgetMetric, ToolCorrectnessMetric
from toolgrade.metrics import MetricLike

NAMES = ("look", "book", "pay", "café", "wipe")


def metrics() -> list[MetricLike]:
    """Return two metrics, one of which cannot score every case."""
    return [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), BudgetMetric(max_calls=2)]


def call(rng: random.Random) -> dict[str, Any]:
    """A call."""
    return {"name": rng.choice(NAMES), "args": {"seats": rng.randrange(3), "to": "Zürich"}}


def case(number: int, rng: random.Random) -> dict[str, Any]:
    """A case: with an id, a name or neither, maybe without expectations, maybe with a secret."""
    plain: dict[str, Any] = {"tools_called": [call(rng) for _ in range(rng.randrange(4))]}
    if rng.random() < 0.9:
        plain["expected_tools"] = [call(rng) for _ in range(rng.randrange(4))]
    if rng.random() < 0.7:
        plain["id"] = f"case {number}"
    elif rng.random() < 0.5:
        plain["name"] = f"name {number}"
    if rng.random() < 0.3:
        plain["metadata"] = {"task": f"t{number % 7}", "api_key": "sk-0123456789abcdefghij0123"}
    return plain


def write_lines(path: Path, number: int, seed: int = 0) -> Path:
    """Write this many cases, with blank lines and both kinds of line ends."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    for index in range(number):
        text = json.dumps(case(index, rng), ensure_ascii=rng.random() < 0.5)
        lines.append(text.encode() + rng.choice([b"\n", b"\n", b"\r\n"]))
        if rng.random() < 0.1:
            lines.append(rng.choice([b"\n", b"  \n", b"\r\n"]))
    path.write_bytes(b"".join(lines))
    return path


def body(results: Path) -> list[dict[str, Any]]:
    """The lines of the cases in a file of results."""
    return [line for line in map(json.loads, results.read_bytes().splitlines()) if "case" in line]


def without_start(results: Path) -> bytes:
    """The bytes of a file of results, but for when it was begun and how long it took."""
    return re.sub(rb'"(started_at|seconds)": ("[^"]*"|[0-9.]+)', rb'"\1": ""', results.read_bytes())
