"""Summary at the end of a test run over all cases that its tests measured: a few lines, and a report in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolgrade._internal.json import json_text, replace_nonfinite
from toolgrade._internal.text import error_text, number_text, plural, printable, shorten
from toolgrade.dataset import Golden
from toolgrade.errors import ReplayError
from toolgrade.redact import DEFAULT
from toolgrade.report import MetricSummary
from toolgrade.report.report import is_generated_id
from toolgrade.report.text.phrases import WORD_TEXTS
from toolgrade.result import MetricResult, ResultStatus
from toolgrade.verdict import Gate, Tally, without_status

_MAX_FAILED = 20
_MAX_NOTICED = 5
_LINES = 40
_LONGEST_WHY = 500


def score_lines(notes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield one line for each metric, and one for each result that did not pass, up to a limit.

    The notes are those of `toolgrade._pytest.fixtures.Note`, each with its `test`.
    """
    cases = [note for note in notes if "case" in note]
    yield Tally.of_counts(Counter(note["case"]["outcome"] for note in cases)).verdict(Gate()).counts_text
    for summary in _summaries(notes):
        yield printable(str(summary))
    bad: list[str] = []
    noticed: list[str] = []
    for note in cases:
        if note["case"]["outcome"] == "passed":
            noticed += _noticed_lines(note)
        else:
            bad += _problem_lines(note)
    yield from bad[:_MAX_FAILED]
    if len(bad) > _MAX_FAILED:
        yield f"... and {len(bad) - _MAX_FAILED} more (--toolgrade-report FILE has all)"
    yield from noticed[:_MAX_NOTICED]
    if len(noticed) > _MAX_NOTICED:
        yield f"... and {len(noticed) - _MAX_NOTICED} more notes on passed cases"


def _problem_lines(note: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each result of a case that did not pass, or for the end of its run."""
    case, names = note["case"], f"{_brief(note['test'])}  {_brief(note['case']['label'])}"
    if "wrong_end" in case:
        end = case["wrong_end"]
        yield f"- {names}  {WORD_TEXTS[end['outcome']]}: {_brief(end['why'])}"
    results = list(_results([note]))
    is_skipped = all(result.status is ResultStatus.SKIPPED for result, _ in results)
    for result, problem in results:
        if not result.passed and (is_skipped or result.status is not ResultStatus.SKIPPED):
            what = "not measured" if result.score is None else f"failed with {number_text(result.score)}"
            why = without_status(problem)
            yield f"- {names}  {printable(result.metric)}  {what}{f': {why}' if why else ''}"


def _noticed_lines(note: dict[str, Any]) -> Iterator[str]:
    """Yield what a passed case has that cost no score: further calls, or warnings such as of calls that failed."""
    names = f"{_brief(note['test'])}  {_brief(note['case']['label'])}"
    for plain, problem in zip(note["case"]["results"], note["problems"], strict=True):
        texts = [problem, *plain.get("warnings", ())[:1]]
        text = "; ".join(_brief(text) for text in texts if text)
        if text and plain["status"] == ResultStatus.SCORED.value:
            yield f"- {names}  {printable(plain['metric'])}  passed all the same: {text}"


def golden_lines(notes: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield which goldens were written, and how those that were there differed."""
    for note in notes:
        golden = note.get("golden")
        if golden is None:
            continue
        yield f"golden {golden['became']}: {printable(golden['path'])}"
        lines = golden["difference"].split("\n") if golden["difference"] else []
        for line in lines[:_LINES]:
            yield f"  {printable(line)}".rstrip()
        if len(lines) > _LINES:
            yield f"  ... and {plural(len(lines) - _LINES, 'more line')}"


def report_json(notes: Sequence[dict[str, Any]], about: Mapping[str, Any], *, is_complete: bool) -> str:
    """Return everything as JSON text: `metrics` and `cases` as in a `Report`, each case with its `test`.

    Without all tests it is `interrupted`, as if the evaluation had been.
    """
    summaries = _summaries(notes)
    metrics = list(dict.fromkeys(summary.metric for summary in summaries))
    measured = [note for note in notes if "case" in note]
    cases = [_case_json(note, index, metrics) for index, note in enumerate(measured)]
    plain: dict[str, Any] = {"metrics": [summary.to_dict() for summary in summaries], "cases": cases, "about": about}
    if not is_complete:
        plain["interrupted"] = True
    return json_text(replace_nonfinite(plain), indent=2) + "\n"


def _case_json(note: dict[str, Any], index: int, metrics: Sequence[str]) -> dict[str, Any]:
    """Return a case as in a report.

    Without an id and a name it has the id of its test, so that reports of two test runs can be compared. It is `apart`
    from the metrics that its test did not use.
    """
    case: dict[str, Any] = {**note["case"], "index": index, "test": note["test"]}
    del case["label"]
    if not (case.get("id") or case.get("name")) or is_generated_id(str(case.get("id") or "")):
        case["id"] = note["test"] if note["number"] == 1 else f"{note['test']} #{note['number']}"
        case.pop("key", None)
    used = {result["metric"] for result in case["results"]}
    if len(used) < len(metrics):
        case["apart"] = [metric for metric in metrics if metric not in used]
    return case


def broken_note(test: str, golden: Golden | None, why: str, error: BaseException | None) -> dict[str, Any]:
    """Return the note of a test that broke or measured nothing, so that the report is not green without it.

    An agent that left its recording has failed; any other error broke it.
    """
    if error is not None:
        why = f"{why}: {shorten(str(DEFAULT(error_text(error))), _LONGEST_WHY)}"
    outcome = "failed" if error is None or isinstance(error, ReplayError) else "agent_error"
    label = test if golden is None else golden.id or golden.question
    case = {
        "index": 0,
        "label": label,
        "outcome": outcome,
        "wrong_end": {"outcome": outcome, "why": why},
        "results": [],
    }
    if golden is not None and golden.id is not None:
        case["id"] = golden.id
    return {"case": case, "number": 1, "problems": []}


def properties(note: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a JUnit report says of a case: the score and whether it passed, or why there is none, by metric."""
    for plain in note.get("case", {}).get("results", ()):
        result = _result(plain)
        name = f"{_brief(note['case']['label'])}: {printable(result.metric)}"
        if result.score is None:
            yield f"toolgrade.status[{name}]", result.status.value
        else:
            yield f"toolgrade.score[{name}]", number_text(result.score)
            yield f"toolgrade.passed[{name}]", "true" if result.passed else "false"


def _summaries(notes: Iterable[dict[str, Any]]) -> list[MetricSummary]:
    """Return a summary for each metric at each threshold, in the order in which they were first used."""
    groups: dict[tuple[str, float], list[MetricResult]] = {}
    for result, _ in _results(notes):
        groups.setdefault((result.metric, result.threshold), []).append(result)
    return [MetricSummary.of(metric, results) for (metric, _), results in groups.items()]


def _results(notes: Iterable[dict[str, Any]]) -> Iterator[tuple[MetricResult, str]]:
    """Yield each result, and where it first goes wrong."""
    for note in notes:
        for plain, problem in zip(note.get("case", {}).get("results", ()), note.get("problems", ()), strict=True):
            yield _result(plain), problem


def _result(plain: dict[str, Any]) -> MetricResult:
    """Return as much of a result as sums need."""
    return MetricResult(
        metric=plain["metric"],
        status=ResultStatus(plain["status"]),
        threshold=plain["threshold"],
        score=plain.get("score"),
        passed=plain.get("passed"),
    )


def _brief(text: str) -> str:
    return shorten(printable(text), 120)
