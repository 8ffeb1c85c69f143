"""A chat model of LangChain as a judge: it transports prompts and replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd
from langsmith import run_helpers  # a requirement of langchain-core

from toolgrade import ConfigurationError
from toolgrade.judge import Prompt, Reply, TextModel, run_isolated
from toolgrade_langchain._active import unobserved
from toolgrade_langchain._messages import model_of, usage_of

_FINISH: Final = {
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "content_filter": "content_filter",
    "SAFETY": "content_filter",
}
_USAGE: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "input_cache_read_tokens": "cached_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
}


def as_judge(model: BaseChatModel) -> TextModel:
    """Return a chat model as a judge, for `judge=` of metrics and of `toolgrade.judge.Judge`.

    The model is isolated from any run around it, and LangSmith's tracing is off: only the model's own callbacks observe
    it. Retries, timeouts and payment are those of the model.

    Replies of models that LangChain can serialize, as its integrations are, may be cached beyond the process. Others
    need `toolgrade.judge.Judge(as_judge(model), identity={...})` for that.

    Args:
        model: A chat model, such as `ChatOpenAI`.

    Raises:
        ConfigurationError: `model` is not a chat model.

    Example:
        >>> import asyncio
        >>> from langchain_core.language_models import GenericFakeChatModel
        >>> from langchain_core.messages import AIMessage
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> from toolgrade_langchain import as_judge
        >>> reply = AIMessage('{"evidence": ["c1"], "reasoning": "It asks for the weather.", "verdict": "yes"}')
        >>> judge = Judge(as_judge(GenericFakeChatModel(messages=iter([reply]))))  # metrics take it as judge=
        >>> verdict = asyncio.run(judge.ask(sample_prompt("Was get_weather the right tool?"))).verdict
        >>> verdict.decision.value, verdict.rationale
        ('yes', 'It asks for the weather.')
    """
    if not isinstance(model, BaseChatModel):
        raise ConfigurationError(f"as_judge needs a chat model of LangChain, got {type(model).__name__}")
    return _ChatModelJudge(model)


class _ChatModelJudge:
    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    def __repr__(self) -> str:
        return f"as_judge({type(self._model).__name__})"

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Class, name and settings of the model, without its secrets; `None` if it cannot be serialized."""
        if not self._model.is_lc_serializable():
            return None
        serialized: dict[str, Any] = dumpd(self._model)
        names = [getattr(self._model, name, None) for name in ("model_name", "model")]
        name = next((name for name in names if isinstance(name, str)), type(self._model).__name__)
        return {"framework": "langchain", "model": name, "settings": serialized["kwargs"], "class": serialized["id"]}

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply."""
        return await run_isolated(lambda: self._complete(prompt))

    async def _complete(self, prompt: Prompt) -> Reply:
        with run_helpers.tracing_context(enabled=False), unobserved():
            message = await self._model.ainvoke([message.to_chat() for message in prompt.messages])
        refusal = message.additional_kwargs.get("refusal")
        reason = message.response_metadata.get("finish_reason") or message.response_metadata.get("stop_reason")
        text = _text_of(message.content)
        fields: dict[str, Any] = {"text": text}
        if isinstance(refusal, str) and refusal:
            fields = {"refusal": refusal}
        elif reason == "refusal":
            fields = {"refusal": text or "the model refused"}
        if reason in _FINISH:
            fields["finish"] = _FINISH[reason]
        name = model_of(message)
        if name is not None:
            fields["model"] = name
        counts = usage_of(message)
        return Reply(**fields, usage={name: counts[key] for key, name in _USAGE.items() if key in counts})


def _text_of(content: str | list[Any]) -> str:
    """Return the text of a content, also of blocks without a type, such as a provider's own."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    return "".join(part for part in parts if isinstance(part, str))
