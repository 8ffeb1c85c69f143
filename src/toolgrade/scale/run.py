"""One run over files: survey them, compare with a run to resume, score the parts, check and join the results."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from toolgrade._internal.json import JsonObject
from toolgrade.dataset import kind_problem, placed_text, problem_lines, replaced_text, source_name, torn_text
from toolgrade.errors import ConfigurationError, DataFileError, Problem, ToolgradeWarning, TornLineWarning
from toolgrade.report import CaseResult, Report
from toolgrade.results.jsonl import Header
from toolgrade.results.writer import new_header
from toolgrade.scale.local_pool import run_jobs
from toolgrade.scale.part_store import VERSION, Folder, Manifest
from toolgrade.scale.partition import (
    Part,
    Stamp,
    divide_files,
    number_lines,
    survey_part,
    with_replaced_lines,
)
from toolgrade.scale.score_part import MAX_REPORTED, FirstWarnings, Options, Outcome, score_part, trim_entries
from toolgrade.scale.totals import Totals

T = TypeVar("T")
SomeOutcome = TypeVar("SomeOutcome", bound=Outcome)

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of bytes that are done, and of all."""


def quiet(_done: int, _total: int) -> None:
    """Ignore the progress."""


_WORTH_SCORING = 4 << 20
_WORTH_READING = 512 << 20
"""Bytes of input that justify starting one more process."""


@dataclass
class CombinedOutcome(FirstWarnings):
    """Sum of the outcomes of the parts so far, in the order of the parts.

    `cases` and `replaced` count by file, `entries` are the cases of a report, and `digests` are those of the lines of
    each part.
    """

    totals: Totals = field(default_factory=Totals)
    cases: Counter[int] = field(default_factory=Counter[int])
    replaced: Counter[int] = field(default_factory=Counter[int])
    entries: list[CaseResult] = field(default_factory=list[CaseResult])
    problems: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    torn: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    more_problems: int = 0
    is_clustered: bool = False
    digests: list[str] = field(default_factory=list[str])

    def add(self, part: Part, outcome: Outcome) -> None:
        """Add the outcome of a part."""
        start = self.totals.cases
        self.entries += [replace(entry, index=start + entry.index) for entry in outcome.entries]
        self.totals += outcome.totals
        self.cases[part.file] += outcome.totals.cases
        self.replaced[part.file] += outcome.replaced
        self.problems += [LocatedProblem(part.file, part.number, problem) for problem in outcome.problems]
        torn = [LocatedProblem(part.file, part.number, problem) for problem in outcome.torn]
        self.torn += torn[: max(0, MAX_REPORTED - len(self.torn))]
        for text in outcome.warnings:
            self.warn(text)
        self.more_warnings += outcome.more_warnings
        self.more_problems += outcome.more_problems
        self.is_clustered |= outcome.is_clustered
        self.digests.append(outcome.digest)

    def check(self, paths: Sequence[str], cluster: str | None) -> None:
        """Check that all files could be read.

        Raises:
            DataFileError: Lines cannot be read, or a file has no case.
            ConfigurationError: No case has the cluster.
        """
        wrong = {located.file for located in self.problems}
        for file, path in enumerate(paths):
            if file in wrong:
                self._explain(file, path)
            elif not self.cases[file]:
                empty = LocatedProblem(file, 0, Problem("$", "the file is empty", 1))
                self.problems += self._torn_lines(file) or [empty]
        if self.problems:
            raise self._problems_error(paths)
        if cluster is not None and not self.is_clustered:
            raise ConfigurationError(f"no case has {cluster!r}, the cluster")

    def _explain(self, file: int, path: str) -> None:
        """Replace the problems of a file of another kind by that kind; add the torn lines to those of other files."""
        kind = kind_problem(path)
        if kind is None:
            self.problems += self._torn_lines(file)
            return
        self.problems = [located for located in self.problems if located.file != file]
        self.problems.append(LocatedProblem(file, 0, kind))
        self.more_problems = 0

    def _torn_lines(self, file: int) -> list[LocatedProblem]:
        return [located for located in self.torn if located.file == file]

    def _problems_error(self, paths: Sequence[str]) -> DataFileError:
        """Return the error that lists the first problems and says how many more there are."""
        listed = sorted(self.problems, key=LocatedProblem.place)[:MAX_REPORTED]
        texts = [placed_text(source_name(paths[located.file]), located.problem) for located in listed]
        message = problem_lines(texts, self.more_problems + len(self.problems))
        return DataFileError(message, [located.problem for located in listed])

    def texts(self, paths: Sequence[str]) -> JsonObject:
        """Return the texts of the warnings."""
        counts = sorted(self.replaced.items())
        replaced = [replaced_text(source_name(paths[file]), count) for file, count in counts if count]
        more = [f"and {self.more_warnings} more warnings"] if self.more_warnings else []
        return {
            "torn": [torn_text(source_name(paths[located.file]), located.problem) for located in self.torn],
            "warnings": [*replaced, *self.warnings, *more],
        }


class LocatedProblem(NamedTuple):
    """A problem with its file and part."""

    file: int
    part: int
    problem: Problem

    def place(self) -> tuple[int, int, int]:
        """Return the key by which problems are sorted."""
        return self.file, self.problem.line or 0, self.part


@dataclass(frozen=True)
class Run:
    """One run over files; it writes results if it has a folder for its parts.

    `full` is the number of worst cases by each metric that stay whole in a report, 0 for all; `None` computes totals
    only.
    """

    paths: Sequence[str]
    options: Options
    processes: int
    progress: Progress
    folder: Folder | None = None
    full: int | None = None

    def totals(self, part_bytes: int) -> Totals:
        """Score the remaining parts, write the results, and return their totals; for errors see `_score_all`."""
        stored = None if self.folder is None else self.folder.joined_record()
        if stored is not None:
            self._manifest([Stamp.of(path) for path in self.paths], part_bytes)  # the files must be the same
            issue_warnings(stored)
            return Totals.from_dict(stored["totals"])
        return self._score_all(part_bytes)[1].totals

    def report(self, part_bytes: int) -> Report:
        """Do the same as `totals`, and return a report in which only the worst results are whole."""
        began = time.monotonic()
        header, combined = self._score_all(part_bytes)
        about = {name: getattr(header, name) for name in ("toolgrade", "python", "started_at")}
        about["seconds"] = round(time.monotonic() - began, 3)
        return Report(tuple(self.options.names), tuple(combined.entries), about=about)

    def _score_all(self, part_bytes: int) -> tuple[Header, CombinedOutcome]:
        """Score the remaining parts and write the results.

        Raises:
            ConfigurationError: The run to resume is a different one, or no case has the cluster.
            DataFileError: See `CombinedOutcome.check`; nothing is stored then.
            OSError: A file cannot be read or written.
        """
        stamps = [Stamp.of(path) for path in self.paths]
        manifest = self._manifest(stamps, part_bytes)
        combined = self._score_parts(manifest, stamps)
        try:
            combined.check(self.paths, self.options.cluster)
        except (ConfigurationError, DataFileError):
            if self.folder is not None:
                self.folder.remove()
            raise
        texts = combined.texts(self.paths)
        if self.folder is not None:
            record = {"totals": combined.totals.to_dict(), **texts}
            self.folder.join(manifest, combined.totals.cases, combined.digests, record)
        issue_warnings(texts)
        return manifest.header, combined

    def _manifest(self, stamps: Sequence[Stamp], part_bytes: int) -> Manifest:
        """Survey the files and return the manifest; a run that is resumed keeps its own."""
        before = None if self.folder is None else self.folder.manifest()
        part_bytes = part_bytes if before is None else before.part_bytes
        planned = list(divide_files(self.paths, part_bytes))
        workers = self._workers(sum(stamp.size for stamp in stamps), _WORTH_READING)
        names, metrics = self.options.names, self.options.metrics
        entries = [(name, metric, metric.threshold) for name, metric in zip(names, metrics, strict=True)]
        manifest = Manifest(
            version=VERSION,
            header=new_header("cases", (), entries, None)[0],  # the number of cases and their fingerprint come later
            options=self.options.to_dict(),
            files=tuple(self.paths),
            parts=tuple(survey(self.paths, planned, workers, with_digests=self.folder is not None)),
            part_bytes=part_bytes,
        )
        if self.folder is None:
            return manifest
        if before is None:
            self.folder.begin(manifest)
            return manifest
        self.folder.check_same(before, manifest)
        return before

    def _score_parts(self, manifest: Manifest, stamps: Sequence[Stamp]) -> CombinedOutcome:
        """Score the parts that are not done, and return all outcomes."""
        earlier = self._finished_outcomes(manifest)
        left = [part for part in manifest.parts if part.number not in earlier]
        total = _total_size(manifest.parts)
        self.progress(total - _total_size(left), total)
        work = _Work(tuple(self.paths), tuple(stamps), self.options, self.folder, self.full)
        size = sum(stamp.size for stamp in stamps)
        workers = self._workers(size, min(_WORTH_SCORING, manifest.part_bytes))
        combined = CombinedOutcome()
        with closing(run_jobs(work, left, workers)) as scoring:
            for _ in combine(combined, manifest.parts, scoring, self.progress, earlier):
                pass
        return combined

    def _finished_outcomes(self, manifest: Manifest) -> dict[int, Outcome]:
        """Return the outcomes of parts that an earlier run has finished, by the numbers of the parts."""
        if self.folder is None or self.full is not None:
            return {}  # for a report, the worker reads the results of a finished part again
        outcomes = {part.number: self.folder.load_outcome(part) for part in manifest.parts}
        return {number: outcome for number, outcome in outcomes.items() if outcome is not None}

    def _workers(self, size: int, worth: int) -> int:
        return min(self.processes, 1 + size // worth)


@dataclass(frozen=True)
class _Work:
    """Scoring of one part, in any process."""

    paths: tuple[str, ...]
    stamps: tuple[Stamp, ...]
    options: Options
    folder: Folder | None
    full: int | None

    def __call__(self, part: Part) -> Outcome:
        if self.folder is not None and self.full is not None:
            finished = self.folder.load_outcome(part)
            if finished is not None:
                finished.entries = trim_entries(self.folder.entries(part), self.full)
                return finished
        path = self.paths[part.file]
        target = None if self.folder is None else self.folder.lines(part)
        outcome = score_part(part, path, self.options, target, self.full)
        self.stamps[part.file].check(path, "changed while it was scored; score it when no program writes to it")
        if self.folder is not None and not outcome.problems:  # here, so that the part survives a failure of others
            self.folder.save_outcome(part, outcome)
        return outcome


def combine(
    combined: CombinedOutcome,
    parts: Sequence[Part],
    outcomes: Iterator[tuple[Part, SomeOutcome]],
    progress: Progress,
    earlier: Mapping[int, SomeOutcome] = MappingProxyType({}),
) -> Iterator[tuple[Part, SomeOutcome]]:
    """Yield the outcomes in the order of the parts, each after adding it, until there are enough problems to report."""
    total = _total_size(parts)
    finished = _total_size([part for part in parts if part.number in earlier])
    for part, outcome in in_order(parts, outcomes, earlier):
        combined.add(part, outcome)
        yield part, outcome
        if part.number not in earlier:
            finished += part.size
            progress(finished, total)
        if len(combined.problems) >= MAX_REPORTED:  # the other files may be large
            break


def _total_size(parts: Sequence[Part]) -> int:
    return sum(part.size for part in parts)


def in_order(
    parts: Sequence[Part], outcomes: Iterator[tuple[Part, T]], earlier: Mapping[int, T]
) -> Iterator[tuple[Part, T]]:
    """Yield the outcomes of parts, which come in any order, in the order of the parts.

    `earlier` has outcomes of previous runs by the numbers of the parts.
    """
    waiting = dict(earlier)
    for part in parts:
        while part.number not in waiting:
            finished, outcome = next(outcomes)
            waiting[finished.number] = outcome
        yield part, waiting.pop(part.number)


def survey(paths: Sequence[str], parts: Sequence[Part], workers: int, *, with_digests: bool = False) -> list[Part]:
    """Return the parts with their numbers of lines, first lines, replaced lines, and digests."""
    work = partial(survey_part, tuple(paths), with_digests)
    with closing(run_jobs(work, parts, workers)) as surveying:
        by_number = {part.number: measured for part, measured in surveying}
    return with_replaced_lines(number_lines([by_number[part.number] for part in parts]), paths)


def issue_warnings(texts: JsonObject) -> None:
    """Issue the warnings of `CombinedOutcome.texts`."""
    for text in texts["torn"]:
        warnings.warn(text, TornLineWarning, stacklevel=4)
    for text in texts["warnings"]:
        warnings.warn(text, ToolgradeWarning, stacklevel=4)
