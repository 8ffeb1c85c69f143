"""`Judge(batch=True)` over HTTP: one batch for all questions, nothing is paid twice, and nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostile_proxy import Answer, HostileProxy
from judging import RuleJudge, served
from processes import environment
from toolgrade import (
    ConfigurationError,
    Golden,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
    evaluate_async,
)
from toolgrade.judge import BatchOptions, Judge, Prompt
from toolgrade.judge.cache import SqliteCache
from toolgrade.judge.judge import PromptResult
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import BatchPlan, FakeOpenAI, HttpFault, ReceivedRequest, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
PRICES = {"m": {"input": 2.0, "output": 8.0}}
AT_ONCE = BatchOptions(status_check_interval=0)
WORKER = """
import asyncio, sys
from toolgrade.judge import BatchOptions, Judge
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import sample_prompt

async def main():
    options = BatchOptions(status_check_interval=0.05)
    judge = Judge(OpenAIJudge("m", base_url=sys.argv[1]), cache="verdicts.sqlite", batch=options)
    await asyncio.gather(*[judge.ask(sample_prompt(f"question {number}")) for number in range(3)])

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are submitted soon, and pauses between attempts are short."""
    monkeypatch.setattr("toolgrade.judge.openai.batch._QUIET_SECONDS", 0.1)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


def yes(_request: ReceivedRequest) -> Reply:
    """The answer to every question."""
    return Reply(YES, usage=(1000, 100))


def prompts(count: int) -> list[Prompt]:
    """So many prompts."""
    return [sample_prompt(f"question {number}") for number in range(count)]


@contextmanager
def judging(base_url: str, folder: Path, batch: Any = AT_ONCE, **settings: Any) -> Iterator[Judge]:
    """A new judge of the endpoint, as a later program has it."""
    cache = SqliteCache(folder / "verdicts.sqlite")
    yield Judge(OpenAIJudge("m", base_url=base_url, **settings), cache=cache, batch=batch)
    cache.close()


def ask(base_url: str, folder: Path, count: int = 3, batch: Any = AT_ONCE, **settings: Any) -> list[PromptResult]:
    """The results of so many prompts, which are asked at the same time."""

    async def main(judge: Judge) -> list[PromptResult]:
        return await asyncio.gather(*[judge.ask(prompt) for prompt in prompts(count)])

    with judging(base_url, folder, batch, **settings) as judge:
        return asyncio.run(main(judge))


def outcomes(results: list[PromptResult]) -> list[str]:
    """The outcome of each question."""
    return [result.outcome.value for result in results]


def paid(server: FakeOpenAI) -> Counter[str]:
    """How often each question was answered, and so billed."""
    return Counter(request.body["messages"][-1]["content"] for request in server.batched)


def created(server: FakeOpenAI) -> int:
    """The number of batches."""
    return sum((request.method, request.path) == ("POST", "/v1/batches") for request in server.requests)


# One batch for everything


def test_an_evaluation_is_one_batch(tmp_path: Path) -> None:
    """All questions of all cases, more than may be judged at a time; a second evaluation finds all in the cache."""
    calls = [ToolCall(name="find")]
    cases = [
        LLMTestCase(input=f"{number}", tools_called=calls, expected_tools=calls, available_tools=[{"name": "find"}])
        for number in range(20)
    ]
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server, judging(server.base_url, tmp_path) as judge:
        first = evaluate(cases, [ToolCorrectnessMetric(judge=judge)], max_concurrency=4)
        requests = len(server.requests)
        second = evaluate(cases, [ToolCorrectnessMetric(judge=judge)])

    assert [result.score for _, result in first.results()] == [1] * 20
    assert [result.usage["requests"] for _, result in second.results()] == [0] * 20
    assert (len(server.batched), created(server), len(server.requests)) == (40, 1, requests)


def test_all_agents_run_before_the_batch(tmp_path: Path) -> None:
    """At most `max_concurrency` agents run at a time; then one batch judges all of their runs."""
    running, most = 0, 0

    async def agent(question: str, _conversation: object) -> Run:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return Run(input=question, calls=[ToolCall(name="find")], available_tools=[{"name": "find"}])

    goldens = [Golden(input=f"{number}", expected_tools=[ToolCall(name="find")]) for number in range(9)]
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server, judging(server.base_url, tmp_path) as judge:
        metric = ToolCorrectnessMetric(judge=judge, async_mode=False)
        report = evaluate(goldens=goldens, agent=agent, metrics=[metric], max_concurrency=2)

    assert [result.score for _, result in report.results()] == [1] * 9
    assert (most, created(server)) == (2, 1)


def test_an_agent_that_is_cancelled_holds_up_no_batch(tmp_path: Path) -> None:
    """Its case is an agent error, and the batch has the others, without waiting for it."""

    async def agent(question: str, _conversation: object) -> Run:
        if question == "1":
            raise asyncio.CancelledError
        return Run(input=question, calls=[ToolCall(name="find")], available_tools=[{"name": "find"}])

    goldens = [Golden(input=f"{number}", expected_tools=[ToolCall(name="find")]) for number in range(3)]
    with FakeOpenAI(answer=served(RuleJudge("yes"))) as server, judging(server.base_url, tmp_path) as judge:
        evaluation = evaluate_async(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric(judge=judge)])
        report = asyncio.run(asyncio.wait_for(evaluation, 30))

    outcomes = ["passed" if golden.input != "1" else "agent_error" for golden in goldens]
    assert ([case.outcome for case in report.cases], created(server)) == (outcomes, 1)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_line_is_the_request_that_would_be_sent(tmp_path: Path, api: str) -> None:
    """The body is that of the single request, options and all, and the batch is for its endpoint."""
    with FakeOpenAI(answer=yes) as server:
        ask(server.base_url, tmp_path, 1, api=api, options={"temperature": 0})
        live = OpenAIJudge("m", base_url=server.base_url, api=api, options={"temperature": 0})
        asyncio.run(live.complete(prompts(1)[0]))

    assert server.batched[0].body == server.requests[-1].body
    assert server.batched[0].path == server.requests[-1].path


def test_a_batch_costs_half(tmp_path: Path) -> None:
    """In results and in estimates."""
    with FakeOpenAI(answer=yes) as server:
        [result] = ask(server.base_url, tmp_path, 1, prices=PRICES)
        with judging(server.base_url, tmp_path, prices=PRICES) as judge:
            estimate = judge.estimate(prompts(2), answer_tokens=100)

    assert result.cost == pytest.approx((1000 * 2 + 100 * 8) / 1e6 / 2)
    assert (estimate.verdicts, estimate.requests) == (1, 1)
    assert "at 1 in and 4 out a million tokens" in str(estimate)


def test_batches_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more requests or bytes than the provider allows."""
    with FakeOpenAI(answer=yes) as server:
        monkeypatch.setattr("toolgrade.judge.openai.batch._MOST_REQUESTS", 2)
        assert outcomes(ask(server.base_url, tmp_path, 5)) == ["ok"] * 5
        assert created(server) == 3
        monkeypatch.setattr("toolgrade.judge.openai.batch._MOST_BYTES", 10)
        assert outcomes(ask(server.base_url, tmp_path, 7)) == ["ok"] * 7
        assert created(server) == 5

    assert set(paid(server).values()) == {1}


# What does not come back


@pytest.mark.parametrize(
    ("plan", "outcome", "problem"),
    [
        (BatchPlan("expired", answered=1), "transient", "not be executed before its end"),
        (BatchPlan("cancelled", answered=1), "transient", "(cancelled) has no answer to this question; ask again"),
        (
            BatchPlan("failed", answered=0),
            "fatal",
            "(failed) has no answer to this question: 'the plan lets it fail'; ask",
        ),
    ],
    ids=lambda value: value.end if isinstance(value, BatchPlan) else "",
)
def test_batches_that_end_early(tmp_path: Path, plan: BatchPlan, outcome: str, problem: str) -> None:
    """What was answered is a verdict, the rest an error; only the rest is submitted again."""
    with FakeOpenAI(answer=yes, batches=[plan]) as server:
        first = ask(server.base_url, tmp_path)
        second = ask(server.base_url, tmp_path)

    assert outcomes(first) == ["ok"] * (plan.answered or 0) + [outcome] * (3 - (plan.answered or 0))
    assert problem in str(first[-1].problem)
    assert outcomes(second) == ["ok"] * 3
    assert paid(server) == dict.fromkeys(("question 0", "question 1", "question 2"), 1)


def test_requests_that_fail_in_a_batch(tmp_path: Path) -> None:
    """Each has an outcome of its own, and is asked again by the next run, as is a reply without a verdict."""
    steps = {
        "question 0": HttpFault.status(429, "slow down"),
        "question 1": HttpFault.status(400, "too long"),
        "question 2": Reply(refusal="I cannot."),
        "question 3": Reply("maybe"),
        "question 4": yes,
    }
    answer: Callable[[ReceivedRequest], Any] = lambda request: steps[request.body["messages"][-1]["content"]]  # noqa: E731
    with FakeOpenAI(answer=lambda request: yes(request) if callable(answer(request)) else answer(request)) as server:
        results = ask(server.base_url, tmp_path, 5)
        steps.update(dict.fromkeys(steps, yes))
        again = ask(server.base_url, tmp_path, 5)

    assert outcomes(results) == ["transient", "malformed", "refusal", "malformed", "ok"]
    assert "(HTTP 400): 'too long'" in str(results[1].problem)
    assert outcomes(again) == ["ok"] * 5
    assert paid(server) == {**dict.fromkeys(steps, 2), "question 4": 1}


def test_equal_questions_are_one_request(tmp_path: Path) -> None:
    """Its cost counts once, and its failure is that of all: another batch could take another day."""

    async def main(judge: Judge) -> list[PromptResult]:
        return await asyncio.gather(*[judge.ask(prompt) for prompt in prompts(1) * 3])

    with FakeOpenAI(answer=yes, batches=[BatchPlan("failed")]) as server:
        with judging(server.base_url, tmp_path) as judge:
            failures = asyncio.run(main(judge))
        assert (outcomes(failures), created(server)) == (["fatal"] * 3, 1)
        with judging(server.base_url, tmp_path, prices=PRICES) as judge:
            results = asyncio.run(main(judge))

    assert outcomes(results) == ["ok"] * 3
    assert [len(result.usage) for result in results] == [2, 0, 0]
    assert (len(server.batched), created(server)) == (1, 2)


def damaged(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Answer], Answer]:
    """Change the lines of the first file of answers."""
    files: list[str] = []

    def hook(answer: Answer) -> Answer:
        if not answer.kind.endswith("/content") or files:
            return answer
        files.append(answer.kind)
        return answer.with_body(b"".join(change(answer.body.splitlines(keepends=True))))

    return hook


STRANGER = b'{"custom_id": "of nobody", "response": {"status_code": 200, "body": {}}}\n'


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        pytest.param(lambda lines: [*lines, *lines, STRANGER, b"\n"], 0, id="repeated and unknown lines"),
        pytest.param(lambda lines: [*lines, b'{"custom'], 0, id="half a line more"),
        pytest.param(lambda lines: [lines[0], lines[1], lines[2][:30]], 1, id="a line is cut"),
        pytest.param(lambda _: [b"<html>Sign in</html>"], 3, id="a page"),
    ],
)
def test_files_of_answers_that_are_damaged(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], lost: int
) -> None:
    """What can be read is kept; the rest is read again by the next run, and not paid for twice."""
    with (
        FakeOpenAI(answer=yes) as server,
        HostileProxy(server.port, damaged(change)) as proxy,
    ):
        first = ask(proxy.base_url, tmp_path)
        second = ask(proxy.base_url, tmp_path)

    assert Counter(outcomes(first)) == Counter({"ok": 3 - lost, "transient": lost})
    assert all("cannot be read; ask again later" in str(result.problem) for result in first if result.verdict is None)
    assert outcomes(second) == ["ok"] * 3
    assert set(paid(server).values()) == {1}


# Waiting, and the end of the program


def test_waiting_may_end(tmp_path: Path) -> None:
    """After the last check that is allowed; a later run collects, also what it does not ask itself."""
    options = BatchOptions(status_check_interval=0, max_iterations=2)
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=3)]) as server:
        first = ask(server.base_url, tmp_path, batch=options)
        second = ask(server.base_url, tmp_path, 1)
        third = ask(server.base_url, tmp_path)

    assert outcomes(first) == ["timeout"] * 3
    assert "has not ended after 2 checks; nothing is lost: ask again with the same cache" in str(first[0].problem)
    assert outcomes(second) == ["ok"]
    assert [result.cached for result in third] == [True] * 3
    assert (len(server.batched), created(server)) == (3, 1)


@pytest.mark.parametrize(
    "plan", [BatchPlan(polls=20), BatchPlan(create_fault=HttpFault.silence())], ids=["polling", "creating"]
)
def test_a_program_that_is_killed_loses_nothing(tmp_path: Path, plan: BatchPlan) -> None:
    """While it polls, or before it knows that its batch was created; the next one collects the batch."""
    last = "POST /v1/batches" if plan.create_fault else "GET /v1/batches/"
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    with FakeOpenAI(answer=yes, batches=[plan]) as server:
        command = [sys.executable, "worker.py", server.base_url]
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment())
        try:
            while not any(f"{request.method} {request.path}".startswith(last) for request in server.requests):
                assert worker.poll() is None
                time.sleep(0.01)
        finally:
            worker.kill()
            worker.wait()
        results = ask(server.base_url, tmp_path)

    assert outcomes(results) == ["ok"] * 3
    assert (len(server.batched), created(server)) == (3, 1)


def test_failed_requests_are_repeated(tmp_path: Path) -> None:
    """An unreachable provider is asked again; a batch whose creation was not confirmed is looked for first."""
    failures = Counter[str]()

    def change(answer: Answer) -> Answer:
        failures[answer.kind] += 1
        return Answer(answer.kind, 500, b"{}") if failures[answer.kind] <= 2 else answer

    with FakeOpenAI(answer=yes) as server, HostileProxy(server.port, change) as proxy:
        results = ask(proxy.base_url, tmp_path)

    assert outcomes(results) == ["ok"] * 3
    assert created(server) == 1


def test_a_batch_that_the_provider_does_not_know(tmp_path: Path) -> None:
    """As with the key of another project: nothing is submitted again, and the error says how to go on."""
    options = BatchOptions(status_check_interval=0, max_iterations=1)
    is_gone = False

    def change(answer: Answer) -> Answer:
        return Answer(answer.kind, 404, b"{}") if is_gone else answer

    with (
        FakeOpenAI(answer=yes, batches=[BatchPlan(polls=3)]) as server,
        HostileProxy(server.port, change) as proxy,
    ):
        ask(proxy.base_url, tmp_path, batch=options)
        is_gone = True
        results = ask(proxy.base_url, tmp_path)

    assert outcomes(results) == ["fatal"] * 3
    assert "cannot be collected: " in str(results[0].problem)
    assert "or another cache file to submit its questions again" in str(results[0].problem)
    assert created(server) == 1


def test_a_provider_that_refuses(tmp_path: Path) -> None:
    """A wrong key is an outcome at once; the next run submits."""
    with FakeOpenAI(answer=yes) as server:
        with HostileProxy(server.port, lambda answer: Answer(answer.kind, 401, b"{}")) as proxy:
            assert outcomes(ask(proxy.base_url, tmp_path)) == ["fatal"] * 3
        assert outcomes(ask(server.base_url, tmp_path)) == ["ok"] * 3


def test_nobody_waits_any_more(tmp_path: Path) -> None:
    """When every question is cancelled, polling ends; a question of the same loop begins anew and collects."""

    async def main(judge: Judge, server: FakeOpenAI) -> PromptResult:
        tasks = [asyncio.ensure_future(judge.ask(prompt)) for prompt in prompts(2)]
        while not created(server):  # noqa: ASYNC110 - nothing tells that the request arrives
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        current = asyncio.current_task()
        await asyncio.wait_for(asyncio.gather(*asyncio.all_tasks() - {current}, return_exceptions=True), 30)
        assert asyncio.all_tasks() == {current}
        return await judge.ask(prompts(1)[0])

    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=20)]) as server, judging(server.base_url, tmp_path) as judge:
        assert asyncio.run(main(judge, server)).outcome.value == "ok"
    assert created(server) == 1


# Setup


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Judge("m", batch=True),
            r"batch needs a cache in a file: give Judge\(\.\.\., cache='verdicts.sqlite'\)",
        ),
        (lambda: Judge("m", cache="c.sqlite", batch=3), "batch must be True, False or BatchOptions, got 3"),
        (lambda: Judge(lambda _: "", cache="c.sqlite", batch=True, identity={}).model, "batch needs an OpenAIJudge"),
        (lambda: BatchOptions(status_check_interval=-1), "status_check_interval must be a number of seconds"),
        (lambda: BatchOptions(max_iterations=0), "max_iterations"),
    ],
)
def test_setups_that_cannot_work(make: Callable[[], object], message: str) -> None:
    """Each error says what to do."""
    with pytest.raises(ConfigurationError, match=message):
        make()
