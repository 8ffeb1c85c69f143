"""Checks of expected arguments against the JSON Schema of their tool.

An expected argument may be a matcher, which accepts many values, so samples of these are made to be validated. Only
proven problems are reported: a choice that an expectation leaves open, such as one of its alternatives, has the problem
however the other choices are made.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

from toolgrade._internal.json import canonical_json, json_items, json_path
from toolgrade._internal.text import join_first, short_json
from toolgrade.calls import ToolSpec
from toolgrade.errors import LimitError, ToolgradeError
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
    Predicate,
    Regex,
    Schema,
    Similar,
    Subset,
    Superset,
    Unordered,
)
from toolgrade.expect.json_schema import BrokenRule, BrokenSchemaError, Validator, build_validator, violation_text
from toolgrade.matching.json_compare import ABSENT
from toolgrade.matching.value_text import value_text
from toolgrade.result import redact_at_path

_SHALLOW_RULES = frozenset({"type", "required", "additionalProperties", "minItems", "maxItems"})
"""Rules that depend on the type, the keys or the length of an object or list, but not on the values inside."""

_MOST_NAMES = 50
"""Names that a suggestion compares, or lists."""

_CONDITIONS = frozenset({"then", "else", "dependentSchemas"})
"""Parts of a schema that apply depending on other values."""


@dataclass(frozen=True)
class Misfit:
    """A problem at the place that the keys lead to; if `broken` is true, the schema itself cannot be used."""

    keys: Steps
    message: str
    broken: bool = False


@dataclass(frozen=True)
class Tools:
    """The available tools (`None` if they are unknown), and the validators of their schemas."""

    specs: Sequence[ToolSpec] | None
    validators: dict[str, Validator | str] = field(default_factory=dict[str, Validator | str], repr=False)

    def of(self, specs: Sequence[ToolSpec] | None) -> Tools:
        """Return other tools that share the validators, so that each is built once."""
        return Tools(specs, self.validators)

    def named(self, accepts: Callable[[str], bool]) -> list[ToolSpec]:
        """Return the tools whose names are accepted."""
        return [spec for spec in self.specs or () if accepts(spec.name)]

    def misfits(self, specs: Sequence[ToolSpec], arguments: Mapping[str, Any], *, extras: bool) -> list[Misfit]:
        """Return the problems of expected arguments with the first tool, or none if they fit any of the tools.

        With `extras`, a call may also have arguments that are not expected.
        """
        by_tool: list[list[Misfit]] = []
        for spec in specs:
            by_tool.append(list(dict.fromkeys(self._misfits_with_tool(spec, arguments, extras=extras))))
            if not by_tool[-1]:
                return []
        return by_tool[0] if by_tool else []

    def _misfits_with_tool(self, spec: ToolSpec, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
        if spec.input_schema is None:
            return
        try:
            yield from _proven_misfits(self._validator(spec.input_schema), arguments, extras=extras)
        except (BrokenSchemaError, LimitError) as fault:
            yield Misfit((), f"the tool {spec.name!r} cannot be checked against: {fault}", broken=True)

    def _validator(self, schema: dict[str, Any]) -> Validator:
        key = canonical_json(schema)
        if key not in self.validators:
            self.validators[key] = build_validator(schema, formats=False)
        validator = self.validators[key]
        if isinstance(validator, str):  # `build_validator` returns the reason why a schema is invalid
            raise BrokenSchemaError(validator)
        return validator


def _proven_misfits(validator: Validator, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
    """Yield the problems of expected arguments that are proven, as the docstring of the module defines it."""
    tested = list(islice(samples(dict(arguments)), MOST_SAMPLES))
    # Without another choice, nothing avoids an error, whichever values it depends on. Only the order of an `unordered`
    # list may still differ, which makes no samples of its own; `_proves` allows for it.
    has_no_choices = len(tested) == 1 and not tested[0].marks and not extras
    # The items of an `unordered` list may come in another order, where a schema has rules for positions.
    has_positions = _has_positions(validator.schema)
    for sample in tested:
        for error in validator.broken_rules(sample.value):
            if has_positions and int in map(type, error.keys):
                continue
            if (has_no_choices or _depends_on_one_value(error)) and _proves(error, sample.marks):
                yield from _misfits_of_error(error, sample, arguments, extras=extras)


def _has_positions(schema: object) -> bool:
    """Return whether a schema has rules for the items at certain positions of a list."""
    if isinstance(schema, Mapping) and ("prefixItems" in schema or isinstance(schema.get("items"), list)):
        return True
    return any(_has_positions(item) for _, item in json_items(schema))


def _misfits_of_error(
    error: BrokenRule, sample: Sample, arguments: Mapping[str, Any], *, extras: bool
) -> Iterator[Misfit]:
    """Yield the problems in one error of the validator: one for each argument that is missing or not accepted."""
    keys = error.keys
    if error.rule == "required":
        yield from _missing(error, sample, arguments, extras=extras)
    elif error.rule == "additionalProperties" and error.limit is False:
        properties = list(error.schema.get("properties", {}))
        for name in error.other_names():
            yield Misfit((*keys, name), f"the tool does not take {name!r}; {suggestion(name, properties, 'it takes')}")
    else:
        mark = sample.marks.get(keys)
        value = value_text(mark.matcher, 80) if mark else short_json(redact_at_path(error.value, json_path(keys)))
        yield Misfit(keys, f"{value} {violation_text(error)}")


def suggestion(name: str, names: Sequence[str], verb: str) -> str:
    """Return `did you mean 'x'?` with the nearest of these names, or all of them after the verb."""
    # Comparing names letter by letter is slow: of many names, only those that begin alike are compared.
    close = names if len(names) <= _MOST_NAMES else [one for one in names if one[:2] == name[:2]][:_MOST_NAMES]
    near = difflib.get_close_matches(name, close, n=1)
    listed = join_first(list(map(repr, names[: _MOST_NAMES + 1])), _MOST_NAMES)
    return f"did you mean {near[0]!r}?" if near else f"{verb} {listed or 'none'}"


def _depends_on_one_value(error: BrokenRule) -> bool:
    """Return whether an error depends on one value alone, so that no choice for another value avoids it.

    An error under a condition depends on the values that the condition tests. An error of an object or list depends on
    all values inside, unless the rule is a shallow one.
    """
    if not _CONDITIONS.isdisjoint(map(str, error.schema_keys)):
        return False
    return not isinstance(error.value, (dict, list)) or error.rule in _SHALLOW_RULES


def _missing(error: BrokenRule, sample: Sample, arguments: Mapping[str, Any], *, extras: bool) -> Iterator[Misfit]:
    """Yield a problem for each argument that is certainly missing."""
    for name in error.limit:
        # At the top level, a call with further arguments may have the one that is missing here.
        may_be_extra = extras and not error.keys and name not in arguments
        if name not in error.value and not may_be_extra:
            yield _missing_argument((*error.keys, name), sample)


def _missing_argument(keys: Steps, sample: Sample) -> Misfit:
    name, left_out = keys[-1], sample.left_out.get(keys)
    if left_out is None:
        return Misfit(keys, f"lacks {name!r}, which the tool requires")
    how = "must not be given" if isinstance(left_out, Absent) else "may be left out"
    return Misfit(keys, f"{name!r} {how}, and the tool requires it")


def _proves(error: BrokenRule, marks: Mapping[Steps, Mark]) -> bool:
    """Return whether an error of a sample remains, whichever accepted values stand in the place of the marked parts.

    A mark is at a part of a sample that stands for all values that a matcher accepts. Its `certainty` is what they have
    in common with the part: `nothing`, the `type` of the part, or the `types` of the part and of everything inside.
    """
    keys, rule = error.keys, error.rule
    if keys in marks:  # the error is of a marked part itself
        return _rejects_all(error, marks[keys])
    # Below a marked part, only types can be common to all values. A matcher is a leaf, so at most one mark is above.
    outer = next((marks[keys[:length]] for length in range(len(keys)) if keys[:length] in marks), None)
    if outer is not None:
        return rule == "type" and outer.certainty == "types"
    # Above a marked part, the error remains if it does not depend on the values inside.
    if any(steps[: len(keys)] == keys for steps in marks):
        return rule in _SHALLOW_RULES
    return True  # away from all marks, the value is the only accepted one


def _rejects_all(error: BrokenRule, mark: Mark) -> bool:
    """Return whether the error of a marked part is one of all values that the part stands for.

    This is proven for the rule `type` if all these values have the same type, and for `enum` and `const` if the matcher
    accepts none of the values that the schema allows. No other rule is proven.
    """
    if error.rule == "type":
        return mark.certainty != "nothing"
    allowed = {"enum": error.limit, "const": [error.limit]}
    return error.rule in allowed and not any(_may_accept(mark, value) for value in allowed[error.rule])


def _may_accept(mark: Mark, value: object) -> bool:
    """Return whether the matcher of a mark may accept a value; true wherever it cannot be ruled out."""
    if mark.certainty == "nothing" or isinstance(mark.matcher, (Predicate, Schema)):
        return True
    try:
        return mark.matcher.accepts(value)
    except ToolgradeError:
        return True


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
    elif isinstance(matcher, (Regex, Glob, DateEqual, Similar)):
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
