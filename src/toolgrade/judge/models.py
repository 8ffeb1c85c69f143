"""Models that a `Judge` can ask: what `judge=` accepts, resolved to one interface, and a request to it."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, create_model

from toolgrade._internal.json import JsonObject, json_text, short_repr, to_json_value
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge.cost import Prices
from toolgrade.judge.protocol import GeneratingModel, InvokableModel, JudgeFunction, Prompt, Reply, TextModel

T = TypeVar("T")

ModelLike: TypeAlias = "str | TextModel | GeneratingModel | InvokableModel | JudgeFunction"
"""The name of an OpenAI model, an object with `complete`, `generate` or `invoke`, or a plain function."""


def check_model(model: object) -> ModelLike | None:
    """Return a model as it is, or `None`.

    Raises:
        ConfigurationError: It cannot judge.
    """
    can_judge = isinstance(model, TextModel) or _asker(model) is not None
    is_name = isinstance(model, str) and model != ""
    # A class is callable, but it is not a judge.
    if (model is None or is_name or can_judge) and not isinstance(model, type):
        return cast("ModelLike | None", model)
    kinds = (
        "the name of a model, an object with complete, generate (a DeepEvalBaseLLM) or invoke, a function from messages"
    )
    raise ConfigurationError(f"a judge must be {kinds}, or a Judge; got {short_repr(model)}")


def resolve_model(model: ModelLike | None) -> TextModel:
    """Return the object to ask; `None` stands for the `TOOLGRADE_JUDGE_*` variables. Nothing is sent yet.

    Raises:
        ConfigurationError: No model is configured.
    """
    if isinstance(model, str | None):
        from toolgrade.judge.openai import OpenAIJudge  # noqa: PLC0415 - only if needed
        from toolgrade.judge.openai.client import judge_from_environment  # noqa: PLC0415 - only if needed

        client = judge_from_environment() if model is None else OpenAIJudge(model)
        if client is None:
            advice = "give judge= the name of a model, a judge or a function, or set TOOLGRADE_JUDGE_MODEL"
            raise ConfigurationError(f"no judge is configured: {advice}; see docs/judge.md")
        return client
    return model if isinstance(model, TextModel) else cast("TextModel", _asker(model))


def _asker(model: object) -> TextModel | None:
    """Return a model around an object with `generate` or `invoke`, or a function; `None` for any other object."""
    # Models of LangChain have both, and their `generate` takes lists of messages.
    invoke = getattr(model, "ainvoke", None) or getattr(model, "invoke", None)
    if callable(invoke):
        return MessagesModel(invoke)
    generate = getattr(model, "a_generate", None) or getattr(model, "generate", None)
    if callable(generate):
        return OneTextModel(generate, f"a {type(model).__name__}")
    return MessagesModel(model) if callable(model) else None


def is_paced(model: ModelLike | None) -> bool:
    """Return whether a model limits its own concurrency and time; those behind OpenAI's API do."""
    return isinstance(model, str | None) or getattr(model, "paced", False) is True


def model_name(model: ModelLike | None) -> str:
    """Return the name of a model, as far as it is known before it answers."""
    if model is None:
        return os.environ.get("TOOLGRADE_JUDGE_MODEL", "")
    get_name = getattr(model, "get_model_name", None)
    name = get_name() if callable(get_name) else getattr(model, "model", None)
    name = model if isinstance(model, str) else name
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


class MessagesModel:
    """A function from messages in the form of `Message.to_chat` to what has the text of the reply, see `_reply`."""

    def __init__(self, ask: Callable[[list[JsonObject]], object]) -> None:
        self._ask = ask

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the reply; see `TextModel.complete`."""
        return _reply(await _call(self._ask, [message.to_chat() for message in prompt.messages]))


class OneTextModel:
    """A model that takes one text and returns what has the text of the reply; it takes no images.

    Args:
        ask: The function to ask, sync or async. If it has an argument `schema`, it gets a class of pydantic with the
            fields of the reply, as DeepEval's models do.
        kind: What the model is, for messages.
        identity: See `TextModel`.
    """

    def __init__(self, ask: Callable[..., object], kind: str, identity: JsonObject | None = None) -> None:
        self._ask = ask
        self._kind = kind
        self.identity = identity

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the reply to all messages as one text; see `TextModel.complete`."""
        if any(not isinstance(part, str) for message in prompt.messages for part in message.parts):
            raise JudgeError(f"{self._kind} takes no images; use a judge that does", JudgeOutcome.MALFORMED)
        text = "\n\n".join(str(message.content) for message in prompt.messages)
        options = {"schema": _schema_class(prompt)} if _takes_schema(self._ask) else {}
        return _reply(await _call(self._ask, text, **options))


def _takes_schema(function: Callable[..., object]) -> bool:
    with suppress(TypeError, ValueError):  # a function in C may have no signature
        return "schema" in inspect.signature(function).parameters
    return False


def _schema_class(prompt: Prompt) -> type[BaseModel]:
    """Return the form of a reply as a class."""
    types: dict[str, Any] = {"reasoning": str, "text": str, "verdict": Literal["yes", "no", "cannot_tell"]}
    fields: dict[str, Any] = {name: (types.get(name, list[str]), ...) for name in prompt.reply_schema["properties"]}
    return create_model("Verdict", **fields)


def _reply(answer: object) -> Reply:
    """Return the reply in what a model returned.

    That is a text, an object of the reply's form, an object with the text as `content`, `text` or `response`, or a
    tuple that begins with one of these. A message of LangChain also has the tokens.

    Raises:
        JudgeError: There is no text.
    """
    value = answer[0] if isinstance(answer, tuple) and answer else answer
    counts = getattr(value, "usage_metadata", None)
    usage = {name: n for name, n in counts.items() if type(n) is int} if isinstance(counts, dict) else {}
    return Reply(text=_check_type(_text_in(value), str), usage=usage)


def _text_in(value: object) -> object:
    if isinstance(value, BaseModel) and "verdict" in type(value).model_fields:
        return value.model_dump_json()
    if isinstance(value, dict):
        return json_text(value)
    content = getattr(value, "content", getattr(value, "text", getattr(value, "response", value)))
    if isinstance(content, list):  # parts of a text, of which each may be a text
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return content


async def _call(function: Callable[..., T | Awaitable[T]], *args: object, **options: object) -> T:
    """Return what a sync or async function returns; a sync one runs in a thread, so that the event loop goes on."""
    # An object with an async `__call__` is not a coroutine function itself.
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    value = function(*args, **options) if is_async else await _run_in_thread(lambda: function(*args, **options))
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
