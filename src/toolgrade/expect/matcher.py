"""Base class of the matchers, the matcher `Exact`, and expected values that contain matchers.

A matcher is written in JSON as an object with the key `$is`: `{"$is": "approx", "value": 100, "rel": 0.01}`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final

from toolgrade._internal.json import MARK, MAX_DEPTH, json_items, to_json_value
from toolgrade._internal.options import require
from toolgrade.errors import InvalidDataError
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, ValuePattern, credit_of, holds_matcher
from toolgrade.matching.json_compare import ABSENT, AbsentType, json_equal
from toolgrade.matching.value_text import text_of

MATCHERS: Final[dict[str, type[Matcher]]] = {}
"""The matchers by the name of their JSON form; each class registers itself."""


class Matcher(ValuePattern):
    """Base of all matchers. They are immutable, and equal if their fields are equal.

    A subclass must be a frozen dataclass and have a `kind`. For conditions of your own, `Predicate` is usually enough.

    Attributes:
        kind: The name in JSON, such as `approx`.

    Example:
        >>> from dataclasses import dataclass
        >>> from toolgrade.expect import Expect, Matcher
        >>> @dataclass(frozen=True)
        ... class EvenNumber(Matcher):
        ...     kind = "even_number"
        ...
        ...     def accepts(self, value):
        ...         return isinstance(value, int) and value % 2 == 0
        >>> expected = Expect("book_flight", {"to": "Paris", "seats": EvenNumber()})
        >>> [seats for seats in (1, 2, "2", 4) if expected.input_parameters["seats"].accepts(seats)]
        [2, 4]
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "") -> None:
        """Register a matcher that has a JSON form."""
        super().__init_subclass__()
        if kind:
            cls.kind = kind
            MATCHERS[kind] = cls

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Return whether a JSON value is accepted."""

    def credit(self, value: Any) -> Ratio | None:
        """Return 1 if a value is accepted, else 0; a missing value gives 0."""
        return ONE if not isinstance(value, AbsentType) and self.accepts(value) else ZERO

    def accepts_part(self, text: str) -> bool:
        """Return whether a part of a text is accepted, as `Contains` asks; of most matchers none is."""
        del text
        return False

    @property
    def complete(self) -> bool:
        """Whether the matcher has its value; without one, it takes the value at its place in the arguments."""
        return getattr(self, "value", None) is not ABSENT

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value, or unchanged if it has one."""
        return self if self.complete else replace(self, value=value)  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: `$is` and the fields that differ from their defaults."""
        plain: dict[str, Any] = {MARK: self.kind}
        for entry in fields(self):  # type: ignore[arg-type]
            value = getattr(self, entry.name)
            if not entry.init or value == entry.default:
                continue
            if entry.name in ("value", "values"):
                plain[entry.name] = to_plain(value)
            else:  # in an option, an object with `$is` is a plain value
                plain[entry.name] = list(value) if isinstance(value, tuple) else value
        return plain

    def describe(self) -> str:
        """Return a text for messages, which shorten it."""
        return self.kind.replace("_", " ")


def tree_of(value: Any, depth: int = 0) -> Any:
    """Return an expected value as JSON values with matchers among them.

    An object with the key `$is` becomes an `Exact`, as which it is written and read.

    Raises:
        InvalidDataError: The value is nested too deeply, contains itself, or has matchers in an object with `$is`.
    """
    if isinstance(value, Matcher):
        return value
    if depth > MAX_DEPTH:
        message = f"deeper than {MAX_DEPTH} levels of lists and objects, or containing itself; flatten it first"
        raise InvalidDataError(message)
    if isinstance(value, Mapping):
        tree = {str(key): tree_of(item, depth + 1) for key, item in value.items()}
        return _exact(tree) if MARK in tree else tree
    if isinstance(value, (list, tuple)):
        return [tree_of(item, depth + 1) for item in value]
    return to_json_value(value)


def nested_tree(value: Any, owner: str) -> Any:
    """Return the value of a matcher, which may contain others, as `tree_of` does.

    Raises:
        ConfigurationError: A matcher in a list or an object has no value; only one that is the value itself gets it.
    """
    tree = tree_of(value)
    if not isinstance(tree, Matcher):
        _require_complete(tree, owner)
    return tree


def _require_complete(tree: Any, owner: str) -> None:
    if isinstance(tree, Matcher):
        require(tree.complete, f"each matcher in a list or an object of {owner} must have a value", tree)
    elif isinstance(tree, (dict, list)):
        for _, item in json_items(tree):
            _require_complete(item, owner)


def part_fits(expected: Any, text: str) -> bool:
    """Return whether a part of a text fits an expected value."""
    return (
        expected.accepts_part(text) if isinstance(expected, Matcher) else isinstance(expected, str) and expected in text
    )


def _exact(tree: dict[str, Any]) -> Matcher:
    """Return the matcher of an object with the key `$is`."""
    plain = without_exact(tree)
    if holds_matcher(plain):
        raise InvalidDataError(f"an object with the key {MARK!r} must not contain matchers; use another key")
    return Exact(plain)


def without_exact(value: Any) -> Any:
    """Return a value with the values of the `Exact` matchers in it in their places."""
    if isinstance(value, Exact):
        return value.value
    if isinstance(value, dict):
        return {key: without_exact(item) for key, item in value.items()}
    return list(map(without_exact, value)) if isinstance(value, list) else value


def to_plain(value: Any) -> Any:
    """Return the JSON form of an expected value."""
    if isinstance(value, ValuePattern):
        return value.to_json()
    if isinstance(value, dict):
        if MARK in value:
            return {MARK: "exact", "value": value}
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def value_text(value: Any) -> str:
    """Return an expected value as text for messages."""
    if value is ABSENT:
        return "the value at its place"
    if isinstance(value, ValuePattern):
        return value.describe()
    return text_of(value)


def set_field(matcher: Matcher, name: str, value: Any) -> None:
    """Set a field of a frozen matcher in its constructor."""
    object.__setattr__(matcher, name, value)  # the dataclass is frozen


@dataclass(frozen=True)
class ValueMatcher(Matcher):
    """Base of the matchers with one expected value."""

    nested: ClassVar[bool] = False
    """Whether the value may contain matchers."""
    _words: ClassVar[str] = "{}"
    """The description, with a place for the value."""
    value: Any = ABSENT

    def __post_init__(self) -> None:
        """Normalize the value to JSON values, and check the matchers in it."""
        if self.nested and self.value is not ABSENT:
            set_field(self, "value", nested_tree(self.value, type(self).__name__))
        elif self.value is not ABSENT:
            advice = "combine matchers by AllOf or AnyOf"
            require(
                not holds_matcher(self.value), f"{type(self).__name__} must not contain matchers; {advice}", self.value
            )
            set_field(self, "value", to_json_value(self.value))

    @property
    def complete(self) -> bool:
        """Whether the matcher has a value; a matcher as the value must be complete."""
        return self.value.complete if isinstance(self.value, Matcher) else super().complete

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value, or unchanged if it has one."""
        return replace(self, value=self.value.bind(value)) if isinstance(self.value, Matcher) else super().bind(value)

    def describe(self) -> str:
        """Return the value and how it is compared, such as `"x" or nothing`."""
        return self._words.format(value_text(self.value))


@dataclass(frozen=True)
class Exact(ValueMatcher, kind="exact"):
    """The value itself. In JSON, an object with the key `$is` inside it is a plain value and not a matcher.

    Example:
        >>> from toolgrade.expect import Exact, Expect
        >>> city = Exact("Paris")
        >>> expected = Expect("get_weather", {"city": city})
        >>> [name for name in ("Paris", "paris", "Paris, France") if city.accepts(name)]
        ['Paris']
    """

    def credit(self, value: Any) -> Ratio | None:
        """Return how far a value fits; an object can fit in part, as without the matcher."""
        return credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is equal."""
        return json_equal(self.value, value)

    def accepts_part(self, text: str) -> bool:
        """Return whether a text contains the value."""
        return part_fits(self.value, text)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, in which the value is never read as a matcher."""
        return {MARK: self.kind, **({"value": self.value} if self.complete else {})}

    def describe(self) -> str:
        """Return the value."""
        return text_of(self.value) if self.complete else value_text(self.value)
