"""The recording of a run, the tools that run in it, and what became of its requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from toolgrade.capture import Request, RunBuilder
from toolgrade.cases import Run


def now() -> datetime:
    """Return the current time; the SDK's hooks carry none."""
    return datetime.now(timezone.utc)


@dataclass(eq=False)
class RunnerRecording:
    """One run of an agent, over as many calls of the runner as it takes."""

    builder: RunBuilder
    inner: bool = False
    """Another run began it outside of any tool, such as in a guardrail."""
    open_inside: int = 0
    """How many runs inside its tools have not ended."""
    keys: Iterator[int] = field(default_factory=itertools.count)
    """Keys of tool executions, unique in the run."""

    @classmethod
    def begin(cls, conversation: str | None, *, inner: bool) -> RunnerRecording:
        """Return the recording of a run that begins."""
        return cls(RunBuilder(run_id=str(uuid4()), conversation_id=conversation), inner)

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()


@dataclass(eq=False)
class LocalRun:
    """One execution of a local tool.

    It holds its context and span, since both are compared by identity and an id may be reused once an object is gone.

    Attributes:
        exception: What the tool raised, which the SDK has replaced by a text.
        server_error: The error of the last call of its MCP server.
        failed: It is recorded as failed.
    """

    key: int
    call_id: str | None
    tool: Any
    context: Any
    span: Any
    exception: BaseException | None = None
    server_error: str | None = None
    failed: bool = False


@dataclass(eq=False)
class SameId:
    """The requests of one message that share an id, mostly one, and what became of them.

    Attributes:
        unknown: Those whose agent has no tool of their name.
        run: The newest execution.
        handed_over: Control passed to another agent by one of them.
        result: The item of the result that the model was shown.
    """

    requests: list[Request] = field(default_factory=list)
    unknown: list[Request] = field(default_factory=list)
    run: LocalRun | None = None
    handed_over: bool = False
    result: Any = None

    @property
    def of_tools(self) -> list[Request]:
        """Those whose agent has the tool."""
        return [request for request in self.requests if request not in self.unknown]

    @property
    def has_run(self) -> bool:
        """Whether a tool ran for one of them, or control passed."""
        return self.run is not None or self.handed_over
