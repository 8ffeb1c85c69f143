"""Replay of plain Python tools: what runs, what is answered, where a tape is seen, and what becomes of the case."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    ConfigurationError,
    Gate,
    Golden,
    LLMTestCase,
    Report,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolgradeWarning,
    ToolRecoveryMetric,
    ToolSpec,
    assert_test,
    evaluate,
    observe,
    read_cases,
    redact,
)
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.capture import JsonlSink, record
from toolgrade.capture.doubles import Answer, ask_tape
from toolgrade.errors import MetricAssertionError
from toolgrade.expect import IgnoreCase
from toolgrade.replay import Fault, ReplayError, Tape, replay

PAID: list[Any] = []
"""What the tools of this file did."""


@pytest.fixture(autouse=True)
def _nothing_paid() -> Iterator[None]:
    PAID.clear()
    yield
    PAID.clear()


@observe(tool=True)
def pay(amount: int, note: str = "") -> str:
    """Pay."""
    PAID.append(amount)
    return f"really paid {amount}{note}"


@observe(tool=True)
def search(query: str, session: str = "") -> list[str]:
    """Search."""
    PAID.append(query)
    return [f"found {query}", session]


def call(name: str, output: Any = "recorded", /, **arguments: Any) -> ToolCall:
    """A recorded call."""
    return ToolCall(name=name, input_parameters=arguments, output=output)


def failed(name: str, error: str, /, **arguments: Any) -> ToolCall:
    """A recorded call that failed."""
    return ToolCall(name=name, input_parameters=arguments, execution={"status": "error", "error": error})


def payer(amount: Callable[[str], int] = lambda question: int(question.split()[-1])) -> AgentCallable:
    """An agent that searches, then pays the amount that a question ends with, and says what came of it."""

    @observe
    def answer(question: str) -> str:
        search("orders")
        try:
            return str(pay(amount(question)))
        except (TimeoutError, ReplayError) as error:
            return f"failed: {error}"

    async def ask(question: str, conversation: Conversation) -> Run:
        with record(conversation=conversation.id) as recorder:
            answer(question)
        return recorder.last_run

    return ask


RUNS = [
    Run(input="pay 5", calls=[call("search", ["A"], query="orders"), call("pay", "paid 5", amount=5)]),
    Run(input="pay 6", calls=[call("search", ["B"], query="orders"), call("pay", "paid 6", amount=6)]),
]
GOLDENS = [Golden(input=f"pay {n}", id=f"p{n}", expected_tools=[ToolCall(name="pay")]) for n in (5, 6)]


def evaluated(**options: Any) -> Report:
    """The report of the goldens."""
    fields = {"goldens": GOLDENS, "agent": payer(), "metrics": [ToolCorrectnessMetric()], "show_progress": False}
    return evaluate(**{**fields, **options})


# Kinds of functions


@observe(tool=True)
async def apay(amount: int) -> str:
    """Pay, in an event loop."""
    PAID.append(amount)
    return "really"


@observe(tool=True)
def stream(count: int) -> Iterator[str]:
    """Pay in pieces."""
    for n in range(count):
        PAID.append(n)
        yield f"piece {n} "


@observe(tool=True)
async def astream(count: int) -> AsyncIterator[int]:
    """Pay in pieces, in an event loop."""
    for n in range(count):
        PAID.append(n)
        yield n


class Shop:
    """A shop with a tool."""

    @observe(tool=True, hide="connection")
    def buy(self, item: str, connection: object = None) -> dict[str, str]:  # noqa: ARG002 - hidden from the recording
        """Buy."""
        PAID.append(item)
        return {"bought": item}


async def _all(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]


KINDS: dict[str, tuple[ToolCall, Callable[[], Any], Any]] = {
    "function": (call("pay", "paid", amount=5), lambda: pay(5), "paid"),
    "coroutine": (call("apay", "paid", amount=5), lambda: asyncio.run(apay(5)), "paid"),
    "generator": (call("stream", "piece 0 piece 1 ", count=2), lambda: "".join(stream(2)), "piece 0 piece 1 "),
    "generator of values": (call("stream", [1, 2], count=2), lambda: list(stream(2)), [1, 2]),
    "empty generator": (call("stream", [], count=0), lambda: list(stream(0)), []),
    "async generator": (call("astream", [0, 1], count=2), lambda: asyncio.run(_all(astream(2))), [0, 1]),
    "method": (call("buy", {"bought": "x"}, item="x"), lambda: Shop().buy("x", connection=object()), {"bought": "x"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_functions(kind: str) -> None:
    """A tool of any kind is answered, recorded as replayed, and does not run; afterwards it does."""
    recorded, use, output = KINDS[kind]
    with record() as recorder, replay([Run(calls=[recorded])]) as tape, recorder.run("hi"):
        assert use() == output
    assert PAID == []
    [again] = recorder.last_run.calls
    assert again.execution is not None
    assert (again.name, again.arguments, again.output) == (recorded.name, recorded.arguments, recorded.output)
    assert (again.execution.replayed, again.execution.executed, again.execution.status.value) == (True, True, "ok")
    assert str(tape) == "1 replayed, 0 faults, 0 outside the recording"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "generator of values"])
def test_kinds_of_functions_are_recorded(kind: str) -> None:
    """With `all` a tool of any kind runs, and its tape answers it."""
    _, use, _ = KINDS[kind]
    with replay([], record_mode="all") as tape:
        first = use()
    assert PAID or kind == "empty generator"
    PAID.clear()
    with replay(tape):
        assert use() == first
    assert PAID == []


def test_recorded_failures_are_raised() -> None:
    """A failure has the type that it was, if that can be made, and else its name."""
    runs = [Run(calls=[failed("pay", "TimeoutError: no answer", amount=1), failed("pay", "Declined: poor", amount=2)])]
    with record() as recorder, replay(runs), recorder.run("hi"):
        with pytest.raises(TimeoutError, match=r"^no answer$"):
            pay(1)
        with pytest.raises(ReplayError, match=r"^poor$") as raised:
            pay(2)
    assert type(raised.value).__name__ == "Declined"
    assert [one.execution and one.execution.error for one in recorder.last_run.calls] == [
        "TimeoutError: no answer",
        "Declined: poor",
    ]


def test_what_a_running_tool_calls_is_part_of_it() -> None:
    """A tool that the mode lets run runs with all that it calls, and is one call of the tape."""

    @observe(tool=True)
    def order(amount: int) -> str:
        return pay(amount)

    with replay([], record_mode="all") as tape:
        order(5)
    assert (PAID, [one.name for run in tape.runs for one in run.calls]) == ([5], ["order"])
    with replay(tape):
        assert order(5) == "really paid 5"
    assert PAID == [5]


# Where a tape is seen


def test_a_tool_in_a_plain_thread_does_not_run() -> None:
    """A thread without the context refuses, unless it may run."""
    errors: list[Exception] = []

    def use() -> None:
        try:
            pay(5)
        except ReplayError as error:
            errors.append(error)

    for options, paid in (({}, []), ({"allow_outside": True}, [5])):
        with replay(RUNS, **options):
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
        assert paid == PAID
    [error] = errors
    assert "contextvars.copy_context().run" in str(error)
    assert "allow_outside=True" in str(error)


def test_a_refused_call_fails_the_runs_that_it_may_be_of() -> None:
    """An agent that hides that its tool was refused does not pass."""

    async def agent(question: str, _: Conversation) -> Run:
        def use() -> None:
            with suppress(ReplayError):
                pay(5)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        return Run(input=question, calls=[call("pay", "paid", amount=5)], actual_output="paid")

    with replay(RUNS) as tape:
        report = evaluated(goldens=GOLDENS[:1], agent=agent)
    assert report.verdict.counts["failed"] == 1
    assert "was called where no tape is visible" in report.verdict.sentence
    assert (tape.left > 0, PAID) == (True, [])


def test_a_task_that_outlives_all_tapes_does_not_run() -> None:
    """Whoever began inside of a replay may not know that it has ended."""
    runs: list[Any] = []
    with replay(RUNS):
        context = contextvars.copy_context()
    with pytest.raises(ReplayError, match="or no longer"):
        context.run(pay, 5)
    assert (PAID, runs) == ([], [])
    assert pay(5) == "really paid 5"


def test_copied_contexts_see_the_tape() -> None:
    """Tasks, `to_thread`, threads with the context and other event loops are answered."""

    async def main() -> list[str]:
        return [await asyncio.create_task(apay(1)), await asyncio.to_thread(pay, 2)]

    results: list[str] = []
    runs = [Run(calls=[call("apay", "one", amount=1), *(call("pay", f"p{n}", amount=n) for n in (2, 3, 4))])]
    with replay(runs):
        results += asyncio.run(main())
        thread = threading.Thread(target=contextvars.copy_context().run, args=(lambda: results.append(pay(3)),))
        thread.start()
        thread.join()
        loop = asyncio.new_event_loop()
        results.append(loop.run_until_complete(asyncio.to_thread(pay, 4)))
        loop.close()
    assert (results, PAID) == (["one", "p2", "p3", "p4"], [])


def test_nested_tapes() -> None:
    """The innermost tape answers; after it the outer one does; after that the tools run."""
    with replay([Run(calls=[call("pay", "outer", amount=5)])]):
        with replay([Run(calls=[call("pay", "inner", amount=5)])]):
            assert pay(5) == "inner"
        assert pay(5) == "outer"
    assert pay(5) == "really paid 5"


def test_a_task_that_outlives_its_tape_does_not_run_while_another_is_open() -> None:
    """A tool that still belongs to a closed tape is not answered by another one, and does not run."""

    async def main() -> None:
        gate = asyncio.Event()

        async def late() -> None:
            await gate.wait()
            await apay(5)

        with replay([Run(calls=[call("apay", "other", amount=5)])]):
            with replay(RUNS):
                task = asyncio.create_task(late())
            gate.set()
            with pytest.raises(ReplayError, match="no tape is visible"):
                await task

    asyncio.run(main())
    assert PAID == []


def test_a_fixture_may_end_in_another_context() -> None:
    """A tape that is left in another context than it was entered in is closed."""
    opened = replay(RUNS)
    contextvars.copy_context().run(opened.__enter__)
    with pytest.raises(ReplayError):
        pay(5)
    opened.__exit__(None, None, None)
    assert pay(5) == "really paid 5"


def test_a_framework_that_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tools of an installed framework would run, nothing is replayed at all."""

    class Point:
        name = "broken"
        value = "broken._replay:patch"
        dist = None

        def load(self) -> Callable[[], None]:
            raise ImportError("half an installation")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Point()])
    with pytest.raises(ReplayError, match=r"cannot replace the tools of broken.*half an installation"), replay(RUNS):
        pass
    assert pay(5) == "really paid 5"


# Goldens, trials, verdicts


def test_each_golden_has_its_own_recording() -> None:
    """Trials and goldens at the same time each have the whole recording of their golden."""
    with replay(RUNS) as tape:
        report = evaluated(trials=8)
    assert report.passed
    assert str(tape) == "32 replayed, 0 faults, 0 outside the recording"
    answers = {(case.case.id, case.case.tools_called[1].output) for case in report.cases}
    assert answers == {("p5", "paid 5"), ("p6", "paid 6")}
    assert PAID == []


def test_an_answer_may_be_changed() -> None:
    """What a tool returned belongs to who called it: the next run gets it as it was recorded."""
    with replay([Run(calls=[call("search", ["A"], query="x")])], faults=[Fault("pay", output=["odd"])]) as tape:
        for _ in range(2):
            with tape.run("any"):
                for found in (search("x"), pay(5)):
                    assert len(found) == 1
                    found.append("changed")  # type: ignore[attr-defined]


def test_trials_take_turns() -> None:
    """Several recorded runs of one golden answer one trial after the other."""
    runs = [RUNS[0], Run(input="pay 5", calls=[call("search", [], query="orders"), call("pay", "again 5", amount=5)])]
    with replay(runs):
        report = evaluated(goldens=GOLDENS[:1], trials=4, max_concurrency=1)
    assert [case.case.tools_called[1].output for case in report.cases] == ["paid 5", "again 5"] * 2


def test_ids_come_before_inputs() -> None:
    """A recorded case of the golden's id answers, also if another one has its input."""
    cases = [
        LLMTestCase(id="p6", input="pay 5", tools_called=RUNS[1].calls),
        LLMTestCase(id="p5", input="other", tools_called=RUNS[0].calls),
    ]
    with replay(cases) as tape:
        assert evaluated().passed
    assert tape.left == 0


def test_leaving_the_recording_fails_the_case() -> None:
    """A changed argument is the reason of a failed case, with the closest call and the difference."""
    with replay(RUNS):
        report = evaluated(agent=payer(lambda question: 7 if question == "pay 6" else 5), gate=Gate(pass_rate=0.5))
    failing = next(case for case in report.cases if case.case.id == "p6")
    expected = (
        'left the recording at call 2: pay {"amount": 7}; the closest recorded call is pay {"amount": 6}: '
        "input_parameters.amount is 7, recorded 6"
    )
    assert report.passed  # as the gate says
    assert expected in report.verdict.sentence
    execution = failing.case.tools_called[1].execution
    assert (execution.left_recording, execution.replayed, execution.executed) == (expected, False, False)
    with pytest.raises(MetricAssertionError):
        assert_test(failing.case, [ToolCorrectnessMetric()])


@pytest.mark.parametrize("ends", ["any", "error"])
def test_leaving_the_recording_fails_whatever_end_is_expected(ends: Any) -> None:
    """A golden that allows any end does not allow this one."""
    golden = Golden(input="pay 9", expected_tools=[ToolCall(name="pay")], ends=ends)
    with replay(RUNS):
        report = evaluated(goldens=[golden])
    assert report.verdict.counts["failed"] == 1
    assert "the tape has no run of 'pay 9'" in report.verdict.sentence


def test_an_agent_that_hides_its_calls_fails_too() -> None:
    """A run that shows none of the calls that left the recording gets them."""

    async def agent(question: str, _: Conversation) -> Run:
        with suppress(ReplayError):
            pay(7)
        return Run(input=question, calls=[call("pay", "paid", amount=5)], actual_output="paid")

    with replay(RUNS):
        report = evaluated(agent=agent)
    assert report.verdict.counts["failed"] == 2
    assert "left the recording at call 1" in report.verdict.sentence


def test_conversations() -> None:
    """All turns of a conversation are on one recording, whether it was recorded as runs or as a conversation."""
    golden = Golden(
        turns=["pay 5", "pay 6"], id="talk", expected_tools=[ToolCall(name="pay", input_parameters={"amount": 6})]
    )
    runs = [run.model_copy(update={"conversation_id": "c"}) for run in RUNS]
    with replay(runs) as tape:
        report = evaluated(goldens=[golden])
    assert report.passed
    assert str(tape) == "4 replayed, 0 faults, 0 outside the recording"
    again = Tape([report.cases[0].case])
    with replay(again) as tape:
        assert evaluated(goldens=[golden]).passed
    assert tape.left == 0
    wrong = payer(lambda question: 8 if question == "pay 6" else 5)
    with replay(again):
        report = evaluated(goldens=[golden], agent=wrong)
    assert "left the recording at call 4" in report.verdict.sentence


def test_what_leaves_the_recording_inside_an_agent_fails_the_case() -> None:
    """Also if the recorded run shows nothing of the agent that a tool runs."""

    async def agent(question: str, _: Conversation) -> Run:
        double = ask_tape("expert", {"input": "?"}, runs_agent=True)
        assert not isinstance(double, Answer)
        with double.running(), suppress(ReplayError):  # type: ignore[union-attr]
            pay(7)
        return Run(input=question, calls=[call("pay", "paid", amount=5)], actual_output="paid")

    inner = call("pay", "paid 5", amount=5)
    expert = ToolCall(name="expert", input_parameters={"input": "?"}, output="x", execution={"children": [inner]})
    with replay([Run(input="pay 5", calls=[expert])]):
        report = evaluated(goldens=GOLDENS[:1], agent=agent)
    assert report.verdict.counts["failed"] == 1
    assert "input_parameters.amount is 7, recorded 5" in report.verdict.sentence


def test_hosted_tools_are_named() -> None:
    """A tool that the provider runs is not replayed, and the run says so."""

    async def agent(question: str, _: Conversation) -> Run:
        return Run(input=question, calls=[ToolCall(name="web_search", type="hosted", output="x")], actual_output="x")

    with replay(RUNS):
        report = evaluated(goldens=GOLDENS[:1], agent=agent)
    assert "web_search is run by the provider of the model, and not replayed" in report.cases[0].case.run.warnings


# Faults


def test_faults_are_met_by_calls_of_each_run() -> None:
    """`at`, `times` and `delay`; a faulty call takes no recorded answer."""
    runs = [Run(calls=[call("pay", f"p{n}", amount=5) for n in range(4)])]
    faults = [
        Fault("pay", error="TimeoutError: no answer", times=1),
        Fault("pay", output="odd", at=3),
        Fault("pay", delay=0.001),
    ]
    with replay(runs, faults=faults) as tape:
        for _ in range(2):
            outputs: list[Any] = []
            with tape.run("any"):
                for _ in range(4):
                    try:
                        outputs.append(pay(5))
                    except TimeoutError as error:
                        outputs.append(str(error))
            assert outputs == ["no answer", "p0", "odd", "p1"]
    assert str(tape) == "4 replayed, 8 faults, 0 outside the recording"


def test_recovery_from_a_fault_is_measured() -> None:
    """`ToolRecoveryMetric` tells an agent that tries again from one that gives up."""

    @observe
    def stubborn(_: str) -> str:
        for _ in range(2):
            try:
                return str(pay(5))
            except TimeoutError:
                continue
        return "gave up"

    @observe
    def meek(_: str) -> str:
        try:
            return str(pay(5))
        except TimeoutError:
            return "gave up"

    scores: list[float | None] = []
    for answer in (stubborn, meek):
        with record() as recorder, replay(RUNS, faults=[Fault("pay", error="TimeoutError: no answer", times=1)]):
            answer("pay 5")
        scores.append(ToolRecoveryMetric().measure(recorder.test_case()).score)
    assert scores == [1, 0]


def test_a_fault_that_no_call_met_is_named() -> None:
    """Its tool may be misspelt."""
    text = r"no call has met .*'pya'.*; the tape has calls of search, pay"
    with pytest.warns(ToolgradeWarning, match=text), replay(RUNS, faults=[Fault("pya", error="x")]):
        pass


def test_new_episodes_of_trials() -> None:
    """Trials that ask for the same new call add it once."""
    golden = Golden(
        input="x",
        expected_tools=[ToolCall(name="search")],
        available_tools=[ToolSpec(name="search", effect="read")],
    )

    async def agent(question: str, _: Conversation) -> Run:
        search("new")
        return Run(input=question, calls=[])

    with replay([Run(input="x", calls=[call("pay", amount=5)])], record_mode="new_episodes") as tape:
        evaluated(goldens=[golden], agent=agent, trials=4)
    assert [one.name for run in tape.runs for one in run.calls] == ["pay", "search"]
    wrong = golden.model_copy(update={"available_tools": [ToolSpec(name="search", effect="write")]})
    reads = Run(input="x", calls=[], available_tools=[ToolSpec(name="search", effect="read")])
    PAID.clear()
    with replay([reads], record_mode="new_episodes") as tape:
        evaluated(goldens=[wrong], agent=agent)
    assert (PAID, tape.left) == ([], 1)


def test_a_fault_may_be_an_exception() -> None:
    """The very exception is raised, with all that it carries."""
    error = UnicodeDecodeError("utf-8", b"x", 0, 1, "odd")
    with replay(RUNS, faults=[Fault("pay", error=error)]), pytest.raises(UnicodeDecodeError) as raised:
        pay(5)
    assert raised.value is error


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"error": ValueError},
        {"error": "x", "output": 1},
        {"error": "x", "at": 0},
        {"error": "x", "times": True},
        {"delay": -1.0},
    ],
)
def test_wrong_faults(options: dict[str, Any]) -> None:
    """What cannot be a fault names the tool."""
    with pytest.raises(ConfigurationError, match="'pay'"):
        Fault("pay", **options)


# What is compared


def test_ignored_arguments_and_matchers() -> None:
    """Arguments that are ignored may differ or be missing; a matcher takes the recorded value."""
    runs = [Run(calls=[call("search", "A", query="Orders", session="s1"), call("search", "B", query="Bills")])]
    ignore: dict[str, Any] = {"search": {"$.query": IgnoreCase()}}
    with replay(runs, ignore={"search": ["$.session"]}):
        assert search("Orders", session="s2") == "A"
        assert search("Bills", session="s2") == "B"
    with replay(runs, ignore=ignore):
        assert search("bills") == "B"
        with pytest.raises(ReplayError, match="session is missing"):
            search("orders")
    for wrong in ({"search": "$.session"}, {"search": [""]}, {"search": {"$.query": "x"}}):
        with pytest.raises(ConfigurationError, match="ignore must be like"), replay(runs, ignore=wrong):  # type: ignore[arg-type]
            pass


def test_a_call_that_ran_several_times_answers_as_often(tmp_path: Path) -> None:
    """A step that is run again makes its calls again; the answers of other equal calls come first."""
    twice = ToolCall(
        name="pay", input_parameters={"amount": 1}, output="first", execution={"status": "ok", "attempts": 2}
    )
    once = ToolCall(name="pay", input_parameters={"amount": 1}, output="second")
    Tape([Run(calls=[twice, once])]).save(tmp_path / "tape.json")
    for tape in (Tape([Run(calls=[twice, once])]), Tape.load(tmp_path / "tape.json")):
        with replay(tape) as again:
            assert [pay(1), pay(1), pay(1)] == ["first", "second", "first"]
            with pytest.raises(ReplayError, match="left the recording at call 4"):
                pay(1)
        assert again.left == 1


def test_a_call_that_ran_on_invalid_arguments(tmp_path: Path) -> None:
    """Where a framework ran a tool on arguments that are no JSON object, what the model received is the answer."""
    how = {"status": "invalid_arguments", "executed": True, "requested_parameters": "not json"}
    fine = ToolCall(
        name="pay",
        input_parameters={"amount": 1},
        execution={**how, "model_output": "paid", "not_captured": ["output"]},
    )
    failed = ToolCall(
        name="pay",
        input_parameters={"amount": 3},
        execution={**how, "error": "TypeError: no amount", "model_output": "no amount"},
    )
    refused = ToolCall(name="pay", input_parameters={"amount": 2}, execution={**how, "executed": False})
    Tape([Run(calls=[fine, failed, refused])]).save(tmp_path / "tape.json")
    for tape in (Tape([Run(calls=[fine, failed, refused])]), Tape.load(tmp_path / "tape.json")):
        with replay(tape):
            assert pay(1) == "paid"
            with pytest.raises(TypeError, match="no amount"):
                pay(3)
            with pytest.raises(ReplayError, match="left the recording"):
                pay(2)


def test_an_empty_list_that_the_model_received(tmp_path: Path) -> None:
    """It stays on the tape, where it differs from the output."""
    paid = ToolCall(name="pay", input_parameters={"amount": 1}, output="paid", execution={"model_output": []})
    Tape([Run(calls=[paid])]).save(tmp_path / "tape.json")
    [case] = read_cases(tmp_path / "tape.json")
    assert case.tools_called == [paid]


def test_redacted_arguments_equal_any() -> None:
    """A redacted argument answers any value, after an equal one, and the run is told."""
    runs = [Run(calls=[call("pay", "hidden", amount=redact.REDACTED), call("pay", "plain", amount=5)])]
    with record() as recorder, replay(runs), recorder.run("hi"):
        assert [pay(5), pay(6)] == ["plain", "hidden"]
    [warning] = recorder.last_run.warnings
    assert "input_parameters.amount is redacted" in warning


def test_what_is_left_of_a_redacted_argument_is_compared() -> None:
    """A text with a secret in it equals only texts that are equal around it."""
    recorded = f"SELECT * FROM t WHERE key='{redact.REDACTED}'"  # noqa: S608 - no database
    runs = [Run(calls=[call("search", ["A"], query=recorded)])]
    for asked in ("SELECT * FROM t WHERE key='abc'", recorded):
        with replay(runs):
            assert search(asked) == ["A"]
    for other in ("DROP TABLE t", "SELECT * FROM t WHERE key='abc", redact.REDACTED):
        with replay(runs), pytest.raises(ReplayError, match="left the recording"):
            search(other)
    with replay([Run(calls=[call("search", ["A"], query="x")])]), pytest.raises(ReplayError):
        search(redact.REDACTED)
    with replay([Run(calls=[call("pay", amount=5, note=redact.REDACTED)])]), pytest.raises(ReplayError):
        pay(5)
    lists = [Run(calls=[call("search", ["A"], query=["keep", {"key": redact.REDACTED}])])]
    with replay(lists), pytest.raises(ReplayError):
        search(["drop", {"key": "x"}])  # type: ignore[arg-type]
    with replay(lists):
        assert search(["keep", {"key": "x"}]) == ["A"]  # type: ignore[arg-type]


def test_a_run_that_left_its_recording_is_no_recording(tmp_path: Path) -> None:
    """What was answered by an error of the replay is not a failure of the tool."""
    with record() as recorder, replay([]), recorder.run("hi"), suppress(ReplayError):
        pay(5)
    Tape(recorder.runs).save(tmp_path / "tape.json")
    for tape in (recorder.runs, tmp_path / "tape.json"):
        with replay(tape), pytest.raises(ReplayError, match="no call of pay is recorded"):
            pay(5)


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        (call("pay", f"paid with {redact.REDACTED}", amount=5), "the recorded output of pay is redacted"),
        (failed("pay", f"ValueError: {redact.REDACTED}", amount=5), "the recorded error of pay is redacted"),
        (
            ToolCall(
                name="pay",
                input_parameters={"amount": 5},
                execution={"not_captured": ["output"], "source": "r.jsonl:3"},
            ),
            "the output of pay was not captured (r.jsonl:3)",
        ),
    ],
)
def test_answers_that_are_not_whole(recorded: ToolCall, why: str) -> None:
    """What was cut or redacted is never replayed in silence."""
    with (
        record() as recorder,
        replay([Run(calls=[recorded])]) as tape,
        recorder.run("hi"),
        pytest.raises(ReplayError) as raised,
    ):
        pay(5)
    assert str(raised.value).startswith(f"cannot replay call 1: {why}")
    assert tape.left == 1
    assert recorder.last_run.calls[0].execution.left_recording == str(raised.value)  # type: ignore[union-attr]


# Files and modes


def test_files_of_recorders_and_results(tmp_path: Path) -> None:
    """A file of runs, a file of results, and a tape all answer alike."""
    with JsonlSink(tmp_path / "runs.jsonl") as sink:
        for run in RUNS:
            sink.write(run)
    with replay(tmp_path / "runs.jsonl") as tape:
        assert evaluated(results=tmp_path / "results.jsonl").passed
    tape.save(tmp_path / "tape.json")
    for name in ("runs.jsonl", "results.jsonl", "tape.json"):
        with replay(str(tmp_path / name)) as again:
            assert evaluated().passed
        assert str(again) == "4 replayed, 0 faults, 0 outside the recording"
    assert [case.input for case in read_cases(tmp_path / "tape.json")] == ["pay 5", "pay 6"]


def test_a_tape_reviews_well(tmp_path: Path) -> None:
    """One call a block, no ids of the run, no times."""
    with record() as recorder, replay(RUNS), recorder.run("pay 5"):
        search("orders")
    Tape(recorder.runs).save(tmp_path / "tape.json")
    assert json.loads((tmp_path / "tape.json").read_text(encoding="utf-8")) == [
        {
            "input": "pay 5",
            "tools_called": [{"name": "search", "input_parameters": {"query": "orders"}, "output": ["A"]}],
        }
    ]
    assert (tmp_path / "tape.json").read_text(encoding="utf-8").count("\n") == 16


def test_a_secret_is_not_written(tmp_path: Path) -> None:
    """The answer with it cannot be replayed, and the warning says how it can."""
    tape = Tape([Run(calls=[call("pay", {"api_key": "sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa"}, amount=5)])])
    with pytest.warns(ToolgradeWarning, match="1 answer with a secret cannot be replayed"):
        tape.save(tmp_path / "tape.json")
    assert "sk-proj" not in (tmp_path / "tape.json").read_text(encoding="utf-8")
    tape.save(tmp_path / "private.json", redactor=redact.OFF)
    with replay(tmp_path / "private.json"):
        assert pay(5) == {"api_key": "sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa"}


def test_once_records_what_has_no_run(tmp_path: Path) -> None:
    """`once` runs a golden that is not recorded, and no other."""
    path = tmp_path / "tape.json"
    with replay(path, record_mode="once") as tape:
        assert evaluated(goldens=GOLDENS[:1]).passed
    assert (PAID, str(tape)) == (["orders", 5], "0 replayed, 2 recorded, 0 faults, 0 outside the recording")
    PAID.clear()
    with replay(path, record_mode="once") as tape:
        assert evaluated().passed
    assert (sorted(map(str, PAID)), tape.left) == (["6", "orders"], 0)
    PAID.clear()
    with replay(path):
        assert evaluated(trials=3).passed
    assert PAID == []


def test_all_replaces_what_was_recorded(tmp_path: Path) -> None:
    """`all` replaces the runs of the goldens that it runs, and keeps those of others."""
    path = tmp_path / "tape.json"
    Tape(RUNS).save(path)
    with replay(path, record_mode="all"):
        evaluated(goldens=GOLDENS[1:])
    outputs = [[one.output for one in case.tools_called] for case in read_cases(path)]
    assert outputs == [[["A"], "paid 5"], [["found orders", ""], "really paid 6"]]
    with replay(path, record_mode="all"):
        pay(1)
    assert [[one.output for one in case.tools_called] for case in read_cases(path)] == [["really paid 1"]]


def test_new_episodes_run_what_may_run(tmp_path: Path) -> None:
    """A tool runs if it is declared to read, or named; a guess by its name does not let it run."""
    path = tmp_path / "tape.json"
    reads = ToolSpec(name="search", effect="read")
    Tape([Run(input="pay 5", available_tools=[reads], calls=[])]).save(path)
    with replay(path, record_mode="new_episodes") as tape:
        report = evaluated(goldens=GOLDENS[:1])
    assert PAID == ["orders"]
    assert "may write, so it did not run" in report.verdict.sentence
    assert str(tape) == "0 replayed, 1 recorded, 0 faults, 1 outside the recording"
    with replay(path, record_mode="new_episodes", writes="pay"):
        assert evaluated(goldens=GOLDENS[:1]).passed
    assert PAID == ["orders", 5]
    with replay(path):
        assert evaluated(goldens=GOLDENS[:1]).passed
    assert PAID == ["orders", 5]


def test_a_run_that_breaks_replaces_nothing(tmp_path: Path) -> None:
    """Neither what a program recorded before it broke, nor the run of an agent that broke, is a recording."""
    path = tmp_path / "tape.json"
    Tape(RUNS).save(path)
    before = path.read_text(encoding="utf-8")
    with suppress(ZeroDivisionError), replay(path, record_mode="all"):
        pay(5)
        _ = 1 / 0

    async def broken(question: str, _: Conversation) -> Run:
        if question == "pay 5":
            raise ValueError("no model")
        return await payer()(question, Conversation())  # type: ignore[misc]

    assert path.read_text(encoding="utf-8") == before
    with replay(path, record_mode="all"):
        evaluated(agent=broken)
    outputs = [[one.output for one in case.tools_called or ()] for case in read_cases(path)]
    assert outputs == [[["A"], "paid 5"], [["found orders", ""], "really paid 6"]]


def test_a_call_that_does_not_end_is_named(tmp_path: Path) -> None:
    """It is not on the tape, and a warning says so."""

    @observe(tool=True)
    async def wait() -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        with suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(wait(), 0.01)

    path, text = tmp_path / "tape.json", "calls that did not end, or had no JSON form, are not on the tape: wait"
    with pytest.warns(ToolgradeWarning, match=text), replay(path, record_mode="all"):
        asyncio.run(main())


def test_a_call_without_a_json_form_runs_and_is_named(tmp_path: Path) -> None:
    """Recording does not stop a tool, and says what it could not record."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]

    @observe(tool=True)
    def store(value: object) -> int:
        PAID.append("stored")
        return len(str(type(value)))

    path, text = tmp_path / "tape.json", "or had no JSON form, are not on the tape: store"
    with pytest.warns(ToolgradeWarning, match=text), replay(path, record_mode="all"):
        assert [store(deep), pay(5)] == [14, "really paid 5"]
    assert PAID == ["stored", 5]
    assert [one.name for one in Tape.load(path).runs[0].calls] == ["pay"]


def test_a_tape_without_calls(tmp_path: Path) -> None:
    """An agent that calls nothing has a tape, too, which answers nothing."""
    with replay(tmp_path / "tape.json", record_mode="once"):
        pass
    with replay(tmp_path / "tape.json") as tape, pytest.raises(ReplayError, match="no call of pay is recorded"):
        pay(5)
    assert tape.left == 1


def test_goldens_with_equal_texts(tmp_path: Path) -> None:
    """Each has its own recorded run, by its id; a tape that has none of it does not give that of another."""
    goldens = [Golden(id=name, input="pay 5", expected_tools=[ToolCall(name="pay")]) for name in ("a", "b")]
    for golden in goldens:
        with replay(tmp_path / "tape.json", record_mode="once"):
            assert evaluated(goldens=[golden]).passed
    assert len(Tape.load(tmp_path / "tape.json").runs) == 2
    with replay(tmp_path / "tape.json"):
        report = evaluated(goldens=[goldens[0].model_copy(update={"id": "c"})])
    assert "the tape has no run of 'c'" in report.verdict.sentence


def test_a_question_with_a_secret_is_found(tmp_path: Path) -> None:
    """It is written without the secret."""
    golden = Golden(input="With api_key=sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa pay 5", expected_tools=[ToolCall(name="pay")])
    with replay(tmp_path / "tape.json", record_mode="once"):
        assert evaluated(goldens=[golden]).passed
    assert "sk-proj" not in (tmp_path / "tape.json").read_text(encoding="utf-8")
    with replay(tmp_path / "tape.json") as tape:
        assert evaluated(goldens=[golden]).passed
    assert tape.left == 0


def test_wrong_options(tmp_path: Path) -> None:
    """Each names what is wrong and what to do."""
    for tape, options, text in (
        (tmp_path / "none.json", {}, "record it with record_mode='once'"),
        (tmp_path / "runs.jsonl", {"record_mode": "all"}, r"Tape.load\(.*\).save\("),
        ([], {"record_mode": "never"}, "record_mode must be one of none, new_episodes, once, all"),
        (tmp_path / "no folder" / "tape.json", {"record_mode": "all"}, "there is no folder"),
        (5, {}, "a tape must be a file, a list of runs or a Tape, got int"),
        ([5], {}, "a tape must be made of runs or cases, got int 5"),
        ([], {"faults": ["pay"]}, "faults must be a list of Fault, got 'pay'"),
        ([], {"ignore": {"search": ["$.items[0].id"]}}, "ignore must be like"),
    ):
        with pytest.raises(ConfigurationError, match=text), replay(tape, **options):
            pass
