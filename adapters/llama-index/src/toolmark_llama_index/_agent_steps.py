"""Steps of agents and results of their calls, added to a `RunBuilder`; shared by spans and events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCallResult

from toolmark.calls import ToolCallType
from toolmark.capture import RunBuilder
from toolmark_llama_index._messages import requests_of
from toolmark_llama_index._results import Result, result_of

Key: TypeAlias = str
"""The id of one execution of a tool within a run."""

Place: TypeAlias = "tuple[Key | None, Key | None]"
"""Where an agent runs, as `scope` and `strand` of `RunBuilder`: the tool execution and the nested run around it, or
`None` at the top level."""

TOP: Final[Place] = (None, None)

HANDOFF: Final = "handoff"
"""The tool that passes control to another agent; LlamaIndex reserves its name."""


@dataclass(frozen=True)
class _Handoff:
    """A requested handoff; the next step shows whether it was accepted."""

    key: Key
    target: str
    result: Result
    at: datetime | None


class AgentSteps:
    """Adds the steps of agents and the results of their calls to a builder."""

    def __init__(self, builder: RunBuilder, type_of: Callable[[str], ToolCallType] | None = None) -> None:
        """Begin without steps; `type_of` returns the type of a tool by its name, where the tools are known."""
        self.builder = builder
        self._type_of = type_of
        self._handoffs: dict[Place, list[_Handoff]] = {}

    def model_answered(self, output: AgentOutput, place: Place) -> None:
        """Record an answer of the model of an agent, with or without requests for calls."""
        scope, strand = place
        agent = output.current_agent_name or None
        requests = requests_of(output)
        for request in requests:
            request.type = None if self._type_of is None else self._type_of(request.name)
        self.builder.model_asked(requests, scope=scope, strand=strand, agent=agent)

    def tool_returned(
        self,
        key: Key,
        event: ToolCallResult,
        place: Place,
        at: datetime | None = None,
        raised: BaseException | None = None,
    ) -> None:
        """Record the result of a call that ran; `raised` is the exception of its tool, if one was observed."""
        result = result_of(event.tool_output, raised)
        target = event.tool_kwargs.get("to_agent") if event.tool_name == HANDOFF else None
        if isinstance(target, str) and result.error is None:
            self._handoffs.setdefault(place, []).append(_Handoff(key, target, result, at))
            return
        self._end(key, result, at)
        if isinstance(target, str):
            self.builder.handed_off(to=target, key=key, scope=place[0])

    def missing_tool(self, event: ToolCallResult, place: Place) -> None:
        """Record the answer to a call of a tool that does not exist."""
        self.builder.result_shown(
            event.tool_output.content,
            call_id=event.tool_id or None,
            name=event.tool_name,
            failed=True,
            unknown_tool=True,
            scope=place[0],
            strand=place[1],
        )

    def step_began(self, agent: str | None, place: Place) -> None:
        """Record the start of a step and end the requested handoffs: those to its agent as accepted, others as failed.

        Args:
            agent: The name of the agent; `None` at the end of the run, where all handoffs count as accepted.
            place: Where the agent runs.
        """
        # When a model requests several handoffs at once, LlamaIndex follows one; the results do not show which.
        for handoff in self._handoffs.pop(place, ()):
            result = handoff.result
            if agent is not None and agent != handoff.target:
                result = Result(None, result.model_output, error=str(result.model_output))
            self._end(handoff.key, result, handoff.at)
            self.builder.handed_off(to=handoff.target, key=handoff.key, scope=place[0])

    def finish(self) -> None:
        """Record the end of the run."""
        for place in list(self._handoffs):
            self.step_began(None, place)

    def _end(self, key: Key, result: Result, at: datetime | None) -> None:
        self.builder.tool_ended(
            key, result.output, model_output=result.model_output, error=result.error, artifact=result.artifact, at=at
        )
