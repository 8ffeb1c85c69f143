"""ragas' ToolCallAccuracy: 0 unless both sides have the same names, else how many arguments are equal by place."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

from validity.peers.ragas import VERSION, AIMessage, ToolCall, ToolCallAccuracy

__all__ = ["VERSION", "scorer"]

warnings.simplefilter("ignore")  # lists of different lengths are what is measured


def scorer(_mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return the metric in any order, awaited in one event loop that stays."""
    metric = ToolCallAccuracy(strict_order=False)
    loop = asyncio.new_event_loop()

    def score(case: dict[str, list[Any]]) -> float:
        called, expected = (
            [ToolCall(name=name, args=args) for name, args in case[side]] for side in ("called", "expected")
        )
        message = AIMessage(content="", tool_calls=called)
        result = loop.run_until_complete(metric.ascore(user_input=[message], reference_tool_calls=expected))
        return float(result.value)

    return score
