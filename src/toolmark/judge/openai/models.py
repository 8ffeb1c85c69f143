"""Judges behind OpenAI's API: OpenAI itself, and the many servers that speak its Chat Completions.

Needs the package of OpenAI: `pip install 'toolmark[openai]'`. It is loaded with the first request.

```python
from toolmark.judge.openai import OpenAIJudge

judge = OpenAIJudge("gpt-4.1", prices={"gpt-4.1": {"input": 2.0, "output": 8.0}}, cost_budget=5.0)
local = OpenAIJudge("qwen3", base_url="http://127.0.0.1:11434/v1")
```
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolmark._internal.json import JsonObject
from toolmark.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolmark.judge.openai.client import ENVIRONMENT, Answered, Endpoint, Request
from toolmark.judge.openai.throttle import Spent
from toolmark.judge.openai.wire import WIRES, Rung, TextApi, Wire, decisions_answers, decisions_body
from toolmark.judge.prices import add_usage
from toolmark.judge.protocol import Answer, Answers, Message, Prompt, Question, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIDecisions", "OpenAIJudge", "Spent", "judge_from_environment"]

_MOST_QUESTIONS = 400


class OpenAIJudge(Endpoint):
    """A model that writes text, on any server that speaks OpenAI's Chat Completions or Responses API.

    `OpenAIJudge("gpt-4.1")` asks Chat Completions, which nearly every server has; `api="responses"` the other one.

    The reply is held to the prompt's schema by the strongest means that the server knows: `json_schema`, else
    `json_object`, else words alone. A server that refuses one is asked with the next, and what it accepted is kept for
    the life of this object.

    See `Endpoint` for how the arguments, retries and limits work.
    """

    apis: ClassVar[tuple[str, ...]] = ("chat", "responses")

    @property
    def wire(self) -> Wire:
        """How this API reads and writes."""
        return WIRES[cast("TextApi", self.api)]

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply; a refusal or a cut is one too.

        Raises:
            JudgeError: There is no reply; `outcome` says why.
            MissingPackageError: OpenAI's package is not installed.
        """
        request = Request(partial(self.wire.body, prompt), self._post, self.wire.reply)
        return _completed(await self.ask(request))

    def body_of(self, prompt: Prompt) -> JsonObject:
        """Return the body of a request as a line of a batch holds it, with `json_schema`."""
        return {"model": self.model, **self.wire.body(prompt, Rung.JSON_SCHEMA), **self._options}

    async def _post(self, client: AsyncOpenAI, body: JsonObject) -> Any:  # noqa: ANN401 - the raw response of any version
        # The body goes as it is: the client would copy it field by field, which takes as long as sending it.
        whole = {**body, **self._options}
        if self.api == "responses":
            return await client.responses.with_raw_response.create(model=self.model, input="", extra_body=whole)
        return await client.chat.completions.with_raw_response.create(model=self.model, messages=[], extra_body=whole)


class OpenAIDecisions(Endpoint):
    """A model that gives probabilities in place of words: OpenAI's Decisions API, a beta, and servers that follow it.

    Needs `openai>=3.52`. See `Endpoint` for how the arguments, retries and limits work.
    """

    apis: ClassVar[tuple[str, ...]] = ("decisions",)

    async def decide(self, state: Sequence[Message], questions: Sequence[Question], /) -> Answers:
        """Return the probability of every option of every question; 400 questions go into one request.

        Raises:
            JudgeError: There is no answer; `outcome` says why.
            MissingPackageError: OpenAI's package is not installed.
        """
        answers: dict[str, Answer] = {}
        parts: list[Answered[dict[str, Answer]]] = []
        for start in range(0, len(questions), _MOST_QUESTIONS):
            asked = questions[start : start + _MOST_QUESTIONS]
            try:
                part = await self.ask(self._request(state, asked))
            except JudgeError as error:  # what the parts before it cost is not lost
                usage = add_usage(error.usage, *[part.usage for part in parts])
                attempts = error.attempts + sum(part.attempts for part in parts)
                raise JudgeError(f"{error}", error.outcome, usage=usage, attempts=attempts) from error
            parts.append(part)
            answers.update(part.value)
        told: dict[str, Any] = {"request_id": parts[-1].request_id} if parts and parts[-1].request_id else {}
        return Answers(
            answers=answers,
            usage=add_usage(*[part.usage for part in parts]),
            attempts=max(1, sum(part.attempts for part in parts)),
            model=self.model,
            **told,
        )

    def _request(self, state: Sequence[Message], asked: Sequence[Question]) -> Request[dict[str, Answer]]:
        body = decisions_body(state, asked)
        return Request(lambda _rung: body, self._post, lambda found: decisions_answers(found, asked))

    async def _post(self, client: AsyncOpenAI, body: JsonObject) -> Any:  # noqa: ANN401 - the raw response of any version
        api: Any = getattr(client, "decisions", None)
        if api is None:
            raise JudgeError("the Decisions API needs openai>=3.52; an older one is installed", JudgeOutcome.FATAL)
        whole = {**body, **self._options}
        return await api.with_raw_response.create(model=self.model, input="", questions=[], extra_body=whole)


def judge_from_environment() -> OpenAIJudge | OpenAIDecisions | None:
    """Return the judge that the environment describes, or `None` where it names no model.

    `TOOLMARK_JUDGE_MODEL` names the model. `TOOLMARK_JUDGE_API` is `chat`, `responses` or `decisions`,
    `TOOLMARK_JUDGE_MAX_CONCURRENCY`, `_TIMEOUT` and `_DEADLINE` are numbers as in `Endpoint`. `TOOLMARK_JUDGE_BASE_URL`
    and `TOOLMARK_JUDGE_API_KEY` are read with the first request.

    Raises:
        ConfigurationError: A value is wrong.
    """
    model = _setting("MODEL")
    if not model:
        return None
    api = _setting("API") or "chat"
    kind = OpenAIDecisions if api in OpenAIDecisions.apis else OpenAIJudge
    options: dict[str, Any] = {}
    for name, number in (("max_concurrency", int), ("timeout", float), ("deadline", float)):
        text = _setting(name.upper())
        if text:
            try:
                options[name] = number(text)
            except ValueError:
                raise ConfigurationError(f"{ENVIRONMENT}{name.upper()} must be a number, got {text!r}") from None
    return kind(model, api=api, **options)


def _setting(name: str) -> str:
    return os.environ.get(f"{ENVIRONMENT}{name}", "").strip()


def _completed(answered: Answered[Reply]) -> Reply:
    told = {"request_id": answered.request_id} if answered.request_id else {}
    return answered.value.model_copy(update={"usage": dict(answered.usage), "attempts": answered.attempts, **told})
