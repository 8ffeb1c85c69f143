"""Matchers of values and lists: close, similar, one of several, by a schema or a function, present or absent."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import translate
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from toolgrade._internal.budget import BoundedPattern, Budget, current_budget
from toolgrade._internal.json import MARK, MAX_DEPTH, is_deeper, is_number, short_repr, to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.options import require, require_flags
from toolgrade._internal.text import short_json
from toolgrade.errors import ConfigurationError, ToolgradeError
from toolgrade.expect.json_schema import BrokenSchemaError, Validator, build_validator
from toolgrade.expect.matcher import Matcher, ValueMatcher, nested_tree, part_fits, set_field, value_text
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, credit_of, fits, holds_matcher
from toolgrade.matching.json_compare import ABSENT, frozen, has_mark, json_equal

_EDITS = 4_000
"""Pairs of characters that are compared for an edit distance in about the time of one step."""
_MOST_COMBINING = 1_000
"""The most combining characters in a row for which a text is normalized."""


@dataclass(frozen=True)
class _LeafMatcher(ValueMatcher):
    """Base of the matchers that go into lists and objects and override how the values inside are compared."""

    def accepts(self, value: Any) -> bool:
        """Return whether a value agrees; keys and lengths of lists must be equal."""
        return self._agrees(self.value, value)

    def _agrees(self, expected: Any, value: Any) -> bool:
        if type(expected) is list and type(value) is list:
            return len(expected) == len(value) and all(map(self._agrees, expected, value))
        if type(expected) is dict and type(value) is dict:
            return expected.keys() == value.keys() and all(self._agrees(expected[key], value[key]) for key in expected)
        return self._same(expected, value)

    def _same(self, expected: Any, value: Any) -> bool:
        """Return whether two values agree, of which at most one is a list or an object."""
        if isinstance(expected, str) and isinstance(value, str):
            return self._normal(expected) == self._normal(value)
        return json_equal(expected, value)

    def accepts_part(self, text: str) -> bool:
        """Return whether a text contains the value, which must be text."""
        return isinstance(self.value, str) and self._normal(self.value) in self._normal(text)

    def _normal(self, text: str) -> str:
        """Return a text as it is compared."""
        return text


@dataclass(frozen=True)
class Approx(_LeafMatcher, kind="approx"):
    """A number near another; in lists and objects, every number near the expected one at the same place.

    A number v is near the expected w if `|v - w| <= max(rel * |w|, abs)`; NaN is near NaN, an infinity near itself.

    Args:
        value: The expected number, or a list or object of numbers.
        rel: Relative tolerance, at least 0.
        abs: Absolute tolerance, at least 0. With neither, `rel` is 1e-6.

    Raises:
        ConfigurationError: A tolerance is negative, infinite or not a number.

    Example:
        >>> from toolgrade.expect import Approx, Expect
        >>> price = Approx(250, rel=0.01)
        >>> expected = Expect("book_flight", {"to": "Paris", "price": price})
        >>> [number for number in (249, 252.5, 260) if price.accepts(number)]
        [249, 252.5]
    """

    rel: float | None = None
    abs: float | None = None

    def __post_init__(self) -> None:
        """Check the tolerances."""
        for name in ("rel", "abs"):
            tolerance = getattr(self, name)
            valid = tolerance is None or (_is_finite(tolerance) and tolerance >= 0)
            require(valid, f"{name} of Approx must be a finite number from 0", tolerance)
        super().__post_init__()

    @property
    def _tolerances(self) -> tuple[float, float]:
        if self.rel is None and self.abs is None:
            return 1e-6, 0.0
        return self.rel or 0.0, self.abs or 0.0

    def _same(self, expected: Any, value: Any) -> bool:
        if not (_is_finite(expected) and _is_finite(value)):
            return json_equal(expected, value)
        # Compared as decimals: 1.1 is within 0.1 of 1, although the nearest binary number is not.
        target, number = _decimal(expected), _decimal(value)
        relative, absolute = map(_decimal, self._tolerances)
        return abs(number - target) <= max(relative * abs(target), absolute)

    def describe(self) -> str:
        """Return `about 100 (rel 0.01)`."""
        rel, abs_ = self._tolerances
        tolerances: list[str] = []
        if rel:
            tolerances.append(f"rel {_size_text(rel)}")
        if abs_:
            tolerances.append(f"abs {_size_text(abs_)}")
        text = f"about {value_text(self.value)}"
        return f"{text} ({', '.join(tolerances)})" if tolerances else text


def _size_text(size: float) -> str:
    # `:g` converts to a float and raises for an integer that is too large for one.
    return f"{size:g}" if size < 10**15 else short_json(size)


def _decimal(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _is_finite(value: Any) -> bool:
    return is_number(value) and abs(value) < math.inf  # `math.isfinite` cannot take integers of hundreds of digits


@dataclass(frozen=True)
class Regex(Matcher, kind="regex"):
    """A text that fully matches a Python regular expression. Also accepted as the name of a tool.

    Args:
        pattern: The expression; all searches of a case may take two seconds, then the case is not measured.
        ignore_case: Ignore the case of letters.
        search: Match anywhere in the text instead of the whole text.

    Raises:
        ConfigurationError: The pattern is not a regular expression.

    Example:
        >>> from toolgrade.expect import Expect, Regex
        >>> flight = Regex("AF[0-9]+")
        >>> expected = Expect("book_flight", {"flight": flight})
        >>> [text for text in ("AF1234", "LH400", "flight AF1234") if flight.accepts(text)]
        ['AF1234']
    """

    pattern: str
    ignore_case: bool = False
    search: bool = False
    _bounded: BoundedPattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the flags, and compile the expression."""
        require_flags(self)
        set_field(self, "_bounded", BoundedPattern(self.pattern, self.ignore_case))

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a text that matches."""
        matches = self._bounded.search if self.search else self._bounded.fullmatch
        return isinstance(value, str) and matches(value)

    def accepts_part(self, text: str) -> bool:
        """Return whether the expression matches anywhere in a text."""
        return self._bounded.search(text)

    def describe(self) -> str:
        """Return `/pattern/`."""
        return f"/{self.pattern}/{'i' if self.ignore_case else ''}"


@dataclass(frozen=True)
class Contains(ValueMatcher, kind="contains"):
    """A text that contains this text, or a list that contains this item.

    In a text, `Exact`, `IgnoreCase`, `Normalized`, `SameMeaning`, `Regex`, `Glob`, and combinations of them are looked
    for as well; other matchers accept items of lists only.

    Args:
        value: The text or the item; may be a matcher, except `Not` and `Absent`.
        ignore_case: Ignore the case of texts, also in lists and objects; a matcher says that itself.

    Raises:
        ConfigurationError: The matcher cannot be looked for, or `ignore_case` is used with a matcher.

    Example:
        >>> from toolgrade.expect import Contains, Expect
        >>> question = Contains("paris", ignore_case=True)
        >>> expected = Expect("search_web", {"query": question})
        >>> [text for text in ("weather Paris", "Paris in May", "weather Rome") if question.accepts(text)]
        ['weather Paris', 'Paris in May']
    """

    nested: ClassVar[bool] = True
    _words: ClassVar[str] = "contains {}"
    ignore_case: bool = False

    def __post_init__(self) -> None:
        """Normalize and check the value, and check the flag."""
        super().__post_init__()
        require_flags(self)
        _require_item(self.value, type(self).__name__)
        if self.ignore_case:
            IgnoreCase(self.value)  # which refuses matchers

    def accepts(self, value: Any) -> bool:
        """Return whether a text or a list contains it."""
        item = IgnoreCase(self.value) if self.ignore_case else self.value
        if isinstance(value, str):
            return part_fits(item, value)
        return isinstance(value, list) and any(fits(item, one) for one in value)

    def accepts_part(self, text: str) -> bool:
        """Return whether a text contains it."""
        return self.accepts(text)

    def describe(self) -> str:
        """Return what must be contained, such as `contains "x" in any case`."""
        return f"{super().describe()}{' in any case' if self.ignore_case else ''}"


def _require_item(value: Any, owner: str) -> None:
    """Raise if a value is a matcher that cannot be looked for."""
    advice = f"use {owner} inside of it, a value, or another matcher"
    valid = not isinstance(value, (Absent, Not))
    require(valid, f"{owner} must not contain {type(value).__name__}; {advice}", value)


@dataclass(frozen=True, init=False)
class SeveralValues(Matcher):
    """Base of the matchers with several expected values."""

    _begin: ClassVar[str] = ""
    """Text of the description before the first value."""
    _between: ClassVar[str]
    """Text of the description between two values."""
    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        """Normalize the values."""
        name = type(self).__name__
        if not values:
            raise ConfigurationError(f"{name} needs at least one value")
        set_field(self, "values", tuple(nested_tree(value, name) for value in values))

    @property
    def complete(self) -> bool:
        """Whether all matchers among the values are complete."""
        return all(value.complete for value in self.values if isinstance(value, Matcher))

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value set in those of its matchers that lack one."""
        return type(self)(*(one.bind(value) if isinstance(one, Matcher) else one for one in self.values))

    def describe(self) -> str:
        """Return the values, such as `1 or 2`."""
        return self._begin + self._between.join(map(value_text, self.values))

    def _ratios(self, value: Any) -> list[Ratio | None]:
        """Return the credit of a value for each expected one; the first costs no step, each further one does."""
        current_budget().spend(len(self.values) - 1, f"an {type(self).__name__}")
        return [credit_of(one, value) for one in self.values]


@dataclass(frozen=True, init=False)
class ContainsAll(SeveralValues, kind="contains_all"):
    """A text that contains all of these texts, or a list that contains all of these items.

    Args:
        values: The texts or the items, at least one; each may be a matcher, as in `Contains`.

    Raises:
        ConfigurationError: No value is passed, or one cannot be looked for.

    Example:
        >>> from toolgrade.expect import ContainsAll, Expect
        >>> question = ContainsAll("weather", "Paris")
        >>> expected = Expect("search_web", {"query": question})
        >>> [text for text in ("Paris weather", "Paris in May", "weather Rome") if question.accepts(text)]
        ['Paris weather']
    """

    _begin: ClassVar[str] = "contains "
    _between: ClassVar[str] = " and "

    def __init__(self, *values: Any) -> None:
        """Normalize and check the values."""
        super().__init__(*values)
        for value in self.values:
            _require_item(value, type(self).__name__)

    def accepts(self, value: Any) -> bool:
        """Return whether a text or a list contains all of them."""
        # One value costs no step, as with `Contains`; each further one does.
        current_budget().spend(len(self.values) - 1, "a ContainsAll")
        return all(Contains(one).accepts(value) for one in self.values)

    def accepts_part(self, text: str) -> bool:
        """Return whether a text contains all of them."""
        return self.accepts(text)


@dataclass(frozen=True, init=False)
class AnyOf(SeveralValues, kind="any_of"):
    """One of several values or matchers; the best one gives the credit.

    Args:
        values: The values, at least one.

    Raises:
        ConfigurationError: No value is passed.

    Example:
        >>> from toolgrade.expect import AnyOf, Contains, Expect
        >>> airport = AnyOf("CDG", "ORY", Contains("Paris"))
        >>> expected = Expect("book_flight", {"to": airport})
        >>> [text for text in ("ORY", "Paris Beauvais", "FCO") if airport.accepts(text)]
        ['ORY', 'Paris Beauvais']
    """

    _between: ClassVar[str] = " or "

    def credit(self, value: Any) -> Ratio | None:
        """Return the best credit among the values; `None` if one of them accepts a missing value."""
        ratios = self._ratios(value)
        if None in ratios:
            return None
        return max((ratio for ratio in ratios if ratio is not None), key=lambda ratio: Fraction(*ratio))

    def accepts(self, value: Any) -> bool:
        """Return whether a value is one of them."""
        current_budget().spend(len(self.values) - 1, "an AnyOf")
        return any(fits(one, value) for one in self.values)

    def accepts_part(self, text: str) -> bool:
        """Return whether a part of a text is one of them."""
        return any(part_fits(one, text) for one in self.values)


@dataclass(frozen=True, init=False)
class AllOf(SeveralValues, kind="all_of"):
    """A value that all of several matchers accept; the worst one gives the credit.

    Args:
        values: The matchers, or values, at least one.

    Raises:
        ConfigurationError: No value is passed.

    Example:
        >>> from toolgrade.expect import AllOf, Contains, Expect, Not
        >>> question = AllOf(Contains("Paris"), Not(Contains("Texas")))
        >>> expected = Expect("search_web", {"query": question})
        >>> [text for text in ("weather Paris", "Paris, Texas", "weather Rome") if question.accepts(text)]
        ['weather Paris']
    """

    _between: ClassVar[str] = " and "

    def credit(self, value: Any) -> Ratio | None:
        """Return the worst credit; `None` if no matcher counts the argument."""
        ratios = [ratio for ratio in self._ratios(value) if ratio is not None]
        return min(ratios, key=lambda ratio: Fraction(*ratio), default=None)

    def accepts(self, value: Any) -> bool:
        """Return whether all of them accept a value."""
        return self.credit(value) in (None, ONE)

    def accepts_part(self, text: str) -> bool:
        """Return whether each of them accepts a part of a text."""
        return all(part_fits(one, text) for one in self.values)


@dataclass(frozen=True)
class Not(ValueMatcher, kind="not"):
    """Any value but this one, or but those that a matcher accepts; a missing argument is not accepted.

    Args:
        value: The value; may be a matcher, except of one for values that may be missing.

    Raises:
        ConfigurationError: The value is `Ignore`, `Present`, `Absent` or `Optional`.

    Example:
        >>> from toolgrade.expect import Expect, IgnoreCase, Not
        >>> city = Not(IgnoreCase("Paris"))
        >>> expected = Expect("get_weather", {"city": city})
        >>> [name for name in ("Rome", "PARIS", "Paris, Texas") if city.accepts(name)]
        ['Rome', 'Paris, Texas']
    """

    nested: ClassVar[bool] = True
    _words: ClassVar[str] = "not {}"

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        advice = "use Absent() for a missing argument and Present() for any value"
        valid = not isinstance(self.value, (_PresenceMatcher, Optional))
        require(valid, f"Not needs a value or a matcher of values; {advice}", self.value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is another one."""
        return not fits(self.value, value)

    def accepts_part(self, text: str) -> bool:
        """Return whether no part of a text is the value."""
        return not part_fits(self.value, text)


@dataclass(frozen=True)
class Similar(ValueMatcher, kind="similar"):
    """A text that differs in few characters, counted by the edit distance (Levenshtein). Needs the package rapidfuzz.

    The ratio is 1 - distance / length of the longer text. Combine it with `AnyOf` and others; case counts.

    Args:
        value: The text.
        at_least: The least ratio that is accepted, above 0 and up to 1.
        partial: Give the ratio as credit, also below `at_least`. Lists, which match in full or not, then take equal
            texts only.

    Raises:
        ConfigurationError: The value is not text, or an option is out of range.
        MissingPackageError: rapidfuzz is not installed.

    Example:
        >>> from toolgrade.expect import Expect, Similar
        >>> name = Similar("Jonathan Smith", at_least=0.9)
        >>> expected = Expect("find_user", {"name": name})
        >>> [text for text in ("Jonathan Smyth", "Jonathan", "jon smith") if name.accepts(text)]
        ['Jonathan Smyth']
    """

    _words: ClassVar[str] = "similar to {}"
    at_least: float = 0.9
    partial: bool = False

    def __post_init__(self) -> None:
        """Check the value and the options."""
        super().__post_init__()
        require_flags(self)
        require(not self.complete or isinstance(self.value, str), "Similar needs a text", self.value)
        valid = _is_finite(self.at_least) and 0 < self.at_least <= 1
        require(valid, "at_least of Similar must be a number above 0 and up to 1", self.at_least)
        _levenshtein()

    def credit(self, value: Any) -> Ratio | None:
        """Return 1 if a text is accepted, else 0; with `partial` its ratio."""
        if self.partial and isinstance(value, str):
            return self._ratio(value).as_integer_ratio()
        return super().credit(value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a similar text."""
        return isinstance(value, str) and self._ratio(value) >= _decimal(self.at_least)

    def _ratio(self, text: str) -> Fraction:
        current_budget().spend(len(self.value) * len(text) // _EDITS, "a Similar")
        longest = max(len(self.value), len(text))
        return 1 - Fraction(_levenshtein().distance(self.value, text), longest or 1)


def _levenshtein() -> Any:
    # Imported on first use: it is an extra.
    return import_extra("rapidfuzz.distance", "rapidfuzz", "the matcher Similar").Levenshtein


@dataclass(frozen=True)
class IgnoreCase(_LeafMatcher, kind="ignore_case"):
    """The value, ignoring the case of texts, also in lists and objects; keys are compared exactly.

    Example:
        >>> from toolgrade.expect import Expect, IgnoreCase
        >>> city = IgnoreCase("Paris")
        >>> expected = Expect("get_weather", {"city": city})
        >>> [text for text in ("paris", "PARIS", "Paris ") if city.accepts(text)]
        ['paris', 'PARIS']
    """

    _words: ClassVar[str] = "{} in any case"

    def _normal(self, text: str) -> str:
        return text.casefold()


@dataclass(frozen=True)
class Normalized(_LeafMatcher, kind="normalized"):
    """The value, ignoring case, white space and Unicode forms of texts, also in lists and objects.

    Texts are normalized to NFKC and case-folded; white space is stripped, and inside it becomes one space. A text with
    more than 1,000 combining characters in a row, which no language has, keeps its Unicode form.

    Args:
        value: The expected value.
        drop: Characters that are removed from both texts before they are compared.

    Example:
        >>> from toolgrade.expect import Expect, Normalized
        >>> city = Normalized("New York", drop=".,")
        >>> expected = Expect("get_weather", {"city": city})
        >>> [text for text in ("new york", " New  York.", "NewYork") if city.accepts(text)]
        ['new york', ' New  York.']
    """

    _words: ClassVar[str] = "{} but for case and white space"
    drop: str = ""

    def __post_init__(self) -> None:
        """Normalize the value, and check the characters."""
        super().__post_init__()
        require(isinstance(self.drop, str), "drop of Normalized must be text", self.drop)

    def _normal(self, text: str) -> str:
        return normalized_text(text, self.drop)


def normalized_text(text: str, drop: str = "") -> str:
    """Return a text as `Normalized` compares it, without the characters in `drop`."""
    dropped = folded_text(drop)
    letters = "".join(letter for letter in folded_text(text) if letter not in dropped)
    # A character of white space that is dropped stands for all of them.
    return ("" if any(map(str.isspace, drop)) else " ").join(letters.split())


def folded_text(text: str) -> str:
    """Return a text without case, in one Unicode form."""
    # Normalized twice, because case folding can produce a text that is not in normal form.
    return _nfkc(_nfkc(text).casefold())


def _nfkc(text: str) -> str:
    if text.isascii():
        return text
    # Python needs quadratic time to sort the combining characters in a row: 200,000 of them take minutes.
    if len(text) > _MOST_COMBINING:
        length = 0
        for letter in text:
            length = length + 1 if unicodedata.combining(letter) else 0
            if length > _MOST_COMBINING:
                return text
    return unicodedata.normalize("NFKC", text)


@dataclass(frozen=True)
class DateEqual(ValueMatcher, kind="date"):
    """A text that names the same day, or the same moment.

    Both are parsed as ISO 8601, or by one of `formats`. An expected day accepts any time on that day; an expected
    moment accepts only the same moment. A time with an offset never equals one without.

    Args:
        value: The expected day or moment: text, or a `date` or `datetime`.
        formats: Further formats for `strptime`, such as `%d.%m.%Y`.

    Raises:
        ConfigurationError: The value is not a date in any of these forms, or `formats` is not a list of texts.

    Example:
        >>> from toolgrade.expect import DateEqual, Expect
        >>> day = DateEqual("2026-05-01", formats=["%d.%m.%Y"])
        >>> expected = Expect("book_flight", {"to": "Paris", "date": day})
        >>> [text for text in ("2026-05-01T09:30", "01.05.2026", "2026-05-02") if day.accepts(text)]
        ['2026-05-01T09:30', '01.05.2026']
    """

    formats: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        formats: Any = self.formats
        are_texts = isinstance(formats, (list, tuple)) and all(isinstance(form, str) for form in formats)
        require(are_texts, "formats of DateEqual must be a list of formats of strptime", formats)
        set_field(self, "formats", tuple(formats))
        valid = not self.complete or read_moment(self.value, self.formats) is not None
        require(valid, "DateEqual needs a date or a time in ISO 8601, or in one of its formats", self.value)

    def accepts(self, value: Any) -> bool:
        """Return whether a text names the same day or moment."""
        expected, moment = read_moment(self.value, self.formats), read_moment(value, self.formats)
        return expected is not None and moment is not None and expected.same(moment)

    def describe(self) -> str:
        """Return the date."""
        return f"the date {self.value}" if self.complete else super().describe()


@dataclass(frozen=True)
class Glob(Matcher, kind="glob"):
    """A text that matches a shell pattern (`*`, `?`, `[...]`), case-sensitive. Also accepted as the name of a tool.

    Args:
        pattern: The pattern; its searches have the time limit of `Regex`.

    Raises:
        ConfigurationError: The pattern is not text, or too long.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Glob
        >>> called, expected = [ToolCall(name="search_flights")], [Expect(Glob("search_*"))]
        >>> ToolCorrectnessMetric().measure(LLMTestCase(tools_called=called, expected_tools=expected)).score
        1.0
    """

    pattern: str
    _bounded: BoundedPattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern."""
        require(isinstance(self.pattern, str), "the pattern of Glob must be text", self.pattern)
        set_field(self, "_bounded", BoundedPattern(translate(self.pattern)))

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a text that matches."""
        return isinstance(value, str) and self._bounded.fullmatch(value)

    def accepts_part(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text."""
        return Glob(f"*{self.pattern}*").accepts(text)

    def describe(self) -> str:
        """Return the pattern."""
        return self.pattern


@dataclass(frozen=True)
class Schema(Matcher, kind="schema"):
    """A value that is valid under a JSON Schema (draft 2020-12, or the one it names).

    Args:
        schema: The schema. A `$ref` to another document is never fetched.
        formats: Check `format` too: date, date-time, email, ipv4, ipv6, regex, uuid.

    Raises:
        ConfigurationError: The schema is not valid.

    Example:
        >>> from toolgrade.expect import Expect, Schema
        >>> days = Schema({"type": "integer", "minimum": 1, "maximum": 7})
        >>> expected = Expect("get_weather", {"city": "Paris", "days": days})
        >>> [value for value in (3, 10, "3") if days.accepts(value)]
        [3]
    """

    schema: Mapping[str, Any]
    formats: bool = True
    _validator: Validator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the flag and the schema."""
        require_flags(self)
        require(
            not is_deeper(self.schema, MAX_DEPTH), f"the schema of Schema must have at most {MAX_DEPTH} levels", "more"
        )
        require(not holds_matcher(self.schema), "the schema of Schema must not contain matchers", self.schema)
        set_field(self, "schema", to_json_value(self.schema))
        is_object = isinstance(self.schema, dict)
        validator = build_validator(dict(self.schema), formats=self.formats) if is_object else "not an object"
        if isinstance(validator, str):
            raise ConfigurationError(f"Schema needs a valid JSON Schema, got {short_repr(self.schema)}: {validator}")
        set_field(self, "_validator", validator)

    def __reduce__(self) -> tuple[type[Schema], tuple[Any, bool]]:
        """Build the validator again in another process."""
        return type(self), (self.schema, self.formats)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is valid.

        Raises:
            LimitError: The case has no steps or no time left for the check.
            ToolgradeError: The schema cannot be used, such as one with a `$ref` to another document.
        """
        try:
            return not self._validator.broken_rules(value)
        except BrokenSchemaError as error:
            raise ToolgradeError(f"the schema {short_repr(self.schema)} cannot be used: {error}") from error

    def describe(self) -> str:
        """Return the schema as short text."""
        return f"a value that fits {short_json(self.schema)}"


@dataclass(frozen=True)
class Predicate(Matcher, kind="predicate"):
    """A value that a function accepts. Python only, since JSON cannot store functions.

    Args:
        test: A function of the value; its result is interpreted as true or false.
        name: The name to display; by default that of the function.

    Raises:
        ConfigurationError: `test` is not callable.

    Example:
        >>> from toolgrade.expect import Expect, Predicate
        >>> even = Predicate(lambda seats: seats % 2 == 0, name="an even number")
        >>> expected = Expect("book_flight", {"to": "Paris", "seats": even})
        >>> [seats for seats in (1, 2, 3, 4) if even.accepts(seats)]
        [2, 4]
    """

    test: Callable[[Any], object]
    name: str = ""

    def __post_init__(self) -> None:
        """Check the function."""
        require(callable(self.test), "Predicate needs a function", self.test)
        require(isinstance(self.name, str), "name of Predicate must be text", self.name)
        set_field(self, "name", self.name or getattr(self.test, "__name__", type(self.test).__name__))

    def accepts(self, value: Any) -> bool:
        """Return the result of the function as true or false; while a case is measured, it is called once for a value.

        Raises:
            ToolgradeError: The function raised.
        """
        verdicts = current_budget().verdicts
        key = id(self.test), id(value)
        if key not in verdicts:
            verdicts[key] = value, self._verdict(value)
        return verdicts[key][1]

    def _verdict(self, value: Any) -> bool:
        try:
            return bool(self.test(value))
        except Exception as error:
            message = f"the predicate {self.name!r} raised {type(error).__name__} on {short_repr(value)}: {error}"
            raise ToolgradeError(message) from error

    def to_json(self) -> dict[str, Any]:
        """Return the name of the function, which cannot be read back."""
        return {MARK: self.kind, "name": self.name}

    def describe(self) -> str:
        """Return the name of the function."""
        return f"a value that {self.name} accepts"


@dataclass(frozen=True)
class _PresenceMatcher(Matcher):
    """Base of the matchers that do not look at the value."""

    reads_value: ClassVar[bool] = False
    _words: ClassVar[str]
    _present: ClassVar[Ratio | None]
    """Credit of any value; `None` if the argument does not count."""
    _missing: ClassVar[Ratio | None]
    """Credit if there is no value."""

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of a value, or of none; `None` if the argument does not count."""
        return self._missing if value is ABSENT else self._present

    def accepts(self, value: Any) -> bool:
        """Return whether any value is accepted."""
        return self.credit(value) != ZERO

    def accepts_part(self, text: str) -> bool:
        """Return whether any value is accepted."""
        return self.accepts(text)

    def describe(self) -> str:
        """Return a short text for messages, such as `anything`."""
        return self._words


@dataclass(frozen=True)
class Ignore(_PresenceMatcher, kind="ignore"):
    """Anything, or nothing: the argument does not count on either side.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Ignore
        >>> called = ToolCall(name="book_flight", input_parameters={"to": "Paris", "note": "window seat"})
        >>> expected = Expect("book_flight", {"to": "Paris", "note": Ignore()})
        >>> case = LLMTestCase(tools_called=[called], expected_tools=[expected])
        >>> ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score
        1.0
    """

    _words: ClassVar[str] = "anything"
    _present: ClassVar[Ratio | None] = None
    _missing: ClassVar[Ratio | None] = None


@dataclass(frozen=True)
class Present(_PresenceMatcher, kind="present"):
    """Any value, including `null`; a missing argument is not accepted.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Present
        >>> called = ToolCall(name="book_flight", input_parameters={"to": "Paris"})
        >>> expected = Expect("book_flight", {"to": "Paris", "passenger": Present()})
        >>> case = LLMTestCase(tools_called=[called], expected_tools=[expected])
        >>> ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score
        0.5
    """

    _words: ClassVar[str] = "any value"
    _present: ClassVar[Ratio | None] = ONE
    _missing: ClassVar[Ratio | None] = ZERO


@dataclass(frozen=True)
class Absent(_PresenceMatcher, kind="absent"):
    """No such argument; if it is present, it counts as an extra argument.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Absent, Expect
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "Paris", "days": 3, "units": "kelvin"})
        >>> expected = Expect("get_weather", {"city": "Paris", "units": Absent()}, extra_arguments=True)
        >>> case = LLMTestCase(tools_called=[called], expected_tools=[expected])
        >>> print(ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).reason)
        0.5 matched / 1 expected = 0.5 (passed at 0.5).
        'get_weather' (expected #1, called #1): $.input_parameters.units was not expected, called with "kelvin".
    """

    _words: ClassVar[str] = "nothing"
    _present: ClassVar[Ratio | None] = ZERO
    _missing: ClassVar[Ratio | None] = None


@dataclass(frozen=True)
class Optional(ValueMatcher, kind="optional"):
    """The value, or no such argument: a missing argument does not count.

    Args:
        value: The expected value of an argument that is present, such as its default; may be a matcher.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.expect import Expect, Optional
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        >>> expected = Expect("get_weather", {"city": "Paris", "units": Optional("celsius")})
        >>> case = LLMTestCase(tools_called=[called], expected_tools=[expected])
        >>> ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case).score
        1.0
    """

    nested: ClassVar[bool] = True
    _words: ClassVar[str] = "{} or nothing"

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of the value; `None` if it is missing."""
        return None if value is ABSENT else credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is the expected one."""
        return fits(self.value, value)

    def accepts_part(self, text: str) -> bool:
        """Return whether a part of a text is the expected value."""
        return part_fits(self.value, text)


_MOMENT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)"
    r"(?:[Tt ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


class Moment(NamedTuple):
    """A day, with a time if the text has one."""

    at: datetime
    timed: bool

    def same(self, other: Moment) -> bool:
        """Return whether another moment is the same, or on this day if this has no time."""
        if not self.timed:
            return self.at.date() == other.at.date()
        return other.timed and self.at == other.at  # a time without an offset never equals one with


def read_moment(value: object, formats: Sequence[str]) -> Moment | None:
    """Parse a day or moment in ISO 8601, or in one of the formats of `strptime`; return `None` if that fails."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    for form in formats:
        with suppress(ValueError, OverflowError, re.error):  # texts and formats may be anything
            return Moment(datetime.strptime(text, form), timed=bool(re.search(r"%[HIMSfpXcz]", form)))  # noqa: DTZ007
    match = _MOMENT.fullmatch(text)
    if match is not None:
        with suppress(ValueError):
            return _moment(match)
    return None


def _moment(match: re.Match[str]) -> Moment:
    # Rewritten in the one form that `fromisoformat` accepts in all supported versions of Python.
    year, month, day, hour, minute, second, fraction, offset = match.groups("")
    zone = offset.upper().replace("Z", "+00").replace(":", "")
    text = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{fraction[:6]:0<6}"
    return Moment(datetime.fromisoformat(text + (zone and f"{zone[:3]}:{zone[3:] or '00'}")), timed=bool(hour))


_CHEAP = 64
"""Choices of an item that are looked at again in about the time of one comparison."""


@dataclass(frozen=True)
class _CollectionMatcher(ValueMatcher):
    """Base of the matchers of lists as multisets: each item pairs with one item of the other side."""

    nested: ClassVar[bool] = True
    _needs: ClassVar[str] = "a list or an object"
    _types: ClassVar[tuple[type, ...]] = (list, dict)

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        valid = not self.complete or isinstance(self.value, self._types)
        require(valid, f"{type(self).__name__} needs {self._needs}", self.value)
        for item in self.value if isinstance(self.value, list) else ():
            require(not isinstance(item, Absent), f"{type(self).__name__} must not contain Absent; remove it", item)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a collection of the same type, and has the expected items."""
        # No call has a deeper value, and looking into one would overflow the stack.
        return type(value) is type(self.value) and not is_deeper(value, MAX_DEPTH) and self._agrees(value)

    @abstractmethod
    def _agrees(self, value: Any) -> bool:
        """Return whether a collection of the expected type has the expected items."""


@dataclass(frozen=True)
class Unordered(_CollectionMatcher, kind="unordered"):
    """A list with the same items, each the same number of times, in any order.

    Args:
        value: The list; its items may be matchers.

    Raises:
        ConfigurationError: The value is not a list.

    Example:
        >>> from toolgrade.expect import Expect, Unordered
        >>> cities = Unordered(["Paris", "Rome"])
        >>> expected = Expect("compare_weather", {"cities": cities})
        >>> [names for names in (["Rome", "Paris"], ["Paris"], ["Paris", "Rome", "Rome"]) if cities.accepts(names)]
        [['Rome', 'Paris']]
    """

    _words: ClassVar[str] = "unordered {}"
    _needs: ClassVar[str] = "a list"
    _types: ClassVar[tuple[type, ...]] = (list,)

    def _agrees(self, value: Any) -> bool:
        return len(value) == len(self.value) and _each_has_one(self.value, value, fits)


@dataclass(frozen=True)
class Subset(_CollectionMatcher, kind="subset"):
    """A list with no other items than these, or an object with no other keys than these, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.

    Example:
        >>> from toolgrade.expect import Expect, Subset
        >>> extras = Subset(["window seat", "meal", "bag"])
        >>> expected = Expect("book_flight", {"to": "Paris", "extras": extras})
        >>> [items for items in ([], ["bag", "meal"], ["bag", "insurance"]) if extras.accepts(items)]
        [[], ['bag', 'meal']]
    """

    _words: ClassVar[str] = "subset {}"

    def _agrees(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(fits(self.value.get(key, ABSENT), item) for key, item in value.items())
        return _each_has_one(value, self.value, lambda item, expected: fits(expected, item))


@dataclass(frozen=True)
class Superset(_CollectionMatcher, kind="superset"):
    """A list with at least these items, or an object with at least these keys, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.

    Example:
        >>> from toolgrade.expect import Expect, Superset
        >>> cities = Superset(["Paris", "Rome"])
        >>> expected = Expect("compare_weather", {"cities": cities})
        >>> [names for names in (["Rome", "Paris", "Oslo"], ["Paris"]) if cities.accepts(names)]
        [['Rome', 'Paris', 'Oslo']]
    """

    _words: ClassVar[str] = "superset {}"

    def _agrees(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(fits(item, value.get(key, ABSENT)) for key, item in self.value.items())
        return _each_has_one(self.value, value, fits)


def _each_has_one(items: Sequence[Any], partners: Sequence[Any], pair: Callable[[Any, Any], bool]) -> bool:
    """Return whether each item can be paired with a partner of its own.

    Raises:
        LimitError: The comparisons need more steps than the case has left.
    """
    if len(items) > len(partners):
        return False
    if not any(holds_matcher(value) or has_mark(value) for value in (*items, *partners)):
        # Values that only equal ones fit: counting them is enough.
        return not Counter(map(frozen, items)) - Counter(map(frozen, partners))
    budget = current_budget()
    budget.spend(len(items) * len(partners), "a matcher of lists")
    choices = [{index for index, partner in enumerate(partners) if pair(item, partner)} for item in items]
    holders: dict[int, int] = {}
    return all(_assign(item, choices, holders, budget) for item in range(len(items)))


def _assign(start: int, choices: Sequence[set[int]], holders: dict[int, int], budget: Budget) -> bool:
    """Give an item a partner that `holders` maps to it, and move others where needed; return whether that is possible.

    A breadth-first augmenting path (Kuhn 1955): an item may fit several partners, so the first one could be wrong.
    """
    came_from: dict[int, int] = {}
    partners: dict[int, int] = {}
    queue = [start]
    for item in queue:
        new = choices[item].difference(came_from)
        budget.spend(1 + len(new) // _CHEAP, "a matcher of lists")
        came_from.update(dict.fromkeys(new, item))
        free = new.difference(holders)
        if free:
            partner = free.pop()
            while True:
                mover = came_from[partner]
                holders[partner] = mover
                if mover == start:
                    return True
                partner = partners[mover]
        partners.update((holders[partner], partner) for partner in new)
        queue += [holders[partner] for partner in new]
    return False
