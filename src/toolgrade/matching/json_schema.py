"""Validation of values against a JSON Schema: draft 2020-12, or the draft from 4 on that a schema names in `$schema`.

A schema and a value both come from strangers. So the depth of either is not the depth of Python's stack; every rule at
every value is a step of the budget of the case; numbers are compared exactly; regular expressions have a time limit;
and no error text contains the value, which may be too long to write. The validators of the package jsonschema have none
of these properties. It provides the drafts (their keywords and meta-schemas) and the formats, and the package
referencing resolves `$ref`, which is never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from toolgrade._internal.budget import Budget, current_budget
from toolgrade._internal.json import MAX_DEPTH, JsonObject, is_deeper, is_number, json_items, json_path, short_repr
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.regex import LONGEST_PATTERN, BoundedPattern
from toolgrade.errors import ConfigurationError, ToolgradeError
from toolgrade.matching.json_compare import frozen, json_equal

FORMATS = ("date", "date-time", "email", "ipv4", "ipv6", "regex", "uuid")
"""Values of `format` that can be checked, the same on every machine; others are annotations."""

TOO_DEEP: Final = "depth"
"""The rule that a value breaks if it is deeper than `MAX_DEPTH` levels; no schema accepts it."""

Keys: TypeAlias = "tuple[str | int, ...]"

_PURPOSE = "checking values against a JSON Schema"
_DEPENDENT = ("unevaluatedItems", "unevaluatedProperties")
"""Keywords that depend on what all the others of their schema evaluate."""
_STEPS = 4
"""Steps of applying a schema to a value, which takes about as long as so many comparisons."""


class BrokenSchemaError(ToolgradeError):
    """A schema cannot be used, whatever the value; the message says why."""


class BrokenRule(NamedTuple):
    """One rule of a schema that a value does not fit.

    Attributes:
        keys: The keys and positions that lead to the value.
        rule: The keyword; `None` for the schema `false`.
        limit: The value of the keyword.
        value: The value.
        schema: The schema that has the keyword.
        schema_keys: The keys and positions that lead from the whole schema to the rule, as far as no `$ref` intervenes.
    """

    keys: Keys
    rule: str | None
    limit: Any
    value: Any
    schema: Any
    schema_keys: Keys

    def other_names(self) -> list[str]:
        """Return the names in the object that neither `properties` nor `patternProperties` of the schema have."""
        return _other_names(self.schema, self.value, lambda pattern, name: BoundedPattern(pattern).search(name))


@dataclass(frozen=True)
class _Draft:
    """One draft of JSON Schema."""

    keywords: frozenset[str]
    is_type: Callable[[Any, str], bool]
    create_resource: Callable[[Any], Any]
    meta_schema: Mapping[str, Any]

    @property
    def is_recent(self) -> bool:
        """Whether the draft has keywords that depend on what others evaluate, and lets a `$ref` stand beside others."""
        return "unevaluatedItems" in self.keywords

    def rules(self, schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the keywords of a schema that the draft has."""
        if not self.is_recent and "$ref" in schema:
            return [("$ref", schema["$ref"])]
        return [(keyword, limit) for keyword, limit in schema.items() if keyword in self.keywords]


@lru_cache
def _draft(name: str | None) -> _Draft:
    """Return the draft that a `$schema` names, by default the latest.

    Raises:
        BrokenSchemaError: It is the third draft, which has other keywords.
        MissingPackageError: jsonschema is not installed.
    """
    validators = import_extra("jsonschema", "jsonschema", _PURPOSE).validators
    latest = validators.Draft202012Validator
    try:
        named = latest if name is None else validators.validator_for({"$schema": name}, default=latest)
    except ValueError:  # not a URI
        named = latest
    if named is validators.Draft3Validator:
        raise BrokenSchemaError("draft 3 of JSON Schema is not supported; use draft 4 or a later one")
    specifications = import_extra("referencing.jsonschema", "jsonschema", _PURPOSE)
    specification = specifications.specification_with(named.ID_OF(named.META_SCHEMA))
    return _Draft(
        frozenset(named.VALIDATORS), named.TYPE_CHECKER.is_type, specification.create_resource, named.META_SCHEMA
    )


def _draft_of(schema: Mapping[str, Any], default: _Draft) -> _Draft:
    name = schema.get("$schema")
    return _draft(name) if isinstance(name, str) else default


class _Place(NamedTuple):
    """A schema, and the value that it applies to."""

    schema: Any
    value: Any
    draft: _Draft
    resolver: Any
    keys: Keys = ()
    schema_keys: Keys = ()
    references: frozenset[int] = frozenset()
    """The targets of references on the way here that applied to the same value."""

    def below(self, schema: Any, key: str | int, *schema_keys: str | int) -> _Place:
        """Return the place of a schema for an item of the value."""
        schema_keys = (*self.schema_keys, *schema_keys)
        return _Place(schema, self.value[key], self.draft, self._resolver_in(schema), (*self.keys, key), schema_keys)

    def under(self, schema: Any, *schema_keys: str | int) -> _Place:
        """Return the place of a further schema for the same value."""
        schema_keys = (*self.schema_keys, *schema_keys)
        return self._replace(schema=schema, resolver=self._resolver_in(schema), schema_keys=schema_keys)

    def _resolver_in(self, schema: Any) -> Any:
        """Return the resolver of the references in a further schema, which may have an address of its own."""
        has_address = isinstance(schema, Mapping) and ("$id" in schema or "id" in schema)
        return self.resolver.in_subresource(self.draft.create_resource(schema)) if has_address else self.resolver


@dataclass(slots=True)
class _Outcome:
    """What applying a schema to a value gives: broken rules, or the names and positions that were evaluated."""

    broken: list[BrokenRule] = field(default_factory=list[BrokenRule])
    evaluated: set[str | int] = field(default_factory=set["str | int"])


class _Call(NamedTuple):
    """A keyword that is applied at a place, and where its result goes."""

    keyword: str
    limit: Any
    at: _Place
    outcome: _Outcome
    validator: Validator

    def fail(self, rule: str | None = None, limit: Any = None) -> None:
        rule, limit = (self.keyword, self.limit) if rule is None else (rule, limit)
        place = self.at
        schema_keys = (*place.schema_keys, self.keyword)
        self.outcome.broken.append(BrokenRule(place.keys, rule, limit, place.value, place.schema, schema_keys))


_Work: TypeAlias = "Generator[_Place, _Outcome, None]"


@dataclass
class Validator:
    """A schema that values can be checked against.

    Attributes:
        schema: The schema.
        formats: Whether the keyword `format` is checked, for the values in `FORMATS`.
    """

    schema: Any
    formats: bool
    _draft: _Draft
    _resolver: Any
    _patterns: dict[str, BoundedPattern] = field(default_factory=dict[str, BoundedPattern])

    def broken_rules(self, value: object) -> list[BrokenRule]:
        """Return the rules that a JSON value does not fit, in the order of the schema.

        Raises:
            BrokenSchemaError: The schema cannot be used: a `$ref` or a pattern in it is wrong.
            LimitError: The check needs more than what is left of the budget of the case.
        """
        if is_deeper(value, MAX_DEPTH):
            return [BrokenRule((), TOO_DEEP, MAX_DEPTH, value, self.schema, ())]
        budget = current_budget()
        # A stack of generators in place of Python's own: each yields the places that it needs the outcomes of.
        stack = [self._apply(_Place(self.schema, value, self._draft, self._resolver), budget)]
        outcome: _Outcome | None = None
        while stack:
            try:
                place = stack[-1].send(outcome)  # type: ignore[arg-type]  # None starts a generator
                stack.append(self._apply(place, budget))
                outcome = None
            except StopIteration as end:
                stack.pop()
                outcome = end.value
        return outcome.broken if outcome else []

    def _apply(self, place: _Place, budget: Budget) -> Generator[_Place, _Outcome, _Outcome]:
        """Apply a schema to a value, all its keywords."""
        outcome = _Outcome()
        schema = place.schema
        budget.spend(_STEPS, "a schema")
        if schema is False:
            outcome.broken.append(BrokenRule(place.keys, None, None, place.value, False, place.schema_keys))
        if not isinstance(schema, Mapping):
            return outcome
        draft = _draft_of(schema, place.draft)
        place = place if draft is place.draft else place._replace(draft=draft)
        rules = draft.rules(schema)
        broken: dict[str, list[BrokenRule]] = {keyword: [] for keyword, _ in rules}
        rules.sort(key=lambda rule: rule[0] in _DEPENDENT)
        for keyword, limit in rules:
            if isinstance(limit, (list, dict)):
                budget.spend(len(limit) // 2, "a schema")
            yield from _apply_keyword(_Call(keyword, limit, place, _Outcome(broken[keyword], outcome.evaluated), self))
        outcome.broken = list(chain.from_iterable(broken.values()))
        if outcome.broken:
            outcome.evaluated = set()  # a schema that does not apply evaluates nothing
        return outcome

    def matches(self, pattern: str, text: str) -> bool:
        """Return whether a pattern of the schema matches somewhere in a text."""
        current_budget().spend(1, "a pattern")
        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = BoundedPattern(pattern)
            except ConfigurationError as error:
                raise BrokenSchemaError(str(error)) from None
        return self._patterns[pattern].search(text)


def build_validator(schema: JsonObject, *, formats: bool) -> Validator | str:
    """Return a validator of a schema, or a text that says what is wrong with the schema.

    With `formats`, the validator also checks `format`, for the values in `FORMATS`.

    Raises:
        LimitError: Checking the schema needs more than what is left of the budget of the case.
        MissingPackageError: jsonschema is not installed.
    """
    import_extra("jsonschema", "jsonschema", _PURPOSE)
    try:
        draft = _draft_of(schema, _draft(None))
    except BrokenSchemaError as error:
        return f"its input_schema is invalid: {error}"
    registry = import_extra("jsonschema_specifications", "jsonschema", _PURPOSE).REGISTRY
    meta_resolver = registry.resolver_with_root(draft.create_resource(draft.meta_schema))
    problems = Validator(draft.meta_schema, True, draft, meta_resolver).broken_rules(schema)
    if problems:
        first = problems[0]
        place = json_path(first.keys)
        value = short_repr(first.value)
        return f"its input_schema is invalid: {value} at {place} does not fit {first.rule} {short_repr(first.limit)}"
    return Validator(schema, formats, draft, registry.resolver_with_root(draft.create_resource(schema)))


# Rules that look at the value alone


def _is_multiple(call: _Call) -> bool:
    value, limit = _exact(call.at.value), _exact(call.limit)
    return value is not None and limit is not None and (value / limit).denominator == 1


def _exact(number: float) -> Fraction | None:
    """Return a number as it is written, 0.1 as a tenth; `None` for NaN and the infinities."""
    if isinstance(number, int):
        return Fraction(number)
    return Fraction(repr(number)) if abs(number) < float("inf") else None


def _is_at_least(call: _Call) -> bool:
    # In draft 4, the bound is excluded by a flag beside it.
    value, limit = call.at.value, call.limit
    return bool(value > limit or (value == limit and call.at.schema.get("exclusiveMinimum") is not True))


def _is_at_most(call: _Call) -> bool:
    value, limit = call.at.value, call.limit
    return bool(value < limit or (value == limit and call.at.schema.get("exclusiveMaximum") is not True))


def _has_distinct_items(call: _Call) -> bool:
    return not call.limit or len(set(map(frozen, call.at.value))) == len(call.at.value)


def _has_type(call: _Call) -> bool:
    types = [call.limit] if isinstance(call.limit, str) else call.limit
    return any(call.at.draft.is_type(call.at.value, name) for name in types)


def _has_format(call: _Call) -> bool:
    return not call.validator.formats or bool(_format_checker().conforms(call.at.value, call.limit))


_NUMBER = float
"""In place of a type in the tables of rules: any number, but no truth value."""


def _is_of(value: object, kind: type) -> bool:
    """Return whether a rule for values of one type applies to a value."""
    return is_number(value) if kind is _NUMBER else isinstance(value, kind)


_TESTS: Final[dict[str, tuple[type, Callable[[_Call], bool]]]] = {
    "type": (object, _has_type),
    "enum": (object, lambda call: any(json_equal(call.at.value, option) for option in call.limit)),
    "const": (object, lambda call: json_equal(call.at.value, call.limit)),
    "format": (object, _has_format),
    "minimum": (_NUMBER, _is_at_least),
    "maximum": (_NUMBER, _is_at_most),
    "exclusiveMinimum": (_NUMBER, lambda call: bool(call.at.value > call.limit)),
    "exclusiveMaximum": (_NUMBER, lambda call: bool(call.at.value < call.limit)),
    "multipleOf": (_NUMBER, _is_multiple),
    "minLength": (str, lambda call: len(call.at.value) >= call.limit),
    "maxLength": (str, lambda call: len(call.at.value) <= call.limit),
    "pattern": (str, lambda call: call.validator.matches(call.limit, call.at.value)),
    "minItems": (list, lambda call: len(call.at.value) >= call.limit),
    "maxItems": (list, lambda call: len(call.at.value) <= call.limit),
    "uniqueItems": (list, _has_distinct_items),
    "minProperties": (dict, lambda call: len(call.at.value) >= call.limit),
    "maxProperties": (dict, lambda call: len(call.at.value) <= call.limit),
    "required": (dict, lambda call: call.at.value.keys() >= set(call.limit)),
}
"""Rules that need no other schema: the values that each applies to, and its test.

A comparison with NaN is false, so that NaN fits no bound.
"""


# Rules that apply further schemas


def _pass_on(call: _Call, places: Iterable[_Place], *, evaluates: bool = False) -> _Work:
    """Add the outcomes of places to that of a call; with `evaluates`, also what they evaluated of the same value."""
    for place in places:
        inner = yield place
        call.outcome.broken.extend(inner.broken)
        if evaluates:
            call.outcome.evaluated.update(inner.evaluated)


def _reference(call: _Call) -> _Work:
    name = f"its {call.keyword} {short_repr(call.limit)}"
    try:
        if call.keyword == "$recursiveRef":
            specifications = import_extra("referencing.jsonschema", "jsonschema", _PURPOSE)
            resolved = specifications.lookup_recursive_ref(call.at.resolver)
        else:
            resolved = call.at.resolver.lookup(call.limit)
    except Exception as error:
        # The text of the error may hold the whole schema, or fail itself on long integers.
        raise BrokenSchemaError(f"{name} cannot be resolved ({type(error).__name__})") from error
    target = id(resolved.contents)
    if target in call.at.references:
        raise BrokenSchemaError(f"{name} leads back to itself")
    steps = () if call.keyword == "$ref" else (call.keyword,)
    place = call.at.under(resolved.contents, *steps)
    place = place._replace(resolver=resolved.resolver, references=call.at.references | {target})
    yield from _pass_on(call, [place], evaluates=True)


def _all_of(call: _Call) -> _Work:
    places = (call.at.under(schema, call.keyword, index) for index, schema in enumerate(call.limit))
    yield from _pass_on(call, places, evaluates=True)


def _fitting(call: _Call) -> Generator[_Place, _Outcome, int]:
    """Return how many of the schemas of a call fit, and note what these evaluated."""
    amount = 0
    for index, schema in enumerate(call.limit):
        inner = yield call.at.under(schema, call.keyword, index)
        amount += not inner.broken
        call.outcome.evaluated.update(inner.evaluated)
    return amount


def _any_of(call: _Call) -> _Work:
    if not (yield from _fitting(call)):
        call.fail()


def _one_of(call: _Call) -> _Work:
    if (yield from _fitting(call)) != 1:
        call.fail()


def _not(call: _Call) -> _Work:
    inner = yield call.at.under(call.limit, call.keyword)
    if not inner.broken:
        call.fail()


def _if(call: _Call) -> _Work:
    condition = yield call.at.under(call.limit, call.keyword)
    call.outcome.evaluated.update(condition.evaluated)
    branch = "else" if condition.broken else "then"
    if branch in call.at.schema:
        yield from _pass_on(call, [call.at.under(call.at.schema[branch], branch)], evaluates=True)


def _properties(call: _Call) -> _Work:
    names = [name for name in call.limit if name in call.at.value]
    call.outcome.evaluated.update(names)
    yield from _pass_on(call, (call.at.below(call.limit[name], name, call.keyword, name) for name in names))


def _pattern_properties(call: _Call) -> _Work:
    for pattern, schema in call.limit.items():
        names = [name for name in call.at.value if call.validator.matches(pattern, name)]
        call.outcome.evaluated.update(names)
        for name in names:
            yield from _pass_on(call, [call.at.below(schema, name, call.keyword, pattern)])


def _other_names(schema: Mapping[str, Any], value: Mapping[str, Any], matches: Callable[[str, str], bool]) -> list[str]:
    properties, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    return [name for name in value if name not in properties and not any(matches(one, name) for one in patterns)]


def _additional_properties(call: _Call) -> _Work:
    names = _other_names(call.at.schema, call.at.value, call.validator.matches)
    call.outcome.evaluated.update(names)
    if call.limit is not False:
        yield from _pass_on(call, (call.at.below(call.limit, name, call.keyword) for name in names))
    elif names:
        call.fail()


def _property_names(call: _Call) -> _Work:
    for name in call.at.value:
        yield from _pass_on(
            call, [call.at.under(call.limit, call.keyword)._replace(value=name, references=frozenset())]
        )


def _dependencies(call: _Call) -> _Work:
    """Apply `dependencies`, or one of the two keywords that replaced it: names to be present, or a further schema."""
    for name, needed in call.limit.items():
        if name not in call.at.value:
            continue
        if isinstance(needed, list):
            if not call.at.value.keys() >= set(needed):
                call.fail()
        else:
            yield from _pass_on(call, [call.at.under(needed, call.keyword, name)], evaluates=True)


def _prefix_items(call: _Call) -> _Work:
    amount = min(len(call.limit), len(call.at.value))
    call.outcome.evaluated.update(range(amount))
    yield from _pass_on(call, (call.at.below(call.limit[index], index, call.keyword, index) for index in range(amount)))


def _items(call: _Call) -> _Work:
    if isinstance(call.limit, list):  # before draft 2020-12
        yield from _prefix_items(call)
    else:
        has_prefix = "prefixItems" in call.at.draft.keywords
        yield from _further_items(call, len(call.at.schema.get("prefixItems", ())) if has_prefix else 0)


def _additional_items(call: _Call) -> _Work:
    prefix = call.at.schema.get("items")
    if isinstance(prefix, list):
        yield from _further_items(call, len(prefix))


def _further_items(call: _Call, start: int) -> _Work:
    positions = range(start, len(call.at.value))
    call.outcome.evaluated.update(positions)
    if call.limit is not False:
        yield from _pass_on(call, (call.at.below(call.limit, index, call.keyword) for index in positions))
    elif positions:
        call.fail()


def _contains(call: _Call) -> _Work:
    fitting: set[str | int] = set()
    for index in range(len(call.at.value)):
        inner = yield call.at.below(call.limit, index, call.keyword)
        if not inner.broken:
            fitting.add(index)
    call.outcome.evaluated.update(fitting)
    limits = call.at.schema if call.at.draft.is_recent else {}
    least, most = limits.get("minContains", 1), limits.get("maxContains", len(fitting))
    if len(fitting) > most:
        call.fail("maxContains", most)
    elif len(fitting) < least:
        call.fail(*(("minContains", least) if fitting else ()))


def _unevaluated(call: _Call) -> _Work:
    places = [key for key, _ in json_items(call.at.value) if key not in call.outcome.evaluated]
    fits = True
    for key in places:
        inner = yield call.at.below(call.limit, key, call.keyword)
        fits = fits and not inner.broken
    call.outcome.evaluated.update(places)
    if not fits:
        call.fail()


_APPLICATORS: Final[dict[str, tuple[type, Callable[[_Call], _Work]]]] = {
    "$ref": (object, _reference),
    "$dynamicRef": (object, _reference),
    "$recursiveRef": (object, _reference),
    "allOf": (object, _all_of),
    "anyOf": (object, _any_of),
    "oneOf": (object, _one_of),
    "not": (object, _not),
    "if": (object, _if),
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional_properties),
    "propertyNames": (dict, _property_names),
    "dependencies": (dict, _dependencies),
    "dependentRequired": (dict, _dependencies),
    "dependentSchemas": (dict, _dependencies),
    "prefixItems": (list, _prefix_items),
    "items": (list, _items),
    "additionalItems": (list, _additional_items),
    "contains": (list, _contains),
    "unevaluatedItems": (list, _unevaluated),
    "unevaluatedProperties": (dict, _unevaluated),
}
"""Rules that apply other schemas: the values that each applies to, and the generator that yields the places."""


def _apply_keyword(call: _Call) -> _Work:
    """Apply a keyword, if the value is of the kind that the keyword is for."""
    if call.keyword in _TESTS:
        kind, test = _TESTS[call.keyword]
        if _is_of(call.at.value, kind) and not test(call):
            call.fail()
        return
    kind, apply = _APPLICATORS[call.keyword]
    if _is_of(call.at.value, kind):
        yield from apply(call)


# Formats

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)


@lru_cache
def _format_checker() -> Any:
    # `FORMATS` alone: what else jsonschema checks depends on which packages are installed.
    checker = import_extra("jsonschema", "jsonschema", _PURPOSE).FormatChecker(formats=FORMATS[:1] + FORMATS[2:])
    # A text of which a test makes an error, of whatever kind, does not have the format.
    checker.checkers = {name: (test, Exception) for name, (test, _) in checker.checkers.items()}
    checker.checkers |= {"date-time": (_is_date_time, Exception), "regex": (_is_pattern, Exception)}
    return checker


def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or (len(value) <= LONGEST_PATTERN and bool(re.compile(value)))


def _is_date_time(value: object) -> bool:
    """Return whether a value is text of an RFC 3339 date and time, which has an offset, or is not text.

    Raises:
        ValueError: There is no such day or time.
    """
    if not isinstance(value, str):
        return True
    if _DATE_TIME.fullmatch(value) is None:
        return False
    seconds = "59" if value[17:19] == "60" else value[17:19]  # RFC 3339 has leap seconds, Python has none
    datetime.fromisoformat(f"{value[:10]}T{value[11:17]}{seconds}")
    return True
