"""Conversations from runs: a user turn and an assistant turn for each run, never from a framework's memory."""

from __future__ import annotations

from collections.abc import Iterable

from toolgrade._internal.json import JsonObject
from toolgrade._internal.model import drop_none
from toolgrade.calls import ToolCall, ToolSpec
from toolgrade.cases import ConversationalTestCase, Run, RunStatus, Turn


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
    """Return these runs as one conversation, in their order.

    Each run gives a user turn with the text of its input (none if it has no input) and an assistant turn with its
    answer (empty if it has none) and its calls. The metadata of the assistant turn has the status of the run if that is
    not `ok`, its error, warnings, texts, models, usage and duration.

    Args:
        runs: The runs in chronological order.
        id: Id of the conversation; by default the one that all runs share.
        name: Name of the conversation.
        nested: See `Run.select_calls`.
        handoffs: See `Run.select_calls`.
        executed_only: See `Run.select_calls`.
        code: See `Run.select_calls`.

    Example:
        >>> from toolgrade import Run, ToolCall
        >>> from toolgrade.capture import conversation
        >>> weather = Run(input="Weather in Paris?", calls=[ToolCall(name="get_weather")], actual_output="Sunny.")
        >>> flight = Run(input="Book a flight.", calls=[ToolCall(name="book_flight")], actual_output="Booked.")
        >>> [(turn.role, turn.content) for turn in conversation([weather, flight]).turns]
        [('user', 'Weather in Paris?'), ('assistant', 'Sunny.'), ('user', 'Book a flight.'), ('assistant', 'Booked.')]
    """
    runs = list(runs)
    turns: list[Turn] = []
    tools: dict[str, ToolSpec] = {}
    for run in runs:
        calls = run.select_calls(nested=nested, handoffs=handoffs, executed_only=executed_only, code=code)
        turns += _turns_of(run, calls)
        for tool in run.available_tools or ():
            tools.setdefault(tool.name, tool)
    # Runs of several conversations are one only because the caller says so, so they share no id.
    ids = {run.conversation_id for run in runs}
    shared_id = ids.pop() if len(ids) == 1 else None
    fields = drop_none({"id": id or shared_id, "name": name, "available_tools": list(tools.values()) or None})
    return ConversationalTestCase(turns=turns, **fields)


def _turns_of(run: Run, calls: list[ToolCall]) -> list[Turn]:
    """Return the turn of the user, if the run has an input, and that of the assistant, with these calls."""
    fields = drop_none({"metadata": _metadata_of(run) or None})
    answer = Turn(role="assistant", content=run.actual_output or "", tools_called=calls, **fields)
    if run.input is None and not run.input_parts:
        return [answer]
    return [Turn(role="user", content=run.input or ""), answer]


def _metadata_of(run: Run) -> JsonObject:
    """Return the metadata of the assistant turn of a run; the span is the outermost one of its trace."""
    warnings = list(run.warnings)
    if run.input_parts:
        warnings.append("the images of the input were left out; a turn has text only")
    return drop_none(
        {
            "run_id": run.run_id,
            "status": None if run.status is RunStatus.OK else run.status.value,
            "error": run.error,
            "warnings": warnings or None,
            "agent_texts": run.agent_texts,
            "models": run.models or None,
            "usage": run.usage,
            "duration": run.duration,
            "span_id": run.metadata.get("span_id"),
        }
    )


def conversations(runs: Iterable[Run]) -> list[ConversationalTestCase]:
    """Return one conversation for each `conversation_id`, in the order of their first runs.

    A run without an id is a conversation by itself. Runs are ordered by `started_at`, all of them or else those of each
    conversation, if all have one: a file that a sink wrote has them in the order in which they ended. Otherwise they
    stay in the given order.

    Example:
        >>> from toolgrade import Run
        >>> from toolgrade.capture import conversations
        >>> runs = [
        ...     Run(conversation_id="ann", input="Weather in Paris?", actual_output="Sunny."),
        ...     Run(conversation_id="bob", input="Book a flight.", actual_output="Booked."),
        ...     Run(conversation_id="ann", input="And in Rome?", actual_output="Rainy."),
        ... ]
        >>> {case.id: [turn.content for turn in case.turns] for case in conversations(runs)}
        {'ann': ['Weather in Paris?', 'Sunny.', 'And in Rome?', 'Rainy.'], 'bob': ['Book a flight.', 'Booked.']}
    """
    return [conversation(_in_order(group)) for group in by_conversation(_in_order(list(runs)))]


def by_conversation(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs of each conversation, in the order of their first runs; one without an id is alone."""
    groups: dict[object, list[Run]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(index if run.conversation_id is None else run.conversation_id, []).append(run)
    return list(groups.values())


def _in_order(runs: list[Run]) -> list[Run]:
    """Return runs by the time of their start if all have one; runs that started at once stay in the given order."""
    starts = [run.started_at for run in runs if run.started_at is not None]
    if len(starts) < len(runs) or len({start.tzinfo is None for start in starts}) > 1:
        return runs  # times with and without a time zone cannot be compared
    by_start = sorted(zip(starts, runs, strict=True), key=lambda pair: pair[0])
    return [run for _, run in by_start]
