"""Agents as an evaluation calls them: functions that take a question and return the recorded run.

```python
import asyncio

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation


async def agent(question: str, conversation: Conversation) -> Run:
    call = ToolCall(name="lookup", input_parameters={"city": question})
    return Run(input=question, actual_output="sunny", calls=[call])


goldens = [Golden(input="Paris", expected_tools=[ToolCall(name="lookup")])]
assert evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()]).passed
```

The adapters wrap an agent of their framework with `as_agent(agent)`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from pydantic import BaseModel

from toolgrade.cases import Run
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError

__all__ = ["AgentCallable", "Conversation"]

DEFAULT_CONCURRENCY = 8
"""Questions that an agent answers at the same time by default."""


@dataclass(eq=False)
class Conversation:
    """One conversation with an agent; pass the same object for turns that the agent should remember.

    Attributes:
        id: The `conversation_id` of its runs.
        memory: State that an adapter stores between turns, by keys of its choice.
        unfinished: The recorded part of a turn that the agent does not return, since it was cancelled or raises. An
            agent sets it first, so that the calls of a turn that timed out are known.

    Example:
        >>> import asyncio
        >>> from toolgrade import Run
        >>> from toolgrade.agents import Conversation
        >>> async def agent(question: str, conversation: Conversation) -> Run:
        ...     number = conversation.memory["turns"] = conversation.memory.get("turns", 0) + 1
        ...     return Run(input=question, actual_output=f"answer {number}", conversation_id=conversation.id)
        >>> conversation = Conversation()
        >>> [asyncio.run(agent(question, conversation)).actual_output for question in ("Paris?", "And Rome?")]
        ['answer 1', 'answer 2']
    """

    id: str = field(default_factory=lambda: str(uuid4()))
    memory: dict[str, Any] = field(default_factory=dict)
    unfinished: Run | None = None


Goldens: TypeAlias = "Iterable[Golden] | str | os.PathLike[str]"
"""Goldens, or the path of a file of them."""

AgentCallable: TypeAlias = Callable[[Any, Conversation], "Awaitable[Run] | Run"]
"""An agent: `(input, conversation) -> Run`, async or not. One that is not async runs in a thread of its own.

The input is the text of the user. After a run with the status `interrupted`, it is the answer of the person for whom
it waits: `Approve()`, `Reject("why")` or text. The run that the agent then returns has the whole turn, from the text of
the user on, with each call once.

If the agent fails midway, it should return a `Run` with status `ERROR`, so that its calls are in the case. If it raises
instead, its calls are unknown, and the run of the case has the exception as its error.
"""


def check_agents(agents: object) -> Mapping[str | None, AgentCallable]:
    """Return agents by their names; raise `ConfigurationError` if they are not that. A single one may have no name."""
    names = list(agents) if isinstance(agents, Mapping) else []
    if not isinstance(agents, Mapping) or not names or not all(one is None or isinstance(one, str) for one in names):
        raise ConfigurationError(f"agents must be a dict of at least one agent by its name, got {agents!r:.60}")
    for name, agent in agents.items():
        label = "agent" if name is None else f"agents[{name!r}]"
        message = f"{label} must be a function `async (input, conversation) -> Run`, got "
        if not callable(agent):
            message += type(agent).__name__
            raise ConfigurationError(f"{message}; the adapters wrap agents of their framework with as_agent(agent)")
        if not _takes_two(agent):
            signature = inspect.signature(agent)
            empty = inspect.Parameter.empty
            names = [one.replace(annotation=empty) for one in signature.parameters.values()]
            message += f"one that takes {signature.replace(parameters=names, return_annotation=empty)}"
            raise ConfigurationError(f"{message}; give it the parameters (input, conversation)")
    return agents


def _takes_two(agent: Callable[..., object]) -> bool:
    """Return whether an agent can be called with an input and a conversation."""
    try:
        own = inspect.signature(agent, follow_wrapped=False)
    except ValueError:  # some functions in C have no signature
        return True
    signatures = [own]
    if any(one.kind is one.VAR_POSITIONAL for one in own.parameters.values()):
        signatures.append(inspect.signature(agent))  # a decorator usually passes all arguments on
    try:
        for signature in signatures:
            signature.bind("", Conversation())
    except TypeError:
        return False
    return True


def check_goldens(goldens: object) -> Sequence[Golden]:
    """Return the goldens as a list, or those of a file.

    Raises:
        ConfigurationError: There are none, or objects of another type.
        DataFileError: See `Golden.load`.
    """
    if isinstance(goldens, (str, os.PathLike)):
        goldens = Golden.load(goldens)
    if isinstance(goldens, (BaseModel, bytes, Mapping)) or not isinstance(goldens, Iterable):
        kind = type(goldens).__name__
        raise ConfigurationError(f"goldens must be a list of Golden or the path of a file, got {kind}")
    items = list(goldens)
    for index, golden in enumerate(items):
        if not isinstance(golden, Golden):
            raise ConfigurationError(f"goldens[{index}] must be a Golden, got {type(golden).__name__}")
    if not items:
        raise ConfigurationError("goldens must not be empty")
    return items
