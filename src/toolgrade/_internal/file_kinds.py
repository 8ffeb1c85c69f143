"""Kinds of files that hold neither JSON Lines nor a JSON array, recognized by how they begin."""

from __future__ import annotations

from typing import Final

_PARQUET: Final = b"PAR1"
"""First bytes of a Parquet file."""

_HEAD = 1000
"""Bytes that decide whether data is text, and in which encoding."""


def unreadable_kind(line: bytes, following: bytes = b"") -> str | None:
    """Return what a file is whose first line with content is not JSON, and what to do; `None` if that is unknown.

    `following` is what comes after this line, or some of it.
    """
    head = line[:_HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _has_zeros_between(head):
        return "is UTF-16 text; save it as UTF-8"
    if head.startswith(_PARQUET):
        return "is Parquet, which cannot be read here; give JSON Lines or a JSON array"
    if b"\0" in head or _is_mostly_binary(head):
        return "is a binary file; give JSON Lines or a JSON array"
    if line.startswith((b"data:", b"event:")):
        return "is a raw stream of server-sent events; log the response that the client assembles"
    begin = line.lstrip()[:1]
    if begin not in b"{[" and any(separator in line for separator in (b",", b";", b"\t")):
        return "looks like CSV; write each row as a JSON object on a line of its own"
    has_json = following.lstrip().startswith((b"{", b"[")) or b"\n{" in following
    if begin not in b"{[" and not has_json:
        return "is text without JSON; give JSON Lines, with a JSON object on each line, or a JSON array"
    return None


def _has_zeros_between(head: bytes) -> bool:
    """Return whether every second byte is zero and no other: UTF-16 without a byte order mark, in Latin letters."""
    even, odd = head[::2], head[1::2]
    return len(odd) > 1 and ((not any(even) and all(odd)) or (not any(odd) and all(even)))


def _is_mostly_binary(head: bytes) -> bool:
    """Return whether more than a tenth of the characters cannot be UTF-8; other encodings of text have fewer."""
    return head.decode("utf-8", "replace").count("\ufffd") > len(head) / 10
