"""The tree of open spans, and the recordings that they belong to."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from toolmark.capture import RunBuilder
from toolmark.cases import Run
from toolmark_llama_index._agent_steps import AgentSteps, Key, Place


def now() -> datetime:
    """Return the current time; LlamaIndex's spans carry none."""
    return datetime.now(timezone.utc)


class Recording:
    """One run of an agent.

    Attributes:
        builder: The builder of the run.
        steps: The agents' steps in it.
        is_group: It is a `single_run` block, which ends with the block and not with a span.
        answer: The last answer of a model in a group.
        has_framework_id: Its id is the one that LlamaIndex has given to the run.
        lacks_beginning: It continues an unobserved run, and no agent has answered since.
        offered: The tools that were noted, each with the scope it was offered in.
        waiting: Ids and names of the calls that wait for a person.
        workflow: The workflow that runs.
        workflow_type: Its class.
    """

    def __init__(self, label: str | None, *, is_group: bool = False) -> None:
        """Begin without observations, in the conversation `label`."""
        self.builder = RunBuilder(run_id=str(uuid4()), conversation_id=label)
        self.steps = AgentSteps(self.builder)
        self.is_group = is_group
        self.answer: str | None = None
        self.has_framework_id = False
        self.lacks_beginning = False
        self.offered: set[tuple[Key | None, str]] = set()
        self.waiting: set[tuple[str, str]] = set()
        self.workflow: weakref.ref[Any] | None = None
        self.workflow_type: type | None = None

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()


@dataclass(slots=True, eq=False)
class Call:
    """A call that a step of an agent runs; its id may be empty, and may repeat."""

    name: str
    arguments: dict[str, Any]
    id: str
    started: bool = False


@dataclass(slots=True, eq=False)
class Span:
    """One span.

    Attributes:
        id: The id of the span.
        recording: The run that it belongs to.
        parent: The span around it; `None` for the outermost.
        scope: The execution of a tool inside which things happen here; `None` at the top level of the run.
        strand: The nested run that it belongs to, since several may go on at once; `None` for the recorded run.
        is_run: It is a workflow's run.
        workflow: That workflow, until the span ends.
        call: The call that it runs, if it is a step of an agent that runs one.
        tool: The tool that runs here, until the span ends.
        key: The execution that ends with it, if code called the tool.
        is_structured: Calls in here carry structured output.
        in_agent_step: An agent's model is asked here, whose answer is noted as a whole.
        has_usage: The model itself reported the tokens of that answer.
        llm: The model that is asked here.
        model: The name of that model.
        cancelled: An event reported that it was cancelled.
        error: What was raised inside.
        succeeded: The run ended well, in versions that end it by an exception.
        closed: It has ended, and is kept because later spans may name it as their parent.
    """

    id: str
    recording: Recording
    parent: Span | None
    scope: Key | None
    strand: Key | None = None
    is_run: bool = False
    workflow: Any = None
    call: Call | None = None
    tool: Any = None
    key: Key | None = None
    is_structured: bool = False
    in_agent_step: bool = False
    has_usage: bool = False
    llm: Any = None
    model: str | None = None
    cancelled: bool = False
    error: BaseException | None = None
    succeeded: bool = False
    closed: bool = False

    @property
    def is_root(self) -> bool:
        """Whether the recording ends with it."""
        return self.is_run and self.parent is None and not self.recording.is_group

    @property
    def place(self) -> Place:
        """Where things happen here."""
        return self.scope, self.strand

    @property
    def agent_step(self) -> Span | None:
        """The outermost span of the agent's step around it; `None` outside of any."""
        span: Span | None = self
        while span is not None and not (span.in_agent_step and (span.parent is None or not span.parent.in_agent_step)):
            span = span.parent
        return span

    @property
    def inside_llm(self) -> bool:
        """Whether another model wraps this one, and will report the same answer."""
        span = self.parent
        while span is not None and span.llm is None:
            span = span.parent
        return span is not None


class RunTree:
    """The spans of a recorder: the open ones, and those that a later span may still name as its parent."""

    def __init__(self) -> None:
        """Begin without spans."""
        self.spans: dict[str, Span] = {}

    def parent_of(self, parent_id: str | None, *, is_run: bool) -> Span | None:
        """Return the span around one that begins."""
        # Some versions name, as the parent of a run, another run that began before it in the same task. Only steps
        # start runs, so the span around that run is the parent of this one.
        span = self.spans.get(parent_id) if parent_id else None
        while span is not None and (span.closed or (is_run and span.is_run)):
            span = span.parent
        return span

    def close(self, span: Span) -> None:
        """Note that a span ended, and remove the spans that are no longer needed."""
        span.closed = True
        span.tool = span.workflow = None
        if span.is_root or not span.recording.builder.is_open:
            self.forget(span.recording, closed_only=True)
        # Until the recording ends, spans of nested runs stay, since they may be named as a parent, and those of models,
        # since a model that streams reports its answer after its span has ended.
        elif not (span.is_run or span.llm is not None):
            self.spans.pop(span.id, None)

    def forget(self, recording: Recording, *, closed_only: bool = False) -> None:
        """Remove the spans of a recording."""
        for span in [span for span in self.spans.values() if span.recording is recording]:
            if span.closed or not closed_only:
                del self.spans[span.id]
