"""Observations of runs: spans and events of models in, calls of `RunBuilder` out.

Spans are recognized by the values that they carry, since their names differ between versions. For an agent whose model
asks for the tool `add`, they are, with what each one sets in its `WorkflowSpan` and reports:

    FunctionAgent.run                    is_run, workflow; started: the question; ended: the answer
      .setup_agent(AgentInput)           is_step
      .run_agent_step(AgentSetup)        is_step, model_step; ended with an `AgentOutput`: its requests, by `agent_log`
        OpenAI.astream_chat_with_tools   the tools that it passes to the model
          OpenAI.astream_chat            llm, model; events of it: the instructions and the tokens
      .call_tool(ToolCall)               is_step, call; ended with a `ToolCallResult`: the result, by `agent_log`
        FunctionTool.acall               tool; started: an execution of the step's call; from here on, it is the `scope`
          ...                            of both spans and of all spans in here, such as those of a nested agent

In workflows of the user's own there is no `AgentOutput`: the answer of a model holds the requests, `recording.requests`
finds the one that a tool carries out, and the span of a tool may be a call by itself.
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
from llama_index.core.workflow import Event, Workflow

from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import LACKS_BEGINNING, Branch, Outcome, Request
from toolgrade.capture.doubles import answer_to
from toolgrade.cases import RunStatus
from toolgrade_llama_index import _messages
from toolgrade_llama_index._agent_log import HANDOFF
from toolgrade_llama_index._branches import EventFlow, OpenRequests, current_branch
from toolgrade_llama_index._errors import error_text, outcome_of, status_of
from toolgrade_llama_index._hosted import UNREAD_STREAM, built_in_tools, streamed_index, with_hosted
from toolgrade_llama_index._listening import RecorderListener, passed_context
from toolgrade_llama_index._replay import recorded_call
from toolgrade_llama_index._results import is_unknown_tool, result_of
from toolgrade_llama_index._run_tree import SpanTree, StepCall, WorkflowRecording, WorkflowSpan, method_of, now
from toolgrade_llama_index._tools import call_of, call_type_of, is_pseudo_tool, specs_of
from toolgrade_llama_index._track import Tracked
from toolgrade_llama_index._versions import calls_of_state, is_resumption, is_successful_end, start_of

_TOOL_METHODS: Final = frozenset({"__call__", "call", "acall"})
_CHAT_METHODS: Final = frozenset(
    {"chat", "achat", "stream_chat", "astream_chat", "complete", "acomplete", "stream_complete", "astream_complete"}
)
_NO_RESULT: Final = "the run ended without a result: by a time limit or a cancellation"
_UNREAD_IMAGE: Final = "an image of the input is an open file, which belongs to the program; it was left out"


class SpanWatcher:
    """Observes the spans of a tree, under the lock of the recorder, which also handles errors here.

    The recorder calls `describe` when a run begins, `entered`, and then `exited` or `dropped` for every span,
    `llm_started`, `llm_streamed` and `llm_ended` for the events of models, `end` for runs that end otherwise than with
    their span, and `take_finished` after all of these.
    """

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
        method = method_of(span.id)
        self._take_over_run_id(span, tags)
        if isinstance(instance, (BaseTool, Tracked)) and method in _TOOL_METHODS:
            self._tool_entered(span, bound, instance)
        elif isinstance(instance, BasePydanticProgram):
            span.is_structured = True
        elif isinstance(instance, BaseLLM):
            self._llm_entered(span, bound, instance, method)
        elif method.endswith("send_event"):  # like a step, it has an event as its argument, but it sends that event
            for value in bound.arguments.values():
                if isinstance(value, Event):
                    span.recording.event_flow.sent(value)
        else:
            self._step_entered(span, bound, method)

    def exited(self, span: WorkflowSpan, result: object) -> None:
        """Note that a span returned."""
        if span.is_step and isinstance(result, Event):
            span.recording.event_flow.sent(result)
        self._note_double(span)
        if span.call is not None:
            self._call_ended(span, span.call, result)
        elif span.tool is not None:
            self._tool_ended(span, result)
        elif isinstance(result, AgentOutput) and span.model_step is span:
            self._agent_answered(span, result)
        elif span.is_root:
            self._run_ended(span, result)

    def dropped(self, span: WorkflowSpan, error: BaseException | None) -> None:
        """Note that a span raised."""
        error = error or RuntimeError("the span was given up")
        self._note_double(span)
        if span.parent is not None:
            if is_successful_end(error):
                span.parent.succeeded = True
                return
            if span.parent.is_run or (span.tool is not None and span.parent.call is not None):
                span.parent.error = error
        if span.call is not None:
            self._call_raised(span, span.call, error)
        elif span.tool is not None and span.scope == span.id:
            self._execution_failed(span, span.id, error, outcome_of(error))
        elif span.is_root:
            may_wait = outcome_of(error) is Outcome.CANCELLED
            self.end(span.recording, None, status_of(error), error_text(error), may_wait=may_wait)

    # Runs

    def describe(self, recording: WorkflowRecording, bound: inspect.BoundArguments, workflow: Workflow) -> None:
        """Note the beginning of a run."""
        recording.workflow, recording.workflow_type = weakref.ref(workflow), type(workflow)
        start, builder = start_of(bound), recording.builder
        context, saved = passed_context()
        if is_resumption(bound):
            start = {"user_msg": saved.get("user_msg_str"), "memory": saved.get("memory")}
            self._continue(recording, bound, workflow, saved)
        if builder.conversation_id is None:
            builder.conversation_id = _messages.conversation_of(start, context)
        message = _messages.message_of(start)
        if _messages.has_unread_image(message):
            builder.warn(_UNREAD_IMAGE)
        builder.started(_messages.question_of(start), parts=_messages.images_in(message), at=now())

    def end(
        self,
        recording: WorkflowRecording,
        answer: str | None,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        *,
        may_wait: bool = True,
    ) -> None:
        """End a recording, as paused or in the given way.

        To resume a paused run, users cancel it first. So a cancelled run with calls that wait for a person is recorded
        as paused, not as stopped, unless `may_wait` is false.
        """
        recording.agent_log.finish()
        recording.event_flow = EventFlow()
        if status is RunStatus.STOPPED and may_wait and recording.has_waited:
            recording.builder.ended(None, may_wait=True, at=now())
            recording.waiting = recording.waiting_calls()  # known once the builder takes the run for paused
        if not recording.waiting:
            recording.builder.ended(answer, status=status, error=error, at=now())
            recording.requests = OpenRequests(recording.builder.warn)
        self._finished.append(recording)

    def llm_started(self, span: WorkflowSpan, details: Mapping[str, Any], messages: Iterable[ChatMessage]) -> None:
        """Note that a model is asked: its name, and the system prompt."""
        name = details.get("model") or details.get("model_name")
        span.model = name if isinstance(name, str) else None
        for message in messages:
            if message.role in ("system", "developer"):
                span.recording.builder.instructed(message.content, scope=span.scope)

    def llm_streamed(self, span: WorkflowSpan, response: ChatResponse) -> None:
        """Note a chunk of the streamed answer of a model."""
        span.streamed_calls.add(streamed_index(response.raw))

    def llm_ended(self, span: WorkflowSpan, response: object) -> None:
        """Note the answer of a model."""
        # A model that wraps another one reports the same answer again.
        if span.inside_llm or span.is_structured_llm:
            return
        recording, usage = span.recording, _messages.usage_of(response)
        recording.builder.model_used(span.model or _messages.model_of(response), usage)
        step = span.model_step
        if step is not None:
            step.has_usage = step.has_usage or bool(usage)
        if isinstance(response, ChatResponse):
            if len(span.streamed_calls - {None}) > len(_messages.written_calls(response.message)):
                recording.builder.warn(UNREAD_STREAM)
            if step is None and not span.is_structured:
                self._requested(span, response)

    # Spans and runs

    def _take_over_run_id(self, span: WorkflowSpan, tags: Mapping[str, Any] | None) -> None:
        """Take over the id that LlamaIndex has given to the run; the steps of the run have it as a tag."""
        run_id, recording = (tags or {}).get("llamaindex.run_id"), span.recording
        is_step_of_root = span.parent is not None and span.parent.is_root
        if is_step_of_root and not recording.has_framework_id and isinstance(run_id, str):
            recording.has_framework_id, recording.builder.run_id = True, run_id

    def _step_entered(self, span: WorkflowSpan, bound: inspect.BoundArguments, method: str) -> None:
        """Note that a step, or another method, began, by the events among its arguments."""
        event = next((value for value in bound.arguments.values() if isinstance(value, Event)), None)
        if event is not None and span.parent is not None and span.parent.is_run:
            span.is_step = True
            span.recording.event_flow.received(method, event)
        for value in bound.arguments.values():
            if isinstance(value, ToolCall):
                span.call = StepCall(value.tool_name, value.tool_kwargs, value.tool_id)
            elif isinstance(value, (AgentInput, AgentSetup)):
                span.recording.agent_log.step_began(value.current_agent_name, span.place)
                if isinstance(value, AgentSetup):
                    span.model_step = span.model_step or span
                    self._offer_tools_of(span, value.current_agent_name)

    def _agent_answered(self, span: WorkflowSpan, output: AgentOutput) -> None:
        """Note the answer of an agent's model, whose step returned it."""
        if not span.has_usage:
            span.recording.builder.model_used(_messages.model_of(output), _messages.usage_of(output))
        span.recording.lacks_beginning = False
        can_hand_over = _can_hand_over(span, _agent_of(span, output.current_agent_name))
        span.recording.agent_log.agent_answered(output, span.place, can_hand_over=can_hand_over)

    def _continue(
        self, recording: WorkflowRecording, bound: inspect.BoundArguments, workflow: Workflow, saved: Mapping[str, Any]
    ) -> None:
        """Note the calls that a resumed run goes on with, if its beginning was not observed.

        They count as one message of the model, in the order of the saved messages: the scratchpad of the agent.
        """
        recording.lacks_beginning = True
        recording.builder.warn(LACKS_BEGINNING)
        name = workflow.name if isinstance(workflow, BaseWorkflowAgent) else None
        recording.agent = saved.get("current_agent_name") or name
        calls = calls_of_state(bound)
        written = [call for message in saved.get("scratchpad") or () for call in _messages.written_calls(message)]
        order = [(tool, call_id) for tool, call_id, _ in written] + [(call.tool_name, call.tool_id) for call in calls]
        calls.sort(key=lambda call: order.index((call.tool_name, call.tool_id)))
        recording.saved = [
            Request(call.tool_name, call.tool_kwargs, call.tool_id or None, recording.type_of(call.tool_name))
            for call in calls
        ]
        if calls:
            recording.builder.model_asked(recording.saved, agent=recording.agent)

    def _run_ended(self, span: WorkflowSpan, result: object) -> None:
        """Note that a run returned; without a result, it was stopped or, in old versions, has failed."""
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
        else:
            self.end(recording, None, status_of(error), error_text(error), may_wait=False)

    # Models

    def _offer_tools_of(self, span: WorkflowSpan, name: str) -> None:
        """Note the tools of an agent that describes them in its prompt; other agents pass them to their model."""
        agent = _agent_of(span, name)
        if isinstance(agent, BaseWorkflowAgent) and not isinstance(agent, FunctionAgent):
            self._offer(span, agent.tools or (), all_known=agent.tool_retriever is None)

    def _offer(self, span: WorkflowSpan, tools: Iterable[object], *, all_known: bool = True) -> None:
        """Note the tools that a model is offered, those that were offered in this scope before excepted."""
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
        """Note that a method of a model began."""
        if "structured_predict" in method:
            span.is_structured = True
        elif method == "_prepare_chat_with_tools" and not span.is_structured:
            tools = bound.arguments.get("tools")
            self._offer(span, tools if isinstance(tools, (list, tuple)) else ())
            span.recording.builder.offered(built_in_tools(llm), scope=span.scope)
        elif method in _CHAT_METHODS:
            span.llm = llm

    def _requested(self, span: WorkflowSpan, response: ChatResponse) -> None:
        """Note the requests in the answer of a model outside of agents."""
        recording = span.recording
        read = getattr(span.llm, "get_tool_calls_from_response", None)
        selections = [] if read is None else read(response, error_on_no_tool_call=False)
        requests = _messages.requests_of(selections, response.message)
        requests = with_hosted(requests, response, recording.builder.warn)
        requests = [request for request in requests if not recording.names_pseudo_tool(request.name, span.scope)]
        for request in requests:
            request.type = request.type or recording.type_of(request.name)
        to_run = [request for request in requests if not request.ran]  # not those that the provider ran
        if requests:
            recording.requests.add(to_run, span.scope)
            recording.builder.model_asked(requests, scope=Branch(span.scope, current_branch().key))
        if span.scope is None:
            recording.answer = None if to_run else _messages.text_of(response)

    # Tools

    def _tool_entered(self, span: WorkflowSpan, bound: inspect.BoundArguments, tool: BaseTool | Tracked) -> None:
        """Note that a tool begins to run, in one of four cases.

        1. The tool only carries the structured output of a model, and is not a call.
        2. A step runs the tool of its call, for the first time or again after a failure.
        3. A tool calls itself by another method, or calls the tool that it wraps: the call has begun already.
        4. Else, code of the user's runs the tool, perhaps for a request of a model.
        """
        span.tool = tool
        outer = span.parent
        if span.is_structured or is_pseudo_tool(tool):
            span.is_structured = True
        elif outer is not None and outer.call is not None and _is_next_attempt(outer, outer.call, tool):
            self._start(outer, outer.call, tool)
            span.scope = outer.scope
            recorded_call.set((span.id, outer.call.name, outer.call.arguments))
        elif outer is None or not _is_delegation(tool, outer.tool):
            self._start_by_code(span, bound, tool)

    def _note_double(self, span: WorkflowSpan) -> None:
        """Note that a recording answered the tool that a span stands for."""
        if span.tool is not None and span.scope is not None:
            span.recording.builder.tool_replayed(span.scope, answer_to(span.id))

    def _start_by_code(self, span: WorkflowSpan, bound: inspect.BoundArguments, tool: BaseTool | Tracked) -> None:
        """Note that code runs a tool; the execution has the key of the span, and ends with it."""
        name, arguments = call_of(tool, bound)
        request = span.recording.requests.started(span.id, name, arguments, span.scope)
        span.recording.builder.tool_started(
            span.id, _spec_of(name, tool), arguments, request=request, scope=span.place, at=now()
        )
        span.scope = span.id

    def _start(self, span: WorkflowSpan, call: StepCall, tool: BaseTool | Tracked | None) -> None:
        """Note that a step runs the tool of its call; from here on, things happen inside that execution.

        Each attempt is an execution of its own: the key of the first is the id of the step's span, that of the second
        ends with `.2`. `tool` is `None` if its span was not observed, as for a tool of the user's own class.
        """
        if call.started and span.error is not None:
            self._call_failed(span, call, span.error)
            span.error = None
        span.recording.waiting_before_tool.discard((call.id, call.name))
        call.attempts += 1
        call.key = span.id if call.attempts == 1 else f"{span.id}.{call.attempts}"
        span.recording.builder.tool_started(
            call.key,
            _spec_of(call.name, tool),
            call.arguments,
            request=self._request_of(span, call, tool),
            call_id=call.id or None,
            scope=span.outer_place,
            at=now(),
        )
        span.scope = call.key

    def _request_of(self, span: WorkflowSpan, call: StepCall, tool: BaseTool | Tracked | None) -> Request | None:
        """Return the request that the call of a step carries out; `None` if the builder finds it by the id of the call.

        The request was made in the unobserved beginning of a run, or by a model outside of agents.
        """
        recording, call_id = span.recording, call.id or None
        request: Request | None = None
        if recording.lacks_beginning and not recording.take_suspended(call):
            request = recording.saved_request(call)
            if request is None:
                request = Request(call.name, call.arguments, call_id, call_type_of(tool))
                recording.builder.model_asked([request], scope=span.outer_place, agent=recording.agent)
        if not _is_agent(_workflow_of(span)):
            scope = None if span.parent is None else span.parent.scope
            request = recording.requests.started(call.key, call.name, call.arguments, scope, call_id, request)
        return request

    def _call_ended(self, span: WorkflowSpan, call: StepCall, result: object) -> None:
        """Note that the step of a call returned."""
        if isinstance(result, ToolCallResult):
            self._agent_call_ended(span, call, result)
        elif not call.started:
            # An agent's step returns the result of its call, unless it was suspended: then it returns nothing.
            if _is_agent(_workflow_of(span)) and not span.cancelled and span.error is None:
                span.recording.has_waited = True
                span.recording.waiting_before_tool.add((call.id, call.name))
        elif call.result is not None:
            # A workflow of the user's own may return anything; what counts is what its tool returned.
            self._execution_ended(span, call.key, call.result)
        elif span.cancelled and not isinstance(span.error, Exception):
            self._execution_failed(span, call.key, None, Outcome.CANCELLED)
        elif span.error is None:
            self._suspend(span, call)
        else:
            self._call_failed(span, call, span.error)

    def _agent_call_ended(self, span: WorkflowSpan, call: StepCall, result: ToolCallResult) -> None:
        """Note the result of a call of an agent."""
        agent_log, place = span.recording.agent_log, span.outer_place
        if not call.started and is_unknown_tool(result):
            agent_log.missing_tool(result, place)
            return
        if not call.started:
            self._start(span, call, None)
        span.recording.requests.ended(call.key, Outcome.ERROR if result.tool_output.is_error else Outcome.OK)
        is_handoff = call.name == HANDOFF and isinstance(_workflow_of(span), AgentWorkflow)
        agent_log.tool_returned(call.key, result, place, now(), span.error, is_handoff=is_handoff)

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
        """Note that a tool returned: the execution ends now if code began it, else with the step."""
        if span.scope == span.id:
            self._execution_ended(span, span.id, result)
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


def _spec_of(name: str, tool: object) -> ToolSpec | str:
    """Return what is known of a tool that runs; a `ToolSpec` cannot have an empty name."""
    return ToolSpec(name=name, type=call_type_of(tool)) if name else name


def _is_next_attempt(step: WorkflowSpan, call: StepCall, tool: BaseTool | Tracked) -> bool:
    """Return whether a tool that a step runs is that of its call: the first one, or the same after a failure."""
    if not call.started:
        return True
    if step.error is None or call.result is not None or not isinstance(tool, BaseTool):
        return False
    return tool.metadata.name == call.name


def _is_delegation(tool: object, outer: object) -> bool:
    """Return whether a tool inside the tool `outer` is the same call: a method of `outer`, or what `outer` wraps."""
    if isinstance(tool, Tracked):
        return isinstance(outer, FunctionTool) and getattr(outer.real_fn, "__wrapped__", None) is tool.function
    return outer is not None and (tool is outer or getattr(outer, "base_tool", None) is tool)
