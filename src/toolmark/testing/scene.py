"""Scenes: runs of an agent described without a framework, by user input, model answers and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from toolmark._internal.json import JsonObject
from toolmark.cases import MLLMImage
from toolmark.testing.scripted_model import ScriptedModel, Step, StepLike
from toolmark.testing.tool_doubles import ToolDouble


@dataclass(frozen=True)
class AgentTool:
    """A tool that is an agent: called with `{"input": ...}`, it plays its scene and returns the answer.

    Attributes:
        name: Name of the tool.
        scene: What the inner agent does.
        description: What it does, for the outer agent's model.
    """

    name: str
    scene: Scene
    description: str = "Ask another agent."

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of its arguments."""
        return {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


@dataclass(frozen=True)
class Scene:
    """One run of an agent.

    Attributes:
        steps: What its model answers; kept as `Step`s.
        tools: The tools it has.
        input: What the user says.
        agent: Name of the agent.
        tool_errors: A tool's exception goes to the model, or ends the run.
        handoffs: Agents that it can hand over to; each goes on with its own steps and tools.
        images: Images that the user sends after the text.
        is_structured: The last step is the JSON text of an object `{"total": int}`, which the agent must answer with:
            the framework asks the model for it in its own way, by a tool if it has one for that.
    """

    steps: Sequence[StepLike]
    tools: Sequence[ToolDouble | AgentTool] = ()
    input: str = "hi"
    agent: str = "agent"
    tool_errors: Literal["shown", "raised"] = "shown"
    handoffs: Sequence[Scene] = ()
    images: Sequence[MLLMImage] = ()
    is_structured: bool = False

    def __post_init__(self) -> None:
        """Convert the short forms of the steps."""
        object.__setattr__(self, "steps", tuple(Step.of(step) for step in self.steps))

    def model(self) -> ScriptedModel:
        """Return a new model that starts with the first step; use one for each run."""
        return ScriptedModel(*self.steps)
