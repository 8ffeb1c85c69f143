"""Reports as JUnit XML, which CI servers read: a suite for each metric, a test case for each case.

A score below the threshold is a failure, a case that could not be measured an error, a skipped case is skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from xml.etree import ElementTree as ET

from toolgrade._internal.text import unique_labels
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.redaction import redact
from toolgrade.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolgrade.report.terminal.results import result_text
from toolgrade.report.text.first_problem import first_problem
from toolgrade.report.text.phrases import (
    Entry,
    Verdict,
    flaky_text,
    interval_text,
    number_or_dash,
    one_line,
    pass_at_k_rows,
    result_verdict,
    score_text,
)
from toolgrade.result import ResultStatus

__all__ = ["render_junit"]

_MAX_NAME = 200
_MOST_SECONDS = 10**12  # a number beyond it, from a file of results, is not a time
_EXCEPTION_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,99}): ", re.ASCII)
_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def render_junit(report: Report, *, title: str, redactor: Redactor = DEFAULT) -> str:
    """Return a report as JUnit XML.

    Names of cases that occur several times are numbered, so that no server takes two for one. Characters that XML
    cannot hold, such as control characters, are written as escapes. Times are those of the recorded runs, in seconds,
    and left out if they are not known.

    Args:
        report: The report.
        title: A name, such as that of a file.
        redactor: Redacts values and texts.

    Example:
        >>> from xml.etree import ElementTree
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.junit import render_junit
        >>> case = LLMTestCase(id="weather", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> text = render_junit(evaluate([case], [ToolCorrectnessMetric()]), title="Weather agent")
        >>> test = ElementTree.fromstring(text).find("testsuite/testcase")
        >>> print(test.get("name"), "-", test.find("failure").get("message"))
        weather - e1 get_weather: not called
    """
    report = redact(report, redactor)
    results = list(report.results())
    root = ET.Element("testsuites", {"name": one_line(redact(title, redactor), _MAX_NAME), **_counts(results)})
    del root.attrib["skipped"]  # the schema allows it on suites alone
    root.attrib.update(_time([report.about.get("seconds")]))
    start = _START.match(str(report.about.get("started_at", "")))
    # Totals over several agents say little: each has its own, below its name.
    names = report.agents
    parts = {f"{name}: ": report.of_agent(name) for name in names} if len(names) > 1 else {"": report}
    totals = {prefix: (part.summaries, part.trial_summaries) for prefix, part in parts.items()}
    for place, metric in enumerate(report.metrics):
        entries = [entry for entry in results if entry[1].metric == metric]
        suite = _add_suite(root, metric, entries)
        if start:
            suite.set("timestamp", start.group())
        properties = ET.Element("properties")
        facts = list(_facts(report))
        for prefix, (summaries, trials) in totals.items():
            figures = _figures(summaries[place], trials[place] if trials else None)
            facts += [(f"{one_line(prefix, _MAX_NAME)}{name}", value) for name, value in figures]
        for name, value in facts:
            ET.SubElement(properties, "property", {"name": name, "value": value})
        suite.insert(0, properties)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_suite(root: ET.Element, metric: str, entries: Sequence[Entry]) -> ET.Element:
    """Add the suite of a metric with its cases, and return it."""
    suite = ET.SubElement(root, "testsuite", {"name": one_line(metric, _MAX_NAME), **_counts(entries)})
    suite.attrib.update(_time(_duration(case) for case, _ in entries))
    names = unique_labels([one_line(case.label, _MAX_NAME) for case, _ in entries])
    for name, entry in zip(names, entries, strict=True):
        _add_case(suite, name, entry)
    return suite


def _counts(entries: Sequence[Entry]) -> dict[str, str]:
    verdicts = Counter(result_verdict(result) for _, result in entries)
    names: dict[str, Verdict] = {"failures": "failed", "errors": "error", "skipped": "skipped"}
    return {"tests": str(len(entries)), **{name: str(verdicts[verdict]) for name, verdict in names.items()}}


def _time(seconds: Iterable[object]) -> dict[str, str]:
    """Return the sum of the times that are known as an attribute; none if no time is."""
    times = [one for one in seconds if isinstance(one, (int, float)) and abs(one) < _MOST_SECONDS]
    return {"time": f"{fsum(times):.3f}"} if times else {}


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the facts about the evaluation."""
    if report.interrupted:
        yield "interrupted", "true"
    for name, value in report.about.items():
        if isinstance(value, (str, int, float)):
            yield f"about.{one_line(name, _MAX_NAME)}", one_line(str(value))


def _figures(summary: MetricSummary, trials: TrialSummary | None) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a metric and its trials that are known."""
    figures = {
        "threshold": f"{summary.threshold:g}",
        "mean": number_or_dash(summary.mean),
        "mean.interval": number_or_dash(summary.mean_interval, interval_text),
        "pass_rate": number_or_dash(summary.rate),
        "pass_rate.interval": number_or_dash(summary.rate_interval, interval_text),
        "judge.coverage": number_or_dash(summary.coverage),
        "judge.cost": number_or_dash(summary.cost),
    }
    for k, at_least_one, all_of_them, _ in pass_at_k_rows(trials) if trials else ():
        figures |= {f"pass@{k}": at_least_one, f"pass^{k}": all_of_them}
    for name, text in figures.items():
        if text != "-":
            yield name, text
    for flaky in trials.flaky if trials else ():
        yield "flaky", flaky_text(flaky)


def _add_case(suite: ET.Element, name: str, entry: Entry) -> None:
    case, result = entry
    element = ET.SubElement(suite, "testcase", {"name": name, "classname": one_line(result.metric, _MAX_NAME)})
    element.attrib.update(_time([_duration(case)]))
    if not result.passed:
        _add_problem(element, entry)
    lines = [score_text(result), *(f"warning: {one_line(text)}" for text in result.warnings)]
    if any(lines):  # not as properties, which the schema allows on suites alone
        ET.SubElement(element, "system-out").text = "\n".join(filter(None, lines))


def _add_problem(element: ET.Element, entry: Entry) -> None:
    """Add why a case did not pass: its first divergence, and expected and called side by side."""
    case, result = entry
    message = first_problem(result) or score_text(result)
    if result.status is ResultStatus.SKIPPED:
        ET.SubElement(element, "skipped", {"message": message})
        return
    tag, kind = "failure", "toolgrade.BelowThreshold"
    if result.score is None:
        exception = _EXCEPTION_TYPE.match(result.error or "")
        tag, kind = "error", exception["type"] if exception else "toolgrade.NotMeasured"
    problem = ET.SubElement(element, tag, {"message": message, "type": kind})
    problem.text = f"\n{result_text(result, case.case, case.label)}\n"


def _duration(case: CaseResult) -> object:
    """Return how long the recorded run of a case took, in seconds."""
    return getattr(getattr(case.case, "run", None), "duration", None)
