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

from toolgrade._internal.json import canonical_json, json_path, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import plural, printable
from toolgrade.analysis.field_paths import value_at
from toolgrade.cases import AnyCase, LLMTestCase
from toolgrade.dataset import FileProblems, read_any_case, write_cases
from toolgrade.errors import ConfigurationError, InvalidDataError, Problem
from toolgrade.scale.engines.local_pool import run_jobs
from toolgrade.scale.partition import PART_BYTES, Part, Stamp, check_files, divide_files
from toolgrade.scale.reservoir import Draft, Drawn, key_of
from toolgrade.scale.run import CombinedOutcome, Progress, combine, issue_warnings, quiet, survey
from toolgrade.scale.score_part import MAX_REPORTED, Outcome, collect_warnings, read_part
from toolgrade.scale.totals import Totals
from toolgrade.stats.number_checks import check_positive

SAMPLED: Final = "toolgrade_sample"
"""Key in the metadata of a drawn case with its origin."""

_ALL = ""
"""Name of the only stratum of a simple sample."""

_WORTH_READING = 4 << 20
"""Bytes of input that justify starting one more process."""

_UNDIVIDED = 1 << 62
"""Size of a part that is larger than any file."""

_COMPRESSION_SUFFIXES = (".gz", ".zst")
_FORMAT_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet")


@dataclass(frozen=True)
class SampledStratum:
    """One stratum of a sample.

    Attributes:
        value: Value of its cases at the path; `None` for cases without one.
        population: Number of its cases.
        drawn: Number of its cases in the sample.
    """

    value: Any
    population: int
    drawn: int


@dataclass(frozen=True)
class Sample:
    """Cases that were drawn at random, without replacement.

    Attributes:
        cases: The cases in random order; `metadata.toolgrade_sample` of each has its origin.
        population: Number of all cases.
        strata: The strata by value; empty for a simple sample.

    Example:
        >>> from toolgrade import LLMTestCase, write_cases
        >>> from toolgrade.scale import sample_files
        >>> tasks = ["weather", "weather", "flights", "weather"] * 25
        >>> cases = [LLMTestCase(tools_called=[], expected_tools=[], metadata={"task": task}) for task in tasks]
        >>> write_cases("cases.jsonl", cases)
        >>> print(sample_files(["cases.jsonl"], 10, by="metadata.task", processes=1))
        10 of 100 cases
          "flights": 5 of 25
          "weather": 5 of 75
    """

    cases: tuple[AnyCase, ...]
    population: int
    strata: tuple[SampledStratum, ...] = ()

    def __str__(self) -> str:
        """Return the number of drawn cases, in all and per stratum."""
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
    """Draw a simple or stratified random sample, without replacement, of the cases of files.

    The draw depends on the seed and, for each case, on its content, its line, and the path of its file relative to the
    common folder, without suffixes such as `.jsonl` and `.gz`. It does not depend on the order of the files, how
    they are compressed, or the number of processes. Equal cases are drawn independently. A larger sample with the
    same seed contains the smaller one. Memory grows with the size of the sample alone.

    Args:
        files: As for `score_files`; they may also contain conversations.
        size: Number of cases to draw; all cases are drawn if there are fewer.
        out: A file that does not exist yet, for the sample as JSON Lines, compressed if its name ends in `.gz`.
        seed: Seed of the sample.
        by: Path of the stratum in a case, such as `metadata.task`. Each stratum gets the same number of cases, or all
            it has if that is fewer.
        processes: Number of processes that read; by default one per core.
        allow_nan: See `toolgrade.read_cases`.
        tolerant_arguments: See `toolgrade.read_cases`.
        progress: Called with the number of bytes (row groups of Parquet) that are read, and of all.

    Raises:
        ConfigurationError: An option is invalid, `out` exists, no case has a stratum, or there are too many strata for
            two cases each.
        DataFileError: Lines of the files cannot be read, or cases are already those of a sample.
        MissingPackageError: zstd or Parquet needs a package of an extra that is not installed.
        WorkerDiedError: A process was killed.
        OSError: A file cannot be read or written.

    Example:
        >>> from toolgrade import LLMTestCase, write_cases
        >>> from toolgrade.scale import sample_files
        >>> write_cases("cases.jsonl", [LLMTestCase(id=str(n), tools_called=[], expected_tools=[]) for n in range(100)])
        >>> sample = sample_files(["cases.jsonl"], 10, out="sample.jsonl", seed=1, processes=1)
        >>> len(sample.cases), sample.population
        (10, 100)
    """
    paths = check_files(files)
    _check(size, seed, processes, by)
    target = None if out is None else Path(out)
    if target is not None and target.exists():  # perhaps one of the files that are read
        raise ConfigurationError(f"{printable(str(target))} exists; use another file")
    names = names_of(paths)
    work = _ReadPart(tuple(paths), tuple(names), size, seed, by, allow_nan, tolerant_arguments)
    draft = _read(work, processes or os.cpu_count() or 1, progress or quiet)
    if by is not None and set(draft.sizes) == {"null"}:
        raise ConfigurationError(f"no case has {by!r}, the stratum")
    sample = _build_sample(draft, seed, by)
    if target is not None:
        write_cases(target, sample.cases)
    return sample


@dataclass(frozen=True)
class Name:
    """Names of a file.

    Attributes:
        relative: Path relative to the common folder.
        drawn: Name in the keys: the same without the suffixes of format and compression.
    """

    relative: str
    drawn: str


def names_of(paths: Sequence[str]) -> list[Name]:
    """Return the names of files; they are distinct and do not depend on the location of the common folder."""
    whole = [Path(path).absolute() for path in paths]
    try:
        shared = os.path.commonpath([path.parent for path in whole])
        relative = [path.relative_to(shared).as_posix() for path in whole]
    except ValueError:  # several drives share no folder
        relative = [path.as_posix() for path in whole]
    plain = [_remove_suffix(_remove_suffix(name, _COMPRESSION_SUFFIXES), _FORMAT_SUFFIXES) for name in relative]
    often = Counter(plain)
    return [Name(full, short if often[short] == 1 else full) for full, short in zip(relative, plain, strict=True)]


def _remove_suffix(name: str, endings: Sequence[str]) -> str:
    ending = next((ending for ending in endings if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


@dataclass
class _SampleOutcome(Outcome):
    """Outcome of a part with its candidates for the sample."""

    draft: Draft = field(default_factory=lambda: Draft(1))


@dataclass(frozen=True)
class _ReadPart:
    """Reading of one part, in any process."""

    paths: tuple[str, ...]
    names: tuple[Name, ...]
    size: int
    seed: int
    by: str | None
    allow_nan: bool
    tolerant_arguments: bool

    def __call__(self, part: Part) -> _SampleOutcome:
        outcome, file_problems = _SampleOutcome(draft=Draft(self.size)), FileProblems(most=MAX_REPORTED)
        path, name = self.paths[part.file], self.names[part.file]
        stamp, cases = Stamp.of(path), 0
        with collect_warnings(outcome):
            entries = read_part(part, path, allow_nan=self.allow_nan)
            for document, case in file_problems.read(entries, partial(self._case, name.relative, set())):
                key = key_of(self.seed, name.drawn, document.number, document.value)
                outcome.draft.add(self._stratum(case), key, name.relative, document.number, case.to_json)
                cases += 1
        stamp.check(path, "changed while it was read; draw from it when no program writes to it")
        outcome.totals = Totals(cases)
        outcome.take(file_problems)
        return outcome

    def _case(self, file: str, reported: set[str], value: object, place: str) -> AnyCase:
        case = read_any_case(value, f"{file} {place}", tolerant_arguments=self.tolerant_arguments)
        if SAMPLED in case.metadata and file not in reported:
            reported.add(file)  # probably all cases of the file are drawn ones; report the first
            message = "is already a case of a sample; draw from the original files"
            raise InvalidDataError(message, [Problem(json_path(("metadata", SAMPLED)), message)])
        return case

    def _stratum(self, case: AnyCase) -> str:
        if self.by is None:
            return _ALL
        return canonical_json(to_json_value(value_at(case, self.by, "stratum"), []))


def _read(work: _ReadPart, processes: int, progress: Progress) -> Draft:
    """Return the candidates of all files.

    Raises:
        DataFileError: A line cannot be read.
    """
    workers = min(processes, 1 + sum(Stamp.of(path).size for path in work.paths) // _WORTH_READING)
    parts = list(divide_files(work.paths, PART_BYTES if workers > 1 else _UNDIVIDED))
    if workers > 1:
        parts = survey(work.paths, parts, workers)  # a part must know the numbers of its lines, which are in the keys
    combined, draft = CombinedOutcome(), Draft(work.size)
    with closing(run_jobs(work, parts, workers)) as reading:
        for _, outcome in combine(combined, parts, reading, progress):
            draft.merge(outcome.draft)
    combined.check(work.paths, None)
    issue_warnings(combined.texts(work.paths))
    return draft


def _build_sample(draft: Draft, seed: int, by: str | None) -> Sample:
    """Return the sample; each case has its origin and its stratum in its metadata."""
    drawn = draft.drawn()
    whole = {"seed": seed, "population": draft.sizes.total(), "drawn": sum(map(len, drawn.values()))}
    strata: list[SampledStratum] = []
    listed: list[tuple[int, Drawn, dict[str, Any]]] = []
    for key, members in drawn.items():
        about: dict[str, Any] = {}
        if by is not None:
            one = SampledStratum(json.loads(key), draft.sizes[key], len(members))
            strata.append(one)
            about["stratum"] = {"by": by, "value": one.value, "population": one.population, "drawn": one.drawn}
        # The drawn keys of a thinly sampled stratum are smaller; divided by the sampling rate, strata mix evenly.
        listed += [(case.key * draft.sizes[key] // len(members), case, about) for case in members]
    listed.sort(key=lambda entry: entry[:2], reverse=True)
    cases = [_with_origin(case, {**whole, **about}) for _, case, about in listed]
    return Sample(tuple(cases), draft.sizes.total(), tuple(strata))


def _with_origin(drawn: Drawn, about: Mapping[str, Any]) -> AnyCase:
    case: dict[str, Any] = json.loads(drawn.text)
    origin = {"file": drawn.file, "line": drawn.number, **about}
    return read_any_case({**case, "metadata": {**case.get("metadata", {}), SAMPLED: origin}}, "")


def _check(size: object, seed: object, processes: object, by: str | None) -> None:
    """Check the options.

    Raises:
        ConfigurationError: An option is out of range.
    """
    check_positive(size, "size")
    check_positive(1 if processes is None else processes, "processes")
    require(isinstance(seed, int) and not isinstance(seed, bool), "seed must be a whole number", seed)
    if by is not None:
        value_at(LLMTestCase(), by, "stratum")  # raises unless it is a path
