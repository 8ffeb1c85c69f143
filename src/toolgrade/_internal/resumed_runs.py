"""Rule for resumed runs: of a run that a file has interrupted and later again, only the later line counts.

A `JsonlSink` writes a run when it is interrupted and again when it was resumed, under the same `run_id`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

INTERRUPTED: Final = b'"interrupted"'
"""The status of an interrupted run as JSON text: a file without these bytes has none."""

_RUN_ID = re.compile(rb'"run_?[iI]d"\s*:\s*("(?:[^"\\]|\\.)*")')


def is_interrupted(case: object) -> bool:
    """Return whether the run of a case, given as a JSON value, is interrupted."""
    return _run_of(case).get("status") == "interrupted"


class ResumedRuns:
    """Finds the cases of a file that a later case replaces. Memory grows with the number of interrupted runs."""

    def __init__(self) -> None:
        self.replaced: set[int] = set()
        """Places of the interrupted runs for which a later case has the same `run_id`."""
        self._waiting: dict[str, int] = {}
        """Places of the interrupted runs that no later case has replaced, by their `run_id`."""

    def may_matter(self, line: bytes) -> bool:
        """Return whether `add` may have an effect for a line: a fast test that needs no parsing."""
        if INTERRUPTED in line:
            return True
        return bool(self._waiting) and any(_text(text) in self._waiting for text in _RUN_ID.findall(line))

    def add(self, place: int, case: object) -> None:
        """Add the next case of the file, as a JSON value; `place` is its line, or its position."""
        interrupted = is_interrupted(case)
        if not interrupted and not self._waiting:
            return
        run = _run_of(case)
        run_id = run.get("run_id", run.get("runId"))
        if not isinstance(run_id, str):
            return
        if run_id in self._waiting:
            self.replaced.add(self._waiting.pop(run_id))
        if interrupted:
            self._waiting[run_id] = place


def _run_of(case: object) -> dict[str, Any]:
    """Return the run of a case as a JSON object, empty if there is none."""
    run = case.get("run") if isinstance(case, dict) else None
    return run if isinstance(run, dict) else {}


def _text(literal: bytes) -> str | None:
    """Return the text of a JSON literal, `None` for one that is not valid."""
    try:
        text: str = json.loads(literal)
    except ValueError:
        return None
    return text
