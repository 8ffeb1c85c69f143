"""Observations of one run: hooks, model inputs and results in, calls of a `RunBuilder` out.

Three sources are combined, since each one misses something: hooks show what a model requested and which local tools
ran, the input of the next model request shows what the model was told, and the finished result has the rest. For an
agent that calls a tool, they come in this order:

    began            the input
    offered          the tools, before each request for the model
    on_llm_start     the instructions
    on_llm_end       the requests of the model, and its usage
    on_tool_start    an execution of a request
    on_tool_end      what the tool returned
    on_llm_start     the results that the model is shown now
    on_llm_end       no further requests
    on_agent_end     the final answer
    finished         what no hook showed, such as the result of a tool that the provider ran

The recorder calls every method, under its lock, and turns errors into warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from agents.tracing import get_current_span

from toolgrade import ToolCallType
from toolgrade.calls import ToolSpec
from toolgrade.capture import ABSENT, Branch, Outcome, Request, RunBuilder
from toolgrade.capture.doubles import is_replaying
from toolgrade.cases import RunStatus
from toolgrade.formats import Answer, read_responses_answer
from toolgrade_openai_agents import _errors, _messages, _states, _tools, _wrapping
from toolgrade_openai_agents._from_result import history_of, is_accepted_handoff
from toolgrade_openai_agents._run_tree import LocalRun, RequestsWithId, RunnerRecording, now

_WITHOUT_RESULT: Final = ("message", "function_call", "reasoning")
"""Types of the usual items of a model, which hold neither results nor tools."""


class RunWatcher:
    """Observes a recorded run, or one inside a tool of it.

    Attributes:
        recording: The recording of the run.
        builder: The builder of the recording.
        scope: The execution of a tool inside which the run goes on; `None` for the recorded run itself.
        has_no_hooks: No hooks could be attached, so everything is read from the result.
        paused: The run ended by waiting for a person.
        wrapped: Objects, each with the name of an attribute of it that is wrapped until the run ends.
        end_noted: The end of a streamed run was noted.
        input: The input that the run began with.
        waiting: Fingerprints of the calls that wait for a person.
        history: Fingerprints of the calls and results until the run paused.
        place: The scope, and the branch that separates this run from others in the same scope.
        response_ids: The ids of the model's responses, which later runs may continue.
        session: The session of the run.
    """

    def __init__(self, recording: RunnerRecording, scope: int | None = None) -> None:
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
        """A model was asked and has not answered."""
        self._answered = False
        self._answer: Any = None
        """The final answer, once an agent has answered."""
        self._paused_items: list[Any] = []
        """The items of the result with which the run paused."""
        self._requests: list[Request] = []
        """The requests of all messages."""
        self._last_message: list[Request] = []
        """The requests of the newest message."""
        self._by_id: dict[str | None, RequestsWithId] = {}
        """The requests of the newest message that has the id."""
        self._tools_of: dict[int, tuple[Any, dict[str, Any]]] = {}
        """Agents and their tools by name, by the identity of the agent; the agent is kept, so that no other gets it."""
        self._runs: dict[int, LocalRun] = {}
        """All executions of tools, by their keys."""
        self._running: list[LocalRun] = []
        """The executions that have not ended."""
        self._servers_by_tool: dict[str, str] = {}
        self._nested: list[RunWatcher] = []
        """The watchers of runs that tools of this run began."""
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
        history = history_of(items, responses, interrupted=True)
        self._requests += self.builder.continue_from(history, scope=self.place)

    def watch_inside(self, key: int, input: object) -> RunWatcher:
        """Return the watcher of a run that a tool starts, or of the paused run that the tool resumes.

        Args:
            key: The execution of the tool.
            input: The input of the run.
        """
        if _states.is_state(input):
            # Some releases start the tool again when the run goes on: as another execution of the same call.
            call_id = self._runs[key].call_id
            keys = {key, *(run.key for run in self._runs.values() if call_id and run.call_id == call_id)}
            paused = [nested for nested in self._nested if nested.scope in keys and nested.paused]
            same = paused_run(paused, input) or (paused[0] if len(paused) == 1 else None)
            if same is not None:
                return same
        self._nested.append(RunWatcher(self.recording, key))
        return self._nested[-1]

    def ended_with(self, items: Sequence[Any]) -> bool:
        """Return whether the run paused with these very items; equal items of another run do not count."""
        return bool(items) and bool(self._paused_items) and items[0] is self._paused_items[0]

    def waits_for(self, calls: Sequence[str], question: str | None) -> bool:
        """Return whether the run paused with these fingerprints of waiting calls, after this question."""
        return self.waiting == calls and _messages.question_of(self.input) == question

    def offered(self, agent: Any, tools: Iterable[Any]) -> None:
        """Note the tools that an agent offers its model."""
        tools = list(tools)
        _, earlier = self._tools_of.get(id(agent), (None, {}))
        # The SDK collects the tools before each request for the model: mostly they are those of the request before.
        if earlier and list(map(id, tools)) == list(map(id, earlier.values())):
            return
        servers = ((_tools.tool_name(tool), _tools.mcp_server(agent, tool)) for tool in tools)
        self._servers_by_tool.update((name, server) for name, server in servers if server is not None)
        self._tools_of[id(agent)] = agent, {_tools.tool_name(tool): tool for tool in tools}
        tools = [tool for tool in tools if earlier.get(_tools.tool_name(tool)) is not tool]
        specs = [spec for spec in (_tools.spec_of(agent, tool) for tool in tools) if spec is not None]
        # Each agent has tools of its own, so the tools of the run do not show which call is of an unknown one.
        self.builder.offered(specs, scope=self.scope, all_known=self.has_no_hooks)

    def offered_tools(self) -> list[tuple[Any, list[Any]]]:
        """Return the agents that offered tools, each with its tools."""
        return [(agent, list(tools.values())) for agent, tools in self._tools_of.values()]

    def wrap(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Wrap an attribute of a shared object until the run ends."""
        is_wrapped = any(holder is other and name == other_name for other, other_name in self.wrapped)
        if not is_wrapped and _wrapping.wrap(holder, name, make):
            self.wrapped.append((holder, name))

    # Hooks, under the SDK's names

    def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any = None, input_items: Any = (), **_more: Any
    ) -> None:
        """Note the system prompt, the results that the model is shown for the first time, and the trace."""
        self._asks_model = True
        for prompt in (system_prompt, *_messages.prompts_in(input_items)):
            self.builder.instructed(prompt, scope=self.scope)
        if self.scope is None and not self._has_trace:
            self._has_trace = True
            for name, value in _states.trace_of(None).items():
                if name not in self.builder.metadata:
                    self.builder.labelled(metadata={name: value})
        if self._requests:
            for item, answer in _messages.new_results(input_items):
                self._add_result(answer)
                self._with_id(_tools.field_of(item, "call_id")).result = item

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
        self._add_requests(requests, agent)
        for item in output:
            if getattr(item, "type", None) not in _WITHOUT_RESULT:
                self._add_listed_tools(item)
                answer = read_responses_answer(item)
                if answer is not None:
                    self._add_result(answer, ran=True)

    def on_handoff(self, context: Any, from_agent: Any, to_agent: Any, **_more: Any) -> None:
        """Note that control passed to another agent, by the first of the message's requests to do so."""
        targets, to = _tools.handoff_targets(from_agent), _messages.agent_name(to_agent)
        # A run that goes on from a stored state has not seen the message, but the requests in the state.
        for candidates in (self._last_message, self._requests[::-1]):
            requests = [request for request in candidates if request.name in targets]
            # Other requests of the message may lead to agents that are not enabled. If none leads to this agent, the
            # function of the handoff has chosen it.
            requests = [request for request in requests if targets[request.name] == to] or requests
            if requests:
                self._with_id(requests[0].id).handed_over = True
                self.builder.handed_off(to=to or targets[requests[0].name], request=requests[0])
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
        refused = _tools.refuses_arguments(tool, context, result)
        error = self._error_of(run, result) or (str(result) if refused else None)
        run.failed = error is not None
        if run.failed:
            refused = refused or _errors.is_refused_input(_tools.tool_name(tool), run.exception or error, result)
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
        run = next((run for run in self._running if run.context is context), None)
        run = run or self._with_id(call_id).run
        if run is not None:
            run.exception = error

    def tool_replayed(self, tool: Any, context: Any, answer: Any) -> None:
        """Note that a recording answered a tool in its place."""
        run = self._find_run(context, tool)
        if run is not None:
            self.builder.tool_replayed(run.key, answer)

    def body_raised(self, tool: Any, context: Any, error: BaseException) -> None:
        """Note the exception of a tool that runs while a tape is open."""
        run = self._find_run(context, tool)
        if run is not None:
            run.exception = error

    def mcp_failed(self, text: str | None) -> None:
        """Note the error of the MCP server of the current tool; `None` if its last call succeeded."""
        key = self.enclosing(None)
        if key is not None:
            self._runs[key].server_error = text

    def enclosing(self, context: Any) -> int | None:
        """Return the key of the tool that the caller runs in; `None` outside of any tool.

        Args:
            context: The `context` of a run that begins here; agents that serve as tools pass on their tool's context.
        """
        run = self._run_around(get_current_span())
        call_id = getattr(context, "tool_call_id", None)
        if run is None and isinstance(call_id, str) and call_id:
            run = self._with_id(call_id).run
            if run is None and any(request.id == call_id for request in self._requests):
                # It began before the run was interrupted.
                run = self._start(None, context, call_id, None, name=getattr(context, "tool_name", ""))
        return None if run is None else run.key

    def _run_around(self, span: Any) -> LocalRun | None:
        """Return the tool run that a span is of, or is inside of."""
        if span is None:
            return None
        parent = getattr(span, "parent_id", None)
        if not isinstance(parent, str) or parent == "no-op":  # without tracing, all spans have this id
            parent = span
        run = _first(self._running, lambda run: run.span is span, lambda run: getattr(run.span, "span_id", 0) == parent)
        if run is None and self.builder.is_open and _states.is_tool_span(span):  # a task that the tool left behind
            run = _first(reversed(self._runs.values()), lambda run: run.span is span)
        return run

    # End

    def finished(self, result: Any) -> None:
        """Note the result of the run, which ended or waits for a person."""
        items = list(getattr(result, "new_items", ()) or ())
        interruptions = list(getattr(result, "interruptions", None) or ())
        interrupted = bool(interruptions)
        self._complete(items, list(getattr(result, "raw_responses", ()) or ()), interrupted=interrupted)
        if interrupted:
            self._suspend_unanswered(items)
        self.paused = interrupted or _messages.waits_for_approval(items)
        self._paused_items = items if self.paused else []
        if self.paused:  # else no state is of this run
            self.waiting, self.history = sorted(_states.fingerprints(interruptions)), _states.fingerprints(items)
        if self.scope is None:
            answer = None if self.paused else _messages.answer_of(getattr(result, "final_output", None))
            self.builder.ended(answer, may_wait=self.paused, at=now())

    def _suspend_unanswered(self, items: Sequence[Any]) -> None:
        """Suspend the tools that ran and have no result in the items: they wait for a person."""
        answers = [read_responses_answer(_messages.raw_item(item)) for item in items]
        answered = {answer.call_id for answer in answers if answer is not None}
        for run in [run for run in self._running if run.call_id not in answered]:
            self._suspend(run)

    def failed(self, error: BaseException) -> None:
        """Note the exception that ended the run, also on the calls that it concerns."""
        data = getattr(error, "run_data", None)
        self._complete(list(getattr(data, "new_items", ()) or ()), list(getattr(data, "raw_responses", ()) or ()))
        self._mark_unknown(error)
        if type(error).__name__ == "ToolInputGuardrailTripwireTriggered":
            self._mark_refused(error)
        if self._running and _errors.may_come_from_tool(error):
            self._blame_tool(error)
        if self._asks_model and type(error).__name__ == "ModelBehaviorError":
            self.builder.warn(
                "the SDK refused the model's last answer before the recorder could see it, so the calls that it "
                "requests are missing; none of them ran"
            )
        if self.scope is None:
            self.builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error), at=now())

    def _mark_unknown(self, error: BaseException) -> None:
        """Record the calls of unknown tools in the newest message as failed, if such a call ended the run."""
        name = _errors.unknown_tool_name(error)
        named = next((request for request in self._last_message if request.name == name), None)
        for request in self._last_message:
            if request is named or request in self._with_id(request.id).unknown:
                text = str(error) if request is named else None
                self._add_failure(request, text, unknown_tool=True)

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
            self.finished(SimpleNamespace(final_output=self._answer))
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

    def _add_requests(self, requests: list[Request], agent: Any) -> None:
        """Note the requests of a new message, which may use the ids of earlier ones again."""
        self._last_message = requests
        self._requests += requests
        self._by_id |= {request.id: RequestsWithId() for request in requests}
        targets = _tools.handoff_targets(agent)
        for request in requests:
            same = self._with_id(request.id)
            same.requests.append(request)
            if request.type is ToolCallType.HOSTED and is_replaying():
                self.builder.warn(f"{request.name} is run by the provider of the model, and not replayed")
            if self._is_unknown(request, agent):
                same.unknown.append(request)
            # A handoff that is not enabled gives way to a tool of its name.
            is_tool = (
                request.type is not ToolCallType.FUNCTION or request.server or self._is_offered(request.name, agent)
            )
            if request.name in targets and not is_tool:
                self.builder.handed_off(to=targets[request.name], request=request, took_place=False)

    def _with_id(self, call_id: str | None) -> RequestsWithId:
        """Return the requests of the newest message that has an id, and what became of them."""
        return self._by_id.setdefault(call_id, RequestsWithId())

    def _add_listed_tools(self, item: Any) -> None:
        specs = _tools.listed_tools(item)
        if specs:
            self.builder.offered(specs, scope=self.scope, all_known=False)

    def _add_result(self, answer: Answer, *, ran: bool = False, reformatted: bool = False) -> None:
        """Note the result of a call that the model is shown; the approval of a call is not a result.

        Args:
            answer: The result.
            ran: The provider ran the tool.
            reformatted: The SDK may have changed the form of the result.
        """
        if answer.approved:
            return
        same = self._with_id(answer.call_id)
        if same.run is not None and answer.failed and not same.run.failed:
            same.run.failed = True
            self.builder.tool_failed(same.run.key, answer.error)
        missing = _missing_in(same, answer)
        for request in missing:
            self._add_failure(request, answer.error, answer.content, unknown_tool=True)
        if missing:
            return
        succeeded = ran or same.has_run or is_accepted_handoff(answer)
        self.builder.result_shown(
            answer.content,
            request=same.of_tools or None,
            call_id=answer.call_id,
            name=answer.name,
            scope=self.place,
            failed=answer.failed or not succeeded,
            error=answer.error,
            ran=ran,
            reformatted=reformatted,
        )

    def _add_failure(
        self, request: Request, error: str | None, content: object = ABSENT, *, unknown_tool: bool = False
    ) -> None:
        self.builder.result_shown(content, request=request, failed=True, error=error, unknown_tool=unknown_tool)

    def _is_offered(self, name: str, agent: Any) -> bool:
        """Return whether an agent is known to have a tool of this name, which is not a handoff."""
        return id(agent) in self._tools_of and name in self._tools_of[id(agent)][1]

    def _carries_answer(self, name: str, agent: Any) -> bool:
        """Return whether a call of this name is the agent's structured answer."""
        return _tools.carries_answer(name, agent) and not self._is_offered(name, agent)

    def _is_unknown(self, request: Request, agent: Any) -> bool:
        """Return whether the agent that a request is of has no tool of its name."""
        # Tools of the provider and of its servers are offered under other names, or under none.
        if id(agent) not in self._tools_of or request.type not in (ToolCallType.FUNCTION, ToolCallType.CUSTOM):
            return False
        return not self._is_offered(request.name, agent) and request.name not in _tools.handoff_targets(agent)

    def _complete(self, items: Sequence[Any], responses: Sequence[Any], *, interrupted: bool = False) -> None:
        """Add what the result holds and no hook reported."""
        if self.has_no_hooks:
            history = history_of(items, responses, interrupted=interrupted)
            self._requests += self.builder.continue_from(history, scope=self.place)
            return
        counts = Counter(request.id for request in self._requests)
        for raw in map(_messages.raw_item, items):
            if getattr(raw, "type", None) in _WITHOUT_RESULT:
                continue
            call_id = _tools.field_of(raw, "call_id")
            if counts[call_id] == 1 and self._with_id(call_id).result == raw:
                continue
            self._add_listed_tools(raw)
            answer = read_responses_answer(raw)
            if answer is not None and counts[answer.call_id] == 1:
                run = self._with_id(answer.call_id).run
                self._add_result(answer, reformatted=run is None or not _tools.has_output_item(run.tool))

    # Running tools

    def _start(self, tool: Any, context: Any, call_id: str | None, agent: Any, *, name: str | None = None) -> LocalRun:
        """Note that a tool begins, by its call or, in releases whose hooks name no call, by its name."""
        name = _tools.tool_name(tool) if name is None else name
        requests = self._with_id(call_id).requests if call_id else self._next_requests(name)
        if not call_id and requests:
            call_id = requests[0].id
        run = LocalRun(
            key=next(self.recording.keys), call_id=call_id, tool=tool, context=context, span=get_current_span()
        )
        # The SDK's own tools are requested under other names than their objects have.
        name = requests[0].name if len(requests) == 1 else name
        self.builder.tool_started(
            run.key,
            ToolSpec(name=name, server=self._servers_by_tool.get(name)) if name else name,
            _tools.arguments_of(tool, context),
            request=requests or None,
            call_id=call_id,
            scope=self.place,
            agent=_messages.agent_name(agent),
            at=now(),
        )
        self._running.append(run)
        self._runs[run.key] = run
        if call_id is not None:
            self._with_id(call_id).run = run
        return run

    def _next_requests(self, name: str) -> list[Request]:
        """Return the first request of this name for which nothing ran; at most one."""
        for request in self._requests:
            if request.name == name and request.id and self._waits(request):
                return [request]
        return []

    def _waits(self, request: Request) -> bool:
        """Return whether nothing ran for a request, whose tool runs in this process."""
        return _messages.has_own_result(request) and self._with_id(request.id).run is None

    def _find_run(self, context: Any, tool: Any) -> LocalRun | None:
        """Return the tool run that a hook reports on, by the best evidence that the release offers."""
        span, call_id = get_current_span(), getattr(context, "tool_call_id", None)
        return _first(
            self._running,
            lambda run: bool(call_id) and run.context is context,
            lambda run: span is not None and run.span is span,
            lambda run: run.call_id == call_id if call_id else run.tool is tool,
        )

    def _error_of(self, run: LocalRun, result: object) -> str | None:
        """Return the error of a tool as precisely as it can be seen; `None` if the tool succeeded."""
        if run.server_error is not None:
            return run.server_error
        if run.exception is not None:
            return _errors.error_text(run.exception)
        text = _errors.span_error(run.span)
        if text is not None:
            return text or (result if isinstance(result, str) else None) or "the tool failed"
        return _errors.default_error_text(result)

    def _close(self, run: LocalRun) -> None:
        """Note that an execution ended, and release what it holds."""
        if run in self._running:
            self._running.remove(run)
        run.exception = run.server_error = run.context = None

    def _suspend(self, run: LocalRun) -> None:
        """Note that an execution waits for a person."""
        self.builder.tool_failed(run.key, None, outcome=Outcome.SUSPENDED)
        if run in self._running:
            self._running.remove(run)

    def _mark_refused(self, error: BaseException) -> None:
        """Record as failed the call that a guardrail kept from running; the exception does not name it."""
        waiting = [request for request in self._last_message if self._waits(request)]
        if len(waiting) > 1:
            self.builder.warn(f"a guardrail refused one of {len(waiting)} calls; the first is marked")
        if waiting:
            self._add_failure(waiting[0], str(error))

    def _blame_tool(self, error: BaseException) -> None:
        """Record as failed the tool whose exception ended the run: that with the surest evidence."""
        cause = _errors.tool_exception(error)
        # The surest evidence first: the exception itself, an error in the span, the name, that no other tool runs.
        tests: list[Callable[[LocalRun], bool]] = [
            lambda run: run.exception in (error, cause),
            lambda run: _errors.span_error(run.span) is not None,
            lambda run: f" {_tools.tool_name(run.tool)}: " in str(error),
            lambda _: len(self._running) == 1,
        ]
        suspects = next(filter(None, ([run for run in self._running if test(run)] for test in tests)), [])
        if len(suspects) > 1:
            self.builder.warn(f"one of {len(suspects)} calls that ran at once ended the run; the first is marked")
        for run in suspects[:1]:
            refused = _tools.refuses_arguments(run.tool, run.context, None) or _errors.is_refused_input(
                _tools.tool_name(run.tool), cause, None
            )
            self.builder.tool_failed(run.key, _errors.error_text(cause), ran=not refused, at=now())
            self._close(run)


def paused_run(watchers: Iterable[RunWatcher], state: Any, conversation: str | None = None) -> RunWatcher | None:
    """Return the paused run that a state continues; `None` if none fits.

    A state that a result returned has the very items of that result. A state that was stored and loaded has other
    objects: then the question and the waiting calls must be equal, and the calls and results before, and after those
    the conversation, choose among several such runs. If several are left, the oldest goes on, with a warning.
    """
    watchers, items = list(watchers), _states.state_items(state)
    same = [watcher for watcher in watchers if watcher.ended_with(items)]
    if same:
        return same[-1]
    waiting, history = sorted(_states.fingerprints(state.get_interruptions())), _states.fingerprints(items)
    question = _messages.question_of(_states.state_input(state))
    fitting = [watcher for watcher in watchers if waiting and watcher.waits_for(waiting, question)]
    for test in (
        lambda watcher: watcher.history == history,
        lambda watcher: watcher.builder.conversation_id == conversation,
    ):
        fitting = list(filter(test, fitting)) or fitting
    if len(fitting) > 1:
        text = f"{len(fitting)} waiting runs fit the resumed state, with equal calls and results"
        for watcher in fitting:  # each may have what belongs to another
            watcher.builder.warn(f"{text}; the oldest was continued")
    return fitting[0] if fitting else None


def _first(runs: Iterable[LocalRun], *tests: Callable[[LocalRun], bool]) -> LocalRun | None:
    """Return the first run that passes the first test; if no run passes it, the same by the next test."""
    runs = list(runs)
    return next((run for test in tests for run in runs if test(run)), None)


def _missing_in(same: RequestsWithId, answer: Answer) -> list[Request]:
    """Return the requests of an unknown tool that a result answers; a call that ran may have the same id.

    Mostly it is one request. Some releases show one result for equal calls of an unknown tool that share an id.
    """
    for request in same.unknown:
        if same.run is None or _messages.is_of_unknown(answer, request):
            return [other for other in same.unknown if other.name == request.name]
    return []
