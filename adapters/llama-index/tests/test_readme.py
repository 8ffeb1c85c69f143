"""The README, and what README and guide of toolgrade show of the adapter: all code runs as it stands."""

import asyncio
from pathlib import Path

import pytest
from li_agents import agent, asks

from readme_code import run_page
from toolgrade import read_cases

README = Path(__file__).parents[1] / "README.md"
ROOT = Path(__file__).parents[3]


def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an agent, a memory and a function of the reader."""
    monkeypatch.chdir(tmp_path)
    script = [asks(("weather", {"city": "Paris"}, "c1")), "Sunny."]
    app = agent(*script * 10, tools=[weather])
    names = {"agent": app, "lookup": weather}

    async def read() -> None:
        await run_page(README, names)
        for page in (ROOT / "README.md", ROOT / "docs" / "guide.md"):
            await run_page(page, names, "from toolgrade_llama_index import")
        async with names["lifespan"](None):
            await app.run(user_msg="Is it sunny?")
        await names["memory"].sql_store._async_engine.dispose()  # else its connection is reported as not closed

    asyncio.run(read())

    assert capsys.readouterr().out == "1 matched / 1 expected = 1 (passed at 0.5).\n"
    assert [call.name for call in names["run"].calls] == ["weather"]
    assert [case.input for case in read_cases("runs.jsonl")] == ["Is it sunny?"]
