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
    """One run of an agent; a run that waits for a person and is resumed takes several calls of the runner.

    Attributes:
        builder: The builder of the run.
        inner: Another run began this one outside of any tool, such as in a guardrail.
        open_inside: How many runs inside the tools of this one have not ended.
        keys: The keys of executions of tools, and of branches, unique in the run.
    """

    builder: RunBuilder
    inner: bool = False
    open_inside: int = 0
    keys: Iterator[int] = field(default_factory=itertools.count)

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

    The context and the span are kept as objects: they are compared by identity, and an id may be reused once an object
    is gone.

    Attributes:
        key: The key of the execution in the builder.
        call_id: The id of the call that the tool carries out, if it is known.
        tool: The tool.
        context: The context with which the SDK runs the tool.
        span: The SDK's tracing span of the tool.
        exception: The exception of the tool, which the SDK has replaced by a text.
        server_error: The error of the last call of the tool's MCP server.
        failed: The execution is recorded as failed.
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
class RequestsWithId:
    """The requests of one message that share an id, mostly a single one, and what became of them.

    Attributes:
        requests: The requests.
        unknown: Those of the requests whose agent has no tool of their name.
        run: The newest execution of a tool for one of them.
        handed_over: Control passed to another agent by one of them.
        result: The item with the result that the model was shown.
    """

    requests: list[Request] = field(default_factory=list)
    unknown: list[Request] = field(default_factory=list)
    run: LocalRun | None = None
    handed_over: bool = False
    result: Any = None

    @property
    def of_tools(self) -> list[Request]:
        """The requests whose agent has the tool."""
        return [request for request in self.requests if request not in self.unknown]

    @property
    def has_run(self) -> bool:
        """Whether a tool ran for one of the requests, or control passed by one."""
        return self.run is not None or self.handed_over
