"""Evaluation of agents on goldens, including agents that fail."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    ConversationalTestCase,
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
from toolgrade.calls import Execution
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


async def ends_badly(question: str, _conversation: Conversation) -> Run:
    """An agent whose run ends with an error after a call."""
    return Run(input=question, calls=[LOOKUP], status=RunStatus.ERROR, error="TimeoutError: model")


async def answered(goldens: list[Golden], agent: AgentCallable, **options: Any) -> list[Any]:
    """The cases of an evaluation."""
    report = await evaluate_async(goldens=goldens, agent=agent, metrics=[METRIC], **options)
    return [case.case for case in report.cases]


def test_goldens_in_an_event_loop() -> None:
    """`evaluate_async` awaits the agent; `evaluate` works there too, as in a notebook."""

    async def go() -> list[Any]:
        awaited = await evaluate_async(goldens=[golden("a")], agent=looks_up, metrics=[METRIC])
        waited = evaluate(goldens=[golden("a")], agent=looks_up, metrics=[METRIC])
        return [report.cases[0].results[0].score for report in (awaited, waited)]

    assert asyncio.run(go()) == [1, 1]


def test_a_run_that_ended_badly_is_scored_and_says_so() -> None:
    """Its calls count, and the result names the error."""
    (case,) = evaluate(goldens=[golden("a")], agent=ends_badly, metrics=[METRIC]).cases

    assert case.results[0].score == 1
    assert case.results[0].warnings == ("the run ended with an error: TimeoutError: model",)


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


def test_the_conversation_of_a_golden_has_the_system_prompt() -> None:
    """It stands beside the turns, whose cases have it in their runs."""

    async def is_brief(question: str, _conversation: Conversation) -> Run:
        return Run(input=question, actual_output="found", instructions="Be brief.")

    (case,) = asyncio.run(answered([Golden(turns=["a", "b"], expected_tools=[])], is_brief))

    assert isinstance(case, ConversationalTestCase)
    assert case.instructions == "Be brief."
    assert [part.run and part.run.instructions for part in case.to_test_cases()] == ["Be brief."] * 2


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
    assert (case.required_texts, case.ends) == (["y"], "ok")
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
    assert [(problem.line, problem.path) for problem in raised.value.problems] == [(1, "$"), (2, "$")]


def test_a_golden_that_states_something_else_cannot_be_scored() -> None:
    """`[]` means that no call is expected; a missing field is unknown."""
    (case,) = evaluate(goldens=[Golden(input="q", required_texts=["a"])], agent=looks_up, metrics=[METRIC]).cases

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


# Forms of agents


def looks_up_at_once(question: str, conversation: Conversation) -> Run:
    """An agent that is not async."""
    return Run(input=question, actual_output="found", calls=[LOOKUP], conversation_id=conversation.id)


class Agent:
    """Agents that are objects and methods."""

    async def __call__(self, question: str, conversation: Conversation) -> Run:
        """Answer."""
        return await looks_up(question, conversation)

    async def method(self, question: str, conversation: Conversation) -> Run:
        """Answer."""
        return await looks_up(question, conversation)

    def at_once(self, question: str, conversation: Conversation) -> Run:
        """Answer."""
        return looks_up_at_once(question, conversation)


async def with_options(model: str, question: str, conversation: Conversation) -> Run:
    """An agent of which `partial` fixes a part."""
    assert model == "m"
    return await looks_up(question, conversation)


def decorated(function: Any) -> Any:
    """Pass all arguments on."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return wrapper


def adapted(function: Any) -> Any:
    """Make an agent of a function of the question alone."""

    @functools.wraps(function)
    def wrapper(question: str, conversation: Conversation) -> Any:
        return function(question, conversation=conversation)

    return wrapper


async def of_the_question(question: str, *, conversation: Conversation | None = None) -> Run:
    """An agent that `adapted` can call."""
    return await looks_up(question, conversation or Conversation())


FORMS: dict[str, Any] = {
    "object": Agent(),
    "method": Agent().method,
    "sync-method": Agent().at_once,
    "sync": looks_up_at_once,
    "sync-that-returns-a-coroutine": lambda *arguments: Agent().method(*arguments),
    "partial": functools.partial(with_options, "m"),
    "partial-of-an-object": functools.partial(Agent()),
    "decorated": decorated(looks_up),
    "decorated-sync": decorated(looks_up_at_once),
    "decorated-method": decorated(Agent().method),
    "adapted": adapted(of_the_question),
}


@pytest.mark.parametrize("agent", FORMS.values(), ids=FORMS)
def test_every_form_of_agent_is_asked(agent: Any) -> None:
    """Objects, methods, partials and decorated functions, async or not, with `agent` and with `agents`."""
    goldens = [golden(str(number)) for number in range(5)]

    for options in ({"agent": agent}, {"agents": {"one": agent}}):
        report = evaluate(goldens=goldens, metrics=[METRIC], **options)
        assert [case.results[0].score for case in report.cases] == [1] * 5


@pytest.mark.parametrize(
    "agent",
    [
        lambda question: Run(input=question),
        decorated(lambda question: Run(input=question)),
        of_the_question,
        functools.partial(with_options, "m", "a"),
        with_options,
    ],
    ids=["one", "decorated", "keyword", "partial", "three"],
)
def test_an_agent_with_other_parameters_is_refused(agent: Any) -> None:
    """Before any agent is asked."""
    asked: list[str] = []

    async def other(question: str, conversation: Conversation) -> Run:
        asked.append(question)
        return await looks_up(question, conversation)

    with pytest.raises(ConfigurationError, match=r"agent must be .* got one that takes \(.*\); give it the"):
        evaluate(goldens=[golden("a")], agent=agent, metrics=[METRIC])
    with pytest.raises(ConfigurationError, match=r"agents\['bad'\] must be a function"):
        evaluate(goldens=[golden("a")], agents={"good": other, "bad": agent}, metrics=[METRIC])
    assert asked == []


def test_sync_agents_run_side_by_side_in_the_context_of_the_caller() -> None:
    """As many as `max_concurrency`, which may be more than the loop has threads."""
    together = threading.Barrier(40)
    release.set("1.2")
    seen: list[str] = []

    def meets(question: str, conversation: Conversation) -> Run:
        together.wait(60)
        seen.append(release.get())
        release.set("changed")
        return looks_up_at_once(question, conversation)

    report = evaluate(
        goldens=[golden(str(number)) for number in range(40)], agent=meets, metrics=[METRIC], max_concurrency=40
    )

    assert report.summaries[0].mean == 1
    assert seen == ["1.2"] * 40
    assert release.get() == "1.2"


release: ContextVar[str] = ContextVar("release")


# Agents that break


class UnreadableError(Exception):
    """An exception that cannot be read."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError("no text")


class GroupError(Exception):
    """A group as of Python 3.11; the newest name is what counts."""

    def __init__(self, *exceptions: Exception) -> None:
        """Hold the exceptions."""
        super().__init__(f"unhandled errors in a TaskGroup ({len(exceptions)} sub-exceptions)")
        self.exceptions = exceptions


Group = type("BaseExceptionGroup", (GroupError,), {})
BREAKS: list[tuple[str, BaseException, str, str]] = [
    ("key", PermissionError("401 invalid api key"), "error", "PermissionError: 401 invalid api key"),
    (
        "lines",
        ValueError("1 validation error\n  field\n    missing"),
        "error",
        "ValueError: 1 validation error field missing",
    ),
    ("empty", TimeoutError(), "error", "TimeoutError"),
    ("unreadable", UnreadableError(), "error", "UnreadableError"),
    ("exit", SystemExit(0), "error", "SystemExit: 0"),
    ("cancelled", asyncio.CancelledError(), "stopped", "CancelledError"),
    ("group", Group(Group(KeyError("a"))), "error", "KeyError: 'a'"),
]


@pytest.mark.parametrize("way", ["async", "inner task"])
@pytest.mark.parametrize(("error", "status", "text"), [row[1:] for row in BREAKS], ids=[row[0] for row in BREAKS])
def test_what_an_agent_raises_is_the_error_of_its_run(way: str, error: BaseException, status: str, text: str) -> None:
    """On one line, with unknown calls; the other goldens are scored."""

    async def raises() -> None:
        raise error

    async def breaks(question: str, conversation: Conversation) -> Run:
        if question == "bad":
            await (asyncio.ensure_future(raises()) if way == "inner task" else raises())
        return await looks_up(question, conversation)

    report = evaluate(goldens=[golden("a"), golden("bad"), golden("b")], agent=breaks, metrics=[METRIC])

    first, bad, last = (case.case for case in report.cases)
    assert (first.tools_called, last.tools_called) == ([LOOKUP], [LOOKUP])
    assert [case.results[0].status.value for case in report.cases] == ["scored", "errored", "scored"]
    assert (bad.run.status.value, bad.run.error, bad.tools_called) == (status, text, None)
    assert bad.run.input == "bad"
    assert bad.run.conversation_id


SYNC_BREAKS = [("stop", StopIteration(3), "error", "StopIteration: 3"), *BREAKS[:5], BREAKS[-1]]


@pytest.mark.parametrize(
    ("error", "text"), [(row[1], row[3]) for row in SYNC_BREAKS], ids=[row[0] for row in SYNC_BREAKS]
)
def test_what_a_sync_agent_raises_is_the_error_of_its_run(error: BaseException, text: str) -> None:
    """As for an async one."""

    def breaks(_question: str, _conversation: Conversation) -> Run:
        raise error

    (case,) = evaluate(goldens=[golden("a")], agent=breaks, metrics=[METRIC]).cases

    assert (case.case.run.status.value, case.case.run.error) == ("error", text)
    assert case.case.tools_called is None


@pytest.mark.parametrize("answer", [None, "found", [LOOKUP], LLMTestCase(tools_called=[])], ids=repr)
def test_what_is_no_run_is_an_error(answer: Any) -> None:
    """Of an async agent and of one that is not; the calls are unknown."""

    async def answers(_question: str, _conversation: Conversation) -> Any:
        return answer

    for agent in (answers, lambda _question, _conversation: answer):
        (case,) = evaluate(goldens=[golden("a")], agent=agent, metrics=[METRIC]).cases
        assert case.case.run.error == f"the agent must return a Run, got {type(answer).__name__}"
        assert case.case.tools_called is None


# Agents that are late


LATE = 0.05
TIMED_OUT = ("stopped", "TimeoutError: no answer within 0.05 s")


@pytest.fixture
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgrade.asking.GRACE", 0.01)
    monkeypatch.setattr("toolgrade._internal.sync_bridge.GRACE", 0.01)


async def sleeps(_question: str, _conversation: Conversation) -> Run:
    """Sleep forever, and be cancelled."""
    await asyncio.sleep(600)
    raise AssertionError


async def stores_its_calls(question: str, conversation: Conversation) -> Run:
    """Sleep forever, and store what was recorded."""
    try:
        return await sleeps(question, conversation)
    except BaseException:
        conversation.unfinished = Run(input=question, calls=[LOOKUP])
        raise


async def answers_late(question: str, conversation: Conversation) -> Run:
    """Answer when it is cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(600)
    return await looks_up(question, conversation)


async def fails_late(question: str, conversation: Conversation) -> Run:
    """Fail when it is cancelled."""
    try:
        return await sleeps(question, conversation)
    except asyncio.CancelledError:
        raise OSError("connection is closed") from None


async def never_ends(_question: str, _conversation: Conversation) -> Run:
    """Ignore every cancellation."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def blocks(_question: str, _conversation: Conversation) -> Run:
    """Block a thread, longer than the test."""
    threading.Event().wait(600)
    raise AssertionError


async def blocks_a_thread_of_the_loop(_question: str, _conversation: Conversation) -> Run:
    """Wait for a thread that does not end before the test."""
    await asyncio.to_thread(stop.wait, 600)
    raise AssertionError


stop = threading.Event()
LATE_AGENTS = [
    (sleeps, None),
    (stores_its_calls, [LOOKUP]),
    (answers_late, [LOOKUP]),
    (fails_late, None),
    (never_ends, None),
    (blocks, None),
    (blocks_a_thread_of_the_loop, None),
]


@pytest.mark.usefixtures("_short_grace")
@pytest.mark.parametrize("option", ["timeout", "golden_timeout"])
@pytest.mark.parametrize(("late", "calls"), LATE_AGENTS, ids=[agent.__name__ for agent, _ in LATE_AGENTS])
def test_an_agent_that_is_late_is_stopped(late: Any, calls: list[ToolCall] | None, option: str) -> None:
    """Its run has the calls that it stored; it holds up neither the other goldens nor the end."""

    async def agent(question: str, conversation: Conversation) -> Run:
        if question != "late":
            return await looks_up(question, conversation)
        result = late(question, conversation)
        return await result if inspect.isawaitable(result) else result

    goldens = [golden("a"), golden("late"), golden("b")]
    try:
        report = evaluate(goldens=goldens, agent=late if late is blocks else agent, metrics=[METRIC], **{option: LATE})
    finally:
        stop.set()
        stop.clear()

    case = report.cases[1].case
    assert (case.run.status.value, case.run.error, case.tools_called) == (*TIMED_OUT, calls)
    assert case.actual_output is None
    if late is not blocks:
        assert [report.cases[index].results[0].score for index in (0, 2)] == [1, 1]


def test_the_shorter_limit_counts() -> None:
    """With one turn per golden, both bound the same call."""
    for options in ({"timeout": 60, "golden_timeout": LATE}, {"timeout": LATE, "golden_timeout": 60}):
        (case,) = evaluate(goldens=[golden("a")], agent=sleeps, metrics=[METRIC], **options).cases
        assert (case.case.run.status.value, case.case.run.error) == TIMED_OUT


def test_waiting_for_a_turn_is_not_part_of_the_time() -> None:
    """Goldens that wait because of `max_concurrency` have all their time."""

    async def slow(question: str, conversation: Conversation) -> Run:
        await asyncio.sleep(0.05)
        return await looks_up(question, conversation)

    goldens = [golden(str(number)) for number in range(60)]
    report = evaluate(goldens=goldens, agent=slow, metrics=[METRIC], timeout=2, max_concurrency=1)

    assert report.summaries[0].mean == 1


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "30"])
def test_a_limit_must_be_seconds(value: Any) -> None:
    """Before the agent is asked."""
    for name in ("timeout", "golden_timeout"):
        with pytest.raises(ConfigurationError, match=f"{name} must be a positive number of seconds, got"):
            evaluate(goldens=[golden("a")], agent=looks_up, metrics=[METRIC], **{name: value})


def test_a_limit_needs_an_agent() -> None:
    """Recorded cases have their answers."""
    with pytest.raises(ConfigurationError, match="timeout needs goldens and an agent"):
        evaluate([LLMTestCase(tools_called=[])], [METRIC], timeout=3)


# Under trio


def test_under_trio() -> None:
    """`evaluate` runs in a thread of its own; `evaluate_async` says in one sentence what to do."""
    trio = pytest.importorskip("trio", reason="trio is not installed here")
    to_thread = trio.to_thread.run_sync

    async def main() -> None:
        case = LLMTestCase(tools_called=[LOOKUP], expected_tools=[LOOKUP])
        assert evaluate(goldens=[golden("a")], agent=looks_up, metrics=[METRIC]).summaries[0].mean == 1
        assert evaluate([case], [METRIC]).passed
        assert (await METRIC.a_measure(case)).score == 1
        with pytest.raises(ConfigurationError, match="evaluate_async must be awaited in an asyncio event loop, got tr"):
            await evaluate_async([case], [METRIC])
        judged = ToolCorrectnessMetric(judge=lambda _messages: "yes", available_tools=[{"name": "lookup"}])
        asked = case.model_copy(update={"input": "a"})
        assert (await to_thread(judged.measure, asked)).status.value == "errored"  # the judge's answer is malformed
        with pytest.raises(
            ConfigurationError, match="a_measure must be awaited in an asyncio event loop, got trio; ca"
        ):
            await judged.a_measure(asked)

    trio.run(main)


def test_a_run_that_an_agent_says_was_stopped_does_not_pass() -> None:
    """Recorded messages may not know why they end; an agent that returns such a run does."""
    call = ToolCall(name="look", execution=Execution())

    async def agent(question: str, conversation: Conversation) -> Run:
        return Run(input=question, conversation_id=conversation.id, status=RunStatus.STOPPED, calls=[call])

    report = evaluate(
        goldens=[Golden(input="x", expected_tools=[call])], agent=agent, metrics=[ToolCorrectnessMetric()]
    )

    assert (report.cases[0].outcome, report.passed) == ("agent_error", False)
    assert "the run was stopped" in report.verdict.sentence
