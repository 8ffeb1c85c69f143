r"""Text for people: shortened values, rounded numbers, and escaped control characters.

A trace may hold any characters. Control characters and invisible ones, such as those that reverse the direction of
writing, are written as `\x1b` or `\u202e`, so that a terminal does not interpret them. The first character of a
workflow command, such as `::error::`, is escaped too, because CI services execute such commands in a log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from toolgrade._internal.json import json_text

_LOG_COMMAND = re.compile(
    r"(?<!\S):(?=:)"  # `::` after white space, where wrapping may begin a line
    r"|:(?=:[A-Za-z-]+(?: [^:]*)?::)"  # `::error::` and `::error file=a::` anywhere
    r"|#(?=#(?:\[|vso\[|teamcity\[))"  # `##[error]`, `##vso[...]` and `##teamcity[...]`
)
"""The first character of a workflow command."""


def printable(text: str) -> str:
    """Return `text` on one line, with non-printing characters and the starts of workflow commands escaped."""
    if "::" in text or "##" in text:
        text = _LOG_COMMAND.sub(lambda match: f"\\x{ord(match[0]):x}", text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    """Return `text` with its line breaks, with tabs as spaces, and otherwise escaped as by `printable`."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))


def shorten(text: str, limit: int) -> str:
    """Return `text`, cut to `limit` characters with "..." in place of its middle if it is longer."""
    if len(text) <= limit:
        return text
    length = limit - 3
    tail = length // 3
    return f"{text[: length - tail]}...{text[len(text) - tail :]}"


def short_json(value: object, limit: int = 80) -> str:
    """Return a JSON value as JSON text, printable and at most `limit` characters long."""
    return shorten(printable(json_text(value)), limit)


def code_points_note(expected: str, called: str) -> str:
    """Return the code points in which two texts differ that look alike; empty for other texts.

    Texts look alike if Unicode's normal form C is the same, such as "é" in one character and in two.
    """
    if expected == called or (expected.isascii() and called.isascii()):
        return ""
    if normalize("NFC", expected) != normalize("NFC", called):
        return ""
    start = shared_length(expected, called)
    # The length of the common end. It is counted behind the first difference, so that this is always shown.
    end = shared_length(expected[:start:-1], called[:start:-1])
    one, other = (_code_points(text[start : len(text) - end]) for text in (expected, called))
    return f" (they look alike: {one} is expected, {other} called)"


def shared_length(one: str, other: str) -> int:
    """Return how many characters two texts share at their start."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _code_points(text: str) -> str:
    return " ".join(f"U+{ord(char):04X}" for char in text[:8])


def number_text(value: float) -> str:
    """Return a score with at most four decimals: `0.6667`, `0.5`, `1`. Only an exact 0 or 1 is written as such."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    if (text == "1" and value < 1) or (text == "0" and value > 0):
        return f"{value:.6g}"
    return text


def difference_text(value: float) -> str:
    """Return a difference of scores with its sign: `+0.25`, `-0.5`, `0`."""
    if value == 0:
        return "0"
    return f"{'-' if value < 0 else '+'}{number_text(abs(value))}"


def hundredths_text(value: float) -> str:
    """Return a number with two decimals, or with more if it would be rounded to 0 or 1."""
    text = f"{value:.2f}"
    rounded = float(text)
    if rounded in (0.0, 1.0) and rounded != value:
        return number_text(value)
    return text


def percent(share: float) -> str:
    """Return a share as a percentage; only exactly 0 and 1 are shown as 0 % and 100 %."""
    text = f"{share * 100:.1f}".removesuffix(".0")
    return f"{number_text(share * 100) if text in {'0', '100'} and share not in (0, 1) else text} %"


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone if the text is empty or cannot be read.

    A group of one exception, as task groups raise it, is named by that one.
    """
    # By name: Python 3.10 has no such class.
    while any(kind.__name__ == "BaseExceptionGroup" for kind in type(error).__mro__):
        exceptions: Sequence[BaseException] = error.exceptions  # type: ignore[attr-defined]
        if len(exceptions) > 1:
            break
        error = exceptions[0]
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - `__str__` is foreign code
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def plural(amount: int, noun: str) -> str:
    """Return `1 call`, `2,000 calls`."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def join_first(texts: Sequence[str], limit: int, *, count_rest: bool = False) -> str:
    """Return the first texts with commas between them; `, ...`, or ` and 5 more`, stands for further ones."""
    first = ", ".join(texts[:limit])
    rest = len(texts) - limit
    if rest <= 0:
        return first
    return f"{first} and {rest} more" if count_rest else f"{first}, ..."


def unique_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels, made unique: the second of several equal ones gets ` #2`, the third ` #3`."""
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for label in labels:
        name = label
        while name in names:
            numbers[label] = numbers.get(label, 1) + 1
            name = f"{label} #{numbers[label]}"
        names[name] = None
    return list(names)
