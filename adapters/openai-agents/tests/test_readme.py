"""The README, and what README and guide of toolgrade show of the adapter: all code runs as it stands."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from agents import Agent, Runner, function_tool
from agents.exceptions import MaxTurnsExceeded
from oa_agents import make_agent
from oa_versions import FEATURES

from readme_code import run_page
from toolgrade import read_cases
from toolgrade.testing import AskFor

README = Path(__file__).parents[1] / "README.md"
ROOT = Path(__file__).parents[3]


@function_tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def sunny() -> Agent:
    """An agent that looks up the weather in Paris, ten times."""
    return make_agent(*[[AskFor("weather", {"city": "Paris"}, "c1")], "Sunny."] * 10, tools=[weather])


def realtime_runner() -> Any:
    """A runner of a realtime agent that says one thing; where there is none, one of a session without events."""
    if not FEATURES["realtime"].is_due():
        session = MagicMock()
        return MagicMock(run=AsyncMock(return_value=session))
    from agents.realtime import RealtimeAgent, RealtimeRunner
    from oa_realtime import Transport

    return RealtimeRunner(RealtimeAgent("Weather"), model=Transport(answer="Sunny."))


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an agent of the reader, and an exception of a run."""
    monkeypatch.chdir(tmp_path)
    agent = sunny()
    names = {"agent": agent, "realtime_runner": realtime_runner()}

    async def read() -> None:
        with pytest.raises(MaxTurnsExceeded) as caught:
            await Runner.run(sunny(), "What is the weather in Paris?", max_turns=1)
        names["error"] = caught.value
        await run_page(README, names)
        for page in (ROOT / "README.md", ROOT / "docs" / "guide.md"):
            await run_page(page, names, "from toolgrade_openai_agents import")
        async with names["lifespan"](None):
            await Runner.run(agent, "Is it sunny?")

    asyncio.run(read())

    assert capsys.readouterr().out == "1 matched / 1 expected = 1 (passed at 0.5).\n"
    assert names["run"].status == "stopped"
    if FEATURES["realtime"].is_due():
        [conversation] = names["conversations"]
        assert [turn.content for turn in conversation.turns] == ["What is the weather in Paris?", "Sunny."]
    assert [case.input for case in read_cases("runs.jsonl")] == ["Is it sunny?"]
