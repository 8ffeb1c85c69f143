"""Answers of agents' models, results of their calls, and handoffs, added to a `RunBuilder`; for spans and events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCallResult

from toolgrade.calls import ToolCallType
from toolgrade.capture import Branch, RunBuilder
from toolgrade_llama_index._hosted import with_hosted
from toolgrade_llama_index._messages import requests_of, selections_of
from toolgrade_llama_index._results import ToolReturn, result_of

Key: TypeAlias = str
"""The id of one execution of a tool within a run."""

TOP: Final = Branch(None, None)

HANDOFF: Final = "handoff"
"""The tool that passes control to another agent; LlamaIndex reserves its name."""

_REFUSAL: Final = "Please select a valid agent to hand off to"
_OVERTAKEN: Final = "another handoff of the same message was carried out"


@dataclass(frozen=True)
class _PendingHandoff:
    """A handoff whose tool has returned; the next step shows whether control passed."""

    key: Key
    target: str
    result: ToolReturn
    at: datetime | None

    @property
    def is_refused(self) -> bool:
        """Whether the tool answered with LlamaIndex's refusal, which counts as a success there."""
        text = str(self.result.model_output)
        return text.startswith(f"Agent {self.target} ") and _REFUSAL in text


class AgentLog:
    """Adds to a builder what the agents of a run answered, what their calls returned, and to whom they handed over."""

    def __init__(self, builder: RunBuilder, type_of: Callable[[str], ToolCallType] | None = None) -> None:
        """Begin empty; `type_of` returns the type of a tool by its name, where the tools are known."""
        self.builder = builder
        self._type_of = type_of
        self._handoffs: dict[Branch, list[_PendingHandoff]] = {}

    def agent_answered(self, output: AgentOutput, place: Branch, *, can_hand_over: bool) -> None:
        """Record an answer of the model of an agent, with or without requests for calls.

        Args:
            output: The answer.
            place: Where the agent runs.
            can_hand_over: The agent has the handoff tool.
        """
        agent = output.current_agent_name or None
        requests = with_hosted(requests_of(selections_of(output), output.response), output, self.builder.warn)
        handoffs = [request for request in requests if can_hand_over and request.name == HANDOFF]
        for request in requests:
            if request.type is None and self._type_of is not None:
                request.type = self._type_of(request.name)
        self.builder.model_asked(requests, scope=place, agent=agent)
        for request in handoffs:
            # Control has not passed yet, and does not if the run ends before.
            self.builder.handed_off(to=_target_of(request.arguments), request=request, took_place=False)

    def tool_returned(
        self,
        key: Key,
        event: ToolCallResult,
        place: Branch,
        at: datetime | None = None,
        raised: BaseException | None = None,
        *,
        is_handoff: bool = False,
    ) -> None:
        """Record the result of a call that ran.

        Args:
            key: The execution.
            event: The result.
            place: Where the agent runs.
            at: Time of the end.
            raised: The exception of the tool, if one was observed.
            is_handoff: The tool is LlamaIndex's handoff tool.
        """
        result = result_of(event.tool_output, raised)
        target = _target_of(event.tool_kwargs) if is_handoff else None
        if target is not None and result.error is None:
            self._handoffs.setdefault(place, []).append(_PendingHandoff(key, target, result, at))
            return
        self._end(key, result, at)
        if is_handoff:
            self.builder.handed_off(to=target, key=key, took_place=False)

    def missing_tool(self, event: ToolCallResult, place: Branch) -> None:
        """Record the answer to a call of a tool that does not exist."""
        self.builder.result_shown(
            event.tool_output.content,
            call_id=event.tool_id or None,
            name=event.tool_name,
            failed=True,
            unknown_tool=True,
            scope=place,
        )

    def step_began(self, agent: str | None, place: Branch) -> None:
        """Record the start of a step and end the requested handoffs: one to its agent as accepted, others as failed.

        Args:
            agent: The name of the agent; `None` at the end of the run, where the last handoff counts as accepted.
            place: Where the agent runs.
        """
        handoffs = self._handoffs.pop(place, [])
        # When a model requests several handoffs at once, LlamaIndex follows the one that ended last.
        accepted = next((one for one in reversed(handoffs) if not one.is_refused and agent in (None, one.target)), None)
        for handoff in handoffs:
            result = handoff.result
            if handoff is not accepted:
                text = str(result.model_output) if handoff.is_refused else _OVERTAKEN
                result = ToolReturn(None, result.model_output, error=text)
            self._end(handoff.key, result, handoff.at)
            self.builder.handed_off(to=handoff.target, key=handoff.key, took_place=handoff is accepted)

    def finish(self) -> None:
        """Record the end of the run."""
        for place in list(self._handoffs):
            self.step_began(None, place)

    def _end(self, key: Key, result: ToolReturn, at: datetime | None) -> None:
        self.builder.tool_ended(
            key, result.output, model_output=result.model_output, error=result.error, artifact=result.artifact, at=at
        )


def _target_of(arguments: Any) -> str | None:
    """Return the agent that a handoff names, as LlamaIndex's tool writes it; `None` if it names none."""
    return str(arguments["to_agent"]) if isinstance(arguments, dict) and "to_agent" in arguments else None
