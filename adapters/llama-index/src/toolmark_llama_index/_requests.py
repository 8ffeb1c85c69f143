"""What did a model say? Its answers in, requests for calls, token counts and the user's and agent's texts out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.tools import ToolSelection
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from toolmark.capture import Request

_ACTION: Final = re.compile(r"Action:\s*([^\n() ]+).*?\n+\s*Action Input:.*?(\{.*)", re.DOTALL)
_INPUTS: Final = ("user_msg", "input", "query", "question", "message", "msg", "prompt", "text")
_USAGE: Final = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_token_count", "prompt_eval_count"),
    "output_tokens": ("output_tokens", "completion_tokens", "candidates_token_count", "eval_count"),
    "total_tokens": ("total_tokens", "total_token_count"),
}


def requests_of(output: AgentOutput) -> list[Request]:
    """Return the calls that a step of an agent asks for.

    What an agent adds to its last answer, the results of all calls of the run, is none of them.
    """
    return _requests(selections_of(output), output.response)


def selections_of(output: AgentOutput) -> list[ToolSelection]:
    """Return the calls that a step of an agent asks for, as LlamaIndex tells them."""
    told: list[object] = list(output.tool_calls)  # the declared type is not the whole truth
    return [call for call in told if isinstance(call, ToolSelection)]


def proposals_of(response: ChatResponse, selections: Iterable[ToolSelection]) -> list[Request]:
    """Return the calls that a model's answer asks for, as the model's class reads them."""
    return _requests(list(selections), response.message)


def _requests(asked: list[ToolSelection], message: ChatMessage) -> list[Request]:
    if not asked:
        return []
    texts = _argument_texts(asked, message)
    return [
        Request(call.tool_name, call.tool_kwargs if text is None else text, call.tool_id or None)
        for call, text in zip(asked, texts, strict=True)
    ]


def _argument_texts(asked: list[ToolSelection], message: ChatMessage) -> list[str | None]:
    """Return the text that the model wrote in place of an argument object, for each call; `None` where it wrote one.

    LlamaIndex replaces such text by `{}`, or repairs it. What was written is found in the message: in its blocks, in
    OpenAI's form, or, for a ReAct agent, in the text itself.
    """
    written = _calls_in(message)
    if not written and len(asked) == 1:
        found = _ACTION.search(message.content or "")
        if found is not None and found[1] == asked[0].tool_name:
            return [_no_object(found[2].strip(), whole=False)]
    left = list(written)
    texts: list[str | None] = []
    for call in asked:
        fits = [one for one in left if one[0] == call.tool_name]
        same = [one for one in fits if (one[1] or "") == (call.tool_id or "")]
        chosen = next(iter(same or fits), None)
        if chosen is None:
            texts.append(None)
            continue
        left.remove(chosen)
        texts.append(_no_object(chosen[2]) if isinstance(chosen[2], str) else None)
    return texts


def _calls_in(message: ChatMessage) -> list[tuple[str, str | None, Any]]:
    """Return name, id and arguments of the calls that a message carries, as the provider wrote them."""
    blocks = [block for block in message.blocks if getattr(block, "block_type", None) == "tool_call"]
    if blocks:
        return [(block.tool_name, block.tool_call_id, block.tool_kwargs) for block in blocks]  # type: ignore[union-attr]
    found: list[tuple[str, str | None, Any]] = []
    given = message.additional_kwargs.get("tool_calls")
    for call in given if isinstance(given, (list, tuple)) else ():
        function = _get(call, "function")
        name = _get(function, "name")
        if isinstance(name, str):
            found.append((name, _get(call, "id"), _get(function, "arguments")))
    return found


def _no_object(text: str, *, whole: bool = True) -> str | None:
    """Return text that is no JSON object; an empty one is how some providers write none.

    Args:
        text: What the model wrote.
        whole: Nothing else may follow; a ReAct agent may go on writing after its arguments.
    """
    if not text.strip():
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return text if whole else text.partition("\nObservation:")[0].strip()
    if isinstance(value, dict) and (not whole or not text.lstrip()[end:].strip()):
        return None
    return text


def usage_of(response: object) -> dict[str, int]:
    """Return the token counts of one answer of a model, from what the provider sent; empty where it sent none."""
    raw = response.raw if isinstance(response, (AgentOutput, ChatResponse)) else response
    more = getattr(response, "additional_kwargs", None)
    for place in (_get(raw, "usage"), _get(raw, "usage_metadata"), raw, more):
        counts = {
            name: count
            for name, keys in _USAGE.items()
            for count in [next((_get(place, key) for key in keys if _get(place, key) is not None), None)]
            if type(count) is int
        }
        if counts:
            return counts
    return {}


def model_of(response: object) -> str | None:
    """Return the name of the model that answered, where the provider sent it."""
    raw = response.raw if isinstance(response, (AgentOutput, ChatResponse)) else response
    name = _get(raw, "model") or _get(raw, "model_version")
    return name if isinstance(name, str) else None


def question_of(start: object) -> str | None:
    """Return the text of the user in a start event: its message, the last one of a history, or its only text."""
    message = _get(start, "user_msg")
    if message is not None:
        return text_of(message)
    history = _get(start, "chat_history")
    if isinstance(history, (list, tuple)) and history:
        return last_question(history)
    fields = _fields(start)
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    named = next((texts[name] for name in _INPUTS if name in texts), None)
    return named if named is not None or len(texts) != 1 else next(iter(texts.values()))


def last_question(messages: Iterable[object]) -> str | None:
    """Return the text of the user's last message."""
    said = [message for message in messages if isinstance(message, ChatMessage) and message.role == MessageRole.USER]
    return text_of(said[-1]) if said else None


def answer_of(result: object) -> str | None:
    """Return the final answer in what a run returned; `None` where it returned nothing."""
    if isinstance(result, StopEvent):
        fields = _fields(result)
        inner = result.result
        result = inner if inner is not None or type(result) is StopEvent else fields
        if result == {}:
            return None
    if result is None or isinstance(result, str):
        return result
    if isinstance(result, (AgentOutput, ChatMessage, ChatResponse)):
        return text_of(result)
    if isinstance(result, (dict, list)):
        return json.dumps(result, ensure_ascii=False, default=str)
    return str(result)


def structured_of(result: object) -> Any:
    """Return the structured answer in what an agent returned, if there is one."""
    inner = result.result if isinstance(result, StopEvent) else result
    return getattr(inner, "structured_response", None) if isinstance(inner, AgentOutput) else None


def text_of(message: object) -> str:
    """Return the text of a message or answer."""
    if isinstance(message, AgentOutput):
        message = message.response
    if isinstance(message, ChatResponse):
        message = message.message
    if isinstance(message, ChatMessage):
        return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))
    return str(message)


def _fields(event: object) -> dict[str, Any]:
    """Return the fields of an event, those that were added freely among them."""
    fields: dict[str, Any] = dict(event) if isinstance(event, Mapping) else {}
    if isinstance(event, BaseModel):
        fields.update({name: getattr(event, name, None) for name in type(event).model_fields})
    if isinstance(event, Event):
        fields.update(event.items())
    fields.pop("result", None)
    return {name: value for name, value in fields.items() if value is not None}


def _get(thing: object, name: str) -> Any:
    if isinstance(thing, Mapping):
        return thing.get(name)
    return None if thing is None else getattr(thing, name, None)
