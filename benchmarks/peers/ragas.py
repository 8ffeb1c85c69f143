"""ragas' ToolCallAccuracy: 0 unless both sides have the same names, else how many arguments are equal by place."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

from validity.peers.ragas import VERSION, AIMessage, ToolCall, ToolCallAccuracy

__all__ = ["VERSION", "make", "scorer"]

Trajectories = tuple[list[AIMessage], list[ToolCall]]

warnings.simplefilter("ignore")  # lists of different lengths are what is measured


def make(case: dict[str, list[Any]], _mode: str) -> Trajectories:
    """Return the called tools in a message, and the expected calls."""
    called, expected = (
        [ToolCall(name=name, args=args) for name, args in case[side]] for side in ("called", "expected")
    )
    return [AIMessage(content="", tool_calls=called)], expected


def scorer(mode: str) -> Callable[[Trajectories], float]:
    """Return the metric, awaited in one event loop that stays."""
    metric = ToolCallAccuracy(strict_order=mode == "ordered")
    loop = asyncio.new_event_loop()

    def score(case: Trajectories) -> float:
        result = loop.run_until_complete(metric.ascore(user_input=case[0], reference_tool_calls=case[1]))
        return float(result.value)

    return score
