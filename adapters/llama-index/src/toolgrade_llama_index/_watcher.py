"""Observations of runs: spans and events of models in, calls of `RunBuilder` out.

Spans are recognized by the values that they carry, since their names differ between versions. A step that receives a
`ToolCall` runs a call, one that receives an `AgentSetup` asks an agent's model, and a span of a `BaseTool` runs a tool.
Outside of agents, in workflows of the user's own, the answer of a model holds the requests.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent, FunctionAgent
from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentSetup,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from llama_index.core.types import BasePydanticProgram
from llama_index.core.workflow import Context, Event, StartEvent, Workflow

from toolgrade.calls import CallStatus, ToolCallType, ToolSpec
from toolgrade.calls import ToolCall as RecordedCall
from toolgrade.capture import LACKS_BEGINNING, Branch, Outcome, Request
from toolgrade.capture.doubles import answer_to
from toolgrade.cases import Run, RunStatus
from toolgrade_llama_index import _messages
from toolgrade_llama_index._agent_steps import HANDOFF, TOP
from toolgrade_llama_index._branches import OpenRequests, Steps, current_branch
from toolgrade_llama_index._errors import error_text, outcome_of, status_of
from toolgrade_llama_index._hosted import UNREAD_STREAM, built_in_tools, streamed_index, with_hosted
from toolgrade_llama_index._listening import RecorderListener, passed_context
from toolgrade_llama_index._replay import recorded_call
from toolgrade_llama_index._results import is_unknown_tool, result_of
from toolgrade_llama_index._run_tree import SpanTree, StepCall, WorkflowRecording, WorkflowSpan, now
from toolgrade_llama_index._tools import call_of, call_type_of, is_pseudo_tool, specs_of
from toolgrade_llama_index._track import Tracked

_TOOL_METHODS: Final = frozenset({"__call__", "call", "acall"})
_CHAT_METHODS: Final = frozenset(
    {"chat", "achat", "stream_chat", "astream_chat", "complete", "acomplete", "stream_complete", "astream_complete"}
)
_NO_RESULT: Final = "the run ended without a result: by a time limit or a cancellation"
_UNREAD_IMAGE: Final = "an image of the input is an open file, which belongs to the program; it was left out"


def method_of(span_id: str) -> str:
    """Return the method in a span's id, which is made up of `FunctionAgent.run`, a hyphen and a UUID."""
    return span_id[:-37].rpartition(".")[2]


class SpanWatcher:
    """Observes the spans of a tree. Used under the recorder's lock, which also handles errors here."""

    def __init__(self, listener: RecorderListener) -> None:
        """Begin without observations."""
        self.tree = SpanTree(listener)
        self._finished: list[WorkflowRecording] = []

    def take_finished(self) -> list[WorkflowRecording]:
        """Return the recordings that ended since the last time."""
        finished, self._finished = self._finished, []
        return finished

    # Spans

    def entered(
        self, span: WorkflowSpan, bound: inspect.BoundArguments, instance: object, tags: Mapping[str, Any] | None
    ) -> None:
        """Note that a span began."""
        method, recording = method_of(span.id), span.recording
        self._name_run(span, tags)
        if isinstance(instance, (BaseTool, Tracked)) and method in _TOOL_METHODS:
            self._tool_entered(span, bound, instance)
        elif isinstance(instance, BasePydanticProgram):
            span.is_structured = True
        elif isinstance(instance, BaseLLM):
            self._llm_entered(span, bound, instance, method)
        elif method.endswith("send_event"):  # which has the same values, but does not handle them
            for value in bound.arguments.values():
                if isinstance(value, Event):
                    recording.workflow_steps.returned(value)
        else:
            self._step_entered(span, bound, method)

    def _name_run(self, span: WorkflowSpan, tags: Mapping[str, Any] | None) -> None:
        """Take over the id that LlamaIndex has given to the run."""
        run_id, recording = (tags or {}).get("llamaindex.run_id"), span.recording
        is_step_of_root = span.parent is not None and span.parent.is_root
        if is_step_of_root and not recording.has_framework_id and isinstance(run_id, str):
            recording.has_framework_id, recording.builder.run_id = True, run_id

    def _step_entered(self, span: WorkflowSpan, bound: inspect.BoundArguments, method: str) -> None:
        event = next((value for value in bound.arguments.values() if isinstance(value, Event)), None)
        if event is not None and span.parent is not None and span.parent.is_run:
            span.is_step = True
            span.recording.workflow_steps.entered(method, event)
        for value in bound.arguments.values():
            if isinstance(value, ToolCall):
                span.call = StepCall(value.tool_name, value.tool_kwargs, value.tool_id)
            elif isinstance(value, (AgentInput, AgentSetup)):
                span.recording.steps.step_began(value.current_agent_name, span.place)
                if isinstance(value, AgentSetup):
                    span.in_agent_step = True
                    self._offer_tools_of(span, value.current_agent_name)

    def exited(self, span: WorkflowSpan, result: object) -> None:
        """Note that a span returned."""
        if span.is_step and isinstance(result, Event):
            span.recording.workflow_steps.returned(result)
        self._note_double(span)
        if span.call is not None:
            self._call_ended(span, span.call, result)
        elif span.tool is not None:
            self._tool_ended(span, result)
        elif isinstance(result, AgentOutput) and span.agent_step is span:
            if not span.has_usage:
                span.recording.builder.model_used(_messages.model_of(result), _messages.usage_of(result))
            span.recording.lacks_beginning = False
            agent = _agent_of(span, result.current_agent_name)
            span.recording.steps.model_answered(result, span.place, can_hand_over=_can_hand_over(span, agent))
        elif span.is_root:
            self._run_ended(span, result)

    def dropped(self, span: WorkflowSpan, error: BaseException | None) -> None:
        """Note that a span raised."""
        error = error or RuntimeError("the span was given up")
        self._note_double(span)
        if span.parent is not None:
            if type(error).__name__ == "WorkflowDone":  # with which old versions end a run that succeeded
                span.parent.succeeded = True
                return
            if span.parent.is_run or (span.tool is not None and span.parent.call is not None):
                span.parent.error = error
        if span.call is not None:
            self._call_raised(span, span.call, error)
        elif span.tool is not None and span.key is not None:
            self._execution_failed(span, span.key, error, outcome_of(error))
        elif span.is_root:
            may_wait = outcome_of(error) is Outcome.CANCELLED
            self.end(span.recording, None, status_of(error), error_text(error), may_wait=may_wait)

    # Runs

    def describe(self, recording: WorkflowRecording, bound: inspect.BoundArguments, workflow: Workflow) -> None:
        """Note the beginning of a run."""
        recording.workflow, recording.workflow_type = weakref.ref(workflow), type(workflow)
        start, builder = _start_of(bound), recording.builder
        context, saved = passed_context()
        if is_resumption(bound):
            start = {"user_msg": saved.get("user_msg_str"), "memory": saved.get("memory")}
            self._continue(recording, bound, workflow, saved)
        if builder.conversation_id is None:
            builder.conversation_id = _messages.conversation_of(start, context)
        message = _messages.message_of(start)
        if _messages.has_unread_image(message):
            builder.warn(_UNREAD_IMAGE)
        parts = _messages.images_in(message)
        builder.started(_messages.question_of(start), parts=parts, at=now())

    def _continue(
        self, recording: WorkflowRecording, bound: inspect.BoundArguments, workflow: Workflow, saved: Mapping[str, Any]
    ) -> None:
        """Note the calls with which a run goes on whose beginning was not observed; one message asked for them."""
        recording.lacks_beginning = True
        recording.builder.warn(LACKS_BEGINNING)
        name = workflow.name if isinstance(workflow, BaseWorkflowAgent) else None
        recording.agent = saved.get("current_agent_name") or name
        order = [call[:2] for message in saved.get("scratchpad") or () for call in _messages.written_calls(message)]
        calls = calls_of_state(bound)
        order += [(call.tool_name, call.tool_id) for call in calls]
        calls.sort(key=lambda call: order.index((call.tool_name, call.tool_id)))
        recording.saved = [
            Request(call.tool_name, call.tool_kwargs, call.tool_id or None, recording.type_of(call.tool_name))
            for call in calls
        ]
        if calls:
            recording.builder.model_asked(recording.saved, agent=recording.agent)

    def _run_ended(self, span: WorkflowSpan, result: object) -> None:
        recording, error = span.recording, span.error
        if result is not None or span.succeeded:
            structured = _messages.structured_of(result)
            if structured is not None:
                recording.builder.labelled(metadata={"structured_response": structured})
            self.end(recording, _messages.answer_of(result))
        elif span.cancelled:
            self.end(recording, None, RunStatus.STOPPED, "cancelled")
        elif error is None or outcome_of(error) is not Outcome.ERROR:
            self.end(recording, None, RunStatus.STOPPED, _NO_RESULT)
        else:  # old versions return nothing from a run that failed
            self.end(recording, None, status_of(error), error_text(error), may_wait=False)

    def end(
        self,
        recording: WorkflowRecording,
        answer: str | None,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        *,
        may_wait: bool = True,
    ) -> None:
        """End a recording.

        A run that is cancelled while calls wait for a person waits with them: to be resumed, it has to be left.
        """
        recording.steps.finish()
        recording.workflow_steps = Steps()
        recording.builder.ended(answer, status=status, error=error, at=now())
        if status is RunStatus.STOPPED and may_wait and recording.has_waited:
            recording.waiting = waiting_calls(recording.run())
            recording.builder.ended(None, may_wait=True, at=now())
            recording.waiting += recording.calls_that_wait_in_steps()
            if not recording.waiting:
                recording.builder.ended(answer, status=status, error=error, at=now())
        if not recording.waiting:
            recording.requests = OpenRequests(recording.builder.warn)
        self._finished.append(recording)

    # Models

    def _offer_tools_of(self, span: WorkflowSpan, name: str) -> None:
        """Note the tools of an agent that describes them in its prompt; other agents pass them to their model."""
        agent = _agent_of(span, name)
        if isinstance(agent, BaseWorkflowAgent) and not isinstance(agent, FunctionAgent):
            self._offer(span, agent.tools or (), all_known=agent.tool_retriever is None)

    def _offer(self, span: WorkflowSpan, tools: Iterable[object], *, all_known: bool = True) -> None:
        recording, scope = span.recording, span.scope
        new: list[BaseTool] = []
        for tool in tools:
            if not isinstance(tool, BaseTool):
                continue
            name = scope, tool.metadata.name or ""
            if is_pseudo_tool(tool):
                recording.pseudo_tools.add(name)
            elif name not in recording.offered:
                new.append(tool)
        recording.offered.update((scope, tool.metadata.name or "") for tool in new)
        specs = specs_of(new)
        recording.mcp_tools.update(spec.name for spec in specs if spec.type is ToolCallType.MCP)
        if specs:
            recording.builder.offered(specs, scope=scope, all_known=all_known)

    def _llm_entered(self, span: WorkflowSpan, bound: inspect.BoundArguments, llm: BaseLLM, method: str) -> None:
        if "structured_predict" in method:
            span.is_structured = True
        elif method == "_prepare_chat_with_tools" and not span.is_structured:
            tools = bound.arguments.get("tools")
            self._offer(span, tools if isinstance(tools, (list, tuple)) else ())
            span.recording.builder.offered(built_in_tools(llm), scope=span.scope)
        elif method in _CHAT_METHODS:
            span.llm = llm

    def model_asked(self, span: WorkflowSpan, details: Mapping[str, Any], messages: Iterable[ChatMessage]) -> None:
        """Note the name of the model in a request, and the system prompt."""
        name = details.get("model") or details.get("model_name")
        span.model = name if isinstance(name, str) else None
        for message in messages:
            if message.role in ("system", "developer"):
                span.recording.builder.instructed(message.content, scope=span.scope)

    def model_streamed(self, span: WorkflowSpan, response: ChatResponse) -> None:
        """Note a piece of the answer of a model."""
        span.streamed_calls.add(streamed_index(response.raw))

    def model_answered(self, span: WorkflowSpan, response: object) -> None:
        """Note the answer of a model."""
        # A model that wraps another one reports the same answer again.
        if span.inside_llm or span.is_structured_llm:
            return
        recording, usage = span.recording, _messages.usage_of(response)
        recording.builder.model_used(span.model or _messages.model_of(response), usage)
        step = span.agent_step
        if step is not None:
            step.has_usage = step.has_usage or bool(usage)
        if isinstance(response, ChatResponse):
            if len(span.streamed_calls - {None}) > len(_messages.written_calls(response.message)):
                recording.builder.warn(UNREAD_STREAM)
            if not (span.in_agent_step or span.is_structured):
                self._requested(span, response)

    def _requested(self, span: WorkflowSpan, response: ChatResponse) -> None:
        """Note the requests in the answer of a model outside of agents."""
        recording = span.recording
        read = getattr(span.llm, "get_tool_calls_from_response", None)
        selections = [] if read is None else read(response, error_on_no_tool_call=False)
        requests = _messages.requests_of(selections, response.message)
        requests = with_hosted(requests, response, recording.builder.warn)
        requests = [request for request in requests if not recording.is_pseudo_tool(request.name, span.scope)]
        for request in requests:
            request.type = request.type or recording.type_of(request.name)
        to_run = [request for request in requests if not request.ran]
        if requests:
            recording.requests.add(to_run, span.scope)
            recording.builder.model_asked(requests, scope=Branch(span.scope, current_branch().key))
        if span.scope is None:
            recording.answer = None if to_run else _messages.text_of(response)

    # Tools

    def _tool_entered(self, span: WorkflowSpan, bound: inspect.BoundArguments, tool: BaseTool | Tracked) -> None:
        span.tool = tool
        outer = span.parent
        if span.is_structured or is_pseudo_tool(tool):
            span.is_structured = True
            return
        if outer is not None and outer.call is not None and self._is_next_attempt(outer, outer.call, tool):
            self._start(outer, outer.call, tool)
            span.scope = outer.scope
            recorded_call.set((span.id, outer.call.name, outer.call.arguments))
            return
        if outer is not None and _is_delegation(tool, outer.tool):
            return
        name, arguments = call_of(tool, bound)
        recording = span.recording
        request = recording.requests.started(span.id, name, arguments, span.scope)
        recording.builder.tool_started(
            span.id,
            ToolSpec(name=name, type=call_type_of(tool)) if name else name,
            arguments,
            request=request,
            scope=span.place,
            at=now(),
        )
        span.key = span.scope = span.id

    def _note_double(self, span: WorkflowSpan) -> None:
        """Note that a recording answered the tool that a span stands for."""
        if span.tool is not None and span.scope is not None:
            span.recording.builder.tool_replayed(span.scope, answer_to(span.id))

    def _is_next_attempt(self, span: WorkflowSpan, call: StepCall, tool: BaseTool | Tracked) -> bool:
        """Return whether a tool that a step runs is that of its call: the first one, or the same after a failure."""
        if not call.started:
            return True
        if span.error is None or call.result is not None or not isinstance(tool, BaseTool):
            return False
        return tool.metadata.name == call.name

    def _start(self, span: WorkflowSpan, call: StepCall, tool: object) -> None:
        """Note that the tool of a call begins to run; from here on, things happen inside it."""
        recording, call_id = span.recording, call.id or None
        if call.started and span.error is not None:
            self._call_failed(span, call, span.error)
            span.error = None
        scope = None if span.parent is None else span.parent.scope
        place = Branch(scope, span.branch)
        recording.waits_in_steps.discard((call.id, call.name))
        call.attempts += 1
        call.key = span.id if call.attempts == 1 else f"{span.id}.{call.attempts}"
        request: Request | None = None
        if recording.lacks_beginning and not recording.is_repeated(call):
            request = recording.saved_request(call)
            if request is None:
                request = Request(call.name, call.arguments, call_id, call_type_of(tool))
                recording.builder.model_asked([request], scope=place, agent=recording.agent)
        if not _is_agent(_workflow_of(span)):
            request = recording.requests.started(call.key, call.name, call.arguments, scope, call_id, request)
        recording.builder.tool_started(
            call.key,
            ToolSpec(name=call.name, type=call_type_of(tool)) if call.name else call.name,
            call.arguments,
            request=request,
            call_id=call_id,
            scope=place,
            at=now(),
        )
        span.scope = call.key

    def _call_ended(self, span: WorkflowSpan, call: StepCall, result: object) -> None:
        outer = TOP if span.parent is None else span.parent.place
        if isinstance(result, ToolCallResult):
            self._agent_call_ended(span, call, result, outer)
        elif not call.started:
            # An agent answers each call, unless the step is suspended, which looks like a step that returned nothing.
            if _is_agent(_workflow_of(span)) and not span.cancelled and span.error is None:
                span.recording.has_waited = True
                span.recording.waits_in_steps.add((call.id, call.name))
        elif call.result is not None:
            # A workflow of the user's own may return anything; what counts is what its tool returned.
            self._execution_ended(span, call.key, call.result)
        elif span.cancelled and not isinstance(span.error, Exception):
            self._execution_failed(span, call.key, None, Outcome.CANCELLED)
        elif span.error is None:
            self._suspend(span, call)
        else:
            self._call_failed(span, call, span.error)

    def _agent_call_ended(self, span: WorkflowSpan, call: StepCall, result: ToolCallResult, outer: Branch) -> None:
        """Note the result of a call of an agent."""
        steps = span.recording.steps
        if not call.started and is_unknown_tool(result):
            steps.missing_tool(result, outer)
            return
        if not call.started:
            self._start(span, call, None)
        span.recording.requests.ended(call.key, Outcome.ERROR if result.tool_output.is_error else Outcome.OK)
        is_handoff = call.name == HANDOFF and isinstance(_workflow_of(span), AgentWorkflow)
        steps.tool_returned(call.key, result, outer, now(), span.error, is_handoff=is_handoff)

    def _call_raised(self, span: WorkflowSpan, call: StepCall, error: BaseException) -> None:
        """Note that the step of a call raised, perhaps later than its tool."""
        if call.result is not None:
            self._execution_ended(span, call.key, call.result)
        elif call.started:
            self._call_failed(span, call, error)

    def _call_failed(self, span: WorkflowSpan, call: StepCall, error: BaseException) -> None:
        """Note that the tool of a call raised."""
        outcome = outcome_of(error)
        if outcome is Outcome.SUSPENDED:
            self._suspend(span, call)
        else:
            self._execution_failed(span, call.key, error, outcome)

    def _suspend(self, span: WorkflowSpan, call: StepCall) -> None:
        """Note that a call waits for a person; the framework will run it again from its beginning."""
        span.recording.suspended.append(call)
        self._execution_failed(span, call.key, None, Outcome.SUSPENDED)

    def _execution_failed(self, span: WorkflowSpan, key: str, error: BaseException | None, outcome: Outcome) -> None:
        """Note that an execution of a tool raised."""
        span.recording.requests.ended(key, outcome)
        if outcome is Outcome.SUSPENDED:
            span.recording.has_waited = True
        text = None if error is None or outcome is not Outcome.ERROR else error_text(error)
        span.recording.builder.tool_failed(key, text, outcome=outcome, at=now())

    def _tool_ended(self, span: WorkflowSpan, result: object) -> None:
        if span.key is not None:
            self._execution_ended(span, span.key, result)
        elif span.parent is not None and span.parent.call is not None and span.parent.call.key == span.scope:
            span.parent.call.result = result

    def _execution_ended(self, span: WorkflowSpan, key: str, result: object) -> None:
        """Note that an execution of a tool returned."""
        builder = span.recording.builder
        read = result_of(result) if isinstance(result, ToolOutput) else None
        failed = read is not None and read.error is not None
        span.recording.requests.ended(key, Outcome.ERROR if failed else Outcome.OK)
        if read is not None:
            builder.tool_ended(
                key,
                read.output,
                model_output=read.model_output,
                error=read.error,
                artifact=read.artifact,
                at=now(),
            )
        else:
            builder.tool_ended(key, result, at=now())


def waiting_calls(run: Run) -> list[RecordedCall]:
    """Return the calls of a run that wait for a person, also those inside other calls."""
    calls: list[RecordedCall] = list(run.calls)
    waiting: list[RecordedCall] = []
    while calls:
        call = calls.pop(0)
        if call.execution is not None:
            calls += call.execution.children
            if call.execution.status is CallStatus.PENDING and call.execution.executed:
                waiting.append(call)
    return waiting


def _workflow_of(span: WorkflowSpan) -> object:
    """Return the workflow of a step, while it runs."""
    return None if span.parent is None else span.parent.workflow


def _is_agent(workflow: object) -> bool:
    return isinstance(workflow, (AgentWorkflow, BaseWorkflowAgent))


def _agent_of(span: WorkflowSpan, name: str) -> object:
    """Return the agent whose step a span is, by its name in a workflow of several agents."""
    workflow = _workflow_of(span)
    members = getattr(workflow, "agents", None)
    return members.get(name) if isinstance(members, Mapping) else workflow


def _can_hand_over(span: WorkflowSpan, agent: object) -> bool:
    """Return whether an agent has the handoff tool, which LlamaIndex adds if there is an agent to hand over to."""
    workflow = _workflow_of(span)
    if not isinstance(workflow, AgentWorkflow) or not isinstance(agent, BaseWorkflowAgent):
        return False
    others = set(workflow.agents) - {agent.name}
    return bool(others if agent.can_handoff_to is None else others & set(agent.can_handoff_to))


def _start_of(bound: inspect.BoundArguments) -> object:
    """Return the start event of a run, or the keyword arguments that old versions build it from."""
    start = next((value for value in bound.arguments.values() if isinstance(value, StartEvent)), None)
    return bound.arguments.get("kwargs") if start is None else start


def is_resumption(bound: inspect.BoundArguments) -> bool:
    """Return whether a run continues the saved state of an earlier one, which it does without a start event."""
    if "init_state" in bound.arguments:
        return _start_of(bound) is None
    contexts = [value for value in bound.arguments.values() if isinstance(value, Context)]
    return any(context.is_running for context in contexts)  # versions in which a run is a method with a context


def calls_of_state(bound: inspect.BoundArguments) -> list[ToolCall]:
    """Return the calls that a saved state will run; empty if it shows none."""
    steps = getattr(bound.arguments.get("init_state"), "workers", None)
    calls: list[ToolCall] = []
    for step in steps.values() if isinstance(steps, Mapping) else ():
        for name in ("queue", "in_progress", "collected_waiters"):
            # A step whose waiter has its event is in the queue, or waits for a further event.
            items = [item for item in getattr(step, name, ()) if getattr(item, "resolved_event", None) is None]
            events = [getattr(item, "event", None) for item in items]
            calls += [event for event in events if isinstance(event, ToolCall)]
    return calls


def _is_delegation(tool: object, outer: object) -> bool:
    """Return whether a tool inside a tool is the same call: another method of it, or what it wraps."""
    if isinstance(tool, Tracked):
        return isinstance(outer, FunctionTool) and getattr(outer.real_fn, "__wrapped__", None) is tool.function
    return outer is not None and (tool is outer or getattr(outer, "base_tool", None) is tool)
