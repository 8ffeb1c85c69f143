"""Judge models of every kind: failures, caching, cost and repeated samples."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from judging import Messages, RuleJudge, answer, counted, criterion, evidence_text
from toolgrade import (
    ConfigurationError,
    ConversationalTestCase,
    JudgeError,
    LLMTestCase,
    MetricResult,
    ToolCall,
    ToolCorrectnessMetric,
    ToolgradeError,
    ToolUseMetric,
    Turn,
    evaluate,
)
from toolgrade.errors import JudgeOutcome
from toolgrade.judge import Judge, Prompt, Reply
from toolgrade.judge.cache import MemoryCache, SqliteCache

TOOLS = [{"name": "find"}, {"name": "book"}]


def case(*names: str) -> LLMTestCase:
    """A case with these calls, as expected."""
    calls = [ToolCall(name=name) for name in names]
    return LLMTestCase(input="Find it.", tools_called=calls, expected_tools=calls)


def judged(judge: Any, *names: str) -> MetricResult:
    """The result of one case."""
    return ToolCorrectnessMetric(available_tools=TOOLS, judge=judge).measure(case(*names))


class Text:
    """A text model with an identity."""

    def __init__(self, *replies: Any, model: str = "fake-1") -> None:
        """Keep what to answer; the last one again and again."""
        self.identity = {"model": model, "temperature": 0}
        self._replies = list(replies)
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the next reply."""
        self.prompts.append(prompt)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        calls_made = reply(prompt) if callable(reply) else reply
        if isinstance(calls_made, BaseException):
            raise calls_made
        return calls_made if isinstance(calls_made, Reply) else Reply(text=calls_made)


def yes(prompt: Prompt) -> Reply:
    """Yes to everything, with what it took."""
    text = answer("yes", missing=() if prompt.name == "missing_calls" else None)
    return counted(text, input_tokens=100, output_tokens=10, cached_tokens=40)


# Models of every kind


def test_a_sync_model_does_not_hold_up_the_others() -> None:
    """A sync `complete` runs in threads, so its questions wait in parallel."""
    at_once: list[int] = []
    running = [0]
    lock = threading.Lock()

    class Slow:
        def complete(self, prompt: Prompt, /) -> Reply:
            with lock:
                running[0] += 1
                at_once.append(running[0])
            time.sleep(0.05)
            with lock:
                running[0] -= 1
            return yes(prompt)

    assert judged(Slow(), *["find"] * 6).score == 1
    assert max(at_once) > 1


def test_the_limit_on_requests_at_the_same_time_holds() -> None:
    """The concurrency limit holds for any number of cases and questions."""
    running, most = 0, 0

    async def slow(messages: Messages) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return RuleJudge("yes")(messages)

    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=Judge(slow, max_concurrency=3, cache=None))
    report = evaluate([case("find", "book") for _ in range(10)], [metric])
    assert report.passed
    assert most == 3


@pytest.mark.parametrize("wrong", [3, object(), "", Text, b"gpt"])
def test_invalid_judges_are_refused_at_once(wrong: object) -> None:
    """When the metric is created, with a list of valid judges."""
    with pytest.raises(ConfigurationError, match="a judge must be the name of a model, an object with complete, gen"):
        ToolCorrectnessMetric(judge=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 0},
        {"samples": True},
        {"max_concurrency": 0},
        {"cache": 3},
        {"timeout": 0},
        {"prices": {"m": {"input": -1}}},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    """Each error names the option or the price."""
    with pytest.raises(ToolgradeError):
        Judge(RuleJudge(), **options)


def test_nothing_is_built_or_read_before_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge by name or from the environment is created at the first question; then the error is clear."""
    for name in ("TOOLGRADE_JUDGE_MODEL", "OPENAI_API_KEY", "TOOLGRADE_JUDGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge="gpt-4.1")
    assert repr(metric.judge) == "Judge(gpt-4.1)"

    with pytest.raises(
        ConfigurationError, match=r"no judge is configured: give judge= .* or set TOOLGRADE_JUDGE_MODEL"
    ):
        judged(Judge(), "find")


# What goes wrong is never a score


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        pytest.param(Reply(refusal="I will not."), "refusal", id="refusal"),
        pytest.param(Reply(text="", finish="content_filter"), "content_filter", id="content filter"),
        pytest.param(Reply(text='{"evidence": [', finish="length"), "truncated", id="truncated"),
        pytest.param(Reply(text="yes"), "malformed", id="malformed"),
        pytest.param(Reply(), "malformed", id="nothing"),
        pytest.param(TimeoutError(), "timeout", id="timeout"),
        pytest.param(asyncio.TimeoutError(), "timeout", id="timeout of asyncio"),
        pytest.param(ValueError("boom"), "transient", id="any exception"),
        pytest.param(StopIteration(), "transient", id="an exception that futures cannot carry"),
        pytest.param(JudgeError("overloaded", JudgeOutcome.TRANSIENT), "transient", id="transient"),
        pytest.param(JudgeError("no key", JudgeOutcome.FATAL), "fatal", id="fatal"),
        pytest.param(17, "malformed", id="no reply at all"),
    ],
)
def test_outcomes(reply: Any, outcome: str) -> None:
    """Every one becomes an outcome of its question; with no verdict at all the result failed."""

    class Once:
        async def complete(self, _: Prompt, /) -> Any:
            if isinstance(reply, BaseException):
                raise reply
            return reply

    result = judged(Once(), "find")
    assert (result.status.value, result.score, result.passed) == ("errored", None, None)
    assert {entry.outcome for entry in result.units[0].questions} <= {outcome, "aborted"}
    assert str(result.error).startswith("JudgeError: selection: the judge decided none of 2 questions")
    assert result.parts["calling"] == 1


def test_a_timeout() -> None:
    """A model without its own limits has a timeout for each request."""

    async def never(_: Messages) -> str:
        await asyncio.sleep(60)
        return ""

    result = judged(Judge(never, timeout=0.05), "find")
    assert {entry.outcome for entry in result.units[0].questions} == {"timeout"}


def test_fatal_error_stops_further_questions() -> None:
    """Earlier questions keep their verdicts; later ones are aborted."""
    model = Text(yes, JudgeError("no quota left", JudgeOutcome.FATAL, usage={"input_tokens": 7}, attempts=2), yes)
    judge = Judge(model, max_concurrency=1)
    result = judged(judge, *["find"] * 5)

    outcomes = sorted(entry.outcome for entry in result.units[0].questions)
    assert outcomes == ["aborted"] * 4 + ["fatal", "ok"]
    assert len(model.prompts) == 2
    assert dict(result.usage) == {"input_tokens": 107, "output_tokens": 10, "cached_tokens": 40, "requests": 3}


def rule_with(second: Any) -> RuleJudge:
    """A judge that answers the question about the second call like this, and has answers to all others."""

    def rule(criterion: str, document: dict[str, Any]) -> Any:
        if criterion == "tool_selection" and document["call"]["id"] == "c2":
            return second
        return {"c3": "no", "c4": "cannot_tell"}.get(document.get("call", {}).get("id", ""), "yes")

    return RuleJudge(rule)


def test_undecided_questions_give_bounds() -> None:
    """The score covers the decided ones; coverage and bounds cover the open ones."""
    result = judged(rule_with("cannot_tell"), "find", "find", "find", "find")
    assert (result.status.value, result.score) == ("scored", 0.5)
    assert result.parts["coverage"] == 3 / 5
    assert (result.parts["selection_low"], result.parts["selection_high"]) == (0.25, 0.75)
    (warning,) = result.warnings
    assert warning == (
        "2 of 5 questions to the judge and to code have no yes or no (2 cannot_tell); with them the score "
        "lies between 0.25 and 0.75, so it is not certain whether it passes"
    )
    assert [finding.called for finding in result.findings if finding.kind == "not_judged"] == [1, 3]


@pytest.mark.parametrize(
    ("threshold", "is_measured"), [(0.3, True), (0.33, True), (0.5, False), (0.66, False), (0.7, True)]
)
def test_a_failure_that_could_turn_the_verdict_is_an_error(threshold: float, is_measured: bool) -> None:
    """With the second call the score is 1/3 or 2/3; the verdict stands only where both agree."""
    metric = ToolCorrectnessMetric(available_tools=TOOLS, judge=rule_with(ValueError("boom")), threshold=threshold)
    result = metric.measure(case("find", "find", "find", "find"))

    if is_measured:
        assert (result.score, result.passed) == (0.5, threshold < 0.5)
        assert result.parts["coverage"] == 3 / 5
    else:
        assert (result.status.value, result.score, result.passed) == ("errored", None, None)
        assert str(result.error).startswith(
            "JudgeError: the judge failed on 1 question (1 transient), which leaves the score between 0.3333 and "
            f"0.6667, so it is open whether it passes at {threshold}: ValueError: boom"
        )


def test_code_decisions_alone_are_not_a_score() -> None:
    """If the judge answered nothing, the decisions by code are not a score."""
    result = judged(RuleJudge(lambda *_: ValueError("boom")), "find", "unknown")
    assert (result.status.value, result.score) == ("errored", None)


def test_cannot_tell_does_not_hide_a_failure() -> None:
    """With one failed question and otherwise undecided ones, the case is not measured, unless code fails it."""
    judge = RuleJudge(lambda criterion, _: ValueError("boom") if criterion == "missing_calls" else "cannot_tell")
    result, failed = judged(judge, "find"), judged(judge, "find", "unknown")
    assert (result.status.value, result.score) == ("errored", None)
    assert "decided none of 2 questions (1 cannot_tell, 1 transient): ValueError: boom" in str(result.error)
    assert (failed.status.value, failed.passed) == ("scored", False)
    assert "2 of 3 questions to the judge and to code have no yes or no" in str(failed.warnings)


def test_nothing_decided_is_left_out() -> None:
    """An undecided judge leaves the calling score unchanged, with a note."""
    result = judged(RuleJudge("cannot_tell"), "find")
    assert (result.status.value, result.score, "selection" in result.parts) == ("scored", 1, False)
    assert "2 cannot_tell" in result.warnings[0]


# Samples


def test_samples() -> None:
    """The majority counts, and the share of differing samples is reported."""
    reply_text = {0: "yes", 1: "no", 2: "yes"}
    model = Text(
        lambda prompt: answer(
            reply_text[prompt.content["sample"]] if prompt.name != "missing_calls" else "yes",
            missing=() if prompt.name == "missing_calls" else None,
        )
    )
    result = judged(Judge(model, samples=3), "find")

    selection, missing = result.units[0].questions
    assert (selection.decision, selection.probability) == ("yes", pytest.approx(2 / 3))
    assert (selection.flip_rate, missing.flip_rate) == (pytest.approx(1 / 3), 0)
    assert result.parts["flip_rate"] == pytest.approx(1 / 6)
    assert len(model.prompts) == 6
    assert (result.judge or {})["samples"] == "3"


def test_samples_without_a_majority() -> None:
    """Two different samples give no verdict."""
    model = Text(
        lambda prompt: answer(
            "yes" if prompt.content["sample"] else "no",
            missing=None if prompt.name != "missing_calls" else (() if prompt.content["sample"] else ("t1",)),
        )
    )
    result = judged(Judge(model, samples=2), "find")
    assert {entry.decision for entry in result.units[0].questions} == {"cannot_tell"}
    assert "the samples disagree: no, yes" in str(result.reason)


def test_lost_samples_that_could_be_decisive() -> None:
    """One yes of three is no majority; two are one, whatever the third would say."""

    def judge_with(answered: int) -> Judge:
        def reply(prompt: Prompt) -> Reply:
            if prompt.content["sample"] >= answered:
                raise ValueError("boom")
            return yes(prompt)

        return Judge(Text(reply), samples=3)

    assert judged(judge_with(1), "find").status.value == "errored"
    assert judged(judge_with(2), "find").score == 1


# Lost answers


class Answering:
    """A judge with an answer for each question in the order in which they are asked first; `None` is lost."""

    def __init__(self, answers: Sequence[Any]) -> None:
        """Keep the answers."""
        self.answers = answers
        self.keys: dict[tuple[str, str], int] = {}

    def __call__(self, messages: Messages) -> str:
        """Return the answer."""
        asked = criterion(messages)
        verdict = self.answers[self.keys.setdefault((asked, evidence_text(messages)), len(self.keys))]
        if verdict is None:
            raise ValueError("boom")
        missing = ("t1",) * (verdict if isinstance(verdict, int) else int(verdict == "no"))
        if asked == "missing_calls":
            return answer("no" if missing else verdict, missing=missing)
        return answer("no" if isinstance(verdict, int) else verdict)


def measured_by(kind: str, sizes: Sequence[int], answers: Sequence[Any], options: Mapping[str, Any]) -> MetricResult:
    """The result of a case with so many calls in each unit."""
    options = {"available_tools": TOOLS, "judge": Judge(Answering(answers), cache=None), "async_mode": False, **options}
    names = ["find"] * sizes[0]
    if kind == "correctness":
        return ToolCorrectnessMetric(**options).measure(case(*names))
    turns: list[Turn] = []
    for unit, size in enumerate(sizes):
        calls = [ToolCall(name="find", input_parameters={"q": f"{unit} {number}"}) for number in range(size)]
        turns += [Turn(role="user", content=f"Find {unit}."), Turn(role="assistant", content="x", tools_called=calls)]
    return ToolUseMetric(**options).measure(ConversationalTestCase(turns=turns))


def test_a_lost_answer_about_missing_calls_stands_for_many() -> None:
    """One right call scores 1/2 with one missing call, and almost 0 with as many as a reply may name."""
    assert measured_by("correctness", [1], ["yes", None], {"threshold": 0.3}).status.value == "errored"
    assert measured_by("correctness", [1], ["yes", None], {"threshold": 0.01}).score == 1


@settings(max_examples=40)
@given(data=st.data(), kind=st.sampled_from(["correctness", "use"]))
def test_lost_answers_against_all_that_they_could_be(data: st.DataObject, kind: str) -> None:
    """The verdict stands exactly if every answer in their place gives it; else the case is not measured."""
    sizes = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=1 if kind == "correctness" else 2))
    number = sum(size * (1 if kind == "correctness" else 2) + 1 for size in sizes)
    answers = data.draw(st.lists(st.sampled_from(["yes", "no", "cannot_tell", None]), min_size=number, max_size=number))
    options = data.draw(
        st.sampled_from([{"threshold": share} for share in (0.0, 0.3, 0.5, 1.0)] + [{"strict_mode": True}])
    )
    lost = [place for place, one in enumerate(answers) if one is None]
    assume(0 < len(lost) <= 3)
    verdicts = set()
    for filling in product(["yes", 1, 50], repeat=len(lost)):
        filled = list(answers)
        for place, one in zip(lost, filling, strict=True):
            filled[place] = one
        verdicts.add(measured_by(kind, sizes, filled, options).passed)
    result = measured_by(kind, sizes, answers, options)

    if verdicts == {False}:
        assert (result.status.value, result.passed) == ("scored", False)
    elif len(verdicts) == 2:
        assert result.status.value == "errored"
    else:  # a score of which the judge decided nothing is not measured, even if any would pass
        assert result.passed or "decided none of" in str(result.error)


# Usage, cost, cache


def test_usage_and_cost() -> None:
    """Tokens of all requests are summed, and cost what the user says; failed attempts count, cached replies do not."""
    model = Text(JudgeError("busy", JudgeOutcome.TRANSIENT, usage={"input_tokens": 50}, attempts=3), yes)
    judge = Judge(model, prices={"fake-1": {"input": 2.0, "output": 8.0, "cached_input": 0.5}})
    first, second = judged(judge, "find"), judged(judge, "find")

    assert dict(first.usage) == {"input_tokens": 150, "output_tokens": 10, "cached_tokens": 40, "requests": 4}
    assert first.cost == pytest.approx((50 * 2 + 60 * 2 + 40 * 0.5 + 10 * 8) / 1e6)
    assert dict(second.usage) == {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 40, "requests": 1}
    third = judged(judge, "find")
    assert (dict(third.usage), third.cost) == ({"requests": 0}, 0)


def test_cost_without_prices_is_unknown() -> None:
    """No prices are shipped: without the user's, the cost is None, and so it is for a model without one."""
    assert judged(Text(yes), "find").cost is None
    assert judged(Judge(Text(yes), prices={"other": {"input": 1, "output": 1}}), "find").cost is None


def test_only_verdicts_are_cached(tmp_path: Path) -> None:
    """Refusals, errors and malformed replies are retried."""
    model = Text("nonsense", Reply(refusal="no"), ValueError("boom"), yes)
    judge = Judge(model, max_concurrency=1)
    results = [judged(judge, "find") for _ in range(4)]

    assert [result.status.value for result in results] == ["errored", "scored", "scored", "scored"]
    assert len(model.prompts) == 5

    remaining = SqliteCache(tmp_path / "c.db")
    judged(Judge(Text("nonsense"), cache=remaining), "find")
    assert remaining._execute("SELECT key FROM replies", ()) == []


def test_a_cache_on_disk_serves_the_next_run(tmp_path: Path) -> None:
    """What one judge object paid for, another one with the same model and questions does not ask."""
    path = tmp_path / "cache.db"
    first, second, other = Text(yes), Text(yes), Text(yes, model="fake-2")

    results = [judged(Judge(model, cache=path), "find") for model in (first, second, other)]
    assert [len(model.prompts) for model in (first, second, other)] == [2, 0, 2]
    assert [result.score for result in results] == [1, 1, 1]
    assert dict(results[1].usage) == {"requests": 0}


def test_a_function_needs_an_identity_for_a_cache_on_disk(tmp_path: Path) -> None:
    """The inputs of a function's answers are unknown, so an identity is required."""
    with pytest.raises(ConfigurationError, match=r"does not say which model answers; give Judge\(\.\.\., identity="):
        judged(Judge(RuleJudge(), cache=tmp_path / "c.db"), "find")
    assert not (tmp_path / "c.db").exists()
    assert judged(Judge(RuleJudge(), cache=tmp_path / "c.db", identity={"model": "mine"}), "find").score == 1


def test_cache_is_in_memory_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is written."""
    monkeypatch.chdir(tmp_path)
    rule = RuleJudge()
    judge = Judge(rule)
    judged(judge, "find")
    judged(judge, "find")
    assert len(rule.questions) == 2
    assert not list(tmp_path.iterdir())


def test_without_a_cache_every_question_is_sent() -> None:
    """`cache=None` stores nothing; a custom cache is used."""
    rule = RuleJudge()
    judge = Judge(rule, cache=None)
    judged(judge, "find")
    judged(judge, "find")
    assert len(rule.questions) == 4
    custom = MemoryCache()
    judged(Judge(Text(yes), cache=custom), "find")
    assert judged(Judge(Text(yes), cache=custom), "find").usage["requests"] == 0


def test_secrets_are_not_sent() -> None:
    """Evidence is redacted like all output, while other metrics score the real values."""
    rule = RuleJudge()
    call = ToolCall(name="find", input_parameters={"api_key": "hunter2-secret"}, output={"password": "hunter2-secret"})
    inputs = LLMTestCase(input="key sk-abcdefghijklmnopqrstuvwx1", tools_called=[call, call], expected_tools=[])
    ToolCorrectnessMetric(available_tools=TOOLS, judge=rule).measure(inputs)

    assert rule.questions
    assert "hunter2" not in json.dumps(rule.questions)
    assert "sk-abcdefghij" not in json.dumps(rule.questions)
