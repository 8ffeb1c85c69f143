"""DSPy, instrumented by OpenInference."""

from __future__ import annotations

import asyncio
from pathlib import Path

import dspy
from dspy.utils import DummyLM

from library_examples import REPORT, load, printed_by
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent


def test_a_run_is_recorded() -> None:
    """With the call, its result and the answer; `finish` is a call, too."""
    example = load("live/with_dspy.py")

    def answer(question: str) -> str:
        with dspy.context(lm=DummyLM(example.REPLIES)):
            text: str = example.answer(question)
        return text

    run = asyncio.run(as_agent(answer)("What is 1 + 2?", Conversation()))

    calls = [(call.name, call.input_parameters, call.output) for call in run.tools_called]
    assert calls == [("add", {"a": 1, "b": 2}, "3"), ("finish", {}, "Completed.")]
    assert (run.input, run.actual_output, run.status.value) == ("What is 1 + 2?", "It is 3.", "ok")


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by("live/with_dspy.py", tmp_path)
