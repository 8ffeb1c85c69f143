"""Observations of one run: hooks, model inputs and results in, calls of a `RunBuilder` out.

Three sources are combined, since each one misses something: hooks show what a model requested and which local tools
ran, the input of the next model request shows what the model was told, and the finished result has the rest. Every
method is called by the recorder, which holds its lock and turns errors into warnings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolmark import ToolCallType
from toolmark.capture import ABSENT, Outcome, Request, RunBuilder
from toolmark.cases import RunStatus
from toolmark.formats import Answer, read_responses_answer, read_responses_call
from toolmark_openai_agents import _errors, _messages, _states, _tools
from toolmark_openai_agents._from_result import read_items
from toolmark_openai_agents._run_tree import Recording, ToolRun, now


class Watcher:
    """Observes a recorded run, or one inside a tool of it.

    Attributes:
        recording: The recording of the run.
        scope: The execution inside which the run goes on; `None` for the recorded run itself.
        has_no_hooks: No hooks could be attached, so that everything is read from the result.
        paused: The run ended by waiting for a person.
        servers: The MCP servers that are wrapped for it.
        end_noted: The end of a streamed run was noted.
        input: The input that the run began with.
    """

    def __init__(self, recording: Recording, scope: int | None = None) -> None:
        """Begin without observations."""
        self.recording = recording
        self.scope = scope
        self.has_no_hooks = False
        self.paused = False
        self.servers: list[Any] = []
        self.end_noted = False
        self.input: object = None
        self._answered = False
        self._answer: Any = None
        self._paused_items: list[Any] = []
        self._requests: list[Request] = []
        self._last_message: list[Request] = []
        self._running: list[ToolRun] = []
        self._runs_by_id: dict[str, ToolRun] = {}
        self._call_ids: dict[int, str | None] = {}
        self._exceptions: dict[int, BaseException] = {}
        self._mcp_errors: dict[int, str] = {}
        self._servers_by_tool: dict[str, str] = {}
        self._nested: list[Watcher] = []
        self._model_name: str | None = None

    @property
    def builder(self) -> RunBuilder:
        """The builder of the recording."""
        return self.recording.builder

    @property
    def waiting_ids(self) -> set[str]:
        """The ids of the calls that wait for a person, also inside tools."""
        ids = {request.id for request in self._requests if request.id and self.builder.waits_for(request.id)}
        return ids.union(*(nested.waiting_ids for nested in self._nested))

    # Beginning

    def began(self, input: object, agent: Any, run_config: Any) -> None:
        """Note the beginning of the run."""
        self.input = input
        self._model_name = _messages.model_name(agent, run_config)
        if self.scope is None:
            self.builder.started(_messages.question_of(input), at=now())
            metadata = _tools.field_of(run_config, "trace_metadata")
            if isinstance(metadata, Mapping):
                self.builder.labelled(metadata=dict(metadata))

    def resumed(self) -> None:
        """Note that the run goes on after an interruption."""
        self.paused = self.end_noted = self._answered = False
        if self.scope is None:
            self.builder.resumed()

    def continues(self, items: Sequence[Any], responses: Sequence[Any]) -> None:
        """Note the items and responses of the unobserved run that this run goes on with."""
        self._requests += read_items(self.builder, items, responses, scope=self.scope, interrupted=True)

    def watch_inside(self, key: int) -> Watcher:
        """Return the watcher of a run that a tool starts, or of the paused run that the tool goes on with."""
        # Some releases start the tool again when the run goes on: as another execution of the same call.
        call_id = self._call_ids.get(key)
        keys = {key, *(other for other, other_id in self._call_ids.items() if call_id and other_id == call_id)}
        for nested in self._nested:
            if nested.scope in keys and nested.paused:
                return nested
        self._nested.append(Watcher(self.recording, key))
        return self._nested[-1]

    def ended_with(self, items: Sequence[Any]) -> bool:
        """Return whether the run paused with just these items; equal items of another run do not count."""
        return bool(items) and bool(self._paused_items) and items[0] is self._paused_items[0]

    def offered(self, agent: Any, tools: Iterable[Any]) -> None:
        """Note the tools that an agent offers its model."""
        tools = list(tools)
        for tool in tools:
            server = _tools.mcp_server(agent, tool)
            if server is not None:
                self._servers_by_tool[_tools.tool_name(tool)] = server
        specs = [_tools.spec_of(agent, tool) for tool in tools]
        self.builder.offered([spec for spec in specs if spec is not None], scope=self.scope)

    # Hooks, under the SDK's names

    def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any = None, input_items: Any = (), **_more: Any
    ) -> None:
        """Note the results that the model is shown for the first time."""
        if self._requests:
            for item in _messages.new_results(input_items):
                self._add_result(item)

    def on_llm_end(self, context: Any, agent: Any, response: Any, **_more: Any) -> None:
        """Note the calls that the model requested, and its usage."""
        output = list(getattr(response, "output", ()))
        requests = self._new_requests(output)
        self.builder.model_asked(requests, scope=self.scope, agent=_messages.agent_name(agent))
        self.builder.model_used(_messages.model_name(agent, None) or self._model_name, _messages.usage_of(response))
        self._last_message = requests
        self._requests += requests
        targets = _tools.handoff_targets(agent)
        for request in requests:
            if request.name in targets and request.type is ToolCallType.FUNCTION:
                self.builder.handed_off(to=targets[request.name], call_id=request.id, scope=self.scope)
        for item in output:
            self._add_listed_tools(item)
            self._add_result(item, ran=True)

    def on_tool_start(self, context: Any, agent: Any, tool: Any, **_more: Any) -> None:
        """Note that a local tool begins."""
        call_id = getattr(context, "tool_call_id", None)
        self._start(tool, context, call_id if isinstance(call_id, str) and call_id else None, agent)

    def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any, **_more: Any) -> None:
        """Note what a local tool returned, or its failure, which the SDK has replaced by a text."""
        run = self._find_run(context, tool)
        run = run or self._start(tool, context, getattr(context, "tool_call_id", None), agent)
        if any(nested.scope == run.key and nested.paused for nested in self._nested):
            # Some releases call this hook for a tool whose agent waits for a person.
            self._suspend(run)
            return
        error = self._error_of(run, result)
        run.failed = error is not None
        if run.failed:
            self.builder.tool_failed(run.key, error, at=now())
        else:
            output = ABSENT if _tools.has_output_item(tool) else _messages.plain_output(result, ABSENT)
            self.builder.tool_ended(run.key, output, at=now())
        self._close(run)

    def on_agent_end(self, context: Any, agent: Any, output: Any, **_more: Any) -> None:
        """Note the final answer of an agent, which may be `None`."""
        self._answered, self._answer = True, output

    # Other observations of running tools

    def tool_raised(self, context: Any, call_id: str, error: BaseException) -> None:
        """Note the exception of a tool, which the SDK is about to replace by a text."""
        run = next((run for run in self._running if run.context is context), None) or self._runs_by_id.get(call_id)
        if run is not None:
            self._exceptions[run.key] = error

    def mcp_failed(self, text: str) -> None:
        """Note the error that the MCP server of the current tool reported."""
        key = self.enclosing(None)
        if key is not None:
            self._mcp_errors[key] = text

    def enclosing(self, context: Any) -> int | None:
        """Return the key of the tool that the caller runs in; `None` outside of any tool.

        Args:
            context: The `context` of a run that begins here; agents that serve as tools pass on their tool's context.
        """
        span = _states.current_span()
        parent = getattr(span, "parent_id", None)
        for run in self._running:
            if span is not None and run.span is span:
                return run.key
        for run in self._running:
            # Without tracing, all spans have the id "no-op".
            if isinstance(parent, str) and parent != "no-op" and parent == getattr(run.span, "span_id", None):
                return run.key
        call_id = getattr(context, "tool_call_id", None)
        if not isinstance(call_id, str) or not call_id:
            return None
        if call_id in self._runs_by_id:
            return self._runs_by_id[call_id].key
        if any(request.id == call_id for request in self._requests):  # it began before the run was interrupted
            return self._start(None, context, call_id, None, name=getattr(context, "tool_name", "")).key
        return None

    # End

    def finished(self, result: Any) -> None:
        """Note the result of the run, which ended or waits for a person."""
        items = list(getattr(result, "new_items", ()) or ())
        interrupted = bool(getattr(result, "interruptions", None))
        self._complete(items, list(getattr(result, "raw_responses", ()) or ()), interrupted=interrupted)
        if interrupted:
            # What ran and has no result in the items waits for a person.
            answers = [read_responses_answer(_messages.raw_item(item)) for item in items]
            answered = {answer.call_id for answer in answers if answer is not None}
            for run in [run for run in self._running if run.call_id not in answered]:
                self._suspend(run)
        self.paused = interrupted or _messages.waits_for_approval(items)
        self._paused_items = items if self.paused else []
        if self.scope is None:
            answer = None if self.paused else _messages.answer_of(getattr(result, "final_output", None))
            self.builder.ended(answer, may_wait=self.paused, at=now())

    def failed(self, error: BaseException) -> None:
        """Note the exception that ended the run, also on the calls that it concerns."""
        data = getattr(error, "run_data", None)
        self._complete(list(getattr(data, "new_items", ()) or ()), list(getattr(data, "raw_responses", ()) or ()))
        unknown = _errors.unknown_tool_name(error)
        for request in [request for request in self._last_message if request.name == unknown][:1]:
            self._add_failure(request, error, unknown_tool=True)
        if type(error).__name__ == "ToolInputGuardrailTripwireTriggered":
            self._refused(error)
        if self._running and _errors.may_come_from_tool(error):
            self._blame_tool(error)
        if self.scope is None:
            self.builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error), at=now())

    def stream_read(self, result: Any) -> None:
        """Note that a stream was read to its end, which may be before its task ends."""
        if not self.end_noted and (self._answered or _states.has_answer(result)):
            self.end_noted = True
            self.finished(result)

    def stream_ended(self, result: Any, task: Any) -> None:
        """Note that the task of a streamed run ended; `result` is `None` if the program has dropped it."""
        error = None if task.cancelled() else task.exception()
        if self.end_noted:
            return
        if error is not None:
            self.failed(error)
        elif result is None and self._answered:
            self.finished(_states.AnswerOnly(self._answer))
        elif self._answered or _states.has_answer(result):
            self.finished(result)
        else:
            self._complete(list(getattr(result, "new_items", ()) or ()), [])
            if self.scope is None:
                self.builder.ended(None, status=RunStatus.STOPPED, error=_states.stop_reason(result), at=now())

    # Requests and results

    def _new_requests(self, output: Sequence[Any]) -> list[Request]:
        """Return the calls of a message, without those that the SDK takes for repetitions."""
        requests: list[Request] = []
        for request in filter(None, map(read_responses_call, output)):
            if _messages.runs_repeated_calls_once() and _messages.is_repeated(request, [*self._requests, *requests]):
                self.builder.warn(_messages.repetition_warning(request))
            elif request.type is ToolCallType.FUNCTION and request.name in self._servers_by_tool:
                server = self._servers_by_tool[request.name]
                requests.append(replace(request, type=ToolCallType.MCP, server=server))
            else:
                requests.append(request)
        return requests

    def _add_listed_tools(self, item: Any) -> None:
        specs = _tools.listed_tools(item)
        if specs:
            self.builder.offered(specs, scope=self.scope, all_known=False)

    def _add_result(self, item: Any, *, ran: bool = False, reformatted: bool = False) -> None:
        """Note the result that the model is shown of a call, if the item is one."""
        answer = read_responses_answer(item)
        if answer is None or answer.approved:
            return
        run = self._runs_by_id.get(answer.call_id or "")
        if run is not None and answer.failed and not run.failed:
            run.failed = True
            self.builder.tool_failed(run.key, answer.error)
        self.builder.result_shown(
            answer.content,
            call_id=answer.call_id,
            name=answer.name,
            failed=answer.failed or not (ran or run is not None or _is_accepted_handoff(answer)),
            error=answer.error,
            scope=self.scope,
            ran=ran,
            reformatted=reformatted,
        )

    def _add_failure(self, request: Request, error: BaseException, *, unknown_tool: bool = False) -> None:
        self.builder.result_shown(
            ABSENT, call_id=request.id, failed=True, error=str(error), unknown_tool=unknown_tool, scope=self.scope
        )

    def _complete(self, items: Sequence[Any], responses: Sequence[Any], *, interrupted: bool = False) -> None:
        """Add what the result holds and no hook reported."""
        if self.has_no_hooks:
            self._requests += read_items(self.builder, items, responses, scope=self.scope, interrupted=interrupted)
            return
        ids = [request.id for request in self._requests]
        for item in items:
            raw = _messages.raw_item(item)
            self._add_listed_tools(raw)
            answer = read_responses_answer(raw)
            if answer is not None and ids.count(answer.call_id) == 1:
                run = self._runs_by_id.get(answer.call_id or "")
                self._add_result(raw, reformatted=run is None or not _tools.has_output_item(run.tool))

    # Running tools

    def _start(self, tool: Any, context: Any, call_id: str | None, agent: Any, *, name: str | None = None) -> ToolRun:
        name = _tools.tool_name(tool) if name is None else name
        call_id = call_id or self._next_id(name)
        run = ToolRun(next(self.recording.keys), call_id, tool, context, _states.current_span())
        self.builder.tool_started(
            run.key,
            name,
            _tools.arguments_of(tool, context),
            call_id=call_id,
            scope=self.scope,
            agent=_messages.agent_name(agent),
            server=self._servers_by_tool.get(name),
            at=now(),
        )
        self._running.append(run)
        self._call_ids[run.key] = call_id
        if call_id is not None:
            self._runs_by_id[call_id] = run
        return run

    def _next_id(self, name: str) -> str | None:
        """Return the id of the first call of this name that did not run yet, for hooks that name no call."""
        for request in self._requests:
            if request.name == name and request.id not in self._runs_by_id and _messages.has_own_result(request):
                return request.id
        return None

    def _find_run(self, context: Any, tool: Any) -> ToolRun | None:
        """Return the tool run that a hook reports on, by the best evidence that the release offers."""
        span, call_id = _states.current_span(), getattr(context, "tool_call_id", None)
        evidence = (
            lambda run: bool(call_id) and run.context is context,
            lambda run: span is not None and run.span is span,
            lambda run: bool(call_id) and run.call_id == call_id,
            lambda run: not call_id and run.tool is tool,
        )
        return next((run for fits in evidence for run in self._running if fits(run)), None)

    def _error_of(self, run: ToolRun, result: object) -> str | None:
        """Return the error of a tool as precisely as it can be seen; `None` if the tool succeeded."""
        if run.key in self._mcp_errors:
            return self._mcp_errors[run.key]
        if run.key in self._exceptions:
            return _errors.error_text(self._exceptions[run.key])
        text = _errors.span_error(run.span)
        if text is not None:
            return text or (result if isinstance(result, str) else None) or "the tool failed"
        return _errors.default_error_text(result)

    def _close(self, run: ToolRun) -> None:
        if run in self._running:
            self._running.remove(run)
        self._exceptions.pop(run.key, None)
        self._mcp_errors.pop(run.key, None)

    def _suspend(self, run: ToolRun) -> None:
        self.builder.tool_failed(run.key, None, outcome=Outcome.SUSPENDED)
        if run in self._running:
            self._running.remove(run)

    def _refused(self, error: BaseException) -> None:
        """Mark the call that a guardrail kept from running; the exception does not name it."""
        waiting = [
            request
            for request in self._last_message
            if _messages.has_own_result(request) and request.id not in self._runs_by_id
        ]
        if len(waiting) > 1:
            self.builder.warn(f"a guardrail refused one of {len(waiting)} calls; the first is marked")
        if waiting:
            self._add_failure(waiting[0], error)

    def _blame_tool(self, error: BaseException) -> None:
        """Mark the tool that ended the run with its exception: by its span, by name, or as the only one."""
        suspects = [run for run in self._running if _errors.span_error(run.span) is not None]
        suspects = suspects or [run for run in self._running if f" {_tools.tool_name(run.tool)}: " in str(error)]
        suspects = suspects or (self._running[:] if len(self._running) == 1 else [])
        if len(suspects) > 1:
            self.builder.warn(f"one of {len(suspects)} calls that ran at once ended the run; the first is marked")
        if suspects:
            text = _errors.error_text(_errors.tool_exception(error))
            self.builder.tool_failed(suspects[0].key, text, at=now())
            self._close(suspects[0])


def _is_accepted_handoff(answer: Answer) -> bool:
    """Return whether an output is the SDK's answer to a handoff: `{"assistant": "<name>"}`."""
    if not isinstance(answer.content, str) or _errors.is_refusal(answer.content):
        return False
    try:
        value = json.loads(answer.content)
    except ValueError:
        return False
    return isinstance(value, dict) and set(value) == {"assistant"}
