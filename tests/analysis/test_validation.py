"""Validity of metrics: selection of cases, computed numbers, and reported omissions."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    ConfigurationError,
    InvalidDataError,
    LLMTestCase,
    MetricResult,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolRecoveryMetric,
    Validity,
    validate,
)
from toolgrade.report import MisrankedCase
from toolgrade.stats import (
    auc,
    auc_difference_interval,
    auc_interval,
    auc_within,
    auc_within_interval,
    balanced_accuracy,
)


def case(matched: int = 1, of: int = 1, /, **metadata: Any) -> LLMTestCase:
    """Return a case with this many of the expected calls."""
    calls = [ToolCall(name=f"tool_{number}") for number in range(of)]
    return LLMTestCase(tools_called=calls[:matched], expected_tools=calls, metadata=metadata)


def unmeasured(**metadata: Any) -> LLMTestCase:
    """Return a case without expectations."""
    return LLMTestCase(name="unmeasured", tools_called=[ToolCall(name="a")], metadata=metadata)


GOOD_AND_BAD = [case(reward=1), case(1, 2, reward=1.0), case(1, 2, reward=0), case(0, 2, reward=False)]


def of(cases: list[LLMTestCase], **options: Any) -> Validity:
    """Validity of tool correctness by the reward."""
    return validate(
        cases, [ToolCorrectnessMetric()], **{"label": "metadata.reward", "resamples": 50, "min_runs": 1, **options}
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from((0, 0.5, 1, True, False, None)), st.integers(0, 3)),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from((0.5, 1.0)),
    st.booleans(),
)
def test_the_numbers_are_those_of_the_labelled_cases(
    rows: list[tuple[int, Any, int]], positive_from: float, clustered: bool
) -> None:
    """AUC, interval, balanced accuracy, counts and means follow from score, label and cluster of each labelled case."""
    cases = [case(calls_made, 4, reward=reward, task=task) for calls_made, reward, task in rows]
    rows_scored = [
        (calls_made / 4, reward >= positive_from, task) for calls_made, reward, task in rows if reward is not None
    ]
    if not rows_scored:
        return
    validity = of(cases, positive_from=positive_from, cluster="metadata.task" if clustered else None)
    scores, good, tasks = (
        [row[0] for row in rows_scored],
        [row[1] for row in rows_scored],
        [row[2] for row in rows_scored],
    )
    (metric,) = validity.metrics

    assert (validity.cases, validity.good, validity.bad, validity.unlabelled) == (
        len(rows),
        sum(good),
        len(good) - sum(good),
        len(rows) - len(rows_scored),
    )
    assert metric.auc == auc(scores, good)
    assert metric.interval == auc_interval(scores, good, tasks if clustered else None, resamples=50)
    assert metric.auc_within == (auc_within(scores, good, tasks) if clustered else None)
    assert metric.interval_within == (auc_within_interval(scores, good, tasks, resamples=50) if clustered else None)
    assert metric.balanced_accuracy == balanced_accuracy([score >= 0.5 for score in scores], good)
    assert metric.scored == len(rows_scored)
    assert metric.good_passed == sum(fine and score >= 0.5 for score, fine, _ in rows_scored)
    assert metric.bad_passed == sum(not fine and score >= 0.5 for score, fine, _ in rows_scored)
    right = [score for score, fine, _ in rows_scored if fine]
    assert metric.mean_good == (pytest.approx(sum(right) / len(right)) if right else None)


def test_a_case_without_a_label_is_not_measured() -> None:
    """It is counted and named, and does not affect the numbers."""
    more = [*GOOD_AND_BAD, case(0, 1, other=1), case(0, 1, reward=None).model_copy(update={"id": "null"})]
    validity, without = of(more), of(GOOD_AND_BAD)

    assert validity.metrics == without.metrics
    assert (validity.unlabelled, validity.good, validity.bad) == (2, 2, 2)
    assert validity.notes == ("2 of 6 cases (#5, null) have no metadata.reward, and were not measured",)
    assert without.notes == ()


def test_a_case_without_a_score_is_not_zero() -> None:
    """Unmeasured and skipped cases are counted with their reasons and excluded from the numbers."""
    validity = of([*GOOD_AND_BAD, unmeasured(reward=1), unmeasured(reward=0), unmeasured(reward=0)])
    (skipped,) = validate(GOOD_AND_BAD, [ToolRecoveryMetric()], label="metadata.reward", min_runs=1).dropped

    assert validity.metrics[0].auc == of(GOOD_AND_BAD).metrics[0].auc
    assert validity.metrics[0].mean_good == of(GOOD_AND_BAD).metrics[0].mean_good
    assert (validity.metrics[0].scored, validity.metrics[0].failed, validity.metrics[0].skipped) == (4, 3, 0)
    ((reason, cases),) = validity.metrics[0].unscored
    assert "expected_tools" in reason
    assert cases == 3
    assert (skipped.scored, skipped.skipped, skipped.auc) == (0, 4, None)
    assert sum(cases for _, cases in skipped.unscored) == 4


def test_metrics_keep_their_order() -> None:
    """One entry each, with the names used in reports."""
    metrics = [ToolEfficiencyMetric(), ToolCorrectnessMetric(), ToolCorrectnessMetric(threshold=0.9)]
    validity = validate(GOOD_AND_BAD, metrics, label="metadata.reward", min_runs=1)

    assert [metric.metric for metric in validity.metrics] == [
        "tool_efficiency",
        "tool_correctness",
        "tool_correctness #2",
    ]
    assert [metric.threshold for metric in validity.metrics] == [0.5, 0.5, 0.9]
    assert validity.metrics[1].auc == validity.metrics[2].auc
    assert [metric.good_passed for metric in validity.metrics[1:]] == [2, 1]


@pytest.mark.parametrize(
    ("label", "good"),
    [
        ("metadata.reward", 2),
        ("$.metadata.reward", 2),
        ("metadata.deep.won", 3),
        ("metadata.dotted.key", 1),
        ("metadata.list.1", 4),
        (lambda one: one.metadata["reward"] == 0, 2),
        (lambda one: len(one.tools_called), 3),
    ],
    ids=["path", "JSON path", "nested", "a key with a dot", "position", "function", "function to a number"],
)
def test_places_of_labels(label: str | Callable[[LLMTestCase], object], good: int) -> None:
    """A path through objects and lists, or a function of the case."""
    extra = [{"deep": {"won": number > 0}, "dotted.key": number // 3, "list": [0, 1]} for number in range(4)]
    cases = [
        entry.model_copy(update={"metadata": {**entry.metadata, **more}})
        for entry, more in zip(GOOD_AND_BAD, extra, strict=True)
    ]

    assert of(cases, label=label).good == good


def test_label_slightly_below_the_threshold_is_good() -> None:
    """Within 1e-9, like thresholds; lower labels are bad."""
    nearly = 0.7 + 0.1 + 0.1 + 0.1
    validity = of([case(reward=nearly), case(reward=1 - 1e-6), case(reward=math.inf), case(reward=-math.inf)])

    assert nearly < 1
    assert (validity.good, validity.bad) == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "reward"}, "no case has 'reward', the label; did you mean 'metadata.reward'?"),
        ({"label": "metadata.rewrad"}, "did you mean 'metadata.reward'?"),
        ({"label": "meta.reward"}, "did you mean 'metadata.reward'?"),
        ({"label": "zzz"}, "the cases have metadata.reward"),
        ({"label": ""}, "label must be a path such as 'metadata.reward', or a function, got ''"),
        ({"label": 3}, "label must be a path"),
        ({"label": lambda _: None}, "the label, returned None for every case"),
        ({"label": "metadata.reward", "cluster": "metadata.task"}, "no case has 'metadata.task', the cluster"),
        ({"positive_from": float("nan")}, "positive_from must be a finite number, got nan"),
        ({"positive_from": True}, "positive_from must be a finite number"),
        ({"positive_from": math.inf}, "positive_from must be a finite number, got inf"),
        ({"positive_from": 10**400}, "positive_from must be a finite number, got 1000"),
        ({"min_runs": 0}, "min_runs must be a whole number of at least 1, got 0"),
        ({"resamples": 0}, "resamples must be"),
        ({"confidence": 1}, "confidence must be"),
    ],
)
def test_error_for_a_wrong_option_suggests_a_value(options: dict[str, Any], message: str) -> None:
    """The nearest existing path, or the accepted values."""
    with pytest.raises(ConfigurationError) as caught:
        of(GOOD_AND_BAD, **options)

    assert message in str(caught.value)


def test_a_label_that_is_null_everywhere() -> None:
    """The error says so, instead of reporting a missing path."""
    with pytest.raises(ConfigurationError, match=r"'metadata\.reward', the label, is null in every case that has it"):
        of([case(reward=None), case(other=1)])


def test_nothing_to_validate() -> None:
    """Without cases or metrics there is an error, as of evaluate."""
    with pytest.raises(ConfigurationError, match="test_cases must have at least one case"):
        of([])
    with pytest.raises(ConfigurationError, match="at least one metric"):
        validate(GOOD_AND_BAD, [], label="metadata.reward", min_runs=1)
    with pytest.raises(ConfigurationError, match="must be a list of cases"):
        of(GOOD_AND_BAD[0])  # type: ignore[arg-type]


def test_labels_that_are_not_numbers_are_reported_at_once() -> None:
    """Each with its case and value; texts are not converted."""
    with pytest.raises(InvalidDataError) as caught:
        of([*GOOD_AND_BAD, case(reward="1"), case(reward=[1]), case(reward=float("nan"))])

    assert len(caught.value.problems) == 3
    assert "#5: metadata.reward: expected a number, true or false, got '1'" in str(caught.value)
    assert "#6: metadata.reward: expected a number, true or false, got [1]" in str(caught.value)


def test_function_that_raises_is_reported_with_its_case() -> None:
    """The error has the function, the case and the exception."""

    def reward(one: LLMTestCase) -> object:
        return one.metadata["rewrad"]

    with pytest.raises(InvalidDataError, match=r"the function reward, the label, raised KeyError on #1: 'rewrad'"):
        of(GOOD_AND_BAD, label=reward)


def test_clusters_of_equal_values() -> None:
    """1 and 1.0 are one cluster, 1 and "1" and true are three; any JSON value can be one."""
    keys = [1, 1.0, "1", True, {"a": 1, "b": 2}, {"b": 2, "a": 1}, [1]]
    cases = [case(place % 2, 1, reward=place % 2, task=key) for place, key in enumerate(keys)]
    interval = of(cases, cluster="metadata.task").metrics[0].interval

    assert interval is not None
    assert interval.clusters == 5


def test_a_case_without_a_cluster_is_one_of_its_own() -> None:
    """A note reports it."""
    cases = [case(number % 2, 1, reward=number % 2, **({"task": 1} if number < 4 else {})) for number in range(7)]
    validity = of(cases, cluster="metadata.task")

    assert validity.metrics[0].interval is not None
    assert validity.metrics[0].interval.clusters == 4
    assert validity.notes == ("3 of 7 cases (#5, #6, #7) have no metadata.task, and each is a separate cluster",)


def test_the_order_of_cases_does_not_matter_but_to_the_random_numbers() -> None:
    """AUC, accuracy, counts and means stay."""
    shuffled = random.Random(1).sample(GOOD_AND_BAD, 4)
    (one,), (other,) = of(GOOD_AND_BAD).metrics, of(shuffled).metrics

    assert (one.auc, one.balanced_accuracy, one.mean_good) == (other.auc, other.balanced_accuracy, other.mean_good)


def test_an_interval_can_be_repeated() -> None:
    """The same seed gives the same interval, another seed another one."""
    rng = random.Random(2)
    cases = [case(rng.randint(0, 4), 4, reward=rng.randint(0, 1)) for _ in range(30)]

    assert of(cases, seed=5) == of(cases, seed=5)
    assert of(cases, seed=5).metrics[0].interval != of(cases, seed=6).metrics[0].interval


def test_validity_as_json_and_text() -> None:
    """All numbers in JSON, null where there is none; one line a metric as text."""
    validity = of(GOOD_AND_BAD, cluster=lambda one: one.metadata["reward"])
    none = of([case(reward=1)])
    plain = json.loads(validity.to_json())

    assert plain == validity.to_dict()
    assert plain["metrics"][0]["auc"] == 0.875
    assert plain["metrics"][0]["interval"].keys() == {"low", "high", "resamples", "left_out", "clusters"}
    assert (plain["cluster"], plain["good"], plain["unlabelled"]) == ("<lambda>", 2, 0)
    assert str(of(GOOD_AND_BAD)).startswith("tool_correctness: AUC 0.875 (")
    assert str(none) == "tool_correctness: no AUC over 1 case, 1 good and 0 bad; 0 skipped, 0 failed"
    assert none.to_dict()["metrics"][0]["interval"] is None


@dataclass(frozen=True)
class Scored:
    """A metric whose score is in the metadata of the case; without one it skips the case."""

    label: str
    threshold: float = 0.5

    def measure(self, test_case: LLMTestCase) -> MetricResult:
        """Return the score of the case."""
        score = test_case.metadata.get(self.label)
        status = ResultStatus.SKIPPED if score is None else ResultStatus.SCORED
        return MetricResult(
            metric=self.label,
            status=status,
            score=score,
            threshold=0.5,
            passed=None if score is None else score >= 0.5,
            reason="no score",
        )

    async def a_measure(self, test_case: LLMTestCase) -> MetricResult:
        """Do what `measure` does."""
        return self.measure(test_case)


SCORES = st.none() | st.sampled_from((0.0, 0.25, 0.5, 1.0))
ROWS = st.lists(st.fixed_dictionaries({"a": SCORES, "b": SCORES, "c": SCORES, "reward": st.integers(0, 1)}), min_size=1)


def compared(rows: list[dict[str, Any]], **options: Any) -> Validity:
    """Validity of three metrics with the scores of the rows; two rows after one another are a cluster."""
    cases = [LLMTestCase(name=f"run {n}", metadata={**row, "task": n // 2}) for n, row in enumerate(rows)]
    return of_metrics(cases, **{"cluster": "metadata.task", **options})


def of_metrics(cases: list[LLMTestCase], **options: Any) -> Validity:
    """Validity of the three metrics."""
    return validate(
        cases,
        [Scored("a"), Scored("b"), Scored("c")],
        label="metadata.reward",
        resamples=40,
        **{"min_runs": 1, **options},
    )


@given(ROWS)
def test_metrics_are_compared_on_the_cases_that_both_score(rows: list[dict[str, Any]]) -> None:
    """Each pair once: the difference of the AUCs of these cases, and its paired interval."""
    validity = compared(rows)
    names = [metric.metric for metric in validity.metrics]

    assert [(pair.metric, pair.other) for pair in validity.differences] == list(combinations(names, 2))
    for pair in validity.differences:
        both = [(n // 2, row) for n, row in enumerate(rows) if None not in (row[pair.metric], row[pair.other])]
        one, other = ([row[name] for _, row in both] for name in (pair.metric, pair.other))
        good, tasks = [bool(row["reward"]) for _, row in both], [task for task, _ in both]
        areas = auc(one, good), auc(other, good)
        assert pair.cases == len(both)
        assert pair.difference == (None if None in areas else areas[0] - areas[1])  # type: ignore[operator]
        assert pair.interval == auc_difference_interval(one, other, good, tasks, resamples=40)


def slow_hardest(rows: list[dict[str, Any]], names: list[str], good: int) -> tuple[int, float] | None:
    """Return the position of the hardest case of a kind and its least share, by comparing all cases with all others."""
    ranked = []
    for position, row in enumerate(rows):
        if row["reward"] != good or any(row[name] is None for name in names):
            continue
        shares = []
        for name in names:
            others = [other[name] for other in rows if other["reward"] != good and other[name] is not None]
            sign = 1 if good else -1
            wrong = sum(1 if sign * score > sign * row[name] else 0.5 * (score == row[name]) for score in others)
            shares.append(wrong / len(others) if others else 0)
        ranked.append((min(shares), math.fsum(shares), -position))
    least, _, position = max(ranked, default=(0, 0, 0))
    return (-position, least) if least > 0 else None


@given(ROWS)
def test_the_hardest_cases_are_those_of_a_slow_search(rows: list[dict[str, Any]]) -> None:
    """The good run that all metrics rank lowest and the bad run that they rank highest, unless one ranks it right."""
    validity = compared(rows)
    names = [metric.metric for metric in validity.metrics]
    for hardest, good in ((validity.hardest_good, 1), (validity.hardest_bad, 0)):
        expected = slow_hardest(rows, names, good) if names else None
        if expected is None:
            assert hardest is None
        else:
            position, least = expected
            scores = tuple(rows[position][name] for name in names)
            assert hardest == MisrankedCase(
                index=position, case=f"run {position}", scores=scores, misranked=pytest.approx(least)
            )


def test_the_hardest_cases_are_counted_among_all_cases() -> None:
    """Cases without a label keep their positions and their names."""
    rows = [{"a": 1.0}, {"a": 0.2, "reward": 1}, {"a": 0.4, "reward": 0}, {"a": 0.1, "reward": 0}]
    validity = validate(
        [LLMTestCase(metadata=row) for row in rows], [Scored("a")], label="metadata.reward", resamples=5, min_runs=1
    )

    assert validity.hardest_good == MisrankedCase(index=1, case="#2", scores=(0.2,), misranked=0.5)
    assert validity.hardest_bad == MisrankedCase(index=2, case="#3", scores=(0.4,), misranked=1.0)


def test_metric_on_few_cases_is_dropped() -> None:
    """Below 20 scored cases a metric has no row and no pair, and decides nothing; its counts and reasons stay."""
    rows = [{"a": n % 4 / 4, "b": n % 3 / 4 if n < 19 else None, "c": n % 5 / 4, "reward": n % 2} for n in range(20)]
    validity = compared(rows, min_runs=20)
    without = validate(
        [LLMTestCase(name=f"run {n}", metadata={**row, "task": n // 2}) for n, row in enumerate(rows)],
        [Scored("a"), Scored("c")],
        label="metadata.reward",
        cluster="metadata.task",
        resamples=40,
    )
    (dropped,) = validity.dropped

    assert validity == replace(without, dropped=(dropped,))
    assert [metric.metric for metric in validity.metrics] == ["a", "c"]
    assert [(pair.metric, pair.other) for pair in validity.differences] == [("a", "c")]
    assert (dropped.metric, dropped.scored, dropped.skipped, dropped.auc) == ("b", 19, 1, None)
    assert dropped.unscored == (("no score", 1),)
    needed = "b: dropped: 19 cases with a label and a score, at least 20 are needed"
    assert f"{needed}; 1 case without a score: no score\n" in str(validity)
    assert [entry["metric"] for entry in validity.to_dict()["dropped"]] == ["b"]


@pytest.mark.parametrize(
    ("positive_from", "note"),
    [
        (1e300, "no label is 1e+300 or more, so no case is good; lowest label 0, highest 1"),
        (-5, "every label is -5 or more, so no case is bad; lowest label 0, highest 1"),
    ],
)
def test_note_if_all_cases_are_of_one_kind(positive_from: float, note: str) -> None:
    """It has the range of the labels, so that a wrong threshold is seen at once."""
    cases = [case(reward=0), case(reward=0.5), case(reward=1)]

    assert of(cases, positive_from=positive_from).notes == (note,)
    assert of(cases).notes == ()
