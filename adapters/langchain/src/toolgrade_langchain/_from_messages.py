"""Runs read from the messages of an agent, or from the state of its graph.

Messages show no times, attempts or exceptions, nor whether a tool itself ran, so no call counts as `executed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages

from toolgrade.calls import ToolCallType, read_tool_spec
from toolgrade.capture import Request
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.formats import Answer, Instructions, ModelMessage, UserInput, transcript_of
from toolgrade_langchain import _messages, _results, _states

_Entry: TypeAlias = tuple[str, UserInput | Instructions | ModelMessage | Answer]
"""A message with its path."""


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
        InvalidDataError: An item is not a message (`problems` lists each one), or an available tool has no known form.

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
    last = read[-1] if read else None
    answer = _states.message_answer(last) if isinstance(last, AIMessage) else None
    return _run_of(
        read,
        available_tools=available_tools,
        conversation_id=conversation_id,
        run_id=run_id,
        answer=answer,
        status=RunStatus.STOPPED if answer is None else RunStatus.OK,
    )


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
    answer = _states.answer_of(values, is_graph=True)
    status = RunStatus.OK if answer is not None else RunStatus.STOPPED
    if getattr(state, "next", ()) or getattr(state, "interrupts", ()):
        status = RunStatus.INTERRUPTED
    return _run_of(
        messages,
        available_tools=available_tools,
        conversation_id=conversation_id or _thread_of(state),
        answer=answer,
        status=status,
        structured=values.get("structured_response") if isinstance(values, Mapping) else None,
    )


def _run_of(
    messages: list[BaseMessage],
    *,
    available_tools: Iterable[object],
    conversation_id: str | None,
    answer: str | None,
    status: RunStatus,
    run_id: str | None = None,
    structured: object = None,
) -> Run:
    """Return the run of the last turn; `structured` is its structured answer."""
    turn, pseudo_names = _last_turn(messages, structured)
    tools = [spec for spec in map(read_tool_spec, available_tools) if spec.name not in pseudo_names]
    run = transcript_of(turn, "$.messages", format="langchain", available_tools=tools, end=(status, None)).run
    status = run.status if run.status is RunStatus.INTERRUPTED else status  # it waits for an approval
    fields = {"status": status, "conversation_id": conversation_id, "run_id": run_id}
    if status is not RunStatus.INTERRUPTED:
        fields["actual_output"] = answer
    values = {name: getattr(run, name) for name in run.model_fields_set} | fields
    return Run(**{name: value for name, value in values.items() if value is not None})


def _last_turn(messages: list[BaseMessage], structured: object) -> tuple[list[_Entry], set[str]]:
    """Return the last question and what follows it, and the names of tools that only carry an answer."""
    entries, turn = list(_instructions_and_question(messages)), _states.last_turn(messages)
    pseudo_ids = _states.structured_calls(turn, structured)
    names: dict[bool, set[str]] = {True: set(), False: set()}
    ids_now: Collection[str] = ()
    for index, message in enumerate(turn, start=len(messages) - len(turn)):
        path = f"$.messages[{index}]"
        if message.response_metadata.get(_messages.HANDOFF_BACK):
            continue
        if isinstance(message, AIMessage):
            ids_now = pseudo_ids[id(message)]
            requests = _messages.requests_of(message)
            for request in requests:
                names[request.id in ids_now].add(request.name)
            entries += _model_messages(message, [one for one in requests if one.id not in ids_now], path)
        elif not isinstance(message, ToolMessage):
            entries += ((path, answer) for answer in _messages.answers_in(message))
        elif message.tool_call_id not in ids_now:
            entries.append((path, _answer_in(message)))
    return _with_last_answers(entries), names[True] - names[False]


def _instructions_and_question(messages: list[BaseMessage]) -> Iterator[_Entry]:
    for message in messages:
        if message.type == "system":
            yield "$.messages", Instructions(_messages.text_of(message.content))
    question = _messages.question_in(messages)
    if question is not None:
        yield "$.messages", UserInput(*_messages.user_input(question))


def _with_last_answers(entries: list[_Entry]) -> list[_Entry]:
    """Return the messages with one answer to each call: a later one replaces it, as the model sees."""
    last: list[_Entry] = []
    unanswered: Counter[str | None] = Counter()
    places: dict[str | None, int] = {}  # of the last answer to each id
    for path, message in entries:
        if isinstance(message, ModelMessage):
            unanswered.update(part.id for part in message.parts if isinstance(part, Request))
        if isinstance(message, Answer):
            if not unanswered[message.call_id] and message.call_id in places:
                last[places[message.call_id]] = path, message
                continue
            unanswered[message.call_id] -= 1
            places[message.call_id] = len(last)
        last.append((path, message))
    return last


def _model_messages(message: AIMessage, requests: list[Request], path: str) -> Iterator[_Entry]:
    """Yield the late results of calls that the provider ran, then the message itself."""
    for answer in _messages.answers_in(message):
        yield path, answer
    for number, request in enumerate(requests):
        request.source = f"{path}.tool_calls[{number}]"
    model, usage = _messages.model_of(message), _messages.usage_of(message)
    yield path, ModelMessage(requests, message.name or None, model, usage)


def _answer_in(message: ToolMessage) -> Answer:
    result = _results.result_of(message)
    return Answer(
        message.tool_call_id,
        message.name,
        result.output,
        failed=result.error is not None,
        approved=False if result.was_refused else None,
        unknown_tool=result.unknown_tool,
        artifact=result.artifact,
        type=ToolCallType.MCP if result.is_mcp else None,
    )


def _thread_of(state: object) -> str | None:
    config = getattr(state, "config", None)
    thread = (config.get("configurable") or {}).get("thread_id") if isinstance(config, Mapping) else None
    return None if thread is None else str(thread)
