"""`JudgeContract`: tests that every judge must pass, whichever model is behind it; and the prompt that they ask."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, TypeAlias

from toolgrade._internal.json import JsonObject
from toolgrade.calls import ToolCall, ToolSpec
from toolgrade.cases import LLMTestCase
from toolgrade.errors import JudgeOutcome
from toolgrade.judge import ImagePart, Judge, Message, Prompt
from toolgrade.judge.judge import JudgeLike, PromptResult
from toolgrade.judge.prompts import QUESTIONS
from toolgrade.metrics import ToolCorrectnessMetric
from toolgrade.result import MetricResult

Answer: TypeAlias = Callable[[str], str]
"""Returns the text that a model answers to a text of the user, or raises."""

_IMAGE = "data:image/png;base64,iVBORw0KGgo="
_SECONDS = 30


def _verdict(text: str) -> str:
    """Return a *yes* in the form that the question asks for."""
    question, _, _ = QUESTIONS["missing_calls"].partition("?")  # the rest has quotes, which the text may escape
    missing: JsonObject = {"missing": []} if question in text else {}
    return json.dumps({"evidence": [], "reasoning": f"Asked: {text[-40:]}", **missing, "verdict": "yes"})


class JudgeContract:
    """Tests of a judge. pytest collects them from a subclass that implements `judge`.

    ```python
    from contextlib import nullcontext
    from toolgrade.testing import JudgeContract


    class TestMyJudge(JudgeContract):
        reports_usage = False

        def judge(self, answer):
            return nullcontext(lambda messages: answer(messages[-1]["content"]))


    TestMyJudge().test_verdict()  # pytest calls this and the others
    ```
    """

    takes_images: ClassVar[bool] = True
    """Whether the model can be sent images; else a question with one must fail."""
    reports_usage: ClassVar[bool] = True
    """Whether replies have the tokens that they took."""

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return a context with the judge to test, whose model answers each question with `answer`.

        `answer` is called with the text of the user's message, or one that contains it. If it raises, the model fails.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement judge")

    def test_verdict(self) -> None:
        """A reply in the requested form is a verdict with its reasoning."""
        [result] = self._ask(lambda _: _verdict("it fits"), sample_prompt("Was it right?"))
        _equal("the outcome", JudgeOutcome.OK, result.outcome, result.problem)
        _equal("the reasoning", "Asked: it fits", result.verdict and result.verdict.rationale)
        if self.reports_usage:
            counts = [result.usage.get(name, 0) for name in ("input_tokens", "output_tokens")]
            _equal("whether usage has tokens", [True, True], [count > 0 for count in counts])

    def test_reply_of_another_form(self) -> None:
        """Any other text is a malformed reply, and no verdict."""
        [result] = self._ask(lambda _: "That was right.", sample_prompt())
        _equal("the outcome", JudgeOutcome.MALFORMED, result.outcome, result.problem)
        _equal("whether the problem quotes the reply", True, "That was right." in (result.problem or ""))

    def test_model_that_fails(self) -> None:
        """An error of the model is the outcome of its question, with its message; the others get their verdicts."""

        def answer(text: str) -> str:
            if "bad" in text:
                raise RuntimeError("no luck")
            return _verdict(text)

        bad, good = self._ask(answer, sample_prompt("bad"), sample_prompt("good"))
        _equal("the outcome of the failure", JudgeOutcome.TRANSIENT, bad.outcome, bad.problem)
        _equal("whether the problem has the message", True, "no luck" in (bad.problem or ""))
        _equal("the outcome of the other question", JudgeOutcome.OK, good.outcome, good.problem)

    def test_many_questions_at_once(self) -> None:
        """Each of many concurrent questions gets its own answer."""
        texts = [f"question {number}" for number in range(20)]

        def answer(text: str) -> str:
            return _verdict(next(one for one in texts if f"{one}." in text))

        results = self._ask(answer, *[sample_prompt(f"{text}.") for text in texts])
        rationales = [result.verdict and result.verdict.rationale for result in results]
        _equal("the answers", [f"Asked: {text}" for text in texts], rationales)

    def test_images(self) -> None:
        """A question with an image is answered by a model that takes images, and fails with another one."""
        [result] = self._ask(lambda _: _verdict(""), sample_prompt(images=(_IMAGE,)))
        _equal("whether it was answered", self.takes_images, result.outcome is JudgeOutcome.OK, result.problem)

    def test_sync_and_async(self) -> None:
        """`measure` gives the same as `a_measure`, outside and inside of a running event loop and in other threads."""
        call = ToolCall(name="find")
        case = LLMTestCase(
            input="?", tools_called=[call], expected_tools=[call], available_tools=[ToolSpec(name="find")]
        )

        with self.judge(_verdict) as judge:
            metric = ToolCorrectnessMetric(judge=judge)

            async def inside() -> Sequence[MetricResult]:
                return metric.measure(case), await metric.a_measure(case)

            results = [metric.measure(case), *asyncio.run(inside())]
            threads = [threading.Thread(target=lambda: results.append(metric.measure(case))) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_SECONDS)
        _equal("the scores", [1] * 6, [result.score for result in results], results[0].error)
        _equal("the number of different reasons", 1, len({result.reason for result in results}))

    def _ask(self, answer: Answer, *prompts: Prompt) -> list[PromptResult]:
        async def ask(judge: Judge) -> list[PromptResult]:
            return await asyncio.gather(*[judge.ask(prompt) for prompt in prompts])

        with self.judge(answer) as judge:
            return asyncio.run(ask(Judge.of(judge)))


def _equal(what: str, expected: object, actual: object, why: str | None = None) -> None:
    if expected != actual:
        raise AssertionError(f"{what} must be {expected!r}, got {actual!r}{f': {why}' if why else ''}")


VERDICT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "evidence": {"type": "array", "items": {"enum": ["c1"]}},
        "reasoning": {"type": "string"},
        "verdict": {"enum": ["yes", "no", "cannot_tell"]},
    },
    "required": ["evidence", "reasoning", "verdict"],
    "additionalProperties": False,
}
"""JSON Schema of a reply to `sample_prompt`: `{"evidence": ["c1"], "reasoning": "...", "verdict": "yes"}`."""


def sample_prompt(
    text: str = "Was the call right?", *, images: tuple[str, ...] = (), name: str = "tool_selection"
) -> Prompt:
    """Return a prompt for tests of judges: a system message, and one of the user with the text and the images.

    Prompts of different texts or images have different keys in a cache.

    Args:
        text: The question.
        images: URLs of images that follow the text.
        name: Name of the prompt and of its schema.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> judge = Judge(lambda messages: '{"evidence": ["c1"], "reasoning": "It fits.", "verdict": "yes"}')
        >>> result = asyncio.run(judge.ask(sample_prompt("Was get_weather the right tool?")))
        >>> result.verdict.decision.value, result.verdict.rationale
        ('yes', 'It fits.')
    """
    content: str | tuple[str | ImagePart, ...] = text
    if images:
        content = (text, *(ImagePart(url=url) for url in images))
    messages = (Message(role="system", content="You judge tool calls."), Message(role="user", content=content))
    return Prompt(
        name=name,
        version="sample",
        messages=messages,
        reply_schema=VERDICT_SCHEMA,
        ids=("c1",),
        content={"text": text, "images": list(images)},
    )
