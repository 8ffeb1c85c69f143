"""Faults in any function of the recorder of `@observe`: none of them reaches the agent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from toolgrade import observe
from toolgrade.capture import Request, builder, call_builder, current_run, record, recorder, records, request_pairing
from toolgrade.capture.observation import decorator, spans
from toolgrade.testing.tool_doubles import ADD

MODULES = (builder, call_builder, recorder, records, request_pairing, spans, decorator)

#: What is not called while an agent runs, or is a guard itself (those marked as such too), or the caller's own code.
LEFT_OUT = {
    *("record", "listening", "run", "observe", "guarded", "__init__", "__enter__", "__exit__"),
    *("returned", "begin_span", "_wrap", "_wrap_generator", "_wrap_async_generator", "current_run", "current_span"),
    *("_check_function", "_check_type", "_check_metrics", "_argument_namer", "_is_method"),
}


class PlantedError(Exception):
    """The fault."""


def _functions(module: ModuleType) -> Iterator[tuple[Any, str]]:
    """Yield the functions and methods that a module defines, each with its owner."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) and not hasattr(value, "__wrapped__"):
            yield module, name
        elif inspect.isclass(value):
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not hasattr(function, "__wrapped__") and method[:2] != "__":
                    yield value, method


POINTS = [
    (owner, name)
    for module in MODULES
    for owner, name in _functions(module)
    if name not in LEFT_OUT and owner is not decorator.CurrentRun  # whose methods only call a guarded function
]


@observe(tool=True)
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@observe(tool=True)
def fail() -> None:
    """Fail."""
    raise ValueError("the tool's own error")


def work() -> str:
    """Report all events, and call tools."""
    run = current_run()
    run.offered([ADD.spec])
    run.model_used("m", {"tokens": 1})
    run.model_asked([Request("add", {"a": 1}, "c1"), Request("transfer_to_bob", {}, "h1")], agent="alice")
    run.result_shown(add(1), call_id="c1")
    run.handed_off(to="bob", call_id="h1")
    run.warn("look")
    with pytest.raises(ValueError, match="own error"):
        fail()
    return "done"


@observe
def plain(_question: str) -> str:
    """A plain agent."""
    return work()


@observe
async def coroutine(_question: str) -> str:
    """An agent in an event loop."""
    return work()


@observe
def generator(_question: str) -> Iterator[str]:
    """An agent that streams."""
    yield work()


@observe
async def async_generator(_question: str) -> AsyncIterator[str]:
    """An agent that streams in an event loop."""
    yield work()


async def _joined() -> str:
    return "".join([piece async for piece in async_generator("hi")])


AGENTS: dict[str, Callable[[], str]] = {
    "plain": lambda: plain("hi"),
    "coroutine": lambda: asyncio.run(coroutine("hi")),
    "generator": lambda: "".join(generator("hi")),
    "async generator": lambda: asyncio.run(_joined()),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_no_fault_reaches_the_agent(agent: str) -> None:
    """Whatever raises in the recorder, the agent answers, and the errors of its tools stay its own."""
    raised: set[str] = set()
    for owner, name in POINTS:
        with record() as recording, pytest.MonkeyPatch.context() as patch:

            def broken(*_args: object, _name: str = name, **_kwargs: object) -> None:
                raised.add(_name)
                raise PlantedError(_name)

            patch.setattr(owner, name, broken)
            try:
                answer = AGENTS[agent]()
            except PlantedError:
                pytest.fail(f"a fault in {owner.__name__}.{name} reached the agent")
        assert answer == "done", f"{owner.__name__}.{name}"
        for run in recording.runs:  # what was recorded can be read
            run.to_test_case().to_json()
    assert len(raised) > 40


def test_values_that_raise_stay_marked() -> None:
    """An argument whose conversion raises does not cost its call, and says what it is."""

    class Hostile:
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    with record() as recording:

        @observe
        def agent(_question: str) -> int:
            value: Any = Hostile()
            current_run().model_asked([Request("add", {"a": value}, "c1"), Request("add", {"a": 1}, "c2")])
            current_run().result_shown(value, call_id="c1")
            return add(1)

        agent("hi")

    run = recording.last_run
    assert [(call.name, call.id) for call in run.calls] == [("add", "c1"), ("add", "c2")]
    assert "Hostile" in str(run.calls[0].arguments["a"])
    assert any("Hostile" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    "report",
    [
        lambda run: run.offered(5),
        lambda run: run.warn(5),
        lambda run: run.handed_off(to=5, call_id="c1"),
        lambda run: run.model_used(5, {"a": "x", 5: 5}),
        lambda run: run.model_used("m", {"tokens": 10**5000}),
        lambda run: run.model_used("m", 7),
        lambda run: run.model_asked(5),
        lambda run: run.model_asked([5]),
        lambda run: run.model_asked([Request(5, {}, [1], type="x", server=5, reasoning=5)], agent=5),
        lambda run: run.result_shown(1, call_id=[1]),
    ],
)
def test_wrong_types_are_warnings(report: Callable[[Any], None]) -> None:
    """What has the wrong type is a warning, and the run can be read."""

    @observe
    def agent(_question: str) -> str:
        current_run().model_asked([Request("add", {"a": 1}, "c1")])
        report(current_run())
        return "done"

    with record() as recording:
        assert agent("hi") == "done"

    run = recording.last_run
    assert run.warnings
    assert run.calls[0].name == "add"
    run.to_test_case().to_json()


@pytest.mark.parametrize("wrong", [[5], "add", [None, Request("add", {"a": 1}, "c1")]])
def test_requests_of_a_wrong_type_cost_no_later_call(wrong: Any) -> None:
    """Calls of tools after them are recorded."""

    @observe
    def agent(_question: str) -> int:
        current_run().model_asked(wrong)
        return add(1) + add(2)

    with record() as recording:
        agent("hi")

    run = recording.last_run
    assert [call.input_parameters for call in run.calls] == [{"a": 1}, {"a": 2}]
    assert len(run.warnings) == 1


def test_many_requests_of_a_wrong_type_are_one_warning() -> None:
    """A text by mistake has as many requests as letters: a warning for each would stall the agent."""

    @observe
    def agent(_question: str) -> None:
        current_run().model_asked("x" * 200_000)  # type: ignore[arg-type]

    with record() as recording:
        agent("hi")

    assert recording.last_run.warnings == ["requests[0] must be a Request, got 'x'; 200,000 requests left out"]
