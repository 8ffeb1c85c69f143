"""Validators of JSON Schema, made by the package jsonschema.

Draft 2020-12, or whatever other draft a schema names in `$schema`. A `$ref` that leads out of a schema is never
fetched, and a `pattern` cannot hang.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib import import_module
from typing import Any

from toolmark._internal.json import JsonObject
from toolmark._internal.regex import BoundedPattern
from toolmark.errors import MissingPackageError

FORMATS = ("date", "date-time", "email", "ipv4", "ipv6", "regex", "uuid")
"""Values of `format` that can be checked, the same on every machine; others are annotations."""


def build_validator(schema: JsonObject, *, formats: bool) -> Any:  # noqa: ANN401 - of jsonschema, which has no types
    """Return a validator of a schema, or the text that says what is wrong with the schema.

    Args:
        schema: The schema.
        formats: Check `format` too, as far as `FORMATS` goes.

    Raises:
        MissingPackageError: jsonschema is not installed.
    """
    try:
        jsonschema = import_module("jsonschema")
        referencing = import_module("referencing")
    except ImportError as error:
        purpose = "checking values against a JSON Schema"
        raise MissingPackageError.of("jsonschema", "judge", purpose) from error
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a schema, it is no reason to fail
        return f"its input_schema is invalid ({str(error).splitlines()[0]})"
    checker = _format_checker(jsonschema) if formats else None
    # An empty registry: the default one would fetch.
    bounded = jsonschema.validators.extend(kind, {"pattern": _pattern(jsonschema), "patternProperties": _properties})
    return bounded(schema, registry=referencing.Registry(), format_checker=checker)


def _pattern(jsonschema: Any) -> Callable[..., Iterator[Any]]:  # noqa: ANN401 - as above
    def pattern(_: Any, expression: str, instance: object, __: object) -> Iterator[Any]:  # noqa: ANN401 - as above
        if isinstance(instance, str) and not BoundedPattern(expression).search(instance):
            yield jsonschema.ValidationError(f"{instance!r} does not match {expression!r}")

    return pattern


def _properties(validator: Any, patterns: JsonObject, instance: object, _: object) -> Iterator[Any]:  # noqa: ANN401 - as above
    if not isinstance(instance, dict):
        return
    for expression, subschema in patterns.items():
        bounded = BoundedPattern(expression)
        for name, value in instance.items():
            if bounded.search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=expression)


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)


def _format_checker(jsonschema: Any) -> Any:  # noqa: ANN401 - as above
    """Return a checker of `FORMATS` alone: what else jsonschema checks depends on which packages are installed."""
    checker = jsonschema.FormatChecker(formats=[name for name in FORMATS if name != "date-time"])
    checker.checkers = {**checker.checkers, "date-time": (_is_date_time, ValueError)}
    return checker


def _is_date_time(value: object) -> bool:
    """Return whether text is a date and time of RFC 3339, which has an offset; anything but text is.

    Raises:
        ValueError: There is no such day or time.
    """
    if not isinstance(value, str):
        return True
    if _DATE_TIME.fullmatch(value) is None:
        return False
    seconds = value[17:19]  # a leap second is one, and Python has none
    datetime.fromisoformat(f"{value[:10]}T{value[11:17]}{'59' if seconds == '60' else seconds}")
    return True
