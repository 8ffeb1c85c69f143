"""Files of goldens and test cases in the forms that DeepEval reads and writes: JSON, JSON Lines and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolgrade._internal.model import Model, drop_none
from toolgrade.errors import DataFileError, InvalidDataError

_LISTS = ("context", "retrieval_context")
_OF_JSON = ("tools_called", "expected_tools", "turns", "additional_metadata", "custom_column_key_values")
_KEYS = (
    *("input", "actual_output", "expected_output", *_LISTS, *_OF_JSON, "comments", "name", "source_file", "scenario"),
    *("expected_outcome", "user_description", "token_cost", "input_token_count", "output_token_count"),
)


def read_file(
    path: str, names: Mapping[str, Any], conversation: type[Model], mark: str, single: type[Model]
) -> list[Model]:
    """Return the objects of a file: of the class `conversation` if they have the key `mark`, else of `single`.

    `names` has other names of keys (`input_key_name`) or columns (`input_col_name`), delimiters and the encoding.

    Raises:
        DataFileError: The file holds something else; the message has the place.
        OSError: The file cannot be read.
    """
    keys = {key: names.get(f"{key}_key_name") or names.get(f"{key}_col_name") or key for key in _KEYS}
    text = Path(path).read_text(encoding=names.get("encoding_type", "utf-8"))
    objects = _rows(text, keys, names) if path.endswith(".csv") else _values(text)
    made: list[Model] = []
    place = path
    try:
        for number, value in objects:
            place = f"{path}:{number}"
            fields = drop_none({key: value.get(name) for key, name in keys.items()})
            made.append((conversation if fields.get(mark) else single)(**fields))
    except (InvalidDataError, ValueError, AttributeError) as error:
        raise DataFileError.of(f"{place}: cannot be read: {error}") from None
    return made


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array, or the lines of JSON Lines, with their numbers."""
    if text.lstrip().startswith("["):
        yield from enumerate(json.loads(text), start=1)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise InvalidDataError(f"line {number} is not JSON: {error}") from None


def _rows(text: str, keys: Mapping[str, str], names: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    for number, row in enumerate(csv.DictReader(text.splitlines(keepends=True)), start=2):
        fields: dict[str, Any] = {name: cell for name, cell in row.items() if cell}
        for key in _LISTS:
            if keys[key] in fields:
                fields[keys[key]] = fields[keys[key]].split(names.get(f"{key}_col_delimiter", "|"))
        yield (
            number,
            {name: json.loads(cell) if name in map(keys.get, _OF_JSON) else cell for name, cell in fields.items()},
        )


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
