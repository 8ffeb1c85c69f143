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

from toolmark.calls import CallOrigin, ToolCallType, ToolSpec, read_tool_spec
from toolmark.capture.call_builder import State, finished_calls, in_order, is_waiting, seconds_between
from toolmark.capture.records import Execution, Key, Observed, Outcome, Request, Shown
from toolmark.capture.request_pairing import answered_call, newest_with_id, of_strand, open_call, requested_call, within
from toolmark.capture.run_info import RunFacts, json_value
from toolmark.cases import Handoff, Run, RunStatus
from toolmark.errors import InvalidDataError
from toolmark.matching.json_compare import ABSENT, json_equal


class RunBuilder(RunFacts):
    """Collects what is seen of one run. Not thread-safe: a recorder that is called from several threads locks."""

    def __init__(self, *, run_id: str | None = None, conversation_id: str | None = None) -> None:
        """Begin with nothing observed."""
        super().__init__(run_id=run_id, conversation_id=conversation_id)
        self._root = Observed(name="run", order=(0, 0), scope=None, origin=CallOrigin.CODE)
        self._calls: list[Observed] = []
        self._unanswered: list[Observed] = []
        """Calls at the top level, and those of programs, to which a result that is read may still belong."""
        self._by_key: dict[Key, tuple[Observed, Execution]] = {}
        self._by_source: dict[str, Observed] = {}
        self._pseudo_tools: set[str] = set()
        self._tools: dict[str, ToolSpec] = {}
        self._other_handoffs: list[str | None] = []
        self._clock = 0
        self._rounds = 0
        self._round_is_over = False

    # The run

    def user_spoke(self) -> None:
        """The user said something; a result read from here on is rather for what is asked from here on."""
        self._round_is_over = True

    def waits_for(self, call_id: str | None) -> bool:
        """Return whether a call of this id has neither a result nor an execution that ended."""
        return any(call.id == call_id and self._unresolved(call) for call in self._calls)

    # The model

    def offered(self, tools: Iterable[object], *, scope: Key | None = None, all_known: bool = True) -> None:
        """The model could choose from these tools, in any form that `ToolSpec` reads.

        Args:
            tools: The tools.
            scope: The execution inside which the model ran; its tools are not among those of the run.
            all_known: There were no others, so that a call of another name is one of an unknown tool.
        """
        inside = self._inside(scope)
        for tool in tools:
            try:
                spec = read_tool_spec(tool)
            except InvalidDataError as error:
                self.warn(f"an offered tool was not understood: {error}")
                continue
            if all_known:
                inside.offered.add(spec.name)
            if inside is self._root:
                self._tools.setdefault(spec.name, spec)

    def pseudo_tools(self, names: Iterable[str]) -> None:
        """Calls of these names carry structured output; they are no tool calls and appear nowhere."""
        self._pseudo_tools.update(names)

    def model_asked(
        self,
        requests: Sequence[Request],
        *,
        scope: Key | None = None,
        agent: str | None = None,
        strand: Key | None = None,
        source: str | None = None,
    ) -> None:
        """A model message arrived, asking for these calls, in its order; with none, it merely answered.

        Args:
            requests: The calls.
            scope: The execution inside which the model ran; `None` at the top level.
            agent: Name of the agent.
            strand: Tells agents apart that run in one scope at the same time; what belongs together has the same.
            source: Where the message stands, for messages that were read rather than watched.
        """
        self._clock += 1
        self._rounds += self._round_is_over
        self._round_is_over = False
        outer = self._inside(scope)
        outer.last_messages[strand] = self._clock
        for index, request in enumerate(requests):
            inside = outer if request.caller is None else self._caller(outer, request)
            inside.last_messages[strand] = self._clock
            if request.replaces:
                self._withdraw(newest_with_id(within(outer), request.replaces))
            raw = request.arguments
            invalid = raw is not None and raw is not ABSENT and not isinstance(raw, dict)
            requested = None
            if raw is not ABSENT:
                requested = self._plain_with({} if raw is None else raw, f"arguments of {request.name!r}")
            call = Observed(
                name=self._named(request.name),
                order=(self._clock, index),
                scope=inside,
                origin=CallOrigin.MODEL,
                requested=requested,
                raw=request.raw,
                id=request.id or None,
                type=request.type,
                server=request.server,
                agent=agent,
                invalid=invalid,
                request_error=request.error,
                is_handoff=request.handoff,
                caller=request.caller,
                round=self._rounds,
                strand=strand,
                source=request.source or (None if source is None else f"{source}.tool_calls[{index}]"),
            )
            if request.ran or request.result is not ABSENT or request.failure is not None:
                self._ran_elsewhere(call, request.result, request.failure)
            if requested is None:
                call.not_captured.append("input_parameters")
            self._add(call)
            if scope is None:
                self._unanswered.append(call)

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
        strand: Key | None = None,
        type: ToolCallType | None = None,
        server: str | None = None,
        injected: bool = False,
        declared: Iterable[str] = (),
        at: datetime | None = None,
        request: str | None = None,
        source: str | None = None,
    ) -> None:
        """A tool began to run.

        Args:
            key: Names this execution; never used before in this run.
            name: Name of the tool.
            arguments: What it was handed, before defaults and coercion; `None` if that cannot be seen.
            call_id: The id of the request it answers, if that can be seen.
            scope: The execution inside which it runs; `None` at the top level.
            agent: Name of the agent.
            strand: Which of several agents at the same time runs it, as for `model_asked`.
            type: Who runs it.
            server: The MCP server.
            injected: The framework may have added arguments; those that neither request nor schema name are left out.
            declared: Names of the tool's declared arguments, for that purpose.
            at: When.
            request: The `source` of the request that it answers, where a reader knows that.
            source: Where it stands, for one that was read rather than watched.
        """
        self._clock += 1
        handed = None if arguments is None else self._object(arguments, f"arguments of {name!r}")
        name, inside = self._named(name), self._inside(scope)
        call = self._placed_at(request) or requested_call(
            of_strand(within(inside), strand), name, handed, call_id or None
        )
        if call is None:
            call = Observed(name=name, order=(self._clock, 0), scope=inside, origin=CallOrigin.CODE, strand=strand)
            call.source = source
            call.id = call_id or None
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
        self,
        *,
        to: str | None = None,
        key: Key | None = None,
        call_id: str | None = None,
        scope: Key | None = None,
        request: str | None = None,
    ) -> None:
        """A call passed control to another agent: that of this `source` or execution, else the newest of this id."""
        placed = self._placed_at(request)
        if placed is not None:
            call: Observed | None = placed
        elif key is not None and key in self._by_key:
            call = self._by_key[key][0]
        else:
            inside = self._inside(scope)
            call = next((c for c in reversed(within(inside)) if c.id == (call_id or None)), None)
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
        error: str | None = None,
        unknown_tool: bool = False,
        artifact: object = None,
        scope: Key | None = None,
        strand: Key | None = None,
        reformatted: bool = False,
        ran: bool = False,
        read: bool = False,
        request: str | None = None,
    ) -> bool:
        """The model was shown a result.

        It belongs to the newest message that asked for a call of this id (without an id: for this name) and within it
        to the first call that has none yet, one that returned just this first. The same result seen again changes
        nothing; a different one replaces it.

        Args:
            content: What the model was shown; `ABSENT` where that was not kept.
            call_id: The id it answers.
            name: The tool it names.
            failed: It says that the call failed; where the tool was not seen to run, that somebody refused it.
            error: Its error, where that is not the content itself.
            unknown_tool: It says that there is no such tool.
            artifact: What the tool returned beside it.
            scope: Where it was shown.
            strand: Which of several agents at the same time was shown it, as for `model_asked`.
            reformatted: The content is a copy whose form may differ; it counts only where nothing better is known.
            ran: Whoever shows it ran the tool, as providers do.
            read: It was read from what others recorded, so that a tool may have run that was not seen to.
            request: The `source` of the call that it belongs to, where a reader knows that.

        Returns:
            Whether there is a call that it can belong to; if not, nothing is kept, and the caller decides what to say.
        """
        plain, doubts = json_value(content)
        call = self._placed_at(request) or answered_call(
            of_strand(within(self._inside(scope)), strand), plain, call_id or None, name
        )
        if call is None:
            return False
        if reformatted and (call.shown is not None or call.executions):
            return True
        if plain is ABSENT and not failed and "output" not in call.not_captured:
            call.not_captured.append("output")
        self._note(call, "model_output", plain, doubts)
        if call.shown is None or not json_equal(call.shown.content, plain):
            call.shown = Shown(plain, failed, unknown_tool, self._kept(artifact, call), error, read=read)
        if ran:
            self._ran_elsewhere(call, plain, call.shown.text() if failed else None)
        return True

    def result_read(
        self,
        content: object,
        source: str,
        *,
        call_id: str | None = None,
        name: str | None = None,
        failed: bool = False,
        error: str | None = None,
        rejected: bool = False,
        ran: bool = False,
    ) -> str | None:
        """A message was read that holds a result, where it was shown, once.

        It belongs to a call before it that has no result: one of its id first; else one without an id, or any where
        the result has none, but none of another name. Of several, those asked for since the last results or words of
        the user are first, in their order. A result without a call is left out with a warning.

        Args:
            content: What the model was shown; `ABSENT` where that was not kept.
            source: Where it stands; begins each warning.
            call_id: The id it answers.
            name: The tool it names.
            failed: It says that the call failed.
            error: Its error, where that is not the content itself.
            rejected: It says that somebody refused the call.
            ran: Whoever shows it ran the tool, as providers do.

        Returns:
            The `source` of the call that it belongs to, empty where that has none; `None` if there is no call.
        """
        self._round_is_over = True
        plain, doubts = json_value(content)
        self._unanswered = [call for call in self._unanswered if call.shown is None and not call.executions]
        call = open_call(self._unanswered, call_id or None, name)
        if call is None:
            told = [f"{key} {value!r}" for key, value in (("id", call_id), ("name", name)) if value]
            which = f" ({', '.join(told)})" if told else ""
            self.warn(f"{source}: answers no open call before it{which}; it was left out")
            return None
        if name is not None and name != call.name:
            self.warn(f"{source}: has the id of the call of {call.name!r} but the name {name!r}; the id won")
        if plain is ABSENT and not doubts and not call.invalid and not failed and not rejected:
            self.warn(f"{source}: the tool message has no content; the output of {call.name!r} was not captured")
            call.not_captured.append("output")
        self._note(call, "model_output", plain, doubts)
        call.shown = Shown(plain, failed or rejected, error=error, rejected=rejected, read=True)
        if ran:
            self._ran_elsewhere(call, plain, call.shown.text() if failed else None)
        return call.source or ""

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

    def _placed_at(self, source: str | None) -> Observed | None:
        """Return the newest request that stands at this place, `None` if no place is given or none stands there."""
        return None if source is None else self._by_source.get(source)

    def _caller(self, outer: Observed, request: Request) -> Observed:
        """Return the call that a request was made in; where it was not seen, the place where it was asked for."""
        found = newest_with_id(within(outer), request.caller)
        if found is None:
            where = f"{request.source}: " if request.source else ""
            self.warn(
                f"{where}{request.name!r} was called inside {request.caller!r}, which was not seen; it is kept outside"
            )
        return found or outer

    def _withdraw(self, call: Observed | None) -> None:
        """Take out a request that another one carries out."""
        if call is not None and call.scope is not None and not call.executions and not call.children:
            self._calls.remove(call)
            self._unanswered = [other for other in self._unanswered if other is not call]
            call.scope.children.remove(call)

    def _ran_elsewhere(self, call: Observed, output: object, error: str | None) -> None:
        """The provider ran the tool of a call; all that is seen of that is how it ended."""
        execution = Execution(f"{call.order}", None, None, Outcome.OK if error is None else Outcome.ERROR)
        execution.output, execution.error = self._plain(output, call, "output"), error
        call.executions.append(execution)
        if error is None and execution.output is ABSENT and "output" not in call.not_captured:
            call.not_captured.append("output")

    def _add(self, call: Observed) -> None:
        self._calls.append(call)
        if call.source is not None:
            self._by_source[call.source] = call
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
