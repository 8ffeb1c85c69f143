"""`RunBuilder`: turns observations of an agent into a `Run`. Every adapter and reader uses it.

A recorder reports what it observes, in that order: a model requested calls, a tool started, ended or failed, the model
received a result, the run ended. The builder knows no framework, does no I/O, and does not wait. It decides what
belongs together:

- A *call* is what a model requested. Calls are ordered by message and position in it, never by when tools ran.
- An *execution* belongs to the `Request` that the recorder names. Only where it names none does the builder search, in
  the same scope and branch, by id: first the newest message, then a request not yet executed, then one with equal
  arguments. Ids are not unique; they repeat across messages, and even within one. A further execution of the same
  request is another attempt. An execution without a request is a call made by code.
- A *scope* is the enclosing execution: requests and executions inside it are children of its call. A `Branch` is one of
  several agents that run in one scope at the same time.
- Nothing is final before `build`, which may be called at any time and repeatedly: a tool may end after its run, and an
  interrupted run may be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from sys import getsizeof
from typing import Any, Final, cast

from toolgrade._internal.json import JsonObject, is_unicode, json_items, short_repr
from toolgrade._internal.message_content import is_tool_search
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import plural
from toolgrade.calls import CallOrigin, CallStatus, ToolCall, ToolCallType, ToolSpec, read_tool_spec
from toolgrade.capture.call_builder import (
    RunState,
    build_calls,
    in_order,
    is_waiting,
    record_of,
    seconds_between,
)
from toolgrade.capture.doubles import Answer
from toolgrade.capture.input_parts import texts_in
from toolgrade.capture.records import (
    Attempt,
    Branch,
    CallRecord,
    Key,
    ModelResult,
    Outcome,
    Request,
    json_value,
)
from toolgrade.capture.request_pairing import (
    answered_call,
    answering_scopes,
    calls_within,
    is_within,
    newest_requests,
    newest_with_id,
    requested_call,
)
from toolgrade.cases import Handoff, MLLMImage, Run, RunStatus, joined_instructions
from toolgrade.errors import InvalidDataError
from toolgrade.matching.json_compare import ABSENT

_MODEL: Final = CallOrigin.MODEL  # Python 3.11 takes long to look up a member of an enumeration

_MOST_TOKENS: Final = 2**63
"""A larger token count is a mistake, and could not be written."""

_MOST_WARNINGS: Final = 100

_TEXT_FIELDS: Final = (
    *("name", "id", "server", "error", "failure"),
    *("replaces", "caller", "source", "reasoning"),
)
"""Fields of a `Request` that are text or `None`."""


class RunBuilder:
    """Builds one run from observations. Not thread-safe: a recorder that is called from several threads locks.

    Attributes:
        run_id: Id of the run.
        conversation_id: Id of the conversation that the run belongs to.
        tags: Labels of the run.
        metadata: JSON values about the run, never scored.
        warnings: What was not understood or not captured.

    Example:
        >>> from toolgrade.capture import Request, RunBuilder
        >>> builder = RunBuilder()
        >>> builder.started("What is the weather in Paris?")
        >>> builder.model_asked([Request("get_weather", {"city": "Paris"}, id="c1")])
        >>> _ = builder.tool_started("first", "get_weather", {"city": "Paris"}, call_id="c1")
        >>> builder.tool_ended("first", "sunny")
        >>> builder.ended("It is sunny in Paris.")
        >>> [(call.name, call.arguments, call.output) for call in builder.build().calls]
        [('get_weather', {'city': 'Paris'}, 'sunny')]
    """

    def __init__(self, *, run_id: str | None = None, conversation_id: str | None = None) -> None:
        """Start without observations."""
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.tags: list[str] = []
        self.metadata: JsonObject = {}
        self.warnings: list[str] = []
        self._further_warnings = 0
        self._models: dict[str, None] = {}
        self._usage: dict[str, int] = {}
        self._input: str | None = None
        self._input_parts: list[str | MLLMImage] | None = None
        self._output: str | None = None
        self._status = RunStatus.OK
        self._error: str | None = None
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._ended = False
        self._may_wait = False
        self._root = CallRecord(name="run", order=(0, 0), scope=None, origin=CallOrigin.CODE)
        self._calls: list[CallRecord] = []
        self._by_key: dict[Key | None, tuple[CallRecord, Attempt]] = {}
        self._by_request: dict[int, CallRecord] = {}
        """Calls by the `id` of their request, which each of them holds."""
        self._by_id: dict[str, list[CallRecord]] = {}
        self._tools: dict[str, ToolSpec] = {}
        self._instructions: dict[str, None] = {}
        self._unmatched_handoffs: list[str | None] = []
        self._messages = 0
        """Numbers model messages and executions of code in the order in which they were observed."""

    # The run

    def started(
        self,
        input: str | None = None,
        *,
        parts: Sequence[str | MLLMImage] | None = None,
        at: datetime | None = None,
    ) -> None:
        """Record the start of the run, with the user's input.

        Args:
            input: The user's text; by default the texts of `parts`, joined.
            parts: The texts and images of the input in their order, as `image_parts` returns them; `None` if it has no
                image.
            at: Time of the start.
        """
        if parts is not None:
            self._set_input_parts(parts)
        if input is not None:
            self._input = self._text(input, "input")
        self._started_at = self._started_at or at

    def _set_input_parts(self, parts: Sequence[object]) -> None:
        # A recorder may pass anything, and must not raise.
        self._input_parts = [part for part in parts if isinstance(part, (str, MLLMImage))]
        if len(self._input_parts) < len(parts):
            self.warn("parts of the input are neither text nor an MLLMImage; they were left out")
        self._input = "".join(texts_in(self._input_parts)) or self._input

    def ended(
        self,
        output: str | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
        at: datetime | None = None,
    ) -> None:
        """Record the end of the run.

        Args:
            output: The final answer, if there is one.
            status: How the run ended.
            error: `"TypeName: text"` of the exception, or the text of what stopped the run.
            may_wait: The framework suspends runs by ending them. If calls of the last model message are unanswered,
                they are pending and the run is interrupted.
            at: Time of the end.
        """
        self._ended = True
        self._output, self._error = self._text(output, "output"), self._text(error, "error")
        self._status, self._may_wait = status, may_wait
        self._ended_at = at or self._ended_at

    def resumed(self) -> None:
        """Continue the run after an interruption; later observations belong to it."""
        self._ended = False
        self._output, self._status, self._error, self._may_wait = None, RunStatus.OK, None, False

    def continue_from(self, run: Run, *, scope: Key | Branch | None = None) -> list[Request]:
        """Take over the history of a run that goes on here: its calls, offered tools, system prompt and warnings.

        An execution, a result or a hand-off that is observed later may belong to one of these calls, such as to one
        that waits for a person.

        Args:
            run: The run so far, as somebody else recorded it, or as its saved state shows it.
            scope: The execution inside which it went on, or a branch of it; at the top level (`None`), its input is
                that of the run, unless that has one.

        Returns:
            The requests of its calls, in their order, as handles.

        Example:
            >>> from toolgrade.capture import Request, RunBuilder
            >>> earlier = RunBuilder()
            >>> earlier.started("Delete it.")
            >>> earlier.model_asked([Request("delete", {"path": "a"}, id="c1")])
            >>> earlier.ended(may_wait=True)  # a person has to approve the call
            >>> later = RunBuilder()
            >>> [request] = later.continue_from(earlier.build())
            >>> _ = later.tool_started("t1", "delete", {"path": "a"}, request=request)
            >>> later.tool_ended("t1", "deleted")
            >>> later.ended("It is deleted.")
            >>> [(call.id, call.output) for call in later.build().calls]
            [('c1', 'deleted')]
        """
        outer, branch = self._scope(scope)
        if outer is self._root and self._input is None:
            self._input, self._input_parts = run.input, list(run.input_parts or ()) or None
        self.offered(run.available_tools or (), scope=scope, all_known=False)
        self.instructed(run.instructions, scope=scope)
        for warning in run.warnings:
            self.warn(warning)
        records = self._add_history(run.calls, outer, branch)
        self._add_handoffs(run, records)
        return [record.handle for record in records if record.handle is not None]

    def _add_handoffs(self, run: Run, records: Sequence[CallRecord]) -> None:
        """Add the hand-offs of an earlier run, with the records of its calls."""
        for handoff in run.handoffs:
            if handoff.call is None:
                self._unmatched_handoffs.append(handoff.to_agent)
            else:
                records[handoff.call].is_handoff = True
                records[handoff.call].handoff_to += () if handoff.to_agent is None else (handoff.to_agent,)
        for index in run.failed_handoffs:
            records[index].is_handoff = records[index].handoff_failed = True

    def _add_history(self, calls: Iterable[ToolCall], outer: CallRecord, branch: Key | None) -> list[CallRecord]:
        """Add the calls of an earlier run; those of one step are of one message."""
        records: list[CallRecord] = []
        step: int | None = None
        message, index, answered = 0, 0, 0
        for call in calls:
            how = call.execution
            index += 1
            if how is None or how.step is None or how.step != step:
                self._messages += 1
                message, index = self._messages, 0
            step = None if how is None else how.step
            record = record_of(call, (message, index), outer)
            record.branch = branch
            self._add(record, outer)
            self._by_request[id(record.handle)] = record
            if record.origin is _MODEL and message != answered:
                outer.last_messages[branch] = message
            if how is not None and how.status is CallStatus.NOT_EXECUTED:
                # It does not wait, so another answer came after this message.
                answered, outer.last_messages[branch] = message, 0
            self._add_history(() if how is None else how.children, record, None)
            records.append(record)
        return records

    @property
    def is_open(self) -> bool:
        """Whether the run has not ended, or was resumed."""
        return not self._ended

    @property
    def size(self) -> int:
        """The memory of the texts and values of the run, in bytes; each object is counted once."""
        todo: list[Any] = [self._input, self._output, self._error, self.metadata, *self._instructions]
        todo += [part if isinstance(part, str) else part.data for part in self._input_parts or ()]
        for call in self._calls:
            todo += [call.requested, call.reasoning]
            if call.result is not None:
                todo += [call.result.content, call.result.artifact]
            for attempt in call.executions:
                todo += [attempt.arguments, attempt.output, attempt.model_output, attempt.artifact, attempt.error]
        sizes: dict[int, int] = {}
        while todo:
            value = todo.pop()
            if id(value) not in sizes:
                sizes[id(value)] = getsizeof(value)
                todo += (item for entry in json_items(value) for item in entry)
        return sum(sizes.values())

    def labelled(self, *, tags: Iterable[str] = (), metadata: JsonObject | None = None) -> None:
        """Add tags and metadata to the run; metadata values become JSON values."""
        self.tags += [tag for tag in tags if tag not in self.tags]
        if metadata:
            self.metadata.update(self._json_object(metadata, "metadata") or {})

    def warn(self, text: str) -> None:
        """Add a warning, which every result of this run repeats, unless it repeats one; beyond 100 they are counted."""
        value: object = text  # a recorder may pass anything, and must not raise
        text = value if isinstance(value, str) else short_repr(value)
        if text in self.warnings:
            return
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(text)
        else:
            self._further_warnings += 1

    # The model

    def model_used(self, model: str | None = None, usage: dict[str, int] | None = None) -> None:
        """Record an answer of a model; token counts are summed by name."""
        model = self._text(model, "model")
        if model:
            self._models[model] = None
        counts: Mapping[Any, object] = usage or {}
        for name, amount in counts.items():
            if isinstance(name, str) and isinstance(amount, int) and abs(amount) < _MOST_TOKENS:
                self._usage[name] = self._usage.get(name, 0) + amount
            else:
                self.warn(f"usage must map names to whole numbers, got {short_repr({name: amount})}; it was left out")

    def offered(self, tools: Iterable[object], *, scope: Key | Branch | None = None, all_known: bool = True) -> None:
        """Record the tools that the model could choose from, in any form that `ToolSpec` reads.

        Args:
            tools: The tools.
            scope: The execution inside which the model ran; its tools are not among those of the run.
            all_known: These are all tools, so a call of another name is a call of an unknown tool.
        """
        inner, _ = self._scope(scope)
        specs: list[ToolSpec] = []
        for tool in tools:
            try:
                specs.append(read_tool_spec(tool))
            except InvalidDataError as error:
                self.warn(f"an offered tool was not understood: {error}")
        specs = [spec for spec in specs if not _is_tool_search(spec)]
        if all_known and specs:
            inner.offered = {*(inner.offered or ()), *(spec.name for spec in specs)}
        if inner is self._root:
            for spec in specs:
                self._tools.setdefault(spec.name, spec)

    def instructed(self, text: str | None, *, scope: Key | Branch | None = None) -> None:
        """Record a system prompt that the model was shown; an equal one counts once.

        Args:
            text: The whole prompt; an empty one, or `None`, is none.
            scope: The execution inside which the model ran; its prompt is not that of the run.
        """
        text = self._text(text, "instructions")
        if text and self._scope(scope)[0] is self._root:
            self._instructions[text] = None

    def structured_answer(self, requests: Iterable[Request]) -> None:
        """Leave these requests out of the run: they carry structured output.

        A call that is executed all the same stays in the run. A tool that only such calls name was not offered.
        """
        for request in requests:
            if id(request) in self._by_request:
                self._by_request[id(request)].is_structured_answer = True

    def withdrawn(self, requests: Iterable[Request]) -> None:
        """Record that somebody took these requests back while the run waited: none of them waits any more."""
        for request in requests:
            if id(request) in self._by_request:
                self._by_request[id(request)].is_withdrawn = True

    def model_asked(
        self,
        requests: Sequence[Request],
        *,
        scope: Key | Branch | None = None,
        agent: str | None = None,
        goes_on: bool = False,
    ) -> None:
        """Record a model message that requests these calls, in its order; without calls, it is an answer.

        Args:
            requests: The calls. Each `Request` is later the handle of its call, as this very object.
            scope: The execution inside which the model ran, or a branch of it; `None` at the top level.
            agent: Name of the agent.
            goes_on: The calls belong to the last message of the branch, if it has one: its first calls already run
                while the model requests more.
        """
        self._messages += 1
        outer, branch = (self._root, None) if scope is None else self._scope(scope)
        message = outer.last_messages.get(branch, self._messages) if goes_on else self._messages
        # An answer without calls counts, too: after it, no earlier call of the branch is waiting.
        outer.last_messages[branch] = message
        if agent is not None:
            agent = self._text(agent, "agent")
        for index, request in enumerate(requests, len(outer.children) if goes_on else 0):
            if not isinstance(request, Request):
                continue
            if id(request) in self._by_request:
                self.warn(f"the same Request object of {request.name!r} was recorded twice; each call needs its own")
                request = replace(request)  # noqa: PLW2901 - as above
            self._check_request(request)
            if _is_tool_search(request):
                continue
            # An approval and the call that it allows are one call, which stands where the call stands.
            if request.replaces:
                self._withdraw(request.replaces, outer)
            inner = outer
            if request.caller is not None:
                inner = self._caller(outer, request, request.caller)
                inner.last_messages[branch] = message
            call = self._requested_call(request, (message, index), inner)
            call.agent, call.branch = agent, branch
            self._add(call, inner)
            self._by_request[id(request)] = call
        self._warn_of_others(requests)

    def _warn_of_others(self, requests: Iterable[object]) -> None:
        """Warn of what is not a request, once: a text by mistake has as many items as letters."""
        others = [(index, item) for index, item in enumerate(requests) if not isinstance(item, Request)]
        if others:
            index, item = others[0]
            problem = f"requests[{index}] must be a Request, got {short_repr(item)}"
            self.warn(f"{problem}; {plural(len(others), 'request')} left out")

    def model_ran_in(self, scope: Branch, requests: Iterable[Request], *, agent: str | None = None) -> None:
        """Record the branch that a model ran in, if this became known only after its message.

        Args:
            scope: The branch, in the scope that `model_asked` received.
            requests: The requests of the message.
            agent: Name of the agent; `None` leaves it as it is.
        """
        for request in requests:
            call = self._by_request.get(id(request))
            if call is not None and call.scope is not None:
                call.branch, call.agent = scope.key, call.agent if agent is None else agent
                last = call.scope.last_messages.get(scope.key, 0)
                call.scope.last_messages[scope.key] = max(last, call.order[0])

    def _check_request(self, request: Request) -> None:
        """Replace fields that have the wrong type, with a warning each, so that the run can be built."""
        for field in _TEXT_FIELDS:
            value = getattr(request, field)
            if value is not None and not isinstance(value, str):
                setattr(request, field, self._text(value, f"{field} of a request"))
        request.type = self._type(request.type)

    def _requested_call(self, request: Request, order: tuple[int, int], scope: CallRecord) -> CallRecord:
        """Return the record of a request, with the number of its message and its place in that."""
        arguments = {} if request.arguments is None else request.arguments
        # `None` if the arguments were not captured: a request without arguments has `{}`.
        requested = self._to_json(arguments, "arguments", request.name)
        # By position: with so many arguments by name, it takes twice as long.
        call = CallRecord(
            self._name(request.name),
            order,
            scope,
            _MODEL,
            requested,
            request.id or None,
            request.type,
            request.server,
        )
        call.invalid = not isinstance(arguments, dict) and arguments is not ABSENT
        call.request_error = request.error
        call.reasoning = request.reasoning
        call.is_handoff = request.handoff
        call.caller = request.caller
        call.source, call.handle = request.source or None, request
        if request.ran or request.result is not ABSENT or request.failure is not None:
            self._add_provider_execution(call, request.result, request.failure)
        if requested is None:
            call.add_not_captured("input_parameters")
        return call

    # The tools

    def tool_started(
        self,
        key: Key,
        tool: ToolSpec | str,
        arguments: JsonObject | None,
        *,
        request: Request | Sequence[Request] | None = None,
        call_id: str | None = None,
        scope: Key | Branch | None = None,
        agent: str | None = None,
        at: datetime | None = None,
    ) -> Request | None:
        """Record the start of a tool.

        Args:
            key: Identifies this execution; unique in this run.
            tool: What is known of the tool, or only its name. If it has an `input_schema`, arguments that neither the
                schema nor the request names are left out: the framework added them.
            arguments: What it received, before defaults and coercion; `None` if that is not observable.
            request: The request that it carries out, as `model_asked` received it. If that requested another tool,
                somebody replaced it, and the call is one of this tool. A request that no model made is a call by code,
                which takes its id and its `source`. Several requests: it is one of these, the nearest first. `None` if
                it is not known: the call is then found by its id, name and arguments.
            call_id: Id of the request, if observable.
            scope: The execution inside which it runs, or a branch of it; `None` at the top level.
            agent: Name of the agent.
            at: Time of the start.

        Returns:
            The request that it carries out; `None` of a call by code without one.
        """
        self._messages += 1
        # `isinstance` with a model asks the object itself in older versions of pydantic, which may raise.
        spec = cast("ToolSpec", tool) if issubclass(type(tool), ToolSpec) else None
        name = self._name(cast("str", tool) if spec is None else spec.name)
        call_id, agent = self._text(call_id, "id", name) or None, self._text(agent, "agent", name)
        received = self._json_object(arguments, "arguments", name)
        call = (
            self._call_of(request)
            or self._find_call(name, received, request, scope, call_id)
            or self._call_by_code(name, received, request, scope, call_id)
        )
        if request is not None and call.name != name:
            self.warn(f"the model requested {call.name!r} (id {call.id!r}), and {name!r} was executed in its place")
            call.name = name
        call.agent = call.agent or agent
        if spec is not None:
            received = _with_spec(call, spec, received)
        if key in self._by_key:
            self.warn(f"two executions have the key {key!r}; later observations of the first go to the second")
        attempt = Attempt(key, received, at)
        call.executions += (attempt,)
        self._by_key[key] = call, attempt
        return call.handle

    def _find_call(
        self, name: str, received: JsonObject | None, request: object, scope: Key | Branch | None, call_id: str | None
    ) -> CallRecord | None:
        """Return the call of an execution whose request is not known, `None` if no model requested it."""
        if isinstance(request, Request):
            return None
        candidates = self._candidates(request, scope, call_id, name)
        return requested_call(candidates, name, received, call_id, is_named=request is not None)

    def _call_by_code(
        self, name: str, received: JsonObject | None, request: object, scope: Key | Branch | None, call_id: str | None
    ) -> CallRecord:
        """Add the call of an execution that no model requested."""
        outer, branch = self._scope(scope)
        call = CallRecord(name, (self._messages, 0), outer, CallOrigin.CODE, id=call_id, branch=branch)
        if received is None:
            call.add_not_captured("input_parameters")
        if isinstance(request, Request):
            call.id, call.source, call.handle = call_id or request.id or None, request.source or None, request
            self._by_request[id(request)] = call
        self._add(call, outer)
        return call

    def tool_ended(
        self,
        key: Key,
        output: object = None,
        *,
        model_output: object = ABSENT,
        artifact: object = None,
        error: str | None = None,
        call_id: str | None = None,
        type: ToolCallType | None = None,
        at: datetime | None = None,
    ) -> None:
        """Record the return of a tool.

        Args:
            key: The execution; one that never started is a warning.
            output: What it returned, as a value if the framework exposes it, else the text for the model.
            model_output: What the model receives, if that is known here and differs.
            artifact: What it returned in addition to its output.
            error: Text of the failure that it returned.
            call_id: Id of the call, for a call made by code whose id was not known at its start.
            type: Who ran the tool, if its result shows that.
            at: Time of the end.
        """
        record = self._execution(key, "ended")
        if record is None:
            return
        call, execution = record
        call_id, error = self._text(call_id, "id", call.name), self._text(error, "error", call.name)
        call.type = self._type(type) or call.type
        if call.origin is CallOrigin.CODE and call_id and not call.id:
            call.id = call_id
            self._by_id.setdefault(call_id, []).append(call)
        execution.outcome = _outcome_of(error)
        execution.error, execution.ended_at = error, at
        execution.output = self._field_value(output, call, "output")
        execution.model_output = self._field_value(model_output, call, "model_output")
        execution.artifact = self._artifact(artifact, call)

    def tool_failed(
        self,
        key: Key,
        error: str | None,
        *,
        outcome: Outcome = Outcome.ERROR,
        ran: bool = True,
        at: datetime | None = None,
    ) -> None:
        """Record that a tool raised, was cancelled, or suspended the run; `error` is `"TypeName: text"`.

        Without `ran`, the framework refused the arguments before the tool itself began.
        """
        record = self._execution(key, "failed")
        if record is not None:
            call, execution = record
            error = self._text(error, "error", call.name)
            execution.outcome, execution.error, execution.ended_at, execution.ran = outcome, error, at, ran

    def tool_replayed(self, key: Key, answer: Answer | None) -> None:
        """Record that a recording answered a tool, see `doubles.answer_to`; `None` if the tool ran."""
        record = None if answer is None else self._execution(key, "replayed")
        if record is not None and answer is not None:
            record[1].replayed = answer
            if answer.warning is not None:
                self.warn(answer.warning)

    def handed_off(
        self,
        *,
        to: str | None = None,
        key: Key | None = None,
        request: Request | None = None,
        call_id: str | None = None,
        scope: Key | Branch | None = None,
        took_place: bool = True,
    ) -> None:
        """Record that a call passed control to another agent: the call of `key`, of `request`, else of `call_id`.

        One that was only requested (not `took_place`) is neither a hand-off of the run nor a called tool, until a later
        observation says that it took place. One that took place may pass control to further agents.
        """
        to, call_id = self._text(to, "to"), self._text(call_id, "call_id")
        call = self._of_execution(key) or self._call_of(request)
        if call is None:
            outer, branch = self._scope(scope)
            own = [one for one in self._calls_of(outer, call_id) if branch in (None, one.branch)]
            call = newest_with_id(own, call_id or None)
        if call is None:
            self.warn(f"a hand-off to {to!r} belongs to no recorded call")
            if took_place:
                self._unmatched_handoffs.append(to)
            return
        if to:
            earlier = call.handoff_to if took_place and call.is_handoff and not call.handoff_failed else ()
            call.handoff_to = tuple(dict.fromkeys((*earlier, to)))
        call.is_handoff, call.handoff_failed = True, not took_place

    # Results

    def result_shown(
        self,
        content: object,
        *,
        request: Request | Sequence[Request] | None = None,
        call_id: str | None = None,
        name: str | None = None,
        scope: Key | Branch | None = None,
        failed: bool = False,
        error: str | None = None,
        unknown_tool: bool = False,
        artifact: object = None,
        reformatted: bool = False,
        ran: bool = False,
        read: bool = False,
        type: ToolCallType | None = None,
    ) -> bool:
        """Record a result that the model received.

        If its request is not known, it belongs to the newest message that requested a call of this id (without an id,
        of this name), and within it to the first call without a result, preferably one that returned this content. A
        repeated result changes nothing; a different one replaces it.

        Args:
            content: What the model received; `ABSENT` if that was not captured.
            request: The request that it answers; several: one of these.
            call_id: Id of the call.
            name: Name of the tool.
            scope: The execution inside which the model ran, or a branch of it.
            failed: The result reports a failure; if no execution was observed, a refusal.
            error: The error, if that is not the content.
            unknown_tool: The result reports that the tool does not exist.
            artifact: What the tool returned in addition.
            reformatted: The content is a copy whose form may differ; it is used only without a better one.
            ran: The sender of the result ran the tool, as providers do.
            read: The tool may have run without being observed: the result was read from a file, or a program that is
                not observed answered it.
            type: Who ran the tool, if its result shows that.

        Returns:
            Whether there is a call for it. If not, nothing is stored, and the caller decides whether to warn.
        """
        call_id, name = self._text(call_id, "call_id"), self._text(name, "name")
        error = self._text(error, "error")
        plain, notes = json_value(content)
        call = self._call_of(request)
        if call is None:
            candidates = self._candidates(request, scope, call_id, name, is_answer=True)
            call = answered_call(candidates, plain, call_id or None, name)
        if call is None:
            return False
        call.type = type or call.type
        if reformatted and call.is_answered:
            return True
        if plain is ABSENT and not failed:
            call.add_not_captured("output")
        self._add_notes(call, "model_output", plain, notes)
        if call.result is None or not call.has_result(plain):
            artifact = self._artifact(artifact, call)
            call.result = ModelResult(plain, failed, unknown_tool, artifact, error, read=read)
        if ran:
            self._add_provider_result(call, call.result, failed)
        return True

    # The built run

    def build(self) -> Run:
        """Return the run as observed so far. May be called at any time, and repeatedly."""
        status = self._final_status()
        interrupted = status is RunStatus.INTERRUPTED
        state = RunState(self._ended, interrupted, self._ended and status is RunStatus.OK)
        calls = in_order(self._root.children)
        handoff_calls = [entry for entry in enumerate(calls) if entry[1].is_handoff]
        more = [f"and {self._further_warnings:,} more warnings"] if self._further_warnings else []
        return Run(
            calls=build_calls(calls, state),
            handoffs=self._handoffs(handoff_calls),
            status=status,
            models=list(self._models),
            tags=list(self.tags),
            metadata=self.metadata,
            warnings=[*self.warnings, *more],
            **drop_none(self._optional_fields(handoff_calls, interrupted=interrupted)),
        )

    def _optional_fields(self, handoff_calls: list[tuple[int, CallRecord]], *, interrupted: bool) -> JsonObject:
        """Return the fields that a run may lack, `None` where it does."""
        return {
            "failed_handoffs": [index for index, call in handoff_calls if call.handoff_failed] or None,
            "input": self._input,
            "input_parts": self._input_parts or None,
            "actual_output": None if interrupted else self._output,
            "instructions": joined_instructions(self._instructions),
            "available_tools": self._available_tools() or None,
            "error": self._error,
            "usage": self._usage or None,
            "conversation_id": self.conversation_id,
            "run_id": self.run_id,
            "started_at": self._started_at,
            "duration": seconds_between(self._started_at, self._ended_at),
        }

    def _available_tools(self) -> list[ToolSpec]:
        if not self._tools:
            return []
        calls = self._root.children
        pseudo = {call.name for call in calls} - {call.name for call in calls if not call.is_pseudo}
        return [spec for spec in self._tools.values() if spec.name not in pseudo]

    def _handoffs(self, handoff_calls: Iterable[tuple[int, CallRecord]]) -> list[Handoff]:
        """Return the hand-offs that took place, from those that were requested, with their positions."""
        handoffs = [
            Handoff(call=index, to_agent=to, from_agent=call.agent)
            for index, call in handoff_calls
            if not call.handoff_failed
            for to in call.handoff_to or (None,)
        ]
        return handoffs + [Handoff(to_agent=to) for to in self._unmatched_handoffs]

    def _final_status(self) -> RunStatus:
        """Return how the run ended: a run that ended well and has a waiting call is interrupted."""
        if not self._ended or self._status is not RunStatus.OK:
            return self._status
        calls = [call for call in self._calls if self._may_wait or (call.handle and call.handle.needs_approval)]
        return RunStatus.INTERRUPTED if any(map(self._is_waiting, calls)) else self._status

    def _is_waiting(self, call: CallRecord) -> bool:
        """Return whether a call is suspended, or was requested last and neither ran nor has a result."""
        if call.is_pseudo:
            return False
        if is_waiting(call):
            return True
        is_last = call.scope is self._root and call.is_of_last_message
        return is_last and not call.executions and _is_unresolved(call)

    # Records

    def _scope(self, scope: Key | Branch | None) -> tuple[CallRecord, Key | None]:
        """Return the call of an enclosing execution, at the top level the root record, and the key of the branch."""
        key, branch = scope if isinstance(scope, Branch) else (scope, None)
        if key is None:
            return self._root, branch
        if key not in self._by_key:
            self.warn("an observation inside an unknown tool execution was recorded at the top level")
            return self._root, branch
        return self._by_key[key][0], branch

    def _of_execution(self, key: Key | None) -> CallRecord | None:
        return self._by_key[key][0] if key in self._by_key else None

    def _call_of(self, request: object) -> CallRecord | None:
        """Return the call of a request, `None` if it is not known; several requests are not known."""
        return self._by_request.get(id(request)) if isinstance(request, Request) else None

    def _candidates(
        self,
        requests: object,
        scope: Key | Branch | None,
        call_id: str | None,
        name: str | None,
        *,
        is_answer: bool = False,
    ) -> list[CallRecord]:
        """Return the calls that an observation may belong to: those of these requests, else the newest of its branch.

        Without an id, an answer belongs only to a call without one.
        """
        if isinstance(requests, Sequence):
            return [call for call in map(self._call_of, requests) if call is not None]
        outer, branch = self._scope(scope)
        calls = self._by_id.get(call_id, []) if call_id else outer.requests

        def is_candidate(call: CallRecord) -> bool:
            # Of several agents that run at the same time, each has its own ids.
            if (
                call.branch != branch
                or call.origin is not _MODEL
                or (call.id is not None and is_answer and not call_id)
            ):
                return False
            # Ids repeat in other scopes, where they mean other calls.
            return is_within(call, outer)

        newest = newest_requests(calls, lambda call: (name is None or call.name == name) and is_candidate(call))
        if call_id and not newest:
            newest = newest_requests(calls, is_candidate)
        return sorted(newest, key=lambda call: call.scope is not outer)

    def _calls_of(self, scope: CallRecord, call_id: str | None) -> list[CallRecord]:
        """Return the calls within a scope that have this id, or all of them without one."""
        if not call_id:
            return calls_within(scope)
        # Ids repeat in other scopes, where they mean other calls.
        calls = [call for call in self._by_id.get(call_id, ()) if is_within(call, scope)]
        return calls if len(calls) == 1 else sorted(calls, key=lambda call: call.scope is not scope)

    def _caller(self, outer: CallRecord, request: Request, caller_id: str) -> CallRecord:
        """Return the call inside which a request was made; `outer` if it is unknown."""
        caller = newest_with_id(self._calls_of(outer, caller_id), caller_id)
        if caller is None:
            where = f"{request.source}: " if request.source else ""
            self.warn(
                f"{where}{request.name!r} was called inside {caller_id!r}, an unknown call; it was recorded outside "
                "of it"
            )
        return caller or outer

    def _withdraw(self, call_id: str, scope: CallRecord) -> None:
        """Remove a request that another one carries out, unless it has run."""
        call = newest_with_id(self._calls_of(scope, call_id), call_id)
        if call is not None and call.scope is not None and not call.executions and not call.children:
            self._calls.remove(call)
            if self._call_of(call.handle) is call:
                del self._by_request[id(call.handle)]
            if call.id:
                self._by_id[call.id].remove(call)
            call.scope.children.remove(call)
            for outer in answering_scopes(call):
                outer.requests.remove(call)

    def _add(self, call: CallRecord, scope: CallRecord) -> None:
        self._calls.append(call)
        if call.id:
            self._by_id.setdefault(call.id, []).append(call)
        scope.children.append(call)
        if call.origin is _MODEL:
            for outer in answering_scopes(call):
                outer.requests.append(call)

    def _add_provider_execution(self, call: CallRecord, output: object, error: str | None) -> None:
        """Add an execution by the provider, of which only the end is observable."""
        execution = Attempt(f"{call.order}", None, None, _outcome_of(error))
        execution.output, execution.error = self._field_value(output, call, "output"), error
        call.executions += (execution,)

    def _add_provider_result(self, call: CallRecord, result: ModelResult, failed: bool) -> None:
        """Add the execution of a call by the provider that sent this result."""
        self._add_provider_execution(call, result.content, result.error_text() if failed else None)

    def _name(self, value: object) -> str:
        name = self._text(value, "name of a tool")
        if not name:
            self.warn("a call without the name of a tool was recorded as '(unnamed)'")
            return "(unnamed)"
        if not is_unicode(name):
            self.warn(f"the name of a tool must be Unicode text, got {short_repr(name)}; it is stored with escapes")
            name = name.encode("utf-8", "backslashreplace").decode()
        return name

    def _execution(self, key: Key, event: str) -> tuple[CallRecord, Attempt] | None:
        record = self._by_key.get(key)
        if record is None:
            self.warn(f"a tool {event} that never started; it is not in the record")
        return record

    # Values

    def _text(self, value: object, label: str, tool: str | None = None) -> str | None:
        """Return a text, `None` for `None`; anything else as its repr, with a warning."""
        if value is None or isinstance(value, str):
            return value
        self.warn(f"{_labelled(label, tool)} must be text, got {short_repr(value)}; its repr was stored")
        return short_repr(value)

    def _type(self, value: object) -> ToolCallType | None:
        if value is None or isinstance(value, ToolCallType):
            return value
        try:
            return ToolCallType(value)
        except ValueError:
            self.warn(f"type must be one of {', '.join(ToolCallType)}, got {short_repr(value)}; it was left out")
            return None

    def _to_json(self, value: object, label: str, tool: str | None = None) -> Any:  # noqa: ANN401 - a JSON value
        """Return `value` as a JSON value, `None` if there is none, and warn of what was lost."""
        plain, notes = json_value(value)
        for note in notes:
            self.warn(f"{_labelled(label, tool)}: {note}")
        return None if plain is ABSENT else plain

    def _json_object(self, value: JsonObject | None, label: str, tool: str | None = None) -> JsonObject | None:
        plain = self._to_json(value, label, tool)
        return plain if isinstance(plain, dict) else None

    def _field_value(self, value: object, call: CallRecord, field: str) -> Any:  # noqa: ANN401 - a JSON value
        """Return `value` as a JSON value for a field of a call, `ABSENT` if there is none."""
        plain, notes = json_value(value)
        self._add_notes(call, field, plain, notes)
        return plain

    def _artifact(self, artifact: object, call: CallRecord) -> Any:  # noqa: ANN401 - a JSON value
        plain = self._field_value(artifact, call, "artifact")
        return None if plain is ABSENT else plain

    def _add_notes(self, call: CallRecord, field: str, plain: object, notes: list[str]) -> None:
        for note in notes:
            self.warn(f"{field} of {call.name!r}: {note}")
        if plain is ABSENT and notes:
            call.add_not_captured(field)


def _labelled(label: str, tool: str | None) -> str:
    """Return the name of a value for a warning, with the tool that it belongs to."""
    return label if tool is None else f"{label} of {tool!r}"


def _is_tool_search(tool: Request | ToolSpec) -> bool:
    """Return whether this is a provider's search for tools, which uses no tool."""
    # Not every trace shows who ran Anthropic's. A user's own `tool_search` is a tool like any other.
    of_anthropic = ("tool_search_tool_regex", "tool_search_tool_bm25")
    return tool.name in of_anthropic or (tool.type is ToolCallType.HOSTED and is_tool_search(tool.name))


def _outcome_of(error: str | None) -> Outcome:
    return Outcome.OK if error is None else Outcome.ERROR


def _with_spec(call: CallRecord, spec: ToolSpec, received: JsonObject | None) -> JsonObject | None:
    """Add what is known of a tool to its call; return the arguments without those that its framework added."""
    call.type, call.server = call.type or spec.type, call.server or spec.server
    if spec.input_schema is None or received is None:
        return received
    declared = spec.input_schema.get("properties")
    names = {*(declared if isinstance(declared, Mapping) else ()), *call.requested_object}
    return {name: value for name, value in received.items() if name in names}


def _is_unresolved(call: CallRecord) -> bool:
    if call.last is None:
        return call.result is None and not call.invalid and not call.is_handoff
    return call.last.outcome in (None, Outcome.SUSPENDED)
