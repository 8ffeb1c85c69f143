"""Expected arguments, which may hold matchers, as plain values that a JSON Schema can say something about.

A matcher accepts many values. What a schema says of one of them proves something only where it holds for all the
others, too; so each value remembers which of its parts stand for what a matcher accepts, and how far they can be
relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolmark.expect import (
    Absent,
    AnyOf,
    Approx,
    Contains,
    DateEqual,
    Exact,
    Glob,
    IgnoreCase,
    Matcher,
    Normalized,
    Optional,
    Regex,
    Subset,
    Superset,
    Unordered,
)
from toolmark.matching.json_compare import ABSENT

Steps: TypeAlias = "tuple[str | int, ...]"

Known: TypeAlias = Literal["nothing", "type", "types"]
"""What is known of a value that stands for others: nothing; its type; or its type, and those of all that is in it."""

MOST_SAMPLES = 500
"""Samples of one call that are looked at."""


@dataclass(frozen=True)
class Mark:
    """A part of a sample that stands for all values that a matcher accepts."""

    matcher: Matcher
    known: Known


@dataclass(frozen=True)
class Sample:
    """One value that is accepted.

    Attributes:
        value: The value; `ABSENT` where it is accepted that there is none.
        marks: The parts of it that stand for others.
        left_out: Keys in it of arguments that are left out on purpose, with the matcher that says so.
    """

    value: Any
    marks: Mapping[Steps, Mark] = field(default_factory=dict[Steps, Mark])
    left_out: Mapping[Steps, Matcher] = field(default_factory=dict[Steps, Matcher])


def samples(node: Any) -> Iterator[Sample]:
    """Yield values that an expected value accepts: one, and further ones, each of which makes one other choice."""
    if isinstance(node, Matcher):
        yield from _of_matcher(node)
    elif isinstance(node, dict):
        yield from _joined({key: list(samples(item)) for key, item in node.items()}, _object)
    elif isinstance(node, list):
        yield from _joined({index: list(samples(item)) for index, item in enumerate(node)}, _list)
    else:
        yield Sample(node)


def _of_matcher(matcher: Matcher) -> Iterator[Sample]:
    if isinstance(matcher, Absent):
        yield Sample(ABSENT, left_out={(): matcher})
    elif isinstance(matcher, Optional):
        yield from samples(matcher.value) if matcher.complete else _any(matcher)
        yield Sample(ABSENT, left_out={(): matcher})
    elif isinstance(matcher, AnyOf):
        for value in matcher.values:
            yield from samples(value)
    elif isinstance(matcher, Exact):
        yield Sample(matcher.value)
    elif isinstance(matcher, Unordered):
        yield from samples(matcher.value)
    else:
        yield from _standing(matcher)


def _standing(matcher: Matcher) -> Iterator[Sample]:
    """Yield the one sample of a matcher that accepts values which cannot be listed."""
    if isinstance(matcher, (IgnoreCase, Normalized)):
        yield Sample(matcher.value, {(): Mark(matcher, "types")})
    elif isinstance(matcher, Approx):
        yield Sample(_whole(matcher), {(): Mark(matcher, "type")})
    elif isinstance(matcher, (Regex, Glob, DateEqual)):
        yield Sample("", {(): Mark(matcher, "type")})
    elif isinstance(matcher, (Subset, Superset)):
        yield Sample(type(matcher.value)(), {(): Mark(matcher, "type")})
    elif isinstance(matcher, Contains) and not isinstance(matcher.value, (str, Matcher)):
        yield Sample([], {(): Mark(matcher, "type")})
    else:
        yield from _any(matcher)


def _any(matcher: Matcher) -> Iterator[Sample]:
    yield Sample(None, {(): Mark(matcher, "nothing")})


def _whole(matcher: Approx) -> Any:
    """Return a value that is near enough, a whole number if there is one: more fit that."""
    value = matcher.value
    if isinstance(value, float) and value.is_integer() is False and abs(value) < 1e15:  # noqa: PLR2004 - NaN is not below
        rounded = round(value)
        return rounded if matcher.accepts(rounded) else value
    return value


def _joined(parts: Mapping[Any, list[Sample]], build: Callable[[Mapping[Any, Sample]], Sample]) -> Iterator[Sample]:
    """Yield what is made of the first sample of each part, and then with each further one of a single part."""
    first = {key: found[0] for key, found in parts.items()}
    yield build(first)
    for key, found in parts.items():
        for other in found[1:]:
            yield build({**first, key: other})


def _marks(parts: Mapping[Any, Sample]) -> tuple[dict[Steps, Mark], dict[Steps, Matcher]]:
    marks = {(key, *steps): mark for key, part in parts.items() for steps, mark in part.marks.items()}
    left_out = {(key, *steps): one for key, part in parts.items() for steps, one in part.left_out.items()}
    return marks, left_out


def _object(parts: Mapping[Any, Sample]) -> Sample:
    return Sample({key: part.value for key, part in parts.items() if part.value is not ABSENT}, *_marks(parts))


def _list(parts: Mapping[Any, Sample]) -> Sample:
    if any(part.value is ABSENT for part in parts.values()):  # in a list nothing can be left out
        parts = dict(enumerate(part for part in parts.values() if part.value is not ABSENT))
    return Sample([part.value for part in parts.values()], *_marks(parts))
