"""`toolgrade batch`: three commands from cases to verdicts, so that an evaluation afterwards asks nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade import ConversationalTestCase, LLMTestCase, ToolCall, ToolUseMetric, Turn, evaluate
from toolgrade.cli.main import main
from toolgrade.judge import Judge, SqliteCache
from toolgrade.results import read_results
from toolgrade.testing import BatchPlan, FakeOpenAI, HttpFault, ReceivedRequest, Reply

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

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
    fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
    answer = {"evidence": [], "reasoning": "it fits", "verdict": "yes", "missing": []}
    return Reply(json.dumps({name: answer[name] for name in fields}), usage=(10, 5))


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A file of two conversations."""
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(f"{conversation(number).to_json()}\n" for number in range(2)), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return the state folder."""
    return str(tmp_path / "state")


def batch(server: FakeOpenAI | None, *arguments: str) -> Result:
    """The outcome of a command, inside this process."""
    address = server.base_url if server else "http://127.0.0.1:1/v1"
    settings = {"TOOLGRADE_JUDGE_MODEL": "m", "TOOLGRADE_JUDGE_BASE_URL": address, "TOOLGRADE_JUDGE_API_KEY": "sk-x"}
    return RUNNER.invoke(main, ["batch", *arguments], env=settings, catch_exceptions=False)


def test_an_evaluation_after_a_batch_asks_nothing(cases: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, poll, collect; then the same cases are scored from the cache alone."""
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, str(cases))
        waited = batch(server, "poll", folder, "--batch-status-check-interval", "0")
        fetched = batch(server, "collect", folder)
        count = len(server.requests)
        monkeypatch.setenv("TOOLGRADE_JUDGE_BASE_URL", server.base_url)
        cache = SqliteCache(Path(folder) / "verdicts.sqlite")
        report = evaluate([conversation(number) for number in range(2)], [ToolUseMetric(judge=Judge("m", cache=cache))])
        cache.close()

    assert [result.exit_code for result in (sent, waited, fetched)] == [0, 0, 0]
    assert sent.stdout == (
        "6 questions: 0 in the cache, 6 to be sent\n"
        "about 6,450 tokens in, 900 out (3 characters a token, 150 tokens an answer)\n"
        "the cost is unknown, since no price is given\n"
        "6 questions: 0 with a verdict, 6 under way, 0 to be sent again, 0 without a verdict\n"
    )
    assert waited.stderr == "batches: 0001 validating\nbatches: 0001 completed\n"
    assert fetched.stdout == (
        "6 questions: 6 with a verdict, 0 under way, 0 to be sent again, 0 without a verdict\ntokens: 60 in, 30 out\n"
    )
    assert [case.results[0].score for case in report.cases] == [1.0, 1.0]
    assert len(server.requests) == count
    assert len(server.batched) == 6


def test_open_questions_are_reported_and_sent_again(cases: Path, folder: str) -> None:
    """After an expired batch, `collect` has an exit code, and `submit` without cases sends the rest."""
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


def test_lost_answers_are_reported(cases: Path, folder: str) -> None:
    """Answers without a verdict are listed with their reason, escaped for the terminal."""
    with FakeOpenAI(answer=lambda _: Reply(refusal="\x1b[2J no")) as server:
        batch(server, "submit", folder, str(cases))
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        fetched = batch(server, "collect", folder)
        again = batch(server, "submit", folder, "--dry-run")

    assert fetched.exit_code == 1
    assert again.stdout == "6 questions: 0 in the cache, 6 under way or given up, 0 to be sent\n"
    assert "6 without a verdict" in fetched.stdout
    assert "  refusal: the judge declined" in fetched.stdout
    assert "\x1b" not in fetched.stdout


def test_single_cases_are_judged_by_their_selection(tmp_path: Path, folder: str) -> None:
    """A test case is judged by its selection; a case that cannot be judged is reported, and the others continue."""
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
def test_without_batches_commands_fail(folder: str, arguments: tuple[str, ...]) -> None:
    """The error names the first step."""
    result = batch(None, *arguments, folder)

    assert result.exit_code == 2
    assert "submit some first" in result.stderr


def test_bad_file_is_reported_line_by_line(cases: Path, folder: str) -> None:
    """Nothing is sent, and each bad line is named."""
    with cases.open("a", encoding="utf-8") as file:
        file.write('{"turns": 3}\n{\n')
    with FakeOpenAI(answer=yes) as server:
        result = batch(server, "submit", folder, str(cases))

    assert result.exit_code == 2
    assert f"{cases}:3: $.turns" in result.stderr
    assert f"{cases}:4: $: not JSON" in result.stderr
    assert server.requests == ()


def test_provider_error_is_reported(cases: Path, folder: str) -> None:
    """A wrong key exits with 2 and the provider's message."""
    plan = BatchPlan(create_fault=HttpFault.status(401, "wrong key"))
    with FakeOpenAI(answer=yes, batches=[plan]) as server:
        result = batch(server, "submit", folder, str(cases))

    assert result.exit_code == 2
    assert "error: HTTP 401" in result.stderr
    assert "wrong key" in result.stderr


def test_a_dry_run_does_nothing(cases: Path, folder: str) -> None:
    """It prints the requests and their cost at half the price; nothing is sent or written."""
    with FakeOpenAI(answer=yes) as server:
        done = batch(server, "submit", folder, str(cases), "--dry-run", "--price", "2/8", "--answer-tokens", "100")

    assert done.exit_code == 0
    assert done.stdout == (
        "6 questions: 0 in the cache, 6 to be sent\n"
        "about 6,450 tokens in, 600 out (3 characters a token, 100 tokens an answer)\n"
        "about 0.00885 in all, at 2 in and 8 out a million tokens, halved for a batch\n"
    )
    assert server.requests == ()
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--max-cost", "0.0001", "--price", "2/8"],
            "the estimated cost is 0.01, more than the maximum of 0.0001",
        ),
        (["--max-cost", "100"], "max_cost 100 cannot be checked: the price of the model is unknown; give the price"),
        (["--price", "2"], "'2' must be two prices such as 2/8"),
        (["--price", "2/-8"], "'2/-8' must be two prices"),
        (["--price", "nan/8"], "'nan/8' must be two prices"),
    ],
)
def test_too_expensive_batches_are_not_sent(cases: Path, folder: str, arguments: list[str], message: str) -> None:
    """Nor those of unknown cost if there is a limit."""
    with FakeOpenAI(answer=yes) as server:
        done = batch(server, "submit", folder, str(cases), *arguments)

    assert done.exit_code == 2
    assert message in done.stderr
    assert server.requests == ()


def test_cheap_batches_are_sent_and_cached_answers_are_free(cases: Path, folder: str) -> None:
    """Afterwards the same cases send nothing, whatever the price."""
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, str(cases), "--max-cost", "0.02", "--price", "2/8")
        under_way = batch(server, "submit", folder, str(cases), "--dry-run")
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        batch(server, "collect", folder)
        done = batch(server, "submit", folder, str(cases), "--max-cost", "0")

    assert sent.exit_code == 0
    assert under_way.stdout == "6 questions: 0 in the cache, 6 under way or given up, 0 to be sent\n"
    assert done.stdout.startswith("6 questions: 6 in the cache, 0 to be sent\n6 questions: 6 with a verdict")
    assert len(server.batched) == 6


def test_samples_and_canary_are_handed_on(cases: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is sent that many times, the canary questions once; an evaluation with both sends nothing."""
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, str(cases), "--samples", "3", "--canary")
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        batch(server, "collect", folder)
        count = len(server.requests)
        monkeypatch.setenv("TOOLGRADE_JUDGE_BASE_URL", server.base_url)
        cache = SqliteCache(Path(folder) / "verdicts.sqlite")
        metric = ToolUseMetric(judge=Judge("m", cache=cache, samples=3, canary=True))
        report = evaluate([conversation(number) for number in range(2)], [metric])
        cache.close()

    assert sent.stdout.startswith("24 questions: 0 in the cache, 24 to be sent\n")
    assert [case.results[0].score for case in report.cases] == [1.0, 1.0]
    assert report.cases[0].results[0].judge == {"model": "m", "prompts": "2", "samples": "3", "compromised": "true"}
    assert len(server.requests) == count


def test_conversations_and_cases_cannot_be_mixed(tmp_path: Path, folder: str) -> None:
    """No metric supports both."""
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{conversation(0).to_json()}\n{LLMTestCase(tools_called=[]).to_json()}\n")

    done = batch(None, "submit", folder, str(path))

    assert done.exit_code == 2
    assert "cases.jsonl has conversations and test cases, which need different metrics" in done.stderr


def test_torn_last_line_is_reported(cases: Path, folder: str) -> None:
    """An incomplete last line is left out."""
    with cases.open("a", encoding="utf-8") as file:
        file.write('{"tur')

    done = batch(None, "submit", folder, str(cases), "--dry-run")

    assert done.stdout.startswith("6 questions: 0 in the cache, 6 to be sent\n")
    assert f"warning: {cases}:3: left out a torn line" in done.stderr


def test_cases_are_scored_by_the_verdicts_alone(cases: Path, folder: str, tmp_path: Path) -> None:
    """No question is sent; missing verdicts stay open, and a case without any cannot be scored."""
    results, more = tmp_path / "results.jsonl", tmp_path / "more.jsonl"
    more.write_text(f"{cases.read_text()}{conversation(7).to_json()}\n")
    with FakeOpenAI(answer=yes) as server:
        batch(server, "submit", folder, str(cases), "--samples", "3")
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        batch(server, "collect", folder)
        count = len(server.requests)
        scored = batch(server, "score", folder, str(cases), "--samples", "3", "--results", str(results))
        partly = batch(server, "score", folder, str(more), "--results", f"{results}.2")

    assert (scored.exit_code, scored.stderr) == (0, "")
    assert scored.stdout == (
        "tool_use: mean 1 over 2 cases; 2 passed, 0 failed (at 0.5), 0 skipped, 0 errored; 100 % of the questions "
        "decided\n"
    )
    report = read_results(results)
    assert [case.results[0].score for case in report.cases] == [1.0, 1.0]
    assert report.cases[0].results[0].judge == {"model": "m", "prompts": "2", "samples": "3"}
    assert partly.exit_code == 1
    assert "mean 1 over 2 cases; 2 passed, 0 failed (at 0.5), 0 skipped, 1 errored" in partly.stdout
    assert "this judge sends nothing" in (read_results(f"{results}.2").cases[2].results[0].error or "")
    assert len(server.requests) == count


def test_scoring_needs_batches(cases: Path, folder: str, tmp_path: Path) -> None:
    """Without batches there are no verdicts; nothing is written."""
    done = batch(None, "score", folder, str(cases), "--results", str(tmp_path / "r"))

    assert done.exit_code == 2
    assert "submit some first" in done.stderr
    assert not (tmp_path / "r").exists()
    assert not Path(folder).exists()


def test_without_a_judge_the_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: Path) -> None:
    """And nothing of Python; nothing is sent."""
    monkeypatch.delenv("TOOLGRADE_JUDGE_MODEL", raising=False)
    done = RUNNER.invoke(main, ["batch", "submit", str(tmp_path / "batches"), str(cases)])

    assert done.exit_code == 2
    assert done.stderr == (
        "error: no judge is configured: name a model with --judge, or set TOOLGRADE_JUDGE_MODEL; nothing was sent\n"
    )


def test_cases_about_which_nothing_is_asked_are_counted(tmp_path: Path) -> None:
    """The selection of tools is judged only where the available tools are known."""
    path = tmp_path / "one.jsonl"
    path.write_text(f"{LLMTestCase(tools_called=[], expected_tools=[]).to_json()}\n", encoding="utf-8")
    done = RUNNER.invoke(main, ["batch", "submit", str(tmp_path / "b"), str(path), "--judge", "m", "--dry-run"])

    assert done.exit_code == 0
    assert "warning: nothing is asked about 1 case without available_tools; name them with --tools\n" in done.stderr


@pytest.mark.parametrize("kind", ["conversation", "case"])
def test_the_available_tools_may_be_in_a_file(tmp_path: Path, folder: str, kind: str) -> None:
    """Where cases do not have them, `submit` and `score` take the same `--tools` and ask the same questions."""
    case: Any = conversation(1).model_copy(update={"available_tools": None})
    if kind == "case":
        call = ToolCall(name="weather", input_parameters={})
        case = LLMTestCase(input="Weather?", tools_called=[call], expected_tools=[call])
    cases, tools = tmp_path / "cases.jsonl", tmp_path / "tools.json"
    cases.write_text(case.to_json(), encoding="utf-8")
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    options = [str(cases), "--tools", str(tools)]
    with FakeOpenAI(answer=yes) as server:
        sent = batch(server, "submit", folder, *options)
        batch(server, "poll", folder, "--batch-status-check-interval", "0")
        batch(server, "collect", folder)
        scored = batch(server, "score", folder, *options, "--results", str(tmp_path / "results.jsonl"))
        without = batch(server, "score", folder, str(cases), "--results", str(tmp_path / "without.jsonl"))

    assert (sent.exit_code, sent.stderr) == (0, "")
    assert scored.exit_code == 0
    assert "mean 1 over 1 case" in scored.stdout
    assert "100 % of the questions decided" in scored.stdout
    assert "100 % of the questions" not in without.stdout
