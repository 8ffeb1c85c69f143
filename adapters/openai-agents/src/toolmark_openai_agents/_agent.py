"""An agent of the SDK wrapped for `evaluate`."""

from __future__ import annotations

from typing import Any, Final

from agents import Runner

from toolmark.agents import AgentCallable, Conversation
from toolmark.cases import Run
from toolmark_openai_agents._recorder import record

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
            else:
                memory[_ITEMS], memory[_AGENT] = result.to_input_list(), result.last_agent
        return recorder.last_run

    return ask
