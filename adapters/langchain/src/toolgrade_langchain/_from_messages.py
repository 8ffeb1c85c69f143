"""Runs read from the messages of an agent, or from the state of its graph.

Messages show no times, attempts or exceptions, nor whether a tool itself ran, so no call counts as `executed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages

from toolgrade.calls import ToolCallType
from toolgrade.capture import Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import InvalidDataError, Problem
from toolgrade_langchain import _messages, _results, _states


def run_from_messages(
    messages: Iterable[Any],
    *,
    available_tools: Iterable[object] = (),
    conversation_id: str | None = None,
    run_id: str | None = None,
) -> Run:
    """Return the run that a list of LangChain messages shows.

    The run is the last turn: what follows the last message of the user. Calls are in the model's order. Results are
    paired by id; if an id repeats, with the newest message. Without a final answer of the model, the run's status is
    `stopped`.

    Args:
        messages: LangChain's messages, or the objects and pairs that LangChain accepts for them.
        available_tools: The offered tools, in any form that `ToolSpec` reads.
        conversation_id: The conversation of the run.
        run_id: The id of the run.

    Raises:
        InvalidDataError: An item is not a message; `problems` lists each one.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
        >>> from toolgrade_langchain import run_from_messages
        >>> messages = [
        ...     HumanMessage("What is the weather in Paris?"),
        ...     AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Paris"}, "id": "c1"}]),
        ...     ToolMessage("sunny", tool_call_id="c1"),
        ...     AIMessage("It is sunny in Paris."),
        ... ]
        >>> run = run_from_messages(messages)
        >>> run.actual_output, [(call.name, call.arguments, call.output) for call in run.calls]
        ('It is sunny in Paris.', [('get_weather', {'city': 'Paris'}, 'sunny')])
    """
    read: list[BaseMessage] = []
    problems: list[Problem] = []
    for index, message in enumerate(messages):
        try:
            read += convert_to_messages([message])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            problems.append(Problem(f"$.messages[{index}]", f"not a message that LangChain can read: {error}"))
    if problems:
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    builder = RunBuilder(run_id=run_id, conversation_id=conversation_id)
    builder.offered(available_tools)
    _add_last_turn(builder, read)
    last = read[-1] if read else None
    answer = _states.message_answer(last) if isinstance(last, AIMessage) else None
    builder.ended(answer, status=RunStatus.STOPPED if answer is None else RunStatus.OK)
    return builder.build()


def run_from_state(state: object, *, available_tools: Iterable[object] = (), conversation_id: str | None = None) -> Run:
    """Return the run that the state of a LangGraph graph shows: its last turn.

    Args:
        state: What `graph.get_state(config)` returned, or the values of a state, as `graph.invoke` returns them.
        available_tools: The offered tools, in any form that `ToolSpec` reads.
        conversation_id: The conversation of the run; by default the thread, if the state names it.

    Raises:
        InvalidDataError: The state holds no messages, or an item among them is not a message.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
        >>> from toolgrade_langchain import run_from_state
        >>> state = {  # what `graph.invoke` returns; `graph.get_state(config)` is read as well
        ...     "messages": [
        ...         HumanMessage("What is the weather in Paris?"),
        ...         AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Paris"}, "id": "c1"}]),
        ...         ToolMessage("sunny", tool_call_id="c1"),
        ...         AIMessage("It is sunny in Paris."),
        ...     ]
        ... }
        >>> run = run_from_state(state)
        >>> run.actual_output, [(call.name, call.arguments, call.output) for call in run.calls]
        ('It is sunny in Paris.', [('get_weather', {'city': 'Paris'}, 'sunny')])
    """
    values = state if isinstance(state, Mapping) else getattr(state, "values", state)
    messages = _states.state_messages(values)
    if not messages:
        raise InvalidDataError(
            "expected the state of a graph that holds messages, as graph.get_state(config) returns it, "
            f"got {type(state).__name__} {str(state)[:60]!r}"
        )
    builder = RunBuilder(conversation_id=conversation_id or _thread_of(state))
    builder.offered(available_tools)
    requests = _add_last_turn(builder, messages)
    if isinstance(values, Mapping) and values.get("structured_response") is not None:
        structured = _states.structured_calls(values["structured_response"], _states.last_turn(messages))
        ids = structured[1] if structured else ()
        builder.structured_answer([request for request in requests if request.id in ids])
    answer = _states.answer_of(values, is_graph=True)
    status = RunStatus.OK if answer is not None else RunStatus.STOPPED
    if getattr(state, "next", ()) or getattr(state, "interrupts", ()):
        status = RunStatus.INTERRUPTED
    builder.ended(answer, status=status)
    return builder.build()


def _add_last_turn(builder: RunBuilder, messages: list[BaseMessage]) -> list[Request]:
    """Add the last turn, and return the requests of its last message with calls."""
    newest: list[Request] = []
    _messages.add_question(builder, _messages.question_in(messages))
    turn = _states.last_turn(messages)
    for index, message in enumerate(turn, start=len(messages) - len(turn)):
        if message.response_metadata.get(_messages.HANDOFF_BACK):
            continue
        if isinstance(message, AIMessage):
            builder.model_used(_messages.model_of(message), _messages.usage_of(message))
            _messages.add_late_results(builder, message)
            requests = _messages.requests_of(message)
            builder.model_asked(requests, agent=message.name or None, source=f"messages[{index}]")
            newest = requests or newest
        elif isinstance(message, ToolMessage):
            result = _results.result_of(message)
            is_paired = builder.result_shown(
                result.output,
                call_id=message.tool_call_id,
                name=message.name,
                failed=result.error is not None,
                unknown_tool=result.unknown_tool,
                read=not result.is_refusal,
                artifact=message.artifact,
                type=ToolCallType.MCP if result.is_mcp else None,
            )
            if not is_paired:
                builder.warn(f"messages[{index}] answers {message.tool_call_id!r}, which no message asked for")
    return newest


def _thread_of(state: object) -> str | None:
    config = getattr(state, "config", None)
    thread = (config.get("configurable") or {}).get("thread_id") if isinstance(config, Mapping) else None
    return None if thread is None else str(thread)
