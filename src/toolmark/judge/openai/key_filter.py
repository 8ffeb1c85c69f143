"""Removal of API keys from texts: an endpoint may quote the key that it was sent, in any part of an answer.

A key is found by its text, whatever its shape: as it is, URL-encoded, escaped as JSON or HTML, and as base64; also if
only its beginning is left.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from toolmark._internal.markers import REDACTED

NO_KEY: Final = "not-needed"
"""Sent to servers that need no key, since OpenAI's client demands one."""

SHORTEST: Final = 8
"""Characters of the shortest key, and of the shortest beginning of one, that is removed.

Servers without keys are sent placeholders, such as `none`; removing these words would destroy answers."""

_KEY_HEADERS = ("authorization", "api-key", "x-api-key")
_KEY_VARIABLES = ("TOOLMARK_JUDGE_API_KEY", "OPENAI_API_KEY")
_FIELDS_OF_A_REPLY = ("evidence", "reasoning", "cannot_tell")
_MOST_RECENT = 64
_LOGGERS = (
    "openai._base_client",
    *("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks"),
    *("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)
_BASE64_VARIANTS = {"+": "-", "/": "_"}

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
    """Return a text with each of these keys, and each beginning of one, replaced by `REDACTED`."""
    secrets = [key for key in keys if len(key) >= SHORTEST and key != NO_KEY]
    parts: list[str] = []
    done = 0
    # Keys of one provider begin alike, so that several match at a place: the longest one counts.
    for start, end in sorted(span for key in secrets for span in _spans(text, key)):
        if start >= done:
            parts += (text[done:start], REDACTED)
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _spans(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each spelling of a key, or of its beginning, in a text."""
    for beginning, rest in _spellings(key):
        for match in beginning.finditer(text):
            end = match.end()
            for character in rest:
                further = character.match(text, end)
                if further is None:
                    break
                end = further.end()
            yield match.start(), end


@lru_cache(maxsize=_MOST_RECENT)
def _spellings(key: str) -> list[tuple[re.Pattern[str], list[re.Pattern[str]]]]:
    """Return, for each way to write a key, the pattern of its beginning, and those of the characters after it."""
    spellings: list[tuple[re.Pattern[str], list[re.Pattern[str]]]] = []
    for text in (key, *_base64_cores(key)):
        # A key that begins like a field of every reply is only removed as a whole.
        length = len(text) if text.startswith(_FIELDS_OF_A_REPLY) else SHORTEST
        characters = list(map(_any_escape, text))
        spellings.append((re.compile("".join(characters[:length])), list(map(re.compile, characters[length:]))))
    return spellings


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


def _any_escape(character: str) -> str:
    """Return a pattern of a character as it is, or escaped for a URL, JSON or HTML, at any depth of JSON text."""
    variants = character + _BASE64_VARIANTS.get(character, "")
    plain = "|".join(map(re.escape, variants))
    slash = r"\\*/|" if character == "/" else ""
    code = ord(character)
    return rf"(?:{slash}{plain}|(?i:%{code:02x}|\\+u{code:04x}|&\#0*{code};|&\#x0*{code:x};))"


class _LogFilter(logging.Filter):
    """Removes keys from log records: the HTTP client logs the status line of an answer before anyone can check it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = without_keys(message)
        if clean != message:
            record.msg, record.args = clean, ()
        return True


_LOG_FILTER = _LogFilter()
