"""Recorded runs of an airline agent, scored again by independent code.

The runs are data beside the repository (`TOOLGRADE_SHARED` says where else); without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from processes import ROOT, toolgrade_score
from toolgrade import Report, ToolCorrectnessMetric, evaluate, read_cases

SHARED = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared")
FILE = SHARED / "data" / "tau-airline" / "runs.jsonl"

pytestmark = pytest.mark.skipif(
    not FILE.is_file(),
    reason="the recorded airline runs are not here; set TOOLGRADE_SHARED to the folder of shared data",
)

Call = tuple[str, dict[str, Any]]
Similarity = Callable[[Call, Call], Fraction]

DENOMINATORS: dict[str, Callable[[int, int], Fraction]] = {
    "expected": lambda m, _: Fraction(m),
    "called": lambda _, n: Fraction(n),
    "longest": lambda m, n: Fraction(max(m, n)),
    "f1": lambda m, n: Fraction(m + n, 2),
}


class Counted(NamedTuple):
    """One run, parsed from its messages by test code."""

    id: str
    expected: list[Call]
    called: list[Call]


@pytest.fixture(scope="module")
def runs() -> list[Counted]:
    """The runs as `json` reads them."""
    runs_read: list[Counted] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        called = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in run["agent_trajectory"]
            for call in message.get("tool_calls") or []
        ]
        runs_read.append(Counted(run["id"], [(call["name"], call["args"]) for call in run["expected_tools"]], called))
    return runs_read


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """The runs as toolgrade reads them."""
    return read_cases(FILE)


def same_name(expected: Call, called: Call) -> Fraction:
    """1 if the names are equal."""
    return Fraction(expected[0] == called[0])


def same_call(expected: Call, called: Call) -> Fraction:
    """The share of arguments that agree, if the names do."""
    return same_name(expected, called) * agreement(expected[1], called[1])


def agreement(left: Any, right: Any) -> Fraction:
    """Of two objects the mean over all keys of either, of other values 1 or 0."""
    if isinstance(left, dict) and isinstance(right, dict) and (left or right):
        keys = {*left, *right}
        return sum(
            (agreement(left[key], right[key]) for key in keys if key in left and key in right), Fraction()
        ) / len(keys)
    return Fraction(json.dumps(normal(left), sort_keys=True) == json.dumps(normal(right), sort_keys=True))


def normal(value: Any) -> Any:
    """Return the JSON value with whole floats as integers, so that equal values have equal texts."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def assigned(run: Counted, similarity: Similarity) -> Fraction:
    """The greatest sum of similarities over all one-to-one assignments, by scipy's solver."""
    if not run.expected or not run.called:
        return Fraction()
    table = [[similarity(expected, called) for called in run.called] for expected in run.expected]
    places = zip(*linear_sum_assignment(np.array(table, dtype=float), maximize=True), strict=True)
    return sum((table[row][column] for row, column in places), Fraction())


def in_order(run: Counted, similarity: Similarity) -> Fraction:
    """The greatest sum of similarities over all common subsequences, by the textbook's table."""
    best = [[Fraction()] * (len(run.called) + 1) for _ in range(len(run.expected) + 1)]
    for i, expected in enumerate(run.expected, start=1):
        for j, called in enumerate(run.called, start=1):
            best[i][j] = max(best[i - 1][j], best[i][j - 1], best[i - 1][j - 1] + similarity(expected, called))
    return best[-1][-1]


def counted(run: Counted, similarity: Similarity) -> Fraction:
    """The size of the intersection of two multisets of names."""
    assert similarity is same_name
    names = (Counter(name for name, _ in side) for side in (run.expected, run.called))
    return Fraction(sum((next(names) & next(names)).values()))


def share(matched: Fraction, run: Counted, denominator: str) -> float:
    """Return the score; if one side is empty, 1 if the other is empty as well."""
    m, n = len(run.expected), len(run.called)
    if not m or not n:
        return float(m == n)
    return float(matched / DENOMINATORS[denominator](m, n))


def scores(report: Report) -> Iterator[tuple[str, float]]:
    """Every case with its score; each must have one."""
    for entry, result in report.results():
        assert result.score is not None, (entry.label, result.error)
        yield entry.label, result.score


def test_all_runs_are_read(runs: list[Counted], cases: list[Any]) -> None:
    """A hundred runs with ids, with exactly the calls of their messages."""
    assert [case.id for case in cases] == [run.id for run in runs]
    assert len({run.id for run in runs}) == len(runs) == 100
    assert sum(len(run.called) for run in runs) == sum(len(case.tools_called) for case in cases) == 621
    assert sum(len(run.expected) for run in runs) == sum(len(case.expected_tools) for case in cases) == 200
    assert sum(not run.expected for run in runs) == sum(case.expected_tools == [] for case in cases) == 24


def test_every_call_is_read_exactly(runs: list[Counted], cases: list[Any]) -> None:
    """Names and arguments in message order, on both sides."""
    for run, case in zip(runs, cases, strict=True):
        assert [(call.name, call.arguments) for call in case.tools_called] == run.called
        assert [(call.name, call.arguments) for call in case.expected_tools] == run.expected


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize(
    ("options", "solve", "similarity"),
    [
        ({}, counted, same_name),
        ({}, assigned, same_name),
        ({"evaluation_params": ["input_parameters"]}, assigned, same_call),
        ({"should_consider_ordering": True}, in_order, same_name),
        ({"should_consider_ordering": True, "evaluation_params": ["input_parameters"]}, in_order, same_call),
    ],
    ids=["names-counted", "names-assigned", "arguments-assigned", "names-in-order", "arguments-in-order"],
)
def test_every_score_equals_an_independent_count(
    runs: list[Counted],
    cases: list[Any],
    options: dict[str, Any],
    solve: Callable[[Counted, Similarity], Fraction],
    similarity: Similarity,
    denominator: str,
) -> None:
    """Run by run and to the last bit: the oracle's sums are exact fractions, and so are the library's."""
    metric = ToolCorrectnessMetric(**options, denominator=denominator)
    expected = [(run.id, share(solve(run, similarity), run, denominator)) for run in runs]

    assert list(scores(evaluate(cases, [metric]))) == expected
    assert len({score for _, score in expected}) > 2


def test_an_exact_match_equals_an_independent_count(runs: list[Counted], cases: list[Any]) -> None:
    """1 where both lists are the same call by call."""
    metric = ToolCorrectnessMetric(should_exact_match=True, evaluation_params=["input_parameters"])
    expected = [
        (run.id, float(normal(list(map(list, run.expected))) == normal(list(map(list, run.called))))) for run in runs
    ]

    assert list(scores(evaluate(cases, [metric]))) == expected
    assert {score for _, score in expected} == {0, 1}


def test_the_command_scores_all_of_them(runs: list[Counted], tmp_path: Path) -> None:
    """`toolgrade score` lists every run, and its report has the scores of the count."""
    expected = {run.id: share(counted(run, same_name), run, "expected") for run in runs}
    mean = sum(expected.values()) / len(expected)
    rate = sum(score >= 0.5 for score in expected.values()) / len(expected)
    above, below = (
        toolgrade_score(str(FILE), f"--json={name}.json", "--limit=0", f"--pass-rate={limit:.4f}", folder=tmp_path)
        for name, limit in (("above", rate), ("below", rate + 0.01))
    )
    plain = json.loads((tmp_path / "above.json").read_text(encoding="utf-8"))

    assert (above.code, below.code) == (0, 1)
    start, end = "\n PASSED: ", "\n FAILED: "
    assert above.out.partition("\n\n")[2].replace(start, end) == below.out.partition("\n\n")[2]
    assert (" Passed: " in above.out, " Failed: " in below.out) == (True, True)
    assert "0 agent errors" in above.out
    assert all(f"\n {run.id} " in above.out for run in runs)
    assert {case["id"]: case["results"][0]["score"] for case in plain["cases"]} == expected
    (summary,) = plain["metrics"]
    assert summary["mean"] == pytest.approx(mean, abs=1e-12)
    assert summary["passed"] == sum(score >= 0.5 for score in expected.values())
    assert summary["passed"] + summary["failed"] == 100
    assert summary["skipped"] == summary["errored"] == 0
