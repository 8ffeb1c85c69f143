"""The README, and what README and guide of toolgrade show of the adapter: all code runs as it stands."""

import asyncio
from pathlib import Path

import pytest
from langchain_core.tools import tool
from lc_agents import asks, make_agent, memory, scripted, thread

from readme_code import run_page
from toolgrade import read_cases

README = Path(__file__).parents[1] / "README.md"
ROOT = Path(__file__).parents[3]


@tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an agent, a graph and messages of the reader."""
    monkeypatch.chdir(tmp_path)
    script = [asks(("weather", {"city": "Paris"}, "c1")), "Sunny."]
    agent = make_agent(scripted(*script), [weather])
    graph = make_agent(scripted(*script), [weather], checkpointer=memory())
    config = thread("support-7")
    question = {"messages": "What is the weather in Paris?"}
    graph.invoke(question, config=config)
    names = {
        "agent": agent,
        "graph": graph,
        "config": config,
        "first": question,
        "second": question,
        "messages": agent.invoke(question)["messages"],
    }

    recorders = []

    async def read() -> None:
        await run_page(README, names)
        recorders.append(names["recorder"])
        for page in (ROOT / "README.md", ROOT / "docs" / "guide.md"):
            await run_page(page, names, "from toolgrade_langchain import")
        async with names["lifespan"](None):
            agent.invoke(question)

    asyncio.run(read())

    printed = capsys.readouterr().out.replace("1 matched / 1 expected = 1 (passed at 0.5).\n", "", 2).splitlines()
    assert printed == [
        "user: What is the weather in Paris?",
        '  weather {"city": "Paris"} -> sunny in Paris',
        "assistant: Sunny.",
    ]
    conversation = recorders[0].conversations()[-1]
    assert conversation.id == "support-7"
    assert [turn.role for turn in conversation.turns] == ["user", "assistant"] * 2
    assert names["report"].cases[0].results[0].score == 1
    assert [case.input for case in read_cases("runs.jsonl")] == ["What is the weather in Paris?"]
