"""Validity of metrics: selection of cases, computed numbers, and reported omissions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    ConfigurationError,
    InvalidDataError,
    LLMTestCase,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolRecoveryMetric,
    validate,
)
from toolgrade.analysis.validation import Validity
from toolgrade.stats import auc, auc_interval


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
    return validate(cases, [ToolCorrectnessMetric()], **{"label": "metadata.reward", "resamples": 50, **options})


def slow_best_threshold(scores: list[float], good: list[bool]) -> float | None:
    """Return the threshold with the highest balanced accuracy, by trying each score from the lowest."""
    if len(set(good)) < 2:
        return None

    def balance(threshold: float) -> Fraction:
        passed = [score >= threshold for score in scores]
        shares = [
            Fraction(sum(ok is kind for ok, fine in zip(passed, good, strict=True) if fine is kind), good.count(kind))
            for kind in (True, False)
        ]
        return sum(shares, Fraction(0))

    return max(sorted(set(scores)), key=balance)


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
    """AUC, interval, best threshold and counts follow from score, label and cluster of each labelled case."""
    cases = [case(calls_made, 4, reward=reward, task=task) for calls_made, reward, task in rows]
    scored = [(calls / 4, reward >= positive_from, task) for calls, reward, task in rows if reward is not None]
    if not scored:
        return
    validity = of(cases, positive_from=positive_from, cluster="metadata.task" if clustered else None)
    scores, good, tasks = [row[0] for row in scored], [row[1] for row in scored], [row[2] for row in scored]
    (metric,) = validity.metrics

    assert (validity.cases, validity.good, validity.bad) == (len(rows), sum(good), len(good) - sum(good))
    assert metric.auc == auc(scores, good)
    assert metric.interval == auc_interval(scores, good, tasks if clustered else None, resamples=50)
    assert metric.best_threshold == slow_best_threshold(scores, good)
    assert (metric.good, metric.bad, metric.unscored) == (validity.good, validity.bad, 0)
    assert metric.passed == sum(score >= 0.5 for score in scores)
    assert metric.good_passed == sum(fine and score >= 0.5 for score, fine, _ in scored)


def test_a_case_without_a_label_or_a_score_is_not_zero() -> None:
    """It is counted, with the reason for a missing score, and excluded from the numbers."""
    unlabelled = [case(0, 1, other=1), case(0, 1, reward=None)]
    validity = of([*GOOD_AND_BAD, *unlabelled, unmeasured(reward=1), unmeasured(reward=0)])
    (metric,) = validity.metrics
    (without,) = of(GOOD_AND_BAD).metrics
    (skipped,) = validate(GOOD_AND_BAD, [ToolRecoveryMetric()], label="metadata.reward").metrics

    assert (validity.cases, validity.good, validity.bad) == (8, 3, 3)
    assert replace(metric, unscored=0, reason=None) == without
    assert metric.unscored == 2
    assert "expected_tools" in str(metric.reason)
    assert (skipped.good, skipped.bad, skipped.unscored, skipped.auc, skipped.best_threshold) == (0, 0, 4, None, None)


def test_metrics_keep_their_order() -> None:
    """One entry each, with the names used in reports."""
    metrics = [ToolEfficiencyMetric(), ToolCorrectnessMetric(), ToolCorrectnessMetric(threshold=0.9)]
    rows = validate(GOOD_AND_BAD, metrics, label="metadata.reward").metrics

    assert [row.metric for row in rows] == ["tool_efficiency", "tool_correctness", "tool_correctness #2"]
    assert [row.threshold for row in rows] == [0.5, 0.5, 0.9]
    assert [row.good_passed for row in rows[1:]] == [2, 1]


def test_a_case_without_a_cluster_is_one_of_its_own() -> None:
    """Its position is no value of another case's cluster."""
    cases = [case(number % 2, 1, reward=number % 2, **({"task": 5} if number < 4 else {})) for number in range(7)]
    interval = of(cases, cluster="metadata.task").metrics[0].interval

    assert interval is not None
    assert interval.clusters == 4


def test_validity_as_json() -> None:
    """All numbers, and null where there is none."""
    plain = of(GOOD_AND_BAD, cluster=lambda one: one.metadata["reward"]).to_dict()

    assert (plain["metrics"][0]["auc"], plain["good"]) == (0.875, 2)
    assert plain["metrics"][0]["interval"].keys() == {"low", "high", "resamples", "left_out", "clusters"}
    assert of([case(reward=1)]).to_dict()["metrics"][0]["interval"] is None


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
        ({"resamples": 0}, "resamples must be"),
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


def test_an_interval_can_be_repeated() -> None:
    """The same seed gives the same interval, another seed another one."""
    rng = random.Random(2)
    cases = [case(rng.randint(0, 4), 4, reward=rng.randint(0, 1)) for _ in range(30)]

    assert of(cases, seed=5) == of(cases, seed=5)
    assert of(cases, seed=5).metrics[0].interval != of(cases, seed=6).metrics[0].interval
