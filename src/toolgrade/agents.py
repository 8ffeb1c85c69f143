"""Agents as an evaluation calls them: functions that take a question and return the recorded run.

```python
import asyncio

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade._internal.model import set_fields
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

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from pydantic import BaseModel

from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.sync_bridge import GRACE, call
from toolgrade._internal.text import error_text
from toolgrade.cases import LLMTestCase, Run, RunStatus
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

AgentCallable: TypeAlias = Callable[[str, Conversation], "Awaitable[Run] | Run"]
"""An agent: `(input, conversation) -> Run`, async or not. One that is not async runs in a thread of its own.

If the agent fails midway, it should return a `Run` with status `ERROR`, so that its calls are in the case. If it raises
instead, its calls are unknown, and the run of the case has the exception as its error.
"""


async def run_golden(golden: Golden, agent: AgentCallable, limit: float | None = None) -> LLMTestCase:
    """Run an agent on one golden in a new conversation, and return the case.

    If the agent raises, or has not answered after `limit` seconds, the run of the case says so. Its called tools are
    then unknown, unless the agent has stored them in `Conversation.unfinished`. The id of the golden becomes that of
    the case.
    """
    run = await _run_agent(agent, golden.input, limit)
    if run.error is not None:
        run = run.model_copy(update={"error": " ".join(run.error.split())})  # reports show it on one line
    return _case(golden, run)


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


async def _run_agent(agent: AgentCallable, question: str, limit: float | None) -> Run:
    """Return the run of an agent on one question; if the agent breaks or is late, a run that says so."""
    conversation = Conversation()
    # The agent has a task of its own: what it does to its context or its task concerns no other question.
    asking = asyncio.ensure_future(_answer(agent, question, conversation))
    try:
        await asyncio.wait({asking}, timeout=limit)
        is_late = not asking.done()
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=GRACE)
    run = asking.result() if asking.done() and not asking.cancelled() else None
    if run is not None and not is_late:
        return run
    conversation.unfinished = conversation.unfinished or run
    error = f"TimeoutError: no answer within {limit:g} s" if is_late else "CancelledError"
    return _broken_run(question, conversation, RunStatus.STOPPED, error)


async def _answer(agent: AgentCallable, question: str, conversation: Conversation) -> Run:
    """Return the run of an agent; if it raises or returns something else, a run with the error."""
    result, error = await call(agent, question, conversation)
    if error is None and isinstance(result, Run):
        return result
    text = f"the agent must return a Run, got {type(result).__name__}" if error is None else error_text(error)
    return _broken_run(question, conversation, RunStatus.ERROR, text)


def _broken_run(question: str, conversation: Conversation, status: RunStatus, error: str) -> Run:
    """Return the run of an agent that did not return one, with unknown calls unless it has stored them."""
    run = conversation.unfinished or Run(
        input=question,
        conversation_id=conversation.id,
        warnings=["the agent failed without a run, so its calls are unknown"],
    )
    return run.model_copy(update={"status": status, "error": error, "actual_output": None})


def _case(golden: Golden, run: Run) -> LLMTestCase:
    """Return the case of a golden and its run.

    The golden's input replaces that of the run, and so do its available tools unless they are `None`. Tags are joined
    and metadata is merged; for a key in both, the golden's value counts.
    """
    case = run.to_test_case(
        expected_tools=golden.expected_tools,
        expected_output=golden.expected_output,
        required_texts=golden.required_texts or None,
        ends=golden.ends,
        id=golden.id,
    )
    # A field that is set, even to an empty value, is written to files; without tags or metadata it should not be.
    changed = {
        "input": golden.input,
        "tags": [*golden.tags, *case.tags] or None,
        "metadata": {**case.metadata, **golden.metadata} or None,
        "available_tools": golden.available_tools,
    }
    fields = set_fields(case) | drop_none(changed)
    if run.status is not RunStatus.OK and "calls" not in run.model_fields_set:
        del fields["tools_called"]  # unknown calls, which differ from no calls
    return LLMTestCase(**fields)
