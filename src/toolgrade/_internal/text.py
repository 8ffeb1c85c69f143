r"""Text for people: shortened values, rounded numbers, and escaped control characters.

A trace may hold any characters. Control characters and invisible ones, such as those that reverse the direction of
writing, are written as `\x1b` or `\u202e`, so that a terminal does not interpret them. The first character of a
workflow command, such as `::error::`, is escaped too, because CI services execute such commands in a log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category, normalize

from toolgrade._internal.json import json_text

_LOG_COMMAND = re.compile(
    r"(?<!\S):(?=:)"  # `::` after white space, where wrapping may begin a line
    r"|:(?=:(?:error|warning|notice|debug|group|endgroup|echo|add-[a-z]+|remove-[a-z]+|set-[a-z]+|save-[a-z]+|stop-[a-z]+)"
    r"(?: [^:]*)?::)"  # `::error::` and `::error file=a::` anywhere
    r"|#(?=#(?:\[|vso\[|teamcity\[))"  # `##[error]`, `##vso[...]` and `##teamcity[...]`
)
"""The first character of a workflow command."""
_JOINTS = frozenset(".@+%-")
"""Characters inside of numbers, ids and addresses."""
_LONGEST_ALIKE = 100_000
_DRAWN_ALIKE = str.maketrans(
    # Cyrillic, Greek, then hyphens and apostrophes
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
    "\u2010\u2011\u2012\u2013\u2212\u2018\u2019\u02bc",
    "aeopcyxijshdqwABEKMHOPCTYXIJSABEZHIKMNOPTYXov-----" + "'" * 3,
)
"""Characters that are drawn like others, after https://www.unicode.org/Public/security/latest/confusables.txt."""


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


def shorten_pair(one: str, other: str, limit: int, other_limit: int) -> tuple[str, str]:
    """Return two different texts, each cut to its limit if it is longer, such that they still differ.

    The beginning and the end stay, as by `shorten`, or if the first difference is not in the beginning, the part around
    it.
    """
    start = shared_length(one, other)
    limits = limit, other_limit
    cut = shorten(one, limit), shorten(other, other_limit)
    if (start < min(limits) // 2 and cut[0] != cut[1]) or cut == (one, other):
        return cut
    # Both parts begin at the same place, so that they cannot be equal.
    begin = max(start - min(limits) // 3, 0)
    parts = [f"...{_shorten_end(text[begin:], size - 3)}" for text, size in zip((one, other), limits, strict=True)]
    whole = [text if len(text) <= size else part for text, part, size in zip((one, other), parts, limits, strict=True)]
    left, right = parts if whole[0] == whole[1] else whole
    return left, right


def _shorten_end(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def contains_whole(text: str, part: str) -> bool:
    """Return whether a text has a part that is not inside of a longer word, number, id or address."""
    begin = text.find(part) if part else -1
    while begin >= 0:
        end = begin + len(part)
        if not _continues(text[max(begin - 2, 0) : begin][::-1]) and not _continues(text[end : end + 2]):
            return True
        begin = text.find(part, begin + 1)
    return False


def _continues(beside: str) -> bool:
    """Return whether the two characters beside a text, the nearer one first, continue it."""
    near, far = beside[:1], beside[1:]
    return _is_in_word(near) or (near in _JOINTS and _is_in_word(far)) or (near == "," and far.isdigit())


def _is_in_word(char: str) -> bool:
    """Return whether a character is a part of a word; in scripts without capital letters, words are not separated."""
    is_letter = char.isalpha() and (char.isascii() or char.lower() != char.upper())
    return is_letter or char.isdigit() or char == "_"


def code_points_note(expected: str, called: str) -> str:
    """Return the code points in which two texts differ that look alike; empty for other texts.

    Texts look alike if they differ only in white space, in characters of no width, in Unicode forms (such as "é" in one
    character and in two), or in letters of other scripts that are drawn alike.
    """
    if expected == called or max(len(expected), len(called)) > _LONGEST_ALIKE:
        return ""
    if _outlines(expected) != _outlines(called):
        return ""
    is_space = "".join(expected.split()) == "".join(called.split())
    start = shared_length(expected, called)
    end = shared_length(expected[start:][::-1], called[start:][::-1])
    one, other = (_code_points(text[start : len(text) - end]) for text in (expected, called))
    words = "they differ in white space" if is_space else "they look alike"
    return f" ({words}: {one or 'nothing'} is expected, {other or 'nothing'} called)"


def _outlines(text: str) -> str:
    """Return what is seen of a text, without white space."""
    plain = normalize("NFKC", text).translate(_DRAWN_ALIKE)
    return "".join(char for char in plain if not char.isspace() and category(char) != "Cf")


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
