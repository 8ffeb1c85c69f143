"""Scores on their way back to where the traces came from."""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from toolmark import (
    InvalidDataError,
    LLMTestCase,
    MissingPackageError,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    evaluate,
)
from toolmark.formats import read_traces
from toolmark.redact import REDACTED
from toolmark.report import Report
from toolmark.report.feedback import (
    evaluation_events,
    evaluation_spans,
    langfuse_scores,
    langsmith_feedback,
    phoenix_annotations,
)
from toolmark.report.otel import emit_events, emit_spans
from tracing import Script, ScriptedCall, Step, langsmith, openai_agents, otlp

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
TOLD = Script("Go.", [Step("boss", [ScriptedCall("add", "c1", {"token": "s3cr3t"}, "3")]), Step("boss", [], "Done.")])
ROOT_SPAN = f"{1:016x}"


def report(value: Any, *, wanted: str = "add") -> Report:
    """A report of two metrics on the only case of these traces; one of them fails to measure."""
    (run,) = read_traces(value).runs
    case = run.to_test_case(expected_tools=[ToolCall(name=wanted, input_parameters={"token": "other"})])
    metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), ToolEfficiencyMetric(max_seconds=1)]
    return evaluate([case], metrics)


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Attributes of OTLP as an object."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in attributes}


def test_events_stand_at_the_span_that_they_are_about() -> None:
    """Name, value, label, reason; at the outermost span of the trace."""
    value = evaluation_events(report(otlp(TOLD)), at=AT)

    (record, *_) = value["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    said = plain(record["attributes"])
    assert (record["traceId"], record["spanId"], record["eventName"]) == (
        TOLD.trace,
        ROOT_SPAN,
        "gen_ai.evaluation.result",
    )
    assert record["timeUnixNano"] == "1767323045000006000"
    assert said["gen_ai.evaluation.name"].startswith("tool_correctness")
    assert (said["gen_ai.evaluation.score.value"], said["gen_ai.evaluation.score.label"]) == (0.0, "fail")
    assert "called with" in said["gen_ai.evaluation.explanation"]
    json.dumps(value)


def test_what_could_not_be_measured_is_an_error_and_no_score() -> None:
    """Not measured is not zero: it is an event of its own, and nothing elsewhere."""
    (run,) = read_traces(otlp(TOLD)).runs
    failed = evaluate([run.to_test_case()], [ToolCorrectnessMetric()])

    (record,) = evaluation_events(failed)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]

    said = plain(record["attributes"])
    assert said["error.type"] != "_OTHER"
    assert "gen_ai.evaluation.score.value" not in said
    assert record["severityText"] == "WARN"
    assert evaluation_spans(failed)["resourceSpans"][0]["scopeSpans"][0]["spans"] == []
    assert langsmith_feedback(failed) == langfuse_scores(failed) == phoenix_annotations(failed)["data"] == []


def test_spans_of_evaluations_have_one_link_to_what_they_are_about() -> None:
    """They are spans of their own, with ids that stay the same."""
    one, other = (evaluation_spans(report(otlp(TOLD)), at=AT) for _ in range(2))

    spans = one["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert one == other
    assert len({span["spanId"] for span in spans}) == len(spans) == 2
    for span in spans:
        said = plain(span["attributes"])
        assert span["links"] == [{"traceId": TOLD.trace, "spanId": ROOT_SPAN}]
        assert span["traceId"] != TOLD.trace
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert said["openinference.span.kind"] == "EVALUATOR"
        assert said["evaluations.0.evaluation.name"] == span["name"]
        assert said["evaluations.0.evaluation.annotator_kind"] == "CODE"
        assert json.loads(said["evaluations.0.evaluation.metadata"])["threshold"] == 0.5
    assert [plain(span["attributes"])["evaluations.0.evaluation.score"] for span in spans] == [0.0, 1.0]
    assert [plain(span["attributes"])["evaluations.0.evaluation.label"] for span in spans] == ["fail", "pass"]


def test_feedback_of_langsmith_and_scores_of_langfuse() -> None:
    """One entry a score, at the outermost run, or at the trace."""
    feedback, scores = langsmith_feedback(report(langsmith(TOLD))), langfuse_scores(report(otlp(TOLD)))

    assert [(entry["run_id"], entry["trace_id"], entry["score"], entry["value"]) for entry in feedback] == [
        (ROOT_SPAN, TOLD.trace, 0.0, "fail"),
        (ROOT_SPAN, TOLD.trace, 1.0, "pass"),
    ]
    assert [(entry["traceId"], entry["value"], entry["dataType"]) for entry in scores] == [
        (TOLD.trace, 0.0, "NUMERIC"),
        (TOLD.trace, 1.0, "NUMERIC"),
    ]
    assert len({entry["id"] for entry in [*feedback, *scores]}) == 2
    assert feedback[0]["comment"] == scores[0]["comment"]
    assert scores[1]["metadata"]["passed"] is True


def test_annotations_of_phoenix() -> None:
    """One a score, at the outermost span; what Phoenix knows an annotation by is the same each time."""
    one, other = (phoenix_annotations(report(otlp(TOLD)))["data"] for _ in range(2))

    assert one == other
    assert {(entry["span_id"], entry["annotator_kind"], entry["identifier"]) for entry in one} == {
        (ROOT_SPAN, "CODE", "toolmark")
    }
    assert len({entry["name"] for entry in one}) == 2
    assert [(entry["result"]["score"], entry["result"]["label"]) for entry in one] == [(0.0, "fail"), (1.0, "pass")]
    assert "called with" in one[0]["result"]["explanation"]
    assert one[1]["metadata"]["passed"] is True


def test_secrets_do_not_leave() -> None:
    """Values under the names of secrets are marked in every form."""
    made = report(otlp(TOLD))

    forms = (evaluation_events, evaluation_spans, langsmith_feedback, langfuse_scores, phoenix_annotations)
    for value in (form(made) for form in forms):
        assert "s3cr3t" not in json.dumps(value)
        assert REDACTED in json.dumps(value)


def test_metrics_may_be_called_anything() -> None:
    """Also by half a character, which UTF-8 cannot hold."""
    made = report(otlp(TOLD))
    (case,) = made.cases
    renamed = replace(made, cases=(replace(case, results=tuple(one.renamed("a\ud800") for one in case.results[:1])),))

    for entry in (*langsmith_feedback(renamed), *langfuse_scores(renamed)):
        assert str(uuid.UUID(entry["id"])) == entry["id"]


def test_cases_that_name_no_trace_are_told_all_at_once() -> None:
    """So are those whose ids OpenTelemetry cannot have."""
    case = LLMTestCase(id="x", tools_called=[], expected_tools=[])
    (run,) = read_traces(openai_agents(Script("Go.", TOLD.steps, trace="trace_1"))).runs
    mixed = evaluate([case, run.to_test_case(expected_tools=[]), case], [ToolCorrectnessMetric()])

    for form in (evaluation_events, phoenix_annotations):  # whose spans are those of OpenTelemetry
        with pytest.raises(InvalidDataError) as raised:
            form(mixed)
        assert len(raised.value.problems) == 3
    assert [(problem.path, problem.message[:26]) for problem in raised.value.problems] == [
        ("$.cases[0]", "case 'x' names no trace; o"),
        ("$.cases[1]", "case 'trace_1' is of trace"),
        ("$.cases[2]", "case 'x' names no trace; o"),
    ]
    with pytest.raises(InvalidDataError) as raised:
        langfuse_scores(mixed)
    assert [problem.path for problem in raised.value.problems] == ["$.cases[0]", "$.cases[2]"]


@pytest.mark.parametrize("module", ["opentelemetry._logs", "opentelemetry.trace"])
def test_sending_without_the_package_is_told(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(sys.modules, module, None)
    emit = emit_events if module.endswith("logs") else emit_spans

    with pytest.raises(MissingPackageError, match=r"needs the package 'opentelemetry'.*toolmark\[otel\]"):
        emit(report(otlp(TOLD)))
