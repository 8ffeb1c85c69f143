"""Scenarios 2-4, 6, 7, 25, 30-32: calls, their outputs and their errors, at the top level of one run."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import date, datetime, timezone
from enum import Enum
from typing import Any

import agents
import pytest
from agents import RunConfig, RunHooks, function_tool
from oa_agents import (
    LIVE,
    add,
    boom,
    called,
    hard,
    make_agent,
    model_output,
    play,
    run_or_stream,
    scenario,
    summaries,
)
from oa_versions import ENFORCES_IDS, SHOWS_WORDED_EXCEPTIONS, TELLS_EXCEPTIONS
from pydantic import BaseModel

from toolgrade.testing import AskFor
from toolgrade_openai_agents import record, run_from_result


def _failing(mode: str, **options: Any) -> list[Any]:
    requests = [AskFor("boom", {"x": 1}, "c1"), AskFor("add", {"a": 1, "b": 2}, "c2")]
    return play(mode, make_agent(requests, "done", tools=[boom, add]), **options).calls


@scenario("03")
def test_handled_exception_without_tracing(mode: str) -> None:
    """Without spans, the error is the exception if the SDK reports it, else the text."""
    calls = _failing(mode, run_config=RunConfig(tracing_disabled=True))

    error = "ValueError: bad 1" if TELLS_EXCEPTIONS and mode != "result" else model_output(calls[0])
    assert summaries(calls)[0] == called("boom", {"x": 1}, "c1", status="error", error=error)


@scenario("03b", LIVE)
def test_failure_in_the_users_own_words(mode: str) -> None:
    """The model output is the text of the tool's own error function; the call still has the failure."""

    @function_tool(strict_mode=False, failure_error_function=lambda _context, _error: "try later")
    async def own(x: int) -> str:
        """Fail."""
        message = f"bad {x}"
        raise ValueError(message)

    (call,) = play(mode, make_agent([AskFor("own", {"x": 1}, "c1")], "done", tools=[own])).calls

    assert call.execution is not None
    assert call.execution.status.value == "error"
    assert "bad 1" in str(call.execution.error)
    assert model_output(call) == "try later"


class Custom(Exception):  # noqa: N818 - a name of the user's
    """An exception of a tool."""


@pytest.mark.parametrize("awaited", [False, True], ids=["plain", "awaited"])
@scenario("03d", LIVE)
def test_failure_in_the_users_own_words_without_tracing(mode: str, awaited: bool) -> None:
    """Without spans, too, a failure that the tool words itself is a failure, and the parallel call a success."""

    async def later(_context: Any, _error: Exception) -> str:
        return "try later"

    words: Any = later if awaited else (lambda _context, _error: "try later")

    @function_tool(strict_mode=False, failure_error_function=words)
    async def own(x: int) -> str:
        """Fail, for one argument."""
        if x == 1:
            message = "own words"
            raise Custom(message)
        return "fine"

    requests = [AskFor("own", {"x": 1}, "c1"), AskFor("own", {"x": 2}, "c2")]
    agent = make_agent(requests, "done", tools=[own])
    first, second = play(mode, agent, run_config=RunConfig(tracing_disabled=True)).calls

    assert summaries([second]) == [called("own", {"x": 2}, "c2", "fine")]
    if SHOWS_WORDED_EXCEPTIONS:
        assert model_output(first) == "try later"
        assert summaries([first]) == [called("own", {"x": 1}, "c1", status="error", error="Custom: own words")]


@scenario("03e", LIVE, needs="timeout")
def test_timeout_in_the_users_own_words(mode: str) -> None:
    """A tool that takes too long has failed, also where the tool words that itself; its function is put back."""

    def words(_context: Any, _error: Exception) -> str:
        return "too slow, sorry"

    @function_tool(strict_mode=False, timeout=0.02, timeout_error_function=words)
    async def late(d: float) -> str:
        """Be late."""
        await asyncio.sleep(d)
        return "in time"

    requests = [AskFor("late", {"d": 1}, "c1"), AskFor("late", {"d": 0}, "c2")]
    config = RunConfig(tracing_disabled=True)
    first, second = play(mode, make_agent(requests, "done", tools=[late]), run_config=config).calls

    assert summaries([second]) == [called("late", {"d": 0}, "c2", "in time")]
    assert first.execution is not None
    assert (first.execution.status.value, model_output(first)) == ("error", "too slow, sorry")
    assert str(first.execution.error).startswith("ToolTimeoutError: ")
    assert late.timeout_error_function is words


@scenario("03f", LIVE)
def test_failing_agent_as_a_tool(mode: str) -> None:
    """An agent that serves as a tool and fails is a failed call, with its exception."""
    sub = make_agent(RuntimeError("503"), name="Sub").as_tool("ask", "Ask.")
    agent = make_agent([AskFor("ask", {"input": "q"}, "c1")], "done", tools=[sub])

    one = play(mode, agent)

    (call,) = one.calls
    assert call.execution is not None
    assert (call.execution.status.value, one.run.actual_output) == ("error", "done")
    if SHOWS_WORDED_EXCEPTIONS:
        assert call.execution.error == "RuntimeError: 503"


@scenario("03c", needs="timeout")
def test_timeout(mode: str) -> None:
    """A tool that takes too long has failed."""

    @function_tool(strict_mode=False, timeout=0.02)
    async def late() -> str:
        """Be late."""
        await asyncio.sleep(1)
        return "late"

    (call,) = play(mode, make_agent([AskFor("late", {}, "c1")], "done", tools=[late])).calls

    assert call.execution is not None
    assert call.execution.status.value == "error"
    assert str(call.execution.error).startswith("Tool 'late' timed out after ")


@scenario("04")
def test_exception_that_ends_the_run(mode: str) -> None:
    """The call that ended the run has the tool's exception; a parallel call keeps its result."""
    requests = [AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("hard", {"x": 7}, "c2")]
    agent = make_agent([AskFor("add", {"a": 0, "b": 0}, "c0")], requests, tools=[add, hard])

    one = play(mode, agent)

    assert type(one.error).__name__ == "UserError"
    before = called("add", {"a": 0, "b": 0}, "c0", {"sum": 0})
    if mode == "result":  # the SDK's own record of a failed run lacks calls of the last turn: which, differs by release
        assert summaries(one.calls)[0] == before
        assert "are missing" in one.run.warnings[-1]
    else:
        assert summaries(one.calls) == [
            before,
            called("add", {"a": 1, "b": 2}, "c1", {"sum": 3}),
            called("hard", {"x": 7}, "c2", status="error", error="ValueError: hard 7"),
        ]
    assert one.run.status.value == "error"
    assert one.run.error == "UserError: Error running tool hard: hard 7"


@scenario("06", LIVE)
def test_unknown_tool_ends_the_run(mode: str) -> None:
    """A call of an unknown tool ends the run before its parallel calls run; all of them are recorded."""
    requests = [AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("nope", {"q": 1}, "c2")]

    one = play(mode, make_agent(requests, tools=[add]))

    assert summaries(one.calls) == [
        called("add", {"a": 1, "b": 2}, "c1", status="not_executed"),
        called("nope", {"q": 1}, "c2", status="unknown_tool", error="Tool nope not found in agent A"),
    ]
    assert one.run.error == "ModelBehaviorError: Tool nope not found in agent A"


@scenario("07")
def test_out_of_turns(mode: str) -> None:
    """A run that runs out of turns was stopped; its calls are in it."""
    one = play(mode, make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "x", tools=[add]), max_turns=1)

    assert summaries(one.calls) == [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert one.run.status.value == "stopped"
    assert one.run.error == "MaxTurnsExceeded: Max turns (1) exceeded"


@scenario("07b", needs="error_handlers")
def test_out_of_turns_and_handled(mode: str) -> None:
    """Where a handler answers in place of the exception, the run answered."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "x", tools=[add])

    one = play(mode, agent, max_turns=1, error_handlers={"max_turns": lambda _: "enough"})

    assert summaries(one.calls) == [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert (one.run.actual_output, one.run.status.value, one.error) == ("enough", "ok", None)


@scenario("25", needs="not_found")
def test_unknown_tool_that_is_reported_to_the_model(mode: str) -> None:
    """If the SDK reports the unknown tool to the model, the run continues."""
    config: Any = RunConfig(tool_not_found_behavior="return_error_to_model")

    one = play(mode, make_agent([AskFor("nope", {"q": 1}, "c1")], "done", tools=[add]), run_config=config)

    (call,) = one.calls
    assert call.execution is not None
    assert call.execution.status.value == "unknown_tool"
    assert model_output(call).startswith("Tool 'nope' not found.")
    assert one.run.actual_output == "done"


@scenario("25b", needs="not_found")
def test_equal_calls_of_an_unknown_tool(mode: str) -> None:
    """Two equal calls with one id are both unknown, though some releases show the model one result for the two."""
    config: Any = RunConfig(tool_not_found_behavior="return_error_to_model")
    calls = [AskFor("nope", {"q": 1}, "c1"), AskFor("nope", {"q": 1}, "c1"), AskFor("add", {"a": 1, "b": 2}, "c2")]
    agent = make_agent(calls, "done", tools=[add])

    with record() as recorder:
        result = asyncio.run(run_or_stream(mode, agent, "hi", run_config=config))
    run = run_from_result(result) if mode == "result" else recorder.last_run

    *unknown, _ = [call.execution.status.value for call in run.calls if call.execution is not None]
    assert unknown == ["unknown_tool"] * (1 if ENFORCES_IDS else 2)  # releases that enforce ids count it once


@scenario("30")
def test_without_sensitive_data(mode: str) -> None:
    """Traces without data do not make a recording without data."""
    config = RunConfig(trace_include_sensitive_data=False)

    calls = play(
        mode,
        make_agent([AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("boom", {"x": 1}, "c2")], "x", tools=[add, boom]),
        run_config=config,
    ).calls

    assert summaries(calls)[0] == called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})
    assert calls[1].execution is not None
    assert calls[1].execution.status.value == "error"


class Place(BaseModel):
    """What a tool may return."""

    city: str


@dataclasses.dataclass
class Point:
    """What a tool may return."""

    x: int


class Color(Enum):
    """What a tool may return."""

    RED = "red"


class Opaque:
    """An object whose text is all that can be known of it."""

    def __str__(self) -> str:
        """Its text."""
        return "opaque!"


IMAGE = {"type": "image", "image_url": "data:image/png;base64,AA"}
PARTS = hasattr(agents, "ToolOutputText")
"""Whether tools may return parts."""

OUTPUTS: list[tuple[str, Any, Any]] = [
    ("model", Place(city="Rome"), {"city": "Rome"}),
    ("dataclass", Point(1), {"x": 1}),
    ("none", None, None),
    ("number", 3, 3),
    ("list", [1, "a"], [1, "a"]),
    ("tuple", (1, "a"), [1, "a"]),
    ("bytes", b"x", {"type": "bytes", "encoding": "base64", "size": 1, "data": "eA=="}),
    ("set", {"pear", "apple", "fig"}, ["apple", "fig", "pear"]),
    ("frozen set", frozenset({3, 1, 2}), [1, 2, 3]),
    ("date and time", datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc), "2026-01-02T03:04:00+00:00"),
    ("date", date(2026, 1, 2), "2026-01-02"),
    ("enum", Color.RED, "red"),
    ("inside", {"s": {"b", "a"}, "c": Color.RED}, {"s": ["a", "b"], "c": "red"}),
    ("object", Opaque(), "opaque!"),
]
if PARTS:
    OUTPUTS += [
        ("text part", {"type": "text", "text": "t"}, "t"),
        ("text object", agents.ToolOutputText(text="t"), "t"),
        ("texts", [agents.ToolOutputText(text="a"), {"type": "text", "text": "b"}], "ab"),
        ("text and image", [{"type": "text", "text": "t"}, IMAGE], ["t", IMAGE]),
        ("image object", agents.ToolOutputImage(image_url="data:image/png;base64,AA"), IMAGE),
    ]


@pytest.mark.parametrize(("value", "expected"), [case[1:] for case in OUTPUTS], ids=[case[0] for case in OUTPUTS])
@scenario("31")
def test_outputs(mode: str, value: Any, expected: Any) -> None:
    """An output is stored as a value; objects that are not data are stored as the text the model receives."""

    @function_tool(strict_mode=False)
    async def give() -> Any:
        """Give."""
        return value

    (call,) = play(mode, make_agent([AskFor("give", {}, "c1")], "done", tools=[give])).calls

    assert "output" in call.model_fields_set
    assert call.output == expected
    assert type(call.output) is type(expected)


class UserHooks(RunHooks[Any]):
    """Notes which hooks are called."""

    def __init__(self) -> None:
        """Begin with none."""
        self.called: list[str] = []

    async def on_agent_start(self, *_args: Any) -> None:
        """Note it."""
        self.called.append("agent_start")

    async def on_llm_end(self, *_args: Any) -> None:
        """Note it."""
        self.called.append("llm_end")

    async def on_tool_start(self, _context: Any, _agent: Any, tool: Any) -> None:
        """Note it."""
        self.called.append(f"start {tool.name}")

    async def on_tool_end(self, _context: Any, _agent: Any, tool: Any, _result: Any) -> None:
        """Note it."""
        self.called.append(f"end {tool.name}")

    async def on_agent_end(self, *_args: Any) -> None:
        """Note it."""
        self.called.append("agent_end")


@scenario("32", LIVE)
def test_hooks_of_the_user(mode: str) -> None:
    """The user's hooks are called once each, in their order."""
    hooks = UserHooks()

    play(mode, make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "done", tools=[add]), hooks=hooks)

    assert hooks.called == ["agent_start", "llm_end", "start add", "end add", "llm_end", "agent_end"]


@scenario("32b", LIVE, needs="formatter")
def test_formatter_of_the_user(mode: str) -> None:
    """The model output is the text of the user's formatter; the call still has the exception."""
    config: Any = RunConfig(tool_error_formatter=lambda _: "USER x")

    (call,) = play(mode, make_agent([AskFor("boom", {"x": 1}, "c1")], "done", tools=[boom]), run_config=config).calls

    assert seen_error(call) == "ValueError: bad 1"
    assert model_output(call) == "USER x"


def seen_error(call: Any) -> Any:
    """The error of a call."""
    return call.execution.error


@scenario("32c", LIVE)
def test_hooks_that_raise(mode: str) -> None:
    """A fault in the user's hooks ends the run as it does without a recorder."""

    class Faulty(RunHooks[Any]):
        async def on_tool_start(self, *_args: Any) -> None:
            raise RuntimeError("hook bug")

    one = play(mode, make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "done", tools=[add]), hooks=Faulty())

    assert "hook bug" in str(one.error)
    assert [call.name for call in one.calls] == ["add"]
