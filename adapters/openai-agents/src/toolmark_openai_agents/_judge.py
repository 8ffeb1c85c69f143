"""How does a model of OpenAI Agents serve as a judge? It carries prompts and replies, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import Model, ModelResponse, ModelSettings, ModelTracing

from toolmark import ConfigurationError
from toolmark.judge import Prompt, Reply, TextModel, run_isolated


def as_judge(model: Model, *, settings: ModelSettings | None = None) -> TextModel:
    """Return a model as a judge, for `judge=` of metrics and of `toolmark.judge.Judge`.

    The model is asked by itself, without a runner, with the SDK's tracing disabled, and apart from whatever runs
    around it. How often it tries again and how long it waits is up to the model. The SDK does not tell why a model
    stopped, so a reply that was cut off counts as malformed.

    Args:
        model: A model object, such as `OpenAIChatCompletionsModel` or `LitellmModel`.
        settings: What is sent with each request, such as the temperature.

    Raises:
        ConfigurationError: It is no model object.
    """
    if not isinstance(model, Model):
        message = (
            f"as_judge needs a model object of OpenAI Agents, got {type(model).__name__}; "
            "the name of an OpenAI model can be given as judge= itself"
        )
        raise ConfigurationError(message)
    return _ModelJudge(model, settings or ModelSettings())


class _ModelJudge:
    def __init__(self, model: Model, settings: ModelSettings) -> None:
        self._model = model
        self._settings = settings

    def __repr__(self) -> str:
        return f"as_judge({type(self._model).__name__})"

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Class, name, address and settings of the model; `None` where it has no name."""
        name = getattr(self._model, "model", None)
        if name is None:
            return None
        kind = type(self._model)
        address = getattr(getattr(self._model, "_client", None), "base_url", None) or getattr(
            self._model, "base_url", None
        )
        return {
            "framework": "openai-agents",
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "model": f"{name}",
            "address": None if address is None else f"{address}",
            "settings": self._settings.to_json_dict(),
        }

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply."""
        return await run_isolated(lambda: self._complete(prompt))

    async def _complete(self, prompt: Prompt) -> Reply:
        first, *others = prompt.messages
        system = first.content if first.role == "system" and isinstance(first.content, str) else None
        asked: Any = [message.to_responses() for message in (others if system is not None else prompt.messages)]
        response = await self._model.get_response(
            system,
            asked,
            self._settings,
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        parts = [part for item in response.output for part in getattr(item, "content", None) or []]
        refusals = [part.refusal for part in parts if getattr(part, "type", None) == "refusal"]
        texts = [part.text for part in parts if getattr(part, "type", None) == "output_text"]
        told: dict[str, Any] = {"refusal": "\n".join(refusals)} if refusals else {"text": "".join(texts)}
        request_id = getattr(response, "request_id", None)  # newer than the oldest version
        if isinstance(request_id, str):
            told["request_id"] = request_id
        return Reply(**told, usage=_usage(response), attempts=max(1, response.usage.requests))


def _usage(response: ModelResponse) -> dict[str, int]:
    usage = response.usage
    if not usage.requests:  # the endpoint did not say
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.input_tokens_details.cached_tokens or 0,
        "reasoning_tokens": usage.output_tokens_details.reasoning_tokens or 0,
    }
