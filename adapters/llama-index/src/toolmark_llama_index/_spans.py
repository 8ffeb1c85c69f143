"""Which run does a span belong to, and where in it? The tree of open spans, and the recordings that they add up to."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from toolmark.capture import Run, RunBuilder
from toolmark_llama_index._assembler import Assembler, Key, Place


class Recording:
    """One recorded run."""

    def __init__(self, label: str | None, *, grouped: bool = False) -> None:
        """Begin with nothing seen.

        Args:
            label: The conversation that it belongs to.
            grouped: It is a loop written by hand, which ends with its block and not with a span.
        """
        self.builder = RunBuilder(run_id=str(uuid4()), conversation_id=label)
        self.assembler = Assembler(self.builder)
        self.grouped = grouped
        self.answer: str | None = None
        self.named = False
        self.blind = False
        self.offered: set[tuple[Key | None, str]] = set()
        self.waiting: set[tuple[str, str]] = set()
        self.workflow: weakref.ref[Any] | None = None
        self.kind: type | None = None

    def run(self) -> Run:
        """Return the run as far as it was seen."""
        return self.builder.build()


@dataclass(slots=True, eq=False)
class Call:
    """A call that an agent's step runs.

    Attributes:
        name: The tool it names.
        arguments: Its arguments.
        id: Its id; may be empty, and may repeat.
        started: The tool was seen to begin.
    """

    name: str
    arguments: dict[str, Any]
    id: str
    started: bool = False


@dataclass(slots=True, eq=False)
class Span:
    """One span.

    Attributes:
        id: Its id.
        recording: The run it belongs to.
        parent: The span round it; `None` for the outermost.
        scope: The execution of a tool inside which things happen here; `None` at the top level of the run.
        strand: The nested run to which it belongs, since several may go on at once; `None` for the recorded run itself.
        is_run: It is a workflow's run.
        workflow: That workflow, until it ends.
        call: The call that it runs, for a step of an agent that does.
        tool: The tool that runs here, until it ends.
        key: The execution that ends with it, for a tool that was called by code.
        hidden: Nothing in here is a call: a model is asked for structured output, in the form of a call.
        agent_step: An agent's model is asked here; its answer is told as a whole.
        usage_seen: The tokens of that answer were told by the model itself.
        llm: The model that is asked here.
        model: Its name.
        cancelled: It was said to be cancelled.
        error: What was raised inside.
        done: A run was said to have gone well, in versions that do not tell its failures.
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
    hidden: bool = False
    agent_step: bool = False
    usage_seen: bool = False
    llm: Any = None
    model: str | None = None
    cancelled: bool = False
    error: BaseException | None = None
    done: bool = False
    closed: bool = False

    @property
    def is_root(self) -> bool:
        """Whether the recording ends with it."""
        return self.is_run and self.parent is None and not self.recording.grouped

    @property
    def place(self) -> Place:
        """Where things happen here."""
        return self.scope, self.strand

    @property
    def agent_span(self) -> Span | None:
        """The step of an agent in which it lies, if it lies in one."""
        span: Span | None = self
        while span is not None and not (span.agent_step and (span.parent is None or not span.parent.agent_step)):
            span = span.parent
        return span

    @property
    def inside_llm(self) -> bool:
        """Whether it lies in a span of another model, which wraps this one and will tell the same."""
        span = self.parent
        while span is not None and span.llm is None:
            span = span.parent
        return span is not None


@dataclass
class Spans:
    """The spans of a recorder: those that are open, and those that a later span may still name."""

    known: dict[str, Span] = field(default_factory=dict)

    def parent_of(self, parent_id: str | None, *, is_run: bool) -> Span | None:
        """Return the span round one that begins.

        Some versions name, as the parent of a run, another run that was begun before it in the same task. A run does
        not run runs, its steps do; so what is round that run is round this one.
        """
        span = self.known.get(parent_id) if parent_id else None
        while span is not None and (span.closed or (is_run and span.is_run)):
            span = span.parent
        return span

    def add(self, span: Span) -> None:
        """Note that a span began."""
        self.known[span.id] = span

    def close(self, span: Span) -> None:
        """Note that a span ended; with a recording all of its spans go that have ended.

        Until then those of nested runs and of models stay: the former may be named as a parent, and a model that
        streams goes on telling after its span has ended.
        """
        span.closed = True
        span.tool = span.workflow = None
        if span.is_root or not span.recording.builder.is_open:
            self.forget(span.recording, ended_only=True)
        elif not (span.is_run or span.llm is not None):
            self.known.pop(span.id, None)

    def forget(self, recording: Recording, *, ended_only: bool = False) -> None:
        """Forget the spans of a recording."""
        for span in [span for span in self.known.values() if span.recording is recording]:
            if span.closed or not ended_only:
                del self.known[span.id]
