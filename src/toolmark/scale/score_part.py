"""Scoring of one part: its cases are read, measured and written one after the other."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from typing import IO, Any, Final

from toolmark._internal.atomic_files import draft_path, replace_durably
from toolmark._internal.json import canonical_json, to_json_value
from toolmark._internal.resumed_runs import is_interrupted
from toolmark._internal.text import unique_labels
from toolmark.analysis.field_paths import value_at
from toolmark.cases import LLMTestCase, TestCase
from toolmark.dataset import Document, FileProblems, read_documents, read_line, replaced_numbers
from toolmark.errors import Problem, ToolmarkWarning
from toolmark.evaluation.session import measure_in_thread
from toolmark.metrics import MetricLike
from toolmark.report import CaseResult
from toolmark.report.text.ordering import worst_first
from toolmark.result import MetricResult
from toolmark.results.layout import Row
from toolmark.results.writer import line_without_place
from toolmark.scale.parquet import read_rows
from toolmark.scale.partition import Part, part_lines
from toolmark.scale.totals import Adding, Totals

MAX_REPORTED = 1000
"""Problems, and different warnings, that are stored; of further ones only the number is reported."""

_RECENT = 500
"""Cases after which those of a report are trimmed."""

_NAMELESS: Final = LLMTestCase()

FIRST_KEY: Final = b'{"fingerprint": "'
"""How each line of a part begins; its place comes before that in the end."""


@dataclass(frozen=True)
class Options:
    """How cases are read and measured; the same for all parts.

    Attributes:
        metrics: What is measured.
        cluster: Where in a case its cluster stands, such as `metadata.task`; `None` if each is one of its own.
        contents: Whether the cases are written with their results.
        allow_nan: See `toolmark.read_cases`.
        tolerant_arguments: See `toolmark.read_cases`.
    """

    metrics: tuple[MetricLike, ...]
    cluster: str | None = None
    contents: bool = True
    allow_nan: bool = False
    tolerant_arguments: bool = False

    @cached_property
    def names(self) -> list[str]:
        """What the metrics are called in results; no two are equal."""
        return unique_labels([metric.label for metric in self.metrics])

    def to_dict(self) -> dict[str, Any]:
        """Return the options beside the metrics, as JSON values."""
        names = ("cluster", "contents", "allow_nan", "tolerant_arguments")
        return {name: getattr(self, name) for name in names}


@dataclass
class Outcome:
    """What became of a part, or of several.

    Attributes:
        totals: What the results add up to.
        problems: What could not be read, the first of it.
        more_problems: How many there are besides.
        torn: Lines that were never written to their end, the first of them.
        replaced: Interrupted runs that were left out because a later line has the same run, resumed.
        warnings: Different texts, the first of them.
        more_warnings: How many warnings came after those.
        is_clustered: Whether a case has a cluster.
        entries: The cases for a report, with positions from 0; see `trimmed`.
        size: Bytes that were written.
        digest: Of these bytes.
    """

    totals: Totals = field(default_factory=Totals)
    problems: list[Problem] = field(default_factory=list[Problem])
    more_problems: int = 0
    torn: list[Problem] = field(default_factory=list[Problem])
    replaced: int = 0
    warnings: list[str] = field(default_factory=list[str])
    more_warnings: int = 0
    is_clustered: bool = False
    entries: list[CaseResult] = field(default_factory=list[CaseResult])
    size: int = 0
    digest: str = ""

    def take(self, file_problems: FileProblems) -> None:
        """Store what could not be read, and what was left out."""
        self.problems, self.more_problems = file_problems.problems, file_problems.more_problems
        self.torn, self.replaced = file_problems.torn, file_problems.replaced

    def warn(self, text: str) -> None:
        """Keep a warning."""
        if text in self.warnings:
            return
        if len(self.warnings) < MAX_REPORTED:
            self.warnings.append(text)
        else:
            self.more_warnings += 1

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; there are no problems, since then nothing is kept."""
        names = ("replaced", "warnings", "more_warnings", "is_clustered", "size", "digest")
        torn = [[problem.message, problem.line] for problem in self.torn]
        return {"totals": self.totals.to_dict(), "torn": torn, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Outcome:
        """Return what `to_dict` gave.

        Raises:
            InvalidDataError: Its totals are none.
        """
        torn = [Problem("$", message, line) for message, line in plain["torn"]]
        fields: dict[str, Any] = {**plain, "totals": Totals.from_dict(plain["totals"]), "torn": torn}
        return cls(**fields)


def scored(part: Part, path: str, options: Options, target: Path | None, full: int | None = None) -> Outcome:
    """Read, measure and write a part; where a line of it cannot be read, nothing is written.

    Args:
        part: The part.
        path: Its file.
        options: How to read and measure.
        target: Where its lines are written, as a whole; `None` if they are not wanted. A line lacks its place, which
            depends on other parts.
        full: See `trimmed`; `None` if no report is wanted.

    Raises:
        OSError: The file cannot be read, or the lines cannot be written.
    """
    outcome, file_problems = Outcome(), FileProblems(most=MAX_REPORTED)
    if target is None:
        _score(part, path, options, None, outcome, file_problems, full)
    else:
        draft = draft_path(target)
        try:
            with draft.open("wb") as file:
                _score(part, path, options, file, outcome, file_problems, full)
            if not file_problems.problems:
                replace_durably(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    outcome.take(file_problems)
    return outcome


def _score(
    part: Part,
    path: str,
    options: Options,
    file: IO[bytes] | None,
    outcome: Outcome,
    file_problems: FileProblems,
    full: int | None,
) -> None:
    """Go through the cases of a part."""
    adding, hashed, recent = Adding(), hashlib.sha256(), list[CaseResult]()
    with collect_warnings(outcome):
        entries = documents(part, path, allow_nan=options.allow_nan)
        for case in file_problems.cases(entries, tolerant_arguments=options.tolerant_arguments):
            results, cluster = measured(case, options)
            outcome.is_clustered |= cluster is not None
            if full is not None:
                recent.append(CaseResult(adding.cases, case, results))
                if len(recent) >= _RECENT:  # so that memory does not grow with the part
                    outcome.entries += trimmed(recent, full)
                    recent.clear()
            adding.add(results, cluster)
            if file is not None and not file_problems.problems:
                row = Row(case, 0, results=results)
                line = line_without_place(row, contents=options.contents).encode()
                file.write(line)
                hashed.update(line)
                outcome.size += len(line)
    outcome.totals, outcome.digest = adding.totals(), hashed.hexdigest()
    outcome.entries = trimmed([*outcome.entries, *recent], full or 0)


def trimmed(entries: Sequence[CaseResult], full: int) -> list[CaseResult]:
    """Return the cases, of which only the `full` worst by each metric have contents and reasons; 0 for all.

    A report that lists as many then shows the same as one of whole cases, in a small part of the memory.
    """
    if full == 0 or not entries:
        return list(entries)
    listed = _worst_cases(entries, full)
    outlines: dict[Hashable, tuple[MetricResult, ...]] = {}  # most cases share theirs with others
    reported: set[str] = set()
    short: list[CaseResult] = []
    for entry in entries:
        if entry.index in listed:
            short.append(entry)
            continue
        texts = {text for one in entry.results for text in one.warnings}
        case = _NAMELESS
        if not texts <= reported:  # a warning is short with the name of the first case that has it
            case = LLMTestCase(id=entry.case.id, name=entry.case.name)
            reported |= texts
        short.append(replace(entry, case=case, results=_outline(entry.results, outlines)))
    return short


def _worst_cases(entries: Sequence[CaseResult], full: int) -> set[int]:
    """Return the positions of the `full` worst cases by each metric, and of the worst ones with findings."""
    worst: set[int] = set()
    for place in range(len(entries[0].results)):
        pairs = [(entry, entry.results[place]) for entry in entries]
        # Cases side by side are the worst ones with findings, which those without a score do not have.
        for group in (pairs, [pair for pair in pairs if pair[1].findings]):
            worst.update(entry.index for entry, _ in nsmallest(full, group, key=worst_first))
    return worst


def _outline(
    results: Sequence[MetricResult], outlines: dict[Hashable, tuple[MetricResult, ...]]
) -> tuple[MetricResult, ...]:
    """Return results without what makes them large; equal ones are stored once."""
    key = tuple((one.status, one.score, one.passed, one.warnings) for one in results)
    if key not in outlines:
        dropped: dict[str, Any] = {"reason": None, "error": None, "findings": (), "parts": {}, "alignment": None}
        outlines[key] = tuple(replace(one, **dropped) for one in results)
    return outlines[key]


def measured(case: TestCase, options: Options) -> tuple[tuple[MetricResult, ...], str | None]:
    """Return a result for each metric, and the key of the case's cluster, if it has one."""
    pairs = zip(options.metrics, options.names, strict=True)
    results = tuple(measure_in_thread(metric, case).renamed(name) for metric, name in pairs)
    cluster = None if options.cluster is None else value_at(case, options.cluster, "cluster")
    return results, None if cluster is None else canonical_json(to_json_value(cluster, []))


def documents(part: Part, path: str, *, allow_nan: bool) -> Iterator[Document]:
    """Yield what stands in a part; interrupted runs that were resumed are marked, except in Parquet files."""
    if part.kind == "rows":
        return read_rows(path, part.start, part.first, allow_nan=allow_nan)
    if part.kind == "whole":
        return _mark_replaced(read_documents(path, allow_nan=allow_nan), part, path)
    return _mark_replaced(_lines(part, path, allow_nan=allow_nan), part, path)


def _mark_replaced(entries: Iterator[Document], part: Part, path: str) -> Iterator[Document]:
    """Mark the documents that a later one replaces; without an interrupted run, the file is not read again."""
    replaced = None if part.replaced is None else set(part.replaced)
    for document in entries:
        if not is_interrupted(document.value):
            yield document
            continue
        if replaced is None:
            replaced = replaced_numbers(path)
        yield document._replace(replaced=document.number in replaced)


def _lines(part: Part, path: str, *, allow_nan: bool) -> Iterator[Document]:
    for number, raw in part_lines(part, path):
        document = read_line(raw, number, allow_nan=allow_nan)
        if document is not None:
            yield document


@contextmanager
def collect_warnings(outcome: Outcome) -> Generator[None, None, None]:
    """Collect the warnings of toolmark in the outcome, at most `MAX_REPORTED`: there may be one for each case."""

    def collect(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401 - as given
        if issubclass(category, ToolmarkWarning):
            outcome.warn(str(message))
        else:
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.simplefilter("always", ToolmarkWarning)
        warnings.showwarning = collect
        yield
