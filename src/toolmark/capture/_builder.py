"""`RunBuilder`: neutral observations in, a `Run` out. The kit that every adapter and reader shares.

A recorder tells what it sees, in the order in which it sees it: a model asked for calls, a tool started, ended or
failed, the model was shown a result, the run ended. Nothing here knows a framework, does I/O, or waits. What belongs
together is decided here, once:

- A *call* is what a model asked for. Its order is the model's: message, then position in the message; never the order
  in which tools started or finished.
- An *execution* belongs to the request of the same scope that carries its id, the newest such message first, one not
  yet executed first, one with equal arguments first. Ids are not unique; they repeat across steps, and even in one
  message. Another execution of the same request is another attempt. An execution that nobody asked for is a call made
  by code.
- A *scope* is the execution that encloses what happens: requests and executions in it are its call's children.
- Nothing is final before `build` is called, which may happen at any time and again: a tool may end after its run did,
  and an interrupted run may be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from toolmark._json import to_json_value
from toolmark.calls import CallOrigin, ToolCallType, ToolSpec, read_tool_spec
from toolmark.capture._calls import State, finished_calls, in_order, is_waiting, seconds_between
from toolmark.capture._observed import Execution, Key, Observed, Outcome, Request, Shown
from toolmark.capture._pairing import answered_call, requested_call
from toolmark.cases import Handoff, Run, RunStatus
from toolmark.errors import InvalidDataError
from toolmark.matching import ABSENT, json_equal


class RunBuilder:
    """Collects what is seen of one run. Not thread-safe: a recorder that is called from several threads locks."""

    def __init__(self, *, run_id: str | None = None, conversation_id: str | None = None) -> None:
        """Begin with nothing observed."""
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.tags: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.warnings: list[str] = []
        self._root = Observed(name="run", order=(0, 0), scope=None, origin=CallOrigin.CODE)
        self._calls: list[Observed] = []
        self._by_key: dict[Key, tuple[Observed, Execution]] = {}
        self._pseudo_tools: set[str] = set()
        self._tools: dict[str, ToolSpec] = {}
        self._other_handoffs: list[str | None] = []
        self._models: dict[str, None] = {}
        self._usage: dict[str, int] = {}
        self._clock = 0
        self._input: str | None = None
        self._output: str | None = None
        self._status = RunStatus.OK
        self._error: str | None = None
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._ended = False
        self._may_wait = False

    # The run

    def labelled(self, *, tags: Iterable[str] = (), metadata: dict[str, Any] | None = None) -> None:
        """The run carries these tags and this metadata; values that are no JSON values are kept as text."""
        self.tags += [tag for tag in tags if tag not in self.tags]
        self.metadata.update(self._object(metadata or {}, "metadata") or {})

    def started(self, input: str | None = None, *, at: datetime | None = None) -> None:
        """The run began, with this text of the user."""
        self._input = self._input if input is None else input
        self._started_at = self._started_at or at

    def ended(
        self,
        output: str | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
        at: datetime | None = None,
    ) -> None:
        """The run ended.

        Args:
            output: The final answer, if there is one.
            status: How it ended.
            error: `"TypeName: text"` of the exception, or the text that says what stopped it.
            may_wait: The framework suspends runs by ending them, so calls that the last model message asked for and
                that nobody answered are waiting, and the run is interrupted.
            at: When.
        """
        self._ended = True
        self._output, self._status, self._error, self._may_wait = output, status, error, may_wait
        self._ended_at = at or self._ended_at

    def resumed(self) -> None:
        """The run goes on after an interruption; what is seen from here on belongs to it."""
        self._ended = False
        self._output, self._status, self._error, self._may_wait = None, RunStatus.OK, None, False

    @property
    def is_open(self) -> bool:
        """Whether the run has not ended, or was resumed."""
        return not self._ended

    def waits_for(self, call_id: str | None) -> bool:
        """Return whether a call of this id has neither a result nor an execution that ended."""
        return any(call.id == call_id and self._unresolved(call) for call in self._calls)

    def warn(self, text: str) -> None:
        """Something could not be understood; every score of this run will say so. Repetitions are dropped."""
        if text not in self.warnings:
            self.warnings.append(text)

    # The model

    def offered(self, tools: Iterable[object], *, scope: Key | None = None) -> None:
        """The model could choose from these tools, in any form that `ToolSpec` reads.

        Args:
            tools: The tools.
            scope: The execution inside which the model ran; its tools are not among those of the run.
        """
        inside = self._inside(scope)
        for tool in tools:
            try:
                spec = read_tool_spec(tool)
            except InvalidDataError as error:
                self.warn(f"an offered tool was not understood: {error}")
                continue
            inside.offered.add(spec.name)
            if inside is self._root:
                self._tools.setdefault(spec.name, spec)

    def model_used(self, model: str | None = None, usage: dict[str, int] | None = None) -> None:
        """A model answered; token counts are summed by name."""
        if model:
            self._models[model] = None
        for name, amount in (usage or {}).items():
            self._usage[name] = self._usage.get(name, 0) + amount

    def pseudo_tools(self, names: Iterable[str]) -> None:
        """Calls of these names carry structured output; they are no tool calls and appear nowhere."""
        self._pseudo_tools.update(names)

    def model_asked(
        self,
        requests: Sequence[Request],
        *,
        scope: Key | None = None,
        agent: str | None = None,
        source: str | None = None,
    ) -> None:
        """A model message arrived, asking for these calls, in its order; with none, it merely answered.

        Args:
            requests: The calls.
            scope: The execution inside which the model ran; `None` at the top level.
            agent: Name of the agent.
            source: Where the message stands, for messages that were read rather than watched.
        """
        self._clock += 1
        inside = self._inside(scope)
        inside.last_message = self._clock
        for index, request in enumerate(requests):
            raw = request.arguments
            requested = raw if isinstance(raw, str) else self._object(raw or {}, f"arguments of {request.name!r}")
            call = Observed(
                name=self._named(request.name),
                order=(self._clock, index),
                scope=inside,
                origin=CallOrigin.MODEL,
                requested=requested,
                id=request.id or None,
                type=request.type,
                server=request.server,
                agent=agent,
                invalid=isinstance(request.arguments, str),
                request_error=request.error,
                source=None if source is None else f"{source}.tool_calls[{index}]",
            )
            if request.result is not ABSENT or request.failure is not None:
                execution = Execution(f"{self._clock}.{index}", None, None)
                execution.outcome = Outcome.OK if request.failure is None else Outcome.ERROR
                execution.output = self._plain(request.result, call, "output")
                execution.error = request.failure
                call.executions.append(execution)
            if requested is None:
                call.not_captured.append("input_parameters")
            self._add(call)

    # The tools

    def tool_started(
        self,
        key: Key,
        name: str,
        arguments: dict[str, Any] | None,
        *,
        call_id: str | None = None,
        scope: Key | None = None,
        agent: str | None = None,
        type: ToolCallType | None = None,
        server: str | None = None,
        injected: bool = False,
        declared: Iterable[str] = (),
        at: datetime | None = None,
    ) -> None:
        """A tool began to run.

        Args:
            key: Names this execution; never used before in this run.
            name: Name of the tool.
            arguments: What it was handed, before defaults and coercion; `None` if that cannot be seen.
            call_id: The id of the request it answers, if that can be seen.
            scope: The execution inside which it runs; `None` at the top level.
            agent: Name of the agent.
            type: Who runs it.
            server: The MCP server.
            injected: The framework may have added arguments of its own; those that neither the request nor the tool's
                schema names are left out.
            declared: Names of the tool's declared arguments, for that purpose.
            at: When.
        """
        self._clock += 1
        handed = None if arguments is None else self._object(arguments, f"arguments of {name!r}")
        name, inside = self._named(name), self._inside(scope)
        call = requested_call(inside.children, name, handed, call_id or None)
        if call is None:
            call = Observed(
                name=name,
                order=(self._clock, 0),
                scope=inside,
                origin=CallOrigin.CODE,
                id=call_id or None,
                type=type,
                server=server,
                agent=agent,
            )
            if handed is None:
                call.not_captured.append("input_parameters")
            self._add(call)
        call.type, call.server, call.agent = call.type or type, call.server or server, call.agent or agent
        if injected and handed is not None:
            known = {*declared, *(call.requested if isinstance(call.requested, dict) else ())}
            handed = {name: value for name, value in handed.items() if name in known}
        if key in self._by_key:
            self.warn(f"two executions are named {key!r}, so what is told of the first from now on goes to the second")
        execution = Execution(key, handed, at)
        call.executions.append(execution)
        self._by_key[key] = call, execution

    def tool_ended(
        self,
        key: Key,
        output: object = None,
        *,
        shown: object = ABSENT,
        artifact: object = None,
        error: str | None = None,
        call_id: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """A tool returned.

        Args:
            key: The execution; one that was never started is noted as a warning.
            output: What it returned, as a value where the framework exposes it, else the text for the model.
            shown: What the model is shown, if that is known here and differs.
            artifact: What it returned beside its output.
            error: It returned, but says that it failed; its text.
            call_id: The id of the call, for one made by code whose id was not known when it started.
            at: When.
        """
        found = self._execution(key, "ended")
        if found is None:
            return
        call, execution = found
        call.id = call.id or (call_id if call.origin is CallOrigin.CODE else None)
        execution.outcome = Outcome.OK if error is None else Outcome.ERROR
        execution.error, execution.ended_at = error, at
        execution.output = self._plain(output, call, "output")
        execution.shown = shown if shown is ABSENT else self._plain(shown, call, "model_output")
        execution.artifact = self._kept(artifact, call)

    def tool_failed(
        self, key: Key, error: str | None, *, outcome: Outcome = Outcome.ERROR, at: datetime | None = None
    ) -> None:
        """A tool raised, was cancelled, or suspended the run; `error` is `"TypeName: text"`."""
        found = self._execution(key, "failed")
        if found is not None:
            found[1].outcome, found[1].error, found[1].ended_at = outcome, error, at

    def handed_off(
        self, *, to: str | None = None, key: Key | None = None, call_id: str | None = None, scope: Key | None = None
    ) -> None:
        """A call passed control to another agent: the one of this execution, else the newest of this id."""
        if key is not None and key in self._by_key:
            call: Observed | None = self._by_key[key][0]
        else:
            inside = self._inside(scope)
            call = next((c for c in reversed(inside.children) if c.id == (call_id or None)), None)
        if call is None:
            self.warn(f"a hand-off to {to!r} belongs to no call that was seen")
            self._other_handoffs.append(to)
            return
        call.is_handoff, call.handoff_to = True, to or call.handoff_to

    def result_shown(
        self,
        content: object,
        *,
        call_id: str | None = None,
        name: str | None = None,
        failed: bool = False,
        unknown_tool: bool = False,
        artifact: object = None,
        scope: Key | None = None,
        reformatted: bool = False,
    ) -> bool:
        """The model was shown a result.

        It belongs to the newest message that asked for a call of this id (without an id: for this name) and within it
        to the first call that has none yet, one that returned just this first. The same result seen again changes
        nothing; a different one replaces it.

        Args:
            content: What the model was shown.
            call_id: The id it answers.
            name: The tool it names.
            failed: It says that the call failed.
            unknown_tool: It says that there is no such tool.
            artifact: What the tool returned beside it.
            scope: Where it was shown.
            reformatted: The content is a copy whose form may differ; it counts only where nothing better is known.

        Returns:
            Whether there is a call that it can belong to; if not, nothing is kept, and the caller decides what to say.
        """
        plain, doubts = _json_value(content)
        call = answered_call(self._inside(scope).children, plain, call_id or None, name)
        if call is None:
            return False
        if reformatted and (call.shown is not None or call.executions):
            return True
        self._note(call, "model_output", plain, doubts)
        if call.shown is None or not json_equal(call.shown.content, plain):
            call.shown = Shown(plain, failed, unknown_tool, self._kept(artifact, call))
        return True

    # The result

    def build(self) -> Run:
        """Return the run as far as it was seen. May be called at any time, and again."""
        waiting = self._ended and self._may_wait and self._status is RunStatus.OK and self._has_waiting()
        status = RunStatus.INTERRUPTED if waiting else self._status
        state = State(
            ended=self._ended,
            waiting=status is RunStatus.INTERRUPTED,
            pseudo_tools=frozenset(self._pseudo_tools),
        )
        tools = [spec for spec in self._tools.values() if spec.name not in self._pseudo_tools]
        given: dict[str, Any] = {
            "input": self._input,
            "actual_output": None if status is RunStatus.INTERRUPTED else self._output,
            "available_tools": tools or None,
            "error": self._error,
            "usage": self._usage or None,
            "conversation_id": self.conversation_id,
            "run_id": self.run_id,
            "started_at": self._started_at,
            "duration": seconds_between(self._started_at, self._ended_at),
        }
        return Run(
            calls=list(finished_calls(self._root.children, state)),
            handoffs=[
                Handoff(call=index, to_agent=call.handoff_to, from_agent=call.agent)
                for index, call in enumerate(in_order(self._root.children, state.pseudo_tools))
                if call.is_handoff
            ]
            + [Handoff(to_agent=to) for to in self._other_handoffs],
            status=status,
            models=list(self._models),
            tags=list(self.tags),
            metadata=self.metadata,
            warnings=list(self.warnings),
            **{name: value for name, value in given.items() if value is not None},
        )

    # Inside

    def _inside(self, scope: Key | None) -> Observed:
        """Return the call inside which something happened; the run itself at the top level."""
        if scope is None:
            return self._root
        if scope not in self._by_key:
            self.warn("something was seen inside a tool that was not; it is kept at the top level")
            return self._root
        return self._by_key[scope][0]

    def _add(self, call: Observed) -> None:
        self._calls.append(call)
        if call.scope is not None:
            call.scope.children.append(call)

    def _named(self, name: str) -> str:
        if not name:
            self.warn("a call without the name of a tool was seen; it is kept as '(unnamed)'")
        return name or "(unnamed)"

    def _execution(self, key: Key, what: str) -> tuple[Observed, Execution] | None:
        found = self._by_key.get(key)
        if found is None:
            self.warn(f"a tool {what} that was never seen to start; it is not in the record")
        return found

    def _unresolved(self, call: Observed) -> bool:
        last = call.last
        if last is None:
            return call.shown is None and not call.invalid and not call.is_handoff
        return last.outcome in (None, Outcome.SUSPENDED)

    def _has_waiting(self) -> bool:
        return any(
            is_waiting(call)
            or (call.scope is self._root and call.is_of_last_message and not call.executions and self._unresolved(call))
            for call in self._calls
            if call.name not in self._pseudo_tools
        )

    def _object(self, value: dict[str, Any], what: str = "arguments") -> dict[str, Any] | None:
        plain, doubts = _json_value(value)
        for doubt in doubts:
            self.warn(f"{what}: {doubt}")
        return plain if isinstance(plain, dict) else None

    def _plain(self, value: object, call: Observed, field: str) -> Any:  # noqa: ANN401 - a JSON value
        plain, doubts = _json_value(value)
        self._note(call, field, plain, doubts)
        return plain

    def _kept(self, artifact: object, call: Observed) -> Any:  # noqa: ANN401 - a JSON value
        plain = None if artifact is None else self._plain(artifact, call, "artifact")
        return None if plain is ABSENT else plain

    def _note(self, call: Observed, field: str, plain: object, doubts: list[str]) -> None:
        for doubt in doubts:
            self.warn(f"{field} of {call.name!r}: {doubt}")
        if plain is ABSENT and doubts and field not in call.not_captured:
            call.not_captured.append(field)


def _json_value(value: object) -> tuple[Any, list[str]]:
    """Return a value as a JSON value, and what is to be said about that; `ABSENT` if it cannot be kept."""
    doubts: list[str] = []
    if value is ABSENT:
        return ABSENT, doubts
    try:
        return to_json_value(value, doubts), doubts
    except InvalidDataError as error:
        return ABSENT, [*doubts, f"it could not be kept: {error}"]
