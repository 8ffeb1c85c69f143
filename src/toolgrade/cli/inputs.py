"""Inputs of the commands: files of cases, recorded messages and traces, folders of them, and standard input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolgrade._internal.text import printable
from toolgrade.cases import AnyCase
from toolgrade.cli.io import opened, stop
from toolgrade.dataset import BadLines
from toolgrade.inputs import Reading, collect_cases, read_entries
from toolgrade.report import Report

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


def read_input(path: str, how: Reading, *, reject_bad_lines: bool) -> list[AnyCase]:
    """Return the cases of a file of any kind; what cannot be read is named in warnings (`has_bad_lines`).

    Raises:
        DataFileError: Nothing can be read, or a line cannot be and bad lines are rejected.
    """
    bad = BadLines()
    with opened(path) as source:
        cases = collect_cases(read_entries(source, how), path, bad)
    bad.check(path, has_cases=bool(cases), reject=reject_bad_lines)
    bad.warn("each was left out", stacklevel=2)
    return cases


def has_goldens_only(report: Report) -> bool:
    """Return whether nothing was scored because the cases have expectations and no calls; outlines have neither."""
    cases = [entry.case for entry in report.cases]
    has_calls = any(getattr(case, name, None) is not None for case in cases for name in ("tools_called", "run"))
    is_expecting = any(getattr(case, "expected_tools", None) is not None for case in cases)
    return is_expecting and not has_calls and not any(summary.scored for summary in report.summaries)
