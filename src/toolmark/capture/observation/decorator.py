"""`@observe`: functions of plain Python that are seen as components and tools of an agent.

```python
from toolmark import ToolCall, ToolCorrectnessMetric, observe
from toolmark.capture import record


@observe(tool=True)
def add(a: int, b: int = 2) -> int:
    return a + b


@observe
def agent(question: str) -> str:
    return f"It is {add(1)}."


with record() as recorder:
    agent("What is 1 + 2?")

case = recorder.test_case(expected_tools=[ToolCall(name="add", input_parameters={"a": 1})])
assert float(ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case)) == 1
```

Where nobody listens, an observed function does what it did before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, ParamSpec, TypeVar, overload

from toolmark.calls import ToolCall, ToolCallType, ToolSpec
from toolmark.capture.builder import RunBuilder
from toolmark.capture.observation.listeners import begin
from toolmark.capture.observation.spans import Observable, current, error_text
from toolmark.capture.records import Key, Request
from toolmark.cases import LLMTestCase
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.expect import ExpectedTools
from toolmark.matching.json_compare import ABSENT

_ABANDONED: Final = "the stream was not read to its end"

P = ParamSpec("P")
R = TypeVar("R")


@overload
def observe(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def observe(
    *,
    name: str | None = None,
    tool: bool = False,
    type: ToolCallType | str | None = None,
    hide: Iterable[str] = (),
    metrics: Iterable[object] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def observe(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    tool: bool = False,
    type: ToolCallType | str | None = None,
    hide: Iterable[str] = (),
    metrics: Iterable[object] = (),
) -> Any:  # the overloads say what
    """Have calls of a function seen: of a component of an agent, or of one of its tools.

    The outermost observed function that is called makes a run, and the tools called inside are its calls, with origin
    `code` unless a model asked for them (see `current_run`). A tool called inside a tool is a child of that call. It
    works on plain, `async`, generator and async generator functions; of a generator, what it yielded counts as what it
    returned: one text if all pieces are text, else a list. Recording never raises into the function.

    Args:
        function: The function; or leave it out, and use `@observe(...)`.
        name: Name of the component or tool; by default the function's.
        tool: Calls are tool calls. Arguments are kept by name, as they were handed over, before defaults; without
            `self` and `cls`, those of `**kwargs` among the others.
        type: Who runs the tool.
        hide: Names of arguments that are none of the call, such as a connection.
        metrics: What scores the component each time it runs; `evaluate(observed_callback=...)` reports it, and
            `recorder.components` gives the cases.

    Raises:
        ConfigurationError: It is no function whose arguments have names, or the options do not fit.
    """
    if function is None:
        return functools.partial(_decorated, name=name, tool=tool, type=type, hide=hide, metrics=metrics)
    return _decorated(function, name=name, tool=tool, type=type, hide=hide, metrics=metrics)


def update_current_span(
    *,
    test_case: LLMTestCase | None = None,
    input: str | None = None,
    output: str | None = None,
    expected_output: str | None = None,
    tools_called: Sequence[ToolCall] | None = None,
    expected_tools: ExpectedTools | None = None,
    available_tools: Sequence[object] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Say of the innermost observed function that runs what its case is, in place of what was observed.

    It counts where that function is a run or has metrics, since nobody else has a case. Where nobody listens, it does
    nothing; what cannot be read is left out, with a warning on the run.

    Args:
        test_case: Fields that are set in it are those of the case. Without `tools_called` in it, these are the calls
            that were observed; where there was none either, they count as unknown.
        input: What it was asked; it wins over `test_case`, as do all that follow.
        output: What it answered.
        expected_output: What it should have answered.
        tools_called: What it called.
        expected_tools: What it should have called.
        available_tools: What it could have called.
        metadata: Anything else.
    """
    span = current()
    if span is None:
        return
    given: dict[str, Any] = {
        "input": input,
        "actual_output": output,
        "expected_output": expected_output,
        "tools_called": tools_called,
        "expected_tools": expected_tools,
        "available_tools": available_tools,
        "metadata": metadata,
    }
    try:
        said = {} if test_case is None else _said_by(test_case)
        case = LLMTestCase(**{name: value for name, value in given.items() if value is not None})
        said |= {name: getattr(case, name) for name in case.model_fields_set}
    except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
        text = f"update_current_span was given what it cannot read, which was left out: {error_text(error)}"
        span.tell(lambda builder, _: builder.warn(text))
    else:
        span.said.update(said)


def _said_by(test_case: object) -> dict[str, Any]:
    """Return the fields that a case says; no calls in it say nothing."""
    if not isinstance(test_case, LLMTestCase):
        raise InvalidDataError(f"test_case must be an LLMTestCase, got {type(test_case).__name__}")
    said = {name: getattr(test_case, name) for name in test_case.model_fields_set if name != "run"}
    return said if said.get("tools_called") is not None else {**said, "tools_called": ABSENT}


class CurrentRun:
    """What an agent without a framework may tell of the run that goes on here; see `current_run`.

    Where nobody listens, nothing happens, and nothing is ever raised.
    """

    def offered(self, tools: Iterable[ToolSpec | Mapping[str, Any]]) -> None:
        """The model can choose from these tools, and no others; in any form that `ToolSpec` reads."""
        kept = list(tools)
        _tell(lambda builder, tool: builder.offered(kept, scope=tool))

    def model_asked(self, requests: Iterable[Request], *, agent: str | None = None) -> None:
        """A model message arrived, asking for these calls, in its order; with none, it merely answered.

        The observed tool that is then called with equal arguments is the same call, which has the model as its origin.
        """
        kept = list(requests)
        _tell(lambda builder, tool: builder.model_asked(kept, scope=tool, agent=agent))

    def model_used(self, model: str | None = None, usage: Mapping[str, int] | None = None) -> None:
        """A model answered; token counts are summed by name."""
        _tell(lambda builder, _: builder.model_used(model, dict(usage or {})))

    def result_shown(
        self, content: object, *, call_id: str | None = None, name: str | None = None, failed: bool = False
    ) -> None:
        """The model was shown a result, of the call of this id or, without an id, of this name."""

        def tell(builder: RunBuilder, tool: Key | None) -> None:
            if not builder.result_shown(content, call_id=call_id, name=name, failed=failed, scope=tool):
                builder.warn(f"a result was shown of a call that was not seen (id {call_id!r}, name {name!r})")

        _tell(tell)

    def handed_off(self, *, to: str, call_id: str | None = None) -> None:
        """The call of this id passed control to another agent."""
        _tell(lambda builder, tool: builder.handed_off(to=to, call_id=call_id, scope=tool))

    def warn(self, text: str) -> None:
        """Something is not in the record; every score of this run will say so."""
        _tell(lambda builder, _: builder.warn(text))


def current_run() -> CurrentRun:
    """Return what an observed function may tell of the run it is part of, such as what a model asked for."""
    return CurrentRun()


def _tell(what: Callable[[RunBuilder, Key | None], object]) -> None:
    span = current()
    if span is not None:
        span.tell(what)


def _decorated(
    function: object,
    *,
    name: str | None,
    tool: bool,
    type: ToolCallType | str | None,
    hide: Iterable[str],
    metrics: Iterable[object],
) -> Callable[..., Any]:
    plain = _checked_function(function)
    said = name or getattr(getattr(plain, "func", plain), "__name__", None) or plain.__class__.__name__
    if type is not None and not tool:
        raise ConfigurationError(f"type={type!r} says who runs a tool, and {said!r} is none; add tool=True")
    source = f"{getattr(plain, '__module__', '')}.{getattr(plain, '__qualname__', said)}"
    of = Observable(said, tool, _tool_type(type), _checked_metrics(metrics, said), source)
    arguments = _arguments_of(plain, frozenset([hide] if isinstance(hide, str) else hide))
    wrapper = _wrapper(plain, of, arguments)
    functools.update_wrapper(wrapper, plain)
    wrapper.__observed__ = of  # type: ignore[attr-defined]
    return wrapper


def _checked_function(function: object) -> Callable[..., Any]:
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise ConfigurationError(f"@observe stands above @{kind}, which hides the function; put it below")
    if isinstance(function, type):
        raise ConfigurationError(f"@observe is for functions, got the class {function.__name__!r}; observe its methods")
    if not callable(function):
        raise ConfigurationError(f"@observe is for functions, got {type(function).__name__} {function!r:.60}")
    return function


def _tool_type(value: ToolCallType | str | None) -> ToolCallType | None:
    try:
        return None if value is None else ToolCallType(value)
    except ValueError:
        known = ", ".join(repr(kind.value) for kind in ToolCallType)
        raise ConfigurationError(f"type must be one of {known}, got {value!r}") from None


def _checked_metrics(metrics: object, name: str) -> tuple[object, ...]:
    found = tuple(metrics) if isinstance(metrics, Iterable) else (metrics,)
    for metric in found:
        lacking = [method for method in ("label", "threshold", "measure", "a_measure") if not hasattr(metric, method)]
        if isinstance(metric, type) or lacking:
            raise ConfigurationError(f"metrics of {name!r} must be metrics, such as ToolUseMetric(...), got {metric!r}")
    return found


_Arguments = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]


def _arguments_of(function: Callable[..., Any], hidden: frozenset[str]) -> _Arguments:
    """Return what names the arguments of a call."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        message = f"the arguments of {function!r} have no names that can be seen; observe a function that calls it"
        raise ConfigurationError(message) from None
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and _is_method(function):
        hidden |= {parameters[0].name}
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            named = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:  # the call itself is about to fail: what it was handed, as far as it has names
            named = {**dict(zip(positional, args, strict=False)), **kwargs}
        else:
            extra = named.pop(others, {}) if others is not None else {}
            named |= {others: extra} if others is not None and extra.keys() & named.keys() else extra
        return {name: value for name, value in named.items() if name not in hidden}

    return arguments


def _is_method(function: Callable[..., Any]) -> bool:
    """Return whether a function is written inside a class."""
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _wrapper(function: Callable[..., Any], of: Observable, arguments: _Arguments) -> Callable[..., Any]:
    """Return the observed function, of the same kind as the plain one."""
    plain = inspect.isroutine(function) or isinstance(function, functools.partial)
    called: object = function if plain else getattr(function, "__call__")  # noqa: B004, B009 - an object with a method
    if inspect.isasyncgenfunction(called):
        return _async_stream(function, of, arguments)
    if inspect.isgeneratorfunction(called):
        return _stream(function, of, arguments)
    if inspect.iscoroutinefunction(called):

        async def acall(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            span = begin(of, lambda: arguments(args, kwargs))
            if span is None:
                return await function(*args, **kwargs)
            with span:
                result = await function(*args, **kwargs)
            return span.returned(result)

        return acall

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        span = begin(of, lambda: arguments(args, kwargs))
        if span is None:
            return function(*args, **kwargs)
        with span:
            result = function(*args, **kwargs)
        return span.returned(result)

    return call


def _stream(function: Callable[..., Any], of: Observable, arguments: _Arguments) -> Callable[..., Any]:
    """Observe a generator function: it is the span's turn while the generator runs, not while it waits to go on."""

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401 - as the function
        span = begin(of, lambda: arguments(args, kwargs))
        if span is None:
            return (yield from function(*args, **kwargs))
        pieces: list[Any] = []
        with span:
            plain = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, plain)
        while True:
            with span:
                try:
                    piece = step()
                except StopIteration as end:
                    returned = end.value
                    break
            pieces.append(piece)
            try:
                sent = yield piece
            except GeneratorExit:
                with span:
                    plain.close()
                span.failed(GeneratorExit(_ABANDONED))
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is for the generator to handle
                step = functools.partial(plain.throw, thrown)
            else:
                step = functools.partial(plain.send, sent)
        span.returned(joined_pieces(pieces))
        return returned

    return stream


def _async_stream(function: Callable[..., Any], of: Observable, arguments: _Arguments) -> Callable[..., Any]:
    """Do what `_stream` does, for an async generator function."""

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401 - as the function
        span = begin(of, lambda: arguments(args, kwargs))
        turn = nullcontext() if span is None else span
        pieces: list[Any] = []
        with turn:
            plain = function(*args, **kwargs)
        step: Callable[[], Any] = plain.__anext__
        while True:
            with turn:
                try:
                    piece = await step()
                except StopAsyncIteration:
                    break
            if span is not None:
                pieces.append(piece)
            try:
                sent = yield piece
            except GeneratorExit:
                with turn:
                    await plain.aclose()
                if span is not None:
                    span.failed(GeneratorExit(_ABANDONED))
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is for the generator to handle
                step = functools.partial(plain.athrow, thrown)
            else:
                step = functools.partial(plain.asend, sent)
        if span is not None:
            span.returned(joined_pieces(pieces))

    return stream


def joined_pieces(pieces: Sequence[object]) -> object:
    """Return what a stream adds up to: one text if all pieces are text, else the list of them."""
    return "".join(map(str, pieces)) if pieces and all(isinstance(piece, str) for piece in pieces) else list(pieces)
