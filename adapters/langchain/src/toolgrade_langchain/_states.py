"""Messages, questions and answers in the inputs of runs, the states of graphs and the outputs of nodes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from toolgrade_langchain._messages import is_question, question_in, requests_of, says_something, text_of
from toolgrade_langchain._results import command_update, is_command

_INPUT_KEYS: Final = ("input", "question", "query")
_OUTPUT_KEYS: Final = ("output", "answer", "result", "text")
_HUMAN: Final = frozenset({"human", "user"})


def is_resumption(inputs: object) -> bool:
    """Return whether the input of a graph continues a run: nothing, results, or a `Command` without a new question."""
    if is_command(inputs):
        return getattr(inputs, "resume", None) is not None or question_of(inputs) is None
    last = None if inputs is None else next(reversed(input_messages(inputs)), None)
    return inputs is None or (isinstance(last, HumanMessage) and not is_question(last))


# Messages


def as_messages(value: object) -> list[BaseMessage]:
    """Return the messages of a list in any form that LangChain accepts; other items are left out."""
    messages: list[BaseMessage] = []
    if not isinstance(value, (list, tuple)):  # most are lists, and the other checks take long
        if isinstance(value, PromptValue):
            return list(value.to_messages())
        if isinstance(value, BaseMessage):
            return [value]
        value = [value] if isinstance(value, Mapping) else value
    for item in value if isinstance(value, (list, tuple)) else ():
        if isinstance(item, BaseMessage):
            messages.append(item)
        elif isinstance(item, Mapping):
            messages += _converted(item)
    return messages


def _converted(item: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the message in the form of a provider; none if it is not one."""
    if ("role" not in item and "type" not in item) or "content" not in item:
        return []
    try:
        return convert_to_messages([dict(item)])
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return []


def state_messages(state: object) -> list[BaseMessage]:
    """Return the messages of a state: those under `messages`, else the first list that holds messages."""
    return next(iter(message_lists(state)), [])


def message_lists(state: object) -> list[list[BaseMessage]]:
    """Return the messages of a state: those under `messages`, else every list that holds messages."""
    fields = _fields_of(state)
    if fields is None:
        return [as_messages(state)]
    if "messages" in fields:
        messages = as_messages(fields["messages"])
        if messages:
            return [messages]
    values = [value if isinstance(value, list) else [value] for value in fields.values()]
    return [as_messages(value) for value in values if value and isinstance(value[-1], BaseMessage)]


def input_messages(inputs: object) -> list[BaseMessage]:
    """Return the messages in the input of a node, which may be a single call together with the state."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("tool_call"), Mapping) and "state" in inputs:
        return input_messages(inputs["state"])
    return [message for messages in message_lists(inputs) for message in messages]


def _fields_of(state: object) -> Mapping[str, Any] | None:
    """Return the fields of a state, which may be a mapping, a model or a dataclass; `None` if it is no state."""
    if type(state) is dict:  # most are, and the check for any other mapping takes long
        return state
    if isinstance(state, (str, list, tuple)) or state is None:
        return None
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseMessage) or not (isinstance(state, BaseModel) or dataclasses.is_dataclass(state)):
        return None
    return vars(state) if hasattr(state, "messages") else None


def last_turn(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages after the last message of a person."""
    for index in range(len(messages) - 1, -1, -1):
        if is_question(messages[index]):
            return messages[index + 1 :]
    return messages


def newest_round(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the last message of the model and what follows it: results that it has not been shown before."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], AIMessage):
            return list(messages[index:])
    return list(messages)


def newest_model_messages(state: object) -> list[AIMessage]:
    """Return the last message of the model in each list of messages in the input of a node."""
    fields = _fields_of(state)
    if fields is not None and isinstance(fields.get("tool_call"), Mapping) and "state" in fields:
        return newest_model_messages(fields["state"])
    lists = [state] if fields is None else list(fields.values())
    return [message for message in map(newest_of, lists) if message is not None]


def newest_of(messages: object) -> AIMessage | None:
    """Return the last message of the model in a list; `None` without one."""
    items = messages if isinstance(messages, (list, tuple)) else ()
    return next((item for item in reversed(items) if isinstance(item, AIMessage)), None)


def call_ids(message: AIMessage) -> set[str | None]:
    """Return the ids of the calls in a message of the model."""
    return {call.get("id") for call in message.tool_calls}


def structured_calls(answer: object, messages: Sequence[BaseMessage]) -> tuple[AIMessage | None, set[str]]:
    """Return the message that carries a structured answer as a call, and the ids of the calls named like its type."""
    last = next((m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls), None)
    calls = [] if last is None else last.tool_calls
    return last, {call["id"] for call in calls if call["name"] == type(answer).__name__ and call["id"]}


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


def without_input(update: Mapping[str, Any], inputs: object) -> Mapping[str, Any]:
    """Return the update of a node without the messages in the form of a provider that were in its input."""
    returned, earlier = update.get("messages"), (_fields_of(inputs) or {}).get("messages")
    if not isinstance(returned, list) or not isinstance(earlier, list):
        return update
    if all(isinstance(item, BaseMessage) for item in returned):  # mostly
        return update
    if returned[: len(earlier)] == earlier:
        new = returned[len(earlier) :]
    else:
        objects = set(map(id, earlier))
        new = [item for item in returned if id(item) not in objects]
    return {**update, "messages": new}


def _is_call(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "tool_call"


def calls_to_run(inputs: object) -> list[Mapping[str, Any]]:
    """Return the calls that a node is to execute: its input itself, or those of the last model message in it."""
    call = inputs.get("tool_call", inputs) if isinstance(inputs, Mapping) else None
    if isinstance(call, Mapping) and (call is not inputs or _is_call(call)):
        return [call]
    if isinstance(inputs, list) and inputs and isinstance(inputs[-1], Mapping):
        return list(filter(_is_call, inputs))
    fields = _fields_of(inputs)
    newest = newest_of(inputs if fields is None else fields.get("messages"))
    return [] if newest is None else [dict(call) for call in newest.tool_calls]


# The question and the answer


def question_of(inputs: object) -> object:
    """Return the content of the user's message in the input of a run, a text or blocks; `None` without one."""
    if isinstance(inputs, str):
        return inputs
    if is_command(inputs):
        return _last_question(command_update(inputs).get("messages"))
    fields = _fields_of(inputs)
    if fields is None:
        return _last_question(inputs)
    for name in _INPUT_KEYS:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    if "messages" in fields:
        return _last_question(fields["messages"])
    question = question_in(state_messages(fields))
    if question is not None:
        return question
    texts = [item for item in fields.values() if isinstance(item, str)]
    return texts[0] if len(fields) == 1 and texts else None


def _last_question(value: object) -> object:
    """Return the content of the last message of a person, in any form that LangChain accepts for messages."""
    if isinstance(value, PromptValue):
        value = value.to_messages()
    for item in reversed(value if isinstance(value, list) else [value]):
        if isinstance(item, str):
            return item
        content: object = None
        if isinstance(item, tuple) and len(item) == 2 and item[0] in _HUMAN:  # noqa: PLR2004 - a role and a content
            content = item[1]
        elif isinstance(item, Mapping) and item.get("role", item.get("type")) in _HUMAN:
            content = item.get("content")
        elif isinstance(item, HumanMessage):
            content = item.content
        if content is not None and says_something(content):
            return content
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
    if isinstance(message, AIMessage) and not text and requests_calls(message):
        return None
    return text


def requests_calls(message: AIMessage) -> bool:
    """Return whether a message requests calls that somebody has still to run."""
    return any(not request.ran and isinstance(request.arguments, Mapping) for request in requests_of(message))


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
