"""How is a written report read back? As it was, from a file of results or from the JSON of a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, JsonValue

from toolmark._internal.json import json_path, parse_json, short_repr
from toolmark.dataset import Source, problems_of, read_bytes, source_name
from toolmark.errors import DataFileError, InvalidDataError, Problem, TornLineWarning
from toolmark.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus
from toolmark.results.case_json import read_content
from toolmark.results.jsonl import WrittenMetric, is_header, read_lines
from toolmark.results.layout import laid_out
from toolmark.results.schema import Position, Written, WrittenResult


class WrittenCase(Written):
    """The results of one case."""

    index: int
    id: str | None = None
    name: str | None = None
    trial: Annotated[int, Field(ge=1)] | None = None
    golden: Position | None = None
    apart: list[str] = Field(default_factory=list[str])
    results: list[WrittenResult]

    def case(self, metrics: list[WrittenMetric]) -> CaseResult:
        """Return it as an object, with the results in the order of the metrics."""
        by_name = {result.metric: result for result in self.results}
        results = [
            by_name[one.metric].result() if one.metric in by_name else _apart(one.metric, one.threshold)
            for one in metrics
        ]
        return CaseResult(
            index=self.index,
            case=read_content(None, None, id=self.id, name=self.name),
            results=tuple(results),
            apart=frozenset(place for place, one in enumerate(metrics) if one.metric not in by_name),
            trial=self.trial,
            golden=self.golden,
        )


class WrittenReport(Written):
    """The results of an evaluation, as `Report.to_dict` gives them."""

    metrics: list[WrittenMetric]
    cases: list[WrittenCase]
    trials: Annotated[int, Field(ge=1)] | None = None
    interrupted: bool = False
    about: dict[str, JsonValue] = Field(default_factory=dict[str, Any])

    def report(self) -> Report:
        """Return it as an object."""
        return Report(
            metrics=tuple(one.metric for one in self.metrics),
            cases=tuple(case.case(self.metrics) for case in self.cases),
            trials=self.trials,
            interrupted=self.interrupted,
            about=self.about,
        )


def _apart(metric: str, threshold: float) -> MetricResult:
    reason = "Skipped: this metric is about other cases."
    return MetricResult(metric=metric, status=ResultStatus.SKIPPED, threshold=threshold, reason=reason)


def read_results(source: Source) -> Report:
    """Return the report that was written: by `evaluate(results=...)`, `toolmark score --json` or `Report.to_json`.

    A file of results (JSON Lines) has the cases with their content, without secrets, and gives the report of all cases
    that are in it; `interrupted` says whether some are missing. A line that was never written to its end is left out
    with a `TornLineWarning`. The JSON of a report has no content: its cases have their ids and names alone.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognised by its content.

    Raises:
        DataFileError: It is neither, and the message says what it seems to be; or parts of it are wrong, and `problems`
            has all of them.
        OSError: The file cannot be opened or read.

    Example:
        >>> import io
        >>> from toolmark import LLMTestCase, ToolCorrectnessMetric, evaluate
        >>> from toolmark.results import read_results
        >>> report = evaluate([LLMTestCase(id="a", tools_called=[], expected_tools=[])], [ToolCorrectnessMetric()])
        >>> read_results(io.BytesIO(report.to_json().encode())).cases[0].results[0].score
        1.0
    """
    name = source_name(source)
    data = read_bytes(source)
    try:
        value = parse_json(data)
    except InvalidDataError as error:
        first = _first_line(data)
        if is_header(first):
            return _report_of_lines(data, name)
        if first is not None:
            raise _no_report(name, f"JSON Lines, the first of which is {_called(first)}") from None
        raise DataFileError(f"{name}: {error}", problems_of(error)) from None
    return _report_of_lines(data, name) if is_header(value) else report_of(value, name)


def _report_of_lines(data: bytes, name: str) -> Report:
    found = read_lines(data, name)
    for problem in found.torn:
        warnings.warn(f"{name}:{problem.line}: left out {problem.message}", TornLineWarning, stacklevel=3)
    names, cases = laid_out(found.rows, [one.metric for one in found.header.metrics], found.header.trials)
    return Report(
        metrics=names,
        cases=cases,
        trials=found.header.trials,
        interrupted=len(found.units) < found.header.units,
        about=found.about,
    )


def report_of(value: object, name: str) -> Report:
    """Return the report that a JSON value is, as `Report.to_dict` gives it.

    Args:
        value: The JSON value.
        name: What it is called in messages.

    Raises:
        DataFileError: See `read_results`.
    """
    if not isinstance(value, Mapping) or not all(isinstance(value.get(key), list) for key in ("metrics", "cases")):
        raise _no_report(name, _called(value))
    try:
        report = WrittenReport.model_validate(dict(value))
    except InvalidDataError as error:
        problems: tuple[Problem, ...] = problems_of(error)
    else:
        problems = tuple(_contradictions(report))
        if not problems:
            return report.report()
    raise DataFileError("\n".join(f"{name}: {problem}" for problem in problems), problems)


def _contradictions(report: WrittenReport) -> Iterator[Problem]:
    """Yield what a report says of itself that is not so."""
    names = [summary.metric for summary in report.metrics]
    for place, metric in enumerate(names):
        if metric in names[:place]:
            yield Problem(f"$.metrics[{place}].metric", f"{metric!r} stands there twice")
    for place, case in enumerate(report.cases):
        path: tuple[str | int, ...] = ("cases", place, "results")
        given = [result.metric for result in case.results]
        wanted = sorted(set(names) - set(case.apart))
        if sorted(given) != wanted:
            message = f"expected one result of each metric ({', '.join(names)}), got {', '.join(given) or 'none'}"
            yield Problem(json_path(path), message)
        for number, result in enumerate(case.results):
            yield from result.contradictions(*path, number)


def _no_report(name: str, found: str) -> DataFileError:
    message = (
        "expected a report, as `toolmark score FILE --json REPORT` and Report.to_json write it, or results, as "
        f"evaluate(results=FILE) does, and this is {found}"
    )
    return DataFileError(f"{name}: {message}", [Problem("$", message)])


_CALLED = {
    "tools_called": "a test case, which has to be scored first",
    "toolsCalled": "a test case, which has to be scored first",
    "expected_tools": "a test case, which has to be scored first",
    "messages": "a record of messages, which has to be scored first",
    "turns": "a conversation, which has to be scored first",
    "positive_from": "what `toolmark validate` writes",
    "metrics_only_a": "what `toolmark compare` writes",
    "findings": "what `toolmark lint` writes",
}
"""What an object is that has such a key."""


def _called(value: object) -> str:
    """Return what a value seems to be."""
    if isinstance(value, list) and value:
        return f"a list, the first item of which is {_called(value[0])}"
    if isinstance(value, Mapping):
        for key, words in _CALLED.items():
            if key in value:
                return words
        return f"an object with {', '.join(map(repr, list(value)[:5]))}" if value else "an empty object"
    return short_repr(value)


def _first_line(data: bytes) -> Mapping[str, Any] | None:
    """Return the object in the first line of a file that has several lines."""
    line, _, rest = data.strip().partition(b"\n")
    try:
        value = parse_json(line) if rest else None
    except InvalidDataError:
        return None
    return value if isinstance(value, Mapping) else None
