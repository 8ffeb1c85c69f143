"""A judge that gives probabilities: OpenAI's Decisions API over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolgrade.errors import JudgeError, JudgeOutcome
from toolgrade.judge import Answers, DecisionModel, Judge, Question
from toolgrade.judge.openai import OpenAIDecisions
from toolgrade.testing import FakeOpenAI, HttpFault, Reply, sample_prompt

openai = pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

SHARES = {"yes": 0.75, "no": 0.25, "cannot_tell": 0.0}
NEEDS_DECISIONS = pytest.mark.skipif(not hasattr(openai.OpenAI, "decisions"), reason="older than the Decisions API")


def decided(shares: dict[str, dict[str, float]], usage: tuple[int, int] = (5, 1)) -> Reply:
    """A reply of the Decisions API: for each question the probabilities of its options."""
    answers = []
    for name, options in shares.items():
        best = max(options, key=lambda option: options[option])
        listed = [{"value": option, "probability": share} for option, share in options.items()]
        choice = {"type": "choice", "name": name, "choice": best, "confidence": options[best]}
        answers.append({**choice, "probabilities": listed})
    counts = {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage)}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return Reply(body={"model": "gpt-6-luna", "answers": answers, "usage": {**counts, **details}})


def decide(server: FakeOpenAI, questions: Any = None, **options: Any) -> Answers:
    """The answers to questions about one state."""
    prompt = sample_prompt()
    model = OpenAIDecisions("gpt-6-luna", base_url=server.base_url, **options)
    return asyncio.run(model.decide(prompt.state, questions or [prompt.question]))


def test_client_implements_decisions_only() -> None:
    """It implements the protocol for decisions and not the one for text."""
    model = OpenAIDecisions("m")

    assert isinstance(model, DecisionModel)
    assert not hasattr(model, "complete")


@NEEDS_DECISIONS
def test_a_question_is_a_choice_between_its_options() -> None:
    """The state is the input, each option a choice, and its probability comes back with the tokens."""
    with FakeOpenAI(decided({"q1": SHARES}, (80, 1))) as server:
        answered = decide(server)

    assert server.requests[0].path == "/v1/decisions"
    assert server.requests[0].body == {
        "model": "gpt-6-luna",
        "input": [
            {"role": "system", "content": "You judge tool calls."},
            {"role": "user", "content": "Was the call right?"},
        ],
        "questions": [
            {
                "type": "choice",
                "name": "q1",
                "instructions": "Was the call right?",
                "choices": [{"value": "yes"}, {"value": "no"}, {"value": "cannot_tell"}],
            }
        ],
    }
    assert answered.answers["q1"].probabilities == SHARES
    assert answered.usage == {"input_tokens": 80, "output_tokens": 1}
    assert (answered.model, answered.attempts) == ("gpt-6-luna", 1)


@NEEDS_DECISIONS
def test_a_question_may_be_refused() -> None:
    """A refusal of one question is an answer with that outcome."""
    refused = Reply(body={**(decided({}).body or {}), "answers": [{"type": "refusal", "name": "q1"}]})
    with FakeOpenAI(refused) as server:
        answered = decide(server)

    assert answered.answers["q1"].probabilities is None
    assert answered.answers["q1"].refusal


@NEEDS_DECISIONS
def test_many_questions_go_in_parts() -> None:
    """Four hundred questions fit one request; all answers and all tokens come together."""
    questions = [Question(id=f"q{number}", text="?") for number in range(401)]
    parts = [
        decided({question.id: SHARES for question in part}, (100, 10)) for part in (questions[:400], questions[400:])
    ]
    with FakeOpenAI(*parts) as server:
        answered = decide(server, questions)

    assert [len(request.body["questions"]) for request in server.requests] == [400, 1]
    assert set(answered.answers) == {question.id for question in questions}
    assert (answered.usage["input_tokens"], answered.attempts) == (200, 2)


@NEEDS_DECISIONS
def test_tokens_before_a_failure_are_reported() -> None:
    """If a later part fails, the error has the usage of the earlier ones."""
    questions = [Question(id=f"q{number}", text="?") for number in range(401)]
    first = decided({question.id: SHARES for question in questions[:400]}, (100, 10))
    with FakeOpenAI(first, HttpFault.status(401)) as server, pytest.raises(JudgeError) as caught:
        decide(server, questions)

    assert (caught.value.outcome, caught.value.attempts) == (JudgeOutcome.FATAL, 2)
    assert caught.value.usage["input_tokens"] == 100


@NEEDS_DECISIONS
@pytest.mark.parametrize(
    "answers", [[], [{"type": "choice", "probabilities": [{"value": "yes", "probability": 1.0}]}], [None], "yes"]
)
def test_incomplete_answer_is_retried(answers: Any) -> None:
    """A verdict needs a probability for each option of each question."""
    body = {"model": "m", "answers": answers, "usage": {"input_tokens": 5, "output_tokens": 0}}
    with FakeOpenAI(Reply(body=body), decided({"q1": SHARES})) as server:
        answered = decide(server)

    assert (answered.attempts, answered.answers["q1"].probabilities) == (2, SHARES)


@NEEDS_DECISIONS
def test_a_judge_reads_the_verdict() -> None:
    """The greatest probability is the verdict, with itself as its probability."""

    async def main(server: FakeOpenAI) -> Any:
        return await Judge(OpenAIDecisions("m", base_url=server.base_url)).ask(sample_prompt())

    with FakeOpenAI(decided({"q1": SHARES})) as server:
        answered = asyncio.run(main(server))

    assert (answered.verdict.decision.value, answered.verdict.probability) == ("yes", 0.75)


@pytest.mark.skipif(hasattr(openai.OpenAI, "decisions"), reason="this version has the Decisions API")
def test_old_client_is_reported() -> None:
    """A client without the API is named, and nothing is sent."""
    with FakeOpenAI() as server, pytest.raises(JudgeError, match="openai>=3"):
        decide(server)

    assert server.requests == ()
