"""Batch judging over HTTP: requests, answers, and recovery after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import environment
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge import Judge
from toolgrade.judge.batch import Batch, BatchState
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import BatchPlan, FakeOpenAI, HttpFault, ReceivedRequest, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")
sys.path.insert(0, str(Path(__file__).parent))
from batch_worker import batch_in, prompts_of, run  # a script in the same folder

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
STEPS = 27
"""Steps of a run without a crash: writes, uploads, polls and downloads."""


def yes(_request: ReceivedRequest) -> Reply:
    """The answer to every question."""
    return Reply(YES, usage=(10, 5))


@pytest.fixture(autouse=True)
def _verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short."""
    monkeypatch.setattr("toolgrade.judge.openai.throttle._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("toolgrade.judge.batch.remote._PAUSE", 0.01)


def calls_made(server: FakeOpenAI, folder: Path, **options: Any) -> tuple[Batch, Judge]:
    """A run of batches, and its judge, whose verdicts stay in memory."""
    judge = Judge(OpenAIJudge("m", base_url=server.base_url))
    return Batch(folder / "b", judge, **options), judge


def questions(server: FakeOpenAI) -> list[str]:
    """Return the questions sent in batches, which are the paid ones."""
    return [request.body["messages"][-1]["content"] for request in server.batched]


def prompts(count: int) -> list[Any]:
    """So many prompts."""
    return [sample_prompt(f"question {number}") for number in range(count)]


def through(batch: Batch, value: Any = ()) -> BatchState:
    """The state after all three verbs."""
    batch.submit(value)
    batch.poll(batch_status_check_interval=0)
    return batch.collect()


# The way of a prompt


def test_verdicts_enter_the_cache(tmp_path: Path) -> None:
    """What was asked in a batch is not asked again: the judge has the verdict, at no cost."""
    with FakeOpenAI(answer=yes) as server:
        batch, judge = calls_made(server, tmp_path)
        state = through(batch, prompts(3))
        questions = len(server.requests)
        answered = [asyncio.run(judge.ask(prompt)) for prompt in prompts(3)]

    assert (state.prompts, state.verdicts, state.under_way, state.open, state.lost) == (3, 3, 0, 0, {})
    assert state.usage == {"input_tokens": 30, "output_tokens": 15}
    assert [one.outcome for one in answered] == [JudgeOutcome.OK] * 3
    assert all(one.cached for one in answered)
    assert len(server.requests) == questions


def test_a_line_is_the_request_that_would_be_sent(tmp_path: Path) -> None:
    """The body is that of the live request, options and all, and the batch is for its endpoint."""
    with FakeOpenAI(answer=yes) as server:
        live = OpenAIJudge("m", base_url=server.base_url, options={"temperature": 0})
        through(Batch(tmp_path / "b", Judge(live)), prompts(1))
        asyncio.run(live.complete(prompts(1)[0]))

    assert server.batched[0].body == server.requests[-1].body
    assert server.batched[0].path == server.requests[-1].path


def test_responses_go_in_batches_too(tmp_path: Path) -> None:
    """The Responses API has separate batches."""
    with FakeOpenAI(answer=yes) as server:
        judge = Judge(OpenAIJudge("m", api="responses", base_url=server.base_url))
        state = through(Batch(tmp_path / "b", judge), prompts(2))

    assert state.verdicts == 2
    assert {request.path for request in server.batched} == {"/v1/responses"}


def test_known_and_pending_questions_are_not_sent(tmp_path: Path) -> None:
    """Each prompt is sent once per verdict, however often it is submitted."""
    with FakeOpenAI(answer=yes) as server:
        batch, judge = calls_made(server, tmp_path)
        asyncio.run(judge.ask(prompts(1)[0]))
        batch.submit([*prompts(3), *prompts(3)])
        batch.submit(prompts(4))
        state = through(batch, prompts(4))

    assert sorted(questions(server)) == ["question 1", "question 2", "question 3"]
    assert (state.prompts, state.verdicts) == (3, 3)


def test_verdicts_that_the_cache_lost_come_from_the_folder(tmp_path: Path) -> None:
    """They are paid for, so only prompts without a stored answer are sent."""
    with FakeOpenAI(answer=yes) as server:
        through(calls_made(server, tmp_path, max_requests=2)[0], prompts(3))
        (tmp_path / "b" / "output-0002.jsonl").unlink()
        batch, judge = calls_made(server, tmp_path)
        batch.submit(prompts(3))
        restored = [judge.cached(prompt) is not None for prompt in prompts(3)]
        state = through(batch)

    assert restored == [True, True, False]
    assert sorted(questions(server)) == ["question 0", "question 1", "question 2", "question 2"]
    assert state.verdicts == 3


def test_limits_split(tmp_path: Path) -> None:
    """No batch has more requests or bytes than allowed, and all verdicts come together."""
    with FakeOpenAI(answer=yes) as server:
        by_count, _ = calls_made(server, tmp_path / "one", max_requests=2)
        counted = through(by_count, prompts(5))
        size = len((tmp_path / "one" / "b" / "requests-0001.jsonl").read_bytes())
        by_size, _ = calls_made(server, tmp_path / "two", max_bytes=size)
        sized = through(by_size, prompts(5))

    assert [shard.requests for shard in counted.shards] == [2, 2, 1]
    assert [shard.requests for shard in sized.shards] == [2, 2, 1]
    assert (counted.verdicts, sized.verdicts) == (5, 5)


def test_a_prompt_that_fits_no_batch_is_named(tmp_path: Path) -> None:
    """Nothing is sent then."""
    with FakeOpenAI(answer=yes) as server:
        batch, _ = calls_made(server, tmp_path, max_bytes=100)
        with pytest.raises(ConfigurationError, match=r"'tool_selection'.*more than a batch may have"):
            batch.submit(prompts(1))

    assert server.requests == ()


# What does not come back


@pytest.mark.parametrize(
    "plan",
    [
        BatchPlan("expired", answered=1),
        BatchPlan("cancelled", answered=1),
        BatchPlan("expired", answered=0),
        BatchPlan("failed", polls=0),
        BatchPlan(create_fault=HttpFault.cut()),
        BatchPlan(create_fault=HttpFault.status(500)),
        BatchPlan(create_fault=HttpFault.html()),
    ],
    ids=repr,
)
def test_only_unanswered_questions_are_sent_again(tmp_path: Path, plan: BatchPlan) -> None:
    """Questions that a batch leaves open are sent with the next submission."""
    with FakeOpenAI(answer=yes, batches=[plan]) as server:
        batch, _ = calls_made(server, tmp_path)
        first = through(batch, prompts(3))
        second = through(batch)

    answered = {"failed": 0}.get(plan.end, 3 if plan.answered is None else plan.answered)
    assert (first.verdicts, first.open, first.lost) == (answered, 3 - answered, {})
    assert (second.verdicts, second.open) == (3, 0)
    assert sorted(questions(server)) == ["question 0", "question 1", "question 2"]


def test_failed_lines_are_sent_again_where_that_may_help(tmp_path: Path) -> None:
    """Overload and server errors are retried a limited number of times, invalid requests are not."""
    questions: Counter[str] = Counter()

    def answer(request: ReceivedRequest) -> Any:
        text = request.body["messages"][-1]["content"]
        questions[text] += 1
        return {
            "question 0": yes(request),
            "question 1": HttpFault.status(429) if questions[text] == 1 else yes(request),
            "question 2": HttpFault.status(400, "too long"),
            "question 3": HttpFault.status(500, "broken"),
        }[text]

    with FakeOpenAI(answer=answer) as server:
        batch, judge = calls_made(server, tmp_path)
        states = [through(batch, prompts(4)) for _ in range(4)]
        keys = [judge.key_of(prompt) for prompt in prompts(4)]

    assert [state.verdicts for state in states] == [1, 2, 2, 2]
    assert [state.open for state in states] == [2, 1, 0, 0]
    assert set(states[-1].lost) == {keys[2], keys[3]}
    assert "too long" in states[-1].lost[keys[2]].problem
    assert "broken" in states[-1].lost[keys[3]].problem
    assert questions == {"question 0": 1, "question 1": 2, "question 2": 1, "question 3": 3}


def test_answers_without_a_verdict_are_reported_and_not_cached(tmp_path: Path) -> None:
    """Refusals, truncated and malformed answers are counted and not sent again."""
    steps = {
        "question 0": Reply(refusal="I cannot.", usage=(10, 1)),
        "question 1": Reply('{"verdict"', finish="length", usage=(10, 1)),
        "question 2": Reply("maybe", usage=(10, 1)),
    }
    with FakeOpenAI(answer=lambda request: steps[request.body["messages"][-1]["content"]]) as server:
        batch, judge = calls_made(server, tmp_path)
        through(batch, prompts(3))
        state = through(batch)
        outcomes = [state.lost[judge.key_of(prompt)].outcome for prompt in prompts(3)]

    assert outcomes == ["refusal", "truncated", "malformed"]
    assert (state.verdicts, state.open) == (0, 0)
    assert state.usage == {"input_tokens": 30, "output_tokens": 3}
    assert len(server.batched) == 3


def test_a_line_that_spoils_its_batch_is_left_out(tmp_path: Path) -> None:
    """Where the provider refuses the file for one line, the others are sent again without it."""
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=0)]) as server:
        batch, judge = calls_made(server, tmp_path)
        batch.submit(prompts(1))
        batch.collect()
        batch.submit(prompts(3))
        manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
        message_text = {"code": "invalid", "line": 2, "message": "no such thing", "param": None}
        manifest["shards"][-1] |= {"status": "failed", "errors": [message_text], "output_file_id": None}
        (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
        batch.collect()
        state = through(batch)

    assert set(state.lost) == {judge.key_of(prompts(3)[2])}
    assert state.verdicts == 2


# Waiting


def test_waiting_is_bounded_only_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses begin with the interval, grow by half up to two minutes, and end with the batches or the iterations."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=12)]) as server:
        batch, _ = calls_made(server, tmp_path)
        batch.submit(prompts(1))
        few = batch.poll(batch_max_iterations=3)
        before = list(pauses)
        pauses.clear()
        visited: list[BatchState] = []
        all_of_it = batch.poll(on_state=visited.append)

    assert not few.ended
    assert before == [30, 45]
    assert all_of_it.ended
    assert pauses[:5] == [30, 45, 67.5, 101.25, 120]
    assert max(pauses) == 120
    assert [state.ended for state in visited] == [False] * len(pauses) + [True]


def test_failed_poll_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable provider is polled again; one that rejects the key is not."""
    with FakeOpenAI(answer=yes, batches=[BatchPlan(polls=1)]) as server:
        batch, _ = calls_made(server, tmp_path)
        batch.submit(prompts(1))
        outcomes = iter([JudgeOutcome.TRANSIENT, JudgeOutcome.TIMEOUT])
        from toolgrade.judge.batch.remote import Remote

        look = Remote.look

        async def failing(self: Any, key: str) -> Any:
            outcome = next(outcomes, None)
            if outcome is not None:
                raise JudgeError("away", outcome)
            return await look(self, key)

        monkeypatch.setattr(Remote, "look", failing)
        assert batch.poll(batch_status_check_interval=0).ended


def test_invalid_setups_are_refused(tmp_path: Path) -> None:
    """Nothing to wait for, a judge without batches or cache, a folder of another judge."""
    with FakeOpenAI(answer=yes) as server:
        batch, _ = calls_made(server, tmp_path)
        for verb in (batch.poll, batch.collect, batch.state):
            with pytest.raises(ConfigurationError, match="submit some first"):
                verb()
        batch.submit(prompts(1))
        other = Batch(tmp_path / "b", Judge(OpenAIJudge("n", base_url=server.base_url)))
        with pytest.raises(ConfigurationError, match="use another folder"):
            other.submit(prompts(1))
        with pytest.raises(ConfigurationError, match="behind OpenAI's API"):
            Batch(tmp_path / "c", Judge(lambda _: "")).submit(prompts(1))
        with pytest.raises(ConfigurationError, match="with a cache"):
            Batch(tmp_path / "c", Judge(OpenAIJudge("m"), cache=None)).submit(prompts(1))
        with batch._folder.locked(), pytest.raises(ConfigurationError, match="another process"):
            batch.submit(prompts(1))


def test_no_key_is_written(tmp_path: Path) -> None:
    """Whatever is in the folder, the key is not."""
    with FakeOpenAI(answer=yes) as server:
        judge = Judge(OpenAIJudge("m", base_url=server.base_url, api_key="sk-made-up-key"))
        through(Batch(tmp_path / "b", judge), prompts(2))

    assert all(b"sk-made-up-key" not in path.read_bytes() for path in (tmp_path / "b").iterdir())


# Crashes


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, FakeOpenAI]]:
    """Folders of runs that were killed, one after each step, and the endpoint that they asked."""
    folder = tmp_path_factory.mktemp("crashed")
    worker = Path(__file__).parent / "batch_worker.py"
    with FakeOpenAI(answer=yes) as server:
        done = subprocess.run(
            [sys.executable, str(worker), str(folder), server.base_url],
            env=environment(),
            capture_output=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr.decode()
        # Killed after each step but the last one, after which nothing is left to be killed in.
        assert list(map(int, done.stdout.split())) == [*range(1, STEPS + 1), STEPS]
        yield folder, server


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed and copied as POSIX does")
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_crash_loses_nothing_and_repeats_nothing(crashed: tuple[Path, FakeOpenAI], step: int) -> None:
    """Killed after any step, the next run ends with every verdict, and no question was paid for twice."""
    folder, server = crashed
    folder = folder / f"step {step}"

    state = run(folder, server.base_url)

    judge = batch_in(folder, server.base_url)[1]
    assert (state.verdicts, state.under_way, state.open, state.lost) == (3, 0, 0, {})
    assert all(judge.cached(prompt) for prompt in prompts_of(folder))
    judge._cache.close()  # type: ignore[union-attr]
    paid = [text for text in questions(server) if text.startswith(f"{folder.name},")]
    assert sorted(paid) == [f"{folder.name}, question {number}" for number in range(3)]
