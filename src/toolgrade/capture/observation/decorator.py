"""`@observe`: records calls of plain Python functions as components and tools of an agent.

```python
from toolgrade import ToolCall, ToolCorrectnessMetric, observe
from toolgrade.capture import record


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

Without an active recorder, an observed function does what it did before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, overload

from toolgrade._internal.json import JsonObject
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import error_text
from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture.builder import RunBuilder
from toolgrade.capture.observation.replayable import replayable
from toolgrade.capture.observation.spans import (
    NoSpan,
    Observable,
    ObservedSpan,
    add_metrics,
    begin_span,
    current_span,
    guarded,
)
from toolgrade.capture.records import Key, Request
from toolgrade.cases import LLMTestCase, made_quietly
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.matching.json_compare import ABSENT

_ABANDONED: Final = "the stream was not read to its end"
_METRIC_ATTRIBUTES: Final = ("label", "threshold", "measure", "a_measure")

_Event: TypeAlias = "Callable[[RunBuilder, Key | None], object]"

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
    defaults: bool = False,
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
    defaults: bool = False,
    metrics: Iterable[object] = (),
) -> Any:  # the overloads have the types
    """Record calls of a function: of a component of an agent, or of one of its tools.

    A call of the outermost observed function is a run, and calls of tools inside it are its calls, with origin `code`
    unless a model requested them (see `current_run`). A tool called inside a tool is a child of that call. This works
    on plain, `async`, generator and async generator functions; the output of a generator is what it yielded: one text
    if all pieces are text, else a list. Recording never raises into the function.

    Args:
        function: The function; leave it out to use `@observe(...)`.
        name: Name of the component or tool; by default the function's.
        tool: Calls are tool calls. Arguments are recorded by name, as passed, before defaults, without `self` and
            `cls`; those of `**kwargs` are among them.
        type: Who runs the tool.
        hide: Names of arguments that are not part of the call, such as a connection.
        defaults: Record also the arguments that were left out, with their defaults.
        metrics: Metrics that score the component each time it runs; `evaluate(observed_callback=...)` reports them, and
            `recorder.components` has the cases.

    Raises:
        ConfigurationError: It is not a function whose arguments have names, or the options contradict each other.

    Example:
        >>> from toolgrade import observe
        >>> from toolgrade.capture import record
        >>> @observe(tool=True)
        ... def get_weather(city):
        ...     return f"It rains in {city}."
        >>> @observe
        ... def agent(question):
        ...     return get_weather("Paris")
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> [(call.name, call.input_parameters, call.output) for call in recorder.last_run.tools_called]
        [('get_weather', {'city': 'Paris'}, 'It rains in Paris.')]
    """

    def decorate(function: object) -> Callable[..., Any]:
        plain = _check_function(function)
        label = name or getattr(getattr(plain, "func", plain), "__name__", None) or plain.__class__.__name__
        if type is not None and not tool:
            raise ConfigurationError(f"type={type!r} needs a tool, and {label!r} is not one; add tool=True")
        source = f"{getattr(plain, '__module__', '')}.{getattr(plain, '__qualname__', label)}"
        observable = Observable(label, tool, _check_type(type), _check_metrics(metrics, label), source)
        hidden = frozenset([hide] if isinstance(hide, str) else hide)
        name_arguments = _argument_namer(plain, hidden, defaults=defaults)
        code = _code_of(plain)
        called = replayable(plain, code, observable, name_arguments) if tool else plain
        wrapper = _wrap(called, code, lambda args, kwargs: begin_span(observable, lambda: name_arguments(args, kwargs)))
        functools.update_wrapper(wrapper, plain)
        wrapper.__observed__ = observable  # type: ignore[attr-defined]
        return wrapper

    return decorate if function is None else decorate(function)


def update_case(read: Callable[[], JsonObject], *, whole: bool = False) -> None:
    """Set fields of the case of the innermost running observed function, in place of what was observed.

    This has an effect if that function is a run or has metrics, because others have no case, and only with an active
    recorder. If the changes cannot be read, the agent goes on, with a warning on the run, which is not measured.

    Args:
        read: Returns fields of `LLMTestCase`, of which those that are `None` are left out; and two other items.
            `test_case` sets each field that is set in it and is not among the fields; if it has no `tools_called`, the
            calls are those that were observed, or unknown if there are none. `metrics` are further metrics of the
            component, or of the run.
        whole: Set fields of the whole run, and not of a component that is the run.
    """
    span = current_span()
    if span is None:
        return
    try:
        fields = drop_none(read())
        test_case, metrics = fields.pop("test_case", None), fields.pop("metrics", ())
        changes = {} if test_case is None else _fields_of(test_case)
        case = made_quietly(LLMTestCase, fields)
        changes |= {name: getattr(case, name) for name in fields}
        checked = _check_metrics(metrics, span.observable.name)
    except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
        name = f"update_current_{'trace' if whole else 'span'}"
        span.lost(f"{name} left out an invalid value: {error_text(error)}")
        return
    if whole:
        for run in span.runs():
            run.of_run.update(changes)
            run.metrics_of_run.extend(checked)
    else:
        span.overrides.update(changes)
        if checked:
            add_metrics(span, checked)


def _fields_of(test_case: object) -> JsonObject:
    if not isinstance(test_case, LLMTestCase):
        raise InvalidDataError(f"test_case must be an LLMTestCase, got {type(test_case).__name__}")
    fields = {name: getattr(test_case, name) for name in test_case.model_fields_set if name != "run"}
    if fields.get("tools_called") is None:
        fields["tools_called"] = ABSENT
    return fields


class CurrentRun:
    """The current run, for agents without a framework to report events of; see `current_run`.

    Without an active recorder the methods do nothing. They never raise.

    Example:
        >>> from toolgrade import observe
        >>> from toolgrade.capture import Request, current_run, record
        >>> @observe
        ... def agent(question: str) -> str:
        ...     run = current_run()
        ...     run.model_asked([Request("get_weather", {"city": "Paris"}, id="c1")])
        ...     run.result_shown("sunny", call_id="c1")
        ...     return "It is sunny."
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> [(call.name, call.output) for call in recorder.last_run.calls]
        [('get_weather', 'sunny')]
    """

    def offered(self, tools: Iterable[ToolSpec | Mapping[str, Any]]) -> None:
        """Record the tools that the model can choose from, all of them, in any form that `ToolSpec` reads."""

        def prepare(_: ObservedSpan) -> _Event:
            specs = list(tools)
            return lambda builder, tool: builder.offered(specs, scope=tool)

        _report(prepare)

    def instructed(self, text: str | None) -> None:
        """Record a system prompt that the model was shown; an equal one counts once."""
        _report(lambda _: lambda builder, tool: builder.instructed(text, scope=tool))

    def model_asked(self, requests: Iterable[Request], *, agent: str | None = None) -> None:
        """Record a model message that requests these calls, in its order; without calls, it is an answer.

        A later call of an observed tool with equal arguments is the same call, and has the model as its origin. Of
        agents that run at the same time, each in an observed function, every agent has its own calls.
        """

        def prepare(span: ObservedSpan) -> _Event:
            calls = list(requests)
            span.add_message(calls)
            return lambda builder, tool: builder.model_asked(calls, scope=tool, agent=agent)

        _report(prepare)

    def model_used(self, model: str | None = None, usage: Mapping[str, int] | None = None) -> None:
        """Record an answer of a model; token counts are summed by name."""
        _report(lambda _: lambda builder, _: builder.model_used(model, dict(usage or {})))

    def result_shown(
        self, content: object, *, call_id: str | None = None, name: str | None = None, failed: bool = False
    ) -> None:
        """Record a result that the model received, of the call of this id or, without an id, of this name."""

        def prepare(span: ObservedSpan) -> _Event:
            requests = span.message_with(name=name, call_id=call_id)

            def report_result(builder: RunBuilder, tool: Key | None) -> None:
                if not builder.result_shown(
                    content, request=requests, call_id=call_id, name=name, failed=failed, scope=tool
                ):
                    builder.warn(f"a result has no recorded call (id {call_id!r}, name {name!r})")

            return report_result

        _report(prepare)

    def handed_off(self, *, to: str, call_id: str | None = None) -> None:
        """Record that the call of this id passed control to another agent."""
        _report(lambda _: lambda builder, tool: builder.handed_off(to=to, call_id=call_id, scope=tool))

    def warn(self, text: str) -> None:
        """Add a warning, which every result of this run repeats."""
        _report(lambda _: lambda builder, _: builder.warn(text))


def current_run() -> CurrentRun:
    """Return the run that the current observed function is part of, to report events such as requests of a model.

    Example:
        >>> from toolgrade import observe
        >>> from toolgrade.capture import current_run, record
        >>> @observe
        ... def agent(question: str) -> str:
        ...     current_run().model_used("gpt-4.1", {"input_tokens": 40, "output_tokens": 12})
        ...     return "It is sunny."
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> recorder.last_run.models, recorder.last_run.usage
        (['gpt-4.1'], {'input_tokens': 40, 'output_tokens': 12})
    """
    return CurrentRun()


@guarded
def _report(prepare: Callable[[ObservedSpan], _Event]) -> None:
    """Report the event that `prepare` returns to the current run; what cannot be reported is a warning on it."""
    span = current_span()
    if span is None:
        return
    try:
        event = prepare(span)
    except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
        span.warn(f"an event was not recorded: {error_text(error)}")
        return
    span.report(event)


def _check_function(function: object) -> Callable[..., Any]:
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise ConfigurationError(f"@observe stands above @{kind}, which hides the function; put it below")
    if isinstance(function, type):
        raise ConfigurationError(f"@observe is for functions, got the class {function.__name__!r}; observe its methods")
    if not callable(function):
        raise ConfigurationError(f"@observe is for functions, got {type(function).__name__} {function!r:.60}")
    return function


def _check_type(value: ToolCallType | str | None) -> ToolCallType | None:
    try:
        return None if value is None else ToolCallType(value)
    except ValueError:
        values = ", ".join(repr(member.value) for member in ToolCallType)
        raise ConfigurationError(f"type must be one of {values}, got {value!r}") from None


def _check_metrics(metrics: object, name: str) -> tuple[object, ...]:
    items = tuple(metrics) if isinstance(metrics, Iterable) else (metrics,)
    for metric in items:
        if isinstance(metric, type) or not all(hasattr(metric, attribute) for attribute in _METRIC_ATTRIBUTES):
            raise ConfigurationError(f"metrics of {name!r} must be metrics, such as ToolUseMetric(...), got {metric!r}")
    return items


_ArgumentNamer = Callable[[tuple[Any, ...], JsonObject], JsonObject]
_SpanBeginner = Callable[[tuple[Any, ...], JsonObject], ObservedSpan | NoSpan]
"""Begins the span of a call with these positional and named arguments."""


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        message = f"{function!r} must have a signature with argument names; observe a function that calls it"
        raise ConfigurationError(message) from None


def _receiver_of(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> frozenset[str]:
    """Return the name of the parameter for the object or class of a method; nothing for other functions."""
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    is_method = outer and not outer.endswith("<locals>")
    return frozenset({"self", "cls"}.intersection(p.name for p in parameters[:1])) if is_method else frozenset()


def _argument_namer(function: Callable[..., Any], hidden: frozenset[str], *, defaults: bool) -> _ArgumentNamer:
    """Return the function from the arguments of a call to an object of them by name."""
    signature = _signature_of(function)
    parameters = list(signature.parameters.values())
    hidden |= _receiver_of(function, parameters)
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")

    def name_arguments(args: tuple[Any, ...], kwargs: JsonObject) -> JsonObject:
        try:
            bound = signature.bind(*args, **kwargs)
            if defaults:
                bound.apply_defaults()
            arguments = dict(bound.arguments)
        except TypeError:  # the call itself is about to fail; its arguments are still recorded
            arguments = {**dict(zip(positional, args, strict=False)), **kwargs}
        else:
            extra = arguments.pop(keywords, {})
            # The arguments of `**kwargs` stay together if one repeats the name of a positional-only argument.
            arguments |= {keywords: extra} if extra.keys() & arguments.keys() else extra
        return {name: value for name, value in arguments.items() if name not in hidden}

    return name_arguments


def _code_of(function: Callable[..., Any]) -> object:
    """Return what shows of which kind (plain, async, generator) a function is: itself, or the method of an object."""
    is_plain = inspect.isroutine(function) or isinstance(function, functools.partial)
    return function if is_plain else getattr(function, "__call__")  # noqa: B004, B009


def _wrap(function: Callable[..., Any], code: object, begin: _SpanBeginner) -> Callable[..., Any]:
    """Return the observed function, of the same kind as `code`."""
    if inspect.isasyncgenfunction(code):
        return _wrap_async_generator(function, begin)
    if inspect.isgeneratorfunction(code):
        return _wrap_generator(function, begin)
    if inspect.iscoroutinefunction(code):

        async def acall(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            with (span := begin(args, kwargs)):
                result = await function(*args, **kwargs)
            return span.returned(result)

        return acall

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        with (span := begin(args, kwargs)):
            result = function(*args, **kwargs)
        return span.returned(result)

    return call


# The span of a generator is current only while the generator runs: between two pieces the caller runs, in its own span.


def _wrap_generator(function: Callable[..., Any], begin: _SpanBeginner) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401 - as the function
        span = begin(args, kwargs)
        if isinstance(span, NoSpan):
            return (yield from function(*args, **kwargs))
        pieces: list[Any] = []
        with span:
            generator = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            with span:
                try:
                    piece = step()
                except StopIteration as end:
                    result = end.value
                    break
            pieces.append(piece)
            try:
                value = yield piece
            except GeneratorExit:
                with span:
                    generator.close()
                span.failed(GeneratorExit(_ABANDONED))
                raise
            except BaseException as error:  # noqa: BLE001 - the generator handles it
                step = functools.partial(generator.throw, error)
            else:
                step = functools.partial(generator.send, value)
        span.streamed(pieces)
        return result

    return stream


def _wrap_async_generator(function: Callable[..., Any], begin: _SpanBeginner) -> Callable[..., Any]:
    # Unlike a plain generator, an async one cannot delegate with `yield from`, so a call without a span steps, too.
    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401 - as the function
        pieces: list[Any] = []
        with (span := begin(args, kwargs)):
            generator = function(*args, **kwargs)
        step: Callable[[], Any] = generator.__anext__
        while True:
            with span:
                try:
                    piece = await step()
                except StopAsyncIteration:
                    break
            if isinstance(span, ObservedSpan):  # else the pieces would only use memory
                pieces.append(piece)
            try:
                value = yield piece
            except GeneratorExit:
                with span:
                    await generator.aclose()
                span.failed(GeneratorExit(_ABANDONED))
                raise
            except BaseException as error:  # noqa: BLE001 - the generator handles it
                step = functools.partial(generator.athrow, error)
            else:
                step = functools.partial(generator.asend, value)
        span.streamed(pieces)

    return stream
