"""An OpenAI Agents model as a judge: prompts, reply parsing, and isolation from recorders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from agents import ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel
from oa_models import Scripted, items_of
from openai import AsyncOpenAI
from openai.types.responses import ResponseOutputMessage, ResponseOutputRefusal

from toolgrade import ConfigurationError
from toolgrade.judge import Judge, Reply
from toolgrade.judge.judge import JudgeLike
from toolgrade.testing import FakeOpenAI, JudgeContract, sample_prompt
from toolgrade.testing import Reply as Played
from toolgrade_openai_agents import as_judge

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
PNG = "data:image/png;base64,iVBORw0KGgo="
KINDS = pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])


def ask(model: Any, *, settings: Any = None, **options: Any) -> Reply:
    """The reply of a model to one prompt."""
    return asyncio.run(as_judge(model, settings=settings).complete(sample_prompt(**options)))  # type: ignore[arg-type]


def over_http(kind: Any, server: FakeOpenAI, **options: Any) -> Reply:
    """The reply of one of the SDK's own models."""

    async def main() -> Any:
        async with AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client:
            settings = options.pop("settings", None)
            judge = as_judge(kind(model="m", openai_client=client), settings=settings)
            return await judge.complete(sample_prompt(**options))  # type: ignore[misc]

    return asyncio.run(main())  # type: ignore[no-any-return]


class TestAsJudge(JudgeContract):
    """The contract of judges."""

    def judge(self, answer: Callable[[str], str]) -> AbstractContextManager[JudgeLike]:
        """Return a judge of a model that answers with the function."""

        class Model(Scripted):
            async def _output(self, messages: Any) -> list[Any]:
                return items_of(answer(str(messages)))

        return nullcontext(as_judge(Model()))


@KINDS
def test_the_prompt_arrives_whole(kind: Any) -> None:
    """The SDK's own models send instructions, text, images and settings, but no tools; usage is returned."""
    with FakeOpenAI(Played(YES, usage=(100, 20))) as server:
        reply = over_http(kind, server, images=(PNG,), settings=ModelSettings(temperature=0.5))

    body = server.requests[0].body
    assert body["temperature"] == 0.5
    assert not body.get("tools")
    if kind is OpenAIChatCompletionsModel:
        system, user = body["messages"]
        assert system["content"] == "You judge tool calls."
        assert user["content"][0] == {"type": "text", "text": "Was the call right?"}
        assert user["content"][1]["image_url"]["url"] == PNG
    else:
        assert body["instructions"] == "You judge tool calls."
        assert body["input"][0]["content"][0] == {"type": "input_text", "text": "Was the call right?"}
        assert body["input"][0]["content"][1]["image_url"] == PNG
    assert reply.text == YES
    assert (reply.usage["input_tokens"], reply.usage["output_tokens"], reply.attempts) == (100, 20, 1)


def test_refusal_is_reported_as_refusal() -> None:
    """A refusal is not text."""
    part = ResponseOutputRefusal(refusal="I cannot.", type="refusal")
    item = ResponseOutputMessage(id="m", content=[part], role="assistant", type="message", status="completed")

    reply = ask(Scripted([item]))

    assert (reply.refusal, reply.text) == ("I cannot.", None)


def test_no_trace_sees_the_judge() -> None:
    """Within an SDK trace, the judge creates no span, and the model runs with tracing disabled."""
    from agents import set_trace_processors, trace
    from agents.models.interface import ModelTracing

    heard: list[Any] = []
    flags: list[Any] = []

    class Listener:
        def __getattr__(self, name: str) -> Any:
            return lambda *args: heard.append((name, *args)) if name == "on_span_start" else None

    class Model(Scripted):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            flags.append(args[6])
            return await super().get_response(*args, **kwargs)

    set_trace_processors([Listener()])  # type: ignore[list-item]
    try:
        with trace("agent"):
            ask(Model(YES))
    finally:
        set_trace_processors([])

    assert flags == [ModelTracing.DISABLED]
    assert heard == []


def test_identity_has_model_address_and_settings() -> None:
    """Another model, server or setting is another judge; the key does not matter."""

    def key(model: str = "m", host: str = "a", temperature: float = 0.0, api_key: str = "k") -> str:
        client = AsyncOpenAI(base_url=f"http://{host}/v1", api_key=api_key)
        settings = ModelSettings(temperature=temperature)
        judge = as_judge(OpenAIChatCompletionsModel(model=model, openai_client=client), settings=settings)
        return Judge(judge).key_of(sample_prompt())

    assert key() == key(api_key="other")
    assert len({key(), key(model="n"), key(host="b"), key(temperature=1.0)}) == 4


@pytest.mark.parametrize("model", ["gpt-4.1", None, object()])
def test_invalid_model_is_refused(model: Any) -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match=type(model).__name__):
        as_judge(model)
