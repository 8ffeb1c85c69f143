"""Matchers of the presence of an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolgrade.expect.matcher import Matcher, ValueMatcher
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, credit_of, fits
from toolgrade.matching.json_compare import ABSENT


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

    @property
    def complete(self) -> bool:
        """Whether the matcher has a value; a matcher as the value must be complete."""
        return self.value.complete if isinstance(self.value, Matcher) else super().complete

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value, or unchanged if it has one."""
        return Optional(self.value.bind(value)) if isinstance(self.value, Matcher) else super().bind(value)

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of the value; `None` if it is missing."""
        return None if value is ABSENT else credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is the expected one."""
        return fits(self.value, value)
