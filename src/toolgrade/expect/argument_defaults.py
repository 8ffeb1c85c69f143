"""Arguments that a call may leave out, by the JSON Schema of its tool, and the values that mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from toolgrade._internal.message_content import object_of
from toolgrade.matching.json_compare import ABSENT

_MOST_PARTS: Final = 16
"""Schemas that are looked through for one value; a `$ref` may lead to itself."""


class ArgumentSchema(NamedTuple):
    """The JSON Schema of a value, and the whole schema, to which a `$ref` in it refers; both as a stranger wrote them.

    Example:
        >>> from toolgrade.expect.argument_defaults import ArgumentSchema
        >>> bags, meal = {"type": "integer", "default": 0}, {"type": ["string", "null"]}
        >>> tool = {"properties": {"seat": {}, "bags": bags, "meal": meal}, "required": ["seat", "meal"]}
        >>> ArgumentSchema(tool, tool).omissible()
        {'bags': (ABSENT, None, 0), 'meal': (ABSENT, None)}
    """

    part: Any
    document: Any

    def omissible(self) -> dict[str, tuple[Any, ...]]:
        """Return, for each key that may be left out, what means the same as leaving it out.

        A key may be left out if it is not `required`, has a `default`, or may be `null`: strict tools require every
        argument, and let those that are optional be `null`. Its `default` means the same, and so does `null`; unless
        `null` is allowed and the default is another value: `null` is then a value of its own.
        """
        same: dict[str, tuple[Any, ...]] = {}
        for part in self.parts():
            required = part.get("required")
            for key in object_of(part.get("properties")):
                parts = self.property(key).parts()
                default = next((one["default"] for one in parts if "default" in one), ABSENT)
                is_nullable = any(map(_allows_null, parts))
                if default is not ABSENT or is_nullable or not (isinstance(required, list) and key in required):
                    values = () if is_nullable and default not in (ABSENT, None) else (None,)
                    same[key] = (ABSENT, *values, *(() if default in (ABSENT, None) else (default,)))
        return same

    def property(self, key: str) -> ArgumentSchema:
        """Return the schema of a key of an object."""
        properties = (part.get("properties") for part in self.parts())
        inner = next((one[key] for one in properties if isinstance(one, Mapping) and key in one), None)
        return self._replace(part=inner)

    def items(self) -> ArgumentSchema:
        """Return the schema of the items of a list."""
        return self._replace(part=next((part["items"] for part in self.parts() if "items" in part), None))

    def parts(self) -> list[Mapping[str, Any]]:
        """Return the schemas that all describe the value, and `null` if it is one of several.

        Of alternatives, the only one beside `null` describes it; if there are several, none does.
        """
        parts: list[Mapping[str, Any]] = []
        rest = [self.part]
        while rest and len(parts) < _MOST_PARTS:
            part = rest.pop(0)
            if not isinstance(part, Mapping):
                continue
            parts.append(part)
            rest.append(self._referent(part.get("$ref")))
            for name in ("allOf", "anyOf", "oneOf"):
                branches = part.get(name)
                branches = branches if isinstance(branches, list) else []
                nulls = [one for one in branches if object_of(one).get("type") == "null"]
                others = [one for one in branches if one not in nulls]
                rest += nulls if name != "allOf" and len(others) > 1 else branches
        return parts

    def _referent(self, reference: object) -> Any:
        """Return what a `$ref` refers to within the document (RFC 6901), `None` if it refers to anything else."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        place = self.document
        for key in reference.removeprefix("#/").split("/"):
            place = place.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
        return place


ANY_VALUE: Final = ArgumentSchema(None, None)
"""The schema of a value of which nothing is known."""


def _allows_null(part: Mapping[str, Any]) -> bool:
    kind, values = part.get("type"), part.get("enum")
    is_listed = any(isinstance(one, list) and name in one for one, name in ((kind, "null"), (values, None)))
    return is_listed or kind == "null" or part.get("nullable") is True or ("const" in part and part["const"] is None)
