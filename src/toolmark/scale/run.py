"""One run over files: survey them, compare with a run to resume, score the parts, check and join the results."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

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
from toolmark.results.jsonl import Header
from toolmark.results.writer import new_header
from toolmark.scale.engines.local_pool import done
from toolmark.scale.part_store import VERSION, Folder, Manifest, check_same
from toolmark.scale.partition import Part, Stamp, divided, numbered, surveyed
from toolmark.scale.score_part import MOST_TOLD, Options, Outcome, scored
from toolmark.scale.totals import Totals

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of parts that are done, and of all parts."""

Engine: TypeAlias = Callable[
    [Callable[[Part], Outcome], Sequence[Part], int], Generator[tuple[Part, Outcome], None, None]
]
"""Scores parts, and yields each with its outcome, in any order."""

_WORTH_SCORING = 4 << 20
_WORTH_READING = 512 << 20
"""Bytes of input that justify starting one more process."""


@dataclass
class Gathered:
    """The outcomes of the parts so far, added up.

    `cases` counts by file, `warnings` have the first part of each text, `more` counts what was not stored, and
    `digests` are those of the lines of each part.
    """

    totals: Totals = field(default_factory=Totals)
    cases: Counter[int] = field(default_factory=Counter[int])
    problems: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    torn: list[LocatedProblem] = field(default_factory=list["LocatedProblem"])
    warnings: dict[str, int] = field(default_factory=dict[str, int])
    more: Counter[str] = field(default_factory=Counter[str])
    is_clustered: bool = False
    digests: dict[int, str] = field(default_factory=dict[int, str])

    def add(self, part: Part, outcome: Outcome) -> None:
        """Add the outcome of a part."""
        self.totals += outcome.totals
        self.cases[part.file] += outcome.totals.cases
        self.problems += [LocatedProblem(part.file, part.number, problem) for problem in outcome.problems]
        torn = [LocatedProblem(part.file, part.number, problem) for problem in outcome.torn]
        self.torn += torn[: max(0, MOST_TOLD - len(self.torn))]
        for text in outcome.warnings:
            if text in self.warnings or len(self.warnings) < MOST_TOLD:
                self.warnings[text] = min(part.number, self.warnings.get(text, part.number))
            else:
                self.more["warning"] += 1
        self.more["problem"] += outcome.more_problems
        self.more["warning"] += outcome.more_warnings
        self.is_clustered |= outcome.is_clustered
        self.digests[part.number] = outcome.digest

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
        listed = sorted(self.problems, key=LocatedProblem.place)[:MOST_TOLD]
        more = self.more["problem"] + len(self.problems) - len(listed)
        lines = [placed_text(source_name(paths[located.file]), located.problem) for located in listed]
        raise DataFileError(
            "\n".join([*lines, *([f"and {more} more"] if more else [])]), [located.problem for located in listed]
        )

    def texts(self, paths: Sequence[str]) -> JsonObject:
        """Return the texts of the warnings."""
        torn = sorted(self.torn, key=LocatedProblem.place)
        texts = sorted(self.warnings, key=lambda text: self.warnings[text])
        more = [f"and {self.more['warning']} more warnings"] if self.more["warning"] else []
        return {
            "torn": [torn_text(source_name(paths[located.file]), located.problem) for located in torn],
            "warnings": [*texts, *more],
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
    """One run over files; without a `folder` it computes totals only."""

    paths: Sequence[str]
    options: Options
    processes: int
    progress: Progress
    folder: Folder | None = None
    done: Engine = done

    def totals(self, part_bytes: int) -> Totals:
        """Score the remaining parts, write the results, and return their totals.

        Raises:
            ConfigurationError: The run to resume is a different one, or no case has the cluster.
            DataFileError: See `Gathered.check`; nothing is stored then.
            OSError: A file cannot be read or written.
        """
        stamps = [Stamp.of(path) for path in self.paths]
        manifest = self._manifest(stamps, part_bytes)
        if self.folder is not None and (stored := self.folder.joined_record()) is not None:
            warn_of(stored)
            return Totals.from_dict(stored["totals"])
        gathered = self._gathered(manifest, stamps)
        try:
            gathered.check(self.paths, self.options.cluster)
        except (ConfigurationError, DataFileError):
            if self.folder is not None:
                self.folder.remove()
            raise
        texts = gathered.texts(self.paths)
        if self.folder is not None:
            digests = [gathered.digests[part.number] for part in manifest.parts]
            self.folder.join(manifest, digests, {"totals": gathered.totals.to_dict(), **texts})
        warn_of(texts)
        return gathered.totals

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
        gathered, left, key = Gathered(), list[Part](), manifest.key
        for part in manifest.parts:
            outcome = None if self.folder is None else self.folder.load_outcome(part, key)
            if outcome is None:
                left.append(part)
            else:
                gathered.add(part, outcome)
        total = len(manifest.parts)
        self.progress(total - len(left), total)
        # Absolute, because a process of a cluster has another working directory.
        folder = None if self.folder is None else Folder(self.folder.target.absolute())
        paths = tuple(str(Path(path).absolute()) for path in self.paths)
        work = _Work(paths, tuple(stamps), self.options, folder, key)
        size = sum(stamp.size for stamp in stamps)
        workers = self._workers(size, min(_WORTH_SCORING, manifest.part_bytes))
        with closing(self.done(work, left, workers)) as scoring:
            for number, (part, outcome) in enumerate(scoring, start=total - len(left) + 1):
                gathered.add(part, outcome)
                self.progress(number, total)
                if len(gathered.problems) >= MOST_TOLD:  # enough to report, and the other files may be large
                    break
        if len(gathered.digests) < total and not gathered.problems:
            raise WorkerDiedError(f"only {len(gathered.digests)} of {plural(total, 'part')} came back")
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

    def __call__(self, part: Part) -> Outcome:
        path = self.paths[part.file]
        target = None if self.folder is None else self.folder.lines(part)
        outcome = scored(part, path, self.options, target)
        if Stamp.of(path) != self.stamps[part.file]:
            problem = Problem("$", "changed while it was scored; score it when no program writes to it")
            raise DataFileError(placed_text(source_name(path), problem), [problem])
        if self.folder is not None and not outcome.problems:  # here, so that the part survives a failure of others
            self.folder.save_outcome(part, outcome, self.key)
        return outcome


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
