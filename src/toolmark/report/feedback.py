"""How do scores get back to where the traces came from? Reports as JSON that other tools take in; nothing is sent.

Each function writes one form: events of OpenTelemetry, spans of OpenInference, feedback of LangSmith, scores of
Langfuse. What a result is about is the outermost span of the trace that its case was read from (`read_traces`). Ids
are made of what is scored and by which metric, so that sending the same report again replaces it.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from toolmark._json import json_text
from toolmark.errors import InvalidDataError, Problem
from toolmark.redact import DEFAULT, Redactor
from toolmark.report._report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus

_WARN = 13
"""Severity number of a log record that warns."""

_TRACE_ID = re.compile(r"^[0-9a-f]{32}$")
_SPAN_ID = re.compile(r"^[0-9a-f]{16}$")


class _Scored(NamedTuple):
    """A result, without secrets, and the span that it is about."""

    trace: str
    span: str
    result: MetricResult
    plain: Mapping[str, Any]

    @property
    def label(self) -> str:
        return "pass" if self.result.passed else "fail"

    @property
    def key(self) -> str:
        return f"{self.trace}/{self.span}/{self.result.metric}"


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
    moment = _nanoseconds(at)
    records: list[dict[str, Any]] = []
    for scored in _results(report, redactor, hexadecimal=True):
        failed = scored.result.status is ResultStatus.FAILED
        attributes: dict[str, Any] = {"gen_ai.evaluation.name": scored.result.metric}
        if failed:
            attributes["error.type"] = str(scored.plain.get("error", "")).partition(":")[0] or "_OTHER"
        else:
            attributes["gen_ai.evaluation.score.value"] = scored.plain["score"]
            attributes["gen_ai.evaluation.score.label"] = scored.label
        explanation = scored.plain.get("error" if failed else "reason")
        if explanation:
            attributes["gen_ai.evaluation.explanation"] = explanation
        records.append(
            {
                "timeUnixNano": moment,
                "observedTimeUnixNano": moment,
                "eventName": "gen_ai.evaluation.result",
                **({"severityNumber": _WARN, "severityText": "WARN"} if failed else {}),
                "attributes": _pairs(attributes),
                "traceId": scored.trace,
                "spanId": scored.span,
            }
        )
    return {"resourceLogs": [{**_RESOURCE, "scopeLogs": [{"scope": _SCOPE, "logRecords": records}]}]}


def evaluation_spans(report: Report, *, at: datetime | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """Return a report as spans of OpenInference: of kind `EVALUATOR`, each with one link to the span it is about.

    Only scores are spans. Arguments and errors are those of `evaluation_events`.
    """
    moment = _nanoseconds(at)
    spans: list[dict[str, Any]] = []
    for scored in _results(report, redactor, hexadecimal=True):
        if scored.result.status is not ResultStatus.SCORED:
            continue
        start = "evaluations.0.evaluation"
        digest = hashlib.sha256(scored.key.encode()).hexdigest()
        attributes: dict[str, Any] = {
            "openinference.span.kind": "EVALUATOR",
            f"{start}.name": scored.result.metric,
            f"{start}.score": scored.plain["score"],
            f"{start}.label": scored.label,
            **({f"{start}.explanation": scored.plain["reason"]} if scored.plain.get("reason") else {}),
            f"{start}.annotator_kind": "LLM" if scored.result.judge else "CODE",
            f"{start}.identifier": "toolmark",
            f"{start}.metadata": json_text(_details(scored)),
        }
        spans.append(
            {
                "traceId": digest[:32],
                "spanId": digest[32:48],
                "name": scored.result.metric,
                "kind": 1,
                "startTimeUnixNano": moment,
                "endTimeUnixNano": moment,
                "attributes": _pairs(attributes),
                "links": [{"traceId": scored.trace, "spanId": scored.span}],
                "status": {},
            }
        )
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
            "feedback_source": {"type": "api", "metadata": _details(scored)},
        }
        for scored in _results(report, redactor)
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
            "metadata": _details(scored),
        }
        for scored in _results(report, redactor)
        if scored.result.status is ResultStatus.SCORED
    ]


_RESOURCE: dict[str, Any] = {
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "toolmark"}}]}
}
_SCOPE: dict[str, Any] = {"name": "toolmark"}


def _results(report: Report, redactor: Redactor, *, hexadecimal: bool = False) -> Iterator[_Scored]:
    """Yield every result that was not skipped; a case that names no trace is a problem, told with all others."""
    targets = {case.index: _target(case) for case in report.cases}
    problems = [
        problem for case in report.cases if (problem := _doubt(case, targets[case.index], hexadecimal=hexadecimal))
    ]
    if problems:
        raise InvalidDataError("\n".join(map(str, problems)), problems)
    for case, result in report.results():
        target = targets[case.index]
        if target is not None and result.status is not ResultStatus.SKIPPED:
            yield _Scored(*target, result, result.to_dict(redactor))


def _target(case: CaseResult) -> tuple[str, str] | None:
    """Return the trace and the outermost span that a case was read from, if it says them."""
    run = getattr(case.case, "run", None)
    span = None if run is None else run.metadata.get("span_id")
    return None if run is None or run.run_id is None or not isinstance(span, str) else (run.run_id, span)


def _doubt(case: CaseResult, target: tuple[str, str] | None, *, hexadecimal: bool) -> Problem | None:
    place = f"$.cases[{case.index}]"
    if target is None:
        return Problem(
            place, f"case {case.label!r} names no trace; only cases that were read from traces can be linked"
        )
    if hexadecimal and not (_TRACE_ID.match(target[0]) and _SPAN_ID.match(target[1])):
        return Problem(place, f"case {case.label!r} is of trace {target[0]!r}, whose ids are none of OpenTelemetry")
    return None


def _details(scored: _Scored) -> dict[str, Any]:
    """Return what stands beside a score: from where on it passes, its parts, who judged."""
    known = {key: scored.plain[key] for key in ("threshold", "parts", "judge", "warnings") if scored.plain.get(key)}
    return {**known, "passed": scored.result.passed}


def _uuid(scored: _Scored) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, scored.key))


def _pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP writes them."""
    kinds = {str: "stringValue", float: "doubleValue", int: "doubleValue"}
    return [{"key": key, "value": {kinds[type(value)]: value}} for key, value in attributes.items()]


def _nanoseconds(at: datetime | None) -> str:
    moment = datetime.now(timezone.utc) if at is None else at.astimezone(timezone.utc)
    return str(int(moment.timestamp() * 1_000_000) * 1000)
