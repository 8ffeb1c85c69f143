"""An agent of LlamaIndex as an evaluation asks it."""

from __future__ import annotations

from typing import Any

from llama_index.core.workflow import Context

from toolmark.agents import AgentCallable, Conversation
from toolmark.capture import Run, RunStatus
from toolmark_llama_index._run_case import run_case

_CONTEXT = "llama_index.context"


def as_agent(agent: Any, **options: Any) -> AgentCallable:  # noqa: ANN401 - an agent or workflow, and its options
    """Return an agent as `evaluate(goldens=..., agent=...)` asks it: `async (input, conversation) -> Run`.

    The turns of a conversation share a `Context`, unless the options have one or a `memory`. A run that fails is
    returned as far as it came, with its error; the next turn then begins anew.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent or `AgentWorkflow`.
        options: Options of `run_case`, such as `timeout`, `max_iterations` or `memory`.
    """
    shares = not {"ctx", "memory", "chat_history"} & set(options)

    async def ask(input: str, conversation: Conversation) -> Run:
        given = dict(options)
        if shares:
            given["ctx"] = conversation.memory.setdefault(_CONTEXT, Context(agent))
        case = await run_case(agent, input, **given)
        run = case.run or Run(input=input)
        if run.status is not RunStatus.OK:
            conversation.memory.pop(_CONTEXT, None)
        return run.model_copy(update={"conversation_id": conversation.id})

    return ask
