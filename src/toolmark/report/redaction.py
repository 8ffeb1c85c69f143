"""Redacted copies of reports, made once at the entrance of every renderer, so that nothing after it handles a secret.

What is inside a finding or a difference is redacted with its path: any key on the way to a value may be a secret one.
The content of a case (arguments, outputs, messages) is redacted apart, since only the HTML page shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from toolmark.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase
from toolmark.expect import Alternatives, Plan
from toolmark.expect.json_form import expectation_json
from toolmark.matching.alignment import Alignment, Pair
from toolmark.matching.argument_pattern import json_of
from toolmark.matching.json_compare import ABSENT
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.comparison import CaseChange, Comparison
from toolmark.report.report import CaseResult, Report
from toolmark.report.text.ordering import Entry
from toolmark.result import Finding, MetricResult, UnitResult, redact_at_path


def redact_report(report: Report, redactor: Redactor) -> Report:
    """Return a report with redacted results, names and facts about the evaluation."""
    if not redactor.enabled:
        return report
    about: Any = redactor(dict(report.about))
    return replace(
        report,
        metrics=tuple(redact_text(name, redactor) for name in report.metrics),
        cases=tuple(redact_case(case, redactor) for case in report.cases),
        about=about,
    )


def redact_case(entry: CaseResult, redactor: Redactor = DEFAULT) -> CaseResult:
    """Return the results of one case, redacted, under its redacted id and name."""
    case = entry.case
    if isinstance(case, BaseModel):  # what was evaluated may be no case at all, and then failed
        names = {name: getattr(case, name, None) for name in ("id", "name")}
        case = case.model_copy(
            update={name: redact_text(text, redactor) for name, text in names.items() if isinstance(text, str)}
        )
    return replace(entry, case=case, results=tuple(redact_result(result, redactor) for result in entry.results))


def redact_entry(entry: Entry, redactor: Redactor = DEFAULT) -> Entry:
    """Return one result and its case, redacted, without the other results of the case."""
    case, result = entry
    return redact_case(replace(case, results=()), redactor), redact_result(result, redactor)


def redact_result(result: MetricResult, redactor: Redactor = DEFAULT) -> MetricResult:
    """Return a result whose texts, findings, differences and verdicts are redacted."""
    if not redactor.enabled:
        return result
    judge: Any = None if result.judge is None else redactor(dict(result.judge))
    return replace(
        result,
        metric=redact_text(result.metric, redactor),
        reason=_optional(result.reason, redactor),
        error=_optional(result.error, redactor),
        warnings=tuple(redact_text(text, redactor) for text in result.warnings),
        parts={redact_text(name, redactor): value for name, value in result.parts.items()},
        findings=tuple(_finding(finding, redactor) for finding in result.findings),
        alignment=None if result.alignment is None else _alignment(result.alignment, redactor),
        units=tuple(_unit(unit, redactor) for unit in result.units),
        judge=judge,
    )


def redact_content(case: object, redactor: Redactor) -> tuple[AnyCase, Any] | None:
    """Return a case with redacted content, and its expectation as redacted JSON; `None` if the object is not a case."""
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)):
        return None
    if isinstance(case, ConversationalTestCase):
        return redactor.model(case), None
    expected: Any = case.expected_tools
    if isinstance(expected, (Plan, Alternatives)):
        expected = expectation_json(expected)
    elif expected is not None:
        expected = [call.to_dict() for call in expected]
    if case.run is not None:
        # The page shows the calls of the case, and of the run's calls only the number of those beyond them. What the
        # run repeats is dropped, so that nothing is redacted twice.
        others = case.run.calls[len(case.tools_called or ()) :]
        tools = case.run.available_tools if case.available_tools is None else case.available_tools
        run = case.run.model_copy(update={"calls": others, "available_tools": None})
        case = case.model_copy(update={"run": run, "available_tools": tools})
    return redactor.model(case), redactor(expected)


def redact_comparison(comparison: Comparison, redactor: Redactor) -> Comparison:
    """Return a comparison whose names, findings and notes are redacted."""
    if not redactor.enabled:
        return comparison

    def changes(entries: tuple[CaseChange, ...]) -> tuple[CaseChange, ...]:
        return tuple(
            replace(entry, case=redact_text(entry.case, redactor), finding=_optional(entry.finding, redactor))
            for entry in entries
        )

    metrics = tuple(
        replace(
            metric,
            metric=redact_text(metric.metric, redactor),
            regressions=changes(metric.regressions),
            improvements=changes(metric.improvements),
            unscored=tuple(replace(gap, case=redact_text(gap.case, redactor)) for gap in metric.unscored),
            missing=tuple(redact_text(name, redactor) for name in metric.missing),
        )
        for metric in comparison.metrics
    )
    only_a, notes = (
        tuple(redact_text(text, redactor) for text in texts) for texts in (comparison.only_a, comparison.notes)
    )
    return replace(comparison, metrics=metrics, only_a=only_a, notes=notes)


def redact_text(text: str, redactor: Redactor = DEFAULT) -> str:
    """Return a redacted text."""
    return str(redactor(text))


def _optional(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redact_text(text, redactor)


def _value(value: Any, path: str | None, redactor: Redactor) -> Any:  # noqa: ANN401 - a JSON value, a matcher or ABSENT
    if value is ABSENT:
        return value
    plain = json_of(value)
    return _redacted_parts(value, plain, redact_at_path(plain, path, redactor))


def _redacted_parts(value: Any, plain: Any, safe: Any) -> Any:  # noqa: ANN401 - as above
    """Return a value with its redacted parts in place of the original ones.

    Matchers inside it stay matchers unless they hold a secret themselves, so that they keep their own wording.
    """
    if safe == plain:
        return value
    if type(value) is dict and type(safe) is dict:
        return {key: _redacted_parts(item, plain[key], safe[key]) for key, item in value.items()}
    if type(value) is list and type(safe) is list:
        return [_redacted_parts(*parts) for parts in zip(value, plain, safe, strict=True)]
    return safe


def _finding(finding: Finding, redactor: Redactor) -> Finding:
    return replace(
        finding,
        message=redact_text(finding.message, redactor),
        expected_value=_value(finding.expected_value, finding.path, redactor),
        called_value=_value(finding.called_value, finding.path, redactor),
    )


def _alignment(alignment: Alignment, redactor: Redactor) -> Alignment:
    pairs, out_of_order = (
        tuple(_pair(pair, redactor) for pair in pairs) for pairs in (alignment.pairs, alignment.out_of_order)
    )
    return replace(alignment, pairs=pairs, out_of_order=out_of_order)


def _pair(pair: Pair, redactor: Redactor) -> Pair:
    differences = tuple(
        replace(
            one,
            expected=_value(one.expected, ".".join(map(str, one.path)), redactor),
            called=_value(one.called, ".".join(map(str, one.path)), redactor),
        )
        for one in pair.differences
    )
    return replace(pair, differences=differences) if differences else pair


def _unit(unit: UnitResult, redactor: Redactor) -> UnitResult:
    questions = tuple(
        replace(one, rationale=_optional(one.rationale, redactor), problem=_optional(one.problem, redactor))
        for one in unit.questions
    )
    return replace(unit, questions=questions)
