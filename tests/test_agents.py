"""Evaluation of agents on goldens, including agents that fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    DataFileError,
    Golden,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolSpec,
    evaluate,
    evaluate_async,
    write_cases,
)
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.cases import RunStatus
from toolgrade.errors import ConfigurationError

LOOKUP = ToolCall(name="lookup")
METRIC = ToolCorrectnessMetric()


def golden(question: str, **more: Any) -> Golden:
    """A question that should lead to a lookup."""
    return Golden(input=question, expected_tools=[LOOKUP], **more)


async def looks_up(question: str, conversation: Conversation) -> Run:
    """An agent that does what it should."""
    return Run(input=question, actual_output="found", calls=[LOOKUP], conversation_id=conversation.id)


async def fails(question: str, conversation: Conversation) -> Run:
    """An agent that raises for one question, and does what it should for others."""
    if question == "bad":
        raise RuntimeError("no connection")
    return await looks_up(question, conversation)


async def ends_badly(question: str, _conversation: Conversation) -> Run:
    """An agent whose run ends with an error after a call."""
    return Run(input=question, calls=[LOOKUP], status=RunStatus.ERROR, error="TimeoutError: model")


async def answered(goldens: list[Golden], agent: AgentCallable, **options: Any) -> list[Any]:
    """The cases of an evaluation."""
    report = await evaluate_async(goldens=goldens, agent=agent, metrics=[METRIC], **options)
    return [case.case for case in report.cases]


def test_goldens_are_evaluated() -> None:
    """Each golden becomes a case with the called tools."""
    report = evaluate(goldens=[golden("a"), golden("b", id="second")], agent=looks_up, metrics=[METRIC])

    assert [case.label for case in report.cases] == ["#1", "second"]
    assert [case.results[0].score for case in report.cases] == [1, 1]
    assert isinstance(report.cases[0].case, LLMTestCase)
    assert report.cases[0].case.actual_output == "found"


def test_goldens_in_an_event_loop() -> None:
    """`evaluate_async` awaits the agent; `evaluate` works there too, as in a notebook."""

    async def go() -> list[Any]:
        awaited = await evaluate_async(goldens=[golden("a")], agent=looks_up, metrics=[METRIC])
        waited = evaluate(goldens=[golden("a")], agent=looks_up, metrics=[METRIC])
        return [report.cases[0].results[0].score for report in (awaited, waited)]

    assert asyncio.run(go()) == [1, 1]


def test_an_agent_that_raises_stops_nothing() -> None:
    """Its case is a failed result that names the error; the others are scored."""
    report = evaluate(goldens=[golden("a"), golden("bad"), golden("b")], agent=fails, metrics=[METRIC])

    first, bad, last = (case.results[0] for case in report.cases)
    assert (first.score, last.score) == (1, 1)
    assert bad.status.value == "errored"
    assert "RuntimeError: no connection" in str(bad.error)
    run = report.cases[1].case.run
    assert run is not None
    assert (run.status.value, run.input) == ("error", "bad")


def test_a_run_that_ended_badly_is_scored_and_says_so() -> None:
    """Its calls count, and the result names the error."""
    (case,) = evaluate(goldens=[golden("a")], agent=ends_badly, metrics=[METRIC]).cases

    assert case.results[0].score == 1
    assert case.results[0].warnings == ("the run ended with an error: TimeoutError: model",)


def test_invalid_return_value_is_reported() -> None:
    """The case of an agent that returns another type failed."""

    async def text(_question: str, _conversation: Conversation) -> Any:
        return "found"

    (case,) = evaluate(goldens=[golden("a")], agent=text, metrics=[METRIC]).cases

    assert "the agent must return a Run, got str" in str(case.results[0].error)


def test_each_golden_has_its_own_conversation() -> None:
    """No two questions share a conversation or its state."""
    conversations: list[Conversation] = []

    async def remembers(question: str, conversation: Conversation) -> Run:
        conversations.append(conversation)
        conversation.memory["before"] = question
        return await looks_up(question, conversation)

    cases = asyncio.run(answered([golden("a"), golden("b")], remembers))

    assert len({conversation.id for conversation in conversations}) == 2
    assert [conversation.memory for conversation in conversations] == [{"before": "a"}, {"before": "b"}]
    assert [case.run and case.run.conversation_id for case in cases] == [
        conversation.id for conversation in conversations
    ]


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_concurrency_is_limited(limit: int) -> None:
    """The number of concurrent questions equals the limit and never exceeds it; order is preserved."""
    under_way, most = 0, 0

    async def counts(question: str, conversation: Conversation) -> Run:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.002 * (int(question) % 3))
        under_way -= 1
        return await looks_up(question, conversation)

    goldens = [golden(f"{number}") for number in range(20)]
    cases = asyncio.run(answered(goldens, counts, max_concurrency=limit))

    assert most == min(limit, 20)
    assert [case.input for case in cases] == [one.input for one in goldens]


def test_cancellation_cancels_the_agents() -> None:
    """No agent continues after the evaluation is cancelled."""
    ended: list[str] = []

    async def waits(question: str, _conversation: Conversation) -> Run:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(question)
        raise AssertionError

    async def go() -> None:
        task = asyncio.create_task(answered([golden("a"), golden("b")], waits))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(go())

    assert sorted(ended) == ["a", "b"]


def test_fields_of_a_golden_come_first() -> None:
    """Its tools, tags and metadata precede those of the run; missing fields come from the run."""

    async def tagged(_question: str, _conversation: Conversation) -> Run:
        return Run(input="asked otherwise", calls=[LOOKUP], tags=["run"], metadata={"a": 1, "b": 1})

    one = golden(
        "q",
        tags=["golden"],
        metadata={"a": 2},
        available_tools=[ToolSpec(name="lookup")],
        expected_output="x",
        required_texts=["y"],
        ends="ok",
    )
    (case,) = asyncio.run(answered([one], tagged))

    assert (case.input, case.expected_output) == ("q", "x")
    assert (case.required_texts, case.must_end) == (["y"], True)
    assert (case.tags, case.metadata) == (["golden", "run"], {"a": 2, "b": 1})
    assert [tool.name for tool in case.available_tools or ()] == ["lookup"]


def test_goldens_are_read_from_their_file(tmp_path: Path) -> None:
    """By `Golden.load` and by `evaluate`, with every bad line at once."""
    path = tmp_path / "goldens.jsonl"
    goldens = [golden("a", id="g1"), golden("b")]
    write_cases(path, goldens)

    assert Golden.load(path) == goldens
    for source in (path, str(path)):
        report = evaluate(goldens=source, agent=looks_up, metrics=[METRIC])
        assert [case.case.id for case in report.cases] == ["g1", None]
    path.write_text('{"id": "a"}\n3\n')
    with pytest.raises(DataFileError) as raised:
        evaluate(goldens=path, agent=looks_up, metrics=[METRIC])
    assert [(problem.line, problem.path) for problem in raised.value.problems] == [(1, "$.input"), (2, "$")]


def test_a_golden_without_expectations_cannot_be_scored_yet() -> None:
    """`[]` means that no call is expected; a missing field is unknown."""
    (case,) = evaluate(goldens=[Golden(input="q")], agent=looks_up, metrics=[METRIC]).cases

    assert "needs expected_tools" in str(case.results[0].error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goldens": []}, "goldens must not be empty"),
        ({"goldens": [LOOKUP]}, r"goldens\[0\] must be a Golden, got ToolCall"),
        ({"goldens": golden("a")}, "goldens must be a list of Golden or the path of a file, got Golden"),
        ({"agent": None}, "goldens need an agent"),
        ({"goldens": None}, "agent needs goldens"),
        ({"agent": "gpt"}, r"agent must be a function .* got str; the adapters"),
        ({"max_concurrency": 0}, "max_concurrency must be a whole number of at least 1, got 0"),
        ({"test_cases": []}, "cannot be combined"),
    ],
    ids=["empty", "call", "one", "no-agent", "no-goldens", "text", "zero", "both"],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    """Obvious mistakes raise before the agent is called."""
    with pytest.raises(ConfigurationError, match=message):
        evaluate(**{"goldens": [golden("a")], "agent": looks_up, "metrics": [METRIC], **options})
