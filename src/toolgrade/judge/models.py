"""Models that a `Judge` can ask: what `judge=` accepts, resolved to one interface, and a request to it."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, TypeAlias, TypeVar, cast

from toolgrade._internal.json import JsonObject, short_repr, to_json_value
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge.cost import Prices
from toolgrade.judge.protocol import DeepEvalModel, JudgeFunction, Prompt, Reply, TextModel

T = TypeVar("T")

ModelLike: TypeAlias = "str | TextModel | DeepEvalModel | JudgeFunction"
"""The name of an OpenAI model, an object with `complete`, a `DeepEvalBaseLLM`, or a plain function."""


def check_model(model: object) -> ModelLike | None:
    """Return a model as it is, or `None`.

    Raises:
        ConfigurationError: It cannot judge.
    """
    can_judge = isinstance(model, (TextModel, DeepEvalModel)) or callable(model)
    is_name = isinstance(model, str) and model != ""
    # A class is callable, but it is not a judge.
    if (model is None or is_name or can_judge) and not isinstance(model, type):
        return cast("ModelLike | None", model)
    kinds = "the name of a model, an object with complete, a DeepEvalBaseLLM, a function from messages to text"
    raise ConfigurationError(f"a judge must be {kinds}, or a Judge; got {short_repr(model)}")


def resolve_model(model: ModelLike | None) -> TextModel:
    """Return the object to ask; `None` stands for the `TOOLGRADE_JUDGE_*` variables. Nothing is sent yet.

    Raises:
        ConfigurationError: No model is configured.
    """
    if not isinstance(model, str | None):
        if isinstance(model, TextModel):
            return model
        if isinstance(model, DeepEvalModel):  # its `generate` returns a text, or a text with its cost
            return OneTextModel(getattr(model, "a_generate", None) or model.generate, "a DeepEvalBaseLLM")
        return _FunctionModel(model)
    from toolgrade.judge.openai import OpenAIJudge  # noqa: PLC0415 - only if needed
    from toolgrade.judge.openai.models import judge_from_environment  # noqa: PLC0415 - only if needed

    client = judge_from_environment() if model is None else OpenAIJudge(model)
    if client is None:
        advice = (
            "give judge= the name of a model, a judge or a function, or set TOOLGRADE_JUDGE_MODEL; see docs/judge.md"
        )
        raise ConfigurationError(f"no judge is configured: {advice}")
    return client


def is_paced(model: ModelLike | None) -> bool:
    """Return whether a model limits its own concurrency and time; those behind OpenAI's API do."""
    return isinstance(model, str | None) or getattr(model, "paced", False) is True


def model_name(model: ModelLike | None) -> str:
    """Return the name of a model, as far as it is known before it answers."""
    if model is None:
        return os.environ.get("TOOLGRADE_JUDGE_MODEL", "")
    if isinstance(model, DeepEvalModel):
        return model.get_model_name()
    name = model if isinstance(model, str) else getattr(model, "model", None)
    if name and isinstance(name, str):
        return name
    return getattr(model, "__qualname__", None) or type(model).__qualname__


def identity_of(model: object) -> JsonObject | None:
    """Return a model's own `identity`, see `TextModel`."""
    identity = getattr(model, "identity", None)
    return cast("JsonObject", to_json_value(dict(identity))) if isinstance(identity, Mapping) else None


def prices_of(model: object) -> Prices:
    """Return a model's own `prices`, see `TextModel`; empty if it has none."""
    prices = getattr(model, "prices", None)
    return cast("Prices", prices) if isinstance(prices, Mapping) else {}


async def request_reply(model: TextModel, prompt: Prompt) -> Reply:
    """Return a model's reply to a prompt.

    Raises:
        JudgeError: The model raised it, or returned a value of another type.
    """
    return _check_type(await _call(model.complete, prompt), Reply)


class _FunctionModel:
    """A plain function as a model."""

    def __init__(self, function: JudgeFunction) -> None:
        self._function = function

    async def complete(self, prompt: Prompt, /) -> Reply:
        text = await _call(self._function, [message.to_chat() for message in prompt.messages])
        return Reply(text=_check_type(text, str))


class OneTextModel:
    """A model that takes one text and returns one, without images.

    Args:
        ask: The function to ask, sync or async. It returns the text, a tuple that begins with it, or an object that has
            it as `text`.
        kind: What the model is, for messages.
        identity: See `TextModel`.
    """

    def __init__(self, ask: Callable[[str], object], kind: str, identity: JsonObject | None = None) -> None:
        self._ask = ask
        self._kind = kind
        self.identity = identity

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the reply to all messages as one text; see `TextModel.complete`."""
        if any(not isinstance(part, str) for message in prompt.messages for part in message.parts):
            raise JudgeError(f"{self._kind} takes no images; use a judge that does", JudgeOutcome.MALFORMED)
        answer = await _call(self._ask, "\n\n".join(str(message.content) for message in prompt.messages))
        text = answer[0] if isinstance(answer, tuple) else getattr(answer, "text", answer)
        return Reply(text=_check_type(text, str))


async def _call(function: Callable[..., T | Awaitable[T]], *args: object) -> T:
    """Return what a sync or async function returns; a sync one runs in a thread, so that the event loop goes on."""
    # An object with an async `__call__` is not a coroutine function itself.
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    value = function(*args) if is_async else await _run_in_thread(lambda: function(*args))
    if inspect.isawaitable(value):
        awaited: T = await value
        return awaited
    return value


def _check_type(value: object, expected: type[T]) -> T:
    if not isinstance(value, expected):
        got = f"{type(value).__name__} {short_repr(value)}"
        raise JudgeError(f"the judge must return a {expected.__name__}, got {got}", JudgeOutcome.MALFORMED, attempts=1)
    return value


async def _run_in_thread(function: Callable[[], T]) -> T:
    """Return what a blocking function returns, run in this context in a thread of its own.

    One thread per call, since the loop's pool has few; a daemon, so that a call that hangs keeps no process alive.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # nobody can cancel it from now on, so that its result can always be set
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function))
        except StopIteration as error:  # asyncio's futures cannot carry it
            future.set_exception(RuntimeError(f"the judge raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)

    threading.Thread(target=run, name="toolgrade-judge-function", daemon=True).start()
    return await asyncio.wrap_future(future)


async def run_isolated(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns, awaited in an empty context: no context variable of the caller is set in it.

    Recorders, callbacks and traces of agent frameworks find their run by context variables. A judge that is asked while
    an agent runs is not part of that run, so it must not inherit them.

    Args:
        work: A function without parameters that returns what to await, such as an async function.

    Example:
        >>> import asyncio
        >>> from contextvars import ContextVar
        >>> from toolgrade.judge import run_isolated
        >>> recorder = ContextVar("recorder", default="no recorder")
        >>> async def judge():
        ...     return recorder.get()
        >>> async def agent():
        ...     recorder.set("recorder of the agent")
        ...     return await judge(), await run_isolated(judge)
        >>> asyncio.run(agent())
        ('recorder of the agent', 'no recorder')
    """
    return await Context().run(lambda: asyncio.ensure_future(work()))
