"""What is an agent to an evaluation? Something that is asked, and gives back the run that answering took.

```python
import asyncio

from toolmark import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolmark.agents import Conversation


async def agent(question: str, conversation: Conversation) -> Run:
    made = ToolCall(name="lookup", input_parameters={"city": question})
    return Run(input=question, actual_output="sunny", calls=[made])


goldens = [Golden(input="Paris", expected_tools=[ToolCall(name="lookup")])]
assert evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()]).passed
```

The adapters make one of an agent of their framework with `as_agent(agent)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from pydantic import BaseModel

from toolmark.cases import Golden, LLMTestCase, Run, RunStatus
from toolmark.errors import ConfigurationError

DEFAULT_CONCURRENCY = 8
"""How many questions an agent is asked at the same time, where nothing else is said."""


@dataclass(eq=False)
class Conversation:
    """One conversation with an agent: turns that the agent shall remember are asked with the same one.

    Attributes:
        id: Its name; the runs of it have it as `conversation_id`.
        memory: What an adapter keeps of it between turns, by names of its own; gone with the conversation.
    """

    id: str = field(default_factory=lambda: str(uuid4()))
    memory: dict[str, Any] = field(default_factory=dict)


AgentCallable: TypeAlias = Callable[[str, Conversation], Awaitable[Run]]
"""An agent as an evaluation asks it: `async (input, conversation) -> Run`.

It should return the run also where that ended with an error; what it raises instead is the case's error, and calls that
were made until then are lost.
"""


async def run_goldens(
    goldens: Iterable[Golden], agent: AgentCallable, *, max_concurrency: int = DEFAULT_CONCURRENCY
) -> list[LLMTestCase]:
    """Ask an agent each golden's question, and return what came of it as cases, in the order of the goldens.

    Each golden gets a conversation of its own. An agent that raises stops nothing: its case has no called tools, and a
    run that says what was raised.

    Args:
        goldens: The questions, with what is expected. A case has the golden's id, else its position from 1 as `#3`.
        agent: The agent.
        max_concurrency: How many questions are asked at the same time.

    Raises:
        ConfigurationError: There is no golden, something among them is none, or an option is out of range.
    """
    asked = check_goldens(goldens)
    check_agent(agent)
    places = asyncio.Semaphore(check_concurrency(max_concurrency))

    async def ask(golden: Golden, place: int) -> LLMTestCase:
        async with places:
            return await run_golden(golden, agent, place)

    tasks = [asyncio.ensure_future(ask(golden, place)) for place, golden in enumerate(asked)]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # whoever stops the evaluation stops the agents, too
            task.cancel()


async def run_golden(golden: Golden, agent: AgentCallable, place: int) -> LLMTestCase:
    """Ask an agent one golden's question, in a conversation of its own; see `run_goldens`.

    Args:
        golden: The question.
        agent: The agent.
        place: Position of the golden, from 0.
    """
    return _case(golden, await _answer(agent, golden.input), place)


def check_agent(agent: object) -> None:
    """Raise unless it is something that can be asked.

    Raises:
        ConfigurationError: It cannot be called.
    """
    if not callable(agent):
        message = f"agent must be a function `async (input, conversation) -> Run`, got {type(agent).__name__}"
        raise ConfigurationError(f"{message}; the adapters make one of their framework's agents with as_agent(agent)")


def check_trials(value: object) -> int | None:
    """Return how often each golden is asked.

    Raises:
        ConfigurationError: It is neither `None` nor a whole number from 1.
    """
    if value is not None and (type(value) is not int or value < 1):
        message = f"trials must be a whole number from 1, or None to ask each golden once; got {value!r}"
        raise ConfigurationError(message)
    return value


def check_concurrency(value: object) -> int:
    """Return how much may go on at the same time.

    Raises:
        ConfigurationError: It is no whole number from 1.
    """
    if type(value) is not int or value < 1:
        message = f"max_concurrency must be a whole number from 1, got {value!r}"
        raise ConfigurationError(message)
    return value


def check_goldens(goldens: object) -> Sequence[Golden]:
    """Return the goldens.

    Raises:
        ConfigurationError: There is none, or something among them is no golden.
    """
    if isinstance(goldens, (BaseModel, str, bytes, Mapping)) or not isinstance(goldens, Iterable):
        message = f"goldens must be a list of Golden, got {type(goldens).__name__}"
        raise ConfigurationError(message)
    found = list(goldens)
    for index, golden in enumerate(found):
        if not isinstance(golden, Golden):
            message = f"goldens[{index}] must be a Golden, got {type(golden).__name__}"
            raise ConfigurationError(message)
    if not found:
        message = "there is nothing to ask: goldens is empty"
        raise ConfigurationError(message)
    return found


async def _answer(agent: AgentCallable, question: str) -> Run:
    """Return the run of one question; of an agent that raises, one that says so and knows no calls."""
    conversation = Conversation()
    try:
        run: object = await agent(question, conversation)
    except Exception as error:  # noqa: BLE001 - one agent that fails must not lose the others
        text = f"{type(error).__name__}: {error}"
    else:
        if isinstance(run, Run):
            return run
        text = f"the agent returned {type(run).__name__}, where a Run is needed"
    return Run(
        input=question,
        status=RunStatus.ERROR,
        error=text,
        conversation_id=conversation.id,
        warnings=["the agent failed without a run, so what it called is not known"],
    )


def _case(golden: Golden, run: Run, index: int) -> LLMTestCase:
    """Return the case of a golden and the run that it led to; what the golden says comes before what the run does."""
    case = run.to_test_case(
        expected_tools=golden.expected_tools,
        expected_output=golden.expected_output,
        id=golden.id or f"#{index + 1}",
    )
    changed: dict[str, Any] = {"input": golden.input, "tags": [*golden.tags, *case.tags]}
    changed["metadata"] = {**case.metadata, **golden.metadata}
    if golden.available_tools is not None:
        changed["available_tools"] = golden.available_tools
    fields = {name: getattr(case, name) for name in case.model_fields_set} | changed
    if run.status is RunStatus.ERROR and "calls" not in run.model_fields_set:
        del fields["tools_called"]  # nothing is known of its calls, which is not that there were none
    if golden.expected_tools is None:
        fields.pop("expected_tools", None)
    return LLMTestCase(**{name: value for name, value in fields.items() if value or name not in ("tags", "metadata")})
