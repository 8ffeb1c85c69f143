"""Argument objects in which some values say themselves what they accept.

The rules are those of `similarity`: every key that either side names counts, equal values 1, objects recurse, anything
else 0. What stands in the place of a value, a `Wanted`, may count less than a whole key: it can accept that there is no
value (`Ignore`, `Optional`), and is then left out on both sides, as if nobody had named the key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from toolmark.matching.json_compare import ABSENT, Absent, Difference, Path, json_equal
from toolmark.matching.redacted_values import has_mark, is_hidden

Ratio = tuple[int, int]
"""An exact similarity: (numerator, denominator), from (0, n) to (1, 1)."""

ONE: Ratio = (1, 1)
ZERO: Ratio = (0, 1)


class Wanted(ABC):
    """Stands in the place of an expected value, and says what it accepts there.

    Attributes:
        looks: Whether it looks at the value, and not only at whether there is one; a redacted value cannot be looked
            at.
    """

    looks: ClassVar[bool] = True

    @abstractmethod
    def credit(self, value: Any) -> Ratio | None:
        """Return how far a value is what is wanted, from (0, 1) to (1, 1); `None` if the place does not count.

        Args:
            value: A JSON value, or `ABSENT` where there is none.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return what is wanted in a few words, such as `100 within 1%`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return its JSON form."""


@dataclass(slots=True)
class Seen:
    """What a comparison came upon.

    Attributes:
        differences: Where the called object is not what is wanted.
        hidden: Places that could not be compared because a value there is redacted.
    """

    differences: list[Difference] = field(default_factory=list[Difference])
    hidden: list[Path] = field(default_factory=list[Path])


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """An expected argument object with `Wanted` values in it.

    Attributes:
        tree: The object; its values are JSON values and `Wanted` ones, at any depth.
        extras: Whether keys at the top that it does not name are left out, where otherwise they count as wrong.
    """

    tree: Mapping[str, Any]
    extras: bool = False

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return how similar a called argument object is; keys with redacted values are left out."""
        return _objects(self.tree, called, extras=self.extras)

    def seen(self, called: dict[str, Any]) -> Seen:
        """Return every place where a called argument object differs, or cannot be compared."""
        seen = Seen()
        _objects(self.tree, called, extras=self.extras, seen=seen)
        return seen


def credit_of(wanted: Any, value: Any) -> Ratio | None:
    """Return how far a value is what is wanted, which may be a JSON value, a `Wanted` one, or hold some."""
    if isinstance(wanted, Wanted):
        return wanted.credit(value)
    if type(wanted) is dict and type(value) is dict:
        return _objects(wanted, value)
    return ONE if fits(wanted, value) else ZERO


def json_of(wanted: Any) -> Any:
    """Return the JSON form of an expected value: that of the `Wanted` ones in it, and the rest as it is."""
    if isinstance(wanted, Wanted):
        return wanted.to_json()
    if type(wanted) is dict:
        return {key: json_of(item) for key, item in wanted.items()}
    if type(wanted) is list:
        return list(map(json_of, wanted))
    return wanted


def fits(wanted: Any, value: Any) -> bool:
    """Return whether a value is wholly what is wanted."""
    if isinstance(wanted, Wanted):
        return wanted.credit(value) in (None, ONE)
    kind = type(wanted)
    if kind is dict and type(value) is dict:
        return _objects(wanted, value) == ONE
    if kind is list and type(value) is list:
        return len(wanted) == len(value) and all(map(fits, wanted, value))
    return not isinstance(value, Absent) and json_equal(wanted, value)


def _objects(
    wanted: Mapping[str, Any],
    called: dict[str, Any],
    path: Path = (),
    *,
    extras: bool = False,
    seen: Seen | None = None,
) -> Ratio:
    """Return the similarity of two objects, and note in `seen` what speaks against it."""
    size, whole = 0, 0
    parts: list[Fraction] = []
    for key, want in wanted.items():
        credit = _at(want, called.get(key, ABSENT), (*path, key), seen)
        if credit is None:
            continue
        size += 1
        if credit == ONE:
            whole += 1
        elif credit[0]:
            parts.append(Fraction(*credit))
    if not extras:
        size += _extra(wanted, called, path, seen)
    if whole == size:
        return ONE
    total = sum(parts, Fraction(whole)) / size
    return total.numerator, total.denominator


def _at(want: Any, value: Any, path: Path, seen: Seen | None) -> Ratio | None:
    """Return the credit of one key, `None` if it does not count."""
    if type(want) is dict and type(value) is dict:
        return _objects(want, value, path, seen=seen)
    if _hidden(want, value):
        if seen is not None:
            seen.hidden.append(path)
        return None
    credit = credit_of(want, value)
    if seen is not None and credit not in (None, ONE):
        seen.differences.append(_difference(want, value, path))
    return credit


def _extra(wanted: Mapping[str, Any], called: dict[str, Any], path: Path, seen: Seen | None) -> int:
    """Return how many keys of an object nobody asked for; one that is redacted cannot be counted."""
    extra = [key for key in called if key not in wanted]
    marked = [key for key in extra if is_hidden(called[key])]
    if seen is not None:
        seen.hidden.extend((*path, key) for key in marked)
        seen.differences.extend(
            Difference("extra_argument", (*path, key), ABSENT, called[key]) for key in extra if key not in marked
        )
    return len(extra) - len(marked)


def _hidden(want: Any, value: Any) -> bool:
    """Return whether two values cannot be compared because of what is redacted in one of them."""
    if isinstance(want, Wanted):
        return want.looks and has_mark(value)
    return is_hidden(want) or is_hidden(value)


def _difference(want: Any, value: Any, path: Path) -> Difference:
    if isinstance(value, Absent):
        return Difference("missing_argument", path, want, ABSENT)
    if isinstance(want, Wanted) and want.credit(ABSENT) is None and not want.looks:
        return Difference("extra_argument", path, ABSENT, value)
    return Difference("wrong_argument", path, want, value)
