"""The contract of judges, for each kind of model that the core can ask, and for judges that break it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from judging import Messages, evidence_text, needs_openai
from toolgrade.compat.gllm_evals import DeepEvalToolCorrectnessMetric
from toolgrade.judge import BatchOptions, Judge, Prompt, Reply
from toolgrade.judge.judge import JudgeLike
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.testing import FakeOpenAI, JudgeContract
from toolgrade.testing.judge_contract import Answer


class TestFunction(JudgeContract):
    """A plain function."""

    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return a function of the messages."""
        return nullcontext(lambda messages: answer(evidence_text(messages)))


class TestAsyncCallable(JudgeContract):
    """An object that is called like an async function."""

    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the object."""

        class Model:
            async def __call__(self, messages: Messages) -> str:
                await asyncio.sleep(0)
                return answer(evidence_text(messages))

        return nullcontext(Model())


class TestSyncTextModel(JudgeContract):
    """An object whose `complete` blocks."""

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the object."""

        class Model:
            def complete(self, prompt: Prompt, /) -> Reply:
                text = answer(evidence_text([message.to_chat() for message in prompt.messages]))
                return Reply(text=text, usage={"input_tokens": 10, "output_tokens": 5})

        return nullcontext(Model())


class TestDeepEvalModel(JudgeContract):
    """A model of DeepEval, which takes one text."""

    takes_images = False
    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the model."""

        class Model:
            def get_model_name(self) -> str:
                return "mine"

            def generate(self, prompt: str, schema: Any = None) -> tuple[str, float]:
                assert schema is not None  # what a model makes of it is its own business
                return answer(prompt.partition("\n\n")[2]), 0.1

        return nullcontext(Model())


class TestModelWithSchema(JudgeContract):
    """A model that demands a schema, and returns an object of it; only the async method is its own."""

    takes_images = False
    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the model."""

        class Model:
            async def a_generate(self, prompt: str, schema: type[BaseModel]) -> Any:
                text = answer(prompt.partition("\n\n")[2])
                # A reply of another form is a text, as of a model that ignores the schema.
                return schema.model_validate_json(text) if text.startswith("{") else text

            def generate(self, *_: Any) -> Any:
                raise AssertionError

        return nullcontext(Model())


class TestChatModel(JudgeContract):
    """An object with `ainvoke` and `invoke`, as the chat models of LangChain are; also its content in parts."""

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the model."""

        class Model:
            async def ainvoke(self, messages: Messages) -> Any:
                text = answer(evidence_text(messages))
                parts = [text[:5], {"type": "text", "text": text[5:]}, {"type": "reasoning", "reasoning": "hm"}]
                usage = {"input_tokens": 3, "output_tokens": 2, "details": {}}
                return SimpleNamespace(content=parts, usage_metadata=usage)

            def invoke(self, *_: Any) -> Any:
                raise AssertionError

            def generate(self, *_: Any) -> Any:
                raise AssertionError

        return nullcontext(Model())


class TestSyncInvoke(JudgeContract):
    """An object whose `invoke` returns the text."""

    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the model."""
        return nullcontext(SimpleNamespace(invoke=lambda messages: answer(evidence_text(messages))))


class TestInvoker(JudgeContract):
    """An object with `invoke`, as models of gllm-inference are."""

    takes_images = False
    reports_usage = False

    def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
        """Return the judge that the metric of `compat.gllm_evals` makes of the object."""

        async def invoke(prompt: str) -> Any:
            return SimpleNamespace(text=answer(prompt.partition("\n\n")[2]))

        judge = DeepEvalToolCorrectnessMetric(model=SimpleNamespace(invoke=invoke, model_id="openai/x"))._judge
        assert judge is not None
        return nullcontext(judge)


@needs_openai
class TestChat(JudgeContract):
    """OpenAI's Chat Completions over HTTP."""

    api: ClassVar[str] = "chat"

    @contextmanager
    def judge(self, answer: Answer) -> Generator[JudgeLike, None, None]:
        """Yield a judge of an endpoint that plays the answers."""
        with FakeOpenAI(answer=lambda request: answer(request.text)) as server:
            yield OpenAIJudge("m", api=self.api, base_url=server.base_url, max_attempts=1)


class TestResponses(TestChat):
    """OpenAI's Responses API over HTTP."""

    api = "responses"


class TestBatch(TestChat):
    """OpenAI's Batch API over HTTP."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("toolgrade.judge.openai.batch._QUIET_SECONDS", 0.1)
        self.path = tmp_path / "verdicts.sqlite"

    @contextmanager
    def judge(self, answer: Answer) -> Generator[JudgeLike, None, None]:
        """Yield the same judge with batches."""
        with super().judge(answer) as model:
            judge = Judge(model, cache=self.path, batch=BatchOptions(status_check_interval=0))  # type: ignore[arg-type]
            yield judge
            judge._cache.close()  # type: ignore[union-attr]


WRONG: dict[str, Callable[[Answer, str], str]] = {
    "test_many_questions_at_once": lambda answer, _: answer("question 1."),
    "test_verdict": lambda answer, text: answer(text)[:-1],
    "test_model_that_fails": lambda answer, _: answer("good"),
}


@pytest.mark.parametrize("test", WRONG)
def test_a_wrong_judge_fails(test: str) -> None:
    """A judge that mixes answers up, truncates them or hides errors does not pass."""

    class Wrong(TestFunction):
        def judge(self, answer: Answer) -> AbstractContextManager[JudgeLike]:
            return nullcontext(lambda messages: WRONG[test](answer, evidence_text(messages)))

    with pytest.raises(AssertionError):
        getattr(Wrong(), test)()
