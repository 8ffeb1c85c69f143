"""Records of results for tracing backends.

The files of `toolmark.report.feedback` and the telemetry of `toolmark.report.otel` are built from the same records, so
that they agree in names, values, ids and times.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from toolmark._internal.json import json_text
from toolmark.cases import ConversationalTestCase, Run
from toolmark.errors import InvalidDataError, Problem
from toolmark.redact import Redactor
from toolmark.report.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus

SCOPE: Final = "toolmark"
"""Name of the instrumentation scope."""

EVENT_NAME: Final = "gen_ai.evaluation.result"
"""Name of an evaluation event in OpenTelemetry's conventions."""

WARN: Final = (13, "WARN")
"""Severity number and text of a record about a result that could not be measured."""

# OpenTelemetry uses an id of zeros for "no id".
_TRACE_ID = re.compile(r"(?!0+\Z)[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0+\Z)[0-9a-f]{16}")


class Scored(NamedTuple):
    """A result, as redacted JSON values too, and the ids of the trace and span that it is about."""

    trace: str
    span: str
    result: MetricResult
    plain: Mapping[str, Any]

    @property
    def label(self) -> str:
        """`pass` or `fail`."""
        return "pass" if self.result.passed else "fail"

    @property
    def key(self) -> str:
        """Identity of the result: the span and the metric; a text that UTF-8 can hold."""
        return _text(f"{self.trace}/{self.span}/{self.result.metric}")


class EvaluationEvent(NamedTuple):
    """A result as an OpenTelemetry event about a span; `moment` is in nanoseconds since 1970.

    `warns` marks a result that could not be measured.
    """

    trace: str
    span: str
    moment: int
    warns: bool
    attributes: Mapping[str, str | float]


class EvaluationSpan(NamedTuple):
    """A score as an OpenInference span in a separate trace.

    Its ids are derived from the scored span and the metric; `target` names the scored trace and span. It begins
    and ends at `moment`, in nanoseconds since 1970.
    """

    trace: str
    span: str
    name: str
    moment: int
    target: tuple[str, str]
    attributes: Mapping[str, str | float]


def events_of(report: Report, at: datetime | None, redactor: Redactor) -> list[EvaluationEvent]:
    """Return a report as events; see `toolmark.report.feedback.evaluation_events` for arguments and errors."""
    moment = _nanoseconds(at)
    return [
        EvaluationEvent(
            scored.trace,
            scored.span,
            moment,
            scored.result.status is ResultStatus.FAILED,
            _storable(_event_attributes(scored)),
        )
        for scored in results_of(report, redactor, hexadecimal=True)
    ]


def _event_attributes(scored: Scored) -> dict[str, str | float]:
    failed = scored.result.status is ResultStatus.FAILED
    attributes: dict[str, str | float] = {"gen_ai.evaluation.name": scored.result.metric}
    if failed:
        attributes["error.type"] = str(scored.plain.get("error", "")).partition(":")[0] or "_OTHER"
    else:
        attributes["gen_ai.evaluation.score.value"] = float(scored.plain["score"])
        attributes["gen_ai.evaluation.score.label"] = scored.label
    explanation = scored.plain.get("error" if failed else "reason")
    return {**attributes, "gen_ai.evaluation.explanation": explanation} if explanation else attributes


def spans_of(report: Report, at: datetime | None, redactor: Redactor) -> list[EvaluationSpan]:
    """Return the scores of a report as spans; arguments and errors as in `events_of`."""
    moment = _nanoseconds(at)
    spans: list[EvaluationSpan] = []
    for scored in scores_of(report, redactor, hexadecimal=True):
        start = "evaluations.0.evaluation"
        digest = hashlib.sha256(scored.key.encode()).hexdigest()
        attributes: dict[str, str | float] = {
            "openinference.span.kind": "EVALUATOR",
            f"{start}.name": scored.result.metric,
            f"{start}.score": float(scored.plain["score"]),
            f"{start}.label": scored.label,
            **({f"{start}.explanation": scored.plain["reason"]} if scored.plain.get("reason") else {}),
            f"{start}.annotator_kind": annotator(scored),
            f"{start}.identifier": SCOPE,
            f"{start}.metadata": json_text(details(scored)),
        }
        target = (scored.trace, scored.span)
        name = _text(scored.result.metric)
        spans.append(EvaluationSpan(digest[:32], digest[32:48], name, moment, target, _storable(attributes)))
    return spans


def results_of(report: Report, redactor: Redactor, *, hexadecimal: bool = False) -> Iterator[Scored]:
    """Yield every result that was not skipped.

    With `hexadecimal`, ids must be those of OpenTelemetry.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.
    """
    targets = {case.index: _target(case) for case in report.cases}
    problems = [
        Problem(f"$.cases[{case.index}]", f"case {case.label!r} {doubt}")
        for case in report.cases
        if (doubt := _doubt(*targets[case.index], hexadecimal=hexadecimal))
    ]
    if problems:
        raise InvalidDataError("\n".join(map(str, problems)), problems)
    for case, result in report.results():
        if result.status is not ResultStatus.SKIPPED:
            yield Scored(*targets[case.index], result, result.to_dict(redactor))


def scores_of(report: Report, redactor: Redactor, *, hexadecimal: bool = False) -> Iterator[Scored]:
    """Yield the results that have a score; arguments and errors as in `results_of`."""
    for scored in results_of(report, redactor, hexadecimal=hexadecimal):
        if scored.result.status is ResultStatus.SCORED:
            yield scored


def details(scored: Scored) -> dict[str, Any]:
    """Return the metadata of a score: threshold, parts, judge, warnings."""
    metadata = {key: scored.plain[key] for key in ("threshold", "parts", "judge", "warnings") if scored.plain.get(key)}
    return {**metadata, "passed": scored.result.passed}


def annotator(scored: Scored) -> str:
    """Return the kind of annotator in OpenInference's terms."""
    return "LLM" if scored.result.judge else "CODE"


def _target(case: CaseResult) -> tuple[str, str]:
    """Return the trace and the outermost span that a case was read from; empty texts if they are not recorded.

    A conversation may be of several traces; its results are about the last one.
    """
    targets = [(trace, span) for trace, span in _ids(case.case) if isinstance(trace, str) and isinstance(span, str)]
    return targets[-1] if targets else ("", "")


def _ids(case: object) -> list[tuple[object, object]]:
    """Return the ids of the traces and spans of a case, as they are recorded."""
    if isinstance(case, ConversationalTestCase):
        return [(turn.metadata.get("run_id"), turn.metadata.get("span_id")) for turn in case.turns]
    run = getattr(case, "run", None)
    return [(run.run_id, run.metadata.get("span_id"))] if isinstance(run, Run) else []


def _doubt(trace: str, span: str, *, hexadecimal: bool) -> str:
    """Return why a result cannot be linked to a span; empty if it can."""
    if not trace:
        return "names no trace; only cases that were read from traces can be linked"
    if hexadecimal and not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
        return f"is of trace {trace!r}, whose ids are not OpenTelemetry ids"
    return ""


def _storable(attributes: Mapping[str, str | float]) -> dict[str, str | float]:
    return {name: _text(value) if isinstance(value, str) else value for name, value in attributes.items()}


def _text(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot hold: one would fail all records sent with it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _nanoseconds(at: datetime | None) -> int:
    moment = datetime.now(timezone.utc) if at is None else at.astimezone(timezone.utc)
    return int(moment.timestamp() * 1_000_000) * 1000
