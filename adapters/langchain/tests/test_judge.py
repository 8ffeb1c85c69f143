"""A LangChain chat model as a judge: prompts, reply parsing, and isolation from recorders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from lc_agents import ScriptedModel

from toolgrade import ConfigurationError
from toolgrade.judge import Judge, Reply
from toolgrade.judge.judge import JudgeLike
from toolgrade.testing import JudgeContract, sample_prompt
from toolgrade_langchain import as_judge, record

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
IMAGE = "data:image/png;base64,iVBORw0KGgo="


class RecordingModel(ScriptedModel):
    """Remembers what it was asked."""

    prompts: Any = None

    def answer(self, messages: Any) -> AIMessage:
        """Answer, and remember."""
        self.prompts.append(messages)
        return super().answer(messages)


def ask(model: Any, text: str = "Was the call right?", **options: Any) -> Reply:
    """The reply of a model to one prompt."""
    return asyncio.run(as_judge(model).complete(sample_prompt(text, **options)))  # type: ignore[arg-type]


class TestAsJudge(JudgeContract):
    """The contract of judges."""

    def judge(self, answer: Callable[[str], str]) -> AbstractContextManager[JudgeLike]:
        """Return a judge of a scripted model."""
        return nullcontext(as_judge(ScriptedModel(script=lambda content: [answer(str(content))])))


def test_the_prompt_arrives_whole() -> None:
    """System and user messages, texts and images arrive as LangChain's messages, in their order."""
    model = RecordingModel(script=[YES], prompts=[])

    reply = ask(model, images=(IMAGE,))

    [[system, user]] = model.prompts
    assert isinstance(system, SystemMessage)
    assert system.content == "You judge tool calls."
    assert user.content == [
        {"type": "text", "text": "Was the call right?"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ]
    assert (reply.text, reply.finish) == (YES, "stop")


def test_usage_and_model_are_reported() -> None:
    """Usage is what the provider counted, including cached and reasoning tokens."""
    usage = {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "input_token_details": {"cache_read": 64},
        "output_token_details": {"reasoning": 12},
    }
    answer = AIMessage(YES, response_metadata={"model_name": "scripted-9"})

    reply = ask(ScriptedModel(script=[answer], usage=usage))

    assert reply.usage == {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64, "reasoning_tokens": 12}
    assert reply.model == "scripted-9"


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (AIMessage([{"type": "text", "text": YES[:5]}, {"type": "text", "text": YES[5:]}]), {"text": YES}),
        (AIMessage("", additional_kwargs={"refusal": "I cannot."}), {"refusal": "I cannot.", "text": None}),
        (AIMessage("No.", response_metadata={"stop_reason": "refusal"}), {"refusal": "No.", "text": None}),
        (AIMessage("{", response_metadata={"finish_reason": "length"}), {"text": "{", "finish": "length"}),
        (AIMessage("{", response_metadata={"stop_reason": "max_tokens"}), {"text": "{", "finish": "length"}),
        (AIMessage("", response_metadata={"finish_reason": "content_filter"}), {"finish": "content_filter"}),
        (AIMessage(YES, response_metadata={"finish_reason": "stop"}), {"text": YES, "finish": "stop"}),
    ],
)
def test_replies_keep_their_kind(answer: AIMessage, fields: dict[str, Any]) -> None:
    """Parts are joined; refusals, truncated and withheld answers are recognized for each provider."""
    reply = ask(ScriptedModel(script=[answer]))

    assert {name: getattr(reply, name) for name in fields} == fields


@pytest.mark.parametrize("process_wide", [False, True])
def test_no_recorder_sees_the_judge(monkeypatch: pytest.MonkeyPatch, *, process_wide: bool) -> None:
    """A judge that is called within a recorded run is not part of the run, and LangSmith receives nothing."""
    traced: list[str] = []
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setattr(
        "langchain_core.tracers.langchain.LangChainTracer.on_chat_model_start",
        lambda *_args, **_options: traced.append("judge"),
    )
    judge = as_judge(ScriptedModel(script=[YES]))

    async def node(_: Any) -> str | None:
        return (await judge.complete(sample_prompt())).text  # type: ignore[misc]

    async def main() -> Any:
        with record(process_wide=process_wide) as recorder:
            monkeypatch.setenv("LANGSMITH_TRACING", "false")
            answer = await RunnableLambda(node).ainvoke("x")
            monkeypatch.setenv("LANGSMITH_TRACING", "true")
            await judge.complete(sample_prompt())  # type: ignore[misc]
        return answer, recorder

    answer, recorder = asyncio.run(main())

    assert answer == YES
    assert traced == []
    assert [run.models for run in recorder.runs] == [[]]


def test_identity_has_settings_and_no_secret() -> None:
    """A serializable model has a stable identity; other settings give another identity."""

    class Written(FakeListChatModel):
        temperature: float = 0.0

        @classmethod
        def is_lc_serializable(cls) -> bool:
            return True

    one, other = (Judge(as_judge(Written(responses=[YES], temperature=t))) for t in (0.0, 1.0))

    assert one.key_of(sample_prompt()) == Judge(as_judge(Written(responses=[YES]))).key_of(sample_prompt())
    assert one.key_of(sample_prompt()) != other.key_of(sample_prompt())


def test_a_model_that_cannot_be_written_out_has_no_lasting_name() -> None:
    """Its replies are not taken for those of another model in a later process."""
    assert as_judge(ScriptedModel(script=[YES])).identity is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", ["gpt-4.1", RunnableLambda(str), None])
def test_invalid_model_is_refused(model: Any) -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match=type(model).__name__):
        as_judge(model)
