"""Readers of reports: from a file of results, or from the JSON of a report."""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any

from pydantic import Field, JsonValue

from toolgrade._internal.compression import unreadable_kind
from toolgrade._internal.json import parse_json, short_repr, within_limits
from toolgrade._internal.model import drop_none
from toolgrade.calls import ToolCall
from toolgrade.cases import LLMTestCase, Run
from toolgrade.dataset import Source, file_error, placed_text, problems_of, read_bytes, source_name, torn_text
from toolgrade.errors import BadLineWarning, DataFileError, InvalidDataError, Problem
from toolgrade.evaluation.builder import recorded_report
from toolgrade.evaluation.result_json import Position, Written, WrittenGate, WrittenResult, missing_results
from toolgrade.evaluation.results_file import Header, Scan, WrittenMetric, is_header, read_rows, scan
from toolgrade.evaluation.rows import NO_AGENTS, CaseKey, Row, report_table
from toolgrade.report import CaseResult, Report
from toolgrade.report.report import RunAgreement
from toolgrade.result import MetricResult, ResultStatus, errored_result
from toolgrade.verdict import WrongEnd

_MAX_NAMED = 10
"""Lines that cannot be read and are named in warnings."""

_MOST_LOST = 1000
"""Lines that a small file may have lost; a large one may have lost half."""


class WrittenTools(Written):
    """Names of the tools of a case: those that were called, and unless it has a plan, those that were expected."""

    called: list[str] = Field(default_factory=list[str])
    expected: list[str] | None = None

    def calls(self) -> dict[str, list[ToolCall] | None]:
        """Return the fields of a case with these names."""
        expected = None if self.expected is None else [ToolCall(name=name) for name in self.expected]
        return {"tools_called": [ToolCall(name=name) for name in self.called], "expected_tools": expected}


class WrittenCase(Written):
    """The results of one case. `apart` names the metrics that measure other cases and have no result here."""

    index: int
    id: str | None = None
    name: str | None = None
    key: str | None = None
    run_id: str | None = None
    agent: str | None = None
    trial: Annotated[int, Field(ge=1)] | None = None
    golden: Position | None = None
    tools: WrittenTools | None = None
    apart: list[str] = Field(default_factory=list[str])
    wrong_end: WrongEnd | None = None
    agreement: RunAgreement | None = None
    results: list[WrittenResult]

    def to_case_result(self, metrics: list[WrittenMetric]) -> CaseResult:
        """Convert to a `CaseResult`, with the results in the order of the metrics."""
        by_name = {metric.metric: _result_apart(metric) for metric in metrics}
        by_name |= {result.metric: result.to_result() for result in self.results}
        # The JSON of a report does not have the content of cases, but for the names of tools.
        fields: dict[str, Any] = {"id": self.id, "name": self.name}
        if self.tools is not None:
            fields |= self.tools.calls()
        if self.run_id is not None:
            fields["run"] = Run(run_id=self.run_id)
        return CaseResult(
            index=self.index,
            case=LLMTestCase(**drop_none(fields)),
            results=tuple(by_name[metric.metric] for metric in metrics),
            apart=frozenset(place for place, metric in enumerate(metrics) if metric.metric in self.apart),
            trial=self.trial,
            golden=self.golden,
            key=self.key,
            agent=self.agent,
            wrong_end=self.wrong_end,
            agreement=self.agreement,
        )


def _result_apart(metric: WrittenMetric) -> MetricResult:
    """Return the skipped result of a metric that measures other cases."""
    reason = "Skipped: this metric is about other cases."
    return MetricResult(metric=metric.metric, status=ResultStatus.SKIPPED, threshold=metric.threshold, reason=reason)


class WrittenReport(Written):
    """The JSON form of a report, as `Report.to_dict` returns it."""

    metrics: list[WrittenMetric]
    cases: list[WrittenCase]
    trials: Annotated[int, Field(ge=1)] | None = None
    interrupted: bool = False
    gate: WrittenGate = Field(default_factory=WrittenGate)
    about: dict[str, JsonValue] = Field(default_factory=dict[str, Any])

    def to_report(self) -> Report:
        """Convert to a `Report`."""
        return Report(
            metrics=tuple(metric.metric for metric in self.metrics),
            cases=tuple(case.to_case_result(self.metrics) for case in self.cases),
            trials=self.trials,
            interrupted=self.interrupted,
            about=self.about,
            gate=self.gate.to_gate(),
        )


def read_results(source: Source) -> Report:
    """Read a report that `evaluate(results=...)`, `toolgrade score` or `Report.to_json` wrote.

    A file of results (JSON Lines) has the cases with their content, without secrets; `interrupted` is true if the
    evaluation was not completed. A line that cannot be read is named in a `BadLineWarning`; its case is not measured.
    The JSON of a report has no content: its cases have ids, names and the names of tools only.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognized by its content.

    Raises:
        DataFileError: The file is of another kind, which the message names, or parts of it are wrong; `problems` has
            all of them.
        OSError: The file cannot be opened or read.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.evaluation import read_results
        >>> case = LLMTestCase(id="paris", tools_called=[], expected_tools=[ToolCall(name="get_weather")])
        >>> _ = evaluate([case], [ToolCorrectnessMetric()], results="results.jsonl")
        >>> [(one.case.id, one.results[0].score) for one in read_results("results.jsonl").cases]
        [('paris', 0.0)]
    """
    name = source_name(source)
    data = read_bytes(source)
    try:
        value = parse_json(data)
    except InvalidDataError as error:
        # Several lines of JSON are not one JSON value.
        first = _first_line(data)
        if is_header(first):
            return _report_of_lines(data, name)
        if first is not None:
            raise _not_a_report(name, f"JSON Lines that begin with {_describe(first)}") from None
        raise _not_json(name, data, error) from None
    if is_header(value):  # a file of results with its header line only
        return _report_of_lines(data, name)
    return report_of(value, name)


@within_limits
def _report_of_lines(data: bytes, name: str) -> Report:
    content = scan(io.BytesIO(data), name)
    header = content.header
    if header is None:
        raise file_error(name, [Problem("$", "the file is empty", 1)])
    metrics = [metric.metric for metric in header.metrics]
    rows, bad = _stored_rows(data, content, metrics)
    lost = _lost_rows(rows, content, header)
    if lost or content.end is None:  # else each of their cases has a later line, of a session that resumed the file
        for problem in bad[:_MAX_NAMED]:
            warnings.warn(f"{placed_text(name, problem)}; its case is not measured", BadLineWarning, stacklevel=3)
    if content.torn is not None:
        warnings.warn(torn_text(name, content.torn), BadLineWarning, stacklevel=3)
    rows += lost
    if (header.error_texts, header.text_tools) != ("default", []):  # here, other calls would have failed
        rows = [row._replace(is_outline=True) for row in rows]  # so that runs are not compared again
    about = {**header.about, **({} if content.end is None else {**content.end.facts, "seconds": content.end.seconds})}
    if header.cases is None:
        report = recorded_report(rows, metrics)
        return replace(report, interrupted=content.end is None, about=about, gate=header.gate.to_gate())
    names, cases = report_table(rows, metrics, header.trials, agents=header.agents or ())
    return Report(names, cases, header.trials, content.end is None, about, gate=header.gate.to_gate())


def _stored_rows(data: bytes, content: Scan, metrics: Sequence[str]) -> tuple[list[Row], list[Problem]]:
    """Return the rows of the lines that count, and what cannot be read of all lines."""
    rows: list[Row] = []
    bad = list(content.bad)
    for stored in content.stored.values():
        try:
            rows += read_rows(data[stored.start : stored.start + stored.size], metrics)
        except InvalidDataError as error:
            line = data.count(b"\n", 0, stored.start) + 1
            bad += [Problem(one.path, one.message, line) for one in problems_of(error)]
    return rows, bad


def _lost_rows(rows: Sequence[Row], content: Scan, header: Header) -> list[Row]:
    """Return a row that was not measured for each key of a complete evaluation whose line cannot be read."""
    if content.end is None:
        return []
    error, case = InvalidDataError("the line with its results cannot be read"), LLMTestCase()
    results = tuple(errored_result(one.metric, one.threshold, error) for one in header.metrics)
    keys = _missing_keys({row.key for row in rows}, content.end.cases, header)
    return [Row(case, *key[:2], results=results, agent=key.agent) for key in keys]


def _missing_keys(existing: Collection[CaseKey], cases: int, header: Header) -> list[CaseKey]:
    """Return the keys of an evaluation of so many cases that do not exist."""
    agents = header.agents or NO_AGENTS
    expected = cases if header.cases is None else header.cases * (header.trials or 1) * len(agents)
    if expected > _MOST_LOST + 2 * len(existing):  # do not make rows of any number
        message = f"the file must have lines of {expected:,} cases, and has {len(existing):,}; restore it"
        raise DataFileError.of(message)
    if header.cases is None:
        end = 1 + max((key.place for key in existing), default=-1)
        return [CaseKey(end + number) for number in range(cases - len(existing))]
    trials = [None] if header.trials is None else range(1, header.trials + 1)
    keys = (CaseKey(*one) for one in product(range(header.cases), trials, agents))
    return [key for key in keys if key not in existing]


@within_limits
def report_of(value: object, name: str) -> Report:
    """Return a report from its JSON form, which messages call `name`.

    Raises:
        DataFileError: See `read_results`.
    """
    if not isinstance(value, Mapping) or not all(isinstance(value.get(key), list) for key in ("metrics", "cases")):
        raise _not_a_report(name, _describe(value))
    try:
        report = WrittenReport.model_validate(dict(value))
    except InvalidDataError as error:
        raise file_error(name, problems_of(error)) from None
    problems = tuple(_contradictions(report))
    if problems:
        raise file_error(name, problems)
    return report.to_report()


def _contradictions(report: WrittenReport) -> Iterator[Problem]:
    """Yield what contradicts other parts of the report."""
    names = [summary.metric for summary in report.metrics]
    for place, metric in enumerate(names):
        if metric in names[:place]:
            yield Problem(f"$.metrics[{place}].metric", f"{metric!r} occurs twice")
    for place, case in enumerate(report.cases):
        if sorted(result.metric for result in case.results) != sorted(set(names) - set(case.apart)):
            yield missing_results(case.results, names, "cases", place, "results")


_EXPECTED = "a report (JSON) or a file of results (JSON Lines) that toolgrade wrote"


def _not_json(name: str, data: bytes, error: InvalidDataError) -> DataFileError:
    """Return the error of a file that holds no JSON; it names the kind of file, such as CSV, if that is known."""
    line, _, following = data.lstrip().partition(b"\n")
    kind = "is empty" if not line else unreadable_kind(line, following)
    if kind is None or line.startswith(b"{"):  # broken JSON: the error has the place
        return DataFileError(f"{name}: {error}", problems_of(error))
    message = f"{kind.partition(';')[0]}; expected {_EXPECTED}"
    return DataFileError(f"{name} {message}", [Problem("", message)])


def _not_a_report(name: str, description: str) -> DataFileError:
    message = f"expected {_EXPECTED}, got {description}"
    return DataFileError(f"{name}: {message}", [Problem("$", message)])


_KINDS = {
    "tools_called": "a test case, which must be scored first",
    "toolsCalled": "a test case, which must be scored first",
    "expected_tools": "a test case, which must be scored first",
    "messages": "a record of messages, which must be scored first",
    "turns": "a conversation, which must be scored first",
    "good": "the output of `toolgrade validate`",
    "metrics_only_a": "the output of `toolgrade compare`",
    "findings": "the output of `toolgrade lint`",
}
"""Kind of an object by a key that only this kind has, for messages."""


def _describe(value: object) -> str:
    """Return the kind of a value, for a message."""
    if isinstance(value, list) and value:
        return f"a list that begins with {_describe(value[0])}"
    if not isinstance(value, Mapping):
        return short_repr(value)
    keys = ", ".join(map(repr, list(value)[:5]))
    other = f"an object with {keys}" if value else "an empty object"
    return next((kind for key, kind in _KINDS.items() if key in value), other)


def _first_line(data: bytes) -> Mapping[str, Any] | None:
    """Return the JSON object in the first line, if it is one and there are further lines."""
    line, _, rest = data.strip().partition(b"\n")
    try:
        value = parse_json(line) if rest else None
    except InvalidDataError:
        return None
    return value if isinstance(value, Mapping) else None
