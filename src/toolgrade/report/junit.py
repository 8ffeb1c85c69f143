"""Reports as JUnit XML, which CI servers read: a test case for each case.

A case that failed is a failure; one that could not be measured, or whose agent broke, is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from xml.etree import ElementTree as ET

from toolgrade._internal.text import unique_labels
from toolgrade.errors import InvalidDataError
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.redaction import redact
from toolgrade.report.report import CaseResult, Report
from toolgrade.report.terminal.results import result_text
from toolgrade.report.text.first_problem import case_problem
from toolgrade.report.text.headline import title_of
from toolgrade.report.text.phrases import WORD_TEXTS, effect_hints, is_bad, one_line, result_word, score_text

__all__ = ["render_junit"]

_MAX_NAME = 200
_MOST_SECONDS = 10**12  # a number beyond it, from a file of results, is not a time
_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def render_junit(report: Report, *, title: str | None = None, redactor: Redactor = DEFAULT) -> str:
    """Return a report as JUnit XML.

    Names of cases that occur several times are numbered, so that no server takes two for one. Characters that XML
    cannot hold, such as control characters, are written as escapes. Times are those of the recorded runs, in seconds,
    and left out if they are not known.

    Args:
        report: The report.
        title: A name; by default that in `report.about`, else "Evaluation".
        redactor: Redacts values and texts.

    Raises:
        InvalidDataError: This is a report of totals, which has no single cases.

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
    if report.totals:
        raise InvalidDataError("a report of totals has no single cases, and a file without failures would look passed")
    # An answer whose components alone have metrics is no test, unless its app broke.
    cases = [case for case in report.cases if case.own_results or case.wrong_end is not None]
    title = one_line(redact(title_of(report, title), redactor), _MAX_NAME)
    root = ET.Element("testsuites", {"name": title, **_counts(cases)})
    root.attrib.update(_time([report.about.get("seconds")]))
    suite = ET.SubElement(root, "testsuite", {"name": title, **_counts(cases), "skipped": "0"})
    suite.attrib.update(_time(map(_duration, cases)))
    start = _START.match(str(report.about.get("started_at", "")))
    if start:
        suite.set("timestamp", start.group())
    properties = ET.SubElement(suite, "properties")
    for name, value in _facts(report):
        ET.SubElement(properties, "property", {"name": name, "value": value})
    names = unique_labels([one_line(case.label, _MAX_NAME) for case in cases])
    for name, case in zip(names, cases, strict=True):
        _add_case(suite, name, title, case)
    if not report.passed and all(case.outcome == "passed" for case in cases):
        _add_gate(root, suite, title, report.verdict.sentence)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_gate(root: ET.Element, suite: ET.Element, title: str, sentence: str) -> None:
    """Add a test case for a gate that does not hold although every case passed, as after an interruption."""
    element = ET.SubElement(suite, "testcase", {"name": "gate", "classname": title})
    ET.SubElement(element, "error", {"message": one_line(sentence), "type": "toolgrade.Gate"})
    for one in (root, suite):
        one.attrib |= {name: str(int(one.attrib[name]) + 1) for name in ("tests", "errors")}


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    outcomes = Counter(case.outcome for case in cases)
    errors = outcomes["not_measured"] + outcomes["agent_error"]
    return {"tests": str(len(cases)), "failures": str(outcomes["failed"]), "errors": str(errors)}


def _time(seconds: Iterable[object]) -> dict[str, str]:
    """Return the sum of the times that are known as an attribute; none if no time is."""
    times = [one for one in seconds if isinstance(one, (int, float)) and abs(one) < _MOST_SECONDS]
    return {"time": f"{fsum(times):.3f}"} if times else {}


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the verdict, the cases by outcome, the facts about the evaluation, and what was not scored."""
    yield "verdict", one_line(report.verdict.sentence)
    for outcome, amount in report.verdict.counts.items():
        yield f"cases.{outcome}", str(amount)
    for name, value in report.about.items():
        if isinstance(value, (str, int, float)):
            yield f"about.{one_line(name, _MAX_NAME)}", one_line(str(value))
    yield from (("hint", text) for text in effect_hints(report))


def _add_case(suite: ET.Element, name: str, title: str, case: CaseResult) -> None:
    element = ET.SubElement(suite, "testcase", {"name": name, "classname": title})
    element.attrib.update(_time([_duration(case)]))
    if case.outcome != "passed":
        _add_problem(element, case)
    lines: list[str] = []
    for result in case.own_results:
        metric = one_line(result.metric, _MAX_NAME)
        lines.append(f"{metric}: {score_text(result) or WORD_TEXTS[result_word(result)]}")
        lines += [f"{metric}: warning: {one_line(text)}" for text in result.warnings]
    # Not as properties, which the schema allows on suites alone.
    ET.SubElement(element, "system-out").text = "\n".join(lines)


def _add_problem(element: ET.Element, case: CaseResult) -> None:
    """Add why a case did not pass: its first divergence, and of each bad result expected and called side by side."""
    bad = [result for result in case.own_results if is_bad((case, result))]
    tag = "failure" if case.outcome == "failed" else "error"
    kind = {"failed": "BelowThreshold", "not_measured": "NotMeasured", "agent_error": "AgentError"}[case.outcome]
    problem = ET.SubElement(element, tag, {"message": case_problem(case), "type": f"toolgrade.{kind}"})
    problem.text = "\n".join(["", *(result_text(result, case.case, case.label) for result in bad), ""])


def _duration(case: CaseResult) -> object:
    """Return how long the recorded run of a case took, in seconds."""
    return getattr(getattr(case.case, "run", None), "duration", None)
