"""Conversations from runs: a user turn and an assistant turn for each run, never from a framework's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from toolgrade._internal.json import JsonObject
from toolgrade._internal.model import drop_none, set_fields
from toolgrade.calls import CallStatus, ToolCall, ToolSpec
from toolgrade.cases import ConversationalTestCase, Run, RunStatus, Turn, joined_instructions

LACKS_BEGINNING: Final = "this run continues an earlier one that this recorder does not have"
"""Warning of a run that continues an earlier one, until the two are joined."""


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
    answer (empty if it has none) and its calls. A run that waited for a person and the one that went on with it, such
    as in another process, are one turn, with each call once. The metadata of the assistant turn has the status of the
    run if that is not `ok`, its error, warnings, texts, models, usage and duration. The system prompts of the runs are
    `instructions` of the conversation.

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
    runs = whole_runs(runs)
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
    fields = {"id": id or shared_id, "name": name, "available_tools": list(tools.values()) or None}
    fields["instructions"] = joined_instructions(run.instructions for run in runs)
    return ConversationalTestCase(turns=turns, **drop_none(fields))


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
        # A sink writes a run that waited once more when it ends, so the two have one key. A tuple equals no id.
        alone = (index if run.run_id is None else run.run_id,)
        groups.setdefault(alone if run.conversation_id is None else run.conversation_id, []).append(run)
    return list(groups.values())


def whole_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of a conversation, each that waited joined with the later one that went on with it."""
    whole: list[Run] = []
    waiting: list[int] = []
    for run in runs:
        for place in reversed(waiting):
            both = joined(whole[place], run)
            if both is not None:
                whole[place] = both
                break
        else:
            if run.status is RunStatus.INTERRUPTED:
                waiting.append(len(whole))
            whole.append(run)
    return whole


def whole_runs_of_sessions(runs: list[Run]) -> list[Run]:
    """Return the runs in their order, each that waited joined with those of its session that went on with it."""
    if all(run.status is not RunStatus.INTERRUPTED for run in runs):
        return runs
    places = {run.run_id: place for place, run in enumerate(runs)}
    whole = chain.from_iterable(map(whole_runs, by_conversation(runs)))
    return sorted(whole, key=lambda run: places[run.run_id])


def joined(earlier: Run, later: Run, *, goes_on: bool = False) -> Run | None:
    """Return a run that waited for a person and the run that went on with it as one; `None` if they are two turns.

    The later run goes on with the earlier one if it has a call that waits in the earlier one, or if the user said
    nothing new and no call waits or none was made. It may have the calls of both or only those since the answer: each
    call stands once, in the order of the model. A later run with the same `run_id` is the whole run.

    Args:
        earlier: The run that may have waited.
        later: The run that may have gone on with it.
        goes_on: Whether the later run is known to go on with the earlier one, whatever its calls and its input are.

    Example:
        >>> from toolgrade import Run, ToolCall
        >>> from toolgrade.capture import joined
        >>> waiting = ToolCall(name="delete", id="c1", execution={"status": "pending"})
        >>> earlier = Run(input="Delete it.", calls=[waiting], status="interrupted")
        >>> later = Run(calls=[ToolCall(name="delete", id="c1"), ToolCall(name="log")], actual_output="Done.")
        >>> run = joined(earlier, later)
        >>> run.input, run.status.value, [call.name for call in run.calls]
        ('Delete it.', 'ok', ['delete', 'log'])
    """
    if earlier.status is not RunStatus.INTERRUPTED:
        return None
    if earlier.run_id is not None and earlier.run_id == later.run_id:
        return later
    calls, places = _joined_calls(earlier.calls, later.calls)
    if goes_on and set(range(len(earlier.calls))) <= set(places):
        return later  # it has all calls of the earlier run, so it is the whole turn
    if not goes_on and not _goes_on(earlier, later, places):
        return None
    # How the turn began is known from the earlier run, how it ended from the later one.
    fields = set_fields(earlier)
    for name in ("status", "error", "actual_output"):
        fields.pop(name, None)
    fields |= {"calls": calls, **_joined_handoffs(earlier, later, places), **_joined_fields(earlier, later)}
    return later.model_copy(update=drop_none(fields) | _joined_sums(earlier, later))


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


def _in_order(runs: list[Run]) -> list[Run]:
    """Return runs by the time of their start if all have one; runs that started at once stay in the given order."""
    starts = [run.started_at for run in runs if run.started_at is not None]
    if len(starts) < len(runs) or len({start.tzinfo is None for start in starts}) > 1:
        return runs  # times with and without a time zone cannot be compared
    by_start = sorted(zip(starts, runs, strict=True), key=lambda pair: pair[0])
    return [run for _, run in by_start]


def _joined_calls(earlier: Sequence[ToolCall], later: Sequence[ToolCall]) -> tuple[list[ToolCall], list[int]]:
    """Return the calls of two runs, each once, and the position of each later call among them.

    The calls `a, b` (which waits) and `b, c` give `a, b, c` and the positions 1 and 2.
    """
    calls = list(earlier)
    places = [0] * len(later)
    left = list(range(len(later)))  # positions of later calls that no earlier call is equal to so far
    for place, call in enumerate(earlier):
        # Without an id, an answered call may look like a new one. If the later run repeats it, it does so first of all.
        candidates = left if call.id or _is_waiting(call) else left[:1]
        same = next((index for index in candidates if _is_same(call, later[index])), None)
        if same is not None:
            left.remove(same)
            places[same] = place
            calls[place] = _joined_call(call, later[same])
    new = _with_steps_after(earlier, [later[index] for index in left])
    for place, index in enumerate(left, start=len(calls)):
        places[index] = place
    return calls + new, places


def _with_steps_after(earlier: Sequence[ToolCall], calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return calls with new steps that follow those of the earlier calls: 0 and 2 become 5 and 6 after step 4."""
    steps = sorted({step for call in calls if (step := _step(call)) is not None})
    begin = max((step + 1 for call in earlier if (step := _step(call)) is not None), default=0)
    numbers: dict[int | None, int] = {step: begin + n for n, step in enumerate(steps)}
    return [call if _step(call) is None else _executed(call, step=numbers[_step(call)]) for call in calls]


def _joined_call(earlier: ToolCall, later: ToolCall) -> ToolCall:
    """Return a call of both runs: its later record if it waited in the earlier run, else its earlier one."""
    if not _is_waiting(earlier) or earlier.execution is None or later.execution is None:
        return later if _is_waiting(earlier) else earlier
    children, _ = _joined_calls(earlier.execution.children, later.execution.children)
    return _executed(later, step=earlier.execution.step, children=children)


def _goes_on(earlier: Run, later: Run, places: Sequence[int]) -> bool:
    """Return whether a run goes on with one that waits, by its calls or else by its input."""
    waiting = {place for place, call in enumerate(earlier.calls) if _is_waiting(call)}
    if waiting & set(places):
        return True
    return later.input in (None, earlier.input) and not (waiting and later.calls)


def _joined_fields(earlier: Run, later: Run) -> dict[str, Any]:
    """Return the fields that combine those of both runs, apart from calls, handoffs and sums."""
    tools = {tool.name: tool for tool in [*(later.available_tools or ()), *(earlier.available_tools or ())]}
    return {
        "agent_texts": _joined_texts(earlier, later),
        "dialogue": earlier.dialogue + later.dialogue,
        "available_tools": list(tools.values()) or None,
        "instructions": joined_instructions([earlier.instructions, later.instructions]),
        "models": _unique(earlier.models + later.models),
        "tags": _unique(earlier.tags + later.tags),
        "metadata": later.metadata | earlier.metadata,
        "warnings": [text for text in _unique(earlier.warnings + later.warnings) if text != LACKS_BEGINNING],
    }


def _joined_texts(earlier: Run, later: Run) -> list[str] | None:
    if earlier.agent_texts is None and later.agent_texts is None:
        return None
    answers = [[] if run.actual_output is None else [run.actual_output] for run in (earlier, later)]
    return [*(earlier.agent_texts or answers[0]), *(later.agent_texts or answers[1])]


def _joined_handoffs(earlier: Run, later: Run, places: Sequence[int]) -> dict[str, Any]:
    """Return the handoffs of two runs; `places` has the position of each later call among the joined calls."""
    moved = [one if one.call is None else one.model_copy(update={"call": places[one.call]}) for one in later.handoffs]
    return {
        "handoffs": earlier.handoffs + [one for one in moved if one not in earlier.handoffs],
        "failed_handoffs": sorted({*earlier.failed_handoffs, *(places[call] for call in later.failed_handoffs)}),
    }


def _joined_sums(earlier: Run, later: Run) -> dict[str, Any]:
    """Return the sums of the usage and the duration of two runs; `None` for a sum if one of them lacks its part."""
    usage = duration = None
    if earlier.usage is not None and later.usage is not None:
        names = earlier.usage | later.usage
        usage = {name: earlier.usage.get(name, 0) + later.usage.get(name, 0) for name in names}
    if earlier.duration is not None and later.duration is not None:
        duration = earlier.duration + later.duration
    return {"usage": usage, "duration": duration}


def _executed(call: ToolCall, **changes: object) -> ToolCall:
    execution = call.execution and call.execution.model_copy(update=changes)
    return call.model_copy(update={"execution": execution})


def _is_same(earlier: ToolCall, later: ToolCall) -> bool:
    """Return whether two runs have the same call; a person may have changed the arguments of one that waited."""
    if (earlier.name, earlier.id) != (later.name, later.id):
        return False
    requested = later.execution and later.execution.requested_parameters
    return earlier.arguments in (later.arguments, requested) or bool(earlier.id and _is_waiting(earlier))


def _is_waiting(call: ToolCall) -> bool:
    return call.execution is not None and call.execution.status is CallStatus.PENDING


def _step(call: ToolCall) -> int | None:
    return None if call.execution is None else call.execution.step


def _unique(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))
