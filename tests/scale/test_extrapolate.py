"""Extrapolation from a sample to all cases: weights of cases, and inconsistent input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolgrade import ConfigurationError, InvalidDataError, LLMTestCase, ToolCorrectnessMetric, evaluate
from toolgrade.cases import AnyCase
from toolgrade.metrics import MetricLike
from toolgrade.report import Report
from toolgrade.results import read_results
from toolgrade.scale import Sample, extrapolate, sample_files
from toolgrade.stats import Stratum, population_mean, population_mean_interval, population_rate_interval

METRICS: list[MetricLike] = [ToolCorrectnessMetric()]


def case(good: bool | None, task: str = "a") -> dict[str, Any]:
    """A case that passes, that fails, or that cannot be measured."""
    plain: dict[str, Any] = {"tools_called": [{"name": "x" if good else "y"}], "metadata": {"task": task}}
    return plain if good is None else {**plain, "expected_tools": [{"name": "x"}, {"name": "x"}]}


def drawn(folder: Path, cases: Sequence[dict[str, Any]], size: int, **options: Any) -> Sample:
    """A sample of these cases."""
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in cases))
    return sample_files([file], size, **options)


def without_origin(one: AnyCase) -> AnyCase:
    """Return the case without its sample metadata."""
    metadata = {name: value for name, value in one.metadata.items() if name != "toolgrade_sample"}
    return one.model_copy(update={"metadata": metadata})


def test_a_simple_sample(tmp_path: Path) -> None:
    """Mean and share of all cases with the intervals of `toolgrade.stats`; unmeasured cases are reported."""
    sample = drawn(tmp_path, [case(number % 4 > 0) for number in range(396)] + [case(None)] * 4, 80, seed=2)
    report = evaluate(sample.cases, METRICS)
    scores = [one.results[0].score for one in report.cases if one.results[0].score is not None]

    (estimate,) = extrapolate(report, confidence=0.9)

    strata, shares = [Stratum(400, 80, scores)], [Stratum(400, 80, [float(score >= 0.5) for score in scores])]
    assert (estimate.metric, estimate.threshold, estimate.confidence) == ("tool_correctness", 0.5, 0.9)
    assert (estimate.population, estimate.drawn, estimate.scored, estimate.errored) == (
        400,
        80,
        len(scores),
        80 - len(scores),
    )
    assert estimate.mean == pytest.approx(0.375, abs=0.05)
    assert (estimate.mean, estimate.rate) == (population_mean(strata), population_mean(shares))
    assert estimate.mean_interval == population_mean_interval(strata, confidence=0.9)
    assert estimate.rate_interval == population_rate_interval(shares, confidence=0.9)


def test_each_case_represents_its_stratum(tmp_path: Path) -> None:
    """An oversampled small stratum counts only by its size."""
    cases = [case(True)] * 950 + [case(False, "rare")] * 50
    sample = drawn(tmp_path, cases, 40, by="metadata.task")
    report = evaluate(sample.cases, METRICS)

    (estimate,) = extrapolate(report)

    assert report.summaries[0].rate == 0.5
    assert estimate.rate == pytest.approx(0.95)
    assert estimate.rate_interval is not None
    assert estimate.rate_interval[0] < 0.95 < estimate.rate_interval[1]
    assert str(estimate).startswith("tool_correctness: mean 0.475")
    assert ", of 1,000 cases, estimated from 40; 40 scored, 0 skipped, 0 errored" in str(estimate)


def test_results_may_come_from_a_file(tmp_path: Path) -> None:
    """With their contents; written and read back, they say the same."""
    sample = drawn(tmp_path, [case(number % 3 > 0, f"t{number % 2}") for number in range(100)], 20, by="metadata.task")
    report = evaluate(sample.cases, METRICS, results=tmp_path / "results.jsonl")

    assert extrapolate(read_results(tmp_path / "results.jsonl")) == extrapolate(report)


def test_without_scores_there_is_no_estimate(tmp_path: Path) -> None:
    """No mean and no share, rather than 0."""
    (estimate,) = extrapolate(evaluate(drawn(tmp_path, [case(None)] * 9, 3).cases, METRICS))

    assert (estimate.mean, estimate.mean_interval, estimate.rate, estimate.rate_interval) == (None, None, None, None)
    assert estimate.errored == 3
    assert str(estimate) == "tool_correctness: no score of 9 cases, estimated from 3"


def test_scores_of_any_size_have_a_share_alone(tmp_path: Path) -> None:
    """The interval of the mean is for scores from 0 to 1."""
    report = evaluate(drawn(tmp_path, [case(True)] * 9, 3).cases, METRICS)
    results = [replace(one, results=(replace(one.results[0], score=7.0),)) for one in report.cases]

    (estimate,) = extrapolate(Report(report.metrics, tuple(results)))

    assert (estimate.mean, estimate.rate) == (None, 1.0)
    assert str(estimate).startswith("tool_correctness: 1 pass (")
    assert estimate.to_dict()["rate_interval"] == list(estimate.rate_interval or ())


def changed(sample: Sample, how: str) -> list[AnyCase]:
    """The cases of a sample, with something wrong."""
    cases = list(sample.cases)
    if how == "missing":
        return cases[1:]
    if how == "twice":
        return [*cases, cases[0]]
    if how == "foreign":
        return [*cases, without_origin(cases[0])]
    origin = {**cases[0].metadata["toolgrade_sample"], **({"seed": 9} if how == "mixed" else {"line": "x"})}
    return [*cases[1:], cases[0].model_copy(update={"metadata": {"toolgrade_sample": origin}})]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "the report has 9 of the 10 cases of the sample; score all cases of the sample"),
        ("twice", r"\$.metadata.toolgrade_sample: the case of 'cases.jsonl', line \d+, is there twice"),
        ("foreign", "the case has no origin; draw cases with sample_files, and write results with contents"),
        ("mixed", "it is from another sample than the cases before it"),
        ("broken", r"toolgrade_sample: .*line"),
    ],
)
@pytest.mark.parametrize("by", [None, "metadata.task"])
def test_incomplete_samples_are_refused(tmp_path: Path, how: str, message: str, by: str | None) -> None:
    """Numbers from them would be wrong."""
    sample = drawn(tmp_path, [case(True, f"t{number % 2}") for number in range(30)], 10, by=by)

    with pytest.raises(InvalidDataError, match=message):
        extrapolate(evaluate(changed(sample, how), METRICS))


def test_a_stratum_that_is_missing_as_a_whole(tmp_path: Path) -> None:
    """Nothing would be known of its cases."""
    sample = drawn(tmp_path, [case(True, f"t{number % 2}") for number in range(30)], 10, by="metadata.task")
    half = [one for one in sample.cases if one.metadata["task"] == "t0"]

    with pytest.raises(InvalidDataError, match="5 of the 10 cases"):
        extrapolate(evaluate(half, METRICS))
    with pytest.raises(InvalidDataError, match="the report has no cases"):
        extrapolate(Report(("m",), ()))


def test_a_confidence_is_between_0_and_1(tmp_path: Path) -> None:
    """As for every interval."""
    report = evaluate(drawn(tmp_path, [case(True)] * 9, 3).cases, METRICS)

    with pytest.raises(ConfigurationError, match="confidence"):
        extrapolate(report, confidence=95)


@pytest.mark.parametrize(
    ("lie", "liars", "message"),
    [
        ({"population": 8}, 3, "the strata have 8 cases in total, but the sample was drawn from 9"),
        ({"value": "b"}, 1, 'the stratum "(a|b)" has [12] of its 3 drawn cases'),
    ],
)
def test_cases_that_lie_about_their_stratum(tmp_path: Path, lie: dict[str, Any], liars: int, message: str) -> None:
    """Contradicting numbers are detected."""
    sample = drawn(tmp_path, [case(True)] * 9, 3, by="metadata.task")
    cases: list[AnyCase] = list(sample.cases[liars:])
    for one in sample.cases[:liars]:
        origin = one.metadata["toolgrade_sample"]
        wrong = {**origin, "stratum": {**origin["stratum"], **lie}}
        cases.append(LLMTestCase.model_validate({**one.to_dict(), "metadata": {"toolgrade_sample": wrong}}))

    with pytest.raises(InvalidDataError, match=message):
        extrapolate(evaluate(cases, METRICS))
