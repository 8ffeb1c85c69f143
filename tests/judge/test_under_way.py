"""A question that is under way is not asked a second time: others wait for its verdict, and only for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolgrade import ToolUseMetric, evaluate
from toolgrade.cases import ConversationalTestCase
from toolgrade.errors import JudgeOutcome
from toolgrade.judge import Judge, Prompt, Reply
from toolgrade.judge.judge import PromptResult
from toolgrade.testing import sample_prompt

VERDICT = '{"evidence": [], "reasoning": "r", "verdict": "yes"}'


class Slow:
    """A model with an identity that answers when released."""

    def __init__(self, *replies: str) -> None:
        """Keep what to answer; the last one again and again."""
        self.identity = {"model": "slow"}
        self.replies = list(replies)
        self.questions: list[Prompt] = []
        self.go = asyncio.Event()

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the next reply."""
        self.questions.append(prompt)
        await self.go.wait()
        await turns()  # an answer takes a while
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return Reply(text=text, usage={"input_tokens": 10})


async def turns() -> None:
    """Let other tasks run as far as possible."""
    for _ in range(20):
        await asyncio.sleep(0)


async def answers(judge: Judge, model: Slow, *prompts: Prompt) -> tuple[list[PromptResult], int]:
    """Return the answers to concurrent prompts, and the number sent before the first answer."""
    tasks = [asyncio.ensure_future(judge.ask(prompt)) for prompt in prompts]
    await turns()
    first = len(model.questions)
    model.go.set()
    return list(await asyncio.gather(*tasks)), first


def test_equal_questions_are_sent_once() -> None:
    """One is paid for; the others share its verdict as if cached."""

    async def run() -> None:
        model = Slow(VERDICT)
        judge = Judge(model)
        other = sample_prompt().model_copy(update={"content": {"other": 1}})

        result, first = await answers(judge, model, *[sample_prompt()] * 4, other)

        assert first == len(model.questions) == 2
        assert {answered.outcome for answered in result} == {JudgeOutcome.OK}
        assert [answered.cached for answered in result] == [False, True, True, True, False]
        assert sum(answered.usage.get("input_tokens", 0) for answered in result) == 20
        assert not judge._waiting.get().pending

    asyncio.run(run())


def test_failures_are_not_shared() -> None:
    """Each question is then sent on its own, in parallel."""

    async def run() -> None:
        model = Slow("no verdict", "no verdict", VERDICT)
        judge = Judge(model)

        result, first = await answers(judge, model, *[sample_prompt()] * 3)

        assert first == 1
        assert [answered.outcome for answered in result] == [JudgeOutcome.MALFORMED, JudgeOutcome.OK, JudgeOutcome.OK]
        assert len(model.questions) == 4  # a malformed reply is asked for again

    asyncio.run(run())


def test_without_a_cache_each_is_sent() -> None:
    """There is nowhere to find the verdict."""

    async def run() -> None:
        model = Slow(VERDICT)

        _, first = await answers(Judge(model, cache=None), model, *[sample_prompt()] * 3)

        assert first == 3

    asyncio.run(run())


def test_cancellation_does_not_block_others() -> None:
    """The next one sends the question; cancelling a waiter does not affect the sender."""

    async def run() -> None:
        model = Slow(VERDICT)
        judge = Judge(model)
        tasks = [asyncio.ensure_future(judge.ask(sample_prompt())) for _ in range(3)]
        await turns()

        tasks[0].cancel()
        await turns()
        tasks[1].cancel()
        await turns()
        model.go.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(one) for one in done] == [asyncio.CancelledError, asyncio.CancelledError, PromptResult]
        assert (await judge.ask(sample_prompt())).cached

    asyncio.run(run())


@pytest.mark.parametrize("canary", [True, False])
def test_canary_is_sent_once(canary: bool) -> None:
    """Concurrent cases share the planted questions."""
    questions: list[Any] = []

    async def judge(messages: Any) -> str:
        questions.append(messages)
        await asyncio.sleep(0)
        missing = '"missing": [], ' if '"missing"' in messages[0]["content"] else ""
        return f'{{"evidence": [], "reasoning": "r", {missing}"verdict": "yes"}}'

    def conversation(number: int) -> ConversationalTestCase:
        call = {"name": "a", "input_parameters": {"number": number}}
        reply_text = [
            {"role": "user", "content": f"{number}?"},
            {"role": "assistant", "content": ".", "tools_called": [call]},
        ]
        return ConversationalTestCase.model_validate({"turns": reply_text, "available_tools": [{"name": "a"}]})

    metric = ToolUseMetric(judge=Judge(judge, canary=canary))
    report = evaluate([conversation(number) for number in range(8)], [metric], max_concurrency=8)

    assert len(questions) == 8 * 3 + (6 if canary else 0)
    assert all(case.results[0].score is not None for case in report.cases)
