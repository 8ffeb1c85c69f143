"""Recorded runs with an outcome, in one neutral form, and what each library gets of them.

The form is one JSON object a line: `id`, `task`, `reward`; `called` and `expected`, lists of `name`, `args` and, where
known, `turn` and `changes_state` (by the benchmark's own code); calls that were made also have `failed` and `output`.
`query`, `said` (texts of the agent, in order), `user` (texts of the user), `instructions` (the system prompt),
`required_texts`, `expected_output` and `ended` may be missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from toolgrade import LLMTestCase

Run = dict[str, Any]

AIRLINE = "tau-airline"
_READS = ("get_*", "list_*", "search_*", "calculate", "think", "transfer_to_human_agents")
"""Tools of the airline agent that leave its database as it is."""


def data_sets(repository: Path, files: Sequence[Path] = ()) -> dict[str, list[Run]]:
    """Return the runs of each file by its name: of `files`, or else of the shared files; empty where there are none."""
    if not files:
        data = Path(os.environ.get("TOOLGRADE_SHARED") or repository.parent / "shared") / "data"
        files = [data / AIRLINE / "runs.jsonl", *sorted((data / "validity").glob("*.jsonl"))]
    data: dict[str, list[Run]] = {}
    for path in files:
        if path.is_file():
            name = path.parent.name if path.stem == "runs" else path.stem
            while name in data:  # files of one name in several folders
                name += "'"
            data[name] = _read(path)
    return data


def _read(path: Path) -> list[Run]:
    """Read a file of runs in the neutral form, or of conversations as the airline runs are recorded."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [_from_conversation(run) if "agent_trajectory" in run else run for run in runs]


def _from_conversation(record: Run) -> Run:
    """Return the neutral form of a recorded conversation of the airline agent.

    Its tools report failures in texts that begin with `Error`. A run that came to its end was ended by the simulated
    user, or by a transfer to a person.
    """
    messages = record["agent_trajectory"]
    outputs: dict[str, list[str]] = {}  # an id may occur again, in the order of its calls
    for message in messages:
        if message["role"] == "tool":
            outputs.setdefault(message["tool_call_id"], []).append(message["content"])
    called: list[dict[str, Any]] = []
    turn = 0
    for message in messages:
        turn += message["role"] == "user"
        for call in message.get("tool_calls") or []:
            function, answers = call["function"], outputs.get(call["id"])
            output = answers.pop(0) if answers else ""
            called.append(
                {
                    "name": function["name"],
                    "args": json.loads(function["arguments"]),
                    "turn": turn,
                    "failed": output.startswith("Error"),
                    "output": output,
                    "changes_state": _changes_state(function["name"]),
                }
            )
    transferred = bool(called) and called[-1]["name"] == "transfer_to_human_agents"
    return {
        "id": record["id"],
        "task": record["metadata"]["task_id"],
        "query": record["query"],
        "user": [message["content"] for message in messages if message["role"] == "user"],
        "instructions": "\n\n".join(message["content"] for message in messages if message["role"] == "system"),
        "reward": record["metadata"]["reward"],
        "called": called,
        "expected": [{**call, "changes_state": _changes_state(call["name"])} for call in record["expected_tools"]],
        "said": [message["content"] for message in messages if message["role"] == "assistant" and message["content"]],
        "required_texts": record["metadata"].get("required_texts", []),
        "ended": transferred or "###STOP###" in (messages[-1]["content"] or ""),
    }


def _changes_state(name: str) -> bool:
    return not any(fnmatchcase(name, pattern) for pattern in _READS)


def case_of(run: Run, *, texts: bool = True, failures: bool = True, prefix: str = "") -> LLMTestCase:
    """Return toolgrade's case of a run; effects are never given.

    Args:
        run: The run.
        texts: With what the agent said and had to say, and whether the run ended; else with the calls and their turns.
        failures: With the status of each call; else failures show in its output at most.
        prefix: What the names of all tools begin with.
    """
    turns = all(call.get("turn") is not None for call in run["called"])  # else they cannot be compared
    called: list[dict[str, Any]] = []
    for call in run["called"]:
        execution = {"execution": {"status": "error"}} if failures and call.get("failed") else {}
        called.append({**_plain_call(call, turns=turns, prefix=prefix), "output": call.get("output"), **execution})
    case: dict[str, Any] = {
        "id": str(run["id"]),
        "input": run.get("query"),
        "tools_called": called,
        "expected_tools": [_plain_call(call, turns=turns, prefix=prefix) for call in run["expected"]],
        "metadata": {"reward": run["reward"], "task": run["task"]},
    }
    if texts:
        if run.get("said") is not None:
            case |= {"agent_texts": run["said"], "actual_output": run["said"][-1] if run["said"] else None}
        case |= {name: run[name] for name in ("required_texts", "expected_output") if run.get(name)}
        if run.get("ended") is not None:
            case |= {"ended": run["ended"], "ends": "ok"}
    return LLMTestCase.model_validate(case)


def _plain_call(call: dict[str, Any], *, turns: bool, prefix: str) -> dict[str, Any]:
    turn = {"turn": call["turn"]} if turns and call.get("turn") is not None else {}
    return {"name": prefix + call["name"], "input_parameters": call.get("args") or {}, **turn}


def peer_case(run: Run, *, prepared: bool) -> dict[str, list[Any]]:
    """Return the calls of a run as names with arguments, for the worker of another library.

    Prepared calls are what a careful user would hand over: of both sides only calls that change the state, and of the
    called ones only those that did not fail. The data say which ones these are; a call of which they do not say it is
    handed over.
    """
    called, expected = run["called"], run["expected"]
    if prepared:
        called = [call for call in called if call.get("changes_state", True) and not call.get("failed")]
        expected = [call for call in expected if call.get("changes_state", True)]
    return {
        side: [[call["name"], call.get("args") or {}] for call in calls]
        for side, calls in (("called", called), ("expected", expected))
    }
