"""agentevals' trajectory match: yes or no.

The expected side of a run is a list of calls, so the made side is its calls too, one message for each call; whole
conversations would never be equal to it. The order within one message does not count, hence one call a message.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from agentevals.trajectory.match import create_trajectory_match_evaluator
from langchain_core.messages import AIMessage

VERSION = f"agentevals {version('agentevals')}"


def scorers() -> dict[str, Callable[[dict[str, list[Any]]], float]]:
    """Return what scores a case, by what the table calls it."""
    modes = ("strict", "unordered", "subset", "superset")
    return {
        **{mode: _scorer(trajectory_match_mode=mode) for mode in modes},
        **{
            f"{mode}, arguments ignored": _scorer(trajectory_match_mode=mode, tool_args_match_mode="ignore")
            for mode in modes
        },
    }


def _scorer(**options: Any) -> Callable[[dict[str, list[Any]]], float]:  # noqa: ANN401 - its options
    evaluator = create_trajectory_match_evaluator(**options)

    def score(case: dict[str, list[Any]]) -> float:
        result = evaluator(outputs=_messages(case["called"]), reference_outputs=_messages(case["expected"]))
        return float(result["score"])

    return score


def _messages(calls: list[Any]) -> list[AIMessage]:
    return [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": str(number)}])
        for number, (name, arguments) in enumerate(calls)
    ]
