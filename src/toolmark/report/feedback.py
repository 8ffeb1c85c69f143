"""How do scores get back to where the traces came from? Reports as JSON that other tools take in; nothing is sent.

Each function writes one form: events of OpenTelemetry, spans of OpenInference, feedback of LangSmith, scores of
Langfuse, annotations of Phoenix. What a result is about is the outermost span of the trace that its case was read from
(`read_traces`). Ids are made of what is scored and by which metric, so that sending the same report again replaces it.
`toolmark.report.otel` sends the first two forms itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from toolmark.redact import DEFAULT, Redactor
from toolmark.report.export.evaluation_records import (
    EVENT_NAME,
    SCOPE,
    WARN,
    Scored,
    annotator,
    details,
    events_of,
    results_of,
    spans_of,
)
from toolmark.report.report import Report
from toolmark.result import ResultStatus


def evaluation_events(report: Report, *, at: datetime | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as `gen_ai.evaluation.result` events: log records of OTLP as JSON.

    A score has its value, `pass` or `fail` as label, and its reason as explanation. What could not be measured has
    `error.type` and no score; what was skipped is no event.

    Args:
        report: Its cases were read from traces of OpenTelemetry.
        at: When the events happened; now, by default.
        redactor: Takes secrets out of reasons and errors.

    Raises:
        InvalidDataError: A case names no trace, or one whose ids are none of OpenTelemetry; `problems` has all.
    """
    number, text = WARN
    records = [
        {
            "timeUnixNano": str(event.moment),
            "observedTimeUnixNano": str(event.moment),
            "eventName": EVENT_NAME,
            **({"severityNumber": number, "severityText": text} if event.warns else {}),
            "attributes": _pairs(event.attributes),
            "traceId": event.trace,
            "spanId": event.span,
        }
        for event in events_of(report, at, redactor)
    ]
    return {"resourceLogs": [{**_RESOURCE, "scopeLogs": [{"scope": _SCOPE, "logRecords": records}]}]}


def evaluation_spans(report: Report, *, at: datetime | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as spans of OpenInference: of kind `EVALUATOR`, each with one link to the span it is about.

    Only scores are spans. Arguments and errors are those of `evaluation_events`.
    """
    spans = [
        {
            "traceId": span.trace,
            "spanId": span.span,
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": str(span.moment),
            "endTimeUnixNano": str(span.moment),
            "attributes": _pairs(span.attributes),
            "links": [{"traceId": span.target[0], "spanId": span.target[1]}],
            "status": {},
        }
        for span in spans_of(report, at, redactor)
    ]
    return {"resourceSpans": [{**_RESOURCE, "scopeSpans": [{"scope": _SCOPE, "spans": spans}]}]}


def langsmith_feedback(report: Report, *, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
    """Return a report as feedback of LangSmith, one entry a score, as its API and `create_feedback` take it.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.
    """
    return [
        {
            "id": _uuid(scored),
            "run_id": scored.span,
            "trace_id": scored.trace,
            "key": scored.result.metric,
            "score": scored.plain["score"],
            "value": scored.label,
            **({"comment": scored.plain["reason"]} if scored.plain.get("reason") else {}),
            "feedback_source": {"type": "api", "metadata": details(scored)},
        }
        for scored in results_of(report, redactor)
        if scored.result.status is ResultStatus.SCORED
    ]


def langfuse_scores(report: Report, *, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
    """Return a report as scores of Langfuse, one entry a score, as its API and `create_score` take it.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.
    """
    return [
        {
            "id": _uuid(scored),
            "traceId": scored.trace,
            "name": scored.result.metric,
            "value": scored.plain["score"],
            "dataType": "NUMERIC",
            **({"comment": scored.plain["reason"]} if scored.plain.get("reason") else {}),
            "metadata": details(scored),
        }
        for scored in results_of(report, redactor)
        if scored.result.status is ResultStatus.SCORED
    ]


def phoenix_annotations(report: Report, *, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as annotations of Phoenix, one a score: the body that its `POST /v1/span_annotations` takes.

    Phoenix replaces an annotation of the same span, metric and `identifier`, which is `toolmark`. Arguments and errors
    are those of `evaluation_events`.
    """
    return {
        "data": [
            {
                "span_id": scored.span,
                "name": scored.result.metric,
                "annotator_kind": annotator(scored),
                "identifier": SCOPE,
                "result": {
                    "score": float(scored.plain["score"]),
                    "label": scored.label,
                    **({"explanation": scored.plain["reason"]} if scored.plain.get("reason") else {}),
                },
                "metadata": details(scored),
            }
            for scored in results_of(report, redactor, hexadecimal=True)
            if scored.result.status is ResultStatus.SCORED
        ]
    }


_RESOURCE: dict[str, Any] = {
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "toolmark"}}]}
}
_SCOPE: dict[str, Any] = {"name": SCOPE}


def _uuid(scored: Scored) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, scored.key))


def _pairs(attributes: Mapping[str, str | float]) -> list[dict[str, Any]]:
    """Return attributes as OTLP writes them."""
    return [
        {"key": key, "value": {"stringValue" if isinstance(value, str) else "doubleValue": value}}
        for key, value in attributes.items()
    ]
