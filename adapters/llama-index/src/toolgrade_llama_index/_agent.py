"""An agent of LlamaIndex wrapped for `evaluate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import InputRequiredEvent

from toolgrade import ConfigurationError
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.capture import joined
from toolgrade.cases import Run, RunStatus
from toolgrade_llama_index._answers import WaitingRun
from toolgrade_llama_index._recorder import record
from toolgrade_llama_index._run_case import recorded_run

_MEMORY: Final = "llama_index.memory"
_WAITING: Final = "llama_index.waiting"
_CONTEXT: Final = "llama_index.context"
"""The context of a run that went on after an answer: it has the memory of the conversation from then on."""
_TOKEN_LIMIT: Final = 1_000_000_000
"""Everything: by default, a memory forgets what exceeds the context of a small model."""


def as_agent(agent: Any, **options: Any) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    The turns of a conversation share a memory, unless the options have a `memory` or a `chat_history`. A run that fails
    is returned with its error and the calls up to it.

    A run that waits for a person is left, and goes on from its context with the answer: an event of the class that is
    waited for, with the fields of the question. `HumanResponseEvent.response` is "yes" for `Approve()`, "no" for
    `Reject("why")`, with `reason="why"`, and else the text. Another class needs one more required field: a text, or a
    `bool`, which is true for `Approve()`.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent, `AgentWorkflow`, or a workflow of your own.
        options: Options of `run_case`, such as `timeout`, `max_iterations` or `memory`. `ctx` may be a function that
            returns the context for the id of a conversation, such as `ctx=lambda _: Context(agent)`; with a context
            itself, use the agent in one conversation only.

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
    shares_memory = not {"memory", "chat_history"} & set(options)

    async def ask(input: Any, conversation: Conversation) -> Run:
        memory = conversation.memory
        waiting: WaitingRun | None = memory.get(_WAITING)
        run_options = dict(options)
        if waiting is not None:
            recorder = waiting.recorder
            memory[_CONTEXT], answers = waiting.continued(agent, input)
            run_options["resumed"] = memory[_CONTEXT], answers
        elif not isinstance(input, str):
            raise ConfigurationError("Approve and Reject must answer a run that waits, and none waits; give a text")
        else:
            recorder = record(conversation=conversation.id)
            if shares_memory:
                buffer = ChatMemoryBuffer.from_defaults(token_limit=_TOKEN_LIMIT)
                run_options["memory"] = memory.setdefault(_MEMORY, buffer)
            if callable(options.get("ctx")):
                memory.setdefault(_CONTEXT, options["ctx"](conversation.id))
            if _CONTEXT in memory:
                run_options["ctx"] = memory[_CONTEXT]
        left: list[WaitingRun] = []

        def leave(context: Any, questions: list[InputRequiredEvent]) -> None:
            left.append(WaitingRun.saved(recorder, context, questions))

        try:
            run = await recorded_run(recorder, agent, input, on_leave=leave, **run_options)
        except BaseException:
            conversation.unfinished = next(reversed(recorder.runs), None)
            raise
        if waiting is not None:
            run = joined(waiting.run, run) or run
            del memory[_WAITING]
        if left and run.status is RunStatus.INTERRUPTED:
            memory[_WAITING] = replace(left[0], run=run)
        return run

    return ask
