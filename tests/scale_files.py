"""Helpers for tests of scoring files: files with many cases of every kind, and the expected results."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolgrade import ToolCorrectnessMetric, ToolEfficiencyMetric
from toolgrade.metrics import MetricLike

NAMES = ("look", "book", "pay", "café", "wipe")


def metrics() -> list[MetricLike]:
    """Return two metrics, one of which cannot score every case."""
    return [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), ToolEfficiencyMetric(max_calls=2)]


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
    """The lines of a file of results below the header, without their times, and the checksums of these."""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()[1:]]
    return [{key: value for key, value in line.items() if key not in ("seconds", "checksum")} for line in lines]


def without_start(results: Path) -> bytes:
    """The bytes of a file of results, but for when it was begun."""
    first, _, rest = results.read_bytes().partition(b"\n")
    header = json.loads(first)
    assert header.pop("started_at")
    assert header.pop("checksum")
    return json.dumps(header).encode() + b"\n" + rest


def after_parts(count: int, action: Callable[[], object]) -> Callable[[int, int], None]:
    """Return a callback for the progress that runs an action after this number of parts."""
    calls = itertools.count()  # the first call reports what an earlier run did

    def progress(_done: int, _of: int) -> None:
        if next(calls) == count:
            action()

    return progress


def stop() -> None:
    """Stop a run from its progress."""
    raise StoppedError


class StoppedError(Exception):
    """A run was stopped."""
