"""Strands and Agent Framework, each with the instrumentation of its own, and smolagents with that of OpenInference.

All of them ask the same scripted endpoint of OpenAI's API.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from library_examples import REPORT, load, printed_by
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent
from toolgrade.testing import AskFor, FakeOpenAI

ADD = AskFor("add", {"a": 1, "b": 2}, "c1")
FINAL = [AskFor("final_answer", {"answer": "It is 3."}, "c2")]
"""How the model of smolagents answers: by a tool."""
EXAMPLES = ["live/with_smolagents.py", "live/with_strands.py", "live/with_agent_framework.py"]


@pytest.mark.parametrize(
    ("example", "last", "output"), zip(EXAMPLES, (FINAL, "It is 3.", "It is 3."), (3, "3", "3"), strict=True)
)
def test_a_run_is_recorded(example: str, last: Any, output: Any) -> None:
    """With the question, the call, its result and the answer."""
    with FakeOpenAI([ADD], last) as server:
        agent = load(example).make_agent(server.base_url)
        run = asyncio.run(as_agent(agent)("What is 1 + 2?", Conversation()))

    calls = [(call.name, call.input_parameters, call.output) for call in run.tools_called]
    assert calls[0] == ("add", {"a": 1, "b": 2}, output)
    assert len(calls) == 1
    assert (run.input, run.actual_output, run.status.value, run.warnings) == ("What is 1 + 2?", "It is 3.", "ok", [])


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_is_scored(example: str, tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by(example, tmp_path)
