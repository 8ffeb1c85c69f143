"""Validators of JSON Schema, built with the package jsonschema.

Draft 2020-12, or the draft that a schema names in `$schema`. A `$ref` to another document is never fetched, and a
`pattern` cannot hang.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from toolmark._internal.json import JsonObject
from toolmark._internal.lazy_imports import import_extra
from toolmark._internal.regex import BoundedPattern

FORMATS = ("date", "date-time", "email", "ipv4", "ipv6", "regex", "uuid")
"""Values of `format` that can be checked, the same on every machine; others are annotations."""


def build_validator(schema: JsonObject, *, formats: bool) -> Any:  # noqa: ANN401 - of jsonschema, which has no types
    """Return a validator of a schema, or a text that says what is wrong with the schema.

    With `formats`, the validator also checks `format`, for the values in `FORMATS`.

    Raises:
        MissingPackageError: jsonschema is not installed.
    """
    jsonschema = import_extra("jsonschema", "judge", "checking values against a JSON Schema")
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        draft.check_schema(schema)
    except Exception as error:  # noqa: BLE001 - a broken schema of a tool is reported, never raised
        return f"its input_schema is invalid ({str(error).splitlines()[0]})"
    # jsonschema's own keywords search with `re`, which can hang on a pattern.
    bounded = jsonschema.validators.extend(
        draft, {"pattern": _pattern_keyword(jsonschema), "patternProperties": _pattern_properties}
    )
    # With an empty registry nothing is fetched; the default one fetches references.
    registry = import_extra("referencing", "judge", "checking values against a JSON Schema").Registry()
    return bounded(schema, registry=registry, format_checker=_format_checker(jsonschema) if formats else None)


def _pattern_keyword(jsonschema: Any) -> Callable[..., Iterator[Any]]:  # noqa: ANN401 - as above
    def check(_: Any, expression: str, instance: object, __: object) -> Iterator[Any]:  # noqa: ANN401 - as above
        if isinstance(instance, str) and not BoundedPattern(expression).search(instance):
            yield jsonschema.ValidationError(f"{instance!r} does not match {expression!r}")

    return check


def _pattern_properties(validator: Any, patterns: JsonObject, instance: object, _: object) -> Iterator[Any]:  # noqa: ANN401 - as above
    if not isinstance(instance, dict):
        return
    for expression, subschema in patterns.items():
        bounded = BoundedPattern(expression)
        for name, value in instance.items():
            if bounded.search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=expression)


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)


def _format_checker(jsonschema: Any) -> Any:  # noqa: ANN401 - as above
    # `FORMATS` alone: what else jsonschema checks depends on which packages are installed.
    checker = jsonschema.FormatChecker(formats=[name for name in FORMATS if name != "date-time"])
    checker.checkers = {**checker.checkers, "date-time": (_is_date_time, ValueError)}
    return checker


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
