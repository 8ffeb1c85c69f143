"""Sample values of expected arguments with matchers, which can be validated against a JSON Schema.

A matcher accepts many values. An error of one of them proves a problem only if all the others have it as well. So each
sample records which of its parts represent a matcher, and what all values of that matcher have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

from toolgrade._internal.json import json_items
from toolgrade.expect import (
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
from toolgrade.matching.json_compare import ABSENT

Steps: TypeAlias = "tuple[str | int, ...]"

Certainty: TypeAlias = Literal["nothing", "type", "types"]
"""What all values that a sample represents have in common: nothing, the type, or the types at all depths."""

MOST_SAMPLES = 500
"""Samples of one call that are validated."""


@dataclass(frozen=True)
class Mark:
    """A part of a sample that represents all values that a matcher accepts."""

    matcher: Matcher
    certainty: Certainty


@dataclass(frozen=True)
class Sample:
    """One accepted value; `ABSENT` if no value is accepted."""

    value: Any
    marks: Mapping[Steps, Mark] = field(default_factory=dict[Steps, Mark])
    """The parts that represent other values."""
    left_out: Mapping[Steps, Matcher] = field(default_factory=dict[Steps, Matcher])
    """Arguments that a matcher accepts as missing."""


def samples(node: Any) -> Iterator[Sample]:
    """Yield values that an expected value accepts: a first one, and others that differ from it in one choice."""
    if isinstance(node, Matcher):
        yield from _of_matcher(node)
    elif isinstance(node, (dict, list)):
        yield from _of_container(node)
    else:
        yield Sample(node)


def _of_container(node: dict[str, Any] | list[Any]) -> Iterator[Sample]:
    """Yield samples of an object or a list: the first of each part, and others that differ from it in one part."""
    combine = _list_sample if isinstance(node, list) else _object_sample
    parts = {key: list(samples(item)) for key, item in json_items(node)}
    first = {key: options[0] for key, options in parts.items()}
    yield combine(first)
    for key, options in parts.items():
        for other in options[1:]:
            yield combine({**first, key: other})


def _of_matcher(matcher: Matcher) -> Iterator[Sample]:
    if isinstance(matcher, Exact):
        yield Sample(matcher.value)
    elif isinstance(matcher, AnyOf):
        yield from chain.from_iterable(map(samples, matcher.values))
    elif isinstance(matcher, Unordered):
        yield from samples(matcher.value)
    elif isinstance(matcher, (Absent, Optional)):
        if isinstance(matcher, Optional):
            yield from samples(matcher.value) if matcher.complete else [_representative(matcher)]
        yield Sample(ABSENT, left_out={(): matcher})
    else:
        yield _representative(matcher)


def _representative(matcher: Matcher) -> Sample:
    """Return the one sample of a matcher whose accepted values cannot be listed."""
    value: Any = None
    certainty: Certainty = "type"
    if isinstance(matcher, (IgnoreCase, Normalized)):
        value, certainty = matcher.value, "types"
    elif isinstance(matcher, Approx):
        value = _whole(matcher)
    elif isinstance(matcher, (Regex, Glob, DateEqual)):
        value = ""
    elif isinstance(matcher, (Subset, Superset)):
        value = type(matcher.value)()
    elif isinstance(matcher, Contains) and not isinstance(matcher.value, (str, Matcher)):
        value = []
    else:
        certainty = "nothing"
    return Sample(value, {(): Mark(matcher, certainty)})


def _whole(matcher: Approx) -> Any:
    """Return an accepted value, a whole number if possible, since it is valid under more schemas."""
    value = matcher.value
    if isinstance(value, float) and value.is_integer() is False and abs(value) < 1e15:  # noqa: PLR2004 - NaN is not below
        rounded = round(value)
        return rounded if matcher.accepts(rounded) else value
    return value


def _object_sample(parts: Mapping[Any, Sample]) -> Sample:
    """Return the sample of an object from samples of its values."""
    marks: dict[Steps, Mark] = {}
    left_out: dict[Steps, Matcher] = {}
    for key, part in parts.items():
        marks |= {(key, *steps): mark for steps, mark in part.marks.items()}
        left_out |= {(key, *steps): matcher for steps, matcher in part.left_out.items()}
    values = {key: part.value for key, part in parts.items() if part.value is not ABSENT}
    return Sample(values, marks, left_out)


def _list_sample(parts: Mapping[Any, Sample]) -> Sample:
    """Return the sample of a list from samples of its items; a list has no missing items."""
    items = [part for part in parts.values() if part.value is not ABSENT]
    sample = _object_sample(dict(enumerate(items)))
    return replace(sample, value=list(sample.value.values()))
