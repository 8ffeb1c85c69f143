"""Removal of API keys from texts: an endpoint may quote the key that it was sent, in any part of an answer.

A key is found by its text, whatever its shape: as it is, URL-encoded, escaped as JSON or HTML, as base64, and in
hexadecimal. Any 23 characters of a plain or escaped key are found, and the first 8 of every form.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from toolgrade._internal.markers import REDACTED

NO_KEY: Final = "not-needed"
"""Sent to servers that need no key, since OpenAI's client demands one."""

SHORTEST: Final = 8
"""Characters of the shortest key, and of the shortest beginning of one, that is removed.

Servers without keys are sent placeholders, such as `none`; removing these words would destroy answers."""

_KEY_HEADERS = ("authorization", "api-key", "x-api-key")
_KEY_VARIABLES = ("TOOLGRADE_JUDGE_API_KEY", "OPENAI_API_KEY")
_FIELDS_OF_A_REPLY = ("evidence", "reasoning", "cannot_tell")
_MOST_RECENT = 64
_LOGGERS = (
    "openai._base_client",
    *("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks"),
    *("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)
_BASE64_FOR_URLS = str.maketrans("+/", "-_")
_PART = 12
"""Characters of the parts by which a key is found. They follow each other, so any 23 characters hold a whole one."""
_ESCAPE = re.compile(
    # For a URL, also more than once; for JSON at any depth; for HTML. A run of backslashes is read from its first.
    r"%(?:25)*(?P<url>[0-9a-f]{2})|(?<!\\)\\+(?:u(?P<json>[0-9a-f]{4})|(?P<slash>/))"
    r"|&\#0*(?P<decimal>[0-9]{1,3});|&\#x0*(?P<html>[0-9a-f]{1,2});",
    re.IGNORECASE,
)

_recent: dict[str, None] = {}
"""The keys that were sent last, oldest first."""


def keys_of(headers: Mapping[str, str]) -> list[str]:
    """Return the keys in the headers of a request."""
    values = [headers.get(name, "").rpartition(" ")[2] for name in _KEY_HEADERS]
    return list(filter(None, values))


def remember(keys: Iterable[str]) -> None:
    """Store keys that are about to be sent, so that `without_keys` and the logs of the HTTP client leave them out."""
    for key in keys:
        _recent.pop(key, None)
        _recent[key] = None
    for key in list(_recent)[:-_MOST_RECENT]:
        _recent.pop(key, None)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_LOG_FILTER)  # adding it again changes nothing


def without_keys(text: str) -> str:
    """Return a text without the keys that were sent last, and without those of the environment."""
    return remove_keys(text, [*_recent, *(os.environ.get(name, "") for name in _KEY_VARIABLES)])


def remove_keys(text: str, keys: Iterable[str]) -> str:
    """Return a text with each of these keys, whole or in part, replaced by `REDACTED`."""
    secrets = [key for key in keys if len(key) >= SHORTEST and key != NO_KEY]
    if not secrets:
        return text
    decoded = _Decoded(text)
    parts: list[str] = []
    done = 0
    # Keys of one provider begin alike, so that several match at a place: the longest one counts.
    for start, end in sorted(span for key in secrets for span in _spans(decoded.text, key)):
        first, last = decoded.source_of(start), decoded.source_of(end)
        if first >= done:
            parts += (text[done:first], REDACTED)
        done = max(done, last)
    return "".join([*parts, text[done:]])


class _Decoded:
    """A text with its escaped characters decoded, and the place of each character in the original."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._ends, self._source_ends = [0], [0]
        length = done = 0
        for match in _ESCAPE.finditer(text):
            parts += (text[done : match.start()], _unescape(match))
            length += match.start() - done + 1
            done = match.end()
            self._ends.append(length)
            self._source_ends.append(done)
        self.text = "".join([*parts, text[done:]]) if parts else text

    def source_of(self, position: int) -> int:
        """Return where the character at a position begins in the original."""
        index = bisect_right(self._ends, position) - 1
        return self._source_ends[index] + position - self._ends[index]


def _unescape(match: re.Match[str]) -> str:
    if match["slash"]:
        return "/"
    decimal, hexadecimal = match["decimal"], match["url"] or match["json"] or match["html"]
    return chr(int(decimal) if decimal else int(hexadecimal, 16))


def _spans(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each part of a key, in any encoding, in a text without escapes."""
    for form, parts in _forms(key):
        for offset, part in parts:
            start = text.find(part)
            while start >= 0:
                before = text[max(0, start - offset) : start]
                after = text[start : start + len(form) - offset]
                end = start + _equal_characters(after, form[offset:])
                yield start - _equal_characters(before[::-1], form[:offset][::-1]), end
                start = text.find(part, end)


def _equal_characters(first: str, second: str) -> int:
    """Return how many characters at the beginning of two texts are equal."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


@lru_cache(maxsize=_MOST_RECENT)
def _forms(key: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return each form that a key may have, with the parts by which it is found and their offsets."""
    plain = _Decoded(key).text  # a key may itself have characters that look like an escape
    # A key that begins like a field of every reply is only removed as a whole.
    beginning = plain if plain.startswith(_FIELDS_OF_A_REPLY) else plain[:SHORTEST]
    middle = [(start, plain[start : start + _PART]) for start in range(_PART, len(plain) - _PART + 1, _PART)]
    encoded = [form for core in _base64_cores(key) for form in (core, core.translate(_BASE64_FOR_URLS))]
    encoded += [key.encode().hex(), key.encode().hex().upper()]
    return [(plain, [(0, beginning), *middle]), *((form, [(0, form[:SHORTEST])]) for form in dict.fromkeys(encoded))]


def _base64_cores(key: str) -> Iterator[str]:
    """Yield the base64 text of a key at each of the three offsets that a longer text may give it.

    The letters at both ends that also depend on the neighbours of the key are left out.
    """
    content = key.encode()
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + content).decode("ascii")
        core = whole[-(-offset * 8 // 6) : (offset + len(content)) * 8 // 6]
        if len(core) >= SHORTEST:
            yield core


class _LogFilter(logging.Filter):
    """Removes keys from log records: the HTTP client logs the status line of an answer before anyone can check it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = without_keys(message)
        if clean != message:
            record.msg, record.args = clean, ()
        return True


_LOG_FILTER = _LogFilter()
