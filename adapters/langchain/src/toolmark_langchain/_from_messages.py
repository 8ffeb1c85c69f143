"""What did an agent do that nobody recorded? Its messages, or the state of its graph, tell most of it.

Messages cannot show times, attempts, exceptions, or whether a tool itself ran: no call counts as `executed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages

from toolmark.capture import Run, RunBuilder, RunStatus
from toolmark.errors import InvalidDataError, Problem
from toolmark_langchain import _messages, _states


def run_from_messages(
    messages: Iterable[Any],
    *,
    available_tools: Iterable[object] = (),
    conversation_id: str | None = None,
    run_id: str | None = None,
) -> Run:
    """Return the run that a list of LangChain messages shows.

    Only the last turn is the run: what follows the last message of the user. Calls stand in the model's order; results
    are paired by id, of ids that repeat with the newest message. Without an answer of the model at the end, the run's
    status is `stopped`.

    Args:
        messages: LangChain's messages, or the objects and pairs that LangChain takes for them.
        available_tools: The tools that were offered, in any form that `ToolSpec` reads.
        conversation_id: The conversation that the run belongs to.
        run_id: Its id.

    Raises:
        InvalidDataError: Something in the list is no message; `problems` names every place.
    """
    read = _read(messages)
    builder = RunBuilder(run_id=run_id, conversation_id=conversation_id)
    builder.offered(available_tools)
    _note_turn(read, builder)
    last = read[-1] if read else None
    answer = _states.message_answer(last) if isinstance(last, AIMessage) else None
    builder.ended(answer, status=RunStatus.STOPPED if answer is None else RunStatus.OK)
    return builder.build()


def run_from_state(state: object, *, available_tools: Iterable[object] = (), conversation_id: str | None = None) -> Run:
    """Return the run that the state of a LangGraph graph shows: its last turn.

    Args:
        state: What `graph.get_state(config)` returned, or the values of a state, as `graph.invoke` returns them.
        available_tools: The tools that were offered, in any form that `ToolSpec` reads.
        conversation_id: The conversation that the run belongs to; by default the thread, where the state names it.

    Raises:
        InvalidDataError: The state holds no messages, or something among them is no message.
    """
    values = state if isinstance(state, Mapping) else getattr(state, "values", state)
    read = _states.state_messages(values)
    if not read:
        raise InvalidDataError(
            "expected the state of a graph that holds messages, as graph.get_state(config) returns it, "
            f"got {type(state).__name__} {str(state)[:60]!r}"
        )
    builder = RunBuilder(conversation_id=conversation_id or _thread(state))
    builder.offered(available_tools)
    _note_turn(read, builder)
    if isinstance(values, Mapping) and values.get("structured_response") is not None:
        builder.pseudo_tools(_states.structured_tools(values["structured_response"], read))
    waiting = bool(getattr(state, "next", ())) or bool(getattr(state, "interrupts", ()))
    status = RunStatus.INTERRUPTED if waiting else RunStatus.OK
    answer = _states.answer_of(values, graph=True)
    if status is RunStatus.OK and answer is None:
        status = RunStatus.STOPPED
    builder.ended(answer, status=status)
    return builder.build()


def _read(messages: Iterable[Any]) -> list[BaseMessage]:
    read: list[BaseMessage] = []
    problems: list[Problem] = []
    for index, message in enumerate(messages):
        try:
            read += convert_to_messages([message])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            problems.append(Problem(f"$.messages[{index}]", f"no message that LangChain can read: {error}"))
    if problems:
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    return read


def _note_turn(messages: list[BaseMessage], builder: RunBuilder) -> None:
    """Note the last turn."""
    builder.started(_messages.last_human_text(list(messages)))
    turn = _states.since_last_human(messages)
    before = len(messages) - len(turn)
    for index, message in enumerate(turn, start=before):
        if isinstance(message, AIMessage):
            builder.model_used(_messages.model_of(message), _messages.usage_of(message))
            builder.model_asked(_messages.requests_of(message), agent=message.name or None, source=f"messages[{index}]")
        elif isinstance(message, ToolMessage):
            result = _messages.result_of(message)
            found = builder.result_shown(
                message.content,
                call_id=message.tool_call_id,
                name=message.name,
                failed=result.error is not None,
                unknown_tool=result.unknown_tool,
                artifact=message.artifact,
            )
            if not found:
                builder.warn(f"messages[{index}] answers {message.tool_call_id!r}, which no message asked for")


def _thread(state: object) -> str | None:
    config = getattr(state, "config", None)
    thread = (config.get("configurable") or {}).get("thread_id") if isinstance(config, Mapping) else None
    return None if thread is None else str(thread)
