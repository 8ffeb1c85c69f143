"""Values read from the answers of models and agents: requests, token counts, questions and answers."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.memory import BaseMemory
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.tools import ToolSelection
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from toolgrade.capture import Request, image_parts
from toolgrade.cases import MLLMImage
from toolgrade_llama_index._results import plain_block

_REACT_ACTION: Final = re.compile(r"Action:\s*([^\n() ]+).*?\n+\s*Action Input:.*?(\{.*)", re.DOTALL)
_INPUT_KEYS: Final = ("user_msg", "input", "query", "question", "message", "msg", "prompt", "text")
_USAGE: Final = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_token_count", "prompt_eval_count"),
    "output_tokens": ("output_tokens", "completion_tokens", "candidates_token_count", "eval_count"),
    "total_tokens": ("total_tokens", "total_token_count"),
}


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a dict or an attribute of an object; `None` where it is missing."""
    # Most are dicts, and the check for any other mapping takes long.
    is_mapping = type(holder) is dict or isinstance(holder, Mapping)
    return holder.get(name) if is_mapping else getattr(holder, name, None)


# Requests


def selections_of(output: AgentOutput) -> list[ToolSelection]:
    """Return the calls that a step of an agent requests, as LlamaIndex's objects."""
    # To its last answer, an agent adds the results of all calls of the run, against the declared type.
    calls: list[object] = list(output.tool_calls)
    return [call for call in calls if isinstance(call, ToolSelection)]


def requests_of(selections: list[ToolSelection], message: ChatMessage) -> list[Request]:
    """Return the calls that a message of a model requests, as LlamaIndex has read them."""
    texts = _broken_arguments(selections, message) if selections else []
    return [
        Request(call.tool_name, call.tool_kwargs if text is None else text, call.tool_id or None)
        for call, text in zip(selections, texts, strict=True)
    ]


def _broken_arguments(selections: list[ToolSelection], message: ChatMessage) -> list[str | None]:
    """Return, for each call, the text that the model wrote if it is not a JSON object; otherwise `None`.

    LlamaIndex replaces such text by `{}`, or repairs it. The original is in the message: in its blocks, in OpenAI's
    form or, for a ReAct agent, in the text.
    """
    written = written_calls(message)
    if not written and len(selections) == 1:
        action = _REACT_ACTION.search(message.content or "")
        if action is not None and action[1] == selections[0].tool_name:
            return [_not_an_object(action[2].strip(), may_continue=True)]
    arguments = [_take_written(written, call) for call in selections]
    return [_not_an_object(text) if isinstance(text, str) else None for text in arguments]


def _take_written(written: list[tuple[str, str | None, Any]], call: ToolSelection) -> Any:
    """Remove a call from those that the provider wrote, and return its arguments; `None` if it is not among them."""
    named = [other for other in written if other[0] == call.tool_name]
    same = [other for other in named if (other[1] or "") == (call.tool_id or "")]
    for chosen in (same or named)[:1]:
        written.remove(chosen)
        return chosen[2]
    return None


def written_calls(message: ChatMessage) -> list[tuple[str, str | None, Any]]:
    """Return the name, id and arguments of the calls in a message, as the provider wrote them."""
    blocks: list[Any] = [block for block in message.blocks if getattr(block, "block_type", None) == "tool_call"]
    if blocks:
        return [(block.tool_name, block.tool_call_id, block.tool_kwargs) for block in blocks]
    written: list[tuple[str, str | None, Any]] = []
    calls = message.additional_kwargs.get("tool_calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        function = field_of(call, "function")
        name = field_of(function, "name")
        if isinstance(name, str):
            written.append((name, field_of(call, "id"), field_of(function, "arguments")))
    return written


def _not_an_object(text: str, *, may_continue: bool = False) -> str | None:
    """Return the text if it is not a JSON object; `None` if it is one, or empty, as some providers write no arguments.

    With `may_continue`, other text may follow the object, as a ReAct agent may go on writing after its arguments.
    """
    stripped = text.strip()
    if not stripped:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(stripped)
    except ValueError:
        return text.partition("\nObservation:")[0].strip() if may_continue else text
    return None if isinstance(value, dict) and (may_continue or end == len(stripped)) else text


# Models


def reply_in(response: object) -> Any:
    """Return the reply of the provider in an answer; of a stream of OpenAI's Responses, its last event holds it."""
    raw = response.raw if isinstance(response, (AgentOutput, ChatResponse)) else response
    return field_of(raw, "response") if str(field_of(raw, "type")).startswith("response.") else raw


def usage_of(response: object) -> dict[str, int]:
    """Return the token counts of an answer, from what the provider sent; empty if it sent none."""
    raw = reply_in(response)
    more = getattr(response, "additional_kwargs", None)
    for holder in (field_of(raw, "usage"), field_of(raw, "usage_metadata"), raw, more):
        if holder is None:
            continue
        counts: dict[str, int] = {}
        for name, keys in _USAGE.items():
            values = [field_of(holder, key) for key in keys]
            count = next((value for value in values if value is not None), None)
            if type(count) is int:
                counts[name] = count
        if counts:
            return counts
    return {}


def model_of(response: object) -> str | None:
    """Return the name of the model that answered, if the provider sent it."""
    raw = reply_in(response)
    name = field_of(raw, "model") or field_of(raw, "model_version")
    return name if isinstance(name, str) else None


# Question and answer


def message_of(start: object) -> object:
    """Return what the user says in a start event, as a message or a text; `None` if it shows nothing of this.

    That is the value under a usual name, else the last message of the user in `chat_history`, else the only text, else
    the user's last message in another list. A history next to a message is of earlier turns.
    """
    fields = _fields_of(start)
    for name in _INPUT_KEYS:
        if isinstance(fields.get(name), (str, ChatMessage)):
            return fields[name]
    histories = {name: last_question(value) for name, value in fields.items() if isinstance(value, (list, tuple))}
    texts = [value for value in fields.values() if isinstance(value, str)]
    last = histories.get("chat_history")
    if last is None and len(texts) == 1:
        return texts[0]
    return last or next(filter(None, histories.values()), None)


def question_of(start: object) -> str | None:
    """Return the text of the user in a start event."""
    message = message_of(start)
    return None if message is None else text_of(message)


def last_question(messages: Iterable[object]) -> ChatMessage | str | None:
    """Return the user's last message; only its text, if it is not one of LlamaIndex's messages."""
    own = [message for message in messages if field_of(message, "role") == MessageRole.USER]
    last = own[-1] if own else None
    question = last if isinstance(last, ChatMessage) else field_of(last, "content")
    return question if isinstance(question, (ChatMessage, str)) else None


def images_in(message: object) -> list[str | MLLMImage] | None:
    """Return the texts and images of a message in their order; `None` if it has no image."""
    return image_parts([plain_block(block) for block in message.blocks]) if isinstance(message, ChatMessage) else None


def has_unread_image(message: object) -> bool:
    """Return whether a message has an image that only the program can read, such as an open file."""
    blocks = message.blocks if isinstance(message, ChatMessage) else []
    return any(isinstance(block, ImageBlock) and image_parts(plain_block(block)) is None for block in blocks)


def conversation_of(start: object, context: object) -> str | None:
    """Return the conversation of a run: the name of the memory in its start event, or of the context it was passed.

    The name of a memory is the id of its session, or its key in a chat store. A memory with neither is named by a new
    id, the same as long as it lives, and so is a context: by the memory of its first run, else by a new id.
    """
    memory = field_of(start, "memory")
    name = None
    if isinstance(memory, BaseMemory):
        key = getattr(memory, "session_id", None) or getattr(memory, "chat_store_key", None)
        name = key if isinstance(key, str) and key != DEFAULT_CHAT_STORE_KEY else _name_of(memory)
    return name if context is None else _name_of(context, name)


def _name_of(holder: object, name: str | None = None) -> str:
    """Return the conversation that is named by an object, which keeps its first name."""
    key = id(holder)
    if key not in _names:
        _names[key] = name or str(uuid4())
        weakref.finalize(holder, _names.pop, key)
    return _names[key]


_names: Final[dict[int, str]] = {}
"""The conversations of memories and contexts, by the ids of the objects."""


def answer_of(result: object) -> str | None:
    """Return the final answer in the result of a run; `None` if it is empty."""
    if isinstance(result, StopEvent):
        fields = _fields_of(result)
        inner = result.result
        result = inner if inner is not None or type(result) is StopEvent else fields
        if result == {}:
            return None
    structured = structured_of(result)
    if structured is not None:  # in the form in which pydantic writes it
        return json.dumps(structured, ensure_ascii=False, separators=(",", ":"), default=_plain)
    plain = _plain(result)
    return json.dumps(plain, ensure_ascii=False, default=_plain) if isinstance(plain, (dict, list)) else plain


def _plain(value: object) -> Any:
    """Return the text of an object; of a model of the user's own its fields, and JSON values as they are."""
    if value is None or isinstance(value, (str, dict, list)):
        return value
    if isinstance(value, (AgentOutput, ChatMessage, ChatResponse)):
        return text_of(value)
    if isinstance(value, BaseModel) and not type(value).__module__.startswith("llama_index."):
        return value.model_dump(mode="json")
    return str(value)


def structured_of(result: object) -> Any:
    """Return the structured answer in the result of a run, if there is one."""
    inner = result.result if isinstance(result, StopEvent) else result
    return getattr(inner, "structured_response", None) if isinstance(inner, AgentOutput) else None


def text_of(message: object) -> str:
    """Return the text of a message or an answer."""
    if isinstance(message, AgentOutput):
        message = message.response
    if isinstance(message, ChatResponse):
        message = message.message
    if isinstance(message, ChatMessage):
        return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))
    return str(message)


def _fields_of(event: object) -> dict[str, Any]:
    """Return the fields of an event, including those that it does not declare, without its result."""
    fields: dict[str, Any] = dict(event) if isinstance(event, Mapping) else {}
    if isinstance(event, BaseModel):
        fields.update({name: getattr(event, name, None) for name in type(event).model_fields})
    if isinstance(event, Event):
        fields.update(event.items())
    return {name: value for name, value in fields.items() if value is not None and name != "result"}
