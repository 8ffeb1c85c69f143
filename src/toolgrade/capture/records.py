"""Records of what happens while an agent runs: requests, executions, results, and the calls that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from toolgrade._internal.json import JsonObject, as_text, to_json_value
from toolgrade.calls import CallOrigin, ToolCallType
from toolgrade.capture.doubles import Answer
from toolgrade.errors import InvalidDataError
from toolgrade.matching.json_compare import ABSENT, json_equal, outputs_equal

Key: TypeAlias = "str | int"
"""Identifies an execution of a tool, or a branch, while one run is recorded; it is not stored in the run."""


class Branch(NamedTuple):
    """One of several agents that run in one scope at the same time, each with requests and ids of its own.

    Attributes:
        scope: The execution inside which they run; `None` at the top level.
        key: Tells it from the others; equal for what belongs together. `None` is the scope itself.

    Example:
        >>> from toolgrade.capture import Branch, Request, RunBuilder
        >>> builder = RunBuilder()
        >>> for city in ("Paris", "Rome"):  # two agents, whose models use the same id
        ...     builder.model_asked([Request("get_weather", {"city": city}, id="c1")], scope=Branch(None, city))
        >>> _ = builder.tool_started("t1", "get_weather", {"city": "Paris"}, call_id="c1", scope=Branch(None, "Paris"))
        >>> builder.tool_ended("t1", "sunny")
        >>> [(call.arguments["city"], call.output) for call in builder.build().calls]
        [('Paris', 'sunny'), ('Rome', None)]
    """

    scope: Key | None
    key: Key | None


class Outcome(str, Enum):
    """How an execution of a tool ended.

    Example:
        >>> from toolgrade.capture import Outcome, Request, RunBuilder
        >>> builder = RunBuilder()
        >>> builder.model_asked([Request("get_weather", {"city": "Paris"}, id="c1")])
        >>> _ = builder.tool_started("first", "get_weather", {"city": "Paris"}, call_id="c1")
        >>> builder.tool_failed("first", "TimeoutError: no answer in 30 s", outcome=Outcome.CANCELLED)
        >>> builder.build().calls[0].execution.status.value
        'cancelled'
    """

    OK = "ok"
    """It returned."""
    ERROR = "error"
    """It failed, or returned a failure."""
    CANCELLED = "cancelled"
    """It was stopped before it ended."""
    SUSPENDED = "suspended"
    """It waits for a person, and will be started again."""


@dataclass(slots=True)
class Request:
    """One call that a model message requests; as this very object, the handle of the call in a `RunBuilder`.

    Not frozen, because a frozen dataclass takes three times as long to make, and readers make one for each call.

    Attributes:
        name: Name of the tool.
        arguments: The argument object. If the model did not write a JSON object, what it wrote, usually as text;
            `ABSENT` if the arguments were not captured.
        id: Id from the provider, not necessarily unique; `None` or empty if there is none.
        type: Who runs the tool.
        server: The MCP server, or another group of tools that the tool belongs to.
        error: Why the arguments could not be read, if the framework reports it.
        result: Output of a tool that the provider ran, in the same message; `ABSENT` if there is none.
        failure: Error of a tool that the provider ran.
        ran: The provider ran the tool, even if neither `result` nor `failure` is known.
        replaces: Id of an earlier request that this one replaces, such as a request for approval. The two count as one
            call, at the position of this one.
        caller: Id of the call inside which this one was made, such as a program that the model wrote.
        source: Place in the file that was read; `None` for a live recording.
        handoff: The call passes control to another agent, as its name shows.
        reasoning: The model's reasoning before the call.
        needs_approval: The provider waits for a person's approval before it runs the tool.

    Example:
        >>> from toolgrade.capture import Request, RunBuilder
        >>> builder = RunBuilder()
        >>> weather = Request("get_weather", {"city": "Paris"}, id="c1")
        >>> flight = Request("book_flight", {"to": "Paris"}, id="c2")
        >>> builder.model_asked([weather, flight])  # one message of the model
        >>> [(call.name, call.arguments, call.id) for call in builder.build().calls]
        [('get_weather', {'city': 'Paris'}, 'c1'), ('book_flight', {'to': 'Paris'}, 'c2')]
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
    handoff: bool = False
    reasoning: str | None = None
    needs_approval: bool = False


@dataclass(slots=True)
class Attempt:
    """One execution of a tool.

    Attributes:
        key: Identifies it within the run.
        arguments: What the tool received; `None` if unknown.
        output: What the tool returned; `ABSENT` if it did not return or the value could not be stored.
        model_output: What the model receives, if it differs from `output`.
        artifact: What the tool returned in addition to its output.
        ran: Whether the tool itself began. Frameworks may report a start and then refuse the arguments.
        replayed: What answered it in place of the tool; `None` if the tool ran.
    """

    key: Key
    arguments: JsonObject | None
    started_at: datetime | None
    outcome: Outcome | None = None
    output: Any = ABSENT
    model_output: Any = ABSENT
    artifact: Any = None
    error: str | None = None
    ended_at: datetime | None = None
    ran: bool = True
    replayed: Answer | None = None


@dataclass(slots=True)
class ModelResult:
    """The result of a call as the model received it."""

    content: Any
    failed: bool
    unknown_tool: bool = False
    artifact: Any = None
    error: str | None = None
    rejected: bool = False
    read: bool = False
    """A tool may have run although no execution was observed, as where it was read from a file."""

    def error_text(self) -> str:
        """Return the error of a failed result as text."""
        if self.error is not None:
            return self.error
        return "failed" if self.content is ABSENT else as_text(self.content)


# Compared by identity: two equal requests are two calls.
@dataclass(slots=True, eq=False)
class CallRecord:
    """One call: a request of a model with its executions and result, or an execution that no model requested.

    Attributes:
        order: Number of the model message, and position in it; the calls of a scope are sorted by it.
        scope: The call during which it was made, or the root record of the run. A call with several attempts is one
            scope, because a later attempt continues with the requests of an earlier one.
        invalid: The requested arguments are not an object.
        requests: The calls inside this one that models requested, and those of programs among them, the oldest first.
        last_messages: Number of the last model message inside this call, by branch.
        offered: Names of the tools offered inside this call; `None` if not known.
        caller: Id of the call inside which the model made this one, if the request names it.
        branch: Key of the branch in which it was made.
        handoff_to: The agents that it passes control to, of which there may be several.
        handle: The request, held since the builder knows it by its `id`.
        is_structured_answer: It carries the structured output of the agent. It is a tool call only if it was executed.
        is_withdrawn: Somebody took the request back, so that it does not wait.
    """

    name: str
    order: tuple[int, int]
    scope: CallRecord | None
    origin: CallOrigin
    requested: Any = None
    id: str | None = None
    type: ToolCallType | None = None
    server: str | None = None
    agent: str | None = None
    invalid: bool = False
    request_error: str | None = None
    reasoning: str | None = None
    executions: tuple[Attempt, ...] = ()
    result: ModelResult | None = None
    handoff_to: tuple[str, ...] = ()
    is_handoff: bool = False
    handoff_failed: bool = False
    children: list[CallRecord] = field(default_factory=list)
    requests: list[CallRecord] = field(default_factory=list)
    not_captured: tuple[str, ...] = ()
    source: str | None = None
    caller: str | None = None
    branch: Key | None = None
    handle: Request | None = None
    is_structured_answer: bool = False
    is_withdrawn: bool = False
    last_messages: dict[Key | None, int] = field(default_factory=dict)
    offered: set[str] | None = None

    @property
    def is_pseudo(self) -> bool:
        """Whether it only carries structured output and is not a tool call."""
        return self.is_structured_answer and not self.executions

    @property
    def last(self) -> Attempt | None:
        """The latest execution, which decides how the call ended."""
        return self.executions[-1] if self.executions else None

    @property
    def last_outcome(self) -> Outcome | None:
        """The outcome of the latest execution; `None` if it still runs, or if there is none."""
        return self.executions[-1].outcome if self.executions else None

    @property
    def has_succeeded(self) -> bool:
        """Whether the latest execution returned a result."""
        return self.last_outcome is Outcome.OK

    @property
    def has_failed(self) -> bool:
        """Whether the latest execution ended without a result."""
        return self.last_outcome not in (None, Outcome.OK)

    @property
    def is_of_last_message(self) -> bool:
        """Whether no model message of its branch came after the one that requested it, and it was not taken back."""
        if self.is_withdrawn or self.scope is None:
            return False
        return self.order[0] == self.scope.last_messages.get(self.branch)

    def add_not_captured(self, name: str) -> None:
        """Note that a field of the call was not captured."""
        if name not in self.not_captured:
            self.not_captured += (name,)

    def has_arguments(self, arguments: JsonObject | None, *, at_least: bool = False) -> bool:
        """Return whether the request had these arguments, or (`at_least`) some of them and no others."""
        # Unknown arguments match nothing, not even other unknown ones.
        if not isinstance(self.requested, dict) or arguments is None:
            return False
        if not at_least:
            return json_equal(self.requested, arguments)
        return all(key in arguments and json_equal(value, arguments[key]) for key, value in self.requested.items())

    @property
    def requested_object(self) -> JsonObject:
        """The requested arguments; empty if they are not an object, or not known."""
        return self.requested if isinstance(self.requested, dict) else {}

    @property
    def is_answered(self) -> bool:
        """Whether a result or an execution was observed."""
        return self.result is not None or bool(self.executions)

    def has_result(self, content: object) -> bool:
        """Return whether the model received `content`."""
        return self.result is not None and json_equal(self.result.content, content)

    def returned(self, content: object) -> bool:
        """Return whether its last execution returned `content`."""
        last = self.last
        return last is not None and last.outcome is Outcome.OK and outputs_equal(last.output, content)


def json_value(value: object) -> tuple[Any, list[str]]:
    """Return a value as a JSON value, or `ABSENT` if it cannot be converted, and notes on what was lost."""
    notes: list[str] = []
    if value is ABSENT or type(value) is str:
        return value, notes
    try:
        return to_json_value(value, notes), notes
    except InvalidDataError as error:
        return ABSENT, [*notes, f"it could not be stored: {error}"]
    except Exception as error:  # noqa: BLE001 - an object that a program passes may run any code
        return ABSENT, [*notes, f"it could not be stored: its conversion raised {type(error).__name__}"]
