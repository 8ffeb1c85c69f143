"""Judges behind OpenAI's API: OpenAI itself, and the many servers that speak its Chat Completions.

Needs OpenAI's package, `pip install openai`, which is loaded with the first request.

```python
from toolgrade.judge.openai import OpenAIJudge

judge = OpenAIJudge("gpt-4.1", prices={"gpt-4.1": {"input": 2.0, "output": 8.0}}, cost_budget=5.0)
local = OpenAIJudge("qwen3", base_url="http://127.0.0.1:11434/v1")
```
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolgrade._internal.json import JsonObject
from toolgrade.errors import ConfigurationError
from toolgrade.judge.openai.client import ENVIRONMENT, Endpoint
from toolgrade.judge.openai.wire import WIRES, Rung, TextApi, Wire
from toolgrade.judge.protocol import Prompt, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIJudge(Endpoint):
    """A model that writes text, on any server that speaks OpenAI's Chat Completions or Responses API.

    `OpenAIJudge("gpt-4.1")` uses Chat Completions, which nearly every server has; `api="responses"` the other one.

    The reply is bound to the prompt's schema by the strongest means that the server supports: `json_schema`, else
    `json_object`, else words alone. If the server rejects one, the next is tried, and what it accepts is remembered as
    long as this object lives.

    The key is that of `TOOLGRADE_JUDGE_API_KEY` or `OPENAI_API_KEY`, unless `api_key` is passed; a local server needs
    none. See the base class `Endpoint` for all arguments, retries and limits.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.judge.openai import OpenAIJudge
        >>> from toolgrade.testing import FakeOpenAI, sample_prompt
        >>> with FakeOpenAI('{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}') as server:
        ...     model = OpenAIJudge("gpt-4.1", base_url=server.base_url, options={"temperature": 0})
        ...     asyncio.run(Judge(model).ask(sample_prompt())).verdict.rationale
        'The user asked for it.'
    """

    apis: ClassVar[tuple[str, ...]] = ("chat", "responses")

    @property
    def wire(self) -> Wire:
        """How this API encodes prompts and replies."""
        return WIRES[cast("TextApi", self.api)]

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply; a refusal or a truncated answer is a reply too.

        Raises:
            JudgeError: There is no reply; `outcome` says why.
            MissingPackageError: OpenAI's package is not installed.
        """
        reply, attempts = await self.ask(partial(self.wire.body, prompt), self.wire.reply)
        update: dict[str, Any] = {"usage": attempts.usage, "attempts": attempts.sent}
        if attempts.request_id:
            update["request_id"] = attempts.request_id
        return reply.model_copy(update=update)

    def body_of(self, prompt: Prompt) -> JsonObject:
        """Return the body of a request as a line of a batch holds it, with `json_schema`."""
        return {"model": self.model, **self.wire.body(prompt, Rung.JSON_SCHEMA), **self._options}

    async def _post(self, client: AsyncOpenAI, body: JsonObject) -> Any:  # noqa: ANN401 - the raw response of any version
        # As `extra_body` it is sent as it is: the client copies typed fields one by one, which takes as long as
        # sending.
        whole = {**body, **self._options}
        if self.api == "responses":
            return await client.responses.with_raw_response.create(model=self.model, input="", extra_body=whole)
        return await client.chat.completions.with_raw_response.create(model=self.model, messages=[], extra_body=whole)


def judge_from_environment() -> OpenAIJudge | None:
    """Return the judge that the environment describes, or `None` if it names no model.

    `TOOLGRADE_JUDGE_MODEL` names the model. `TOOLGRADE_JUDGE_API` is `chat` or `responses`;
    `TOOLGRADE_JUDGE_MAX_CONCURRENCY`, `_TIMEOUT` and `_DEADLINE` are numbers as in `Endpoint`.
    `TOOLGRADE_JUDGE_BASE_URL` and `TOOLGRADE_JUDGE_API_KEY` are read with the first request.

    Raises:
        ConfigurationError: A value is wrong.

    Example:
        >>> import os
        >>> from unittest.mock import patch
        >>> from toolgrade.judge.openai.models import judge_from_environment
        >>> with patch.dict(os.environ, {"TOOLGRADE_JUDGE_MODEL": "gpt-4.1", "TOOLGRADE_JUDGE_API": "responses"}):
        ...     judge = judge_from_environment()
        >>> judge.model, judge.api
        ('gpt-4.1', 'responses')
    """
    model = _setting("MODEL")
    if not model:
        return None
    api = _setting("API") or "chat"
    options: dict[str, Any] = {}
    for name, number in (("max_concurrency", int), ("timeout", float), ("deadline", float)):
        text = _setting(name.upper())
        if not text:
            continue
        try:
            options[name] = number(text)
        except ValueError:
            raise ConfigurationError(f"{ENVIRONMENT}{name.upper()} must be a number, got {text!r}") from None
    return OpenAIJudge(model, api=api, **options)


def _setting(name: str) -> str:
    return os.environ.get(f"{ENVIRONMENT}{name}", "").strip()
