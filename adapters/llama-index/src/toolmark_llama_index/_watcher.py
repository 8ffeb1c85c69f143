"""What does each span say about the run it belongs to? Spans in, observations for `RunBuilder` out.

Spans are recognised by the values that they carry, since their names differ between versions: a step that takes a
`ToolCall` runs a call, one that takes an `AgentSetup` asks an agent's model, and a span whose instance is a `BaseTool`
runs a tool. Outside agents, in workflows written by hand, a model's answer is the request.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from llama_index.core.agent.workflow import BaseWorkflowAgent, FunctionAgent
from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentSetup,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from llama_index.core.types import BasePydanticProgram
from llama_index.core.workflow import Context, StartEvent, Workflow

from toolmark.capture import Outcome, Request, RunStatus
from toolmark_llama_index import _requests
from toolmark_llama_index._assembler import TOP, is_stopped, is_unknown
from toolmark_llama_index._results import error_text, result_of
from toolmark_llama_index._spans import Call, Recording, Span, Spans
from toolmark_llama_index._tools import arguments_of, is_same, kind_of, named_arguments, specs_of
from toolmark_llama_index._track import Tracked

_TOOL_METHODS: Final = frozenset({"__call__", "call", "acall"})
_CHAT_METHODS: Final = frozenset(
    {"chat", "achat", "stream_chat", "astream_chat", "complete", "acomplete", "stream_complete", "astream_complete"}
)
_UNSAID: Final = "the run ended without a result: a time limit, or somebody's cancellation"
_BLIND: Final = "this run goes on with an earlier one that this recorder does not have"


def now() -> datetime:
    """Return the time; spans carry none."""
    return datetime.now(timezone.utc)


def method_of(span_id: str) -> str:
    """Return the method that a span's id names: `FunctionAgent.run` and a random part make up the id."""
    return span_id[:-37].rpartition(".")[2]


class Watcher:
    """Turns spans into observations. Called under the recorder's lock; its errors are the recorder's to catch."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.spans = Spans()
        self._finished: list[Recording] = []

    def take_finished(self) -> list[Recording]:
        """Return the recordings that ended since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    # Spans

    def entered(
        self, span: Span, bound: inspect.BoundArguments, instance: object, tags: Mapping[str, Any] | None
    ) -> None:
        """A span began."""
        values = list(bound.arguments.values())
        method = method_of(span.id)
        if span.parent is not None and span.parent.is_run:
            self._name(span, tags)
        if isinstance(instance, (BaseTool, Tracked)) and method in _TOOL_METHODS:
            self._tool_entered(span, bound, instance)
            return
        if isinstance(instance, BasePydanticProgram):
            span.hidden = True
            return
        if isinstance(instance, BaseLLM):
            self._llm_entered(span, bound, instance, method)
            return
        if method.endswith("send_event"):
            return
        for value in values:
            if isinstance(value, ToolCall):
                span.call = Call(value.tool_name, value.tool_kwargs, value.tool_id)
            elif isinstance(value, (AgentInput, AgentSetup)):
                span.recording.assembler.in_control(value.current_agent_name, span.place)
                if isinstance(value, AgentSetup):
                    span.agent_step = True
                    self._offer_to(span, value.current_agent_name)

    def exited(self, span: Span, result: object) -> None:
        """A span ended, returning this."""
        if span.call is not None:
            self._call_ended(span, result)
        elif span.tool is not None:
            self._tool_ended(span, result)
        elif isinstance(result, AgentOutput) and span.agent_span is span:
            if not span.usage_seen:
                span.recording.builder.model_used(_requests.model_of(result), _requests.usage_of(result))
            span.recording.blind = False
            span.recording.assembler.answered(result, span.place)
        elif span.is_root:
            self._run_ended(span, result)

    def dropped(self, span: Span, error: BaseException | None) -> None:
        """A span ended by an exception."""
        failure = error or RuntimeError("the span was given up")
        if span.parent is not None:
            if type(failure).__name__ == "WorkflowDone":  # how old versions end a run that went well
                span.parent.done = True
                return
            if span.parent.is_run or (span.tool is not None and span.parent.call is not None):
                span.parent.error = failure
        if span.call is not None:
            if span.call.started:
                self._give_up(span, failure)
        elif span.tool is not None and span.key is not None:
            span.recording.builder.tool_failed(span.key, error_text(failure), outcome=_outcome_of(failure), at=now())
        elif span.is_root:
            status = RunStatus.STOPPED if is_stopped(failure) else RunStatus.ERROR
            self._end(span.recording, None, status, error_text(failure))

    def cancelled(self, span: Span) -> None:
        """A span was said to be cancelled; it will end as if it had returned nothing."""
        span.cancelled = True

    # Runs

    def describe(self, recording: Recording, bound: inspect.BoundArguments, workflow: Workflow) -> None:
        """Note what is known of a run when it begins."""
        recording.workflow, recording.kind = weakref.ref(workflow), type(workflow)
        if is_resumption(bound):
            recording.blind = True
            recording.builder.warn(_BLIND)
        recording.builder.started(_requests.question_of(start_of(bound)), at=now())

    def _name(self, span: Span, tags: Mapping[str, Any] | None) -> None:
        """Take over the id that the framework has given to the run, where it tells one."""
        recording = span.recording
        found = (tags or {}).get("llamaindex.run_id")
        if span.parent is not None and span.parent.is_root and not recording.named and isinstance(found, str):
            recording.named, recording.builder.run_id = True, found

    def _run_ended(self, span: Span, result: object) -> None:
        recording = span.recording
        if result is None and not span.done:
            self._end(recording, None, *_unsaid_end(span))
            return
        structured = _requests.structured_of(result)
        if structured is not None:
            recording.builder.labelled(metadata={"structured_response": structured})
        self._end(recording, _requests.answer_of(result), RunStatus.OK, None)

    def _end(self, recording: Recording, answer: str | None, status: RunStatus, error: str | None) -> None:
        """End a recording; one that was cancelled while calls waited for a person waits with them."""
        recording.assembler.finish()
        waits = status is RunStatus.STOPPED and bool(recording.waiting)
        if waits:
            status, error = RunStatus.OK, None
        recording.builder.ended(answer, status=status, error=error, may_wait=waits, at=now())
        self._finished.append(recording)

    def end_group(self, recording: Recording, error: BaseException | None) -> None:
        """End a loop written by hand."""
        if error is None:
            self._end(recording, recording.answer, RunStatus.OK, None)
        else:
            status = RunStatus.STOPPED if is_stopped(error) else RunStatus.ERROR
            self._end(recording, None, status, error_text(error))

    def close_failed(self, recording: Recording) -> None:
        """End a recording whose end could not be noted."""
        self._end(recording, None, RunStatus.ERROR, None)

    def abandon(self, recording: Recording, warning: str) -> None:
        """End a recording that nobody will tell the end of."""
        recording.builder.warn(warning)
        self._end(recording, None, RunStatus.STOPPED, "not finished when the recorder was closed")

    # Models

    def _offer_to(self, span: Span, name: str) -> None:
        """Note the tools of an agent that describes them in a prompt; those of others are told by their models."""
        workflow = None if span.parent is None else span.parent.workflow
        members = getattr(workflow, "agents", None)
        agent = members.get(name) if isinstance(members, Mapping) else workflow
        if not isinstance(agent, BaseWorkflowAgent) or isinstance(agent, FunctionAgent):
            return
        self._offer(span, agent.tools or (), all_known=agent.tool_retriever is None)

    def _offer(self, span: Span, tools: Any, *, all_known: bool = True) -> None:
        recording = span.recording
        new = [
            tool
            for tool in tools
            if isinstance(tool, BaseTool) and (span.scope, tool.metadata.name or "") not in recording.offered
        ]
        if new:
            recording.offered.update((span.scope, tool.metadata.name or "") for tool in new)
            recording.builder.offered(specs_of(new), scope=span.scope, all_known=all_known)

    def _llm_entered(self, span: Span, bound: inspect.BoundArguments, llm: BaseLLM, method: str) -> None:
        if "structured_predict" in method:
            span.hidden = True
        elif method == "_prepare_chat_with_tools" and not span.hidden:
            tools = bound.arguments.get("tools")
            self._offer(span, tools if isinstance(tools, (list, tuple)) else ())
        elif method in _CHAT_METHODS:
            span.llm = llm

    def model_named(self, span: Span, details: Mapping[str, Any]) -> None:
        """A model is asked."""
        name = details.get("model") or details.get("model_name")
        span.model = name if isinstance(name, str) else None

    def model_answered(self, span: Span, response: object) -> None:
        """A model has answered; one that wraps another tells the same again, and only it counts."""
        if span.inside_llm or type(span.llm).__name__ == "StructuredLLM":
            return
        usage = _requests.usage_of(response)
        span.recording.builder.model_used(span.model or _requests.model_of(response), usage)
        step = span.agent_span
        if step is not None:
            step.usage_seen = step.usage_seen or bool(usage)
        if span.agent_step or span.hidden or not isinstance(response, ChatResponse):
            return
        requests = self._proposed(span, response)
        if requests:
            span.recording.builder.model_asked(requests, scope=span.scope, strand=span.strand)
        if span.scope is None:
            span.recording.answer = None if requests else _requests.text_of(response)

    def _proposed(self, span: Span, response: ChatResponse) -> list[Request]:
        read = getattr(span.llm, "get_tool_calls_from_response", None)
        if read is None:
            return []
        return _requests.proposals_of(response, read(response, error_on_no_tool_call=False))

    # Tools

    def _tool_entered(self, span: Span, bound: inspect.BoundArguments, tool: BaseTool | Tracked) -> None:
        span.tool = tool
        outer = span.parent
        if span.hidden:
            return
        if outer is not None and outer.call is not None and not outer.call.started:
            self._start(outer, tool)
            span.scope = outer.scope
            return
        if outer is not None and _is_delegation(tool, outer.tool):
            return
        if isinstance(tool, Tracked):
            name, arguments = tool.name, named_arguments(bound, tool.names)
        else:
            name, arguments = tool.metadata.name or "", arguments_of(tool, bound)
        span.recording.builder.tool_started(
            span.id, name, arguments, scope=span.scope, strand=span.strand, type=kind_of(tool), at=now()
        )
        span.key = span.scope = span.id

    def _start(self, span: Span, tool: object) -> None:
        """The tool of a call begins to run; what happens from here on happens inside it."""
        call, recording = span.call, span.recording
        if call is None:
            return
        call.started = True
        again = (call.id, call.name) in recording.waiting
        recording.waiting.discard((call.id, call.name))
        scope, strand, call_id = span.scope, span.strand, call.id or None
        if recording.blind and not again:
            recording.builder.model_asked([Request(call.name, call.arguments, call_id)], scope=scope, strand=strand)
        span.scope = span.id
        recording.builder.tool_started(
            span.id,
            call.name,
            call.arguments,
            call_id=call_id,
            scope=scope,
            strand=strand,
            type=kind_of(tool),
            at=now(),
        )

    def _call_ended(self, span: Span, result: object) -> None:
        call, assembler = span.call, span.recording.assembler
        if call is None:
            return
        outer = TOP if span.parent is None else span.parent.place
        if isinstance(result, ToolCallResult):
            if not call.started and is_unknown(result):
                assembler.refused(result, outer)
                return
            if not call.started:
                self._start(span, None)
            assembler.returned(span.id, result, outer, now(), span.error)
            return
        if call.started:
            failure = span.error
            if span.cancelled and not isinstance(failure, Exception):
                span.recording.builder.tool_failed(span.id, None, outcome=Outcome.CANCELLED, at=now())
            else:
                self._suspend(span, call)

    def _give_up(self, span: Span, failure: BaseException) -> None:
        outcome = _outcome_of(failure)
        if outcome is Outcome.SUSPENDED and span.call is not None:
            self._suspend(span, span.call)
            return
        text = None if outcome is Outcome.CANCELLED else error_text(failure)
        span.recording.builder.tool_failed(span.id, text, outcome=outcome, at=now())

    def _suspend(self, span: Span, call: Call) -> None:
        """A call waits for a person; the framework will run it again from its beginning."""
        span.recording.waiting.add((call.id, call.name))
        span.recording.builder.tool_failed(span.id, None, outcome=Outcome.SUSPENDED, at=now())

    def _tool_ended(self, span: Span, result: object) -> None:
        if span.key is None:
            return
        builder = span.recording.builder
        if isinstance(result, ToolOutput):
            told = result_of(result)
            builder.tool_ended(
                span.key, told.output, model_output=told.shown, error=told.error, artifact=told.artifact, at=now()
            )
        else:
            builder.tool_ended(span.key, result, at=now())


def _unsaid_end(run: Span) -> tuple[RunStatus, str]:
    """Return how a run ended that returned nothing: it was cancelled, or, in old versions, it failed in any way."""
    error = run.error
    if run.cancelled:
        return RunStatus.STOPPED, "cancelled"
    if error is None or _outcome_of(error) is not Outcome.ERROR:
        return RunStatus.STOPPED, _UNSAID
    return RunStatus.STOPPED if is_stopped(error) else RunStatus.ERROR, error_text(error)


def start_of(bound: inspect.BoundArguments) -> object:
    """Return what a run begins with: its start event, or the fields that old versions make one of."""
    start = next((value for value in bound.arguments.values() if isinstance(value, StartEvent)), None)
    return bound.arguments.get("kwargs") if start is None else start


def is_resumption(bound: inspect.BoundArguments) -> bool:
    """Return whether a run goes on with the saved state of an earlier one: it begins with no event of its own."""
    if "init_state" in bound.arguments:
        return start_of(bound) is None
    contexts = [value for value in bound.arguments.values() if isinstance(value, Context)]
    return any(context.is_running for context in contexts)  # versions in which a run is a method with a context


def _is_delegation(tool: object, outer: object) -> bool:
    """Return whether a tool in a tool is no call of its own: a method of the same one, or the function it wraps."""
    if isinstance(tool, Tracked):
        return isinstance(outer, FunctionTool) and getattr(outer.real_fn, "__wrapped__", None) is tool.function
    return is_same(tool, outer)


def _outcome_of(error: BaseException) -> Outcome:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "WaitingForEvent" in names:
        return Outcome.SUSPENDED
    return Outcome.CANCELLED if "CancelledError" in names else Outcome.ERROR
