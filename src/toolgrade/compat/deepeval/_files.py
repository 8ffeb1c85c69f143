"""Files of goldens and test cases in the forms that DeepEval reads and writes: JSON, JSON Lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from toolgrade._internal.model import Model, drop_none
from toolgrade.errors import ConfigurationError, DataFileError, InvalidDataError

_LISTS = ("context", "retrieval_context")
_OF_JSON = ("tools_called", "expected_tools", "turns", "persona", "additional_metadata", "custom_column_key_values")
_KEYS = (
    *("input", "actual_output", "expected_output", *_LISTS, *_OF_JSON, "comments", "name", "source_file", "scenario"),
    *("expected_outcome", "user_description", "token_cost", "input_token_count", "output_token_count"),
)


def read_file(
    path: str,
    columns: Sequence[str],
    names: Mapping[str, Any],
    conversation: type[Model],
    mark: str,
    single: type[Model],
    *,
    is_csv: bool = False,
) -> list[Model]:
    """Return the objects of a file: of the class `conversation` if they have the key `mark`, else of `single`.

    `columns` and `names` are those of `EvaluationDataset.add_goldens_from_json_file`.

    Raises:
        ConfigurationError: A name is unknown.
        DataFileError: The file holds something else; the message has the place.
        OSError: The file cannot be read.
    """
    ends = ("key_name", "col_name", "col_delimiter")
    for name in names.keys() - {"encoding_type", *map("_".join, product(_KEYS, ends))}:
        raise ConfigurationError(f"unknown name {name!r}; it must be such as 'input_key_name' or 'input_col_name'")
    keys = {key: names.get(f"{key}_key_name") or names.get(f"{key}_col_name") or key for key in _KEYS}
    keys |= dict(zip(("input", "actual_output", "expected_output"), columns, strict=False))
    text = Path(path).read_bytes().decode(names.get("encoding_type", "utf-8"))
    made: list[Model] = []
    place = path
    try:
        for number, value in _rows(text, keys) if is_csv else _values(text):
            place = f"{path}:{number}"
            fields = drop_none({key: value.get(name) for key, name in keys.items()})
            for key in _LISTS:
                if isinstance(fields.get(key), str):
                    fields[key] = fields[key].split(names.get(f"{key}_col_delimiter", "|"))
            made.append((conversation if fields.get(mark) else single)(**fields))
    except (InvalidDataError, ValueError, AttributeError, csv.Error) as error:
        raise DataFileError.of(f"{place}: cannot be read: {error}") from None
    return made


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array, or the lines of JSON Lines, with their numbers."""
    if text.lstrip().startswith("["):
        yield from enumerate(json.loads(text), start=1)
        return
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would split a text at U+2028, too
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise InvalidDataError(f"line {number} is not JSON: {error}") from None


def _rows(text: str, keys: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a CSV file without their empty cells, with their numbers."""
    of_json = [keys[key] for key in _OF_JSON]
    for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), start=2):
        yield number, {name: json.loads(cell) if name in of_json else cell for name, cell in row.items() if cell}


def write_file(path: Path, values: Sequence[Model]) -> None:
    """Write objects to a file, in the form that the end of its name says."""
    records = [_record(value) for value in values]
    if path.suffix == ".json":
        path.write_text(json.dumps(records, indent=4, ensure_ascii=False), encoding="utf-8")
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            return
        writer = csv.DictWriter(file, [key for key in _KEYS if any(key in record for record in records)])
        writer.writeheader()
        writer.writerows({key: _cell(key, value) for key, value in record.items()} for record in records)


def _record(value: Model) -> dict[str, Any]:
    """Return a golden or a case with DeepEval's keys."""
    plain = value.to_dict()
    plain["additional_metadata"] = plain.get("metadata")
    return {key: plain[key] for key in _KEYS if plain.get(key) is not None}


def _cell(key: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    if key in _LISTS:
        return "|".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if key in _OF_JSON else str(value)
