"""A model of OpenAI Agents as a judge: it transports prompts and replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import Model, ModelResponse, ModelSettings, ModelTracing

from toolgrade import ConfigurationError
from toolgrade.judge import Prompt, Reply, TextModel, run_isolated


def as_judge(model: Model, *, settings: ModelSettings | None = None) -> TextModel:
    """Return a model as a judge, for `judge=` of metrics and of `toolgrade.judge.Judge`.

    The model is called directly, without a runner, with the SDK's tracing disabled, and isolated from any run around
    it. Retries and timeouts are those of the model. The SDK does not report why a model stopped, so a truncated reply
    counts as malformed.

    Args:
        model: A model object, such as `OpenAIChatCompletionsModel` or `LitellmModel`.
        settings: Sent with each request, such as the temperature.

    Raises:
        ConfigurationError: `model` is not a model object.

    Example:
        >>> import asyncio
        >>> from agents import OpenAIChatCompletionsModel
        >>> from openai import AsyncOpenAI
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import FakeOpenAI, sample_prompt
        >>> from toolgrade_openai_agents import as_judge
        >>> reply = '{"evidence": ["c1"], "reasoning": "It asks for the weather.", "verdict": "yes"}'
        >>> async def main() -> tuple:
        ...     with FakeOpenAI(reply) as server:
        ...         async with AsyncOpenAI(base_url=server.base_url, api_key="any") as client:
        ...             judge = Judge(as_judge(OpenAIChatCompletionsModel("any", client)))  # metrics take it as judge=
        ...             verdict = (await judge.ask(sample_prompt("Was get_weather the right tool?"))).verdict
        ...     return verdict.decision.value, verdict.rationale
        >>> asyncio.run(main())
        ('yes', 'It asks for the weather.')
    """
    if not isinstance(model, Model):
        raise ConfigurationError(
            f"as_judge needs a model object of OpenAI Agents, got {type(model).__name__}; "
            "pass the name of an OpenAI model as judge= itself"
        )
    return _SDKModelJudge(model, settings or ModelSettings())


class _SDKModelJudge:
    def __init__(self, model: Model, settings: ModelSettings) -> None:
        self._model = model
        self._settings = settings

    def __repr__(self) -> str:
        return f"as_judge({type(self._model).__name__})"

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Class, name, address and settings of the model; `None` if it has no name."""
        model = self._model
        name = getattr(model, "model", None)
        if name is None:
            return None
        kind = type(model)
        client = getattr(model, "_client", None)
        address = getattr(client, "base_url", None) or getattr(model, "base_url", None)
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
        items: Any = [message.to_responses() for message in (others if system is not None else prompt.messages)]
        response = await self._model.get_response(
            system,
            items,
            self._settings,
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        return _reply(response)


def _reply(response: ModelResponse) -> Reply:
    """Return what a response says."""
    parts = [part for item in response.output for part in getattr(item, "content", None) or []]
    refusals = [part.refusal for part in parts if getattr(part, "type", None) == "refusal"]
    texts = [part.text for part in parts if getattr(part, "type", None) == "output_text"]
    fields: dict[str, Any] = {"refusal": "\n".join(refusals)} if refusals else {"text": "".join(texts)}
    request_id = getattr(response, "request_id", None)  # missing in the oldest releases
    if isinstance(request_id, str):
        fields["request_id"] = request_id
    return Reply(**fields, usage=_usage(response), attempts=max(1, response.usage.requests))


def _usage(response: ModelResponse) -> dict[str, int]:
    usage = response.usage
    if not usage.requests:  # the endpoint did not report any
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.input_tokens_details.cached_tokens or 0,
        "reasoning_tokens": usage.output_tokens_details.reasoning_tokens or 0,
    }
