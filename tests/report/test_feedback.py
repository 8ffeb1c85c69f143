"""Scores on their way back to where the traces came from."""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from judging import RuleJudge
from toolgrade import (
    InvalidDataError,
    LLMTestCase,
    MissingPackageError,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolErrorRate,
    ToolUseMetric,
    evaluate,
)
from toolgrade.formats import read_traces
from toolgrade.redact import REDACTED
from toolgrade.report import Report
from toolgrade.report.feedback import (
    evaluation_events,
    evaluation_spans,
    langfuse_scores,
    langsmith_feedback,
    phoenix_annotations,
)
from toolgrade.report.otel import emit_events, emit_spans
from tracing import Script, ScriptedCall, Step, langsmith, openai_agents, otlp

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
SCRIPT = Script("Go.", [Step("boss", [ScriptedCall("add", "c1", {"token": "s3cr3t"}, "3")]), Step("boss", [], "Done.")])
ROOT_SPAN = f"{1:016x}"


def report(value: Any, *, tool: str = "add") -> Report:
    """A report of two metrics on the only case of these traces; one of them fails to measure."""
    (run,) = read_traces(value).runs
    case = run.to_test_case(expected_tools=[ToolCall(name=tool, input_parameters={"token": "other"})])
    metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), ToolEfficiencyMetric(max_seconds=1)]
    return evaluate([case], metrics)


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Attributes of OTLP as an object."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in attributes}


def test_events_belong_to_their_span() -> None:
    """Name, value, label and reason on the trace's root span."""
    value = evaluation_events(report(otlp(SCRIPT)), at=AT)

    (record, *_) = value["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    attributes = plain(record["attributes"])
    assert (record["traceId"], record["spanId"], record["eventName"]) == (
        SCRIPT.trace,
        ROOT_SPAN,
        "gen_ai.evaluation.result",
    )
    assert record["timeUnixNano"] == "1767323045000006000"
    assert attributes["gen_ai.evaluation.name"].startswith("tool_correctness")
    assert (attributes["gen_ai.evaluation.score.value"], attributes["gen_ai.evaluation.score.label"]) == (0.0, "fail")
    assert "called with" in attributes["gen_ai.evaluation.explanation"]
    json.dumps(value)


def test_unmeasured_results_are_errors_without_a_score() -> None:
    """They are error events, and absent elsewhere."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    failed = evaluate([run.to_test_case()], [ToolCorrectnessMetric()])

    (record,) = evaluation_events(failed)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]

    attributes = plain(record["attributes"])
    assert attributes["error.type"] != "_OTHER"
    assert "gen_ai.evaluation.score.value" not in attributes
    assert record["severityText"] == "WARN"
    assert evaluation_spans(failed)["resourceSpans"][0]["scopeSpans"][0]["spans"] == []
    assert langsmith_feedback(failed) == langfuse_scores(failed) == phoenix_annotations(failed)["data"] == []


def test_evaluation_spans_have_one_link() -> None:
    """Separate spans with stable ids."""
    one, other = (evaluation_spans(report(otlp(SCRIPT)), at=AT) for _ in range(2))

    spans = one["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert one == other
    assert len({span["spanId"] for span in spans}) == len(spans) == 2
    for span in spans:
        attributes = plain(span["attributes"])
        assert span["links"] == [{"traceId": SCRIPT.trace, "spanId": ROOT_SPAN}]
        assert span["traceId"] != SCRIPT.trace
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert attributes["openinference.span.kind"] == "EVALUATOR"
        assert attributes["evaluations.0.evaluation.name"] == span["name"]
        assert attributes["evaluations.0.evaluation.annotator_kind"] == "CODE"
        assert json.loads(attributes["evaluations.0.evaluation.metadata"])["threshold"] == 0.5
    assert [plain(span["attributes"])["evaluations.0.evaluation.score"] for span in spans] == [0.0, 1.0]
    assert [plain(span["attributes"])["evaluations.0.evaluation.label"] for span in spans] == ["fail", "pass"]


def test_feedback_of_langsmith_and_scores_of_langfuse() -> None:
    """One entry for each score, on the root run or the trace."""
    feedback, scores = langsmith_feedback(report(langsmith(SCRIPT))), langfuse_scores(report(otlp(SCRIPT)))

    assert [(entry["run_id"], entry["trace_id"], entry["score"], entry["value"]) for entry in feedback] == [
        (ROOT_SPAN, SCRIPT.trace, 0.0, "fail"),
        (ROOT_SPAN, SCRIPT.trace, 1.0, "pass"),
    ]
    assert [(entry["traceId"], entry["value"], entry["dataType"]) for entry in scores] == [
        (SCRIPT.trace, 0.0, "NUMERIC"),
        (SCRIPT.trace, 1.0, "NUMERIC"),
    ]
    assert len({entry["id"] for entry in [*feedback, *scores]}) == 2
    assert feedback[0]["comment"] == scores[0]["comment"]
    assert scores[1]["metadata"]["passed"] is True


def test_annotations_of_phoenix() -> None:
    """One for each score, on the root span, with a stable identifier."""
    one, other = (phoenix_annotations(report(otlp(SCRIPT)))["data"] for _ in range(2))

    assert one == other
    assert {(entry["span_id"], entry["annotator_kind"], entry["identifier"]) for entry in one} == {
        (ROOT_SPAN, "CODE", "toolgrade")
    }
    assert len({entry["name"] for entry in one}) == 2
    assert [(entry["result"]["score"], entry["result"]["label"]) for entry in one] == [(0.0, "fail"), (1.0, "pass")]
    assert "called with" in one[0]["result"]["explanation"]
    assert one[1]["metadata"]["passed"] is True


def test_secrets_do_not_leave() -> None:
    """Values under the names of secrets are marked in every form."""
    source = report(otlp(SCRIPT))

    forms = (evaluation_events, evaluation_spans, langsmith_feedback, langfuse_scores, phoenix_annotations)
    for value in (form(source) for form in forms):
        assert "s3cr3t" not in json.dumps(value)
        assert REDACTED in json.dumps(value)


def test_metrics_may_be_called_anything() -> None:
    """Also by half a character, which UTF-8 cannot hold."""
    source = report(otlp(SCRIPT))
    (case,) = source.cases
    renamed = replace(source, cases=(replace(case, results=tuple(one.renamed("a\ud800") for one in case.results[:1])),))

    for entry in (*langsmith_feedback(renamed), *langfuse_scores(renamed)):
        assert str(uuid.UUID(entry["id"])) == entry["id"]


def test_a_conversation_is_about_its_last_trace() -> None:
    """The conversation itself, and each of its questions about the trace that answered it."""
    later = Script("And now?", SCRIPT.steps, trace="b" * 32, session="s1")
    (conversation,) = read_traces(otlp(replace(SCRIPT, session="s1"), later)).conversations
    judged = ToolUseMetric([{"name": "add", "parameters": {"type": "object"}}], judge=RuleJudge())
    of_conversation = langfuse_scores(evaluate([conversation], [judged]))
    of_questions = langfuse_scores(evaluate(conversation.to_test_cases(), [ToolErrorRate()]))

    assert [score["traceId"] for score in of_conversation] == ["b" * 32]
    assert [score["traceId"] for score in of_questions] == [SCRIPT.trace, "b" * 32]


def test_cases_without_a_trace_are_reported_at_once() -> None:
    """As are those with invalid OpenTelemetry ids."""
    case = LLMTestCase(id="x", tools_called=[], expected_tools=[])
    (run,) = read_traces(openai_agents(Script("Go.", SCRIPT.steps, trace="trace_1"))).runs
    mixed = evaluate([case, run.to_test_case(expected_tools=[]), case], [ToolCorrectnessMetric()])

    for form in (evaluation_events, phoenix_annotations):  # whose spans are those of OpenTelemetry
        with pytest.raises(InvalidDataError) as raised:
            form(mixed)
        assert len(raised.value.problems) == 3
    assert [(problem.path, problem.message[:26]) for problem in raised.value.problems] == [
        ("$.cases[0]", "case 'x' names no trace; o"),
        ("$.cases[1]", "case '#2' is of trace 'tra"),
        ("$.cases[2]", "case 'x' names no trace; o"),
    ]
    with pytest.raises(InvalidDataError) as raised:
        langfuse_scores(mixed)
    assert [problem.path for problem in raised.value.problems] == ["$.cases[0]", "$.cases[2]"]


@pytest.mark.parametrize("module", ["opentelemetry._logs", "opentelemetry.trace"])
def test_missing_package_is_reported(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    emit = emit_events if module.endswith("logs") else emit_spans

    with pytest.raises(MissingPackageError, match=r"needs the package 'opentelemetry'.*toolgrade\[otel\]"):
        emit(report(otlp(SCRIPT)))
