"""An agent of LangChain or LangGraph wrapped for `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import HumanMessage

from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import Run, RunStatus
from toolgrade_langchain._errors import error_text, status_of
from toolgrade_langchain._recorder import record

_MESSAGES: Final = "langchain.messages"


def as_agent(
    agent: Any,
    *,
    config: Mapping[str, Any] | None = None,
    to_input: Callable[[str], Any] | None = None,
) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    A graph with a checkpointer runs in one thread per conversation. One without receives the messages of the turns
    before. A run that fails is returned with its error and the calls up to it.

    Args:
        agent: The graph, the agent, or any runnable with `ainvoke`.
        config: A configuration for each run, such as `{"recursion_limit": 10}`.
        to_input: Returns the agent's input for the text of the user; by default `{"messages": [...]}`. With it, the
            agent only remembers what its checkpointer stores.

    Example:
        >>> from langchain_core.language_models import GenericFakeChatModel
        >>> from langchain_core.messages import AIMessage
        >>> from langchain_core.runnables import chain
        >>> from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade_langchain import as_agent
        >>> request = AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Paris"}, "id": "c1"}])
        >>> model = GenericFakeChatModel(messages=iter([request]))
        >>> agent = chain(lambda state: {"messages": [*state["messages"], model.invoke(state["messages"])]})
        >>> goldens = [Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        >>> metrics = [ToolCorrectnessMetric()]
        >>> report = evaluate(goldens=goldens, agent=as_agent(agent), metrics=metrics, show_progress=False)
        >>> report.cases[0].results[0].reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """
    remembers = to_input is None and not getattr(agent, "checkpointer", None)

    async def ask(input: str, conversation: Conversation) -> Run:
        run_config = dict(config or {})
        run_config["configurable"] = {"thread_id": conversation.id, **(run_config.get("configurable") or {})}
        earlier = conversation.memory.get(_MESSAGES, []) if remembers else []
        inputs = {"messages": [*earlier, HumanMessage(input)]} if to_input is None else to_input(input)
        failure: Exception | None = None
        with record(conversation=conversation.id) as recorder:
            try:
                state = await agent.ainvoke(inputs, run_config)
            except Exception as error:
                if not recorder.runs:
                    raise
                failure = error
            except BaseException:
                conversation.unfinished = next(reversed(recorder.runs), None)
                raise
            else:
                if remembers and isinstance(state, Mapping) and isinstance(state.get("messages"), list):
                    conversation.memory[_MESSAGES] = state["messages"]
        run = recorder.last_run
        if failure is not None and run.status is RunStatus.OK:  # raised around the run
            changes = {"status": status_of(failure), "error": error_text(failure), "actual_output": None}
            run = run.model_copy(update=changes)
        return run

    return ask
