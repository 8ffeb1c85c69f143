"""Messages, questions and answers in the inputs of runs, the states of graphs and the outputs of nodes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from toolmark_langchain._messages import question_in, text_of
from toolmark_langchain._results import command_update, is_command

_INPUT_KEYS: Final = ("input", "question", "query")
_OUTPUT_KEYS: Final = ("output", "answer", "result", "text")
_HUMAN: Final = frozenset({"human", "user"})


def is_resumption(inputs: object) -> bool:
    """Return whether the input of a graph continues an interrupted run: a `Command`, or nothing."""
    return inputs is None or is_command(inputs)


# Messages


def as_messages(value: object) -> list[BaseMessage]:
    """Return the messages of a list in any form that LangChain accepts; other items are left out."""
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    if isinstance(value, BaseMessage):
        return [value]
    messages: list[BaseMessage] = []
    for item in value if isinstance(value, (list, tuple)) else ():
        if isinstance(item, BaseMessage):
            messages.append(item)
        elif isinstance(item, Mapping) and ("role" in item or "type" in item) and "content" in item:
            try:
                messages += convert_to_messages([dict(item)])
            except (ValueError, TypeError, KeyError, NotImplementedError):
                continue
    return messages


def state_messages(state: object) -> list[BaseMessage]:
    """Return the messages of a state: those under `messages`, else the first list that holds messages."""
    fields = _fields_of(state)
    if fields is None:
        return as_messages(state)
    messages = as_messages(fields.get("messages"))
    if messages:
        return messages
    for value in fields.values():
        if isinstance(value, BaseMessage) or (isinstance(value, list) and value and isinstance(value[-1], BaseMessage)):
            return as_messages(value)
    return []


def _fields_of(state: object) -> Mapping[str, Any] | None:
    """Return the fields of a state, which may be a mapping, a model or a dataclass; `None` if it is no state."""
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseMessage) or not (isinstance(state, BaseModel) or dataclasses.is_dataclass(state)):
        return None
    return vars(state) if hasattr(state, "messages") else None


def last_turn(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages after the last message of a person."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], HumanMessage):
            return messages[index + 1 :]
    return messages


def new_results(messages: Iterable[BaseMessage]) -> list[ToolMessage]:
    """Return the results that a model has not been shown before: the tool messages after its own last message."""
    results: list[ToolMessage] = []
    for message in reversed(list(messages)):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results.append(message)
    return results[::-1]


def pseudo_tools(answer: object, messages: list[BaseMessage], *, same_node: bool = False) -> set[str]:
    """Return the names of the pseudo-tools that carry a structured answer: those named like its type.

    Args:
        answer: The structured answer.
        messages: The messages that came with it.
        same_node: One node returned all of them. A real tool runs in another node, so a call that is already answered
            here is one of a pseudo-tool, whatever its name.
    """
    last = next((m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls), None)
    if last is None:
        return set()
    names = {call["name"] for call in last.tool_calls if call["name"] == type(answer).__name__}
    if names or not same_node:
        return names
    answered = {m.tool_call_id for m in messages[messages.index(last) + 1 :] if isinstance(m, ToolMessage)}
    return {call["name"] for call in last.tool_calls if call.get("id") in answered}


def updates_in(output: object) -> Iterator[Mapping[str, Any]]:
    """Yield the updates of the state in the output of a node or a graph."""
    fields = _fields_of(output)
    if is_command(output):
        yield command_update(output)
    elif fields is not None:
        yield fields
    elif isinstance(output, (list, tuple)) and any(is_command(item) for item in output):
        for item in output:
            yield from updates_in(item)
    else:
        messages = as_messages(output)
        if messages:
            yield {"messages": messages}


def calls_to_run(inputs: object) -> list[Mapping[str, Any]]:
    """Return the calls that a node is to execute: its input itself, or those of the last model message in it."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("tool_call"), Mapping):
        return [inputs["tool_call"]]
    if isinstance(inputs, Mapping) and inputs.get("type") == "tool_call":
        return [inputs]
    if isinstance(inputs, list) and inputs and isinstance(inputs[-1], Mapping):
        return [item for item in inputs if isinstance(item, Mapping) and item.get("type") == "tool_call"]
    fields = _fields_of(inputs)
    messages = inputs if fields is None else fields.get("messages")
    for message in reversed(messages if isinstance(messages, (list, tuple)) else ()):
        if isinstance(message, AIMessage):
            return [dict(call) for call in message.tool_calls]
    return []


# The question and the answer


def question_of(inputs: object) -> str | None:
    """Return the text of the user in the input of a run."""
    if isinstance(inputs, str):
        return inputs
    fields = _fields_of(inputs)
    if fields is None:
        return _last_human_text(inputs)
    for name in _INPUT_KEYS:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    if "messages" in fields:
        messages = fields["messages"]
        return messages if isinstance(messages, str) else _last_human_text(messages)
    question = question_in(list(state_messages(fields)))
    if question is not None:
        return question
    texts = [item for item in fields.values() if isinstance(item, str)]
    return texts[0] if len(fields) == 1 and texts else None


def _last_human_text(value: object) -> str | None:
    """Return the text of the last message of a person, in any form that LangChain accepts for messages."""
    if isinstance(value, PromptValue):
        value = value.to_messages()
    for item in reversed(value if isinstance(value, list) else [value]):
        if isinstance(item, str):
            return item
        if isinstance(item, tuple) and len(item) == 2 and item[0] in _HUMAN:  # noqa: PLR2004 - a role and a text
            return text_of(item[1])
        if isinstance(item, Mapping) and item.get("role", item.get("type")) in _HUMAN:
            return text_of(item.get("content"))
        if isinstance(item, HumanMessage):
            return text_of(item.content)
    return None


def answer_of(output: object, *, is_graph: bool) -> str | None:
    """Return the final answer in the output of a run: structured output, else the last message, else a usual key.

    Args:
        output: The output.
        is_graph: It is the state of a graph, whose other fields are not part of the answer.
    """
    if isinstance(output, str):
        return output
    if isinstance(output, BaseModel) and not isinstance(output, BaseMessage) and not hasattr(output, "messages"):
        return _json_text(output)
    fields = _fields_of(output) or {}
    if fields.get("structured_response") is not None:
        return _json_text(fields["structured_response"])
    messages = state_messages(output)
    if messages:
        return message_answer(messages[-1])
    for name in _OUTPUT_KEYS:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    return None if is_graph or _fields_of(output) is None else _json_text(fields)


def message_answer(message: BaseMessage) -> str | None:
    """Return the text with which a message ends a run; `None` of a person's message and of bare requests for calls."""
    if isinstance(message, HumanMessage):
        return None
    text = text_of(message.content)
    if isinstance(message, AIMessage) and message.tool_calls and not text:
        return None
    return text


def _json_text(value: object) -> str | None:
    """Return the JSON text of a structured answer; `None` if it has none."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
