"""A LlamaIndex model as a judge: prompts, reply parsing, and isolation from recorders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from li_agents import ScriptedLLM, agent, asks, played
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock
from llama_index.core.llms import MockLLM

from toolgrade import ConfigurationError
from toolgrade.judge import Judge, Reply
from toolgrade.judge.judge import JudgeLike
from toolgrade.testing import JudgeContract, ScriptedModel, sample_prompt
from toolgrade_llama_index import as_judge

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
PNG = "data:image/png;base64,iVBORw0KGgo="


class RecordingLLM(ScriptedLLM):
    """Remembers what it was asked, and answers with what it was given."""

    prompts: Any = None
    response: Any = None

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:  # type: ignore[override]
        """Answer, and remember."""
        self.prompts.append(messages)
        return self.response or await super().achat(messages, **kwargs)


def scripted(*steps: Any, **options: Any) -> ScriptedLLM:
    """A model with a script."""
    return ScriptedLLM(script=ScriptedModel(*steps), **options)


def ask(llm: Any, **options: Any) -> Reply:
    """The reply of a model to one prompt."""
    return asyncio.run(as_judge(llm).complete(sample_prompt(**options)))  # type: ignore[arg-type]


class TestAsJudge(JudgeContract):
    """The contract of judges."""

    def judge(self, answer: Callable[[str], str]) -> AbstractContextManager[JudgeLike]:
        """Return a judge of a model that answers with the function."""

        class Model(ScriptedLLM):
            async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:  # type: ignore[override]  # noqa: ARG002
                message = ChatMessage(answer(messages[-1].content or ""), role="assistant")
                return ChatResponse(message=message, raw={"usage": {"prompt_tokens": 10, "completion_tokens": 5}})

        return nullcontext(as_judge(Model(script=None)))


def test_the_prompt_arrives_whole() -> None:
    """Roles, texts and images arrive as LlamaIndex's blocks, in their order; the image itself where it was given."""
    llm = RecordingLLM(script=ScriptedModel(YES), prompts=[])

    reply = ask(llm, images=(PNG, "https://example.com/a.png"))

    [[system, user]] = llm.prompts
    text, image, address = user.blocks
    assert (system.role.value, system.content) == ("system", "You judge tool calls.")
    assert (user.role.value, text.text) == ("user", "Was the call right?")
    assert isinstance(image, ImageBlock)
    assert image.resolve_image().read() == b"\x89PNG\r\n\x1a\n"
    assert image.image_mimetype == "image/png"
    assert str(address.url) == "https://example.com/a.png"
    assert (reply.text, reply.finish, reply.model) == (YES, "stop", "scripted-1")


def test_usage_is_reported() -> None:
    """Usage is what the provider counted, including cached and reasoning tokens."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }

    reply = ask(scripted(YES, usage=[usage]))

    assert reply.usage == {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64, "reasoning_tokens": 12}


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ({"choices": [{"finish_reason": "length"}]}, {"text": "{", "finish": "length"}),
        ({"choices": [{"finish_reason": "content_filter"}]}, {"finish": "content_filter"}),
        ({"choices": [{"message": {"refusal": "I cannot."}}]}, {"refusal": "I cannot.", "text": None}),
        ({"stop_reason": "max_tokens"}, {"text": "{", "finish": "length"}),
        ({"stop_reason": "refusal"}, {"refusal": "{", "text": None}),
        (None, {"text": "{", "finish": "stop", "usage": {}}),
    ],
)
def test_replies_keep_their_kind(raw: Any, fields: dict[str, Any]) -> None:
    """Refusals, truncated and withheld answers are recognized for each provider."""
    response = ChatResponse(message=ChatMessage(role="assistant", content="{"), raw=raw)

    reply = ask(RecordingLLM(script=ScriptedModel(), prompts=[], response=response))

    assert {name: getattr(reply, name) for name in fields} == fields


def test_no_recorder_sees_the_judge() -> None:
    """A judge that is called within a recorded run is not part of the run, nor are its tokens."""
    judge = as_judge(scripted(YES, usage=[{"prompt_tokens": 1000, "completion_tokens": 1000}]))

    async def think(text: str) -> str | None:
        """Ask the judge."""
        return (await judge.complete(sample_prompt(text))).text  # type: ignore[misc]

    small = [{"prompt_tokens": 1, "completion_tokens": 1}] * 2
    steps = (asks(("think", {"text": "x"}, "c1")), "done")
    [run] = played(lambda: agent(*steps, tools=[think], usage=small)).recorded

    assert [call.output for call in run.tools_called] == [YES]
    assert run.usage["input_tokens"] == 2


def test_identity_has_settings() -> None:
    """Other settings, or another class, give another identity."""
    judges = [MockLLM(max_tokens=5), MockLLM(max_tokens=5), MockLLM(max_tokens=6), scripted(YES)]

    first, second, third, fourth = (Judge(as_judge(llm)).key_of(sample_prompt()) for llm in judges)

    assert first == second
    assert len({first, third, fourth}) == 3


@pytest.mark.parametrize("llm", ["gpt-4.1", None, object()])
def test_invalid_model_is_refused(llm: Any) -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match=type(llm).__name__):
        as_judge(llm)
