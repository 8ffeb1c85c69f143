"""agentevals' trajectory match in any order: yes or no.

It gets LangChain messages, of the inputs it takes the one it scores fastest: one message that holds all calls.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from agentevals.trajectory.match import create_trajectory_match_evaluator
from langchain_core.messages import AIMessage

VERSION = f"agentevals {version('agentevals')}"


def scorer(_mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return what scores a case."""
    evaluator = create_trajectory_match_evaluator(trajectory_match_mode="unordered", tool_args_match_mode="exact")
    return lambda case: float(
        evaluator(outputs=_messages(case["called"]), reference_outputs=_messages(case["expected"]))["score"]
    )


def _messages(calls: list[Any]) -> list[AIMessage]:
    tool_calls = [
        {"name": name, "args": arguments, "id": str(number)} for number, (name, arguments) in enumerate(calls)
    ]
    return [AIMessage("", tool_calls=tool_calls)]
