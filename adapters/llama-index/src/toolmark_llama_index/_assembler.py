"""What of a run is told in the same words by spans and by events? Agents' answers, results of tools, hand-overs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCall, ToolCallResult
from llama_index.core.tools import ToolOutput

from toolmark.capture import RunBuilder
from toolmark_llama_index._requests import requests_of
from toolmark_llama_index._results import Result, result_of

Key: TypeAlias = str
"""Names an execution of a tool within one run."""

Place: TypeAlias = "tuple[Key | None, Key | None]"
"""Where something happens: inside which execution of a tool, and in which of the nested runs, if in any."""

TOP: Final[Place] = (None, None)

HANDOFF: Final = "handoff"
"""The tool by which agents hand over; users' own tools cannot have this name."""


@dataclass(frozen=True)
class _HandOver:
    """A hand-over that was asked for and whose outcome the next agent will tell."""

    key: Key
    to: str
    result: Result
    at: datetime | None


class Assembler:
    """Tells a `RunBuilder` what agents say and what becomes of their calls."""

    def __init__(self, builder: RunBuilder) -> None:
        """Begin with nothing seen."""
        self.builder = builder
        self._hand_overs: dict[Place, list[_HandOver]] = {}

    def answered(self, output: AgentOutput, place: Place) -> None:
        """An agent's model answered, with or without asking for calls."""
        scope, strand = place
        agent = output.current_agent_name or None
        self.builder.model_asked(requests_of(output), scope=scope, strand=strand, agent=agent)

    def returned(
        self,
        key: Key,
        event: ToolCallResult,
        place: Place,
        at: datetime | None = None,
        raised: BaseException | None = None,
    ) -> None:
        """A call that was started has a result; `raised` is what its tool was seen to raise."""
        result = result_of(event.tool_output, raised)
        to = target_of(event)
        if to is None:
            self._end(key, result, at)
        elif result.error is not None:
            self._end(key, result, at)
            self.builder.handed_off(to=to, key=key, scope=place[0])
        else:
            self._hand_overs.setdefault(place, []).append(_HandOver(key, to, result, at))

    def refused(self, event: ToolCallResult, place: Place) -> None:
        """A call was answered without a tool: there is none of this name."""
        self.builder.result_shown(
            event.tool_output.content,
            call_id=event.tool_id or None,
            name=event.tool_name,
            failed=True,
            unknown_tool=True,
            scope=place[0],
            strand=place[1],
        )

    def in_control(self, agent: str | None, place: Place) -> None:
        """An agent begins a step: of the hand-overs before it, those to it were accepted, the others refused.

        Args:
            agent: Its name; `None` where the run ended first, so that nothing speaks against them.
            place: Where it runs.
        """
        for asked in self._hand_overs.pop(place, ()):
            result = asked.result
            if agent is not None and agent != asked.to:
                result = Result(None, result.shown, str(result.shown))
            self._end(asked.key, result, asked.at)
            self.builder.handed_off(to=asked.to, key=asked.key, scope=place[0])

    def finish(self) -> None:
        """The run ended: what the next agent would have told is taken for accepted."""
        for place in list(self._hand_overs):
            self.in_control(None, place)

    def _end(self, key: Key, result: Result, at: datetime | None) -> None:
        self.builder.tool_ended(
            key, result.output, model_output=result.shown, error=result.error, artifact=result.artifact, at=at
        )


def target_of(call: ToolCall | ToolCallResult) -> str | None:
    """Return the agent that a call hands over to; `None` for any other call."""
    to = call.tool_kwargs.get("to_agent") if call.tool_name == HANDOFF else None
    return to if isinstance(to, str) else None


def is_unknown(event: ToolCallResult) -> bool:
    """Return whether a result says that there is no such tool, which LlamaIndex answers in the tool's place."""
    output: ToolOutput = event.tool_output
    return (
        output.is_error
        and output.raw_output is None
        and getattr(output, "exception", None) is None
        and output.content.startswith(f"Tool {event.tool_name} not found")
    )


def is_stopped(error: BaseException) -> bool:
    """Return whether a limit, a time limit or somebody's cancellation ended a run, rather than a failure."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"WorkflowTimeoutError", "WorkflowCancelledByUser", "CancelledError"}:
        return True
    return "WorkflowRuntimeError" in names and "Max iterations of" in str(error)
