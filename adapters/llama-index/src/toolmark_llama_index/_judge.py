"""How does a model of LlamaIndex serve as a judge? It carries prompts and replies, and nothing more."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, TextBlock
from llama_index.core.llms import LLM

from toolmark import ConfigurationError
from toolmark.judge import ImagePart, Message, Prompt, Reply, TextModel, run_isolated
from toolmark.redact import DEFAULT
from toolmark_llama_index._requests import model_of, usage_of

_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "content_filter": "content_filter",
    "SAFETY": "content_filter",
}


def as_judge(llm: LLM) -> TextModel:
    """Return a model as a judge, for `judge=` of metrics and of `toolmark.judge.Judge`.

    The model is asked apart from whatever runs around it: no recorder, and no span of a running agent, has part in it.
    Handlers that the program has put on LlamaIndex as a whole still see it: nothing switches them off for one call. How
    often the model tries again, how long it waits and how it is paid is up to the model.

    Raises:
        ConfigurationError: It is no model of LlamaIndex.
    """
    if not isinstance(llm, LLM):
        raise ConfigurationError(f"as_judge needs a model of LlamaIndex, got {type(llm).__name__}")
    return _LLMJudge(llm)


class _LLMJudge:
    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __repr__(self) -> str:
        return f"as_judge({type(self._llm).__name__})"

    @property
    def identity(self) -> Mapping[str, Any]:
        """Class, name and settings of the model, without its secrets."""
        kind = type(self._llm)
        settings = self._llm.model_dump(mode="json", exclude={"callback_manager"}, fallback=repr, warnings=False)
        return {
            "framework": "llama-index",
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "model": self._llm.metadata.model_name,
            "settings": DEFAULT(settings),
        }

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply."""
        return await run_isolated(lambda: self._complete(prompt))

    async def _complete(self, prompt: Prompt) -> Reply:
        response = await self._llm.achat([_message(message) for message in prompt.messages])
        raw, message = response.raw, response.message
        choice = _first(_get(raw, "choices"))
        refusal = _get(_get(choice, "message"), "refusal")
        reason = _get(choice, "finish_reason") or _get(raw, "stop_reason")
        told: dict[str, Any] = {"refusal": refusal} if isinstance(refusal, str) else {"text": message.content or ""}
        if reason == "refusal" and "refusal" not in told:
            told = {"refusal": told["text"] or "the model refused"}
        if isinstance(reason, str) and reason in _FINISH:
            told["finish"] = _FINISH[reason]
        name = model_of(response)
        if name is not None:
            told["model"] = name
        return Reply(**told, usage=_usage(response))


def _message(message: Message) -> ChatMessage:
    parts = (message.content,) if isinstance(message.content, str) else message.content
    return ChatMessage(role=message.role, blocks=[_block(part) for part in parts])


def _block(part: str | ImagePart) -> TextBlock | ImageBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    head, comma, data = part.url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        try:
            image = base64.b64decode(data, validate=True)
        except binascii.Error:
            return ImageBlock(url=part.url)
        return ImageBlock(image=image, image_mimetype=head.removeprefix("data:").partition(";")[0])
    return ImageBlock(url=part.url)


def _usage(response: ChatResponse) -> dict[str, int]:
    counted = usage_of(response)
    usage = _get(response.raw, "usage")
    cached = _get(_get(usage, "prompt_tokens_details") or _get(usage, "input_tokens_details"), "cached_tokens")
    thought = _get(_get(usage, "completion_tokens_details") or _get(usage, "output_tokens_details"), "reasoning_tokens")
    found = {name: counted.get(name) for name in ("input_tokens", "output_tokens")}
    found |= {"cached_tokens": cached, "reasoning_tokens": thought}
    return {name: count for name, count in found.items() if isinstance(count, int)}


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _first(items: Any) -> Any:
    return items[0] if isinstance(items, (list, tuple)) and items else None
