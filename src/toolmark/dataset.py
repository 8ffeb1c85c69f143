"""Files of cases: JSON Lines, one case or record a line, plain or gzipped; also one JSON array of them.

All errors of a file are found before any is raised, each with its line and JSON path.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from toolmark._json import parse_json
from toolmark.cases import LLMTestCase, MLLMTestCase, TestCase
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.formats.records import case_from_record, looks_like_record

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path, `"-"` for standard input, or an open binary file; gzip is recognised by its content."""

_GZIP = b"\x1f\x8b"


def read_cases(source: Source, *, allow_nan: bool = False) -> list[TestCase]:
    """Return the cases of a file, in its order; none is dropped.

    A line is a test case as `LLMTestCase.to_json` writes it (snake_case or camelCase), a multimodal one, or a record
    (`case_from_record`), recognised by its keys. Blank lines are passed over. A case without an id keeps its place: its
    name becomes `line N` if it has none.

    Args:
        source: Where to read.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.

    Raises:
        DataFileError: Lines that cannot be read; `problems` has all of them with line and path.
        OSError: The file cannot be opened or read.
    """
    cases: list[TestCase] = []
    problems: list[Problem] = []
    name = _name(source)
    for number, text in _documents(source, problems):
        try:
            cases.append(_case(parse_json(text, allow_nan=allow_nan) if isinstance(text, str) else text, number))
        except InvalidDataError as error:
            found = error.problems or (Problem("$", str(error)),)
            problems.extend(Problem(problem.path, problem.message, number) for problem in found)
    if problems:
        raise DataFileError("\n".join(f"{name}:{problem.line}: {problem}" for problem in problems), problems)
    return cases


def write_cases(path: str | os.PathLike[str], cases: Iterable[TestCase]) -> None:
    """Write cases as JSON Lines, gzipped if the name ends in `.gz`; only what was set is written.

    The file appears whole or not at all: it is written beside its place and then moved there.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with gzip.open(draft, "wb") if target.suffix == ".gz" else draft.open("wb") as file:
            for case in cases:
                file.write(case.to_json().encode() + b"\n")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _case(value: object, number: int) -> TestCase:
    if not isinstance(value, dict):
        message = f"expected an object (a test case or a record), got {type(value).__name__}"
        raise InvalidDataError(message, [Problem("$", message)])
    if "turns" in value:
        message = "is a conversation; only single cases can be read here, one per turn pair"
        raise InvalidDataError(message, [Problem("$.turns", message)])
    model = MLLMTestCase if isinstance(value.get("input"), list) else LLMTestCase
    case: TestCase = case_from_record(value) if looks_like_record(value) else model.model_validate(value)
    return case if case.id or case.name else case.model_copy(update={"name": f"line {number}"})


def _documents(source: Source, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    """Yield (line, text of one document); of a file that is one array, (position from 1, value of one item)."""
    with _opened(source) as file:
        number = 0
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                problems.append(Problem("$", f"not UTF-8: {error.reason} at byte {error.start}", number))
                continue
            if text.startswith("[") and number == 1:
                yield from _items(text.encode() + b"\n" + file.read(), problems)
                return
            if text:
                yield number, text
        if not number:
            problems.append(Problem("$", "the file is empty", 1))


def _items(data: bytes, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    try:
        values = parse_json(data)
    except InvalidDataError as error:
        problems.append(Problem("$", f"not one JSON array: {error}", 1))
        return
    yield from enumerate(values, start=1)


@contextmanager
def _opened(source: Source) -> Generator[BinaryIO, None, None]:
    if isinstance(source, (str, os.PathLike)):
        if source == "-":
            yield _unpacked(sys.stdin.buffer)
            return
        with Path(source).open("rb") as file:
            yield _unpacked(file)
    else:
        yield _unpacked(source)


def _unpacked(file: BinaryIO) -> BinaryIO:
    """Return the file, through gzip where its first bytes say so; they are looked at, not taken."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_Raw(file))
    packed = buffered.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    return cast("BinaryIO", gzip.GzipFile(fileobj=buffered) if packed else buffered)


class _Raw(io.RawIOBase):
    """Any object with `read(size)`, as something that can be buffered."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _name(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "<file>"))
