"""`toolgrade score` with a judge, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from judging import RuleJudge, served
from toolgrade.cli.main import main
from toolgrade.testing import FakeOpenAI

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

RUNNER = CliRunner()
TOOLS = [{"name": "look"}, {"name": "book"}]


def conversation(number: int) -> dict[str, Any]:
    """A conversation of two questions; only the second one is about a booking."""
    turns: list[dict[str, Any]] = []
    for question, tool in (("Look", "look"), ("Now", "book")):
        turns.append({"role": "user", "content": f"{question} at {number}."})
        turns.append({"role": "assistant", "content": "Done.", "tools_called": [{"name": tool}]})
    return {"id": f"dialogue {number}", "turns": turns, "available_tools": TOOLS}


def messages(number: int) -> dict[str, Any]:
    """The same as recorded messages."""
    listed: list[dict[str, Any]] = []
    for turn in conversation(number)["turns"]:
        calls = [
            {"id": f"c{len(listed)}", "type": "function", "function": {"name": call["name"], "arguments": "{}"}}
            for call in turn.get("tools_called", ())
        ]
        if calls:
            listed.append({"role": "assistant", "content": None, "tool_calls": calls})
            listed.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": "ok"})
        listed.append({"role": turn["role"], "content": turn["content"]})
    return {"messages": listed}


def no_booking(criterion: str, document: dict[str, Any]) -> Any:
    """Say no to each booking."""
    is_booking = document.get("call", {}).get("name") == "book"
    return "no" if criterion == "tool_selection" and is_booking else "yes"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    """A server whose model says no to each booking; no settings are in the environment."""
    for name in ("TOOLGRADE_JUDGE_MODEL", "TOOLGRADE_JUDGE_BASE_URL", "TOOLGRADE_JUDGE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-alone")
    with FakeOpenAI(answer=served(RuleJudge(no_booking))) as fake:
        yield fake


def score(text: str, *arguments: str) -> Any:
    """Run the command with this text on standard input."""
    return RUNNER.invoke(main, ["score", "-", *arguments], input=text)


def test_conversations_are_judged_as_a_whole(server: FakeOpenAI, tmp_path: Path) -> None:
    """One case a conversation, with a unit for each question; verdicts are kept in the file."""
    text = "".join(json.dumps(conversation(number)) + "\n" for number in range(2))
    options = ["--metric", "tool-use", "--judge", "gpt-4o", "--judge-url", server.base_url]
    options += ["--cache", str(tmp_path / "verdicts.sqlite"), "--json", "-"]
    first, again = score(text, *options), score(text, *options)

    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    report = json.loads(first.stdout)
    assert [case["id"] for case in report["cases"]] == ["dialogue 0", "dialogue 1"]
    [result] = report["cases"][0]["results"]
    assert (result["metric"], result["score"], len(result["units"])) == ("tool_use", 0.5, 2)
    assert len(server.requests) == 2 * 6  # both criteria of two calls and what is missing, for each conversation
    assert {request.model for request in server.requests} == {"gpt-4o"}
    assert "sk-for-openai-alone" not in repr([request.headers for request in server.requests])


def test_recorded_messages_are_judged_as_a_conversation(server: FakeOpenAI, tmp_path: Path) -> None:
    """The tools come from the log where it has them, else from the file of `--tools`."""
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    (tmp_path / "log.json").write_text(json.dumps(messages(1) | {"tools": tools}))
    (tmp_path / "bare.json").write_text(json.dumps(messages(1)))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    options = ["--metric", "tool-use", "--judge", "m", "--judge-url", server.base_url, "--json", "-"]
    for name, more in (("log.json", []), ("bare.json", ["--tools", str(tmp_path / "tools.json")])):
        done = RUNNER.invoke(main, ["score", str(tmp_path / name), *options, *more])

        assert done.exit_code == 0, done.output
        [case] = json.loads(done.stdout)["cases"]
        assert (case["results"][0]["score"], len(case["results"][0]["units"])) == (0.5, 2)


def test_the_selection_of_tools_is_judged(server: FakeOpenAI) -> None:
    """`--judge` alone lets tool-correctness judge too."""
    calls = [{"name": "book"}]
    case = {"input": "Look.", "tools_called": calls, "expected_tools": calls, "available_tools": TOOLS}
    done = score(json.dumps(case), "--judge", "m", "--judge-url", server.base_url)

    assert done.exit_code == 1
    assert "tool_correctness(judged)" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "tool-use"], "give --judge or set TOOLGRADE_JUDGE_MODEL"),
        (["--judge-url", "http://localhost:8000/v1"], "--judge-url must be used with --judge"),
        (["--metric", "tool-success-rate", "--judge", "m"], "--judge is an option of tool-correctness and tool-use"),
    ],
)
def test_options_that_do_not_fit(server: FakeOpenAI, options: list[str], message: str) -> None:
    """Each is named, and nothing is sent."""
    done = score(json.dumps(conversation(0)), *options)

    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert server.requests == ()


def test_a_case_of_one_question_is_a_conversation_of_one_turn(server: FakeOpenAI) -> None:
    """Beside whole conversations, and with a metric of calls: all are read as conversations."""
    single = {"input": "Look.", "actual_output": "Done.", "tools_called": [{"name": "look"}], "available_tools": TOOLS}
    options = ["--metric", "tool-use", "--metric", "tool-success-rate", "--judge", "m", "--judge-url", server.base_url]
    done = score("\n".join(map(json.dumps, [single, conversation(0)])), *options, "--json", "-")

    cases = json.loads(done.stdout)["cases"]
    assert [[len(result.get("units", ())) for result in case["results"]] for case in cases] == [[1, 0], [2, 0]]
