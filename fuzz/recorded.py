"""Seeds: the small valid data of the tests, and the recorded data in the folder that `TOOLGRADE_SHARED` names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from recorded_exchanges import exchanges_in
from seeds import EMITTED, MESSAGES, STREAM
from toolgrade.errors import ToolgradeError
from toolgrade.formats import read, read_traces

LARGEST = 60_000
"""Characters of the longest recorded seed; a mutation of it must stay below the size for which limits hold."""


@cache
def message_seeds() -> list[Any]:
    """Return messages and streams that can be read."""
    seeds = [MESSAGES, STREAM]
    folder = _folder()
    if folder is not None:
        for exchange in exchanges_in(folder):
            seeds += _readable([exchange.request, exchange.response], read)
    return seeds


@cache
def trace_seeds() -> list[list[Any]]:
    """Return lists of documents of one trace each."""
    emitted = [json.loads(path.read_text(encoding="utf-8"))["documents"] for path in sorted(EMITTED.glob("*.json"))]
    folder = _folder()
    paths = [] if folder is None else sorted(folder.rglob("*.json"))
    recorded = _readable([json.loads(path.read_text(encoding="utf-8")) for path in paths], read_traces)
    return [*emitted, *([document] for document in recorded)]


def _folder() -> Path | None:
    shared = os.environ.get("TOOLGRADE_SHARED")
    return Path(shared) / "data" / "recorded" if shared else None


def _readable(values: list[Any], reader: Callable[[Any], object]) -> list[Any]:
    readable = []
    for value in values:
        with suppress(ToolgradeError):
            reader(value)
            if len(json.dumps(value)) <= LARGEST:
                readable.append(value)
    return readable
