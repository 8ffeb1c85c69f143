"""An agent of the SDK wrapped for `evaluate`."""

from __future__ import annotations

from typing import Any, Final

from agents import Runner

from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import Run
from toolgrade_openai_agents._recorder import record

_ITEMS: Final = "openai_agents.items"
_AGENT: Final = "openai_agents.agent"


def as_agent(agent: Any, **options: Any) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    Each turn of a conversation receives the items of the turns before it and begins with the agent that the last turn
    ended with. A run that fails is returned with its error and the calls up to it.

    Args:
        agent: The agent.
        options: Options of `Runner.run`, such as `context`, `max_turns` or `run_config`. With a `session`, which
            replaces the items, use the agent in one conversation only.

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

    async def ask(input: str, conversation: Conversation) -> Run:
        memory = conversation.memory
        items: Any = input
        if "session" not in options and _ITEMS in memory:
            items = [*memory[_ITEMS], {"role": "user", "content": input}]
        with record(conversation=conversation.id) as recorder:
            try:
                result = await Runner.run(memory.get(_AGENT, agent), items, **options)
            except Exception:
                if not recorder.runs:
                    raise
            except BaseException:
                conversation.unfinished = next(reversed(recorder.runs), None)
                raise
            else:
                memory[_ITEMS], memory[_AGENT] = result.to_input_list(), result.last_agent
        return recorder.last_run

    return ask
