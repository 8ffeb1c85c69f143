"""Files of BFCL: their records, and their function descriptions as tools."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolmark._internal.json import JsonObject, short_repr
from toolmark.calls import ToolSpec
from toolmark.dataset import FileProblems, file_error, read_documents, source_name
from toolmark.errors import ConfigurationError, InvalidDataError, Problem, ToolmarkWarning

Records: TypeAlias = "str | os.PathLike[str] | Iterable[Mapping[str, Any]]"
"""A file of JSON Lines, or the records themselves."""

FunctionDocs: TypeAlias = "str | os.PathLike[str] | Mapping[str, Sequence[Mapping[str, Any]]]"
"""The folder `multi_turn_func_doc`, or lists of functions by their class."""

_TYPES: Final = {
    **{name: name for name in ("array", "boolean", "integer", "null", "number", "object", "string")},
    "dict": "object",
    "float": "number",
    "tuple": "array",
}
_ANY: Final = "any"
_SCHEMA_KEYS: Final = ("items", "additionalProperties", "anyOf", "oneOf", "allOf")

NONE: Final = "None"
"""Text for a default of None in the descriptions."""

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
    """Return BFCL's function descriptions as tools with JSON Schemas.

    The types `dict`, `float` and `tuple` become `object`, `number` and `array`; `any` is left out. An argument whose
    default is null or "None" may be null. Arguments without a description are not accepted, as in BFCL. An unknown type
    is left out with a `ToolmarkWarning`.

    Raises:
        InvalidDataError: A function has no name, or its parameters are not an object.
    """
    return [_tool(function) for function in functions]


@dataclass(frozen=True)
class Record:
    """A record with its place for error messages."""

    value: Mapping[str, Any]
    place: str
    line: int | None


def records_of(source: Records, what: str) -> list[Record]:
    """Return records, or those of a file.

    Raises:
        DataFileError: Lines cannot be read, or are not objects; `problems` lists all of them.
        OSError: The file cannot be read.
    """
    if not isinstance(source, (str, os.PathLike)):
        return [Record(value, f"{what}[{index}]", None) for index, value in enumerate(source)]
    problems = FileProblems()
    name = source_name(source)
    records = [
        Record(value, f"{name}:{document.line or document.place}", document.line)
        for document, value in problems.read(read_documents(source), _object)
    ]
    unreadable = [*problems.problems, *problems.torn]
    if unreadable:
        raise file_error(source, unreadable)
    return records


def _object(value: Any, _place: str) -> Mapping[str, Any]:  # noqa: ANN401 - a JSON value
    if not isinstance(value, dict):
        raise InvalidDataError.of(f"expected an object, got {short_repr(value)}")
    return value


def _tool(function: Mapping[str, Any]) -> ToolSpec:
    parameters = function.get("parameters")
    fields: dict[str, Any] = {key: function[key] for key in ("name", "description") if key in function}
    if isinstance(parameters, Mapping):
        fields["input_schema"] = {"additionalProperties": False, **_schema(parameters, str(function.get("name")))}
    elif parameters is not None:
        message = f"the parameters of {function.get('name')!r} must be an object, got {short_repr(parameters)}"
        raise InvalidDataError(message)
    return ToolSpec(**fields)


def _schema(description: Any, tool: str) -> Any:  # noqa: ANN401 - a schema may be true or false
    """Return the JSON Schema of a description, or of each in a list of them, at any depth."""
    if isinstance(description, list):
        return [_schema(inner, tool) for inner in description]
    if not isinstance(description, Mapping):
        return description
    schema: JsonObject = dict(description)
    _translate_type(schema, tool)
    if schema.get("default", "") in (None, NONE):
        _allow_null(schema)
    for key in _SCHEMA_KEYS:
        if key in schema:
            schema[key] = _schema(schema[key], tool)
    if isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {name: _schema(inner, tool) for name, inner in schema["properties"].items()}
    return schema


def _translate_type(schema: JsonObject, tool: str) -> None:
    name = schema.pop("type", _ANY)
    if isinstance(name, list):
        types: Any = [_TYPES[one] for one in name if one in _TYPES]
    else:
        types = _TYPES.get(name)
    if types:
        schema["type"] = types
    elif name not in (None, _ANY):
        message = f"the type {name!r} of an argument of {tool!r} is unknown, and was left out"
        warnings.warn(message, ToolmarkWarning, stacklevel=2)


def _allow_null(schema: JsonObject) -> None:
    """Let an argument be null: for Python a null default is the same as leaving the argument out."""
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*schema["enum"], None]


def class_functions(docs: FunctionDocs | None) -> Callable[[str], Sequence[Mapping[str, Any]]]:
    """Return a function that returns the functions of a class; a file is read when its class is first needed.

    It raises `ConfigurationError` if the class is not in `docs`.
    """

    @cache
    def functions(name: str) -> Sequence[Mapping[str, Any]]:
        if isinstance(docs, Mapping) and name in docs:
            return docs[name]
        if isinstance(docs, (str, os.PathLike)):
            for suffix in (".json", ".jsonl"):
                path = Path(docs) / f"{_FILES.get(name, name)}{suffix}"
                if path.is_file():
                    return [record.value for record in records_of(path, name)]
        message = f"function_docs does not contain the functions of {name!r}"
        raise ConfigurationError(f"{message}; give BFCL's folder multi_turn_func_doc")

    return functions


def functions_of(
    question: Mapping[str, Any], functions_of_class: Callable[[str], Iterable[Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Return the functions available for a question.

    Raises:
        ConfigurationError: The functions of a class that it names are missing.
        InvalidDataError: They are not objects with a name.
    """
    if "function" in question:
        functions: Any = question["function"]
    else:
        functions = list(chain.from_iterable(map(functions_of_class, question.get("involved_classes", ()))))
    if not isinstance(functions, list) or not all(map(_is_function, functions)):
        message = f"expected a list of functions, which are objects with a name, got {short_repr(functions)}"
        raise InvalidDataError(message, [Problem("$.function", message)])
    excluded = set(question.get("excluded_function", ()))
    return [function for function in functions if function["name"] not in excluded]


def _is_function(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value.get("name"))


def properties_of(description: object) -> Mapping[str, Any]:
    """Return the descriptions of an object's keys; none if it is not an object."""
    properties = description.get("properties") if isinstance(description, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def accepts_empty_text(description: object) -> bool:
    """Return whether an argument may be the empty text; true without a description."""
    if not isinstance(description, Mapping):
        return True
    kind, values = description.get("type"), description.get("enum")
    return kind in (None, "string", _ANY) and (not isinstance(values, list) or "" in values)
