"""Scoring of one part of the input: its cases are read, measured and written one by one."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from toolgrade._internal.atomic_files import draft_path, sync_file
from toolgrade._internal.json import canonical_json, to_json_value
from toolgrade._internal.resumed_runs import is_interrupted
from toolgrade._internal.text import unique_labels
from toolgrade.analysis.field_paths import value_at
from toolgrade.cases import LLMTestCase, TestCase
from toolgrade.dataset import Document, FileProblems, read_documents, read_line, replaced_numbers
from toolgrade.errors import Problem, ToolgradeWarning
from toolgrade.evaluation.measuring import measure_in_thread
from toolgrade.metrics import MetricLike
from toolgrade.report import CaseResult
from toolgrade.report.text.ordering import worst_first
from toolgrade.result import Finding, MetricResult
from toolgrade.results.layout import Row
from toolgrade.results.writer import row_line
from toolgrade.scale.partition import Part, part_lines
from toolgrade.scale.totals import Totals, TotalsBuilder

MAX_REPORTED = 1000
"""Most problems, and most distinct warnings, that are stored; further ones are only counted."""

_TRIM_EVERY = 500
"""Number of whole cases in memory before they are trimmed for a report."""

_EMPTY_CASE: Final = LLMTestCase()

_COUNTED: Final = ("kind", "tool", "expected", "called", "turn", "path")
"""Fields of a finding by which it is counted."""
_values_of: Final = attrgetter(*_COUNTED)


@dataclass(frozen=True)
class Options:
    """Options for reading and measuring cases; the same for all parts.

    Attributes:
        metrics: The metrics.
        cluster: Path of the cluster in a case, such as `metadata.task`; `None` if cases are independent.
        contents: Whether the cases are written with their results.
        allow_nan: See `toolgrade.read_cases`.
    """

    metrics: tuple[MetricLike, ...]
    cluster: str | None = None
    contents: bool = True
    allow_nan: bool = False

    @cached_property
    def names(self) -> list[str]:
        """Distinct names of the metrics in results."""
        return unique_labels([metric.label for metric in self.metrics])

    def to_dict(self) -> dict[str, Any]:
        """Return the options other than the metrics as JSON values."""
        names = ("cluster", "contents", "allow_nan")
        return {name: getattr(self, name) for name in names}


@dataclass
class FirstWarnings:
    """The first distinct warnings, at most `MAX_REPORTED`, in their order, and the number of those that came later."""

    warnings: dict[str, None] = field(default_factory=dict[str, None])
    more_warnings: int = 0

    def warn(self, text: str) -> None:
        """Add a warning, unless it is already stored."""
        if text in self.warnings or len(self.warnings) < MAX_REPORTED:
            self.warnings[text] = None
        else:
            self.more_warnings += 1


@dataclass
class Outcome(FirstWarnings):
    """Outcome of scoring one part.

    Attributes:
        totals: Totals of the results.
        problems: The first problems of what could not be read.
        more_problems: Number of further problems.
        torn: The first lines that were cut off while they were written.
        replaced: Number of interrupted runs that were left out because a later line has the same run, resumed.
        is_clustered: Whether any case has a cluster.
        entries: The cases for a report, with positions from 0; see `trim_entries`.
        size: Number of bytes that were written.
        digest: CRC-32 of these bytes.
    """

    totals: Totals = field(default_factory=Totals)
    problems: list[Problem] = field(default_factory=list[Problem])
    more_problems: int = 0
    torn: list[Problem] = field(default_factory=list[Problem])
    replaced: int = 0
    is_clustered: bool = False
    entries: list[CaseResult] = field(default_factory=list[CaseResult])
    size: int = 0
    digest: str = ""

    def take(self, file_problems: FileProblems) -> None:
        """Store what could not be read, and what was left out."""
        self.problems, self.more_problems = file_problems.problems, file_problems.more_problems
        self.torn, self.replaced = file_problems.torn, file_problems.replaced

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values, without problems: a part with problems is not stored."""
        names = ("replaced", "more_warnings", "is_clustered", "size", "digest")
        torn = [[problem.message, problem.line] for problem in self.torn]
        plain = {"totals": self.totals.to_dict(), "torn": torn, "warnings": list(self.warnings)}
        return {**plain, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Outcome:
        """Return the outcome from which `to_dict` made these values.

        Raises:
            InvalidDataError: The value of `totals` is not the output of `Totals.to_dict`.
        """
        fields: dict[str, Any] = {
            **plain,
            "totals": Totals.from_dict(plain["totals"]),
            "torn": [Problem("$", message, line) for message, line in plain["torn"]],
            "warnings": dict.fromkeys(plain["warnings"]),
        }
        return cls(**fields)


def score_part(part: Part, path: str, options: Options, target: Path | None, full: int | None = None) -> Outcome:
    """Read, measure and write the cases of a part; if a line cannot be read, nothing is written.

    Args:
        part: The part.
        path: Path of its file.
        options: Options for reading and measuring.
        target: Path to which all lines are moved at the end, or `None` to write none. The positions of the cases are
            right if each line of the parts before is one case.
        full: Number of worst cases by each metric that stay whole in `entries`, 0 for all; `None` leaves `entries`
            empty.

    Raises:
        OSError: The file cannot be read, or the lines cannot be written.
    """
    if target is None:
        return _score(part, path, options, None, full)
    draft = draft_path(target)
    try:
        with draft.open("wb") as file:
            outcome = _score(part, path, options, file, full)
        if not outcome.problems:
            sync_file(draft)
            draft.replace(target)  # the note of the part, which is in the same folder, makes the move durable
    finally:
        draft.unlink(missing_ok=True)
    return outcome


def _score(part: Part, path: str, options: Options, file: IO[bytes] | None, full: int | None) -> Outcome:
    """Score the cases of a part, one by one, and write their lines to `file` until a line cannot be read."""
    outcome, file_problems = Outcome(), FileProblems(most=MAX_REPORTED)
    totals, checksum, recent = TotalsBuilder(), 0, list[CaseResult]()
    with collect_warnings(outcome):
        entries = _read_part(part, path, allow_nan=options.allow_nan)
        for case in file_problems.cases(entries):
            results, cluster = measure_case(case, options)
            outcome.is_clustered |= cluster is not None
            if full is not None:
                recent.append(CaseResult(totals.cases, case, results))
                if len(recent) >= _TRIM_EVERY:  # so that memory does not grow with the part
                    outcome.entries += trim_entries(recent, full)
                    recent.clear()
            if file is not None and not file_problems.problems:
                row = Row(case, part.place + totals.cases, results=results)
                line = row_line(row, contents=options.contents)
                file.write(line)
                checksum = crc32(line, checksum)
                outcome.size += len(line)
            totals.add(results, cluster)
    outcome.totals, outcome.digest = totals.totals(), f"{checksum:08x}"
    outcome.entries = trim_entries([*outcome.entries, *recent], full or 0)  # without a report there are no entries
    outcome.take(file_problems)
    return outcome


def trim_entries(entries: Sequence[CaseResult], full: int) -> list[CaseResult]:
    """Return the cases with only the `full` worst by each metric whole, the others without contents; 0 keeps all whole.

    A report that shows at most `full` cases by each metric looks the same, and needs a fraction of the memory.
    """
    if full == 0 or not entries:
        return list(entries)
    worst = _worst_cases(entries, full)
    outlines: dict[Hashable, tuple[MetricResult, ...]] = {}  # many cases have equal outlines, which are stored once
    reported: set[str] = set()
    trimmed: list[CaseResult] = []
    for entry in entries:
        if entry.index in worst:
            trimmed.append(entry)
            continue
        texts = {text for result in entry.results for text in result.warnings}
        case = _EMPTY_CASE
        if not texts <= reported:  # a report names the first case that has a warning
            case = LLMTestCase(id=entry.case.id, name=entry.case.name)
            reported |= texts
        trimmed.append(replace(entry, case=case, results=_outline(entry.results, outlines)))
    return trimmed


def _worst_cases(entries: Sequence[CaseResult], full: int) -> set[int]:
    """Return the positions of the `full` worst cases by each metric, and of the worst ones with findings."""
    worst: set[int] = set()
    for metric in range(len(entries[0].results)):
        pairs = [(entry, entry.results[metric]) for entry in entries]
        # Results without a score come first among the worst, but only results with findings are shown side by side.
        for group in (pairs, [pair for pair in pairs if pair[1].findings]):
            worst.update(entry.index for entry, _ in nsmallest(full, group, key=worst_first))
    return worst


def _outline(
    results: Sequence[MetricResult], outlines: dict[Hashable, tuple[MetricResult, ...]]
) -> tuple[MetricResult, ...]:
    """Return results without what makes them large; equal ones are stored once.

    Of findings their kinds, tools and places stay, which the report counts.
    """
    places = tuple(tuple(map(_values_of, one.findings)) for one in results)
    key = (places, tuple((one.status, one.score, one.passed, one.warnings) for one in results))
    if key not in outlines:
        dropped: dict[str, Any] = {"reason": None, "error": None, "parts": {}, "alignment": None}
        outlines[key] = tuple(
            replace(
                one,
                findings=tuple(Finding(message="", **dict(zip(_COUNTED, values, strict=True))) for values in own),
                **dropped,
            )
            for one, own in zip(results, places, strict=True)
        )
    return outlines[key]


def measure_case(case: TestCase, options: Options) -> tuple[tuple[MetricResult, ...], str | None]:
    """Return a result for each metric, and the key of the cluster of the case, or `None` if it has none."""
    pairs = zip(options.metrics, options.names, strict=True)
    results = tuple(measure_in_thread(metric, case).renamed(name) for metric, name in pairs)
    cluster = None if options.cluster is None else value_at(case, options.cluster, "cluster")
    return results, None if cluster is None else canonical_json(to_json_value(cluster, []))


def _read_part(part: Part, path: str, *, allow_nan: bool) -> Iterator[Document]:
    """Yield the documents of a part; interrupted runs that were resumed are marked."""
    is_whole = part.kind == "whole"
    entries = read_documents(path, allow_nan=allow_nan) if is_whole else _lines(part, path, allow_nan=allow_nan)
    replaced = None if part.replaced is None else set(part.replaced)
    for document in entries:
        if not is_interrupted(document.value):
            yield document
            continue
        if replaced is None:  # without an interrupted run, the file is not read again
            replaced = replaced_numbers(path)
        yield document._replace(replaced=document.number in replaced)


def _lines(part: Part, path: str, *, allow_nan: bool) -> Iterator[Document]:
    for number, raw in part_lines(part, path):
        document = read_line(raw, number, allow_nan=allow_nan)
        if document is not None:
            yield document


@contextmanager
def collect_warnings(outcome: Outcome) -> Generator[None, None, None]:
    """Collect the warnings of toolgrade in the outcome, at most `MAX_REPORTED`: there may be one for each case."""

    def collect(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401 - as given
        if issubclass(category, ToolgradeWarning):
            outcome.warn(str(message))
        else:
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.simplefilter("always", ToolgradeWarning)
        warnings.showwarning = collect
        yield
