"""What a recorder notes down while an agent runs: requests, executions, and the call they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypeAlias

from toolmark._internal.json import json_text
from toolmark.calls import CallOrigin, ToolCallType
from toolmark.matching.json_compare import ABSENT, json_equal, outputs_equal

Key: TypeAlias = "str | int"
"""Names an execution of a tool (or another scope) within one run; never shown."""


class Outcome(str, Enum):
    """How an execution of a tool ended."""

    OK = "ok"
    ERROR = "error"
    """It failed, or said itself that it failed."""
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    """It waits for a person; it will be started again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call that a model message asked for.

    Attributes:
        name: Name of the tool.
        arguments: The argument object, or what stands in its place (raw text, as a rule) where it is no JSON object;
            `ABSENT` where they were not captured.
        id: The id the provider gave it; need not be unique; `None` or empty where there is none.
        type: Who runs it.
        server: The MCP server, or another group of tools that the tool belongs to.
        error: Why the arguments could not be read, where the framework says so.
        result: What a provider-run tool returned, in the message that asked for it; `ABSENT` if nothing.
        failure: Its error, where it failed there.
        ran: A provider-run tool was run, also where neither result nor error is told.
        replaces: The id of an earlier request that this one carries out, such as one for approval; the two are one
            call, which stands where this one does.
        caller: The id of the call inside which this one was made, such as a program that the model wrote.
        source: Where it stands, for one that was read rather than watched.
        raw: The text that the model wrote, where it is no JSON object and `arguments` were read from it all the same.
        handoff: It passes control to another agent, as is known by its name.
    """

    name: str
    arguments: Any = None
    id: str | None = None
    type: ToolCallType | None = None
    server: str | None = None
    error: str | None = None
    result: Any = ABSENT
    failure: str | None = None
    ran: bool = False
    replaces: str | None = None
    caller: str | None = None
    source: str | None = None
    raw: str | None = None
    handoff: bool = False


@dataclass(slots=True)
class Execution:
    """One time that a tool ran."""

    key: Key
    arguments: dict[str, Any] | None
    started_at: datetime | None
    outcome: Outcome | None = None
    output: Any = ABSENT
    shown: Any = ABSENT
    artifact: Any = None
    error: str | None = None
    ended_at: datetime | None = None


@dataclass(slots=True)
class Shown:
    """What the model was shown as the result of a call."""

    content: Any
    failed: bool
    unknown_tool: bool = False
    artifact: Any = None
    error: str | None = None
    rejected: bool = False
    read: bool = False
    """It was read, so that nobody could have seen whether the tool ran."""

    def text(self) -> str:
        """Return what it says, as text; of a failure, the error."""
        if self.error is not None:
            return self.error
        if self.content is ABSENT:
            return "failed"
        return self.content if isinstance(self.content, str) else json_text(self.content)


@dataclass(slots=True, eq=False)
class Observed:
    """One call: a request, its executions, and what the model was shown; or executions that nobody asked for.

    Attributes:
        order: Sorts the calls of a scope: when the model message arrived, and the position in it.
        scope: The call in which it was made; the run itself, which has no scope, at the top level. It is the call and
            not one execution of it, since a later attempt goes on with what an earlier one asked for.
        last_messages: When a model message last arrived inside it, of each strand.
        offered: Names of the tools offered inside it; empty if not known.
        caller: The id of the call that the request names as the one it was made in, which is `scope`.
        round: How often results or words of the user had come between the model's messages before.
        strand: Which of several agents that run inside one scope at the same time asked for it or made it.
    """

    name: str
    order: tuple[int, int]
    scope: Observed | None
    origin: CallOrigin
    requested: Any = None
    raw: str | None = None
    id: str | None = None
    type: ToolCallType | None = None
    server: str | None = None
    agent: str | None = None
    invalid: bool = False
    request_error: str | None = None
    executions: list[Execution] = field(default_factory=list)
    shown: Shown | None = None
    handoff_to: str | None = None
    is_handoff: bool = False
    children: list[Observed] = field(default_factory=list)
    not_captured: list[str] = field(default_factory=list)
    source: str | None = None
    caller: str | None = None
    round: int = 0
    strand: Key | None = None
    last_messages: dict[Key | None, int] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)

    @property
    def last(self) -> Execution | None:
        """The latest execution, which tells how the call went."""
        return self.executions[-1] if self.executions else None

    @property
    def is_of_last_message(self) -> bool:
        """Whether no model message of its strand followed the one that asked for it."""
        return self.scope is not None and self.order[0] == self.scope.last_messages.get(self.strand)

    def asked_with(self, arguments: dict[str, Any] | None, *, at_least: bool = False) -> bool:
        """Return whether the request had these arguments, or (`at_least`) some of them and no others."""
        if not isinstance(self.requested, dict) or arguments is None:
            return False
        if not at_least:
            return json_equal(self.requested, arguments)
        return all(key in arguments and json_equal(value, arguments[key]) for key, value in self.requested.items())

    def returned(self, content: object) -> bool:
        """Return whether its last execution returned just this."""
        last = self.last
        return last is not None and last.outcome is Outcome.OK and outputs_equal(last.output, content)
