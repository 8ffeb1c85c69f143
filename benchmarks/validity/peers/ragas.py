"""ragas' tool call metrics that need no model.

`import ragas` asks for a module that the langchain-community it is installed with no longer has; an empty stand-in lets
it import. Nothing that is measured uses it.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any


def _stand_in(name: str, *attributes: str) -> None:
    module = ModuleType(name)
    for attribute in attributes:
        setattr(module, attribute, type(attribute, (), {}))
    sys.modules[name] = module


_stand_in("langchain_community.chat_models.vertexai", "ChatVertexAI")

from ragas.messages import AIMessage, ToolCall  # noqa: E402 - after the stand-in
from ragas.metrics.collections import ToolCallAccuracy, ToolCallF1  # noqa: E402 - as above

VERSION = f"ragas {version('ragas')}"


def scorers() -> dict[str, Callable[[dict[str, list[Any]]], float]]:
    """Return what scores a case, by what the table calls it."""
    return {
        "ToolCallAccuracy": _scorer(ToolCallAccuracy()),
        "ToolCallAccuracy, any order": _scorer(ToolCallAccuracy(strict_order=False)),
        "ToolCallF1": _scorer(ToolCallF1()),
    }


def _scorer(metric: Any) -> Callable[[dict[str, list[Any]]], float]:  # noqa: ANN401 - any metric of ragas
    def score(case: dict[str, list[Any]]) -> float:
        called, expected = ([ToolCall(name=name, args=args) for name, args in case[side]] for side in SIDES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lists of different lengths are what is measured
            result = asyncio.run(
                metric.ascore(user_input=[AIMessage(content="", tool_calls=called)], reference_tool_calls=expected)
            )
        return float(result.value)

    return score


SIDES = ("called", "expected")
