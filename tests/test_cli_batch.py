"""`toolmark batch`: three commands from cases to verdicts, so that an evaluation afterwards asks nothing."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from toolmark import ConversationalTestCase, LLMTestCase, ToolCall, ToolUseMetric, Turn, evaluate
from toolmark.cli import main
from toolmark.judge import Judge, SqliteCache
from toolmark.testing import BatchPlan, FakeOpenAI, HttpFault, ReceivedRequest, Reply

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

RUNNER = CliRunner(**{"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {})
TOOLS: Any = [{"name": "weather", "description": "The weather of a city."}]


def conversation(number: int) -> ConversationalTestCase:
    """A conversation of one unit with one call."""
    call = ToolCall(name="weather", input_parameters={"city": f"City {number}"}, output="rain")
    turns = [
        Turn(role="user", content=f"What is the weather in City {number}?"),
        Turn(role="assistant", content="It rains.", tools_called=[call]),
    ]
    return ConversationalTestCase(turns=turns, available_tools=TOOLS, name=f"case {number}")


def yes(request: ReceivedRequest) -> Reply:
    """Yes to every question, in its form."""
    wanted = request.body["response_format"]["json_schema"]["schema"]["properties"]
    told = {"evidence": [], "reasoning": "it fits", "verdict": "yes", "missing": []}
    return Reply(json.dumps({name: told[name] for name in wanted}), usage=(10, 5))


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A file of two conversations."""
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(f"{conversation(number).to_json()}\n" for number in range(2)), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Where the state is kept."""
    return str(tmp_path / "state")


def batch(server: FakeOpenAI | None, *arguments: str) -> Result:
    """The outcome of a command, inside this process."""
    address = server.base_url if server else "http://127.0.0.1:1/v1"
    settings = {"TOOLMARK_JUDGE_MODEL": "m", "TOOLMARK_JUDGE_BASE_URL": address, "TOOLMARK_JUDGE_API_KEY": "sk-x"}
    return RUNNER.invoke(main, ["batch", *arguments], env=settings, catch_exceptions=False)


def test_an_evaluation_after_a_batch_asks_nothing(cases: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, poll, collect; then the same cases are scored from the cache alone."""
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, str(cases))
        waited = batch(server, "poll", folder, "--batch-status-check-interval", "0")
        fetched = batch(server, "collect", folder)
        asked = len(server.requests)
        monkeypatch.setenv("TOOLMARK_JUDGE_BASE_URL", server.base_url)
        cache = SqliteCache(Path(folder) / "verdicts.sqlite")
        report = evaluate([conversation(number) for number in range(2)], [ToolUseMetric(judge=Judge("m", cache=cache))])
        cache.close()

    assert [result.exit_code for result in (sent, waited, fetched)] == [0, 0, 0]
    assert sent.stdout == "6 questions: 0 with a verdict, 6 under way, 0 to be sent again, 0 without a verdict\n"
    assert waited.stderr == "batches: 0001 validating\nbatches: 0001 completed\n"
    assert fetched.stdout == (
        "6 questions: 6 with a verdict, 0 under way, 0 to be sent again, 0 without a verdict\ntokens: 60 in, 30 out\n"
    )
    assert [case.results[0].score for case in report.cases] == [1.0, 1.0]
    assert len(server.requests) == asked
    assert len(server.batched) == 6


def test_what_is_left_open_is_told_and_sent_again(cases: Path, folder: str) -> None:
    """After a batch that expired, `collect` says so by its code, and `submit` without cases sends the rest."""
    with FakeOpenAI(answer=yes, batches=[BatchPlan("expired", answered=4, polls=0)]) as server:
        batch(server, "submit", folder, str(cases))
        batch(server, "poll", folder)
        first = batch(server, "collect", folder)
        again = batch(server, "submit", folder)
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        second = batch(server, "collect", folder)

    assert (first.exit_code, second.exit_code) == (1, 0)
    assert "4 with a verdict, 0 under way, 2 to be sent again" in first.stdout
    assert "4 with a verdict, 2 under way, 0 to be sent again" in again.stdout
    assert len(server.batched) == 6


def test_waiting_may_be_bounded(cases: Path, folder: str) -> None:
    """A batch that has not ended is code 1, and nothing is lost."""
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=3)]) as server:
        batch(server, "submit", folder, str(cases))
        codes = [batch(server, "poll", folder, "--batch-max-iterations", "1").exit_code for _ in range(4)]

    assert codes == [1, 1, 1, 0]


def test_what_is_lost_is_told(cases: Path, folder: str) -> None:
    """Answers without a verdict are listed with their reason, with nothing in it that a terminal obeys."""
    with FakeOpenAI(answer=lambda _: Reply(refusal="\x1b[2J no")) as server:
        batch(server, "submit", folder, str(cases))
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        fetched = batch(server, "collect", folder)

    assert fetched.exit_code == 1
    assert "6 without a verdict" in fetched.stdout
    assert "  refusal: the judge declined" in fetched.stdout
    assert "\x1b" not in fetched.stdout


def test_single_cases_are_judged_by_their_selection(tmp_path: Path, folder: str) -> None:
    """Of test cases the selection is asked; one that cannot be judged is told, and the others go on."""
    call = ToolCall(name="weather", input_parameters={})
    good = LLMTestCase(name="good", input="Weather?", tools_called=[call], expected_tools=[call], available_tools=TOOLS)
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{good.to_json()}\n{LLMTestCase(name='bad', input='?', available_tools=TOOLS).to_json()}\n")
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, str(path))

    assert sent.exit_code == 0
    assert "warning: bad is not judged: " in sent.stderr
    assert len(server.batched) >= 1


@pytest.mark.parametrize("arguments", [("poll",), ("collect",), ("submit",)])
def test_without_batches_there_is_nothing_to_do(folder: str, arguments: tuple[str, ...]) -> None:
    """The error says what comes first."""
    result = batch(None, *arguments, folder)

    assert result.exit_code == 2
    assert "submit some first" in result.stderr


def test_a_bad_file_is_told_line_by_line(cases: Path, folder: str) -> None:
    """Nothing is sent, and each bad line is named."""
    with cases.open("a", encoding="utf-8") as file:
        file.write('{"turns": 3}\n{\n')
    with FakeOpenAI(answer=yes) as server:
        result = batch(server, "submit", folder, str(cases))

    assert result.exit_code == 2
    assert f"{cases}:3: $.turns" in result.stderr
    assert f"{cases}:4: $: not JSON" in result.stderr
    assert server.requests == ()


def test_a_provider_that_refuses_is_told(cases: Path, folder: str) -> None:
    """A wrong key is code 2, with what the provider said."""
    plan = BatchPlan(create_fault=HttpFault.status(401, "wrong key"))
    with FakeOpenAI(answer=yes, batches=[plan]) as server:
        result = batch(server, "submit", folder, str(cases))

    assert result.exit_code == 2
    assert "error: HTTP 401" in result.stderr
    assert "wrong key" in result.stderr
