"""What happens in one run of an agent, told to a `RunBuilder`.

The hooks of the SDK say what a model asked for and which local tools ran; the input of the next model call says what
the model was shown; the finished result says the rest. None is enough alone. Nothing here is called except through the
recorder, which holds its lock, and to which its errors go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolmark import ToolCallType
from toolmark.capture import ABSENT, Outcome, Request, RunBuilder, RunStatus
from toolmark.formats import Answer, read_responses_answer, read_responses_call
from toolmark_openai_agents import _errors, _items, _sdk
from toolmark_openai_agents._recording import Asked, Execution, Recording, arguments_of, now, tells


class Watch:
    """One run as its hooks tell it: the run itself, or one inside a tool of it.

    Attributes:
        recording: What it is told to.
        scope: The execution inside which it runs; `None` for the run itself.
        blind: No hooks could be attached, so that all is read from the result.
        paused: It ended by waiting for a person.
        servers: The MCP servers that are looked at for it.
        answered: An agent gave its final answer.
        answer: That answer.
        told: It is known how its stream ended.
    """

    def __init__(self, recording: Recording, scope: int | None = None) -> None:
        """Begin with nothing seen."""
        self.recording = recording
        self.scope = scope
        self.blind = False
        self.paused = False
        self.servers: list[Any] = []
        self.told = False
        self.question: object = None
        self.answered = False
        self.answer: Any = None
        self._items: list[Any] = []
        self._open: list[Execution] = []
        self._ran: dict[str, Execution] = {}
        self._keys: dict[int, str | None] = {}
        self._asked: list[Asked] = []
        self._last: list[Asked] = []
        self._seen: list[Request] = []
        self._failures: dict[int, BaseException] = {}
        self._told: dict[int, str] = {}
        self._servers: dict[str, str] = {}
        self._inside: list[Watch] = []
        self._model_name: str | None = None

    @property
    def builder(self) -> RunBuilder:
        """What is observed of the run."""
        return self.recording.builder

    @property
    def waiting_ids(self) -> set[str]:
        """The ids of the calls that wait for a person, inside tools too."""
        own = {asked.call_id for asked in self._asked if asked.call_id and self.builder.waits_for(asked.call_id)}
        return own.union(*(inner.waiting_ids for inner in self._inside))

    # The run

    def began(self, given: object, agent: Any, run_config: Any) -> None:  # noqa: ANN401 - objects of the SDK
        """The run began, with this input."""
        self.question = given
        self._model_name = _sdk.model_name(agent, run_config)
        if self.scope is not None:
            return
        self.builder.started(_sdk.question_in(given), at=now())
        metadata = _sdk.field(run_config, "trace_metadata") if run_config is not None else None
        if isinstance(metadata, Mapping):
            self.builder.labelled(metadata=dict(metadata))

    def resumed(self) -> None:
        """The run goes on after an interruption."""
        self.paused = self.told = self.answered = False
        if self.scope is None:
            self.builder.resumed()

    def came_so_far(self, items: Sequence[Any], responses: Sequence[Any]) -> None:
        """The run goes on with an earlier one that was not watched; this is what the SDK kept of it."""
        asked = _items.tell(self.builder, items, responses, scope=self.scope, waiting=True)
        self._asked += [Asked(call.name, call.id, tells=True) for call in asked]

    def watch_inside(self, key: int) -> Watch:
        """Return a watch over a run that a tool started; the one over the run that waits there, if there is one."""
        # Some releases start the tool again when the run goes on: another execution, of the same call.
        same = {key, *(known for known, call_id in self._keys.items() if call_id and call_id == self._keys.get(key))}
        waiting = [inner for inner in self._inside if inner.scope in same and inner.paused]
        if waiting:
            return waiting[0]
        inner = Watch(self.recording, key)
        self._inside.append(inner)
        return inner

    def ended_with(self, items: Sequence[Any]) -> bool:
        """Return whether the run ended with just these items, and not with others that look alike."""
        return bool(items) and bool(self._items) and items[0] is self._items[0]

    # What the model may choose from

    def offered(self, agent: Any, tools: Iterable[Any]) -> None:  # noqa: ANN401 - objects of the SDK
        """An agent collected the tools that its model is offered."""
        tools = list(tools)
        for tool in tools:
            server = _sdk.mcp_server(agent, tool)
            if server is not None:
                self._servers[_sdk.tool_name(tool)] = server
        specs = [spec for spec in (_sdk.spec_of(agent, tool) for tool in tools) if spec is not None]
        self.builder.offered(specs, scope=self.scope)

    # Hooks, by the SDK's names

    def on_llm_start(
        self,
        context: Any,  # noqa: ANN401, ARG002 - objects of the SDK
        agent: Any,  # noqa: ANN401, ARG002
        system_prompt: Any = None,  # noqa: ANN401, ARG002
        input_items: Any = (),  # noqa: ANN401
        **_more: Any,  # noqa: ANN401
    ) -> None:
        """The model is shown the results that came since it answered last."""
        if self._asked:
            for item in _items.at_the_end(input_items):
                self._shown(item)

    def on_llm_end(self, context: Any, agent: Any, response: Any, **_more: Any) -> None:  # noqa: ANN401, ARG002
        """The model answered."""
        output = list(getattr(response, "output", ()))
        requests = self._requests(output)
        name = getattr(agent, "name", None)
        self.builder.model_asked(requests, scope=self.scope, agent=name if isinstance(name, str) else None)
        self.builder.model_used(_sdk.model_name(agent, None) or self._model_name, _sdk.usage_of(response))
        self._last = [Asked(asked.name, asked.id, tells=tells(asked)) for asked in requests]
        self._asked += self._last
        targets = _sdk.handoff_names(agent)
        for asked in requests:
            if asked.name in targets and asked.type is ToolCallType.FUNCTION:
                self.builder.handed_off(to=targets[asked.name], call_id=asked.id, scope=self.scope)
        for item in output:
            self._listed(item)
            self._shown(item, ran=True)

    def on_tool_start(self, context: Any, agent: Any, tool: Any, **_more: Any) -> None:  # noqa: ANN401
        """A local tool begins to run."""
        call_id = getattr(context, "tool_call_id", None)
        self._start(tool, context, call_id if isinstance(call_id, str) and call_id else None, agent)

    def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any, **_more: Any) -> None:  # noqa: ANN401
        """A local tool returned, or the SDK put a text in place of its failure."""
        run = self._find(context, tool) or self._start(tool, context, getattr(context, "tool_call_id", None), agent)
        if any(inner.scope == run.key and inner.paused for inner in self._inside):
            self._suspend(run)  # some releases say that a tool ended which merely waits
            return
        error = self._failure(run, result)
        run.failed = error is not None
        if run.failed:
            self.builder.tool_failed(run.key, error, at=now())
        else:
            told = not _sdk.is_told_by_item(tool)
            self.builder.tool_ended(run.key, _sdk.plain_output(result, ABSENT) if told else ABSENT, at=now())
        self._close(run)

    def on_agent_end(self, context: Any, agent: Any, output: Any, **_more: Any) -> None:  # noqa: ANN401, ARG002
        """An agent gave its final answer, which may be none."""
        self.answered, self.answer = True, output

    # What else is told of a tool that runs

    def raised(self, context: Any, call_id: str, error: BaseException) -> None:  # noqa: ANN401 - a context of the SDK
        """The SDK caught this exception of a tool, and is about to put a text in its place."""
        run = next((run for run in self._open if run.context is context), None) or self._ran.get(call_id)
        if run is not None:
            self._failures[run.key] = error

    def said_it_failed(self, text: str) -> None:
        """The MCP server of the tool that runs here said that the call failed."""
        key = self.enclosing(None)
        if key is not None:
            self._told[key] = text

    def enclosing(self, context: Any) -> int | None:  # noqa: ANN401 - a context of the SDK, or the user's
        """Return the tool that runs here: by the span the caller is in, else by the context that it was handed."""
        span = _sdk.current_span()
        parent = getattr(span, "parent_id", None)
        for run in self._open:
            if span is not None and run.span is span:
                return run.key
        for run in self._open:
            if isinstance(parent, str) and parent != "no-op" and parent == getattr(run.span, "span_id", None):
                return run.key
        call_id = getattr(context, "tool_call_id", None)
        if not isinstance(call_id, str) or not call_id:
            return None
        if call_id in self._ran:
            return self._ran[call_id].key
        if any(asked.call_id == call_id for asked in self._asked):  # it began before the run was interrupted
            return self._start(None, context, call_id, None, name=getattr(context, "tool_name", "")).key
        return None

    # The end

    def finished(self, result: Any) -> None:  # noqa: ANN401 - a result of the SDK
        """The run came to its end, or waits for a person."""
        items = list(getattr(result, "new_items", ()) or ())
        interruptions = getattr(result, "interruptions", None) or ()
        self._complete(items, list(getattr(result, "raw_responses", ()) or ()), waiting=bool(interruptions))
        waits = self._wait(items) if interruptions else False
        self.paused = waits or bool(interruptions) or _items.asks_for_approval(items)
        self._items = items if self.paused else []
        if self.scope is None:
            answer = _sdk.final_text(getattr(result, "final_output", None))
            self.builder.ended(None if self.paused else answer, may_wait=self.paused, at=now())

    def failed(self, error: BaseException) -> None:
        """The run raised."""
        data = getattr(error, "run_data", None)
        self._complete(list(getattr(data, "new_items", ()) or ()), list(getattr(data, "raw_responses", ()) or ()))
        self._blame(error)
        if self.scope is None:
            self.builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error), at=now())

    def stream_read(self, result: Any) -> None:  # noqa: ANN401 - a result of the SDK
        """A stream was read to its end, which may be before its task ends."""
        if not self.told and (self.answered or _sdk.has_answer(result)):
            self.told = True
            self.finished(result)

    def stream_ended(self, result: Any, task: Any) -> None:  # noqa: ANN401 - a result of the SDK; `None` if nobody has it
        """The task of a streamed run ended."""
        error = None if task.cancelled() else task.exception()
        if self.told:
            return
        if error is not None:
            self.failed(error)
        elif result is None and self.answered:
            self.finished(_sdk.Answered(self.answer))
        elif self.answered or _sdk.has_answer(result):
            self.finished(result)
        else:
            self._complete(list(getattr(result, "new_items", ()) or ()), [])
            if self.scope is None:
                self.builder.ended(None, status=RunStatus.STOPPED, error=_sdk.what_stopped(result), at=now())

    # Inside

    def _requests(self, output: Sequence[Any]) -> list[Request]:
        """Return the calls of a message, without those that the SDK takes for repetitions."""
        found: list[Request] = []
        for request in filter(None, map(self._request, output)):
            if _sdk.runs_repeated_calls_once() and _items.is_repeated(request, [*self._seen, *found]):
                self.builder.warn(_items.repeats(request))
            else:
                found.append(request)
        self._seen += found
        return found

    def _request(self, item: Any) -> Request | None:  # noqa: ANN401 - an item of the SDK
        request = read_responses_call(item)
        if request is None or request.type is not ToolCallType.FUNCTION or request.name not in self._servers:
            return request
        return replace(request, type=ToolCallType.MCP, server=self._servers[request.name])

    def _listed(self, item: Any) -> None:  # noqa: ANN401 - an item of the SDK
        specs = _items.listed_tools(item)
        if specs:
            self.builder.offered(specs, scope=self.scope, all_known=False)

    def _shown(self, item: Any, *, ran: bool = False, reformatted: bool = False) -> None:  # noqa: ANN401
        """The model is shown what became of a call."""
        answer = read_responses_answer(item)
        if answer is None or answer.approved:
            return
        run = self._ran.get(answer.call_id or "")
        failed = answer.failed or not (ran or run is not None or self._is_accepted_handoff(answer))
        if run is not None and answer.failed and not run.failed:
            run.failed = True
            self.builder.tool_failed(run.key, answer.error)
        self.builder.result_shown(
            answer.content,
            call_id=answer.call_id,
            name=answer.name,
            failed=failed,
            error=answer.error,
            scope=self.scope,
            ran=ran,
            reformatted=reformatted,
        )

    def _is_accepted_handoff(self, answer: Answer) -> bool:
        if not isinstance(answer.content, str) or _errors.is_refusal(answer.content):
            return False
        try:
            said = json.loads(answer.content)
        except ValueError:
            return False
        return isinstance(said, dict) and set(said) == {"assistant"}

    def _start(
        self,
        tool: Any,  # noqa: ANN401 - objects of the SDK
        context: Any,  # noqa: ANN401
        call_id: str | None,
        agent: Any,  # noqa: ANN401
        *,
        name: str | None = None,
    ) -> Execution:
        name = _sdk.tool_name(tool) if name is None else name
        call_id = call_id or self._next_asked(name)
        run = Execution(next(self.recording.keys), call_id, tool, context, _sdk.current_span())
        about = getattr(agent, "name", None)
        self.builder.tool_started(
            run.key,
            name,
            arguments_of(tool, context),
            call_id=call_id,
            scope=self.scope,
            agent=about if isinstance(about, str) else None,
            server=self._servers.get(name),
            at=now(),
        )
        self._open.append(run)
        self._keys[run.key] = call_id
        if call_id is not None:
            self._ran[call_id] = run
        return run

    def _next_asked(self, name: str) -> str | None:
        """Return the id of the first call of this name that did not run yet, for hooks that name none."""
        waiting = (asked for asked in self._asked if asked.name == name and asked.call_id not in self._ran)
        return next((asked.call_id for asked in waiting if asked.tells), None)

    def _find(self, context: Any, tool: Any) -> Execution | None:  # noqa: ANN401 - objects of the SDK
        """Return the execution that a hook speaks of."""
        span = _sdk.current_span()
        same = [run for run in self._open if getattr(context, "tool_call_id", None) and run.context is context]
        same = same or [run for run in self._open if span is not None and run.span is span]
        call_id = getattr(context, "tool_call_id", None)
        same = same or [run for run in self._open if call_id and run.call_id == call_id]
        same = same or [run for run in self._open if run.tool is tool and not call_id]
        return same[0] if same else None

    def _failure(self, run: Execution, result: object) -> str | None:
        """Return the error of a tool, as exactly as it can be known; `None` if it succeeded."""
        if run.key in self._told:
            return self._told[run.key]
        if run.key in self._failures:
            return _errors.error_text(self._failures[run.key])
        said = _errors.span_error(run.span)
        if said is not None:
            return said or (result if isinstance(result, str) else None) or "the tool failed"
        return _errors.default_failure(result)

    def _close(self, run: Execution) -> None:
        if run in self._open:
            self._open.remove(run)
        self._failures.pop(run.key, None)
        self._told.pop(run.key, None)

    def _suspend(self, run: Execution) -> None:
        self.builder.tool_failed(run.key, None, outcome=Outcome.SUSPENDED)
        if run in self._open:
            self._open.remove(run)

    def _complete(self, items: Sequence[Any], responses: Sequence[Any], *, waiting: bool = False) -> None:
        """Add what the result knows and the hooks did not say."""
        if self.blind:
            asked = _items.tell(self.builder, items, responses, scope=self.scope, waiting=waiting)
            self._asked += [Asked(call.name, call.id, tells=True) for call in asked]
            return
        ids = [asked.call_id for asked in self._asked]
        for item in items:
            given = _sdk.raw(item)
            self._listed(given)
            answer = read_responses_answer(given)
            if answer is not None and ids.count(answer.call_id) == 1:
                ran = self._ran.get(answer.call_id or "")
                self._shown(given, reformatted=ran is None or not _sdk.is_told_by_item(ran.tool))

    def _wait(self, items: Sequence[Any]) -> bool:
        """Suspend what ran and has no result, where the run was interrupted."""
        answers = [read_responses_answer(_sdk.raw(item)) for item in items]
        answered = {answer.call_id for answer in answers if answer is not None}
        waits = [run for run in [*self._open] if run.call_id not in answered]
        for run in waits:
            self._suspend(run)
        return bool(waits)

    def _blame(self, error: BaseException) -> None:
        """Say of the calls of the last message what the exception that ended the run says of them."""
        name = _errors.unknown_tool(error)
        unknown = next((asked for asked in self._last if asked.name == name), None)
        if unknown is not None:
            self.builder.result_shown(
                ABSENT, call_id=unknown.call_id, failed=True, error=str(error), unknown_tool=True, scope=self.scope
            )
        refused = self._refused(error)
        if refused is not None:
            self.builder.result_shown(ABSENT, call_id=refused.call_id, failed=True, error=str(error), scope=self.scope)
        culprit = self._culprit(error)
        if culprit is not None:
            self.builder.tool_failed(culprit.key, _errors.error_text(_errors.tool_exception(error)), at=now())
            self._close(culprit)

    def _refused(self, error: BaseException) -> Asked | None:
        """Return the call that a guardrail kept from running."""
        if type(error).__name__ != "ToolInputGuardrailTripwireTriggered":
            return None
        waiting = [asked for asked in self._last if asked.tells and asked.call_id not in self._ran]
        if len(waiting) > 1:
            self.builder.warn(f"a guardrail refused one of {len(waiting)} calls; the first is marked")
        return waiting[0] if waiting else None

    def _culprit(self, error: BaseException) -> Execution | None:
        """Return the tool that ended the run with its exception."""
        if not self._open or not _errors.blames_tools(error):
            return None
        marked = [run for run in self._open if _errors.span_error(run.span) is not None]
        named = [run for run in self._open if f" {_sdk.tool_name(run.tool)}: " in str(error)]
        likely = marked or named or (self._open if len(self._open) == 1 else [])
        if len(likely) > 1:
            self.builder.warn(f"one of {len(likely)} calls that ran at once ended the run; the first is marked")
        return likely[0] if likely else None
