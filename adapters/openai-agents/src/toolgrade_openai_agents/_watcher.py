"""Observations of one run: hooks, model inputs and results in, calls of a `RunBuilder` out.

Three sources are combined, since each one misses something: hooks show what a model requested and which local tools
ran, the input of the next model request shows what the model was told, and the finished result has the rest. Every
method is called by the recorder, which holds its lock and turns errors into warnings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toolgrade import ToolCallType
from toolgrade.calls import ToolSpec
from toolgrade.capture import ABSENT, Branch, Outcome, Request, RunBuilder
from toolgrade.cases import RunStatus
from toolgrade.formats import Answer, read_responses_answer
from toolgrade_openai_agents import _errors, _messages, _states, _tools, _wrapping
from toolgrade_openai_agents._from_result import is_accepted_handoff, read_items
from toolgrade_openai_agents._run_tree import Recording, ToolRun, now

_WITHOUT_RESULT: Final = ("message", "function_call", "reasoning")
"""Types of the usual items of a model, which hold neither results nor tools."""


class Watcher:
    """Observes a recorded run, or one inside a tool of it.

    Attributes:
        recording: The recording of the run.
        builder: The builder of the recording.
        scope: The execution inside which the run goes on; `None` for the recorded run itself.
        has_no_hooks: No hooks could be attached, so that everything is read from the result.
        paused: The run ended by waiting for a person.
        wrapped: The objects whose attributes are wrapped for it, with the names of these.
        end_noted: The end of a streamed run was noted.
        input: The input that the run began with.
        waiting: Fingerprints of the calls that wait for a person.
        history: Fingerprints of the calls and results until the run paused.
        place: Its scope, and the branch that separates it from other runs in the same scope.
        response_ids: The ids of the model's responses, which later runs may continue.
        session: The session of the run.
    """

    def __init__(self, recording: Recording, scope: int | None = None) -> None:
        """Begin without observations."""
        self.recording = recording
        self.builder: RunBuilder = recording.builder
        self.scope = scope
        self.has_no_hooks = False
        self.paused = False
        self.wrapped: list[tuple[Any, str]] = []
        self.end_noted = False
        self.input: object = None
        self.waiting: list[str] = []
        self.history: list[str] = []
        self.response_ids: list[str] = []
        self.session: object = None
        # Runs that a tool starts at the same time are in one scope, and each has its own ids.
        self.place = Branch(scope, None if scope is None else next(recording.keys))
        self._has_trace = False
        self._asks_model = False
        self._answered = False
        self._answer: Any = None
        self._paused_items: list[Any] = []
        self._requests: list[Request] = []
        self._unknown: list[Request] = []
        self._handed_over: list[Request] = []
        self._offered: dict[int, tuple[Any, dict[str, Any]]] = {}
        """The tools of each agent by name; it holds the agent, since an id may be reused once an object is gone."""
        self._last_message: list[Request] = []
        self._running: list[ToolRun] = []
        self._runs_by_id: dict[str, ToolRun] = {}
        self._tool_spans: dict[int, tuple[Any, int]] = {}
        """The span and the key of each tool run; the span is held, since an id may be reused once an object is gone."""
        self._result_items: dict[str | None, Any] = {}
        """The items of the results that the model was shown, by the id of the call."""
        self._call_ids: dict[int, str | None] = {}
        self._exceptions: dict[int, BaseException] = {}
        self._mcp_errors: dict[int, str] = {}
        self._servers_by_tool: dict[str, str] = {}
        self._nested: list[Watcher] = []
        self._model_name: str | None = None

    # Beginning

    def began(self, input: object, agent: Any, run_config: Any) -> None:
        """Note the beginning of the run."""
        self.input = input
        self._model_name = _messages.model_name(agent, run_config)
        if self.scope is None:
            self.builder.started(_messages.question_of(input), parts=_messages.images_of_question(input), at=now())
            metadata = _tools.field_of(run_config, "trace_metadata")
            self.builder.labelled(
                metadata={**_states.trace_of(run_config), **(metadata if isinstance(metadata, Mapping) else {})}
            )

    def resumed(self) -> None:
        """Note that the run goes on after an interruption."""
        self.paused = self.end_noted = self._answered = False
        if self.scope is None:
            self.builder.resumed()

    def continues(self, items: Sequence[Any], responses: Sequence[Any]) -> None:
        """Note the items and responses of the unobserved run that this run goes on with."""
        self._requests += read_items(self.builder, items, responses, scope=self.place, interrupted=True)

    def watch_inside(self, key: int, input: object) -> Watcher:
        """Return the watcher of a run that a tool starts, or of the paused run that the tool goes on with."""
        if _states.is_state(input):
            # Some releases start the tool again when the run goes on: as another execution of the same call.
            call_id = self._call_ids.get(key)
            keys = {key, *(other for other, other_id in self._call_ids.items() if call_id and other_id == call_id)}
            paused = [nested for nested in self._nested if nested.scope in keys and nested.paused]
            same = paused_run(paused, input) or (paused[0] if len(paused) == 1 else None)
            if same is not None:
                return same
        self._nested.append(Watcher(self.recording, key))
        return self._nested[-1]

    def ended_with(self, items: Sequence[Any]) -> bool:
        """Return whether the run paused with just these items; equal items of another run do not count."""
        return bool(items) and bool(self._paused_items) and items[0] is self._paused_items[0]

    def offered(self, agent: Any, tools: Iterable[Any]) -> None:
        """Note the tools that an agent offers its model."""
        tools = list(tools)
        _, earlier = self._offered.get(id(agent), (None, {}))
        # The SDK collects the tools before each request for the model: mostly they are those of the request before.
        if earlier and len(tools) == len(earlier) and all(map(operator.is_, tools, earlier.values())):
            return
        for tool in tools:
            server = _tools.mcp_server(agent, tool)
            if server is not None:
                self._servers_by_tool[_tools.tool_name(tool)] = server
        self._offered[id(agent)] = agent, {_tools.tool_name(tool): tool for tool in tools}
        tools = [tool for tool in tools if earlier.get(_tools.tool_name(tool)) is not tool]
        specs = [spec for spec in (_tools.spec_of(agent, tool) for tool in tools) if spec is not None]
        # Each agent has tools of its own, so the tools of the run do not show which call is of an unknown one.
        self.builder.offered(specs, scope=self.scope, all_known=self.has_no_hooks)

    def wrap(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Wrap an attribute of a shared object until the run ends."""
        is_wrapped = any(holder is other and name == other_name for other, other_name in self.wrapped)
        if not is_wrapped and _wrapping.wrap(holder, name, make):
            self.wrapped.append((holder, name))

    # Hooks, under the SDK's names

    def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any = None, input_items: Any = (), **_more: Any
    ) -> None:
        """Note the results that the model is shown for the first time, and the trace that has begun."""
        self._asks_model = True
        if self.scope is None and not self._has_trace:
            self._has_trace = True
            for name, value in _states.trace_of(None).items():
                if name not in self.builder.metadata:
                    self.builder.labelled(metadata={name: value})
        if self._requests:
            for item, answer in _messages.new_results(input_items):
                self._add_result(answer)
                self._result_items[_tools.field_of(item, "call_id")] = item

    def on_llm_end(self, context: Any, agent: Any, response: Any, **_more: Any) -> None:
        """Note the calls that the model requested, and its usage."""
        self._asks_model = False
        output = list(getattr(response, "output", ()))
        requests = self._new_requests(output, agent)
        self.builder.model_asked(requests, scope=self.place, agent=_messages.agent_name(agent))
        response_id = getattr(response, "response_id", None)
        if isinstance(response_id, str) and response_id:
            self.response_ids.append(response_id)
        self.builder.model_used(_messages.model_name(agent, None) or self._model_name, _messages.usage_of(response))
        self._last_message = requests
        self._release_ids({request.id for request in requests})
        self._requests += requests
        self._unknown += [request for request in requests if self._is_unknown(request, agent)]
        targets = _tools.handoff_targets(agent) if requests else {}
        for request in requests:
            # A handoff that is not enabled gives way to a tool of its name.
            is_tool = (
                request.type is not ToolCallType.FUNCTION or request.server or self._is_offered(request.name, agent)
            )
            if request.name in targets and not is_tool:
                self._add_handoff(request, targets[request.name], took_place=False)
        for item in output:
            if getattr(item, "type", None) not in _WITHOUT_RESULT:
                self._add_listed_tools(item)
                answer = read_responses_answer(item)
                if answer is not None:
                    self._add_result(answer, ran=True)

    def on_handoff(self, context: Any, from_agent: Any, to_agent: Any, **_more: Any) -> None:
        """Note that control passed to another agent, by the first of the message's requests to do so."""
        targets = _tools.handoff_targets(from_agent)
        to = _messages.agent_name(to_agent)
        # A run that goes on from a stored state has not seen the message, but the requests in the state.
        for candidates in (self._last_message, self._requests[::-1]):
            requests = [request for request in candidates if request.name in targets]
            # Others of the message may lead to agents that are not enabled, or the handoff chooses the agent itself.
            requests = [request for request in requests if targets[request.name] == to] or requests
            if requests:
                self._handed_over.append(requests[0])
                self._add_handoff(requests[0], to or targets[requests[0].name], took_place=True)
                return

    def on_tool_start(self, context: Any, agent: Any, tool: Any, **_more: Any) -> None:
        """Note that a local tool begins."""
        if self._carries_answer(_tools.tool_name(tool), agent):
            return
        call_id = getattr(context, "tool_call_id", None)
        self._start(tool, context, call_id if isinstance(call_id, str) and call_id else None, agent)

    def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any, **_more: Any) -> None:
        """Note what a local tool returned, or its failure, which the SDK has replaced by a text."""
        if self._carries_answer(_tools.tool_name(tool), agent):
            return
        run = self._find_run(context, tool)
        run = run or self._start(tool, context, getattr(context, "tool_call_id", None), agent)
        if any(nested.scope == run.key and nested.paused for nested in self._nested):
            # Some releases call this hook for a tool whose agent waits for a person.
            self._suspend(run)
            return
        error = self._error_of(run, result)
        run.failed = error is not None
        if run.failed:
            raised = self._exceptions.get(run.key, error)
            refused = _errors.is_refused_input(_tools.tool_name(tool), raised, result)
            self.builder.tool_failed(run.key, error, ran=not refused, at=now())
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

    def mcp_failed(self, text: str | None) -> None:
        """Note the error of the MCP server of the current tool; `None` if its last call succeeded."""
        key = self.enclosing(None)
        if key is not None and text is None:
            self._mcp_errors.pop(key, None)
        elif key is not None and text is not None:
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
        if id(span) in self._tool_spans and self.builder.is_open:  # a task that the tool left behind
            return self._tool_spans[id(span)][1]
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
        interruptions = list(getattr(result, "interruptions", None) or ())
        interrupted = bool(interruptions)
        self._complete(items, list(getattr(result, "raw_responses", ()) or ()), interrupted=interrupted)
        if interrupted:
            # What ran and has no result in the items waits for a person.
            answers = [read_responses_answer(_messages.raw_item(item)) for item in items]
            answered = {answer.call_id for answer in answers if answer is not None}
            for run in [run for run in self._running if run.call_id not in answered]:
                self._suspend(run)
        self.paused = interrupted or _messages.waits_for_approval(items)
        self._paused_items = items if self.paused else []
        if self.paused:  # else no state is of this run
            self.waiting, self.history = sorted(_states.fingerprints(interruptions)), _states.fingerprints(items)
        if self.scope is None:
            answer = None if self.paused else _messages.answer_of(getattr(result, "final_output", None))
            self.builder.ended(answer, may_wait=self.paused, at=now())

    def failed(self, error: BaseException) -> None:
        """Note the exception that ended the run, also on the calls that it concerns."""
        data = getattr(error, "run_data", None)
        self._complete(list(getattr(data, "new_items", ()) or ()), list(getattr(data, "raw_responses", ()) or ()))
        unknown = _errors.unknown_tool_name(error)
        for request in self._last_message:
            if request.name == unknown:
                self._add_failure(request, str(error), unknown_tool=True)
                unknown = None  # the exception is of the first one
            elif request in self._unknown:
                self._add_failure(request, None, unknown_tool=True)
        if type(error).__name__ == "ToolInputGuardrailTripwireTriggered":
            self._refused(error)
        if self._running and _errors.may_come_from_tool(error):
            self._blame_tool(error)
        if self._asks_model and type(error).__name__ == "ModelBehaviorError":
            self.builder.warn(
                "the SDK refused the model's last answer before the recorder could see it, so the calls that it "
                "requests are missing; none of them ran"
            )
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

    def _new_requests(self, output: Sequence[Any], agent: Any) -> list[Request]:
        """Return the calls of a message, without answers and without those that the SDK takes for repetitions."""
        requests: list[Request] = []
        for request in _messages.requests_in(output):
            if self._carries_answer(request.name, agent):
                continue
            if _messages.runs_repeated_calls_once() and _messages.is_repeated(request, [*self._requests, *requests]):
                self.builder.warn(_messages.repetition_warning(request))
            elif request.type is ToolCallType.FUNCTION and request.name in self._servers_by_tool:
                server = self._servers_by_tool[request.name]
                requests.append(replace(request, type=ToolCallType.MCP, server=server))
            else:
                requests.append(request)
        return requests

    def _release_ids(self, ids: Collection[str | None]) -> None:
        """Forget what became of earlier calls with these ids, which a new message uses again."""
        if not ids:
            return
        for call_id in ids:
            self._runs_by_id.pop(call_id or "", None)
            self._result_items.pop(call_id, None)
        self._unknown = [request for request in self._unknown if request.id not in ids]
        self._handed_over = [request for request in self._handed_over if request.id not in ids]

    def _add_listed_tools(self, item: Any) -> None:
        specs = _tools.listed_tools(item)
        if specs:
            self.builder.offered(specs, scope=self.scope, all_known=False)

    def _add_result(self, answer: Answer, *, ran: bool = False, reformatted: bool = False) -> None:
        """Note the result that the model is shown of a call; an approval is none."""
        if answer.approved:
            return
        run = self._runs_by_id.get(answer.call_id or "")
        if run is not None and answer.failed and not run.failed:
            run.failed = True
            self.builder.tool_failed(run.key, answer.error)
        missing, name = self._missing_tool(answer, run), answer.name
        if missing is not None:
            run, name = None, missing
        elif run is not None and any(request.id == answer.call_id for request in self._unknown):
            name = _tools.tool_name(run.tool)
        # Some releases show one result for equal calls of an unknown tool that share an id.
        equal = [request for request in self._unknown if (request.id, request.name) == (answer.call_id, missing)]
        for _ in equal or (answer,):
            self.builder.result_shown(
                answer.content,
                call_id=answer.call_id,
                name=name,
                failed=answer.failed or not (ran or run is not None or self._is_accepted_handoff(answer)),
                error=answer.error,
                unknown_tool=missing is not None,
                scope=self.place,
                ran=ran,
                reformatted=reformatted,
            )

    def _missing_tool(self, answer: Answer, run: ToolRun | None) -> str | None:
        """Return the unknown tool that a result is of; a call that ran may have the same id in the same message."""
        for request in self._unknown:
            is_named = str(answer.content).startswith(f"Tool {request.name!r} not found.")
            if request.id == answer.call_id and (run is None or is_named):
                return request.name
        return None

    def _add_handoff(self, request: Request, to: str, *, took_place: bool) -> None:
        self.builder.handed_off(to=to, request=request, took_place=took_place)

    def _is_offered(self, name: str, agent: Any) -> bool:
        """Return whether an agent is known to have a tool of this name, which is not a handoff."""
        return id(agent) in self._offered and name in self._offered[id(agent)][1]

    def _carries_answer(self, name: str, agent: Any) -> bool:
        """Return whether a call of this name is the agent's structured answer."""
        return _tools.carries_answer(name, agent) and not self._is_offered(name, agent)

    def _is_unknown(self, request: Request, agent: Any) -> bool:
        """Return whether the agent that a request is of has no tool of its name."""
        # Tools of the provider and of its servers are offered under other names, or under none.
        if id(agent) not in self._offered or request.type not in (ToolCallType.FUNCTION, ToolCallType.CUSTOM):
            return False
        return not self._is_offered(request.name, agent) and request.name not in _tools.handoff_targets(agent)

    def _is_accepted_handoff(self, answer: Answer) -> bool:
        """Return whether an output is the SDK's answer to a handoff that took place."""
        return any(request.id == answer.call_id for request in self._handed_over) or is_accepted_handoff(answer)

    def _add_failure(self, request: Request, error: str | None, *, unknown_tool: bool = False) -> None:
        self.builder.result_shown(
            ABSENT,
            call_id=request.id,
            failed=True,
            error=error,
            unknown_tool=unknown_tool,
            scope=self.place,
        )

    def _complete(self, items: Sequence[Any], responses: Sequence[Any], *, interrupted: bool = False) -> None:
        """Add what the result holds and no hook reported."""
        if self.has_no_hooks:
            self._requests += read_items(self.builder, items, responses, scope=self.place, interrupted=interrupted)
            return
        ids = [request.id for request in self._requests]
        for item in items:
            raw = _messages.raw_item(item)
            if getattr(raw, "type", None) in _WITHOUT_RESULT:
                continue
            call_id = _tools.field_of(raw, "call_id")
            if call_id in self._result_items and self._result_items[call_id] == raw and ids.count(call_id) == 1:
                continue
            self._add_listed_tools(raw)
            answer = read_responses_answer(raw)
            if answer is not None and ids.count(answer.call_id) == 1:
                run = self._runs_by_id.get(answer.call_id or "")
                self._add_result(answer, reformatted=run is None or not _tools.has_output_item(run.tool))

    # Running tools

    def _start(self, tool: Any, context: Any, call_id: str | None, agent: Any, *, name: str | None = None) -> ToolRun:
        name = _tools.tool_name(tool) if name is None else name
        call_id = call_id or self._next_id(name)
        run = ToolRun(next(self.recording.keys), call_id, tool, context, _states.current_span())
        self.builder.tool_started(
            run.key,
            ToolSpec(name=name, server=self._servers_by_tool.get(name)) if name else name,
            _tools.arguments_of(tool, context),
            call_id=call_id,
            scope=self.place,
            agent=_messages.agent_name(agent),
            at=now(),
        )
        self._running.append(run)
        if _states.is_tool_span(run.span):
            self._tool_spans[id(run.span)] = run.span, run.key
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
        same_call: ToolRun | None = None
        same_span: ToolRun | None = None
        for run in self._running:
            if call_id and run.context is context:
                return run
            if same_span is None and span is not None and run.span is span:
                same_span = run
            if same_call is None and (run.call_id == call_id if call_id else run.tool is tool):
                same_call = run
        return same_span or same_call

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
            self._add_failure(waiting[0], str(error))

    def _blame_tool(self, error: BaseException) -> None:
        """Mark the tool that ended the run with its exception: by its span, by name, or as the only one."""
        raised = (error, _errors.tool_exception(error))
        suspects = [run for run in self._running if self._exceptions.get(run.key) in raised]
        suspects = suspects or [run for run in self._running if _errors.span_error(run.span) is not None]
        suspects = suspects or [run for run in self._running if f" {_tools.tool_name(run.tool)}: " in str(error)]
        suspects = suspects or (self._running[:] if len(self._running) == 1 else [])
        if len(suspects) > 1:
            self.builder.warn(f"one of {len(suspects)} calls that ran at once ended the run; the first is marked")
        if suspects:
            cause = _errors.tool_exception(error)
            refused = _errors.is_refused_input(_tools.tool_name(suspects[0].tool), cause, None)
            self.builder.tool_failed(suspects[0].key, _errors.error_text(cause), ran=not refused, at=now())
            self._close(suspects[0])


def paused_run(watchers: Iterable[Watcher], state: Any, conversation: str | None = None) -> Watcher | None:
    """Return the paused run that a state continues; `None` if none fits.

    The state of a result has its items. One that was stored and loaded has other objects: then the question, the
    waiting calls, the calls and results before, and the conversation decide, in this order. Of runs that are equal in
    all of these the oldest goes on, with a warning.
    """
    watchers = list(watchers)
    items = _states.state_items(state)
    for watcher in reversed(watchers):
        if watcher.ended_with(items):
            return watcher
    question = _messages.question_of(_states.state_input(state))
    waiting, history = sorted(_states.fingerprints(state.get_interruptions())), _states.fingerprints(items)
    fitting = [
        watcher
        for watcher in watchers
        if waiting and watcher.waiting == waiting and _messages.question_of(watcher.input) == question
    ]
    for narrower in (
        [watcher for watcher in fitting if watcher.history == history],
        [watcher for watcher in fitting if watcher.builder.conversation_id == conversation],
    ):
        fitting = [watcher for watcher in fitting if watcher in narrower] or fitting
    if len(fitting) > 1:
        text = f"{len(fitting)} waiting runs fit the resumed state, with equal calls and results"
        for watcher in fitting:  # each may have what belongs to another
            watcher.builder.warn(f"{text}; the oldest was continued")
    return fitting[0] if fitting else None
