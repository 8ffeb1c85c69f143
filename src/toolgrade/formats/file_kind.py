"""Detection of what a file of JSON holds: cases, recorded messages or traces, or results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from toolgrade._internal.compression import CORRUPTION_ERRORS, decompress, read_whole
from toolgrade._internal.json import parse_json
from toolgrade._internal.markers import RESULTS_MARK
from toolgrade.cases import LLMTestCase
from toolgrade.errors import ToolgradeError
from toolgrade.formats.records import looks_like_record

Kind: TypeAlias = Literal["cases", "log", "results"]
"""What a file holds: cases, conversations or records; recorded messages or traces; or results."""

_HEAD = 1 << 20
"""Bytes that are read to find out the kind, if the first value is no longer."""
_LOG_KEYS = {"messages", "choices", "output", "request", "response", "body", "role"}
"""Keys of an object with recorded messages; `input` is one only if it is a list."""
_CASE_KEYS = {"tools_called", "toolsCalled", "turns"}


def kind_of_file(path: str | os.PathLike[str]) -> Kind:
    """Return what a regular file holds; `cases` if that is unknown, so that reading them names what is wrong."""
    return kind_of(_head_of_file(path))


def has_calls(path: str | os.PathLike[str], kind: Kind) -> bool:
    """Return whether a file of this kind has calls that were made, as cases and logs have and goldens have not."""
    value = _first_value(_head_of_file(path))
    first = next(iter(value), None) if isinstance(value, list) else value
    if not isinstance(first, Mapping):
        return kind == "log"
    if first.keys() & {*_CASE_KEYS, "messages"} or looks_like_record(first):
        return True
    return kind == "log" and not first.keys() & {"expected_tools", "expectedTools"}


def _head_of_file(path: str | os.PathLike[str]) -> bytes:
    """Return the beginning of a regular file of JSON; nothing if it cannot be read."""
    if path == "-" or not Path(path).is_file():
        return b""
    try:
        with Path(path).open("rb") as file:
            return head_of(decompress(file))
    except (OSError, ToolgradeError, *CORRUPTION_ERRORS):
        return b""


def head_of(file: BinaryIO) -> bytes:
    """Return the beginning of a file that holds its first value, which may be all of it."""
    head = file.read(_HEAD)
    if len(head) == _HEAD and _first_value(head) is None:
        head += read_whole(file)
    return head


def kind_of(head: bytes) -> Kind:
    """Return what a file holds that begins with these bytes."""
    value = _first_value(head)
    first = next(iter(value), None) if isinstance(value, list) else value
    if isinstance(first, list):
        return "log"
    return _kind_of_object(first, value)


def _kind_of_object(value: Any, document: object) -> Kind:  # noqa: ANN401 - a JSON value
    """Return what a document holds whose first object is `value`."""
    if not isinstance(value, Mapping):
        return "cases"
    keys = value.keys() - {"$schema"}
    if RESULTS_MARK in keys or {"metrics", "cases"} <= keys:
        return "results"
    if looks_like_record(value) or keys & _CASE_KEYS or keys <= LLMTestCase.model_fields.keys():
        return "cases"
    if keys & _LOG_KEYS or isinstance(value.get("input"), list):
        return "log"
    from toolgrade.formats.traces.read import trace_format_of  # noqa: PLC0415 - not loaded for cases

    return "cases" if trace_format_of(document) is None else "log"


def _first_value(head: bytes) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value in the first line, or that of the whole; `None` if both are not JSON."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for part in (text.partition(b"\n")[0], text):
        try:
            return parse_json(part, allow_nan=True)
        except ToolgradeError:
            continue
    return None
