"""The laws of metrics over conversations: a turn is worth what its case is worth, and calls count in their turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    BudgetMetric,
    ConversationalTestCase,
    LLMTestCase,
    Metric,
    MetricResult,
    MissingFieldError,
    NotMeasuredError,
    ResultStatus,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolPolicyMetric,
    ToolSuccessRate,
    Turn,
    evaluate,
    evaluate_async,
)
from toolgrade.errors import InvalidDataError
from toolgrade.evaluation.measuring import measure_in_thread
from toolgrade.expect import Alternatives, Expect, Forbid, OneOf, Parallel, Plan

_calls = st.builds(
    ToolCall,
    name=st.sampled_from(("look", "look", "book", "pay")),
    input_parameters=st.dictionaries(st.sampled_from("ab"), st.sampled_from((0, 1)), max_size=2),
)
_lists = st.lists(_calls, max_size=3)
_plans = st.sampled_from(
    (
        Plan([Expect("look", label="first"), Expect("book", after=["first"])]),
        Plan([OneOf(Expect("book"), [Expect("look"), Expect("pay")]), Forbid("look", {"a": 1})]),
        Plan([Expect("look", times=(1, None)), Expect("pay", optional=True)]),
        Plan([Parallel(Expect("look"), Expect("book"))], allow_extra=False),
        Plan([Forbid("pay")]),
        Alternatives([Plan([Expect("book")], name="one"), Plan([Expect("look"), Expect("pay")])]),
    )
)


class Stated(NamedTuple):
    """A turn: what is expected and said, and what was called."""

    expected: Any
    texts: list[str]
    called: list[ToolCall]
    answer: str

    def turns(self) -> list[Turn]:
        """Return it as turns of a conversation."""
        stated = {} if self.expected is None else {"expected_tools": self.expected}
        user = Turn(role="user", content="do it", required_texts=self.texts, **stated)
        return [user, Turn(role="assistant", content=self.answer, tools_called=self.called)]


def drawn(expected: st.SearchStrategy[Any]) -> st.SearchStrategy[Stated]:
    """Return turns with such expectations."""
    texts = st.lists(st.sampled_from(("done", "7")), max_size=2, unique=True)
    return st.builds(Stated, expected, texts, _lists, st.sampled_from(("done", "it is 7", "no")))


def conversation(turns: list[Stated], **fields: Any) -> ConversationalTestCase:
    """Return a conversation of these turns."""
    return ConversationalTestCase(turns=[turn for one in turns for turn in one.turns()], **fields)


ARGUMENTS = ["input_parameters"]
METRICS: list[Metric] = [
    ToolCorrectnessMetric(),
    ToolCorrectnessMetric(evaluation_params=ARGUMENTS, denominator="f1"),
    ToolCorrectnessMetric(evaluation_params=ARGUMENTS, denominator="called"),
    ToolCorrectnessMetric(should_exact_match=True),
    ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=ARGUMENTS),
    TaskSuccessMetric(),
    TaskSuccessMetric(calls_only=True, compare="exact"),
    ToolSuccessRate(),
    ToolEfficiencyMetric(),
    ToolPolicyMetric(denied=["pay"]),
    BudgetMetric(max_calls=2),
]
COMPARING = [metric for metric in METRICS if metric.needs_expectation]


def outline(result: MetricResult) -> tuple[Any, ...]:
    """Return what a result says, apart from the turn of its findings."""
    findings = [(one.kind, one.tool, one.expected, one.called, one.path) for one in result.findings]
    return result.status, result.score, result.passed, findings


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.label)
@given(turn=drawn(st.none() | _lists | _plans))
def test_a_conversation_of_one_turn_scores_as_its_case(metric: Metric, turn: Stated) -> None:
    """So it does for every metric, with lists and plans."""
    fields: dict[str, Any] = {} if turn.expected is None else {"expected_tools": turn.expected}
    case = LLMTestCase(
        input="do it", tools_called=turn.called, required_texts=turn.texts, actual_output=turn.answer, **fields
    )

    alone, whole = (measure_in_thread(metric, one) for one in (case, conversation([turn])))

    if turn.expected == [] and turn.called and isinstance(metric, ToolCorrectnessMetric):
        assert (alone.score, whole.score) == (0, 0)
    else:
        assert outline(alone) == outline(whole)


@given(turns=st.lists(drawn(_lists), min_size=1, max_size=4))
def test_the_score_is_that_of_all_turns(turns: list[Stated]) -> None:
    """Each expected call is one of its turn alone; a turn that must be silent counts as one call if it is not."""
    metric = ToolCorrectnessMetric(evaluation_params=ARGUMENTS)
    whole = metric.measure(conversation(turns))

    matched, expected = Fraction(0), 0
    for turn in turns:
        alone = metric.align(LLMTestCase(tools_called=turn.called, expected_tools=turn.expected))
        matched += alone.matched
        expected += len(turn.expected) or bool(turn.called)
    assert whole.score == pytest.approx(float(matched / expected) if expected else 1)
    scores = {name: score for name, score in whole.parts.items() if name.startswith("turn ")}
    cases = [LLMTestCase(tools_called=turn.called, expected_tools=turn.expected) for turn in turns]
    assert scores == {f"turn {number}": metric.measure(case).score for number, case in enumerate(cases, 1)}


@pytest.mark.parametrize("metric", COMPARING, ids=lambda metric: metric.label)
@given(turns=st.lists(drawn(_lists), min_size=1, max_size=4))
def test_turns_never_raise_a_score(metric: Metric, turns: list[Stated]) -> None:
    """All turns merged into one, in which each call may be made at any time, score at least as much."""
    merged = Stated(
        [call for turn in turns for call in turn.expected],
        [text for turn in turns for text in turn.texts],
        [call for turn in turns for call in turn.called],
        " ".join(turn.answer for turn in turns),
    )
    apart, together = (metric.measure(conversation(one)).score for one in (turns, [merged]))

    assert apart is not None
    assert together is not None
    assert apart <= together + 1e-9


@pytest.mark.parametrize("metric", COMPARING, ids=lambda metric: metric.label)
@given(turns=st.lists(drawn(st.none() | _lists), min_size=1, max_size=3), data=st.data())
def test_the_order_of_turns_plays_no_part(metric: Metric, turns: list[Stated], data: st.DataObject) -> None:
    """With all that they hold, they may change places, and their findings with them."""
    order = data.draw(st.permutations(range(len(turns))))

    def outcome(places: list[int]) -> tuple[Any, ...]:
        result = measure_in_thread(metric, conversation([turns[place] for place in places]))
        turn_of = {number: places[number - 1] for number in range(1, len(places) + 1)}
        kinds = Counter((one.kind, one.tool, one.path, turn_of.get(one.turn or 0)) for one in result.findings)
        parts = {turn_of[int(name[5:])]: value for name, value in result.parts.items() if name.startswith("turn ")}
        score = None if result.score is None else pytest.approx(result.score)
        return result.status, score, kinds if "ordered" not in metric.label else None, parts

    assert outcome(list(range(len(turns)))) == outcome(order)


@given(turns=st.lists(drawn(st.none() | _lists), min_size=2, max_size=4))
def test_findings_name_the_turn_of_their_call(turns: list[Stated]) -> None:
    """It is that in which the call was made, or should have been."""
    case = conversation(turns)
    called = [number for number, turn in enumerate(turns, 1) for _ in turn.called]
    expected = [number for number, turn in enumerate(turns, 1) for _ in turn.expected or ()]
    for metric in COMPARING:
        for one in measure_in_thread(metric, case).findings:
            if one.called is not None:
                assert one.turn == called[one.called]
            elif one.expected is not None and one.expected < len(expected):
                assert one.turn == expected[one.expected]
            assert one.turn is None or one.message.startswith(f"Turn {one.turn}: ")


def test_a_turn_that_states_nothing_is_not_scored() -> None:
    """Its calls are no unexpected ones, unless the conversation as a whole states its calls."""
    turns = [
        Stated(None, [], [ToolCall(name="pay")], ""),
        Stated([ToolCall(name="book")], [], [ToolCall(name="book")], ""),
    ]
    metric = ToolCorrectnessMetric(should_exact_match=True)

    assert metric.measure(conversation(turns)).score == 1
    assert metric.measure(conversation(turns, expected_tools=[])).score == 0


def test_calls_of_the_whole_conversation_may_be_made_in_any_turn() -> None:
    """Beside those of the turns, each call meets one expectation; `turn=` pins a call."""
    book, pay = ToolCall(name="book"), ToolCall(name="pay")
    turns = [Stated(None, [], [book, pay], ""), Stated([book], [], [book], "")]
    metric = ToolCorrectnessMetric()

    assert metric.measure(conversation(turns, expected_tools=[pay, book])).score == 1
    assert metric.measure(conversation(turns, expected_tools=[book, book])).score == pytest.approx(2 / 3)
    plan = Plan([Expect("pay", turn=2)])
    assert (
        metric.measure(conversation([turn._replace(expected=None) for turn in turns], expected_tools=plan)).score == 0
    )


@pytest.mark.parametrize(
    ("turn", "whole", "text"),
    [
        ([ToolCall(name="book", turn=1)], None, "turn 2 must be one of that turn, got turn=1"),
        (Plan([Expect("book")], tools={"book": {}}), None, "the plan of turn 2 must not have tools="),
        (Plan([Expect("book")]), [ToolCall(name="pay")], "must be lists of calls if both are stated"),
    ],
)
def test_expectations_that_cannot_be_joined(turn: Any, whole: Any, text: str) -> None:
    """The error says which turn, and what to do."""
    case = conversation([Stated([], [], [], ""), Stated(turn, [], [], "")], expected_tools=whole)
    with pytest.raises(InvalidDataError, match=text):
        ToolCorrectnessMetric().measure(case)


def test_a_spoilt_conversation_is_not_measured() -> None:
    """No metric says anything about an agent whose user went wrong."""
    case = conversation([Stated([], [], [], "")], user_error="it invented the number 4712")
    for metric in METRICS:
        with pytest.raises(NotMeasuredError, match="it invented the number 4712"):
            metric.measure(case)


class Anything:
    """A metric of a user, which every case passes."""

    label, threshold = "anything", 1.0

    def measure(self, _case: object) -> MetricResult:
        """Return 1."""
        return MetricResult(metric="anything", status=ResultStatus.SCORED, threshold=1.0, score=1.0, passed=True)

    async def a_measure(self, case: object) -> MetricResult:
        """Return what `measure` returns."""
        return self.measure(case)


def test_a_spoilt_conversation_passes_no_metric_of_a_user() -> None:
    """In either way to evaluate."""
    case = conversation([Stated([], [], [], "")], user_error="it invented the number 4712")
    reports = [
        evaluate([case], [Anything()], show_progress=False),
        asyncio.run(evaluate_async([case], [Anything()], show_progress=False)),
    ]
    assert [(report.cases[0].outcome, report.passed) for report in reports] == [("not_measured", False)] * 2


@pytest.mark.parametrize("silence", [[], Plan([])], ids=["list", "plan"])
def test_a_call_in_a_silent_turn_costs_and_is_named(silence: Any) -> None:
    """The turn counts as one call that was expected and not made; the finding is about the call that was."""
    book, pay = ToolCall(name="book"), ToolCall(name="pay")
    result = ToolCorrectnessMetric(threshold=1).measure(
        conversation([Stated([book], [], [book], ""), Stated(silence, [], [pay], "")])
    )

    assert (result.score, result.parts["turn 2"]) == (0.5, 0)
    (finding,) = result.findings
    assert finding.message == "Turn 2: Unexpected: called #2 'pay', and no call was expected in this turn."


def test_what_was_not_answered_is_not_measured() -> None:
    """Nobody knows what the agent called, or whether it did; a text that states nothing does not matter."""
    turns = Stated([ToolCall(name="book")], [], [ToolCall(name="book")], "done").turns()
    metric = ToolCorrectnessMetric()
    with pytest.raises(MissingFieldError, match="needs tools_called"):
        metric.measure(ConversationalTestCase(turns=[*turns, Turn(role="user", content="bye", expected_tools=[])]))
    assert metric.measure(ConversationalTestCase(turns=[*turns, Turn(role="user", content="bye")])).score == 1


def test_texts_of_one_turn_expect_together() -> None:
    """Lists and plans alike; labels of one text are not those of another."""
    book, pay = ToolCall(name="book"), ToolCall(name="pay")
    plan = Plan([Expect("look", label="a"), Expect("pay", after=["a"])])
    for stated, score in ((plan, 1), ([pay], 1), (Plan([Forbid("book")]), 0)):
        texts = [Turn(role="user", content=text, expected_tools=one) for text, one in (("a", [book]), ("b", stated))]
        calls = [book, ToolCall(name="look"), pay]
        case = ConversationalTestCase(turns=[*texts, Turn(role="assistant", content="", tools_called=calls)])
        assert ToolCorrectnessMetric().measure(case).score == score


def test_sums_of_turns_are_unknown_where_one_is() -> None:
    """Tokens and seconds of a part are not those of the whole."""
    whole = {"usage": {"total_tokens": 5}, "duration": 2.0}
    for metadata, tokens in ((whole, 10), ({"duration": 2.0}, None)):
        answers = [Turn(role="assistant", content="ok", tools_called=[], metadata=one) for one in (whole, metadata)]
        turns = [turn for one in answers for turn in (Turn(role="user", content="go"), one)]
        run = ConversationalTestCase(turns=turns).to_test_case().run
        assert run is not None
        assert (run.duration, (run.usage or {}).get("total_tokens")) == (4.0, tokens)
