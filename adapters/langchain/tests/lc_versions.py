"""Features of the framework that not every supported version has; see `feature_table`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

from feature_table import Feature, attribute, parameter, scenarios


def _literal(module: str, name: str, value: str) -> Callable[[], object]:
    def probe() -> object:
        from typing import get_args

        values = get_args(getattr(importlib.import_module(module), name))
        if value not in values:
            raise LookupError(values)
        return values

    return probe


def _events_v3() -> object:
    from langchain_core.runnables import Runnable

    text = inspect.getsource(Runnable.astream_events)
    if '"v3"' not in text:
        raise LookupError("v3")
    return text


def _marked_agents() -> object:
    from langchain.agents import factory

    text = inspect.getsource(factory)
    if "langchain_create_agent" not in text:
        raise LookupError("langchain_create_agent")
    return text


FEATURES = {
    "middleware": Feature(
        "agents with middleware came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        attribute("langchain.agents.middleware", "HumanInTheLoopMiddleware"),
    ),
    "tool_strategy": Feature(
        "structured output through a pseudo-tool of the agent came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        attribute("langchain.agents.structured_output", "ToolStrategy"),
    ),
    "wrap_tool_call": Feature(
        "middleware round a tool call came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        attribute("langchain.agents.middleware", "wrap_tool_call"),
    ),
    "marked_agents": Feature(
        "agents name themselves in their metadata since langchain 1.2.13",
        "langchain",
        (1, 2, 13),
        _marked_agents,
    ),
    "retry": Feature(
        "ToolRetryMiddleware came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        attribute("langchain.agents.middleware", "ToolRetryMiddleware"),
    ),
    "limit_continue": Feature(
        "a limit that blocks single calls and lets the run go on came with langchain 1.0.5",
        "langchain",
        (1, 0, 5),
        _literal("langchain.agents.middleware.tool_call_limit", "ExitBehavior", "continue"),
    ),
    "respond": Feature(
        "answering in the tool's place is a decision since langchain 1.3",
        "langchain",
        (1, 3, 0),
        _literal("langchain.agents.middleware.human_in_the_loop", "DecisionType", "respond"),
    ),
    "per_call": Feature(
        "one interrupt for each call is a mode of langchain 1.4.10, and not of 1.0",
        "langchain",
        (1, 4, 10),
        parameter("langchain.agents.middleware", "HumanInTheLoopMiddleware.__init__", "interrupt_mode"),
    ),
    "events_v3": Feature(
        "astream_events v3 came with langchain-core 1.4",
        "langchain-core",
        (1, 4, 0),
        _events_v3,
    ),
}


scenario = scenarios(FEATURES, "variant", "variant")
