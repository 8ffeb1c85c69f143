"""Cases in Parquet files, one per row, read by pyarrow (extra `toolgrade[parquet]`).

Either a column `case` holds each case as JSON text, as in a line of JSON Lines, and other columns are ignored. Or each
column is a field of a case, or of a record: texts as they are, `tags` as a list of texts, and everything else (calls,
expectations, metadata) as JSON text. Null means *not set*.

Nested columns are an error. All rows of such a column have the same keys, and a key that a row lacks is null, so an
argument `null` looks like a missing one, and the two have different scores.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic.alias_generators import to_camel

from toolgrade._internal.json import json_path, parse_json
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import printable
from toolgrade.cases import LLMTestCase
from toolgrade.dataset import Document, file_error, problems_of
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.formats.records import looks_like_record

CASE: Final = "case"
"""Name of the column that holds whole cases."""

_RECORD_TEXTS = ("query", "generated_response", "expected_response")
_CASE_TEXTS = ("id", "name", "input", "actual_output", "expected_output")
_TEXTS = {spelling for name in (*_CASE_TEXTS, *_RECORD_TEXTS) for spelling in (name, to_camel(name))}
_FIELDS = {spelling for name in LLMTestCase.model_fields for spelling in (name, to_camel(name))}
BATCH: Final = 256
"""Number of rows that are converted to objects at a time."""


def row_groups(path: str) -> list[int]:
    """Return the number of the first row of each row group, from 1.

    Raises:
        DataFileError: It is not a Parquet file, or columns are not fields of a case; `problems` lists all of them.
        MissingPackageError: pyarrow is not installed.
    """
    with _open(path) as file:
        check_columns(file.schema_arrow, path)
        firsts, row = list[int](), 1
        for group in range(file.num_row_groups):
            firsts.append(row)
            row += file.metadata.row_group(group).num_rows
    return firsts


def read_rows(path: str, group: int, first: int, *, allow_nan: bool = False) -> Iterator[Document]:
    """Yield the rows of a row group as documents; `line` is the number of the row.

    Args:
        path: Path of the file.
        group: Position of the row group, from 0.
        first: Number of its first row, from 1.
        allow_nan: See `toolgrade.read_cases`.
    """
    with _open(path) as file:
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


def _open(path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
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
        raise file_error(path, [Problem("$", f"broken Parquet data: {reason}; write the file again")]) from None


def check_columns(schema: Any, name: str) -> None:  # noqa: ANN401 - as above
    """Check that the columns of a table are fields of a case; errors begin with `name`.

    Raises:
        DataFileError: Some are not; `problems` lists all of them.
    """
    problems = list(_wrong_columns(schema))
    if problems:
        raise file_error(name, problems)


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
            remedy = "write JSON text, because nested columns cannot tell null from a missing value"
            yield Problem(path, f"the column must hold texts, and holds {kind}; {remedy}")


def _is_readable(name: str, kind: str) -> bool:
    """Return whether the values of a column are texts, or lists of them for tags."""
    if name == "tags" and kind.startswith(("list<", "large_list<")):
        return True
    inner = kind.removeprefix("dictionary<values=").partition(",")[0]
    return inner in {"string", "large_string", "string_view", "null"}


def read_row(row: Mapping[str, Any], number: int | None, *, allow_nan: bool) -> Document:
    """Return the case in a row as a document; JSON text is parsed, and null is left out.

    Args:
        row: The values of the row by column.
        number: Number of the row, from 1; `None` if rows have no order.
        allow_nan: See `toolgrade.read_cases`.
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
