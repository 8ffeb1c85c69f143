"""Inputs of `toolgrade score`: files of cases, recorded logs and traces, folders of them, and standard input."""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolgrade._internal.compression import CORRUPTION_ERRORS, corruption_message
from toolgrade._internal.text import printable
from toolgrade.cases import LLMTestCase, TestCase
from toolgrade.cli.io import opened, stop, title_of, warn
from toolgrade.dataset import Source, file_error, open_source, read_cases, source_name
from toolgrade.errors import Problem
from toolgrade.formats.file_kind import Kind, head_of, kind_of, kind_of_file

_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_PACKED = {".gz", ".zst"}
_GENERATED_NAME = re.compile(r"(line|item) \d+(, turn \d+)?")


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


@contextmanager
def opened_input(path: str) -> Generator[tuple[Source, Kind], None, None]:
    """Open a file or standard input, and yield what to read from, and what it holds."""
    with opened(path) as source:
        if path != "-" and Path(path).is_file():
            yield source, kind_of_file(path)
            return
        with open_source(source) as file:  # it can be read only once
            try:
                head = head_of(file)
            except CORRUPTION_ERRORS as error:
                raise file_error(source, [Problem("$", corruption_message(error))]) from None
            name = "<stdin>" if path == "-" else path
            yield io.BufferedReader(_Joined(head, file, name)), kind_of(head)


def read_input(path: str, *, allow_nan: bool = False) -> list[TestCase]:
    """Return the cases of a file, or those that its messages or traces give."""
    with opened_input(path) as (source, kind):
        if kind == "results":
            refuse_results(path)
        read = read_cases if kind == "cases" else _cases_of_log
        return read(source, allow_nan=allow_nan)


def refuse_results(path: str) -> None:
    """Exit because a file has results."""
    name = printable(title_of(path))
    stop(f"{name} has results that are scored already; show them with `toolgrade report {name}`; nothing was scored")


def with_file_names(cases: Sequence[TestCase], path: str) -> list[TestCase]:
    """Return cases of one of several files: what is named after its line has the name of the file before it."""
    named: list[TestCase] = []
    for case in cases:
        if case.id is None and (case.name is None or _GENERATED_NAME.fullmatch(case.name)):
            case = case.model_copy(update={"name": " ".join(filter(None, (path, case.name)))})  # noqa: PLW2901
        named.append(case)
    return named


def _cases_of_log(source: Source, *, allow_nan: bool) -> list[TestCase]:
    from toolgrade.convert import RecordedSession, read_transcripts  # noqa: PLC0415 - not loaded for cases

    cases: list[TestCase] = []
    for recorded in read_transcripts(source, allow_nan=allow_nan):
        if isinstance(recorded, RecordedSession):
            warn(*(f"{source_name(source)}: {text}" for text in recorded.notes))
        cases += [case for case in recorded.cases() if isinstance(case, LLMTestCase)]
    return cases


class _Joined(io.RawIOBase):
    """The beginning of a file that was read already, and then the rest."""

    def __init__(self, head: bytes, rest: BinaryIO, name: str) -> None:
        self._head, self._rest, self.name = io.BytesIO(head), rest, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
