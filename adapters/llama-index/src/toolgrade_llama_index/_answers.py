"""Runs that were left while they wait for a person, and the events that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.workflow import Context, Event, HumanResponseEvent, InputRequiredEvent, JsonPickleSerializer

from toolgrade import Approve, ConfigurationError, Reject
from toolgrade.cases import Run
from toolgrade_llama_index._errors import error_text
from toolgrade_llama_index._recorder import ToolCallRecorder


@dataclass
class WaitingRun:
    """A run that was left, and what is needed to go on with it.

    Attributes:
        recorder: The recorder of the run.
        run: What was recorded of it.
        state: The saved context.
        error: Why the context cannot be saved.
        questions: The events that asked a person.
    """

    recorder: ToolCallRecorder
    run: Run
    state: Mapping[str, Any]
    error: str | None
    questions: list[InputRequiredEvent]

    @classmethod
    def saved(cls, recorder: ToolCallRecorder, context: Any, questions: list[InputRequiredEvent]) -> WaitingRun:
        """Return the run of a context that is about to be left."""
        state: Mapping[str, Any] = {}
        failure = None
        try:
            state = context.to_dict(serializer=JsonPickleSerializer())
        except Exception as error:  # noqa: BLE001 - it matters only if the run is to go on
            failure = error_text(error)
        return cls(recorder, recorder.last_run, state, failure, questions)

    def continued(self, agent: Any, answer: Any) -> tuple[Any, list[Event]]:
        """Return the context of the run, and the events to send once it runs."""
        if self.error is not None:
            message = f"the context of a run that waits must be serializable to go on with the run, got {self.error}"
            raise ConfigurationError(f"{message}; or answer within the run, by as_agent(agent, human=...)")
        kinds = self._awaited() or _accepted(agent) or [HumanResponseEvent]
        events = [_response(kind, question, answer) for kind in kinds for question in self.questions]
        # An event answers all waiters that state no requirements; to send another one would run their steps twice.
        needs = [waiter.get("has_requirements") for waiter in waiters_in(self.state)]
        events = events[:: len(self.questions)] if needs and not any(needs) else _unique(events)
        return Context.from_dict(agent, dict(self.state), serializer=JsonPickleSerializer()), events

    def _awaited(self) -> list[type[Event]]:
        """Return the classes of the events that steps and tools wait for."""
        names = {waiter["waiting_for_event"] for waiter in waiters_in(self.state)}
        kinds: list[type[Event]] = [Event]
        for kind in kinds:
            kinds += kind.__subclasses__()
        return [kind for kind in kinds if f"{kind.__module__}.{kind.__name__}" in names]


def waiters_in(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what steps and tools wait for, as a saved context stores it."""
    steps = (state.get("workers") or {}).values()
    return [waiter for step in steps for waiter in step.get("collected_waiters") or ()]


def _accepted(agent: Any) -> list[type[Event]]:
    """Return the classes of the answers that begin a step."""
    steps = agent._get_steps().values()  # noqa: SLF001 - no public method says it in all versions
    accepted = [kind for step in steps for kind in step._step_config.accepted_events]  # noqa: SLF001 - as above
    kinds = [kind for kind in accepted if isinstance(kind, type) and issubclass(kind, HumanResponseEvent)]
    return list(dict.fromkeys(kinds))


def _unique(events: list[Event]) -> list[Event]:
    return [event for place, event in enumerate(events) if event not in events[:place]]


def _response(kind: type[Event], question: InputRequiredEvent, answer: Any) -> Event:
    """Return the event that answers a question; it repeats the fields of the question, by which waiters may choose."""
    fields = {name: getattr(question, name) for name in type(question).model_fields} | dict(question.items())
    fields.pop("prefix", None)
    name, form = _free_field(kind, fields)
    if isinstance(answer, str):
        if form is bool:
            raise ConfigurationError(f"the answer to {kind.__name__} must be Approve() or Reject(), got {answer!r}")
        return kind(**fields, **{name: answer})
    if isinstance(answer, Reject) and answer.reject:
        fields["reason"] = answer.reject
    is_yes = isinstance(answer, Approve)
    return kind(**fields, **{name: is_yes if form is bool else "yes" if is_yes else "no"})


def _free_field(kind: type[Event], fields: Mapping[str, object]) -> tuple[str, object]:
    """Return the name and the type of the field that an answer fills: the only required one besides `fields`."""
    missing: dict[str, Any] = {name: one.annotation for name, one in kind.model_fields.items() if one.is_required()}
    free = [(name, form) for name, form in missing.items() if name not in fields] or [("response", str)]
    if len(free) > 1 or free[0][1] not in (str, Any, bool):
        got = ", ".join(f"{name}: {form}" for name, form in free)
        message = f"{kind.__name__}, for which the run waits, must have one field of text or bool to take an answer"
        raise ConfigurationError(f"{message}, got {got}; answer within the run, by as_agent(agent, human=...)")
    return free[0]
