"""Validation of values against a JSON Schema by the package jsonschema, within the budget of the case.

A schema and a value both come from strangers, so that jsonschema is used with these changes: every keyword at every
value is paid for from the budget of the case; patterns are searched by the package regex, which can be stopped;
`uniqueItems` takes linear time; multiples are decided on the numbers as they are written; `format` is checked the same
on every machine; `$ref` is never fetched; and no error text is made, which would contain the value.

`Schemas` checks the arguments of calls against the schemas of their tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.budget import LONGEST_PATTERN, BoundedPattern, current_budget, one_budget
from toolgrade._internal.json import JsonObject, canonical_json, is_deeper, json_path, short_repr
from toolgrade.calls import CallStatus, ToolCall, ToolCallType, ToolSpec
from toolgrade.errors import ConfigurationError, LimitError, ToolgradeError
from toolgrade.matching.json_compare import frozen, has_mark

FORMATS: Final = ("date", "date-time", "email", "ipv4", "ipv6", "regex", "uuid")
"""Values of `format` that can be checked, the same on every machine; others are annotations."""

TOO_DEEP: Final = "depth"
"""The rule that a value breaks if it is deeper than `MOST_LEVELS`; no schema accepts it."""

MOST_LEVELS: Final = 64
"""Levels of a value or a schema."""

_MOST_APPLIED: Final = 160
"""Schemas that apply inside of one another; they take up to 600 of the thousand frames of Python's stack."""

_COMPILING: Final = 3
"""Steps of compiling each character of a pattern."""

Keys: TypeAlias = "tuple[str | int, ...]"

_Keyword: TypeAlias = "Callable[[Any, Any, Any, Any], Iterable[Any] | None]"
"""A keyword in jsonschema: yields the errors of a validator, the keyword's value, a value and the schema around."""


class _CheckOptions(NamedTuple):
    """In place of jsonschema's own checker of formats: whether they are checked, and how many schemas are around."""

    formats: bool
    depth: int = 0


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


class Validator(NamedTuple):
    """A schema that values can be checked against, and jsonschema's validator of it."""

    schema: Any
    checker: Any

    def broken_rules(self, value: object) -> list[BrokenRule]:
        """Return the rules that a JSON value does not fit, each once, in the order of the schema.

        Raises:
            BrokenSchemaError: The schema cannot be used: a `$ref` or a pattern in it is wrong.
            LimitError: The check needs more than what is left of the budget of the case.
        """
        if is_deeper(value, MOST_LEVELS):
            return [BrokenRule((), TOO_DEEP, MOST_LEVELS, value, self.schema, ())]
        try:
            with one_budget():
                errors = list(self.checker.iter_errors(_quiet(value)))
        except import_module("referencing.exceptions").Unresolvable as error:
            raise BrokenSchemaError(f"its $ref {short_repr(_plain(error.ref))} cannot be resolved") from None
        except ConfigurationError as error:
            raise BrokenSchemaError(str(error)) from None  # a pattern
        except (BrokenSchemaError, LimitError):
            raise
        except Exception as error:  # a `$ref` can lead to what is not a schema
            raise BrokenSchemaError(f"jsonschema fails with {type(error).__name__}") from error
        broken: dict[tuple[Any, ...], BrokenRule] = {}  # jsonschema has one error for each name that is `required`
        for one in errors:
            keys, schema_keys = (tuple(map(_plain, path)) for path in (one.path, one.schema_path))
            limit, part, schema = map(_plain, (one.validator_value, one.instance, one.schema))
            rule = BrokenRule(keys, one.validator, limit, part, schema, schema_keys)
            broken.setdefault((keys, schema_keys, id(one.schema)), rule)
        return list(broken.values())


def build_validator(schema: JsonObject, *, formats: bool) -> Validator | str:
    """Return a validator of a schema, or a text that says what is wrong with the schema.

    With `formats`, the validator also checks `format`, for the values in `FORMATS`.

    Raises:
        LimitError: Checking the schema needs more than what is left of the budget of the case.
    """
    try:
        return _build_validator(schema, formats=formats)
    except BrokenSchemaError as error:
        return f"its input_schema is invalid: {error}"


def _build_validator(schema: JsonObject, *, formats: bool) -> Validator:
    name = schema.get("$schema")
    draft = _draft(name if isinstance(name, str) else None)
    problems = _meta_validator(draft).broken_rules(schema)
    if problems:
        first = problems[0]
        place = f"{short_repr(first.value)} at {json_path(first.keys)}"
        raise BrokenSchemaError(f"{place} does not fit {first.rule} {short_repr(first.limit)}")
    text = canonical_json(schema)
    if '"patternProperties":' in text and '"unevaluatedProperties":' in text:  # jsonschema would search with `re`
        raise BrokenSchemaError("patternProperties together with unevaluatedProperties is not supported")
    return _validator(draft, schema, formats=formats)


def _validator(draft: Any, schema: Any, *, formats: bool) -> Validator:
    specification = import_module("referencing.jsonschema").specification_with(draft.ID_OF(draft.META_SCHEMA))
    try:
        with one_budget():
            quiet = _quiet(schema)
        resource = specification.create_resource(quiet)
        uri = resource.id() or ""
        # Without a function that fetches, and with all anchors collected once.
        registry = import_module("jsonschema_specifications").REGISTRY.with_resource(uri, resource).crawl()
    except (RecursionError, ValueError, LookupError) as error:
        raise BrokenSchemaError(f"an $id in it cannot be used ({type(error).__name__})") from error
    return Validator(schema, draft(quiet, format_checker=_CheckOptions(formats), _resolver=registry.resolver(uri)))


@lru_cache
def _meta_validator(draft: Any) -> Validator:
    return _validator(draft, draft.META_SCHEMA, formats=True)


@lru_cache
def _draft(name: str | None) -> Any:
    """Return jsonschema's class for the draft that a `$schema` names, by default the latest, with our changes.

    Raises:
        BrokenSchemaError: It is the third draft, which has other keywords.
    """
    validators = import_module("jsonschema.validators")
    latest = validators.Draft202012Validator
    try:
        named = latest if name is None else validators.validator_for({"$schema": name}, default=latest)
    except ValueError:  # not a URI
        named = latest
    if named is validators.Draft3Validator:
        raise BrokenSchemaError("draft 3 of JSON Schema is not supported; use draft 4 or a later one")
    keywords = {word: _paid(word, _KEYWORDS.get(word, apply)) for word, apply in named.VALIDATORS.items()}
    draft: Any = validators.extend(named, keywords)
    descend = draft.descend

    def evolve(self: Any, schema: Any, _resolver: Any = None) -> Any:
        # jsonschema's own changes the class where a schema has `$schema`, to one without limits.
        current_budget().spend(1, "a schema")
        options: _CheckOptions = self.format_checker
        if options.depth == _MOST_APPLIED:
            raise BrokenSchemaError("it is nested too deeply, or a $ref in it leads back to itself")
        options = _CheckOptions(options.formats, options.depth + 1)
        return draft(schema, format_checker=options, _resolver=_resolver or self._resolver)

    def paid_descend(self: Any, instance: Any, schema: Any, **where: Any) -> Any:
        current_budget().spend(3, "a schema")
        if schema is False:  # jsonschema's own error does not say where
            keys, schema_keys = ([where[kind]] if kind in where else [] for kind in ("path", "schema_path"))
            parts = {"validator_value": None, "instance": instance, "schema": False, "schema_path": schema_keys}
            return iter([_error(None, keys, **parts)])
        return descend(self, instance, schema, **where)

    draft.evolve, draft.descend = evolve, paid_descend
    return draft


def _paid(word: str, apply: _Keyword) -> _Keyword:
    """Return a keyword that is paid for from the budget of the case."""
    is_quadratic = word.startswith("unevaluated")  # looks for each entry in a list of the evaluated ones

    def paid(validator: Any, limit: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        steps = 4 + sum(getattr(one, "size", 1) for one in (value, limit)) // 4
        if is_quadratic and isinstance(value, (list, dict)):
            steps += len(value) ** 2 // 8
        current_budget().spend(steps, "a schema")
        return apply(validator, limit, value, schema)

    return paid


# jsonschema writes values into its messages at once; these copies have a short `repr`


class _Quiet:
    """What a copy of a value knows beside the value: the original, and about how many values are inside."""

    plain: Any
    size = 1

    def __repr__(self) -> str:
        return "..."


class _Text(_Quiet, str):  # noqa: SLOT000 - it has attributes
    """Text, with the pattern that it was compiled to, if it is one."""

    compiled: BoundedPattern | None = None


class _Integer(_Quiet, int):
    """An integer, which may have more digits than Python writes."""


class _List(_Quiet, list[Any]):
    """A list of such copies."""


class _Object(_Quiet, dict[str, Any]):
    """An object of such copies, its keys included."""


def _quiet(value: Any) -> Any:
    """Return a deep copy of a JSON value, in which no `repr` is longer than a few characters."""
    copy: _Text | _Integer | _List | _Object
    if isinstance(value, str):
        copy = _Text(value)
        copy.size = 1 + len(value) // 1_000
    elif isinstance(value, int) and not isinstance(value, bool):
        copy = _Integer(value)
        copy.size = 1 + value.bit_length() // 64
    elif isinstance(value, list):
        current_budget().spend(len(value), "a value")
        copy = _List(map(_quiet, value))
        copy.size = 1 + sum(getattr(item, "size", 1) for item in copy)
    elif isinstance(value, dict):
        current_budget().spend(len(value), "a value")
        copy = _Object({_quiet(key): _quiet(item) for key, item in value.items()})
        copy.size = 1 + sum(1 + getattr(item, "size", 1) for item in copy.values())
    else:
        return value
    copy.plain = value
    return copy


def _plain(value: Any) -> Any:
    return value.plain if isinstance(value, _Quiet) else value


# Keywords that jsonschema decides with `re`, in quadratic time, or by rounded numbers


def _test(kind: type | tuple[type, ...], fits: Callable[[Any, Any], bool]) -> _Keyword:
    """Return a keyword that is a test of values of one type."""

    def apply(_validator: Any, limit: Any, value: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(value, kind) and not isinstance(value, bool) and not fits(limit, value):
            yield _error()

    return apply


def _error(*parts: Any, **named_parts: Any) -> Any:
    return import_module("jsonschema").ValidationError("", *parts, **named_parts)


def _matches(pattern: Any, text: str) -> bool:
    """Return whether a pattern of a schema matches somewhere in a text."""
    current_budget().spend(1, "a pattern")
    compiled = getattr(pattern, "compiled", None)
    if compiled is None:
        current_budget().spend(len(pattern) * _COMPILING, "a pattern")
        compiled = BoundedPattern(_plain(pattern))
        if isinstance(pattern, _Text):  # not in a meta-schema
            pattern.compiled = compiled
    return compiled.search(text)


def _is_multiple(limit: float, value: float) -> bool:
    one, other = _exact(value), _exact(limit)
    return one is not None and other is not None and (one / other).denominator == 1


def _exact(number: float) -> Fraction | None:
    """Return a number as it is written, 0.1 as a tenth; `None` for NaN and the infinities."""
    if isinstance(number, int):
        return Fraction(number)
    return Fraction(repr(number)) if abs(number) < float("inf") else None


def _pattern_properties(validator: Any, limit: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for pattern, schema in limit.items():
            for name in value:
                if _matches(pattern, name):
                    yield from validator.descend(value[name], schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, limit: Any, value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        names = _other_names(schema, value, _matches)
        if limit is False and names:
            yield _error()
        elif limit is not False:
            for name in names:
                yield from validator.descend(value[name], limit, path=name)


def _other_names(schema: Mapping[str, Any], value: Mapping[str, Any], matches: Callable[[Any, str], bool]) -> list[str]:
    properties, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    return [name for name in value if name not in properties and not any(matches(one, name) for one in patterns)]


def _format(validator: Any, limit: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if not validator.format_checker.formats or not isinstance(value, str):
        return
    if limit == "regex":
        current_budget().spend(min(len(value), LONGEST_PATTERN) * _COMPILING, "a pattern")
    if not _format_checker().conforms(_plain(value), _plain(limit)):
        yield _error()


_KEYWORDS: Final[Mapping[str, _Keyword]] = {
    "pattern": _test(str, _matches),
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _test(list, lambda limit, value: not limit or len(set(map(frozen, value.plain))) == len(value)),
    "multipleOf": _test((int, float), _is_multiple),
    "format": _format,
}


# Formats

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)


@lru_cache
def _format_checker() -> Any:
    # `FORMATS` alone: what else jsonschema checks depends on which packages are installed.
    checker = import_module("jsonschema").FormatChecker(formats=FORMATS[:1] + FORMATS[2:])
    # All but date-time, which is ours. If a test raises anything, the text does not have the format.
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


MOST_VIOLATIONS = 10
"""Violations of one call that are reported."""

Fit: TypeAlias = Literal[
    "valid", "invalid", "unknown_tool", "provided", "not_captured", "redacted", "no_schema", "unusable"
]
"""Result of validating the arguments of a call, see `Validation`."""


class Violation(NamedTuple):
    """One argument that does not fit its schema.

    `message` does not contain the value, which may be long or secret. `keys` lead from the argument object to the
    place.
    """

    path: str
    message: str
    keys: tuple[str | int, ...] = ()


class Validation(NamedTuple):
    """Result of validating the arguments of one call; `note` says why a schema is unusable.

    `fit` is `valid`, `invalid` (also for text that is not a JSON object), or why the arguments cannot be validated:
    there is no such tool (`unknown_tool`), the provider runs it under a name of its own (`provided`), the arguments
    were not recorded (`not_captured`) or are partly hidden (`redacted`), the tool has no schema (`no_schema`) or a
    broken one (`unusable`).
    """

    fit: Fit
    violations: tuple[Violation, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Schemas:
    """Schemas of the available tools; of several tools with one name, a call must fit one.

    With `formats` the keyword `format` is validated too, as far as `FORMATS` goes.
    """

    tools: Sequence[ToolSpec]
    formats: bool = False
    _validators: dict[int, Validator | str] = field(default_factory=dict[int, Validator | str], init=False, repr=False)

    def offers(self, call: ToolCall) -> bool:
        """Return whether the called tool was available, or the provider runs it under a name of its own."""
        return any(tool.name == call.name for tool in self.tools) or _provided(call)

    def check(self, call: ToolCall) -> Validation:
        """Validate the arguments of a call.

        Raises:
            LimitError: Checking the calls of this case needs more steps or time than it may take.
        """
        if call.execution is not None and call.execution.status is CallStatus.INVALID_ARGUMENTS:
            return Validation("invalid", (Violation("$.input_parameters", "the arguments are not a JSON object"),))
        specs = [(index, tool) for index, tool in enumerate(self.tools) if tool.name == call.name]
        if not specs:
            return Validation("provided" if _provided(call) else "unknown_tool")
        if not call.captured("input_parameters"):
            return Validation("not_captured")
        # The mark in place of a hidden value fits no schema, whatever the value was.
        return Validation("redacted") if has_mark(call.arguments) else self._best(specs, call.arguments)

    def _best(self, specs: Sequence[tuple[int, ToolSpec]], arguments: JsonObject) -> Validation:
        # Of several tools of one name, that fits whose schema does.
        results = [self._validate(index, tool.input_schema, arguments) for index, tool in specs]
        return next((result for result in results if result.fit != "invalid"), results[0])

    def _validate(self, index: int, schema: JsonObject | None, arguments: JsonObject) -> Validation:
        if schema is None:
            return Validation("no_schema")
        if index not in self._validators:
            self._validators[index] = build_validator(schema, formats=self.formats)
        validator = self._validators[index]
        if isinstance(validator, str):
            return Validation("unusable", note=validator)
        try:
            broken = sorted(validator.broken_rules(arguments), key=lambda rule: list(map(str, rule.keys)))
        except BrokenSchemaError as error:
            return Validation("unusable", note=f"its input_schema cannot be used: {error}")
        return Validation("invalid" if broken else "valid", tuple(map(_violation, broken[:MOST_VIOLATIONS])))


def _provided(call: ToolCall) -> bool:
    """Return whether a call is of a provider's or a server's tool, which may be offered under another name or none.

    A call that the recording marks as of an unknown tool is not.
    """
    unknown = call.execution is not None and call.execution.status is CallStatus.UNKNOWN_TOOL
    return call.type in {ToolCallType.HOSTED, ToolCallType.MCP} and not unknown


def _violation(broken: BrokenRule) -> Violation:
    return Violation(json_path(("input_parameters", *broken.keys)), violation_text(broken), broken.keys)


def violation_text(broken: BrokenRule) -> str:
    """Return the text of a broken rule, without the value, which may be long or secret."""
    if broken.rule == "required":
        return f"lacks {', '.join(repr(name) for name in broken.limit if name not in broken.value)}"
    if broken.rule == "additionalProperties" and broken.limit is False:
        return f"has arguments that the tool does not take: {', '.join(map(short_repr, broken.other_names()))}"
    if broken.rule == TOO_DEEP:
        return f"is deeper than {broken.limit} levels of lists and objects"
    if broken.rule is None:
        return "is not allowed: its schema is false"
    return f"does not fit {broken.rule} {short_repr(broken.limit)}"
