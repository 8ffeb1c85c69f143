"""An agent of LangChain or LangGraph wrapped for `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage

from toolgrade import Approve, ConfigurationError, Reject
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import Run, RunStatus
from toolgrade_langchain._active import attached
from toolgrade_langchain._errors import error_text, status_of
from toolgrade_langchain._messages import requests_of
from toolgrade_langchain._recorder import ToolCallRecorder
from toolgrade_langchain._states import state_messages

_MESSAGES: Final = "langchain.messages"
_WAITING: Final = "langchain.waiting"
"""The recorder of a run that waits for a person; it joins the run that goes on."""


def as_agent(
    agent: Any,
    *,
    config: Mapping[str, Any] | None = None,
    to_input: Callable[[str], Any] | None = None,
    to_resume: Callable[[Any, Any], Any] | None = None,
) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    A graph with a checkpointer runs in one thread per conversation. One without receives the messages of the turns
    before. A run that fails is returned with its error and the calls up to it.

    A run that waits for a person goes on with the answer, by `Command(resume=...)`. For the middleware
    `HumanInTheLoopMiddleware`, `Approve()` and `Reject("why")` decide about each call that waits. For an `interrupt()`
    of your own they are `True` and `False`, and a text is the text; of several interrupts, each gets the answer. They
    also answer a provider's request for approval. At a breakpoint such as `interrupt_before`, only `Approve()` goes on.

    Args:
        agent: The graph, the agent, or any runnable with `ainvoke`.
        config: A configuration for each run, such as `{"recursion_limit": 10}`.
        to_input: Returns the agent's input for the text of the user; by default `{"messages": [...]}`. With it, the
            agent only remembers what its checkpointer stores.
        to_resume: Returns the value to resume with for the answer (`Approve()`, `Reject("why")` or a text) and the
            value of the interrupt, where the forms above are not what the agent expects.

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

    async def ask(input: Any, conversation: Conversation) -> Run:
        run_config = dict(config or {})
        run_config["configurable"] = {"thread_id": conversation.id, **(run_config.get("configurable") or {})}
        recorder = conversation.memory.get(_WAITING)
        if recorder is not None:
            earlier = conversation.memory.get(_MESSAGES, [])
            inputs = await _resumption(agent, run_config, input, to_resume or _resume_value, earlier)
            del conversation.memory[_WAITING]
        elif not isinstance(input, str):
            raise ConfigurationError("Approve and Reject must answer a run that waits, and none waits; give a text")
        else:
            earlier = conversation.memory.get(_MESSAGES, []) if remembers else []
            inputs = {"messages": [*earlier, HumanMessage(input)]} if to_input is None else to_input(input)
        recorder = recorder or ToolCallRecorder(conversation=conversation.id)
        failure: Exception | None = None
        with attached(recorder, process_wide=False):
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
        if failure is not None and run.status in (RunStatus.OK, RunStatus.INTERRUPTED):  # raised around the run
            changes = {"status": status_of(failure), "error": error_text(failure), "actual_output": None}
            run = run.model_copy(update=changes)
        if run.status is RunStatus.INTERRUPTED:
            conversation.memory[_WAITING] = recorder
        return run

    return ask


async def _resumption(
    agent: Any, config: dict[str, Any], answer: Any, value_for: Callable[[Any, Any], Any], earlier: list[Any]
) -> Any:
    """Return the input with which a thread that waits goes on after the answer of a person."""
    from langgraph.types import Command  # noqa: PLC0415 - agents that are not graphs need no LangGraph

    state = await agent.aget_state(config) if getattr(agent, "checkpointer", None) else None
    interrupts = [one for task in getattr(state, "tasks", ()) for one in task.interrupts]
    values = [value_for(answer, one.value) for one in interrupts]
    if len(values) == 1:
        return Command(resume=values[0])
    if values:
        ids = [getattr(one, "id", None) or getattr(one, "interrupt_id", None) for one in interrupts]
        return Command(resume=dict(zip(ids, values, strict=True)))
    if getattr(state, "next", ()) and isinstance(answer, Approve):
        return None  # which is how LangGraph goes on from a breakpoint
    approvals = _approvals([*state_messages(getattr(state, "values", None)), *earlier], answer)
    if approvals:
        return {"messages": [*earlier, HumanMessage(approvals)]}
    message = (
        f"{type(answer).__name__} must answer an interrupt of the graph, and the run waits without one; give Approve() "
        "at a breakpoint, or let the agent ask by interrupt() or HumanInTheLoopMiddleware"
    )
    raise ConfigurationError(message)


def _approvals(messages: list[Any], answer: Any) -> list[str | dict[Any, Any]]:
    """Return the answers to a provider's requests for approval in the last message; a text is no answer."""
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage) or not isinstance(answer, (Approve, Reject)):
        return []
    response = {"type": "mcp_approval_response", "approve": isinstance(answer, Approve)}
    if isinstance(answer, Reject) and answer.reject:
        response["reason"] = answer.reject
    return [{**response, "approval_request_id": one.id} for one in requests_of(last) if one.needs_approval]


def _resume_value(answer: Any, value: Any) -> Any:
    """Return the value to resume with, for the value of an interrupt."""
    fields = value if isinstance(value, Mapping) else {}
    requests = fields.get("action_requests")
    if not isinstance(requests, list) and fields.get("type") != "tool_approval":
        return isinstance(answer, Approve) if isinstance(answer, (Approve, Reject)) else answer
    if isinstance(answer, Approve):
        decision = {"type": "approve"}
    elif isinstance(answer, Reject):
        decision = {"type": "reject", **({"message": answer.reject} if answer.reject else {})}
    else:
        message = (
            f"the answer to HumanInTheLoopMiddleware must be Approve() or Reject(), got the text {answer!r}; for other "
            "decisions, give as_agent(agent, to_resume=...)"
        )
        raise ConfigurationError(message)
    return {"decisions": [decision] * len(requests)} if isinstance(requests, list) else decision
