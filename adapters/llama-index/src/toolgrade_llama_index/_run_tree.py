"""The tree of open spans, and the recordings that they belong to."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final
from uuid import uuid4

from llama_index.core.agent.workflow.workflow_events import ToolCall as RequestedCall

from toolgrade.calls import CallStatus, ToolCall, ToolCallType
from toolgrade.capture import Branch, Outcome, Request, RunBuilder
from toolgrade.cases import Run
from toolgrade_llama_index._agent_log import TOP, AgentLog, Key
from toolgrade_llama_index._branches import EventFlow, OpenRequests, equal_values
from toolgrade_llama_index._errors import outcome_of
from toolgrade_llama_index._listening import RecorderListener

_UUID_SUFFIX: Final = len("-") + len(str(uuid4()))


def now() -> datetime:
    """Return the current time; LlamaIndex's spans carry none."""
    return datetime.now(timezone.utc)


def method_of(span_id: str) -> str:
    """Return the method in a span's id, such as `run` for `FunctionAgent.run`, a hyphen and a UUID."""
    return span_id[:-_UUID_SUFFIX].rpartition(".")[2]


class WorkflowRecording:
    """One run of an agent.

    Attributes:
        builder: The builder of the run.
        agent_log: Adds the answers of agents' models and the results of their calls to the builder.
        event_flow: Which step of a workflow sent an event to which.
        requests: The requests of models outside of agents.
        is_group: The run is a `single_run` block, which ends with the block and not with a span.
        answer: The last answer of a model in a group.
        has_framework_id: The id of the run is the one that LlamaIndex has given to it.
        lacks_beginning: The run continues an unobserved one, and no agent has answered since.
        saved: The requests in the saved state of that unobserved run.
        agent: The agent that made the saved requests.
        pseudo_tools: Names of tools that carried a structured answer, each with its scope.
        mcp_tools: Names of offered tools of MCP servers.
        offered: Names of the other tools that were offered, each with its scope.
        has_waited: A call waits, or waited, for a person.
        suspended: Calls of steps whose tool was suspended and has not begun again.
        waiting_before_tool: Id and name of calls of agents whose step waits for a person before it runs the tool.
        waiting: The calls that wait for a person in a paused run; empty while the run goes on.
        spans: The spans of the run in the tree.
        workflow: The workflow that runs.
        workflow_type: The class of that workflow.
    """

    def __init__(self, label: str | None, *, is_group: bool = False) -> None:
        """Begin without observations, in the conversation `label`."""
        self.builder = RunBuilder(run_id=str(uuid4()), conversation_id=label)
        self.agent_log = AgentLog(self.builder, self.type_of)
        self.event_flow = EventFlow()
        self.requests = OpenRequests(self.builder.warn)
        self.is_group = is_group
        self.answer: str | None = None
        self.has_framework_id = False
        self.lacks_beginning = False
        self.saved: list[Request] = []
        self.agent: str | None = None
        self.offered: set[tuple[Key | None, str]] = set()
        self.pseudo_tools: set[tuple[Key | None, str]] = set()
        self.mcp_tools: set[str] = set()
        self.has_waited = False
        self.suspended: list[StepCall] = []
        self.waiting_before_tool: set[tuple[str, str]] = set()
        self.waiting: list[ToolCall] = []
        self.spans: dict[str, WorkflowSpan] = {}
        self.workflow: weakref.ref[Any] | None = None
        self.workflow_type: type | None = None

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()

    def may_continue_as(self, workflow: object) -> bool:
        """Return whether the run is paused, and is of the class of this workflow."""
        return bool(self.waiting) and not self.builder.is_open and self.workflow_type is type(workflow)

    @property
    def step_error(self) -> BaseException | None:
        """What a step raised, if nothing else goes on: old versions tell the caller before the run's span ends."""
        root = next((span for span in self.spans.values() if span.is_root and not span.closed), None)
        if root is None or not isinstance(root.error, Exception):
            return None
        active = any(not span.closed and span is not root for span in self.spans.values())
        return None if active or outcome_of(root.error) is not Outcome.ERROR else root.error

    def type_of(self, name: str) -> ToolCallType:
        """Return the type of a requested tool."""
        return ToolCallType.MCP if name in self.mcp_tools else ToolCallType.FUNCTION

    def names_pseudo_tool(self, name: str, scope: Key | None) -> bool:
        """Return whether only tools that carry a structured answer have this name."""
        return (scope, name) in self.pseudo_tools and (scope, name) not in self.offered

    def take_suspended(self, call: StepCall) -> bool:
        """Return whether a call that begins was suspended before, and count it as suspended no longer."""
        for earlier in self.suspended:
            if (earlier.id, earlier.name) == (call.id, call.name) and equal_values(earlier.arguments, call.arguments):
                self.suspended.remove(earlier)
                return True
        return False

    def saved_request(self, call: StepCall) -> Request | None:
        """Return the request of a call that begins, from those in the saved state; of equal ones each in turn.

        The request stays available: LlamaIndex may run a resumed call twice, when it loads the state and when the
        answer of the person comes.
        """
        for request in self.saved:
            is_same = (request.id or "", request.name) == (call.id, call.name)
            if is_same and equal_values(request.arguments, call.arguments):
                self.saved.remove(request)
                self.saved.append(request)
                return request
        return None

    def waiting_calls(self) -> list[ToolCall]:
        """Return the calls that wait for a person.

        Either their tools were suspended, also inside other calls, or their steps wait before they run the tool.
        """
        waiting: list[ToolCall] = []
        calls = list(self.run().calls)
        top_level = len(calls)
        for index, call in enumerate(calls):
            if call.execution is None:
                continue
            calls += call.execution.children
            waits_in_step = index < top_level and (call.id or "", call.name) in self.waiting_before_tool
            if call.execution.status is CallStatus.PENDING and (call.execution.executed or waits_in_step):
                waiting.append(call)
        return waiting

    def fit(self, calls: Sequence[RequestedCall]) -> int:
        """Return how well a saved state fits this run: 2 if it has all waiting calls, 1 if some of them, 0 if none."""
        left = list(calls)
        count = 0
        for waiting in self.waiting:
            for call in left:
                same_id = (waiting.id or "") == call.tool_id
                if same_id and waiting.name == call.tool_name and equal_values(waiting.arguments, call.tool_kwargs):
                    left.remove(call)
                    count += 1
                    break
        return 0 if not count else 1 + (count == len(self.waiting))


@dataclass(slots=True, eq=False)
class StepCall:
    """A call that a step of a workflow runs, mostly an agent's; its id may be empty, and may repeat."""

    name: str
    arguments: dict[str, Any]
    id: str
    key: str = ""
    """The execution of the tool that began last; empty before the first."""
    attempts: int = 0
    result: Any = None
    """What the tool returned; the step, in a workflow of the user's own, may return something else."""

    @property
    def started(self) -> bool:
        """Whether the tool has begun."""
        return bool(self.key)


@dataclass(slots=True, eq=False)
class WorkflowSpan:
    """One span: the execution of a method. The docstring of `_watcher` shows the spans of an agent.

    Attributes:
        id: The id of the span, such as `FunctionAgent.run`, a hyphen and a UUID.
        recording: The run that the span belongs to.
        parent: The span around this one; `None` for the outermost.
        scope: The execution of a tool inside which things happen here; `None` at the top level of the run.
        branch: The nested run that the span belongs to, since several may go on at once; `None` for the recorded run.
        is_run: The span is the run of a workflow.
        workflow: The workflow of a run, until the span ends.
        is_step: The span is the execution of a step of a workflow.
        call: The call that a step runs; `None` for spans that are not such a step.
        tool: The tool that runs here, until the span ends; only for spans of tools.
        is_structured: Tool calls in here only carry structured output.
        model_step: The step of an agent that asks its model: this span or one around it; `None` outside of such a step.
            The requests of the model are recorded when that step returns.
        has_usage: In such a step, the model itself has reported its tokens.
        llm: The model that is asked here; only for spans of models.
        model: The name of that model.
        streamed_calls: The positions of the calls in the stream of that model, for Anthropic's models.
        cancelled: An event reported that the span was cancelled.
        error: The exception that ended a step of this run, or the tool of this step.
        succeeded: The run succeeded, in versions that end it by an exception.
        closed: The span has ended, and is kept because later spans may name it as their parent.
    """

    id: str
    recording: WorkflowRecording
    parent: WorkflowSpan | None
    scope: Key | None
    branch: Key | None = None
    is_run: bool = False
    workflow: Any = None
    is_step: bool = False
    call: StepCall | None = None
    tool: Any = None
    is_structured: bool = False
    model_step: WorkflowSpan | None = None
    has_usage: bool = False
    llm: Any = None
    model: str | None = None
    streamed_calls: set[int | None] = field(default_factory=set)
    cancelled: bool = False
    error: BaseException | None = None
    succeeded: bool = False
    closed: bool = False

    @property
    def is_root(self) -> bool:
        """Whether the recording ends with this span."""
        return self.is_run and self.parent is None and not self.recording.is_group

    @property
    def is_tool(self) -> bool:
        """Whether the span is the outermost one of the execution of a tool."""
        return self.scope is not None and (self.parent is None or self.parent.scope != self.scope)

    @property
    def place(self) -> Branch:
        """Where things happen that are inside this span."""
        return Branch(self.scope, self.branch)

    @property
    def outer_place(self) -> Branch:
        """Where the span itself happens."""
        return TOP if self.parent is None else self.parent.place

    @property
    def inside_llm(self) -> bool:
        """Whether another model wraps the one that is asked here, and will report the same answer."""
        span = self.parent
        while span is not None and (span.llm is None or span.is_structured_llm):
            span = span.parent
        return span is not None

    @property
    def is_structured_llm(self) -> bool:
        """Whether the model here asks another one for a structured answer, and does not report its tokens."""
        return type(self.llm).__name__ == "StructuredLLM"


class SpanTree:
    """The spans of a recorder: the open ones, and those that a later span may still name as its parent."""

    def __init__(self, listener: RecorderListener) -> None:
        """Begin without spans; the listener receives what happens in those that are added."""
        self.spans: dict[str, WorkflowSpan] = {}
        self._listener = listener

    def add(self, span: WorkflowSpan) -> None:
        """Add a span that begins."""
        self.spans[span.id] = span.recording.spans[span.id] = span
        self._listener.own(span.id)

    def _remove(self, span: WorkflowSpan) -> None:
        self._listener.disown(span.id)
        self.spans.pop(span.id, None)
        span.recording.spans.pop(span.id, None)

    def parent_of(self, parent_id: str | None, *, is_run: bool) -> WorkflowSpan | None:
        """Return the span around one that begins."""
        # Some versions name, as the parent of a run, another run that began before it in the same task. Only steps
        # start runs, so the span around that run is the parent of this one.
        span = self.spans.get(parent_id) if parent_id else None
        # A task that a tool left behind is inside this tool.
        while span is not None and ((span.closed and not span.is_tool) or (is_run and span.is_run)):
            span = span.parent
        return span

    def close(self, span: WorkflowSpan) -> None:
        """Note that a span ended, and remove the spans that are no longer needed."""
        span.closed = True
        is_tool = span.is_tool or span.tool is not None
        span.tool = span.workflow = None
        if span.is_root or not span.recording.builder.is_open:
            self.forget(span.recording, closed_only=True)
        # Until the recording ends, spans of nested runs and of tools stay, since they may be named as a parent, and
        # those of models, since a model that streams reports its answer after its span has ended.
        elif not (span.is_run or is_tool or span.llm is not None):
            self._remove(span)

    def forget(self, recording: WorkflowRecording, *, closed_only: bool = False) -> None:
        """Remove the spans of a recording."""
        for span in list(recording.spans.values()):
            if span.closed or not closed_only:
                self._remove(span)
