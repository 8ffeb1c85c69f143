"""Redacted copies of the data of reports, made at the entrance of every renderer: nothing after it handles a secret.

What is inside a finding or a difference is redacted with its path: any key on the way to a value may be a secret one.
The content of a case (arguments, outputs, messages) is redacted apart, since only the HTML page shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from toolgrade._internal.json import MARK, REDACTED
from toolgrade.cases import AnyCase, ConversationalTestCase, TestCase
from toolgrade.expect import Alternatives, Plan
from toolgrade.expect.json_form import expectation_json, read_value
from toolgrade.matching.alignment import Alignment, Pair
from toolgrade.matching.argument_pattern import is_pattern
from toolgrade.matching.json_compare import ABSENT, Difference, has_mark
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.comparison import CaseChange, CaseGap, CaseLoss, Comparison, MetricComparison
from toolgrade.report.report import CaseResult, MetricSummary, Report, case_names, one_case
from toolgrade.report.text.phrases import Entry
from toolgrade.result import Finding, MetricResult, QuestionResult, UnitResult, redacted_value
from toolgrade.verdict import Verdict, WrongEnd

Data = TypeVar("Data")

_NO_CONTENT = ConversationalTestCase(turns=[])

# Names of tools, positions, paths and numbers stay, so that a reader still sees what a finding is about.
_FIELDS: Mapping[type, tuple[str, ...]] = {
    Report: ("metrics", "cases", "about", "totals"),
    CaseResult: ("case", "results", "agent", "wrong_end"),
    WrongEnd: ("why",),
    MetricSummary: ("metric", "error"),
    MetricResult: ("metric", "reason", "error", "warnings", "findings", "alignment", "units", "judge"),
    Finding: ("message",),
    Alignment: ("pairs", "out_of_order"),
    Pair: ("differences", "respelled"),
    UnitResult: ("questions",),
    QuestionResult: ("rationale", "problem"),
    Comparison: ("metrics", "losses", "verdict_a", "verdict_b", "about_a", "about_b", "only_a", "notes"),
    CaseLoss: ("case", "reason"),
    Verdict: ("sentence",),
    MetricComparison: ("metric", "regressions", "improvements", "unscored", "missing"),
    CaseChange: ("case", "finding"),
    CaseGap: ("case",),
    Difference: (),
}
"""The redacted fields of each class."""
_TUPLES = (Finding, Pair, Difference, WrongEnd)
_VALUES: Mapping[type, tuple[str, str]] = {
    Finding: ("expected_value", "called_value"),
    Difference: ("expected", "called"),
}
"""The fields with values that stand at the path of their object."""


def redact(data: Data, redactor: Redactor = DEFAULT) -> Data:
    """Return a redacted copy of a text, of the data of a report, or of a tuple of them."""
    if not redactor.enabled:
        return data
    return cast("Data", _redacted(data, redactor))


def redact_entry(entry: Entry) -> Entry:
    """Return one result and its case, redacted with the default rules, without the other results of the case."""
    case, result = entry
    redacted = redact(replace(case, results=(result,)))
    return redacted, redacted.results[0]


def redact_content(case: object, redactor: Redactor) -> tuple[AnyCase, Any]:
    """Return a case with redacted content, and its expectation as redacted JSON with matchers in their own words.

    An object that is not a case has no content: it becomes an empty conversation.
    """
    compared = one_case(case)
    if compared is None:
        return redactor.model(case) if isinstance(case, ConversationalTestCase) else _NO_CONTENT, None
    expected: Any = compared.expected_tools
    if isinstance(expected, (Plan, Alternatives)):
        expected = _in_words(redactor(expectation_json(expected)))
    elif expected is not None:
        expected = redactor([call.to_dict() for call in expected])
    content = case if isinstance(case, ConversationalTestCase) else _without_repeated_calls(compared)
    return redactor.model(content), expected


def _in_words(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return the redacted JSON of a plan with each matcher in its own words."""
    if isinstance(value, dict) and MARK in value:
        matcher = read_value(value)
        if is_pattern(matcher):
            return matcher.describe()
        return REDACTED if has_mark(value) else value
    if isinstance(value, dict):
        return {key: _in_words(item) for key, item in value.items()}
    return list(map(_in_words, value)) if isinstance(value, list) else value


def _without_repeated_calls(case: TestCase) -> TestCase:
    """Return a case without what its run repeats, so that nothing is redacted twice.

    The page shows the calls of the case, and of the run's calls only the number of those beyond them and the names of
    the failed handoffs, which come first.
    """
    if case.run is None:
        return case
    calls, number = case.run.calls, len(case.tools_called or ())
    failed = [calls[place] for place in case.run.failed_handoffs if place < len(calls)]
    if number + len(failed) > len(calls):
        failed = []  # they are among the calls of the case
    others = [*failed, *calls[number + len(failed) :]]
    places = list(range(len(failed)))
    tools = case.run.available_tools if case.available_tools is None else case.available_tools
    unshown = {"available_tools": None, "instructions": None}
    run = case.run.model_copy(update={"calls": others, "failed_handoffs": places, **unshown})
    return case.model_copy(update={"run": run, "available_tools": tools})


def _redacted(value: Any, redactor: Redactor) -> Any:  # noqa: ANN401 - of any class in `_FIELDS`, or a part of one
    if type(value) in _FIELDS:
        return _redacted_fields(value, redactor)
    if isinstance(value, tuple):
        return tuple(_redacted(item, redactor) for item in value)
    if isinstance(value, Mapping):
        plain = cast("dict[str, Any]", redactor(dict(value)))
        return {str(redactor(name)): item for name, item in plain.items()}
    if isinstance(value, BaseModel):  # a case; what was evaluated may be no case at all, and then failed
        return value.model_copy(update={name: redactor(text) for name, text in case_names(value).items()})
    return redactor(value)


def _redacted_fields(value: Any, redactor: Redactor) -> Any:  # noqa: ANN401 - of any class in `_FIELDS`
    fields = {name: _redacted(getattr(value, name), redactor) for name in _FIELDS[type(value)]}
    if isinstance(value, MetricResult):
        fields["parts"] = {redactor(name): number for name, number in value.parts.items()}
        return replace(value, **fields)
    for name in _VALUES.get(type(value), ()):
        path = ".".join(map(str, value.path)) if isinstance(value, Difference) else value.path
        side = getattr(value, name)
        if side is not ABSENT:
            fields[name] = redacted_value(side, path, redactor)
    return value._replace(**fields) if isinstance(value, _TUPLES) else replace(value, **fields)
