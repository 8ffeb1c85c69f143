"""The recording of a run, and the tools that run in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from toolgrade.capture import RunBuilder
from toolgrade.cases import Run


def now() -> datetime:
    """Return the current time; the SDK's hooks carry none."""
    return datetime.now(timezone.utc)


@dataclass(eq=False)
class Recording:
    """One run of an agent, over as many calls of the runner as it takes."""

    builder: RunBuilder
    inner: bool = False
    """Another run began it outside of any tool, such as in a guardrail."""
    open_inside: int = 0
    """How many runs inside its tools have not ended."""
    keys: Iterator[int] = field(default_factory=itertools.count)
    """Keys of tool executions, unique in the run."""

    @classmethod
    def begin(cls, conversation: str | None, *, inner: bool) -> Recording:
        """Return the recording of a run that begins."""
        return cls(RunBuilder(run_id=str(uuid4()), conversation_id=conversation), inner)

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()


@dataclass(eq=False)
class ToolRun:
    """One execution of a local tool.

    It holds its context and span, since both are compared by identity and an id may be reused once an object is gone.
    """

    key: int
    call_id: str | None
    tool: Any
    context: Any
    span: Any
    failed: bool = False
