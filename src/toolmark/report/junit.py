"""Reports as JUnit XML, which CI servers read: a suite for each metric, a test case for each case.

A score below the threshold is a failure, what could not be measured an error, what a metric is not about skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from xml.etree import ElementTree as ET

from toolmark._internal.text import number_text, printable, shorten, unique_labels
from toolmark.cases import Run
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolmark.report.terminal.results import result_text
from toolmark.report.text.first_problem import first_problem, words
from toolmark.report.text.ordering import Entry
from toolmark.report.text.phrases import chances, flaky_text, within
from toolmark.result import MetricResult, ResultStatus

__all__ = ["render_junit"]

_NAME = 200
_BELOW = "toolmark.BelowThreshold"
_NOT_MEASURED = "toolmark.NotMeasured"
_RAISED = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,99}): ", re.ASCII)
_STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def render_junit(report: Report, *, title: str, redactor: Redactor = DEFAULT) -> str:
    """Return a report as JUnit XML.

    Names of cases that occur several times are numbered, so that no server takes two for one. What XML cannot hold,
    such as control characters, is written as an escape. Times are those of the recorded runs, in seconds, and left out
    where they are not known.

    Args:
        report: What to show.
        title: What was scored, such as a file name.
        redactor: Takes secrets out of values and texts.
    """
    results = list(report.results())
    root = ET.Element("testsuites", {"name": _short(title), **_counts(result for _, result in results)})
    del root.attrib["skipped"]  # only suites may have it
    seconds = report.about.get("seconds")
    if isinstance(seconds, (int, float)):
        root.set("time", _seconds(seconds))
    trials = {one.metric: one for one in report.trial_summaries}
    for summary in report.summaries:
        mine = [entry for entry in results if entry[1].metric == summary.metric]
        suite = ET.SubElement(root, "testsuite", _suite(report, summary, mine))
        properties = ET.SubElement(suite, "properties")
        for name, value in (*_known(report), *_figures(summary), *_chances(trials.get(summary.metric))):
            ET.SubElement(properties, "property", {"name": name, "value": value})
        names = unique_labels([_short(case.label) for case, _ in mine])
        for name, entry in zip(names, mine, strict=True):
            _add_case(suite, name, entry, redactor)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(report: Report, summary: MetricSummary, entries: Sequence[Entry]) -> dict[str, str]:
    attributes = {"name": _short(summary.metric), **_counts(result for _, result in entries)}
    times = [seconds for case, _ in entries if (seconds := _duration(case)) is not None]
    if times:
        attributes["time"] = _seconds(fsum(times))
    started = _STARTED.match(str(report.about.get("started_at", "")))
    return {**attributes, "timestamp": started.group()} if started else attributes


def _counts(results: Iterable[MetricResult]) -> dict[str, str]:
    found = list(results)
    return {
        "tests": str(len(found)),
        "failures": str(sum(result.passed is False for result in found)),
        "errors": str(sum(result.status is ResultStatus.FAILED for result in found)),
        "skipped": str(sum(result.status is ResultStatus.SKIPPED for result in found)),
    }


def _known(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what is known of the evaluation."""
    if report.interrupted:
        yield "interrupted", "true"
    for name, value in report.about.items():
        if isinstance(value, (str, int, float)):
            yield f"about.{_short(name)}", words(str(value))


def _figures(summary: MetricSummary) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a metric that are known."""
    yield "threshold", f"{summary.threshold:g}"
    for name, value, interval in (
        ("mean", summary.mean, summary.mean_interval),
        ("pass_rate", summary.rate, summary.rate_interval),
        ("judge.coverage", summary.coverage, None),
        ("judge.cost", summary.cost, None),
    ):
        if value is not None:
            yield name, number_text(value)
        if interval is not None:
            yield f"{name}.interval", within(interval)


def _chances(trials: TrialSummary | None) -> Iterator[tuple[str, str]]:
    """Yield the chances that trials pass, and which goldens are flaky."""
    for k, at, hat, _ in chances(trials) if trials is not None else ():
        yield from ((name, value) for name, value in ((f"pass@{k}", at), (f"pass^{k}", hat)) if value != "-")
    for flaky in trials.flaky if trials is not None else ():
        yield "flaky", flaky_text(flaky)


def _add_case(suite: ET.Element, name: str, entry: Entry, redactor: Redactor) -> None:
    case, result = entry
    element = ET.SubElement(suite, "testcase", {"name": name, "classname": _short(result.metric)})
    seconds = _duration(case)
    if seconds is not None:
        element.set("time", _seconds(seconds))
    if not result.passed:
        _add_problem(element, entry, redactor)
    told = [] if result.score is None else [f"score {number_text(result.score)}"]
    told += [f"warning: {words(text, redactor=redactor)}" for text in result.warnings]
    if told:  # not as properties, which the schema allows suites alone
        ET.SubElement(element, "system-out").text = "\n".join(told)


def _add_problem(element: ET.Element, entry: Entry, redactor: Redactor) -> None:
    """Add why a case did not pass: its first divergence, and expected and called side by side."""
    case, result = entry
    message = first_problem(result, redactor) or (
        f"score {number_text(result.score)}" if result.score is not None else ""
    )
    if result.status is ResultStatus.SKIPPED:
        ET.SubElement(element, "skipped", {"message": message})
        return
    if result.score is None:
        raised = _RAISED.match(result.error or "")
        kind, tag = raised["type"] if raised else _NOT_MEASURED, "error"
    else:
        kind, tag = _BELOW, "failure"
    problem = ET.SubElement(element, tag, {"message": message, "type": kind})
    problem.text = f"\n{result_text(result, case.case, case.label, redactor)}\n"


def _duration(case: CaseResult) -> float | None:
    """Return how long the recorded run of a case took, in seconds."""
    run = getattr(case.case, "run", None)
    return run.duration if isinstance(run, Run) else None


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _short(text: str) -> str:
    return shorten(printable(text), _NAME)
