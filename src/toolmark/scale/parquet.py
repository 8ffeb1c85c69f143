"""Cases in Parquet files, one per row, read by pyarrow (extra `toolmark[parquet]`).

Either a column `case` holds each case as JSON text, as a line of JSON Lines has it; other columns are left alone then.
Or each column is a field of a case, or of a record: texts as they are, `tags` as a list of texts, and everything else
(calls, expectations, metadata) as JSON text. Null is *not set*.

Nested columns are refused. All rows of such a column have the same keys, those that a row lacks being null, so nobody
could tell whether a call had an argument `null` or none; and an argument more is another score.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic.alias_generators import to_camel

from toolmark._internal.json import json_path, parse_json
from toolmark._internal.lazy_imports import import_extra
from toolmark._internal.text import printable
from toolmark.cases import LLMTestCase
from toolmark.dataset import Document, problems_of
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.formats.records import looks_like_record

CASE: Final = "case"
"""The column that holds whole cases."""

_RECORD_TEXTS = ("query", "generated_response", "expected_response")
_CASE_TEXTS = ("id", "name", "input", "actual_output", "expected_output")
_TEXTS = {spelling for name in (*_CASE_TEXTS, *_RECORD_TEXTS) for spelling in (name, to_camel(name))}
_FIELDS = {spelling for name in LLMTestCase.model_fields for spelling in (name, to_camel(name))}
BATCH: Final = 256
"""Rows that are made objects of at once."""


def row_groups(path: str) -> list[int]:
    """Return the number of the first row of each row group, from 1.

    Raises:
        DataFileError: It is no Parquet file, or its columns are no fields; `problems` has all of them.
        MissingPackageError: pyarrow is not installed.
    """
    with _opened(path) as file:
        check_columns(file.schema_arrow, printable(path))
        firsts, row = list[int](), 1
        for group in range(file.num_row_groups):
            firsts.append(row)
            row += file.metadata.row_group(group).num_rows
    return firsts


def read_rows(path: str, group: int, first: int, *, allow_nan: bool = False) -> Iterator[Document]:
    """Yield the rows of a row group as documents, with the number of the row in place of that of a line.

    Args:
        path: Of the file.
        group: Position of the row group, from 0.
        first: Number of its first row, from 1.
        allow_nan: See `toolmark.read_cases`.
    """
    with _opened(path) as file:
        names: list[str] = file.schema_arrow.names
        columns = [CASE] if CASE in names else names
        number = first
        batches = file.iter_batches(batch_size=BATCH, row_groups=[group], columns=columns)
        while True:
            with _broken_data(path):
                batch = next(batches, None)
                rows = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            for row in rows:
                yield read_row(row, number, allow_nan=allow_nan)
                number += 1


def _opened(path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    parquet = import_extra("pyarrow.parquet", "parquet", f"reading the Parquet file {printable(path)}")
    with _broken_data(path):
        return parquet.ParquetFile(path)


@contextmanager
def _broken_data(path: str) -> Generator[None, None, None]:
    """Raise `DataFileError` for data that pyarrow, or Python's UTF-8, cannot read."""
    try:
        yield
    except (ValueError, OSError, NotImplementedError) as error:  # pyarrow's errors are of these types
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file cannot be opened
        reason = " ".join(str(error).split())
        problem = Problem("$", f"broken Parquet data: {reason}; write the file again")
        raise DataFileError(f"{printable(path)}: {problem}", [problem]) from None


def check_columns(schema: Any, name: str) -> None:  # noqa: ANN401 - as above
    """Raise unless the columns of a table of this name are a case's.

    Raises:
        DataFileError: They are not; `problems` has all that is wrong.
    """
    problems = list(_wrong_columns(schema))
    if problems:
        raise DataFileError("\n".join(f"{name}: {problem}" for problem in problems), problems)


def _wrong_columns(schema: Any) -> Iterator[Problem]:  # noqa: ANN401 - as above
    types: dict[str, str] = {field.name: str(field.type) for field in schema}
    if CASE in types:
        types = {CASE: types[CASE]}
    for name, kind in types.items():
        path = json_path((name,))
        if not (name == CASE or name in _FIELDS or looks_like_record({name: None})):
            remedy = "leave it out, or move it into the column metadata, as JSON text"
            yield Problem(path, f"no field of a case is called like this column; {remedy}")
        elif not _is_readable(name, kind):
            remedy = "write JSON text, since in nested columns nobody can tell null from what is not there"
            yield Problem(path, f"the column must hold texts, and holds {kind}; {remedy}")


def _is_readable(name: str, kind: str) -> bool:
    """Return whether the values of a column are texts, or lists of them for tags."""
    if name == "tags" and kind.startswith(("list<", "large_list<")):
        return True
    inner = kind.removeprefix("dictionary<values=").partition(",")[0]
    return inner in {"string", "large_string", "string_view", "null"}


def read_row(row: Mapping[str, Any], number: int | None, *, allow_nan: bool) -> Document:
    """Return what a row holds; null is not set, and JSON text is read.

    Args:
        row: Its cells, by column.
        number: Its number, from 1; `None` where rows have no order.
        allow_nan: See `toolmark.read_cases`.
    """
    document = Document(line=number)
    value: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, cell in row.items():
        try:
            if name == CASE:
                return document._replace(value=parse_json(cell or "", allow_nan=allow_nan))
            if cell is not None:
                value[name] = parse_json(cell, allow_nan=allow_nan) if _is_json(name, cell) else cell
        except InvalidDataError as error:
            prefix = "$" if name == CASE else json_path((name,))
            problems += [Problem(prefix + one.path.removeprefix("$"), one.message) for one in problems_of(error)]
    if problems:
        return document._replace(problems=tuple(map(document.placed, problems)))
    return document._replace(value=value)


def _is_json(name: str, cell: object) -> bool:
    return isinstance(cell, str) and name not in _TEXTS
