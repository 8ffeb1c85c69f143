"""What connects a recorded run with the rest of a program: results, traces, responses; and the model's reasoning."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import RunConfig, Runner, trace
from agents.exceptions import MaxTurnsExceeded
from oa_agents import BOTH, LIVE, add, make_agent, play, run_or_stream, scenario
from oa_models import Scripted, says
from openai.types.responses import ResponseReasoningItem
from openai.types.responses.response_reasoning_item import Summary

from toolgrade import Run, ToolCall, ToolCorrectnessMetric
from toolgrade.errors import NothingRecordedError
from toolgrade.testing import AskFor
from toolgrade_openai_agents import record


def _adding(n: int) -> Any:
    return make_agent([AskFor("add", {"a": n, "b": n}, "c1")], f"done {n}", tools=[add])


@scenario("40", LIVE)
def test_runs_by_their_results(mode: str) -> None:
    """Each result leads to its own run, in whatever order the runs ended."""

    async def go() -> list[Run]:
        with record() as recorder:
            results = await asyncio.gather(*(run_or_stream(mode, _adding(n), f"q{n}") for n in range(3)))
        return [recorder.run_for(result) for result in reversed(results)]

    runs = asyncio.run(go())

    assert [(run.input, run.calls[0].output) for run in runs] == [(f"q{n}", {"sum": 2 * n}) for n in (2, 1, 0)]


def test_runs_by_their_exceptions() -> None:
    """An exception of the SDK leads to the run that it ended."""

    async def go() -> Run:
        with record() as recorder, pytest.raises(MaxTurnsExceeded) as raised:
            await Runner.run(_adding(1), "hi", max_turns=1)
        await recorder.run(_adding(2), "later")
        return recorder.run_for(raised.value)

    run = asyncio.run(go())

    assert (run.input, run.status.value) == ("hi", "stopped")


def test_results_without_a_run() -> None:
    """A result that was not recorded, or whose run was passed on, has none."""

    async def go() -> None:
        unrecorded = await Runner.run(_adding(1), "hi")
        with record() as recorder:
            recorded = await Runner.run(_adding(1), "hi")
        with pytest.raises(NothingRecordedError, match="holds no run of the given RunResult"):
            recorder.run_for(unrecorded)
        assert recorder.run_for(recorded).input == "hi"
        recorder.pop()
        with pytest.raises(NothingRecordedError):
            recorder.run_for(recorded)

    asyncio.run(go())


@scenario("41", LIVE)
def test_traces_of_runs(mode: str) -> None:
    """The id and the name of the trace are metadata of the run, from the configuration or the trace around it."""

    async def go() -> list[Run]:
        config = RunConfig(trace_id="trace_1", workflow_name="support", trace_metadata={"team": "x"})
        with record() as recorder:
            await run_or_stream(mode, _adding(1), "hi", run_config=config)
            with trace("batch", trace_id="trace_2"):
                await run_or_stream(mode, _adding(1), "hi")
            await run_or_stream(mode, _adding(1), "hi")
            await run_or_stream(mode, _adding(1), "hi", run_config=RunConfig(tracing_disabled=True))
        return recorder.runs

    named, around, own, untraced = (run.metadata for run in asyncio.run(go()))

    assert named == {"trace_id": "trace_1", "workflow_name": "support", "team": "x"}
    assert around == {"trace_id": "trace_2", "workflow_name": "batch"}
    assert (list(own), str(own["trace_id"])[:6]) == (["trace_id"], "trace_")
    assert untraced == {}


class Answering(Scripted):
    """A model whose responses have ids."""

    def __init__(self, prefix: str, *steps: Any) -> None:
        """Store the script."""
        super().__init__(*steps)
        self.prefix = prefix

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next answer, with an id."""
        response = await super().get_response(*args, **kwargs)
        response.response_id = f"{self.prefix}{len(self.inputs)}"
        return response


def test_conversation_of_continued_responses() -> None:
    """Runs that continue each other's responses are one conversation, and others are conversations of their own."""

    async def go() -> Any:
        with record() as recorder:
            previous: Any = {}
            for turn in "abc":
                agent = make_agent(tools=[add])
                agent.model = Answering(turn, [AskFor("add", {"a": 1, "b": 1}, "c1")], f"answer {turn}")
                result = await Runner.run(agent, f"question {turn}", **previous)
                previous = {"previous_response_id": result.last_response_id}
            await Runner.run(_adding(1), "alone")
        return recorder.conversations()

    together, alone = asyncio.run(go())

    assert [turn.content for turn in together.turns] == [f"{what} {turn}" for turn in "abc" for what in WHAT]
    assert (together.id, [turn.content for turn in alone.turns]) == ("a1", ["alone", "done 1"])


WHAT = ("question", "answer")


def _thought(text: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(id="rs_1", type="reasoning", summary=[Summary(text=text, type="summary_text")])


@scenario("42", BOTH)
def test_reasoning(mode: str) -> None:
    """A call has the model's reasoning before it in the message; one without reasoning has none."""
    first = [_thought("first"), AskFor("add", {"a": 1, "b": 1}, "c1"), AskFor("add", {"a": 2, "b": 1}, "c2")]
    second = [_thought("second"), says("hm"), AskFor("add", {"a": 3, "b": 1}, "c3")]
    agent = make_agent(first, second, [AskFor("add", {"a": 4, "b": 1}, "c4")], "done", tools=[add])

    calls = play(mode, agent).calls

    assert [call.reasoning for call in calls] == ["first", "first", "second", None]
    assert [call.output for call in calls] == [{"sum": n + 1} for n in range(1, 5)]


@scenario("43", BOTH)
def test_types_of_calls(mode: str) -> None:
    """A function call has the type that an expected call may name."""
    sub = _adding(1).as_tool("ask", "Ask.")
    requests = [AskFor("add", {"a": 1, "b": 1}, "c1"), AskFor("ask", {"input": "q"}, "c2")]
    run = play(mode, make_agent(requests, "done", tools=[add, sub])).run

    expected = [ToolCall.model_validate({"name": name, "type": "function"}) for name in ("add", "ask")]

    result = ToolCorrectnessMetric().measure(run.to_test_case(expected_tools=expected))
    assert (result.score, [call.type for call in run.calls]) == (1.0, [call.type for call in expected])
