"""Kinds of files that are not files of cases, and the command that each of them needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolmark._internal.json import parse_json
from toolmark._internal.text import printable
from toolmark.dataset import read_bytes
from toolmark.errors import ToolmarkError
from toolmark.results.jsonl import is_header

_MAX_BYTES = 1 << 26
"""Of larger files only so much is read."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""The first bytes of gzip and zstd data; large ones are not unpacked to describe them."""

_CONVERT = "convert it with `toolmark convert {name} --to cases.jsonl`, and score that file"
_REPORT = "has results that are scored already; show them with `toolmark report {name}`"
_KINDS = (
    ({"metrics", "cases"}, _REPORT),
    ({"role", "content"}, f"is a chat log; {_CONVERT}"),
    ({"role", "tool_calls"}, f"is a chat log; {_CONVERT}"),
    ({"messages"}, f"is a chat log; {_CONVERT}"),
    ({"choices"}, f"is a log of model responses; {_CONVERT}"),
    ({"resourceSpans"}, f"is a trace; {_CONVERT}"),
    ({"trace_id", "span_id"}, f"is a trace; {_CONVERT}"),
    ({"traceId", "spanId"}, f"is a trace; {_CONVERT}"),
)
"""The keys of the first object of a file, and what it is."""


def wrong_kind(path: str) -> str | None:
    """Return what a file that has no cases is and which command it needs; `None` if that is unknown."""
    try:
        data = b"" if path == "-" else _beginning(path)
    except (OSError, ToolmarkError):
        return None
    text = _kind_of(data)
    return None if text is None else f"{printable(path)} {text.format(name=printable(path))}"


def _beginning(path: str) -> bytes:
    """Return the unpacked content of a file, or the first bytes of a large one."""
    with Path(path).open("rb") as file:
        head = file.read(_MAX_BYTES + 1)
    if len(head) <= _MAX_BYTES:
        return read_bytes(path)
    return b"" if head.startswith(_COMPRESSED) else head


def _kind_of(data: bytes) -> str | None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16 text; save it as UTF-8"
    if b"\0" in data[:1000] or _is_mostly_binary(data[:1000]):
        return "is a binary file; give a file of JSON Lines or Parquet with test cases"
    first = data.lstrip().partition(b"\n")[0]
    if first and first[:1] not in b'{["' and b"," in first:
        return "looks like CSV; write each row as a JSON object on a line of its own"
    value, is_whole = _first_value(data, first)
    if isinstance(value, list) and value:
        value, is_whole = value[0], False
    if not isinstance(value, Mapping):
        return None
    if is_header(value):
        return _REPORT
    for keys, text in _KINDS:
        if keys <= value.keys():
            return text
    if is_whole and b"\n" in data.strip():
        return "is one JSON object on several lines; write each case as an object on one line, or all of them in a list"
    return None


def _is_mostly_binary(head: bytes) -> bool:
    """Return whether more than a tenth of the characters cannot be UTF-8; other encodings of text have fewer."""
    return head.decode("utf-8", "replace").count("\ufffd") > len(head) / 10


def _first_value(data: bytes, first: bytes) -> tuple[Any, bool]:
    """Return the value in the first line, or that of the whole file, and whether it is the latter."""
    for text, is_whole in ((first, False), (data, True)):
        try:
            return parse_json(text, allow_nan=True), is_whole
        except ToolmarkError:
            continue
    return None, False
