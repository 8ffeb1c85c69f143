"""What is kept of a run while it goes on: its recording, the calls that were asked for, the tools that run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from toolmark.capture import ABSENT, Request, Run, RunBuilder
from toolmark_openai_agents import _sdk


def now() -> datetime:
    """Return the time; hooks carry none."""
    return datetime.now(timezone.utc)


@dataclass(eq=False)
class Recording:
    """One run of an agent, over as many calls of the runner as it took.

    Attributes:
        builder: What was observed.
        inner: It was started by another run, and not by a tool of it: in a guardrail, say.
        keys: Names of executions, unique in the run.
    """

    builder: RunBuilder
    inner: bool = False
    keys: Iterator[int] = field(default_factory=itertools.count)

    def run(self) -> Run:
        """Return the run as far as it was seen."""
        return self.builder.build()

    @classmethod
    def begin(cls, conversation: str | None, *, inner: bool) -> Recording:
        """Return one of a run that begins."""
        return cls(RunBuilder(run_id=str(uuid4()), conversation_id=conversation), inner)


@dataclass(eq=False)
class Execution:
    """One local tool that runs.

    Attributes:
        key: Its name in the builder.
        call_id: The call it answers, if that is known.
        tool: The tool.
        context: The context it was handed; kept, so that its identity stays its own.
        span: The span in which it runs, for the same reason.
        failed: It is known to have failed.
    """

    key: int
    call_id: str | None
    tool: Any
    context: Any
    span: Any
    failed: bool = False


@dataclass(eq=False)
class Asked:
    """A call that a model asked for."""

    name: str
    call_id: str | None
    tells: bool
    """What becomes of it is told by an item of its own."""


def tells(request: Request) -> bool:
    """Return whether what becomes of a call is told by an item of its own."""
    return not request.ran and request.result is ABSENT and request.failure is None


def arguments_of(tool: Any, context: Any) -> dict[str, Any] | None:  # noqa: ANN401 - objects of the SDK
    """Return what a tool is handed; `None` where that cannot be seen, or is no JSON object."""
    text = getattr(context, "tool_arguments", None)
    if not isinstance(text, str) or tool is None or not _sdk.has_object_arguments(tool):
        return None
    if _sdk.is_custom(tool):
        return {"input": text}
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
