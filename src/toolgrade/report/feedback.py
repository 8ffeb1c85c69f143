"""Reports as JSON for the backends that the traces came from; nothing is sent.

Each function returns one form: OpenTelemetry events, OpenInference spans, LangSmith feedback, Langfuse scores, Phoenix
annotations. A result is about the outermost span of the trace that its case was read from (`read_traces`), that of a
conversation about its last trace. Ids are
derived from that span and the metric, so that sending the same report again replaces it. `toolgrade.report.otel` sends
the first two forms itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.export.evaluation_records import EVENT_NAME, SCOPE, WARN, Record, nanoseconds, records_of
from toolgrade.report.report import Report

__all__ = ["evaluation_events", "evaluation_spans", "langfuse_scores", "langsmith_feedback", "phoenix_annotations"]


def evaluation_events(report: Report, *, at: datetime | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as `gen_ai.evaluation.result` events: log records of OTLP as JSON.

    A score has its value, `pass` or `fail` as label, and its reason as explanation. A result that could not be measured
    has `error.type` and no score; skipped results are left out.

    Args:
        report: A report of cases that were read from OpenTelemetry traces.
        at: Time of the events; now by default.
        redactor: Redacts reasons and errors.

    Raises:
        InvalidDataError: A case names no trace, or one whose ids are not OpenTelemetry ids; `problems` has all.

    Example:
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.feedback import evaluation_events
        >>> weather, ids = ToolCall(name="get_weather"), {"run_id": "a" * 32, "metadata": {"span_id": "b" * 16}}
        >>> run = Run(**ids, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> event = evaluation_events(report)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
        >>> print(event["eventName"], event["spanId"])
        gen_ai.evaluation.result bbbbbbbbbbbbbbbb
    """
    moment = str(nanoseconds(at))
    number, text = WARN
    log_records = [
        {
            "timeUnixNano": moment,
            "observedTimeUnixNano": moment,
            "eventName": EVENT_NAME,
            **({} if record.is_scored else {"severityNumber": number, "severityText": text}),
            "attributes": _pairs(record.event_attributes()),
            "traceId": record.trace,
            "spanId": record.span,
        }
        for record in records_of(report, redactor, scores_only=False)
    ]
    return {"resourceLogs": [{**_RESOURCE, "scopeLogs": [{"scope": _SCOPE, "logRecords": log_records}]}]}


def evaluation_spans(report: Report, *, at: datetime | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as OpenInference spans of kind `EVALUATOR`, each with one link to the span it is about.

    Only scores become spans.

    Args:
        report: A report of cases that were read from OpenTelemetry traces.
        at: Start and end of the spans; now by default.
        redactor: Redacts reasons.

    Raises:
        InvalidDataError: A case names no trace, or one whose ids are not OpenTelemetry ids; `problems` has all.

    Example:
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.feedback import evaluation_spans
        >>> weather, ids = ToolCall(name="get_weather"), {"run_id": "a" * 32, "metadata": {"span_id": "b" * 16}}
        >>> run = Run(**ids, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> span = evaluation_spans(report)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        >>> print(span["name"], span["links"][0]["spanId"])
        tool_correctness bbbbbbbbbbbbbbbb
    """
    moment = str(nanoseconds(at))
    spans: list[dict[str, Any]] = []
    for record in records_of(report, redactor):
        trace, span = record.span_ids
        spans.append(
            {
                "traceId": trace,
                "spanId": span,
                "name": record.span_name,
                "kind": 1,
                "startTimeUnixNano": moment,
                "endTimeUnixNano": moment,
                "attributes": _pairs(record.span_attributes()),
                "links": [{"traceId": record.trace, "spanId": record.span}],
                "status": {},
            }
        )
    return {"resourceSpans": [{**_RESOURCE, "scopeSpans": [{"scope": _SCOPE, "spans": spans}]}]}


def langsmith_feedback(report: Report, *, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
    """Return a report as LangSmith feedback, one entry a score, as its API and `create_feedback` accept it.

    Args:
        report: A report of cases that were read from traces of LangSmith.
        redactor: Redacts reasons.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.

    Example:
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.feedback import langsmith_feedback
        >>> weather = ToolCall(name="get_weather")
        >>> run = Run(run_id="trace-1", metadata={"span_id": "run-1"}, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> feedback = langsmith_feedback(report)[0]
        >>> print(feedback["run_id"], feedback["key"], feedback["score"])
        run-1 tool_correctness 1.0
    """
    return [
        {
            "id": _uuid(record),
            "run_id": record.span,
            "trace_id": record.trace,
            "key": record.result.metric,
            "score": record.plain["score"],
            "value": record.label,
            **_reason_as("comment", record),
            "feedback_source": {"type": "api", "metadata": record.metadata},
        }
        for record in records_of(report, redactor, hexadecimal=False)
    ]


def langfuse_scores(report: Report, *, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
    """Return a report as Langfuse scores, one entry a score, as its API and `create_score` accept it.

    Args:
        report: A report of cases that were read from traces of Langfuse.
        redactor: Redacts reasons.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.

    Example:
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.feedback import langfuse_scores
        >>> weather = ToolCall(name="get_weather")
        >>> run = Run(run_id="trace-1", metadata={"span_id": "span-1"}, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> score = langfuse_scores(report)[0]
        >>> print(score["traceId"], score["name"], score["value"])
        trace-1 tool_correctness 1.0
    """
    return [
        {
            "id": _uuid(record),
            "traceId": record.trace,
            "name": record.result.metric,
            "value": record.plain["score"],
            "dataType": "NUMERIC",
            **_reason_as("comment", record),
            "metadata": record.metadata,
        }
        for record in records_of(report, redactor, hexadecimal=False)
    ]


def phoenix_annotations(report: Report, *, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as Phoenix annotations, one a score: the body of its `POST /v1/span_annotations`.

    Phoenix replaces an annotation of the same span, metric and `identifier`, which is `toolgrade`.

    Args:
        report: A report of cases that were read from OpenTelemetry traces.
        redactor: Redacts reasons.

    Raises:
        InvalidDataError: A case names no trace, or one whose ids are not OpenTelemetry ids; `problems` has all.

    Example:
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.feedback import phoenix_annotations
        >>> weather, ids = ToolCall(name="get_weather"), {"run_id": "a" * 32, "metadata": {"span_id": "b" * 16}}
        >>> run = Run(**ids, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> annotation = phoenix_annotations(report)["data"][0]
        >>> print(annotation["span_id"], annotation["name"], annotation["result"]["score"])
        bbbbbbbbbbbbbbbb tool_correctness 1.0
    """
    return {
        "data": [
            {
                "span_id": record.span,
                "name": record.result.metric,
                "annotator_kind": record.annotator,
                "identifier": SCOPE,
                "result": {
                    "score": float(record.plain["score"]),
                    "label": record.label,
                    **_reason_as("explanation", record),
                },
                "metadata": record.metadata,
            }
            for record in records_of(report, redactor)
        ]
    }


_RESOURCE: dict[str, Any] = {
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "toolgrade"}}]}
}
_SCOPE: dict[str, Any] = {"name": SCOPE}


def _reason_as(key: str, record: Record) -> dict[str, str]:
    """Return the reason under the key that a backend uses for it, if there is one."""
    reason = record.plain.get("reason")
    return {key: reason} if reason else {}


def _uuid(record: Record) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, record.key))


def _pairs(attributes: Mapping[str, str | float]) -> list[dict[str, Any]]:
    """Return attributes in the JSON form of OTLP."""
    return [
        {"key": key, "value": {"stringValue" if isinstance(value, str) else "doubleValue": value}}
        for key, value in attributes.items()
    ]
