"""An agent of LlamaIndex wrapped for `evaluate`."""

from __future__ import annotations

from typing import Any, Final

from llama_index.core.memory import ChatMemoryBuffer

from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import Run
from toolgrade_llama_index._recorder import record
from toolgrade_llama_index._run_case import recorded_run

_MEMORY: Final = "llama_index.memory"
_TOKEN_LIMIT: Final = 1_000_000_000
"""Everything: by default, a memory forgets what exceeds the context of a small model."""


def as_agent(agent: Any, **options: Any) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    The turns of a conversation share a memory, unless the options have a `memory`, a `ctx` or a `chat_history`. A run
    that fails is returned with its error and the calls up to it.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent, `AgentWorkflow`, or a workflow of your own.
        options: Options of `run_case`, such as `timeout`, `max_iterations` or `memory`.

    Example:
        >>> from llama_index.core.tools import FunctionTool
        >>> from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
        >>> from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade_llama_index import as_agent
        >>> get_weather = FunctionTool.from_defaults(lambda city: f"sunny in {city}", name="get_weather")
        >>> class WeatherAgent(Workflow):
        ...     @step
        ...     async def answer(self, event: StartEvent) -> StopEvent:
        ...         return StopEvent(result=str(await get_weather.acall(city="Paris")))
        >>> goldens = [Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        >>> agent = as_agent(WeatherAgent())
        >>> report = evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], show_progress=False)
        >>> report.cases[0].results[0].reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """
    shares_memory = not {"ctx", "memory", "chat_history"} & set(options)

    async def ask(input: str, conversation: Conversation) -> Run:
        run_options = dict(options)
        if shares_memory:
            memory = ChatMemoryBuffer.from_defaults(token_limit=_TOKEN_LIMIT)
            run_options["memory"] = conversation.memory.setdefault(_MEMORY, memory)
        recorder = record(conversation=conversation.id)
        try:
            return await recorded_run(recorder, agent, input, **run_options)
        except BaseException:
            conversation.unfinished = next(iter(recorder.runs), None)
            raise

    return ask
