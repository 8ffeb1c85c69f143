"""How does a chat model of LangChain serve as a judge? It carries prompts and replies, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage
from langsmith import run_helpers  # which langchain-core requires

from toolmark import ConfigurationError
from toolmark.judge import Prompt, Reply, TextModel, run_isolated
from toolmark_langchain._messages import model_of, usage_of

_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "content_filter": "content_filter",
    "SAFETY": "content_filter",
}
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "input_cache_read_tokens": "cached_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
}


def as_judge(model: BaseChatModel) -> TextModel:
    """Return a chat model as a judge, for `judge=` of metrics and of `toolmark.judge.Judge`.

    The model is asked apart from whatever runs around it, and LangSmith's tracing is off: only callbacks that were
    given to the model itself see it. How often it tries again, how long it waits and how it is paid is up to the model.

    Replies of models that LangChain can write out, which its integrations are, may be kept in a cache that outlives
    the process. Others need `toolmark.judge.Judge(as_judge(model), identity={...})` for that.

    Raises:
        ConfigurationError: It is no chat model.
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
        """Class, name and settings of the model, without its secrets; `None` where it cannot be written out."""
        if not self._model.is_lc_serializable():
            return None
        written: dict[str, Any] = dumpd(self._model)
        name = _first(self._model, "model_name", "model")
        return {"framework": "langchain", "model": name, "settings": written["kwargs"], "class": written["id"]}

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply."""
        return await run_isolated(lambda: self._complete(prompt))

    async def _complete(self, prompt: Prompt) -> Reply:
        with run_helpers.tracing_context(enabled=False):
            message = await self._model.ainvoke([message.to_chat() for message in prompt.messages])
        refusal = message.additional_kwargs.get("refusal")
        about = message.response_metadata
        reason = about.get("finish_reason") or about.get("stop_reason")
        told: dict[str, Any] = (
            {"refusal": refusal} if isinstance(refusal, str) and refusal else {"text": _text(message)}
        )
        if reason == "refusal" and "refusal" not in told:
            told = {"refusal": told["text"] or "the model refused"}
        if reason in _FINISH:
            told["finish"] = _FINISH[reason]
        name = model_of(message)
        if name is not None:
            told["model"] = name
        return Reply(**told, usage=_usage(message))


def _text(message: AIMessage) -> str:
    """Return the text of a message; `message.text` is a method in one version and a property in the next."""
    if isinstance(message.content, str):
        return message.content
    parts = [part if isinstance(part, str) else part.get("text") for part in message.content]
    return "".join(part for part in parts if isinstance(part, str))


def _usage(message: AIMessage) -> dict[str, int]:
    counted = usage_of(message)
    return {name: counted[key] for key, name in _USAGE.items() if key in counted}


def _first(model: BaseChatModel, *names: str) -> str:
    found = [getattr(model, name, None) for name in names]
    return next((name for name in found if isinstance(name, str)), type(model).__name__)
