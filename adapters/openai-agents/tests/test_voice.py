"""Voice pipelines: their workflows use the runner, so each question that is spoken is a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from oa_agents import add, called, make_agent, summaries

from toolgrade.testing import AskFor
from toolgrade_openai_agents import Recorder, record

numpy = pytest.importorskip("numpy", reason="voice needs numpy and websockets")
voice = pytest.importorskip("agents.voice", reason="voice needs numpy and websockets")


class Listener(voice.STTModel):  # type: ignore[misc,name-defined]
    """Hears the next of some questions."""

    model_name = "stt"

    def __init__(self, *questions: str) -> None:
        """Keep the questions."""
        self.questions = list(questions)

    async def transcribe(self, *_args: Any) -> str:
        """Return the next question."""
        return self.questions.pop(0)

    async def create_session(self, *_args: Any) -> Any:
        """Streams of speech are not played."""
        raise NotImplementedError


class Speaker(voice.TTSModel):  # type: ignore[misc,name-defined]
    """Speaks silence."""

    model_name = "tts"

    async def run(self, *_args: Any) -> AsyncIterator[bytes]:
        """Yield silence."""
        yield b"\0\0"


def test_workflows_of_a_voice_pipeline() -> None:
    """Each question is a run with its calls and answer; put into one conversation, they are its turns."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", "you are welcome", tools=[add])
    workflow = voice.SingleAgentVoiceWorkflow(agent)
    pipeline = voice.VoicePipeline(
        workflow=workflow,
        stt_model=Listener("add up", "thanks"),
        tts_model=Speaker(),
        config=voice.VoicePipelineConfig(tracing_disabled=True),
    )

    async def go() -> Recorder:
        with record(conversation="call 1") as recorder:
            for _ in range(2):
                result = await pipeline.run(voice.AudioInput(buffer=numpy.zeros(10, dtype=numpy.int16)))
                async for _event in result.stream():
                    pass
        return recorder

    recorder = asyncio.run(go())

    assert [summaries(run.calls) for run in recorder.runs] == [[called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})], []]
    [conversation] = recorder.conversations()
    assert [turn.content for turn in conversation.turns] == ["add up", "three", "thanks", "you are welcome"]
    assert not any(run.warnings for run in recorder.runs)
