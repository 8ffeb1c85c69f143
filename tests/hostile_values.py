"""Hostile values, and each keyword of JSON Schema and each matcher that must decide them."""

from __future__ import annotations

from typing import Any

from hostile import nested
from toolgrade.expect import (
    Absent,
    AllOf,
    AnyOf,
    Approx,
    Contains,
    ContainsAll,
    DateEqual,
    Exact,
    From,
    Glob,
    Ignore,
    IgnoreCase,
    Matcher,
    Normalized,
    Not,
    Optional,
    Present,
    Regex,
    SameMeaning,
    Schema,
    Similar,
    Subset,
    Superset,
    Unordered,
)

HOSTILE: tuple[Any, ...] = (
    *(10**400, -(10**400), 10**5_000, float("inf"), -float("inf"), float("nan"), 5e-324, 1.7e308, -0.0, True, None),
    *("\ud800", "\ud800" * 3, "x" * 1_000_000, "(" * 20_000, "\u0315\u0300" * 100_000, "1" * 5_000, "\0", ""),
    *(
        nested(10_000, in_objects=False),
        nested(199, in_objects=False),
        {"a": nested(10_000, in_objects=False)},
        {"\ud800": 1, "": {}},
        [[], {}, [{}]],
    ),
    *([float("nan"), 10**400], {str(number): number for number in range(2_000)}, list(range(2_000))),
)

KEYWORDS: tuple[dict[str, Any], ...] = (
    *({"type": name} for name in ("integer", "number", "string", "array", "object", "boolean", "null")),
    *({keyword: limit} for keyword in ("minimum", "maximum", "exclusiveMinimum") for limit in (0, 0.5, 10**400)),
    *({"multipleOf": limit} for limit in (0.01, 3, 1e-300, 10**400)),
    *({"format": name} for name in ("date", "date-time", "email", "ipv4", "ipv6", "regex", "uuid")),
    *({"minLength": 1, "maxLength": 3}, {"pattern": "^x+$"}, {"enum": [1, "x", [1]]}, {"const": {"a": 1}}),
    *({"minItems": 1, "maxItems": 2, "uniqueItems": True}, {"minProperties": 1, "maxProperties": 1}),
    *({"required": ["a"]}, {"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": {"minProperties": 2}}}),
    *({"properties": {"a": {"type": "integer"}}, "additionalProperties": False}, {"propertyNames": {"maxLength": 1}}),
    *({"patternProperties": {"^1": {"type": "integer"}}, "additionalProperties": False}, {"not": {"type": "array"}}),
    *({"prefixItems": [True], "items": {"type": "array"}}, {"contains": {"type": "array"}, "unevaluatedItems": False}),
    *(
        {"allOf": [{"type": "array"}, True]},
        {"anyOf": [{"type": "array"}, False]},
        {"oneOf": [True, {"type": "array"}]},
    ),
    *({"if": {"type": "array"}, "then": {"items": {"$ref": "#"}}, "else": False}, {"items": {"$dynamicRef": "#"}}),
)
MATCHERS: tuple[Matcher, ...] = (
    *(Approx(10**400), Approx(1, abs=10**400), Approx({"a": [1.5]}), Approx(float("nan")), Approx(1, rel=1e308)),
    *(
        Exact(10**400),
        Exact([nested(150, in_objects=False)]),
        AnyOf(1, Present(), Approx(2)),
        Contains("x"),
        Contains(Glob("*x*")),
        ContainsAll("x", Present()),
        AllOf("x", Present()),
        Not(IgnoreCase("x")),
        Similar("x"),
        SameMeaning("1" * 400),
        SameMeaning([nested(150, in_objects=False)]),
    ),
    *(
        Contains(float("nan")),
        IgnoreCase("X" * 10),
        IgnoreCase({"a": "B"}),
        Normalized("x \u0315\u0300"),
        Normalized([1]),
    ),
    *(DateEqual("2024-01-02"), DateEqual("2.1.2024", formats=["%d.%m.%Y", "%G-%V-%u", "("]), Ignore(), Absent()),
    *(Glob("*x*y?[!z]"), Regex("x+"), Regex(r"(\d+)\.?", search=True), Present(), From("search"), Optional(10**400)),
    *(
        Unordered([1, Present()]),
        Subset([Approx(1), "x"]),
        Subset({"a": 1}),
        Superset([1, Glob("*")]),
        Superset({"a": 1}),
    ),
    Schema({"type": "array"}),
)
