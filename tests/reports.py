"""Reports with all optional content: trials, several agents, judge costs, and interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolgrade import LLMTestCase, MetricResult, Report, ResultStatus, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.report import CaseResult
from toolgrade.result import QuestionResult, UnitResult

EXPECTED = [ToolCall(name="look"), ToolCall(name="pay", input_parameters={"amount": 5})]
METRIC = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters"], threshold=1)


def trial_report(outcomes: Mapping[str, str], trials: int, **more: Any) -> Report:
    """Return a report with this many trials of goldens.

    Args:
        outcomes: By the id of the golden, a letter for each trial: `p`assed, `f`ailed, `e`rror (not measured).
        trials: How many were asked for.
        more: Fields of the report.
    """
    called = {"p": EXPECTED, "f": EXPECTED[:1], "e": None}
    rows = [
        (golden, trial, LLMTestCase(id=name, tools_called=called[letter], expected_tools=EXPECTED))
        for golden, (name, letters) in enumerate(outcomes.items())
        for trial, letter in enumerate(letters, start=1)
    ]
    measured = evaluate([case for _, _, case in rows], [METRIC], show_progress=False)
    cases = tuple(
        replace(case, golden=golden, trial=trial) for case, (golden, trial, _) in zip(measured.cases, rows, strict=True)
    )
    return Report(measured.metrics, cases, trials=trials, **more)


def agent_report(outcomes: Mapping[str, str], trials: int | None = None) -> Report:
    """Return the report of one agent: like `trial_report`, and without `trials` each golden is one case."""
    report = trial_report(outcomes, trials or 1)
    if trials is not None:
        return report
    return replace(report, trials=None, cases=tuple(replace(case, trial=None, golden=None) for case in report.cases))


def agents_report(outcomes: Mapping[str, Mapping[str, str]], trials: int | None = None) -> Report:
    """Return the report of several agents that were asked the same goldens; see `agent_report`."""
    cases: list[CaseResult] = []
    for name, of_agent in outcomes.items():
        alone = agent_report(of_agent, trials).cases
        cases += [replace(case, agent=name, golden=case.cluster, index=len(cases) + case.index) for case in alone]
    return Report((METRIC.label,), tuple(cases), trials=trials)


def judged_report(*, cost: float | None = 0.125, decided: int = 3, questions_asked: int = 4) -> Report:
    """A report of one case whose tools a judge was asked about."""
    questions = tuple(
        QuestionResult(
            criterion="tool_selection",
            decided_by="judge",
            outcome="ok" if place < decided else "unavailable",
            decision="yes" if place < decided else None,
            tool="look",
            called=place,
        )
        for place in range(questions_asked)
    )
    result = MetricResult(
        metric="tool_use",
        status=ResultStatus.SCORED,
        threshold=0.5,
        score=1.0,
        passed=True,
        units=(UnitResult(index=0, questions=questions),),
        judge={"model": "m", "prompts": "1", "samples": "1"},
        usage={"input_tokens": 1200, "output_tokens": 34, "cached_tokens": 10, "requests": 4},
        cost=cost,
    )
    return Report(("tool_use",), (CaseResult(0, LLMTestCase(id="talk"), (result,)),))
