"""Matchers of single values: equal, close, similar, or one of several."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, ClassVar

from toolmark._internal.regex import BoundedPattern
from toolmark._internal.text import short_json, shorten
from toolmark.errors import ConfigurationError
from toolmark.expect.dates import read_moment
from toolmark.expect.matcher import LONGEST, MARK, Matcher, ValueMatcher, set_field, tree_of, value_text
from toolmark.matching.argument_pattern import Ratio, credit_of, fits
from toolmark.matching.json_compare import json_equal


def _deep(expected: Any, value: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Return whether two values agree; values other than lists and objects are compared by `same`."""
    if type(expected) is list and type(value) is list:
        return len(expected) == len(value) and all(_deep(a, b, same) for a, b in zip(expected, value, strict=True))
    if type(expected) is dict and type(value) is dict:
        return expected.keys() == value.keys() and all(_deep(item, value[key], same) for key, item in expected.items())
    return same(expected, value)


@dataclass(frozen=True)
class Exact(ValueMatcher):
    """The value itself. In JSON, an object with the key `$is` inside it is a plain value and not a matcher."""

    kind: ClassVar[str] = "exact"

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of the value itself."""
        return credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is equal."""
        return json_equal(self.value, value)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, in which the value is never read as a matcher."""
        return {MARK: self.kind, **({"value": self.value} if self.complete else {})}

    def describe(self) -> str:
        """Return the value."""
        return shorten(short_json(self.value), LONGEST)


@dataclass(frozen=True)
class Approx(ValueMatcher):
    """A number near another; in lists and objects, every number near the expected one at the same place.

    A number v is near the expected w if `|v - w| <= max(rel * |w|, abs)`; NaN is near NaN, an infinity near itself.

    Args:
        value: The expected number, or a list or object of numbers.
        rel: Relative tolerance, at least 0.
        abs: Absolute tolerance, at least 0. With neither, `rel` is 1e-6.

    Raises:
        ConfigurationError: A tolerance is negative or not a number.
    """

    kind: ClassVar[str] = "approx"
    rel: float | None = None
    abs: float | None = None

    def __post_init__(self) -> None:
        """Check the tolerances."""
        for name in ("rel", "abs"):
            tolerance = getattr(self, name)
            if tolerance is not None and not (_is_number(tolerance) and tolerance >= 0):
                message = f"{name} of Approx must be a number from 0, got {tolerance!r}"
                raise ConfigurationError(message)
        super().__post_init__()

    @property
    def _tolerances(self) -> tuple[float, float]:
        if self.rel is None and self.abs is None:
            return 1e-6, 0.0
        return self.rel or 0.0, self.abs or 0.0

    def accepts(self, value: Any) -> bool:
        """Return whether a value is near."""
        return _deep(self.value, value, self._near)

    def _near(self, expected: Any, value: Any) -> bool:
        if not (_is_number(expected) and _is_number(value)) or not math.isfinite(expected) or not math.isfinite(value):
            return json_equal(expected, value)
        rel, abs_ = self._tolerances
        # Compared as decimals: 1.1 is within 0.1 of 1, although the nearest binary number is not.
        near, far = _decimal(expected), _decimal(value)
        return abs(far - near) <= max(_decimal(rel) * abs(near), _decimal(abs_))

    def describe(self) -> str:
        """Return `about 100 (rel 0.01)`."""
        rel, abs_ = self._tolerances
        within = ", ".join(f"{name} {size:g}" for name, size in (("rel", rel), ("abs", abs_)) if size)
        return f"about {value_text(self.value)}" + (f" ({within})" if within else "")


def _decimal(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Regex(Matcher):
    """A text that fully matches a Python regular expression. Also accepted as the name of a tool.

    Args:
        pattern: The expression; a search that takes longer than two seconds is an error.
        ignore_case: Ignore the case of letters.
        search: Match anywhere in the text instead of the whole text.

    Raises:
        ConfigurationError: The pattern is not a regular expression.
    """

    kind: ClassVar[str] = "regex"
    pattern: str
    ignore_case: bool = False
    search: bool = False
    _bounded: BoundedPattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the expression."""
        set_field(self, "_bounded", BoundedPattern(self.pattern, self.ignore_case))

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a text that matches."""
        if not isinstance(value, str):
            return False
        return self._bounded.search(value) if self.search else self._bounded.fullmatch(value)

    def describe(self) -> str:
        """Return `/pattern/`."""
        return f"/{self.pattern}/{'i' if self.ignore_case else ''}"


@dataclass(frozen=True)
class Contains(ValueMatcher):
    """A text that contains this text, or a list that contains this item.

    Args:
        value: The text or the item; an item may be a matcher.
    """

    kind: ClassVar[str] = "contains"
    nested: ClassVar[bool] = True

    def accepts(self, value: Any) -> bool:
        """Return whether a text or a list contains it."""
        if isinstance(value, str):
            return isinstance(self.value, str) and self.value in value
        return isinstance(value, list) and any(fits(self.value, item) for item in value)

    def describe(self) -> str:
        """Return `contains "x"`."""
        return f"contains {value_text(self.value)}"


@dataclass(frozen=True, init=False)
class AnyOf(Matcher):
    """One of several values or matchers; the best one gives the credit.

    Args:
        values: The values, at least one.

    Raises:
        ConfigurationError: No value is passed.
    """

    kind: ClassVar[str] = "any_of"
    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        """Normalize the values."""
        if not values:
            raise ConfigurationError("AnyOf needs at least one value")
        set_field(self, "values", tuple(map(tree_of, values)))

    @property
    def complete(self) -> bool:
        """Whether all matchers among the values are complete."""
        return all(value.complete for value in self.values if isinstance(value, Matcher))

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value set in those of its matchers that lack one."""
        return AnyOf(*(one.bind(value) if isinstance(one, Matcher) else one for one in self.values))

    def credit(self, value: Any) -> Ratio | None:
        """Return the best credit among the values; `None` if one of them accepts a missing value."""
        ratios = [credit_of(one, value) for one in self.values]
        if None in ratios:
            return None
        return max((ratio for ratio in ratios if ratio), key=lambda ratio: Fraction(*ratio))

    def accepts(self, value: Any) -> bool:
        """Return whether a value is one of them."""
        return any(fits(one, value) for one in self.values)

    def describe(self) -> str:
        """Return `1 or 2`."""
        return shorten(" or ".join(map(value_text, self.values)), LONGEST)


@dataclass(frozen=True)
class IgnoreCase(ValueMatcher):
    """The value, ignoring the case of texts, also in lists and objects; keys are compared exactly."""

    kind: ClassVar[str] = "ignore_case"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is equal but for case."""
        return _deep(self.value, value, lambda a, b: json_equal(_folded(a), _folded(b)))

    def describe(self) -> str:
        """Return the value and how it is compared."""
        return f"{value_text(self.value)} in any case"


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


@dataclass(frozen=True)
class Normalized(ValueMatcher):
    """The value, ignoring case, white space and Unicode forms of texts, also in lists and objects.

    Texts are normalized to NFKC and case-folded; white space is stripped, and inside it becomes one space.

    Args:
        value: The expected value.
        drop: Characters that are removed from both texts before they are compared.
    """

    kind: ClassVar[str] = "normalized"
    drop: str = ""

    def accepts(self, value: Any) -> bool:
        """Return whether a value is equal in normal form."""
        return _deep(self.value, value, lambda a, b: json_equal(self._normal(a), self._normal(b)))

    def _normal(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", value).casefold())
        text = "".join(letter for letter in text if letter not in self.drop)
        return " ".join(text.split())

    def describe(self) -> str:
        """Return the value and how it is compared."""
        return f"{value_text(self.value)} but for case and white space"


@dataclass(frozen=True)
class DateEqual(ValueMatcher):
    """A text that names the same day, or the same moment.

    Both are parsed as ISO 8601, or by one of `formats`. An expected day accepts any time on that day; an expected
    moment accepts only the same moment. A time with an offset never equals one without.

    Args:
        value: The expected day or moment: text, or a `date` or `datetime`.
        formats: Further formats for `strptime`, such as `%d.%m.%Y`.

    Raises:
        ConfigurationError: The value is not a date in any of these forms.
    """

    kind: ClassVar[str] = "date"
    formats: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        set_field(self, "formats", tuple(self.formats))
        if self.complete and read_moment(self.value, self.formats) is None:
            message = f"DateEqual needs a date or a time in ISO 8601, or in one of its formats, got {self.value!r}"
            raise ConfigurationError(message)

    def accepts(self, value: Any) -> bool:
        """Return whether a text names the same day or moment."""
        expected, moment = read_moment(self.value, self.formats), read_moment(value, self.formats)
        return expected is not None and moment is not None and expected.same(moment)

    def describe(self) -> str:
        """Return the date."""
        return f"the date {self.value}"


@dataclass(frozen=True)
class Glob(Matcher):
    """A text that matches a shell pattern (`*`, `?`, `[...]`), case-sensitive. Also accepted as the name of a tool.

    Args:
        pattern: The pattern.
    """

    kind: ClassVar[str] = "glob"
    pattern: str

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a text that matches."""
        return isinstance(value, str) and fnmatchcase(value, self.pattern)

    def describe(self) -> str:
        """Return the pattern."""
        return self.pattern
