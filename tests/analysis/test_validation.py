"""Validity of metrics: selection of cases, computed numbers, and reported omissions."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolmark import (
    ConfigurationError,
    InvalidDataError,
    LLMTestCase,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolRecoveryMetric,
    Validity,
    validate,
)
from toolmark.stats import auc, auc_interval, balanced_accuracy


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
    skipped = validate(GOOD_AND_BAD, [ToolRecoveryMetric()], label="metadata.reward")

    assert validity.metrics[0].auc == of(GOOD_AND_BAD).metrics[0].auc
    assert validity.metrics[0].mean_good == of(GOOD_AND_BAD).metrics[0].mean_good
    assert (validity.metrics[0].scored, validity.metrics[0].failed, validity.metrics[0].skipped) == (4, 3, 0)
    ((reason, cases),) = validity.metrics[0].unscored
    assert "expected_tools" in reason
    assert cases == 3
    assert (skipped.metrics[0].scored, skipped.metrics[0].skipped, skipped.metrics[0].auc) == (0, 4, None)
    assert sum(cases for _, cases in skipped.metrics[0].unscored) == 4


def test_metrics_keep_their_order() -> None:
    """One entry each, with the names used in reports."""
    metrics = [ToolEfficiencyMetric(), ToolCorrectnessMetric(), ToolCorrectnessMetric(threshold=0.9)]
    validity = validate(GOOD_AND_BAD, metrics, label="metadata.reward")

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
        ({"positive_from": float("nan")}, "positive_from must be a number"),
        ({"positive_from": True}, "positive_from must be a number"),
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
        validate(GOOD_AND_BAD, [], label="metadata.reward")
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
