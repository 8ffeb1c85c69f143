"""Conversations from runs: one user turn and one assistant turn a run, never from a framework's memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolmark.calls import ToolSpec
from toolmark.cases import ConversationalTestCase, Run, Turn


def conversation(
    runs: Iterable[Run],
    *,
    id: str | None = None,
    name: str | None = None,
    nested: bool = False,
    handoffs: bool = False,
    executed_only: bool = False,
    code: bool = True,
) -> ConversationalTestCase:
    """Return the conversation that these runs are, in their order.

    Each run gives a user turn with its input (none where it had no text of the user) and an assistant turn with its
    answer (empty where it has none) and its calls. The assistant turn's metadata says how the run ended where that is
    not `ok`, and repeats its warnings.

    Args:
        runs: The runs, in the order in which they were made.
        id: Id of the conversation; by default the one that all runs share, if they do.
        name: Name of the conversation.
        nested: See `Run.select_calls`, as for the rest.
        handoffs: See `Run.select_calls`.
        executed_only: See `Run.select_calls`.
        code: See `Run.select_calls`.
    """
    runs = list(runs)
    turns: list[Turn] = []
    tools: dict[str, ToolSpec] = {}
    for run in runs:
        if run.input is not None:
            turns.append(Turn(role="user", content=run.input))
        calls = run.select_calls(nested=nested, handoffs=handoffs, executed_only=executed_only, code=code)
        turns.append(Turn(role="assistant", content=run.actual_output or "", tools_called=calls, **_notes(run)))
        for tool in run.available_tools or ():
            tools.setdefault(tool.name, tool)
    ids = {run.conversation_id for run in runs}
    shared = next(iter(ids)) if len(ids) == 1 else None
    given: dict[str, Any] = {"id": id or shared, "name": name, "available_tools": list(tools.values()) or None}
    return ConversationalTestCase(turns=turns, **{key: value for key, value in given.items() if value is not None})


def conversations(runs: Iterable[Run]) -> list[ConversationalTestCase]:
    """Return one conversation for each `conversation_id`, in the order of their first runs.

    A run without one is a conversation of its own.
    """
    groups: dict[object, list[Run]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(index if run.conversation_id is None else run.conversation_id, []).append(run)
    return [conversation(group) for group in groups.values()]


def _notes(run: Run) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    if run.run_id is not None:
        notes["run_id"] = run.run_id
    if run.status.value != "ok":
        notes["status"] = run.status.value
    if run.error is not None:
        notes["error"] = run.error
    if run.warnings:
        notes["warnings"] = list(run.warnings)
    return {"metadata": notes} if notes else {}
