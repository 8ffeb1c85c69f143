"""One run over files: survey them, compare with a run to resume, score the parts, check and join the results."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from toolmark._internal.json import JsonObject
from toolmark._internal.text import plural
from toolmark.dataset import placed_text, source_name, torn_text
from toolmark.errors import (
    ConfigurationError,
    DataFileError,
    Problem,
    ToolmarkWarning,
    TornLineWarning,
    WorkerDiedError,
)
from toolmark.report import CaseResult, Report
from toolmark.results.jsonl import Header
from toolmark.results.writer import new_header
from toolmark.scale.engines.local_pool import done
from toolmark.scale.part_store import VERSION, Folder, Manifest, check_same
from toolmark.scale.partition import Part, Stamp, divided, numbered, size_of, surveyed
from toolmark.scale.score_part import MAX_REPORTED, Options, Outcome, scored, trimmed
from toolmark.scale.totals import Totals

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of bytes (row groups of Parquet) that are done, and of all."""

Engine: TypeAlias = Callable[
    [Callable[[Part], Outcome], Sequence[Part], int], Generator[tuple[Part, Outcome], None, None]
]
"""Scores parts, and yields each with its outcome, in any order."""

_WORTH_SCORING = 4 << 20
_WORTH_READING = 512 << 20
"""Bytes of input that justify starting one more process."""


@dataclass
class Gathered:
    """The outcomes of the parts so far, added up in their order.

    `cases` counts by file, `entries` are for a report, `more` counts what was not stored, and `digests` are those of
    the lines of each part.
    """

    totals: Totals = field(default_factory=Totals)
    cases: Counter[int] = field(default_factory=Counter[int])
    entries: list[CaseResult] = field(default_factory=list[CaseResult])
    problems: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    torn: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    warnings: dict[str, None] = field(default_factory=dict[str, None])
    more: Counter[str] = field(default_factory=Counter[str])
    is_clustered: bool = False
    digests: list[str] = field(default_factory=list[str])

    def add(self, part: Part, outcome: Outcome) -> None:
        """Add the outcome of a part."""
        start = self.totals.cases
        self.entries += [replace(entry, index=start + entry.index) for entry in outcome.entries]
        self.totals += outcome.totals
        self.cases[part.file] += outcome.totals.cases
        self.problems += [LocatedProblem(part.file, part.number, problem) for problem in outcome.problems]
        torn = [LocatedProblem(part.file, part.number, problem) for problem in outcome.torn]
        self.torn += torn[: max(0, MAX_REPORTED - len(self.torn))]
        for text in outcome.warnings:
            if text in self.warnings or len(self.warnings) < MAX_REPORTED:
                self.warnings[text] = None
            else:
                self.more["warning"] += 1
        self.more["problem"] += outcome.more_problems
        self.more["warning"] += outcome.more_warnings
        self.is_clustered |= outcome.is_clustered
        self.digests.append(outcome.digest)

    def check(self, paths: Sequence[str], cluster: str | None) -> None:
        """Check that all files could be read.

        Raises:
            DataFileError: Lines cannot be read, or a file has no case.
            ConfigurationError: No case has the cluster.
        """
        wrong = {located.file for located in self.problems}
        for file in range(len(paths)):
            if file in wrong or not self.cases[file]:
                torn = [located for located in self.torn if located.file == file]
                empty = [] if file in wrong or torn else [LocatedProblem(file, 0, Problem("$", "the file is empty", 1))]
                self.problems += torn + empty
        if not self.problems:
            if cluster is not None and not self.is_clustered:
                raise ConfigurationError(f"no case has {cluster!r}, the cluster")
            return
        listed = sorted(self.problems, key=LocatedProblem.place)[:MAX_REPORTED]
        more = self.more["problem"] + len(self.problems) - len(listed)
        lines = [placed_text(source_name(paths[located.file]), located.problem) for located in listed]
        raise DataFileError(
            "\n".join([*lines, *([f"and {more} more"] if more else [])]), [located.problem for located in listed]
        )

    def texts(self, paths: Sequence[str]) -> JsonObject:
        """Return the texts of the warnings."""
        more = [f"and {self.more['warning']} more warnings"] if self.more["warning"] else []
        return {
            "torn": [torn_text(source_name(paths[located.file]), located.problem) for located in self.torn],
            "warnings": [*self.warnings, *more],
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
    """One run over files; without a `folder` it writes no results.

    `full` is the number of worst results by each metric that a report shows, 0 for all; `None` computes totals only.
    """

    paths: Sequence[str]
    options: Options
    processes: int
    progress: Progress
    folder: Folder | None = None
    done: Engine = done
    full: int | None = None

    def totals(self, part_bytes: int) -> Totals:
        """Score the remaining parts, write the results, and return their totals.

        Raises:
            ConfigurationError: See `_scored`.
            DataFileError: See `_scored`.
            OSError: See `_scored`.
        """
        if self.folder is not None and (stored := self.folder.joined_record()) is not None:
            self._manifest([Stamp.of(path) for path in self.paths], part_bytes)  # the files must be the same
            warn_of(stored)
            return Totals.from_dict(stored["totals"])
        return self._scored(part_bytes)[1].totals

    def report(self, part_bytes: int) -> Report:
        """Do the same, and return a report of all cases, in which only the worst results are in full.

        Raises:
            ConfigurationError: See `_scored`.
            DataFileError: See `_scored`.
            OSError: See `_scored`.
        """
        began = time.monotonic()
        header, gathered = self._scored(part_bytes)
        about = {name: getattr(header, name) for name in ("toolmark", "python", "started_at")}
        about["seconds"] = round(time.monotonic() - began, 3)
        return Report(tuple(self.options.names), tuple(gathered.entries), about=about)

    def _scored(self, part_bytes: int) -> tuple[Header, Gathered]:
        """Score the remaining parts and write the results.

        Raises:
            ConfigurationError: The run to resume is a different one, or no case has the cluster.
            DataFileError: See `Gathered.check`; nothing is stored then.
            OSError: A file cannot be read or written.
        """
        stamps = [Stamp.of(path) for path in self.paths]
        manifest = self._manifest(stamps, part_bytes)
        gathered = self._gathered(manifest, stamps)
        try:
            gathered.check(self.paths, self.options.cluster)
        except (ConfigurationError, DataFileError):
            if self.folder is not None:
                self.folder.remove()
            raise
        texts = gathered.texts(self.paths)
        if self.folder is not None:
            self.folder.join(manifest, gathered.digests, {"totals": gathered.totals.to_dict(), **texts})
        warn_of(texts)
        return manifest.header, gathered

    def _manifest(self, stamps: Sequence[Stamp], part_bytes: int) -> Manifest:
        """Survey the files and return the manifest; a run that is resumed keeps its own."""
        before = None if self.folder is None else self.folder.manifest()
        part_bytes = part_bytes if before is None else before.part_bytes
        planned = list(divided(self.paths, part_bytes))
        workers = self._workers(sum(stamp.size for stamp in stamps), _WORTH_READING)
        manifest = Manifest(
            version=VERSION,
            header=_header(self.options),
            options=self.options.to_dict(),
            files=tuple(self.paths),
            parts=tuple(survey(self.paths, planned, workers)),
            part_bytes=part_bytes,
        )
        if self.folder is None:
            return manifest
        if before is None:
            self.folder.begin(manifest)
            return manifest
        check_same(self.folder.target, before, manifest)
        return before

    def _gathered(self, manifest: Manifest, stamps: Sequence[Stamp]) -> Gathered:
        """Score the parts that are not done, and return all outcomes."""
        gathered, key = Gathered(), manifest.key
        earlier: dict[int, Outcome] = {}
        for part in manifest.parts:
            # For a report, the worker reads the results of a finished part again.
            outcome = None if self.folder is None or self.full is not None else self.folder.load_outcome(part, key)
            if outcome is not None:
                earlier[part.number] = outcome
        left = [part for part in manifest.parts if part.number not in earlier]
        total, remaining = (sum(map(size_of, parts)) for parts in (manifest.parts, left))
        self.progress(total - remaining, total)
        # Absolute, because a process of a cluster has another working directory.
        folder = None if self.folder is None else Folder(self.folder.target.absolute())
        paths = tuple(str(Path(path).absolute()) for path in self.paths)
        work = _Work(paths, tuple(stamps), self.options, folder, key, self.full)
        size = sum(stamp.size for stamp in stamps)
        workers = self._workers(size, min(_WORTH_SCORING, manifest.part_bytes))
        with closing(self.done(work, left, workers)) as scoring:
            for part, outcome in in_order(manifest.parts, scoring, earlier):
                gathered.add(part, outcome)
                if part.number not in earlier:
                    remaining -= size_of(part)
                    self.progress(total - remaining, total)
                if len(gathered.problems) >= MAX_REPORTED:  # enough to report, and the other files may be large
                    break
        return gathered

    def _workers(self, size: int, worth: int) -> int:
        return min(self.processes, 1 + size // worth)


@dataclass(frozen=True)
class _Work:
    """Scoring of one part, in any process."""

    paths: tuple[str, ...]
    stamps: tuple[Stamp, ...]
    options: Options
    folder: Folder | None
    key: str
    full: int | None

    def __call__(self, part: Part) -> Outcome:
        path = self.paths[part.file]
        target = None if self.folder is None else self.folder.lines(part)
        if self.folder is not None and self.full is not None:
            finished = self.folder.load_outcome(part, self.key)
            if finished is not None:
                finished.entries = trimmed(self.folder.entries(part), self.full)
                return finished
        outcome = scored(part, path, self.options, target, self.full)
        if Stamp.of(path) != self.stamps[part.file]:
            problem = Problem("$", "changed while it was scored; score it when no program writes to it")
            raise DataFileError(placed_text(source_name(path), problem), [problem])
        if self.folder is not None and not outcome.problems:  # here, so that the part survives a failure of others
            self.folder.save_outcome(part, outcome, self.key)
        return outcome


def in_order(
    parts: Sequence[Part], outcomes: Iterator[tuple[Part, T]], earlier: Mapping[int, T]
) -> Iterator[tuple[Part, T]]:
    """Yield the outcomes of parts, which come in any order, in the order of the parts.

    `earlier` has outcomes of previous runs by the numbers of the parts.

    Raises:
        WorkerDiedError: A part has no outcome.
    """
    waiting = dict(earlier)
    for place, part in enumerate(parts):
        while part.number not in waiting:
            following = next(outcomes, None)
            if following is None:
                raise WorkerDiedError(f"only {place} of {plural(len(parts), 'part')} came back")
            waiting[following[0].number] = following[1]
        yield part, waiting.pop(part.number)


def survey(paths: Sequence[str], parts: Sequence[Part], workers: int) -> list[Part]:
    """Return the parts with their digests, their numbers of lines, and the number of the first line of each."""
    with closing(done(partial(_surveyed, tuple(paths)), parts, workers)) as surveying:
        by_number = {part.number: measured for part, measured in surveying}
    return numbered([by_number[part.number] for part in parts])


def _surveyed(paths: tuple[str, ...], part: Part) -> Part:
    return surveyed(part, paths[part.file])


def _header(options: Options) -> Header:
    """Return the header of the results; their number and fingerprint are not known yet."""
    metrics = [(name, metric, metric.threshold) for name, metric in zip(options.names, options.metrics, strict=True)]
    header, _ = new_header("cases", (), metrics, None)
    return header


def warn_of(texts: JsonObject) -> None:
    """Issue the warnings of `Gathered.texts`."""
    for text in texts["torn"]:
        warnings.warn(text, TornLineWarning, stacklevel=4)
    for text in texts["warnings"]:
        warnings.warn(text, ToolmarkWarning, stacklevel=4)
