"""Reports as JSON for the backends that the traces came from; nothing is sent.

Each function returns one form: OpenTelemetry events, OpenInference spans, LangSmith feedback, Langfuse scores, Phoenix
annotations. A result is about the outermost span of the trace that its case was read from (`read_traces`), that of a
conversation about its last trace. Ids are
derived from that span and the metric, so that sending the same report again replaces it. `toolmark.report.otel` sends
the first two forms itself.
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
    scores_of,
    spans_of,
)
from toolmark.report.report import Report

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
    """Return a report as OpenInference spans of kind `EVALUATOR`, each with one link to the span it is about.

    Only scores become spans. Arguments and errors as in `evaluation_events`.
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
    """Return a report as LangSmith feedback, one entry a score, as its API and `create_feedback` accept it.

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
            **_reason_as("comment", scored),
            "feedback_source": {"type": "api", "metadata": details(scored)},
        }
        for scored in scores_of(report, redactor)
    ]


def langfuse_scores(report: Report, *, redactor: Redactor = DEFAULT) -> list[dict[str, Any]]:
    """Return a report as Langfuse scores, one entry a score, as its API and `create_score` accept it.

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
            **_reason_as("comment", scored),
            "metadata": details(scored),
        }
        for scored in scores_of(report, redactor)
    ]


def phoenix_annotations(report: Report, *, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as Phoenix annotations, one a score: the body of its `POST /v1/span_annotations`.

    Phoenix replaces an annotation of the same span, metric and `identifier`, which is `toolmark`. Arguments and errors
    as in `evaluation_events`.
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
                    **_reason_as("explanation", scored),
                },
                "metadata": details(scored),
            }
            for scored in scores_of(report, redactor, hexadecimal=True)
        ]
    }


_RESOURCE: dict[str, Any] = {
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "toolmark"}}]}
}
_SCOPE: dict[str, Any] = {"name": SCOPE}


def _reason_as(key: str, scored: Scored) -> dict[str, str]:
    """Return the reason under the key that a backend uses for it, if there is one."""
    reason = scored.plain.get("reason")
    return {key: reason} if reason else {}


def _uuid(scored: Scored) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, scored.key))


def _pairs(attributes: Mapping[str, str | float]) -> list[dict[str, Any]]:
    """Return attributes in the JSON form of OTLP."""
    return [
        {"key": key, "value": {"stringValue" if isinstance(value, str) else "doubleValue": value}}
        for key, value in attributes.items()
    ]
