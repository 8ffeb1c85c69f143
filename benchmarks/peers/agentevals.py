"""agentevals' trajectory match: yes or no.

It gets LangChain messages, of the inputs it takes the one it scores fastest. Where order counts, one message holds one
call, since calls within a message may be in any order; otherwise one message holds them all, which is faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from agentevals.trajectory.match import create_trajectory_match_evaluator
from langchain_core.messages import AIMessage

VERSION = f"agentevals {version('agentevals')}"

Trajectories = tuple[list[AIMessage], list[AIMessage]]


def make(case: dict[str, list[Any]], mode: str) -> Trajectories:
    """Return the called and the expected trajectory."""
    return _messages(case["called"], mode), _messages(case["expected"], mode)


def _messages(calls: list[Any], mode: str) -> list[AIMessage]:
    tool_calls = [
        {"name": name, "args": arguments, "id": str(number)} for number, (name, arguments) in enumerate(calls)
    ]
    if mode == "ordered":
        return [AIMessage("", tool_calls=[call]) for call in tool_calls]
    return [AIMessage("", tool_calls=tool_calls)]


def message_scorer() -> Callable[[dict[str, Any]], float]:
    """Return a function that scores a record: its messages as they are, and the expected calls as one message."""
    evaluator = create_trajectory_match_evaluator(trajectory_match_mode="unordered", tool_args_match_mode="exact")

    def score(record: dict[str, Any]) -> float:
        calls = [
            {
                "id": str(number),
                "type": "function",
                "function": {"name": tool["name"], "arguments": json.dumps(tool["args"])},
            }
            for number, tool in enumerate(record["expected_tools"])
        ]
        expected = [{"role": "assistant", "content": "", "tool_calls": calls}]
        return float(evaluator(outputs=record["agent_trajectory"], reference_outputs=expected)["score"])

    return score


def scorer(mode: str) -> Callable[[Trajectories], float]:
    """Return the evaluator: `strict` where order counts, `unordered` otherwise."""
    evaluator = create_trajectory_match_evaluator(
        trajectory_match_mode="strict" if mode == "ordered" else "unordered",
        tool_args_match_mode="ignore" if mode == "names" else "exact",
    )

    def score(case: Trajectories) -> float:
        return float(evaluator(outputs=case[0], reference_outputs=case[1])["score"])

    return score
