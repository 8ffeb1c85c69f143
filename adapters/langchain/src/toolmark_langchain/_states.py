"""Where in an input, a graph's state or a node's output do the messages, the question and the answer stand?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from toolmark_langchain._messages import command_update, is_command, last_human_text, text_of

_INPUT_KEYS: Final = ("input", "question", "query")
_OUTPUT_KEYS: Final = ("output", "answer", "result", "text")
_HUMAN: Final = frozenset({"human", "user"})


def is_resumption(value: object) -> bool:
    """Return whether a graph's input goes on with what was interrupted: a `Command`, or nothing."""
    return value is None or is_command(value)


# Messages


def as_messages(value: object) -> list[BaseMessage]:
    """Return the messages of a list in any form that LangChain takes; what is no message is left out."""
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    if isinstance(value, BaseMessage):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    messages: list[BaseMessage] = []
    for item in value:
        if isinstance(item, BaseMessage):
            messages.append(item)
        elif isinstance(item, Mapping) and ("role" in item or "type" in item) and "content" in item:
            messages += _converted(item)
    return messages


def _converted(item: Mapping[str, Any]) -> list[BaseMessage]:
    try:
        return convert_to_messages([dict(item)])
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return []


def state_messages(state: object) -> list[BaseMessage]:
    """Return the messages of a state: those under `messages`, else the first list that holds messages."""
    fields = _mapping(state)
    if fields is None:
        return as_messages(state)
    found = as_messages(fields.get("messages"))
    if found:
        return found
    for value in fields.values():
        if isinstance(value, BaseMessage) or (isinstance(value, list) and value and isinstance(value[-1], BaseMessage)):
            return as_messages(value)
    return []


def _mapping(state: object) -> Mapping[str, Any] | None:
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseMessage) or not (isinstance(state, BaseModel) or dataclasses.is_dataclass(state)):
        return None
    return vars(state) if hasattr(state, "messages") else None


def since_last_human(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return what follows the last message of a person: what came of it, without the turns before."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], HumanMessage):
            return messages[index + 1 :]
    return messages


def shown_results(messages: Iterable[BaseMessage]) -> list[ToolMessage]:
    """Return the results that a model is shown as new: the tool messages after its last own message."""
    results: list[ToolMessage] = []
    for message in reversed(list(messages)):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results.append(message)
    return results[::-1]


def structured_tools(answer: object, messages: list[BaseMessage], *, at_once: bool = False) -> set[str]:
    """Return the names of the pseudo-tools through which a structured answer came: those named like its type.

    Args:
        answer: The structured answer.
        messages: The messages that came with it.
        at_once: They are of one node only, so that a call that is already answered there is such a pseudo-tool, too.
    """
    asked = next((m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls), None)
    if asked is None:
        return set()
    named = {call["name"] for call in asked.tool_calls if call["name"] == type(answer).__name__}
    if named or not at_once:
        return named
    answered = {m.tool_call_id for m in messages[messages.index(asked) + 1 :] if isinstance(m, ToolMessage)}
    return {call["name"] for call in asked.tool_calls if call.get("id") in answered}


# What a node put out


def updates_in(output: object) -> Iterator[Mapping[str, Any]]:
    """Yield the changes of state in what a node or a whole graph put out."""
    if is_command(output):
        yield command_update(output)
        return
    fields = _mapping(output)
    if fields is not None:
        yield fields
    elif isinstance(output, (list, tuple)) and any(is_command(item) for item in output):
        for item in output:
            yield from updates_in(item)
    elif output is not None and not isinstance(output, str):
        messages = as_messages(output)
        if messages:
            yield {"messages": messages}


# Calls that a node of tools was given


def calls_given(value: object) -> list[Mapping[str, Any]]:
    """Return the calls that a node was given to execute: calls themselves, or the last model message of its state."""
    if isinstance(value, Mapping) and isinstance(value.get("tool_call"), Mapping):
        return [value["tool_call"]]
    if isinstance(value, Mapping) and value.get("type") == "tool_call":
        return [value]
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        return [item for item in value if isinstance(item, Mapping) and item.get("type") == "tool_call"]
    fields = _mapping(value)
    messages = value if fields is None else fields.get("messages")
    if isinstance(messages, (list, tuple)):
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                return [dict(call) for call in message.tool_calls]
    return []


# The question and the answer


def question_of(value: object) -> str | None:
    """Return the text of the user in a run's input."""
    if isinstance(value, str):
        return value
    fields = _mapping(value)
    if fields is None:
        return _last_human(value)
    for name in _INPUT_KEYS:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    if "messages" in fields:
        messages = fields["messages"]
        return messages if isinstance(messages, str) else _last_human(messages)
    found = last_human_text(list(state_messages(fields)))
    if found is not None:
        return found
    texts = [item for item in fields.values() if isinstance(item, str)]
    return texts[0] if len(fields) == 1 and texts else None


def _last_human(value: object) -> str | None:
    if isinstance(value, PromptValue):
        value = value.to_messages()
    items = value if isinstance(value, list) else [value]
    for item in reversed(items):
        if isinstance(item, str):
            return item
        if isinstance(item, tuple) and len(item) == 2 and item[0] in _HUMAN:  # noqa: PLR2004 - a role and a text
            return text_of(item[1])
        if isinstance(item, Mapping) and item.get("role", item.get("type")) in _HUMAN:
            return text_of(item.get("content"))
        if isinstance(item, HumanMessage):
            return text_of(item.content)
    return None


def answer_of(value: object, *, graph: bool) -> str | None:
    """Return the final answer in a run's output: structured output first, then the last message, then usual keys.

    Args:
        value: The output.
        graph: It is the state of a graph, of which no more than the answer is taken.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, BaseMessage):
        return message_answer(value)
    if isinstance(value, BaseModel) and not hasattr(value, "messages"):
        return _compact(value)
    fields = _mapping(value)
    if fields is None:
        messages = as_messages(value)
        return message_answer(messages[-1]) if messages else None
    if fields.get("structured_response") is not None:
        return _compact(fields["structured_response"])
    messages = state_messages(fields)
    if messages:
        return message_answer(messages[-1])
    for name in _OUTPUT_KEYS:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    return None if graph else _compact(fields)


def message_answer(message: BaseMessage) -> str | None:
    """Return the text with which a message ends a run; None if it asks for more, or nobody but the user spoke."""
    if isinstance(message, HumanMessage):
        return None
    text = text_of(message.content)
    if isinstance(message, AIMessage) and message.tool_calls and not text:
        return None
    return text


def _compact(value: object) -> str | None:
    """Return the JSON text of a structured answer; None if it has none."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
