"""Random samples of files of any size, drawn in one pass over their parts."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from toolmark._internal.json import canonical_json, json_path, to_json_value
from toolmark._internal.text import plural, printable
from toolmark.analysis.field_paths import value_at
from toolmark.cases import AnyCase, LLMTestCase
from toolmark.dataset import FileProblems, placed_text, read_any_case, source_name, write_cases
from toolmark.errors import ConfigurationError, DataFileError, InvalidDataError, Problem
from toolmark.scale.engines.local_pool import done
from toolmark.scale.partition import PART_BYTES, Part, Stamp, check_files, divided, numbered, surveyed
from toolmark.scale.reservoir import Draft, Drawn, key_of
from toolmark.scale.run import Gathered, Progress, warn_of
from toolmark.scale.score_part import MOST_TOLD, Outcome, documents, heard
from toolmark.scale.totals import Totals

SAMPLED: Final = "toolmark_sample"
"""Where the metadata of a drawn case says where it came from."""

_ALL = ""
"""Name of the only stratum where none were asked for."""

_WORTH_READING = 4 << 20
"""Bytes for which one more process is worth its start."""

_WHOLE = 1 << 62
_PACKED = (".gz", ".zst")
_FORMS = (".jsonl", ".ndjson", ".json", ".parquet")


@dataclass(frozen=True)
class SampledStratum:
    """One group of a stratified sample.

    Attributes:
        value: What its cases have at the path; `None` where they have nothing there.
        population: How many cases it has.
        drawn: How many of them are in the sample.
    """

    value: Any
    population: int
    drawn: int


@dataclass(frozen=True)
class Sample:
    """Cases that were drawn at random, without replacement.

    Attributes:
        cases: The cases, in an order which chance decides; each says in `metadata.toolmark_sample`
            where it came from.
        population: How many cases there are in all.
        strata: The groups of a stratified sample, by their values; empty of a simple one.
    """

    cases: tuple[AnyCase, ...]
    population: int
    strata: tuple[SampledStratum, ...] = ()

    def __str__(self) -> str:
        """Return how many were drawn, in all and of each stratum."""
        lines = [f"{len(self.cases)} of {plural(self.population, 'case')}"]
        lines += [f"  {canonical_json(one.value)}: {one.drawn} of {one.population}" for one in self.strata]
        return "\n".join(lines)


def sample_files(
    files: Sequence[str | os.PathLike[str]],
    size: int,
    *,
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    by: str | None = None,
    processes: int | None = None,
    allow_nan: bool = False,
    tolerant_arguments: bool = False,
    progress: Progress | None = None,
) -> Sample:
    """Return so many cases of files, drawn at random without replacement; every set of that many has the same chance.

    The draw depends on the seed and, for each case, on its content, its line, and the name of its file below the folder
    that all files share, without endings such as `.jsonl` and `.gz`. It does not depend on the order of the files, how
    they are packed, or how many processes there are. Equal cases have chances of their own. A larger sample with the
    same seed contains the smaller one. Memory grows with the size of the sample alone.

    Args:
        files: As for `score_files`; conversations may stand in them, too.
        size: How many cases are drawn; all, where there are fewer.
        out: A file that does not exist yet, for the sample as JSON Lines, gzipped if its name ends in `.gz`.
        seed: Other seeds draw other samples.
        by: Where in a case its stratum stands, such as `metadata.task`. Each stratum then gets the same number of
            cases, or all it has where that is less.
        processes: How many read at the same time; by default one for each core.
        allow_nan: See `toolmark.read_cases`.
        tolerant_arguments: See `toolmark.read_cases`.
        progress: Is told how many parts are read, and of how many.

    Raises:
        ConfigurationError: An option is wrong, `out` is there already, no case has a stratum, or there are too many
            strata for two cases each.
        DataFileError: Lines that cannot be read, of all files; also cases that were drawn before, of which nobody could
            tell what they stand for.
        MissingPackageError: zstd or Parquet needs a package of an extra that is not installed.
        WorkerDiedError: A process was killed.
        OSError: A file cannot be read or written.
    """
    paths = check_files(files)
    _check(size, seed, processes, by)
    target = None if out is None else _target(out)
    names = names_of(paths)
    work = _Read(tuple(paths), tuple(names), size, seed, by, allow_nan, tolerant_arguments)
    workers = (os.cpu_count() or 1) if processes is None else processes
    draft = _read(work, workers, progress)
    if by is not None and set(draft.sizes) == {"null"}:
        raise ConfigurationError(f"no case has {by!r}, the stratum")
    made = _made(draft, seed, by)
    if target is not None:
        write_cases(target, made.cases)
    return made


@dataclass(frozen=True)
class Name:
    """What a file is called.

    Attributes:
        shown: Below the folder that all files share.
        drawn: The same for the keys, without what says how it is packed.
    """

    shown: str
    drawn: str


def names_of(paths: Sequence[str]) -> list[Name]:
    """Return what files are called, each in its own way, wherever the folder stands that they share."""
    whole = [Path(path).absolute() for path in paths]
    try:
        shared = os.path.commonpath([path.parent for path in whole])
        shown = [path.relative_to(shared).as_posix() for path in whole]
    except ValueError:  # several drives share no folder
        shown = [path.as_posix() for path in whole]
    plain = [_without(_without(name, _PACKED), _FORMS) for name in shown]
    often = Counter(plain)
    return [Name(full, short if often[short] == 1 else full) for full, short in zip(shown, plain, strict=True)]


def _without(name: str, endings: Sequence[str]) -> str:
    found = next((ending for ending in endings if name.lower().endswith(ending)), "")
    return name[: len(name) - len(found)]


@dataclass
class _Parted(Outcome):
    """What became of a part: what may be drawn of it, beside what was wrong."""

    draft: Draft = field(default_factory=lambda: Draft(1))


@dataclass(frozen=True)
class _Read:
    """What a process does with a part."""

    paths: tuple[str, ...]
    names: tuple[Name, ...]
    size: int
    seed: int
    by: str | None
    allow_nan: bool
    tolerant_arguments: bool

    def __call__(self, part: Part) -> _Parted:
        outcome, told = _Parted(draft=Draft(self.size)), FileProblems(most=MOST_TOLD)
        path, name = self.paths[part.file], self.names[part.file]
        stamp, cases = Stamp.of(path), 0
        with heard(outcome):
            found = documents(part, path, allow_nan=self.allow_nan)
            for document, case in told.read(found, partial(self._case, name.shown, set())):
                number = document.line if document.item is None else document.item + 1
                key = key_of(self.seed, name.drawn, number or 0, document.value)
                outcome.draft.add(self._stratum(case), key, name.shown, number or 0, case.to_json)
                cases += 1
        if Stamp.of(path) != stamp:
            problem = Problem("$", "changed while it was read; draw from it when nobody writes into it")
            raise DataFileError(placed_text(source_name(path), problem), [problem])
        outcome.totals = Totals(cases)
        outcome.problems, outcome.more_problems = told.problems, told.more_problems
        outcome.torn, outcome.more_torn = told.torn, told.more_torn
        return outcome

    def _case(self, file: str, known: set[str], value: object, place: str) -> AnyCase:
        case = read_any_case(value, f"{file} {place}", tolerant_arguments=self.tolerant_arguments)
        if SAMPLED in case.metadata and file not in known:
            known.add(file)  # it will be true of all others in the file, and is said once
            message = "was drawn before, and stands for others; draw from the files that it came from"
            raise InvalidDataError(message, [Problem(json_path(("metadata", SAMPLED)), message)])
        return case

    def _stratum(self, case: AnyCase) -> str:
        if self.by is None:
            return _ALL
        return canonical_json(to_json_value(value_at(case, self.by, "stratum"), []))


def _read(work: _Read, processes: int, progress: Progress | None) -> Draft:
    """Return what may be drawn from all files.

    Raises:
        DataFileError: Something cannot be read; nothing is drawn then.
    """
    workers = min(processes, 1 + sum(Stamp.of(path).size for path in work.paths) // _WORTH_READING)
    parts = list(divided(work.paths, PART_BYTES if workers > 1 else _WHOLE))
    if workers > 1:
        parts = _with_lines(work.paths, parts, workers)
    gathered, draft = Gathered(), Draft(work.size)
    with closing(done(work, parts, workers)) as reading:
        for number, (part, outcome) in enumerate(reading, start=1):
            gathered.add(part, outcome)
            draft.merge(outcome.draft)
            if progress is not None:
                progress(number, len(parts))
            if len(gathered.problems) >= MOST_TOLD:  # nobody reads on, and the rest may be large
                break
    gathered.check(work.paths, None)
    warn_of(gathered.texts(work.paths))
    return draft


def _with_lines(paths: tuple[str, ...], parts: Sequence[Part], workers: int) -> list[Part]:
    """Return the parts with the number of the first line of each."""
    with closing(done(partial(_surveyed, paths), parts, workers)) as surveying:
        found = {part.number: made for part, made in surveying}
    return numbered([found[part.number] for part in parts])


def _surveyed(paths: tuple[str, ...], part: Part) -> Part:
    return surveyed(part, paths[part.file])


def _made(draft: Draft, seed: int, by: str | None) -> Sample:
    """Return the sample, each case with where it came from and what it stands for."""
    drawn = draft.drawn()
    whole = {"seed": seed, "population": draft.sizes.total(), "drawn": sum(map(len, drawn.values()))}
    strata: list[SampledStratum] = []
    listed: list[tuple[int, Drawn, dict[str, Any]]] = []
    for key, found in drawn.items():
        about: dict[str, Any] = {}
        if by is not None:
            one = SampledStratum(json.loads(key), draft.sizes[key], len(found))
            strata.append(one)
            about["stratum"] = {"by": by, "value": one.value, "population": one.population, "drawn": one.drawn}
        # Keys of a stratum of which few were drawn are small; as heavy as the stratum, those of all are alike.
        listed += [(case.key * draft.sizes[key] // len(found), case, about) for case in found]
    listed.sort(key=lambda entry: entry[:2], reverse=True)
    cases = [_with_origin(case, {**whole, **about}) for _, case, about in listed]
    return Sample(tuple(cases), draft.sizes.total(), tuple(strata))


def _with_origin(drawn: Drawn, about: Mapping[str, Any]) -> AnyCase:
    case: dict[str, Any] = json.loads(drawn.text)
    origin = {"file": drawn.file, "line": drawn.number, **about}
    return read_any_case({**case, "metadata": {**case.get("metadata", {}), SAMPLED: origin}}, "")


def _target(out: str | os.PathLike[str]) -> Path:
    """Return where the sample goes.

    Raises:
        ConfigurationError: Something is there already, maybe one of the files that it is drawn from.
    """
    target = Path(out)
    if target.exists():
        raise ConfigurationError(f"{printable(str(target))} is there already; name another file")
    return target


def _check(size: object, seed: object, processes: object, by: str | None) -> None:
    """Raise where an option is out of range.

    Raises:
        ConfigurationError: One is.
    """
    for name, value in (("size", size), ("processes", 1 if processes is None else processes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{name} must be a whole number of at least 1, got {value!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigurationError(f"seed must be a whole number, got {seed!r}")
    if by is not None:
        value_at(LLMTestCase(), by, "stratum")  # which says whether it is a path
