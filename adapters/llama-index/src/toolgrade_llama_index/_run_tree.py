"""The tree of open spans, and the recordings that they belong to."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from llama_index.core.agent.workflow.workflow_events import ToolCall as RequestedCall

from toolgrade.calls import CallStatus, ToolCall, ToolCallType
from toolgrade.capture import Branch, Outcome, Request, RunBuilder
from toolgrade.cases import Run
from toolgrade_llama_index._agent_steps import AgentSteps, Key
from toolgrade_llama_index._branches import OpenRequests, Steps, equal_values
from toolgrade_llama_index._errors import outcome_of
from toolgrade_llama_index._listening import RecorderListener


def now() -> datetime:
    """Return the current time; LlamaIndex's spans carry none."""
    return datetime.now(timezone.utc)


class WorkflowRecording:
    """One run of an agent.

    Attributes:
        builder: The builder of the run.
        steps: The agents' steps in it.
        workflow_steps: The steps of workflows in it.
        requests: What models outside of agents requested.
        is_group: It is a `single_run` block, which ends with the block and not with a span.
        answer: The last answer of a model in a group.
        has_framework_id: Its id is the one that LlamaIndex has given to the run.
        lacks_beginning: It continues an unobserved run, and no agent has answered since.
        saved: The requests of that run that its saved state shows.
        agent: The agent that made them.
        pseudo_tools: Names of tools that carried a structured answer, each with its scope.
        mcp_tools: Names of offered tools of MCP servers.
        offered: The tools that were noted, each with the scope it was offered in.
        has_waited: A call waits, or waited, for a person.
        suspended: Calls of agents that were suspended and have not begun again.
        waits_in_steps: Id and name of the calls whose steps wait for a person before they run the tool.
        waiting: The calls that wait for a person, of a run that was left with them.
        spans: Its spans in the tree.
        workflow: The workflow that runs.
        workflow_type: Its class.
    """

    def __init__(self, label: str | None, *, is_group: bool = False) -> None:
        """Begin without observations, in the conversation `label`."""
        self.builder = RunBuilder(run_id=str(uuid4()), conversation_id=label)
        self.steps = AgentSteps(self.builder, self.type_of)
        self.workflow_steps = Steps()
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
        self.waits_in_steps: set[tuple[str, str]] = set()
        self.waiting: list[ToolCall] = []
        self.spans: dict[str, WorkflowSpan] = {}
        self.workflow: weakref.ref[Any] | None = None
        self.workflow_type: type | None = None

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()

    def may_continue_as(self, workflow: object) -> bool:
        """Return whether the run was left with waiting calls, and is of the class of this workflow."""
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

    def is_pseudo_tool(self, name: str, scope: Key | None) -> bool:
        """Return whether only tools that carry a structured answer have this name."""
        return (scope, name) in self.pseudo_tools and (scope, name) not in self.offered

    def is_repeated(self, call: StepCall) -> bool:
        """Return whether a call that begins was suspended before."""
        for earlier in self.suspended:
            if (earlier.id, earlier.name) == (call.id, call.name) and equal_values(earlier.arguments, call.arguments):
                self.suspended.remove(earlier)
                return True
        return False

    def saved_request(self, call: StepCall) -> Request | None:
        """Return the request of a call that begins, from those that a saved state showed; of equal ones each in turn.

        LlamaIndex may run a resumed call twice: when it loads the state, and when the answer comes.
        """
        for request in self.saved:
            is_same = (request.id or "", request.name) == (call.id, call.name)
            if is_same and equal_values(request.arguments, call.arguments):
                self.saved.remove(request)
                self.saved.append(request)
                return request
        return None

    def calls_that_wait_in_steps(self) -> list[ToolCall]:
        """Return the calls of a run that was left while their steps waited for a person before they ran the tool."""
        pending = [call for call in self.run().calls if call.execution and call.execution.status is CallStatus.PENDING]
        return [call for call in pending if (call.id or "", call.name) in self.waits_in_steps]

    def fit(self, calls: Sequence[RequestedCall]) -> int:
        """Return how well a saved state with these calls continues it: 2 with all waiting calls, 1 with some, 0 not."""
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
    """A call that a step of an agent runs; its id may be empty, and may repeat."""

    name: str
    arguments: dict[str, Any]
    id: str
    key: str = ""
    """The execution of its tool that began last; empty before the first."""
    attempts: int = 0
    result: Any = None
    """What its tool returned, in a workflow whose step may return something else."""

    @property
    def started(self) -> bool:
        """Whether its tool has begun."""
        return bool(self.key)


@dataclass(slots=True, eq=False)
class WorkflowSpan:
    """One span.

    Attributes:
        id: The id of the span.
        recording: The run that it belongs to.
        parent: The span around it; `None` for the outermost.
        scope: The execution of a tool inside which things happen here; `None` at the top level of the run.
        branch: The nested run that it belongs to, since several may go on at once; `None` for the recorded run.
        is_run: It is a workflow's run.
        is_step: It is the execution of a step of a workflow.
        workflow: That workflow, until the span ends.
        call: The call that it runs, if it is a step of an agent that runs one.
        tool: The tool that runs here, until the span ends.
        key: The execution that ends with it, if code called the tool.
        is_structured: Calls in here carry structured output.
        in_agent_step: An agent's model is asked here, whose answer is noted as a whole.
        has_usage: The model itself reported the tokens of that answer.
        llm: The model that is asked here.
        model: The name of that model.
        streamed_calls: The places of the calls in its stream, for Anthropic's models.
        cancelled: An event reported that it was cancelled.
        error: What was raised inside.
        succeeded: The run ended well, in versions that end it by an exception.
        closed: It has ended, and is kept because later spans may name it as their parent.
    """

    id: str
    recording: WorkflowRecording
    parent: WorkflowSpan | None
    scope: Key | None
    branch: Key | None = None
    is_run: bool = False
    is_step: bool = False
    workflow: Any = None
    call: StepCall | None = None
    tool: Any = None
    key: Key | None = None
    is_structured: bool = False
    in_agent_step: bool = False
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
        """Whether the recording ends with it."""
        return self.is_run and self.parent is None and not self.recording.is_group

    @property
    def is_tool(self) -> bool:
        """Whether it is the outermost span of the execution of a tool."""
        return self.scope is not None and (self.parent is None or self.parent.scope != self.scope)

    @property
    def place(self) -> Branch:
        """Where things happen here."""
        return Branch(self.scope, self.branch)

    @property
    def agent_step(self) -> WorkflowSpan | None:
        """The outermost span of the agent's step around it; `None` outside of any."""
        span: WorkflowSpan | None = self
        while span is not None and not (span.in_agent_step and (span.parent is None or not span.parent.in_agent_step)):
            span = span.parent
        return span

    @property
    def inside_llm(self) -> bool:
        """Whether another model wraps this one, and will report the same answer."""
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
