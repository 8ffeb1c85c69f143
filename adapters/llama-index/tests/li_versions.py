"""Features of the framework that not every supported version has; see `feature_table`."""

from __future__ import annotations

import importlib
import inspect

from feature_table import Feature, scenarios, version_of
from llama_index.core.tools import ToolOutput

WORKFLOWS_2 = version_of("llama-index-workflows") >= (2,)
"""Whether a step that waits for a person is run again from its beginning, and failures have events of their own."""


KEEPS_EXCEPTIONS = hasattr(ToolOutput, "exception")
"""Whether the event of a failed call has its exception."""


def _early_stopping() -> object:
    from llama_index.core.agent.workflow import FunctionAgent

    return FunctionAgent.model_fields["early_stopping_method"]


def _empty_answers() -> object:
    text = inspect.getsource(importlib.import_module("llama_index.core.agent.workflow.react_agent"))
    return _part_of(text, "previous response was empty")


def _context_in_threads() -> object:
    return _part_of(inspect.getsource(importlib.import_module("llama_index.core.tools.function_tool")), "copy_context")


def _part_of(text: str, part: str) -> str:
    if part not in text:
        raise LookupError(part)
    return text


FEATURES = {
    "early_stopping": Feature(
        "one more answer at the limit of steps is an option of llama-index-core 0.14.15, and not of 0.14.10",
        "llama-index-core",
        (0, 14, 15),
        _early_stopping,
    ),
    "empty_answers": Feature(
        "a ReAct agent asks again after an empty answer in llama-index-core 0.14.15, and not in 0.14.10",
        "llama-index-core",
        (0, 14, 15),
        _empty_answers,
    ),
    "context_in_threads": Feature(
        "functions that are not async run in threads, which are given the context in 0.14.25, and not in 0.14.15",
        "llama-index-core",
        (0, 14, 25),
        _context_in_threads,
    ),
}


scenario = scenarios(FEATURES, "scenario_id", "mode")
