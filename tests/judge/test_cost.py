"""Cost estimates before judging, from prompt lengths."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from toolgrade import (
    ConfigurationError,
    MLLMImage,
    MLLMTestCase,
    ToolCall,
    ToolCorrectnessMetric,
)
from toolgrade.judge import Judge, Prompt, Reply
from toolgrade.judge.cost import CostEstimate, Price
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import sample_prompt

PRICES = {"m": {"input": 2.0, "output": 8.0}}
VERDICT = '{"evidence": [], "reasoning": "r", "verdict": "yes"}'


def prompts(number: int) -> list[Prompt]:
    """So many different prompts."""
    return [sample_prompt().model_copy(update={"content": {"question": index}}) for index in range(number)]


def letters(prompt: Prompt) -> int:
    """What a model that writes text is sent of a prompt of texts."""
    return sum(len(f"{message.content}") for message in prompt.messages) + len(json.dumps(prompt.reply_schema))


def judge(**options: Any) -> Judge:
    """Return a judge that cannot be called."""
    return Judge(OpenAIJudge("m", base_url="http://127.0.0.1:1/v1"), **options)


def test_tokens_are_reckoned_by_letters() -> None:
    """Three letters to a token, 150 tokens to an answer, and the price of a million."""
    questions = prompts(3)

    estimate = judge(prices=PRICES).estimate(questions)

    tokens = round(sum(map(letters, questions)) / 3)
    assert (estimate.prompts, estimate.verdicts, estimate.requests) == (3, 0, 3)
    assert (estimate.input_tokens, estimate.output_tokens) == (tokens, 450)
    assert estimate.cost == pytest.approx((tokens * 2 + 450 * 8) / 1e6)
    assert str(estimate).split("\n")[2].endswith("at 2 in and 8 out a million tokens")
    assert judge().estimate(questions, answer_tokens=7).output_tokens == 21


def test_repeated_questions_count_once() -> None:
    """Even without a cache; another sample is another question."""
    for cache in ("memory", None):
        assert judge(cache=cache).estimate([*prompts(3), *prompts(2)]).requests == 3
    assert Judge(lambda _: "", cache=None).estimate([*prompts(3), *prompts(2)]).requests == 3


def test_cached_answers_are_free() -> None:
    """If nothing is sent, the cost is 0 at any price."""
    questions, one = prompts(3), judge()
    for prompt in questions[:2]:
        one.store(prompt, Reply(text=VERDICT))

    estimate, none = one.estimate(questions), one.estimate(questions[:2])

    assert (estimate.prompts, estimate.verdicts, estimate.requests, estimate.cost) == (3, 2, 1, None)
    assert (none.requests, none.cost) == (0, 0.0)
    assert str(none) == "2 questions: 2 in the cache, 0 to be sent"


def test_images_are_reported_and_not_counted() -> None:
    """Their token count is unknown, and they have no characters."""
    image = MLLMImage(data=b"\x89PNG\r\n\x1a\n" + b"x" * 100_000)
    call = ToolCall(name="a", input_parameters={})
    case = MLLMTestCase(input=["?", image], tools_called=[call], expected_tools=[call], available_tools=[{"name": "a"}])
    metric = ToolCorrectnessMetric(judge=judge())

    estimate = judge().estimate(metric.prompts(case))

    assert estimate.images == estimate.requests >= 1
    assert estimate.input_tokens < 3000 * estimate.requests
    assert f"{estimate.images} questions with images, which are not counted" in str(estimate)


def test_cost_limit_is_enforced() -> None:
    """Higher and unknown costs are refused."""
    estimate = judge(prices=PRICES).estimate(prompts(3))
    assert estimate.cost is not None

    estimate.check(estimate.cost)
    with pytest.raises(ConfigurationError, match="more than the maximum of 0; nothing was sent"):
        estimate.check(0)
    with pytest.raises(ConfigurationError, match="the price of the model is unknown"):
        replace(estimate, price=None).check(10**9)
    for wrong in (-1, float("nan")):
        with pytest.raises(ConfigurationError, match="max_cost must be a number of at least 0"):
            estimate.check(wrong)


def test_an_estimate_reads_well() -> None:
    """Requests, basis of the estimate, and cost."""
    estimate = CostEstimate(
        prompts=1200,
        verdicts=200,
        requests=1000,
        input_tokens=1234567,
        output_tokens=48300,
        images=1,
        answer_tokens=150,
        price=Price(input=2, output=8),
    )

    assert str(estimate) == (
        "1,200 questions: 200 in the cache, 1,000 to be sent\n"
        "about 1,230,000 tokens in, 48,300 out (3 characters a token, 150 tokens an answer; 1 question with "
        "images, which are not counted)\n"
        "about 2.86 in all, at 2 in and 8 out a million tokens"
    )
