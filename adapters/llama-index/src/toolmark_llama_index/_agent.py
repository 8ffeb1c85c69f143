"""An agent of LlamaIndex as an evaluation asks it."""

from __future__ import annotations

from typing import Any, Final

from llama_index.core.memory import ChatMemoryBuffer

from toolmark.agents import AgentCallable, Conversation
from toolmark.capture import Run
from toolmark_llama_index._run_case import run_case

_MEMORY: Final = "llama_index.memory"
_ALL: Final = 1_000_000_000
"""Tokens that a memory keeps: by default it forgets what does not fit into a small model."""


def as_agent(agent: Any, **options: Any) -> AgentCallable:
    """Return an agent as `evaluate(goldens=..., agent=...)` asks it: `async (input, conversation) -> Run`.

    The turns of a conversation share a memory, unless the options have one, a `ctx` or a `chat_history`. A run that
    fails is returned as far as it came, with its error.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent or `AgentWorkflow`.
        options: Options of `run_case`, such as `timeout`, `max_iterations` or `memory`.
    """
    shares = not {"ctx", "memory", "chat_history"} & set(options)

    async def ask(input: str, conversation: Conversation) -> Run:
        given = dict(options)
        if shares:
            memory = ChatMemoryBuffer.from_defaults(token_limit=_ALL)
            given["memory"] = conversation.memory.setdefault(_MEMORY, memory)
        case = await run_case(agent, input, **given)
        run = case.run or Run(input=input)
        return run.model_copy(update={"conversation_id": conversation.id})

    return ask
