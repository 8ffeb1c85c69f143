"""Records of results for tracing backends.

The files of `toolgrade.report.feedback` and the telemetry of `toolgrade.report.otel` are built from the same records,
so that they agree in names, values, ids and times.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from toolgrade._internal.json import json_text
from toolgrade.cases import ConversationalTestCase, Run
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.redact import Redactor
from toolgrade.report.report import CaseResult, Report
from toolgrade.result import MetricResult, ResultStatus

SCOPE: Final = "toolgrade"
"""Name of the instrumentation scope."""

EVENT_NAME: Final = "gen_ai.evaluation.result"
"""Name of an evaluation event in OpenTelemetry's conventions."""

WARN: Final = (13, "WARN")
"""Severity number and text of a record about a result that could not be measured."""

# OpenTelemetry uses an id of zeros for "no id".
_TRACE_ID = re.compile(r"(?!0+\Z)[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0+\Z)[0-9a-f]{16}")


class Record(NamedTuple):
    """A result, as redacted JSON values too, and the ids of the trace and span that it is about."""

    trace: str
    span: str
    result: MetricResult
    plain: Mapping[str, Any]

    @property
    def is_scored(self) -> bool:
        """Whether there is a score; otherwise the case could not be measured."""
        return self.result.status is ResultStatus.SCORED

    @property
    def label(self) -> str:
        """`pass` or `fail`."""
        return "pass" if self.result.passed else "fail"

    @property
    def annotator(self) -> str:
        """The kind of annotator in OpenInference's terms."""
        return "LLM" if self.result.judge else "CODE"

    @property
    def metadata(self) -> dict[str, Any]:
        """Threshold, parts, judge and warnings of a score, and whether it passed."""
        keys = [key for key in ("threshold", "parts", "judge", "warnings") if self.plain.get(key)]
        return {**{key: self.plain[key] for key in keys}, "passed": self.result.passed}

    @property
    def key(self) -> str:
        """Identity of the result: the span and the metric; a text that UTF-8 can hold."""
        return _storable(f"{self.trace}/{self.span}/{self.result.metric}")

    @property
    def span_name(self) -> str:
        """Name of the evaluation span."""
        return _storable(self.result.metric)

    @property
    def span_ids(self) -> tuple[str, str]:
        """Ids of the evaluation span and of its trace: derived from the scored span and the metric."""
        digest = hashlib.sha256(self.key.encode()).hexdigest()
        return digest[:32], digest[32:48]

    def event_attributes(self) -> dict[str, str | float]:
        """Return the attributes of the OpenTelemetry event."""
        attributes: dict[str, str | float] = {"gen_ai.evaluation.name": self.result.metric}
        if self.is_scored:
            attributes["gen_ai.evaluation.score.value"] = float(self.plain["score"])
            attributes["gen_ai.evaluation.score.label"] = self.label
        else:
            attributes["error.type"] = str(self.plain.get("error", "")).partition(":")[0] or "_OTHER"
        explanation = self.plain.get("reason" if self.is_scored else "error")
        if explanation:
            attributes["gen_ai.evaluation.explanation"] = explanation
        return _storable_values(attributes)

    def span_attributes(self) -> dict[str, str | float]:
        """Return the attributes of the OpenInference span of a score."""
        start = "evaluations.0.evaluation"
        attributes: dict[str, str | float] = {
            "openinference.span.kind": "EVALUATOR",
            f"{start}.name": self.result.metric,
            f"{start}.score": float(self.plain["score"]),
            f"{start}.label": self.label,
        }
        if self.plain.get("reason"):
            attributes[f"{start}.explanation"] = self.plain["reason"]
        attributes[f"{start}.annotator_kind"] = self.annotator
        attributes[f"{start}.identifier"] = SCOPE
        attributes[f"{start}.metadata"] = json_text(self.metadata)
        return _storable_values(attributes)


def records_of(
    report: Report, redactor: Redactor, *, scores_only: bool = True, hexadecimal: bool = True
) -> list[Record]:
    """Return every result that was not skipped; with `scores_only`, every result that has a score.

    With `hexadecimal`, ids must be those of OpenTelemetry.

    Raises:
        InvalidDataError: A case names no trace; `problems` has all of them.
    """
    targets: dict[int, tuple[str, str]] = {}
    problems: list[Problem] = []
    for case in report.cases:
        trace, span = targets[case.index] = _target(case)
        if not trace:
            doubt = "names no trace; only cases that were read from traces can be linked"
        elif hexadecimal and not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
            doubt = f"is of trace {trace!r}, whose ids are not OpenTelemetry ids"
        else:
            continue
        problems.append(Problem(f"$.cases[{case.index}]", f"case {case.label!r} {doubt}"))
    if problems:
        raise InvalidDataError("\n".join(map(str, problems)), problems)
    left_out = {ResultStatus.SKIPPED, ResultStatus.FAILED} if scores_only else {ResultStatus.SKIPPED}
    return [
        Record(*targets[case.index], result, result.to_dict(redactor))
        for case, result in report.results()
        if result.status not in left_out
    ]


def _target(case: CaseResult) -> tuple[str, str]:
    """Return the trace and the outermost span that a case was read from; empty texts if they are not recorded.

    A conversation may be of several traces; its results are about the last one.
    """
    ids: list[tuple[object, object]] = []
    run = getattr(case.case, "run", None)
    if isinstance(case.case, ConversationalTestCase):
        ids = [(turn.metadata.get("run_id"), turn.metadata.get("span_id")) for turn in case.case.turns]
    elif isinstance(run, Run):
        ids = [(run.run_id, run.metadata.get("span_id"))]
    for trace, span in reversed(ids):
        if isinstance(trace, str) and isinstance(span, str):
            return trace, span
    return "", ""


def _storable(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot hold: one would fail all records sent with it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _storable_values(attributes: Mapping[str, str | float]) -> dict[str, str | float]:
    return {name: _storable(value) if isinstance(value, str) else value for name, value in attributes.items()}


def nanoseconds(at: datetime | None) -> int:
    """Return a time, now by default, in nanoseconds since 1970."""
    moment = datetime.now(timezone.utc) if at is None else at.astimezone(timezone.utc)
    return int(moment.timestamp() * 1_000_000) * 1000
