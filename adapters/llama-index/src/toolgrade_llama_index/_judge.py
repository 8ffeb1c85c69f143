"""A model of LlamaIndex as a judge: it transports prompts and replies."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, TextBlock
from llama_index.core.llms import LLM

from toolgrade import ConfigurationError
from toolgrade.judge import ImagePart, Message, Prompt, Reply, TextModel, run_isolated
from toolgrade.redact import DEFAULT
from toolgrade_llama_index._messages import field_of, model_of, usage_of

_FINISH: Final = {  # the finish reasons of OpenAI, Anthropic and Google
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "content_filter": "content_filter",
    "SAFETY": "content_filter",
}


def as_judge(llm: LLM) -> TextModel:
    """Return a model as a judge, for `judge=` of metrics and of `toolgrade.judge.Judge`.

    The model is isolated from any run around it: no recorder and no span of a running agent observe it. Handlers that
    the program has added to LlamaIndex as a whole still do, since LlamaIndex cannot switch them off for one call.
    Retries and timeouts are those of the model, and its provider bills the requests.

    Args:
        llm: A model, such as `OpenAI` of `llama-index-llms-openai`.

    Raises:
        ConfigurationError: `llm` is not a model of LlamaIndex.

    Example:
        >>> import asyncio
        >>> from llama_index.core.base.llms.types import ChatMessage, ChatResponse
        >>> from llama_index.core.llms import MockLLM
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> from toolgrade_llama_index import as_judge
        >>> class ScriptedLLM(MockLLM):
        ...     async def achat(self, messages, **options) -> ChatResponse:
        ...         reply = '{"evidence": ["c1"], "reasoning": "It asks for the weather.", "verdict": "yes"}'
        ...         return ChatResponse(message=ChatMessage(reply, role="assistant"))
        >>> judge = Judge(as_judge(ScriptedLLM()))  # metrics take it as judge=
        >>> verdict = asyncio.run(judge.ask(sample_prompt("Was get_weather the right tool?"))).verdict
        >>> verdict.decision.value, verdict.rationale
        ('yes', 'It asks for the weather.')
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
        raw, text = response.raw, response.message.content or ""
        choice = _first(field_of(raw, "choices"))
        refusal = field_of(field_of(choice, "message"), "refusal")
        reason = field_of(choice, "finish_reason") or field_of(raw, "stop_reason")
        fields: dict[str, Any] = {"text": text}
        if isinstance(refusal, str):
            fields = {"refusal": refusal}
        elif reason == "refusal":
            fields = {"refusal": text or "the model refused"}
        if isinstance(reason, str) and reason in _FINISH:
            fields["finish"] = _FINISH[reason]
        name = model_of(response)
        if name is not None:
            fields["model"] = name
        return Reply(**fields, usage=_usage(response))


def _message(message: Message) -> ChatMessage:
    parts = (message.content,) if isinstance(message.content, str) else message.content
    return ChatMessage(role=message.role, blocks=[_block(part) for part in parts])


def _block(part: str | ImagePart) -> TextBlock | ImageBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    head, comma, data = part.url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        with suppress(binascii.Error):  # a broken data URL is sent as it is
            image = base64.b64decode(data, validate=True)
            return ImageBlock(image=image, image_mimetype=head.removeprefix("data:").partition(";")[0])
    return ImageBlock(url=part.url)


def _usage(response: ChatResponse) -> dict[str, int]:
    usage, counts = field_of(response.raw, "usage"), usage_of(response)
    prompt = field_of(usage, "prompt_tokens_details") or field_of(usage, "input_tokens_details")
    completion = field_of(usage, "completion_tokens_details") or field_of(usage, "output_tokens_details")
    values = {
        "input_tokens": counts.get("input_tokens"),
        "output_tokens": counts.get("output_tokens"),
        "cached_tokens": field_of(prompt, "cached_tokens"),
        "reasoning_tokens": field_of(completion, "reasoning_tokens"),
    }
    return {name: count for name, count in values.items() if isinstance(count, int)}


def _first(items: object) -> Any:
    return items[0] if isinstance(items, (list, tuple)) and items else None
