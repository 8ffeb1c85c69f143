"""Reports as JUnit XML: valid by its schema, readable by any reader of XML, and counting what the report counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile import SECRETS, TEXTS, Repeating, hostile_cases, report_with_secrets
from processes import assert_golden
from strategies import case_fields
from toolgrade import (
    Golden,
    LLMTestCase,
    Report,
    ResultStatus,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolSuccessRate,
    evaluate,
    observe,
)
from toolgrade._internal.text import printable
from toolgrade.redact import OFF
from toolgrade.report.junit import render_junit

xmlschema = pytest.importorskip("xmlschema")
SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[1] / "junit.xsd")
METRIC = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters"])


def tool(name: str, arguments: dict[str, Any] | None = None) -> ToolCall:
    """A call."""
    return ToolCall(name=name, **({} if arguments is None else {"input_parameters": arguments}))


CASES = [
    LLMTestCase(id="happy", tools_called=[tool("find")], expected_tools=[tool("find")], run=Run(duration=1.25)),
    LLMTestCase(
        id="wrong",
        tools_called=[tool("find", {"to": "OPO"})],
        expected_tools=[tool("find", {"to": "LIS"}), tool("mail")],
        run=Run(duration=0.5, warnings=["the recording broke off"]),
    ),
    LLMTestCase(id="silent", tools_called=[], expected_tools=[tool("find")]),
    LLMTestCase(id="silent", tools_called=[], expected_tools=[tool("find")]),
    LLMTestCase(id="unknown", tools_called=[tool("find")]),
]


def report(*cases: LLMTestCase, **more: Any) -> Report:
    """Their evaluation."""
    measured = evaluate(cases or CASES, more.pop("metrics", [METRIC]), show_progress=False)
    return Report(measured.metrics, measured.cases, **more)


def parsed(measured: Report, **options: Any) -> ET.Element:
    """Return the parsed root of a report's XML after validation."""
    text = render_junit(measured, **{"title": "runs.jsonl", **options})
    SCHEMA.validate(text)
    return ET.fromstring(text.encode())  # noqa: S314 - our own


def test_a_file() -> None:
    """The suite, its properties, cases with failures, errors, times and warnings."""
    skipped = Repeating(" does not apply", ResultStatus.SKIPPED)
    about = {"toolgrade": "1.0", "started_at": "2026-03-01T10:20:30.123456+00:00", "seconds": 12.3456, "more": {"a": 1}}
    measured = report(metrics=[METRIC, skipped], about=about, interrupted=True)
    text = render_junit(measured, title="runs.jsonl")

    SCHEMA.validate(text)
    assert_golden("junit.xml", text)


def test_failure_message_has_the_first_problem() -> None:
    """The text below has both sides."""
    failure = parsed(report()).find(".//testcase[@name='wrong']/failure")

    assert failure is not None
    assert failure.get("message") == 'c1 find: args.to "OPO", expected "LIS" (+1)'
    assert failure.get("type") == "toolgrade.BelowThreshold"
    assert " -  2 mail                                   (not called)\n" in (failure.text or "")


@pytest.mark.parametrize(
    ("case", "kind", "message"),
    [
        (CASES[-1], "toolgrade.NotMeasured", "Skipped: ToolCorrectnessMetric needs expected_tools"),
        (LLMTestCase(expected_tools=[]), "toolgrade.NotMeasured", "ToolCorrectnessMetric needs tools_called"),
        (
            CASES[0].model_copy(update={"run": Run(status="error", error="RuntimeError: 401")}),
            "toolgrade.AgentError",
            "RuntimeError: 401",
        ),
    ],
    ids=["skipped", "not measured", "the agent broke"],
)
def test_errors_have_their_sentence(case: LLMTestCase, kind: str, message: str) -> None:
    """And their type."""
    error = parsed(report(case)).find(".//error")

    assert error is not None
    assert error.get("type") == kind
    assert (error.get("message") or "").startswith(message)


def test_an_app_that_broke_is_an_error_though_its_components_passed() -> None:
    """An answer whose components alone have metrics is a test case only then."""

    @observe(tool=True)
    def find() -> str:
        return "x"

    @observe(metrics=[ToolSuccessRate()])
    def inner() -> None:
        find()

    @observe
    def app(question: str) -> str:
        inner()
        if question == "b":
            raise RuntimeError("401")
        return "done"

    measured = evaluate(goldens=[Golden(id=name, input=name) for name in "ab"], observed_callback=app)
    suite = parsed(measured)[0]

    assert [case.get("name") for case in suite.findall("testcase")] == ["a > inner", "b", "b > inner"]
    assert (suite.get("tests"), suite.get("errors")) == ("3", "1")
    assert [one.get("message") for one in suite.iter("error")] == ["RuntimeError: 401"]


def test_unknown_times_are_omitted() -> None:
    """They are not written as 0."""
    suite = parsed(report())[0]

    assert [case.get("time") for case in suite.iter("testcase")] == ["1.250", "0.500", None, None, None]
    assert suite.get("time") == "1.750"
    assert parsed(report(CASES[2]))[0].get("time") is None
    assert parsed(report()).get("time") is None
    assert parsed(report(about={"seconds": 2})).get("time") == "2.000"
    assert parsed(report(about={"seconds": 10**400})).get("time") is None
    assert parsed(report(about={"started_at": "yesterday"}))[0].get("timestamp") is None


def test_titles_stay_data() -> None:
    """Any title, and any key and value of what is known about the evaluation, is read back as it is printed."""
    for title in TEXTS:
        root = parsed(report(CASES[0], about={"note": title, title: "x"}), title=title)

        assert root.get("name") == printable(title)
        assert root.findall(".//property[@name='about.note']")[0].get("value") == printable(title)


def test_all_data_is_escaped() -> None:
    """For every case and metric, with escapes for invalid XML characters."""
    names = [case.get("name") for case in parsed(report(*hostile_cases()))[0].iter("testcase")]
    assert names == [printable(f"{prefix}{text}") for text in TEXTS for prefix in ("", "unknown")]

    metrics = [Repeating(text, ResultStatus.ERRORED) for text in TEXTS]
    texts = [element.text or "" for element in parsed(report(*hostile_cases()[:2], metrics=metrics)).iter("system-out")]
    assert all(f"errored{printable(text)}: not measured" in texts[0] for text in TEXTS)


@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=3))
def test_any_report_is_valid(cases: list[LLMTestCase]) -> None:
    """Whatever the cases hold."""
    parsed(report(*cases))


def test_secrets_are_removed() -> None:
    """From messages and sides."""
    measured = report_with_secrets(METRIC)

    for secret in SECRETS:
        assert secret not in render_junit(measured, title="x")
        assert secret in render_junit(measured, title="x", redactor=OFF)
