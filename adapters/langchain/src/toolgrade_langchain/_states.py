"""Messages, questions and answers in the inputs of runs, the states of graphs and the outputs of nodes.

Callbacks do not carry the state with which a graph goes on: a tool node that is fed by `Send` is shown one call and no
messages. That state is taken from the memory of LangGraph's loop, not from the checkpointer, for which an event loop
would have to wait. The loop has the very checkpoint with which the graph goes on, which need not be the newest one of
the thread, and the results of the tasks that need not run again.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from toolgrade_langchain._messages import is_question, requests_of, says_something, text_of
from toolgrade_langchain._results import command_update, is_command

_INPUT_KEYS: Final = ("input", "question", "query")
_OUTPUT_KEYS: Final = ("output", "answer", "result", "text")
_HUMAN: Final = frozenset({"human", "user"})
_STRUCTURED: Final = re.compile(
    "Returning structured response: |Error: Failed to parse structured output for tool '|"
    r"Error: Model incorrectly returned multiple structured responses \("
)
"""What `create_agent` answers a call that carries a structured answer (langchain/agents/factory.py)."""
_ROLES: Final = _HUMAN | {"ai", "assistant", "tool", "function", "system", "developer", "chat", "remove"}
_CALL: Final = "__pregel_call"
"""LangGraph's key, in the configuration of a task, of the function that schedules further tasks in the loop."""
_RETURN: Final = "__return__"
"""LangGraph's channel of what a function with `@task` returned."""
_TASKS: Final = "__pregel_tasks"
"""LangGraph's channel of what `Send` addresses to nodes."""


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
    if not isinstance(value, (list, tuple)):  # most values are lists, and the other checks take long
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
    """Return the message that a mapping in the form of a provider stands for, as a list; empty if it is no message."""
    if not _is_message(item):
        return []
    try:
        return convert_to_messages([{"content": "", **item}])
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return []


def _is_message(item: object) -> bool:
    """Return whether a value is a message, also in the form of a provider, whose requests may have no content."""
    if not isinstance(item, Mapping):
        return isinstance(item, BaseMessage)
    return item.get("role", item.get("type")) in _ROLES and ("content" in item or "tool_calls" in item)


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
    return [as_messages(value) for value in values if value and _is_message(value[-1])]


def input_messages(inputs: object) -> list[BaseMessage]:
    """Return the messages in the input of a node, which may be a single call together with the state."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("tool_call"), Mapping) and "state" in inputs:
        return input_messages(inputs["state"])
    return [message for messages in message_lists(inputs) for message in messages]


def _fields_of(state: object) -> Mapping[str, Any] | None:
    """Return the fields of a state, which may be a mapping, a model or a dataclass; `None` if it is not a state."""
    if type(state) is dict:  # most states are, and the check for any other mapping takes long
        return state
    if isinstance(state, (str, list, tuple)) or state is None:
        return None
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseMessage) or not (isinstance(state, BaseModel) or dataclasses.is_dataclass(state)):
        return None
    fields = getattr(state, "__dict__", {})
    return fields if "messages" in fields or any(map(_holds_messages, fields.values())) else None


def _holds_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[-1], BaseMessage)


def last_turn(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages after the last message of a person."""
    for index in range(len(messages) - 1, -1, -1):
        if is_question(messages[index]):
            return messages[index + 1 :]
    return messages


def newest_round(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the last message of the model and what follows it: results that the model has not been shown before."""
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


def structured_calls(messages: Sequence[BaseMessage], answer: object = None) -> dict[int, set[str]]:
    """Return the ids of the calls that carry structured answers, also refused ones, by the identity of their messages.

    Such a call has the name of the type of the answer, or its result has a text of the agent itself.
    """
    ids: dict[int, set[str]] = {}
    newest = set[str]()
    for message in messages:
        if isinstance(message, AIMessage):
            newest = {call["id"] for call in message.tool_calls if call["name"] == type(answer).__name__ and call["id"]}
            ids[id(message)] = newest
        elif isinstance(message, ToolMessage) and _STRUCTURED.match(text_of(message.content)):
            newest.add(message.tool_call_id)
        elif isinstance(message, ToolMessage) and message.status == "error":  # a tool of that name ran, and failed
            newest.discard(message.tool_call_id)
    return ids


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
    """Return the update of a node without the messages in the form of a provider that were in its input.

    An update without messages in such a form is returned as the same object.
    """
    earlier = _fields_of(inputs) or {}
    lists = {name: value if isinstance(value, list) else [value] for name, value in update.items()}
    new = {
        name: _new_items(items, earlier.get(name))
        for name, items in lists.items()
        if items and _is_message(items[-1]) and not all(isinstance(item, BaseMessage) for item in items)
    }
    return {**update, **new} if new else update


def _new_items(returned: list[Any], earlier: object) -> list[Any]:
    """Return the items that come after those of an earlier list, which may be missing."""
    if not isinstance(earlier, list):
        return returned
    if returned[: len(earlier)] == earlier:
        return returned[len(earlier) :]
    # A node may leave out the oldest items.
    ends = [index for index, item in enumerate(returned) if item is earlier[-1]]
    return returned[ends[-1] + 1 :] if ends else returned


def open_requests(messages: Sequence[BaseMessage]) -> tuple[AIMessage, set[str | None]] | None:
    """Return the last message of the model in a list, and the ids of its calls without a result; `None` without one.

    It is also `None` if anything but results follows the message.
    """
    request, answers = newest_of(messages), newest_round(messages)[1:]
    answered = {answer.tool_call_id for answer in answers if isinstance(answer, ToolMessage)}
    return None if request is None or len(answered) < len(answers) else (request, call_ids(request) - answered)


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


def question_of(inputs: object, prompts: Sequence[object] = ()) -> object:
    """Return the content of the user's message in the input of a run, a text or blocks; `None` without one.

    Args:
        inputs: The input.
        prompts: The last messages of persons that models of the run were shown. They decide which part of an input with
            names of its own is the user's message: it may be a history, or any text.
    """
    if is_command(inputs):
        fields: Mapping[str, Any] = {"messages": command_update(inputs).get("messages")}
    else:
        fields = _fields_of(inputs) or {"messages": inputs}
    texts = {name: item for name, item in fields.items() if isinstance(item, str) and item}
    question = _last_question(fields.get("messages"))
    # A list that ends with an answer is a history, so its questions do not count.
    lists = [items[-1].content for items in message_lists(fields) if items and is_question(items[-1])]
    parts = [*texts.values(), *lists] if question is None else [question, *texts.values()]
    # A usual name counts most, then what a model was shown; a list with a name of its own counts least.
    prompted = _prompted_part(parts, [*texts.values()], prompts)
    candidates = (_named(texts, _INPUT_KEYS), prompted, question, *prompts, *lists)
    return next((part for part in candidates if part is not None), None)


def _named(texts: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the text under the first of these names that there is."""
    return next((texts[name] for name in names if name in texts), None)


def _prompted_part(parts: Sequence[object], texts: Sequence[str], prompts: Sequence[object]) -> object:
    """Return the part of an input that a model was shown, as a whole prompt or inside one; the only part in any case.

    A prompt with the texts of several parts inside does not tell which of them is the question.
    """
    if len(parts) == 1:
        return parts[0]
    for prompt in map(text_of, prompts):
        shown = [part for part in parts if text_of(part) == prompt]
        inside = [text for text in texts if text in prompt]
        if shown or len(inside) == 1:
            return shown[0] if shown else inside[0]
    return None


def _last_question(value: object) -> object:
    """Return the content of the last message of a person, in any form that LangChain accepts for messages."""
    if isinstance(value, PromptValue):
        value = value.to_messages()
    items = value if isinstance(value, list) else [value]
    contents = map(_said_by_person, reversed(items))
    return next((content for content in contents if content is not None and says_something(content)), None)


def _said_by_person(item: object) -> object:
    """Return the content of a message of a person; `None` for anything else."""
    if isinstance(item, Mapping):
        return item.get("content") if item.get("role", item.get("type")) in _HUMAN else None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):  # noqa: PLR2004 - a role and a content
        return item[1] if item[0] in _HUMAN else None
    if isinstance(item, HumanMessage):
        return item.content
    return item if isinstance(item, str) else None


def answer_of(
    output: object,
    *,
    is_graph: bool,
    inputs: object = None,
    last_text: str | None = None,
    ids_before: Container[str | None] = (),
) -> str | None:
    """Return the final answer in the output of a run: structured output, else the last message, else a usual key.

    Args:
        output: The output.
        is_graph: The output is the state of a graph, whose other fields are not part of the answer.
        inputs: The input; a text of it that the output repeats is not the answer.
        last_text: The last text of a model; if the output has this text, it is the answer.
        ids_before: The ids of the messages that were there before the run.
    """
    if isinstance(output, str):
        return output
    fields, earlier = _fields_of(output) or {}, _fields_of(inputs) or {}
    structured = _structured_answer(output, fields)
    if structured is not None:
        return _json_text(structured)
    others = dict(fields)
    main = as_messages(others.pop("messages", None) if fields else output)
    lists = [main, *message_lists(others)]
    newest = _new_messages(lists, list(map(as_messages, earlier.values())), ids_before)
    if main and main[-1:] == newest[:1]:
        return message_answer(main[-1])
    answer = _answer_among(_new_texts(fields, earlier), list(map(message_answer, newest)), last_text)
    is_data = fields and not is_graph and not any(lists)
    return _json_text(fields) if answer is None and is_data else answer


def _structured_answer(output: object, fields: Mapping[str, Any]) -> object:
    """Return the structured answer of a run: an output that is a model, or a field of a state."""
    is_model = isinstance(output, BaseModel) and not isinstance(output, BaseMessage)
    return output if is_model and not hasattr(output, "messages") else fields.get("structured_response")


def _answer_among(texts: Mapping[str, str], said: Sequence[str | None], last_text: str | None) -> str | None:
    """Return the answer among the new texts of a state and those of its new messages; `None` if there is none."""
    usual = _named(texts, _OUTPUT_KEYS)
    if usual is not None:
        return usual
    if last_text and last_text in (*texts.values(), *said):
        return last_text
    if len(texts) == 1:
        return next(iter(texts.values()))
    return said[-1] if said else None


def _new_texts(fields: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a state that were not in the input under the same names."""
    return {name: text for name, text in fields.items() if isinstance(text, str) and text != earlier.get(name)}


def _new_messages(
    lists: Sequence[Sequence[BaseMessage]], before: Sequence[Sequence[BaseMessage]], ids_before: Container[str | None]
) -> list[BaseMessage]:
    """Return the last message of each list that is not one of the input, unless a person said the message."""
    newest = [items[-1] for items in lists if items and not any(_are_same(items, older) for older in before)]
    return [message for message in newest if not isinstance(message, HumanMessage) and message.id not in ids_before]


def _are_same(messages: Sequence[BaseMessage], earlier: Sequence[BaseMessage]) -> bool:
    """Return whether a list of messages is an earlier one to which nothing was added, except ids."""
    return len(messages) == len(earlier) and text_of(messages[-1].content) == text_of(earlier[-1].content)


def message_answer(message: BaseMessage) -> str | None:
    """Return the text with which a message ends a run; `None` for a person's message and for bare requests of calls."""
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
    """Return the JSON text of a structured answer; `None` if it is not JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


# The state with which a graph goes on, in LangGraph's memory


def loaded_messages() -> list[list[BaseMessage]]:
    """Return the lists of messages in the state of the graph whose node begins; none if they cannot be read."""
    try:
        loop = _loop()
        values = {name: channel.get() for name, channel in loop.channels.items() if channel.is_available()}
        for task in list(loop.tasks.values()):
            for name, value in list(task.writes):
                if isinstance(values.get(name), list):
                    # A task may have run an agent: what that agent was asked is not a question of the user.
                    values[name] = values[name] + [item for item in as_messages(value) if not is_question(item)]
        writes = loop.checkpoint_pending_writes
        returned = [message for _, name, value in writes if name == _RETURN for message in as_messages(value)]
        return list(filter(None, (*message_lists(values), returned)))
    except Exception:  # noqa: BLE001 - private parts of LangGraph; without the state, the run has a warning
        return []


def reference_to_loop() -> Callable[[], Any]:
    """Return a weak reference to the loop of the graph whose node begins, for the end of the graph."""
    try:
        return weakref.ref(_loop())
    except Exception:  # noqa: BLE001 - as above
        return lambda: None


def is_at_breakpoint(loop_of_nodes: Callable[[], Any] | None) -> bool:
    """Return whether the graph that ends stops before or after a node, as its options say, and has more to do."""
    try:
        loops = (frame.f_locals["loop"] for frame in _frames() if "loop" in frame.f_locals)
        # Asynchronous code ends in a task of its own, whose frames do not show the loop.
        loop: Any = next(loops, None) or (loop_of_nodes() if loop_of_nodes else None)
        if getattr(loop, "status", None) == "interrupt_after":
            return not {_TASKS, *loop.trigger_to_nodes}.isdisjoint(loop.updated_channels or ())
        return getattr(loop, "status", None) == "interrupt_before"
    except Exception:  # noqa: BLE001 - as above; the messages then show whether a call waits
        return False


def _loop() -> Any:
    """Return the loop of the graph whose node begins; `None` if it is not known."""
    return next(filter(None, map(_loop_in, _frames())), None)


def _loop_in(frame: FrameType) -> Any:
    """Return the loop that the configuration in a frame belongs to; `None` if there is none.

    The callback of a node comes before LangChain's context variable has the configuration of the node.
    """
    config = frame.f_locals.get("config")
    options = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(options, Mapping) or _CALL not in options:
        return None
    # A partial of `_call` (langgraph/pregel/_runner.py), with the loop's own `accept_push`.
    return options[_CALL].keywords["schedule_task"].__self__


def _frames() -> Iterator[FrameType]:
    """Yield the frames of the callers, the nearest first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
