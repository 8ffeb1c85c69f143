"""An agent of LangChain or LangGraph as an evaluation asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from toolmark.agents import AgentCallable, Conversation
from toolmark.capture import Run
from toolmark_langchain._recorder import record

_MESSAGES = "langchain.messages"


def as_agent(
    agent: Any,
    *,
    config: Mapping[str, Any] | None = None,
    to_input: Callable[[str], Any] | None = None,
) -> AgentCallable:
    """Return an agent as `evaluate(goldens=..., agent=...)` asks it: `async (input, conversation) -> Run`.

    A graph with a checkpointer is asked in a thread of the conversation's own; one without is given the messages of the
    turns before. A run that fails is returned as far as it came, with its error.

    Args:
        agent: The graph, agent or other runnable.
        config: A configuration for each run, such as `{"recursion_limit": 10}`.
        to_input: Makes the agent's input of the text of the user; by default `{"messages": [...]}`. An agent that has
            one remembers nothing but what its checkpointer does.
    """

    async def ask(input: str, conversation: Conversation) -> Run:
        given = dict(config or {})
        given["configurable"] = {"thread_id": conversation.id, **(given.get("configurable") or {})}
        message = HumanMessage(input)
        keeps = to_input is None and not getattr(agent, "checkpointer", None)
        before = conversation.memory.get(_MESSAGES, []) if keeps else []
        asked = {"messages": [*before, message]} if to_input is None else to_input(input)
        with record(conversation=conversation.id) as recorder:
            try:
                state = await agent.ainvoke(asked, given)
            except Exception:
                if not recorder.runs:
                    raise
            else:
                if keeps and isinstance(state, Mapping) and isinstance(state.get("messages"), list):
                    conversation.memory[_MESSAGES] = state["messages"]
        return recorder.last_run

    return ask
