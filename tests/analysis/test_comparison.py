"""Comparison of two evaluations: pairing, counting, and refused input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import RuleJudge
from toolgrade import (
    Comparison,
    ConfigurationError,
    ConversationalTestCase,
    DataFileError,
    LLMTestCase,
    Report,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    Turn,
    compare,
    evaluate,
    validate,
)
from toolgrade.evaluation import read_results
from toolgrade.metrics import MetricLike
from toolgrade.report.report import content_key
from toolgrade.stats import holm, mcnemar, mean_difference, mean_difference_interval, sign_flip

METRICS = (ToolCorrectnessMetric(),)


def case(id: str | None, called: int | None = 1, of: int = 4, /, **more: Any) -> LLMTestCase:
    """Return a case with this many of the expected calls; `None` leaves them unknown."""
    calls = [ToolCall(name=f"tool_{number}") for number in range(of)]
    return LLMTestCase(id=id, tools_called=None if called is None else calls[:called], expected_tools=calls, **more)


def report(*cases: LLMTestCase, metrics: tuple[MetricLike, ...] = METRICS) -> Report:
    """Their evaluation."""
    return evaluate(cases, metrics, show_progress=False)


def scores(**called: int) -> Report:
    """Return an evaluation of cases with these ids and this many of four calls made."""
    return report(*(case(key, count) for key, count in called.items()))


def edited(source: Report, **changes: Any) -> dict[str, Any]:
    """Return a written report with these fields in each result."""
    plain = source.to_dict()
    for entry in plain["cases"]:
        for result in entry["results"]:
            result.update(changes)
    return plain


def judged(by: str | None, *counts: int, decided_by: str = "judge", **facts: str) -> dict[str, Any]:
    """A written report of a judge."""
    plain = report(*(case(str(number), calls) for number, calls in enumerate(counts))).to_dict()
    for entry in plain["cases"]:
        for result in entry["results"]:
            if by is not None:
                result["judge"] = {"model": by, "prompts": "1", "samples": "1", **facts}
                questions = [{"criterion": "tool_selection", "decided_by": decided_by, "outcome": "ok"}]
                result["units"] = [{"index": 0, "turns": [], "questions": questions}]
    return plain


# pairing and counting


@given(
    st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 4), min_size=1),
    st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 4), min_size=1),
    st.integers(0, 3),
)
def test_the_numbers_are_those_of_the_pairs(before: dict[str, int], after: dict[str, int], seed: int) -> None:
    """Means, difference, interval, test and counts follow from the scores of the cases that both have."""
    both = [key for key in before if key in after]
    if not both:
        return
    comparison = compare(scores(**before), scores(**after), resamples=40, seed=seed)
    (metric,) = comparison.metrics
    left, right = [before[key] / 4 for key in both], [after[key] / 4 for key in both]
    worse = [key for key in both if before[key] >= 2 > after[key]]
    better = [key for key in both if before[key] < 2 <= after[key]]

    assert (comparison.cases_a, comparison.cases_b, comparison.in_both) == (len(before), len(after), len(both))
    assert set(comparison.only_a) == before.keys() - after.keys()
    assert set(comparison.only_b) == after.keys() - before.keys()
    assert metric.paired == len(both)
    assert metric.mean_a == pytest.approx(sum(left) / len(left))
    assert metric.mean_b == pytest.approx(sum(right) / len(right))
    assert metric.difference == mean_difference(left, right)
    assert metric.interval == mean_difference_interval(left, right, resamples=40, seed=seed)
    assert metric.p_value == metric.corrected == mcnemar(len(worse), len(better))
    assert [change.case for change in metric.regressions] == worse
    assert [change.case for change in metric.improvements] == better
    assert metric.both_passed == sum(before[key] >= 2 and after[key] >= 2 for key in both)
    assert metric.both_failed == sum(before[key] < 2 and after[key] < 2 for key in both)
    assert metric.missing == tuple(key for key in before if key not in after and before[key] >= 2)
    assert json.loads(comparison.to_json()) == comparison.to_dict()


def test_the_order_of_cases_does_not_matter() -> None:
    """They are paired by id at any position."""
    comparison = compare(scores(a=4, b=0, c=2), scores(c=0, a=4, b=4))

    assert [(one.case, one.index_a, one.index_b) for one in comparison.metrics[0].regressions] == [("c", 2, 0)]
    assert [(one.case, one.score_a, one.score_b) for one in comparison.metrics[0].improvements] == [("b", 0, 1)]
    assert comparison.notes == ()


def test_changes_have_the_first_finding_of_the_side_that_failed() -> None:
    """What went wrong now, or what went wrong before; else the reason."""
    (metric,) = compare(scores(a=4, b=1), scores(a=1, b=4)).metrics
    silent = edited(scores(a=1), findings=[], reason="1 of 4.\nmore")
    (without,) = compare(scores(a=4), silent).metrics
    (nothing,) = compare(scores(a=4), edited(scores(a=1), findings=[], reason=None)).metrics

    assert metric.regressions[0].finding == "Missing: expected #2 'tool_1' was not called."
    assert metric.improvements[0].finding == "Missing: expected #2 'tool_1' was not called."
    assert without.regressions[0].finding == "1 of 4."
    assert nothing.regressions[0].finding is None


def test_cases_without_a_score_are_named_and_never_zero() -> None:
    """On either side, and those that B lost are marked."""
    metrics = (ToolCorrectnessMetric(), ToolEfficiencyMetric())
    a = report(case("a", 4), case("b", None), case("c", 1), case("d", 0), metrics=metrics)
    b = report(case("a", None), case("b", 4), case("c", 1), case("d", 2), metrics=metrics)
    correctness, efficiency = compare(a, b).metrics

    assert (correctness.paired, correctness.mean_a, correctness.mean_b) == (2, 0.125, 0.375)
    assert [(gap.case, gap.status_a.value, gap.status_b.value) for gap in correctness.unscored] == [
        ("a", "scored", "errored"),
        ("b", "errored", "scored"),
    ]
    assert [gap.case for gap in correctness.lost] == ["a"]
    assert "needs tools_called of case 'a'" in str(correctness.unscored[0].reason)
    assert "needs tools_called of case 'b'" in str(correctness.unscored[1].reason)
    assert [(gap.case, gap.status_a.value, gap.passed_b) for gap in efficiency.unscored][2:] == [("d", "skipped", True)]


def test_without_pairs_there_are_no_numbers() -> None:
    """Null, not 0."""
    (metric,) = compare(report(case("a", None)), scores(a=4)).metrics

    assert metric.paired == 0
    numbers = (metric.mean_a, metric.mean_b, metric.difference, metric.interval, metric.p_value, metric.corrected)
    assert numbers == (None,) * 6
    assert metric.to_dict()["difference"] is None
    assert str(compare(report(case("a", None)), scores(a=4))) == "tool_correctness: no case has a score in both"


def test_p_values_are_corrected_over_the_metrics() -> None:
    """By Holm, those without a test left out."""
    ids = [str(number) for number in range(8)]
    metrics = (ToolCorrectnessMetric(), ToolCorrectnessMetric(denominator="f1"), ToolEfficiencyMetric())
    comparison = compare(
        report(*(case(key, 4) for key in ids), metrics=metrics), report(*(case(key, 0) for key in ids), metrics=metrics)
    )

    assert [metric.p_value for metric in comparison.metrics] == [mcnemar(8, 0), mcnemar(8, 0), None]
    assert [metric.corrected for metric in comparison.metrics] == holm([mcnemar(8, 0), mcnemar(8, 0), None])


# repeated ids, and none


def test_repeated_ids_are_paired_in_order_and_one_cluster() -> None:
    """The second with the second; what one side has more of is left over and named."""
    a = report(*(case(key, count) for key, count in [("x", 4), ("x", 4), ("y", 4), ("x", 0), ("y", 4)]))
    b = report(*(case(key, count) for key, count in [("y", 0), ("x", 0), ("x", 1), ("y", 1)]))
    comparison = compare(a, b, resamples=50)
    (metric,) = comparison.metrics

    assert (comparison.in_both, comparison.only_a, comparison.only_b) == (4, ("x (3)",), ())
    assert [change.label for change in metric.regressions] == ["x", "x (2)", "y", "y (2)"]
    assert [change.score_b for change in metric.regressions] == [0, 0.25, 0, 0.25]
    assert metric.interval == mean_difference_interval([1] * 4, [0, 0.25, 0, 0.25], "xxyy", resamples=50)
    assert metric.p_value == sign_flip([-2, -2]) == 0.5 > mcnemar(4, 0)
    assert comparison.repeated


def test_trials_can_be_in_any_order() -> None:
    """Neither difference nor test depends on the pairing of trials."""
    first = compare(report(case("x", 4), case("x", 0), case("y", 4)), report(case("x", 4), case("x", 0), case("y", 0)))
    other = compare(report(case("x", 0), case("x", 4), case("y", 4)), report(case("x", 4), case("x", 0), case("y", 0)))

    assert first.metrics[0].difference == other.metrics[0].difference
    assert first.metrics[0].p_value == other.metrics[0].p_value
    assert first.metrics[0].interval == other.metrics[0].interval


def test_cases_without_an_id_are_paired_by_name_with_a_note_or_by_content() -> None:
    """Equal names may be of different cases; equal inputs and expectations are the same question at any position."""
    a = report(case(None, 4, name="one"), case(None, 4), case("id", 4))
    b = report(case("id", 4), case(None, 0), case(None, 2, name="one"), case("one", 4))
    comparison = compare(a, b)

    assert [change.case for change in comparison.metrics[0].regressions] == ["#2"]
    assert comparison.in_both == 3
    assert comparison.only_b == ("one",)
    assert comparison.notes[0].startswith("1 pair without an id (one) by name: if cases were added")


def test_recorded_cases_are_paired_by_content_in_memory_and_in_files(tmp_path: Path) -> None:
    """Their order, the ids of their runs and secrets do not matter; a changed expectation is another case."""

    def evaluated(*cases: tuple[str, str]) -> Report:
        runs = [Run(input=question, run_id=str(uuid4()), calls=[ToolCall(name="look")]) for question, _ in cases]
        expected = [[ToolCall(name=name, input_parameters={"password": "p"})] for _, name in cases]
        pairs = zip(runs, expected, strict=True)
        return evaluate([run.to_test_case(expected_tools=tools) for run, tools in pairs], [ToolCorrectnessMetric()])

    a = evaluated(("Rome?", "look"), ("Oslo?", "look"), ("Bern?", "look"))
    b = evaluated(("Oslo?", "look"), ("Rome?", "ask"), ("Bern?", "look"))
    path = tmp_path / "a.json"
    path.write_text(a.to_json(), encoding="utf-8")
    for before, name in ((a, "Rome?"), (path, "#1")):  # the JSON of a report has no questions
        comparison = compare(before, b)
        assert (comparison.in_both, comparison.only_a, comparison.only_b) == (2, (name,), ("Rome?",))
        assert comparison.notes == ()
    assert [case.identity for case in read_results(path).cases] == [case.identity for case in a.cases]
    assert [case["run_id"] for case in read_results(path).to_dict()["cases"]] == [
        case.case.run.run_id for case in a.cases if isinstance(case.case, LLMTestCase) and case.case.run
    ]


def test_a_case_without_input_and_expectation_is_identified_by_its_position() -> None:
    """A conversation by what its user says."""
    user = [Turn(role="user", content="Hi")]
    talks = [ConversationalTestCase(turns=[*user, Turn(role="assistant", content=text)]) for text in ("a", "b")]
    keys = [content_key(case) for case in (LLMTestCase(tools_called=[]), ConversationalTestCase(turns=[]), *talks, 3)]

    assert keys[:2] == [None, None]
    assert keys[2] is not None
    assert keys[2] == keys[3]
    assert keys[4] is None


# refused input


@pytest.mark.parametrize(
    ("kind", "a", "b", "difference"),
    [
        (
            "threshold",
            report(case("0", 2)),
            report(case("0", 2), metrics=(ToolCorrectnessMetric(threshold=0.7),)),
            "tool_correctness: threshold 0.5 in A and 0.7 in B",
        ),
        (
            "options",
            report(case("0", 2)),
            report(case("0", 2), metrics=(ToolCorrectnessMetric(denominator="f1"),)),
            "tool_correctness: A has tool_correctness and B has tool_correctness(denominator=f1)",
        ),
        ("judge", judged("m-1", 2, 2), judged("m-2", 2, 2), "tool_correctness: judged by m-1 in A and m-2 in B"),
        ("judge", judged(None, 2), judged("m", 2), "tool_correctness: judged by nobody in A and a judge in B"),
        ("judge", judged("m", 2), judged("m", 2, samples="3"), "tool_correctness: samples 1 in A and 3 in B"),
        ("prompts", judged("m", 2), judged("m", 2, prompts="2"), "tool_correctness: prompts 1 in A and 2 in B"),
    ],
    ids=["threshold", "options", "model", "no judge", "samples", "prompts"],
)
def test_different_settings_are_refused(
    kind: Any, a: Report | dict[str, Any], b: Report | dict[str, Any], difference: str
) -> None:
    """Unless the difference is allowed; it is noted then."""
    with pytest.raises(ConfigurationError) as caught:
        compare(a, b)
    others = {"judge", "prompts", "threshold", "options"} - {kind}
    with pytest.raises(ConfigurationError):
        compare(a, b, allow_different=others)  # type: ignore[arg-type]
    comparison = compare(a, b, allow_different=[kind])

    assert str(caught.value) == (
        f"the evaluations differ:\n{difference}\nrepeat one with the settings of the other, or allow: {kind}"
    )
    assert f"allowed: {difference}" in comparison.notes
    assert comparison.allowed == (kind,)
    assert (
        comparison.metrics[0].paired == len(comparison.metrics[0].regressions) + comparison.metrics[0].both_passed > 0
    )


def test_all_differences_are_reported_at_once() -> None:
    """Of all metrics and kinds."""
    metrics = (ToolCorrectnessMetric(threshold=0.9), ToolEfficiencyMetric(threshold=0.9))
    a = report(case("a", 4), metrics=(ToolCorrectnessMetric(), ToolEfficiencyMetric()))
    with pytest.raises(ConfigurationError) as caught:
        compare(a, edited(report(case("a", 4), metrics=metrics), judge={"model": "m"}))

    for difference in (
        "tool_correctness: threshold",
        "tool_efficiency: threshold",
        "tool_correctness: judged by nobody",
    ):
        assert difference in str(caught.value)
    assert "or allow: threshold, judge" in str(caught.value)


def test_unused_judge_does_not_differ() -> None:
    """If the judge did not answer, the report has the requested model name, which is not a difference."""
    by_judge, spared = judged("m-2026-01-01", 4, 4), judged("m", 4, 4, decided_by="code")

    assert compare(by_judge, spared).notes == ()
    assert compare(spared, by_judge).notes == ()


@pytest.mark.parametrize(
    ("by_a", "by_b", "message"),
    [
        (("m-1", "m-2"), ("m-2", "m-1"), "judged by m-1, m-2 in A and m-1, m-2 in B"),
        (("m-1", None), (None, "m-2"), "judged by m-1 in A and m-2 in B"),
        (("m-1", "m-1"), ("m-1", "m-2"), "judged by m-1 in A and m-1, m-2 in B"),
    ],
    ids=["swapped", "never the same case", "some"],
)
def test_judges_are_compared_case_by_case(
    by_a: tuple[str | None, ...], by_b: tuple[str | None, ...], message: str
) -> None:
    """Two reports by the same two judges may still have judged each case by another; `None` is decided by code."""
    mixed = []
    for models in (by_a, by_b):
        plain = judged("m", 4, 4)
        for entry, model in zip(plain["cases"], models, strict=True):
            (result,) = entry["results"]
            result["judge"]["model"] = model or "m"
            result["units"][0]["questions"][0]["decided_by"] = "code" if model is None else "judge"
        mixed.append(plain)
    with pytest.raises(ConfigurationError, match=message):
        compare(*mixed)


def test_judge_is_identified_by_its_model() -> None:
    """The metric itself reports the name of the model."""

    class Named(RuleJudge):
        def __init__(self, model: str) -> None:
            super().__init__("yes")
            self.model = model

    def by(model: str) -> Report:
        judge = Named(model)
        metric = ToolCorrectnessMetric(available_tools=[{"name": "tool_0"}], judge=judge)
        result = report(case("a", 1, 1, input="Do it."), metrics=(metric,))
        assert judge.questions
        return result

    assert compare(by("m-1"), by("m-1")).metrics[0].paired == 1
    with pytest.raises(ConfigurationError, match="judged by m-1 in A and m-2 in B"):
        compare(by("m-1"), by("m-2"))


def test_compromised_judge_is_reported() -> None:
    """Its scores are worthless."""
    comparison = compare(judged("m", 4), judged("m", 4, compromised="true"))

    assert comparison.notes == ("tool_correctness: 1 result of B by a judge that failed its canary",)


def test_options_are_matched_only_where_it_is_clear_which() -> None:
    """One with one; otherwise they are listed and not compared."""
    f1, ordered = ToolCorrectnessMetric(denominator="f1"), ToolCorrectnessMetric(should_consider_ordering=True)
    both = (ToolEfficiencyMetric(), f1, ordered)
    a = report(case("a", 4), metrics=(ToolEfficiencyMetric(), ToolCorrectnessMetric()))
    b = report(case("a", 4), metrics=both)
    one = compare(a, report(case("a", 4), metrics=both[:2]), allow_different=["options"])
    many = compare(a, b, allow_different=["options"])
    more = compare(a, report(case("a", 4), metrics=(*both[:1], ToolCorrectnessMetric(), f1)))

    assert [(metric.metric, metric.metric_b) for metric in one.metrics][1] == ("tool_correctness", f1.label)
    assert [metric.metric for metric in many.metrics] == ["tool_efficiency"]
    assert (many.metrics_only_a, many.metrics_only_b) == (("tool_correctness",), (f1.label, ordered.label))
    assert [metric.metric for metric in more.metrics] == ["tool_efficiency", "tool_correctness"]
    assert (more.metrics_only_a, more.metrics_only_b) == ((), (f1.label,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: compare(scores(a=1), scores(b=1)), "no case is in both: A has a, and B has b; cases are paired by"),
        (
            lambda: compare(scores(a=1), report(case("a", 1), metrics=(ToolEfficiencyMetric(),))),
            "no metric is in both: A has tool_correctness, and B has tool_efficiency",
        ),
        (lambda: compare(scores(a=1), scores(a=1), allow_different="judge"), "allow_different must be a list of"),  # type: ignore[arg-type]
        (lambda: compare(scores(a=1), scores(a=1), allow_different=["x"]), "options, got 'x'"),  # type: ignore[list-item]
        (lambda: compare(3, scores(a=1)), "A must be a report, the result of Report.to_dict, or a file, got 3"),  # type: ignore[arg-type]
        (lambda: compare(scores(a=1), scores(a=1), resamples=0), "resamples must be"),
        (lambda: compare(scores(a=1), scores(a=1), confidence=1), "confidence must be"),
        (lambda: compare(scores(a=1), scores(a=1)).failures(alpha=1), "alpha must be a number between 0 and 1, got 1"),
    ],
)
def test_evaluations_without_a_common_metric_are_refused(wrong: Any, message: str) -> None:
    """The error lists the metrics of both."""
    with pytest.raises(ConfigurationError, match=message):
        wrong()


# what speaks against B


def failures(a: Report, b: Report, **options: Any) -> tuple[str, ...]:
    """What speaks against B."""
    return compare(a, b).failures(**options)


def test_a_regression_speaks_against_b() -> None:
    """However much became better; unless only significant ones count."""
    many = {f"case {number}": 4 for number in range(8)}
    some = compare(scores(a=4, b=0, c=0), scores(a=0, b=4, c=4))
    all_worse = compare(scores(**many), scores(**dict.fromkeys(many, 0)))
    all_better = compare(scores(**dict.fromkeys(many, 0)), scores(**many))

    assert some.failures() == ("tool_correctness: 1 case passed in A and failed in B",)
    assert some.failures(alpha=0.9) == ()
    assert all_worse.failures(alpha=0.01) == (
        "tool_correctness: 8 cases passed in A and failed in B, 0 the other way round (corrected p 0.0078)",
    )
    assert all_worse.failures(alpha=0.0078125) != ()
    assert all_worse.failures(alpha=0.0078) == ()
    assert all_better.failures(alpha=0.05) == all_better.failures() == ()


def test_cases_lost_by_b_are_a_regression() -> None:
    """A killed or broken run does not pass, nor does a case that only skipped metrics are left of."""
    efficiency = (ToolEfficiencyMetric(),)

    assert failures(scores(a=4, b=4), scores(a=4)) == ("tool_correctness: 1 case passed in A and is not in B",)
    assert failures(scores(a=4, b=4), scores(a=4), allow_missing=True) == ()
    assert failures(scores(a=4, b=0), scores(a=4)) == ()
    assert failures(scores(a=4, b=4), report(case("a", 4), case("b", None)), alpha=0.05, allow_missing=True) == (
        "tool_correctness: 1 case passed in A and could not be measured in B",
    )
    assert failures(scores(a=4, b=0), report(case("a", 4), case("b", None))) == ()
    assert failures(
        report(case("a", 4), case("b", 4), metrics=efficiency),
        report(case("a", 4), case("b", 0), metrics=efficiency),
    ) == ("1 case passed in A and could not be measured in B (b: no call was made.)",)


def test_agents_that_break_and_interruptions_are_a_regression() -> None:
    """Whatever the scores are."""
    a = scores(a=4, b=4)
    run = Run(status="error", error="RuntimeError: 401")
    broken = report(case("a", 4), case("b", 4).model_copy(update={"run": run}))
    late = report(case("a", 4), case("b", 4).model_copy(update={"ends": "interrupted", "run": Run()}))

    assert failures(a, broken) == ("1 case passed in A and broke the agent in B (b: RuntimeError: 401)",)
    assert failures(a, late) == (
        "1 case passed in A and did not end as it must in B (b: the run ended well, and must end with 'interrupted')",
    )
    assert failures(broken, a) == failures(broken, broken) == ()
    assert failures(a, replace(a, interrupted=True)) == (
        "B is not complete: the evaluation was interrupted after 2 cases",
    )


def test_empty_comparison_is_not_a_success() -> None:
    """A check without a compared case has not passed."""
    assert failures(report(case("a", None)), scores(a=4)) == ("no case has a score in both",)


# written reports


def test_files_objects_and_reports_are_the_same(tmp_path: Path) -> None:
    """However a report comes."""
    a, b = scores(a=4, b=1), scores(a=1, b=4)
    (tmp_path / "a.json").write_text(a.to_json(indent=1), encoding="utf-8")
    with (tmp_path / "a.json").open("rb") as file:
        comparisons = [
            compare(source, b) for source in (a, a.to_dict(), tmp_path / "a.json", str(tmp_path / "a.json"), file)
        ]

    assert len({one.to_json() for one in comparisons}) == 1
    assert isinstance(comparisons[0], Comparison)


def test_unknown_fields_are_ignored() -> None:
    """Newer versions may write more fields."""
    assert compare({**edited(scores(a=4), novel=[1]), "novel": {}}, scores(a=4)).metrics[0].both_passed == 1


@pytest.mark.parametrize(
    ("text", "seems"),
    [
        (case("a").to_json(), "a test case, which must be scored first"),
        (f"[{case('a').to_json()}]", "a list that begins with a test case"),
        (f"{case('a').to_json()}\n{case('b').to_json()}\n", "JSON Lines that begin with a test case"),
        ('{"messages": []}', "a record of messages"),
        ('{"turns": []}', "a conversation"),
        (
            json.dumps(validate([case("a", 4, metadata={"x": 1})], METRICS, label="metadata.x").to_dict()),
            "the output of `toolgrade validate`",
        ),
        (compare(scores(a=1), scores(a=1)).to_json(), "the output of `toolgrade compare`"),
        ('{"source": "", "cases": 1, "findings": []}', "the output of `toolgrade lint`"),
        ('{"a": 1}', "an object with 'a'"),
        ("{}", "an empty object"),
        ("[]", r"\[\]"),
        ("3", "3"),
        ('{"metrics": 3, "cases": []}', "an object with 'metrics', 'cases'"),
    ],
)
def test_other_file_types_are_named(tmp_path: Path, text: str, seems: str) -> None:
    """With the file name."""
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=f"other.json: expected a report .* got {seems}"):
        compare(scores(a=1), path)


def test_invalid_and_missing_files_are_refused(tmp_path: Path) -> None:
    """Text that is not JSON, and a missing file."""
    (tmp_path / "b.json").write_text('{"metrics":\n', encoding="utf-8")
    with pytest.raises(DataFileError, match=r"b\.json: .*not JSON"):
        compare(scores(a=1), tmp_path / "b.json")
    with pytest.raises(FileNotFoundError):
        compare(tmp_path / "c.json", scores(a=1))


def changed(plain: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a path; `...` removes it."""
    copy: dict[str, Any] = json.loads(json.dumps(plain))
    *parts, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    at: Any = copy
    for part in parts:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("cases.0.results.0.score", "high", r"\$.cases\[0\].results\[0\].score: expected a number, got 'high'"),
        ("cases.0.results.0.score", "0.5", r"score: expected a number, got '0.5'"),
        ("cases.0.results.0.score", ..., r"results\[0\].score: is required with the status 'scored'"),
        ("cases.0.results.0.passed", ..., r"results\[0\].passed: is required with the status 'scored'"),
        ("cases.0.results.0.passed", "yes", r"results\[0\].passed: expected true or false"),
        ("cases.0.results.0.status", "skipped", r"score: must be absent with the status 'skipped'"),
        ("cases.0.results.0.status", "good", r"results\[0\].status: .*'scored', 'skipped' or 'errored'"),
        ("cases.0.results.0.threshold", ..., r"results\[0\].threshold: is required"),
        ("cases.0.results.0.findings", [{}], r"findings\[0\].message: is required"),
        ("cases.0.results.0.judge", "m", r"judge: expected an object, got 'm'"),
        ("cases.0.results", [], r"\$.cases\[0\].results: expected one result of each metric \(tool_correctness\), got"),
        ("cases.0.id", 3, r"\$.cases\[0\].id: expected a string, got 3"),
        ("metrics", [{"metric": "m", "threshold": 1.0}], r"results: expected one result of each metric \(m\)"),
        ("metrics", [{"metric": "m", "threshold": 1.0}] * 2, r"\$.metrics\[1\].metric: 'm' occurs twice"),
    ],
)
def test_problems_of_a_report_are_named(path: str, value: Any, message: str) -> None:
    """With the path and the side of the comparison."""
    with pytest.raises(DataFileError, match=message) as caught:
        compare(scores(a=1), changed(scores(a=4, b=2).to_dict(), path, value))

    assert str(caught.value).startswith("B: $.")
    assert caught.value.problems


def test_one_line_a_metric() -> None:
    """For printing."""
    comparison = compare(scores(a=4, b=4, c=0), scores(a=0, b=0, c=1))

    assert str(comparison).startswith("tool_correctness: -0.5833 (-1 to +0.25) over 3 cases; 2 worse, 0 better, p 0.5")
