"""Evaluation of agents on goldens that are conversations: turns, answers to runs that wait, functions as users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    Approve,
    BudgetMetric,
    ConversationalTestCase,
    Golden,
    LLMTestCase,
    MetricResult,
    Reject,
    Report,
    ResultStatus,
    Run,
    SimulatedUser,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    ToolPolicyMetric,
    ToolSuccessRate,
    UserTurn,
    evaluate,
)
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.errors import ConfigurationError
from toolgrade.expect import Expect, Forbid, Plan
from toolgrade.judge import Judge
from toolgrade.verdict import wrong_end

DELETE = ToolCall(name="delete", id="d1")
WAITS = ToolCall(name="delete", id="d1", execution={"status": "pending"})  # type: ignore[arg-type]
LOOK = ToolCall(name="look_up", id="l1")


class Anything:
    """A metric that every conversation passes."""

    label, threshold = "anything", 1.0

    def measure(self, _case: object) -> MetricResult:
        """Return 1."""
        return MetricResult(metric=self.label, status=ResultStatus.SCORED, threshold=1.0, score=1.0, passed=True)

    async def a_measure(self, case: object) -> MetricResult:
        """Return what `measure` returns."""
        return self.measure(case)


class Agent:
    """An agent that answers the inputs of each conversation with these runs, and remembers all inputs."""

    def __init__(self, *runs: Run | Exception) -> None:
        self.runs = runs
        self.inputs: list[Any] = []

    async def __call__(self, said: object, conversation: Conversation) -> Run:
        """Return the next run of this conversation, or raise it."""
        number = conversation.memory["number"] = conversation.memory.get("number", -1) + 1
        self.inputs.append(said)
        run = self.runs[min(number, len(self.runs) - 1)]
        if isinstance(run, Exception):
            raise run
        return run


def ask(golden: Golden, agent: AgentCallable, **options: Any) -> Report:
    """Evaluate one golden with a metric that everything passes."""
    return evaluate(goldens=[golden], agent=agent, metrics=[Anything()], show_progress=False, **options)


def case_of(golden: Golden, agent: AgentCallable, **options: Any) -> ConversationalTestCase:
    """The conversation of a golden."""
    case = ask(golden, agent, **options).cases[0].case
    assert isinstance(case, ConversationalTestCase)
    return case


def test_turns_are_said_in_order_to_one_conversation() -> None:
    """Each with its calls and expectations; what the golden says of the whole stands on the case."""
    said: list[tuple[str, str]] = []

    async def agent(text: str, conversation: Conversation) -> Run:
        said.append((text, conversation.id))
        call = ToolCall(name=text)
        return Run(actual_output=f"{text} done", calls=[call], tags=["beta"], usage={"input_tokens": 3}, duration=2)

    booking = UserTurn("book", expected_tools=[ToolCall(name="book")], required_texts=["done"])
    golden = Golden(id="trip", turns=["find", booking], expected_tools=[], ends="ok", tags=["air"], metadata={"a": 1})
    case = case_of(golden, agent, trials=2)

    ids = {conversation for _, conversation in said}
    assert [[text for text, one in said if one == conversation] for conversation in ids] == [["find", "book"]] * 2
    assert [(turn.role, turn.content) for turn in case.turns] == [
        *(("user", "find"), ("assistant", "find done"), ("user", "book"), ("assistant", "book done")),
    ]
    assert [turn.tools_called for turn in case.turns[1::2]] == [[ToolCall(name="find")], [ToolCall(name="book")]]
    assert [turn.expected_tools for turn in case.turns] == [None, None, [ToolCall(name="book")], None]
    assert (case.id, case.expected_tools, case.ends, case.metadata) == ("trip", [], "ok", {"a": 1})
    assert case.tags == ["air", "beta"]
    assert case.turns[1].metadata == {"status": "ok", "usage": {"input_tokens": 3}, "duration": 2.0}
    assert Golden.from_conversation(case).turns == golden.turns


WAITING = Run(actual_output="May I?", calls=[LOOK, WAITS], status="interrupted", usage={"input_tokens": 2})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rest",
    [
        Run(actual_output="Deleted.", calls=[LOOK, DELETE], usage={"input_tokens": 5}),
        Run(actual_output="Deleted.", calls=[DELETE], usage={"input_tokens": 3}),
        Run(actual_output="Deleted.", calls=[], usage={"input_tokens": 3}),
    ],
    ids=["whole", "rest", "no calls"],
)
@pytest.mark.parametrize("answer", [Approve(), Reject("not that one"), "yes"])
def test_an_answer_goes_on_in_the_same_turn(rest: Run, answer: Any) -> None:
    """The agent is given it as it is; the turn has each call once, also if only the rest is returned."""
    agent = Agent(WAITING, rest, Run(actual_output="Bye."))
    golden = Golden(turns=["Delete a.", answer, "Thanks."])
    case = case_of(golden, agent)

    assert agent.inputs == ["Delete a.", answer, "Thanks."]
    assert [turn.content for turn in case.turns] == ["Delete a.", "Deleted.", "Thanks.", "Bye."]
    assert [call.id for call in case.turns[1].tools_called or []] == ["l1", "d1"]
    assert case.turns[1].metadata["status"] == "ok"
    assert case.turns[1].metadata["usage"] == {"input_tokens": 5}
    assert Golden.from_conversation(case).turns == golden.turns


def test_calls_without_ids_are_joined_by_what_they_are() -> None:
    """Each once, whether the agent returns the whole turn or the rest of it."""
    look, delete = ToolCall(name="look"), ToolCall(name="delete", input_parameters={"file": "a"})
    waiting = Run(calls=[look, delete], status="interrupted")  # type: ignore[arg-type]
    for calls in ([look, delete], [delete]):
        case = case_of(Golden(turns=["Delete a.", Approve()]), Agent(waiting, Run(calls=calls)))
        assert [call.name for call in case.turns[1].tools_called or []] == ["look", "delete"]


def test_a_text_that_answers_keeps_its_expectations() -> None:
    """They belong to the turn that it goes on with."""
    first = UserTurn("Delete a.", expected_tools=[LOOK], required_texts=["sure"])
    second = UserTurn("yes", expected_tools=[DELETE], required_texts=["deleted"])
    case = case_of(Golden(turns=[first, second]), Agent(WAITING, Run(calls=[LOOK, DELETE])))

    assert case.turns[0].expected_tools == [LOOK, DELETE]
    assert case.turns[0].required_texts == ["sure", "deleted"]


@pytest.mark.parametrize(
    ("turns", "runs", "ends", "outcome", "why", "count"),
    [
        (["a", "b"], [Run(), Run()], None, "passed", None, 2),
        (["a", "b"], [Run(status="error", error="E: x")], None, "agent_error", "turn 1: E: x", 2),  # type: ignore[arg-type]
        (["a", "b"], [RuntimeError("gone")], None, "agent_error", "turn 1: RuntimeError: gone", 2),
        (["a", "b"], [Run(), ValueError("gone")], None, "agent_error", "ValueError: gone", 2),
        (["a"], [WAITING], None, "agent_error", "the run waits for a person", 1),
        (["a"], [WAITING], "interrupted", "passed", None, 1),
        (["a", Approve()], [WAITING, WAITING], "interrupted", "passed", None, 1),
        (["a", Approve()], [WAITING, OSError("gone")], None, "agent_error", "OSError: gone", 1),
        (["a", "b", Approve()], [Run()], None, "agent_error", "turn 2 should have waited for Approve()", 2),
        (["a", Reject(), "b"], [Run()], None, "agent_error", "turn 1 should have waited for Reject()", 2),
    ],
)
def test_how_conversations_end(
    turns: list[Any], runs: list[Any], ends: Any, outcome: str, why: str | None, count: int
) -> None:
    """A run that does not end well ends them, unless it waits and is answered; what was not asked was not called."""
    report = ask(Golden(turns=turns, ends=ends), Agent(*runs))
    (result,) = report.cases

    assert result.outcome == outcome
    assert (result.wrong_end.why if result.wrong_end else None) == why or str(why) in str(result.wrong_end)
    assert isinstance(result.case, ConversationalTestCase)
    assert len(result.case.turns) == 2 * count


def test_what_is_never_asked_is_not_met() -> None:
    """Whatever end the golden allows, and also if the next text is no answer to the run that waits."""
    look = UserTurn("b", expected_tools=[LOOK], required_texts=["seen"])
    for runs in ([Run(status="error", error="E: x", calls=[])], [Run(status="stopped", calls=[])]):  # type: ignore[arg-type]
        golden = Golden(turns=[UserTurn("a", expected_tools=[]), look], ends="any")
        metrics = [ToolCorrectnessMetric(threshold=1)]
        report = evaluate(goldens=[golden], agent=Agent(*runs), metrics=metrics, show_progress=False)
        assert (report.cases[0].outcome, report.cases[0].results[0].score) == ("failed", 0)

    for nothing in ([], Plan([])):
        golden = Golden(turns=["a", UserTurn("b", expected_tools=nothing)])
        case = case_of(golden, Agent(WAITING, Run(calls=[LOOK, DELETE])))
        assert [turn.content for turn in case.turns] == ["a", "May I?", "b", ""]
        assert wrong_end(case) == ("agent_error", "turn 1: the run waits for a person")


def test_an_approved_call_is_known_to_a_policy() -> None:
    """Its id is in the metadata that the policy reads."""
    policy = ToolPolicyMetric(needs_approval=["delete"])
    done = ToolCall(name="delete", id="d1", execution={"status": "ok", "executed": True})  # type: ignore[arg-type]
    for answer, outcome in ((Approve(), "passed"), ("yes", "failed")):
        golden = Golden(turns=["Delete a.", answer])
        agent = Agent(WAITING, Run(calls=[LOOK, done]))
        (case,) = evaluate(goldens=[golden], agent=agent, metrics=[policy], show_progress=False).cases
        assert case.outcome == outcome


@pytest.mark.parametrize(
    ("turns", "fields", "message"),
    [
        (["a", UserTurn("b", expected_tools=[ToolCall(name="x", turn=1)])], {}, "must be one of that turn, got turn=1"),
        (["a"], {"expected_tools": [ToolCall(name="x", turn=4)]}, "'x' names turn 4, and the user has 1 turn"),
        ([UserTurn("a", expected_tools=Plan([Expect("x")]))], {"expected_tools": [LOOK]}, "must be lists of calls"),
    ],
)
def test_goldens_that_contradict_themselves_are_refused(turns: list[Any], fields: Any, message: str) -> None:
    """Before the agent is asked."""
    with pytest.raises(ConfigurationError, match=message):
        ask(Golden(turns=turns, **fields), Agent(Run()))


def test_calls_of_an_agent_that_broke_are_unknown() -> None:
    """Unless it stored them before, or they are of the part that waited."""

    async def stores(said: str, conversation: Conversation) -> Run:
        conversation.unfinished = Run(input=said, calls=[LOOK])
        raise RuntimeError("gone")

    assert case_of(Golden(turns=["a"]), Agent(RuntimeError("gone"))).turns[1].tools_called is None
    assert case_of(Golden(turns=["a"]), stores).turns[1].tools_called == [LOOK]
    broken = case_of(Golden(turns=["a", Approve()]), Agent(WAITING, RuntimeError("gone")))
    assert broken.turns[1].tools_called == WAITING.calls


# Functions as users


def test_a_function_sees_the_conversation_and_ends_it() -> None:
    """Async or not; it may answer a run that waits."""

    def user(case: ConversationalTestCase) -> Any:
        if not case.turns:
            return "Delete a."
        waits = case.turns[-1].metadata.get("status") == "interrupted"
        return Approve() if waits else None

    async def asynchronous(case: ConversationalTestCase) -> Any:
        await asyncio.sleep(0)
        return user(case)

    for function in (user, asynchronous):
        agent = Agent(WAITING, Run(actual_output="Deleted.", calls=[LOOK, DELETE]))
        case = case_of(Golden(user=function, expected_tools=[DELETE]), agent)
        assert agent.inputs == ["Delete a.", Approve()]
        assert case.user_error is None
        assert case.expected_tools == [DELETE]
        assert Golden.from_conversation(case).turns == [UserTurn("Delete a."), Approve()]


def _raises(_case: ConversationalTestCase) -> str:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("user", "error"),
    [
        (_raises, "in turn 1, the user raised ValueError: no idea"),
        (lambda _: 3, "in turn 1, the user must return text, Approve(), Reject() or None, got int"),
        (lambda _: " ", "in turn 1, the user said nothing"),
        (lambda _: None, "in turn 1, the user said nothing"),
        (lambda _: Reject(), "in turn 1, the user returned Reject(), but the agent does not wait for a person"),
        (lambda case: "a" if not case.turns else Approve(), "in turn 2, the user returned Approve(), but the agent"),
        (lambda _: "again", "in turn 201, the user did not stop after 200 texts; return None at the end"),
    ],
)
def test_a_user_that_breaks(user: Callable[[ConversationalTestCase], Any], error: str) -> None:
    """The conversation says what the user did wrong; the agent is not blamed for where it stands."""
    report = ask(Golden(user=user), Agent(Run(actual_output="ok")))

    assert str(getattr(report.cases[0].case, "user_error", None)).startswith(error)
    assert report.cases[0].wrong_end is None


# Limits


async def _sleeps_at_the_second(_said: str, conversation: Conversation) -> Run:
    number = conversation.memory["number"] = conversation.memory.get("number", 0) + 1
    if number > 1:
        await asyncio.sleep(60)
    return Run(actual_output="ok")


async def _sleeping_user(_case: ConversationalTestCase) -> str:
    await asyncio.sleep(60)
    return "late"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": 0.2}, "TimeoutError: no answer within 0.2 s"),
        ({"golden_timeout": 0.2}, "TimeoutError: the whole golden took longer than 0.2 s"),
        ({"timeout": 60, "golden_timeout": 0.2}, "TimeoutError: the whole golden took longer than 0.2 s"),
        ({"timeout": 0.2, "golden_timeout": 60}, "TimeoutError: no answer within 0.2 s"),
    ],
)
def test_an_agent_that_is_late_in_a_later_turn(options: dict[str, float], error: str) -> None:
    """`timeout` bounds each call, `golden_timeout` all of them; the earlier turns stay."""
    case = case_of(Golden(turns=["a", "b", "c"]), _sleeps_at_the_second, **options)

    assert [turn.content for turn in case.turns] == ["a", "ok", "b", "", "c", ""]
    assert (case.turns[3].metadata["status"], case.turns[3].metadata["error"]) == ("stopped", error)


def test_a_user_that_is_late() -> None:
    """The whole golden bounds it."""
    case = case_of(Golden(user=_sleeping_user), Agent(Run()), golden_timeout=0.1)

    assert case.user_error == "in turn 1, the user said nothing within 0.1 s"


# What is refused before the first question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goldens": [Golden(id="r", user=SimulatedUser(goal="a refund"))]}, "the golden 'r' has a SimulatedUser"),
        (
            {"goldens": [Golden(user=SimulatedUser(goal="a refund"))], "user_model": 3},
            "a judge must be the name of a model",
        ),
        (
            {
                "goldens": [Golden(user=SimulatedUser(goal="a refund"))],
                "user_model": lambda folder: Judge("gpt-4.1", batch=True, cache=folder / "cache.sqlite"),
            },
            "user_model must answer at once",
        ),
        (
            {"goldens": [Golden(turns=["a"], ends="ok"), Golden(turns=["a"])], "metrics": [ToolCorrectnessMetric()]},
            "goldens[1] states nothing of what the agent should do, which tool_correctness needs",
        ),
        (
            {"goldens": [Golden(id="g", input="a")], "metrics": [Anything(), TaskSuccessMetric()]},
            "the golden 'g' states nothing of what the agent should do, which task_success needs",
        ),
        (
            {"goldens": [Golden(turns=["a"])], "agent": None, "observed_callback": str},
            "goldens[0] is a conversation, and observed_callback answers single questions",
        ),
        (
            {"goldens": None, "agent": None, "test_cases": [LLMTestCase()], "user_model": "gpt-4.1"},
            "user_model needs goldens and an agent",
        ),
    ],
)
def test_refused_before_the_first_question(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The error names the golden; the agent is not asked."""
    agent = Agent(Run())
    if callable(options.get("user_model")):
        options = {**options, "user_model": options["user_model"](tmp_path)}
    with pytest.raises(ConfigurationError) as raised:
        evaluate(**{"agent": agent, "metrics": [Anything()], **options})

    assert str(raised.value).startswith(message)
    assert not agent.inputs


def test_goldens_that_state_nothing_are_for_metrics_that_need_nothing() -> None:
    """They are asked, such as for a budget."""
    assert ask(Golden(turns=["a"]), Agent(Run(actual_output="ok"))).passed


# Trials, several agents and files of results


def test_trials_and_agents_have_conversations_of_their_own() -> None:
    """Rows are named as those of single questions; conversations run side by side, their turns in order."""
    agents = {"one": Agent(Run(actual_output="1")), "two": Agent(Run(actual_output="2"))}
    goldens = [Golden(id="g", turns=["a", "b"]), Golden(id="h", turns=["c"])]
    report = evaluate(goldens=goldens, agents=agents, metrics=[Anything()], trials=3, max_concurrency=4)

    assert [(one.agent, one.case.id, one.trial) for one in report.cases] == [
        (agent, golden, trial) for agent in ("one", "two") for golden in ("g", "h") for trial in (1, 2, 3)
    ]
    assert [len(agent.inputs) for agent in agents.values()] == [9, 9]
    summaries = report.trial_summaries
    assert all(summary.pass_hat[3] == 1 for summary in summaries)


def test_a_conversation_that_was_cut_is_asked_whole_again(tmp_path: Path) -> None:
    """The file of results has whole conversations only."""
    path = tmp_path / "results.jsonl"
    goldens = [Golden(turns=["a", "b"]), Golden(turns=["c", "d"])]
    inputs: list[str] = []

    async def is_cut(said: str, conversation: Conversation) -> Run:
        inputs.append(said)
        if said == "d" and len(inputs) == 4:
            raise KeyboardInterrupt
        return Run(actual_output=said, conversation_id=conversation.id)

    options: dict[str, Any] = {"goldens": goldens, "agent": is_cut, "metrics": [Anything()], "max_concurrency": 1}
    with pytest.raises(KeyboardInterrupt):
        evaluate(results=path, **options)
    report = evaluate(results=path, resume=True, **options)

    assert inputs == ["a", "b", "c", "d", "c", "d"]
    assert [len(getattr(one.case, "turns", [])) for one in report.cases] == [4, 4]


def test_functions_as_users_are_asked_again(tmp_path: Path) -> None:
    """Their code has no text, so that no line can be known to be theirs."""

    def says(text: str) -> Any:
        return lambda case: None if case.turns else text

    first, second = Agent(Run(actual_output="1")), Agent(Run(actual_output="2"))
    ask(Golden(user=says("a")), first, results=tmp_path / "results.jsonl")
    case = case_of(Golden(user=says("b")), second, results=tmp_path / "results.jsonl", resume=True)

    assert (first.inputs, second.inputs) == (["a"], ["b"])
    assert [turn.content for turn in case.turns] == ["b", "2"]


def test_a_plan_of_a_turn_is_kept() -> None:
    """As it is in the golden."""
    plan = Plan([Forbid("delete")])
    case = case_of(Golden(turns=[UserTurn("a", expected_tools=plan)]), Agent(Run()))

    assert case.turns[0].expected_tools == plan


RUNS = st.builds(
    Run,
    actual_output=st.sampled_from((None, "done", "7")),
    calls=st.lists(st.sampled_from((LOOK, DELETE, ToolCall(name="pay", input_parameters={"sum": 7}))), max_size=3),
    status=st.sampled_from(("ok", "ok", "error", "stopped", "interrupted")),
    usage=st.sampled_from((None, {"input_tokens": 4})),
    duration=st.sampled_from((None, 2.0)),
    warnings=st.sampled_from(([], ["incomplete"])),
)
STATED = st.fixed_dictionaries(
    {"expected_tools": st.lists(st.sampled_from((LOOK, DELETE)), max_size=2)},
    optional={"required_texts": st.sampled_from((["done"], ["7"]))},
)
METRICS = [
    ToolCorrectnessMetric(evaluation_params=["input_parameters"], denominator="f1"),
    TaskSuccessMetric(effects={"delete": "write", "look_up": "read", "pay": "write"}),
    BudgetMetric(max_calls=1, max_tokens=3, max_seconds=1),
    ToolSuccessRate(),
]


@given(RUNS, STATED, st.sampled_from((None, "ok", "interrupted", "any")), st.booleans())
def test_one_turn_is_worth_its_question(run: Run, stated: dict[str, Any], ends: Any, on_the_turn: bool) -> None:
    """A golden of one turn has the scores, the calls and the outcome of a golden of that question."""
    question = Golden(input="a", ends=ends, **stated)
    turns = [UserTurn("a", **stated)] if on_the_turn else ["a"]
    talk = Golden(turns=turns, ends=ends, **({} if on_the_turn else stated))
    one, other = evaluate(goldens=[question, talk], agent=Agent(run), metrics=METRICS).cases

    assert [(result.status, result.score) for result in one.results] == [
        (result.status, result.score) for result in other.results
    ]
    assert one.outcome == other.outcome
    assert isinstance(other.case, ConversationalTestCase)
    assert isinstance(one.case, LLMTestCase)
    assert other.case.turns[1].tools_called == one.case.tools_called
