"""What happens in what order when files are scored? Survey, compare with what was begun, score, check, join."""

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
from toolmark.results.writer import EvaluationKey
from toolmark.scale.engines.local_pool import done
from toolmark.scale.part_store import VERSION, Folder, Manifest, check_same
from toolmark.scale.partition import Part, Stamp, divided, numbered, surveyed
from toolmark.scale.score_part import MOST_TOLD, Options, Outcome, scored
from toolmark.scale.totals import Totals

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many parts are done, and how many there are."""

Engine: TypeAlias = Callable[
    [Callable[[Part], Outcome], Sequence[Part], int], Generator[tuple[Part, Outcome], None, None]
]
"""Has parts scored, and yields each with what became of it, in any order."""

_WORTH_SCORING = 4 << 20
_WORTH_READING = 512 << 20
"""Bytes for which one more process is worth its start."""


@dataclass
class Gathered:
    """What became of the parts so far.

    Attributes:
        totals: What all results add up to.
        cases: How many there are, by file.
        problems: What could not be read.
        torn: Lines that were never written to their end.
        told: Texts of warnings, with the first part that each is of.
        more: Problems, torn lines and warnings that were not kept, by these names.
        is_clustered: Whether a case has a cluster.
        digests: Of the lines of each part, by its number.
    """

    totals: Totals = field(default_factory=Totals)
    cases: Counter[int] = field(default_factory=Counter[int])
    problems: list[Found] = field(default_factory=list["Found"])
    torn: list[Found] = field(default_factory=list["Found"])
    told: dict[str, int] = field(default_factory=dict[str, int])
    more: Counter[str] = field(default_factory=Counter[str])
    is_clustered: bool = False
    digests: dict[int, str] = field(default_factory=dict[int, str])

    def add(self, part: Part, outcome: Outcome) -> None:
        """Add what became of a part."""
        self.totals += outcome.totals
        self.cases[part.file] += outcome.totals.cases
        self.problems += [Found(part.file, part.number, problem) for problem in outcome.problems]
        torn = [Found(part.file, part.number, problem) for problem in outcome.torn]
        self.torn += torn[: max(0, MOST_TOLD - len(self.torn))]
        for text in outcome.warnings:
            if text in self.told or len(self.told) < MOST_TOLD:
                self.told[text] = min(part.number, self.told.get(text, part.number))
            else:
                self.more["warning"] += 1
        self.more["problem"] += outcome.more_problems
        self.more["warning"] += outcome.more_warnings
        self.is_clustered |= outcome.is_clustered
        self.digests[part.number] = outcome.digest

    def check(self, paths: Sequence[str], cluster: str | None) -> None:
        """Raise where something could not be read, a file has no case, or no case a cluster.

        Raises:
            DataFileError: One of the first two.
            ConfigurationError: The last.
        """
        wrong = {found.file for found in self.problems}
        for file in range(len(paths)):
            if file in wrong or not self.cases[file]:
                torn = [found for found in self.torn if found.file == file]
                empty = [] if file in wrong or torn else [Found(file, 0, Problem("$", "the file is empty", 1))]
                self.problems += torn + empty
        if not self.problems:
            if cluster is not None and not self.is_clustered:
                raise ConfigurationError(f"no case has {cluster!r}, the cluster")
            return
        kept = sorted(self.problems, key=Found.place)[:MOST_TOLD]
        more = self.more["problem"] + len(self.problems) - len(kept)
        lines = [placed_text(source_name(paths[found.file]), found.problem) for found in kept]
        raise DataFileError(
            "\n".join([*lines, *([f"and {more} more"] if more else [])]), [found.problem for found in kept]
        )

    def texts(self, paths: Sequence[str]) -> JsonObject:
        """Return what is to be warned of."""
        torn = sorted(self.torn, key=Found.place)
        told = sorted(self.told, key=lambda text: self.told[text])
        more = [f"and {self.more['warning']} more warnings"] if self.more["warning"] else []
        return {
            "torn": [torn_text(source_name(paths[found.file]), found.problem) for found in torn],
            "warnings": [*told, *more],
        }


class Found(NamedTuple):
    """A problem, with where it was found."""

    file: int
    part: int
    problem: Problem

    def place(self) -> tuple[int, int, int]:
        """By what problems are sorted."""
        return self.file, self.problem.line or 0, self.part


@dataclass(frozen=True)
class Run:
    """One run over files.

    Attributes:
        paths: Of the files.
        options: How cases are read and measured.
        processes: How many may work.
        progress: Is told about parts.
        folder: Where parts are kept; `None` if only the totals are wanted.
        done: Who works on the parts.
    """

    paths: Sequence[str]
    options: Options
    processes: int
    progress: Progress
    folder: Folder | None = None
    done: Engine = done

    def totals(self, part_bytes: int) -> Totals:
        """Score what is not scored yet, write the results, and return what they add up to.

        Raises:
            ConfigurationError: What was begun is another run, or no case has a cluster.
            DataFileError: See `Gathered.check`; nothing is kept then.
            OSError: A file cannot be read or written.
        """
        stamps = [Stamp.of(path) for path in self.paths]
        manifest = self._manifest(stamps, part_bytes)
        if self.folder is not None and (noted := self.folder.joined()) is not None:
            warn_of(noted)
            return Totals.from_dict(noted["totals"])
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
        """Return what is scored, surveyed; it is that of the run which is gone on with, if there is one."""
        before = None if self.folder is None else self.folder.manifest()
        part_bytes = part_bytes if before is None else before.part_bytes
        planned = list(divided(self.paths, part_bytes))
        workers = self._workers(sum(stamp.size for stamp in stamps), _WORTH_READING)
        found: dict[int, Part] = {}
        with closing(done(partial(_surveyed, tuple(self.paths)), planned, workers)) as surveying:
            found.update((part.number, made) for part, made in surveying)
        manifest = Manifest(
            version=VERSION,
            header=_header(self.options),
            options=self.options.to_dict(),
            files=tuple(self.paths),
            parts=tuple(numbered([found[part.number] for part in planned])),
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
        """Score the parts that are not done."""
        gathered, left, key = Gathered(), list[Part](), manifest.key
        for part in manifest.parts:
            outcome = None if self.folder is None else self.folder.kept(part, key)
            if outcome is None:
                left.append(part)
            else:
                gathered.add(part, outcome)
        total = len(manifest.parts)
        self.progress(total - len(left), total)
        # Absolute, since a process of a cluster works in another folder.
        folder = None if self.folder is None else Folder(self.folder.target.absolute())
        paths = tuple(str(Path(path).absolute()) for path in self.paths)
        work = _Work(paths, tuple(stamps), self.options, folder, key)
        size = sum(stamp.size for stamp in stamps)
        workers = self._workers(size, min(_WORTH_SCORING, manifest.part_bytes))
        with closing(self.done(work, left, workers)) as scoring:
            for number, (part, outcome) in enumerate(scoring, start=total - len(left) + 1):
                gathered.add(part, outcome)
                self.progress(number, total)
                if len(gathered.problems) >= MOST_TOLD:  # nobody reads on, and the rest may be large
                    break
        if len(gathered.digests) < total and not gathered.problems:
            raise WorkerDiedError(f"only {len(gathered.digests)} of {plural(total, 'part')} came back")
        return gathered

    def _workers(self, size: int, worth: int) -> int:
        return min(self.processes, 1 + size // worth)


@dataclass(frozen=True)
class _Work:
    """What a process does with a part."""

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
            problem = Problem("$", "changed while it was scored; score it when nobody writes into it")
            raise DataFileError(placed_text(source_name(path), problem), [problem])
        if self.folder is not None and not outcome.problems:  # here, so that it holds whatever becomes of the rest
            self.folder.keep(part, outcome, self.key)
        return outcome


def _surveyed(paths: tuple[str, ...], part: Part) -> Part:
    return surveyed(part, paths[part.file])


def _header(options: Options) -> Header:
    """Return the header of the results, without how many cases there are and which."""
    metrics = [(name, metric, metric.threshold) for name, metric in zip(options.names, options.metrics, strict=True)]
    return EvaluationKey.of("cases", (), metrics, None).header()


def warn_of(texts: JsonObject) -> None:
    """Warn of what `Gathered.texts` gives."""
    for text in texts["torn"]:
        warnings.warn(text, TornLineWarning, stacklevel=4)
    for text in texts["warnings"]:
        warnings.warn(text, ToolmarkWarning, stacklevel=4)
