"""What does a written report say? `Report.to_dict` and `toolmark score --json`, read back as far as comparing needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from toolmark._json import json_path, parse_json, short_repr
from toolmark._model import Model
from toolmark.dataset import Source, problems_of, read_bytes, source_name
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.result import ResultStatus

_LONGEST_REASON = 300


class _Written(Model):
    """What newer versions write besides is passed over; numbers and texts are what they say they are."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class WrittenFinding(_Written):
    """One thing that cost score."""

    message: str


class WrittenQuestion(_Written):
    """One question about a case."""

    decided_by: str
    outcome: str = "ok"


class WrittenUnit(_Written):
    """What was judged of one unit."""

    questions: list[WrittenQuestion] = Field(default_factory=list[WrittenQuestion])


class WrittenResult(_Written):
    """What one metric says of one case."""

    metric: str
    status: Literal["scored", "skipped", "failed"]
    threshold: float
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    error: str | None = None
    findings: list[WrittenFinding] = Field(default_factory=list[WrittenFinding])
    warnings: list[str] = Field(default_factory=list[str])
    judge: dict[str, str] | None = None
    units: list[WrittenUnit] = Field(default_factory=list[WrittenUnit])

    @property
    def state(self) -> ResultStatus:
        """Whether there is a score."""
        return ResultStatus(self.status)

    @property
    def words(self) -> str | None:
        """What was found first, else the first line of the reason or error."""
        if self.findings:
            return self.findings[0].message
        text = self.reason or self.error
        return None if text is None else text.split("\n", 1)[0][:_LONGEST_REASON]

    @property
    def judged_by(self) -> str | None:
        """The model that gave a verdict; `None` where nobody was asked, or nobody answered.

        A report names a model also where code decided all questions, by the name under which it would have been asked,
        which may be another than the one it answers with.
        """
        questions = [question for unit in self.units for question in unit.questions]
        if self.judge is None or not (
            not questions or any(one.decided_by == "judge" and one.outcome == "ok" for one in questions)
        ):
            return None
        return self.judge.get("model")


class WrittenCase(_Written):
    """The results of one case."""

    index: int
    id: str | None = None
    name: str | None = None
    results: list[WrittenResult]

    @property
    def label(self) -> str:
        """The case's id, else its name, else its position from 1 as `#3`."""
        return self.id or self.name or f"#{self.index + 1}"

    @property
    def key(self) -> tuple[str, str]:
        """By what the case is known again, and that."""
        if self.id:
            return "id", self.id
        return ("name", self.name) if self.name else ("position", str(self.index))


class WrittenSummary(_Written):
    """What one metric says of all cases."""

    metric: str
    threshold: float


class WrittenReport(_Written):
    """The results of an evaluation."""

    metrics: list[WrittenSummary]
    cases: list[WrittenCase]

    def threshold(self, metric: str) -> float:
        """Return the score from which on a case passes by a metric."""
        return next(summary.threshold for summary in self.metrics if summary.metric == metric)

    def results(self, metric: str) -> list[WrittenResult]:
        """Return what a metric says of each case, in the order of the cases."""
        return [next(result for result in case.results if result.metric == metric) for case in self.cases]


def read_report(source: Source) -> WrittenReport:
    """Return the report of a file.

    Raises:
        DataFileError: It is no report, and the message says what it seems to be; or parts of it are wrong, and
            `problems` has all of them.
        OSError: The file cannot be opened or read.
    """
    name = source_name(source)
    data = read_bytes(source)
    try:
        value = parse_json(data)
    except InvalidDataError as error:
        if (first := _first_line(data)) is not None:
            raise _no_report(name, f"JSON Lines, the first of which is {_called(first)}") from None
        raise DataFileError(f"{name}: {error}", problems_of(error)) from None
    return report_of(value, name)


def report_of(value: object, name: str) -> WrittenReport:
    """Return the report that a JSON value is, as `Report.to_dict` gives it.

    Raises:
        DataFileError: See `read_report`.
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
            return report
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
        if sorted(given) != sorted(set(names)):
            message = f"expected one result of each metric ({', '.join(names)}), got {', '.join(given) or 'none'}"
            yield Problem(json_path(path), message)
        for number, result in enumerate(case.results):
            scored = result.status == "scored"
            for field in ("score", "passed"):
                if (getattr(result, field) is not None) != scored:
                    said = "is required" if scored else "cannot be there"
                    message = f"{said}, since the status is {result.status!r}"
                    yield Problem(json_path((*path, number, field)), message)


def _no_report(name: str, found: str) -> DataFileError:
    message = (
        f"expected a report, as `toolmark score FILE --json REPORT` and Report.to_json write it, and this is {found}"
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
