"""An agent of the SDK wrapped for `evaluate`."""

from __future__ import annotations

import inspect
from typing import Any, Final

from toolgrade import Approve, ConfigurationError, Reject
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import Run
from toolgrade_openai_agents._recorder import Recorder

_ITEMS: Final = "openai_agents.items"
_AGENT: Final = "openai_agents.agent"
_SESSION: Final = "openai_agents.session"
_WAITING: Final = "openai_agents.waiting"
"""The result of a run that waits for a person, and its recorder, which joins the run that goes on."""


def as_agent(agent: Any, **options: Any) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    Each turn of a conversation receives the items of the turns before it and begins with the agent that the last turn
    ended with. A run that fails is returned with its error and the calls up to it.

    `Approve()` and `Reject("why")` answer a run that waits: they approve or reject each call that needs approval, and
    the run goes on from its state. The model is told why where `RunState.reject` takes a `rejection_message`.

    Args:
        agent: The agent.
        options: Options of `Runner.run`, such as `context`, `max_turns` or `run_config`. A `session` replaces the
            items: as a function, it returns the session for the id of a conversation, such as
            `session=SQLiteSession`; with a session itself, use the agent in one conversation only.

    Example:
        >>> import asyncio
        >>> from agents import Agent, OpenAIChatCompletionsModel, RunConfig, function_tool
        >>> from openai import AsyncOpenAI
        >>> from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate_async
        >>> from toolgrade.testing import AskFor, FakeOpenAI
        >>> from toolgrade_openai_agents import as_agent
        >>> get_weather = function_tool(lambda city: f"sunny in {city}", name_override="get_weather")
        >>> goldens = [Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        >>> async def main() -> str:
        ...     with FakeOpenAI([AskFor("get_weather", {"city": "Paris"}, "c1")], "It is sunny.") as server:
        ...         async with AsyncOpenAI(base_url=server.base_url, api_key="any") as client:
        ...             agent = Agent("Weather", model=OpenAIChatCompletionsModel("any", client), tools=[get_weather])
        ...             agent = as_agent(agent, run_config=RunConfig(tracing_disabled=True))
        ...             report = await evaluate_async(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()])
        ...     return report.cases[0].results[0].reason
        >>> asyncio.run(main())
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """

    async def ask(input: Any, conversation: Conversation) -> Run:
        memory = conversation.memory
        session = options.get("session")
        if callable(session) and _SESSION not in memory:
            memory[_SESSION] = session(conversation.id)
        run_options = {**options, "session": memory[_SESSION]} if _SESSION in memory else options
        waiting, recorder = memory.get(_WAITING, (None, None))
        if waiting is not None:
            items = _answered(waiting, input)
            del memory[_WAITING]
        elif not isinstance(input, str):
            raise ConfigurationError("Approve and Reject must answer a run that waits, and none waits; give a text")
        elif "session" not in options and _ITEMS in memory:
            items = [*memory[_ITEMS], {"role": "user", "content": input}]
        else:
            items = input
        recorder = recorder or Recorder(conversation=conversation.id)
        try:
            result = await recorder.run(memory.get(_AGENT, agent), items, **run_options)
        except Exception:
            if not recorder.runs:
                raise
        except BaseException:
            conversation.unfinished = next(reversed(recorder.runs), None)
            raise
        else:
            if getattr(result, "interruptions", None):
                memory[_WAITING] = result, recorder
            else:
                memory[_ITEMS], memory[_AGENT] = result.to_input_list(), result.last_agent
        return recorder.last_run

    return ask


def _answered(result: Any, answer: Any) -> Any:
    """Return the state of a run that waits, with the answer of a person to each call that needs approval."""
    if not isinstance(answer, (Approve, Reject)):
        message = f"the answer to calls that need approval must be Approve() or Reject(), got the text {answer!r}"
        raise ConfigurationError(f"{message}; let a tool that asks for a text return it")
    state = result.to_state()
    takes_reason = "rejection_message" in inspect.signature(state.reject).parameters
    for item in state.get_interruptions():
        if isinstance(answer, Approve):
            state.approve(item)
        elif takes_reason and answer.reject:
            state.reject(item, rejection_message=answer.reject)
        else:
            state.reject(item)
    return state
