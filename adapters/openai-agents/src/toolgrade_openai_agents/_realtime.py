"""Observations of realtime sessions: each turn of the user is a run, and those of a session are a conversation.

A session puts its events into a queue that the program reads; they are seen on their way there. Those of tools do not
name their call, so methods of the session are wrapped in contexts, which know it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Final

from toolgrade.capture import Branch
from toolgrade.cases import RunStatus
from toolgrade_openai_agents import _errors, _messages
from toolgrade_openai_agents._run_tree import LocalRun, RequestsWithId, RunnerRecording, now
from toolgrade_openai_agents._runner import ObservedRun, RunObserver, current_run
from toolgrade_openai_agents._tools import field_of
from toolgrade_openai_agents._watcher import RunWatcher

_UNANSWERED: Final = "the turn ended without an answer"
_NOT_TRANSCRIBED: Final = "the speech of the user was not transcribed, so the input is missing"

_no_call: Final = SimpleNamespace(tool_call_id=None)
_current_call: Final[ContextVar[Any]] = ContextVar("toolgrade_openai_agents_call", default=_no_call)
"""The call of a session that this context handles, in the form of a tool's context."""


class TurnWatcher(RunWatcher):
    """Observes what the agents of a session do about one turn of the user.

    Attributes:
        home: The watcher of the session.
        questions: The parts of what the user said, by item.
        unheard: The user spoke, and nothing of it is transcribed.
        texts: What the agents said, by item; the last one is the answer.
        running: The ids of the calls that are being handled.
        unapproved: The ids of the calls that wait for a person.
        has_begun: The model said or did something, so what the user says next is another turn.
        responding: The model is writing or speaking.
        expects_reply: The last thing that the model did was to request a call.
        blocked: The error of a response that guardrails stopped.
        problem: The last error that the model reported.
    """

    def __init__(self, home: RunWatcher) -> None:
        """Begin without observations."""
        super().__init__(RunnerRecording.begin(home.builder.conversation_id, inner=False))
        self.home, self.wrapped = home, home.wrapped
        self.questions: dict[str, list[Any]] = {}
        self.texts: dict[str, str] = {}
        self.running: set[str] = set()
        self.unapproved: set[str] = set()
        self.unheard = self.has_begun = self.responding = self.expects_reply = False
        self.blocked = self.problem = ""
        self.builder.started(at=now())
        self.begin()

    def asked(self, item_id: str, content: Any) -> None:
        """Note what the user said; a transcript takes the place of the speech."""
        parts = [_part_of(part) for part in content]
        if item_id not in self.questions or any(part.get("text", True) for part in parts):
            self.questions[item_id] = parts
        messages = [{"role": "user", "content": parts} for parts in self.questions.values()]
        self.unheard = not any(part.get("text", True) for message in messages for part in message["content"])
        self.builder.started(_messages.question_of(messages), parts=_messages.images_of_question(messages))

    def begin(self) -> None:
        """Note that something begins, and the tools that the agents offer by now."""
        if not self.builder.is_open:
            self.builder.resumed()
        for agent, tools in self.home.offered_tools():
            self.offered(agent, tools)

    def response_began(self) -> None:
        """Note that the model begins a response, whose calls are of one step."""
        self.begin()
        self.responding, self.expects_reply, self.blocked = True, False, ""
        self.place = Branch(None, next(self.recording.keys))

    def replied(self, item_id: str, text: str) -> None:
        """Note the text of a reply so far."""
        if text and not self.blocked:
            # A response may say something after it requested calls, and texts of earlier ones may come again.
            self.expects_reply = self.expects_reply and (self.responding or item_id in self.texts)
            self.has_begun = True
            self.texts[item_id] = text

    def requested(self, call: Any, agent: Any) -> None:
        """Note a call; it may run while the model requests others in the same response."""
        self.begin()
        self.has_begun = self.expects_reply = True
        self.running.add(call.call_id)
        item = {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        requests = self._new_requests([item], agent)
        self.builder.model_asked(requests, scope=self.place, agent=_messages.agent_name(agent), goes_on=True)
        self._add_requests(requests, agent)

    def blocked_by(self, guardrails: str) -> None:
        """Note that guardrails stopped the reply; the model may reply once more."""
        self.begin()
        self.blocked = f"OutputGuardrailTripwireTriggered: {guardrails}"
        self.texts.clear()
        self.builder.labelled(metadata={"guardrails_tripped": guardrails})
        self.settle()

    def ended_by(self, error: BaseException) -> None:
        """Note the exception that ends the session, unless the turn was over."""
        if self.builder.is_open:
            self.builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error), at=now())

    @property
    def goes_on(self) -> bool:
        """Whether the reply has not ended, and waits for no person."""
        return bool(self.responding or self.running or (self.expects_reply and not self.unapproved))

    def settle(self) -> None:
        """End the run if its reply ended or waits for a person."""
        if self.builder.is_open and not self.goes_on:
            self._end()

    def end_turn(self) -> None:
        """End the run, however far it came: its turn is over."""
        if self.unheard:
            self.builder.warn(_NOT_TRANSCRIBED)
        if self.builder.is_open:
            self._end()

    def _end(self) -> None:
        answer, waits = next(reversed(self.texts.values()), None), bool(self.unapproved)
        if (answer or waits) and not self.goes_on and not self.blocked:
            self.builder.ended(answer, may_wait=waits, at=now())
            return
        error = self.blocked or self.problem or _UNANSWERED
        status = RunStatus.ERROR if error == self.problem else RunStatus.STOPPED
        self.builder.ended(None, status=status, error=error, at=now())

    # One call

    def handling(self, call_id: str) -> None:
        """Note that a call begins to be handled, or that a person has decided about it."""
        self.begin()
        self.running.add(call_id)
        self.unapproved.discard(call_id)

    def handled(self, call_id: str, error: BaseException | None) -> None:
        """Note that the handling of a call ended, and the exception that ends the session, too."""
        self.running.discard(call_id)
        same = self._with_id(call_id)
        if not isinstance(error, Exception):
            self.settle()
            return
        if same.run in self._running:
            same.run.exception = error
            self._blame_tool(error)
        elif not same.has_run:
            self._refuse(_errors.error_text(error), same, unknown_tool=bool(same.unknown))
        self.ended_by(error)

    def see_tool_start(self, event: Any) -> None:
        """Note that the tool of the call begins."""
        self.on_tool_start(_current_call.get(), event.agent, event.tool)

    def see_tool_end(self, event: Any) -> None:
        """Note the output of the tool, or the text that the model receives where somebody refused the call."""
        same = self._with_id(_current_call.get().tool_call_id)
        if same.run is None:
            self._refuse(str(event.output), same)
        else:
            self.on_tool_end(_current_call.get(), event.agent, event.tool, event.output)

    def see_handoff(self, event: Any) -> None:
        """Note that the call passed control to another agent."""
        same = self._with_id(_current_call.get().tool_call_id)
        same.handed_over = True
        self.builder.handed_off(to=_messages.agent_name(event.to_agent), request=same.requests[0])

    def see_tool_approval_required(self, event: Any) -> None:
        """Note that the call waits for a person."""
        self.unapproved.add(event.call_id)

    def see_error(self, event: Any) -> None:
        """Note that the agent lacks the tool: the only error that a session reports while it handles a call."""
        same = self._with_id(_current_call.get().tool_call_id)
        self._refuse(str(field_of(event.error, "message")), same, unknown_tool=True)

    def _refuse(self, error: str, same: RequestsWithId, *, unknown_tool: bool = False) -> None:
        for request in same.requests:
            self._add_failure(request, None, error, unknown_tool=unknown_tool)

    def _find_run(self, context: Any, tool: Any) -> LocalRun | None:
        """Return the tool run of the call that this context handles."""
        return super()._find_run(_current_call.get(), tool)

    def enclosing(self, context: Any) -> int | None:
        """Return the key of the tool that the caller runs in; `None` outside of any tool."""
        run = self._with_id(_current_call.get().tool_call_id).run
        return None if run is None else run.key


class SessionWatcher:
    """Observes a session, and tells the watchers of its turns; methods that begin with `see_` name the SDK's events.

    Attributes:
        home: Told of what belongs to no turn, such as the tools offered; it is never delivered.
        turn: The newest turn.
        active: The turn of the response that goes on.
        turns: The turns that were not delivered yet.
        by_item: The turns by the items of the conversation; `None` for one that repeats what is known.
        by_call: The turns by the ids of their calls.
        echoes: What the program or a guardrail said in the name of the user, until the model repeats it as an item.
    """

    def __init__(self, recorder: RunObserver, session: Any, home: RunWatcher) -> None:
        """Wrap the methods of a session that begins."""
        self.recorder, self.session, self.home = recorder, session, home
        self.turn: TurnWatcher | None = None
        self.active: TurnWatcher | None = None
        self.turns: list[TurnWatcher] = []
        self.by_item: dict[str, TurnWatcher | None] = {}
        self.by_call: dict[str, TurnWatcher] = {}
        self.echoes: list[str] = []
        self.is_closed = False
        # No method of the session sees all events in all releases; queues of Python call this one for each item.
        home.wrap(session._event_queue, "_put", lambda put: functools.partial(self._put, put))  # noqa: SLF001
        self._wrap("on_event", lambda _: self.inside(home))
        self._wrap("_get_updated_model_settings_from_agent", lambda _: self.inside(home))
        self._wrap("send_message", self._sending)
        self._wrap("_handle_tool_call", self._handling)
        self._wrap("reject_tool_call", self._handling)
        self._wrap("close", lambda _: contextlib.closing(self))

    def _wrap(self, name: str, context: Callable[[Any], contextlib.AbstractContextManager[Any]]) -> None:
        """Run a method, if the release has it, in a context made of its first argument, until the session ends."""

        def make(original: Any) -> Any:
            signature = inspect.signature(original)

            @functools.wraps(original)
            async def wrapped(*args: Any, **kwargs: Any) -> Any:
                first = next(iter(signature.bind(*args, **kwargs).arguments.values()), None)
                with context(first):
                    return await original(*args, **kwargs)

            return wrapped

        if hasattr(self.session, name):
            self.home.wrap(self.session, name, make)

    @contextlib.contextmanager
    def inside(self, watcher: RunWatcher, call: Any = _no_call) -> Iterator[None]:
        """Let what begins inside belong to a watcher, and to a call."""
        tokens = current_run.set(ObservedRun(self.recorder, watcher, {})), _current_call.set(call)
        try:
            yield
        finally:
            current_run.reset(tokens[0])
            _current_call.reset(tokens[1])

    def _sending(self, message: Any) -> contextlib.AbstractContextManager[None]:
        self._observe(self._sent, message)
        return self.inside(self.home)

    @contextlib.contextmanager
    def _handling(self, call: Any) -> Iterator[None]:
        call_id, error = getattr(call, "call_id", call), None
        turn = self.by_call.get(call_id)
        if turn is None:
            yield
            return
        self._observe(turn.handling, call_id)
        try:
            with self.inside(
                turn, SimpleNamespace(tool_call_id=call_id, tool_arguments=getattr(call, "arguments", None))
            ):
                yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._observe(turn.handled, call_id, error)

    def _put(self, put: Callable[[Any], None], event: Any) -> None:
        """Report an event to the turn of the call that this context handles, else to the session; then queue it."""
        inner = getattr(event, "data", event)  # one of the model comes inside one of the session
        watcher = self.by_call.get(_current_call.get().tool_call_id, self)
        note = getattr(watcher, f"see_{getattr(inner, 'type', None)}", None)
        if note is not None:
            self._observe(note, inner)
        put(event)

    def _observe(self, note: Callable[..., Any], *args: Any) -> None:
        """Make an observation, and deliver the turns that are over."""
        self.recorder.observe(self.turn, "an event of a session", note, *args)
        for turn in self.turns[:-1]:
            if not (turn.responding or turn.running or turn.unapproved or turn.unheard):
                self._deliver(turn)

    def _deliver(self, turn: TurnWatcher) -> None:
        self.turns.remove(turn)
        self.recorder.observe(turn, "the end of a turn", turn.end_turn)
        self.recorder.deliver(turn)

    def close(self) -> None:
        """Deliver all turns."""
        while self.turns:
            self._deliver(self.turns[0])
        if not self.is_closed:
            self.is_closed = True
            self.recorder.restore(self.home)

    # What the user says

    def _new_turn(self) -> TurnWatcher:
        self.turn = TurnWatcher(self.home)
        self.turns.append(self.turn)
        self.recorder.store(self.turn.recording)
        return self.turn

    def _asking(self) -> TurnWatcher:
        """Return the turn of what the user says now."""
        return self._new_turn() if self.turn is None or self.turn.has_begun else self.turn

    def _sent(self, message: Any) -> None:
        """Note a message that the program sends for the user."""
        content = [{"text": message}] if isinstance(message, str) else message["content"]
        self.echoes.append(_text_of(content))
        turn = self._asking()
        turn.asked(f"sent {len(turn.questions)}", content)

    def _said(self, item_id: str, content: Any) -> None:
        """Note an item of the user, which may be speech that is transcribed later."""
        text = _text_of(content)
        if item_id not in self.by_item:
            is_known = text in self.echoes
            self.by_item[item_id] = None if is_known else self._asking()
            if is_known:
                self.echoes.remove(text)
        turn = self.by_item[item_id]
        if turn is not None:
            turn.asked(item_id, content)

    def see_input_audio_transcription_completed(self, event: Any) -> None:
        """Note what the user said."""
        self._said(event.item_id, [{"text": event.transcript}])

    # What the model does

    def _replying(self, item_id: str | None = None) -> TurnWatcher:
        """Return the turn that a reply belongs to; an agent may speak first."""
        turn = self.by_item.get(item_id or "") or self.active or self.turn or self._new_turn()
        if item_id:
            self.by_item[item_id] = turn
        return turn

    def see_item_updated(self, event: Any) -> None:
        """Note a message."""
        item = event.item
        if getattr(item, "role", None) == "user":
            self._said(item.item_id, item.content)
        elif getattr(item, "role", None) == "assistant":
            self._replying(item.item_id).replied(item.item_id, _text_of(item.content))

    def see_transcript_delta(self, event: Any) -> None:
        """Note a piece of a reply."""
        turn = self._replying(event.item_id)
        turn.replied(event.item_id, turn.texts.get(event.item_id, "") + event.delta)

    see_output_text_delta = see_transcript_delta

    def see_turn_started(self, _event: Any) -> None:
        """Note that a response begins; it is one to all that the user has said."""
        if self.active is not None:
            self.active.responding = False
        self.active = self.turn or self._new_turn()
        self.active.response_began()

    def see_turn_ended(self, _event: Any) -> None:
        """Note that a response ended."""
        turn, self.active = self._replying(), None
        turn.responding = False
        turn.settle()

    def see_audio_interrupted(self, event: Any) -> None:
        """Note that the user interrupted a reply, whose text stays as it is."""
        self._replying(event.item_id).responding = False

    def see_usage(self, event: Any) -> None:
        """Note the usage of a response."""
        model = getattr(self.session.model, "model", None)
        self._replying().builder.model_used(model if isinstance(model, str) else None, _messages.usage_of(event))

    def see_function_call(self, event: Any) -> None:
        """Note a call."""
        self.by_call[event.call_id] = self._replying()
        self.by_call[event.call_id].requested(event, self.session._current_agent)  # noqa: SLF001 - as the session does

    def see_guardrail_tripped(self, event: Any) -> None:
        """Note that guardrails stopped a reply, and will tell the model so in the name of the user."""
        names = ", ".join(result.guardrail.get_name() for result in event.guardrail_results)
        self.echoes.append(f"guardrail triggered: {names}")
        self._replying().blocked_by(names)

    def see_error(self, event: Any) -> None:
        """Note an error, after which the session may go on."""
        if self.turn is not None:
            self.turn.has_begun = True
            self.turn.problem = str(field_of(event.error, "message") or event.error)

    def see_exception(self, event: Any) -> None:
        """Note the exception that ends the session."""
        if self.turn is not None:
            self.turn.ended_by(event.exception)


def _part_of(part: Any) -> dict[str, Any]:
    """Return an image, or what was typed or transcribed as a part with text."""
    if field_of(part, "image_url"):
        return part if isinstance(part, dict) else dict(part)
    return {"type": "input_text", "text": field_of(part, "text") or field_of(part, "transcript") or ""}


def _text_of(content: Any) -> str:
    return "".join(_part_of(part).get("text", "") for part in content)
