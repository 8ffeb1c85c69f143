"""Inputs of the commands: files of cases, recorded messages and traces, folders of them, and standard input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from toolgrade._internal.text import printable
from toolgrade.cases import AnyCase
from toolgrade.cli.io import opened, stop, warn
from toolgrade.dataset import file_error, placed_text, source_name
from toolgrade.errors import Problem
from toolgrade.inputs import Reading, ResumedRuns, named, read_entries, replaced_text
from toolgrade.report import Report

_NAMED = 10
"""Problems of a file that are named."""

_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_PACKED = {".gz", ".zst"}


def expand(paths: Sequence[str], consequence: str) -> list[str]:
    """Return the files; a folder stands for all files of JSON in it, in the order of their paths.

    Exits with a message that ends with the consequence if a folder has no such file.
    """
    files: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            files.append(path)
            continue
        content = sorted(filter(Path.is_file, Path(path).rglob("*")))
        inside = [str(file) for file in content if _is_data(file.relative_to(path))]
        if not inside:
            names = ", ".join(sorted(_SUFFIXES))
            stop(f"cannot read {printable(path)}: the folder has no file that ends in {names}; {consequence}")
        files += inside
    return files


def _is_data(path: Path) -> bool:
    """Return whether a file in a folder is data by its name; hidden ones are not."""
    name = Path(path.stem if path.suffix in _PACKED else path.name)
    return name.suffix in _SUFFIXES and not any(part.startswith(".") for part in path.parts)


class Read(NamedTuple):
    """The cases of a file, and the problems of what cannot be read, each with its place."""

    cases: list[AnyCase]
    problems: list[str]


def read_input(path: str, how: Reading, *, reject_bad_lines: bool) -> Read:
    """Return the cases of a file of any kind; what cannot be read is named on standard error.

    Raises:
        DataFileError: Nothing can be read, or a line cannot be and bad lines are rejected.
    """
    cases: list[AnyCase] = []
    problems: list[Problem] = []
    with opened(path) as source:
        for entry in read_entries(source, how):
            problems += entry.problems
            cases += [named(case, entry.name()) for case in entry.cases]
    if problems and (reject_bad_lines or not cases):
        raise file_error(path, problems)
    name = source_name(path)
    texts = [placed_text(name, problem) for problem in problems]
    warn(*texts[:_NAMED])
    if len(texts) > _NAMED:
        warn(f"... and {len(texts) - _NAMED} more problems")
    resumed = ResumedRuns()
    replaced = {place for number, case in enumerate(cases) if (place := resumed.add(number, case)) is not None}
    if replaced:
        warn(f"{name}: {replaced_text(len(replaced))}")
    return Read([case for number, case in enumerate(cases) if number not in replaced], texts)


def has_goldens_only(report: Report) -> bool:
    """Return whether no case has calls and all have expectations, so that nothing can be scored."""
    return all(
        getattr(entry.case, "tools_called", None) is None is getattr(entry.case, "run", None)
        and getattr(entry.case, "expected_tools", None) is not None
        for entry in report.cases
    )
