"""An agent of the SDK as an evaluation asks it."""

from __future__ import annotations

from typing import Any

from agents import Runner

from toolmark.agents import AgentCallable, Conversation
from toolmark.capture import Run
from toolmark_openai_agents._recorder import record

_ITEMS = "openai_agents.items"
_AGENT = "openai_agents.agent"


def as_agent(agent: Any, **options: Any) -> AgentCallable:  # noqa: ANN401 - an agent and options of the SDK
    """Return an agent as `evaluate(goldens=..., agent=...)` asks it: `async (input, conversation) -> Run`.

    Each turn of a conversation is given the items of those before, and goes on with the agent that the last one ended
    with. A run that fails is returned as far as it came, with its error.

    Args:
        agent: The agent.
        options: Options of `Runner.run`, such as `context`, `max_turns` or `run_config`; `session` in place of the
            items, for an agent that is asked in one conversation only.
    """

    async def ask(input: str, conversation: Conversation) -> Run:
        memory = conversation.memory
        given: Any = input
        if "session" not in options and _ITEMS in memory:
            given = [*memory[_ITEMS], {"role": "user", "content": input}]
        with record(conversation=conversation.id) as recorder:
            try:
                result = await Runner.run(memory.get(_AGENT, agent), given, **options)
            except Exception:
                if not recorder.runs:
                    raise
            else:
                memory[_ITEMS], memory[_AGENT] = result.to_input_list(), result.last_agent
        return recorder.last_run

    return ask
