"""The files of BFCL: their records, and the functions that they describe as tools."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolmark._internal.json import JsonObject, short_repr
from toolmark.calls import ToolSpec
from toolmark.dataset import read_documents, source_name
from toolmark.errors import ConfigurationError, DataFileError, InvalidDataError, Problem, ToolmarkWarning

Records: TypeAlias = "str | os.PathLike[str] | Iterable[Mapping[str, Any]]"
"""A file of JSON Lines, or the records themselves."""

FunctionDocs: TypeAlias = "str | os.PathLike[str] | Mapping[str, Sequence[Mapping[str, Any]]]"
"""The folder `multi_turn_func_doc`, or lists of functions by the class that they belong to."""

_TYPES: Final = {
    **{name: name for name in ("array", "boolean", "integer", "null", "number", "object", "string")},
    "dict": "object",
    "float": "number",
    "tuple": "array",
}
_ANY: Final = "any"

NONE: Final = "None"
"""How the descriptions write the default None."""

_FILES: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MemoryAPI_kv": "memory_kv",
    "MemoryAPI_rec_sum": "memory_rec_sum",
    "MemoryAPI_vector": "memory_vector",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
    "WebSearchAPI": "web_search",
}


def tools_from_bfcl(functions: Iterable[Mapping[str, Any]]) -> list[ToolSpec]:
    """Return functions as BFCL describes them as tools with JSON Schemas.

    The types `dict`, `float` and `tuple` become `object`, `number` and `array`; `any` says nothing. An argument whose
    default is null or "None" may be null. One that is not described is not accepted, as in BFCL. A type that is not
    known is left out with a `ToolmarkWarning`.

    Raises:
        InvalidDataError: A function has no name, or its parameters are no object.
    """
    return [_tool(function) for function in functions]


@dataclass(frozen=True)
class Record:
    """A record, and where it stands."""

    value: Mapping[str, Any]
    place: str
    line: int | None


def records_of(source: Records, what: str) -> list[Record]:
    """Return records, or those of a file.

    Raises:
        DataFileError: Lines cannot be read, or are no objects; `problems` has all of them.
        OSError: The file cannot be read.
    """
    if not isinstance(source, (str, os.PathLike)):
        return [Record(value, f"{what}[{index}]", None) for index, value in enumerate(source)]
    name = source_name(source)
    problems: list[Problem] = []
    found: list[Record] = []
    for document in read_documents(source):
        if not document.problems and not isinstance(document.value, dict):
            problems.append(document.placed(Problem("$", f"expected an object, got {short_repr(document.value)}")))
        problems.extend(document.problems)
        found.append(Record(document.value, f"{name}:{document.line or document.place}", document.line))
    if problems:
        raise DataFileError("\n".join(f"{name}:{one.line}: {one}" for one in problems), problems)
    return found


def _tool(function: Mapping[str, Any]) -> ToolSpec:
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        message = f"the parameters of {function.get('name')!r} must be an object, got {short_repr(parameters)}"
        raise InvalidDataError(message)
    fields: dict[str, Any] = {key: function[key] for key in ("name", "description") if key in function}
    if parameters is not None:
        fields["input_schema"] = {"additionalProperties": False, **_schema(parameters, str(function.get("name")))}
    return ToolSpec(**fields)


def _schema(described: Any, tool: str) -> Any:  # noqa: ANN401 - a schema may be true or false
    if not isinstance(described, Mapping):
        return described
    schema: JsonObject = dict(described)
    kind = schema.pop("type", None)
    if kind is not None and kind != _ANY:
        known = [_TYPES[one] for one in (kind if isinstance(kind, list) else [kind]) if one in _TYPES]
        if known:
            schema["type"] = known if isinstance(kind, list) else known[0]
        else:
            message = f"the type {kind!r} of an argument of {tool!r} is not known, and was left out"
            warnings.warn(message, ToolmarkWarning, stacklevel=2)
    if "default" in schema and schema["default"] in (None, NONE):
        _or_null(schema)
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _schema(schema[key], tool)
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            schema[key] = [_schema(inner, tool) for inner in schema[key]]
    if isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {name: _schema(inner, tool) for name, inner in schema["properties"].items()}
    return schema


def _or_null(schema: JsonObject) -> None:
    """Let an argument be null: Python takes it for left out."""
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*schema["enum"], None]


@dataclass
class Docs:
    """The functions of multi-turn questions, read when a class is first named."""

    given: FunctionDocs | None
    read: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, "Sequence[Mapping[str, Any]]"])

    def of(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the functions of a class."""
        if isinstance(self.given, Mapping):
            self.read = dict(self.given)
        elif name not in self.read and self.given is not None:
            stem = _FILES.get(name, name)
            paths = [Path(self.given) / f"{stem}.{ending}" for ending in ("json", "jsonl")]
            path = next((one for one in paths if one.is_file()), None)
            if path is not None:
                self.read[name] = [record.value for record in records_of(path, name)]
        if name not in self.read:
            message = f"the functions of {name!r} are not in function_docs; give BFCL's folder multi_turn_func_doc"
            raise ConfigurationError(message)
        return self.read[name]


def functions_of(question: Mapping[str, Any], docs: Docs) -> list[Mapping[str, Any]]:
    """Return the functions that can be called for a question.

    Raises:
        ConfigurationError: The functions of a class that it names are not known.
        InvalidDataError: They are no objects with a name.
    """
    if "function" in question:
        found = question["function"]
    else:
        found = [function for name in question.get("involved_classes", ()) for function in docs.of(name)]
    if not isinstance(found, list) or not all(isinstance(one, Mapping) and one.get("name") for one in found):
        message = f"expected a list of functions, which are objects with a name, got {short_repr(found)}"
        raise InvalidDataError(message, [Problem("$.function", message)])
    excluded = set(question.get("excluded_function", ()))
    return [function for function in found if function["name"] not in excluded]


def properties_of(described: object) -> Mapping[str, Any]:
    """Return what is described of the keys of an object; nothing where it is no object."""
    found = described.get("properties") if isinstance(described, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def takes_empty_text(described: object) -> bool:
    """Return whether an argument may be the empty text, which is so where nothing is known of it."""
    if not isinstance(described, Mapping):
        return True
    kind, values = described.get("type"), described.get("enum")
    return kind in (None, "string", _ANY) and (not isinstance(values, list) or "" in values)
