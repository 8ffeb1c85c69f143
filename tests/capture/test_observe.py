"""`@observe` on plain functions: threads, tasks, generators, failures and components."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from toolgrade import CallStatus, LLMTestCase, Run, RunStatus, ToolCall, ToolCallType, ToolCorrectnessMetric, observe
from toolgrade.calls import CallOrigin
from toolgrade.capture import Request, current_run, record
from toolgrade.compat.deepeval.tracing import update_current_span
from toolgrade.errors import ConfigurationError, NothingRecordedError

METRIC = ToolCorrectnessMetric()


@observe(tool=True)
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@observe(tool=True)
async def slow(x: int) -> str:
    """Take a while; the larger, the longer."""
    await asyncio.sleep(x / 1000)
    return f"slow {x}"


@observe(tool=True)
def boom(x: int) -> None:
    """Fail."""
    raise ValueError(f"boom {x}")


def names(run: Run) -> list[str]:
    """The names of the calls of a run."""
    return [call.name for call in run.calls]


def how(call: ToolCall) -> Any:
    """The execution of a call, which every recorded call has."""
    assert call.execution is not None
    return call.execution


def run_of(function: Any, *args: Any, **kwargs: Any) -> Run:
    """The run of one observed function."""
    with record() as recorder:
        function(*args, **kwargs)
    return recorder.last_run


# A run


def test_a_call_of_an_observed_run() -> None:
    """Arguments by name and before defaults, output, status, timing, origin."""

    @observe
    def agent(question: str) -> str:
        return f"{question}: {add(1)}"

    run = run_of(agent, "sum")

    assert (run.input, run.actual_output, run.status) == ("sum", "sum: 3", RunStatus.OK)
    (call,) = run.tools_called
    assert (call.name, call.input_parameters, call.output) == ("add", {"a": 1}, 3)
    assert (how(call).status, how(call).origin, how(call).executed) == (CallStatus.OK, CallOrigin.CODE, True)
    assert run.started_at <= how(call).started_at  # type: ignore[operator]
    assert 0 <= how(call).duration <= run.duration
    assert run.warnings == []


def test_without_a_listener_nothing_changes() -> None:
    """Results and exceptions are those of the function; nothing is stored."""
    assert add(1) == 3
    assert asyncio.run(slow(1)) == "slow 1"
    with pytest.raises(ValueError, match="boom 1"):
        boom(1)
    update_current_span(output="nobody")
    current_run().model_asked([Request("add")])
    with record() as recorder:
        pass
    with pytest.raises(NothingRecordedError, match="@observe inside"):
        _ = recorder.last_run


def test_a_tool_inside_a_tool_is_its_child() -> None:
    """Also when it is called through a component in between, and when a tool calls itself."""

    @observe
    def helper(x: int) -> int:
        return add(x)

    @observe(tool=True)
    def countdown(n: int) -> int:
        return helper(n) if n == 0 else countdown(n - 1)

    @observe
    def agent() -> None:
        countdown(2)

    (call,) = run_of(agent).calls
    path = []
    while True:
        path.append((call.name, call.input_parameters))
        if not how(call).children:
            break
        (call,) = how(call).children

    assert path == [("countdown", {"n": 2}), ("countdown", {"n": 1}), ("countdown", {"n": 0}), ("add", {"a": 0})]


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1,), {}, {"a": 1}),
        ((1, 2), {"c": 3, "other": 4}, {"a": 1, "b": 2, "c": 3, "other": 4}),
        ((1, 2, 5, 6), {"c": 3}, {"a": 1, "b": 2, "rest": [5, 6], "c": 3}),
        ((1,), {"a": 2}, {"a": 1, "more": {"a": 2}}),
        ((1,), {"db": object()}, {"a": 1}),
    ],
)
def test_arguments_by_name(args: Any, kwargs: Any, expected: Any) -> None:
    """However they are handed over; of the same name twice, none is lost, and hidden ones are none of the call."""

    @observe(tool=True, hide=["db"])
    def tool(a: int, /, b: int = 9, *rest: int, c: int = 8, **more: Any) -> None:
        """Take all kinds of arguments."""

    @observe
    def agent() -> None:
        tool(*args, **kwargs)

    run = run_of(agent)

    assert run.calls[0].input_parameters == expected
    assert run.warnings == []


def test_a_call_with_wrong_arguments_is_a_failed_call() -> None:
    """It has the passed arguments, and the exception is the function's own."""

    @observe
    def agent() -> None:
        add(1, 2, c=3)  # type: ignore[call-arg]

    with record() as recorder, pytest.raises(TypeError, match="unexpected keyword"):
        agent()

    (call,) = recorder.last_run.calls
    assert call.input_parameters == {"a": 1, "b": 2, "c": 3}
    assert how(call).status is CallStatus.ERROR
    assert how(call).error.startswith("TypeError: ")


def test_methods() -> None:
    """`self` and `cls` are not arguments, also for static methods."""

    class Shop:
        @observe(tool=True)
        def buy(self, item: str) -> str:
            return item

        @classmethod
        @observe(tool=True)
        def close(cls, hour: int) -> int:
            return hour

        @staticmethod
        @observe(tool=True)
        def open(hour: int) -> int:
            return hour

        @observe
        def agent(self, question: str) -> str:
            return self.buy(question) + str(self.close(1)) + str(Shop.open(2))

    run = run_of(Shop().agent, "tea")

    assert [call.input_parameters for call in run.calls] == [{"item": "tea"}, {"hour": 1}, {"hour": 2}]
    assert (run.input, run.actual_output) == ("tea", "tea12")
    assert run.warnings == []


def test_name_and_type() -> None:
    """As declared; partials and callable objects count as functions."""

    class Search:
        def __call__(self, query: str) -> str:
            return query

    hosted = observe(name="web", tool=True, type="hosted")(Search())
    partly = observe(tool=True)(functools.partial(add.__wrapped__, 1))  # type: ignore[attr-defined]

    @observe(name="shopper")
    def agent() -> str:
        return hosted("x") + str(partly(b=5))

    run = run_of(agent)

    assert [(call.name, call.type, call.input_parameters) for call in run.calls] == [
        ("web", ToolCallType.HOSTED, {"query": "x"}),
        ("add", None, {"b": 5}),
    ]


def test_errors_are_recorded_and_raised() -> None:
    """A handled exception is the error of the call, an unhandled one of the run as well."""

    @observe
    def agent(handled: bool) -> str:
        try:
            boom(1)
        except ValueError:
            if not handled:
                raise
        return "done"

    run = run_of(agent, handled=True)
    with record() as recorder, pytest.raises(ValueError, match="boom 1"):
        agent(handled=False)

    assert (run.status, run.actual_output) == (RunStatus.OK, "done")
    for one in (run, recorder.last_run):
        (call,) = one.calls
        assert (how(call).status, how(call).error) == (CallStatus.ERROR, "ValueError: boom 1")
        assert "output" not in call.model_fields_set
    assert (recorder.last_run.status, recorder.last_run.error) == (RunStatus.ERROR, "ValueError: boom 1")
    assert recorder.last_run.actual_output is None


def test_an_interrupt_is_a_stop() -> None:
    """An exception that is not an `Exception` stops the run and cancels the call."""

    @observe(tool=True)
    def stopped() -> None:
        raise KeyboardInterrupt

    @observe
    def agent() -> None:
        stopped()

    with record() as recorder, pytest.raises(KeyboardInterrupt):
        agent()

    assert how(recorder.last_run.calls[0]).status is CallStatus.CANCELLED
    assert recorder.last_run.status is RunStatus.STOPPED


def test_values_that_are_not_json() -> None:
    """They are stored as text with a warning; an unprintable value does not lose the call."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    @observe(tool=True)
    def tool(value: Any) -> Any:
        return value

    @observe
    def agent() -> dict[str, int]:
        for value in (object(), deep, Odd()):
            tool(value)
        return {"a": 1}

    run = run_of(agent)

    assert names(run) == ["tool"] * 3
    assert run.warnings
    assert run.actual_output == '{"a": 1}'


def test_a_run_without_a_function() -> None:
    """A block is a run; a tool outside of a run gives a warning."""
    with record(conversation="talk") as recorder:
        add(9)
        with recorder.run("What is 1 + 2?") as run:
            run.answer(add(1))

    run = recorder.last_run
    assert (run.input, run.actual_output, run.conversation_id) == ("What is 1 + 2?", "3", "talk")
    assert [call.input_parameters for call in run.calls] == [{"a": 1}]
    assert len(recorder.runs) == 1
    assert "'add' was called outside any observed run" in recorder.warnings[0]


def test_a_recorder_inside_a_run_records_as_well() -> None:
    """What is called inside is part of both; neither loses anything."""

    @observe
    def inner() -> int:
        return add(1)

    runs = []

    @observe
    def agent() -> None:
        with record() as other:
            inner()
        runs.append(other.last_run)
        add(2)

    run = run_of(agent)

    assert [call.input_parameters for call in runs[0].calls] == [{"a": 1}]
    assert [call.input_parameters for call in run.calls] == [{"a": 1}, {"a": 2}]


# What a model asked for


def test_model_requests_are_recorded() -> None:
    """An observed tool is the requested call; a request that does not run is a call as well."""

    @observe
    def agent() -> None:
        run = current_run()
        run.offered([{"name": "add", "input_schema": {"type": "object"}}])
        run.model_used("m", {"output_tokens": 3})
        run.model_asked([Request("add", {"a": 1}, "c1"), Request("nope", {}, "c2")])
        run.result_shown(str(add(1)), call_id="c1")
        run.result_shown("what?", call_id="c9")
        run.warn("half of it")

    run = run_of(agent)

    assert [(call.id, how(call).origin, how(call).status) for call in run.calls] == [
        ("c1", CallOrigin.MODEL, CallStatus.OK),
        ("c2", CallOrigin.MODEL, CallStatus.UNKNOWN_TOOL),
    ]
    assert (run.models, run.usage) == (["m"], {"output_tokens": 3})
    assert run.warnings == ["a result has no recorded call (id 'c9', name None)", "half of it"]


# Threads and tasks


def test_plain_thread_gives_a_warning() -> None:
    """Its calls have no run, and the current run warns that calls may be missing."""

    @observe
    def agent() -> str:
        thread = threading.Thread(target=add, args=(1,), name="plain")
        thread.start()
        thread.join()
        return "done"

    run = run_of(agent)

    assert run.calls == []
    (warning,) = run.warnings
    assert "'add' was called in a thread or context without an observed run" in warning
    assert "copy_context" in warning


def test_a_tool_that_ends_after_its_run() -> None:
    """Its end is recorded; until then the call is cancelled."""

    async def go() -> tuple[Run, Run]:
        waiting = []

        @observe
        async def agent() -> str:
            waiting.append(asyncio.create_task(slow(20)))
            await asyncio.sleep(0)
            return "done"

        with record() as recorder:
            await agent()
            early = recorder.last_run
            await waiting[0]
            return early, recorder.last_run

    early, late = asyncio.run(go())

    assert how(early.calls[0]).status is CallStatus.CANCELLED
    assert late.calls[0].output == "slow 20"


# Generators


def test_a_stream_of_text() -> None:
    """Calls inside belong to the stream, calls of its reader do not; the answer is the yielded text."""

    @observe
    def agent(question: str) -> Generator[str, None, None]:
        yield question
        yield f" {add(1)}"

    with record() as recorder:
        pieces = []
        for piece in agent("sum:"):
            pieces.append(piece)
            add(7)

    run = recorder.last_run
    assert (run.input, run.actual_output) == ("sum:", "sum: 3") == ("sum:", "".join(pieces))
    assert [call.input_parameters for call in run.calls] == [{"a": 1}]
    assert inspect.isgeneratorfunction(agent)


def test_generators_go_on_as_before() -> None:
    """`send`, `throw` and return values work as without `@observe`."""

    def plain() -> Generator[Any, Any, str]:
        got = yield 1
        try:
            yield got
        except KeyError as error:
            yield f"caught {error}"
        return "end"

    def used(function: Any) -> list[Any]:
        stream = function()
        pieces = [next(stream), stream.send("sent"), stream.throw(KeyError("k"))]
        with pytest.raises(StopIteration) as stop:
            next(stream)
        return [*pieces, stop.value.value]

    tool = observe(tool=True)(plain)

    @observe
    def agent() -> list[Any]:
        return used(tool)

    assert used(plain) == used(tool)
    run = run_of(agent)
    assert run.calls[0].output == [1, "sent", "caught 'k'"]
    assert json.loads(run.actual_output or "") == used(plain)


def test_an_async_stream() -> None:
    """It stays an async generator function; `asend` and `athrow` work."""

    @observe
    async def agent() -> AsyncGenerator[str, str]:
        got = yield await slow(1)
        try:
            yield got
        except KeyError as error:
            yield f", caught {error}"

    async def go() -> tuple[list[str], Run]:
        with record() as recorder:
            stream = agent()
            pieces = [await stream.__anext__(), await stream.asend(" and more"), await stream.athrow(KeyError("k"))]
            with pytest.raises(StopAsyncIteration):
                await stream.__anext__()
        return pieces, recorder.last_run

    pieces, run = asyncio.run(go())

    assert run.actual_output == "".join(pieces) == "slow 1 and more, caught 'k'"
    assert names(run) == ["slow"]
    assert inspect.isasyncgenfunction(agent)


def test_interleaved_streams_are_separate() -> None:
    """Each call belongs to the running stream, not to the newest one."""

    @observe
    def agent(n: int) -> Generator[str, None, None]:
        for k in range(3):
            add(n, k)
            yield f"{n}"

    with record() as recorder:
        for _ in zip(agent(1), agent(2), strict=True):
            pass

    assert [run.actual_output for run in recorder.runs] == ["111", "222"]
    for n, run in enumerate(recorder.runs, 1):
        assert [call.input_parameters for call in run.calls] == [{"a": n, "b": k} for k in range(3)]


@pytest.mark.parametrize("is_async", [False, True])
def test_closed_stream_was_stopped(is_async: bool) -> None:
    """Closing a stream stops the run; a streaming tool is a cancelled call."""

    @observe(tool=True)
    def tool() -> Generator[str, None, None]:
        yield "a"
        yield "b"

    @observe
    def agent() -> Generator[str, None, None]:
        yield from tool()

    @observe
    async def aagent() -> AsyncGenerator[str, None]:
        for piece in tool():
            yield piece.upper()

    async def go() -> None:
        stream = aagent()
        await stream.__anext__()
        await stream.aclose()

    with record() as recorder:
        if is_async:
            asyncio.run(go())
        else:
            stream = agent()
            next(stream)
            stream.close()

    assert recorder.last_run.status is RunStatus.STOPPED
    assert "not read to its end" in (recorder.last_run.error or "")
    assert how(recorder.last_run.calls[0]).status is CallStatus.CANCELLED


def test_a_stream_that_fails() -> None:
    """The exception is the run's, and reaches the reader."""

    @observe
    def agent() -> Generator[str, None, None]:
        yield "a"
        boom(1)

    with record() as recorder, pytest.raises(ValueError, match="boom 1"):
        list(agent())

    assert recorder.last_run.error == "ValueError: boom 1"


# Faults


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: observe(staticmethod(add)), "put it below"),
        (lambda: observe(dict), "got the class 'dict'"),
        (lambda: observe(3), "is for functions, got int 3"),  # type: ignore[call-overload]
        (lambda: observe(type="mcp")(len), "add tool=True"),
        (lambda: observe(tool=True, type="magic")(len), "type must be one of 'function'"),
        (lambda: observe(metrics=[ToolCorrectnessMetric])(len), "must be metrics"),
        (lambda: observe(metrics=METRIC)(len), None),
        (lambda: observe(metrics="good")(len), "must be metrics"),
        (lambda: observe(tool=True)(min), "must have a signature"),
    ],
)
def test_invalid_functions_are_refused(wrong: Any, message: str | None) -> None:
    """At decoration, with a remedy."""
    if message is None:
        assert wrong()([1]) == 1
        return
    with pytest.raises(ConfigurationError, match=message):
        wrong()


# Components


def test_a_component_is_a_case() -> None:
    """With its own calls, not those of its siblings; a tool has its child calls."""

    @observe(metrics=[METRIC])
    def inner(question: str) -> str:
        add(2)
        return question.upper()

    @observe(tool=True, metrics=[METRIC])
    def outer(x: int) -> str:
        add(3)
        return inner(f"x{x}")

    @observe
    def agent() -> str:
        add(1)
        return outer(5)

    with record() as recorder:
        agent()

    first, second = recorder.components
    assert (first.name, first.case.input, first.case.actual_output) == ("outer", '{"x": 5}', "X5")
    assert [call.input_parameters for call in first.case.tools_called or ()] == [{"a": 3}, {"a": 2}]
    assert (second.name, second.case.input, second.case.actual_output) == ("inner", "x5", "X5")
    assert [call.input_parameters for call in second.case.tools_called or ()] == [{"a": 2}]
    assert names(recorder.last_run) == ["add", "outer"]
    assert [call.name for call in how(recorder.last_run.calls[1]).children] == ["add", "add"]


def test_explicit_component_fields_win() -> None:
    """For each field; the fields of one component do not affect another."""

    @observe(metrics=[METRIC])
    def inner(details: dict[str, Any]) -> None:
        add(1)
        if details:
            update_current_span(**details)

    @observe
    def agent() -> None:
        inner({"input": "asked", "expected_tools": [ToolCall(name="add")], "metadata": {"k": 1}})
        inner({"test_case": LLMTestCase(input="a", actual_output="b"), "output": "c"})
        inner({"tools_called": [ToolCall(name="other")]})
        inner({})

    with record() as recorder:
        agent()

    one, two, three, four = (component.case for component in recorder.components)
    assert (one.input, one.metadata) == ("asked", {"k": 1})
    assert one.expected_tools == [ToolCall(name="add")]
    assert (two.input, two.actual_output) == ("a", "c")
    assert [[call.name for call in case.tools_called or ()] for case in (one, two, three, four)] == [
        ["add"],
        ["add"],
        ["other"],
        ["add"],
    ]
    assert four.expected_tools is None
    assert four.input == '{"details": {}}'


def test_a_case_that_says_nothing_of_calls() -> None:
    """If no call was observed either, the calls are unknown rather than empty."""

    @observe(metrics=[METRIC])
    def inner(fails: bool) -> None:
        if fails:
            update_current_span(test_case=LLMTestCase(input="a"))

    @observe
    def agent() -> None:
        inner(fails=True)
        inner(fails=False)

    with record() as recorder:
        agent()

    assert [component.case.tools_called for component in recorder.components] == [None, []]


def test_unreadable_values_are_left_out_with_a_warning() -> None:
    """The agent is not affected."""

    @observe
    def agent() -> str:
        update_current_span(test_case="case")  # type: ignore[arg-type]
        update_current_span(tools_called=[3])  # type: ignore[list-item]
        return "done"

    run = run_of(agent)

    assert run.actual_output == "done"
    assert [warning[:62] for warning in run.warnings] == [
        "update_current_span left out an invalid value: InvalidDataErro"
    ] * 2


def test_answer_of_a_run_can_be_set() -> None:
    """For functions that return another value or nothing."""

    @observe
    def agent(state: dict[str, str]) -> None:
        state["answer"] = "yes"
        update_current_span(output="yes", input="really?")

    run = run_of(agent, {})

    assert run.actual_output == "yes"


@pytest.mark.parametrize(
    ("limits", "warning"),
    [
        ({"limit": 3}, "more than 3 runs were stored, so the oldest were dropped; use pop() or a sink"),
        ({"limit_bytes": 400_000}, "more than 400,000 bytes of runs were stored, so the oldest were dropped; "),
    ],
)
def test_stored_runs_are_limited_by_number_and_size(limits: dict[str, int], warning: str) -> None:
    """The oldest go first; the newest stays, however large it is."""

    @observe(tool=True)
    def read_page(number: int) -> dict[str, str]:
        return {"text": str(number) * (1_000_000 if number == 9 else 100_000)}

    agent = observe(lambda question: read_page(int(question))["text"][:1])
    with record(**limits) as recorder:  # type: ignore[arg-type]
        for number in range(9):
            agent(str(number))
        assert [run.input for run in recorder.runs] == ["6", "7", "8"]
        agent("9")
        assert [run.input for run in recorder.runs] == (["9"] if "limit_bytes" in limits else ["7", "8", "9"])
        recorder.pop()
        agent("1")
        agent("2")
        assert [run.input for run in recorder.runs] == ["1", "2"]

    assert len(recorder.warnings) == 1
    assert recorder.warnings[0].startswith(warning)


@pytest.mark.parametrize("name", ["limit", "limit_bytes"])
def test_limits_are_whole_numbers(name: str) -> None:
    """From 1."""
    for wrong in (0, -1, True, 1.5, "many"):
        with (
            pytest.raises(ConfigurationError, match=f"^{name} must be a whole number from 1, got"),
            record(**{name: wrong}),
        ):  # type: ignore[arg-type]
            pass
