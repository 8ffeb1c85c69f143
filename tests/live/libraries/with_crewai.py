"""CrewAI, instrumented by OpenInference."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

from library_examples import REPORT, load, printed_by
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent
from toolgrade.testing import AskFor, FakeOpenAI


def test_a_run_is_recorded() -> None:
    """With the call, its result and the answer."""
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2}, "c1")], "It is 3.") as server:
        agent = load("live/with_crewai.py").make_agent(server.base_url)
        run = asyncio.run(as_agent(agent)("What is 1 + 2?", Conversation()))

    assert [(call.name, call.input_parameters, call.output) for call in run.tools_called] == [
        ("add", {"a": 1, "b": 2}, "3")
    ]
    assert (run.input, run.actual_output, run.status.value) == ("What is 1 + 2?", "It is 3.", "ok")


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by("live/with_crewai.py", tmp_path)
